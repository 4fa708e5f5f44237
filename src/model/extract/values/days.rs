//! Days and months, resolved to dates if they are unambiguous.

use chrono::{Datelike, Days, Months, NaiveDate, Weekday};

use super::super::{cues::Language, tokens::Kind};
use super::{Found, Reader, Sort};

impl Reader<'_> {
    pub(super) fn weekday(&self, at: usize) -> Option<u8> {
        let token = self.tokens.get(at)?;
        let entry = token.word.known?;
        let short = token.word.text.len() <= 3;
        let (_, day) = entry
            .day
            .iter()
            .find(|(language, _)| *language == self.language)
            .or_else(|| entry.day.first().filter(|_| !short))?;
        let is_clear = !short || at == 0 || self.is_before_date(at.wrapping_sub(1));
        is_clear.then_some(*day)
    }

    pub(super) fn month(&self, at: usize) -> Option<u8> {
        let token = self.tokens.get(at)?;
        let entry = token.word.known?;
        let (_, month) = entry
            .month
            .iter()
            .find(|(language, _)| *language == self.language)
            .or_else(|| entry.month.first().filter(|_| token.word.text.len() > 4))?;
        Some(*month)
    }

    /// "tomorrow", "next week", "in two weeks", "the end of the month".
    pub(super) fn relative(&self, at: usize) -> Option<Found> {
        let two = [self.text(at), self.text(at + 1)];
        let three = [two[0], two[1], self.text(at + 2)];
        let day = |to: usize, name: &str, date: Option<NaiveDate>| {
            Some((Sort::Day, format!("r{name}"), at, to, date))
        };
        let plus = |days: u64| self.day.checked_add_days(Days::new(days));
        match (self.language, two[0]) {
            (Language::English, "today" | "tonight")
            | (Language::German, "heute")
            | (Language::Spanish, "hoy")
            | (Language::French, "aujourd'hui") => return day(at + 1, "0", Some(self.day)),
            (Language::English, "tomorrow" | "tmrw" | "tmr") | (Language::French, "demain") => {
                let is_after = at > 0 && matches!(self.before(at, 1), "after" | "après");
                return day(
                    at + 1,
                    if is_after { "2" } else { "1" },
                    plus(if is_after { 2 } else { 1 }),
                );
            }
            (Language::German, "übermorgen") => return day(at + 1, "2", plus(2)),
            (Language::German, "morgen")
                if !matches!(self.before(at, 1), "am" | "heute" | "guten" | "jeden") =>
            {
                return day(at + 1, "1", plus(1));
            }
            (Language::Spanish, "mañana" | "manana")
                if !matches!(self.before(at, 1), "la" | "pasado") =>
            {
                return day(at + 1, "1", plus(1));
            }
            (Language::Spanish, "pasado") if two[1] == "mañana" => {
                return day(at + 2, "2", plus(2));
            }
            _ => {}
        }
        let week_end = self.end_of_week();
        let month_end = end_of_month(self.day);
        match three {
            ["end", "of", _] => {
                let (unit, to) = match self.text(at + 2) {
                    "the" | "this" | "next" => (self.text(at + 3), at + 4),
                    unit => (unit, at + 3),
                };
                let is_next = self.text(at + 2) == "next";
                return match unit {
                    "week" if is_next => day(to, "ew1", week_end.checked_add_days(Days::new(7))),
                    "month" if is_next => day(
                        to,
                        "em1",
                        self.day
                            .checked_add_months(Months::new(1))
                            .and_then(end_of_month),
                    ),
                    "week" => day(to, "ew", Some(week_end)),
                    "month" => day(to, "em", month_end),
                    "day" => day(to, "0", Some(self.day)),
                    "year" => day(to, "ey", NaiveDate::from_ymd_opt(self.day.year(), 12, 31)),
                    _ => None,
                };
            }
            ["eod", ..] => return day(at + 1, "0", Some(self.day)),
            ["eow", ..] => return day(at + 1, "ew", Some(week_end)),
            ["ende", "der", "woche"] | ["fin" | "finales", "de", "semana" | "semaine"] => {
                return day(at + 3, "ew", Some(week_end));
            }
            ["ende", "dieser" | "nächster", "woche"] => {
                let is_next = two[1] == "nächster";
                let date = if is_next {
                    week_end.checked_add_days(Days::new(7))
                } else {
                    Some(week_end)
                };
                return day(at + 3, if is_next { "ew1" } else { "ew" }, date);
            }
            ["ende", "des", "monats"] | ["fin" | "final" | "finales", "de", "mes" | "mois"] => {
                return day(at + 3, "em", month_end);
            }
            ["fin", "du", "mois"] => return day(at + 3, "em", month_end),
            ["fin" | "final", "de" | "del", "la" | "mes" | "semana"] => {
                if self.text(at + 3) == "semana"
                    || three[2] == "semana"
                    || self.text(at + 3) == "semaine"
                {
                    return day(at + 3 + usize::from(three[2] == "la"), "ew", Some(week_end));
                }
                if three[2] == "mes" {
                    return day(at + 3, "em", month_end);
                }
            }
            _ => {}
        }
        match two {
            ["monatsende", _] => return day(at + 1, "em", month_end),
            ["wochenende", _] => return day(at + 1, "we", Some(self.next(5))),
            ["next", "week"]
            | ["nächste" | "nächster" | "kommende", "woche"]
            | ["próxima", "semana"]
            | ["semaine", "prochaine"] => {
                let date = week_end.checked_add_days(Days::new(7));
                return day(at + 2, "nw", date);
            }
            ["this", "week"] | ["diese", "woche"] | ["esta", "semana"] | ["cette", "semaine"] => {
                return day(at + 2, "ew", Some(week_end));
            }
            ["next", "month"]
            | ["nächsten", "monat"]
            | ["próximo", "mes"]
            | ["mois", "prochain"] => {
                let date = self
                    .day
                    .checked_add_months(Months::new(1))
                    .and_then(end_of_month);
                return day(at + 2, "nm", date);
            }
            _ => {}
        }
        if ["semana", "que", "viene"] == three {
            return day(at + 3, "nw", week_end.checked_add_days(Days::new(7)));
        }
        if matches!(
            two[0],
            "in" | "within" | "en" | "dans" | "dentro" | "binnen"
        ) {
            let skip = usize::from(self.text(at + 1) == "de");
            let count = self.count(at + 1 + skip)?;
            let unit = self.text(at + 2 + skip);
            let to = at + 3 + skip;
            let days = match unit {
                "day" | "days" | "tag" | "tagen" | "día" | "días" | "dias" | "jour" | "jours" => {
                    count
                }
                "week" | "weeks" | "woche" | "wochen" | "semana" | "semanas" | "semaine"
                | "semaines" => 7 * count,
                "month" | "months" | "monat" | "monaten" | "mes" | "meses" | "mois" => {
                    let months = Months::new(u32::try_from(count).ok()?);
                    return day(
                        to,
                        &format!("+{count}m"),
                        self.day.checked_add_months(months),
                    );
                }
                _ => return None,
            };
            return day(to, &format!("+{days}"), plus(days));
        }
        None
    }

    pub(super) fn count(&self, at: usize) -> Option<u64> {
        let token = self.tokens.get(at)?;
        if let Some(number) = token.word.known.and_then(|entry| entry.number) {
            return Some(u64::from(number));
        }
        match token.word.text.as_str() {
            "a" | "an" | "one" | "einem" | "einer" | "un" | "una" | "une" => Some(1),
            text => text.parse().ok().filter(|count| *count < 400),
        }
    }

    /// The next such weekday after the day of the message.
    pub(super) fn next(&self, weekday: u8) -> NaiveDate {
        let today = u8::try_from(self.day.weekday().num_days_from_monday()).unwrap_or(0);
        let ahead = (weekday + 7 - today) % 7;
        self.day + Days::new(u64::from(if ahead == 0 { 7 } else { ahead }))
    }

    /// The Friday of the week; on a weekend, its Sunday.
    pub(super) fn end_of_week(&self) -> NaiveDate {
        match self.day.weekday() {
            Weekday::Fri | Weekday::Sun => self.day,
            Weekday::Sat => self.day + Days::new(1),
            _ => self.next(4),
        }
    }

    /// "Friday", "next Friday", "Friday 14 March".
    pub(super) fn named_day(&self, at: usize) -> Option<Found> {
        let first = self.text(at);
        let is_next = matches!(first, "next" | "nächsten" | "nächster");
        let is_coming = is_next
            || matches!(
                first,
                "this" | "coming" | "kommenden" | "diesen" | "próximo" | "proximo" | "este" | "ce"
            );
        let name = if is_coming { at + 1 } else { at };
        let weekday = self.weekday(name)?;
        // "Friday the 14th", "Friday, 14 March".
        let skip = name
            + 1
            + usize::from(matches!(
                self.text(name + 1),
                "," | "the" | "der" | "den" | "le" | "el"
            ));
        if let Some((_, key, _, to, date)) = self.written_date(skip) {
            return Some((Sort::Day, key, at, to, date));
        }
        let coming = self.next(weekday);
        let is_week_after = is_next
            && (coming - self.day).num_days()
                < 7 - i64::from(self.day.weekday().num_days_from_monday());
        let is_after_next = matches!(
            (self.text(name + 1), self.text(name + 2)),
            ("next", "week") | ("nächste", "woche") | ("semaine", "prochaine")
        );
        let is_prochain = self.text(name + 1) == "prochain";
        let to = name
            + 1
            + if is_after_next {
                2
            } else {
                usize::from(is_prochain)
            };
        let to = if (self.text(to), self.text(to + 1)) == ("que", "viene") {
            to + 2
        } else {
            to
        };
        let in_this_week = (coming - self.day).num_days()
            < 7 - i64::from(self.day.weekday().num_days_from_monday());
        let ahead = u64::from(is_week_after || (is_after_next && in_this_week)) * 7;
        Some((
            Sort::Day,
            format!("w{weekday}+{ahead}"),
            at,
            to,
            coming.checked_add_days(Days::new(ahead)),
        ))
    }

    /// "4 to 6 June", "11.–13. Mai", "del 4 al 6 de junio": a range of days without a due date.
    pub(super) fn range(&self, at: usize) -> Option<Found> {
        let first = self.day_number(at)?;
        let mut next = at + 1;
        while matches!(
            self.text(next),
            "." | "-" | "–" | "to" | "until" | "bis" | "al" | "au"
        ) {
            next += 1;
        }
        let second = self
            .day_number(next)
            .filter(|second| next > at + 1 && *second > first)?;
        let mut to = next + 1;
        while matches!(self.text(to), "." | "of" | "de") && self.month(to + 1).is_some() {
            to += 1;
        }
        if self.month(to).is_some() {
            to += 1;
        } else if self
            .tokens
            .get(next + 1)
            .is_some_and(|token| token.word.stem.is_some())
        {
            return None;
        } else {
            to = next + 1;
        }
        Some((Sort::Day, format!("x{first}-{second}"), at, to, None))
    }

    /// "14 March", "March 14th", "the 14th", "14.3.", "2026-03-14", or an unambiguous "14/3".
    pub(super) fn written_date(&self, at: usize) -> Option<Found> {
        let token = self.tokens.get(at)?;
        let dated = |from: usize, to: usize, date: Option<NaiveDate>| {
            let date = date?;
            Some((Sort::Day, format!("d{date}"), from, to, Some(date)))
        };
        if token.kind != Kind::Number {
            if let Some(month) = self.month(at) {
                if let Some(number) = self
                    .day_number(at + 1)
                    .filter(|_| self.language == Language::English)
                {
                    let to = at + 2;
                    let (to, year) = self.year(to);
                    return dated(at, to, self.on(number, month, year));
                }
                let is_month = !matches!(
                    token.word.text.as_str(),
                    "may" | "march" | "mar" | "jan" | "sep" | "mars" | "dec"
                ) || matches!(
                    self.before(at, 1),
                    "in" | "by" | "of" | "until" | "this" | "next" | "en" | "to"
                );
                return is_month.then(|| (Sort::Month, format!("m{month}"), at, at + 1, None));
            }
            if token.is("the")
                && self
                    .tokens
                    .get(at + 1)
                    .is_some_and(|t| is_ordinal(&t.word.text))
                && let Some(number) = self.day_number(at + 1)
            {
                let (of, month_at) = (
                    self.text(at + 2) == "of",
                    at + 2 + usize::from(self.text(at + 2) == "of"),
                );
                if let Some(month) = self.month(month_at) {
                    let (to, year) = self.year(month_at + 1);
                    return dated(at, to, self.on(number, month, year));
                }
                let _ = of;
                return dated(at, at + 2, self.on_day(number));
            }
            return None;
        }
        let text = token.word.text.as_str();
        if let Ok(date) = NaiveDate::parse_from_str(text, "%Y-%m-%d") {
            return dated(at, at + 1, Some(date));
        }
        let parts: Vec<&str> = text.split(['.', '/']).collect();
        let numbers: Option<Vec<u32>> = parts.iter().map(|part| part.parse().ok()).collect();
        if let Some(numbers) = numbers
            && (2..=3).contains(&numbers.len())
            && parts[0].len() <= 2
            && parts[1].len() <= 2
        {
            let is_slash = text.contains('/');
            let is_dotted = !is_slash
                && (numbers.len() == 3
                    && parts[2].len() >= 2
                    && self.language != Language::English
                    || (self.language == Language::German
                        && (self.text(at + 1) == "." || self.is_before_date(at.wrapping_sub(1)))));
            let (a, b) = (numbers[0], numbers[1]);
            let in_order = match self.language {
                Language::English if is_slash && a > 12 => Some((a, b)),
                Language::English if is_slash && b > 12 => Some((b, a)),
                Language::English => None,
                _ if is_slash || is_dotted => Some((a, b)),
                _ => None,
            };
            if let Some((day, month)) = in_order {
                let year = numbers.get(2).map(|year| i32::try_from(*year).unwrap_or(0));
                let year = year.map(|year| if year < 100 { 2000 + year } else { year });
                let to = at + 1 + usize::from(self.text(at + 1) == "." && is_dotted);
                return dated(at, to, self.on(day, u8::try_from(month).ok()?, year));
            }
            return None;
        }
        let number = self.day_number(at)?;
        // "14 March", "14. März", "14 de marzo", "14th of March".
        let mut month_at = at + 1;
        while matches!(self.text(month_at), "." | "of" | "de") {
            month_at += 1;
        }
        if let Some(month) = self.month(month_at) {
            let (to, year) = self.year(month_at + 1);
            return dated(at, to, self.on(number, month, year));
        }
        let previous = self.before(at, 1);
        let is_alone = match self.language {
            Language::English => is_ordinal(text),
            Language::German => {
                self.text(at + 1) == "." && matches!(previous, "am" | "zum" | "den" | "der" | "dem")
            }
            Language::Spanish => {
                matches!(previous, "día")
                    || (previous == "el"
                        && self.tokens.get(at + 1).is_none_or(|t| t.kind == Kind::Mark))
            }
            Language::French => {
                previous == "le" && self.tokens.get(at + 1).is_none_or(|t| t.kind == Kind::Mark)
            }
            Language::Other => false,
        };
        let dot = usize::from(self.language == Language::German && self.text(at + 1) == ".");
        is_alone
            .then(|| dated(at, at + 1 + dot, self.on_day(number)))
            .flatten()
    }

    pub(super) fn year(&self, at: usize) -> (usize, Option<i32>) {
        let skip = usize::from(matches!(self.text(at), "," | "de"));
        match self.text(at + skip).parse::<i32>() {
            Ok(year) if (2000..2100).contains(&year) => (at + skip + 1, Some(year)),
            _ => (at, None),
        }
    }

    pub(super) fn day_number(&self, at: usize) -> Option<u32> {
        let text = self.text(at);
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let suffix = &text[digits.len()..];
        let is_day = matches!(suffix, "" | "st" | "nd" | "rd" | "th" | "er");
        digits
            .parse()
            .ok()
            .filter(|day| is_day && (1..=31).contains(day))
    }

    /// The date in the current year, or in the next year if it was more than 60 days ago.
    pub(super) fn on(&self, day: u32, month: u8, year: Option<i32>) -> Option<NaiveDate> {
        let month = u32::from(month);
        if let Some(year) = year {
            return NaiveDate::from_ymd_opt(year, month, day);
        }
        let this = NaiveDate::from_ymd_opt(self.day.year(), month, day)?;
        if this + Days::new(60) < self.day {
            return NaiveDate::from_ymd_opt(self.day.year() + 1, month, day);
        }
        Some(this)
    }

    /// The next occurrence of this day of a month.
    pub(super) fn on_day(&self, day: u32) -> Option<NaiveDate> {
        let this = self.day.with_day(day).filter(|date| *date >= self.day);
        this.or_else(|| self.day.checked_add_months(Months::new(1))?.with_day(day))
    }
}

fn is_ordinal(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit())
        && ["st", "nd", "rd", "th"]
            .iter()
            .any(|end| text.ends_with(end))
}

fn end_of_month(day: NaiveDate) -> Option<NaiveDate> {
    day.with_day(1)?
        .checked_add_months(Months::new(1))?
        .pred_opt()
}
