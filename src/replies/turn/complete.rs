//! Ends a task with its reply: completes the reply, passes it to the task that waits for it, or replaces it with a reaction.

use std::sync::Arc;

use uuid::Uuid;

use crate::{
    agents::{
        profiles::{Coding, Resolved},
        segments::PassOptions,
    },
    chat::{
        collaboration::Turn,
        messages,
        post::{self, ScheduledPost},
        presets, remove,
    },
    db::{Conn, DbError, now},
    failpoint,
    files::{Attachment, pictures::Picture},
    ids::{AgentId, MemoryId, MessageId, TaskId},
    memory::recall,
    realtime::Hub,
    replies::{
        adaptation::note::{NotedQuestion, ReplyEnd},
        citations::{Cited, CitedText},
        compaction::{
            pass::Compactor,
            profile::Strategy,
            store::{self, Key},
        },
        context::Loaded,
        manifest::Manifest,
        offline, title,
    },
    schedules::{self, Scheduled},
    tasks::{
        FailCode, Lease, LeaseLost, Task, TaskOutput, actions,
        attempts::{self, AttemptOutcome},
        briefs,
        queue::{self, End},
        worker::Abort,
    },
    tools::guard,
};

use super::{
    attach::{self, ReplyPicture},
    blind,
    call::Answer,
    coding,
    handler::ReplyHandler,
    scheduled, told,
};

/// Maximum size of an answer to another agent in UTF-8 bytes.
const ANSWER_BYTES_MAX: usize = 32 * 1024;
/// Maximum number of earlier tasks in a series of retries whose leftovers are removed.
const RETRY_CHAIN_MAX: usize = 20;

/// A reply whose text is complete.
pub(super) struct CompleteReply<'a> {
    pub(super) agent: &'a Resolved,
    pub(super) loaded: &'a Loaded,
    pub(super) manifest: Manifest,
    pub(super) cited: Cited,
    /// True if the model stopped at its output limit.
    pub(super) truncated: bool,
    /// True if the work of the collaboration is done.
    pub(super) is_done: bool,
    /// Options for a pass after this reply.
    pub(super) options: PassOptions,
    /// Notice that the model cannot see the pictures of the prompt.
    pub(super) picture_notice: Option<String>,
    /// Pictures of results, which are attached to the reply.
    pub(super) pictures: Vec<Picture>,
}

/// The writes that end a reply and its task.
struct Completion {
    lease: Lease,
    agent: AgentId,
    agent_version: i64,
    /// The agent's work on repositories.
    coding: Option<Coding>,
    retry_of: Option<TaskId>,
    /// Name of the model.
    model: String,
    memories: Vec<MemoryId>,
    summarized: Vec<MemoryId>,
    cited: Cited,
    truncated: bool,
    is_done: bool,
    /// Start of the agent's next window; `None` if messages before it do not belong to a segment yet.
    start: Option<i64>,
    preset: Option<presets::StoredPreset>,
    strategy: Strategy,
    options: PassOptions,
    noted: Option<NotedQuestion>,
    picture_notice: Option<String>,
    pictures: Vec<ReplyPicture>,
    /// True if no model is connected.
    is_offline: bool,
    compactor: Compactor,
    hub: Arc<Hub>,
}

/// Numbers of a task's actions, for the reply.
#[derive(Clone, Copy, Default)]
struct Steps {
    all: Option<i64>,
    failed: Option<i64>,
}

impl Steps {
    async fn of(c: &mut Conn, task: TaskId) -> Result<Self, DbError> {
        let failed = actions::failed_count(c, task).await?;
        Ok(Self {
            // The rounds of a reply that was only steered have no actions.
            all: Some(actions::call_count(c, task).await?).filter(|count| *count > 0),
            failed: (failed > 0).then_some(failed),
        })
    }
}

impl Completion {
    /// Stores the reply and ends the task. Returns the uploads whose bytes the attached pictures use, or `None` if the owner of a
    /// schedule can no longer post the reply.
    async fn store(&self, c: &mut Conn) -> Result<Option<Vec<Uuid>>, LeaseLost> {
        let lease = self.lease;
        let task = queue::lock_lease(c, &lease).await?;
        if !scheduled::may_post(c, &task).await? {
            return Ok(None);
        }
        let steps = match task.round {
            0 => Steps::default(),
            _ => Steps::of(c, lease.task).await?,
        };
        let cited = self.cited.at_end(c).await?;
        let reply = task.reply_message_id.unwrap_or_default();
        let attached = attach::attach(c, &task, reply, &self.pictures).await?;
        self.finish_reply(c, &task, reply, &cited, steps, attached.files)
            .await?;
        self.finish_task(c, &task, &cited, reply).await?;
        remove_superseded(c, self.retry_of, lease).await?;
        told::announce_changes(c, &task, &lease).await?;
        post::continue_chain(c, &task, lease.audience).await?;
        if let Some(text) = &self.picture_notice {
            blind::insert_notice(c, &task, &lease, text).await?;
        }
        post::start_unread(c, &task, lease.audience).await?;
        self.count_turn(c, &task).await?;
        schedules::note_completed(c, &task).await?;
        if Turn::of(&task).is_some() && guard::note_turn(c, &task, cited.text.content()).await? {
            scheduled::fail_tree(c, &task, FailCode::Loop, &self.hub, lease.audience).await?;
        }
        Ok(Some(attached.uploads))
    }

    /// Completes the row of the reply, or posts the reply of a scheduled task.
    async fn finish_reply(
        &self,
        c: &mut Conn,
        task: &Task,
        reply: MessageId,
        cited: &CitedText,
        steps: Steps,
        attachments: Vec<Attachment>,
    ) -> Result<(), LeaseLost> {
        let lease = &self.lease;
        let metadata = messages::MessageMetadata {
            agent_id: Some(self.agent),
            agent_version: Some(self.agent_version),
            task_id: Some(lease.task),
            schedule_id: Scheduled::of(task).map(|scheduled| scheduled.schedule_id),
            run_id: task.run_id,
            truncated: self.truncated,
            steps: steps.all,
            steps_failed: steps.failed,
            sources: cited.sources.clone(),
            sources_removed: cited.removed,
            code: coding::without_repository(c, task, self.coding.as_ref()).await?,
            ..messages::MessageMetadata::default()
        };
        if task.reply_message_id.is_none() {
            let new = ScheduledPost {
                id: reply,
                agent: lease.target.agent,
                text: &cited.text,
                attachments,
                metadata,
            };
            scheduled::post_reply(c, task, lease, new).await?;
            return Ok(());
        }
        if !attachments.is_empty() {
            messages::set_attachments(c, reply, attachments).await?;
        }
        messages::finish_reply(c, reply, &cited.text, &metadata, lease.audience).await?;
        Ok(())
    }

    /// Ends the attempt and the task.
    async fn finish_task(
        &self,
        c: &mut Conn,
        task: &Task,
        cited: &CitedText,
        reply: MessageId,
    ) -> Result<(), LeaseLost> {
        let lease = &self.lease;
        recall::count_uses(c, &self.memories).await?;
        recall::note_summarized(c, &self.summarized).await?;
        attempts::end_attempt(c, lease.task, AttemptOutcome::Completed, None, 0, now()).await?;
        let output = TaskOutput {
            message_id: Some(reply),
            response_length: cited.length,
            memories: self.memories.len(),
            done: self.is_done,
            delegated: task.round > 0 && queue::has_children(c, lease.task).await?,
            ..TaskOutput::default()
        };
        let model = self.model.clone();
        queue::finish(c, lease, &End::Completed { output, model }).await?;
        Ok(())
    }

    /// Stores the data on which the agent's next replies in the conversation depend: the start of the window, the preset, a pass
    /// that is due, and the question's score.
    async fn count_turn(&self, c: &mut Conn, task: &Task) -> Result<(), LeaseLost> {
        let lease = &self.lease;
        let key = Key {
            workspace: lease.workspace,
            thread: lease.target.thread,
            fork: lease.target.fork,
        };
        store::note_reply(c, key, self.agent, self.start).await?;
        if let Some(preset) = &self.preset {
            let conversation = lease.target.conversation();
            let (workspace, audience, agent) = (lease.workspace, lease.audience, self.agent);
            presets::store_used(c, workspace, audience, conversation, agent, preset).await?;
        }
        if self.strategy.is_on() {
            self.compactor
                .after_reply(c, task, lease, self.strategy, &self.options)
                .await?;
        }
        if !self.is_offline {
            title::after_reply(c, task, lease).await?;
        }
        if let Some(noted) = &self.noted {
            noted.store(c, task, lease).await?;
        }
        Ok(())
    }
}

/// Scores the question that a reply answers, if the agent adapts to the requester.
pub(super) fn noted(loaded: &Loaded, task: &Task, end: ReplyEnd) -> Option<NotedQuestion> {
    let adapting = loaded.adapting.as_ref()?;
    if loaded.context.ask.turn.is_some() {
        // The goal of a collaboration is not a question to a single agent.
        return None;
    }
    Some(adapting.note(&task.input.0.prompt, end))
}

/// Turns the leftovers of retried tasks (partial replies and notices) into tombstones.
async fn remove_superseded(
    c: &mut Conn,
    retry_of: Option<TaskId>,
    lease: Lease,
) -> Result<(), DbError> {
    let mut next = retry_of;
    for _ in 0..RETRY_CHAIN_MAX {
        let Some(id) = next else { break };
        let left = queue::left_behind(c, id).await?;
        for message in [left.reply_message_id, left.notice_message_id]
            .into_iter()
            .flatten()
        {
            if let Some(message) = messages::find_message(c, message).await?
                && message.deleted_at.is_none()
            {
                remove::tombstone(c, &message, lease.audience).await?;
            }
        }
        next = left.retry_of;
    }
    Ok(())
}

impl ReplyHandler {
    /// Ends the reply and its task in one transaction. If the task is a retry, also removes the leftovers of the tasks that it
    /// retries.
    pub(super) async fn complete(
        &self,
        lease: Lease,
        task: &Task,
        reply: CompleteReply<'_>,
    ) -> Result<(), Abort> {
        failpoint!("turn_complete");
        let loaded = reply.loaded;
        let end = if self.provider.is_offline() {
            ReplyEnd::Offline
        } else {
            ReplyEnd::Completed
        };
        let (published, pictures): (Vec<_>, Vec<_>) = attach::publish(&self.blobs, &reply.pictures)
            .await
            .into_iter()
            .unzip();
        let completion = Completion {
            lease,
            agent: reply.agent.agent,
            agent_version: reply.agent.version,
            coding: reply.agent.profile.coding.clone(),
            retry_of: task.retry_of,
            memories: reply.manifest.memory_ids(),
            summarized: reply.manifest.summarized_ids(),
            model: reply.manifest.model,
            cited: reply.cited,
            truncated: reply.truncated,
            is_done: reply.is_done,
            start: loaded.view.next_start(),
            preset: loaded.preset.stored.clone(),
            strategy: loaded.strategy,
            options: reply.options,
            noted: noted(loaded, task, end),
            picture_notice: reply.picture_notice,
            pictures,
            is_offline: self.provider.is_offline(),
            compactor: self.compactor.clone(),
            hub: Arc::clone(&self.hub),
        };
        let uploads = self
            .db
            .write(lease.workspace.0, async move |c: &mut Conn| {
                completion.store(c).await
            })
            .await?;
        failpoint!("turn_completed");
        let is_posted = uploads.is_some();
        let mut uploads = uploads.into_iter().flatten();
        for picture in published {
            picture.settle(uploads.next());
        }
        if !is_posted {
            self.fail(lease, FailCode::NotAllowed, None).await?;
            return Ok(());
        }
        if task.retry_of.is_some()
            && let Err(e) = self.db.scrub().await
        {
            tracing::warn!(error = %e, "replaced text may remain in the write-ahead log until the next checkpoint");
        }
        Ok(())
    }

    /// Ends a task that posts nothing, and stores its answer for the task that waits for it.
    pub(super) async fn complete_delegated(
        &self,
        lease: Lease,
        manifest: Manifest,
        answer: &Answer,
    ) -> Result<(), LeaseLost> {
        let memories = manifest.memory_ids();
        let summarized = manifest.summarized_ids();
        let model = manifest.model;
        // Texts of earlier rounds are used only if there is no final text.
        let text = match answer.own_text.trim() {
            "" => answer.text.trim(),
            own_text => own_text,
        };
        let kept = text[..text.floor_char_boundary(ANSWER_BYTES_MAX)].to_owned();
        let output = TaskOutput {
            response_length: i64::try_from(kept.encode_utf16().count()).unwrap_or(i64::MAX),
            memories: memories.len(),
            truncated: answer.truncated || kept.len() < text.len(),
            ..TaskOutput::default()
        };
        let hub = Arc::clone(&self.hub);
        failpoint!("turn_complete");
        self.db
            .write(lease.workspace.0, async move |c: &mut Conn| {
                let task = queue::lock_lease(c, &lease).await?;
                briefs::put_answer(c, &task, &kept).await?;
                recall::count_uses(c, &memories).await?;
                recall::note_summarized(c, &summarized).await?;
                attempts::end_attempt(c, lease.task, AttemptOutcome::Completed, None, 0, now())
                    .await?;
                let (output, model) = (output.clone(), model.clone());
                queue::finish(c, &lease, &End::Completed { output, model }).await?;
                if guard::note_answer(c, &task, &kept).await? {
                    scheduled::fail_tree(c, &task, FailCode::Loop, &hub, lease.audience).await?;
                }
                Ok::<_, LeaseLost>(())
            })
            .await?;
        failpoint!("turn_completed");
        Ok(())
    }

    /// Ends the task with the agent's reaction to the trigger message instead of a reply.
    pub(super) async fn react(
        &self,
        lease: Lease,
        task: &Task,
        noted: Option<NotedQuestion>,
    ) -> Result<(), LeaseLost> {
        let (trigger, agent, retry_of) =
            (task.trigger_message_id, lease.target.agent, task.retry_of);
        let model = self.provider.name().to_owned();
        self.db
            .write(lease.workspace.0, async move |c: &mut Conn| {
                let task = queue::lock_lease(c, &lease).await?;
                if let Some(trigger) = trigger {
                    messages::react_as_agent(c, trigger, agent, offline::THANKS, lease.audience)
                        .await?;
                }
                let output = TaskOutput::default();
                let model = model.clone();
                queue::finish(c, &lease, &End::Completed { output, model }).await?;
                remove_superseded(c, retry_of, lease).await?;
                post::continue_chain(c, &task, lease.audience).await?;
                post::start_unread(c, &task, lease.audience).await?;
                if let Some(noted) = &noted {
                    noted.store(c, &task, &lease).await?;
                }
                Ok::<_, LeaseLost>(())
            })
            .await
    }
}
