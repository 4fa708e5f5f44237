//! Sessions of `PostgreSQL`: their limits, and detection of dead ones.
//!
//! If the network silently drops packets, connections seem to be alive, and the limits of the server have no effect. Therefore every
//! statement also has a time limit on this side, and a connection that exceeds it is closed and never reused. The first such failure,
//! and the first connection that the server closes, marks all older connections as suspect, because they were probably affected as
//! well.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use sqlx::{
    Connection, Executor, PgConnection, PgPool, Postgres,
    pool::PoolConnection,
    postgres::{PgConnectOptions, PgPoolOptions},
};

use tokio::{net::TcpStream, sync::watch};

use super::{
    error::DbError, fault::is_lost, identity::Epochs, lanes::LanePermit, options::Failover,
};
use crate::trust;

/// Number of prepared statements that a connection keeps. A message and a reply with tool calls use more statements on a writer
/// than the default of 100, so they would be prepared and planned again for each reply, with two more round trips to `PostgreSQL`
/// each.
pub(super) const STATEMENTS_KEPT: usize = 400;
/// Maximum duration of a statement or a commit; longer than the limit of the server.
pub(super) const STATEMENT_DEADLINE: Duration = Duration::from_secs(12);
/// Time limit for a read that is repeated after its connection was lost, counted from the start of the read.
pub(super) const READ_DEADLINE: Duration = Duration::from_secs(15);
/// Maximum wait for a connection of the fast lane.
pub(super) const READ_WAIT: Duration = Duration::from_secs(10);
/// Time after which a read tries again to get an idle connection; long enough for a ping and a new connection.
const ACQUIRE_AGAIN: Duration = Duration::from_secs(4);
/// Pause between two attempts to connect to an unavailable server.
const CONNECT_AGAIN: Duration = Duration::from_millis(200);
/// Interval between log lines about an unavailable server while the program starts.
const REPORT_EVERY: Duration = Duration::from_secs(2);
/// Maximum time for which readers wait until the writers are connected.
const WRITERS_FIRST: Duration = Duration::from_secs(2);
/// Time limit for operations that never wait for a lock in the database: `begin`, `rollback`, and a ping.
pub(super) const ANSWER_DEADLINE: Duration = Duration::from_secs(3);

/// Purpose of a session.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    Write,
    Read,
    /// A read in the slow lane.
    Scan,
}

impl Purpose {
    /// Limits of a session. They are set after the session has started, because connection poolers reject them as startup parameters.
    /// The server's keepalive settings end sessions whose client has disappeared.
    fn limits(self) -> &'static str {
        match self {
            Self::Write | Self::Read => {
                "set statement_timeout = '10s'; set lock_timeout = '5s'; set idle_in_transaction_session_timeout = '3s'; \
                 set tcp_keepalives_idle = 15; set tcp_keepalives_interval = 5; set tcp_keepalives_count = 3"
            }
            Self::Scan => {
                "set statement_timeout = '5s'; set lock_timeout = '5s'; set idle_in_transaction_session_timeout = '10s'; \
                 set tcp_keepalives_idle = 15; set tcp_keepalives_interval = 5; set tcp_keepalives_count = 3"
            }
        }
    }
}

/// Time when a connection was last found to be dead.
#[derive(Default)]
pub(super) struct Faults(watch::Sender<Option<Instant>>);

impl Faults {
    pub(super) fn mark(&self) {
        self.0.send_replace(Some(Instant::now()));
    }

    /// Checks whether a connection opened at this time is suspect.
    pub(super) fn is_suspect(&self, opened: Instant) -> bool {
        self.0.borrow().is_some_and(|last| opened <= last)
    }

    /// Waits until a connection opened at this time is suspect.
    pub(super) async fn until_suspect(&self, opened: Instant) {
        let mut marked = self.0.subscribe();
        let is_suspect = |last: &Option<Instant>| last.is_some_and(|last| opened <= last);
        // This never fails, because the sender lives as long as `self`.
        drop(marked.wait_for(is_suspect).await);
    }
}

/// Number of writers without a connection.
#[derive(Clone)]
pub(super) struct Connections(pub(super) watch::Receiver<usize>);

impl Connections {
    /// Waits until every writer has a connection.
    async fn connected(&self) {
        // An error means that the writers have ended.
        drop(self.0.clone().wait_for(|n| *n == 0).await);
    }
}

/// The connections of readers.
#[derive(Clone)]
pub(super) struct ReaderPool {
    pub(super) pool: PgPool,
    pub(super) faults: Arc<Faults>,
    pub(super) writers: Connections,
}

impl ReaderPool {
    pub(super) async fn acquire(&self) -> Result<PoolConnection<Postgres>, sqlx::Error> {
        let pool = &self.pool;
        if pool.num_idle() == 0 && pool.size() < pool.options().get_max_connections() {
            // A new connection may be the server's last one, so readers wait until the writers have connected, but only for a limited
            // time.
            drop(tokio::time::timeout(WRITERS_FIRST, self.writers.connected()).await);
        }
        // Retries after `ACQUIRE_AGAIN`. On a server without free connections, a single attempt would keep waiting for a new
        // connection while other reads return theirs.
        let began = Instant::now();
        loop {
            match tokio::time::timeout(ACQUIRE_AGAIN, pool.acquire()).await {
                Ok(Err(e)) if is_lost(&e) => tokio::time::sleep(CONNECT_AGAIN).await,
                Ok(c) => return c,
                Err(_) => {}
            }
            if began.elapsed() >= READ_WAIT {
                return Err(sqlx::Error::PoolTimedOut);
            }
        }
    }
}

async fn prepare(
    c: &mut PgConnection,
    purpose: Purpose,
    epochs: &Epochs,
    faults: &Faults,
) -> Result<(), sqlx::Error> {
    c.execute(purpose.limits()).await?;
    if purpose == Purpose::Write && epochs.failover == Failover::Lossless {
        c.execute("set synchronous_commit = on").await?;
    }
    if epochs.check(c).await? {
        // The other connections may still belong to the previous server.
        faults.mark();
    }
    Ok(())
}

/// Rejects a standby.
///
/// # Errors
/// If the server is in recovery: its data may be old, and it cannot be changed.
pub(super) async fn reject_standby(c: &mut PgConnection) -> Result<(), DbError> {
    let is_standby: bool = sqlx::query_scalar("select pg_is_in_recovery()")
        .fetch_one(&mut *c)
        .await?;
    if is_standby {
        let text =
            "this server is a standby: set OPENVIBE_DATABASE_URL to the address of the primary";
        return Err(DbError::Start(text.to_owned()));
    }
    Ok(())
}

/// Connects a session without limits, for migrations, backups, and restores.
pub(super) async fn connect_unlimited(url: &str) -> Result<PgPool, DbError> {
    let options = PgPoolOptions::new()
        .max_connections(1)
        .acquire_timeout(READ_WAIT)
        .after_connect(|c, _| {
            Box::pin(async move {
                // Removes limits that the role or the database may set. Notices, such as those about existing tables, are not logged.
                let none = "set statement_timeout = 0; set lock_timeout = 0; set idle_in_transaction_session_timeout = 0; \
                            set client_min_messages = warning";
                c.execute(none).await?;
                Ok(())
            })
        });
    wait_for_port(url).await?;
    Ok(options.connect(url).await?)
}

/// Waits until the server's port accepts a connection, at most `READ_WAIT`. Logs why it does not: a pool would only report that it
/// timed out.
async fn wait_for_port(url: &str) -> Result<(), DbError> {
    let options = parse_url(url)?;
    let (host, port) = (options.get_host(), options.get_port());
    if options.get_socket().is_some() || host.starts_with('/') {
        return Ok(());
    }
    let began = Instant::now();
    loop {
        let connected = TcpStream::connect((host, port));
        let cause = match tokio::time::timeout(ANSWER_DEADLINE, connected).await {
            Ok(Ok(_)) => return Ok(()),
            Ok(Err(e)) => plain(&e),
            Err(_) => "it does not respond".to_owned(),
        };
        let text = format!("cannot reach {host}:{port}: {cause}");
        if began.elapsed() + REPORT_EVERY > READ_WAIT {
            return Err(DbError::Start(text));
        }
        tracing::warn!("{text}; trying again");
        tokio::time::sleep(REPORT_EVERY).await;
    }
}

/// Text of an error of the operating system without its number: `connection refused`.
fn plain(error: &std::io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut chars = text.chars();
    let first = chars.next().map(|c| c.to_ascii_lowercase());
    first.into_iter().chain(chars).collect()
}

/// Number of connections that the server can still grant to this role, in addition to the current one. A larger pool would try to
/// open more connections instead of waiting until one of its own is free.
///
/// Ordinary roles cannot see the type of other roles' sessions, so sessions with a role and a database are counted as client
/// sessions.
pub(super) async fn count_free(pool: &PgPool) -> Result<u32, DbError> {
    let free: i64 = sqlx::query_scalar(
        "select cast(current_setting('max_connections') as bigint) \
           - case when (select rolsuper from pg_roles where rolname = current_user) then 0 \
             else cast(current_setting('superuser_reserved_connections') as bigint) end \
           - (select count(*) from pg_stat_activity where backend_type = 'client backend' \
               or (backend_type is null and usesysid is not null and datid is not null))",
    )
    .fetch_one(pool)
    .await?;
    Ok(u32::try_from(free.max(0)).unwrap_or(u32::MAX))
}

/// Parses the URL of a server. The URL can override the number of prepared statements, because some connection poolers do not support
/// them.
fn parse_url(url: &str) -> Result<PgConnectOptions, sqlx::Error> {
    let options: PgConnectOptions = url.parse()?;
    let options = match trust::file() {
        Some(file) if !url.contains("sslrootcert") => options.ssl_root_cert(file),
        _ => options,
    };
    Ok(if url.contains("statement-cache-capacity") {
        options
    } else {
        options.statement_cache_capacity(STATEMENTS_KEPT)
    })
}

/// A server, and the data that its sessions share.
pub(super) struct Server<'a> {
    pub(super) url: &'a str,
    pub(super) epochs: Arc<Epochs>,
    pub(super) faults: Arc<Faults>,
}

impl Server<'_> {
    /// Creates a pool whose sessions have limits, and opens its first connection.
    pub(super) async fn connect(
        &self,
        purpose: Purpose,
        max: u32,
        acquire_within: Duration,
    ) -> Result<PgPool, DbError> {
        let epochs = Arc::clone(&self.epochs);
        let faults = Arc::clone(&self.faults);
        let of_new = Arc::clone(&self.faults);
        let mut options = PgPoolOptions::new()
            .max_connections(max)
            .acquire_timeout(acquire_within)
            .test_before_acquire(false)
            .after_connect(move |c, _| {
                let (epochs, faults) = (Arc::clone(&epochs), Arc::clone(&of_new));
                Box::pin(async move {
                    let prepare = prepare(c, purpose, &epochs, &faults);
                    let prepared = tokio::time::timeout(ANSWER_DEADLINE, prepare).await;
                    prepared.unwrap_or(Err(sqlx::Error::PoolTimedOut))
                })
            })
            .before_acquire(move |c, meta| {
                let faults = Arc::clone(&faults);
                Box::pin(async move {
                    let opened = Instant::now().checked_sub(meta.age);
                    if opened.is_none_or(|opened| faults.is_suspect(opened)) {
                        return Ok(false);
                    }
                    let Ok(alive) = tokio::time::timeout(ANSWER_DEADLINE, c.ping()).await else {
                        faults.mark();
                        return Ok(false);
                    };
                    Ok(alive.is_ok())
                })
            });
        if purpose == Purpose::Write {
            // If a writer released its connection, readers could take the last one that the server can grant.
            options = options.idle_timeout(None).max_lifetime(None);
        }
        Ok(options.connect_with(parse_url(self.url)?).await?)
    }
}

/// Returns a connection to its pool, which pings the server first. Closes the connection if the server does not respond in time.
pub(super) fn release(mut c: PoolConnection<Postgres>, in_transaction: bool) {
    let Ok(runtime) = tokio::runtime::Handle::try_current() else {
        drop(c.detach());
        return;
    };
    runtime.spawn(async move {
        if in_transaction {
            let rolled_back = tokio::time::timeout(ANSWER_DEADLINE, c.execute("rollback")).await;
            if !rolled_back.is_ok_and(|done| done.is_ok()) {
                discard(c);
                return;
            }
        }
        // The future owns the connection, so if the time is up, dropping the future closes the connection.
        drop(tokio::time::timeout(ANSWER_DEADLINE, c.return_to_pool()).await);
    });
}

/// Cancels the statement that is still running on a connection, and closes the connection after the server has ended it. Until
/// then, `permit` is held, so that abandoned reads cannot occupy more server processes than the slow lane has slots.
pub(super) fn cancel(mut c: PoolConnection<Postgres>, pid: i32, fast: PgPool, permit: LanePermit) {
    let Ok(runtime) = tokio::runtime::Handle::try_current() else {
        discard(c);
        return;
    };
    runtime.spawn(async move {
        let _permit = permit;
        // The process still belongs to this session, because the connection is closed only afterward. (Behind a connection pooler,
        // the process belongs to the transaction.)
        let cancel = sqlx::query(
            "select pg_cancel_backend(pid) from pg_stat_activity where pid = $1 and state = 'active'",
        )
        .bind(pid)
        .execute(&fast);
        if !matches!(tokio::time::timeout(ANSWER_DEADLINE, cancel).await, Ok(Ok(_))) {
            tracing::debug!("could not cancel an abandoned read; it ends at the server's limit");
        }
        // The server responds after the statement has ended.
        drop(tokio::time::timeout(STATEMENT_DEADLINE, c.ping()).await);
        discard(c);
    });
}

/// Closes a connection without waiting for the server.
pub(super) fn discard(c: PoolConnection<Postgres>) {
    drop(c.detach());
}
