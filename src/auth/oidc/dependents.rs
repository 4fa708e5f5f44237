//! People who can sign in only with one provider.

use serde::Serialize;
use serde_json::json;

use super::provider;
use crate::{
    auth::{Actor, AuditAction, AuthError, Scope, audit, password::NOBODY},
    db::{Conn, DbError},
    ids::{IdentityProviderId, UserId},
};

/// People who can sign in with a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PasswordUsers {
    Everyone,
    ServerAdmins,
}

/// A person who could not sign in without a provider.
#[derive(Debug, Clone, Serialize, sqlx::FromRow, utoipa::ToSchema)]
pub(crate) struct DependentPerson {
    pub user_id: UserId,
    pub name: String,
    pub email: String,
}

/// Selects people who have an identity of the provider `$1`, and no passkey, no identity of another provider that is turned on, and no
/// password that they can use.
macro_rules! dependents {
    ($columns:literal, $tail:literal) => {
        concat!(
            "select ",
            $columns,
            " from identities i join users u on u.id = i.user_id where i.provider_id = $1 \
             and not exists (select 1 from passkeys p where p.user_id = u.id) \
             and not exists (select 1 from identities o join identity_providers ip on ip.id = o.provider_id and ip.enabled \
                             where o.user_id = u.id and o.provider_id <> $1) \
             and not (u.password_hash <> $2 and ($3 or exists (select 1 from members m where m.user_id = u.id and m.role = 'admin' \
                      and m.workspace_id = (select id from workspaces order by id limit 1))))",
            $tail
        )
    };
}

/// # Errors
/// Only database errors.
pub(crate) async fn count(
    c: &mut Conn,
    id: IdentityProviderId,
    passwords: PasswordUsers,
) -> Result<i64, DbError> {
    c.q(dependents!("count(*)", ""))
        .bind(id)
        .bind(NOBODY.to_owned())
        .bind(passwords == PasswordUsers::Everyone)
        .value()
        .await
}

/// The people, in the order of their accounts.
///
/// # Errors
/// Only database errors.
pub(crate) async fn list(
    c: &mut Conn,
    id: IdentityProviderId,
    passwords: PasswordUsers,
    limit: i64,
) -> Result<Vec<DependentPerson>, DbError> {
    c.q(dependents!(
        "u.id as user_id, u.name, u.email",
        " order by u.id limit $4"
    ))
    .bind(id)
    .bind(NOBODY.to_owned())
    .bind(passwords == PasswordUsers::Everyone)
    .bind(limit)
    .all()
    .await
}

/// Records that an admin sends links to these people. Returns the name of the provider.
///
/// # Errors
/// `NotFound`, or an error from `Actor::require`.
pub(crate) async fn record_links(
    c: &mut Conn,
    actor: &Actor<'_>,
    id: IdentityProviderId,
    people: usize,
) -> Result<String, AuthError> {
    actor.require(Scope::WorkspaceAdmin)?;
    let name = provider::get(c, id).await?.name;
    let data = json!({"name": name, "people": people});
    let action = AuditAction::ProviderLinksSent;
    audit::record(c, actor, action, id.to_string(), data).await?;
    Ok(name)
}
