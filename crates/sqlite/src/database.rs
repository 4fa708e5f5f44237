//! The database type, which ties the others together.

use sqlx_core::{
    database::{Database, HasStatementCache},
    impl_acquire, impl_column_index_for_row, impl_column_index_for_statement,
    impl_encode_for_option, impl_into_arguments_for_arguments,
};

use crate::{
    Buffer, SqliteArguments, SqliteColumn, SqliteConnection, SqliteRow, SqliteStatement,
    SqliteTransactionManager, SqliteTypeInfo, SqliteValue, SqliteValueRef,
};

/// `SQLite`, in place of `sqlx::Sqlite`.
#[derive(Debug)]
pub struct Sqlite;

impl Database for Sqlite {
    type Connection = SqliteConnection;
    type TransactionManager = SqliteTransactionManager;
    type Row = SqliteRow;
    type QueryResult = SqliteQueryResult;
    type Column = SqliteColumn;
    type TypeInfo = SqliteTypeInfo;
    type Value = SqliteValue;
    type ValueRef<'r> = SqliteValueRef<'r>;
    type Arguments = SqliteArguments;
    type ArgumentBuffer = Buffer;
    type Statement = SqliteStatement;

    const NAME: &'static str = "SQLite";
    const URL_SCHEMES: &'static [&'static str] = &["sqlite"];
}

impl HasStatementCache for Sqlite {}

impl_into_arguments_for_arguments!(SqliteArguments);
impl_column_index_for_row!(SqliteRow);
impl_column_index_for_statement!(SqliteStatement);
impl_acquire!(Sqlite, SqliteConnection);
impl_encode_for_option!(Sqlite);

/// Result of a statement that returned no rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SqliteQueryResult {
    pub(crate) changes: u64,
}

impl SqliteQueryResult {
    /// Number of inserted, updated, and deleted rows.
    pub fn rows_affected(&self) -> u64 {
        self.changes
    }
}

impl Extend<SqliteQueryResult> for SqliteQueryResult {
    fn extend<T: IntoIterator<Item = SqliteQueryResult>>(&mut self, all: T) {
        self.changes += all.into_iter().map(|one| one.changes).sum::<u64>();
    }
}
