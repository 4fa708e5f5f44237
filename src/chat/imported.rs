//! Messages of an archive: they have no event, and their sequence number is made from their time.

use serde_json::Value;
use uuid::Uuid;

use super::{
    ChatError, forks, remove,
    rows::{
        channel::{audience, get_channel},
        message::{
            AuthorKind, Mention, Message, MessageKind, MessageMetadata, MessageState, Reaction,
            find_message, set_attachments,
        },
        thread,
        variant::VariantBase,
    },
    search::index::{self, SearchDocument, ThreadRoot},
};
use crate::{
    agents::derived::{self, Change, DELETED, SourceId},
    auth::quota,
    db::{Conn, DbError, Json},
    files::{self, Attachment},
    ids::{
        ChannelId, FileId, ForkId, ImportId, MessageId, ThreadId, UserId, WorkspaceId,
        seq_before_imports_of,
    },
    inbox,
    realtime::{Hub, log},
    tasks::actions,
    time::Timestamp,
};

pub use super::rows::message::{
    AuthorKind as ImportedAuthorKind, ImportFormat, Mention as ImportedMention,
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
    /// A message of a deep dive of the thread.
    Fork(ForkId),
}

/// A message of an archive, translated.
#[derive(Debug, Clone)]
pub struct ImportedMessage {
    /// ID made from the source's key, so that a repeated import finds the message.
    pub id: MessageId,
    /// `None` for the example of a new workspace.
    pub import: Option<ImportId>,
    pub format: Option<ImportFormat>,
    pub channel: ChannelId,
    pub thread: ThreadId,
    /// Title of the thread that the message starts.
    pub title: Option<String>,
    /// Base of the variant of a chat that the message starts.
    pub base: Option<VariantBase>,
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

/// The next free number of the second whose numbers are above `below`; `None` if it is full.
async fn free_seq(
    c: &mut Conn,
    workspace: WorkspaceId,
    below: i64,
) -> Result<Option<i64>, DbError> {
    let last = below + SEQS_PER_SECOND;
    let newest: Option<i64> = c
        .q("select max(seq) from messages where workspace_id = $1 and seq > $2 and seq <= $3")
        .bind(workspace)
        .bind(below)
        .bind(last)
        .value()
        .await?;
    let next = newest.unwrap_or(below) + 1;
    Ok((next <= last).then_some(next))
}

/// The next free number of a message's second, or of the next second that has one. Messages of a full second fill the following ones, so
/// these are tried in growing steps, then in shrinking ones: the number of queries grows with the logarithm of the number of full seconds.
async fn next_seq(c: &mut Conn, workspace: WorkspaceId, at: Timestamp) -> Result<i64, DbError> {
    // A second that is full, or the one before the message's.
    let mut full = seq_before_imports_of(at.unix_s()) - SEQS_PER_SECOND;
    let mut step = SEQS_PER_SECOND;
    let mut free = loop {
        if let Some(seq) = free_seq(c, workspace, full + step).await? {
            break seq;
        }
        full += step;
        step *= 2;
    };
    while step > SEQS_PER_SECOND {
        step /= 2;
        match free_seq(c, workspace, full + step).await? {
            Some(seq) => free = seq,
            None => full += step,
        }
    }
    Ok(free)
}

/// Checks whether a thread exists.
///
/// # Errors
/// Only database errors.
pub async fn has_thread(c: &mut Conn, id: ThreadId) -> Result<bool, DbError> {
    c.q("select exists (select 1 from threads where id = $1)")
        .bind(id)
        .value()
        .await
}

/// The thread of a deep dive in a channel.
///
/// # Errors
/// Only database errors.
pub async fn find_thread_of_fork(
    c: &mut Conn,
    id: ForkId,
    channel: ChannelId,
) -> Result<Option<ThreadId>, DbError> {
    let row: Option<(ThreadId,)> = c
        .q("select thread_id from forks where id = $1 and channel_id = $2")
        .bind(id)
        .bind(channel)
        .opt()
        .await?;
    Ok(row.map(|row| row.0))
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
    if let Some(stored) = find_message(c, new.id).await? {
        update(c, workspace, new, &stored).await?;
        return Ok(ImportedAs::Existing);
    }
    match new.place {
        ImportedPlace::Root => insert_thread(c, workspace, new).await?,
        ImportedPlace::Reply | ImportedPlace::Fork(_) => {
            if !has_thread(c, new.thread).await? {
                return Ok(ImportedAs::ThreadGone);
            }
        }
    }
    let conversation = match new.place {
        ImportedPlace::Fork(fork) => fork.0,
        ImportedPlace::Root | ImportedPlace::Reply => new.thread.0,
    };
    let seq = next_seq(c, workspace, new.created_at).await?;
    let bytes = quota::message_bytes(&new.content, &new.plain);
    quota::count_message_within_limit(c, workspace, bytes).await?;
    let metadata = MessageMetadata {
        import_id: new.import,
        imported_from: new.format,
        example: new.import.is_none(),
        shown_as: new.shown_as.clone(),
        ..MessageMetadata::default()
    };
    c.q("insert into messages (id, workspace_id, channel_id, thread_id, conversation_id, seq, author_type, author_id, kind, state, \
         content, content_plain, mentions, reactions, metadata, created_at, edited_at, attachments, counted_bytes) \
         values ($1, $2, $3, $4, $19, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18)")
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
        .bind(conversation)
        .run()
        .await?;
    let Some(message) = find_message(c, new.id).await? else {
        return Ok(ImportedAs::ThreadGone);
    };
    match new.place {
        ImportedPlace::Fork(fork) => forks::count_imported(c, fork, &message).await?,
        ImportedPlace::Root | ImportedPlace::Reply => thread::count_imported(c, &message).await?,
    }
    let root = match new.place {
        ImportedPlace::Root => ThreadRoot::Thread(new.title.as_deref()),
        ImportedPlace::Reply | ImportedPlace::Fork(_) => ThreadRoot::Nothing,
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
         last_activity_at, memory, created_by, created_at, first_thread_id, variant_message_id, variant_seq) \
         values ($1, $2, $3, $4, $9, 'open', -1, $5, $6, $7, $10, $8, $7, $11, $12, $13)")
        .bind(new.thread)
        .bind(workspace)
        .bind(new.channel)
        .bind(new.id)
        .bind(Json(Vec::<thread::Participant>::new()))
        .bind(crate::ids::BEFORE_ALL_SEQS)
        .bind(new.created_at)
        .bind(UserId(new.author))
        .bind(new.title.clone())
        // Nothing of an example is remembered.
        .bind(match new.import {
            Some(_) => thread::ThreadMemory::On,
            None => thread::ThreadMemory::Off,
        })
        .bind(new.base.map(|base| base.thread))
        .bind(new.base.map(|base| base.message))
        .bind(new.base.map(|base| base.seq))
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

/// Checks whether an imported message is as its archives have it: neither deleted nor edited here.
fn is_unchanged(stored: &Message, workspace: WorkspaceId) -> bool {
    let metadata = &stored.metadata;
    let newest = metadata.updated_by_import_id.or(metadata.import_id);
    let imported_at = newest.and_then(created_at);
    stored.workspace_id == workspace
        && stored.deleted_at.is_none()
        && imported_at.is_some_and(|at| stored.edited_at.is_none_or(|edited| edited <= at))
}

/// Checks whether an import can store a message with this ID: it is new, or as its archives have it.
///
/// # Errors
/// Only database errors.
pub async fn is_open(c: &mut Conn, workspace: WorkspaceId, id: MessageId) -> Result<bool, DbError> {
    let stored = find_message(c, id).await?;
    Ok(stored.is_none_or(|stored| is_unchanged(&stored, workspace)))
}

/// Adds the people and bots of a reaction.
fn add_reaction(reactions: &mut Vec<Reaction>, new: &Reaction) {
    let Some(known) = reactions.iter_mut().find(|r| r.emoji == new.emoji) else {
        reactions.push(new.clone());
        return;
    };
    for user in &new.user_ids {
        if !known.user_ids.contains(user) {
            known.user_ids.push(*user);
        }
    }
    for bot in &new.bot_ids {
        if !known.bot_ids.contains(bot) {
            known.bot_ids.push(*bot);
        }
    }
}

/// Brings a message to the state of a newer archive, unless somebody changed it here.
async fn update(
    c: &mut Conn,
    workspace: WorkspaceId,
    new: &ImportedMessage,
    stored: &Message,
) -> Result<(), DbError> {
    if !is_unchanged(stored, workspace) {
        return Ok(());
    }
    let mut reactions = stored.reactions.clone();
    for reaction in &new.reactions {
        add_reaction(&mut reactions, reaction);
    }
    let has_reactions = reactions != stored.reactions;
    if has_reactions {
        c.q("update messages set reactions = $2 where id = $1")
            .bind(new.id)
            .bind(Json(reactions))
            .run()
            .await?;
    }
    let has_files = new.attachments.len() > stored.attachments.len();
    let is_other = new.content != stored.content || has_files;
    let is_newer = new.edited_at > stored.edited_at;
    let is_changed = is_newer || is_other && new.edited_at == stored.edited_at;
    // The text of a resolution message is that of its result here, from which the erasure of a person can have removed a name.
    if !is_changed || stored.kind == MessageKind::Resolution {
        return Ok(());
    }
    let metadata = MessageMetadata {
        updated_by_import_id: new.import,
        ..stored.metadata.clone()
    };
    c.q("update messages set content = $2, content_plain = $3, mentions = $4, edited_at = $5, metadata = $6, author_type = $7, author_id = $8 \
         where id = $1")
        .bind(new.id)
        .bind(new.content.clone())
        .bind(new.plain.clone())
        .bind(Json(new.mentions.clone()))
        .bind(new.edited_at)
        .bind(Json(metadata))
        .bind(new.author_type)
        .bind(new.author)
        .run()
        .await?;
    if has_files {
        set_attachments(c, new.id, new.attachments.clone()).await?;
    }
    quota::recount_message(c, workspace, new.id, &new.content, &new.plain).await?;
    index::reindex_stored(c, new.id).await
}

/// An imported message, to be removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImportedRow {
    pub seq: i64,
    pub id: MessageId,
    pub channel: ChannelId,
    /// Import that brought the message.
    pub import: Option<ImportId>,
}

/// Imported messages of the workspace with numbers below `below`, newest first, whichever import brought them.
///
/// # Errors
/// Only database errors.
pub async fn list_imported(
    c: &mut Conn,
    workspace: WorkspaceId,
    below: i64,
    limit: i64,
) -> Result<Vec<ImportedRow>, DbError> {
    let rows: Vec<(i64, MessageId, ChannelId, Json<MessageMetadata>)> = c
        .q("select seq, id, channel_id, metadata from messages where workspace_id = $1 and seq < $2 order by seq desc limit $3")
        .bind(workspace)
        .bind(below)
        .bind(limit)
        .all()
        .await?;
    let rows = rows.into_iter();
    let rows = rows.map(|(seq, id, channel, Json(metadata))| ImportedRow {
        seq,
        id,
        channel,
        import: metadata.import_id,
    });
    Ok(rows.collect())
}

/// Condition for a deep dive `f` that must stay: it was started here, somebody wrote in it, or it has a result that was made or edited here.
macro_rules! is_used_fork {
    () => {
        "(not exists (select 1 from imported i where i.id = f.id) \
          or exists (select 1 from messages n where n.conversation_id = f.id and n.seq >= 0) \
          or exists (select 1 from resolutions r where r.fork_id = f.id \
            and (r.revision > 1 or not exists (select 1 from imported i where i.id = r.id))))"
    };
}

/// Checks whether an imported message leaves a tombstone: somebody has written in its conversation, or a message, deep dive, schedule, or
/// variant needs it.
async fn is_kept(c: &mut Conn, message: &Message) -> Result<bool, DbError> {
    if let Some(fork) = message.fork_id {
        return c
            .q(concat!(
                "select exists (select 1 from forks f where f.id = $1 and ",
                is_used_fork!(),
                ")"
            ))
            .bind(fork)
            .value()
            .await;
    }
    c.q(concat!(
        "select exists (select 1 from messages where conversation_id = $1 and seq >= 0) \
         or exists (select 1 from forks f where f.thread_id = $1 and (",
        is_used_fork!(),
        " or (f.message_id = $2 and exists (select 1 from messages m where m.conversation_id = f.id and m.deleted_at is null)))) \
         or exists (select 1 from schedules s where s.thread_id = $1 \
           and (s.version > 1 or not exists (select 1 from imported i where i.id = s.id))) \
         or exists (select 1 from messages m join threads t on t.id = m.thread_id \
           where t.root_message_id = $2 and m.conversation_id = $1 and m.id <> $2 and m.deleted_at is null) \
         or exists (select 1 from threads v where v.first_thread_id = $1 and v.variant_seq >= $3)"
    ))
    .bind(message.thread_id)
    .bind(message.id)
    .bind(message.seq)
    .value()
    .await
}

/// Removes an imported message with its files and everything that was derived from it. In a thread or deep dive in which somebody has
/// written since, and for the first message of a thread with other messages, a tombstone stays. The workspace must be locked.
///
/// # Errors
/// Only database errors.
pub async fn remove_imported(c: &mut Conn, id: MessageId, hub: &Hub) -> Result<(), ChatError> {
    let Some(message) = find_message(c, id).await? else {
        return Ok(());
    };
    if is_kept(c, &message).await? {
        if message.deleted_at.is_none() {
            let channel = get_channel(c, message.channel_id).await?;
            remove::take_back(c, &message, hub, audience(&channel)).await?;
        }
        return Ok(());
    }
    let workspace = message.workspace_id;
    inbox::close::delete_of_message(c, id).await?;
    files::remove_of_message(c, id).await?;
    let attached: Vec<FileId> = message.attachments.iter().map(|file| file.id).collect();
    actions::forget_files(c, &attached, DELETED).await?;
    index::remove(c, &message).await?;
    derived::changed(c, SourceId::Message(id), Change::Deleted).await?;
    log::blank_message(c, workspace, id, remove::blank).await?;
    let counted: i64 = c
        .q("delete from messages where id = $1 returning counted_bytes")
        .bind(id)
        .value()
        .await?;
    quota::count_message(c, workspace, -counted).await?;
    if message.kind == MessageKind::Resolution {
        remove_resolution(c, id).await?;
    }
    match message.fork_id {
        Some(fork) => remove_from_fork(c, fork, message.thread_id).await?,
        None => remove_from_thread(c, &message).await?,
    }
    Ok(())
}

/// Removes the result that a removed message published.
async fn remove_resolution(c: &mut Conn, message: MessageId) -> Result<(), DbError> {
    c.q("update forks set resolution_id = null where resolution_id in (select id from resolutions where message_id = $1)")
        .bind(message)
        .run()
        .await?;
    c.q("delete from resolutions where message_id = $1")
        .bind(message)
        .run()
        .await?;
    Ok(())
}

/// Counts a removed message of a deep dive. If it was the last one, removes the deep dive, and its thread if only tombstones are left there,
/// which waited for the deep dive.
async fn remove_from_fork(c: &mut Conn, fork: ForkId, thread: ThreadId) -> Result<(), DbError> {
    let is_empty: bool = c
        .q("select not exists (select 1 from messages where conversation_id = $1 and deleted_at is null)")
        .bind(fork)
        .value()
        .await?;
    if !is_empty {
        c.q("update forks set message_count = message_count - 1 where id = $1 and message_count > 0")
            .bind(fork)
            .run()
            .await?;
        return Ok(());
    }
    c.q("delete from forks where id = $1")
        .bind(fork)
        .run()
        .await?;
    c.q(concat!(
        "delete from threads where id = $1 \
         and not exists (select 1 from messages where conversation_id = $1 and (deleted_at is null or seq >= 0)) \
         and not exists (select 1 from schedules where thread_id = $1) \
         and not exists (select 1 from forks f where f.thread_id = $1 and (",
        is_used_fork!(),
        " or exists (select 1 from messages m where m.conversation_id = f.id and m.deleted_at is null)))"
    ))
    .bind(thread)
    .run()
    .await?;
    Ok(())
}

/// Counts a removed message of a thread, and removes the thread if nothing of it is left.
async fn remove_from_thread(c: &mut Conn, message: &Message) -> Result<(), DbError> {
    let thread = message.thread_id;
    let is_empty: bool = c
        .q("select not exists (select 1 from messages where conversation_id = $1 and deleted_at is null) \
            and not exists (select 1 from forks f join messages m on m.conversation_id = f.id \
              where f.thread_id = $1 and m.deleted_at is null)")
        .bind(thread)
        .value()
        .await?;
    if is_empty {
        c.q("delete from threads where id = $1")
            .bind(thread)
            .run()
            .await?;
    } else if message.deleted_at.is_none() {
        c.q("update threads set reply_count = reply_count - 1 where id = $1 and root_message_id <> $2 and reply_count > 0")
            .bind(thread)
            .bind(message.id)
            .run()
            .await?;
    }
    Ok(())
}

/// Removes a deep dive that an import brought, unless it has messages or is used here. The workspace must be locked.
///
/// # Errors
/// Only database errors.
pub async fn remove_imported_fork(
    c: &mut Conn,
    workspace: WorkspaceId,
    id: ForkId,
) -> Result<(), DbError> {
    c.q(concat!(
        "delete from forks where id = $1 and workspace_id = $2 \
         and not exists (select 1 from messages where conversation_id = $1 and deleted_at is null) \
         and not exists (select 1 from forks f where f.id = $1 and ",
        is_used_fork!(),
        ")"
    ))
    .bind(id)
    .bind(workspace)
    .run()
    .await?;
    Ok(())
}

/// Replaces each text that is `from`.
fn rename(value: &mut Value, from: &str, to: &str) {
    match value {
        Value::String(text) if text == from => to.clone_into(text),
        Value::Array(list) => list.iter_mut().for_each(|value| rename(value, from, to)),
        Value::Object(map) => map.values_mut().for_each(|value| rename(value, from, to)),
        _ => {}
    }
}

/// Makes a message of one person, or one that names them, that of another person.
///
/// # Errors
/// Only database errors.
pub async fn reassign(
    c: &mut Conn,
    id: MessageId,
    from: UserId,
    to: UserId,
) -> Result<(), DbError> {
    type Row = (Option<Uuid>, Json<Value>, Json<Vec<Reaction>>, Json<Value>);
    let row: Option<Row> = c
        .q("select author_id, mentions, reactions, attachments from messages where id = $1")
        .bind(id)
        .opt()
        .await?;
    let Some((author, Json(mut mentions), Json(reactions), Json(mut attachments))) = row else {
        return Ok(());
    };
    let (old, new) = (from.to_string(), to.to_string());
    rename(&mut mentions, &old, &new);
    rename(&mut attachments, &old, &new);
    let renamed = reactions.into_iter().map(|mut reaction| {
        let has_both = reaction.user_ids.contains(&to);
        reaction.user_ids.retain(|user| *user != from || !has_both);
        for user in &mut reaction.user_ids {
            if *user == from {
                *user = to;
            }
        }
        reaction
    });
    let reactions: Vec<Reaction> = renamed.collect();
    c.q("update messages set author_id = $2, mentions = $3, reactions = $4, attachments = $5 where id = $1")
        .bind(id)
        .bind(if author == Some(from.0) { Some(to.0) } else { author })
        .bind(Json(mentions))
        .bind(Json(reactions))
        .bind(Json(attachments))
        .run()
        .await?;
    c.q("update files set created_by = $3 where message_id = $1 and created_by = $2")
        .bind(id)
        .bind(from)
        .bind(to)
        .run()
        .await?;
    index::reindex_stored(c, id).await
}

/// Replaces a person in a thread's participants, and as its creator.
///
/// # Errors
/// Only database errors.
pub async fn reassign_thread(
    c: &mut Conn,
    id: ThreadId,
    from: UserId,
    to: UserId,
) -> Result<(), DbError> {
    let row: Option<(UserId, Json<Value>)> = c
        .q("select created_by, participants from threads where id = $1")
        .bind(id)
        .opt()
        .await?;
    let Some((creator, Json(mut participants))) = row else {
        return Ok(());
    };
    let (old, new) = (from.to_string(), to.to_string());
    let has_both = participants
        .as_array()
        .is_some_and(|all| all.iter().any(|one| one["id"] == new.as_str()));
    if let (true, Some(all)) = (has_both, participants.as_array_mut()) {
        all.retain(|one| one["id"] != old.as_str());
    }
    rename(&mut participants, &old, &new);
    c.q("update threads set created_by = $2, participants = $3 where id = $1")
        .bind(id)
        .bind(if creator == from { to } else { creator })
        .bind(Json(participants))
        .run()
        .await?;
    Ok(())
}
