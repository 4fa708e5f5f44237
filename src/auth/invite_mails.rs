//! Invites that are sent by email. The link in the email has a token of its own: whoever opens it proves that the address is theirs,
//! which the link that an admin sees does not.

use std::time::Duration;

use super::{
    Actor, AuditAction, AuthError, Invite, Scope,
    mail_links::{LinkKind, LinkOwner, NewLink},
};
use crate::{
    db::{Conn, now},
    ids::{InviteId, WorkspaceId},
    mail::{
        Letter, MailFault, MailPurpose, MailSubject, Mailer, PreparedMail,
        queue::{self, MailLimit},
    },
};

const DAY: Duration = Duration::from_hours(24);
/// Emails with the same invite.
const OF_INVITE: MailLimit = MailLimit {
    max: 3,
    within: DAY,
};
/// Emails on behalf of a workspace.
const OF_WORKSPACE: MailLimit = MailLimit {
    max: 500,
    within: DAY,
};

/// An email with an invite.
pub(crate) struct InviteMail {
    link: NewLink,
    mail: PreparedMail,
}

/// Parts of an email with an invite.
pub(crate) struct InviteLetter<'a> {
    pub invite: InviteId,
    pub workspace: WorkspaceId,
    pub workspace_name: &'a str,
    /// Name of the person who invites.
    pub from: &'a str,
    /// Address of the invited person.
    pub to: &'a str,
    pub lifetime: Duration,
    pub public_url: &'a str,
}

impl InviteLetter<'_> {
    /// # Errors
    /// `Off`, `Address`, or `Secret`.
    pub(crate) fn write(&self, mailer: &Mailer) -> Result<InviteMail, MailFault> {
        let owner = LinkOwner::Invite(self.invite);
        let link = NewLink::new(LinkKind::Invite, owner, self.to, self.lifetime);
        let (from, name, url) = (self.from, self.workspace_name, self.public_url);
        let letter = Letter {
            to: self.to.to_owned(),
            subject: format!("{from} invites you to {name}"),
            paragraphs: vec![format!(
                "{from} invites you to {name}, a workspace on OpenVibe."
            )],
            link: Some(("Join".to_owned(), format!("{url}/invite/{}", link.token))),
            reason: format!(
                "You get this because {from} entered your address at {url}. If you do not know them, delete this email."
            ),
        };
        let subject = MailSubject {
            user: None,
            invite: Some(self.invite),
            workspace: Some(self.workspace),
        };
        let mail = mailer.prepare(MailPurpose::Invite, subject, &letter)?;
        Ok(InviteMail { link, mail })
    }
}

impl InviteMail {
    /// Queues the email.
    ///
    /// # Errors
    /// `RateLimited`.
    pub(crate) async fn queue(
        &self,
        c: &mut Conn,
        invite: InviteId,
        workspace: WorkspaceId,
    ) -> Result<(), AuthError> {
        let wait = queue::wait_for_invite(c, invite, OF_INVITE).await?;
        let wait = match wait {
            None => queue::wait_for_workspace(c, workspace, OF_WORKSPACE).await?,
            wait => wait,
        };
        if let Some(wait) = wait {
            return Err(AuthError::RateLimited(wait.as_secs().max(1)));
        }
        self.link.store(c).await?;
        Ok(queue::queue(c, &self.mail).await?)
    }
}

/// Finds an invite that can be sent again, with the address of the invited person and the rest of its lifetime.
///
/// # Errors
/// `NotFound`, `InviteNotFound`, `Invalid` for an invite without an address, or an error from `Actor::require`.
pub(crate) async fn find(
    c: &mut Conn,
    actor: &Actor<'_>,
    id: InviteId,
) -> Result<(Invite, String, Duration), AuthError> {
    actor.require(Scope::WorkspaceAdmin)?;
    let invite = super::invites::get(c, actor.workspace, id).await?;
    if !invite.is_open() {
        return Err(AuthError::InviteNotFound);
    }
    let no_address = || {
        AuthError::Invalid(
            "this invite has no email address: copy its link".to_owned(),
            "id",
        )
    };
    let email = invite.email.clone().ok_or_else(no_address)?;
    let lifetime = invite.expires_at.map_or(DAY, |at| at.since(now()));
    Ok((invite, email, lifetime))
}

/// Queues the email of an invite again, and records that.
///
/// # Errors
/// Those of `find`, and `RateLimited`.
pub(crate) async fn send_again(
    c: &mut Conn,
    actor: &Actor<'_>,
    id: InviteId,
    mail: &InviteMail,
) -> Result<(), AuthError> {
    let (_, email, _) = find(c, actor, id).await?;
    mail.queue(c, id, actor.workspace).await?;
    let data = serde_json::json!({ "email": email });
    super::record_audit(c, actor, AuditAction::InviteSent, id.to_string(), data).await?;
    Ok(())
}
