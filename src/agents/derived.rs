//! Texts derived from messages and people, and their removal when the source changes.
//!
//! Each derived text stores its sources in the same transaction (`citations`). After a change, every such text can thus be found
//! through an index, regardless of the thread or fork in which it was used.

use std::collections::BTreeSet;

use serde_json::Value;
use uuid::Uuid;

use super::{
    entries::{self, MemoryAction},
    segments::{self, CompactionState},
};
use crate::{
    db::{Conn, DbError, Json, dialect::hexadecimal_ids, now},
    ids::{ActionId, AgentId, CompactionId, FileId, MemoryId, MessageId, UserId, WorkspaceId},
    sql_with_ids,
    tasks::actions::texts::SourceType,
    time::Timestamp,
};

/// Replaces a text whose source was deleted.
pub const DELETED: &str = "(deleted)";
/// Replaces a text whose source was rewritten.
pub const REWRITTEN: &str = "(changed)";

/// Source of a derived text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SourceId {
    Message(MessageId),
    /// A person, whose name the text contains.
    User(UserId),
    /// A person's USER.md, which the text contains; each workspace has its own.
    UserFile(UserId),
    Memory(MemoryId),
    /// A segment, whose summary the text contains.
    Compaction(CompactionId),
    /// Arguments or result of an action, which are deleted together with their sources.
    Action(ActionId),
    /// A file whose text is quoted.
    File(FileId),
}

impl SourceId {
    /// Value of the `source_type` columns.
    pub fn kind(self) -> &'static str {
        let kind = match self {
            Self::Message(_) => SourceType::Message,
            Self::User(_) => SourceType::User,
            Self::UserFile(_) => SourceType::UserFile,
            Self::Memory(_) => SourceType::Memory,
            Self::Compaction(_) => SourceType::Compaction,
            Self::Action(_) => SourceType::Action,
            Self::File(_) => SourceType::File,
        };
        kind.as_str()
    }

    /// Returns the source for a `kind` and a `uuid`; `None` if the kind is unknown.
    pub fn of(kind: &str, id: Uuid) -> Option<Self> {
        [
            Self::Message(MessageId(id)),
            Self::User(UserId(id)),
            Self::UserFile(UserId(id)),
            Self::Memory(MemoryId(id)),
            Self::Compaction(CompactionId(id)),
            Self::Action(ActionId(id)),
            Self::File(FileId(id)),
        ]
        .into_iter()
        .find(|source| source.kind() == kind)
    }

    pub fn uuid(self) -> Uuid {
        match self {
            Self::Message(id) => id.0,
            Self::User(id) | Self::UserFile(id) => id.0,
            Self::Memory(id) => id.0,
            Self::Compaction(id) => id.0,
            Self::Action(id) => id.0,
            Self::File(id) => id.0,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// The author edited the source. Records of prompts are kept as they were sent, and the segment and memory entries made from the
    /// source become stale.
    Edited,
    /// The server replaced the text of the source, and the old text must not be kept.
    Rewritten,
    Deleted,
}

/// Removes everything that was derived from those of the given messages that have been deleted; the others are ignored. Messages
/// without a row are ignored, too, because a prompt that replaces a trigger message has the ID of its task.
pub async fn remove_deleted(
    c: &mut Conn,
    messages: impl IntoIterator<Item = MessageId>,
) -> Result<(), DbError> {
    let sql = sql_with_ids!(
        c,
        "select m.id from messages m where m.deleted_at is not null and m.id in",
        1,
        "order by m.id"
    );
    let deleted: Vec<(MessageId,)> = c
        .q(sql)
        .bind(hexadecimal_ids(messages.into_iter().map(|id| id.0)))
        .all()
        .await?;
    for (message,) in deleted {
        changed(c, SourceId::Message(message), Change::Deleted).await?;
    }
    Ok(())
}

/// Like `remove_deleted`, for messages that were read from their rows: those without one were removed with their thread.
pub async fn remove_deleted_or_gone(
    c: &mut Conn,
    messages: impl IntoIterator<Item = MessageId>,
) -> Result<(), DbError> {
    let messages: BTreeSet<MessageId> = messages.into_iter().collect();
    let sql = sql_with_ids!(
        c,
        "select m.id from messages m where m.deleted_at is null and m.id in",
        1,
        "order by m.id"
    );
    let kept: Vec<(MessageId,)> = c
        .q(sql)
        .bind(hexadecimal_ids(messages.iter().map(|id| id.0)))
        .all()
        .await?;
    let kept: BTreeSet<MessageId> = kept.into_iter().map(|(id,)| id).collect();
    let gone: Vec<MessageId> = messages.difference(&kept).copied().collect();
    for message in gone {
        changed(c, SourceId::Message(message), Change::Deleted).await?;
    }
    Ok(())
}

/// Filters the given entries: returns the IDs of those that were forgotten or do not exist.
pub async fn forgotten_of(c: &mut Conn, entries: &[MemoryId]) -> Result<Vec<MemoryId>, DbError> {
    let sql = sql_with_ids!(
        c,
        "select e.id from memories e where e.forgotten_at is null and e.id in",
        1,
        ""
    );
    let kept: Vec<(MemoryId,)> = c
        .q(sql)
        .bind(hexadecimal_ids(entries.iter().map(|id| id.0)))
        .all()
        .await?;
    Ok(entries
        .iter()
        .copied()
        .filter(|id| !kept.contains(&(*id,)))
        .collect())
}

/// Filters the given people: returns those who have no USER.md in the workspace.
pub async fn without_file(
    c: &mut Conn,
    workspace: WorkspaceId,
    people: &[UserId],
) -> Result<Vec<UserId>, DbError> {
    let sql = sql_with_ids!(
        c,
        "select f.user_id from user_files f where f.workspace_id = $1 and f.content is not null and f.user_id in",
        2,
        ""
    );
    let kept: Vec<(UserId,)> = c
        .q(sql)
        .bind(workspace)
        .bind(hexadecimal_ids(people.iter().map(|id| id.0)))
        .all()
        .await?;
    Ok(people
        .iter()
        .copied()
        .filter(|id| !kept.contains(&(*id,)))
        .collect())
}

/// Applies a change of the source to everything that was derived from it. Runs a fixed number of indexed statements for
/// prompts, because texts are shared between tasks, and a few statements for each memory entry.
pub async fn changed(c: &mut Conn, source: SourceId, change: Change) -> Result<(), DbError> {
    if let SourceId::Message(id) = source {
        let state = match change {
            Change::Edited => CompactionState::Stale,
            Change::Rewritten | Change::Deleted => CompactionState::Blank,
        };
        // A single model call read all messages of the segment, so any of the segment's texts can contain text from this message.
        if let Some(segment) = segments::message_changed(c, id, state).await? {
            blank_segment(c, segment).await?;
        }
        if change != Change::Deleted {
            become_stale(c, id.0).await?;
        }
    }
    match change {
        Change::Edited => {}
        Change::Rewritten => {
            c.q("update context_texts set text = $3, hash = null where hash is not null and id in \
                 (select owner_id from citations where source_type = $1 and source_id = $2 and owner_type = 'context_text')")
                .bind(source.kind())
                .bind(source.uuid())
                .bind(REWRITTEN)
                .run()
                .await?;
        }
        Change::Deleted => {
            match source {
                SourceId::Message(id) => {
                    lose_source(c, id.0).await?;
                    forget_scores(c, id).await?;
                }
                SourceId::Memory(id) => forget_all(c, vec![id]).await?,
                SourceId::Compaction(id) => blank_segment(c, id).await?,
                SourceId::User(user) => {
                    c.q("delete from citations where source_type = $1 and source_id = $2")
                        .bind(SourceId::UserFile(user).kind())
                        .bind(user)
                        .run()
                        .await?;
                }
                SourceId::UserFile(_) | SourceId::Action(_) | SourceId::File(_) => {}
            }
            blank_texts(c, source).await?;
            c.q("delete from citations where source_type = $1 and source_id = $2")
                .bind(source.kind())
                .bind(source.uuid())
                .run()
                .await?;
        }
    }
    Ok(())
}

/// Removes the scores of a message from the adaptation states of its author.
async fn forget_scores(c: &mut Conn, message: MessageId) -> Result<(), DbError> {
    let states: Vec<(Uuid, Json<Vec<Value>>, Timestamp)> = c
        .q(
            "select s.id, s.scores, m.created_at from messages m join adaptation_states s \
            on s.conversation_id = m.conversation_id and s.user_id = m.author_id where m.id = $1",
        )
        .bind(message)
        .all()
        .await?;
    for (id, Json(mut scores), at) in states {
        let at = Value::from(at.to_text());
        let is_newest = scores.last().is_some_and(|score| score["at"] == at);
        let before = scores.len();
        scores.retain(|score| score["at"] != at);
        if scores.len() == before {
            continue;
        }
        c.q("update adaptation_states set scores = $2, last_event = case when $3 then null else last_event end where id = $1")
            .bind(id)
            .bind(Json(scores))
            .bind(is_newest)
            .run()
            .await?;
    }
    Ok(())
}

/// Blanks the texts that cite the source in all records of prompts.
async fn blank_texts(c: &mut Conn, source: SourceId) -> Result<(), DbError> {
    c.q("update context_texts set text = $3, hash = null where id in \
         (select owner_id from citations where source_type = $1 and source_id = $2 and owner_type = 'context_text')")
        .bind(source.kind())
        .bind(source.uuid())
        .bind(DELETED)
        .run()
        .await?;
    Ok(())
}

/// Removes a person's USER.md from all records of prompts in a workspace.
pub async fn forget_user_file(
    c: &mut Conn,
    workspace: WorkspaceId,
    user: UserId,
) -> Result<(), DbError> {
    let source = SourceId::UserFile(user);
    c.q("update context_texts set text = $4, hash = null where workspace_id = $1 and id in \
         (select owner_id from citations where source_type = $2 and source_id = $3 and owner_type = 'context_text')")
        .bind(workspace)
        .bind(source.kind())
        .bind(source.uuid())
        .bind(DELETED)
        .run()
        .await?;
    Ok(())
}

/// Removes the texts of entries everywhere: the entries, their words, prompts, and copies that were made from them. The
/// rows keep just enough to prevent the same entry from being recreated from the same messages.
pub(super) async fn forget_all(c: &mut Conn, entries: Vec<MemoryId>) -> Result<(), DbError> {
    let mut open = entries;
    while !open.is_empty() {
        let ids = || hexadecimal_ids(open.iter().map(|id| id.0));
        let sql = sql_with_ids!(
            c,
            "update memories set text = '', words = 0, status = 'archived', forgotten_at = $2, updated_at = $2, version = version + 1 \
             where forgotten_at is null and id in",
            1,
            "returning id"
        );
        let forgotten: Vec<(MemoryId,)> = c.q(sql).bind(ids()).bind(now()).all().await?;
        for (id,) in forgotten {
            entries::announce(c, id, MemoryAction::Deleted).await?;
        }
        let sql = sql_with_ids!(c, "delete from memory_words where memory_id in", 1, "");
        c.q(sql).bind(ids()).run().await?;
        let sql = sql_with_ids!(
            c,
            "update context_texts set text = $2, hash = null where id in (select owner_id from citations \
             where source_type = 'memory' and owner_type = 'context_text' and source_id in",
            1,
            ")"
        );
        c.q(sql).bind(ids()).bind(DELETED).run().await?;
        // A published copy cites the entry from which it was made.
        let sql = sql_with_ids!(
            c,
            "select distinct owner_id from citations where source_type = 'memory' and owner_type = 'memory' and source_id in",
            1,
            "order by owner_id"
        );
        let copies: Vec<(MemoryId,)> = c.q(sql).bind(ids()).all().await?;
        let sql = sql_with_ids!(
            c,
            "delete from citations where source_type = 'memory' and source_id in",
            1,
            ""
        );
        c.q(sql).bind(ids()).run().await?;
        open = copies.into_iter().map(|(id,)| id).collect();
    }
    Ok(())
}

/// Removes all texts that were made from a segment. Segments that share an entry with it are rebuilt.
async fn blank_segment(c: &mut Conn, segment: CompactionId) -> Result<(), DbError> {
    segments::stale_sharers(c, segment).await?;
    let entries = automatic(c, segment).await?;
    let archived = entries.iter().filter(|entry| entry.is_archived);
    forget_all(c, archived.map(|entry| entry.id).collect()).await?;
    let others = entries.iter().filter(|entry| !entry.is_archived);
    let others: Vec<MemoryId> = others.map(|entry| entry.id).collect();
    forget_all(c, others.clone()).await?;
    delete_rows(c, &others).await?;
    blank_texts(c, SourceId::Compaction(segment)).await
}

/// Removes the automatic entries of a segment that is being rebuilt, except for archived ones. Records of prompts stay
/// as they were sent, and cite the segment instead.
pub async fn remove_replaced(c: &mut Conn, segment: CompactionId) -> Result<(), DbError> {
    segments::hand_over(c, segment).await?;
    let entries = automatic(c, segment).await?.into_iter();
    let replaced = entries.filter(|entry| !entry.is_archived);
    let replaced: Vec<MemoryId> = replaced.map(|entry| entry.id).collect();
    for id in &replaced {
        entries::announce(c, *id, MemoryAction::Deleted).await?;
    }
    let ids = || hexadecimal_ids(replaced.iter().map(|id| id.0));
    let sql = sql_with_ids!(
        c,
        "insert into citations (source_type, source_id, owner_type, owner_id) select distinct 'compaction', $2, owner_type, owner_id \
         from citations where source_type = 'memory' and owner_type = 'context_text' and source_id in",
        1,
        "on conflict do nothing"
    );
    c.q(sql).bind(ids()).bind(segment).run().await?;
    let sql = sql_with_ids!(
        c,
        "delete from citations where source_type = 'memory' and source_id in",
        1,
        ""
    );
    c.q(sql).bind(ids()).run().await?;
    delete_rows(c, &replaced).await
}

/// Removes entries whose paragraphs are no longer in their file. Records of prompts stay as they were sent.
pub async fn remove_paragraphs(c: &mut Conn, entries: &[MemoryId]) -> Result<(), DbError> {
    if entries.is_empty() {
        return Ok(());
    }
    let sql = sql_with_ids!(
        c,
        "delete from citations where source_type = 'memory' and source_id in",
        1,
        ""
    );
    let ids = hexadecimal_ids(entries.iter().map(|id| id.0));
    c.q(sql).bind(ids).run().await?;
    delete_rows(c, entries).await
}

#[derive(sqlx::FromRow)]
struct Automatic {
    id: MemoryId,
    is_archived: bool,
}

async fn automatic(c: &mut Conn, segment: CompactionId) -> Result<Vec<Automatic>, DbError> {
    c.q("select id, status = 'archived' as is_archived from memories where compaction_id = $1 and origin = 'auto' \
         and forgotten_at is null order by id")
        .bind(segment)
        .all()
        .await
}

/// Deletes rows of entries. Entries that they had superseded become current again.
async fn delete_rows(c: &mut Conn, entries: &[MemoryId]) -> Result<(), DbError> {
    let ids = || hexadecimal_ids(entries.iter().map(|id| id.0));
    let sql = sql_with_ids!(
        c,
        "update memories set status = 'active', superseded_by = null, updated_at = $2, version = version + 1 \
         where status = 'superseded' and forgotten_at is null and superseded_by in",
        1,
        "returning id"
    );
    let current: Vec<(MemoryId,)> = c.q(sql).bind(ids()).bind(now()).all().await?;
    for (id,) in current {
        entries::announce(c, id, MemoryAction::Updated).await?;
    }
    let sql = sql_with_ids!(
        c,
        "delete from citations where owner_type = 'memory' and owner_id in",
        1,
        ""
    );
    c.q(sql).bind(ids()).run().await?;
    let sql = sql_with_ids!(c, "delete from memories where id in", 1, "");
    c.q(sql).bind(ids()).run().await?;
    Ok(())
}

/// Removes entries with all texts that were made from them. Entries that they had superseded become current again.
pub async fn remove_entries(c: &mut Conn, entries: &[MemoryId]) -> Result<(), DbError> {
    forget_all(c, entries.to_vec()).await?;
    delete_rows(c, entries).await
}

/// Lists the oldest entries that belong to an agent, which have to be forgotten before it is deleted.
pub(super) async fn entries_of(
    c: &mut Conn,
    agent: AgentId,
    limit: i64,
) -> Result<Vec<MemoryId>, DbError> {
    let entries: Vec<(MemoryId,)> = c
        .q("select id from memories where agent_id = $1 and forgotten_at is null order by id limit $2")
        .bind(agent)
        .bind(limit)
        .all()
        .await?;
    Ok(entries.into_iter().map(|(id,)| id).collect())
}

/// Removes a deleted message from the sources of entries. An entry is removed with its last source. An automatic entry
/// without a segment, which an agent made with a tool, is removed with any of its sources.
async fn lose_source(c: &mut Conn, message: Uuid) -> Result<(), DbError> {
    let orphans: Vec<(MemoryId,)> = c
        .q("select e.id from citations k join memories e on e.id = k.owner_id where k.source_type = 'message' and k.source_id = $1 \
            and k.owner_type = 'memory' and e.forgotten_at is null and ((e.origin = 'auto' and e.compaction_id is null) \
            or not exists (select 1 from citations o where o.owner_type = 'memory' and o.owner_id = e.id and o.source_type = 'message' \
            and o.source_id <> $1)) order by e.id")
        .bind(message)
        .all()
        .await?;
    forget_all(c, orphans.into_iter().map(|(id,)| id).collect()).await
}

/// Marks active entries as stale if they cite an edited message. Stale entries are not used in prompts until someone confirms them.
async fn become_stale(c: &mut Conn, message: Uuid) -> Result<(), DbError> {
    let stale: Vec<(MemoryId,)> = c
        .q("update memories set status = 'stale', updated_at = $2, version = version + 1 where status = 'active' and id in \
            (select owner_id from citations where source_type = 'message' and source_id = $1 and owner_type = 'memory') returning id")
        .bind(message)
        .bind(now())
        .all()
        .await?;
    for (id,) in stale {
        entries::announce(c, id, MemoryAction::Updated).await?;
    }
    Ok(())
}
