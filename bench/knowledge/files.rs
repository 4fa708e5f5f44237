//! Search in files with 10⁵ passages, compared with as many messages, and removals of files with 5,000 passages, compared with deletions of
//! messages.

use std::{fmt::Write, sync::Arc};

use openvibe::db::{Conn, Db};
use serde_json::json;
use uuid::Uuid;

use super::{make_store, put, read, timed};
use crate::{
    client::{Team, text},
    engine::Engine,
    process::{self, Server},
    report::{Table, percentile, ratio, say},
    tools::index_all,
    words::Words,
};

const PASSAGES: usize = 100_000;
/// Number of passages of a file, each in a section of its own.
const PASSAGES_IN_FILE: usize = 5_000;
const FILES: usize = PASSAGES / PASSAGES_IN_FILE;
const MESSAGES_PER_TRANSACTION: usize = 5_000;
/// Number of unmeasured questions at the start, and number of measured ones.
const WARM_UP: usize = 30;
const QUESTIONS: usize = 300;

/// Times in ms for messages and for files.
#[derive(Default)]
struct Found {
    messages: Vec<f64>,
    files: Vec<f64>,
}

pub(super) async fn run() -> anyhow::Result<()> {
    let server = Server::start(&[]).await?;
    let team = Team::make(&server.process.address, 1).await?;
    let mut http = team.http(0).await?;
    let thread = team.thread().await?;
    let mut words = Words::new();
    let database = server.scratch.place()?;
    let engine = Engine::open(&database, Some(&thread)).await?;
    for _ in 0..PASSAGES / MESSAGES_PER_TRANSACTION {
        let texts = (0..MESSAGES_PER_TRANSACTION).map(|_| words.message());
        engine.fill_with(texts.collect()).await?;
    }
    engine.close().await?;
    index_all(&database).await?;
    let store = make_store(&mut http).await?;
    let mut files = Vec::new();
    for n in 0..FILES {
        let mut file = String::new();
        for section in 1..=PASSAGES_IN_FILE {
            write!(file, "# Section {section}\n\n{}\n\n", words.message())?;
        }
        files.push(put(&mut http, &store, &format!("{n}.md"), &file).await?);
    }
    read(&mut http, &store, FILES).await?;
    if process::is_postgres() {
        // Updates the statistics, as autovacuum does within a minute.
        let db = Db::open(&database, Arc::new(|_| {})).await?;
        db.write(Uuid::nil(), async |c: &mut Conn| {
            c.q("analyze passages, search_index").run().await
        })
        .await?;
        db.close().await;
    }

    let mut searches = Found::default();
    for n in 0..WARM_UP + QUESTIONS {
        if n == WARM_UP {
            searches = Found::default();
        }
        let query = words.query().replace(' ', "%20");
        let path = format!("/v1/search?match=any&q={query}");
        let messages = timed(&mut http, "GET", &path).await?;
        let in_files = timed(&mut http, "GET", &format!("{path}&kind=file")).await?;
        searches.messages.push(messages);
        searches.files.push(in_files);
    }

    let mut removals = Found::default();
    let path = format!("/v1/threads/{thread}/messages");
    for file in files {
        let form = json!({"content": words.message()});
        let posted = http.post(&path, &form).await?;
        let message = format!("/v1/messages/{}", text(&posted, "/message/id")?);
        let messages = timed(&mut http, "DELETE", &message).await?;
        removals.messages.push(messages);
        let file = format!("{store}/files/{file}");
        let in_files = timed(&mut http, "DELETE", &file).await?;
        removals.files.push(in_files);
    }
    print(&searches, &removals);
    Ok(())
}

fn print(searches: &Found, removals: &Found) {
    let mut table = Table::new(
        "Files with 10⁵ passages, and 10⁵ messages, ms",
        &["", "p50", "p95", "p95, ratio"],
    );
    for (names, found) in [
        (["search in messages", "search in files"], searches),
        (
            [
                "deletion of a message",
                "removal of a file with 5,000 passages",
            ],
            removals,
        ),
    ] {
        let baseline = percentile(&found.messages, 0.95);
        for (name, times) in names.into_iter().zip([&found.messages, &found.files]) {
            let cells = [0.5, 0.95].map(|p| format!("{:.2}", percentile(times, p)));
            let of = format!("{:.2}", percentile(times, 0.95) / baseline);
            table.row(std::iter::once(name.to_owned()).chain(cells).chain([of]));
        }
    }
    table.print();
    say(&format!(
        "\n{}. {QUESTIONS} questions of 4 content words with `match=any`, and {FILES} removals; median ratios {:.2} and {:.2} (targets: a p95 of \
         1.3 times the search in messages, and 2 times the deletion).",
        process::engine(),
        ratio(&searches.files, &searches.messages),
        ratio(&removals.files, &removals.messages)
    ));
}
