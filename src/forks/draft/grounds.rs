//! Index of a conversation for the checks of an answer.

use std::collections::HashSet;

use chrono::{Datelike, NaiveDate};
use openvibe_extract::{Material, Reading, Speaker, Superseded, keywords, reads_like_a_decision};

use super::words::{
    COMMITMENTS, FUNCTION_WORDS, NEGATIONS, NO_REFUSALS, NUMBER_WORDS, PLAIN_NOES, REFUSALS,
    TIME_WORDS, UNSETTLED, has, has_phrase, tokens, weekday_in,
};

/// Maximum number of characters read per message.
const LINE_CHARS_MAX: usize = 20_000;
/// Number of lines after an item's sources in which its owner can refuse.
const REFUSAL_REACH: usize = 4;
/// Numbers up to this one are not checked: they are days, hours, or often written as words.
const SMALL_NUMBER_MAX: u64 = 31;

/// An indexed conversation.
pub(super) struct SourceIndex<'a> {
    pub(super) material: &'a Material,
    reading: &'a Reading,
    /// Words of each line.
    lines: Vec<Vec<String>>,
    /// Keywords that occur only in assistants' lines that nobody agreed with.
    only_agents: HashSet<String>,
    superseded: Vec<Superseded>,
    numbers: HashSet<String>,
    /// Whether larger numbers are written as words.
    spells_numbers: bool,
    /// Whether the language is one with known cue words.
    is_known_language: bool,
}

impl<'a> SourceIndex<'a> {
    pub(super) fn new(material: &'a Material, reading: &'a Reading) -> Self {
        let read = |text: &str| -> String { text.chars().take(LINE_CHARS_MAX).collect() };
        let texts: Vec<String> = material.lines.iter().map(|line| read(&line.text)).collect();
        let lines: Vec<Vec<String>> = texts.iter().map(|text| tokens(text)).collect();
        let (mut agents, mut others) = (HashSet::new(), HashSet::new());
        for (at, text) in texts.iter().enumerate() {
            let is_idle = is_agent(material, at) && !reading.is_adopted(at);
            let into = if is_idle { &mut agents } else { &mut others };
            into.extend(keywords(text));
        }
        let all = lines.iter().flatten();
        let (known, count) = all.clone().fold((0, 0), |(known, count), word| {
            (
                known + usize::from(FUNCTION_WORDS.contains(word.as_str())),
                count + 1,
            )
        });
        Self {
            only_agents: &agents - &others,
            superseded: valid(reading.superseded()),
            spells_numbers: lines
                .iter()
                .flatten()
                .any(|word| NUMBER_WORDS.contains(word.as_str())),
            numbers: texts.iter().flat_map(|text| ways(text)).collect(),
            is_known_language: known * 12 >= count,
            material,
            reading,
            lines,
        }
    }

    pub(super) fn is_agent(&self, line: usize) -> bool {
        is_agent(self.material, line)
    }

    /// Whether the words of a name occur consecutively in a message.
    pub(super) fn is_said(&self, name: &str) -> bool {
        let name = tokens(name);
        !name.is_empty() && self.lines.iter().any(|line| has(line, &name))
    }

    /// The corrected value that a text still states. Allowed if the text also states the
    /// correction, or if a source after the correction uses the same word for something else.
    pub(super) fn superseded_in(&self, text: &str, sources: &[usize]) -> Option<&Superseded> {
        let words = tokens(text);
        self.superseded.iter().find(|value| {
            has(&words, &tokens(&value.old))
                && !has(&words, &tokens(&value.new))
                && !sources.iter().any(|line| self.is_said_anew(value, *line))
        })
    }

    fn is_said_anew(&self, value: &Superseded, line: usize) -> bool {
        line > value.line
            && !self.is_agent(line)
            && self.lines.get(line).is_some_and(|words| {
                has(words, &tokens(&value.old))
                    && !has(words, &tokens(&value.new))
                    && !words.iter().any(|word| NEGATIONS.contains(word.as_str()))
            })
    }

    /// The corrected weekday that a due date is based on.
    pub(super) fn superseded_due(&self, due: NaiveDate, sources: &[usize]) -> Option<&Superseded> {
        self.superseded.iter().find(|value| {
            weekday_in(&value.old) == Some(due.weekday())
                && weekday_in(&value.new).is_some_and(|new| new != due.weekday())
                && !sources.iter().any(|line| self.is_said_anew(value, *line))
                && sources.iter().any(|line| {
                    let words = self.lines.get(*line);
                    words.is_some_and(|words| has(words, &tokens(&value.old)))
                })
        })
    }

    /// Whether there are lines and all are assistants' lines that nobody agreed with.
    pub(super) fn are_idle(&self, lines: &[usize]) -> bool {
        let is_idle = |line: &usize| self.is_agent(*line) && !self.reading.is_adopted(*line);
        !lines.is_empty() && lines.iter().all(is_idle)
    }

    /// Whether most keywords of a text come only from assistants' lines that nobody agreed with.
    pub(super) fn only_agents_said(&self, text: &str) -> bool {
        let words = keywords(text);
        let theirs = words
            .iter()
            .filter(|word| self.only_agents.contains(*word))
            .count();
        theirs >= 2 && theirs * 3 >= words.len() * 2
    }

    /// Whether a text attributes a view to an assistant and does not present it as settled.
    pub(super) fn is_told_as_view(&self, text: &str) -> bool {
        let words = tokens(text);
        let mut agents = self
            .material
            .lines
            .iter()
            .filter_map(|line| match &line.speaker {
                Speaker::Agent(name) => Some(tokens(name)),
                Speaker::Person(_) => None,
            });
        let names_one = agents.any(|name| !name.is_empty() && has(&words, &name));
        names_one && (is_unsettled(text) || !reads_like_a_decision(text))
    }

    /// The first number of a text that does not occur in the conversation in any notation.
    pub(super) fn unknown_number(&self, text: &str) -> Option<String> {
        if self.spells_numbers {
            return None;
        }
        let years = self.material.lines.iter().map(|line| line.day.year());
        let (first, last) = (years.clone().min().unwrap_or(0), years.max().unwrap_or(0));
        let is_said = |number: &str| {
            let is_year = number
                .parse()
                .is_ok_and(|n: i32| (first - 1..=last + 2).contains(&n));
            let is_small = number.parse::<u64>().is_ok_and(|n| n <= SMALL_NUMBER_MAX);
            is_year || is_small || self.numbers.contains(&significant(number))
        };
        let unknown = numbers(text).into_iter().find(|groups| {
            let is_date = groups.len() > 1 && groups.iter().all(|group| is_said(group));
            !is_date && !is_said(&groups.concat())
        });
        unknown.map(|groups| groups.join("."))
    }

    /// Whether lines accept a task, request it, or name its owner; always true for unknown
    /// languages.
    pub(super) fn commits(&self, sources: &[usize], owner: Option<usize>) -> bool {
        if !self.is_known_language {
            return true;
        }
        let person = owner.and_then(|at| self.material.people.get(at));
        let names: Vec<Vec<String>> = person.map_or(Vec::new(), |person| {
            let name = tokens(&person.name);
            let first = name.first().cloned().into_iter().collect();
            vec![tokens(&person.handle), name, first]
        });
        let mut lines = sources.iter().filter_map(|at| self.lines.get(*at));
        lines.any(|line| {
            has_phrase(line, &COMMITMENTS)
                || names.iter().any(|name| !name.is_empty() && has(line, name))
        })
    }

    /// Whether the last message of `person` within a few lines after the sources is a refusal.
    pub(super) fn refused(&self, person: usize, sources: &[usize]) -> bool {
        let Some(last) = sources.iter().max() else {
            return false;
        };
        let is_own = |at: usize| self.material.lines[at].speaker == Speaker::Person(person);
        // An item can cite the refusal itself as a source.
        let asked = if is_own(*last) && sources.len() > 1 {
            last.saturating_sub(1)
        } else {
            *last
        };
        let end = (asked + 1 + REFUSAL_REACH).min(self.lines.len());
        let own = (asked + 1..end).rev().find(|at| is_own(*at));
        own.is_some_and(|at| {
            let words = &self.lines[at];
            let is_plain_no = words
                .first()
                .is_some_and(|word| PLAIN_NOES.contains(word.as_str()));
            (is_plain_no || has_phrase(words, &REFUSALS)) && !has_phrase(words, &NO_REFUSALS)
        })
    }

    /// Whether the lines, or the adjacent ones, mention any time; always true for unknown
    /// languages.
    pub(super) fn speaks_of_time(&self, sources: &[usize]) -> bool {
        let is_time = |word: &String| {
            let day = word.trim_end_matches(char::is_alphabetic);
            let is_day = day.parse().is_ok_and(|n: u64| n <= SMALL_NUMBER_MAX);
            is_day || TIME_WORDS.contains(word.as_str())
        };
        let near = sources.iter().flat_map(|at| at.saturating_sub(1)..=at + 1);
        let mut words = near.filter_map(|at| self.lines.get(at)).flatten();
        !self.is_known_language || words.any(is_time)
    }

    /// Removes URLs that do not occur in the conversation.
    pub(super) fn without_foreign_links(&self, text: &str) -> String {
        let mut kept = text.to_owned();
        for start in ["https://", "http://", "www."] {
            let mut from = 0;
            while let Some(at) = kept[from..].find(start).map(|at| at + from) {
                let is_end =
                    |c: char| c.is_whitespace() || matches!(c, ')' | '>' | '"' | ']' | '`');
                let end = kept[at..]
                    .find(is_end)
                    .map_or(kept.len(), |length| at + length);
                let link = kept[at..end].trim_end_matches(['.', ',', ';', ':', '!', '?']);
                if self
                    .material
                    .lines
                    .iter()
                    .any(|line| line.text.contains(link))
                {
                    from = end;
                } else {
                    kept.replace_range(at..end, "");
                    from = at;
                }
            }
        }
        if kept == text {
            return kept;
        }
        let kept = kept.replace("()", "").replace("<>", "");
        kept.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    pub(super) fn first_day(&self) -> Option<NaiveDate> {
        self.material.lines.iter().map(|line| line.day).min()
    }

    pub(super) fn last_day(&self) -> Option<NaiveDate> {
        self.material.lines.iter().map(|line| line.day).max()
    }
}

fn is_agent(material: &Material, line: usize) -> bool {
    let line = material.lines.get(line);
    line.is_some_and(|line| matches!(line.speaker, Speaker::Agent(_)))
}

fn is_unsettled(text: &str) -> bool {
    has_phrase(&tokens(text), &UNSETTLED)
}

/// Removes values that a later correction restored.
fn valid(all: &[Superseded]) -> Vec<Superseded> {
    let is_back = |value: &Superseded| {
        let old = tokens(&value.old);
        old.is_empty()
            || all
                .iter()
                .any(|later| later.line >= value.line && tokens(&later.new) == old)
    };
    all.iter()
        .filter(|value| !is_back(value))
        .cloned()
        .collect()
}

/// Numbers in digits, each split into groups: `1.500` and `14:45` have two groups each. Digits
/// inside a word (`v2`, `m3`) are not numbers.
fn numbers(text: &str) -> Vec<Vec<String>> {
    let mut found: Vec<Vec<String>> = Vec::new();
    let mut groups = vec![String::new()];
    let mut before = ' ';
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let follows = chars.peek().is_some_and(char::is_ascii_digit);
        let is_separator = matches!(c, '.' | ',' | '\'' | ':' | '\u{a0}' | '\u{202f}');
        let is_begun = groups.last().is_some_and(|group| !group.is_empty());
        if c.is_ascii_digit() && (is_begun || groups.len() > 1 || !before.is_alphanumeric()) {
            if let Some(group) = groups.last_mut() {
                group.push(c);
            }
        } else if is_begun && is_separator && follows {
            groups.push(String::new());
        } else if is_begun {
            found.push(std::mem::replace(&mut groups, vec![String::new()]));
        }
        before = c;
    }
    if groups.last().is_some_and(|group| !group.is_empty()) {
        found.push(groups);
    }
    found
}

/// All notations of the numbers in a text: whole, by group, and joined with the next number, as in
/// `1 500`.
fn ways(text: &str) -> Vec<String> {
    let numbers = numbers(text);
    let whole: Vec<String> = numbers.iter().map(|groups| groups.concat()).collect();
    let pairs = whole.windows(2).map(<[String]>::concat);
    let all = pairs
        .chain(whole.iter().cloned())
        .chain(numbers.into_iter().flatten());
    all.map(|number| significant(&number)).collect()
}

/// Removes leading and trailing zeros, so that `12k`, `12,000`, and `12.0` are equal.
fn significant(number: &str) -> String {
    let cut = number.trim_start_matches('0').trim_end_matches('0');
    if cut.is_empty() {
        "0".to_owned()
    } else {
        cut.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forks::draft::tests::{Talk, day, material};

    fn corrected(old: &str, new: &str, line: usize) -> Superseded {
        Superseded {
            old: old.to_owned(),
            new: new.to_owned(),
            line,
        }
    }

    fn with_grounds<T>(superseded: &[Superseded], ask: impl Fn(&SourceIndex<'_>) -> T) -> T {
        let material = material(&[
            Talk::Person("Ada", "When do we launch?"),
            Talk::Person("Bo", "I write the notes by Monday."),
            Talk::Person("Mia", "Not Monday, the launch is on Thursday."),
            Talk::Agent("Vibe", "Monday would be fine."),
            Talk::Person("Bo", "The retro is on Monday."),
            Talk::Person("Ada", "So no launch on Monday then."),
        ]);
        let reading = Reading::new(&material);
        let mut grounds = SourceIndex::new(&material, &reading);
        grounds.superseded = valid(superseded);
        ask(&grounds)
    }

    #[test]
    fn a_corrected_value_is_allowed_only_beside_the_new_one_or_for_another_subject() {
        with_grounds(&[corrected("Monday", "Thursday", 2)], |grounds| {
            let told =
                |text: &str, sources: &[usize]| grounds.superseded_in(text, sources).is_some();
            assert!(told("Launch on Monday", &[]));
            assert!(told("Launch on MONDAY!", &[1]));
            assert!(told("Launch on Monday", &[2]));
            assert!(
                told("Launch on Monday", &[3]),
                "an assistant's message restores nothing"
            );
            assert!(told("Launch on Monday", &[5]), "a denial restores nothing");
            assert!(!told("Launch moved from Monday to Thursday", &[]));
            assert!(!told("Retro on Monday", &[4]));
            assert!(!told("Launch on Thursday", &[]));
            assert!(!told("Mondays", &[]));
        });
    }

    #[test]
    fn a_reinstated_value_is_valid() {
        let twice = [
            corrected("Monday", "Thursday", 2),
            corrected("Thursday", "Monday", 4),
        ];
        with_grounds(&twice, |grounds| {
            assert_eq!(grounds.superseded_in("Launch on Monday", &[]), None);
            assert!(grounds.superseded_in("Launch on Thursday", &[]).is_some());
        });
        with_grounds(&[corrected("!", "x", 1)], |grounds| {
            assert_eq!(grounds.superseded_in("Launch!", &[]), None);
        });
    }

    #[test]
    fn a_due_date_derived_from_a_corrected_weekday_is_detected() {
        with_grounds(&[corrected("Monday", "Thursday", 2)], |grounds| {
            assert!(grounds.superseded_due(day(23), &[1]).is_some());
            assert!(grounds.superseded_due(day(26), &[1]).is_none());
            assert!(grounds.superseded_due(day(23), &[4]).is_none());
            assert!(grounds.superseded_due(day(23), &[0]).is_none());
        });
    }

    #[test]
    fn numbers_are_distinguished_from_words_with_digits() {
        let read = |text: &str| {
            let shown = |groups: &Vec<String>| groups.join("|");
            numbers(text)
                .iter()
                .map(shown)
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(read("1.500 and 14:45 and 12k"), "1|500 14|45 12");
        assert_eq!(ways("1 500"), ["15", "1", "5", "1", "5"]);
        assert_eq!(read("v2.1 m3 a1b"), "1");
        assert_eq!(read("700. Then 20"), "700 20");
        assert_eq!(significant("1500"), significant("15"));
        assert_eq!(significant("0"), "0");
    }

    #[test]
    fn a_refusal_is_the_last_statement_of_the_requested_person() {
        let refused = |answer: &'static str| {
            let material = material(&[
                Talk::Person("Ada", "Hm"),
                Talk::Person("Ada", "Bo, can you book it?"),
                Talk::Person("Bo", answer),
                Talk::Person("Ada", "I see."),
            ]);
            let reading = Reading::new(&material);
            SourceIndex::new(&material, &reading).refused(1, &[1])
        };
        for answer in [
            "No.",
            "Sorry, I can't.",
            "Nein, keine Zeit.",
            "No puedo.",
            "Je ne peux pas.",
        ] {
            assert!(refused(answer), "{answer}");
        }
        for answer in [
            "No problem!",
            "Sure, I can't wait.",
            "Yes",
            "Ich mache das.",
            "not before noon",
        ] {
            assert!(!refused(answer), "{answer}");
        }
    }
}
