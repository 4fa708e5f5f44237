//! Emails that tell people about changes to how they sign in.

use super::{AuthError, users::User};
use crate::{
    db::Conn,
    mail::{Letter, MailPurpose, MailSubject, Mailer, PreparedMail, queue},
};

/// Change to an account that its owner has to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SecurityChange {
    Password,
    AppAdded,
    AppRemoved,
    PasskeyAdded,
    PasskeyRemoved,
    RecoveryCodes,
    IdentityAdded,
    IdentityRemoved,
    Address,
}

impl SecurityChange {
    fn subject(self) -> &'static str {
        match self {
            Self::Password => "Your password was changed",
            Self::AppAdded => "An authenticator app was added",
            Self::AppRemoved => "Your authenticator app was removed",
            Self::PasskeyAdded => "A passkey was added",
            Self::PasskeyRemoved => "A passkey was removed",
            Self::RecoveryCodes => "Your recovery codes were replaced",
            Self::IdentityAdded => "An identity provider was connected",
            Self::IdentityRemoved => "An identity provider was disconnected",
            Self::Address => "Your email address was changed",
        }
    }

    /// Sentence about the account at an address.
    fn text(self, url: &str) -> String {
        match self {
            Self::Password => format!(
                "The password of your account at {url} was changed, and its sessions on other devices have ended."
            ),
            Self::AppAdded => format!(
                "An authenticator app was added to your account at {url}. Signing in with the password needs a second factor now."
            ),
            Self::AppRemoved => {
                format!("The authenticator app of your account at {url} was removed.")
            }
            Self::PasskeyAdded => {
                format!(
                    "A passkey was added to your account at {url}. It signs in without the password."
                )
            }
            Self::PasskeyRemoved => format!("A passkey of your account at {url} was removed."),
            Self::RecoveryCodes => format!(
                "Your account at {url} has new recovery codes, and the old ones have ended."
            ),
            Self::IdentityAdded => format!(
                "An identity provider was connected to your account at {url}. Signing in there enters your account without its password."
            ),
            Self::IdentityRemoved => {
                format!("An identity provider was disconnected from your account at {url}.")
            }
            Self::Address => format!(
                "Your identity provider has a new email address for your account at {url}, which replaces this one."
            ),
        }
    }
}

/// Email about a change, written before the transaction of the change. It is empty without a mail server, or if the address cannot get
/// emails, because neither may prevent the change.
#[derive(Debug, Clone)]
pub(crate) struct SecurityMail(Option<PreparedMail>);

impl SecurityMail {
    /// `owner` has the address from before the change.
    pub(crate) fn write(
        mailer: &Mailer,
        owner: &User,
        public_url: &str,
        change: SecurityChange,
    ) -> Self {
        let letter = Letter {
            to: owner.email.clone(),
            subject: change.subject().to_owned(),
            paragraphs: vec![
                change.text(public_url),
                "If it was not you, ask an admin for help at once.".to_owned(),
            ],
            link: None,
            reason: "You get this because it concerns the security of your account.".to_owned(),
            ..Letter::default()
        };
        let subject = MailSubject::of(owner.id);
        Self(mailer.prepare(MailPurpose::Security, subject, &letter).ok())
    }

    /// Queues the email in the transaction of the change.
    ///
    /// # Errors
    /// Only database errors.
    pub(crate) async fn queue(&self, c: &mut Conn) -> Result<(), AuthError> {
        if let Some(mail) = &self.0 {
            queue::queue(c, mail).await?;
        }
        Ok(())
    }
}
