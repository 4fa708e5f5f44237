//! Task trees of runs: functions that agents call in steps, work that they delegate, and the loop guard.

use std::time::Duration;

use futures::future::join_all;
use serde_json::{Value, json};

use crate::{
    approvals::waiting,
    runs::{flow, reaches, start, states},
    support::{Answer, Person, id, list, team, team_with, text, within},
    tools_loop::reader,
};

fn search() -> (&'static str, Value) {
    ("search_messages", json!({"query": "zebra"}))
}

/// Creates a workflow with one step for this agent. Returns the workflow's path.
async fn flow_of(by: &Person, agent: &Value) -> String {
    let step =
        json!({"id": "ask", "kind": "agent", "agent_id": agent["id"], "prompt": "Find {{input}}."});
    let form = json!({"name": "find", "agents": [agent["id"]], "steps": [step]});
    format!(
        "/v1/workflows/{}",
        id(&by.post("/v1/workflows", form).await.is(201))
    )
}

#[tokio::test]
async fn a_tool_of_a_step_waits_for_the_requester_and_so_does_the_run() {
    let t = team().await;
    let sage = reader(&t.ada, "sage", json!({"trust": {"approve": ["search"]}})).await;
    t.model().script(
        "sage",
        [Answer::calls("", &[search()]), Answer::text("No zebra.")],
    );
    let flow = flow_of(&t.bo, &sage).await;
    let wish = json!({"input": "the zebra", "channel_id": t.general});
    let run = start(&t.bo, &flow, wish).await;
    let parked = reaches(&t.bo, &run, "waiting").await;
    assert_eq!(states(&parked), ["ask waiting"]);
    let listed = t.bo.every("/v1/runs?status=waiting").await;
    assert_eq!(listed[0]["id"], json!(run));
    let task = text(&parked, "/steps/0/task_id");
    let action = waiting(&t.bo, &task).await;
    assert_eq!(action["needs"][0]["who"], "requester");
    let form = json!({"arguments_hash": action["arguments_hash"]});
    let path = format!("/v1/actions/{}/approve", id(&action));
    t.bo.post(&path, form).await.is(200);
    let done = reaches(&t.bo, &run, "completed").await;
    assert_eq!(done["steps"][0]["output"], "No zebra.");
    let shown = t.bo.task(&task).await;
    assert_eq!(shown["input"]["prompt"], "");
    assert_eq!(shown["input"]["brief"]["message"], "Find the zebra.");
    assert_eq!(shown["output"]["answer"], "No zebra.");
    let events = t.bo.events().await;
    let updates = events.iter().filter(|event| event["type"] == "run.updated");
    let mut told: Vec<String> = updates
        .map(|event| text(event, "/data/run/status"))
        .collect();
    told.dedup();
    assert_eq!(told, ["running", "waiting", "running", "completed"]);
    let events = json!(events).to_string();
    for hidden in ["the zebra", "No zebra."] {
        assert!(!events.contains(hidden), "{hidden}");
    }
}

#[tokio::test]
async fn the_input_of_a_run_that_a_key_starts_taints_its_steps() {
    let t = team().await;
    let sage = reader(&t.ada, "sage", json!({"trust": {"approve": ["search"]}})).await;
    t.model()
        .script("sage", (0..2).map(|_| Answer::calls("", &[search()])));
    let flow = flow_of(&t.bo, &sage).await;
    let scopes = ["chat:read", "chat:write", "agents:use"];
    let (robot, _) = t.bo.make_key(&scopes).await;
    let key = json!({"kind": "key", "label": "Bo"});
    for (by, is_tainted) in [(&t.bo, false), (&robot, true)] {
        let wish = json!({"input": "the text of a mail", "channel_id": t.general});
        let run = start(by, &flow, wish).await;
        let parked = reaches(&t.bo, &run, "waiting").await;
        let action = waiting(&t.bo, &text(&parked, "/steps/0/task_id")).await;
        let sources = list(&action, "/sources");
        assert_eq!(sources.contains(&key), is_tainted, "{action}");
    }
}

#[tokio::test]
async fn an_agent_without_a_channel_has_no_tools() {
    let t = team().await;
    let sage = reader(&t.ada, "sage", json!({})).await;
    let flow = flow_of(&t.bo, &sage).await;
    for wish in [json!({}), json!({"channel_id": t.general})] {
        let run = start(&t.bo, &flow, wish).await;
        reaches(&t.bo, &run, "completed").await;
    }
    let requests = t.model().asked("sage", 2).await;
    assert!(requests[0].offered().is_empty());
    assert!(!requests[1].offered().is_empty());
}

#[tokio::test]
async fn an_agent_in_a_step_passes_work_on() {
    let t = team().await;
    let lead = reader(&t.ada, "lead", json!({"tools": [{"type": "delegate"}]})).await;
    let delegate = (
        "delegate",
        json!({"agent": "@coder", "message": "Draft it."}),
    );
    t.model().script(
        "lead",
        [Answer::calls("", &[delegate]), Answer::text("Drafted.")],
    );
    t.model().script("coder", [Answer::text("The draft.")]);
    let flow = flow_of(&t.bo, &lead).await;
    let wish = json!({"input": "a text", "channel_id": t.general});
    let run = start(&t.bo, &flow, wish).await;
    let done = reaches(&t.bo, &run, "completed").await;
    assert_eq!(done["steps"][0]["output"], "Drafted.");
    let asked = t.model().asked_once("coder").await;
    let expected =
        "user: Task from lead (AI), on behalf of Bo (role: member):\n\nDraft it.".to_owned();
    assert_eq!(asked.turns(), [expected]);
    let root = text(&done, "/root_task_id");
    let tree = t.bo.get(&format!("/v1/tasks/{root}/tree")).await.ok();
    let kinds: Vec<String> = list(&tree, "/tasks")
        .iter()
        .map(|task| format!("{} {}", text(task, "/kind"), task["depth"]))
        .collect();
    assert_eq!(kinds, ["workflow 0", "delegate 1", "delegate 2"]);
}

#[tokio::test]
async fn a_hundred_runs_of_fifteen_steps_are_not_stopped_by_the_guard() {
    let t = team_with(&[("RATE_LIMITS", "off")]).await;
    // The agents of this step repeat the same text.
    let step = |n: usize| {
        let next = format!("s{}", n + 1);
        let then = if n == 14 { "end" } else { next.as_str() };
        match n % 5 {
            0 => json!({"id": format!("s{n}"), "kind": "agent", "prompt": "Check the plan again."}),
            _ => {
                json!({"id": format!("s{n}"), "kind": "condition", "value": "{{input}}", "op": "contains", "with": "plan",
                "then": then, "else": "end"})
            }
        }
    };
    let steps: Vec<Value> = (0..15).map(step).collect();
    let flow = flow(&t.bo, "plan", json!(steps)).await;
    // Starts ten runs at a time, because a workflow can have at most ten active runs.
    for _ in 0..10 {
        let wish = || json!({"input": "the plan", "channel_id": t.general});
        let runs = join_all((0..10).map(|_| start(&t.bo, &flow, wish()))).await;
        for run in runs {
            let done = reaches(&t.bo, &run, "completed").await;
            let states = states(&done);
            assert_eq!(states.len(), 15);
            assert!(
                states.iter().all(|state| state.ends_with(" completed")),
                "{states:?}"
            );
        }
    }
}

#[tokio::test]
async fn runs_that_wait_leave_room_for_questions_of_tools() {
    let t = team_with(&[("RATE_LIMITS", "off")]).await;
    // Starts as many runs as there can be tasks that wait for approvals in a workspace.
    for n in 0..20 {
        let steps = json!([{"id": "think", "kind": "fork", "goal": "Find a day."}]);
        let flow = flow(&t.bo, &format!("day-{n}"), steps).await;
        let wish = || json!({"channel_id": t.general});
        join_all((0..10).map(|_| start(&t.bo, &flow, wish()))).await;
    }
    within("the runs to wait", async {
        while t.bo.every("/v1/runs?status=waiting").await.len() < 200 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
    let sage = reader(&t.ada, "sage", json!({"trust": {"approve": ["search"]}})).await;
    t.model().script("sage", [Answer::calls("", &[search()])]);
    let flow = flow_of(&t.bo, &sage).await;
    let run = start(&t.bo, &flow, json!({"channel_id": t.general})).await;
    let parked = reaches(&t.bo, &run, "waiting").await;
    waiting(&t.bo, &text(&parked, "/steps/0/task_id")).await;
}
