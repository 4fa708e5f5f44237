//! Errors from the engine.

use std::{borrow::Cow, error::Error as StdError, fmt};

use sqlx_core::{
    Error,
    error::{DatabaseError, ErrorKind},
};

/// `SQLITE_ERROR`, for errors without a code.
const GENERIC: i32 = 1;
// Extended result codes (sqlite.org/rescode.html).
const CONSTRAINT_CHECK: i32 = 275;
const CONSTRAINT_FOREIGNKEY: i32 = 787;
const CONSTRAINT_NOTNULL: i32 = 1299;
const CONSTRAINT_PRIMARYKEY: i32 = 1555;
const CONSTRAINT_UNIQUE: i32 = 2067;

/// Error from `SQLite`.
#[derive(Debug)]
pub struct SqliteError {
    /// Extended result code.
    code: i32,
    message: String,
}

impl fmt::Display for SqliteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Some codes share a message.
        write!(f, "(code: {}) {}", self.code, self.message)
    }
}

impl StdError for SqliteError {}

impl DatabaseError for SqliteError {
    fn message(&self) -> &str {
        &self.message
    }

    /// The extended result code.
    fn code(&self) -> Option<Cow<'_, str>> {
        Some(self.code.to_string().into())
    }

    fn as_error(&self) -> &(dyn StdError + Send + Sync + 'static) {
        self
    }

    fn as_error_mut(&mut self) -> &mut (dyn StdError + Send + Sync + 'static) {
        self
    }

    fn into_error(self: Box<Self>) -> Box<dyn StdError + Send + Sync + 'static> {
        self
    }

    fn kind(&self) -> ErrorKind {
        match self.code {
            CONSTRAINT_UNIQUE | CONSTRAINT_PRIMARYKEY => ErrorKind::UniqueViolation,
            CONSTRAINT_FOREIGNKEY => ErrorKind::ForeignKeyViolation,
            CONSTRAINT_NOTNULL => ErrorKind::NotNullViolation,
            CONSTRAINT_CHECK => ErrorKind::CheckViolation,
            _ => ErrorKind::Other,
        }
    }
}

/// Converts a `rusqlite` error to an sqlx error.
pub(crate) fn sql_error(error: rusqlite::Error) -> Error {
    let (code, message) = match error {
        rusqlite::Error::SqliteFailure(e, Some(message)) => (e.extended_code, message),
        rusqlite::Error::SqliteFailure(e, None) => (e.extended_code, e.to_string()),
        rusqlite::Error::SqlInputError { error, msg, .. } => (error.extended_code, msg),
        other => (GENERIC, other.to_string()),
    };
    Error::Database(Box::new(SqliteError { code, message }))
}
