//! Connections of accounts with providers, for their owners.

use serde::Serialize;

use super::account::{IdentityChange, record_identity};
use crate::{
    auth::{AuthError, events::Device, factors, password::NOBODY},
    db::{Conn, DbError},
    ids::{IdentityId, IdentityProviderId, SessionId, UserId},
    text_enum::constant,
    time::Timestamp,
};

constant! { pub IdentityObject = "identity" }

/// A connection with a provider, which signs in to the account.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct Identity {
    pub id: IdentityId,
    pub object: IdentityObject,
    pub provider_id: IdentityProviderId,
    /// Name of the provider.
    pub provider: String,
    /// Address at the provider.
    pub email: Option<String>,
    pub linked_at: Timestamp,
    pub used_at: Option<Timestamp>,
}

#[derive(sqlx::FromRow)]
struct IdentityRow {
    id: IdentityId,
    provider_id: IdentityProviderId,
    name: String,
    email: Option<String>,
    linked_at: Timestamp,
    used_at: Option<Timestamp>,
}

/// The provider with which a session began.
///
/// # Errors
/// Only database errors.
pub(crate) async fn provider_of(
    c: &mut Conn,
    session: SessionId,
) -> Result<Option<IdentityProviderId>, DbError> {
    let row: Option<(IdentityProviderId,)> = c
        .q("select i.provider_id from sessions s join identities i on i.id = s.identity_id where s.id = $1")
        .bind(session)
        .opt()
        .await?;
    Ok(row.map(|(provider,)| provider))
}

/// The connections of an account, oldest first.
///
/// # Errors
/// Only database errors.
pub(crate) async fn list(c: &mut Conn, user: UserId) -> Result<Vec<Identity>, DbError> {
    let rows: Vec<IdentityRow> = c
        .q("select i.id, i.provider_id, p.name, i.email, i.linked_at, i.used_at from identities i \
            join identity_providers p on p.id = i.provider_id where i.user_id = $1 order by i.id limit $2")
        .bind(user)
        .bind(super::provider::PROVIDERS_MAX)
        .all()
        .await?;
    let shown = rows.into_iter().map(|row| Identity {
        id: row.id,
        object: IdentityObject,
        provider_id: row.provider_id,
        provider: row.name,
        email: row.email,
        linked_at: row.linked_at,
        used_at: row.used_at,
    });
    Ok(shown.collect())
}

/// Checks whether an account has a password.
///
/// # Errors
/// Only database errors.
pub(crate) async fn has_password(c: &mut Conn, user: UserId) -> Result<bool, DbError> {
    c.q("select exists (select 1 from users where id = $1 and password_hash <> $2)")
        .bind(user)
        .bind(NOBODY.to_owned())
        .value()
        .await
}

/// Checks whether an account has a connection with a provider that is turned on.
///
/// # Errors
/// Only database errors.
pub(crate) async fn has_usable(c: &mut Conn, user: UserId) -> Result<bool, DbError> {
    c.q("select exists (select 1 from identities i join identity_providers p on p.id = i.provider_id and p.enabled where i.user_id = $1)")
        .bind(user)
        .value()
        .await
}

/// Removes a connection. `has_other_way` checks, after the removal, whether the person can still sign in.
///
/// # Errors
/// `NotFound`, `LastMethod`.
pub(crate) async fn remove(
    c: &mut Conn,
    user: UserId,
    id: IdentityId,
    has_other_way: impl AsyncFnOnce(&mut Conn) -> Result<bool, AuthError>,
    device: &Device,
) -> Result<(), AuthError> {
    // Changes to the ways of an account happen one after the other.
    factors::lock(c, user).await?;
    let owned = list(c, user).await?;
    let removed = owned.into_iter().find(|identity| identity.id == id);
    let removed = removed.ok_or(AuthError::NotFound("identity"))?;
    c.q("delete from identities where id = $1 and user_id = $2")
        .bind(id)
        .bind(user)
        .run()
        .await?;
    if !has_other_way(c).await? {
        return Err(AuthError::LastMethod);
    }
    record_identity(c, user, &removed.provider, IdentityChange::Removed, device).await
}

/// Stores which identity started a session.
///
/// # Errors
/// Only database errors.
pub(crate) async fn mark_session(
    c: &mut Conn,
    token: &str,
    identity: IdentityId,
    provider_session: Option<String>,
) -> Result<(), DbError> {
    c.q("update sessions set identity_id = $2, provider_session = $3 where token_hash = $1")
        .bind(crate::auth::hash_token(token))
        .bind(identity)
        .bind(provider_session)
        .run()
        .await?;
    Ok(())
}

/// Sessions that a provider started for a person, or all of one of its own sessions.
///
/// # Errors
/// Only database errors.
pub(super) async fn sessions_of(
    c: &mut Conn,
    provider: IdentityProviderId,
    subject: Option<&str>,
    provider_session: Option<&str>,
) -> Result<Vec<(UserId, SessionId)>, DbError> {
    c.q("select s.user_id, s.id from sessions s join identities i on i.id = s.identity_id where i.provider_id = $1 \
         and (i.subject = $2 or $2 is null) and (s.provider_session = $3 or $3 is null) and ($2 is not null or $3 is not null) \
         order by s.id limit 1000")
        .bind(provider)
        .bind(subject.map(str::to_owned))
        .bind(provider_session.map(str::to_owned))
        .all()
        .await
}
