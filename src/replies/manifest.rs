//! Records of the prompt sent to a task's model, shown as "What it saw", and of each model call.
//!
//! ```text
//! Manifest ── save ──► task_contexts   model, requester, what was left out, calls
//!                      context_parts   a row per part of the prompt: source, role, tokens
//!                      context_texts   text of a part, stored once per source and text
//!                      citations       sources of a text ──► derived::changed removes it everywhere
//! ```
//!
//! Texts that no task has used for `OPENVIBE_CONTEXT_RETENTION` are deleted; IDs and token counts are kept.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::{
    agents::{
        derived::{self, Change, DELETED, REWRITTEN, SourceId},
        segments,
        system::{System, SystemPartName},
    },
    chat::messages::AuthorKind,
    db::{
        Conn, Db, DbError, Json,
        dialect::context::{self as rows, CitationRow, PartRow, TextRow},
        now,
    },
    ids::{ActionId, MemoryId, MessageId, TaskId, UserId, WorkspaceId},
    memory::{entry::MemoryScope, recall::Recalled},
    model::{RefusedFunction, Role, Window, WindowSource},
    replies::{
        authored::AuthoredTexts,
        history,
        preset::UsedPreset,
        prompt::{Author, Prompt, Source},
        requester::Requester,
        sources::{Because, Reasons, SourceName},
    },
    tasks::{
        actions::texts,
        attempts::{AttemptOutcome, AttemptRecord, attempts_of},
    },
    text_enum::text_enum,
    time::Timestamp,
};

/// Maximum number of message IDs listed per reason; the count includes all messages.
pub const LEFT_OUT_IDS_MAX: usize = 50;

text_enum! {
    /// Reason why messages are not in the prompt.
    pub enum LeftOutReason {
        OlderThanNewest50 = "older_than_newest_50",
        Deleted = "deleted",
        Notice = "notice",
        /// The reply was incomplete.
        Streaming = "streaming",
        /// Resolution messages replaced by a newer version.
        Superseded = "superseded",
        /// The context window had no room for the messages.
        ContextBudget = "context_budget",
        /// Left out after the provider reported that the context was too large.
        ContextTooLarge = "context_too_large",
        /// A summary replaces the messages.
        Summarised = "summarised",
        /// No summary contains the messages yet.
        NotSummarized = "not_summarized",
    }
}

#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
pub struct LeftOut {
    pub reason: LeftOutReason,
    pub count: i64,
    /// The newest of these messages, at most 50.
    pub message_ids: Vec<MessageId>,
}

impl LeftOut {
    /// Records the messages that were left out for one reason. `ids` must be sorted from oldest to newest.
    pub fn of(reason: LeftOutReason, ids: &[MessageId]) -> Self {
        Self {
            reason,
            count: i64::try_from(ids.len()).unwrap_or(i64::MAX),
            message_ids: ids.iter().rev().take(LEFT_OUT_IDS_MAX).copied().collect(),
        }
    }
}

/// Prompt of one model call, with its sources.
#[derive(Debug, Clone)]
pub struct Manifest {
    /// Model of the call.
    pub model: String,
    pub attempt: i64,
    pub requested_by: Requester,
    pub preset: Option<UsedPreset>,
    pub prompt: Prompt,
    pub left_out: Vec<LeftOut>,
    /// Functions that were not offered, because the model's server has rejected them.
    pub functions_left_out: Vec<RefusedFunction>,
    /// True if the model's server is known not to parse the model's calls.
    pub calls_in_text: bool,
    /// Number of memory entries that matched, and the entries chosen for the prompt.
    pub memories: Recalled,
    /// Old messages in the prompt.
    pub old_messages: Vec<OldMessageFacts>,
    /// People, other than the requester, who are named in lines that the server wrote.
    pub named: Vec<UserId>,
    /// Context window. The token estimates in `prompt` have not been corrected for it yet.
    pub window: Window,
    /// Number of tokens reserved for the reply.
    pub reserve: u64,
    /// Tool definitions, and the earlier rounds of the task.
    pub rounds: Vec<RoundPart>,
    pub authored: AuthoredTexts,
    /// Reasons why sources are missing or shortened.
    pub reasons: Reasons,
}

/// Part of a request after the trigger message.
#[derive(Debug, Clone)]
pub struct RoundPart {
    pub block: Block,
    pub role: Role,
    /// Estimated number of tokens.
    pub tokens: u64,
    pub text: String,
    pub source: Option<SourceId>,
    pub origin: TextOrigin,
    /// The only person to whom the text is shown.
    pub only_user: Option<UserId>,
    /// True if the text was removed before it could be sent to the model.
    pub is_gone: bool,
}

/// Origin of a text from an earlier round.
#[derive(Debug, Clone)]
pub enum TextOrigin {
    /// The text is already stored with its action and its sources.
    Stored,
    /// The text will be stored with the record of the prompt, and cites these sources.
    New(Vec<SourceId>),
}

impl RoundPart {
    fn new_part(&self) -> NewPart<'_> {
        NewPart {
            block: self.block,
            source: self.source,
            role: Some(self.role),
            tokens: self.tokens,
            text: &self.text,
            cites: match &self.origin {
                TextOrigin::Stored => Vec::new(),
                TextOrigin::New(cites) => cites.clone(),
            },
            only_user: self.only_user,
            is_gone: self.is_gone,
        }
    }

    fn is_stored(&self) -> bool {
        matches!(self.origin, TextOrigin::Stored)
    }
}

impl Manifest {
    /// Estimated number of tokens in the prompt and the rounds after it.
    pub fn tokens(&self) -> u64 {
        let rounds = self.rounds.iter().map(|part| part.tokens);
        self.prompt.tokens() + rounds.sum::<u64>()
    }

    /// Records why a source is missing or shortened.
    pub fn add_reason(&mut self, source: SourceName, reason: Option<Because>) {
        if let Some(reason) = reason {
            self.reasons.insert(source, reason);
        }
    }

    /// The memory entries that the prompt contains.
    fn memories(&self) -> impl Iterator<Item = MemoryFacts> + '_ {
        let at = now();
        let is_sent = |id: MemoryId| {
            let mut parts = self.prompt.parts.iter();
            parts.any(
                |part| matches!(part.source, Source::Memory { memory_id, .. } if memory_id == id),
            )
        };
        let sent = self
            .memories
            .used
            .iter()
            .filter(move |entry| is_sent(entry.id));
        sent.map(move |entry| MemoryFacts {
            id: entry.id,
            scope: entry.scope,
            matched: entry.matched,
            created_at: entry.created_at,
            used_at: at,
        })
    }

    /// IDs of the memory entries that the prompt contains.
    pub fn memory_ids(&self) -> Vec<MemoryId> {
        self.memories().map(|memory| memory.id).collect()
    }

    /// IDs of the memory entries in the prompt's summaries.
    pub fn summarized_ids(&self) -> Vec<MemoryId> {
        let cites = self.prompt.parts.iter().filter_map(|part| {
            if let Source::Summary { cites, .. } = &part.source {
                Some(cites)
            } else {
                None
            }
        });
        let ids = cites.flatten().filter_map(|source| {
            if let SourceId::Memory(id) = source {
                Some(*id)
            } else {
                None
            }
        });
        ids.collect()
    }
}

/// Content of the column `task_contexts.manifest`: everything except the texts.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Facts {
    model: String,
    attempt: i64,
    requested_by: Requester,
    preset: Option<UsedPreset>,
    left_out: Vec<LeftOut>,
    #[serde(default)]
    functions_left_out: Vec<RefusedFunction>,
    #[serde(default)]
    calls_in_text: bool,
    context_window: u64,
    window_source: WindowSource,
    reserve: u64,
    /// Number of memory entries that matched, by scope.
    considered: BTreeMap<MemoryScope, i64>,
    memories: Vec<MemoryFacts>,
    old_messages: Vec<OldMessageFacts>,
    reasons: Reasons,
}

/// An old message in a prompt, without its text.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct OldMessageFacts {
    pub id: MessageId,
    /// Number of words in common with the question.
    pub matched: i64,
    pub posted_at: Timestamp,
    /// Time at which the prompt was built.
    pub used_at: Timestamp,
}

/// A memory entry in a prompt, without its text.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct MemoryFacts {
    pub id: MemoryId,
    pub scope: MemoryScope,
    /// Number of words in common with the question.
    pub matched: i64,
    pub created_at: Timestamp,
    /// Time at which the prompt was built.
    pub used_at: Timestamp,
}

impl Facts {
    fn of(manifest: &Manifest) -> Self {
        Self {
            model: manifest.model.clone(),
            attempt: manifest.attempt,
            requested_by: manifest.requested_by.clone(),
            preset: manifest.preset.clone(),
            left_out: manifest.left_out.clone(),
            functions_left_out: manifest.functions_left_out.clone(),
            calls_in_text: manifest.calls_in_text,
            context_window: manifest.window.tokens,
            window_source: manifest.window.source,
            reserve: manifest.reserve,
            considered: manifest.memories.considered.clone(),
            memories: manifest.memories().collect(),
            old_messages: manifest.old_messages.clone(),
            reasons: manifest.reasons.clone(),
        }
    }
}

/// Block of a prompt to which a part belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Block {
    /// A part of the system prompt.
    System(SystemPartName),
    Conversation,
    ForkHeader,
    Summary,
    /// The workspace context.
    Workspace,
    /// MEMORY.md of the agent.
    Notes,
    /// USER.md of the requester.
    About,
    /// A memory entry, or the first line of the block.
    Memories,
    /// Passages from attached vector stores.
    Knowledge,
    /// The line that replaces earlier messages.
    LeftOut,
    /// Messages, and the lines with their dates.
    Messages,
    /// Text files of the trigger message.
    Files,
    Requester,
    Trigger,
    /// Brief from another agent or a run.
    Brief,
    /// Definitions of the tools offered to the model.
    Tools,
    /// Text that the agent wrote before its tool calls.
    Round,
    /// Arguments of a call.
    Call,
    /// Result of a call.
    Result,
}

impl Block {
    const DATA: [Self; 18] = [
        Self::Conversation,
        Self::ForkHeader,
        Self::Summary,
        Self::Workspace,
        Self::Notes,
        Self::About,
        Self::Memories,
        Self::Knowledge,
        Self::LeftOut,
        Self::Messages,
        Self::Files,
        Self::Requester,
        Self::Trigger,
        Self::Brief,
        Self::Tools,
        Self::Round,
        Self::Call,
        Self::Result,
    ];

    /// Value of the column `context_parts.name`.
    pub fn name(self) -> &'static str {
        match self {
            Self::System(name) => name.as_str(),
            Self::Conversation => "conversation",
            Self::ForkHeader => "fork_header",
            Self::Summary => "summary",
            Self::Workspace => "workspace",
            Self::Notes => "notes",
            Self::About => "about",
            Self::Memories => "memories",
            Self::Knowledge => "knowledge",
            Self::LeftOut => "left_out",
            Self::Messages => "messages",
            Self::Files => "files",
            Self::Requester => "requester",
            Self::Trigger => "trigger",
            Self::Brief => "brief",
            Self::Tools => "tools",
            Self::Round => "round",
            Self::Call => "call",
            Self::Result => "result",
        }
    }

    fn parse(text: &str, is_system: bool) -> Option<Self> {
        if !is_system {
            return Self::DATA.into_iter().find(|block| block.name() == text);
        }
        text.parse().ok().map(Self::System)
    }
}

/// Value of the column `context_parts.role` for the system prompt.
const SYSTEM_ROLE: &str = "system";

/// A part before it is stored.
struct NewPart<'a> {
    block: Block,
    source: Option<SourceId>,
    /// `None` for the system prompt.
    role: Option<Role>,
    tokens: u64,
    text: &'a str,
    cites: Vec<SourceId>,
    only_user: Option<UserId>,
    /// True if the text has already been removed.
    is_gone: bool,
}

impl NewPart<'_> {
    /// Hash of the source and the text, so that equal texts from different sources have different hashes. `None` if the text has been
    /// removed.
    fn hash(&self) -> Option<String> {
        if self.is_gone {
            return None;
        }
        let mut hash = Sha256::new();
        match self.source {
            Some(source) => {
                hash.update(source.kind());
                hash.update(source.uuid());
            }
            // The kind of a source is never empty, so a zero byte cannot be confused with a source.
            None => hash.update([0]),
        }
        hash.update(self.text);
        Some(hex::encode(hash.finalize()))
    }
}

/// Returns the parts of a prompt. The parts of the system prompt come first.
fn parts_of<'a>(prompt: &'a Prompt, requester: UserId, named: &[UserId]) -> Vec<NewPart<'a>> {
    let system = prompt.system.parts.iter().map(|part| {
        // Adaptation sentences reveal how the agent has adapted to the requester.
        let only_user = (part.name == SystemPartName::Adaptation).then_some(requester);
        let source = only_user.map(SourceId::User);
        NewPart {
            block: Block::System(part.name),
            source,
            role: None,
            tokens: part.tokens,
            text: &part.text,
            cites: source.into_iter().collect(),
            only_user,
            is_gone: false,
        }
    });
    let parts = prompt.parts.iter().map(|part| {
        let (block, source) = place_of(&part.source, requester);
        NewPart {
            block,
            source,
            role: Some(part.role),
            tokens: part.tokens,
            text: &part.text,
            cites: cites_of(&part.source, source, requester, named),
            only_user: match part.source {
                Source::About { only_user_id } | Source::Memory { only_user_id, .. } => {
                    only_user_id
                }
                _ => None,
            },
            is_gone: false,
        }
    });
    system.chain(parts).collect()
}

/// Returns the block of a part, and the object whose text the part contains.
fn place_of(source: &Source, requester: UserId) -> (Block, Option<SourceId>) {
    let message = |id: &MessageId| Some(SourceId::Message(*id));
    match source {
        Source::Message { message_id, .. } => (Block::Messages, message(message_id)),
        Source::Trigger { message_id, .. } => (Block::Trigger, message(message_id)),
        Source::ForkHeader { message_id } => (Block::ForkHeader, message_id.map(SourceId::Message)),
        Source::Conversation { .. } => (Block::Conversation, None),
        Source::Date => (Block::Messages, None),
        Source::File { message_id } | Source::Picture { message_id, .. } => {
            (Block::Files, message(message_id))
        }
        Source::Requester => (Block::Requester, Some(SourceId::User(requester))),
        Source::Brief { message_id, .. } => (Block::Brief, message(message_id)),
        Source::Summary { .. } => (Block::Summary, None),
        Source::LeftOut => (Block::LeftOut, None),
        Source::Workspace { .. } => (Block::Workspace, None),
        Source::Notes => (Block::Notes, None),
        Source::About { .. } => (Block::About, Some(SourceId::User(requester))),
        Source::Memories => (Block::Memories, None),
        Source::Memory { memory_id, .. } => (Block::Memories, Some(SourceId::Memory(*memory_id))),
        Source::OldMessage { message_id } => (Block::Memories, message(message_id)),
        Source::Knowledge { .. } => (Block::Knowledge, None),
    }
}

/// Returns everything that a part cites: the object whose text it contains, and the objects that the text names.
fn cites_of(
    of: &Source,
    source: Option<SourceId>,
    requester: UserId,
    named: &[UserId],
) -> Vec<SourceId> {
    let people = named.iter().copied().map(SourceId::User);
    let mut cites: Vec<SourceId> = source.into_iter().collect();
    match of {
        Source::Conversation { people, root_id } => {
            cites.extend(people.iter().copied().map(SourceId::User));
            cites.extend(root_id.map(SourceId::Message));
        }
        Source::Workspace { cites: named } | Source::Knowledge { cites: named, .. } => {
            cites.extend(named);
        }
        Source::Picture { file_id, .. } => cites.push(SourceId::File(*file_id)),
        Source::About { .. } => cites.push(SourceId::UserFile(requester)),
        Source::Memory { person_id, .. } => cites.extend(person_id.map(SourceId::User)),
        Source::Requester => cites.extend(people),
        Source::Summary { cites: sources, .. } => {
            cites.extend(sources);
            cites.extend(people);
        }
        _ => {}
    }
    cites
}

/// Returns the parts of earlier rounds. A stored text that has been removed since it was read is not stored again, because its
/// citations have been deleted.
async fn parts_of_rounds<'a>(
    c: &mut Conn,
    workspace: WorkspaceId,
    rounds: &'a [RoundPart],
) -> Result<Vec<NewPart<'a>>, DbError> {
    let mut parts: Vec<NewPart<'_>> = rounds.iter().map(RoundPart::new_part).collect();
    let hashes = rounds.iter().zip(&parts);
    let hashes = hashes.filter_map(|(round, part)| part.hash().filter(|_| round.is_stored()));
    let stored = rows::find_texts(c, workspace.0, hashes.collect()).await?;
    let stored: HashSet<String> = stored.into_iter().map(|(hash, _)| hash).collect();
    for (round, part) in rounds.iter().zip(&mut parts) {
        let is_kept = part.hash().is_some_and(|hash| stored.contains(&hash));
        if round.is_stored() && !is_kept {
            (part.text, part.is_gone) = (DELETED, true);
        }
    }
    Ok(parts)
}

/// Minimum interval between two recorded uses of a text, so that a reply does not rewrite the row of every text in its prompt.
const REUSE_NOTED_EVERY: Duration = Duration::from_hours(1);

/// Stores the prompt of a call, replacing the prompt of the previous attempt. The parts are stored with a fixed number of statements,
/// however long the prompt is.
pub async fn save(
    c: &mut Conn,
    workspace: WorkspaceId,
    task: TaskId,
    manifest: &Manifest,
    attempt: &AttemptRecord,
) -> Result<(), DbError> {
    let mut attempts = attempts_of(c, task).await?;
    // An earlier call has no end time if its worker was lost.
    if let Some(last) = attempts.last_mut().filter(|last| last.ended_at.is_none()) {
        last.ended_at = Some(attempt.started_at);
        last.outcome = AttemptOutcome::Retry;
    }
    attempts.push(attempt.clone());
    c.q("insert into task_contexts (task_id, manifest, attempts) values ($1, $2, $3) \
         on conflict (task_id) do update set manifest = excluded.manifest, attempts = excluded.attempts")
        .bind(task)
        .bind(Json(Facts::of(manifest)))
        .bind(Json(attempts))
        .run()
        .await?;
    let mut parts = parts_of(&manifest.prompt, manifest.requested_by.id, &manifest.named);
    for (part, sent) in parts
        .iter_mut()
        .skip(manifest.prompt.system.parts.len())
        .zip(&manifest.prompt.parts)
    {
        if let Source::Summary { segments, .. } = &sent.source {
            for segment in segments {
                if segments::is_blanked_since(c, segment.id, segment.blanked).await? {
                    (part.text, part.is_gone) = (DELETED, true);
                }
            }
        }
        if let Source::Brief { text_id, .. } = sent.source
            && texts::find(c, text_id).await?.is_none()
        {
            (part.text, part.is_gone) = (DELETED, true);
        }
    }
    parts.extend(parts_of_rounds(c, workspace, &manifest.rounds).await?);
    for part in &mut parts {
        part.tokens = manifest.window.corrected(part.tokens);
    }
    put_parts(c, workspace, task, parts, now()).await?;
    for sent in &manifest.prompt.parts {
        if let Source::Brief { text_id, .. } = sent.source {
            cite_brief(c, task, text_id).await?;
        }
    }
    remove_deleted(c, workspace, task).await
}

/// Adds the sources of a brief to the citations of the part that contains it.
async fn cite_brief(c: &mut Conn, task: TaskId, brief: Uuid) -> Result<(), DbError> {
    let part: Option<(Uuid,)> = c
        .q("select text_id from context_parts where task_id = $1 and name = $2 limit 1")
        .bind(task)
        .bind(Block::Brief.name())
        .opt()
        .await?;
    match part {
        Some((part,)) => texts::cite_as(c, brief, part).await,
        None => Ok(()),
    }
}

async fn put_parts(
    c: &mut Conn,
    workspace: WorkspaceId,
    task: TaskId,
    parts: Vec<NewPart<'_>>,
    used_at: Timestamp,
) -> Result<(), DbError> {
    let (mut texts, mut hashes) = (Vec::new(), HashSet::new());
    let mut placed = Vec::with_capacity(parts.len());
    for part in parts {
        let (hash, id) = (part.hash(), Uuid::now_v7());
        if hash.clone().is_none_or(|hash| hashes.insert(hash)) {
            texts.push(TextRow {
                id,
                hash: hash.clone(),
                text: part.text.replace('\0', ""),
            });
        }
        placed.push((part, hash, id));
    }
    rows::insert_texts(c, workspace.0, texts, used_at, used_at - REUSE_NOTED_EVERY).await?;
    let stored: HashMap<String, Uuid> =
        rows::find_texts(c, workspace.0, hashes.into_iter().collect())
            .await?
            .into_iter()
            .collect();
    let (mut part_rows, mut citations) = (Vec::with_capacity(placed.len()), HashSet::new());
    for (position, (part, hash, id)) in placed.into_iter().enumerate() {
        let text_id = hash
            .and_then(|hash| stored.get(&hash).copied())
            .unwrap_or(id);
        citations.extend(part.cites.iter().map(|source| CitationRow {
            source_type: source.kind(),
            source_id: source.uuid(),
            owner_id: text_id,
        }));
        part_rows.push(PartRow {
            position,
            name: part.block.name(),
            source_type: part.source.map(SourceId::kind),
            source_id: part.source.map(SourceId::uuid),
            role: match part.role {
                None => SYSTEM_ROLE,
                Some(role) => role.text(),
            },
            tokens: part.tokens,
            text_id,
            only_user_id: part.only_user.map(|user| user.0),
        });
    }
    c.q("delete from context_parts where task_id = $1")
        .bind(task)
        .run()
        .await?;
    rows::insert_parts(c, task.0, part_rows).await?;
    rows::insert_citations(c, citations.into_iter().collect()).await
}

/// Removes texts whose messages or USER.md files were deleted, or whose memory entries were forgotten, after they were read for the
/// prompt and before the prompt was stored.
async fn remove_deleted(c: &mut Conn, workspace: WorkspaceId, task: TaskId) -> Result<(), DbError> {
    let (mut messages, mut memories, mut people) = (Vec::new(), Vec::new(), Vec::new());
    for (kind, id) in rows::prompt_sources(c, task.0).await? {
        match SourceId::of(&kind, id) {
            Some(SourceId::Message(id)) => messages.push(id),
            Some(SourceId::Memory(id)) => memories.push(id),
            Some(SourceId::UserFile(id)) => people.push(id),
            _ => {}
        }
    }
    if !messages.is_empty() {
        derived::remove_deleted(c, messages).await?;
    }
    if !memories.is_empty() {
        for memory in derived::forgotten_of(c, &memories).await? {
            derived::changed(c, SourceId::Memory(memory), Change::Deleted).await?;
        }
    }
    if !people.is_empty() {
        for user in derived::without_file(c, workspace, &people).await? {
            derived::forget_user_file(c, workspace, user).await?;
        }
    }
    Ok(())
}

/// Prompt as it was sent, without texts that have been removed since then.
#[derive(Debug, Clone)]
pub struct Sent {
    pub model: String,
    pub attempt: i64,
    pub requested_by: Requester,
    pub preset: Option<UsedPreset>,
    pub left_out: Vec<LeftOut>,
    pub functions_left_out: Vec<RefusedFunction>,
    pub calls_in_text: bool,
    pub context_window: u64,
    pub window_source: WindowSource,
    pub reserve: u64,
    /// Number of memory entries that matched, by scope.
    pub considered: BTreeMap<MemoryScope, i64>,
    pub memories: Vec<MemoryFacts>,
    pub old_messages: Vec<OldMessageFacts>,
    /// Reasons why sources are missing or shortened.
    pub reasons: Reasons,
    /// In prompt order; parts of the block `System` come first.
    pub parts: Vec<SentPart>,
    pub attempts: Vec<AttemptRecord>,
}

impl Sent {
    /// Returns the prompt of a call that will not be made, in the form in which `find` would return it for the requester.
    pub fn preview(manifest: &Manifest) -> Self {
        let facts = Facts::of(manifest);
        let requester = manifest.requested_by.id;
        let mut authors = HashMap::new();
        for part in &manifest.prompt.parts {
            if let Source::Message { message_id, author } = &part.source {
                authors.insert(*message_id, author);
            }
        }
        let parts = parts_of(&manifest.prompt, requester, &manifest.named).into_iter();
        let rounds = manifest.rounds.iter().map(RoundPart::new_part);
        let parts = parts.chain(rounds).map(|part| {
            let message = match (part.block, part.source) {
                (Block::Messages, Some(SourceId::Message(id))) => {
                    authors.get(&id).map(|author| (id, (*author).clone()))
                }
                _ => None,
            };
            let (memory, old_message) = match (part.block, part.source) {
                (Block::Memories, Some(SourceId::Memory(id))) => (Some(id), None),
                (Block::Memories, Some(SourceId::Message(id))) => (None, Some(id)),
                _ => (None, None),
            };
            SentPart {
                block: part.block,
                message,
                memory,
                old_message,
                action: None,
                function: None,
                only_user: part
                    .only_user
                    .map(|user| (user, manifest.requested_by.name.clone())),
                role: part.role.unwrap_or(Role::User),
                tokens: manifest.window.corrected(part.tokens),
                text: SentText::Kept(part.text.to_owned()),
            }
        });
        Self {
            parts: parts.collect(),
            model: facts.model,
            attempt: facts.attempt,
            requested_by: facts.requested_by,
            preset: facts.preset,
            left_out: facts.left_out,
            functions_left_out: facts.functions_left_out,
            calls_in_text: facts.calls_in_text,
            context_window: facts.context_window,
            window_source: facts.window_source,
            reserve: facts.reserve,
            considered: facts.considered,
            memories: facts.memories,
            old_messages: facts.old_messages,
            reasons: facts.reasons,
            attempts: Vec::new(),
        }
    }
}

#[derive(Debug, Clone)]
pub struct SentPart {
    pub block: Block,
    /// Message that the part shows, and its author.
    pub message: Option<(MessageId, Author)>,
    pub memory: Option<MemoryId>,
    /// Old message from which the part contains a passage.
    pub old_message: Option<MessageId>,
    /// Action whose arguments or result the part contains.
    pub action: Option<ActionId>,
    /// Name of the called function, for arguments and results.
    pub function: Option<String>,
    /// The only person to whom the text is shown, with their current name.
    pub only_user: Option<(UserId, String)>,
    pub role: Role,
    pub tokens: u64,
    pub text: SentText,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SentText {
    Kept(String),
    Deleted,
    Rewritten,
    /// No task has used the text for `OPENVIBE_CONTEXT_RETENTION`.
    Expired,
    /// The reader may not see the text; a note replaces it.
    Hidden(String),
}

impl SentText {
    pub fn shown(&self) -> &str {
        match self {
            Self::Kept(text) | Self::Hidden(text) => text,
            Self::Deleted => DELETED,
            Self::Rewritten => REWRITTEN,
            Self::Expired => "(no longer kept)",
        }
    }
}

#[derive(sqlx::FromRow)]
struct Row {
    name: String,
    source_id: Option<Uuid>,
    is_message: bool,
    role: String,
    tokens: i64,
    hash: Option<String>,
    text: Option<String>,
    author_type: Option<AuthorKind>,
    author_id: Option<Uuid>,
    author_name: Option<String>,
    only_user_id: Option<UserId>,
    only_user_name: Option<String>,
    function: Option<String>,
}

impl Row {
    fn part(self) -> Option<SentPart> {
        let block = Block::parse(&self.name, self.role == SYSTEM_ROLE)?;
        let text = match (self.text, self.hash) {
            (None, _) => SentText::Expired,
            (Some(text), Some(_)) => SentText::Kept(text),
            (Some(text), None) if text == REWRITTEN => SentText::Rewritten,
            (Some(_), None) => SentText::Deleted,
        };
        let author_id = self.author_id.unwrap_or_default();
        let kind = self.author_type.unwrap_or(AuthorKind::Human);
        let author = history::author(kind, author_id, self.author_name);
        let is_shown = matches!(block, Block::Messages | Block::Trigger);
        let message = self.source_id.filter(|_| is_shown);
        let recalled = self.source_id.filter(|_| block == Block::Memories);
        let is_of_action = matches!(block, Block::Call | Block::Result);
        Some(SentPart {
            block,
            message: message.map(|id| (MessageId(id), author)),
            memory: recalled.filter(|_| !self.is_message).map(MemoryId),
            old_message: recalled.filter(|_| self.is_message).map(MessageId),
            action: self.source_id.filter(|_| is_of_action).map(ActionId),
            function: self.function.filter(|_| is_of_action),
            only_user: self.only_user_id.map(|id| {
                (
                    id,
                    self.only_user_name
                        .unwrap_or_else(|| "Deleted account".to_owned()),
                )
            }),
            role: if self.role == Role::Assistant.text() {
                Role::Assistant
            } else {
                Role::User
            },
            tokens: u64::try_from(self.tokens).unwrap_or_default(),
            text,
        })
    }
}

/// Finds the latest prompt of a task. Returns `None` before the first model call.
pub async fn find(c: &mut Conn, task: TaskId) -> Result<Option<Sent>, DbError> {
    let row: Option<(Json<Facts>, Json<Vec<AttemptRecord>>)> = c
        .q("select manifest, attempts from task_contexts where task_id = $1")
        .bind(task)
        .opt()
        .await?;
    let Some((Json(facts), Json(attempts))) = row else {
        return Ok(None);
    };
    let rows: Vec<Row> = c
        .q("select p.name, p.source_id, coalesce(p.source_type = 'message', FALSE) as is_message, p.role, p.tokens, t.hash, t.text, m.author_type, m.author_id, \
            coalesce(u.name, a.summary ->> 'display_name', a.name, \
            (select n.name from agent_names n where n.agent_id = m.author_id)) as author_name, \
            p.only_user_id, o.name as only_user_name, x.function from context_parts p \
            left join actions x on p.source_type = 'action' and x.id = p.source_id left join users o on o.id = p.only_user_id left join context_texts t on t.id = p.text_id \
            left join messages m on p.source_type = 'message' and m.id = p.source_id \
            left join users u on m.author_type in ('human', 'bot') and u.id = m.author_id \
            left join agents a on m.author_type = 'agent' and a.id = m.author_id \
            where p.task_id = $1 order by p.position")
        .bind(task)
        .all()
        .await?;
    Ok(Some(Sent {
        model: facts.model,
        attempt: facts.attempt,
        requested_by: facts.requested_by,
        preset: facts.preset,
        left_out: facts.left_out,
        functions_left_out: facts.functions_left_out,
        calls_in_text: facts.calls_in_text,
        context_window: facts.context_window,
        window_source: facts.window_source,
        reserve: facts.reserve,
        considered: facts.considered,
        memories: facts.memories,
        old_messages: facts.old_messages,
        reasons: facts.reasons,
        parts: rows.into_iter().filter_map(Row::part).collect(),
        attempts,
    }))
}

/// Parts of a system text that a task was not sent; all of them if its prompt is no longer stored.
pub async fn changed_parts<'a>(
    c: &mut Conn,
    task: Option<TaskId>,
    system: &'a System,
) -> Result<Vec<&'a str>, DbError> {
    let sent: Vec<(Option<String>,)> = c
        .q(
            "select t.text from context_parts p join context_texts t on t.id = p.text_id \
            where p.task_id = $1 and p.role = $2 and t.hash is not null order by p.position",
        )
        .bind(task)
        .bind(SYSTEM_ROLE)
        .all()
        .await?;
    let is_known = |text: &str| sent.iter().any(|(sent,)| sent.as_deref() == Some(text));
    let texts = system.parts.iter().map(|part| part.text.as_str());
    Ok(texts.filter(|text| !is_known(text)).collect())
}

/// Anonymizes the requester in the record of their task: replaces their ID with `alias`, and their name with `nobody`.
/// `derived::changed` removes their texts and texts that contain their name.
pub async fn forget_requester(
    c: &mut Conn,
    task: TaskId,
    user: UserId,
    alias: UserId,
    nobody: &str,
) -> Result<(), DbError> {
    let row: Option<(Json<Facts>,)> = c
        .q("select manifest from task_contexts where task_id = $1")
        .bind(task)
        .opt()
        .await?;
    let Some((Json(mut facts),)) = row else {
        return Ok(());
    };
    facts.requested_by.id = alias;
    nobody.clone_into(&mut facts.requested_by.name);
    c.q("update task_contexts set manifest = $2 where task_id = $1")
        .bind(task)
        .bind(Json(facts))
        .run()
        .await?;
    for sql in [
        "update context_parts set source_id = $3 where task_id = $1 and source_type = 'user' and source_id = $2",
        "update context_parts set only_user_id = $3 where task_id = $1 and only_user_id = $2",
    ] {
        c.q(sql).bind(task).bind(user).bind(alias).run().await?;
    }
    Ok(())
}

/// Maximum number of texts deleted per transaction.
const EXPIRED_AT_ONCE: i64 = 200;

/// Selects at most `$3` texts of the workspace `$1` that have not been used since `$2` and that neither a pending decision nor a run
/// needs.
macro_rules! expired_texts {
    () => {
        "(select id from context_texts where workspace_id = $1 and last_used_at < $2 and id not in \
         (select a.arguments_id from actions a where a.workspace_id = $1 and a.state in ('waiting', 'unknown')) and id not in \
         (select s.output_id from tasks t join run_steps s on s.run_id = t.id where t.workspace_id = $1 and t.kind = 'workflow' \
         and t.status in ('queued', 'running') and s.output_id is not null) order by last_used_at, id limit $3)"
    };
}

/// Deletes texts that no task has used for `retention`, in small transactions. Texts that are needed for a person's decision and
/// outputs of active runs are kept. Returns the number of deleted texts.
pub async fn remove_expired(db: &Db, retention: Duration) -> Result<u64, DbError> {
    // The last recorded use of a text may be too old by this interval.
    let before = now() - retention - REUSE_NOTED_EVERY;
    let workspaces: Vec<(WorkspaceId,)> = db
        .read()
        .await?
        .q("select id from workspaces w where exists \
            (select 1 from context_texts t where t.workspace_id = w.id and t.last_used_at < $1) order by id limit 10000")
        .bind(before)
        .all()
        .await?;
    let mut all = 0;
    for (workspace,) in workspaces {
        loop {
            let removed = db
                .write(workspace.0, async move |c: &mut Conn| {
                    c.q(concat!(
                        "delete from citations where owner_type = 'context_text' and owner_id in ",
                        expired_texts!()
                    ))
                    .bind(workspace)
                    .bind(before)
                    .bind(EXPIRED_AT_ONCE)
                    .run()
                    .await?;
                    c.q(concat!(
                        "delete from context_texts where id in ",
                        expired_texts!()
                    ))
                    .bind(workspace)
                    .bind(before)
                    .bind(EXPIRED_AT_ONCE)
                    .run()
                    .await
                })
                .await?;
            all += removed;
            if removed == 0 {
                break;
            }
        }
    }
    if all > 0 {
        // The texts are still in the write-ahead log.
        db.scrub().await?;
    }
    Ok(all)
}
