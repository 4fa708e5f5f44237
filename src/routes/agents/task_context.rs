//! HTTP routes for the context that a task's model received, or that an agent would receive now.

use std::collections::{BTreeMap, HashMap, HashSet};

use axum::{Json, http::StatusCode};
use futures::FutureExt;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa_axum::router::OpenApiRouter;

use super::{
    St,
    sources::{self, Owners, SourceSeen, turn_text},
};
use crate::{
    agents::{
        AgentError,
        profiles::{self, Resolved},
        system::{System, SystemPart, SystemPartName},
    },
    auth::{Actor, Caller, Role, Scope},
    chat::{ChatError, access, bindings, threads::ParticipantKind},
    db::Conn,
    http::{
        ApiError, ErrorCode,
        extract::{Path, Query},
        routing::routes,
    },
    ids::{
        ActionId, AgentId, ChannelId, ForkId, MemoryId, MessageId, TaskId, ThreadId, UserId,
        WorkspaceId,
    },
    memory::{entry::MemoryScope, recall::readable_channels},
    model::{self, Provider},
    realtime::hub::Conversation,
    replies::{
        authored::{self, AuthoredTexts},
        compaction::profile::CompactionSettings,
        context::ReplyPlace,
        dry_run::{CompactionOutlook, Next},
        manifest::{
            self, Block, LeftOut, Manifest, MemoryFacts, OldMessageFacts, Sent, SentPart, SentText,
        },
        preset::UsedPreset,
        prompt::{self, Author},
        requester::Requester,
    },
    routes::chat::{ScannedObject, brief_reader_of, reader_of, scan_for, visible_task},
    server::State,
    tasks::{Task, TaskKind, TaskTarget, attempts::AttemptRecord, budgets::Price, costs},
    text_enum::text_enum,
    time::Timestamp,
    tools::{approvals, briefs, function::DELEGATE},
};

/// Maximum number of characters quoted from a message in "What it saw".
const EXCERPT_CHARS: usize = 140;

pub(super) fn router() -> OpenApiRouter<State> {
    OpenApiRouter::new()
        .routes(routes!(get_task_context))
        .routes(routes!(get_thread_context))
        .routes(routes!(get_fork_context))
        .routes(routes!(get_channel_context))
}

#[derive(Serialize, utoipa::ToSchema)]
struct SystemSeen {
    /// Text of the system prompt; empty if `hidden`.
    text: String,
    /// True if the text belongs to an agent that the caller cannot see.
    hidden: bool,
    /// Estimated number of tokens.
    tokens: u64,
    /// Sources of the text, in order.
    parts: Vec<SystemPart>,
}

#[derive(Serialize, utoipa::ToSchema)]
struct TurnSeen {
    #[schema(inline)]
    role: model::Role,
    content: String,
}

/// Definition of a function that was offered to the model.
#[derive(Serialize, Deserialize, utoipa::ToSchema)]
struct ToolSeen {
    name: String,
    /// Null for `delegate`, except to the requester, because it lists the agents that the requester can invoke.
    description: Option<String>,
    /// JSON schema of the arguments.
    #[schema(value_type = Option<Object>)]
    parameters: Option<Value>,
}

#[derive(Serialize, utoipa::ToSchema)]
struct SeenAuthor {
    #[serde(rename = "type")]
    kind: ParticipantKind,
    id: String,
    name: String,
}

#[derive(Serialize, utoipa::ToSchema)]
struct MessageSeen {
    message_id: MessageId,
    author: SeenAuthor,
    #[schema(inline)]
    role: model::Role,
    /// Estimated number of tokens.
    tokens: u64,
    /// Beginning of the message, as it appears in the prompt.
    excerpt: String,
    /// True if the message has since been deleted; its text is no longer stored.
    deleted: bool,
}

text_enum! {
    enum SegmentName {
        System = "system",
        Workspace = "workspace",
        Memory = "memory",
        Summary = "summary",
        Messages = "messages",
        Trigger = "trigger",
        /// Tool definitions, calls, and their results.
        Tools = "tools",
        /// Room for the reply.
        Reserve = "reserve",
    }
}

impl SegmentName {
    fn of(block: Block) -> Self {
        match block {
            Block::System(_) => Self::System,
            Block::Conversation | Block::Workspace => Self::Workspace,
            Block::Notes | Block::About | Block::Memories | Block::Knowledge => Self::Memory,
            Block::Summary | Block::LeftOut => Self::Summary,
            Block::Messages | Block::ForkHeader => Self::Messages,
            Block::Trigger | Block::Requester | Block::Files | Block::Brief => Self::Trigger,
            Block::Tools | Block::Round | Block::Call | Block::Result => Self::Tools,
        }
    }
}

#[derive(Serialize, utoipa::ToSchema)]
struct Segment {
    name: SegmentName,
    tokens: u64,
    /// Blocks in the order in which they appear in the prompt.
    parts: Vec<SegmentPart>,
}

#[derive(Serialize, utoipa::ToSchema)]
struct SegmentPart {
    /// Name of the block, such as `memories`, or of the part of the system text.
    #[schema(example = "memories")]
    name: &'static str,
    tokens: u64,
}

/// Token budget of the prompt.
#[derive(Serialize, utoipa::ToSchema)]
pub(super) struct Budget {
    context_window: u64,
    /// Number of tokens reserved for the reply.
    reserve: u64,
    used: u64,
    segments: Vec<Segment>,
}

impl Budget {
    fn of(sent: &Sent) -> Self {
        let mut segments = segments_of(&sent.parts);
        let used = segments.iter().map(|segment| segment.tokens).sum();
        segments.push(Segment {
            name: SegmentName::Reserve,
            tokens: sent.reserve,
            parts: Vec::new(),
        });
        Self {
            context_window: sent.context_window,
            reserve: sent.reserve,
            used,
            segments,
        }
    }
}

/// The exact context that a task's model received.
#[derive(Serialize, utoipa::ToSchema)]
struct TaskContext {
    task_id: TaskId,
    attempt: i64,
    #[serde(flatten)]
    context: ContextSeen,
    attempts: Vec<AttemptRecord>,
    /// True if the provider did not report the usage of every call. The token counts of parts and messages are always estimates.
    estimated: bool,
    /// True if texts were deleted because no task had used them within `OPENVIBE_CONTEXT_RETENTION`.
    expired: bool,
}

/// The context that an agent would receive if the caller posted a message now. The message itself is not included.
#[derive(Serialize, utoipa::ToSchema)]
struct NextContext {
    /// Always true.
    dry_run: bool,
    /// Always true: no provider has counted the tokens.
    estimated: bool,
    /// True if the caller can post here and invoke the agent.
    may_ask: bool,
    compaction: CompactionOutlook,
    estimate: Estimate,
    #[serde(flatten)]
    context: ContextSeen,
}

/// Estimated usage of the reply.
#[derive(Serialize, utoipa::ToSchema)]
struct Estimate {
    /// Estimated size of the prompt in tokens, not counting the message that you have not posted yet.
    input_tokens: u64,
    /// Amount in US dollars that the call reserves in budgets: 1.5 times the size of the prompt, plus the output limit. Null if the
    /// price is unknown or the policy hides costs from the caller.
    cost_usd_max: Option<f64>,
}

/// A prompt with its sources.
#[derive(Serialize, utoipa::ToSchema)]
struct ContextSeen {
    /// The model that is called.
    model: String,
    requested_by: Requester,
    /// The reply style; null if none is used.
    preset: Option<UsedPreset>,
    system: SystemSeen,
    /// The conversation as the model receives it. A call is the name of its function and its arguments.
    turns: Vec<TurnSeen>,
    /// Definitions of the functions that were offered, as sent; empty if the system text is hidden.
    tools: Vec<ToolSeen>,
    /// Everything that a prompt can contain, in the prompt's order, with the reason why something is missing.
    sources: Vec<SourceSeen>,
    /// The included messages in order; the trigger message is last.
    messages: Vec<MessageSeen>,
    left_out: Vec<LeftOut>,
    /// Functions that were not offered, because the model's server has rejected them; empty if the system text is hidden.
    functions_left_out: Vec<FunctionLeftOut>,
    /// True if the model's server does not parse the model's calls, so that they are read from its text. Only admins see this.
    calls_in_text: bool,
    memories: MemoriesSeen,
    /// Origin of `budget.context_window`: the model table, `OPENVIBE_CONTEXT_WINDOW`, the provider's description, or an error from
    /// the provider; `assumed` if nothing is known.
    #[schema(inline)]
    window_source: Option<model::WindowSource>,
    budget: Budget,
}

#[derive(Serialize, utoipa::ToSchema)]
struct FunctionLeftOut {
    name: String,
    /// The server's reason; null unless the caller is an admin.
    reason: Option<String>,
}

/// Memory entries and old messages that a reply used. Personal entries of other people are only counted.
#[derive(Serialize, utoipa::ToSchema)]
struct MemoriesSeen {
    /// Number of entries that matched the question, by scope. Counts of personal entries are shown only to the requester.
    #[schema(value_type = std::collections::HashMap<String, i64>)]
    considered: BTreeMap<MemoryScope, i64>,
    used: Vec<MemorySeen>,
    /// Old messages of the conversation from which the prompt contains passages.
    messages: Vec<OldMessageSeen>,
    /// Counts of other people's personal entries, whose texts are hidden.
    hidden: Vec<HiddenMemories>,
}

#[derive(Serialize, utoipa::ToSchema)]
struct HiddenMemories {
    user_id: UserId,
    name: String,
    count: usize,
}

#[derive(Serialize, utoipa::ToSchema)]
struct MemorySeen {
    id: MemoryId,
    scope: MemoryScope,
    /// Channel of the entry's conversation; null for an entry without one, and if the caller cannot read the channel.
    channel_id: Option<ChannelId>,
    /// Reason for including the entry, such as `3 matching words`.
    reason: String,
    /// Age of the entry in days when the prompt was built.
    age_days: i64,
    /// Text as it appears in the prompt; null if the entry has since been forgotten.
    text: Option<String>,
}

#[derive(Serialize, utoipa::ToSchema)]
struct OldMessageSeen {
    message_id: MessageId,
    /// Reason for including the message, such as `3 matching words` or `after a matching message`.
    reason: String,
    /// Age of the message in days when the prompt was built.
    age_days: i64,
    /// Text as it appears in the prompt; null if the message has since been deleted.
    text: Option<String>,
}

fn reason(matched: i64) -> String {
    let words = if matched == 1 { "word" } else { "words" };
    format!("{matched} matching {words}")
}

fn age_days(from: Timestamp, to: Timestamp) -> i64 {
    i64::try_from(to.since(from).as_secs() / (24 * 3600)).unwrap_or(i64::MAX)
}

fn kept_text(part: &SentPart) -> Option<String> {
    match &part.text {
        SentText::Kept(text) => Some(text.clone()),
        _ => None,
    }
}

fn memory_seen(
    memory: &MemoryFacts,
    part: &SentPart,
    channels: &HashMap<MemoryId, ChannelId>,
) -> MemorySeen {
    MemorySeen {
        id: memory.id,
        scope: memory.scope,
        channel_id: channels.get(&memory.id).copied(),
        reason: reason(memory.matched),
        age_days: age_days(memory.created_at, memory.used_at),
        text: kept_text(part),
    }
}

fn old_message_seen(message: &OldMessageFacts, part: &SentPart) -> OldMessageSeen {
    OldMessageSeen {
        message_id: message.id,
        reason: match message.matched {
            0 => "after a matching message".to_owned(),
            matched => reason(matched),
        },
        age_days: age_days(message.posted_at, message.used_at),
        text: kept_text(part),
    }
}

/// Replaces the texts of other people's personal memories with one line for each person, and hides other people's USER.md and
/// adaptation. Tool calls and their results are shown only for `readable` actions.
fn hide_personal(
    parts: &mut [SentPart],
    caller: UserId,
    readable: &HashSet<ActionId>,
) -> Vec<HiddenMemories> {
    let mut people = Vec::new();
    let mut hidden: BTreeMap<UserId, usize> = BTreeMap::new();
    for part in &mut *parts {
        let what = match part.block {
            Block::About => "USER.md",
            Block::System(SystemPartName::Adaptation) => "adaptation",
            Block::Call => "tool call",
            Block::Result => "tool result",
            _ => continue,
        };
        if part.action.is_some_and(|action| readable.contains(&action)) {
            part.only_user = None;
        }
        let Some((_, name)) = part.only_user.take_if(|(user, _)| *user != caller) else {
            continue;
        };
        part.text = SentText::Hidden(format!("({name}'s {what} is hidden)"));
        if part.block != Block::About {
            // Adaptation sentences are fixed, so the token count would reveal which of them the prompt contains.
            part.tokens = 0;
        }
    }
    let is_hidden = |part: &SentPart| {
        let only = part.only_user.as_ref();
        only.map(|(id, _)| *id).filter(|id| *id != caller)
    };
    for user in parts.iter().filter_map(is_hidden) {
        *hidden.entry(user).or_default() += 1;
    }
    for part in parts {
        let Some(user) = is_hidden(part) else {
            continue;
        };
        let name = part.only_user.as_ref().map_or("", |(_, name)| name);
        let line = match hidden.remove(&user) {
            Some(count) => {
                people.push(HiddenMemories {
                    user_id: user,
                    name: name.to_owned(),
                    count,
                });
                match count {
                    1 => format!("(1 personal memory of {name} is hidden)"),
                    _ => format!("({count} personal memories of {name} are hidden)"),
                }
            }
            None => String::new(),
        };
        part.text = SentText::Hidden(line);
        part.memory = None;
    }
    people
}

/// Removes the brief from another agent. For a delegated task, also removes the texts of its rounds, which are not posted.
fn hide_brief(sent: &mut Sent, kind: TaskKind) {
    for part in &mut sent.parts {
        let note = match part.block {
            Block::Brief => "(the brief is hidden)",
            Block::Round if kind == TaskKind::Delegate => "(the text is hidden)",
            _ => continue,
        };
        part.text = SentText::Hidden(note.to_owned());
        part.tokens = 0;
    }
}

fn seen(part: &SentPart) -> Option<MessageSeen> {
    let (message_id, author) = part.message.as_ref()?;
    let author = match author {
        Author::Human { id, name } => SeenAuthor {
            kind: ParticipantKind::Human,
            id: id.to_string(),
            name: name.clone(),
        },
        Author::Agent { id, name } => SeenAuthor {
            kind: ParticipantKind::Agent,
            id: id.to_string(),
            name: name.clone(),
        },
    };
    Some(MessageSeen {
        message_id: *message_id,
        author,
        role: part.role,
        tokens: part.tokens,
        excerpt: part.text.shown().chars().take(EXCERPT_CHARS).collect(),
        deleted: part.text == SentText::Deleted,
    })
}

/// Returns the segments of a prompt in order, without empty ones.
fn segments_of(parts: &[SentPart]) -> Vec<Segment> {
    let mut segments = BTreeMap::<SegmentName, Segment>::new();
    for part in parts.iter().filter(|part| part.tokens > 0) {
        let name = SegmentName::of(part.block);
        let segment = segments.entry(name).or_insert_with(|| Segment {
            name,
            tokens: 0,
            parts: Vec::new(),
        });
        segment.tokens += part.tokens;
        let name = part.block.name();
        match segment.parts.iter_mut().find(|known| known.name == name) {
            Some(known) => known.tokens += part.tokens,
            None => segment.parts.push(SegmentPart {
                name,
                tokens: part.tokens,
            }),
        }
    }
    segments.into_values().collect()
}

/// Returns the system text of a prompt, with its sources.
fn system_of(parts: &[SentPart]) -> System {
    let parts = parts.iter().filter_map(|part| match part.block {
        Block::System(name) => Some(SystemPart {
            name,
            text: part.text.shown().to_owned(),
            tokens: part.tokens,
        }),
        _ => None,
    });
    System {
        parts: parts.collect(),
    }
}

/// Returns the memories and old messages of a prompt.
fn memories_of(sent: &Sent, reading: &Reading<'_>, hidden: Vec<HiddenMemories>) -> MemoriesSeen {
    let used = sent.memories.iter().filter_map(|memory| {
        let mut parts = sent.parts.iter();
        let part = parts.find(|part| part.memory == Some(memory.id))?;
        Some(memory_seen(memory, part, &reading.channels))
    });
    let old_messages = sent.old_messages.iter().filter_map(|message| {
        let mut parts = sent.parts.iter();
        let part = parts.find(|part| part.old_message == Some(message.id))?;
        Some(old_message_seen(message, part))
    });
    let is_requester = sent.requested_by.id == reading.caller;
    let mut considered = sent.considered.clone();
    considered.retain(|scope, _| is_requester || !scope.is_personal());
    MemoriesSeen {
        considered,
        used: used.collect(),
        messages: old_messages.collect(),
        hidden,
    }
}

/// Reads definitions, which are stored as one JSON object per line.
fn definitions_in(text: &str) -> impl Iterator<Item = ToolSeen> {
    text.lines()
        .filter_map(|line| serde_json::from_str(line).ok())
}

/// Returns the definitions of a prompt.
fn tools_of(sent: &Sent) -> Vec<ToolSeen> {
    let of_tools = sent.parts.iter().filter(|part| part.block == Block::Tools);
    let texts: Vec<String> = of_tools.filter_map(kept_text).collect();
    texts.iter().flat_map(|text| definitions_in(text)).collect()
}

/// Removes the description of `delegate`, which lists the agents that the requester can invoke.
fn hide_agents(parts: &mut [SentPart]) {
    for part in parts.iter_mut().filter(|part| part.block == Block::Tools) {
        let SentText::Kept(text) = &mut part.text else {
            continue;
        };
        let lines = definitions_in(text).filter_map(|mut tool| {
            if tool.name == DELEGATE {
                tool.description = None;
            }
            serde_json::to_string(&tool).ok()
        });
        *text = lines.collect::<Vec<_>>().join("\n");
    }
}

/// The parts of a prompt that a reader can see.
struct Reading<'a> {
    caller: UserId,
    /// Actions whose arguments and results the caller can read.
    readable: &'a HashSet<ActionId>,
    owners: Owners,
    /// Channels of memory entries that the caller can read.
    channels: HashMap<MemoryId, ChannelId>,
    /// True if the caller cannot see what the agent is told.
    is_agent_hidden: bool,
    role: Role,
}

/// Returns a prompt as the caller can see it.
fn show(mut sent: Sent, reading: &Reading<'_>) -> ContextSeen {
    let caller = reading.caller;
    let hidden = hide_personal(&mut sent.parts, caller, reading.readable);
    if sent.requested_by.id != caller {
        hide_agents(&mut sent.parts);
    }
    let sources = sources::list(&sent, &reading.owners, reading.is_agent_hidden);
    let text = system_of(&sent.parts);
    let texts = sent
        .parts
        .iter()
        .filter(|p| !matches!(p.block, Block::System(_) | Block::Tools))
        .filter(|p| !p.text.shown().is_empty());
    let texts: Vec<_> = texts.map(|part| (part.role, turn_text(part))).collect();
    let turns = prompt::joined(texts.iter().map(|(role, text)| (*role, text.as_ref())));
    let mut seen = ContextSeen {
        sources,
        tools: tools_of(&sent),
        turns: turns
            .into_iter()
            .map(|t| TurnSeen {
                role: t.role,
                content: t.content,
            })
            .collect(),
        messages: sent.parts.iter().filter_map(seen).collect(),
        memories: memories_of(&sent, reading, hidden),
        window_source: Some(sent.window_source),
        budget: Budget::of(&sent),
        system: SystemSeen {
            text: text.text(),
            hidden: false,
            tokens: text.parts.iter().map(|part| part.tokens).sum(),
            parts: text.parts,
        },
        model: sent.model,
        requested_by: sent.requested_by,
        preset: sent.preset,
        left_out: sent.left_out,
        functions_left_out: (sent.functions_left_out.into_iter())
            .map(|left_out| FunctionLeftOut {
                name: left_out.name,
                reason: Some(left_out.reason),
            })
            .collect(),
        calls_in_text: sent.calls_in_text,
    };
    seen.hide_server(reading.role);
    if reading.is_agent_hidden {
        seen.hide_system();
    }
    seen
}

impl ContextSeen {
    /// Removes what the model's server says, unless the reader is an admin.
    fn hide_server(&mut self, role: Role) {
        if role != Role::Admin {
            self.calls_in_text = false;
            for left_out in &mut self.functions_left_out {
                left_out.reason = None;
            }
        }
    }

    /// Removes the system text, which contains the agent's instructions, the list of its parts, and the definitions.
    fn hide_system(&mut self) {
        self.system.text.clear();
        self.system.parts.clear();
        self.tools.clear();
        self.functions_left_out.clear();
        self.system.hidden = true;
        let mut segments = self.budget.segments.iter_mut();
        if let Some(system) = segments.find(|segment| segment.name == SegmentName::System) {
            system.parts.clear();
        }
    }
}

/// Get the context that the model received for a task, and the results of its calls
#[utoipa::path(get, path = "/v1/tasks/{id}/context", tag = "tasks",
    security(("session" = ["viewer"]), ("key" = ["chat:read"])),
    params(("id" = TaskId, Path)), responses((status = 200, body = TaskContext)))]
async fn get_task_context(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<TaskId>,
) -> Result<Json<TaskContext>, ApiError> {
    let c = scan_for(&state, &caller, ScannedObject::Task(id)).await?;
    let read = c.run(move |c| async move { read_context(c, &caller, id).await }.boxed());
    Ok(Json(read.await?))
}

/// # Errors
/// `context_not_found` before the first model call, or an error from `visible_task`.
async fn read_context(c: &mut Conn, caller: &Caller, id: TaskId) -> Result<TaskContext, ApiError> {
    let task = visible_task(c, caller, id).await?;
    let actor = caller.enter(c, task.workspace_id).await?;
    let found = manifest::find(c, id).await?;
    let mut sent = found.ok_or_else(|| {
        ApiError::not_found(
            ErrorCode::ContextNotFound,
            "the model has not been called for this task yet",
        )
    })?;
    let (attempt, attempts) = (sent.attempt, sent.attempts.clone());
    let expired = sent.parts.iter().any(|p| p.text == SentText::Expired);
    let readable = approvals::list_readable(c, caller, id).await?;
    if !briefs::are_visible(c, task.root_task_id, brief_reader_of(&actor)).await? {
        hide_brief(&mut sent, task.kind);
    }
    let is_hidden = match task.agent_id {
        Some(agent) => profiles::is_hidden(c, &actor, agent).await?,
        None => false,
    };
    let entries: Vec<MemoryId> = sent.memories.iter().map(|memory| memory.id).collect();
    let reading = Reading {
        caller: actor.user,
        readable: &readable,
        channels: readable_channels(c, &entries, actor.user).await?,
        owners: owners_of(c, &actor, &task).await?,
        is_agent_hidden: is_hidden || !actor.scopes.has(Scope::AgentsRead),
        role: actor.role,
    };
    Ok(TaskContext {
        task_id: id,
        attempt,
        context: show(sent, &reading),
        attempts,
        estimated: task.token_usage.is_none_or(|usage| usage.estimated),
        expired,
    })
}

/// Finds the owners of the texts in the prompt of a task. Prompts of other tasks than replies contain no agent's texts.
async fn owners_of(c: &mut Conn, actor: &Actor<'_>, task: &Task) -> Result<Owners, ApiError> {
    let conversation = match (task.fork_id, task.thread_id) {
        (Some(fork), _) => Some(Conversation::Fork(fork)),
        (None, thread) => thread.map(Conversation::Thread),
    };
    let has_agent = matches!(
        task.kind,
        TaskKind::Reply | TaskKind::Delegate | TaskKind::Schedule
    );
    let version = task.agent_id.zip(task.agent_version);
    let agent = match version.filter(|_| has_agent) {
        Some((agent, version)) => profiles::find_resolved(c, agent, version).await?,
        None => None,
    };
    let authored = match &agent {
        Some(agent) => AuthoredTexts {
            sent: authored::parts(c, agent.agent, agent.version).await?,
            ..AuthoredTexts::default()
        },
        None => AuthoredTexts::default(),
    };
    let agent = agent.as_ref().map(|agent| (agent, &authored));
    Ok(Owners::load(c, actor, agent, conversation).await?)
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct NextContextQuery {
    /// The agent that would reply.
    agent_id: AgentId,
}

/// Returns the version with which an agent would reply in a conversation.
async fn version_of(
    c: &mut Conn,
    conversation: Conversation,
    agent_id: AgentId,
) -> Result<i64, AgentError> {
    let binding = bindings::find_binding(c, conversation).await?;
    let bound = binding.filter(|binding| binding.agent == agent_id);
    let version = match bound {
        Some(bound) => Some(bound.version),
        None => profiles::newest_version(c, agent_id).await?,
    };
    version.ok_or(AgentError::NotFound)
}

/// Estimates the size and price of the call.
fn estimate(
    provider: &dyn Provider,
    agent: &Resolved,
    manifest: &Manifest,
    shows_costs: bool,
) -> Estimate {
    let input_tokens = manifest.window.corrected(manifest.tokens());
    let output_tokens_max = agent.profile.output_tokens_max();
    let output_tokens_max = manifest
        .window
        .output_limit(output_tokens_max, input_tokens);
    let price = Price::of(provider, &manifest.model).filter(|_| shows_costs);
    Estimate {
        input_tokens,
        cost_usd_max: price.map(|price| price.cost_usd_max(input_tokens, output_tokens_max)),
    }
}

/// Place of a message that the caller might post, and the agent that would reply.
struct NextPlace {
    place: ReplyPlace,
    agent: Resolved,
    /// `None` for a new thread.
    conversation: Option<Conversation>,
    /// True if the caller can post there and invoke the agent.
    may_ask: bool,
}

impl NextPlace {
    async fn in_conversation(
        c: &mut Conn,
        caller: &Caller,
        conversation: Conversation,
        agent_id: AgentId,
    ) -> Result<Self, ApiError> {
        let access = access::find_conversation(c, caller, conversation)
            .await?
            .reading()?;
        let may_write = access.clone().writing().is_ok();
        let version = version_of(c, conversation, agent_id).await?;
        let target = TaskTarget {
            agent: agent_id,
            agent_version: version,
            channel: access.channel_access.channel,
            thread: access.thread,
            fork: access.fork_id(),
        };
        let actor = &access.channel_access.actor;
        Self::of(c, caller, actor.workspace, target, may_write)
            .await
            .map(|place| Self {
                conversation: Some(conversation),
                ..place
            })
    }

    async fn in_channel(
        c: &mut Conn,
        caller: &Caller,
        channel: ChannelId,
        agent_id: AgentId,
    ) -> Result<Self, ApiError> {
        let access = access::channel(c, caller, channel).await?.reading()?;
        let may_write = access.clone().writing().is_ok();
        let version = profiles::newest_version(c, agent_id).await?;
        let target = TaskTarget {
            agent: agent_id,
            agent_version: version.ok_or(AgentError::NotFound)?,
            channel,
            // No thread has this ID.
            thread: ThreadId::new(),
            fork: None,
        };
        Self::of(c, caller, access.actor.workspace, target, may_write).await
    }

    async fn of(
        c: &mut Conn,
        caller: &Caller,
        workspace: WorkspaceId,
        target: TaskTarget,
        may_write: bool,
    ) -> Result<Self, ApiError> {
        let actor = caller.enter(c, workspace).await?;
        let id = target.agent;
        if !profiles::is_visible(c, &actor, id).await? {
            return Err(AgentError::NotFound.into());
        }
        let may_ask = may_write
            && actor.scopes.has(Scope::AgentsUse)
            && profiles::find_invocable(c, &actor, id).await?.is_some();
        Ok(Self {
            agent: profiles::get_resolved(c, id, target.agent_version).await?,
            place: ReplyPlace {
                workspace,
                target,
                requester: actor.user,
            },
            conversation: None,
            may_ask,
        })
    }

    /// Builds the prompt, without storing anything or calling a model.
    async fn context(
        self,
        mut c: Conn,
        state: &State,
        caller: &Caller,
    ) -> Result<Json<NextContext>, ApiError> {
        let workspace = self.place.workspace;
        let actor = caller.enter(&mut c, workspace).await?;
        let settings = CompactionSettings::of(&state.config);
        let (place, agent) = (&self.place, &self.agent);
        let next = Next::load(&mut c, place, actor.key, agent, settings).await?;
        let mut compaction = CompactionOutlook::load(&mut c, place, &next).await?;
        let authored = next.authored();
        let owners = Owners::load(&mut c, &actor, Some((agent, authored)), self.conversation);
        let owners = owners.await?;
        let shows_costs = costs::are_visible(&mut c, workspace, reader_of(&actor)).await?;
        let channels = readable_channels(&mut c, &next.memory_ids(), actor.user).await?;
        drop(c);
        let provider = state.providers.of(workspace).await?;
        let offer = next.offer(&state.db, &state.tools, &*provider, agent);
        let offer = offer.await?;
        let fitted = next.fit(&*provider, agent, &offer).await;
        let fitted = fitted.map_err(|too_large| {
            ApiError::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                ErrorCode::ContextTooLarge,
                too_large.notice(&agent.shown_name),
            )
        })?;
        compaction.is_due = fitted.is_compaction_due;
        let reading = Reading {
            caller: actor.user,
            readable: &HashSet::new(),
            owners,
            channels,
            is_agent_hidden: !actor.scopes.has(Scope::AgentsRead),
            role: actor.role,
        };
        Ok(Json(NextContext {
            dry_run: true,
            estimated: true,
            may_ask: self.may_ask,
            compaction,
            estimate: estimate(&*provider, agent, &fitted.manifest, shows_costs),
            context: show(Sent::preview(&fitted.manifest), &reading),
        }))
    }
}

async fn next_context(
    state: &State,
    caller: &Caller,
    conversation: Conversation,
    agent_id: AgentId,
) -> Result<Json<NextContext>, ApiError> {
    let mut c = scan_for(state, caller, ScannedObject::Conversation(conversation)).await?;
    let place = NextPlace::in_conversation(&mut c, caller, conversation, agent_id).await?;
    place.context(c, state, caller).await
}

/// Lists the sources of the prompt of a draft, in a new thread of a channel or without a conversation, and adds up their tokens.
pub(super) async fn sources_of_draft(
    state: &State,
    caller: &Caller,
    workspace: WorkspaceId,
    draft: &Resolved,
    channel: Option<ChannelId>,
) -> Result<(Vec<SourceSeen>, Budget), ApiError> {
    let mut c = state.db.scan(caller.share(workspace)).await?;
    let actor = caller.enter(&mut c, workspace).await?;
    actor.require(Scope::AgentsRead)?;
    if let Some(channel) = channel {
        let access = access::channel(&mut c, caller, channel).await?.reading()?;
        if access.actor.workspace != workspace {
            return Err(ChatError::ChannelNotFound.into());
        }
    }
    let place = ReplyPlace {
        workspace,
        target: TaskTarget {
            agent: draft.agent,
            agent_version: draft.version,
            channel: channel.unwrap_or_default(),
            thread: ThreadId::new(),
            fork: None,
        },
        requester: actor.user,
    };
    let settings = CompactionSettings::of(&state.config);
    let next = match channel {
        Some(_) => Next::load(&mut c, &place, actor.key, draft, settings).await?,
        None => Next::load_without_conversation(&mut c, &place, actor.key, draft).await?,
    };
    let next = next.as_draft(&mut c, draft).await?;
    let owners = Owners::load(&mut c, &actor, Some((draft, next.authored())), None).await?;
    drop(c);
    let provider = state.providers.of(workspace).await?;
    let offer = next.offer(&state.db, &state.tools, &*provider, draft);
    let offer = offer.await?;
    let fitted = next.fit_or_show_whole(&*provider, draft, &offer).await;
    let fitted = fitted.map_err(|too_large| {
        ApiError::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            ErrorCode::ContextTooLarge,
            too_large.notice(&draft.shown_name),
        )
    })?;
    let sent = Sent::preview(&fitted.manifest);
    Ok((sources::list(&sent, &owners, false), Budget::of(&sent)))
}

/// Get the context that an agent would receive if you posted in a thread now
///
/// No model is called, and nothing is stored. Returns 404 for an agent that the caller cannot see.
#[utoipa::path(get, path = "/v1/threads/{id}/context", tag = "threads",
    security(("session" = ["viewer"]), ("key" = ["chat:read"])),
    params(("id" = ThreadId, Path), NextContextQuery), responses((status = 200, body = NextContext)))]
async fn get_thread_context(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<ThreadId>,
    Query(query): Query<NextContextQuery>,
) -> Result<Json<NextContext>, ApiError> {
    next_context(&state, &caller, Conversation::Thread(id), query.agent_id).await
}

/// Get the context that an agent would receive if you posted in a fork now
///
/// No model is called, and nothing is stored. Returns 404 for an agent that the caller cannot see.
#[utoipa::path(get, path = "/v1/forks/{id}/context", tag = "forks",
    security(("session" = ["viewer"]), ("key" = ["chat:read"])),
    params(("id" = ForkId, Path), NextContextQuery), responses((status = 200, body = NextContext)))]
async fn get_fork_context(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<ForkId>,
    Query(query): Query<NextContextQuery>,
) -> Result<Json<NextContext>, ApiError> {
    next_context(&state, &caller, Conversation::Fork(id), query.agent_id).await
}

/// Get the context that an agent would receive if you started a thread in a channel now
///
/// No model is called, and nothing is stored. Returns 404 for an agent that the caller cannot see.
#[utoipa::path(get, path = "/v1/channels/{id}/context", tag = "channels",
    security(("session" = ["viewer"]), ("key" = ["chat:read"])),
    params(("id" = ChannelId, Path), NextContextQuery), responses((status = 200, body = NextContext)))]
async fn get_channel_context(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<ChannelId>,
    Query(query): Query<NextContextQuery>,
) -> Result<Json<NextContext>, ApiError> {
    let mut c = scan_for(&state, &caller, ScannedObject::Channel(id)).await?;
    let place = NextPlace::in_channel(&mut c, &caller, id, query.agent_id).await?;
    place.context(c, &state, &caller).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_md_of_another_person_is_hidden() {
        let ada = UserId::new();
        let part = SentPart {
            block: Block::About,
            message: None,
            memory: None,
            old_message: None,
            action: None,
            function: None,
            only_user: Some((ada, "Ada".to_owned())),
            role: model::Role::User,
            tokens: 3,
            text: SentText::Kept("I like tea.".to_owned()),
        };
        let mut parts = [part];
        assert!(hide_personal(&mut parts, ada, &HashSet::new()).is_empty());
        assert_eq!(parts[0].text.shown(), "I like tea.");
        assert!(hide_personal(&mut parts, UserId::new(), &HashSet::new()).is_empty());
        assert_eq!(parts[0].text.shown(), "(Ada's USER.md is hidden)");
        assert_eq!(parts[0].tokens, 3);
    }

    #[test]
    fn the_adaptation_to_another_person_is_hidden_with_its_length() {
        let ada = UserId::new();
        let part = SentPart {
            block: Block::System(SystemPartName::Adaptation),
            message: None,
            memory: None,
            old_message: None,
            action: None,
            function: None,
            only_user: Some((ada, "Ada".to_owned())),
            role: model::Role::User,
            tokens: 8,
            text: SentText::Kept("Go one step at a time.".to_owned()),
        };
        let mut parts = [part];
        assert!(hide_personal(&mut parts, ada, &HashSet::new()).is_empty());
        assert_eq!(
            (parts[0].text.shown(), parts[0].tokens),
            ("Go one step at a time.", 8)
        );
        assert!(hide_personal(&mut parts, UserId::new(), &HashSet::new()).is_empty());
        assert_eq!(
            (parts[0].text.shown(), parts[0].tokens),
            ("(Ada's adaptation is hidden)", 0)
        );
    }
}
