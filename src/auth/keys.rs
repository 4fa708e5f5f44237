//! API keys: access for programs, with some of their owner's scopes.

use std::time::Duration;

use crate::time::Timestamp;
use serde::Serialize;

use super::{
    Actor, AuthError, Caller, Scope, Scopes,
    events::{self, AuthEventKind, Device},
    hash_token, new_token,
    revocations::{self, Revocation},
};
use crate::{
    cursor::PageRange,
    db::{Conn, Json, dialect, now},
    ids::{ApiKeyId, UserId},
};

const LIFETIME_S_MAX: i64 = 10 * 365 * 86_400;
const KEYS_MAX: i64 = 100;

#[derive(Debug, Serialize, sqlx::FromRow, utoipa::ToSchema)]
pub struct ApiKey {
    pub id: ApiKeyId,
    /// Owner of the key.
    pub user_id: UserId,
    pub name: String,
    #[schema(value_type = Vec<Scope>)]
    pub scopes: Json<Scopes>,
    pub created_at: Timestamp,
    pub expires_at: Option<Timestamp>,
    pub last_used_at: Option<Timestamp>,
}

/// Creates a key; returns it with its secret, which is shown only once.
///
/// # Errors
/// `Invalid`; `ScopeMissing` or `RoleTooLow` for a scope that the creator does not have; `NotAuthenticated` if the session has
/// ended; `ConfirmationRequired` for a key of an admin.
pub(crate) async fn create(
    c: &mut Conn,
    actor: &Actor<'_>,
    caller: &Caller,
    name: &str,
    scopes: Scopes,
    expires_in_s: Option<i64>,
    device: &Device,
) -> Result<(ApiKey, String), AuthError> {
    // A password change that revokes keys runs in another write queue. With this lock, the change either waits until this key
    // exists and deletes it, or has already ended this session.
    dialect::lock_account(c, actor.user.0).await?;
    caller.check_credential(c).await?;
    if actor.key.is_some() {
        actor.require(Scope::WorkspaceAdmin)?;
    }
    let name = super::DisplayName::parse(name, "name")?.0;
    check_new(c, actor, &scopes, expires_in_s).await?;
    if scopes.has(Scope::WorkspaceAdmin) {
        caller.require_confirmed_session(c).await?;
    }
    let secret = format!("ov_{}", new_token());
    let key = ApiKey {
        id: ApiKeyId::new(),
        user_id: actor.user,
        name,
        scopes: Json(scopes),
        created_at: now(),
        expires_at: expires_in_s.map(|s| now() + Duration::from_secs(s.unsigned_abs())),
        last_used_at: None,
    };
    c.q("insert into api_keys (id, workspace_id, user_id, name, token_hash, scopes, created_at, expires_at, last_used_at) \
         values ($1, $2, $3, $4, $5, $6, $7, $8, null)")
        .bind(key.id)
        .bind(actor.workspace)
        .bind(actor.user)
        .bind(key.name.clone())
        .bind(hash_token(&secret))
        .bind(Json(key.scopes.0.clone()))
        .bind(key.created_at)
        .bind(key.expires_at)
        .run()
        .await?;
    super::record_audit(
        c,
        actor,
        super::AuditAction::KeyCreated,
        key.id.to_string(),
        serde_json::json!({"name": key.name, "scopes": key.scopes.0}),
    )
    .await?;
    events::record(
        c,
        actor.user,
        AuthEventKind::KeyCreated,
        Some(&key.name),
        device,
    )
    .await?;
    Ok((key, secret))
}

/// Checks the scopes and the lifetime of a new key, and the number of the actor's keys.
async fn check_new(
    c: &mut Conn,
    actor: &Actor<'_>,
    scopes: &Scopes,
    expires_in_s: Option<i64>,
) -> Result<(), AuthError> {
    if scopes.0.is_empty() {
        return Err(AuthError::Invalid(
            "a key needs at least one scope".to_owned(),
            "scopes",
        ));
    }
    for scope in &scopes.0 {
        actor.require(*scope)?;
    }
    if expires_in_s.is_some_and(|s| !(1..=LIFETIME_S_MAX).contains(&s)) {
        return Err(AuthError::Invalid(
            format!("expires_in_s must be from 1 to {LIFETIME_S_MAX}"),
            "expires_in_s",
        ));
    }
    let (count,): (i64,) = c
        .q("select count(*) from api_keys where workspace_id = $1 and user_id = $2")
        .bind(actor.workspace)
        .bind(actor.user)
        .one()
        .await?;
    if count >= KEYS_MAX {
        return Err(AuthError::Invalid(
            format!("you have reached the limit of {KEYS_MAX} keys: delete one first"),
            "name",
        ));
    }
    Ok(())
}

/// Lists the actor's own keys in this workspace, oldest first.
///
/// # Errors
/// `SessionRequired` for a key without `workspace:admin`.
pub(crate) async fn list(c: &mut Conn, actor: &Actor<'_>) -> Result<Vec<ApiKey>, AuthError> {
    actor.require_person()?;
    Ok(c.q(
        "select id, user_id, name, scopes, created_at, expires_at, last_used_at from api_keys \
            where workspace_id = $1 and user_id = $2 order by id limit 100",
    )
    .bind(actor.workspace)
    .bind(actor.user)
    .all()
    .await?)
}

/// Lists everyone's keys in this workspace after `after` or before `before`, oldest first.
///
/// # Errors
/// Same as `Actor::require`.
pub(crate) async fn list_all(
    c: &mut Conn,
    actor: &Actor<'_>,
    PageRange { after, before }: PageRange<ApiKeyId>,
    limit: i64,
) -> Result<Vec<ApiKey>, AuthError> {
    actor.require(Scope::WorkspaceAdmin)?;
    let sql = if before.is_some() {
        "select id, user_id, name, scopes, created_at, expires_at, last_used_at from api_keys \
         where workspace_id = $1 and id > $2 and id < $3 order by id desc limit $4"
    } else {
        "select id, user_id, name, scopes, created_at, expires_at, last_used_at from api_keys \
         where workspace_id = $1 and id > $2 and id < $3 order by id limit $4"
    };
    let mut keys: Vec<ApiKey> = c
        .q(sql)
        .bind(actor.workspace)
        .bind(after.unwrap_or(ApiKeyId(uuid::Uuid::nil())))
        .bind(before.unwrap_or(ApiKeyId(uuid::Uuid::max())))
        .bind(limit)
        .all()
        .await?;
    if before.is_some() {
        keys.reverse();
    }
    Ok(keys)
}

/// Deletes all keys of an account, in every workspace.
pub(crate) async fn revoke_all(c: &mut Conn, user: UserId) -> Result<(), AuthError> {
    c.q("delete from api_keys where user_id = $1")
        .bind(user)
        .run()
        .await?;
    revocations::record(c, Revocation::Keys(user)).await?;
    Ok(())
}

/// Deletes a key: a person's own key, or any key for an admin. A key can always delete itself.
///
/// # Errors
/// `NotFound`; `SessionRequired` for a key without `workspace:admin`.
pub(crate) async fn delete(c: &mut Conn, actor: &Actor<'_>, id: ApiKeyId) -> Result<(), AuthError> {
    if actor.key != Some(id) {
        actor.require_person()?;
    }
    let anyone = actor.scopes.has(Scope::WorkspaceAdmin);
    let owner: Option<(UserId,)> = c
        .q("delete from api_keys where workspace_id = $1 and id = $2 and (user_id = $3 or $4) returning user_id")
        .bind(actor.workspace)
        .bind(id)
        .bind(actor.user)
        .bind(anyone)
        .opt()
        .await?;
    let (owner,) = owner.ok_or(AuthError::NotFound("key"))?;
    revocations::record(c, Revocation::Key(id)).await?;
    super::record_audit(
        c,
        actor,
        super::AuditAction::KeyDeleted,
        id.to_string(),
        serde_json::json!({"user_id": owner}),
    )
    .await?;
    Ok(())
}
