//! Passkeys of accounts.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::Serialize;
use serde_json::json;

use super::{
    change::{FactorKind, added, removed},
    state::{SecondFactors, lock},
    webauthn::{Assertion, PasskeyAlgorithm, Registration},
};
use crate::{
    auth::{
        AuthError,
        events::Device,
        flows::{self, FlowKind, NewFlow},
    },
    db::{Conn, now},
    ids::{PasskeyId, UserId},
    time::Timestamp,
};

/// Maximum number of passkeys of an account.
pub(crate) const PASSKEYS_MAX: i64 = 10;
const NAME_CHARS_MAX: usize = 80;
/// Name of a passkey to which nobody gave one.
const DEFAULT_NAME: &str = "Passkey";

#[derive(Debug, Serialize, sqlx::FromRow, utoipa::ToSchema)]
pub(crate) struct Passkey {
    pub id: PasskeyId,
    pub name: String,
    pub created_at: Timestamp,
    pub used_at: Option<Timestamp>,
}

/// `user.id` of an account's passkeys.
pub(crate) fn handle_of(user: UserId) -> String {
    URL_SAFE_NO_PAD.encode(user.0.as_bytes())
}

fn parse_name(text: &str) -> Result<String, AuthError> {
    let name = text.trim();
    let is_valid =
        (1..=NAME_CHARS_MAX).contains(&name.chars().count()) && !name.chars().any(char::is_control);
    if !is_valid {
        let text = format!("the name must be 1 to {NAME_CHARS_MAX} characters: shorten it");
        return Err(AuthError::Invalid(text, "name"));
    }
    Ok(name.to_owned())
}

/// Lists the passkeys of an account, oldest first.
pub(crate) async fn list(c: &mut Conn, user: UserId) -> Result<Vec<Passkey>, AuthError> {
    Ok(c.q(
        "select id, name, created_at, used_at from passkeys where user_id = $1 order by id limit $2",
    )
    .bind(user)
    .bind(PASSKEYS_MAX)
    .all()
    .await?)
}

/// Credential IDs of an account, so that an authenticator does not create a second passkey for it.
pub(crate) async fn credential_ids(c: &mut Conn, user: UserId) -> Result<Vec<String>, AuthError> {
    let rows: Vec<(String,)> = c
        .q("select credential_id from passkeys where user_id = $1 order by id limit $2")
        .bind(user)
        .bind(PASSKEYS_MAX)
        .all()
        .await?;
    Ok(rows.into_iter().map(|(id,)| id).collect())
}

/// Stores a new passkey. Returns it, and recovery codes if it is the account's first factor.
///
/// # Errors
/// `FlowExpired` if the challenge is not one for this account, `QuotaExceeded`, or `Invalid` if the passkey belongs to an account.
pub(crate) async fn add(
    c: &mut Conn,
    user: UserId,
    name: Option<&str>,
    new: &Registration,
    device: &Device,
) -> Result<(Passkey, Option<Vec<String>>), AuthError> {
    let name = parse_name(name.unwrap_or(DEFAULT_NAME))?;
    if flows::take(c, &new.challenge, FlowKind::PasskeyCreation).await? != Some(user) {
        return Err(AuthError::FlowExpired);
    }
    lock(c, user).await?;
    if SecondFactors::of(c, user).await?.passkeys >= PASSKEYS_MAX {
        let text = format!("you have {PASSKEYS_MAX} passkeys: remove one first");
        return Err(AuthError::QuotaExceeded(text));
    }
    insert(c, user, name, new, device).await
}

async fn insert(
    c: &mut Conn,
    user: UserId,
    name: String,
    new: &Registration,
    device: &Device,
) -> Result<(Passkey, Option<Vec<String>>), AuthError> {
    let passkey: Option<Passkey> = c
        .q("insert into passkeys (id, user_id, credential_id, algorithm, public_key, counter, name, created_at) \
            values ($1, $2, $3, $4, $5, $6, $7, $8) on conflict (credential_id) do nothing returning id, name, created_at, used_at")
        .bind(PasskeyId::new())
        .bind(user)
        .bind(new.credential_id.clone())
        .bind(new.algorithm)
        .bind(new.public_key.clone())
        .bind(new.counter)
        .bind(name)
        .bind(now())
        .opt()
        .await?;
    let passkey = passkey.ok_or_else(|| {
        let text = "this passkey is already in use: create a new one".to_owned();
        AuthError::Invalid(text, "credential")
    })?;
    let codes = added(c, user, FactorKind::Passkey, Some(&passkey.name), device).await?;
    Ok((passkey, codes))
}

/// A passkey that is being created for an account that does not exist yet. The passkey names the ID of the account, so the ID is chosen
/// before.
#[derive(Debug, Clone)]
pub(crate) struct NewAccountPasskey {
    pub user: UserId,
    pub(super) flow: NewFlow,
}

impl NewAccountPasskey {
    pub(super) fn new() -> Self {
        let user = UserId::new();
        Self {
            user,
            flow: NewFlow {
                data: Some(json!(user)),
                ..NewFlow::new(FlowKind::PasskeyCreation, None)
            },
        }
    }

    /// Text that the passkey signs.
    pub(crate) fn challenge(&self) -> &str {
        &self.flow.secret
    }
}

/// Uses up the challenge of a passkey for a new account. Returns the ID of the account.
///
/// # Errors
/// `FlowExpired` if the challenge is not one for a new account.
pub(super) async fn take_new_account(
    c: &mut Conn,
    new: &Registration,
) -> Result<UserId, AuthError> {
    let data = flows::take_data(c, &new.challenge, FlowKind::PasskeyCreation).await?;
    data.and_then(|id| serde_json::from_value(id).ok())
        .ok_or(AuthError::FlowExpired)
}

/// Stores the passkey of a new account. Returns recovery codes.
///
/// # Errors
/// `Invalid` if the passkey belongs to an account.
pub(super) async fn add_first(
    c: &mut Conn,
    user: UserId,
    new: &Registration,
    device: &Device,
) -> Result<Vec<String>, AuthError> {
    let (_, codes) = insert(c, user, DEFAULT_NAME.to_owned(), new, device).await?;
    Ok(codes.unwrap_or_default())
}

/// # Errors
/// `NotFound`, `Invalid`.
pub(crate) async fn rename(
    c: &mut Conn,
    user: UserId,
    id: PasskeyId,
    name: &str,
) -> Result<Passkey, AuthError> {
    c.q("update passkeys set name = $3 where id = $1 and user_id = $2 returning id, name, created_at, used_at")
        .bind(id)
        .bind(user)
        .bind(parse_name(name)?)
        .opt()
        .await?
        .ok_or(AuthError::NotFound("passkey"))
}

/// Way to sign in without passkeys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OtherWay {
    Other,
    None,
}

/// Removes a passkey.
///
/// # Errors
/// `NotFound`, or `LastMethod` if the person could not sign in anymore.
pub(crate) async fn remove(
    c: &mut Conn,
    user: UserId,
    id: PasskeyId,
    other_way: OtherWay,
    device: &Device,
) -> Result<(), AuthError> {
    lock(c, user).await?;
    let row: Option<(String,)> = c
        .q("delete from passkeys where id = $1 and user_id = $2 returning name")
        .bind(id)
        .bind(user)
        .opt()
        .await?;
    let (name,) = row.ok_or(AuthError::NotFound("passkey"))?;
    if other_way == OtherWay::None && SecondFactors::of(c, user).await?.passkeys == 0 {
        return Err(AuthError::LastMethod);
    }
    removed(c, user, FactorKind::Passkey, Some(&name), device).await
}

#[derive(sqlx::FromRow)]
struct StoredPasskey {
    id: PasskeyId,
    user_id: UserId,
    algorithm: PasskeyAlgorithm,
    public_key: String,
}

/// Verifies a signature by a passkey; returns the account. Its challenge is used up if the transaction commits.
///
/// # Errors
/// `FlowExpired`, `PasskeyRejected`, `PasskeyCopied`.
pub(crate) async fn sign_in(c: &mut Conn, assertion: &Assertion) -> Result<UserId, AuthError> {
    flows::take(c, &assertion.challenge, FlowKind::Passkey).await?;
    let stored: Option<StoredPasskey> = c
        .q("select id, user_id, algorithm, public_key from passkeys where credential_id = $1")
        .bind(assertion.credential_id.clone())
        .opt()
        .await?;
    let stored = stored.ok_or(AuthError::PasskeyRejected("it is not registered here"))?;
    if assertion
        .user_handle
        .is_some_and(|user| user != stored.user_id.0)
    {
        return Err(AuthError::PasskeyRejected("it is for another account"));
    }
    if !assertion.is_signed_by(stored.algorithm, &stored.public_key) {
        return Err(AuthError::PasskeyRejected("its signature is wrong"));
    }
    // A counter that does not rise is that of a copy. Authenticators without one always send 0.
    let used = c
        .q("update passkeys set counter = $2, used_at = $3 where id = $1 and (counter < $2 or (counter = 0 and $2 = 0))")
        .bind(stored.id)
        .bind(assertion.counter)
        .bind(now())
        .run()
        .await?;
    if used == 0 {
        tracing::warn!(user.id = %stored.user_id, "a passkey was used whose counter did not rise, so it may be a copy");
        return Err(AuthError::PasskeyCopied);
    }
    Ok(stored.user_id)
}
