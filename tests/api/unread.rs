//! Unread messages and mentions.

use serde_json::{Value, json};

use crate::support::{Answer, Person, id, list, number, team, text};

async fn counts(person: &Person, channel: &str) -> (i64, i64) {
    let channel = person.get(&format!("/v1/channels/{channel}")).await.ok();
    let snapshot = person.get("/v1/snapshot").await.ok();
    let same = list(&snapshot, "/channels")
        .into_iter()
        .find(|c| c["id"] == channel["id"])
        .unwrap();
    assert_eq!(
        same["unread_count"], channel["unread_count"],
        "the snapshot has the same counts"
    );
    assert_eq!(same["mention_count"], channel["mention_count"]);
    (
        number(&channel, "/unread_count"),
        number(&channel, "/mention_count"),
    )
}

async fn thread_counts(person: &Person, thread: &str) -> (i64, i64) {
    let thread = person.get(&format!("/v1/threads/{thread}")).await.ok();
    (
        number(&thread, "/unread_count"),
        number(&thread, "/mention_count"),
    )
}

#[tokio::test]
async fn messages_from_others_are_unread_until_they_are_read() {
    let t = team().await;
    let started = t.ada.start(&t.general, "One").await;
    let thread = text(&started, "/thread/id");
    let two = t.ada.say(&thread, "Two @bo").await;
    let three = t.ada.say(&thread, "Three @everyone").await;
    assert_eq!(
        counts(&t.ada, &t.general).await,
        (0, 0),
        "own messages do not count"
    );
    assert_eq!(counts(&t.bo, &t.general).await, (3, 2));
    assert_eq!(thread_counts(&t.bo, &thread).await, (3, 2));
    let read = async |message: &Value| -> Value {
        let seq = number(message, "/message/seq");
        t.bo.put(&format!("/v1/threads/{thread}/read"), json!({"seq": seq}))
            .await
            .is(200)
    };
    let mark = read(&two).await;
    assert_eq!(
        (&mark["unread_count"], &mark["mention_count"]),
        (&json!(1), &json!(1))
    );
    assert_eq!(mark["thread_id"], thread.as_str());
    assert_eq!(counts(&t.bo, &t.general).await, (1, 1));
    read(&three).await;
    assert_eq!(counts(&t.bo, &t.general).await, (0, 0));
    read(&started).await;
    assert_eq!(
        counts(&t.bo, &t.general).await,
        (2, 2),
        "a read marker can move back"
    );
    assert_eq!(thread_counts(&t.bo, &thread).await, (2, 2));
    t.bo.put(&format!("/v1/threads/{thread}/read"), json!({"seq": 0}))
        .await
        .is(200);
    assert_eq!(
        counts(&t.bo, &t.general).await,
        (3, 2),
        "and to the beginning"
    );
}

#[tokio::test]
async fn threads_are_marked_read_individually() {
    let t = team().await;
    let here = t.ada.start(&t.general, "Here").await;
    let there = t.ada.start(&t.general, "There").await;
    let path = format!("/v1/threads/{}/read", text(&there, "/thread/id"));
    t.bo.put(&path, json!({"seq": number(&there, "/message/seq")}))
        .await
        .is(200);
    assert_eq!(
        thread_counts(&t.bo, &text(&there, "/thread/id")).await,
        (0, 0)
    );
    assert_eq!(
        thread_counts(&t.bo, &text(&here, "/thread/id")).await,
        (1, 0),
        "an older thread stays unread"
    );
    assert_eq!(counts(&t.bo, &t.general).await, (1, 0));
}

#[tokio::test]
async fn a_whole_channel_can_be_marked_read_at_once() {
    let t = team().await;
    t.ada.start(&t.general, "Here @bo").await;
    let there = t.ada.thread(&t.general, "There").await;
    let read =
        t.bo.act(&format!("/v1/channels/{}/read", t.general))
            .await
            .is(200);
    assert_eq!(
        (&read["unread_count"], &read["mention_count"]),
        (&json!(0), &json!(0))
    );
    t.ada.say(&there, "New").await;
    assert_eq!(counts(&t.bo, &t.general).await, (1, 0));
}

#[tokio::test]
async fn after_marking_everything_read_a_mark_can_move_back() {
    let t = team().await;
    let one = t.ada.start(&t.general, "One").await;
    let thread = text(&one, "/thread/id");
    t.ada.say(&thread, "Two").await;
    let other = t.ada.start(&t.general, "Other").await;
    t.bo.act(&format!("/v1/channels/{}/read", t.general))
        .await
        .is(200);
    let seq = number(&one, "/message/seq");
    t.bo.put(&format!("/v1/threads/{thread}/read"), json!({"seq": seq}))
        .await
        .is(200);
    assert_eq!(thread_counts(&t.bo, &thread).await, (1, 0));
    assert_eq!(
        thread_counts(&t.bo, &text(&other, "/thread/id")).await,
        (0, 0)
    );
    assert_eq!(counts(&t.bo, &t.general).await, (1, 0));
}

#[tokio::test]
async fn messages_from_before_joining_are_not_unread() {
    let t = team().await;
    let channel = id(&t
        .ada
        .post("/v1/channels", json!({"name": "launch"}))
        .await
        .is(201));
    let thread = t.ada.thread(&channel, "Before @bo").await;
    assert_eq!(counts(&t.bo, &channel).await, (0, 0), "not joined");
    t.bo.act(&format!("/v1/channels/{channel}/join"))
        .await
        .is(200);
    assert_eq!(counts(&t.bo, &channel).await, (0, 0));
    t.ada.say(&thread, "After @bo").await;
    assert_eq!(counts(&t.bo, &channel).await, (1, 1));
    t.bo.put(&format!("/v1/threads/{thread}/read"), json!({"seq": 0}))
        .await
        .is(200);
    assert_eq!(
        counts(&t.bo, &channel).await,
        (1, 1),
        "not even if the read marker moves back"
    );
}

#[tokio::test]
async fn a_new_member_starts_with_nothing_unread() {
    let t = team().await;
    t.ada.thread(&t.general, "Old news @everyone").await;
    let cy = t.app.join(&t.ada, "Cy", "member").await;
    assert_eq!(counts(&cy, &t.general).await, (0, 0));
}

#[tokio::test]
async fn agent_replies_count_as_unread_and_notices_do_not() {
    let t = team().await;
    t.model()
        .script("vibe", [Answer::text("Yes."), Answer::status(400, "{}")]);
    let thread = t.ada.thread(&t.general, "Root").await;
    let ok = t.ada.ask(&thread, "@vibe one").await;
    t.ada.completed(&ok).await;
    assert_eq!(counts(&t.ada, &t.general).await, (1, 0));
    let bad = t.ada.ask(&thread, "@vibe two").await;
    t.ada.failed(&bad).await;
    assert_eq!(counts(&t.ada, &t.general).await, (1, 0));
}

#[tokio::test]
async fn deleted_messages_are_not_unread() {
    let t = team().await;
    let thread = t.ada.thread(&t.general, "Root").await;
    let message = t.ada.tell(&thread, "@bo look").await;
    assert_eq!(counts(&t.bo, &t.general).await, (2, 1));
    t.ada
        .delete(&format!("/v1/messages/{message}"))
        .await
        .is(200);
    assert_eq!(counts(&t.bo, &t.general).await, (1, 0));
}

#[tokio::test]
async fn an_edit_updates_unread_mentions() {
    let t = team().await;
    let message = text(&t.ada.start(&t.general, "Nobody").await, "/message/id");
    assert_eq!(counts(&t.bo, &t.general).await, (1, 0));
    t.ada
        .patch(
            &format!("/v1/messages/{message}"),
            json!({"content": "@bo after all"}),
        )
        .await
        .is(200);
    assert_eq!(counts(&t.bo, &t.general).await, (1, 1));
    t.ada
        .patch(
            &format!("/v1/messages/{message}"),
            json!({"content": "Nobody"}),
        )
        .await
        .is(200);
    assert_eq!(counts(&t.bo, &t.general).await, (1, 0));
}

#[tokio::test]
async fn read_marks_sync_to_the_users_other_sockets() {
    let t = team().await;
    let started = t.ada.start(&t.general, "Hello").await;
    let (thread, seq) = (
        text(&started, "/thread/id"),
        number(&started, "/message/seq"),
    );
    let (mut own, mut others) = (t.bo.socket().await, t.ada.socket().await);
    let mark = own
        .ack(json!({"type": "read", "thread_id": thread, "seq": seq}))
        .await;
    assert_eq!(mark["unread_count"], 0);
    let frame = own.of("read.updated").await;
    assert_eq!(
        (&frame["thread_id"], &frame["seq"]),
        (&json!(thread), &json!(seq))
    );
    t.bo.put(&format!("/v1/threads/{thread}/read"), json!({"seq": 0}))
        .await
        .is(200);
    assert_eq!(own.of("read.updated").await["seq"], 0);
    assert!(
        others
            .settle()
            .await
            .iter()
            .all(|f| f["type"] != "read.updated"),
        "no one else is notified"
    );
}

#[tokio::test]
async fn an_invalid_mark_is_rejected() {
    let t = team().await;
    let thread = t.ada.thread(&t.general, "Root").await;
    let path = format!("/v1/threads/{thread}/read");
    t.bo.put(&path, json!({"seq": i64::MIN})).await.refused(422);
    for bad in [
        json!({}),
        json!({"seq": "1"}),
        json!({"seq": 1.5}),
        json!({"seq": null}),
    ] {
        t.bo.put(&path, bad).await.refused(400);
    }
}

#[tokio::test]
async fn a_thread_reports_its_first_unread_message() {
    let t = team().await;
    let started = t.ada.start(&t.general, "One").await;
    let thread = text(&started, "/thread/id");
    let two = t.ada.say(&thread, "Two").await;
    t.bo.say(&thread, "Mine").await;
    let four = t.ada.say(&thread, "Four @bo").await;
    let five = t.ada.say(&thread, "Five").await;
    let first = async |person: &Person| -> Value {
        let opened = person.get(&format!("/v1/threads/{thread}")).await.ok();
        opened["first_unread_id"].clone()
    };
    let read = async |message: &Value| {
        let seq = number(message, "/message/seq");
        t.bo.put(&format!("/v1/threads/{thread}/read"), json!({"seq": seq}))
            .await
            .is(200);
    };
    assert_eq!(first(&t.bo).await, started["message"]["id"]);
    read(&two).await;
    assert_eq!(
        first(&t.bo).await,
        four["message"]["id"],
        "own messages are not unread"
    );
    let gone = text(&four, "/message/id");
    t.ada.delete(&format!("/v1/messages/{gone}")).await.is(200);
    assert_eq!(first(&t.bo).await, five["message"]["id"]);
    read(&five).await;
    assert_eq!(first(&t.bo).await, Value::Null);
    let cy = t.app.join(&t.ada, "Cy", "member").await;
    assert_eq!(first(&cy).await, Value::Null, "posted before joining");
}
