//! What `SQLite` itself can do with the rows that a message makes, on one connection with the server's settings; also the
//! quick way to fill a database.

use std::{path::Path, time::Duration};

use anyhow::Context;
use sqlx::{
    AssertSqlSafe, Connection, Executor, SqliteConnection,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous},
};
use uuid::Uuid;

/// A connection, and a message that was really posted as the pattern for others.
pub(crate) struct Engine {
    c: SqliteConnection,
    pattern: Pattern,
}

struct Pattern {
    workspace: Uuid,
    channel: Uuid,
    thread: Uuid,
    author: Uuid,
    content: String,
    metadata: String,
    created_at: String,
    frame: String,
}

/// Workspace, channel, thread, author, content, metadata, time, frame.
type Row = (Uuid, Uuid, Uuid, Uuid, String, String, String, String);

/// Which rows to insert.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rows {
    /// Message, event, the thread's counters, `seq`, and the client's id: all that a post writes.
    Post,
    /// The same without the event and the client's id; the numbers are taken all the same.
    History,
}

impl Engine {
    /// Opens a database in which the newest message of `thread` (all threads when `None`) is the pattern.
    pub(crate) async fn open(path: &Path, thread: Option<&str>) -> anyhow::Result<Self> {
        let options = SqliteConnectOptions::new()
            .filename(path)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .foreign_keys(true)
            .busy_timeout(Duration::from_secs(30))
            .pragma("secure_delete", "ON")
            .pragma("temp_store", "MEMORY")
            .pragma("cache_size", "-16384");
        let mut c = SqliteConnection::connect_with(&options).await?;
        let thread: Option<Uuid> = match thread {
            Some(id) => Some(id.parse::<openvibe::ids::ThreadId>()?.0),
            None => None,
        };
        let row: Row = sqlx::query_as(
            "select m.workspace_id, m.channel_id, m.thread_id, m.author_id, m.content, m.metadata, m.created_at, e.frame \
             from messages m join events e on e.workspace_id = m.workspace_id and e.seq = m.seq \
             where (m.thread_id = $1 or $1 is null) and m.author_type = 'human' order by m.seq desc limit 1",
        )
        .bind(thread)
        .fetch_one(&mut c)
        .await
        .context("a message to take as the pattern")?;
        let (workspace, channel, thread, author, content, metadata, created_at, frame) = row;
        let pattern = Pattern {
            workspace,
            channel,
            thread,
            author,
            content,
            metadata,
            created_at,
            frame,
        };
        Ok(Self { c, pattern })
    }

    /// The bytes of a frame of such a message.
    pub(crate) fn frame_bytes(&self) -> usize {
        self.pattern.frame.len()
    }

    /// Inserts `count` messages, `per_transaction` in each transaction.
    pub(crate) async fn insert(
        &mut self,
        rows: Rows,
        count: usize,
        per_transaction: usize,
    ) -> anyhow::Result<()> {
        let mut left = count;
        while left > 0 {
            self.c.execute("begin immediate").await?;
            for _ in 0..left.min(per_transaction) {
                self.insert_one(rows).await?;
            }
            self.c.execute("commit").await?;
            left = left.saturating_sub(per_transaction);
        }
        Ok(())
    }

    async fn insert_one(&mut self, rows: Rows) -> anyhow::Result<()> {
        let (c, p) = (&mut self.c, &self.pattern);
        let id = Uuid::now_v7();
        let client_id = id.simple().to_string();
        let (seq,): (i64,) =
            sqlx::query_as("update workspaces set seq = seq + 1 where id = $1 returning seq")
                .bind(p.workspace)
                .fetch_one(&mut *c)
                .await?;
        if rows == Rows::Post {
            sqlx::query("insert into client_ids (workspace_id, user_id, client_id, place, object_id, created_at) values ($1, $2, $3, $4, $5, $6)")
                .bind(p.workspace)
                .bind(p.author)
                .bind(&client_id)
                .bind("thread_00000000000000000000000000")
                .bind(id)
                .bind(&p.created_at)
                .execute(&mut *c)
                .await?;
        }
        sqlx::query(
            "insert into messages (id, workspace_id, channel_id, thread_id, fork_id, parent_id, seq, author_type, author_id, kind, state, \
             content, content_plain, mentions, reactions, metadata, client_id, created_at) \
             values ($1, $2, $3, $4, null, null, $5, 'human', $6, 'text', 'complete', $7, $7, '[]', '[]', $8, $9, $10)",
        )
        .bind(id)
        .bind(p.workspace)
        .bind(p.channel)
        .bind(p.thread)
        .bind(seq)
        .bind(p.author)
        .bind(&p.content)
        .bind(&p.metadata)
        .bind((rows == Rows::Post).then_some(client_id))
        .bind(&p.created_at)
        .execute(&mut *c)
        .await?;
        sqlx::query("update threads set reply_count = reply_count + 1, last_seq = $2, last_activity_at = $3 where id = $1")
            .bind(p.thread)
            .bind(seq)
            .bind(&p.created_at)
            .execute(&mut *c)
            .await?;
        if rows == Rows::Post {
            sqlx::query(
                "insert into events (workspace_id, seq, type, channel_id, user_id, message_id, frame, ts) \
                 values ($1, $2, 'message.created', $3, null, $4, $5, $6)",
            )
            .bind(p.workspace)
            .bind(seq)
            .bind(p.channel)
            .bind(id)
            .bind(&p.frame)
            .bind(&p.created_at)
            .execute(&mut *c)
            .await?;
        }
        Ok(())
    }

    /// The log's newest number.
    pub(crate) async fn seq(&mut self) -> anyhow::Result<i64> {
        let (seq,) = sqlx::query_as("select seq from workspaces where id = $1")
            .bind(self.pattern.workspace)
            .fetch_one(&mut self.c)
            .await?;
        Ok(seq)
    }

    /// A statement of upkeep.
    pub(crate) async fn run(&mut self, sql: &'static str) -> anyhow::Result<()> {
        sqlx::query(AssertSqlSafe(sql)).execute(&mut self.c).await?;
        Ok(())
    }
}
