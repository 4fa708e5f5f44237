//! Upgrades of databases of earlier versions.

use std::{
    borrow::Cow,
    path::{Path, PathBuf},
};

use sqlx::{
    AssertSqlSafe, ConnectOptions, Connection, PgConnection, SqlSafeStr,
    migrate::{Migration, MigrationType, Migrator},
    sqlite::SqliteConnectOptions,
};

use crate::support::{ModelServer, TestDatabase, TestProcess};

/// Migrations before this version: the common ones and those of the engine.
fn before(version: i64, place: &TestDatabase) -> Migrator {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations");
    let own = dir.join(if place.postgres.is_some() {
        "postgres"
    } else {
        "sqlite"
    });
    let mut files: Vec<PathBuf> = [dir, own]
        .iter()
        .flat_map(|dir| std::fs::read_dir(dir).unwrap())
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file())
        .collect();
    files.sort_by_key(|path| path.file_name().unwrap().to_owned());
    let read = |path: &PathBuf| {
        let name = path.file_stem().unwrap().to_str().unwrap();
        let (number, title) = name.split_once('_').unwrap();
        let sql = std::fs::read_to_string(path).unwrap();
        Migration::new(
            number.parse().unwrap(),
            Cow::Owned(title.to_owned()),
            MigrationType::Simple,
            AssertSqlSafe(sql).into_sql_str(),
            false,
        )
    };
    let old = files.iter().map(read).filter(|m| m.version < version);
    Migrator::with_migrations(old.collect())
}

const ID: &str = "01890000-0000-7000-8000-00000000000";
const ID_BEGIN: &str = "01890000-0000-7000-8000-0000000000";
const AT: &str = "'2026-01-02 03:04:05+00:00'";

/// A workspace with a thread and two tasks, one of them with a context record, in the old schema.
fn rows(uuid: impl Fn(u8) -> String) -> Vec<String> {
    let (workspace, user, channel, thread, agent) = (uuid(1), uuid(2), uuid(3), uuid(4), uuid(5));
    let task = |id: u8, status: &str, kind: &str| {
        format!(
            "insert into tasks (id, workspace_id, kind, status, agent_id, agent_version, channel_id, thread_id, fork_id, place_id, \
             requested_by, root_task_id, depth, attempt, counts, holds_place, input, queued_at) \
             values ({0}, {workspace}, '{kind}', '{status}', {agent}, 3, {channel}, {thread}, {thread}, {thread}, {user}, {0}, 0, 2, '{{}}', false, \
             '{{\"prompt\":\"old\"}}', {AT})",
            uuid(id)
        )
    };
    vec![
        format!(
            "insert into workspaces (id, name, slug, seq, pruned_seq, task_turn, settings, created_at) values ({workspace}, 'W', 'w', 0, 0, 0, '{{}}', {AT})"
        ),
        format!(
            "insert into users (id, email, name, password_hash, created_at) values ({user}, 'a@example.org', 'Ada', 'x', {AT})"
        ),
        format!(
            "insert into channels (id, workspace_id, kind, name, joined_by_all, created_at) values ({channel}, {workspace}, 'public', 'c', false, {AT})"
        ),
        format!(
            "insert into threads (id, workspace_id, channel_id, root_message_id, status, reply_count, participants, last_seq, last_activity_at, created_by, created_at) \
                 values ({thread}, {workspace}, {channel}, {thread}, 'open', 0, '[]', 0, {AT}, {user}, {AT})"
        ),
        task(6, "completed", "reply"),
        task(7, "failed", "resolve"),
        format!(
            "insert into task_contexts (task_id, manifest, attempts) values ({}, '{{}}', '[]')",
            uuid(6)
        ),
    ]
}

/// Creates a database in the schema before this version, with some rows.
pub async fn make_before(version: i64, place: &TestDatabase) {
    make_before_with(version, place, |uuid| rows(uuid)).await;
}

/// Like `make_before`, with these statements; `rows` gets a function that returns the SQL literal of an ID for its
/// last digit.
async fn make_before_with(
    version: i64,
    place: &TestDatabase,
    rows: impl Fn(&dyn Fn(u8) -> String) -> Vec<String>,
) {
    let old = before(version, place);
    if let Some(url) = &place.postgres {
        let mut c = PgConnection::connect(url).await.unwrap();
        old.run_direct(None, &mut c, false).await.unwrap();
        for sql in rows(&|n| format!("'{ID}{n}'")) {
            let sql = sqlx::raw_sql(AssertSqlSafe(sql));
            sql.execute(&mut c).await.unwrap();
        }
        return;
    }
    let dir = place.dir.join("data");
    std::fs::create_dir_all(&dir).unwrap();
    let options = SqliteConnectOptions::new()
        .filename(dir.join("openvibe.db"))
        .foreign_keys(true)
        .create_if_missing(true);
    let mut c = options.connect().await.unwrap();
    old.run_direct(None, &mut c, false).await.unwrap();
    for sql in rows(&|n| format!("x'{}{n}'", ID.replace('-', ""))) {
        let sql = sqlx::raw_sql(AssertSqlSafe(sql));
        sql.execute(&mut c).await.unwrap();
    }
    c.close().await.unwrap();
}

const KEPT: &str = "select count(*) from tasks t left join task_contexts c on c.task_id = t.id \
                    where t.agent_version = 3 and t.thread_id is not null and t.attempt = 2 and t.queued_at is not null";
const CONTEXTS: &str =
    "select count(*) from task_contexts c join tasks t on t.id = c.task_id where t.kind = 'reply'";

#[tokio::test]
async fn tasks_of_an_earlier_version_keep_their_contexts_and_indexes() {
    let (place, model) = (TestDatabase::new().await, ModelServer::start().await);
    let old = before(20_261_120_160_000, &place);
    let wanted = [
        "tasks_agent",
        "tasks_place",
        "tasks_queue",
        "tasks_resolve",
        "tasks_retry_of",
        "tasks_running",
        "tasks_thread",
        "tasks_trigger",
        "tasks_workspace",
    ];
    if let Some(url) = &place.postgres {
        let mut c = PgConnection::connect(url).await.unwrap();
        old.run_direct(None, &mut c, false).await.unwrap();
        for sql in rows(|n| format!("'{ID}{n}'")) {
            sqlx::raw_sql(AssertSqlSafe(sql))
                .execute(&mut c)
                .await
                .unwrap();
        }
        TestProcess::start(&place, &model, &[]).await.kill().await;
        let count = |sql: &'static str| sqlx::query_scalar::<_, i64>(sql);
        assert_eq!(count(KEPT).fetch_one(&mut c).await.unwrap(), 2);
        assert_eq!(count(CONTEXTS).fetch_one(&mut c).await.unwrap(), 1);
        let indexes: Vec<String> = sqlx::query_scalar("select indexname::text from pg_indexes where tablename = 'tasks' and indexname like 'tasks\\_%' \
                                                       and indexname not like '%pkey%' order by 1")
            .fetch_all(&mut c)
            .await
            .unwrap();
        assert_eq!(indexes, wanted);
        return;
    }
    let dir = place.dir.join("data");
    std::fs::create_dir_all(&dir).unwrap();
    let options = SqliteConnectOptions::new()
        .filename(dir.join("openvibe.db"))
        .foreign_keys(true)
        .create_if_missing(true);
    let mut c = options.connect().await.unwrap();
    old.run_direct(None, &mut c, false).await.unwrap();
    for sql in rows(|n| format!("x'{}{n}'", ID.replace('-', ""))) {
        sqlx::raw_sql(AssertSqlSafe(sql))
            .execute(&mut c)
            .await
            .unwrap();
    }
    c.close().await.unwrap();
    TestProcess::start(&place, &model, &[]).await.kill().await;
    let mut c = options.connect().await.unwrap();
    let count = |sql: &'static str| sqlx::query_scalar::<_, i64>(sql);
    assert_eq!(count(KEPT).fetch_one(&mut c).await.unwrap(), 2);
    assert_eq!(count(CONTEXTS).fetch_one(&mut c).await.unwrap(), 1);
    let indexes: Vec<String> = sqlx::query_scalar("select name from sqlite_master where type = 'index' and tbl_name = 'tasks' and name like 'tasks_%' order by 1")
        .fetch_all(&mut c)
        .await
        .unwrap();
    assert_eq!(indexes, wanted);
    let broken: Vec<(String,)> = sqlx::query_as("select \"table\" from pragma_foreign_key_check")
        .fetch_all(&mut c)
        .await
        .unwrap();
    assert_eq!(broken, Vec::new());
}

/// Messages stored before the search index existed: kind, state, text, and whether they are deleted.
const SAID: &[(&str, &str, &str, bool)] = &[
    ("text", "complete", "First plum", false),
    ("text", "complete", "Second plum", false),
    ("text", "complete", "", true),
    ("notice", "complete", "Noticed plum", false),
    ("text", "streaming", "Streaming plum", false),
];

/// Bytes counted by the storage quota: each row, and its text with and without Markdown.
const COUNTED: i64 = 5 * 512 + 2 * (10 + 11 + 12 + 14);

fn messages(uuid: impl Fn(u8) -> String) -> Vec<String> {
    let mut all = rows(&uuid);
    for (n, (kind, state, content, is_deleted)) in SAID.iter().enumerate() {
        let deleted_at = if *is_deleted { AT } else { "null" };
        // The first message starts the thread.
        let number = if n == 0 {
            4
        } else {
            10 + u8::try_from(n).unwrap()
        };
        all.push(format!(
            "insert into messages (id, workspace_id, channel_id, thread_id, seq, author_type, author_id, kind, state, content, \
             content_plain, mentions, reactions, metadata, created_at, deleted_at) values ({}, {}, {}, {}, {}, 'human', {}, \
             '{kind}', '{state}', '{content}', '{content}', '[]', '[]', '{{}}', {AT}, {deleted_at})",
            uuid(number), uuid(1), uuid(3), uuid(4), n + 1, uuid(2)
        ));
    }
    all.push("update threads set title = 'Titled'".to_owned());
    all
}

#[tokio::test]
async fn messages_of_an_earlier_version_are_searchable() {
    let (place, model) = (TestDatabase::new().await, ModelServer::start().await);
    let old = before(20_261_120_170_000, &place);
    if let Some(url) = &place.postgres {
        let mut c = PgConnection::connect(url).await.unwrap();
        old.run_direct(None, &mut c, false).await.unwrap();
        for sql in messages(|n| format!("'{ID_BEGIN}{n:02}'")) {
            sqlx::raw_sql(AssertSqlSafe(sql))
                .execute(&mut c)
                .await
                .unwrap();
        }
        TestProcess::start(&place, &model, &[]).await.kill().await;
        for (sql, wanted) in [
            ("select count(*) from search_index", 2),
            (
                "select count(*) from search_index where words @@ 'plum'::tsquery",
                2,
            ),
            (
                "select count(*) from search_index where words @@ 'titled & first'::tsquery",
                1,
            ),
            ("select message_bytes from workspace_sizes", COUNTED),
            (
                "select cast(sum(counted_bytes) as bigint) from messages",
                COUNTED,
            ),
        ] {
            let found: i64 = sqlx::query_scalar(sql).fetch_one(&mut c).await.unwrap();
            assert_eq!(found, wanted, "{sql}");
        }
        return;
    }
    let dir = place.dir.join("data");
    std::fs::create_dir_all(&dir).unwrap();
    let options = SqliteConnectOptions::new()
        .filename(dir.join("openvibe.db"))
        .foreign_keys(true)
        .create_if_missing(true);
    let mut c = options.connect().await.unwrap();
    old.run_direct(None, &mut c, false).await.unwrap();
    for sql in messages(|n| format!("x'{}{n:02}'", ID_BEGIN.replace('-', ""))) {
        sqlx::raw_sql(AssertSqlSafe(sql))
            .execute(&mut c)
            .await
            .unwrap();
    }
    c.close().await.unwrap();
    TestProcess::start(&place, &model, &[]).await.kill().await;
    let mut c = options.connect().await.unwrap();
    for (sql, wanted) in [
        ("select count(*) from search_index", 2),
        (
            "select count(*) from search_index where search_index match 'plum'",
            2,
        ),
        (
            "select count(*) from search_index where search_index match 'titled first'",
            1,
        ),
        ("select message_bytes from workspace_sizes", COUNTED),
        ("select sum(counted_bytes) from messages", COUNTED),
    ] {
        let found: i64 = sqlx::query_scalar(sql).fetch_one(&mut c).await.unwrap();
        assert_eq!(found, wanted, "{sql}");
    }
}

/// An agent with two versions, a file with two versions, and two attached uploads, stored before the quota existed.
fn agents_and_uploads(uuid: &dyn Fn(u8) -> String) -> Vec<String> {
    let (workspace, user, agent) = (uuid(1), uuid(2), uuid(5));
    let profile = r#"{"instructions":"Help."}"#;
    let version = |n: i64| {
        format!(
            "insert into agent_versions (agent_id, version, profile, resolved, changed_at) \
             values ({agent}, {n}, '{profile}', '{profile}', {AT})"
        )
    };
    let file_version = |n: i64, content: &str| {
        format!(
            "insert into agent_file_versions (owner_id, path, version, content, changed_by, changed_at) \
             values ({agent}, 'notes.md', {n}, {content}, {user}, {AT})"
        )
    };
    let upload = |id: u8, size_bytes: i64| {
        format!(
            "insert into files (id, workspace_id, hash, name, content_type, size_bytes, created_by, message_id, is_avatar, created_at) \
             values ({}, {workspace}, 'abc', 'a.txt', 'text/plain', {size_bytes}, {user}, {}, false, {AT})",
            uuid(id),
            uuid(4)
        )
    };
    let mut all = rows(uuid);
    all.extend([
        format!(
            "insert into agents (id, workspace_id, name, status, is_system, mentionable, version, profile, created_at, updated_at) \
             values ({agent}, {workspace}, 'sage', 'active', false, true, 2, '{profile}', {AT}, {AT})"
        ),
        version(1),
        version(2),
        format!(
            "insert into agent_files (workspace_id, owner_id, path, content, version, updated_by, updated_at) \
             values ({workspace}, {agent}, 'notes.md', null, 2, {user}, {AT})"
        ),
        file_version(1, "'0123456789'"),
        file_version(2, "null"),
        format!(
            "insert into blobs (hash, upload_id, size_bytes, created_at) values ('abc', {}, 3, {AT})",
            uuid(8)
        ),
        upload(8, 3),
        upload(9, 4000),
    ]);
    all
}

#[tokio::test]
async fn agents_and_uploads_of_an_earlier_version_count_in_the_quota() {
    let (place, model) = (TestDatabase::new().await, ModelServer::start().await);
    make_before_with(20_261_121_033_400, &place, agents_and_uploads).await;
    TestProcess::start(&place, &model, &[]).await.kill().await;
    // PostgreSQL prints JSON with a space after each colon.
    let profile_bytes = if place.postgres.is_some() { 25 } else { 24 };
    let numbers = place
        .numbers(
            &[
                "select agent_bytes from workspace_sizes",
                "select file_bytes from workspace_sizes",
                "select cast(sum(bytes) as bigint) from agent_versions",
                "select profile_bytes from agents where name = 'sage'",
            ]
            .map(str::to_owned),
        )
        .await;
    let versions = 2 * (1024 + 2 * profile_bytes);
    assert_eq!(
        numbers,
        [
            versions + 2 * 1024 + 10,
            2 * 1024 + 4003,
            versions,
            profile_bytes
        ]
    );
}
