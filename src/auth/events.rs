//! Security events of an account, for its owner: sign-ins, failed sign-ins, password changes, new keys, links of the operator.

use std::time::Duration;

use serde::Serialize;

use super::AuthError;
use crate::{
    db::{Conn, DbError, now},
    ids::{AuthEventId, UserId},
    text_enum::text_enum,
    time::Timestamp,
};

/// Retention of events.
const KEPT: Duration = Duration::from_hours(90 * 24);
/// Maximum number of failed sign-ins kept per account: anyone can cause them, so they are limited separately.
const FAILURES_MAX: i64 = 500;

text_enum! {
    /// Security event of an account.
    pub enum AuthEventKind {
        SignedIn = "signed_in",
        SignInFailed = "sign_in_failed",
        PasswordChanged = "password_changed",
        KeyCreated = "key_created",
        /// The operator created a link that signs in to the account.
        SignInLinkCreated = "sign_in_link_created",
        FactorAdded = "factor_added",
        FactorRemoved = "factor_removed",
        RecoveryCodesCreated = "recovery_codes_created",
        RecoveryCodeUsed = "recovery_code_used",
        IdentityAdded = "identity_added",
        IdentityRemoved = "identity_removed",
        /// A provider reported a new address.
        AddressChanged = "address_changed",
    }
}

#[derive(Debug, Serialize, sqlx::FromRow, utoipa::ToSchema)]
pub struct AuthEvent {
    pub id: AuthEventId,
    pub kind: AuthEventKind,
    /// Name of the key, passkey, or provider.
    pub detail: Option<String>,
    pub user_agent: Option<String>,
    pub address: Option<String>,
    pub created_at: Timestamp,
}

/// Browser and address of a request.
#[derive(Debug, Clone)]
pub(crate) struct Device {
    pub user_agent: Option<String>,
    /// Client address; `None` for the operator's command line.
    pub address: Option<String>,
}

impl Device {
    /// The command line on the server machine.
    pub(super) const OPERATOR: Self = Self {
        user_agent: None,
        address: None,
    };
}

pub(crate) async fn record(
    c: &mut Conn,
    user: UserId,
    kind: AuthEventKind,
    detail: Option<&str>,
    device: &Device,
) -> Result<(), DbError> {
    let user_agent = device.user_agent.as_deref();
    c.q("insert into auth_events (id, user_id, kind, detail, user_agent, address, created_at) values ($1, $2, $3, $4, $5, $6, $7)")
        .bind(AuthEventId::new())
        .bind(user)
        .bind(kind)
        .bind(detail.map(str::to_owned))
        .bind(user_agent.map(|text| text.chars().take(200).collect::<String>()))
        .bind(device.address.clone())
        .bind(now())
        .run()
        .await?;
    if kind == AuthEventKind::SignInFailed {
        c.q("delete from auth_events where user_id = $1 and kind = $2 and id <= \
             (select id from auth_events where user_id = $1 and kind = $2 order by id desc limit 1 offset $3)")
            .bind(user)
            .bind(kind)
            .bind(FAILURES_MAX)
            .run()
            .await?;
    }
    Ok(())
}

/// Lists a person's events before `before`, newest first.
pub(crate) async fn list(
    c: &mut Conn,
    user: UserId,
    before: Option<AuthEventId>,
    limit: i64,
) -> Result<Vec<AuthEvent>, AuthError> {
    Ok(c.q(
        "select id, kind, detail, user_agent, address, created_at from auth_events \
         where user_id = $1 and id < $2 and created_at > $3 order by id desc limit $4",
    )
    .bind(user)
    .bind(before.unwrap_or(AuthEventId(uuid::Uuid::max())))
    .bind(now() - KEPT)
    .bind(limit)
    .all()
    .await?)
}

/// Deletes expired events.
pub(super) async fn cleanup(c: &mut Conn) -> Result<(), DbError> {
    c.q("delete from auth_events where created_at < $1")
        .bind(now() - KEPT)
        .run()
        .await?;
    Ok(())
}
