//! Requests and responses of servers that reason, want members back, or reject parts of a request.

use serde_json::json;

use super::{super::super::VendorMembers, *};
use crate::model::{FunctionTool, ToolCall, ToolResult};

#[expect(
    clippy::needless_pass_by_value,
    reason = "callers write it with `json!`"
)]
fn event(delta: Value) -> String {
    format!(
        "data: {}\n\n",
        json!({"choices": [{"index": 0, "delta": delta}]})
    )
}

fn tools() -> Vec<FunctionTool> {
    let add = FunctionTool {
        name: "add".to_owned(),
        description: None,
        parameters: Some(json!({"type": "object"})),
        strict: None,
    };
    vec![add]
}

fn offering() -> ChatRequest {
    ChatRequest {
        tools: tools(),
        ..request()
    }
}

/// A request after a round with one call.
fn second_round(vendor: VendorMembers) -> ChatRequest {
    let call = ToolCall {
        id: "c".to_owned(),
        name: "add".to_owned(),
        arguments: "{}".to_owned(),
    };
    let result = ToolResult {
        call_id: "c".to_owned(),
        content: "3".to_owned(),
    };
    let mut turns = request().turns;
    turns.push(ChatMessage {
        calls: vec![call],
        vendor,
        ..ChatMessage::new(Role::Assistant, "")
    });
    turns.push(ChatMessage {
        results: vec![result],
        ..ChatMessage::new(Role::User, "")
    });
    ChatRequest {
        turns,
        ..offering()
    }
}

fn members() -> VendorMembers {
    let members = json!({"message": {"reasoning_content": "Hm."},
        "calls": [{"extra_content": {"google": {"thought_signature": "s"}}}]});
    serde_json::from_value(members).unwrap()
}

#[tokio::test]
async fn members_of_calls_are_passed_on_and_returned_unchanged() {
    let call = json!({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "add", "arguments": "{}"},
        "extra_content": {"google": {"thought_signature": "s"}}}]});
    let body = [
        event(json!({"reasoning_content": "H"})),
        event(json!({"reasoning_content": "m."})),
        event(call),
        finished("tool_calls"),
    ];
    let done = [said("3"), finished("stop")].concat();
    let script = Script::new(vec![events(&body.concat()), events(&done)]).await;
    let client = script.client();
    let deltas = run(&client, offering()).await.unwrap();
    assert!(deltas.contains(&Delta::Vendor(members())), "{deltas:?}");
    assert!(!deltas.iter().any(|delta| matches!(delta, Delta::Text(_))));
    run(&client, second_round(members())).await.unwrap();
    let sent = &script.bodies()[1]["messages"][2];
    assert_eq!(
        *sent,
        json!({"role": "assistant", "content": null, "reasoning_content": "Hm.", "tool_calls": [
        {"id": "c", "type": "function", "function": {"name": "add", "arguments": "{}"},
            "extra_content": {"google": {"thought_signature": "s"}}}]})
    );
}

#[tokio::test]
async fn a_server_that_rejects_its_own_members_does_not_get_them_again() {
    let refusal =
        r#"{"error":{"message":"messages.2: property 'reasoning_content' is unsupported"}}"#;
    let refused = raw(
        "400 Bad Request",
        "content-type: application/json\r\n",
        refusal,
    );
    let done = || events(&[said("3"), finished("stop")].concat());
    let script = Script::new(vec![refused, done(), done()]).await;
    let client = script.client();
    for _ in 0..2 {
        run(&client, second_round(members())).await.unwrap();
    }
    let has = |body: &Value| body["messages"][2].get("reasoning_content").is_some();
    let bodies = script.bodies();
    assert_eq!(
        bodies.iter().map(has).collect::<Vec<_>>(),
        [true, false, false]
    );
}

#[tokio::test]
async fn a_refused_system_message_becomes_part_of_the_first_user_message() {
    let refusal = r#"{"error":{"message":"System role not supported"}}"#;
    let refused = raw(
        "400 Bad Request",
        "content-type: application/json\r\n",
        refusal,
    );
    let done = || events(&[said("Hi"), finished("stop")].concat());
    let script = Script::new(vec![refused, done(), done()]).await;
    let client = script.client();
    for _ in 0..2 {
        run(&client, request()).await.unwrap();
    }
    for body in &script.bodies()[1..] {
        let folded = json!([{"role": "user", "content": "Be brief.\n\nHello"}]);
        assert_eq!(body["messages"], folded);
    }
}

#[tokio::test]
async fn calls_that_the_server_could_not_parse_are_read_from_its_error_or_requested_again() {
    let failed = |generation: &str| {
        let error = json!({"error": {"code": "tool_use_failed", "message": "Failed", "failed_generation": generation}});
        raw(
            "400 Bad Request",
            "content-type: application/json\r\n",
            &error.to_string(),
        )
    };
    let done = events(&[said("Hi"), finished("stop")].concat());
    let replies = vec![
        failed("<function=add>{\"x\":1}</function>"),
        failed("oh"),
        failed("no"),
        done,
    ];
    let script = Script::new(replies).await;
    let client = script.client();
    let deltas = run(&client, offering()).await.unwrap();
    assert!(
        matches!(&deltas[0], Delta::ToolCall(piece) if piece.arguments == "{\"x\":1}"),
        "{deltas:?}"
    );
    assert_eq!(deltas[1], COMPLETE);
    assert_eq!(run(&client, offering()).await.unwrap()[0], text("Hi"));
    let limit = vec![failed("a"), failed("b"), failed("c")];
    let script = Script::new(limit).await;
    let error = run(&script.client(), offering()).await.unwrap_err();
    assert!(matches!(error, ModelError::BadRequest(_)), "{error:?}");
}

#[tokio::test]
async fn an_answer_without_text_is_only_a_thought_if_the_server_sent_reasoning() {
    let thought = |delta: Value| events(&[event(delta), finished("length")].concat());
    for reply in [
        thought(json!({"reasoning_content": "Hm."})),
        thought(json!({"reasoning": "Hm."})),
        thought(json!({"content": "<think>Hm."})),
        thought(json!({"content": [{"type": "thinking", "thinking": []}]})),
    ] {
        let script = Script::new(vec![reply]).await;
        let client = script.client();
        assert_eq!(window_reasoning(&client).await, 0);
        let error = run(&client, request()).await.unwrap_err();
        assert_eq!(
            error,
            ModelError::ThoughtOnly {
                output_tokens_max: 100
            }
        );
        assert_eq!(window_reasoning(&client).await, REASONING_TOKENS);
    }
    let error = deltas_of(events(&finished("length"))).await.unwrap_err();
    assert_eq!(error, ModelError::Empty);
}

async fn window_reasoning(client: &OpenAi) -> u32 {
    client.learned.of("m").await;
    let facts = client.learned.loaded("m");
    if facts.seen().reasons {
        REASONING_TOKENS
    } else {
        0
    }
}

#[tokio::test]
async fn a_model_that_closes_its_reasoning_alone_is_remembered() {
    let reply = || events(&[said("Hm."), said("</think>"), said("Hi"), finished("stop")].concat());
    let script = Script::new(vec![reply(), reply()]).await;
    let client = script.client();
    let first = run(&client, request()).await.unwrap();
    assert!(first.contains(&Delta::Discard), "{first:?}");
    let second = run(&client, request()).await.unwrap();
    assert_eq!(
        second,
        [
            Delta::Alive,
            Delta::Alive,
            text("Hi"),
            Delta::Alive,
            COMPLETE
        ]
    );
}

#[tokio::test]
async fn calls_in_the_text_and_of_the_older_format_are_calls() {
    let in_text = [
        said("Adding.\n<tool_call>{\"name\":\"add\","),
        said("\"arguments\":{}}</tool_call>"),
        finished("stop"),
    ];
    let older = [
        event(json!({"function_call": {"name": "add", "arguments": ""}})),
        event(json!({"function_call": {"arguments": "{}"}})),
        finished("function_call"),
    ];
    for body in [in_text.concat(), older.concat()] {
        let script = Script::new(vec![events(&body)]).await;
        let deltas = run(&script.client(), offering()).await.unwrap();
        let mut name = String::new();
        let mut arguments = String::new();
        for delta in &deltas {
            match delta {
                Delta::ToolCall(piece) => {
                    name.extend(piece.begins.iter().map(|head| head.name.as_str()));
                    arguments.push_str(&piece.arguments);
                }
                Delta::Text(text) => assert_eq!(text, "Adding.\n"),
                _ => {}
            }
        }
        assert_eq!(
            (name.as_str(), arguments.as_str()),
            ("add", "{}"),
            "{deltas:?}"
        );
    }
}

#[tokio::test]
async fn counts_in_separate_chunks_are_joined() {
    let usage = |usage: Value| format!("data: {}\n\n", json!({"choices": [], "usage": usage}));
    let body = [
        said("Hi"),
        finished("stop"),
        usage(json!({"prompt_tokens": 7})),
        usage(json!({"completion_tokens": 2})),
        usage(json!({"prompt_tokens": 7, "completion_tokens": 1})),
    ];
    let deltas = deltas_of(events(&body.concat())).await.unwrap();
    let last = Delta::Usage(Usage {
        input_tokens: 7,
        output_tokens: 2,
        ..Usage::default()
    });
    assert_eq!(deltas.last(), Some(&last));
}

#[tokio::test]
async fn models_that_cannot_chat_are_not_chosen() {
    let models = [
        "dall-e-3",
        "mistral-ocr",
        "omni-moderation",
        "llama-guard",
        "gpt-image-1",
        "sora-2",
        "gpt-realtime",
        "gpt-audio",
        "gpt-4o-transcribe",
        "qwen3",
    ];
    let data: Vec<Value> = models.iter().map(|id| json!({"id": id})).collect();
    let list = raw(
        "200 OK",
        "content-type: application/json\r\n",
        &json!({"data": data}).to_string(),
    );
    let script = Script::new(vec![list]).await;
    assert_eq!(script.client().choose_model(None).await, "qwen3");
}
