//! Drafts of resolutions: concurrent editing without lost changes.

use serde_json::{Value, json};

use crate::support::{Person, id, list, number, team, team_with, text, unknown_id};

fn path(fork: &str) -> String {
    format!("/v1/forks/{fork}/resolution")
}

#[tokio::test]
async fn a_draft_can_be_written_by_hand() {
    let t = team().await;
    let dive = t.dive().await;
    let said = t.bo.tell_in(&dive.fork, "Monday suits everybody.").await;
    let mut socket = t.bo.socket().await;
    let reply = t
        .ada
        .edit_draft(
            &dive.fork,
            0,
            json!({"headline": " Ship on\nMonday ", "conclusion": "Both\tagreed.",
                "key_points": [{"text": "Two quiet\r\ndays", "sources": [said, dive.root, said]}],
                "action_items": [{"text": "Book the room", "owner_id": t.bo.id, "due": "2026-12-01", "sources": [said]},
                    {"text": "Bake a cake", "owner_name": "Aunt May", "done": true}, {"text": "Clean up"}],
                "open_questions": [{"text": "Who pays?"}], "deferred_items": [{"text": "The banner", "sources": []}]}),
        )
        .await;
    assert_eq!(reply.header("etag").as_deref(), Some("\"1\""));
    let draft = reply.is(200);
    for (field, value) in [
        ("status", json!("draft")),
        ("version", json!(1)),
        ("generated_by", Value::Null),
        ("edited_by", json!([t.ada.id])),
        ("revision", json!(1)),
        ("headline", json!("Ship on Monday")),
        ("conclusion", json!("Both agreed.")),
        (
            "key_points",
            json!([{"text": "Two quiet days", "sources": [said, dive.root]}]),
        ),
        (
            "open_questions",
            json!([{"text": "Who pays?", "sources": []}]),
        ),
        (
            "deferred_items",
            json!([{"text": "The banner", "sources": []}]),
        ),
        ("covers_seq", t.bo.message(&said).await["seq"].clone()),
    ] {
        assert_eq!(draft[field], value, "{field}");
    }
    let items = list(&draft, "/action_items");
    let item = json!({"id": items[0]["id"], "text": "Book the room", "owner_id": t.bo.id, "owner_name": "Bo",
        "due": "2026-12-01", "done": false, "sources": [said]});
    assert_eq!(items[0], item);
    assert_eq!(
        (
            &items[1]["owner_id"],
            &items[1]["owner_name"],
            &items[1]["done"]
        ),
        (&Value::Null, &json!("Aunt May"), &json!(true))
    );
    assert_eq!(
        (&items[2]["owner_name"], &items[2]["due"]),
        (&Value::Null, &Value::Null)
    );
    let read = t.bo.get(&path(&dive.fork)).await;
    assert_eq!(read.header("etag").as_deref(), Some("\"1\""));
    assert_eq!(read.is(200), draft);
    let told = socket.of("resolution.drafted").await;
    assert_eq!(told["data"]["resolution"], draft);
    let told = socket.of("fork.updated").await;
    assert_eq!(told["data"]["fork"]["draft_id"], draft["id"]);
}

#[tokio::test]
async fn a_draft_can_be_changed_only_at_its_current_revision() {
    let t = team().await;
    let dive = t.dive().await;
    let path = path(&dive.fork);
    let change = json!({"headline": "Monday"});
    let blind = t.ada.patch(&path, change.clone()).await;
    assert_eq!(blind.refused(428), "precondition_required");
    for bad in ["x", "\"x\"", "W/\"1\"", "\"1", "1.0", "-1", "*", ""] {
        t.ada
            .patch_if(&path, bad, change.clone())
            .await
            .refused(400);
    }
    let early = t.ada.edit_draft(&dive.fork, 1, change.clone()).await;
    assert_eq!(early.status, 409, "{}", early.text);
    let first = t.ada.begin_draft(&dive.fork, change.clone()).await;
    let twice = t.bo.edit_draft(&dive.fork, 0, change).await;
    assert_eq!(twice.json()["error"]["current"], first);
    twice.refused(409);
    let second =
        t.bo.patch_if(&path, "1", json!({"conclusion": "Bo's"}))
            .await;
    assert_eq!(second.header("etag").as_deref(), Some("\"2\""));
    let second = second.is(200);
    assert_eq!(
        (&second["headline"], &second["conclusion"], &second["id"]),
        (&json!("Monday"), &json!("Bo's"), &first["id"])
    );
    assert_eq!(second["edited_by"], json!([t.ada.id, t.bo.id]));
    let stale = t
        .ada
        .edit_draft(&dive.fork, 1, json!({"conclusion": "Ada's"}))
        .await;
    assert_eq!(stale.json()["error"]["current"], second);
    assert_eq!(stale.refused(409), "version_conflict");
    assert_eq!(t.ada.resolution(&dive.fork).await, second);
}

#[tokio::test]
async fn a_change_without_effect_creates_no_revision() {
    let t = team().await;
    let dive = t.dive().await;
    let draft = t
        .ada
        .begin_draft(
            &dive.fork,
            json!({"headline": "Monday", "action_items": [{"text": "Book", "owner_id": t.bo.id}]}),
        )
        .await;
    let same = t.bo.edit_draft(&dive.fork, 1, json!({})).await.is(200);
    assert_eq!(same, draft);
    let whole = t.bo.edit_draft(&dive.fork, 1, draft.clone()).await.is(200);
    assert_eq!(whole, draft, "the object that was read can be sent back");
}

#[tokio::test]
async fn one_of_50_concurrent_editors_of_a_revision_wins() {
    let t = team().await;
    let dive = t.dive().await;
    t.ada
        .begin_draft(&dive.fork, json!({"headline": "Start"}))
        .await;
    let editing = (0..50).map(|n| {
        let editor = if n % 2 == 0 { &t.ada } else { &t.bo };
        editor.edit_draft(&dive.fork, 1, json!({"headline": format!("Editor {n}")}))
    });
    let replies = futures::future::join_all(editing).await;
    assert_eq!(replies.iter().filter(|r| r.status == 200).count(), 1);
    assert_eq!(replies.iter().filter(|r| r.status == 409).count(), 49);
    let won = replies.iter().find(|r| r.status == 200).unwrap().json();
    assert_eq!(won["revision"], 2);
    assert_eq!(t.ada.resolution(&dive.fork).await, won);
    for lost in replies.iter().filter(|r| r.status == 409) {
        assert_eq!(lost.json()["error"]["current"], won);
    }
}

#[tokio::test]
async fn one_of_many_concurrent_draft_creations_wins() {
    let t = team().await;
    let dive = t.dive().await;
    let beginning = (0..20).map(|n| {
        t.ada
            .edit_draft(&dive.fork, 0, json!({"headline": n.to_string()}))
    });
    let replies = futures::future::join_all(beginning).await;
    assert_eq!(replies.iter().filter(|r| r.status == 200).count(), 1);
    assert_eq!(replies.iter().filter(|r| r.status == 409).count(), 19);
}

/// An `ETag` identifies one draft: a client that read an older draft cannot overwrite its successor.
#[tokio::test]
async fn the_etag_of_a_replaced_draft_is_stale() {
    let t = team().await;
    let dive = t.dive().await;
    t.ada.say_in(&dive.fork, "Let's ship on Monday.").await;
    let read = t.ada.drafted(&dive.fork).await;
    let replaced = t.ada.drafted(&dive.fork).await;
    let late =
        t.bo.edit_draft(
            &dive.fork,
            number(&read, "/revision"),
            json!({"headline": "Made of what was read"}),
        )
        .await;
    assert_eq!(late.json()["error"]["current"], replaced, "{}", late.text);
    assert_eq!(late.refused(409), "version_conflict");
}

#[tokio::test]
async fn the_second_of_two_rewrites_of_a_published_result_gets_a_conflict() {
    let t = team().await;
    let (dive, published) = t.resolved("Monday it is").await;
    t.ada.reopen(&dive.fork).await;
    let revision = number(&published["resolution"], "/revision");
    let first = t
        .ada
        .edit_draft(&dive.fork, revision, json!({"headline": "Ada's words"}))
        .await
        .is(200);
    let second =
        t.bo.edit_draft(&dive.fork, revision, json!({"headline": "Bo's words"}))
            .await;
    assert_eq!(second.json()["error"]["current"], first, "{}", second.text);
    second.refused(409);
    assert_eq!(
        t.ada.resolution(&dive.fork).await["headline"],
        "Ada's words"
    );
}

#[tokio::test]
async fn publishing_a_revision_that_the_user_has_not_seen_is_rejected() {
    let t = team().await;
    let dive = t.dive().await;
    t.ada
        .begin_draft(&dive.fork, json!({"headline": "Seen"}))
        .await;
    let current =
        t.bo.edit_draft(&dive.fork, 1, json!({"headline": "Not seen"}))
            .await
            .is(200);
    let publish = format!("/v1/forks/{}/publish", dive.fork);
    let body = || Some(b"{}".to_vec());
    let post = reqwest::Method::POST;
    let blind = t
        .ada
        .send(post.clone(), &publish, &[("if-match", "\"1\"")], body())
        .await;
    assert_eq!(blind.json()["error"]["current"], current);
    assert_eq!(blind.refused(409), "version_conflict");
    t.ada
        .send(post.clone(), &publish, &[("if-match", "x")], body())
        .await
        .refused(400);
    assert_eq!(t.ada.fork(&dive.fork).await["status"], "active");
    let seen = t
        .ada
        .send(post, &publish, &[("if-match", "\"2\"")], body())
        .await
        .is(200);
    assert_eq!(seen["resolution"]["headline"], "Not seen");
}

/// A text of this many UTF-16 code units that contains surrogate pairs.
fn long(units: usize) -> String {
    let mut text = "👋".repeat(units / 4);
    let rest = units - 2 * (units / 4);
    text.push_str(&"x".repeat(rest));
    text
}

#[tokio::test]
async fn each_limit_is_enforced_exactly() {
    let t = team().await;
    let dive = t.dive().await;
    let mut sources = Vec::new();
    for n in 0..20 {
        sources.push(t.ada.tell_in(&dive.fork, &n.to_string()).await);
    }
    let one_more = [&sources[..], std::slice::from_ref(&dive.root)].concat();
    let points = |n: usize| -> Value { (0..n).map(|n| json!({"text": n.to_string()})).collect() };
    let mut revision = 0;
    for (field, at, past) in [
        ("headline", json!(long(120)), json!(long(121))),
        ("conclusion", json!(long(600)), json!(long(601))),
        ("key_points", points(4), points(5)),
        ("action_items", points(20), points(21)),
        ("open_questions", points(10), points(11)),
        ("deferred_items", points(10), points(11)),
        (
            "key_points",
            json!([{"text": long(500), "sources": sources}]),
            json!([{"text": long(501)}]),
        ),
        (
            "action_items",
            json!([{"text": long(500), "sources": sources, "owner_name": long(80)}]),
            json!([{"text": long(501)}]),
        ),
        (
            "open_questions",
            json!([{"text": long(500)}]),
            json!([{"text": long(501)}]),
        ),
        (
            "deferred_items",
            json!([{"text": long(500)}]),
            json!([{"text": long(501)}]),
        ),
        (
            "deferred_items",
            json!([{"text": "x", "sources": sources}]),
            json!([{"text": "x", "sources": one_more}]),
        ),
        (
            "action_items",
            json!([{"text": "x", "owner_name": "Aunt May"}]),
            json!([{"text": "x", "owner_name": long(81)}]),
        ),
        (
            "key_points",
            json!([{"text": "x"}]),
            json!([{"text": " \n"}]),
        ),
        (
            "action_items",
            json!([{"text": "x"}]),
            json!([{"text": ""}]),
        ),
    ] {
        let refused = t
            .ada
            .edit_draft(&dive.fork, revision, json!({field: past}))
            .await;
        let param = text(&refused.json(), "/error/param");
        assert!(param.starts_with(field), "{field}: {param}");
        refused.refused(422);
        let reply = t
            .ada
            .edit_draft(&dive.fork, revision, json!({field: at}))
            .await
            .is(200);
        revision = number(&reply, "/revision");
    }
    let publish = json!({"resolution": {"headline": long(121)}});
    t.ada.try_publish(&dive.fork, publish).await.refused(422);
}

#[tokio::test]
async fn malformed_changes_are_rejected_and_change_nothing() {
    let t = team().await;
    let dive = t.dive().await;
    let draft = t
        .ada
        .begin_draft(
            &dive.fork,
            json!({"headline": "Start", "action_items": [{"text": "Book"}]}),
        )
        .await;
    let item = id(&draft["action_items"][0]);
    for (form, status) in [
        (json!({"colour": "red"}), 400),
        (json!({"headline": 7}), 400),
        (json!({"headline": null}), 400),
        (json!({"key_points": "x"}), 400),
        (json!({"key_points": [{"text": "x", "colour": "red"}]}), 400),
        (json!({"key_points": [{"sources": []}]}), 400),
        (
            json!({"key_points": [{"text": "x", "sources": ["x"]}]}),
            400,
        ),
        (
            json!({"key_points": [{"text": "x", "sources": [t.ada.id]}]}),
            422,
        ),
        (
            json!({"action_items": [{"text": "x", "due": "tomorrow"}]}),
            400,
        ),
        (
            json!({"action_items": [{"text": "x", "due": "2026-02-30"}]}),
            400,
        ),
        (
            json!({"action_items": [{"text": "x", "due": "2026-2-3"}]}),
            400,
        ),
        (
            json!({"action_items": [{"text": "x", "due": "2026-12-01T00:00:00Z"}]}),
            400,
        ),
        (json!({"action_items": [{"text": "x", "done": "yes"}]}), 400),
        (
            json!({"action_items": [{"text": "x", "owner_id": "x"}]}),
            400,
        ),
        (json!({"action_items": [{"text": "x", "id": "x"}]}), 400),
        (
            json!({"action_items": [{"text": "x", "id": unknown_id("item")}]}),
            422,
        ),
        (
            json!({"action_items": [{"text": "x", "id": item}, {"text": "y", "id": item}]}),
            422,
        ),
    ] {
        t.ada.edit_draft(&dive.fork, 1, form).await.refused(status);
    }
    assert_eq!(t.ada.resolution(&dive.fork).await, draft);
}

#[tokio::test]
async fn sources_are_messages_of_the_dive_or_the_forked_message() {
    let t = team().await;
    let dive = t.dive().await;
    let said = t.ada.tell_in(&dive.fork, "Said").await;
    let in_thread = t.ada.tell(&dive.thread, "In the thread").await;
    let sibling = id(&t
        .ada
        .start_fork(&dive.thread, &dive.root, json!({"agent_id": null}))
        .await);
    let in_sibling = t.ada.tell_in(&sibling, "There").await;
    let private = t.ada.private_channel("board", &[]).await;
    let secret = text(&t.ada.start(&private, "Secret").await, "/message/id");
    let refuse = async |field: &str, source: &str| {
        let form = json!({field: [{"text": "x", "sources": [said, source]}]});
        let refused = t.bo.edit_draft(&dive.fork, 0, form.clone()).await;
        assert_eq!(refused.refused(422), "invalid_source", "{field}");
        let published =
            t.bo.try_publish(&dive.fork, json!({"resolution": form}))
                .await;
        assert_eq!(published.refused(422), "invalid_source", "{field}");
    };
    for source in [&in_thread, &in_sibling, &secret, &unknown_id("msg")] {
        refuse("key_points", source).await;
    }
    for field in ["action_items", "open_questions", "deferred_items"] {
        refuse(field, &in_sibling).await;
    }
    let form = json!({"key_points": [{"text": "x", "sources": [dive.root, said]}]});
    t.bo.begin_draft(&dive.fork, form).await;
}

#[tokio::test]
async fn a_notice_cannot_be_a_source() {
    let t = team().await;
    let started = t.ada.start(&t.general, "Root").await;
    let (thread, root) = (text(&started, "/thread/id"), text(&started, "/message/id"));
    let fork = id(&t.ada.start_fork(&thread, &root, json!({})).await);
    let coder = t.ada.agent("coder").await["id"].clone();
    t.ada
        .patch(&format!("/v1/forks/{fork}"), json!({"agent_id": coder}))
        .await
        .is(200);
    let notice = id(&t.ada.messages_in(&fork).await[0]);
    let form = json!({"key_points": [{"text": "x", "sources": [notice]}]});
    assert_eq!(
        t.ada.edit_draft(&fork, 0, form).await.refused(422),
        "invalid_source"
    );
}

#[tokio::test]
async fn owners_must_be_members_of_the_workspace() {
    let t = team_with(&[("SIGNUP", "open")]).await;
    let dive = t.dive().await;
    let zoe = t.app.founder("Zoe").await;
    let gone = t.app.join(&t.ada, "Gus", "member").await;
    t.ada
        .delete(&format!("/v1/members/{}", gone.id))
        .await
        .is(204);
    for owner in [&zoe.id, &gone.id, &unknown_id("user")] {
        let form = json!({"action_items": [{"text": "x", "owner_id": owner}]});
        let refused = t.ada.edit_draft(&dive.fork, 0, form).await;
        assert_eq!(refused.refused(422), "no_such_member");
    }
    let vera = t.app.join(&t.ada, "Vera", "viewer").await;
    let form =
        json!({"action_items": [{"text": "x", "owner_id": vera.id, "owner_name": "Somebody"}]});
    let draft = t.ada.begin_draft(&dive.fork, form).await;
    assert_eq!(
        draft["action_items"][0]["owner_name"], "Vera",
        "of a member the name is known"
    );
}

#[tokio::test]
async fn items_keep_their_ids_when_they_are_sent_back() {
    let t = team().await;
    let dive = t.dive().await;
    let items = json!([{"text": "One"}, {"text": "Two"}, {"text": "Three"}]);
    let first = t
        .ada
        .begin_draft(&dive.fork, json!({"action_items": items}))
        .await;
    let ids: Vec<String> = list(&first, "/action_items").iter().map(id).collect();
    let items = json!([{"id": ids[2], "text": "Three, changed"}, {"text": "New"}, {"id": ids[0], "text": "One"}]);
    let second = t
        .ada
        .change_draft(&dive.fork, json!({"action_items": items}))
        .await;
    let now: Vec<String> = list(&second, "/action_items").iter().map(id).collect();
    assert_eq!((&now[0], &now[2]), (&ids[2], &ids[0]));
    assert!(!ids.contains(&now[1]));
    let dropped = json!([{"id": ids[1], "text": "Two"}]);
    let refused = t
        .ada
        .edit_draft(&dive.fork, 2, json!({"action_items": dropped}))
        .await;
    assert_eq!(
        refused.refused(422),
        "no_such_item",
        "it is gone from the draft"
    );
    let other = t.dive().await;
    let foreign = json!({"action_items": [{"id": ids[0], "text": "One"}]});
    let refused = t.ada.edit_draft(&other.fork, 0, foreign).await;
    assert_eq!(refused.refused(422), "no_such_item", "of another result");
}

#[tokio::test]
async fn server_set_fields_are_not_accepted_from_a_client() {
    let t = team().await;
    let dive = t.dive().await;
    let draft = t
        .ada
        .begin_draft(&dive.fork, json!({"headline": "Monday"}))
        .await;
    let mut forged = draft.clone();
    for (field, value) in [
        ("status", json!("published")),
        ("version", json!(7)),
        ("generated_by", t.ada.agent("vibe").await["id"].clone()),
        ("edited_by", json!([])),
        ("covers_seq", json!(999)),
        ("revision", json!(41)),
        ("message_id", json!(dive.root)),
        ("fork_title", json!("Forged")),
        ("headline", json!("Tuesday")),
    ] {
        forged[field] = value;
    }
    let changed = t.ada.edit_draft(&dive.fork, 1, forged).await.is(200);
    let mut expected = draft.clone();
    expected["headline"] = json!("Tuesday");
    expected["revision"] = json!(2);
    expected["updated_at"] = changed["updated_at"].clone();
    assert_eq!(changed, expected);
}

#[tokio::test]
async fn a_draft_of_a_published_result_starts_with_its_content() {
    let t = team().await;
    let dive = t.dive().await;
    let said = t.bo.tell_in(&dive.fork, "Monday").await;
    let content = json!({"headline": "Monday it is", "conclusion": "Agreed.", "key_points": [{"text": "Quiet", "sources": [said]}],
        "action_items": [{"text": "Book", "owner_id": t.bo.id}]});
    let first = t.ada.publish_as(&dive.fork, content).await["resolution"].clone();
    let closed = t.ada.edit_draft(&dive.fork, 1, json!({})).await;
    assert_eq!(closed.refused(409), "fork_closed");
    t.ada.reopen(&dive.fork).await;
    assert_eq!(
        t.ada.resolution(&dive.fork).await,
        first,
        "without a draft the newest published one is read"
    );
    let draft =
        t.bo.change_draft(&dive.fork, json!({"conclusion": "Agreed again."}))
            .await;
    assert_ne!(draft["id"], first["id"]);
    assert_eq!(
        (
            &draft["status"],
            &draft["version"],
            &draft["edited_by"],
            &draft["message_id"]
        ),
        (
            &json!("draft"),
            &json!(2),
            &json!([t.ada.id, t.bo.id]),
            &Value::Null
        )
    );
    for field in ["headline", "key_points", "action_items", "open_questions"] {
        assert_eq!(draft[field], first[field], "{field}");
    }
    let fork = t.ada.fork(&dive.fork).await;
    assert_eq!(
        (&fork["draft_id"], &fork["resolution_id"]),
        (&draft["id"], &first["id"])
    );
    let versions = t
        .ada
        .get(&format!("/v1/forks/{}/resolutions", dive.fork))
        .await
        .ok();
    assert_eq!(list(&versions, "/data"), [first], "without the draft");
}

#[tokio::test]
async fn a_draft_survives_abandoning_and_reopening_its_dive() {
    let t = team().await;
    let dive = t.dive().await;
    let draft = t
        .ada
        .begin_draft(&dive.fork, json!({"headline": "Monday"}))
        .await;
    t.ada.abandon(&dive.fork).await;
    assert_eq!(t.bo.resolution(&dive.fork).await, draft);
    t.ada.reopen(&dive.fork).await;
    t.bo.change_draft(&dive.fork, json!({"headline": "Tuesday"}))
        .await;
}

#[tokio::test]
async fn deleted_messages_may_remain_sources_and_drafters_stay_known() {
    let t = team().await;
    let dive = t.dive().await;
    let said = t.bo.tell_in(&dive.fork, "Let's ship on Monday.").await;
    let drafted = t.ada.drafted(&dive.fork).await;
    assert_eq!(drafted["generated_by"], "builtin");
    let cited = json!({"headline": "Not on Monday", "key_points": [{"text": "Bo wants Monday", "sources": [said]}]});
    t.ada.change_draft(&dive.fork, cited.clone()).await;
    t.bo.delete(&format!("/v1/messages/{said}")).await.is(200);
    let mut whole = t.ada.resolution(&dive.fork).await;
    whole["conclusion"] = json!("Bo took it back.");
    let changed = t.ada.change_draft(&dive.fork, whole).await;
    assert_eq!(changed["key_points"], cited["key_points"]);
    assert_eq!(
        (&changed["generated_by"], &changed["edited_by"]),
        (&json!("builtin"), &json!([t.ada.id]))
    );
    t.ada.publish(&dive.fork).await;
    t.ada.reopen(&dive.fork).await;
    let second =
        t.bo.change_draft(&dive.fork, json!({"conclusion": "Again."}))
            .await;
    assert_eq!(second["key_points"], cited["key_points"]);
}

async fn type_words(editor: &Person, fork: &str, words: usize) {
    for n in 1..=words {
        let headline = format!("Word {n}");
        editor
            .change_draft(fork, json!({"headline": headline}))
            .await;
    }
}

/// Edits two drafts at the same time; one of them is published before its edits are announced.
#[tokio::test]
async fn others_are_notified_of_edits_every_5_seconds_and_of_the_last_one() {
    let t = team().await;
    let (published, dive) = (t.dive().await.fork, t.dive().await.fork);
    let mut socket = t.bo.socket().await;
    for fork in [&published, &dive] {
        t.ada.begin_draft(fork, json!({"headline": "Word 0"})).await;
        type_words(&t.ada, fork, 5).await;
    }
    t.ada.publish(&published).await;
    let mut times = Vec::new();
    for words in [5, 9] {
        // Types the second batch after the first one has been announced.
        if words > 5 {
            type_words(&t.ada, &dive, words).await;
        }
        let seen = socket
            .events_through("the last edit", |f| {
                f["type"] == "resolution.updated"
                    && f["data"]["resolution"]["headline"] == format!("Word {words}")
            })
            .await;
        let updates = seen.iter().filter(|f| f["type"] == "resolution.updated");
        for update in updates {
            assert_eq!(
                update["fork_id"],
                dive.as_str(),
                "of what is published nobody waits to hear"
            );
            let at = chrono::DateTime::parse_from_rfc3339(&text(update, "/ts"));
            times.push(at.unwrap().timestamp_millis());
        }
    }
    for pair in times.windows(2) {
        assert!(pair[1] - pair[0] >= 4_900, "{times:?}");
    }
    let told = t.bo.events().await.pop().unwrap();
    assert_eq!(told["data"]["resolution"], t.ada.resolution(&dive).await);
}
