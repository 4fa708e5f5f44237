//! Runs the root task of a run: settles what its steps have become, and makes the next moves, all in one transaction.

use std::{collections::HashMap, sync::Arc};

use futures::{FutureExt, future::BoxFuture};
use tokio_util::sync::CancellationToken;

use super::{
    outputs,
    planner::{Plan, Position, RunEnd, plan},
    values::Values,
};
use crate::{
    agents::profiles,
    chat::{
        access, messages,
        post::{self, NoticeTarget},
    },
    db::{Conn, Db, DbError, now},
    failpoint,
    ids::{AgentId, ApiKeyId, MessageId, RunId, TaskId},
    model::Provider,
    realtime::{Audience, EventType},
    replies::compaction::pass::BUILT_IN,
    tasks::{
        FailCode, Lease, LeaseLost, NewRunTask, TREE_CALLS_MAX, TREE_RUN_MAX, Task, TaskError,
        TaskInput, TaskKind, TaskOutput, TaskStatus, notice_text,
        queue::{self, End},
        worker::{Abort, Handler, Run},
    },
    tools::taint,
    workflows::{
        self,
        definition::{
            AgentStep, ConditionStep, OutputStep, Step, StepWork, WorkflowContent, flat, holds,
        },
        run::{self, RunStep, StepState, WorkflowRun},
    },
};

/// Answers of conditions.
const YES: &str = "yes";
const NO: &str = "no";

/// Runs the roots of runs.
#[derive(Clone)]
pub struct RunHandler {
    pub db: Db,
    pub provider: Arc<dyn Provider>,
}

impl Handler for RunHandler {
    fn run(&self, _: Task, lease: Lease, stop: CancellationToken) -> Run<'_> {
        async move {
            failpoint!("run_advance");
            let is_offline = self.provider.is_offline();
            let advance = self.db.write(lease.workspace.0, async move |c: &mut Conn| {
                advance(c, lease, is_offline).await
            });
            tokio::select! {
                advanced = advance => Ok(advanced?),
                () = stop.cancelled() => Err(Abort::Stopped),
            }
        }
        .boxed()
    }

    fn fail_lost(&self, lease: Lease) -> BoxFuture<'_, Result<(), LeaseLost>> {
        async move {
            self.db
                .write(lease.workspace.0, async move |c: &mut Conn| {
                    let task = queue::lock_lease(c, &lease).await?;
                    let Some(mut work) = Work::load(c, &task, lease.audience).await? else {
                        queue::cancel(c, task.id, lease.audience).await?;
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

async fn advance(c: &mut Conn, lease: Lease, is_offline: bool) -> Result<(), LeaseLost> {
    let task = queue::lock_lease(c, &lease).await?;
    let Some(mut work) = Work::load(c, &task, lease.audience).await? else {
        // The run was deleted.
        queue::cancel(c, task.id, lease.audience).await?;
        return Ok(());
    };
    if let Some((code, message)) = work.obstacle(c, &task).await? {
        return Ok(work.fail(c, &lease, code, message).await?);
    }
    work.is_offline = is_offline;
    Box::pin(work.settle(c)).await?;
    let end = Box::pin(work.move_on(c)).await?;
    match end {
        Some(RunEnd::Completed) => {
            let end = End::Completed {
                output: TaskOutput::default(),
                model: BUILT_IN.to_owned(),
            };
            queue::finish(c, &lease, &end).await?;
        }
        Some(RunEnd::Cancelled(_)) => {
            queue::cancel(c, task.id, lease.audience).await?;
        }
        Some(RunEnd::Failed(step)) => {
            let message = work.failure_of(&step);
            return Ok(work.fail(c, &lease, FailCode::StepFailed, message).await?);
        }
        None => {
            let reason = queue::obstacle(c, task.id).await?;
            let reason = reason.ok_or(LeaseLost::Gone)?;
            queue::park(c, &lease, 0, reason).await?;
        }
    }
    run::announce_run(c, EventType::RunUpdated, work.run.id).await?;
    failpoint!("run_advanced");
    Ok(())
}

/// Reason why a step failed, for people.
pub(super) type Fault = String;

/// A run that is being advanced.
pub(super) struct Work {
    pub(super) run: WorkflowRun,
    /// Name of the workflow.
    name: String,
    content: WorkflowContent,
    values: Values,
    pub(super) audience: Audience,
    root: Task,
    /// No model can answer.
    pub(super) is_offline: bool,
}

impl Work {
    async fn load(c: &mut Conn, root: &Task, audience: Audience) -> Result<Option<Self>, DbError> {
        let Some(run) = run::find_run(c, RunId(root.id.0)).await? else {
            return Ok(None);
        };
        let content = workflows::find_content(c, run.workflow_id, run.workflow_version).await?;
        let workflow = workflows::find_workflow(c, run.workspace_id, run.workflow_id).await?;
        let Some((content, workflow)) = content.zip(workflow) else {
            return Ok(None);
        };
        if let Some(message) = run.message_id {
            taint::add_messages(c, root.id, run.requested_by, [message]).await?;
        }
        let values = Values::load(c, &run, &content.steps).await?;
        Ok(Some(Self {
            run,
            name: workflow.name,
            content,
            values,
            audience,
            root: root.clone(),
            is_offline: false,
        }))
    }

    /// Reason why the run cannot go on: its requester has lost the rights, or its tree has used up a limit.
    async fn obstacle(
        &self,
        c: &mut Conn,
        root: &Task,
    ) -> Result<Option<(FailCode, String)>, DbError> {
        if !access::requester_can_run(c, root).await? {
            let text = format!(
                "Workflow {} stopped: the person who started it can no longer post there or ask agents.",
                self.name
            );
            return Ok(Some((FailCode::NotAllowed, text)));
        }
        let used = queue::use_of(c, root.id).await?;
        let run_ms_max = i64::try_from(TREE_RUN_MAX.as_millis()).unwrap_or(i64::MAX);
        if used.calls >= TREE_CALLS_MAX || used.run_ms >= run_ms_max {
            let text = notice_text(&self.name, FailCode::TreeLimit);
            return Ok(Some((FailCode::TreeLimit, text)));
        }
        Ok(None)
    }

    fn step(&self, id: &str) -> Option<Step> {
        let steps = flat(&self.content.steps);
        steps.into_iter().find(|step| step.id == id).cloned()
    }

    fn positions(&self) -> HashMap<String, Position> {
        let position = |step: &RunStep| Position {
            state: step.state,
            jump: step.jump.clone(),
        };
        let steps = self.run.steps.iter();
        steps
            .map(|step| (step.id.clone(), position(step)))
            .collect()
    }

    fn outputs(&self) -> HashMap<String, String> {
        let steps = self.run.steps.iter();
        steps
            .filter_map(|step| Some((step.id.clone(), step.output.clone()?)))
            .collect()
    }

    pub(super) fn render(&self, text: &str) -> String {
        self.values.render(text, &self.outputs())
    }

    /// Changes a step and stores it.
    pub(super) async fn set(
        &mut self,
        c: &mut Conn,
        id: &str,
        change: impl FnOnce(&mut RunStep),
    ) -> Result<(), DbError> {
        let Some(step) = self.run.steps.iter_mut().find(|step| step.id == id) else {
            return Ok(());
        };
        change(step);
        run::store_step(c, self.run.id, step).await
    }

    async fn begin(&mut self, c: &mut Conn, id: &str, task: Option<TaskId>) -> Result<(), DbError> {
        self.set(c, id, |step| {
            step.state = StepState::Running;
            step.task_id = task;
            step.error = None;
            step.started_at = Some(now());
            step.ended_at = None;
        })
        .await
    }

    /// Completes a step with an output, the task that wrote it, and the message that has it.
    pub(super) async fn complete(
        &mut self,
        c: &mut Conn,
        id: &str,
        (output, task, source): (String, Option<TaskId>, Option<MessageId>),
        jump: Option<String>,
    ) -> Result<(), DbError> {
        let stored = match task {
            Some(task) => outputs::store_of_task(c, &self.run, task, &output).await?,
            None => outputs::store(c, &self.run, &output).await?,
        };
        if let Some(source) = source {
            outputs::cite(c, stored, source).await?;
        }
        self.set(c, id, |step| {
            let at = now();
            step.state = StepState::Completed;
            step.output_id = Some(stored);
            step.output = Some(output);
            step.jump = jump;
            step.due_at = None;
            step.started_at = step.started_at.or(Some(at));
            step.ended_at = Some(at);
        })
        .await
    }

    pub(super) async fn end(
        &mut self,
        c: &mut Conn,
        id: &str,
        state: StepState,
        error: Option<Fault>,
    ) -> Result<(), DbError> {
        self.set(c, id, |step| {
            let at = now();
            step.state = state;
            step.error = error;
            step.due_at = None;
            if state != StepState::Skipped {
                step.started_at = step.started_at.or(Some(at));
                step.ended_at = Some(at);
            }
        })
        .await
    }

    /// Looks at what open steps wait for.
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
                (_, Some(task)) => self.settle_task(c, &step, &open, task).await?,
                _ => {}
            }
        }
        Ok(())
    }

    async fn settle_task(
        &mut self,
        c: &mut Conn,
        step: &Step,
        open: &RunStep,
        task: TaskId,
    ) -> Result<(), DbError> {
        let Some(task) = queue::find_task(c, task).await? else {
            let fault = "its task was deleted".to_owned();
            return self.end(c, &step.id, StepState::Failed, Some(fault)).await;
        };
        match task.status {
            TaskStatus::Queued | TaskStatus::Running => return Ok(()),
            TaskStatus::Failed => {
                let error = task.error.map(|error| error.0.message);
                let fault = error.unwrap_or_else(|| "it failed".to_owned());
                return self.end(c, &step.id, StepState::Failed, Some(fault)).await;
            }
            TaskStatus::Cancelled => {
                let fault = "it was stopped".to_owned();
                return self.end(c, &step.id, StepState::Failed, Some(fault)).await;
            }
            TaskStatus::Completed => {}
        }
        taint::copy(c, task.id, self.root.id).await?;
        let answer = match task.kind {
            TaskKind::Reply => match task.reply_message_id {
                Some(id) => messages::find_message(c, id)
                    .await?
                    .map(|reply| reply.content),
                None => None,
            },
            // Stored by the task itself.
            _ => open.output.clone(),
        };
        let Some(answer) = answer.filter(|answer| !answer.is_empty()) else {
            let fault = "its answer was deleted".to_owned();
            return self.end(c, &step.id, StepState::Failed, Some(fault)).await;
        };
        let jump = match &step.work {
            StepWork::Condition(condition) => Some(jump_of(condition, answer == YES)),
            _ => None,
        };
        let output = (answer, Some(task.id), task.reply_message_id);
        self.complete(c, &step.id, output, jump).await
    }

    /// Makes moves until the run waits or ends.
    async fn move_on(&mut self, c: &mut Conn) -> Result<Option<RunEnd>, DbError> {
        loop {
            let plan = plan(&self.content.steps, &self.positions());
            let is_idle = plan
                == Plan {
                    end: plan.end.clone(),
                    ..Plan::default()
                };
            let end = plan.end.clone();
            self.make(c, plan).await?;
            if end.is_some() || is_idle {
                return Ok(end);
            }
        }
    }

    async fn make(&mut self, c: &mut Conn, plan: Plan) -> Result<(), DbError> {
        for id in plan.skip {
            self.end(c, &id, StepState::Skipped, None).await?;
        }
        for id in plan.cancel {
            let task = self.run.step(&id).and_then(|step| step.task_id);
            if let Some(task) = task {
                queue::cancel(c, task, self.audience).await?;
            }
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
                self.end(c, &id, StepState::Failed, Some(fault)).await?;
            }
        }
        Ok(())
    }

    /// Starts a step; `Err` if it failed at once.
    async fn start(&mut self, c: &mut Conn, id: &str) -> Result<Result<(), Fault>, DbError> {
        let Some(step) = self.step(id) else {
            return Ok(Err("the workflow does not have it".to_owned()));
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

    /// The agent of a step in the version of the run; `Err` if the requester cannot ask it.
    pub(super) async fn agent(
        &self,
        c: &mut Conn,
        agent: Option<AgentId>,
    ) -> Result<Result<(AgentId, i64), Fault>, DbError> {
        let id = agent.unwrap_or(self.content.default_agent_id);
        let can_ask = profiles::is_invocable_by(c, id, self.run.requested_by).await?;
        Ok(match self.run.agent(id).filter(|_| can_ask) {
            Some(agent) => Ok(agent),
            None => {
                let name = profiles::shown_name(c, id).await?;
                Err(format!(
                    "{name} is turned off, or the person who started the run cannot ask it"
                ))
            }
        })
    }

    /// Inserts the task of a step; `Err` if the run was stopped meanwhile.
    async fn insert_task(
        &mut self,
        c: &mut Conn,
        id: &str,
        (kind, agent): (TaskKind, (AgentId, i64)),
        (trigger, before_seq): (Option<MessageId>, Option<i64>),
        input: TaskInput,
    ) -> Result<Result<(), Fault>, DbError> {
        let attempt = self.run.step(id).map_or(1, |step| step.attempt);
        let key = match attempt {
            1 => id.to_owned(),
            _ => format!("{id}.{attempt}"),
        };
        let api_key: Option<ApiKeyId> = c
            .q("select api_key_id from tasks where id = $1")
            .bind(self.root.id)
            .value()
            .await?;
        let new = NewRunTask {
            id: TaskId::new(),
            workspace: self.run.workspace_id,
            kind,
            run: self.run.id,
            step: Some((id.to_owned(), key)),
            agent: Some(agent),
            channel: self.run.channel_id,
            thread: self.run.thread_id,
            trigger,
            requested_by: self.run.requested_by,
            before_seq,
            api_key,
            input,
        };
        let Some(task) = queue::insert_of_run(c, &new, self.audience).await? else {
            return Ok(Err("the run was stopped".to_owned()));
        };
        taint::copy(c, self.root.id, task.id).await?;
        self.begin(c, id, Some(task.id)).await?;
        Ok(Ok(()))
    }

    async fn start_agent(
        &mut self,
        c: &mut Conn,
        step: &Step,
        work: &AgentStep,
    ) -> Result<Result<(), Fault>, DbError> {
        let agent = match self.agent(c, work.agent_id).await? {
            Ok(agent) => agent,
            Err(fault) => return Ok(Err(fault)),
        };
        let input = TaskInput {
            prompt: self.render(&work.prompt),
            ..TaskInput::default()
        };
        if !work.post {
            let of = (TaskKind::Delegate, agent);
            return self.insert_task(c, &step.id, of, (None, None), input).await;
        }
        let newest = match self.run.thread_id {
            Some(thread) => newest_message(c, thread.0).await?,
            None => None,
        };
        let Some((message, seq)) = newest else {
            let fault = "the run has no thread yet: add a step that posts a message before";
            return Ok(Err(fault.to_owned()));
        };
        let of = (TaskKind::Reply, agent);
        let reads = (Some(message), Some(seq + 1));
        self.insert_task(c, &step.id, of, reads, input).await
    }

    async fn start_condition(
        &mut self,
        c: &mut Conn,
        step: &Step,
        work: &ConditionStep,
    ) -> Result<Result<(), Fault>, DbError> {
        let value = self.render(&work.value);
        let Some(is_true) = holds(work.op, &value, &work.with) else {
            let agent = match self.agent(c, None).await? {
                Ok(agent) => agent,
                Err(fault) => return Ok(Err(fault)),
            };
            let input = TaskInput {
                prompt: value,
                options: Some(serde_json::json!({"question": work.with})),
                ..TaskInput::default()
            };
            let of = (TaskKind::Utility, agent);
            return self.insert_task(c, &step.id, of, (None, None), input).await;
        };
        let answer = if is_true { YES } else { NO };
        let output = (answer.to_owned(), None, None);
        let jump = Some(jump_of(work, is_true));
        self.complete(c, &step.id, output, jump).await?;
        Ok(Ok(()))
    }

    async fn start_output(
        &mut self,
        c: &mut Conn,
        step: &Step,
        work: &OutputStep,
    ) -> Result<Result<(), Fault>, DbError> {
        let Some(channel) = work.channel_id.or(self.run.channel_id) else {
            return Ok(Err("the run has no channel".to_owned()));
        };
        let content = self.render(&work.content);
        if self.run.channel_id != Some(channel) && !is_public(self.audience) {
            return self.ask_to_post(c, step, channel, content).await;
        }
        let message = match self.post(c, channel, content).await? {
            Ok(message) => message,
            Err(fault) => return Ok(Err(fault)),
        };
        let output = (message.content, None, Some(message.id));
        self.complete(c, &step.id, output, None).await?;
        Ok(Ok(()))
    }

    /// Notice about the step that stopped the run.
    fn failure_of(&self, id: &str) -> String {
        let steps = flat(&self.content.steps);
        let at = steps.iter().position(|step| step.id == id).unwrap_or(0);
        let shown = steps.get(at).map_or(id, |step| step.shown());
        let cause = self.run.step(id).and_then(|step| step.error.as_deref());
        let cause = cause.unwrap_or("it failed").trim_end_matches('.');
        format!(
            "Workflow {} stopped at step {}, {shown}: {cause}.",
            self.name,
            at + 1
        )
    }

    /// Ends the run as failed, with one notice in its thread.
    async fn fail(
        &mut self,
        c: &mut Conn,
        lease: &Lease,
        code: FailCode,
        message: String,
    ) -> Result<(), DbError> {
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
        run::announce_run(c, EventType::RunUpdated, self.run.id).await
    }
}

fn is_public(audience: Audience) -> bool {
    matches!(audience, Audience::Public(_))
}

fn jump_of(condition: &ConditionStep, is_true: bool) -> String {
    if is_true {
        condition.then.clone()
    } else {
        condition.otherwise.clone()
    }
}

/// The newest message of a thread's main line that is not a notice, and the number of the newest event in the workspace.
async fn newest_message(
    c: &mut Conn,
    thread: uuid::Uuid,
) -> Result<Option<(MessageId, i64)>, DbError> {
    c.q("select m.id, w.seq from messages m join workspaces w on w.id = m.workspace_id \
         where m.conversation_id = $1 and m.kind <> 'notice' and m.deleted_at is null order by m.seq desc limit 1")
        .bind(thread)
        .opt()
        .await
}
