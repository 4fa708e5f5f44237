//! Throughput of the database engine alone for the rows of a message, without a server. Other benchmarks also use it to fill a
//! database quickly.

use std::sync::Arc;

use anyhow::Context;
use openvibe::{
    db::{Conn, DatabaseUrl, Db, DbError, Json, dialect::search::put_document},
    ids::{ChannelId, MessageId, ThreadId, UserId, WorkspaceId},
    time::Timestamp,
};
use serde_json::Value;
use uuid::Uuid;

/// Rows per statement when filling a thread.
const ROWS_A_STATEMENT: usize = 50;

/// Database writer, with a real message as the template for others.
pub(crate) struct Engine {
    db: Db,
    pattern: Arc<Pattern>,
}

#[derive(sqlx::FromRow)]
struct Pattern {
    workspace_id: WorkspaceId,
    channel_id: ChannelId,
    thread_id: ThreadId,
    author_id: UserId,
    content: String,
    metadata: Json<Value>,
    created_at: Timestamp,
    frame: String,
}

impl Engine {
    /// Opens a database, with the newest message of `thread` (or of all threads) as the template.
    pub(crate) async fn open(place: &DatabaseUrl, thread: Option<&str>) -> anyhow::Result<Self> {
        let db = Db::open(place, Arc::new(|_| {})).await?;
        let thread = match thread {
            Some(id) => Some(id.parse::<ThreadId>()?),
            None => None,
        };
        let pattern = db
            .read()
            .await?
            .q("select m.workspace_id, m.channel_id, m.thread_id, m.author_id, m.content, m.metadata, m.created_at, e.frame \
                from messages m join events e on e.workspace_id = m.workspace_id and e.seq = m.seq \
                where (m.thread_id = $1 or $1 is null) and m.author_type = 'human' order by m.seq desc limit 1")
            .bind(thread)
            .opt::<Pattern>()
            .await?
            .context("there is no message to use as a template")?;
        Ok(Self {
            db,
            pattern: Arc::new(pattern),
        })
    }

    /// Size of the frame of a message in bytes.
    pub(crate) fn frame_bytes(&self) -> usize {
        self.pattern.frame.len()
    }

    /// Stores `count` messages with all rows of a post (message, event, thread counters, `seq`, client ID),
    /// `per_transaction` messages in each transaction.
    pub(crate) async fn post(&self, count: usize, per_transaction: usize) -> anyhow::Result<()> {
        self.post_in_transactions(count, per_transaction, None)
            .await
    }

    /// Stores `count` messages, each in a transaction that also notifies the listeners of a `PostgreSQL` channel.
    pub(crate) async fn post_notifying(
        &self,
        count: usize,
        channel: &'static str,
    ) -> anyhow::Result<()> {
        self.post_in_transactions(count, 1, Some(channel)).await
    }

    async fn post_in_transactions(
        &self,
        count: usize,
        per_transaction: usize,
        channel: Option<&'static str>,
    ) -> anyhow::Result<()> {
        let mut left = count;
        while left > 0 {
            let now = left.min(per_transaction);
            let pattern = Arc::clone(&self.pattern);
            self.db
                .write(pattern.workspace_id.0, async move |c: &mut Conn| {
                    for _ in 0..now {
                        post_one(c, &pattern).await?;
                    }
                    if let Some(channel) = channel {
                        c.q("select pg_notify($1, $2)")
                            .bind(channel)
                            .bind(pattern.workspace_id.to_string())
                            .run()
                            .await?;
                    }
                    Ok::<_, DbError>(())
                })
                .await?;
            left -= now;
        }
        Ok(())
    }

    /// Adds `count` messages with the text of the template.
    pub(crate) async fn fill(&self, count: usize) -> anyhow::Result<()> {
        const PER_TRANSACTION: usize = 5000;
        let mut left = count;
        while left > 0 {
            let now = left.min(PER_TRANSACTION);
            self.fill_with(vec![self.pattern.content.clone(); now])
                .await?;
            left -= now;
        }
        Ok(())
    }

    /// Adds messages with these texts to the thread of the template in one transaction. They have `seq` numbers, but no events,
    /// client IDs, or search documents.
    pub(crate) async fn fill_with(&self, texts: Vec<String>) -> anyhow::Result<()> {
        let pattern = Arc::clone(&self.pattern);
        self.db
            .write(pattern.workspace_id.0, async move |c: &mut Conn| {
                if c.engine() == openvibe::db::Engine::Postgres {
                    // Foreign keys, which refer to rows of the template, would take most of the time.
                    c.q("set local session_replication_role = replica")
                        .run()
                        .await?;
                }
                for texts in texts.chunks(ROWS_A_STATEMENT) {
                    fill_some(c, &pattern, texts).await?;
                }
                Ok::<_, DbError>(())
            })
            .await?;
        Ok(())
    }

    /// Like `fill_with`, with search documents, and with `per_transaction` messages in each transaction.
    pub(crate) async fn fill_searchable(
        &self,
        texts: &[String],
        per_transaction: usize,
    ) -> anyhow::Result<()> {
        for texts in texts.chunks(per_transaction) {
            let (pattern, texts) = (Arc::clone(&self.pattern), texts.to_vec());
            self.db
                .write(pattern.workspace_id.0, async move |c: &mut Conn| {
                    for texts in texts.chunks(ROWS_A_STATEMENT) {
                        let first = fill_some(c, &pattern, texts).await?;
                        for (seq, text) in (first..).zip(texts) {
                            put_document(c, pattern.workspace_id.0, seq, text).await?;
                        }
                    }
                    Ok::<_, DbError>(())
                })
                .await?;
        }
        Ok(())
    }

    /// Newest `seq` of the event log.
    pub(crate) async fn seq(&self) -> anyhow::Result<i64> {
        let mut c = self.db.read().await?;
        let seq = c.q("select seq from workspaces where id = $1");
        Ok(seq.bind(self.pattern.workspace_id).value().await?)
    }

    /// Closes the database, so that all data is in its files.
    pub(crate) async fn close(self) -> anyhow::Result<()> {
        self.db.scrub().await?;
        self.db.close().await;
        Ok(())
    }
}

/// Reserves `n` `seq` numbers; returns the last one.
async fn reserve(c: &mut Conn, p: &Pattern, n: usize) -> Result<i64, DbError> {
    c.q("update workspaces set seq = seq + $2 where id = $1 returning seq")
        .bind(p.workspace_id)
        .bind(i64::try_from(n).unwrap_or_default())
        .value()
        .await
}

async fn count(c: &mut Conn, p: &Pattern, n: usize, seq: i64) -> Result<(), DbError> {
    c.q("update threads set reply_count = reply_count + $2, last_seq = $3, last_activity_at = $4 where id = $1")
        .bind(p.thread_id)
        .bind(i64::try_from(n).unwrap_or_default())
        .bind(seq)
        .bind(p.created_at)
        .run()
        .await?;
    Ok(())
}

async fn post_one(c: &mut Conn, p: &Pattern) -> Result<(), DbError> {
    let id = MessageId::new();
    let client_id = Uuid::now_v7().simple().to_string();
    let seq = reserve(c, p, 1).await?;
    c.q("insert into client_ids (workspace_id, user_id, client_id, place, object_id, created_at) values ($1, $2, $3, $4, $5, $6)")
        .bind(p.workspace_id)
        .bind(p.author_id)
        .bind(client_id.clone())
        .bind("thread_00000000000000000000000000")
        .bind(id)
        .bind(p.created_at)
        .run()
        .await?;
    c.q("insert into messages (id, workspace_id, channel_id, thread_id, conversation_id, parent_id, seq, author_type, author_id, kind, state, \
         content, content_plain, mentions, reactions, metadata, client_id, created_at) \
         values ($1, $2, $3, $4, $4, null, $5, 'human', $6, 'text', 'complete', $7, $7, $8, $8, $9, $10, $11)")
        .bind(id)
        .bind(p.workspace_id)
        .bind(p.channel_id)
        .bind(p.thread_id)
        .bind(seq)
        .bind(p.author_id)
        .bind(p.content.clone())
        .bind(Json(Value::Array(Vec::new())))
        .bind(p.metadata.clone())
        .bind(client_id)
        .bind(p.created_at)
        .run()
        .await?;
    count(c, p, 1, seq).await?;
    c.q(
        "insert into events (workspace_id, seq, type, channel_id, user_id, message_id, is_restricted, includes_managers, frame, ts) \
         values ($1, $2, 'message.created', $3, null, $4, FALSE, FALSE, $5, $6)",
    )
    .bind(p.workspace_id)
    .bind(seq)
    .bind(p.channel_id)
    .bind(id)
    .bind(p.frame.clone())
    .bind(p.created_at)
    .run()
    .await?;
    Ok(())
}

/// Returns the `seq` of the first message.
async fn fill_some(c: &mut Conn, p: &Pattern, texts: &[String]) -> Result<i64, DbError> {
    let rows = texts.len();
    let last = reserve(c, p, rows).await?;
    let first = last - i64::try_from(rows).unwrap_or_default() + 1;
    let mut q = c
        .q(fill_sql(rows))
        .bind(p.workspace_id)
        .bind(p.channel_id)
        .bind(p.thread_id)
        .bind(p.author_id)
        .bind(Json(Value::Array(Vec::new())))
        .bind(p.metadata.clone())
        .bind(p.created_at);
    for (seq, text) in (first..).zip(texts) {
        q = q.bind(MessageId::new()).bind(seq).bind(text.clone());
    }
    q.run().await?;
    count(c, p, rows, last).await?;
    Ok(first)
}

/// Returns the SQL text that inserts a number of rows. Cached, because statements must be static.
fn fill_sql(rows: usize) -> &'static str {
    static TEXTS: std::sync::Mutex<std::collections::BTreeMap<usize, &'static str>> =
        std::sync::Mutex::new(std::collections::BTreeMap::new());
    let make = || {
        let values: Vec<String> = (0..rows)
            .map(|n| {
                let (id, seq, text) = (8 + 3 * n, 9 + 3 * n, 10 + 3 * n);
                format!("(${id}, $1, $2, $3, $3, ${seq}, 'human', $4, 'text', 'complete', ${text}, ${text}, $5, $5, $6, $7)")
            })
            .collect();
        let text = format!(
            "insert into messages (id, workspace_id, channel_id, thread_id, conversation_id, seq, author_type, author_id, kind, state, \
             content, content_plain, mentions, reactions, metadata, created_at) values {}",
            values.join(", ")
        );
        &*Box::leak(text.into_boxed_str())
    };
    TEXTS.lock().map_or_else(
        |_| make(),
        |mut texts| texts.entry(rows).or_insert_with(make),
    )
}
