//! Ends a scheduled task: posts its reply as a whole, or reports nothing.

use crate::{
    chat::{
        ChatError,
        post::{self, ScheduledPost},
        remove,
    },
    db::{Conn, DbError, now},
    realtime::{Audience, Hub},
    replies::prompt::NOTHING,
    schedules::{self, Scheduled},
    tasks::{
        FailCode, Lease, LeaseLost, Task, TaskKind, TaskOutput,
        attempts::{self, AttemptOutcome},
        queue::{self, End},
    },
};

use super::handler::ReplyHandler;

pub(super) fn is_heartbeat(task: &Task) -> bool {
    Scheduled::of(task).is_some_and(|scheduled| scheduled.heartbeat)
}

pub(super) fn has_nothing_to_report(task: &Task, reply: &str) -> bool {
    is_heartbeat(task) && reply.trim() == NOTHING
}

/// Checks whether a reply can be posted now. The reply of a scheduled task can be posted only if its requester can post in the
/// channel.
pub(super) async fn may_post(c: &mut Conn, task: &Task) -> Result<bool, LeaseLost> {
    if task.kind != TaskKind::Schedule {
        return match task.reply_message_id {
            Some(_) => Ok(true),
            None => Err(LeaseLost::Gone),
        };
    }
    Ok(schedules::is_allowed(c, task).await?)
}

pub(super) async fn post_reply(
    c: &mut Conn,
    task: &Task,
    lease: &Lease,
    new: ScheduledPost<'_>,
) -> Result<(), DbError> {
    let posted = post::post_scheduled(c, task, lease, new).await;
    posted.map_err(|e| match e {
        ChatError::Db(e) => e,
        _ => sqlx::Error::RowNotFound.into(),
    })?;
    Ok(())
}

/// Stops the tree of a running task. If a schedule started the task, this counts as a failure of the
/// schedule.
pub(super) async fn fail_tree(
    c: &mut Conn,
    task: &Task,
    code: FailCode,
    hub: &Hub,
    audience: Audience,
) -> Result<(), DbError> {
    let root = queue::find_task(c, task.root_task_id).await?;
    remove::fail_tree(c, task, code, hub, audience).await?;
    match root.filter(Task::is_active) {
        Some(root) => schedules::note_failed(c, &root).await,
        None => Ok(()),
    }
}

impl ReplyHandler {
    /// Completes a heartbeat without posting a message.
    pub(super) async fn report_nothing(&self, lease: Lease) -> Result<(), LeaseLost> {
        let model = self.provider.name().to_owned();
        self.db
            .write(lease.workspace.0, async move |c: &mut Conn| {
                let task = queue::lock_lease(c, &lease).await?;
                attempts::end_attempt(c, lease.task, AttemptOutcome::Completed, None, 0, now())
                    .await?;
                let output = TaskOutput::default();
                let model = model.clone();
                queue::finish(c, &lease, &End::Completed { output, model }).await?;
                schedules::note_completed(c, &task).await?;
                Ok::<_, LeaseLost>(())
            })
            .await
    }
}
