//! Import of a million messages, compared with the engine alone for the same texts; the same archive again, the export of what was imported,
//! and the undoing; and reads and posts beside them.

use std::{
    fs::{self, File},
    io::{BufWriter, Write},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use zip::{ZipWriter, write::SimpleFileOptions};

use crate::{
    client::{Http, Team, text},
    engine::Engine,
    process::{self, Server},
    report::{Table, float, median, ms, percentile, say, us},
    words::Words,
};

const MESSAGES: usize = 1_000_000;
const PEOPLE: usize = 50;
const CHANNELS: usize = 20;
/// Messages of a channel on a day.
const PER_DAY: usize = 500;
/// Messages of a thread.
const PER_THREAD: usize = 10;
/// Time of the first message.
const FIRST_S: usize = 1_600_000_000;
const DAY_S: usize = 24 * 60 * 60;
/// Messages per transaction of the engine alone.
const PER_TRANSACTION: usize = 500;
const POSTS: usize = 1000;
const READS: usize = 200;
const POLL: Duration = Duration::from_millis(100);
const ARCHIVE: &str = "slack.zip";

/// Directory with the archive, deleted on drop.
struct Folder(PathBuf);

impl Folder {
    fn new() -> anyhow::Result<Self> {
        let name = format!("imports-{}", uuid::Uuid::now_v7().simple());
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // If this fails, files are left in the build directory.
        drop(fs::remove_dir_all(&self.0));
    }
}

/// Adds an entry with JSON.
fn add(zip: &mut ZipWriter<BufWriter<File>>, name: &str, value: &Value) -> anyhow::Result<()> {
    zip.start_file(name, SimpleFileOptions::default())?;
    zip.write_all(value.to_string().as_bytes())?;
    Ok(())
}

/// Writes an export of Slack with these texts.
fn write_archive(path: &Path, texts: &[String]) -> anyhow::Result<()> {
    let mut zip = ZipWriter::new(BufWriter::new(File::create(path)?));
    let people = (0..PEOPLE).map(|n| {
        json!({"id": format!("U{n}"), "team_id": "T1", "name": format!("person{n}"), "profile": {"real_name": format!("Person {n}")}})
    });
    add(&mut zip, "users.json", &people.collect())?;
    let members: Vec<String> = (0..PEOPLE).map(|n| format!("U{n}")).collect();
    let channels = (0..CHANNELS).map(|n| {
        json!({"id": format!("C{n}"), "name": format!("topic-{n}"), "created": FIRST_S, "creator": "U0", "members": members})
    });
    add(&mut zip, "channels.json", &channels.collect())?;
    for (n, texts) in texts.chunks(PER_DAY).enumerate() {
        let (channel, start) = (n % CHANNELS, FIRST_S + n / CHANNELS * DAY_S);
        let ts = |at: usize| format!("{}.{channel:06}", start + at);
        let said = texts.iter().enumerate().map(|(at, text)| {
            json!({"type": "message", "user": format!("U{}", at % PEOPLE), "ts": ts(at), "text": text,
                "thread_ts": ts(at - at % PER_THREAD)})
        });
        let name = format!("topic-{channel}/{}.json", day(start));
        add(&mut zip, &name, &said.collect())?;
    }
    zip.finish()?;
    Ok(())
}

/// Date of a time in seconds.
fn day(at_s: usize) -> String {
    let at = i64::try_from(at_s).unwrap_or_default();
    let at = chrono::DateTime::from_timestamp(at, 0).unwrap_or_default();
    at.format("%Y-%m-%d").to_string()
}

/// Time and server CPU time of some work.
#[derive(Clone, Copy)]
struct Cost {
    time: Duration,
    cpu: Duration,
}

impl Cost {
    /// CPU time per message in µs.
    fn each(self) -> f64 {
        us(self.cpu) / float(MESSAGES)
    }

    fn per_second(self) -> f64 {
        float(MESSAGES) / self.time.as_secs_f64()
    }

    fn of(self, other: Self) -> String {
        format!("{:.2}", self.time.as_secs_f64() / other.time.as_secs_f64())
    }
}

/// Waits for a state of an import or export.
async fn wait(http: &mut Http, path: &str, wanted: &str) -> anyhow::Result<()> {
    loop {
        let found = http.get(path).await?;
        if found["state"] == wanted {
            return Ok(());
        }
        anyhow::ensure!(found["state"] != "failed", "{found}");
        tokio::time::sleep(POLL).await;
    }
}

/// Reads the archive; returns the path of the import.
async fn prepare(http: &mut Http) -> anyhow::Result<String> {
    let created = http.post("/v1/imports", &json!({"path": ARCHIVE})).await?;
    let path = format!("/v1/imports/{}", text(&created, "/id")?);
    wait(http, &path, "ready").await?;
    Ok(path)
}

/// Begins work with a request, and waits until the import has the wanted state.
async fn cost(
    server: &Server,
    http: &mut Http,
    path: &str,
    wanted: &str,
    method: &str,
    to: &str,
) -> anyhow::Result<Cost> {
    let (before, started) = (server.process.cpu(), Instant::now());
    http.send(method, to, "").await?.json()?;
    wait(http, path, wanted).await?;
    Ok(Cost {
        time: started.elapsed(),
        cpu: server.process.cpu().saturating_sub(before),
    })
}

/// Runs a prepared import to its end.
async fn import(server: &Server, http: &mut Http, path: &str) -> anyhow::Result<Cost> {
    let start = format!("{path}/start");
    cost(server, http, path, "done", "POST", &start).await
}

/// Milliseconds of equal requests, one after another.
async fn times(http: &mut Http, path: &str, body: &str, count: usize) -> anyhow::Result<Vec<f64>> {
    let method = if body.is_empty() { "GET" } else { "POST" };
    let mut times = Vec::new();
    for _ in 0..count {
        let started = Instant::now();
        http.send(method, path, body).await?.json()?;
        times.push(ms(started.elapsed()));
    }
    Ok(times)
}

/// Posts messages; returns their times.
async fn post(http: &mut Http, thread: &str) -> anyhow::Result<Vec<f64>> {
    let body = json!({"content": crate::sends::CONTENT}).to_string();
    times(
        http,
        &format!("/v1/threads/{thread}/messages"),
        &body,
        POSTS,
    )
    .await
}

/// Medians of the newest 50 messages, a search, and the snapshot.
async fn read(http: &mut Http, thread: &str) -> anyhow::Result<[f64; 3]> {
    let newest = format!("/v1/threads/{thread}/messages?limit=50");
    let mut medians = [0.0; 3];
    for (found, path) in
        medians
            .iter_mut()
            .zip([newest.as_str(), "/v1/search?q=notes", "/v1/snapshot"])
    {
        *found = median(&times(http, path, "", READS).await?);
    }
    Ok(medians)
}

/// Times of posts alone, and during an import of the same archive.
async fn posts(folder: &Folder) -> anyhow::Result<(Vec<f64>, Vec<f64>)> {
    let server = start(folder).await?;
    let team = Team::make(&server.process.address, 1).await?;
    let (thread, mut http) = (team.thread().await?, team.http(0).await?);
    let path = prepare(&mut http).await?;
    let alone = post(&mut http, &thread).await?;
    http.post(&format!("{path}/start"), &json!({})).await?;
    let during = post(&mut http, &thread).await?;
    let state = http.get(&path).await?;
    anyhow::ensure!(state["state"] == "running", "the import ended too early");
    Ok((alone, during))
}

/// Starts a server that reads archives in the folder.
async fn start(folder: &Folder) -> anyhow::Result<Server> {
    let directory = folder.0.to_string_lossy().into_owned();
    Server::start(&[("IMPORT_DIR", directory.as_str())]).await
}

/// The engine alone: the same texts with their search documents, 500 a transaction.
async fn bare(texts: &[String]) -> anyhow::Result<Cost> {
    let server = Server::start(&[]).await?;
    let team = Team::make(&server.process.address, 1).await?;
    team.thread().await?;
    let scratch = server.into_database()?;
    let engine = Engine::open(&scratch.place()?, None).await?;
    let (before, started) = (process::cpu(std::process::id()), Instant::now());
    engine.fill_searchable(texts, PER_TRANSACTION).await?;
    let cost = Cost {
        time: started.elapsed(),
        cpu: process::cpu(std::process::id()).saturating_sub(before),
    };
    engine.close().await?;
    Ok(cost)
}

pub(crate) async fn run() -> anyhow::Result<()> {
    let folder = Folder::new()?;
    let mut words = Words::new();
    let texts: Vec<String> = (0..MESSAGES).map(|_| words.message()).collect();
    write_archive(&folder.0.join(ARCHIVE), &texts)?;
    let bare = bare(&texts).await?;
    drop(texts);
    let (alone, during) = posts(&folder).await?;

    let server = start(&folder).await?;
    let team = Team::make(&server.process.address, 1).await?;
    let (thread, mut http) = (team.thread().await?, team.http(0).await?);
    post(&mut http, &thread).await?;
    let before = read(&mut http, &thread).await?;
    let path = prepare(&mut http).await?;
    let first = import(&server, &mut http, &path).await?;
    let after = read(&mut http, &thread).await?;
    let again = prepare(&mut http).await?;
    let second = import(&server, &mut http, &again).await?;

    let started = Instant::now();
    let form = json!({"scope": "public", "files": false});
    let export = text(&http.post("/v1/exports", &form).await?, "/id")?;
    wait(&mut http, &format!("/v1/exports/{export}"), "done").await?;
    let export = Cost {
        time: started.elapsed(),
        cpu: Duration::ZERO,
    };
    let undo = cost(&server, &mut http, &path, "undone", "DELETE", &path).await?;

    let mut table = Table::new("Import of 10⁶ messages", &["", "target", "found", "beside"]);
    let mut row = |name: &str, target: &str, found: String, beside: String| {
        table.row([name.to_owned(), target.to_owned(), found, beside]);
    };
    row(
        "CPU-µs per message, of the engine alone",
        "≤ 4",
        format!("{:.2}", first.each() / bare.each()),
        format!("{:.0} of {:.0}", first.each(), bare.each()),
    );
    row(
        "messages per second",
        "≥ 3,000",
        format!("{:.0}", first.per_second()),
        format!("engine alone: {:.0}", bare.per_second()),
    );
    let p99 = |times: &[f64]| percentile(times, 0.99);
    row(
        "p99 of posts during it, ms",
        "≤ 2 × alone + 20",
        format!("{:.1}", p99(&during)),
        format!("alone: {:.1}", p99(&alone)),
    );
    row(
        "second run of the same archive, of the first",
        "≤ 0.3",
        second.of(first),
        format!("{:.0} s", first.time.as_secs_f64()),
    );
    let names = [
        ("newest 50 after it, of before", "≤ 1.3"),
        ("search after it, of before", "≤ 3"),
        ("snapshot after it, of before", "≤ 3"),
    ];
    for ((name, target), (before, after)) in names.into_iter().zip(before.iter().zip(&after)) {
        let beside = format!("{after:.2} ms of {before:.2} ms");
        row(name, target, format!("{:.2}", after / before), beside);
    }
    let beside = |cost: Cost| format!("{:.0} s", cost.time.as_secs_f64());
    row(
        "export, of the import",
        "≤ 1",
        export.of(first),
        beside(export),
    );
    row("undo, of the import", "≤ 1.5", undo.of(first), beside(undo));
    table.print();
    say(&format!(
        "\n{}. One run. The engine writes the messages and their search documents, {PER_TRANSACTION} a transaction.",
        process::engine()
    ));
    Ok(())
}
