//! Steps of signing in that are not finished. Each is a row with a secret that the client holds, so any node can finish it.

use std::time::Duration;

use super::{AuthError, hash_token};
use crate::{
    db::{Conn, now},
    ids::UserId,
    text_enum::text_enum,
};

/// Time in which a passkey must sign its challenge.
pub(crate) const PASSKEY_WITHIN_MS: u64 = 5 * 60 * 1000;
/// Number of wrong second factors that end a sign-in.
const WRONG_CODES_MAX: i64 = 5;

text_enum! {
    /// Step that a flow waits for.
    pub(crate) enum FlowKind {
        /// A link from the operator's command line is opened.
        SignInLink = "sign_in_link",
        /// The password was right, and a second factor is needed.
        SecondFactor = "second_factor",
        /// A passkey signs a challenge.
        Passkey = "passkey",
        /// A new passkey signs a challenge.
        PasskeyCreation = "passkey_creation",
    }
}

impl FlowKind {
    /// Time within which the step must be finished.
    const fn lifetime(self) -> Duration {
        match self {
            Self::SignInLink | Self::SecondFactor => Duration::from_mins(10),
            Self::Passkey | Self::PasskeyCreation => Duration::from_millis(PASSKEY_WITHIN_MS),
        }
    }
}

/// Stores a step under the hash of its secret.
pub(crate) async fn begin(
    c: &mut Conn,
    secret: &str,
    kind: FlowKind,
    user: Option<UserId>,
) -> Result<(), AuthError> {
    c.q("insert into auth_flows (id_hash, kind, user_id, expires_at) values ($1, $2, $3, $4)")
        .bind(hash_token(secret))
        .bind(kind)
        .bind(user)
        .bind(now() + kind.lifetime())
        .run()
        .await?;
    Ok(())
}

/// Deletes a step and returns its account, if it has one, so that it is used once.
///
/// # Errors
/// `FlowExpired` if there is no such step, it has expired, or another request has used it.
pub(crate) async fn take(
    c: &mut Conn,
    secret: &str,
    kind: FlowKind,
) -> Result<Option<UserId>, AuthError> {
    c.q("delete from auth_flows where id_hash = $1 and kind = $2 and expires_at > $3 returning user_id")
        .bind(hash_token(secret))
        .bind(kind)
        .bind(now())
        .opt::<(Option<UserId>,)>()
        .await?
        .map(|(user,)| user)
        .ok_or(AuthError::FlowExpired)
}

/// Returns the account of a sign-in that waits for a second factor.
///
/// # Errors
/// `FlowExpired`.
pub(crate) async fn find_second_factor(c: &mut Conn, secret: &str) -> Result<UserId, AuthError> {
    c.q("select user_id from auth_flows where id_hash = $1 and kind = $2 and expires_at > $3")
        .bind(hash_token(secret))
        .bind(FlowKind::SecondFactor)
        .bind(now())
        .opt::<(UserId,)>()
        .await?
        .map(|(user,)| user)
        .ok_or(AuthError::FlowExpired)
}

/// Counts an attempt to complete a sign-in with a second factor, and locks the sign-in until the end of the transaction. The last
/// attempt that is permitted ends it.
///
/// # Errors
/// `FlowExpired`, also for a sign-in that was completed.
pub(crate) async fn count_second_factor(c: &mut Conn, secret: &str) -> Result<UserId, AuthError> {
    let row: Option<(UserId, i64)> = c
        .q(
            "update auth_flows set wrong_codes = wrong_codes + 1 where id_hash = $1 and kind = $2 and expires_at > $3 \
            returning user_id, wrong_codes",
        )
        .bind(hash_token(secret))
        .bind(FlowKind::SecondFactor)
        .bind(now())
        .opt()
        .await?;
    let (user, wrong_codes) = row.ok_or(AuthError::FlowExpired)?;
    if wrong_codes >= WRONG_CODES_MAX {
        take(c, secret, FlowKind::SecondFactor).await?;
    }
    Ok(user)
}

/// Ends a sign-in that was completed.
pub(crate) async fn end(c: &mut Conn, secret: &str) -> Result<(), AuthError> {
    c.q("delete from auth_flows where id_hash = $1")
        .bind(hash_token(secret))
        .run()
        .await?;
    Ok(())
}

/// Deletes all steps of an account.
pub(super) async fn end_of(c: &mut Conn, user: UserId) -> Result<(), AuthError> {
    c.q("delete from auth_flows where user_id = $1")
        .bind(user)
        .run()
        .await?;
    Ok(())
}

/// Deletes the steps of an account that have this kind.
pub(super) async fn end_all(c: &mut Conn, user: UserId, kind: FlowKind) -> Result<(), AuthError> {
    c.q("delete from auth_flows where user_id = $1 and kind = $2")
        .bind(user)
        .bind(kind)
        .run()
        .await?;
    Ok(())
}

/// Deletes expired steps.
pub(super) async fn cleanup(c: &mut Conn) -> Result<(), AuthError> {
    c.q("delete from auth_flows where expires_at < $1")
        .bind(now())
        .run()
        .await?;
    Ok(())
}
