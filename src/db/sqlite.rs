//! Connections to the `SQLite` file, and the threads on which their statements run.
//!
//! Each reader has a thread. A statement, or a whole read (`Conn::run`), is sent to it once; statements that run on the thread
//! itself need no further switches. The connection is moved along with the work, so that an abandoned read releases it on that
//! thread. The writer's connection has no thread, because it is used only on the thread of the writer (see `writer`).

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread::ThreadId,
    time::{Duration, Instant},
};

use openvibe_sqlite::{
    SqliteArguments, SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqliteSynchronous,
};
use sqlx::Row as _;
use tokio::{
    runtime::Handle,
    sync::{OwnedSemaphorePermit, Semaphore},
};

use super::{
    error::{DbError, SCAN_DEADLINE},
    lanes::{Lane, LanePermit, Share},
    sessions::{READ_WAIT, STATEMENTS_KEPT},
};

/// Upper limit for the number of fast lane connections, which is the number of cores + 3. The writer's connection is not included.
const READERS_MAX: usize = 16;
/// Upper limit for the number of slow lane connections, which is the number of cores + 1, but at least 3.
const SCANNERS_MAX: usize = 8;
/// Maximum size of a file that is checked for damage at startup; the check then takes one or two seconds.
const CHECKED_BYTES_MAX: u64 = 512 * 1024 * 1024;
/// Number of instructions of `SQLite`'s virtual machine between checks of the deadline; about 20 µs.
const OPS_PER_CHECK: i32 = 1000;
/// Maximum wait for locks held by other connections.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
/// Stack size of a reader's thread, because futures of reads are large in debug builds.
const STACK_BYTES: usize = 4 * 1024 * 1024;
/// Increase of the nice value of a reader's thread.
#[cfg(target_os = "linux")]
const READER_NICE: i32 = 5;
#[cfg(target_os = "linux")]
const NICE_MAX: i32 = 19;

pub(super) fn options(path: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .journal_mode(SqliteJournalMode::Wal)
        // An acknowledged write survives a power failure.
        .synchronous(SqliteSynchronous::Full)
        .foreign_keys(true)
        .busy_timeout(BUSY_TIMEOUT)
        // Overwrites deleted text with zeros.
        .pragma("secure_delete", "ON")
        .pragma("temp_store", "MEMORY")
        .pragma("cache_size", "-16384")
        .statement_cache_capacity(STATEMENTS_KEPT)
}

/// Checks for damage and for write access before anything is written.
///
/// Virtual tables are not checked, because that would read all text again. Files larger than `CHECKED_BYTES_MAX` are not checked
/// either, because startup must not take minutes.
fn check(c: &mut SqliteConnection, path: &Path) -> Result<(), DbError> {
    for sql in ["begin immediate", "rollback"] {
        c.run(sql, None)?;
    }
    if std::fs::metadata(path).is_ok_and(|file| file.len() > CHECKED_BYTES_MAX) {
        tracing::info!("skipped the damage check: the database is large");
        return Ok(());
    }
    let tables = texts(
        c,
        "select name from sqlite_schema where type = 'table' and rootpage > 0 order by name",
    )?;
    for table in tables {
        let sql = format!("pragma quick_check('{}')", table.replace('\'', "''"));
        let found = texts(c, &sql)?;
        if let Some(damage) = found.into_iter().find(|line| line != "ok") {
            return Err(DbError::Damaged(format!("{table}: {damage}")));
        }
    }
    Ok(())
}

/// First column of the result of a statement.
fn texts(c: &mut SqliteConnection, sql: &str) -> Result<Vec<String>, sqlx::Error> {
    let mut texts = Vec::new();
    c.each(sql, None, false, &mut |row| {
        texts.push(row.try_get(0)?);
        Ok::<_, sqlx::Error>(())
    })?;
    Ok(texts)
}

/// Lowers the priority of the current thread: when all processors are busy, the writer and the threads that serve requests run
/// first. Only Linux has a nice value for each thread.
#[cfg(target_os = "linux")]
fn lower_priority() {
    use rustix::process::{getpriority_process, setpriority_process};

    let lowered = getpriority_process(None)
        .and_then(|nice| setpriority_process(None, (nice + READER_NICE).min(NICE_MAX)));
    if let Err(e) = lowered {
        tracing::debug!(error = %e, "could not lower the priority of a reader");
    }
}

#[cfg(not(target_os = "linux"))]
fn lower_priority() {}

type Job = Box<dyn FnOnce() + Send>;

/// Thread on which the statements of a connection run. The thread ends together with the connection.
struct ReaderThread {
    id: ThreadId,
    jobs: mpsc::Sender<Job>,
}

impl ReaderThread {
    fn start(runtime: Handle) -> Result<Self, DbError> {
        let (jobs, received) = mpsc::channel::<Job>();
        #[cfg(test_hooks)]
        let test = super::statements::current_test();
        let run = move || {
            #[cfg(test_hooks)]
            super::statements::enter(test);
            lower_priority();
            let _context = runtime.enter();
            for job in received {
                // A caller whose job panicked finds its channel closed.
                drop(catch_unwind(AssertUnwindSafe(job)));
            }
        };
        let thread = std::thread::Builder::new()
            .name("reader".to_owned())
            .stack_size(STACK_BYTES)
            .spawn(run)
            .map_err(|e| DbError::Start(format!("could not start a reader thread: {e}")))?;
        Ok(Self {
            id: thread.thread().id(),
            jobs,
        })
    }
}

/// A connection and its thread. The connection of the writer has no thread.
struct Reader {
    connection: SqliteConnection,
    thread: Option<ReaderThread>,
}

impl Reader {
    /// Opens a read-only connection.
    fn open(path: &Path, runtime: Handle) -> Result<Self, DbError> {
        Ok(Self {
            connection: options(path).read_only(true).open()?,
            thread: Some(ReaderThread::start(runtime)?),
        })
    }
}

/// Pool of connections that are opened when they are first needed.
#[derive(Clone)]
pub(super) struct SqlitePool(Arc<Shared>);

struct Shared {
    path: PathBuf,
    size: usize,
    slots: Arc<Semaphore>,
    idle: Mutex<Vec<Reader>>,
    /// Held while a connection is being opened.
    opening: tokio::sync::Mutex<()>,
    is_closed: AtomicBool,
}

impl SqlitePool {
    fn new(path: &Path, size: usize, idle: Vec<Reader>) -> Self {
        Self(Arc::new(Shared {
            path: path.to_owned(),
            size,
            slots: Arc::new(Semaphore::new(size)),
            idle: Mutex::new(idle),
            opening: tokio::sync::Mutex::default(),
            is_closed: AtomicBool::new(false),
        }))
    }

    /// Opens the connection of the writer and checks the file. The connection must be used on threads that may block.
    ///
    /// # Errors
    /// If the file cannot be opened or is damaged.
    pub(super) fn open_writer(path: &Path) -> Result<Self, DbError> {
        let mut connection = options(path).create_if_missing(true).open()?;
        check(&mut connection, path)?;
        let reader = Reader {
            connection,
            thread: None,
        };
        Ok(Self::new(path, 1, vec![reader]))
    }

    /// Connections of the fast lane.
    pub(super) fn of_readers(path: &Path) -> Self {
        Self::new(path, (cores() + 3).min(READERS_MAX), Vec::new())
    }

    /// Waits for a free connection, or opens one.
    ///
    /// # Errors
    /// If no connection becomes free in time, or the pool is closed.
    pub(super) async fn acquire(&self) -> Result<Lite, DbError> {
        let acquire = Arc::clone(&self.0.slots).acquire_owned();
        let permit = tokio::time::timeout(READ_WAIT, acquire)
            .await
            .map_err(|_| sqlx::Error::PoolTimedOut)?
            .map_err(|_| sqlx::Error::PoolClosed)?;
        if self.0.is_closed.load(Ordering::Relaxed) {
            return Err(sqlx::Error::PoolClosed.into());
        }
        let idle = self.idle().pop();
        let (reader, permit) = if let Some(reader) = idle {
            (reader, permit)
        } else {
            self.open_reader(permit).await?
        };
        Ok(Lite(Some(Box::new(Held {
            reader,
            pool: self.clone(),
            begins: false,
            deadline: None,
            lane: None,
            slot: permit,
        }))))
    }

    /// Opens a connection, unless another one becomes idle before it is this one's turn. Each connection reads the whole schema, which
    /// takes longer than most reads, so the many short reads of a start need only two of them.
    async fn open_reader(
        &self,
        permit: OwnedSemaphorePermit,
    ) -> Result<(Reader, OwnedSemaphorePermit), DbError> {
        let _turn = self.0.opening.lock().await;
        let idle = self.idle().pop();
        if let Some(reader) = idle {
            return Ok((reader, permit));
        }
        let (path, runtime) = (self.0.path.clone(), Handle::current());
        blocking(move || Ok((Reader::open(&path, runtime)?, permit))).await
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Reader>> {
        self.0.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no connection is in use, and closes all of them.
    pub(super) async fn close(&self) {
        self.0.is_closed.store(true, Ordering::Relaxed);
        let size = u32::try_from(self.0.size).unwrap_or(u32::MAX);
        // Callers that are already waiting for a slot get an error.
        let all = Arc::clone(&self.0.slots).acquire_many_owned(size).await;
        let idle = std::mem::take(&mut *self.idle());
        // Closing the last connection writes the write-ahead log into the file.
        let closed = blocking(move || {
            drop((idle, all));
            Ok(())
        });
        if let Err(e) = closed.await {
            tracing::warn!(error = %e, "could not close the database");
        }
    }
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Opens or closes connections on a thread that may block. The connections are the permit: `work` owns the slots that they use.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, DbError> + Send + 'static,
) -> Result<T, DbError> {
    let done = crate::blocking::blocking((), work).await;
    done.unwrap_or_else(|e| match e.try_into_panic() {
        Ok(panic) => std::panic::resume_unwind(panic),
        Err(_) => Err(DbError::Closed),
    })
}

/// Deadline of a read in the slow lane.
#[derive(Clone)]
pub(super) struct Deadline {
    until: Instant,
    is_abandoned: Arc<AtomicBool>,
}

impl Deadline {
    fn after(duration: Duration) -> Self {
        Self {
            until: Instant::now() + duration,
            is_abandoned: Arc::default(),
        }
    }

    /// Interrupts the running statement, because nobody waits for its result.
    pub(super) fn abandon(&self) {
        self.is_abandoned.store(true, Ordering::Relaxed);
    }

    fn allows(&self) -> bool {
        !self.is_abandoned.load(Ordering::Relaxed) && Instant::now() < self.until
    }
}

/// Connection in use, which returns to its pool on drop. Contains `None` while a statement runs elsewhere.
pub(super) struct Lite(Option<Box<Held>>);

struct Held {
    reader: Reader,
    pool: SqlitePool,
    /// True if a transaction begins before the first statement.
    begins: bool,
    deadline: Option<Deadline>,
    lane: Option<LanePermit>,
    slot: OwnedSemaphorePermit,
}

impl Held {
    /// Checks whether statements can run on the current thread.
    fn is_here(&self) -> bool {
        let thread = self.reader.thread.as_ref();
        thread.is_none_or(|thread| thread.id == std::thread::current().id())
    }

    fn run<T>(
        &mut self,
        work: impl FnOnce(&mut SqliteConnection) -> Result<T, sqlx::Error>,
    ) -> Result<T, sqlx::Error> {
        let c = &mut self.reader.connection;
        if self.begins {
            c.run("begin deferred", Some(&SqliteArguments::default()))?;
            self.begins = false;
        }
        work(c)
    }

    /// Sends a job to the connection's thread.
    fn send(self: Box<Self>, job: impl FnOnce(Box<Self>) + Send + 'static) {
        let Some(jobs) = self
            .reader
            .thread
            .as_ref()
            .map(|thread| thread.jobs.clone())
        else {
            return job(self);
        };
        // The thread runs as long as its connection exists, which is in the job.
        drop(jobs.send(Box::new(move || job(self))));
    }

    fn release(self: Box<Self>) {
        if self.reader.connection.is_in_transaction() && !self.is_here() {
            self.send(Self::finish);
        } else {
            self.finish();
        }
    }

    /// Ends the transaction and returns the connection to its pool.
    fn finish(self: Box<Self>) {
        let Self {
            mut reader,
            pool,
            deadline,
            lane,
            slot,
            ..
        } = *self;
        let c = &mut reader.connection;
        // The deadline is removed before the rollback, because neither the rollback nor the next read must be interrupted.
        let mut finished = Ok(());
        if deadline.is_some() {
            finished = c.remove_progress_handler();
        }
        if let Err(e) = finished.and_then(|()| c.roll_back()) {
            tracing::warn!(error = %e, "could not end a read");
        }
        pool.idle().push(reader);
        drop((slot, lane));
    }
}

impl Drop for Lite {
    fn drop(&mut self) {
        if let Some(held) = self.0.take() {
            held.release();
        }
    }
}

impl Lite {
    /// Placeholder for a connection that was moved elsewhere.
    pub(super) fn gone() -> Self {
        Self(None)
    }

    /// Begins a transaction before the first statement, so that all statements see the same state of the database.
    pub(super) fn in_transaction(mut self) -> Self {
        if let Some(held) = &mut self.0 {
            held.begins = true;
        }
        self
    }

    /// Checks whether statements run without a switch to another thread.
    pub(super) fn is_here(&self) -> bool {
        self.0.as_ref().is_none_or(|held| held.is_here())
    }

    /// Returns the connection. Must be called on a thread that may block.
    pub(super) fn connection(&mut self) -> Option<&mut SqliteConnection> {
        self.0.as_mut().map(|held| &mut held.reader.connection)
    }

    /// The deadline; `None` if the connection does not belong to the slow lane.
    pub(super) fn deadline(&self) -> Option<Deadline> {
        self.0.as_ref().and_then(|held| held.deadline.clone())
    }

    /// Runs `work` with the connection on the connection's thread, or directly if that is the current thread. If the future is
    /// dropped, the connection is released on its thread.
    pub(super) async fn with<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut SqliteConnection) -> Result<T, sqlx::Error> + Send + 'static,
    ) -> Result<T, sqlx::Error> {
        match self.0.take() {
            None => Err(sqlx::Error::WorkerCrashed),
            Some(held) if held.is_here() => {
                let held = self.0.insert(held);
                held.run(work)
            }
            Some(held) => {
                let (reply, answer) = tokio::sync::oneshot::channel();
                held.send(move |held| {
                    let mut lite = Self(Some(held));
                    let done = match &mut lite.0 {
                        Some(held) => held.run(work),
                        None => Err(sqlx::Error::WorkerCrashed),
                    };
                    // If nobody waits for the result anymore, the connection is released here.
                    drop(reply.send((lite, done)));
                });
                let (mut lite, done) = answer.await.map_err(|_| sqlx::Error::WorkerCrashed)?;
                self.0 = lite.0.take();
                done
            }
        }
    }

    /// Runs a job on the connection's thread. The job receives the connection.
    pub(super) fn send(mut self, job: impl FnOnce(Self) + Send + 'static) {
        match self.0.take() {
            Some(held) => held.send(move |held| job(Self(Some(held)))),
            None => job(self),
        }
    }
}

/// The slow lane: connections for reads of several statements, with shares and deadlines (see `lanes`).
pub(super) struct SqliteLane {
    lane: Lane,
    pool: SqlitePool,
}

impl SqliteLane {
    pub(super) fn new(path: &Path) -> Self {
        let size = (cores() + 1).clamp(3, SCANNERS_MAX);
        Self {
            lane: Lane::new(size),
            pool: SqlitePool::new(path, size, Vec::new()),
        }
    }

    /// Waits for a connection of the slow lane.
    ///
    /// # Errors
    /// `Busy` if the lane, or the share, is not available in time.
    pub(super) async fn acquire(&self, share: Share) -> Result<Lite, DbError> {
        let permit = self.lane.enter(share).await?;
        let mut lite = self.pool.acquire().await.map_err(|e| match e {
            DbError::Sql(sqlx::Error::PoolTimedOut) => DbError::Busy,
            e => e,
        })?;
        if let Some(held) = &mut lite.0 {
            let deadline = Deadline::after(SCAN_DEADLINE);
            let of_handler = deadline.clone();
            held.begins = true;
            held.lane = Some(permit);
            held.deadline = Some(deadline);
            let c = &mut held.reader.connection;
            c.set_progress_handler(OPS_PER_CHECK, move || of_handler.allows())?;
        }
        Ok(lite)
    }

    pub(super) async fn close(&self) {
        self.pool.close().await;
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, thread};

    use futures::FutureExt;
    use uuid::Uuid;

    use super::*;
    use crate::db::{Conn, DatabaseUrl, Db};

    /// Query that counts for several seconds.
    const LONG: &str = "with recursive n(i) as (select 1 union all select i + 1 from n where i < 1000000000) \
                        select count(*) from n";

    struct Dir(PathBuf);

    impl Drop for Dir {
        fn drop(&mut self) {
            drop(std::fs::remove_dir_all(&self.0));
        }
    }

    async fn open() -> (Db, Dir) {
        let dir = std::env::temp_dir().join(format!("openvibe-{}", Uuid::now_v7()));
        std::fs::create_dir_all(&dir).unwrap();
        let file = DatabaseUrl::Sqlite(dir.join("openvibe.db"));
        let db = Db::open(&file, Arc::new(|_| {})).await.unwrap();
        (db, Dir(dir))
    }

    fn share(person: u128) -> Share {
        Share {
            person: Uuid::from_u128(person),
            workspace: Uuid::from_u128(person),
        }
    }

    async fn count(c: &mut Conn) -> Result<i64, DbError> {
        c.q("select count(*) from meta").value().await
    }

    #[tokio::test]
    async fn a_read_runs_on_the_thread_of_its_connection() {
        let (db, _dir) = open().await;
        let read = db.read().await.unwrap().run(|c| {
            async move {
                count(c).await?;
                let first = thread::current().id();
                count(c).await?;
                Ok::<_, DbError>([first, thread::current().id()])
            }
            .boxed()
        });
        let [first, second] = read.await.unwrap();
        assert_eq!(first, second);
        assert_ne!(first, thread::current().id());
        db.close().await;
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn readers_run_after_the_writer_and_the_runtime() {
        let (db, _dir) = open().await;
        let nice = || rustix::process::getpriority_process(None).unwrap();
        let read = db
            .read()
            .await
            .unwrap()
            .run(move |_| async move { Ok::<_, DbError>(nice()) }.boxed());
        let of_reader = read.await.unwrap();
        let write = async move |_: &mut Conn| Ok::<_, DbError>(nice());
        let of_writer = db.write(Uuid::nil(), write).await.unwrap();
        assert_eq!(of_writer, nice(), "the writer");
        assert_eq!(of_reader, (nice() + READER_NICE).min(NICE_MAX));
        db.close().await;
    }

    #[tokio::test]
    async fn single_statements_of_a_snapshot_see_the_same_state() {
        let (db, _dir) = open().await;
        let mut snapshot = db.snapshot().await.unwrap();
        let before = count(&mut snapshot).await.unwrap();
        let insert = async |c: &mut Conn| {
            c.q("insert into meta (key, value) values ('x', '')")
                .run()
                .await
        };
        db.write(Uuid::nil(), insert).await.unwrap();
        assert_eq!(count(&mut snapshot).await.unwrap(), before);
        drop(snapshot);
        let mut c = db.read().await.unwrap();
        assert_eq!(count(&mut c).await.unwrap(), before + 1);
        drop(c);
        db.close().await;
    }

    #[tokio::test]
    async fn a_truncation_of_the_log_waits_for_reads_without_holding_the_writer() {
        let (db, _dir) = open().await;
        let mut snapshot = db.snapshot().await.unwrap();
        count(&mut snapshot).await.unwrap();
        let write = async |n: i64| {
            let insert = async move |c: &mut Conn| {
                c.q("insert into meta (key, value) values ($1, '')")
                    .bind(n.to_string())
                    .run()
                    .await
            };
            db.write(Uuid::nil(), insert).await.unwrap()
        };
        write(0).await;
        let writes = async {
            for n in 1..50 {
                write(n).await;
            }
            drop(snapshot);
        };
        let (truncated, ()) = futures::join!(db.scrub(), writes);
        truncated.unwrap();
        // A read that is still running does not keep the writer from stopping.
        let mut snapshot = db.snapshot().await.unwrap();
        count(&mut snapshot).await.unwrap();
        write(50).await;
        let end = async {
            tokio::task::yield_now().await;
            futures::join!(db.close(), async { drop(snapshot) });
        };
        let (truncated, ()) = futures::join!(db.scrub(), end);
        assert!(matches!(truncated, Ok(()) | Err(DbError::Closed)));
    }

    #[tokio::test]
    async fn abandoned_reads_of_the_slow_lane_are_interrupted() {
        let (db, _dir) = open().await;
        for person in 0..10 {
            let c = db.scan(share(person)).await.unwrap();
            let read = c.run(|c| async move { c.q(LONG).value::<i64>().await }.boxed());
            assert!(
                tokio::time::timeout(Duration::from_millis(20), read)
                    .await
                    .is_err()
            );
            let mut c = db.scan(share(person)).await.unwrap();
            let read = c.q(LONG).value::<i64>();
            assert!(
                tokio::time::timeout(Duration::from_millis(20), read)
                    .await
                    .is_err()
            );
            drop(c);
            // The connections are free again, and the next reads are not interrupted.
            let mut c = db.scan(share(person)).await.unwrap();
            for _ in 0..100 {
                count(&mut c).await.unwrap();
            }
        }
        let close = tokio::time::timeout(Duration::from_secs(1), db.close());
        assert!(close.await.is_ok(), "no connection is in use");
    }

    #[tokio::test]
    async fn a_panic_in_a_read_reaches_its_caller_and_frees_the_connection() {
        let (db, _dir) = open().await;
        for _ in 0..=READERS_MAX {
            let read = db.snapshot().await.unwrap().run(|c| {
                async move {
                    count(c).await?;
                    panic!("expected");
                    #[expect(unreachable_code, reason = "the type of the result")]
                    Ok::<(), DbError>(())
                }
                .boxed()
            });
            assert!(AssertUnwindSafe(read).catch_unwind().await.is_err());
        }
        let mut c = db.read().await.unwrap();
        count(&mut c).await.unwrap();
        drop(c);
        db.close().await;
    }

    #[tokio::test]
    async fn the_log_is_written_into_the_file_at_the_end() {
        let (db, dir) = open().await;
        let mut c = db.read().await.unwrap();
        count(&mut c).await.unwrap();
        let free_later = async {
            tokio::task::yield_now().await;
            drop(c);
        };
        futures::join!(db.close(), free_later);
        assert!(db.read().await.is_err(), "the pool is closed");
        let files = std::fs::read_dir(&dir.0).unwrap().flatten();
        let names: Vec<_> = files.map(|file| file.file_name()).collect();
        assert_eq!(names, ["openvibe.db"]);
    }
}
