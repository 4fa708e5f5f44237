//! Steps that do not wait for people: agents, conditions, and messages.

use uuid::Uuid;

use super::{
    outputs::Output,
    people::find_action,
    work::{Fault, PatternSearch, Work},
};
use crate::{
    chat::{messages, remove},
    db::{Conn, DbError},
    ids::{AgentId, MessageId, TaskId},
    realtime::{Audience, EventType},
    tasks::{
        NewRunTask, StepOptions, Task, TaskBrief, TaskInput, TaskKind, TaskStatus,
        actions::{self, ActionState, texts::cite_prompt},
        briefs, queue,
    },
    tool_fault::ToolErrorCode,
    tools::taint,
    workflows::{
        definition::{AgentStep, ConditionOp, ConditionStep, OutputStep, Step, StepWork, holds},
        run::RunStep,
    },
};

/// Answers to conditions.
pub(super) const YES: &str = "yes";
pub(super) const NO: &str = "no";

/// Task of a step.
struct StepTask {
    kind: TaskKind,
    agent: (AgentId, i64),
    /// The newest message before the step, and the sequence number of the first event that the task must not read.
    reads: Option<(MessageId, i64)>,
    /// Text from the workflow, with variables replaced by their values.
    prompt: String,
    options: Option<serde_json::Value>,
}

impl Work {
    /// Completes a step with the answer of its task.
    pub(super) async fn settle_task(
        &mut self,
        c: &mut Conn,
        step: &Step,
        task: TaskId,
    ) -> Result<(), DbError> {
        let Some(task) = queue::find_task(c, task).await? else {
            return self.fail_step(c, &step.id, "its task was deleted").await;
        };
        match task.status {
            TaskStatus::Queued | TaskStatus::Running => return Ok(()),
            TaskStatus::Failed => {
                let error = task.error.map(|error| error.0.message);
                let fault = error.unwrap_or_else(|| "it failed".to_owned());
                return self.fail_step(c, &step.id, fault).await;
            }
            TaskStatus::Cancelled => {
                return self.fail_step(c, &step.id, "it was stopped").await;
            }
            TaskStatus::Completed => {}
        }
        taint::pass_on(c, task.id, self.root.id).await?;
        let Some(output) = self.answer_of(c, &task).await? else {
            return self.fail_step(c, &step.id, "its answer was deleted").await;
        };
        let jump = match &step.work {
            StepWork::Condition(condition) => Some(jump_of(condition, output.text == YES)),
            _ => None,
        };
        self.complete(c, &step.id, output, jump).await
    }

    /// Returns the answer of a completed task, or `None` if the answer was removed.
    async fn answer_of(&self, c: &mut Conn, task: &Task) -> Result<Option<Output>, DbError> {
        if task.kind != TaskKind::Reply {
            let found = briefs::find_answer(c, task.id).await?;
            return Ok(found.map(|(text_id, text)| Output { text_id, text }));
        }
        let reply = match task.reply_message_id {
            Some(id) => messages::find_message(c, id).await?,
            None => None,
        };
        let Some(reply) = reply.filter(|reply| !reply.content.is_empty()) else {
            return Ok(None);
        };
        let output = self.store(c, reply.content, Some(reply.id)).await?;
        cite_prompt(c, task.id, output.text_id).await?;
        Ok(Some(output))
    }

    /// Stops the task of a step that runs in parallel with a failed step, and cancels the step's open approval.
    pub(super) async fn withdraw(&self, c: &mut Conn, id: &str) -> Result<(), DbError> {
        let Some(open) = self.run.step(id).cloned() else {
            return Ok(());
        };
        let task = match open.task_id {
            Some(task) => queue::find_task(c, task).await?,
            None => None,
        };
        if let Some(task) = task.filter(Task::is_active) {
            remove::stop(c, &task, &self.around.hub, self.audience).await?;
        }
        self.withdraw_action(c, &open).await
    }

    async fn withdraw_action(&self, c: &mut Conn, open: &RunStep) -> Result<(), DbError> {
        let action = find_action(c, open).await?;
        let is_open =
            |state: ActionState| matches!(state, ActionState::Waiting | ActionState::Approved);
        let Some(action) = action.filter(|action| is_open(action.state)) else {
            return Ok(());
        };
        if actions::cancel(c, &action, ToolErrorCode::Cancelled).await? {
            actions::announce(c, action.id, EventType::ActionUpdated, self.audience).await?;
        }
        Ok(())
    }

    /// Inserts the task of a step. Returns the fault if the run was stopped in the meantime.
    async fn insert_task(
        &mut self,
        c: &mut Conn,
        id: &str,
        of: StepTask,
    ) -> Result<Result<(), Fault>, DbError> {
        let (trigger, before_seq) = of.reads.unzip();
        let new = NewRunTask {
            id: TaskId::new(),
            workspace: self.run.workspace_id,
            kind: of.kind,
            run: self.run.id,
            step: Some((id.to_owned(), self.key(id))),
            agent: Some(of.agent),
            channel: self.run.channel_id,
            thread: self.run.thread_id,
            trigger,
            requested_by: self.run.requested_by,
            before_seq,
            api_key: queue::key_of(c, self.root.id).await?,
            input: TaskInput {
                options: of.options,
                ..TaskInput::default()
            },
        };
        let Some(task) = queue::insert_of_run(c, &new, self.audience).await? else {
            return Ok(Err("the run was stopped".to_owned()));
        };
        let brief = TaskBrief {
            message: of.prompt,
            ..TaskBrief::default()
        };
        let brief = serde_json::to_string(&brief).unwrap_or_default();
        let brief = self.store(c, brief, None).await?;
        briefs::set_brief(c, task.id, brief.text_id).await?;
        taint::pass_on(c, self.root.id, task.id).await?;
        self.begin(c, id, Some(task.id)).await?;
        Ok(Ok(()))
    }

    pub(super) async fn start_agent(
        &mut self,
        c: &mut Conn,
        step: &Step,
        work: &AgentStep,
    ) -> Result<Result<(), Fault>, DbError> {
        let agent = match self.agent(c, work.agent_id).await? {
            Ok(agent) => agent,
            Err(fault) => return Ok(Err(fault)),
        };
        let newest = match self.run.thread_id {
            Some(thread) if work.post => newest_message(c, thread.0).await?,
            _ => None,
        };
        if work.post && newest.is_none() {
            let fault =
                "the run has no thread yet: add a step before this one that posts a message";
            return Ok(Err(fault.to_owned()));
        }
        let kind = if work.post {
            TaskKind::Reply
        } else {
            TaskKind::Delegate
        };
        let prompt = self.render_prompt(&work.prompt);
        let options = StepOptions {
            contents: prompt.contents,
        };
        let task = StepTask {
            kind,
            agent,
            reads: newest.map(|(message, seq)| (message, seq + 1)),
            prompt: prompt.text,
            options: Some(serde_json::to_value(options).unwrap_or_default()),
        };
        self.insert_task(c, &step.id, task).await
    }

    pub(super) async fn start_condition(
        &mut self,
        c: &mut Conn,
        step: &Step,
        work: &ConditionStep,
    ) -> Result<Result<(), Fault>, DbError> {
        let value = self.render(&work.value);
        let is_true = if work.op == ConditionOp::Matches {
            let search = PatternSearch {
                pattern: work.with.clone(),
                text: value.clone(),
            };
            let found = self.around.searched.get(&search).copied();
            if found.is_none() {
                self.search = Some(search);
                return Ok(Ok(()));
            }
            found
        } else {
            holds(work.op, &value, &work.with)
        };
        let Some(is_true) = is_true else {
            let agent = match self.agent(c, None).await? {
                Ok(agent) => agent,
                Err(fault) => return Ok(Err(fault)),
            };
            let task = StepTask {
                kind: TaskKind::Utility,
                agent,
                reads: None,
                prompt: value,
                options: Some(serde_json::json!({"question": work.with})),
            };
            return self.insert_task(c, &step.id, task).await;
        };
        let answer = if is_true { YES } else { NO };
        let output = self.store(c, answer.to_owned(), None).await?;
        let jump = Some(jump_of(work, is_true));
        self.complete(c, &step.id, output, jump).await?;
        Ok(Ok(()))
    }

    pub(super) async fn start_output(
        &mut self,
        c: &mut Conn,
        step: &Step,
        work: &OutputStep,
    ) -> Result<Result<(), Fault>, DbError> {
        let Some(channel) = work.channel_id.or(self.run.channel_id) else {
            return Ok(Err("the run has no channel".to_owned()));
        };
        let content = self.render(&work.content);
        if self.run.channel_id != Some(channel) && !matches!(self.audience, Audience::Public(_)) {
            return self.post_elsewhere(c, step, channel, content).await;
        }
        let message = match self.post(c, channel, content).await? {
            Ok(message) => message,
            Err(fault) => return Ok(Err(fault)),
        };
        let output = self.store(c, message.content, Some(message.id)).await?;
        self.complete(c, &step.id, output, None).await?;
        Ok(Ok(()))
    }
}

fn jump_of(condition: &ConditionStep, is_true: bool) -> String {
    if is_true {
        condition.then.clone()
    } else {
        condition.otherwise.clone()
    }
}

/// Finds the newest message of a thread's main line that is not a notice, and the sequence number of the newest event in the
/// workspace.
async fn newest_message(c: &mut Conn, thread: Uuid) -> Result<Option<(MessageId, i64)>, DbError> {
    c.q("select m.id, w.seq from messages m join workspaces w on w.id = m.workspace_id \
         where m.conversation_id = $1 and m.kind <> 'notice' and m.deleted_at is null order by m.seq desc limit 1")
        .bind(thread)
        .opt()
        .await
}
