//! Parses search queries: words, "phrases", `-without`, and filters such as `from:ada`.

use chrono::NaiveDate;

use super::{
    spellings::spellings,
    words::{composed, words},
};
use crate::db::dialect::search::Phrase;

/// Maximum length of a query in UTF-16 code units.
pub const QUESTION_UNITS_MAX: usize = 500;
/// Minimum length at which the last word also matches longer words that start with it.
const PREFIX_CHARS_MIN: usize = 2;

/// A property of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Has {
    File,
    Link,
    Code,
    Reaction,
    /// The message is a resolution message.
    Result,
}

impl Has {
    pub fn parse(text: &str) -> Option<Self> {
        Some(match text.to_ascii_lowercase().as_str() {
            "file" => Self::File,
            "link" => Self::Link,
            "code" => Self::Code,
            "reaction" => Self::Reaction,
            "result" => Self::Result,
            _ => return None,
        })
    }
}

/// A filter of a query. Several `From` or `In` filters are alternatives; all other filters must
/// match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Filter {
    /// A handle, or `me`.
    From(String),
    /// A channel name or ID.
    In(String),
    Has(Has),
    Before(NaiveDate),
    After(NaiveDate),
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Question {
    /// The text to find, without filters or exclusions.
    pub text: String,
    /// Groups of a phrase and its other spellings. One phrase of each group must match.
    pub with: Vec<Vec<Phrase>>,
    /// Phrases that must not match.
    pub without: Vec<Phrase>,
    pub filters: Vec<Filter>,
    pub excluded: Vec<Filter>,
}

impl Question {
    pub fn is_empty(&self) -> bool {
        self.with.is_empty()
            && self.without.is_empty()
            && self.filters.is_empty()
            && self.excluded.is_empty()
    }
}

/// Parses a day as `YYYY-MM-DD`.
pub fn parse_day(text: &str) -> Option<NaiveDate> {
    let is_plain = text.len() == 10
        && text
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b'-');
    NaiveDate::parse_from_str(text, "%Y-%m-%d")
        .ok()
        .filter(|_| is_plain)
}

fn parse_filter(key: &str, value: &str) -> Option<Filter> {
    let value = value.trim();
    if value.is_empty() {
        return None;
    }
    Some(match key.to_ascii_lowercase().as_str() {
        "from" => Filter::From(value.trim_start_matches('@').to_lowercase()),
        "in" => Filter::In(value.trim_start_matches('#').to_lowercase()),
        "has" => Filter::Has(Has::parse(value)?),
        "before" => Filter::Before(parse_day(value)?),
        "after" => Filter::After(parse_day(value)?),
        _ => return None,
    })
}

fn phrase(text: &str) -> Option<(Phrase, bool)> {
    let found = words(&composed(text));
    let ends_alone = found.last()?.is_alone;
    let phrase = Phrase {
        words: found.into_iter().map(|word| word.text).collect(),
        is_prefix: false,
    };
    Some((phrase, ends_alone))
}

fn is_quote(c: char) -> bool {
    matches!(c, '"' | '“' | '”' | '„' | '«' | '»')
}

/// Splits a text at the closing quote, or at its end, and drops the quote.
fn quoted(text: &str) -> (&str, &str) {
    match text.char_indices().find(|(_, c)| is_quote(*c)) {
        Some((at, quote)) => (&text[..at], &text[at + quote.len_utf8()..]),
        None => (text, ""),
    }
}

/// Parses a query. Every text is valid; unknown filters are treated as words.
pub fn parse(text: &str) -> Question {
    let mut question = Question::default();
    let mut with: Vec<Phrase> = Vec::new();
    // True while the last phrase of `with` can be the beginning of a longer word.
    let mut is_open = false;
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let after_minus = rest
            .strip_prefix('-')
            .filter(|after| after.starts_with(|c: char| !c.is_whitespace()));
        let is_negated = after_minus.is_some();
        rest = after_minus.unwrap_or(rest);
        let end = rest
            .find(|c: char| c.is_whitespace() || is_quote(c))
            .unwrap_or(rest.len());
        let (mut word, after) = rest.split_at(end);
        let mut next = after;
        let mut is_phrase = false;
        let mut filter = None;
        if let Some(inner) = after.strip_prefix(is_quote) {
            if word.is_empty() {
                (word, next) = quoted(inner);
                is_phrase = true;
            } else if let Some(key) = word.strip_suffix(':') {
                let (value, following) = quoted(inner);
                filter = parse_filter(key, value);
                if filter.is_some() {
                    next = following;
                }
            }
        } else if let Some((key, value)) = word.split_once(':') {
            filter = parse_filter(key, value);
        }
        rest = next.trim_start();
        if let Some(filter) = filter {
            let is_kept = !matches!(filter, Filter::Before(_) | Filter::After(_));
            if is_negated && is_kept {
                question.excluded.push(filter);
            } else {
                question.filters.push(filter);
            }
        } else if let Some((phrase, ends_alone)) = phrase(word) {
            if is_negated {
                question.without.extend(spellings(phrase));
            } else {
                question.text.push_str(word);
                question.text.push(' ');
                let letters = phrase.words.last().map_or(0, |w| w.chars().count());
                is_open = !is_phrase && !ends_alone && letters >= PREFIX_CHARS_MIN;
                with.push(phrase);
            }
        }
    }
    if let Some(last) = with.last_mut() {
        last.is_prefix = is_open;
    }
    question.with = with.into_iter().map(spellings).collect();
    question
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The phrases as they were typed.
    fn typed(groups: &[Vec<Phrase>]) -> Vec<String> {
        shown(
            &groups
                .iter()
                .map(|group| group[0].clone())
                .collect::<Vec<_>>(),
        )
    }

    fn shown(phrases: &[Phrase]) -> Vec<String> {
        phrases
            .iter()
            .map(|p| p.words.join(" ") + if p.is_prefix { "*" } else { "" })
            .collect()
    }

    #[test]
    fn words_phrases_and_exclusions_are_parsed() {
        for (text, with, without) in [
            ("deploy plan", vec!["deploy", "plan*"], vec![]),
            ("\"red apple\" pie", vec!["red apple", "pie*"], vec![]),
            ("pie \"Red Apple\"", vec!["pie", "red apple"], vec![]),
            ("“red apple”", vec!["red apple"], vec![]),
            (
                "pie -apple -\"two words\"",
                vec!["pie*"],
                vec!["apple", "two words"],
            ),
            ("foo-bar", vec!["foo bar*"], vec![]),
            ("fork_id", vec!["fork id*"], vec![]),
            ("a -", vec!["a"], vec![]),
            ("x\"y z\"", vec!["x", "y z"], vec![]),
            ("\"open end", vec!["open end"], vec![]),
            ("東京", vec!["東 京"], vec![]),
            ("!!! \"\" ---", vec![], vec![]),
            (
                "NEAR(a b) OR NOT col:x*",
                vec!["near a", "b", "or", "not", "col x"],
                vec![],
            ),
            (
                "has:nonsense before:today",
                vec!["has nonsense", "before today*"],
                vec![],
            ),
            ("from: x:y", vec!["from", "x y"], vec![]),
        ] {
            let question = parse(text);
            assert_eq!(typed(&question.with), with, "{text}");
            assert_eq!(shown(&question.without), without, "{text}");
            assert!(question.filters.is_empty(), "{text}");
        }
    }

    #[test]
    fn filters_are_extracted() {
        let question = parse(
            "FROM:@Ada in:#general has:link -has:file before:2026-02-03 after:2026-01-02 from:\"me\" depl -from:bo",
        );
        let day = |text| parse_day(text).unwrap();
        assert_eq!(
            question.filters,
            [
                Filter::From("ada".to_owned()),
                Filter::In("general".to_owned()),
                Filter::Has(Has::Link),
                Filter::Before(day("2026-02-03")),
                Filter::After(day("2026-01-02")),
                Filter::From("me".to_owned()),
            ]
        );
        assert_eq!(
            question.excluded,
            [Filter::Has(Has::File), Filter::From("bo".to_owned())]
        );
        assert_eq!(typed(&question.with), ["depl*"]);
    }

    #[test]
    fn dates_are_parsed() {
        assert!(parse_day("2026-02-28").is_some());
        for bad in ["2026-02-30", "2026-2-3", "+026-02-03", "2026-02-03T", ""] {
            assert!(parse_day(bad).is_none(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn search_input_contains_no_operators_of_the_engine(text in "(AND|OR|NOT|NEAR|from:|in:|has:|before:|[-\"“”:*()^+{}=&|!'\\\\<>@#a-zé東🎉0-9 \t\0]){0,40}") {
            let question = parse(&text);
            for phrase in question.with.iter().flatten().chain(&question.without) {
                prop_assert!(!phrase.words.is_empty());
                for word in &phrase.words {
                    prop_assert!(word.chars().all(|c| !c.is_ascii() || c.is_ascii_alphanumeric()), "{word:?}");
                }
            }
        }

        #[test]
        fn any_text_is_a_valid_search_query(text in any::<String>()) {
            parse(&text);
        }
    }
}
