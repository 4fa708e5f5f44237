//! Connections, which run statements on the calling thread.

use std::{fmt, time::Duration};

use futures_core::{future::BoxFuture, stream::BoxStream};
use rusqlite::Statement;
use sqlx_core::{
    Either, Error,
    connection::Connection,
    executor::{Execute, Executor},
    ext::async_stream::TryAsyncStream,
    sql_str::SqlStr,
    transaction::Transaction,
};

use crate::{
    Sqlite, SqliteArguments, SqliteConnectOptions, SqliteQueryResult, SqliteRow, SqliteStatement,
    SqliteTypeInfo, error::sql_error, row::columns_of,
};

/// Connection to a `SQLite` file.
pub struct SqliteConnection {
    c: rusqlite::Connection,
}

impl fmt::Debug for SqliteConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SqliteConnection")
    }
}

/// Statement to run, with its parameters.
struct Request {
    sql: SqlStr,
    /// `None` if `sql` can consist of several statements.
    arguments: Option<SqliteArguments>,
    is_kept: bool,
}

impl Request {
    fn new<'q>(mut query: impl Execute<'q, Sqlite>) -> Result<Self, Error> {
        let arguments = query.take_arguments().map_err(Error::Encode)?;
        Ok(Self { arguments, is_kept: query.persistent(), sql: query.sql() })
    }
}

impl SqliteConnection {
    pub(crate) fn new(c: rusqlite::Connection) -> Self {
        Self { c }
    }

    /// Checks whether a transaction is in progress.
    pub fn is_in_transaction(&self) -> bool {
        !self.c.is_autocommit()
    }

    /// Sets the maximum wait for locks of other connections.
    ///
    /// # Errors
    /// Any error from the engine.
    pub fn set_busy_timeout(&mut self, timeout: Duration) -> Result<(), Error> {
        self.c.busy_timeout(timeout).map_err(sql_error)
    }

    /// Rolls back the transaction, if there is one.
    ///
    /// # Errors
    /// Any error from the engine.
    pub fn roll_back(&mut self) -> Result<(), Error> {
        if self.is_in_transaction() {
            self.run("rollback", Some(&SqliteArguments::default()))?;
        }
        Ok(())
    }

    /// Calls `may_continue` each time the engine has executed this number of instructions, and interrupts the statement if it returns
    /// false. The engine counts the instructions of a prepared statement across all of its runs, so the function can be called even
    /// during a short run.
    ///
    /// # Errors
    /// Any error from the engine.
    pub fn set_progress_handler(
        &mut self,
        instructions: i32,
        mut may_continue: impl FnMut() -> bool + Send + 'static,
    ) -> Result<(), Error> {
        self.c.progress_handler(instructions, Some(move || !may_continue())).map_err(sql_error)
    }

    /// Removes the progress handler.
    ///
    /// # Errors
    /// Any error from the engine.
    pub fn remove_progress_handler(&mut self) -> Result<(), Error> {
        self.c.progress_handler(0, None::<fn() -> bool>).map_err(sql_error)
    }

    /// Runs a statement and returns the number of changed rows. Without arguments, the text can consist of several statements.
    ///
    /// # Errors
    /// Any error from the engine.
    pub fn run(&mut self, sql: &str, arguments: Option<&SqliteArguments>) -> Result<u64, Error> {
        self.change(sql, arguments, true)
    }

    fn change(
        &mut self,
        sql: &str,
        arguments: Option<&SqliteArguments>,
        is_kept: bool,
    ) -> Result<u64, Error> {
        if arguments.is_some() {
            self.each(sql, arguments, is_kept, &mut |_| Ok::<_, Error>(()))?;
        } else {
            log(sql);
            self.c.execute_batch(sql).map_err(sql_error)?;
        }
        Ok(self.c.changes())
    }

    /// Passes each row of the result to `sink`. The same `SqliteRow` is reused for every row.
    ///
    /// `is_kept` keeps the prepared statement for the next run.
    ///
    /// # Errors
    /// Any error from the engine or from `sink`.
    pub fn each<E: From<Error>>(
        &mut self,
        sql: &str,
        arguments: Option<&SqliteArguments>,
        is_kept: bool,
        sink: &mut dyn FnMut(&SqliteRow) -> Result<(), E>,
    ) -> Result<(), E> {
        log(sql);
        if is_kept {
            let mut statement = self.c.prepare_cached(sql).map_err(sql_error)?;
            each_row(&mut statement, arguments, sink)
        } else {
            let mut statement = self.c.prepare(sql).map_err(sql_error)?;
            each_row(&mut statement, arguments, sink)
        }
    }

    fn execute_request(&mut self, request: Request) -> Result<SqliteQueryResult, Error> {
        let Request { sql, arguments, is_kept } = request;
        let changes = self.change(sql.as_str(), arguments.as_ref(), is_kept)?;
        Ok(SqliteQueryResult { changes })
    }

    fn fetch_request(&mut self, request: Request) -> Result<Vec<SqliteRow>, Error> {
        let Request { sql, arguments, is_kept } = request;
        let mut rows = Vec::new();
        self.each(sql.as_str(), arguments.as_ref(), is_kept, &mut |row| {
            rows.push(row.clone());
            Ok::<_, Error>(())
        })?;
        Ok(rows)
    }
}

/// Logs a statement under the name that sqlx's drivers use. Parameters are not logged.
fn log(sql: &str) {
    tracing::debug!(target: "sqlx::query", summary = sql);
}

/// Runs a statement, and passes each row to `sink`.
fn each_row<E: From<Error>>(
    statement: &mut Statement<'_>,
    arguments: Option<&SqliteArguments>,
    sink: &mut dyn FnMut(&SqliteRow) -> Result<(), E>,
) -> Result<(), E> {
    match arguments {
        Some(arguments) => arguments.bind(statement)?,
        None => SqliteArguments::default().bind(statement)?,
    }
    let mut row: Option<SqliteRow> = None;
    let mut rows = statement.raw_query();
    while let Some(current) = rows.next().map_err(sql_error)? {
        let row = row.get_or_insert_with(|| SqliteRow::new(columns_of(current.as_ref())));
        row.read(current)?;
        sink(row)?;
    }
    Ok(())
}

impl Connection for SqliteConnection {
    type Database = Sqlite;
    type Options = SqliteConnectOptions;

    async fn close(self) -> Result<(), Error> {
        self.c.close().map_err(|(_, e)| sql_error(e))
    }

    async fn close_hard(self) -> Result<(), Error> {
        drop(self);
        Ok(())
    }

    async fn ping(&mut self) -> Result<(), Error> {
        Ok(())
    }

    async fn begin(&mut self) -> Result<Transaction<'_, Sqlite>, Error> {
        Transaction::begin(self, None).await
    }

    fn cached_statements_size(&self) -> usize {
        0
    }

    async fn clear_cached_statements(&mut self) -> Result<(), Error> {
        self.c.flush_prepared_statement_cache();
        Ok(())
    }

    fn shrink_buffers(&mut self) {}

    async fn flush(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn should_flush(&self) -> bool {
        false
    }
}

impl<'c> Executor<'c> for &'c mut SqliteConnection {
    type Database = Sqlite;

    fn execute<'e, 'q: 'e, E>(self, query: E) -> BoxFuture<'e, Result<SqliteQueryResult, Error>>
    where
        'c: 'e,
        E: 'q + Execute<'q, Sqlite>,
    {
        let request = Request::new(query);
        Box::pin(async move { self.execute_request(request?) })
    }

    /// Reads all rows at once.
    fn fetch_many<'e, 'q: 'e, E>(
        self,
        query: E,
    ) -> BoxStream<'e, Result<Either<SqliteQueryResult, SqliteRow>, Error>>
    where
        'c: 'e,
        E: 'q + Execute<'q, Sqlite>,
    {
        let request = Request::new(query);
        Box::pin(TryAsyncStream::new(|yielder| async move {
            for row in self.fetch_request(request?)? {
                yielder.r#yield(Either::Right(row)).await;
            }
            let changes = self.c.changes();
            yielder.r#yield(Either::Left(SqliteQueryResult { changes })).await;
            Ok(())
        }))
    }

    fn fetch_all<'e, 'q: 'e, E>(self, query: E) -> BoxFuture<'e, Result<Vec<SqliteRow>, Error>>
    where
        'c: 'e,
        E: 'q + Execute<'q, Sqlite>,
    {
        let request = Request::new(query);
        Box::pin(async move { self.fetch_request(request?) })
    }

    fn fetch_optional<'e, 'q: 'e, E>(
        self,
        query: E,
    ) -> BoxFuture<'e, Result<Option<SqliteRow>, Error>>
    where
        'c: 'e,
        E: 'q + Execute<'q, Sqlite>,
    {
        let request = Request::new(query);
        Box::pin(async move { Ok(self.fetch_request(request?)?.into_iter().next()) })
    }

    fn prepare_with<'e>(
        self,
        sql: SqlStr,
        _parameters: &'e [SqliteTypeInfo],
    ) -> BoxFuture<'e, Result<SqliteStatement, Error>>
    where
        'c: 'e,
    {
        Box::pin(async move {
            let statement = self.c.prepare_cached(sql.as_str()).map_err(sql_error)?;
            Ok(SqliteStatement {
                parameters: statement.parameter_count(),
                columns: columns_of(&statement),
                sql: sql.clone(),
            })
        })
    }
}
