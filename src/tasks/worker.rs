//! Claims due tasks, runs them, keeps their leases, and puts back what a lost worker left behind.

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
};
use crate::{
    db::{Conn, Db, DbError, now},
    failpoint, telemetry,
};

/// A look at the queue without being woken, should a wake-up have been missed.
const POLL: Duration = Duration::from_secs(1);
/// Lost leases are looked for so often in the length of one, and one that is kept is renewed so often.
const REAPED_IN_A_LEASE: u32 = 5;
const RENEWED_IN_A_LEASE: u32 = 3;

/// Does the work of one kind of task.
pub trait Handler: Send + Sync {
    /// Runs a claimed task to its end, or puts it back. Returns early once `stop` is cancelled; then it writes nothing more.
    fn run(&self, task: Task, lease: Lease, stop: CancellationToken) -> BoxFuture<'_, ()>;

    /// Ends a task whose worker was lost for the last time.
    fn give_up(&self, lease: Lease) -> BoxFuture<'_, Result<(), LeaseLost>>;
}

/// Why a handler comes back without having ended its task.
pub enum Abort {
    /// It was stopped, has lost its lease or put the task back: someone else decides what becomes of it.
    Stopped,
    /// The database failed; the lease runs out and the task is tried again.
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
    pub db: Db,
    pub queue: Arc<Queue>,
    pub handlers: HashMap<&'static str, Arc<dyn Handler>>,
    /// Tasks at once in this process.
    pub places: usize,
    pub tracker: TaskTracker,
    pub shutdown: CancellationToken,
}

/// What every line says that is logged while a task is worked on.
fn span_of(lease: &Lease, kind: &str) -> tracing::Span {
    tracing::info_span!(
        "task",
        task.id = %lease.task,
        task.kind = kind,
        agent.id = %lease.seat.agent,
        workspace.id = %lease.workspace,
    )
}

impl Worker {
    /// Runs until shutdown.
    pub async fn run(self) {
        let id = Uuid::now_v7();
        let places = Arc::new(Semaphore::new(self.places));
        let this = Arc::new(self);
        let reaper = Arc::clone(&this);
        this.tracker
            .spawn(async move { reaper.reap_forever().await });
        loop {
            let wait = this.claim_what_is_due(id, &places).await;
            tokio::select! {
                () = this.shutdown.cancelled() => return,
                () = this.queue.wake.notified() => {}
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    /// Fills the free places; how long there is nothing to do.
    async fn claim_what_is_due(
        self: &Arc<Self>,
        worker: Uuid,
        places: &Arc<Semaphore>,
    ) -> Duration {
        loop {
            let free = places.available_permits();
            if free == 0 || self.shutdown.is_cancelled() {
                return POLL;
            }
            match self.claim_some(worker, places, free).await {
                Ok(true) => {}
                Ok(false) => return self.until_next().await,
                Err(e) => {
                    tracing::error!(error = %e, "the queue could not be read; trying again");
                    return POLL;
                }
            }
        }
    }

    async fn until_next(&self) -> Duration {
        let next = async { queue::next_due_at(&mut self.db.read().await?).await }.await;
        match next {
            Ok(Some(at)) => at.since(now()).clamp(Duration::from_millis(5), POLL),
            _ => POLL,
        }
    }

    /// Whether anything was claimed.
    async fn claim_some(
        self: &Arc<Self>,
        worker: Uuid,
        places: &Arc<Semaphore>,
        free: usize,
    ) -> Result<bool, DbError> {
        // A few turns at a time, and one for each workspace where there are several: whatever is claimed changes whose turn
        // is next.
        let limit = i64::try_from(free.min(4)).unwrap_or(1);
        let mut c = self.db.read().await?;
        let tenancy = queue::tenancy(&mut c).await?;
        let claimer = Claimer::new(worker, self.places, tenancy);
        let due = queue::due(&mut c, claimer, limit).await?;
        drop(c);
        let mut claimed = false;
        let mut workspaces = HashSet::new();
        for due in due {
            if !workspaces.insert(due.workspace_id) && tenancy == Tenancy::Shared {
                continue;
            }
            let Ok(place) = Arc::clone(places).try_acquire_owned() else {
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
            let span = span_of(&lease, &task.kind);
            let work = async move {
                this.work(task, lease).await;
                drop(place);
                this.queue.wake.notify_one();
            };
            self.tracker.spawn(work.instrument(span));
        }
        Ok(claimed)
    }

    async fn work(&self, task: Task, lease: Lease) {
        let Some(handler) = self.handlers.get(task.kind.as_str()) else {
            tracing::error!("no handler for this kind of task");
            return;
        };
        let stop = self.shutdown.child_token();
        self.queue.begin(&lease, stop.clone());
        failpoint!("worker_claimed");
        let started = std::time::Instant::now();
        let (kind, attempt) = (task.kind.clone(), task.attempt);
        // A panic leaves the lease to the reaper, which tries again.
        tokio::select! {
            () = handler.run(task, lease, stop.clone()) => {}
            () = self.keep_lease(lease) => stop.cancel(),
        }
        self.queue.end(&lease);
        let took = started.elapsed();
        metrics::histogram!("openvibe_task_run_seconds", "kind" => kind).record(took);
        tracing::debug!(
            attempt,
            duration_ms = telemetry::ms(took),
            "a run of a task is over"
        );
        if self.shutdown.is_cancelled() {
            let back = self
                .db
                .write(lease.workspace.0, async move |c: &mut Conn| {
                    queue::hand_over(c, &lease).await
                })
                .await;
            if let Err(e) = back {
                tracing::warn!(error = %e, "a task could not be put back at shutdown; its lease will run out");
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
                queue::renew(c, &lease).await
            });
            match tokio::time::timeout_at(good_until, renewal).await {
                Ok(Ok(())) => good_until = asked + lease_length(),
                Ok(Err(LeaseLost::Gone)) | Err(_) => return,
                Ok(Err(LeaseLost::Db(e))) => {
                    tracing::warn!(error = %e, "a lease could not be renewed");
                }
            }
            if tokio::time::Instant::now() >= good_until {
                return;
            }
        }
    }

    async fn reap_forever(&self) {
        loop {
            if let Err(e) = self.reap().await {
                tracing::warn!(error = %e, "lost tasks could not be looked for");
            }
            tokio::select! {
                () = self.shutdown.cancelled() => return,
                () = tokio::time::sleep(lease_length() / REAPED_IN_A_LEASE) => {}
            }
        }
    }

    /// Puts back tasks whose lease has run out; ends those that were lost too often.
    async fn reap(&self) -> Result<(), LeaseLost> {
        let mut c = self.db.read().await?;
        let lost = queue::lost(&mut c).await?;
        let mut leases = Vec::new();
        for lost in &lost {
            let audience = queue::audience_of(&mut c, lost.channel_id).await?;
            let lease = Lease {
                workspace: lost.workspace_id,
                task: lost.id,
                token: lost.lease_token,
                audience,
                seat: lost.seat(),
            };
            leases.push((lease, lost.kind.as_str()));
        }
        drop(c);
        for (lease, kind) in leases {
            let span = span_of(&lease, kind);
            self.take_back(lease, kind).instrument(span).await?;
        }
        Ok(())
    }

    async fn take_back(&self, lease: Lease, kind: &str) -> Result<(), LeaseLost> {
        tracing::warn!("a task lost its worker");
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
            Ok(false) => match self.handlers.get(kind) {
                Some(handler) => handler.give_up(lease).await,
                None => Ok(()),
            },
            Err(e) => Err(e),
        };
        match lost {
            Ok(()) => {
                metrics::counter!("openvibe_task_leases_lost_total").increment(1);
                Ok(())
            }
            // Its worker has come back, or somebody ended the task.
            Err(LeaseLost::Gone) => Ok(()),
            Err(e) => Err(e),
        }
    }
}
