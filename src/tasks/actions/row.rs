//! Rows of actions, their transitions, and their events.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use super::{
    items,
    state::{ActionKind, ActionState, GrantedBy, NeededPerson, TaintKind},
};
use crate::{
    db::{Conn, DbError, Json, dialect::hexadecimal_ids, is_in_visible_channel, is_reader, now},
    ids::{
        ActionId, AgentId, ChannelId, FileId, ForkId, TaskId, ThreadId, ToolId, UserId, WorkspaceId,
    },
    mcp::Effect,
    realtime::{Audience, EventData, EventType, NewEvent, log},
    sql_with_ids,
    text_enum::constant,
    time::Timestamp,
    tool_fault::ToolErrorCode,
};

constant! { pub ActionConstant = "action" }

/// Something that the task had seen when it requested the action.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActionSource {
    pub kind: TaintKind,
    pub source_id: Uuid,
    pub label: String,
    /// Set for `TaintKind::Author`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<SourceAuthor>,
}

impl ActionSource {
    pub fn new(kind: TaintKind, source_id: Uuid, label: impl Into<String>) -> Self {
        Self {
            kind,
            source_id,
            label: label.into(),
            author: None,
        }
    }

    /// Checks whether the source taints its task. Texts by the requester or an admin do not.
    pub fn counts(&self) -> bool {
        self.author.as_ref().is_none_or(|author| !author.is_trusted)
    }
}

/// Author of a text that shapes an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceAuthor {
    /// `None` if the author is no longer known.
    pub user_id: Option<UserId>,
    /// The agent that has the text; `None` for the steps of a workflow.
    pub agent_id: Option<AgentId>,
    /// Name of the text in a sentence, such as `instructions`.
    pub part: String,
    /// True if the author was the requester or an admin when the call was decided.
    pub is_trusted: bool,
}

/// An approval that an action needs, and the person who gave it or denied the action.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, sqlx::FromRow, utoipa::ToSchema)]
pub struct Need {
    pub who: NeededPerson,
    /// The person whose approval is needed, if `who` is `user`.
    pub user_id: Option<UserId>,
    /// The person who gave the approval or denied the action; null if nobody has done so.
    #[sqlx(rename = "decided_by")]
    pub by: Option<UserId>,
    #[sqlx(rename = "decided_at")]
    pub at: Option<Timestamp>,
}

impl Need {
    pub fn of(who: NeededPerson) -> Self {
        Self {
            who,
            user_id: None,
            by: None,
            at: None,
        }
    }
}

/// An earlier identical call that may already have taken effect. It was made by a task that is being retried, or by a task that was
/// started for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Repeated {
    pub action_id: ActionId,
    /// Time when the call ended, or when it started if its end is unknown.
    pub at: Timestamp,
}

/// A call of a tool.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct Action {
    pub id: ActionId,
    pub workspace_id: WorkspaceId,
    pub task_id: TaskId,
    pub channel_id: Option<ChannelId>,
    pub thread_id: Option<ThreadId>,
    pub fork_id: Option<ForkId>,
    pub agent_id: Option<AgentId>,
    pub requested_by: UserId,
    pub kind: ActionKind,
    pub round: i64,
    pub call: i64,
    /// ID that the model gave the call.
    pub call_id: String,
    /// Name for approval rules, such as `search`.
    pub name: String,
    /// Name by which the model called the function.
    pub function: String,
    pub title: String,
    pub tool_id: Option<ToolId>,
    /// Host to which the call goes, if the host depends on the arguments.
    pub host: Option<String>,
    pub effect: Effect,
    pub state: ActionState,
    pub definition_hash: String,
    pub arguments_hash: String,
    pub call_hash: String,
    pub arguments_id: Uuid,
    pub result_id: Option<Uuid>,
    pub sources: Json<Vec<ActionSource>>,
    /// Needs from `action_needs`, filled in by `with_needs`.
    #[sqlx(skip)]
    pub needs: Vec<Need>,
    pub granted_by: Option<GrantedBy>,
    /// True if only the requester has to approve the action, and can also allow the function for an hour.
    pub is_grantable: bool,
    pub grant_id: Option<Uuid>,
    /// Number of hits, shown to people; `None` for functions that do not search.
    pub hits: Option<i64>,
    pub error: Option<ToolErrorCode>,
    /// Note of the person who denied the action.
    pub note: Option<String>,
    /// Number of times that the action was started.
    pub runs: i64,
    pub lease_token: Option<Uuid>,
    pub timeout_s: i64,
    /// True if the first approval period has passed, so that admins can approve or deny the action as well.
    pub is_extended: bool,
    pub expires_at: Option<Timestamp>,
    /// Time from which the limit for starting an approved action counts. It is reset when the task is woken.
    pub granted_at: Option<Timestamp>,
    pub repeats: Option<Json<Repeated>>,
    /// The task that a delegation started.
    pub child_task_id: Option<TaskId>,
    pub created_at: Timestamp,
    pub started_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
}

/// Label of something that the agent had seen.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct SourceLabel {
    pub kind: TaintKind,
    /// Name of a person, a file, a server, or a host. For `author`, the text and its author: `Vibe's instructions, by Bo`.
    pub label: String,
    /// Only for `author`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub author: Option<AuthorLabel>,
}

/// A text that shapes an agent, and its author, who is neither the requester nor an admin.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct AuthorLabel {
    /// Null if the author is no longer known.
    pub user_id: Option<UserId>,
    /// The agent that has the text; null for the steps of a workflow.
    pub agent_id: Option<AgentId>,
    /// Name of the text.
    #[schema(example = "instructions")]
    pub part: String,
}

impl SourceLabel {
    fn of(source: &ActionSource) -> Self {
        Self {
            kind: source.kind,
            label: source.label.clone(),
            author: source.author.as_ref().map(|author| AuthorLabel {
                user_id: author.user_id,
                agent_id: author.agent_id,
                part: author.part.clone(),
            }),
        }
    }
}

/// A call of a function by a task, or a request for an approval, with its decision and result.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
#[schema(as = Action)]
pub struct ActionObject {
    pub id: ActionId,
    #[schema(inline)]
    pub object: ActionConstant,
    pub kind: ActionKind,
    pub task_id: TaskId,
    pub thread_id: Option<ThreadId>,
    pub fork_id: Option<ForkId>,
    pub agent_id: Option<AgentId>,
    pub requested_by: UserId,
    /// Number of the round, starting at 1.
    pub round: i64,
    /// Position in the round, starting at 1.
    pub call: i64,
    /// Name for approval rules, such as `search` or `mcp:LABEL.NAME`.
    pub name: String,
    /// Name by which the model called the function, such as `search_messages`.
    pub function: String,
    /// Display name, such as `Create an issue`.
    pub title: String,
    /// The registered tool; null for built-in functions.
    pub tool: Option<ToolId>,
    pub effect: Effect,
    pub state: ActionState,
    /// Arguments of the call. Visible to the requester, to people who can approve or deny the action, and to admins who can read the
    /// conversation. Null for others, in events, and after the arguments have been removed.
    #[schema(value_type = Option<Object>)]
    pub arguments: Option<Value>,
    /// Hash of the arguments, to be sent back when approving or denying the action. Only people with access to the arguments receive
    /// it, because others could use the hash to confirm guesses. It remains after the arguments have been removed.
    pub arguments_hash: Option<String>,
    /// Sources that the agent had seen in addition to the requester's own messages; empty in events.
    pub sources: Vec<SourceLabel>,
    pub needs: Vec<Need>,
    pub granted_by: Option<GrantedBy>,
    /// True if the requester can approve the function for an hour.
    pub grantable: bool,
    /// Result, with the same visibility as `arguments`.
    pub result: Option<String>,
    /// Number of hits of a search; null for other functions.
    pub count: Option<i64>,
    pub error: Option<ToolErrorCode>,
    pub duration_ms: Option<i64>,
    /// An earlier identical call that may already have taken effect. It was made by a task that is being retried, or by a task that
    /// was started for it.
    pub repeats: Option<Repeated>,
    /// ID of the task that a delegation started, which contains the brief and the answer. Null for other calls, and in the event
    /// `action.requested`.
    pub child_task_id: Option<TaskId>,
    pub expires_at: Option<Timestamp>,
    pub created_at: Timestamp,
    pub ended_at: Option<Timestamp>,
}

/// Texts of an action for a reader with access to them.
#[derive(Debug, Clone, Default)]
pub struct Shown {
    /// JSON, or the original text if the model's arguments were not JSON.
    pub arguments: Option<String>,
    pub result: Option<String>,
}

impl Action {
    /// Checks whether the action is a delegation that runs as a task of its own.
    pub fn is_delegated(&self) -> bool {
        self.state == ActionState::Running && self.lease_token.is_none()
    }

    /// Decision for which people get inbox items after the event `seq`.
    fn decision(&self, seq: i64) -> items::OpenDecision {
        let missing = self.needs.iter().filter(|need| need.by.is_none());
        // A write can have been settled.
        let has_ended = matches!(self.state, ActionState::Done | ActionState::Failed);
        items::OpenDecision {
            action: self.id,
            workspace: self.workspace_id,
            channel: self.channel_id,
            thread: self.thread_id,
            fork: self.fork_id,
            agent: self.agent_id,
            requester: self.requested_by,
            state: self.state,
            missing: missing.map(|need| (need.who, need.user_id)).collect(),
            is_extended: self.is_extended,
            can_have_items: !self.needs.is_empty()
                || self.state.needs_person()
                || (has_ended && self.effect != Effect::Read),
            seq,
        }
    }

    /// Returns the object for clients; `shown` is `None` for readers who must not see the texts.
    pub fn object(&self, shown: Option<Shown>) -> ActionObject {
        let arguments_hash = shown.as_ref().map(|_| self.arguments_hash.clone());
        let shown = shown.unwrap_or_default();
        let duration = self.started_at.zip(self.ended_at);
        let arguments = shown.arguments.map(|text| {
            // Arguments that are not JSON are shown as the model wrote them.
            serde_json::from_str(&text).unwrap_or(Value::String(text))
        });
        ActionObject {
            id: self.id,
            object: ActionConstant,
            kind: self.kind,
            task_id: self.task_id,
            thread_id: self.thread_id,
            fork_id: self.fork_id,
            agent_id: self.agent_id,
            requested_by: self.requested_by,
            round: self.round,
            call: self.call,
            name: self.name.clone(),
            function: self.function.clone(),
            title: self.title.clone(),
            tool: self.tool_id,
            effect: self.effect,
            state: self.state,
            arguments,
            arguments_hash,
            sources: (self.sources.0.iter())
                .filter(|source| source.counts())
                .map(SourceLabel::of)
                .collect(),
            needs: self.needs.clone(),
            granted_by: self.granted_by,
            grantable: self.is_grantable,
            result: shown.result,
            count: self.hits,
            error: self.error,
            duration_ms: duration.map(|(started, ended)| {
                i64::try_from(ended.since(started).as_millis()).unwrap_or(i64::MAX)
            }),
            repeats: self.repeats.as_ref().map(|repeats| repeats.0.clone()),
            child_task_id: self.child_task_id,
            expires_at: self
                .expires_at
                .filter(|_| self.state == ActionState::Waiting),
            created_at: self.created_at,
            ended_at: self.ended_at,
        }
    }
}

#[derive(Serialize, utoipa::ToSchema)]
pub struct ActionEvent<'a> {
    pub action: &'a ActionObject,
}

impl EventData for ActionEvent<'_> {
    const TYPES: &'static [EventType] = &[EventType::ActionRequested, EventType::ActionUpdated];
}

/// Selects actions as `a` with their tasks as `t`; the argument is appended to the query.
macro_rules! action_sql {
    ($tail:expr) => {
        concat!(
            "select a.id, a.workspace_id, a.task_id, t.channel_id, t.thread_id, nullif(t.conversation_id, t.thread_id) as fork_id, t.agent_id, \
             t.requested_by, a.kind, a.round, a.call, a.call_id, a.name, a.function, a.title, a.tool_id, a.host, a.effect, a.state, a.definition_hash, \
             a.arguments_hash, a.call_hash, a.arguments_id, a.result_id, a.sources, a.granted_by, a.is_grantable, a.grant_id, a.hits, a.error, a.note, a.runs, \
             a.lease_token, a.timeout_s, a.is_extended, a.expires_at, a.granted_at, a.repeats, a.created_at, a.started_at, a.ended_at, \
             case when a.function = 'delegate' then (select k.id from tasks k where k.parent_task_id = a.task_id \
               and k.child_key = cast(a.round as text) || '.' || cast(a.call as text)) end as child_task_id \
             from actions a join tasks t on t.id = a.task_id ",
            $tail
        )
    };
}

/// An action to store.
#[derive(Debug, Clone)]
pub struct NewAction {
    pub id: ActionId,
    pub workspace: WorkspaceId,
    pub task: TaskId,
    pub round: i64,
    pub call: i64,
    pub call_id: String,
    pub name: String,
    pub function: String,
    pub title: String,
    pub tool: Option<ToolId>,
    pub host: Option<String>,
    pub effect: Effect,
    /// Initial state: `Waiting`, `Approved`, or `Failed`.
    pub state: ActionState,
    pub definition_hash: String,
    pub arguments_hash: String,
    pub call_hash: String,
    pub arguments_id: Uuid,
    pub sources: Vec<ActionSource>,
    pub needs: Vec<Need>,
    pub granted_by: Option<GrantedBy>,
    pub is_grantable: bool,
    pub grant: Option<Uuid>,
    pub error: Option<ToolErrorCode>,
    pub timeout_s: i64,
    pub expires_at: Option<Timestamp>,
    pub repeats: Option<Repeated>,
}

/// Stores an action; the caller must announce it.
pub async fn insert(c: &mut Conn, new: &NewAction) -> Result<(), DbError> {
    let at = now();
    c.q("insert into actions (id, workspace_id, task_id, kind, round, call, call_id, name, function, title, tool_id, effect, state, \
         definition_hash, arguments_hash, call_hash, arguments_id, sources, granted_by, grant_id, error, runs, timeout_s, is_extended, \
         expires_at, granted_at, repeats, created_at, ended_at, host, is_grantable) \
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, 0, $22, FALSE, \
         $23, $24, $25, $26, $27, $28, $29)")
        .bind(new.id)
        .bind(new.workspace)
        .bind(new.task)
        .bind(ActionKind::Call)
        .bind(new.round)
        .bind(new.call)
        .bind(new.call_id.clone())
        .bind(new.name.clone())
        .bind(new.function.clone())
        .bind(new.title.clone())
        .bind(new.tool)
        .bind(new.effect)
        .bind(new.state)
        .bind(new.definition_hash.clone())
        .bind(new.arguments_hash.clone())
        .bind(new.call_hash.clone())
        .bind(new.arguments_id)
        .bind(Json(new.sources.clone()))
        .bind(new.granted_by)
        .bind(new.grant)
        .bind(new.error)
        .bind(new.timeout_s)
        .bind(new.expires_at)
        .bind((new.state == ActionState::Approved).then_some(at))
        .bind(new.repeats.clone().map(Json))
        .bind(at)
        .bind((new.state == ActionState::Failed).then_some(at))
        .bind(new.host.clone())
        .bind(new.is_grantable)
        .run()
        .await?;
    store_needs(c, new.id, &new.needs).await
}

/// Stores the approvals that an action needs, or updates their state.
pub(super) async fn store_needs(
    c: &mut Conn,
    action: ActionId,
    needs: &[Need],
) -> Result<(), DbError> {
    for (position, need) in (0_i64..).zip(needs) {
        c.q("insert into action_needs (action_id, position, who, user_id, decided_by, decided_at) values ($1, $2, $3, $4, $5, $6) \
             on conflict (action_id, position) do update set user_id = excluded.user_id, decided_by = excluded.decided_by, \
               decided_at = excluded.decided_at")
            .bind(action)
            .bind(position)
            .bind(need.who)
            .bind(need.user_id)
            .bind(need.by)
            .bind(need.at)
            .run()
            .await?;
    }
    Ok(())
}

#[derive(sqlx::FromRow)]
struct NeedRow {
    action_id: ActionId,
    #[sqlx(flatten)]
    need: Need,
}

/// Loads the approvals that the actions need.
async fn with_needs(c: &mut Conn, mut actions: Vec<Action>) -> Result<Vec<Action>, DbError> {
    if actions.is_empty() {
        return Ok(actions);
    }
    let sql = sql_with_ids!(
        c,
        "select action_id, who, user_id, decided_by, decided_at from action_needs where action_id in",
        1,
        "order by action_id, position"
    );
    let ids = hexadecimal_ids(actions.iter().map(|action| action.id.0));
    let rows: Vec<NeedRow> = c.q(sql).bind(ids).all().await?;
    let mut needs: HashMap<ActionId, Vec<Need>> = HashMap::new();
    for row in rows {
        needs.entry(row.action_id).or_default().push(row.need);
    }
    for action in &mut actions {
        action.needs = needs.remove(&action.id).unwrap_or_default();
    }
    Ok(actions)
}

pub async fn find(c: &mut Conn, id: ActionId) -> Result<Option<Action>, DbError> {
    let found = c.q(action_sql!("where a.id = $1")).bind(id).all().await?;
    Ok(with_needs(c, found).await?.pop())
}

/// Actions of a round, in the order of the calls.
pub async fn of_round(c: &mut Conn, task: TaskId, round: i64) -> Result<Vec<Action>, DbError> {
    let sql = action_sql!("where a.task_id = $1 and a.round = $2 order by a.call limit 100");
    let found = c.q(sql).bind(task).bind(round).all().await?;
    with_needs(c, found).await
}

/// Actions of a task, in the order of the calls.
pub async fn of_task(c: &mut Conn, task: TaskId) -> Result<Vec<Action>, DbError> {
    let sql = action_sql!("where a.task_id = $1 order by a.round, a.call limit 1000");
    let found = c.q(sql).bind(task).all().await?;
    with_needs(c, found).await
}

/// Number of actions of a task.
pub async fn call_count(c: &mut Conn, task: TaskId) -> Result<i64, DbError> {
    c.q("select count(*) from actions where task_id = $1")
        .bind(task)
        .value()
        .await
}

/// Number of actions of a task that were denied, expired, were stopped, or failed.
pub async fn failed_count(c: &mut Conn, task: TaskId) -> Result<i64, DbError> {
    c.q("select count(*) from actions where task_id = $1 and state in ('denied', 'expired', 'cancelled', 'failed')")
        .bind(task)
        .value()
        .await
}

/// Number of a task's calls that have the same function and arguments, compared by hash.
pub async fn count_equal(c: &mut Conn, task: TaskId, call_hash: &str) -> Result<i64, DbError> {
    c.q("select count(*) from actions where task_id = $1 and call_hash = $2")
        .bind(task)
        .bind(call_hash.to_owned())
        .value()
        .await
}

/// Number of earlier calls of the same function in the same task that have started, or still can.
pub async fn count_before(c: &mut Conn, action: ActionId) -> Result<i64, DbError> {
    c.q("select count(*) from actions a join actions b on b.task_id = a.task_id and b.function = a.function \
         where a.id = $1 and (b.round < a.round or (b.round = a.round and b.call < a.call)) \
         and (b.started_at is not null or b.state in ('waiting', 'approved'))")
        .bind(action)
        .value()
        .await
}

/// Finds the newest identical call that may already have taken effect. Searches the tasks that this task or one of its parents
/// retries, and all tasks that were started for those tasks.
pub async fn find_equal(
    c: &mut Conn,
    task: TaskId,
    call_hash: &str,
) -> Result<Option<Repeated>, DbError> {
    let row: Option<(ActionId, Timestamp)> = c
        .q("with recursive above (id, parent_task_id, retry_of) as (select id, parent_task_id, retry_of from tasks where id = $1 \
            union all select t.id, t.parent_task_id, t.retry_of from tasks t join above a on t.id = a.parent_task_id), \
            retried (id, retry_of) as (select t.id, t.retry_of from tasks t join above a on t.id = a.retry_of \
            union select t.id, t.retry_of from tasks t join retried r on t.id = r.retry_of), \
            below (id) as (select id from retried union select t.id from tasks t join below b on t.parent_task_id = b.id) \
            select id, coalesce(ended_at, started_at, created_at) from actions \
            where task_id in (select id from below) and call_hash = $2 and state in ('done', 'unknown') order by id desc limit 1")
        .bind(task)
        .bind(call_hash.to_owned())
        .opt()
        .await?;
    Ok(row.map(|(action_id, at)| Repeated { action_id, at }))
}

/// Filter of a list of actions.
#[derive(Debug, Clone, Copy, Default)]
pub struct Filter {
    pub task: Option<TaskId>,
    pub thread: Option<ThreadId>,
    pub state: Option<ActionState>,
    pub requested_by: Option<UserId>,
}

/// Selects the actions of a task, a thread, a person, or a workspace, each with its own index. `$1` is the ID of that object.
macro_rules! list_sql {
    ($where:literal) => {
        action_sql!(concat!(
            "where ",
            $where,
            " and a.id < $3 and (a.state = $4 or $4 is null) and (t.requested_by = $5 or $5 is null) and ",
            is_in_visible_channel!("t.channel_id", "$2"),
            " order by a.id desc limit $6"
        ))
    };
}

/// Actions in conversations that the reader can see, newest first, before `before`. The caller must have checked that the task or
/// the thread belongs to the workspace.
pub async fn list(
    c: &mut Conn,
    workspace: WorkspaceId,
    reader: UserId,
    filter: Filter,
    before: Option<ActionId>,
    limit: i64,
) -> Result<Vec<Action>, DbError> {
    let is_open = filter.state.is_some_and(ActionState::needs_person);
    let (sql, within) = match (filter.task, filter.thread) {
        (Some(task), _) => (list_sql!("a.task_id = $1"), task.0),
        (None, Some(thread)) => (list_sql!("t.thread_id = $1"), thread.0),
        (None, None) if is_open => {
            let sql = list_sql!("a.workspace_id = $1 and a.state in ('waiting', 'unknown')");
            (sql, workspace.0)
        }
        (None, None) if filter.requested_by.is_some() => {
            let sql = list_sql!("t.workspace_id = $1 and t.requested_by = $5 and t.round > 0");
            (sql, workspace.0)
        }
        (None, None) => (list_sql!("a.workspace_id = $1"), workspace.0),
    };
    let mut found: Vec<Action> = c
        .q(sql)
        .bind(within)
        .bind(reader)
        .bind(before.unwrap_or(ActionId(Uuid::max())))
        .bind(filter.state)
        .bind(filter.requested_by)
        .bind(limit)
        .all()
        .await?;
    if let Some(thread) = filter.thread {
        found.retain(|action| action.thread_id == Some(thread));
    }
    with_needs(c, found).await
}

/// A person who can approve or deny actions.
#[derive(Debug, Clone, Copy)]
pub struct Decider {
    pub workspace: WorkspaceId,
    pub user: UserId,
    pub is_admin: bool,
}

/// Open actions that the person requested or can approve or deny, oldest first, including those that the person has already approved
/// but that need further approvals. For admins, also actions in the state `unknown` whose requesters can no longer read the
/// conversation.
pub async fn list_open(c: &mut Conn, decider: Decider, limit: i64) -> Result<Vec<Action>, DbError> {
    let sql = action_sql!(concat!(
        "where a.workspace_id = $1 and a.state in ('waiting', 'unknown') and (t.requested_by = $2 or (a.state = 'waiting' and (\
         ($3 and a.is_extended) or exists (select 1 from action_needs n where n.action_id = a.id and (n.who = 'any_member' \
           or ($3 and n.who = 'admin') or $2 in (n.user_id, n.decided_by))))) or (a.state = 'unknown' and $3 and not ",
        is_reader!("a.workspace_id", "t.channel_id", "t.requested_by"),
        ")) and ",
        is_in_visible_channel!("t.channel_id", "$2"),
        " order by a.id limit $4"
    ));
    let found = (c.q(sql).bind(decider.workspace).bind(decider.user))
        .bind(decider.is_admin)
        .bind(limit)
        .all()
        .await?;
    with_needs(c, found).await
}

/// Checks whether the requester of an action can no longer read its conversation.
pub async fn has_left(c: &mut Conn, action: ActionId) -> Result<bool, DbError> {
    let count: i64 = c
        .q(concat!(
            "select count(*) from actions a join tasks t on t.id = a.task_id where a.id = $1 and not ",
            is_reader!("a.workspace_id", "t.channel_id", "t.requested_by")
        ))
        .bind(action)
        .value()
        .await?;
    Ok(count == 1)
}

/// Waiting actions whose deadline has passed, or whose arguments were removed.
pub async fn list_expired(c: &mut Conn, limit: i64) -> Result<Vec<Action>, DbError> {
    let sql = action_sql!(
        "where a.state = 'waiting' and t.channel_id is not null and (a.expires_at <= $1 or not exists \
         (select 1 from context_texts x where x.id = a.arguments_id and x.hash is not null)) order by a.expires_at, a.id limit $2"
    );
    let found = c.q(sql).bind(now()).bind(limit).all().await?;
    with_needs(c, found).await
}

/// Running actions that were started before `before` and whose task has ended, so that no worker will store their results.
pub async fn list_orphans(
    c: &mut Conn,
    before: Timestamp,
    limit: i64,
) -> Result<Vec<Action>, DbError> {
    let sql = action_sql!(
        "where a.state = 'running' and t.channel_id is not null and a.started_at < $1 and t.status in ('completed', 'failed', 'cancelled') \
         order by a.started_at, a.id limit $2"
    );
    let found = c.q(sql).bind(before).bind(limit).all().await?;
    with_needs(c, found).await
}

fn check(from: ActionState, to: ActionState) {
    if cfg!(test_hooks) {
        assert!(
            from.may_become(to),
            "an action cannot go from {from} to {to}"
        );
    }
}

/// Starts an approved action under a lease if its arguments and the definition of its function have not changed. Returns whether the
/// action was started.
pub async fn start(
    c: &mut Conn,
    action: &Action,
    lease_token: Uuid,
    definition_hash: &str,
) -> Result<bool, DbError> {
    let started = c
        .q("update actions set state = 'running', lease_token = $2, runs = runs + 1, started_at = $3 \
            where id = $1 and state = 'approved' and arguments_hash = $4 and definition_hash = $5")
        .bind(action.id)
        .bind(lease_token)
        .bind(now())
        .bind(action.arguments_hash.clone())
        .bind(definition_hash.to_owned())
        .run()
        .await?;
    Ok(started == 1)
}

/// Detaches a running delegation from the lease that started it, because it continues as a task.
pub async fn release(c: &mut Conn, action: ActionId) -> Result<(), DbError> {
    c.q("update actions set lease_token = null where id = $1 and state = 'running'")
        .bind(action)
        .run()
        .await?;
    Ok(())
}

/// Number of rounds before `round` in which a task delegated.
pub async fn delegating_rounds(
    c: &mut Conn,
    task: TaskId,
    round: i64,
    function: &str,
) -> Result<i64, DbError> {
    c.q("select count(distinct round) from actions where task_id = $1 and round < $2 and function = $3 and started_at is not null")
        .bind(task)
        .bind(round)
        .bind(function.to_owned())
        .value()
        .await
}

/// Takes over a read that a lost worker was running, so that it runs again. Returns whether the read was taken over.
pub async fn restart(
    c: &mut Conn,
    action: &Action,
    lease_token: Uuid,
    runs_max: i64,
) -> Result<bool, DbError> {
    let started = c
        .q("update actions set lease_token = $2, runs = runs + 1, started_at = $3 \
            where id = $1 and state = 'running' and effect = 'read' and granted_by = 'policy' and runs < $4")
        .bind(action.id)
        .bind(lease_token)
        .bind(now())
        .bind(runs_max)
        .run()
        .await?;
    Ok(started == 1)
}

/// End of an action that ran or could not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ending {
    pub state: ActionState,
    pub error: Option<ToolErrorCode>,
}

impl Ending {
    pub fn done() -> Self {
        Self {
            state: ActionState::Done,
            error: None,
        }
    }

    pub fn failed(error: ToolErrorCode) -> Self {
        Self {
            state: ActionState::Failed,
            error: Some(error),
        }
    }

    /// The end of a write whose result is unknown. `error` is the error that hides it, if there is one.
    pub fn unknown(error: Option<ToolErrorCode>) -> Self {
        Self {
            state: ActionState::Unknown,
            error,
        }
    }
}

/// Ends a running action that was started under this lease; `lease_token` is `None` for a delegation, which runs without a lease.
/// Returns whether the action was still running under the lease.
pub async fn store_end(
    c: &mut Conn,
    action: ActionId,
    lease_token: Option<Uuid>,
    ending: Ending,
) -> Result<bool, DbError> {
    check(ActionState::Running, ending.state);
    let ended = c
        .q("update actions set state = $3, error = $4, ended_at = $5 \
            where id = $1 and state = 'running' and lease_token is not distinct from $2")
        .bind(action)
        .bind(lease_token)
        .bind(ending.state)
        .bind(ending.error)
        .bind(now())
        .run()
        .await?;
    Ok(ended == 1)
}

/// Sets the result text of an action.
pub async fn set_result(c: &mut Conn, action: ActionId, text: Uuid) -> Result<(), DbError> {
    c.q("update actions set result_id = $2 where id = $1")
        .bind(action)
        .bind(text)
        .run()
        .await?;
    Ok(())
}

/// Sets the number of hits of an action that searched.
pub async fn set_hits(c: &mut Conn, action: ActionId, hits: usize) -> Result<(), DbError> {
    c.q("update actions set hits = $2 where id = $1")
        .bind(action)
        .bind(i64::try_from(hits).unwrap_or(i64::MAX))
        .run()
        .await?;
    Ok(())
}

/// Stores the decision about a waiting action: its approvals, and its new state, which is still `Waiting` if further approvals are
/// needed. Returns whether the action was waiting.
pub async fn decide(
    c: &mut Conn,
    action: &Action,
    to: ActionState,
    needs: &[Need],
    note: Option<&str>,
) -> Result<bool, DbError> {
    if to != ActionState::Waiting {
        check(ActionState::Waiting, to);
    }
    let at = now();
    let is_denied = to == ActionState::Denied;
    let decided = c
        .q("update actions set state = $2, granted_by = $3, granted_at = $4, ended_at = $5, error = $6, note = $7 \
            where id = $1 and state = 'waiting' and arguments_hash = $8")
        .bind(action.id)
        .bind(to)
        .bind((to == ActionState::Approved).then_some(GrantedBy::Person))
        .bind((to == ActionState::Approved).then_some(at))
        .bind(is_denied.then_some(at))
        .bind(is_denied.then_some(ToolErrorCode::Denied))
        .bind(note.map(str::to_owned))
        .bind(action.arguments_hash.clone())
        .run()
        .await?;
    if decided == 1 {
        store_needs(c, action.id, needs).await?;
    }
    Ok(decided == 1)
}

/// Starts the second approval period of a waiting action, in which admins can approve or deny it as well.
pub async fn extend(c: &mut Conn, action: &Action, until: Timestamp) -> Result<bool, DbError> {
    let extended = c
        .q("update actions set is_extended = TRUE, expires_at = $2 where id = $1 and state = 'waiting' and is_extended = FALSE")
        .bind(action.id)
        .bind(until)
        .run()
        .await?;
    Ok(extended == 1)
}

/// Ends an action that was not approved, denied, or started in time.
pub async fn expire(c: &mut Conn, action: &Action) -> Result<bool, DbError> {
    check(action.state, ActionState::Expired);
    withdraw(c, action, ActionState::Expired, ToolErrorCode::Expired).await
}

/// Cancels an action that has not started.
pub async fn cancel(c: &mut Conn, action: &Action, cause: ToolErrorCode) -> Result<bool, DbError> {
    check(action.state, ActionState::Cancelled);
    withdraw(c, action, ActionState::Cancelled, cause).await
}

async fn withdraw(
    c: &mut Conn,
    action: &Action,
    to: ActionState,
    cause: ToolErrorCode,
) -> Result<bool, DbError> {
    let ended = c
        .q("update actions set state = $3, error = $4, ended_at = $5 where id = $1 and state = $2")
        .bind(action.id)
        .bind(action.state)
        .bind(to)
        .bind(cause)
        .bind(now())
        .run()
        .await?;
    Ok(ended == 1)
}

/// Settles an action with the state `unknown`. Returns whether it had that state.
pub async fn settle(c: &mut Conn, action: ActionId, to: ActionState) -> Result<bool, DbError> {
    check(ActionState::Unknown, to);
    let settled = c
        .q("update actions set state = $2, error = null, ended_at = $3 where id = $1 and state = 'unknown'")
        .bind(action)
        .bind(to)
        .bind(now())
        .run()
        .await?;
    Ok(settled == 1)
}

/// Restarts the time limit for starting the approved actions of a task, because the task was woken.
pub async fn approve_again(c: &mut Conn, task: TaskId) -> Result<(), DbError> {
    c.q("update actions set granted_at = $2 where task_id = $1 and state = 'approved'")
        .bind(task)
        .bind(now())
        .run()
        .await?;
    Ok(())
}

/// Reason why a task's open actions end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closing {
    /// A person stopped the task. Its worker gets a few seconds to finish a running write.
    Stopped,
    /// The task has ended.
    Ended,
}

/// Returns those of the given tasks that have open actions.
pub async fn tasks_with_open(c: &mut Conn, tasks: &[TaskId]) -> Result<Vec<TaskId>, DbError> {
    if tasks.is_empty() {
        return Ok(Vec::new());
    }
    let sql = sql_with_ids!(
        c,
        "select distinct task_id from actions where state in ('waiting', 'approved', 'running') and task_id in",
        1,
        ""
    );
    let rows: Vec<(TaskId,)> = c
        .q(sql)
        .bind(hexadecimal_ids(tasks.iter().map(|id| id.0)))
        .all()
        .await?;
    Ok(rows.into_iter().map(|(task,)| task).collect())
}

/// Ends the actions of a task that have not started, and its reads, because its requester steers it: a waiting action is denied with
/// this note, and the others are canceled. Running writes and delegations continue. Returns the ended actions in their former states.
pub async fn withdraw_open(
    c: &mut Conn,
    task: TaskId,
    audience: Audience,
    note: Option<&str>,
) -> Result<Vec<Action>, DbError> {
    let sql = action_sql!(
        "where a.task_id = $1 and a.state in ('waiting', 'approved', 'running') order by a.round, a.call limit 1000"
    );
    let open = c.q(sql).bind(task).all().await?;
    let mut ended = Vec::new();
    for action in with_needs(c, open).await? {
        let is_ended = match action.state {
            ActionState::Waiting => {
                let needs = decided_by_requester(&action);
                decide(c, &action, ActionState::Denied, &needs, note).await?
            }
            ActionState::Running if action.effect == Effect::Read && !action.is_delegated() => {
                let ending = Ending::failed(ToolErrorCode::Cancelled);
                store_end(c, action.id, action.lease_token, ending).await?
            }
            ActionState::Running => false,
            _ => cancel(c, &action, ToolErrorCode::Cancelled).await?,
        };
        if is_ended {
            announce(c, action.id, EventType::ActionUpdated, audience).await?;
            ended.push(action);
        }
    }
    Ok(ended)
}

/// Returns the needs of an action with the requester as the person who decided. Approvals that others have given are kept.
fn decided_by_requester(action: &Action) -> Vec<Need> {
    let at = now();
    let needs = action.needs.iter().cloned().map(|need| match need.by {
        Some(_) => need,
        None => Need {
            by: Some(action.requested_by),
            at: Some(at),
            ..need
        },
    });
    needs.collect()
}

/// Ends the open actions of a task. Actions in the state `unknown` remain until a person settles them.
pub async fn close(
    c: &mut Conn,
    task: TaskId,
    audience: Audience,
    closing: Closing,
) -> Result<(), DbError> {
    let sql = action_sql!(
        "where a.task_id = $1 and a.state in ('waiting', 'approved', 'running') order by a.round, a.call limit 1000"
    );
    let open = c.q(sql).bind(task).all().await?;
    for action in with_needs(c, open).await? {
        let is_write = action.effect != Effect::Read;
        let is_ended = match (action.state, closing) {
            (ActionState::Running, Closing::Stopped) if is_write => false,
            (ActionState::Running, Closing::Ended) if is_write => {
                store_end(c, action.id, action.lease_token, Ending::unknown(None)).await?
            }
            (ActionState::Running, _) => {
                let ending = Ending::failed(ToolErrorCode::Cancelled);
                store_end(c, action.id, action.lease_token, ending).await?
            }
            _ => cancel(c, &action, ToolErrorCode::Cancelled).await?,
        };
        if is_ended {
            announce(c, action.id, EventType::ActionUpdated, audience).await?;
        }
    }
    Ok(())
}

/// Replaces the names of deleted files in the sources that tasks have seen.
pub async fn forget_files(c: &mut Conn, files: &[FileId], label: &str) -> Result<(), DbError> {
    for file in files {
        let found: Vec<(ActionId, Json<Vec<ActionSource>>)> = c
            .q(
                "select a.id, a.sources from task_taints x join actions a on a.task_id = x.task_id \
                where x.source_id = $1 and x.kind = $2 order by a.id limit 10000",
            )
            .bind(*file)
            .bind(TaintKind::File)
            .all()
            .await?;
        for (id, Json(mut sources)) in found {
            for source in &mut sources {
                if source.source_id == file.0 {
                    label.clone_into(&mut source.label);
                }
            }
            c.q("update actions set sources = $2 where id = $1")
                .bind(id)
                .bind(Json(sources))
                .run()
                .await?;
        }
        c.q("update task_taints set label = $3 where source_id = $1 and kind = $2")
            .bind(*file)
            .bind(TaintKind::File)
            .bind(label.to_owned())
            .run()
            .await?;
    }
    Ok(())
}

/// Replaces a person in an action: as approver, and in the labels of the sources that its task had seen.
pub async fn forget_person(
    c: &mut Conn,
    id: ActionId,
    user: UserId,
    alias: UserId,
    nobody: &str,
) -> Result<(), DbError> {
    let Some(action) = find(c, id).await? else {
        return Ok(());
    };
    let (mut needs, mut sources, mut note) = (action.needs, action.sources.0, action.note);
    for need in &mut needs {
        for person in [&mut need.user_id, &mut need.by] {
            if *person == Some(user) {
                *person = Some(alias);
                // The person may have written the note.
                note = None;
            }
        }
    }
    for source in &mut sources {
        if source.source_id == user.0 {
            source.source_id = alias.0;
            nobody.clone_into(&mut source.label);
        }
        if let Some(author) = &mut source.author
            && author.user_id == Some(user)
        {
            author.user_id = None;
            source.label = format!("{}, by {nobody}", author.part);
        }
    }
    c.q("update actions set sources = $2, note = $3 where id = $1")
        .bind(id)
        .bind(Json(sources))
        .bind(note)
        .run()
        .await?;
    store_needs(c, id, &needs).await
}

/// Appends an event with the current state of an action, as shown to readers without access to its texts. Names are omitted, because
/// the event log would keep them. Also opens and closes the inbox items of the people who can decide.
pub async fn announce(
    c: &mut Conn,
    id: ActionId,
    kind: EventType,
    audience: Audience,
) -> Result<(), DbError> {
    let Some(action) = find(c, id).await? else {
        return Ok(());
    };
    let object = ActionObject {
        sources: Vec::new(),
        ..action.object(None)
    };
    let seq = log::reserve(c, action.workspace_id, 1).await?;
    let mut event = NewEvent::new(seq, kind, audience, &ActionEvent { action: &object })?;
    if let Some(thread) = action.thread_id {
        event = event.in_conversation(thread, action.fork_id);
    }
    log::append(c, action.workspace_id, event).await?;
    items::follow_state(c, &action.decision(seq)).await
}
