//! Records of compacted ranges of a conversation, and their state when a message changes.
//!
//! ```text
//! active ── edit ──> stale ─┐
//!    └─── deletion ─> blank ─┴─ redo, queued at once ──> active          active ⇄ expanded
//! ```

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{
    db::{Conn, DbError, Json, now},
    ids::{
        AgentId, ChannelId, CompactionId, ForkId, MemoryId, MessageId, TaskId, ThreadId, UserId,
        WorkspaceId,
    },
    realtime::{Audience, EventData, EventType, NewEvent, hub::Conversation, log},
    tasks::{NewTask, TaskKind, queue},
    text_enum::text_enum,
    time::Timestamp,
};

text_enum! {
    /// Reason for a pass.
    pub enum CompactionTrigger {
        /// Many messages precede the most recent ones that prompts include.
        Auto = "auto",
        /// Nobody has posted for a while.
        Quiet = "quiet",
        /// The messages do not fit in the window, or are very long.
        Size = "size",
        /// The model server rejected the prompt as too long.
        Overflow = "overflow",
        /// A person requested it.
        Manual = "manual",
        /// A message changed, or a person requested another summary.
        Redo = "redo",
    }
}

text_enum! {
    /// State of a segment.
    pub enum CompactionState {
        /// Prompts include the summary of the segment.
        Active = "active",
        /// A message was edited. Until the segment is rebuilt, prompts include only sentences that do not depend on that message.
        Stale = "stale",
        /// A message was deleted: the segment has no texts until it is rebuilt.
        Blank = "blank",
        /// Prompts include as many of the messages as fit, instead of the summary.
        Expanded = "expanded",
    }
}

/// Options of a `compact` task.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PassOptions {
    pub trigger: CompactionTrigger,
    /// Number of the most recent messages that are not compacted.
    pub keep: i64,
    /// Sequence number before which the most recent messages are counted. By default, all messages count.
    #[serde(default)]
    pub before_seq: Option<i64>,
    /// Maximum size of a segment's entries, in tokens.
    #[serde(default)]
    pub max_tokens: Option<u64>,
    /// The agent's model for summaries; `model` is its model for replies.
    #[serde(default)]
    pub summary_model: Option<String>,
    #[serde(default)]
    pub model: Option<String>,
}

/// Number of messages by an agent, or by all people if `agent_id` is null.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct CompactedAuthor {
    pub agent_id: Option<AgentId>,
    pub count: i64,
}

/// A segment without its entries.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct Segment {
    pub id: CompactionId,
    pub workspace_id: WorkspaceId,
    pub conversation_id: Uuid,
    pub thread_id: ThreadId,
    pub fork_id: Option<ForkId>,
    pub trigger: CompactionTrigger,
    pub state: CompactionState,
    pub from_seq: i64,
    pub to_seq: i64,
    pub from_message_id: MessageId,
    pub to_message_id: MessageId,
    pub message_count: i64,
    pub tokens_before: i64,
    pub tokens_after: i64,
    pub agents: Json<Vec<CompactedAuthor>>,
    pub gist: String,
    pub left_out: Json<BTreeMap<String, i64>>,
    pub model: String,
    pub task_id: TaskId,
    pub created_by: UserId,
    pub created_at: Timestamp,
    pub expanded_at: Option<Timestamp>,
    /// Number of times that the texts of the segment were removed.
    pub blanked: i64,
    pub version: i64,
}

/// Selects the columns of a `Segment` from compactions as `k`.
#[macro_export]
macro_rules! segment_sql {
    ($tail:expr) => {
        concat!(
            "select k.id, k.workspace_id, k.conversation_id, k.thread_id, k.fork_id, k.trigger, k.state, k.from_seq, k.to_seq, \
             k.from_message_id, k.to_message_id, k.message_count, k.tokens_before, k.tokens_after, k.agents, k.gist, k.left_out, k.model, \
             k.task_id, k.created_by, k.created_at, k.expanded_at, k.blanked, k.version from compactions k ",
            $tail
        )
    };
}

impl Segment {
    pub fn conversation(&self) -> Conversation {
        self.fork_id
            .map_or(Conversation::Thread(self.thread_id), Conversation::Fork)
    }
}

/// A segment in events, without texts.
#[derive(Serialize, utoipa::ToSchema)]
struct SegmentState {
    id: CompactionId,
    thread_id: ThreadId,
    fork_id: Option<ForkId>,
    trigger: CompactionTrigger,
    state: CompactionState,
    from_message_id: MessageId,
    to_message_id: MessageId,
    message_count: i64,
    version: i64,
}

#[derive(Serialize, utoipa::ToSchema)]
pub struct CompactionEvent {
    compaction: SegmentState,
}

impl EventData for CompactionEvent {
    const TYPES: &'static [EventType] = &[
        EventType::CompactionCreated,
        EventType::CompactionUpdated,
        EventType::CompactionDeleted,
    ];
}

/// Appends an event about a segment.
pub async fn announce(
    c: &mut Conn,
    segment: &Segment,
    kind: EventType,
    audience: Audience,
) -> Result<(), DbError> {
    let seq = log::reserve(c, segment.workspace_id, 1).await?;
    let data = CompactionEvent {
        compaction: SegmentState {
            id: segment.id,
            thread_id: segment.thread_id,
            fork_id: segment.fork_id,
            trigger: segment.trigger,
            state: segment.state,
            from_message_id: segment.from_message_id,
            to_message_id: segment.to_message_id,
            message_count: segment.message_count,
            version: segment.version,
        },
    };
    let event = NewEvent::new(seq, kind, audience, &data)?
        .in_conversation(segment.thread_id, segment.fork_id);
    log::append(c, segment.workspace_id, event).await
}

pub async fn find_segment(c: &mut Conn, id: CompactionId) -> Result<Option<Segment>, DbError> {
    c.q(segment_sql!("where k.id = $1")).bind(id).opt().await
}

/// Checks whether the texts of a segment were removed since its counter had the value `blanked`.
pub async fn is_blanked_since(
    c: &mut Conn,
    segment: CompactionId,
    blanked: i64,
) -> Result<bool, DbError> {
    let has_texts: bool = c
        .q("select exists (select 1 from compactions where id = $1 and blanked = $2)")
        .bind(segment)
        .bind(blanked)
        .value()
        .await?;
    Ok(!has_texts)
}

async fn channel_of(c: &mut Conn, thread: ThreadId) -> Result<ChannelId, DbError> {
    c.q("select channel_id from threads where id = $1")
        .bind(thread)
        .value()
        .await
}

/// Returns the recipients of events about a segment.
pub async fn audience_of(c: &mut Conn, segment: &Segment) -> Result<Audience, DbError> {
    let channel = channel_of(c, segment.thread_id).await?;
    queue::audience_of(c, channel).await
}

/// Changes the state of a segment and appends the event.
pub async fn set_state(
    c: &mut Conn,
    segment: &Segment,
    state: CompactionState,
) -> Result<Segment, DbError> {
    let at = now();
    c.q("update compactions set state = $2, expanded_at = $3, version = version + 1 where id = $1")
        .bind(segment.id)
        .bind(state)
        .bind((state == CompactionState::Expanded).then_some(at))
        .run()
        .await?;
    let segment = find_segment(c, segment.id)
        .await?
        .unwrap_or_else(|| segment.clone());
    let audience = audience_of(c, &segment).await?;
    announce(c, &segment, EventType::CompactionUpdated, audience).await?;
    Ok(segment)
}

/// Updates the segment that contains a changed message: the segment becomes stale or blank, and a redo is queued. Returns the ID of
/// the segment if it became blank; the caller must then remove its texts everywhere.
pub async fn message_changed(
    c: &mut Conn,
    message: MessageId,
    state: CompactionState,
) -> Result<Option<CompactionId>, DbError> {
    // Segments do not overlap.
    let found: Option<Segment> = c
        .q(segment_sql!(
            "join messages m on m.conversation_id = k.conversation_id and k.from_seq <= m.seq \
             where m.id = $1 and m.kind <> 'notice' order by k.from_seq desc limit 1"
        ))
        .bind(message)
        .opt()
        .await?;
    let Some(segment) = found else {
        return Ok(None);
    };
    let is_inside: bool = c
        .q("select exists (select 1 from messages where id = $1 and seq <= $2)")
        .bind(message)
        .bind(segment.to_seq)
        .value()
        .await?;
    if !is_inside {
        return Ok(None);
    }
    if segment.state == CompactionState::Blank || segment.state == state {
        queue_redo(c, &segment).await?;
        return Ok(None);
    }
    if state == CompactionState::Blank {
        c.q("update compactions set gist = '', left_out = '{}', blanked = blanked + 1 where id = $1")
            .bind(segment.id)
            .run()
            .await?;
    }
    let segment = set_state(c, &segment, state).await?;
    queue_redo(c, &segment).await?;
    Ok((state == CompactionState::Blank).then_some(segment.id))
}

/// Selects the other segments that contain a message cited by an entry of the segment `$1`.
macro_rules! sharer_sql {
    ($begin:literal, $end:literal) => {
        concat!(
            $begin,
            " from compactions s join memories e on e.compaction_id = s.id and e.origin = 'auto' and e.forgotten_at is null \
             join citations x on x.owner_type = 'memory' and x.owner_id = e.id and x.source_type = 'message' \
             join messages m on m.id = x.source_id and not (m.conversation_id = s.conversation_id and m.seq >= s.from_seq and m.seq <= s.to_seq) \
             join compactions o on o.conversation_id = m.conversation_id and o.from_seq <= m.seq and o.to_seq >= m.seq \
             where s.id = $1 ",
            $end
        )
    };
}

/// Marks the segments that share an entry with the given segment as stale, because the given segment's entries are about to be
/// removed.
pub async fn stale_sharers(c: &mut Conn, segment: CompactionId) -> Result<(), DbError> {
    let sharers: Vec<(CompactionId,)> = c
        .q(sharer_sql!(
            "select distinct o.id",
            "and o.state = 'active' order by o.id"
        ))
        .bind(segment)
        .all()
        .await?;
    for (id,) in sharers {
        if let Some(sharer) = find_segment(c, id).await? {
            let sharer = set_state(c, &sharer, CompactionState::Stale).await?;
            queue_redo(c, &sharer).await?;
        }
    }
    Ok(())
}

/// Moves the entries of a segment that is being rebuilt to other segments that share them.
pub async fn hand_over(c: &mut Conn, segment: CompactionId) -> Result<(), DbError> {
    let shared: Vec<(MemoryId, CompactionId)> = c
        .q(sharer_sql!(
            "select e.id, o.id",
            "and e.status in ('active', 'stale') and o.state <> 'blank' order by e.id, o.from_seq"
        ))
        .bind(segment)
        .all()
        .await?;
    let mut last = None;
    for (entry, sharer) in shared {
        if last.replace(entry) == Some(entry) {
            continue;
        }
        c.q("delete from citations where owner_type = 'memory' and owner_id = $1 and source_type = 'message' and source_id in \
             (select m.id from compactions s join messages m on m.conversation_id = s.conversation_id and m.seq >= s.from_seq \
             and m.seq <= s.to_seq where s.id = $2)")
            .bind(entry)
            .bind(segment)
            .run()
            .await?;
        c.q("update memories set compaction_id = $2, status = 'active', version = version + 1, updated_at = $3 where id = $1")
            .bind(entry)
            .bind(sharer)
            .bind(now())
            .run()
            .await?;
        super::entries::announce(c, entry, super::entries::MemoryAction::Updated).await?;
    }
    Ok(())
}

/// Queues a pass that rebuilds stale and blank segments, unless such a pass is already active or the thread was deleted. Its usage counts
/// toward the requester of the task that made the segment.
pub async fn queue_redo(c: &mut Conn, segment: &Segment) -> Result<(), DbError> {
    let is_removed: bool = c
        .q("select exists (select 1 from thread_removals where thread_id = $1)")
        .bind(segment.thread_id)
        .value()
        .await?;
    if is_removed {
        return Ok(());
    }
    let Some(made_by) = queue::find_task(c, segment.task_id).await? else {
        return Ok(());
    };
    let (Some(target), options) = (made_by.target(), made_by.input.0.options.clone()) else {
        return Ok(());
    };
    let options: Option<PassOptions> = options.and_then(|o| serde_json::from_value(o).ok());
    let options = PassOptions {
        trigger: CompactionTrigger::Redo,
        keep: 0,
        before_seq: None,
        max_tokens: None,
        summary_model: options.as_ref().and_then(|o| o.summary_model.clone()),
        model: options.and_then(|o| o.model),
    };
    let new = NewTask {
        parent: made_by.parent_task_id,
        options: serde_json::to_value(options).ok(),
        ..NewTask::new(
            segment.workspace_id,
            TaskKind::Compact,
            made_by.requested_by,
            target,
        )
    };
    if let Some(task) = queue::insert(c, &new, None).await? {
        let audience = queue::audience_of(c, target.channel).await?;
        queue::announce(c, &task, audience).await?;
    }
    Ok(())
}
