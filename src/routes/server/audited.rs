//! Actions of the server's admins.

use serde_json::Value;

use crate::{
    auth::{AuditAction, AuthError, Scope, WorkspaceCaller, record_audit},
    db::Conn,
    http::ApiError,
    server::State,
};

/// Records an action of an admin of the server. Access is checked again, because it may have been lost.
pub(super) async fn record(
    state: &State,
    caller: WorkspaceCaller,
    action: AuditAction,
    data: Value,
) -> Result<(), ApiError> {
    caller
        .write(&state.db, async move |c: &mut Conn, actor| {
            actor.require(Scope::WorkspaceAdmin)?;
            record_audit(c, actor, action, String::new(), data.clone()).await?;
            Ok::<_, AuthError>(())
        })
        .await?;
    Ok(())
}
