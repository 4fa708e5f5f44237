//! Runs of workflows: their moves, permissions, and failures.

use std::{collections::BTreeSet, time::Duration};

use serde_json::{Value, json};

use crate::{
    faults::{Prepared, prepared},
    support::{
        Answer, Gate, Person, Team, TestProcess, contents_of_run, id, list, team, text, within,
    },
};

/// Creates a workflow with these steps and returns its path.
pub async fn flow(by: &Person, name: &str, steps: Value) -> String {
    let agents: BTreeSet<&str> = steps
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|step| step["agent_id"].as_str())
        .collect();
    let form = json!({"name": name, "agents": agents, "steps": steps});
    let made = by.post("/v1/workflows", form).await.is(201);
    format!("/v1/workflows/{}", id(&made))
}

/// Starts a run and returns its ID.
pub async fn start(by: &Person, flow: &str, wish: Value) -> String {
    let reply = by.post(&format!("{flow}/runs"), wish).await;
    assert!([200, 202].contains(&reply.status), "{}", reply.text);
    let started = reply.json();
    assert_eq!(
        started["run"]["root_task_id"], started["task"]["id"],
        "{started}"
    );
    text(&started, "/run/id")
}

pub async fn run(by: &Person, id: &str) -> Value {
    by.get(&format!("/v1/runs/{id}")).await.ok()
}

/// Waits until a run has this status, and returns it.
pub async fn reaches(by: &Person, id: &str, status: &str) -> Value {
    within(&format!("run {id} to be {status}"), async {
        loop {
            let now = run(by, id).await;
            if now["status"] == status {
                return now;
            }
            let ended = ["completed", "failed", "cancelled"];
            assert!(
                !ended.contains(&now["status"].as_str().unwrap()),
                "not {status}: {now}"
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await
}

/// States of the steps, in order.
pub fn states(run: &Value) -> Vec<String> {
    list(run, "/steps")
        .iter()
        .map(|step| format!("{} {}", text(step, "/id"), text(step, "/state")))
        .collect()
}

fn draft_and_post() -> Value {
    json!([
        {"id": "draft", "kind": "agent", "title": "Ask Vibe", "prompt": "Greet {{input}}."},
        {"id": "post", "kind": "output", "content": "Result: {{steps.draft.output}}"},
    ])
}

#[tokio::test]
async fn an_agent_answers_and_its_answer_starts_a_thread() {
    let t = team().await;
    t.model().script("vibe", [Answer::text("Hello Cy.")]);
    let flow = flow(&t.bo, "greeting", draft_and_post()).await;
    let started = start(
        &t.bo,
        &flow,
        json!({"input": "Cy", "channel_id": t.general}),
    )
    .await;
    let done = reaches(&t.bo, &started, "completed").await;
    assert_eq!(states(&done), ["draft completed", "post completed"]);
    assert_eq!(done["steps"][0]["output"], "Hello Cy.");
    assert_eq!(done["cause"], json!({"type": "manual", "id": null}));
    let thread = text(&done, "/thread_id");
    let messages = t.ada.messages(&thread).await;
    assert_eq!(messages.len(), 2);
    assert_eq!(messages[1]["content"], "Result: Hello Cy.");
    for message in &messages {
        assert_eq!(message["author"]["type"], "agent");
        assert_eq!(message["metadata"]["run_id"], json!(started));
    }
    assert_eq!(messages[1]["metadata"]["run_start"], Value::Null);
    let asked = t.model().asked_once("vibe").await;
    let last = asked.turns().pop().unwrap();
    assert!(
        last.ends_with(
            "Task from the workflow greeting, on behalf of Bo (role: member):\n\nGreet Cy."
        ),
        "{last}"
    );
    assert!(
        !asked.instructions().contains("Cy"),
        "no value is in the system text"
    );
    let step = t.bo.task(&text(&done, "/steps/0/task_id")).await;
    assert_eq!(
        (&step["kind"], &step["step_id"], &step["run_id"]),
        (&json!("delegate"), &json!("draft"), &json!(started))
    );
    let root = t.bo.task(&text(&done, "/root_task_id")).await;
    assert_eq!(
        (&root["kind"], &root["agent_id"], &root["step_id"]),
        (&json!("workflow"), &Value::Null, &Value::Null)
    );
    let retry = format!("/v1/tasks/{}/retry", id(&root));
    assert_eq!(t.bo.act(&retry).await.refused(409), "not_retryable");
}

#[tokio::test]
async fn a_run_without_a_thread_first_says_who_started_it() {
    let t = team().await;
    let steps = json!([
        {"id": "think", "kind": "fork", "goal": "Talk about {{input}}.", "agent_ids": []},
    ]);
    let flow = flow(&t.bo, "talk", steps).await;
    let wish = json!({"input": "the ferry", "channel_id": t.general});
    let run = start(&t.bo, &flow, wish).await;
    let waiting = reaches(&t.bo, &run, "waiting").await;
    let thread = text(&waiting, "/thread_id");
    let messages = t.bo.messages(&thread).await;
    // The goal of the fork stands in the fork only.
    assert_eq!(messages.len(), 1);
    assert_eq!(messages[0]["content"], "Bo started talk:\n\nthe ferry");
    let workflow = flow.rsplit_once('/').unwrap().1;
    assert_eq!(
        messages[0]["metadata"]["run_start"],
        json!({"run_id": run, "workflow_id": workflow, "cause": {"type": "manual", "id": null}, "requested_by": t.bo.id})
    );
    let fork = text(&waiting, "/steps/0/fork_id");
    assert_eq!(t.bo.fork(&fork).await["message_id"], messages[0]["id"]);
    let followed = t.bo.get(&format!("/v1/threads/{thread}")).await.ok();
    assert_eq!(
        followed["follow"],
        json!({"level": "all", "cause": "started"})
    );
    let others = t.ada.get(&format!("/v1/threads/{thread}")).await.ok();
    assert_eq!(others["follow"]["level"], "mentions");
    // A run in a thread announces nothing.
    let own = t.bo.thread(&t.general, "Root").await;
    let run = start(&t.bo, &flow, json!({"thread_id": own})).await;
    reaches(&t.bo, &run, "waiting").await;
    assert_eq!(t.bo.contents(&own).await, ["Root"]);
}

#[tokio::test]
async fn a_step_that_posts_replies_in_the_thread_of_the_run() {
    let t = team().await;
    t.model().script("vibe", [Answer::text("Looks right.")]);
    let steps = json!([{"id": "ask", "kind": "agent", "prompt": "Check this.", "post": true}]);
    let flow = flow(&t.bo, "check", steps).await;
    let thread = t.bo.thread(&t.general, "The plan is Monday.").await;
    let started = start(&t.bo, &flow, json!({"thread_id": thread})).await;
    let done = reaches(&t.bo, &started, "completed").await;
    assert_eq!(done["steps"][0]["output"], "Looks right.");
    assert_eq!(
        t.bo.contents(&thread).await,
        ["The plan is Monday.", "Looks right."]
    );
    let asked = t.model().asked_once("vibe").await;
    assert!(asked.all().contains("The plan is Monday."));
    assert!(asked.turns().pop().unwrap().ends_with("Check this."));
}

#[tokio::test]
async fn a_condition_jumps_over_steps() {
    let t = team().await;
    let steps = json!([
        {"id": "if", "kind": "condition", "value": "{{input}}", "op": "matches", "with": "^urgent", "then": "alarm",
            "else": "note"},
        {"id": "alarm", "kind": "output", "content": "Alarm!"},
        {"id": "note", "kind": "output", "content": "Noted: {{steps.alarm.output}}{{steps.if.output}}"},
    ]);
    let flow = flow(&t.bo, "triage", steps).await;
    for (input, wanted, contents) in [
        (
            "urgent: disk",
            ["if completed", "alarm completed", "note completed"],
            vec!["Alarm!", "Noted: Alarm!yes"],
        ),
        (
            "calm",
            ["if completed", "alarm skipped", "note completed"],
            vec!["Noted: no"],
        ),
    ] {
        let wish = json!({"input": input, "channel_id": t.general});
        let started = start(&t.bo, &flow, wish).await;
        let done = reaches(&t.bo, &started, "completed").await;
        assert_eq!(states(&done), wanted);
        let said = t.bo.contents(&text(&done, "/thread_id")).await;
        assert_eq!(said[0], format!("Bo started triage:\n\n{input}"));
        assert_eq!(said[1..], contents);
    }
}

#[tokio::test]
async fn patterns_are_searched_in_texts_of_the_same_pass() {
    let t = team().await;
    let test = |id: &str, value: &str, then: &str| {
        let (op, with) = ("matches", "^On+e");
        json!({"id": id, "kind": "condition", "value": value, "op": op, "with": with, "then": then, "else": "end"})
    };
    let steps = json!([
        {"id": "one", "kind": "output", "content": "One"},
        test("first", "{{steps.one.output}}", "two"),
        {"id": "two", "kind": "output", "content": "Two"},
        test("second", "{{steps.two.output}}", "three"),
        {"id": "three", "kind": "output", "content": "Three"},
    ]);
    let flow = flow(&t.bo, "patterns", steps).await;
    let started = start(&t.bo, &flow, json!({"channel_id": t.general})).await;
    let done = reaches(&t.bo, &started, "completed").await;
    assert_eq!(
        states(&done),
        [
            "one completed",
            "first completed",
            "two completed",
            "second completed",
            "three skipped"
        ]
    );
    let thread = text(&done, "/thread_id");
    assert_eq!(
        t.bo.contents(&thread).await,
        ["Bo started patterns.", "One", "Two"]
    );
}

#[tokio::test]
async fn a_model_answers_a_condition_with_yes_or_no() {
    let t = team().await;
    let steps = json!([
        {"id": "if", "kind": "condition", "value": "{{input}}", "op": "model_says", "with": "Is it urgent?", "then": "end",
            "else": "note"},
        {"id": "note", "kind": "output", "content": "Noted."},
    ]);
    let flow = flow(&t.bo, "triage", steps).await;
    for (answers, status, wanted) in [
        (vec!["Yes."], "completed", ["if completed", "note skipped"]),
        (vec!["no"], "completed", ["if completed", "note completed"]),
        (
            vec!["Perhaps", "Perhaps"],
            "failed",
            ["if failed", "note pending"],
        ),
    ] {
        let answers: Vec<Answer> = answers.into_iter().map(Answer::text).collect();
        t.model().script("condition", answers);
        let wish = json!({"input": "disk full", "channel_id": t.general});
        let started = start(&t.bo, &flow, wish).await;
        assert_eq!(states(&reaches(&t.bo, &started, status).await), wanted);
    }
}

#[tokio::test]
async fn a_failed_step_ends_the_run_with_one_notice_and_is_resumed() {
    let t = team().await;
    t.model().script(
        "vibe",
        [
            Answer::text("First."),
            Answer::status(400, "{}"),
            Answer::text("Second."),
        ],
    );
    let steps = json!([
        {"id": "one", "kind": "agent", "prompt": "One"},
        {"id": "two", "kind": "agent", "prompt": "Two"},
        {"id": "post", "kind": "output", "content": "{{steps.one.output}} {{steps.two.output}}"},
    ]);
    let flow = flow(&t.bo, "review", steps).await;
    let thread = t.bo.thread(&t.general, "Root").await;
    let started = start(&t.bo, &flow, json!({"thread_id": thread})).await;
    let failed = reaches(&t.bo, &started, "failed").await;
    assert_eq!(
        states(&failed),
        ["one completed", "two failed", "post pending"]
    );
    let contents = t.bo.contents(&thread).await;
    assert_eq!(contents.len(), 2, "{contents:?}");
    assert!(
        contents[1].starts_with("Workflow review stopped at step 2, Ask Vibe: "),
        "{contents:?}"
    );
    let path = format!("/v1/runs/{started}");
    let cy = t.app.join(&t.ada, "Cy", "member").await;
    let refused = cy.act(&format!("{path}/resume")).await;
    assert_eq!(refused.refused(403), "not_yours");
    t.bo.act(&format!("{path}/resume")).await.is(200);
    let done = reaches(&t.bo, &started, "completed").await;
    assert_eq!(
        states(&done),
        ["one completed", "two completed", "post completed"]
    );
    assert_eq!(done["steps"][0]["task_id"], failed["steps"][0]["task_id"]);
    assert_eq!(
        t.bo.contents(&thread).await.last().unwrap(),
        "First. Second."
    );
    let again = t.bo.act(&format!("{path}/resume")).await;
    assert_eq!(again.refused(409), "not_failed");
}

#[tokio::test]
async fn a_key_needs_the_scope_of_starting_a_run_to_resume_it() {
    let t = team().await;
    t.model()
        .script("vibe", [Answer::status(400, "{}"), Answer::text("Hello.")]);
    let flow = flow(&t.bo, "greeting", draft_and_post()).await;
    let started = start(&t.bo, &flow, json!({"channel_id": t.general})).await;
    reaches(&t.bo, &started, "failed").await;
    let path = format!("/v1/runs/{started}/resume");
    let (writer, _) = t.bo.make_key(&["chat:write"]).await;
    assert_eq!(writer.act(&path).await.refused(403), "scope_missing");
    let (user, _) = t.bo.make_key(&["chat:write", "agents:use"]).await;
    user.act(&path).await.is(200);
    reaches(&t.bo, &started, "completed").await;
}

#[tokio::test]
async fn a_resumed_run_counts_as_one_that_starts() {
    let t = team().await;
    t.model().script("vibe", [Answer::status(400, "{}")]);
    let flow = flow(&t.bo, "greeting", draft_and_post()).await;
    let wish = json!({"channel_id": t.general});
    let failed = start(&t.bo, &flow, wish.clone()).await;
    reaches(&t.bo, &failed, "failed").await;
    let gate = Gate::new();
    let slow = (0..10).map(|_| Answer::text("Never.").held(&gate));
    t.model().script("vibe", slow);
    let mut active = Vec::new();
    for _ in 0..10 {
        active.push(start(&t.bo, &flow, wish.clone()).await);
    }
    let resume = format!("/v1/runs/{failed}/resume");
    assert_eq!(t.bo.act(&resume).await.refused(429), "too_many_runs");
    for run in active {
        t.bo.act(&format!("/v1/runs/{run}/cancel")).await.is(200);
    }
    t.bo.patch(&flow, json!({"status": "paused"})).await.is(200);
    assert_eq!(t.bo.act(&resume).await.refused(409), "workflow_paused");
    t.bo.patch(&flow, json!({"status": "active"})).await.is(200);
    t.bo.act(&resume).await.is(200);
}

#[tokio::test]
async fn a_step_that_may_fail_is_passed() {
    let t = team().await;
    t.model().script("vibe", [Answer::status(400, "{}")]);
    let steps = json!([
        {"id": "ask", "kind": "agent", "prompt": "One", "on_error": "continue"},
        {"id": "post", "kind": "output", "content": "Nothing: {{steps.ask.output}}"},
    ]);
    let flow = flow(&t.bo, "lenient", steps).await;
    let started = start(&t.bo, &flow, json!({"channel_id": t.general})).await;
    let done = reaches(&t.bo, &started, "completed").await;
    assert_eq!(states(&done), ["ask failed", "post completed"]);
}

#[tokio::test]
async fn a_canceled_run_stops_its_tasks() {
    let t = team().await;
    let gate = Gate::new();
    t.model()
        .script("vibe", [Answer::text("Never.").held(&gate)]);
    let flow = flow(&t.bo, "slow", draft_and_post()).await;
    let started = start(&t.bo, &flow, json!({"channel_id": t.general})).await;
    gate.reached().await;
    let path = format!("/v1/runs/{started}/cancel");
    let cancelled = t.bo.act(&path).await.is(200);
    assert_eq!(cancelled["status"], "cancelled");
    assert_eq!(states(&cancelled), ["draft cancelled", "post cancelled"]);
    let task = t.bo.task(&text(&cancelled, "/steps/0/task_id")).await;
    assert_eq!(task["status"], "cancelled");
    assert_eq!(t.bo.act(&path).await.is(200)["status"], "cancelled");
}

#[tokio::test]
async fn a_step_goes_on_without_the_newest_message_before_it() {
    let t = team().await;
    let cy = t.app.join(&t.ada, "Cy", "member").await;
    let gate = Gate::new();
    t.model()
        .script("vibe", [Answer::text("Looks right.").held(&gate)]);
    let steps = json!([{"id": "ask", "kind": "agent", "prompt": "Check this.", "post": true}]);
    let flow = flow(&t.bo, "check", steps).await;
    let thread = t.bo.thread(&t.general, "The plan is Monday.").await;
    let newest = cy.tell(&thread, "Thank you!").await;
    let started = start(&t.bo, &flow, json!({"thread_id": thread})).await;
    gate.reached().await;
    cy.delete(&format!("/v1/messages/{newest}")).await.ok();
    gate.open();
    reaches(&t.bo, &started, "completed").await;
    let contents = t.bo.contents(&thread).await;
    assert_eq!(contents.last().unwrap(), "Looks right.");
}

#[tokio::test]
async fn a_run_is_visible_to_readers_of_its_channel_and_otherwise_to_few() {
    let t = team().await;
    let cy = t.app.join(&t.ada, "Cy", "member").await;
    let quiet = json!([{"id": "ask", "kind": "agent", "prompt": "Hello"}]);
    let flow_path = flow(&t.bo, "quiet", quiet).await;
    let without = start(&t.bo, &flow_path, json!({})).await;
    reaches(&t.bo, &without, "completed").await;
    let private = t.bo.private_channel("secret", &[]).await;
    let hidden = start(&t.bo, &flow_path, json!({"channel_id": private})).await;
    reaches(&t.bo, &hidden, "completed").await;
    let public = start(&t.bo, &flow_path, json!({"channel_id": t.general})).await;
    reaches(&t.bo, &public, "completed").await;
    for (by, seen) in [
        (&t.bo, vec![&public, &hidden, &without]),
        (&t.ada, vec![&public, &without]),
        (&cy, vec![&public]),
    ] {
        let runs: Vec<String> = by.every("/v1/runs").await.iter().map(id).collect();
        assert_eq!(runs.iter().collect::<Vec<_>>(), seen, "{}", by.name);
        for run in [&without, &hidden, &public] {
            let status = if seen.contains(&run) { 200 } else { 404 };
            assert_eq!(by.get(&format!("/v1/runs/{run}")).await.status, status);
        }
        let told = by.events().await;
        let told = told
            .iter()
            .filter(|event| event["type"] == "run.created")
            .count();
        assert_eq!(told, seen.len(), "{}", by.name);
    }
    let completed = t.bo.every("/v1/runs?status=completed").await;
    assert_eq!(completed.len(), 3);
    assert!(t.bo.every("/v1/runs?status=failed").await.is_empty());
}

#[tokio::test]
async fn a_run_that_cannot_start_is_refused() {
    let t = team().await;
    let posts = flow(&t.bo, "posts", draft_and_post()).await;
    let runs = format!("{posts}/runs");
    let reply = t.bo.post(&runs, json!({})).await;
    assert_eq!(reply.json()["error"]["param"], "channel_id");
    assert_eq!(reply.refused(422), "invalid_value");
    let long = json!({"channel_id": t.general, "input": "a".repeat(8 * 1024 + 1)});
    assert_eq!(t.bo.post(&runs, long).await.refused(422), "invalid_value");
    let private = t.ada.private_channel("secret", &[]).await;
    let reply = t.bo.post(&runs, json!({"channel_id": private})).await;
    assert_eq!(reply.refused(404), "channel_not_found");
    let gate = Gate::new();
    let slow = (0..10).map(|_| Answer::text("Never.").held(&gate));
    t.model().script("vibe", slow);
    let mut first = None;
    for n in 0..10 {
        let wish = json!({"channel_id": t.general, "client_id": format!("c{n}")});
        let run = start(&t.bo, &posts, wish.clone()).await;
        let again = t.bo.post(&runs, wish).await.is(200);
        assert_eq!(text(&again, "/run/id"), run, "a resend");
        first = first.or(Some(run));
    }
    let wish = json!({"channel_id": t.general});
    let reply = t.bo.post(&runs, wish.clone()).await;
    assert_eq!(reply.refused(429), "too_many_runs");
    let cancel = format!("/v1/runs/{}/cancel", first.unwrap());
    t.bo.act(&cancel).await.is(200);
    t.bo.patch(&posts, json!({"status": "paused"}))
        .await
        .is(200);
    assert_eq!(t.bo.post(&runs, wish).await.refused(409), "workflow_paused");
}

#[tokio::test]
async fn a_run_ends_when_its_requester_loses_the_rights() {
    let t = team().await;
    let gate = Gate::new();
    t.model()
        .script("vibe", [Answer::text("Hello.").held(&gate)]);
    let flow = flow(&t.bo, "greeting", draft_and_post()).await;
    let started = start(&t.bo, &flow, json!({"channel_id": t.general})).await;
    gate.reached().await;
    let member = format!("/v1/members/{}", t.bo.id);
    t.ada.patch(&member, json!({"role": "viewer"})).await.ok();
    gate.open();
    let failed = reaches(&t.ada, &started, "failed").await;
    let root = t.ada.task(&text(&failed, "/root_task_id")).await;
    assert_eq!(root["error"]["code"], "not_allowed");
    let said = t.ada.contents(&text(&failed, "/thread_id")).await;
    assert_eq!(said[0], "Bo started greeting.");
    assert!(!said.iter().any(|text| text.contains("Hello.")), "{said:?}");
    assert_eq!(states(&failed), ["draft cancelled", "post pending"]);
    t.ada.patch(&member, json!({"role": "member"})).await.ok();
    t.model().script("vibe", [Answer::text("Hello.")]);
    t.bo.act(&format!("/v1/runs/{started}/resume"))
        .await
        .is(200);
    reaches(&t.bo, &started, "completed").await;
}

#[tokio::test]
async fn deleting_a_message_removes_the_outputs_made_from_it() {
    let t: Team = team().await;
    t.model()
        .script("vibe", [Answer::text("It says SECRET-1.")]);
    let steps = json!([{"id": "ask", "kind": "agent", "prompt": "Check", "post": true}]);
    let flow = flow(&t.bo, "check", steps).await;
    let started = t.bo.start(&t.general, "SECRET-1").await;
    let thread = text(&started, "/thread/id");
    let run_id = start(&t.bo, &flow, json!({"thread_id": thread})).await;
    let done = reaches(&t.bo, &run_id, "completed").await;
    assert_eq!(done["steps"][0]["output"], "It says SECRET-1.");
    let message = text(&started, "/message/id");
    t.bo.delete(&format!("/v1/messages/{message}")).await.ok();
    assert_eq!(run(&t.bo, &run_id).await["steps"][0]["output"], Value::Null);
}

/// Eight steps that do not call a model: conditions and messages.
fn eight_steps() -> Value {
    let output = |n: usize| json!({"id": format!("o{n}"), "kind": "output", "content": format!("Message {n}")});
    let condition = |n: usize| {
        json!({"id": format!("c{n}"), "kind": "condition", "value": "a", "op": "equals", "with": "a",
            "then": format!("o{n}"), "else": "end"})
    };
    json!([
        {"id": "ask", "kind": "agent", "prompt": "One"},
        output(1),
        condition(2),
        output(2),
        {"id": "again", "kind": "agent", "prompt": "Two"},
        output(3),
        condition(4),
        output(4),
    ])
}

/// Starts a run while a failpoint makes the server exit. After a restart, checks that each step ran exactly once. Returns whether the
/// server had started before it exited.
async fn crash(p: &Prepared, flow: &str, failpoint: &str) -> bool {
    let server = TestProcess::try_start(&p.place, &p.model, &[("FAILPOINT", failpoint)]).await;
    let wish = json!({"thread_id": p.thread, "client_id": failpoint});
    let has_started = server.is_ok();
    if let Ok(server) = server {
        let ada = p.ada.at(&server.base);
        let path = format!("{flow}/runs");
        drop(ada.try_post(&path, wish.clone()).await);
        server.exited().await;
    }
    let (server, ada) = p.start(&[]).await;
    let started = start(&ada, flow, wish).await;
    let done = reaches(&ada, &started, "completed").await;
    for step in list(&done, "/steps") {
        assert_eq!(step["state"], "completed", "{failpoint}: {step}");
    }
    let messages = ada.messages(&p.thread).await;
    let own = contents_of_run(&messages, &started);
    let wanted: Vec<String> = (1..=4).map(|n| format!("Message {n}")).collect();
    assert_eq!(own, wanted, "{failpoint}");
    server.kill().await;
    has_started
}

#[tokio::test]
async fn a_crash_between_the_statements_of_a_run_repeats_no_step() {
    let p = prepared().await;
    let (server, ada) = p.start(&[]).await;
    let flow = flow(&ada, "eight", eight_steps()).await;
    server.kill().await;
    let mut crashed = 0;
    for failpoint in [
        "run_advance:1",
        "run_advance:2",
        "run_advance:3",
        "run_step:1",
        "run_step:4",
        "run_step:8",
        "run_advanced:1",
        "run_advanced:2",
        "turn_complete:1",
        "turn_completed:2",
    ] {
        crashed += usize::from(crash(&p, &flow, failpoint).await);
    }
    assert_eq!(crashed, 10);
}
