//! The job that writes emails about items that people missed: one for all that are due, at most every 15 minutes.
//!
//! An email is queued in the transaction that ends its deliveries, so neither happens without the other.

use std::{collections::HashSet, time::Duration};

use uuid::Uuid;

use super::{
    payload::{describe, url_of},
    pusher::Pusher,
    queue::{self, DeliveryState, MAIL_ORIGIN},
    settings::{self, MailNotifications},
};
use crate::{
    auth::users::{self, User},
    chat::inbox::notified::{self, NotifiedItem},
    db::{Conn, Db, DbError, now},
    failpoint,
    ids::{InboxItemId, UserId, WorkspaceId},
    inbox::NotificationPreview,
    mail::{
        Letter, LetterEntry, MailPurpose, MailSubject, Mailer,
        queue::{MailLimit, MailScope},
    },
    time::Timestamp,
};

/// Maximum number of people of one round.
const PEOPLE_MAX: i64 = 500;
/// Time after which items that wait are looked at again, because the end of quiet hours or a pause can change.
const LOOK_AGAIN_AFTER: Duration = Duration::from_mins(15);
/// Maximum number of items in one email.
const ITEMS_MAX: i64 = 100;
/// Emails to each person.
const LIMITS: [MailLimit; 2] = [
    MailLimit {
        max: 1,
        within: Duration::from_mins(15),
    },
    MailLimit {
        max: 20,
        within: Duration::from_hours(24),
    },
];

/// A delivery by email that is due.
#[derive(Debug, Clone, sqlx::FromRow)]
struct DueMail {
    id: Uuid,
    item_id: InboxItemId,
    workspace_id: WorkspaceId,
}

/// Decision about the items of a person that are due.
enum Missed {
    Mail(Box<MissedMail>),
    Skipped(&'static str),
    Later(Timestamp),
}

/// Content of an email.
struct MissedMail {
    due: Vec<DueMail>,
    items: Vec<(NotifiedItem, LetterEntry)>,
    owner: User,
    token: String,
}

impl Pusher {
    /// Queues emails about the items that people missed.
    ///
    /// # Errors
    /// Only database errors.
    pub async fn mail_missed(
        &self,
        db: &Db,
        mailer: &Mailer,
        public_url: &str,
    ) -> Result<(), DbError> {
        let people: Vec<(UserId,)> = db
            .read()
            .await?
            .q("select user_id from deliveries where origin = $1 and due_at <= $2 group by user_id order by min(due_at) limit $3")
            .bind(MAIL_ORIGIN.to_owned())
            .bind(now())
            .bind(PEOPLE_MAX)
            .all()
            .await?;
        let active = self
            .active_of(db, people.iter().map(|(user,)| *user))
            .await?;
        for (user,) in people {
            let missed = if !mailer.is_on() {
                Missed::Skipped("email is off")
            } else if active.contains(&user) {
                Missed::Skipped("active")
            } else {
                find_missed(&mut db.read().await?, user, public_url).await?
            };
            match missed {
                Missed::Skipped(cause) => skip(db, user, cause).await?,
                Missed::Later(until) => delay(db, user, until).await?,
                Missed::Mail(mail) => send(db, mailer, public_url, *mail).await?,
            }
        }
        Ok(())
    }
}

/// Checks again whether a person is to be told, and reads the items.
async fn find_missed(c: &mut Conn, user: UserId, public_url: &str) -> Result<Missed, DbError> {
    let stored = settings::read(c, user).await?;
    let owner = users::find_user(c, user).await?;
    let token = settings::mail_token(c, user).await?;
    let (Some(owner), Some(token)) = (owner, token) else {
        return Ok(Missed::Skipped("turned off"));
    };
    if stored.mail == MailNotifications::Off || !owner.email_confirmed {
        return Ok(Missed::Skipped("turned off"));
    }
    if let Some(until) = stored.blocked_until(now()) {
        return Ok(Missed::Later(until));
    }
    if let Some(until) = limited_until(c, user).await? {
        return Ok(Missed::Later(until));
    }
    let due: Vec<DueMail> = c
        .q("select id, item_id, workspace_id from deliveries where user_id = $1 and origin = $2 and due_at <= $3 \
            and workspace_id is not null order by due_at, id limit $4")
        .bind(user)
        .bind(MAIL_ORIGIN.to_owned())
        .bind(now())
        .bind(ITEMS_MAX)
        .all()
        .await?;
    let (mut items, mut seen) = (Vec::new(), HashSet::new());
    for delivery in &due {
        if !seen.insert(delivery.item_id) {
            continue;
        }
        let found =
            notified::find_notifying(c, delivery.workspace_id, user, delivery.item_id).await?;
        if let Some(found) = found {
            let entry = entry_of(&found, stored.preview, public_url);
            items.push((found, entry));
        }
    }
    if items.is_empty() {
        return Ok(Missed::Skipped("read, muted, or no longer visible"));
    }
    Ok(Missed::Mail(Box::new(MissedMail {
        due,
        items,
        owner,
        token,
    })))
}

/// Time until which the person gets no other email.
async fn limited_until(c: &mut Conn, user: UserId) -> Result<Option<Timestamp>, DbError> {
    let scope = MailScope::Person(user, MailPurpose::Missed);
    let mut until = None;
    for limit in LIMITS {
        let wait = crate::mail::queue::wait_for(c, scope, limit).await?;
        until = until.max(wait.map(|wait| now() + wait));
    }
    Ok(until)
}

fn entry_of(found: &NotifiedItem, preview: NotificationPreview, public_url: &str) -> LetterEntry {
    let item = &found.item;
    let happened = describe(item);
    let (title, text) = match preview.max(found.preview_max.mail) {
        NotificationPreview::None => ("New message".to_owned(), String::new()),
        NotificationPreview::Sender => (happened, String::new()),
        NotificationPreview::Full => {
            let title = match &found.channel_name {
                Some(channel) => format!("{happened} in #{channel}"),
                None => happened,
            };
            let text = if item.text.is_empty() {
                &item.title
            } else {
                &item.text
            };
            (title, text.clone())
        }
    };
    LetterEntry {
        title,
        text,
        url: format!("{public_url}{}", url_of(found)),
    }
}

fn letter_of(mail: &MissedMail, public_url: &str) -> Letter {
    let entries: Vec<LetterEntry> = mail.items.iter().map(|(_, entry)| entry.clone()).collect();
    let subject = match entries.as_slice() {
        [one] => one.title.clone(),
        several => format!("{} new in your inbox", several.len()),
    };
    let slug = mail
        .items
        .first()
        .map_or("", |(found, _)| found.slug.as_str());
    Letter {
        to: mail.owner.email.clone(),
        subject,
        entries,
        link: Some((
            "Settings › Notifications".to_owned(),
            format!("{public_url}/{slug}/settings/notifications"),
        )),
        reason: format!(
            "You get this because you have not read it at {public_url}, and your settings ask for emails."
        ),
        unsubscribe: Some(format!(
            "{public_url}/v1/mail/unsubscribe?token={}",
            mail.token
        )),
        ..Letter::default()
    }
}

/// Queues an email, and ends its deliveries.
async fn send(db: &Db, mailer: &Mailer, public_url: &str, mail: MissedMail) -> Result<(), DbError> {
    let user = mail.owner.id;
    let letter = letter_of(&mail, public_url);
    let prepared = match mailer.prepare(MailPurpose::Missed, MailSubject::of(user), &letter) {
        Ok(prepared) => prepared,
        Err(error) => {
            tracing::warn!(user.id = %user, %error, "an email about missed items could not be written");
            return skip(db, user, "the email could not be written").await;
        }
    };
    failpoint!("missed_insert");
    let mail = std::sync::Arc::new(mail);
    db.write(Uuid::nil(), async move |c: &mut Conn| {
        // Serializes emails to one person.
        c.q("update users set id = id where id = $1")
            .bind(user)
            .run()
            .await?;
        let owner = users::find_user(c, user).await?;
        let is_same = owner
            .is_some_and(|owner| owner.email_confirmed && owner.email == mail.owner.email)
            && settings::read(c, user).await?.mail == MailNotifications::Missed;
        if !is_same || limited_until(c, user).await?.is_some() {
            return Ok(());
        }
        let mut ended = 0;
        for delivery in &mail.due {
            ended += queue::end_mail(c, delivery.id).await?;
        }
        if ended == 0 {
            return Ok(());
        }
        for (found, _) in &mail.items {
            let item = &found.item;
            queue::cover_by_mail(c, user, item.id, item.changed_seq).await?;
        }
        crate::mail::queue::queue(c, &prepared).await
    })
    .await?;
    failpoint!("missed_inserted");
    mailer.wake();
    Ok(())
}

/// Ends the deliveries of a person that are due.
async fn skip(db: &Db, user: UserId, cause: &'static str) -> Result<(), DbError> {
    db.write(Uuid::nil(), async move |c: &mut Conn| {
        c.q("update deliveries set state = $4, answer = $5, due_at = null where user_id = $1 and origin = $2 and due_at <= $3")
            .bind(user)
            .bind(MAIL_ORIGIN.to_owned())
            .bind(now())
            .bind(DeliveryState::Skipped)
            .bind(cause.to_owned())
            .run()
            .await?;
        Ok::<_, DbError>(())
    })
    .await
}

/// Lets the deliveries of a person that are due wait.
async fn delay(db: &Db, user: UserId, until: Timestamp) -> Result<(), DbError> {
    let until = until.min(now() + LOOK_AGAIN_AFTER);
    db.write(Uuid::nil(), async move |c: &mut Conn| {
        c.q(
            "update deliveries set due_at = $4 where user_id = $1 and origin = $2 and due_at <= $3",
        )
        .bind(user)
        .bind(MAIL_ORIGIN.to_owned())
        .bind(now())
        .bind(until)
        .run()
        .await?;
        Ok::<_, DbError>(())
    })
    .await
}
