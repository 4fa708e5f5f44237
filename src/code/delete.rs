//! Deletion of a runner, with everything that depends on it.

use super::{
    CodeError,
    event::{ToldAbout, announce_repository},
    runners::audit,
    turns,
};
use crate::{
    auth::{Actor, AuditAction, Scope},
    db::{Conn, dialect::lock_workspace},
    ids::{RepositoryId, RunnerId},
    tasks::queue::Commanded,
};

/// Deletes a runner with its repositories and their sessions. Its connection ends, and its turns fail.
///
/// # Errors
/// `RunnerNotFound`, or an error from `Actor::require`.
pub async fn delete_runner(c: &mut Conn, actor: &Actor<'_>, id: RunnerId) -> Result<(), CodeError> {
    actor.require(Scope::AgentsAdmin)?;
    lock_workspace(c, actor.workspace.0).await?;
    let repositories: Vec<(RepositoryId,)> = c
        .q("select id from repositories where runner_id = $1 and workspace_id = $2 order by id")
        .bind(id)
        .bind(actor.workspace)
        .all()
        .await?;
    if !repositories.is_empty() {
        turns::fail_all(c, id).await?;
    }
    let name: Option<(String,)> = c
        .q("delete from runners where id = $1 and workspace_id = $2 returning name")
        .bind(id)
        .bind(actor.workspace)
        .opt()
        .await?;
    let (name,) = name.ok_or(CodeError::RunnerNotFound)?;
    for (repository,) in repositories {
        let workspace = actor.workspace;
        announce_repository(c, workspace, repository, None, ToldAbout::Everyone).await?;
    }
    c.notify(Box::new(Commanded));
    Ok(audit(c, actor, AuditAction::RunnerDeleted, id, &name).await?)
}
