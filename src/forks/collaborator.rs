//! Handler of `collaborate` tasks: queues the next turn or the draft, or ends the work.
//!
//! ```text
//! run ─► turn ─► (parked until it ends) ─► run ─► … ─► draft ─► (parked) ─► run ─► end
//! ```
//!
//! No state is kept between runs: each one reads the turns so far, and inserts the next child in the transaction that parks the
//! task.

use std::sync::Arc;

use futures::{FutureExt, future::BoxFuture};
use tokio_util::sync::CancellationToken;

use super::{collaborate::Plan, resolve::child_draft};
use crate::{
    agents::profiles,
    chat::{
        ChatError,
        collaboration::{CollaborationState, Turn, end_collaboration, update_collaboration},
        forks,
        post::{self, NoticeTarget},
    },
    db::{Conn, Db, DbError},
    failpoint,
    ids::{AgentId, ForkId, MessageId},
    model::Provider,
    realtime::log,
    tasks::{
        FailCode, Lease, LeaseLost, NewTask, Task, TaskError, TaskKind, TaskOutput, TaskStatus,
        TaskTarget, WaitReason, notice_text,
        queue::{self, End},
        worker::{Handler, Run},
    },
};

/// Minimum number of completed turns for a draft.
const TURNS_MIN: usize = 2;

#[derive(Clone)]
pub struct Collaborator {
    pub db: Db,
    pub provider: Arc<dyn Provider>,
}

impl Handler for Collaborator {
    fn run(&self, _task: Task, lease: Lease, _stop: CancellationToken) -> Run<'_> {
        async move {
            let model = Model {
                name: self.provider.name().to_owned(),
                is_offline: self.provider.is_offline(),
            };
            failpoint!("collaborate_advance");
            self.db
                .write(lease.workspace.0, async move |c: &mut Conn| {
                    let root = queue::lock_lease(c, &lease).await?;
                    advance(c, &root, &lease, &model).await?;
                    Ok::<_, LeaseLost>(())
                })
                .await?;
            failpoint!("collaborate_advanced");
            Ok(())
        }
        .boxed()
    }

    fn fail_lost(&self, lease: Lease) -> BoxFuture<'_, Result<(), LeaseLost>> {
        async move {
            self.db
                .write(lease.workspace.0, async move |c: &mut Conn| {
                    let root = queue::lock_lease(c, &lease).await?;
                    let failure = Failure::noticed(
                        c,
                        &root,
                        &lease,
                        lease.target.agent,
                        FailCode::WorkerLost,
                    )
                    .await?;
                    fail(c, &lease, failure).await?;
                    Ok::<_, LeaseLost>(())
                })
                .await
        }
        .boxed()
    }
}

/// The model of the workspace.
struct Model {
    name: String,
    is_offline: bool,
}

/// Reason why there is no further turn, and the notice about it. The notice is `None` for a failed turn, which posts its own.
struct Failure {
    error: TaskError,
    notice: Option<MessageId>,
}

impl Failure {
    /// Posts a notice about an agent that cannot start.
    async fn noticed(
        c: &mut Conn,
        root: &Task,
        lease: &Lease,
        agent: AgentId,
        code: FailCode,
    ) -> Result<Self, DbError> {
        let message = notice_text(&profiles::shown_name(c, agent).await?, code);
        let target = NoticeTarget {
            agent,
            ..NoticeTarget::from(lease)
        };
        let (audience, goal) = (lease.audience, root.trigger_message_id);
        let notice = post::insert_notice(c, target, audience, goal, message.clone()).await?;
        Ok(Self {
            error: TaskError { code, message },
            notice: Some(notice.id),
        })
    }
}

/// A collaboration, and its tasks so far.
struct Work {
    fork: ForkId,
    plan: Plan,
    /// The agent of the first turn.
    first: AgentId,
    turns: Vec<Task>,
    draft: Option<Task>,
}

impl Work {
    /// Reads the children of a task; `None` if its plan was removed together with the goal.
    async fn find(c: &mut Conn, root: &Task) -> Result<Option<Self>, DbError> {
        let plan = Plan::of(root);
        let first = plan.as_ref().and_then(|plan| plan.agents.first().copied());
        let Some(((fork, plan), first)) = root.fork_id.zip(plan).zip(first) else {
            return Ok(None);
        };
        let children = queue::list_children(c, root.id).await?;
        let (drafts, turns): (Vec<Task>, Vec<Task>) = children
            .into_iter()
            .partition(|child| child.kind == TaskKind::Resolve);
        Ok(Some(Self {
            fork,
            plan,
            first,
            turns,
            draft: drafts.into_iter().next(),
        }))
    }

    /// The newest task.
    fn last(&self) -> Option<&Task> {
        self.draft.as_ref().or(self.turns.last())
    }

    /// Checks whether all turns have been used, or an agent has ended the work and every agent has had a turn.
    fn is_complete(&self) -> bool {
        let is_done = |turn: &Task| turn.output.as_ref().is_some_and(|output| output.0.done);
        let all_had_one = self.turns.len() >= self.plan.agents.len();
        number(self.turns.len()) >= self.plan.turns_max
            || (all_had_one && self.turns.iter().any(is_done))
    }

    fn next_agent(&self) -> AgentId {
        let at = self.turns.len() % self.plan.agents.len();
        self.plan.agents.get(at).copied().unwrap_or(self.first)
    }

    fn completed(&self) -> usize {
        let completed = self.turns.iter();
        completed
            .filter(|turn| turn.status == TaskStatus::Completed)
            .count()
    }

    /// The task of the next turn, which reads the messages before `seq`.
    fn next_turn(
        &self,
        root: &Task,
        lease: &Lease,
        agent: AgentId,
        agent_version: i64,
        seq: i64,
    ) -> NewTask {
        let turn = number(self.turns.len() + 1);
        let options = Turn {
            turn,
            turns_max: self.plan.turns_max,
        };
        NewTask {
            trigger: root.trigger_message_id,
            parent: Some(root.id),
            child_key: Some(format!("turn.{turn}")),
            before_seq: Some(seq),
            prompt: root.input.0.prompt.clone(),
            options: serde_json::to_value(options).ok(),
            ..NewTask::new(
                root.workspace_id,
                TaskKind::Reply,
                root.requested_by,
                TaskTarget {
                    agent,
                    agent_version,
                    ..lease.target
                },
            )
        }
    }
}

/// Takes the next step after the newest task has ended. A turn that was stopped ends the work without a draft.
async fn advance(c: &mut Conn, root: &Task, lease: &Lease, model: &Model) -> Result<(), DbError> {
    let Some(work) = Work::find(c, root).await? else {
        queue::cancel(c, root.id, lease.audience).await?;
        return Ok(());
    };
    match work.last().map(|last| last.status) {
        Some(TaskStatus::Queued | TaskStatus::Running) => return park(c, lease).await,
        Some(TaskStatus::Cancelled) => return stop(c, root, lease, work.fork).await,
        _ => {}
    }
    if let Some(draft) = &work.draft {
        return end(c, lease, draft, model).await;
    }
    let failure = match failure_of(work.turns.last()) {
        None if !work.is_complete() => match obstacle(c, root, work.next_agent(), model).await? {
            None => return start_turn(c, root, lease, &work).await,
            Some(code) => Some(Failure::noticed(c, root, lease, work.next_agent(), code).await?),
        },
        failure => failure,
    };
    let is_enough = work.completed() >= TURNS_MIN;
    match (post::start_obstacle(c, root, work.first).await?, failure) {
        (None, _) if is_enough => start_draft(c, root, lease, &work, model).await,
        (_, Some(failure)) => fail(c, lease, failure).await,
        (code, None) => {
            let code = code.unwrap_or(FailCode::BadResponse);
            let failure = Failure::noticed(c, root, lease, work.first, code).await?;
            fail(c, lease, failure).await
        }
    }
}

/// The failure of a turn.
fn failure_of(turn: Option<&Task>) -> Option<Failure> {
    let error = turn?.error.as_ref()?;
    Some(Failure {
        error: error.0.clone(),
        notice: None,
    })
}

/// Reason why an agent cannot start.
async fn obstacle(
    c: &mut Conn,
    root: &Task,
    agent: AgentId,
    model: &Model,
) -> Result<Option<FailCode>, DbError> {
    if model.is_offline {
        return Ok(Some(FailCode::ModelUnavailable));
    }
    post::start_obstacle(c, root, agent).await
}

async fn park(c: &mut Conn, lease: &Lease) -> Result<(), DbError> {
    queue::park(c, lease, 0, WaitReason::Children).await?;
    Ok(())
}

async fn start_turn(c: &mut Conn, root: &Task, lease: &Lease, work: &Work) -> Result<(), DbError> {
    let agent = work.next_agent();
    profiles::refresh_first(c, root.workspace_id, agent).await?;
    let version = profiles::newest_version(c, agent).await?;
    let version = version.ok_or(sqlx::Error::RowNotFound)?;
    let seq = log::reserve(c, root.workspace_id, 1).await?;
    let turn = work.next_turn(root, lease, agent, version, seq);
    let started = post::enqueue(c, seq, &turn, None, lease.audience).await?;
    if started.is_none() {
        return stop(c, root, lease, work.fork).await;
    }
    let state = work.plan.state(number(work.turns.len() + 1));
    update_collaboration(c, work.fork, &state, lease.audience).await?;
    park(c, lease).await
}

/// Queues the draft by the first agent. If a person has just requested a draft, that draft is used, and the collaboration ends.
async fn start_draft(
    c: &mut Conn,
    root: &Task,
    lease: &Lease,
    work: &Work,
    model: &Model,
) -> Result<(), DbError> {
    let active = queue::active_in_fork(c, work.fork).await?;
    if active.iter().any(|task| task.kind == TaskKind::Resolve) {
        return complete(c, lease, TaskOutput::default(), model).await;
    }
    let fork = match forks::get_fork(c, work.fork).await {
        Ok(fork) => fork,
        Err(ChatError::Db(e)) => return Err(e),
        Err(_) => return stop(c, root, lease, work.fork).await,
    };
    let version = profiles::newest_version(c, work.first).await?;
    let version = version.ok_or(sqlx::Error::RowNotFound)?;
    let publish = work.plan.auto_publish;
    let draft = child_draft(c, root, &fork, work.first, version, publish).await?;
    let seq = log::reserve(c, root.workspace_id, 1).await?;
    let started = post::enqueue(c, seq, &draft, None, lease.audience).await?;
    if started.is_none() {
        return stop(c, root, lease, work.fork).await;
    }
    park(c, lease).await
}

async fn stop(c: &mut Conn, root: &Task, lease: &Lease, fork: ForkId) -> Result<(), DbError> {
    queue::cancel(c, root.id, lease.audience).await?;
    end_collaboration(c, fork, CollaborationState::Stopped, lease.audience).await
}

async fn fail(c: &mut Conn, lease: &Lease, failure: Failure) -> Result<(), DbError> {
    let Failure { error, notice } = failure;
    queue::finish(c, lease, &End::Failed { error, notice }).await?;
    match lease.target.fork {
        Some(fork) => end_collaboration(c, fork, CollaborationState::Failed, lease.audience).await,
        None => Ok(()),
    }
}

/// Ends the collaboration after its draft has completed or failed.
async fn end(c: &mut Conn, lease: &Lease, draft: &Task, model: &Model) -> Result<(), DbError> {
    if let Some(failure) = failure_of(Some(draft)) {
        return fail(c, lease, failure).await;
    }
    let output = draft.output.as_ref().map(|output| output.0.clone());
    complete(c, lease, output.unwrap_or_default(), model).await
}

async fn complete(
    c: &mut Conn,
    lease: &Lease,
    output: TaskOutput,
    model: &Model,
) -> Result<(), DbError> {
    let end = End::Completed {
        output,
        model: model.name.clone(),
    };
    queue::finish(c, lease, &end).await?;
    match lease.target.fork {
        Some(fork) => end_collaboration(c, fork, CollaborationState::Done, lease.audience).await,
        None => Ok(()),
    }
}

fn number(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}
