//! Finds the answers to a question in one conversation.

use std::collections::{BTreeMap, BTreeSet};

use chrono::NaiveDate;
use openvibe_extract::{
    Act, Language, Material, Owner, Point, Quotation, Reading, Speaker, Superseded, content_words,
    sentences,
};

use crate::{
    intent::{Intent, Question, asked_in},
    matching::{SENTENCES_MAX, Topic},
    names::Names,
    quotes::{Entry, QUOTES_MAX, Quote, Section, each_once, is_outdated_by, parts_of},
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

/// A conversation that is searched for the answer to a question.
pub(crate) struct Read<'a> {
    material: &'a Material,
    reading: &'a Reading,
    pub(crate) intent: Intent,
    pub(crate) topic: Topic,
    names: Names,
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
        let in_language = language_of(&question.text).unwrap_or(language);
        let topic = Topic::new(&asked.intent, &asked.topic, in_language, (title, language));
        let names = Names::of(&question.text, in_language, title, material);
        Self { material, reading, intent: asked.intent, topic, names, language, reach }
    }

    /// Sections of the answer, in which each message is quoted once. They have no entries if the conversation does not contain an
    /// answer.
    pub(crate) fn sections(&self) -> Vec<Section> {
        let mut found = match self.intent {
            Intent::Decided => vec![self.decided()],
            Intent::DecidedAndTasks => vec![self.decided(), self.tasks()],
            Intent::Open => vec![self.open()],
            Intent::Tasks | Intent::Owner => vec![self.tasks()],
            Intent::Summary => self.summary(),
            Intent::Since(day) => self.since(day),
            Intent::Said(person) => vec![self.said(person)],
            _ => Vec::new(),
        };
        let is_found = |found: &[Section]| found.iter().any(|section| !section.entries.is_empty());
        if !is_found(&found) {
            found = vec![Section { heading: None, entries: self.replies() }];
        }
        if self.intent == Intent::Summary && self.reach == Reach::Here && !is_found(&found) {
            found = self.of_everything(self.material, self.reading).summary();
        }
        each_once(&mut found, |line| self.material.lines[line].text.clone());
        found
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
        let own = entry.quotes.last().map_or_else(String::new, |last| last.text.clone());
        let context = self.texts(sources);
        let Some(line) = self.material.lines.get(entry.last_line()) else { return false };
        if !self.names.fit(&format!("{} {own}", entry.text()), &context, &line.speaker) {
            return false;
        }
        if self.reach == Reach::Elsewhere || self.intent == Intent::Owner {
            self.topic.fits(&own, &self.topic.in_text(&context), line.day)
        } else {
            self.topic.is_titled() || self.topic.shared(&format!("{own} {context}")) > 0
        }
    }

    /// Decisions about the topic, newest first. Without a topic, all decisions are included.
    fn decided(&self) -> Section {
        let quote = |quotation: Quotation| {
            let text = quotation.text;
            Quote { line: quotation.line, text }
        };
        let entries = self.reading.decisions().into_iter().filter_map(|decision| {
            let asked_in = decision.asked.as_ref().map(|asked| asked.line);
            let quotes = decision.asked.into_iter().chain([decision.stated]).map(quote).collect();
            let entry = Entry { asked_in, ..Entry::of(quotes) };
            let is_told = !self.is_outdated(entry.last_line(), &entry.text());
            (is_told && self.is_about(&entry, &decision.sources)).then_some(entry)
        });
        let mut entries: Vec<Entry> = entries.collect();
        entries.sort_by_key(|entry| std::cmp::Reverse(entry.last_line()));
        Section { heading: Some("decided"), entries }
    }

    /// Open questions about the topic, newest first.
    fn open(&self) -> Section {
        let entries = self.reading.open_questions().into_iter().filter_map(|point: Point| {
            let mut quotes = self.parts(&point.text, &point.sources);
            quotes.truncate(1);
            if quotes.is_empty() {
                quotes = point.sources.first().map(|at| self.whole(*at)).into_iter().collect();
            }
            let entry = Entry::of(quotes);
            self.is_about(&entry, &point.sources).then_some(entry)
        });
        let mut entries: Vec<Entry> = entries.collect();
        entries.sort_by_key(|entry| std::cmp::Reverse(entry.last_line()));
        Section { heading: Some("open"), entries }
    }

    fn parts(&self, text: &str, sources: &[usize]) -> Vec<Quote> {
        let is_told = |at: usize, said: &str| !self.is_outdated(at, said);
        let is_assent = |at: usize| self.reading.acts(at).contains(&Act::Assent);
        parts_of(text, sources, self.material, self.language, is_told, is_assent)
    }

    fn tasks(&self) -> Section {
        let mut entries = Vec::new();
        for item in self.reading.outline().action_items.iter().rev() {
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
            if quotes.is_empty() {
                quotes.extend(item.sources.last().map(|at| self.whole(*at)));
            }
            let entry = Entry { owner, due: item.due, ..Entry::of(quotes) };
            if self.is_about(&entry, &item.sources) {
                entries.push(entry);
            }
        }
        Section { heading: Some("tasks"), entries }
    }

    fn summary(&self) -> Vec<Section> {
        let mut sections = vec![self.decided(), self.tasks()];
        let told: Vec<usize> =
            sections.iter().flat_map(|s| &s.entries).flat_map(Entry::lines).collect();
        let answered = self.answered(&told);
        let mut open = self.open();
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
            names: Names::default(),
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
        let decided = self.decided().entries;
        for at in self.statements() {
            let line = &self.material.lines[at];
            let mut context = self.topic.in_text(&line.text);
            if context.is_empty() {
                continue;
            }
            let before = at.checked_sub(1).map(|at| self.material.lines[at].text.as_str());
            let asked = before.filter(|text| is_question(text)).unwrap_or_default();
            context.extend(self.topic.in_text(asked));
            let mut told = String::new();
            for sentence in sentences(&line.text).into_iter().take(SENTENCES_MAX) {
                let text = sentence.text;
                let is_named = self.names.fit(&text, &told, &line.speaker);
                told.extend([&text, " "]);
                if !is_named || !self.topic.fits(&text, &context, line.day) {
                    continue;
                }
                if !is_question(&text) {
                    found.insert(at, Entry::of(vec![Quote { line: at, text }]));
                    continue;
                }
                if let Some(text) = self.topic.option(&text, line.day) {
                    answers.push(at);
                    found.insert(at, Entry::of(vec![Quote { line: at, text }]));
                    continue;
                }
                let answered =
                    |entry: &&Entry| entry.quotes.len() > 1 && entry.quotes[0].line == at;
                if let Some(entry) = decided.iter().find(answered) {
                    answers.push(entry.last_line());
                    found.insert(entry.last_line(), entry.clone());
                    continue;
                }
                for answer in self.answers_to(at, &text) {
                    let words = content_words(&answer.text, self.language).len();
                    let speaker = &self.material.lines[answer.line].speaker;
                    let is_named = self.names.fit(&answer.text, "", speaker);
                    let asked = Quote { line: at, text: text.clone() };
                    let asked = Some(asked).filter(|_| words < CLEAR_WORDS || !is_named);
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
            // An answer without a price does not answer a question about one.
            let can_lack_value = !has_value && !self.topic.is_price();
            found.retain(|at, entry| {
                self.has_value(entry) || can_lack_value && answers.contains(at)
            });
            self.replace_values(&mut found);
            if found.is_empty() {
                found.extend(self.value());
            }
        }
        if self.intent == Intent::Why && found.values().any(|entry| self.has_value(entry)) {
            found.retain(|_, entry| self.has_value(entry));
        }
        let mut told = BTreeSet::new();
        let found = found.into_values().rev().filter(|entry| told.insert(entry.text()));
        found.take(QUOTES_MAX).collect()
    }

    /// The newest statement with a value of the requested kind, if the question contains a name that the statement is about, or if the
    /// title of the conversation contains all words of the question.
    fn value(&self) -> Option<(usize, Entry)> {
        let is_titled = self.topic.is_titled() && self.reach == Reach::Here;
        let is_known = is_titled || self.names.are_asked();
        self.statements().rev().filter(|_| is_known).find_map(|at| {
            let line = &self.material.lines[at];
            let mut told = String::new();
            let quoted = sentences(&line.text).into_iter().take(SENTENCES_MAX).find(|sentence| {
                let is_named = self.names.fit(&sentence.text, &told, &line.speaker);
                told.extend([&sentence.text, " "]);
                is_named
                    && !is_question(&sentence.text)
                    && self.topic.has_value(&sentence.text, line.day)
            });
            let text = quoted.filter(|quoted| !self.is_outdated(at, &quoted.text))?.text;
            Some((at, Entry::of(vec![Quote { line: at, text }])))
        })
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
            if is_askers {
                continue;
            }
            // Somebody who does not know, or will not do it, leaves the question open.
            let acts = self.reading.acts(at);
            if acts.iter().any(|act| matches!(act, Act::Unsure | Act::Refusal)) {
                break;
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
