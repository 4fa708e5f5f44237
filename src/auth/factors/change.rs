//! Records of new and removed factors, for the person and for admins.

use serde_json::json;

use super::{recovery, state::SecondFactors};
use crate::{
    auth::{
        AuditAction, AuthError, audit,
        events::{self, AuthEventKind, Device},
        workspaces,
    },
    db::Conn,
    ids::UserId,
    text_enum::text_enum,
};

text_enum! {
    /// Kind of a second factor in the audit log and in exports.
    pub(super) enum FactorKind {
        App = "app",
        Passkey = "passkey",
        /// Only in exports: providers have actions of their own in the audit log.
        IdentityProvider = "identity_provider",
    }
}

/// Records a new factor. Returns recovery codes if it is the account's first one.
pub(super) async fn added(
    c: &mut Conn,
    user: UserId,
    kind: FactorKind,
    name: Option<&str>,
    device: &Device,
) -> Result<Option<Vec<String>>, AuthError> {
    events::record(c, user, AuthEventKind::FactorAdded, name, device).await?;
    record(c, user, AuditAction::FactorAdded, kind).await?;
    let has_codes = SecondFactors::of(c, user).await?.recovery_codes > 0;
    if has_codes {
        Ok(None)
    } else {
        recovery::replace(c, user).await.map(Some)
    }
}

/// Records the removal of a factor. The recovery codes go with the last one.
pub(super) async fn removed(
    c: &mut Conn,
    user: UserId,
    kind: FactorKind,
    name: Option<&str>,
    device: &Device,
) -> Result<(), AuthError> {
    events::record(c, user, AuthEventKind::FactorRemoved, name, device).await?;
    record(c, user, AuditAction::FactorRemoved, kind).await?;
    if !SecondFactors::of(c, user).await?.exist() {
        recovery::delete(c, user).await?;
    }
    Ok(())
}

/// Records a change of the person's own factors in all of their workspaces.
async fn record(
    c: &mut Conn,
    user: UserId,
    action: AuditAction,
    kind: FactorKind,
) -> Result<(), AuthError> {
    for workspace in workspaces::ids_of(c, user).await? {
        let data = json!({"kind": kind});
        audit::record_of(c, workspace, user, action, user.to_string(), data).await?;
    }
    Ok(())
}
