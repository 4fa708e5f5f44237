//! A workspace that occupies all workers.

use serde_json::json;

use super::Bystander;
use crate::support::{Answer, Gate, Person, TestApp, id, list, text, within};

/// A workspace in which two people mention an agent that does not finish until the gate opens. Returns the people and their tasks.
async fn busy_workspace(app: &TestApp, gate: &Gate) -> ([Person; 2], Vec<String>) {
    let ada = app.founder("Ada").await;
    let al = app.join(&ada, "Al", "member").await;
    let general = id(&ada.channel("general").await);
    let held = (0..16).map(|_| Answer::text("Done.").held(gate));
    app.model.script("vibe", held);
    let mut tasks = Vec::new();
    for _ in 0..4 {
        for person in [&ada, &al] {
            let started = person.start(&general, "@vibe take your time").await;
            tasks.push(text(&started, "/tasks/0/id"));
        }
    }
    ([ada, al], tasks)
}

async fn running(person: &Person) -> Vec<String> {
    let page = person.get("/v1/tasks?status=running&limit=100").await.ok();
    let tasks = list(&page, "/data");
    tasks.iter().map(|t| text(t, "/requested_by")).collect()
}

#[tokio::test]
async fn a_workspace_that_fills_the_workers_leaves_a_quarter_for_others() {
    let app = TestApp::with(&[("SIGNUP", "open"), ("WORKERS", "4")]).await;
    let mut bystander = Bystander::start(&app.base).await;
    let bo = app.founder("Bo").await;
    let moss = bo.make_agent("moss").await;
    let gate = Gate::new();
    let ([ada, al], tasks) = busy_workspace(&app, &gate).await;
    app.model.asked("vibe", 3).await;
    let there = id(&bo.channel("general").await);
    for n in 0..3 {
        let asked = bo.start(&there, &format!("@moss question {n}")).await;
        assert_eq!(asked["tasks"][0]["agent_id"], moss["id"]);
        bo.completed(&text(&asked, "/tasks/0/id")).await;
    }
    bystander.rounds(3).await;
    bystander.stop().await;
    let requesters = running(&ada).await;
    assert_eq!(requesters.len(), 3, "three quarters of four workers");
    for person in [&ada, &al] {
        let own = requesters.iter().filter(|id| **id == person.id).count();
        assert!((1..=2).contains(&own), "half at most: {own}");
    }
    gate.open();
    for task in tasks {
        ada.completed(&task).await;
    }
}

#[tokio::test]
async fn the_only_workspace_can_use_every_worker() {
    let app = TestApp::with(&[("WORKERS", "4")]).await;
    let gate = Gate::new();
    let ([ada, _], tasks) = busy_workspace(&app, &gate).await;
    app.model.asked("vibe", 4).await;
    assert_eq!(running(&ada).await.len(), 4);
    gate.open();
    for task in tasks {
        ada.completed(&task).await;
    }
}

#[tokio::test]
async fn responses_wait_for_callers_over_their_share() {
    let app = TestApp::with(&[("SIGNUP", "open"), ("WORKERS", "4")]).await;
    let mut bystander = Bystander::start(&app.base).await;
    let bo = app.founder("Bo").await;
    let moss = bo.make_agent("moss").await;
    let ada = app.founder("Ada").await;
    let mut people = vec![ada.clone()];
    for name in ["Al", "An", "Ash"] {
        people.push(app.join(&ada, name, "member").await);
    }
    let gate = Gate::new();
    let held = (0..3).map(|_| Answer::text("Done.").held(&gate));
    app.model.script("vibe", held);
    let ask = |person: &Person, agent: &str| {
        let person = person.clone();
        let body = json!({"model": format!("agent:{agent}"), "input": "Count"});
        async move { person.post("/v1/responses", body).await }
    };
    let mut running = tokio::task::JoinSet::new();
    for (n, person) in people[..3].iter().enumerate() {
        running.spawn(ask(person, "vibe"));
        app.model.asked("vibe", n + 1).await;
    }
    // A person's share is a quarter of the workers, and a workspace's share is three quarters, so Ada's second call and Ash's first
    // call wait.
    for person in [&people[0], &people[3]] {
        running.spawn(ask(person, "vibe"));
    }
    let answered = ask(&bo, "moss").await.is(200);
    assert_eq!(answered["agent_id"], moss["id"]);
    bystander.rounds(2).await;
    bystander.stop().await;
    assert_eq!(app.model.asked("vibe", 3).await.len(), 3);
    gate.open();
    while let Some(ended) = within("the calls to end", running.join_next()).await {
        ended.unwrap().is(200);
    }
}
