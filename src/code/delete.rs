//! Deletion of a runner, with everything that depends on it.

use super::{
    CodeError,
    event::{ToldAbout, announce_repository},
    push,
    runners::audit,
    texts, turns,
};
use crate::{
    auth::{Actor, AuditAction, Scope},
    db::{Conn, DbError, dialect::lock_workspace},
    ids::{ChannelId, CodeSessionId, RepositoryId, RunnerId},
    tasks::queue::{self, Commanded},
};

/// Ends the pushes of a runner that is about to be deleted.
async fn end_pushes(c: &mut Conn, runner: RunnerId) -> Result<(), DbError> {
    let sessions: Vec<(CodeSessionId, ChannelId)> = c
        .q("select s.id, s.channel_id from code_sessions s join repositories r on r.id = s.repository_id \
            where r.runner_id = $1 and s.action_id is not null order by s.id")
        .bind(runner)
        .all()
        .await?;
    for (session, channel) in sessions {
        let audience = queue::audience_in(c, Some(channel)).await?;
        push::withdraw(c, session, audience).await?;
        push::fail_approved(c, session, "The runner was deleted.").await?;
    }
    Ok(())
}

/// Deletes a runner with its repositories and their sessions. Its connection ends, its turns fail, and so do its pushes.
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
        end_pushes(c, id).await?;
        texts::delete_of_runner(c, actor.workspace, id).await?;
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
