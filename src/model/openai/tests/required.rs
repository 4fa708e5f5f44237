//! Tests of fields that clients of the API require: formats, stop sequences, and the reasoning effort.

use serde_json::json;

use super::{super::super::ReasoningEffort, *};

fn ok() -> Vec<u8> {
    events(&[said("{}"), finished("stop")].concat())
}

fn refused(message: &str) -> Vec<u8> {
    raw(
        "400 Bad Request",
        "",
        &json!({"error": {"message": message}}).to_string(),
    )
}

fn requires(format: RequiredFormat) -> ChatRequest {
    ChatRequest {
        required_format: Some(format),
        ..request()
    }
}

fn city() -> RequiredFormat {
    RequiredFormat::JsonSchema {
        name: "city".to_owned(),
        description: Some("A city.".to_owned()),
        schema: json!({"type": "object"}),
        strict: None,
    }
}

#[tokio::test]
async fn a_required_format_is_sent_as_given() {
    let script = Script::new(vec![ok(), ok()]).await;
    let client = script.client();
    for format in [RequiredFormat::JsonObject, city()] {
        run(&client, requires(format)).await.unwrap();
    }
    let bodies = script.bodies();
    assert_eq!(bodies[0]["response_format"], json!({"type": "json_object"}));
    assert_eq!(
        bodies[1]["response_format"],
        json!({"type": "json_schema", "json_schema":
            {"name": "city", "description": "A city.", "schema": {"type": "object"}}})
    );
}

/// Types of the formats that were requested.
fn formats(script: &Script) -> Vec<Value> {
    let bodies = script.bodies();
    let formats = bodies.iter().map(|body| &body["response_format"]["type"]);
    formats.cloned().collect()
}

#[tokio::test]
async fn a_refused_required_format_fails_the_call_and_is_not_remembered() {
    let script = Script::new(vec![refused("Invalid json schema: no type"), ok()]).await;
    let client = script.client();
    let error = run(&client, requires(city())).await.unwrap_err();
    assert!(matches!(error, ModelError::BadRequest(_)), "{error:?}");
    run(&client, schema_request("m")).await.unwrap();
    assert_eq!(formats(&script), ["json_schema", "json_schema"]);
}

#[tokio::test]
async fn a_required_format_is_sent_even_if_the_model_once_refused_schemas() {
    let refusal = || refused("This model does not support response format `json_schema`.");
    let script = Script::new(vec![refusal(), ok(), ok(), ok()]).await;
    let client = script.client();
    run(&client, schema_request("m")).await.unwrap();
    run(&client, requires(city())).await.unwrap();
    run(&client, schema_request("m")).await.unwrap();
    assert_eq!(
        formats(&script),
        ["json_schema", "json_object", "json_schema", "json_object"]
    );
}

#[test]
fn the_table_lists_which_models_support_json() {
    let client = client("http://127.0.0.1:9/v1", None);
    assert!(client.takes_json("gpt-5-mini"));
    assert!(client.takes_json("unheard-of"));
    assert!(!client.takes_json("claude-sonnet-4-5"));
}

#[tokio::test]
async fn stop_sequences_are_sent() {
    let script = Script::new(vec![ok(), ok()]).await;
    let client = script.client();
    let stops = ChatRequest {
        stop: vec!["END".to_owned(), "\n\n".to_owned()],
        ..request()
    };
    run(&client, stops).await.unwrap();
    run(&client, request()).await.unwrap();
    let bodies = script.bodies();
    assert_eq!(bodies[0]["stop"], json!(["END", "\n\n"]));
    assert!(bodies[1].get("stop").is_none());
}

fn reasons(model: &str, effort: ReasoningEffort) -> ChatRequest {
    ChatRequest {
        model: model.to_owned(),
        reasoning_effort: Some(effort),
        ..request()
    }
}

#[tokio::test]
async fn a_reasoning_effort_is_sent_only_to_models_whose_entry_lists_it() {
    let script = Script::new(vec![ok(), ok(), ok(), ok()]).await;
    let client = script.client();
    for (model, effort) in [
        ("gpt-5-mini", ReasoningEffort::Minimal),
        ("gpt-5-mini", ReasoningEffort::Xhigh),
        ("claude-sonnet-4-5", ReasoningEffort::High),
        ("unheard-of", ReasoningEffort::High),
    ] {
        run(&client, reasons(model, effort)).await.unwrap();
    }
    let sent: Vec<Value> = script
        .bodies()
        .iter()
        .map(|body| body["reasoning_effort"].clone())
        .collect();
    assert_eq!(
        sent,
        [json!("minimal"), Value::Null, Value::Null, Value::Null]
    );
}

#[tokio::test]
async fn a_refused_reasoning_effort_is_not_sent_again() {
    let refusal = refused("Unknown field: reasoning_effort");
    let script = Script::new(vec![refusal, ok(), ok()]).await;
    let client = script.client();
    for _ in 0..2 {
        let request = reasons("gpt-oss-20b", ReasoningEffort::Low);
        run(&client, request).await.unwrap();
    }
    let sent: Vec<Value> = script
        .bodies()
        .iter()
        .map(|body| body["reasoning_effort"].clone())
        .collect();
    assert_eq!(sent, [json!("low"), Value::Null, Value::Null]);
}
