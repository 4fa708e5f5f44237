//! `openvibe backup` and `openvibe restore`: the target has exactly the same data, or nothing at all.

use std::{
    collections::BTreeMap,
    io::{Read, Write},
    path::{Path, PathBuf},
    process::Output,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use openvibe::db::{
    self,
    dump::{self, Dump, Kind, Load},
};
use openvibe_sqlite::SqliteConnection;
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Connection, PgConnection, Row};
use tokio::task::JoinSet;

use crate::support::{
    Answer, Gate, ModelServer, Person, Socket, TestDatabase, TestProcess, command, id, list,
    number, sign_up, text, within,
};

/// A server with a filled workspace, and the location of its data.
struct Filled {
    place: TestDatabase,
    model: ModelServer,
    server: Option<TestProcess>,
    ada: Person,
    thread: String,
    file: Value,
}

const OFF: [(&str, &str); 1] = [("RATE_LIMITS", "off")];

async fn filled_in(place: TestDatabase) -> Filled {
    let model = ModelServer::start().await;
    let server = TestProcess::start(&place, &model, &OFF).await;
    let mut ada = sign_up(&server.base, "Ada", None).await;
    let workspace = ada
        .post("/v1/workspaces", json!({"name": "Acmé 🚀"}))
        .await
        .is(201);
    ada.enter(&id(&workspace)).await;
    let general = id(&ada.channel("general").await);
    let started = ada
        .start(&general, "Friday or Monday? «quoted» \\ \"x\"\nnext\tline")
        .await;
    let (thread, root) = (text(&started, "/thread/id"), text(&started, "/message/id"));
    let task = ada.ask(&thread, "@vibe what speaks for Monday?").await;
    ada.completed(&task).await;
    let file = ada.upload("plan.txt", &b"words ".repeat(300_000)).await;
    let form = json!({"content": "Here", "attachments": [id(&file)]});
    ada.post(&format!("/v1/threads/{thread}/messages"), form)
        .await
        .is(201);
    ada.upload("loose.txt", b"in no message").await;
    ada.upload("empty.txt", b"").await;
    ada.put(&format!("/v1/messages/{root}/reactions/👍"), json!({}))
        .await
        .is(200);
    let fork = id(&ada
        .start_fork(&thread, &root, json!({"agent_id": null}))
        .await);
    ada.say_in(&fork, "Monday suits everybody.").await;
    let content = json!({"headline": "Monday", "action_items": [{"text": "Book the room"}]});
    ada.publish_as(&fork, content).await;
    let gone = ada.tell(&thread, "Gone").await;
    ada.delete(&format!("/v1/messages/{gone}")).await.is(200);
    ada.make_key(&["chat:read"]).await;
    ada.make_agent("scout").await;
    let tool = json!({"kind": "function", "name": "weather", "config": {"strict": true}});
    ada.post("/v1/tools", tool).await.is(201);
    within("the three files to be read", async {
        let announced = ["select count(*) from events where type = 'file.updated'".to_owned()];
        while place.numbers(&announced).await != [3] {
            crate::support::pause().await;
        }
    })
    .await;
    Filled {
        place,
        model,
        server: Some(server),
        ada,
        thread,
        file,
    }
}

async fn filled() -> Filled {
    filled_in(TestDatabase::new().await).await
}

async fn run(place: &TestDatabase, model: &ModelServer, arguments: &[&str]) -> Output {
    let mut command = command(place, model, &[]);
    command.args(arguments);
    openvibe::blocking::blocking((), move || command.output())
        .await
        .unwrap()
        .unwrap()
}

/// Ends a server, whose jobs change rows at any time: they store their positions, and announce that a file was read.
async fn end(server: TestProcess) {
    server.terminate();
    assert!(server.exited().await.success());
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn complaint(output: &Output) -> String {
    assert!(!output.status.success(), "{}", said(output));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

impl Filled {
    /// Makes a backup and returns its path.
    async fn back_up(&self) -> PathBuf {
        let file = self.place.dir.join("backup.ovb");
        let arguments = ["backup", file.to_str().unwrap(), "--force"];
        let output = run(&self.place, &self.model, &arguments).await;
        assert!(output.status.success(), "{output:?}");
        file
    }

    async fn stop(&mut self) {
        self.server.take().unwrap().kill().await;
    }

    /// Ends the server with all its work, for tests that compare its rows with those of a backup.
    async fn end(&mut self) {
        self.place.settled().await;
        end(self.server.take().unwrap()).await;
    }

    async fn restore_to(&self, place: &TestDatabase, file: &Path) -> Output {
        run(place, &self.model, &["restore", file.to_str().unwrap()]).await
    }
}

fn is_compared(table: &str) -> bool {
    ![
        "sqlite_",
        "_sqlx",
        "search_",
        "document",
        "passage",
        "jobs",
        "login_attempts",
        "nodes",
        "presence",
        "probes",
        "revocations",
    ]
    .iter()
    .any(|begin| table.starts_with(begin))
}

/// Checks for a row of `meta` that a restore leaves out, because the server writes it again, or adds.
fn is_regenerated(row: &str) -> bool {
    [
        "epoch",
        "search",
        "synchronous_standbys",
        "cluster",
        "asleep",
    ]
    .iter()
    .any(|key| row.contains(key))
}

/// All rows of all tables in the engine's text format, except for values that a restore regenerates.
async fn rows_of(place: &TestDatabase) -> BTreeMap<String, Vec<String>> {
    let mut all = BTreeMap::new();
    if let Some(url) = &place.postgres {
        let mut c = PgConnection::connect(url).await.unwrap();
        let tables: Vec<String> =
            sqlx::query_scalar("select tablename::text from pg_tables where schemaname = 'public'")
                .fetch_all(&mut c)
                .await
                .unwrap();
        for table in tables.into_iter().filter(|table| is_compared(table)) {
            // A backup does not contain the upload time of a chunk.
            let row = match table.as_str() {
                "blob_chunks" => "(t.upload_id, t.n, t.bytes)",
                _ => "t",
            };
            let sql = format!("select {row}::text from {table} t order by 1");
            let rows = sqlx::query_scalar(AssertSqlSafe(sql))
                .fetch_all(&mut c)
                .await;
            all.insert(table, rows.unwrap());
        }
    } else {
        let url = format!("sqlite://{}", place.dir.join("data/openvibe.db").display());
        let mut c = SqliteConnection::connect(&url).await.unwrap();
        let tables: Vec<String> =
            sqlx::query_scalar("select name from sqlite_master where type = 'table'")
                .fetch_all(&mut c)
                .await
                .unwrap();
        for table in tables.into_iter().filter(|table| is_compared(table)) {
            let sql = format!("select name from pragma_table_info('{table}') order by cid");
            let columns: Vec<String> = sqlx::query_scalar(AssertSqlSafe(sql))
                .fetch_all(&mut c)
                .await
                .unwrap();
            let columns: Vec<String> = columns.iter().map(|c| format!("quote(\"{c}\")")).collect();
            let sql = format!(
                "select {} as line from \"{table}\" order by 1",
                columns.join(" || '|' || ")
            );
            let rows = sqlx::query(AssertSqlSafe(sql))
                .fetch_all(&mut c)
                .await
                .unwrap();
            let rows = rows.iter().map(|row| row.get("line")).collect();
            all.insert(table, rows);
        }
    }
    let meta = all.get_mut("meta").unwrap();
    meta.retain(|line: &String| !is_regenerated(line));
    all
}

fn url_of(place: &TestDatabase) -> db::DatabaseUrl {
    match &place.postgres {
        Some(url) => db::DatabaseUrl::Postgres(url.clone()),
        None => db::DatabaseUrl::Sqlite(place.dir.join("data/openvibe.db")),
    }
}

/// All rows in a format that is comparable across engines: values by kind, and JSON regardless of key order.
async fn values_of(place: &TestDatabase) -> BTreeMap<String, Vec<String>> {
    let mut dump = Dump::open(&url_of(place)).await.unwrap();
    let mut all = BTreeMap::new();
    for mut table in dump.tables().await.unwrap() {
        // Each engine stores uploads in a different place.
        table
            .columns
            .retain(|column| (table.name.as_str(), column.name.as_str()) != ("blobs", "store"));
        table.columns.sort_by(|a, b| a.name.cmp(&b.name));
        let mut rows: Vec<String> = Vec::new();
        dump.each_row(&table, |line| {
            let mut values: Vec<Value> = serde_json::from_str(&line).unwrap();
            for (value, column) in values.iter_mut().zip(&table.columns) {
                if let (Kind::Json, Some(text)) = (column.kind, value.as_str()) {
                    *value = serde_json::from_str(text).unwrap();
                }
            }
            let line = json!(values).to_string();
            if table.name != "meta" || !is_regenerated(&line) {
                rows.push(line);
            }
            Ok::<_, db::DbError>(())
        })
        .await
        .unwrap();
        rows.sort();
        all.insert(table.name, rows);
    }
    all
}

#[tokio::test]
async fn a_restored_server_has_every_row_and_continues() {
    let mut f = filled().await;
    let mut socket = f.ada.socket().await;
    socket.settle().await;
    let (cursor, epoch) = (socket.cursor, socket.epoch());
    f.end().await;
    let file = f.back_up().await;
    let original = rows_of(&f.place).await;
    let other = TestDatabase::new().await;
    let output = f.restore_to(&other, &file).await;
    assert!(output.status.success(), "{output:?}");
    let restored = rows_of(&other).await;
    assert_eq!(
        original.keys().collect::<Vec<_>>(),
        restored.keys().collect::<Vec<_>>()
    );
    for (table, rows) in &original {
        assert_eq!(rows, &restored[table], "{table}");
        if table != "meta" && table != "blob_chunks" && !rows.is_empty() {
            let told = format!("{:>10} {table}\n", rows.len());
            assert!(said(&output).contains(&told), "{told} in {}", said(&output));
        }
    }
    assert!(original["messages"].len() > 5 && original["files"].len() == 3);
    let server = TestProcess::start(&other, &f.model, &OFF).await;
    // Sessions are kept; the epoch changes.
    let ada = f.ada.at(&server.base);
    let again = Socket::read_hello(&ada, json!({"since": cursor, "epoch": epoch})).await;
    assert_eq!(
        (&again.ready["resync"], &again.ready["resumed"]),
        (&json!(true), &json!(false))
    );
    assert_ne!(again.epoch(), epoch);
    let file = ada.get(&text(&f.file, "/url")).await;
    assert_eq!((file.status, file.text.len()), (200, 1_800_000));
    let found = ada.get("/v1/search?q=friday").await.ok();
    assert_eq!(list(&found, "/data").len(), 1, "{found}");
    let task = ada.ask(&f.thread, "@vibe and now?").await;
    ada.completed(&task).await;
}

#[tokio::test]
async fn a_backup_under_load_is_a_consistent_snapshot() {
    let mut f = filled().await;
    let stop = Arc::new(AtomicBool::new(false));
    let mut posters = JoinSet::new();
    for who in 0..4_usize {
        let (ada, thread, stop) = (f.ada.clone(), f.thread.clone(), Arc::clone(&stop));
        posters.spawn(async move {
            let mut n = 0_u32;
            while !stop.load(Ordering::Relaxed) {
                ada.tell(&thread, &format!("{who}-{n}")).await;
                n += 1;
            }
            (who, n)
        });
    }
    let mut seen = f.ada.socket().await;
    let mut before = Vec::new();
    while before.len() < 20 {
        let event = seen.of("message.created").await;
        before.push(text(&event, "/data/message/id"));
    }
    let file = f.back_up().await;
    stop.store(true, Ordering::Relaxed);
    let posted = posters.join_all().await;
    let other = TestDatabase::new().await;
    let output = f.restore_to(&other, &file).await;
    assert!(output.status.success(), "{output:?}");
    f.stop().await;
    let server = TestProcess::start(&other, &f.model, &OFF).await;
    let ada = f.ada.at(&server.base);
    let seqs: Vec<i64> = ada
        .events()
        .await
        .iter()
        .map(|e| number(e, "/seq"))
        .collect();
    let head = number(&ada.get("/v1/snapshot").await.ok(), "/seq");
    assert_eq!(seqs, (1..=head).collect::<Vec<_>>(), "no number is missing");
    let mut contents = Vec::new();
    let mut cursor = String::new();
    loop {
        let path = format!("/v1/threads/{}/messages?limit=100{cursor}", f.thread);
        let page = ada.get(&path).await.ok();
        let messages = list(&page, "/data");
        contents.extend(messages.iter().map(|m| (id(m), text(m, "/content"))));
        if page["has_more"] == false {
            break;
        }
        cursor = format!("&before={}", id(&messages[0]));
    }
    for message in before {
        assert!(contents.iter().any(|(id, _)| *id == message), "{message}");
    }
    for (who, posted) in &posted {
        let mine = |n: u32| {
            let wanted = format!("{who}-{n}");
            contents.iter().any(|(_, text)| *text == wanted)
        };
        let there = (0..*posted).take_while(|n| mine(*n)).count();
        let rest = (0..*posted).skip(there).filter(|n| mine(*n)).count();
        assert_eq!(rest, 0, "later messages exist and earlier ones are missing");
    }
}

#[tokio::test]
async fn a_task_that_was_running_runs_again_after_a_restore() {
    let mut f = filled().await;
    let gate = Gate::new();
    f.model.script(
        "vibe",
        [
            Answer::stream().piece("HALF").wait(&gate),
            Answer::text("Whole."),
        ],
    );
    let task = f.ada.ask(&f.thread, "@vibe again").await;
    f.ada
        .event_where("the reply to begin", |e| {
            e["data"]["message"]["state"] == "streaming"
        })
        .await;
    let file = f.back_up().await;
    f.stop().await;
    let other = TestDatabase::new().await;
    let arguments = ["restore", file.to_str().unwrap(), "--awake"];
    assert!(run(&other, &f.model, &arguments).await.status.success());
    let server = TestProcess::start(&other, &f.model, &OFF).await;
    let ada = f.ada.at(&server.base);
    ada.completed(&task).await;
    assert_eq!(ada.contents(&f.thread).await.pop().unwrap(), "Whole.");
}

#[tokio::test]
async fn a_restored_copy_sleeps_until_somebody_starts_it() {
    for by_admin in [false, true] {
        let mut f = filled().await;
        let gate = Gate::new();
        f.model.script(
            "vibe",
            [
                Answer::stream().piece("HALF").wait(&gate),
                Answer::text("New."),
                Answer::text("Whole."),
            ],
        );
        let task = f.ada.ask(&f.thread, "@vibe again").await;
        gate.reached().await;
        let file = f.back_up().await;
        f.stop().await;
        let other = TestDatabase::new().await;
        let output = f.restore_to(&other, &file).await;
        let last = said(&output).lines().last().unwrap().to_owned();
        assert!(last.contains("wait for `openvibe resume`"), "{last}");
        let server = TestProcess::start(&other, &f.model, &OFF).await;
        let ada = f.ada.at(&server.base);
        let snapshot = ada.get("/v1/snapshot").await.ok();
        assert_eq!(snapshot["agents_state"], "asleep");
        // A new mention is answered, also in the same conversation, and then the old task still sleeps.
        let new = ada.ask(&f.thread, "@vibe something else").await;
        ada.completed(&new).await;
        let slept = ada.get(&format!("/v1/tasks/{task}")).await.ok();
        assert_eq!(
            (&slept["status"], &slept["wait_reason"]),
            (&json!("queued"), &json!("asleep"))
        );
        if by_admin {
            let resumed = ada.post("/v1/server/resume", json!({})).await.is(200);
            assert_eq!(resumed["tasks"], 1);
        } else {
            let output = run(&other, &f.model, &["resume"]).await;
            assert!(
                said(&output).contains("1 interrupted tasks continue"),
                "{output:?}"
            );
        }
        ada.completed(&task).await;
        let snapshot = ada.get("/v1/snapshot").await.ok();
        assert_eq!(snapshot["agents_state"], "running");
        let again = ada.post("/v1/server/resume", json!({})).await.is(200);
        assert_eq!(again["tasks"], 0);
    }
}

#[tokio::test]
async fn a_backup_moves_data_between_engines() {
    let mut f = filled_in(TestDatabase::on_disk()).await;
    if TestDatabase::new().await.postgres.is_none() {
        // Without PostgreSQL, only one engine is available.
        return;
    }
    f.end().await;
    let file = f.back_up().await;
    let original = values_of(&f.place).await;
    let server = TestDatabase::new().await;
    let output = f.restore_to(&server, &file).await;
    assert!(output.status.success(), "{output:?}");
    assert_eq!(values_of(&server).await, original);
    let stores = "select distinct store from blobs";
    assert_eq!(f.place.texts(stores).await, ["file"]);
    assert_eq!(server.texts(stores).await, ["db"]);
    let process = TestProcess::start(&server, &f.model, &OFF).await;
    let ada = f.ada.at(&process.base);
    let served = ada.get(&text(&f.file, "/url")).await;
    assert_eq!((served.status, served.text.len()), (200, 1_800_000));
    ada.tell(&f.thread, "On the other engine").await;
    // The restored files are read again in the background, some seconds after the start.
    end(process).await;
    let file = server.dir.join("back.ovb");
    let arguments = ["backup", file.to_str().unwrap()];
    assert!(run(&server, &f.model, &arguments).await.status.success());
    let changed = values_of(&server).await;
    let back = TestDatabase::on_disk();
    let output = f.restore_to(&back, &file).await;
    assert!(output.status.success(), "{output:?}");
    assert_eq!(values_of(&back).await, changed);
    assert_eq!(back.texts(stores).await, ["file"]);
    let process = TestProcess::start(&back, &f.model, &OFF).await;
    let ada = f.ada.at(&process.base);
    assert_eq!(
        ada.contents(&f.thread).await.pop().unwrap(),
        "On the other engine"
    );
    let served = ada.get(&text(&f.file, "/url")).await;
    assert_eq!((served.status, served.text.len()), (200, 1_800_000));
}

/// Decompresses a file; returns an error if it is damaged.
fn unpacked(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut content = Vec::new();
    flate2::read::GzDecoder::new(bytes).read_to_end(&mut content)?;
    Ok(content)
}

/// Entries of a backup.
fn entries(file: &Path) -> Vec<(String, Vec<u8>)> {
    let gzip = flate2::read::GzDecoder::new(std::fs::File::open(file).unwrap());
    let mut all = Vec::new();
    for entry in tar::Archive::new(gzip).entries().unwrap() {
        let mut entry = entry.unwrap();
        let name = entry.path().unwrap().to_str().unwrap().to_owned();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).unwrap();
        all.push((name, bytes));
    }
    all
}

fn write_entries(file: &Path, entries: &[(String, Vec<u8>)]) {
    let out = std::fs::File::create(file).unwrap();
    let mut tar = tar::Builder::new(flate2::write::GzEncoder::new(
        out,
        flate2::Compression::fast(),
    ));
    for (name, bytes) in entries {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_cksum();
        tar.append_data(&mut header, name, bytes.as_slice())
            .unwrap();
    }
    tar.into_inner().unwrap().finish().unwrap().flush().unwrap();
}

#[tokio::test]
async fn an_incomplete_file_is_rejected_and_changes_nothing() {
    let f = filled().await;
    let file = f.back_up().await;
    let whole = std::fs::read(&file).unwrap();
    let parts = entries(&file);
    let other = TestDatabase::new().await;
    let damaged = f.place.dir.join("damaged.ovb");
    let refuse = async |what: &str, expected: &str| {
        let complaint = complaint(&f.restore_to(&other, &damaged).await);
        assert!(complaint.contains(expected), "{what}: {complaint}");
        assert!(!other.dir.join("data").exists(), "{what}");
    };
    for cut in [11, whole.len() / 3, whole.len() - 9, whole.len() - 1] {
        std::fs::write(&damaged, &whole[..cut]).unwrap();
        refuse(&format!("cut at {cut}"), "backup").await;
    }
    let content = unpacked(&whole).unwrap();
    let mut changes = 0;
    for n in 1..20 {
        let at = whole.len() * n / 20;
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        // In compressed data, a changed byte can make a back-reference point to another copy of the same text.
        if unpacked(&bytes).is_ok_and(|same| same == content) {
            continue;
        }
        changes += 1;
        std::fs::write(&damaged, bytes).unwrap();
        refuse(&format!("changed at {at}"), "backup").await;
    }
    assert!(changes >= 10, "{changes}");
    for (what, bytes) in [
        ("nothing", Vec::new()),
        ("a text", b"Hello, this is no backup at all.".to_vec()),
        ("something else", entries_of_another()),
    ] {
        std::fs::write(&damaged, bytes).unwrap();
        refuse(what, "not an OpenVibe backup").await;
    }
    std::fs::write(&damaged, [whole.as_slice(), b"more"].concat()).unwrap();
    refuse("more at the end", "damaged").await;
    for left_out in [1, parts.len() / 2, parts.len() - 1] {
        let mut some = parts.clone();
        let (name, _) = some.remove(left_out);
        write_entries(&damaged, &some);
        refuse(&format!("without {name}"), "damaged").await;
    }
    let mut some = parts.clone();
    let users = some
        .iter_mut()
        .find(|(name, _)| name.starts_with("tables/users/"));
    let (_, bytes) = users.unwrap();
    bytes[3] ^= 1;
    write_entries(&damaged, &some);
    refuse("a changed row", "was changed").await;
    for (field, value) in [
        ("format_version", json!(2)),
        ("migration", json!(99_991_231_000_000_i64)),
    ] {
        let mut some = parts.clone();
        let mut manifest: Value = serde_json::from_slice(&some[0].1).unwrap();
        manifest[field] = value;
        manifest["program_version"] = "9.9.9".into();
        some[0].1 = manifest.to_string().into_bytes();
        write_entries(&damaged, &some);
        refuse(field, "created by OpenVibe 9.9.9").await;
    }
    std::fs::remove_file(&damaged).unwrap();
    refuse("no file", "cannot be read").await;
    assert!(f.restore_to(&other, &file).await.status.success());
}

/// A gzip file that is not an archive.
fn entries_of_another() -> Vec<u8> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(b"Hello, this is no backup at all.").unwrap();
    gzip.finish().unwrap()
}

#[tokio::test]
async fn a_database_that_contains_data_is_not_overwritten() {
    let mut f = filled().await;
    let file = f.back_up().await;
    let refused = complaint(&f.restore_to(&f.place, &file).await);
    assert!(refused.contains("in use"), "{refused}");
    f.end().await;
    let file = f.back_up().await;
    let before = rows_of(&f.place).await;
    let refused = complaint(&f.restore_to(&f.place, &file).await);
    assert!(refused.contains("empty"), "{refused}");
    assert_eq!(rows_of(&f.place).await, before);
    // A database that was migrated but contains no data counts as empty.
    if f.place.postgres.is_some() {
        let other = TestDatabase::new().await;
        assert!(run(&other, &f.model, &["migrate"]).await.status.success());
        let output = f.restore_to(&other, &file).await;
        assert!(output.status.success(), "{output:?}");
        assert_eq!(rows_of(&other).await, before);
    }
}

#[tokio::test]
async fn an_existing_file_is_replaced_only_on_request() {
    let mut f = filled().await;
    let file = f.place.dir.join("kept.ovb");
    std::fs::write(&file, "precious").unwrap();
    let name = file.to_str().unwrap();
    let refused = complaint(&run(&f.place, &f.model, &["backup", name]).await);
    assert!(refused.contains("--force"), "{refused}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "precious");
    let output = run(&f.place, &f.model, &["backup", name, "--force"]).await;
    assert!(said(&output).starts_with("backed up "), "{output:?}");
    assert!(!f.place.dir.join("kept.ovb.tmp").exists());
    // The same backup can be written to standard output.
    f.end().await;
    let output = run(&f.place, &f.model, &["backup", "-"]).await;
    let piped = f.place.dir.join("piped.ovb");
    std::fs::write(&piped, &output.stdout).unwrap();
    let other = TestDatabase::new().await;
    assert!(f.restore_to(&other, &piped).await.status.success());
    assert_eq!(rows_of(&other).await, rows_of(&f.place).await);
}

#[tokio::test]
async fn a_backup_of_a_missing_database_is_rejected() {
    let (place, model) = (TestDatabase::new().await, ModelServer::start().await);
    let file = place.dir.join("none.ovb");
    let output = run(&place, &model, &["backup", file.to_str().unwrap()]).await;
    let refused = complaint(&output);
    assert!(
        refused.contains("no database") || refused.contains("not an OpenVibe database"),
        "{refused}"
    );
    assert!(!file.exists() && !place.dir.join("none.ovb.tmp").exists());
}

/// Creates an empty database with the migrations up to this version.
async fn make_empty(place: &TestDatabase, version: i64) {
    let load = if let Some(url) = &place.postgres {
        Load::into_postgres(url, version).await
    } else {
        let dir = place.dir.join("data");
        std::fs::create_dir_all(&dir).unwrap();
        Load::into_file(&dir.join("openvibe.db"), version).await
    };
    load.unwrap().finish("0123").await.unwrap();
}

#[tokio::test]
async fn a_backup_of_an_earlier_version_is_migrated() {
    let (place, model) = (TestDatabase::new().await, ModelServer::start().await);
    make_empty(&place, dump::newest_version() - 1).await;
    let file = place.dir.join("old.ovb");
    let output = run(&place, &model, &["backup", file.to_str().unwrap()]).await;
    assert!(output.status.success(), "{output:?}");
    let other = TestDatabase::new().await;
    let output = run(&other, &model, &["restore", file.to_str().unwrap()]).await;
    assert!(output.status.success(), "{output:?}");
    let output = run(&place, &model, &["migrate"]).await;
    assert!(output.status.success(), "{output:?}");
    assert_eq!(values_of(&other).await, values_of(&place).await);
    TestProcess::start(&other, &model, &[]).await.kill().await;
    assert_eq!(
        Dump::open(&url_of(&other))
            .await
            .unwrap()
            .version()
            .await
            .unwrap(),
        dump::newest_version()
    );
}

#[tokio::test]
async fn a_restore_can_leave_out_sessions_and_keys() {
    let mut f = filled().await;
    let (key, _) = f.ada.make_key(&["chat:read"]).await;
    let file = f.back_up().await;
    f.stop().await;
    let file = file.to_str().unwrap();
    let other = TestDatabase::new().await;
    let arguments = ["restore", file, "--end-sessions", "--revoke-keys"];
    let output = run(&other, &f.model, &arguments).await;
    assert!(output.status.success(), "{output:?}");
    let text = said(&output);
    assert!(text.contains("sessions were not restored"), "{text}");
    assert!(text.contains("API keys were not restored"), "{text}");
    let server = TestProcess::start(&other, &f.model, &OFF).await;
    let ada = f.ada.at(&server.base);
    ada.get("/v1/auth/me").await.refused(401);
    key.at(&server.base).get("/v1/auth/me").await.refused(401);
    // The backup contains the password.
    ada.log_in().await.get("/v1/auth/me").await.is(200);
    server.kill().await;
}
