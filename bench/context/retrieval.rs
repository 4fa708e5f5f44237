//! Retrieval of memory entries and old messages for a reply, compared with `GET /v1/search` for the same words.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
    time::Instant,
};

use openvibe::{
    db::{
        Conn, Db, DbError, Engine as DatabaseEngine,
        dialect::memory::{self as store, WordCount},
        now,
    },
    ids::{AgentId, ChannelId, MemoryId, MessageId, ThreadId, UserId, WorkspaceId},
    memory::recall::{Recall, recall},
    realtime::hub::Conversation,
};
use uuid::Uuid;

use super::{AGENT, make_agent};
use crate::{
    client::Team,
    engine::Engine,
    process::{self, Server},
    report::{Table, ms, percentile, ratio, say},
    tools::{index_all, search},
    words::Words,
};

const MESSAGES: usize = 100_000;
const MESSAGES_PER_TRANSACTION: usize = 5_000;
/// Maximum numbers of entries in a workspace and in a conversation.
const ENTRIES: usize = 50_000;
const ENTRIES_PER_THREAD: usize = 2_000;
/// Number of unmeasured questions at the start, and number of measured ones.
const WARM_UP: usize = 30;
const QUESTIONS: usize = 300;

/// Measurements with one value per question.
#[derive(Default)]
struct Found {
    /// Times in ms.
    recalls: Vec<f64>,
    searches: Vec<f64>,
    /// Number of questions for which entries were found, and number for which old messages were found.
    entries: usize,
    messages: usize,
}

/// The conversation in which the questions are asked.
struct Place {
    workspace: WorkspaceId,
    channel: ChannelId,
    thread: ThreadId,
    requester: UserId,
    agent: AgentId,
}

impl Place {
    async fn recall(&self, c: &mut Conn, question: &str, found: &mut Found) -> anyhow::Result<f64> {
        let summary = HashSet::new();
        let of = Recall {
            workspace: self.workspace,
            requester: self.requester,
            api_key: None,
            agent: self.agent,
            handle: AGENT,
            scopes: None,
            channel: self.channel,
            thread: self.thread,
            conversation: Conversation::Thread(self.thread),
            // An ID that no message has.
            trigger: MessageId::new(),
            trigger_seq: i64::MAX,
            question,
            summary: &summary,
            window_start: Some(i64::MAX),
        };
        let started = Instant::now();
        let recalled = recall(c, &of).await?;
        let took = ms(started.elapsed());
        found.entries += usize::from(!recalled.used.is_empty());
        found.messages += usize::from(!recalled.messages.is_empty());
        Ok(took)
    }
}

pub(super) async fn run() -> anyhow::Result<()> {
    let server = Server::start(&[]).await?;
    let team = Team::make(&server.process.address, 1).await?;
    let mut http = team.http(0).await?;
    let agent: AgentId = make_agent(&mut http).await?.parse()?;
    let thread = team.thread().await?;
    let mut words = Words::new();
    let database = server.scratch.place()?;
    let engine = Engine::open(&database, Some(&thread)).await?;
    for _ in 0..MESSAGES / MESSAGES_PER_TRANSACTION {
        let texts = (0..MESSAGES_PER_TRANSACTION).map(|_| words.message());
        engine.fill_with(texts.collect()).await?;
    }
    engine.close().await?;
    index_all(&database).await?;
    let mut threads: Vec<ThreadId> = Vec::new();
    for _ in 0..ENTRIES / ENTRIES_PER_THREAD {
        threads.push(team.thread().await?.parse()?);
    }
    // Recall also searches for the words of the requester's previous message, so this one has none.
    let path = format!("/v1/threads/{thread}/messages");
    http.send("POST", &path, r#"{"content":"+1"}"#)
        .await?
        .json()?;

    let db = Db::open(&database, Arc::new(|_| {})).await?;
    let thread: ThreadId = thread.parse()?;
    let requester: UserId = db
        .read()
        .await?
        .q("select author_id from messages where thread_id = $1 order by seq limit 1")
        .bind(thread)
        .value()
        .await?;
    let place = Place {
        workspace: team.workspace.parse()?,
        channel: team.general.parse()?,
        thread,
        requester,
        agent,
    };
    for thread in threads {
        add_entries(&db, &place, thread, &mut words).await?;
    }
    if db.engine() == DatabaseEngine::Postgres {
        // Updates the statistics, as autovacuum does within a minute.
        db.write(Uuid::nil(), async |c: &mut Conn| {
            c.q("analyze memories, memory_words").run().await
        })
        .await?;
    }
    let mut found = Found::default();
    for n in 0..WARM_UP + QUESTIONS {
        if n == WARM_UP {
            found = Found::default();
        }
        let question = words.message();
        // Each question reads its own snapshot, as a reply does.
        let mut c = db.snapshot().await?;
        // Whichever runs second reads cached pages, so the order alternates.
        let (searched, recalled) = if n % 2 == 0 {
            let searched = search(&mut http, &question).await?;
            (searched, place.recall(&mut c, &question, &mut found).await?)
        } else {
            let recalled = place.recall(&mut c, &question, &mut found).await?;
            (search(&mut http, &question).await?, recalled)
        };
        found.searches.push(searched);
        found.recalls.push(recalled);
    }
    db.close().await;
    print(&found);
    Ok(())
}

/// Adds entries to a thread, as a pass does.
async fn add_entries(
    db: &Db,
    place: &Place,
    thread: ThreadId,
    words: &mut Words,
) -> anyhow::Result<()> {
    let (workspace, author) = (place.workspace, place.requester);
    let texts: Vec<String> = (0..ENTRIES_PER_THREAD).map(|_| words.message()).collect();
    db.write(workspace.0, async move |c: &mut Conn| {
        for text in &texts {
            add_entry(c, (workspace, thread, author), text).await?;
        }
        Ok::<_, DbError>(())
    })
    .await?;
    Ok(())
}

async fn add_entry(
    c: &mut Conn,
    (workspace, thread, author): (WorkspaceId, ThreadId, UserId),
    text: &str,
) -> Result<(), DbError> {
    let id = MemoryId::new();
    let stems = text
        .split_inclusive(char::is_whitespace)
        .flat_map(openvibe_extract::keywords);
    let mut counts: BTreeMap<String, i64> = BTreeMap::new();
    for stem in stems {
        *counts.entry(stem).or_insert(0) += 1;
    }
    let total: i64 = counts.values().sum();
    c.q("insert into memories (id, workspace_id, scope, key, kind, text, words, thread_id, conversation_id, visibility, trust, origin, \
         status, share_with_organization, flagged, uses, version, created_by, created_at, updated_at) \
         values ($1, $2, 'conversation', $3, 'fact', $4, $5, $6, $6, 'workspace', 'person', 'auto', 'active', FALSE, FALSE, 0, 1, $7, $8, $8)")
        .bind(id)
        .bind(workspace)
        .bind(format!("conversation:{}", thread.0.simple()))
        .bind(text.to_owned())
        .bind(total)
        .bind(thread)
        .bind(author)
        .bind(now())
        .run()
        .await?;
    let counts = counts.into_iter();
    let counts = counts.map(|(word, count)| WordCount { word, count });
    store::insert_words(c, workspace.0, id.0, counts.collect(), total).await
}

fn print(found: &Found) {
    let mut table = Table::new(
        "Retrieval for a reply, 10⁵ messages and 50,000 entries, ms",
        &["", "p50", "p95", "p99"],
    );
    let rows = [
        ("entries and old messages", &found.recalls),
        ("`/v1/search?match=any`, same words", &found.searches),
    ];
    for (name, times) in rows {
        let cells = [0.5, 0.95, 0.99].map(|p| format!("{:.2}", percentile(times, p)));
        table.row(std::iter::once(name.to_owned()).chain(cells));
    }
    table.print();
    say(&format!(
        "\n{}. {} questions of 4 to 12 content words, of which {} found entries and {} old messages; median of retrieval to search {:.2} \
         (targets: a median of 10 ms, and 3 times the search). The search is over HTTP, the retrieval is not.",
        process::engine(),
        found.recalls.len(),
        found.entries,
        found.messages,
        ratio(&found.recalls, &found.searches)
    ));
}
