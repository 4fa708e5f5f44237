//! Values in a text: dates, times, amounts, versions, links, and identifiers.

use chrono::{Datelike, Days, Months, NaiveDate};

use crate::{
    lexicon::{Language, Lexicon, lexicon},
    text::{Kind, Token, tokens},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ValueKind {
    Date,
    Time,
    Amount,
    Version,
    Link,
    Identifier,
}

/// A value with its position in a text. Values with the same `kind` and `key` are considered the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Value {
    pub kind: ValueKind,
    /// Normal form: `5pm` and `17:00` have the same key, and so do `1,500`, `1500`, and `1.5k`.
    pub key: String,
    /// Unit of an amount, such as `€` or the stem of the next word; empty if there is none.
    pub unit: String,
    /// The text as it was written.
    pub text: String,
    /// Day of a date; `None` for past weekdays, or if the text does not name exactly one valid day.
    pub day: Option<NaiveDate>,
    /// Position of the first token, and the position after the last one.
    pub(crate) from: usize,
    pub(crate) to: usize,
}

impl Value {
    /// Checks whether one value can correct the other.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        let is_unit = self.unit == other.unit || self.unit.is_empty() || other.unit.is_empty();
        self.kind == other.kind && is_unit
    }

    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.kind == other.kind && self.key == other.key
    }
}

/// All values in a text, in order of appearance. `day` is the day of the message, which "by Friday" is relative to.
pub fn values(text: &str, language: Language, day: NaiveDate) -> Vec<Value> {
    find(text, &tokens(text), lexicon(language), day)
}

pub(crate) fn find(text: &str, tokens: &[Token], lexicon: &Lexicon, day: NaiveDate) -> Vec<Value> {
    let reader = Reader { tokens, lexicon, day };
    let mut found: Vec<Value> = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let Some(mut value) = reader.value(at) else {
            at += 1;
            continue;
        };
        text[tokens[value.from].from..tokens[value.to - 1].to].clone_into(&mut value.text);
        at = value.to;
        // "Friday, March 13" is one date; the more exact part counts.
        if let Some(last) = found.last_mut()
            && last.kind == ValueKind::Date
            && value.kind == ValueKind::Date
            && tokens[last.from..value.to].iter().any(|token| token.kind == Kind::Number)
            && tokens[last.to..value.from].iter().all(|token| reader.is_between(token))
        {
            let is_exact = value.key.starts_with('d') && !last.key.starts_with('d');
            if is_exact || (value.day.is_some() && last.day.is_none()) {
                (last.key, last.day) = (value.key, value.day);
            }
            last.to = value.to;
            text[tokens[last.from].from..tokens[last.to - 1].to].clone_into(&mut last.text);
            continue;
        }
        found.push(value);
    }
    found
}

struct Reader<'a> {
    tokens: &'a [Token],
    lexicon: &'a Lexicon,
    day: NaiveDate,
}

impl Reader<'_> {
    fn word(&self, at: usize) -> &str {
        self.tokens.get(at).map_or("", |token| token.word.as_str())
    }

    fn before(&self, at: usize) -> &str {
        at.checked_sub(1).map_or("", |at| self.word(at))
    }

    fn is_between(&self, token: &Token) -> bool {
        token.word == "," || self.lexicon.date_phrase("prefix", &[&token.word]).is_some()
    }

    fn phrase(&self, section: &str, at: usize) -> Option<usize> {
        let end = (at + 5).min(self.tokens.len());
        let words: Vec<&str> = (at..end).map(|at| self.word(at)).collect();
        self.lexicon.date_phrase(section, &words)
    }

    fn value(&self, at: usize) -> Option<Value> {
        let token = &self.tokens[at];
        let plain = |kind, key: &str| Some(make(kind, key.to_owned(), at, at + 1));
        match token.kind {
            Kind::Url => plain(ValueKind::Link, &token.word),
            Kind::Identifier if is_version(&token.word) => {
                plain(ValueKind::Version, token.word.trim_start_matches('v'))
            }
            Kind::Identifier => plain(ValueKind::Identifier, &token.word),
            Kind::Mark | Kind::Emoji | Kind::Mention => None,
            Kind::Word | Kind::Number => {
                self.date(at).or_else(|| self.time(at)).or_else(|| self.amount(at))
            }
        }
    }

    fn date(&self, at: usize) -> Option<Value> {
        self.relative(at).or_else(|| self.weekday(at)).or_else(|| self.calendar(at))
    }

    fn relative(&self, at: usize) -> Option<Value> {
        let dated = |days: u64, length: usize| {
            Some(date(self.day.checked_add_days(Days::new(days)), at, at + length))
        };
        if let Some(length) = self.phrase("overmorrow", at) {
            return dated(2, length);
        }
        let (today, tomorrow) = (self.phrase("today", at), self.phrase("tomorrow", at));
        if let Some(length) = tomorrow.filter(|length| Some(*length) >= today) {
            // Spanish "la mañana" is the morning.
            let is_morning = self.lexicon.language == Language::Spanish && self.before(at) == "la";
            return if is_morning { None } else { dated(1, length) };
        }
        if let Some(length) = today {
            return dated(0, length);
        }
        if let Some(length) = self.phrase("end", at) {
            return self.end_of(at, length);
        }
        let length = self.phrase("in", at)?;
        let (count, next) = match self.phrase("a", at + length) {
            Some(one) => (1, at + length + one),
            None => (self.number(at + length)?, at + length + 1),
        };
        let days = if self.phrase("week", next).is_some() {
            count * 7
        } else if self.phrase("day", next).is_some() {
            count
        } else {
            return None;
        };
        // A number is required, because "in Wochen" could mean anything. Only dates within a year count as plans.
        (days <= 366).then(|| date(self.day.checked_add_days(Days::new(days.into())), at, next + 1))
    }

    /// "End of the week" is its Friday, "end of the month" is its last day, and "end of May" is the last day of May.
    fn end_of(&self, at: usize, length: usize) -> Option<Value> {
        let mut next = at + length;
        let mut is_next = false;
        for section in ["next", "this"] {
            if let Some(length) = self.phrase(section, next) {
                is_next = section == "next";
                next += length;
            }
        }
        let found = if let Some(month) = self.lexicon.months.get(self.word(next)) {
            end_of_month(self.in_month(1, *month, None)?)
        } else if self.phrase("week", next).is_some() {
            let follows = self.phrase("next", next + 1).is_some();
            let monday = self.monday(u64::from(is_next || follows))?;
            next += usize::from(follows);
            monday.checked_add_days(Days::new(4))
        } else if self.phrase("month", next).is_some() {
            end_of_month(self.day.checked_add_months(Months::new(u32::from(is_next)))?)
        } else {
            return None;
        };
        Some(date(found, at, next + 1))
    }

    fn monday(&self, weeks: u64) -> Option<NaiveDate> {
        let back = u64::from(self.day.weekday().num_days_from_monday());
        self.day.checked_sub_days(Days::new(back))?.checked_add_days(Days::new(weeks * 7))
    }

    /// The next occurrence of a weekday. After "by", this can be the day of the message. After "next" in English, it is in the next
    /// calendar week.
    fn weekday(&self, at: usize) -> Option<Value> {
        let word = self.word(at);
        let weekday = *self.lexicon.weekdays.get(word)?;
        // Short forms such as "do" and "so" count as days only before a number.
        if word.len() <= 2 && !self.is_short_day(at) {
            return None;
        }
        let (mut from, mut to) = (at, at + 1);
        let is_past = self.phrase("past", at + 1).is_some()
            || at.checked_sub(1).is_some_and(|at| self.phrase("past", at).is_some());
        let is_next = at.checked_sub(1).is_some_and(|at| self.phrase("next", at).is_some());
        let follows = self.phrase("next", at + 1);
        if is_past {
            return Some(make(ValueKind::Date, format!("past{weekday}"), at, at + 1));
        }
        let ahead = (weekday + 7 - self.day.weekday().num_days_from_monday()) % 7;
        let day = if is_next && self.lexicon.language == Language::English {
            from -= 1;
            self.monday(1)?.checked_add_days(Days::new(u64::from(weekday)))
        } else {
            let is_today =
                ahead == 0 && !matches!(self.before(at), "by" | "bis" | "until" | "till");
            self.day.checked_add_days(Days::new(u64::from(if is_today { 7 } else { ahead })))
        };
        from -= usize::from(is_next && self.lexicon.language != Language::English);
        to += follows.unwrap_or(0);
        let mut value = date(day, from, to);
        value.key = format!("w{weekday}{}", if is_next || follows.is_some() { "+" } else { "" });
        Some(value)
    }

    fn is_short_day(&self, at: usize) -> bool {
        let next = self.tokens.get(at + 1);
        next.is_some_and(|next| next.kind == Kind::Number)
    }

    fn calendar(&self, at: usize) -> Option<Value> {
        let token = &self.tokens[at];
        let word = token.word.as_str();
        if let Ok(day) = NaiveDate::parse_from_str(word, "%Y-%m-%d") {
            return Some(date(Some(day), at, at + 1));
        }
        if let Some(month) = self.lexicon.months.get(word) {
            // "March 14", "May 3rd".
            if let Some(number) = self.day_number(at + 1)
                && self.lexicon.language == Language::English
            {
                return Some(date(self.in_month(number, *month, self.year(at + 2)), at, at + 2));
            }
            let is_word =
                matches!(word, "may" | "march" | "mar" | "mars" | "sept" | "dec" | "sep" | "jan");
            let is_dated = self.lexicon.date_phrase("prefix", &[self.before(at)]).is_some()
                || matches!(self.before(at), "in" | "im" | "en" | "de" | "by");
            return (!is_word || is_dated)
                .then(|| make(ValueKind::Date, format!("m{month}"), at, at + 1));
        }
        if token.kind != Kind::Number {
            return None;
        }
        if let Some((day, month, year)) = self.dotted(at) {
            let to = at + 1 + usize::from(self.word(at + 1) == "." && !word.contains('/'));
            return Some(date(self.in_month(day, month, year), at, to));
        }
        let number = self.day_number(at)?;
        let mut next = at + 1;
        while matches!(self.word(next), "." | "of" | "de") {
            next += 1;
        }
        if let Some(month) = self.lexicon.months.get(self.word(next)) {
            return Some(date(self.in_month(number, *month, self.year(next + 1)), at, next + 1));
        }
        let is_last = self.tokens.get(at + 1).is_none_or(|token| token.kind == Kind::Mark);
        let has_dot = self.word(at + 1) == "." || word.ends_with('.');
        let before = self.before(at);
        let is_alone = match self.lexicon.language {
            Language::English => ["st", "nd", "rd", "th"].iter().any(|end| word.ends_with(end)),
            Language::German => {
                has_dot
                    && matches!(before, "am" | "zum" | "den" | "der" | "dem" | "ab" | "vom" | "bis")
            }
            Language::Spanish => before == "dia" || (before == "el" && is_last),
            Language::French => before == "le" && is_last,
            Language::Other => false,
        };
        let dot = usize::from(self.lexicon.language == Language::German && has_dot);
        is_alone.then(|| date(self.on_day(number), at, at + 1 + dot))
    }

    /// Parses dates such as `14.3.` and `14/3/26`. In English, the separator must be a slash, and the order of day and month must be
    /// clear.
    fn dotted(&self, at: usize) -> Option<(u32, u32, Option<i32>)> {
        let word = self.word(at);
        let is_slash = word.contains('/');
        let parts: Option<Vec<u32>> =
            word.split(['.', '/']).map(|part| part.parse().ok()).collect();
        let parts = parts.filter(|parts| (2..=3).contains(&parts.len()))?;
        let year = parts.get(2).map(|year| i32::try_from(*year).unwrap_or(0));
        let year = year.map(|year| if year < 100 { 2000 + year } else { year });
        let is_date = match self.lexicon.language {
            Language::English => is_slash && (parts[0] > 12 || parts[1] > 12),
            Language::German => is_slash || parts.len() == 3 || self.word(at + 1) == ".",
            _ => is_slash || parts.len() == 3,
        };
        let (day, month) = match self.lexicon.language {
            Language::English if parts[1] > 12 => (parts[1], parts[0]),
            _ => (parts[0], parts[1]),
        };
        (is_date && (1..=31).contains(&day) && (1..=12).contains(&month))
            .then_some((day, month, year))
    }

    fn year(&self, at: usize) -> Option<i32> {
        self.word(at).parse().ok().filter(|year| (2000..2100).contains(year))
    }

    fn day_number(&self, at: usize) -> Option<u32> {
        let word = self.word(at);
        let digits = word.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let is_day = matches!(&word[digits.len()..], "" | "st" | "nd" | "rd" | "th" | "er");
        digits.parse().ok().filter(|day| is_day && (1..=31).contains(day))
    }

    /// The date in the given year. Without a year, it is in the year of the message, or in the following year if it would otherwise
    /// be more than 60 days before the message.
    fn in_month(&self, day: u32, month: u32, year: Option<i32>) -> Option<NaiveDate> {
        if let Some(year) = year {
            return NaiveDate::from_ymd_opt(year, month, day);
        }
        let found = NaiveDate::from_ymd_opt(self.day.year(), month, day)?;
        if found.checked_add_days(Days::new(60))? < self.day {
            return NaiveDate::from_ymd_opt(self.day.year() + 1, month, day);
        }
        Some(found)
    }

    fn on_day(&self, day: u32) -> Option<NaiveDate> {
        let found = self.day.with_day(day).filter(|date| *date >= self.day);
        found.or_else(|| self.day.checked_add_months(Months::new(1))?.with_day(day))
    }

    fn time(&self, at: usize) -> Option<Value> {
        let word = self.word(at);
        let timed =
            |minutes: u32, to: usize| Some(make(ValueKind::Time, format!("t{minutes}"), at, to));
        if matches!(word, "noon" | "midday" | "mittags" | "mediodia" | "midi") {
            return timed(720, at + 1);
        }
        let split = word.find(|c: char| !c.is_ascii_digit()).unwrap_or(word.len());
        let hours: u32 = word[..split].parse().ok().filter(|hours| *hours <= 24)?;
        let rest = &word[split..];
        let inner = rest.strip_prefix([':', 'h']).and_then(|rest| rest.get(..2));
        let minutes: Option<u32> =
            inner.and_then(|text| text.parse().ok()).filter(|minutes| *minutes < 60);
        let suffix = if minutes.is_some() { &rest[3..] } else { rest };
        let next = self.word(at + 1);
        let is_clock = matches!(next, "am" | "pm" | "uhr" | "heures" | "h" | "oclock" | "utc");
        let half = |mark: &str| {
            if mark.starts_with('p') && hours < 12 { 720 } else { 0 }
        };
        let total = hours * 60 + minutes.unwrap_or(0);
        match suffix {
            "am" | "pm" => timed(total + half(suffix), at + 1),
            "h" if minutes.is_none() => timed(total, at + 1),
            "" if is_clock => timed(total + half(next), at + 2),
            "" if minutes.is_some() => timed(total, at + 1),
            "" if matches!(self.before(at), "at" | "um" | "las" | "til" | "gegen" | "ab")
                && self.tokens.get(at + 1).is_none_or(|next| next.kind == Kind::Mark) =>
            {
                timed(total, at + 1)
            }
            _ => None,
        }
    }

    fn number(&self, at: usize) -> Option<u32> {
        let word = self.word(at);
        word.parse().ok().or_else(|| self.lexicon.numbers.get(word).copied())
    }

    fn amount(&self, at: usize) -> Option<Value> {
        let token = &self.tokens[at];
        let word = token.word.as_str();
        if token.kind == Kind::Word {
            // "One" is an article or a pronoun more often than a number.
            let number = self.lexicon.numbers.get(word).filter(|number| **number > 1)?;
            let mut value = make(ValueKind::Amount, number.to_string(), at, at + 1);
            value.unit = self.unit(at);
            return Some(value);
        }
        if is_version(word) {
            return Some(make(ValueKind::Version, word.to_owned(), at, at + 1));
        }
        let sign = word.starts_with(['$', '€', '£']).then(|| word.chars().next()).flatten();
        let digits = word.trim_start_matches(['$', '€', '£', '+']);
        let end = digits.rfind(|c: char| c.is_ascii_digit()).map_or(0, |at| at + 1);
        let (digits, suffix) = digits.split_at(end);
        let mut key = number_key(digits);
        if suffix == "k" {
            key = if key.contains('.') { shifted(&key) } else { format!("{key}000") };
        }
        let mut value = make(ValueKind::Amount, key, at, at + 1);
        value.unit = match (sign, suffix) {
            (Some(sign), _) => sign.to_string(),
            (None, "" | "k") => self.unit(at),
            (None, suffix) => unit_of(suffix),
        };
        Some(value)
    }

    /// Unit of a number: the sign before it, or the sign or word after it.
    fn unit(&self, at: usize) -> String {
        if matches!(self.before(at), "€" | "$" | "£" | "%") {
            return self.before(at).to_owned();
        }
        let Some(next) = self.tokens.get(at + 1) else {
            return String::new();
        };
        let is_sign = matches!(next.word.as_str(), "€" | "$" | "£" | "%");
        let is_unit = next.kind == Kind::Word && !self.lexicon.is_function(&next.word);
        if is_sign || is_unit { unit_of(self.lexicon.stem(&next.word)) } else { String::new() }
    }
}

fn unit_of(word: &str) -> String {
    let sign = match word {
        "euro" | "euros" | "eur" | "eu" => "€",
        "dollar" | "dollars" | "dolar" | "usd" => "$",
        "pound" | "pounds" | "gbp" => "£",
        "percent" | "prozent" | "%" => "%",
        word => word,
    };
    sign.to_owned()
}

fn make(kind: ValueKind, key: String, from: usize, to: usize) -> Value {
    Value { kind, key, unit: String::new(), text: String::new(), day: None, from, to }
}

fn date(day: Option<NaiveDate>, from: usize, to: usize) -> Value {
    let key = day.map_or_else(String::new, |day| format!("d{day}"));
    Value { day, ..make(ValueKind::Date, key, from, to) }
}

fn end_of_month(day: NaiveDate) -> Option<NaiveDate> {
    day.with_day(1)?.checked_add_months(Months::new(1))?.pred_opt()
}

fn is_version(word: &str) -> bool {
    let digits = word.strip_prefix('v').unwrap_or(word);
    let dots = digits.matches('.').count();
    let is_numeric = digits.chars().all(|c| c.is_ascii_digit() || c == '.') && !digits.is_empty();
    let is_grouped = digits.split('.').skip(1).all(|part| part.len() == 3);
    is_numeric && (word.starts_with('v') || (dots >= 2 && !is_grouped))
}

/// Digits without thousands separators, with `.` before decimals.
fn number_key(digits: &str) -> String {
    let Some(at) = digits.rfind(['.', ',', '\'']) else {
        return digits.to_owned();
    };
    let (whole, rest) = (&digits[..at], &digits[at + 1..]);
    let whole: String = whole.chars().filter(char::is_ascii_digit).collect();
    let rest_digits: String = rest.chars().filter(char::is_ascii_digit).collect();
    if rest.len() == 3 && !digits.contains(':') {
        return format!("{whole}{rest_digits}");
    }
    let decimals = rest_digits.trim_end_matches('0');
    if decimals.is_empty() { whole } else { format!("{whole}.{decimals}") }
}

/// Interprets a number as thousands: `1.5` becomes `1500`.
fn shifted(key: &str) -> String {
    let (whole, decimals) = key.split_once('.').unwrap_or((key, ""));
    format!("{whole}{decimals:0<3}")
}
