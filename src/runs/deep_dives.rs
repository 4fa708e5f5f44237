//! Steps that open a fork, and wait for its resolution.

use super::{
    outputs,
    people::after,
    work::{Fault, Work},
};
use crate::{
    chat::{
        ChatError,
        forks::{self, Fork, ForkStatus},
        inbox,
        messages::{self, Message, ReplyText},
        post::{self, AgentPost},
    },
    db::{Conn, DbError, now},
    forks::{
        ForkError,
        collaborate::{NewCollaboration, Plan, start_collaboration},
        resolve::draft_for_run,
        start::{RunFork, open_for_run},
    },
    ids::{AgentId, ForkId, MessageId, TaskId},
    tasks::{COLLABORATION_TURNS, NewTask, Task, TaskKind, TaskTarget, queue},
    time::Timestamp,
    tools::taint,
    workflows::{
        definition::{ForkPublisher, ForkStep, Step},
        run::RunStep,
    },
};

/// Time in seconds after which a run checks a fork again if a person has requested a draft of its resolution.
const LOOK_AGAIN_S: u32 = 60;

/// Maximum number of messages that are searched for the message at which a fork starts.
const ORIGINS_MAX: i64 = 1_000;

/// Error of a fork: a database error, or a fault of the step.
enum ForkFault {
    Fault(Fault),
    Db(DbError),
}

impl From<ForkError> for ForkFault {
    fn from(e: ForkError) -> Self {
        match e {
            ForkError::Db(e) | ForkError::Chat(ChatError::Db(e)) => Self::Db(e),
            e => Self::Fault(e.to_string()),
        }
    }
}

impl From<ChatError> for ForkFault {
    fn from(e: ChatError) -> Self {
        ForkError::from(e).into()
    }
}

impl From<DbError> for ForkFault {
    fn from(e: DbError) -> Self {
        Self::Db(e)
    }
}

impl Work {
    /// Opens a fork with a goal. A single agent answers the goal; several agents collaborate on it. Without a model, only people take
    /// part.
    pub(super) async fn start_fork(
        &mut self,
        c: &mut Conn,
        step: &Step,
        work: &ForkStep,
    ) -> Result<Result<(), Fault>, DbError> {
        let mut agents = Vec::with_capacity(work.agent_ids.len());
        for agent in &work.agent_ids {
            match self.agent(c, Some(*agent)).await? {
                Ok(agent) => agents.push(agent),
                Err(fault) => return Ok(Err(fault)),
            }
        }
        let goal = self.render(&work.goal);
        if goal.trim().is_empty() {
            return Ok(Err("its goal is blank".to_owned()));
        }
        if let Err(fault) = self.ensure_thread(c).await? {
            return Ok(Err(fault));
        }
        let (fork, task) = match self.open(c, step, work, agents.as_slice(), goal).await {
            Ok(opened) => opened,
            Err(ForkFault::Fault(fault)) => return Ok(Err(fault)),
            Err(ForkFault::Db(e)) => return Err(e),
        };
        let close = work.close_after_s.unwrap_or(work.wait_s).min(work.wait_s);
        self.wait(c, &step.id, Some(fork), None, Some(close))
            .await?;
        self.set(c, &step.id, |step| step.task_id = task).await?;
        if agents.is_empty() || self.around.is_offline {
            self.ask_to_resolve(c, work, fork).await?;
        }
        Ok(Ok(()))
    }

    /// Opens the fork of a step and starts its agents. Also returns the task of a collaboration.
    async fn open(
        &self,
        c: &mut Conn,
        step: &Step,
        work: &ForkStep,
        agents: &[(AgentId, i64)],
        goal: String,
    ) -> Result<(ForkId, Option<TaskId>), ForkFault> {
        let (author, version) = self.agent(c, None).await?.map_err(ForkFault::Fault)?;
        let place = self.run.channel_id.zip(self.run.thread_id);
        let Some(((channel, thread), message)) = place.zip(self.origin(c).await?) else {
            let fault = "there is no message to start from";
            return Err(ForkFault::Fault(fault.to_owned()));
        };
        let partner = match agents {
            [partner] => Some(*partner),
            _ => None,
        };
        let new = RunFork {
            workspace: self.run.workspace_id,
            channel,
            thread,
            message,
            title: step.title.clone(),
            creator: self.run.requested_by,
            agent: partner.filter(|_| !self.around.is_offline),
        };
        let fork = open_for_run(c, &new, self.audience).await?;
        let text = ReplyText::of(outputs::cut(goal));
        let goal = AgentPost {
            id: MessageId::new(),
            workspace: new.workspace,
            channel,
            thread,
            starts_thread: false,
            fork: Some(fork.id),
            agent: author,
            requester: new.creator,
            text: &text,
            attachments: Vec::new(),
            metadata: outputs::metadata(self.run.id, author, version),
        };
        let goal = post::post_as_agent(c, goal).await?;
        if self.around.is_offline {
            return Ok((fork.id, None));
        }
        if let Some((agent, version)) = partner {
            self.ask(c, &goal, fork.id, agent, version).await?;
        }
        let task = match agents {
            [_, _, ..] => self.collaborate(c, &step.id, work, &fork, &goal).await?,
            _ => None,
        };
        Ok((fork.id, task))
    }

    /// Finds the message at which a fork starts: the most recent message of the run. If there is none, it is the message that started
    /// the run, or else the most recent message of the thread. Only the thread's most recent messages are searched.
    async fn origin(&self, c: &mut Conn) -> Result<Option<MessageId>, DbError> {
        let row: Option<(MessageId,)> = c
            .q("select m.id from (select n.id, n.seq, n.metadata from messages n where n.conversation_id = $1 \
                and n.kind <> 'notice' and n.deleted_at is null order by n.seq desc limit $4) m \
                order by case when m.metadata ->> 'run_id' = $2 then 0 when m.id = $3 then 1 else 2 end, m.seq desc limit 1")
            .bind(self.run.thread_id)
            .bind(self.run.id.to_string())
            .bind(self.run.message_id)
            .bind(ORIGINS_MAX)
            .opt()
            .await?;
        Ok(row.map(|(message,)| message))
    }

    /// Starts a task in which an agent answers the goal of a fork.
    async fn ask(
        &self,
        c: &mut Conn,
        goal: &Message,
        fork: ForkId,
        agent: AgentId,
        agent_version: i64,
    ) -> Result<(), DbError> {
        let new = NewTask {
            trigger: Some(goal.id),
            parent: Some(self.run.root()),
            api_key: queue::key_of(c, self.run.root()).await?,
            prompt: goal.content.clone(),
            ..NewTask::new(
                goal.workspace_id,
                TaskKind::Reply,
                self.run.requested_by,
                TaskTarget {
                    agent,
                    agent_version,
                    channel: goal.channel_id,
                    thread: goal.thread_id,
                    fork: Some(fork),
                },
            )
        };
        if let Some(task) = queue::insert(c, &new, None).await? {
            taint::pass_on(c, self.run.root(), task.id).await?;
            queue::announce(c, &task, self.audience).await?;
        }
        Ok(())
    }

    /// Starts a collaboration on the goal of a fork, with a draft of the resolution at the end. The run waits for the collaboration.
    async fn collaborate(
        &self,
        c: &mut Conn,
        step: &str,
        work: &ForkStep,
        fork: &Fork,
        goal: &Message,
    ) -> Result<Option<TaskId>, ForkFault> {
        let plan = Plan {
            agents: work.agent_ids.clone(),
            turns_max: work.turns_max.unwrap_or(*COLLABORATION_TURNS.end()),
            auto_publish: work.publish == ForkPublisher::Agent,
        };
        let root = self.run.root();
        let new = NewCollaboration {
            fork,
            goal,
            plan: &plan,
            requester: self.run.requested_by,
            api_key: queue::key_of(c, root).await?,
            parent: Some((root, self.key(step))),
        };
        let task = start_collaboration(c, &new, self.audience).await?;
        let task = task.ok_or_else(|| ForkFault::Fault("the run was stopped".to_owned()))?;
        taint::pass_on(c, root, task.id).await?;
        Ok(Some(task.id))
    }

    /// Checks a fork. Completes its step with the published resolution, drafts a resolution at the configured time, or fails the
    /// step.
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
        let task = match open.task_id {
            Some(task) => queue::find_task(c, task).await?,
            None => None,
        };
        let fault = match &fork {
            None => "its deep dive was deleted",
            Some(fork) if fork.status == ForkStatus::Abandoned => "its deep dive was abandoned",
            Some(fork) if fork.status == ForkStatus::Resolved => {
                let is_ending = |task: Task| task.kind == TaskKind::Collaborate && task.is_active();
                if task.is_some_and(is_ending) {
                    // The agents have published the resolution, but the collaboration is still active. Its end wakes the run again.
                    return Ok(());
                }
                return self.take_resolution(c, step, fork).await;
            }
            Some(fork) => {
                let times = ForkTimes::of(work, open);
                if now() < times.ends {
                    return self.close(c, step, work, times, fork, task).await;
                }
                "nobody published a result in time"
            }
        };
        self.withdraw(c, &step.id).await?;
        self.fail_step(c, &step.id, fault).await
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
            return self.fail_step(c, &step.id, "its result was deleted").await;
        };
        taint::add_messages(c, self.run.root(), self.run.requested_by, [message.id]).await?;
        let output = self.store(c, message.content, Some(message.id)).await?;
        self.complete(c, &step.id, output, None).await
    }

    /// Drafts the resolution once, after the time configured in the step. `task` is either the collaboration or the task that writes
    /// the draft.
    async fn close(
        &mut self,
        c: &mut Conn,
        step: &Step,
        work: &ForkStep,
        times: ForkTimes,
        fork: &Fork,
        task: Option<Task>,
    ) -> Result<(), DbError> {
        if times.closes.is_none_or(|closes| now() < closes) {
            if queue::active_in_fork(c, fork.id).await?.is_empty() {
                self.ask_to_resolve(c, work, fork.id).await?;
            }
            return Ok(());
        }
        // The end of a collaboration wakes the run again.
        let is_busy = task.is_some_and(|task| task.kind == TaskKind::Resolve || task.is_active());
        let draft = if is_busy {
            None
        } else {
            self.draft(c, work, fork).await?
        };
        let active = queue::active_in_fork(c, fork.id).await?;
        let is_resolving = active.iter().any(|task| task.kind == TaskKind::Resolve);
        // The end of a draft task that a person started does not wake the run, so the fork is checked again later.
        let next = if !is_busy && draft.is_none() && is_resolving {
            times.ends.min(after(now(), LOOK_AGAIN_S))
        } else {
            times.ends
        };
        self.set(c, &step.id, |step| {
            step.task_id = draft.or(step.task_id);
            step.due_at = Some(next);
        })
        .await
    }

    /// Opens the inbox item of a fork in which no agent works any longer, unless the step drafts the resolution itself.
    async fn ask_to_resolve(
        &self,
        c: &mut Conn,
        work: &ForkStep,
        fork: ForkId,
    ) -> Result<(), DbError> {
        if work.close_after_s.is_some() {
            return Ok(());
        }
        inbox::forks::open_resolve(c, fork).await
    }

    async fn draft(
        &self,
        c: &mut Conn,
        work: &ForkStep,
        fork: &Fork,
    ) -> Result<Option<TaskId>, DbError> {
        let writer = match self.agent(c, work.agent_ids.first().copied()).await? {
            Ok(writer) => Some(writer),
            Err(_) => self.agent(c, None).await?.ok(),
        };
        let by_agent = work.publish == ForkPublisher::Agent;
        match writer {
            Some((agent, version)) => {
                let audience = self.audience;
                draft_for_run(c, &self.root, fork, agent, version, by_agent, audience).await
            }
            None => Ok(None),
        }
    }
}

/// Deadlines of the fork that a step has opened.
#[derive(Debug, Clone, Copy)]
struct ForkTimes {
    /// Time at which a draft is written; `None` if people decide when.
    closes: Option<Timestamp>,
    /// Time at which the step fails.
    ends: Timestamp,
}

impl ForkTimes {
    fn of(work: &ForkStep, open: &RunStep) -> Self {
        let opened = open.started_at.unwrap_or_else(now);
        Self {
            closes: work.close_after_s.map(|seconds| after(opened, seconds)),
            ends: after(opened, work.wait_s),
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
