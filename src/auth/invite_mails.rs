//! Invites that are sent by email. The link in the email has a secret of its own: whoever opens it proves that the address is theirs,
//! which the link that an admin sees does not.

use std::time::Duration;

use super::{
    Actor, AuditAction, AuthError, LinkMail, Scope,
    flows::{FlowKind, NewFlow},
    invites,
};
use crate::{
    db::{Conn, now},
    ids::{InviteId, WorkspaceId},
    mail::{
        Letter, MailFault, MailPurpose, MailSubject, Mailer,
        queue::{self, MailLimit, MailScope},
    },
};

const DAY: Duration = Duration::from_hours(24);
/// Emails with the same invite: the first one, and three more.
const OF_INVITE: MailLimit = MailLimit {
    max: 4,
    within: DAY,
};
/// Emails on behalf of a workspace.
const OF_WORKSPACE: MailLimit = MailLimit {
    max: 500,
    within: DAY,
};

/// People and places in the emails with invites to a workspace.
pub(crate) struct InviteLetters<'a> {
    pub workspace: WorkspaceId,
    pub workspace_name: &'a str,
    /// Name of the person who invites.
    pub from: &'a str,
    pub public_url: &'a str,
}

/// Invite to send.
#[derive(Debug, Clone)]
pub(crate) struct Invited {
    pub invite: InviteId,
    pub email: String,
    pub lifetime: Duration,
}

impl InviteLetters<'_> {
    /// # Errors
    /// `Off`, `Address`, or `Secret`.
    pub(crate) fn write(&self, mailer: &Mailer, to: &Invited) -> Result<LinkMail, MailFault> {
        let (from, name, url) = (self.from, self.workspace_name, self.public_url);
        let letter = |secret: &str| Letter {
            to: to.email.clone(),
            subject: format!("{from} invites you to {name}"),
            paragraphs: vec![format!(
                "{from} invites you to {name}, a workspace on OpenVibe."
            )],
            link: Some(("Join".to_owned(), format!("{url}/invite/{secret}"))),
            reason: format!(
                "You get this because {from} entered your address at {url}. If you do not know them, delete this email."
            ),
            ..Letter::default()
        };
        let subject = MailSubject {
            user: None,
            invite: Some(to.invite),
            workspace: Some(self.workspace),
        };
        let link = NewFlow {
            invite: Some(to.invite),
            lifetime: to.lifetime,
            ..NewFlow::by_email(FlowKind::Invite, None, &to.email)
        };
        LinkMail::write(mailer, (MailPurpose::Invite, subject), link, letter)
    }
}

/// Queues the email of an invite.
///
/// # Errors
/// `RateLimited`.
pub(crate) async fn queue(
    c: &mut Conn,
    workspace: WorkspaceId,
    invite: InviteId,
    mail: &LinkMail,
) -> Result<(), AuthError> {
    for (scope, limit) in [
        (MailScope::Invite(invite), OF_INVITE),
        (MailScope::Workspace(workspace), OF_WORKSPACE),
    ] {
        if let Some(wait) = queue::wait_for(c, scope, limit).await? {
            return Err(AuthError::RateLimited(wait.as_secs().max(1)));
        }
    }
    mail.queue(c).await
}

/// Finds an invite that can be sent again.
///
/// # Errors
/// `NotFound`, `InviteNotFound`, `Invalid` for an invite without an address, or an error from `Actor::require`.
pub(crate) async fn find(
    c: &mut Conn,
    actor: &Actor<'_>,
    id: InviteId,
) -> Result<Invited, AuthError> {
    let invite = invites::get(c, actor.workspace, id).await?;
    actor.require(Scope::WorkspaceAdmin)?;
    if !invite.is_open() {
        return Err(AuthError::InviteNotFound);
    }
    let no_address = || {
        let text = "this invite has no email address: copy its link";
        AuthError::Invalid(text.to_owned(), "id")
    };
    Ok(Invited {
        invite: id,
        email: invite.email.ok_or_else(no_address)?,
        lifetime: invite.expires_at.map_or(DAY, |at| at.since(now())),
    })
}

/// Queues the email of an invite again, and records that.
///
/// # Errors
/// Those of `find`, and `RateLimited`.
pub(crate) async fn send_again(
    c: &mut Conn,
    actor: &Actor<'_>,
    id: InviteId,
    mail: &LinkMail,
) -> Result<(), AuthError> {
    let email = find(c, actor, id).await?.email;
    queue(c, actor.workspace, id, mail).await?;
    let data = serde_json::json!({ "email": email });
    super::record_audit(c, actor, AuditAction::InviteSent, id.to_string(), data).await?;
    Ok(())
}
