//! `POST /mcp`: the protocol, the tools of a key, and their access checks.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::{
    availability::{hold_slow_lane, stuck_draft, until_busy},
    support::{
        Gate, Person, Reply, TestApp, id, list, team, team_with, text, unknown_id, visitor, within,
    },
};

const ACCEPT: (&str, &str) = ("accept", "application/json, text/event-stream");
const LEGACY: &str = "2025-11-25";
const MODERN: &str = "2026-07-28";
/// Revisions that begin with `initialize`, and whether their clients send the header `MCP-Protocol-Version`.
const EARLIER: [(&str, bool); 4] = [
    ("2024-11-05", false),
    ("2025-03-26", false),
    ("2025-06-18", true),
    (LEGACY, true),
];
const ALL_SCOPES: &[&str] = &["chat:read", "chat:write", "agents:use"];
const READ_TOOLS: [&str; 7] = [
    "search_messages",
    "read_thread",
    "search_decisions",
    "list_action_items",
    "read_file",
    "list_channels",
    "list_threads",
];

async fn send(who: &Person, headers: &[(&str, &str)], message: &Value) -> Reply {
    let headers: Vec<(&str, &str)> = [ACCEPT].iter().chain(headers).copied().collect();
    let body = message.to_string().into_bytes();
    who.send(Method::POST, "/mcp", &headers, Some(body)).await
}

fn request(method: &str, params: Value) -> Value {
    let mut message = json!({"jsonrpc": "2.0", "id": 7, "method": method});
    message["params"] = params;
    message
}

/// Sends a request in protocol revision 2025-11-25. Returns its result or error.
async fn legacy(who: &Person, method: &str, params: Value) -> Result<Value, Value> {
    let message = request(method, params);
    let reply = send(who, &[("mcp-protocol-version", LEGACY)], &message).await;
    outcome(reply.is(200))
}

/// Sends a request in protocol revision 2026-07-28. Returns its status, and its result or error.
async fn modern(who: &Person, method: &str, mut params: Value) -> (u16, Result<Value, Value>) {
    params["_meta"] = json!({"io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {}});
    let name = params["name"].as_str().map(str::to_owned);
    let mut headers = vec![("mcp-protocol-version", MODERN), ("mcp-method", method)];
    headers.extend(name.as_deref().map(|name| ("mcp-name", name)));
    let reply = send(who, &headers, &request(method, params)).await;
    (reply.status, outcome(reply.json()))
}

fn outcome(mut message: Value) -> Result<Value, Value> {
    assert_eq!(message["jsonrpc"], "2.0", "{message}");
    assert_eq!(message["id"], 7, "{message}");
    match message.get_mut("result") {
        Some(result) => Ok(result.take()),
        None => Err(message["error"].take()),
    }
}

async fn call(who: &Person, tool: &str, arguments: Value) -> Value {
    let params = json!({"name": tool, "arguments": arguments});
    let result = legacy(who, "tools/call", params).await;
    result.unwrap_or_else(|e| panic!("{tool}: {e}"))
}

/// The structured result of a successful call.
async fn result(who: &Person, tool: &str, arguments: Value) -> Value {
    let result = call(who, tool, arguments).await;
    assert_eq!(result["isError"], false, "{tool}: {result}");
    let shown: Value = serde_json::from_str(&text(&result, "/content/0/text")).unwrap();
    assert_eq!(shown, result["structuredContent"], "{tool}");
    shown
}

/// The error of a failed call, which has no structured result.
async fn refusal(who: &Person, tool: &str, arguments: Value) -> Value {
    let result = call(who, tool, arguments).await;
    assert_eq!(result["isError"], true, "{tool}: {result}");
    assert_eq!(result.get("structuredContent"), None);
    let shown: Value = serde_json::from_str(&text(&result, "/content/0/text")).unwrap();
    shown["error"].clone()
}

async fn refused(who: &Person, tool: &str, arguments: Value) -> String {
    text(&refusal(who, tool, arguments).await, "/code")
}

async fn tools(who: &Person) -> Vec<String> {
    let listed = legacy(who, "tools/list", json!({})).await.unwrap();
    let tools = list(&listed, "/tools");
    tools.iter().map(|tool| text(tool, "/name")).collect()
}

async fn program(who: &Person, scopes: &[&str]) -> Person {
    who.make_key(scopes).await.0
}

fn contents(messages: &[Value]) -> Vec<String> {
    messages.iter().map(|m| text(m, "/content")).collect()
}

#[tokio::test]
async fn the_server_describes_itself_in_both_ways() {
    let t = team().await;
    let key = program(&t.bo, &["chat:read"]).await;
    let params = json!({"protocolVersion": LEGACY, "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"}});
    let begun = legacy(&key, "initialize", params).await.unwrap();
    assert_eq!(begun["protocolVersion"], LEGACY);
    assert_eq!(begun["serverInfo"]["name"], "openvibe");
    assert_eq!(begun["capabilities"], json!({"tools": {}}));
    let (status, found) = modern(&key, "server/discover", json!({})).await;
    let found = found.unwrap();
    assert_eq!(status, 200);
    let mut published: Vec<&str> = EARLIER.iter().map(|(revision, _)| *revision).collect();
    published.push(MODERN);
    assert_eq!(found["supportedVersions"], json!(published));
    assert_eq!(found["capabilities"], json!({"tools": {}}));
    let noted = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    assert_eq!(send(&key, &[], &noted).await.status, 202);
    assert_eq!(legacy(&key, "ping", json!({})).await, Ok(json!({})));
}

#[tokio::test]
async fn tools_that_read_take_turns_with_the_users_other_reads() {
    let app = TestApp::bounded(&[], |bounds| {
        bounds.bodies.handled_reads = 1;
        bounds.bodies.handled_within = Duration::from_millis(500);
    })
    .await;
    let ada = app.founder("Ada").await;
    let general = id(&ada.channel("general").await);
    let key = program(&ada, ALL_SCOPES).await;
    let held = hold_slow_lane(&app, &ada).await;
    let (mut search, searcher) = (JoinSet::new(), key.clone());
    search.spawn(async move {
        call(&searcher, "search_messages", json!({"query": "plan"})).await;
    });
    until_busy(&ada).await;
    let refusal = refused(&key, "list_channels", json!({})).await;
    assert_eq!(refusal, "overloaded");
    let post = json!({"channel_id": general, "content": "Posts do not wait for reads."});
    result(&key, "post_message", post).await;
    drop(held);
    within("the search", search.join_all()).await;
    result(&key, "list_channels", json!({})).await;
}

#[tokio::test]
async fn tools_that_write_take_turns_with_the_users_other_writes() {
    let app = TestApp::bounded(&[], |bounds| {
        bounds.bodies.handled_writes = 1;
        bounds.bodies.handled_within = Duration::from_millis(500);
    })
    .await;
    let ada = app.founder("Ada").await;
    let general = id(&ada.channel("general").await);
    let key = program(&ada, ALL_SCOPES).await;
    let gate = Gate::new();
    let drafting = stuck_draft(&app, &ada, &gate).await;
    let post = json!({"channel_id": general, "content": "Waits for a turn."});
    let refusal = refused(&key, "post_message", post.clone()).await;
    assert_eq!(refusal, "overloaded");
    result(&key, "list_channels", json!({})).await;
    gate.open();
    within("the draft", drafting.join_all()).await;
    result(&key, "post_message", post).await;
}

/// The revision that the server chooses for a client.
async fn chosen(key: &Person, headers: &[(&str, &str)], revision: &str) -> String {
    let params = json!({"protocolVersion": revision, "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"}});
    let begun = send(key, headers, &request("initialize", params)).await;
    text(&begun.is(200), "/result/protocolVersion")
}

#[tokio::test]
async fn a_client_of_each_revision_lists_and_calls_tools() {
    let t = team().await;
    let key = program(&t.bo, &["chat:read"]).await;
    for (revision, has_header) in EARLIER {
        assert_eq!(chosen(&key, &[], revision).await, revision);
        let header = [("mcp-protocol-version", revision)];
        let headers = if has_header { &header[..] } else { &[] };
        let begun = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        assert_eq!(send(&key, headers, &begun).await.status, 202, "{revision}");
        let listed = send(&key, headers, &request("tools/list", json!({}))).await;
        assert_eq!(
            list(&listed.is(200), "/result/tools").len(),
            READ_TOOLS.len()
        );
        let params = json!({"name": "list_channels", "arguments": {}});
        let called = send(&key, headers, &request("tools/call", params)).await;
        assert_eq!(called.is(200)["result"]["isError"], false, "{revision}");
    }
    for unknown in ["2024-10-07", "2099-01-01", MODERN, ""] {
        assert_eq!(chosen(&key, &[], unknown).await, LEGACY, "{unknown}");
    }
    let unknown = "2099-01-01";
    let header = [("mcp-protocol-version", unknown)];
    assert_eq!(chosen(&key, &header, unknown).await, LEGACY);
}

#[tokio::test]
async fn a_method_with_invalid_parameters_is_not_unknown() {
    let t = team().await;
    let key = program(&t.bo, &["chat:read"]).await;
    for (method, params, code) in [
        ("initialize", json!({}), -32601),
        ("tools/call", json!({"name": 5}), -32602),
        ("tools/call", json!({}), -32602),
        ("tools/call", json!({"name": "nothing"}), -32602),
        ("tools/listing", json!({}), -32601),
    ] {
        let error = legacy(&key, method, params).await.unwrap_err();
        assert_eq!(error["code"], code, "{method} {error}");
    }
}

#[tokio::test]
async fn a_batch_gets_the_responses_of_its_requests() {
    let t = team().await;
    let key = program(&t.bo, ALL_SCOPES).await;
    let noted = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let general = t.general.clone();
    let call = |id: u32, name: &str, arguments: Value| {
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
            "params": {"name": name, "arguments": arguments}})
    };
    let post = json!({"channel_id": general, "content": "Posted in a batch."});
    let batch = json!([
        noted,
        call(1, "list_channels", json!({})),
        call(2, "post_message", post),
        {"jsonrpc": "2.0", "id": 3, "method": 7},
        {"jsonrpc": "2.0", "id": 4, "method": "resources/list"},
    ]);
    let answers = send(&key, &[], &batch).await.is(200);
    let answers = answers.as_array().unwrap();
    let ids: Vec<&Value> = answers.iter().map(|answer| &answer["id"]).collect();
    assert_eq!(ids, [1, 2, 3, 4]);
    assert_eq!(answers[0]["result"]["isError"], false);
    assert_eq!(answers[1]["result"]["isError"], false);
    assert_eq!(answers[2]["error"]["code"], -32600);
    assert_eq!(answers[3]["error"]["code"], -32601);
    let notes = send(&key, &[], &json!([noted, noted])).await;
    assert_eq!((notes.status, notes.text.as_str()), (202, ""));
    for wrong in [json!([]), json!(vec![noted; 21])] {
        let refused = send(&key, &[], &wrong).await.is(400);
        assert_eq!(refused["error"]["code"], -32600);
    }
}

#[tokio::test]
async fn the_address_can_end_with_a_slash_and_any_accept_gets_json() {
    let t = team().await;
    let key = program(&t.bo, &["chat:read"]).await;
    let listing = request("tools/list", json!({})).to_string().into_bytes();
    for path in ["/mcp", "/mcp/"] {
        for accept in [
            "application/json",
            "text/event-stream",
            "text/html",
            "*/*",
            "",
        ] {
            let headers = [("accept", accept)];
            let reply = key
                .send(Method::POST, path, &headers, Some(listing.clone()))
                .await;
            assert_eq!(reply.headers["content-type"], "application/json");
            let listed = reply.is(200);
            assert_eq!(list(&listed, "/result/tools").len(), READ_TOOLS.len());
        }
        let foreign = [ACCEPT, ("origin", "https://evil.example")];
        let reply = key
            .send(Method::POST, path, &foreign, Some(listing.clone()))
            .await;
        assert_eq!(reply.refused(403), "cross_origin");
        let reply = key.send(Method::GET, path, &[ACCEPT], None).await;
        assert_eq!(reply.refused(405), "method_not_allowed");
    }
}

#[tokio::test]
async fn tools_can_be_listed_and_called_in_the_newer_revision() {
    let t = team().await;
    let key = program(&t.bo, &["chat:read"]).await;
    let (_, listed) = modern(&key, "tools/list", json!({})).await;
    assert_eq!(list(&listed.unwrap(), "/tools").len(), READ_TOOLS.len());
    let params = json!({"name": "list_channels", "arguments": {}});
    let (status, called) = modern(&key, "tools/call", params).await;
    let called = called.unwrap();
    assert_eq!((status, &called["isError"]), (200, &json!(false)));
    let (status, missing) = modern(&key, "prompts/list", json!({})).await;
    assert_eq!(
        (status, &missing.unwrap_err()["code"]),
        (404, &json!(-32601))
    );
}

#[tokio::test]
async fn headers_that_contradict_the_body_are_rejected() {
    let t = team().await;
    let key = program(&t.bo, &["chat:read"]).await;
    let meta = json!({"io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {}});
    let message = request("tools/list", json!({"_meta": meta}));
    let headers = [("mcp-protocol-version", MODERN), ("mcp-method", "ping")];
    let reply = send(&key, &headers, &message).await.is(400);
    assert_eq!(reply["error"]["code"], -32020);
}

#[tokio::test]
async fn the_tools_depend_on_the_scopes_of_the_key() {
    let t = team().await;
    let offered = async |scopes: &[&str]| tools(&program(&t.bo, scopes).await).await;
    assert_eq!(offered(&["chat:read"]).await, READ_TOOLS);
    assert_eq!(
        offered(&["chat:write"]).await,
        ["post_message", "start_fork"]
    );
    let writes = ["post_message", "start_fork", "resolve_fork"];
    assert_eq!(offered(&["chat:write", "agents:use"]).await, writes);
    assert_eq!(offered(&["agents:read"]).await, Vec::<String>::new());
    assert_eq!(
        offered(ALL_SCOPES).await,
        [&READ_TOOLS[..], &writes[..]].concat()
    );
}

#[tokio::test]
async fn a_tool_beyond_the_scopes_of_the_key_is_refused() {
    let t = team().await;
    let (reads, writes) = (
        program(&t.bo, &["chat:read"]).await,
        program(&t.bo, &["chat:write"]).await,
    );
    let thread = t.bo.thread(&t.general, "Lunch?").await;
    let message = json!({"thread_id": thread, "content": "Yes"});
    assert_eq!(
        refused(&reads, "post_message", message).await,
        "scope_missing"
    );
    for (tool, arguments) in [
        ("search_messages", json!({"query": "lunch"})),
        ("read_thread", json!({"thread": thread})),
        ("search_decisions", json!({})),
        ("list_action_items", json!({})),
        ("list_channels", json!({})),
        ("list_threads", json!({"channel": "general"})),
    ] {
        assert_eq!(
            refused(&writes, tool, arguments).await,
            "scope_missing",
            "{tool}"
        );
    }
    assert_eq!(t.bo.contents(&thread).await, ["Lunch?"]);
}

#[tokio::test]
async fn a_key_of_somebody_who_became_a_viewer_cannot_write() {
    let t = team().await;
    let key = program(&t.bo, ALL_SCOPES).await;
    let thread = t.bo.thread(&t.general, "Lunch?").await;
    let member = format!("/v1/members/{}", t.bo.id);
    t.ada
        .patch(&member, json!({"role": "viewer"}))
        .await
        .is(200);
    assert_eq!(tools(&key).await, READ_TOOLS);
    let message = json!({"thread_id": thread, "content": "Yes"});
    assert_eq!(refused(&key, "post_message", message).await, "role_too_low");
}

#[tokio::test]
async fn tools_have_annotations_and_schemas() {
    let t = team().await;
    let key = program(&t.bo, ALL_SCOPES).await;
    let listed = legacy(&key, "tools/list", json!({})).await.unwrap();
    for tool in list(&listed, "/tools") {
        let name = text(&tool, "/name");
        let is_read = READ_TOOLS.contains(&&*name);
        let annotations = &tool["annotations"];
        assert_eq!(annotations["readOnlyHint"], is_read, "{name}");
        // `resolve_fork` can replace a draft that people edited.
        let is_destructive = name == "resolve_fork";
        assert_eq!(annotations["destructiveHint"], is_destructive, "{name}");
        assert_eq!(annotations["openWorldHint"], false, "{name}");
        assert_eq!(tool["title"], annotations["title"], "{name}");
        assert_eq!(tool["inputSchema"]["additionalProperties"], false, "{name}");
        assert_eq!(tool["outputSchema"]["type"], "object", "{name}");
        assert!(!text(&tool, "/description").is_empty(), "{name}");
    }
}

#[tokio::test]
async fn messages_are_searched_by_words_channel_and_author() {
    let t = team().await;
    let key = program(&t.bo, &["chat:read"]).await;
    let thread = t.ada.thread(&t.general, "The red lantern is broken").await;
    let answer = t.bo.tell(&thread, "I can mend a lantern on Tuesday").await;
    let find =
        async |arguments: Value| list(&result(&key, "search_messages", arguments).await, "/hits");
    let hits = find(json!({"query": "lantern", "author": "Bo", "channel": "#general"})).await;
    assert_eq!(hits.len(), 1, "{hits:?}");
    assert_eq!(hits[0]["message"]["id"], answer);
    assert_eq!(hits[0]["message"]["thread_id"], thread);
    assert_eq!(hits[0]["message"]["channel_name"], "general");
    assert_eq!(hits[0]["message"]["author_name"], "Bo");
    assert_eq!(hits[0]["before"]["content"], "The red lantern is broken");
    assert_eq!(hits[0]["after"], Value::Null);
    assert_eq!(find(json!({"query": "lantern", "limit": 1})).await.len(), 1);
    assert_eq!(
        find(json!({"query": "lantern", "before": "2020-01-01"}))
            .await
            .len(),
        0
    );
    assert_eq!(
        find(json!({"query": "lantern", "after": "2020-01-01"}))
            .await
            .len(),
        2
    );
}

#[tokio::test]
async fn a_search_with_invalid_arguments_is_refused() {
    let t = team().await;
    let key = program(&t.bo, &["chat:read"]).await;
    for (arguments, code, param) in [
        (json!({"query": " "}), "invalid_query", "query"),
        (json!({"query": "x".repeat(501)}), "invalid_query", "query"),
        (json!({"query": "x", "limit": 0}), "invalid_limit", "limit"),
        (
            json!({"query": "x", "limit": "few"}),
            "invalid_field",
            "limit",
        ),
        (
            json!({"query": "x", "after": "soon"}),
            "invalid_query",
            "after",
        ),
        (
            json!({"query": "x", "channel": "nowhere"}),
            "channel_not_found",
            "channel",
        ),
        (
            json!({"query": "x", "author": "Nobody"}),
            "member_not_found",
            "author",
        ),
        (json!({"query": [5]}), "invalid_field", "query"),
    ] {
        let error = refusal(&key, "search_messages", arguments.clone()).await;
        assert_eq!(error["code"], code, "{arguments}");
        assert_eq!(error["param"], param, "{arguments}");
    }
    let error = refusal(&key, "search_messages", json!({})).await;
    assert_eq!(error["param"], "query");
    for arguments in [
        json!({}),
        json!({"query": "x", "color": "red"}),
        json!({"query": "a\u{0}b"}),
    ] {
        assert_eq!(
            refused(&key, "search_messages", arguments).await,
            "invalid_field"
        );
    }
}

#[tokio::test]
async fn a_thread_is_read_from_its_end() {
    let t = team().await;
    let key = program(&t.bo, &["chat:read"]).await;
    let thread = t.ada.thread(&t.general, "1").await;
    let mut last = String::new();
    for n in 2..=52 {
        last = t.ada.tell(&thread, &n.to_string()).await;
    }
    let read = result(&key, "read_thread", json!({"thread": thread})).await;
    let shown = list(&read, "/messages");
    assert_eq!((shown.len(), &read["has_more"]), (50, &json!(true)));
    assert_eq!(shown[49]["id"], last);
    let before = &shown[0]["id"];
    let rest = result(
        &key,
        "read_thread",
        json!({"thread": thread, "before": before}),
    )
    .await;
    assert_eq!(contents(&list(&rest, "/messages")), ["1", "2"]);
    assert_eq!(rest["has_more"], false);
    let by_message = result(&key, "read_thread", json!({"thread": last})).await;
    assert_eq!(by_message["thread_id"], thread);
    let other = t.ada.start(&t.general, "Another").await;
    let arguments = json!({"thread": thread, "before": other["message"]["id"]});
    assert_eq!(
        refused(&key, "read_thread", arguments).await,
        "message_not_found"
    );
    let missing = json!({"thread": unknown_id("thread")});
    assert_eq!(
        refused(&key, "read_thread", missing).await,
        "thread_not_found"
    );
    assert_eq!(
        refused(&key, "read_thread", json!({"thread": "S1"})).await,
        "invalid_field"
    );
}

#[tokio::test]
async fn a_thread_of_large_messages_is_read_in_parts() {
    let t = team().await;
    let key = program(&t.bo, &["chat:read"]).await;
    let large = ["a", "b", "c", "d", "e"].map(|letter| letter.repeat(32 * 1024));
    let thread = t.ada.thread(&t.general, &large[0]).await;
    for content in &large[1..] {
        t.ada.tell(&thread, content).await;
    }
    let read = result(&key, "read_thread", json!({"thread": thread})).await;
    let messages = list(&read, "/messages");
    assert_eq!(contents(&messages), large[1..]);
    assert_eq!(read["has_more"], true);
    let before = json!({"thread": thread, "before": messages[0]["id"]});
    let rest = result(&key, "read_thread", before).await;
    assert_eq!(contents(&list(&rest, "/messages")), large[..1]);
    assert_eq!(rest["has_more"], false);
}

#[tokio::test]
async fn a_large_response_of_a_tool_that_reads_is_refused_and_one_of_a_tool_that_writes_is_not() {
    let app = TestApp::bounded(&[], |bounds| {
        bounds.unsent.share = 64 * 1024;
    })
    .await;
    let ada = app.founder("Ada").await;
    let key = program(&ada, ALL_SCOPES).await;
    let general = id(&ada.channel("general").await);
    // A result contains each text twice.
    let content = "x".repeat(32 * 1024);
    let message = json!({"channel_id": general, "content": content});
    let posted = result(&key, "post_message", message).await;
    let thread = &posted["message"]["thread_id"];
    result(&key, "list_channels", json!({})).await;
    let params = json!({"name": "read_thread", "arguments": {"thread": thread}});
    let refused = send(&key, &[], &request("tools/call", params)).await;
    assert_eq!(refused.refused(503), "overloaded");
    result(&key, "list_channels", json!({})).await;
}

#[tokio::test]
async fn decisions_and_action_items_are_found() {
    let t = team().await;
    let key = program(&t.bo, &["chat:read"]).await;
    let dive = t.dive().await;
    t.bo.say_in(&dive.fork, "Monday suits everybody.").await;
    let items =
        json!([{"text": "Book the room", "owner_id": t.bo.id}, {"text": "Ring the caterer"}]);
    let form = json!({"headline": "We launch on Monday", "action_items": items});
    t.ada.publish_as(&dive.fork, form).await;
    let found = result(
        &key,
        "search_decisions",
        json!({"query": "launch", "channel": "general"}),
    )
    .await;
    assert_eq!(found["data"][0]["headline"], "We launch on Monday");
    assert_eq!(found["data"][0]["fork_id"], dive.fork);
    let none = result(&key, "search_decisions", json!({"query": "friday"})).await;
    assert_eq!(none["data"], json!([]));
    let texts = async |arguments: Value| {
        let found = result(&key, "list_action_items", arguments).await;
        let items = list(&found, "/action_items");
        items
            .iter()
            .map(|item| text(item, "/text"))
            .collect::<Vec<_>>()
    };
    assert_eq!(texts(json!({"owner": "me"})).await, ["Book the room"]);
    assert_eq!(texts(json!({"owner": "Bo"})).await, ["Book the room"]);
    assert_eq!(texts(json!({"owner": "none"})).await, ["Ring the caterer"]);
    assert_eq!(
        texts(json!({})).await,
        ["Ring the caterer", "Book the room"]
    );
    assert_eq!(texts(json!({"done": true})).await, Vec::<String>::new());
    let long = json!({"query": "x".repeat(201)});
    let error = refusal(&key, "search_decisions", long).await;
    assert_eq!(error["param"], "query");
}

#[tokio::test]
async fn a_text_file_is_read_in_parts() {
    let t = team().await;
    let key = program(&t.bo, &["chat:read"]).await;
    let long = "é".repeat(20_000);
    let notes = t.ada.upload("notes.txt", long.as_bytes()).await;
    let data = t.ada.upload("data.bin", b"\x00\x01\x02\xff").await;
    let files = [id(&notes), id(&data)];
    let form = json!({"content": "Read this", "attachments": files});
    let threads = format!("/v1/channels/{}/threads", t.general);
    t.ada.post(&threads, form).await.is(201);
    let first = result(&key, "read_file", json!({"file": files[0]})).await;
    let next = first["next_offset"].as_u64().unwrap();
    let second = result(&key, "read_file", json!({"file": files[0], "offset": next})).await;
    assert_eq!(second["next_offset"], Value::Null);
    assert_eq!(text(&first, "/text") + &text(&second, "/text"), long);
    assert_eq!(first["name"], "notes.txt");
    let unreadable = json!({"file": files[1]});
    assert_eq!(refused(&key, "read_file", unreadable).await, "unreadable");
    let missing = json!({"file": unknown_id("file")});
    assert_eq!(refused(&key, "read_file", missing).await, "file_not_found");
}

#[tokio::test]
async fn a_text_file_ends_before_a_character_that_is_cut_off() {
    // Larger than the size up to which a file is examined completely.
    const WHOLE_BYTES: usize = 300 * 1024;
    let t = team().await;
    let key = program(&t.bo, &["chat:read"]).await;
    let mut bytes = vec![b'x'; WHOLE_BYTES];
    bytes.push(0xc3);
    let file = id(&t.ada.upload("log.txt", &bytes).await);
    let threads = format!("/v1/channels/{}/threads", t.general);
    let form = json!({"content": "Read this", "attachments": [file]});
    t.ada.post(&threads, form).await.is(201);
    let mut next = json!(WHOLE_BYTES - 1);
    let mut texts = Vec::new();
    while !next.is_null() && texts.len() < 9 {
        let part = json!({"file": file, "offset": next});
        let part = result(&key, "read_file", part).await;
        texts.push(text(&part, "/text"));
        next = part["next_offset"].clone();
    }
    assert_eq!(texts, ["x", ""]);
}

#[tokio::test]
async fn channels_and_their_threads_are_listed() {
    let t = team().await;
    let key = program(&t.bo, &["chat:read"]).await;
    let first = t.ada.thread(&t.general, "First").await;
    let second = t.ada.thread(&t.general, "Second").await;
    let channels = result(&key, "list_channels", json!({"limit": 100})).await;
    let channels = list(&channels, "/data");
    assert!(channels.iter().any(|channel| channel["name"] == "general"));
    let page = result(
        &key,
        "list_threads",
        json!({"channel": "general", "limit": 1}),
    )
    .await;
    assert_eq!(page["data"][0]["id"], second);
    let cursor = &page["next_cursor"];
    let rest = json!({"channel": t.general, "limit": 1, "cursor": cursor});
    assert_eq!(
        result(&key, "list_threads", rest).await["data"][0]["id"],
        first
    );
    let missing = json!({"channel": "nowhere"});
    assert_eq!(
        refused(&key, "list_threads", missing).await,
        "channel_not_found"
    );
}

#[tokio::test]
async fn a_message_with_a_client_id_is_posted_once() {
    let t = team().await;
    let (key, key_id) = t.bo.make_key(&["chat:write"]).await;
    let begin = json!({"channel_id": t.general, "content": "Lunch?", "client_id": "a"});
    let begun = result(&key, "post_message", begin.clone()).await;
    assert_eq!(
        result(&key, "post_message", begin).await["message"]["id"],
        begun["message"]["id"]
    );
    let thread = text(&begun, "/message/thread_id");
    let answer = json!({"thread_id": thread, "content": "Noon", "client_id": "b"});
    let posted = result(&key, "post_message", answer.clone()).await;
    assert_eq!(result(&key, "post_message", answer).await, posted);
    assert_eq!(posted["message"]["metadata"]["api_key_id"], key_id);
    assert_eq!(posted["message"]["author"]["id"], t.bo.id);
    assert_eq!(t.ada.contents(&thread).await, ["Lunch?", "Noon"]);
}

#[tokio::test]
async fn clear_mistakes_in_arguments_are_corrected() {
    let t = team().await;
    let key = program(&t.bo, ALL_SCOPES).await;
    for n in 0..25 {
        t.bo.thread(&t.general, &format!("Fair {n}")).await;
    }
    let hits =
        |limit: Value| json!({"query": "fair", "limit": limit, "channel": "", "after": null});
    for (limit, count) in [(json!("5"), 5), (json!(500), 20), (json!(""), 8)] {
        let found = result(&key, "search_messages", hits(limit)).await;
        assert_eq!(list(&found, "/hits").len(), count);
    }
    let threads = json!({"channel": "#general", "limit": "3", "cursor": ""});
    let listed = result(&key, "list_threads", threads).await;
    assert_eq!(list(&listed, "/data").len(), 3);
    let post =
        json!({"channel_id": "#general", "thread_id": "", "fork_id": null, "content": "By name."});
    let posted = result(&key, "post_message", post).await;
    let thread = text(&posted, "/message/thread_id");
    assert_eq!(t.bo.contents(&thread).await, ["By name."]);
    for name in ["#nowhere", "th_x"] {
        let post = json!({"channel_id": name, "content": "Lost."});
        let error = refusal(&key, "post_message", post).await;
        assert_eq!(error["code"], "channel_not_found", "{name}");
        assert_eq!(error["param"], "channel_id", "{name}");
    }
    let writes = program(&t.bo, &["chat:write"]).await;
    let post = json!({"channel_id": "general", "content": "Without reading."});
    result(&writes, "post_message", post).await;
    let reads = program(&t.bo, &["chat:read"]).await;
    let post = json!({"channel_id": "general", "content": "Without writing."});
    assert_eq!(refused(&reads, "post_message", post).await, "scope_missing");
}

#[tokio::test]
async fn pages_of_permitted_sites_use_the_api_with_a_key() {
    let app = TestApp::with(&[("API_ORIGINS", "https://app.example,http://localhost:5173")]).await;
    let mut ada = app.founder("Ada").await;
    let key = program(&ada, ALL_SCOPES).await;
    ada.origin = None;
    let listing = request("tools/list", json!({})).to_string().into_bytes();
    let site = ("origin", "https://app.example");
    let other = ("origin", "https://evil.example");
    let asked = [
        ("access-control-request-method", "POST"),
        (
            "access-control-request-headers",
            "authorization,content-type",
        ),
    ];
    let mut nobody = visitor(&app.base);
    nobody.origin = None;
    for path in ["/mcp", "/v1/responses", "/v1/channels"] {
        let headers = [site, asked[0], asked[1]];
        let reply = nobody.send(Method::OPTIONS, path, &headers, None).await;
        assert_eq!(reply.status, 204, "{path}");
        assert_eq!(reply.headers["access-control-allow-origin"], site.1);
        assert_eq!(reply.headers["access-control-allow-headers"], asked[1].1);
        assert!(
            !reply
                .headers
                .contains_key("access-control-allow-credentials")
        );
        let headers = [other, asked[0], asked[1]];
        let reply = nobody.send(Method::OPTIONS, path, &headers, None).await;
        assert_ne!(reply.status, 204, "{path}");
        assert!(!reply.headers.contains_key("access-control-allow-origin"));
    }
    let post = async |who: &Person, origin| {
        let headers = [ACCEPT, ("content-type", "application/json"), origin];
        who.send(Method::POST, "/mcp", &headers, Some(listing.clone()))
            .await
    };
    let reply = post(&key, site).await;
    assert_eq!(reply.headers["access-control-allow-origin"], site.1);
    reply.is(200);
    assert_eq!(post(&key, other).await.refused(403), "cross_origin");
    let reply = post(&ada, site).await;
    assert!(!reply.headers.contains_key("access-control-allow-origin"));
    assert_eq!(reply.refused(403), "cross_origin", "a cookie is not a key");
    let reply = key.send(Method::GET, "/v1/channels", &[site], None).await;
    assert_eq!(reply.headers["access-control-allow-origin"], site.1);
    reply.is(200);
    let reply = ada.send(Method::GET, "/v1/channels", &[site], None).await;
    assert!(!reply.headers.contains_key("access-control-allow-origin"));
    let reply = key.send(Method::GET, "/v1/nothing", &[site], None).await;
    assert_eq!(reply.headers["access-control-allow-origin"], site.1);
    assert_eq!(reply.refused(404), "route_not_found");
}

#[tokio::test]
async fn a_base_url_without_a_version_is_named() {
    let t = team().await;
    let key = program(&t.bo, ALL_SCOPES).await;
    for (method, path) in [
        (Method::GET, "/models"),
        (Method::POST, "/chat/completions"),
        (Method::POST, "/responses"),
        (Method::POST, "/responses/"),
    ] {
        let reply = key.send(method, path, &[("accept", "*/*")], None).await;
        assert!(reply.text.contains("the base URL ends in /v1"), "{path}");
        assert_eq!(reply.refused(404), "route_not_found", "{path}");
    }
    let page = [("accept", "text/html,application/xhtml+xml")];
    let reply = key.send(Method::GET, "/models", &page, None).await;
    assert!(reply.text.starts_with("<!doctype html>"), "{}", reply.text);
}

#[tokio::test]
async fn a_message_needs_words_and_one_place() {
    let t = team().await;
    let key = program(&t.bo, &["chat:write"]).await;
    let thread = t.bo.thread(&t.general, "Lunch?").await;
    for (arguments, code) in [
        (json!({"content": "x"}), "one_place"),
        (
            json!({"content": "x", "thread_id": thread, "channel_id": t.general}),
            "one_place",
        ),
        (
            json!({"content": "x", "thread_id": t.general}),
            "wrong_kind_of_id",
        ),
        (
            json!({"content": "x", "thread_id": unknown_id("thread")}),
            "thread_not_found",
        ),
        (
            json!({"content": "x".repeat(33 * 1024), "thread_id": thread}),
            "message_too_long",
        ),
    ] {
        assert_eq!(
            refused(&key, "post_message", arguments.clone()).await,
            code,
            "{arguments}"
        );
    }
    assert_eq!(t.bo.contents(&thread).await, ["Lunch?"]);
}

#[tokio::test]
async fn a_deep_dive_is_started_and_resolved() {
    let t = team().await;
    let key = program(&t.bo, ALL_SCOPES).await;
    let started = t.ada.start(&t.general, "Friday or Monday?").await;
    let form = json!({"thread_id": started["thread"]["id"], "message_id": started["message"]["id"],
        "title": "The day", "agent_id": null, "client_id": "a"});
    let fork = result(&key, "start_fork", form.clone()).await;
    assert_eq!(fork["fork"]["title"], "The day");
    assert_eq!(
        result(&key, "start_fork", form).await["fork"]["id"],
        fork["fork"]["id"]
    );
    let fork = text(&fork, "/fork/id");
    let resolve = json!({"fork_id": fork});
    assert_eq!(
        refused(&key, "resolve_fork", resolve.clone()).await,
        "fork_empty"
    );
    let message = json!({"fork_id": fork, "content": "Monday suits everybody."});
    result(&key, "post_message", message).await;
    let read = result(&key, "read_thread", json!({"thread": fork})).await;
    assert_eq!(read["fork_id"], fork);
    assert_eq!(
        contents(&list(&read, "/messages")),
        ["Monday suits everybody."]
    );
    let resolving = result(&key, "resolve_fork", resolve).await;
    assert_eq!(resolving["fork"]["id"], fork);
    t.ada.ended(&text(&resolving, "/task/id")).await;
    for (tool, arguments, param) in [
        (
            "start_fork",
            json!({"message_id": started["message"]["id"]}),
            "thread_id",
        ),
        ("resolve_fork", json!({"fork_id": 5}), "fork_id"),
    ] {
        let error = refusal(&key, tool, arguments).await;
        assert_eq!(
            (&error["code"], &error["param"]),
            (&json!("invalid_field"), &json!(param))
        );
    }
}

/// Checks that tools return the same for objects in a hidden channel as for objects that do not exist.
async fn check_hidden(key: &Person, owner: &Person, channel: &str, name: &str) {
    let started = owner.start(channel, "A secret flamingo").await;
    let (thread, message) = (text(&started, "/thread/id"), text(&started, "/message/id"));
    let fork = id(&owner
        .start_fork(&thread, &message, json!({"agent_id": null}))
        .await);
    owner.say_in(&fork, "Another flamingo").await;
    let file = id(&owner.upload("flamingo.txt", b"A pink bird").await);
    let form = json!({"content": "See the file", "attachments": [file]});
    owner
        .post(&format!("/v1/threads/{thread}/messages"), form)
        .await
        .is(201);
    let calls = |thread: &str, message: &str, fork: &str, channel: &str, name: &str, file: &str| {
        [
            (
                "search_messages",
                json!({"query": "flamingo", "channel": channel}),
            ),
            (
                "search_messages",
                json!({"query": "flamingo", "channel": name}),
            ),
            ("read_thread", json!({"thread": thread})),
            ("read_thread", json!({"thread": message})),
            ("read_thread", json!({"thread": fork})),
            ("search_decisions", json!({"channel": name})),
            ("read_file", json!({"file": file})),
            ("list_threads", json!({"channel": channel})),
            ("list_threads", json!({"channel": name})),
            ("post_message", json!({"thread_id": thread, "content": "x"})),
            (
                "post_message",
                json!({"channel_id": channel, "content": "x"}),
            ),
            ("post_message", json!({"fork_id": fork, "content": "x"})),
            (
                "start_fork",
                json!({"thread_id": thread, "message_id": message}),
            ),
            ("resolve_fork", json!({"fork_id": fork})),
        ]
    };
    let nothing = ["thread", "msg", "fork", "chan", "file"].map(unknown_id);
    let [no_thread, no_message, no_fork, no_channel, no_file] = &nothing;
    let hidden = calls(&thread, &message, &fork, channel, name, &file);
    let absent = calls(
        no_thread, no_message, no_fork, no_channel, "nowhere", no_file,
    );
    for ((tool, hidden), (_, absent)) in hidden.into_iter().zip(absent) {
        let (mut seen, mut expected) = (
            refusal(key, tool, hidden.clone()).await,
            refusal(key, tool, absent).await,
        );
        assert_eq!(seen["type"], "not_found", "{tool} {hidden}: {seen}");
        // Some error messages repeat the name that was sent.
        seen["message"].take();
        expected["message"].take();
        assert_eq!(seen, expected, "{tool} {hidden}");
    }
    let found = result(key, "search_messages", json!({"query": "flamingo"})).await;
    assert_eq!(found["hits"], json!([]));
    let channels = result(key, "list_channels", json!({"limit": 100})).await;
    assert!(!channels.to_string().contains(channel));
    assert_eq!(
        owner.contents(&thread).await,
        ["A secret flamingo", "See the file"]
    );
}

#[tokio::test]
async fn hidden_channels_look_as_if_they_did_not_exist() {
    let t = team().await;
    let key = program(&t.bo, ALL_SCOPES).await;
    let channel = t.ada.private_channel("board", &[]).await;
    check_hidden(&key, &t.ada, &channel, "board").await;
}

#[tokio::test]
async fn a_key_sees_only_its_own_workspace() {
    let app = TestApp::with(&[("SIGNUP", "open")]).await;
    let ada = app.founder("Ada").await;
    let bo = app.founder("Bo").await;
    let key = program(&bo, ALL_SCOPES).await;
    let channel = id(&ada
        .post("/v1/channels", json!({"name": "roof"}))
        .await
        .is(201));
    check_hidden(&key, &ada, &channel, "roof").await;
    let elsewhere = key.in_workspace(&ada.workspace);
    let listing = request("tools/list", json!({}));
    assert_eq!(
        send(&elsewhere, &[], &listing).await.refused(404),
        "workspace_not_found"
    );
}

#[tokio::test]
async fn only_keys_are_accepted() {
    let t = team().await;
    let listing = request("tools/list", json!({}));
    assert_eq!(
        send(&t.ada, &[], &listing).await.refused(403),
        "api_key_required"
    );
    let nobody = visitor(&t.app.base);
    assert_eq!(
        send(&nobody, &[], &listing).await.refused(401),
        "not_signed_in"
    );
    let (key, key_id) = t.bo.make_key(&["chat:read"]).await;
    t.bo.delete(&format!("/v1/api-keys/{key_id}")).await.is(204);
    assert_eq!(
        send(&key, &[], &listing).await.refused(401),
        "not_signed_in"
    );
}

#[tokio::test]
async fn host_and_origin_are_checked() {
    let t = team().await;
    let key = program(&t.bo, &["chat:read"]).await;
    let listing = request("tools/list", json!({}));
    let foreign = [("host", "evil.example")];
    assert_eq!(
        send(&key, &foreign, &listing).await.refused(400),
        "unknown_host"
    );
    for origin in ["https://evil.example", "null"] {
        let refused = send(&key, &[("origin", origin)], &listing).await;
        assert_eq!(refused.refused(403), "cross_origin", "{origin}");
    }
    let own = [("origin", t.app.base.as_str())];
    send(&key, &own, &listing).await.is(200);
}

#[tokio::test]
async fn other_methods_are_not_allowed() {
    let t = team().await;
    let key = program(&t.bo, &["chat:read"]).await;
    for method in [Method::GET, Method::DELETE, Method::PUT] {
        let headers = [ACCEPT, ("mcp-session-id", "x"), ("last-event-id", "1")];
        let reply = key.send(method, "/mcp", &headers, None).await;
        assert_eq!(reply.refused(405), "method_not_allowed");
    }
}

#[tokio::test]
async fn bodies_are_limited_and_must_be_json() {
    let t = team().await;
    let key = program(&t.bo, &["chat:write"]).await;
    let large = request(
        "tools/call",
        json!({"name": "post_message", "arguments": {"content": "x".repeat(1 << 20)}}),
    );
    assert_eq!(send(&key, &[], &large).await.refused(413), "body_too_large");
}

#[tokio::test]
async fn a_request_that_is_not_a_message_gets_a_json_rpc_error() {
    let t = team().await;
    let key = program(&t.bo, &["chat:write"]).await;
    let listing = request("tools/list", json!({})).to_string();
    let json_type = ("content-type", "application/json");
    let version = |version| ("mcp-protocol-version", version);
    let plain = ("content-type", "text/plain");
    let deep = "[".repeat(100_000);
    let other = json!({"jsonrpc": "1.0", "id": "x", "method": 7}).to_string();
    for (headers, body, status, code, id) in [
        (vec![ACCEPT, json_type], "{", 400, -32700, Value::Null),
        (vec![ACCEPT, json_type], "", 400, -32700, Value::Null),
        (vec![ACCEPT, json_type], "\u{0}", 400, -32700, Value::Null),
        (vec![ACCEPT, json_type], &deep, 400, -32700, Value::Null),
        (vec![ACCEPT, json_type], "42", 400, -32600, Value::Null),
        (vec![ACCEPT, json_type], &other, 400, -32600, json!("x")),
        (vec![ACCEPT, plain], &listing, 415, -32600, Value::Null),
        (
            vec![ACCEPT, json_type, version("1999-01-01")],
            &listing,
            400,
            -32600,
            Value::Null,
        ),
    ] {
        let shown: String = body.chars().take(40).collect();
        let reply = key
            .send(
                Method::POST,
                "/mcp",
                &headers,
                Some(body.as_bytes().to_vec()),
            )
            .await;
        assert_eq!(reply.status, status, "{shown} {}", reply.text);
        let answer = reply.json();
        assert_eq!(answer["jsonrpc"], "2.0", "{shown} {answer}");
        assert_eq!(answer["error"]["code"], code, "{shown} {answer}");
        assert_eq!(answer["id"], id, "{shown} {answer}");
        assert!(!text(&answer, "/error/message").is_empty(), "{answer}");
    }
}

#[tokio::test]
async fn an_unknown_tool_is_an_error_of_the_protocol() {
    let t = team().await;
    let key = program(&t.bo, &["chat:read"]).await;
    let params = json!({"name": "drop_tables", "arguments": {}});
    let error = legacy(&key, "tools/call", params).await.unwrap_err();
    assert_eq!(error["code"], -32602, "{error}");
    let error = legacy(&key, "resources/list", json!({})).await.unwrap_err();
    assert_eq!(error["code"], -32601, "{error}");
}

#[tokio::test]
async fn calls_of_tools_that_write_count_as_writes() {
    let t = team_with(&[("RATES_STOPPED", "on")]).await;
    let key = program(&t.bo, ALL_SCOPES).await;
    let mut codes = Vec::new();
    while codes.len() < 900 && codes.last().is_none_or(|code| code == "invalid_field") {
        codes.push(refused(&key, "post_message", json!({})).await);
    }
    assert_eq!(codes.last().unwrap(), "rate_limited");
    result(&key, "list_channels", json!({})).await;
}
