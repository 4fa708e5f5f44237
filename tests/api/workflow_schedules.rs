//! Schedules that start runs of workflows.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    runs::{flow, reaches},
    schedules::{created, due, form, get, in_channel, paused, run, slot, slots},
    support::{Answer, Person, Team, id, list, team, text, unknown_id},
};

/// Returns the ID in a workflow's path.
fn id_in(flow: &str) -> &str {
    flow.rsplit('/').next().unwrap()
}

fn target(flow: &str, input: &str) -> Value {
    json!({"target": {"type": "workflow", "workflow_id": id_in(flow), "input": input}})
}

/// Creates a workflow that posts its input.
async fn posting(by: &Person) -> String {
    let step = json!({"id": "post", "kind": "output", "content": "{{date}}: {{input}}"});
    flow(by, "daily", json!([step])).await
}

/// Creates a workflow that does not post anything.
async fn quiet(by: &Person) -> String {
    let step = json!({"id": "ask", "kind": "agent", "prompt": "Count the {{input}}."});
    flow(by, "quiet", json!([step])).await
}

/// The run of a task that has just been started.
async fn run_of(by: &Person, task: &str) -> String {
    text(&by.task(task).await, "/run_id")
}

async fn skipped(t: &Team, schedule: &str, reason: &str) {
    due(t, schedule, Duration::ZERO).await;
    let slot = slot(&t.ada, schedule).await;
    assert_eq!(
        (&slot["state"], &slot["reason"], &slot["task_id"]),
        (&json!("skipped"), &json!(reason), &Value::Null)
    );
}

#[tokio::test]
async fn a_slot_starts_a_run_for_the_owner_on_the_day_of_its_zone() {
    let t = team().await;
    let flow = posting(&t.bo).await;
    // The two time zones are never on the same day.
    for (zone, hours) in [("Pacific/Kiritimati", 14), ("Pacific/Pago_Pago", -11)] {
        let mut with = target(&flow, "Hello");
        with["timezone"] = json!(zone);
        let schedule = created(&t.bo, in_channel(&t), with).await;
        let today = || (chrono::Utc::now() + chrono::TimeDelta::hours(hours)).date_naive();
        let before = today();
        due(&t, &schedule, Duration::ZERO).await;
        let fired = slot(&t.ada, &schedule).await;
        assert_eq!(fired["state"], "fired");
        let days = [before, today()].map(|day| format!("{day}: Hello"));
        let task = text(&fired, "/task_id");
        let done = reaches(&t.ada, &run_of(&t.ada, &task).await, "completed").await;
        assert_eq!(done["cause"], json!({"type": "schedule", "id": schedule}));
        assert_eq!(
            (&done["requested_by"], &done["root_task_id"]),
            (&json!(t.bo.id), &json!(task))
        );
        let said = t.ada.contents(&text(&done, "/thread_id")).await;
        assert_eq!(said.len(), 2);
        assert!(days.contains(&said[1]), "{zone}: {said:?}");
    }
}

#[tokio::test]
async fn a_slot_is_skipped_while_the_previous_run_waits() {
    let t = team().await;
    let step = json!({"id": "ask", "kind": "approval", "text": "Go on?", "who": "requester"});
    let flow = flow(&t.bo, "ask", json!([step])).await;
    let schedule = created(&t.bo, in_channel(&t), target(&flow, "")).await;
    let task = run(&t.bo, &schedule).await;
    let first = run_of(&t.bo, &task).await;
    reaches(&t.bo, &first, "waiting").await;
    let again = t.bo.act(&format!("/v1/schedules/{schedule}/run")).await;
    assert_eq!(again.refused(409), "still_running");
    skipped(&t, &schedule, "still_running").await;
    t.bo.act(&format!("/v1/runs/{first}/cancel")).await.is(200);
    let task = run(&t.bo, &schedule).await;
    assert_ne!(run_of(&t.bo, &task).await, first);
}

#[tokio::test]
async fn a_workflow_that_posts_nothing_needs_no_channel() {
    let t = team().await;
    let cy = t.app.join(&t.ada, "Cy", "member").await;
    let posts = posting(&t.bo).await;
    let refused = form(&Value::Null, target(&posts, ""));
    let refused = t.bo.post("/v1/schedules", refused).await;
    assert_eq!(refused.json()["error"]["param"], "deliver");
    assert_eq!(refused.refused(422), "invalid_value");
    let flow = quiet(&t.bo).await;
    let schedule = created(&t.bo, Value::Null, target(&flow, "zebras")).await;
    let path = format!("/v1/schedules/{schedule}");
    for (by, status) in [(&t.bo, 200), (&t.ada, 200), (&cy, 404)] {
        assert_eq!(by.get(&path).await.status, status, "{}", by.name);
    }
    assert_eq!(get(&t.bo, &schedule).await["deliver"], Value::Null);
    due(&t, &schedule, Duration::ZERO).await;
    let task = text(&slot(&t.ada, &schedule).await, "/task_id");
    reaches(&t.bo, &run_of(&t.bo, &task).await, "completed").await;
    let told = cy.events().await;
    let is_about = |event: &&Value| event["type"].as_str().unwrap().starts_with("schedule.");
    assert_eq!(told.iter().filter(is_about).count(), 0);
    let steps = json!({"steps": [{"id": "post", "kind": "output", "content": "Hello"}]});
    t.bo.patch(&flow, steps).await.is(200);
    let run = t.bo.act(&format!("{path}/run")).await;
    assert_eq!(run.refused(422), "invalid_value");
    let agent = json!({"target": {"type": "agent", "prompt": "News?"}});
    assert_eq!(t.bo.patch(&path, agent).await.refused(422), "invalid_value");
}

#[tokio::test]
async fn a_workflow_that_is_off_skips_slots() {
    let t = team().await;
    let flow = posting(&t.bo).await;
    let schedule = created(&t.bo, in_channel(&t), target(&flow, "Hello")).await;
    t.bo.delete(&flow).await.is(200);
    skipped(&t, &schedule, "workflow_off").await;
    let run = t.bo.act(&format!("/v1/schedules/{schedule}/run")).await;
    assert_eq!(run.refused(409), "workflow_paused");
    assert_eq!(slots(&t.bo, &schedule).await.len(), 1);
    let unknown = target(&unknown_id("flow"), "");
    let refused =
        t.bo.post("/v1/schedules", form(&in_channel(&t), unknown))
            .await;
    assert_eq!(refused.refused(404), "workflow_not_found");
}

#[tokio::test]
async fn five_failed_runs_in_a_row_pause_a_schedule() {
    let t = team().await;
    // A step with a blank message fails.
    let step = json!({"id": "post", "kind": "output", "content": "{{input}}"});
    let flow = flow(&t.bo, "blank", json!([step])).await;
    let schedule = created(&t.bo, in_channel(&t), target(&flow, "")).await;
    for _ in 0..5 {
        let task = run(&t.bo, &schedule).await;
        let (_, code) = t.bo.failed(&task).await;
        assert_eq!(code, "step_failed");
    }
    paused(&t.bo, &schedule, "failing").await;
    let waiting = t.bo.get("/v1/waiting").await.ok();
    let told = &list(&waiting, "/paused")[0];
    assert_eq!(
        (&told["schedule_id"], &told["workflow_id"]),
        (&json!(schedule), &Value::Null)
    );
}

#[tokio::test]
async fn workflows_and_runs_are_exported_and_erased_with_their_requester() {
    let t = team().await;
    t.model().script("vibe", [Answer::text("Seven okapis.")]);
    let flow = quiet(&t.bo).await;
    let schedule = created(&t.bo, in_channel(&t), target(&flow, "okapis")).await;
    let task = run(&t.bo, &schedule).await;
    let done = reaches(&t.bo, &run_of(&t.bo, &task).await, "completed").await;
    let path = format!("/v1/members/{}/export", t.bo.id);
    let export = t.bo.get(&path).await.ok();
    assert_eq!(export["workflows"][0]["name"], "quiet");
    assert_eq!(
        (&export["runs"][0]["id"], &export["runs"][0]["input"]),
        (&done["id"], &json!("okapis"))
    );
    assert_eq!(export["run_outputs"][0]["text"], "Seven okapis.");
    assert_eq!(export["schedules"][0]["prompt"], "okapis");
    let others = t.ada.get(&path).await.ok();
    assert_eq!(others["run_outputs"], Value::Null);
    t.ada.erase(&t.bo).await;
    let found = t.app.place.places_of("okapi").await;
    assert!(found.is_empty(), "{found:?}");
    let shown = t.ada.get(&format!("/v1/runs/{}", id(&done))).await.ok();
    assert_eq!(shown["steps"][0]["output"], Value::Null);
}
