//! Catch-ups of channels and of the inbox.

use serde_json::{Value, json};

use crate::support::{Person, list, team, text};

/// Lines as `group: author: text (unread)`.
async fn lines(person: &Person, path: &str) -> Vec<String> {
    let summary = person.get(path).await.ok();
    let mut lines = Vec::new();
    for group in list(&summary, "/groups") {
        for line in list(&group, "/lines") {
            lines.push(format!(
                "{}: {}: {} ({})",
                text(&group, "/name"),
                text(&line, "/author/name"),
                text(&line, "/text"),
                line["unread"]
            ));
        }
    }
    lines
}

#[tokio::test]
async fn each_unread_thread_has_one_line_in_the_first_group_that_fits() {
    let t = team().await;
    let cem = t.app.join(&t.ada, "Cem", "member").await;
    t.ada.thread(&t.general, "Quiet news").await;
    let moving = t.ada.thread(&t.general, "Lunch").await;
    for n in 0..3 {
        t.ada.say(&moving, &format!("Ada {n}")).await;
        cem.say(&moving, &format!("Cem {n}")).await;
    }
    let (dive, _) = t.resolved("Ship on Monday").await;
    let wants = t.ada.thread(&t.general, "Launch").await;
    t.ada.say(&wants, "@bo can you come?").await;
    t.ada.say(&wants, "And later").await;
    // Bo follows the thread of the fork in which he wrote.
    let path = format!("/v1/channels/{}/catch-up", t.general);
    let read = json!({"level": "mentions"});
    t.bo.put(&format!("/v1/threads/{}/follow", dive.thread), read)
        .await
        .ok();
    for item in super::open_items(&t.bo).await {
        if item["reason"] == "result" {
            super::set_state(&t.bo, &[&crate::support::id(&item)], "done").await;
        }
    }
    let found = lines(&t.bo, &path).await;
    assert_eq!(found.len(), 4, "{found:?}");
    assert_eq!(found[0], "wants_you: Ada: @bo can you come? (3)");
    assert!(
        found[1].starts_with("results: Ada: Ship on Monday"),
        "{found:?}"
    );
    assert_eq!(found[2], "moving: Cem: Cem 2 (7)");
    assert_eq!(found[3], "quiet: Ada: Quiet news (1)");
    assert_eq!(lines(&t.bo, "/v1/inbox/catch-up").await, found);
    let summary = t.bo.get(&path).await.ok();
    assert_eq!(
        json!([summary["count"], summary["left_out"]]),
        json!([13, {"threads": 0, "messages": 0}])
    );
    assert!(summary["from_at"].is_string());
    let line = &summary["groups"][3]["lines"][0];
    assert_eq!(list(line, "/sources").len(), 1);
    // It moves no marker.
    assert_eq!(lines(&t.bo, &path).await, found);
    t.bo.act(&format!("/v1/channels/{}/read", t.general))
        .await
        .ok();
    let summary = t.bo.get(&path).await.ok();
    assert_eq!(
        json!([summary["groups"], summary["count"], summary["from_at"]]),
        json!([[], 0, null])
    );
}

#[tokio::test]
async fn a_thread_that_wants_the_whole_channel_wants_each_member_until_they_have_read_it() {
    let t = team().await;
    let call = t
        .ada
        .thread(&t.general, "@channel the fair is on Friday")
        .await;
    t.ada.thread(&t.general, "Quiet news").await;
    let found = lines(&t.bo, "/v1/inbox/catch-up").await;
    assert_eq!(
        found,
        [
            "wants_you: Ada: @channel the fair is on Friday (1)",
            "quiet: Ada: Quiet news (1)"
        ]
    );
    // At the level `all`, each new thread wants them too; at `none`, nothing of the channel does.
    let path = format!("/v1/channels/{}/level", t.general);
    t.bo.put(&path, json!({"level": "all"})).await.ok();
    t.ada.thread(&t.general, "Loud news").await;
    let found = lines(&t.bo, "/v1/inbox/catch-up").await;
    let loud = "wants_you: Ada: Loud news (1)".to_owned();
    assert!(found.contains(&loud), "{found:?}");
    t.bo.put(&path, json!({"level": "none"})).await.ok();
    let found = lines(&t.bo, "/v1/inbox/catch-up").await;
    assert!(
        found.iter().all(|line| line.starts_with("quiet: ")),
        "{found:?}"
    );
    t.bo.put(&path, json!({"level": "mentions"})).await.ok();
    let read = json!({"seq": i64::from(u32::MAX)});
    t.bo.put(&format!("/v1/threads/{call}/read"), read)
        .await
        .ok();
    let found = lines(&t.bo, "/v1/inbox/catch-up").await;
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(
        found.iter().all(|line| line.starts_with("quiet: ")),
        "{found:?}"
    );
}

#[tokio::test]
async fn a_catch_up_has_nothing_of_channels_that_a_person_cannot_read() {
    let t = team().await;
    let channel = t.ada.private_channel("board", &[]).await;
    t.ada.thread(&channel, "Secret").await;
    let refused = t.bo.get(&format!("/v1/channels/{channel}/catch-up")).await;
    assert_eq!(refused.refused(404), "channel_not_found");
    let summary: Value = t.bo.get("/v1/inbox/catch-up").await.ok();
    assert_eq!(summary["groups"], json!([]));
}

#[tokio::test]
async fn muted_threads_are_left_out() {
    let t = team().await;
    let thread = t.ada.thread(&t.general, "Lunch").await;
    let mute = json!({"level": "none"});
    t.bo.put(&format!("/v1/threads/{thread}/follow"), mute)
        .await
        .ok();
    assert!(lines(&t.bo, "/v1/inbox/catch-up").await.is_empty());
}
