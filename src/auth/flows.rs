//! Steps of signing in that are not finished, and links in emails that were not opened. Each is a row with the hash of a secret that the
//! person holds, so any node can finish it.

use std::time::Duration;

use super::{AuthError, hash_token, new_token};
use crate::{
    db::{Conn, Json, now},
    ids::{InviteId, UserId},
    text_enum::text_enum,
};

/// Time in which a passkey must sign its challenge.
pub(crate) const PASSKEY_WITHIN_MS: u64 = 5 * 60 * 1000;
/// Number of wrong second factors that end a sign-in.
const WRONG_CODES_MAX: i64 = 5;
/// Time in which a password can be reset.
pub(crate) const RESET_WITHIN: Duration = Duration::from_mins(30);

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
        /// A link confirms the address that it was sent to.
        Confirmation = "confirmation",
        /// A link joins a workspace, and confirms the address that it was sent to.
        Invite = "invite",
        /// A link sets a new password, and confirms the address that it was sent to.
        Reset = "reset",
        /// A link sets a new password. An admin got it, so it confirms nothing.
        AdminReset = "admin_reset",
        /// An identity provider answers.
        Oidc = "oidc",
        /// An identity waits for the password of the account that has its address.
        IdentityLink = "identity_link",
        /// Marks a logout token of a provider as used.
        LogoutToken = "logout_token",
    }
}

/// A step to be stored. Its secret is known before, because emails are written before the transaction.
#[derive(Debug, Clone)]
pub(crate) struct NewFlow {
    pub secret: String,
    pub kind: FlowKind,
    pub user: Option<UserId>,
    pub invite: Option<InviteId>,
    /// Address that the secret is sent to.
    pub email: Option<String>,
    /// Secret of the browser that must finish it.
    pub browser: Option<String>,
    /// State that the step needs.
    pub data: Option<serde_json::Value>,
    pub lifetime: Duration,
}

impl NewFlow {
    /// A step of signing in to an account, if it is known.
    pub(crate) fn new(kind: FlowKind, user: Option<UserId>) -> Self {
        Self {
            secret: new_token(),
            kind,
            user,
            invite: None,
            email: None,
            browser: None,
            data: None,
            lifetime: match kind {
                FlowKind::SignInLink
                | FlowKind::SecondFactor
                | FlowKind::Oidc
                | FlowKind::IdentityLink
                | FlowKind::LogoutToken => Duration::from_mins(10),
                FlowKind::Passkey | FlowKind::PasskeyCreation => {
                    Duration::from_millis(PASSKEY_WITHIN_MS)
                }
                FlowKind::Confirmation => Duration::from_hours(24),
                FlowKind::Invite => Duration::from_hours(7 * 24),
                FlowKind::Reset | FlowKind::AdminReset => RESET_WITHIN,
            },
        }
    }

    /// A step that begins with a link to an address.
    pub(super) fn by_email(kind: FlowKind, user: Option<UserId>, email: &str) -> Self {
        Self {
            email: Some(email.to_owned()),
            ..Self::new(kind, user)
        }
    }

    /// Stores the step under the hash of its secret.
    pub(crate) async fn store(&self, c: &mut Conn) -> Result<(), AuthError> {
        c.q("insert into auth_flows (id_hash, kind, user_id, invite_id, email, expires_at, browser_hash, data) \
             values ($1, $2, $3, $4, $5, $6, $7, $8)")
            .bind(hash_token(&self.secret))
            .bind(self.kind)
            .bind(self.user)
            .bind(self.invite)
            .bind(self.email.clone())
            .bind(now() + self.lifetime)
            .bind(self.browser.as_deref().map(hash_token))
            .bind(self.data.clone().map(Json))
            .run()
            .await?;
        Ok(())
    }
}

/// A step that can still be finished.
#[derive(Debug, Clone, sqlx::FromRow)]
pub(crate) struct Flow {
    pub kind: FlowKind,
    pub user_id: Option<UserId>,
    pub invite_id: Option<InviteId>,
    /// Address that the secret was sent to.
    pub email: Option<String>,
}

/// Finds a step without finishing it.
pub(crate) async fn find(c: &mut Conn, secret: &str) -> Result<Option<Flow>, AuthError> {
    Ok(c.q("select kind, user_id, invite_id, email from auth_flows where id_hash = $1 and expires_at > $2")
        .bind(hash_token(secret))
        .bind(now())
        .opt()
        .await?)
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

/// Deletes a step and returns the state that it needs, so that it is used once.
///
/// # Errors
/// Same as `take`.
pub(super) async fn take_data(
    c: &mut Conn,
    secret: &str,
    kind: FlowKind,
) -> Result<Option<serde_json::Value>, AuthError> {
    let taken: Option<(Option<Json<serde_json::Value>>,)> = c
        .q("delete from auth_flows where id_hash = $1 and kind = $2 and expires_at > $3 returning data")
        .bind(hash_token(secret))
        .bind(kind)
        .bind(now())
        .opt()
        .await?;
    let (data,) = taken.ok_or(AuthError::FlowExpired)?;
    Ok(data.map(|Json(data)| data))
}

/// A step that its browser has finished.
#[derive(Debug, sqlx::FromRow)]
pub(super) struct BrowserFlow {
    pub user_id: Option<UserId>,
    pub invite_id: Option<InviteId>,
    pub data: Option<Json<serde_json::Value>>,
}

/// Deletes a step that this browser began, so that it is used once.
///
/// # Errors
/// `FlowExpired`, also for the step of another browser.
pub(super) async fn take_in_browser(
    c: &mut Conn,
    secret: &str,
    browser: &str,
    kind: FlowKind,
) -> Result<BrowserFlow, AuthError> {
    let taking = "delete from auth_flows where id_hash = $1 and browser_hash = $2 and kind = $3 and expires_at > $4 \
                  returning user_id, invite_id, data";
    in_browser(c, taking, secret, browser, kind).await
}

/// Finds such a step without finishing it.
///
/// # Errors
/// Same as `take_in_browser`.
pub(super) async fn find_in_browser(
    c: &mut Conn,
    secret: &str,
    browser: &str,
    kind: FlowKind,
) -> Result<BrowserFlow, AuthError> {
    let finding = "select user_id, invite_id, data from auth_flows \
                   where id_hash = $1 and browser_hash = $2 and kind = $3 and expires_at > $4";
    in_browser(c, finding, secret, browser, kind).await
}

async fn in_browser(
    c: &mut Conn,
    sql: &'static str,
    secret: &str,
    browser: &str,
    kind: FlowKind,
) -> Result<BrowserFlow, AuthError> {
    c.q(sql)
        .bind(hash_token(secret))
        .bind(hash_token(browser))
        .bind(kind)
        .bind(now())
        .opt()
        .await?
        .ok_or(AuthError::FlowExpired)
}

/// Marks a secret of another server as used.
///
/// # Errors
/// `FlowExpired` if it was used before.
pub(super) async fn use_once(
    c: &mut Conn,
    secret: &str,
    kind: FlowKind,
    lifetime: Duration,
) -> Result<(), AuthError> {
    c.q("insert into auth_flows (id_hash, kind, expires_at) values ($1, $2, $3) on conflict (id_hash) do nothing returning kind")
        .bind(hash_token(secret))
        .bind(kind)
        .bind(now() + lifetime)
        .opt::<(FlowKind,)>()
        .await?
        .map(|_| ())
        .ok_or(AuthError::FlowExpired)
}

/// Returns the account of a sign-in that waits for a second factor.
///
/// # Errors
/// `FlowExpired`.
pub(crate) async fn find_second_factor(c: &mut Conn, secret: &str) -> Result<UserId, AuthError> {
    let flow = find(c, secret).await?;
    let flow = flow.filter(|flow| flow.kind == FlowKind::SecondFactor);
    flow.and_then(|flow| flow.user_id)
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

/// Ends a step. Of several requests at once, only one gets `true`.
pub(crate) async fn end(c: &mut Conn, secret: &str) -> Result<bool, AuthError> {
    let ended = c
        .q("delete from auth_flows where id_hash = $1 and expires_at > $2")
        .bind(hash_token(secret))
        .bind(now())
        .run()
        .await?;
    Ok(ended > 0)
}

/// Confirms the address that a link was sent to, if it is still that of the account.
pub(super) async fn confirm_address(
    c: &mut Conn,
    user: UserId,
    email: &str,
) -> Result<(), AuthError> {
    c.q("update users set email_confirmed_at = $3 where id = $1 and email = $2 and email_confirmed_at is null")
        .bind(user)
        .bind(email.to_owned())
        .bind(now())
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
