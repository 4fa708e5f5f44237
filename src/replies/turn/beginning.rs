//! State of the database at the beginning of a reply.

use futures::FutureExt;

use crate::{
    agents::profiles::{self, Resolved},
    auth::quota,
    chat::{access, collaboration::Turn},
    db::{Conn, DbError},
    meaning::VectorAnswer,
    replies::{
        compaction::profile::CompactionSettings,
        context::{self, Loaded},
        offline::{self, Offline},
    },
    schedules,
    tasks::{Lease, Task, TaskKind, TaskTarget, queue, slow::SlowTurn},
};

use super::handler::ReplyHandler;

pub(super) struct Beginning {
    pub(super) agent: Resolved,
    pub(super) counts: serde_json::Value,
    /// False if the requester no longer has the permissions that the task needs.
    pub(super) can_go_on: bool,
    /// `None` if the trigger message was deleted or the task cannot continue.
    pub(super) loaded: Option<Loaded>,
    pub(super) offline: Option<Offline>,
    pub(super) is_allowed: bool,
    pub(super) is_full: bool,
}

impl Beginning {
    async fn read(
        c: &mut Conn,
        task: Task,
        lease: Lease,
        offline: Option<&SlowTurn>,
        settings: CompactionSettings,
        asked: VectorAnswer,
    ) -> Result<Self, DbError> {
        let target = lease.target;
        let agent = profiles::get_resolved(c, target.agent, target.agent_version).await?;
        let mut beginning = Self {
            counts: queue::counts_of(c, task.id).await?,
            can_go_on: can_go_on(c, &task).await?,
            loaded: None,
            offline: None,
            is_allowed: true,
            is_full: false,
            agent,
        };
        if !beginning.can_go_on {
            return Ok(beginning);
        }
        let loaded = context::load(c, &task, &beginning.agent, settings, asked).await?;
        beginning.offline = match (&loaded, offline) {
            (Some(loaded), Some(turn)) => Some(offline::prepare(c, turn, &task, loaded).await?),
            _ => None,
        };
        beginning.loaded = loaded;
        beginning.is_allowed =
            task.kind != TaskKind::Schedule || schedules::is_allowed(c, &task).await?;
        beginning.is_full =
            task.reply_message_id.is_none() && quota::is_full(c, lease.workspace).await?;
        Ok(beginning)
    }
}

/// Checks again whether the requester can invoke the agent, and can post in the conversation (or, for a task of a run, can act in the
/// run). This applies to a task that another task started, a task that has started others, and a chain link or collaboration turn
/// after its first round. Other tasks can always continue.
async fn can_go_on(c: &mut Conn, task: &Task) -> Result<bool, DbError> {
    let is_child = task.kind == TaskKind::Delegate || task.run_id.is_some();
    let is_in_line = Turn::of(task).is_some() || task.input.0.chain.is_some();
    let is_woken = is_child || (is_in_line && task.round > 0);
    if !is_woken && !queue::has_children(c, task.id).await? {
        return Ok(true);
    }
    let can_invoke = match task.agent_id {
        Some(agent) => profiles::is_invocable_by(c, agent, task.requested_by).await?,
        None => false,
    };
    let can_post = match task.run_id {
        Some(_) => access::requester_can_run(c, task).await?,
        None => access::requester_can_post(c, task).await?,
    };
    Ok(can_invoke && can_post)
}

impl ReplyHandler {
    pub(super) async fn read_beginning(
        &self,
        task: Task,
        lease: Lease,
        is_offline: bool,
    ) -> Result<Beginning, DbError> {
        let settings = self.compactor.settings;
        if is_offline {
            // Waits for the turn before it occupies a connection.
            let turn = SlowTurn::take(task.requested_by).await;
            let mut c = self.db.snapshot().await?;
            // The built-in responder also waits for blocking threads, which `Conn::run` does not allow.
            let turn = Some(&turn);
            return Beginning::read(&mut c, task, lease, turn, settings, VectorAnswer::Unused)
                .await;
        }
        let asked = self.ask(&task, lease.target).await?;
        let c = self.db.snapshot().await?;
        c.run(move |c| Beginning::read(c, task, lease, None, settings, asked).boxed())
            .await
    }

    /// Requests the vector of a task's question, if passages of files can be in its context.
    pub(super) async fn ask(
        &self,
        task: &Task,
        target: TaskTarget,
    ) -> Result<VectorAnswer, DbError> {
        let workspace = task.workspace_id;
        if !self.meaning.is_used(workspace).await? {
            return Ok(VectorAnswer::Unused);
        }
        let mut c = self.db.read().await?;
        let agent = profiles::get_resolved(&mut c, target.agent, target.agent_version).await?;
        let question = context::question_of(&mut c, task, &agent, target.channel).await?;
        drop(c);
        Ok(match question {
            Some(question) => {
                let user = task.requested_by;
                self.meaning.ask(workspace, user, &question).await
            }
            None => VectorAnswer::Unused,
        })
    }
}
