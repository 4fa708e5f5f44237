//! Checks whether the values and dates of a draft occur in the conversation, and whether they were corrected later.

use std::collections::BTreeSet;

use chrono::{Datelike, Days, NaiveDate};
use openvibe_extract::{Language, Superseded, Value, ValueKind, bare, groups, values, whole};

use super::{
    evidence::Evidence,
    fault::{Doubt, Kind},
    field::DraftField,
    line::{Said, plain},
};

/// Largest number that is not checked when written as a word.
const COUNTED_MAX: u32 = 12;
/// Maximum number of days between a due date and a date with the same weekday in the source text.
const NEAR_DAYS: i64 = 14;
/// Maximum number of message dates relative to which the dates in a text are interpreted.
const DAYS_MAX: usize = 8;
/// Maximum number of days between the last message and a due date; a later date is an error.
const DUE_DAYS_MAX: u64 = 3_660;

impl Evidence<'_> {
    /// The first value in a field that its source text does not contain.
    pub(super) fn unknown_value(&self, field: &DraftField) -> Option<String> {
        if let Some(name) = self.unknown_name(&field.text) {
            return Some(name);
        }
        let mut terms = self.words(&field.text);
        terms.retain(|word| !word.contains(|c: char| c.is_ascii_digit()));
        // A value can also come from another line about the same subject.
        let is_about = |line: &Said<'_>| terms.iter().any(|word| line.text.contains(word));
        let lines = self.lines.iter().enumerate();
        let lines: Vec<&Said<'_>> = lines
            .filter(|(_, line)| line.doubt != Some(Doubt::Machine))
            .filter(|(at, line)| field.is_from(*at) || is_about(line))
            .map(|(_, line)| line)
            .collect();
        let days: BTreeSet<NaiveDate> = lines.iter().map(|line| line.day).collect();
        let days: Vec<NaiveDate> = days.into_iter().rev().take(DAYS_MAX).collect();
        let mut unknown: Vec<String> = Vec::new();
        for day in &days {
            for value in values(&field.text, self.language, *day) {
                if self.is_said(&value, &lines, &days) {
                    unknown.retain(|other| *other != value.text);
                } else {
                    unknown.push(value.text);
                }
            }
        }
        unknown.into_iter().next()
    }

    /// The first name that does not occur in the conversation. Returns `None` for German, in which any noun could be a name, and for
    /// unsupported languages.
    fn unknown_name(&self, text: &str) -> Option<String> {
        let is_capital = |word: &&str| word.starts_with(char::is_uppercase);
        let words: Vec<&str> = text.split_whitespace().collect();
        let is_title = words.iter().filter(|word| is_capital(word)).count() * 2 > words.len();
        if is_title || matches!(self.language, Language::German | Language::Other) {
            return None;
        }
        let values = values(text, self.language, NaiveDate::default()).into_iter();
        let values: String = values.map(|value| value.text).collect();
        let pairs = words.windows(2);
        let pairs = pairs.filter(|pair| !pair[0].ends_with(['.', '!', '?', ':']));
        let mut names = pairs
            .map(|pair| pair[1].trim_matches(|c: char| !c.is_alphanumeric()))
            .filter(is_capital)
            .filter(|word| !values.contains(word));
        names.find(|name| !self.is_known(name)).map(str::to_owned)
    }

    fn is_said(&self, value: &Value, lines: &[&Said<'_>], days: &[NaiveDate]) -> bool {
        let groups: Vec<String> = groups(&value.text).collect();
        let is_count = |count: u32| count <= COUNTED_MAX;
        let is_counted = value.kind == ValueKind::Amount
            && groups.is_empty()
            && value.key.parse().is_ok_and(is_count);
        let written = plain(&value.text);
        // Abbreviations such as "Sa" and "fri" also count as days.
        let is_short = |word: &str| {
            word.len() > 1 && written.trim().starts_with(word) && !self.words(word).is_empty()
        };
        let is_same = |other: &&Value| {
            other.kind == value.kind && other.key == value.key
                || other.day.is_some() && other.day == value.day
        };
        let has_value = |line: &&Said<'_>| {
            let has_part = match value.kind {
                ValueKind::Identifier => line.text.contains(written.trim()),
                ValueKind::Date if groups.is_empty() => line.text.split_whitespace().any(is_short),
                _ => false,
            };
            has_part || line.text.contains(&written) || line.values.iter().any(is_same)
        };
        let is_year = |number: &str| days.iter().any(|day| day.year().to_string() == number);
        let has_number = |number: &str| lines.iter().any(|line| line.numbers.contains(number));
        let whole = whole(&value.text).concat();
        let is_part = |group: &String| is_year(group) || has_number(group);
        is_counted
            || lines.iter().any(has_value)
            || !whole.is_empty() && (is_year(&whole) || has_number(&bare(&whole)))
            || groups.len() > 1 && groups.iter().all(is_part)
    }

    /// Returns a value that a field states although it was corrected. This is allowed if the field also states the correction, or if
    /// a source after the correction uses the same words for something else.
    pub(super) fn superseded_in(&self, field: &DraftField) -> Option<&Superseded> {
        let text = plain(&field.text);
        self.superseded.iter().copied().find(|value| {
            let (old, new) = (plain(&value.old), plain(&value.new));
            let states_old = |text: &str| text.contains(&old) && !text.contains(&new);
            let is_said_again = |at: &usize| {
                let line = &self.lines[*at];
                *at > value.line && line.doubt.is_none() && states_old(&line.text)
            };
            old.len() > 2 && states_old(&text) && !field.sources.iter().any(is_said_again)
        })
    }

    /// Reason why the due date of an action item is wrong.
    pub(super) fn due_fault(&self, field: &DraftField) -> Option<Kind> {
        let due = field.due?;
        let days = || self.lines.iter().map(|line| line.day);
        let latest = |day: NaiveDate| day.checked_add_days(Days::new(DUE_DAYS_MAX));
        let last = days().max().and_then(latest);
        if days().min().is_none_or(|first| due < first) || Some(due) > last {
            Some(Kind::DueOutOfRange(due))
        } else if let Some(value) = self.superseded_due(due, &field.sources) {
            let (old, new) = (value.old.clone(), value.new.clone());
            Some(Kind::DueSuperseded { old, new })
        } else {
            (!self.is_dated(due, field)).then_some(Kind::DueUnfounded(due))
        }
    }

    /// Returns the value whose old day is the due date, although it was later corrected to another day.
    fn superseded_due(&self, due: NaiveDate, sources: &[usize]) -> Option<&Superseded> {
        let day_of = |text: &str, line: usize| {
            let values = values(text, self.language, self.lines.get(line)?.day);
            values.into_iter().find_map(|value| value.day)
        };
        self.superseded.iter().copied().find(|value| {
            let is_said_again =
                |line: &usize| *line > value.line && names_day(&self.lines[*line], due);
            day_of(&value.old, value.line) == Some(due)
                && day_of(&value.new, value.line).is_some_and(|day| day != due)
                && !sources.iter().any(is_said_again)
        })
    }

    /// Checks whether a message names the due date, or whether the source text names its weekday or day number or was
    /// written on that day.
    fn is_dated(&self, due: NaiveDate, field: &DraftField) -> bool {
        let number = due.day().to_string();
        let is_near = |value: &&Value| {
            value.day.is_some_and(|day| {
                day.weekday() == due.weekday() && (day - due).num_days().abs() <= NEAR_DAYS
            })
        };
        !self.is_read()
            || self.lines.iter().any(|line| names_day(line, due))
            || self.source_text(field).any(|line| {
                line.day == due || line.values.iter().any(is_near) || line.numbers.contains(&number)
            })
    }
}

fn names_day(line: &Said<'_>, day: NaiveDate) -> bool {
    line.values.iter().any(|value| value.day == Some(day))
}
