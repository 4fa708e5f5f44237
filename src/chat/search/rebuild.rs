//! Rebuilds all plain texts and search documents, and reactions in old spellings, after a restore, and after an upgrade that changes how
//! they are made.
//!
//! It runs while the server serves: newest messages first, a few per transaction, and at most half of the time. Its progress is a row in
//! `meta`, so an interrupted rebuild continues where it stopped. A message that changes in the meantime is indexed by its own change.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};

use super::index::{self, SearchDocument, VERSION, is_found};
use crate::{
    auth::quota,
    blocking::blocking,
    chat::{
        plain::to_plain,
        rows::message::{Message, MessageState, Row, message_sql},
    },
    db::{Conn, Db, DbError, Json},
    ids::{MessageId, WorkspaceId},
    sql_with_seqs,
    text_enum::constant,
};

/// Messages per step. A transaction delays the posts of its workspace.
const MESSAGES_AT_ONCE: i64 = 100;
/// Pause after each step, as a multiple of its duration.
const PAUSE: u32 = 1;
/// Progress is logged each time this share is done.
const LOGGED_PERCENT: i64 = 10;

/// Progress of a rebuild, stored in `meta`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Progress {
    version: String,
    /// Messages with lower IDs, which are older, are still to be done.
    below: MessageId,
    done: i64,
    total: i64,
}

impl Progress {
    fn percent(&self) -> i64 {
        (self.done * 100).checked_div(self.total).unwrap_or(100)
    }
}

constant! { pub SearchIndexState = "building" }

/// A search index that lacks older messages, because it is being rebuilt.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, utoipa::ToSchema)]
pub struct SearchIndex {
    #[schema(inline)]
    pub state: SearchIndexState,
    /// Share of the messages that are indexed, from 0 to 1.
    pub done: f64,
}

async fn find_progress(c: &mut Conn) -> Result<Option<Progress>, DbError> {
    let row: Option<(String,)> = c
        .q("select value from meta where key = 'search_rebuild'")
        .opt()
        .await?;
    // A row of another program version is replaced.
    let progress = row.and_then(|(value,)| serde_json::from_str::<Progress>(&value).ok());
    Ok(progress.filter(|progress| progress.version == VERSION))
}

async fn put(c: &mut Conn, key: &'static str, value: String) -> Result<(), DbError> {
    c.q("insert into meta (key, value) values ($1, $2) on conflict (key) do update set value = excluded.value")
        .bind(key)
        .bind(value)
        .run()
        .await?;
    Ok(())
}

async fn put_progress(c: &mut Conn, progress: &Progress) -> Result<(), DbError> {
    let value = serde_json::to_string(progress).unwrap_or_default();
    put(c, "search_rebuild", value).await
}

/// State of the index for readers; `None` if it is complete.
pub async fn find_state(c: &mut Conn) -> Result<Option<SearchIndex>, DbError> {
    let progress = find_progress(c).await?;
    Ok(progress.map(|progress| SearchIndex {
        state: SearchIndexState,
        done: f64::from(i32::try_from(progress.percent()).unwrap_or(100).min(100)) / 100.0,
    }))
}

/// Records that the documents must be rebuilt, unless they are up to date or there are no messages.
///
/// # Errors
/// Only database errors.
pub async fn begin(db: &Db) -> Result<(), DbError> {
    let mut c = db.read().await?;
    let known: Option<(String,)> = c
        .q("select value from meta where key = 'search'")
        .opt()
        .await?;
    let is_current = known.is_some_and(|(version,)| version == VERSION);
    if is_current || find_progress(&mut c).await?.is_some() {
        return Ok(());
    }
    let total: i64 = c.q("select count(*) from messages").value().await?;
    drop(c);
    if total == 0 {
        return finish(db).await;
    }
    let progress = Progress {
        version: VERSION.to_owned(),
        below: MessageId(uuid::Uuid::max()),
        done: 0,
        total,
    };
    tracing::info!(messages = total, "rebuilding the search index");
    db.write(uuid::Uuid::nil(), async move |c: &mut Conn| {
        put_progress(c, &progress).await
    })
    .await
}

async fn finish(db: &Db) -> Result<(), DbError> {
    db.write(uuid::Uuid::nil(), async |c: &mut Conn| {
        put(c, "search", VERSION.to_owned()).await?;
        c.q("delete from meta where key = 'search_rebuild'")
            .run()
            .await?;
        Ok(())
    })
    .await
}

/// The texts derived from a message that was read before the transaction.
struct Derived {
    content: String,
    plain: String,
    document: SearchDocument,
}

fn derive(message: Message) -> (i64, Derived) {
    let plain = to_plain(&message.content);
    let document = SearchDocument::of(&message.content, &plain);
    let content = message.content;
    let derived = Derived {
        content,
        plain,
        document,
    };
    (message.seq, derived)
}

/// Replaces the texts and documents of messages of a workspace that are unchanged since they were read.
async fn replace(
    c: &mut Conn,
    workspace: WorkspaceId,
    derived: &BTreeMap<i64, Derived>,
) -> Result<(), DbError> {
    // In the order of the index, which FTS5 writes fastest.
    let sql = sql_with_seqs!(
        c,
        message_sql!("where"),
        "workspace_id" = 1,
        2,
        "order by m.seq"
    );
    let rows: Vec<Row> = c
        .q(sql)
        .bind(workspace)
        .bind(Json(derived.keys().copied().collect::<Vec<_>>()))
        .all()
        .await?;
    for row in rows {
        let stored_reactions = row.reactions.0.clone();
        let mut message = Message::from(row);
        let Some(new) = derived.get(&message.seq) else {
            continue;
        };
        if message.reactions != stored_reactions {
            c.q("update messages set reactions = $2 where id = $1")
                .bind(message.id)
                .bind(Json(message.reactions.clone()))
                .run()
                .await?;
        }
        if message.content != new.content || message.deleted_at.is_some() {
            continue;
        }
        if message.content_plain != new.plain && message.state != MessageState::Streaming {
            c.q("update messages set content_plain = $2 where id = $1")
                .bind(message.id)
                .bind(new.plain.clone())
                .run()
                .await?;
            quota::recount_message(c, workspace, message.id, &new.content, &new.plain).await?;
            message.content_plain.clone_from(&new.plain);
        }
        if is_found(&message) {
            index::reindex(c, &message, &new.document).await?;
        }
    }
    Ok(())
}

/// Rebuilds the next messages; returns the progress, or `None` if all are done.
async fn step(db: &Db) -> Result<Option<Progress>, DbError> {
    let mut c = db.read().await?;
    let Some(mut progress) = find_progress(&mut c).await? else {
        return Ok(None);
    };
    let rows: Vec<Row> = c
        .q(message_sql!("where m.id < $1 order by m.id desc limit $2"))
        .bind(progress.below)
        .bind(MESSAGES_AT_ONCE)
        .all()
        .await?;
    drop(c);
    let Some(last) = rows.last() else {
        finish(db).await?;
        tracing::info!(messages = progress.done, "the search index is complete");
        return Ok(None);
    };
    progress.below = last.id;
    let percent = progress.percent();
    progress.done += i64::try_from(rows.len()).unwrap_or(i64::MAX);
    if progress.percent() / LOGGED_PERCENT > percent / LOGGED_PERCENT {
        tracing::info!(percent = progress.percent(), "rebuilding the search index");
    }
    let derived = blocking((), move || {
        let mut by_workspace: BTreeMap<WorkspaceId, BTreeMap<i64, Derived>> = BTreeMap::new();
        for message in rows.into_iter().map(Message::from) {
            let workspace = message.workspace_id;
            let (seq, derived) = derive(message);
            by_workspace
                .entry(workspace)
                .or_default()
                .insert(seq, derived);
        }
        by_workspace
    })
    .await
    .map_err(|_| DbError::Closed)?;
    for (workspace, derived) in derived {
        db.write(workspace.0, async move |c: &mut Conn| {
            replace(c, workspace, &derived).await
        })
        .await?;
    }
    let next = progress.clone();
    db.write(uuid::Uuid::nil(), async move |c: &mut Conn| {
        put_progress(c, &next).await
    })
    .await?;
    Ok(Some(progress))
}

/// Rebuilds the next messages. Returns the pause before the next call; `None` if all messages are done.
///
/// # Errors
/// Only database errors.
pub async fn rebuild_next(db: &Db) -> Result<Option<Duration>, DbError> {
    let begun = Instant::now();
    let progress = step(db).await?;
    Ok(progress.map(|_| begun.elapsed() * PAUSE))
}

/// Rebuilds all documents without pauses. `report` is called with the percentage each time another tenth is done.
///
/// # Errors
/// Only database errors.
pub async fn bring_up_to_date(db: &Db, report: impl Fn(i64)) -> Result<(), DbError> {
    begin(db).await?;
    let mut reported = 0;
    while let Some(progress) = step(db).await? {
        let tenth = progress.percent() / LOGGED_PERCENT;
        if tenth > reported {
            reported = tenth;
            report(tenth * LOGGED_PERCENT);
        }
    }
    Ok(())
}
