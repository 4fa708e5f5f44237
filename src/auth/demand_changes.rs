//! Changes to what a workspace demands of the sessions that enter it.

use serde_json::json;

use super::{
    Actor, AuditAction, AuthError, Caller, Scope, audit,
    demands::{self, SignInDemands, SignInDemandsPatch},
    revocations::{self, Revocation},
};
use crate::{
    db::{Conn, DbError, Json, dialect},
    ids::WorkspaceId,
};

/// Changes the demands of the actor's workspace, whose sockets check their access again. The session of the actor must meet them as if
/// they were in force.
///
/// # Errors
/// `ConfirmationRequired`, `SessionRequired`, `Invalid`, `WouldLockYouOut`, or an error from `Actor::require`.
pub(crate) async fn change(
    c: &mut Conn,
    actor: &Actor<'_>,
    caller: &Caller,
    patch: &SignInDemandsPatch,
) -> Result<SignInDemands, AuthError> {
    actor.require(Scope::WorkspaceAdmin)?;
    let session = caller.require_confirmed(c).await?;
    dialect::lock_workspace(c, actor.workspace.0).await?;
    let before = demands::of_workspace(c, actor.workspace).await?;
    let wanted = SignInDemands {
        second_factor: patch.second_factor.unwrap_or(before.second_factor),
        from: patch.from.clone().unwrap_or(before.from.clone()),
        providers: patch.providers.clone().unwrap_or(before.providers.clone()),
        idle_s: patch.idle_s.unwrap_or(before.idle_s),
        age_s: patch.age_s.unwrap_or(before.age_s),
    };
    if wanted == before {
        return Ok(wanted);
    }
    wanted.validate(c).await?;
    let at_once = SignInDemands {
        from: None,
        ..wanted.clone()
    };
    let proven = demands::find_proven(c, session).await?;
    at_once
        .check(c, actor.user, &proven)
        .await
        .map_err(|e| match e {
            AuthError::SecondFactorDemanded
            | AuthError::ProviderRequired
            | AuthError::SessionTooOld => AuthError::WouldLockYouOut,
            other => other,
        })?;
    store(c, actor.workspace, &wanted).await?;
    let data = json!(wanted);
    let action = AuditAction::SignInChanged;
    audit::record(c, actor, action, actor.workspace.to_string(), data).await?;
    revocations::record(c, Revocation::Workspace(actor.workspace)).await?;
    Ok(wanted)
}

async fn store(
    c: &mut Conn,
    workspace: WorkspaceId,
    demands: &SignInDemands,
) -> Result<(), DbError> {
    c.q("delete from workspace_sign_ins where workspace_id = $1")
        .bind(workspace)
        .run()
        .await?;
    if *demands == SignInDemands::default() {
        return Ok(());
    }
    c.q("insert into workspace_sign_ins (workspace_id, second_factor, from_day, providers, idle_s, age_s) values ($1, $2, $3, $4, $5, $6)")
        .bind(workspace)
        .bind(demands.second_factor)
        .bind(demands.from.clone())
        .bind(demands.providers.clone().map(Json))
        .bind(demands.idle_s)
        .bind(demands.age_s)
        .run()
        .await?;
    Ok(())
}
