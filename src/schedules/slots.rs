//! Slots of a schedule: the times of a cron expression in a time zone.
//!
//! Unless the hour field is `*`, the expression matches local times, and the slot of a local time is the first instant at which the
//! clock in the time zone shows this time or a later one. A time that occurs twice has its slot at the first occurrence; a time that
//! is skipped has its slot at the first instant after the gap. If the hour field is `*`, every instant whose local time matches is a
//! slot.

use chrono::{DateTime, NaiveDate, NaiveDateTime, Offset, TimeDelta, TimeZone, Utc};
use chrono_tz::Tz;

use super::{cron::Cron, error::ScheduleError, row::APART_MINUTES_MIN};
use crate::time::{Timestamp, first_instant, instant, instant_of};

/// Maximum number of future slots whose intervals are checked, and the number of years after which later slots are ignored.
const CHECKED_SLOTS: usize = 1_000;
const CHECKED_YEARS: i64 = 50;
/// Time within which an offset is assumed to change at most once.
const NEAR: TimeDelta = TimeDelta::days(2);

/// A cron expression in a time zone.
#[derive(Debug, Clone)]
pub struct Slots {
    cron: Cron,
    zone: Tz,
}

/// A slot in a preview.
#[derive(Debug, serde::Serialize, utoipa::ToSchema)]
pub struct PreviewedSlot {
    pub at: Timestamp,
    /// The local time with its offset, such as `2026-11-24T09:00:00+01:00`.
    pub local: String,
}

/// Converts a timestamp to the type with which slots are calculated.
pub(super) fn moment(at: Timestamp) -> DateTime<Utc> {
    DateTime::from_timestamp_millis(at.unix_ms()).unwrap_or_default()
}

impl Slots {
    /// # Errors
    /// `Cron` or `UnknownZone`.
    pub fn parse(cron: &str, zone: &str) -> Result<Self, ScheduleError> {
        let cron = Cron::parse(cron)?;
        let zone: Tz = zone
            .parse()
            .map_err(|_| ScheduleError::UnknownZone(zone.chars().take(64).collect()))?;
        Ok(Self { cron, zone })
    }

    fn offset(&self, at: DateTime<Utc>) -> TimeDelta {
        let offset = self.zone.offset_from_utc_datetime(&at.naive_utc()).fix();
        TimeDelta::seconds(offset.local_minus_utc().into())
    }

    fn local(&self, at: DateTime<Utc>) -> NaiveDateTime {
        at.naive_utc() + self.offset(at)
    }

    /// Local date in the time zone.
    pub(super) fn day(&self, time: Timestamp) -> NaiveDate {
        self.local(moment(time)).date()
    }

    /// First slot after a time; `None` if there is none within five years.
    pub fn next(&self, after: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let minute = instant(after.timestamp().div_euclid(60) * 60);
        if self.cron.is_any_hour() {
            return self.next_in_real_time(minute + TimeDelta::minutes(1));
        }
        let mut local = self.local(minute);
        loop {
            local = self.cron.next(local)?;
            let slot = instant_of(self.zone, local);
            if slot > after {
                return Some(slot);
            }
            local += TimeDelta::minutes(1);
        }
    }

    /// Like `next`, but for a `Timestamp`.
    pub fn next_after(&self, time: Timestamp) -> Option<Timestamp> {
        self.next(moment(time)).and_then(Timestamp::within_years)
    }

    /// First instant, at or after a full minute, whose local time matches.
    fn next_in_real_time(&self, mut at: DateTime<Utc>) -> Option<DateTime<Utc>> {
        loop {
            let offset = self.offset(at);
            let slot = self.cron.next(at.naive_utc() + offset)?.and_utc() - offset;
            if slot - at > NEAR * 2 {
                // The offset can change before the slot, so the search continues closer to it.
                at = slot - NEAR;
            } else if self.offset(slot) == offset {
                return Some(slot);
            } else {
                let (low, high) = (at.timestamp(), slot.timestamp());
                at = first_instant(low, high, |at| self.offset(at) != offset);
            }
        }
    }

    /// Slots after a time.
    pub fn after(&self, time: DateTime<Utc>) -> impl Iterator<Item = DateTime<Utc>> {
        std::iter::successors(self.next(time), move |slot| self.next(*slot))
    }

    /// Checks the intervals between the next slots.
    ///
    /// # Errors
    /// `NeverRuns`, or `TooFrequent` if two consecutive slots are less than `apart_minutes` apart.
    pub fn check(&self, now: DateTime<Utc>, apart_minutes: i64) -> Result<(), ScheduleError> {
        let mut before: Option<DateTime<Utc>> = None;
        let end = now + TimeDelta::days(CHECKED_YEARS * 365);
        for slot in self
            .after(now)
            .take(CHECKED_SLOTS)
            .take_while(|slot| *slot < end)
        {
            if before.is_some_and(|before| slot - before < TimeDelta::minutes(apart_minutes)) {
                return Err(ScheduleError::TooFrequent(apart_minutes));
            }
            before = Some(slot);
        }
        before.map(|_| ()).ok_or(ScheduleError::NeverRuns)
    }

    /// The next `count` slots.
    ///
    /// # Errors
    /// Same as `check`, with the minimum interval for agents.
    pub fn preview(
        &self,
        now: Timestamp,
        count: usize,
    ) -> Result<Vec<PreviewedSlot>, ScheduleError> {
        let now = moment(now);
        self.check(now, APART_MINUTES_MIN)?;
        let slots = self.after(now).take(count);
        let slots = slots.filter_map(|slot| {
            Some(PreviewedSlot {
                at: Timestamp::within_years(slot)?,
                local: slot.with_timezone(&self.zone).to_rfc3339(),
            })
        });
        Ok(slots.collect())
    }
}

#[cfg(test)]
mod tests {
    use chrono::{Datelike, Timelike};

    use super::*;

    fn slots(cron: &str, zone: &str) -> Slots {
        Slots::parse(cron, zone).unwrap()
    }

    fn utc(text: &str) -> DateTime<Utc> {
        let local = NaiveDateTime::parse_from_str(text, "%Y-%m-%d %H:%M");
        local.unwrap().and_utc()
    }

    /// Slots between two times, as strings.
    fn between(cron: &str, zone: &str, from: &str, to: &str) -> Vec<String> {
        let slots = slots(cron, zone);
        let found = slots
            .after(utc(from) - TimeDelta::seconds(1))
            .take_while(|slot| *slot < utc(to));
        found
            .map(|slot| slot.format("%Y-%m-%d %H:%M").to_string())
            .collect()
    }

    #[test]
    fn slots_are_local_times_except_if_every_hour_matches() {
        for (cron, zone, from, to, expected) in [
            (
                "30 2 * * *",
                "Europe/Berlin",
                "2027-03-27 23:00",
                "2027-03-28 22:00",
                &["2027-03-28 01:00"][..],
            ),
            (
                "30 2 * * *",
                "Europe/Berlin",
                "2027-10-30 22:00",
                "2027-10-31 23:00",
                &["2027-10-31 00:30"],
            ),
            (
                "*/30 * * * *",
                "Europe/Berlin",
                "2027-10-31 00:00",
                "2027-10-31 02:00",
                &[
                    "2027-10-31 00:00",
                    "2027-10-31 00:30",
                    "2027-10-31 01:00",
                    "2027-10-31 01:30",
                ],
            ),
            (
                "30 1 * * *",
                "America/New_York",
                "2027-11-07 04:00",
                "2027-11-08 05:00",
                &["2027-11-07 05:30"],
            ),
            (
                "15 2 * * *",
                "Australia/Lord_Howe",
                "2027-10-02 13:30",
                "2027-10-03 13:00",
                &["2027-10-02 15:30"],
            ),
            (
                "45 1 * * *",
                "Australia/Lord_Howe",
                "2027-04-03 13:00",
                "2027-04-04 13:30",
                &["2027-04-03 14:45"],
            ),
            (
                "0 0 * * 5",
                "Africa/Cairo",
                "2027-04-29 12:00",
                "2027-04-30 12:00",
                &["2027-04-29 22:00"],
            ),
            // Several skipped times and the first time after the gap share a single slot.
            (
                "0,15,30,45 2,3 * * *",
                "Europe/Berlin",
                "2027-03-28 00:00",
                "2027-03-28 02:00",
                &[
                    "2027-03-28 01:00",
                    "2027-03-28 01:15",
                    "2027-03-28 01:30",
                    "2027-03-28 01:45",
                ],
            ),
        ] {
            assert_eq!(between(cron, zone, from, to), expected, "{cron} {zone}");
        }
    }

    #[test]
    fn slots_that_are_too_frequent_or_never_come_are_refused() {
        let now = utc("2026-11-23 10:00");
        let check = |cron: &str, apart| slots(cron, "Europe/Berlin").check(now, apart);
        for (cron, apart) in [
            ("* * * * *", 5),
            ("*/4 * * * *", 5),
            ("0,58 * * * *", 5),
            ("0,2 9 1 1 *", 5),
            ("*/10 * * * *", 15),
        ] {
            let found = check(cron, apart);
            assert!(
                matches!(found, Err(ScheduleError::TooFrequent(_))),
                "{cron}"
            );
        }
        for (cron, apart) in [
            ("*/5 * * * *", 5),
            ("*/15 * * * *", 15),
            ("0 0 29 2 *", 15),
            ("30 2 * * *", 15),
        ] {
            assert!(check(cron, apart).is_ok(), "{cron}");
        }
        assert!(matches!(
            check("0 0 31 2 *", 5),
            Err(ScheduleError::NeverRuns)
        ));
        assert!(matches!(
            Slots::parse("0 0 * * *", "Mars/Olympus"),
            Err(ScheduleError::UnknownZone(_))
        ));
    }

    #[test]
    fn a_preview_has_local_times_with_their_offsets() {
        let now = Timestamp::within_years(utc("2027-03-27 00:00")).unwrap();
        let found = slots("0 9 * * *", "Europe/Berlin").preview(now, 3).unwrap();
        let local: Vec<&str> = found.iter().map(|slot| slot.local.as_str()).collect();
        assert_eq!(
            local,
            [
                "2027-03-27T09:00:00+01:00",
                "2027-03-28T09:00:00+02:00",
                "2027-03-29T09:00:00+02:00"
            ]
        );
    }

    /// Changes of a zone's offset from 2026 to 2036.
    fn changes(of: &Slots) -> Vec<DateTime<Utc>> {
        let days: Vec<DateTime<Utc>> = (0..3_653)
            .step_by(7)
            .map(|n| utc("2026-01-01 00:00") + TimeDelta::days(n))
            .collect();
        let weeks = days
            .windows(2)
            .filter(|week| of.offset(week[0]) != of.offset(week[1]));
        let changed = weeks.map(|week| {
            let offset = of.offset(week[0]);
            let (low, high) = (week[0].timestamp(), week[1].timestamp());
            first_instant(low, high, |at| of.offset(at) != offset)
        });
        changed.collect()
    }

    /// Slots found by checking every minute.
    fn walked(of: &Slots, from: DateTime<Utc>, minutes: i64) -> Vec<DateTime<Utc>> {
        let matches = |local: NaiveDateTime| of.cron.next(local) == Some(local);
        // The latest local time that the clock has shown.
        let mut shown = of.local(from - TimeDelta::minutes(1));
        let mut found = Vec::new();
        for n in 0..minutes {
            let at = from + TimeDelta::minutes(n);
            let local = of.local(at);
            if of.cron.is_any_hour() {
                found.extend(matches(local).then_some(at));
                continue;
            }
            let mut is_slot = false;
            while shown < local {
                shown += TimeDelta::minutes(1);
                is_slot |= matches(shown);
            }
            found.extend(is_slot.then_some(at));
        }
        found
    }

    #[test]
    fn no_slot_is_lost_or_doubled_where_a_clock_changes() {
        let crons = [
            "30 2 * * *",
            "*/20 0-3,23 * * *",
            "*/30 * * * *",
            "0 0 * * 0,5",
        ];
        for zone in chrono_tz::TZ_VARIANTS {
            let found: Vec<Slots> = crons.iter().map(|cron| slots(cron, zone.name())).collect();
            // Rules repeat, so it is enough to check a few changes of each zone.
            for change in changes(&found[0]).into_iter().take(3) {
                let from = change - TimeDelta::hours(4);
                for slots in &found {
                    let expected = walked(slots, from, 8 * 60);
                    let next: Vec<DateTime<Utc>> = slots
                        .after(from - TimeDelta::seconds(1))
                        .take_while(|slot| *slot < from + TimeDelta::hours(8))
                        .collect();
                    assert_eq!(next, expected, "{} {:?} {change}", zone.name(), slots.cron);
                }
            }
        }
    }

    #[test]
    fn slots_of_every_zone_increase_over_ten_years() {
        let (start, end) = (utc("2026-01-01 00:00"), utc("2036-01-01 00:00"));
        for zone in chrono_tz::TZ_VARIANTS {
            let slots = slots("30 2 * * 0", zone.name());
            let mut before = start;
            let mut count = 0;
            for slot in slots.after(start).take_while(|slot| *slot < end) {
                assert!(slot > before, "{} {slot}", zone.name());
                let days = (slot - before).num_days();
                assert!(
                    count == 0 || (6..=8).contains(&days),
                    "{} {slot}",
                    zone.name()
                );
                let local = slots.local(slot);
                let is_shifted = (local.hour(), local.minute()) != (2, 30);
                assert!(local.weekday().num_days_from_sunday() == 0 || is_shifted);
                before = slot;
                count += 1;
            }
            assert!((521..=523).contains(&count), "{} {count}", zone.name());
        }
    }
}
