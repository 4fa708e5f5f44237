//! A reply while it is being streamed: its row, its deltas, and its checkpoints.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{task::JoinHandle, time::Instant};
use tracing::Instrument;

use crate::{
    agents::profiles::Resolved,
    chat::{
        forks,
        messages::{self, AuthorKind, MessageKind, MessageState},
        plain, post,
    },
    db::{Conn, DbError},
    failpoint,
    ids::{MessageId, UserId},
    realtime::{hub::TaskRun, log},
    replies::labels::LabelStripper,
    tasks::{Lease, LeaseLost, Task, TaskKind, queue, worker::Abort},
};

use super::handler::ReplyHandler;

/// Minimum interval between two deltas of a task.
const DELTA_EVERY: Duration = Duration::from_millis(50);
/// Interval and text size after which the row of a streaming reply is updated. Each checkpoint stores the full text,
/// so the required size grows with the reply: in total, checkpoints write at most `1 + CHECKPOINT_FRACTION` times the
/// size of the reply.
const CHECKPOINT_EVERY: Duration = Duration::from_secs(2);
const CHECKPOINT_BYTES: usize = 4096;
const CHECKPOINT_FRACTION: usize = 8;
/// Maximum number of bytes per second that the checkpoints of a reply write, because every other write waits for their commits. A fast
/// model server can send several times as much.
const CHECKPOINT_BYTES_PER_SECOND: usize = 64 * 1024;
/// Maximum size of a text that is checked for whether it shows anything, each time that it grows.
const BLANK_BYTES_MAX: usize = 1024;
/// Separator between the texts of two rounds.
pub(super) const ROUNDS_JOINED: &str = "\n\n";

/// Allows the next checkpoint when dropped.
struct Saving(Arc<AtomicBool>);

impl Drop for Saving {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// A reply that is being written.
pub(super) struct Reply<'a> {
    turns: &'a ReplyHandler,
    task: &'a Task,
    lease: Lease,
    agent: &'a Resolved,
    stripper: Option<LabelStripper>,
    /// Names of the agents whose labels are removed.
    names: Vec<String>,
    /// The whole reply: the texts of earlier rounds, and that of this call.
    pub(super) text: String,
    /// Text of earlier rounds that is added before the first text of this call.
    before: String,
    /// Start of this call's text in `text`; `None` before the first text of this call.
    own_start: Option<usize>,
    /// Row of the reply, once it is shown.
    opened: Option<MessageId>,
    /// True if nothing is shown before the reply is complete, because the transaction that completes the task stores
    /// the whole text.
    is_held_back: bool,
    pub(super) has_unsent: bool,
    pub(super) flush_at: Instant,
    saved_bytes: usize,
    saved_at: Instant,
    /// True while a checkpoint is being stored. There is at most one at a time, so that a fast reply does not fill
    /// the write queue.
    saving: Arc<AtomicBool>,
    last_save: Option<JoinHandle<()>>,
}

impl<'a> Reply<'a> {
    pub(super) fn new(
        turns: &'a ReplyHandler,
        task: &'a Task,
        lease: Lease,
        agent: &'a Resolved,
        others: &[&str],
        before: String,
    ) -> Self {
        let names = others
            .iter()
            .copied()
            .chain([&*agent.shown_name, &*agent.name]);
        let names: Vec<String> = names.map(str::to_owned).collect();
        Self {
            turns,
            task,
            lease,
            agent,
            stripper: Some(LabelStripper::new(names.iter().map(String::as_str))),
            names,
            text: String::new(),
            before,
            own_start: None,
            opened: None,
            is_held_back: matches!(task.kind, TaskKind::Schedule | TaskKind::Delegate),
            has_unsent: false,
            flush_at: Instant::now(),
            saved_bytes: 0,
            saved_at: Instant::now(),
            saving: Arc::default(),
            last_save: None,
        }
    }

    /// Identifies this execution of the task in the hub.
    fn run(&self) -> TaskRun {
        self.lease.run()
    }

    /// Appends a chunk of the reply. The first text that shows something creates the row of the reply.
    pub(super) async fn push(&mut self, piece: &str) -> Result<(), Abort> {
        let shown = match &mut self.stripper {
            Some(stripper) => stripper.push(piece),
            None => piece.to_owned(),
        };
        self.take(&shown).await
    }

    /// Flushes the text that the stripper still holds back.
    pub(super) async fn end(&mut self) -> Result<(), Abort> {
        let held = self
            .stripper
            .take()
            .map(LabelStripper::finish)
            .unwrap_or_default();
        self.take(&held).await
    }

    async fn take(&mut self, shown: &str) -> Result<(), Abort> {
        // NUL characters are removed: PostgreSQL cannot store them, and they are meaningless in text.
        let clean = shown.replace('\0', "");
        let fresh = if self.own_start.is_none() {
            clean.trim_start()
        } else {
            clean.as_str()
        };
        if fresh.is_empty() {
            return Ok(());
        }
        let mut piece = String::new();
        if self.own_start.is_none() {
            if !self.before.is_empty() {
                piece = std::mem::take(&mut self.before) + ROUNDS_JOINED;
            }
            self.own_start = Some(piece.len());
        }
        piece.push_str(fresh);
        let fresh = piece.as_str();
        self.text.push_str(fresh);
        if self.is_held_back || (self.opened.is_none() && self.shows_nothing()) {
            return Ok(());
        }
        let (hub, workspace, run) = (&self.turns.hub, self.lease.workspace, self.run());
        if self.opened.is_some() {
            hub.push_stream(workspace, run, fresh);
            self.has_unsent = true;
        } else {
            failpoint!("turn_open");
            let message = self.open().await?;
            failpoint!("turn_opened");
            hub.open_stream(
                workspace,
                run,
                self.lease.target.conversation(),
                message,
                self.task.attempt,
            );
            self.opened = Some(message);
            hub.push_stream(workspace, run, &self.text);
            self.flush();
        }
        let due = CHECKPOINT_BYTES.max(self.text.len() / CHECKPOINT_FRACTION);
        let is_first = self.saved_bytes == 0;
        if self.text.len() - self.saved_bytes >= due
            && (is_first || self.saved_at.elapsed() >= self.checkpoint_interval())
        {
            self.save();
        }
        Ok(())
    }

    /// Checks whether the text is short and shows nothing. A reply that stays like this is an empty one, which leaves no message.
    fn shows_nothing(&self) -> bool {
        self.text.len() <= BLANK_BYTES_MAX && plain::read(&self.text).is_blank
    }

    /// Removes the text of this call, because it was reasoning.
    pub(super) async fn discard(&mut self) -> Result<(), Abort> {
        self.stripper = Some(LabelStripper::new(self.names.iter().map(String::as_str)));
        let Some(start) = self.own_start.take() else {
            return Ok(());
        };
        let earlier = self.text[..start].trim_end_matches(ROUNDS_JOINED);
        earlier.clone_into(&mut self.before);
        self.text.clear();
        let Some(message) = self.opened else {
            return Ok(());
        };
        (self.has_unsent, self.saved_bytes) = (false, 0);
        self.turns.hub.open_stream(
            self.lease.workspace,
            self.run(),
            self.lease.target.conversation(),
            message,
            self.task.attempt,
        );
        // A checkpoint that is being stored contains the reasoning.
        if let Some(saving) = self.last_save.take() {
            drop(saving.await);
        }
        let (lease, earlier) = (self.lease, self.before.clone());
        self.turns
            .db
            .write(lease.workspace.0, async move |c: &mut Conn| {
                queue::lock_lease(c, &lease).await?;
                messages::checkpoint_reply(c, message, &earlier).await?;
                Ok::<_, LeaseLost>(())
            })
            .await?;
        Ok(())
    }

    pub(super) fn flush(&mut self) {
        self.turns
            .hub
            .flush_stream(self.lease.workspace, self.run());
        self.has_unsent = false;
        self.flush_at = Instant::now() + DELTA_EVERY;
    }

    /// Returns the row of the reply: the row of an earlier attempt if there is one, otherwise a new row.
    async fn open(&self) -> Result<MessageId, Abort> {
        let lease = self.lease;
        let (agent, version) = (self.agent.agent, self.agent.version);
        let message = self
            .turns
            .db
            .write(lease.workspace.0, async move |c: &mut Conn| {
                let task = queue::lock_lease(c, &lease).await?;
                if let Some(reply) = task.reply_message_id {
                    return Ok::<_, LeaseLost>(reply);
                }
                let id = MessageId::new();
                let seq = log::reserve(c, task.workspace_id, 1).await?;
                let new = post::NewMessage {
                    id,
                    workspace: task.workspace_id,
                    channel: lease.target.channel,
                    thread: lease.target.thread,
                    fork: task.fork_id,
                    parent: task.trigger_message_id,
                    author_type: AuthorKind::Agent,
                    author: Some(agent.0),
                    kind: MessageKind::Text,
                    state: MessageState::Streaming,
                    content: String::new(),
                    plain: String::new(),
                    mentions: Vec::new(),
                    attachments: Vec::new(),
                    metadata: messages::MessageMetadata {
                        agent_id: Some(agent),
                        agent_version: Some(version),
                        task_id: Some(task.id),
                        ..messages::MessageMetadata::default()
                    },
                    client_id: None,
                };
                let message = post::insert_message(c, seq, &new, lease.audience).await?;
                queue::set_reply(c, task.id, id).await?;
                forks::on_message_posted(c, &message, lease.audience).await?;
                Ok(id)
            })
            .await?;
        Ok(message)
    }

    pub(super) fn task(&self) -> &'a Task {
        self.task
    }

    pub(super) fn requester(&self) -> UserId {
        self.task.requested_by
    }

    /// Returns the text of this call, without the texts of earlier rounds.
    pub(super) fn own_text(&self) -> &str {
        self.own_start.map_or("", |start| &self.text[start..])
    }

    pub(super) fn has_unsaved(&self) -> bool {
        !self.is_held_back && self.text.len() > self.saved_bytes
    }

    /// Returns the time of the next checkpoint for unsaved text.
    pub(super) fn save_at(&self) -> Instant {
        self.saved_at + CHECKPOINT_EVERY.max(self.checkpoint_interval())
    }

    /// Minimum interval between two checkpoints of a text of this size.
    fn checkpoint_interval(&self) -> Duration {
        let millis = self.text.len() * 1000 / CHECKPOINT_BYTES_PER_SECOND;
        Duration::from_millis(u64::try_from(millis).unwrap_or(u64::MAX))
    }

    /// Updates the row without an event, to limit the loss of text if the process dies.
    pub(super) fn save(&mut self) {
        self.saved_at = Instant::now();
        if self.saving.swap(true, Ordering::Relaxed) {
            return;
        }
        let saving = Saving(Arc::clone(&self.saving));
        self.saved_bytes = self.text.len();
        let (db, lease, text) = (self.turns.db.clone(), self.lease, self.text.clone());
        let save = async move {
            failpoint!("turn_save");
            let saved = db
                .write(lease.workspace.0, async move |c: &mut Conn| {
                    let task = queue::lock_lease(c, &lease).await?;
                    if let Some(reply) = task.reply_message_id {
                        messages::checkpoint_reply(c, reply, &text).await?;
                    }
                    Ok::<_, LeaseLost>(())
                })
                .await;
            if let Err(LeaseLost::Db(e)) = saved {
                tracing::warn!(error = %e, "a checkpoint of a reply could not be stored");
            }
            drop(saving);
        };
        self.last_save = Some(self.turns.tracker.spawn(save.in_current_span()));
    }
}

/// Saves the partial reply of an attempt, in case no later attempt gets that far.
pub(super) async fn save_partial_reply(
    c: &mut Conn,
    task: &Task,
    text: &str,
) -> Result<(), DbError> {
    match task.reply_message_id.filter(|_| !text.is_empty()) {
        Some(reply) => messages::checkpoint_reply(c, reply, text).await,
        None => Ok(()),
    }
}
