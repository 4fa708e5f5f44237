//! Use and reset of second factors, whatever they are.

use serde_json::json;

use super::{passkeys, recovery, state::lock, totp, webauthn};
use crate::{
    auth::{
        AuditAction, AuthError, audit,
        events::{self, AuthEventKind, Device},
        flows, workspaces,
    },
    db::Conn,
    ids::UserId,
    secrets::{self, Keyring},
};

/// Proof of a second factor.
#[derive(Clone)]
pub(crate) enum SecondFactor {
    Code(String),
    RecoveryCode(String),
    Passkey(webauthn::Assertion),
}

impl SecondFactor {
    /// Uses the factor, which must belong to the account. Returns false if it is wrong; nothing has changed then, except that the challenge
    /// of a passkey is used up.
    ///
    /// # Errors
    /// Only database errors.
    pub(crate) async fn try_use(
        &self,
        c: &mut Conn,
        keyring: &Keyring,
        user: UserId,
        device: &Device,
    ) -> Result<bool, AuthError> {
        match self {
            Self::Code(code) => totp::try_use(c, keyring, user, code).await,
            Self::RecoveryCode(code) => recovery::try_use(c, user, code, device).await,
            Self::Passkey(assertion) => match passkeys::sign_in(c, assertion).await {
                Ok(owner) => Ok(owner == user),
                Err(
                    AuthError::PasskeyRejected(_)
                    | AuthError::PasskeyCopied
                    | AuthError::FlowExpired,
                ) => Ok(false),
                Err(e) => Err(e),
            },
        }
    }
}

/// Deletes all factors of an account, and its unfinished sign-ins.
pub(in crate::auth) async fn delete_all(c: &mut Conn, user: UserId) -> Result<(), AuthError> {
    lock(c, user).await?;
    for sql in [
        "delete from totp_apps where user_id = $1",
        "delete from passkeys where user_id = $1",
    ] {
        c.q(sql).bind(user).run().await?;
    }
    recovery::delete(c, user).await?;
    flows::end_of(c, user).await?;
    delete_secrets(c, user).await
}

/// Deletes all factors of an account, for the operator.
pub(in crate::auth) async fn reset(c: &mut Conn, user: UserId) -> Result<(), AuthError> {
    delete_all(c, user).await?;
    events::record(
        c,
        user,
        AuthEventKind::FactorRemoved,
        None,
        &Device::OPERATOR,
    )
    .await?;
    for workspace in workspaces::ids_of(c, user).await? {
        let action = AuditAction::FactorReset;
        audit::record_operator(c, workspace, action, user.to_string(), json!({})).await?;
    }
    Ok(())
}

/// Deletes what the account's rows do not take with them when it is deleted.
///
/// # Errors
/// Only database errors.
pub async fn delete_secrets(c: &mut Conn, user: UserId) -> Result<(), AuthError> {
    secrets::delete(c, &totp::owner(user)).await?;
    Ok(())
}
