//! Dialects of the chat-completions protocol: how servers really respond, as a table. Each row is a model of one scripted server, and
//! an agent that uses it. The rows were written from the servers' documentation and bug reports, not recorded.

use std::collections::HashMap;

use futures::{StreamExt, stream};
use serde_json::{Map, Value, json};

use crate::support::{
    Answer, Person, Request, Socket, Team, id, instructions_of, list, team_with, text,
};

/// Reasoning that no person and no later request may see.
const THOUGHT: &str = "Bo mixed up the dates.";
/// Number of rows that run at the same time.
const AT_ONCE: usize = 8;

/// Place of the reasoning.
#[derive(Clone, Copy, PartialEq)]
enum Thought {
    None,
    /// A member of the message.
    Field(&'static str),
    /// `reasoning` and `reasoning_details`.
    Details,
    /// Text between these tags.
    Tags(&'static str, &'static str),
    /// Text before a closing tag, whose opening one is part of the prompt.
    Closing,
    /// Parts of the content.
    Parts,
}

/// Format of a call.
#[derive(Clone, Copy, PartialEq)]
enum Calls {
    /// The arguments arrive in pieces.
    Pieces,
    /// A call arrives in one piece.
    Whole,
    WithoutIndex,
    WithoutId,
    /// The arguments are an object.
    Object,
    /// `function_call`, the format before `tool_calls`.
    Legacy,
    /// In the text, because the server does not parse the model's format.
    Text,
    /// In the error of a server that could not parse them.
    Failed,
}

#[derive(Clone, Copy, PartialEq)]
enum Transport {
    Events,
    /// Events that end with `\r\n`, after comments.
    Comments,
    /// One object per line.
    Lines,
    /// One object, because the server does not stream.
    Whole,
}

#[derive(Clone, Copy, PartialEq)]
enum End {
    /// A finish reason and `[DONE]`.
    Both,
    /// A finish reason, then the end of the connection.
    Reason,
    /// Only `[DONE]`.
    Done,
}

#[derive(Clone, Copy, PartialEq)]
enum Counts {
    Last,
    /// In the chunk with the finish reason.
    WithReason,
    /// In each chunk, growing.
    Each,
    /// Each count in a chunk of its own.
    Parts,
    None,
}

/// Members that the server wants back with calls.
#[derive(Clone, Copy, PartialEq)]
enum Wants {
    Nothing,
    Reasoning,
    Signature,
    /// The server rejects members that are not in its schema, even its own.
    NoMembers,
}

#[derive(Clone, Copy, PartialEq)]
enum Refuses {
    MaxTokens,
    StreamOptions,
    System,
}

#[derive(Clone, Copy)]
struct Row {
    name: &'static str,
    thought: Thought,
    calls: Calls,
    transport: Transport,
    end: End,
    counts: Counts,
    wants: Wants,
    refuses: &'static [Refuses],
}

const PLAIN: Row = Row {
    name: "",
    thought: Thought::None,
    calls: Calls::Pieces,
    transport: Transport::Events,
    end: End::Both,
    counts: Counts::Last,
    wants: Wants::Nothing,
    refuses: &[],
};

const CONTENT: Thought = Thought::Field("reasoning_content");
const REASONING: Thought = Thought::Field("reasoning");
const THINK: Thought = Thought::Tags("<think>", "</think>");
const HARMONY: Thought = Thought::Tags(
    "<|channel|>analysis<|message|>",
    "<|end|><|start|>assistant<|channel|>final<|message|>",
);

#[rustfmt::skip]
const ROWS: &[Row] = &[
    Row { name: "openai", ..PLAIN },
    Row { name: "openaireasoning", refuses: &[Refuses::MaxTokens], ..PLAIN },
    Row { name: "azure", refuses: &[Refuses::StreamOptions], counts: Counts::None, ..PLAIN },
    Row { name: "azurereasoning", refuses: &[Refuses::MaxTokens], ..PLAIN },
    Row { name: "deepseekchat", counts: Counts::WithReason, ..PLAIN },
    Row { name: "deepseekreasoner", thought: CONTENT, wants: Wants::Reasoning, counts: Counts::WithReason, ..PLAIN },
    Row { name: "gemini", calls: Calls::Whole, counts: Counts::Each, ..PLAIN },
    Row { name: "geminithree", calls: Calls::Whole, counts: Counts::Each, wants: Wants::Signature, ..PLAIN },
    Row { name: "geminithought", thought: Thought::Tags("<thought>", "</thought>"), calls: Calls::Whole, wants: Wants::Signature, ..PLAIN },
    Row { name: "gemma", refuses: &[Refuses::System], calls: Calls::Whole, ..PLAIN },
    Row { name: "vertex", calls: Calls::Whole, wants: Wants::Signature, end: End::Both, ..PLAIN },
    Row { name: "mistral", calls: Calls::Whole, counts: Counts::WithReason, wants: Wants::NoMembers, ..PLAIN },
    Row { name: "magistral", thought: Thought::Parts, calls: Calls::Whole, counts: Counts::WithReason, ..PLAIN },
    Row { name: "magistraltext", thought: Thought::Tags("[THINK]", "[/THINK]"), calls: Calls::Whole, ..PLAIN },
    Row { name: "groq", calls: Calls::Whole, wants: Wants::NoMembers, thought: REASONING, ..PLAIN },
    Row { name: "groqfailed", calls: Calls::Failed, ..PLAIN },
    Row { name: "groqraw", thought: THINK, calls: Calls::Whole, ..PLAIN },
    Row { name: "together", thought: THINK, counts: Counts::WithReason, ..PLAIN },
    Row { name: "togethergptoss", thought: REASONING, ..PLAIN },
    Row { name: "openrouter", thought: Thought::Details, transport: Transport::Comments, ..PLAIN },
    Row { name: "openrouterplain", transport: Transport::Comments, ..PLAIN },
    Row { name: "xai", thought: CONTENT, calls: Calls::Whole, counts: Counts::Each, ..PLAIN },
    Row { name: "anthropic", calls: Calls::Pieces, counts: Counts::WithReason, ..PLAIN },
    Row { name: "anthropicwhole", transport: Transport::Whole, ..PLAIN },
    Row { name: "bedrock", thought: CONTENT, counts: Counts::Last, ..PLAIN },
    Row { name: "cohere", calls: Calls::Whole, counts: Counts::WithReason, ..PLAIN },
    Row { name: "perplexity", thought: THINK, counts: Counts::Each, calls: Calls::Text, ..PLAIN },
    Row { name: "fireworks", thought: CONTENT, counts: Counts::WithReason, ..PLAIN },
    Row { name: "fireworksraw", thought: THINK, ..PLAIN },
    Row { name: "cerebras", thought: REASONING, calls: Calls::Whole, wants: Wants::NoMembers, ..PLAIN },
    Row { name: "sambanova", thought: THINK, calls: Calls::Whole, ..PLAIN },
    Row { name: "moonshot", thought: CONTENT, wants: Wants::Reasoning, counts: Counts::WithReason, ..PLAIN },
    Row { name: "qwen", thought: CONTENT, ..PLAIN },
    Row { name: "qwenlocal", thought: THINK, calls: Calls::Text, ..PLAIN },
    Row { name: "zhipu", thought: CONTENT, calls: Calls::Whole, counts: Counts::WithReason, ..PLAIN },
    Row { name: "minimax", thought: THINK, calls: Calls::Whole, ..PLAIN },
    Row { name: "minimaxdetails", thought: Thought::Details, ..PLAIN },
    Row { name: "stepfun", thought: REASONING, ..PLAIN },
    Row { name: "hunyuan", thought: CONTENT, counts: Counts::Each, ..PLAIN },
    Row { name: "doubao", thought: CONTENT, wants: Wants::Reasoning, ..PLAIN },
    Row { name: "siliconflow", thought: CONTENT, counts: Counts::Each, ..PLAIN },
    Row { name: "nebius", thought: THINK, ..PLAIN },
    Row { name: "deepinfra", thought: REASONING, counts: Counts::Each, ..PLAIN },
    Row { name: "novita", thought: THINK, ..PLAIN },
    Row { name: "hyperbolic", end: End::Done, ..PLAIN },
    Row { name: "nvidia", thought: CONTENT, ..PLAIN },
    Row { name: "cloudflare", calls: Calls::Object, end: End::Done, counts: Counts::Parts, ..PLAIN },
    Row { name: "huggingface", thought: THINK, ..PLAIN },
    Row { name: "githubmodels", refuses: &[Refuses::MaxTokens], ..PLAIN },
    Row { name: "ollama", thought: REASONING, calls: Calls::Whole, ..PLAIN },
    Row { name: "ollamaraw", thought: THINK, calls: Calls::Whole, ..PLAIN },
    Row { name: "ollamalines", transport: Transport::Lines, calls: Calls::Object, counts: Counts::WithReason, end: End::Reason, ..PLAIN },
    Row { name: "llamacpp", thought: CONTENT, ..PLAIN },
    Row { name: "llamacppraw", thought: Thought::Closing, calls: Calls::Text, ..PLAIN },
    Row { name: "vllm", thought: CONTENT, ..PLAIN },
    Row { name: "vllmraw", thought: Thought::Closing, ..PLAIN },
    Row { name: "vllmgptoss", thought: HARMONY, ..PLAIN },
    Row { name: "sglang", thought: CONTENT, calls: Calls::Whole, ..PLAIN },
    Row { name: "sglangraw", thought: Thought::Closing, calls: Calls::Whole, ..PLAIN },
    Row { name: "lmstudio", thought: THINK, ..PLAIN },
    Row { name: "lmstudiogptoss", thought: HARMONY, ..PLAIN },
    Row { name: "localai", calls: Calls::Legacy, end: End::Reason, ..PLAIN },
    Row { name: "tgi", calls: Calls::Object, counts: Counts::WithReason, end: End::Reason, ..PLAIN },
    Row { name: "koboldcpp", calls: Calls::WithoutIndex, counts: Counts::None, ..PLAIN },
    Row { name: "textgenerationwebui", thought: Thought::Tags("<thinking>", "</thinking>"), counts: Counts::WithReason, ..PLAIN },
    Row { name: "llamafile", calls: Calls::Text, counts: Counts::None, end: End::Reason, ..PLAIN },
    Row { name: "mlx", thought: Thought::Tags("<THINK>", "</THINK>"), calls: Calls::Text, counts: Counts::None, ..PLAIN },
    Row { name: "tabbyapi", calls: Calls::WithoutIndex, ..PLAIN },
    Row { name: "aphrodite", thought: Thought::Tags("<reasoning>", "</reasoning>"), ..PLAIN },
    Row { name: "jan", calls: Calls::WithoutId, ..PLAIN },
    Row { name: "litellm", thought: CONTENT, wants: Wants::Signature, counts: Counts::Last, ..PLAIN },
    Row { name: "portkey", transport: Transport::Whole, thought: CONTENT, wants: Wants::Reasoning, ..PLAIN },
    Row { name: "oneapi", calls: Calls::Legacy, ..PLAIN },
];

/// A scripted message before it is put into a dialect.
struct Message<'a> {
    text: String,
    call: Option<(&'a str, Value)>,
}

/// Response of a row's model to a request.
fn respond(row: &Row, request: &Request) -> Answer {
    let body = &request.body;
    if let Some(refusal) = refusal(row, body) {
        return Answer::status(400, &json!({"error": {"message": refusal}}).to_string());
    }
    let messages = list(body, "/messages");
    let last = messages.last().unwrap();
    let asked = last["content"].as_str().unwrap_or_default();
    let has_tools = !list_of(body, "tools").is_empty();
    let is_due = |word: &str| has_tools && last["role"] == "user" && asked.contains(word);
    let call = if is_due("LOOKUP") {
        Some(("search_messages", json!({"query": "zebra"})))
    } else if is_due("LIST") {
        Some(("list_action_items", json!({})))
    } else if is_due("WEATHER") {
        Some(("weather", json!({"city": "Bonn"})))
    } else {
        None
    };
    let text = match &call {
        Some(_) => String::new(),
        None if last["role"] == "tool" => "It is done.".to_owned(),
        None => format!("Hello from {}.", row.name),
    };
    if asked.contains("STOP") {
        return Answer::pieces_open(&["Hello"]).silence();
    }
    answer(row, &Message { text, call })
}

fn list_of(value: &Value, name: &str) -> Vec<Value> {
    value[name].as_array().cloned().unwrap_or_default()
}

/// Message of the error for a request that the row's server does not accept.
fn refusal(row: &Row, body: &Value) -> Option<String> {
    let messages = list(body, "/messages");
    let refuses = |what| row.refuses.contains(&what);
    if refuses(Refuses::MaxTokens) && body.get("max_tokens").is_some() {
        return Some("Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.".to_owned());
    }
    if refuses(Refuses::StreamOptions) && body.get("stream_options").is_some() {
        return Some("Unrecognized request argument supplied: stream_options".to_owned());
    }
    if refuses(Refuses::System) && messages[0]["role"] == "system" {
        return Some("Developer instruction is not enabled for models/gemma".to_owned());
    }
    let is_seen = |message: &Value| message["content"].to_string().contains(THOUGHT);
    if messages.iter().any(is_seen) {
        return Some("reasoning was sent as text".to_owned());
    }
    let with_calls = messages
        .iter()
        .filter(|message| message["tool_calls"].is_array());
    for message in with_calls {
        let calls = list(message, "/tool_calls");
        let signature = |call: &Value| call["extra_content"]["google"]["thought_signature"] == "s";
        let is_wrong = match row.wants {
            Wants::Nothing => false,
            Wants::Reasoning => message["reasoning_content"] != THOUGHT,
            Wants::Signature => !calls.iter().all(signature),
            Wants::NoMembers => {
                let members = message.as_object().unwrap();
                members.keys().any(|name| name.starts_with("reasoning"))
            }
        };
        if is_wrong {
            return Some(match row.wants {
                Wants::Reasoning => "The `reasoning_content` in the thinking mode must be passed back to the API.".to_owned(),
                Wants::Signature => "Function call is missing a thought_signature in functionCall parts.".to_owned(),
                _ => "[{\"loc\":[\"body\",\"messages\",2,\"assistant\",\"reasoning\"],\"msg\":\"Extra inputs are not permitted\"}]".to_owned(),
            });
        }
    }
    None
}

/// Splits a text into pieces of a few characters, so that tags are split too.
fn pieces(text: &str) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    chars
        .chunks(5)
        .map(|piece| piece.iter().collect())
        .collect()
}

/// Deltas of a message in the row's dialect.
fn deltas(row: &Row, message: &Message<'_>) -> Vec<Value> {
    let mut deltas = vec![json!({"role": "assistant", "content": ""})];
    let mut text = message.text.clone();
    if let (Some((name, arguments)), Calls::Text) = (&message.call, row.calls) {
        let call = json!({"name": name, "arguments": arguments});
        text = format!("<tool_call>\n{call}\n</tool_call>");
    }
    match row.thought {
        Thought::None => {}
        Thought::Field(name) => {
            deltas.extend(
                pieces(THOUGHT)
                    .into_iter()
                    .map(|piece| json!({name: piece, "content": null})),
            );
        }
        Thought::Details => deltas.extend(pieces(THOUGHT).into_iter().map(|piece| {
            json!({"reasoning": piece, "reasoning_details": [
                {"type": "reasoning.text", "index": 0, "format": "unknown", "text": piece}]})
        })),
        // The thought is followed by a call outside of the text.
        Thought::Tags(open, close) if text.is_empty() => {
            text = format!("{open}{THOUGHT}{}", ends(close));
        }
        Thought::Tags(open, close) => text = format!("{open}{THOUGHT}{close}\n\n{text}"),
        Thought::Closing if text.is_empty() => text = format!("{THOUGHT}\n</think>\n\n"),
        Thought::Closing => text = format!("{THOUGHT}\n</think>\n\n{text}"),
        Thought::Parts => deltas.push(json!({"content": [
            {"type": "thinking", "thinking": [{"type": "text", "text": THOUGHT}]}]})),
    }
    deltas.extend(
        pieces(&text)
            .into_iter()
            .map(|piece| json!({"content": piece})),
    );
    if let Some((name, arguments)) = &message.call {
        deltas.extend(call_deltas(row, name, arguments));
    }
    deltas
}

/// The end of a thought that is followed by a call; gpt-oss does not start another channel for text.
fn ends(close: &str) -> &str {
    close.split_once("<|start|>").map_or(close, |(end, _)| end)
}

fn call_deltas(row: &Row, name: &str, arguments: &Value) -> Vec<Value> {
    let whole = arguments.to_string();
    let mut call = json!({"index": 0, "id": "call_1", "type": "function", "function": {"name": name, "arguments": whole}});
    if row.wants == Wants::Signature {
        call["extra_content"] = json!({"google": {"thought_signature": "s"}});
    }
    let calls = |call: Value| json!({"tool_calls": [call]});
    let without = |member: &str| {
        let mut call = call.clone();
        call.as_object_mut().unwrap().remove(member);
        call
    };
    match row.calls {
        Calls::Text | Calls::Failed => Vec::new(),
        Calls::Whole => vec![calls(call)],
        Calls::WithoutIndex => vec![calls(without("index"))],
        Calls::WithoutId => vec![calls(without("id"))],
        Calls::Object => {
            call["function"]["arguments"] = arguments.clone();
            vec![calls(call)]
        }
        Calls::Legacy => vec![
            json!({"function_call": {"name": name, "arguments": ""}}),
            json!({"function_call": {"arguments": whole}}),
        ],
        Calls::Pieces => {
            call["function"]["arguments"] = "".into();
            let rest = pieces(&whole).into_iter();
            let rest =
                rest.map(|piece| calls(json!({"index": 0, "function": {"arguments": piece}})));
            std::iter::once(calls(call)).chain(rest).collect()
        }
    }
}

/// Joins deltas to a message.
fn joined(deltas: Vec<Value>) -> Value {
    let mut message = Map::new();
    let mut arguments = String::new();
    for delta in deltas {
        for (name, value) in delta.as_object().unwrap() {
            match (message.get_mut(name), value) {
                (Some(Value::String(text)), Value::String(more)) => text.push_str(more),
                (Some(Value::Array(_)), Value::Array(_)) | (_, Value::Null) => {}
                _ => {
                    message.insert(name.clone(), value.clone());
                }
            }
        }
        let piece = delta.pointer("/tool_calls/0/function/arguments");
        arguments.push_str(piece.and_then(Value::as_str).unwrap_or_default());
    }
    if !arguments.is_empty() {
        message["tool_calls"][0]["function"]["arguments"] = arguments.into();
    }
    message.into()
}

fn answer(row: &Row, message: &Message<'_>) -> Answer {
    if let (Some((name, arguments)), Calls::Failed) = (&message.call, row.calls) {
        let generation = format!("<function={name}>{arguments}</function>");
        let error = json!({"error": {"message": "Failed to call a function. Please adjust your prompt.",
            "type": "invalid_request_error", "code": "tool_use_failed", "failed_generation": generation}});
        return Answer::status(400, &error.to_string());
    }
    let reason = match (&message.call, row.calls) {
        (None, _) | (_, Calls::Text | Calls::Object) => "stop",
        (_, Calls::Legacy) => "function_call",
        _ => "tool_calls",
    };
    let usage = json!({"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18});
    let deltas = deltas(row, message);
    if row.transport == Transport::Whole {
        let whole = json!({"choices": [{"index": 0, "message": joined(deltas), "finish_reason": reason}], "usage": usage});
        return Answer::stream().json().raw(&whole.to_string());
    }
    let mut chunks = Vec::new();
    for delta in deltas {
        let mut chunk = json!({"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta, "finish_reason": null}]});
        if row.counts == Counts::Each {
            chunk["usage"] = json!({"prompt_tokens": 11, "completion_tokens": chunks.len()});
        }
        chunks.push(chunk);
    }
    if row.end != End::Done {
        let mut chunk = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]});
        if matches!(row.counts, Counts::WithReason | Counts::Each) {
            chunk["usage"] = usage.clone();
        }
        chunks.push(chunk);
    }
    match row.counts {
        Counts::Last => chunks.push(json!({"choices": [], "usage": usage})),
        Counts::Parts => {
            chunks.push(json!({"choices": [], "usage": {"prompt_tokens": 11}}));
            chunks.push(json!({"choices": [], "usage": {"completion_tokens": 7}}));
        }
        Counts::WithReason | Counts::Each | Counts::None => {}
    }
    let mut all = chunks
        .iter()
        .fold(Answer::stream(), |answer, chunk| match row.transport {
            Transport::Events | Transport::Whole => answer.raw(&format!("data: {chunk}\n\n")),
            Transport::Comments => {
                answer.raw(&format!(": PROCESSING\r\n\r\ndata: {chunk}\r\n\r\n"))
            }
            Transport::Lines => answer.raw(&format!("{chunk}\n")),
        });
    if row.end != End::Reason {
        all = all.done();
    }
    all
}

/// A model's draft of a resolution, in the row's dialect.
fn draft(row: &Row) -> Answer {
    let draft = json!({"headline": "Ship on Monday", "conclusion": "Ada and Bo agreed on Monday.",
        "key_points": [{"text": "Bo agreed to Monday", "sources": ["m4"]}], "action_items": [],
        "open_questions": [], "deferred_items": []});
    answer(
        row,
        &Message {
            text: draft.to_string(),
            call: None,
        },
    )
}

/// Connects the rows: a model and an agent for each.
async fn connect(t: &Team) {
    let names: Vec<&str> = ROWS.iter().map(|row| row.name).collect();
    t.model().offer(&names);
    let by_name: HashMap<&str, &Row> = ROWS.iter().map(|row| (row.name, row)).collect();
    let of_model = move |request: &Request| {
        let model = request.body["model"].as_str().unwrap().to_owned();
        *by_name
            .get(model.as_str())
            .unwrap_or_else(|| panic!("no row {model}"))
    };
    for speaker in ["", "target"] {
        let of_model = of_model.clone();
        t.model()
            .answer_by(speaker, move |request| respond(of_model(request), request));
    }
    t.model().answer_by("resolver", move |request| {
        let row = of_model(request);
        match refusal(row, &request.body) {
            Some(refusal) => {
                Answer::status(400, &json!({"error": {"message": refusal}}).to_string())
            }
            None => draft(row),
        }
    });
    for row in ROWS {
        t.model()
            .answer_by(row.name, move |request| respond(row, request));
        let form = json!({"name": row.name, "display_name": row.name, "instructions": instructions_of(row.name),
            "model": row.name, "tools": [{"type": "file_search"}]});
        t.ada.post("/v1/agents", form).await.is(201);
    }
}

/// Last message of a thread after a question has been answered.
async fn replied(t: &Team, socket: &mut Socket, thread: &str, content: &str) -> String {
    let task = t.ada.ask(thread, content).await;
    let done = socket.ended(&task).await;
    assert_eq!(done["status"], "completed", "{content}: {done}");
    t.ada.contents(thread).await.pop().unwrap()
}

/// Replies in chat: two turns, calls with and without arguments, and one that is stopped.
async fn chat(t: &Team, row: &Row) {
    let name = row.name;
    let hello = format!("Hello from {name}.");
    let thread = t.ada.thread(&t.general, "Root").await;
    // A socket from now on, because each reading of the whole log takes longer than a reply.
    let mut socket = t.ada.socket().await;
    for word in ["hi", "again"] {
        let said = replied(t, &mut socket, &thread, &format!("@{name} {word}")).await;
        assert_eq!(said, hello, "{name} {word}");
    }
    for word in ["LOOKUP", "LIST"] {
        let said = replied(t, &mut socket, &thread, &format!("@{name} {word}")).await;
        assert_eq!(said, "It is done.", "{name} {word}");
    }
    let task = t.ada.ask(&thread, &format!("@{name} STOP")).await;
    t.model().asked(name, 1).await;
    t.ada.act(&format!("/v1/tasks/{task}/cancel")).await.is(200);
    let ended = socket.ended(&task).await;
    assert_eq!(ended["status"], "cancelled", "{name}");
}

/// A conversation of a program with the bare model, with a function of its own.
async fn api(program: &Person, row: &Row) {
    let name = row.name;
    let path = "/v1/chat/completions";
    let hello = json!([{"role": "user", "content": "Hello"}]);
    let whole = program
        .post(path, json!({"model": name, "messages": hello}))
        .await
        .is(200);
    let said = text(&whole, "/choices/0/message/content");
    assert_eq!(said, format!("Hello from {name}."));
    let tools = json!([{"type": "function", "function": {"name": "weather", "parameters":
        {"type": "object", "properties": {"city": {"type": "string"}}}}}]);
    let mut messages = json!([{"role": "user", "content": "WEATHER"}]);
    let first = program
        .post(
            path,
            json!({"model": name, "messages": messages, "tools": tools}),
        )
        .await
        .is(200);
    let message = first["choices"][0]["message"].clone();
    assert_eq!(message["content"], Value::Null, "{name}: {first}");
    let call = &message["tool_calls"][0];
    let arguments: Value = serde_json::from_str(&text(call, "/function/arguments")).unwrap();
    assert_eq!(
        (&call["function"]["name"], &arguments),
        (&json!("weather"), &json!({"city": "Bonn"})),
        "{name}"
    );
    let result = json!({"role": "tool", "tool_call_id": call["id"], "content": "rain"});
    messages.as_array_mut().unwrap().extend([message, result]);
    let second = program
        .post(
            path,
            json!({"model": name, "messages": messages, "tools": tools}),
        )
        .await
        .is(200);
    assert_eq!(
        text(&second, "/choices/0/message/content"),
        "It is done.",
        "{name}"
    );
}

/// Drafts a resolution of a fork that is bound to the row's agent.
async fn drafted(t: &Team, row: &Row) {
    let agent = id(&t.ada.agent(row.name).await);
    let started = t.ada.start(&t.general, "Root").await;
    let (thread, root) = (text(&started, "/thread/id"), text(&started, "/message/id"));
    let fields = json!({"title": "The day", "agent_id": agent});
    let fork = id(&t.ada.start_fork(&thread, &root, fields).await);
    let mut socket = t.ada.socket().await;
    for (person, said) in [
        (&t.ada, "Let's ship on Monday."),
        (&t.bo, "Agreed, Monday."),
    ] {
        let task = person.ask_in(&fork, said).await;
        let ended = socket.ended(&task).await;
        assert_eq!(ended["status"], "completed", "{}: {ended}", row.name);
    }
    let draft = t.ada.drafted(&fork).await;
    assert_eq!(
        draft["fallback_reason"],
        Value::Null,
        "{}: {draft}",
        row.name
    );
    assert_eq!(draft["headline"], "Ship on Monday", "{draft}");
}

#[tokio::test]
async fn every_dialect_connects_and_tests() {
    let t = team_with(&[("RATE_LIMITS", "off")]).await;
    connect(&t).await;
    for row in ROWS {
        let tested = t
            .ada
            .post("/v1/model-test", json!({"model": row.name}))
            .await
            .is(200);
        assert_eq!(
            tested["reply"],
            format!("Hello from {}.", row.name),
            "{tested}"
        );
    }
}

#[tokio::test]
async fn every_dialect_replies_calls_functions_and_stops() {
    let t = team_with(&[("RATE_LIMITS", "off")]).await;
    connect(&t).await;
    stream::iter(ROWS)
        .for_each_concurrent(AT_ONCE, |row| chat(&t, row))
        .await;
}

#[tokio::test]
async fn every_dialect_works_over_the_api() {
    let t = team_with(&[("RATE_LIMITS", "off")]).await;
    connect(&t).await;
    let (program, _) = t.bo.make_key(&["agents:use"]).await;
    stream::iter(ROWS)
        .for_each_concurrent(4, |row| api(&program, row))
        .await;
}

#[tokio::test]
async fn every_dialect_writes_drafts() {
    let t = team_with(&[("RATE_LIMITS", "off")]).await;
    connect(&t).await;
    stream::iter(ROWS)
        .for_each_concurrent(AT_ONCE, |row| drafted(&t, row))
        .await;
}
