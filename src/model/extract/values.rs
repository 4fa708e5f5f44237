//! Days, times, amounts and versions in a sentence: what can be due, and what a correction replaces.

use chrono::{Datelike, Days, Months, NaiveDate, Weekday};

use super::{
    cues::Language,
    tokens::{Kind, Token},
};

/// Values of one sort replace each other.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Sort {
    Day,
    Month,
    Time,
    Version,
    /// A number of something: the unit, or nothing.
    Amount(String),
}

impl Sort {
    /// Amounts of different things do not replace each other.
    pub(crate) fn replaces(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Amount(a), Self::Amount(b)) => a == b || a.is_empty() || b.is_empty(),
            (Self::Day | Self::Month, Self::Day | Self::Month) => true,
            (Self::Version, Self::Amount(unit)) | (Self::Amount(unit), Self::Version) => {
                unit.is_empty()
            }
            (a, b) => a == b,
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Value {
    pub(crate) sort: Sort,
    /// Equal for the same value, however it is written.
    pub(crate) key: String,
    /// Tokens; of an amount the number alone.
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// Where the words before it that go with it begin: "by the".
    pub(crate) lead: usize,
    pub(crate) date: Option<NaiveDate>,
    /// "tomorrow" stands without "on".
    pub(crate) is_bare: bool,
    /// "by Friday" and the like.
    pub(crate) is_deadline: bool,
}

/// All values of a sentence that was written on `day`.
pub(crate) fn values(tokens: &[Token], language: Language, day: NaiveDate) -> Vec<Value> {
    let mut found: Vec<Value> = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let value = Reader {
            tokens,
            language,
            day,
        }
        .value(at);
        if let Some(value) = value {
            at = value.to.max(at + 1);
            found.push(value);
        } else {
            at += 1;
        }
    }
    found
}

struct Reader<'a> {
    tokens: &'a [Token],
    language: Language,
    day: NaiveDate,
}

impl Reader<'_> {
    fn text(&self, at: usize) -> &str {
        self.tokens.get(at).map_or("", |token| &token.word.text)
    }

    fn before(&self, at: usize, back: usize) -> &str {
        at.checked_sub(back).map_or("", |at| self.text(at))
    }

    fn weekday(&self, at: usize) -> Option<u8> {
        let token = self.tokens.get(at)?;
        let entry = token.word.known?;
        let short = token.word.text.len() <= 3;
        let (_, day) = entry
            .day
            .iter()
            .find(|(language, _)| *language == self.language)
            .or_else(|| entry.day.first().filter(|_| !short))?;
        let is_clear = !short || self.is_capital(at) || self.is_before_date(at.wrapping_sub(1));
        is_clear.then_some(*day)
    }

    fn month(&self, at: usize) -> Option<u8> {
        let token = self.tokens.get(at)?;
        let entry = token.word.known?;
        let (_, month) = entry
            .month
            .iter()
            .find(|(language, _)| *language == self.language)
            .or_else(|| entry.month.first().filter(|_| token.word.text.len() > 4))?;
        Some(*month)
    }

    fn is_capital(&self, at: usize) -> bool {
        let _ = self.tokens.get(at);
        // The text is lower case here; only a word before a date tells.
        at == 0
    }

    fn is_before_date(&self, at: usize) -> bool {
        let token = self.tokens.get(at);
        token
            .and_then(|token| token.word.known)
            .is_some_and(|entry| entry.before_date.contains(&self.language))
    }

    fn value(&self, at: usize) -> Option<Value> {
        let (sort, key, from, to, date) = self
            .relative(at)
            .or_else(|| self.named_day(at))
            .or_else(|| self.range(at))
            .or_else(|| self.written_date(at))
            .or_else(|| self.time(at))
            .or_else(|| self.number(at))?;
        let mut lead = from;
        while lead > 0
            && from - lead < 4
            && self.is_before_date(lead - 1)
            && !self.tokens[lead - 1].is_quoted
        {
            lead -= 1;
        }
        let is_deadline = (lead..from).any(|at| {
            matches!(
                self.text(at),
                "by" | "until"
                    | "till"
                    | "before"
                    | "due"
                    | "bis"
                    | "spätestens"
                    | "vor"
                    | "para"
                    | "antes"
                    | "hasta"
                    | "avant"
                    | "pour"
                    | "ici"
                    | "jusqu'"
            )
        });
        let date = match (&sort, date) {
            // "by Friday" on a Friday is that day, "on Friday" the next one.
            (Sort::Day, Some(date))
                if is_deadline && key.starts_with('w') && date == self.day + Days::new(7) =>
            {
                Some(self.day)
            }
            (_, date) => date,
        };
        Some(Value {
            is_bare: key.starts_with('r'),
            sort,
            key,
            from,
            to,
            lead,
            date,
            is_deadline,
        })
    }

    /// "tomorrow", "next week", "in two weeks", "the end of the month".
    fn relative(&self, at: usize) -> Option<(Sort, String, usize, usize, Option<NaiveDate>)> {
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

    fn count(&self, at: usize) -> Option<u64> {
        let token = self.tokens.get(at)?;
        if let Some(number) = token.word.known.and_then(|entry| entry.number) {
            return Some(u64::from(number));
        }
        match token.word.text.as_str() {
            "a" | "an" | "one" | "einem" | "einer" | "un" | "una" | "une" => Some(1),
            text => text.parse().ok().filter(|count| *count < 400),
        }
    }

    /// The next such day after the one of the message.
    fn next(&self, weekday: u8) -> NaiveDate {
        let today = u8::try_from(self.day.weekday().num_days_from_monday()).unwrap_or(0);
        let ahead = (weekday + 7 - today) % 7;
        self.day + Days::new(u64::from(if ahead == 0 { 7 } else { ahead }))
    }

    /// The Friday of the week; of a weekend its Sunday.
    fn end_of_week(&self) -> NaiveDate {
        match self.day.weekday() {
            Weekday::Fri | Weekday::Sun => self.day,
            Weekday::Sat => self.day + Days::new(1),
            _ => self.next(4),
        }
    }

    /// "Friday", "next Friday", "Friday 14 March".
    fn named_day(&self, at: usize) -> Option<(Sort, String, usize, usize, Option<NaiveDate>)> {
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

    /// "4 to 6 June", "11.–13. Mai", "del 4 al 6 de junio": some days, due on none.
    fn range(&self, at: usize) -> Option<(Sort, String, usize, usize, Option<NaiveDate>)> {
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

    /// "14 March", "March 14th", "the 14th", "14.3.", "2026-03-14", "14/3" if it is clear.
    fn written_date(&self, at: usize) -> Option<(Sort, String, usize, usize, Option<NaiveDate>)> {
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

    fn year(&self, at: usize) -> (usize, Option<i32>) {
        let skip = usize::from(matches!(self.text(at), "," | "de"));
        match self.text(at + skip).parse::<i32>() {
            Ok(year) if (2000..2100).contains(&year) => (at + skip + 1, Some(year)),
            _ => (at, None),
        }
    }

    fn day_number(&self, at: usize) -> Option<u32> {
        let text = self.text(at);
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let suffix = &text[digits.len()..];
        let is_day = matches!(suffix, "" | "st" | "nd" | "rd" | "th" | "er");
        digits
            .parse()
            .ok()
            .filter(|day| is_day && (1..=31).contains(day))
    }

    /// In the year that brings it nearest ahead.
    fn on(&self, day: u32, month: u8, year: Option<i32>) -> Option<NaiveDate> {
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

    /// The next such day of a month.
    fn on_day(&self, day: u32) -> Option<NaiveDate> {
        let this = self.day.with_day(day).filter(|date| *date >= self.day);
        this.or_else(|| self.day.checked_add_months(Months::new(1))?.with_day(day))
    }

    fn time(&self, at: usize) -> Option<(Sort, String, usize, usize, Option<NaiveDate>)> {
        let token = self.tokens.get(at)?;
        let text = token.word.text.as_str();
        let next = self.text(at + 1);
        let time =
            |minutes: u32, to: usize| Some((Sort::Time, format!("t{minutes}"), at, to, None));
        if matches!(text, "noon" | "midday" | "mittag" | "mediodía" | "midi")
            && token.kind == Kind::Word
        {
            return time(720, at + 1);
        }
        let (hours, minutes, suffix) = clock(text)?;
        let is_later = |suffix: &str| suffix.starts_with('p') && hours < 12;
        let total = |suffix: &str| {
            (hours + if is_later(suffix) { 12 } else { 0 }) * 60 + minutes.unwrap_or(0)
        };
        match suffix {
            "am" | "pm" | "a.m" | "p.m" => time(total(suffix), at + 1),
            "h" if self.language == Language::French => time(total(""), at + 1),
            "" => {
                if matches!(next, "am" | "pm") && self.language == Language::English {
                    return time(total(next), at + 2);
                }
                if matches!(next, "uhr" | "heures" | "h" | "o'clock") {
                    return time(total(""), at + 2);
                }
                let previous = self.before(at, 1);
                let is_at = (matches!(previous, "at") && self.language == Language::English)
                    || (previous == "um" && self.language == Language::German)
                    || (matches!(previous, "las") && self.language == Language::Spanish);
                (minutes.is_some() || (is_at && hours <= 24))
                    .then(|| time(total(""), at + 1))
                    .flatten()
            }
            _ => None,
        }
    }

    fn number(&self, at: usize) -> Option<(Sort, String, usize, usize, Option<NaiveDate>)> {
        let token = self.tokens.get(at)?;
        let text = token.word.text.as_str();
        if token.kind == Kind::Number {
            let is_version = text.starts_with('v')
                || text.matches('.').count() >= 2
                || matches!(
                    self.before(at, 1),
                    "version"
                        | "release"
                        | "versión"
                        | "postgres"
                        | "node"
                        | "python"
                        | "java"
                        | "ruby"
                        | "go"
                        | "rust"
                );
            if is_version {
                return Some((
                    Sort::Version,
                    format!("v{}", text.trim_start_matches('v')),
                    at,
                    at + 1,
                    None,
                ));
            }
            let digits: String = text
                .chars()
                .filter(|c| c.is_ascii_digit() || *c == '.')
                .collect();
            let suffix = text.trim_start_matches(|c: char| {
                c.is_ascii_digit() || matches!(c, '.' | ',' | ':' | '/' | '-')
            });
            let unit = if suffix.is_empty() {
                self.unit(at)
            } else {
                suffix.to_owned()
            };
            let key = if suffix.is_empty() {
                digits
            } else {
                text.to_owned()
            };
            return Some((Sort::Amount(unit), format!("n{key}"), at, at + 1, None));
        }
        let number = token.word.known?.number?;
        let is_ours =
            token.kind == Kind::Word && self.language != Language::Other && !token.is_quoted;
        is_ours.then(|| {
            (
                Sort::Amount(self.unit(at)),
                format!("n{number}"),
                at,
                at + 1,
                None,
            )
        })
    }

    /// Of what the number counts: the word or sign beside it.
    fn unit(&self, at: usize) -> String {
        let sign = |text: &str| {
            let name = match text {
                "€" | "euro" | "euros" | "eur" => "€",
                "$" | "dollar" | "dollars" | "dólares" | "usd" => "$",
                "£" | "pound" | "pounds" => "£",
                "%" | "percent" | "prozent" => "%",
                _ => return None,
            };
            Some(name.to_owned())
        };
        if let Some(sign) = sign(self.before(at, 1)).or_else(|| sign(self.text(at + 1))) {
            return sign;
        }
        let next = self.tokens.get(at + 1);
        let word = next.filter(|token| token.kind == Kind::Word && token.word.stem.is_some());
        word.map_or(String::new(), |token| {
            let text = &token.word.text;
            text.trim_end_matches('s').to_owned()
        })
    }
}

/// `10`, `10:30`, `5pm`, `10h30`: hours, minutes, what follows.
fn clock(text: &str) -> Option<(u32, Option<u32>, &str)> {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let hours: u32 = text[..end].parse().ok().filter(|hours| *hours <= 24)?;
    let rest = &text[end..];
    let minutes = rest
        .strip_prefix([':', 'h', '.'])
        .filter(|rest| rest.len() >= 2 && rest.is_char_boundary(2));
    match minutes.and_then(|rest| {
        Some((
            rest[..2].parse::<u32>().ok().filter(|m| *m < 60)?,
            &rest[2..],
        ))
    }) {
        Some((_, _)) if rest.starts_with('.') && !rest.ends_with('m') => None,
        Some((minutes, suffix)) => Some((hours, Some(minutes), suffix)),
        None => Some((hours, None, rest)),
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
