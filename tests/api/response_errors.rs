//! Errors and limits of `/v1/responses` and `/v1/models`, in the format of `OpenAI`'s API.

use serde_json::{Value, json};

use crate::support::{
    Answer, ModelsFile, Person, Team, id, team, team_with, text, unknown_id, visitor,
};

const PATH: &str = "/v1/responses";

/// Checks the status and the error format. Returns the error's type, code, and param.
fn error(reply: &crate::support::Reply, status: u16) -> (String, String, Value) {
    assert_eq!(reply.status, status, "{}", reply.text);
    let body = reply.json();
    let error = body["error"].as_object().unwrap();
    let mut fields: Vec<&str> = error.keys().map(String::as_str).collect();
    fields.sort_unstable();
    assert_eq!(fields, ["code", "message", "param", "type"], "{body}");
    let message = text(&body, "/error/message");
    assert!(!message.is_empty());
    (
        text(&body, "/error/type"),
        text(&body, "/error/code"),
        body["error"]["param"].clone(),
    )
}

async fn refused(who: &Person, body: Value, status: u16) -> (String, String, Value) {
    error(&who.post(PATH, body).await, status)
}

fn same(found: (String, String, Value), kind: &str, code: &str, param: impl Into<Value>) {
    let (found_kind, found_code, found_param) = found;
    assert_eq!((found_kind.as_str(), found_code.as_str()), (kind, code));
    assert_eq!(found_param, param.into());
}

#[tokio::test]
async fn every_error_has_the_openai_shape() {
    let team = team().await;
    let body = json!({"model": "tiny", "input": "Hi"});
    let reply = visitor(&team.app.base).post(PATH, body.clone()).await;
    assert_eq!(reply.header("www-authenticate").as_deref(), Some("Bearer"));
    same(
        error(&reply, 401),
        "authentication_error",
        "not_signed_in",
        Value::Null,
    );
    let wrong_key = team.bo.with_key("ov_wrong");
    for reply in [
        wrong_key.get("/v1/models").await,
        wrong_key
            .get(&format!("{PATH}/{}", unknown_id("resp")))
            .await,
    ] {
        same(
            error(&reply, 401),
            "authentication_error",
            "not_signed_in",
            Value::Null,
        );
    }

    let reader = team.bo.make_key(&["chat:read", "chat:write"]).await.0;
    same(
        refused(&reader, body.clone(), 403).await,
        "permission_error",
        "scope_missing",
        Value::Null,
    );
    let viewer = team.app.join(&team.ada, "Vera", "viewer").await;
    same(
        refused(&viewer, body.clone(), 403).await,
        "permission_error",
        "role_too_low",
        Value::Null,
    );
    let mut foreign = team.bo.clone();
    foreign.origin = Some("https://evil.example".to_owned());
    same(
        refused(&foreign, body.clone(), 403).await,
        "permission_error",
        "cross_origin",
        Value::Null,
    );

    let reply = team.bo.get(&format!("{PATH}/{}", unknown_id("resp"))).await;
    same(
        error(&reply, 404),
        "not_found_error",
        "response_not_found",
        Value::Null,
    );
    let reply = team
        .bo
        .get(&format!("{PATH}/{}/nothing", unknown_id("resp")))
        .await;
    same(
        error(&reply, 404),
        "not_found_error",
        "route_not_found",
        Value::Null,
    );
    let reply = team.bo.get(&format!("{PATH}/{}", unknown_id("msg"))).await;
    same(
        error(&reply, 400),
        "invalid_request_error",
        "invalid_value",
        "response_id",
    );
    let elsewhere = team.bo.in_workspace(&unknown_id("ws"));
    assert_eq!(
        refused(&elsewhere, body.clone(), 404).await.0,
        "not_found_error"
    );

    let reply = team.bo.patch(PATH, body.clone()).await;
    same(
        error(&reply, 405),
        "invalid_request_error",
        "method_not_allowed",
        Value::Null,
    );
    let large = json!({"model": "tiny", "input": "x".repeat(20 * 1024 * 1024)});
    same(
        refused(&team.bo, large, 413).await,
        "invalid_request_error",
        "body_too_large",
        Value::Null,
    );
    let reply = team.bo.post_bytes(PATH, "{\"input\": ").await;
    same(
        error(&reply, 400),
        "invalid_request_error",
        "invalid_json",
        "input",
    );
    let wrong = json!({"model": "tiny", "input": "Hi", "temperature": "warm"});
    same(
        refused(&team.bo, wrong, 400).await,
        "invalid_request_error",
        "invalid_field",
        "temperature",
    );
    // Other routes use the server's own format.
    assert_eq!(
        visitor(&team.app.base).get("/v1/agents").await.refused(401),
        "not_signed_in"
    );
}

#[tokio::test]
async fn an_invalid_request_names_the_field() {
    let team = team().await;
    for (body, param) in [
        (json!({"model": "tiny"}), "input"),
        (json!({"input": null}), "input"),
        (json!({"input": ""}), "input"),
        (json!({"input": 7}), "input"),
        (
            json!({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "data:"}]}]}),
            "input[0].content[0]",
        ),
        (
            json!({"input": [{"type": "item_reference"}]}),
            "input[0].id",
        ),
        (json!({"input": "Hi", "background": true}), "background"),
        (json!({"input": "Hi", "temperature": 3}), "temperature"),
        (json!({"input": "Hi", "truncation": "maybe"}), "truncation"),
        (
            json!({"input": "Hi", "text": {"format": {"type": "grammar"}}}),
            "text.format",
        ),
        (
            json!({"model": "claude-sonnet-4-5", "input": "Hi", "text": {"format": {"type": "json_object"}}}),
            "text.format",
        ),
        (
            json!({"input": "Hi", "previous_response_id": "resp_1"}),
            "previous_response_id",
        ),
        (
            json!({"input": "Hi", "tool_choice": "required"}),
            "tool_choice",
        ),
        (
            json!({"input": "Hi", "tools": [{"type": "function"}]}),
            "tools[0].name",
        ),
        (
            json!({"input": "Hi", "conversation": {"id": "conv_1"}}),
            "conversation",
        ),
        (json!({"input": "Hi", "n": 2}), "n"),
        (
            json!({"input": "Hi", "include": ["message.output_text.logprobs"]}),
            "include",
        ),
    ] {
        let (kind, _, found) = refused(&team.bo, body, 400).await;
        assert_eq!(kind, "invalid_request_error");
        assert_eq!(found, param);
    }
    assert!(team.model().requests().is_empty());
    assert!(
        team.bo.get("/v1/tasks").await.is(200)["data"]
            .as_array()
            .unwrap()
            .is_empty()
    );
}

#[tokio::test]
async fn a_model_error_is_reported_as_a_status_even_for_a_stream() {
    let team = team_with(&[("RETRY_DELAYS", "1ms"), ("TASK_TIMEOUT", "300ms")]).await;
    let limited = || Answer::status(429, "{}").header("retry-after", "7");
    let away = || Answer::status(503, "<html>");
    let cases: Vec<(Vec<Answer>, u16, &str, &str)> = vec![
        (
            vec![limited()],
            429,
            "rate_limit_error",
            "rate_limit_exceeded",
        ),
        (
            vec![away(), away()],
            503,
            "server_error",
            "model_unavailable",
        ),
        (
            vec![Answer::status(401, "{\"detail\":\"bad key sk-test-key\"}")],
            503,
            "server_error",
            "model_unavailable",
        ),
        (
            vec![Answer::too_large()],
            400,
            "invalid_request_error",
            "context_length_exceeded",
        ),
        (
            vec![Answer::status(400, "{\"error\":{\"message\":\"no\"}}")],
            400,
            "invalid_request_error",
            "model_refused",
        ),
    ];
    for stream in [false, true] {
        for (answers, status, kind, code) in cases.clone() {
            team.model().script("", answers);
            let body = json!({"model": "tiny", "input": "Hi", "stream": stream});
            let reply = team.bo.post(PATH, body).await;
            let found = error(&reply, status);
            assert_eq!((found.0.as_str(), found.1.as_str()), (kind, code));
            assert!(!reply.text.contains("sk-test-key"));
            if status == 429 {
                assert_eq!(reply.header("retry-after").as_deref(), Some("7"));
            }
        }
    }
    // After the response head has been sent, an error can only be reported in an event.
    for answers in [
        vec![Answer::stream().done()],
        vec![Answer::stream().silence()],
    ] {
        team.model().script("", answers.clone());
        let body = json!({"model": "tiny", "input": "Hi"});
        assert_eq!(refused(&team.bo, body, 503).await.0, "server_error");
        team.model().script("", answers);
        let body = json!({"model": "tiny", "input": "Hi", "stream": true});
        let reply = team.bo.post(PATH, body).await;
        assert_eq!(reply.status, 200);
        assert!(
            reply.text.contains("event: response.failed"),
            "{}",
            reply.text
        );
    }
}

async fn long_talk(team: &Team, rounds: usize) -> String {
    let mut previous = Value::Null;
    for n in 0..rounds {
        let body = json!({"model": "claude-sonnet-4-5", "input": format!("{n} {}", "word ".repeat(100)), "previous_response_id": previous});
        previous = team.bo.post(PATH, body).await.is(200)["id"].clone();
    }
    previous.as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_conversation_too_large_for_the_model_is_rejected_or_truncated() {
    let models = ModelsFile::with(1_000, false);
    let team = team_with(&[("MODELS_FILE", models.path())]).await;
    let last = long_talk(&team, 6).await;
    let body = |truncation: &str| json!({"model": "claude-sonnet-4-5", "input": "word ".repeat(300), "previous_response_id": last, "truncation": truncation});
    same(
        refused(&team.bo, body("disabled"), 400).await,
        "invalid_request_error",
        "context_length_exceeded",
        "input",
    );
    let response = team.bo.post(PATH, body("auto")).await.is(200);
    assert_eq!(response["truncation"], "auto");
    let request = team.model().requests().last().unwrap().clone();
    let turns = request.turns();
    assert!(turns.len() < 13 && turns.len() > 1, "{}", turns.len());
    assert!(turns[0].starts_with("user: "));
    assert!(!request.all().contains("0 word"));
    let alone =
        json!({"model": "claude-sonnet-4-5", "input": "word ".repeat(1_000), "truncation": "auto"});
    assert_eq!(
        refused(&team.bo, alone, 400).await.1,
        "context_length_exceeded"
    );
}

#[tokio::test]
async fn a_conversation_that_the_model_rejects_as_too_large_is_truncated_once() {
    let team = team().await;
    let last = long_talk(&team, 3).await;
    team.model().script("", [Answer::too_large()]);
    let body = json!({"model": "claude-sonnet-4-5", "input": "Well?", "previous_response_id": last, "truncation": "auto"});
    team.bo.post(PATH, body).await.is(200);
    let requests = team.model().requests();
    let turns = |n: usize| requests[requests.len() - n].turns().len();
    assert!(turns(1) < turns(2), "{} {}", turns(1), turns(2));
}

#[tokio::test]
async fn a_browser_session_with_several_workspaces_must_name_one() {
    let team = team().await;
    let other = team
        .ada
        .post("/v1/workspaces", json!({"name": "Other"}))
        .await
        .is(201);
    let body = json!({"model": "tiny", "input": "Hi"});
    same(
        refused(&team.ada, body.clone(), 400).await,
        "invalid_request_error",
        "workspace_required",
        "X-Workspace-Id",
    );
    let there = team.ada.in_workspace(&id(&other));
    let response = there.post(PATH, body).await.is(200);
    // The response can be read without naming its workspace, but continued only in that workspace.
    let path = format!("{PATH}/{}", id(&response));
    assert_eq!(team.ada.get(&path).await.is(200), response);
    let here = team.ada.in_workspace(&team.ada.workspace);
    let next = json!({"input": "Hi", "previous_response_id": response["id"]});
    assert_eq!(
        refused(&here, next, 404).await.1,
        "previous_response_not_found"
    );
    let key = here.make_key(&["agents:use"]).await.0;
    assert_eq!(key.get(&path).await.status, 404);
}
