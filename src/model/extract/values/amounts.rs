//! Times of day, amounts, and versions.

use super::super::{cues::Language, tokens::Kind};
use super::{Found, Reader, Sort};

impl Reader<'_> {
    pub(super) fn time(&self, at: usize) -> Option<Found> {
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

    pub(super) fn number(&self, at: usize) -> Option<Found> {
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

    /// Unit of a number: the word or symbol next to it.
    pub(super) fn unit(&self, at: usize) -> String {
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

/// `10`, `10:30`, `5pm`, `10h30`: hours, minutes, and the remaining text.
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
