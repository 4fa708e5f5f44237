//! Settings that turn memory off.

use serde_json::{Value, json};

use super::{path, refused, remember};
use crate::support::{Team, id, team, team_with, text};

/// Asks a question; returns whether the request contains the entry with its answer.
async fn is_used(t: &Team, thread: &str, n: usize) -> bool {
    let task = t
        .ada
        .ask(thread, "@vibe where does the harbor ferry start?")
        .await;
    t.ada.completed(&task).await;
    t.model().asked("vibe", n).await[n - 1]
        .all()
        .contains("Pier 4711")
}

#[tokio::test]
async fn each_switch_stops_use_and_writing_at_once() {
    let t = team().await;
    let thread = t.ada.thread(&t.general, "Root").await;
    let policy = format!("/v1/workspaces/{}/policy", t.ada.workspace);
    let agent = format!("/v1/agents/{}", id(&t.ada.agent("vibe").await));
    remember(&t.ada, "The harbor ferry starts at Pier 4711", json!({})).await;
    assert!(is_used(&t, &thread, 1).await);
    let switches: [(&str, Value, Value, bool); 5] = [
        (
            "/v1/memory-settings",
            json!({"enabled": false}),
            json!({"enabled": true}),
            true,
        ),
        (
            &policy,
            json!({"memory": {"enabled": false}}),
            json!({"memory": {"enabled": true}}),
            true,
        ),
        (
            &policy,
            json!({"memory": {"user": false}}),
            json!({"memory": {"user": true}}),
            true,
        ),
        (
            &agent,
            json!({"memory": {"scopes": {"user": false}}}),
            json!({"memory": {"scopes": {"user": null}}}),
            false,
        ),
        (
            &format!("/v1/threads/{thread}"),
            json!({"memory": "off"}),
            json!({"memory": "on"}),
            false,
        ),
    ];
    let mut n = 1;
    for (path, off, on, stops_writing) in switches {
        t.ada.patch(path, off.clone()).await.is(200);
        n += 1;
        assert!(!is_used(&t, &thread, n).await, "{off}");
        if stops_writing {
            assert_eq!(refused(&t.ada, json!({})).await, "409 memory_off", "{off}");
        }
        t.ada.patch(path, on.clone()).await.is(200);
        n += 1;
        assert!(is_used(&t, &thread, n).await, "{on}");
    }
    let stored = t.ada.get("/v1/memory-settings").await.ok();
    let wanted = json!({"enabled": true, "persona": true, "adapt": false, "server_enabled": true});
    assert_eq!(stored, wanted);
    t.ada
        .patch("/v1/memory-settings", json!({"persona": false}))
        .await
        .is(200);
    let persona = json!({"scope": "persona", "agent_id": agent.rsplit_once('/').unwrap().1});
    assert_eq!(refused(&t.ada, persona).await, "409 memory_off");
    assert!(is_used(&t, &thread, n + 1).await);
    // Settings of one person do not affect others.
    remember(&t.bo, "Likes ferries", json!({})).await;
}

#[tokio::test]
async fn policy_switches_are_merged_by_key() {
    let t = team().await;
    let path = format!("/v1/workspaces/{}/policy", t.ada.workspace);
    let policy = t.ada.get(&path).await.ok();
    let all = json!({"enabled": true, "user": true, "persona": true, "organization": true, "quiet": true, "retention_days": null});
    assert_eq!(policy["memory"], all);
    t.ada
        .patch(&path, json!({"memory": {"persona": false}}))
        .await
        .is(200);
    let policy = t
        .ada
        .patch(
            &path,
            json!({"memory": {"organization": false, "retention_days": 30}}),
        )
        .await
        .is(200);
    let some = json!({"enabled": true, "user": true, "persona": false, "organization": false, "quiet": true, "retention_days": 30});
    assert_eq!(policy["memory"], some);
    let policy = t
        .ada
        .patch(&path, json!({"required_text": "Be kind."}))
        .await
        .is(200);
    assert_eq!(policy["memory"], some);
    for days in [0, 36_501] {
        let wrong = json!({"memory": {"retention_days": days}});
        t.ada.patch(&path, wrong).await.refused(422);
    }
    let policy = t
        .ada
        .patch(
            &path,
            json!({"memory": {"retention_days": null, "quiet": false}}),
        )
        .await
        .is(200);
    let rules = &policy["memory"];
    assert_eq!(
        (&rules["retention_days"], &rules["quiet"]),
        (&Value::Null, &json!(false))
    );
}

#[tokio::test]
async fn a_thread_that_is_not_remembered_keeps_its_entries_to_itself() {
    let t = team().await;
    let form = json!({"content": "Ferries", "memory": "off"});
    let started = t
        .ada
        .post(&format!("/v1/channels/{}/threads", t.general), form)
        .await
        .is(201);
    assert_eq!(started["thread"]["memory"], "off");
    let off = text(&started, "/thread/id");
    let other = t.ada.thread(&t.general, "Root").await;
    let fields = json!({"thread_id": off, "visibility": "workspace"});
    assert_eq!(refused(&t.ada, fields.clone()).await, "409 memory_off");
    let switch = async |memory: &str| {
        let path = format!("/v1/threads/{off}");
        t.ada.patch(&path, json!({"memory": memory})).await.is(200)
    };
    switch("on").await;
    let made = remember(&t.ada, "The harbor ferry starts at Pier 4711", fields).await;
    switch("off").await;
    assert!(!is_used(&t, &off, 1).await);
    assert!(!is_used(&t, &other, 2).await);
    assert_eq!(switch("on").await["memory"], "on");
    assert!(is_used(&t, &other, 3).await);
    // An entry is also not used if memory is off for the thread of its source.
    let source = text(&t.ada.start(&t.general, "Pier 4711").await, "/message/id");
    let source_thread = text(&t.ada.message(&source).await, "/thread_id");
    t.ada.delete(&path(&made)).await.is(200);
    let fields = json!({"source_message_ids": [source]});
    remember(&t.ada, "The harbor ferry starts at Pier 4711", fields).await;
    assert!(is_used(&t, &other, 4).await);
    t.ada
        .patch(
            &format!("/v1/threads/{source_thread}"),
            json!({"memory": "off"}),
        )
        .await
        .is(200);
    assert!(!is_used(&t, &other, 5).await);
}

#[tokio::test]
async fn a_refusal_names_the_first_switch_and_who_can_turn_it_on() {
    let t = team().await;
    let policy = format!("/v1/workspaces/{}/policy", t.ada.workspace);
    let thread = t.ada.thread(&t.general, "Root").await;
    let text_of = async |fields: Value| {
        let mut form = json!({"text": "The harbor opens at nine", "kind": "fact"});
        form.as_object_mut()
            .unwrap()
            .extend(fields.as_object().unwrap().clone());
        let reply = t.ada.post("/v1/memories", form).await;
        text(&reply.json(), "/error/message")
    };
    let own = json!({"enabled": false});
    t.ada.patch("/v1/memory-settings", own).await.is(200);
    let person = "you have turned memory about you off: turn it on in Settings first";
    assert_eq!(text_of(json!({})).await, person);
    let agent = id(&t.ada.agent("vibe").await);
    let with_agent = json!({"scope": "persona", "agent_id": agent});
    assert_eq!(text_of(with_agent).await, person);
    // The workspace's switch comes before the person's.
    let off = json!({"memory": {"user": false}});
    t.ada.patch(&policy, off).await.is(200);
    let workspace =
        "the workspace has turned memory about you off: an admin can turn it on in Settings";
    assert_eq!(text_of(json!({})).await, workspace);
    let off = json!({"memory": {"enabled": false}});
    t.ada.patch(&policy, off).await.is(200);
    assert_eq!(
        text_of(json!({})).await,
        "the workspace has turned memory off: an admin can turn it on in Settings"
    );
    let on = json!({"memory": {"enabled": true}});
    t.ada.patch(&policy, on).await.is(200);
    let off = json!({"memory": "off"});
    t.ada
        .patch(&format!("/v1/threads/{thread}"), off)
        .await
        .is(200);
    assert_eq!(
        text_of(json!({"thread_id": thread})).await,
        "memory of this thread is turned off: turn it on in the thread first"
    );
}

#[tokio::test]
async fn the_server_can_turn_memory_off() {
    let t = team_with(&[("MEMORY", "off")]).await;
    let reply = t
        .ada
        .post("/v1/memories", json!({"text": "Tea", "kind": "fact"}));
    let message = text(&reply.await.json(), "/error/message");
    assert!(message.contains("OPENVIBE_MEMORY"), "{message}");
    let switches = t.ada.get("/v1/memory-settings").await.ok();
    assert_eq!(switches["server_enabled"], false);
    assert_eq!(refused(&t.ada, json!({})).await, "409 memory_off");
}
