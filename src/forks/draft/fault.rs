//! Faults of an answer, described so that the model can repair them.

use std::{fmt, mem};

use chrono::NaiveDate;

use super::{
    CONCLUSION_SENTENCES_MAX, CONCLUSION_UNITS_MAX, HEADLINE_UNITS_MAX, KEY_POINTS_MAX,
    TEXT_UNITS_MAX, WORDS_MAX, clean::cut_to_units,
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

impl FieldPath {
    /// Checks whether both are positions in the same list.
    pub(super) fn is_beside(self, other: Self) -> bool {
        mem::discriminant(&self) == mem::discriminant(&other)
    }

    /// Maximum length of the text, in UTF-16 code units.
    pub(super) fn units_max(self) -> usize {
        match self {
            Self::Headline => HEADLINE_UNITS_MAX,
            Self::Conclusion => CONCLUSION_UNITS_MAX,
            _ => TEXT_UNITS_MAX,
        }
    }
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

/// Reason why a line cannot be the source of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Doubt {
    #[error(
        "is based only on what an assistant said, and no person agreed: leave it out, or present \
         it as the assistant's view"
    )]
    Agent,
    #[error("is based on a joke: leave it out")]
    Joke,
    #[error(
        "is based on a plan that was dropped or overruled: leave it out, or state in a key point \
         who was for it"
    )]
    Dropped,
    #[error("is based on text that gives orders to an assistant: leave it out")]
    Machine,
    /// A question, or a statement without any agreement. Used only for the headline and the conclusion.
    #[error("states something that nobody agreed to: state what was settled, or that nothing was")]
    Unsettled,
}

/// A fault as the predicate of a sentence about the text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Kind {
    #[error("is empty")]
    Empty,
    /// Limit in UTF-16 code units.
    #[error("is longer than {units_max} characters")]
    TooLong { units_max: usize },
    #[error("has more than {CONCLUSION_SENTENCES_MAX} sentences")]
    TooManySentences,
    /// Cites messages that do not exist; these sources were already removed.
    #[error("cites sources that are not messages here: {}", .0.join(", "))]
    NoSuchSource(Vec<String>),
    /// Cites no message that exists.
    #[error("cites no message: give the handles of its sources, or leave it out")]
    NoSource,
    /// No participant or mentioned person has this name; the owner was already removed.
    #[error(
        "has the owner \"{0}\", who is neither in the list of people nor named in the \
         messages: use a handle from the list, or null"
    )]
    UnknownOwner(String),
    #[error("is owned by the assistant {0}: only people own action items")]
    OwnerIsAgent(String),
    #[error("is owned by {0}, who was asked and refused")]
    OwnerRefused(String),
    #[error("is owned by {0}, who neither takes it on nor is asked in the messages that it cites")]
    OwnerAbsent(String),
    /// The due date is not a date. For this kind and the following kinds about due dates, the date was already removed.
    #[error("is due \"{0}\", which is not a date: use YYYY-MM-DD or null")]
    NotADate(String),
    #[error("is due {0}, which is before the conversation or years after it")]
    DueOutOfRange(NaiveDate),
    #[error("is due {0}, but its sources mention no time: cite the message that does, or use null")]
    DueUnfounded(NaiveDate),
    /// The date is based on a day that was corrected later.
    #[error("is due on the day \"{old}\", which was corrected later to \"{new}\"")]
    DueSuperseded { old: String, new: String },
    #[error("has {0} entries; at most {KEY_POINTS_MAX} are allowed")]
    TooManyKeyPoints(usize),
    #[error("has {0} words; stay below {words_max}", words_max = WORDS_MAX - 20)]
    TooManyWords(usize),
    #[error("repeats another entry")]
    Duplicate,
    /// A value that was corrected or retracted later, and its correction, if any.
    #[error("states \"{old}\", which was {}", corrected(new))]
    Superseded { old: String, new: String },
    /// Too few of the content words of this text occur in its source text.
    #[error(
        "states what its messages do not: use their words, cite the right ones, or leave it out"
    )]
    Unsupported,
    /// The text comes from lines that cannot be sources of results.
    #[error("{0}")]
    NotAdopted(Doubt),
    /// A number, date, amount, link, name, or identifier that is not in the source text.
    #[error("states \"{0}\", which is not in the messages that it cites")]
    UnknownValue(String),
    #[error(
        "cites messages in which nobody accepts this or is asked to: cite the right ones, or \
         leave it out"
    )]
    NoCommitment,
}

fn corrected(new: &str) -> String {
    if new.is_empty() {
        "retracted later".to_owned()
    } else {
        format!("corrected later to \"{new}\": state only the later value")
    }
}

/// A fault of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    pub path: FieldPath,
    pub kind: Kind,
    /// The beginning of the faulty text; empty if the fault concerns the whole answer.
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

    /// Describes the fault in one sentence for the repair request.
    pub fn sentence(&self) -> String {
        let Self { path, kind, quote } = self;
        if quote.is_empty() {
            format!("{path} {kind}.")
        } else {
            format!("{path} (\"{quote}\") {kind}.")
        }
    }

    /// Checks whether `trim` removes a text with this fault. For other faults, the check has already removed the faulty part, or
    /// cutting the text to the limits is enough.
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
}
