//! Access to every route in the API document by every kind of caller.
//!
//! By default, a route is tested according to its `security`, with a call that consists of its path, its required query, and the
//! example of its body. Add rows to `table.txt` only if the route's access depends on more than that, and a recipe to `recipes.rs`
//! only if the default call fails.

mod queued;
mod recipes;
mod table;
mod world;

use std::collections::{BTreeMap, BTreeSet};

use reqwest::Method;
use serde_json::{Value, json};

pub use self::world::{AccessFixture, SETTINGS};
use self::{
    recipes::{Call, depends_on_caller, recipe},
    table::{COLUMNS, Cell, IdField, Row, TestCaller, access_of, id_fields, operations, rows},
    world::Things,
};
use crate::support::{Person, Socket, TestApp, id, text, unknown_id, visitor};

async fn document(base: &str) -> Value {
    visitor(base).get("/openapi.json").await.is(200)
}

fn operation<'a>(document: &'a Value, route: &str) -> &'a Value {
    let (method, path) = route.split_once(' ').unwrap();
    &document["paths"][path][method.to_lowercase()]
}

/// Sends a call. Returns the status and body of the response; for a WebSocket, the status that corresponds to its close code.
async fn send(call: &Call, caller: &Person) -> (u16, String) {
    let sender = call.sender.as_ref().unwrap_or(caller);
    if call.opens_socket {
        return (open(sender).await, String::new());
    }
    let headers: Vec<(&str, &str)> = call
        .headers
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect();
    let body = call.body.as_ref().map(|body| body.to_string().into_bytes());
    let body = call.form.clone().or(body);
    let reply = sender
        .send(call.method.clone(), &call.path, &headers, body)
        .await;
    (reply.status, reply.text)
}

/// Opens a socket in the workspace. Returns the status that corresponds to its close code.
async fn open(sender: &Person) -> u16 {
    let mut socket = Socket::silent(sender).await;
    let mut hello = json!({"type": "hello", "protocol": 1});
    if let Some(workspace) = &sender.workspace_header {
        hello["workspace_id"] = workspace.as_str().into();
    }
    // The server may close a rejected socket before this is sent.
    drop(
        socket
            .send_message(tokio_tungstenite::tungstenite::Message::text(
                hello.to_string(),
            ))
            .await,
    );
    match socket.ready_or_closed().await {
        Ok(()) => 101,
        Err(4001) => 401,
        Err(4003) => 404,
        Err(code) => panic!("closed with {code}"),
    }
}

/// A request for one operation, with its sender.
#[derive(Debug, Clone)]
pub struct PreparedCall {
    pub sender: Person,
    pub method: Method,
    pub path: String,
    pub headers: Vec<(&'static str, String)>,
    pub body: Option<Vec<u8>>,
}

/// A call of every operation by a caller with access.
pub async fn prepared_calls(w: &AccessFixture) -> Vec<PreparedCall> {
    const PREFERRED: [TestCaller; 5] = [
        TestCaller::Member,
        TestCaller::Admin,
        TestCaller::Nobody,
        TestCaller::Key("chat:read"),
        TestCaller::Key("agents:use"),
    ];
    let is_allowed = |row: &Row, who: &TestCaller| {
        let column = COLUMNS.iter().position(|column| column == who).unwrap();
        row.cells[column] == Cell::Ok
    };
    let mut calls = BTreeMap::new();
    for row in &rows() {
        let who = PREFERRED.iter().find(|who| is_allowed(row, who));
        if let Some(who) = who
            && !calls.contains_key(&row.route)
        {
            let call = prepared(w, row, *who).await;
            let body = call.body.map(|body| body.to_string().into_bytes());
            let call = PreparedCall {
                sender: call.sender.unwrap_or_else(|| w.caller(*who)),
                method: call.method,
                path: call.path,
                headers: call.headers,
                body: call.form.or(body),
            };
            calls.insert(row.route.clone(), call);
        }
    }
    let known = table::documented_operations();
    let missing: Vec<&String> = known
        .iter()
        .filter(|name| !calls.contains_key(*name))
        .collect();
    assert!(missing.is_empty(), "no call of {missing:?}");
    calls.into_values().collect()
}

fn cell_of(status: u16) -> Cell {
    match status {
        401 | 403 | 404 => Cell::Refused(status),
        _ => Cell::Ok,
    }
}

fn line(row: &Row, cells: &[Cell]) -> String {
    let cells: Vec<String> = cells.iter().map(|cell| format!("{cell:<4}")).collect();
    format!("{:<58}{}", row.name(), cells.join(""))
        .trim_end()
        .to_owned()
}

/// Builds a row's call for one caller, with newly created objects.
async fn prepared(w: &AccessFixture, row: &Row, who: TestCaller) -> Call {
    if !row.is_own() {
        return recipe(w, row, who, &w.olu).await;
    }
    match who {
        // The objects are created while the caller is still a member.
        TestCaller::Viewer => {
            w.set_role(&w.vera, "member").await;
            let call = recipe(w, row, who, &w.vera).await;
            w.set_role(&w.vera, "viewer").await;
            call
        }
        TestCaller::Guest => {
            w.set_role(&w.gus, "member").await;
            let call = recipe(w, row, who, &w.gus).await;
            w.make_guest(&w.gus).await;
            call
        }
        TestCaller::Nobody | TestCaller::Foreign => recipe(w, row, who, &w.olu).await,
        _ => recipe(w, row, who, &w.person(who)).await,
    }
}

/// Builds a row's calls that must not have an effect. Callers share one, unless it has a sender of its own; if the calls depend on the
/// caller, only keys do.
async fn prepared_all(
    w: &AccessFixture,
    row: &Row,
    callers: impl IntoIterator<Item = TestCaller>,
) -> Vec<(TestCaller, Call)> {
    let is_key = |who: TestCaller| matches!(who, TestCaller::Key(_));
    let is_same = !depends_on_caller(row);
    let mut calls: Vec<(TestCaller, Call)> = Vec::new();
    for who in callers {
        let shared = calls
            .iter()
            .find(|(of, call)| call.sender.is_none() && (is_same || (is_key(*of) && is_key(who))));
        let call = match shared {
            Some((_, call)) => call.clone(),
            None => prepared(w, row, who).await,
        };
        calls.push((who, call));
    }
    calls
}

/// Sends a row's call as every caller and returns the deviations from the row.
async fn check_row(w: &AccessFixture, document: &Value, row: &Row) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut seen = row.cells.clone();
    let allowed = |cell: &Cell| *cell == Cell::Ok;
    let callers = COLUMNS.iter().zip(&row.cells);
    let refused = callers.filter(|(_, cell)| matches!(cell, Cell::Refused(_)));
    let refused = prepared_all(w, row, refused.map(|(who, _)| *who)).await;
    w.settle().await;
    let before = w.app.place.row_counts().await;
    for (who, call) in &refused {
        let i = COLUMNS.iter().position(|column| column == who).unwrap();
        let (status, text) = send(call, &w.caller(*who)).await;
        if cell_of(status) != row.cells[i] {
            seen[i] = cell_of(status);
            wrong.push(format!("  {who:?}: {status} {text}"));
        }
    }
    let after = w.app.place.row_counts().await;
    // Background jobs remove rows of these tables.
    let is_swept = |table: &str| matches!(table, "blobs" | "bot_responses" | "button_presses");
    let changed: Vec<_> = before
        .iter()
        .zip(&after)
        .filter(|(old, new)| old != new && !(is_swept(&new.0) && new.1 < old.1))
        .map(|(_, new)| new)
        .collect();
    if wrong.is_empty() && !changed.is_empty() {
        wrong.push(format!(
            "  refused, and yet rows are made or gone: {changed:?}"
        ));
    }
    let documented = &operation(document, &row.route)["responses"];
    // A call that only reads serves all callers.
    let is_for_all = !row.changes() && !depends_on_caller(row);
    let mut of_all = refused
        .iter()
        .map(|(_, call)| call)
        .find(|call| is_for_all && call.sender.is_none())
        .cloned();
    for (i, who) in COLUMNS
        .iter()
        .enumerate()
        .filter(|(i, _)| allowed(&row.cells[*i]))
    {
        let call = match &of_all {
            Some(call) => call.clone(),
            None => prepared(w, row, *who).await,
        };
        if is_for_all && call.sender.is_none() {
            of_all = Some(call.clone());
        }
        let recorded = w.app.place.count("audit_log").await;
        let (status, text) = send(&call, &w.caller(*who)).await;
        if *who == TestCaller::Admin
            && row.takes_an_admin()
            && Some(status) != row.refusal()
            && w.app.place.count("audit_log").await == recorded
        {
            wrong.push("  what an admin did is not in the audit log".to_owned());
        }
        let is_good =
            (200..300).contains(&status) || status == 101 || Some(status) == row.refusal();
        if !is_good || documented.get(status.to_string()).is_none() {
            seen[i] = cell_of(status);
            wrong.push(format!("  {who:?}: {status} {text}"));
        }
    }
    if !wrong.is_empty() {
        wrong.insert(0, line(row, &row.cells));
        wrong.insert(1, format!("{}   <- what happened", line(row, &seen)));
    }
    wrong
}

/// Rows of the table that have this place among `parts` of the same length.
fn rows_of(part: usize, parts: usize) -> Vec<Row> {
    let mut all = rows();
    let length = all.len().div_ceil(parts);
    all.drain(part * length..all.len().min((part + 1) * length))
        .collect()
}

/// Makes a test of each part of the table, so that they run side by side.
macro_rules! in_parts {
    ($test:ident, $check:ident: $($name:ident = $part:literal),+ $(,)?) => {
        mod $test {
            const PARTS: usize = [$($part),+].len();
            $(
                #[tokio::test]
                async fn $name() {
                    let rows = crate::route_access::rows_of($part, PARTS);
                    super::$check(&rows).await;
                }
            )+
        }
    };
}
use in_parts;

async fn check_access(rows: &[Row]) {
    let w = AccessFixture::new().await;
    let document = document(&w.app.base).await;
    let mut wrong = Vec::new();
    for row in rows {
        wrong.extend(check_row(&w, &document, row).await);
    }
    assert!(
        wrong.is_empty(),
        "the server and tests/api/route_access/table.txt disagree:\n{}",
        wrong.join("\n")
    );
}

in_parts!(access_matches_the_table, check_access:
    part_1 = 0, part_2 = 1, part_3 = 2, part_4 = 3, part_5 = 4, part_6 = 5,
    part_7 = 6, part_8 = 7, part_9 = 8, part_10 = 9, part_11 = 10, part_12 = 11,
);

#[test]
fn every_case_is_listed_once() {
    let names: BTreeSet<String> = rows().iter().map(Row::name).collect();
    assert_eq!(names.len(), rows().len(), "table.txt repeats a row");
}

/// Checks that the documented role and scopes are sufficient for some case of the route, and lower ones for none.
#[tokio::test]
async fn the_api_document_matches_the_access_table() {
    let app = TestApp::start().await;
    let document = document(&app.base).await;
    let mut wrong = Vec::new();
    for (route, operation) in operations(&document) {
        let own: Vec<Row> = rows()
            .into_iter()
            .filter(|row| row.route == route)
            .collect();
        let allowed = |i: usize| own.iter().any(|row| row.cells[i] == Cell::Ok);
        let lowest = [None, Some("viewer"), Some("member"), Some("admin")];
        let role = (0..4).find(|i| allowed(*i)).and_then(|i| lowest[i]);
        let (documented, said) = access_of(operation);
        if documented != role {
            wrong.push(format!(
                "{route}: its role is {documented:?}, but {role:?} is allowed"
            ));
        }
        let takes_guests = documented.is_some() && allowed(COLUMNS.len() - 1);
        if table::accepts_guests(operation) != takes_guests {
            wrong.push(format!(
                "{route}: its `security` and the table disagree about guests"
            ));
        }
        let enough: Vec<&str> = COLUMNS
            .iter()
            .enumerate()
            .filter_map(|(i, who)| match who {
                TestCaller::Key(scope) if allowed(i) => Some(*scope),
                _ => None,
            })
            .collect();
        let fits = match said.as_deref() {
            _ if role.is_none() => true,
            // A key with any scope is sufficient.
            Some([]) => enough.len() == 8,
            // Alternatives are documented in prose.
            Some([one]) => enough.contains(one),
            // Keys are not accepted, or need more than one scope.
            None | Some(_) => enough.is_empty(),
        };
        if !fits {
            wrong.push(format!(
                "{route}: its scopes are {said:?}, but keys with {enough:?} may"
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "`security` of the handlers and table.txt disagree:\n{}",
        wrong.join("\n")
    );
}

/// Path segments that contain an ID, and the kind of object for each.
fn kinds_of(path: &str) -> Vec<(&'static str, &'static str)> {
    let mut words = path.trim_start_matches("/v1/").split('/');
    let first = words.next().unwrap();
    let mut kinds = Vec::new();
    let named = match first {
        "channels" => "channel",
        "threads" => "thread",
        "messages" => "message",
        "memories" => "memory",
        "forks" => "fork",
        "tasks" => "task",
        "compactions" => "compaction",
        "action-items" => "item",
        "actions" => "act",
        "grants" => "grant",
        "schedules" => "schedule",
        "bots" => "bot",
        "runners" => "runner",
        "repositories" => "repository",
        "code-sessions" => "code",
        "hooks" => "hook",
        "imports" => "import",
        "exports" => "export",
        "workspaces" => "workspace",
        "agents" => "agent",
        "invites" => "invite",
        "api-keys" => "key",
        "sandbox-policies" => "sandbox",
        "personas" => "persona",
        "skills" => "skill",
        "tools" => "tool",
        "workflows" => "flow",
        "runs" => "run",
        "responses" => "response",
        "files" => "file",
        "vector_stores" => "store",
        "auth" if path.starts_with("/v1/auth/passkeys") => "passkey",
        "auth" if path.starts_with("/v1/auth/identities") => "identity",
        // Providers belong to the server.
        "auth" if path.starts_with("/v1/auth/oidc") => "",
        "auth" => "session",
        _ => "",
    };
    if path.contains("{id}") && !named.is_empty() {
        kinds.push(("{id}", named));
    }
    if path.contains("{bot_id}") {
        kinds.push(("{bot_id}", "bot"));
    }
    if path.contains("{user_id}") {
        kinds.push(("{user_id}", "user"));
    }
    kinds
}

/// The path of a call with one segment replaced by another ID.
fn readdressed(row: &Row, call: &Call, part: &str, other: &str) -> String {
    let (asked, query) = match call.path.split_once('?') {
        Some((path, query)) => (path, format!("?{query}")),
        None => (call.path.as_str(), String::new()),
    };
    let words = row.path().split('/').zip(asked.split('/'));
    let path: Vec<&str> = words
        .map(|(pattern, word)| if pattern == part { other } else { word })
        .collect();
    path.join("/") + &query
}

/// Calls every route that has such an object in its path, as every authorized caller, with the ID of an object that the caller cannot
/// see.
async fn check_hidden(w: &AccessFixture, things: &Things, whose: &str, rows: &[Row]) {
    let mut wrong = Vec::new();
    for row in rows {
        for (part, kind) in kinds_of(row.path()) {
            // An invite's token is valid for everyone who has it. Leaving a channel looks up the member last.
            if kind == "invite" && row.route != "DELETE /v1/invites/{id}"
                || row.variant == "oneself"
            {
                continue;
            }
            let Some(other) = things.get(kind) else {
                continue;
            };
            let callers = COLUMNS.iter().zip(&row.cells).filter(|(who, cell)| {
                !matches!(who, TestCaller::Nobody | TestCaller::Foreign) && **cell == Cell::Ok
            });
            let mut calls = prepared_all(w, row, callers.map(|(who, _)| *who)).await;
            for (_, call) in &mut calls {
                call.path = readdressed(row, call, part, other);
            }
            w.settle().await;
            let before = w.app.place.row_counts().await;
            for (who, call) in &calls {
                let (status, text) = send(call, &w.caller(*who)).await;
                let mut absent = call.clone();
                let nothings = nothings_id(other);
                absent.path = call.path.replace(other, &nothings);
                let absent = send(&absent, &w.caller(*who)).await.1;
                if status != 404 || absent.replace(&nothings, other) != text {
                    let name = row.name();
                    wrong.push(format!(
                        "{name} with {whose} {kind}, {who:?}: {status} {text}, and of nothing: {absent}"
                    ));
                }
            }
            if before != w.app.place.row_counts().await {
                wrong.push(format!(
                    "{} with {whose} {kind}: something changed",
                    row.name()
                ));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "expected 404, as of what does not exist:\n{}",
        wrong.join("\n")
    );
}

async fn check_foreign(rows: &[Row]) {
    let w = AccessFixture::new().await;
    check_hidden(&w, &w.foreign, "another workspace's", rows).await;
}

in_parts!(objects_of_another_workspace_in_a_path_are_not_found, check_foreign:
    part_1 = 0, part_2 = 1, part_3 = 2, part_4 = 3,
);

async fn check_private(rows: &[Row]) {
    let w = AccessFixture::new().await;
    check_hidden(&w, &w.private, "a private channel's", rows).await;
}

in_parts!(objects_of_an_inaccessible_private_channel_in_a_path_are_not_found, check_private:
    part_1 = 0, part_2 = 1, part_3 = 2,
);

/// Returns a well-formed, unused ID of the same kind.
fn nothings_id(id: &str) -> String {
    unknown_id(id.rsplit_once('_').unwrap().0)
}

/// The call with this ID in this field.
fn naming(call: &Call, field: &IdField, id: &str) -> Call {
    let mut call = call.clone();
    if field.place == "query" {
        // Replaces the parameter if the documented call already contains it.
        let (path, query) = call.path.split_once('?').unwrap_or((&call.path, ""));
        let own = format!("{}=", field.name);
        let others = query
            .split('&')
            .filter(|part| !part.is_empty() && !part.starts_with(&own));
        let named = format!("{own}{id}");
        let parts: Vec<&str> = others.chain([&*named]).collect();
        call.path = format!("{path}?{}", parts.join("&"));
    } else {
        let is_list = field.name.ends_with("_ids") || field.name == "attachments";
        let value = if is_list { json!([id]) } else { json!(id) };
        call.body.get_or_insert_with(|| json!({}))[&field.name] = value;
    }
    call
}

/// Builds a successful call of the field's route: one that contains the field, if there is one.
async fn call_with(w: &AccessFixture, rows: &[Row], field: &IdField) -> (TestCaller, Call) {
    let mut first = None;
    for row in rows.iter().filter(|row| row.route == field.route) {
        let who = match (row.cells[2], row.cells[3]) {
            (Cell::Ok, _) => TestCaller::Member,
            (_, Cell::Ok) => TestCaller::Admin,
            _ => continue,
        };
        let call = prepared(w, row, who).await;
        let has_field = |mark: char| call.path.contains(&format!("{mark}{}=", field.name));
        if has_field('?') || has_field('&') {
            return (who, call);
        }
        first = first.or(Some((who, call)));
    }
    first.unwrap_or_else(|| panic!("{}", field.route))
}

/// Sends the ID of an object that the caller cannot see, in each of these ID fields of queries and bodies.
async fn check_named(w: &AccessFixture, things: &Things, whose: &str, fields: &[IdField]) {
    let rows = rows();
    let mut wrong = Vec::new();
    for field in fields {
        let Some(other) = things.get(&field.kind) else {
            continue;
        };
        let (who, call) = call_with(w, &rows, field).await;
        w.settle().await;
        let before = w.app.place.row_counts().await;
        let (status, text) = send(&naming(&call, field, other), &w.caller(who)).await;
        if status != field.status {
            wrong.push(format!(
                "{} with {whose} {} as {}: {status}, not {}: {text}",
                field.route, field.kind, field.name, field.status
            ));
        }
        let nothings = nothings_id(other);
        let absent = send(&naming(&call, field, &nothings), &w.caller(who)).await;
        if (absent.0, absent.1.replace(&nothings, other)) != (status, text.clone()) {
            wrong.push(format!(
                "{} tells {whose} {} as {} from one that does not exist: {text} and {}",
                field.route, field.kind, field.name, absent.1
            ));
        }
        if call.method == Method::GET {
            continue;
        }
        let after = w.app.place.row_counts().await;
        if before != after {
            let changed: Vec<_> = after.iter().filter(|n| !before.contains(n)).collect();
            wrong.push(format!(
                "{} with {}: something changed: {changed:?}",
                field.route, field.name
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn objects_of_another_workspace_in_a_query_or_body_are_not_found() {
    let w = AccessFixture::new().await;
    check_named(&w, &w.foreign, "another workspace's", &id_fields()).await;
}

#[tokio::test]
async fn objects_of_an_inaccessible_private_channel_in_a_query_or_body_are_not_found() {
    let w = AccessFixture::new().await;
    check_named(&w, &w.private, "a private channel's", &id_fields()).await;
}

#[tokio::test]
async fn objects_of_another_workspace_of_the_caller_in_a_query_are_not_found() {
    let mut w = AccessFixture::new().await;
    for person in [&mut w.ada, &mut w.bo] {
        let invite = w.zoe.post("/v1/invites", json!({})).await.is(201);
        let path = format!("/v1/invites/{}/accept", text(&invite, "/token"));
        person.act(&path).await.is(200);
        *person = person.in_workspace(&person.workspace);
    }
    let queries: Vec<IdField> = id_fields()
        .into_iter()
        // The caller's own workspaces are in one list.
        .filter(|field| field.place == "query" && field.kind != "workspace")
        .collect();
    check_named(&w, &w.foreign, "the caller's other workspace's", &queries).await;
}

#[tokio::test]
async fn hidden_agents_in_a_query_are_not_found() {
    let w = AccessFixture::new().await;
    let lists = json!({"access_control": {"allowed_subjects": ["role:admin"]}});
    let hidden = id(&w.ada.make_agent("hidden").await);
    let path = format!("/v1/agents/{hidden}");
    w.ada.patch(&path, lists).await.is(200);
    let rows = rows();
    // Admins see all agents.
    let is_for_members = |field: &IdField| {
        rows.iter()
            .any(|row| row.route == field.route && row.cells[2] == Cell::Ok)
    };
    let queries: Vec<IdField> = id_fields()
        .into_iter()
        .filter(|field| field.place == "query" && field.kind == "agent" && is_for_members(field))
        .collect();
    assert!(queries.len() >= 5, "{queries:?}");
    check_named(&w, &Things::one("agent", hidden), "a hidden", &queries).await;
}

#[tokio::test]
async fn malformed_ids_in_a_query_are_rejected() {
    let w = AccessFixture::new().await;
    let rows = rows();
    let mut wrong = Vec::new();
    for field in id_fields() {
        if field.place != "query" || field.kind == "none" {
            continue;
        }
        let (who, call) = call_with(&w, &rows, &field).await;
        for id in ["nonsense", "ws_0"] {
            let (status, text) = send(&naming(&call, &field, id), &w.caller(who)).await;
            if status != 400 {
                wrong.push(format!(
                    "{} with {} as {id}: {status} {text}",
                    field.route, field.name
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
