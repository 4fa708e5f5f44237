//! Steps that wait for people: approvals, and messages to other channels.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    outputs::{self, PostFault, RunPost},
    work::{Fault, Work},
};
use crate::{
    agents::{policy, profiles},
    chat::messages::{Message, RunStart},
    db::{Conn, Db, DbError, dialect::lock_workspace, now},
    ids::{ActionId, ChannelId, ForkId, RunId, TaskId, WorkspaceId},
    mcp::{Effect, Risk},
    model::FunctionTool,
    replies::requester::find_requester,
    schedules,
    tasks::{
        actions::{
            self, Action, ActionKind, ActionSource, ActionState, Need,
            approval::{self, NewApproval},
            texts,
        },
        asleep::is_asleep,
        queue,
    },
    time::Timestamp,
    tools::{
        decide::{self, Decision, Rules, Seen},
        function::ToolFunction,
        hash::{self, HashedCall},
        taint,
    },
    workflows::{
        definition::{ApprovalStep, OutputStep, Step},
        run::{CauseType, RunStep, StepState},
    },
};

/// Maximum number of due steps that are processed in one round.
const DUE_AT_ONCE: i64 = 100;
/// Function name of the action that asks for an approval.
const APPROVAL: &str = "approval";
/// Function name of the action that posts a message in a channel other than the run's.
const POST_ELSEWHERE: &str = "post_elsewhere";

/// Reason why a message to another channel is not posted at a low trust level.
const NOT_ALLOWED: &str = "the workspace does not allow agents to post in other channels";

/// A request for approval.
struct Question {
    name: &'static str,
    title: String,
    effect: Effect,
    arguments: Value,
    needs: Vec<Need>,
    timeout_s: u32,
}

pub(super) fn after(from: Timestamp, seconds: u32) -> Timestamp {
    from + Duration::from_secs(seconds.into())
}

impl Work {
    /// Starts a thread with a message that announces the run, if the run does not have a thread yet.
    pub(super) async fn ensure_thread(
        &mut self,
        c: &mut Conn,
    ) -> Result<Result<(), Fault>, DbError> {
        if self.run.thread_id.is_some() {
            return Ok(Ok(()));
        }
        let Some(channel) = self.run.channel_id else {
            return Ok(Err("the run has no channel".to_owned()));
        };
        let content = self.start_text(c).await?;
        let start = RunStart {
            run_id: self.run.id,
            workflow_id: self.run.workflow_id,
            cause: self.run.cause.clone(),
            requested_by: self.run.requested_by,
        };
        let posted = self.post_as(c, channel, content, Some(start)).await?;
        Ok(posted.map(|_| ()))
    }

    /// Text of the message that announces the run: its cause and, if a person started it, the input.
    async fn start_text(&self, c: &mut Conn) -> Result<String, DbError> {
        let (cause, name) = (&self.run.cause, &self.name);
        let schedule = cause
            .id
            .as_ref()
            .filter(|_| cause.kind == CauseType::Schedule);
        if let Some(id) = schedule.and_then(|id| id.parse().ok()) {
            let schedule = schedules::find_name(c, id).await?;
            return Ok(match schedule {
                Some(schedule) => format!("The schedule {schedule} started {name}."),
                None => format!("A schedule started {name}."),
            });
        }
        let person = find_requester(c, self.run.workspace_id, self.run.requested_by).await?;
        let (person, input) = (person.name, self.run.input.trim());
        Ok(if input.is_empty() {
            format!("{person} started {name}.")
        } else {
            format!("{person} started {name}:\n\n{input}")
        })
    }

    /// Posts a message as the default agent.
    pub(super) async fn post(
        &mut self,
        c: &mut Conn,
        channel: ChannelId,
        content: String,
    ) -> Result<Result<Message, Fault>, DbError> {
        self.post_as(c, channel, content, None).await
    }

    async fn post_as(
        &mut self,
        c: &mut Conn,
        channel: ChannelId,
        content: String,
        start: Option<RunStart>,
    ) -> Result<Result<Message, Fault>, DbError> {
        let (agent, agent_version) = match self.agent(c, None).await? {
            Ok(agent) => agent,
            Err(fault) => return Ok(Err(fault)),
        };
        let new = RunPost {
            agent,
            agent_version,
            channel,
            content,
            start,
        };
        match outputs::post(c, &mut self.run, new).await {
            Ok(message) => Ok(Ok(message)),
            Err(PostFault::Refused(fault)) => Ok(Err(fault.to_owned())),
            Err(PostFault::Db(e)) => Err(e),
        }
    }

    pub(super) async fn wait(
        &mut self,
        c: &mut Conn,
        id: &str,
        fork: Option<ForkId>,
        action: Option<ActionId>,
        look_after_s: Option<u32>,
    ) -> Result<(), DbError> {
        self.set(c, id, |step| {
            let at = now();
            step.state = StepState::Waiting;
            step.fork_id = fork;
            step.action_id = action;
            step.due_at = look_after_s.map(|seconds| after(at, seconds));
            step.error = None;
            step.started_at = Some(at);
            step.ended_at = None;
        })
        .await
    }

    /// Decides whether a message to another channel needs approvals, as for a function that writes inside the workspace.
    async fn decide_to_post(&self, c: &mut Conn) -> Result<Decision, DbError> {
        let policy = policy::find(c, self.run.workspace_id).await?;
        let poster = self.run.agent(self.content.default_agent_id);
        let profile = match poster {
            Some((agent, version)) => profiles::find_resolved(c, agent, version).await?,
            None => None,
        };
        let definition = FunctionTool {
            name: POST_ELSEWHERE.to_owned(),
            description: None,
            parameters: None,
            strict: None,
        };
        let function = ToolFunction {
            effect: Effect::Write,
            risk: Risk::Approve,
            ..ToolFunction::built_in(POST_ELSEWHERE, "Post in another channel", definition)
        };
        let rules = Rules {
            level: policy.trust_level,
            rules: &policy.approval_rules,
            trust: profile
                .as_ref()
                .and_then(|agent| agent.profile.trust.as_ref()),
        };
        let read = taint::list(c, self.run.root()).await?;
        let seen = if read.iter().any(ActionSource::counts) {
            Seen::Tainted
        } else {
            Seen::Clean
        };
        Ok(decide::decide(&function, &rules, seen))
    }

    /// Checks that somebody can approve, and starts a thread for the approval if the run does not have one.
    async fn prepare_to_ask(
        &mut self,
        c: &mut Conn,
        needs: &[Need],
    ) -> Result<Result<(), Fault>, DbError> {
        let Some(channel) = self.run.channel_id else {
            return Ok(Err("the run has no channel".to_owned()));
        };
        let (workspace, requester) = (self.run.workspace_id, self.run.requested_by);
        for need in needs {
            if !approval::has_approver(c, workspace, channel, requester, need).await? {
                let fault = "none of the possible approvers can read the run's channel";
                return Ok(Err(fault.to_owned()));
            }
        }
        self.ensure_thread(c).await
    }

    /// Requests an approval.
    pub(super) async fn start_approval(
        &mut self,
        c: &mut Conn,
        step: &Step,
        work: &ApprovalStep,
    ) -> Result<Result<(), Fault>, DbError> {
        let text = self.render(&work.text);
        let need = Need {
            user_id: work.user_id,
            ..Need::of(work.who)
        };
        let needs = vec![need];
        if let Err(fault) = self.prepare_to_ask(c, &needs).await? {
            return Ok(Err(fault));
        }
        let question = Question {
            name: APPROVAL,
            title: self.shown(c, step).await?,
            effect: Effect::Read,
            arguments: json!({"text": outputs::cut(text)}),
            needs,
            timeout_s: work.timeout_s,
        };
        let action = self.question(c, question).await?;
        self.wait(c, &step.id, None, Some(action), None).await?;
        Ok(Ok(()))
    }

    /// Posts a message in another channel, or requests the approvals that this needs.
    pub(super) async fn post_elsewhere(
        &mut self,
        c: &mut Conn,
        step: &Step,
        channel: ChannelId,
        content: String,
    ) -> Result<Result<(), Fault>, DbError> {
        let question = match self.decide_to_post(c).await? {
            Decision::NotOffered => {
                return Ok(Err(NOT_ALLOWED.to_owned()));
            }
            Decision::Granted => {
                return Ok(match self.post(c, channel, content).await? {
                    Ok(message) => {
                        let output = self.store(c, message.content, Some(message.id)).await?;
                        self.complete(c, &step.id, output, None).await?;
                        Ok(())
                    }
                    Err(fault) => Err(fault),
                });
            }
            Decision::Asks(question) => question,
        };
        if let Err(fault) = self.prepare_to_ask(c, &question.needs).await? {
            return Ok(Err(fault));
        }
        let question = Question {
            name: POST_ELSEWHERE,
            title: self.shown(c, step).await?,
            effect: Effect::Write,
            arguments: json!({"channel_id": channel, "content": outputs::cut(content)}),
            needs: question.needs,
            timeout_s: question.timeout_s,
        };
        let action = self.question(c, question).await?;
        self.wait(c, &step.id, None, Some(action), None).await?;
        Ok(Ok(()))
    }

    async fn question(&mut self, c: &mut Conn, question: Question) -> Result<ActionId, DbError> {
        let (id, root) = (ActionId::new(), self.run.root());
        let round = approval::next_round(c, root).await?;
        let text = hash::canonical_text(&question.arguments);
        let arguments = self.store(c, text, None).await?;
        let hashed = HashedCall {
            task: root,
            round,
            call: 1,
            tool: None,
            function: question.name,
            definition_hash: "",
        };
        let new = NewApproval {
            id,
            kind: ActionKind::Approval,
            call_id: String::new(),
            workspace: self.run.workspace_id,
            task: root,
            round,
            name: question.name,
            title: question.title,
            effect: question.effect,
            arguments_hash: hash::arguments_hash(&hashed, &arguments.text),
            call_hash: hash::call_hash(None, question.name, &arguments.text),
            arguments_id: arguments.text_id,
            sources: taint::list(c, root).await?,
            needs: question.needs,
            timeout_s: question.timeout_s,
            expires_at: after(now(), question.timeout_s),
        };
        approval::ask(c, &new, self.audience).await?;
        Ok(id)
    }

    /// Applies the decision on an approval step. If the step is not approved and has no `else`, the run is canceled.
    pub(super) async fn settle_approval(
        &mut self,
        c: &mut Conn,
        step: &Step,
        work: &ApprovalStep,
        open: &RunStep,
    ) -> Result<(), DbError> {
        let state = match find_action(c, open).await? {
            Some(action) if action.state.needs_person() => return Ok(()),
            Some(action) => action.state,
            None => ActionState::Cancelled,
        };
        if let Some(action) = open.action_id.filter(|_| state == ActionState::Approved) {
            approval::use_up(c, action, self.audience).await?;
            let output = self.store(c, state.to_string(), None).await?;
            return self.complete(c, &step.id, output, None).await;
        }
        if let Some(target) = &work.otherwise {
            let output = self.store(c, state.to_string(), None).await?;
            self.complete(c, &step.id, output, Some(target.clone()))
                .await
        } else {
            let fault = Some(format!("the approval was {state}"));
            self.end(c, &step.id, StepState::Cancelled, fault).await
        }
    }

    /// Posts a message in another channel once it has been approved.
    pub(super) async fn settle_post(
        &mut self,
        c: &mut Conn,
        step: &Step,
        work: &OutputStep,
        open: &RunStep,
    ) -> Result<(), DbError> {
        let action = find_action(c, open).await?;
        if action
            .as_ref()
            .is_some_and(|action| action.state.needs_person())
        {
            return Ok(());
        }
        let approved = action.filter(|action| action.state == ActionState::Approved);
        let content = match &approved {
            Some(action) => texts::find(c, action.arguments_id).await?,
            None => None,
        };
        let content = content.and_then(|text| serde_json::from_str::<Value>(&text).ok());
        let content = content.and_then(|value| Some(value["content"].as_str()?.to_owned()));
        let Some(((action, content), channel)) = approved.zip(content).zip(work.channel_id) else {
            let fault = "its message to another channel was not approved";
            return self.fail_step(c, &step.id, fault).await;
        };
        // The policy may have changed since the approval.
        if self.decide_to_post(c).await? == Decision::NotOffered {
            return self.fail_step(c, &step.id, NOT_ALLOWED).await;
        }
        approval::use_up(c, action.id, self.audience).await?;
        match self.post(c, channel, content).await? {
            Ok(message) => {
                let output = self.store(c, message.content, Some(message.id)).await?;
                self.complete(c, &step.id, output, None).await
            }
            Err(fault) => self.fail_step(c, &step.id, fault).await,
        }
    }
}

pub(super) async fn find_action(c: &mut Conn, open: &RunStep) -> Result<Option<Action>, DbError> {
    match open.action_id {
        Some(action) => actions::find(c, action).await,
        None => Ok(None),
    }
}

/// Wakes runs that have steps that are due.
///
/// # Errors
/// Only database errors.
pub async fn wake_due(db: &Db) -> Result<(), DbError> {
    let mut c = db.read().await?;
    if is_asleep(&mut c).await? {
        return Ok(());
    }
    let due: Vec<(RunId, WorkspaceId, Option<ChannelId>)> = c
        .q("select r.id, r.workspace_id, r.channel_id from run_steps s join runs r on r.id = s.run_id join tasks t on t.id = r.id \
            where s.due_at <= $1 and s.state = 'waiting' and t.status = 'queued' and t.parked order by s.due_at limit $2")
        .bind(now())
        .bind(DUE_AT_ONCE)
        .all()
        .await?;
    drop(c);
    for (run, workspace, channel) in due {
        db.write(workspace.0, async move |c: &mut Conn| {
            lock_workspace(c, workspace.0).await?;
            let audience = queue::audience_in(c, channel).await?;
            queue::wake(c, TaskId(run.0), audience).await
        })
        .await?;
    }
    Ok(())
}
