//! Group commit: a thread drains a bounded queue of commands (see `write_queue`), runs them in one transaction, commits once, and
//! then returns the results.
//!
//! ```text
//! write() ─► queue ─► [begin · command · command · … · commit] ─► notices to the listener ─► replies
//! ```
//!
//! A batch runs without savepoints. If a command fails before it changed anything, only that command fails. If it fails later,
//! the whole batch is rolled back and its commands run again, each in its own transaction. Therefore commands must be repeatable,
//! which also allows retries after serialization failures, deadlocks, and lost connections. `SQLite` has one writer. `PostgreSQL`
//! has several in each process, with workspaces distributed by hash. A batch contains only commands of one workspace and begins
//! by locking the workspace's row, so that batches of all processes run one after the other and never deadlock.
//! Workspaces take turns: on `SQLite`, a batch contains a command of each workspace that has any, then further ones; on
//! `PostgreSQL`, each workspace has a batch in turn.

use std::{
    any::Any,
    cell::{Cell, RefCell},
    panic::AssertUnwindSafe,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{FutureExt, future::LocalBoxFuture};
use sqlx::PgPool;
use tokio::sync::{oneshot, watch};
use tracing::{Instrument, Span};
use uuid::Uuid;

use super::{
    conn::{CommitMarker, CommitSignal, Conn},
    dialect,
    engine::Engine,
    error::DbError,
    fault::sqlstate,
    sessions::{Connections, Faults, Purpose, Server},
    sqlite::{BUSY_TIMEOUT, SqlitePool},
    write_queue::{Barrier, Mix, QueueBounds, Round, Served, Slot, WriteQueue},
};
use crate::{
    failpoint,
    telemetry::{self, BATCH_SIZE, COMMIT_SECONDS},
};

/// Maximum number of commands per transaction; more would delay the first one without increasing throughput.
const BATCH_MAX: usize = 64;
/// Time after which a transaction starts no further command, so that a workspace with long commands does not delay the others. About
/// four times the duration of a full batch of posts.
const BATCH_WITHIN: Duration = Duration::from_millis(20);
/// Maximum number of queued commands of all workspaces. One workspace can have at most `SHARE_MAX` of them. Further callers wait for
/// up to `QUEUE_WITHIN`.
const QUEUE_MAX: usize = 2048;
const SHARE_MAX: usize = QUEUE_MAX / 4;
const QUEUE_WITHIN: Duration = Duration::from_secs(10);
pub(super) const POSTGRES_WRITERS: usize = 4;
/// Time for which a write is retried while the database fails, counted from the request.
const REPEAT_DEADLINE: Duration = Duration::from_secs(15);
/// Same as `REPEAT_DEADLINE`, for `SQLite`, which has no server that could become available again.
const SQLITE_REPEAT_DEADLINE: Duration = Duration::from_secs(3);
const REPEAT_DELAY_MAX: Duration = Duration::from_secs(1);
/// Maximum wait of a writer for a new connection.
const CONNECT_DEADLINE: Duration = Duration::from_secs(3);
/// Maximum wait for readers in an attempt to truncate the log, during which the writer runs nothing else.
const TRUNCATE_WAIT: Duration = Duration::from_millis(20);
/// Pause between two attempts to truncate the log.
const TRUNCATE_PAUSE: Duration = Duration::from_millis(200);
/// Time limit for all attempts to truncate the log; longer than the deadline of a read in the slow lane.
const TRUNCATE_DEADLINE: Duration = Duration::from_secs(8);
/// Duration above which commands and batches are logged.
const SLOW: Duration = Duration::from_secs(1);

/// Callback for the signals of committed batches, in commit order.
pub type Listener = Arc<dyn Fn(Vec<CommitSignal>) + Send + Sync>;

/// A transaction of this workspace was committed, but its signals were lost with the connection.
pub struct LostSignals(pub Uuid);

/// Result of a command: a `Result<T, E>` whose types only its caller knows.
type Outcome = Box<dyn Any + Send>;

/// A command without its types: code that runs commands is compiled once, and not for each of them.
trait Command: Send {
    /// Runs the command, and keeps its result. Returns true if it succeeded.
    fn run<'a>(&'a self, c: &'a mut Conn) -> LocalBoxFuture<'a, bool>;
    /// Replaces the result with `error`.
    fn fail(&self, error: DbError);
    fn into_outcome(self: Box<Self>) -> Outcome;
}

struct Typed<F, T, E> {
    command: F,
    outcome: RefCell<Option<Result<T, E>>>,
}

impl<F, T, E> Command for Typed<F, T, E>
where
    T: Send + 'static,
    E: From<DbError> + Send + 'static,
    F: AsyncFn(&mut Conn) -> Result<T, E> + Send + 'static,
{
    fn run<'a>(&'a self, c: &'a mut Conn) -> LocalBoxFuture<'a, bool> {
        Box::pin(async move {
            let outcome = (self.command)(c).await;
            let succeeded = outcome.is_ok();
            *self.outcome.borrow_mut() = Some(outcome);
            succeeded
        })
    }

    fn fail(&self, error: DbError) {
        *self.outcome.borrow_mut() = Some(Err(error.into()));
    }

    fn into_outcome(self: Box<Self>) -> Outcome {
        let closed = || Err::<T, E>(DbError::Closed.into());
        Box::new(self.outcome.into_inner().unwrap_or_else(closed))
    }
}

struct Job {
    key: Uuid,
    command: Box<dyn Command>,
    /// Span of the request or task that issued the command, for log lines about it.
    span: Span,
    requested_at: Instant,
    reply: oneshot::Sender<Outcome>,
}

impl Job {
    /// Runs the command. Returns true if it succeeded.
    async fn run(&self, c: &mut Conn) -> bool {
        let run = AssertUnwindSafe(self.command.run(c)).catch_unwind();
        let done = run.instrument(self.span.clone()).await;
        done.unwrap_or_else(|_| {
            self.command.fail(DbError::Panicked);
            false
        })
    }

    fn fail(&self, error: DbError) {
        self.command.fail(error);
    }

    fn answer(self) {
        // The caller may be gone (canceled request); the write is committed anyway.
        drop(self.reply.send(self.command.into_outcome()));
    }
}

enum Source {
    Lite(SqlitePool),
    Pg(PgPool, Arc<Faults>),
}

impl Source {
    async fn acquire(&self) -> Result<Conn, DbError> {
        Ok(match self {
            Self::Lite(pool) => Conn::lite(pool.acquire().await?),
            Self::Pg(pool, faults) => Conn::pg(pool.acquire().await?, Arc::clone(faults)),
        })
    }
}

pub(super) struct Writers {
    queues: Vec<Arc<WriteQueue<Job>>>,
    threads: std::sync::Mutex<Vec<std::thread::JoinHandle<()>>>,
    engine: Engine,
    /// Number of writers without a connection.
    disconnected: watch::Receiver<usize>,
    /// Pool of the single writer of `SQLite`.
    pool: Option<SqlitePool>,
}

impl Writers {
    pub(super) fn sqlite(pool: SqlitePool, listener: &Listener) -> Result<Self, DbError> {
        let mut writers = Self::start(vec![Source::Lite(pool.clone())], Engine::Sqlite, listener)?;
        writers.pool = Some(pool);
        Ok(writers)
    }

    pub(super) async fn postgres(
        server: &Server<'_>,
        listener: &Listener,
    ) -> Result<Self, DbError> {
        let mut sources = Vec::new();
        for _ in 0..POSTGRES_WRITERS {
            let pool = server.connect(Purpose::Write, 1, CONNECT_DEADLINE).await?;
            sources.push(Source::Pg(pool, Arc::clone(&server.faults)));
        }
        Self::start(sources, Engine::Postgres, listener)
    }

    fn start(sources: Vec<Source>, engine: Engine, listener: &Listener) -> Result<Self, DbError> {
        let bounds = QueueBounds {
            total: QUEUE_MAX,
            share: SHARE_MAX,
            batch: BATCH_MAX,
        };
        let mix = match engine {
            Engine::Sqlite => Mix::Turns,
            Engine::Postgres => Mix::OneKey,
        };
        let (disconnected, watched) = watch::channel(0);
        let mut writers = Self {
            queues: Vec::new(),
            threads: std::sync::Mutex::default(),
            engine,
            disconnected: watched,
            pool: None,
        };
        let mut threads = Vec::new();
        let runtime = tokio::runtime::Handle::current();
        for (n, source) in sources.into_iter().enumerate() {
            let queue = WriteQueue::new(bounds, mix);
            let served = Served(Arc::clone(&queue));
            writers.queues.push(queue);
            let writer = Writer {
                source,
                kept: RefCell::new(None),
                disconnected: disconnected.clone(),
                is_disconnected: Cell::new(false),
                engine,
                listener: Arc::clone(listener),
            };
            let runtime = runtime.clone();
            #[cfg(test_hooks)]
            let test = super::statements::current_test();
            let thread = std::thread::Builder::new()
                .name(format!("writer-{n}"))
                // Commands stay on this thread, so their futures need not be `Send`.
                .spawn(move || {
                    #[cfg(test_hooks)]
                    super::statements::enter(test);
                    runtime.block_on(writer.run(served));
                })
                .map_err(|e| DbError::Start(format!("could not start a writer thread: {e}")))?;
            threads.push(thread);
        }
        writers.threads = std::sync::Mutex::new(threads);
        Ok(writers)
    }

    /// Returns the state of the writers' connections, for which readers wait.
    pub(super) fn connections(&self) -> Connections {
        Connections(self.disconnected.clone())
    }

    /// Makes every writer store and delete a row.
    pub(super) async fn probe(&self) -> Result<(), DbError> {
        let probes = (0..self.queues.len()).map(|n| {
            self.write_with(n, Slot::of(Uuid::nil()), async move |c: &mut Conn| {
                let key = format!("probe-{n}");
                c.q("insert into meta (key, value) values ($1, '')")
                    .bind(key.clone())
                    .run()
                    .await?;
                c.q("delete from meta where key = $1")
                    .bind(key)
                    .run()
                    .await?;
                Ok::<_, DbError>(())
            })
        });
        futures::future::try_join_all(probes).await?;
        Ok(())
    }

    /// Number of queued commands.
    pub(super) fn queued(&self) -> usize {
        self.queues.iter().map(|queue| queue.queued()).sum()
    }

    pub(super) fn write<T, E, F>(
        &self,
        slot: Slot,
        command: F,
    ) -> impl Future<Output = Result<T, E>>
    where
        T: Send + 'static,
        E: From<DbError> + Send + 'static,
        F: AsyncFn(&mut Conn) -> Result<T, E> + Send + 'static,
    {
        // The last bits of a v7 UUID are random.
        let n = usize::try_from(slot.key.as_u128() & 0xffff).unwrap_or(0) % self.queues.len();
        self.write_with(n, slot, command)
    }

    async fn write_with<T, E, F>(&self, n: usize, slot: Slot, command: F) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<DbError> + Send + 'static,
        F: AsyncFn(&mut Conn) -> Result<T, E> + Send + 'static,
    {
        let outcome = RefCell::new(None);
        let command = Box::new(Typed { command, outcome });
        let outcome = self.submit(n, slot, command).await?;
        let outcome = outcome.downcast().map_err(|_| DbError::Closed)?;
        *outcome
    }

    /// Queues a command, and returns its result.
    async fn submit(
        &self,
        n: usize,
        slot: Slot,
        command: Box<dyn Command>,
    ) -> Result<Outcome, DbError> {
        let (reply, mut answer) = oneshot::channel();
        let job = Job {
            key: slot.key,
            command,
            span: Span::current(),
            requested_at: Instant::now(),
            reply,
        };
        let answered = match self.queues[n].push(slot, job)? {
            None => answer.await,
            Some(outside) => match tokio::time::timeout(QUEUE_WITHIN, &mut answer).await {
                Ok(answered) => answered,
                Err(_) if outside.leave() => return Err(DbError::Busy),
                Err(_) => answer.await,
            },
        };
        answered.map_err(|_| DbError::Closed)
    }

    pub(super) async fn checkpoint(&self) -> Result<(), DbError> {
        if self.engine == Engine::Postgres {
            return Ok(());
        }
        let (reply, answer) = oneshot::channel();
        self.queues[0].push_barrier(reply)?;
        answer.await.map_err(|_| DbError::Closed)?
    }

    pub(super) async fn close(&self) {
        self.close_queues();
        let threads = self
            .threads
            .lock()
            .map(|mut t| std::mem::take(&mut *t))
            .unwrap_or_default();
        // The threads own their connections, and are joined only once.
        let joined = crate::blocking::blocking((), move || {
            for thread in threads {
                drop(thread.join());
            }
        });
        drop(joined.await);
    }

    fn close_queues(&self) {
        for queue in &self.queues {
            queue.close();
        }
    }

    /// Closes the connection of `SQLite`'s writer, after all others: the last connection checkpoints and deletes the
    /// write-ahead log, which a read-only connection cannot do.
    pub(super) async fn close_connection(&self) {
        if let Some(pool) = &self.pool {
            pool.close().await;
        }
    }
}

/// Truncation of the write-ahead log. It is attempted between transactions until no reader uses the log, so that a long read does not
/// block the writer.
#[derive(Default)]
struct Truncation {
    /// Callers and their deadlines.
    waiting: Vec<(Instant, Barrier)>,
    /// Time of the next attempt after one that failed.
    again_at: Option<Instant>,
}

impl Truncation {
    fn add(&mut self, barriers: Vec<Barrier>) {
        let deadline = Instant::now() + TRUNCATE_DEADLINE;
        let new = barriers.into_iter().map(|barrier| (deadline, barrier));
        self.waiting.extend(new);
    }

    /// Returns the next round of the queue, or an empty one when it is time for another attempt to truncate the log.
    async fn next_round(&self, queue: &Served<Job>) -> Option<Round<Job>> {
        let Some(again_at) = self.again_at else {
            return queue.next().await;
        };
        let next = tokio::time::timeout_at(again_at.into(), queue.next());
        next.await.unwrap_or_else(|_| Some(Round::default()))
    }

    fn is_due(&self) -> bool {
        !self.waiting.is_empty() && self.again_at.is_none_or(|at| at <= Instant::now())
    }

    /// Sends the result to all callers. If the log is still in use, only the callers whose deadline has passed receive it.
    fn note(&mut self, truncated: Result<bool, DbError>) {
        let now = Instant::now();
        let (outcome, over) = match truncated {
            Ok(true) => (Ok(()), now + TRUNCATE_DEADLINE),
            Ok(false) => (Err("the write-ahead log is in use".to_owned()), now),
            Err(e) => (Err(e.to_string()), now + TRUNCATE_DEADLINE),
        };
        let answered = self
            .waiting
            .extract_if(.., |(deadline, _)| *deadline <= over);
        for (_, reply) in answered {
            drop(reply.send(outcome.clone().map_err(DbError::Commit)));
        }
        self.again_at = (!self.waiting.is_empty()).then(|| now + TRUNCATE_PAUSE);
    }
}

impl Drop for Writers {
    /// Closes the queues, so that the threads of the writers end.
    fn drop(&mut self) {
        self.close_queues();
    }
}

struct Writer {
    source: Source,
    /// Connection that is kept after a successful commit, because returning it to its pool and taking it again would need two
    /// round trips.
    kept: RefCell<Option<Conn>>,
    /// Number of writers without a connection, shared by all writers.
    disconnected: watch::Sender<usize>,
    is_disconnected: Cell<bool>,
    engine: Engine,
    listener: Listener,
}

impl Writer {
    async fn run(self, queue: Served<Job>) {
        let mut truncation = Truncation::default();
        while let Some(round) = truncation.next_round(&queue).await {
            if !round.jobs.is_empty() {
                let started = Instant::now();
                let rest = self.run_batch(round.jobs).await;
                COMMIT_SECONDS.record(started.elapsed());
                queue.put_back(rest, round.origins);
            }
            truncation.add(round.barriers);
            if truncation.is_due() {
                truncation.note(self.truncate_log().await);
            }
        }
    }

    async fn acquire(&self) -> Result<Conn, DbError> {
        let kept = self.kept.borrow_mut().take();
        match kept {
            Some(c) if c.is_usable() => return Ok(c),
            Some(mut c) => c.discard(),
            None => {}
        }
        let acquired = self.source.acquire().await;
        self.note_connection(acquired.is_ok());
        acquired
    }

    /// Updates the number of writers without a connection. While there are any, readers wait before they open connections.
    fn note_connection(&self, is_open: bool) {
        if self.is_disconnected.replace(!is_open) == is_open {
            self.disconnected
                .send_modify(|n| if is_open { *n -= 1 } else { *n += 1 });
        }
    }

    /// Returns the signals of the committed transaction, and keeps its connection for the next one.
    fn keep(&self, mut c: Conn) -> Vec<CommitSignal> {
        let notices = std::mem::take(&mut c.notices);
        c.renew();
        *self.kept.borrow_mut() = Some(c);
        notices
    }

    /// Moves the write-ahead log into the database file and truncates it. Returns false if a reader still uses the log.
    async fn truncate_log(&self) -> Result<bool, DbError> {
        let mut c = self.acquire().await?;
        c.set_busy_timeout(TRUNCATE_WAIT)?;
        let truncate = c.q("pragma wal_checkpoint(truncate)");
        let truncated = truncate.one::<(i64, i64, i64)>().await;
        c.set_busy_timeout(BUSY_TIMEOUT)?;
        let (busy, _, _) = truncated?;
        Ok(busy == 0)
    }

    /// Runs jobs in one transaction, and returns those for which there was no time.
    async fn run_batch(&self, mut jobs: Vec<Job>) -> Vec<Job> {
        let mut rest = Vec::new();
        let stored = self.try_batch(&mut jobs, &mut rest).await;
        BATCH_SIZE.record(f64_from(jobs.len()));
        let mut left = match stored {
            Ok(notices) => {
                self.finish(jobs, notices);
                return rest;
            }
            Err(Failed { unknown: None, .. }) => self.run_each(jobs).await,
            Err(Failed {
                unknown: Some(marker),
                error,
            }) => self.settle(jobs, marker.as_ref(), error).await,
        };
        left.append(&mut rest);
        left
    }

    fn finish(&self, jobs: Vec<Job>, notices: Vec<CommitSignal>) {
        if !notices.is_empty() {
            (self.listener)(notices);
        }
        for job in jobs {
            job.answer();
        }
    }

    /// Begins a transaction for commands with this key. If the key is a workspace, its row is locked first on `PostgreSQL`, so
    /// that sequence numbers have no gaps with several processes, and data that commands read stays valid until the commit.
    async fn begin(&self, key: Uuid) -> Result<Conn, DbError> {
        let mut c = self.acquire().await?;
        if self.engine == Engine::Sqlite {
            c.control("begin immediate").await?;
            return Ok(c);
        }
        c.control("begin").await?;
        if !key.is_nil()
            && let Err(e) = dialect::lock_workspace(&mut c, key).await
        {
            self.roll_back(&mut c).await;
            return Err(e);
        }
        Ok(c)
    }

    /// Runs jobs in one transaction, and moves those for which there is no time to `rest`. After an error, either nothing was stored
    /// or the outcome is unknown.
    async fn try_batch(
        &self,
        jobs: &mut Vec<Job>,
        rest: &mut Vec<Job>,
    ) -> Result<Vec<CommitSignal>, Failed> {
        let key = jobs.first().map(|job| job.key).unwrap_or_default();
        let mut c = self.begin(key).await.map_err(|error| {
            note_retry(&state_of(&error));
            Failed {
                unknown: None,
                error: Some(error),
            }
        })?;
        let started = Instant::now();
        let mut run = 0;
        while let Some(job) = jobs.get(run) {
            if run > 0 && started.elapsed() >= BATCH_WITHIN {
                *rest = jobs.split_off(run);
                break;
            }
            run += 1;
            let (writes, notices) = (c.writes, c.notices.len());
            if run_watched(job, &mut c).await {
                continue;
            }
            let harmless = c.writes == writes && !c.failed;
            if !harmless {
                if let Some(state) = &c.retryable {
                    note_retry(state);
                }
                self.roll_back(&mut c).await;
                return Err(Failed {
                    unknown: None,
                    error: None,
                });
            }
            c.notices.truncate(notices);
        }
        if let Err(e) = c.store_pending().await {
            if let Some(state) = &c.retryable {
                note_retry(state);
            }
            self.roll_back(&mut c).await;
            return Err(Failed {
                unknown: None,
                error: Some(e),
            });
        }
        let started = Instant::now();
        failpoint!("before_commit");
        let committed = c.control("commit").await;
        tell_of_slow_commit(jobs, started.elapsed());
        if let Err(e) = committed {
            let marker = c.marker.take();
            self.roll_back(&mut c).await;
            let unknown = (self.engine == Engine::Postgres).then_some(marker);
            return Err(Failed {
                unknown,
                error: Some(e),
            });
        }
        failpoint!("after_commit");
        Ok(self.keep(c))
    }

    async fn roll_back(&self, c: &mut Conn) {
        if let Err(e) = c.control("rollback").await {
            tracing::warn!(error = %e, "could not roll back a transaction; its connection is closed");
            c.discard();
        }
    }

    /// Runs each job in its own transaction, so that failures do not affect other jobs. Returns those for which there was no time.
    async fn run_each(&self, jobs: Vec<Job>) -> Vec<Job> {
        let started = Instant::now();
        let (mut jobs, mut away) = (jobs.into_iter(), None);
        for job in jobs.by_ref() {
            if let Some(error) = &away {
                // Each remaining job would wait as long as the first one and fail as well.
                job.fail(DbError::Away(String::clone(error)));
                job.answer();
            } else {
                away = self.run_one(job).await;
                if away.is_none() && started.elapsed() >= BATCH_WITHIN {
                    break;
                }
            }
        }
        jobs.collect()
    }

    /// Runs a job in its own transaction, and repeats it after transient failures. Returns the last error if the database does not
    /// respond.
    async fn run_one(&self, job: Job) -> Option<String> {
        let repeat_within = match self.engine {
            Engine::Sqlite => SQLITE_REPEAT_DEADLINE,
            Engine::Postgres => REPEAT_DEADLINE,
        };
        let mut delay = Duration::from_millis(20);
        for attempt in 1_u32.. {
            let outcome = self.try_one(&job).await;
            match outcome {
                Ok(notices) => {
                    self.finish(vec![job], notices);
                    return None;
                }
                Err(OneFailed::Command) => {
                    job.answer();
                    return None;
                }
                Err(OneFailed::Unknown(marker, error)) => {
                    // Returns no job, because the first one always runs.
                    drop(self.settle(vec![job], marker.as_ref(), Some(error)).await);
                    return None;
                }
                Err(OneFailed::Retry(error, _))
                    if job.requested_at.elapsed() + delay >= repeat_within =>
                {
                    job.span.in_scope(|| {
                        tracing::error!(error = %error, attempts = attempt, "a write failed");
                    });
                    let text = error.to_string();
                    job.fail(error);
                    job.answer();
                    return Some(text);
                }
                Err(OneFailed::Retry(error, state)) => {
                    note_retry(&state);
                    job.span.in_scope(|| {
                        tracing::warn!(error = %error, sqlstate = state, attempt, "retrying a write");
                    });
                    tokio::time::sleep(delay).await;
                    delay = (delay * 3).min(REPEAT_DELAY_MAX);
                }
            }
        }
        None
    }

    async fn try_one(&self, job: &Job) -> Result<Vec<CommitSignal>, OneFailed> {
        let begun = self.begin(job.key).await;
        let mut c = begun.map_err(|error| {
            let state = state_of(&error);
            OneFailed::Retry(error, state)
        })?;
        let mut succeeded = run_watched(job, &mut c).await;
        if succeeded && let Err(e) = c.store_pending().await {
            job.fail(e);
            succeeded = false;
        }
        if !succeeded {
            let retryable = c.retryable.take();
            self.roll_back(&mut c).await;
            return Err(match retryable {
                Some(state) => {
                    let error = format!("a statement failed with SQLSTATE {state}");
                    OneFailed::Retry(DbError::Away(error), state)
                }
                None => OneFailed::Command,
            });
        }
        failpoint!("before_commit");
        if let Err(e) = c.control("commit").await {
            let marker = c.marker.take();
            self.roll_back(&mut c).await;
            return Err(if self.engine == Engine::Postgres {
                OneFailed::Unknown(marker, e)
            } else {
                job.fail(e);
                OneFailed::Command
            });
        }
        failpoint!("after_commit");
        Ok(self.keep(c))
    }

    /// Handles a connection that was lost during the commit. The event log shows whether the commit happened. Returns jobs like
    /// `run_each`.
    async fn settle(
        &self,
        jobs: Vec<Job>,
        marker: Option<&CommitMarker>,
        error: Option<DbError>,
    ) -> Vec<Job> {
        let error = error.map_or_else(|| "the connection was lost".to_owned(), |e| e.to_string());
        for job in &jobs {
            job.span
                .in_scope(|| tracing::warn!(error, "the outcome of a commit is unknown"));
        }
        let committed = match marker {
            Some(marker) => self.is_committed(marker).await,
            None => None,
        };
        match committed {
            Some(true) => {
                let workspace = marker.map(|marker| marker.workspace).unwrap_or_default();
                self.finish(jobs, vec![Box::new(LostSignals(workspace))]);
            }
            Some(false) => return Box::pin(self.run_each(jobs)).await,
            None => {
                for job in jobs {
                    job.fail(DbError::Commit(error.clone()));
                    job.answer();
                }
            }
        }
        Vec::new()
    }

    /// Checks whether the transaction was committed; `None` if the database does not respond.
    async fn is_committed(&self, marker: &CommitMarker) -> Option<bool> {
        let mut delay = Duration::from_millis(100);
        let began = Instant::now();
        while began.elapsed() < REPEAT_DEADLINE {
            // Taking the lock waits for a commit that is still in progress on the server.
            if let Ok(mut c) = self.acquire().await
                && dialect::lock_workspace(&mut c, marker.workspace)
                    .await
                    .is_ok()
            {
                let found = c
                    .q("select seq from events where workspace_id = $1 and seq = $2 and ts = $3")
                    .bind(marker.workspace)
                    .bind(marker.seq)
                    .bind(marker.ts)
                    .opt::<(i64,)>()
                    .await;
                if let Ok(row) = found {
                    return Some(row.is_some());
                }
            }
            tokio::time::sleep(delay).await;
            delay = (delay * 2).min(REPEAT_DELAY_MAX);
        }
        None
    }
}

fn state_of(error: &DbError) -> String {
    match error {
        DbError::Sql(e) => sqlstate(e),
        // All other errors mean that this process closed the connection.
        _ => "08006".to_owned(),
    }
}

/// Counts a command that runs again after a transient failure.
fn note_retry(state: &str) {
    metrics::counter!("openvibe_db_retries_total", "sqlstate" => state.to_owned()).increment(1);
}

/// Runs a command, and logs it if it is slow and therefore delays the batch.
async fn run_watched(job: &Job, c: &mut Conn) -> bool {
    let started = Instant::now();
    let succeeded = job.run(c).await;
    let took = started.elapsed();
    if took >= SLOW {
        job.span.in_scope(|| {
            tracing::warn!(duration_ms = telemetry::ms(took), "slow write command");
        });
    }
    succeeded
}

fn tell_of_slow_commit(jobs: &[Job], took: Duration) {
    if took >= SLOW {
        for job in jobs {
            job.span.in_scope(|| {
                tracing::warn!(
                    duration_ms = telemetry::ms(took),
                    commands = jobs.len(),
                    "slow commit"
                );
            });
        }
    }
}

struct Failed {
    /// `Some` if the commit itself failed, so that its outcome is unknown; contains the commit marker, if there is one.
    unknown: Option<Option<CommitMarker>>,
    error: Option<DbError>,
}

enum OneFailed {
    /// The command returned an error, which is stored in the job.
    Command,
    /// The error and its SQLSTATE.
    Retry(DbError, String),
    Unknown(Option<CommitMarker>, DbError),
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a batch has at most 64 commands"
)]
fn f64_from(n: usize) -> f64 {
    n as f64
}
