//! Checks a model's items against the messages, and drops everything that the messages do not support.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::LazyLock,
};

use openvibe_extract::{
    Act, Language, Line, Material, Reading, Speaker, ValueKind, content_words, detect,
    plain_sentences, values,
};
use regex::Regex;

use crate::{
    memory::{content::looks_like_secret, entry::MemoryKind},
    model::estimate_tokens,
    replies::lines::one_line,
};

use super::{
    draft::{RawDraft, RawItem},
    item::{Item, SegmentPerson, SourceLine, kind_of, rank},
};

pub(super) const ITEM_CHARS_MAX: usize = 240;
const GIST_CHARS_MAX: usize = 240;
/// Maximum size, in characters, of the gist of an answer that is not JSON.
const PROSE_CHARS_MAX: usize = 1_000;
const SOURCES_MAX: usize = 20;
const ITEMS_OF_KIND_MAX: usize = 12;
const SEGMENT_TOKENS_MAX: u64 = 450;
/// Minimum length, in characters, of a word that identifies its message.
const TELLING_WORD_CHARS: usize = 4;
/// Percentages of an item's words: the minimum that must occur in its source, and the minimum in one sentence of the agent's
/// instructions for the item to count as a repetition of the sentence.
const SOURCE_SHARE: usize = 50;
const SYSTEM_SHARE: usize = 80;
/// Minimum percentage of the words of an agent's statement that must occur in a memory entry that the agent knew for the statement to
/// count as a repetition of the entry.
const ECHO_SHARE: usize = 60;

static REFERENCES: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(concat!(
        r"https?://[^\s<>()\[\]]+|`[^`\n]{2,80}`|#\d+\b|\b[A-Za-z][A-Za-z0-9]*-\d+\b|",
        r"(?:^|[\s(])((?:~|\.{1,2})?(?:/[\w.@-]+){2,}/?|[\w.-]+(?:/[\w.-]+)*/[\w-]+\.\w{1,8})\b|",
        // A number with a unit.
        r"[€$£]\s?\d(?:[\d.,]*\d)?|\b\d(?:[\d.,]*\d)?\s?(?:[%€$£]|(?:CHF|EUR|GBP|USD|[kKMGT]i?B|[mun]?s|min|h|[kcm]?m|[mk]?g|",
        r"[mcd]?l|[kM]?Wh?|m?A|k?V|°[CF]|px|dB|[kMG]?Hz|rpm)\b)",
    ))
    .ok()
});

/// The messages of a segment, indexed.
pub(super) struct Source<'a> {
    lines: &'a [SourceLine],
    people: &'a [SegmentPerson],
    /// Words of memory texts that agents knew when they wrote a message, with the position of the message.
    recalled: Vec<(usize, HashSet<String>)>,
    language: Language,
    words: Vec<HashSet<String>>,
    /// Words that occur in only one message, each with the position of that message.
    telling: HashMap<String, usize>,
    lower: Vec<String>,
}

/// Content of a segment as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Checked {
    pub gist: String,
    pub items: Vec<Item>,
    /// Number of items that were dropped, by kind.
    pub left_out: BTreeMap<String, i64>,
}

impl Checked {
    /// Drops items and counts them by kind.
    pub(super) fn leave_out(&mut self, is_dropped: impl Fn(&Item) -> bool) {
        for item in self.items.extract_if(.., |item| is_dropped(item)) {
            *self.left_out.entry(item.kind.to_string()).or_default() += 1;
        }
    }
}

impl<'a> Source<'a> {
    /// Indexes the messages. `recalled` contains memory texts that an agent knew when it wrote the message at the given position.
    pub(super) fn new(
        lines: &'a [SourceLine],
        people: &'a [SegmentPerson],
        recalled: &[(usize, String)],
    ) -> Self {
        let all: Vec<&str> = lines.iter().map(|line| &*line.text).collect();
        let language = detect(&all.join("\n"));
        let words: Vec<HashSet<String>> = (lines.iter())
            .map(|line| content_words(&line.text, language).into_iter().collect())
            .collect();
        let lower: Vec<String> = lines.iter().map(|line| line.text.to_lowercase()).collect();
        let mut found: HashMap<String, Option<usize>> = HashMap::new();
        for (at, text) in lower.iter().enumerate() {
            for word in plain_words(text) {
                let entry = found.entry(word.to_owned()).or_insert(Some(at));
                *entry = entry.filter(|first| *first == at);
            }
        }
        let telling = found.into_iter().filter_map(|(word, at)| Some((word, at?)));
        Self {
            lines,
            people,
            recalled: (recalled.iter())
                .map(|(at, text)| (*at, content_words(text, language).into_iter().collect()))
                .collect(),
            language,
            words,
            telling: telling.collect(),
            lower,
        }
    }

    fn content_words(&self, text: &str) -> HashSet<String> {
        content_words(text, self.language).into_iter().collect()
    }

    /// Finds the message that contains the most words of the text, if it contains enough of them.
    fn nearest(&self, text: &str) -> Option<usize> {
        let words = self.content_words(text);
        let shared = |at: usize| self.words[at].intersection(&words).count();
        let best = (0..self.lines.len()).max_by_key(|at| shared(*at))?;
        (!words.is_empty() && shared(best) * 100 >= words.len() * SOURCE_SHARE).then_some(best)
    }

    /// Checks whether each value and name in the text occurs in these messages or is the name of one of their authors.
    fn supports(&self, text: &str, sources: &[usize]) -> bool {
        let says = |needle: &str| {
            sources.iter().any(|at| {
                has_value(&self.lower[*at], needle)
                    || has_value(&self.lines[*at].name.to_lowercase(), needle)
            })
        };
        let mut known: HashSet<(ValueKind, String)> = HashSet::new();
        for at in sources {
            let line = &self.lines[*at];
            let found = values(&line.text, self.language, line.day);
            known.extend(found.into_iter().map(|value| (value.kind, value.key)));
        }
        let day = sources.last().map(|at| self.lines[*at].day);
        let restated: Vec<String> = day.map_or_else(Vec::new, |day| {
            (values(text, self.language, day).into_iter())
                .filter(|value| known.contains(&(value.kind, value.key.clone())))
                .map(|value| value.text.to_lowercase())
                .collect()
        });
        let values_hold = text
            .split_whitespace()
            .map(trimmed)
            .filter(|word| is_value(word))
            .all(|word| {
                let word = word.to_lowercase();
                says(&word) || restated.iter().any(|value| value.contains(&word))
            });
        let lower = text.to_lowercase();
        let people = self.people.iter().map(|person| &person.name);
        let names = self.lines.iter().map(|line| &line.name).chain(people);
        let mut names =
            names.flat_map(|name| [name.as_str(), name.split(' ').next().unwrap_or(name)]);
        values_hold
            && names.all(|name| {
                let name = name.to_lowercase();
                let is_named = |at: &usize| {
                    has_word(&self.lower[*at], &name)
                        || has_word(&self.lines[*at].name.to_lowercase(), &name)
                };
                name.chars().count() < 2 || !has_word(&lower, &name) || sources.iter().any(is_named)
            })
    }

    /// Finds the messages that state a sentence: the named ones, otherwise the nearest one. Adds messages that are the only ones to
    /// contain one of the sentence's words. Returns an empty list if the named or nearest messages do not support the sentence.
    pub(super) fn supporting(&self, text: &str, named: Vec<usize>) -> Vec<usize> {
        let mut sources = named;
        sources.sort_unstable();
        sources.dedup();
        if sources.is_empty() {
            sources.extend(self.nearest(text));
        }
        sources.truncate(SOURCES_MAX);
        if sources.is_empty() || !self.supports(text, &sources) {
            return Vec::new();
        }
        for word in plain_words(&text.to_lowercase()) {
            if let Some(at) = self.telling.get(word).filter(|at| !sources.contains(at))
                && sources.len() < SOURCES_MAX
            {
                sources.push(*at);
            }
        }
        sources.sort_unstable();
        sources
    }

    fn item(&self, raw: &RawItem) -> Option<Item> {
        let text = one_line(&raw.text);
        if text.is_empty() || text.chars().count() > ITEM_CHARS_MAX || looks_like_secret(&text) {
            return None;
        }
        let named = (raw.sources.iter())
            .filter_map(|handle| position(handle, 'm'))
            .filter(|at| *at < self.lines.len());
        let sources = self.supporting(&text, named.collect());
        if sources.is_empty() {
            return None;
        }
        let about = raw
            .about
            .as_deref()
            .and_then(|handle| position(handle, 'p'));
        Some(Item {
            kind: kind_of(&raw.kind),
            text,
            sources,
            about: about.filter(|person| *person < self.people.len()),
            for_agent: raw.for_agent,
        })
    }

    /// Checks whether all sources are messages from agents, and at least one of them repeats its agent's memory.
    fn is_echo(&self, item: &Item, words: &HashSet<String>) -> bool {
        let is_repeated = |at: &usize| {
            self.lines[*at].person.is_none()
                && self.recalled.iter().any(|(by, known)| {
                    by == at && known.intersection(words).count() * 100 >= words.len() * ECHO_SHARE
                })
        };
        item.sources
            .iter()
            .all(|at| self.lines[*at].person.is_none())
            && item.sources.iter().any(is_repeated)
    }

    /// Returns the gist without sentences that contain digits.
    fn gist(text: &str) -> String {
        let sentences = plain_sentences(text);
        let plain = sentences
            .iter()
            .filter(|sentence| !sentence.contains(|c: char| c.is_numeric()));
        shortened(plain.map(String::as_str), GIST_CHARS_MAX)
    }

    /// Returns the gist of an answer that is not JSON, without sentences whose values no message contains.
    pub(super) fn prose(&self, text: &str) -> String {
        let all: Vec<usize> = (0..self.lines.len()).collect();
        let sentences = plain_sentences(text);
        let kept = sentences
            .iter()
            .filter(|sentence| self.supports(sentence, &all) && !looks_like_secret(sentence));
        shortened(kept.map(String::as_str), PROSE_CHARS_MAX)
    }

    /// Checks a draft, adds resolutions and references, and drops items beyond the limits per kind and for tokens.
    pub(super) fn check(&self, draft: &RawDraft, system: &str, tokens_max: Option<u64>) -> Checked {
        let mut left_out: BTreeMap<String, i64> = BTreeMap::new();
        let mut drop = |kind: MemoryKind| *left_out.entry(kind.to_string()).or_default() += 1;
        let instructions = self.instructions(system);
        let mut items: Vec<Item> = self.resolutions();
        let chatter = chatter(draft.items.iter().map(|item| &*item.text));
        for (raw, is_chatter) in draft.items.iter().zip(chatter) {
            let item = self.item(raw).filter(|item| {
                !is_chatter
                    && self.is_news(raw, item, &instructions)
                    && !items
                        .iter()
                        .any(|other| other.text.eq_ignore_ascii_case(&item.text))
            });
            match item {
                Some(item) => items.push(item),
                None => drop(kind_of(&raw.kind)),
            }
        }
        items.extend(self.references());
        let mut room = tokens_max.unwrap_or(SEGMENT_TOKENS_MAX);
        let mut counts: HashMap<MemoryKind, usize> = HashMap::new();
        let mut order: Vec<usize> = (0..items.len()).collect();
        order.sort_by_key(|at| (rank(items[*at].kind), *at));
        let mut kept: Vec<usize> = Vec::new();
        for at in order {
            let item = &items[at];
            let count = counts.entry(item.kind).or_default();
            let tokens = estimate_tokens(&item.text);
            if *count < ITEMS_OF_KIND_MAX && tokens <= room {
                *count += 1;
                room -= tokens;
                kept.push(at);
            } else {
                drop(item.kind);
            }
        }
        kept.sort_unstable();
        let gist = if draft.is_prose {
            draft.gist.clone()
        } else {
            Self::gist(&draft.gist)
        };
        Checked {
            gist: if looks_like_secret(&gist) {
                String::new()
            } else {
                gist
            },
            items: kept.into_iter().map(|at| items[at].clone()).collect(),
            left_out,
        }
    }

    /// Checks one item; `None` if the messages do not support the item, or if it is not worth an entry.
    pub(super) fn check_one(&self, raw: &RawItem, system: &str) -> Option<Item> {
        let instructions = self.instructions(system);
        let is_chatter = chatter(std::iter::once(&*raw.text)).contains(&true);
        self.item(raw)
            .filter(|item| !is_chatter && self.is_news(raw, item, &instructions))
    }

    /// Returns the content words of each sentence of the agent's system prompt.
    fn instructions(&self, system: &str) -> Vec<HashSet<String>> {
        plain_sentences(system)
            .iter()
            .map(|sentence| self.content_words(sentence))
            .collect()
    }

    /// Checks whether an item has content words and repeats neither the instructions nor an agent's memory.
    fn is_news(&self, raw: &RawItem, item: &Item, instructions: &[HashSet<String>]) -> bool {
        let words = self.content_words(&raw.text);
        let is_instruction = instructions.iter().any(|sentence| {
            sentence.intersection(&words).count() * 100 >= words.len() * SYSTEM_SHARE
        });
        !words.is_empty() && !is_instruction && !self.is_echo(item, &words)
    }

    /// Returns the headlines of published resolutions as items.
    fn resolutions(&self) -> Vec<Item> {
        let published = self
            .lines
            .iter()
            .enumerate()
            .filter(|(_, line)| line.is_resolution);
        let items = published.filter_map(|(at, line)| {
            let headline = plain_sentences(&line.text).into_iter().next()?;
            let text: String = one_line(&headline).chars().take(ITEM_CHARS_MAX).collect();
            (!text.is_empty() && !looks_like_secret(&text)).then(|| Item {
                kind: MemoryKind::Decision,
                text,
                sources: vec![at],
                about: None,
                for_agent: false,
            })
        });
        items.collect()
    }

    /// Returns URLs, paths, identifiers, code spans, and numbers with units as items.
    fn references(&self) -> Vec<Item> {
        let mut items: Vec<Item> = Vec::new();
        for (at, line) in self.lines.iter().enumerate() {
            let mut found: Vec<String> = Vec::new();
            if looks_like_secret(&line.text) {
                continue;
            }
            if let Some(references) = REFERENCES.as_ref() {
                let matches = references.captures_iter(&line.text);
                found.extend(matches.filter_map(|m| {
                    let found = m.get(1).or(m.get(0))?;
                    let text = found.as_str();
                    // The match is part of a longer word.
                    if line.text[found.end()..].starts_with('-')
                        || !text.contains(char::is_alphanumeric)
                    {
                        return None;
                    }
                    Some(
                        text.trim_matches('`')
                            .trim_end_matches(['.', ',', ';', ':', '!', '?', '"', '\''])
                            .to_owned(),
                    )
                }));
            }
            for text in found {
                let is_new = !items.iter().any(|item| item.text == text);
                // A part can be recognized as a secret even if its line is not, such as the code span in `` `Barrel*Red19`/x ``.
                if is_new
                    && !text.trim().is_empty()
                    && text.chars().count() <= ITEM_CHARS_MAX
                    && !looks_like_secret(&text)
                {
                    items.push(Item {
                        kind: MemoryKind::Reference,
                        text: one_line(&text),
                        sources: vec![at],
                        about: None,
                        for_agent: false,
                    });
                }
            }
        }
        items.truncate(ITEMS_OF_KIND_MAX);
        items
    }
}

/// Checks for each text whether it is nothing but small talk, such as a greeting or thanks.
fn chatter<'t>(texts: impl Iterator<Item = &'t str>) -> Vec<bool> {
    let lines: Vec<Line> = texts
        .map(|text| Line {
            speaker: Speaker::Person(0),
            text: text.to_owned(),
            files: Vec::new(),
            day: chrono::NaiveDate::default(),
        })
        .collect();
    let count = lines.len();
    let reading = Reading::new(&Material {
        people: Vec::new(),
        lines,
    });
    (0..count)
        .map(|at| reading.acts(at).contains(&Act::Chatter))
        .collect()
}

/// Returns the position that a handle stands for, such as 2 for `m3`.
pub(super) fn position(handle: &str, prefix: char) -> Option<usize> {
    let number = handle.trim().trim_start_matches('[').trim_end_matches(']');
    number
        .strip_prefix(prefix)?
        .parse::<usize>()
        .ok()?
        .checked_sub(1)
}

fn trimmed(word: &str) -> &str {
    word.trim_matches(|c: char| {
        c.is_ascii_punctuation() && !matches!(c, '#' | '/' | '%' | '_' | '~')
            || "“”„«»…–—".contains(c)
    })
}

/// Checks whether a word is a number, a date, a URL, a path, or an identifier.
fn is_value(word: &str) -> bool {
    let mut previous = ' ';
    let is_camel = word.chars().any(|c| {
        let is_inner = previous.is_lowercase() && c.is_uppercase();
        previous = c;
        is_inner
    });
    word.contains(|c: char| c.is_numeric() || matches!(c, '_' | '@'))
        || word.contains("::")
        || word.starts_with('/')
        || word.matches('/').count() > 1
        || is_camel
}

fn plain_words(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| !c.is_alphanumeric());
    words.filter(|word| {
        word.chars().count() >= TELLING_WORD_CHARS && !word.contains(|c: char| c.is_numeric())
    })
}

/// Checks whether `text` contains a word or phrase. Both must be in lowercase.
pub(super) fn has_word(text: &str, word: &str) -> bool {
    let is_part = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    text.match_indices(word).any(|(at, found)| {
        !is_part(text[..at].chars().next_back())
            && !is_part(text[at + found.len()..].chars().next())
    })
}

/// Checks whether `text` contains a value as a whole: `200` is not in `4,200`, `web-2` is not in `web-21`, and `2` is not in `web-2`.
/// Both must be in lowercase.
fn has_value(text: &str, value: &str) -> bool {
    let is_part = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    let joins = |c: Option<char>| c.is_some_and(|c| ".,:/-_@".contains(c));
    let joins_words = |c: Option<char>| c.is_some_and(|c| "-_".contains(c));
    let is_digit = |c: Option<char>| c.is_some_and(char::is_numeric);
    let (starts, ends) = (value.chars().next(), value.chars().next_back());
    text.match_indices(value).any(|(at, found)| {
        let mut before = text[..at].chars().rev();
        let mut after = text[at + found.len()..].chars();
        let (previous, second_last) = (before.next(), before.next());
        let (next, second) = (after.next(), after.next());
        let is_joined = is_part(previous)
            || (joins(previous) && is_digit(second_last) && is_digit(starts))
            || (joins_words(previous) && is_part(second_last) && is_digit(starts));
        let goes_on = is_part(next) || (joins(next) && is_digit(second) && is_part(ends));
        !is_joined && !goes_on
    })
}

/// Checks whether `text` contains a value as a whole, ignoring case.
pub(super) fn states(text: &str, value: &str) -> bool {
    has_value(&text.to_lowercase(), &value.to_lowercase())
}

/// Joins the first sentences that fit into `chars_max` characters.
pub(super) fn shortened<'t>(sentences: impl Iterator<Item = &'t str>, chars_max: usize) -> String {
    let mut text = String::new();
    for sentence in sentences {
        let sentence = one_line(sentence);
        if text.chars().count() + sentence.chars().count() + 1 > chars_max {
            break;
        }
        if !text.is_empty() {
            text.push(' ');
        }
        text.push_str(&sentence);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::UserId;

    fn line(name: &str, text: &str) -> SourceLine {
        SourceLine {
            person: Some(usize::from(name != "Ada Lovelace")),
            name: name.to_owned(),
            text: text.to_owned(),
            day: chrono::NaiveDate::from_ymd_opt(2026, 11, 20).unwrap(),
            is_resolution: false,
            asks: None,
        }
    }

    fn raw(text: &str, kind: &str, sources: &[&str]) -> RawItem {
        RawItem {
            text: text.to_owned(),
            kind: kind.to_owned(),
            sources: sources.iter().map(ToString::to_string).collect(),
            about: None,
            for_agent: false,
        }
    }

    fn check(lines: &[SourceLine], items: Vec<RawItem>) -> Checked {
        let people = ["Ada Lovelace", "Bo Chen"].map(|name| SegmentPerson {
            id: UserId::new(),
            name: name.to_owned(),
        });
        let draft = RawDraft {
            gist: "They planned the launch. It has 3 parts.".to_owned(),
            items,
            is_prose: false,
        };
        Source::new(lines, &people, &[]).check(
            &draft,
            "You always reply politely with emojis.",
            None,
        )
    }

    fn lines() -> Vec<SourceLine> {
        vec![
            line(
                "Ada Lovelace",
                "Let's ship the importer on Friday, budget is 4,200 €.",
            ),
            line(
                "Bo Chen",
                "Agreed. The plan is at https://wiki.example/plan and web-2 needs a restart.",
            ),
            line("Ada Lovelace", "Thanks!"),
        ]
    }

    #[test]
    fn what_the_sources_do_not_say_is_dropped() {
        let checked = check(
            &lines(),
            vec![
                raw("The importer ships on Friday", "decision", &["m1"]),
                raw("The budget is 4,200 €", "fact", &["m1"]),
                raw("The budget is 4,300 €", "fact", &["m1"]),
                raw("Bo pays the budget", "fact", &["m1"]),
                raw(
                    "The plan is at https://wiki.example/other",
                    "reference",
                    &["m2"],
                ),
                raw("Thanks!", "fact", &["m3"]),
                raw("Reply politely with emojis", "fact", &["m1"]),
                raw("The moon is made of cheese", "fact", &[]),
                raw("importer ships Friday", "strange", &["m9"]),
                raw("The password is hunter2!", "fact", &["m1"]),
            ],
        );
        let is_reference = |item: &&Item| item.kind == MemoryKind::Reference;
        let (references, others): (Vec<&Item>, Vec<&Item>) =
            checked.items.iter().partition(is_reference);
        let texts: Vec<&str> = others.iter().map(|item| &*item.text).collect();
        assert_eq!(
            texts,
            [
                "The importer ships on Friday",
                "The budget is 4,200 €",
                "importer ships Friday",
            ]
        );
        for text in ["https://wiki.example/plan", "web-2"] {
            assert!(references.iter().any(|item| item.text == text), "{text}");
        }
        assert_eq!(checked.gist, "They planned the launch.");
        assert_eq!(checked.items[2].kind, MemoryKind::Fact);
        assert_eq!(checked.items[2].sources, [0]);
        assert_eq!(checked.left_out["fact"], 6);
    }

    #[test]
    fn a_part_of_a_value_is_not_the_value() {
        for (text, value, wanted) in [
            ("the budget is 4,200 €.", "4,200", true),
            ("the budget is 4,200 €.", "200", false),
            ("the budget is 4,200 €.", "4", false),
            ("restart web-21 and web-2.", "web-2", true),
            ("restart web-21", "web-2", false),
            ("at 10:30", "10", false),
            (
                "see https://wiki.example/plan.",
                "https://wiki.example/plan",
                true,
            ),
            (
                "see https://wiki.example/planning",
                "https://wiki.example/plan",
                false,
            ),
            ("in /etc/hosts", "/hosts", false),
            ("restart web-2", "2", false),
            ("version 4.2", "4", false),
            ("fixes #12, #123", "#12", true),
            ("fixes #123", "#12", false),
            ("we need 3.", "3", true),
        ] {
            assert_eq!(has_value(text, value), wanted, "{text}: {value}");
        }
    }

    #[test]
    fn a_telling_word_adds_its_message() {
        let item = raw("The importer needs a restart", "todo", &["m2"]);
        assert_eq!(check(&lines(), vec![item]).items[0].sources, [0, 1]);
    }

    #[test]
    fn what_an_agent_repeats_from_memory_is_dropped() {
        let mut lines = lines();
        lines[1].person = None;
        lines[1].name = "Vibe".to_owned();
        let known = "The importer needs a restart of web-2".to_owned();
        let echo = raw("The importer web-2 needs a restart", "fact", &["m2"]);
        let other = raw("The plan is at https://wiki.example/plan", "fact", &["m2"]);
        let draft = RawDraft {
            items: vec![echo, other],
            ..RawDraft::default()
        };
        let texts = |recalled: &[(usize, String)]| -> Vec<String> {
            let checked = Source::new(&lines, &[], recalled).check(&draft, "", None);
            let items = checked.items.into_iter();
            let items = items.filter(|item| item.kind == MemoryKind::Fact);
            items.map(|item| item.text).collect()
        };
        assert_eq!(texts(&[(0, known.clone())]).len(), 2);
        // A person also stated the second item: only their message contains the word `importer`.
        assert_eq!(texts(&[(1, known.clone())]).len(), 2);
        lines[0].text = "Let's ship on Friday.".to_owned();
        lines[1].text = format!("{}. The importer is slow.", lines[1].text);
        let checked = Source::new(&lines, &[], &[(1, known)]).check(&draft, "", None);
        let facts = checked
            .items
            .iter()
            .filter(|item| item.kind == MemoryKind::Fact);
        assert_eq!(facts.count(), 1);
        assert_eq!(checked.left_out["fact"], 1);
    }

    #[test]
    fn a_segment_has_few_items() {
        let lines: Vec<SourceLine> = (0..40)
            .map(|n| {
                line(
                    "Bo Chen",
                    &format!(
                        "Module number{n} of the importer is slow and needs much work from us"
                    ),
                )
            })
            .collect();
        let items = (0..40)
            .map(|n| {
                raw(
                    &format!(
                        "Module number{n} of the importer is slow and needs much work from us"
                    ),
                    "fact",
                    &[&format!("m{}", n + 1)],
                )
            })
            .collect();
        let checked = check(&lines, items);
        let facts = checked
            .items
            .iter()
            .filter(|item| item.kind == MemoryKind::Fact);
        assert_eq!(facts.count(), ITEMS_OF_KIND_MAX);
        assert_eq!(checked.left_out["fact"], 28);
    }
}
