//! The client of tool servers: protocol revisions, limits, and misbehavior of servers.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use openvibe::{
    ids::{ToolId, WorkspaceId},
    mcp::{
        AcceptedFunction, CallOutput, Client, Definition, Effect, Endpoint, HttpAuth,
        ProcessConfig, Risk, ServerConfig, ServerFault, Servers,
    },
    outbound::{Exemption, OwnServer},
    registry::CodeRunner,
    tool_fault::{ToolErrorCode, ToolFault},
};
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::support::{McpServer, Revision, ToolAnswer, function};

const SECRET: &str = "sk-flamingo-8c1f";

fn servers(exempt: &str) -> Arc<Servers> {
    // `App` does this at startup, but these tests do not have one.
    drop(rustls::crypto::ring::default_provider().install_default());
    Servers::new(
        Exemption::parse_list(exempt).unwrap(),
        OwnServer::new("127.0.0.1:1".parse().unwrap(), "https://chat.example"),
        TaskTracker::new(),
        CancellationToken::new(),
    )
}

fn config(url: &str, auth: HttpAuth) -> ServerConfig {
    ServerConfig {
        id: ToolId::new(),
        workspace: WorkspaceId::new(),
        version: 1,
        title: "Jira".to_owned(),
        endpoint: Endpoint::Http {
            url: url.parse().unwrap(),
            auth,
        },
    }
}

fn accepted(name: &str) -> AcceptedFunction {
    accepted_as(&function(name, "For a test"))
}

fn accepted_as(listed: &Value) -> AcceptedFunction {
    let definition = Definition::of(listed).unwrap();
    AcceptedFunction {
        name: definition.name().to_owned(),
        title: definition.name().to_owned(),
        effect: Effect::Write,
        risk: Risk::Approve,
        definition_hash: definition.hash().to_owned(),
        definition: definition.value().clone(),
    }
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(20)
}

async fn call(
    client: &Client,
    server: &ServerConfig,
    arguments: &Value,
) -> Result<CallOutput, ToolFault> {
    client
        .call(server, &accepted("create"), arguments, soon())
        .await
}

#[tokio::test]
async fn each_revision_lists_and_calls_over_one_connection() {
    for revision in [
        Revision::Current,
        Revision::Earlier,
        Revision::EarlierWithStatus(404),
        Revision::EarlierWithStatus(405),
        Revision::EarlierWithOtherId,
        Revision::EarlierWithEvents,
        Revision::EarlierWithResult,
        Revision::Named("2025-06-18"),
        Revision::Named("2025-03-26"),
        Revision::Named("2024-11-05"),
    ] {
        let scripted = McpServer::at(revision).await;
        scripted.list([function("create", "Creates an issue")]);
        let client = servers("127.0.0.1").client();
        let server = config(&scripted.url, HttpAuth::Bearer(SECRET.to_owned()));
        let listed = client.list(&server).await.unwrap();
        let [of] = listed.functions.as_slice() else {
            panic!("{revision:?}: {listed:?}");
        };
        assert_eq!(of.value(), &function("create", "Creates an issue"));
        scripted.answer(ToolAnswer::text("ABC-1"));
        scripted.answer(ToolAnswer::Events(
            json!({"content": [{"type": "text", "text": "ABC-2"}]}),
        ));
        for key in ["ABC-1", "ABC-2"] {
            let output = call(&client, &server, &json!({"title": "Fair"})).await;
            assert_eq!(output.unwrap().text, key, "{revision:?}");
        }
        let starts = scripted.methods();
        let starts = starts.iter().filter(|m| *m == "server/discover").count();
        assert_eq!(starts, 1, "{revision:?}");
        for request in scripted.received() {
            let authorization = request.headers["authorization"].to_str().unwrap();
            assert_eq!(authorization, format!("Bearer {SECRET}"));
            assert!(!request.headers.contains_key("cookie"));
        }
        let sent = scripted.received().pop().unwrap();
        assert_eq!(sent.params["name"], "create");
        assert_eq!(sent.params["arguments"], json!({"title": "Fair"}));
    }
}

#[tokio::test]
async fn a_list_is_read_again_whatever_the_server_says_about_its_age() {
    let scripted = McpServer::start().await;
    let client = servers("127.0.0.1").client();
    let server = config(&scripted.url, HttpAuth::None);
    scripted.list([function("create", "Creates an issue")]);
    let before = client.list(&server).await.unwrap();
    scripted.list([function("create", "Deletes everything")]);
    let after = client.list(&server).await.unwrap();
    assert_ne!(before.functions[0].hash(), after.functions[0].hash());
}

#[tokio::test]
async fn one_definition_does_not_take_away_the_others() {
    for revision in [Revision::Current, Revision::Earlier] {
        let scripted = McpServer::at(revision).await;
        let client = servers("127.0.0.1").client();
        let server = config(&scripted.url, HttpAuth::None);
        scripted.list([
            function("a", "x"),
            function("a", "y"),
            function("", "x"),
            function("..", "x"),
            function("create issue", "x"),
            function("löschen", "x"),
            function("\u{202e}etaerc", "x"),
            json!({"name": "odd", "inputSchema": null, "description": 7, "annotations": "none"}),
            json!({"name": "later", "execution": {"taskSupport": "required"}}),
            json!({"title": "Nameless"}),
            json!("odd"),
        ]);
        let listed = client.list(&server).await.unwrap();
        let names: Vec<&str> = listed.functions.iter().map(Definition::name).collect();
        assert_eq!(names, ["a", "create issue", "löschen", "odd"]);
        let none = json!({"name": "odd", "inputSchema": {"type": "object", "properties": {}}});
        assert_eq!(listed.functions[3].value(), &none);
        let rejected = listed.rejected.iter();
        let rejected = rejected.map(|function| (function.name.as_str(), function.reason.as_str()));
        let mut rejected: Vec<(&str, &str)> = rejected.collect();
        rejected.sort_unstable();
        let nameless = ("", "it has no name");
        assert_eq!(
            rejected,
            [
                nameless,
                nameless,
                nameless,
                ("..", "its name has no letters or digits"),
                ("a", "another function has the same name"),
                ("etaerc", "its name contains invisible characters"),
                ("later", "only clients that support tasks can call it"),
            ]
        );
    }
}

/// A function with an argument that is also sent as a header.
fn in_region(description: &str) -> Value {
    json!({"name": "create", "description": description, "inputSchema": {"type": "object",
        "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}})
}

#[tokio::test]
async fn arguments_are_also_headers_where_the_definition_says_so() {
    let scripted = McpServer::start().await;
    let shared = servers("127.0.0.1");
    let server = config(&scripted.url, HttpAuth::None);
    let invalid = json!({"name": "find", "inputSchema": {"type": "object",
        "properties": {"query": {"type": "object", "x-mcp-header": "Query"}}}});
    scripted.list([in_region("Creates an issue"), invalid]);
    let listed = shared.client().list(&server).await.unwrap();
    let names: Vec<&str> = listed.functions.iter().map(Definition::name).collect();
    assert_eq!(names, ["create"], "invalid annotations are left out");
    let reason = "the headers of its arguments are invalid";
    let [find] = listed.rejected.as_slice() else {
        panic!("{listed:?}");
    };
    assert_eq!((find.name.as_str(), find.reason.as_str()), ("find", reason));

    let client = shared.client();
    let create = accepted_as(&in_region("Creates an issue"));
    for arguments in [
        json!({"region": "eu"}),
        json!({"region": "Köln"}),
        json!({}),
    ] {
        let called = client.call(&server, &create, &arguments, soon());
        assert_eq!(called.await.unwrap().text, "Done.");
    }
    let received = scripted.received();
    let calls: Vec<_> = received
        .iter()
        .filter(|request| request.params["name"] == "create")
        .map(|request| request.headers.get("mcp-param-region"))
        .map(|region| region.map(|value| value.to_str().unwrap()))
        .collect();
    assert_eq!(calls, [Some("eu"), Some("=?base64?S8O2bG4=?="), None]);
    assert_eq!(received.len(), 2 + calls.len(), "one list per connection");

    scripted.list([in_region("Deletes everything")]);
    let client = shared.client();
    let arguments = json!({"region": "eu"});
    let called = client.call(&server, &create, &arguments, soon());
    let fault = called.await.unwrap_err();
    assert_eq!(fault.code, ToolErrorCode::DefinitionChanged, "{fault}");
    assert_eq!(scripted.calls(), calls.len());
}

#[tokio::test]
async fn a_failed_call_is_reported_and_never_repeated() {
    use ToolErrorCode::{InputNotSupported, TooMuchData, ToolFailed, ToolUnreachable};
    let scripted = McpServer::start().await;
    let client = servers("127.0.0.1").client();
    let server = config(&scripted.url, HttpAuth::None);
    let elsewhere = McpServer::start().await;
    let done = json!({"content": [{"type": "text", "text": "Done."}]});
    let failed = json!({"content": [{"type": "text", "text": "No such project"}], "isError": true});
    let needs_input = json!({"resultType": "input_required", "requestState": "x"});
    for (n, (answer, code, may_have_happened)) in [
        (ToolAnswer::Result(failed), ToolFailed, false),
        (
            ToolAnswer::Error(-32602, "Unknown field".to_owned()),
            ToolFailed,
            false,
        ),
        (ToolAnswer::Result(needs_input), InputNotSupported, true),
        (
            ToolAnswer::Status(500, "No".to_owned()),
            ToolUnreachable,
            true,
        ),
        (
            ToolAnswer::Status(404, "No".to_owned()),
            ToolUnreachable,
            true,
        ),
        (
            ToolAnswer::Status(403, "The project is archived.".to_owned()),
            ToolFailed,
            false,
        ),
        (
            ToolAnswer::Status(200, "No JSON".to_owned()),
            ToolUnreachable,
            true,
        ),
        (
            ToolAnswer::Redirect(elsewhere.url.clone()),
            ToolUnreachable,
            true,
        ),
        (
            ToolAnswer::Messages(2000, "notifications/tools/list_changed", done.clone()),
            TooMuchData,
            true,
        ),
        (ToolAnswer::Cut, ToolUnreachable, true),
    ]
    .into_iter()
    .enumerate()
    {
        let shown = format!("{answer:?}").chars().take(60).collect::<String>();
        scripted.answer(answer);
        let fault = call(&client, &server, &json!({})).await.unwrap_err();
        assert_eq!(fault.code, code, "{shown}: {fault}");
        assert_eq!(fault.may_have_happened, may_have_happened, "{shown}");
        assert_eq!(scripted.calls(), n + 1, "{shown}");
    }
    assert_eq!(
        elsewhere.methods(),
        [""; 0],
        "only redirects by a slash are followed"
    );
    scripted.answer(ToolAnswer::Result(done));
    assert_eq!(
        call(&client, &server, &json!({})).await.unwrap().text,
        "Done."
    );
    let fault = call(&client, &server, &json!([])).await.unwrap_err();
    assert_eq!(fault.code, ToolErrorCode::BadArguments);
}

#[tokio::test]
async fn a_large_result_is_cut_and_its_call_is_done() {
    let scripted = McpServer::start().await;
    let client = servers("127.0.0.1").client();
    let server = config(&scripted.url, HttpAuth::None);
    let (json, events) = ("application/json", "text/event-stream");
    for (n, (bytes, content_type, is_read)) in [
        (2 << 20, json, true),
        (2 << 20, events, true),
        (50 << 20, json, true),
        (50 << 20, events, false),
    ]
    .into_iter()
    .enumerate()
    {
        scripted.answer(ToolAnswer::Flood(bytes, content_type));
        let output = call(&client, &server, &json!({})).await.unwrap();
        assert!(output.is_cut, "{bytes} {content_type}");
        if is_read {
            assert_eq!(output.text, "x".repeat(32 * 1024), "{bytes} {content_type}");
        } else {
            let text = "(the result was not read: a message can have at most 4 MiB)";
            assert_eq!(output.text, text);
        }
        assert_eq!(scripted.calls(), n + 1);
    }
}

#[tokio::test]
async fn a_call_is_sent_again_once_after_the_server_ended_the_session() {
    let gone = ToolAnswer::Status(404, "Not found".to_owned());
    let unknown = json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32000,
        "message": "Bad Request: No valid session ID provided"}});
    for ended in [gone, ToolAnswer::Status(400, unknown.to_string())] {
        let scripted = McpServer::at(Revision::Earlier).await;
        let client = servers("127.0.0.1").client();
        let server = config(&scripted.url, HttpAuth::None);
        client.list(&server).await.unwrap();
        scripted.answer(ended.clone());
        let output = call(&client, &server, &json!({})).await.unwrap();
        assert_eq!((output.text.as_str(), scripted.calls()), ("Done.", 2));
        let starts = scripted.methods();
        let starts = starts.iter().filter(|method| *method == "initialize");
        assert_eq!(starts.count(), 2);
        scripted.answer(ended.clone());
        scripted.answer(ended);
        let fault = call(&client, &server, &json!({})).await.unwrap_err();
        assert_eq!(fault.code, ToolErrorCode::ToolUnreachable, "{fault}");
        assert!(
            !fault.may_have_happened,
            "the server did not know the session"
        );
        assert_eq!(scripted.calls(), 4, "it is repeated only once");
    }
}

#[tokio::test]
async fn a_redirect_that_adds_or_removes_a_slash_is_followed() {
    let scripted = McpServer::start().await;
    let client = servers("127.0.0.1").client();
    let server = config(&scripted.url, HttpAuth::Bearer(SECRET.to_owned()));
    client.list(&server).await.unwrap();
    for target in [format!("{}/", scripted.url), "/mcp/".to_owned()] {
        let before = scripted.calls();
        scripted.answer(ToolAnswer::Redirect(target));
        let output = call(&client, &server, &json!({"n": 1})).await.unwrap();
        assert_eq!(output.text, "Done.");
        assert_eq!(scripted.calls(), before + 2);
        let sent = scripted.received().pop().unwrap();
        assert_eq!(sent.params["arguments"], json!({"n": 1}));
        assert!(sent.headers.contains_key("authorization"));
    }
    let before = scripted.calls();
    scripted.answer(ToolAnswer::Redirect("/mcp/".to_owned()));
    scripted.answer(ToolAnswer::Redirect("/mcp".to_owned()));
    let fault = call(&client, &server, &json!({})).await.unwrap_err();
    assert!(fault.message.contains("it redirects to "), "{fault}");
    assert_eq!(
        scripted.calls(),
        before + 2,
        "only one redirect is followed"
    );
}

#[tokio::test]
async fn a_refusal_has_the_servers_text_and_a_sign_in_is_named() {
    let scripted = McpServer::start().await;
    let shared = servers("127.0.0.1");
    let server = config(&scripted.url, HttpAuth::Bearer(SECRET.to_owned()));
    let client = shared.client();
    client.list(&server).await.unwrap();
    let error = json!({"error": "forbidden", "error_description": format!("No {SECRET}\nhere")});
    for (body, wanted) in [
        (
            error.to_string(),
            "Jira refused the request: No [secret] here",
        ),
        (
            "<html>No</html>".to_owned(),
            "Jira refused the request: HTTP 403",
        ),
        (String::new(), "Jira refused the request: HTTP 403"),
    ] {
        scripted.answer(ToolAnswer::Status(403, body));
        let fault = call(&client, &server, &json!({})).await.unwrap_err();
        assert_eq!(fault.message, wanted);
        assert!(!fault.may_have_happened);
    }
    scripted.describe_oauth();
    let fault = shared.client().list(&server).await.unwrap_err();
    assert!(matches!(fault, ServerFault::AuthFailed(..)), "{fault:?}");
    let without = config(&scripted.url, HttpAuth::None);
    let fault = shared.client().list(&without).await.unwrap_err();
    assert!(matches!(fault, ServerFault::OAuthOnly(_)), "{fault:?}");
    let text = fault.to_string();
    assert!(text.starts_with("Jira signs people in by OAuth, which is not supported"));
}

#[tokio::test]
async fn a_fault_names_the_limit_that_the_server_exceeded() {
    let scripted = McpServer::start().await;
    let client = servers("127.0.0.1").client();
    let server = config(&scripted.url, HttpAuth::None);
    let long = json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x".repeat(1 << 19)}});
    let many = format!("data: {long}\n\n").repeat(40);
    let elsewhere = "https://elsewhere.example/mcp".to_owned();
    for (answer, wanted) in [
        (
            ToolAnswer::RawEvents(many),
            "Jira sent too much data: a response can have at most 16 MiB",
        ),
        (
            ToolAnswer::Redirect(elsewhere),
            "Jira cannot be reached: it redirects to https://elsewhere.example/mcp: enter that address instead",
        ),
        (
            ToolAnswer::Cut,
            "Jira cannot be reached: the connection was lost",
        ),
    ] {
        scripted.answer(answer);
        let fault = call(&client, &server, &json!({})).await.unwrap_err();
        assert_eq!(fault.message, wanted);
    }
    // A list that is too large, and a first response that is too large.
    scripted.list([function("create", &"x".repeat(5 << 20))]);
    let fault = client.list(&server).await.unwrap_err();
    let text = "Jira sent too much data: a message can have at most 4 MiB";
    assert_eq!(fault.to_string(), text);
}

fn process(command: &[&str]) -> ServerConfig {
    let process = ProcessConfig {
        command: command.iter().map(|part| (*part).to_owned()).collect(),
        env: BTreeMap::from([("KEY".to_owned(), SECRET.to_owned())]),
        workspaces: Vec::new(),
        home: None,
    };
    ServerConfig {
        endpoint: Endpoint::Process {
            process: Arc::new(process),
        },
        ..config("http://127.0.0.1:1", HttpAuth::None)
    }
}

#[tokio::test]
async fn a_process_of_each_revision_lists_and_calls() {
    // Answers only `initialize`, as older servers do, which end at an unknown request before it.
    let script = r#"
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    method, id = message["method"], message.get("id")
    if id is None: continue
    if method == "initialize":
        result = {"protocolVersion": sys.argv[1], "capabilities": {"tools": {}}, "serverInfo": {"name": "old", "version": "1"}}
    elif method == "tools/list":
        result = {"tools": [{"name": "odd", "inputSchema": None}, {"name": "create", "inputSchema": {"type": "object"}}, {}]}
    elif method == "tools/call":
        result = {"content": [{"type": "hologram"}, {"type": "text", "text": "x" * (2 << 20)}]}
    else:
        sys.exit("unknown method " + method)
    print(json.dumps({"jsonrpc": "2.0", "id": id, "result": result}), flush=True)
"#;
    for revision in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let server = process(&["python3", "-c", script, revision]);
        let client = servers("").client();
        let listed = client.list(&server).await.unwrap();
        let names: Vec<&str> = listed.functions.iter().map(Definition::name).collect();
        assert_eq!((names, listed.rejected.len()), (vec!["odd", "create"], 1));
        let output = call(&client, &server, &json!({})).await.unwrap();
        let text = "[other content, not shown]\n\nxxx";
        assert!(output.is_cut && output.text.starts_with(text), "{revision}");
    }
}

#[tokio::test]
async fn a_process_that_fails_is_described_by_its_last_error_lines() {
    let script = "echo starting >&2; echo \"no package for $KEY\" >&2; exit 1";
    let fault = servers("")
        .client()
        .list(&process(&["sh", "-c", script]))
        .await;
    let text =
        "Jira cannot be reached: its process does not respond: starting / no package for [secret]";
    assert_eq!(fault.unwrap_err().to_string(), text);
    let fault = servers("")
        .client()
        .list(&process(&["no-such-program"]))
        .await;
    let text = "Jira cannot be reached: its program `no-such-program` was not found";
    assert_eq!(fault.unwrap_err().to_string(), text);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_process_that_floods_is_told_as_such() {
    let client = servers("127.0.0.1").client();
    let server = process(&["yes"]);
    let fault = client.list(&server).await.unwrap_err();
    let text = "Jira sent too much data: a response can have at most 1000 messages";
    assert_eq!(fault.to_string(), text);
}

#[tokio::test]
async fn a_call_ends_at_its_deadline() {
    let scripted = McpServer::start().await;
    let client = servers("127.0.0.1").client();
    let server = config(&scripted.url, HttpAuth::None);
    client.list(&server).await.unwrap();
    scripted.answer(ToolAnswer::Silence);
    let deadline = Instant::now() + Duration::from_secs(2);
    let (tool, arguments) = (accepted("create"), json!({}));
    let called = client.call(&server, &tool, &arguments, deadline);
    let fault = called.await.unwrap_err();
    assert_eq!(fault.code, ToolErrorCode::ToolTimeout);
    assert!(fault.may_have_happened);
    assert_eq!(
        call(&client, &server, &json!({})).await.unwrap().text,
        "Done."
    );
    assert_eq!(scripted.calls(), 2);
}

#[tokio::test]
async fn a_list_ends_within_ten_seconds() {
    let scripted = McpServer::start().await;
    scripted.silence();
    let shared = servers("127.0.0.1");
    let server = config(&scripted.url, HttpAuth::None);
    let start = Instant::now();
    // Four requests use all slots, and the fifth waits for one.
    let lists = (0..5).map(|_| {
        let client = shared.client();
        let server = server.clone();
        async move { client.list(&server).await.unwrap_err() }
    });
    for fault in futures::future::join_all(lists).await {
        assert!(matches!(fault, ServerFault::Timeout(_)), "{fault:?}");
    }
    assert!(start.elapsed() < Duration::from_secs(16));
}

#[tokio::test]
async fn a_server_that_asks_for_something_gets_an_error() {
    let scripted = McpServer::at(Revision::Earlier).await;
    let client = servers("127.0.0.1").client();
    let server = config(&scripted.url, HttpAuth::None);
    let gave_up = json!({"content": [{"type": "text", "text": "No password"}], "isError": true});
    scripted.answer(ToolAnswer::Asks(gave_up));
    let fault = call(&client, &server, &json!({})).await.unwrap_err();
    assert_eq!(fault.code, ToolErrorCode::InputNotSupported, "{fault}");
}

#[tokio::test]
async fn a_server_cannot_make_the_client_send_many_requests() {
    let scripted = McpServer::at(Revision::Earlier).await;
    let client = servers("127.0.0.1").client();
    let server = config(&scripted.url, HttpAuth::None);
    let done = json!({"content": [{"type": "text", "text": "Done."}]});
    for (count, method) in [(16, "ping"), (999, "notifications/tools/list_changed")] {
        scripted.answer(ToolAnswer::Messages(count, method, done.clone()));
        let output = call(&client, &server, &json!({})).await.unwrap();
        assert_eq!(output.text, "Done.", "{method}");
    }
    for (count, method) in [(2000, "ping"), (2000, "notifications/tools/list_changed")] {
        scripted.answer(ToolAnswer::Messages(count, method, done.clone()));
        let fault = call(&client, &server, &json!({})).await.unwrap_err();
        assert_eq!(fault.code, ToolErrorCode::TooMuchData, "{method}");
        assert!(fault.may_have_happened, "{method}");
        let limit = if method == "ping" {
            "16 pings"
        } else {
            "1000 messages"
        };
        let text = format!("Jira sent too much data: a response can have at most {limit}");
        assert_eq!(fault.message, text);
    }
    let answers = scripted.methods();
    let answers = answers.iter().filter(|method| method.is_empty()).count();
    // The requests that end the two connections have no method either.
    assert!(answers <= 32 + 2, "{answers} answers to pings");
}

#[tokio::test]
async fn a_runner_gets_code_and_limits() {
    drop(servers(""));
    let scripted = McpServer::start().await;
    let runner = CodeRunner::new(
        scripted.url.parse().unwrap(),
        OwnServer::new("127.0.0.1:1".parse().unwrap(), "https://chat.example"),
        TaskTracker::new(),
        CancellationToken::new(),
    );
    scripted.answer(ToolAnswer::text("42"));
    let limits = json!({"timeout_s_max": 10});
    let output = runner.run("python", "print(42)", &limits, soon()).await;
    assert_eq!(output.unwrap().text, "42");
    let sent = scripted.received().pop().unwrap();
    assert_eq!(sent.params["name"], "run_code");
    let arguments = json!({"language": "python", "code": "print(42)", "limits": limits});
    assert_eq!(sent.params["arguments"], arguments);
}

#[tokio::test]
async fn only_permitted_addresses_are_reached() {
    let scripted = McpServer::start().await;
    let port = scripted.url.split([':', '/']).nth(4).unwrap().to_owned();
    for (exempt, url) in [
        ("", scripted.url.clone()),
        ("", format!("http://localhost:{port}/mcp")),
        ("", format!("http://[::ffff:127.0.0.1]:{port}/mcp")),
        ("127.0.0.1:9", scripted.url.clone()),
        ("", "http://169.254.169.254/mcp".to_owned()),
        ("0.0.0.0/0", "http://127.0.0.1:1/mcp".to_owned()),
    ] {
        let client = servers(exempt).client();
        let fault = client
            .list(&config(&url, HttpAuth::None))
            .await
            .unwrap_err();
        assert!(
            matches!(fault, ServerFault::NotAllowed(..)),
            "{url}: {fault:?}"
        );
        let fault = ToolFault::from(fault);
        assert_eq!(fault.code, ToolErrorCode::NotAllowed, "{url}");
        assert!(!fault.may_have_happened, "{url}");
    }
    assert_eq!(scripted.methods(), [""; 0]);
    let client = servers(&format!("127.0.0.1:{port}")).client();
    let server = config(&scripted.url, HttpAuth::None);
    assert!(client.list(&server).await.unwrap().functions.is_empty());
}

#[tokio::test]
async fn a_credential_is_never_shown() {
    let scripted = McpServer::start().await;
    let client = servers("127.0.0.1").client();
    let header = "x-api-key".parse().unwrap();
    let server = config(&scripted.url, HttpAuth::Header(header, SECRET.to_owned()));
    scripted.list([
        function(
            &format!("create-{SECRET}"),
            "Has a name that cannot be shown",
        ),
        function("create", &format!("Uses {SECRET}")),
    ]);
    let listed = client.list(&server).await.unwrap();
    let (functions, rejected) = (&listed.functions, &listed.rejected);
    assert_eq!((functions.len(), rejected.len()), (1, 1));
    assert_eq!(functions[0].value()["description"], "Uses [secret]");
    assert_eq!(rejected[0].name, "create-[secret]");
    scripted.answer(ToolAnswer::text(&format!("Your key is {SECRET}.")));
    let output = call(&client, &server, &json!({})).await.unwrap();
    assert_eq!(output.text, "Your key is [secret].");
    scripted.answer(ToolAnswer::Error(-32000, format!("bad key {SECRET}")));
    let fault = call(&client, &server, &json!({})).await.unwrap_err();
    assert!(fault.message.contains("[secret]"), "{fault}");
    assert_eq!(scripted.received()[0].headers["x-api-key"], SECRET);
    assert!(!format!("{server:?}").contains(SECRET));
}

#[tokio::test]
async fn a_rejected_credential_and_repeated_failures_are_distinguished() {
    let scripted = McpServer::start().await;
    scripted.require("Bearer right");
    let shared = servers("127.0.0.1");
    let wrong = config(&scripted.url, HttpAuth::Bearer("wrong".to_owned()));
    let fault = shared.client().list(&wrong).await.unwrap_err();
    let text = "The key [secret] is unknown".to_owned();
    assert_eq!(fault, ServerFault::AuthFailed("Jira".to_owned(), text));
    let none = config(&scripted.url, HttpAuth::None);
    let fault = shared.client().list(&none).await.unwrap_err();
    assert_eq!(fault, ServerFault::KeyMissing("Jira".to_owned()));
    let right = config(&scripted.url, HttpAuth::Bearer("right".to_owned()));
    scripted.fail(Some(503));
    for _ in 0..5 {
        let fault = shared.client().list(&right).await.unwrap_err();
        assert!(matches!(fault, ServerFault::Unreachable(..)), "{fault:?}");
    }
    scripted.fail(None);
    let before = scripted.methods().len();
    let fault = shared.client().list(&right).await.unwrap_err();
    assert!(matches!(fault, ServerFault::Paused(_)), "{fault:?}");
    assert_eq!(scripted.methods().len(), before, "nothing was sent");
}
