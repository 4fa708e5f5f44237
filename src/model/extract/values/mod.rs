//! Days, times, amounts, and versions in a sentence: possible due dates and replaceable values.

mod amounts;
mod days;

use chrono::{Days, NaiveDate};

use super::{cues::Language, tokens::Token};

/// Values of the same kind can replace each other.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Sort {
    Day,
    Month,
    Time,
    Version,
    /// A number and its unit, if any.
    Amount(String),
}

impl Sort {
    /// Amounts of different units do not replace each other.
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
    /// Equal for equal values, regardless of notation.
    pub(crate) key: String,
    /// Token range; for an amount, only the number.
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// Start of the preceding words that belong to it: "by the".
    pub(crate) lead: usize,
    pub(crate) date: Option<NaiveDate>,
    /// Written without "on", like "tomorrow".
    pub(crate) is_bare: bool,
    /// "by Friday" or similar.
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

/// Kind, key, token range, and date.
type Found = (Sort, String, usize, usize, Option<NaiveDate>);

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
            // On a Friday, "by Friday" means the same day and "on Friday" the next one.
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
}
