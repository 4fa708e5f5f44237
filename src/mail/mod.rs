//! Emails: written in the transaction of their cause, and sent by a job, so that no request waits for the mail server.
//!
//! `settings` names the server; `letter` formats an email; `queue` stores those that wait, encrypted; `sender` sends them through the
//! connections of `smtp`. Without `OPENVIBE_SMTP_URL`, nothing is written.

mod fault;
pub mod letter;
pub mod queue;
pub mod sender;
pub mod settings;
pub mod smtp;

pub use fault::MailFault;
pub use letter::{Letter, LetterEntry};
pub use queue::{MailPurpose, MailState, MailSubject, PreparedMail};

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use lettre::message::Mailbox;
use tokio::sync::Notify;

use self::{
    settings::{SmtpSettings, default_sender},
    smtp::{MailConnection, SendFault},
};
use crate::{outbound::Url, secrets::Keyring};

/// Mail server and sender.
#[derive(Debug, Clone)]
pub struct Sending {
    pub smtp: SmtpSettings,
    pub from: Mailbox,
    /// Name with which this server introduces itself.
    pub hello: String,
}

impl Sending {
    /// Returns `None` if no mail server is set.
    pub fn new(
        smtp: Option<&SmtpSettings>,
        from: Option<&Mailbox>,
        public_url: &str,
    ) -> Option<Self> {
        let url = Url::parse(public_url).ok();
        Some(Self {
            smtp: smtp?.clone(),
            from: from.cloned().or_else(|| default_sender(public_url))?,
            hello: url
                .as_ref()
                .and_then(Url::host_str)
                .unwrap_or("localhost")
                .to_owned(),
        })
    }

    /// Connects and signs in, without sending anything. Returns the time that it took.
    pub async fn check(&self) -> Result<Duration, SendFault> {
        let started = Instant::now();
        let connection = MailConnection::open(&self.smtp, &self.hello).await?;
        let took = started.elapsed();
        connection.close().await;
        Ok(took)
    }

    /// Sends an email at once. Returns the server's answer.
    pub async fn send(&self, letter: &Letter) -> Result<String, SendFault> {
        let id = uuid::Uuid::now_v7().simple().to_string();
        let message = letter.message(&self.from, &id);
        let message = message.map_err(|e| SendFault::Refused(e.to_string()))?;
        let mut connection = MailConnection::open(&self.smtp, &self.hello).await?;
        let answer = connection
            .send(message.envelope(), &message.formatted())
            .await;
        connection.close().await;
        answer
    }
}

/// Writer and sender of emails.
pub struct Mailer {
    sending: Option<Sending>,
    keyring: Arc<Keyring>,
    woken: Notify,
}

impl Mailer {
    pub fn new(sending: Option<Sending>, keyring: Arc<Keyring>) -> Self {
        Self {
            sending,
            keyring,
            woken: Notify::new(),
        }
    }

    /// # Errors
    /// `Off` without a mail server.
    pub fn sending(&self) -> Result<&Sending, MailFault> {
        self.sending.as_ref().ok_or(MailFault::Off)
    }

    pub fn is_on(&self) -> bool {
        self.sending.is_some()
    }

    /// Looks for emails that were just queued.
    pub fn wake(&self) {
        self.woken.notify_one();
    }
}
