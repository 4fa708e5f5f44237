//! The slow lane: connections for reads of several statements, such as searches, snapshots, and lists.
//!
//! Authentication and single reads have their own connections, so a long read only delays other long reads. Each read
//! has a deadline that the engine enforces. Shares per person and workspace keep anyone from using the whole lane.

use std::{
    collections::HashMap,
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use sqlx::{
    SqlitePool,
    sqlite::{SqliteConnectOptions, SqlitePoolOptions},
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use uuid::Uuid;

use super::error::{DbError, SCAN_DEADLINE};

/// Maximum wait for a connection of the slow lane.
const WAIT_DEADLINE: Duration = Duration::from_secs(5);
/// Maximum number of waiting reads per person or workspace; further ones are rejected immediately.
const WAITING_MAX: usize = 256;
/// Size of the share table beyond which idle entries are removed.
const SHARES_KEPT: usize = 1024;
/// Instructions of `SQLite`'s virtual machine between two checks of the deadline: about 20 µs.
const OPS_PER_CHECK: i32 = 1000;

/// Share of the slow lane that a read uses.
#[derive(Debug, Clone, Copy)]
pub struct Share {
    pub person: Uuid,
    pub workspace: Uuid,
}

/// Slots of the slow lane and their shares.
pub(super) struct Lane {
    slots: Arc<Semaphore>,
    people: Shares,
    workspaces: Shares,
}

/// Slot in the lane, released on drop.
pub(super) struct LanePermit {
    _permits: [OwnedSemaphorePermit; 3],
}

impl Lane {
    /// A person can use up to a third of the slots, a workspace all but one.
    pub(super) fn new(size: usize) -> Self {
        Self {
            slots: Arc::new(Semaphore::new(size)),
            people: Shares::new((size / 3).max(1)),
            workspaces: Shares::new(size.saturating_sub(1).max(1)),
        }
    }

    /// # Errors
    /// `Busy` if no slot becomes free in time, or too many reads of the person or workspace are waiting.
    pub(super) async fn enter(&self, share: Share) -> Result<LanePermit, DbError> {
        let enter = async {
            let person = self.people.take(share.person).await?;
            let workspace = self.workspaces.take(share.workspace).await?;
            let permit = Arc::clone(&self.slots).acquire_owned().await;
            let permit = permit.map_err(|_| DbError::Closed)?;
            Ok(LanePermit {
                _permits: [person, workspace, permit],
            })
        };
        tokio::time::timeout(WAIT_DEADLINE, enter)
            .await
            .unwrap_or(Err(DbError::Busy))
    }
}

struct Shares {
    size: usize,
    semaphores: Mutex<HashMap<Uuid, Arc<Semaphore>>>,
}

impl Shares {
    fn new(size: usize) -> Self {
        Self {
            size,
            semaphores: Mutex::default(),
        }
    }

    fn of(&self, key: Uuid) -> Arc<Semaphore> {
        let mut all = self
            .semaphores
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if all.len() > SHARES_KEPT {
            // Permits and waiting reads hold references.
            all.retain(|_, semaphore| Arc::strong_count(semaphore) > 1);
        }
        let semaphore = all
            .entry(key)
            .or_insert_with(|| Arc::new(Semaphore::new(self.size)));
        Arc::clone(semaphore)
    }

    async fn take(&self, key: Uuid) -> Result<OwnedSemaphorePermit, DbError> {
        let semaphore = self.of(key);
        if Arc::strong_count(&semaphore) > WAITING_MAX {
            return Err(DbError::Busy);
        }
        semaphore.acquire_owned().await.map_err(|_| DbError::Closed)
    }
}

/// Deadline of the read on a `SQLite` connection, checked by its progress handler.
#[derive(Clone, Default)]
pub(super) struct Deadline {
    /// Milliseconds since `START`; 0 if there is no deadline.
    until: Arc<AtomicU64>,
}

static START: std::sync::LazyLock<Instant> = std::sync::LazyLock::new(Instant::now);

fn elapsed_ms() -> u64 {
    u64::try_from(START.elapsed().as_millis()).unwrap_or(u64::MAX)
}

impl Deadline {
    fn set(&self, within: Duration) {
        let within = u64::try_from(within.as_millis()).unwrap_or(u64::MAX);
        let until = elapsed_ms().saturating_add(within).max(1);
        self.until.store(until, Ordering::Relaxed);
    }

    /// Interrupts the running statement.
    pub(super) fn expire(&self) {
        self.until.store(1, Ordering::Relaxed);
    }

    pub(super) fn clear(&self) {
        self.until.store(0, Ordering::Relaxed);
    }

    /// Checks whether the running statement can continue. Interrupts only once, so that the rollback can run.
    fn allows(&self) -> bool {
        let until = self.until.load(Ordering::Relaxed);
        if until == 0 || elapsed_ms() < until {
            return true;
        }
        self.clear();
        false
    }
}

/// Connection of `SQLite`'s slow lane: a pool of size one, so that its progress handler knows the deadline.
struct Reader {
    pool: SqlitePool,
    deadline: Deadline,
}

/// `SQLite`'s slow lane.
pub(super) struct SqliteLane {
    lane: Lane,
    readers: Vec<Reader>,
    idle: Arc<Mutex<Vec<usize>>>,
}

/// Reader of `SQLite`'s slow lane that is in use.
pub(super) struct ReaderPermit {
    index: usize,
    idle: Arc<Mutex<Vec<usize>>>,
    pub(super) deadline: Deadline,
    _permit: LanePermit,
}

impl Drop for ReaderPermit {
    fn drop(&mut self) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.push(self.index);
    }
}

impl SqliteLane {
    pub(super) async fn open(
        size: usize,
        path: &Path,
        options: impl Fn(&Path) -> SqliteConnectOptions,
    ) -> Result<Self, DbError> {
        let mut readers = Vec::with_capacity(size);
        for _ in 0..size {
            let deadline = Deadline::default();
            let of_handler = deadline.clone();
            let pool = SqlitePoolOptions::new()
                .max_connections(1)
                .acquire_timeout(WAIT_DEADLINE)
                .idle_timeout(None)
                .max_lifetime(None)
                .test_before_acquire(false)
                .after_connect(move |c, _| {
                    let deadline = of_handler.clone();
                    Box::pin(async move {
                        c.lock_handle()
                            .await?
                            .set_progress_handler(OPS_PER_CHECK, move || deadline.allows());
                        Ok(())
                    })
                })
                .connect_with(options(path).read_only(true))
                .await?;
            readers.push(Reader { pool, deadline });
        }
        Ok(Self {
            lane: Lane::new(size),
            idle: Arc::new(Mutex::new((0..size).collect())),
            readers,
        })
    }

    /// Begins a transaction on an idle reader; returns it with the slot.
    pub(super) async fn begin(
        &self,
        share: Share,
    ) -> Result<(sqlx::Transaction<'static, sqlx::Sqlite>, ReaderPermit), DbError> {
        let permit = self.lane.enter(share).await?;
        let index = self
            .idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop();
        // There are as many slots as readers, and a reader becomes idle before its slot is released.
        let reader = index.and_then(|index| self.readers.get(index).map(|reader| (index, reader)));
        let (index, reader) = reader.ok_or(DbError::Busy)?;
        let permit = ReaderPermit {
            index,
            idle: Arc::clone(&self.idle),
            deadline: reader.deadline.clone(),
            _permit: permit,
        };
        let begin = async || reader.pool.begin_with("begin deferred").await;
        let tx = match begin().await {
            // A late interrupt for a dropped read hit this statement: retry once.
            Err(sqlx::Error::Database(_)) => begin().await,
            begun => begun,
        };
        let tx = tx.map_err(|e| match e {
            sqlx::Error::PoolTimedOut => DbError::Busy,
            e => e.into(),
        })?;
        reader.deadline.set(SCAN_DEADLINE);
        Ok((tx, permit))
    }

    pub(super) async fn close(&self) {
        for reader in &self.readers {
            reader.pool.close().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    fn share(person: u128, workspace: u128) -> Share {
        Share {
            person: Uuid::from_u128(person),
            workspace: Uuid::from_u128(workspace),
        }
    }

    #[tokio::test]
    async fn one_user_and_one_workspace_leave_capacity_for_others() {
        let lane = Lane::new(6);
        let enters = |person, workspace| {
            let entered = lane.enter(share(person, workspace)).now_or_never();
            entered.and_then(Result::ok)
        };
        let mut held = Vec::new();
        for person in [1, 1, 2, 2, 3] {
            held.push(enters(person, 1).unwrap());
        }
        assert!(enters(1, 2).is_none(), "a third for one person");
        assert!(enters(4, 1).is_none(), "one workspace");
        held.push(enters(4, 2).unwrap());
        assert!(enters(5, 3).is_none(), "no place");
        held.pop();
        assert!(enters(5, 3).is_some());
    }

    #[tokio::test]
    async fn queued_reads_of_one_user_are_limited() {
        let lane = Lane::new(3);
        let _held = lane.enter(share(1, 1)).await.unwrap();
        let mut waiting = Vec::new();
        let mut rejected = 0;
        for _ in 0..WAITING_MAX * 2 {
            let mut entering = Box::pin(lane.enter(share(1, 1)));
            match futures::poll!(entering.as_mut()) {
                std::task::Poll::Ready(entered) => {
                    assert!(matches!(entered, Err(DbError::Busy)));
                    rejected += 1;
                }
                std::task::Poll::Pending => waiting.push(entering),
            }
        }
        assert!(
            !waiting.is_empty() && waiting.len() <= WAITING_MAX && rejected >= WAITING_MAX,
            "{} wait, {rejected} were rejected",
            waiting.len()
        );
    }

    #[test]
    fn a_deadline_interrupts_only_once() {
        let deadline = Deadline::default();
        assert!(deadline.allows());
        deadline.set(Duration::from_hours(1));
        assert!(deadline.allows());
        deadline.expire();
        // A deadline in the first millisecond of the process would count as expired.
        std::thread::sleep(Duration::from_millis(2));
        assert!(!deadline.allows());
        assert!(deadline.allows(), "the rollback runs");
    }
}
