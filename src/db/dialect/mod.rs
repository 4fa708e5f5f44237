//! SQL that differs between the two engines.

pub mod access;
pub mod context;
pub mod memory;
pub mod nodes;
pub mod search;

use sqlx::types::Json;
use uuid::Uuid;

use super::{conn::Conn, engine::Engine, error::DbError};
use crate::time::Timestamp;

/// Concatenates the start of a statement, a subquery for the elements of the JSON array bound to `$n`, and the end. The two
/// expressions in parentheses convert `value`: the first one on `SQLite`, the second one on `PostgreSQL`.
///
/// The start ends with `in`, as in `where m.seq in`.
#[macro_export]
macro_rules! sql_with_list {
    ($c:expr, ($sqlite:literal, $postgres:literal), $begin:expr, $n:literal, $end:expr) => {
        match $c.engine() {
            $crate::db::Engine::Sqlite => {
                $crate::sql_from_list!("json_each", $sqlite, $begin, $n, $end)
            }
            $crate::db::Engine::Postgres => {
                $crate::sql_from_list!("jsonb_array_elements_text", $postgres, $begin, $n, $end)
            }
        }
    };
}

/// Part of `sql_with_list!` for one engine, whose function `$elements` returns the elements of an array.
#[macro_export]
macro_rules! sql_from_list {
    ($elements:literal, $value:expr, $begin:expr, $n:literal, $end:expr) => {
        concat!(
            $begin,
            " (select ",
            $value,
            " from ",
            $elements,
            "($",
            $n,
            ")) ",
            $end
        )
    };
}

/// Like `sql_with_list!`, for an array of numbers.
#[macro_export]
macro_rules! sql_with_numbers {
    ($c:expr, $begin:expr, $n:literal, $end:expr) => {
        $crate::sql_with_list!($c, ("value", "cast(value as bigint)"), $begin, $n, $end)
    };
}

/// Concatenates the start of a statement, a condition for messages `m` by their sequence numbers, and the end. The numbers are the
/// JSON array bound to `$n`; the messages have the column `$column` (`workspace_id` or `conversation_id`) in common, bound to `$of`.
///
/// `PostgreSQL` looks up each number. With a plain condition, it would read all messages of a conversation of a million if it expects
/// conversations to be short, as in a generic plan or before statistics are updated.
#[macro_export]
macro_rules! sql_with_seqs {
    ($c:expr, $begin:expr, $column:literal = $of:literal, $n:literal, $end:expr) => {
        match $c.engine() {
            $crate::db::Engine::Sqlite => $crate::sql_from_list!(
                "json_each",
                "value",
                concat!($begin, " m.", $column, " = $", $of, " and m.seq in"),
                $n,
                $end
            ),
            $crate::db::Engine::Postgres => $crate::sql_from_list!(
                "jsonb_array_elements_text",
                concat!(
                    "(select x.id from messages x where x.",
                    $column,
                    " = $",
                    $of,
                    " and x.seq = cast(value as bigint) limit 1)"
                ),
                concat!($begin, " m.id in"),
                $n,
                $end
            ),
        }
    };
}

/// Like `sql_with_list!`, for an array of hexadecimal IDs from `hexadecimal_ids`.
#[macro_export]
macro_rules! sql_with_ids {
    ($c:expr, $begin:expr, $n:literal, $end:expr) => {
        $crate::sql_with_list!(
            $c,
            ("unhex(value)", "cast(value as uuid)"),
            $begin,
            $n,
            $end
        )
    };
}

/// Like `sql_with_list!`, for an array of strings.
#[macro_export]
macro_rules! sql_with_texts {
    ($c:expr, $begin:expr, $n:literal, $end:expr) => {
        $crate::sql_with_list!($c, ("value", "value"), $begin, $n, $end)
    };
}

/// Array of IDs to bind for `sql_with_ids!`.
pub fn hexadecimal_ids(ids: impl IntoIterator<Item = Uuid>) -> Json<Vec<String>> {
    Json(ids.into_iter().map(|id| id.simple().to_string()).collect())
}

/// Locks `workspace` against changes by other transactions until the current transaction ends.
///
/// `SQLite` has only one writer anyway. On `PostgreSQL`, this locks the counter row of the workspace. Until the current transaction
/// commits, no other node can change the data that it reads after this call. The batches of a workspace begin with this lock;
/// transactions that lock several workspaces do so in the order of their IDs.
pub async fn lock_workspace(c: &mut Conn, workspace: Uuid) -> Result<(), DbError> {
    match c.engine() {
        Engine::Sqlite => Ok(()),
        Engine::Postgres => c.lock_workspace(workspace).await,
    }
}

/// Locks the row of an account against changes by other transactions until the current transaction ends.
///
/// `SQLite` has only one writer anyway.
pub async fn lock_account(c: &mut Conn, user: Uuid) -> Result<(), DbError> {
    if c.engine() == Engine::Postgres {
        c.q("select cast(1 as bigint) from users where id = $1 for share")
            .bind(user)
            .opt::<(i64,)>()
            .await?;
    }
    Ok(())
}

/// Locks the chunks of an upload until the transaction ends, and returns the number of chunks.
///
/// `SQLite` has only one writer anyway.
pub async fn lock_chunks(c: &mut Conn, upload: Uuid) -> Result<u64, DbError> {
    let sql = match c.engine() {
        Engine::Sqlite => "select n from blob_chunks where upload_id = $1 order by n",
        Engine::Postgres => "select n from blob_chunks where upload_id = $1 order by n for update",
    };
    let chunks: Vec<(i64,)> = c.q(sql).bind(upload).all().await?;
    Ok(chunks.len() as u64)
}

/// Makes other sign-ups, including those on other nodes, wait until this transaction ends.
///
/// `SQLite` has only one writer anyway.
pub async fn lock_sign_ups(c: &mut Conn) -> Result<(), DbError> {
    if c.engine() == Engine::Postgres {
        c.q("select cast(pg_advisory_xact_lock(7310579, 3) as text)")
            .all::<(String,)>()
            .await?;
    }
    Ok(())
}

/// Current time of the database, which is the same for all nodes. `SQLite` uses the clock of this process.
pub async fn clock(c: &mut Conn) -> Result<Timestamp, DbError> {
    match c.engine() {
        Engine::Sqlite => Ok(Timestamp::now()),
        Engine::Postgres => c.q("select clock_timestamp()").value().await,
    }
}

/// Stores handles of one kind for these sources of a task, numbered in the order of `sources`, starting with `newest + 1`.
pub async fn insert_handles(
    c: &mut Conn,
    task: Uuid,
    kind: &str,
    newest: i64,
    sources: impl Iterator<Item = Uuid>,
) -> Result<(), DbError> {
    let q = match c.engine() {
        Engine::Sqlite => c.q(
            "insert into task_handles (task_id, kind, number, source_id) select $1, $2, $3 + 1 + key, unhex(value) from json_each($4)",
        ),
        Engine::Postgres => c.q(
            "insert into task_handles (task_id, kind, number, source_id) select $1, $2, $3 + e.n, cast(e.source as uuid) \
             from jsonb_array_elements_text($4) with ordinality as e (source, n)",
        ),
    };
    q.bind(task)
        .bind(kind.to_owned())
        .bind(newest)
        .bind(hexadecimal_ids(sources))
        .run()
        .await?;
    Ok(())
}

/// Connections of `PostgreSQL`, and its version.
pub struct ServerConnections {
    pub used: i64,
    pub max: i64,
    pub version: String,
}

/// Connections of the database server; `None` for `SQLite`.
pub async fn connections(c: &mut Conn) -> Result<Option<ServerConnections>, DbError> {
    if c.engine() == Engine::Sqlite {
        return Ok(None);
    }
    let (used, max, version): (i64, i64, String) = c
        .q(
            "select (select count(*) from pg_stat_activity where datname is not null), \
            cast(current_setting('max_connections') as bigint), current_setting('server_version')",
        )
        .one()
        .await?;
    Ok(Some(ServerConnections { used, max, version }))
}

/// Size of the database on disk; for `SQLite`, the file and its write-ahead log.
pub async fn size_bytes(c: &mut Conn) -> Result<u64, DbError> {
    let bytes = match c.engine() {
        Engine::Postgres => {
            let size: i64 = c
                .q("select pg_database_size(current_database())")
                .value()
                .await?;
            u64::try_from(size).unwrap_or_default()
        }
        Engine::Sqlite => {
            let file: String = c
                .q("select file from pragma_database_list where name = 'main'")
                .value()
                .await?;
            // The log does not exist before the first write.
            let len = |path: String| std::fs::metadata(path).map_or(0, |file| file.len());
            len(format!("{file}-wal")) + len(file)
        }
    };
    Ok(bytes)
}
