//! Connection options.

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
    str::FromStr,
    time::Duration,
};

use log::LevelFilter;
use rusqlite::OpenFlags;
use sqlx_core::{Error, Url, connection::ConnectOptions};

use crate::{SqliteConnection, error::sql_error};

/// Default number of prepared statements that a connection keeps.
const STATEMENTS_KEPT: usize = 100;
/// Default time for which a statement waits for a lock of another connection.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Values of `pragma journal_mode` (sqlite.org/pragma.html).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SqliteJournalMode {
    Off,
    Wal,
}

/// Values of `pragma synchronous` (sqlite.org/pragma.html).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SqliteSynchronous {
    Off,
    Full,
}

/// Settings of a connection. By default, the file must exist, and foreign keys are checked.
#[derive(Debug, Clone)]
pub struct SqliteConnectOptions {
    /// `None` for a database in memory.
    path: Option<PathBuf>,
    is_read_only: bool,
    creates: bool,
    busy_timeout: Duration,
    statements_kept: usize,
    pragmas: Vec<(&'static str, &'static str)>,
}

impl Default for SqliteConnectOptions {
    fn default() -> Self {
        Self {
            path: None,
            is_read_only: false,
            creates: false,
            busy_timeout: BUSY_TIMEOUT,
            statements_kept: STATEMENTS_KEPT,
            pragmas: vec![("foreign_keys", "ON")],
        }
    }
}

impl SqliteConnectOptions {
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the path of the database file. By default, the database is in memory.
    #[must_use]
    pub fn filename(mut self, path: impl AsRef<Path>) -> Self {
        self.path = Some(path.as_ref().to_owned());
        self
    }

    #[must_use]
    pub fn read_only(mut self, is_read_only: bool) -> Self {
        self.is_read_only = is_read_only;
        self
    }

    #[must_use]
    pub fn create_if_missing(mut self, creates: bool) -> Self {
        self.creates = creates;
        self
    }

    /// Sets the time for which a statement waits for a lock of another connection.
    #[must_use]
    pub fn busy_timeout(mut self, timeout: Duration) -> Self {
        self.busy_timeout = timeout;
        self
    }

    /// Sets the number of prepared statements that the connection keeps.
    #[must_use]
    pub fn statement_cache_capacity(mut self, statements: usize) -> Self {
        self.statements_kept = statements;
        self
    }

    #[must_use]
    pub fn journal_mode(self, mode: SqliteJournalMode) -> Self {
        let value = match mode {
            SqliteJournalMode::Off => "OFF",
            SqliteJournalMode::Wal => "WAL",
        };
        self.pragma("journal_mode", value)
    }

    #[must_use]
    pub fn synchronous(self, synchronous: SqliteSynchronous) -> Self {
        let value = match synchronous {
            SqliteSynchronous::Off => "OFF",
            SqliteSynchronous::Full => "FULL",
        };
        self.pragma("synchronous", value)
    }

    #[must_use]
    pub fn foreign_keys(self, are_checked: bool) -> Self {
        self.pragma("foreign_keys", if are_checked { "ON" } else { "OFF" })
    }

    /// Adds a pragma that is set when the connection is opened.
    #[must_use]
    pub fn pragma(mut self, name: &'static str, value: &'static str) -> Self {
        self.pragmas.retain(|(known, _)| *known != name);
        self.pragmas.push((name, value));
        self
    }

    /// Opens a connection on this thread.
    ///
    /// # Errors
    /// If the file cannot be opened.
    pub fn open(&self) -> Result<SqliteConnection, Error> {
        let mut flags = OpenFlags::SQLITE_OPEN_NO_MUTEX;
        flags |= match self {
            Self { is_read_only: true, .. } => OpenFlags::SQLITE_OPEN_READ_ONLY,
            Self { creates: true, .. } => {
                OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE
            }
            _ => OpenFlags::SQLITE_OPEN_READ_WRITE,
        };
        let opened = match &self.path {
            Some(path) => rusqlite::Connection::open_with_flags(path, flags),
            None => rusqlite::Connection::open_in_memory(),
        };
        let c = opened.map_err(sql_error)?;
        c.busy_timeout(self.busy_timeout).map_err(sql_error)?;
        c.set_prepared_statement_cache_capacity(self.statements_kept);
        let mut pragmas = String::new();
        for (name, value) in &self.pragmas {
            // Writing to a string does not fail.
            let _ = write!(pragmas, "pragma {name} = {value};");
        }
        c.execute_batch(&pragmas).map_err(sql_error)?;
        Ok(SqliteConnection::new(c))
    }
}

impl FromStr for SqliteConnectOptions {
    type Err = Error;

    /// Parses `sqlite::memory:` or `sqlite://PATH`, optionally with `?mode=ro`, `?mode=rw`, or `?mode=rwc`.
    fn from_str(url: &str) -> Result<Self, Error> {
        let invalid = |text: String| Error::Configuration(text.into());
        let rest = url
            .strip_prefix("sqlite://")
            .or_else(|| url.strip_prefix("sqlite:"))
            .ok_or_else(|| invalid(format!("`{url}` does not start with sqlite:")))?;
        if rest == ":memory:" {
            return Ok(Self::new());
        }
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let options = Self::new().filename(path);
        match query {
            "" | "mode=rw" => Ok(options),
            "mode=ro" => Ok(options.read_only(true)),
            "mode=rwc" => Ok(options.create_if_missing(true)),
            other => Err(invalid(format!("`{other}` is not a mode of a connection"))),
        }
    }
}

impl ConnectOptions for SqliteConnectOptions {
    type Connection = SqliteConnection;

    fn from_url(url: &Url) -> Result<Self, Error> {
        url.as_str().parse()
    }

    async fn connect(&self) -> Result<SqliteConnection, Error> {
        self.open()
    }

    /// Does nothing: statements are logged at the level `debug`.
    fn log_statements(self, _level: LevelFilter) -> Self {
        self
    }

    /// Does nothing: slow statements are not logged separately.
    fn log_slow_statements(self, _level: LevelFilter, _duration: Duration) -> Self {
        self
    }
}
