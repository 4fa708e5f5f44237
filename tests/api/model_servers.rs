//! Model servers other than those of the large vendors: started late, with small windows, without a model list, or with a single
//! slot.

use serde_json::{Value, json};

use crate::compaction::segment;
use crate::support::{Answer, Gate, ModelServer, Reply, Team, list, number, team, team_with, text};

/// Estimated tokens of a request, as the server counts Latin text.
fn tokens(body: &Value) -> u64 {
    let messages = body["messages"].as_array().unwrap().iter();
    let chars = messages.map(|m| m["content"].as_str().unwrap().chars().count() as u64);
    chars.map(|chars| chars.div_ceil(4)).sum()
}

async fn notice_of(t: &Team, task: &str) -> String {
    let (failed, code) = t.ada.failed(task).await;
    assert_eq!(code, "context_too_large");
    text(&failed, "/error/message")
}

#[tokio::test]
async fn a_server_without_the_agents_model_is_asked_for_its_models_at_once() {
    let t = team().await;
    t.model().offer(&[]);
    assert_eq!(
        t.ada.agent("vibe").await["effective_model"],
        "claude-sonnet-4-5"
    );
    t.model().offer(&["local"]);
    let missing = r#"{"error":{"message":"model `claude-sonnet-4-5` not found","code":404}}"#;
    t.model().script(
        "vibe",
        [Answer::status(404, missing), Answer::text("Here I am.")],
    );
    let thread = t.ada.thread(&t.general, "Root").await;
    let task = t.ada.ask(&thread, "@vibe hi").await;
    let done = t.ada.completed(&task).await;
    assert_eq!(
        (&done["attempt"], &done["error"]),
        (&json!(2), &Value::Null)
    );
    assert_eq!(done["token_usage"]["model"], "local");
    let asked = t.model().asked("vibe", 2).await;
    assert_eq!(asked[0].body["model"], "claude-sonnet-4-5");
    assert_eq!(asked[1].body["model"], "local");
    assert_eq!(t.ada.task_context(&task).await["model"], "local");
}

#[tokio::test]
async fn a_question_right_after_the_start_of_a_late_server_waits_for_nothing() {
    // A port without a listener refuses connections.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let url = format!("http://{}/v1", socket.local_addr().unwrap());
    let t = team_with(&[("MODEL_BASE_URL", &url), ("RETRY_DELAYS", "1h,1h,1h")]).await;
    let early = t.ada.thread(&t.general, "Before").await;
    let early = t.ada.ask(&early, "@vibe hi").await;
    t.ada
        .event_where("the question to wait for its retry", |event| {
            let task = &event["data"]["task"];
            task["id"] == early.as_str() && task["wait_reason"] == "unavailable"
        })
        .await;
    let listener = socket.listen(64).unwrap().into_std().unwrap();
    let _server = ModelServer::on(listener);
    let thread = t.ada.thread(&t.general, "After").await;
    let task = t.ada.ask(&thread, "@vibe hi").await;
    let done = t.ada.completed(&task).await;
    assert_eq!(done["error"], Value::Null);
    assert_eq!(t.ada.task(&early).await["status"], "queued");
}

#[tokio::test]
async fn a_model_with_a_small_window_continues_after_long_replies() {
    let t = team_with(&[("MODEL", "house"), ("CONTEXT_WINDOW", "2048")]).await;
    let thread = t.ada.thread(&t.general, "Root").await;
    t.model().script(
        "vibe",
        [Answer::text("Hello."), Answer::text(&"word ".repeat(1_950))],
    );
    for n in 0..14 {
        let task = t.ada.ask(&thread, &format!("@vibe hello {n}")).await;
        t.ada.completed(&task).await;
        let seen = t.ada.task_context(&task).await;
        assert_eq!(seen["window_source"], "setting");
        assert_eq!(seen["budget"]["context_window"], 2_048);
        assert_eq!(seen["budget"]["reserve"], 1_024);
        assert!(number(&seen, "/budget/used") <= 1_024, "{}", seen["budget"]);
    }
    for request in t.model().asked("vibe", 14).await {
        let limit = request.body["max_tokens"].as_u64().unwrap();
        assert!(limit >= 1_024, "{limit}");
        // The server estimates each message separately and rounds up.
        assert!(tokens(&request.body) + limit <= 2_048 + 20, "{limit}");
    }
    let asked = t.model().asked("vibe", 3).await;
    let cut = asked[2].all();
    assert!(cut.contains("characters left out …]"), "{cut}");
}

#[tokio::test]
async fn what_does_not_fit_into_the_window_is_refused_before_the_call() {
    let t = team_with(&[("MODEL", "house"), ("CONTEXT_WINDOW", "1024")]).await;
    let thread = t.ada.thread(&t.general, "Root").await;
    let task = t.ada.ask(&thread, "@vibe hello").await;
    let notice = notice_of(&t, &task).await;
    let begin = "Vibe could not answer: its instructions (";
    let end = " tokens) do not fit the model's context window (1,024 tokens). Shorten them or choose another model.";
    assert!(
        notice.starts_with(begin) && notice.ends_with(end),
        "{notice}"
    );

    let t = team_with(&[("MODEL", "house"), ("CONTEXT_WINDOW", "4096")]).await;
    let thread = t.ada.thread(&t.general, "Root").await;
    let long = format!("@vibe {}", "word ".repeat(3_000));
    let task = t.ada.ask(&thread, &long).await;
    let notice = notice_of(&t, &task).await;
    let begin = "Vibe could not answer: the message (3,";
    let end = " tokens) does not fit the model's context window (4,096 tokens). Shorten it or choose another model.";
    assert!(
        notice.starts_with(begin) && notice.ends_with(end),
        "{notice}"
    );
    assert_eq!(t.model().requests().len(), 0);
}

#[tokio::test]
async fn a_window_learned_from_an_error_survives_a_restart() {
    let mut t = team_with(&[("MODEL", "house")]).await;
    let thread = t.ada.thread(&t.general, "Root").await;
    let task = t.ada.ask(&thread, "@vibe hello").await;
    t.ada.completed(&task).await;
    let seen = t.ada.task_context(&task).await;
    assert_eq!(seen["window_source"], "assumed");
    assert_eq!(seen["budget"]["context_window"], 32_000);

    for n in 0..12 {
        let long = format!("{n} {}", "word ".repeat(800));
        t.ada.say(&thread, &long).await;
    }
    let error = r#"{"error":{"message":"This model's maximum context length is 6000 tokens, however you requested 9000 tokens (8000 in your prompt; 1000 for the completion)."}}"#;
    t.model()
        .script("vibe", [Answer::status(400, error), Answer::text("Fits.")]);
    let task = t.ada.ask(&thread, "@vibe sum up").await;
    assert_eq!(t.ada.completed(&task).await["attempt"], 2);
    let seen = t.ada.task_context(&task).await;
    assert_eq!(seen["window_source"], "error");
    assert_eq!(seen["budget"]["context_window"], 6_000);
    let left_out = list(&seen, "/left_out");
    assert_eq!(left_out[0]["reason"], "summarised", "{left_out:?}");
    t.app.restart(&[("MODEL", "house")]).await;
    let ada = t.ada.at(&t.app.base);
    let task = ada.ask(&thread, "@vibe once more").await;
    ada.completed(&task).await;
    let seen = ada.task_context(&task).await;
    assert_eq!(
        (&seen["window_source"], &seen["budget"]["context_window"]),
        (&json!("error"), &json!(6_000))
    );
}

#[tokio::test]
async fn an_empty_reply_to_over_half_of_the_window_is_an_overflow() {
    let t = team_with(&[("MODEL", "house"), ("CONTEXT_WINDOW", "12000")]).await;
    t.model()
        .script("vibe", [Answer::stream(), Answer::text("Short.")]);
    let policy = format!("/v1/workspaces/{}/policy", t.ada.workspace);
    let off = json!({"compaction": {"default": "off"}});
    t.ada.patch(&policy, off).await.is(200);
    let thread = t.ada.thread(&t.general, "Root").await;
    for n in 0..25 {
        let long = format!("{n} {}", "word ".repeat(180));
        t.ada.say(&thread, &long).await;
    }
    let task = t.ada.ask(&thread, "@vibe sum up").await;
    assert_eq!(t.ada.completed(&task).await["attempt"], 2);
    let requests = t.model().asked("vibe", 2).await;
    assert!(requests[1].all().len() < requests[0].all().len());
}

#[tokio::test]
async fn a_summary_that_fails_is_requested_again_and_reported_as_unavailable() {
    let t = team().await;
    let overflow = || Answer::status(400, r#"{"error":{"message":"the prompt is too long"}}"#);
    let thread = t.ada.thread(&t.general, "message 0").await;
    for n in 1..30 {
        t.ada.say(&thread, &format!("message {n}")).await;
    }
    t.model().script(
        "vibe",
        [
            overflow(),
            overflow(),
            Answer::text("Short."),
            overflow(),
            overflow(),
        ],
    );
    let busy = || Answer::status(503, "busy");
    t.model().script(
        "summary",
        [
            busy(),
            segment("THE-SUMMARY was made.", &[]),
            busy(),
            busy(),
        ],
    );
    let task = t.ada.ask(&thread, "@vibe sum up").await;
    t.ada.completed(&task).await;
    let last = t.model().asked("vibe", 3).await[2].all();
    assert!(last.contains("THE-SUMMARY"), "{last}");
    let task = t.ada.ask(&thread, "@vibe again").await;
    let (_, code) = t.ada.failed(&task).await;
    assert_eq!(code, "model_unavailable");
    assert_eq!(t.model().asked("summary", 4).await.len(), 4);
}

#[tokio::test]
async fn replies_of_a_server_with_one_slot_are_written_one_after_another() {
    let t = team_with(&[("RETRY_DELAYS", "1ms,1ms,1ms")]).await;
    // Two replies run at the same time, and the model server ends both without a finish reason.
    let gate = Gate::new();
    let cut_off = || Answer::pieces_open(&["Half"]).wait(&gate);
    t.model().script("vibe", [cut_off()]);
    t.model().script("coder", [cut_off()]);
    let (first, second) = (Gate::new(), Gate::new());
    let thread = t.ada.thread(&t.general, "Root").await;
    let one = t.ada.ask(&thread, "@vibe hi").await;
    let two = t.bo.ask(&thread, "@coder hi").await;
    t.model().asked("vibe", 1).await;
    t.model().asked("coder", 1).await;
    let whole = |gate: &Gate| Answer::pieces_open(&["Whole"]).wait(gate).end();
    t.model().script("vibe", [whole(&first)]);
    t.model().script("coder", [whole(&second)]);
    gate.open();
    let running = tokio::select! {
        () = first.reached() => { first.open(); &second }
        () = second.reached() => { second.open(); &first }
    };
    // The second reply starts when the first one has ended.
    running.reached().await;
    running.open();
    for task in [one, two] {
        assert_eq!(t.ada.completed(&task).await["attempt"], 2);
    }
}

const RESPONSES: &str = "/v1/responses";

/// Status, code, and message of an error in `OpenAI`'s format.
fn error_of(reply: &Reply) -> (u16, String, String) {
    let body = reply.json();
    (
        reply.status,
        text(&body, "/error/code"),
        text(&body, "/error/message"),
    )
}

#[tokio::test]
async fn an_unknown_model_in_a_response_is_an_error() {
    let t = team().await;
    let ask = |model: &str| json!({"model": model, "input": "Hi"});
    let refused = t.bo.post(RESPONSES, ask("nosuch")).await;
    let (status, code, _) = error_of(&refused);
    assert_eq!((status, code.as_str()), (404, "model_not_found"));
    assert_eq!(refused.json()["error"]["param"], "model");
    assert_eq!(t.model().requests().len(), 0);
    t.bo.post(RESPONSES, ask("tiny")).await.is(200);
    // Without a model list, the request is sent to the model server anyway.
    let t = team_with(&[("MODEL_BASE_URL", &format!("{}/unlisted", t.model().url))]).await;
    let refused = t.bo.post(RESPONSES, ask("nosuch")).await;
    let (status, code, message) = error_of(&refused);
    assert_eq!((status, code.as_str()), (400, "model_refused"), "{message}");
    assert!(
        message.contains("no chat completions at http://"),
        "{message}"
    );
}

#[tokio::test]
async fn an_overflow_of_a_response_is_a_400_in_any_form() {
    let t = team_with(&[("CONTEXT_WINDOW", "8192")]).await;
    let body =
        |stream: bool| json!({"model": "tiny", "input": "word ".repeat(4_000), "stream": stream});
    let text_with = |window: &str| {
        format!(
            "the conversation does not fit the model's context window{window}: send less, or set `truncation` to \"auto\""
        )
    };
    for overflow in [Answer::stream(), Answer::too_large()] {
        t.model().script("", [overflow.clone()]);
        let refused = t.bo.post(RESPONSES, body(false)).await;
        let wanted = (
            400,
            "context_length_exceeded".to_owned(),
            text_with(" (8,192 tokens)"),
        );
        assert_eq!(error_of(&refused), wanted);
    }
    t.model().script("", [Answer::stream()]);
    let streamed = t.bo.post(RESPONSES, body(true)).await;
    assert_eq!(streamed.status, 200);
    assert!(
        streamed.text.contains("event: response.failed")
            && streamed.text.contains("context_length_exceeded"),
        "{}",
        streamed.text
    );
    // If the window is unknown, the error does not state it.
    let t = team().await;
    let overflow = r#"{"error":{"code":"context_length_exceeded","message":"x"}}"#;
    t.model().script("", [Answer::status(400, overflow)]);
    let refused = t.bo.post(RESPONSES, body(false)).await;
    let wanted = (400, "context_length_exceeded".to_owned(), text_with(""));
    assert_eq!(error_of(&refused), wanted);
}

#[tokio::test]
async fn a_draft_of_the_extractor_names_the_failure_of_the_model() {
    let t = team().await;
    let dive = t.dive().await;
    t.ada.tell_in(&dive.fork, "Let's ship on Monday.").await;
    t.bo.tell_in(&dive.fork, "Agreed, Monday.").await;
    // A temporary failure is retried, and an unreadable answer causes one more request.
    t.model().script("resolver", [Answer::status(503, "busy")]);
    for (answers, by_model, reason) in [
        (vec![Answer::status(400, "{}")], false, json!("bad_request")),
        (vec![Answer::text("no JSON")], false, json!("bad_response")),
        (vec![Answer::status(401, "{}")], false, json!("auth")),
    ] {
        t.model().script("resolver", answers);
        let task = t.ada.resolve(&dive.fork).await;
        t.ada.completed(&task).await;
        let draft = t.ada.resolution(&dive.fork).await;
        assert_eq!(draft["generated_by"] != "builtin", by_model, "{draft}");
        assert_eq!(draft["fallback_reason"], reason, "{draft}");
    }
    assert_eq!(t.model().asked("resolver", 5).await.len(), 5);
}
