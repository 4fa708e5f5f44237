//! Links in emails, each of which works once: the row has the SHA-256 of the token in the link.

use std::time::Duration;

use super::{hash_token, new_token};
use crate::{
    db::{Conn, Db, DbError, now},
    ids::{InviteId, UserId},
    text_enum::text_enum,
};

text_enum! {
    /// Effect of a link.
    pub enum LinkKind {
        /// Confirms the address that it was sent to.
        Confirm = "confirm",
        /// Joins a workspace, and confirms the address that it was sent to.
        Invite = "invite",
        /// Sets a new password, and confirms the address that it was sent to.
        Reset = "reset",
        /// Sets a new password. An admin got it, so it confirms nothing.
        AdminReset = "admin_reset",
    }
}

/// Object that a link belongs to.
#[derive(Debug, Clone, Copy)]
pub enum LinkOwner {
    User(UserId),
    Invite(InviteId),
}

/// A link to send. Its token is known before the transaction that stores it, because the email is written before.
#[derive(Debug, Clone)]
pub struct NewLink {
    pub token: String,
    kind: LinkKind,
    owner: LinkOwner,
    email: String,
    lifetime: Duration,
}

impl NewLink {
    /// A link for the person at `email`.
    pub fn new(kind: LinkKind, owner: LinkOwner, email: &str, lifetime: Duration) -> Self {
        Self {
            token: new_token(),
            kind,
            owner,
            email: email.to_owned(),
            lifetime,
        }
    }

    /// # Errors
    /// Only database errors.
    pub async fn store(&self, c: &mut Conn) -> Result<(), DbError> {
        let (user, invite) = match self.owner {
            LinkOwner::User(user) => (Some(user), None),
            LinkOwner::Invite(invite) => (None, Some(invite)),
        };
        c.q("insert into mail_links (token_hash, kind, user_id, invite_id, email, expires_at) values ($1, $2, $3, $4, $5, $6)")
            .bind(hash_token(&self.token))
            .bind(self.kind)
            .bind(user)
            .bind(invite)
            .bind(self.email.clone())
            .bind(now() + self.lifetime)
            .run()
            .await?;
        Ok(())
    }
}

/// A link that was opened in time.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct OpenedLink {
    pub kind: LinkKind,
    pub user_id: Option<UserId>,
    pub invite_id: Option<InviteId>,
    /// Address that it was sent to.
    pub email: String,
}

/// Finds a link that can still be used.
///
/// # Errors
/// Only database errors.
pub async fn find(c: &mut Conn, token: &str) -> Result<Option<OpenedLink>, DbError> {
    c.q("select kind, user_id, invite_id, email from mail_links where token_hash = $1 and expires_at > $2")
        .bind(hash_token(token))
        .bind(now())
        .opt()
        .await
}

/// Ends a link. Of several requests at once, only one gets `true`.
///
/// # Errors
/// Only database errors.
pub async fn end(c: &mut Conn, token: &str) -> Result<bool, DbError> {
    let ended = c
        .q("delete from mail_links where token_hash = $1 and expires_at > $2")
        .bind(hash_token(token))
        .bind(now())
        .run()
        .await?;
    Ok(ended > 0)
}

/// Ends all links of a person that set a password.
///
/// # Errors
/// Only database errors.
pub async fn end_resets(c: &mut Conn, user: UserId) -> Result<(), DbError> {
    c.q("delete from mail_links where user_id = $1 and kind in ('reset', 'admin_reset')")
        .bind(user)
        .run()
        .await?;
    Ok(())
}

/// Checks whether the address of an account is confirmed.
///
/// # Errors
/// Only database errors.
pub(crate) async fn is_confirmed(c: &mut Conn, user: UserId) -> Result<bool, DbError> {
    c.q("select exists (select 1 from users where id = $1 and email_confirmed_at is not null)")
        .bind(user)
        .value()
        .await
}

/// Confirms the address that a link was sent to, if it is still that of the account.
pub(super) async fn mark_confirmed(c: &mut Conn, user: UserId, email: &str) -> Result<(), DbError> {
    c.q("update users set email_confirmed_at = $3 where id = $1 and email = $2 and email_confirmed_at is null")
        .bind(user)
        .bind(email.to_owned())
        .bind(now())
        .run()
        .await?;
    Ok(())
}

/// Deletes links that cannot be used anymore.
///
/// # Errors
/// Only database errors.
pub async fn delete_expired(db: &Db) -> Result<(), DbError> {
    db.delete_expired(
        now(),
        "select exists (select 1 from mail_links where expires_at < $1)",
        "delete from mail_links where token_hash in \
         (select token_hash from mail_links where expires_at < $1 order by expires_at, token_hash limit $2)",
    )
    .await?;
    Ok(())
}
