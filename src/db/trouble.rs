//! Classifies database failures, so that messages can suggest a remedy.

use sqlx::{migrate::MigrateError, sqlite::SqliteError};

use super::{DbError, conn::is_lost};

/// Class of a database failure. Nothing was stored, except possibly for `Unknown`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
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
    /// The database was written by a newer version, with this unknown migration.
    Newer(i64),
}

impl Trouble {
    /// Cause and remedy, as the end of a sentence about the database.
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
        }
    }
}

/// Maps result codes of `SQLite` (sqlite.org/rescode.html), mostly by their lower byte.
fn of_sqlite(code: i32) -> Option<Trouble> {
    /// The shared-memory file could not grow.
    const IOERR_SHMSIZE: i32 = 4874;
    match (code, code & 0xff) {
        (IOERR_SHMSIZE, _) | (_, 13) => Some(Trouble::DiskFull),
        (_, 10 | 14) => Some(Trouble::DiskBroken),
        (_, 8) => Some(Trouble::ReadOnly),
        (_, 11 | 26) => Some(Trouble::Damaged),
        (_, 5 | 6) => Some(Trouble::Busy),
        _ => None,
    }
}

/// Maps SQLSTATE codes (`PostgreSQL` documentation, appendix A).
fn of_postgres(state: &str) -> Option<Trouble> {
    match state {
        "53100" => Some(Trouble::DiskFull),
        "58030" => Some(Trouble::DiskBroken),
        "25006" => Some(Trouble::ReadOnly),
        "XX001" | "XX002" => Some(Trouble::Damaged),
        "53300" | "57P01" | "57P02" | "57P03" => Some(Trouble::Away),
        state if state.starts_with("08") => Some(Trouble::Away),
        _ => None,
    }
}

fn of_sqlx(error: &sqlx::Error) -> Option<Trouble> {
    match error {
        sqlx::Error::Database(e) => {
            let code = e.code()?;
            if e.try_downcast_ref::<SqliteError>().is_some() {
                of_sqlite(code.parse().ok()?)
            } else {
                of_postgres(&code)
            }
        }
        sqlx::Error::Io(_)
        | sqlx::Error::Tls(_)
        | sqlx::Error::PoolTimedOut
        | sqlx::Error::WorkerCrashed => Some(Trouble::Away),
        sqlx::Error::Migrate(e) => of_migration(e),
        _ => None,
    }
}

fn of_migration(error: &MigrateError) -> Option<Trouble> {
    match error {
        MigrateError::VersionMissing(version) => Some(Trouble::Newer(*version)),
        MigrateError::Execute(e) | MigrateError::ExecuteMigration(e, _) => of_sqlx(e),
        _ => None,
    }
}

impl DbError {
    /// Whether the connection was lost, so that a read can succeed on another one.
    pub fn is_lost_connection(&self) -> bool {
        matches!(self, Self::Sql(e) if is_lost(e))
    }

    /// `None` for errors of statements.
    pub fn trouble(&self) -> Option<Trouble> {
        match self {
            Self::Sql(e) => of_sqlx(e),
            Self::Migrate(e) => of_migration(e),
            Self::Away(_) => Some(Trouble::Away),
            Self::Commit(_) => Some(Trouble::Unknown),
            Self::Damaged(_) => Some(Trouble::Damaged),
            Self::Busy | Self::TooSlow | Self::Closed | Self::Panicked | Self::Start(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_codes_of_both_engines_are_classified() {
        for (code, trouble) in [
            (13, Some(Trouble::DiskFull)),
            (4874, Some(Trouble::DiskFull)),
            (778, Some(Trouble::DiskBroken)),
            (1032, Some(Trouble::ReadOnly)),
            (11, Some(Trouble::Damaged)),
            (267, Some(Trouble::Damaged)),
            (26, Some(Trouble::Damaged)),
            (5, Some(Trouble::Busy)),
            (2067, None),
        ] {
            assert_eq!(of_sqlite(code), trouble, "{code}");
        }
        assert_eq!(of_postgres("53100"), Some(Trouble::DiskFull));
        assert_eq!(of_postgres("08006"), Some(Trouble::Away));
        assert_eq!(of_postgres("23505"), None);
    }
}
