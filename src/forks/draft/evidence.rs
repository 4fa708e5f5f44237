//! Evidence of a conversation for the checks of a draft, built on the extractor's reading.
//!
//! A line is *doubtful* if it cannot be the source of a result: an agent's idea that nobody adopted, a joke, a dropped
//! plan, or an order to a machine. In a language that the extractor does not read, only agents' lines are doubtful.

use std::collections::BTreeSet;

use chrono::{Datelike, NaiveDate};
use openvibe_extract::{
    Act, Kind, Language, Material, Owner, Point, Reading, Speaker, Superseded, Value, ValueKind,
    bare, content_words, groups, numbers, tokens, values, whole,
};

use super::doubt::{AgentLines, Doubt, doubt, is_agreed, without_order};

/// Minimum share of a text's content words that its source text contains, in percent.
const SUPPORT_PERCENT_MIN: usize = 30;
/// Minimum share of a text's content words for a line that it repeats, in percent.
const REPEATED_PERCENT_MIN: usize = 80;
/// Minimum share of common words for a key point that states the same as a headline, in percent.
const BACKED_PERCENT_MIN: usize = 60;
/// Number of lines before a source that it can answer.
const ANSWERED_LINES: usize = 6;
/// Number of lines before a statement that are searched for the question that it answers.
const ASKED_LINES: usize = 2;
/// Number of lines after the sources of an action in which its owner can refuse or accept.
const REPLY_LINES: usize = 4;
/// Words of at least this length also match as part of another word, without their ending.
const ROOT_CHARS_MIN: usize = 5;
/// Counts up to this one are not checked if they are written as words.
const COUNTED_MAX: u32 = 12;
/// Number of days between a weekday and one such as "the Friday before".
const NEAR_DAYS: i64 = 14;
/// Maximum number of days on which the dates of a text are read.
const DAYS_MAX: usize = 8;

/// Source text of a text.
#[derive(Debug, Clone, Copy)]
pub(super) enum Origin<'a> {
    /// The lines that an entry cites.
    Cited(&'a [usize]),
    /// The conversation, for headline and conclusion; with the sources of the key points that state the same.
    Whole(&'a [usize]),
}

struct Said {
    /// ` word word `, in lowercase and without accents.
    text: String,
    /// Its author, in the same form.
    name: String,
    numbers: BTreeSet<String>,
    doubt: Option<Doubt>,
}

pub(super) struct Evidence<'a> {
    pub(super) material: &'a Material,
    reading: &'a Reading,
    language: Language,
    lines: Vec<Said>,
    superseded: Vec<&'a Superseded>,
    /// True if only one person speaks; that person alone decides.
    is_alone: bool,
    /// Words of a text that only states that nothing was settled.
    unsettled: BTreeSet<String>,
}

/// ` word word `, as the texts of lines are compared.
pub(super) fn plain(text: &str) -> String {
    let words: Vec<String> = tokens(text)
        .into_iter()
        .filter(|token| !matches!(token.kind, Kind::Mark | Kind::Emoji))
        .map(|token| token.word.trim_start_matches('@').to_owned())
        .collect();
    format!(" {} ", words.join(" "))
}

/// The part of a content word that a plain text with this word, or with another form of it, contains.
fn root(word: &str) -> String {
    let count = word.chars().count();
    if word.starts_with(|c: char| c as u32 > 0x24f) {
        word.to_owned()
    } else if count > ROOT_CHARS_MIN {
        word.chars()
            .take(ROOT_CHARS_MIN.max(count * 2 / 3))
            .collect()
    } else {
        format!(" {word}")
    }
}

fn roots(text: &str, language: Language) -> BTreeSet<String> {
    content_words(text, language)
        .iter()
        .map(|word| root(word))
        .collect()
}

impl<'a> Evidence<'a> {
    pub(super) fn new(material: &'a Material, reading: &'a Reading, agents: AgentLines) -> Self {
        let language = reading.language();
        let lines = material.lines.iter().enumerate().map(|(at, line)| {
            let (said, doubt) =
                match doubt(material, reading, at).filter(|doubt| agents.has(*doubt)) {
                    Some(Doubt::Machine) => without_order(line),
                    doubt => (line.text.clone(), doubt),
                };
            Said {
                text: plain(&said),
                name: match &line.speaker {
                    Speaker::Person(at) => names(material, *at).concat(),
                    Speaker::Agent(name) => plain(name),
                },
                numbers: numbers(&said),
                doubt,
            }
        });
        let people = material.lines.iter().filter_map(|line| match line.speaker {
            Speaker::Person(at) => Some(at),
            Speaker::Agent(_) => None,
        });
        let all = reading.superseded();
        let is_back = |value: &Superseded| {
            let is_same = |later: &Superseded| plain(&later.new) == plain(&value.old);
            let is_passed = |later: &Superseded| plain(&later.old) == plain(&value.new);
            all.iter().any(|later| {
                later.line >= value.line && is_same(later)
                    || later.line == value.line && is_passed(later)
            })
        };
        let phrases = ["none", "none-headline", "unsettled"].map(|name| reading.phrase(name));
        Self {
            lines: lines.collect(),
            is_alone: people.collect::<BTreeSet<_>>().len() < 2,
            superseded: all
                .iter()
                .filter(|value| !is_back(value) && is_correction(value, reading, language))
                .collect(),
            unsettled: roots(&phrases.join(" "), language),
            material,
            reading,
            language,
        }
    }

    /// Checks whether the extractor knows the acts of the conversation's language.
    fn is_read(&self) -> bool {
        self.language != Language::Other
    }

    fn speaker(&self, line: usize) -> Option<&Speaker> {
        self.material.lines.get(line).map(|line| &line.speaker)
    }

    /// The lines, the messages that they can answer, and the forked message.
    fn with_answered(&self, lines: &[usize]) -> BTreeSet<usize> {
        let before = lines
            .iter()
            .flat_map(|line| line.saturating_sub(ANSWERED_LINES)..=*line);
        before
            .chain([0])
            .filter(|line| *line < self.lines.len())
            .collect()
    }

    fn source_text(&self, origin: Origin<'_>) -> BTreeSet<usize> {
        match origin {
            Origin::Cited(lines) => self.with_answered(lines),
            Origin::Whole(_) => (0..self.lines.len()).collect(),
        }
    }

    /// Roots of the content words of a text.
    fn words(&self, text: &str) -> BTreeSet<String> {
        roots(text, self.language)
    }

    /// Checks whether enough content words of a text occur in its source text; without sources, in the conversation.
    pub(super) fn supports(&self, text: &str, origin: Origin<'_>) -> bool {
        let words = self.words(text);
        let lines = self.source_text(origin);
        if matches!(origin, Origin::Whole(_))
            && !words.is_empty()
            && words.is_subset(&self.unsettled)
        {
            return true;
        }
        let is_said = |word: &&String| {
            let mut lines = lines.iter().map(|line| &self.lines[*line]);
            lines.any(|line| line.text.contains(*word) || line.name.contains(*word))
        };
        let said = words.iter().filter(is_said).count();
        said > 0 && said * 100 >= words.len() * SUPPORT_PERCENT_MIN
    }

    /// The first value of a text that its source text does not contain.
    pub(super) fn unknown_value(&self, text: &str, origin: Origin<'_>) -> Option<String> {
        if let Some(name) = self.unknown_name(text) {
            return Some(name);
        }
        let words = self.words(text);
        let near = self.source_text(origin);
        // A value can also come from another line about the same subject.
        let is_about = |line: &usize| {
            let is_term = |word: &&String| !word.contains(|c: char| c.is_ascii_digit());
            words
                .iter()
                .filter(is_term)
                .any(|word| self.lines[*line].text.contains(word))
        };
        let lines: BTreeSet<usize> = (0..self.lines.len())
            .filter(|line| self.lines[*line].doubt != Some(Doubt::Machine))
            .filter(|line| near.contains(line) || is_about(line))
            .collect();
        let days: BTreeSet<NaiveDate> = lines
            .iter()
            .filter_map(|line| Some(self.material.lines.get(*line)?.day))
            .collect();
        let days: Vec<NaiveDate> = days.into_iter().rev().take(DAYS_MAX).collect();
        let mut found: Vec<Value> = Vec::new();
        for day in &days {
            for value in values(text, self.language, *day) {
                if self.is_said(&value, &lines, &days) {
                    found.retain(|other| other.text != value.text);
                    continue;
                }
                found.push(value);
            }
        }
        found.into_iter().next().map(|value| value.text)
    }

    /// The first name that does not occur in the conversation. In German, any noun could be one.
    fn unknown_name(&self, text: &str) -> Option<String> {
        if !matches!(
            self.language,
            Language::English | Language::French | Language::Spanish
        ) {
            return None;
        }
        let values: String = values(text, self.language, NaiveDate::default())
            .into_iter()
            .map(|value| value.text)
            .collect();
        let is_capital = |word: &&str| word.starts_with(char::is_uppercase);
        let words: Vec<&str> = text.split_whitespace().collect();
        let is_title = words.iter().filter(|word| is_capital(word)).count() * 2 > words.len();
        let starts = |word: &str| word.ends_with(['.', '!', '?', ':']);
        let later = words
            .windows(2)
            .filter(|pair| !starts(pair[0]))
            .map(|pair| pair[1]);
        let later = later.map(|word| word.trim_matches(|c: char| !c.is_alphanumeric()));
        let mut names = later
            .filter(is_capital)
            .filter(|word| !is_title && !values.contains(*word));
        let is_unknown = |name: &&str| {
            let is_known = |root: &String| {
                self.lines
                    .iter()
                    .any(|line| line.text.contains(root) || line.name.contains(root))
                    || self
                        .material
                        .people
                        .iter()
                        .any(|person| plain(&person.name).contains(root))
                    || self.unsettled.contains(root)
            };
            !self.words(name).iter().all(is_known)
        };
        names.find(is_unknown).map(str::to_owned)
    }

    fn is_said(&self, value: &Value, lines: &BTreeSet<usize>, days: &[NaiveDate]) -> bool {
        let is_counted = !value.text.contains(|c: char| c.is_ascii_digit())
            && value.kind == ValueKind::Amount
            && value
                .key
                .parse()
                .is_ok_and(|count: u32| count <= COUNTED_MAX);
        let is_year = |number: &String| days.iter().any(|day| day.year().to_string() == *number);
        let written = plain(&value.text);
        let (whole, groups): (String, Vec<String>) =
            (whole(&value.text).concat(), groups(&value.text).collect());
        let is_number = |number: &String| {
            lines
                .iter()
                .any(|line| self.lines[*line].numbers.contains(number))
        };
        is_counted
            || lines.iter().any(|line| {
                let is_same = |other: &&Value| {
                    other.kind == value.kind && other.key == value.key
                        || other.day.is_some() && other.day == value.day
                };
                let text = &self.lines[*line].text;
                let is_part = value.kind == ValueKind::Identifier && text.contains(written.trim());
                // "Sa" and "fri" are days, too.
                let is_short = |word: &str| {
                    word.len() > 1
                        && written.trim().starts_with(word)
                        && !self.words(word).is_empty()
                };
                is_part
                    || text.contains(&written)
                    || value.kind == ValueKind::Date
                        && groups.is_empty()
                        && text.split_whitespace().any(is_short)
                    || self.reading.values(*line).iter().any(is_same)
            })
            || !whole.is_empty() && (is_year(&whole) || is_number(&bare(&whole)))
            || groups.len() > 1
                && groups
                    .iter()
                    .all(|group| is_year(group) || is_number(group))
    }

    /// Reason why a text is not a result: its sources, the lines that it repeats, or most of its own words are doubtful.
    pub(super) fn doubt(&self, text: &str, origin: Origin<'_>) -> Option<Doubt> {
        let all_doubtful = |lines: &mut dyn Iterator<Item = usize>| {
            let mut doubts = lines.map(|line| self.lines.get(line)?.doubt);
            doubts
                .next()
                .flatten()
                .filter(|_| doubts.all(|doubt| doubt.is_some()))
        };
        let (Origin::Cited(sources) | Origin::Whole(sources)) = origin;
        if let Some(doubt) = all_doubtful(&mut sources.iter().copied()) {
            return Some(doubt);
        }
        let words = self.words(text);
        let shared = |line: &Said| {
            words
                .iter()
                .filter(|word| line.text.contains(*word))
                .count()
        };
        let counts: Vec<usize> = self.lines.iter().map(shared).collect();
        let most = counts.iter().copied().max().unwrap_or(0);
        if most > 0 && most * 100 >= words.len() * REPEATED_PERCENT_MIN {
            let repeated = || (0..counts.len()).filter(|line| counts[*line] == most);
            let is_settled = matches!(origin, Origin::Cited(_))
                || !self.is_read()
                || self.is_alone
                || self.is_shared(sources) && !text.ends_with('?')
                || repeated().any(|line| self.is_settled(line));
            let unsettled = (!is_settled).then_some(Doubt::Unsettled);
            if let Some(doubt) = all_doubtful(&mut repeated()).or(unsettled) {
                return Some(doubt);
            }
        }
        let mut theirs: Vec<Doubt> = Vec::new();
        for word in &words {
            let mut lines = self
                .lines
                .iter()
                .filter(|line| line.text.contains(word))
                .peekable();
            let first = lines.peek().and_then(|line| line.doubt);
            let is_idle = |line: &Said| line.doubt.is_some_and(|doubt| doubt != Doubt::Dropped);
            theirs.extend(first.filter(|_| lines.all(is_idle)));
        }
        (theirs.len() > 1 && theirs.len() * 3 >= words.len() * 2).then(|| theirs[0])
    }

    /// Checks whether a line states a decision or a task, answers somebody's question, or somebody agreed to it.
    fn is_settled(&self, line: usize) -> bool {
        const SETTLED: [Act; 3] = [Act::Decision, Act::Commitment, Act::Assent];
        let is_asked = |asked: usize| {
            self.speaker(asked) != self.speaker(line) && self.has_act(asked, &[Act::Question])
        };
        self.has_act(line, &SETTLED)
            || is_agreed(self.material, self.reading, line)
            || (line.saturating_sub(ASKED_LINES)..line).any(is_asked)
    }

    /// Sources of the key points that state the same as a headline or a conclusion.
    pub(super) fn backing(&self, text: &str, points: &[Point]) -> Vec<usize> {
        let words = self.words(text);
        let is_same = |point: &&Point| {
            let theirs = self.words(&point.text);
            words.intersection(&theirs).count() * 100
                >= words.len().min(theirs.len()) * BACKED_PERCENT_MIN
        };
        points
            .iter()
            .filter(is_same)
            .flat_map(|point| point.sources.iter().copied())
            .collect()
    }

    /// Checks whether several people speak in these lines.
    fn is_shared(&self, lines: &[usize]) -> bool {
        let people: BTreeSet<_> = lines
            .iter()
            .filter_map(|line| match self.speaker(*line)? {
                Speaker::Person(at) => Some(at),
                Speaker::Agent(_) => None,
            })
            .collect();
        people.len() > 1
    }

    /// Checks whether a text names the author of one of the doubtful sources.
    pub(super) fn is_view(&self, text: &str, sources: &[usize]) -> bool {
        let text = plain(text);
        let doubtful = |line: &usize| {
            self.lines[*line]
                .doubt
                .is_some_and(|doubt| matches!(doubt, Doubt::Agent | Doubt::Dropped))
        };
        sources.iter().any(|line| {
            doubtful(line)
                && match self.speaker(*line) {
                    Some(Speaker::Agent(name)) => text.contains(&plain(name)),
                    Some(Speaker::Person(at)) => self.is_named(*at, &text),
                    None => false,
                }
        })
    }

    /// Checks whether a plain text names a person by name, handle, or first name.
    fn is_named(&self, person: usize, text: &str) -> bool {
        names(self.material, person).iter().any(|name| {
            let first = name.split_whitespace().next().unwrap_or_default();
            !first.is_empty() && text.contains(&format!(" {first} "))
        })
    }

    /// The corrected value that a text still states. Allowed if the text also states the correction, or if a source
    /// after the correction uses the same words for something else.
    pub(super) fn superseded_in(&self, text: &str, sources: &[usize]) -> Option<&Superseded> {
        let text = plain(text);
        self.superseded.iter().copied().find(|value| {
            let (old, new) = (plain(&value.old), plain(&value.new));
            let is_told = old.len() > 2 && text.contains(&old) && !text.contains(&new);
            is_told
                && !sources
                    .iter()
                    .any(|line| self.is_said_anew(&old, &new, value.line, *line))
        })
    }

    fn is_said_anew(&self, old: &str, new: &str, corrected: usize, line: usize) -> bool {
        let source = self
            .lines
            .get(line)
            .filter(|source| line > corrected && source.doubt.is_none());
        source.is_some_and(|source| source.text.contains(old) && !source.text.contains(new))
    }

    fn has_act(&self, line: usize, wanted: &[Act]) -> bool {
        self.reading
            .acts(line)
            .iter()
            .any(|act| wanted.contains(act))
    }

    /// Checks whether somebody takes on a task in these lines, or is asked to.
    pub(super) fn commits(&self, sources: &[usize], owner: Option<&Owner>) -> bool {
        const WORK: [Act; 7] = [
            Act::Commitment,
            Act::Request,
            Act::Need,
            Act::Question,
            Act::Proposal,
            Act::Decision,
            Act::Assent,
        ];
        !self.is_read()
            || sources.iter().any(|line| {
                self.has_act(*line, &WORK)
                    || match owner {
                        Some(Owner::Person(who)) => {
                            self.speaker(*line) == Some(&Speaker::Person(*who))
                                || self.is_named(*who, &self.lines[*line].text)
                        }
                        Some(Owner::Named(name)) => self.lines[*line].text.contains(&plain(name)),
                        None => false,
                    }
            })
    }

    /// Checks whether a person speaks in the sources, is named there, or accepts a request there.
    pub(super) fn takes_part(&self, person: usize, sources: &[usize]) -> bool {
        let is_own = |line: usize| self.speaker(line) == Some(&Speaker::Person(person));
        let accepts = |line: usize| {
            is_own(line) && (!self.is_read() || self.has_act(line, &[Act::Assent, Act::Commitment]))
        };
        sources.iter().any(|line| {
            let mut replies = *line + 1..(*line + 1 + REPLY_LINES).min(self.lines.len());
            is_own(*line)
                || self.is_named(person, &self.lines[*line].text)
                || self.has_act(*line, &[Act::Request, Act::Question, Act::Need])
                    && replies.any(accepts)
        })
    }

    /// Checks whether the last message of a person in the lines after the sources is a refusal. A person who speaks in
    /// the sources does not refuse.
    pub(super) fn refuses(&self, person: usize, sources: &[usize]) -> bool {
        let Some(last) = sources.iter().max() else {
            return false;
        };
        let end = (last + 1 + REPLY_LINES).min(self.lines.len());
        let is_own = |line: &usize| self.speaker(*line) == Some(&Speaker::Person(person));
        let own = (last + 1..end)
            .rev()
            .find(|line| is_own(line) && !sources.iter().any(is_own));
        own.is_some_and(|line| {
            self.has_act(line, &[Act::Refusal]) && !self.has_act(line, &[Act::Commitment])
        })
    }

    /// Checks whether a message names a due date, or the sources name its weekday or its number, or were written on it.
    pub(super) fn is_dated(&self, due: NaiveDate, sources: &[usize]) -> bool {
        let days = |line: usize| {
            self.reading
                .values(line)
                .into_iter()
                .filter_map(|value| value.day)
        };
        let number = due.day().to_string();
        let is_near = |day: NaiveDate| {
            day.weekday() == due.weekday() && (day - due).num_days().abs() <= NEAR_DAYS
        };
        !self.is_read()
            || (0..self.lines.len()).flat_map(days).any(|day| day == due)
            || self.with_answered(sources).into_iter().any(|line| {
                self.material.lines[line].day == due
                    || days(line).any(is_near)
                    || self.lines[line].numbers.contains(&number)
            })
    }

    /// The corrected day that a due date is based on.
    pub(super) fn superseded_due(&self, due: NaiveDate, sources: &[usize]) -> Option<&Superseded> {
        let day_of = |text: &str, line: usize| {
            let day = self.material.lines.get(line)?.day;
            values(text, self.language, day)
                .into_iter()
                .find_map(|value| value.day)
        };
        let is_named = |line: &usize| {
            self.reading
                .values(*line)
                .iter()
                .any(|value| value.day == Some(due))
        };
        self.superseded.iter().copied().find(|value| {
            day_of(&value.old, value.line) == Some(due)
                && day_of(&value.new, value.line).is_some_and(|day| day != due)
                && !sources
                    .iter()
                    .any(|line| *line > value.line && is_named(line))
        })
    }

    /// Checks whether a name occurs in the conversation, or in the source text of these lines.
    pub(super) fn is_mentioned(&self, name: &str, sources: Option<&[usize]>) -> bool {
        let name = plain(name);
        let near = sources.map(|sources| self.with_answered(sources));
        let is_near = |line: &usize| near.as_ref().is_none_or(|near| near.contains(line));
        name.len() > 2
            && (0..self.lines.len())
                .filter(is_near)
                .any(|line| self.lines[line].text.contains(&name))
    }

    pub(super) fn days(&self) -> Option<(NaiveDate, NaiveDate)> {
        let days = || self.material.lines.iter().map(|line| line.day);
        Some((days().min()?, days().max()?))
    }
}

/// Name and handle of a person.
fn names(material: &Material, person: usize) -> [String; 2] {
    let person = material.people.get(person);
    person.map_or_else(Default::default, |person| {
        [plain(&person.name), plain(&person.handle)]
    })
}

/// Checks whether a message corrects the value, or decides on another one of the same unit.
fn is_correction(value: &Superseded, reading: &Reading, language: Language) -> bool {
    let unit = |text: &str| {
        let value = values(text, language, NaiveDate::default())
            .into_iter()
            .next();
        value.map(|value| (value.kind, value.unit))
    };
    let (old, new) = (unit(&value.old), unit(&value.new));
    let is_plain = old
        .as_ref()
        .is_none_or(|(kind, unit)| *kind == ValueKind::Amount && unit.is_empty());
    reading.acts(value.line).contains(&Act::Correction) || old == new && !is_plain
}
