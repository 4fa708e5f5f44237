//! Segments, in the form in which people see and change them.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;

use crate::{
    agents::{
        derived::{self, Change, SourceId},
        profiles,
        segments::{
            self, CompactedAuthor, CompactionState, CompactionTrigger, PassOptions, Segment,
        },
    },
    auth::{self, Caller, Scope},
    chat::{
        ChatError,
        access::{self, ThreadAccess},
    },
    db::{Conn, DbError, dialect},
    http::error::{ApiError, ErrorCode, StatusCode},
    ids::{
        AgentId, CompactionId, ForkId, MemoryId, MessageId, TaskId, ThreadId, UserId, WorkspaceId,
    },
    memory::{
        automatic::{self, SegmentEntry},
        entry::MemoryKind,
        sources::sources_of,
    },
    realtime::{EventType, hub::Conversation},
    tasks::{NewTask, Task, TaskKind, TaskTarget, queue},
    text_enum::constant,
    time::Timestamp,
};

use super::{
    profile::{CompactionSettings, Strategy, StrategyPlace},
    render::{SummaryLine, lines_text},
    store,
    view::View,
};

/// A sentence made from a segment.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct CompactionItem {
    pub memory_id: MemoryId,
    pub text: String,
    /// Messages that support the sentence.
    pub sources: Vec<MessageId>,
}

#[derive(Debug, Clone, Default, Serialize, utoipa::ToSchema)]
pub struct CompactionItems {
    /// Facts and preferences.
    pub facts: Vec<CompactionItem>,
    pub people: Vec<CompactionItem>,
    pub projects: Vec<CompactionItem>,
    pub decisions: Vec<CompactionItem>,
    pub open_loops: Vec<CompactionItem>,
    pub todo: Vec<CompactionItem>,
    pub references: Vec<CompactionItem>,
}

constant! { pub CompactionObject = "compaction" }

/// Record of compacted messages.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct CompactionRecord {
    pub id: CompactionId,
    #[schema(inline)]
    pub object: CompactionObject,
    pub thread_id: ThreadId,
    pub fork_id: Option<ForkId>,
    pub trigger: CompactionTrigger,
    pub state: CompactionState,
    pub from_message_id: MessageId,
    pub to_message_id: MessageId,
    pub message_count: i64,
    /// Estimated size of the messages in tokens; `tokens_after` is the size of the sentences that replace them.
    pub tokens_before: i64,
    pub tokens_after: i64,
    pub agents: Vec<CompactedAuthor>,
    pub summary_markdown: String,
    pub memory_json: CompactionItems,
    /// Number of sentences that were dropped, by kind.
    #[schema(value_type = Object)]
    pub left_out: BTreeMap<String, i64>,
    /// Model that wrote the sentences; `builtin` if no model was used.
    #[schema(example = "builtin")]
    pub model: String,
    pub task_id: TaskId,
    pub created_by: UserId,
    pub created_at: Timestamp,
    pub expanded_at: Option<Timestamp>,
    pub version: i64,
}

/// Messages that the agent with the latest reply will receive with the next question.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct SentWindow {
    /// Sequence number of the first of these messages.
    pub from_seq: i64,
    /// Number of older messages that are summarized in segments.
    pub message_count: i64,
    /// IDs of these segments, oldest first.
    pub compaction_ids: Vec<CompactionId>,
}

#[derive(Debug, thiserror::Error)]
pub enum CompactionError {
    #[error("the compaction does not exist, or you are not in its channel")]
    NotFound,
    #[error("the conversation is being compacted: wait until it is done")]
    Running,
    #[error("the operator of this server has turned compaction off")]
    Off,
    #[error("there is nothing to compact: all older messages are already compacted")]
    Nothing,
    #[error("only its creator or an admin can delete a compaction")]
    NotYours,
    #[error(transparent)]
    Chat(#[from] ChatError),
}

impl From<DbError> for CompactionError {
    fn from(e: DbError) -> Self {
        Self::Chat(e.into())
    }
}

impl From<crate::auth::AuthError> for CompactionError {
    fn from(e: crate::auth::AuthError) -> Self {
        Self::Chat(e.into())
    }
}

impl From<CompactionError> for ApiError {
    fn from(e: CompactionError) -> Self {
        let text = e.to_string();
        let (status, code) = match e {
            CompactionError::Chat(e) => return e.into(),
            CompactionError::NotFound => (StatusCode::NOT_FOUND, ErrorCode::CompactionNotFound),
            CompactionError::Running => (StatusCode::CONFLICT, ErrorCode::CompactionRunning),
            CompactionError::Off => (StatusCode::CONFLICT, ErrorCode::CompactionOff),
            CompactionError::Nothing => (
                StatusCode::UNPROCESSABLE_ENTITY,
                ErrorCode::NothingToCompact,
            ),
            CompactionError::NotYours => (StatusCode::FORBIDDEN, ErrorCode::NotYours),
        };
        Self::new(status, code, text)
    }
}

/// Maximum number of entries in a record; a segment has fewer.
const RECORD_ENTRIES_MAX: i64 = 200;
/// Maximum number of records in a list.
pub const LISTED_MAX: i64 = 500;

/// Returns the records of segments with their entries.
pub async fn records(
    c: &mut Conn,
    segments: Vec<Segment>,
) -> Result<Vec<CompactionRecord>, DbError> {
    let count = i64::try_from(segments.len()).unwrap_or(i64::MAX);
    let ids = segments.iter().map(|segment| segment.id);
    let found = automatic::list(c, ids, count.saturating_mul(RECORD_ENTRIES_MAX)).await?;
    let mut sources = sources_of(c, found.iter().map(|entry| entry.id).collect()).await?;
    let mut entries: HashMap<CompactionId, Vec<SegmentEntry>> = HashMap::new();
    for entry in found {
        entries.entry(entry.compaction_id).or_default().push(entry);
    }
    let records = segments.into_iter().map(|segment| {
        let entries = entries.remove(&segment.id).unwrap_or_default();
        record(segment, entries, &mut sources)
    });
    Ok(records.collect())
}

fn record(
    segment: Segment,
    entries: Vec<SegmentEntry>,
    sources: &mut HashMap<MemoryId, Vec<MessageId>>,
) -> CompactionRecord {
    let gist = Some(&segment.gist).filter(|gist| !gist.is_empty());
    let gist = gist.map(|gist| SummaryLine::gist(segment.created_at, gist.clone()));
    let lines: Vec<SummaryLine> = gist
        .into_iter()
        .chain(entries.iter().map(SummaryLine::of))
        .collect();
    let mut items = CompactionItems::default();
    for entry in entries {
        let list = match entry.kind {
            MemoryKind::Fact | MemoryKind::Preference | MemoryKind::Note => &mut items.facts,
            MemoryKind::Person => &mut items.people,
            MemoryKind::Project => &mut items.projects,
            MemoryKind::Decision => &mut items.decisions,
            MemoryKind::OpenLoop => &mut items.open_loops,
            MemoryKind::Todo => &mut items.todo,
            MemoryKind::Reference => &mut items.references,
        };
        list.push(CompactionItem {
            memory_id: entry.id,
            text: entry.text,
            sources: sources.remove(&entry.id).unwrap_or_default(),
        });
    }
    CompactionRecord {
        id: segment.id,
        object: CompactionObject,
        thread_id: segment.thread_id,
        fork_id: segment.fork_id,
        trigger: segment.trigger,
        state: segment.state,
        from_message_id: segment.from_message_id,
        to_message_id: segment.to_message_id,
        message_count: segment.message_count,
        tokens_before: segment.tokens_before,
        tokens_after: segment.tokens_after,
        agents: segment.agents.0,
        summary_markdown: lines_text(&lines),
        memory_json: items,
        left_out: segment.left_out.0,
        model: segment.model,
        task_id: segment.task_id,
        created_by: segment.created_by,
        created_at: segment.created_at,
        expanded_at: segment.expanded_at,
        version: segment.version,
    }
}

/// Returns a segment in a conversation that the caller can see.
///
/// # Errors
/// `NotFound`.
pub async fn visible<'a>(
    c: &mut Conn,
    caller: &'a Caller,
    id: CompactionId,
) -> Result<(Segment, ThreadAccess<'a>), CompactionError> {
    let segment = segments::find_segment(c, id)
        .await?
        .ok_or(CompactionError::NotFound)?;
    let access = access::find_conversation(c, caller, segment.conversation())
        .await
        .map_err(|e| match e {
            ChatError::ThreadNotFound | ChatError::ForkNotFound => CompactionError::NotFound,
            e => e.into(),
        })?;
    Ok((segment, access))
}

/// Returns the record of a segment that the caller can see.
///
/// # Errors
/// `NotFound`.
pub async fn get(
    c: &mut Conn,
    caller: &Caller,
    id: CompactionId,
) -> Result<CompactionRecord, CompactionError> {
    let (segment, access) = visible(c, caller, id).await?;
    access.reading()?;
    only(records(c, vec![segment]).await?)
}

/// Finds the agent that replied last in a conversation, or the default agent if none has replied, with its version.
pub(super) async fn last_agent(
    c: &mut Conn,
    workspace: WorkspaceId,
    thread: ThreadId,
    conversation: Conversation,
) -> Result<Option<(AgentId, i64)>, DbError> {
    let replied: Option<(AgentId, i64)> = c
        .q("select t.agent_id, t.agent_version from tasks t \
            join agent_versions v on v.agent_id = t.agent_id and v.version = t.agent_version \
            where t.thread_id = $1 and t.conversation_id = $2 and t.kind = 'reply' order by t.id desc limit 1")
        .bind(thread)
        .bind(conversation.id())
        .opt()
        .await?;
    if replied.is_some() {
        return Ok(replied);
    }
    let default = profiles::find_default(c, workspace).await?;
    Ok(default.map(|default| (default.id, default.version)))
}

/// Finds the messages that the agent with the latest reply will receive with the next question; `None` if the agent will
/// receive all of them.
///
/// # Errors
/// Only database errors.
pub async fn window(
    c: &mut Conn,
    access: &ThreadAccess<'_>,
    conversation: Conversation,
    settings: CompactionSettings,
) -> Result<Option<SentWindow>, DbError> {
    let workspace = access.channel_access.actor.workspace;
    let Some((agent, version)) = last_agent(c, workspace, access.thread, conversation).await?
    else {
        return Ok(None);
    };
    let agent = profiles::get_resolved(c, agent, version).await?;
    let place = StrategyPlace {
        workspace,
        channel: access.channel_access.channel,
        is_fork: access.fork_id().is_some(),
    };
    let strategy = Strategy::of(c, settings, &agent, place).await?;
    let view = View::find(c, conversation, i64::MAX, agent.agent, strategy).await?;
    let id = conversation.id();
    let Some(from_seq) = view.start else {
        let sent = i64::try_from(view.sent).unwrap_or(i64::MAX);
        let is_all = store::nth_newest(c, id, i64::MAX, sent + 1)
            .await?
            .is_none();
        let first = store::nth_newest(c, id, i64::MAX, sent).await?;
        let window = first.filter(|_| !is_all).map(|from_seq| SentWindow {
            from_seq,
            message_count: 0,
            compaction_ids: Vec::new(),
        });
        return Ok(window);
    };
    let mut segments = store::list_before(c, id, from_seq, LISTED_MAX).await?;
    segments.reverse();
    let message_count = store::count_covered(c, id, from_seq).await?;
    Ok((message_count > 0).then(|| SentWindow {
        from_seq,
        message_count,
        compaction_ids: segments.iter().map(|segment| segment.id).collect(),
    }))
}

fn only(records: Vec<CompactionRecord>) -> Result<CompactionRecord, CompactionError> {
    records.into_iter().next().ok_or(CompactionError::NotFound)
}

/// Options of a pass that a person requests.
#[derive(Debug, Clone, Copy)]
pub struct ManualPass {
    /// Number of the most recent messages that are not compacted.
    pub keep: i64,
    pub max_tokens: Option<u64>,
}

/// Queues a pass over all messages except the most recent ones.
///
/// # Errors
/// `Running`, `Nothing`, or an error from the access checks.
pub async fn start(
    c: &mut Conn,
    caller: &Caller,
    conversation: Conversation,
    wish: ManualPass,
) -> Result<Task, CompactionError> {
    let access = access::find_conversation(c, caller, conversation)
        .await?
        .writing()?;
    let workspace = access.channel_access.actor.workspace;
    dialect::lock_workspace(c, workspace.0).await?;
    let id = conversation.id();
    if queue::active_compact(c, id).await?.is_some() {
        return Err(CompactionError::Running);
    }
    let upper = store::nth_newest(c, id, i64::MAX, wish.keep).await?;
    let has_any = match upper {
        Some(upper) => !store::uncovered(c, id, upper, 1).await?.is_empty(),
        None => false,
    };
    if !has_any && store::list_outdated(c, id, 1).await?.is_empty() {
        return Err(CompactionError::Nothing);
    }
    let agent = last_agent(c, workspace, access.thread, conversation).await?;
    let (agent, agent_version) =
        agent.ok_or_else(|| ChatError::NoSuchAgent("default".to_owned()))?;
    let profile = profiles::get_resolved(c, agent, agent_version)
        .await?
        .profile;
    let options = PassOptions {
        trigger: CompactionTrigger::Manual,
        keep: wish.keep,
        before_seq: None,
        max_tokens: wish.max_tokens,
        summary_model: profile.memory.and_then(|memory| memory.summary_model),
        model: None,
    };
    let new = NewTask {
        options: serde_json::to_value(options).ok(),
        ..NewTask::new(
            workspace,
            TaskKind::Compact,
            access.channel_access.actor.user,
            TaskTarget {
                agent,
                agent_version,
                channel: access.channel_access.channel,
                thread: access.thread,
                fork: access.fork_id(),
            },
        )
    };
    let task = queue::insert(c, &new, None).await?;
    let task = task.ok_or(CompactionError::Running)?;
    queue::announce(c, &task, access.channel_access.audience()).await?;
    Ok(task)
}

/// Expands or collapses a segment: prompts contain the messages of an expanded segment instead of its summary.
///
/// # Errors
/// `NotFound`, or an error from the access checks.
pub async fn set_expanded(
    c: &mut Conn,
    caller: &Caller,
    id: CompactionId,
    state: CompactionState,
) -> Result<CompactionRecord, CompactionError> {
    let (segment, access) = visible(c, caller, id).await?;
    let access = access.writing()?;
    dialect::lock_workspace(c, access.channel_access.actor.workspace.0).await?;
    let (segment, _) = visible(c, caller, segment.id).await?;
    let changes = match state {
        CompactionState::Expanded => segment.state == CompactionState::Active,
        _ => segment.state == CompactionState::Expanded,
    };
    let segment = if changes {
        segments::set_state(c, &segment, state).await?
    } else {
        segment
    };
    only(records(c, vec![segment]).await?)
}

/// Queues another pass over the messages of a segment.
///
/// # Errors
/// `NotFound`, `Running`, or an error from the access checks.
pub async fn redo(
    c: &mut Conn,
    caller: &Caller,
    id: CompactionId,
) -> Result<Task, CompactionError> {
    let (segment, access) = visible(c, caller, id).await?;
    let access = access.writing()?;
    dialect::lock_workspace(c, access.channel_access.actor.workspace.0).await?;
    if queue::active_compact(c, segment.conversation_id)
        .await?
        .is_some()
    {
        return Err(CompactionError::Running);
    }
    if segment.state != CompactionState::Blank {
        segments::set_state(c, &segment, CompactionState::Stale).await?;
    }
    segments::queue_redo(c, &segment).await?;
    let task = queue::active_compact(c, segment.conversation_id).await?;
    task.ok_or(CompactionError::NotFound)
}

/// Deletes a segment with its automatic entries. The next pass compacts its messages again.
///
/// # Errors
/// `NotFound`, `NotYours`, or an error from the access checks.
pub async fn delete(
    c: &mut Conn,
    caller: &Caller,
    id: CompactionId,
) -> Result<(), CompactionError> {
    let (segment, access) = visible(c, caller, id).await?;
    let access = access.writing_closed()?;
    let actor = &access.channel_access.actor;
    dialect::lock_workspace(c, actor.workspace.0).await?;
    if segment.created_by != actor.user {
        actor
            .require(Scope::WorkspaceAdmin)
            .map_err(|_| CompactionError::NotYours)?;
        let data = serde_json::json!({"created_by": segment.created_by});
        auth::record_audit(
            c,
            actor,
            auth::AuditAction::CompactionDeleted,
            id.to_string(),
            data,
        )
        .await?;
    }
    derived::changed(c, SourceId::Compaction(segment.id), Change::Deleted).await?;
    store::delete(c, &segment).await?;
    let audience = access.channel_access.audience();
    segments::announce(c, &segment, EventType::CompactionDeleted, audience).await?;
    Ok(())
}
