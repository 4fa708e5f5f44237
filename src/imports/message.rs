//! Translates messages of an archive, and stores them with their files, reactions, and mentions.

use std::collections::HashMap;

use uuid::Uuid;

use super::{
    error::ImportError,
    key::{Identity, Keys, RecordKind},
    options::{ImportFormat, ImportGroup},
    people::{Known, store_author},
    record::{
        SourceAuthor, SourceFile, SourceMessage, SourceQuestion, SourceReaction, is_linkable,
    },
    report::{ImportReport, RecordOutcome},
};
use crate::{
    agents::profiles,
    chat::{
        bindings,
        imported::{
            ImportedAs, ImportedAuthorKind, ImportedMention, ImportedMentionKind, ImportedMessage,
            ImportedPlace, ImportedReaction, ImportedShownAs, find_thread_of_fork, has_thread,
            insert_imported, is_open,
        },
        mentions::{self, RawMention},
        messages::{imported_emoji, parse_emoji},
        pins,
        plain::to_plain,
        post::parse_title,
        search::index::SearchDocument,
        variants::VariantBase,
    },
    db::{Conn, DbError},
    files::{
        self, ATTACHMENTS_MAX, Attachment, Blobs, FileError, Incoming, Kind, MessageFile,
        Published, clean_name,
    },
    ids::{AgentId, ChannelId, FileId, ForkId, ImportId, MessageId, ThreadId, UserId, WorkspaceId},
    realtime::hub::Conversation,
    time::Timestamp,
};

/// Maximum size of the text of a message; the rest is a file.
const TEXT_BYTES_MAX: usize = 32 * 1024;
/// Maximum number of reactions of a message.
const REACTIONS_MAX: usize = 100;
/// Latest time of a message, in 2061: the sequence numbers of later ones would not stay negative, and those above belong to events.
pub(super) const LATEST_UNIX_S: i64 = 2_900_000_000;
const NOT_IN_EXPORT: &str = "(not in the export)";
const THREAD_GONE: &str = "its thread was deleted here";
pub(super) const FORK_GONE: &str = "its deep dive does not exist here";

/// A channel here, and its key in the archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ChannelPlace {
    pub(super) key: String,
    pub(super) id: ChannelId,
    /// True if messages outside of threads are grouped by day.
    pub(super) groups_by_day: bool,
}

/// Chats of a person with an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ChatPlace {
    pub(super) channel: ChannelId,
    pub(super) person: UserId,
    pub(super) agent: AgentId,
    /// Newest version of the agent.
    pub(super) version: i64,
}

impl ChatPlace {
    /// The direct channel of this person alone with an agent, if it is one.
    pub(super) async fn find(
        c: &mut Conn,
        workspace: WorkspaceId,
        channel: ChannelId,
        person: UserId,
    ) -> Result<Option<Self>, ImportError> {
        let row: Option<(AgentId,)> = c
            .q("select ch.agent_id from channels ch join channel_members cm on cm.channel_id = ch.id and cm.user_id = $3 \
                where ch.id = $1 and ch.workspace_id = $2 and ch.kind = 'direct' and ch.agent_id is not null \
                and not exists (select 1 from direct_members o where o.channel_id = ch.id and o.user_id <> $3)")
            .bind(channel)
            .bind(workspace)
            .bind(person)
            .opt()
            .await?;
        let Some((agent,)) = row else {
            return Ok(None);
        };
        let version = profiles::newest_version(c, agent).await?;
        Ok(version.map(|version| Self {
            channel,
            person,
            agent,
            version,
        }))
    }

    /// Identity of an author of the chats.
    fn author(self, author: &SourceAuthor) -> Known {
        if author.is_bot {
            return Known::Agent { id: self.agent };
        }
        Known::Person {
            id: self.person,
            handle: String::new(),
        }
    }
}

/// Stored bytes of a file of the archive, whose row is not stored yet.
pub(super) struct NewImportedFile {
    pub(super) published: Published,
    pub(super) name: String,
    pub(super) kind: Kind,
}

/// Stores the bytes of a file. Returns `None` for an empty file.
pub(super) async fn store_bytes(
    blobs: &Blobs,
    name: &str,
    bytes: &[u8],
) -> Result<Option<NewImportedFile>, ImportError> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let mut incoming = blobs.begin(None).await?;
    incoming.write(bytes).await?;
    Ok(Some(publish(blobs, incoming, name).await?))
}

/// Publishes the bytes of a file that were written.
pub(super) async fn publish(
    blobs: &Blobs,
    incoming: Incoming,
    name: &str,
) -> Result<NewImportedFile, FileError> {
    let name = clean_name(name);
    let whole = incoming.finish().await?;
    let kind = Kind::of(&whole.head, &name);
    let published = blobs.publish(whole).await?;
    Ok(NewImportedFile {
        published,
        name,
        kind,
    })
}

/// A message, translated outside of transactions.
#[derive(Debug, Clone)]
pub(super) struct Translated {
    content: String,
    plain: String,
    search_document: SearchDocument,
    mentions: Vec<RawMention>,
    reactions: Vec<(String, Vec<String>)>,
    at: Option<Timestamp>,
    edited_at: Option<Timestamp>,
}

pub(super) fn timestamp(us: i64) -> Option<Timestamp> {
    let at = chrono::DateTime::from_timestamp_micros(us).and_then(Timestamp::within_years);
    at.filter(|at| at.unix_s() < LATEST_UNIX_S)
}

/// The emoji of a reaction: `clap::skin-tone-2`, a custom one as `:name:`.
fn emoji(name: &str) -> Option<String> {
    let (base, tone) = name.split_once("::").unwrap_or((name, ""));
    let known = imported_emoji(base, tone.strip_prefix("skin-tone-"));
    let emoji = known.unwrap_or_else(|| format!(":{base}:"));
    parse_emoji(&emoji).ok()
}

fn reactions(source: &[SourceReaction]) -> Vec<(String, Vec<String>)> {
    let mut joined: Vec<(String, Vec<String>)> = Vec::new();
    for reaction in source.iter().take(REACTIONS_MAX) {
        let Some(emoji) = emoji(&reaction.name) else {
            continue;
        };
        let Some((_, people)) = joined.iter_mut().find(|(known, _)| *known == emoji) else {
            joined.push((emoji, reaction.people.clone()));
            continue;
        };
        people.extend(reaction.people.iter().cloned());
    }
    joined
}

/// Text of a message, with links to the files whose bytes are not in the archive.
fn content_of(source: &SourceMessage, linked: &[usize]) -> String {
    let mut parts = vec![source.text.trim_end().to_owned()];
    for n in linked {
        let file = &source.files[*n];
        let name = file
            .name
            .replace(['[', ']', '\n', '\r', '<', '>', '`', '*', '_'], " ");
        parts.push(match &file.url {
            Some(url) if is_linkable(url) => {
                format!("[{}](<{url}>)", name.trim())
            }
            _ => format!("({}, not in the export)", name.trim()),
        });
    }
    parts.retain(|part| !part.trim().is_empty());
    parts.join("\n\n").replace('\0', "")
}

/// Title of the thread that a message starts.
fn title_of(source: &SourceMessage) -> Option<String> {
    let thread = source.thread.as_ref().filter(|t| t.key == source.key)?;
    // A title that people could not give is left out.
    parse_title(thread.title.as_deref()).ok().flatten()
}

/// ID of a message here.
pub(super) async fn message_id(
    c: &mut Conn,
    keys: &Keys,
    channel: &ChannelPlace,
    key: &str,
    at: Timestamp,
) -> Result<MessageId, DbError> {
    let identity = Identity {
        kind: RecordKind::Messages,
        at_ms: at.unix_ms(),
        key: &format!("{}:{key}", channel.key),
        in_archive: MessageId::parse(key).ok().map(|id| id.0),
        owner: Some(channel.id.0),
    };
    Ok(MessageId(keys.id_here(c, identity).await?))
}

/// ID of a file of a message here.
pub(super) async fn file_id(
    c: &mut Conn,
    keys: &Keys,
    message: MessageId,
    at_us: i64,
    key: &str,
) -> Result<FileId, DbError> {
    let identity = Identity {
        kind: RecordKind::Files,
        at_ms: at_us / 1000,
        key: &format!("{message}:{key}"),
        in_archive: FileId::parse(key).ok().map(|id| id.0),
        owner: Some(message.0),
    };
    Ok(FileId(keys.id_here(c, identity).await?))
}

/// Files of a message that it can have as attachments, unless they are only links.
pub(super) fn attachable(source: &SourceMessage) -> impl Iterator<Item = &SourceFile> {
    let files = source.files.iter().take(ATTACHMENTS_MAX - 1);
    files.filter(|file| file.left_out.is_none())
}

impl Translated {
    /// `here` checks whether the bytes of a file are available.
    pub(super) fn of(source: &SourceMessage, here: &dyn Fn(&str) -> bool) -> Self {
        let linked: Vec<usize> = (0..source.files.len())
            .filter(|n| {
                let file = &source.files[*n];
                *n >= ATTACHMENTS_MAX - 1 || (file.left_out.is_none() && !here(&file.key))
            })
            .collect();
        let whole = content_of(source, &linked);
        let content = whole[..whole.floor_char_boundary(TEXT_BYTES_MAX)].to_owned();
        let plain = to_plain(&content);
        Self {
            search_document: SearchDocument::of(&content, &plain),
            mentions: mentions::parse(&content),
            reactions: reactions(&source.reactions),
            at: timestamp(source.at_us),
            edited_at: source.edited_us.and_then(timestamp),
            content,
            plain,
        }
    }
}

/// The whole text of a message that is too long, as a file, and its key.
pub(super) async fn long_text(
    blobs: &Blobs,
    source: &SourceMessage,
) -> Result<Option<(String, NewImportedFile)>, ImportError> {
    if source.text.len() <= TEXT_BYTES_MAX {
        return Ok(None);
    }
    let file = store_bytes(blobs, "message.md", source.text.as_bytes()).await?;
    Ok(file.map(|file| (long_key(&source.key), file)))
}

fn long_key(message: &str) -> String {
    format!("text of {message}")
}

/// Counts the files of a message that is not stored.
fn leave_out_files(
    source: &SourceMessage,
    reason: &'static str,
    place: &str,
    report: &mut ImportReport,
) {
    for file in &source.files {
        let place = format!("{place} {}", file.key);
        report.count(RecordKind::Files, RecordOutcome::LeftOut(reason), &place);
    }
}

/// Message to which files belong.
#[derive(Debug, Clone, Copy)]
struct FileOwner {
    message: MessageId,
    author: UserId,
    at: Timestamp,
}

/// Stores the messages of a batch.
pub(super) struct Storing<'a> {
    pub(super) import: ImportId,
    pub(super) format: Option<ImportFormat>,
    pub(super) keys: &'a Keys,
    pub(super) creator: UserId,
    pub(super) people: &'a HashMap<String, Known>,
    pub(super) by_handle: &'a HashMap<String, UserId>,
    /// Names of agents by their IDs in the archive.
    pub(super) agents: &'a HashMap<String, String>,
    /// People who were not in the list.
    pub(super) strangers: HashMap<String, Known>,
    pub(super) group: ImportGroup,
    /// Place of a person's chats, if the archive has these.
    pub(super) chat: Option<ChatPlace>,
    pub(super) files: &'a HashMap<String, NewImportedFile>,
    /// Reasons why files were not fetched, by key.
    pub(super) failed: &'a HashMap<String, &'static str>,
    /// Keys of files whose rows were stored, and the uploads whose bytes they use.
    pub(super) used: Vec<(String, Uuid)>,
}

impl Storing<'_> {
    pub(super) fn known(&self, key: &str) -> Option<&Known> {
        self.people.get(key).or_else(|| self.strangers.get(key))
    }

    async fn author(
        &mut self,
        c: &mut Conn,
        source: &SourceMessage,
    ) -> Result<Option<Known>, ImportError> {
        let author = source.author.as_ref();
        if let (Some(chat), Some(author)) = (self.chat, author) {
            return Ok(Some(chat.author(author)));
        }
        if let Some(known) = author.and_then(|author| self.known(&author.key)) {
            return Ok(Some(known.clone()));
        }
        self.stranger(c, author).await
    }

    pub(super) async fn stranger(
        &mut self,
        c: &mut Conn,
        author: Option<&SourceAuthor>,
    ) -> Result<Option<Known>, ImportError> {
        let (key, known) = store_author(c, self.keys, author, self.creator).await?;
        if let Some(known) = &known {
            self.strangers.insert(key, known.clone());
        }
        Ok(known)
    }

    /// ID of a thread here. `key` is that of its first message, or of its day.
    async fn thread_id(
        &self,
        c: &mut Conn,
        channel: &ChannelPlace,
        in_archive: Option<ThreadId>,
        key: &str,
        at: Timestamp,
    ) -> Result<ThreadId, DbError> {
        let identity = Identity {
            kind: RecordKind::Threads,
            at_ms: at.unix_ms(),
            key: &format!("{}:{key}", channel.key),
            in_archive: in_archive.map(|id| id.0),
            owner: Some(channel.id.0),
        };
        Ok(ThreadId(self.keys.id_here(c, identity).await?))
    }

    /// Stores a message with its files, and counts the files.
    pub(super) async fn store(
        &mut self,
        c: &mut Conn,
        channel: &ChannelPlace,
        source: &SourceMessage,
        translated: &Translated,
        place: &str,
        report: &mut ImportReport,
    ) -> Result<RecordOutcome, ImportError> {
        let Some(at) = translated.at else {
            return Ok(RecordOutcome::LeftOut("no time"));
        };
        let id = message_id(c, self.keys, channel, &source.key, at).await?;
        let Some(author) = self.author(c, source).await? else {
            return Ok(RecordOutcome::LeftOut("erased"));
        };
        let (author_type, author_id) = match &author {
            Known::Person { id, .. } => (ImportedAuthorKind::Human, id.0),
            Known::Bot { id } => (ImportedAuthorKind::Bot, id.0),
            Known::Agent { id } => (ImportedAuthorKind::Agent, id.0),
            Known::Erased => return Ok(RecordOutcome::LeftOut("erased")),
        };
        if source.is_cited {
            let (kind, key) = (RecordKind::Messages, &source.key);
            self.keys.store(c, kind, key, id.0).await?;
        }
        if !is_open(c, self.keys.workspace, id).await? {
            let reason = "its message was changed or deleted here";
            leave_out_files(source, reason, place, report);
            return Ok(RecordOutcome::Existing);
        }
        let (found, gone) = match &source.fork {
            Some(fork) => (self.fork_of(c, channel, fork).await?, FORK_GONE),
            None => (self.thread_of(c, channel, source, at).await?, THREAD_GONE),
        };
        let Some((thread, position)) = found else {
            // Checked before files are stored, which would belong to no message.
            leave_out_files(source, gone, place, report);
            return Ok(RecordOutcome::LeftOut(gone));
        };
        let root = source.thread.as_ref();
        let question = root.and_then(|root| root.variant_of.as_ref());
        let base = match question.filter(|_| position == ImportedPlace::Root) {
            Some(question) => {
                let base = self.base_of(c, channel, question).await?;
                if base.is_none() {
                    leave_out_files(source, THREAD_GONE, place, report);
                    return Ok(RecordOutcome::LeftOut(THREAD_GONE));
                }
                base
            }
            None => None,
        };
        let owner = FileOwner {
            message: id,
            author: match author {
                // An agent's file belongs to the person.
                Known::Agent { .. } => self.creator,
                _ => UserId(author_id),
            },
            at,
        };
        let attachments = self.attach(c, source, owner, place, report).await?;
        let shown_as = source
            .author
            .as_ref()
            .and_then(|author| author.shown_as.clone());
        let new = ImportedMessage {
            id,
            import: Some(self.import),
            format: self.format,
            channel: channel.id,
            thread,
            title: title_of(source),
            base,
            place: position,
            author_type,
            author: author_id,
            shown_as: shown_as.map(|name| ImportedShownAs {
                name: Some(name.chars().take(80).collect()),
                ..ImportedShownAs::default()
            }),
            content: translated.content.clone(),
            plain: translated.plain.clone(),
            search_document: translated.search_document.clone(),
            mentions: self.mentions(&translated.mentions),
            reactions: self.reactions(c, &translated.reactions).await?,
            attachments,
            created_at: at,
            edited_at: translated.edited_at,
        };
        let stored = insert_imported(c, self.keys.workspace, &new).await?;
        if let Some(chat) = self.chat.filter(|_| position == ImportedPlace::Root)
            && stored == ImportedAs::New
        {
            let conversation = Conversation::Thread(thread);
            let (workspace, agent) = (self.keys.workspace, chat.agent);
            bindings::bind(c, workspace, thread, conversation, agent, chat.version).await?;
        }
        if stored == ImportedAs::New && source.is_pinned {
            pins::pin_imported(c, id, self.creator).await?;
        }
        Ok(match stored {
            ImportedAs::New => RecordOutcome::Imported,
            ImportedAs::Existing => RecordOutcome::Existing,
            ImportedAs::ThreadGone => RecordOutcome::LeftOut(THREAD_GONE),
        })
    }

    /// The deep dive of a message and its thread; `None` if it is not in the channel.
    async fn fork_of(
        &self,
        c: &mut Conn,
        channel: &ChannelPlace,
        key: &str,
    ) -> Result<Option<(ThreadId, ImportedPlace)>, ImportError> {
        let Some(id) = self.keys.find(c, RecordKind::Forks, key).await? else {
            return Ok(None);
        };
        let fork = ForkId(id);
        let thread = find_thread_of_fork(c, fork, channel.id).await?;
        Ok(thread.map(|thread| (thread, ImportedPlace::Fork(fork))))
    }

    /// The thread of a message: that of its root, of its day, or its own; `None` if it was deleted here.
    async fn thread_of(
        &mut self,
        c: &mut Conn,
        channel: &ChannelPlace,
        source: &SourceMessage,
        at: Timestamp,
    ) -> Result<Option<(ThreadId, ImportedPlace)>, ImportError> {
        let root = source.thread.as_ref();
        if let Some(root) = root.filter(|root| root.key != source.key) {
            let root_at = timestamp(root.at_us).unwrap_or(at);
            let thread = self
                .thread_id(c, channel, root.id, &root.key, root_at)
                .await?;
            if !has_thread(c, thread).await? {
                if root.variant_of.is_some() {
                    return Ok(None);
                }
                self.store_missing_root(c, channel, thread, root_at, &root.key)
                    .await?;
                if !has_thread(c, thread).await? {
                    return Ok(None);
                }
            }
            return Ok(Some((thread, ImportedPlace::Reply)));
        }
        let is_of_day =
            channel.groups_by_day && self.group == ImportGroup::Day && source.thread.is_none();
        let (start, key) = if is_of_day {
            (at.day_start(), "day")
        } else {
            let root_at = root.and_then(|root| timestamp(root.at_us));
            (root_at.unwrap_or(at), source.key.as_str())
        };
        let in_archive = root.and_then(|root| root.id);
        let thread = self.thread_id(c, channel, in_archive, key, start).await?;
        let position = if has_thread(c, thread).await? {
            ImportedPlace::Reply
        } else {
            ImportedPlace::Root
        };
        Ok(Some((thread, position)))
    }

    /// Base of the version of a chat that asks a question again; `None` if the question is not in the first version here.
    async fn base_of(
        &self,
        c: &mut Conn,
        channel: &ChannelPlace,
        question: &SourceQuestion,
    ) -> Result<Option<VariantBase>, DbError> {
        let Some(at) = timestamp(question.at_us) else {
            return Ok(None);
        };
        let message = message_id(c, self.keys, channel, &question.key, at).await?;
        let row: Option<(ThreadId, i64)> = c
            .q("select m.thread_id, m.seq from messages m join threads t on t.id = m.thread_id \
                where m.id = $1 and m.channel_id = $2 and m.deleted_at is null and t.first_thread_id is null")
            .bind(message)
            .bind(channel.id)
            .opt()
            .await?;
        Ok(row.map(|(thread, seq)| VariantBase {
            thread,
            message,
            seq,
        }))
    }

    /// Inserts the first message of a thread that the export does not have.
    async fn store_missing_root(
        &mut self,
        c: &mut Conn,
        channel: &ChannelPlace,
        thread: ThreadId,
        at: Timestamp,
        key: &str,
    ) -> Result<(), ImportError> {
        let Some(Known::Person { id: author, .. }) = self.stranger(c, None).await? else {
            return Ok(());
        };
        let plain = to_plain(NOT_IN_EXPORT);
        let new = ImportedMessage {
            id: message_id(c, self.keys, channel, key, at).await?,
            import: Some(self.import),
            format: self.format,
            channel: channel.id,
            thread,
            title: None,
            base: None,
            place: ImportedPlace::Root,
            author_type: ImportedAuthorKind::Human,
            author: author.0,
            shown_as: None,
            content: NOT_IN_EXPORT.to_owned(),
            search_document: SearchDocument::of(NOT_IN_EXPORT, &plain),
            plain,
            mentions: Vec::new(),
            reactions: Vec::new(),
            attachments: Vec::new(),
            created_at: at,
            edited_at: None,
        };
        insert_imported(c, self.keys.workspace, &new).await?;
        Ok(())
    }

    fn mentions(&self, raw: &[RawMention]) -> Vec<ImportedMention> {
        let mention = |raw: &RawMention| {
            let mut candidates = raw.candidates.iter();
            let (handle, id) =
                candidates.find_map(|handle| Some((handle, self.by_handle.get(handle)?)))?;
            let span = raw.span_of(handle);
            Some(ImportedMention {
                kind: ImportedMentionKind::User,
                id: Some(id.to_string()),
                handle: handle.clone(),
                start: span.start,
                length: span.length,
            })
        };
        raw.iter().filter_map(mention).collect()
    }

    async fn reactions(
        &mut self,
        c: &mut Conn,
        source: &[(String, Vec<String>)],
    ) -> Result<Vec<ImportedReaction>, ImportError> {
        let mut reactions = Vec::new();
        for (emoji, people) in source {
            let (mut user_ids, mut bot_ids) = (Vec::new(), Vec::new());
            for key in people {
                if self.known(key).is_none() {
                    let author = SourceAuthor {
                        key: key.clone(),
                        name: None,
                        is_bot: false,
                        shown_as: None,
                    };
                    self.stranger(c, Some(&author)).await?;
                }
                match self.known(key) {
                    Some(Known::Person { id, .. }) if !user_ids.contains(id) => user_ids.push(*id),
                    Some(Known::Bot { id }) if !bot_ids.contains(id) => bot_ids.push(*id),
                    _ => {}
                }
            }
            if !user_ids.is_empty() || !bot_ids.is_empty() {
                reactions.push(ImportedReaction {
                    emoji: emoji.clone(),
                    user_ids,
                    agent_ids: Vec::new(),
                    bot_ids,
                });
            }
        }
        Ok(reactions)
    }

    /// Stores the rows of a message's files, and returns its attachments.
    async fn attach(
        &mut self,
        c: &mut Conn,
        source: &SourceMessage,
        owner: FileOwner,
        place: &str,
        report: &mut ImportReport,
    ) -> Result<Vec<Attachment>, ImportError> {
        let mut attachments = Vec::new();
        let long = long_key(&source.key);
        if self.files.contains_key(&long) {
            let stored = self.attach_one(c, &long, source.at_us, owner).await?;
            attachments.extend(stored.map(|(attachment, _)| attachment));
        }
        for (n, file) in source.files.iter().enumerate() {
            let outcome = if let Some(reason) = file.left_out {
                RecordOutcome::LeftOut(reason)
            } else if n >= ATTACHMENTS_MAX - 1 {
                RecordOutcome::LeftOut("a message has at most 10 files")
            } else {
                let failed = self.failed.get(&file.key);
                match self.attach_one(c, &file.key, source.at_us, owner).await? {
                    None => RecordOutcome::LeftOut(
                        failed
                            .copied()
                            .unwrap_or("not in the archive: it is a link"),
                    ),
                    Some((attachment, outcome)) => {
                        attachments.push(attachment);
                        outcome
                    }
                }
            };
            report.count(RecordKind::Files, outcome, &format!("{place} {}", file.key));
        }
        Ok(attachments)
    }

    async fn attach_one(
        &mut self,
        c: &mut Conn,
        key: &str,
        at_us: i64,
        owner: FileOwner,
    ) -> Result<Option<(Attachment, RecordOutcome)>, ImportError> {
        let id = file_id(c, self.keys, owner.message, at_us, key).await?;
        if let Some(stored) = files::find(c, id).await? {
            return Ok(Some((stored.about, RecordOutcome::Existing)));
        }
        let Some(file) = self.files.get(key) else {
            return Ok(None);
        };
        let new = MessageFile {
            id,
            blob: file.published.reference(),
            name: file.name.clone(),
            kind: file.kind.clone(),
            created_by: owner.author,
            created_at: owner.at,
            message: owner.message,
        };
        let (attachment, upload) = files::insert_of_message(c, self.keys.workspace, &new).await?;
        self.used.push((key.to_owned(), upload));
        Ok(Some((attachment, RecordOutcome::Imported)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_of_the_far_future_has_no_time() {
        assert!(timestamp(1_620_000_000_000_000).is_some());
        assert!(timestamp(LATEST_UNIX_S * 1_000_000).is_none());
        assert!(timestamp(i64::MAX).is_none());
    }
}
