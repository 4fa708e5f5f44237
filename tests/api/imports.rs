//! Imports of archives, from the upload of their pieces to the report.

use std::{
    io::{Cursor, Write},
    process::{Command, Output},
    time::Duration,
};

use openvibe::{
    auth::{
        AuthError,
        placeholders::{NewPlaceholder, insert_placeholder},
    },
    db::Conn,
    ids::{UserId, WorkspaceId},
};
use reqwest::Method;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use zip::{ZipWriter, write::SimpleFileOptions};

use crate::support::{Person, Reply, Team, TestApp, id, list, number, team_with, text, within};

const POLL: Duration = Duration::from_millis(50);

/// Tests ask again and again what has become of an import.
pub const OFF: (&str, &str) = ("RATE_LIMITS", "off");

pub async fn unlimited_team() -> Team {
    team_with(&[OFF]).await
}

/// A zip file with these entries.
pub fn zipped(entries: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in entries {
        zip.start_file(*name, SimpleFileOptions::default()).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

/// An entry with one object per line.
pub fn json_lines(values: &[Value]) -> Vec<u8> {
    let lines: Vec<String> = values.iter().map(Value::to_string).collect();
    lines.join("\n").into_bytes()
}

fn bytes(value: &Value) -> Vec<u8> {
    value.to_string().into_bytes()
}

fn user(key: &str, name: &str, email: Option<&str>) -> Value {
    json!({"id": key, "team_id": "T1", "name": name.to_lowercase(), "profile": {"real_name": name, "email": email}})
}

fn channel(key: &str, name: &str, members: &[&str]) -> Value {
    json!({"id": key, "name": name, "created": 1_600_000_000, "creator": "U1", "members": members, "topic": {"value": "A topic"}})
}

/// An export of Slack with oddities.
pub fn export(more: &[(&str, Value)]) -> Vec<u8> {
    let general = json!([
        {"type": "message", "subtype": "channel_join", "user": "U1", "ts": "1620000000.000100", "text": "joined"},
        {"type": "message", "user": "U1", "ts": "1620000001.000100", "text": "Hello <@U2>, *welcome*", "thread_ts": "1620000001.000100",
         "reactions": [{"name": "clap::skin-tone-2", "users": ["U2"]}, {"name": "party_parrot", "users": ["U2", "U9"]}]},
        {"type": "message", "user": "U2", "ts": "1620000002.000100", "text": "Thanks", "thread_ts": "1620000001.000100",
         "edited": {"user": "U2", "ts": "1620000003.000000"}},
        {"type": "message", "subtype": "thread_broadcast", "user": "U2", "ts": "1620000002.000200", "text": "Thanks to all",
         "thread_ts": "1620000001.000100", "root": {}},
        {"type": "message", "subtype": "thread_broadcast", "user": "U2", "ts": "1620000002.000200", "text": "Thanks to all",
         "thread_ts": "1620000001.000100", "root": {}},
        {"type": "message", "user": "U1", "ts": "1620000004.000100", "text": "To a lost thread", "thread_ts": "1610000000.000100"},
        {"type": "message", "subtype": "bot_message", "bot_id": "B1", "username": "Build", "ts": "1620000005.000100", "text": "Passed"},
        {"type": "message", "subtype": "bot_message", "ts": "1620000006.000100", "text": "From nobody"},
        {"type": "message", "user": "U1", "ts": "1620000007.000100", "text": "See the files", "files": [
            {"id": "F1", "name": "notes.txt", "url_private": "https://files.slack.com/F1?t=xoxe-secret"},
            {"id": "F2", "name": "plan.pdf", "url_private": "https://files.slack.com/F2?t=xoxe-secret"},
            {"id": "F3", "mode": "tombstone"}]},
        {"type": "message", "user": "U1", "ts": "1620000008.000100", "text": ""},
        {"type": "message", "user": "U8", "user_profile": {"real_name": "Guest Star"}, "ts": "1620000009.000100", "text": "A guest"},
        7
    ]);
    let mut entries = vec![
        (
            "users.json",
            bytes(&json!([
                user("U1", "Una", None),
                user("U2", "Bo", Some("bo@example.com")),
                user("U3", "Vibe", None),
            ])),
        ),
        (
            "channels.json",
            bytes(&json!([
                channel("C1", "general", &["U1", "U2"]),
                channel("C2", "old-news", &["U1"])
            ])),
        ),
        (
            "groups.json",
            bytes(&json!([channel("G1", "secret", &["U1", "U3"])])),
        ),
        (
            "dms.json",
            bytes(&json!([{"id": "D1", "created": 1_600_000_000, "members": ["U1", "U2"]}])),
        ),
        ("general/2021-05-03.json", bytes(&general)),
        (
            "secret/2021-05-03.json",
            bytes(
                &json!([{"type": "message", "user": "U3", "ts": "1620000100.000100", "text": "Hidden words"}]),
            ),
        ),
        (
            "D1/2021-05-03.json",
            bytes(&json!([
                {"type": "message", "user": "U1", "ts": "1620000200.000100", "text": "Between us"},
                {"type": "message", "user": "U2", "ts": "1620000201.000100", "text": "Sure"}
            ])),
        ),
        ("old-news/2021-05-04.json", b"{ this is not JSON".to_vec()),
        ("__uploads/F1/../../../notes.txt", b"The notes".to_vec()),
    ];
    for (name, value) in more {
        entries.retain(|(known, _)| known != name);
        entries.push((*name, bytes(value)));
    }
    zipped(&entries)
}

async fn put(by: &Person, import: &str, range: &str, piece: &[u8]) -> Reply {
    let headers = [
        ("content-range", range),
        ("content-type", "application/octet-stream"),
    ];
    let path = format!("/v1/imports/{import}/archive");
    by.send(Method::PUT, &path, &headers, Some(piece.to_vec()))
        .await
}

pub async fn created(by: &Person) -> String {
    id(&by.post("/v1/imports", json!({})).await.is(201))
}

/// Uploads an archive in pieces.
pub async fn upload(by: &Person, import: &str, archive: &[u8]) -> Reply {
    let total = archive.len();
    let size = total.div_ceil(3);
    let mut last = None;
    for (n, piece) in archive.chunks(size).enumerate() {
        let start = n * size;
        let range = format!("bytes {start}-{}/{total}", start + piece.len() - 1);
        last = Some(put(by, import, &range, piece).await);
    }
    last.unwrap()
}

pub async fn state(by: &Person, import: &str, wanted: &str) -> Value {
    within("the import", async {
        loop {
            let import = by.get(&format!("/v1/imports/{import}")).await.ok();
            if import["state"] == wanted {
                return import;
            }
            assert_ne!(import["state"], "failed", "{import}");
            tokio::time::sleep(POLL).await;
        }
    })
    .await
}

pub async fn ready(by: &Person, archive: &[u8]) -> String {
    let import = created(by).await;
    upload(by, &import, archive).await.ok();
    state(by, &import, "ready").await;
    import
}

pub async fn imported(by: &Person, archive: &[u8]) -> Value {
    let import = ready(by, archive).await;
    by.act(&format!("/v1/imports/{import}/start")).await.is(202);
    state(by, &import, "done").await;
    by.get(&format!("/v1/imports/{import}/report")).await.ok()
}

pub fn sums(report: &Value) {
    for (kind, n) in report["kinds"].as_object().unwrap() {
        let sum: i64 = ["imported", "existing", "merged", "left_out"]
            .iter()
            .map(|name| number(n, &format!("/{name}")))
            .sum();
        assert_eq!(number(n, "/read"), sum, "{kind}: {n}");
    }
}

/// Confirms the address of a person.
pub async fn confirm(t: &Team, who: &Person, email: &str) {
    let sql = format!(
        "update users set email = '{email}', email_confirmed_at = created_at where name = '{}'",
        who.name
    );
    let sql: &'static str = sql.leak();
    t.app.place.run(&[sql]).await;
}

pub async fn threads(by: &Person, channel: &str) -> Vec<Value> {
    by.every(&format!("/v1/channels/{channel}/threads")).await
}

/// Inserts a placeholder, and returns its ID.
pub async fn placeholder(app: &TestApp, workspace: &str, name: &str) -> String {
    let (workspace, user): (WorkspaceId, UserId) = (workspace.parse().unwrap(), UserId::new());
    let name = name.to_owned();
    let inserted: Result<(), AuthError> = app
        .db()
        .write(workspace.0, async move |c: &mut Conn| {
            let new = NewPlaceholder { user, name: &name };
            insert_placeholder(c, workspace, new).await
        })
        .await;
    inserted.unwrap();
    user.to_string()
}

/// Messages of a channel, in the order of their threads.
pub async fn messages(by: &Person, channel: &str) -> Vec<Value> {
    let mut messages = Vec::new();
    for thread in threads(by, channel).await.iter().rev() {
        messages.extend(by.messages(&id(thread)).await);
    }
    messages
}

/// The first message whose text contains `content`.
pub fn with_content(messages: &[Value], content: &str) -> Value {
    let found = messages
        .iter()
        .find(|message| text(message, "/content").contains(content));
    found
        .unwrap_or_else(|| panic!("no {content}: {messages:?}"))
        .clone()
}

/// Messages of a channel: author, text.
pub async fn said(by: &Person, channel: &str) -> Vec<(String, String)> {
    let messages = messages(by, channel).await;
    let said = messages
        .iter()
        .map(|message| (text(message, "/author/name"), text(message, "/content")));
    said.collect()
}

#[tokio::test]
async fn only_the_start_of_a_text_above_32_kib_is_in_the_message() {
    let t = unlimited_team().await;
    let said = |ts: &str, len: usize| json!({"type": "message", "user": "U1", "ts": ts, "text": "x".repeat(len)});
    let all = json!([
        said("1620000001.000100", 32 * 1024),
        said("1620000002.000100", 32 * 1024 + 1)
    ]);
    imported(&t.ada, &export(&[("general/2021-05-03.json", all)])).await;
    let stored: Vec<(usize, usize)> = messages(&t.ada, &t.general)
        .await
        .iter()
        .map(|m| (text(m, "/content").len(), list(m, "/attachments").len()))
        .collect();
    assert_eq!(stored, [(32 * 1024, 0), (32 * 1024, 1)]);
}

#[tokio::test]
async fn a_piece_that_is_too_large_is_refused_with_its_own_limit() {
    let t = unlimited_team().await;
    let import = created(&t.ada).await;
    let reply = put(&t.ada, &import, "bytes 0-16777216/16777217", b"x").await;
    assert_eq!(reply.status, 413);
    let expected = "a piece of an archive has at most 16777216 bytes";
    assert!(reply.text.contains(expected), "{}", reply.text);
}

#[tokio::test]
async fn a_folder_with_the_id_of_a_direct_channel_of_several_people_is_found() {
    let t = unlimited_team().await;
    let said = json!([{"type": "message", "user": "U1", "ts": "1620000300.000100", "text": "To all three"}]);
    let several = json!([channel("C9", "mpdm-una--bo--vibe-1", &["U1", "U2", "U3"])]);
    let archive = export(&[("mpims.json", several), ("C9/2021-05-03.json", said)]);
    let report = imported(&t.ada, &archive).await;
    sums(&report);
    let left_out = list(&report, "/left_out");
    assert!(
        left_out
            .iter()
            .all(|l| l["reason"] != "the channel is left out"),
        "{report}"
    );
}

#[tokio::test]
async fn an_export_of_slack_becomes_people_channels_and_threads() {
    let t = unlimited_team().await;
    confirm(&t, &t.bo, "bo@example.com").await;
    let report = imported(&t.ada, &export(&[])).await;
    sums(&report);
    let n = &report["kinds"];
    assert_eq!(
        n["people"],
        json!({"read": 3, "imported": 2, "existing": 1, "merged": 0, "left_out": 0})
    );
    assert_eq!(
        n["channels"],
        json!({"read": 4, "imported": 3, "existing": 1, "merged": 0, "left_out": 0})
    );
    assert_eq!(
        n["messages"],
        json!({"read": 15, "imported": 11, "existing": 0, "merged": 1, "left_out": 3})
    );
    assert_eq!(
        n["files"],
        json!({"read": 3, "imported": 1, "existing": 0, "merged": 0, "left_out": 2})
    );
    let problems = report["problems"].to_string();
    assert!(problems.contains("old-news/2021-05-04.json"), "{problems}");

    let said = said(&t.bo, &t.general).await;
    let of = |text: &str| {
        let found = said.iter().find(|(_, said)| said.contains(text));
        found
            .unwrap_or_else(|| panic!("no {text}: {said:?}"))
            .clone()
    };
    assert_eq!(of("welcome").0, "Una");
    assert!(of("welcome").1.contains("**welcome**"));
    assert_eq!(of("Thanks").0, t.bo.name);
    assert_eq!(of("(not in the export)").0, "Unknown (slack)");
    assert_eq!(of("Passed").0, "Build");
    assert_eq!(of("From nobody").0, "Unknown (slack)");
    assert_eq!(of("A guest").0, "Guest Star");
    assert!(
        of("See the files")
            .1
            .contains("[plan.pdf](<https://files.slack.com/F2>)")
    );
    let everything = format!("{said:?}");
    assert!(!everything.contains("xoxe"), "{everything}");

    let all = messages(&t.bo, &t.general).await;
    let message = |content: &str| with_content(&all, content);
    let root = message("welcome");
    assert_eq!(root["mentions"][0]["id"], t.bo.id.as_str());
    assert_eq!(root["created_at"], "2021-05-03T00:00:01.000Z");
    let emoji: Vec<&str> = root["reactions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| r["emoji"].as_str().unwrap())
        .collect();
    assert_eq!(emoji, ["👏🏻", ":party_parrot:"]);
    assert!(
        root["metadata"]["import_id"]
            .as_str()
            .unwrap()
            .starts_with("imp_")
    );
    assert_eq!(root["metadata"]["imported_from"], "slack");
    assert_eq!(message("Thanks")["edited_at"], "2021-05-03T00:00:03.000Z");
    let file = &message("See the files")["attachments"][0];
    assert_eq!(file["name"], "notes.txt");
    t.bo.get(&text(file, "/url")).await.ok_text("The notes");
    // Nothing is unread, no item, no task, and no event has a text.
    assert_eq!(t.bo.channel("general").await["unread_count"], 0);
    assert_eq!(t.app.place.count("tasks").await, 0);
    let items = t.bo.get("/v1/inbox").await.ok();
    assert_eq!(list(&items, "/data").len(), 0);
    let events = format!("{:?}", t.bo.events().await);
    assert!(!events.contains("welcome"), "{events}");
    let found = t.bo.get("/v1/search?q=welcome").await.ok();
    assert_eq!(list(&found, "/data").len(), 1);
}

#[tokio::test]
async fn what_was_private_is_read_only_by_its_members() {
    let t = unlimited_team().await;
    confirm(&t, &t.bo, "bo@example.com").await;
    imported(&t.ada, &export(&[])).await;
    for who in [&t.ada, &t.bo] {
        let names = format!("{:?}", who.get("/v1/channels").await.ok());
        assert!(!names.contains("secret"), "{names}");
        let found = who.get("/v1/search?q=hidden").await.ok();
        assert_eq!(list(&found, "/data").len(), 0);
    }
    let own = t.bo.get("/v1/search?q=between").await.ok();
    assert_eq!(list(&own, "/data").len(), 1);
    let others = t.ada.get("/v1/search?q=between").await.ok();
    assert_eq!(list(&others, "/data").len(), 0);
    // A private channel cannot be shown in an existing one.
    let import = ready(&t.ada, &export(&[])).await;
    let path = format!("/v1/imports/{import}");
    t.ada
        .patch(&path, json!({"channels": {"G1": t.general}}))
        .await
        .refused(422);
    t.ada
        .patch(&path, json!({"people": {"U1": t.bo.id}}))
        .await
        .ok();
    t.ada
        .patch(&path, json!({"people": {"U77": t.bo.id}}))
        .await
        .refused(422);
    for route in ["", "/preview", "/report"] {
        t.bo.get(&format!("{path}{route}")).await.refused(403);
    }
}

#[tokio::test]
async fn importing_again_changes_nothing_and_adds_what_is_new() {
    let t = unlimited_team().await;
    let first = imported(&t.ada, &export(&[])).await;
    let sql = "select count(*) from messages".to_owned();
    let before = t.app.place.numbers(std::slice::from_ref(&sql)).await;
    let again = imported(&t.ada, &export(&[])).await;
    sums(&again);
    assert_eq!(
        t.app.place.numbers(std::slice::from_ref(&sql)).await,
        before
    );
    for kind in ["people", "channels", "messages", "files"] {
        assert_eq!(again["kinds"][kind]["imported"], 0, "{kind}");
        let known =
            number(&first["kinds"][kind], "/imported") + number(&first["kinds"][kind], "/existing");
        assert_eq!(again["kinds"][kind]["existing"], known, "{kind}");
    }
    // A later export has the lost root.
    let root = json!([{"type": "message", "user": "U1", "ts": "1610000000.000100", "text": "The lost root"}]);
    let later = imported(&t.ada, &export(&[("general/2021-01-07.json", root)])).await;
    sums(&later);
    assert_eq!(t.app.place.numbers(&[sql]).await, before);
    let said = said(&t.ada, &t.general).await;
    assert!(
        said.contains(&("Una".to_owned(), "The lost root".to_owned())),
        "{said:?}"
    );
}

#[tokio::test]
async fn the_preview_stores_nothing_and_shows_choices() {
    let t = unlimited_team().await;
    confirm(&t, &t.bo, "bo@example.com").await;
    let counted = ["users", "channels", "messages"];
    let rows = async || {
        let mut rows = Vec::new();
        for table in counted {
            rows.push(t.app.place.count(table).await);
        }
        rows
    };
    let before = rows().await;
    let import = ready(&t.ada, &export(&[])).await;
    let path = format!("/v1/imports/{import}");
    t.ada
        .patch(
            &path,
            json!({"channels": {"C2": "leave_out"}, "people": {"U1": t.ada.id}}),
        )
        .await
        .ok();
    let preview = t.ada.get(&format!("{path}/preview")).await.ok();
    assert_eq!(preview["source"], "slack:T1");
    let n = &preview["counts"];
    assert_eq!((number(n, "/messages"), number(n, "/left_out")), (11, 4));
    assert_eq!(
        (
            number(n, "/files_here"),
            number(n, "/files_linked"),
            number(n, "/files_missing"),
            number(n, "/file_bytes")
        ),
        (1, 1, 1, 9)
    );
    assert!(number(&preview, "/bytes_needed") > number(n, "/text_bytes") + 9);
    assert!(number(&preview, "/bytes_free") > number(&preview, "/bytes_needed"));
    let becomes = |key: &str| {
        let all = list(&preview, "/channels");
        all.iter().find(|c| c["key"] == key).unwrap()["becomes"].clone()
    };
    assert_eq!(
        (becomes("C1"), becomes("C2"), becomes("G1")),
        (json!("joins"), json!("left_out"), json!("new"))
    );
    let people = list(&preview, "/people");
    let match_of = |key: &str| people.iter().find(|p| p["key"] == key).unwrap()["match_id"].clone();
    assert_eq!(
        (match_of("U1"), match_of("U2"), match_of("U3")),
        (json!(t.ada.id), json!(t.bo.id), Value::Null)
    );
    let members = list(&t.ada.get("/v1/members").await.ok(), "/data");
    for person in &people {
        let is_match = |m: &&Value| m["user_id"] == person["match_id"];
        let handle = members.iter().find(is_match).map(|m| m["handle"].clone());
        assert_eq!(person["handle"], json!(handle), "{person}");
    }
    assert_eq!(rows().await, before);
    t.ada.delete(&path).await.is(204);
    t.ada.get(&path).await.refused(404);
    assert_eq!(t.app.place.count("import_pieces").await, 0);
}

#[tokio::test]
async fn the_preview_names_the_channels_in_which_its_importer_was() {
    let t = unlimited_team().await;
    confirm(&t, &t.ada, "ada@source.example").await;
    let una = user("U1", "Una", None);
    let people = json!([una, user("U2", "Ada", Some("Ada@source.example"))]);
    let import = ready(&t.ada, &export(&[("users.json", people)])).await;
    let path = format!("/v1/imports/{import}/preview");
    let channels = list(&t.ada.get(&path).await.ok(), "/channels");
    let of = |key: &str| {
        let found = channels.iter().find(|channel| channel["key"] == key);
        found.unwrap()["is_member"].clone()
    };
    let shown = [of("C1"), of("D1"), of("C2"), of("G1")];
    assert_eq!(
        shown,
        [json!(true), json!(true), json!(false), json!(false)]
    );
}

#[tokio::test]
async fn a_byte_order_mark_and_invalid_bytes_lose_no_message() {
    let t = unlimited_team().await;
    let mut day = b"\xef\xbb\xbf".to_vec();
    let said_in_day = json!([
        {"type": "message", "user": "U1", "ts": "1620000001.000100", "text": "One caf#"},
        {"type": "message", "user": "U1", "ts": "1620000002.000100", "text": "Two"}]);
    let latin = bytes(&said_in_day).into_iter();
    day.extend(latin.map(|b| if b == b'#' { 0xe9 } else { b }));
    let archive = zipped(&[
        ("users.json", bytes(&json!([user("U1", "Una", None)]))),
        (
            "channels.json",
            bytes(&json!([channel("C1", "general", &["U1"])])),
        ),
        ("general/2021-05-03.json", day),
    ]);
    let report = imported(&t.ada, &archive).await;
    sums(&report);
    assert_eq!(report["problems"], json!([]));
    let found = said(&t.bo, &t.general).await;
    let texts: Vec<&str> = found.iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!(texts, ["One caf\u{fffd}", "Two"]);
}

#[tokio::test]
async fn pieces_arrive_in_order_and_other_archives_are_refused() {
    let t = unlimited_team().await;
    let archive = export(&[]);
    let total = archive.len();
    let import = created(&t.ada).await;
    put(
        &t.ada,
        &import,
        &format!("bytes 10-19/{total}"),
        &archive[10..20],
    )
    .await
    .refused(409);
    put(&t.ada, &import, "bytes 0-9", &archive[..10])
        .await
        .refused(400);
    put(
        &t.ada,
        &import,
        &format!("bytes 0-9/{total}"),
        &archive[..5],
    )
    .await
    .refused(400);
    put(
        &t.ada,
        &import,
        &format!("bytes 0-9/{}", 9_u64 << 30),
        &archive[..10],
    )
    .await
    .refused(413);
    for _ in 0..2 {
        let sent = put(
            &t.ada,
            &import,
            &format!("bytes 0-9/{total}"),
            &archive[..10],
        )
        .await
        .ok();
        assert_eq!(sent["received"], 10);
    }
    t.ada
        .act(&format!("/v1/imports/{import}/start"))
        .await
        .refused(409);
    put(
        &t.bo,
        &import,
        &format!("bytes 10-19/{total}"),
        &archive[10..20],
    )
    .await
    .refused(403);
    for (bad, cause) in [
        (b"no zip at all".to_vec(), "not a zip"),
        (
            zipped(&[("readme.txt", b"hello".to_vec())]),
            "no channels.json",
        ),
    ] {
        let import = created(&t.ada).await;
        let refused = upload(&t.ada, &import, &bad).await;
        assert_eq!(refused.status, 422);
        assert!(
            refused.text.contains("unknown_archive") && refused.text.contains(cause),
            "{}",
            refused.text
        );
        let import = t.ada.get(&format!("/v1/imports/{import}")).await.ok();
        assert_eq!(import["state"], "failed");
    }
}

#[tokio::test]
async fn the_command_imports_an_archive() {
    let t = unlimited_team().await;
    let (robot, _) = t.ada.make_key(&["workspace:admin"]).await;
    let key = robot.key.unwrap();
    let file = std::env::temp_dir().join(format!("{}.zip", created(&t.ada).await));
    std::fs::write(&file, export(&[("old-news/2021-05-04.json", json!([]))])).unwrap();
    let run = async |more: &[&str]| -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_openvibe"));
        command
            .env_clear()
            .arg("import")
            .arg(&file)
            .args(["--url", &t.app.base, "--key", &key])
            .args(more);
        let running = move || command.output().unwrap();
        openvibe::blocking::blocking((), running).await.unwrap()
    };
    let shown = run(&["--dry-run"]).await;
    let printed = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(
        shown.status.success() && printed.contains("11 messages"),
        "{shown:?}"
    );
    assert_eq!(
        t.app
            .place
            .numbers(&["select count(*) from messages".to_owned()])
            .await,
        [0]
    );
    let elsewhere = run(&["--yes", "--workspace", "elsewhere"]).await;
    let problem = String::from_utf8_lossy(&elsewhere.stderr).into_owned();
    assert!(problem.contains("not one of the workspace elsewhere"));
    assert_eq!(elsewhere.status.code(), Some(1), "{problem}");
    let workspace = t.ada.workspace.as_str();
    let done = run(&["--yes", "--workspace", workspace]).await;
    let printed = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(
        done.status.success() && printed.contains("11 imported"),
        "{done:?}"
    );
    std::fs::remove_file(&file).unwrap();
}

#[tokio::test]
async fn the_command_continues_only_an_import_of_the_same_archive() {
    let t = unlimited_team().await;
    let (robot, _) = t.ada.make_key(&["workspace:admin"]).await;
    let key = robot.key.unwrap();
    let archive = export(&[("old-news/2021-05-04.json", json!([]))]);
    // Another archive of the same size, and this one, of which a part was sent.
    let begun = async |digest: String| {
        let form = json!({"digest": digest});
        let import = id(&t.ada.post("/v1/imports", form).await.is(201));
        let range = format!("bytes 0-99/{}", archive.len());
        put(&t.ada, &import, &range, &archive[..100]).await.is(200);
        import
    };
    let other = begun("0".repeat(64)).await;
    let same = begun(hex::encode(Sha256::digest(&archive))).await;
    let form = json!({"digest": "F00"});
    let refused = t.ada.post("/v1/imports", form).await.refused(422);
    assert_eq!(refused, "invalid_value");
    let file = std::env::temp_dir().join(format!("{same}.zip"));
    std::fs::write(&file, &archive).unwrap();
    let run = async |more: &str| -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_openvibe"));
        command.env_clear().arg("import").arg(&file).args([
            "--url",
            &t.app.base,
            "--key",
            &key,
            more,
        ]);
        let running = move || command.output().unwrap();
        openvibe::blocking::blocking((), running).await.unwrap()
    };
    let state_of = async |import: &str| {
        let import = t.ada.get(&format!("/v1/imports/{import}")).await.ok();
        text(&import, "/state")
    };
    // A dry run keeps the upload.
    let shown = run("--dry-run").await;
    assert!(shown.status.success(), "{shown:?}");
    assert_eq!(state_of(&same).await, "ready");
    let done = run("--yes").await;
    let printed = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(
        done.status.success() && printed.contains("11 imported"),
        "{done:?}"
    );
    assert_eq!(state_of(&same).await, "done");
    assert_eq!(state_of(&other).await, "receiving");
    assert_eq!(t.app.place.count("imports").await, 2);
    std::fs::remove_file(&file).unwrap();
}

#[tokio::test]
async fn the_preview_shows_channels_of_an_earlier_import() {
    let t = unlimited_team().await;
    imported(&t.ada, &export(&[])).await;
    let import = ready(&t.ada, &export(&[])).await;
    let preview = t
        .ada
        .get(&format!("/v1/imports/{import}/preview"))
        .await
        .ok();
    for channel in list(&preview, "/channels") {
        assert_eq!(channel["becomes"], "joins", "{channel}");
        let is_public = channel["kind"] == "public";
        assert_eq!(channel["channel_id"].is_string(), is_public, "{channel}");
    }
    for person in list(&preview, "/people") {
        assert!(person["handle"].is_string(), "{person}");
    }
}
