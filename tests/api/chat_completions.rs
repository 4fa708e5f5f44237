//! `/v1/chat/completions`: messages, functions, formats, streams, and errors.

use serde_json::{Value, json};

use crate::support::{
    Answer, ModelsFile, Person, Team, id, list, team, team_with, text, visitor, within,
};

const PATH: &str = "/v1/chat/completions";

/// An API key of Bo that can only use agents.
async fn program(team: &Team) -> Person {
    team.bo.make_key(&["agents:use"]).await.0
}

fn user(content: &str) -> Value {
    json!([{"role": "user", "content": content}])
}

async fn ask(who: &Person, body: Value) -> Value {
    who.post(PATH, body).await.is(200)
}

fn said(completion: &Value) -> String {
    assert_eq!(list(completion, "/choices").len(), 1, "{completion}");
    text(completion, "/choices/0/message/content")
}

/// Type, code, and param of a rejected request's error, in the format of `OpenAI`'s API.
async fn refused(who: &Person, body: Value, status: u16) -> (String, String, Value) {
    let reply = who.post(PATH, body).await;
    assert_eq!(reply.status, status, "{}", reply.text);
    let body = reply.json();
    let error = body["error"].as_object().unwrap();
    let mut fields: Vec<&str> = error.keys().map(String::as_str).collect();
    fields.sort_unstable();
    assert_eq!(fields, ["code", "message", "param", "type"], "{body}");
    (
        text(&body, "/error/type"),
        text(&body, "/error/code"),
        body["error"]["param"].clone(),
    )
}

/// Body of the last model request.
fn sent(team: &Team) -> Value {
    team.model().requests().last().unwrap().body.clone()
}

/// Chunks of a stream, without the `[DONE]` that must end it.
async fn stream(who: &Person, mut body: Value) -> Vec<Value> {
    body["stream"] = true.into();
    let reply = who.post(PATH, body).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    let kind = reply.header("content-type").unwrap();
    assert!(kind.starts_with("text/event-stream"), "{kind}");
    let mut data: Vec<&str> = reply
        .text
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .collect();
    assert_eq!(data.pop(), Some("[DONE]"), "{}", reply.text);
    let chunks: Vec<Value> = data
        .iter()
        .map(|data| serde_json::from_str(data).unwrap())
        .collect();
    for chunk in &chunks {
        assert_eq!(chunk["object"], "chat.completion.chunk");
        assert_eq!(chunk["id"], chunks[0]["id"]);
        assert_eq!(chunk["model"], chunks[0]["model"]);
    }
    chunks
}

/// Deltas of all chunks that contain a choice.
fn deltas(chunks: &[Value]) -> Vec<Value> {
    chunks
        .iter()
        .filter_map(|chunk| chunk.pointer("/choices/0/delta").cloned())
        .collect()
}

fn weather() -> Value {
    json!({"type": "function", "function": {"name": "weather", "description": "How it is outside.", "strict": true,
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": false}}})
}

/// A reply of the model in chunks, with two calls of `weather`.
fn two_calls() -> Answer {
    let piece = |calls: Value| {
        format!(
            "data: {}\n\n",
            json!({"choices": [{"index": 0, "delta": {"tool_calls": calls}}]})
        )
    };
    let begin = |n: u32| json!([{"index": n, "id": format!("call_{n}"), "type": "function", "function": {"name": "weather", "arguments": ""}}]);
    let rest =
        |n: u32, arguments: &str| json!([{"index": n, "function": {"arguments": arguments}}]);
    Answer::stream()
        .raw(&piece(begin(0)))
        .raw(&piece(rest(0, "{\"city\":")))
        .raw(&piece(rest(0, "\"Bonn\"}")))
        .raw(&piece(begin(1)))
        .raw(&piece(rest(1, "{\"city\":\"Kiel\"}")))
        .finish("tool_calls")
        .usage(20, 5)
        .done()
}

#[tokio::test]
async fn without_an_agent_the_conversation_is_sent_to_the_model() {
    let team = team().await;
    team.model().script("", [Answer::text("Four.")]);
    let completion = ask(
        &program(&team).await,
        json!({"model": "tiny", "temperature": 0.5, "max_completion_tokens": 50, "stop": "END", "user": "u-1", "n": 1,
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "developer", "content": [{"type": "text", "text": "Be kind."}]},
                {"role": "user", "content": "Two and two?"},
            ]}),
    )
    .await;
    assert!(text(&completion, "/id").starts_with("chatcmpl-"));
    assert!(completion["created"].is_i64());
    assert_eq!(completion["object"], "chat.completion");
    assert_eq!(completion["model"], "tiny");
    assert_eq!(
        completion["choices"],
        json!([{"index": 0, "finish_reason": "stop", "logprobs": null,
            "message": {"role": "assistant", "content": "Four.", "refusal": null}}])
    );
    assert_eq!(
        completion["usage"],
        json!({"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18,
            "prompt_tokens_details": {"cached_tokens": 0}, "completion_tokens_details": {"reasoning_tokens": 0}})
    );
    let body = sent(&team);
    assert_eq!(
        body["messages"],
        json!([
            {"role": "system", "content": "Be brief.\n\nBe kind."},
            {"role": "user", "content": "Two and two?"},
        ])
    );
    assert_eq!(body["temperature"], 0.5);
    assert_eq!(body["max_tokens"], 50);
    assert_eq!(body["stop"], json!(["END"]));
}

#[tokio::test]
async fn an_agent_replies_with_its_own_instructions_and_those_of_the_request() {
    let team = team().await;
    let program = program(&team).await;
    let vibe = id(&team.ada.agent("vibe").await);
    for body in [
        json!({"model": "agent:vibe", "messages": user("Hi")}),
        json!({"agent_id": vibe, "messages": user("Hi")}),
    ] {
        let completion = ask(&program, body).await;
        assert_eq!(completion["model"], "claude-sonnet-4-5");
        assert_eq!(team.model().requests().last().unwrap().speaker, "vibe");
    }
    let own =
        json!([{"role": "system", "content": "You are terse."}, {"role": "user", "content": "Hi"}]);
    // A program that does not know agents adds its instructions; one that names the agent replaces the agent's.
    ask(&program, json!({"model": "agent:vibe", "messages": own})).await;
    let system = text(&sent(&team), "/messages/0/content");
    assert!(
        system.starts_with("You are Vibe (@vibe), asked by a program through an API. "),
        "{system}"
    );
    assert!(system.ends_with("\n\nYou are terse."), "{system}");
    ask(&program, json!({"agent_id": vibe, "messages": own})).await;
    assert_eq!(sent(&team)["messages"], own);
    let nobody = json!({"model": "agent:nobody", "messages": user("Hi")});
    let (kind, code, param) = refused(&program, nobody, 404).await;
    assert_eq!(
        (kind.as_str(), code.as_str()),
        ("not_found_error", "agent_not_found")
    );
    assert_eq!(param, "model");
    let unknown = json!({"model": "gpt-unheard-of", "messages": user("Hi")});
    assert_eq!(refused(&program, unknown, 404).await.1, "model_not_found");
}

#[tokio::test]
async fn the_policy_of_the_workspace_holds_without_an_agent() {
    let team = team().await;
    let program = program(&team).await;
    let policy = format!("/v1/workspaces/{}/policy", team.ada.workspace);
    let rules = json!({"required_text": "Never promise dates.", "allowed_tools": ["web_fetch"]});
    team.ada.patch(&policy, rules).await.is(200);
    let body = json!({"model": "tiny", "tools": [weather()], "messages": [
        {"role": "system", "content": "Be brief."}, {"role": "user", "content": "When?"}]});
    ask(&program, body.clone()).await;
    assert_eq!(
        sent(&team)["messages"][0]["content"],
        "Never promise dates.\n\nBe brief."
    );
    assert!(sent(&team).get("tools").is_none());
    let off = json!({"bare_model": false});
    team.ada.patch(&policy, off).await.is(200);
    let (kind, code, _) = refused(&program, body, 403).await;
    assert_eq!(
        (kind.as_str(), code.as_str()),
        ("permission_error", "bare_model_off")
    );
    let with_agent = json!({"model": "agent:vibe", "messages": user("Hi")});
    ask(&program, with_agent).await;
}

#[tokio::test]
async fn functions_are_called_by_the_client_and_their_results_sent_back() {
    let team = team().await;
    let program = program(&team).await;
    team.model()
        .script("", [two_calls(), Answer::text("Rain in Bonn.")]);
    let choice = json!({"type": "function", "function": {"name": "weather"}});
    let body = json!({"model": "tiny", "messages": user("Weather?"), "tools": [weather()], "tool_choice": choice, "parallel_tool_calls": false});
    let first = ask(&program, body).await;
    assert_eq!(first["choices"][0]["finish_reason"], "tool_calls");
    let message = first["choices"][0]["message"].clone();
    let called = |n: u32, city: &str| {
        json!({"id": format!("call_{n}"), "type": "function",
        "function": {"name": "weather", "arguments": format!("{{\"city\":\"{city}\"}}")}})
    };
    let calls = json!([called(0, "Bonn"), called(1, "Kiel")]);
    assert_eq!(
        message,
        json!({"role": "assistant", "content": null, "refusal": null, "tool_calls": calls})
    );
    let body = sent(&team);
    assert_eq!(body["tools"], json!([weather()]));
    assert_eq!(body["tool_choice"], choice);
    assert_eq!(body["parallel_tool_calls"], false);

    let whole = json!([
        {"role": "user", "content": "Weather?"},
        message,
        {"role": "tool", "tool_call_id": "call_0", "content": "rain"},
        {"role": "tool", "tool_call_id": "call_1", "content": [{"type": "text", "text": "sun"}]},
    ]);
    let second = json!({"model": "tiny", "messages": whole, "tools": [weather()]});
    assert_eq!(said(&ask(&program, second).await), "Rain in Bonn.");
    assert_eq!(
        sent(&team)["messages"],
        json!([
            {"role": "user", "content": "Weather?"},
            {"role": "assistant", "content": null, "tool_calls": calls},
            {"role": "tool", "tool_call_id": "call_0", "content": "rain"},
            {"role": "tool", "tool_call_id": "call_1", "content": "sun"},
        ])
    );
    let open = json!({"model": "tiny", "messages": [
        {"role": "user", "content": "Weather?"}, message, {"role": "user", "content": "Well?"}]});
    assert_eq!(refused(&program, open, 400).await.2, "messages");
}

#[tokio::test]
async fn functions_of_the_client_and_those_of_the_agent_that_read_are_offered() {
    let team = team().await;
    let tools = json!([{"type": "web_fetch"}, {"type": "code_interpreter"}, {"type": "function", "name": "count"}]);
    let form = json!({"name": "poet", "instructions": "You are Poet.", "tools": tools});
    team.ada.post("/v1/agents", form).await.is(201);
    let body = json!({"agent_id": "poet", "messages": user("Rhyme"), "tools": [weather()]});
    ask(&team.bo, body).await;
    let offered: Vec<String> = list(&sent(&team), "/tools")
        .iter()
        .map(|tool| text(tool, "/function/name"))
        .collect();
    assert_eq!(offered, ["count", "weather", "web_fetch"]);
}

#[tokio::test]
async fn a_stream_has_the_role_the_text_and_the_reason() {
    let team = team().await;
    team.model()
        .script("vibe", [Answer::pieces(&["Hel", "lo", "."])]);
    let body = json!({"model": "agent:vibe", "messages": user("Hi")});
    let chunks = stream(&team.bo, body).await;
    assert!(text(&chunks[0], "/id").starts_with("chatcmpl-"));
    assert_eq!(
        deltas(&chunks),
        [
            json!({"role": "assistant"}),
            json!({"content": "Hel"}),
            json!({"content": "lo"}),
            json!({"content": "."}),
            json!({}),
        ]
    );
    let reasons: Vec<&Value> = chunks
        .iter()
        .map(|chunk| &chunk["choices"][0]["finish_reason"])
        .collect();
    assert_eq!(reasons[4], "stop");
    assert!(reasons[..4].iter().all(|reason| reason.is_null()));
    assert!(chunks.iter().all(|chunk| chunk.get("usage").is_none()));
}

#[tokio::test]
async fn the_usage_of_a_stream_is_its_last_chunk_if_requested() {
    let team = team().await;
    let body =
        json!({"model": "tiny", "messages": user("Hi"), "stream_options": {"include_usage": true}});
    let chunks = stream(&team.bo, body).await;
    let (last, others) = chunks.split_last().unwrap();
    assert_eq!(last["choices"], json!([]));
    assert_eq!(last["usage"]["total_tokens"], 18);
    assert!(
        others
            .iter()
            .all(|chunk| chunk.get("usage") == Some(&Value::Null))
    );
}

#[tokio::test]
async fn streamed_calls_send_their_arguments_in_chunks() {
    let team = team().await;
    team.model().script("", [two_calls()]);
    let body = json!({"model": "tiny", "messages": user("Weather?"), "tools": [weather()]});
    let chunks = stream(&team.bo, body).await;
    let begins = |n: u32| {
        json!({"tool_calls": [{"index": n, "id": format!("call_{n}"), "type": "function",
        "function": {"name": "weather", "arguments": ""}}]})
    };
    let goes_on = |n: u32, arguments: &str| json!({"tool_calls": [{"index": n, "function": {"arguments": arguments}}]});
    assert_eq!(
        deltas(&chunks),
        [
            json!({"role": "assistant"}),
            begins(0),
            goes_on(0, "{\"city\":"),
            goes_on(0, "\"Bonn\"}"),
            begins(1),
            goes_on(1, "{\"city\":\"Kiel\"}"),
            json!({}),
        ]
    );
    let last = chunks.last().unwrap();
    assert_eq!(last["choices"][0]["finish_reason"], "tool_calls");
}

#[tokio::test]
async fn a_reply_cut_off_by_the_output_limit_has_the_reason_length() {
    let team = team().await;
    let cut = || Answer::stream().piece("So far").finish("length").done();
    team.model().script("", [cut(), cut()]);
    let body = json!({"model": "tiny", "messages": user("Tell all"), "max_tokens": 2});
    let completion = ask(&team.bo, body.clone()).await;
    assert_eq!(said(&completion), "So far");
    assert_eq!(completion["choices"][0]["finish_reason"], "length");
    assert_eq!(sent(&team)["max_tokens"], 2);
    let chunks = stream(&team.bo, body).await;
    let last = chunks.last().unwrap();
    assert_eq!(last["choices"][0]["finish_reason"], "length");
}

#[tokio::test]
async fn a_json_format_is_passed_on_unless_the_model_does_not_support_it() {
    let team = team().await;
    let schema = json!({"type": "json_schema", "json_schema": {"name": "city", "strict": true, "schema": {"type": "object"}}});
    for format in [json!({"type": "json_object"}), schema.clone()] {
        let body = json!({"model": "tiny", "messages": user("Where?"), "response_format": format});
        ask(&team.bo, body).await;
        assert_eq!(sent(&team)["response_format"], format);
    }
    let plain =
        json!({"model": "tiny", "messages": user("Where?"), "response_format": {"type": "text"}});
    ask(&team.bo, plain).await;
    assert!(sent(&team).get("response_format").is_none());
    let asked = team.model().requests().len();
    let unable = json!({"model": "claude-sonnet-4-5", "messages": user("Where?"), "response_format": schema});
    let (_, code, param) = refused(&team.bo, unable, 400).await;
    assert_eq!(
        (code.as_str(), param),
        ("unsupported_value", "response_format".into())
    );
    assert_eq!(team.model().requests().len(), asked);
    let refusal = r#"{"error":{"message":"Invalid schema for response_format"}}"#;
    team.model().script("", [Answer::status(400, refusal)]);
    let invalid = json!({"model": "tiny", "messages": user("Where?"), "response_format": schema});
    let (_, code, param) = refused(&team.bo, invalid, 400).await;
    assert_eq!(
        (code.as_str(), param),
        ("model_refused", "response_format".into())
    );
}

#[tokio::test]
async fn the_responses_api_passes_on_the_same_formats_and_shows_them() {
    let team = team().await;
    let format = json!({"type": "json_schema", "name": "city", "description": null, "schema": {"type": "object"}, "strict": true});
    let body = json!({"model": "tiny", "input": "Where?", "text": {"format": format}});
    let response = team.bo.post("/v1/responses", body).await.is(200);
    assert_eq!(response["text"]["format"], format);
    assert_eq!(
        sent(&team)["response_format"],
        json!({"type": "json_schema", "json_schema": {"name": "city", "schema": {"type": "object"}, "strict": true}})
    );
}

#[tokio::test]
async fn the_reasoning_effort_is_sent_only_if_the_model_table_lists_it() {
    let models = ModelsFile::of("context_window = 8000\nreasoning_efforts = [\"low\", \"high\"]\n");
    let team = team_with(&[("MODELS_FILE", models.path())]).await;
    for (model, effort, wanted) in [
        ("claude-sonnet-4-5", "high", json!("high")),
        ("claude-sonnet-4-5", "minimal", Value::Null),
        ("tiny", "high", Value::Null),
    ] {
        let body = json!({"model": model, "messages": user("Hi"), "reasoning_effort": effort});
        ask(&team.bo, body).await;
        assert_eq!(sent(&team)["reasoning_effort"], wanted, "{model} {effort}");
        let body = json!({"model": model, "input": "Hi", "reasoning": {"effort": effort}});
        team.bo.post("/v1/responses", body).await.is(200);
        assert_eq!(sent(&team)["reasoning_effort"], wanted, "{model} {effort}");
    }
}

#[tokio::test]
async fn completions_are_recorded_but_not_stored() {
    let team = team().await;
    let completion = ask(
        &team.bo,
        json!({"model": "tiny", "messages": user("pineapple")}),
    )
    .await;
    assert!(team.app.place.places_of("pineapple").await.is_empty());
    let tasks = list(&team.bo.get("/v1/tasks").await.is(200), "/data");
    assert_eq!(tasks.len(), 1);
    assert_eq!(tasks[0]["kind"], "response");
    assert_eq!(tasks[0]["token_usage"]["input_tokens"], 11);
    let path = format!("{PATH}/{}", id(&completion));
    assert_eq!(team.bo.get(&path).await.status, 404);

    let form = json!({"name": "poet", "instructions": "You are Poet.", "store_required": true});
    team.ada.post("/v1/agents", form).await.is(201);
    let body = json!({"model": "agent:poet", "messages": user("Rhyme")});
    assert_eq!(refused(&team.bo, body, 400).await.1, "store_required");
}

#[tokio::test]
async fn a_field_without_which_the_answer_would_be_wrong_is_rejected() {
    let team = team().await;
    for (field, value) in [
        ("n", json!(2)),
        ("logprobs", json!(true)),
        ("modalities", json!(["audio"])),
        ("functions", json!([{"name": "f"}])),
        ("background", json!(true)),
    ] {
        let mut body = json!({"model": "tiny", "messages": user("Hi")});
        body[field] = value;
        let (kind, code, param) = refused(&team.bo, body, 400).await;
        assert_eq!(
            (kind.as_str(), code.as_str()),
            ("invalid_request_error", "unsupported_parameter")
        );
        assert_eq!(param, field);
    }
    assert!(team.model().requests().is_empty());
}

#[tokio::test]
async fn ignored_parts_are_named_in_a_header() {
    let team = team().await;
    let program = program(&team).await;
    let image = json!({"type": "image_url", "image_url": {"url": "data:"}});
    let body = json!({"model": "tiny", "top_k": 20, "store": true, "user": "", "max_tokens": -1, "n": 1,
        "tools": [weather(), {"type": "web_search"}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "See "}, image]},
            {"role": "assistant", "content": null}, {"role": "user", "content": "Well?"}]});
    for streams in [false, true] {
        let mut body = body.clone();
        body["stream"] = streams.into();
        let reply = program.post(PATH, body).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        let ignored = reply.header("openvibe-ignored").unwrap();
        let mut paths: Vec<&str> = ignored.split(", ").collect();
        paths.sort_unstable();
        let wanted = ["messages[0].content[1]", "store", "tools[1]", "top_k"];
        assert_eq!(paths, wanted);
        let sent = sent(&team);
        assert_eq!(
            sent["messages"],
            json!([{"role": "user", "content": "See (image, not readable)\n\nWell?"}])
        );
        assert_eq!(list(&sent, "/tools").len(), 1);
    }
    let plain = json!({"model": "tiny", "messages": user("Hi"), "n": 1, "seed": null, "logprobs": false,
        "store": false, "logit_bias": {}, "colour": null, "service_tier": "auto"});
    let reply = program.post(PATH, plain).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    assert_eq!(reply.header("openvibe-ignored"), None);
}

#[tokio::test]
async fn seed_and_penalties_are_sent_until_the_server_rejects_them() {
    let team = team().await;
    let program = program(&team).await;
    let refusal = r#"{"error":{"message":"Unrecognized request argument supplied: seed"}}"#;
    team.model().script(
        "",
        [
            Answer::status(400, refusal),
            Answer::text("One."),
            Answer::text("Two."),
        ],
    );
    let body = json!({"model": "tiny", "messages": user("Hi"), "seed": 7, "frequency_penalty": 0.5,
        "presence_penalty": -0.2});
    for _ in 0..2 {
        let reply = program.post(PATH, body.clone()).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        assert_eq!(reply.header("openvibe-ignored").as_deref(), Some("seed"));
    }
    let requests = team.model().requests();
    let seeds: Vec<&Value> = requests
        .iter()
        .map(|request| &request.body["seed"])
        .collect();
    assert_eq!(seeds, [&json!(7), &Value::Null, &Value::Null]);
    assert_eq!(requests[2].body["frequency_penalty"], 0.5);
    assert_eq!(requests[2].body["presence_penalty"], -0.2);
    let wrong = json!({"model": "tiny", "messages": user("Hi"), "presence_penalty": 3});
    assert_eq!(refused(&program, wrong, 400).await.2, "presence_penalty");
}

#[tokio::test]
async fn function_names_with_dots_are_mapped_back() {
    let team = team().await;
    let program = program(&team).await;
    let function = |name: &str| json!({"type": "function", "function": {"name": name}});
    let call = [("files_read", json!({"path": "a"}))];
    team.model()
        .script("", [Answer::calls("", &call), Answer::text("Done.")]);
    let body =
        json!({"model": "tiny", "messages": user("Read it"), "tools": [function("files.read")]});
    let completion = ask(&program, body.clone()).await;
    let message = &completion["choices"][0]["message"];
    assert_eq!(message["tool_calls"][0]["function"]["name"], "files.read");
    assert_eq!(sent(&team)["tools"][0]["function"]["name"], "files_read");
    let mut second = body;
    let id = text(message, "/tool_calls/0/id");
    second["messages"] = json!([{"role": "user", "content": "Read it"}, message,
        {"role": "tool", "tool_call_id": id, "content": "a"}]);
    assert_eq!(said(&ask(&program, second).await), "Done.");
    assert_eq!(
        sent(&team)["messages"][1]["tool_calls"][0]["function"]["name"],
        "files_read"
    );
}

#[tokio::test]
async fn many_messages_and_tools_are_accepted() {
    let team = team().await;
    let function = |n: usize| json!({"type": "function", "function": {"name": format!("f{n}")}});
    let role = |left: usize| if left % 2 == 1 { "user" } else { "assistant" };
    let messages = |count: usize| -> Vec<Value> {
        let left = (1..=count).rev();
        left.map(|left| json!({"role": role(left), "content": "x"}))
            .collect()
    };
    let tools = |count: usize| -> Vec<Value> { (0..count).map(function).collect() };
    let body = |said: usize, offered: usize| {
        json!({"model": "tiny", "truncation": "auto",
        "messages": messages(said), "tools": tools(offered)})
    };
    ask(&team.bo, body(10_000, 1)).await;
    ask(&team.bo, body(1, 512)).await;
    assert_eq!(list(&sent(&team), "/tools").len(), 512);
    assert_eq!(refused(&team.bo, body(10_001, 1), 400).await.2, "messages");
    assert_eq!(refused(&team.bo, body(1, 513), 400).await.2, "tools");
}

#[tokio::test]
async fn a_system_message_alone_is_the_users_message() {
    let team = team().await;
    let body = json!({"model": "tiny", "messages": [{"role": "system", "content": "Say hello."}]});
    ask(&team.bo, body).await;
    assert_eq!(
        sent(&team)["messages"],
        json!([{"role": "user", "content": "Say hello."}])
    );
}

#[tokio::test]
async fn an_invalid_field_is_named() {
    let team = team().await;
    for (fields, param) in [
        (json!({"messages": null}), "messages"),
        (json!({"messages": []}), "messages"),
        (
            json!({"messages": [{"role": "system", "content": " "}]}),
            "messages",
        ),
        (
            json!({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]}),
            "messages[0].content[0]",
        ),
        (json!({"temperature": 3}), "temperature"),
        (
            json!({"max_tokens": 1, "max_completion_tokens": 2}),
            "max_tokens",
        ),
        (json!({"stop": [1]}), "stop"),
        (json!({"tool_choice": "required"}), "tool_choice"),
        (
            json!({"tools": [{"type": "web_search"}], "tool_choice": {"type": "web_search"}}),
            "tool_choice",
        ),
        (
            json!({"tools": [{"type": "function", "name": "flat"}]}),
            "tools[0]",
        ),
        (
            json!({"tools": [{"type": "function", "function": {}}]}),
            "tools[0].function.name",
        ),
        (
            json!({"response_format": {"type": "xml"}}),
            "response_format",
        ),
    ] {
        let mut body = json!({"model": "tiny", "messages": user("Hi")});
        for (field, value) in fields.as_object().unwrap() {
            body[field] = value.clone();
        }
        let (kind, _, found) = refused(&team.bo, body, 400).await;
        assert_eq!(kind, "invalid_request_error");
        assert_eq!(found, param);
    }
    assert!(team.model().requests().is_empty());
}

#[tokio::test]
async fn errors_have_the_openai_shape() {
    let team = team().await;
    let body = json!({"model": "tiny", "messages": user("Hi")});
    let stranger = visitor(&team.app.base);
    assert_eq!(
        refused(&stranger, body.clone(), 401).await.0,
        "authentication_error"
    );
    let reader = team.bo.make_key(&["chat:read"]).await.0;
    assert_eq!(refused(&reader, body.clone(), 403).await.1, "scope_missing");
    let viewer = team.app.join(&team.ada, "Vera", "viewer").await;
    assert_eq!(refused(&viewer, body.clone(), 403).await.1, "role_too_low");
    let reply = team.bo.patch(PATH, body.clone()).await;
    assert_eq!(reply.status, 405);
    assert_eq!(reply.json()["error"]["type"], "invalid_request_error");
    for streams in [false, true] {
        team.model()
            .script("", [Answer::status(429, "{}").header("retry-after", "7")]);
        let mut body = body.clone();
        body["stream"] = streams.into();
        let reply = team.bo.post(PATH, body).await;
        assert_eq!(reply.status, 429, "{}", reply.text);
        assert_eq!(reply.header("retry-after").as_deref(), Some("7"));
        assert_eq!(reply.json()["error"]["code"], "rate_limit_exceeded");
    }
    team.model().script("", [Answer::too_large()]);
    let (_, code, param) = refused(&team.bo, body, 400).await;
    assert_eq!(
        (code.as_str(), param),
        ("context_length_exceeded", "messages".into())
    );
}

#[tokio::test]
async fn a_stream_that_breaks_ends_with_an_error() {
    let team = team().await;
    team.model()
        .script("", [Answer::pieces_open(&["Half a", " word"]).cut()]);
    let body = json!({"model": "tiny", "messages": user("Hi"), "stream": true});
    let reply = team.bo.post(PATH, body).await;
    assert_eq!(reply.status, 200);
    assert!(!reply.text.contains("[DONE]"), "{}", reply.text);
    let mut data = reply
        .text
        .lines()
        .filter_map(|line| line.strip_prefix("data: "));
    let last: Value = serde_json::from_str(data.next_back().unwrap()).unwrap();
    assert_eq!(last["error"]["type"], "server_error");
    assert_eq!(last["error"]["code"], "model_unavailable");
    let all: String = data
        .map(|data| serde_json::from_str::<Value>(data).unwrap())
        .filter_map(|chunk| {
            Some(
                chunk
                    .pointer("/choices/0/delta/content")?
                    .as_str()?
                    .to_owned(),
            )
        })
        .collect();
    assert_eq!(all, "Half a word");
}

#[tokio::test]
async fn a_disconnecting_client_cancels_the_call() {
    use futures::StreamExt;

    use crate::support::Gate;

    let team = team().await;
    let gate = Gate::new();
    let held = Answer::pieces_open(&["One"]).wait(&gate).end();
    team.model().script("", [held]);
    let body = json!({"model": "tiny", "messages": user("Count"), "stream": true});
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let mut request = client.post(format!("{}{PATH}", team.bo.base)).json(&body);
    for (name, value) in team.bo.credentials() {
        request = request.header(name, value);
    }
    let reply = within("the head of a stream", request.send())
        .await
        .unwrap();
    let mut stream = reply.bytes_stream();
    gate.reached().await;
    within("a first chunk", stream.next())
        .await
        .unwrap()
        .unwrap();
    drop(stream);
    team.model().given_up(1).await;
}

#[tokio::test]
async fn the_input_of_a_stored_response_is_listed_page_by_page() {
    let team = team().await;
    let program = program(&team).await;
    let input = json!([
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": "Weather?"},
        {"type": "function_call", "call_id": "call_7", "name": "weather", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "call_7", "output": "rain"},
        {"role": "assistant", "content": "Rain."},
        {"role": "user", "content": "And?"},
    ]);
    let first = json!({"model": "tiny", "input": input});
    let first = program.post("/v1/responses", first).await.is(200);
    let path = format!("/v1/responses/{}/input_items", id(&first));
    let all = program.get(&format!("{path}?order=asc")).await.is(200);
    assert_eq!(all["object"], "list");
    assert_eq!(all["has_more"], false);
    let items = list(&all, "/data");
    let mut shown = items.clone();
    for item in &mut shown {
        let prefix = match text(item, "/type").as_str() {
            "message" => "msg_",
            "function_call" => "fc_",
            _ => "fco_",
        };
        let id = item.as_object_mut().unwrap().remove("id").unwrap();
        assert!(id.as_str().unwrap().starts_with(prefix), "{id}");
    }
    let input = |role: &str, text: &str| {
        json!({"type": "message", "role": role, "status": "completed",
        "content": [{"type": "input_text", "text": text}]})
    };
    assert_eq!(
        shown,
        [
            input("system", "Be brief."),
            input("user", "Weather?"),
            json!({"type": "function_call", "call_id": "call_7", "name": "weather", "arguments": "{}", "status": "completed"}),
            json!({"type": "function_call_output", "call_id": "call_7", "output": "rain", "status": "completed"}),
            json!({"type": "message", "role": "assistant", "status": "completed",
                "content": [{"type": "output_text", "text": "Rain.", "annotations": [], "logprobs": []}]}),
            input("user", "And?"),
        ]
    );
    // By default, the newest item comes first.
    let page = program.get(&format!("{path}?limit=2")).await.is(200);
    assert_eq!(page["data"], json!([items[5], items[4]]));
    assert_eq!(page["has_more"], true);
    let after = format!("{path}?limit=4&after={}", text(&page, "/last_id"));
    let rest = program.get(&after).await.is(200);
    assert_eq!(
        rest["data"],
        json!([items[3], items[2], items[1], items[0]])
    );
    assert_eq!(rest["has_more"], false);
    assert_eq!(
        program.get(&format!("{path}?after=msg_1")).await.status,
        404
    );
    assert_eq!(program.get(&format!("{path}?limit=0")).await.status, 400);
    // A continued response lists only its own input.
    let next = json!({"model": "tiny", "input": "More", "previous_response_id": first["id"]});
    let next = program.post("/v1/responses", next).await.is(200);
    let own = format!("/v1/responses/{}/input_items", id(&next));
    let own = program.get(&own).await.is(200);
    assert_eq!(text(&own, "/data/0/content/0/text"), "More");
    assert_eq!(list(&own, "/data").len(), 1);
    assert_eq!(team.ada.get(&path).await.status, 404);
}
