//! Slow writes of one user.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;

use openvibe::share::PoolBounds;

use crate::support::{Answer, Gate, Person, Reply, TestApp, id, within};

/// Starts a write of this user that is not finished until the gate opens: a model drafts an agent.
pub async fn stuck_draft(app: &TestApp, who: &Person, gate: &Gate) -> JoinSet<()> {
    let draft = json!({"name": "helper", "display_name": "Helper", "instructions": "Help."});
    let answer = Answer::text(&draft.to_string()).held(gate);
    app.model.script("drafter", [answer]);
    let (who, mut drafting) = (who.clone(), JoinSet::new());
    drafting.spawn(async move {
        let form = json!({"description": "Helps"});
        who.post("/v1/agents/draft", form).await.is(200);
    });
    gate.reached().await;
    drafting
}

async fn start_thread(who: &Person, channel: &str) -> Reply {
    let path = format!("/v1/channels/{channel}/threads");
    who.post(&path, json!({"content": "Hello"})).await
}

#[tokio::test]
async fn writes_of_one_user_take_turns_and_others_do_not_wait_for_them() {
    let app = TestApp::bounded(&[], |bounds| {
        bounds.bodies.handled_writes = 1;
        bounds.bodies.handled_within = Duration::from_millis(500);
    })
    .await;
    let ada = app.founder("Ada").await;
    let bo = app.join(&ada, "Bo", "member").await;
    let (key, _) = ada.make_key(&["chat:write"]).await;
    let general = id(&ada.channel("general").await);
    let thread = ada.thread(&general, "Root").await;
    let gate = Gate::new();
    let drafting = stuck_draft(&app, &ada, &gate).await;
    for own in [&ada, &key] {
        let refused = start_thread(own, &general).await;
        assert_eq!(refused.refused(503), "overloaded");
    }
    let follow = format!("/v1/threads/{thread}/follow");
    assert_eq!(ada.delete(&follow).await.refused(503), "overloaded");
    ada.get("/v1/auth/me").await.is(200);
    start_thread(&bo, &general).await.is(201);
    gate.open();
    within("the draft", drafting.join_all()).await;
    start_thread(&ada, &general).await.is(201);
    start_thread(&key, &general).await.is(201);
}

/// Requests that call a model, streamed or not.
fn model_calls() -> Vec<(&'static str, Value)> {
    let calls = [false, true].map(|stream| {
        let messages = json!([{"role": "user", "content": "Hi"}]);
        let response = json!({"model": "agent:vibe", "input": "Hi", "stream": stream});
        let completion = json!({"model": "agent:vibe", "messages": messages, "stream": stream});
        [
            ("/v1/responses", response),
            ("/v1/chat/completions", completion),
        ]
    });
    calls.into_iter().flatten().collect()
}

#[tokio::test]
async fn large_requests_to_models_leave_memory_for_everything_else() {
    let app = TestApp::bounded(&[], |bounds| {
        bounds.bodies.media_bytes = PoolBounds {
            total: 64 << 10,
            share: 64 << 10,
        };
    })
    .await;
    let ada = app.founder("Ada").await;
    let general = id(&ada.channel("general").await);
    let large = "x".repeat(65 << 10);
    let ask = json!({"model": "agent:vibe", "input": large});
    assert_eq!(ada.post("/v1/responses", ask).await.status, 503);
    // A body of another request counts elsewhere.
    let long = json!({"content": large});
    let path = format!("/v1/channels/{general}/threads");
    assert_eq!(ada.post(&path, long).await.status / 100, 4);
    let small = json!({"model": "agent:vibe", "input": "Hi"});
    ada.post("/v1/responses", small).await.is(200);
}

#[tokio::test]
async fn calls_of_the_model_hold_no_turn_while_it_responds() {
    let app = TestApp::bounded(&[], |bounds| bounds.bodies.handled_writes = 1).await;
    let ada = app.founder("Ada").await;
    let general = id(&ada.channel("general").await);
    let (mut calls, mut gates) = (JoinSet::new(), Vec::new());
    for (path, form) in model_calls() {
        let gate = Gate::new();
        app.model
            .script("vibe", [Answer::text("Hello.").held(&gate)]);
        let ada = ada.clone();
        calls.spawn(async move { ada.post(path, form).await.status });
        gate.reached().await;
        gates.push(gate);
    }
    start_thread(&ada, &general).await.is(201);
    gates.iter().for_each(Gate::open);
    let statuses = within("the calls", calls.join_all()).await;
    assert_eq!(statuses, [200; 4]);
}

#[tokio::test]
async fn a_call_of_the_model_waits_for_a_turn_before_it_begins() {
    let app = TestApp::bounded(&[], |bounds| {
        bounds.bodies.handled_writes = 1;
        bounds.bodies.handled_within = Duration::from_millis(500);
    })
    .await;
    let ada = app.founder("Ada").await;
    let gate = Gate::new();
    let drafting = stuck_draft(&app, &ada, &gate).await;
    for (path, form) in model_calls() {
        let refused = ada.post(path, form).await;
        assert_eq!(refused.status, 503, "{path}: {}", refused.text);
        assert_eq!(refused.json()["error"]["code"], "overloaded", "{path}");
    }
    gate.open();
    within("the draft", drafting.join_all()).await;
}
