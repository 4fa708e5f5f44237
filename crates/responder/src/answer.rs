//! Composes answers.

use std::collections::BTreeSet;

use chrono::NaiveDate;
use openvibe_extract::{
    Act, Language, Material, Outline, Owner, Point, Reading, Speaker, content_words,
};

use crate::{
    Composed,
    intent::{self, Asked, Intent},
    matching::{Hit, Topic, is_question, one_line, ranked},
    words::{filled, language_of, normal, text},
};

/// Maximum number of quotes.
const QUOTES_MAX: usize = 5;
/// Number of people's lines after a question that can answer it.
const REPLY_LINES: usize = 4;

/// The part of a conversation that was read.
#[derive(Debug, Clone, Default)]
pub struct Conversation {
    /// Lines that can be quoted: neither those that address an agent nor replies of the responder. Oldest first.
    pub material: Material,
    /// Messages that were read, and all of them.
    pub read: u64,
    pub total: u64,
}

/// A message that addresses the responder, without the agent's mention.
#[derive(Debug, Clone)]
pub struct Question {
    pub text: String,
    pub today: NaiveDate,
    pub is_admin: bool,
    /// Address of Settings › Model.
    pub settings_url: String,
    /// The responder has not replied in this conversation.
    pub is_first: bool,
}

/// An answer, or what has to be searched for it.
pub struct Answer {
    question: Question,
    language: Language,
    /// Complete if nothing is to be searched.
    found: Option<Composed>,
    topic: Topic,
    /// The answer if a search finds nothing.
    nothing: &'static str,
    /// Lines after the answer.
    notes: Vec<String>,
}

/// Answers from the conversation, if it contains an answer.
pub fn answer(conversation: &Conversation, question: Question) -> Answer {
    let material = &conversation.material;
    let reading = Reading::new(material);
    let asked_in = language_of(&question.text);
    let language = if material.lines.is_empty() { asked_in } else { reading.language() };
    let names: Vec<Vec<String>> = material.people.iter().map(names_of).collect();
    let Asked { intent, topic } = intent::read(&question.text, &names, question.today);
    let topic = Topic::new(&intent, &topic, asked_in, language);
    let mut answer = Answer {
        question,
        language,
        found: None,
        topic,
        nothing: text(language, "nothing"),
        notes: Vec::new(),
    };
    let is_about_talk = !matches!(intent, Intent::Help | Intent::NeedsModel);
    if is_about_talk && conversation.read < conversation.total {
        let (n, total) = (conversation.read.to_string(), conversation.total.to_string());
        answer.notes.push(filled(language, "read", &[("n", &n), ("total", &total)]));
    }
    let read = Read { material, reading: &reading, topic: &answer.topic, language };
    answer.found = match intent {
        Intent::Help => {
            Some(Composed { text: text(language, "hello").to_owned(), sources: vec![] })
        }
        Intent::NeedsModel => Some(answer.needs_model()),
        Intent::Decided => {
            answer.nothing = text(language, "no-decision");
            read.decided()
        }
        Intent::Open => {
            answer.nothing = text(language, "no-open");
            read.open()
        }
        Intent::Tasks => {
            answer.nothing = text(language, "no-tasks");
            read.tasks()
        }
        Intent::Summary => {
            answer.nothing = text(language, "no-summary");
            read.summary()
        }
        Intent::Since(day) => {
            answer.nothing = text(language, "no-summary");
            since(material, day, language)
        }
        Intent::Said(person) => read.said(person),
        Intent::Owner => read.tasks(),
        Intent::When | Intent::Amount | Intent::Other => None,
    };
    if answer.found.is_none() && is_about_talk {
        answer.found = read.replies();
    }
    // There is nothing to search for without a subject.
    if answer.found.is_none() && answer.topic.is_empty() {
        answer.found = Some(Composed { text: answer.nothing.to_owned(), sources: vec![] });
    }
    answer
}

fn names_of(person: &openvibe_extract::Person) -> Vec<String> {
    let name = normal(&person.name);
    let first = name.split(' ').next().unwrap_or_default().to_owned();
    let mut names = vec![name, first, normal(&person.handle)];
    names.retain(|name| !name.is_empty());
    names.dedup();
    names
}

impl Answer {
    /// Words to search for; empty if the conversation contains the answer.
    pub fn search(&self) -> Vec<String> {
        if self.found.is_some() {
            return Vec::new();
        }
        self.topic.words.iter().cloned().collect()
    }

    /// The answer; `hits` are what the search found, in any order. Sources are hits if `search` is not empty.
    pub fn compose(&self, hits: &[Hit]) -> Composed {
        let mut composed = match &self.found {
            Some(found) => found.clone(),
            None => self.elsewhere(hits),
        };
        let mut notes = self.notes.clone();
        if self.question.is_first {
            notes.push(text(self.language, "intro").to_owned());
        }
        for note in notes {
            composed.text.push_str("\n\n");
            composed.text.push_str(&note);
        }
        composed
    }

    fn elsewhere(&self, hits: &[Hit]) -> Composed {
        let found = ranked(&self.topic, hits, QUOTES_MAX);
        let mut lines = Lines::default();
        for (at, quote) in found {
            let hit = &hits[at];
            let date = date(hit.day, self.language);
            let values = [
                ("name", hit.author.as_str()),
                ("channel", hit.channel.as_deref().unwrap_or_default()),
                ("date", date.as_str()),
            ];
            let form = if hit.channel.is_some() { "in" } else { "direct" };
            lines.add(&format!("{}: “{quote}”", filled(self.language, form, &values)), &[at]);
        }
        lines
            .composed()
            .unwrap_or_else(|| Composed { text: self.nothing_elsewhere(), sources: vec![] })
    }

    fn nothing_elsewhere(&self) -> String {
        let nothing = text(self.language, "nothing");
        if self.nothing == nothing {
            nothing.to_owned()
        } else {
            format!("{} {nothing}", self.nothing)
        }
    }

    fn needs_model(&self) -> Composed {
        let how = if self.question.is_admin {
            filled(self.language, "model-admin", &[("url", &self.question.settings_url)])
        } else {
            text(self.language, "model-member").to_owned()
        };
        Composed { text: format!("{} {how}", text(self.language, "model")), sources: vec![] }
    }
}

fn date(day: NaiveDate, language: Language) -> String {
    day.format(text(language, "date")).to_string()
}

/// Lines of an answer with their citations.
#[derive(Default)]
struct Lines {
    text: String,
    sources: Vec<usize>,
}

impl Lines {
    fn heading(&mut self, heading: &str) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        self.text.extend(["**", heading, "**\n"]);
    }

    fn add(&mut self, line: &str, sources: &[usize]) {
        self.text.extend(["- ", line]);
        for source in sources {
            let known = self.sources.iter().position(|known| known == source);
            let at = known.unwrap_or_else(|| {
                self.sources.push(*source);
                self.sources.len() - 1
            });
            self.text.extend([" [", &(at + 1).to_string(), "]"]);
        }
        self.text.push('\n');
    }

    fn composed(self) -> Option<Composed> {
        let text = self.text.trim_end().to_owned();
        (!self.sources.is_empty()).then_some(Composed { text, sources: self.sources })
    }
}

/// A conversation that was read for a question.
struct Read<'a> {
    material: &'a Material,
    reading: &'a Reading,
    topic: &'a Topic,
    language: Language,
}

impl Read<'_> {
    /// Points about the topic, newest first; all of them if there is no topic.
    fn about<'p>(&self, points: &'p [Point]) -> Vec<&'p Point> {
        let mut found: Vec<&Point> = points
            .iter()
            .filter(|point| {
                let all = self.quoted(&point.sources);
                self.topic.is_empty() || self.topic.shared(&format!("{} {all}", point.text)) > 0
            })
            .collect();
        found.sort_by_key(|point| std::cmp::Reverse(point.sources.iter().max().copied()));
        found
    }

    fn points(&self, lines: &mut Lines, heading: &str, points: &[Point]) {
        let points = self.about(points);
        if points.is_empty() {
            return;
        }
        lines.heading(text(self.language, heading));
        for point in points {
            let sources = &point.sources[point.sources.len().saturating_sub(2)..];
            lines.add(&self.named(&point.text, point.sources.first().copied()), sources);
        }
    }

    /// A quote with the name of its author; a text that names somebody already stays as it is.
    fn named(&self, quote: &str, line: Option<usize>) -> String {
        match line.and_then(|line| self.author(line)) {
            Some(name) if !quote.contains('“') => format!("{name}: “{}”", one_line(quote)),
            _ => quote.to_owned(),
        }
    }

    fn author(&self, line: usize) -> Option<&str> {
        match &self.material.lines.get(line)?.speaker {
            Speaker::Person(at) => Some(&self.material.people.get(*at)?.name),
            Speaker::Agent(name) => Some(name),
        }
    }

    /// Texts of the source lines.
    fn quoted(&self, sources: &[usize]) -> String {
        let lines = sources.iter().filter_map(|at| self.material.lines.get(*at));
        let texts: Vec<&str> = lines.map(|line| line.text.as_str()).collect();
        texts.join(" ")
    }

    fn decided(&self) -> Option<Composed> {
        let mut lines = Lines::default();
        self.points(&mut lines, "decided", &self.reading.outline().key_points);
        lines.composed()
    }

    fn open(&self) -> Option<Composed> {
        let mut lines = Lines::default();
        self.points(&mut lines, "open", &self.reading.outline().open_questions);
        lines.composed()
    }

    fn tasks(&self) -> Option<Composed> {
        let mut lines = Lines::default();
        self.tasks_of(&mut lines, &self.reading.outline());
        lines.composed()
    }

    fn tasks_of(&self, lines: &mut Lines, outline: &Outline) {
        let items: Vec<_> = outline
            .action_items
            .iter()
            .filter(|item| {
                let all = self.quoted(&item.sources);
                let about = format!("{} {all}", item.text);
                // Names in the question are owners.
                self.topic.is_empty() || self.topic.shared(&about) * 2 >= self.topic.words.len()
            })
            .collect();
        if items.is_empty() {
            return;
        }
        lines.heading(text(self.language, "tasks"));
        for item in items.into_iter().rev() {
            let owner = match &item.owner {
                Some(Owner::Person(at)) => self.material.people.get(*at).map(|p| p.name.as_str()),
                Some(Owner::Named(name)) => Some(name.as_str()),
                None => None,
            };
            let due = item.due.map(|due| {
                format!(
                    " ({})",
                    filled(self.language, "due", &[("date", &date(due, self.language))])
                )
            });
            let owner = owner.map(|owner| format!("{owner}: ")).unwrap_or_default();
            let line = format!("{owner}“{}”{}", one_line(&item.text), due.unwrap_or_default());
            lines.add(&line, &item.sources[item.sources.len().saturating_sub(2)..]);
        }
    }

    fn summary(&self) -> Option<Composed> {
        let outline = self.reading.outline();
        let mut lines = Lines::default();
        self.points(&mut lines, "decided", &outline.key_points);
        self.tasks_of(&mut lines, &outline);
        self.points(&mut lines, "open", &outline.open_questions);
        if lines.sources.is_empty() && self.topic.is_empty() {
            self.last(&mut lines);
        }
        lines.composed()
    }

    /// The last statements of people, newest first.
    fn last(&self, lines: &mut Lines) {
        let said: Vec<usize> = self.statements().rev().take(3).collect();
        if said.is_empty() {
            return;
        }
        lines.heading(text(self.language, "last"));
        for at in said {
            lines.add(&self.named(&one_line(&self.material.lines[at].text), Some(at)), &[at]);
        }
    }

    /// Lines of people that can be quoted as statements.
    fn statements(&self) -> impl DoubleEndedIterator<Item = usize> + '_ {
        (0..self.material.lines.len()).filter(|at| self.is_quotable(*at))
    }

    fn is_quotable(&self, at: usize) -> bool {
        let line = &self.material.lines[at];
        let acts = self.reading.acts(at);
        let is_idle =
            !acts.is_empty() && acts.iter().all(|act| matches!(act, Act::Chatter | Act::Joke));
        matches!(line.speaker, Speaker::Person(_))
            && !line.text.trim().is_empty()
            && !is_idle
            && !acts.contains(&Act::Machine)
            && !acts.contains(&Act::Joke)
    }

    /// Statements of a person, newest first.
    fn said(&self, person: usize) -> Option<Composed> {
        let mut lines = Lines::default();
        let theirs = self.statements().filter(|at| {
            let line = &self.material.lines[*at];
            line.speaker == Speaker::Person(person)
                && (self.topic.is_empty() || self.topic.shared(&line.text) > 0)
        });
        for at in theirs.rev().take(QUOTES_MAX) {
            let quote = self
                .topic
                .best_sentence(&self.material.lines[at].text, self.material.lines[at].day);
            lines.add(&self.named(&quote, Some(at)), &[at]);
        }
        lines.composed()
    }

    /// Statements about the topic and replies to the questions that resemble it, newest first.
    fn replies(&self) -> Option<Composed> {
        let mut found: BTreeSet<usize> = BTreeSet::new();
        for at in self.statements() {
            let line = &self.material.lines[at];
            if is_question(&line.text) {
                if self.topic.resembles(&line.text) {
                    found.extend(self.answers_to(at));
                }
            } else if self.topic.fits(&line.text, line.day) {
                found.insert(at);
            }
        }
        self.correct(&mut found);
        let has_value = |at: &usize| {
            let line = &self.material.lines[*at];
            self.topic.has_value(&line.text, line.day)
        };
        if self.topic.asks_for_value() && found.iter().any(has_value) {
            found.retain(has_value);
        }
        let mut lines = Lines::default();
        for at in found.iter().rev().take(QUOTES_MAX) {
            let line = &self.material.lines[*at];
            let quote = self.topic.best_sentence(&line.text, line.day);
            lines.add(&self.named(&quote, Some(*at)), &[*at]);
        }
        lines.composed()
    }

    /// Lines that answer the question in a line.
    fn answers_to(&self, question: usize) -> Vec<usize> {
        let mut found = Vec::new();
        for at in self.statements().filter(|at| *at > question).take(REPLY_LINES) {
            if is_question(&self.material.lines[at].text) {
                // The next question has its own replies.
                if !found.is_empty() {
                    break;
                }
                continue;
            }
            if self.reading.acts(at).contains(&Act::Unsure) {
                continue;
            }
            found.push(at);
        }
        found
    }

    /// Adds the corrections of values in these lines, and removes lines with values that are no longer true.
    fn correct(&self, found: &mut BTreeSet<usize>) {
        for value in self.reading.superseded() {
            let is_old = |at: &usize| {
                let line = &self.material.lines[*at].text;
                *at < value.line && has_words(line, &value.old) && !has_words(line, &value.new)
            };
            if found.iter().any(is_old) && self.is_quotable(value.line) {
                found.retain(|at| !is_old(at));
                found.insert(value.line);
            }
        }
        // A later correction of the same subject.
        let corrections: Vec<usize> = self
            .statements()
            .filter(|at| self.reading.acts(*at).contains(&Act::Correction))
            .filter(|at| {
                let words = content_words(&self.material.lines[*at].text, self.language);
                found.iter().any(|known| {
                    let other = content_words(&self.material.lines[*known].text, self.language);
                    known < at && words.iter().any(|word| other.contains(word))
                })
            })
            .collect();
        found.extend(corrections);
    }
}

fn has_words(text: &str, part: &str) -> bool {
    !normal(part).is_empty()
        && format!(" {} ", normal(text)).contains(&format!(" {} ", normal(part)))
}

/// A summary of what was said from a day on.
fn since(material: &Material, day: NaiveDate, language: Language) -> Option<Composed> {
    let first = material.lines.iter().position(|line| line.day >= day)?;
    let rest =
        Material { people: material.people.clone(), lines: material.lines[first..].to_vec() };
    let reading = Reading::new(&rest);
    let topic = Topic::new(&Intent::Summary, "", language, language);
    let read = Read { material: &rest, reading: &reading, topic: &topic, language };
    let mut found = read.summary()?;
    for source in &mut found.sources {
        *source += first;
    }
    Some(found)
}
