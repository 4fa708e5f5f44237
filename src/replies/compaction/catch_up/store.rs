//! Stores catch-ups that a model wrote for a person, until they expire or a message changes.

use std::time::Duration;

use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::{
    agents::derived::SourceId,
    db::{
        Conn, Db, DbError,
        dialect::context::{self as rows, CitationRow, TextRow},
        now,
    },
    ids::{TaskId, ThreadId, UserId, WorkspaceId},
    replies::history::SeqRange,
};

use super::{CatchUp, CatchUpLeftOut, CatchUpLine, range::Range};

/// Time for which a catch-up is kept.
const KEPT: Duration = Duration::from_hours(24);

/// Lines that a model wrote.
pub(super) struct Written {
    pub task: TaskId,
    pub workspace: WorkspaceId,
    pub thread: ThreadId,
    pub user: UserId,
    /// Sequence numbers of the first and the last message of the range, and the number of messages.
    pub ends: SeqRange,
    pub count: i64,
    pub lines: Vec<CatchUpLine>,
    pub left_out: CatchUpLeftOut,
    pub model: String,
    /// Messages that the model read, and their authors, because a line can contain text from any of them.
    pub cites: Vec<SourceId>,
}

/// Statements that delete catch-ups with their texts.
macro_rules! delete_sql {
    ($condition:literal) => {
        [
            concat!(
                "delete from citations where owner_type = 'context_text' and owner_id in \
                 (select text_id from catch_ups where ",
                $condition,
                ")"
            ),
            concat!(
                "delete from context_texts where id in (select text_id from catch_ups where ",
                $condition,
                ")"
            ),
            concat!("delete from catch_ups where ", $condition),
        ]
    };
}

/// Stores a catch-up, replacing the person's earlier one in the thread.
pub(super) async fn put(c: &mut Conn, written: &Written) -> Result<(), DbError> {
    for sql in delete_sql!("thread_id = $1 and user_id = $2") {
        c.q(sql)
            .bind(written.thread)
            .bind(written.user)
            .run()
            .await?;
    }
    let at = now();
    let text = serde_json::json!(written.lines).to_string();
    let mut hash = Sha256::new();
    hash.update("catch_up");
    hash.update(written.task.0);
    hash.update(&text);
    let row = TextRow {
        id: Uuid::now_v7(),
        hash: Some(hex::encode(hash.finalize())),
        text: text.replace('\0', ""),
    };
    let text_id = row.id;
    rows::insert_texts(c, written.workspace.0, vec![row], at, at).await?;
    let cites = written.cites.iter().map(|source| CitationRow {
        source_type: source.kind(),
        source_id: source.uuid(),
        owner_id: text_id,
    });
    rows::insert_citations(c, cites.collect()).await?;
    c.q("insert into catch_ups (thread_id, user_id, workspace_id, from_seq, to_seq, message_count, text_id, model, lines_left, \
         messages_left, created_at) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)")
        .bind(written.thread)
        .bind(written.user)
        .bind(written.workspace)
        .bind(written.ends.from)
        .bind(written.ends.to)
        .bind(written.count)
        .bind(text_id)
        .bind(written.model.clone())
        .bind(written.left_out.lines)
        .bind(written.left_out.messages)
        .bind(at)
        .run()
        .await?;
    Ok(())
}

#[derive(sqlx::FromRow)]
struct Stored {
    text: String,
    model: String,
    lines_left: i64,
    messages_left: i64,
}

/// Finds the catch-up that a model wrote for the person about exactly these messages. A catch-up is outdated once a message has been
/// edited, added, or deleted.
pub(super) async fn find_current(
    c: &mut Conn,
    thread: ThreadId,
    user: UserId,
    range: &Range,
) -> Result<Option<CatchUp>, DbError> {
    let Some(ends) = range.ends() else {
        return Ok(None);
    };
    let stored: Option<Stored> = c
        .q("select x.text, k.model, k.lines_left, k.messages_left from catch_ups k \
            join context_texts x on x.id = k.text_id and x.hash is not null \
            where k.thread_id = $1 and k.user_id = $2 and k.from_seq = $3 and k.to_seq = $4 and k.message_count = $5 and k.created_at > $6 \
            and not exists (select 1 from messages m where m.conversation_id = k.thread_id and m.seq between k.from_seq and k.to_seq \
            and m.edited_at >= k.created_at)")
        .bind(thread)
        .bind(user)
        .bind(ends.from)
        .bind(ends.to)
        .bind(range.count())
        .bind(now() - KEPT)
        .opt()
        .await?;
    Ok(stored.and_then(|stored| {
        Some(CatchUp {
            from_seq: Some(ends.from),
            to_seq: Some(ends.to),
            count: range.count(),
            lines: serde_json::from_str(&stored.text).ok()?,
            by: stored.model,
            left_out: CatchUpLeftOut {
                lines: stored.lines_left,
                messages: stored.messages_left,
            },
        })
    }))
}

/// Deletes expired catch-ups.
///
/// # Errors
/// Only database errors.
pub async fn delete_expired(db: &Db) -> Result<(), DbError> {
    let before = now() - KEPT;
    db.write(Uuid::nil(), async move |c: &mut Conn| {
        for sql in delete_sql!("created_at <= $1") {
            c.q(sql).bind(before).run().await?;
        }
        Ok::<_, DbError>(())
    })
    .await
}

/// Deletes the catch-ups of a thread.
///
/// # Errors
/// Only database errors.
pub async fn forget_thread(c: &mut Conn, thread: ThreadId) -> Result<(), DbError> {
    for sql in delete_sql!("thread_id = $1") {
        c.q(sql).bind(thread).run().await?;
    }
    Ok(())
}

/// Deletes the catch-ups of a person.
///
/// # Errors
/// Only database errors.
pub async fn forget_person(
    c: &mut Conn,
    workspace: WorkspaceId,
    user: UserId,
) -> Result<(), DbError> {
    for sql in delete_sql!("workspace_id = $1 and user_id = $2") {
        c.q(sql).bind(workspace).bind(user).run().await?;
    }
    Ok(())
}
