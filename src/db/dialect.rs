//! All that the two engines do differently in the statements of features.

use uuid::Uuid;

use super::{Conn, DbError, Engine};

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
