//! Confirmed email addresses, and passwords that are reset by email.

use std::time::Duration;

use super::{
    AuthError, Hasher,
    events::{self, AuthEventKind, Device},
    keys,
    mail_links::{self, LinkKind, LinkOwner, NewLink, OpenedLink},
    members,
    names::parse_email,
    password::check_password,
    sessions, users, workspaces,
};
use crate::{
    db::{Conn, Db},
    ids::UserId,
    mail::{
        Letter, MailFault, MailPurpose, MailSubject, Mailer, PreparedMail,
        queue::{self, MailLimit},
    },
};

/// Time in which an address can be confirmed.
const CONFIRM_WITHIN: Duration = Duration::from_hours(24);
/// Time in which a password can be reset.
pub const RESET_WITHIN: Duration = Duration::from_mins(30);
/// Emails to confirm an address, for each person.
const CONFIRMATIONS: MailLimit = MailLimit {
    max: 3,
    within: Duration::from_hours(24),
};
/// Emails to reset a password, for each person.
const RESETS: MailLimit = MailLimit {
    max: 3,
    within: Duration::from_hours(1),
};

/// An email with a link.
struct MailWithLink {
    link: NewLink,
    mail: PreparedMail,
}

/// Writes an email with a link to a person. `url` makes an address from a token.
fn write(
    mailer: &Mailer,
    (purpose, kind): (MailPurpose, LinkKind),
    user: &users::User,
    lifetime: Duration,
    letter: impl FnOnce(&str) -> Letter,
) -> Result<MailWithLink, MailFault> {
    let link = NewLink::new(kind, LinkOwner::User(user.id), &user.email, lifetime);
    let subject = MailSubject {
        user: Some(user.id),
        ..MailSubject::default()
    };
    let mail = mailer.prepare(purpose, subject, &letter(&link.token))?;
    Ok(MailWithLink { link, mail })
}

/// Sends a link with which a person confirms the address of their account.
///
/// # Errors
/// `AddressConfirmed`, `RateLimited`, `Mail`.
pub(crate) async fn send_confirmation(
    db: &Db,
    mailer: &Mailer,
    user: UserId,
    public_url: &str,
) -> Result<(), AuthError> {
    let user = users::get_user(&mut db.read().await?, user).await?;
    let letter = |token: &str| Letter {
        to: user.email.clone(),
        subject: "Confirm your email address".to_owned(),
        paragraphs: vec![
            format!(
                "Confirm that {} is your address on OpenVibe, so that it can write to you.",
                user.email
            ),
            "The link works for a day.".to_owned(),
        ],
        link: Some((
            "Confirm this address".to_owned(),
            format!("{public_url}/confirm/{token}"),
        )),
        reason: format!(
            "You get this because somebody asked for it in the account of {} at {public_url}. If it was not you, delete this email.",
            user.name
        ),
    };
    let kinds = (MailPurpose::Confirmation, LinkKind::Confirm);
    let MailWithLink { link, mail } = write(mailer, kinds, &user, CONFIRM_WITHIN, letter)?;
    let id = user.id;
    db.write(id.0, async move |c: &mut Conn| {
        if mail_links::is_confirmed(c, id).await? {
            return Err(AuthError::AddressConfirmed);
        }
        if let Some(wait) = queue::wait_for(c, id, MailPurpose::Confirmation, CONFIRMATIONS).await?
        {
            return Err(AuthError::RateLimited(wait.as_secs().max(1)));
        }
        link.store(c).await?;
        Ok(queue::queue(c, &mail).await?)
    })
    .await?;
    mailer.wake();
    Ok(())
}

/// Confirms an address with the token of a link.
///
/// # Errors
/// `LinkExpired`.
pub(crate) async fn confirm(db: &Db, token: String) -> Result<(), AuthError> {
    find_link(&mut db.read().await?, &token, &[LinkKind::Confirm]).await?;
    db.write(uuid::Uuid::nil(), async move |c: &mut Conn| {
        let (link, user) = find_link(c, &token, &[LinkKind::Confirm]).await?;
        if !mail_links::end(c, &token).await? {
            return Err(AuthError::LinkExpired);
        }
        Ok(mail_links::mark_confirmed(c, user, &link.email).await?)
    })
    .await
}

async fn find_link(
    c: &mut Conn,
    token: &str,
    kinds: &[LinkKind],
) -> Result<(OpenedLink, UserId), AuthError> {
    let link = mail_links::find(c, token).await?;
    let link = link.filter(|link| kinds.contains(&link.kind));
    let link = link.ok_or(AuthError::LinkExpired)?;
    let user = link.user_id.ok_or(AuthError::LinkExpired)?;
    Ok((link, user))
}

/// Sends a link with which a person sets a new password, if an account has this address. Callers cannot tell whether it does.
///
/// # Errors
/// Only database errors and `Mail`.
pub(crate) async fn send_reset(
    db: &Db,
    mailer: &Mailer,
    email: &str,
    public_url: &str,
) -> Result<(), AuthError> {
    let Ok(email) = parse_email(email) else {
        return Ok(());
    };
    let Some(user) = users::find_user_by_email(&mut db.read().await?, &email).await? else {
        return Ok(());
    };
    let letter = |token: &str| {
        Letter {
        to: user.email.clone(),
        subject: "Set a new password".to_owned(),
        paragraphs: vec![
            format!("{}, you can set a new password for your account at {public_url}.", user.name),
            "The link works once, for half an hour. It ends all sessions of the account.".to_owned(),
        ],
        link: Some(("Set a new password".to_owned(), format!("{public_url}/reset/{token}"))),
        reason: "You get this because somebody entered your address under “Forgot your password?”. If it was not you, delete this email: \
                 your password stays as it is."
            .to_owned(),
    }
    };
    let kinds = (MailPurpose::Reset, LinkKind::Reset);
    let MailWithLink { link, mail } = write(mailer, kinds, &user, RESET_WITHIN, letter)?;
    let id = user.id;
    db.write(id.0, async move |c: &mut Conn| {
        if queue::wait_for(c, id, MailPurpose::Reset, RESETS)
            .await?
            .is_none()
        {
            link.store(c).await?;
            queue::queue(c, &mail).await?;
        }
        Ok::<_, AuthError>(())
    })
    .await?;
    mailer.wake();
    Ok(())
}

/// New password of an account, with the token of a link.
#[derive(Clone)]
pub(crate) struct Reset {
    pub token: String,
    pub password: String,
    pub revoke_keys: bool,
    pub device: Device,
}

/// Sets a new password, ends all sessions of the account, and tells its owner.
///
/// # Errors
/// `LinkExpired`, `Invalid`.
pub(crate) async fn reset(
    db: &Db,
    hasher: &Hasher,
    mailer: &Mailer,
    public_url: &str,
    reset: Reset,
) -> Result<(), AuthError> {
    const KINDS: &[LinkKind] = &[LinkKind::Reset, LinkKind::AdminReset];
    let mut c = db.read().await?;
    let (_, id) = find_link(&mut c, &reset.token, KINDS).await?;
    let user = users::get_user(&mut c, id).await?;
    drop(c);
    check_password(&reset.password, &user.name, &user.email)?;
    let hash = hasher.hash(reset.password.clone()).await?;
    let notice = notice_of_password(mailer, &user, public_url);
    db.write(id.0, async move |c: &mut Conn| {
        let (link, user) = find_link(c, &reset.token, KINDS).await?;
        if !mail_links::end(c, &reset.token).await? {
            return Err(AuthError::LinkExpired);
        }
        mail_links::end_resets(c, user).await?;
        users::set_password(c, user, &hash).await?;
        if link.kind == LinkKind::Reset {
            mail_links::mark_confirmed(c, user, &link.email).await?;
        }
        let kind = AuthEventKind::PasswordChanged;
        events::record(c, user, kind, None, &reset.device).await?;
        if reset.revoke_keys {
            keys::revoke_all(c, user).await?;
        }
        if let Some(notice) = &notice {
            queue::queue(c, notice).await?;
        }
        sessions::end_all(c, user, None).await
    })
    .await?;
    mailer.wake();
    Ok(())
}

/// Email that tells a person about the change of their password; `None` if it cannot be written.
fn notice_of_password(
    mailer: &Mailer,
    user: &users::User,
    public_url: &str,
) -> Option<PreparedMail> {
    let letter = Letter {
        to: user.email.clone(),
        subject: "Your password was changed".to_owned(),
        paragraphs: vec![format!(
            "The password of your account at {public_url} was changed, and all of its sessions have ended. If it was not you, ask an \
             admin for help at once."
        )],
        link: None,
        reason: "You get this because it concerns the security of your account.".to_owned(),
    };
    let subject = MailSubject {
        user: Some(user.id),
        ..MailSubject::default()
    };
    mailer.prepare(MailPurpose::Security, subject, &letter).ok()
}

/// Makes a link with which a member sets a new password, for an admin who hands it over. The admin must be one of every workspace of
/// the member, or of the server.
///
/// # Errors
/// `OtherWorkspaces`, `MemberNotFound`, or an error from `Actor::require`.
pub(crate) async fn make_reset_link(
    c: &mut Conn,
    actor: &super::Actor<'_>,
    user: UserId,
) -> Result<NewLink, AuthError> {
    actor.require(super::Scope::WorkspaceAdmin)?;
    members::get_member(c, actor.workspace, user).await?;
    let oldest = workspaces::find_oldest(c).await?;
    let is_elsewhere: bool = c
        .q("select exists (select 1 from members m where m.user_id = $1 and not exists \
            (select 1 from members a where a.workspace_id = m.workspace_id and a.user_id = $2 and a.role = 'admin'))")
        .bind(user)
        .bind(actor.user)
        .value()
        .await?;
    if is_elsewhere && oldest != Some(actor.workspace) {
        return Err(AuthError::OtherWorkspaces);
    }
    let email = users::get_user(c, user).await?.email;
    let link = NewLink::new(
        LinkKind::AdminReset,
        LinkOwner::User(user),
        &email,
        RESET_WITHIN,
    );
    link.store(c).await?;
    let action = super::AuditAction::MemberResetLinkCreated;
    super::record_audit(c, actor, action, user.to_string(), serde_json::json!({})).await?;
    Ok(link)
}
