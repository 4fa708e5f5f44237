//! Tests of features and windows learned from servers, and of servers with limits of their own.

use futures::future::join;

use super::*;

/// In-memory store that outlives its clients.
#[derive(Default)]
struct Stored(Mutex<std::collections::BTreeMap<(String, String), String>>);

impl FactStore for Stored {
    fn load<'a>(&'a self, server: &'a str) -> BoxFuture<'a, Vec<(String, String)>> {
        let rows = self.0.lock().unwrap();
        let of_server = rows.iter().filter(|((of, _), _)| of == server);
        let found = of_server
            .map(|((_, model), facts)| (model.clone(), facts.clone()))
            .collect();
        std::future::ready(found).boxed()
    }

    fn save<'a>(&'a self, server: &'a str, model: &'a str, facts: String) -> BoxFuture<'a, ()> {
        let key = (server.to_owned(), model.to_owned());
        self.0.lock().unwrap().insert(key, facts);
        std::future::ready(()).boxed()
    }
}

fn ok() -> Vec<u8> {
    events(&[said("Hi"), finished("stop")].concat())
}

fn json(status: &str, body: &str) -> Vec<u8> {
    raw(status, "content-type: application/json\r\n", body)
}

fn list_of(models: &[&str]) -> Vec<u8> {
    let data: Vec<Value> = models
        .iter()
        .map(|id| serde_json::json!({"id": id, "context_length": 4096}))
        .collect();
    json("200 OK", &serde_json::json!({"data": data}).to_string())
}

/// Paths of the requests that the server received.
fn paths(script: &Script) -> Vec<String> {
    let requests = script.requests.lock().unwrap();
    let path = |request: &String| request.split(' ').nth(1).unwrap().to_owned();
    requests.iter().map(path).collect()
}

async fn window(client: &OpenAi, model: &str) -> (u64, WindowSource) {
    let window = client.window(model).await;
    (window.tokens, window.source)
}

#[tokio::test]
async fn a_refused_format_is_stepped_down_at_any_status_and_survives_a_restart() {
    // The response of llama-cpp-python 0.3.
    let refused = json(
        "500 Internal Server Error",
        r#"{"error":{"message":"[{'type': 'literal_error', 'loc': ('body', 'response_format', 'type'), 'msg': \"Input should be 'text' or 'json_object'\"}]","type":"internal_server_error","param":null,"code":null}}"#,
    );
    let script = Script::new(vec![refused, ok(), ok()]).await;
    let store: Arc<dyn FactStore> = Arc::new(Stored::default());
    let start = || {
        let store = Arc::clone(&store);
        OpenAi::new(Endpoint {
            store,
            ..endpoint(&script.url)
        })
        .unwrap()
    };
    run(&start(), schema_request("m")).await.unwrap();
    run(&start(), schema_request("m")).await.unwrap();
    let kinds: Vec<Value> = script
        .bodies()
        .iter()
        .map(|body| body["response_format"]["type"].clone())
        .collect();
    assert_eq!(kinds, ["json_schema", "json_object", "json_object"]);
}

#[tokio::test]
async fn a_model_without_tools_is_called_without_them_unless_the_client_needs_them() {
    let refused = || json("400 Bad Request", r#"{"error":"m does not support tools"}"#);
    let tools = ChatRequest {
        tools: vec![super::super::super::FunctionTool {
            name: "f".to_owned(),
            description: None,
            parameters: None,
            strict: None,
        }],
        ..request()
    };
    let script = Script::new(vec![refused(), ok()]).await;
    let client = script.client();
    run(&client, tools.clone()).await.unwrap();
    assert!(!client.takes_tools("m"));
    let has_tools: Vec<bool> = script
        .bodies()
        .iter()
        .map(|body| body.get("tools").is_some())
        .collect();
    assert_eq!(has_tools, [true, false]);

    let script = Script::new(vec![refused()]).await;
    let client = script.client();
    let needed = ChatRequest {
        tools_required: true,
        ..tools
    };
    let error = run(&client, needed.clone()).await.unwrap_err();
    assert!(
        error.to_string().contains("does not support tools"),
        "{error}"
    );
    assert!(
        matches!(error, ModelError::ToolsRefused { .. }),
        "{error:?}"
    );
    assert!(!client.takes_tools("m"));

    // An error about one function is not a fact about the model.
    for message in [
        "Invalid schema for function 'f': unknown keyword",
        "tools.0.custom.input_schema: extra inputs are not permitted",
    ] {
        let body = format!(r#"{{"error":{{"message":"{message}"}}}}"#);
        let script = Script::new(vec![json("400 Bad Request", &body)]).await;
        let client = script.client();
        let error = run(&client, needed.clone()).await.unwrap_err();
        assert!(
            matches!(error, ModelError::ToolsRefused { .. }),
            "{error:?}"
        );
        assert!(client.takes_tools("m"));
    }
}

fn tool(name: &str, parameters: &Value) -> FunctionTool {
    FunctionTool {
        name: name.to_owned(),
        description: None,
        parameters: Some(parameters.clone()),
        strict: None,
    }
}

#[tokio::test]
async fn a_server_that_refuses_a_keyword_gets_the_simplest_schemas() {
    let refused = r#"{"error":{"message":"Unknown name 'additionalProperties' at 'tools[0].function_declarations[1]'"}}"#;
    let script = Script::new(vec![json("400 Bad Request", refused), ok(), ok(), ok()]).await;
    let client = script.client();
    let schema =
        serde_json::json!({"type": "object", "properties": {}, "additionalProperties": false});
    let asked = |tools: Vec<FunctionTool>| ChatRequest {
        tools,
        tools_required: true,
        ..request()
    };
    let both = || asked(vec![tool("f", &schema), tool("g", &schema)]);
    run(&client, both()).await.unwrap();
    run(&client, both()).await.unwrap();
    run(&client, asked(vec![tool("h", &schema)])).await.unwrap();
    let is_simple: Vec<bool> = script
        .bodies()
        .iter()
        .map(|body| !body["tools"].to_string().contains("additionalProperties"))
        .collect();
    assert_eq!(is_simple, [false, true, true, false]);
    assert!(client.takes_tools("m"));
}

#[tokio::test]
async fn the_function_that_a_server_refuses_is_known_by_its_name_or_position() {
    let schema = serde_json::json!({"type": "object", "properties": {}});
    for (message, expected) in [
        ("Invalid 'tools[1].function.parameters'", Some("g")),
        ("tools.0.custom.input_schema: invalid", Some("f")),
        (
            "Unknown name at 'tools[0].function_declarations[1]'",
            Some("g"),
        ),
        ("Invalid schema for function 'g'", Some("g")),
        ("oneOf is not supported", None),
    ] {
        let body = serde_json::json!({"error": {"message": message}}).to_string();
        let script = Script::new(vec![json("400 Bad Request", &body)]).await;
        let client = script.client();
        let (f, g) = (tool("f", &schema), tool("g", &schema));
        let request = ChatRequest {
            tools: vec![f.clone(), g.clone()],
            tools_required: true,
            ..request()
        };
        let error = run(&client, request).await.unwrap_err();
        let ModelError::ToolsRefused { function, .. } = error else {
            panic!("{error:?}")
        };
        assert_eq!(function.as_deref(), expected, "{message}");
        let refused = Refused {
            definition: g.clone(),
            reason: "no".to_owned(),
        };
        client
            .note_refused("m", std::slice::from_ref(&refused))
            .await;
        assert_eq!(
            client.refused_functions("m", &[f, g]),
            [RefusedFunction::from(&refused)]
        );
    }
}

#[tokio::test]
async fn a_refusal_of_tools_is_known_after_a_restart() {
    let refused = json("400 Bad Request", r#"{"error":"m does not support tools"}"#);
    let script = Script::new(vec![refused, ok()]).await;
    let store: Arc<dyn FactStore> = Arc::new(Stored::default());
    let start = || {
        let store = Arc::clone(&store);
        let model = Some("m".to_owned());
        OpenAi::new(Endpoint {
            model,
            store,
            ..endpoint(&script.url)
        })
        .unwrap()
    };
    let tools = vec![super::super::super::FunctionTool {
        name: "f".to_owned(),
        description: None,
        parameters: None,
        strict: None,
    }];
    let request = ChatRequest { tools, ..request() };
    run(&start(), request).await.unwrap();
    let restarted = start();
    let model = restarted.choose_model(None).await;
    assert!(!restarted.takes_tools(&model));
}

#[tokio::test]
async fn a_model_that_the_server_lacks_is_reported_after_asking_for_the_list_again() {
    let missing = json(
        "404 Not Found",
        r#"{"error":{"message":"model 'm' not found"}}"#,
    );
    let script = Script::new(vec![list_of(&["m"]), missing, list_of(&["other"])]).await;
    let client = script.client();
    assert_eq!(client.choose_model(Some("m")).await, "m");
    let error = run(&client, request()).await.unwrap_err();
    assert!(matches!(error, ModelError::ModelMissing(_)), "{error:?}");
    assert_eq!(client.choose_model(Some("m")).await, "other");
    assert!(client.has_model("other").await);
    assert_eq!(
        paths(&script),
        ["/v1/models", "/v1/chat/completions", "/v1/models"]
    );
}

#[tokio::test]
async fn the_window_comes_from_the_table_the_setting_the_server_or_is_assumed() {
    let listed = r#"{"data":[{"id":"m","meta":{"n_ctx_train":32768}}]}"#;
    let props = r#"{"default_generation_settings":{"n_ctx":2048}}"#;
    let script = Script::new(vec![json("200 OK", listed), json("200 OK", props)]).await;
    let client = script.client();
    assert_eq!(window(&client, "m").await, (2048, WindowSource::Provider));
    assert_eq!(
        window(&client, "gpt-5.1").await,
        (400_000, WindowSource::Table)
    );
    assert_eq!(window(&client, "x").await, (32_000, WindowSource::Assumed));
    assert_eq!(paths(&script), ["/v1/models", "/props"]);
    let set = OpenAi::new(Endpoint {
        context_window: Some(16_000),
        ..endpoint(&script.url)
    });
    let set = set.unwrap();
    assert_eq!(window(&set, "m").await, (16_000, WindowSource::Setting));
    assert_eq!(window(&set, "gpt-5.1").await.1, WindowSource::Table);
    // The host determines how much of an open-weight model's window is available.
    assert_eq!(window(&set, "gpt-oss-20b").await.0, 16_000);
}

#[tokio::test]
async fn a_number_in_an_overflow_lowers_the_window_and_its_count_corrects_estimates() {
    let overflow = json(
        "400 Bad Request",
        r#"{"error":{"message":"Requested tokens (4 in your prompt) exceed context window of 2048","code":"context_length_exceeded"}}"#,
    );
    let larger = json(
        "400 Bad Request",
        r#"{"error":{"message":"maximum context length is 900000 tokens"}}"#,
    );
    let script = Script::new(vec![list_of(&["m", "n"]), overflow, larger]).await;
    let client = script.client();
    assert_eq!(window(&client, "m").await, (4096, WindowSource::Provider));
    for model in ["m", "n"] {
        let model = model.to_owned();
        let error = run(&client, ChatRequest { model, ..request() }).await;
        assert_eq!(error, Err(ModelError::ContextTooLarge));
    }
    assert_eq!(window(&client, "m").await, (2048, WindowSource::Error));
    assert_eq!(window(&client, "n").await, (4096, WindowSource::Provider));
    // "Be brief." and "Hello" are estimated as 3 and 2 tokens.
    let correction = client.window("m").await.correction;
    assert!((correction - 4.0 / 5.0).abs() < 1e-9, "{correction}");
}

#[tokio::test]
async fn reported_counts_correct_the_estimates_of_a_model() {
    let counted = || {
        let usage =
            "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":10,\"completion_tokens\":1}}\n\n";
        events(&[said("Hi"), finished("stop"), usage.to_owned()].concat())
    };
    let script = Script::new(vec![counted(), counted()]).await;
    let client = script.client();
    run(&client, request()).await.unwrap();
    assert!((client.window("m").await.correction - 2.0).abs() < 1e-9);
    assert!((client.window("other").await.correction - 1.0).abs() < 1e-9);
}

#[tokio::test]
async fn a_stream_with_nothing_is_an_overflow_if_the_server_says_so_without_streaming() {
    let overflow = || {
        json(
            "400 Bad Request",
            r#"{"error":{"message":"This model's maximum context length is 2048 tokens, however you requested 2311 tokens (2295 in your prompt; 16 for the completion)."}}"#,
        )
    };
    let script = Script::new(vec![
        json("404 Not Found", "{}"),
        events(""),
        overflow(),
        events(""),
    ])
    .await;
    let client = script.client();
    assert_eq!(window(&client, "m").await.1, WindowSource::Assumed);
    assert_eq!(
        run(&client, request()).await,
        Err(ModelError::ContextTooLarge)
    );
    let sent = script.requests.lock().unwrap()[2].clone();
    assert!(
        sent.contains("\"max_tokens\":1,") && !sent.contains("\"stream\""),
        "{sent}"
    );
    assert_eq!(window(&client, "m").await, (2048, WindowSource::Error));
    // The window is known now, and this prompt is far below half of it.
    let short = run(&client, request()).await;
    assert_eq!(short, Err(ModelError::Empty));
}

#[tokio::test]
async fn an_empty_reply_to_over_half_of_a_window_outside_the_table_is_an_overflow() {
    let blank = || {
        vec![
            events(""),
            events(&[said(" "), finished("stop")].concat()),
            events(&format!("{}data: [DONE]\n\n", said(""))),
        ]
    };
    let long = |model: &str| ChatRequest {
        model: model.to_owned(),
        turns: vec![ChatMessage::new(Role::User, "word ".repeat(1_000))],
        ..request()
    };
    let script = Script::new([blank(), blank()].concat()).await;
    let client = OpenAi::new(Endpoint {
        context_window: Some(2_000),
        ..endpoint(&script.url)
    })
    .unwrap();
    for _ in 0..3 {
        let error = run(&client, long("m")).await.unwrap_err();
        assert_eq!(error, ModelError::ContextTooLarge);
    }
    for _ in 0..3 {
        let error = run(&client, long("gpt-4o")).await.unwrap_err();
        assert!(!matches!(error, ModelError::ContextTooLarge), "{error:?}");
    }
}

#[tokio::test]
async fn a_base_url_without_a_version_is_named_with_the_fix() {
    for missing in [
        json("404 Not Found", r#"{"detail":"Not Found"}"#),
        raw("200 OK", "content-type: text/html\r\n", "<html>"),
    ] {
        let script = Script::new(vec![missing]).await;
        let root = script.url.strip_suffix("/v1/").unwrap();
        let with_password = root.replace("://", "://user:secret@");
        let error = run(&client(&with_password, None), request()).await;
        let wanted = format!("no chat completions at {root}: most servers need {root}/v1");
        assert_eq!(error, Err(ModelError::BadRequest(wanted)));
    }
}

#[tokio::test]
async fn a_kept_alive_connection_that_was_closed_is_replaced_once() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = client(
        &format!("http://{}/v1", listener.local_addr().unwrap()),
        None,
    );
    let body = "{\"choices\":[{\"message\":{\"content\":\"Hi\"},\"finish_reason\":\"stop\"}]}";
    let answer = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let serve = async {
        let (mut first, _) = listener.accept().await.unwrap();
        read_request(&mut first).await;
        first.write_all(answer.as_bytes()).await.unwrap();
        // The connection is closed when the next request arrives, before the first byte of the response.
        read_request(&mut first).await;
        drop(first);
        let (mut second, _) = listener.accept().await.unwrap();
        read_request(&mut second).await;
        second.write_all(answer.as_bytes()).await.unwrap();
        // A second loss in a row is an error.
        drop(second);
        let (mut third, _) = listener.accept().await.unwrap();
        read_request(&mut third).await;
        drop(third);
        let (mut fourth, _) = listener.accept().await.unwrap();
        read_request(&mut fourth).await;
    };
    let ask = async {
        run(&client, request()).await.unwrap();
        run(&client, request()).await.unwrap();
        run(&client, request()).await.unwrap_err()
    };
    let (error, ()) = join(ask, serve).await;
    assert!(matches!(error, ModelError::Unavailable(_)), "{error:?}");
}

/// Server that answers slowly and drops the running response when another request arrives, like llama-cpp-python.
async fn single_slot(listener: TcpListener) {
    let mut running: Option<tokio::task::AbortHandle> = None;
    let mut tasks = JoinSet::new();
    loop {
        let (mut socket, _) = listener.accept().await.unwrap();
        read_request(&mut socket).await;
        if let Some(running) = running.take() {
            running.abort();
        }
        running = Some(tasks.spawn(async move {
            let head = events(&said("Hi"));
            socket.write_all(&head).await.unwrap();
            tokio::time::sleep(Duration::from_millis(200)).await;
            socket.write_all(finished("stop").as_bytes()).await.unwrap();
            socket.shutdown().await.unwrap();
        }));
    }
}

#[tokio::test]
async fn calls_to_a_server_with_one_slot_end_after_one_retry_each() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = client(
        &format!("http://{}/v1", listener.local_addr().unwrap()),
        None,
    );
    let mut serving = JoinSet::new();
    serving.spawn(single_slot(listener));
    let call = async || {
        let place = client.place().await;
        run(&client, ChatRequest { place, ..request() }).await
    };
    let first: Vec<_> = futures::future::join_all((0..4).map(|_| call())).await;
    assert!(
        first.iter().filter(|end| end.is_err()).count() >= 3,
        "{first:?}"
    );
    let again: Vec<_> = futures::future::join_all((0..4).map(|_| call())).await;
    assert!(again.iter().all(Result::is_ok), "{again:?}");
}
