//! Runs the root task of a run: settles open steps and makes the next moves, all in one transaction.
//!
//! A transaction that needs the result of a pattern search stores nothing and is repeated with the result.

use std::{collections::HashMap, sync::Arc};

use futures::{FutureExt, future::BoxFuture};
use tokio_util::sync::CancellationToken;

use super::{
    planner::{Plan, RunEnd, plan},
    work::{Fault, PatternSearch, Surroundings, Work},
};
use crate::{
    blocking::Interrupt,
    chat::{
        access,
        post::{self, NoticeTarget},
        remove,
    },
    db::{Conn, Db, DbError},
    failpoint,
    ids::{ScheduleId, UserId},
    model::Provider,
    realtime::{EventType, Hub},
    replies::compaction::pass::BUILT_IN,
    schedules,
    tasks::{
        FailCode, Lease, LeaseLost, Task, TaskError, TaskOutput, WaitReason, notice_text,
        queue::{self, End},
        slow,
        worker::{Abort, Handler, Run},
    },
    workflows::{
        definition::{ConditionOp, StepWork, flat, holds},
        run::{self, CauseType, RunStep, StepState},
    },
};

/// Runs the root tasks of runs.
#[derive(Clone)]
pub struct RunHandler {
    pub db: Db,
    pub hub: Arc<Hub>,
    pub provider: Arc<dyn Provider>,
}

impl RunHandler {
    fn around(&self) -> Surroundings {
        Surroundings {
            hub: Arc::clone(&self.hub),
            is_offline: self.provider.is_offline(),
            searched: HashMap::new(),
        }
    }
}

/// Reason why a transaction did not store anything.
enum NotAdvanced {
    Lost(LeaseLost),
    /// The transaction needs the result of this search.
    Needs(PatternSearch),
}

impl From<LeaseLost> for NotAdvanced {
    fn from(e: LeaseLost) -> Self {
        Self::Lost(e)
    }
}

impl From<DbError> for NotAdvanced {
    fn from(e: DbError) -> Self {
        Self::Lost(e.into())
    }
}

impl Handler for RunHandler {
    fn run(&self, task: Task, lease: Lease, _stop: CancellationToken) -> Run<'_> {
        let person = task.requested_by;
        async move {
            failpoint!("run_advance");
            let mut around = self.around();
            loop {
                let known = around.clone();
                let advanced: Result<(), NotAdvanced> = self
                    .db
                    .write(lease.workspace.0, async move |c: &mut Conn| {
                        advance(c, &lease, known.clone()).await
                    })
                    .await;
                match advanced {
                    Ok(()) => break,
                    Err(NotAdvanced::Lost(e)) => return Err(e.into()),
                    Err(NotAdvanced::Needs(search)) => {
                        let is_found = find(person, search.clone()).await?;
                        around.searched.insert(search, is_found);
                    }
                }
            }
            failpoint!("run_advanced");
            Ok(())
        }
        .boxed()
    }

    fn fail_lost(&self, lease: Lease) -> BoxFuture<'_, Result<(), LeaseLost>> {
        async move {
            let around = self.around();
            self.db
                .write(lease.workspace.0, async move |c: &mut Conn| {
                    let root = queue::lock_lease(c, &lease).await?;
                    let work = Work::load(c, &root, lease.audience, around.clone()).await?;
                    let Some(mut work) = work else {
                        queue::cancel(c, root.id, lease.audience).await?;
                        return Ok(());
                    };
                    let message = notice_text(&work.name, FailCode::WorkerLost);
                    work.fail(c, &lease, FailCode::WorkerLost, message).await?;
                    Ok::<_, LeaseLost>(())
                })
                .await
        }
        .boxed()
    }
}

async fn find(person: UserId, search: PatternSearch) -> Result<bool, Abort> {
    let work = move |_: &Interrupt| {
        holds(ConditionOp::Matches, &search.text, &search.pattern) == Some(true)
    };
    let found = slow::run(person, work).await;
    found.map_err(|_| Abort::Stopped)
}

async fn advance(c: &mut Conn, lease: &Lease, around: Surroundings) -> Result<(), NotAdvanced> {
    let root = queue::lock_lease(c, lease).await?;
    let Some(mut work) = Work::load(c, &root, lease.audience, around).await? else {
        // The run has been deleted.
        queue::cancel(c, root.id, lease.audience).await?;
        return Ok(());
    };
    if let Some((code, message)) = work.obstacle(c).await? {
        return Ok(work.fail(c, lease, code, message).await?);
    }
    if work.content.posts() && work.run.channel_id.is_some() {
        // If the thread cannot be started, the first step that posts fails for the same reason.
        let _ = work.ensure_thread(c).await?;
    }
    Box::pin(work.settle(c)).await?;
    let end = Box::pin(work.move_on(c)).await?;
    if let Some(search) = work.search.take() {
        return Err(NotAdvanced::Needs(search));
    }
    match end {
        Some(RunEnd::Completed) => {
            let end = End::Completed {
                output: TaskOutput::default(),
                model: BUILT_IN.to_owned(),
            };
            queue::finish(c, lease, &end).await?;
            work.tell_schedule(c, false).await?;
        }
        Some(RunEnd::Cancelled(_)) => {
            // This also announces the run.
            remove::stop(c, &root, &work.around.hub, lease.audience).await?;
            return Ok(());
        }
        Some(RunEnd::Failed(step)) => {
            let message = work.failure_of(c, &step).await?;
            return Ok(work.fail(c, lease, FailCode::StepFailed, message).await?);
        }
        None => {
            // A step with a fork also waits for people.
            let reason = queue::obstacle(c, root.id).await?;
            let reason = reason.unwrap_or(WaitReason::Approval);
            queue::park(c, lease, 0, reason).await?;
        }
    }
    Ok(run::announce_run(c, EventType::RunUpdated, work.run.id).await?)
}

impl Work {
    /// Returns the reason why the run cannot continue: its requester no longer has the required permissions, or its tree has reached
    /// a limit.
    async fn obstacle(&self, c: &mut Conn) -> Result<Option<(FailCode, String)>, DbError> {
        if !access::requester_can_run(c, &self.root).await? {
            let text = format!(
                "Workflow {} stopped: the person who started it can no longer post in its channel or ask agents.",
                self.name
            );
            return Ok(Some((FailCode::NotAllowed, text)));
        }
        if queue::use_of(c, self.root.id).await?.is_used_up() {
            let text = notice_text(&self.name, FailCode::TreeLimit);
            return Ok(Some((FailCode::TreeLimit, text)));
        }
        Ok(None)
    }

    /// Settles open steps whose task, decision, or fork has ended.
    async fn settle(&mut self, c: &mut Conn) -> Result<(), DbError> {
        let open: Vec<RunStep> = self
            .run
            .steps
            .iter()
            .filter(|step| matches!(step.state, StepState::Running | StepState::Waiting))
            .cloned()
            .collect();
        for open in open {
            let Some(step) = self.step(&open.id) else {
                continue;
            };
            match (&step.work, open.task_id) {
                (StepWork::Fork(work), _) => self.settle_fork(c, &step, work, &open).await?,
                (StepWork::Approval(work), _) => {
                    self.settle_approval(c, &step, work, &open).await?;
                }
                (StepWork::Output(work), _) => self.settle_post(c, &step, work, &open).await?,
                (_, Some(task)) => self.settle_task(c, &step, task).await?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Makes moves until the run waits or ends, or needs the result of a pattern search.
    async fn move_on(&mut self, c: &mut Conn) -> Result<Option<RunEnd>, DbError> {
        loop {
            let plan = plan(&self.content.steps, &self.positions());
            let end = plan.end.clone();
            let is_idle = plan
                == Plan {
                    end: end.clone(),
                    ..Plan::default()
                };
            self.make(c, plan).await?;
            if end.is_some() || is_idle || self.search.is_some() {
                return Ok(end);
            }
        }
    }

    async fn make(&mut self, c: &mut Conn, plan: Plan) -> Result<(), DbError> {
        for id in plan.skip {
            self.end(c, &id, StepState::Skipped, None).await?;
        }
        for id in plan.cancel {
            self.withdraw(c, &id).await?;
            self.end(c, &id, StepState::Cancelled, None).await?;
        }
        for (id, failed) in plan.finish {
            match failed {
                Some(failed) => {
                    let cause = self.run.step(&failed).and_then(|step| step.error.clone());
                    self.end(c, &id, StepState::Failed, cause).await?;
                }
                None => self.end(c, &id, StepState::Completed, None).await?,
            }
        }
        for id in plan.start {
            failpoint!("run_step");
            if let Err(fault) = self.start(c, &id).await? {
                self.fail_step(c, &id, fault).await?;
            }
        }
        Ok(())
    }

    /// Starts a step. Returns the fault if the step failed immediately.
    async fn start(&mut self, c: &mut Conn, id: &str) -> Result<Result<(), Fault>, DbError> {
        let Some(step) = self.step(id) else {
            return Ok(Err("the workflow does not have this step".to_owned()));
        };
        match &step.work {
            StepWork::Agent(agent) => self.start_agent(c, &step, agent).await,
            StepWork::Condition(condition) => self.start_condition(c, &step, condition).await,
            StepWork::Output(output) => self.start_output(c, &step, output).await,
            StepWork::Parallel(_) => {
                self.begin(c, id, None).await?;
                Ok(Ok(()))
            }
            StepWork::Fork(fork) => self.start_fork(c, &step, fork).await,
            StepWork::Approval(approval) => self.start_approval(c, &step, approval).await,
        }
    }

    /// Returns the text of the notice about the step that stopped the run.
    async fn failure_of(&self, c: &mut Conn, id: &str) -> Result<String, DbError> {
        let steps = flat(&self.content.steps);
        let at = steps.iter().position(|step| step.id == id).unwrap_or(0);
        let shown = match steps.get(at) {
            Some(step) => self.shown(c, step).await?,
            None => id.to_owned(),
        };
        let cause = self.run.step(id).and_then(|step| step.error.as_deref());
        let cause = cause.unwrap_or("it failed").trim_end_matches('.');
        Ok(format!(
            "Workflow {} stopped at step {}, {shown}: {cause}.",
            self.name,
            at + 1
        ))
    }

    /// Ends the run as failed, posts one notice in its thread, and cancels all active tasks of its tree.
    async fn fail(
        &mut self,
        c: &mut Conn,
        lease: &Lease,
        code: FailCode,
        message: String,
    ) -> Result<(), DbError> {
        let root = self.root.id;
        remove::cancel_active(c, root, Some(root), &self.around.hub).await?;
        let notice = match self.run.channel_id.zip(self.run.thread_id) {
            Some((channel, thread)) => {
                let target = NoticeTarget {
                    workspace: self.run.workspace_id,
                    channel,
                    thread,
                    fork: None,
                    agent: self.content.default_agent_id,
                    task: Some(self.root.id),
                };
                let text = message.clone();
                let notice = post::insert_notice(c, target, self.audience, None, text).await?;
                Some(notice.id)
            }
            None => None,
        };
        let error = TaskError { code, message };
        queue::finish(c, lease, &End::Failed { error, notice }).await?;
        self.tell_schedule(c, true).await?;
        run::announce_run(c, EventType::RunUpdated, self.run.id).await
    }

    /// Records the end of the run for the schedule that started it.
    async fn tell_schedule(&self, c: &mut Conn, has_failed: bool) -> Result<(), DbError> {
        let cause = &self.run.cause;
        let id = cause
            .id
            .as_ref()
            .filter(|_| cause.kind == CauseType::Schedule);
        let schedule: Option<ScheduleId> = id.and_then(|id| id.parse().ok());
        match schedule {
            Some(schedule) => schedules::note_end(c, schedule, has_failed).await,
            None => Ok(()),
        }
    }
}
