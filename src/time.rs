//! Points in time, as stored by both engines (microseconds) and returned to clients (milliseconds).

use std::{
    ops::{Add, Sub},
    time::Duration,
};

use chrono::{
    DateTime, Datelike, DurationRound, NaiveDate, NaiveDateTime, SecondsFormat, SubsecRound,
    TimeDelta, TimeZone, Utc, offset::MappedLocalTime,
};
use chrono_tz::Tz;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Offset of the clock: zero, except in tests, which set it with `OPENVIBE_CLOCK_AHEAD_MS` in debug builds.
#[cfg(test_hooks)]
fn clock_error() -> TimeDelta {
    static AHEAD: std::sync::LazyLock<TimeDelta> = std::sync::LazyLock::new(|| {
        let ms = std::env::var("OPENVIBE_CLOCK_AHEAD_MS").ok();
        let ms = ms.and_then(|ms| ms.parse().ok());
        ms.map_or(TimeDelta::zero(), TimeDelta::milliseconds)
    });
    *AHEAD
}

#[cfg(not(test_hooks))]
fn clock_error() -> TimeDelta {
    TimeDelta::zero()
}

/// Upper bound for the UTC offset of any time zone, in seconds.
const OFFSET_MAX: i64 = 16 * 3_600;

/// The instant at a number of seconds since 1970.
pub fn instant(seconds: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(seconds, 0).unwrap_or_default()
}

/// Finds the first instant after `low` at which `is_past` returns true. `is_past` must return true at `high`.
pub fn first_instant(
    mut low: i64,
    mut high: i64,
    is_past: impl Fn(DateTime<Utc>) -> bool,
) -> DateTime<Utc> {
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if is_past(instant(middle)) {
            high = middle;
        } else {
            low = middle;
        }
    }
    instant(high)
}

/// First instant at which the clock in a time zone shows this local time or a later one.
pub fn instant_of(zone: Tz, local: NaiveDateTime) -> DateTime<Utc> {
    match zone.from_local_datetime(&local) {
        MappedLocalTime::Single(at) => at.to_utc(),
        MappedLocalTime::Ambiguous(one, other) => one.to_utc().min(other.to_utc()),
        MappedLocalTime::None => {
            let about = local.and_utc().timestamp();
            let (low, high) = (about - OFFSET_MAX, about + OFFSET_MAX);
            first_instant(low, high, |at| {
                at.with_timezone(&zone).naive_local() >= local
            })
        }
    }
}

/// A point in time in UTC, written in RFC 3339 format with three decimals and `Z`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, sqlx::Type)]
#[sqlx(transparent)]
pub struct Timestamp(DateTime<Utc>);

impl Timestamp {
    pub const EPOCH: Self = Self(DateTime::UNIX_EPOCH);

    /// The current time, truncated to the precision of both engines.
    pub fn now() -> Self {
        Self((Utc::now() + clock_error()).trunc_subsecs(6))
    }

    pub fn to_text(self) -> String {
        self.0.to_rfc3339_opts(SecondsFormat::Millis, true)
    }

    /// Returns `None` outside of the years 1 to 9999, which both engines compare correctly.
    pub fn within_years(moment: DateTime<Utc>) -> Option<Self> {
        (1..=9999)
            .contains(&moment.year())
            .then(|| Self(moment.trunc_subsecs(6)))
    }

    /// The time rounded up to a minute, such as `14:35 UTC`. Includes the date unless the time is on the same day as `reader`.
    pub fn to_minute_text(self, reader: Self) -> String {
        let minute = TimeDelta::minutes(1);
        let begun = self.0.duration_trunc(minute).unwrap_or(self.0);
        let at = if begun < self.0 {
            begun + minute
        } else {
            begun
        };
        let format = if at.date_naive() == reader.day() {
            "%H:%M UTC"
        } else {
            "%Y-%m-%d %H:%M UTC"
        };
        at.format(format).to_string()
    }

    /// The day in UTC, such as `Nov 27`.
    pub fn to_short_day_text(self) -> String {
        self.0.format("%b %-d").to_string()
    }

    /// Whole milliseconds since the Unix epoch.
    pub fn unix_ms(self) -> i64 {
        self.0.timestamp_millis()
    }

    /// Whole seconds since the Unix epoch.
    pub fn unix_s(self) -> i64 {
        self.0.timestamp()
    }

    /// The point in time as a `chrono` type.
    pub fn datetime(self) -> DateTime<Utc> {
        self.0
    }

    /// The date in UTC.
    pub fn day(self) -> NaiveDate {
        self.0.date_naive()
    }

    /// The date in UTC for display, such as `Friday, November 20, 2026`.
    pub fn to_date_text(self) -> String {
        self.0.format("%A, %B %-d, %Y").to_string()
    }

    /// The month in UTC for display, such as `November`.
    pub fn to_month_text(self) -> String {
        self.0.format("%B").to_string()
    }

    /// The day in UTC for display, without the year, such as `November 22`.
    pub fn to_day_text(self) -> String {
        self.0.format("%B %-d").to_string()
    }

    /// The beginning of the day in UTC.
    #[must_use]
    pub fn day_start(self) -> Self {
        Self(self.0.duration_trunc(TimeDelta::days(1)).unwrap_or(self.0))
    }

    /// The time of day in UTC, such as `10:24`.
    pub fn to_clock_text(self) -> String {
        self.0.format("%H:%M").to_string()
    }

    /// The duration from `earlier` to this time; zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        (self.0 - earlier.0).to_std().unwrap_or_default()
    }
}

fn delta(duration: Duration) -> TimeDelta {
    TimeDelta::from_std(duration).unwrap_or(TimeDelta::days(36_500))
}

impl Add<Duration> for Timestamp {
    type Output = Self;
    fn add(self, duration: Duration) -> Self {
        Self((self.0 + delta(duration)).trunc_subsecs(6))
    }
}

impl Sub<Duration> for Timestamp {
    type Output = Self;
    fn sub(self, duration: Duration) -> Self {
        Self((self.0 - delta(duration)).trunc_subsecs(6))
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&self.to_text())
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        DateTime::<Utc>::deserialize(d).map(Self)
    }
}

impl utoipa::PartialSchema for Timestamp {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, SchemaFormat, Type};
        ObjectBuilder::new()
            .schema_type(Type::String)
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)))
            .into()
    }
}

impl utoipa::ToSchema for Timestamp {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timestamp_always_has_three_decimals() {
        let whole: Timestamp = serde_json::from_str("\"2026-01-02T03:04:05Z\"").unwrap();
        assert_eq!(whole.to_text(), "2026-01-02T03:04:05.000Z");
        assert_eq!(
            (whole + Duration::from_micros(1999)).to_text(),
            "2026-01-02T03:04:05.001Z"
        );
    }
}
