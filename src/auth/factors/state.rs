//! Second factors that an account has.

use serde::Serialize;

use crate::{auth::AuthError, db::Conn, ids::UserId, text_enum::text_enum};

text_enum! {
    /// Second step of a sign-in with a password.
    pub(crate) enum SecondFactorMethod {
        Code = "code",
        RecoveryCode = "recovery_code",
        Passkey = "passkey",
    }
}

/// Second factors of an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, sqlx::FromRow, Serialize, utoipa::ToSchema)]
pub(crate) struct SecondFactors {
    /// True if an authenticator app is set up.
    pub app: bool,
    pub passkeys: i64,
    /// Number of unused recovery codes.
    pub recovery_codes: i64,
}

impl SecondFactors {
    pub(crate) async fn of(c: &mut Conn, user: UserId) -> Result<Self, AuthError> {
        Ok(c.q(
            "select exists (select 1 from totp_apps where user_id = $1 and confirmed_at is not null) as app, \
             (select count(*) from passkeys where user_id = $1) as passkeys, \
             (select count(*) from recovery_codes where user_id = $1) as recovery_codes",
        )
        .bind(user)
        .one()
        .await?)
    }

    pub(crate) fn exist(self) -> bool {
        self.app || self.passkeys > 0
    }

    /// Ways to complete a sign-in with a password; empty if the password suffices.
    pub(crate) fn methods(self) -> Vec<SecondFactorMethod> {
        if !self.exist() {
            return Vec::new();
        }
        let all = [
            (self.app, SecondFactorMethod::Code),
            (self.passkeys > 0, SecondFactorMethod::Passkey),
            (self.recovery_codes > 0, SecondFactorMethod::RecoveryCode),
        ];
        let offered = all.into_iter().filter(|(has, _)| *has);
        offered.map(|(_, method)| method).collect()
    }
}

/// Locks an account until the end of the transaction, so that changes to its factors happen one after the other.
pub(in crate::auth) async fn lock(c: &mut Conn, user: UserId) -> Result<(), AuthError> {
    let locked = c
        .q("update users set password_hash = password_hash where id = $1")
        .bind(user)
        .run()
        .await?;
    if locked == 0 {
        return Err(AuthError::NotAuthenticated);
    }
    Ok(())
}
