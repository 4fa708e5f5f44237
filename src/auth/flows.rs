//! Steps of signing in that are not finished. Each is a row with a secret that the client holds, so any node can finish it.

use std::time::Duration;

use super::{AuthError, hash_token};
use crate::{
    db::{Conn, now},
    ids::UserId,
    text_enum::text_enum,
};

text_enum! {
    /// Step that a flow waits for.
    pub(crate) enum FlowKind {
        /// A link from the operator's command line is opened.
        SignInLink = "sign_in_link",
    }
}

impl FlowKind {
    /// Time within which the step must be finished.
    const fn lifetime(self) -> Duration {
        match self {
            Self::SignInLink => Duration::from_mins(10),
        }
    }
}

/// Stores a step under the hash of its secret.
pub(super) async fn begin(
    c: &mut Conn,
    secret: &str,
    kind: FlowKind,
    user: UserId,
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

/// Deletes a step and returns its account, so that it is used once.
///
/// # Errors
/// `FlowExpired` if there is no such step, it has expired, or another request has used it.
pub(crate) async fn take(c: &mut Conn, secret: &str, kind: FlowKind) -> Result<UserId, AuthError> {
    c.q("delete from auth_flows where id_hash = $1 and kind = $2 and expires_at > $3 returning user_id")
        .bind(hash_token(secret))
        .bind(kind)
        .bind(now())
        .opt::<(UserId,)>()
        .await?
        .map(|(user,)| user)
        .ok_or(AuthError::FlowExpired)
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
