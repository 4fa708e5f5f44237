//! Emails that wait to be sent: rows of `mails`. A row has the outcome of an email for a week; its text is deleted once it is sent.

use std::time::Duration;

use lettre::{Address, address::Envelope};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{Letter, MailFault, Mailer, smtp::SendFault};
use crate::{
    db::{Conn, Db, DbError, now},
    ids::{InviteId, UserId, WorkspaceId},
    secrets::Sealed,
    text_enum::text_enum,
    time::Timestamp,
};

/// Time after which an email that is being sent counts as not sent, because its process died.
const SENT_WITHIN: Duration = Duration::from_mins(3);
/// Delays before the next attempts; the last one repeats.
const DELAYS: [Duration; 4] = [
    Duration::from_mins(1),
    Duration::from_mins(5),
    Duration::from_mins(30),
    Duration::from_hours(2),
];
/// Time after which an email is given up.
const GIVEN_UP_AFTER: Duration = Duration::from_hours(24);
/// Time for which the outcome of an email is known.
const KEPT: Duration = Duration::from_hours(7 * 24);

text_enum! {
    /// Cause of an email.
    pub enum MailPurpose {
        Confirmation = "confirmation",
        Invite = "invite",
        /// Inbox items that a person missed.
        Missed = "missed",
        Reset = "reset",
        /// A change to the account that its owner has to know.
        Security = "security",
    }
}

text_enum! {
    /// Outcome of an email.
    pub enum MailState {
        Queued = "queued",
        Sent = "sent",
        /// The mail server refused it for good.
        Refused = "refused",
        /// There was no success within a day.
        Failed = "failed",
    }
}

/// Objects that an email belongs to: limits count them, and it is deleted with them.
#[derive(Debug, Clone, Copy, Default)]
pub struct MailSubject {
    pub user: Option<UserId>,
    pub invite: Option<InviteId>,
    pub workspace: Option<WorkspaceId>,
}

impl MailSubject {
    /// An email to a person about their own account.
    pub fn of(user: UserId) -> Self {
        Self {
            user: Some(user),
            ..Self::default()
        }
    }
}

/// An email that is ready to be queued.
#[derive(Debug, Clone)]
pub struct PreparedMail {
    id: Uuid,
    purpose: MailPurpose,
    subject: MailSubject,
    sealed: Sealed,
}

/// Stored form of an email.
#[derive(Serialize, Deserialize)]
struct StoredMail {
    from: String,
    to: Vec<String>,
    message: String,
}

impl Mailer {
    /// Writes and encrypts an email. This happens before the transaction in which it is queued.
    ///
    /// # Errors
    /// `Off`, `Address`, or `Secret`.
    pub fn prepare(
        &self,
        purpose: MailPurpose,
        subject: MailSubject,
        letter: &Letter,
    ) -> Result<PreparedMail, MailFault> {
        let from = &self.sending()?.from;
        let id = Uuid::now_v7();
        let message = letter.message(from, &id.simple().to_string())?;
        let stored = StoredMail {
            from: from.email.to_string(),
            to: message
                .envelope()
                .to()
                .iter()
                .map(ToString::to_string)
                .collect(),
            message: String::from_utf8_lossy(&message.formatted()).into_owned(),
        };
        let stored = serde_json::to_string(&stored).map_err(|_| MailFault::Address)?;
        let sealed = self.keyring.seal(&id.to_string(), &stored)?;
        Ok(PreparedMail {
            id,
            purpose,
            subject,
            sealed,
        })
    }
}

/// Queues an email in the transaction of its cause. `Mailer::wake` sends it after the commit.
///
/// # Errors
/// Only database errors.
pub async fn queue(c: &mut Conn, mail: &PreparedMail) -> Result<(), DbError> {
    c.q("insert into mails (id, user_id, invite_id, workspace_id, purpose, state, attempt, due_at, key_id, nonce, ciphertext, created_at) \
         values ($1, $2, $3, $4, $5, $6, 0, $7, $8, $9, $10, $7)")
        .bind(mail.id)
        .bind(mail.subject.user)
        .bind(mail.subject.invite)
        .bind(mail.subject.workspace)
        .bind(mail.purpose)
        .bind(MailState::Queued)
        .bind(now())
        .bind(mail.sealed.key_id.clone())
        .bind(mail.sealed.nonce.clone())
        .bind(mail.sealed.ciphertext.clone())
        .run()
        .await?;
    Ok(())
}

/// An email that is due.
#[derive(sqlx::FromRow)]
pub(super) struct DueMail {
    id: Uuid,
    attempt: i32,
    created_at: Timestamp,
    #[sqlx(flatten)]
    sealed: Sealed,
}

impl DueMail {
    /// Decrypts the email: its envelope and text.
    pub(super) fn open(&self, mailer: &Mailer) -> Option<(Envelope, Vec<u8>)> {
        let stored = mailer
            .keyring
            .open(&self.id.to_string(), &self.sealed)
            .ok()?;
        let stored: StoredMail = serde_json::from_str(&stored).ok()?;
        let to: Vec<Address> = stored.to.iter().filter_map(|to| to.parse().ok()).collect();
        let envelope = Envelope::new(Some(stored.from.parse().ok()?), to).ok()?;
        Some((envelope, stored.message.into_bytes()))
    }
}

/// Number of emails that wait.
///
/// # Errors
/// Only database errors.
pub async fn count_waiting(c: &mut Conn) -> Result<i64, DbError> {
    c.q("select count(*) from mails where due_at is not null")
        .value()
        .await
}

/// Checks whether an email is due.
pub(super) async fn is_any_due(c: &mut Conn) -> Result<bool, DbError> {
    c.q("select exists (select 1 from mails where due_at <= $1)")
        .bind(now())
        .value()
        .await
}

/// Takes the email that has been due for the longest time. It is due again if its process dies before it stores the outcome.
pub(super) async fn take_due(c: &mut Conn) -> Result<Option<DueMail>, DbError> {
    let now = now();
    c.q("update mails set due_at = $2 where id = (select id from mails where due_at <= $1 order by due_at limit 1) \
         and due_at <= $1 returning id, attempt, created_at, key_id, nonce, ciphertext")
        .bind(now)
        .bind(now + SENT_WITHIN)
        .opt()
        .await
}

/// Stores the outcome of an attempt. A fault of the server does not count as an attempt.
pub(super) async fn settle(
    c: &mut Conn,
    mail: &DueMail,
    outcome: Result<String, SendFault>,
) -> Result<(), DbError> {
    let now = now();
    let is_over = mail.created_at + GIVEN_UP_AFTER <= now;
    let tries = usize::try_from(mail.attempt).unwrap_or_default();
    let delay = DELAYS
        .get(tries)
        .or(DELAYS.last())
        .copied()
        .unwrap_or_default();
    let is_refused = matches!(outcome, Err(SendFault::Refused(_)));
    let (state, answer, again) = match outcome {
        Ok(answer) => (MailState::Sent, answer, None),
        Err(SendFault::Refused(text)) => (MailState::Refused, text, None),
        Err(fault) if is_over => (MailState::Failed, fault.text().to_owned(), None),
        Err(SendFault::Later(text)) => (MailState::Queued, text, Some((now + delay, 1))),
        Err(SendFault::Server(text)) => (MailState::Queued, text, Some((now, 0))),
    };
    let (due_at, counted) = again.map_or((None, 1), |(at, counted)| (Some(at), counted));
    if is_refused {
        // An address that refuses emails gets no more of them.
        c.q("update notification_settings set mail = 'off', mail_problem = $2, version = version + 1 \
             where user_id = (select user_id from mails where id = $1 and purpose = 'missed')")
            .bind(mail.id)
            .bind(answer.clone())
            .run()
            .await?;
    }
    c.q("update mails set state = $2, answer = $3, due_at = $4, attempt = attempt + $5 where id = $1")
        .bind(mail.id)
        .bind(state)
        .bind(answer)
        .bind(due_at)
        .bind(counted)
        .run()
        .await?;
    if due_at.is_none() {
        c.q("update mails set key_id = '', nonce = '', ciphertext = '' where id = $1")
            .bind(mail.id)
            .run()
            .await?;
    }
    Ok(())
}

/// Deletes rows of emails from more than a week ago.
///
/// # Errors
/// Only database errors.
pub async fn delete_old(db: &Db) -> Result<(), DbError> {
    db.delete_expired(
        now() - KEPT,
        "select exists (select 1 from mails where created_at < $1)",
        "delete from mails where id in (select id from mails where created_at < $1 order by created_at, id limit $2)",
    )
    .await?;
    Ok(())
}

/// Maximum number of emails in a time.
#[derive(Debug, Clone, Copy)]
pub struct MailLimit {
    pub max: i64,
    pub within: Duration,
}

/// Emails that a limit counts.
#[derive(Debug, Clone, Copy)]
pub enum MailScope {
    Person(UserId, MailPurpose),
    Invite(InviteId),
    /// All on behalf of a workspace.
    Workspace(WorkspaceId),
}

/// Time until the limit permits another email; `None` if it does now.
///
/// # Errors
/// Only database errors.
pub async fn wait_for(
    c: &mut Conn,
    scope: MailScope,
    limit: MailLimit,
) -> Result<Option<Duration>, DbError> {
    let query = match scope {
        MailScope::Person(user, purpose) => c
            .q("select created_at from mails where user_id = $2 and purpose = $3 order by created_at desc limit 1 offset $1")
            .bind(limit.max - 1)
            .bind(user)
            .bind(purpose),
        MailScope::Invite(invite) => c
            .q("select created_at from mails where invite_id = $2 order by created_at desc limit 1 offset $1")
            .bind(limit.max - 1)
            .bind(invite),
        MailScope::Workspace(workspace) => c
            .q("select created_at from mails where workspace_id = $2 order by created_at desc limit 1 offset $1")
            .bind(limit.max - 1)
            .bind(workspace),
    };
    let counted: Option<(Timestamp,)> = query.opt().await?;
    let now = now();
    let until = counted.map(|(at,)| at + limit.within);
    Ok(until
        .filter(|until| *until > now)
        .map(|until| until.since(now)))
}
