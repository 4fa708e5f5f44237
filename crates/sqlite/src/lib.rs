//! `SQLite` for sqlx, based on `rusqlite`: statements run on the calling thread, without a switch to another one.
//!
//! sqlx's own driver runs each connection on its own thread, so that every statement costs two thread switches. With this driver, the
//! caller decides where a connection is used, and no future ever waits: a statement runs to completion when its future is polled for
//! the first time. Never use a connection on a thread that must not block.
//!
//! The crate contains only the parts of a driver that `OpenVibe` needs: connections, prepared statements, rows, the types that it
//! binds, and migrations. Values are stored exactly as by sqlx's driver, so that each driver can open the other's files. There are no
//! savepoints and no column types.

mod arguments;
mod connection;
mod database;
mod error;
mod migrate;
mod options;
mod row;
mod statement;
mod transaction;
mod types;
mod value;

pub use arguments::{Buffer, SqliteArguments};
pub use connection::SqliteConnection;
pub use database::{Sqlite, SqliteQueryResult};
pub use error::SqliteError;
pub use options::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};
pub use row::{SqliteColumn, SqliteRow};
pub use statement::SqliteStatement;
pub use transaction::SqliteTransactionManager;
pub use value::{SqliteTypeInfo, SqliteValue, SqliteValueRef};
