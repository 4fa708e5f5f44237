//! The task queue: its limits and order.

use serde_json::{Value, json};

use crate::support::{Answer, Gate, TestApp, id, list, number, team_with, text};

#[tokio::test]
async fn with_200_queued_tasks_further_ones_fail_at_once() {
    let t = team_with(&[("WORKERS", "1")]).await;
    let gate = Gate::new();
    t.model()
        .script("vibe", [Answer::text("Done.").held(&gate)]);
    let thread = t.ada.thread(&t.general, "@vibe hold the only worker").await;
    gate.reached().await;
    for n in 0..199 {
        t.ada.ask(&thread, &format!("@vibe {n}")).await;
    }
    let posted = t.ada.say(&thread, "@vibe and @coder at the edge").await;
    let tasks = list(&posted, "/tasks");
    assert_eq!(
        (&tasks[0]["status"], &tasks[1]["status"]),
        (&json!("queued"), &json!("failed"))
    );
    assert_eq!(tasks[1]["error"]["code"], "queue_full");
    assert!(tasks[1]["completed_at"].is_string());
    let notice = t.ada.messages(&thread).await.pop().unwrap();
    assert_eq!(
        (&notice["kind"], &notice["author"]["type"]),
        (&json!("notice"), &json!("system"))
    );
    assert!(text(&notice, "/content").contains("Coder"), "{notice}");
    let other = t.bo.start(&t.general, "@vibe elsewhere").await;
    assert_eq!(
        other["tasks"][0]["error"]["code"], "queue_full",
        "the limit is per workspace"
    );
    t.ada
        .act(&format!("/v1/tasks/{}/cancel", id(&tasks[0])))
        .await
        .is(200);
    let retried =
        t.bo.act(&format!("/v1/tasks/{}/retry", text(&other, "/tasks/0/id")))
            .await
            .is(201);
    assert_eq!(retried["status"], "queued", "there is capacity again");
    let seqs: Vec<i64> = t
        .ada
        .events()
        .await
        .iter()
        .map(|e| number(e, "/seq"))
        .collect();
    assert_eq!(
        seqs,
        (1..=i64::try_from(seqs.len()).unwrap()).collect::<Vec<_>>()
    );
}

#[tokio::test]
async fn concurrent_model_calls_are_limited_by_the_number_of_workers() {
    let t = team_with(&[("WORKERS", "2")]).await;
    let gates: Vec<Gate> = (0..3).map(|_| Gate::new()).collect();
    t.model().script(
        "vibe",
        gates.iter().map(|gate| Answer::text("Done.").held(gate)),
    );
    let mut tasks = Vec::new();
    for n in 0..3 {
        tasks.push(text(
            &t.ada.start(&t.general, &format!("@vibe {n}")).await,
            "/tasks/0/id",
        ));
    }
    gates[0].reached().await;
    gates[1].reached().await;
    let statuses = t.ada.get("/v1/tasks").await.ok();
    let running = list(&statuses, "/data")
        .iter()
        .filter(|task| task["status"] == "running")
        .count();
    assert_eq!((running, t.model().requests().len()), (2, 2));
    gates[0].open();
    gates[2].reached().await;
    gates[1].open();
    gates[2].open();
    for task in tasks {
        t.ada.completed(&task).await;
    }
}

#[tokio::test]
async fn workers_alternate_between_workspaces() {
    let app = TestApp::with(&[("SIGNUP", "open"), ("WORKERS", "1")]).await;
    let (ada, bo) = (app.founder("Ada").await, app.founder("Bo").await);
    let gate = Gate::new();
    app.model
        .script("vibe", [Answer::text("Done.").held(&gate)]);
    let (here, there) = (
        id(&ada.channel("general").await),
        id(&bo.channel("general").await),
    );
    ada.start(&here, "@vibe ADA first").await;
    gate.reached().await;
    let mut last = Value::Null;
    for n in 0..5 {
        last = ada.start(&here, &format!("@vibe ADA {n}")).await;
    }
    let theirs = bo.start(&there, "@vibe BO").await;
    gate.open();
    bo.completed(&text(&theirs, "/tasks/0/id")).await;
    ada.completed(&text(&last, "/tasks/0/id")).await;
    let order: Vec<bool> = app
        .model
        .asked("vibe", 7)
        .await
        .iter()
        .map(|r| r.all().contains("BO"))
        .collect();
    let place = order.iter().position(|is_bo| *is_bo).unwrap();
    assert!(place <= 2, "Bo's task came {place} after the first");
}

#[tokio::test]
async fn tasks_of_a_conversation_run_in_order() {
    let t = team_with(&[("WORKERS", "4")]).await;
    let thread = t.ada.thread(&t.general, "Root").await;
    let mut tasks = Vec::new();
    for n in 0..12 {
        tasks.push(t.ada.ask(&thread, &format!("@vibe number {n}")).await);
    }
    t.ada.completed(tasks.last().unwrap()).await;
    for (n, request) in t.model().requests().iter().enumerate() {
        assert!(
            request
                .turns()
                .last()
                .unwrap()
                .ends_with(&format!("@vibe number {n}")),
            "{n}"
        );
    }
    let parents: Vec<Value> = t
        .ada
        .messages(&thread)
        .await
        .iter()
        .filter(|m| m["author"]["type"] == "agent")
        .map(|m| m["parent_id"].clone())
        .collect();
    let mut triggers = Vec::new();
    for task in &tasks {
        triggers.push(t.ada.task(task).await["trigger_message_id"].clone());
    }
    assert_eq!(parents, triggers);
}
