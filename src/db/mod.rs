//! The database: one SQL text for `SQLite` and `PostgreSQL`.
//!
//! `Conn` wraps a connection of either engine; query functions are plain `async fn(c: &mut Conn, …)` that compose in any
//! transaction. Single reads use a pooled connection (`Db::read`) or a consistent snapshot (`Db::snapshot`); searches, lists,
//! and other long reads have their own connections (`Db::scan`, see `lanes`). Reads of several statements run as a unit
//! (`Conn::run`), which saves thread switches on `SQLite` (see `sqlite`). Every write is a command (`Db::write`) that a writer
//! thread runs in a batch; the result is returned after the commit (see `writer`). Differences between the engines are in
//! `dialect`. This module does not contain the queries of features.

pub mod compact;
mod conn;
pub mod dialect;
pub mod dump;
mod engine;
pub mod epoch;
mod error;
mod fault;
mod identity;
mod lanes;
mod migrate;
mod options;
mod pending;
mod schema;
mod sessions;
mod sqlite;
#[cfg(test_hooks)]
mod statements;
mod visibility;
mod write_queue;
mod writer;

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::future::BoxFuture;
use sqlx::{Postgres, pool::PoolConnection, postgres::PgListener};
use tokio::sync::watch;
use uuid::Uuid;

use crate::time::Timestamp;
pub use conn::{Bind, CommitMarker, CommitSignal, Conn, FromAnyRow, Query};
pub use engine::{DatabaseUrl, Engine};
pub use error::DbError;
pub use fault::DatabaseFault;
pub use identity::Epoch;
use identity::Epochs;
use lanes::Lane;
pub use lanes::Share;
pub use options::{Failover, Options};
pub use pending::EventRow;
use sessions::{Faults, Purpose, READ_WAIT, ReaderPool, Server};
use sqlite::{SqliteLane, SqlitePool};
pub(crate) use visibility::{
    has_guests, is_example, is_in_visible_channel, is_readable_skill, is_readable_store, is_reader,
    is_shared_channel, is_trusted_file, is_usable_skill, is_visible_channel, is_visible_from,
    is_visible_person, is_visible_to_guests_of,
};
use write_queue::Slot;
use writer::Writers;
pub use writer::{Listener, LostSignals};

/// Number of sessions of the node itself: one for its lease, one that sends notifications, and one that receives them.
const POSTGRES_OWN: u32 = 3;
/// Minimum number of `PostgreSQL` connections for reads: one for each lane.
const POSTGRES_READERS_MIN: u32 = 2;
const POSTGRES_CONNECTIONS_MIN: usize =
    (POSTGRES_READERS_MIN + POSTGRES_OWN) as usize + writer::POSTGRES_WRITERS;
/// Time limit of a probe of the writers. A successful result is valid for `PROBED_FOR`.
const PROBE_DEADLINE: Duration = Duration::from_secs(5);
const PROBED_FOR: Duration = Duration::from_secs(2);

pub use sqlx::types::Json;

/// Maximum number of expired rows deleted per transaction.
const EXPIRED_AT_ONCE: i64 = 500;

/// Read connections, in two lanes.
enum Readers {
    Lite {
        fast: SqlitePool,
        slow: SqliteLane,
    },
    Pg {
        fast: ReaderPool,
        slow: ReaderPool,
        lane: Lane,
        /// Sessions of the node itself: one for its lease, and one that sends notifications.
        own: ReaderPool,
        /// Address of the server, for the session that receives notifications.
        url: String,
    },
}

#[derive(Clone)]
pub struct Db {
    readers: Arc<Readers>,
    writers: Arc<Writers>,
    epochs: Arc<Epochs>,
    /// Time of the last successful probe of all writers.
    probed: Arc<tokio::sync::Mutex<Option<Instant>>>,
}

/// Creates the pools for at most `max` readers and for the sessions of the node itself.
async fn postgres_readers(
    server: &Server<'_>,
    writers: &Writers,
    max: u32,
) -> Result<Readers, DbError> {
    // Each lane gets at least one connection.
    let fast = max * 2 / 3;
    let slow = max - fast;
    let connect = async |purpose, max| {
        let pool = server.connect(purpose, max, READ_WAIT).await?;
        Ok::<_, DbError>(ReaderPool {
            pool,
            faults: Arc::clone(&server.faults),
            writers: writers.connections(),
        })
    };
    Ok(Readers::Pg {
        own: connect(Purpose::Write, POSTGRES_OWN - 1).await?,
        url: server.url.to_owned(),
        fast: connect(Purpose::Read, fast).await?,
        slow: connect(Purpose::Scan, slow).await?,
        lane: Lane::new(usize::try_from(slow).unwrap_or(1)),
    })
}

impl Db {
    /// Opens the database with the default options. See `open_with`.
    ///
    /// # Errors
    /// Same as `open_with`.
    pub async fn open(place: &DatabaseUrl, listener: Listener) -> Result<Self, DbError> {
        Self::open_with(place, Options::default(), listener).await
    }

    /// Opens the database, runs the migrations, and starts the writers.
    ///
    /// # Errors
    /// If the database cannot be opened, is damaged, or is newer than this program.
    pub async fn open_with(
        place: &DatabaseUrl,
        options: Options,
        listener: Listener,
    ) -> Result<Self, DbError> {
        match place {
            DatabaseUrl::Sqlite(path) => Self::open_sqlite(path, options, &listener).await,
            DatabaseUrl::Postgres(url) => Self::open_postgres(url, options, &listener).await,
        }
    }

    async fn open_sqlite(
        path: &Path,
        options: Options,
        listener: &Listener,
    ) -> Result<Self, DbError> {
        let (file, runtime) = (path.to_owned(), tokio::runtime::Handle::current());
        let opened = sqlite::blocking(move || {
            let write = SqlitePool::open_writer(&file)?;
            let epoch = runtime.block_on(migrate_sqlite(&write))?;
            Ok((write, epoch))
        });
        let (write, epoch) = opened.await?;
        let readers = Readers::Lite {
            fast: SqlitePool::of_readers(path),
            slow: SqliteLane::new(path),
        };
        let writers = Writers::sqlite(write, listener)?;
        let epochs = Arc::new(Epochs::new(options.failover, epoch));
        Ok(Self::new(readers, Arc::new(writers), epochs))
    }

    async fn open_postgres(
        url: &str,
        options: Options,
        listener: &Listener,
    ) -> Result<Self, DbError> {
        let unlimited = sessions::connect_unlimited(url).await?;
        let faults = Arc::new(Faults::default());
        let mut c = unlimited.acquire().await?;
        sessions::reject_standby(&mut c).await?;
        let mut c = Conn::pg(c, Arc::clone(&faults));
        schema::run(&mut c).await?;
        drop(c);
        let mut c = unlimited.acquire().await?;
        let epoch = identity::read_server(&mut c, options.failover).await?;
        drop(c);
        let server = Server {
            url,
            epochs: Arc::new(Epochs::new(options.failover, epoch)),
            faults,
        };
        // Writers connect first, so that readers cannot take the last connections.
        let writers = Arc::new(Writers::postgres(&server, listener).await?);
        // The sessions of the node itself need the connection that is closed here and two more.
        let free = sessions::count_free(&unlimited).await?;
        let free = (free + 1).saturating_sub(POSTGRES_OWN);
        unlimited.close().await;
        if free < POSTGRES_READERS_MIN {
            return Err(DbError::Start(format!(
                "PostgreSQL has too few free connections: OpenVibe needs at least {POSTGRES_CONNECTIONS_MIN}; \
                 raise max_connections, or close other sessions"
            )));
        }
        let readers_max = free.min(options.connections.max(POSTGRES_READERS_MIN));
        let readers = postgres_readers(&server, &writers, readers_max).await?;
        Ok(Self::new(readers, writers, server.epochs))
    }

    fn new(readers: Readers, writers: Arc<Writers>, epochs: Arc<Epochs>) -> Self {
        Self {
            readers: Arc::new(readers),
            writers,
            epochs,
            probed: Arc::default(),
        }
    }

    pub fn engine(&self) -> Engine {
        match *self.readers {
            Readers::Lite { .. } => Engine::Sqlite,
            Readers::Pg { .. } => Engine::Postgres,
        }
    }

    /// The current epoch. It changes when a new connection finds another server, or `epoch::read` finds a new one.
    pub fn epoch(&self) -> watch::Receiver<Epoch> {
        self.epochs.subscribe()
    }

    /// Connection for a single read, or for a few reads that use an index and a limit.
    ///
    /// Boxed, like `Query::execute`.
    pub fn read(&self) -> BoxFuture<'_, Result<Conn, DbError>> {
        Box::pin(async {
            Ok(match &*self.readers {
                Readers::Lite { fast, .. } => Conn::lite(fast.acquire().await?),
                Readers::Pg { fast, .. } => Conn::pg_reader(fast).await?,
            })
        })
    }

    /// A connection for the lease of a node on `PostgreSQL`. It belongs to neither lane and is never replaced with another one.
    pub async fn own_session(&self) -> Result<Conn, DbError> {
        let mut c = match &*self.readers {
            Readers::Lite { .. } => self.read().await?,
            Readers::Pg { own, .. } => Conn::pg_reader(own).await?,
        };
        c.pin();
        Ok(c)
    }

    /// Connection that sends notifications.
    ///
    /// # Errors
    /// If `PostgreSQL` does not respond, or if the database is `SQLite`, which has no notifications.
    pub async fn bus_connection(&self) -> Result<PoolConnection<Postgres>, DbError> {
        match &*self.readers {
            Readers::Lite { .. } => Err(no_notifications()),
            Readers::Pg { own, .. } => Ok(own.acquire().await?),
        }
    }

    /// A connection that receives notifications.
    ///
    /// # Errors
    /// Same as `bus_connection`.
    pub async fn bus_listener(&self) -> Result<PgListener, DbError> {
        match &*self.readers {
            Readers::Lite { .. } => Err(no_notifications()),
            // Not taken from the pool, in which a lost connection would occupy a slot until it is returned, which can take
            // minutes.
            Readers::Pg { url, .. } => Ok(PgListener::connect(url).await?),
        }
    }

    /// Like `read`, but all reads see the same state of the database, until the connection is dropped.
    pub fn snapshot(&self) -> BoxFuture<'_, Result<Conn, DbError>> {
        Box::pin(async {
            match &*self.readers {
                Readers::Lite { fast, .. } => {
                    Ok(Conn::lite(fast.acquire().await?.in_transaction()))
                }
                Readers::Pg { fast, .. } => {
                    let mut c = Conn::pg_reader(fast).await?;
                    c.begin_snapshot().await?;
                    Ok(c)
                }
            }
        })
    }

    /// Connection for a search, a list, or another read of several statements. All statements see the same state of the database. No
    /// statement starts after the deadline of 5 s. On `PostgreSQL`, a statement that starts just before the deadline can run for
    /// another 5 s.
    ///
    /// # Errors
    /// `Busy` if the lane, or the share of the person or workspace, is not available in time. Statements fail with `TooSlow` after
    /// the deadline.
    pub fn scan(&self, share: Share) -> BoxFuture<'_, Result<Conn, DbError>> {
        Box::pin(async move {
            match &*self.readers {
                Readers::Lite { slow, .. } => Ok(Conn::lite(slow.acquire(share).await?)),
                Readers::Pg {
                    fast, slow, lane, ..
                } => {
                    let permit = lane.enter(share).await?;
                    let c = Conn::pg_reader(slow).await?;
                    let mut c = c.in_lane(permit, fast.pool.clone());
                    c.begin_snapshot().await?;
                    Ok(c)
                }
            }
        })
    }

    /// Checks whether every writer can currently store something. Probes the writers at most every 2 s.
    ///
    /// # Errors
    /// `Away` if a writer fails or does not respond within 5 s.
    pub async fn check_writers(&self) -> Result<(), DbError> {
        let check = async {
            let mut probed = self.probed.lock().await;
            if probed.is_some_and(|at| at.elapsed() < PROBED_FOR) {
                return Ok(());
            }
            self.writers.probe().await?;
            *probed = Some(Instant::now());
            Ok(())
        };
        tokio::time::timeout(PROBE_DEADLINE, check)
            .await
            .unwrap_or_else(|_| Err(DbError::Away("a writer does not respond".to_owned())))
    }

    /// Runs `command` in a transaction, batched with others, and returns after the commit.
    ///
    /// `key` selects the writer and the turn. Commands with the same key run sequentially, so the key should be the workspace that
    /// they change, or nil if there is none. A command may run more than once before it commits, so it must not have side effects
    /// except on `c`. It must not do slow work such as hashing, rendering, or network access.
    ///
    /// # Errors
    /// Errors from the command, in which case none of its changes are stored, or a `DbError` if the command could not be committed.
    pub fn write<T, E, F>(&self, key: Uuid, command: F) -> impl Future<Output = Result<T, E>>
    where
        T: Send + 'static,
        E: From<DbError> + Send + 'static,
        F: AsyncFn(&mut Conn) -> Result<T, E> + Send + 'static,
    {
        self.writers.write(Slot::of(key), command)
    }

    /// Like `write`, but the command waits in `turn` instead of the turn of its key. `turn` is a person, or nil for all commands
    /// without a turn of their own. Required if `key` is not the ID of an existing workspace, because otherwise each new key would
    /// get its own turn.
    ///
    /// # Errors
    /// Same as `write`.
    pub fn write_in_turn<T, E, F>(
        &self,
        turn: Uuid,
        key: Uuid,
        command: F,
    ) -> impl Future<Output = Result<T, E>>
    where
        T: Send + 'static,
        E: From<DbError> + Send + 'static,
        F: AsyncFn(&mut Conn) -> Result<T, E> + Send + 'static,
    {
        self.writers.write(Slot { turn, key }, command)
    }

    /// Deletes expired rows in several transactions, and returns whether there were any. `find` checks whether there are any rows, so
    /// that no write is needed if there are none. In `find` and `delete`, `$1` is `before`; in `delete`, `$2` is the maximum number
    /// of rows.
    ///
    /// # Errors
    /// Only database errors.
    pub async fn delete_expired<B>(
        &self,
        before: B,
        find: &'static str,
        delete: &'static str,
    ) -> Result<bool, DbError>
    where
        B: Bind + Clone + Send + Sync + 'static,
    {
        let mut has_some = false;
        loop {
            let any: bool = self
                .read()
                .await?
                .q(find)
                .bind(before.clone())
                .value()
                .await?;
            if !any {
                return Ok(has_some);
            }
            has_some = true;
            let before = before.clone();
            self.write(Uuid::nil(), async move |c: &mut Conn| {
                c.q(delete)
                    .bind(before.clone())
                    .bind(EXPIRED_AT_ONCE)
                    .run()
                    .await
            })
            .await?;
        }
    }

    /// Number of queued write commands.
    pub fn queued_writes(&self) -> usize {
        self.writers.queued()
    }

    /// Size of the database on disk. On `SQLite`, uploads in the data directory are not included.
    pub async fn size_bytes(&self) -> Result<u64, DbError> {
        dialect::size_bytes(&mut self.read().await?).await
    }

    /// Removes deleted data from the write-ahead log as well. Does nothing on `PostgreSQL`.
    pub async fn scrub(&self) -> Result<(), DbError> {
        self.writers.checkpoint().await
    }

    /// Stops the writers after they have finished their queues.
    pub async fn close(&self) {
        self.writers.close().await;
        match &*self.readers {
            Readers::Lite { fast, slow } => {
                fast.close().await;
                slow.close().await;
            }
            Readers::Pg {
                fast, slow, own, ..
            } => {
                // The slow lane is closed first, because its abandoned reads are canceled over the fast lane.
                slow.pool.close().await;
                fast.pool.close().await;
                own.pool.close().await;
            }
        }
        self.writers.close_connection().await;
    }
}

/// Runs the migrations on the writer's connection, and returns the epoch.
async fn migrate_sqlite(write: &SqlitePool) -> Result<Epoch, DbError> {
    let mut c = Conn::lite(write.acquire().await?);
    schema::run(&mut c).await?;
    let read = c.q("select value from meta where key = 'epoch'");
    Ok(Epoch {
        id: read.value().await?,
        server: None,
    })
}

fn no_notifications() -> DbError {
    DbError::Start("SQLite has no notifications".to_owned())
}

/// The current time.
pub fn now() -> Timestamp {
    Timestamp::now()
}
