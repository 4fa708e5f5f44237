//! One connection type for both engines.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::Arc,
    time::{Duration, Instant},
};

use crate::{failpoint, time::Timestamp};
use futures::future::BoxFuture;
use openvibe_sqlite::{Sqlite, SqliteArguments, SqliteConnection, SqliteRow};
use sqlx::{
    Arguments, Encode, FromRow, PgPool, Postgres, Row, Type,
    pool::PoolConnection,
    postgres::{PgArguments, PgConnection, PgRow},
    types::Json,
};
use tracing::{Instrument, Span};
use uuid::Uuid;

use super::{
    engine::Engine,
    error::{DbError, SCAN_DEADLINE},
    fault::{is_lost, is_retryable, sqlstate},
    lanes::LanePermit,
    pending::{EventRow, Pending, group_size, insert_sql, recipients_sql},
    sessions::{self, ANSWER_DEADLINE, Faults, READ_DEADLINE, ReaderPool, STATEMENT_DEADLINE},
    sqlite::{Deadline, Lite},
};

/// Sent in one message, so that reading the process ID needs no additional round trip.
const BEGIN_SNAPSHOT: &str =
    "begin transaction isolation level repeatable read read only; select pg_backend_pid()";

/// Types that can be bound to `$n` on both engines.
pub trait Bind:
    for<'q> Encode<'q, Sqlite> + Type<Sqlite> + for<'q> Encode<'q, Postgres> + Type<Postgres>
{
}
impl<T> Bind for T where
    T: for<'q> Encode<'q, Sqlite> + Type<Sqlite> + for<'q> Encode<'q, Postgres> + Type<Postgres>
{
}

/// Types that a row of either engine can be read into: every `#[derive(FromRow)]` struct and every tuple.
pub trait FromAnyRow:
    for<'r> FromRow<'r, SqliteRow> + for<'r> FromRow<'r, PgRow> + Send + Unpin + 'static
{
}
impl<T> FromAnyRow for T where
    T: for<'r> FromRow<'r, SqliteRow> + for<'r> FromRow<'r, PgRow> + Send + Unpin + 'static
{
}

/// Rows of a result, without their type: code that runs a statement is compiled once, and not for each type that it reads.
trait Rows: Send {
    fn add_lite(&mut self, row: &SqliteRow) -> Result<(), sqlx::Error>;
    fn add_pg(&mut self, row: &PgRow) -> Result<(), sqlx::Error>;
    fn into_any(self: Box<Self>) -> Box<dyn Any>;
}

impl<T: FromAnyRow> Rows for Vec<T> {
    fn add_lite(&mut self, row: &SqliteRow) -> Result<(), sqlx::Error> {
        self.push(T::from_row(row)?);
        Ok(())
    }

    fn add_pg(&mut self, row: &PgRow) -> Result<(), sqlx::Error> {
        self.push(T::from_row(row)?);
        Ok(())
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

enum Backend {
    Lite(Lite),
    Pg(Box<Session>),
}

/// Connection to `PostgreSQL`.
struct Session {
    /// `None` once the connection has been released or closed.
    c: Option<PoolConnection<Postgres>>,
    faults: Arc<Faults>,
    in_transaction: bool,
    /// Pool from which a read gets another connection if it loses this one. `None` if a read cannot change connections, and for
    /// writers, which repeat their commands themselves.
    readers: Option<ReaderPool>,
    /// True if the transaction has returned rows, in which case its snapshot cannot be replaced.
    has_read: bool,
    /// True while the response to a statement is outstanding, during which the connection cannot be reused.
    is_running: bool,
    /// ID of the server process that runs the transaction.
    pid: Option<i32>,
    /// Slot in the slow lane, for reads that use it.
    lane: Option<PgLane>,
}

/// Slot of a `PostgreSQL` session in the slow lane.
struct PgLane {
    permit: LanePermit,
    /// Pool of connections that are used to cancel an abandoned statement.
    fast: PgPool,
}

impl Drop for Session {
    fn drop(&mut self) {
        let Some(c) = self.c.take() else { return };
        if !self.is_running {
            sessions::release(c, self.in_transaction);
        } else if let (Some(pid), Some(lane)) = (self.pid, self.lane.take()) {
            sessions::cancel(c, pid, lane.fast, lane.permit);
        } else {
            sessions::discard(c);
        }
    }
}

impl Session {
    /// Checks whether a read that loses this connection can run on another one.
    fn can_repeat(&self) -> bool {
        self.readers.is_some() && !(self.in_transaction && self.has_read)
    }

    /// Replaces a lost connection with another one, and begins its transaction.
    async fn reconnect(&mut self) -> Result<(), sqlx::Error> {
        let Some(readers) = &self.readers else {
            return Err(gone());
        };
        self.c = Some(readers.acquire().await?);
        if !self.in_transaction {
            return Ok(());
        }
        self.begin_snapshot().await
    }

    async fn begin_snapshot(&mut self) -> Result<(), sqlx::Error> {
        self.in_transaction = true;
        self.pid = None;
        self.is_running = true;
        let begun = match &mut self.c {
            Some(c) => {
                let begin = sqlx::raw_sql(BEGIN_SNAPSHOT).fetch_all(&mut **c);
                within(ANSWER_DEADLINE, begin).await
            }
            None => Err(gone()),
        };
        self.settle(begun.as_ref().err());
        let rows = begun?;
        self.pid = rows.first().map(|row| row.try_get(0)).transpose()?;
        Ok(())
    }

    async fn fetch(
        &mut self,
        sql: &'static str,
        args: PgArguments,
        is_kept: bool,
    ) -> Result<Vec<PgRow>, sqlx::Error> {
        let Some(c) = &mut self.c else {
            return Err(gone());
        };
        let run = sqlx::query_with(sql, args)
            .persistent(is_kept)
            .fetch_all(&mut **c);
        within(STATEMENT_DEADLINE, run).await
    }

    /// Records the result of a statement, and closes the connection if it is lost.
    fn settle(&mut self, error: Option<&sqlx::Error>) {
        self.is_running = false;
        let Some(error) = error.filter(|e| is_lost(e)) else {
            return;
        };
        if concerns_others(error) {
            self.faults.mark();
        }
        if let Some(c) = self.c.take() {
            sessions::discard(c);
        }
    }
}

/// Runs a future; fails if the server does not respond in time.
async fn within<T>(
    limit: Duration,
    run: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<T, sqlx::Error> {
    tokio::time::timeout(limit, run)
        .await
        .unwrap_or_else(|_| Err(gone()))
}

/// Checks whether an error probably concerns the network or the whole server. A server that shuts down ends its sessions one
/// by one, so other connections may still respond for a moment.
fn concerns_others(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Io(_) => true,
        sqlx::Error::Database(e) => e
            .code()
            .is_some_and(|code| matches!(&*code, "57P01" | "57P02")),
        _ => false,
    }
}

/// Error for a suspect connection. `concerns_others` must be false for it, so that newer connections do not become suspect.
fn suspect() -> sqlx::Error {
    sqlx::Error::Protocol("other connections opened at the same time are dead".to_owned())
}

fn gone() -> sqlx::Error {
    sqlx::Error::Io(std::io::Error::new(
        std::io::ErrorKind::TimedOut,
        "the database does not respond",
    ))
}

/// Deadline of a read in the slow lane.
struct Scan {
    until: Instant,
    /// True while a statement is running.
    is_running: bool,
    /// Deadline on `SQLite`; on `PostgreSQL`, the server enforces it.
    deadline: Option<Deadline>,
}

impl Drop for Scan {
    fn drop(&mut self) {
        if let Some(deadline) = self.deadline.as_ref().filter(|_| self.is_running) {
            // The caller dropped the read.
            deadline.abandon();
        }
    }
}

/// Signal to the rest of the process, sent after a transaction was committed.
pub type CommitSignal = Box<dyn Any + Send>;

/// Row of the event log whose presence proves that a transaction was committed.
#[derive(Clone, Debug, PartialEq)]
pub struct CommitMarker {
    pub workspace: Uuid,
    pub seq: i64,
    pub ts: Timestamp,
}

pub struct Conn {
    backend: Backend,
    scan: Option<Scan>,
    /// Time when the connection was taken from its pool.
    pub(super) taken_at: Instant,
    /// Number of statements so far that may have changed data.
    pub(super) writes: u64,
    /// True if a statement failed, in which case `PostgreSQL` rejects all further statements of the transaction.
    pub(super) failed: bool,
    /// SQLSTATE of a transient failure, after which the command can run again.
    pub(super) retryable: Option<String>,
    pending: Pending,
    pub(super) notices: Vec<CommitSignal>,
    pub(super) marker: Option<CommitMarker>,
}

impl Conn {
    fn new(backend: Backend) -> Self {
        Self {
            backend,
            scan: None,
            taken_at: Instant::now(),
            writes: 0,
            failed: false,
            retryable: None,
            pending: Pending::default(),
            notices: Vec::new(),
            marker: None,
        }
    }

    /// Resets the state of the transaction that has just ended.
    pub(super) fn renew(&mut self) {
        self.writes = 0;
        self.failed = false;
        self.retryable = None;
        self.pending.clear();
        self.notices.clear();
        self.marker = None;
    }

    pub(super) fn lite(c: Lite) -> Self {
        let scan = c.deadline().map(|deadline| Scan {
            until: Instant::now() + SCAN_DEADLINE,
            is_running: false,
            deadline: Some(deadline),
        });
        Self {
            scan,
            ..Self::new(Backend::Lite(c))
        }
    }

    pub(super) fn pg(c: PoolConnection<Postgres>, faults: Arc<Faults>) -> Self {
        Self::new(Backend::Pg(Box::new(Session {
            c: Some(c),
            faults,
            in_transaction: false,
            readers: None,
            has_read: false,
            is_running: false,
            pid: None,
            lane: None,
        })))
    }

    /// A connection that only reads.
    pub(super) async fn pg_reader(readers: &ReaderPool) -> Result<Self, DbError> {
        let mut c = Self::pg(readers.acquire().await?, Arc::clone(&readers.faults));
        if let Backend::Pg(session) = &mut c.backend {
            session.readers = Some(readers.clone());
        }
        Ok(c)
    }

    /// Pins the read to this connection: it fails if the connection is lost.
    pub(super) fn pin(&mut self) {
        if let Backend::Pg(session) = &mut self.backend {
            session.readers = None;
        }
    }

    /// Runs the read in the slow lane, and keeps `permit` until the server has ended the last statement.
    pub(super) fn in_lane(mut self, permit: LanePermit, fast: PgPool) -> Self {
        self.scan = Some(Scan {
            until: Instant::now() + SCAN_DEADLINE,
            is_running: false,
            deadline: None,
        });
        if let Backend::Pg(session) = &mut self.backend {
            session.lane = Some(PgLane { permit, fast });
        }
        self
    }

    /// Runs a read of several statements as a unit, and releases the connection. On `SQLite`, the whole read runs on the thread of
    /// the connection, so it must not wait for anything except statements. If the future is dropped, a read in the slow lane is
    /// interrupted.
    ///
    /// # Errors
    /// Errors from `read`.
    pub async fn run<T, E, F>(mut self, read: F) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<DbError> + Send + 'static,
        F: for<'c> FnOnce(&'c mut Conn) -> BoxFuture<'c, Result<T, E>> + Send + 'static,
    {
        let here = match &self.backend {
            Backend::Lite(c) => c.is_here(),
            Backend::Pg(_) => true,
        };
        if here {
            return read(&mut self).await;
        }
        // Interrupts the read if this future is dropped.
        let mut waiting = self.scan.as_ref().map(|scan| Scan {
            until: scan.until,
            is_running: true,
            deadline: scan.deadline.clone(),
        });
        let (reply, answer) = tokio::sync::oneshot::channel();
        let span = Span::current();
        self.send(move |mut c| {
            let run = || futures::executor::block_on(read(&mut c).instrument(span));
            let done = catch_unwind(AssertUnwindSafe(run));
            // Releases the connection before the caller continues.
            drop(c);
            drop(reply.send(done));
        });
        let done = answer.await;
        if let Some(waiting) = &mut waiting {
            waiting.is_running = false;
        }
        match done {
            Ok(Ok(done)) => done,
            Ok(Err(panic)) => resume_unwind(panic),
            Err(_) => Err(DbError::Closed.into()),
        }
    }

    /// Runs a job on the thread of a connection to a `SQLite` file.
    fn send(mut self, job: impl FnOnce(Self) + Send + 'static) {
        let gone = Backend::Lite(Lite::gone());
        match std::mem::replace(&mut self.backend, gone) {
            Backend::Lite(lite) => lite.send(move |lite| {
                self.backend = Backend::Lite(lite);
                job(self);
            }),
            Backend::Pg(session) => {
                self.backend = Backend::Pg(session);
                job(self);
            }
        }
    }

    /// Starts a snapshot: all further reads see the same state of the database. `PostgreSQL` only.
    pub(super) async fn begin_snapshot(&mut self) -> Result<(), DbError> {
        let Backend::Pg(session) = &mut self.backend else {
            return Ok(());
        };
        match session.begin_snapshot().await {
            Err(e) if is_lost(&e) => {
                Box::pin(within(READ_DEADLINE, session.reconnect())).await?;
            }
            begun => begun?,
        }
        Ok(())
    }

    /// Runs a read on `PostgreSQL`. The read is repeated once on another connection if the connection is lost before anything
    /// was read in its transaction.
    async fn fetch_pg(
        &mut self,
        sql: &'static str,
        args: PgArguments,
        is_kept: bool,
    ) -> Result<Vec<PgRow>, sqlx::Error> {
        let Backend::Pg(session) = &mut self.backend else {
            return Err(gone());
        };
        if !session.can_repeat() {
            return session.fetch(sql, args, is_kept).await;
        }
        let began = Instant::now();
        let (faults, taken_at) = (Arc::clone(&session.faults), self.taken_at);
        let first = tokio::select! {
            biased;
            rows = session.fetch(sql, args.clone(), is_kept) => rows,
            // Another connection that was opened at about the same time is dead, so this one probably is too.
            () = faults.until_suspect(taken_at) => Err(suspect()),
        };
        let Some(e) = first.as_ref().err().filter(|e| is_lost(e)) else {
            session.has_read = true;
            return first;
        };
        tracing::info!(error = %e, "a read lost its database connection and is repeated");
        session.settle(Some(e));
        if let Some(scan) = &mut self.scan {
            scan.until = Instant::now() + SCAN_DEADLINE;
        }
        let again = async {
            session.reconnect().await?;
            session.is_running = true;
            session.fetch(sql, args, is_kept).await
        };
        let left = READ_DEADLINE.saturating_sub(began.elapsed());
        let rows = within(left, again).await;
        session.has_read = true;
        self.taken_at = Instant::now();
        rows
    }

    /// Checks whether the connection is still open, without a round trip to the server.
    pub(super) fn is_usable(&self) -> bool {
        match &self.backend {
            Backend::Lite(_) => true,
            Backend::Pg(session) => {
                session.c.is_some() && !session.faults.is_suspect(self.taken_at)
            }
        }
    }

    /// Closes the connection instead of returning it to its pool.
    pub(super) fn discard(&mut self) {
        if let Backend::Pg(session) = &mut self.backend
            && let Some(c) = session.c.take()
        {
            sessions::discard(c);
        }
    }

    pub fn engine(&self) -> Engine {
        match self.backend {
            Backend::Lite(_) => Engine::Sqlite,
            Backend::Pg(_) => Engine::Postgres,
        }
    }

    /// Prepares a statement with the parameters `$1`, `$2`, ….
    #[cfg_attr(test_hooks, track_caller)]
    pub fn q(&mut self, sql: &'static str) -> Query<'_> {
        #[cfg(test_hooks)]
        super::statements::record(sql, std::panic::Location::caller());
        let args = match self.engine() {
            Engine::Sqlite => Args::Lite(SqliteArguments::default()),
            Engine::Postgres => Args::Pg(PgArguments::default()),
        };
        Query {
            conn: self,
            sql,
            args,
            is_kept: true,
            error: None,
        }
    }

    /// Sends the signal `notice` to the listener after this transaction is committed.
    pub fn notify(&mut self, notice: CommitSignal) {
        self.notices.push(notice);
    }

    /// Sets the event row that proves the commit of this transaction.
    pub fn mark_commit(&mut self, marker: CommitMarker) {
        self.marker = Some(marker);
    }

    /// Locks the row of a workspace until the end of the transaction. Other transactions can still add rows that refer to the
    /// workspace.
    pub(super) async fn lock_workspace(&mut self, workspace: Uuid) -> Result<(), DbError> {
        if self.pending.has_locked(workspace) {
            return Ok(());
        }
        let found: Vec<(i64,)> = self
            .q("select seq from workspaces where id = $1 for no key update")
            .bind(workspace)
            .fetch()
            .await?;
        if let Some((seq,)) = found.first() {
            self.pending.lock(workspace, *seq);
        }
        Ok(())
    }

    /// Reserves the next `n` sequence numbers of a workspace and returns the first one. The row of the workspace stays locked
    /// until the commit.
    pub async fn reserve_seq(&mut self, workspace: Uuid, n: i64) -> Result<i64, DbError> {
        if let Some(first) = self.pending.reserve(workspace, n) {
            // From here on, a failure of the command affects its batch.
            self.writes += 1;
            return Ok(first);
        }
        self.count_write();
        let found: Vec<(i64,)> = self
            .q("update workspaces set seq = seq + $2 where id = $1 returning seq")
            .bind(workspace)
            .bind(n)
            .fetch()
            .await?;
        let (last,) = *found.first().ok_or(sqlx::Error::RowNotFound)?;
        self.pending.lock(workspace, last);
        Ok(last - n + 1)
    }

    /// Appends an event with a reserved sequence number. The event is stored together with others, before the commit at the latest.
    pub fn append_event(&mut self, event: EventRow) {
        self.writes += 1;
        self.pending.append(event);
    }

    /// Stores the pending events and counters of the transaction.
    pub(super) fn store_pending(&mut self) -> BoxFuture<'_, Result<(), DbError>> {
        Box::pin(self.store_what_is_pending())
    }

    async fn store_what_is_pending(&mut self) -> Result<(), DbError> {
        if self.pending.is_stored() {
            return Ok(());
        }
        let engine = self.engine();
        let mut recipients: Vec<(String, i64, String)> = Vec::new();
        let mut events = self.pending.take();
        let mut rest = events.drain(..);
        while let Some(first) = rest.as_slice().first() {
            let (workspace, size) = (first.workspace, group_size(rest.as_slice()));
            let counter = self.pending.last(workspace);
            failpoint!("write_statement");
            let mut insert = self.q(insert_sql(engine, size)).bind(workspace);
            if engine == Engine::Postgres {
                insert = insert.bind(counter);
            }
            for event in rest.by_ref().take(size) {
                insert = insert
                    .bind(event.seq)
                    .bind(event.kind)
                    .bind(event.channel)
                    .bind(event.user)
                    .bind(event.message)
                    .bind(event.recipients.is_some())
                    .bind(event.includes_managers)
                    .bind(event.frame)
                    .bind(event.ts)
                    .bind(event.access);
                let users = event.recipients.into_iter().flatten();
                recipients.extend(users.map(|user| {
                    let hexadecimal = |id: Uuid| id.simple().to_string();
                    (hexadecimal(workspace), event.seq, hexadecimal(user))
                }));
            }
            insert.execute().await?;
            if engine == Engine::Postgres {
                self.pending.note_stored(workspace);
            }
        }
        drop(rest);
        self.pending.recycle(events);
        if !recipients.is_empty() {
            failpoint!("write_statement");
            let insert = self.q(recipients_sql(engine));
            insert.bind(Json(recipients)).execute().await?;
        }
        while let Some((workspace, seq)) = self.pending.take_counter() {
            failpoint!("write_statement");
            self.q("update workspaces set seq = $2 where id = $1")
                .bind(workspace)
                .bind(seq)
                .execute()
                .await?;
        }
        Ok(())
    }

    /// Runs a transaction control statement, which does not count as a write.
    pub(super) async fn control(&mut self, sql: &'static str) -> Result<(), DbError> {
        match &mut self.backend {
            Backend::Lite(c) => {
                let run = |c: &mut SqliteConnection| c.run(sql, Some(&SqliteArguments::default()));
                c.with(run).await.map(|_| ())
            }
            Backend::Pg(session) => {
                // A commit may wait for replicas, and is slow on a full disk.
                let limit = if sql == "commit" {
                    STATEMENT_DEADLINE
                } else {
                    ANSWER_DEADLINE
                };
                session.is_running = true;
                let done = match &mut session.c {
                    Some(c) => within(limit, sqlx::query(sql).execute(&mut **c)).await,
                    None => Err(gone()),
                };
                session.settle(done.as_ref().err());
                done.map(|_| ())
            }
        }?;
        Ok(())
    }

    /// Counts a statement that may change data.
    fn count_write(&mut self) {
        failpoint!("write_statement");
        self.writes += 1;
    }

    fn note(&mut self, error: &sqlx::Error) {
        self.failed = true;
        if self.retryable.is_none() && is_retryable(error) {
            self.retryable = Some(sqlstate(error));
        }
    }

    /// Checks whether the current thread is the connection's own, which may block. False on `PostgreSQL`.
    pub fn is_on_own_thread(&self) -> bool {
        match &self.backend {
            Backend::Lite(c) => c.is_here(),
            Backend::Pg(_) => false,
        }
    }

    /// Returns the connection to a `SQLite` file; `None` on `PostgreSQL`. Must be called on a thread that may block.
    pub(super) fn as_lite(&mut self) -> Option<&mut SqliteConnection> {
        match &mut self.backend {
            Backend::Lite(c) => c.connection(),
            Backend::Pg(_) => None,
        }
    }

    /// Sets how long `SQLite` waits for locks held by other connections. Does nothing on `PostgreSQL`.
    pub(super) fn set_busy_timeout(&mut self, timeout: Duration) -> Result<(), DbError> {
        if let Some(c) = self.as_lite() {
            c.set_busy_timeout(timeout)?;
        }
        Ok(())
    }

    /// Runs `work` with the connection to a `SQLite` file.
    async fn with_lite<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut SqliteConnection) -> Result<T, sqlx::Error> + Send + 'static,
    ) -> Result<T, sqlx::Error> {
        match &mut self.backend {
            Backend::Lite(c) => c.with(work).await,
            Backend::Pg(_) => Err(gone()),
        }
    }

    pub(super) fn as_pg(&mut self) -> Option<&mut PgConnection> {
        match &mut self.backend {
            Backend::Pg(session) => session.c.as_deref_mut(),
            Backend::Lite(_) => None,
        }
    }

    /// Records the start of a statement.
    fn begin_statement(&mut self) -> Result<(), DbError> {
        if let Some(scan) = &mut self.scan {
            if scan.until <= Instant::now() {
                return Err(too_slow());
            }
            scan.is_running = true;
        }
        if let Backend::Pg(session) = &mut self.backend {
            session.is_running = true;
        }
        Ok(())
    }

    /// Records the end of a statement.
    fn end_statement<T>(&mut self, done: Result<T, sqlx::Error>) -> Result<T, DbError> {
        if let Some(scan) = &mut self.scan {
            scan.is_running = false;
        }
        if let Backend::Pg(session) = &mut self.backend {
            session.settle(done.as_ref().err());
        }
        done.map_err(|e| {
            self.note(&e);
            if self.scan.is_some() && is_interrupted(&e) {
                too_slow()
            } else {
                e.into()
            }
        })
    }
}

fn too_slow() -> DbError {
    tracing::warn!("stopped a read at its deadline");
    DbError::TooSlow
}

/// Checks whether the engine interrupted the statement (`SQLITE_INTERRUPT` or `query_canceled`).
fn is_interrupted(error: &sqlx::Error) -> bool {
    let sqlx::Error::Database(e) = error else {
        return false;
    };
    matches!(e.code().as_deref(), Some("9" | "57014"))
}

enum Args {
    Lite(SqliteArguments),
    Pg(PgArguments),
}

/// Returns the rows of a statement that was given an empty `Vec<T>`.
fn typed<T: FromAnyRow>(rows: Box<dyn Rows>) -> Result<Vec<T>, DbError> {
    let rows = rows.into_any().downcast::<Vec<T>>();
    Ok(*rows.map_err(|_| DbError::Closed)?)
}

/// Query builder: a statement and its parameters.
#[must_use = "a statement does nothing until it is run"]
pub struct Query<'c> {
    conn: &'c mut Conn,
    sql: &'static str,
    args: Args,
    is_kept: bool,
    error: Option<sqlx::Error>,
}

impl<'c> Query<'c> {
    /// Makes `PostgreSQL` plan the statement for these parameter values instead of using a generic plan.
    pub fn planned_anew(mut self) -> Self {
        self.is_kept = false;
        self
    }

    pub fn bind<T: Bind>(mut self, value: T) -> Self {
        let added = match &mut self.args {
            Args::Lite(args) => args.add(value),
            Args::Pg(args) => args.add(value),
        };
        if let Err(e) = added {
            self.error.get_or_insert(sqlx::Error::Encode(e));
        }
        self
    }

    /// Runs the statement and returns the number of changed rows.
    pub async fn run(self) -> Result<u64, DbError> {
        if self.conn.pending.concerns(self.sql) {
            self.conn.store_pending().await?;
        }
        self.conn.count_write();
        self.execute().await
    }

    /// Runs the statement without counting it as a write of the command. Boxed, like `fetch_into`, so that the compiler need not look
    /// into each statement again whenever it proves that a future of a caller is `Send`, and so that these futures stay small.
    fn execute(self) -> BoxFuture<'c, Result<u64, DbError>> {
        Box::pin(async move {
            let Self {
                conn,
                sql,
                args,
                is_kept,
                error,
            } = self;
            if let Some(e) = error {
                return Err(e.into());
            }
            conn.begin_statement()?;
            let done = match args {
                Args::Lite(args) => conn.with_lite(move |c| c.run(sql, Some(&args))).await,
                Args::Pg(args) => match conn.as_pg() {
                    Some(c) => {
                        let run = sqlx::query_with(sql, args).persistent(is_kept).execute(c);
                        within(STATEMENT_DEADLINE, run)
                            .await
                            .map(|r| r.rows_affected())
                    }
                    None => Err(gone()),
                },
            };
            conn.end_statement(done)
        })
    }

    /// Returns all rows.
    pub async fn all<T: FromAnyRow>(self) -> Result<Vec<T>, DbError> {
        typed(self.read(Box::new(Vec::<T>::new())).await?)
    }

    /// Returns all rows of a statement that does not count as a write and that does not read pending events or counters.
    async fn fetch<T: FromAnyRow>(self) -> Result<Vec<T>, DbError> {
        typed(self.fetch_into(Box::new(Vec::<T>::new())).await?)
    }

    async fn read(self, rows: Box<dyn Rows>) -> Result<Box<dyn Rows>, DbError> {
        if self.conn.pending.concerns(self.sql) {
            self.conn.store_pending().await?;
        }
        if !self
            .sql
            .trim_start()
            .get(..6)
            .is_some_and(|word| word.eq_ignore_ascii_case("select"))
        {
            self.conn.count_write();
        }
        self.fetch_into(rows).await
    }

    fn fetch_into(self, mut rows: Box<dyn Rows>) -> BoxFuture<'c, Result<Box<dyn Rows>, DbError>> {
        Box::pin(async move {
            let Self {
                conn,
                sql,
                args,
                is_kept,
                error,
            } = self;
            if let Some(e) = error {
                return Err(e.into());
            }
            conn.begin_statement()?;
            let rows = match args {
                Args::Lite(args) => {
                    let read = move |c: &mut SqliteConnection| {
                        c.each(sql, Some(&args), is_kept, &mut |row| rows.add_lite(row))?;
                        Ok(rows)
                    };
                    conn.with_lite(read).await
                }
                Args::Pg(args) => {
                    let found = conn.fetch_pg(sql, args, is_kept).await;
                    found.and_then(|found| {
                        found.iter().try_for_each(|row| rows.add_pg(row))?;
                        Ok(rows)
                    })
                }
            };
            conn.end_statement(rows)
        })
    }

    /// Returns the first row, if any.
    pub async fn opt<T: FromAnyRow>(self) -> Result<Option<T>, DbError> {
        Ok(self.all().await?.into_iter().next())
    }

    /// Returns the first row; fails with `RowNotFound` if there is none.
    pub async fn one<T: FromAnyRow>(self) -> Result<T, DbError> {
        self.opt()
            .await?
            .ok_or_else(|| sqlx::Error::RowNotFound.into())
    }

    /// Returns the single column of the first row.
    pub async fn value<T>(self) -> Result<T, DbError>
    where
        (T,): FromAnyRow,
    {
        Ok(self.one::<(T,)>().await?.0)
    }
}
