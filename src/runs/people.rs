//! Steps that wait for people: deep dives, approvals, and messages to other channels.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    advance::{Fault, Work},
    outputs::{self, PostFault},
};
use crate::{
    chat::{
        ChatError,
        forks::{self, Fork, ForkStatus},
        messages::{self, Message, MessageMetadata},
        post::{self, AgentPost},
    },
    db::{Conn, Db, DbError, dialect::lock_workspace, now},
    forks::{
        ForkError,
        resolve::resolve_for_run,
        start::{RunFork, open_for_run},
    },
    ids::{ActionId, AgentId, ChannelId, ForkId, MessageId, RunId, TaskId, WorkspaceId},
    mcp::Effect,
    tasks::{
        Lane, NewTask, TaskKind,
        actions::{
            self, Action, ActionState, Need, NeededPerson,
            approval::{self, NewApproval},
            texts,
        },
        queue,
    },
    time::Timestamp,
    tools::{
        hash::{self, HashedCall},
        taint,
    },
    workflows::{
        definition::{ApprovalStep, ForkStep, OutputStep, Publisher, Step},
        run::{RunStep, StepState},
    },
};

/// Maximum number of steps whose time has come that are looked at in one round.
const DUE_AT_ONCE: i64 = 100;
/// Name of the action of a step that asks for approval.
const APPROVAL: &str = "approval";
/// Name of the action that posts a message in another channel than the run's.
const POST_ELSEWHERE: &str = "post_elsewhere";
/// Time for a decision about a message to another channel.
const POST_TIMEOUT_S: u32 = 86_400;

/// A question to people.
struct Question {
    name: &'static str,
    title: String,
    effect: Effect,
    arguments: Value,
    need: Need,
    timeout_s: u32,
}

fn after(from: Timestamp, seconds: u32) -> Timestamp {
    from + Duration::from_secs(seconds.into())
}

impl Work {
    /// Starts a thread with this text if the run has none.
    async fn ensure_thread(
        &mut self,
        c: &mut Conn,
        text: &str,
    ) -> Result<Result<(), Fault>, DbError> {
        if self.run.thread_id.is_some() {
            return Ok(Ok(()));
        }
        let Some(channel) = self.run.channel_id else {
            return Ok(Err("the run has no channel".to_owned()));
        };
        let posted = self.post(c, channel, text.to_owned()).await?;
        Ok(posted.map(|_| ()))
    }

    /// Posts a message of the default agent.
    pub(super) async fn post(
        &mut self,
        c: &mut Conn,
        channel: ChannelId,
        content: String,
    ) -> Result<Result<Message, Fault>, DbError> {
        let agent = match self.agent(c, None).await? {
            Ok(agent) => agent,
            Err(fault) => return Ok(Err(fault)),
        };
        match outputs::post(c, &mut self.run, agent, channel, content).await {
            Ok(message) => Ok(Ok(message)),
            Err(PostFault::Refused(fault)) => Ok(Err(fault.to_owned())),
            Err(PostFault::Db(e)) => Err(e),
        }
    }

    async fn wait(
        &mut self,
        c: &mut Conn,
        id: &str,
        (fork, action): (Option<ForkId>, Option<ActionId>),
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

    /// Opens a deep dive about a goal, which its agent answers.
    pub(super) async fn start_fork(
        &mut self,
        c: &mut Conn,
        step: &Step,
        work: &ForkStep,
    ) -> Result<Result<(), Fault>, DbError> {
        let goal = self.render(&work.goal);
        let partner = match work.agent_ids.first() {
            None => None,
            Some(agent) => match self.agent(c, Some(*agent)).await? {
                Ok(agent) => Some(agent),
                Err(fault) => return Ok(Err(fault)),
            },
        };
        let author = match self.agent(c, None).await? {
            Ok(agent) => agent,
            Err(fault) => return Ok(Err(fault)),
        };
        if let Err(fault) = self.ensure_thread(c, &goal).await? {
            return Ok(Err(fault));
        }
        let place = self.run.channel_id.zip(self.run.thread_id);
        let Some(((channel, thread), message)) = place.zip(self.origin(c).await?) else {
            return Ok(Err("there is no message to start from".to_owned()));
        };
        let new = RunFork {
            workspace: self.run.workspace_id,
            channel,
            thread,
            message,
            title: step.title.clone(),
            creator: self.run.requested_by,
            agent: partner,
        };
        let fork = match open_for_run(c, &new, self.audience).await {
            Ok(fork) => fork,
            Err(ForkError::Db(e) | ForkError::Chat(ChatError::Db(e))) => return Err(e),
            Err(e) => return Ok(Err(e.to_string())),
        };
        let goal = AgentPost {
            workspace: new.workspace,
            channel,
            thread: Some(thread),
            fork: Some(fork),
            agent: author.0,
            requester: new.creator,
            content: outputs::cut(goal),
            metadata: MessageMetadata {
                agent_id: Some(author.0),
                agent_version: Some(author.1),
                run_id: Some(self.run.id),
                ..MessageMetadata::default()
            },
        };
        let goal = match post::post_as_agent(c, &goal).await {
            Ok(goal) => goal,
            Err(ChatError::Db(e)) => return Err(e),
            Err(e) => return Ok(Err(e.to_string())),
        };
        // Without a model, the deep dive is for people.
        if let Some(agent) = partner.filter(|_| !self.is_offline) {
            self.ask(c, &goal, fork, agent).await?;
        }
        let close = work.close_after_s.unwrap_or(work.wait_s).min(work.wait_s);
        self.wait(c, &step.id, (Some(fork), None), Some(close))
            .await?;
        Ok(Ok(()))
    }

    /// The message that a deep dive starts from: the newest one of the run, else the one that started it, else the thread's newest.
    async fn origin(&self, c: &mut Conn) -> Result<Option<MessageId>, DbError> {
        let row: Option<(MessageId,)> = c
            .q("select m.id from messages m where m.conversation_id = $1 and m.kind <> 'notice' and m.deleted_at is null \
                order by case when m.metadata ->> 'run_id' = $2 then 0 when m.id = $3 then 1 else 2 end, m.seq desc limit 1")
            .bind(self.run.thread_id)
            .bind(self.run.id.to_string())
            .bind(self.run.message_id)
            .opt()
            .await?;
        Ok(row.map(|(message,)| message))
    }

    /// Lets an agent answer the goal of a deep dive.
    async fn ask(
        &self,
        c: &mut Conn,
        goal: &Message,
        fork: ForkId,
        (agent, agent_version): (AgentId, i64),
    ) -> Result<(), DbError> {
        let new = NewTask {
            workspace: goal.workspace_id,
            kind: TaskKind::Reply,
            agent,
            agent_version,
            channel: goal.channel_id,
            thread: goal.thread_id,
            fork: Some(fork),
            trigger: Some(goal.id),
            requested_by: self.run.requested_by,
            retry_of: None,
            parent: Some(self.run.root()),
            link: None,
            child_key: None,
            before_seq: None,
            api_key: None,
            lane: Lane::Foreground,
            prompt: goal.content.clone(),
            options: None,
        };
        if let Some(task) = queue::insert(c, &new, None).await? {
            taint::copy(c, self.run.root(), task.id).await?;
            queue::announce(c, &task, self.audience).await?;
        }
        Ok(())
    }

    /// Looks at a deep dive: completes its step with the resolution, or drafts one when its time has come.
    pub(super) async fn settle_fork(
        &mut self,
        c: &mut Conn,
        step: &Step,
        work: &ForkStep,
        open: &RunStep,
    ) -> Result<(), DbError> {
        let fork = match open.fork_id {
            Some(fork) => find_fork(c, fork).await?,
            None => None,
        };
        let fault = match &fork {
            None => "its deep dive was deleted",
            Some(fork) if fork.status == ForkStatus::Abandoned => "its deep dive was abandoned",
            Some(fork) if fork.status == ForkStatus::Resolved => {
                return self.take_resolution(c, step, fork).await;
            }
            Some(fork) => {
                let opened = open.started_at.unwrap_or_else(now);
                let ends = after(opened, work.wait_s);
                if now() < ends {
                    return self.close(c, step, (work, open), fork, ends).await;
                }
                "nobody published a result in time"
            }
        };
        let fault = Some(fault.to_owned());
        self.end(c, &step.id, StepState::Failed, fault).await
    }

    async fn take_resolution(
        &mut self,
        c: &mut Conn,
        step: &Step,
        fork: &Fork,
    ) -> Result<(), DbError> {
        let row: Option<(Option<MessageId>,)> = c
            .q("select message_id from resolutions where id = $1")
            .bind(fork.resolution_id)
            .opt()
            .await?;
        let message = match row.and_then(|(message,)| message) {
            Some(message) => messages::find_message(c, message).await?,
            None => None,
        };
        let Some(message) = message.filter(|message| message.deleted_at.is_none()) else {
            let fault = Some("its result was deleted".to_owned());
            return self.end(c, &step.id, StepState::Failed, fault).await;
        };
        taint::add_messages(c, self.run.root(), self.run.requested_by, [message.id]).await?;
        let output = (message.content, None, Some(message.id));
        self.complete(c, &step.id, output, None).await
    }

    /// Drafts the resolution once, after the time of the step.
    async fn close(
        &mut self,
        c: &mut Conn,
        step: &Step,
        (work, open): (&ForkStep, &RunStep),
        fork: &Fork,
        ends: Timestamp,
    ) -> Result<(), DbError> {
        let opened = open.started_at.unwrap_or_else(now);
        let closes = work.close_after_s.map(|seconds| after(opened, seconds));
        if open.task_id.is_some() || closes.is_none_or(|closes| now() < closes) {
            return Ok(());
        }
        let by_agent = work.publish == Publisher::Agent;
        let writer = match self.agent(c, work.agent_ids.first().copied()).await? {
            Ok(writer) => Some(writer),
            Err(_) => self.agent(c, None).await?.ok(),
        };
        let of = (self.run.root(), self.run.requested_by);
        let task = match writer {
            Some(writer) => resolve_for_run(c, fork, of, writer, by_agent, self.audience).await?,
            None => None,
        };
        self.set(c, &step.id, |step| {
            step.task_id = task;
            step.due_at = Some(ends);
        })
        .await
    }

    /// Asks people for an approval.
    pub(super) async fn start_approval(
        &mut self,
        c: &mut Conn,
        step: &Step,
        work: &ApprovalStep,
    ) -> Result<Result<(), Fault>, DbError> {
        let text = self.render(&work.text);
        if let Err(fault) = self.ensure_thread(c, &text).await? {
            return Ok(Err(fault));
        }
        let question = Question {
            name: APPROVAL,
            title: step.shown().to_owned(),
            effect: Effect::Read,
            arguments: json!({"text": outputs::cut(text)}),
            need: Need {
                user_id: work.user_id,
                ..Need::of(work.who)
            },
            timeout_s: work.timeout_s,
        };
        let action = self.question(c, question).await?;
        self.wait(c, &step.id, (None, Some(action)), None).await?;
        Ok(Ok(()))
    }

    /// Asks the requester before a message leaves the conversation of the run.
    pub(super) async fn ask_to_post(
        &mut self,
        c: &mut Conn,
        step: &Step,
        channel: ChannelId,
        content: String,
    ) -> Result<Result<(), Fault>, DbError> {
        if self.run.thread_id.is_none() {
            let fault = "a message to another channel needs an approval, and the run has no thread to ask in";
            return Ok(Err(fault.to_owned()));
        }
        let question = Question {
            name: POST_ELSEWHERE,
            title: step.shown().to_owned(),
            effect: Effect::Write,
            arguments: json!({"channel_id": channel, "content": outputs::cut(content)}),
            need: Need::of(NeededPerson::Requester),
            timeout_s: POST_TIMEOUT_S,
        };
        let action = self.question(c, question).await?;
        self.wait(c, &step.id, (None, Some(action)), None).await?;
        Ok(Ok(()))
    }

    async fn question(&mut self, c: &mut Conn, question: Question) -> Result<ActionId, DbError> {
        let (id, root) = (ActionId::new(), self.run.root());
        let round = approval::next_round(c, root).await?;
        let text = hash::canonical_text(&question.arguments);
        let arguments_id = outputs::store(c, &self.run, &text).await?;
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
            workspace: self.run.workspace_id,
            task: root,
            round,
            name: question.name,
            title: question.title,
            effect: question.effect,
            arguments_hash: hash::arguments_hash(&hashed, &text),
            call_hash: hash::call_hash(None, question.name, &text),
            arguments_id,
            sources: taint::list(c, root).await?,
            needs: vec![question.need],
            timeout_s: question.timeout_s,
            expires_at: after(now(), question.timeout_s),
        };
        approval::ask(c, &new, self.audience).await?;
        Ok(id)
    }

    /// Takes the decision about a step; one without `else` cancels the run if it is denied.
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
            let output = ("approved".to_owned(), None, None);
            return self.complete(c, &step.id, output, None).await;
        }
        match &work.otherwise {
            Some(target) => {
                let output = (state.as_str().to_owned(), None, None);
                self.complete(c, &step.id, output, Some(target.clone()))
                    .await
            }
            None => {
                let fault = Some(format!("the approval was {state}"));
                self.end(c, &step.id, StepState::Cancelled, fault).await
            }
        }
    }

    /// Posts a message in another channel after its approval.
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
            let fault = Some("its message to another channel was not approved".to_owned());
            return self.end(c, &step.id, StepState::Failed, fault).await;
        };
        approval::use_up(c, action.id, self.audience).await?;
        match self.post(c, channel, content).await? {
            Ok(message) => {
                let output = (message.content, None, Some(message.id));
                self.complete(c, &step.id, output, None).await
            }
            Err(fault) => self.end(c, &step.id, StepState::Failed, Some(fault)).await,
        }
    }
}

async fn find_fork(c: &mut Conn, id: ForkId) -> Result<Option<Fork>, DbError> {
    match forks::get_fork(c, id).await {
        Ok(fork) => Ok(Some(fork)),
        Err(ChatError::Db(e)) => Err(e),
        Err(_) => Ok(None),
    }
}

async fn find_action(c: &mut Conn, open: &RunStep) -> Result<Option<Action>, DbError> {
    match open.action_id {
        Some(action) => actions::find(c, action).await,
        None => Ok(None),
    }
}

/// Wakes runs whose steps have waited for their time.
///
/// # Errors
/// If the database fails.
pub async fn wake_due(db: &Db) -> Result<(), DbError> {
    let due: Vec<(RunId, WorkspaceId, Option<ChannelId>)> = db
        .read()
        .await?
        .q("select r.id, r.workspace_id, r.channel_id from run_steps s join runs r on r.id = s.run_id join tasks t on t.id = r.id \
            where s.due_at <= $1 and s.state = 'waiting' and t.status = 'queued' and t.parked order by s.due_at limit $2")
        .bind(now())
        .bind(DUE_AT_ONCE)
        .all()
        .await?;
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
