//! Following and muting threads.

use serde_json::{Value, json};

use crate::support::{Person, Team, list, number, team, text};

async fn follow_of(person: &Person, thread: &str) -> Value {
    let thread = person.get(&format!("/v1/threads/{thread}")).await.ok();
    json!([thread["follow"]["level"], thread["follow"]["cause"]])
}

async fn set_level(person: &Person, thread: &str, level: &str) {
    let set = person
        .put(
            &format!("/v1/threads/{thread}/follow"),
            json!({"level": level}),
        )
        .await
        .ok();
    assert_eq!(set, json!({"level": level, "cause": "manual"}));
}

/// Bo's unread messages and mentions in the thread and in its channel.
async fn unread_of_bo(t: &Team, thread: &str) -> [(i64, i64); 2] {
    let counts = |value: &Value| {
        (
            number(value, "/unread_count"),
            number(value, "/mention_count"),
        )
    };
    let one = t.bo.get(&format!("/v1/threads/{thread}")).await.ok();
    let page = format!("/v1/channels/{}/threads", t.general);
    let listed = list(&t.bo.get(&page).await.ok(), "/data");
    let same = listed.iter().find(|row| row["id"] == thread).unwrap();
    assert_eq!(counts(same), counts(&one), "the list has the same counts");
    assert_eq!(same["follow"], one["follow"]);
    let channel = format!("/v1/channels/{}", t.general);
    [counts(&one), counts(&t.bo.get(&channel).await.ok())]
}

#[tokio::test]
async fn participating_in_a_thread_follows_it() {
    let t = team().await;
    let thread = t.ada.thread(&t.general, "Launch").await;
    assert_eq!(follow_of(&t.ada, &thread).await, json!(["all", "started"]));
    assert_eq!(follow_of(&t.bo, &thread).await, json!(["mentions", null]));
    t.ada.say(&thread, "@bo can you check?").await;
    assert_eq!(follow_of(&t.bo, &thread).await, json!(["all", "mentioned"]));
    t.bo.say(&thread, "Yes").await;
    assert_eq!(follow_of(&t.bo, &thread).await, json!(["all", "mentioned"]));

    let other = t.ada.thread(&t.general, "Lunch").await;
    t.bo.say(&other, "Noon").await;
    assert_eq!(follow_of(&t.bo, &other).await, json!(["all", "wrote"]));
    t.ada.say(&other, "@everyone come along").await;
    assert_eq!(follow_of(&t.ada, &other).await, json!(["all", "started"]));
}

#[tokio::test]
async fn owning_an_action_item_follows_the_thread() {
    let t = team().await;
    let dive = t.dive().await;
    let others = t.dive().await;
    for thread in [&dive.thread, &others.thread] {
        assert_eq!(follow_of(&t.bo, thread).await, json!(["mentions", null]));
    }
    set_level(&t.bo, &others.thread, "none").await;
    let items = json!({"headline": "Monday", "action_items": [{"text": "Book the room", "owner_id": t.bo.id}, {"text": "Bake a cake"}]});
    for fork in [&dive.fork, &others.fork] {
        t.ada.begin_draft(fork, items.clone()).await;
        t.ada.publish(fork).await;
    }
    assert_eq!(
        follow_of(&t.bo, &dive.thread).await,
        json!(["all", "assigned"])
    );
    assert_eq!(
        follow_of(&t.bo, &others.thread).await,
        json!(["none", "manual"])
    );
}

#[tokio::test]
async fn taking_over_an_action_item_follows_the_thread() {
    let t = team().await;
    let dive = t.dive().await;
    let items = json!({"headline": "Monday", "action_items": [{"text": "Bake a cake"}]});
    t.ada.begin_draft(&dive.fork, items).await;
    let published = t.ada.publish(&dive.fork).await;
    assert_eq!(
        follow_of(&t.bo, &dive.thread).await,
        json!(["mentions", null])
    );
    let path = format!(
        "/v1/action-items/{}",
        text(&published, "/resolution/action_items/0/id")
    );
    t.ada.patch(&path, json!({"owner_id": t.bo.id})).await.ok();
    assert_eq!(
        follow_of(&t.bo, &dive.thread).await,
        json!(["all", "assigned"])
    );
}

#[tokio::test]
async fn a_level_chosen_by_the_user_is_kept() {
    let t = team().await;
    let thread = t.ada.thread(&t.general, "Launch").await;
    for level in ["none", "mentions", "all"] {
        set_level(&t.bo, &thread, level).await;
        t.ada.say(&thread, "@bo?").await;
        t.bo.say(&thread, "Here").await;
        assert_eq!(follow_of(&t.bo, &thread).await, json!([level, "manual"]));
    }
    let path = format!("/v1/threads/{thread}/follow");
    let set = t.bo.delete(&path).await.ok();
    assert_eq!(set, json!({"level": "mentions", "cause": "manual"}));
    let set = t.bo.put(&path, json!({})).await.ok();
    assert_eq!(set, json!({"level": "all", "cause": "manual"}));
    t.bo.put(&path, json!({"level": "loud"})).await.is(400);
}

#[tokio::test]
async fn in_a_muted_thread_only_mentions_are_unread() {
    let t = team().await;
    let thread = t.ada.thread(&t.general, "Launch").await;
    let other = t.ada.thread(&t.general, "Lunch").await;
    assert_eq!(unread_of_bo(&t, &thread).await, [(1, 0), (2, 0)]);
    set_level(&t.bo, &thread, "none").await;
    assert_eq!(unread_of_bo(&t, &thread).await, [(0, 0), (1, 0)]);
    t.ada.say(&thread, "Nobody has to know").await;
    assert_eq!(unread_of_bo(&t, &thread).await, [(0, 0), (1, 0)]);
    t.ada.say(&thread, "But @bo has to").await;
    assert_eq!(unread_of_bo(&t, &thread).await, [(0, 1), (1, 1)]);
    assert_eq!(unread_of_bo(&t, &other).await[0], (1, 0));
    set_level(&t.bo, &thread, "all").await;
    assert_eq!(unread_of_bo(&t, &thread).await, [(3, 1), (4, 1)]);

    // A muted thread does not count, even after it is marked as unread.
    set_level(&t.bo, &thread, "none").await;
    let channel = format!("/v1/channels/{}/read", t.general);
    t.bo.act(&channel).await.ok();
    let mark = format!("/v1/threads/{thread}/read");
    t.bo.put(&mark, json!({"seq": 0})).await.is(200);
    assert_eq!(unread_of_bo(&t, &thread).await, [(0, 1), (0, 1)]);
}

#[tokio::test]
async fn a_level_is_per_user_and_syncs_to_their_other_sessions() {
    let t = team().await;
    let thread = t.ada.thread(&t.general, "Launch").await;
    let (mut own, mut others) = (t.bo.socket().await, t.ada.socket().await);
    set_level(&t.bo, &thread, "none").await;
    let frame = own.of("follow.updated").await;
    assert_eq!(frame["thread_id"], json!(thread));
    assert_eq!(frame["follow"], json!({"level": "none", "cause": "manual"}));
    let heard = others.settle().await;
    assert!(heard.iter().all(|frame| frame["type"] != "follow.updated"));
    assert_eq!(follow_of(&t.ada, &thread).await, json!(["all", "started"]));
}

#[tokio::test]
async fn leaving_a_channel_ends_following() {
    let t = team().await;
    let room = id_of_channel(&t).await;
    let thread = t.ada.thread(&room, "Launch").await;
    let path = format!("/v1/threads/{thread}/follow");
    let refused = t.bo.put(&path, json!({})).await;
    assert_eq!(refused.refused(404), "thread_not_found");
    assert_eq!(t.bo.delete(&path).await.refused(404), "thread_not_found");
    let join = format!("/v1/channels/{room}/join");
    t.bo.act(&join).await.ok();
    set_level(&t.bo, &thread, "none").await;
    t.bo.act(&format!("/v1/channels/{room}/leave")).await.ok();
    t.bo.act(&join).await.ok();
    assert_eq!(follow_of(&t.bo, &thread).await, json!(["mentions", null]));
}

async fn id_of_channel(t: &Team) -> String {
    let made = t.ada.post("/v1/channels", json!({"name": "ops"})).await;
    text(&made.ok(), "/id")
}
