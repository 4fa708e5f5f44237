//! A node whose clock is ahead of the database's clock.

use chrono::{DateTime, Utc};
use serde_json::{Value, json};

use crate::{
    faults::prepared,
    support::{Answer, Person, id, is_shared_engine, list, text},
};

const AHEAD: (&str, &str) = ("CLOCK_AHEAD_MS", "120000");

/// Waits until a task waits for another attempt; returns the task.
async fn waiting(ada: &Person, task: &str) -> Value {
    let event = ada.event_where("the wait", |event| {
        let task_now = &event["data"]["task"];
        task_now["id"] == json!(task) && task_now["wait_reason"] == "unavailable"
    });
    event.await["data"]["task"].clone()
}

#[tokio::test]
async fn a_retry_is_due_by_the_clock_of_the_database() {
    if !is_shared_engine() {
        return;
    }
    let p = prepared().await;
    p.model.script("vibe", [Answer::status(503, "busy")]);
    let (server, ada) = p.start(&[AHEAD, ("RETRY_DELAYS", "20s")]).await;
    let task = ada.ask(&p.thread, "@vibe hi").await;
    let waiting = waiting(&ada, &task).await;
    let retry_at = DateTime::parse_from_rfc3339(&text(&waiting, "/retry_at")).unwrap();
    let seconds = (retry_at.to_utc() - Utc::now()).num_seconds();
    assert!((-100..=25).contains(&seconds), "{seconds}");
    server.kill().await;
}

#[tokio::test]
async fn a_retry_is_not_early_on_a_node_whose_clock_is_ahead() {
    if !is_shared_engine() {
        return;
    }
    let p = prepared().await;
    p.model.script("vibe", [Answer::status(503, "busy")]);
    let (server, ada) = p.start(&[("RETRY_DELAYS", "110s")]).await;
    let task = ada.ask(&p.thread, "@vibe hi").await;
    waiting(&ada, &task).await;
    server.kill().await;
    let (server, ada) = p.start(&[AHEAD]).await;
    // When a later task of another conversation has completed, the worker has looked for due tasks.
    let channels = ada.get("/v1/channels").await.ok();
    let other = ada
        .start(&id(&list(&channels, "/data")[0]), "@vibe hello")
        .await;
    ada.completed(&text(&other, "/tasks/0/id")).await;
    let waiting = ada.get(&format!("/v1/tasks/{task}")).await.ok();
    assert_eq!(waiting["status"], "queued", "{waiting}");
    server.kill().await;
}
