//! Emails with a link.

use super::{AuthError, flows::NewFlow};
use crate::{
    db::Conn,
    mail::{Letter, MailFault, MailPurpose, MailSubject, Mailer, PreparedMail, queue},
};

/// An email with a link. It is written before the transaction that queues it.
pub(crate) struct LinkMail {
    link: NewFlow,
    mail: PreparedMail,
}

impl LinkMail {
    /// `letter` makes the email from the secret of the link.
    ///
    /// # Errors
    /// `Off`, `Address`, or `Secret`.
    pub(super) fn write(
        mailer: &Mailer,
        (purpose, subject): (MailPurpose, MailSubject),
        link: NewFlow,
        letter: impl FnOnce(&str) -> Letter,
    ) -> Result<Self, MailFault> {
        let mail = mailer.prepare(purpose, subject, &letter(&link.secret))?;
        Ok(Self { link, mail })
    }

    /// Stores the link and queues the email.
    ///
    /// # Errors
    /// Only database errors.
    pub(super) async fn queue(&self, c: &mut Conn) -> Result<(), AuthError> {
        self.link.store(c).await?;
        Ok(queue::queue(c, &self.mail).await?)
    }
}
