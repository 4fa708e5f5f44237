//! Imports that are paused, resumed, and undone, and files that are fetched from their source.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use axum::{
    Router,
    extract::{Path, State},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::get,
};
use openvibe::{
    db::{Conn, DbError},
    ids::{ImportId, WorkspaceId},
    imports::Importer,
    time::Timestamp,
};
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinSet};

use crate::{
    faults::prepared,
    imports::{OFF, confirm, export, imported, ready, said, state, sums, threads, unlimited_team},
    support::{Hold, Person, Team, id, list, number, team_with, text, within},
};

/// Tables whose rows an import adds.
const TABLES: [&str; 14] = [
    "bots",
    "channel_members",
    "channels",
    "citations",
    "direct_members",
    "files",
    "handles",
    "imported",
    "members",
    "message_mentions",
    "messages",
    "placeholder_addresses",
    "threads",
    "users",
];

async fn rows(t: &Team) -> Vec<(&'static str, i64)> {
    let mut rows = Vec::new();
    for table in TABLES {
        rows.push((table, t.app.place.count(table).await));
    }
    let bytes = "select coalesce(sum(message_bytes + file_bytes), 0) from workspace_sizes";
    let bytes = format!("select cast(({bytes}) as bigint)");
    rows.push(("bytes", t.app.place.numbers(&[bytes]).await[0]));
    rows
}

async fn undone(by: &Person, import: &str) {
    by.delete(&format!("/v1/imports/{import}")).await.is(202);
    state(by, import, "undone").await;
}

async fn newest(by: &Person) -> String {
    id(&list(&by.get("/v1/imports").await.ok(), "/data")[0])
}

#[tokio::test]
async fn an_import_is_undone_without_a_trace() {
    let t = unlimited_team().await;
    confirm(&t, &t.bo, "bo@example.com").await;
    let before = rows(&t).await;
    imported(&t.ada, &export(&[])).await;
    assert_ne!(rows(&t).await, before);
    let import = newest(&t.ada).await;
    undone(&t.ada, &import).await;
    assert_eq!(rows(&t).await, before);
    let found = t.bo.get("/v1/search?q=welcome").await.ok();
    assert_eq!(list(&found, "/data").len(), 0);
    assert_eq!(threads(&t.bo, &t.general).await.len(), 0);
    // Undoing twice is undoing once, and what was undone can be imported again.
    t.ada.delete(&format!("/v1/imports/{import}")).await.is(202);
    let again = imported(&t.ada, &export(&[])).await;
    assert_eq!(again["kinds"]["messages"]["imported"], 11);
    t.bo.delete(&format!("/v1/imports/{import}"))
        .await
        .refused(403);
}

#[tokio::test]
async fn undoing_keeps_what_people_wrote_and_what_another_import_brought() {
    let t = unlimited_team().await;
    confirm(&t, &t.bo, "bo@example.com").await;
    let first = json!([{"type": "message", "user": "U1", "ts": "1620000001.000100", "text": "First", "thread_ts": "1620000001.000100"}]);
    imported(&t.ada, &export(&[("general/2021-05-03.json", first)])).await;
    let kept = newest(&t.ada).await;
    imported(&t.ada, &export(&[])).await;
    let import = newest(&t.ada).await;
    assert_ne!(import, kept);
    let all = threads(&t.bo, &t.general).await;
    let thread_of = |content: &str| {
        let found = all.iter().find(|thread| {
            thread["root_message"]["content"]
                .as_str()
                .is_some_and(|text| text.contains(content))
        });
        id(found.unwrap_or_else(|| panic!("no {content}: {all:?}")))
    };
    let answered = thread_of("See the files");
    t.bo.say(&answered, "Found them").await;
    undone(&t.ada, &import).await;
    let contents = t.bo.contents(&answered).await;
    assert_eq!(contents, ["", "Found them"]);
    let said = said(&t.bo, &t.general).await;
    let texts: Vec<&str> = said.iter().map(|(_, text)| text.as_str()).collect();
    assert!(
        texts.iter().any(|text| text.contains("welcome")),
        "a message of both: {texts:?}"
    );
    assert!(!texts.contains(&"A guest"), "{texts:?}");
    // The channels of the other import stay.
    let names = t.ada.get("/v1/channels").await.ok().to_string();
    assert!(names.contains("old-news"), "{names}");
    undone(&t.ada, &kept).await;
    let names = t.ada.get("/v1/channels").await.ok().to_string();
    assert!(!names.contains("old-news"), "{names}");
    assert_eq!(t.bo.contents(&answered).await, ["", "Found them"]);
}

#[tokio::test]
async fn channels_are_announced_without_texts() {
    let t = unlimited_team().await;
    imported(&t.ada, &export(&[])).await;
    let kinds = |events: &[Value]| {
        let of_channel = events.iter().filter(|event| {
            event["type"] == "channel.imported" && event["data"]["channel_id"] == t.general.as_str()
        });
        of_channel.count()
    };
    let events = t.bo.events().await;
    assert!(kinds(&events) >= 1, "{events:?}");
    assert!(!format!("{events:?}").contains("Hidden words"));
}

#[tokio::test]
async fn admins_are_told_how_far_an_import_is() {
    let t = unlimited_team().await;
    let (mut admins, mut members) = (t.ada.socket().await, t.bo.socket().await);
    imported(&t.ada, &export(&[])).await;
    let import = newest(&t.ada).await;
    let mut states = Vec::new();
    while states.last().is_none_or(|state| state != "done") {
        let event = admins.of("import.updated").await;
        assert_eq!(event["data"]["import_id"], import.as_str());
        states.push(text(&event, "/data/state"));
    }
    states.dedup();
    assert_eq!(states, ["reading", "ready", "running", "done"]);
    // The member's next event is a later one.
    t.ada.thread(&t.general, "It is done").await;
    let done = async {
        loop {
            let event = members.next().await;
            assert_ne!(event["type"], "import.updated");
            if event["type"] == "message.created" {
                return;
            }
        }
    };
    within("the message", done).await;
}

#[tokio::test]
async fn a_paused_import_resumes_where_it_was() {
    let p = prepared().await;
    let hold = Hold::new().await;
    let (server, ada) = p
        .start(&[("FAILPOINT", &*hold.at("importing:1")), OFF])
        .await;
    let more: Vec<Value> = (10..70)
        .map(|n| json!({"type": "message", "user": "U1", "ts": format!("16201000{n}.000100"), "text": "Old news"}))
        .collect();
    let archive = export(&[("old-news/2021-05-04.json", json!(more))]);
    let import = ready(&ada, &archive).await;
    let path = format!("/v1/imports/{import}");
    ada.act(&format!("{path}/pause")).await.refused(409);
    ada.act(&format!("{path}/start")).await.is(202);
    let held = hold.reached().await;
    let paused = ada.act(&format!("{path}/pause")).await.is(202);
    assert_eq!(paused["state"], "paused");
    drop(held);
    // What was stored stays, and no more is stored.
    let stored = number(&ada.get(&path).await.ok(), "/done");
    assert!((1..70).contains(&stored), "{stored}");
    ada.act(&format!("{path}/start")).await.refused(409);
    server.kill().await;
    let (server, ada) = p.start(&[OFF]).await;
    let still = ada.get(&path).await.ok();
    assert_eq!(
        (number(&still, "/done"), &still["state"]),
        (stored, &json!("paused"))
    );
    ada.act(&format!("{path}/resume")).await.is(202);
    let done = state(&ada, &import, "done").await;
    assert_eq!(done["done"], done["total"]);
    let report = ada.get(&format!("{path}/report")).await.ok();
    sums(&report);
    assert_eq!(report["kinds"]["messages"]["imported"], 71);
    server.kill().await;
}

/// A scripted source of files.
struct FileServer {
    host: String,
    asked: Arc<AtomicUsize>,
    _serving: JoinSet<()>,
}

async fn serve(State(asked): State<Arc<AtomicUsize>>, Path(name): Path<String>) -> Response {
    let n = asked.fetch_add(1, Ordering::SeqCst);
    let plain = [("content-type", "text/plain")];
    match name.as_str() {
        "busy" if n == 0 => (StatusCode::TOO_MANY_REQUESTS, [("retry-after", "0")]).into_response(),
        "busy" | "good" => (plain, "The plan").into_response(),
        "page" => ([("content-type", "text/html")], "<p>Sign in</p>").into_response(),
        "large" => (plain, "x".repeat(2 << 20)).into_response(),
        _ => StatusCode::NOT_FOUND.into_response(),
    }
}

impl FileServer {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let host = listener.local_addr().unwrap().to_string();
        let asked = Arc::new(AtomicUsize::new(0));
        let routes = Router::new()
            .route("/{name}", get(serve))
            .with_state(Arc::clone(&asked));
        let mut serving = JoinSet::new();
        serving.spawn(async move { axum::serve(listener, routes).await.unwrap() });
        Self {
            host,
            asked,
            _serving: serving,
        }
    }

    /// A day with one message per file.
    fn day(&self, names: &[&str]) -> Value {
        let messages = names.iter().enumerate().map(|(n, name)| {
            json!({"type": "message", "user": "U1", "ts": format!("162000000{n}.000100"), "text": name, "files": [
                {"id": format!("F{name}"), "name": format!("{name}.txt"),
                 "url_private": format!("http://{}/{name}?t=xoxe-secret", self.host)}]})
        });
        messages.collect()
    }
}

async fn fetched(by: &Person, archive: &[u8]) -> Value {
    let import = ready(by, archive).await;
    let path = format!("/v1/imports/{import}");
    by.patch(&path, json!({"fetch": true})).await.ok();
    by.act(&format!("{path}/start")).await.is(202);
    state(by, &import, "done").await;
    by.get(&format!("{path}/report")).await.ok()
}

#[tokio::test]
async fn files_are_fetched_from_the_source_and_tried_again_by_the_next_run() {
    let server = FileServer::start().await;
    let settings = [
        ("IMPORT_ALLOW", server.host.as_str()),
        ("UPLOAD_BYTES_MAX", "1MiB"),
        OFF,
    ];
    let t = team_with(&settings).await;
    let archive = |names: &[&str]| export(&[("general/2021-05-03.json", server.day(names))]);
    let names = ["good", "page", "large", "gone"];
    // Without the choice, nothing is fetched.
    let report = imported(&t.ada, &archive(&names)).await;
    assert_eq!(report["kinds"]["files"]["left_out"], 4);
    assert_eq!(server.asked.load(Ordering::SeqCst), 0);
    // A later run fetches what is missing.
    let report = fetched(&t.ada, &archive(&names)).await;
    sums(&report);
    let n = &report["kinds"]["files"];
    assert_eq!((&n["imported"], &n["left_out"]), (&json!(1), &json!(3)));
    let reasons = report["left_out"].to_string();
    for reason in ["larger than the upload limit", "did not send it"] {
        assert!(reasons.contains(reason), "{reasons}");
    }
    let mut messages = Vec::new();
    for thread in threads(&t.bo, &t.general).await {
        messages.extend(t.bo.messages(&id(&thread)).await);
    }
    let of = |name: &str| {
        let found = messages
            .iter()
            .find(|m| text(m, "/content").starts_with(name));
        found.unwrap().clone()
    };
    let good = of("good");
    assert_eq!(good["content"], "good");
    t.bo.get(&text(&good, "/attachments/0/url"))
        .await
        .ok_text("The plan");
    let gone = of("gone");
    assert_eq!(list(&gone, "/attachments").len(), 0);
    assert!(!messages.iter().any(|m| m.to_string().contains("xoxe")));
    // What is here is not fetched again, even if the archive is imported without fetching.
    let asked = server.asked.load(Ordering::SeqCst);
    let report = imported(&t.ada, &archive(&["good"])).await;
    assert_eq!(report["kinds"]["files"]["existing"], 1);
    assert_eq!(server.asked.load(Ordering::SeqCst), asked);
    let now = t.bo.get(&format!("/v1/messages/{}", id(&good))).await.ok();
    assert_eq!(now["content"], "good");
}

#[tokio::test]
async fn a_busy_source_is_asked_again_and_other_hosts_are_not() {
    let server = FileServer::start().await;
    let t = team_with(&[("IMPORT_ALLOW", server.host.as_str()), OFF]).await;
    let archive = export(&[("general/2021-05-03.json", server.day(&["busy"]))]);
    let report = fetched(&t.ada, &archive).await;
    assert_eq!(report["kinds"]["files"]["imported"], 1);
    assert_eq!(server.asked.load(Ordering::SeqCst), 2);
    let other = FileServer::start().await;
    let archive = export(&[("general/2021-05-04.json", other.day(&["good"]))]);
    let report = fetched(&t.ada, &archive).await;
    let reasons = report["left_out"].to_string();
    assert!(
        reasons.contains("not at an address of the source"),
        "{reasons}"
    );
    assert_eq!(other.asked.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_paused_import_fails_after_a_week_and_can_be_undone() {
    let t = unlimited_team().await;
    let import = ready(&t.ada, &export(&[])).await;
    let (workspace, id): (WorkspaceId, ImportId) =
        (t.ada.workspace.parse().unwrap(), import.parse().unwrap());
    let paused: Result<(), DbError> = t
        .app
        .db()
        .write(workspace.0, async move |c: &mut Conn| {
            let at = chrono::DateTime::from_timestamp(1_700_000_000, 0).unwrap();
            c.q("update imports set state = 'paused', started_at = $2, created_at = $2 where id = $1")
                .bind(id)
                .bind(Timestamp::within_years(at).unwrap())
                .run()
                .await?;
            Ok(())
        })
        .await;
    paused.unwrap();
    Importer::delete_old(t.app.db()).await.unwrap();
    let path = format!("/v1/imports/{import}");
    let failed = t.ada.get(&path).await.ok();
    assert_eq!(
        (&failed["state"], &failed["problem"]),
        (
            &json!("failed"),
            &json!("The archive was deleted after 7 days.")
        )
    );
    assert_eq!(t.app.place.count("import_pieces").await, 0);
    t.ada.act(&format!("{path}/resume")).await.refused(409);
    undone(&t.ada, &import).await;
}
