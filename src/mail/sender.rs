//! The job that sends queued emails, on one node at a time.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{
    Mailer,
    queue::{self, DueMail},
    smtp::{MailConnection, SendFault},
};
use crate::{
    db::{Conn, Db, DbError},
    time::Timestamp,
};

/// Interval between checks whether an email is due.
const CHECK_EVERY: Duration = Duration::from_secs(5);
/// Pause after the mail server refused the login or encryption.
const PAUSE: Duration = Duration::from_mins(1);
/// Interval between emails: ten per second.
const SEND_EVERY: Duration = Duration::from_millis(100);

/// Reason why no email can be sent: a JSON value in `meta`, until one is sent.
#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
pub struct MailProblem {
    /// A sentence for the server's admins.
    pub text: String,
    pub since: Timestamp,
}

impl MailProblem {
    /// # Errors
    /// Only database errors.
    pub async fn read(c: &mut Conn) -> Result<Option<Self>, DbError> {
        let row = c
            .q("select value from meta where key = 'mail_problem'")
            .opt::<(String,)>()
            .await?;
        Ok(row.and_then(|(value,)| serde_json::from_str(&value).ok()))
    }

    async fn store(c: &mut Conn, text: &str) -> Result<(), DbError> {
        if Self::read(c).await?.is_some_and(|known| known.text == text) {
            return Ok(());
        }
        let problem = Self {
            text: text.to_owned(),
            since: Timestamp::now(),
        };
        let value = serde_json::to_string(&problem).map_err(|e| DbError::Start(e.to_string()))?;
        c.q("insert into meta (key, value) values ('mail_problem', $1) on conflict (key) do update set value = excluded.value")
            .bind(value)
            .run()
            .await?;
        Ok(())
    }

    async fn clear(c: &mut Conn) -> Result<(), DbError> {
        c.q("delete from meta where key = 'mail_problem'")
            .run()
            .await?;
        Ok(())
    }
}

impl Mailer {
    /// Waits until an email may be due.
    pub async fn wait(&self) {
        tokio::select! {
            () = self.woken.notified() => {}
            () = tokio::time::sleep(CHECK_EVERY) => {}
        }
    }

    /// Sends emails until none is due or the server has to be left alone, and returns the pause before the next look.
    ///
    /// # Errors
    /// Only database errors.
    pub async fn send_due(&self, db: &Db) -> Result<Duration, DbError> {
        let Ok(sending) = self.sending() else {
            return Ok(Duration::ZERO);
        };
        let mut connection = None;
        let mut pause = Duration::ZERO;
        while queue::is_any_due(&mut db.read().await?).await? {
            let mail = db
                .write(Uuid::nil(), async |c: &mut Conn| queue::take_due(c).await)
                .await?;
            let Some(mail) = mail else {
                break;
            };
            let outcome = match connection.take() {
                Some(open) => Ok(open),
                None => MailConnection::open(&sending.smtp, &sending.hello).await,
            };
            let outcome = match outcome {
                Ok(mut open) => {
                    let sent = send(self, &mut open, &mail).await;
                    if sent.is_ok() {
                        connection = Some(open);
                    } else {
                        open.close().await;
                    }
                    sent
                }
                Err(fault) => Err(fault),
            };
            count(&outcome);
            let goes_on = match &outcome {
                Ok(_) | Err(SendFault::Refused(_)) => true,
                Err(SendFault::Later(text)) => {
                    tracing::warn!("an email could not be sent, and is tried again later: {text}");
                    false
                }
                Err(SendFault::Server(text)) => {
                    tracing::warn!("no email can be sent: {text}");
                    pause = PAUSE;
                    false
                }
            };
            settle(db, mail, outcome).await?;
            if !goes_on {
                break;
            }
            tokio::time::sleep(SEND_EVERY).await;
        }
        if let Some(open) = connection {
            open.close().await;
        }
        Ok(pause)
    }
}

async fn send(
    mailer: &Mailer,
    connection: &mut MailConnection,
    mail: &DueMail,
) -> Result<String, SendFault> {
    match mail.open(mailer) {
        Some((envelope, message)) => connection.send(&envelope, &message).await,
        None => Err(SendFault::Refused(
            "the stored email cannot be decrypted with this server's key".to_owned(),
        )),
    }
}

async fn settle(db: &Db, mail: DueMail, outcome: Result<String, SendFault>) -> Result<(), DbError> {
    let mail = std::sync::Arc::new(mail);
    db.write(Uuid::nil(), async move |c: &mut Conn| {
        match &outcome {
            Ok(_) => MailProblem::clear(c).await?,
            Err(SendFault::Server(text)) => MailProblem::store(c, text).await?,
            Err(_) => {}
        }
        queue::settle(c, &mail, outcome.clone()).await
    })
    .await
}

fn count(outcome: &Result<String, SendFault>) {
    let result = match outcome {
        Ok(_) => "sent",
        Err(SendFault::Refused(_)) => "refused",
        Err(SendFault::Later(_)) => "later",
        Err(SendFault::Server(_)) => "server",
    };
    metrics::counter!("openvibe_mails_total", "result" => result).increment(1);
}
