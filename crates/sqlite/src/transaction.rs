//! Transactions. There are no savepoints, so they cannot be nested.

use sqlx_core::{Error, sql_str::SqlStr, transaction::TransactionManager};

use crate::{Sqlite, SqliteConnection};

pub struct SqliteTransactionManager;

impl TransactionManager for SqliteTransactionManager {
    type Database = Sqlite;

    /// # Errors
    /// `InvalidSavePointStatement` if the connection is in a transaction.
    async fn begin(c: &mut SqliteConnection, statement: Option<SqlStr>) -> Result<(), Error> {
        if c.is_in_transaction() {
            return Err(Error::InvalidSavePointStatement);
        }
        let sql = statement.as_ref().map_or("begin", SqlStr::as_str);
        c.run(sql, None)?;
        if c.is_in_transaction() { Ok(()) } else { Err(Error::BeginFailed) }
    }

    async fn commit(c: &mut SqliteConnection) -> Result<(), Error> {
        if c.is_in_transaction() {
            c.run("commit", None)?;
        }
        Ok(())
    }

    async fn rollback(c: &mut SqliteConnection) -> Result<(), Error> {
        c.roll_back()
    }

    fn start_rollback(c: &mut SqliteConnection) {
        // If the rollback fails, the next `begin` fails as well.
        drop(c.roll_back());
    }

    fn get_transaction_depth(c: &SqliteConnection) -> usize {
        usize::from(c.is_in_transaction())
    }
}
