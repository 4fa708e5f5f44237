//! `/v1/responses` as an event stream, and calls that end early.

use futures::StreamExt;
use serde_json::{Value, json};

use crate::support::{
    Answer, Gate, Person, TestDatabase, TestProcess, id, list, number, sign_up, team, team_with,
    text, within,
};

/// Events of a stream as name and data, after checking that they agree.
fn events(body: &str) -> Vec<(String, Value)> {
    let event = |block: &str| {
        let line = |name: &str| block.lines().find_map(|line| line.strip_prefix(name));
        let name = line("event: ")?.to_owned();
        let data: Value = serde_json::from_str(line("data: ")?).unwrap();
        assert_eq!(data["type"], name.as_str());
        Some((name, data))
    };
    let events: Vec<_> = body.split("\n\n").filter_map(event).collect();
    for (n, (_, data)) in events.iter().enumerate() {
        assert_eq!(data["sequence_number"], n, "{data}");
    }
    events
}

async fn stream(who: &Person, mut body: Value) -> Vec<(String, Value)> {
    body["stream"] = true.into();
    let reply = who.post("/v1/responses", body).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    let kind = reply.header("content-type").unwrap();
    assert!(kind.starts_with("text/event-stream"), "{kind}");
    events(&reply.text)
}

fn names(events: &[(String, Value)]) -> Vec<&str> {
    events
        .iter()
        .map(|(name, _)| name.trim_start_matches("response."))
        .collect()
}

/// A request whose response is read incrementally.
pub async fn open(who: &Person, body: Value) -> reqwest::Response {
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let mut request = client
        .post(format!("{}/v1/responses", who.base))
        .json(&body);
    for (name, value) in who.credentials() {
        request = request.header(name, value);
    }
    within("the head of a stream", request.send())
        .await
        .unwrap()
}

/// Waits for the only task of `who` and returns it.
async fn only_task(who: &Person) -> Value {
    within("the task of a call", async {
        loop {
            let tasks = list(&who.get("/v1/tasks").await.is(200), "/data");
            if let [task] = tasks.as_slice() {
                return task.clone();
            }
            crate::support::pause().await;
        }
    })
    .await
}

#[tokio::test]
async fn a_streamed_text_has_the_standard_event_order() {
    let team = team().await;
    team.model()
        .script("vibe", [Answer::pieces(&["Hel", "lo", "."])]);
    let events = stream(&team.bo, json!({"agent_id": "vibe", "input": "Hi"})).await;
    assert_eq!(
        names(&events),
        [
            "created",
            "in_progress",
            "output_item.added",
            "content_part.added",
            "output_text.delta",
            "output_text.delta",
            "output_text.delta",
            "output_text.done",
            "content_part.done",
            "output_item.done",
            "completed",
        ]
    );
    let data = |n: usize| &events[n].1;
    assert_eq!(data(0)["response"]["status"], "in_progress");
    assert_eq!(data(0)["response"]["agent_version"], 1);
    assert_eq!(data(2)["item"]["content"], json!([]));
    assert_eq!(data(3)["part"]["text"], "");
    assert_eq!(data(4)["delta"], "Hel");
    assert_eq!(data(7)["text"], "Hello.");
    let item = text(data(2), "/item/id");
    for n in 3..9 {
        assert_eq!(data(n)["item_id"], item.as_str());
        assert_eq!(data(n)["output_index"], 0);
        assert_eq!(data(n)["content_index"], 0);
    }
    let response = &data(10)["response"];
    assert_eq!(response["id"], data(0)["response"]["id"]);
    assert_eq!(response["status"], "completed");
    assert_eq!(response["output"][0], data(9)["item"]);
    assert_eq!(number(response, "/usage/total_tokens"), 18);
    let path = format!("/v1/responses/{}", id(response));
    assert_eq!(&team.bo.get(&path).await.is(200), response);
}

#[tokio::test]
async fn a_streamed_function_call_sends_its_arguments_in_chunks() {
    let team = team().await;
    let calls = |calls: Value| {
        format!(
            "data: {}\n\n",
            json!({"choices": [{"index": 0, "delta": {"tool_calls": calls}}]})
        )
    };
    let answer = Answer::stream()
        .piece("Let me look.")
        .raw(&calls(
            json!([{"index": 0, "id": "call_1", "function": {"name": "weather", "arguments": ""}}]),
        ))
        .raw(&calls(
            json!([{"index": 0, "function": {"arguments": "{\"city\":"}}]),
        ))
        .raw(&calls(
            json!([{"index": 0, "function": {"arguments": "\"Bonn\"}"}}]),
        ))
        .finish("tool_calls")
        .usage(9, 3)
        .done();
    team.model().script("", [answer]);
    let tools = json!([{"type": "function", "name": "weather", "parameters": {"type": "object"}}]);
    let events = stream(
        &team.bo,
        json!({"model": "tiny", "input": "Weather?", "tools": tools}),
    )
    .await;
    assert_eq!(
        names(&events)[5..],
        [
            "output_text.done",
            "content_part.done",
            "output_item.done",
            "output_item.added",
            "function_call_arguments.delta",
            "function_call_arguments.delta",
            "function_call_arguments.done",
            "output_item.done",
            "completed",
        ]
    );
    let done = &events[11].1;
    assert_eq!(done["arguments"], "{\"city\":\"Bonn\"}");
    assert_eq!(done["output_index"], 1);
    let output = &events[13].1["response"]["output"];
    assert_eq!(output[1]["call_id"], "call_1");
    assert_eq!(output[1]["status"], "completed");
}

#[tokio::test]
async fn a_response_truncated_by_the_models_limit_is_incomplete() {
    let team = team().await;
    let cut = || Answer::stream().piece("So far").finish("length").done();
    team.model().script("", [cut(), cut()]);
    let body = json!({"model": "tiny", "input": "Tell all", "max_output_tokens": 2});
    let response = team.bo.post("/v1/responses", body.clone()).await.is(200);
    assert_eq!(response["status"], "incomplete");
    assert_eq!(
        response["incomplete_details"],
        json!({"reason": "max_output_tokens"})
    );
    assert_eq!(response["output"][0]["status"], "incomplete");
    assert_eq!(response["completed_at"], Value::Null);
    let events = stream(&team.bo, body).await;
    assert_eq!(names(&events).last(), Some(&"incomplete"));
}

#[tokio::test]
async fn a_briefly_unavailable_model_is_retried_before_any_output() {
    let team = team().await;
    team.model().script(
        "",
        [
            Answer::status(503, "<html>"),
            Answer::pieces_open(&[]).cut(),
            Answer::text("Here."),
        ],
    );
    let events = stream(&team.bo, json!({"model": "tiny", "input": "Hi"})).await;
    assert_eq!(names(&events).last(), Some(&"completed"));
    assert_eq!(only_task(&team.bo).await["attempt"], 3);
}

#[tokio::test]
async fn a_stream_that_breaks_in_the_middle_fails_and_is_not_stored() {
    let team = team().await;
    team.model()
        .script("", [Answer::pieces_open(&["Half a", " word"]).cut()]);
    let events = stream(&team.bo, json!({"model": "tiny", "input": "Hi"})).await;
    assert_eq!(names(&events).last(), Some(&"failed"));
    let response = &events.last().unwrap().1["response"];
    assert_eq!(response["status"], "failed");
    assert_eq!(response["error"]["code"], "server_error");
    assert_eq!(response["output"][0]["content"][0]["text"], "Half a word");
    let path = format!("/v1/responses/{}", id(response));
    assert_eq!(team.bo.get(&path).await.status, 404);
    let task = only_task(&team.bo).await;
    assert_eq!(task["status"], "failed");
    assert_eq!(task["error"]["code"], "model_unavailable");
    assert_eq!(task["token_usage"]["estimated"], true);
}

#[tokio::test]
async fn a_stream_sends_its_first_text_before_the_model_has_finished() {
    let team = team().await;
    let gate = Gate::new();
    team.model().script(
        "",
        [Answer::pieces_open(&["One"])
            .wait(&gate)
            .piece(" two")
            .end()],
    );
    let body = json!({"model": "tiny", "input": "Count", "stream": true});
    let mut stream = open(&team.bo, body).await.bytes_stream();
    let mut seen = String::new();
    while !seen.contains("\"One\"") {
        let piece = within("the first words", stream.next()).await;
        seen.push_str(std::str::from_utf8(&piece.unwrap().unwrap()).unwrap());
    }
    assert!(!seen.contains("response.completed"));
    gate.open();
    while let Some(piece) = within("the rest", stream.next()).await {
        seen.push_str(std::str::from_utf8(&piece.unwrap()).unwrap());
    }
    assert_eq!(names(&events(&seen)).last(), Some(&"completed"));
}

#[tokio::test]
async fn a_disconnecting_client_cancels_the_models_response() {
    let team = team().await;
    let gate = Gate::new();
    let held = Answer::pieces_open(&["One"]).wait(&gate).end();
    team.model().script("vibe", [held]);
    let body = json!({"agent_id": "vibe", "input": "Count", "stream": true});
    let mut stream = open(&team.bo, body).await.bytes_stream();
    gate.reached().await;
    let first = within("a first event", stream.next()).await;
    first.unwrap().unwrap();
    drop(stream);
    team.model().given_up(1).await;
    let task = only_task(&team.bo).await;
    assert_eq!(task["status"], "cancelled");
    assert_eq!(task["error"], Value::Null);
    assert_eq!(task["output"], Value::Null);
    assert_eq!(task["token_usage"]["estimated"], true);
    assert!(number(&task, "/token_usage/input_tokens") > 0);
}

#[tokio::test]
async fn a_disconnecting_client_without_streaming_cancels_the_call() {
    let team = team().await;
    let gate = Gate::new();
    team.model()
        .script("", [Answer::text("Too late").held(&gate)]);
    let body = json!({"model": "tiny", "input": "Count"});
    {
        let asking = open(&team.bo, body);
        tokio::pin!(asking);
        tokio::select! {
            _ = &mut asking => panic!("nothing was to be answered"),
            () = gate.reached() => {}
        }
    }
    assert_eq!(only_task(&team.bo).await["status"], "cancelled");
}

#[tokio::test]
async fn a_call_waits_until_another_one_ends() {
    let team = team_with(&[("WORKERS", "1")]).await;
    let gate = Gate::new();
    let held = Answer::pieces_open(&["One"]).wait(&gate).end();
    team.model().script("", [held, Answer::text("Two")]);
    let body = json!({"model": "tiny", "input": "Count", "stream": true});
    let first = open(&team.bo, body.clone()).await;
    gate.reached().await;
    // The stream begins although the call still waits.
    let second = open(&team.bo, body).await;
    assert_eq!(second.status(), 200);
    assert_eq!(team.model().requests().len(), 1);
    gate.open();
    for call in [first, second] {
        let rest = within("the rest", call.text()).await.unwrap();
        assert!(rest.contains("response.completed"), "{rest}");
    }
}

#[tokio::test]
async fn a_server_that_shuts_down_completes_a_short_response() {
    let mut team = team().await;
    let gate = Gate::new();
    let held = Answer::pieces_open(&["One"])
        .wait(&gate)
        .piece(" two")
        .end();
    team.model().script("", [held]);
    let body = json!({"model": "tiny", "input": "Count", "stream": true});
    let stream = open(&team.bo, body).await;
    gate.reached().await;
    let open = gate.clone();
    let (text, ()) = tokio::join!(
        async { within("the rest", stream.text()).await.unwrap() },
        async {
            open.open();
            team.app.stop().await;
        }
    );
    assert_eq!(names(&events(&text)).last(), Some(&"completed"));
}

#[tokio::test]
async fn a_server_that_shuts_down_fails_a_long_response() {
    let mut team = team().await;
    let gate = Gate::new();
    let silent = Answer::pieces_open(&["One"]).wait(&gate).silence();
    team.model().script("", [silent]);
    let body = json!({"model": "tiny", "input": "Count", "stream": true});
    let stream = open(&team.bo, body).await;
    gate.reached().await;
    let (text, ()) = tokio::join!(
        async { within("the rest", stream.text()).await.unwrap() },
        team.app.stop()
    );
    let events = events(&text);
    assert_eq!(names(&events).last(), Some(&"failed"));
    let message = crate::support::text(&events.last().unwrap().1, "/response/error/message");
    assert!(message.contains("shutting down"), "{message}");
}

#[tokio::test]
async fn a_server_crash_in_the_middle_leaves_nothing_behind() {
    let (place, model) = (
        TestDatabase::migrated().await,
        crate::support::ModelServer::start().await,
    );
    for point in ["response_piece", "response_answered"] {
        let server =
            TestProcess::start(&place, &model, &[("FAILPOINT", point), ("SIGNUP", "open")]).await;
        let mut ada = sign_up(
            &server.base,
            &format!("Ada {point}").replace('_', " "),
            None,
        )
        .await;
        let made = ada
            .post("/v1/workspaces", json!({"name": "Works"}))
            .await
            .is(201);
        ada.enter(&id(&made)).await;
        let body = json!({"model": "tiny", "input": "Hi"});
        assert!(ada.try_post("/v1/responses", body.clone()).await.is_none());
        server.exited().await;
        let server = TestProcess::start(&place, &model, &[("SIGNUP", "open")]).await;
        let ada = ada.at(&server.base);
        let tasks = ada.get("/v1/tasks").await.is(200);
        assert_eq!(list(&tasks, "/data"), Vec::<Value>::new(), "{point}");
        let again = ada.post("/v1/responses", body).await.is(200);
        let path = format!("/v1/responses/{}", id(&again));
        ada.get(&path).await.is(200);
        server.kill().await;
    }
}
