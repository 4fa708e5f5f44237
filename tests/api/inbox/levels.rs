//! Levels of forks and channels, and read markers of forks.

use serde_json::{Value, json};

use super::{inbox, open_items};
use crate::support::{Person, id, number, team, text};

async fn newest_seq(person: &Person, fork: &str) -> i64 {
    let newest = person.messages_in(fork).await.pop().unwrap();
    number(&newest, "/seq")
}

async fn set_level(person: &Person, channel: &str, level: &str) -> Value {
    let path = format!("/v1/channels/{channel}/level");
    person.put(&path, json!({"level": level})).await.ok()
}

#[tokio::test]
async fn people_in_a_fork_follow_it_and_have_their_own_marker() {
    let t = team().await;
    let dive = t.dive().await;
    let own = t.ada.my_fork(&dive.fork).await;
    assert_eq!(own["follow"], json!({"level": "all", "cause": "fork"}));
    let others = t.bo.my_fork(&dive.fork).await;
    assert_eq!(
        json!([
            others["follow"],
            others["unread_count"],
            others["first_unread_id"]
        ]),
        json!([{"level": "mentions", "cause": null}, 0, null])
    );
    let first = t.bo.tell_in(&dive.fork, "Monday suits everybody.").await;
    t.bo.say_in(&dive.fork, "Or Tuesday.").await;
    let own = t.ada.my_fork(&dive.fork).await;
    assert_eq!(
        json!([own["unread_count"], own["first_unread_id"], own["read_seq"]]),
        json!([2, first, 0])
    );
    assert_eq!(t.bo.my_fork(&dive.fork).await["follow"]["cause"], "wrote");
    assert_eq!(t.bo.my_fork(&dive.fork).await["unread_count"], 0);
    let listed = t
        .ada
        .get(&format!("/v1/threads/{}/forks", dive.thread))
        .await
        .ok();
    assert_eq!(listed["data"][0], own);
    // Its messages do not count in the thread or the channel.
    let thread = t
        .ada
        .get(&format!("/v1/threads/{}", dive.thread))
        .await
        .ok();
    assert_eq!(thread["unread_count"], 0);
}

#[tokio::test]
async fn reading_a_fork_closes_its_item_and_reaches_other_windows() {
    let t = team().await;
    let dive = t.dive().await;
    t.bo.say_in(&dive.fork, "Monday suits everybody.").await;
    assert_eq!(
        inbox(&t.ada, "").await,
        ["reply open Monday suits everybody."]
    );
    let mut socket = t.ada.socket().await;
    let seq = newest_seq(&t.ada, &dive.fork).await;
    let path = format!("/v1/forks/{}/read", dive.fork);
    let mark = t.ada.put(&path, json!({"seq": seq})).await.ok();
    assert_eq!(
        mark,
        json!({"fork_id": dive.fork, "seq": seq, "unread_count": 0})
    );
    let frame = socket.of("fork_read.updated").await;
    assert_eq!(
        json!([frame["fork_id"], frame["seq"]]),
        json!([dive.fork, seq])
    );
    assert!(open_items(&t.ada).await.is_empty());
    let back = t.ada.put(&path, json!({"seq": 0})).await.ok();
    assert_eq!(back["unread_count"], 1);
    // Numbers of imported messages are negative; none is that low.
    let below_all = json!({"seq": -(1_i64 << 40) - 1});
    t.ada.put(&path, below_all).await.refused(422);
}

#[tokio::test]
async fn a_fork_can_be_followed_muted_and_left() {
    let t = team().await;
    let dive = t.dive().await;
    let path = format!("/v1/forks/{}/follow", dive.fork);
    let mut socket = t.bo.socket().await;
    let followed = t.bo.put(&path, json!({})).await.ok();
    assert_eq!(followed, json!({"level": "all", "cause": "manual"}));
    let frame = socket.of("fork_follow.updated").await;
    assert_eq!(
        json!([frame["fork_id"], frame["follow"]]),
        json!([dive.fork, followed])
    );
    t.ada.say_in(&dive.fork, "Monday?").await;
    assert_eq!(inbox(&t.bo, "").await, ["reply open Monday?"]);
    assert_eq!(open_items(&t.bo).await[0]["notifies"], true, "by hand");
    t.bo.put(&path, json!({"level": "none"})).await.ok();
    assert!(open_items(&t.bo).await.is_empty());
    t.ada.say_in(&dive.fork, "@bo Monday?").await;
    let mention = &open_items(&t.bo).await[0];
    assert_eq!(
        json!([mention["reason"], mention["notifies"], mention["level"]]),
        json!(["mention", false, "none"])
    );
    assert_eq!(
        t.bo.delete(&path).await.ok(),
        json!({"level": "mentions", "cause": "manual"})
    );
}

#[tokio::test]
async fn nobody_marks_or_follows_a_fork_that_they_cannot_read() {
    let t = team().await;
    let channel = t.ada.private_channel("board", &[]).await;
    let started = t.ada.start(&channel, "Friday or Monday?").await;
    let (thread, root) = (text(&started, "/thread/id"), text(&started, "/message/id"));
    let fork = t
        .ada
        .start_fork(&thread, &root, json!({"agent_id": null}))
        .await;
    let fork = format!("/v1/forks/{}", id(&fork));
    let follow = t.bo.put(&format!("{fork}/follow"), json!({})).await;
    assert_eq!(follow.refused(404), "fork_not_found");
    let read = t.bo.put(&format!("{fork}/read"), json!({"seq": 1})).await;
    assert_eq!(read.refused(404), "fork_not_found");
    let level =
        t.bo.put(
            &format!("/v1/channels/{channel}/level"),
            json!({"level": "all"}),
        )
        .await;
    assert_eq!(level.refused(404), "channel_not_found");
}

#[tokio::test]
async fn people_who_have_not_joined_a_public_channel_have_no_levels_and_markers_there() {
    let t = team().await;
    let channel = id(&t
        .ada
        .post("/v1/channels", json!({"name": "ops"}))
        .await
        .is(201));
    let started = t.ada.start(&channel, "Friday or Monday?").await;
    let (thread, root) = (text(&started, "/thread/id"), text(&started, "/message/id"));
    let fork = t
        .ada
        .start_fork(&thread, &root, json!({"agent_id": null}))
        .await;
    let fork = format!("/v1/forks/{}", id(&fork));
    let follow = format!("{fork}/follow");
    let read = format!("{fork}/read");
    t.bo.get(&fork).await.ok();
    let followed = t.bo.put(&follow, json!({})).await;
    assert_eq!(followed.refused(404), "fork_not_found");
    assert_eq!(t.bo.delete(&follow).await.refused(404), "fork_not_found");
    let mark = t.bo.put(&read, json!({"seq": 1})).await;
    assert_eq!(mark.refused(404), "fork_not_found");
    let level = format!("/v1/channels/{channel}/level");
    let leveled = t.bo.put(&level, json!({"level": "all"})).await;
    assert_eq!(leveled.refused(404), "channel_not_found");
    t.bo.act(&format!("/v1/channels/{channel}/join")).await.ok();
    t.bo.put(&follow, json!({})).await.ok();
    t.bo.put(&read, json!({"seq": 1})).await.ok();
}

#[tokio::test]
async fn the_level_all_of_a_channel_shows_each_new_thread() {
    let t = team().await;
    let general = t.bo.get(&format!("/v1/channels/{}", t.general)).await.ok();
    assert_eq!(general["level"], "mentions");
    t.ada.thread(&t.general, "Before").await;
    let mut socket = t.bo.socket().await;
    assert_eq!(set_level(&t.bo, &t.general, "all").await["level"], "all");
    let frame = socket.of("level.updated").await;
    assert_eq!(
        json!([frame["channel_id"], frame["level"]]),
        json!([t.general, "all"])
    );
    let thread = t.ada.thread(&t.general, "After").await;
    assert_eq!(inbox(&t.bo, "").await, ["thread open After"]);
    // The conversation's level wins if it was set by hand.
    let path = format!("/v1/threads/{thread}/follow");
    t.bo.put(&path, json!({"level": "mentions"})).await.ok();
    assert!(open_items(&t.bo).await.is_empty());
    t.bo.thread(&t.general, "My own").await;
    assert!(open_items(&t.bo).await.is_empty(), "not the author");
}

#[tokio::test]
async fn a_muted_channel_has_items_for_mentions_by_handle_only() {
    let t = team().await;
    let thread = t.bo.thread(&t.general, "Launch").await;
    set_level(&t.bo, &t.general, "none").await;
    t.ada.say(&thread, "Friday").await;
    t.ada.say(&thread, "@everyone Friday").await;
    assert!(open_items(&t.bo).await.is_empty());
    t.ada.say(&thread, "@bo Friday").await;
    let items = open_items(&t.bo).await;
    assert_eq!(items.len(), 1);
    assert_eq!(
        json!([items[0]["reason"], items[0]["notifies"]]),
        json!(["mention", false])
    );
}
