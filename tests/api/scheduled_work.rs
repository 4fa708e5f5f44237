//! Work of schedules beyond one reply: delegations and failures of trees.

use serde_json::{Value, json};

use crate::{
    schedules::{created, get, in_channel, paused, posted, run},
    support::{Answer, Gate, Team, id, list, team},
    tools_loop::reader,
};

fn delegate(agent: &str, message: &str) -> (&'static str, Value) {
    ("delegate", json!({"agent": agent, "message": message}))
}

/// A schedule of Bo for an agent `lead` that can delegate.
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
