//! Messages of an archive: they have no event, and their sequence number is made from their time.

use uuid::Uuid;

use super::{
    ChatError,
    rows::{
        message::{
            AuthorKind, Mention, MessageKind, MessageMetadata, MessageState, Reaction, find_message,
        },
        thread,
    },
    search::index::{self, SearchDocument, ThreadRoot},
};
use crate::{
    auth::quota,
    db::{Conn, DbError, Json},
    files::Attachment,
    ids::{ChannelId, ImportId, MessageId, ThreadId, UserId, WorkspaceId, seq_before_imports_of},
    time::Timestamp,
};

pub use super::rows::message::{
    AuthorKind as ImportedAuthorKind, Mention as ImportedMention,
    MentionKind as ImportedMentionKind, Reaction as ImportedReaction, ShownAs as ImportedShownAs,
};

/// Sequence numbers of one second.
const SEQS_PER_SECOND: i64 = 512;

/// Position of an imported message in its thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImportedPlace {
    /// The first message of a thread.
    Root,
    Reply,
}

/// A message of an archive, translated.
#[derive(Debug, Clone)]
pub struct ImportedMessage {
    /// ID made from the source's key, so that a repeated import finds the message.
    pub id: MessageId,
    pub import: ImportId,
    pub channel: ChannelId,
    pub thread: ThreadId,
    pub place: ImportedPlace,
    pub author_type: AuthorKind,
    pub author: Uuid,
    pub shown_as: Option<ImportedShownAs>,
    pub content: String,
    pub plain: String,
    pub search_document: SearchDocument,
    pub mentions: Vec<Mention>,
    pub reactions: Vec<Reaction>,
    pub attachments: Vec<Attachment>,
    pub created_at: Timestamp,
    pub edited_at: Option<Timestamp>,
}

/// Result of storing an imported message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImportedAs {
    New,
    /// The message was there; its text and reactions are now those of the newer archive unless somebody changed them here.
    Existing,
    /// The thread of the reply was deleted here.
    ThreadGone,
}

/// The next free number of a message's second.
async fn next_seq(c: &mut Conn, workspace: WorkspaceId, at: Timestamp) -> Result<i64, DbError> {
    let mut below = seq_before_imports_of(at.unix_s());
    loop {
        let newest: Option<i64> = c
            .q("select max(seq) from messages where workspace_id = $1 and seq > $2 and seq <= $3")
            .bind(workspace)
            .bind(below)
            .bind(below + SEQS_PER_SECOND)
            .value()
            .await?;
        match newest {
            None => return Ok(below + 1),
            Some(newest) if newest < below + SEQS_PER_SECOND => return Ok(newest + 1),
            Some(_) => below += SEQS_PER_SECOND,
        }
    }
}

/// Inserts an imported message into the search index, its thread, and the storage use. Appends no event, notifies nobody, and
/// starts no task. The workspace must be locked.
///
/// # Errors
/// `QuotaExceeded`.
pub async fn insert_imported(
    c: &mut Conn,
    workspace: WorkspaceId,
    new: &ImportedMessage,
) -> Result<ImportedAs, ChatError> {
    if find_message(c, new.id).await?.is_some() {
        update(c, workspace, new).await?;
        return Ok(ImportedAs::Existing);
    }
    match new.place {
        ImportedPlace::Root => insert_thread(c, workspace, new).await?,
        ImportedPlace::Reply => {
            let is_there: bool = c
                .q("select exists (select 1 from threads where id = $1)")
                .bind(new.thread)
                .value()
                .await?;
            if !is_there {
                return Ok(ImportedAs::ThreadGone);
            }
        }
    }
    let seq = next_seq(c, workspace, new.created_at).await?;
    let bytes = quota::message_bytes(&new.content, &new.plain);
    quota::count_message_within_limit(c, workspace, bytes).await?;
    let metadata = MessageMetadata {
        import_id: Some(new.import),
        shown_as: new.shown_as.clone(),
        ..MessageMetadata::default()
    };
    c.q("insert into messages (id, workspace_id, channel_id, thread_id, conversation_id, seq, author_type, author_id, kind, state, \
         content, content_plain, mentions, reactions, metadata, created_at, edited_at, attachments, counted_bytes) \
         values ($1, $2, $3, $4, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18)")
        .bind(new.id)
        .bind(workspace)
        .bind(new.channel)
        .bind(new.thread)
        .bind(seq)
        .bind(new.author_type)
        .bind(new.author)
        .bind(MessageKind::Text)
        .bind(MessageState::Complete)
        .bind(new.content.clone())
        .bind(new.plain.clone())
        .bind(Json(new.mentions.clone()))
        .bind(Json(new.reactions.clone()))
        .bind(Json(metadata))
        .bind(new.created_at)
        .bind(new.edited_at)
        .bind(Json(new.attachments.clone()))
        .bind(bytes)
        .run()
        .await?;
    let Some(message) = find_message(c, new.id).await? else {
        return Ok(ImportedAs::ThreadGone);
    };
    thread::count_imported(c, &message).await?;
    let root = match new.place {
        ImportedPlace::Root => ThreadRoot::Thread(None),
        ImportedPlace::Reply => ThreadRoot::Nothing,
    };
    index::add(c, &message, &new.search_document, root).await?;
    Ok(ImportedAs::New)
}

async fn insert_thread(
    c: &mut Conn,
    workspace: WorkspaceId,
    new: &ImportedMessage,
) -> Result<(), DbError> {
    c.q("insert into threads (id, workspace_id, channel_id, root_message_id, title, status, reply_count, participants, last_seq, \
         last_activity_at, memory, created_by, created_at) values ($1, $2, $3, $4, null, 'open', -1, $5, $6, $7, 'on', $8, $7) \
         on conflict (id) do nothing")
        .bind(new.thread)
        .bind(workspace)
        .bind(new.channel)
        .bind(new.id)
        .bind(Json(Vec::<thread::Participant>::new()))
        .bind(crate::ids::BEFORE_ALL_SEQS)
        .bind(new.created_at)
        .bind(UserId(new.author))
        .run()
        .await?;
    Ok(())
}

/// Time at which an import was created; the edits in its archive are older.
fn created_at(import: ImportId) -> Option<Timestamp> {
    let (seconds, _) = import.0.get_timestamp()?.to_unix();
    let at = chrono::DateTime::from_timestamp(i64::try_from(seconds).ok()?, 0)?;
    Timestamp::within_years(at)
}

/// Brings a message to the state of a newer archive, unless somebody changed it here.
async fn update(
    c: &mut Conn,
    workspace: WorkspaceId,
    new: &ImportedMessage,
) -> Result<(), DbError> {
    let Some(stored) = find_message(c, new.id).await? else {
        return Ok(());
    };
    let imported_at = stored.metadata.import_id.and_then(created_at);
    let is_changed_here =
        imported_at.is_none_or(|at| stored.edited_at.is_some_and(|edited| edited > at));
    if stored.deleted_at.is_some() || stored.workspace_id != workspace || is_changed_here {
        return Ok(());
    }
    let mut reactions = stored.reactions.clone();
    for reaction in &new.reactions {
        let Some(known) = reactions
            .iter_mut()
            .find(|known| known.emoji == reaction.emoji)
        else {
            reactions.push(reaction.clone());
            continue;
        };
        let more = reaction
            .user_ids
            .iter()
            .filter(|user| !known.user_ids.contains(user));
        let more: Vec<UserId> = more.copied().collect();
        known.user_ids.extend(more);
    }
    if reactions != stored.reactions {
        c.q("update messages set reactions = $2 where id = $1")
            .bind(new.id)
            .bind(Json(reactions))
            .run()
            .await?;
    }
    if new.edited_at > stored.edited_at {
        let metadata = MessageMetadata {
            import_id: Some(new.import),
            ..stored.metadata.clone()
        };
        c.q("update messages set content = $2, content_plain = $3, mentions = $4, edited_at = $5, metadata = $6 where id = $1")
            .bind(new.id)
            .bind(new.content.clone())
            .bind(new.plain.clone())
            .bind(Json(new.mentions.clone()))
            .bind(new.edited_at)
            .bind(Json(metadata))
            .run()
            .await?;
        quota::recount_message(c, workspace, new.id, &new.content, &new.plain).await?;
    }
    index::reindex_stored(c, new.id).await
}
