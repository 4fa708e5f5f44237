//! Work of schedules beyond a single reply: delegations, failures of trees, and permissions of API keys.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    approvals::waiting,
    schedules::{created, due, form, get, in_channel, paused, posted, run, slots},
    support::{Answer, Gate, Team, id, list, team, text, within},
    tools_loop::{actions, reader},
};

fn delegate(agent: &str, message: &str) -> (&'static str, Value) {
    ("delegate", json!({"agent": agent, "message": message}))
}

/// Creates a schedule of Bo for the agent `lead`, which can delegate.
async fn leading(t: &Team, deliver: Value) -> String {
    let lead = reader(&t.ada, "lead", json!({"tools": [{"type": "delegate"}]})).await;
    let target = json!({"type": "agent", "agent_id": lead["id"], "prompt": "Report the zebras"});
    created(&t.bo, deliver, json!({"target": target})).await
}

#[tokio::test]
async fn an_agent_can_delegate_before_its_reply_starts_the_thread() {
    let t = team().await;
    let schedule = leading(&t, in_channel(&t)).await;
    let gate = Gate::new();
    let calls = Answer::calls("", &[delegate("coder", "Count them.")]);
    t.model().script("lead", [calls, Answer::text("Two.")]);
    t.model().script("coder", [Answer::text("2").held(&gate)]);
    let task = run(&t.bo, &schedule).await;
    gate.reached().await;
    let tree = t.ada.get(&format!("/v1/tasks/{task}/tree")).await.ok();
    let child = list(&tree, "/tasks").remove(1);
    assert_eq!(child["kind"], "delegate");
    assert!(child["thread_id"].is_null() && child["fork_id"].is_null());
    gate.open();
    let task = t.bo.completed(&task).await;
    assert_eq!(posted(&t.ada, &schedule).await, ["Two."]);
    let child = t.ada.task(&id(&child)).await;
    assert_eq!(child["status"], "completed");
    assert_eq!(child["thread_id"], task["thread_id"]);
}

#[tokio::test]
async fn agents_that_repeat_themselves_in_five_runs_pause_the_schedule() {
    let t = team().await;
    let schedule = leading(&t, in_channel(&t)).await;
    for _ in 0..5 {
        assert_eq!(get(&t.bo, &schedule).await["status"], "active");
        let to_itself = |text| Answer::calls("", &[delegate("lead", text)]);
        let answers = [to_itself("You do it."), to_itself("No, you.")];
        t.model().script("lead", answers);
        let task = run(&t.bo, &schedule).await;
        assert_eq!(t.bo.failed(&task).await.1, "loop");
    }
    paused(&t.bo, &schedule, "failing").await;
    let events = t.ada.events().await;
    let notices = events
        .iter()
        .filter(|event| event["data"]["message"]["kind"] == "notice");
    assert_eq!(notices.count(), 0, "a thread starts with a failure");
}

/// Target of a schedule that runs this agent.
fn target(agent: &Value) -> Value {
    json!({"target": {"type": "agent", "agent_id": agent["id"], "prompt": "Count the zebras"}})
}

fn search() -> Answer {
    Answer::calls("", &[("search_messages", json!({"query": "zebra"}))])
}

#[tokio::test]
async fn a_schedule_of_a_key_has_the_scopes_of_the_key_until_it_is_revoked() {
    let t = team().await;
    let sage = reader(&t.ada, "sage", json!({})).await;
    let (key, of_key) = t.bo.make_key(&["chat:write", "agents:use"]).await;
    let schedule = created(&key, in_channel(&t), target(&sage)).await;
    t.model().script("sage", [search(), Answer::text("None.")]);
    let task = run(&t.bo, &schedule).await;
    let task = t.bo.completed(&task).await;
    let found = actions(&t.bo, &task).await;
    assert_eq!(found[0]["error"], "not_allowed");
    t.bo.delete(&format!("/v1/api-keys/{of_key}")).await.is(204);
    due(&t, &schedule, Duration::ZERO).await;
    paused(&t.bo, &schedule, "owner_gone").await;
    let newest = slots(&t.bo, &schedule).await.remove(0);
    assert_eq!(
        (&newest["state"], &newest["reason"]),
        (&json!("skipped"), &json!("owner_gone"))
    );
    let path = format!("/v1/schedules/{schedule}");
    let resume = t.bo.patch(&path, json!({"status": "active"})).await;
    assert_eq!(resume.refused(409), "not_active");
    let mut change = target(&sage);
    change["status"] = "active".into();
    t.bo.patch(&path, change).await.ok();
    t.model().script("sage", [search(), Answer::text("None.")]);
    let task = run(&t.bo, &schedule).await;
    let task = t.bo.completed(&task).await;
    assert_eq!(actions(&t.bo, &task).await[0]["state"], "done");
}

#[tokio::test]
async fn a_run_that_a_key_scheduled_ends_with_the_key() {
    let t = team().await;
    let steps = json!([{"id": "draft", "kind": "agent", "prompt": "Count the zebras"},
        {"id": "post", "kind": "output", "content": "{{steps.draft.output}}"}]);
    let flow = json!({"name": "zebras", "steps": steps});
    let flow = t.bo.post("/v1/workflows", flow).await.is(201);
    let (key, of_key) = t.bo.make_key(&["chat:write", "agents:use"]).await;
    let target = json!({"target": {"type": "workflow", "workflow_id": flow["id"]}});
    let schedule = created(&key, in_channel(&t), target).await;
    let gate = Gate::new();
    t.model().script("vibe", [Answer::text("None.")]);
    let task = run(&t.bo, &schedule).await;
    t.bo.completed(&task).await;
    t.model()
        .script("vibe", [Answer::text("None.").held(&gate)]);
    let task = run(&t.bo, &schedule).await;
    gate.reached().await;
    t.bo.delete(&format!("/v1/api-keys/{of_key}")).await.is(204);
    gate.open();
    assert_eq!(t.bo.failed(&task).await.1, "not_allowed");
    paused(&t.bo, &schedule, "owner_gone").await;
    let again = t.bo.act(&format!("/v1/schedules/{schedule}/run")).await;
    assert_eq!(again.refused(409), "not_active");
}

#[tokio::test]
async fn a_permission_for_an_hour_does_not_cover_a_schedule_that_a_key_runs() {
    let t = team().await;
    let sage = reader(&t.ada, "sage", json!({"trust": {"approve": ["search"]}})).await;
    let thread = t.bo.thread(&t.general, "Root").await;
    let schedule = created(&t.bo, json!({"thread_id": thread}), target(&sage)).await;
    t.model().script("sage", [search(), Answer::text("None.")]);
    let task = run(&t.bo, &schedule).await;
    let card = waiting(&t.bo, &task).await;
    let path = format!("/v1/actions/{}/approve", id(&card));
    let form = json!({"arguments_hash": card["arguments_hash"], "for": "hour"});
    t.bo.post(&path, form).await.is(200);
    t.bo.completed(&task).await;
    t.model().script("sage", [search(), Answer::text("None.")]);
    let task = run(&t.bo, &schedule).await;
    t.bo.completed(&task).await;
    let scopes = ["chat:read", "chat:write", "agents:use"];
    let (key, _) = t.bo.make_key(&scopes).await;
    t.model().script("sage", [search()]);
    let task = run(&key, &schedule).await;
    assert_eq!(waiting(&t.bo, &task).await["state"], "waiting");
    t.bo.act(&format!("/v1/tasks/{task}/cancel")).await.is(200);
}

#[tokio::test]
async fn the_prompt_that_an_erased_owner_passed_on_is_gone() {
    let t = team().await;
    let thread = t.ada.thread(&t.general, "Root").await;
    let schedule = leading(&t, json!({"thread_id": thread})).await;
    let calls = Answer::calls("", &[delegate("coder", "Count them.")]);
    t.model().script("lead", [calls, Answer::text("Two.")]);
    let task = run(&t.bo, &schedule).await;
    t.bo.completed(&task).await;
    t.ada.erase(&t.bo).await;
    let gone = async {
        while !t.app.place.places_of("Report the zebras").await.is_empty() {
            crate::support::pause().await;
        }
    };
    within("the prompt to be gone", gone).await;
}

#[tokio::test]
async fn a_resent_request_makes_no_second_schedule_and_no_second_run() {
    let t = team().await;
    let form = form(&in_channel(&t), json!({"client_id": "once"}));
    let first = t.bo.post("/v1/schedules", form.clone()).await.is(201);
    let again = t.bo.post("/v1/schedules", form).await.is(200);
    assert_eq!(first, again);
    let path = format!("/v1/schedules/{}/run", id(&first));
    let client_id = json!({"client_id": "now"});
    let run = t.bo.post(&path, client_id.clone()).await.is(202);
    let task = t.bo.completed(&text(&run, "/task/id")).await;
    let again = t.bo.post(&path, client_id).await.is(200);
    assert_eq!(again["task"]["id"], task["id"]);
    assert_eq!(posted(&t.ada, &id(&first)).await.len(), 1);
    let reused = t.bo.post(&path, json!({"client_id": "once"})).await;
    assert_eq!(reused.refused(409), "client_id_reused");
}

#[tokio::test]
async fn readers_of_the_old_channel_learn_that_a_schedule_has_moved() {
    let t = team().await;
    let schedule = created(&t.bo, in_channel(&t), json!({})).await;
    let plans = t.bo.private_channel("plans", &[]).await;
    let path = format!("/v1/schedules/{schedule}");
    let change = json!({"deliver": {"channel_id": plans}});
    t.bo.patch(&path, change).await.ok();
    let is_gone = |event: &Value| event["type"] == "schedule.deleted";
    let gone = t.ada.event_where("the end of the schedule", is_gone).await;
    assert_eq!(gone["data"]["schedule"]["id"], json!(schedule));
    assert!(!gone.to_string().contains(&plans), "{gone}");
    let is_new = |event: &Value| {
        event["type"] == "schedule.created"
            && event["data"]["schedule"]["deliver"]["channel_id"] == json!(plans)
    };
    t.bo.event_where("the schedule in its new channel", is_new)
        .await;
}
