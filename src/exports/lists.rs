//! Lists of our format: one JSON object per line, with the names that the API uses.

use serde::Serialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{
    error::ExportError,
    page::{Content, Page, Position, Rows, Shape, exported, of_workspace},
    view::{View, is_exported},
};
use crate::{
    agents::{AgentError, transfer},
    auth::{Actor, Role, members::MemberStatus},
    chat::{channels::ChannelKind, custom_emoji::EMOJI_MAX},
    db::{Conn, Json, is_example, is_in_visible_channel},
    ids::{
        ActionItemId, AgentId, BotId, ChannelId, FileId, ForkId, HookId, MemoryId, MessageId,
        ResolutionId, ScheduleId, ThreadId, UserId, WorkflowId,
    },
    time::Timestamp,
};

/// Maximum number of members of a channel that are listed.
const MEMBERS_MAX: i64 = 100_000;
/// Maximum number of action items of a resolution.
const ITEMS_MAX: i64 = 100;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum List {
    People,
    Bots,
    Hooks,
    Channels,
    Threads,
    Forks,
    Resolutions,
    ActionItems,
    Memories,
    Workflows,
    Schedules,
    Agents,
    Emoji,
    /// IDs of agents, which workflows and memories have.
    AgentIds,
}

impl List {
    /// Name of the entry without its ending, and of the records in the counts.
    fn name(self) -> &'static str {
        match self {
            Self::People => "people",
            Self::Bots => "bots",
            Self::Hooks => "hooks",
            Self::Channels => "channels",
            Self::Threads => "threads",
            Self::Forks => "forks",
            Self::Resolutions => "resolutions",
            Self::ActionItems => "action_items",
            Self::Memories => "memories",
            Self::Workflows => "workflows",
            Self::Schedules => "schedules",
            Self::Agents => "agents",
            Self::Emoji => "emoji",
            Self::AgentIds => "agent_ids",
        }
    }
}

#[derive(Serialize, sqlx::FromRow)]
pub(super) struct ExportedPerson {
    pub(super) user_id: UserId,
    pub(super) name: String,
    pub(super) handle: String,
    /// Null for a placeholder, who has no address.
    pub(super) email: Option<String>,
    pub(super) avatar_url: Option<String>,
    pub(super) role: Role,
    pub(super) status: MemberStatus,
    pub(super) joined_at: Timestamp,
}

/// Members, without the addresses of placeholders, which are not theirs.
pub(super) const PEOPLE: &str = "select p.user_id, u.name, p.handle, case when p.status = 'placeholder' then null else u.email end as email, u.avatar_url, \
    p.role, p.status, p.joined_at from (select workspace_id, user_id, role, handle, joined_at, status from members union all \
    select workspace_id, user_id, role, handle, joined_at, 'suspended' from suspended_members) p join users u on u.id = p.user_id \
    where p.workspace_id = $1 and p.user_id > $2 order by p.user_id limit $3";

#[derive(Serialize, sqlx::FromRow)]
struct ExportedBot {
    id: BotId,
    handle: String,
    name: String,
    avatar_url: Option<String>,
    about: Option<String>,
    scopes: Json<Value>,
    show_emails: bool,
    link_domains: Json<Value>,
    status: String,
    created_by: UserId,
    created_at: Timestamp,
}

const BOTS: &str = "select b.id, b.handle, u.name, u.avatar_url, b.about, b.scopes, b.show_emails, b.link_domains, b.status, b.created_by, \
    b.created_at from bots b join users u on u.id = b.id where b.workspace_id = $1 and b.id > $2 order by b.id limit $3";

/// A webhook without its address, which is a secret.
#[derive(Serialize, sqlx::FromRow)]
struct ExportedWebhook {
    id: HookId,
    bot_id: BotId,
    channel_id: ChannelId,
    may_notify: String,
    template: Option<Json<Value>>,
    created_by: UserId,
    created_at: Timestamp,
}

const HOOKS: &str = concat!(
    "select h.id, h.bot_id, h.channel_id, h.may_notify, h.template, h.created_by, h.created_at from hooks h \
     join channels ch on ch.id = h.channel_id where h.workspace_id = $1 and h.id > $2 and ",
    is_exported!("ch"),
    " order by h.id limit $3"
);

#[derive(Serialize, sqlx::FromRow)]
pub(super) struct ExportedChannel {
    pub(super) id: ChannelId,
    pub(super) kind: ChannelKind,
    pub(super) name: Option<String>,
    pub(super) topic: Option<String>,
    pub(super) agent_id: Option<AgentId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) bot_id: Option<BotId>,
    pub(super) created_by: Option<UserId>,
    pub(super) created_at: Timestamp,
    pub(super) archived_at: Option<Timestamp>,
    #[sqlx(skip)]
    pub(super) member_ids: Vec<UserId>,
}

pub(super) const CHANNELS: &str = concat!(
    "select ch.id, ch.kind, ch.name, ch.topic, ch.agent_id, \
     case when ch.kind = 'direct' then (select bc.bot_id from bot_channels bc where bc.channel_id = ch.id order by bc.bot_id limit 1) end as bot_id, \
     ch.created_by, ch.created_at, ch.archived_at from channels ch where ch.workspace_id = $1 and ch.id > $2 and ",
    is_exported!("ch"),
    " order by ch.id limit $3"
);

#[derive(Serialize, sqlx::FromRow)]
struct ExportedThread {
    id: ThreadId,
    channel_id: ChannelId,
    root_message_id: MessageId,
    title: Option<String>,
    status: String,
    agent_id: Option<AgentId>,
    memory: String,
    created_by: UserId,
    created_at: Timestamp,
}

const THREADS: &str = concat!(
    "select t.id, t.channel_id, t.root_message_id, t.title, t.status, b.agent_id, t.memory, t.created_by, t.created_at from threads t \
     join channels ch on ch.id = t.channel_id left join bindings b on b.conversation_id = t.id and b.is_bound \
     where t.workspace_id = $1 and t.id > $2 and ",
    is_exported!("ch"),
    " and not ",
    is_example!("t.id"),
    " order by t.id limit $3"
);

#[derive(Serialize, sqlx::FromRow)]
struct ExportedFork {
    id: ForkId,
    channel_id: ChannelId,
    thread_id: ThreadId,
    message_id: MessageId,
    title: String,
    description: Option<String>,
    agent_id: Option<AgentId>,
    context: String,
    status: String,
    created_by: UserId,
    created_at: Timestamp,
    resolved_at: Option<Timestamp>,
    resolution_id: Option<ResolutionId>,
}

const FORKS: &str = concat!(
    "select f.id, f.channel_id, f.thread_id, f.message_id, f.title, f.description, b.agent_id, f.context, f.status, f.created_by, \
     f.created_at, f.resolved_at, f.resolution_id from forks f join channels ch on ch.id = f.channel_id \
     left join bindings b on b.conversation_id = f.id and b.is_bound where f.workspace_id = $1 and f.id > $2 and ",
    is_exported!("ch"),
    " and not ",
    is_example!("f.thread_id"),
    " order by f.id limit $3"
);

#[derive(Serialize, sqlx::FromRow)]
struct ExportedResolution {
    id: ResolutionId,
    channel_id: ChannelId,
    thread_id: ThreadId,
    fork_id: ForkId,
    version: i64,
    status: String,
    generated_by: Option<String>,
    edited_by: Json<Value>,
    headline: String,
    conclusion: String,
    key_points: Json<Value>,
    open_questions: Json<Value>,
    deferred_items: Json<Value>,
    #[sqlx(skip)]
    action_items: Vec<ExportedPoint>,
    message_id: Option<MessageId>,
    created_at: Timestamp,
    updated_at: Timestamp,
    published_at: Option<Timestamp>,
}

/// An action item in its resolution.
#[derive(Serialize, sqlx::FromRow)]
struct ExportedPoint {
    id: ActionItemId,
    text: String,
    owner_id: Option<UserId>,
    owner_name: Option<String>,
    due: Option<String>,
    done: bool,
    sources: Json<Value>,
}

const RESOLUTIONS: &str = concat!(
    "select r.id, r.channel_id, r.thread_id, r.fork_id, r.version, r.status, r.generated_by, r.edited_by, r.headline, r.conclusion, \
     r.key_points, r.open_questions, r.deferred_items, r.message_id, r.created_at, r.updated_at, r.published_at from resolutions r \
     join channels ch on ch.id = r.channel_id where r.workspace_id = $1 and r.id > $2 and ",
    is_exported!("ch"),
    " and not ",
    is_example!("r.thread_id"),
    " order by r.id limit $3"
);

/// An action item of a published resolution.
#[derive(Serialize, sqlx::FromRow)]
struct ExportedActionItem {
    id: ActionItemId,
    resolution_id: ResolutionId,
    channel_id: ChannelId,
    text: String,
    owner_id: Option<UserId>,
    owner_name: Option<String>,
    due: Option<String>,
    done: bool,
    done_at: Option<Timestamp>,
    done_by: Option<UserId>,
    sources: Json<Value>,
    created_at: Timestamp,
}

const ACTION_ITEMS: &str = concat!(
    "select i.id, i.resolution_id, r.channel_id, i.text, i.owner_id, i.owner_name, i.due, i.done, i.done_at, i.done_by, i.sources, i.created_at \
     from action_items i join resolutions r on r.id = i.resolution_id and r.status = 'published' \
     join channels ch on ch.id = r.channel_id where i.workspace_id = $1 and i.id > $2 and ",
    is_exported!("ch"),
    " and not ",
    is_example!("r.thread_id"),
    " order by i.id limit $3"
);

#[derive(Serialize, sqlx::FromRow)]
struct ExportedMemory {
    id: MemoryId,
    scope: String,
    kind: String,
    text: String,
    agent_id: Option<AgentId>,
    user_id: Option<UserId>,
    about_user_id: Option<UserId>,
    thread_id: Option<ThreadId>,
    fork_id: Option<ForkId>,
    channel_id: Option<ChannelId>,
    visibility: String,
    trust: String,
    origin: String,
    status: String,
    superseded_by: Option<MemoryId>,
    share_with_organization: bool,
    expires_at: Option<Timestamp>,
    created_by: Option<UserId>,
    created_at: Timestamp,
    updated_at: Timestamp,
}

/// Entries of the workspace and of the reader, who can read all of their sources. Paragraphs of an agent's files are in its files.
const MEMORIES: &str = concat!(
    "select e.id, e.scope, e.kind, e.text, e.agent_id, e.user_id, e.about_user_id, e.thread_id, \
     nullif(e.conversation_id, e.thread_id) as fork_id, e.channel_id, e.visibility, e.trust, e.origin, e.status, e.superseded_by, \
     e.share_with_organization, e.expires_at, e.created_by, e.created_at, e.updated_at from memories e \
     where e.workspace_id = $1 and e.id > $2 and e.forgotten_at is null and e.path is null and ($5 or ((e.user_id is null or e.user_id = $4) \
     and (e.channel_id is null or ",
    is_in_visible_channel!("e.channel_id", "$4"),
    ") and (e.thread_id is null or exists (select 1 from threads t where t.id = e.thread_id and ",
    is_in_visible_channel!("t.channel_id", "$4"),
    ")) and not exists (select 1 from citations k left join messages m on m.id = k.source_id \
     where k.owner_type = 'memory' and k.owner_id = e.id and k.source_type = 'message' and (m.id is null or not ",
    is_in_visible_channel!("m.channel_id", "$4"),
    ")))) order by e.id limit $3"
);

#[derive(Serialize, sqlx::FromRow)]
struct ExportedFlow {
    id: WorkflowId,
    name: String,
    status: String,
    content: Json<Value>,
    owner_id: UserId,
    version: i64,
    created_at: Timestamp,
    updated_at: Timestamp,
}

const WORKFLOWS: &str = "select id, name, status, content, owner_id, version, created_at, updated_at from workflows \
    where workspace_id = $1 and id > $2 order by id limit $3";

#[derive(Serialize, sqlx::FromRow)]
struct ExportedTimer {
    id: ScheduleId,
    name: String,
    cron: String,
    timezone: String,
    target_type: String,
    agent_id: Option<AgentId>,
    workflow_id: Option<WorkflowId>,
    prompt: String,
    channel_id: Option<ChannelId>,
    thread_id: Option<ThreadId>,
    missed: String,
    status: String,
    owner_id: UserId,
    created_at: Timestamp,
    updated_at: Timestamp,
}

/// Schedules of the reader, and those that post in channels that are exported.
const SCHEDULES: &str = concat!(
    "select s.id, s.name, s.cron, s.timezone, s.target_type, case when s.target_type <> 'workflow' then s.target_id end as agent_id, \
     case when s.target_type = 'workflow' then s.target_id end as workflow_id, s.prompt, s.channel_id, s.thread_id, s.missed, s.status, \
     s.owner_id, s.created_at, s.updated_at from schedules s where s.workspace_id = $1 and s.id > $2 and ($5 or s.owner_id = $4 \
     or exists (select 1 from channels ch where ch.id = s.channel_id and ",
    is_exported!("ch"),
    ") or exists (select 1 from threads t join channels ch on ch.id = t.channel_id where t.id = s.thread_id and ",
    is_exported!("ch"),
    ")) order by s.id limit $3"
);

#[derive(Serialize, sqlx::FromRow)]
struct ExportedAgentId {
    id: AgentId,
    name: String,
}

#[derive(Serialize, sqlx::FromRow)]
struct ExportedEmoji {
    name: String,
    file_id: FileId,
    created_by: UserId,
    created_at: Timestamp,
}

const AGENTS: &str =
    "select id, name from agents where workspace_id = $1 and id > $2 order by id limit $3";

/// A page of a list; `None` at its end.
fn page<T: Serialize>(
    list: List,
    at: &Position,
    rows: &[T],
    key: impl Fn(&T) -> Uuid,
) -> Option<Page> {
    let last = rows.last()?;
    let lines = rows
        .iter()
        .map(|row| serde_json::to_string(row).unwrap_or_default());
    Some(Page {
        content: Content::Rows(Rows {
            name: format!("{}.jsonl", list.name()),
            shape: Shape::Lines,
            kind: Some(list.name()),
            rows: lines.collect(),
        }),
        next: Position {
            after: key(last),
            ..at.clone()
        },
    })
}

/// The next rows of a list.
///
/// # Errors
/// `Db`, `Agent`.
pub(super) async fn next(
    c: &mut Conn,
    view: &View,
    list: List,
    at: &Position,
) -> Result<Option<Page>, ExportError> {
    let (workspace, after) = (view.workspace.0, at.after);
    Ok(match list {
        List::People => {
            let rows: Vec<ExportedPerson> = of_workspace(c, view, PEOPLE, after).await?;
            page(list, at, &rows, |row| row.user_id.0)
        }
        List::Bots => {
            let rows: Vec<ExportedBot> = of_workspace(c, view, BOTS, after).await?;
            page(list, at, &rows, |row| row.id.0)
        }
        List::Hooks => {
            let rows: Vec<ExportedWebhook> = exported(c, view, HOOKS, workspace, after).await?;
            page(list, at, &rows, |row| row.id.0)
        }
        List::Channels => {
            let mut rows: Vec<ExportedChannel> =
                exported(c, view, CHANNELS, workspace, after).await?;
            for row in &mut rows {
                row.member_ids = list_members(c, row.id).await?;
            }
            page(list, at, &rows, |row| row.id.0)
        }
        List::Threads => {
            let rows: Vec<ExportedThread> = exported(c, view, THREADS, workspace, after).await?;
            page(list, at, &rows, |row| row.id.0)
        }
        List::Forks => {
            let rows: Vec<ExportedFork> = exported(c, view, FORKS, workspace, after).await?;
            page(list, at, &rows, |row| row.id.0)
        }
        List::Resolutions => {
            let mut rows: Vec<ExportedResolution> =
                exported(c, view, RESOLUTIONS, workspace, after).await?;
            for row in &mut rows {
                row.action_items = list_points(c, row.id).await?;
            }
            page(list, at, &rows, |row| row.id.0)
        }
        List::ActionItems => {
            let rows: Vec<ExportedActionItem> =
                exported(c, view, ACTION_ITEMS, workspace, after).await?;
            page(list, at, &rows, |row| row.id.0)
        }
        List::Memories => {
            let rows: Vec<ExportedMemory> = exported(c, view, MEMORIES, workspace, after).await?;
            page(list, at, &rows, |row| row.id.0)
        }
        List::Workflows => {
            let rows: Vec<ExportedFlow> = of_workspace(c, view, WORKFLOWS, after).await?;
            page(list, at, &rows, |row| row.id.0)
        }
        List::Schedules => {
            let rows: Vec<ExportedTimer> = exported(c, view, SCHEDULES, workspace, after).await?;
            page(list, at, &rows, |row| row.id.0)
        }
        List::Agents => next_agent(c, view, at).await?,
        List::AgentIds => {
            let rows: Vec<ExportedAgentId> = of_workspace(c, view, AGENTS, after).await?;
            page(list, at, &rows, |row| row.id.0)
        }
        List::Emoji => {
            let rows = if after.is_nil() {
                list_emoji(c, view).await?
            } else {
                Vec::new()
            };
            page(list, at, &rows, |row| row.file_id.0)
        }
    })
}

/// Members of a channel, in the order of their IDs.
pub(super) async fn list_members(
    c: &mut Conn,
    channel: ChannelId,
) -> Result<Vec<UserId>, ExportError> {
    let rows: Vec<(UserId,)> = c
        .q("select user_id from channel_members where channel_id = $1 order by user_id limit $2")
        .bind(channel)
        .bind(MEMBERS_MAX)
        .all()
        .await?;
    Ok(rows.into_iter().map(|row| row.0).collect())
}

/// All custom emoji. Some can have the same picture, so that they have no order of IDs.
async fn list_emoji(c: &mut Conn, view: &View) -> Result<Vec<ExportedEmoji>, ExportError> {
    let rows = c
        .q("select name, file_id, created_by, created_at from emoji where workspace_id = $1 order by name limit $2")
        .bind(view.workspace)
        .bind(EMOJI_MAX)
        .all()
        .await?;
    Ok(rows)
}

async fn list_points(
    c: &mut Conn,
    resolution: ResolutionId,
) -> Result<Vec<ExportedPoint>, ExportError> {
    let rows = c
        .q("select id, text, owner_id, owner_name, due, done, sources from action_items where resolution_id = $1 order by position limit $2")
        .bind(resolution)
        .bind(ITEMS_MAX)
        .all()
        .await?;
    Ok(rows)
}

/// The next agent, in the format in which agents are transferred. It has an entry of its own, with its name.
async fn next_agent(c: &mut Conn, view: &View, at: &Position) -> Result<Option<Page>, ExportError> {
    let actor = Actor {
        user: view.requester,
        name: "",
        workspace: view.workspace,
        role: Role::Admin,
        scopes: Role::Admin.scopes(),
        key: None,
    };
    let mut after = at.after;
    loop {
        let rows: Vec<(AgentId, String)> = of_workspace(c, view, AGENTS, after).await?;
        let Some((id, name)) = rows.into_iter().next() else {
            return Ok(None);
        };
        after = id.0;
        let agent = match transfer::export_agent(c, &actor, &id.to_string()).await {
            Ok(agent) => json!(agent),
            // Archived or deleted.
            Err(AgentError::NotFound) => continue,
            Err(e) => return Err(e.into()),
        };
        return Ok(Some(Page {
            content: Content::Rows(Rows {
                name: format!("agents/{name}.json"),
                shape: Shape::Object,
                kind: Some(List::Agents.name()),
                rows: vec![agent.to_string()],
            }),
            next: Position {
                after,
                ..at.clone()
            },
        }));
    }
}
