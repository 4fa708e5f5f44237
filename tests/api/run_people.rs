//! Steps of runs that wait for people, and branches that run at the same time.

use std::time::Duration;

use openvibe::{
    db::{Conn, now},
    ids::RunId,
    time::Timestamp,
};
use serde_json::{Value, json};

use crate::{
    runs::{flow, reaches, start, states},
    support::{Answer, Gate, Person, Team, drafting, id, list, team, text, within},
};

/// The action that a run waits for, as this person sees it.
async fn asked(by: &Person, run: &Value) -> Value {
    let steps = list(run, "/steps");
    let waiting = steps.iter().find(|step| step["state"] == "waiting");
    let action = text(waiting.unwrap_or_else(|| panic!("{run}")), "/action_id");
    by.get(&format!("/v1/actions/{action}")).await.ok()
}

async fn decide(by: &Person, action: &Value, what: &str) -> Value {
    let path = format!("/v1/actions/{}/{what}", id(action));
    let hash = json!({"arguments_hash": action["arguments_hash"]});
    by.post(&path, hash).await.is(200)
}

fn approval(otherwise: Value) -> Value {
    let mut ask = json!({"id": "ask", "kind": "approval", "title": "Release", "text": "Release {{input}}?", "who": "requester"});
    ask["else"] = otherwise;
    json!([
        ask,
        {"id": "yes", "kind": "output", "content": "Released: {{steps.ask.output}}"},
        {"id": "end_note", "kind": "output", "content": "The end: {{steps.ask.output}}"},
    ])
}

#[tokio::test]
async fn an_approval_waits_for_the_person_and_the_run_goes_on() {
    let t = team().await;
    let flow = flow(&t.bo, "release", approval(Value::Null)).await;
    let wish = json!({"input": "1.0", "channel_id": t.general});
    let run = start(&t.bo, &flow, wish).await;
    let waiting = reaches(&t.bo, &run, "waiting").await;
    assert_eq!(
        states(&waiting),
        ["ask waiting", "yes pending", "end_note pending"]
    );
    let action = asked(&t.bo, &waiting).await;
    assert_eq!(
        (&action["kind"], &action["title"], &action["arguments"]),
        (
            &json!("approval"),
            &json!("Release"),
            &json!({"text": "Release 1.0?"})
        )
    );
    let own = t.bo.get("/v1/waiting").await.ok();
    assert_eq!(list(&own, "/actions")[0]["id"], action["id"]);
    let path = format!("/v1/actions/{}/approve", id(&action));
    let hash = json!({"arguments_hash": action["arguments_hash"]});
    assert_eq!(
        t.ada.post(&path, hash).await.refused(403),
        "not_your_approval"
    );
    decide(&t.bo, &action, "approve").await;
    let done = reaches(&t.bo, &run, "completed").await;
    assert_eq!(
        t.bo.contents(&text(&done, "/thread_id")).await,
        [
            "Bo started release:\n\n1.0",
            "Released: approved",
            "The end: approved"
        ]
    );
    let action = format!("/v1/actions/{}", id(&action));
    assert_eq!(t.bo.get(&action).await.ok()["state"], "done");
}

#[tokio::test]
async fn a_denied_approval_jumps_or_cancels_the_run() {
    let t = team().await;
    for (otherwise, status, wanted) in [
        (
            json!("end_note"),
            "completed",
            ["ask completed", "yes skipped", "end_note completed"],
        ),
        (
            Value::Null,
            "cancelled",
            ["ask cancelled", "yes cancelled", "end_note cancelled"],
        ),
    ] {
        let name = format!("release-{status}");
        let flow = flow(&t.bo, &name, approval(otherwise)).await;
        let run = start(&t.bo, &flow, json!({"channel_id": t.general})).await;
        let waiting = reaches(&t.bo, &run, "waiting").await;
        decide(&t.bo, &asked(&t.bo, &waiting).await, "deny").await;
        assert_eq!(states(&reaches(&t.bo, &run, status).await), wanted);
    }
}

#[tokio::test]
async fn an_approval_can_expire_after_seconds() {
    let t = team().await;
    let mut steps = approval(json!("end_note"));
    steps[0]["timeout_s"] = json!(1);
    let flow = flow(&t.bo, "release", steps).await;
    let run = start(&t.bo, &flow, json!({"channel_id": t.general})).await;
    let done = reaches(&t.bo, &run, "completed").await;
    let wanted = ["ask completed", "yes skipped", "end_note completed"];
    assert_eq!(states(&done), wanted);
    assert_eq!(list(&done, "/steps")[0]["output"], "expired");
}

#[tokio::test]
async fn canceling_a_run_withdraws_its_question() {
    let t = team().await;
    let flow = flow(&t.bo, "release", approval(Value::Null)).await;
    let run = start(&t.bo, &flow, json!({"channel_id": t.general})).await;
    let waiting = reaches(&t.bo, &run, "waiting").await;
    let action = asked(&t.bo, &waiting).await;
    t.bo.act(&format!("/v1/runs/{run}/cancel")).await.is(200);
    let action = format!("/v1/actions/{}", id(&action));
    assert_eq!(t.bo.get(&action).await.ok()["state"], "cancelled");
}

#[tokio::test]
async fn a_deep_dive_completes_its_step_with_the_published_resolution() {
    let t = team().await;
    t.model().script("vibe", [Answer::text("Monday is best.")]);
    let vibe = id(&t.ada.agent("vibe").await);
    let steps = json!([
        {"id": "open", "kind": "output", "content": "Which day?"},
        {"id": "think", "kind": "fork", "title": "The day", "agent_ids": [vibe], "goal": "Find a day for {{input}}."},
        {"id": "tell", "kind": "output", "content": "Result: {{steps.think.output}}"},
    ]);
    let flow = flow(&t.bo, "day", steps).await;
    let wish = json!({"input": "the fair", "channel_id": t.general});
    let run = start(&t.bo, &flow, wish).await;
    let waiting = reaches(&t.bo, &run, "waiting").await;
    let fork = text(&waiting, "/steps/1/fork_id");
    let opened = t.bo.get(&format!("/v1/forks/{fork}")).await.ok();
    assert_eq!(opened["title"], "The day");
    let messages = format!("/v1/forks/{fork}/messages");
    t.bo.event_where("the agent's answer", |event| {
        event["data"]["task"]["fork_id"] == json!(fork)
            && event["data"]["task"]["status"] == "completed"
    })
    .await;
    let said: Vec<String> =
        t.bo.every(&messages)
            .await
            .iter()
            .map(|message| text(message, "/content"))
            .collect();
    assert_eq!(said, ["Find a day for the fair.", "Monday is best."]);
    t.ada
        .publish_as(&fork, json!({"headline": "The fair is on Monday"}))
        .await;
    let done = reaches(&t.bo, &run, "completed").await;
    let last = t.bo.contents(&text(&done, "/thread_id")).await.pop();
    assert!(
        last.as_ref().is_some_and(
            |last| last.starts_with("Result: ") && last.contains("The fair is on Monday")
        ),
        "{last:?}"
    );
}

#[tokio::test]
async fn an_abandoned_deep_dive_fails_its_step() {
    let t = team().await;
    let steps = json!([{"id": "think", "kind": "fork", "goal": "Find a day."}]);
    let flow = flow(&t.bo, "day", steps).await;
    let run = start(&t.bo, &flow, json!({"channel_id": t.general})).await;
    let waiting = reaches(&t.bo, &run, "waiting").await;
    let fork = text(&waiting, "/steps/0/fork_id");
    t.bo.act(&format!("/v1/forks/{fork}/abandon")).await.is(200);
    let failed = reaches(&t.bo, &run, "failed").await;
    assert_eq!(failed["steps"][0]["error"], "its deep dive was abandoned");
    t.bo.act(&format!("/v1/runs/{run}/resume")).await.is(200);
    let again = reaches(&t.bo, &run, "waiting").await;
    assert_ne!(again["steps"][0]["fork_id"], json!(fork), "a new one");
}

#[tokio::test]
async fn a_deep_dive_fails_its_step_if_nobody_ends_it_in_time() {
    let t = team().await;
    let steps = json!([{"id": "think", "kind": "fork", "goal": "Find a day.", "wait_s": 1}]);
    let flow = flow(&t.bo, "day", steps).await;
    let run = start(&t.bo, &flow, json!({"channel_id": t.general})).await;
    let failed = reaches(&t.bo, &run, "failed").await;
    let error = "nobody published a result in time";
    assert_eq!(failed["steps"][0]["error"], error);
}

/// The form of a workflow in which `coder` and `vibe` collaborate, with these additional fields in that step.
async fn pair(t: &Team, fields: Value) -> Value {
    let vibe = id(&t.ada.agent("vibe").await);
    let coder = id(&t.ada.agent("coder").await);
    let mut step = json!({"id": "think", "kind": "fork", "goal": "Find a day for {{input}}.", "agent_ids": [coder, vibe],
        "turns_max": 2});
    for (field, value) in fields.as_object().unwrap() {
        step[field] = value.clone();
    }
    let tell = json!({"id": "tell", "kind": "output", "content": "Result: {{steps.think.output}}"});
    json!({"name": "pair", "agents": [coder], "steps": [step, tell]})
}

/// Starts a run of `pair` in #general, with scripted answers for its agents.
async fn start_pair(t: &Team, fields: Value) -> String {
    t.model().script("coder", [Answer::text("Monday.")]);
    t.model().script("vibe", [Answer::text("Not Tuesday.")]);
    let result = json!({"headline": "A day for the fair", "conclusion": "Monday, not Tuesday.", "key_points": [], "action_items": [],
        "open_questions": [], "deferred_items": []});
    t.model().script("resolver", [drafting(&result)]);
    let made = t.bo.post("/v1/workflows", pair(t, fields).await).await;
    let flow = format!("/v1/workflows/{}", id(&made.is(201)));
    let wish = json!({"input": "the fair", "channel_id": t.general});
    start(&t.bo, &flow, wish).await
}

#[tokio::test]
async fn two_agents_collaborate_and_a_person_publishes_their_draft() {
    let t = team().await;
    let run = start_pair(&t, json!({})).await;
    let waiting = reaches(&t.bo, &run, "waiting").await;
    let fork = text(&waiting, "/steps/0/fork_id");
    assert_eq!(
        t.bo.contents_in(&fork).await,
        ["Find a day for the fair.", "Monday.", "Not Tuesday."]
    );
    let task = t.bo.task(&text(&waiting, "/steps/0/task_id")).await;
    assert_eq!(
        (&task["kind"], &task["status"], &task["parent_task_id"]),
        (
            &json!("collaborate"),
            &json!("completed"),
            &waiting["root_task_id"]
        )
    );
    t.bo.publish(&fork).await;
    let done = reaches(&t.bo, &run, "completed").await;
    let said = t.bo.contents(&text(&done, "/thread_id")).await;
    assert!(
        said.last().unwrap().contains("A day for the fair"),
        "{said:?}"
    );
}

#[tokio::test]
async fn agents_that_collaborate_can_publish_their_draft() {
    let t = team().await;
    let run = start_pair(&t, json!({"publish": "agent"})).await;
    let done = reaches(&t.bo, &run, "completed").await;
    assert_eq!(states(&done), ["think completed", "tell completed"]);
    assert!(text(&done, "/steps/0/output").contains("A day for the fair"));
    let fork = t.bo.fork(&text(&done, "/steps/0/fork_id")).await;
    assert_eq!(fork["collaboration"]["state"], "done");
}

#[tokio::test]
async fn a_collaboration_has_two_to_four_agents_and_two_to_eight_turns() {
    let t = team().await;
    let vibe = id(&t.ada.agent("vibe").await);
    for (fields, param) in [
        (json!({"agent_ids": [vibe, vibe]}), "agent_ids"),
        (json!({"agent_ids": [vibe]}), "turns_max"),
        (json!({"turns_max": 9}), "turns_max"),
    ] {
        let reply = t.bo.post("/v1/workflows", pair(&t, fields).await).await;
        assert_eq!(
            reply.json()["error"]["param"],
            json!(format!("steps[0].{param}"))
        );
        assert_eq!(reply.refused(422), "invalid_value");
    }
}

#[tokio::test]
async fn branches_run_together_and_a_failed_one_is_resumed_alone() {
    let t = team().await;
    let coder = id(&t.ada.agent("coder").await);
    let gate = Gate::new();
    t.model()
        .script("vibe", [Answer::text("From Vibe.").held(&gate)]);
    t.model().script("coder", [Answer::text("From Coder.")]);
    let steps = json!([
        {"id": "both", "kind": "parallel", "branches": [
            [{"id": "one", "kind": "agent", "prompt": "One"}],
            [{"id": "two", "kind": "agent", "agent_id": coder, "prompt": "Two"},
             {"id": "note", "kind": "output", "content": "Noted {{steps.two.output}}"}],
        ]},
        {"id": "post", "kind": "output", "content": "{{steps.one.output}} {{steps.two.output}}"},
    ]);
    let form = json!({"name": "both", "agents": [coder], "steps": steps});
    let made = t.bo.post("/v1/workflows", form).await.is(201);
    let flow = format!("/v1/workflows/{}", id(&made));
    let run = start(&t.bo, &flow, json!({"channel_id": t.general})).await;
    gate.reached().await;
    gate.open();
    let done = reaches(&t.bo, &run, "completed").await;
    assert_eq!(
        t.bo.contents(&text(&done, "/thread_id")).await,
        [
            "Bo started both.",
            "Noted From Coder.",
            "From Vibe. From Coder."
        ]
    );
    t.model()
        .script("vibe", [Answer::status(400, "{}"), Answer::text("Later.")]);
    t.model().script("coder", [Answer::text("Again.")]);
    let run = start(&t.bo, &flow, json!({"channel_id": t.general})).await;
    let failed = reaches(&t.bo, &run, "failed").await;
    assert_eq!(failed["steps"][0]["state"], "failed");
    t.bo.act(&format!("/v1/runs/{run}/resume")).await.is(200);
    let done = reaches(&t.bo, &run, "completed").await;
    assert_eq!(done["steps"][1]["output"], "Later.");
}

#[tokio::test]
async fn a_message_to_another_channel_needs_an_approval_outside_of_public_channels() {
    let t = team().await;
    let private = t.bo.private_channel("secret", &[]).await;
    let steps = json!([
        {"id": "here", "kind": "output", "content": "Here."},
        {"id": "there", "kind": "output", "content": "There.", "channel_id": t.general},
    ]);
    let flow = flow(&t.bo, "tell", steps).await;
    let run = start(&t.bo, &flow, json!({"channel_id": private})).await;
    let waiting = reaches(&t.bo, &run, "waiting").await;
    let action = asked(&t.bo, &waiting).await;
    assert_eq!(
        (&action["name"], &action["arguments"]["content"]),
        (&json!("post_elsewhere"), &json!("There."))
    );
    decide(&t.bo, &action, "approve").await;
    let done = reaches(&t.bo, &run, "completed").await;
    assert_eq!(done["steps"][1]["output"], "There.");
    let run = start(&t.bo, &flow, json!({"channel_id": private})).await;
    let waiting = reaches(&t.bo, &run, "waiting").await;
    decide(&t.bo, &asked(&t.bo, &waiting).await, "deny").await;
    reaches(&t.bo, &run, "failed").await;
    let random = t.ada.post("/v1/channels", json!({"name": "open"})).await;
    let random = id(&random.is(201));
    let run = start(&t.bo, &flow, json!({"channel_id": random})).await;
    reaches(&t.bo, &run, "completed").await;
}

#[tokio::test]
async fn the_trust_level_and_rules_decide_on_messages_to_other_channels() {
    let t = team().await;
    let policy = format!("/v1/workspaces/{}/policy", t.ada.workspace);
    let private = t.ada.private_channel("secret", &[&t.bo]).await;
    let steps =
        json!([{"id": "there", "kind": "output", "content": "There.", "channel_id": t.general}]);
    let flow = flow(&t.ada, "tell", steps).await;
    let set = async |patch: Value| {
        t.ada.patch(&policy, patch).await.is(200);
        start(&t.ada, &flow, json!({"channel_id": private})).await
    };
    for level in [0, 1] {
        let run = set(json!({"trust_level": level})).await;
        let failed = reaches(&t.ada, &run, "failed").await;
        let error = text(&failed, "/steps/0/error");
        assert!(error.contains("does not allow"), "{error}");
    }
    let run = set(json!({"trust_level": 3})).await;
    let done = reaches(&t.ada, &run, "completed").await;
    assert_eq!(done["steps"][0]["action_id"], Value::Null);
    assert_eq!(done["steps"][0]["output"], "There.");
    // A rule asks for an admin in addition, also at this level.
    let rules = json!([{"action": "post_elsewhere", "requires": "admin", "timeout_s": 60}]);
    let run = set(json!({"approval_rules": rules})).await;
    let waiting = reaches(&t.ada, &run, "waiting").await;
    let action = asked(&t.ada, &waiting).await;
    let needs: Vec<String> = list(&action, "/needs")
        .iter()
        .map(|need| text(need, "/who"))
        .collect();
    assert_eq!(needs, ["requester", "admin"]);
    // The level is checked again when the message is posted.
    t.ada
        .patch(&policy, json!({"trust_level": 1}))
        .await
        .is(200);
    decide(&t.ada, &action, "approve").await;
    reaches(&t.ada, &run, "failed").await;
}

#[tokio::test]
async fn a_message_to_another_channel_is_asked_for_in_a_thread_of_the_run() {
    let t = team().await;
    let private = t.bo.private_channel("secret", &[]).await;
    let steps = json!([{"id": "tell", "kind": "output", "title": "Tell all", "content": "There.", "channel_id": t.general}]);
    let flow = flow(&t.bo, "tell", steps).await;
    let nowhere = t.bo.post(&format!("{flow}/runs"), json!({})).await;
    assert_eq!(nowhere.json()["error"]["param"], "channel_id");
    assert_eq!(nowhere.refused(422), "invalid_value");
    let run = start(&t.bo, &flow, json!({"channel_id": private})).await;
    let waiting = reaches(&t.bo, &run, "waiting").await;
    let said = t.bo.contents(&text(&waiting, "/thread_id")).await;
    assert_eq!(said, ["Bo started tell."]);
    decide(&t.bo, &asked(&t.bo, &waiting).await, "approve").await;
    let done = reaches(&t.bo, &run, "completed").await;
    assert_eq!(done["steps"][0]["output"], "There.");
}

#[tokio::test]
async fn an_approval_fails_if_nobody_who_can_decide_reads_the_channel() {
    let t = team().await;
    let cy = t.app.join(&t.ada, "Cy", "member").await;
    let dee = t.app.join(&t.ada, "Dee", "viewer").await;
    let private = t.bo.private_channel("secret", &[]).await;
    let step = |who: &str, user: Value| {
        let (kind, text) = ("approval", "Go on?");
        json!({"id": "ask", "kind": kind, "text": text, "who": who, "user_id": user})
    };
    let viewer = json!({"name": "viewer", "steps": [step("user", json!(dee.id))]});
    let refused = t.bo.post("/v1/workflows", viewer).await;
    assert_eq!(refused.json()["error"]["param"], "steps[0].user_id");
    assert_eq!(refused.refused(422), "invalid_value");
    for (name, step) in [
        ("of-cy", step("user", json!(cy.id))),
        ("of-admins", step("admin", Value::Null)),
    ] {
        let flow = flow(&t.bo, name, json!([step])).await;
        let run = start(&t.bo, &flow, json!({"channel_id": private})).await;
        let failed = reaches(&t.bo, &run, "failed").await;
        let error = "none of the possible approvers can read the run's channel";
        assert_eq!(failed["steps"][0]["error"], error);
        let run = start(&t.bo, &flow, json!({"channel_id": t.general})).await;
        reaches(&t.bo, &run, "waiting").await;
    }
}

/// Makes a run check its waiting step, as if the step had begun five minutes ago. Returns the time of the next check.
async fn looked(t: &Team, run: &str) -> Timestamp {
    let id: RunId = run.parse().unwrap();
    let due = now();
    let set = async move |c: &mut Conn| {
        c.q("update run_steps set started_at = $2, due_at = $3 where run_id = $1 and state = 'waiting'")
            .bind(id)
            .bind(due - Duration::from_secs(301))
            .bind(due)
            .run()
            .await
    };
    t.app.db().write(id.0, set).await.unwrap();
    within("the run to look at its step", async {
        loop {
            let mut c = t.app.db().read().await.unwrap();
            let next: Timestamp = c
                .q("select due_at from run_steps where run_id = $1")
                .bind(id)
                .value()
                .await
                .unwrap();
            if next > now() {
                return next;
            }
            drop(c);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await
}

#[tokio::test]
async fn a_draft_of_a_person_does_not_keep_a_deep_dive_from_closing() {
    let t = team().await;
    let gate = Gate::new();
    let result = json!({"headline": "A day", "conclusion": "We need a day.", "key_points": [], "action_items": [],
        "open_questions": [], "deferred_items": []});
    t.model()
        .script("resolver", [drafting(&result).held(&gate)]);
    let steps = json!([{"id": "think", "kind": "fork", "goal": "Find a day.", "close_after_s": 300, "publish": "agent"}]);
    let flow = flow(&t.bo, "day", steps).await;
    let run = start(&t.bo, &flow, json!({"channel_id": t.general})).await;
    let waiting = reaches(&t.bo, &run, "waiting").await;
    let fork = text(&waiting, "/steps/0/fork_id");
    let said = json!({"content": "Monday suits everyone."});
    let path = format!("/v1/forks/{fork}/messages");
    t.bo.post(&path, said).await.is(201);
    let draft = t.bo.resolve(&fork).await;
    gate.reached().await;
    let next = looked(&t, &run).await;
    assert!(
        next <= now() + Duration::from_mins(1),
        "it looks again soon"
    );
    gate.open();
    t.bo.completed(&draft).await;
}
