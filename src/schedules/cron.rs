//! Cron expressions with five fields: minutes, hours, days of the month, months, and days of the week.
//!
//! A field is `*` or a list of numbers, three-letter English names, ranges, and steps (`*/n`, `a-b/n`). Nothing else is accepted.

use chrono::{Datelike, Days, Months, NaiveDate, NaiveDateTime, Timelike};

/// Maximum length of an expression in bytes.
const CRON_BYTES_MAX: usize = 200;
/// Number of days that are searched. An expression that matches no time within five years counts as never matching.
const SEARCHED_DAYS_MAX: usize = 5 * 366;
const MONTHS: [&str; 12] = [
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
/// Second value for Sunday, so that a range can end on a Sunday.
const LAST_SUNDAY: u32 = 7;

/// Values of a field: bit `n` is set if `n` matches.
type Mask = u64;

/// A parsed expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cron {
    minutes: Mask,
    hours: Mask,
    days: Mask,
    months: Mask,
    weekdays: Mask,
    /// True if the hour field is `*`.
    is_any_hour: bool,
    /// True if both day fields are restricted, so that either one can match.
    is_either_day: bool,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum CronError {
    #[error(
        "a cron expression has five fields (minute, hour, day of the month, month, day of the week), such as `30 9 * * MON-FRI`"
    )]
    Fields,
    #[error(
        "the {name} `{text}` is not valid: use numbers from {min} to {max}, `*`, lists, ranges, and steps such as `*/2`"
    )]
    Field {
        name: &'static str,
        text: String,
        min: u32,
        max: u32,
    },
}

/// Range and names of a field.
struct Field {
    name: &'static str,
    min: u32,
    max: u32,
    /// Names of the values, starting at `min`.
    names: &'static [&'static str],
}

const FIELDS: [Field; 5] = [
    Field {
        name: "minute",
        min: 0,
        max: 59,
        names: &[],
    },
    Field {
        name: "hour",
        min: 0,
        max: 23,
        names: &[],
    },
    Field {
        name: "day of the month",
        min: 1,
        max: 31,
        names: &[],
    },
    Field {
        name: "month",
        min: 1,
        max: 12,
        names: &MONTHS,
    },
    Field {
        name: "day of the week",
        min: 0,
        max: LAST_SUNDAY,
        names: &WEEKDAYS,
    },
];

impl Field {
    fn is_weekday(&self) -> bool {
        self.max == LAST_SUNDAY
    }

    fn parse(&self, text: &str) -> Result<Mask, CronError> {
        let mut mask = 0;
        for item in text.split(',') {
            mask |= self.item(item).ok_or_else(|| CronError::Field {
                name: self.name,
                text: text.to_owned(),
                min: self.min,
                max: self.max,
            })?;
        }
        if self.is_weekday() && has(mask, LAST_SUNDAY) {
            mask |= 1;
        }
        Ok(mask)
    }

    /// Parses one element of a list.
    fn item(&self, text: &str) -> Option<Mask> {
        let (range, step) = match text.split_once('/') {
            Some((range, step)) => (range, number(step).filter(|step| *step > 0)?),
            None => (text, 1),
        };
        let (first, last) = match range.split_once('-') {
            _ if range == "*" => (self.min, self.max),
            Some((first, last)) => {
                let (first, last) = (self.value(first)?, self.value(last)?);
                let is_sunday = self.is_weekday() && last == 0 && first > 0;
                (first, if is_sunday { LAST_SUNDAY } else { last })
            }
            // A step requires a range.
            None if step == 1 && !text.contains('/') => {
                let value = self.value(range)?;
                (value, value)
            }
            None => return None,
        };
        if first > last {
            return None;
        }
        let step = usize::try_from(step).ok()?;
        Some(
            (first..=last)
                .step_by(step)
                .fold(0, |mask, n| mask | (1 << n)),
        )
    }

    fn value(&self, text: &str) -> Option<u32> {
        let named = self
            .names
            .iter()
            .position(|name| name.eq_ignore_ascii_case(text));
        let value = match named {
            Some(at) => self.min + u32::try_from(at).ok()?,
            None => number(text)?,
        };
        (self.min..=self.max).contains(&value).then_some(value)
    }
}

/// Parses a number of one or two digits.
fn number(text: &str) -> Option<u32> {
    let is_number = matches!(text.len(), 1 | 2) && text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

fn has(mask: Mask, value: u32) -> bool {
    (mask >> value) & 1 == 1
}

impl Cron {
    pub(super) fn parse(text: &str) -> Result<Self, CronError> {
        if text.len() > CRON_BYTES_MAX {
            return Err(CronError::Fields);
        }
        let fields: Vec<&str> = text.split_ascii_whitespace().collect();
        let Ok(fields) = <[&str; 5]>::try_from(fields) else {
            return Err(CronError::Fields);
        };
        let mut masks: [Mask; 5] = [0; 5];
        for ((mask, field), text) in masks.iter_mut().zip(&FIELDS).zip(fields) {
            *mask = field.parse(text)?;
        }
        let [minutes, hours, days, months, weekdays] = masks;
        Ok(Self {
            minutes,
            hours,
            days,
            months,
            weekdays,
            is_any_hour: fields[1] == "*",
            is_either_day: fields[2] != "*" && fields[4] != "*",
        })
    }

    pub(super) fn is_any_hour(&self) -> bool {
        self.is_any_hour
    }

    fn is_on(&self, day: NaiveDate) -> bool {
        let in_month = has(self.days, day.day());
        let in_week = has(self.weekdays, day.weekday().num_days_from_sunday());
        if self.is_either_day {
            in_month || in_week
        } else {
            in_month && in_week
        }
    }

    /// First matching time of a day, at or after the given hour and minute.
    fn time_from(&self, hour: u32, minute: u32) -> Option<(u32, u32)> {
        (hour..24).filter(|h| has(self.hours, *h)).find_map(|h| {
            let from = if h == hour { minute } else { 0 };
            let left = self.minutes >> from;
            (left != 0).then(|| (h, from + left.trailing_zeros()))
        })
    }

    /// First matching local time at or after a full minute; `None` if there is none within five years.
    pub(super) fn next(&self, from: NaiveDateTime) -> Option<NaiveDateTime> {
        let (mut day, mut time) = (from.date(), (from.hour(), from.minute()));
        for _ in 0..SEARCHED_DAYS_MAX {
            if !has(self.months, day.month()) {
                day = day.with_day(1)?.checked_add_months(Months::new(1))?;
                time = (0, 0);
                continue;
            }
            if self.is_on(day)
                && let Some((hour, minute)) = self.time_from(time.0, time.1)
            {
                return day.and_hms_opt(hour, minute, 0);
            }
            day = day.checked_add_days(Days::new(1))?;
            time = (0, 0);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn local(text: &str) -> NaiveDateTime {
        NaiveDateTime::parse_from_str(text, "%Y-%m-%d %H:%M").unwrap()
    }

    #[test]
    fn lists_ranges_steps_and_names_match_the_next_local_time() {
        for (cron, from, next) in [
            ("* * * * *", "2026-11-23 10:07", "2026-11-23 10:07"),
            ("*/15 * * * *", "2026-11-23 10:07", "2026-11-23 10:15"),
            ("5,35 8-10/2 * * *", "2026-11-23 08:36", "2026-11-23 10:05"),
            ("0 9 * * mon-fri", "2026-11-28 00:00", "2026-11-30 09:00"),
            ("0 9 * * FRI-SUN", "2026-11-23 00:00", "2026-11-27 09:00"),
            ("0 9 * * 0", "2026-11-23 00:00", "2026-11-29 09:00"),
            ("0 9 * * 7", "2026-11-23 00:00", "2026-11-29 09:00"),
            ("0 9 * * 5-7", "2026-11-29 00:00", "2026-11-29 09:00"),
            ("0 0 1 JAN *", "2026-11-23 00:00", "2027-01-01 00:00"),
            ("0 0 29 2 *", "2026-11-23 00:00", "2028-02-29 00:00"),
            ("59 23 31 12 *", "2026-11-23 00:00", "2026-12-31 23:59"),
            // Either day field matches if both are restricted.
            ("0 0 13 * 5", "2026-11-23 00:00", "2026-11-27 00:00"),
            ("0 0 13 * 5", "2026-12-12 00:00", "2026-12-13 00:00"),
            ("0 0 13 * *", "2026-11-23 00:00", "2026-12-13 00:00"),
            ("  0\t0  * * 5 ", "2026-11-23 00:00", "2026-11-27 00:00"),
        ] {
            let found = Cron::parse(cron).unwrap().next(local(from));
            assert_eq!(found, Some(local(next)), "{cron} after {from}");
        }
    }

    #[test]
    fn days_that_do_not_exist_never_match() {
        for cron in ["0 0 31 2 *", "0 0 31 4,6,9,11 *", "0 0 30 FEB *"] {
            let found = Cron::parse(cron).unwrap().next(local("2026-11-23 00:00"));
            assert_eq!(found, None, "{cron}");
        }
    }

    #[test]
    fn everything_else_is_refused() {
        for cron in [
            "",
            "* * * *",
            "* * * * * *",
            "@daily",
            "60 * * * *",
            "* 24 * * *",
            "* * 0 * *",
            "* * 32 * *",
            "* * * 0 *",
            "* * * 13 *",
            "* * * * 8",
            "? * * * *",
            "0 0 L * *",
            "0 0 15W * *",
            "0 0 * * 5#2",
            "0 0 * * 5L",
            "*/0 * * * *",
            "5/10 * * * *",
            "5/1 * * * *",
            "9-5 * * * *",
            "1,,2 * * * *",
            ",1 * * * *",
            "1- * * * *",
            "-1 * * * *",
            "+1 * * * *",
            "001 * * * *",
            "*-5 * * * *",
            "1-2-3 * * * *",
            "*/5/5 * * * *",
            "* * * monday *",
            "* * * * mondays",
            "٣ * * * *",
            "~ * * * *",
        ] {
            assert!(Cron::parse(cron).is_err(), "{cron}");
        }
        let long = format!("0{} * * * *", ",0".repeat(200));
        assert_eq!(Cron::parse(&long), Err(CronError::Fields));
    }
}
