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
        assert_eq!(listed.len(), 1, "{revision:?}");
        assert_eq!(listed[0].value(), &function("create", "Creates an issue"));
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
    assert_ne!(before[0].hash(), after[0].hash());
    scripted.list([
        function("a", "x"),
        function("a", "y"),
        function("", "x"),
        function("..", "x"),
        function("create issue", "x"),
        function("\u{202e}etaerc", "x"),
    ]);
    let distinct = client.list(&server).await.unwrap();
    assert_eq!(distinct.len(), 1, "repeated and invalid names are left out");
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
    let names: Vec<&str> = listed.iter().map(Definition::name).collect();
    assert_eq!(names, ["create"], "invalid annotations are left out");

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
            ToolAnswer::Flood(50 << 20, "application/json"),
            TooMuchData,
            true,
        ),
        (
            ToolAnswer::Flood(2 << 20, "application/json"),
            TooMuchData,
            true,
        ),
        (
            ToolAnswer::Flood(2 << 20, "text/event-stream"),
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
    assert_eq!(elsewhere.methods(), [""; 0], "redirects are not followed");
    scripted.answer(ToolAnswer::Result(done));
    assert_eq!(
        call(&client, &server, &json!({})).await.unwrap().text,
        "Done."
    );
    let fault = call(&client, &server, &json!([])).await.unwrap_err();
    assert_eq!(fault.code, ToolErrorCode::BadArguments);
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
            ToolAnswer::Flood(2 << 20, "application/json"),
            "Jira sent too much data: a message can have at most 1 MiB",
        ),
        (
            ToolAnswer::Flood(2 << 20, "text/event-stream"),
            "Jira sent too much data: a message can have at most 1 MiB",
        ),
        (
            ToolAnswer::RawEvents(many),
            "Jira sent too much data: a response can have at most 16 MiB",
        ),
        (
            ToolAnswer::Redirect(elsewhere),
            "Jira cannot be reached: it redirects to another address: enter that address instead",
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
    scripted.list([function("create", &"x".repeat(2 << 20))]);
    let fault = client.list(&server).await.unwrap_err();
    assert!(matches!(fault, ServerFault::TooMuchData(..)), "{fault}");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_process_that_floods_is_told_as_such() {
    let client = servers("127.0.0.1").client();
    let process = ProcessConfig {
        command: vec!["/usr/bin/yes".to_owned()],
        env: BTreeMap::new(),
        workspaces: Vec::new(),
    };
    let server = ServerConfig {
        endpoint: Endpoint::Process {
            process: Arc::new(process),
        },
        ..config("http://127.0.0.1:1", HttpAuth::None)
    };
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
    assert!(client.list(&server).await.unwrap().is_empty());
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
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].value()["description"], "Uses [secret]");
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
    assert!(matches!(fault, ServerFault::AuthFailed(_)), "{fault:?}");
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
