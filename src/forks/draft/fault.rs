//! What is wrong with an answer, in words that the model can act on.

use std::fmt;

use chrono::NaiveDate;

use super::{
    CONCLUSION_SENTENCES_MAX, CONCLUSION_UNITS_MAX, HEADLINE_UNITS_MAX, KEY_POINTS_MAX,
    KEY_POINTS_MIN, WORDS_MAX, clean::cut_to_units,
};

/// Of a text that is quoted to say which one is meant.
const QUOTE_UNITS_MAX: usize = 60;

/// Where a fault is; numbers are positions in the outline that was checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Place {
    Headline,
    Conclusion,
    KeyPoint(usize),
    ActionItem(usize),
    OpenQuestion(usize),
    Deferred(usize),
    KeyPoints,
    Whole,
}

impl fmt::Display for Place {
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
    /// In units.
    TooLong {
        units_max: usize,
    },
    TooManySentences,
    /// Named messages that are not there; they are left out already.
    NoSuchSource(Vec<String>),
    /// Nothing that exists is named.
    NoSource,
    /// Nobody of that name takes part or is spoken of; the owner is left out already.
    UnknownOwner(String),
    OwnerIsAgent(String),
    /// The owner was asked and said no.
    OwnerRefused(String),
    /// The due date is left out already, as with the kinds below.
    NotADate(String),
    DueOutOfRange(NaiveDate),
    /// No date was spoken of where the item comes from.
    DueUnfounded(NaiveDate),
    /// It was counted from a day that was corrected later.
    DueSuperseded {
        old: String,
        new: String,
    },
    TooFewKeyPoints,
    TooManyKeyPoints(usize),
    TooManyWords(usize),
    Duplicate,
    /// A value that was corrected later, and what it was corrected to.
    Superseded {
        old: String,
        new: String,
    },
    /// Only an assistant said so, and nobody agreed.
    AgentsOnly,
    /// A number that nobody said.
    UnknownNumber(String),
    /// Nobody took it on or asked for it in the lines that it names.
    NoCommitment,
}

/// Something that does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    pub place: Place,
    pub kind: Kind,
    /// The beginning of the text it is about; empty for the whole.
    pub quote: String,
}

impl Fault {
    pub(super) fn new(place: Place, kind: Kind, text: &str) -> Self {
        Self {
            place,
            kind,
            quote: cut_to_units(text, QUOTE_UNITS_MAX),
        }
    }

    /// One sentence for the request to repair it.
    pub fn sentence(&self) -> String {
        let place = if self.quote.is_empty() {
            self.place.to_string()
        } else {
            format!("{} (\"{}\")", self.place, self.quote)
        };
        match &self.kind {
            Kind::Empty => format!("{place} is empty."),
            Kind::TooLong { units_max } => {
                format!("{place} is longer than {units_max} characters.")
            }
            Kind::TooManySentences => {
                format!("{place} has more than {CONCLUSION_SENTENCES_MAX} sentences.")
            }
            Kind::NoSuchSource(named) => {
                format!(
                    "{place} names sources that are no messages here: {}.",
                    named.join(", ")
                )
            }
            Kind::NoSource => format!(
                "{place} names no message that it rests on: give the handles, or leave it out."
            ),
            Kind::UnknownOwner(name) => format!(
                "{place} has the owner \"{name}\", who is not in the list of people and not named in \
                 the messages: use a handle of the list, or null."
            ),
            Kind::OwnerIsAgent(name) => {
                format!("{place} is owned by the assistant {name}: only people own action items.")
            }
            Kind::OwnerRefused(name) => {
                format!("{place} is owned by {name}, who was asked and refused.")
            }
            Kind::NotADate(text) => {
                format!("{place} is due \"{text}\", which is no date: write YYYY-MM-DD, or null.")
            }
            Kind::DueOutOfRange(due) => {
                format!("{place} is due {due}, which is before the conversation or years after it.")
            }
            Kind::DueUnfounded(due) => format!(
                "{place} is due {due}, but its sources say nothing of a time: name the message that \
                 does, or write null."
            ),
            Kind::DueSuperseded { old, new } => format!(
                "{place} is due on the day \"{old}\", which was corrected later to \"{new}\"."
            ),
            Kind::TooFewKeyPoints => format!("{place} has fewer than {KEY_POINTS_MIN} entries."),
            Kind::TooManyKeyPoints(count) => {
                format!("{place} has {count} entries; at most {KEY_POINTS_MAX} are allowed.")
            }
            Kind::TooManyWords(count) => {
                format!("{place} has {count} words; stay below {}.", WORDS_MAX - 20)
            }
            Kind::Duplicate => format!("{place} says what another entry says already."),
            Kind::Superseded { old, new } if new.is_empty() => {
                format!("{place} tells \"{old}\", which was taken back later.")
            }
            Kind::Superseded { old, new } => format!(
                "{place} tells \"{old}\", which was corrected later to \"{new}\": tell only the later \
                 value."
            ),
            Kind::AgentsOnly => format!(
                "{place} rests only on what an assistant said, and no person took it up: leave it out, \
                 or call it the assistant's view."
            ),
            Kind::UnknownNumber(number) => {
                format!("{place} tells the number {number}, which nobody said.")
            }
            Kind::NoCommitment => format!(
                "{place} names messages in which nobody takes this on or is asked for it: name the \
                 right ones, or leave it out."
            ),
        }
    }

    /// Limits of the two texts that have one of their own.
    pub(super) fn units_max(place: Place) -> usize {
        match place {
            Place::Headline => HEADLINE_UNITS_MAX,
            Place::Conclusion => CONCLUSION_UNITS_MAX,
            _ => super::TEXT_UNITS_MAX,
        }
    }
}
