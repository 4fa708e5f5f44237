//! A person's notification settings.

use chrono::{DateTime, Datelike, NaiveDate, NaiveTime, Utc, Weekday};
use chrono_tz::Tz;
use serde::{Deserialize, Serialize};

use super::error::PushError;
use crate::{
    agents::profiles::tools::IgnoredField,
    auth::{new_token, users},
    db::{Conn, DbError, Json, now},
    ids::UserId,
    inbox::NotificationPreview,
    text_enum::text_enum,
    time::{Timestamp, instant_of},
};

/// Maximum length of a pause.
const PAUSE_MAX: std::time::Duration = std::time::Duration::from_hours(366 * 24);
/// Maximum number of quiet spans and pauses that follow each other without a gap.
const SPANS_MAX: usize = 16;

text_enum! {
    /// Emails about inbox items.
    pub enum MailNotifications {
        Off = "off",
        /// About items that the person has not read for ten minutes.
        Missed = "missed",
    }
}

text_enum! {
    pub enum QuietDay {
        Monday = "mon",
        Tuesday = "tue",
        Wednesday = "wed",
        Thursday = "thu",
        Friday = "fri",
        Saturday = "sat",
        Sunday = "sun",
    }
}

impl From<Weekday> for QuietDay {
    fn from(day: Weekday) -> Self {
        match day {
            Weekday::Mon => Self::Monday,
            Weekday::Tue => Self::Tuesday,
            Weekday::Wed => Self::Wednesday,
            Weekday::Thu => Self::Thursday,
            Weekday::Fri => Self::Friday,
            Weekday::Sat => Self::Saturday,
            Weekday::Sun => Self::Sunday,
        }
    }
}

/// Span of a day without notifications. It ends on the next day if `to` is not after `from`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct QuietHours {
    /// `HH:MM` in the time zone of the settings.
    pub from: String,
    /// `HH:MM` in the time zone of the settings.
    pub to: String,
    /// Days on which the span begins, 1 to 7.
    #[schema(min_items = 1, max_items = 7)]
    pub days: Vec<QuietDay>,
}

fn parse_time(text: &str) -> Option<NaiveTime> {
    (text.len() == 5).then(|| NaiveTime::parse_from_str(text, "%H:%M").ok())?
}

impl QuietHours {
    /// End of the span that contains an instant.
    fn end(&self, zone: Tz, at: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let (from, to) = (parse_time(&self.from)?, parse_time(&self.to)?);
        let today = at.with_timezone(&zone).date_naive();
        let spans = [today.pred_opt(), Some(today)].into_iter().flatten();
        spans
            .filter(|day| self.days.contains(&QuietDay::from(day.weekday())))
            .filter_map(|day| {
                let last: NaiveDate = if to > from { day } else { day.succ_opt()? };
                let begin = instant_of(zone, day.and_time(from));
                let end = instant_of(zone, last.and_time(to));
                (begin <= at && at < end).then_some(end)
            })
            .max()
    }
}

/// Notification settings of an account.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct NotificationSettings {
    /// True if notifications are sent to the account's devices.
    pub push: bool,
    pub preview: NotificationPreview,
    pub quiet: Option<QuietHours>,
    /// End of a pause.
    pub paused_until: Option<Timestamp>,
    /// Time zone of the quiet hours, such as `Europe/Berlin`.
    pub timezone: String,
    pub mail: MailNotifications,
    pub version: i64,
}

impl Default for NotificationSettings {
    fn default() -> Self {
        Self {
            push: true,
            preview: NotificationPreview::Full,
            quiet: None,
            paused_until: None,
            timezone: "UTC".to_owned(),
            mail: MailNotifications::Off,
            version: 0,
        }
    }
}

impl NotificationSettings {
    /// End of the quiet hours and pauses at an instant; `None` if there are none.
    pub fn blocked_until(&self, at: Timestamp) -> Option<Timestamp> {
        let zone: Tz = self.timezone.parse().unwrap_or(Tz::UTC);
        let begun = at.datetime();
        let mut end = begun;
        for _ in 0..SPANS_MAX {
            let pause = self.paused_until.map(Timestamp::datetime);
            let quiet = self.quiet.as_ref().and_then(|quiet| quiet.end(zone, end));
            let Some(later) = pause.max(quiet).filter(|later| *later > end) else {
                break;
            };
            end = later;
        }
        (end > begun).then(|| Timestamp::within_years(end))?
    }
}

/// The new settings. Left-out fields get their defaults, and the version is ignored, so settings from `GET` can be sent back.
#[derive(Debug, Clone, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NotificationSettingsForm {
    pub push: bool,
    pub preview: NotificationPreview,
    pub quiet: Option<QuietHours>,
    /// At most a year from now.
    pub paused_until: Option<Timestamp>,
    /// Time zone such as `Europe/Berlin`.
    pub timezone: String,
    /// `missed` needs a confirmed address.
    pub mail: MailNotifications,
    /// Set by the server; ignored in requests.
    #[schema(value_type = serde_json::Value)]
    pub version: IgnoredField,
}

impl Default for NotificationSettingsForm {
    fn default() -> Self {
        let settings = NotificationSettings::default();
        Self {
            push: settings.push,
            preview: settings.preview,
            quiet: settings.quiet,
            paused_until: settings.paused_until,
            timezone: settings.timezone,
            mail: settings.mail,
            version: IgnoredField,
        }
    }
}

impl NotificationSettingsForm {
    fn check(&self) -> Result<(), PushError> {
        if self.timezone.parse::<Tz>().is_err() {
            let text = "`timezone` must be a time zone such as Europe/Berlin".to_owned();
            return Err(PushError::Invalid(text, "timezone"));
        }
        if let Some(quiet) = &self.quiet {
            for (time, param) in [(&quiet.from, "quiet.from"), (&quiet.to, "quiet.to")] {
                if parse_time(time).is_none() {
                    let text = format!("`{param}` must be a time such as 22:00");
                    return Err(PushError::Invalid(text, param));
                }
            }
            if quiet.days.is_empty() || quiet.days.len() > QuietDay::ALL.len() {
                let text = "`quiet.days` must have 1 to 7 days".to_owned();
                return Err(PushError::Invalid(text, "quiet.days"));
            }
        }
        if self
            .paused_until
            .is_some_and(|until| until > now() + PAUSE_MAX)
        {
            let text = "`paused_until` must be at most a year from now".to_owned();
            return Err(PushError::Invalid(text, "paused_until"));
        }
        Ok(())
    }
}

/// The row, or the result of a join without one.
#[derive(Debug, Clone, sqlx::FromRow)]
pub(super) struct SettingsRow {
    push: Option<bool>,
    preview: Option<NotificationPreview>,
    quiet: Option<Json<QuietHours>>,
    paused_until: Option<Timestamp>,
    timezone: Option<String>,
    mail: Option<MailNotifications>,
    version: Option<i64>,
}

impl From<SettingsRow> for NotificationSettings {
    fn from(row: SettingsRow) -> Self {
        let default = Self::default();
        Self {
            push: row.push.unwrap_or(default.push),
            preview: row.preview.unwrap_or(default.preview),
            quiet: row.quiet.map(|quiet| quiet.0),
            paused_until: row.paused_until,
            timezone: row.timezone.unwrap_or(default.timezone),
            mail: row.mail.unwrap_or(default.mail),
            version: row.version.unwrap_or(default.version),
        }
    }
}

/// The settings of an account.
///
/// # Errors
/// Only database errors.
pub async fn read(c: &mut Conn, user: UserId) -> Result<NotificationSettings, DbError> {
    let row: Option<SettingsRow> = c
        .q("select push, preview, quiet, paused_until, timezone, mail, version from notification_settings where user_id = $1")
        .bind(user)
        .opt()
        .await?;
    Ok(row.map(Into::into).unwrap_or_default())
}

/// Replaces the settings of an account.
///
/// # Errors
/// `Invalid`, `AddressNotConfirmed`, or `Stale` if they have another version.
pub async fn replace(
    c: &mut Conn,
    user: UserId,
    form: &NotificationSettingsForm,
    expected: Option<i64>,
) -> Result<NotificationSettings, PushError> {
    form.check()?;
    // Serializes changes of one account.
    c.q("update users set id = id where id = $1")
        .bind(user)
        .run()
        .await?;
    let stored = read(c, user).await?;
    if expected.is_some_and(|version| version != stored.version) {
        let current = serde_json::to_value(&stored).unwrap_or_default();
        return Err(PushError::Stale(Box::new(current)));
    }
    let turns_mail_on =
        form.mail == MailNotifications::Missed && stored.mail == MailNotifications::Off;
    if turns_mail_on && !users::get_user(c, user).await?.email_confirmed {
        return Err(PushError::AddressNotConfirmed);
    }
    let form = form.clone();
    let settings = NotificationSettings {
        push: form.push,
        preview: form.preview,
        quiet: form.quiet,
        paused_until: form.paused_until,
        timezone: form.timezone,
        mail: form.mail,
        version: stored.version + 1,
    };
    let at = now();
    c.q("insert into notification_settings (user_id, push, preview, quiet, paused_until, timezone, version, mail, mail_token) \
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9) on conflict (user_id) do update set push = excluded.push, preview = excluded.preview, \
         quiet = excluded.quiet, paused_until = excluded.paused_until, timezone = excluded.timezone, version = excluded.version, \
         mail = excluded.mail, mail_token = coalesce(notification_settings.mail_token, excluded.mail_token)")
        .bind(user)
        .bind(settings.push)
        .bind(settings.preview)
        .bind(settings.quiet.clone().map(Json))
        .bind(settings.paused_until)
        .bind(settings.timezone.clone())
        .bind(settings.version)
        .bind(settings.mail)
        .bind(new_token())
        .run()
        .await?;
    if settings.mail == MailNotifications::Missed {
        c.q("update notification_settings set mail_problem = null where user_id = $1")
            .bind(user)
            .run()
            .await?;
    }
    // The summary of what was held back so far follows at the new end.
    c.q("update notification_settings set next_due_at = $2 where user_id = $1 and held_since is not null")
        .bind(user)
        .bind(settings.blocked_until(at).unwrap_or(at))
        .run()
        .await?;
    Ok(settings)
}

/// Turns emails off with the secret of a link in one of them.
///
/// # Errors
/// `UnsubscribeNotFound`.
pub async fn unsubscribe(c: &mut Conn, token: &str) -> Result<(), PushError> {
    let known = c
        .q("update notification_settings set version = case when mail = 'off' then version else version + 1 end, mail = 'off' \
            where mail_token = $1")
        .bind(token.to_owned())
        .run()
        .await?;
    if known == 0 {
        return Err(PushError::UnsubscribeNotFound);
    }
    Ok(())
}

/// Secret of the links that turn emails off.
pub(super) async fn mail_token(c: &mut Conn, user: UserId) -> Result<Option<String>, DbError> {
    let row: Option<(Option<String>,)> = c
        .q("select mail_token from notification_settings where user_id = $1")
        .bind(user)
        .opt()
        .await?;
    Ok(row.and_then(|(token,)| token))
}

/// Answer of a mail server that refused an email, after which they are off.
///
/// # Errors
/// Only database errors.
pub async fn mail_problem(c: &mut Conn, user: UserId) -> Result<Option<String>, DbError> {
    let row: Option<(Option<String>,)> = c
        .q("select mail_problem from notification_settings where user_id = $1")
        .bind(user)
        .opt()
        .await?;
    Ok(row.and_then(|(problem,)| problem))
}

/// Notes that an item is held back until the end of quiet hours or a pause.
pub(super) async fn hold(
    c: &mut Conn,
    user: UserId,
    since: Timestamp,
    until: Timestamp,
) -> Result<(), DbError> {
    c.q("update notification_settings set held_since = coalesce(held_since, $2), next_due_at = coalesce(next_due_at, $3) \
         where user_id = $1")
        .bind(user)
        .bind(since)
        .bind(until)
        .run()
        .await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        let at = DateTime::parse_from_rfc3339(text).unwrap();
        Timestamp::within_years(at.to_utc()).unwrap()
    }

    fn settings(from: &str, to: &str, days: &[QuietDay], zone: &str) -> NotificationSettings {
        NotificationSettings {
            quiet: Some(QuietHours {
                from: from.to_owned(),
                to: to.to_owned(),
                days: days.to_vec(),
            }),
            timezone: zone.to_owned(),
            ..NotificationSettings::default()
        }
    }

    #[test]
    fn quiet_hours_end_on_the_next_day_and_follow_the_clock_of_the_zone() {
        use QuietDay::{Friday, Saturday};
        let nightly = settings("22:00", "07:00", QuietDay::ALL, "Europe/Berlin");
        for (now, end) in [
            ("2026-11-28T20:59:00Z", None),
            ("2026-11-28T21:00:00Z", Some("2026-11-29T06:00:00Z")),
            ("2026-11-29T05:59:00Z", Some("2026-11-29T06:00:00Z")),
            ("2026-11-29T06:00:00Z", None),
            // The clock is set back in this night.
            ("2026-10-24T20:30:00Z", Some("2026-10-25T06:00:00Z")),
            // And forward in this one.
            ("2026-03-28T21:30:00Z", Some("2026-03-29T05:00:00Z")),
        ] {
            assert_eq!(nightly.blocked_until(at(now)), end.map(at), "{now}");
        }
        // 2026-11-27 is a Friday. Both whole days are one span.
        let weekend = settings("00:00", "00:00", &[Friday, Saturday], "UTC");
        for (now, end) in [
            ("2026-11-26T23:59:00Z", None),
            ("2026-11-27T00:00:00Z", Some("2026-11-29T00:00:00Z")),
            ("2026-11-28T23:59:00Z", Some("2026-11-29T00:00:00Z")),
            ("2026-11-29T00:00:00Z", None),
        ] {
            assert_eq!(weekend.blocked_until(at(now)), end.map(at), "{now}");
        }
        // 02:30 does not exist in this night.
        let skipped = settings("02:30", "04:00", QuietDay::ALL, "Europe/Berlin");
        assert_eq!(skipped.blocked_until(at("2026-03-29T00:59:00Z")), None);
        assert_eq!(
            skipped.blocked_until(at("2026-03-29T01:00:00Z")),
            Some(at("2026-03-29T02:00:00Z"))
        );
    }

    #[test]
    fn a_pause_is_followed_by_the_quiet_hours_in_which_it_ends() {
        let mut both = settings("22:00", "07:00", QuietDay::ALL, "UTC");
        both.paused_until = Some(at("2026-11-28T23:00:00Z"));
        assert_eq!(
            both.blocked_until(at("2026-11-28T12:00:00Z")),
            Some(at("2026-11-29T07:00:00Z"))
        );
        both.quiet = None;
        assert_eq!(
            both.blocked_until(at("2026-11-28T12:00:00Z")),
            both.paused_until
        );
        assert_eq!(both.blocked_until(at("2026-11-28T23:00:00Z")), None);
    }
}
