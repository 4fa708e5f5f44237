//! Version of a workspace's list of budgets.

use crate::{
    db::{Conn, DbError},
    ids::WorkspaceId,
};

/// Returns the version of the list; 0 before the first change.
pub async fn find_version(c: &mut Conn, workspace: WorkspaceId) -> Result<i64, DbError> {
    let row: Option<(i64,)> = c
        .q("select version from budget_lists where workspace_id = $1")
        .bind(workspace)
        .opt()
        .await?;
    Ok(row.map_or(0, |row| row.0))
}
