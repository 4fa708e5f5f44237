//! Runs that wait for people and for models, and survive crashes of the process.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    faults::{Prepared, prepared},
    runs::{flow, reaches, start},
    support::{Answer, Person, TestProcess, contents_of_run, id, list, text, within},
};

/// Steps that cover all kinds.
fn steps() -> Value {
    json!([
        {"id": "ask", "kind": "approval", "text": "Go on?", "who": "requester"},
        {"id": "think", "kind": "fork", "title": "The day", "goal": "Find a day."},
        {"id": "tell", "kind": "output", "content": "Result: {{steps.think.output}}"},
        {"id": "judge", "kind": "condition", "value": "{{steps.think.output}}", "op": "model_says", "with": "Is it a day?",
            "then": "both", "else": "end"},
        {"id": "both", "kind": "parallel", "branches": [
            [{"id": "one", "kind": "agent", "prompt": "One"}],
            [{"id": "two", "kind": "agent", "prompt": "Two"}, {"id": "note", "kind": "output", "content": "Noted."}],
        ]},
    ])
}

/// Approves an action; `None` if the server has crashed.
pub async fn approve(by: &Person, action: &str) -> Option<()> {
    let path = format!("/v1/actions/{action}");
    let shown = by.try_send(Method::GET, &path, &[], None).await?.ok();
    let form = json!({"arguments_hash": shown["arguments_hash"]});
    by.try_post(&format!("{path}/approve"), form).await?;
    Some(())
}

/// Does what the run waits for until it has ended; `None` if the server has crashed.
async fn drive(by: &Person, run: &str) -> Option<()> {
    loop {
        let path = format!("/v1/runs/{run}");
        let now = by.try_send(Method::GET, &path, &[], None).await?.ok();
        if ["completed", "failed", "cancelled"].contains(&now["status"].as_str()?) {
            return Some(());
        }
        for step in list(&now, "/steps") {
            if step["state"] != "waiting" {
                continue;
            }
            if let Some(action) = step["action_id"].as_str() {
                approve(by, action).await?;
            }
            if let Some(fork) = step["fork_id"].as_str() {
                let form = json!({"resolution": {"headline": "Monday it is"}});
                by.try_post(&format!("/v1/forks/{fork}/publish"), form)
                    .await?;
            }
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Checks that everything that the run created exists exactly once.
async fn check(by: &Person, thread: &str, run: &str, failpoint: &str) {
    let done = reaches(by, run, "completed").await;
    for step in list(&done, "/steps") {
        assert_eq!(step["state"], "completed", "{failpoint}: {step}");
    }
    let messages = by.messages(thread).await;
    let own = contents_of_run(&messages, run);
    assert_eq!(own.len(), 2, "{failpoint}: {own:?}");
    assert!(own[0].starts_with("Result: "), "{failpoint}: {own:?}");
    assert_eq!(own[1], "Noted.", "{failpoint}");
    let resolutions = messages
        .iter()
        .filter(|message| message["kind"] == "resolution");
    assert_eq!(resolutions.count(), 1, "{failpoint}");
    let forks = by.get(&format!("/v1/threads/{thread}/forks")).await.ok();
    let forks = list(&forks, "/data");
    assert_eq!(forks.len(), 1, "{failpoint}: {forks:?}");
    let said = by.contents_in(&id(&forks[0])).await;
    assert_eq!(said[0], "Find a day.", "{failpoint}");
    let path = format!("/v1/actions?task_id={}", text(&done, "/root_task_id"));
    let actions = list(&by.get(&path).await.ok(), "/data");
    assert_eq!(actions.len(), 1, "{failpoint}: {actions:?}");
}

/// Rate limits are off, because the tests repeat requests quickly.
const OFF: (&str, &str) = ("RATE_LIMITS", "off");

/// Starts a run and does what it waits for until the server crashes, and again after a restart.
async fn crash(p: &Prepared, (flow, general): (&str, &str), failpoint: &str) {
    p.model.forget();
    let yes = (0..4).map(|_| Answer::text("Yes."));
    p.model.script("condition", yes);
    let server = TestProcess::start(&p.place, &p.model, &[OFF, ("FAILPOINT", failpoint)]).await;
    let ada = p.ada.at(&server.base);
    let thread = ada.thread(general, failpoint).await;
    let wish = json!({"thread_id": thread, "client_id": failpoint});
    let started = ada.try_post(&format!("{flow}/runs"), wish.clone()).await;
    if let Some(started) = started {
        let run = text(&started.is(202), "/run/id");
        let driven = within("the server to crash", drive(&ada, &run)).await;
        // At failpoints that end in `ed`, the run may already have ended before the server crashes.
        assert!(driven.is_none() || failpoint.contains("ed:"), "{failpoint}");
    }
    server.exited().await;
    let (server, ada) = p.start(&[OFF]).await;
    let run = start(&ada, flow, wish).await;
    within("the run to end", drive(&ada, &run)).await.unwrap();
    check(&ada, &thread, &run, failpoint).await;
    server.kill().await;
}

#[tokio::test]
async fn a_crash_at_any_move_repeats_nothing() {
    let p = prepared().await;
    let (server, ada) = p.start(&[]).await;
    let general = id(&ada.channel("general").await);
    let flow = flow(&ada, "all", steps()).await;
    server.kill().await;
    for failpoint in [
        // Before a move, in its transaction, and after it: for the approval, the fork, the message and the condition, and the
        // branches.
        "run_advance:1",
        "run_advance:2",
        "run_advance:4",
        "run_step:1",
        "run_step:2",
        "run_step:4",
        "run_step:7",
        "run_advanced:1",
        "run_advanced:2",
        "run_advanced:4",
        // When the task of a step ends.
        "step_store:1",
        "step_stored:1",
        "turn_complete:1",
        "turn_completed:2",
        // When the resolution that the run waits for is published.
        "publish:1",
    ] {
        crash(&p, (&flow, &general), failpoint).await;
    }
}

#[tokio::test]
async fn outputs_are_kept_while_their_run_waits() {
    let p = prepared().await;
    let (server, ada) = p.start(&[]).await;
    p.model.script("vibe", [Answer::text("The draft.")]);
    let steps = json!([
        {"id": "draft", "kind": "agent", "prompt": "Draft it."},
        {"id": "ask", "kind": "approval", "text": "Go on?", "who": "requester"},
        {"id": "tell", "kind": "output", "content": "Result: {{steps.draft.output}}"},
    ]);
    let flow = flow(&ada, "draft", steps).await;
    let run = start(&ada, &flow, json!({"thread_id": p.thread})).await;
    let waiting = reaches(&ada, &run, "waiting").await;
    server.kill().await;
    let old = "update context_texts set last_used_at = '2020-01-02 03:04:05+00:00'";
    p.place.run(&[old]).await;
    let (server, ada) = p.start(&[("CONTEXT_RETENTION", "2d")]).await;
    // The step's output and the approval's arguments are kept.
    within("other texts to expire", async {
        while p.place.count("context_texts").await > 2 {
            crate::support::pause().await;
        }
    })
    .await;
    approve(&ada, &text(&waiting, "/steps/1/action_id"))
        .await
        .unwrap();
    reaches(&ada, &run, "completed").await;
    let last = ada.contents(&p.thread).await.pop();
    assert_eq!(last.as_deref(), Some("Result: The draft."));
    server.kill().await;
}
