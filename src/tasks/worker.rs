//! Claims due tasks, runs them, renews their leases, and requeues the tasks of lost workers.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use futures::future::BoxFuture;
use tokio::sync::Semaphore;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::Instrument;
use uuid::Uuid;

use super::{
    Lease, LeaseLost, Queue, Task,
    queue::{self, Claimer, Tenancy, lease_length},
    steers,
};
use crate::{
    db::{Conn, Db, DbError},
    failpoint,
    tasks::TaskKind,
    telemetry,
};

/// Interval at which the queue is polled, in case a wake-up was missed.
const POLL: Duration = Duration::from_secs(1);
/// Number of checks for expired leases, and of lease renewals, per lease length.
const REAPED_IN_A_LEASE: u32 = 5;
const RENEWED_IN_A_LEASE: u32 = 3;

/// Run of a task; ends without an error if the task ended or was requeued.
pub type Run<'a> = BoxFuture<'a, Result<(), Abort>>;

/// Runs one kind of task.
pub trait Handler: Send + Sync {
    /// Runs a claimed task to its end, or requeues it. Returns early after `stop` is canceled, and
    /// then writes nothing more.
    fn run(&self, task: Task, lease: Lease, stop: CancellationToken) -> Run<'_>;

    /// Ends a task after its worker was lost for the last time.
    fn fail_lost(&self, lease: Lease) -> BoxFuture<'_, Result<(), LeaseLost>>;
}

/// Reason why a handler returned without ending its task.
pub enum Abort {
    /// The handler was stopped, lost its lease, or requeued the task; another worker continues the
    /// task.
    Stopped,
    /// The database failed; the lease expires and the task is retried.
    Db(DbError),
}

impl From<DbError> for Abort {
    fn from(e: DbError) -> Self {
        Self::Db(e)
    }
}

impl From<LeaseLost> for Abort {
    fn from(e: LeaseLost) -> Self {
        match e {
            LeaseLost::Gone => Self::Stopped,
            LeaseLost::Db(e) => Self::Db(e),
        }
    }
}

pub struct Worker {
    /// ID of the node, by which its tasks are found and freed after a restart.
    pub id: Uuid,
    pub db: Db,
    pub queue: Arc<Queue>,
    pub handlers: HashMap<TaskKind, Arc<dyn Handler>>,
    /// Maximum number of concurrent tasks in this process.
    pub slots: usize,
    pub tracker: TaskTracker,
    /// Canceled when no more tasks should be claimed, because other nodes can run them.
    pub draining: CancellationToken,
    pub shutdown: CancellationToken,
}

/// Span with the fields of every log line about a task.
fn span_of(lease: &Lease, kind: TaskKind) -> tracing::Span {
    tracing::info_span!(
        "task",
        task.id = %lease.task,
        task.kind = %kind,
        agent.id = %lease.target.agent,
        workspace.id = %lease.workspace,
    )
}

impl Worker {
    /// Runs until the node shuts down or drains.
    pub async fn run(self) {
        let id = self.id;
        let slots = Arc::new(Semaphore::new(self.slots));
        let this = Arc::new(self);
        let reaper = Arc::clone(&this);
        this.tracker.spawn(async move { reaper.reap_loop().await });
        loop {
            let wait = this.claim_what_is_due(id, &slots).await;
            tokio::select! {
                () = this.shutdown.cancelled() => return,
                () = this.draining.cancelled() => return,
                () = this.queue.wake.notified() => {}
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    /// Fills the free slots with due tasks. Returns how long to wait before the next attempt.
    async fn claim_what_is_due(self: &Arc<Self>, worker: Uuid, slots: &Arc<Semaphore>) -> Duration {
        loop {
            let free = if self.queue.is_paused() {
                0
            } else {
                slots.available_permits()
            };
            self.queue.set_full(free == 0);
            if free == 0 || self.shutdown.is_cancelled() || self.draining.is_cancelled() {
                return POLL;
            }
            match self.claim_some(worker, slots, free).await {
                Ok(true) => {}
                Ok(false) => return self.until_next().await,
                Err(e) => {
                    tracing::error!(error = %e, "could not read the queue; retrying");
                    return POLL;
                }
            }
        }
    }

    async fn until_next(&self) -> Duration {
        let next = async { queue::next_due_in(&mut self.db.read().await?).await }.await;
        match next {
            Ok(Some(wait)) => wait.clamp(Duration::from_millis(5), POLL),
            _ => POLL,
        }
    }

    /// Claims some of the due tasks. Returns whether any were claimed.
    async fn claim_some(
        self: &Arc<Self>,
        worker: Uuid,
        slots: &Arc<Semaphore>,
        free: usize,
    ) -> Result<bool, DbError> {
        // Claims few tasks at a time, and one per workspace if there are several, because every
        // claim changes the order.
        let limit = i64::try_from(free.min(4)).unwrap_or(1);
        let mut c = self.db.read().await?;
        let tenancy = queue::tenancy(&mut c).await?;
        let claimer = Claimer::new(worker, self.slots, tenancy);
        let due = queue::due(&mut c, claimer, limit).await?;
        drop(c);
        let mut claimed = false;
        let mut workspaces = HashSet::new();
        for due in due {
            if !workspaces.insert(due.workspace_id) && tenancy == Tenancy::Shared {
                continue;
            }
            let Ok(permit) = Arc::clone(slots).try_acquire_owned() else {
                break;
            };
            let key = due.workspace_id.0;
            let found = self
                .db
                .write(key, async move |c: &mut Conn| {
                    queue::claim(c, &due, claimer).await
                })
                .await?;
            let Some((task, lease)) = found else { continue };
            claimed = true;
            let this = Arc::clone(self);
            let span = span_of(&lease, task.kind);
            let work = async move {
                this.work(task, lease).await;
                drop(permit);
                this.queue.wake.notify_one();
            };
            self.tracker.spawn(work.instrument(span));
        }
        Ok(claimed)
    }

    async fn work(&self, task: Task, lease: Lease) {
        let Some(handler) = self.handlers.get(&task.kind) else {
            tracing::error!("no handler for this kind of task");
            return;
        };
        let stop = self.shutdown.child_token();
        self.queue.begin(&lease, stop.clone());
        failpoint!("worker_claimed");
        let started = std::time::Instant::now();
        let (kind, attempt) = (task.kind, task.attempt);
        // After a panic, the lease expires and the reaper requeues the task.
        tokio::select! {
            outcome = handler.run(task, lease, stop.clone()) => {
                if let Err(Abort::Db(e)) = outcome {
                    tracing::error!(error = %e, "a task failed; it will be retried");
                }
            }
            () = self.keep_lease(lease) => stop.cancel(),
        }
        self.queue.end(&lease);
        let took = started.elapsed();
        metrics::histogram!("openvibe_task_run_seconds", "kind" => kind.as_str()).record(took);
        tracing::debug!(attempt, duration_ms = telemetry::ms(took), "task run ended");
        if self.shutdown.is_cancelled() {
            let back = self
                .db
                .write(lease.workspace.0, async move |c: &mut Conn| {
                    queue::requeue_on_shutdown(c, &lease).await
                })
                .await;
            if let Err(e) = back {
                tracing::warn!(error = %e, "could not requeue a task at shutdown; its lease will expire");
            }
        }
    }

    /// Renews the lease until it is lost.
    async fn keep_lease(&self, lease: Lease) {
        let mut good_until = tokio::time::Instant::now() + lease_length();
        loop {
            tokio::time::sleep(lease_length() / RENEWED_IN_A_LEASE).await;
            failpoint!("worker_renew");
            let asked = tokio::time::Instant::now();
            let renewal = self.db.write(lease.workspace.0, async move |c: &mut Conn| {
                queue::renew(c, &lease).await?;
                Ok::<_, LeaseLost>(steers::has_unread(c, lease.task).await?)
            });
            match tokio::time::timeout_at(good_until, renewal).await {
                Ok(Ok(is_steered)) => {
                    good_until = asked + lease_length();
                    if is_steered {
                        // The signal may have been lost on its way from another node.
                        self.queue.steer(lease.task);
                    }
                }
                Ok(Err(LeaseLost::Gone)) | Err(_) => return,
                Ok(Err(LeaseLost::Db(e))) => {
                    tracing::warn!(error = %e, "could not renew a lease");
                }
            }
            if tokio::time::Instant::now() >= good_until {
                return;
            }
        }
    }

    async fn reap_loop(&self) {
        loop {
            if let Err(e) = self.reap().await {
                tracing::warn!(error = %e, "could not search for lost tasks");
            }
            tokio::select! {
                () = self.shutdown.cancelled() => return,
                () = tokio::time::sleep(lease_length() / REAPED_IN_A_LEASE) => {}
            }
        }
    }

    /// Requeues tasks whose lease has expired, and ends those that were lost too often.
    async fn reap(&self) -> Result<(), LeaseLost> {
        let mut c = self.db.read().await?;
        let lost = queue::lost(&mut c).await?;
        let mut leases = Vec::new();
        for lost in &lost {
            let audience = queue::audience_in(&mut c, lost.channel_id).await?;
            let lease = Lease {
                workspace: lost.workspace_id,
                task: lost.id,
                token: lost.lease_token,
                audience,
                target: lost.target(),
            };
            leases.push((lease, lost.kind));
        }
        drop(c);
        for (lease, kind) in leases {
            let span = span_of(&lease, kind);
            self.recover_lost(lease, kind).instrument(span).await?;
        }
        Ok(())
    }

    async fn recover_lost(&self, lease: Lease, kind: TaskKind) -> Result<(), LeaseLost> {
        tracing::warn!("task lost its worker");
        self.queue.stop_run(&lease);
        failpoint!("worker_recover");
        let back = self
            .db
            .write(lease.workspace.0, async move |c: &mut Conn| {
                queue::recover(c, &lease).await
            })
            .await;
        let lost = match back {
            Ok(true) => Ok(()),
            Ok(false) => match self.handlers.get(&kind) {
                Some(handler) => handler.fail_lost(lease).await,
                None => Ok(()),
            },
            Err(e) => Err(e),
        };
        match lost {
            Ok(()) => {
                metrics::counter!("openvibe_task_leases_lost_total").increment(1);
                Ok(())
            }
            // The task's worker has returned, or the task was ended in the meantime.
            Err(LeaseLost::Gone) => Ok(()),
            Err(e) => Err(e),
        }
    }
}
