//! Schedules passes in the background, or in the worker of a reply that waits for them.

use std::time::Duration;

use futures::{FutureExt, future::BoxFuture};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::{
    agents::segments::{CompactionTrigger, PassOptions},
    db::{Conn, DbError, now},
    failpoint,
    ids::TaskId,
    realtime::Audience,
    tasks::{
        FailCode, Lease, LeaseLost, NewTask, Task, TaskError, TaskKind, TaskOutput, TaskStatus,
        TaskTarget, WaitReason,
        calls::CallError,
        notice_text,
        queue::{self, End},
        worker::{Abort, Handler, Run},
    },
};

use super::{
    pass::{
        AUTOMATIC_MESSAGES_MIN, BUILT_IN, Compactor, Pass, PassError, Passed, SEGMENTS_AT_ONCE,
        options_of,
    },
    profile::{Strategy, StrategyPlace},
    store::{self, Key},
};
use crate::replies::utility::Patience;

/// Maximum time that a reply waits for a pass.
const WAIT_MAX: Duration = Duration::from_secs(20);
/// Interval at which a reply checks whether a pass in another worker has ended.
const CHECKED_EVERY: Duration = Duration::from_millis(100);
/// Delays before a failed pass is repeated. After the last one, the next trigger starts another pass.
const DELAYS: [Duration; 3] = [
    Duration::from_mins(1),
    Duration::from_mins(5),
    Duration::from_mins(25),
];
/// Maximum number of passes in one task.
const ROUNDS_MAX: usize = 100;

/// Result of waiting for a pass.
#[derive(Debug, Clone)]
pub enum Waited {
    /// A pass has run, possibly without processing all messages.
    Ready,
    /// No pass can run now.
    Skipped,
    Failed(CallError),
}

/// Next step of a reply that needs a pass over its conversation.
enum Turn {
    Run(Box<Pass>),
    Wait(TaskId),
    Skip,
}

impl Handler for Compactor {
    fn run(&self, task: Task, lease: Lease, stop: CancellationToken) -> Run<'_> {
        async move {
            tokio::select! {
                outcome = self.work(task, lease) => outcome,
                () = stop.cancelled() => Err(Abort::Stopped),
            }
        }
        .boxed()
    }

    fn fail_lost(&self, lease: Lease) -> BoxFuture<'_, Result<(), LeaseLost>> {
        async move {
            let db = self.utility.db.clone();
            db.write(lease.workspace.0, async move |c: &mut Conn| {
                queue::lock_lease(c, &lease).await?;
                finish(c, &lease, String::new(), Some(FailCode::WorkerLost)).await
            })
            .await
        }
        .boxed()
    }
}

impl Compactor {
    async fn work(&self, task: Task, lease: Lease) -> Result<(), Abort> {
        let options = options_of(&task).filter(|_| self.settings.is_on);
        let Some(options) = options else {
            // If compaction is turned off, stale and blank segments are not rebuilt either.
            return Ok(self.finish(lease).await?);
        };
        let pass = Pass {
            task,
            lease,
            options,
            patience: Patience::Background,
        };
        let mut last = Passed::default();
        // Segments that earlier passes of the task made for a waiting reply.
        let mut unjudged = store::made_by(&mut self.utility.db.read().await?, &lease).await?;
        unjudged.drain(..unjudged.len().saturating_sub(SEGMENTS_AT_ONCE));
        for _ in 0..ROUNDS_MAX {
            last = self.run(&pass).await?;
            unjudged.extend(&last.stored);
            if last.error.is_some() {
                break;
            }
            self.judge(&pass, &std::mem::take(&mut unjudged)).await?;
            if !last.has_rest {
                break;
            }
        }
        Ok(self.end(lease, last, None).await?)
    }

    /// Ends a task that has nothing to do.
    async fn finish(&self, lease: Lease) -> Result<(), LeaseLost> {
        let db = self.utility.db.clone();
        db.write(lease.workspace.0, async move |c: &mut Conn| {
            queue::lock_lease(c, &lease).await?;
            finish(c, &lease, BUILT_IN.to_owned(), None).await
        })
        .await
    }

    /// Ends a task, or requeues it if its pass failed and can be retried, if a segment has to be rebuilt, or if `retry_in` is set.
    async fn end(
        &self,
        lease: Lease,
        passed: Passed,
        retry_in: Option<Duration>,
    ) -> Result<(), LeaseLost> {
        failpoint!("compaction_end");
        let db = self.utility.db.clone();
        let passed = std::sync::Arc::new(passed);
        db.write(lease.workspace.0, async move |c: &mut Conn| {
            let task = queue::lock_lease(c, &lease).await?;
            let mut counts = queue::counts_of(c, task.id).await?;
            let failed = counts
                .get("failed")
                .and_then(serde_json::Value::as_u64)
                .unwrap_or(0);
            let delay = match &passed.error {
                // The call has already waited for the reservations of running calls.
                Some(PassError::Model(CallError::OverBudget(_))) => None,
                Some(_) => DELAYS
                    .get(usize::try_from(failed).unwrap_or(usize::MAX))
                    .copied(),
                None => retry_in,
            };
            // A message may have changed since its segment was stored.
            let is_outdated = !store::list_outdated(c, lease.target.conversation().id(), 1)
                .await?
                .is_empty();
            let delay = delay.or((passed.error.is_none() && is_outdated).then_some(Duration::ZERO));
            let Some(delay) = delay else {
                let code = passed.error.as_ref().map(PassError::code);
                return finish(c, &lease, passed.model.clone(), code).await;
            };
            let failed = if passed.error.is_some() {
                failed + 1
            } else {
                0
            };
            counts["failed"] = failed.into();
            queue::requeue(c, &lease, counts, delay, WaitReason::Unavailable, false).await?;
            Ok(())
        })
        .await?;
        failpoint!("compaction_ended");
        Ok(())
    }

    /// Runs a pass in the worker of a reply, or waits for the running one, for at most 20 s. The rest continues in the
    /// background.
    ///
    /// # Errors
    /// If the database fails or the reply was canceled.
    pub async fn before_reply(
        &self,
        reply: &Lease,
        options: PassOptions,
        stop: &CancellationToken,
    ) -> Result<Waited, Abort> {
        let deadline = tokio::time::Instant::now() + WAIT_MAX;
        let mut waited = Waited::Skipped;
        loop {
            match self.next_turn(reply, &options).await? {
                Turn::Skip => return Ok(waited),
                Turn::Wait(other) => {
                    waited = Waited::Ready;
                    let is_requeued = tokio::select! {
                        is_requeued = self.is_requeued(other, deadline) => is_requeued?,
                        () = stop.cancelled() => return Err(Abort::Stopped),
                    };
                    if !is_requeued {
                        return Ok(waited);
                    }
                }
                Turn::Run(pass) => {
                    let ended = tokio::select! {
                        ended = self.run_until(&pass, deadline) => ended,
                        () = stop.cancelled() => {
                            let again = Some(Duration::ZERO);
                            self.end(pass.lease, Passed::default(), again).await?;
                            return Err(Abort::Stopped);
                        }
                    };
                    return match ended {
                        // The pass was canceled, but the reply was not.
                        Err(LeaseLost::Gone) => Ok(Waited::Ready),
                        ended => Ok(ended?),
                    };
                }
            }
        }
    }

    /// Runs a pass for a reply, and requeues it if work remains.
    async fn run_until(
        &self,
        pass: &Pass,
        deadline: tokio::time::Instant,
    ) -> Result<Waited, LeaseLost> {
        let again = Some(Duration::ZERO);
        let Ok(passed) = tokio::time::timeout_at(deadline, self.run(pass)).await else {
            self.end(pass.lease, Passed::default(), again).await?;
            return Ok(Waited::Ready);
        };
        let passed = passed?;
        let error = passed.error.clone().filter(|_| passed.stored.is_empty());
        // A task that another trigger queued may process more messages than this reply needs.
        let is_served = options_of(&pass.task)
            .is_none_or(|own| (own.trigger, own.keep) == (pass.options.trigger, pass.options.keep));
        let is_done = is_served && !passed.has_rest && !self.is_unjudged(pass, &passed).await?;
        let again = again.filter(|_| !is_done);
        self.end(pass.lease, passed, again).await?;
        Ok(match error {
            Some(PassError::Model(e)) => Waited::Failed(e),
            Some(PassError::QuotaExceeded) => Waited::Skipped,
            None => Waited::Ready,
        })
    }

    async fn next_turn(&self, reply: &Lease, options: &PassOptions) -> Result<Turn, LeaseLost> {
        let (compactor, held, options) = (self.clone(), *reply, options.clone());
        let turn = async move |c: &mut Conn| {
            let task = queue::lock_lease(c, &held).await?;
            compactor.turn(c, &task, &held, &options).await
        };
        self.utility.db.write(reply.workspace.0, turn).await
    }

    /// Waits until a running pass ends. Returns true if it was requeued, so that the reply can run it.
    async fn is_requeued(
        &self,
        pass: TaskId,
        deadline: tokio::time::Instant,
    ) -> Result<bool, DbError> {
        while tokio::time::Instant::now() < deadline {
            tokio::time::sleep(CHECKED_EVERY).await;
            let mut c = self.utility.db.read().await?;
            match queue::find_task(&mut c, pass)
                .await?
                .map(|task| task.status)
            {
                Some(TaskStatus::Running) => {}
                Some(TaskStatus::Queued) => return Ok(true),
                _ => return Ok(false),
            }
        }
        Ok(false)
    }

    async fn turn(
        &self,
        c: &mut Conn,
        reply: &Task,
        lease: &Lease,
        options: &PassOptions,
    ) -> Result<Turn, LeaseLost> {
        let conversation = lease.target.conversation().id();
        if let Some(active) = queue::active_compact(c, conversation).await? {
            let taken = queue::take(c, active.id, lease_length()).await?;
            return Ok(match taken {
                Some((task, lease)) => Turn::run(task, lease, options),
                None if active.status == TaskStatus::Running => Turn::Wait(active.id),
                None => Turn::Skip,
            });
        }
        if options.trigger == CompactionTrigger::Auto && !self.claim_interval(c, lease).await? {
            return Ok(Turn::Skip);
        }
        let stored = PassOptions {
            before_seq: None,
            ..options.clone()
        };
        let (target, audience) = (lease.target, lease.audience);
        let Some(task) = insert(c, reply, target, audience, &stored).await? else {
            return Ok(Turn::Skip);
        };
        Ok(match queue::take(c, task.id, lease_length()).await? {
            Some((task, lease)) => Turn::run(task, lease, options),
            None => Turn::Skip,
        })
    }

    async fn claim_interval(&self, c: &mut Conn, lease: &Lease) -> Result<bool, DbError> {
        let key = Key {
            workspace: lease.workspace,
            thread: lease.target.thread,
            fork: lease.target.fork,
        };
        store::insert_conversation(c, key).await?;
        let at = now();
        store::claim_interval(c, key.id(), at, at - self.settings.interval).await
    }

    /// Queues an automatic pass after a reply if enough messages, not counting the newest ones, do not belong to a segment yet. The
    /// number of newest messages is the window of the agent in this conversation that receives the fewest messages. Must be called in
    /// the transaction that completes the reply.
    ///
    /// # Errors
    /// Only database errors.
    pub async fn after_reply(
        &self,
        c: &mut Conn,
        reply: &Task,
        lease: &Lease,
        strategy: Strategy,
        options: &PassOptions,
    ) -> Result<(), DbError> {
        let target = lease.target;
        let conversation: Uuid = target.conversation().id();
        let place = StrategyPlace::of(lease.workspace, &target);
        let strongest = strategy
            .strongest(c, self.settings, conversation, place)
            .await?;
        let options = &PassOptions {
            keep: i64::try_from(strongest.window()).unwrap_or(i64::MAX),
            ..options.clone()
        };
        let Some(upper) = store::nth_newest(c, conversation, i64::MAX, options.keep).await? else {
            return Ok(());
        };
        let least = i64::try_from(AUTOMATIC_MESSAGES_MIN).unwrap_or(i64::MAX);
        let uncovered = store::uncovered(c, conversation, upper, least).await?;
        if uncovered.len() < AUTOMATIC_MESSAGES_MIN
            || queue::active_compact(c, conversation).await?.is_some()
            || !self.claim_interval(c, lease).await?
        {
            return Ok(());
        }
        insert(c, reply, target, lease.audience, options).await?;
        Ok(())
    }
}

impl Turn {
    fn run(task: Task, lease: Lease, options: &PassOptions) -> Self {
        Self::Run(Box::new(Pass {
            task,
            lease,
            options: options.clone(),
            patience: Patience::ReplyWaits,
        }))
    }
}

/// Returns the duration of the lease for a pass in the worker of a reply. That lease is not renewed.
fn lease_length() -> Duration {
    WAIT_MAX + Duration::from_secs(10)
}

/// Queues a pass on behalf of a reply. Returns `None` if one is already active.
pub(super) async fn insert(
    c: &mut Conn,
    parent: &Task,
    target: TaskTarget,
    audience: Audience,
    options: &PassOptions,
) -> Result<Option<Task>, DbError> {
    let new = NewTask {
        parent: Some(parent.id),
        options: serde_json::to_value(options).ok(),
        ..NewTask::new(
            parent.workspace_id,
            TaskKind::Compact,
            parent.requested_by,
            target,
        )
    };
    let task = queue::insert(c, &new, None).await?;
    if let Some(task) = &task {
        queue::announce(c, task, audience).await?;
    }
    Ok(task)
}

/// Ends a task, recording all segments that its attempts have made.
async fn finish(
    c: &mut Conn,
    lease: &Lease,
    model: String,
    code: Option<FailCode>,
) -> Result<(), LeaseLost> {
    let end = match code {
        None => End::Completed {
            output: TaskOutput {
                compaction_ids: store::made_by(c, lease).await?,
                ..TaskOutput::default()
            },
            model,
        },
        Some(code) => End::Failed {
            error: TaskError {
                code,
                message: notice_text("The summary", code),
            },
            notice: None,
        },
    };
    queue::finish(c, lease, &end).await?;
    Ok(())
}
