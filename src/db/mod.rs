//! The database: one SQL text for `SQLite` and `PostgreSQL`.
//!
//! `Conn` wraps a connection of either engine; repository functions are plain `async fn(c: &mut Conn, …)`
//! that compose in any transaction. Reads take a pooled connection (`Db::read`) or a consistent snapshot
//! (`Db::snapshot`). Every write is a command (`Db::write`) that a writer thread runs in a batch with its
//! neighbours and answers after the commit: see `writer`. What the engines do differently is in `dialect`.
//! No query of a feature is in here.

mod conn;
pub mod dialect;
pub mod dump;
mod migrate;
mod trouble;
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
pub use trouble::Trouble;
use writer::Writers;
pub use writer::{Notice, Unannounced};

/// Readers of the `SQLite` file beside the one writer.
const SQLITE_READERS: u32 = 4;
/// A `SQLite` file up to this size is checked for damage at each start: a second or two.
const CHECKED_BYTES_MAX: u64 = 512 * 1024 * 1024;
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
    /// Whether it was, nobody knows.
    #[error("the write could not be committed: {0}")]
    Commit(String),
    /// Nothing was stored.
    #[error("the database does not answer: {0}")]
    Away(String),
    #[error("the database is damaged: {0}")]
    Damaged(String),
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
#[derive(Clone)]
pub enum Place {
    Sqlite(PathBuf),
    Postgres(String),
}

impl std::fmt::Debug for Place {
    /// Without the address of a server, which may hold a password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Sqlite(path) => f.debug_tuple("Sqlite").field(path).finish(),
            Self::Postgres(_) => f.write_str("Postgres([hidden])"),
        }
    }
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

/// Looks for damage and for the right to write before anything is written.
///
/// Every table is checked but virtual ones, whose check reads all text anew. A file above `CHECKED_BYTES_MAX` is not, because a start
/// must not take minutes.
async fn check(pool: &SqlitePool, path: &std::path::Path) -> Result<(), DbError> {
    let mut c = pool.acquire().await?;
    for sql in ["begin immediate", "rollback"] {
        sqlx::query(sql).execute(&mut *c).await?;
    }
    if std::fs::metadata(path).is_ok_and(|file| file.len() > CHECKED_BYTES_MAX) {
        tracing::info!("the database is large and is not checked for damage");
        return Ok(());
    }
    let tables: Vec<String> = sqlx::query_scalar(
        "select name from sqlite_schema where type = 'table' and rootpage > 0 order by name",
    )
    .fetch_all(&mut *c)
    .await?;
    for table in tables {
        let sql = format!("pragma quick_check('{}')", table.replace('\'', "''"));
        let found: Vec<String> = sqlx::query_scalar(sqlx::AssertSqlSafe(sql))
            .fetch_all(&mut *c)
            .await?;
        if let Some(damage) = found.into_iter().find(|line| line != "ok") {
            return Err(DbError::Damaged(format!("{table}: {damage}")));
        }
    }
    Ok(())
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
                check(&write, path).await?;
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

    /// Write commands that wait.
    pub fn queued_writes(&self) -> usize {
        self.writers.queued()
    }

    /// What the data take on disk, uploads in `SQLite`'s data directory not counted.
    pub async fn size_bytes(&self) -> Result<u64, DbError> {
        dialect::size_bytes(&mut self.read().await?).await
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
        self.writers.close_connection().await;
    }
}

/// The present.
pub fn now() -> Timestamp {
    Timestamp::now()
}
