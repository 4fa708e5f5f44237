//! Canceling and retrying tasks.

use serde_json::{Value, json};

use crate::support::{Answer, Gate, Team, id, team, team_with, text, unknown_id};

async fn cancel(t: &Team, task: &str) -> Value {
    t.ada.act(&format!("/v1/tasks/{task}/cancel")).await.is(200)
}

/// A thread with a question whose first model call was rejected, and the failed task.
async fn failed(t: &Team) -> (String, String) {
    t.model().script("vibe", [Answer::status(400, "{}")]);
    let thread = t.bo.thread(&t.general, "Root").await;
    let task = t.bo.ask(&thread, "@vibe hi").await;
    t.bo.failed(&task).await;
    (thread, task)
}

#[tokio::test]
async fn a_queued_task_can_be_canceled_before_it_runs() {
    let t = team().await;
    let gate = Gate::new();
    t.model()
        .script("vibe", [Answer::text("First.").held(&gate)]);
    let thread = t.ada.thread(&t.general, "Root").await;
    let first = t.ada.ask(&thread, "@vibe one").await;
    gate.reached().await;
    let second = t.ada.ask(&thread, "@vibe two").await;
    let cancelled = cancel(&t, &second).await;
    assert_eq!(cancelled["status"], "cancelled");
    assert!(cancelled["completed_at"].is_string() && cancelled["started_at"].is_null());
    gate.open();
    t.ada.completed(&first).await;
    let third = t.ada.ask(&thread, "@vibe three").await;
    t.ada.completed(&third).await;
    let asked = t.model().asked("vibe", 2).await;
    assert_eq!(asked.len(), 2, "the canceled task never called the model");
    assert_eq!(t.ada.contents(&thread).await.len(), 6);
}

#[tokio::test]
async fn canceling_before_the_first_text_leaves_no_message() {
    let t = team().await;
    let gate = Gate::new();
    t.model()
        .script("vibe", [Answer::text("Never.").held(&gate)]);
    let thread = t.ada.thread(&t.general, "Root").await;
    let task = t.ada.ask(&thread, "@vibe hi").await;
    gate.reached().await;
    assert_eq!(cancel(&t, &task).await["status"], "cancelled");
    assert_eq!(
        t.ada.contents(&thread).await,
        ["Root", "@vibe hi"],
        "no reply and no notice"
    );
    let next = t.ada.ask(&thread, "@vibe next").await;
    t.ada.completed(&next).await;
}

#[tokio::test]
async fn the_last_event_of_a_stopped_reply_has_its_usage() {
    let t = team().await;
    let gate = Gate::new();
    t.model().script(
        "vibe",
        [Answer::pieces_open(&["Half ", "way"]).wait(&gate).end()],
    );
    let thread = t.ada.thread(&t.general, "Root").await;
    let mut socket = t.bo.socket().await;
    socket.subscribe(&thread).await;
    let task = t.ada.ask(&thread, "@vibe hi").await;
    gate.reached().await;
    socket.streamed("Half way").await;
    assert_eq!(cancel(&t, &task).await["status"], "cancelled");
    let last = socket.until("the end of the task", |f| {
        f["data"]["task"]["status"] == "cancelled"
    });
    let last = last.await["data"]["task"].take();
    let usage = &last["token_usage"];
    assert_eq!(usage["estimated"], true, "{usage}");
    assert!(usage["output_tokens"].as_i64().unwrap() > 0, "{usage}");
    let stored = t.ada.task(&task).await;
    assert_eq!(stored["token_usage"], *usage);
    assert_eq!(stored["completed_at"], last["completed_at"]);
    let outcomes = "select outcome from model_calls";
    assert_eq!(t.app.place.texts(outcomes).await, ["cancelled"]);
    // Nothing changes when the worker ends the call.
    t.model().given_up(1).await;
    let next = t.ada.ask(&thread, "@vibe next").await;
    t.ada.completed(&next).await;
    assert_eq!(t.ada.task(&task).await["token_usage"], *usage);
    let ends = t.ada.events().await;
    let ends = ends.iter().filter(|e| {
        e["data"]["task"]["id"] == task.as_str() && e["data"]["task"]["status"] == "cancelled"
    });
    assert_eq!(ends.count(), 1);
    gate.open();
}

#[tokio::test]
async fn canceling_keeps_partial_text_as_interrupted() {
    let t = team().await;
    let gate = Gate::new();
    t.model().script(
        "vibe",
        [Answer::pieces_open(&["Half ", "way"])
            .wait(&gate)
            .piece("NEVER")
            .end()],
    );
    let thread = t.ada.thread(&t.general, "Root").await;
    let mut socket = t.bo.socket().await;
    socket.subscribe(&thread).await;
    let task = t.ada.ask(&thread, "@vibe hi").await;
    gate.reached().await;
    socket.streamed("Half way").await;
    assert_eq!(cancel(&t, &task).await["status"], "cancelled");
    t.model().given_up(1).await;
    let events = socket.events_through("the end", |f| {
        f["type"] == "message.updated" && f["data"]["message"]["state"] == "interrupted"
    });
    let events = events.await;
    let ended = events
        .iter()
        .any(|e| e["data"]["task"]["status"] == "cancelled");
    if !ended {
        socket
            .until("the task's end", |f| {
                f["data"]["task"]["status"] == "cancelled"
            })
            .await;
    }
    let reply = t.ada.messages(&thread).await[2].clone();
    assert_eq!(
        (&reply["content"], &reply["state"]),
        (&json!("Half way"), &json!("interrupted"))
    );
    assert_eq!(reply["content_plain"], "Half way");
    gate.open();
    let next = t.ada.ask(&thread, "@vibe next").await;
    t.ada.completed(&next).await;
    assert_eq!(
        t.ada.contents(&thread).await[2],
        "Half way",
        "nothing is written after the end"
    );
}

#[tokio::test]
async fn canceling_a_finished_task_returns_it_unchanged() {
    let t = team().await;
    let thread = t.ada.thread(&t.general, "Root").await;
    let task = t.ada.ask(&thread, "@vibe hi").await;
    let done = t.ada.completed(&task).await;
    let before = t.ada.events().await.len();
    assert_eq!(cancel(&t, &task).await, done);
    assert_eq!(t.ada.events().await.len(), before);
    let (_, failed) = failed(&t).await;
    assert_eq!(cancel(&t, &failed).await["status"], "failed");
}

#[tokio::test]
async fn canceling_is_idempotent() {
    let t = team().await;
    let gate = Gate::new();
    t.model()
        .script("vibe", [Answer::text("Never.").held(&gate)]);
    let thread = t.ada.thread(&t.general, "Root").await;
    let task = t.ada.ask(&thread, "@vibe hi").await;
    gate.reached().await;
    let path = format!("/v1/tasks/{task}/cancel");
    let replies = futures::future::join_all((0..5).map(|_| t.ada.act(&path))).await;
    assert!(replies.iter().all(|r| r.status == 200));
    let cancels = t.ada.events().await;
    let cancels = cancels
        .iter()
        .filter(|e| e["data"]["task"]["status"] == "cancelled")
        .count();
    assert_eq!(cancels, 1);
}

#[tokio::test]
async fn anyone_with_write_access_can_cancel_a_task() {
    let t = team().await;
    let gate = Gate::new();
    t.model()
        .script("vibe", [Answer::text("Never.").held(&gate)]);
    let thread = t.ada.thread(&t.general, "Root").await;
    let task = t.ada.ask(&thread, "@vibe hi").await;
    gate.reached().await;
    let vera = t.app.join(&t.ada, "Vera", "viewer").await;
    vera.act(&format!("/v1/tasks/{task}/cancel"))
        .await
        .refused(403);
    t.bo.act(&format!("/v1/tasks/{task}/cancel")).await.is(200);
    t.bo.act(&format!("/v1/tasks/{}/cancel", unknown_id("task")))
        .await
        .refused(404);
}

#[tokio::test]
async fn a_waiting_task_can_be_canceled() {
    let t = team_with(&[("RETRY_DELAYS", "1h")]).await;
    t.model().script("vibe", [Answer::status(503, "{}")]);
    let thread = t.ada.thread(&t.general, "Root").await;
    let task = t.ada.ask(&thread, "@vibe hi").await;
    t.ada
        .event_where("the wait", |e| e["data"]["task"]["wait_reason"].is_string())
        .await;
    let cancelled = cancel(&t, &task).await;
    assert!(cancelled["retry_at"].is_null() && cancelled["wait_reason"].is_null());
}

#[tokio::test]
async fn a_failed_task_is_retried_as_a_new_task() {
    let t = team().await;
    let (thread, task) = failed(&t).await;
    t.model().script("vibe", [Answer::text("Now it works.")]);
    let again = t.bo.act(&format!("/v1/tasks/{task}/retry")).await.is(201);
    assert_ne!(again["id"], task.as_str());
    assert_eq!(again["retry_of"], task.as_str());
    assert_eq!(
        (&again["status"], &again["attempt"]),
        (&json!("queued"), &json!(1))
    );
    let old = t.bo.task(&task).await;
    for same in [
        "trigger_message_id",
        "thread_id",
        "agent_id",
        "requested_by",
    ] {
        assert_eq!(again[same], old[same], "{same}");
    }
    let done = t.bo.completed(&id(&again)).await;
    assert_eq!(
        t.bo.task(&task).await["status"],
        "failed",
        "the old task is unchanged"
    );
    let reply = t.bo.message(&text(&done, "/output/message_id")).await;
    assert_eq!(reply["content"], "Now it works.");
    let texts = t.bo.contents(&thread).await;
    assert_eq!(
        texts,
        ["Root", "@vibe hi", "", "Now it works."],
        "the notice is a tombstone"
    );
}

#[tokio::test]
async fn the_partial_reply_and_notice_are_removed_once_the_retry_is_complete() {
    let t = team_with(&[("TASK_TIMEOUT", "2s")]).await;
    let gate = Gate::new();
    let broken = || Answer::stream().piece("HALF-OF-IT").cut();
    t.model()
        .script("vibe", [broken(), broken(), broken(), broken()]);
    t.model().script(
        "vibe",
        [Answer::stream()
            .piece("New")
            .wait(&gate)
            .piece(" and whole.")
            .end()],
    );
    let thread = t.bo.thread(&t.general, "Root").await;
    let task = t.bo.ask(&thread, "@vibe hi").await;
    t.bo.failed(&task).await;
    let again = id(&t.bo.act(&format!("/v1/tasks/{task}/retry")).await.is(201));
    gate.reached().await;
    let during = t.bo.messages(&thread).await;
    assert_eq!(during[2]["content"], "HALF-OF-IT");
    assert!(during[3]["deleted_at"].is_null());
    gate.open();
    t.bo.completed(&again).await;
    let tombstones = async {
        loop {
            let deleted =
                t.bo.messages(&thread)
                    .await
                    .iter()
                    .filter(|m| m["deleted_at"].is_string())
                    .count();
            if deleted == 2 {
                return;
            }
        }
    };
    crate::support::within("two tombstones", tombstones).await;
    assert_eq!(
        t.bo.contents(&thread).await,
        ["Root", "@vibe hi", "", "", "New and whole."]
    );
    let scrubbed = async {
        while !t.app.place.places_of("HALF-OF-IT").await.is_empty() {
            crate::support::pause().await;
        }
    };
    crate::support::within("the old text to be gone", scrubbed).await;
    let found = t.bo.get(&format!("/v1/threads/{thread}")).await.ok();
    assert_eq!(found["reply_count"], 2);
}

#[tokio::test]
async fn a_failed_retry_keeps_the_old_partial_reply() {
    let t = team().await;
    let (thread, task) = failed(&t).await;
    t.model().script(
        "vibe",
        [Answer::status(400, "{}"), Answer::text("Third time.")],
    );
    let second = id(&t.bo.act(&format!("/v1/tasks/{task}/retry")).await.is(201));
    t.bo.failed(&second).await;
    assert_eq!(
        t.bo.messages(&thread)
            .await
            .iter()
            .filter(|m| m["kind"] == "notice" && m["deleted_at"].is_null())
            .count(),
        2
    );
    let third = id(&t.bo.act(&format!("/v1/tasks/{second}/retry")).await.is(201));
    t.bo.completed(&third).await;
    assert_eq!(
        t.bo.contents(&thread).await,
        ["Root", "@vibe hi", "", "", "Third time."],
        "the whole chain is removed"
    );
}

#[tokio::test]
async fn a_canceled_task_can_be_retried() {
    let t = team().await;
    let gate = Gate::new();
    t.model().script(
        "vibe",
        [
            Answer::stream().piece("HALF").wait(&gate),
            Answer::text("Whole."),
        ],
    );
    let thread = t.ada.thread(&t.general, "Root").await;
    let task = t.ada.ask(&thread, "@vibe hi").await;
    t.ada
        .event_where("the reply to begin", |e| {
            e["data"]["message"]["state"] == "streaming"
        })
        .await;
    cancel(&t, &task).await;
    let again = id(&t.ada.act(&format!("/v1/tasks/{task}/retry")).await.is(201));
    t.ada.completed(&again).await;
    assert_eq!(
        t.ada.contents(&thread).await,
        ["Root", "@vibe hi", "", "Whole."]
    );
    let sent = t.model().asked("vibe", 2).await[1].turns();
    assert_eq!(
        sent.last().unwrap(),
        "user: [Ada]: Root\n\nThe person asking is Ada (role: admin).\n\n@vibe hi"
    );
}

#[tokio::test]
async fn a_task_can_be_retried_only_once() {
    let t = team().await;
    let (_, task) = failed(&t).await;
    let path = format!("/v1/tasks/{task}/retry");
    let replies = futures::future::join_all((0..5).map(|_| t.bo.act(&path))).await;
    let mut statuses: Vec<u16> = replies.iter().map(|r| r.status).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 409, 409, 409, 409]);
}

#[tokio::test]
async fn only_the_requester_or_an_admin_can_retry() {
    let t = team().await;
    let (_, task) = failed(&t).await;
    let cy = t.app.join(&t.ada, "Cy", "member").await;
    cy.act(&format!("/v1/tasks/{task}/retry"))
        .await
        .refused(403);
    let again = t.ada.act(&format!("/v1/tasks/{task}/retry")).await.is(201);
    t.ada.completed(&id(&again)).await;
}

#[tokio::test]
async fn a_task_that_did_not_fail_cannot_be_retried() {
    let t = team().await;
    let gate = Gate::new();
    t.model().script(
        "vibe",
        [Answer::text("Fine."), Answer::text("Later.").held(&gate)],
    );
    let thread = t.ada.thread(&t.general, "Root").await;
    let done = t.ada.ask(&thread, "@vibe one").await;
    t.ada.completed(&done).await;
    t.ada
        .act(&format!("/v1/tasks/{done}/retry"))
        .await
        .refused(409);
    let running = t.ada.ask(&thread, "@vibe two").await;
    gate.reached().await;
    t.ada
        .act(&format!("/v1/tasks/{running}/retry"))
        .await
        .refused(409);
    gate.open();
}

#[tokio::test]
async fn a_task_with_a_deleted_trigger_message_cannot_be_retried() {
    let t = team().await;
    let (_, task) = failed(&t).await;
    let trigger = text(&t.bo.task(&task).await, "/trigger_message_id");
    t.bo.delete(&format!("/v1/messages/{trigger}"))
        .await
        .is(200);
    t.bo.act(&format!("/v1/tasks/{task}/retry"))
        .await
        .refused(409);
}

#[tokio::test]
async fn a_retry_runs_the_agents_newest_version() {
    let t = team().await;
    let agent = id(&t.ada.make_agent("sage").await);
    t.model().script("sage", [Answer::status(400, "{}")]);
    let thread = t.ada.thread(&t.general, "Root").await;
    let task = t.ada.ask(&thread, "@sage hi").await;
    t.ada.failed(&task).await;
    let patch = json!({"instructions": "You are Changed, since now."});
    t.ada
        .patch(&format!("/v1/agents/{agent}"), patch)
        .await
        .is(200);
    let again = t.ada.act(&format!("/v1/tasks/{task}/retry")).await.is(201);
    assert_eq!(again["agent_version"], 2);
    t.ada.completed(&id(&again)).await;
    t.model().asked_once("changed").await;
}
