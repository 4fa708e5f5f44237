//! All that the two engines do differently in the statements of features.

pub mod context;
pub mod search;

use uuid::Uuid;

use super::{Conn, DbError, Engine};

/// `concat!` of a statement's beginning, the numbers of the JSON array that is bound to `$n`, and its end.
///
/// The beginning ends in `in`, as in `where m.seq in`.
#[macro_export]
macro_rules! sql_with_numbers {
    ($c:expr, $begin:expr, $n:literal, $end:literal) => {
        match $c.engine() {
            $crate::db::Engine::Sqlite => {
                concat!($begin, " (select value from json_each($", $n, ")) ", $end)
            }
            $crate::db::Engine::Postgres => {
                concat!(
                    $begin,
                    " (select cast(value as bigint) from jsonb_array_elements_text($",
                    $n,
                    ")) ",
                    $end
                )
            }
        }
    };
}

/// Makes this transaction the only one that changes `workspace` until it ends.
///
/// On `SQLite` there is one writer anyway. On `PostgreSQL` the workspace's counter row is locked first, so that
/// what is read afterwards cannot be changed by another node before this commits.
pub async fn lock_workspace(c: &mut Conn, workspace: Uuid) -> Result<(), DbError> {
    if c.engine() == Engine::Postgres {
        c.q("select seq from workspaces where id = $1 for update")
            .bind(workspace)
            .opt::<(i64,)>()
            .await?;
    }
    Ok(())
}

/// Makes changes of this account's row in other transactions wait until this one ends.
///
/// On `SQLite` there is one writer anyway.
pub async fn lock_account(c: &mut Conn, user: Uuid) -> Result<(), DbError> {
    if c.engine() == Engine::Postgres {
        c.q("select cast(1 as bigint) from users where id = $1 for share")
            .bind(user)
            .opt::<(i64,)>()
            .await?;
    }
    Ok(())
}

/// What the database takes on disk: of `SQLite` the file and its write-ahead log.
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
            // The log is not there before the first write.
            let len = |path: String| std::fs::metadata(path).map_or(0, |file| file.len());
            len(format!("{file}-wal")) + len(file)
        }
    };
    Ok(bytes)
}
