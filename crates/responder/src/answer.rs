//! Composes answers.

use chrono::NaiveDate;
use openvibe_extract::{Language, Material, Reading, detect};

use crate::{
    Composed, Excerpt, Source,
    intent::{Intent, Question},
    quotes::{Entry, QUOTES_MAX, Section},
    read::{Reach, Read},
    words::{date, filled, help_topic, language_of, text},
};

/// Topics of questions about the product that concern admins.
const ADMIN_TOPICS: [&str; 5] = ["backup", "budget", "invite", "model", "tools"];

/// The part of a conversation that was read.
#[derive(Debug, Clone, Default)]
pub struct Conversation {
    pub title: String,
    /// Lines that can be quoted, oldest first. Excludes lines that address an agent and replies of the responder.
    pub material: Material,
    /// Number of messages that were read, and the total number of messages.
    pub read: u64,
    pub total: u64,
}

/// An answer, or the search that it requires.
pub struct Answer {
    question: Question,
    language: Language,
    /// The complete answer; `None` if a search is required.
    found: Option<Composed>,
    /// The answer if a search finds nothing.
    nothing: &'static str,
    /// Notes below the answer.
    notes: Vec<String>,
}

/// Answers a question from the conversation if it contains an answer. Otherwise, the answer requires a search; see `needs_search`.
pub fn answer(conversation: &Conversation, question: Question) -> Answer {
    let material = &conversation.material;
    let reading = Reading::new(material);
    let known = reading.language();
    let is_empty = material.lines.is_empty();
    let asked_in = language_of(&question.text)
        .unwrap_or_else(|| if is_empty { detect(&question.text) } else { known });
    // Read in the conversation's language, and answered in the requester's.
    let (known, language) = (if is_empty { asked_in } else { known }, asked_in);
    let mut answer = Answer {
        question,
        language,
        found: None,
        nothing: text(language, "nothing"),
        notes: Vec::new(),
    };
    let plain = |text: &str| Some(Composed { text: text.to_owned(), sources: Vec::new() });
    let read =
        Read::new((&conversation.title, material, known), &reading, &answer.question, Reach::Here);
    if let Some(topic) = help_topic(&answer.question.text) {
        // People here may have answered the question for their own work.
        let lines = Lines::of_sections(&read.sections(), material, language);
        answer.found = lines.composed().or_else(|| plain(&answer.help(topic)));
        return answer;
    }
    match read.intent {
        Intent::Help => answer.found = plain(text(language, "hello")),
        Intent::NeedsModel => answer.found = plain(&answer.needs_model()),
        _ => {
            if conversation.read < conversation.total {
                let (n, total) = (conversation.read.to_string(), conversation.total.to_string());
                answer.notes.push(filled(language, "read", &[("n", &n), ("total", &total)]));
            }
            let nothing = text(language, nothing_of(&read.intent));
            let lines = Lines::of_sections(&read.sections(), material, language);
            // There is nothing to search for without a subject.
            let nothing_here = read.topic.words.is_empty().then(|| plain(nothing)).flatten();
            answer.found = lines.composed().or(nothing_here);
            answer.nothing = nothing;
        }
    }
    answer
}

fn nothing_of(intent: &Intent) -> &'static str {
    match intent {
        Intent::Decided | Intent::DecidedAndTasks => "no-decision",
        Intent::Open => "no-open",
        Intent::Tasks => "no-tasks",
        Intent::Summary | Intent::Since(_) => "no-summary",
        _ => "nothing",
    }
}

impl Answer {
    /// Checks whether other conversations must be searched because this one does not contain the answer.
    pub fn needs_search(&self) -> bool {
        self.found.is_none()
    }

    /// Composes the answer. `excerpts` are parts of the conversations that the search found, best first.
    pub fn compose(&self, excerpts: &[Excerpt]) -> Composed {
        let mut composed = match &self.found {
            Some(found) => found.clone(),
            None => self.elsewhere(excerpts),
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

    fn elsewhere(&self, excerpts: &[Excerpt]) -> Composed {
        let mut found: Vec<Found> = Vec::new();
        let mut superseded = Vec::new();
        for (place, excerpt) in excerpts.iter().enumerate() {
            let material = &excerpt.material;
            let reading = Reading::new(material);
            let place_of = (excerpt.title.as_str(), material, reading.language());
            let read = Read::new(place_of, &reading, &self.question, Reach::Elsewhere);
            let entries = read.sections().into_iter().flat_map(|section| section.entries);
            found.extend(entries.map(|entry| Found {
                place,
                day: material.lines[entry.last_line()].day,
                covered: read.covered(&entry),
                has_value: read.has_value(&entry),
                is_asking: entry.is_asking(),
                entry,
            }));
            superseded.extend(
                reading
                    .superseded()
                    .iter()
                    .filter_map(|value| Some((material.lines.get(value.line)?.day, value.clone()))),
            );
        }
        found.retain(|found| {
            let is_old = superseded
                .iter()
                .any(|(day, value)| found.day <= *day && found.entry.is_outdated_by(value));
            !is_old
        });
        // Values are better answers than other statements, and questions about the topic are only quoted if there are
        // no statements.
        for is_better in [|found: &Found| found.has_value, |found: &Found| !found.is_asking] {
            if found.iter().any(is_better) {
                found.retain(is_better);
            }
        }
        found.sort_by(|a, b| b.covered.cmp(&a.covered).then(b.day.cmp(&a.day)));
        let mut lines = Lines::default();
        let mut told: Vec<String> = Vec::new();
        for found in &found {
            let excerpt = &excerpts[found.place];
            let head = |name: &str| {
                let date = date(found.day, self.language);
                let channel = excerpt.channel.as_deref().unwrap_or_default();
                let values = [("name", name), ("channel", channel), ("date", date.as_str())];
                filled(self.language, if channel.is_empty() { "direct" } else { "in" }, &values)
            };
            let line = found.entry.rendered(&excerpt.material, self.language, head);
            if told.len() < QUOTES_MAX && !told.contains(&line) {
                lines.add(&line, found.place, &found.entry.lines());
                told.push(line);
            }
        }
        let nothing = || Composed { text: self.nothing_elsewhere(), sources: vec![] };
        lines.composed().unwrap_or_else(nothing)
    }

    fn nothing_elsewhere(&self) -> String {
        let nothing = text(self.language, "nothing");
        if self.nothing == nothing {
            nothing.to_owned()
        } else {
            format!("{} {nothing}", self.nothing)
        }
    }

    /// Answer to a question about the product. Members are not sent to pages on which only admins can act.
    fn help(&self, topic: &str) -> String {
        let path = self.question.workspace_path.as_str();
        let how = filled(self.language, &format!("help {topic}"), &[("path", path)]);
        if self.question.is_admin || !ADMIN_TOPICS.contains(&topic) {
            return how;
        }
        format!("{} {}", without_links(&how), text(self.language, "ask-admin"))
    }

    fn needs_model(&self) -> String {
        let how = if self.question.is_admin {
            let path = self.question.workspace_path.as_str();
            filled(self.language, "model-admin", &[("path", path)])
        } else {
            text(self.language, "model-member").to_owned()
        };
        format!("{} {how}", text(self.language, "model"))
    }
}

/// Replaces Markdown links with their texts.
fn without_links(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, (label, after))) = rest.split_once('[').and_then(|(before, link)| {
        let (label, target) = link.split_once("](")?;
        Some((before, (label, target.split_once(')')?.1)))
    }) {
        plain.extend([before, label]);
        rest = after;
    }
    plain.push_str(rest);
    plain
}

/// An entry from another conversation.
struct Found {
    place: usize,
    day: NaiveDate,
    /// Number of words of the question that the entry covers.
    covered: usize,
    has_value: bool,
    is_asking: bool,
    entry: Entry,
}

/// Lines of an answer with their citations.
#[derive(Default)]
struct Lines {
    text: String,
    sources: Vec<Source>,
}

impl Lines {
    fn of_sections(sections: &[Section], material: &Material, language: Language) -> Self {
        let mut lines = Self::default();
        for section in sections.iter().filter(|section| !section.entries.is_empty()) {
            if let Some(heading) = section.heading {
                if !lines.text.is_empty() {
                    lines.text.push('\n');
                }
                lines.text.extend(["**", text(language, heading), "**\n"]);
            }
            for entry in &section.entries {
                let line = entry.rendered(material, language, str::to_owned);
                lines.add(&line, 0, &entry.lines());
            }
        }
        lines
    }

    fn add(&mut self, line: &str, place: usize, cited: &[usize]) {
        self.text.extend(["- ", line]);
        for line in cited {
            let source = Source { place, line: *line };
            let known = self.sources.iter().position(|known| *known == source);
            let at = known.unwrap_or_else(|| {
                self.sources.push(source);
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
