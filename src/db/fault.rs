//! Classifies database failures, so that messages can suggest a remedy.

use std::borrow::Cow;

use openvibe_sqlite::SqliteError;
use sqlx::migrate::MigrateError;

use super::{error::DbError, migrate};

/// Class of a database failure. Nothing was stored, except possibly for `Unknown`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DatabaseFault {
    DiskFull,
    /// Other I/O error.
    DiskBroken,
    ReadOnly,
    Damaged,
    /// Another program has locked the file.
    Busy,
    /// The database does not respond, or the connection was lost.
    Away,
    /// The connection was lost during a commit, and its outcome could not be determined.
    Unknown,
    /// The database was written by a newer version, which applied this migration that the running version does not know.
    Newer(i64),
    /// This migration was applied with another text than that of the running version.
    Changed(i64),
    /// The schema of the database is older than the first migration that this version knows.
    Outdated,
}

impl DatabaseFault {
    /// Cause and remedy, as a clause that completes an error message about the database.
    pub fn text(self) -> String {
        match self {
            Self::DiskFull => "the disk is full: free some space".to_owned(),
            Self::DiskBroken => {
                "the disk cannot be read or written: check the system log".to_owned()
            }
            Self::ReadOnly => {
                "it is read-only: give this user write permission for the file and its directory"
                    .to_owned()
            }
            Self::Damaged => {
                "it is damaged or not an OpenVibe database: restore a backup".to_owned()
            }
            Self::Busy => "another program has locked it: stop that program".to_owned(),
            Self::Away => "it does not respond".to_owned(),
            Self::Unknown => "the connection was lost during a commit".to_owned(),
            Self::Newer(migration) => format!(
                "it was written by a newer OpenVibe (migration {migration} is unknown to this version): start that version, or restore a backup"
            ),
            Self::Changed(migration) => format!(
                "its migration {migration} is not the one of this version: start the version that made the database, or restore a backup"
            ),
            Self::Outdated => {
                "it has the schema of a development version, which this version cannot read: start with \
                 an empty data directory or database"
                    .to_owned()
            }
        }
    }
}

/// Maps result codes of `SQLite` (sqlite.org/rescode.html), mostly by their low byte, which is the primary result code.
fn of_sqlite(code: i32) -> Option<DatabaseFault> {
    /// Result code if the shared-memory file cannot grow.
    const IOERR_SHMSIZE: i32 = 4874;
    match (code, code & 0xff) {
        (IOERR_SHMSIZE, _) | (_, 13) => Some(DatabaseFault::DiskFull),
        (_, 10 | 14) => Some(DatabaseFault::DiskBroken),
        (_, 8) => Some(DatabaseFault::ReadOnly),
        (_, 11 | 26) => Some(DatabaseFault::Damaged),
        (_, 5 | 6) => Some(DatabaseFault::Busy),
        _ => None,
    }
}

/// Maps SQLSTATE codes (`PostgreSQL` documentation, appendix A).
fn of_postgres(state: &str) -> Option<DatabaseFault> {
    match state {
        "53100" => Some(DatabaseFault::DiskFull),
        "58030" => Some(DatabaseFault::DiskBroken),
        "25006" => Some(DatabaseFault::ReadOnly),
        "XX001" | "XX002" => Some(DatabaseFault::Damaged),
        "40001" | "40P01" | "55P03" => Some(DatabaseFault::Busy),
        "57014" => Some(DatabaseFault::Away),
        state if is_lost_session(state) => Some(DatabaseFault::Away),
        _ => None,
    }
}

fn of_sqlx(error: &sqlx::Error) -> Option<DatabaseFault> {
    match error {
        sqlx::Error::Database(e) => {
            let code = e.code()?;
            if e.try_downcast_ref::<SqliteError>().is_some() {
                of_sqlite(code.parse().ok()?)
            } else {
                of_postgres(&code)
            }
        }
        // sqlx reports a protocol error if a proxy that has no backend server closes a connection immediately; `reject_standby`
        // reports one if the server is not the primary.
        sqlx::Error::Io(_)
        | sqlx::Error::Protocol(_)
        | sqlx::Error::Tls(_)
        | sqlx::Error::PoolTimedOut
        | sqlx::Error::WorkerCrashed => Some(DatabaseFault::Away),
        sqlx::Error::Migrate(e) => of_migration(e),
        _ => None,
    }
}

fn of_migration(error: &MigrateError) -> Option<DatabaseFault> {
    match error {
        MigrateError::VersionMissing(version) if *version < migrate::oldest() => {
            Some(DatabaseFault::Outdated)
        }
        MigrateError::VersionMissing(version) => Some(DatabaseFault::Newer(*version)),
        MigrateError::VersionMismatch(version) => Some(DatabaseFault::Changed(*version)),
        MigrateError::Execute(e) | MigrateError::ExecuteMigration(e, _) => of_sqlx(e),
        _ => None,
    }
}

impl DbError {
    /// Checks whether the connection was lost, so that a read can succeed on another one.
    pub fn is_lost_connection(&self) -> bool {
        matches!(self, Self::Sql(e) if is_lost(e))
    }

    /// Class of the failure; `None` if the error concerns a single statement.
    pub fn fault(&self) -> Option<DatabaseFault> {
        match self {
            Self::Sql(e) => of_sqlx(e),
            Self::Migrate(e) => of_migration(e),
            Self::Away(_) => Some(DatabaseFault::Away),
            Self::Commit(_) => Some(DatabaseFault::Unknown),
            Self::Damaged(_) => Some(DatabaseFault::Damaged),
            Self::TooNew { .. }
            | Self::NodeTooOld { .. }
            | Self::Busy
            | Self::TooSlow
            | Self::Closed
            | Self::Panicked
            | Self::Start(_) => None,
        }
    }
}

/// Checks whether the session ended or must not be reused. The reasons are broken connections, a server that became a standby,
/// timeouts of idle sessions or transactions, too many connections, a server that is starting or shutting down, and a dropped
/// database.
fn is_lost_session(state: &str) -> bool {
    state.starts_with("08")
        || matches!(
            state,
            "25006" | "25P03" | "25P04" | "53300" | "57P01" | "57P02" | "57P03" | "57P04" | "57P05"
        )
}

/// Checks whether the connection must be closed.
pub(super) fn is_lost(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Database(e) => e.code().is_some_and(|code| is_lost_session(&code)),
        sqlx::Error::Io(_) | sqlx::Error::Protocol(_) => true,
        _ => false,
    }
}

/// Checks whether the command can run again, which is the case after serialization failures, deadlocks, lock and statement timeouts,
/// and lost connections.
pub(super) fn is_retryable(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Database(e) => e.code().is_some_and(|code| {
            matches!(&*code, "40001" | "40P01" | "55P03" | "57014") || is_lost_session(&code)
        }),
        sqlx::Error::PoolTimedOut | sqlx::Error::WorkerCrashed => true,
        e => is_lost(e),
    }
}

/// SQLSTATE of an error; `connection_failure` if the error did not come from the server.
pub(super) fn sqlstate(error: &sqlx::Error) -> String {
    let code = error
        .as_database_error()
        .and_then(sqlx::error::DatabaseError::code);
    code.map_or_else(|| "08006".to_owned(), Cow::into_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_codes_of_both_engines_are_classified() {
        for (code, fault) in [
            (13, Some(DatabaseFault::DiskFull)),
            (4874, Some(DatabaseFault::DiskFull)),
            (778, Some(DatabaseFault::DiskBroken)),
            (1032, Some(DatabaseFault::ReadOnly)),
            (11, Some(DatabaseFault::Damaged)),
            (267, Some(DatabaseFault::Damaged)),
            (26, Some(DatabaseFault::Damaged)),
            (5, Some(DatabaseFault::Busy)),
            (2067, None),
        ] {
            assert_eq!(of_sqlite(code), fault, "{code}");
        }
        assert_eq!(of_postgres("53100"), Some(DatabaseFault::DiskFull));
        assert_eq!(of_postgres("08006"), Some(DatabaseFault::Away));
        assert_eq!(of_postgres("23505"), None);
        for state in ["25P03", "57P01", "57P05", "57014"] {
            assert_eq!(of_postgres(state), Some(DatabaseFault::Away), "{state}");
        }
        assert_eq!(of_postgres("40P01"), Some(DatabaseFault::Busy));
    }

    #[test]
    fn a_connection_that_must_be_closed_is_a_database_that_is_away() {
        for error in [
            sqlx::Error::Protocol("unexpected response from SSLRequest: 0x00".to_owned()),
            sqlx::Error::Io(std::io::ErrorKind::ConnectionReset.into()),
        ] {
            assert!(is_lost(&error));
            assert_eq!(of_sqlx(&error), Some(DatabaseFault::Away));
        }
    }
}
