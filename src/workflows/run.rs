//! Runs of workflows: starting them, their representation for clients, and their visibility.

use std::collections::BTreeMap;

use chrono::NaiveDate;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{
    Workflow, WorkflowError,
    definition::{StepKind, StepWork, WorkflowStatus, flat},
    error::RUNS_MAX,
    version_rows::find_content,
};
use crate::{
    agents::profiles,
    db::{Conn, DbError, Json, is_in_visible_channel, now},
    ids::{
        ActionId, AgentId, ApiKeyId, ChannelId, ForkId, MessageId, RunId, TaskId, ThreadId, UserId,
        WorkflowId, WorkspaceId,
    },
    inbox::{InboxReason, close},
    realtime::{
        Audience, EventData, EventType, NewEvent,
        log::{self, Recipients},
    },
    tasks::{NewRunTask, TaskError, TaskInput, TaskKind, queue},
    text_enum::{constant, text_enum},
    time::Timestamp,
};

/// Maximum size of a run's input in bytes.
pub const INPUT_BYTES_MAX: usize = 8 * 1024;

text_enum! {
    /// Status of a run, which is derived from its root task.
    pub enum RunStatus {
        Queued = "queued",
        Running = "running",
        /// The run waits for a person.
        Waiting = "waiting",
        Completed = "completed",
        Failed = "failed",
        Cancelled = "cancelled",
    }
}

impl RunStatus {
    pub fn has_ended(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

text_enum! {
    pub enum StepState {
        Pending = "pending",
        Running = "running",
        /// The step waits for a person.
        Waiting = "waiting",
        Completed = "completed",
        Failed = "failed",
        /// A jump skipped the step.
        Skipped = "skipped",
        Cancelled = "cancelled",
    }
}

text_enum! {
    /// Kind of the cause of a run.
    pub enum CauseType {
        /// A person.
        Manual = "manual",
        Message = "message",
        Schedule = "schedule",
    }
}

/// Cause of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RunCause {
    #[serde(rename = "type")]
    pub kind: CauseType,
    /// ID of the message or the schedule; null for a person.
    pub id: Option<String>,
}

constant! { pub RunObject = "run" }

/// A step of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, sqlx::FromRow, utoipa::ToSchema)]
pub struct RunStep {
    #[sqlx(rename = "step_id")]
    pub id: String,
    pub kind: StepKind,
    pub state: StepState,
    pub task_id: Option<TaskId>,
    pub fork_id: Option<ForkId>,
    pub action_id: Option<ActionId>,
    /// Output of the step. Null in events and after the output was removed. Also null for a message in a channel that you cannot
    /// read, and for an agent's answer if you cannot see its tool results.
    pub output: Option<String>,
    /// Human-readable cause of a failure.
    pub error: Option<String>,
    pub started_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
    /// Number of the attempt: 1, plus the number of times that the step was resumed.
    #[serde(skip)]
    pub attempt: i64,
    #[serde(skip)]
    pub jump: Option<String>,
    #[serde(skip)]
    pub output_id: Option<Uuid>,
    #[serde(skip)]
    pub due_at: Option<Timestamp>,
}

/// An execution of a workflow.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
pub struct WorkflowRun {
    pub id: RunId,
    #[schema(inline)]
    pub object: RunObject,
    pub workflow_id: WorkflowId,
    pub workflow_version: i64,
    pub status: RunStatus,
    pub cause: RunCause,
    /// The run acts with this person's rights.
    pub requested_by: UserId,
    pub channel_id: Option<ChannelId>,
    pub thread_id: Option<ThreadId>,
    /// Input of the run; empty in events.
    pub input: String,
    pub root_task_id: TaskId,
    /// Steps in the workflow's order; those of branches follow their `parallel` step.
    pub steps: Vec<RunStep>,
    /// Human-readable cause of a failure.
    pub error: Option<String>,
    pub created_at: Timestamp,
    pub completed_at: Option<Timestamp>,
    #[serde(skip)]
    pub workspace_id: WorkspaceId,
    /// The message that started the run, or another message from which the run takes the text and the author.
    #[serde(skip)]
    pub message_id: Option<MessageId>,
    /// Versions of the workflow's agents.
    #[serde(skip)]
    pub agents: BTreeMap<AgentId, i64>,
    /// Local day on which the run started, `YYYY-MM-DD`.
    #[serde(skip)]
    pub local_date: String,
    #[serde(skip)]
    pub owner_id: UserId,
}

impl WorkflowRun {
    pub fn root(&self) -> TaskId {
        TaskId(self.id.0)
    }

    pub fn step(&self, id: &str) -> Option<&RunStep> {
        self.steps.iter().find(|step| step.id == id)
    }

    /// The run without the answers of its agents.
    #[must_use]
    pub fn without_answers(mut self) -> Self {
        for step in &mut self.steps {
            if step.kind == StepKind::Agent {
                step.output = None;
            }
        }
        self
    }

    /// Returns an agent with the version that the run uses.
    pub fn agent(&self, id: AgentId) -> Option<(AgentId, i64)> {
        self.agents.get(&id).map(|version| (id, *version))
    }
}

#[derive(Serialize, utoipa::ToSchema)]
pub struct RunEvent {
    run: WorkflowRun,
}

impl EventData for RunEvent {
    const TYPES: &'static [EventType] = &[EventType::RunCreated, EventType::RunUpdated];
}

/// Status of a run `r` with the root task `t`.
macro_rules! run_status {
    () => {
        "case when t.status in ('completed', 'failed', 'cancelled') then t.status \
         when (t.parked and t.wait_reason = 'approval') or exists (select 1 from tasks a where a.root_task_id = r.id \
         and a.parent_task_id is not null and a.status = 'queued' and a.parked and a.wait_reason = 'approval') then 'waiting' when t.started_at is null then 'queued' else 'running' end"
    };
}

macro_rules! run_sql {
    ($tail:expr) => {
        concat!(
            "select r.id, r.workspace_id, r.workflow_id, r.workflow_version, r.cause, r.cause_id, r.requested_by, r.channel_id, r.thread_id, \
             r.message_id, r.input, r.agents, r.local_date, r.created_at, w.owner_id, t.error, t.completed_at, ",
            run_status!(),
            " as status from runs r join tasks t on t.id = r.id join workflows w on w.id = r.workflow_id ",
            $tail
        )
    };
}

#[derive(sqlx::FromRow)]
struct Row {
    id: RunId,
    workspace_id: WorkspaceId,
    workflow_id: WorkflowId,
    workflow_version: i64,
    status: RunStatus,
    cause: CauseType,
    cause_id: Option<String>,
    requested_by: UserId,
    channel_id: Option<ChannelId>,
    thread_id: Option<ThreadId>,
    message_id: Option<MessageId>,
    input: String,
    agents: Json<BTreeMap<AgentId, i64>>,
    local_date: String,
    owner_id: UserId,
    error: Option<Json<TaskError>>,
    created_at: Timestamp,
    completed_at: Option<Timestamp>,
}

impl Row {
    fn with_steps(self, mut steps: Vec<RunStep>) -> WorkflowRun {
        for step in &mut steps {
            let is_open = matches!(step.state, StepState::Running | StepState::Waiting);
            // Steps that were open when the run ended are shown as ended. The fork of a failed run continues.
            let has_ended = match self.status {
                RunStatus::Cancelled => is_open || step.state == StepState::Pending,
                RunStatus::Failed => is_open && step.fork_id.is_none(),
                _ => false,
            };
            if has_ended {
                step.state = StepState::Cancelled;
            }
        }
        WorkflowRun {
            id: self.id,
            object: RunObject,
            workflow_id: self.workflow_id,
            workflow_version: self.workflow_version,
            status: self.status,
            cause: RunCause {
                kind: self.cause,
                id: self.cause_id,
            },
            requested_by: self.requested_by,
            channel_id: self.channel_id,
            thread_id: self.thread_id,
            input: self.input,
            root_task_id: TaskId(self.id.0),
            steps,
            error: self.error.map(|error| error.0.message),
            created_at: self.created_at,
            completed_at: self.completed_at,
            workspace_id: self.workspace_id,
            message_id: self.message_id,
            agents: self.agents.0,
            local_date: self.local_date,
            owner_id: self.owner_id,
        }
    }
}

/// Steps of a run as they are stored: those that were open when the run ended are still open.
///
/// # Errors
/// Only database errors.
pub async fn steps_of(c: &mut Conn, run: RunId) -> Result<Vec<RunStep>, DbError> {
    // A tool of the step's agent can also wait for approvals.
    c.q("select s.step_id, s.kind, case when s.state = 'running' and exists (select 1 from tasks a where a.id = s.task_id \
         and a.status = 'queued' and a.parked and a.wait_reason = 'approval') then 'waiting' else s.state end as state, s.attempt, s.task_id, s.fork_id, s.action_id, s.jump, s.output_id, x.text as output, \
         s.error, s.due_at, s.started_at, s.ended_at from run_steps s \
         left join context_texts x on x.id = s.output_id and x.hash is not null where s.run_id = $1 order by s.position")
        .bind(run)
        .all()
        .await
}

/// # Errors
/// Only database errors.
pub async fn find_run(c: &mut Conn, id: RunId) -> Result<Option<WorkflowRun>, DbError> {
    let row: Option<Row> = c.q(run_sql!("where r.id = $1")).bind(id).opt().await?;
    match row {
        Some(row) => Ok(Some(row.with_steps(steps_of(c, id).await?))),
        None => Ok(None),
    }
}

/// A person who reads runs.
#[derive(Debug, Clone, Copy)]
pub struct RunReader {
    pub user: UserId,
    /// True for admins, who see all runs without a channel.
    pub is_admin: bool,
}

/// Condition for runs `r` of the workflow `w` that the reader `$user` can see; `$admin` is true for admins.
macro_rules! is_visible_run {
    ($user:literal, $admin:literal) => {
        concat!(
            "((r.channel_id is not null and ",
            is_in_visible_channel!("r.channel_id", $user),
            ") or (r.channel_id is null and (r.requested_by = ",
            $user,
            " or w.owner_id = ",
            $user,
            " or ",
            $admin,
            ")))"
        )
    };
}

/// Returns `None` for a run that the reader cannot see.
///
/// # Errors
/// Only database errors.
pub async fn find_visible_run(
    c: &mut Conn,
    id: RunId,
    reader: RunReader,
) -> Result<Option<WorkflowRun>, DbError> {
    let row: Option<Row> = c
        .q(run_sql!(concat!(
            "where r.id = $1 and ",
            is_visible_run!("$2", "$3")
        )))
        .bind(id)
        .bind(reader.user)
        .bind(reader.is_admin)
        .opt()
        .await?;
    match row {
        Some(row) => Ok(Some(row.with_steps(steps_of(c, id).await?))),
        None => Ok(None),
    }
}

/// Removes the texts of messages that the run posted in other channels, if the reader cannot read those channels.
///
/// # Errors
/// Only database errors.
pub async fn hide_messages(
    c: &mut Conn,
    run: &mut WorkflowRun,
    reader: UserId,
) -> Result<(), DbError> {
    let is_message = |step: &RunStep| step.kind == StepKind::Output && step.output.is_some();
    if !run.steps.iter().any(is_message) {
        return Ok(());
    }
    let content = find_content(c, run.workflow_id, run.workflow_version).await?;
    let content = content.map(|content| content.steps).unwrap_or_default();
    let channels: BTreeMap<&str, Option<ChannelId>> = flat(&content)
        .into_iter()
        .filter_map(|step| match &step.work {
            StepWork::Output(output) => Some((step.id.as_str(), output.channel_id)),
            _ => None,
        })
        .collect();
    for step in run.steps.iter_mut().filter(|step| is_message(step)) {
        let is_visible = match channels.get(step.id.as_str()) {
            Some(None) => true,
            Some(Some(channel)) if run.channel_id == Some(*channel) => true,
            Some(Some(channel)) => is_readable(c, *channel, reader).await?,
            None => false,
        };
        if !is_visible {
            step.output = None;
        }
    }
    Ok(())
}

async fn is_readable(c: &mut Conn, channel: ChannelId, reader: UserId) -> Result<bool, DbError> {
    c.q(concat!("select ", is_in_visible_channel!("$1", "$2")))
        .bind(channel)
        .bind(reader)
        .value()
        .await
}

/// Filter for a list of runs.
#[derive(Debug, Default)]
pub struct RunFilter {
    pub workflow: Option<WorkflowId>,
    pub status: Option<RunStatus>,
}

/// Lists runs that the reader can see before an ID, newest first.
///
/// # Errors
/// Only database errors.
pub async fn list_runs(
    c: &mut Conn,
    workspace: WorkspaceId,
    reader: RunReader,
    filter: &RunFilter,
    before: Option<RunId>,
    limit: i64,
) -> Result<Vec<WorkflowRun>, DbError> {
    let rows: Vec<Row> = c
        .q(run_sql!(concat!(
            "where r.workspace_id = $1 and r.id < $4 and (r.workflow_id = $5 or $5 is null) and ($6 is null or ",
            run_status!(),
            " = $6) and ",
            is_visible_run!("$2", "$3"),
            " order by r.id desc limit $7"
        )))
        .bind(workspace)
        .bind(reader.user)
        .bind(reader.is_admin)
        .bind(before.unwrap_or(RunId(Uuid::max())))
        .bind(filter.workflow)
        .bind(filter.status.map(|status| status.to_string()))
        .bind(limit)
        .all()
        .await?;
    let mut runs = Vec::with_capacity(rows.len());
    for row in rows {
        let steps = steps_of(c, row.id).await?;
        runs.push(row.with_steps(steps));
    }
    Ok(runs)
}

/// Name of the workflow of a run; `None` if the run has been removed.
///
/// # Errors
/// Only database errors.
pub async fn workflow_name(c: &mut Conn, id: RunId) -> Result<Option<String>, DbError> {
    let row: Option<(String,)> = c
        .q("select w.name from runs r join workflows w on w.id = r.workflow_id where r.id = $1")
        .bind(id)
        .opt()
        .await?;
    Ok(row.map(|(name,)| name))
}

/// # Errors
/// Only database errors.
pub async fn workspace_of_run(c: &mut Conn, id: RunId) -> Result<Option<WorkspaceId>, DbError> {
    let row: Option<(WorkspaceId,)> = c
        .q("select workspace_id from runs where id = $1")
        .bind(id)
        .opt()
        .await?;
    Ok(row.map(|(workspace,)| workspace))
}

/// Appends an event with the run, without its texts. Recipients are the readers of its channel or, for a run without a channel, its
/// requester, the workflow's owner, and admins. Also closes the inbox items of an ended run's forks.
///
/// # Errors
/// Only database errors.
pub async fn announce_run(c: &mut Conn, kind: EventType, id: RunId) -> Result<(), DbError> {
    let Some(mut run) = find_run(c, id).await? else {
        return Ok(());
    };
    run.input.clear();
    for step in &mut run.steps {
        step.output = None;
    }
    let only = run.channel_id.is_none().then(|| Recipients {
        users: vec![run.requested_by, run.owner_id],
        managers: true,
    });
    let audience = queue::audience_in(c, run.channel_id).await?;
    let workspace = run.workspace_id;
    let forks = run.steps.iter().filter_map(|step| step.fork_id);
    let forks: Vec<ForkId> = forks.filter(|_| run.status.has_ended()).collect();
    let seq = log::reserve(c, workspace, 1).await?;
    let event = NewEvent::new(seq, kind, audience, &RunEvent { run })?;
    log::append(c, workspace, event.only_to(only)).await?;
    for fork in forks {
        close::close(c, workspace, InboxReason::Resolve, fork.0, None).await?;
    }
    Ok(())
}

/// Announces the run to which a task belongs, because the run starts or stops waiting for people together with the task.
///
/// # Errors
/// Only database errors.
pub async fn announce_run_of(c: &mut Conn, task: TaskId) -> Result<(), DbError> {
    let run: Option<(RunId,)> = c
        .q("select r.id from tasks t join runs r on r.id = t.root_task_id where t.id = $1")
        .bind(task)
        .opt()
        .await?;
    match run {
        Some((run,)) => announce_run(c, EventType::RunUpdated, run).await,
        None => Ok(()),
    }
}

/// A run to start.
#[derive(Debug, Clone)]
pub struct NewRun {
    pub cause: RunCause,
    pub requester: UserId,
    /// API key that starts the run.
    pub api_key: Option<ApiKeyId>,
    pub channel: Option<ChannelId>,
    pub thread: Option<ThreadId>,
    /// The message that starts the run.
    pub message: Option<MessageId>,
    pub input: String,
    /// The current local day.
    pub day: NaiveDate,
}

/// Checks whether one more run of a workflow can be active.
///
/// # Errors
/// `Paused` or `TooManyRuns`.
pub async fn check_active(c: &mut Conn, workflow: &Workflow) -> Result<(), WorkflowError> {
    if workflow.status != WorkflowStatus::Active {
        return Err(WorkflowError::Paused);
    }
    let active: i64 = c
        .q("select count(*) from tasks t join runs r on r.id = t.id where t.workspace_id = $2 and t.kind = 'workflow' \
            and t.status in ('queued', 'running') and r.workflow_id = $1")
        .bind(workflow.id)
        .bind(workflow.workspace_id)
        .value()
        .await?;
    if active >= RUNS_MAX {
        return Err(WorkflowError::TooManyRuns);
    }
    Ok(())
}

/// Checks whether a run can start.
///
/// # Errors
/// Any error from `check_active`, or `Invalid` if a step posts and there is no channel.
pub async fn check_start(
    c: &mut Conn,
    workflow: &Workflow,
    channel: Option<ChannelId>,
) -> Result<(), WorkflowError> {
    check_active(c, workflow).await?;
    if workflow.content.posts() && channel.is_none() {
        let text = "a step of this workflow posts a message: specify a thread or a channel";
        return Err(WorkflowError::Invalid(
            text.to_owned(),
            "channel_id".to_owned(),
        ));
    }
    Ok(())
}

/// Starts a run with the given ID. The caller must have locked the workspace, and checked that the requester can start the run and
/// post in the channel.
///
/// # Errors
/// Any error from `check_start`.
pub async fn start_run(
    c: &mut Conn,
    workflow: &Workflow,
    id: RunId,
    new: &NewRun,
) -> Result<WorkflowRun, WorkflowError> {
    check_start(c, workflow, new.channel).await?;
    let audience = queue::audience_in(c, new.channel).await?;
    let task = NewRunTask {
        id: TaskId(id.0),
        workspace: workflow.workspace_id,
        kind: TaskKind::Workflow,
        run: id,
        step: None,
        agent: None,
        channel: new.channel,
        thread: new.thread,
        trigger: None,
        requested_by: new.requester,
        before_seq: None,
        api_key: new.api_key,
        input: TaskInput::default(),
    };
    queue::insert_of_run(c, &task, audience).await?;
    insert(c, workflow, id, new).await?;
    announce_run(c, EventType::RunCreated, id).await?;
    let run = find_run(c, id).await?;
    run.ok_or(WorkflowError::RunNotFound)
}

async fn insert(c: &mut Conn, workflow: &Workflow, id: RunId, new: &NewRun) -> Result<(), DbError> {
    let content = &workflow.content;
    let mut agents = BTreeMap::new();
    for agent in std::iter::once(content.default_agent_id).chain(content.agents.clone()) {
        profiles::refresh_first(c, workflow.workspace_id, agent).await?;
        if let Some(version) = profiles::newest_version(c, agent).await? {
            agents.insert(agent, version);
        }
    }
    c.q("insert into runs (id, workspace_id, workflow_id, workflow_version, cause, cause_id, requested_by, channel_id, thread_id, \
         message_id, input, agents, local_date, created_at) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)")
        .bind(id)
        .bind(workflow.workspace_id)
        .bind(workflow.id)
        .bind(workflow.version)
        .bind(new.cause.kind)
        .bind(new.cause.id.clone())
        .bind(new.requester)
        .bind(new.channel)
        .bind(new.thread)
        .bind(new.message)
        .bind(new.input.clone())
        .bind(Json(agents))
        .bind(new.day.to_string())
        .bind(now())
        .run()
        .await?;
    for (position, step) in (0_i64..).zip(flat(&content.steps)) {
        c.q("insert into run_steps (run_id, step_id, position, kind, state, attempt) values ($1, $2, $3, $4, $5, 1)")
            .bind(id)
            .bind(step.id.clone())
            .bind(position)
            .bind(step.kind())
            .bind(StepState::Pending)
            .run()
            .await?;
    }
    Ok(())
}

/// Stores the state of a step, with the fields that depend on it.
///
/// # Errors
/// Only database errors.
pub async fn store_step(c: &mut Conn, run: RunId, step: &RunStep) -> Result<(), DbError> {
    c.q("update run_steps set state = $3, attempt = $4, task_id = $5, fork_id = $6, action_id = $7, jump = $8, output_id = $9, \
         error = $10, due_at = $11, started_at = $12, ended_at = $13 where run_id = $1 and step_id = $2")
        .bind(run)
        .bind(step.id.clone())
        .bind(step.state)
        .bind(step.attempt)
        .bind(step.task_id)
        .bind(step.fork_id)
        .bind(step.action_id)
        .bind(step.jump.clone())
        .bind(step.output_id)
        .bind(step.error.clone())
        .bind(step.due_at)
        .bind(step.started_at)
        .bind(step.ended_at)
        .run()
        .await?;
    Ok(())
}

/// Wakes the run that was waiting for a fork, after the fork was resolved or abandoned.
///
/// # Errors
/// Only database errors.
pub async fn wake_of_fork(c: &mut Conn, fork: ForkId, audience: Audience) -> Result<(), DbError> {
    let row: Option<(TaskId,)> = c
        .q("select run_id from run_steps where fork_id = $1 and state = 'waiting' limit 1")
        .bind(fork)
        .opt()
        .await?;
    match row {
        Some((root,)) => queue::wake(c, root, audience).await,
        None => Ok(()),
    }
}
