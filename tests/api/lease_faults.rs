//! A worker that is paused until its lease expires changes nothing and blocks no one.

use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

use crate::{
    faults::{Prepared, prepared},
    fork_faults,
    support::{Answer, Gate, Hold, Person, at_points, drafting, list, text},
};

/// Long enough for a worker on a busy machine, if it is not paused.
const LEASE_MS: &str = "4000";

/// Statuses of a task, as reported by events.
async fn told(ada: &Person, task: &str) -> Vec<String> {
    let events = ada.events().await;
    events
        .iter()
        .filter(|event| event["data"]["task"]["id"] == task)
        .map(|event| text(event, "/data/task/status"))
        .collect()
}

/// Pauses a worker at a failpoint until another one has completed the task, then resumes the first one and checks the result.
async fn overtake(failpoint: &str, answers: Vec<Answer>) {
    let p = prepared().await;
    p.model.script("vibe", answers);
    overtake_in(p, failpoint, &Gate::new()).await;
}

/// Like `overtake`, with a model whose answers are prepared. Opens the gate as soon as the worker is paused.
async fn overtake_in(p: Prepared, failpoint: &str, gate: &Gate) {
    let hold = Hold::new().await;
    let settings = [("FAILPOINT", &*hold.at(failpoint)), ("LEASE_MS", LEASE_MS)];
    let (server, ada) = p.start(&settings).await;
    let task = ada.ask(&p.thread, "@vibe hi").await;
    let held = hold.reached().await;
    gate.open();
    ada.completed(&task).await;
    let before = ada.messages(&p.thread).await;
    // The paused worker's slot is free, although that worker has not released it.
    let second = ada.ask(&p.thread, "@vibe again").await;
    ada.completed(&second).await;
    drop(held);
    server.terminate();
    assert!(server.exited().await.success(), "{failpoint}");
    let (server, ada) = p.start(&[]).await;
    let contents = ada.contents(&p.thread).await;
    assert_eq!(
        contents,
        ["Root", "@vibe hi", "One two three.", "@vibe again", "Fine."],
        "{failpoint}"
    );
    let after = ada.messages(&p.thread).await;
    assert_eq!(after[..before.len()], before[..], "{failpoint}");
    let statuses = told(&ada, &task).await;
    let ended = statuses.iter().filter(|status| *status == "completed");
    assert_eq!(ended.count(), 1, "{failpoint}: {statuses:?}");
    assert_eq!(statuses.last().unwrap(), "completed", "{failpoint}");
    server.kill().await;
    p.check(&[], None).await;
}

fn whole() -> Answer {
    Answer::pieces(&["One ", "two ", "three."])
}

/// Overtakes a worker of a task whose reply is requested this many times.
async fn overtake_reply(failpoint: &str, requests: usize) {
    overtake(failpoint, vec![whole(); requests]).await;
}

at_points! {
    a_worker_paused_around_the_first_text_posts_nothing_twice, overtake_reply:
    worker_claimed_1(1),
    turn_call_1(1),
    turn_open_1(2),
    turn_opened_1(2),
}

at_points! {
    a_worker_paused_at_any_model_frame_posts_nothing_twice, overtake_reply:
    model_text_1(2),
    model_text_3(2),
    model_usage_1(2),
    model_stop_1(2),
}

/// Overtakes a worker whose request for a reply has this status.
async fn overtake_end(failpoint: &str, status: u16) {
    let first = match status {
        200 => whole(),
        _ => Answer::status(status, "{}"),
    };
    overtake(failpoint, vec![first, whole()]).await;
}

at_points! {
    a_worker_paused_before_completing_its_task_completes_nothing, overtake_end:
    turn_complete_1(200),
    turn_fail_1(400),
    turn_wait_1(503),
    turn_waiting_1(503),
}

#[tokio::test]
async fn a_worker_paused_during_lease_renewal_is_superseded() {
    let p = prepared().await;
    let gate = Gate::new();
    // On a busy machine, the worker may be paused before its request. Then the next one gets the answer that waits.
    let late = Answer::stream().piece("One ").wait(&gate);
    let late = late.piece("two ").piece("three.").end();
    let is_first = AtomicBool::new(true);
    p.model.answer_by("vibe", move |request| {
        if request.all().contains("@vibe again") {
            Answer::text("Fine.")
        } else if is_first.swap(false, Ordering::Relaxed) {
            late.clone()
        } else {
            whole()
        }
    });
    overtake_in(p, "worker_renew:1", &gate).await;
}

/// Pauses a worker at a failpoint until its task has completed without it, then resumes the worker and checks the result.
async fn goes_on_late(failpoint: &str, answer: Answer, wanted: &str) {
    let p: Prepared = prepared().await;
    p.model.script("vibe", [answer]);
    let hold = Hold::new().await;
    let settings = [("FAILPOINT", &*hold.at(failpoint)), ("LEASE_MS", LEASE_MS)];
    let (server, ada) = p.start(&settings).await;
    let task = ada.ask(&p.thread, "@vibe hi").await;
    let held = hold.reached().await;
    ada.completed(&task).await;
    let second = ada.ask(&p.thread, "@vibe again").await;
    ada.completed(&second).await;
    drop(held);
    server.terminate();
    assert!(server.exited().await.success());
    let (server, ada) = p.start(&[]).await;
    assert_eq!(
        ada.contents(&p.thread).await,
        ["Root", "@vibe hi", wanted, "@vibe again", "Fine."]
    );
    assert_eq!(
        told(&ada, &task).await,
        ["queued", "running", "completed"],
        "{failpoint}"
    );
    server.kill().await;
    p.check(&[], None).await;
}

#[tokio::test]
async fn a_checkpoint_after_the_end_changes_nothing() {
    let long = "x".repeat(5000);
    let answer = Answer::pieces(&[&long, " and the end."]);
    goes_on_late("turn_save:1", answer, &format!("{long} and the end.")).await;
    goes_on_late("turn_completed:1", whole(), "One two three.").await;
}

async fn paused_resolve(failpoint: &str) {
    let p = fork_faults::prepared().await;
    p.model
        .script("resolver", vec![drafting(&fork_faults::answer()); 2]);
    let hold = Hold::new().await;
    let settings = [("FAILPOINT", &*hold.at(failpoint)), ("LEASE_MS", LEASE_MS)];
    let (server, ada) = p.start(&settings).await;
    let task = ada.resolve(&p.fork).await;
    let held = hold.reached().await;
    let done = ada.completed(&task).await;
    drop(held);
    server.terminate();
    assert!(server.exited().await.success());
    let (_server, ada) = p.start(&[]).await;
    let (draft, cards) = p.check(&ada).await;
    assert!(cards.is_empty());
    assert_eq!(
        done["output"]["resolution_id"],
        draft.unwrap()["id"],
        "{failpoint}"
    );
    let drafted = ada.events().await;
    let drafted = drafted.iter().filter(|e| e["type"] == "resolution.drafted");
    assert_eq!(drafted.count(), 1, "{failpoint}");
}

at_points! {
    a_paused_resolve_leaves_one_draft, paused_resolve:
    resolve_drafted_1,
    resolve_stored_1,
}

async fn pause_at_commit(failpoint: &str) {
    let p = prepared().await;
    p.model.script("vibe", vec![whole(); 3]);
    let paused = format!("{failpoint}:pause=1500");
    let settings = [("FAILPOINT", paused.as_str()), ("LEASE_MS", "1000")];
    let (server, ada) = p.start(&settings).await;
    let task = ada.ask(&p.thread, "@vibe hi").await;
    ada.completed(&task).await;
    let contents = ada.contents(&p.thread).await;
    assert_eq!(
        contents,
        ["Root", "@vibe hi", "One two three."],
        "{failpoint}"
    );
    server.terminate();
    assert!(server.exited().await.success());
    p.check(&[], None).await;
}

// The first few commits happen during startup.
at_points! {
    a_worker_paused_at_any_commit_posts_once, pause_at_commit:
    before_commit_1,
    after_commit_1,
    before_commit_2,
    after_commit_2,
    before_commit_3,
    after_commit_3,
    before_commit_4,
    after_commit_4,
    before_commit_5,
    after_commit_5,
    before_commit_6,
    after_commit_6,
    before_commit_7,
    after_commit_7,
    before_commit_8,
    after_commit_8,
    before_commit_9,
    after_commit_9,
    before_commit_10,
    after_commit_10,
    before_commit_11,
    after_commit_11,
    before_commit_12,
    after_commit_12,
    before_commit_13,
    after_commit_13,
    before_commit_14,
    after_commit_14,
}

#[tokio::test]
async fn a_paused_worker_blocks_no_other_conversation() {
    let p = prepared().await;
    let hold = Hold::new().await;
    let (_server, ada) = p.start(&[("FAILPOINT", &*hold.at("model_text:1"))]).await;
    let mut socket = ada.socket().await;
    ada.ask(&p.thread, "@vibe hi").await;
    let held = hold.reached().await;
    let general = text(
        &ada.get(&format!("/v1/threads/{}", p.thread)).await.ok(),
        "/channel_id",
    );
    for n in 0..5 {
        let other = ada.thread(&general, &format!("Root {n}")).await;
        let task = ada.ask(&other, "@vibe hi").await;
        let event = socket
            .until("another place's answer", |e| {
                e["data"]["task"]["id"] == task.as_str()
                    && e["data"]["task"]["status"] == "completed"
            })
            .await;
        assert_eq!(event["type"], "task.status_changed");
    }
    let waiting: Vec<Value> = list(&ada.get("/v1/tasks?status=running").await.ok(), "/data");
    assert_eq!(waiting.len(), 1);
    drop(held);
}
