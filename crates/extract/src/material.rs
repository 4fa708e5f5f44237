//! Input and output of the extractor. Messages and people are referenced by position; callers map positions to IDs.

use chrono::NaiveDate;

/// A conversation with everyone who can own a task in it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Material {
    /// Members who spoke or were named; an owner is a position in this list.
    pub people: Vec<Person>,
    /// Oldest first; the first is the message that the fork starts from.
    pub lines: Vec<Line>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Person {
    pub name: String,
    /// Handle, without the `@`.
    pub handle: String,
}

/// One message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    pub speaker: Speaker,
    /// Markdown.
    pub text: String,
    /// Descriptions of the attached files, for models; not used for extraction.
    pub files: Vec<String>,
    /// Date of the message (UTC), which "by Friday" is relative to.
    pub day: NaiveDate,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Speaker {
    /// A position in `Material::people`.
    Person(usize),
    /// An AI agent, by display name.
    Agent(String),
}

/// Extracted results of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Outline {
    /// Headline, one line: the sentence that states the newest decision. Empty if nothing was decided.
    pub headline: String,
    /// Conclusion, one or two sentences. States that there is no decision if nothing was decided.
    pub conclusion: String,
    pub key_points: Vec<Point>,
    pub action_items: Vec<Item>,
    pub open_questions: Vec<Point>,
    /// Topics that were deliberately deferred.
    pub deferred_items: Vec<Point>,
}

/// A statement with the positions of its source lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Point {
    pub text: String,
    pub sources: Vec<usize>,
}

/// A quotation from a single message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quotation {
    pub line: usize,
    pub text: String,
}

/// A statement that a group settled: another person agreed to it, or its author announced a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// The question that the statement answers, if the statement is unclear without it.
    pub asked: Option<Quotation>,
    /// The sentence that states the result, or that agrees to the question.
    pub stated: Quotation,
    /// Positions of the lines that prove it.
    pub sources: Vec<usize>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    pub text: String,
    pub owner: Option<Owner>,
    pub due: Option<NaiveDate>,
    pub sources: Vec<usize>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Owner {
    /// A position in `Material::people`.
    Person(usize),
    /// A person who is not a member, by the name used in the text.
    Named(String),
}

/// A value that was corrected later: `old` must not be presented as current.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Superseded {
    pub old: String,
    pub new: String,
    /// Line that states the old value.
    pub of: usize,
    /// Line of the correction.
    pub line: usize,
    /// `true` if the line states explicitly that it is a correction ("no, 14:30"), `false` for a decision that overrules an earlier
    /// one.
    pub is_explicit: bool,
}
