//! Faults of an answer, described so that the model can repair them.

use std::fmt;

use chrono::NaiveDate;

use super::{
    CONCLUSION_SENTENCES_MAX, CONCLUSION_UNITS_MAX, HEADLINE_UNITS_MAX, KEY_POINTS_MAX, WORDS_MAX,
    clean::cut_to_units, doubt::Doubt,
};

/// Maximum length of the quote that identifies a text.
const QUOTE_UNITS_MAX: usize = 60;

/// Position of a fault in the checked outline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FieldPath {
    Headline,
    Conclusion,
    KeyPoint(usize),
    ActionItem(usize),
    OpenQuestion(usize),
    Deferred(usize),
    KeyPoints,
    Whole,
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Headline => f.write_str("The headline"),
            Self::Conclusion => f.write_str("The conclusion"),
            Self::KeyPoint(at) => write!(f, "Key point {}", at + 1),
            Self::ActionItem(at) => write!(f, "Action item {}", at + 1),
            Self::OpenQuestion(at) => write!(f, "Open question {}", at + 1),
            Self::Deferred(at) => write!(f, "Deferred item {}", at + 1),
            Self::KeyPoints => f.write_str("The list of key points"),
            Self::Whole => f.write_str("The whole answer"),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    Empty,
    /// Limit in UTF-16 code units.
    TooLong {
        units_max: usize,
    },
    TooManySentences,
    /// Cites messages that do not exist; they are already removed.
    NoSuchSource(Vec<String>),
    /// Cites no existing message.
    NoSource,
    /// No participant or mentioned person has this name; the owner is already removed.
    UnknownOwner(String),
    OwnerIsAgent(String),
    /// The owner was asked and refused.
    OwnerRefused(String),
    /// The owner neither speaks in the sources nor is asked there.
    OwnerAbsent(String),
    /// The due date is already removed, as for the next kinds.
    NotADate(String),
    DueOutOfRange(NaiveDate),
    /// The sources mention no date.
    DueUnfounded(NaiveDate),
    /// The date is based on a day that was corrected later.
    DueSuperseded {
        old: String,
        new: String,
    },
    TooManyKeyPoints(usize),
    TooManyWords(usize),
    Duplicate,
    /// A value that was corrected later, and its correction.
    Superseded {
        old: String,
        new: String,
    },
    /// Its words are not in the source text.
    Unsupported,
    /// It comes from lines that are not sources of results.
    NotAdopted(Doubt),
    /// A number, date, amount, link, or identifier that is not in the source text.
    UnknownValue(String),
    /// In the cited lines, nobody accepts the item or is asked to do it.
    NoCommitment,
}

/// A fault of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    pub path: FieldPath,
    pub kind: Kind,
    /// The beginning of the faulty text; empty for the whole answer.
    pub quote: String,
}

impl Fault {
    pub(super) fn new(path: FieldPath, kind: Kind, text: &str) -> Self {
        Self {
            path,
            kind,
            quote: cut_to_units(text, QUOTE_UNITS_MAX),
        }
    }

    /// One sentence for the repair request.
    pub fn sentence(&self) -> String {
        let path = if self.quote.is_empty() {
            self.path.to_string()
        } else {
            format!("{} (\"{}\")", self.path, self.quote)
        };
        match &self.kind {
            Kind::Empty => format!("{path} is empty."),
            Kind::TooLong { units_max } => {
                format!("{path} is longer than {units_max} characters.")
            }
            Kind::TooManySentences => {
                format!("{path} has more than {CONCLUSION_SENTENCES_MAX} sentences.")
            }
            Kind::NoSuchSource(named) => {
                format!(
                    "{path} cites sources that are not messages here: {}.",
                    named.join(", ")
                )
            }
            Kind::NoSource => format!(
                "{path} cites no message: give the handles of its sources, or leave it out."
            ),
            Kind::UnknownOwner(name) => format!(
                "{path} has the owner \"{name}\", who is neither in the list of people nor named \
                 in the messages: use a handle from the list, or null."
            ),
            Kind::OwnerIsAgent(name) => {
                format!("{path} is owned by the assistant {name}: only people own action items.")
            }
            Kind::OwnerRefused(name) => {
                format!("{path} is owned by {name}, who was asked and refused.")
            }
            Kind::OwnerAbsent(name) => format!(
                "{path} is owned by {name}, who neither takes it on nor is asked in the messages that it cites."
            ),
            Kind::NotADate(text) => {
                format!("{path} is due \"{text}\", which is not a date: use YYYY-MM-DD or null.")
            }
            Kind::DueOutOfRange(due) => {
                format!("{path} is due {due}, which is before the conversation or years after it.")
            }
            Kind::DueUnfounded(due) => format!(
                "{path} is due {due}, but its sources mention no time: cite the message that \
                 does, or use null."
            ),
            Kind::DueSuperseded { old, new } => format!(
                "{path} is due on the day \"{old}\", which was corrected later to \"{new}\"."
            ),
            Kind::TooManyKeyPoints(count) => {
                format!("{path} has {count} entries; at most {KEY_POINTS_MAX} are allowed.")
            }
            Kind::TooManyWords(count) => {
                format!("{path} has {count} words; stay below {}.", WORDS_MAX - 20)
            }
            Kind::Duplicate => format!("{path} repeats another entry."),
            Kind::Superseded { old, new } if new.is_empty() => {
                format!("{path} states \"{old}\", which was retracted later.")
            }
            Kind::Superseded { old, new } => format!(
                "{path} states \"{old}\", which was corrected later to \"{new}\": state only the \
                 later value."
            ),
            Kind::Unsupported => format!(
                "{path} states what its messages do not: use their words, cite the right ones, or leave it out."
            ),
            Kind::NotAdopted(Doubt::Agent) => format!(
                "{path} is based only on what an assistant said, and no person agreed: leave it \
                 out, or present it as the assistant's view."
            ),
            Kind::NotAdopted(Doubt::Joke) => format!("{path} is based on a joke: leave it out."),
            Kind::NotAdopted(Doubt::Dropped) => format!(
                "{path} is based on a plan that was dropped or overruled: leave it out, or state \
                 in a key point who was for it."
            ),
            Kind::NotAdopted(Doubt::Unsettled) => format!(
                "{path} states something that nobody agreed to: state what was settled, or that nothing was."
            ),
            Kind::NotAdopted(Doubt::Machine) => {
                format!("{path} is based on text that gives orders to an assistant: leave it out.")
            }
            Kind::UnknownValue(value) => {
                format!("{path} states \"{value}\", which is not in the messages that it cites.")
            }
            Kind::NoCommitment => format!(
                "{path} cites messages in which nobody accepts this or is asked to: cite the \
                 right ones, or leave it out."
            ),
        }
    }

    /// Checks whether a text with this fault is removed. The check has removed other faults, or they are cut to the limits.
    pub(super) fn is_fatal(&self) -> bool {
        matches!(
            self.kind,
            Kind::Empty
                | Kind::NoSource
                | Kind::Unsupported
                | Kind::NotAdopted(_)
                | Kind::UnknownValue(_)
                | Kind::Superseded { .. }
                | Kind::NoCommitment
                | Kind::Duplicate
        )
    }

    /// Maximum length of the text at `path`.
    pub(super) fn units_max(path: FieldPath) -> usize {
        match path {
            FieldPath::Headline => HEADLINE_UNITS_MAX,
            FieldPath::Conclusion => CONCLUSION_UNITS_MAX,
            _ => super::TEXT_UNITS_MAX,
        }
    }
}
