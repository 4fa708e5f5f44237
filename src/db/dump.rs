//! Exports tables from one engine and imports them into either, in a common format: each row is a JSON array, and each column has one
//! of eight types. Tables and columns are read from the database catalog, so new tables require no change here.

use std::{
    collections::{HashMap, HashSet},
    path::Path,
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use chrono::{DateTime, SecondsFormat, Utc};
use futures::TryStreamExt;
use openvibe_sqlite::{
    SqliteArguments, SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqliteSynchronous,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sqlx::{
    AssertSqlSafe, Column as _, ColumnIndex, ConnectOptions, Connection, Database, Decode,
    PgConnection, Postgres, Row, Transaction, Type,
};
use uuid::Uuid;

use super::{DatabaseUrl, DbError, Engine, migrate, sessions};
use crate::storage::{BUCKET_META_KEY, Blob, BlobStore};

/// Tables that are not exported: internal tables of the engine, tables with derived data, tables that only running nodes
/// need, and the chunks of uploads, which are exported separately.
fn is_left_out(table: &str) -> bool {
    table.starts_with("sqlite_")
        || table.starts_with("_sqlx")
        || table.starts_with("search_")
        || matches!(
            table,
            "blob_chunks"
                | "document_parts"
                | "documents"
                | "embedding_progress"
                | "jobs"
                | "login_attempts"
                | "nodes"
                | "passage_sets"
                | "passages"
                | "presence"
                | "probes"
                | "revocations"
        )
}

/// Type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    Uuid,
    Text,
    Integer,
    Boolean,
    /// Floating-point number, as the shortest string that parses to the same double.
    Real,
    /// Timestamp, as RFC 3339 with microseconds.
    Time,
    /// JSON value, as text, so that numbers keep their notation.
    Json,
    /// Bytes, as Base64.
    Bytes,
}

impl Kind {
    fn of(declared: &str) -> Option<Self> {
        Some(match declared.to_ascii_lowercase().as_str() {
            "uuid" => Self::Uuid,
            "text" => Self::Text,
            "bigint" | "integer" => Self::Integer,
            "boolean" => Self::Boolean,
            "double precision" => Self::Real,
            "timestamptz" | "timestamp with time zone" => Self::Time,
            "jsonb" => Self::Json,
            "bytea" => Self::Bytes,
            _ => return None,
        })
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    pub name: String,
    pub kind: Kind,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    pub name: String,
    pub columns: Vec<Column>,
}

enum Backend {
    Lite(SqliteConnection),
    Pg(Transaction<'static, Postgres>),
}

fn odd(text: String) -> DbError {
    DbError::Start(text)
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

impl Backend {
    fn engine(&self) -> Engine {
        match self {
            Self::Lite(_) => Engine::Sqlite,
            Self::Pg(_) => Engine::Postgres,
        }
    }

    /// Store of uploads that are not in a bucket.
    fn local_store(&self) -> BlobStore {
        match self.engine() {
            Engine::Sqlite => BlobStore::File,
            Engine::Postgres => BlobStore::Db,
        }
    }

    async fn run(&mut self, sql: &str) -> Result<(), DbError> {
        let sql = AssertSqlSafe(sql.to_owned());
        match self {
            Self::Lite(c) => sqlx::raw_sql(sql).execute(c).await.map(|_| ()),
            Self::Pg(c) => sqlx::raw_sql(sql).execute(&mut **c).await.map(|_| ()),
        }?;
        Ok(())
    }

    async fn number(&mut self, sql: &str) -> Result<Option<i64>, DbError> {
        let sql = AssertSqlSafe(sql.to_owned());
        Ok(match self {
            Self::Lite(c) => sqlx::query_scalar(sql).fetch_one(c).await,
            Self::Pg(c) => sqlx::query_scalar(sql).fetch_one(&mut **c).await,
        }?)
    }

    /// Returns rows with two text columns.
    async fn pairs(&mut self, sql: &str) -> Result<Vec<(String, String)>, DbError> {
        let sql = AssertSqlSafe(sql.to_owned());
        Ok(match self {
            Self::Lite(c) => sqlx::query_as(sql).fetch_all(c).await,
            Self::Pg(c) => sqlx::query_as(sql).fetch_all(&mut **c).await,
        }?)
    }

    /// Names of all tables.
    async fn names(&mut self) -> Result<Vec<String>, DbError> {
        let sql = match self.engine() {
            Engine::Sqlite => {
                "select name, '' from sqlite_master where type = 'table' order by name"
            }
            Engine::Postgres => {
                "select table_name::text, '' from information_schema.tables where table_schema = current_schema() \
                 and table_type = 'BASE TABLE' order by 1"
            }
        };
        let pairs = self.pairs(sql).await?;
        Ok(pairs.into_iter().map(|(name, _)| name).collect())
    }

    async fn columns(&mut self, table: &str) -> Result<Vec<Column>, DbError> {
        let literal = table.replace('\'', "''");
        let sql = match self.engine() {
            Engine::Sqlite => {
                format!("select name, type from pragma_table_info('{literal}') order by cid")
            }
            Engine::Postgres => format!(
                "select column_name::text, data_type::text from information_schema.columns \
                 where table_schema = current_schema() and table_name = '{literal}' order by ordinal_position"
            ),
        };
        let columns = self.pairs(&sql).await?;
        columns
            .into_iter()
            .map(|(name, declared)| {
                let kind = Kind::of(&declared).ok_or_else(|| {
                    odd(format!(
                        "{table}.{name} has the type {declared}, which cannot be copied"
                    ))
                })?;
                Ok(Column { name, kind })
            })
            .collect()
    }

    /// Foreign keys, as pairs of the referencing and the referenced table.
    async fn references(&mut self, names: &[String]) -> Result<Vec<(String, String)>, DbError> {
        if self.engine() == Engine::Postgres {
            return self
                .pairs(
                    "select distinct a.relname::text, b.relname::text from pg_constraint k \
                     join pg_class a on a.oid = k.conrelid join pg_class b on b.oid = k.confrelid \
                     join pg_namespace n on n.oid = a.relnamespace \
                     where k.contype = 'f' and n.nspname = current_schema()",
                )
                .await;
        }
        let mut all = Vec::new();
        for name in names {
            let literal = name.replace('\'', "''");
            let sql = format!(
                "select distinct '{literal}', \"table\" from pragma_foreign_key_list('{literal}')"
            );
            all.extend(self.pairs(&sql).await?);
        }
        Ok(all)
    }

    /// Tables to copy, each after the tables that it references.
    async fn tables(&mut self) -> Result<Vec<Table>, DbError> {
        let mut names = self.names().await?;
        names.retain(|name| !is_left_out(name));
        let mut needs: HashMap<String, HashSet<String>> = HashMap::new();
        for (from, to) in self.references(&names).await? {
            if from != to {
                needs.entry(from).or_default().insert(to);
            }
        }
        let (mut sorted, mut done) = (Vec::new(), HashSet::new());
        while sorted.len() < names.len() {
            let ready: Vec<&String> = names
                .iter()
                .filter(|name| !done.contains(*name))
                .filter(|name| {
                    needs
                        .get(*name)
                        .is_none_or(|needed| needed.is_subset(&done))
                })
                .collect();
            if ready.is_empty() {
                return Err(odd("the foreign keys of the tables form a cycle".to_owned()));
            }
            let ready: Vec<String> = ready.into_iter().cloned().collect();
            done.extend(ready.iter().cloned());
            sorted.extend(ready);
        }
        let mut tables = Vec::new();
        for name in sorted {
            let columns = self.columns(&name).await?;
            tables.push(Table { name, columns });
        }
        Ok(tables)
    }
}

/// Snapshot of a database, which can be read during concurrent writes.
pub struct Dump {
    backend: Backend,
}

/// Row of an upload.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct BlobRow {
    #[sqlx(flatten)]
    pub blob: Blob,
    pub size_bytes: i64,
}

/// Returns an error message that names the nodes that use a database and therefore hold its lock.
async fn in_use(backend: &mut Backend) -> Result<String, DbError> {
    let known = backend.names().await?;
    let nodes = if known.iter().any(|table| table == "nodes") {
        let live =
            "select name, '' from nodes where lease_until >= clock_timestamp() order by name";
        backend.pairs(live).await?
    } else {
        Vec::new()
    };
    let names: Vec<String> = nodes.into_iter().map(|(name, _)| name).collect();
    Ok(match names.len() {
        0 => "the database is in use by an OpenVibe server: stop it first".to_owned(),
        1 => format!("1 node uses this database ({}): stop it first", names[0]),
        n => format!(
            "{n} nodes use this database ({}): stop them first",
            names.join(", ")
        ),
    })
}

impl Dump {
    /// Opens a database and takes a snapshot of it.
    ///
    /// # Errors
    /// If the database does not exist, cannot be opened, or is not a database of this server.
    pub async fn open(place: &DatabaseUrl) -> Result<Self, DbError> {
        let backend = match place {
            DatabaseUrl::Sqlite(path) => {
                if !path.is_file() {
                    let text = format!("there is no database at {}", path.display());
                    return Err(odd(text));
                }
                let options = SqliteConnectOptions::new()
                    .filename(path)
                    .read_only(true)
                    .busy_timeout(std::time::Duration::from_secs(10));
                let mut backend = Backend::Lite(options.connect().await?);
                backend.run("begin deferred").await?;
                backend
            }
            DatabaseUrl::Postgres(url) => {
                let pool = sessions::connect_unlimited(url).await?;
                let snapshot = "begin transaction isolation level repeatable read read only";
                Backend::Pg(pool.begin_with(snapshot).await?)
            }
        };
        let mut dump = Self { backend };
        // The first read takes the snapshot.
        if !dump
            .backend
            .names()
            .await?
            .iter()
            .any(|name| name == "meta")
        {
            return Err(odd("the database is not an OpenVibe database".to_owned()));
        }
        dump.version().await?;
        Ok(dump)
    }

    pub fn engine(&self) -> Engine {
        self.backend.engine()
    }

    /// Newest migration that was applied to the database.
    pub async fn version(&mut self) -> Result<i64, DbError> {
        let found = self
            .backend
            .number("select max(version) from _sqlx_migrations where success")
            .await?;
        found.ok_or_else(|| {
            odd("the database was never initialized: start the server once".to_owned())
        })
    }

    pub async fn tables(&mut self) -> Result<Vec<Table>, DbError> {
        self.backend.tables().await
    }

    pub async fn has_table(&mut self, name: &str) -> Result<bool, DbError> {
        let names = self.backend.names().await?;
        Ok(names.iter().any(|found| found == name))
    }

    /// Checks whether a table has rows.
    ///
    /// # Errors
    /// If there is no such table.
    pub async fn has_rows(&mut self, table: &str) -> Result<bool, DbError> {
        let sql = format!(
            "select count(*) from (select 1 from {} limit 1) x",
            quoted(table)
        );
        Ok(self.backend.number(&sql).await?.unwrap_or(0) > 0)
    }

    /// Value of a key in `meta`.
    pub async fn meta(&mut self, key: &str) -> Result<Option<String>, DbError> {
        let pairs = self.backend.pairs("select key, value from meta").await?;
        Ok(pairs.into_iter().find(|(k, _)| k == key).map(|(_, v)| v))
    }

    /// Passes every row of a table to `sink`, as a JSON array without line breaks.
    ///
    /// # Errors
    /// Errors from `sink`, or an error if a value does not have the type of its column.
    pub async fn each_row<E: From<DbError>>(
        &mut self,
        table: &Table,
        mut sink: impl FnMut(String) -> Result<(), E>,
    ) -> Result<(), E> {
        let db = |e: sqlx::Error| E::from(DbError::from(e));
        let is_pg = self.engine() == Engine::Postgres;
        let columns: Vec<String> = table
            .columns
            .iter()
            .map(|column| match column.kind {
                Kind::Json if is_pg => format!("{}::text", quoted(&column.name)),
                // Also covers `integer` columns.
                Kind::Integer if is_pg => format!("{}::bigint", quoted(&column.name)),
                _ => quoted(&column.name),
            })
            .collect();
        let sql = format!("select {} from {}", columns.join(", "), quoted(&table.name));
        match &mut self.backend {
            Backend::Lite(c) => {
                let each = c.each(&sql, None, false, &mut |row| {
                    sink(line(row, table)?).map_err(Unread)
                });
                each.map_err(|Unread(e)| e)?;
            }
            Backend::Pg(c) => {
                let mut rows = sqlx::query(AssertSqlSafe(sql)).fetch(&mut **c);
                while let Some(row) = rows.try_next().await.map_err(db)? {
                    sink(line(&row, table).map_err(db)?)?;
                }
            }
        }
        Ok(())
    }

    /// Lists all uploads.
    pub async fn blobs(&mut self) -> Result<Vec<BlobRow>, DbError> {
        let sql = "select hash, upload_id, size_bytes, store from blobs order by hash";
        Ok(match &mut self.backend {
            Backend::Lite(c) => sqlx::query_as(sql).fetch_all(c).await,
            Backend::Pg(c) => sqlx::query_as(sql).fetch_all(&mut **c).await,
        }?)
    }

    /// The upload with this hash.
    pub async fn find_blob(&mut self, hash: &str) -> Result<Option<Blob>, DbError> {
        let sql = "select hash, upload_id, store from blobs where hash = $1";
        Ok(match &mut self.backend {
            Backend::Lite(c) => sqlx::query_as(sql).bind(hash).fetch_optional(c).await,
            Backend::Pg(c) => {
                sqlx::query_as(sql)
                    .bind(hash)
                    .fetch_optional(&mut **c)
                    .await
            }
        }?)
    }

    /// Reads a chunk of an upload that is stored in the database.
    pub async fn chunk(&mut self, upload: Uuid, n: i64) -> Result<Option<Vec<u8>>, DbError> {
        let sql = "select bytes from blob_chunks where upload_id = $1 and n = $2";
        Ok(match &mut self.backend {
            Backend::Lite(c) => {
                sqlx::query_scalar(sql)
                    .bind(upload)
                    .bind(n)
                    .fetch_optional(c)
                    .await
            }
            Backend::Pg(c) => {
                sqlx::query_scalar(sql)
                    .bind(upload)
                    .bind(n)
                    .fetch_optional(&mut **c)
                    .await
            }
        }?)
    }
}

/// Error that ends the export of a table.
struct Unread<E>(E);

impl<E: From<DbError>> From<sqlx::Error> for Unread<E> {
    fn from(error: sqlx::Error) -> Self {
        Self(DbError::from(error).into())
    }
}

fn line<R>(row: &R, table: &Table) -> Result<String, sqlx::Error>
where
    R: Row,
    usize: ColumnIndex<R>,
    for<'r> Uuid: Decode<'r, R::Database> + Type<R::Database>,
    for<'r> String: Decode<'r, R::Database> + Type<R::Database>,
    for<'r> i64: Decode<'r, R::Database> + Type<R::Database>,
    for<'r> f64: Decode<'r, R::Database> + Type<R::Database>,
    for<'r> bool: Decode<'r, R::Database> + Type<R::Database>,
    for<'r> DateTime<Utc>: Decode<'r, R::Database> + Type<R::Database>,
    for<'r> Vec<u8>: Decode<'r, R::Database> + Type<R::Database>,
    <R::Database as Database>::Row: Row,
{
    let mut values = Vec::with_capacity(table.columns.len());
    for (i, column) in table.columns.iter().enumerate() {
        assert!(row.columns()[i].ordinal() == i, "columns come in order");
        let value = match column.kind {
            Kind::Uuid => row
                .try_get::<Option<Uuid>, _>(i)?
                .map(|id| Value::from(id.to_string())),
            Kind::Text | Kind::Json => row.try_get::<Option<String>, _>(i)?.map(Value::from),
            Kind::Integer => row.try_get::<Option<i64>, _>(i)?.map(Value::from),
            Kind::Boolean => row.try_get::<Option<bool>, _>(i)?.map(Value::from),
            Kind::Real => row
                .try_get::<Option<f64>, _>(i)?
                .map(|n| Value::from(n.to_string())),
            Kind::Time => row
                .try_get::<Option<DateTime<Utc>>, _>(i)?
                .map(|at| Value::from(at.to_rfc3339_opts(SecondsFormat::Micros, true))),
            Kind::Bytes => row
                .try_get::<Option<Vec<u8>>, _>(i)?
                .map(|bytes| Value::from(BASE64_STANDARD.encode(bytes))),
        };
        values.push(value.unwrap_or(Value::Null));
    }
    Ok(Value::from(values).to_string())
}

/// Oldest migration that this program knows.
pub fn oldest_version() -> i64 {
    migrate::oldest()
}

/// Newest migration that this program knows.
pub fn newest_version() -> i64 {
    migrate::newest()
}

/// Import into an empty database. Nothing is visible before `finish`.
pub struct Load {
    backend: Backend,
}

impl Load {
    /// Runs a statement.
    ///
    /// # Errors
    /// If the database rejects it.
    pub async fn execute(&mut self, sql: &str) -> Result<(), DbError> {
        self.backend.run(sql).await
    }

    /// Deletes all rows of a table that is not referenced.
    ///
    /// # Errors
    /// If the database rejects the deletion.
    pub async fn clear(&mut self, table: &str) -> Result<(), DbError> {
        self.execute(&format!("delete from {}", quoted(table)))
            .await
    }

    /// Starts an import into a new file.
    ///
    /// # Errors
    /// If the file cannot be created.
    pub async fn into_file(path: &Path, version: i64) -> Result<Self, DbError> {
        let options = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(true)
            // No journal is needed, because the file is deleted after an error and synced at the end.
            .journal_mode(SqliteJournalMode::Off)
            .synchronous(SqliteSynchronous::Off)
            // Foreign keys are checked once at the end.
            .foreign_keys(false);
        let mut c = options.connect().await?;
        migrate::sqlite_to(&mut c, version).await?;
        Ok(Self {
            backend: Backend::Lite(c),
        })
    }

    /// Starts an import into an empty database of a server, in one transaction.
    ///
    /// # Errors
    /// If the database is not empty, or a server uses it.
    pub async fn into_postgres(url: &str, version: i64) -> Result<Self, DbError> {
        let pool = sessions::connect_unlimited(url).await?;
        let mut tx = pool.begin().await?;
        let free: bool = sqlx::query_scalar("select pg_try_advisory_lock(7310579, 1)")
            .fetch_one(&mut *tx)
            .await?;
        let mut backend = Backend::Pg(tx);
        if !free {
            return Err(odd(in_use(&mut backend).await?));
        }
        let names = backend.names().await?;
        // Rows that are written at startup or by `migrate` do not count as data.
        let data = |name: &&String| !name.starts_with("_sqlx") && *name != "meta";
        for name in names.iter().filter(data) {
            let sql = format!(
                "select count(*) from (select 1 from {} limit 1) x",
                quoted(name)
            );
            if backend.number(&sql).await?.unwrap_or(0) > 0 {
                return Err(odd(format!(
                    "the database is not empty (table {name} has rows): restore into an empty one"
                )));
            }
        }
        if names.iter().any(|name| name.starts_with("_sqlx")) {
            let tables: Vec<String> = names.iter().map(|name| quoted(name)).collect();
            backend
                .run(&format!("drop table {} cascade", tables.join(", ")))
                .await?;
        }
        if let Backend::Pg(c) = &mut backend {
            migrate::postgres_to(c, version).await?;
        }
        Ok(Self { backend })
    }

    pub async fn tables(&mut self) -> Result<Vec<Table>, DbError> {
        self.backend.tables().await
    }

    /// Inserts rows, which are passed as one JSON array per line, and returns the number of rows.
    ///
    /// # Errors
    /// If a line is not a valid row, or if the database rejects it.
    pub async fn insert(&mut self, table: &Table, lines: &str) -> Result<u64, DbError> {
        match &mut self.backend {
            Backend::Lite(c) => insert_lite(c, table, lines).await,
            Backend::Pg(c) => insert_pg(c, table, lines).await,
        }
    }

    /// Inserts a chunk of an upload, if uploads are stored in the database.
    ///
    /// # Errors
    /// Only database errors.
    pub async fn put_chunk(&mut self, upload: Uuid, n: i64, bytes: &[u8]) -> Result<(), DbError> {
        let sql = "insert into blob_chunks (upload_id, n, bytes) values ($1, $2, $3)";
        match &mut self.backend {
            Backend::Lite(c) => {
                sqlx::query(sql)
                    .bind(upload)
                    .bind(n)
                    .bind(bytes)
                    .execute(c)
                    .await?;
            }
            Backend::Pg(c) => {
                sqlx::query(sql)
                    .bind(upload)
                    .bind(n)
                    .bind(bytes)
                    .execute(&mut **c)
                    .await?;
            }
        }
        Ok(())
    }

    /// Sets the stores of the restored uploads. The uploads in `in_bucket` are in the bucket with this URL; all others are stored
    /// locally.
    ///
    /// # Errors
    /// Only database errors.
    pub async fn place_blobs(
        &mut self,
        in_bucket: &[Blob],
        bucket: Option<&str>,
    ) -> Result<(), DbError> {
        let local = self.backend.local_store();
        self.execute(&format!("update blobs set store = '{local}'"))
            .await?;
        let sql = "update blobs set store = $2, upload_id = $3 where hash = $1";
        for blob in in_bucket {
            let Blob {
                hash,
                upload_id,
                store,
            } = blob.clone();
            match &mut self.backend {
                Backend::Lite(c) => {
                    let query = sqlx::query(sql).bind(hash).bind(store).bind(upload_id);
                    query.execute(c).await?;
                }
                Backend::Pg(c) => {
                    let query = sqlx::query(sql).bind(hash).bind(store).bind(upload_id);
                    query.execute(&mut **c).await?;
                }
            }
        }
        self.execute(&format!("delete from meta where key = '{BUCKET_META_KEY}'"))
            .await?;
        if let Some(url) = bucket {
            let url = url.replace('\'', "''");
            let sql =
                format!("insert into meta (key, value) values ('{BUCKET_META_KEY}', '{url}')");
            self.execute(&sql).await?;
        }
        Ok(())
    }

    /// Parks all tasks, so that nothing runs by itself until somebody starts it (see `tasks::asleep`).
    ///
    /// # Errors
    /// Only database errors.
    pub async fn put_to_sleep(&mut self) -> Result<(), DbError> {
        self.execute("insert into meta (key, value) values ('asleep', '1')")
            .await?;
        self.execute(
            "update tasks set status = 'queued', parked = TRUE, holds_slot = FALSE, retry_at = null, wait_reason = 'asleep', \
             worker_id = null, lease_token = null, lease_until = null, run_since = null \
             where status in ('queued', 'running') and not parked",
        )
        .await
    }

    /// Sets a new epoch, deletes the `meta` values that must not be carried over from the old server, and commits.
    ///
    /// # Errors
    /// If rows reference missing rows.
    pub async fn finish(mut self, epoch: &str) -> Result<(), DbError> {
        let epoch = epoch.replace('\'', "''");
        self.backend
            .run("delete from meta where key in ('epoch', 'epoch_server', 'synchronous_standbys', 'search', 'search_rebuild', 'cluster', 'setup_token', 'backups', 'certificate_renewals', 'checks', 'checks_until', 'disk_samples')")
            .await?;
        self.backend
            .run(&format!(
                "insert into meta (key, value) values ('epoch', '{epoch}')"
            ))
            .await?;
        match self.backend {
            Backend::Lite(mut c) => {
                let broken: Option<String> =
                    sqlx::query_scalar("select \"table\" from pragma_foreign_key_check() limit 1")
                        .fetch_optional(&mut c)
                        .await?;
                if let Some(table) = broken {
                    return Err(odd(format!("rows of {table} reference missing rows")));
                }
                c.close().await?;
            }
            Backend::Pg(c) => c.commit().await?,
        }
        Ok(())
    }
}

async fn insert_lite(c: &mut SqliteConnection, table: &Table, lines: &str) -> Result<u64, DbError> {
    let names: Vec<String> = table.columns.iter().map(|c| quoted(&c.name)).collect();
    let marks: Vec<String> = (1..=names.len()).map(|n| format!("${n}")).collect();
    let sql = format!(
        "insert into {} ({}) values ({})",
        quoted(&table.name),
        names.join(", "),
        marks.join(", ")
    );
    let mut tx = c.begin().await?;
    let mut n = 0;
    for line in lines.lines() {
        let values: Vec<Value> = serde_json::from_str(line)
            .map_err(|e| odd(format!("could not parse a row of {}: {e}", table.name)))?;
        if values.len() != table.columns.len() {
            return Err(odd(format!("a row of {} has too few values", table.name)));
        }
        let mut args = SqliteArguments::default();
        for (value, column) in values.into_iter().zip(&table.columns) {
            bind(&mut args, value, column.kind).ok_or_else(|| {
                odd(format!(
                    "a value of {}.{} has the wrong type",
                    table.name, column.name
                ))
            })?;
        }
        sqlx::query_with(AssertSqlSafe(sql.clone()), args)
            .execute(&mut *tx)
            .await?;
        n += 1;
    }
    tx.commit().await?;
    Ok(n)
}

/// Binds a value in the same way as the server does, so that the restored file stores it in the same representation.
fn bind(args: &mut SqliteArguments, value: Value, kind: Kind) -> Option<()> {
    use sqlx::Arguments;
    let text = |value: Value| match value {
        Value::Null => Some(None),
        Value::String(text) => Some(Some(text)),
        _ => None,
    };
    match kind {
        Kind::Uuid => {
            let id = text(value)?.map(|text| Uuid::parse_str(&text)).transpose();
            args.add(id.ok()?)
        }
        Kind::Text | Kind::Json => args.add(text(value)?),
        Kind::Integer if value.is_null() => args.add(None::<i64>),
        Kind::Integer => args.add(value.as_i64()?),
        Kind::Boolean if value.is_null() => args.add(None::<bool>),
        Kind::Boolean => args.add(value.as_bool()?),
        Kind::Real => {
            let n = text(value)?.map(|text| text.parse::<f64>()).transpose();
            args.add(n.ok()?)
        }
        Kind::Time => {
            let at = text(value)?
                .map(|text| DateTime::parse_from_rfc3339(&text))
                .transpose()
                .ok()?;
            args.add(at.map(|at| at.with_timezone(&Utc)))
        }
        Kind::Bytes => {
            let bytes = text(value)?.map(|text| BASE64_STANDARD.decode(text));
            args.add(bytes.transpose().ok()?)
        }
    }
    .ok()
}

async fn insert_pg(c: &mut PgConnection, table: &Table, lines: &str) -> Result<u64, DbError> {
    let names: Vec<String> = table.columns.iter().map(|c| quoted(&c.name)).collect();
    let values: Vec<String> = table
        .columns
        .iter()
        .enumerate()
        .map(|(i, column)| match column.kind {
            Kind::Uuid => format!("(v ->> {i})::uuid"),
            Kind::Text => format!("v ->> {i}"),
            Kind::Integer => format!("(v ->> {i})::bigint"),
            Kind::Boolean => format!("(v ->> {i})::boolean"),
            Kind::Real => format!("(v ->> {i})::double precision"),
            Kind::Time => format!("(v ->> {i})::timestamptz"),
            Kind::Json => format!("(v ->> {i})::jsonb"),
            Kind::Bytes => format!("decode(v ->> {i}, 'base64')"),
        })
        .collect();
    let sql = format!(
        "insert into {} ({}) select {} from jsonb_array_elements($1::jsonb) v",
        quoted(&table.name),
        names.join(", "),
        values.join(", ")
    );
    let all = format!("[{}]", lines.trim_end().replace('\n', ","));
    let done = sqlx::query(AssertSqlSafe(sql)).bind(all).execute(c).await?;
    Ok(done.rows_affected())
}
