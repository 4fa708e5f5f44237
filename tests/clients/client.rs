//! Tests OpenVibe with the async-openai library, which reads the address and the key from the environment.

use std::{collections::HashMap, error::Error};

use async_openai::{
    Client,
    config::OpenAIConfig,
    error::{ApiErrorResponse, OpenAIError},
    types::{
        chat::{
            ChatCompletionMessageToolCalls, ChatCompletionRequestAssistantMessage,
            ChatCompletionRequestMessage, ChatCompletionRequestSystemMessage,
            ChatCompletionRequestToolMessage, ChatCompletionRequestUserMessage,
            ChatCompletionStreamOptions, ChatCompletionTool, ChatCompletionTools,
            CreateChatCompletionRequest, CreateChatCompletionStreamResponse, FinishReason,
            FunctionObject, StopConfiguration,
        },
        responses::{
            CreateResponse, EasyInputMessage, FunctionCallOutput, FunctionCallOutputItemParam,
            FunctionTool, FunctionToolCall, InputItem, InputParam, Item, OutputItem, Response,
            ResponseStreamEvent as Event, Status, Tool,
        },
    },
};
use futures::TryStreamExt;
use serde_json::{Value, json};

type Outcome = Result<(), Box<dyn Error>>;

const MODEL: &str = "scripted-1";

fn request(model: &str, input: impl Into<InputParam>) -> CreateResponse {
    CreateResponse {
        model: Some(model.to_owned()),
        input: input.into(),
        ..CreateResponse::default()
    }
}

/// Parameter schema of the `weather` function.
fn city() -> Value {
    json!({
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": false,
    })
}

fn with_tools(input: impl Into<InputParam>) -> CreateResponse {
    let weather = FunctionTool {
        name: "weather".to_owned(),
        description: Some("How it is outside.".to_owned()),
        strict: Some(true),
        parameters: Some(city()),
        ..FunctionTool::default()
    };
    CreateResponse {
        tools: Some(vec![Tool::Function(weather)]),
        ..request(MODEL, input)
    }
}

fn text(response: &Response) -> String {
    response.output_text().unwrap_or_default()
}

fn number(event: &Event) -> Value {
    json!(event)["sequence_number"].clone()
}

/// Returns all events of a stream, after checking that they are numbered from 0.
async fn events(
    client: &Client<OpenAIConfig>,
    request: CreateResponse,
) -> Result<Vec<Event>, OpenAIError> {
    let stream = client.responses().create_stream(request).await?;
    let events: Vec<Event> = stream.try_collect().await?;
    for (at, event) in events.iter().enumerate() {
        assert_eq!(number(event), at, "{event:?}");
    }
    Ok(events)
}

/// Returns the error of a response that must have this status.
fn rejected<T>(outcome: Result<T, OpenAIError>, status: u16) -> ApiErrorResponse {
    match outcome {
        Err(OpenAIError::ApiError(error)) if error.status_code == status => error,
        Err(error) => panic!("status {status} was expected: {error}"),
        Ok(_) => panic!("status {status} was expected"),
    }
}

async fn plain(client: &Client<OpenAIConfig>) -> Outcome {
    let request = CreateResponse {
        instructions: Some("You are terse.".to_owned()),
        ..request(MODEL, "One")
    };
    let response = client.responses().create(request).await?;
    assert_eq!(text(&response), "You are terse: answer 1 to One");
    assert_eq!(
        (response.status, response.model.as_str()),
        (Status::Completed, MODEL)
    );
    assert_eq!(response.usage.map(|usage| usage.total_tokens), Some(17));
    Ok(())
}

async fn streams(client: &Client<OpenAIConfig>) -> Outcome {
    let events = events(client, request("agent:vibe", "Two")).await?;
    let mut said = String::new();
    for event in &events {
        if let Event::ResponseOutputTextDelta(event) = event {
            said.push_str(&event.delta);
        }
    }
    assert!(said.starts_with("You are Vibe"), "{said}");
    assert!(matches!(&events[0], Event::ResponseCreated(_)));
    let Some(Event::ResponseCompleted(end)) = events.last() else {
        panic!("{:?}", events.last());
    };
    assert_eq!(text(&end.response), said);
    Ok(())
}

async fn agents(client: &Client<OpenAIConfig>) -> Outcome {
    let first = client
        .responses()
        .create(request("agent:coder", "Three"))
        .await?;
    assert!(text(&first).starts_with("You are Coder"));
    let next = CreateResponse {
        previous_response_id: Some(first.id),
        model: None,
        ..request("", "Four")
    };
    let next = client.responses().create(next).await?;
    assert!(text(&next).starts_with("You are Coder"));
    assert!(text(&next).ends_with("answer 2 to Four"));
    Ok(())
}

fn output_of(call: &FunctionToolCall) -> InputItem {
    InputItem::Item(Item::FunctionCallOutput(FunctionCallOutputItemParam {
        call_id: Some(call.call_id.clone()),
        output: FunctionCallOutput::Text("rain".to_owned()),
        id: None,
        status: None,
        name: None,
        namespace: None,
        caller: None,
    }))
}

async fn functions(client: &Client<OpenAIConfig>) -> Outcome {
    let question = "How is the weather?";
    let first = client.responses().create(with_tools(question)).await?;
    let [OutputItem::FunctionCall(call)] = first.output.as_slice() else {
        panic!("{:?}", first.output);
    };
    let arguments: Value = serde_json::from_str(&call.arguments)?;
    assert_eq!(arguments, json!({"city": "Bonn"}));
    let kept = CreateResponse {
        previous_response_id: Some(first.id.clone()),
        ..with_tools(vec![output_of(call)])
    };
    assert_eq!(text(&client.responses().create(kept).await?), "It is rain.");
    let whole = vec![
        InputItem::from(EasyInputMessage::from(question)),
        InputItem::from(first.output[0].clone()),
        output_of(call),
    ];
    let whole = client.responses().create(with_tools(whole)).await?;
    assert_eq!(text(&whole), "It is rain.");
    let mut pieces = String::new();
    let mut done = None;
    for event in events(client, with_tools(question)).await? {
        match event {
            Event::ResponseFunctionCallArgumentsDelta(event) => pieces.push_str(&event.delta),
            Event::ResponseFunctionCallArgumentsDone(event) => done = Some(event.arguments),
            _ => {}
        }
    }
    assert_eq!(pieces, call.arguments);
    assert_eq!(done, Some(pieces));
    Ok(())
}

async fn kept(client: &Client<OpenAIConfig>) -> Outcome {
    let request = CreateResponse {
        metadata: Some(HashMap::from([("n".to_owned(), "5".to_owned())])),
        ..request(MODEL, "Five")
    };
    let made = client.responses().create(request).await?;
    assert_eq!(client.responses().retrieve(&made.id).await?, made);
    client.responses().delete(&made.id).await?;
    rejected(client.responses().retrieve(&made.id).await, 404);
    Ok(())
}

async fn inputs(client: &Client<OpenAIConfig>) -> Outcome {
    let made = client.responses().create(request(MODEL, "Six")).await?;
    let items = client.responses().list_input_items(&made.id).await?;
    assert_eq!((items.data.len(), items.has_more), (1, false));
    assert!(items.first_id.is_some() && items.first_id == items.last_id);
    Ok(())
}

fn user(content: &str) -> ChatCompletionRequestMessage {
    ChatCompletionRequestUserMessage::from(content).into()
}

fn chat(model: &str, messages: Vec<ChatCompletionRequestMessage>) -> CreateChatCompletionRequest {
    CreateChatCompletionRequest {
        model: model.to_owned(),
        messages,
        ..CreateChatCompletionRequest::default()
    }
}

fn chat_with_tools(messages: Vec<ChatCompletionRequestMessage>) -> CreateChatCompletionRequest {
    let weather = ChatCompletionTools::Function(ChatCompletionTool {
        function: FunctionObject {
            name: "weather".to_owned(),
            description: Some("How it is outside.".to_owned()),
            parameters: Some(city()),
            strict: Some(true),
        },
    });
    CreateChatCompletionRequest {
        tools: Some(vec![weather]),
        ..chat(MODEL, messages)
    }
}

async fn chunks(
    client: &Client<OpenAIConfig>,
    request: CreateChatCompletionRequest,
) -> Result<Vec<CreateChatCompletionStreamResponse>, OpenAIError> {
    let stream = client.chat().create_stream(request).await?;
    stream.try_collect().await
}

async fn completions(client: &Client<OpenAIConfig>) -> Outcome {
    let system = ChatCompletionRequestSystemMessage::from("You are terse.");
    let request = CreateChatCompletionRequest {
        stop: Some(StopConfiguration::String("END".to_owned())),
        ..chat(MODEL, vec![system.into(), user("One")])
    };
    let completion = client.chat().create(request).await?;
    let choice = &completion.choices[0];
    assert_eq!(
        choice.message.content.as_deref(),
        Some("You are terse: answer 1 to One")
    );
    assert_eq!(choice.finish_reason, Some(FinishReason::Stop));
    assert_eq!(completion.usage.map(|usage| usage.total_tokens), Some(17));

    let request = CreateChatCompletionRequest {
        stream_options: Some(ChatCompletionStreamOptions {
            include_usage: Some(true),
            include_obfuscation: None,
        }),
        ..chat("agent:vibe", vec![user("Two")])
    };
    let chunks = chunks(client, request).await?;
    let choices = chunks.iter().flat_map(|chunk| &chunk.choices);
    let said: String = choices
        .filter_map(|choice| choice.delta.content.as_deref())
        .collect();
    assert!(said.starts_with("You are Vibe"), "{said}");
    let usage = chunks.last().and_then(|chunk| chunk.usage.as_ref());
    assert_eq!(usage.map(|usage| usage.total_tokens), Some(17));
    Ok(())
}

async fn calls(client: &Client<OpenAIConfig>) -> Outcome {
    let question = user("How is the weather?");
    let request = chat_with_tools(vec![question.clone()]);
    let first = client.chat().create(request.clone()).await?;
    let message = first.choices[0].message.clone();
    assert_eq!(
        first.choices[0].finish_reason,
        Some(FinishReason::ToolCalls)
    );
    let calls = message.tool_calls.unwrap_or_default();
    let [ChatCompletionMessageToolCalls::Function(call)] = calls.as_slice() else {
        panic!("{calls:?}");
    };
    let arguments: Value = serde_json::from_str(&call.function.arguments)?;
    assert_eq!(arguments, json!({"city": "Bonn"}));
    let result = ChatCompletionRequestToolMessage {
        content: "rain".into(),
        tool_call_id: call.id.clone(),
    };
    let asked = ChatCompletionRequestAssistantMessage {
        tool_calls: Some(calls.clone()),
        ..ChatCompletionRequestAssistantMessage::default()
    };
    let whole = vec![
        question,
        asked.into(),
        ChatCompletionRequestMessage::Tool(result),
    ];
    let second = client.chat().create(chat_with_tools(whole)).await?;
    assert_eq!(
        second.choices[0].message.content.as_deref(),
        Some("It is rain.")
    );
    let mut pieces = String::new();
    for chunk in chunks(client, request).await? {
        let choices = chunk.choices.into_iter();
        for piece in choices.flat_map(|choice| choice.delta.tool_calls.unwrap_or_default()) {
            let function = piece.function.unwrap_or_default();
            pieces.push_str(&function.arguments.unwrap_or_default());
        }
    }
    assert_eq!(pieces, call.function.arguments);
    Ok(())
}

async fn models(client: &Client<OpenAIConfig>) -> Outcome {
    let found = client.models().list().await?.data;
    let ids: Vec<&str> = found.iter().map(|model| model.id.as_str()).collect();
    assert_eq!(ids, ["agent:vibe", "agent:coder", MODEL]);
    assert_eq!(
        client.models().retrieve("agent:vibe").await?.owned_by,
        "openvibe"
    );
    rejected(client.models().retrieve("agent:nobody").await, 404);
    Ok(())
}

async fn errors(client: &Client<OpenAIConfig>) -> Outcome {
    let with_key = |key: &str| Client::with_config(OpenAIConfig::new().with_api_key(key));
    rejected(with_key("ov_wrong").models().list().await, 401);
    let other = with_key(&std::env::var("OTHER_API_KEY")?);
    rejected(other.models().list().await, 403);
    let hot = CreateResponse {
        temperature: Some(9.0),
        ..request(MODEL, "x")
    };
    let error = rejected(client.responses().create(hot).await, 400).api_error;
    assert_eq!(error.r#type.as_deref(), Some("invalid_request_error"));
    assert_eq!(error.param.as_deref(), Some("temperature"));
    let missing = rejected(
        client
            .responses()
            .create(request("agent:nobody", "x"))
            .await,
        404,
    );
    assert_eq!(missing.api_error.code.as_deref(), Some("agent_not_found"));
    let refused = request(MODEL, "be refused");
    let error = rejected(client.responses().create(refused.clone()).await, 429).api_error;
    assert_eq!(error.code.as_deref(), Some("rate_limit_exceeded"));
    rejected(events(client, refused).await, 429);
    rejected(
        client.responses().create(request(MODEL, "be away")).await,
        503,
    );
    let several = CreateChatCompletionRequest {
        n: Some(2),
        ..chat(MODEL, vec![user("x")])
    };
    let error = rejected(client.chat().create(several).await, 400).api_error;
    assert_eq!(error.code.as_deref(), Some("unsupported_parameter"));
    assert_eq!(error.param.as_deref(), Some("n"));
    let refused = chat(MODEL, vec![user("be refused")]);
    rejected(client.chat().create(refused.clone()).await, 429);
    rejected(chunks(client, refused).await, 429);
    let broken = chat(MODEL, vec![user("break off")]);
    assert!(chunks(client, broken).await.is_err());
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome {
    let client = Client::new();
    plain(&client).await?;
    streams(&client).await?;
    agents(&client).await?;
    functions(&client).await?;
    kept(&client).await?;
    inputs(&client).await?;
    completions(&client).await?;
    calls(&client).await?;
    models(&client).await?;
    errors(&client).await
}
