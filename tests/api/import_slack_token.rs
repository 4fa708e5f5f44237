//! `openvibe import --slack-token`: what is not in an export of Slack is read from its API.

use std::{
    collections::HashMap,
    process::{Command, Output},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use axum::{
    Router,
    extract::{Path, Query, State},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
    routing::get,
};
use serde_json::json;
use tokio::{net::TcpListener, task::JoinSet};

use crate::{
    emoji::{GIF, PNG, add_emoji, emoji_names},
    imports::{unlimited_team, zipped},
    support::{Team, id},
};

const TOKEN: &str = "xoxp-4711";
/// Cursor of the second page of people.
const CURSOR: &str = "a+b/c==";

async fn serve(
    State((base, calls)): State<(String, Arc<AtomicUsize>)>,
    Path(name): Path<String>,
    Query(parameters): Query<HashMap<String, String>>,
    headers: HeaderMap,
) -> Response {
    let token = headers
        .get("authorization")
        .and_then(|value| value.to_str().ok());
    let is_allowed = token == Some(format!("Bearer {TOKEN}").as_str());
    let cursor = parameters.get("cursor").map_or("", String::as_str);
    match name.as_str() {
        "users.list" | "emoji.list" if !is_allowed => {
            json!({"ok": false, "error": "invalid_auth"}).to_string().into_response()
        }
        "users.list" if calls.fetch_add(1, Ordering::Relaxed) == 0 => {
            (StatusCode::TOO_MANY_REQUESTS, [("retry-after", "0")]).into_response()
        }
        "users.list" if cursor.is_empty() => json!({"ok": true, "members": [
            {"id": "U9", "profile": {"email": "other@example.com"}}], "response_metadata": {"next_cursor": CURSOR}})
        .to_string()
        .into_response(),
        "users.list" if cursor == CURSOR => json!({"ok": true, "members": [
            {"id": "U1", "profile": {"email": "Una@Example.com"}}, {"id": "U2", "profile": {}}],
            "response_metadata": {"next_cursor": ""}})
        .to_string()
        .into_response(),
        "users.list" => json!({"ok": false, "error": "invalid_cursor"}).to_string().into_response(),
        "emoji.list" => json!({"ok": true, "emoji": {
            "aa": "alias:parrot", "ok": "alias:thumbsup", "parrot": format!("{base}/parrot.gif"), "here": format!("{base}/parrot.gif"),
            "lost": format!("{base}/lost.png"), "large": format!("{base}/large.png"), "away": "http://elsewhere.example/a.png"}})
        .to_string()
        .into_response(),
        // The token is not for pictures.
        "parrot.gif" if token.is_none() => GIF.to_vec().into_response(),
        "large.png" => [PNG, vec![1; 300 << 10].as_slice()].concat().into_response(),
        _ => StatusCode::NOT_FOUND.into_response(),
    }
}

fn slack_archive() -> Vec<u8> {
    let users = json!([{"id": "U1", "name": "una"}, {"id": "U2", "name": "bo", "profile": {"email": "bo@example.com"}}]);
    let channels =
        json!([{"id": "C1", "name": "general", "created": 1_600_000_000, "members": ["U1", "U2"]}]);
    let day = json!([{"type": "message", "user": "U1", "ts": "1620000001.000100", "text": "Hello",
        "reactions": [{"name": "aa", "users": ["U2"]}]}]);
    let bytes = |value: &serde_json::Value| value.to_string().into_bytes();
    zipped(&[
        ("users.json", bytes(&users)),
        ("channels.json", bytes(&channels)),
        ("general/2021-05-03.json", bytes(&day)),
    ])
}

async fn import(t: &Team, base: &str, token: &str, archive: &[u8]) -> Output {
    let (robot, key_id) = t
        .ada
        .make_key(&["workspace:admin", "chat:read", "chat:write"])
        .await;
    let key = robot.key.unwrap();
    let file = std::env::temp_dir().join(format!("{key_id}.zip"));
    std::fs::write(&file, archive).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_openvibe"));
    command
        .env_clear()
        .arg("import")
        .arg(&file)
        .args(["--url", &t.app.base, "--key", &key, "--yes"])
        .args(["--slack-token", token, "--slack-url", base]);
    let running = move || command.output().unwrap();
    let output = openvibe::blocking::blocking((), running).await.unwrap();
    std::fs::remove_file(&file).unwrap();
    output
}

#[tokio::test]
async fn addresses_and_emoji_come_from_slack() {
    let t = unlimited_team().await;
    add_emoji(&t.bo, "here", PNG).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let routes = Router::new()
        .route("/{name}", get(serve))
        .with_state((base.clone(), Arc::new(AtomicUsize::new(0))));
    let mut serving = JoinSet::new();
    serving.spawn(async move { axum::serve(listener, routes).await.unwrap() });

    let refused = import(&t, &base, "xoxp-wrong", &slack_archive()).await;
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        !refused.status.success() && said.contains("invalid_auth"),
        "{refused:?}"
    );

    let done = import(&t, &base, TOKEN, &slack_archive()).await;
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    // Emoji that cannot be added are problems.
    assert_eq!(done.status.code(), Some(3), "{done:?}");
    assert!(said.contains("addresses from Slack: 1"), "{said}");
    assert!(said.contains("emoji: 2 added, 3 left out"), "{said}");
    assert_eq!(emoji_names(&t.bo).await, ["aa", "here", "parrot"]);
    let table = t.ada.get("/v1/members/placeholders?format=csv").await;
    assert!(table.text.contains("una@example.com"), "{}", table.text);
    assert!(!table.text.contains("other@example.com"), "{}", table.text);
    assert!(!said.contains(TOKEN));
    let imports = t.ada.get("/v1/imports").await.ok().to_string();
    assert!(
        !imports.contains("una@example.com"),
        "addresses end with the import: {imports}"
    );
}

#[tokio::test]
async fn the_token_is_not_for_archives_of_others() {
    let t = unlimited_team().await;
    let manifest = json!({"format": "openvibe", "version": 1, "workspace": {"id": "ws_elsewhere"}});
    let other = zipped(&[
        ("manifest.json", manifest.to_string().into_bytes()),
        ("channels.jsonl", Vec::new()),
    ]);
    // Nothing answers there.
    let done = import(&t, "http://127.0.0.1:9", TOKEN, &other).await;
    assert_eq!(done.status.code(), Some(0), "{done:?}");
}

#[tokio::test]
async fn stated_addresses_are_checked() {
    let t = unlimited_team().await;
    let import = id(&t.ada.post("/v1/imports", json!({})).await.is(201));
    let path = format!("/v1/imports/{import}");
    for address in ["una", &format!("{}@example.com", "x".repeat(300))] {
        let choices = json!({"addresses": {"U1": address}});
        let refused = t.ada.patch(&path, choices).await.refused(422);
        assert_eq!(refused, "invalid_value");
    }
}
