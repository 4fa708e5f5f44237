//! Database errors.

use std::time::Duration;

use crate::release::Version;

/// Maximum duration of a read in the slow lane.
pub(super) const SCAN_DEADLINE: Duration = Duration::from_secs(5);

#[derive(Debug, thiserror::Error)]
pub enum DbError {
    #[error(transparent)]
    Sql(#[from] sqlx::Error),
    #[error("could not migrate the database: {0}")]
    Migrate(#[from] sqlx::migrate::MigrateError),
    #[error(
        "the database needs OpenVibe {} or newer, and this is {program}: upgrade this node, or restore before-{needed}.ovb with this version",
        .needed.short()
    )]
    TooNew { needed: Version, program: Version },
    #[error(
        "migration {migration} needs every node at {needed} or newer, and {name} runs {version}: upgrade it first"
    )]
    NodeTooOld {
        migration: i64,
        needed: String,
        name: String,
        version: String,
    },
    #[error("the server is shutting down")]
    Closed,
    #[error("the write queue is full: try again in a moment")]
    Busy,
    /// A read in the slow lane exceeded its deadline.
    #[error("the read took longer than {} s", SCAN_DEADLINE.as_secs())]
    TooSlow,
    #[error("a write command panicked")]
    Panicked,
    /// The commit's outcome is unknown.
    #[error("could not commit the write: {0}")]
    Commit(String),
    /// The database did not respond; nothing was stored.
    #[error("the database does not respond: {0}")]
    Away(String),
    #[error("the database is damaged: {0}")]
    Damaged(String),
    #[error("{0}")]
    Start(String),
}
