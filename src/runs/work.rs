//! A run that is being advanced, and the states of its steps.

use std::{collections::HashMap, sync::Arc};

use sha2::{Digest, Sha256};

use super::{
    outputs::{self, Output},
    planner::Position,
    values::Values,
};
use crate::{
    agents::profiles,
    chat::inbox,
    db::{Conn, DbError, now},
    ids::{AgentId, MessageId, RunId, TaskId},
    realtime::{Audience, Hub},
    tasks::Task,
    tools::taint::{self, AuthoredText},
    workflows::{
        self,
        definition::{Step, StepWork, WorkflowContent, flat},
        run::{self, RunStep, StepState, WorkflowRun},
        template::Rendered,
    },
};

/// Human-readable reason why a step failed.
pub(super) type Fault = String;

/// A search for a pattern in a text, which can take longer than a transaction is allowed to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct PatternSearch {
    pub pattern: String,
    pub text: String,
}

/// Services and settings of a worker.
#[derive(Clone)]
pub(super) struct Surroundings {
    pub hub: Arc<Hub>,
    /// True if no model is available.
    pub is_offline: bool,
    /// Results of completed searches.
    pub searched: HashMap<PatternSearch, bool>,
}

/// A run that is being advanced.
pub(super) struct Work {
    pub run: WorkflowRun,
    /// Name of the workflow.
    pub name: String,
    pub content: WorkflowContent,
    values: Values,
    pub audience: Audience,
    pub root: Task,
    pub around: Surroundings,
    /// Search whose result the next move needs.
    pub search: Option<PatternSearch>,
}

impl Work {
    /// Returns `None` if the run or its workflow was deleted.
    pub(super) async fn load(
        c: &mut Conn,
        root: &Task,
        audience: Audience,
        around: Surroundings,
    ) -> Result<Option<Self>, DbError> {
        let Some(run) = run::find_run(c, RunId(root.id.0)).await? else {
            return Ok(None);
        };
        let content = workflows::find_content(c, run.workflow_id, run.workflow_version).await?;
        let workflow = workflows::find_workflow(c, run.workspace_id, run.workflow_id).await?;
        let Some((content, workflow)) = content.zip(workflow) else {
            return Ok(None);
        };
        let values = Values::load(c, &run, &content.steps).await?;
        let read = run.message_id.iter().chain(values.listed()).copied();
        let read: Vec<MessageId> = read.collect();
        taint::add_messages(c, root.id, run.requested_by, read).await?;
        let steps = serde_json::to_vec(&content.steps).unwrap_or_default();
        let written = AuthoredText {
            agent_id: None,
            owner: workflow.name.clone(),
            part: "steps",
            author: Some(workflow.owner_id),
            text_hash: Sha256::digest(steps).into(),
        };
        taint::add_texts(c, root.id, &[written]).await?;
        Ok(Some(Self {
            run,
            name: workflow.name,
            content,
            values,
            audience,
            root: root.clone(),
            around,
            search: None,
        }))
    }

    pub(super) fn step(&self, id: &str) -> Option<Step> {
        let steps = flat(&self.content.steps);
        steps.into_iter().find(|step| step.id == id).cloned()
    }

    /// Name of a step as shown to people: its title, or a description of its kind if it has no title.
    pub(super) async fn shown(&self, c: &mut Conn, step: &Step) -> Result<String, DbError> {
        if let Some(title) = &step.title {
            return Ok(title.clone());
        }
        let StepWork::Agent(work) = &step.work else {
            return Ok(step.kind().shown().to_owned());
        };
        let agent = work.agent_id.unwrap_or(self.content.default_agent_id);
        Ok(format!("Ask {}", profiles::shown_name(c, agent).await?))
    }

    pub(super) fn positions(&self) -> HashMap<String, Position> {
        let steps = self.run.steps.iter();
        steps
            .map(|step| (step.id.clone(), Position::of(step)))
            .collect()
    }

    fn outputs(&self) -> HashMap<String, String> {
        let steps = self.run.steps.iter();
        steps
            .filter_map(|step| Some((step.id.clone(), step.output.clone()?)))
            .collect()
    }

    /// Replaces the variables in a text.
    pub(super) fn render(&self, text: &str) -> String {
        self.render_prompt(text).text
    }

    /// Replaces the variables in a prompt.
    pub(super) fn render_prompt(&self, text: &str) -> Rendered {
        self.values.render(text, &self.outputs())
    }

    /// Stores an output, which can contain everything that the run has read, including the text of `message`.
    pub(super) async fn store(
        &self,
        c: &mut Conn,
        text: String,
        message: Option<MessageId>,
    ) -> Result<Output, DbError> {
        let read = self.values.listed().iter().copied().chain(message);
        let read: Vec<MessageId> = read.collect();
        outputs::store(c, &self.run, text, read).await
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

    /// Key of the task that a step starts, unique among the tasks of the run.
    pub(super) fn key(&self, id: &str) -> String {
        match self.run.step(id).map_or(1, |step| step.attempt) {
            1 => id.to_owned(),
            attempt => format!("{id}.{attempt}"),
        }
    }

    pub(super) async fn begin(
        &mut self,
        c: &mut Conn,
        id: &str,
        task: Option<TaskId>,
    ) -> Result<(), DbError> {
        self.set(c, id, |step| {
            step.state = StepState::Running;
            step.task_id = task;
            step.error = None;
            step.started_at = Some(now());
            step.ended_at = None;
        })
        .await
    }

    /// Completes a step with an output and, if the step leads to a jump, its target.
    pub(super) async fn complete(
        &mut self,
        c: &mut Conn,
        id: &str,
        output: Output,
        jump: Option<String>,
    ) -> Result<(), DbError> {
        self.set(c, id, |step| {
            let at = now();
            step.state = StepState::Completed;
            step.output_id = Some(output.text_id);
            step.output = Some(output.text);
            step.jump = jump;
            step.due_at = None;
            step.started_at = step.started_at.or(Some(at));
            step.ended_at = Some(at);
        })
        .await?;
        self.close_fork_item(c, id).await
    }

    /// Closes the inbox item about the fork of a step that has ended.
    async fn close_fork_item(&self, c: &mut Conn, id: &str) -> Result<(), DbError> {
        match self.run.step(id).and_then(|step| step.fork_id) {
            Some(fork) => inbox::forks::close_resolve(c, self.run.workspace_id, fork).await,
            None => Ok(()),
        }
    }

    /// Ends a step without an output.
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
        .await?;
        self.close_fork_item(c, id).await
    }

    pub(super) async fn fail_step(
        &mut self,
        c: &mut Conn,
        id: &str,
        fault: impl Into<Fault>,
    ) -> Result<(), DbError> {
        self.end(c, id, StepState::Failed, Some(fault.into())).await
    }

    /// Returns an agent of the workflow, or the default agent if `agent` is `None`, with the version that the run uses. Returns the
    /// reason as a `Fault` if the agent is turned off or the requester cannot invoke it.
    pub(super) async fn agent(
        &self,
        c: &mut Conn,
        agent: Option<AgentId>,
    ) -> Result<Result<(AgentId, i64), Fault>, DbError> {
        let id = agent.unwrap_or(self.content.default_agent_id);
        let can_ask = profiles::is_invocable_by(c, id, self.run.requested_by).await?;
        if let Some(agent) = self.run.agent(id).filter(|_| can_ask) {
            return Ok(Ok(agent));
        }
        let name = profiles::shown_name(c, id).await?;
        Ok(Err(format!(
            "{name} is turned off, or the person who started the run cannot ask it"
        )))
    }
}
