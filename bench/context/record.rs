//! Size of the prompt records, compared with the size of the requests.

use std::sync::Arc;

use axum::body::Bytes;
use openvibe::db::{DatabaseUrl, Db, Engine as DatabaseEngine};

use super::{AGENT, INSTRUCTIONS, make_agent};
use crate::{
    client::{Conversation, Team},
    model::{Model, Plan},
    process::{self, Server},
    report::{Table, float, say},
    words::Words,
};

const REPLIES: usize = 600;
const REPLIES_PER_SOCKET: usize = 100;
/// Number of messages in a request, and their size in bytes.
const MESSAGES: usize = 50;
const MESSAGE_BYTES: usize = 1_000;
const KIB: f64 = 1024.0;

/// Tables of the prompt records; the first one contains the texts.
const TABLES: [&str; 4] = [
    "context_texts",
    "context_parts",
    "citations",
    "task_contexts",
];

/// A message of `MESSAGE_BYTES`.
fn message(words: &mut Words) -> String {
    let mut text = String::new();
    while text.len() < MESSAGE_BYTES {
        text += &words.message();
        text += ". ";
    }
    text.truncate(MESSAGE_BYTES);
    text
}

pub(super) async fn run() -> anyhow::Result<()> {
    let model = Model::start().await?;
    let mut settings = model.settings();
    // With compaction, requests would not contain all of the newest messages.
    settings.push(("COMPACTION", "off"));
    let server = Server::start(&settings).await?;
    let team = Team::make(&server.process.address, 1).await?;
    make_agent(&mut team.http(0).await?).await?;
    let mut conversation = Conversation::start(&team).await?;
    let mut words = Words::new();
    for _ in 0..MESSAGES {
        conversation.post(&message(&mut words)).await?;
    }
    model.keep(INSTRUCTIONS);
    let mut sent = 0;
    for n in 0..REPLIES {
        if n % REPLIES_PER_SOCKET == 0 {
            conversation.reconnect(&team).await?;
        }
        model.answer(Plan {
            text: Some(message(&mut words)),
            ..Plan::short()
        });
        let question = format!("@{AGENT} {}", message(&mut words));
        let task = conversation.ask(&question).await?;
        conversation.completed(&task).await?;
        let requests = model.take_kept();
        anyhow::ensure!(
            requests.len() == 1,
            "{} requests for a question",
            requests.len()
        );
        sent += requests.iter().map(Bytes::len).sum::<usize>();
    }
    drop(conversation);
    let scratch = server.into_database()?;
    let sizes = sizes(&scratch.place()?).await?;

    let mut table = Table::new(
        "Record of 600 prompts with 50 messages of 1 KB",
        &["", "KiB", "of the bytes sent"],
    );
    let sent = float(sent);
    let whole = sizes.iter().sum();
    let rows = TABLES.into_iter().zip(sizes);
    let rows = [("requests", sent), ("the record", whole)]
        .into_iter()
        .chain(rows);
    for (name, bytes) in rows {
        table.row([
            name.to_owned(),
            format!("{:.0}", bytes / KIB),
            format!("{:.3}", bytes / sent),
        ]);
    }
    table.print();
    say(&format!(
        "\n{}. Tables with their indexes (target: the record is at most 0.2 of the bytes sent).",
        process::engine()
    ));
    Ok(())
}

/// Sizes of the tables with their indexes in bytes.
async fn sizes(place: &DatabaseUrl) -> anyhow::Result<[f64; TABLES.len()]> {
    let db = Db::open(place, Arc::new(|_| {})).await?;
    let mut c = db.read().await?;
    let sql = match db.engine() {
        DatabaseEngine::Sqlite => {
            "select cast(coalesce(sum(s.pgsize), 0) as real) from dbstat s join sqlite_schema x on x.name = s.name where x.tbl_name = $1"
        }
        DatabaseEngine::Postgres => {
            "select cast(pg_total_relation_size(cast($1 as regclass)) as double precision)"
        }
    };
    let mut sizes = [0.0; TABLES.len()];
    for (name, size) in TABLES.into_iter().zip(&mut sizes) {
        *size = c.q(sql).bind(name.to_owned()).value().await?;
    }
    drop(c);
    db.close().await;
    Ok(sizes)
}
