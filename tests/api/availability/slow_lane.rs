//! Reads whose cost grows with the amount of stored data: they wait for their person's share of the slow lane, and no other requests
//! wait.

use futures::future::join_all;
use serde_json::json;

use super::hold_slow_lane;
use crate::{
    replays::{asked, draft, started},
    support::{Person, Team, TestApp, id},
};

/// Ada with her workspace, and Eve with another one.
async fn prepared() -> (Team, Person) {
    let settings = [("SIGNUP", "open"), ("RATE_LIMITS", "off")];
    // High enough that reads of one person do not wait before they reach the slow lane.
    let app = TestApp::bounded(&settings, |bounds| bounds.bodies.handled_reads = 100).await;
    let ada = app.founder("Ada").await;
    let bo = app.join(&ada, "Bo", "member").await;
    let eve = app.founder("Eve").await;
    let general = id(&ada.channel("general").await);
    let team = Team {
        app,
        ada,
        bo,
        general,
    };
    (team, eve)
}

/// Paths of all kinds of such reads in Ada's workspace.
async fn stored(t: &Team) -> Vec<String> {
    let ada = &t.ada;
    let (dive, _) = t.resolved("Monday").await;
    let (thread, fork) = (&dive.thread, &dive.fork);
    let sage = ada.make_agent("sage").await;
    let (_, task) = asked(ada, &t.general, "which day?").await;
    let replay = started(ada, &sage, draft()).await;
    ada.completed(&replay).await;
    let persona = json!({"name": "Calm", "compressed": "You are calm."});
    let persona = ada.post("/v1/personas", persona).await.is(201);
    let step = json!({"id": "post", "kind": "output", "content": "Hello."});
    let workflow = json!({"name": "hello", "steps": [step]});
    let workflow = ada.post("/v1/workflows", workflow).await.is(201);
    let agent = id(&sage);
    vec![
        format!("/v1/threads/{thread}/forks"),
        format!("/v1/forks/{fork}/resolutions"),
        format!("/v1/tasks/{task}/tree"),
        format!("/v1/tasks/{task}/context"),
        format!("/v1/threads/{thread}/context?agent_id={agent}"),
        format!("/v1/forks/{fork}/context?agent_id={agent}"),
        format!("/v1/workspaces/{}/context", ada.workspace),
        format!("/v1/tasks/{replay}/replay"),
        format!("/v1/threads/{thread}/compactions"),
        format!("/v1/forks/{fork}/compactions"),
        format!("/v1/threads/{thread}/catch-up"),
        format!("/v1/personas/{}/versions", id(&persona)),
        format!("/v1/workflows/{}/versions", id(&workflow)),
    ]
}

/// Reads all paths at the same time and expects this status for each.
async fn expect_all(who: &Person, paths: &[String], status: u16) {
    let reads = paths
        .iter()
        .map(|path| async move { (path.as_str(), who.get(path).await.status) });
    let mut others = join_all(reads).await;
    others.retain(|(_, found)| *found != status);
    assert!(others.is_empty(), "not {status}: {others:?}");
}

#[tokio::test]
async fn reads_that_grow_wait_for_their_persons_share_of_the_slow_lane() {
    let (t, _eve) = prepared().await;
    let paths = stored(&t).await;
    expect_all(&t.ada, &paths, 200).await;
    let held = hold_slow_lane(&t.app, &t.ada).await;
    expect_all(&t.ada, &paths, 503).await;
    let reply = t.ada.get(&paths[0]).await;
    assert_eq!(reply.refused(503), "overloaded");
    // Short reads, and reads of other people, still succeed.
    let thread = paths[0].trim_end_matches("/forks");
    t.ada.get(thread).await.is(200);
    t.bo.get(&paths[0]).await.is(200);
    drop(held);
    expect_all(&t.ada, &paths, 200).await;
}

#[tokio::test]
async fn a_caller_without_access_is_refused_before_the_slow_lane() {
    let (t, eve) = prepared().await;
    let paths = stored(&t).await;
    let _held = hold_slow_lane(&t.app, &eve).await;
    expect_all(&eve, &paths, 404).await;
}

#[tokio::test]
async fn requests_that_read_a_long_history_first_wait_for_the_slow_lane() {
    let (t, _eve) = prepared().await;
    let thread = t.ada.thread(&t.general, "Root").await;
    let ask = json!({"model": "agent:vibe", "input": "hi"});
    let first = id(&t.ada.post("/v1/responses", ask).await.is(200));
    let next = json!({"model": "agent:vibe", "input": "and?", "previous_response_id": first});
    let catch_up = format!("/v1/threads/{thread}/catch-up");
    let held = hold_slow_lane(&t.app, &t.ada).await;
    let (next_reply, catch_up_reply) = futures::future::join(
        t.ada.post("/v1/responses", next.clone()),
        t.ada.act(&catch_up),
    )
    .await;
    assert_eq!(next_reply.status, 503, "{}", next_reply.text);
    assert_eq!(catch_up_reply.refused(503), "overloaded");
    drop(held);
    t.ada.post("/v1/responses", next).await.is(200);
    assert_eq!(t.ada.act(&catch_up).await.refused(422), "too_few_messages");
}
