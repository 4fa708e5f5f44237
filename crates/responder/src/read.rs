//! Finds the answers to a question in one conversation.

use std::collections::{BTreeMap, BTreeSet};

use chrono::NaiveDate;
use openvibe_extract::{
    Act, Language, Material, Outline, Owner, Point, Reading, Speaker, Superseded, content_words,
    sentences,
};

use crate::{
    intent::{Intent, Question, asked_in},
    matching::{SENTENCES_MAX, Topic},
    quotes::{Entry, QUOTES_MAX, Quote, Section, is_outdated_by, parts_of, split},
    words::{is_question, language_of},
};

/// Number of lines by people after a question that can answer it.
const REPLY_LINES: usize = 2;
/// Minimum number of content words in a statement that is clear without the question before it.
const CLEAR_WORDS: usize = 3;
/// Maximum number of answered questions in a summary.
const ANSWERED_MAX: usize = 4;
/// Maximum number of corrected values that are considered; older ones are ignored.
const SUPERSEDED_MAX: usize = 50;
/// Beginnings of texts that imitate the messages of a model request.
const ROLES: [&str; 4] = ["assistant:", "developer:", "system:", "user:"];
/// Maximum number of statements quoted if there is nothing else to summarize.
const LAST_MAX: usize = 3;

/// Relation between the conversation that is read and the one that contains the question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    Here,
    /// Another conversation, where an entry must share more than one word with the topic to count as being about it.
    Elsewhere,
}

/// Heading of open questions.
const OPEN: &str = "open";

/// A conversation that is searched for the answer to a question.
pub(crate) struct Read<'a> {
    material: &'a Material,
    reading: &'a Reading,
    pub(crate) intent: Intent,
    pub(crate) topic: Topic,
    language: Language,
    reach: Reach,
}

impl<'a> Read<'a> {
    pub(crate) fn new(
        (title, material, language): (&str, &'a Material, Language),
        reading: &'a Reading,
        question: &Question,
        reach: Reach,
    ) -> Self {
        let asked = asked_in(material, question);
        let in_language = language_of(&question.text);
        let topic = Topic::new(&asked.intent, &asked.topic, in_language, (title, language));
        Self { material, reading, intent: asked.intent, topic, language, reach }
    }

    /// Sections of the answer. They have no entries if the conversation does not contain an answer.
    pub(crate) fn sections(&self) -> Vec<Section> {
        let outline = || self.reading.outline();
        let found = match self.intent {
            Intent::Decided => vec![self.section("decided", &outline().key_points)],
            Intent::Open => vec![self.section(OPEN, &outline().open_questions)],
            Intent::Tasks | Intent::Owner => vec![self.tasks(&outline())],
            Intent::Summary => self.summary(),
            Intent::Since(day) => self.since(day),
            Intent::Said(person) => vec![self.said(person)],
            _ => Vec::new(),
        };
        let is_found = |found: &[Section]| found.iter().any(|section| !section.entries.is_empty());
        if is_found(&found) {
            return found;
        }
        let replies = vec![Section { heading: None, entries: self.replies() }];
        if self.intent == Intent::Summary && self.reach == Reach::Here && !is_found(&replies) {
            return self.of_everything(self.material, self.reading).summary();
        }
        replies
    }

    /// Number of words of the topic in an entry and its context.
    pub(crate) fn covered(&self, entry: &Entry) -> usize {
        let asked: Vec<usize> = entry.asked_in.into_iter().collect();
        let own = format!("{} {}", self.texts(&asked), entry.text());
        self.topic.covered(&own, &self.topic.in_text(&self.texts(&entry.lines())))
    }

    pub(crate) fn has_value(&self, entry: &Entry) -> bool {
        let day = self.material.lines[entry.last_line()].day;
        self.topic.has_value(&entry.text(), day)
    }

    fn texts(&self, lines: &[usize]) -> String {
        let lines = lines.iter().filter_map(|at| self.material.lines.get(*at));
        let texts: Vec<&str> = lines.map(|line| line.text.as_str()).collect();
        texts.join(" ")
    }

    /// Checks whether an entry is about the topic. In other conversations and for questions about owners, one shared word is not
    /// enough.
    fn is_about(&self, entry: &Entry, sources: &[usize]) -> bool {
        let own = entry.quotes.last().map_or_else(|| entry.text(), |last| last.text.clone());
        let context = self.texts(sources);
        let day = self.material.lines.get(entry.last_line()).map(|line| line.day);
        if self.reach == Reach::Elsewhere || self.intent == Intent::Owner {
            self.topic.fits(&own, &self.topic.in_text(&context), day.unwrap_or_default())
        } else {
            self.topic.is_titled() || self.topic.shared(&format!("{own} {context}")) > 0
        }
    }

    /// Points about the topic, newest first. Without a topic, all points are included.
    fn section(&self, heading: &'static str, points: &[Point]) -> Section {
        let mut entries: Vec<Entry> = Vec::new();
        for point in points {
            let of_point = if point.text.contains('“') {
                Vec::new()
            } else {
                split(self.parts(&point.text, &point.sources), |quote| self.proposes(quote.line))
            };
            if of_point.is_empty() {
                let told = Some((point.text.clone(), point.sources.clone()));
                let entry = Entry { told, ..Entry::default() };
                entries.extend(Some(entry).filter(|entry| self.is_about(entry, &point.sources)));
            } else {
                let is_told = |entry: &Entry| {
                    let is_result = heading == OPEN || self.is_result(entry);
                    is_result && self.is_about(entry, &point.sources)
                };
                entries.extend(of_point.into_iter().filter(is_told));
            }
        }
        entries.sort_by_key(|entry| std::cmp::Reverse(entry.last_line()));
        Section { heading: Some(heading), entries }
    }

    /// Checks whether an entry is worth listing: it states something, or it is a question that contains a proposal.
    fn is_result(&self, entry: &Entry) -> bool {
        let can_propose = self.language != Language::Other;
        !entry.is_asking() || can_propose && self.proposes(entry.last_line())
    }

    fn proposes(&self, line: usize) -> bool {
        self.reading.acts(line).contains(&Act::Proposal)
    }

    fn parts(&self, text: &str, sources: &[usize]) -> Vec<Quote> {
        let is_told = |at: usize, said: &str| !self.is_outdated(at, said);
        let is_assent = |at: usize| self.reading.acts(at).contains(&Act::Assent);
        parts_of(text, sources, self.material, self.language, is_told, is_assent)
    }

    fn tasks(&self, outline: &Outline) -> Section {
        let mut entries = Vec::new();
        for item in outline.action_items.iter().rev() {
            let owner = match &item.owner {
                Some(Owner::Person(at)) => self.material.people.get(*at).map(|p| p.name.clone()),
                Some(Owner::Named(name)) => Some(name.clone()),
                None => None,
            };
            let mut quotes = self.parts(&item.text, &item.sources);
            let is_owners = |quote: &Quote| match &item.owner {
                Some(Owner::Person(at)) => {
                    self.material.lines[quote.line].speaker == Speaker::Person(*at)
                }
                _ => false,
            };
            if let Some(at) = quotes.iter().rposition(is_owners) {
                let words = content_words(&quotes[at].text, self.language).len();
                quotes.truncate(at + 1);
                let kept = if words < CLEAR_WORDS { 2 } else { 1 };
                quotes.drain(..quotes.len().saturating_sub(kept));
            }
            let told = quotes.is_empty().then(|| {
                let owner = owner.as_ref().map(|owner| format!("{owner}: ")).unwrap_or_default();
                (format!("{owner}“{}”", item.text), item.sources.clone())
            });
            let entry = Entry { quotes, told, owner, due: item.due, ..Entry::default() };
            if self.is_about(&entry, &item.sources) {
                entries.push(entry);
            }
        }
        Section { heading: Some("tasks"), entries }
    }

    fn summary(&self) -> Vec<Section> {
        let outline = self.reading.outline();
        let (mut decided, tasks) =
            (self.section("decided", &outline.key_points), self.tasks(&outline));
        let taken: Vec<usize> = tasks.entries.iter().map(Entry::last_line).collect();
        decided.entries.retain(|entry| !taken.contains(&entry.last_line()));
        let mut sections = vec![decided, tasks];
        let told: Vec<usize> =
            sections.iter().flat_map(|s| &s.entries).flat_map(Entry::lines).collect();
        let answered = self.answered(&told);
        let mut open = self.section(OPEN, &outline.open_questions);
        open.entries
            .retain(|open| answered.iter().all(|entry| !entry.lines().contains(&open.last_line())));
        sections.push(Section { heading: Some("answered"), entries: answered });
        sections.push(open);
        let is_empty = sections.iter().all(|section| section.entries.is_empty());
        if is_empty && self.topic.is_empty() {
            let last = self.statements().rev().take(LAST_MAX);
            let entries = last.map(|at| Entry::of(vec![self.whole(at)])).collect();
            sections.push(Section { heading: Some("last"), entries });
        }
        sections
    }

    /// Prepares a summary of the same conversation without a topic.
    fn of_everything<'b>(&self, material: &'b Material, reading: &'b Reading) -> Read<'b> {
        Read {
            material,
            reading,
            intent: Intent::Summary,
            topic: Topic::new(&Intent::Summary, "", self.language, ("", self.language)),
            language: self.language,
            reach: self.reach,
        }
    }

    /// A summary of what was said since a day.
    fn since(&self, day: NaiveDate) -> Vec<Section> {
        let Some(first) = self.material.lines.iter().position(|line| line.day >= day) else {
            return Vec::new();
        };
        let rest = Material {
            people: self.material.people.clone(),
            lines: self.material.lines[first..].to_vec(),
        };
        let reading = Reading::new(&rest);
        let mut sections = self.of_everything(&rest, &reading).summary();
        for entry in sections.iter_mut().flat_map(|section| &mut section.entries) {
            for quote in &mut entry.quotes {
                quote.line += first;
            }
            if let Some((_, lines)) = &mut entry.told {
                for line in lines {
                    *line += first;
                }
            }
        }
        sections
    }

    /// The most recent questions with their answers, except for those whose lines are in `told`.
    fn answered(&self, told: &[usize]) -> Vec<Entry> {
        let mut found = Vec::new();
        for at in self.statements().rev() {
            let said = &self.material.lines[at];
            let asked = said.text.trim();
            if found.len() == ANSWERED_MAX || !is_question(asked) {
                continue;
            }
            let Some(answer) = self.answers_to(at, asked).into_iter().next() else { continue };
            let is_disputed = self
                .material
                .lines
                .get(answer.line + 1)
                .is_some_and(|_| self.reading.acts(answer.line + 1).contains(&Act::Dissent));
            let is_clear = content_words(&answer.text, self.language).len() >= CLEAR_WORDS;
            let is_outdated = self.is_outdated(answer.line, &answer.text);
            if !is_clear
                || is_disputed
                || is_outdated
                || told.contains(&answer.line)
                || told.contains(&at)
            {
                continue;
            }
            let entry = Entry::of(vec![self.whole(at), answer]);
            if self.topic.is_empty() || self.is_about(&entry, &[at]) {
                found.push(entry);
            }
        }
        found
    }

    fn whole(&self, at: usize) -> Quote {
        Quote { line: at, text: self.material.lines[at].text.clone() }
    }

    /// Lines by people that can be quoted.
    fn statements(&self) -> impl DoubleEndedIterator<Item = usize> + '_ {
        (0..self.material.lines.len()).filter(|at| self.is_quotable(*at))
    }

    fn is_quotable(&self, at: usize) -> bool {
        let line = &self.material.lines[at];
        let acts = self.reading.acts(at);
        let is_idle = !acts.is_empty() && acts.iter().all(|act| *act == Act::Chatter);
        matches!(line.speaker, Speaker::Person(_))
            && !line.text.trim().is_empty()
            && !is_idle
            && !acts.contains(&Act::Machine)
            && !acts.contains(&Act::Joke)
            && !ROLES.iter().any(|role| {
                let start = line.text.trim_start().get(..role.len());
                start.is_some_and(|start| start.eq_ignore_ascii_case(role))
            })
    }

    /// Statements by a person, newest first.
    fn said(&self, person: usize) -> Section {
        let theirs = self.statements().rev().filter(|at| {
            let line = &self.material.lines[*at];
            line.speaker == Speaker::Person(person)
        });
        let entries = theirs.filter_map(|at| {
            let line = &self.material.lines[at];
            let text = self.topic.best_statement(&line.text, line.day);
            let text = text.unwrap_or_else(|| line.text.clone());
            let entry = Entry::of(vec![Quote { line: at, text }]);
            (self.topic.is_empty() || self.topic.shared(&entry.text()) > 0).then_some(entry)
        });
        Section { heading: None, entries: entries.take(QUOTES_MAX).collect() }
    }

    /// Statements about the topic and replies to the questions about it, newest first.
    fn replies(&self) -> Vec<Entry> {
        if self.topic.is_empty() {
            return Vec::new();
        }
        // Entries by line, so that each line is quoted once.
        let mut found: BTreeMap<usize, Entry> = BTreeMap::new();
        let mut answers: Vec<usize> = Vec::new();
        let decided = self.section("decided", &self.reading.outline().key_points).entries;
        for at in self.statements() {
            let line = &self.material.lines[at];
            let mut context = self.topic.in_text(&line.text);
            if context.is_empty() {
                continue;
            }
            let before = at.checked_sub(1).map(|at| self.material.lines[at].text.as_str());
            let asked = before.filter(|text| is_question(text)).unwrap_or_default();
            context.extend(self.topic.in_text(asked));
            for sentence in sentences(&line.text).into_iter().take(SENTENCES_MAX) {
                if !self.topic.fits(&sentence.text, &context, line.day) {
                    continue;
                }
                if !is_question(&sentence.text) {
                    found.insert(at, Entry::of(vec![Quote { line: at, text: sentence.text }]));
                    continue;
                }
                let answered =
                    |entry: &&Entry| entry.quotes.len() > 1 && entry.quotes[0].line == at;
                if let Some(entry) = decided.iter().find(answered) {
                    answers.push(entry.last_line());
                    found.insert(entry.last_line(), entry.clone());
                    continue;
                }
                for answer in self.answers_to(at, &sentence.text) {
                    let words = content_words(&answer.text, self.language).len();
                    let asked = Quote { line: at, text: sentence.text.clone() };
                    let asked = Some(asked).filter(|_| words < CLEAR_WORDS);
                    let line = answer.line;
                    answers.push(line);
                    let quotes = asked.into_iter().chain([answer]).collect();
                    let entry = Entry { asked_in: Some(at), ..Entry::of(quotes) };
                    found.entry(line).or_insert(entry);
                }
            }
        }
        answers.extend(self.correct(&mut found));
        if self.topic.asks_for_value() {
            let has_value = found.values().any(|entry| self.has_value(entry));
            found.retain(|at, entry| self.has_value(entry) || !has_value && answers.contains(at));
            self.replace_values(&mut found);
        }
        let mut told = BTreeSet::new();
        let found = found.into_values().rev().filter(|entry| told.insert(entry.text()));
        found.take(QUOTES_MAX).collect()
    }

    /// Removes entries that a later entry replaces. The later one must have values of the same kinds and units, cover at least as
    /// much of the topic, and be a decision, a correction, or a statement that the next speaker agreed to.
    fn replace_values(&self, found: &mut BTreeMap<usize, Entry>) {
        let units =
            |at: usize, entry: &Entry| self.topic.units(&entry.text(), self.material.lines[at].day);
        let decided = |at: &usize| {
            let settles = |act: &Act| matches!(act, Act::Decision | Act::Correction);
            let is_agreed = at + 1 < self.material.lines.len()
                && self.material.lines[at + 1].speaker != self.material.lines[*at].speaker
                && self.reading.acts(at + 1).contains(&Act::Assent);
            is_agreed || self.reading.acts(*at).iter().any(settles)
        };
        let later: Vec<_> = found
            .iter()
            .filter(|(at, _)| decided(at))
            .map(|(at, entry)| (*at, units(*at, entry), self.covered(entry)))
            .collect();
        found.retain(|at, entry| {
            let own = units(*at, entry);
            let covered = self.covered(entry);
            !later.iter().any(|(other, units, others)| {
                other > at && own.is_subset(units) && covered <= *others
            })
        });
    }

    /// Returns at most one statement by another person that answers the question in a line, preferably one that shares a word with
    /// the question.
    fn answers_to(&self, question: usize, asked: &str) -> Vec<Quote> {
        let asker = &self.material.lines[question].speaker;
        let mut found: Vec<Quote> = Vec::new();
        let next = self.statements().skip_while(|at| *at <= question);
        for at in next.take(REPLY_LINES + 1) {
            let line = &self.material.lines[at];
            let is_askers = line.speaker == *asker;
            if found.len() == REPLY_LINES || is_askers && !found.is_empty() {
                break;
            }
            let answer = self.topic.best_statement(&line.text, line.day);
            let Some(text) = answer.filter(|_| !is_question(&line.text)) else {
                // The next question has its own replies.
                if found.is_empty() {
                    continue;
                }
                break;
            };
            if is_askers || self.reading.acts(at).contains(&Act::Unsure) {
                continue;
            }
            found.push(Quote { line: at, text });
        }
        let shares = |quote: &Quote| {
            let words = content_words(asked, self.language);
            content_words(&quote.text, self.language).iter().any(|word| words.contains(word))
        };
        if found.iter().any(shares) {
            found.retain(shares);
        }
        found.truncate(1);
        found
    }

    /// The most recent corrected values.
    pub(crate) fn superseded(&self) -> &'a [Superseded] {
        let all = self.reading.superseded();
        &all[all.len().saturating_sub(SUPERSEDED_MAX)..]
    }

    /// Checks whether the text of a line contains a value that was corrected later.
    fn is_outdated(&self, at: usize, text: &str) -> bool {
        self.superseded().iter().any(|value| at < value.line && is_outdated_by(text, value))
    }

    /// Replaces statements that contain corrected values with the corrections, and returns the lines of the corrections.
    fn correct(&self, found: &mut BTreeMap<usize, Entry>) -> Vec<usize> {
        let mut corrections = Vec::new();
        let quoted = |at: usize| {
            let line = &self.material.lines[at];
            let text = self.topic.best_statement(&line.text, line.day)?;
            self.is_quotable(at).then(|| Entry::of(vec![Quote { line: at, text }]))
        };
        for value in self.superseded() {
            let is_old =
                |at: &usize, entry: &Entry| *at < value.line && entry.is_outdated_by(value);
            if found.iter().any(|(at, entry)| is_old(at, entry)) {
                found.retain(|at, entry| !is_old(at, entry));
                if let Some(entry) = quoted(value.line) {
                    found.entry(value.line).or_insert(entry);
                    corrections.push(value.line);
                }
            }
        }
        // Adds later corrections on the same subject.
        let words = |text: &str| content_words(text, self.language);
        let known: Vec<(usize, Vec<String>)> =
            found.iter().map(|(at, entry)| (*at, words(&entry.text()))).collect();
        for at in self.statements().filter(|at| self.reading.acts(*at).contains(&Act::Correction)) {
            let own = words(&self.material.lines[at].text);
            let corrects = |(known, said): &(usize, Vec<String>)| {
                *known < at && said.iter().any(|word| own.contains(word))
            };
            if let (true, Some(entry)) = (known.iter().any(corrects), quoted(at)) {
                found.entry(at).or_insert(entry);
            }
        }
        corrections
    }
}
