//! Limits on the number of entries.

use serde_json::json;

use super::{path, refused, remember};
use crate::support::{Team, id, team};

/// Adds this many copies of the only entry with the same key; their numbers of uses are 1, 2, …
async fn copy(t: &Team, count: usize, origin: &str) {
    let new_id = if t.app.place.postgres.is_some() {
        "gen_random_uuid()"
    } else {
        "randomblob(16)"
    };
    let sql = format!(
        "with recursive n (i) as (select 1 union all select i + 1 from n where i < {count}) insert into memories \
         (id, workspace_id, scope, key, kind, text, hash, words, agent_id, user_id, about_user_id, thread_id, conversation_id, \
         compaction_id, channel_id, visibility, trust, origin, status, superseded_by, share_with_organization, flagged, uses, \
         last_used_at, expires_at, version, created_by, created_at, updated_at, forgotten_at) \
         select {new_id}, workspace_id, scope, key, kind, 'Copy ' || i, null, 0, agent_id, user_id, about_user_id, thread_id, conversation_id, \
         compaction_id, channel_id, visibility, trust, '{origin}', status, superseded_by, share_with_organization, flagged, i, \
         last_used_at, expires_at, version, created_by, created_at, updated_at, forgotten_at from memories cross join n"
    );
    t.app.place.run(&[&sql]).await;
}

#[tokio::test]
async fn beyond_the_limit_the_least_used_entry_that_nobody_wrote_is_archived() {
    let t = team().await;
    let thread = t.ada.thread(&t.general, "Root").await;
    let made = remember(&t.ada, "Written by hand", json!({"thread_id": thread})).await;
    copy(&t, 1_999, "auto").await;
    let last = remember(&t.ada, "One more", json!({"thread_id": thread})).await;
    let archived = t.ada.every("/v1/memories?status=archived").await;
    let texts: Vec<&str> = archived
        .iter()
        .map(|entry| entry["text"].as_str().unwrap())
        .collect();
    assert_eq!(texts, ["Copy 1"]);
    for entry in [&made, &last] {
        assert_eq!(t.ada.get(&path(entry)).await.is(200)["status"], "active");
    }
    // Another key has its own limit.
    remember(&t.ada, "One more", json!({})).await;
}

#[tokio::test]
async fn entries_by_hand_are_never_archived() {
    let t = team().await;
    let made = remember(&t.ada, "Written by hand", json!({})).await;
    copy(&t, 1_999, "hand").await;
    assert_eq!(refused(&t.ada, json!({})).await, "409 memory_full");
    t.ada.delete(&path(&made)).await.is(200);
    assert!(!id(&remember(&t.ada, "One more", json!({})).await).is_empty());
}

#[tokio::test]
async fn nobody_fills_the_memory_of_a_workspace_alone() {
    let t = team().await;
    remember(&t.ada, "Written by hand", json!({})).await;
    copy(&t, 9_999, "hand").await;
    let apart = "update memories set key = text, user_id = null";
    t.app.place.run(&[apart]).await;
    assert_eq!(refused(&t.ada, json!({})).await, "409 memory_full");
    remember(&t.bo, "One more", json!({})).await;
}
