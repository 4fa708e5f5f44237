//! The log of durable events over HTTP, and snapshots of a workspace.

use serde_json::{Value, json};

use crate::support::{Answer, Gate, Socket, id, list, number, team, team_with, text, within};

#[tokio::test]
async fn events_are_read_in_pages_after_a_sequence_number() {
    let t = team().await;
    let thread = t.ada.thread(&t.general, "Root").await;
    for n in 0..5 {
        t.ada.say(&thread, &n.to_string()).await;
    }
    let page = t.bo.get("/v1/events?after=1&limit=2").await.ok();
    assert_eq!(page["object"], "list");
    assert_eq!(page["has_more"], true);
    assert!(page.get("resync").is_none_or(|r| r == false), "{page}");
    let seqs: Vec<i64> = list(&page, "/data")
        .iter()
        .map(|e| number(e, "/seq"))
        .collect();
    assert_eq!(seqs, [2, 3]);
    let head = number(&page, "/seq");
    let last =
        t.bo.get(&format!("/v1/events?after={}", head - 1))
            .await
            .ok();
    assert_eq!(
        (list(&last, "/data").len(), &last["has_more"]),
        (1, &json!(false))
    );
    let end = t.bo.get(&format!("/v1/events?after={head}")).await.ok();
    assert_eq!(
        (&end["data"], &end["has_more"]),
        (&json!([]), &json!(false))
    );
    assert!(
        end.get("resync").is_none_or(|r| r == false),
        "at the head nothing is missing"
    );
}

#[tokio::test]
async fn events_over_http_are_the_frames_of_the_socket() {
    let t = team().await;
    let mut socket = t.bo.socket().await;
    let after = socket.cursor;
    let thread = t.ada.thread(&t.general, "Root 👋").await;
    let task = t.ada.ask(&thread, "@vibe hi").await;
    let live = socket
        .events_through("the end", |f| f["data"]["task"]["status"] == "completed")
        .await;
    t.ada.completed(&task).await;
    let page = t.bo.get(&format!("/v1/events?after={after}")).await.ok();
    assert_eq!(list(&page, "/data"), live);
}

#[tokio::test]
async fn a_cursor_ahead_of_the_head_requires_a_reload() {
    let t = team().await;
    let page = t.bo.get("/v1/events?after=1000000").await.ok();
    assert_eq!((&page["resync"], &page["data"]), (&json!(true), &json!([])));
    t.bo.get("/v1/events?after=9223372036854775808")
        .await
        .refused(400);
}

/// Waits until the events up to `seq` have been pruned.
async fn pruned(t: &crate::support::Team, seq: i64) {
    let gone = async {
        while t
            .ada
            .get(&format!("/v1/events?after={}", seq - 1))
            .await
            .ok()["resync"]
            != true
        {
            crate::support::pause().await;
        }
    };
    within("old events to be removed", gone).await;
}

#[tokio::test]
async fn a_cursor_older_than_the_retained_events_requires_a_reload() {
    let t = team_with(&[("EVENT_RETENTION", "300ms")]).await;
    let started = t.ada.start(&t.general, "Root").await;
    let seq = number(&started, "/message/seq");
    pruned(&t, seq).await;
    let page = t.ada.get("/v1/events?after=0").await.ok();
    assert_eq!((&page["resync"], &page["data"]), (&json!(true), &json!([])));
    let mut stale = Socket::read_hello(&t.ada, json!({"since": 0})).await;
    assert_eq!(
        (&stale.ready["resync"], &stale.ready["resumed"]),
        (&json!(true), &json!(false))
    );
    assert_eq!(stale.next().await["type"], "live", "nothing is replayed");
    assert_eq!(
        t.ada.contents(&text(&started, "/thread/id")).await,
        ["Root"],
        "messages stay"
    );
    let head = number(&t.ada.get("/v1/snapshot").await.ok(), "/seq");
    let page = t.ada.get(&format!("/v1/events?after={head}")).await.ok();
    assert!(
        page.get("resync").is_none_or(|r| r == false),
        "at the head nothing is missing: {page}"
    );
    let fresh = Socket::read_hello(&t.ada, json!({"since": head})).await;
    assert_eq!(fresh.ready["resumed"], true);
}

#[tokio::test]
async fn a_snapshot_contains_a_clients_initial_state() {
    let t = team().await;
    let gate = Gate::new();
    t.model()
        .script("vibe", [Answer::text("Done.").held(&gate)]);
    let private = t.ada.private_channel("board", &[]).await;
    t.ada.thread(&private, "@coder secret").await;
    let task = text(
        &t.ada.start(&t.general, "@vibe @bo hi").await,
        "/tasks/0/id",
    );
    gate.reached().await;
    let _online = t.ada.socket().await;
    let snapshot = t.bo.get("/v1/snapshot").await.ok();
    assert!(snapshot["epoch"].is_string());
    assert_eq!(
        snapshot["me"],
        json!({"id": t.bo.id, "email": "bo@example.org", "name": "Bo", "handle": "bo", "role": "member", "avatar_url": null})
    );
    assert_eq!(snapshot["workspace"]["id"], t.ada.workspace.as_str());
    assert_eq!(
        snapshot["workspace"]["default_agent_id"],
        t.ada.agent("vibe").await["id"]
    );
    let members: Vec<String> = list(&snapshot, "/members")
        .iter()
        .map(|m| text(m, "/handle"))
        .collect();
    assert_eq!(members, ["ada", "bo"]);
    let channels = list(&snapshot, "/channels");
    let names: Vec<String> = channels.iter().map(|c| text(c, "/name")).collect();
    assert_eq!(names, ["general", "random"], "not the private one");
    assert_eq!(
        (&channels[0]["unread_count"], &channels[0]["mention_count"]),
        (&json!(1), &json!(1))
    );
    assert_eq!(list(&snapshot, "/agents").len(), 4);
    assert_eq!(snapshot["open_forks"], json!([]));
    let tasks: Vec<String> = list(&snapshot, "/active_tasks").iter().map(id).collect();
    assert_eq!(tasks, [task], "only where Bo is");
    assert_eq!(
        snapshot["presence"],
        json!([{"user_id": t.ada.id, "status": "online"}])
    );
    gate.open();
}

#[tokio::test]
async fn a_snapshot_is_the_state_at_exactly_its_sequence_number() {
    let t = team().await;
    let thread = t.ada.thread(&t.general, "Root").await;
    // One user posts while another takes snapshots; each snapshot must agree with the log up to its sequence number.
    let posting = async {
        for n in 0..40 {
            t.ada.say(&thread, &n.to_string()).await;
        }
    };
    let looking = async {
        let mut all: Vec<Value> = Vec::new();
        for _ in 0..15 {
            all.push(t.bo.get("/v1/snapshot").await.ok());
        }
        all
    };
    let ((), snapshots) = tokio::join!(posting, looking);
    let events = t.bo.events().await;
    let mut distinct = std::collections::HashSet::new();
    for snapshot in snapshots {
        let seq = number(&snapshot, "/seq");
        distinct.insert(seq);
        let by_then = events
            .iter()
            .filter(|e| e["type"] == "message.created" && number(e, "/seq") <= seq)
            .count();
        let unread = number(&snapshot, "/channels/0/unread_count");
        assert_eq!(unread, i64::try_from(by_then).unwrap(), "at {seq}");
    }
    assert!(
        distinct.len() > 1,
        "the snapshots were taken during changes"
    );
}

#[tokio::test]
async fn the_epoch_survives_a_restart() {
    let mut t = team().await;
    let before = t.ada.get("/v1/snapshot").await.ok();
    t.app.restart(&[]).await;
    let after = t.ada.at(&t.app.base).get("/v1/snapshot").await.ok();
    assert_eq!(
        (&before["epoch"], &before["seq"]),
        (&after["epoch"], &after["seq"])
    );
}

#[tokio::test]
async fn members_in_a_snapshot_are_the_first_of_the_list() {
    let t = team().await;
    for n in 0..3 {
        t.app.join(&t.ada, &format!("P{n}"), "member").await;
    }
    let snapshot = t.ada.get("/v1/snapshot").await.ok();
    let listed = t.ada.get("/v1/members?limit=100").await.ok();
    assert_eq!(snapshot["members"], listed["data"]);
    let page = t.ada.get("/v1/members?limit=2").await.ok();
    assert_eq!(
        (list(&page, "/data").len(), &page["has_more"]),
        (2, &json!(true))
    );
    let next = t
        .ada
        .get(&format!(
            "/v1/members?limit=2&after={}",
            text(&page, "/last_id")
        ))
        .await
        .ok();
    let names: Vec<String> = list(&next, "/data")
        .iter()
        .map(|m| text(m, "/name"))
        .collect();
    assert_eq!(names, ["P0", "P1"]);
}
