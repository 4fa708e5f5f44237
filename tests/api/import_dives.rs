//! Deep dives of an export of this program, and their results.

use serde_json::{Value, json};

use crate::{
    exports::archive,
    imports::{OFF, imported, state, sums, unlimited_team},
    support::{Person, TestApp, id, list, text, within},
};

/// The first deep dive of a channel's threads.
async fn dive_in(by: &Person, channel: &str) -> Value {
    for thread in by.every(&format!("/v1/channels/{channel}/threads")).await {
        let forks = by
            .every(&format!("/v1/threads/{}/forks", id(&thread)))
            .await;
        if let Some(fork) = forks.first() {
            return fork.clone();
        }
    }
    panic!("no deep dive in {channel}");
}

async fn counts(app: &TestApp) -> Vec<i64> {
    let mut all = Vec::new();
    for table in [
        "forks",
        "resolutions",
        "action_items",
        "messages",
        "threads",
        "tasks",
        "inbox_items",
    ] {
        all.push(app.place.count(table).await);
    }
    all
}

async fn undo(by: &Person) {
    let imports = by.get("/v1/imports").await.ok();
    for import in list(&imports, "/data") {
        if import["state"] == "done" {
            by.delete(&format!("/v1/imports/{}", id(&import)))
                .await
                .is(202);
            state(by, &id(&import), "undone").await;
        }
    }
}

async fn other_server() -> (TestApp, Person) {
    let app = TestApp::with(&[OFF]).await;
    let zoe = app.founder("Zoe").await;
    (app, zoe)
}

fn n_of(report: &Value, kind: &str) -> Value {
    let n = &report["kinds"][kind];
    json!([n["imported"], n["existing"], n["left_out"]])
}

#[tokio::test]
async fn a_deep_dive_is_restored_with_its_messages_and_its_result() {
    let t = unlimited_team().await;
    let dive = t.dive().await;
    let said = t.bo.tell_in(&dive.fork, "Monday suits everybody.").await;
    t.ada.tell_in(&dive.fork, "Then Monday.").await;
    let result = json!({"headline": "Ship on Monday", "conclusion": "Both agreed.",
        "key_points": [{"text": "Two quiet days", "sources": [said, dive.root]}],
        "open_questions": [{"text": "Who tells the press?", "sources": []}]});
    t.ada.publish_as(&dive.fork, result).await;
    let first = archive(&t.ada, json!({})).await;

    let (app, zoe) = other_server().await;
    let before = counts(&app).await;
    let report = imported(&zoe, &first).await;
    sums(&report);
    assert_eq!(n_of(&report, "forks"), json!([1, 0, 0]), "{report}");
    assert_eq!(n_of(&report, "resolutions"), json!([1, 0, 0]), "{report}");
    let general = id(&zoe.channel("general").await);
    let fork = dive_in(&zoe, &general).await;
    assert_eq!(
        (&fork["title"], &fork["status"]),
        (&json!("The day"), &json!("resolved"))
    );
    assert_eq!(fork["message_count"], 2);
    let messages = zoe.messages_in(&id(&fork)).await;
    let texts: Vec<String> = messages.iter().map(|m| text(m, "/content")).collect();
    assert_eq!(texts, ["Monday suits everybody.", "Then Monday."]);
    assert_eq!(messages[0]["author"]["name"], "Bo");
    let people = zoe.every("/v1/members/placeholders").await;
    let ada = people
        .iter()
        .find(|person| person["name"] == "Ada")
        .unwrap();
    assert_eq!(fork["created_by"], ada["user_id"]);

    // The sources are the messages here, and the result is that of its message.
    let result = zoe.resolution(&id(&fork)).await;
    assert_eq!(
        (&result["headline"], &result["version"]),
        (&json!("Ship on Monday"), &json!(1))
    );
    let sources = &result["key_points"][0]["sources"];
    assert_eq!(*sources, json!([messages[0]["id"], fork["message_id"]]));
    assert_eq!(result["open_questions"][0]["text"], "Who tells the press?");
    let thread = zoe.messages(&text(&fork, "/thread_id")).await;
    let card = thread
        .iter()
        .find(|m| m["id"] == result["message_id"])
        .unwrap();
    assert_eq!(
        (&card["kind"], &card["parent_id"]),
        (&json!("resolution"), &fork["message_id"])
    );
    assert_eq!(card["metadata"]["resolution_id"], result["id"]);
    assert_eq!(result["published_by"]["name"], "Ada");
    let decisions = zoe.get("/v1/decisions?q=monday").await.ok();
    assert_eq!(list(&decisions, "/data").len(), 1, "{decisions}");
    let found = zoe.get("/v1/search?q=suits").await.ok();
    assert_eq!(list(&found, "/data").len(), 1, "{found}");

    // Nothing starts, and nobody is notified.
    let after = counts(&app).await;
    assert_eq!(after[5..], before[5..]);
    let mine = zoe.my_fork(&id(&fork)).await;
    assert_eq!(mine["unread_count"], 0);

    // Again: nothing new.
    let again = imported(&zoe, &first).await;
    sums(&again);
    for kind in ["forks", "resolutions", "messages"] {
        assert_eq!(again["kinds"][kind]["imported"], 0, "{kind}: {again}");
    }
    assert_eq!(counts(&app).await, after);
    // Undone: as before.
    undo(&zoe).await;
    assert_eq!(counts(&app).await, before);
    let known = "select kind from imported where kind in ('forks', 'resolutions', 'messages')";
    assert_eq!(app.place.texts(known).await, Vec::<String>::new());
}

#[tokio::test]
async fn a_later_archive_adds_what_happened_in_a_deep_dive_since() {
    let t = unlimited_team().await;
    let dive = t.dive().await;
    let said = t.bo.tell_in(&dive.fork, "Monday suits everybody.").await;
    let draft =
        json!({"headline": "Monday?", "key_points": [{"text": "Quiet", "sources": [said]}]});
    t.ada.begin_draft(&dive.fork, draft).await;
    let first = archive(&t.ada, json!({})).await;
    t.ada.publish(&dive.fork).await;
    t.ada.reopen(&dive.fork).await;
    t.bo.tell_in(&dive.fork, "Or Tuesday?").await;
    t.ada
        .publish_as(&dive.fork, json!({"headline": "Tuesday"}))
        .await;
    let second = archive(&t.ada, json!({})).await;

    let (app, zoe) = other_server().await;
    let before = counts(&app).await;
    let report = imported(&zoe, &first).await;
    assert_eq!(n_of(&report, "resolutions"), json!([1, 0, 0]), "{report}");
    let general = id(&zoe.channel("general").await);
    let fork = id(&dive_in(&zoe, &general).await);
    assert_eq!(zoe.resolution(&fork).await["status"], "draft");
    let report = imported(&zoe, &second).await;
    sums(&report);
    assert_eq!(n_of(&report, "resolutions"), json!([2, 0, 0]), "{report}");
    assert_eq!(
        zoe.contents_in(&fork).await,
        ["Monday suits everybody.", "Or Tuesday?"]
    );
    let newest = zoe.resolution(&fork).await;
    assert_eq!(
        (&newest["status"], &newest["headline"]),
        (&json!("published"), &json!("Tuesday"))
    );
    let versions = zoe.every(&format!("/v1/forks/{fork}/resolutions")).await;
    let shown: Vec<(String, String)> = versions
        .iter()
        .map(|one| (text(one, "/headline"), text(one, "/status")))
        .collect();
    let expected = [("Monday?", "superseded"), ("Tuesday", "published")];
    assert_eq!(shown, expected.map(|(a, b)| (a.to_owned(), b.to_owned())));

    // In any order, the later one wins.
    let (other, yan) = other_server().await;
    imported(&yan, &second).await;
    imported(&yan, &first).await;
    let general = id(&yan.channel("general").await);
    let fork = id(&dive_in(&yan, &general).await);
    assert_eq!(yan.resolution(&fork).await["headline"], "Tuesday");
    assert_eq!(counts(&other).await, counts(&app).await);
    undo(&zoe).await;
    assert_eq!(counts(&app).await, before);
}

#[tokio::test]
async fn undoing_keeps_a_deep_dive_in_which_somebody_wrote() {
    let t = unlimited_team().await;
    t.resolved("Monday it is").await;
    let first = archive(&t.ada, json!({})).await;
    let (app, zoe) = other_server().await;
    imported(&zoe, &first).await;
    let general = id(&zoe.channel("general").await);
    let fork = id(&dive_in(&zoe, &general).await);
    zoe.reopen(&fork).await;
    zoe.tell_in(&fork, "Is it still Monday?").await;
    undo(&zoe).await;
    let kept = zoe.messages_in(&fork).await;
    let texts: Vec<String> = kept.iter().map(|m| text(m, "/content")).collect();
    assert_eq!(texts, ["", "Is it still Monday?"]);
    let headlines = app.place.texts("select headline from resolutions").await;
    assert_eq!(headlines, [""]);
    // Its people stay, because it names them.
    let people = zoe.every("/v1/members/placeholders").await;
    assert!(
        people.iter().any(|person| person["name"] == "Ada"),
        "{people:?}"
    );
}

#[tokio::test]
async fn deep_dives_of_private_channels_show_nobody_more_than_before() {
    let t = unlimited_team().await;
    let secret = t.bo.private_channel("hushhush", &[]).await;
    let started = t.bo.start(&secret, "The merger").await;
    let (thread, root) = (text(&started, "/thread/id"), text(&started, "/message/id"));
    let form = json!({"title": "The price", "agent_id": null});
    let fork = id(&t.bo.start_fork(&thread, &root, form).await);
    t.bo.tell_in(&fork, "Nine million").await;
    t.bo.publish_as(&fork, json!({"headline": "Nine million it is"}))
        .await;
    let mine = archive(&t.bo, json!({"scope": "mine"})).await;

    let (_app, zoe) = other_server().await;
    let report = imported(&zoe, &mine).await;
    assert_eq!(n_of(&report, "forks"), json!([1, 0, 0]), "{report}");
    let decisions = zoe.get("/v1/decisions").await.ok();
    assert_eq!(list(&decisions, "/data").len(), 0, "{decisions}");
    let found = zoe.get("/v1/search?q=million").await.ok();
    assert_eq!(list(&found, "/data").len(), 0, "{found}");
}

#[tokio::test]
async fn a_deep_dive_of_a_placeholder_becomes_that_of_a_member() {
    let t = unlimited_team().await;
    t.resolved("Monday it is").await;
    let first = archive(&t.ada, json!({})).await;
    let (app, zoe) = other_server().await;
    imported(&zoe, &first).await;
    let general = id(&zoe.channel("general").await);
    let fork = id(&dive_in(&zoe, &general).await);
    let ada = text(&zoe.fork(&fork).await, "/created_by");
    let new = app.join(&zoe, "Adele", "member").await;
    let merge = format!("/v1/members/{ada}/merge");
    zoe.post(&merge, json!({"into": new.id})).await.is(202);
    within("the merge", async {
        while zoe.fork(&fork).await["created_by"] != new.id.as_str() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let result = zoe.resolution(&fork).await;
    assert_eq!(result["published_by"]["name"], "Adele");
    assert_eq!(result["edited_by"], json!([new.id]));
}
