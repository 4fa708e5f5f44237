//! Deep dives of an export of this program, and their results.

use serde_json::{Value, json};

use crate::{
    exports::archive,
    imports::{
        OFF, confirm, imported, json_lines, placeholder, state, sums, unlimited_team, zipped,
    },
    support::{Person, TestApp, TestFork, id, list, text, unknown_id, within},
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

/// Action items of published results: text, name of the owner, and whether it is done.
fn states(items: &[Value]) -> Vec<(String, String, bool)> {
    let states = items.iter().map(|item| {
        let owner = item["owner_name"].as_str().unwrap_or_default();
        (text(item, "/text"), owner.to_owned(), item["done"] == true)
    });
    states.collect()
}

#[tokio::test]
async fn action_items_keep_their_owners_dates_and_states() {
    let t = unlimited_team().await;
    let dive = t.dive().await;
    let said = t.bo.tell_in(&dive.fork, "Monday suits everybody.").await;
    let items = json!([
        {"text": "Book the room", "owner_id": t.bo.id, "due": "2026-12-01", "sources": [said]},
        {"text": "Tell the press", "owner_name": "Press office"},
        {"text": "Order lunch", "owner_id": t.ada.id}]);
    let form = json!({"headline": "Ship on Monday", "action_items": items});
    let published = t.ada.publish_as(&dive.fork, form).await;
    let items = list(&published, "/resolution/action_items");
    let lunch = format!("/v1/action-items/{}", id(&items[2]));
    t.ada.patch(&lunch, json!({"done": true})).await.ok();
    let first = archive(&t.ada, json!({})).await;
    t.ada.reopen(&dive.fork).await;
    let kept = json!([{"id": items[0]["id"], "text": "Book the large room", "owner_id": t.bo.id}]);
    let form = json!({"headline": "Ship on Monday at noon", "action_items": kept});
    t.ada.publish_as(&dive.fork, form).await;
    let second = archive(&t.ada, json!({})).await;

    let (app, zoe) = other_server().await;
    let before = counts(&app).await;
    let report = imported(&zoe, &first).await;
    sums(&report);
    assert_eq!(n_of(&report, "action_items"), json!([3, 0, 0]), "{report}");
    let here = zoe.every("/v1/action-items").await;
    let mut found = states(&here);
    found.sort();
    let expected = [
        ("Book the room", "Bo", false),
        ("Order lunch", "Ada", true),
        ("Tell the press", "Press office", false),
    ];
    let expected = expected.map(|(text, owner, done)| (text.to_owned(), owner.to_owned(), done));
    assert_eq!(found, expected);
    let room = here
        .iter()
        .find(|item| item["text"] == "Book the room")
        .unwrap();
    assert_eq!(room["due"], "2026-12-01");
    let messages = zoe.messages_in(&text(room, "/fork_id")).await;
    assert_eq!(room["sources"], json!([messages[0]["id"]]));
    let lunch = here
        .iter()
        .find(|item| item["text"] == "Order lunch")
        .unwrap();
    assert_eq!(lunch["done_by"], lunch["owner_id"]);
    assert!(lunch["done_at"].is_string(), "{lunch}");

    // An item that was completed here stays completed.
    let path = format!("/v1/action-items/{}", id(room));
    zoe.patch(&path, json!({"done": true})).await.ok();
    let again = imported(&zoe, &first).await;
    assert_eq!(n_of(&again, "action_items"), json!([0, 3, 0]), "{again}");
    let report = imported(&zoe, &second).await;
    sums(&report);
    assert_eq!(n_of(&report, "action_items"), json!([1, 0, 0]), "{report}");
    let here = zoe.every("/v1/action-items").await;
    let expected = ("Book the large room".to_owned(), "Bo".to_owned(), true);
    assert_eq!(states(&here), [expected]);
    assert_eq!(here[0]["id"], room["id"]);
    assert_eq!(here[0]["done_by"], zoe.id.as_str());
    assert_eq!(counts(&app).await[5], before[5]);
    undo(&zoe).await;
    assert_eq!(counts(&app).await[..5], before[..5]);
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
    let secret = t.ada.private_channel("hushhush", &[]).await;
    let started = t.ada.start(&secret, "The merger").await;
    let (thread, root) = (text(&started, "/thread/id"), text(&started, "/message/id"));
    let form = json!({"title": "The price", "agent_id": null});
    let fork = id(&t.ada.start_fork(&thread, &root, form).await);
    t.ada.tell_in(&fork, "Nine million").await;
    t.ada
        .publish_as(&fork, json!({"headline": "Nine million it is"}))
        .await;
    let mine = archive(&t.ada, json!({"scope": "mine"})).await;

    let (_app, zoe) = other_server().await;
    let report = imported(&zoe, &mine).await;
    assert_eq!(n_of(&report, "forks"), json!([1, 0, 0]), "{report}");
    let decisions = zoe.get("/v1/decisions").await.ok();
    assert_eq!(list(&decisions, "/data").len(), 0, "{decisions}");
    let found = zoe.get("/v1/search?q=million").await.ok();
    assert_eq!(list(&found, "/data").len(), 0, "{found}");
}

#[tokio::test]
async fn a_title_from_a_message_is_deleted_with_the_message() {
    let t = unlimited_team().await;
    let started = t.bo.start(&t.general, "The merger").await;
    let (thread, root) = (text(&started, "/thread/id"), text(&started, "/message/id"));
    let form = json!({"title": "Nine million", "agent_id": null});
    let fork = id(&t.bo.start_fork(&thread, &root, form).await);
    t.bo.tell_in(&fork, "Nine million").await;
    let first = archive(&t.ada, json!({})).await;

    let (_app, zoe) = other_server().await;
    imported(&zoe, &first).await;
    let general = id(&zoe.channel("general").await);
    let fork = dive_in(&zoe, &general).await;
    assert_eq!(fork["title"], "Nine million");
    let said = id(&zoe.messages_in(&id(&fork)).await[0]);
    zoe.delete(&format!("/v1/messages/{said}")).await.is(200);
    assert_eq!(zoe.fork(&id(&fork)).await["title"], "Deep dive");
    // Importing it once more does not bring it back.
    imported(&zoe, &first).await;
    assert_eq!(zoe.fork(&id(&fork)).await["title"], "Deep dive");
}

#[tokio::test]
async fn a_later_archive_brings_back_no_text_of_an_erased_person() {
    let t = unlimited_team().await;
    confirm(&t, &t.bo, "bo@example.com").await;
    let started = t.ada.start(&t.general, "The merger").await;
    let (thread, root) = (text(&started, "/thread/id"), text(&started, "/message/id"));
    let first = archive(&t.ada, json!({})).await;
    let form = json!({"title": "What Bo wants", "description": "Bo needs money", "agent_id": null});
    let fork = id(&t.bo.start_fork(&thread, &root, form).await);
    t.ada.tell_in(&fork, "Nine million").await;
    let second = archive(&t.ada, json!({})).await;

    let (app, zoe) = other_server().await;
    let robert = app.join(&zoe, "Robert", "member").await;
    let sql = "update users set email = 'bo@example.com', email_confirmed_at = created_at where name = 'Robert'";
    app.place.run(&[sql]).await;
    imported(&zoe, &first).await;
    zoe.erase(&robert).await;
    let report = imported(&zoe, &second).await;
    sums(&report);
    let general = id(&zoe.channel("general").await);
    let fork = dive_in(&zoe, &general).await;
    assert_eq!(
        (&fork["title"], &fork["description"]),
        (&json!("Deep dive"), &Value::Null)
    );
    assert_eq!(zoe.contents_in(&id(&fork)).await, ["Nine million"]);
}

#[tokio::test]
async fn importing_again_does_not_restore_an_erased_name_in_a_result() {
    let t = unlimited_team().await;
    confirm(&t, &t.bo, "bo@example.com").await;
    let dive = t.dive().await;
    let items = json!([{"text": "Book the room", "owner_id": t.bo.id}]);
    let form = json!({"headline": "Monday it is", "action_items": items});
    t.ada.publish_as(&dive.fork, form).await;
    let first = archive(&t.ada, json!({})).await;

    let (app, zoe) = other_server().await;
    let robert = app.join(&zoe, "Robert", "member").await;
    let sql = "update users set email = 'bo@example.com', email_confirmed_at = created_at where name = 'Robert'";
    app.place.run(&[sql]).await;
    imported(&zoe, &first).await;
    let general = id(&zoe.channel("general").await);
    let fork = dive_in(&zoe, &general).await;
    let thread = text(&fork, "/thread_id");
    let before = zoe.contents(&thread).await;
    assert!(before[1].contains("(Bo)"), "{before:?}");
    zoe.erase(&robert).await;
    let erased = zoe.contents(&thread).await;
    assert!(!erased[1].contains("(Bo)"), "{erased:?}");
    imported(&zoe, &first).await;
    assert_eq!(zoe.contents(&thread).await, erased);
    let result = zoe.resolution(&id(&fork)).await;
    assert_eq!(result["action_items"][0]["owner_id"], Value::Null);
}

#[tokio::test]
async fn a_deep_dive_of_a_placeholder_becomes_that_of_a_member() {
    let t = unlimited_team().await;
    let dive = t.dive().await;
    let items = json!([{"text": "Book the room", "owner_id": t.ada.id}]);
    let form = json!({"headline": "Monday it is", "action_items": items});
    t.ada.publish_as(&dive.fork, form).await;
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
            crate::support::pause().await;
        }
    })
    .await;
    let result = zoe.resolution(&fork).await;
    assert_eq!(result["action_items"][0]["owner_id"], new.id.as_str());
    assert_eq!(result["published_by"]["name"], "Adele");
    assert_eq!(result["edited_by"], json!([new.id]));
}

/// A message of an archive.
fn message(key: &str, fork: Option<&str>, root: Option<&str>) -> Value {
    let at = "2025-05-03T10:00:00.000Z";
    json!({"id": key, "kind": "text", "content": format!("Text of {key}"), "created_at": at, "fork_id": fork,
        "author": {"type": "human", "id": "user_1", "name": "Ulla"}, "attachments": [], "reactions": [],
        "root": root.map(|root| json!({"id": root, "created_at": at, "title": null}))})
}

fn fork(key: &str, message: &Value, channel: &str) -> Value {
    json!({"id": key, "channel_id": channel, "thread_id": "t1", "message_id": message, "title": format!("Dive {key}"),
        "description": null, "context": "thread", "status": "active", "created_by": "user_1",
        "created_at": "2025-05-03T11:00:00.000Z", "resolved_at": null, "resolution_id": null})
}

fn result(key: &str, fork: &str, message: &str, version: i64) -> Value {
    json!({"id": key, "channel_id": "c1", "fork_id": fork, "version": version, "status": "published", "headline": format!("Result {key}"),
        "conclusion": "", "key_points": [], "open_questions": [], "deferred_items": [], "action_items": [], "edited_by": [],
        "message_id": message, "created_at": "2025-05-03T12:00:00.000Z", "updated_at": "2025-05-03T12:00:00.000Z"})
}

fn with(mut value: Value, fields: Value) -> Value {
    let Value::Object(map) = fields else {
        panic!("not an object: {fields}")
    };
    value.as_object_mut().unwrap().extend(map);
    value
}

#[tokio::test]
async fn a_hostile_archive_names_and_changes_nothing_that_it_did_not_bring() {
    let t = unlimited_team().await;
    let TestFork {
        fork: own, root, ..
    } = t.dive().await;
    let own_card = t.ada.thread(&t.general, "Not a result").await;
    let stranger = placeholder(&t.app, &t.ada.workspace, "Stranger").await;
    let channel = |key: &str, name: &str| json!({"id": key, "kind": "public", "name": name, "created_at": "2025-05-01T10:00:00.000Z", "member_ids": []});
    let main = |key: &str| message(key, None, Some("m1"));
    let forks: Vec<Value> = vec![
        fork("f1", &json!("m1"), "c1"),
        fork("f1", &json!("m2"), "c1"),
        // Messages of this server, of another channel, of a deep dive, and none.
        fork("f2", &json!(root), "c1"),
        fork("f3", &json!("o1"), "c1"),
        fork("f4", &json!("d1"), "c1"),
        fork("f5", &json!({"id": "m1"}), "c1"),
        fork("f6", &json!("m1"), "c9"),
        // Texts and values that are not possible.
        with(
            fork("f7", &json!("m1"), "c1"),
            json!({"title": "x".repeat(5000)}),
        ),
        with(
            fork("f8", &json!("m1"), "c1"),
            json!({"description": "x".repeat(5000)}),
        ),
        with(
            fork("f9", &json!("m1"), "c1"),
            json!({"status": "exploded"}),
        ),
        with(
            fork("f10", &json!("m1"), "c1"),
            json!({"created_at": "yesterday"}),
        ),
        with(fork("f11", &json!("m1"), "c1"), json!({"id": 7})),
        with(
            fork("f12", &json!("m1"), "c1"),
            json!({"description": "x".repeat(400_000)}),
        ),
        // A person who is in no list.
        with(
            fork("f13", &json!("m2"), "c1"),
            json!({"created_by": stranger, "context": "everything", "agent_id": 5}),
        ),
        json!(["forks"]),
    ];
    let many: Vec<Value> = (0..12)
        .map(|n| fork(&format!("open{n}"), &json!("m1"), "c1"))
        .collect();
    let points = |n: usize| {
        json!(vec![
            json!({"text": "Point", "sources": [root, "d1", "m2", 5]});
            n
        ])
    };
    let item = |key: &str| json!({"id": key, "text": "Ask Ulla", "owner_id": t.ada.id, "due": "someday", "done": false, "sources": []});
    let many_items: Vec<Value> = (0..21).map(|n| item(&format!("i{n}"))).collect();
    let item_of = |key: &str, result: &str| {
        json!({"id": key, "channel_id": "c1", "resolution_id": result, "created_at": "2025-05-03T12:00:00.000Z",
            "done_at": "2025-05-04T12:00:00.000Z", "done_by": t.ada.id})
    };
    let items_of_results = [
        item_of("i1", "r1"),
        item_of("i1", "r1"),
        item_of("i1", "r1"),
        // An item and a result that are not there, a result that is left out, and no time.
        item_of("i2", "r1"),
        item_of("i1", &own_card),
        item_of("i1", "r14"),
        with(item_of("i3", "r1"), json!({"created_at": "yesterday"})),
    ];
    let results = [
        with(
            result("r1", "f1", "m2", 1),
            json!({"key_points": points(2), "edited_by": [t.ada.id, "user_1"], "generated_by": own,
                "action_items": [item("i1"), item("i1"), item("")]}),
        ),
        // The same version and message, and those of others.
        result("r2", "f1", "m3", 1),
        result("r3", "f1", "m2", 2),
        result("r4", "f1", "m1", 2),
        result("r5", "f1", "o1", 2),
        result("r6", &own, "m3", 2),
        result("r7", "f1", &own_card, 2),
        result("r8", "nothing", "m3", 2),
        with(
            result("r9", "f1", "m3", 2),
            json!({"key_points": points(100)}),
        ),
        with(
            result("r10", "f1", "m3", 2),
            json!({"headline": "x".repeat(1000)}),
        ),
        with(result("r11", "f1", "m3", 2), json!({"version": i64::MAX})),
        with(result("r12", "f1", "m3", 2), json!({"status": "secret"})),
        with(result("r13", "f1", "m3", 2), json!({"headline": ""})),
        with(
            result("r14", "f1", "m3", 2),
            json!({"action_items": many_items}),
        ),
    ];
    let archive = zipped(&[
        (
            "manifest.json",
            json_lines(&[
                json!({"format": "openvibe", "version": 1, "workspace": {"id": "ws_of_a_stranger"}}),
            ]),
        ),
        (
            "channels.jsonl",
            json_lines(&[channel("c1", "plans"), channel("c2", "others")]),
        ),
        ("forks.jsonl", json_lines(&[forks, many].concat())),
        ("resolutions.jsonl", json_lines(&results)),
        ("action_items.jsonl", json_lines(&items_of_results)),
        (
            "messages/c1/2025-05.jsonl",
            json_lines(&[main("m1"), main("m2"), main("m3")]),
        ),
        (
            "messages/c2/2025-05.jsonl",
            json_lines(&[message("o1", None, Some("o1"))]),
        ),
        (
            "messages/c1/deep-dives/2025-05.jsonl",
            json_lines(&[
                message("d1", Some("f1"), None),
                message("d2", Some(&own), None),
                message("d3", None, None),
                message("d4", Some(&unknown_id("fork")), Some("m1")),
            ]),
        ),
        (
            "messages/c2/deep-dives/2025-05.jsonl",
            json_lines(&[message("d5", Some("f1"), None)]),
        ),
    ]);
    let before = t.ada.fork(&own).await;
    let report = imported(&t.ada, &archive).await;
    sums(&report);
    // 12 open ones, the first, and that of the stranger; the second line of the first one is the same record.
    assert_eq!(n_of(&report, "forks"), json!([14, 1, 12]), "{report}");
    assert_eq!(n_of(&report, "resolutions"), json!([1, 0, 13]), "{report}");
    assert_eq!(n_of(&report, "action_items"), json!([1, 2, 4]), "{report}");
    assert_eq!(n_of(&report, "messages"), json!([5, 0, 4]), "{report}");
    assert_eq!(t.ada.fork(&own).await, before);
    let plans = id(&t.ada.channel("plans").await);
    let threads = t.ada.every(&format!("/v1/channels/{plans}/threads")).await;
    let thread = id(&threads[0]);
    let dives = t.ada.every(&format!("/v1/threads/{thread}/forks")).await;
    let open = dives.iter().filter(|dive| dive["status"] == "active");
    assert_eq!((dives.len(), open.count()), (14, 7));
    let dive = dives
        .iter()
        .find(|dive| dive["title"] == "Dive f1")
        .unwrap();
    let result = t.ada.resolution(&id(dive)).await;
    let said = t.ada.messages_in(&id(dive)).await;
    assert_eq!(result["key_points"][0]["sources"], json!([said[0]["id"]]));
    assert_eq!(result["generated_by"], Value::Null);
    // Ada is not the person whom the archive calls by her ID.
    let items = list(&result, "/action_items");
    assert_eq!(items.len(), 1, "{items:?}");
    assert_ne!(items[0]["owner_id"], t.ada.id.as_str());
    assert_eq!(
        (&items[0]["done"], &items[0]["due"]),
        (&json!(false), &Value::Null)
    );
    let undone = t.ada.get("/v1/imports").await.ok();
    let import = id(&list(&undone, "/data")[0]);
    t.ada.delete(&format!("/v1/imports/{import}")).await.is(202);
    state(&t.ada, &import, "undone").await;
    assert_eq!(t.ada.fork(&own).await, before);
    assert_eq!(t.app.place.count("forks").await, 1);
}

/// An archive with one deep dive.
fn with_dive(said: Value, results: &[Value]) -> Vec<u8> {
    let channel = json!({"id": "c1", "kind": "public", "name": "plans", "created_at": "2025-05-01T10:00:00.000Z", "member_ids": []});
    let manifest = json!({"format": "openvibe", "version": 1, "workspace": {"id": "ws_1"}});
    zipped(&[
        ("manifest.json", json_lines(&[manifest])),
        ("channels.jsonl", json_lines(&[channel])),
        ("forks.jsonl", json_lines(&[fork("f1", &json!("m1"), "c1")])),
        ("resolutions.jsonl", json_lines(results)),
        (
            "messages/c1/2025-05.jsonl",
            json_lines(&[message("m1", None, Some("m1"))]),
        ),
        ("messages/c1/deep-dives/2025-05.jsonl", json_lines(&[said])),
    ])
}

#[tokio::test]
async fn a_result_that_is_left_out_keeps_the_draft() {
    let (_app, zoe) = other_server().await;
    let said = message("d1", Some("f1"), None);
    let draft = with(
        result("r1", "f1", "m1", 1),
        json!({"status": "draft", "message_id": null}),
    );
    let report = imported(&zoe, &with_dive(said.clone(), &[draft])).await;
    assert_eq!(n_of(&report, "resolutions"), json!([1, 0, 0]), "{report}");
    let published = result("r1", "f1", "nothing", 1);
    let report = imported(&zoe, &with_dive(said, &[published])).await;
    assert_eq!(n_of(&report, "resolutions"), json!([0, 0, 1]), "{report}");
    let plans = id(&zoe.channel("plans").await);
    let dive = dive_in(&zoe, &plans).await;
    assert_eq!(zoe.resolution(&id(&dive)).await["headline"], "Result r1");
}

#[tokio::test]
async fn undoing_removes_a_thread_that_is_newer_than_its_deep_dive() {
    let (app, zoe) = other_server().await;
    let before = counts(&app).await;
    let early = json!({"created_at": "2025-05-03T09:00:00.000Z"});
    let said = with(message("d1", Some("f1"), None), early);
    let report = imported(&zoe, &with_dive(said, &[])).await;
    assert_eq!(n_of(&report, "messages"), json!([2, 0, 0]), "{report}");
    undo(&zoe).await;
    assert_eq!(counts(&app).await, before);
}
