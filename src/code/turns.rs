//! Turns: the repository on which a reply works, the beginning of a turn, and its end without a result.

use std::collections::BTreeMap;

use openvibe_runner::{Command, TurnLimits};

use super::{
    commands, forget, push, question,
    repository::{TurnRepository, is_allowed_in, may_start},
    runner::{AWAY_MAX, SEEN_WITHIN},
    sessions::{self, Row, SessionState},
    texts::{self, TextOwner},
};
use crate::{
    agents::{
        policy,
        profiles::{self, Coding},
        sandbox::{self, Filesystem, Network},
    },
    chat::{
        post::{self, NoticeTarget},
        remove,
    },
    db::{Conn, Db, DbError, Json, dialect::lock_workspace, now},
    ids::{
        AgentId, ChannelId, CodeSessionId, MessageId, RepositoryId, RunnerId, TaskId, WorkspaceId,
    },
    realtime::hub::Conversation,
    tasks::{
        FailCode, Lease, LeaseLost, Task, TaskError, TaskStatus, TaskTarget,
        actions::{ActionKind, ActionSource, ActionState, TaintKind},
        attempts::{self, AttemptError, AttemptOutcome},
        budgets::OverBudget,
        costs::{self, CostReader},
        notice_text, queue,
        steers::STEERS_MAX,
    },
    time::Timestamp,
    tools::taint,
};

/// The place where a reply works.
#[derive(Debug, Clone)]
pub struct TurnPlace {
    pub repository: TurnRepository,
    pub engine: String,
    /// Sequence number of the newest message that the agent has received in its session; 0 for a new session.
    pub read_seq: i64,
    /// Task with whose prompt the agent has received it.
    pub last_task: Option<TaskId>,
}

/// The way in which a reply is written.
#[derive(Debug, Clone)]
pub enum Choice {
    /// Without a repository, because none is allowed here.
    Chat,
    /// Without the repository with this name, because the requester must not start work on it.
    Without(String),
    /// The requester has to choose one of these.
    Ask(Vec<TurnRepository>),
    Work(Box<TurnPlace>),
}

/// Checks whether a text contains a name as a whole word.
fn is_named(text: &str, name: &str) -> bool {
    let (text, name) = (text.to_lowercase(), name.to_lowercase());
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
    text.match_indices(&name).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + name.len()..].chars().next();
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    })
}

/// Repositories that are allowed in a channel and offered now, oldest first.
async fn allowed_in(c: &mut Conn, channel: ChannelId) -> Result<Vec<TurnRepository>, DbError> {
    c.q("select r.id, r.name, r.engine, u.engines, r.starters, u.seen_at from repositories r join runners u on u.id = r.runner_id \
         join repository_channels k on k.repository_id = r.id where k.channel_id = $1 and r.is_allowed and r.is_offered order by r.id")
        .bind(channel)
        .all()
        .await
}

/// The repository of the newest session of an agent in a conversation.
async fn last_used(
    c: &mut Conn,
    conversation: Conversation,
    agent: AgentId,
) -> Result<Option<RepositoryId>, DbError> {
    let row: Option<(RepositoryId,)> = c
        .q("select repository_id from code_sessions where conversation_id = $1 and agent_id = $2 order by turn_at desc, id desc limit 1")
        .bind(conversation.id())
        .bind(agent)
        .opt()
        .await?;
    Ok(row.map(|(repository,)| repository))
}

/// Chooses the repository for a reply: one that the message names, the last one, the only one, or the one that the requester has chosen
/// when asked.
///
/// # Errors
/// Only database errors.
pub async fn choose(c: &mut Conn, task: &Task, coding: &Coding) -> Result<Choice, DbError> {
    let Some(target) = task.target() else {
        return Ok(Choice::Chat);
    };
    let mut allowed = allowed_in(c, target.channel).await?;
    if allowed.is_empty() {
        return Ok(Choice::Chat);
    }
    let text = &task.input.0.prompt;
    let chosen = question::chosen_repository(c, task.id).await?;
    let last = last_used(c, target.conversation(), target.agent).await?;
    let index = allowed
        .iter()
        .position(|one| Some(one.id) == chosen)
        .or_else(|| allowed.iter().position(|one| is_named(text, &one.name)))
        .or_else(|| allowed.iter().position(|one| Some(one.id) == last))
        .or((allowed.len() == 1).then_some(0));
    let mut startable = Vec::new();
    for one in &allowed {
        let (workspace, user) = (task.workspace_id, task.requested_by);
        startable.push(may_start(c, workspace, user, one.id, &one.starters).await?);
    }
    let Some(index) = index else {
        let names: Vec<String> = allowed.iter().map(|one| one.name.clone()).collect();
        let mut can_start = startable.into_iter();
        allowed.retain(|_| can_start.next().unwrap_or(false));
        return Ok(if allowed.is_empty() {
            Choice::Without(names.join(", "))
        } else {
            Choice::Ask(allowed)
        });
    };
    let repository = allowed.swap_remove(index);
    if !startable.get(index).copied().unwrap_or(false) {
        return Ok(Choice::Without(repository.name));
    }
    let conversation = target.conversation();
    let session = sessions::find_of(c, conversation, target.agent, repository.id).await?;
    let session = session.filter(Row::is_open);
    let Some(engine) = repository.engine(coding) else {
        // A runner without an engine cannot work.
        return Ok(Choice::Chat);
    };
    let read_seq = session.as_ref().map_or(0, |session| session.read_seq);
    let last_task = match session {
        Some(session) => last_received(c, session.id, read_seq).await?,
        None => None,
    };
    Ok(Choice::Work(Box::new(TurnPlace {
        repository,
        engine,
        read_seq,
        last_task,
    })))
}

/// The newest turn of a session whose prompt its agent has received.
async fn last_received(
    c: &mut Conn,
    session: CodeSessionId,
    read_seq: i64,
) -> Result<Option<TaskId>, DbError> {
    let row: Option<(TaskId,)> = c
        .q("select x.task_id from code_turns x join tasks t on t.id = x.task_id join messages m on m.id = t.trigger_message_id \
            where x.session_id = $1 and m.seq = $2 order by x.task_id desc limit 1")
        .bind(session)
        .bind(read_seq)
        .opt()
        .await?;
    Ok(row.map(|(task,)| task))
}

/// Messages of a conversation after a sequence number, for the part of a prompt that is new; without those that an agent has read as
/// steering: in a turn that it has completed.
///
/// # Errors
/// Only database errors.
pub async fn messages_after(
    c: &mut Conn,
    conversation: Conversation,
    agent: AgentId,
    seq: i64,
) -> Result<Vec<MessageId>, DbError> {
    let rows: Vec<(MessageId,)> = c
        .q("select m.id from messages m where m.conversation_id = $1 and m.seq > $3 and not exists (select 1 from task_steers x \
            join tasks t on t.id = x.task_id where x.message_id = m.id and x.round is not null and t.agent_id = $2 and t.status = $4) \
            order by m.seq limit 1000")
        .bind(conversation.id())
        .bind(agent)
        .bind(seq)
        .bind(TaskStatus::Completed)
        .all()
        .await?;
    Ok(rows.into_iter().map(|(id,)| id).collect())
}

/// Prompt of a turn.
#[derive(Debug, Clone)]
pub struct TurnPrompt {
    /// Instructions, conversation, and trigger.
    pub full: String,
    /// What is new for an agent that has a session.
    pub new: Option<String>,
}

/// Text for a runner that is not connected.
fn offline_text(repository: &str) -> String {
    format!("No runner is connected for {repository}. Start it with `openvibe runner`.")
}

/// Text for a repository that an admin no longer allows.
fn withdrawn_text(repository: &str) -> String {
    format!("{repository} is no longer allowed in this channel, so the work stopped.")
}

/// Gives a claimed reply to the runner of a repository: stores the commands and parks the task. If the runner is away, the task fails.
///
/// # Errors
/// `Gone` if the task no longer belongs to this worker.
pub async fn begin(
    c: &mut Conn,
    lease: &Lease,
    place: &TurnPlace,
    prompt: &TurnPrompt,
) -> Result<(), LeaseLost> {
    let task = queue::lock_lease(c, lease).await?;
    if find(c, task.id).await?.is_some() {
        // The database was restored, and the runner goes on.
        queue::park_outside(c, lease).await?;
        return Ok(());
    }
    let repository = &place.repository;
    if !is_allowed_in(c, repository.id, lease.target.channel).await? {
        // An admin has just withdrawn it.
        let text = withdrawn_text(&repository.name);
        fail(c, task.id, FailCode::NotAllowed, Some(&text)).await?;
        return Ok(());
    }
    let (starters,): (String,) = c
        .q("select starters from repositories where id = $1")
        .bind(repository.id)
        .one()
        .await?;
    let (workspace, user) = (task.workspace_id, task.requested_by);
    if !may_start(c, workspace, user, repository.id, &starters).await? {
        // An admin has just taken the right away.
        fail(c, task.id, FailCode::NotAllowed, None).await?;
        return Ok(());
    }
    if repository.is_away() {
        let text = offline_text(&repository.name);
        fail(c, task.id, FailCode::RunnerOffline, Some(&text)).await?;
        return Ok(());
    }
    let (session, is_new) = open(c, &task, lease, place).await?;
    push::withdraw(c, session, lease.audience).await?;
    let (text, full) = match &prompt.new {
        Some(new) if !is_new => (new.clone(), Some(prompt.full.clone())),
        _ => (prompt.full.clone(), None),
    };
    let command = Command::Prompt {
        task: task.id.to_string(),
        // Each frame gets a new key when it is sent.
        key: String::new(),
        text,
        full,
        limits: limits_of(c, task.workspace_id, lease.target).await?,
    };
    let n = commands::insert(c, session, Some(task.id), &command).await?;
    c.q("insert into task_keys (task_id, session_id, prompt_n, is_begun, plan, reported_cost_usd, created_at) \
         values ($1, $2, $3, FALSE, $4, $5, $6)")
        .bind(task.id)
        .bind(session)
        .bind(n)
        .bind(Json(Vec::<()>::new()))
        .bind(0.0_f64)
        .bind(now())
        .run()
        .await?;
    // An earlier push is not offered again, even if this turn fails: the patch that people see can be newer than its tree.
    c.q("update code_sessions set late_task_id = null, title = null, body = null where id = $1")
        .bind(session)
        .run()
        .await?;
    sessions::touch(c, session).await?;
    let label = &repository.name;
    let source = ActionSource::new(TaintKind::Repository, repository.id.0, label.clone());
    taint::add(c, task.id, &[source]).await?;
    forget::remember(c, task.workspace_id, task.id, session).await?;
    queue::park_outside(c, lease).await?;
    metrics::counter!("openvibe_code_turns_total", "state" => "begun", "engine" => engine_label(&place.engine))
        .increment(1);
    Ok(())
}

/// Limits of the sandbox policies of an agent and of its workspace; `None` if neither has one.
async fn limits_of(
    c: &mut Conn,
    workspace: WorkspaceId,
    target: TaskTarget,
) -> Result<Option<TurnLimits>, DbError> {
    let agent = profiles::find_resolved(c, target.agent, target.agent_version).await?;
    let own = agent.and_then(|agent| agent.profile.sandbox_policy_id);
    let required = policy::find(c, workspace).await?.sandbox_policy_id;
    let limits = sandbox::effective(c, workspace, own.as_deref(), required).await?;
    Ok(limits.map(|limits| TurnLimits {
        seconds: limits.timeout_s_max.into(),
        memory_mb: limits.memory_mb_max.into(),
        cpu: limits.processors(),
        writes: limits.filesystem == Filesystem::ReadWrite,
        hosts: match limits.network {
            Network::Full => None,
            Network::None | Network::Allowlist => Some(limits.allowed_hosts),
        },
    }))
}

/// Label of an engine in metrics: names that operators make up are not labels.
fn engine_label(engine: &str) -> &'static str {
    let known = ["builtin", "claude", "codex", "gemini", "opencode"];
    known
        .into_iter()
        .find(|name| *name == engine)
        .unwrap_or("other")
}

/// The session of a turn, which is opened if the runner has no copy for it, or if another engine works from now on. Returns whether the agent
/// begins without a session of its own.
async fn open(
    c: &mut Conn,
    task: &Task,
    lease: &Lease,
    place: &TurnPlace,
) -> Result<(CodeSessionId, bool), DbError> {
    let target = lease.target;
    let repository = &place.repository;
    let known = sessions::find_of(c, target.conversation(), target.agent, repository.id).await?;
    if let Some(row) = &known
        && row.is_open()
        && row.base_commit.is_some()
        && row.engine == place.engine
    {
        sessions::set_state(c, row.id, SessionState::Working).await?;
        return Ok((row.id, false));
    }
    let (id, number) = match known {
        Some(row) => {
            c.q("update code_sessions set engine = $2 where id = $1")
                .bind(row.id)
                .bind(place.engine.clone())
                .run()
                .await?;
            (row.id, row.number)
        }
        None => insert_session(c, task, lease, place).await?,
    };
    let patch = texts::find(c, id, TextOwner::Patch(id)).await?.is_some();
    let (last_event,): (i64,) = c
        .q("update code_sessions set state = $2 where id = $1 returning last_event")
        .bind(id)
        .bind(SessionState::Preparing)
        .one()
        .await?;
    let command = Command::Open {
        repository: repository.name.clone(),
        number: u64::try_from(number).unwrap_or_default(),
        engine: place.engine.clone(),
        patch,
        last_event: u64::try_from(last_event).unwrap_or_default(),
    };
    commands::insert(c, id, None, &command).await?;
    sessions::announce(c, id).await?;
    Ok((id, true))
}

async fn insert_session(
    c: &mut Conn,
    task: &Task,
    lease: &Lease,
    place: &TurnPlace,
) -> Result<(CodeSessionId, i64), DbError> {
    let target = lease.target;
    let id = CodeSessionId::new();
    let (number,): (i64,) = c
        .q("update repositories set last_number = last_number + 1 where id = $1 returning last_number")
        .bind(place.repository.id)
        .one()
        .await?;
    c.q("insert into code_sessions (id, workspace_id, repository_id, number, agent_id, channel_id, thread_id, conversation_id, engine, state, \
         files, file_count, additions, deletions, check_state, check_ms, push_sent, notes, read_seq, last_command, last_event, started_by, \
         version, created_at, turn_at) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, 0, 0, 0, $12, 0, FALSE, $11, 0, 0, 0, $13, 1, $14, $14)")
        .bind(id)
        .bind(task.workspace_id)
        .bind(place.repository.id)
        .bind(number)
        .bind(target.agent)
        .bind(target.channel)
        .bind(target.thread)
        .bind(target.conversation().id())
        .bind(place.engine.clone())
        .bind(SessionState::Preparing)
        .bind(Json(Vec::<()>::new()))
        .bind(sessions::CodeCheckState::None)
        .bind(task.requested_by)
        .bind(now())
        .run()
        .await?;
    Ok((id, number))
}

/// A task that a runner works on, or should.
#[derive(Debug, Clone, Copy, sqlx::FromRow)]
pub(super) struct Turn {
    pub(super) task_id: TaskId,
    pub(super) session_id: CodeSessionId,
}

pub(super) async fn find(c: &mut Conn, task: TaskId) -> Result<Option<Turn>, DbError> {
    c.q("select task_id, session_id from task_keys where task_id = $1")
        .bind(task)
        .opt()
        .await
}

/// Turns of a session, oldest first.
pub(super) async fn list_of_session(
    c: &mut Conn,
    session: CodeSessionId,
) -> Result<Vec<Turn>, DbError> {
    c.q("select task_id, session_id from task_keys where session_id = $1 order by task_id")
        .bind(session)
        .all()
        .await
}

/// Turns of a runner, oldest first.
pub(super) async fn list_of_runner(c: &mut Conn, runner: RunnerId) -> Result<Vec<Turn>, DbError> {
    c.q("select k.task_id, k.session_id from task_keys k join code_sessions s on s.id = k.session_id \
         join repositories r on r.id = s.repository_id where r.runner_id = $1 order by k.task_id")
        .bind(runner)
        .all()
        .await
}

/// Numbers of prompts for which a runner has no room, by session: turns begin in the order in which people asked. An agent that waits for an
/// answer takes no room.
pub(super) async fn list_held(
    c: &mut Conn,
    runner: RunnerId,
    turns_max: usize,
) -> Result<BTreeMap<CodeSessionId, i64>, DbError> {
    let busy: i64 = c
        .q("select count(*) from task_keys k join code_sessions s on s.id = k.session_id join repositories r on r.id = s.repository_id \
            where r.runner_id = $1 and k.is_begun and not exists (select 1 from actions a where a.task_id = k.task_id and a.kind = $2 and a.state = $3)")
        .bind(runner)
        .bind(ActionKind::Question)
        .bind(ActionState::Waiting)
        .value()
        .await?;
    let waiting: Vec<(CodeSessionId, i64)> = c
        .q("select k.session_id, k.prompt_n from task_keys k join code_sessions s on s.id = k.session_id join repositories r \
            on r.id = s.repository_id where r.runner_id = $1 and k.is_begun = FALSE order by k.created_at, k.task_id")
        .bind(runner)
        .all()
        .await?;
    let room = turns_max.saturating_sub(usize::try_from(busy).unwrap_or(usize::MAX));
    let mut held = BTreeMap::new();
    for (session, n) in waiting.into_iter().skip(room) {
        held.entry(session).or_insert(n);
    }
    Ok(held)
}

/// Starts the tasks whose prompts the runner has, up to command number `n` of a session.
pub(super) async fn note_received(
    c: &mut Conn,
    session: CodeSessionId,
    n: i64,
) -> Result<(), DbError> {
    let begun: Vec<(TaskId,)> = c
        .q("update task_keys set is_begun = TRUE where session_id = $1 and prompt_n <= $2 and not is_begun returning task_id")
        .bind(session)
        .bind(n)
        .all()
        .await?;
    for (task,) in begun {
        // Not when the turn begins: it can end before its runner has the prompt.
        c.q("update code_sessions set read_seq = coalesce((select m.seq from tasks t join messages m on m.id = t.trigger_message_id \
             where t.id = $2), read_seq) where id = $1")
            .bind(session)
            .bind(task)
            .run()
            .await?;
        queue::begin_outside(c, task).await?;
    }
    Ok(())
}

/// Starts the turns of a runner that has come back and has their prompts.
pub(super) async fn resume(c: &mut Conn, runner: RunnerId) -> Result<(), DbError> {
    let rows: Vec<(TaskId,)> = c
        .q("select k.task_id from task_keys k join code_sessions s on s.id = k.session_id join repositories r on r.id = s.repository_id \
            where r.runner_id = $1 and k.is_begun order by k.task_id")
        .bind(runner)
        .all()
        .await?;
    for (task,) in rows {
        queue::begin_outside(c, task).await?;
    }
    Ok(())
}

/// Whether the runner learns that a turn has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Told {
    /// The runner has ended the turn itself.
    Knows,
    Cancel,
}

/// Stores the turn that was stopped, and whose changes a session still accepts.
pub(super) async fn set_late(
    c: &mut Conn,
    session: CodeSessionId,
    task: Option<TaskId>,
) -> Result<(), DbError> {
    c.q("update code_sessions set late_task_id = $2 where id = $1")
        .bind(session)
        .bind(task)
        .run()
        .await?;
    Ok(())
}

/// Checks whether a session accepts the changes of a turn: of one that is open, or that was stopped last. After the beginning of another
/// turn, or the deletion of the changes, those of a stopped turn are too late.
pub(super) async fn accepts_changes(
    c: &mut Conn,
    session: CodeSessionId,
    task: TaskId,
) -> Result<bool, DbError> {
    c.q("select exists (select 1 from task_keys k where k.task_id = $2 and k.session_id = $1 and not exists \
         (select 1 from task_keys x where x.session_id = k.session_id and x.prompt_n > k.prompt_n)) \
         or exists (select 1 from code_sessions where id = $1 and late_task_id = $2)")
        .bind(session)
        .bind(task)
        .value()
        .await
}

/// Checks whether the repository of a session is still allowed in its channel.
pub(super) async fn is_allowed(c: &mut Conn, session: CodeSessionId) -> Result<bool, DbError> {
    c.q("select exists (select 1 from code_sessions s join repositories r on r.id = s.repository_id join repository_channels k \
         on k.repository_id = r.id and k.channel_id = s.channel_id where s.id = $1 and r.is_allowed)")
        .bind(session)
        .value()
        .await
}

/// Makes the changes of a session go with the reply of a stopped turn, if it has one. Returns false if that was deleted: then the changes
/// are deleted next.
pub(super) async fn claim_reply(
    c: &mut Conn,
    session: CodeSessionId,
    task: TaskId,
) -> Result<bool, DbError> {
    let reply: Option<(MessageId, bool)> = c
        .q("select m.id, m.deleted_at is not null as is_deleted from tasks t join messages m on m.id = t.reply_message_id where t.id = $1")
        .bind(task)
        .opt()
        .await?;
    let Some((reply, is_deleted)) = reply else {
        return Ok(true);
    };
    // The text of the commit was that of another reply.
    c.q("update code_sessions set reply_id = $2, title = null, body = null where id = $1")
        .bind(session)
        .bind(reply)
        .run()
        .await?;
    Ok(!is_deleted)
}

/// Announces the sessions whose turns wait for the same runner: they have fewer turns ahead.
async fn announce_waiting(c: &mut Conn, ended: CodeSessionId) -> Result<(), DbError> {
    let rows: Vec<(CodeSessionId,)> = c
        .q("select distinct k.session_id from task_keys k join code_sessions s on s.id = k.session_id join repositories r \
            on r.id = s.repository_id where k.is_begun = FALSE and k.session_id <> $1 and r.runner_id = (select o.runner_id \
            from code_sessions x join repositories o on o.id = x.repository_id where x.id = $1) order by k.session_id limit 50")
        .bind(ended)
        .all()
        .await?;
    for (session,) in rows {
        sessions::announce(c, session).await?;
    }
    Ok(())
}

/// Counts a turn whose task has ended.
async fn count(c: &mut Conn, turn: Turn) -> Result<(), DbError> {
    let (status, engine): (TaskStatus, String) = c
        .q("select t.status, s.engine from tasks t join code_sessions s on s.id = $2 where t.id = $1")
        .bind(turn.task_id)
        .bind(turn.session_id)
        .one()
        .await?;
    metrics::counter!("openvibe_code_turns_total", "state" => status.as_str(), "engine" => engine_label(&engine))
        .increment(1);
    Ok(())
}

/// Removes the key of a turn whose task has ended, and the texts of its commands.
pub(super) async fn end(c: &mut Conn, turn: Turn, told: Told) -> Result<(), DbError> {
    c.q("delete from task_keys where task_id = $1")
        .bind(turn.task_id)
        .run()
        .await?;
    count(c, turn).await?;
    commands::blank(c, turn.task_id).await?;
    if told == Told::Cancel {
        let task = turn.task_id.to_string();
        let command = Command::Cancel { task };
        commands::insert(c, turn.session_id, Some(turn.task_id), &command).await?;
    }
    sessions::touch(c, turn.session_id).await?;
    announce_waiting(c, turn.session_id).await?;
    if !list_of_session(c, turn.session_id).await?.is_empty() {
        // The next turn has begun.
        return Ok(());
    }
    let late = (told == Told::Cancel).then_some(turn.task_id);
    set_late(c, turn.session_id, late).await?;
    let Some(row) = sessions::find_row(c, turn.session_id).await? else {
        return Ok(());
    };
    if row.state == SessionState::Working {
        sessions::set_state(c, turn.session_id, SessionState::Ready).await?;
    }
    Ok(())
}

/// Fails the task of a turn, or one that cannot become a turn, and ends the turn.
pub(super) async fn fail(
    c: &mut Conn,
    id: TaskId,
    code: FailCode,
    cause: Option<&str>,
) -> Result<(), DbError> {
    fail_task(c, id, code, cause).await?;
    match find(c, id).await? {
        Some(turn) => end(c, turn, Told::Cancel).await,
        None => Ok(()),
    }
}

/// Fails a task with a notice: `cause`, or the text for the code. Nothing happens to a task that has ended.
pub(super) async fn fail_task(
    c: &mut Conn,
    id: TaskId,
    code: FailCode,
    cause: Option<&str>,
) -> Result<(), DbError> {
    let task = queue::find_task(c, id).await?.filter(Task::is_active);
    if let Some((task, target)) = task.as_ref().and_then(|task| Some((task, task.target()?))) {
        let audience = queue::audience_in(c, task.channel_id).await?;
        if let Some(reply) = task.reply_message_id {
            remove::interrupt_reply(c, reply, None, audience).await?;
        }
        let message = match cause {
            Some(cause) => cause.to_owned(),
            None => notice_text(&profiles::shown_name(c, target.agent).await?, code),
        };
        let message = post::end_chain(c, task, message, audience).await?;
        let place = NoticeTarget {
            workspace: task.workspace_id,
            channel: target.channel,
            thread: target.thread,
            fork: target.fork,
            agent: target.agent,
            task: Some(task.id),
        };
        let (trigger, text) = (task.trigger_message_id, message.clone());
        let notice = post::insert_notice(c, place, audience, trigger, text).await?;
        let error = AttemptError {
            code,
            message: message.clone(),
        };
        attempts::end_attempt(c, id, AttemptOutcome::Failed, Some(error), 0, now()).await?;
        let error = TaskError { code, message };
        queue::fail(c, id, error, Some(notice.id), audience).await?;
    }
    Ok(())
}

/// Fails a turn whose call of a model a budget does not allow.
///
/// # Errors
/// Only database errors.
pub async fn end_over_budget(
    db: &Db,
    workspace: WorkspaceId,
    task: TaskId,
    over: OverBudget,
) -> Result<(), DbError> {
    db.write(workspace.0, async move |c: &mut Conn| {
        lock_workspace(c, workspace.0).await?;
        let found = queue::find_task(c, task).await?;
        let Some(target) = found.as_ref().and_then(Task::target) else {
            return Ok(());
        };
        let name = profiles::shown_name(c, target.agent).await?;
        // The notice is visible to everyone in the conversation.
        let shows_costs = costs::are_visible(c, workspace, CostReader::Other).await?;
        let text = over.notice(&name, shows_costs);
        fail(c, task, FailCode::BudgetExceeded, Some(&text)).await
    })
    .await
}

/// Fails all turns of a runner that is about to be deleted.
pub(super) async fn fail_all(c: &mut Conn, runner: RunnerId) -> Result<(), DbError> {
    for turn in list_of_runner(c, runner).await? {
        fail(c, turn.task_id, FailCode::RunnerOffline, None).await?;
    }
    Ok(())
}

/// Fails the turns of a repository in channels where it is no longer allowed.
pub(super) async fn fail_withdrawn(c: &mut Conn, repository: RepositoryId) -> Result<(), DbError> {
    let rows: Vec<(TaskId, String)> = c
        .q("select k.task_id, r.name from task_keys k join code_sessions s on s.id = k.session_id \
            join repositories r on r.id = s.repository_id where r.id = $1 and not (r.is_allowed and exists \
            (select 1 from repository_channels x where x.repository_id = r.id and x.channel_id = s.channel_id)) order by k.task_id")
        .bind(repository)
        .all()
        .await?;
    for (task, name) in rows {
        let text = withdrawn_text(&name);
        fail(c, task, FailCode::NotAllowed, Some(&text)).await?;
    }
    Ok(())
}

/// Turns of a runner whose tasks have ended, such as after Stop.
async fn list_ended(c: &mut Conn, runner: RunnerId) -> Result<Vec<Turn>, DbError> {
    c.q(
        "select k.task_id, k.session_id from task_keys k join tasks t on t.id = k.task_id \
         join code_sessions s on s.id = k.session_id join repositories r on r.id = s.repository_id \
         where r.runner_id = $1 and t.status in ($2, $3, $4) order by k.task_id limit 100",
    )
    .bind(runner)
    .bind(TaskStatus::Completed)
    .bind(TaskStatus::Failed)
    .bind(TaskStatus::Cancelled)
    .all()
    .await
}

/// A message that steers a turn.
#[derive(sqlx::FromRow)]
struct Steer {
    task_id: TaskId,
    session_id: CodeSessionId,
    message_id: MessageId,
    content: String,
}

async fn list_steers(c: &mut Conn, runner: RunnerId) -> Result<Vec<Steer>, DbError> {
    c.q("select k.task_id, k.session_id, m.id as message_id, m.content from task_keys k join task_steers x on x.task_id = k.task_id \
         join messages m on m.id = x.message_id join code_sessions s on s.id = k.session_id join repositories r on r.id = s.repository_id \
         where r.runner_id = $1 and x.round is null and m.deleted_at is null order by m.seq limit $2")
        .bind(runner)
        .bind(STEERS_MAX)
        .all()
        .await
}

/// Checks whether turns of a runner have ended or are steered, so that `follow` has to store commands.
pub(super) async fn has_changed(c: &mut Conn, runner: RunnerId) -> Result<bool, DbError> {
    Ok(!list_ended(c, runner).await?.is_empty() || !list_steers(c, runner).await?.is_empty())
}

/// Stores commands for turns of a runner that have ended or are steered. A message that steers has the number of its command as its round.
pub(super) async fn follow(c: &mut Conn, runner: RunnerId) -> Result<(), DbError> {
    for turn in list_ended(c, runner).await? {
        end(c, turn, Told::Cancel).await?;
    }
    for steer in list_steers(c, runner).await? {
        let command = Command::Steer {
            task: steer.task_id.to_string(),
            text: steer.content,
        };
        let n = commands::insert(c, steer.session_id, Some(steer.task_id), &command).await?;
        c.q("update task_steers set round = $3 where task_id = $1 and message_id = $2")
            .bind(steer.task_id)
            .bind(steer.message_id)
            .bind(n)
            .run()
            .await?;
        forget::cite(c, steer.task_id, [steer.message_id]).await?;
    }
    Ok(())
}

/// Ends the turn of a task that has ended without it, such as after Stop.
pub(super) async fn end_stopped(c: &mut Conn, task: TaskId) -> Result<(), DbError> {
    let has_ended = queue::find_task(c, task)
        .await?
        .is_some_and(|task| !task.is_active());
    match find(c, task).await? {
        Some(turn) if has_ended => end(c, turn, Told::Cancel).await,
        _ => Ok(()),
    }
}

/// Tasks of all runners that have ended without their turns.
pub(super) async fn list_stopped(c: &mut Conn) -> Result<Vec<(TaskId, WorkspaceId)>, DbError> {
    c.q("select k.task_id, t.workspace_id from task_keys k join tasks t on t.id = k.task_id where t.status in ($1, $2, $3) \
         order by k.task_id limit 100")
        .bind(TaskStatus::Completed)
        .bind(TaskStatus::Failed)
        .bind(TaskStatus::Cancelled)
        .all()
        .await
}

/// A turn whose runner is away.
#[derive(Debug, Clone, sqlx::FromRow)]
pub(super) struct Away {
    pub(super) task_id: TaskId,
    pub(super) workspace_id: WorkspaceId,
    pub(super) repository: String,
    status: TaskStatus,
    created_at: Timestamp,
    seen_at: Option<Timestamp>,
}

impl Away {
    /// Checks whether the runner has been away for too long.
    pub(super) fn is_over(&self) -> bool {
        let before = now() - AWAY_MAX;
        self.created_at < before && self.seen_at.is_none_or(|at| at < before)
    }

    pub(super) fn is_running(&self) -> bool {
        self.status == TaskStatus::Running
    }

    pub(super) fn text(&self) -> String {
        offline_text(&self.repository)
    }
}

/// Turns whose runners have not been seen for a while.
pub(super) async fn list_away(c: &mut Conn) -> Result<Vec<Away>, DbError> {
    c.q("select k.task_id, t.workspace_id, r.name as repository, t.status, k.created_at, u.seen_at from task_keys k \
         join tasks t on t.id = k.task_id join code_sessions s on s.id = k.session_id join repositories r on r.id = s.repository_id \
         join runners u on u.id = r.runner_id where t.status in ($2, $3) and (u.seen_at is null or u.seen_at < $1) \
         order by k.task_id limit 100")
        .bind(now() - SEEN_WITHIN)
        .bind(TaskStatus::Queued)
        .bind(TaskStatus::Running)
        .all()
        .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_is_named_only_as_a_whole_word() {
        for (text, expected) in [
            ("fix the login in api", true),
            ("API: fix it", true),
            ("(api)", true),
            ("the apis", false),
            ("rapid", false),
            ("api-docs", false),
            ("my_api", false),
            ("", false),
        ] {
            assert_eq!(is_named(text, "api"), expected, "{text}");
        }
        assert!(is_named("look at web.front", "web.front"));
    }
}
