//! Confirmed email addresses, and passwords that are reset by email.

use std::time::Duration;

use super::{
    AuthError, Hasher, LinkMail, SecurityChange, SecurityMail,
    events::{self, AuthEventKind, Device},
    flows::{self, Flow, FlowKind, NewFlow},
    keys, members,
    names::parse_email,
    password::check_password,
    sessions, users, workspaces,
};
use crate::{
    db::{Conn, Db},
    ids::UserId,
    mail::{
        Letter, MailFault, MailPurpose, MailSubject, Mailer,
        queue::{self, MailLimit, MailScope},
    },
};

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

/// Writes an email with a link to a person. `letter` makes it from the secret of the link.
fn write(
    mailer: &Mailer,
    (purpose, kind): (MailPurpose, FlowKind),
    user: &users::User,
    letter: impl FnOnce(&str) -> Letter,
) -> Result<LinkMail, MailFault> {
    let link = NewFlow::by_email(kind, Some(user.id), &user.email);
    LinkMail::write(mailer, (purpose, MailSubject::of(user.id)), link, letter)
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
        ..Letter::default()
    };
    let kinds = (MailPurpose::Confirmation, FlowKind::Confirmation);
    let mail = write(mailer, kinds, &user, letter)?;
    let id = user.id;
    db.write(id.0, async move |c: &mut Conn| {
        if users::get_user(c, id).await?.email_confirmed {
            return Err(AuthError::AddressConfirmed);
        }
        if let Some(wait) = queue::wait_for(
            c,
            MailScope::Person(id, MailPurpose::Confirmation),
            CONFIRMATIONS,
        )
        .await?
        {
            return Err(AuthError::RateLimited(wait.as_secs().max(1)));
        }
        mail.queue(c).await
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
    find_link(&mut db.read().await?, &token, &[FlowKind::Confirmation]).await?;
    db.write(uuid::Uuid::nil(), async move |c: &mut Conn| {
        let link = find_link(c, &token, &[FlowKind::Confirmation]).await?;
        if !flows::end(c, &token).await? {
            return Err(AuthError::LinkExpired);
        }
        flows::confirm_address(c, link.user, &link.email).await
    })
    .await
}

/// A link that was opened in time.
struct OpenedLink {
    kind: FlowKind,
    user: UserId,
    /// Address that it was sent to.
    email: String,
}

async fn find_link(c: &mut Conn, token: &str, kinds: &[FlowKind]) -> Result<OpenedLink, AuthError> {
    let flow = flows::find(c, token).await?;
    let flow = flow.filter(|flow| kinds.contains(&flow.kind));
    match flow {
        Some(Flow {
            kind,
            user_id: Some(user),
            email: Some(email),
            ..
        }) => Ok(OpenedLink { kind, user, email }),
        _ => Err(AuthError::LinkExpired),
    }
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
        ..Letter::default()
    }
    };
    queue_reset(db, mailer, &user, letter).await
}

/// Queues an email with a link that sets a new password, unless the person has got too many.
async fn queue_reset(
    db: &Db,
    mailer: &Mailer,
    user: &users::User,
    letter: impl FnOnce(&str) -> Letter,
) -> Result<(), AuthError> {
    let mail = write(mailer, (MailPurpose::Reset, FlowKind::Reset), user, letter)?;
    let id = user.id;
    db.write(id.0, async move |c: &mut Conn| {
        let scope = MailScope::Person(id, MailPurpose::Reset);
        if queue::wait_for(c, scope, RESETS).await?.is_none() {
            mail.queue(c).await?;
        }
        Ok::<_, AuthError>(())
    })
    .await?;
    mailer.wake();
    Ok(())
}

/// Sends a link with which a person sets a password, because they can sign in only with this provider.
///
/// # Errors
/// Only database errors and `Mail`.
pub(crate) async fn send_link_for(
    db: &Db,
    mailer: &Mailer,
    user: UserId,
    provider: &str,
    public_url: &str,
) -> Result<(), AuthError> {
    let user = users::get_user(&mut db.read().await?, user).await?;
    let letter = |token: &str| {
        Letter {
        to: user.email.clone(),
        subject: "Set a password".to_owned(),
        paragraphs: vec![
            format!(
                "{}, you sign in to {public_url} only with {provider}. Set a password, so that you can still sign in if {provider} is turned off.",
                user.name
            ),
            "The link works once, for half an hour, and ends all sessions of your account. Later, choose “Forgot your password?” on the \
             sign-in page."
                .to_owned(),
        ],
        link: Some((
            "Set a password".to_owned(),
            format!("{public_url}/reset/{token}"),
        )),
        reason: "You get this because an admin of the server sends it to everyone who has no other way to sign in.".to_owned(),
        ..Letter::default()
    }
    };
    queue_reset(db, mailer, &user, letter).await
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
    const KINDS: &[FlowKind] = &[FlowKind::Reset, FlowKind::AdminReset];
    let mut c = db.read().await?;
    let id = find_link(&mut c, &reset.token, KINDS).await?.user;
    let user = users::get_user(&mut c, id).await?;
    drop(c);
    check_password(&reset.password, &user.name, &user.email)?;
    let hash = hasher.hash(reset.password.clone()).await?;
    let notice = SecurityMail::write(mailer, &user, public_url, SecurityChange::Password);
    db.write(id.0, async move |c: &mut Conn| {
        let link = find_link(c, &reset.token, KINDS).await?;
        if !flows::end(c, &reset.token).await? {
            return Err(AuthError::LinkExpired);
        }
        let user = link.user;
        users::set_password(c, user, &hash).await?;
        if link.kind == FlowKind::Reset {
            flows::confirm_address(c, user, &link.email).await?;
        }
        let kind = AuthEventKind::PasswordChanged;
        events::record(c, user, kind, None, &reset.device).await?;
        if reset.revoke_keys {
            keys::revoke_all(c, user).await?;
        }
        notice.queue(c).await?;
        sessions::end_all(c, user, None).await
    })
    .await?;
    mailer.wake();
    Ok(())
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
) -> Result<NewFlow, AuthError> {
    actor.require(super::Scope::WorkspaceAdmin)?;
    members::get_member(c, actor.workspace, user).await?;
    let oldest = workspaces::find_oldest(c).await?;
    let is_elsewhere: bool = c
        .q("select exists (select 1 from (select workspace_id from members where user_id = $1 \
            union all select workspace_id from suspended_members where user_id = $1) m where not exists \
            (select 1 from members a where a.workspace_id = m.workspace_id and a.user_id = $2 and a.role = 'admin'))")
        .bind(user)
        .bind(actor.user)
        .value()
        .await?;
    if is_elsewhere && oldest != Some(actor.workspace) {
        return Err(AuthError::OtherWorkspaces);
    }
    let email = users::get_user(c, user).await?.email;
    let link = NewFlow::by_email(FlowKind::AdminReset, Some(user), &email);
    link.store(c).await?;
    let action = super::AuditAction::MemberResetLinkCreated;
    super::record_audit(c, actor, action, user.to_string(), serde_json::json!({})).await?;
    Ok(link)
}
