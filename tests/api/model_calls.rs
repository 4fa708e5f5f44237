//! Model calls: a row for each call, stored before the request is sent, and usage that includes every attempt.

use serde_json::{Value, json};

use crate::{
    faults::prepared,
    response_streams::open,
    support::{Answer, Gate, Person, TestDatabase, list, number, team, text, within},
};

/// Calls in order, as `purpose outcome estimated`.
async fn calls(place: &TestDatabase) -> Vec<String> {
    place
        .texts(
            "select purpose || ' ' || outcome || (case when estimated then ' estimated' else '' end) from model_calls order by id",
        )
        .await
}

async fn input_of(place: &TestDatabase, outcome: &str) -> i64 {
    place
        .numbers(&[format!(
            "select cast(sum(input) as bigint) from model_calls where outcome = '{outcome}'"
        )])
        .await[0]
}

/// Input and output tokens that the workspace used this month.
async fn spent(admin: &Person) -> (i64, i64) {
    let used = admin.get("/v1/usage").await.ok();
    (
        number(&used, "/total/input_tokens"),
        number(&used, "/total/output_tokens"),
    )
}

/// Waits until no call is running.
async fn all_ended(place: &TestDatabase) {
    let ended = async {
        let sql = "select count(*) from model_calls where outcome = 'running'".to_owned();
        while place.numbers(std::slice::from_ref(&sql)).await[0] > 0 {
            crate::support::pause().await;
        }
    };
    within("the calls to end", ended).await;
}

#[tokio::test]
async fn a_canceled_reply_counts_its_prompt_and_the_received_text() {
    let t = team().await;
    let gate = Gate::new();
    let text_of_75 = ["word "; 75];
    let reply = Answer::pieces_open(&text_of_75).wait(&gate).end();
    t.model().script("vibe", [reply]);
    let thread = t.ada.thread(&t.general, "Root").await;
    let task = t.ada.ask(&thread, "@vibe go").await;
    t.ada
        .event_where("the reply", |event| {
            event["type"] == "message.created"
                && event["data"]["message"]["metadata"]["task_id"] == task
        })
        .await;
    gate.reached().await;
    assert_eq!(calls(&t.app.place).await, ["reply running estimated"]);
    t.ada.act(&format!("/v1/tasks/{task}/cancel")).await.is(200);
    all_ended(&t.app.place).await;
    let usage = t.ada.task(&task).await["token_usage"].clone();
    assert_eq!(usage["estimated"], true);
    let output = number(&usage, "/output_tokens");
    assert!((1..=94).contains(&output), "{usage}");
    assert!(number(&usage, "/input_tokens") > 0);
    let expected = (number(&usage, "/input_tokens"), output);
    assert_eq!(spent(&t.ada).await, expected);
    assert_eq!(calls(&t.app.place).await, ["reply cancelled estimated"]);
    let models = t.ada.get("/v1/usage?group_by=model").await.ok();
    let row = &list(&models, "/data")[0];
    assert_eq!(
        (&row["tasks"], row["key"].as_str()),
        (&json!(1), usage["model"].as_str())
    );
}

#[tokio::test]
async fn a_broken_attempt_counts_and_a_refused_one_does_not() {
    let t = team().await;
    t.model().script(
        "vibe",
        [
            Answer::status(503, "{}"),
            Answer::pieces_open(&["Half a reply"]).cut(),
            Answer::text("Whole."),
        ],
    );
    let thread = t.ada.thread(&t.general, "Root").await;
    let task = t.ada.ask(&thread, "@vibe go").await;
    let usage = t.ada.completed(&task).await["token_usage"].clone();
    let place = &t.app.place;
    assert_eq!(
        calls(place).await,
        [
            "reply failed estimated",
            "reply failed estimated",
            "reply completed"
        ]
    );
    let broken = input_of(place, "failed").await;
    assert!(broken > 0);
    assert_eq!(number(&usage, "/input_tokens"), broken + 11, "as reported");
    assert_eq!(usage["estimated"], true);
    let expected = (
        number(&usage, "/input_tokens"),
        number(&usage, "/output_tokens"),
    );
    assert_eq!(spent(&t.ada).await, expected);
    let refused = "select count(*) from model_calls where input = 0 and output = 0".to_owned();
    assert_eq!(place.numbers(&[refused]).await, [1]);
}

#[tokio::test]
async fn a_call_of_a_killed_process_counts_as_lost_and_is_made_again() {
    let p = prepared().await;
    let gate = Gate::new();
    let held = Answer::pieces_open(&["One"]).wait(&gate).end();
    p.model.script("vibe", [held, Answer::text("Whole.")]);
    let (server, ada) = p.start(&[]).await;
    let task = ada.ask(&p.thread, "@vibe hi").await;
    gate.reached().await;
    server.kill().await;
    assert_eq!(calls(&p.place).await, ["reply running estimated"]);
    let (server, ada) = p.start(&[]).await;
    let usage = ada.completed(&task).await["token_usage"].clone();
    assert_eq!(
        calls(&p.place).await,
        ["reply lost estimated", "reply completed"]
    );
    let lost = input_of(&p.place, "lost").await;
    assert!(lost > 0);
    assert_eq!(number(&usage, "/input_tokens"), lost + 11);
    assert_eq!(spent(&ada).await.0, lost + 11);
    server.kill().await;
}

#[tokio::test]
async fn an_end_that_was_stored_before_a_crash_is_not_counted_twice() {
    let p = prepared().await;
    p.model
        .script("vibe", [Answer::text("Once."), Answer::text("Twice.")]);
    let (mut server, ada) = p.start(&[("FAILPOINT", "model_call_ended:1")]).await;
    let asked = format!("/v1/threads/{}/messages", p.thread);
    let posted = ada
        .post(&asked, json!({"content": "@vibe hi"}))
        .await
        .is(201);
    let died = async {
        while server.has_ended().is_none() {
            crate::support::pause().await;
        }
    };
    within("the crash", died).await;
    let (server, ada) = p.start(&[]).await;
    let done = ada.completed(&text(&posted, "/tasks/0/id")).await;
    assert_eq!(number(&done, "/token_usage/input_tokens"), 22);
    assert_eq!(spent(&ada).await.0, 22);
    assert_eq!(
        calls(&p.place).await,
        ["reply completed", "reply completed"]
    );
    server.kill().await;
}

#[tokio::test]
async fn api_calls_and_tests_of_the_connection_are_calls_too() {
    let t = team().await;
    t.model()
        .script("", [Answer::status(503, "{}"), Answer::text("Yes.")]);
    let (robot, _) = t.ada.make_key(&["agents:use"]).await;
    let asked = json!({"model": "tiny", "input": "Hi"});
    let response = robot.post("/v1/responses", asked).await.is(200);
    assert_eq!(number(&response, "/usage/input_tokens"), 11);
    t.model().script("", [Answer::text("OK")]);
    t.ada.post("/v1/model-test", json!({})).await.is(200);
    assert_eq!(
        calls(&t.app.place).await,
        [
            "response failed estimated",
            "response completed",
            "test completed"
        ]
    );
    assert_eq!(spent(&t.ada).await.0, 22);
}

#[tokio::test]
async fn an_api_client_that_disconnects_leaves_no_call_open() {
    let t = team().await;
    let gate = Gate::new();
    let held = Answer::pieces_open(&["One"]).wait(&gate).end();
    t.model().script("vibe", [held]);
    let body = json!({"agent_id": "vibe", "input": "Count", "stream": true});
    let stream = open(&t.bo, body).await;
    gate.reached().await;
    drop(stream);
    all_ended(&t.app.place).await;
    assert_eq!(calls(&t.app.place).await, ["response cancelled estimated"]);
    assert!(spent(&t.ada).await.0 > 0);
}

#[tokio::test]
async fn rows_expire_and_the_usage_stays() {
    let mut t = team().await;
    t.model().script("vibe", [Answer::text("Yes.")]);
    let thread = t.ada.thread(&t.general, "Root").await;
    let task = t.ada.ask(&thread, "@vibe go").await;
    t.ada.completed(&task).await;
    let before = spent(&t.ada).await;
    t.app.stop().await;
    t.app
        .place
        .run(&["update model_calls set started_at = '2020-01-02 03:04:05+00:00'"])
        .await;
    t.app.restart(&[]).await;
    let place = std::sync::Arc::clone(&t.app.place);
    let removed = async {
        while place.count("model_calls").await > 0 {
            crate::support::pause().await;
        }
    };
    within("the row to expire", removed).await;
    let ada = t.ada.at(&t.app.base);
    assert_eq!(spent(&ada).await, before);
    assert_eq!(
        number(&ada.task(&task).await, "/token_usage/input_tokens"),
        11
    );
}

#[tokio::test]
async fn calls_are_exported_and_their_user_is_erased() {
    let t = team().await;
    t.model().script("vibe", [Answer::text("Yes.")]);
    let thread = t.ada.thread(&t.general, "Root").await;
    let task = t.bo.ask(&thread, "@vibe go").await;
    t.bo.completed(&task).await;
    let exported =
        t.bo.get(&format!("/v1/members/{}/export", t.bo.id))
            .await
            .ok();
    let call: &Value = &list(&exported, "/model_calls")[0];
    assert_eq!(
        (&call["task_id"], &call["purpose"]),
        (&json!(task), &json!("reply"))
    );
    assert_eq!(
        (&call["input_tokens"], &call["outcome"]),
        (&json!(11), &json!("completed"))
    );
    t.ada.erase(&t.bo).await;
    let theirs = "select count(*) from model_calls c join users u on u.id = c.user_id".to_owned();
    assert_eq!(t.app.place.numbers(&[theirs]).await, [0]);
}
