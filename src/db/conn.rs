//! One connection type over both engines.

use crate::time::Timestamp;
use sqlx::{
    Arguments, Encode, FromRow, Postgres, Sqlite, Transaction, Type,
    pool::PoolConnection,
    postgres::{PgArguments, PgConnection, PgRow},
    sqlite::{SqliteArguments, SqliteConnection, SqliteRow},
};
use uuid::Uuid;

use super::{DbError, Engine, writer::Notice};

/// What can be bound to `$n` on both engines.
pub trait Bind:
    for<'q> Encode<'q, Sqlite> + Type<Sqlite> + for<'q> Encode<'q, Postgres> + Type<Postgres>
{
}
impl<T> Bind for T where
    T: for<'q> Encode<'q, Sqlite> + Type<Sqlite> + for<'q> Encode<'q, Postgres> + Type<Postgres>
{
}

/// What a row of both engines can be read into: every `#[derive(FromRow)]` and every tuple.
pub trait Record:
    for<'r> FromRow<'r, SqliteRow> + for<'r> FromRow<'r, PgRow> + Send + Unpin
{
}
impl<T> Record for T where
    T: for<'r> FromRow<'r, SqliteRow> + for<'r> FromRow<'r, PgRow> + Send + Unpin
{
}

enum Link {
    Lite(PoolConnection<Sqlite>),
    LiteTx(Transaction<'static, Sqlite>),
    Pg(PoolConnection<Postgres>),
    PgTx(Transaction<'static, Postgres>),
}

/// A row of the event log whose presence proves that a transaction was committed.
#[derive(Clone, Debug, PartialEq)]
pub struct Proof {
    pub workspace: Uuid,
    pub seq: i64,
    pub ts: Timestamp,
}

pub struct Conn {
    link: Link,
    /// Statements run so far that may have changed something.
    pub(super) writes: u64,
    /// A statement failed, so `PostgreSQL` refuses all further ones in this transaction.
    pub(super) failed: bool,
    /// It failed for a reason that running the command again can mend.
    pub(super) retryable: bool,
    pub(super) notices: Vec<Notice>,
    pub(super) proof: Option<Proof>,
}

impl Conn {
    fn new(link: Link) -> Self {
        Self {
            link,
            writes: 0,
            failed: false,
            retryable: false,
            notices: Vec::new(),
            proof: None,
        }
    }

    /// Forgets what was noted about the transaction that has just ended.
    pub(super) fn renew(&mut self) {
        self.writes = 0;
        self.failed = false;
        self.retryable = false;
        self.notices.clear();
        self.proof = None;
    }

    pub(super) fn lite(c: PoolConnection<Sqlite>) -> Self {
        Self::new(Link::Lite(c))
    }

    pub(super) fn lite_tx(c: Transaction<'static, Sqlite>) -> Self {
        Self::new(Link::LiteTx(c))
    }

    pub(super) fn pg(c: PoolConnection<Postgres>) -> Self {
        Self::new(Link::Pg(c))
    }

    pub(super) fn pg_tx(c: Transaction<'static, Postgres>) -> Self {
        Self::new(Link::PgTx(c))
    }

    pub fn engine(&self) -> Engine {
        match self.link {
            Link::Lite(_) | Link::LiteTx(_) => Engine::Sqlite,
            Link::Pg(_) | Link::PgTx(_) => Engine::Postgres,
        }
    }

    /// A statement with `$1`, `$2`, … as parameters.
    pub fn q(&mut self, sql: &'static str) -> Q<'_> {
        let args = match self.engine() {
            Engine::Sqlite => Args::Lite(SqliteArguments::default()),
            Engine::Postgres => Args::Pg(PgArguments::default()),
        };
        Q {
            conn: self,
            sql,
            args,
            is_kept: true,
            error: None,
        }
    }

    /// Hands `notice` to the listener once this transaction is committed.
    pub fn notify(&mut self, notice: Notice) {
        self.notices.push(notice);
    }

    /// States which event row shows that this transaction was committed.
    pub fn prove(&mut self, proof: Proof) {
        self.proof = Some(proof);
    }

    /// A statement of transaction control; not counted as a write.
    pub(super) async fn control(&mut self, sql: &'static str) -> Result<(), DbError> {
        match &mut self.link {
            Link::Lite(c) => sqlx::query(sql).execute(&mut **c).await.map(|_| ()),
            Link::LiteTx(c) => sqlx::query(sql).execute(&mut **c).await.map(|_| ()),
            Link::Pg(c) => sqlx::query(sql).execute(&mut **c).await.map(|_| ()),
            Link::PgTx(c) => sqlx::query(sql).execute(&mut **c).await.map(|_| ()),
        }?;
        Ok(())
    }

    fn note(&mut self, error: &sqlx::Error) {
        self.failed = true;
        self.retryable |= is_retryable(error);
    }

    fn as_lite(&mut self) -> Option<&mut SqliteConnection> {
        match &mut self.link {
            Link::Lite(c) => Some(&mut **c),
            Link::LiteTx(c) => Some(&mut **c),
            Link::Pg(_) | Link::PgTx(_) => None,
        }
    }

    fn as_pg(&mut self) -> Option<&mut PgConnection> {
        match &mut self.link {
            Link::Pg(c) => Some(&mut **c),
            Link::PgTx(c) => Some(&mut **c),
            Link::Lite(_) | Link::LiteTx(_) => None,
        }
    }
}

/// Serialisation failure, deadlock, or a connection that went away.
fn is_retryable(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Database(e) => {
            // 40001 serialization_failure, 40P01 deadlock_detected, 57P01..03 the server is going or coming.
            matches!(
                e.code().as_deref(),
                Some("40001" | "40P01" | "57P01" | "57P02" | "57P03" | "08006" | "08003")
            )
        }
        sqlx::Error::Io(_) | sqlx::Error::PoolTimedOut | sqlx::Error::WorkerCrashed => true,
        _ => false,
    }
}

enum Args {
    Lite(SqliteArguments),
    Pg(PgArguments),
}

/// A statement that is being given its parameters.
#[must_use = "a statement does nothing until it is run"]
pub struct Q<'c> {
    conn: &'c mut Conn,
    sql: &'static str,
    args: Args,
    is_kept: bool,
    error: Option<sqlx::Error>,
}

impl Q<'_> {
    /// `PostgreSQL` plans the statement for these very values instead of once for all.
    pub fn planned_anew(mut self) -> Self {
        self.is_kept = false;
        self
    }

    pub fn bind<T: Bind>(mut self, value: T) -> Self {
        let added = match &mut self.args {
            Args::Lite(args) => args.add(value),
            Args::Pg(args) => args.add(value),
        };
        if let Err(e) = added {
            self.error.get_or_insert(sqlx::Error::Encode(e));
        }
        self
    }

    /// Runs it; the number of rows that it changed.
    pub async fn run(self) -> Result<u64, DbError> {
        let Self {
            conn,
            sql,
            args,
            is_kept,
            error,
        } = self;
        if let Some(e) = error {
            return Err(e.into());
        }
        conn.writes += 1;
        let done = match args {
            Args::Lite(args) => match conn.as_lite() {
                Some(c) => sqlx::query_with(sql, args)
                    .persistent(is_kept)
                    .execute(c)
                    .await
                    .map(|r| r.rows_affected()),
                None => Err(sqlx::Error::WorkerCrashed),
            },
            Args::Pg(args) => match conn.as_pg() {
                Some(c) => sqlx::query_with(sql, args)
                    .persistent(is_kept)
                    .execute(c)
                    .await
                    .map(|r| r.rows_affected()),
                None => Err(sqlx::Error::WorkerCrashed),
            },
        };
        done.map_err(|e| {
            conn.note(&e);
            e.into()
        })
    }

    /// Every row.
    pub async fn all<T: Record>(self) -> Result<Vec<T>, DbError> {
        let Self {
            conn,
            sql,
            args,
            is_kept,
            error,
        } = self;
        if let Some(e) = error {
            return Err(e.into());
        }
        if !sql
            .trim_start()
            .get(..6)
            .is_some_and(|word| word.eq_ignore_ascii_case("select"))
        {
            conn.writes += 1;
        }
        let rows = match args {
            Args::Lite(args) => match conn.as_lite() {
                Some(c) => sqlx::query_with(sql, args)
                    .persistent(is_kept)
                    .fetch_all(c)
                    .await
                    .and_then(|rows| rows.iter().map(T::from_row).collect()),
                None => Err(sqlx::Error::WorkerCrashed),
            },
            Args::Pg(args) => match conn.as_pg() {
                Some(c) => sqlx::query_with(sql, args)
                    .persistent(is_kept)
                    .fetch_all(c)
                    .await
                    .and_then(|rows| rows.iter().map(T::from_row).collect()),
                None => Err(sqlx::Error::WorkerCrashed),
            },
        };
        rows.map_err(|e| {
            conn.note(&e);
            e.into()
        })
    }

    /// The first row, if there is one.
    pub async fn opt<T: Record>(self) -> Result<Option<T>, DbError> {
        Ok(self.all().await?.into_iter().next())
    }

    /// The first row; `RowNotFound` when there is none.
    pub async fn one<T: Record>(self) -> Result<T, DbError> {
        self.opt()
            .await?
            .ok_or_else(|| sqlx::Error::RowNotFound.into())
    }

    /// The one column of the one row.
    pub async fn value<T>(self) -> Result<T, DbError>
    where
        (T,): Record,
    {
        Ok(self.one::<(T,)>().await?.0)
    }
}
