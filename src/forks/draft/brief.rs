//! Builds the requests to the model.
//!
//! The system prompt contains nothing that was written by people. Their messages follow as one user message. They cannot imitate
//! labels: every label starts a line with `[…]:` or with fixed words, and `replies::lines` escapes such lines in messages.

use std::collections::BTreeSet;

use chrono::NaiveDate;
use openvibe_extract::{Material, Speaker};

use super::{fault::Fault, handle};
use crate::{
    model::{ChatMessage, Role, estimate_tokens},
    replies::lines::{
        AI_SUFFIX, FORK_DESCRIPTION, GUIDANCE, clean_name, escape_lines, one_line, person_name,
        without_control_tokens, without_middle,
    },
};

/// Maximum number of dates listed with their weekdays. The oldest ones are omitted first.
const CALENDAR_DAYS_MAX: usize = 20;
/// Label of the thread's messages that precede the forked message.
const BACKGROUND: &str =
    "[Thread before the deep dive, to understand it; not part of the material]:";
/// Maximum length of an answer that is sent back for repair.
const REPAIRED_CHARS_MAX: usize = 12_000;
const FAULTS_MAX: usize = 20;
const SYSTEM: &str = include_str!("../../../seeds/resolver.txt");
/// Instruction at the end of the request, because models follow the last instruction best.
const REQUEST: &str =
    "(End of the material. Write the JSON object now, in the language of the messages.)";

/// A message of the thread that precedes the forked message, with its label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Background {
    /// Line number, continuing after the last line of the material. The model sees no handle for it.
    pub line: usize,
    pub text: String,
}

/// The conversation to resolve.
#[derive(Debug, Clone, Copy)]
pub struct DraftRequest<'a> {
    pub material: &'a Material,
    /// Messages of the thread that precede the forked message, with their labels, oldest first. They have no handles, so they cannot
    /// be sources.
    pub background: &'a [Background],
    /// Description of the fork.
    pub description: Option<&'a str>,
    /// Guidance from the person who resolves the fork.
    pub guidance: Option<&'a str>,
}

/// A part of a request, with the position of the material's line that it contains, if any.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    pub role: Role,
    pub text: String,
    pub line: Option<usize>,
}

impl Piece {
    pub(super) fn new(role: Role, text: &str, line: Option<usize>) -> Self {
        Self {
            role,
            text: without_control_tokens(text).into_owned(),
            line,
        }
    }

    pub(super) fn ours(text: &str) -> Self {
        Self::new(Role::User, text, None)
    }

    /// Estimated size in tokens.
    pub(super) fn tokens(&self) -> u64 {
        estimate_tokens(&self.text) + 1
    }
}

/// One request to the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Brief {
    pub system: String,
    pub pieces: Vec<Piece>,
}

impl Brief {
    /// Builds a request that contains these pieces, between the parts that all requests about this conversation
    /// have in common.
    pub(super) fn new(asked: &DraftRequest<'_>, pieces: impl IntoIterator<Item = Piece>) -> Self {
        let mut all = opening(asked);
        all.extend(pieces);
        // The guidance is not part of the material, so it has its own label.
        let guidance = escape_lines(asked.guidance.unwrap_or_default().trim());
        all.extend(labeled(&format!("{GUIDANCE} "), &guidance));
        all.push(Piece::ours(REQUEST));
        Self {
            system: SYSTEM.trim_end().to_owned(),
            pieces: all,
        }
    }

    /// Prepends the system text that the workspace requires for every call.
    #[must_use]
    pub fn after(&self, required: &str) -> Self {
        let mut brief = self.clone();
        if !required.is_empty() {
            brief.system = format!("{}\n\n{}", required.trim_end(), self.system);
        }
        brief
    }

    /// Returns the messages of the request. The first and the last one have the user role. Consecutive pieces of the same role are
    /// joined by a blank line.
    pub fn turns(&self) -> Vec<ChatMessage> {
        let turns = self.pieces.chunk_by(|one, next| one.role == next.role);
        let turns = turns.map(|pieces| {
            let texts: Vec<&str> = pieces.iter().map(|piece| &*piece.text).collect();
            ChatMessage::new(pieces[0].role, texts.join("\n\n"))
        });
        turns.collect()
    }

    /// Estimated size in tokens.
    pub fn tokens(&self) -> u64 {
        estimate_tokens(&self.system) + self.pieces.iter().map(Piece::tokens).sum::<u64>()
    }
}

/// The request with the whole conversation.
pub fn brief(asked: &DraftRequest<'_>) -> Brief {
    let material = asked.material;
    let lines = 0..material.lines.len();
    Brief::new(asked, lines.map(|at| line(material, at, usize::MAX)))
}

/// The request to repair the `answer` to `brief`, which lists the faults that `check` found. A draft is repaired only once.
pub fn repair_brief(brief: &Brief, answer: &str, faults: &[Fault]) -> Brief {
    let mut listed: Vec<String> = Vec::new();
    for sentence in faults.iter().map(Fault::sentence) {
        if listed.len() < FAULTS_MAX && !listed.contains(&sentence) {
            listed.push(sentence);
        }
    }
    let answer = without_middle(answer.trim(), REPAIRED_CHARS_MAX);
    let request = format!(
        "Your answer has these problems:\n- {}\nWrite the whole JSON object again with these \
         problems fixed. Keep the rest as it is, do not add anything that was not said, and leave \
         out what you cannot fix.",
        listed.join("\n- ")
    );
    let mut brief = brief.clone();
    brief.pieces.extend([
        Piece::new(Role::Assistant, &answer, None),
        Piece::ours(&request),
    ]);
    brief
}

/// The beginning of a request: participants, earlier messages of the thread, dates with weekdays, and the
/// description.
fn opening(asked: &DraftRequest<'_>) -> Vec<Piece> {
    let people = asked.material.people.iter().map(|person| {
        let (handle, name) = (clean_name(&person.handle), person_name(&person.name));
        format!("{handle}: {name}")
    });
    let people = people.collect::<Vec<_>>().join("\n");
    let lines = asked.material.lines.iter();
    let days: BTreeSet<_> = lines.map(|line| line.day).collect();
    let too_many = days.len().saturating_sub(CALENDAR_DAYS_MAX);
    let named = |day: &NaiveDate| format!("{day} was a {}", day.format("%A"));
    let days: Vec<String> = days.iter().skip(too_many).map(named).collect();
    let mut pieces = Vec::new();
    pieces.extend(labeled("[People, handle: name]:\n", &people));
    if !asked.background.is_empty() {
        pieces.push(Piece::ours(BACKGROUND));
    }
    for Background { line, text } in asked.background {
        pieces.push(Piece::new(Role::User, text, Some(*line)));
    }
    if !days.is_empty() {
        pieces.push(Piece::ours(&format!("[Calendar]: {}.", days.join(", "))));
    }
    let description = one_line(asked.description.unwrap_or_default());
    pieces.extend(labeled(&format!("{FORK_DESCRIPTION} "), &description));
    pieces
}

/// The text preceded by its label, or `None` if the text is empty.
fn labeled(label: &str, text: &str) -> Option<Piece> {
    (!text.is_empty()).then(|| Piece::ours(&format!("{label}{text}")))
}

/// One message with its label, shortened to about `chars_max` characters.
pub(super) fn line(material: &Material, at: usize, chars_max: usize) -> Piece {
    let line = &material.lines[at];
    let mut parts = vec![escape_lines(&without_middle(line.text.trim(), chars_max))];
    parts.extend(line.files.iter().cloned());
    parts.retain(|part| !part.is_empty());
    if parts.is_empty() {
        parts.push("(no text)".to_owned());
    }
    let (handle, speaker) = (handle(at), speaker(material, &line.speaker));
    let text = format!("[{handle} {speaker}, {}]: {}", line.day, parts.join("\n"));
    Piece::new(Role::User, &text, Some(at))
}

/// Display name of a speaker: the name of a person, with the handle if several people share the name, or the name of an agent with
/// `(AI)`.
fn speaker(material: &Material, speaker: &Speaker) -> String {
    let at = match speaker {
        Speaker::Agent(name) => return format!("{}{AI_SUFFIX}", clean_name(name)),
        Speaker::Person(at) => *at,
    };
    let Some(person) = material.people.get(at) else {
        return clean_name("");
    };
    let name = person_name(&person.name);
    let names = material.people.iter().map(|other| person_name(&other.name));
    if names.filter(|other| *other == name).count() > 1 {
        format!("{name} ({})", clean_name(&person.handle))
    } else {
        name
    }
}
