//! Fresh storage for one test's data.

use std::{
    fs::DirBuilder,
    os::unix::fs::DirBuilderExt,
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use memchr::memmem;
use openvibe::db::{DatabaseUrl, Db};
use openvibe_sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions, Connection, PgConnection};
use tokio::sync::{Mutex as AsyncMutex, MutexGuard, OnceCell};

use super::{pause, within};

/// A temporary directory and the URL of a dedicated database.
pub struct TestDatabase {
    pub dir: PathBuf,
    /// `None` if the database is the `SQLite` file in the directory.
    pub postgres: Option<String>,
    /// `true` if a later test can remove the database.
    is_ours: bool,
    kept: AsyncMutex<Kept>,
}

/// The test's own connection to the `SQLite` file.
#[derive(Default)]
struct Kept {
    /// `true` while a server in this process uses the file. Opening a connection reads the whole schema, which takes longer than most
    /// queries of tests, so the connection is then kept.
    is_kept: bool,
    connection: Option<SqliteConnection>,
}

/// The test's connection in use. On drop, it is closed unless it is kept.
struct Used<'a>(MutexGuard<'a, Kept>);

impl Used<'_> {
    fn get(&mut self) -> &mut SqliteConnection {
        self.0.connection.as_mut().unwrap()
    }
}

impl Drop for Used<'_> {
    fn drop(&mut self) {
        if !self.0.is_kept {
            self.0.connection = None;
        }
    }
}

/// Checks whether the suite runs on `PostgreSQL`.
fn wants_postgres() -> bool {
    match std::env::var("OPENVIBE_TEST_DATABASE").as_deref() {
        Ok("postgres") => true,
        Ok("sqlite" | "") | Err(_) => false,
        Ok(other) => panic!("OPENVIBE_TEST_DATABASE is sqlite or postgres, not {other}"),
    }
}

/// Replaces the database name in the server's URL.
fn with_database(url: &str, name: &str) -> String {
    let (address, query) = url
        .split_once('?')
        .map_or((url, None), |(a, q)| (a, Some(q)));
    let (server, _) = address.rsplit_once('/').unwrap();
    query.map_or(format!("{server}/{name}"), |query| {
        format!("{server}/{name}?{query}")
    })
}

/// Names of databases that earlier tests no longer need.
static LEFT: Mutex<Vec<String>> = Mutex::new(Vec::new());

async fn run(url: &str, sql: &[&str]) {
    let mut c = PgConnection::connect(url).await.unwrap();
    for statement in sql {
        let statement = sqlx::AssertSqlSafe((*statement).to_owned());
        sqlx::raw_sql(statement).execute(&mut c).await.unwrap();
    }
    c.close().await.unwrap();
}

/// Creates a database as a copy of another one; returns its URL. Also removes one database that an earlier test no longer needs.
async fn create_database(name: &str, template: &str) -> String {
    let server = std::env::var("OPENVIBE_TEST_POSTGRES_URL");
    let server = server.expect("run this by scripts/with-postgres.sh");
    let left = LEFT.lock().unwrap().pop();
    let drop = left.map(|name| format!("drop database {name} with (force)"));
    // Takes a third of the time of the default strategy, which writes each page to the log.
    let create = format!("create database {name} template {template} strategy file_copy");
    let statements: Vec<&str> = drop.iter().chain([&create]).map(String::as_str).collect();
    run(&server, &statements).await;
    with_database(&server, name)
}

/// Runs the migrations on an empty database. They take longer than most tests, so nearly every test starts with a copy of the result.
async fn migrate(database: DatabaseUrl) {
    let db = Db::open(&database, Arc::new(|_| {})).await.unwrap();
    db.close().await;
}

/// The migrated `SQLite` file.
async fn sqlite_template() -> &'static [u8] {
    static FILE: OnceCell<Vec<u8>> = OnceCell::const_new();
    let made = FILE.get_or_init(async || {
        let place = TestDatabase::on_disk();
        let file = place.dir.join("openvibe.db");
        migrate(DatabaseUrl::Sqlite(file.clone())).await;
        std::fs::read(file).unwrap()
    });
    made.await
}

/// The name of the migrated `PostgreSQL` database.
async fn postgres_template() -> &'static str {
    static NAME: OnceCell<String> = OnceCell::const_new();
    let made = NAME.get_or_init(async || {
        let name = format!("openvibe_test_{}_template", std::process::id());
        migrate(DatabaseUrl::Postgres(
            create_database(&name, "template1").await,
        ))
        .await;
        name
    });
    made.await
}

impl TestDatabase {
    pub async fn new() -> Self {
        let mut place = Self::on_disk();
        if wants_postgres() {
            place.postgres = Some(create_database(place.name(), "template1").await);
        }
        place
    }

    /// A database in which the migrations have already run.
    pub async fn migrated() -> Self {
        let mut place = Self::on_disk();
        if wants_postgres() {
            let template = postgres_template().await;
            place.postgres = Some(create_database(place.name(), template).await);
        } else {
            let data = place.dir.join("data");
            DirBuilder::new().mode(0o700).create(&data).unwrap();
            let file = sqlite_template().await;
            std::fs::write(data.join("openvibe.db"), file).unwrap();
        }
        place
    }

    /// Name of the directory, and of the `PostgreSQL` database.
    fn name(&self) -> &str {
        self.dir.file_name().unwrap().to_str().unwrap()
    }

    /// Creates storage without a database server, even if the suite runs on `PostgreSQL`.
    pub fn on_disk() -> Self {
        static MADE: AtomicU64 = AtomicU64::new(0);
        let n = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("openvibe_test_{}_{n}", std::process::id());
        // Memory is faster than a disk, and its files also survive when the server is killed.
        let memory = PathBuf::from("/dev/shm");
        let parent = if memory.is_dir() {
            memory
        } else {
            std::env::temp_dir()
        };
        let dir = parent.join(&name);
        std::fs::create_dir_all(&dir).unwrap();
        Self {
            dir,
            postgres: None,
            is_ours: true,
            kept: AsyncMutex::default(),
        }
    }

    /// Uses a database that the test manages itself.
    pub fn on(url: &str) -> Self {
        let mut place = Self::on_disk();
        place.postgres = Some(url.to_owned());
        place.is_ours = false;
        place
    }

    /// Address of the database.
    pub fn url(&self) -> DatabaseUrl {
        match &self.postgres {
            Some(url) => DatabaseUrl::Postgres(url.clone()),
            None => DatabaseUrl::Sqlite(self.dir.join("data").join("openvibe.db")),
        }
    }

    /// Runs statements on the database while no server uses it.
    pub async fn run(&self, sql: &[&str]) {
        if let Some(url) = &self.postgres {
            return run(url, sql).await;
        }
        let file = self.dir.join("data").join("openvibe.db");
        let mut c = SqliteConnectOptions::new()
            .filename(file)
            // The server sets the same pragma, so a test finds only traces that the server leaves.
            .pragma("secure_delete", "ON")
            .connect()
            .await
            .unwrap();
        for statement in sql {
            let statement = sqlx::AssertSqlSafe((*statement).to_owned());
            sqlx::raw_sql(statement).execute(&mut c).await.unwrap();
        }
        c.close().await.unwrap();
    }

    /// Settings of a server that uses this storage.
    pub fn settings(&self) -> Vec<(String, String)> {
        let mut settings = vec![(
            "DATA_DIR".to_owned(),
            self.dir.join("data").to_str().unwrap().to_owned(),
        )];
        settings.extend(
            self.postgres
                .clone()
                .map(|url| ("DATABASE_URL".to_owned(), url)),
        );
        settings
    }

    /// First column of the results of these queries, as numbers.
    pub async fn numbers(&self, sql: &[String]) -> Vec<i64> {
        let statement = sql.join(" union all ");
        let statement = sqlx::AssertSqlSafe(statement);
        if let Some(url) = &self.postgres {
            let mut c = PgConnection::connect(url).await.unwrap();
            let query = sqlx::query_scalar(statement);
            query.fetch_all(&mut c).await.unwrap()
        } else {
            let mut used = self.sqlite().await;
            let query = sqlx::query_scalar(statement);
            query.fetch_all(used.get()).await.unwrap()
        }
    }

    async fn sqlite(&self) -> Used<'_> {
        let mut used = Used(self.kept.lock().await);
        if used.0.connection.is_none() {
            let file = self.dir.join("data").join("openvibe.db");
            let url = format!("sqlite://{}?mode=ro", file.to_str().unwrap());
            used.0.connection = Some(SqliteConnection::connect(&url).await.unwrap());
        }
        used
    }

    /// Keeps the test's connection from now on, until `close`. Only for a server in this process, which calls `close` before it stops.
    pub(super) async fn keep_connection(&self) {
        self.kept.lock().await.is_kept = true;
    }

    /// Closes the test's connection, so that a server that stops is the last one that uses the file and leaves no log behind.
    pub(super) async fn close(&self) {
        *self.kept.lock().await = Kept::default();
    }

    /// Same as `close`, but does nothing if the connection is in use.
    pub(super) fn try_close(&self) {
        if let Ok(mut kept) = self.kept.try_lock() {
            *kept = Kept::default();
        }
    }

    /// Number of rows in each table, except for tables in which the server stores its own state at any time.
    pub async fn row_counts(&self) -> Vec<(String, i64)> {
        const POSTGRES: &str = "select tablename::text from pg_tables where schemaname = 'public'";
        // Excludes the internal tables of the full-text index.
        const SQLITE: &str = "select name from pragma_table_list where schema = 'main' and type = 'table' \
                              and name not like 'sqlite%'";
        let sql = |tables: Vec<String>| {
            let counts: Vec<String> = tables
                .iter()
                .filter(|table| !["jobs", "meta", "nodes", "presence"].contains(&table.as_str()))
                .map(|table| format!("select '{table}' as name, count(*) from {table}"))
                .collect();
            sqlx::AssertSqlSafe(counts.join(" union all ") + " order by name")
        };
        if let Some(url) = &self.postgres {
            let mut c = PgConnection::connect(url).await.unwrap();
            let tables = sqlx::query_scalar(POSTGRES)
                .fetch_all(&mut c)
                .await
                .unwrap();
            let counts = sqlx::query_as(sql(tables));
            counts.fetch_all(&mut c).await.unwrap()
        } else {
            let mut used = self.sqlite().await;
            let tables = sqlx::query_scalar(SQLITE)
                .fetch_all(used.get())
                .await
                .unwrap();
            let counts = sqlx::query_as(sql(tables));
            counts.fetch_all(used.get()).await.unwrap()
        }
    }

    /// First column of the result of a query.
    pub async fn texts(&self, sql: &'static str) -> Vec<String> {
        if let Some(url) = &self.postgres {
            let mut c = PgConnection::connect(url).await.unwrap();
            sqlx::query_scalar(sql).fetch_all(&mut c).await.unwrap()
        } else {
            let mut used = self.sqlite().await;
            let query = sqlx::query_scalar(sql);
            query.fetch_all(used.get()).await.unwrap()
        }
    }

    /// Number of rows in a table.
    pub async fn count(&self, table: &str) -> i64 {
        self.numbers(&[format!("select count(*) from {table}")])
            .await[0]
    }

    /// Number of tasks that are running, or queued but not parked, and of changes of files and vector stores that a job still has to make.
    pub async fn tasks_under_way(&self) -> i64 {
        self.under_way(&[]).await
    }

    /// Sum of `tasks_under_way` and of these counts. All are taken at the same time, because finished work can cause other work.
    pub async fn under_way(&self, further: &[&str]) -> i64 {
        // A parked task waits for a person.
        let tasks = "select count(*) from tasks where status = 'running' or (status = 'queued' and not parked)";
        let documents = "select count(*) from documents where state = 'waiting'";
        let passages =
            "select count(*) from passage_sets where is_complete = FALSE or file_id is null";
        // Files that are about to replace others, because their texts are in the index.
        let versions = "select count(*) from vector_store_versions r join files f on f.id = r.file_id \
                        join documents d on d.hash = f.hash join passage_sets s on s.file_id = f.id \
                        where r.replaced_at is null and s.is_complete and d.state in ('ready', 'partial')";
        let stores = "select count(*) from vector_stores where deleted_at is not null";
        let own = [tasks, documents, passages, versions, stores];
        let counts: Vec<String> = own
            .iter()
            .chain(further)
            .map(|sql| (*sql).to_owned())
            .collect();
        self.numbers(&counts).await.into_iter().sum()
    }

    /// Waits until every task has ended or is parked, and until every document has been read.
    pub async fn settled(&self) {
        within("all tasks to end", async {
            while self.tasks_under_way().await > 0 {
                pause().await;
            }
        })
        .await;
    }

    /// All texts in all tables, each with the name of its column; JSON is converted to text.
    pub async fn every_text(&self) -> Vec<(String, String)> {
        let columns = if self.postgres.is_some() {
            "select table_name || ' ' || column_name from information_schema.columns \
             where table_schema = 'public' and data_type in ('text', 'jsonb', 'tsvector')"
        } else {
            // `search_index` is a virtual table, so its words are in the tables that implement it.
            "select t.name || ' ' || c.name from pragma_table_list t join pragma_table_info(t.name) c \
             where t.schema = 'main' and t.name not like 'sqlite%' and t.type in ('table', 'virtual', 'shadow') \
             and lower(c.type) in ('text', 'jsonb', '')"
        };
        let columns = self.texts(columns).await;
        let sql = |column: &str| {
            let (table, name) = column.split_once(' ').unwrap();
            let sql = format!(
                "select cast(\"{name}\" as text) from \"{table}\" where \"{name}\" is not null"
            );
            sqlx::AssertSqlSafe(sql)
        };
        let mut found = Vec::new();
        if let Some(url) = &self.postgres {
            let mut c = PgConnection::connect(url).await.unwrap();
            for column in columns {
                let query = sqlx::query_scalar(sql(&column));
                let texts: Vec<String> = query.fetch_all(&mut c).await.unwrap();
                found.extend(texts.into_iter().map(|text| (column.clone(), text)));
            }
        } else {
            let mut used = self.sqlite().await;
            for column in columns {
                let query = sqlx::query_scalar(sql(&column));
                // Read as bytes, because a column may contain blobs.
                let rows: Vec<Vec<u8>> = query.fetch_all(used.get()).await.unwrap();
                let texts = rows.iter().map(|row| String::from_utf8_lossy(row));
                found.extend(texts.map(|text| (column.clone(), text.into_owned())));
            }
        }
        found
    }

    /// Locations of a text: `SQLite` files, including bytes that were freed but not overwritten, or `PostgreSQL` tables.
    pub async fn places_of(&self, needle: &str) -> Vec<String> {
        let Some(url) = &self.postgres else {
            let (mut found, mut folders) = (Vec::new(), vec![self.dir.join("data")]);
            while let Some(folder) = folders.pop() {
                for entry in std::fs::read_dir(folder).unwrap() {
                    let path = entry.unwrap().path();
                    if path.is_dir() {
                        folders.push(path);
                        continue;
                    }
                    let bytes = std::fs::read(&path).unwrap();
                    if memmem::find(&bytes, needle.as_bytes()).is_some() {
                        found.push(path.file_name().unwrap().to_str().unwrap().to_owned());
                    }
                }
            }
            return found;
        };
        let mut c = PgConnection::connect(url).await.unwrap();
        let tables: Vec<String> =
            sqlx::query_scalar("select tablename::text from pg_tables where schemaname = 'public'")
                .fetch_all(&mut c)
                .await
                .unwrap();
        let mut found = Vec::new();
        for table in tables {
            let sql = format!("select count(*) from {table} t where t::text like $1");
            let n: i64 = sqlx::query_scalar(sqlx::AssertSqlSafe(sql))
                .bind(format!("%{needle}%"))
                .fetch_one(&mut c)
                .await
                .unwrap();
            if n > 0 {
                found.push(table);
            }
        }
        found
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        // If this fails, the directory is left behind; its name contains the process ID.
        drop(std::fs::remove_dir_all(&self.dir));
        if self.postgres.is_some() && self.is_ours {
            LEFT.lock().unwrap().push(self.name().to_owned());
        }
    }
}
