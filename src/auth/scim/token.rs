//! Tokens of providers, at most two each, so that one can replace the other.

use std::time::Duration;

use serde::Serialize;
use serde_json::json;

use crate::{
    auth::{
        Actor, AuditAction, AuthError, Scope, audit, hash_token, new_token,
        oidc::provider::{self, StoredProvider},
    },
    db::{Conn, now},
    ids::{IdentityProviderId, ScimTokenId},
    time::Timestamp,
};

/// Maximum number of tokens of a provider.
pub(crate) const TOKENS_MAX: i64 = 2;
/// Age after which `last_used_at` is updated, so that not every request writes.
const USED_STALE_AFTER: Duration = Duration::from_mins(10);

/// A token with which a provider sends accounts and groups.
#[derive(Debug, Clone, Serialize, sqlx::FromRow, utoipa::ToSchema)]
pub(crate) struct ScimToken {
    pub id: ScimTokenId,
    pub created_at: Timestamp,
    /// Accurate to about ten minutes.
    pub last_used_at: Option<Timestamp>,
}

/// # Errors
/// `NotFound`.
pub(crate) async fn list(
    c: &mut Conn,
    provider: IdentityProviderId,
) -> Result<Vec<ScimToken>, AuthError> {
    provider::get(c, provider).await?;
    Ok(
        c.q("select id, created_at, last_used_at from scim_tokens where provider_id = $1 order by id limit $2")
            .bind(provider)
            .bind(TOKENS_MAX)
            .all()
            .await?,
    )
}

async fn record(
    c: &mut Conn,
    actor: &Actor<'_>,
    action: AuditAction,
    provider: &StoredProvider,
    id: ScimTokenId,
) -> Result<(), AuthError> {
    let data = json!({"name": provider.name, "token_id": id});
    Ok(audit::record(c, actor, action, provider.id.to_string(), data).await?)
}

/// Creates a token; returns it with its secret, which is shown only once.
///
/// # Errors
/// `NotFound`, `QuotaExceeded`, or an error from `Actor::require`.
pub(crate) async fn create(
    c: &mut Conn,
    actor: &Actor<'_>,
    id: IdentityProviderId,
) -> Result<(ScimToken, String), AuthError> {
    actor.require(Scope::WorkspaceAdmin)?;
    let provider = provider::get(c, id).await?;
    let count: i64 = c
        .q("select count(*) from scim_tokens where provider_id = $1")
        .bind(id)
        .value()
        .await?;
    if count >= TOKENS_MAX {
        let problem = format!("a provider can have at most {TOKENS_MAX} tokens: delete one first");
        return Err(AuthError::QuotaExceeded(problem));
    }
    let secret = format!("ovscim_{}", new_token());
    let token = ScimToken {
        id: ScimTokenId::new(),
        created_at: now(),
        last_used_at: None,
    };
    c.q(
        "insert into scim_tokens (id, provider_id, token_hash, created_at) values ($1, $2, $3, $4)",
    )
    .bind(token.id)
    .bind(id)
    .bind(hash_token(&secret))
    .bind(token.created_at)
    .run()
    .await?;
    record(c, actor, AuditAction::ScimTokenCreated, &provider, token.id).await?;
    Ok((token, secret))
}

/// # Errors
/// `NotFound`, or an error from `Actor::require`.
pub(crate) async fn delete(
    c: &mut Conn,
    actor: &Actor<'_>,
    id: IdentityProviderId,
    token: ScimTokenId,
) -> Result<(), AuthError> {
    actor.require(Scope::WorkspaceAdmin)?;
    let provider = provider::get(c, id).await?;
    let deleted = c
        .q("delete from scim_tokens where provider_id = $1 and id = $2")
        .bind(id)
        .bind(token)
        .run()
        .await?;
    if deleted == 0 {
        return Err(AuthError::NotFound("token"));
    }
    record(c, actor, AuditAction::ScimTokenDeleted, &provider, token).await
}

/// A provider that has shown a token.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sender {
    pub token: ScimTokenId,
    pub provider: IdentityProviderId,
    /// True if `touch` has to update the last use.
    pub is_stale: bool,
}

impl Sender {
    /// Finds the provider of a token. A provider that is off has no access.
    ///
    /// # Errors
    /// `NotAuthenticated`.
    pub(crate) async fn find(c: &mut Conn, secret: &str) -> Result<Self, AuthError> {
        let row: Option<(ScimTokenId, IdentityProviderId, Option<Timestamp>)> = c
            .q("select t.id, t.provider_id, t.last_used_at from scim_tokens t \
                join identity_providers p on p.id = t.provider_id and p.enabled where t.token_hash = $1")
            .bind(hash_token(secret))
            .opt()
            .await?;
        let (token, provider, used_at) = row.ok_or(AuthError::NotAuthenticated)?;
        Ok(Self {
            token,
            provider,
            is_stale: used_at.is_none_or(|at| at < now() - USED_STALE_AFTER),
        })
    }

    /// Returns the provider, if the token still gives access.
    ///
    /// # Errors
    /// `NotAuthenticated`.
    pub(super) async fn enter(&self, c: &mut Conn) -> Result<StoredProvider, AuthError> {
        let is_valid: bool = c
            .q("select exists (select 1 from scim_tokens where id = $1 and provider_id = $2)")
            .bind(self.token)
            .bind(self.provider)
            .value()
            .await?;
        if !is_valid {
            return Err(AuthError::NotAuthenticated);
        }
        let provider = provider::get(c, self.provider).await?;
        if provider.enabled {
            Ok(provider)
        } else {
            Err(AuthError::NotAuthenticated)
        }
    }

    /// # Errors
    /// Only database errors.
    pub(crate) async fn touch(&self, c: &mut Conn) -> Result<(), AuthError> {
        c.q("update scim_tokens set last_used_at = $2 where id = $1")
            .bind(self.token)
            .bind(now())
            .run()
            .await?;
        Ok(())
    }
}
