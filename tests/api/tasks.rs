//! A mention creates a task, and the task creates a reply.

use serde_json::{Value, json};

use crate::support::{Answer, Gate, id, list, number, team, text, units};

fn kinds(events: &[Value]) -> Vec<String> {
    let status = |event: &Value| {
        event["data"]["task"]["status"]
            .as_str()
            .map(|s| format!(" {s}"))
            .unwrap_or_default()
    };
    events
        .iter()
        .map(|event| text(event, "/type") + &status(event))
        .collect()
}

#[tokio::test]
async fn a_mentioned_agent_replies_in_the_same_thread() {
    let t = team().await;
    t.model()
        .script("vibe", [Answer::pieces(&["Mon", "day", "."])]);
    let thread = t.ada.thread(&t.general, "Friday or Monday?").await;
    let task = t.ada.ask(&thread, "@vibe decide, please").await;
    let done = t.ada.completed(&task).await;
    assert_eq!(
        t.bo.contents(&thread).await,
        ["Friday or Monday?", "@vibe decide, please", "Monday."]
    );
    let reply = t.bo.message(&text(&done, "/output/message_id")).await;
    let vibe = t.ada.agent("vibe").await;
    assert_eq!(reply["author"]["type"], "agent");
    assert_eq!(reply["author"]["id"], vibe["id"]);
    assert_eq!(reply["author"]["name"], "Vibe");
    assert_eq!(reply["state"], "complete");
    assert_eq!(reply["kind"], "text");
    assert_eq!(reply["parent_id"], done["trigger_message_id"]);
    assert_eq!(reply["metadata"]["agent_id"], vibe["id"]);
    assert_eq!(reply["metadata"]["agent_version"], 1);
    assert_eq!(reply["metadata"]["task_id"], task.as_str());
}

#[tokio::test]
async fn the_events_of_a_reply_follow_the_documented_order() {
    let t = team().await;
    t.model()
        .script("vibe", [Answer::pieces(&["One ", "two."])]);
    let thread = t.ada.thread(&t.general, "Hello").await;
    let mut socket = t.bo.socket().await;
    socket.subscribe(&thread).await;
    let posted = t.ada.say(&thread, "@vibe count").await;
    let task = text(&posted, "/tasks/0/id");
    let frames = socket
        .through("the task to complete", |frame| {
            frame["data"]["task"]["status"] == "completed"
        })
        .await;
    let durable: Vec<Value> = frames
        .iter()
        .filter(|f| f["seq"].is_i64() && f["data"].is_object())
        .cloned()
        .collect();
    assert_eq!(
        kinds(&durable),
        [
            "message.created",
            "task.status_changed queued",
            "task.status_changed running",
            "message.created",
            "message.updated",
            "task.status_changed completed",
        ]
    );
    let numbers: Vec<i64> = durable.iter().map(|event| number(event, "/seq")).collect();
    assert!(
        numbers.windows(2).all(|pair| pair[1] == pair[0] + 1),
        "{numbers:?}"
    );
    for event in &durable {
        assert_eq!(event["channel_id"], t.general.as_str());
        assert_eq!(event["thread_id"], thread.as_str());
        assert!(event["fork_id"].is_null());
    }
    assert_eq!(durable[0]["data"]["message"], posted["message"]);
    assert_eq!(durable[1]["data"]["task"], posted["tasks"][0]);
    let begun = &durable[3]["data"]["message"];
    assert_eq!(begun["state"], "streaming");
    assert_eq!(begun["seq"], durable[3]["seq"]);
    let deltas: Vec<&Value> = frames
        .iter()
        .filter(|f| f["type"] == "task.delta")
        .collect();
    let whole: String = deltas.iter().map(|delta| text(delta, "/text")).collect();
    assert!(
        whole.starts_with("One ") && "One two.".starts_with(&whole),
        "{whole}"
    );
    assert!(
        deltas
            .iter()
            .all(|d| d["task_id"] == task.as_str() && d["message_id"] == begun["id"])
    );
    assert_eq!(durable[4]["data"]["message"]["content"], "One two.");
    assert_eq!(durable[4]["data"]["message"]["state"], "complete");
}

#[tokio::test]
async fn a_completed_task_reports_its_usage_and_duration() {
    let t = team().await;
    t.model().script(
        "vibe",
        [Answer::stream()
            .piece("Grüße 👋")
            .finish("stop")
            .usage(120, 9)
            .done()],
    );
    let thread = t.ada.thread(&t.general, "Hello").await;
    let posted = t.ada.say(&thread, "@vibe say hello, @Vibe").await;
    let queued = posted["tasks"][0].clone();
    assert_eq!(
        list(&posted, "/tasks").len(),
        1,
        "mentioning an agent twice creates one task"
    );
    assert_eq!(queued["status"], "queued");
    assert_eq!(queued["kind"], "reply");
    assert_eq!(queued["attempt"], 1);
    assert_eq!(queued["requested_by"], t.ada.id.as_str());
    assert_eq!(queued["trigger_message_id"], posted["message"]["id"]);
    assert_eq!(queued["thread_id"], thread.as_str());
    for empty in [
        "fork_id",
        "retry_of",
        "retry_at",
        "wait_reason",
        "output",
        "token_usage",
        "error",
        "started_at",
        "completed_at",
    ] {
        assert!(
            queued.get(empty).is_some_and(Value::is_null),
            "{empty} of {queued}"
        );
    }
    let done = t.ada.completed(&id(&queued)).await;
    assert_eq!(done, t.bo.task(&id(&queued)).await);
    assert_eq!(done["output"]["response_length"], units("Grüße 👋"));
    assert_eq!(done["output"]["message_id"], done["reply_message_id"]);
    assert_eq!(done["token_usage"]["input_tokens"], 120);
    assert_eq!(done["token_usage"]["output_tokens"], 9);
    assert_eq!(done["token_usage"]["model"], "claude-sonnet-4-5");
    assert_eq!(done["token_usage"]["estimated"], false);
    assert!(done["started_at"].is_string() && done["completed_at"].is_string());
    assert!(done["error"].is_null());
}

#[tokio::test]
async fn the_prompt_of_a_task_is_the_message_without_the_mention() {
    let t = team().await;
    let thread = t.ada.thread(&t.general, "Hello").await;
    let posted = t.ada.say(&thread, "@vibe what speaks for Monday?").await;
    assert_eq!(
        posted["tasks"][0]["input"]["prompt"],
        "what speaks for Monday?"
    );
}

#[tokio::test]
async fn usage_is_estimated_if_the_model_reports_none() {
    let t = team().await;
    t.model().script(
        "vibe",
        [Answer::stream().piece("Twelve chars").finish("stop").done()],
    );
    let thread = t.ada.thread(&t.general, "Hello").await;
    let task = t.ada.ask(&thread, "@vibe hi").await;
    let usage = t.ada.completed(&task).await["token_usage"].clone();
    assert_eq!(usage["estimated"], true);
    assert_eq!(usage["output_tokens"], 3);
    assert!(number(&usage, "/input_tokens") > 0);
}

#[tokio::test]
async fn posting_never_waits_for_the_model() {
    let t = team().await;
    let gate = Gate::new();
    t.model()
        .script("vibe", [Answer::text("Late.").held(&gate)]);
    let thread = t.ada.thread(&t.general, "Hello").await;
    let task = t.ada.ask(&thread, "@vibe take your time").await;
    gate.reached().await;
    t.bo.say(&thread, "Meanwhile").await;
    assert_eq!(t.ada.task(&task).await["status"], "running");
    assert_eq!(
        t.ada.contents(&thread).await,
        ["Hello", "@vibe take your time", "Meanwhile"],
        "a reply without text is not a message"
    );
    gate.open();
    t.ada.completed(&task).await;
}

#[tokio::test]
async fn two_agents_in_one_message_run_two_tasks_and_do_not_see_each_others_replies() {
    let t = team().await;
    let thread = t.ada.thread(&t.general, "Hello").await;
    let gate = Gate::new();
    t.model().script("vibe", [Answer::text("VIBE-SAYS")]);
    t.model()
        .script("coder", [Answer::text("CODER-SAYS").held(&gate)]);
    let posted = t.ada.say(&thread, "@coder and @vibe, what now?").await;
    let tasks = list(&posted, "/tasks");
    assert_eq!(tasks.len(), 2);
    assert_eq!(
        tasks[0]["agent_id"],
        t.ada.agent("coder").await["id"],
        "in the order of the mentions"
    );
    assert_eq!(tasks[1]["agent_id"], t.ada.agent("vibe").await["id"]);
    t.ada.completed(&id(&tasks[1])).await;
    gate.open();
    t.ada.completed(&id(&tasks[0])).await;
    assert!(
        !t.model()
            .asked_once("coder")
            .await
            .all()
            .contains("VIBE-SAYS")
    );
    assert!(
        !t.model()
            .asked_once("vibe")
            .await
            .all()
            .contains("CODER-SAYS")
    );
    assert_eq!(t.ada.messages(&thread).await.len(), 4);
}

#[tokio::test]
async fn an_agent_that_writes_a_mention_invokes_nobody() {
    let t = team().await;
    t.model()
        .script("vibe", [Answer::text("@coder, please look, and @Bo too")]);
    let thread = t.ada.thread(&t.general, "Hello").await;
    let task = t.ada.ask(&thread, "@vibe who can help?").await;
    let done = t.ada.completed(&task).await;
    let reply = t.ada.message(&text(&done, "/output/message_id")).await;
    assert_eq!(reply["content"], "@coder, please look, and @Bo too");
    let tasks = t.ada.get("/v1/tasks").await.ok();
    assert_eq!(list(&tasks, "/data").len(), 1);
}

#[tokio::test]
async fn mentions_of_unknown_and_inactive_agents_are_plain_text() {
    let t = team().await;
    let thread = t.ada.thread(&t.general, "Hello").await;
    let posted = t
        .ada
        .say(&thread, "@nobody and @researcher, are you there?")
        .await;
    assert_eq!(posted["tasks"], json!([]));
    assert_eq!(posted["message"]["mentions"], json!([]));
}

#[tokio::test]
async fn eight_agents_in_a_message_are_invoked_and_nine_are_rejected() {
    let t = team().await;
    let names: Vec<String> = (1..=9).map(|n| format!("helper{n}")).collect();
    for name in &names {
        t.ada.make_agent(name).await;
    }
    let mention = |names: &[String]| {
        names
            .iter()
            .map(|n| format!("@{n}"))
            .collect::<Vec<_>>()
            .join(" ")
    };
    let thread = t.ada.thread(&t.general, "Hello").await;
    let path = format!("/v1/threads/{thread}/messages");
    assert_eq!(
        t.ada
            .post(&path, json!({"content": mention(&names)}))
            .await
            .refused(422),
        "too_many_agents"
    );
    assert_eq!(t.ada.contents(&thread).await, ["Hello"]);
    let posted = t.ada.say(&thread, &mention(&names[..8])).await;
    assert_eq!(list(&posted, "/tasks").len(), 8);
}

#[tokio::test]
async fn an_edit_invokes_nobody_again() {
    let t = team().await;
    let thread = t.ada.thread(&t.general, "Hello").await;
    let message = t.ada.tell(&thread, "nothing yet").await;
    t.ada
        .patch(
            &format!("/v1/messages/{message}"),
            json!({"content": "@vibe now?"}),
        )
        .await
        .is(200);
    assert_eq!(t.ada.get("/v1/tasks").await.ok()["data"], json!([]));
}

#[tokio::test]
async fn an_agent_replies_to_messages_of_a_conversation_one_at_a_time() {
    let t = team().await;
    let (first, second) = (Gate::new(), Gate::new());
    t.model().script(
        "vibe",
        [
            Answer::text("First.").held(&first),
            Answer::text("Second.").held(&second),
        ],
    );
    let thread = t.ada.thread(&t.general, "Hello").await;
    let one = t.ada.ask(&thread, "@vibe one").await;
    first.reached().await;
    let two = t.bo.ask(&thread, "@vibe two").await;
    assert_eq!(t.ada.task(&two).await["status"], "queued");
    assert_eq!(t.model().requests().len(), 1);
    first.open();
    second.reached().await;
    assert_eq!(t.ada.task(&one).await["status"], "completed");
    second.open();
    t.ada.completed(&two).await;
    assert_eq!(
        t.ada.contents(&thread).await,
        ["Hello", "@vibe one", "@vibe two", "First.", "Second."]
    );
}

#[tokio::test]
async fn an_agent_replies_in_two_conversations_concurrently() {
    let t = team().await;
    let (first, second) = (Gate::new(), Gate::new());
    t.model().script(
        "vibe",
        [
            Answer::text("First.").held(&first),
            Answer::text("Second.").held(&second),
        ],
    );
    let here = text(&t.ada.start(&t.general, "@vibe one").await, "/tasks/0/id");
    let there = text(&t.ada.start(&t.general, "@vibe two").await, "/tasks/0/id");
    first.reached().await;
    second.reached().await;
    second.open();
    first.open();
    t.ada.completed(&here).await;
    t.ada.completed(&there).await;
}

#[tokio::test]
async fn an_agent_replies_to_every_message_in_its_direct_channel() {
    let t = team().await;
    t.model()
        .script("vibe", [Answer::text("One."), Answer::text("Two.")]);
    let vibe = id(&t.ada.agent("vibe").await);
    let direct = t
        .ada
        .post("/v1/direct", json!({"agent_id": vibe}))
        .await
        .is(201);
    assert_eq!(direct["kind"], "direct");
    assert_eq!(direct["agent_id"], vibe.as_str());
    let started = t.ada.start(&id(&direct), "No mention here").await;
    let thread = text(&started, "/thread/id");
    t.ada.completed(&text(&started, "/tasks/0/id")).await;
    let again = t.ada.ask(&thread, "And again").await;
    t.ada.completed(&again).await;
    assert_eq!(
        t.ada.contents(&thread).await,
        ["No mention here", "One.", "And again", "Two."]
    );
}

#[tokio::test]
async fn a_mention_of_another_agent_in_a_direct_channel_invokes_only_that_one() {
    let t = team().await;
    let vibe = id(&t.ada.agent("vibe").await);
    let direct = id(&t
        .ada
        .post("/v1/direct", json!({"agent_id": vibe}))
        .await
        .is(201));
    let started = t.ada.start(&direct, "@coder, and you?").await;
    assert_eq!(list(&started, "/tasks").len(), 1);
    assert_eq!(
        started["tasks"][0]["agent_id"],
        t.ada.agent("coder").await["id"]
    );
}

#[tokio::test]
async fn a_thread_that_is_bound_to_an_agent_needs_no_mention() {
    let t = team().await;
    let coder = id(&t.ada.agent("coder").await);
    let path = format!("/v1/channels/{}/threads", t.general);
    let started = t
        .ada
        .post(
            &path,
            json!({"content": "Why does it fail?", "agent_id": coder}),
        )
        .await
        .is(201);
    assert_eq!(started["thread"]["agent_id"], coder.as_str());
    assert_eq!(started["tasks"][0]["agent_id"], coder.as_str());
    let thread = text(&started, "/thread/id");
    let next = t.bo.ask(&thread, "And here?").await;
    assert_eq!(t.ada.completed(&next).await["agent_id"], coder.as_str());
    t.ada
        .patch(
            &format!("/v1/threads/{thread}"),
            json!({"auto_reply": false}),
        )
        .await
        .is(200);
    assert_eq!(t.bo.say(&thread, "Just a remark").await["tasks"], json!([]));
    assert_eq!(
        list(&t.bo.say(&thread, "@coder yes?").await, "/tasks").len(),
        1
    );
}

#[tokio::test]
async fn a_thread_can_be_bound_and_unbound_later() {
    let t = team().await;
    let vibe = id(&t.ada.agent("vibe").await);
    let thread = t.ada.thread(&t.general, "Hello").await;
    let path = format!("/v1/threads/{thread}");
    assert_eq!(
        t.ada.patch(&path, json!({"agent_id": vibe})).await.is(200)["agent_id"],
        vibe.as_str()
    );
    let task = t.ada.ask(&thread, "Are you there?").await;
    t.ada.completed(&task).await;
    assert!(t.ada.patch(&path, json!({"agent_id": null})).await.is(200)["agent_id"].is_null());
    assert_eq!(t.ada.say(&thread, "And now?").await["tasks"], json!([]));
}

#[tokio::test]
async fn a_task_runs_with_the_configuration_it_was_created_with() {
    let t = team().await;
    let agent = t.ada.make_agent("sage").await;
    let gate = Gate::new();
    t.model().script(
        "sage",
        [Answer::text("First.").held(&gate), Answer::text("Second.")],
    );
    let thread = t.ada.thread(&t.general, "Hello").await;
    let running = t.ada.ask(&thread, "@sage one").await;
    gate.reached().await;
    let waiting = t.ada.ask(&thread, "@sage two").await;
    let path = format!("/v1/agents/{}", id(&agent));
    let patch = json!({"instructions": "You are Changed, since now."});
    assert_eq!(t.ada.patch(&path, patch).await.is(200)["version"], 2);
    gate.open();
    for task in [&running, &waiting] {
        let done = t.ada.completed(task).await;
        assert_eq!(done["agent_version"], 1);
        let reply = t.ada.message(&text(&done, "/output/message_id")).await;
        assert_eq!(reply["metadata"]["agent_version"], 1);
    }
    let after = t.ada.ask(&thread, "@sage three").await;
    assert_eq!(t.ada.completed(&after).await["agent_version"], 2);
    t.model().asked_once("changed").await;
}

#[tokio::test]
async fn a_bound_conversation_keeps_its_agent_version() {
    let t = team().await;
    let agent = id(&t.ada.make_agent("sage").await);
    let path = format!("/v1/channels/{}/threads", t.general);
    let started = t
        .ada
        .post(&path, json!({"content": "Hello", "agent_id": agent}))
        .await
        .is(201);
    assert_eq!(started["thread"]["agent_version"], 1);
    let thread = text(&started, "/thread/id");
    let patch = json!({"instructions": "You are Changed, since now."});
    t.ada
        .patch(&format!("/v1/agents/{agent}"), patch)
        .await
        .is(200);
    assert_eq!(
        t.ada.say(&thread, "Still there?").await["tasks"][0]["agent_version"],
        1
    );
    t.ada
        .patch(&format!("/v1/threads/{thread}"), json!({"agent_id": agent}))
        .await
        .is(200);
    assert_eq!(
        t.ada.say(&thread, "Moved on?").await["tasks"][0]["agent_version"],
        2
    );
}

#[tokio::test]
async fn a_task_continues_after_its_requester_leaves() {
    let t = team().await;
    let gate = Gate::new();
    t.model()
        .script("vibe", [Answer::text("Here it is.").held(&gate)]);
    let thread = t.ada.thread(&t.general, "Hello").await;
    let task = t.bo.ask(&thread, "@vibe look").await;
    gate.reached().await;
    t.ada
        .delete(&format!("/v1/members/{}", t.bo.id))
        .await
        .is(204);
    gate.open();
    t.ada.completed(&task).await;
    assert_eq!(t.ada.contents(&thread).await.last().unwrap(), "Here it is.");
}

#[tokio::test]
async fn tasks_are_listed_by_status_thread_and_agent() {
    let t = team().await;
    let here = t.ada.thread(&t.general, "Here").await;
    let there = t.ada.thread(&t.general, "There").await;
    let one = t.ada.ask(&here, "@vibe one").await;
    let two = t.ada.ask(&there, "@coder two").await;
    t.ada.completed(&one).await;
    t.ada.completed(&two).await;
    let found = async |query: &str| -> Vec<String> {
        let page = t.bo.get(&format!("/v1/tasks?{query}")).await.ok();
        list(&page, "/data").iter().map(id).collect()
    };
    assert_eq!(found("").await, [one.as_str(), two.as_str()]);
    assert_eq!(found(&format!("thread_id={there}")).await, [two.as_str()]);
    let vibe = id(&t.ada.agent("vibe").await);
    assert_eq!(found(&format!("agent_id={vibe}")).await, [one.as_str()]);
    assert_eq!(found("status=completed&limit=1").await, [one.as_str()]);
    assert_eq!(found(&format!("after={one}")).await, [two.as_str()]);
    assert_eq!(found(&format!("before={two}")).await, [one]);
    assert!(found("status=queued").await.is_empty());
    assert_eq!(
        t.bo.get("/v1/tasks?status=done").await.refused(400),
        "invalid_status"
    );
}

#[tokio::test]
async fn a_task_of_a_private_channel_is_hidden_from_nonmembers() {
    let t = team().await;
    let channel = t.ada.private_channel("secret", &[]).await;
    let started = t.ada.start(&channel, "@vibe between us").await;
    let task = text(&started, "/tasks/0/id");
    t.ada.completed(&task).await;
    for path in ["", "/context"] {
        assert_eq!(
            t.bo.get(&format!("/v1/tasks/{task}{path}"))
                .await
                .refused(404),
            "task_not_found"
        );
    }
    for action in ["cancel", "retry"] {
        t.bo.act(&format!("/v1/tasks/{task}/{action}"))
            .await
            .refused(404);
    }
    assert_eq!(t.bo.get("/v1/tasks").await.ok()["data"], json!([]));
    let thread = text(&started, "/thread/id");
    t.bo.get(&format!("/v1/tasks?thread_id={thread}"))
        .await
        .refused(404);
}

#[tokio::test]
async fn a_label_echoed_by_the_model_is_removed() {
    let t = team().await;
    t.model().script(
        "vibe",
        [Answer::pieces(&["[Vi", "be (AI)]", ": Mon", "day."])],
    );
    let thread = t.ada.thread(&t.general, "Hello").await;
    let task = t.ada.ask(&thread, "@vibe day?").await;
    t.ada.completed(&task).await;
    assert_eq!(t.ada.contents(&thread).await.last().unwrap(), "Monday.");
}

#[tokio::test]
async fn a_reply_truncated_by_the_models_limit_is_complete_and_marked() {
    let t = team().await;
    t.model().script(
        "vibe",
        [Answer::stream()
            .piece("Half of")
            .finish("length")
            .usage(5, 2)
            .done()],
    );
    let thread = t.ada.thread(&t.general, "Hello").await;
    let task = t.ada.ask(&thread, "@vibe long").await;
    let done = t.ada.completed(&task).await;
    let reply = t.ada.message(&text(&done, "/output/message_id")).await;
    assert_eq!(reply["state"], "complete");
    assert_eq!(reply["metadata"]["truncated"], true);
}

#[tokio::test]
async fn the_api_key_is_sent_to_the_model_and_never_shown() {
    let t = team().await;
    t.model().script(
        "vibe",
        [Answer::status(401, r#"{"detail":"bad key sk-test-key"}"#)],
    );
    let thread = t.ada.thread(&t.general, "Hello").await;
    let task = t.ada.ask(&thread, "@vibe hi").await;
    let (failed, _) = t.ada.failed(&task).await;
    let request = t.model().asked_once("vibe").await;
    assert_eq!(request.authorization.as_deref(), Some("Bearer sk-test-key"));
    let shown = format!(
        "{failed}{}{:?}",
        t.ada.task_context(&task).await,
        t.ada.contents(&thread).await
    );
    assert!(!shown.contains("sk-test-key"), "{shown}");
}

#[tokio::test]
async fn the_model_receives_the_agents_settings_and_no_nulls() {
    let t = team().await;
    let agent = t.ada.make_agent("sage").await;
    let patch = json!({"temperature": 0.5, "max_output_tokens": 321});
    t.ada
        .patch(&format!("/v1/agents/{}", id(&agent)), patch)
        .await
        .is(200);
    let thread = t.ada.thread(&t.general, "Hello").await;
    let task = t.ada.ask(&thread, "@sage hi").await;
    t.ada.completed(&task).await;
    let body = t.model().asked_once("sage").await.body;
    assert_eq!(body["stream"], true);
    assert_eq!(body["stream_options"]["include_usage"], true);
    assert_eq!(body["temperature"], 0.5);
    assert!(
        body["max_tokens"] == 321 || body["max_completion_tokens"] == 321,
        "{body}"
    );
    assert!(
        body.as_object()
            .unwrap()
            .values()
            .all(|value| !value.is_null()),
        "{body}"
    );
}

#[tokio::test]
async fn a_missing_model_is_replaced_and_the_task_reports_it() {
    let t = team().await;
    t.model().offer(&["local-7b"]);
    let thread = t.ada.thread(&t.general, "Hello").await;
    let task = t.ada.ask(&thread, "@vibe hi").await;
    let done = t.ada.completed(&task).await;
    assert_eq!(done["token_usage"]["model"], "local-7b");
    assert_eq!(t.model().asked_once("vibe").await.body["model"], "local-7b");
    assert_eq!(t.ada.task_context(&task).await["model"], "local-7b");
}

#[tokio::test]
async fn without_a_model_the_built_in_responder_replies_and_identifies_itself() {
    let t = crate::support::team_with(&[("MODEL_BASE_URL", "")]).await;
    let thread = t
        .ada
        .thread(&t.general, "The fair opens on Friday at ten.")
        .await;
    let task = t.ada.ask(&thread, "@vibe when does the fair open?").await;
    let done = t.ada.completed(&task).await;
    let reply = text(
        &t.ada.message(&text(&done, "/output/message_id")).await,
        "/content",
    );
    assert!(reply.contains("Friday"), "{reply}");
    let lower = reply.to_lowercase();
    assert!(
        lower.contains("built-in") || lower.contains("offline") || lower.contains("no model"),
        "{reply}"
    );
    assert!(t.model().requests().is_empty());
}

#[tokio::test]
async fn an_agents_tasks_are_listed_in_pages_newest_first() {
    let t = team().await;
    t.model()
        .script("vibe", (0..5).map(|n| Answer::text(&format!("Reply {n}."))));
    t.model().script("coder", [Answer::text("Other.")]);
    let thread = t.ada.thread(&t.general, "Root").await;
    let mut tasks = Vec::new();
    for n in 0..5 {
        let task = t.ada.ask(&thread, &format!("@vibe {n}")).await;
        t.ada.completed(&task).await;
        tasks.push(task);
    }
    let other = t.ada.ask(&thread, "@coder and you").await;
    t.ada.completed(&other).await;
    let vibe = id(&t.ada.agent("vibe").await);
    for filter in [
        format!("agent_id={vibe}"),
        format!("agent_id={vibe}&thread_id={thread}"),
    ] {
        let (mut seen, mut cursor) = (Vec::new(), String::new());
        loop {
            let path = format!("/v1/tasks?order=newest&{filter}&limit=2&cursor={cursor}");
            let page = t.ada.get(&path).await.ok();
            seen.extend(list(&page, "/data").iter().map(id));
            assert_eq!(page["has_more"], page["next_cursor"].is_string());
            match page["next_cursor"].as_str() {
                Some(next) => next.clone_into(&mut cursor),
                None => break,
            }
        }
        let expected: Vec<String> = tasks.iter().rev().cloned().collect();
        assert_eq!(seen, expected, "{filter}");
    }
    let newest = t.ada.get("/v1/tasks?order=newest&limit=1").await.ok();
    assert_eq!(newest["data"][0]["id"], other.as_str());
    let cursor = text(&newest, "/next_cursor");
    for (query, code) in [
        ("order=best".to_owned(), "invalid_order"),
        ("order=newest&cursor=x".to_owned(), "invalid_cursor"),
        (format!("order=newest&before={other}"), "invalid_cursor"),
        (format!("cursor={cursor}"), "invalid_cursor"),
    ] {
        let reply = t.ada.get(&format!("/v1/tasks?{query}")).await;
        assert_eq!(reply.refused(400), code, "{query}");
    }
}
