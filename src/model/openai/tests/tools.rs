//! Tests of tools: sending them, receiving calls, and sending conversations with calls.

use serde_json::json;

use super::{
    super::super::{CallHead, FunctionTool, ToolCall, ToolCallPiece, ToolChoice, ToolResult},
    *,
};

fn with_tools() -> ChatRequest {
    let lookup = FunctionTool {
        name: "lookup".to_owned(),
        description: Some("Finds a word.".to_owned()),
        parameters: Some(json!({"type": "object"})),
        strict: Some(true),
    };
    let bare = FunctionTool {
        name: "now".to_owned(),
        description: None,
        parameters: None,
        strict: None,
    };
    ChatRequest {
        tools: vec![lookup, bare],
        ..request()
    }
}

fn called(calls: &Value) -> String {
    let chunk = json!({"choices": [{"index": 0, "delta": {"tool_calls": calls}}]});
    format!("data: {chunk}\n\n")
}

fn piece(index: usize, begins: Option<(&str, &str)>, arguments: &str) -> Delta {
    let begins = begins.map(|(id, name)| CallHead {
        id: id.to_owned(),
        name: name.to_owned(),
    });
    Delta::ToolCall(ToolCallPiece {
        index,
        begins,
        arguments: arguments.to_owned(),
    })
}

#[tokio::test]
async fn a_response_with_only_tool_calls_is_complete() {
    let body = [
        called(&json!([{"index": 0, "id": "c1", "function": {"name": "lookup", "arguments": ""}}])),
        called(&json!([{"index": 0, "function": {"arguments": "{\"w\":"}}])),
        called(&json!([{"index": 0, "function": {"arguments": "1}"}}])),
        finished("tool_calls"),
    ];
    assert_eq!(
        deltas_of(events(&body.concat())).await.unwrap(),
        [
            piece(0, Some(("c1", "lookup")), ""),
            piece(0, None, "{\"w\":"),
            piece(0, None, "1}"),
            Delta::Alive,
            COMPLETE,
        ]
    );
    let whole = json!({"choices": [{"finish_reason": "tool_calls", "message": {"role": "assistant", "content": null,
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "lookup", "arguments": "{}"}}]}}]});
    let whole = raw(
        "200 OK",
        "content-type: application/json\r\n",
        &whole.to_string(),
    );
    assert_eq!(
        deltas_of(whole).await.unwrap(),
        [piece(0, Some(("c1", "lookup")), "{}"), COMPLETE]
    );
}

#[tokio::test]
async fn endless_arguments_are_truncated() {
    let long = "x".repeat(ANSWER_BYTES_MAX / 2 + 1);
    let body = [
        called(&json!([{"index": 0, "id": "c1", "function": {"name": "f", "arguments": long}}])),
        called(&json!([{"index": 0, "function": {"arguments": long}}])),
        finished("tool_calls"),
    ];
    let deltas = deltas_of(events(&body.concat())).await.unwrap();
    assert_eq!(deltas.len(), 3, "the end of the stream is not read");
    assert_eq!(deltas[2], Delta::Stop(StopReason::Length));
}

#[tokio::test]
async fn tools_are_sent_in_the_chat_completions_format() {
    let answer = || events(&[said("ok"), finished("stop")].concat());
    let script = Script::new(vec![answer(), answer(), answer()]).await;
    let client = script.client();
    let one = ChatRequest {
        tool_choice: ToolChoice::Function("now".to_owned()),
        parallel_tool_calls: Some(false),
        ..with_tools()
    };
    let none = ChatRequest {
        tools: Vec::new(),
        ..one.clone()
    };
    for request in [with_tools(), one, none] {
        run(&client, request).await.unwrap();
    }
    let bodies = script.bodies();
    let wanted = json!([
        {"type": "function", "function": {"name": "lookup", "description": "Finds a word.",
            "parameters": {"type": "object", "properties": {}}, "strict": true}},
        {"type": "function", "function": {"name": "now"}},
    ]);
    assert_eq!(bodies[0]["tools"], wanted);
    assert!(bodies[0].get("tool_choice").is_none());
    assert_eq!(
        bodies[1]["tool_choice"],
        json!({"type": "function", "function": {"name": "now"}})
    );
    assert_eq!(bodies[1]["parallel_tool_calls"], false);
    for field in ["tools", "tool_choice", "parallel_tool_calls"] {
        assert!(bodies[2].get(field).is_none(), "{field}");
    }
}

#[tokio::test]
async fn calls_and_their_results_are_separate_messages() {
    let script = Script::new(vec![events(&[said("ok"), finished("stop")].concat())]).await;
    let call = |id: &str| ToolCall {
        id: id.to_owned(),
        name: "lookup".to_owned(),
        arguments: "{}".to_owned(),
    };
    let result = |id: &str| ToolResult {
        call_id: id.to_owned(),
        content: format!("of {id}"),
    };
    let turns = vec![
        ChatMessage::new(Role::User, "Look it up"),
        ChatMessage {
            calls: vec![call("a"), call("b")],
            ..ChatMessage::new(Role::Assistant, "")
        },
        ChatMessage {
            results: vec![result("a"), result("b")],
            ..ChatMessage::new(Role::User, "Well?")
        },
    ];
    let request = ChatRequest {
        turns,
        ..with_tools()
    };
    run(&script.client(), request).await.unwrap();
    let function = json!({"name": "lookup", "arguments": "{}"});
    assert_eq!(
        script.bodies()[0]["messages"],
        json!([
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Look it up"},
            {"role": "assistant", "content": null, "tool_calls": [
                {"id": "a", "type": "function", "function": function},
                {"id": "b", "type": "function", "function": function},
            ]},
            {"role": "tool", "content": "of a", "tool_call_id": "a"},
            {"role": "tool", "content": "of b", "tool_call_id": "b"},
            {"role": "user", "content": "Well?"},
        ])
    );
}

#[test]
fn the_table_lists_which_models_support_tools() {
    let client = client("http://127.0.0.1:9/v1", None);
    assert!(client.takes_tools("claude-sonnet-4-5"));
    assert!(client.takes_tools("unheard-of"));
    assert!(!client.takes_tools("text-embedding-3-small"));
}
