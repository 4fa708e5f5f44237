//! Tests with a scripted server that replays real responses byte by byte.

mod corpus;
mod dialects;
mod pictures;
mod required;
mod servers;
mod tools;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

use super::{
    super::{
        ChatMessage, CollectError, Delta, JsonSchema, Limits, NoStore, Role, StopReason, collect,
    },
    answer::{ANSWER_BYTES_MAX, Answer, EventReader, LINE_BYTES_MAX},
    refusal::{Quotes, retry_after},
    *,
};
use bytes::Bytes;
use serde_json::Value;

type Check<'a> = &'a dyn Fn(&ModelError) -> bool;

const KEY: &str = "sk-test-0123456789";

/// Server that sends the next raw response to each connection, then closes it.
struct Script {
    url: String,
    requests: Arc<Mutex<Vec<String>>>,
    _tasks: JoinSet<()>,
}

impl Script {
    async fn new(replies: Vec<Vec<u8>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v1/", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&requests);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            for reply in replies {
                let (mut socket, _) = listener.accept().await.unwrap();
                let request = read_request(&mut socket).await;
                seen.lock().unwrap().push(request);
                socket.write_all(&reply).await.unwrap();
                socket.shutdown().await.unwrap();
            }
        });
        Self {
            url,
            requests,
            _tasks: tasks,
        }
    }

    fn client(&self) -> OpenAi {
        client(&self.url, None)
    }

    fn bodies(&self) -> Vec<Value> {
        let requests = self.requests.lock().unwrap();
        let body = |request: &String| {
            let (_, body) = request.split_once("\r\n\r\n").unwrap();
            serde_json::from_str(body).unwrap()
        };
        requests.iter().map(body).collect()
    }
}

async fn read_request(socket: &mut TcpStream) -> String {
    let mut request = String::new();
    let mut piece = [0; 4096];
    loop {
        let length = socket.read(&mut piece).await.unwrap();
        request.push_str(std::str::from_utf8(&piece[..length]).unwrap());
        let Some((head, body)) = request.split_once("\r\n\r\n") else {
            continue;
        };
        let wanted = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: ")?.parse().ok())
            .unwrap_or(0);
        if body.len() >= wanted || length == 0 {
            return request;
        }
    }
}

fn endpoint(url: &str) -> Endpoint {
    let _ = rustls::crypto::ring::default_provider().install_default();
    Endpoint {
        base_url: Url::parse(url).unwrap(),
        api_key: Some(KEY.to_owned()),
        model: None,
        utility_model: None,
        resolver: None,
        errors: ErrorTexts::default(),
        context_window: None,
        table: Table::built_in().unwrap(),
        store: Arc::new(NoStore),
    }
}

fn client(url: &str, model: Option<&str>) -> OpenAi {
    OpenAi::new(Endpoint {
        model: model.map(str::to_owned),
        ..endpoint(url)
    })
    .unwrap()
}

fn quotes() -> Quotes {
    Quotes {
        api_key: Some(KEY.to_owned()),
        are_hidden: false,
    }
}

fn request() -> ChatRequest {
    ChatRequest {
        model: "m".to_owned(),
        system: "Be brief.".to_owned(),
        turns: vec![ChatMessage::new(Role::User, "Hello")],
        max_output_tokens: Some(100),
        temperature: Some(0.2),
        ..ChatRequest::default()
    }
}

/// Response without `Content-Length`, which ends when the connection closes.
fn raw(status: &str, headers: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\nconnection: close\r\n{headers}\r\n{body}").into_bytes()
}

fn events(body: &str) -> Vec<u8> {
    raw("200 OK", "content-type: text/event-stream\r\n", body)
}

fn said(text: &str) -> String {
    format!(
        "data: {}\n\n",
        serde_json::json!({"choices":[{"index":0,"delta":{"content":text}}]})
    )
}

fn finished(reason: &str) -> String {
    let chunk = serde_json::json!({"choices":[{"delta":{},"finish_reason":reason}]});
    format!("data: {chunk}\n\n")
}

async fn run(client: &OpenAi, request: ChatRequest) -> Result<Vec<Delta>, ModelError> {
    let mut stream = client.stream(request).await?;
    let mut deltas = Vec::new();
    while let Some(delta) = stream.next().await {
        deltas.push(delta?);
    }
    Ok(deltas)
}

async fn deltas_of(reply: Vec<u8>) -> Result<Vec<Delta>, ModelError> {
    run(&Script::new(vec![reply]).await.client(), request()).await
}

fn text(text: &str) -> Delta {
    Delta::Text(text.to_owned())
}

const COMPLETE: Delta = Delta::Stop(StopReason::Complete);

#[tokio::test]
async fn a_response_arrives_in_chunks_with_its_usage() {
    let usage =
        "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":2}}\n\n";
    let body = [
        &said("Hel"),
        &said("lo"),
        &finished("stop"),
        usage,
        "data: [DONE]\n\n",
    ]
    .concat();
    let script = Script::new(vec![events(&body)]).await;
    let deltas = run(&script.client(), request()).await.unwrap();
    let usage = Usage {
        input_tokens: 7,
        output_tokens: 2,
        ..Usage::default()
    };
    assert_eq!(
        deltas,
        [
            text("Hel"),
            text("lo"),
            Delta::Alive,
            COMPLETE,
            Delta::Usage(usage)
        ]
    );
    assert_eq!(
        script.bodies(),
        [serde_json::json!({
            "model": "m",
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "Hello"},
            ],
            "stream": true,
            "stream_options": {"include_usage": true},
            "max_tokens": 100,
            "temperature": 0.2,
        })]
    );
    let head = script.requests.lock().unwrap()[0].to_lowercase();
    assert!(
        head.starts_with("post /v1/chat/completions http/1.1\r\n"),
        "{head}"
    );
    assert!(
        head.contains(&format!("authorization: bearer {KEY}")),
        "{head}"
    );
}

#[tokio::test]
async fn nonstandard_servers_are_supported() {
    let ok = |body: &str| events(&format!("{body}{}", finished("stop")));
    let reasoning =
        "data: {\"choices\":[{\"delta\":{\"content\":null,\"reasoning_content\":\"hm\"}}]}\n\n";
    let parts = "data: {\"choices\":[{\"delta\":{\"content\":[{\"type\":\"thinking\"},{\"type\":\"text\",\"text\":\"Yes\"}]}}]}\n\n";
    let rows: Vec<(Vec<u8>, Vec<Delta>)> = vec![
        (
            events(&[said("Hi"), finished("eos"), "data: [DONE]\n\n".to_owned()].concat()),
            vec![text("Hi"), Delta::Alive, COMPLETE],
        ),
        // `[DONE]` after text completes it, even without a finish reason.
        (
            events(&[&said("Hi"), "data: [DONE]\n\n"].concat()),
            vec![text("Hi"), COMPLETE],
        ),
        // One object per line.
        (
            events(
                &[said("Hi"), finished("stop")]
                    .concat()
                    .replace("data: ", "")
                    .replace("\n\n", "\n"),
            ),
            vec![text("Hi"), Delta::Alive, COMPLETE],
        ),
        (
            ok("data: {\"choices\":[{\"delta\":{\"refusal\":\"No.\"}}]}\n\n"),
            vec![text("No."), Delta::Alive, COMPLETE],
        ),
        (
            events(&[said("Hi"), finished("content_filter")].concat()),
            vec![
                text("Hi"),
                Delta::Alive,
                text("\n\n(The AI service stopped here.)"),
                COMPLETE,
            ],
        ),
        (
            ok(&said("<think>Hm.</think>\n\nHi")),
            vec![text("Hi"), Delta::Alive, COMPLETE],
        ),
        (
            ok(&[said("Hm."), said("</think>Hi")].concat()),
            vec![
                text("Hm."),
                Delta::Discard,
                text("Hi"),
                Delta::Alive,
                COMPLETE,
            ],
        ),
        (
            events(&[said("Hi"), finished("length")].concat()),
            vec![text("Hi"), Delta::Alive, Delta::Stop(StopReason::Length)],
        ),
        (
            events(&[said("Hi"), finished("max_tokens")].concat()),
            vec![text("Hi"), Delta::Alive, Delta::Stop(StopReason::Length)],
        ),
        (
            ok(&[": ROUTER IS PROCESSING\n\n", &said("Hi")].concat()),
            vec![Delta::Alive, text("Hi"), Delta::Alive, COMPLETE],
        ),
        (
            ok(&[reasoning, &said("Hi")].concat()),
            vec![Delta::Alive, text("Hi"), Delta::Alive, COMPLETE],
        ),
        (ok(parts), vec![text("Yes"), Delta::Alive, COMPLETE]),
        (
            ok(&said("Hi").replace("\n\n", "\r\n\r\n")),
            vec![text("Hi"), Delta::Alive, COMPLETE],
        ),
        (
            ok(&said("Hi").replace("data: ", "event: message\nid: 1\ndata:")),
            vec![text("Hi"), Delta::Alive, COMPLETE],
        ),
        // Text in the last chunk, and no blank line at the end.
        (
            events(
                "data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"},\"finish_reason\":\"stop\"}],\"usage\":null}",
            ),
            vec![text("Hi"), COMPLETE],
        ),
        // Events after the end of the response have no effect.
        (
            events(
                &[
                    &said("Hi"),
                    &finished("stop"),
                    "data: {\"error\":{\"message\":\"x\"}}\n\n",
                ]
                .concat(),
            ),
            vec![text("Hi"), Delta::Alive, COMPLETE],
        ),
        // A server without streaming.
        (
            raw(
                "200 OK",
                "content-type: application/json\r\n",
                "{\"choices\":[{\"message\":{\"content\":\"Hi\"},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":1}}",
            ),
            vec![
                text("Hi"),
                COMPLETE,
                Delta::Usage(Usage {
                    input_tokens: 3,
                    output_tokens: 1,
                    ..Usage::default()
                }),
            ],
        ),
    ];
    for (reply, wanted) in rows {
        let shown = String::from_utf8_lossy(&reply).into_owned();
        assert_eq!(deltas_of(reply).await.unwrap(), wanted, "{shown}");
    }
}

#[tokio::test]
async fn only_a_stream_that_stops_early_is_cut_off() {
    let too_long = format!("data: {}", "x".repeat(LINE_BYTES_MAX + 2));
    for (body, is_cut_off) in [
        (said("Hi"), true),
        ([said("Hi"), finished("stop")].concat(), false),
        (finished("stop"), false),
        (finished("error"), false),
        (too_long, false),
        ("data: <html>\n\n".to_owned(), false),
        (String::new(), false),
    ] {
        let shown: String = body.chars().take(80).collect();
        let bytes = futures::stream::iter([Ok(Bytes::from(body))]);
        let mut answer = Answer::new(bytes.boxed(), Quotes::default(), Expected::default());
        while answer.next().await.is_some() {}
        assert_eq!(answer.ending().is_cut_off, is_cut_off, "{shown}");
    }
}

#[tokio::test]
async fn an_irregular_end_of_a_stream_is_classified() {
    let cut = |body: &str| {
        let head = "content-type: text/event-stream\r\ncontent-length: 9999\r\n";
        raw("200 OK", head, body)
    };
    let is_broken = |error: &ModelError| matches!(error, ModelError::Broken(_));
    let is_empty = |error: &ModelError| *error == ModelError::Empty;
    let is_busy = |error: &ModelError| matches!(error, ModelError::Unavailable(_));
    let is_limited = |error: &ModelError| matches!(error, ModelError::RateLimited { .. });
    let is_large = |error: &ModelError| *error == ModelError::ContextTooLarge;
    let rows: Vec<(Vec<u8>, Check<'_>)> = vec![
        (events(&said("Hi")), &is_broken),
        (cut(&said("Hi")), &is_broken),
        (
            events(
                "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\"}}]}\n\ndata: [DONE]\n\n",
            ),
            &is_broken,
        ),
        (events("data: <html>\n\n"), &is_broken),
        (
            events(&format!("data: {}", "x".repeat(LINE_BYTES_MAX + 2))),
            &is_broken,
        ),
        (
            events(
                &"data: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n"
                    .repeat(LINE_BYTES_MAX / 40),
            ),
            &is_broken,
        ),
        (events(&finished("error")), &is_broken),
        (events("data: {\"error\":\"something\"}\n\n"), &is_broken),
        (events(""), &is_empty),
        (events("data: [DONE]\n\n"), &is_empty),
        (events(&finished("stop")), &is_empty),
        (events(&[said(" \n"), finished("stop")].concat()), &is_empty),
        (
            events(
                "data: {\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n",
            ),
            &is_busy,
        ),
        (
            events("data: {\"error\":{\"code\":503,\"message\":\"x\"}}\n\n"),
            &is_busy,
        ),
        (
            events(
                "data: {\"type\":\"error\",\"error\":{\"type\":\"rate_limit_error\",\"message\":\"x\"}}\n\n",
            ),
            &is_limited,
        ),
        (
            events("data: {\"error\":{\"code\":\"429\",\"message\":\"x\"}}\n\n"),
            &is_limited,
        ),
        (
            events(
                "data: {\"object\":\"error\",\"message\":\"maximum context length\",\"code\":400}\n\n",
            ),
            &is_large,
        ),
        (
            events(
                "data: {\"error\":{\"code\":\"context_length_exceeded\",\"message\":\"x\"}}\n\n",
            ),
            &is_large,
        ),
    ];
    for (reply, is_wanted) in rows {
        let shown: String = String::from_utf8_lossy(&reply).chars().take(200).collect();
        let error = deltas_of(reply).await.unwrap_err();
        assert!(is_wanted(&error), "{error:?} for {shown}");
    }
}

#[tokio::test]
async fn an_endless_response_is_truncated() {
    let piece = "é".repeat(ANSWER_BYTES_MAX / 8 + 1);
    let body = [said("a"), said(&piece).repeat(9)].concat();
    let deltas = deltas_of(events(&body)).await.unwrap();
    let size: usize = deltas
        .iter()
        .map(|d| {
            if let Delta::Text(text) = d {
                text.len()
            } else {
                0
            }
        })
        .sum();
    assert_eq!(size, ANSWER_BYTES_MAX - 1);
    assert_eq!(deltas.last(), Some(&Delta::Stop(StopReason::Length)));
}

#[tokio::test]
async fn an_error_states_its_kind_and_never_the_key() {
    let unavailable = |detail: &str| ModelError::Unavailable(detail.to_owned());
    let bad = |detail: &str| ModelError::BadRequest(detail.to_owned());
    let auth = |detail: &str| ModelError::Auth(detail.to_owned());
    let limited = |seconds| ModelError::RateLimited {
        retry_after: Some(Duration::from_secs(seconds)),
    };
    let body = |message: &str| serde_json::json!({"error": {"message": message}}).to_string();
    let rows: Vec<(&str, &str, String, ModelError)> = vec![
        ("429 Too Many Requests", "retry-after: 7\r\n", body("slow"), limited(7)),
        ("429 Too Many Requests", "retry-after: Mon, 01 Jan 2024 00:00:00 GMT\r\n", body("slow"), limited(0)),
        ("429 Too Many Requests", "", String::new(), ModelError::RateLimited { retry_after: None }),
        ("500 Internal Server Error", "", body("oops"), unavailable("status 500, oops")),
        ("502 Bad Gateway", "", String::new(), unavailable("status 502")),
        ("503 Service Unavailable", "content-type: text/html\r\n", "<html><head><title>503 Busy</title></head><body>x</body></html>".to_owned(), unavailable("status 503, 503 Busy")),
        ("504 Gateway Timeout", "", "<p>x".to_owned(), unavailable("status 504, a web page")),
        ("529 Overloaded", "", body("Overloaded"), unavailable("status 529, Overloaded")),
        ("401 Unauthorized", "", format!("{{\"detail\":\"bad key {KEY} or sk-te***89\"}}"), auth("status 401, bad key … or …")),
        ("403 Forbidden", "", body("no"), auth("status 403, no")),
        ("404 Not Found", "", body("no model `m`"), ModelError::ModelMissing("status 404, no model `m`".to_owned())),
        ("404 Not Found", "", "{\"detail\":\"Not Found\"}".to_owned(), bad("no chat completions at URL/v1: check the base URL")),
        ("400 Bad Request", "", "{\"detail\":[{\"msg\":\"wrong\"}]}".to_owned(), bad("status 400, [{\"msg\":\"wrong\"}]")),
        ("400 Bad Request", "", "{\"error\":\"plain\"}".to_owned(), bad("status 400, plain")),
        ("307 Temporary Redirect", "location: /x\r\n", String::new(), bad("status 307")),
        ("400 Bad Request", "", "{\"error\":{\"code\":\"context_length_exceeded\",\"message\":\"x\"}}".to_owned(), ModelError::ContextTooLarge),
        ("400 Bad Request", "", body("prompt is too long: 210000 tokens > 200000 maximum"), ModelError::ContextTooLarge),
        ("400 Bad Request", "", "{\"error\":{\"type\":\"exceed_context_size_error\",\"message\":\"the request exceeds the available context size\"}}".to_owned(), ModelError::ContextTooLarge),
        ("413 Payload Too Large", "", String::new(), ModelError::ContextTooLarge),
        ("422 Unprocessable Entity", "", body("This model's maximum context length is 4096 tokens"), ModelError::ContextTooLarge),
        ("200 OK", "content-type: text/html\r\n", "<html>".to_owned(), bad("no chat completions at URL/v1: check the base URL")),
    ];
    for (status, headers, body, wanted) in rows {
        let error = deltas_of(raw(status, headers, &body)).await.unwrap_err();
        let without_host = match error {
            ModelError::BadRequest(detail) => {
                let words = detail.split(' ').map(|word| match word.split_once("://") {
                    Some((_, rest)) => format!("URL{}", &rest[rest.find('/').unwrap()..]),
                    None => word.to_owned(),
                });
                ModelError::BadRequest(words.collect::<Vec<_>>().join(" "))
            }
            error => error,
        };
        assert_eq!(without_host, wanted, "{status} {body}");
    }
    let long = deltas_of(raw("400 Bad Request", "", &"word ".repeat(9_000)))
        .await
        .unwrap_err();
    assert!(long.to_string().len() < 300, "{long}");
}

#[tokio::test]
async fn an_unreachable_server_is_unavailable() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let client = client(&format!("http://user:{KEY}@{address}/v1"), None);
    let error = run(&client, request()).await.unwrap_err();
    assert!(matches!(error, ModelError::Unavailable(_)), "{error:?}");
    assert!(!error.to_string().contains(KEY), "{error}");
    let closes = deltas_of(Vec::new()).await.unwrap_err();
    assert!(matches!(closes, ModelError::Unavailable(_)), "{closes:?}");
}

#[tokio::test]
async fn a_field_rejected_by_a_model_is_omitted_from_then_on() {
    let refuses = |message: &str| {
        raw(
            "400 Bad Request",
            "",
            &serde_json::json!({"error": {"message": message}}).to_string(),
        )
    };
    let answer = || events(&[said("Hi"), finished("stop")].concat());
    let script = Script::new(vec![
        refuses("Unsupported parameter: 'max_tokens' is not supported. Use 'max_completion_tokens' instead."),
        refuses("`temperature` and `top_p` cannot both be specified for this model."),
        refuses("Unsupported value: 'temperature' does not support 0.2."),
        raw("422 Unprocessable Entity", "", "{\"detail\":[{\"loc\":[\"body\",\"stream_options\"],\"msg\":\"Extra inputs are not permitted\"}]}"),
        answer(),
        answer(),
    ])
    .await;
    let client = script.client();
    let request = ChatRequest {
        top_p: Some(0.5),
        ..request()
    };
    run(&client, request.clone()).await.unwrap();
    run(&client, request).await.unwrap();
    let fields = [
        "max_tokens",
        "max_completion_tokens",
        "top_p",
        "temperature",
        "stream_options",
    ];
    let sent: Vec<String> = script
        .bodies()
        .iter()
        .map(|body| {
            fields
                .iter()
                .filter(|f| body.get(f).is_some())
                .copied()
                .collect::<Vec<_>>()
                .join(" ")
        })
        .collect();
    assert_eq!(
        sent,
        [
            "max_tokens top_p temperature stream_options",
            "max_completion_tokens top_p temperature stream_options",
            "max_completion_tokens temperature stream_options",
            "max_completion_tokens stream_options",
            "max_completion_tokens",
            "max_completion_tokens",
        ]
    );
}

/// Request with a schema, for the given model.
fn schema_request(model: &str) -> ChatRequest {
    ChatRequest {
        model: model.to_owned(),
        json_schema: Some(JsonSchema {
            name: "answer",
            schema: Arc::new(serde_json::json!({"type": "object"})),
        }),
        ..request()
    }
}

#[tokio::test]
async fn a_schema_is_sent_to_supporting_and_unknown_models() {
    let answer = || events(&[said("{}"), finished("stop")].concat());
    let script = Script::new(vec![answer(), answer(), answer(), answer()]).await;
    let client = script.client();
    for model in ["unheard-of", "gpt-5-mini", "claude-sonnet-4-5"] {
        run(&client, schema_request(model)).await.unwrap();
    }
    run(&client, request()).await.unwrap();
    let bodies = script.bodies();
    let wanted = serde_json::json!({
        "type": "json_schema",
        "json_schema": {"name": "answer", "strict": true, "schema": {"type": "object"}},
    });
    assert_eq!(bodies[0]["response_format"], wanted);
    assert_eq!(bodies[1]["response_format"], wanted);
    assert_eq!(bodies[2].get("response_format"), None);
    assert_eq!(bodies[3].get("response_format"), None);
}

#[tokio::test]
async fn a_model_that_rejects_the_schema_is_called_without_it_from_then_on() {
    let refusals = [
        serde_json::json!({"error": {"message": "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model.", "param": "response_format"}}),
        serde_json::json!({"error": {"message": "This model does not support response format `json_schema`."}}),
        serde_json::json!({"detail": [{"loc": ["body", "response_format", "type"], "msg": "Input should be 'text' or 'json_object'"}]}),
        serde_json::json!({"error": {"message": "failed to parse grammar"}}),
    ];
    for refusal in refusals {
        let answer = || events(&[said("{}"), finished("stop")].concat());
        let refused = || raw("400 Bad Request", "", &refusal.to_string());
        let script = Script::new(vec![refused(), refused(), answer(), answer(), answer()]).await;
        let client = script.client();
        run(&client, schema_request("m")).await.unwrap();
        run(&client, schema_request("m")).await.unwrap();
        run(&client, schema_request("other")).await.unwrap();
        let sent: Vec<Value> = script
            .bodies()
            .iter()
            .map(|body| body["response_format"]["type"].clone())
            .collect();
        let wanted = [
            "json_schema".into(),
            "json_object".into(),
            Value::Null,
            Value::Null,
            "json_schema".into(),
        ];
        assert_eq!(sent, wanted, "{refusal}");
    }
    let other = raw(
        "400 Bad Request",
        "",
        "{\"error\":{\"message\":\"no such model\"}}",
    );
    let script = Script::new(vec![other]).await;
    let error = run(&script.client(), schema_request("m")).await;
    assert!(matches!(error, Err(ModelError::BadRequest(_))), "{error:?}");
}

fn within(bytes_max: usize) -> Limits {
    Limits {
        bytes_max,
        silence_max: Duration::from_secs(20),
        time_max: Duration::from_secs(20),
    }
}

#[tokio::test]
async fn a_silent_server_times_out() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = client(&format!("http://{}", listener.local_addr().unwrap()), None);
    let serve = async {
        let (mut socket, _) = listener.accept().await.unwrap();
        read_request(&mut socket).await;
        socket.write_all(&events(&said("Hel"))).await.unwrap();
        // Wait until the client closes the connection.
        let mut rest = Vec::new();
        drop(tokio::io::AsyncReadExt::read_to_end(&mut socket, &mut rest).await);
    };
    let limits = Limits {
        silence_max: Duration::from_millis(50),
        ..within(10_000)
    };
    let (answer, ()) = tokio::join!(collect(&client, request(), limits), serve);
    assert_eq!(answer, Err(CollectError::Timeout));
}

#[tokio::test]
async fn a_complete_response_is_collected_up_to_a_limit() {
    let usage =
        "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":2}}\n\n";
    let collected = async |pieces: &[&str], reason: &str, bytes_max: usize| {
        let body = pieces.iter().map(|piece| said(piece)).collect::<String>();
        let reply = events(&[body, finished(reason), usage.to_owned()].concat());
        let script = Script::new(vec![reply]).await;
        collect(&script.client(), request(), within(bytes_max)).await
    };
    let whole = collected(&["Hel", "lo"], "stop", 5).await.unwrap();
    assert_eq!((whole.text.as_str(), whole.is_cut), ("Hello", false));
    assert_eq!(whole.usage.unwrap().input_tokens, 7);
    let cut = collected(&["Hel", "lö!"], "stop", 5).await.unwrap();
    assert_eq!((cut.text.as_str(), cut.is_cut), ("Hell", true));
    let short = collected(&["Hel"], "length", 5).await.unwrap();
    assert_eq!((short.text.as_str(), short.is_cut), ("Hel", true));
    assert_eq!(
        collected(&[" "], "stop", 5).await,
        Err(CollectError::Model(ModelError::Empty))
    );
}

#[tokio::test]
async fn an_endless_response_is_aborted_at_the_limit() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = client(&format!("http://{}", listener.local_addr().unwrap()), None);
    let serve = async {
        let (mut socket, _) = listener.accept().await.unwrap();
        read_request(&mut socket).await;
        let piece = said(&"x".repeat(1_000));
        socket.write_all(&events(&piece)).await.unwrap();
        while socket.write_all(piece.as_bytes()).await.is_ok() {}
    };
    let asked = collect(&client, request(), within(10_000));
    let both = async { tokio::join!(asked, serve).0 };
    let answer = tokio::time::timeout(Duration::from_secs(20), both).await;
    let answer = answer.unwrap().unwrap();
    assert_eq!((answer.text.len(), answer.is_cut), (10_000, true));
}

#[tokio::test]
async fn a_persistent_error_is_returned() {
    let message = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens'.";
    let refusal = || {
        raw(
            "400 Bad Request",
            "",
            &serde_json::json!({"error": {"message": message, "param": "max_tokens"}}).to_string(),
        )
    };
    let script = Script::new(vec![refusal(), refusal()]).await;
    let error = run(&script.client(), request()).await.unwrap_err();
    assert!(matches!(error, ModelError::BadRequest(_)), "{error:?}");
    assert_eq!(script.bodies().len(), 2);
}

#[tokio::test]
async fn an_output_limit_larger_than_the_window_is_omitted_for_one_request() {
    let refusal = raw(
        "400 Bad Request",
        "",
        "{\"error\":{\"message\":\"'max_tokens' or 'max_completion_tokens' is too large: 4096. This model's maximum context length is 4096 tokens\"}}",
    );
    let answer = || events(&[said("Hi"), finished("stop")].concat());
    let script = Script::new(vec![refusal, answer(), answer()]).await;
    let client = script.client();
    run(&client, request()).await.unwrap();
    run(&client, request()).await.unwrap();
    let limits: Vec<bool> = script
        .bodies()
        .iter()
        .map(|b| b.get("max_tokens").is_some())
        .collect();
    assert_eq!(limits, [true, false, true]);
}

#[tokio::test]
async fn the_requested_model_is_used_if_available_and_otherwise_the_first() {
    let list = raw(
        "200 OK",
        "content-type: application/json\r\n",
        "{\"data\":[{\"id\":\"nomic-embed\"},{\"id\":\"qwen\",\"max_model_len\":8192},{\"id\":\"phi\"}]}",
    );
    let script = Script::new(vec![list]).await;
    let client = script.client();
    assert_eq!(client.choose_model(Some("phi")).await, "phi");
    // The list is requested only once, because the script has no second response.
    assert_eq!(client.choose_model(Some("claude-sonnet-4-5")).await, "qwen");
    assert_eq!(client.choose_model(None).await, "qwen");
    assert_eq!(client.utility_model("qwen").await, "qwen");
    let window = async |model| {
        let window = client.window(model).await;
        (window.tokens, window.source)
    };
    assert_eq!(window("qwen").await, (8192, WindowSource::Provider));
    assert_eq!(
        window("other").await,
        (WINDOW_ASSUMED, WindowSource::Assumed)
    );
    assert_eq!(script.requests.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_server_without_a_model_list_gets_the_requested_model() {
    let script = Script::new(vec![raw("404 Not Found", "", "")]).await;
    let unlisted = script.client();
    assert_eq!(unlisted.choose_model(Some("wanted")).await, "wanted");
    assert_eq!(unlisted.choose_model(None).await, MODEL_UNKNOWN);
    let set = client(&script.url, Some("always"));
    assert_eq!(set.choose_model(Some("wanted")).await, "always");
}

#[tokio::test]
async fn a_vendor_is_queried_only_for_models_that_are_not_in_the_table() {
    let vendor = client("https://api.anthropic.com/v1/", None);
    assert_eq!(
        vendor.choose_model(Some("claude-opus-4-6")).await,
        "claude-opus-4-6"
    );
    assert_eq!(vendor.choose_model(None).await, "claude-sonnet-4-5");
    assert_eq!(
        vendor.utility_model("claude-opus-4-6").await,
        "claude-haiku-4-5"
    );
    let usage = Usage {
        input_tokens: 1_000_000,
        ..Usage::default()
    };
    assert_eq!(vendor.cost_usd("claude-haiku-4-5", usage), Some(1.0));
}

#[tokio::test]
async fn dropping_the_stream_closes_the_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = client(&format!("http://{}", listener.local_addr().unwrap()), None);
    let serve = async {
        let (mut socket, _) = listener.accept().await.unwrap();
        read_request(&mut socket).await;
        socket.write_all(&events(&said("Hi"))).await.unwrap();
        socket
    };
    let (stream, mut socket) = tokio::join!(client.stream(request()), serve);
    let mut stream = stream.unwrap();
    assert_eq!(stream.next().await, Some(Ok(text("Hi"))));
    drop(stream);
    let closed = tokio::time::timeout(Duration::from_secs(5), socket.read(&mut [0; 1])).await;
    assert!(matches!(closed, Ok(Ok(0) | Err(_))), "{closed:?}");
}

#[test]
fn waits_are_parsed_as_seconds_milliseconds_or_dates() {
    let now = httpdate::parse_http_date("Wed, 21 Oct 2026 07:28:00 GMT").unwrap();
    for (name, value, wanted) in [
        ("retry-after", "7", Some(7_000)),
        ("retry-after", "0.5", Some(500)),
        ("retry-after", "Wed, 21 Oct 2026 07:28:30 GMT", Some(30_000)),
        ("retry-after", "soon", None),
        ("retry-after", "-1", None),
        ("retry-after-ms", "1500", Some(1_500)),
    ] {
        let mut headers = HeaderMap::new();
        headers.insert(name, HeaderValue::from_static(value));
        assert_eq!(
            retry_after(&headers, now),
            wanted.map(Duration::from_millis),
            "{value}"
        );
    }
}

#[test]
fn events_are_the_same_however_they_are_split() {
    let stream =
        "\u{feff}: hello\r\n\r\ndata: one\r\ndata:two\r\n\r\nevent: x\rdata: é\r\rdata: last";
    let whole = [
        "Comment",
        "Event(\"one\\ntwo\")",
        "Event(\"é\")",
        "Event(\"last\")",
    ];
    for size in 1..stream.len() {
        let mut reader = EventReader::default();
        let mut items = Vec::new();
        for piece in stream.as_bytes().chunks(size) {
            reader.feed(piece);
            while let Some(item) = reader.next().unwrap() {
                items.push(item);
            }
        }
        items.extend(reader.finish());
        let shown: Vec<String> = items.iter().map(|item| format!("{item:?}")).collect();
        assert_eq!(shown, whole, "in pieces of {size}");
    }
}
