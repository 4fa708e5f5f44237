//! Models that are down, slow, empty, or cut off, or that send malformed responses.

use std::time::Duration;

use serde_json::{Value, json};

use crate::compaction::segment;
use crate::support::{Answer, Gate, Team, id, list, number, team, team_with, text};

/// Mentions Vibe in a new thread as Ada. Returns the thread and the task.
async fn ask(t: &Team) -> (String, String) {
    let thread = t.ada.thread(&t.general, "Root").await;
    let task = t.ada.ask(&thread, "@vibe hi").await;
    (thread, task)
}

/// Checks that these model responses make a task fail. Returns its error code, and the messages after the question.
async fn fails_with(t: &Team, answers: Vec<Answer>, requests: usize) -> (String, Vec<Value>) {
    t.model().script("vibe", answers);
    let (thread, task) = ask(t).await;
    let (failed, code) = t.ada.failed(&task).await;
    assert_eq!(t.model().requests().len(), requests, "calls of the model");
    assert_eq!(
        number(&failed, "/attempt"),
        i64::try_from(requests).unwrap()
    );
    assert!(failed["completed_at"].is_string() && failed["output"].is_null());
    assert_eq!(t.ada.task(&task).await, failed);
    let after = t.ada.messages(&thread).await.split_off(2);
    let notices: Vec<&Value> = after.iter().filter(|m| m["kind"] == "notice").collect();
    assert_eq!(notices.len(), 1, "{after:?}");
    assert_eq!(notices[0]["author"]["type"], "system");
    assert!(notices[0]["author"]["id"].is_null());
    assert!(text(notices[0], "/content").contains("Vibe"), "{after:?}");
    assert_eq!(notices[0]["content"], failed["error"]["message"]);
    assert_eq!(notices[0]["metadata"]["task_id"], task.as_str());
    let seen = t.ada.task_context(&task).await;
    let outcomes: Vec<String> = list(&seen, "/attempts")
        .iter()
        .map(|a| text(a, "/outcome"))
        .collect();
    let mut expected = vec!["retry".to_owned(); requests - 1];
    expected.push("failed".to_owned());
    assert_eq!(outcomes, expected);
    (code, after)
}

fn times(n: usize, answer: &Answer) -> Vec<Answer> {
    vec![answer.clone(); n]
}

#[tokio::test]
async fn an_unavailable_server_is_retried_three_times() {
    for status in [500, 502, 503, 504, 529] {
        let t = team().await;
        let refusal = Answer::status(status, "<html><title>Oops</title></html>");
        let (code, after) = fails_with(&t, times(4, &refusal), 4).await;
        assert_eq!(code, "model_unavailable", "{status}");
        assert_eq!(after.len(), 1, "a reply without text leaves no message");
        assert!(text(&after[0], "/content").contains("unavailable"));
    }
}

#[tokio::test]
async fn a_server_that_refuses_connections_is_unavailable() {
    let t = team_with(&[("MODEL_BASE_URL", "http://127.0.0.1:1/v1")]).await;
    let (_, task) = ask(&t).await;
    let (failed, code) = t.ada.failed(&task).await;
    assert_eq!(
        (code.as_str(), number(&failed, "/attempt")),
        ("model_unavailable", 4)
    );
}

#[tokio::test]
async fn a_server_that_recovers_replies() {
    let t = team().await;
    t.model().script(
        "vibe",
        [
            Answer::status(503, "busy"),
            Answer::status(500, "{}"),
            Answer::text("Here."),
        ],
    );
    let (thread, task) = ask(&t).await;
    let done = t.ada.completed(&task).await;
    assert_eq!(done["attempt"], 3);
    assert!(done["error"].is_null() && done["retry_at"].is_null() && done["wait_reason"].is_null());
    assert_eq!(t.ada.contents(&thread).await, ["Root", "@vibe hi", "Here."]);
}

#[tokio::test]
async fn a_waiting_task_reports_its_retry_time_and_reason() {
    let t = team_with(&[("RETRY_DELAYS", "1h,1h,1h")]).await;
    t.model().script("vibe", [Answer::status(503, "busy")]);
    let (_, task) = ask(&t).await;
    let event = t
        .ada
        .event_where("the wait", |e| {
            e["data"]["task"]["id"] == task.as_str()
                && e["data"]["task"]["wait_reason"] == "unavailable"
        })
        .await;
    let waiting = &event["data"]["task"];
    assert_eq!(
        (&waiting["status"], &waiting["attempt"]),
        (&json!("queued"), &json!(2))
    );
    let until = chrono::DateTime::parse_from_rfc3339(&text(waiting, "/retry_at")).unwrap();
    let at = chrono::DateTime::parse_from_rfc3339(&text(&event, "/ts")).unwrap();
    let seconds = (until - at).num_seconds();
    // The delay is increased by up to a quarter.
    assert!((3590..=4500).contains(&seconds), "{seconds}");
    assert_eq!(
        t.ada.act(&format!("/v1/tasks/{task}/cancel")).await.is(200)["status"],
        "cancelled"
    );
}

#[tokio::test]
async fn a_broken_stream_starts_a_new_attempt_at_offset_0() {
    let t = team().await;
    let (broken, whole) = (Gate::new(), Gate::new());
    t.model().script(
        "vibe",
        [
            Answer::stream().piece("The first 👋 ").wait(&broken).cut(),
            Answer::stream()
                .piece("The second")
                .wait(&whole)
                .piece(" one.")
                .end(),
        ],
    );
    let thread = t.ada.thread(&t.general, "Root").await;
    let mut socket = t.bo.socket().await;
    socket.subscribe(&thread).await;
    let task = t.ada.ask(&thread, "@vibe hi").await;
    let first = socket.of("task.delta").await;
    assert_eq!(
        (&first["attempt"], &first["offset"], &first["text"]),
        (&json!(1), &json!(0), &json!("The first 👋 "))
    );
    broken.open();
    let second = socket
        .until("the second attempt", |f| {
            f["type"] == "task.delta" && f["attempt"] == 2
        })
        .await;
    assert_eq!(
        (&second["offset"], &second["text"]),
        (&json!(0), &json!("The second"))
    );
    assert_eq!(
        second["message_id"], first["message_id"],
        "it is one message"
    );
    whole.open();
    let updated = socket.of("message.updated").await;
    assert_eq!(updated["data"]["message"]["content"], "The second one.");
    let done = t.ada.completed(&task).await;
    assert_eq!(done["attempt"], 2);
    assert_eq!(
        t.ada.contents(&thread).await,
        ["Root", "@vibe hi", "The second one."]
    );
}

#[tokio::test]
async fn a_stream_that_always_breaks_keeps_its_last_text() {
    let t = team().await;
    let answers = (1..=4)
        .map(|n| Answer::stream().piece(&format!("Try {n}")).cut())
        .collect();
    let (code, after) = fails_with(&t, answers, 4).await;
    assert_eq!(code, "model_unavailable");
    assert_eq!(after.len(), 2);
    assert_eq!(
        (&after[0]["content"], &after[0]["state"]),
        (&json!("Try 4"), &json!("interrupted"))
    );
    assert_eq!(after[1]["kind"], "notice");
}

#[tokio::test]
async fn text_of_an_attempt_is_kept_if_later_attempts_have_none() {
    let t = team().await;
    let mut answers = vec![Answer::stream().piece("Half of it").cut()];
    answers.extend(times(3, &Answer::status(503, "{}")));
    let (_, after) = fails_with(&t, answers, 4).await;
    assert_eq!(after.len(), 2, "{after:?}");
    assert_eq!(
        (&after[0]["content"], &after[0]["state"]),
        (&json!("Half of it"), &json!("interrupted"))
    );
}

#[tokio::test]
async fn an_end_without_a_finish_reason_is_a_broken_stream_unless_the_server_says_that_it_is_done()
{
    let t = team().await;
    let broken = Answer::stream().piece("Half");
    t.model().script("vibe", [broken, Answer::text("Whole.")]);
    let (thread, task) = ask(&t).await;
    assert_eq!(t.ada.completed(&task).await["attempt"], 2);
    assert_eq!(t.ada.contents(&thread).await[2], "Whole.");
    let done = Answer::stream().piece("Also whole.").done();
    t.model().script("vibe", [done]);
    let (thread, task) = ask(&t).await;
    assert_eq!(t.ada.completed(&task).await["attempt"], 1);
    assert_eq!(t.ada.contents(&thread).await[2], "Also whole.");
}

#[tokio::test]
async fn an_error_in_the_middle_of_a_stream_breaks_it() {
    let t = team().await;
    let error = r#"data: {"error":{"message":"Overloaded","type":"overloaded_error"}}"#;
    t.model().script(
        "vibe",
        [
            Answer::stream().piece("Half").raw(&format!("{error}\n\n")),
            Answer::text("Whole."),
        ],
    );
    let (thread, task) = ask(&t).await;
    assert_eq!(t.ada.completed(&task).await["attempt"], 2);
    assert_eq!(t.ada.contents(&thread).await[2], "Whole.");
}

#[tokio::test]
async fn invalid_json_in_a_stream_breaks_it() {
    let t = team().await;
    t.model().script(
        "vibe",
        [
            Answer::stream()
                .piece("Half")
                .raw("data: {\"choices\":[\n\n"),
            Answer::text("Whole."),
        ],
    );
    let (_, task) = ask(&t).await;
    assert_eq!(t.ada.completed(&task).await["attempt"], 2);
}

#[tokio::test]
async fn comments_unknown_fields_and_odd_finish_reasons_are_accepted() {
    let t = team().await;
    let answer = Answer::stream()
        .raw(": ping\n\n")
        .raw("event: message\nid: 7\nretry: 10\n")
        .raw("data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":null,\"reasoning_content\":\"SECRET-THOUGHT\"}}]}\n\n")
        .raw("data: {\"choices\":[]}\n\n")
        .piece("Yes.")
        .finish("eos")
        .raw(": ping\n\n")
        .usage(3, 1)
        .done();
    t.model().script("vibe", [answer]);
    let (thread, task) = ask(&t).await;
    assert_eq!(
        t.ada.completed(&task).await["token_usage"]["input_tokens"],
        3
    );
    assert_eq!(t.ada.contents(&thread).await[2], "Yes.");
}

#[tokio::test]
async fn a_server_that_does_not_stream_is_supported() {
    let t = team().await;
    let whole = json!({"choices": [{"index": 0, "message": {"role": "assistant", "content": "At once."}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 5, "completion_tokens": 2}});
    let answer = Answer::stream().raw(&whole.to_string()).json();
    t.model().script("vibe", [answer]);
    let (thread, task) = ask(&t).await;
    t.ada.completed(&task).await;
    assert_eq!(t.ada.contents(&thread).await[2], "At once.");
}

#[tokio::test]
async fn a_rate_limited_task_waits_as_long_as_requested() {
    let date = httpdate::fmt_http_date(std::time::SystemTime::now() + Duration::from_secs(90));
    for (value, least, most) in [("120", 110, 150), (date.as_str(), 70, 113)] {
        let t = team().await;
        t.model().script(
            "vibe",
            [Answer::status(429, "{}").header("retry-after", value)],
        );
        let (_, task) = ask(&t).await;
        let event = t
            .ada
            .event_where("the wait", |e| {
                e["data"]["task"]["wait_reason"] == "rate_limited"
            })
            .await;
        let waiting = &event["data"]["task"];
        assert_eq!(
            (&waiting["id"], &waiting["status"]),
            (&json!(task), &json!("queued"))
        );
        let until = chrono::DateTime::parse_from_rfc3339(&text(waiting, "/retry_at")).unwrap();
        let at = chrono::DateTime::parse_from_rfc3339(&text(&event, "/ts")).unwrap();
        assert!(
            (least..=most).contains(&(until - at).num_seconds()),
            "{value}: {}",
            until - at
        );
    }
}

#[tokio::test]
async fn rate_limits_are_retried_five_times() {
    let t = team().await;
    let refusal = Answer::status(429, "{}").header("retry-after", "0");
    let (code, after) = fails_with(&t, times(6, &refusal), 6).await;
    assert_eq!((code.as_str(), after.len()), ("rate_limited", 1));
}

#[tokio::test]
async fn rate_limits_without_a_wait_use_the_default_steps() {
    let t = team().await;
    let (code, _) = fails_with(&t, times(6, &Answer::status(429, "{}")), 6).await;
    assert_eq!(code, "rate_limited");
    let thread = text(&t.ada.get("/v1/tasks").await.ok(), "/data/0/id");
    let seen = t.ada.task_context(&thread).await;
    let waits: Vec<i64> = list(&seen, "/attempts")
        .iter()
        .map(|a| number(a, "/waited_ms"))
        .collect();
    // Each delay is increased by up to a quarter.
    let delays = [10, 20, 30, 30, 30, 0];
    let within = waits.iter().zip(delays);
    assert!(
        waits.len() == 6
            && within
                .into_iter()
                .all(|(wait, least)| (least..=least * 5 / 4).contains(wait)),
        "{waits:?}"
    );
}

#[tokio::test]
async fn a_rate_limit_of_more_than_ten_minutes_fails_at_once() {
    let t = team().await;
    let refusal = Answer::status(429, "{}").header("retry-after", "900");
    let (code, after) = fails_with(&t, vec![refusal], 1).await;
    assert_eq!(code, "rate_limited");
    let notice = text(after.last().unwrap(), "/content");
    let begins = "Vibe could not answer. The AI service asked to wait 15 minutes. Try again after ";
    assert!(
        notice.starts_with(begins) && notice.ends_with(" UTC."),
        "{notice}"
    );
}

#[tokio::test]
async fn a_long_wait_releases_the_slot_and_the_worker() {
    let t = team_with(&[("WORKERS", "1")]).await;
    t.model().script(
        "vibe",
        [
            Answer::status(429, "{}").header("retry-after", "300"),
            Answer::text("Second."),
        ],
    );
    let (thread, waiting) = ask(&t).await;
    t.ada
        .event_where("the wait", |e| {
            e["data"]["task"]["wait_reason"] == "rate_limited"
        })
        .await;
    let second = t.ada.ask(&thread, "@vibe again").await;
    t.ada.completed(&second).await;
    assert_eq!(t.ada.task(&waiting).await["status"], "queued");
}

#[tokio::test]
async fn a_short_wait_keeps_the_slot() {
    let t = team_with(&[("RETRY_DELAYS", "300ms,300ms,300ms")]).await;
    t.model().script(
        "vibe",
        [
            Answer::status(503, "busy"),
            Answer::text("First."),
            Answer::text("Second."),
        ],
    );
    let (thread, first) = ask(&t).await;
    t.ada
        .event_where("the wait", |e| {
            e["data"]["task"]["wait_reason"] == "unavailable"
        })
        .await;
    let second = t.ada.ask(&thread, "@vibe again").await;
    t.ada.completed(&second).await;
    assert_eq!(t.ada.task(&first).await["status"], "completed");
    assert_eq!(
        t.ada.contents(&thread).await,
        ["Root", "@vibe hi", "@vibe again", "First.", "Second."]
    );
}

#[tokio::test]
async fn counts_of_different_failures_are_independent() {
    let t = team().await;
    let limit = Answer::status(429, "{}").header("retry-after", "0");
    let down = Answer::status(503, "{}");
    let answers = vec![
        limit.clone(),
        down.clone(),
        limit.clone(),
        down.clone(),
        limit,
        down,
        Answer::text("At last."),
    ];
    t.model().script("vibe", answers);
    let (thread, task) = ask(&t).await;
    assert_eq!(t.ada.completed(&task).await["attempt"], 7);
    assert_eq!(t.ada.contents(&thread).await[2], "At last.");
}

#[tokio::test]
async fn a_model_that_never_starts_times_out_and_is_not_retried() {
    let t = team_with(&[("TASK_TIMEOUT", "300ms")]).await;
    let (code, after) = fails_with(&t, vec![Answer::stream().silence()], 1).await;
    assert_eq!((code.as_str(), after.len()), ("timeout", 1));
    assert!(text(&after[0], "/content").contains("timed out"));
}

#[tokio::test]
async fn a_model_that_sends_no_response_head_times_out() {
    let t = team_with(&[("TASK_TIMEOUT", "300ms")]).await;
    let never = Gate::new();
    let (code, _) = fails_with(&t, vec![Answer::text("x").held(&never)], 1).await;
    assert_eq!(code, "timeout");
}

#[tokio::test]
async fn silence_in_the_middle_times_out_and_keeps_the_text() {
    let t = team_with(&[("TASK_TIMEOUT", "300ms")]).await;
    let (code, after) = fails_with(
        &t,
        vec![Answer::pieces_open(&["Half ", "way"]).silence()],
        1,
    )
    .await;
    assert_eq!(code, "timeout");
    assert_eq!(
        (&after[0]["content"], &after[0]["state"]),
        (&json!("Half way"), &json!("interrupted"))
    );
    t.model().given_up(1).await;
}

#[tokio::test]
async fn keepalives_without_text_do_not_reset_the_timeout() {
    let t = team_with(&[("TASK_TIMEOUT", "300ms")]).await;
    let mut answer = Answer::stream();
    for _ in 0..40 {
        answer = answer.raw(": ping\n\n").pause(Duration::from_millis(50));
    }
    let (code, _) = fails_with(&t, vec![answer.end()], 1).await;
    assert_eq!(code, "timeout");
}

#[tokio::test]
async fn a_slow_but_steady_stream_does_not_time_out() {
    let t = team_with(&[("TASK_TIMEOUT", "400ms")]).await;
    let mut answer = Answer::stream();
    for n in 0..8 {
        answer = answer
            .piece(&n.to_string())
            .pause(Duration::from_millis(100));
    }
    t.model().script("vibe", [answer.end()]);
    let (thread, task) = ask(&t).await;
    t.ada.completed(&task).await;
    assert_eq!(t.ada.contents(&thread).await[2], "01234567");
}

#[tokio::test]
async fn an_attempt_has_an_overall_deadline() {
    let t = team_with(&[("ATTEMPT_MAX", "400ms")]).await;
    let mut answer = Answer::stream();
    for n in 0..40 {
        answer = answer
            .piece(&format!("{n} "))
            .pause(Duration::from_millis(50));
    }
    let (code, after) = fails_with(&t, vec![answer.end()], 1).await;
    assert_eq!(code, "timeout");
    assert_eq!(after[0]["state"], "interrupted");
    assert!(text(&after[0], "/content").starts_with("0 1 "));
}

#[tokio::test]
async fn an_empty_or_blank_response_is_a_failure() {
    for empty in [
        Answer::stream().end(),
        Answer::stream().piece(" \n\t ").end(),
        Answer::stream().piece("").end(),
        Answer::stream().piece("<br>").piece("\n").end(),
        Answer::stream().piece("\u{200b}").piece("&nbsp;").end(),
        Answer::stream(),
    ] {
        let t = team().await;
        let (code, after) = fails_with(&t, vec![empty], 1).await;
        assert_eq!((code.as_str(), after.len()), ("bad_response", 1));
        assert!(text(&after[0], "/content").contains("unexpected"));
    }
}

#[tokio::test]
async fn a_rejected_request_is_not_retried() {
    for (status, body, expected) in [
        (
            400,
            r#"{"error":{"message":"no","type":"invalid_request_error"}}"#,
            "bad_request",
        ),
        (
            404,
            r#"{"error":{"message":"no such model"}}"#,
            "bad_request",
        ),
        (422, "{}", "bad_request"),
        (401, r#"{"detail":"who are you"}"#, "auth"),
        (403, "<html>no</html>", "auth"),
    ] {
        let t = team().await;
        let (code, after) = fails_with(&t, vec![Answer::status(status, body)], 1).await;
        assert_eq!((code.as_str(), after.len()), (expected, 1), "{status}");
    }
}

#[tokio::test]
async fn a_field_that_the_model_rejects_is_omitted_once() {
    let t = team().await;
    let sage = id(&t.ada.make_agent("sage").await);
    t.ada
        .patch(&format!("/v1/agents/{sage}"), json!({"temperature": 0.5}))
        .await
        .is(200);
    let refusal =
        r#"{"error":{"message":"Unsupported value: 'temperature'","param":"temperature"}}"#;
    t.model().script(
        "sage",
        [Answer::status(400, refusal), Answer::text("Cool.")],
    );
    let thread = t.ada.thread(&t.general, "Root").await;
    let task = t.ada.ask(&thread, "@sage hi").await;
    t.ada.completed(&task).await;
    let requests = t.model().asked("sage", 2).await;
    assert_eq!(requests[0].body["temperature"], 0.5);
    assert!(requests[1].body.get("temperature").is_none());
}

/// Creates a thread with 30 messages and a question; returns the thread and the task.
async fn long_thread(t: &Team) -> (String, String) {
    let thread = t.ada.thread(&t.general, "message 0").await;
    for n in 1..30 {
        t.ada.say(&thread, &format!("message {n}")).await;
    }
    let task = t.ada.ask(&thread, "@vibe sum up").await;
    (thread, task)
}

#[tokio::test]
async fn an_oversized_context_is_retried_with_20_messages() {
    let t = team().await;
    t.model()
        .script("vibe", [Answer::too_large(), Answer::text("Short.")]);
    let (_, task) = long_thread(&t).await;
    assert_eq!(t.ada.completed(&task).await["attempt"], 2);
    let requests = t.model().asked("vibe", 2).await;
    assert!(requests[0].all().contains("message 0"));
    let second = requests[1].turns().join("\n");
    assert!(
        second.contains("message 10") && !second.contains("message 9\n"),
        "{second}"
    );
    assert!(second.contains("message 29"));
    let seen = t.ada.task_context(&task).await;
    let left_out = list(&seen, "/left_out");
    assert_eq!(
        (&left_out[0]["reason"], &left_out[0]["count"]),
        (&json!("context_too_large"), &json!(10))
    );
}

#[tokio::test]
async fn a_context_that_is_still_too_large_is_retried_with_a_summary() {
    let t = team().await;
    t.model().script(
        "vibe",
        [
            Answer::too_large(),
            Answer::too_large(),
            Answer::text("Short."),
        ],
    );
    t.model()
        .script("summary", [segment("THE-SUMMARY was made.", &[])]);
    let (thread, task) = long_thread(&t).await;
    let done = t.ada.completed(&task).await;
    assert_eq!(done["attempt"], 3);
    assert_eq!(
        done["token_usage"]["input_tokens"], 11,
        "the summary is not in the task's usage"
    );
    let asked = t.model().asked_once("summary").await;
    assert!(asked.all().contains("message 0") && !asked.all().contains("message 29"));
    let third = t.model().asked("vibe", 3).await[2].turns().join("\n");
    assert!(
        third.contains("THE-SUMMARY") && third.contains("message 29"),
        "{third}"
    );
    assert!(!third.contains("message 9\n"), "{third}");
    let tasks = list(
        &t.ada
            .get(&format!("/v1/tasks?thread_id={thread}"))
            .await
            .ok(),
        "/data",
    );
    let compact = tasks
        .iter()
        .find(|task| task["kind"] == "compact")
        .expect("a task of its own");
    assert_eq!(compact["status"], "completed");
    assert_eq!(
        (&compact["parent_task_id"], &compact["root_task_id"]),
        (&json!(task), &json!(task))
    );
    assert_eq!((&compact["depth"], &done["depth"]), (&json!(1), &json!(0)));
    assert_eq!(
        (&done["root_task_id"], &done["parent_task_id"]),
        (&json!(task), &Value::Null)
    );
    assert_eq!(compact["token_usage"]["input_tokens"], 11);
}

#[tokio::test]
async fn a_context_that_remains_too_large_fails() {
    let t = team().await;
    t.model().script("vibe", times(3, &Answer::too_large()));
    t.model()
        .script("summary", [segment("THE-SUMMARY was made.", &[])]);
    let (thread, task) = long_thread(&t).await;
    let (_, code) = t.ada.failed(&task).await;
    assert_eq!(code, "context_too_large");
    assert_eq!(t.model().asked("vibe", 3).await.len(), 3);
    let notices = t
        .ada
        .messages(&thread)
        .await
        .iter()
        .filter(|m| m["kind"] == "notice")
        .count();
    assert_eq!(notices, 1);
}

#[tokio::test]
async fn steps_without_effect_are_skipped() {
    let t = team().await;
    let (code, _) = fails_with(&t, vec![Answer::too_large()], 1).await;
    assert_eq!(code, "context_too_large");
}

#[tokio::test]
async fn a_conversation_can_continue_after_a_failure() {
    let t = team().await;
    t.model()
        .script("vibe", [Answer::status(400, "{}"), Answer::text("Better.")]);
    let (thread, task) = ask(&t).await;
    t.ada.failed(&task).await;
    let next = t.bo.ask(&thread, "@vibe once more").await;
    t.ada.completed(&next).await;
    let found = t.ada.get(&format!("/v1/threads/{thread}")).await.ok();
    assert_eq!(found["reply_count"], 3, "a notice is no reply");
    assert_eq!(t.ada.messages(&thread).await.len(), 5);
}

#[tokio::test]
async fn a_failure_sends_a_complete_sequence_of_events() {
    let t = team().await;
    t.model().script("vibe", [Answer::status(400, "{}")]);
    let mut socket = t.bo.socket().await;
    ask(&t).await;
    let events = socket
        .events_through("the failure", |f| f["data"]["task"]["status"] == "failed")
        .await;
    let kinds: Vec<String> = events
        .iter()
        .skip_while(|e| e["type"] != "task.status_changed")
        .map(|e| {
            let message = e["data"]["message"]["kind"].as_str();
            format!(
                "{} {}",
                text(e, "/type"),
                e["data"]["task"]["status"].as_str().or(message).unwrap()
            )
        })
        .collect();
    assert_eq!(
        kinds,
        [
            "task.status_changed queued",
            "task.status_changed running",
            "message.created notice",
            "task.status_changed failed"
        ]
    );
}
