//! What a conversation is read from, and what is made of it. Positions stand for messages and people, so that nothing here
//! knows ids: whoever asks maps them.

use chrono::NaiveDate;

/// A conversation with everyone who could own something in it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Material {
    /// Members who spoke or were named; a position in here is an owner.
    pub people: Vec<Person>,
    /// Oldest first; the first one is the message that the deep dive starts from.
    pub lines: Vec<Line>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Person {
    pub name: String,
    /// As mentioned, without the `@`.
    pub handle: String,
}

/// One message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    pub speaker: Speaker,
    /// Markdown.
    pub text: String,
    /// What models are told of its files; nothing is extracted from it.
    pub files: Vec<String>,
    /// On which it was written (UTC): what "by Friday" is relative to.
    pub day: NaiveDate,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Speaker {
    /// A position in `Material::people`.
    Person(usize),
    /// An AI agent, by its display name.
    Agent(String),
}

/// What a conversation came to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Outline {
    /// One line.
    pub headline: String,
    /// One or two sentences.
    pub conclusion: String,
    pub key_points: Vec<Point>,
    pub action_items: Vec<Item>,
    pub open_questions: Vec<Point>,
    /// What was put off on purpose.
    pub deferred_items: Vec<Point>,
}

/// A statement with the positions of the lines that it rests on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Point {
    pub text: String,
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
    /// Somebody who is no member: the name as it was said.
    Named(String),
}

/// A value that was corrected later: `old` must no longer be told as if it held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Superseded {
    pub old: String,
    pub new: String,
    /// Where the correction stands.
    pub line: usize,
}
