//! Sentences that a pass makes from messages.

use crate::{
    ids::{AgentId, UserId},
    memory::entry::MemoryKind,
};

/// Kinds of items, most important first.
pub const KINDS: [MemoryKind; 8] = [
    MemoryKind::OpenLoop,
    MemoryKind::Todo,
    MemoryKind::Decision,
    MemoryKind::Person,
    MemoryKind::Project,
    MemoryKind::Fact,
    MemoryKind::Preference,
    MemoryKind::Reference,
];

/// Returns the rank of a kind; entries whose kind has a lower rank are kept first.
pub fn rank(kind: MemoryKind) -> usize {
    let known = KINDS.iter().position(|known| *known == kind);
    known.unwrap_or(KINDS.len())
}

/// Returns the kind with this name, or `Fact` for an unknown name.
pub fn kind_of(name: &str) -> MemoryKind {
    let known = KINDS.iter().find(|kind| kind.as_str() == name);
    known.copied().unwrap_or(MemoryKind::Fact)
}

/// A sentence with its sources: positions of messages in the segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    pub kind: MemoryKind,
    pub text: String,
    pub sources: Vec<usize>,
    /// Position of the person that the sentence is about.
    pub about: Option<usize>,
    /// True if the person states how agents should treat them.
    pub for_agent: bool,
}

/// Author of a message of the segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentPerson {
    pub id: UserId,
    pub name: String,
}

/// A message in the form that the checks and the extractor use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceLine {
    /// Position among the people of the segment; `None` for an agent.
    pub person: Option<usize>,
    pub name: String,
    pub text: String,
    pub day: chrono::NaiveDate,
    /// True if the message publishes a resolution.
    pub is_resolution: bool,
    /// Agent that the message invokes.
    pub asks: Option<AgentId>,
}
