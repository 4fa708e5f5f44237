//! A deleted message leaves a tombstone, and its text is removed everywhere.

use serde_json::json;

use crate::support::{Answer, Gate, Socket, id, list, team, text};

const SECRET: &str = "xyzzy-plugh-4711";

#[tokio::test]
async fn a_deleted_message_is_a_tombstone() {
    let t = team().await;
    let thread = t.ada.thread(&t.general, "Root").await;
    let message = t.ada.tell(&thread, "Gone @bo").await;
    t.bo.put(&format!("/v1/messages/{message}/reactions/x"), json!({}))
        .await
        .is(200);
    let mut socket = t.bo.socket().await;
    let tombstone = t
        .ada
        .delete(&format!("/v1/messages/{message}"))
        .await
        .is(200);
    assert!(tombstone["deleted_at"].is_string());
    assert_eq!(
        (&tombstone["content"], &tombstone["content_plain"]),
        (&json!(""), &json!(""))
    );
    assert_eq!(tombstone["mentions"], json!([]));
    assert_eq!(tombstone["author"]["name"], "Ada");
    let event = socket.of("message.deleted").await;
    assert_eq!(event["data"]["message"], tombstone);
    assert_eq!(t.bo.message(&message).await, tombstone);
    assert_eq!(t.bo.contents(&thread).await, ["Root", ""]);
    let again = t
        .ada
        .delete(&format!("/v1/messages/{message}"))
        .await
        .is(200);
    assert_eq!(again, tombstone, "deleting twice has no further effect");
    assert!(
        socket
            .settle()
            .await
            .iter()
            .all(|f| f["type"] != "message.deleted")
    );
}

#[tokio::test]
async fn only_the_author_or_an_admin_can_delete_a_message() {
    let t = team().await;
    let message = text(&t.ada.start(&t.general, "Ada's").await, "/message/id");
    t.bo.delete(&format!("/v1/messages/{message}"))
        .await
        .refused(403);
    assert_eq!(t.bo.message(&message).await["content"], "Ada's");
}

#[tokio::test]
async fn the_text_of_a_deleted_message_is_removed_everywhere() {
    let t = team().await;
    let thread = t.ada.thread(&t.general, "Root").await;
    let message = t
        .ada
        .tell(&thread, &format!("@vibe remember {SECRET}"))
        .await;
    let task = id(&list(&t.ada.get("/v1/tasks").await.ok(), "/data")[0]);
    t.ada.completed(&task).await;
    t.ada
        .patch(
            &format!("/v1/messages/{message}"),
            json!({"content": format!("Edited {SECRET}")}),
        )
        .await
        .is(200);
    let later = t.ada.ask(&thread, "@vibe go on").await;
    t.ada.completed(&later).await;
    assert!(
        t.ada
            .task_context(&later)
            .await
            .to_string()
            .contains(SECRET)
    );
    assert!(
        !t.app.place.places_of(SECRET).await.is_empty(),
        "the search finds existing text"
    );

    t.ada
        .delete(&format!("/v1/messages/{message}"))
        .await
        .is(200);
    for path in [
        format!("/v1/messages/{message}"),
        format!("/v1/threads/{thread}"),
        format!("/v1/threads/{thread}/messages"),
        format!("/v1/channels/{}/threads", t.general),
        "/v1/events?limit=100".to_owned(),
        "/v1/snapshot".to_owned(),
        "/v1/tasks".to_owned(),
        format!("/v1/tasks/{task}"),
        format!("/v1/tasks/{task}/context"),
        format!("/v1/tasks/{later}/context"),
        "/v1/audit-log".to_owned(),
    ] {
        let reply = t.ada.get(&path).await;
        assert_eq!(reply.status, 200);
        assert!(!reply.text.contains(SECRET), "{path}: {}", reply.text);
    }
    let mut socket = Socket::open(&t.bo, json!({"since": 0})).await;
    let replayed = socket.settle().await;
    assert!(!replayed.is_empty());
    assert!(
        replayed
            .iter()
            .all(|frame| !frame.to_string().contains(SECRET))
    );
    assert_eq!(t.app.place.places_of(SECRET).await, Vec::<String>::new());
}

#[tokio::test]
async fn the_text_of_earlier_versions_is_deleted_with_the_message() {
    let t = team().await;
    let message = text(&t.ada.start(&t.general, SECRET).await, "/message/id");
    t.ada
        .patch(
            &format!("/v1/messages/{message}"),
            json!({"content": "Harmless"}),
        )
        .await
        .is(200);
    t.ada
        .delete(&format!("/v1/messages/{message}"))
        .await
        .is(200);
    assert_eq!(t.app.place.places_of(SECRET).await, Vec::<String>::new());
}

#[tokio::test]
async fn a_deleted_agent_reply_is_removed_everywhere() {
    let t = team().await;
    t.model()
        .script("vibe", [Answer::text(&format!("The word is {SECRET}."))]);
    let thread = t.ada.thread(&t.general, "Root").await;
    let task = t.ada.ask(&thread, "@vibe the word?").await;
    let reply = text(&t.ada.completed(&task).await, "/output/message_id");
    let after = t.ada.ask(&thread, "@vibe again?").await;
    t.ada.completed(&after).await;
    t.ada.delete(&format!("/v1/messages/{reply}")).await.is(200);
    assert!(
        !t.ada
            .task_context(&after)
            .await
            .to_string()
            .contains(SECRET)
    );
    assert_eq!(t.app.place.places_of(SECRET).await, Vec::<String>::new());
    assert_eq!(t.ada.task(&task).await["status"], "completed");
}

#[tokio::test]
async fn a_replayed_event_differs_from_the_live_one_only_in_deleted_text() {
    let t = team().await;
    let mut live = t.bo.socket().await;
    let start = live.cursor;
    let thread = t.ada.thread(&t.general, "Kept").await;
    let message = t.ada.tell(&thread, SECRET).await;
    t.ada
        .put(&format!("/v1/messages/{message}/reactions/x"), json!({}))
        .await
        .is(200);
    t.ada
        .delete(&format!("/v1/messages/{message}"))
        .await
        .is(200);
    let seen = live
        .events_through("the deletion", |f| f["type"] == "message.deleted")
        .await;
    let mut again = Socket::resume(&t.bo, start, &live.epoch()).await;
    let replayed = again
        .events_through("the deletion", |f| f["type"] == "message.deleted")
        .await;
    assert_eq!(seen.len(), replayed.len());
    for (mut live, replayed) in seen.into_iter().zip(replayed) {
        if live["data"]["message"]["content"] == SECRET {
            live["data"]["message"]["content"] = "".into();
            live["data"]["message"]["content_plain"] = "".into();
        }
        assert_eq!(live, replayed);
    }
}

#[tokio::test]
async fn deleting_the_trigger_message_cancels_its_tasks() {
    let t = team().await;
    let (vibe, coder) = (Gate::new(), Gate::new());
    t.model().script(
        "vibe",
        [Answer::stream()
            .piece("Half ")
            .wait(&vibe)
            .piece("whole")
            .end()],
    );
    t.model()
        .script("coder", [Answer::text("Never.").held(&coder)]);
    let thread = t.ada.thread(&t.general, "Root").await;
    let posted = t.ada.say(&thread, "@vibe @coder think").await;
    vibe.reached().await;
    coder.reached().await;
    t.ada
        .event_where("the reply to begin", |e| {
            e["data"]["message"]["state"] == "streaming"
        })
        .await;
    t.ada
        .delete(&format!("/v1/messages/{}", text(&posted, "/message/id")))
        .await
        .is(200);
    for task in list(&posted, "/tasks") {
        assert_eq!(t.ada.ended(&id(&task)).await["status"], "cancelled");
    }
    t.model().given_up(1).await;
    let states: Vec<String> = t
        .ada
        .messages(&thread)
        .await
        .iter()
        .map(|m| text(m, "/state"))
        .collect();
    assert_eq!(states, ["complete", "complete", "interrupted"]);
}

#[tokio::test]
async fn deleting_an_unfinished_reply_cancels_its_task() {
    let t = team().await;
    let gate = Gate::new();
    t.model().script(
        "vibe",
        [Answer::stream()
            .piece(SECRET)
            .wait(&gate)
            .piece("whole")
            .end()],
    );
    let thread = t.ada.thread(&t.general, "Root").await;
    let task = t.ada.ask(&thread, "@vibe think").await;
    gate.reached().await;
    let begun = t
        .ada
        .event_where("the reply to begin", |e| {
            e["data"]["message"]["state"] == "streaming"
        })
        .await;
    let reply = text(&begun, "/data/message/id");
    t.ada.delete(&format!("/v1/messages/{reply}")).await.is(200);
    assert_eq!(t.ada.ended(&task).await["status"], "cancelled");
    t.model().given_up(1).await;
    let tombstone = t.ada.message(&reply).await;
    assert_eq!(tombstone["content"], "");
    assert!(tombstone["deleted_at"].is_string());
    assert_ne!(tombstone["state"], "streaming");
    assert_eq!(t.app.place.places_of(SECRET).await, Vec::<String>::new());
}

#[tokio::test]
async fn a_thread_continues_after_its_first_message_is_deleted() {
    let t = team().await;
    let started = t.ada.start(&t.general, "Root").await;
    let thread = text(&started, "/thread/id");
    t.bo.say(&thread, "Reply").await;
    t.ada
        .delete(&format!("/v1/messages/{}", text(&started, "/message/id")))
        .await
        .is(200);
    t.bo.say(&thread, "Another").await;
    let found = t.bo.get(&format!("/v1/threads/{thread}")).await.ok();
    assert_eq!(found["reply_count"], 2);
    assert!(found["root_message"]["deleted_at"].is_string());
    assert_eq!(t.bo.contents(&thread).await, ["", "Reply", "Another"]);
}

#[tokio::test]
async fn the_text_of_a_deleted_dive_message_is_removed_everywhere() {
    let t = team().await;
    let dive = t.dive().await;
    let said = t
        .ada
        .tell_in(&dive.fork, &format!("@vibe remember {SECRET}"))
        .await;
    let task = id(&list(&t.ada.get("/v1/tasks").await.ok(), "/data")[0]);
    t.ada.completed(&task).await;
    t.ada
        .patch(
            &format!("/v1/messages/{said}"),
            json!({"content": format!("Edited {SECRET}")}),
        )
        .await
        .is(200);
    let resolving = t.ada.resolve(&dive.fork).await;
    t.ada.completed(&resolving).await;
    t.ada.delete(&format!("/v1/messages/{said}")).await.is(200);
    for path in [
        format!("/v1/messages/{said}"),
        format!("/v1/forks/{}", dive.fork),
        format!("/v1/forks/{}/messages", dive.fork),
        "/v1/snapshot".to_owned(),
        "/v1/tasks".to_owned(),
        format!("/v1/tasks/{task}/context"),
        format!("/v1/tasks/{resolving}"),
    ] {
        let reply = t.ada.get(&path).await;
        assert!(!reply.text.contains(SECRET), "{path}: {}", reply.text);
    }
    let events = t.ada.events().await;
    for event in events {
        let kind = text(&event, "/type");
        // A draft that cites the message is marked as stale but keeps its text.
        let is_draft = kind.starts_with("resolution.");
        assert!(is_draft || !event.to_string().contains(SECRET), "{event}");
    }
}

#[tokio::test]
async fn a_title_derived_from_a_deleted_message_is_removed_everywhere() {
    let t = team().await;
    let started = t.ada.start(&t.general, &format!("Root {SECRET}")).await;
    let (thread, root) = (text(&started, "/thread/id"), text(&started, "/message/id"));
    let of_root = id(&t
        .ada
        .start_fork(&thread, &root, json!({"agent_id": null}))
        .await);
    t.ada
        .publish_as(&of_root, json!({"headline": "Done"}))
        .await;
    let of_first = id(&t
        .ada
        .start_fork(&thread, &root, json!({"agent_id": null}))
        .await);
    let first = t.ada.tell_in(&of_first, &format!("First {SECRET}")).await;
    assert!(text(&t.ada.fork(&of_first).await, "/title").contains(SECRET));
    let mut socket = t.bo.socket().await;
    for message in [&first, &root] {
        t.ada
            .delete(&format!("/v1/messages/{message}"))
            .await
            .is(200);
    }
    for fork in [&of_root, &of_first] {
        let title = text(&t.ada.fork(fork).await, "/title");
        assert!(!title.contains(SECRET) && !title.is_empty(), "{title}");
    }
    let seen = socket.settle().await;
    assert!(
        seen.iter().any(|f| f["type"] == "fork.updated"),
        "everyone is notified of the new title"
    );
    assert_eq!(t.app.place.places_of(SECRET).await, Vec::<String>::new());
}

#[tokio::test]
async fn a_title_written_by_a_person_is_kept() {
    let t = team().await;
    let dive = t.dive().await;
    t.ada
        .delete(&format!("/v1/messages/{}", dive.root))
        .await
        .is(200);
    assert_eq!(t.ada.fork(&dive.fork).await["title"], "The day");
    t.ada.say_in(&dive.fork, "It goes on").await;
    t.ada
        .publish_as(&dive.fork, json!({"headline": "Done"}))
        .await;
    let card = t.ada.messages(&dive.thread).await.pop().unwrap();
    assert_eq!(card["parent_id"], dive.root.as_str());
}
