//! The database: one SQL text for `SQLite` and `PostgreSQL`.
//!
//! `Conn` wraps a connection of either engine; repository functions are plain `async fn(c: &mut Conn, …)`
//! that compose in any transaction. Reads take a pooled connection (`Db::read`) or a consistent snapshot
//! (`Db::snapshot`). Every write is a command (`Db::write`) that a writer thread runs in a batch with its
//! neighbours and answers after the commit: see `writer`. What the engines do differently is in `dialect`.
//! No query of a feature is in here.

mod conn;
pub mod dialect;
mod migrate;
mod writer;

use std::{path::PathBuf, sync::Arc, time::Duration};

use sqlx::{
    PgPool, SqlitePool,
    postgres::PgPoolOptions,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous},
};
use uuid::Uuid;

use crate::time::Timestamp;
pub use conn::{Bind, Conn, Proof, Q, Record};
use writer::Writers;
pub use writer::{Notice, Unannounced};

/// Readers of the `SQLite` file beside the one writer.
const SQLITE_READERS: u32 = 4;
/// `PostgreSQL` connections for reading, beside those of the writers.
const POSTGRES_READERS: u32 = 12;

pub use sqlx::types::Json;

#[derive(Debug, thiserror::Error)]
pub enum DbError {
    #[error(transparent)]
    Sql(#[from] sqlx::Error),
    #[error("the database could not be migrated: {0}")]
    Migrate(#[from] sqlx::migrate::MigrateError),
    #[error("the server is shutting down")]
    Closed,
    #[error("more is being written than the database can take")]
    Busy,
    #[error("a write command panicked")]
    Panicked,
    #[error("the write could not be committed: {0}")]
    Commit(String),
    #[error("{0}")]
    Start(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    Sqlite,
    Postgres,
}

#[derive(Clone)]
enum Pool {
    Lite(SqlitePool),
    Pg(PgPool),
}

/// What is done with the notices of a committed batch, in commit order.
pub type Listener = Arc<dyn Fn(Vec<Notice>) + Send + Sync>;

#[derive(Clone)]
pub struct Db {
    pool: Pool,
    writers: Arc<Writers>,
}

/// Where the data is.
#[derive(Clone, Debug)]
pub enum Place {
    Sqlite(PathBuf),
    Postgres(String),
}

impl Place {
    /// `sqlite://PATH` or `postgres://…`.
    ///
    /// # Errors
    /// A sentence that says which forms are understood.
    pub fn parse(url: &str) -> Result<Self, String> {
        if let Some(path) = url
            .strip_prefix("sqlite://")
            .or_else(|| url.strip_prefix("sqlite:"))
        {
            Ok(Self::Sqlite(PathBuf::from(path)))
        } else if url.starts_with("postgres://") || url.starts_with("postgresql://") {
            Ok(Self::Postgres(url.to_owned()))
        } else {
            Err("OPENVIBE_DATABASE_URL must begin with sqlite:// or postgres://".to_owned())
        }
    }
}

fn sqlite_options(path: &std::path::Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .journal_mode(SqliteJournalMode::Wal)
        // An acknowledged write is on disk, also after a power cut.
        .synchronous(SqliteSynchronous::Full)
        .foreign_keys(true)
        .busy_timeout(Duration::from_secs(10))
        // Deleted text is overwritten, not just unlinked.
        .pragma("secure_delete", "ON")
        .pragma("temp_store", "MEMORY")
        .pragma("cache_size", "-16384")
        .statement_cache_capacity(400)
}

impl Db {
    /// Opens the database, brings its tables up to date and starts the writers.
    ///
    /// # Errors
    /// When it cannot be opened, is damaged, or is newer than this program.
    pub async fn open(place: &Place, listener: Listener) -> Result<Self, DbError> {
        match place {
            Place::Sqlite(path) => {
                let options = sqlite_options(path).create_if_missing(true);
                let write = SqlitePoolOptions::new()
                    .max_connections(1)
                    .idle_timeout(None)
                    .max_lifetime(None)
                    .connect_with(options)
                    .await?;
                migrate::run_sqlite(&write).await?;
                let read = SqlitePoolOptions::new()
                    .max_connections(SQLITE_READERS)
                    .idle_timeout(None)
                    .max_lifetime(None)
                    .test_before_acquire(false)
                    .connect_with(sqlite_options(path).read_only(true))
                    .await?;
                let writers = Writers::sqlite(write, &listener)?;
                Ok(Self {
                    pool: Pool::Lite(read),
                    writers: Arc::new(writers),
                })
            }
            Place::Postgres(url) => {
                let pool = PgPoolOptions::new()
                    .max_connections(POSTGRES_READERS)
                    .acquire_timeout(Duration::from_secs(10))
                    .connect(url)
                    .await?;
                migrate::run_postgres(&pool).await?;
                let writers = Writers::postgres(url, &listener).await?;
                Ok(Self {
                    pool: Pool::Pg(pool),
                    writers: Arc::new(writers),
                })
            }
        }
    }

    pub fn engine(&self) -> Engine {
        match self.pool {
            Pool::Lite(_) => Engine::Sqlite,
            Pool::Pg(_) => Engine::Postgres,
        }
    }

    /// A connection for single reads.
    pub async fn read(&self) -> Result<Conn, DbError> {
        Ok(match &self.pool {
            Pool::Lite(pool) => Conn::lite(pool.acquire().await?),
            Pool::Pg(pool) => Conn::pg(pool.acquire().await?),
        })
    }

    /// A connection on which every read sees one state of the database; it ends when dropped.
    pub async fn snapshot(&self) -> Result<Conn, DbError> {
        Ok(match &self.pool {
            Pool::Lite(pool) => Conn::lite_tx(pool.begin_with("begin deferred").await?),
            Pool::Pg(pool) => Conn::pg_tx(
                pool.begin_with("begin transaction isolation level repeatable read read only")
                    .await?,
            ),
        })
    }

    /// Runs `command` in a transaction with its neighbours and answers after the commit.
    ///
    /// `key` decides which writer runs it; commands with one key run one after another, so pass the
    /// workspace they touch. A command may be run more than once before it commits, so it must have no
    /// effect but on `c`. Nothing slow belongs in it: no hashing, no rendering, no network.
    ///
    /// # Errors
    /// The command's own (then nothing of it is stored), or a `DbError` when it could not be committed.
    pub async fn write<T, E, F>(&self, key: Uuid, command: F) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<DbError> + Send + 'static,
        F: AsyncFn(&mut Conn) -> Result<T, E> + Send + 'static,
    {
        self.writers.write(key, command).await
    }

    /// Removes what was deleted from the write-ahead log too. On `PostgreSQL` there is nothing to do.
    pub async fn scrub(&self) -> Result<(), DbError> {
        self.writers.checkpoint().await
    }

    /// Lets the writers finish what is queued and ends them.
    pub async fn close(&self) {
        self.writers.close().await;
        match &self.pool {
            Pool::Lite(pool) => pool.close().await,
            Pool::Pg(pool) => pool.close().await,
        }
    }
}

/// The present.
pub fn now() -> Timestamp {
    Timestamp::now()
}
