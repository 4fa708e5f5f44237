//! Statements that are prepared before they are run.

use std::sync::Arc;

use sqlx_core::{
    Either, Error, column::ColumnIndex, impl_statement_query, sql_str::SqlStr, statement::Statement,
};

use crate::{Sqlite, SqliteArguments, SqliteColumn, SqliteTypeInfo, row::position};

/// Text of a statement that was checked by the engine. Prepared statements stay in the cache of their connection.
#[derive(Debug, Clone)]
pub struct SqliteStatement {
    pub(crate) sql: SqlStr,
    pub(crate) parameters: usize,
    pub(crate) columns: Arc<[SqliteColumn]>,
}

impl Statement for SqliteStatement {
    type Database = Sqlite;

    fn into_sql(self) -> SqlStr {
        self.sql
    }

    fn sql(&self) -> &SqlStr {
        &self.sql
    }

    fn parameters(&self) -> Option<Either<&[SqliteTypeInfo], usize>> {
        Some(Either::Right(self.parameters))
    }

    fn columns(&self) -> &[SqliteColumn] {
        &self.columns
    }

    impl_statement_query!(SqliteArguments);
}

impl ColumnIndex<SqliteStatement> for &'_ str {
    fn index(&self, statement: &SqliteStatement) -> Result<usize, Error> {
        position(&statement.columns, self)
    }
}
