//! Drafts a resolution with a model: builds the requests, parses the answers, and removes everything that the conversation does not
//! support.
//!
//! ```text
//! DraftRequest ── briefs ──> Brief … ── (model) ──> text ── parse ──> Raw ── check ──> Checked { outline, faults }
//!                     └ several ── merge_brief ──> Brief                                  │ faults: repair_brief, once
//!                                                                                          └── trim ──> Outline
//! ```
//!
//! This module is pure: it uses no database, IDs, or clock. Lines and people are referred to by position, as in `openvibe_extract`;
//! the model sees a handle for each line, `m1` for the first. An answer is trusted only as far as the conversation supports it.

mod adoption;
mod brief;
mod check;
mod chunk;
mod clean;
mod evidence;
mod fault;
mod field;
mod line;
mod owner;
mod parse;
mod schema;
mod source;
#[cfg(test)]
mod tests;
mod trim;
mod value;

use regex::Regex;

pub use self::{
    brief::{Background, Brief, DraftRequest, Piece, brief, repair_brief},
    check::{Checked, check},
    chunk::{briefs, merge_brief},
    fault::{Doubt, Fault, FieldPath, Kind},
    line::AgentLines,
    parse::{ANSWER_BYTES_MAX, Raw, RawItem, UnparsableDraft, parse_answer},
    schema::schema,
    source::RawSource,
    trim::{extracted, trim},
};

/// Exclusive upper bound on the number of words in a draft, including owners and dates. It keeps the resolution message, including
/// its headings, below 200 words.
pub const WORDS_MAX: usize = 190;
/// Maximum lengths of texts, in UTF-16 code units.
pub const HEADLINE_UNITS_MAX: usize = 120;
pub const CONCLUSION_UNITS_MAX: usize = 600;
pub const CONCLUSION_SENTENCES_MAX: usize = 2;
/// Maximum length of a point, an item, or a question.
pub const TEXT_UNITS_MAX: usize = 500;
pub const OWNER_NAME_UNITS_MAX: usize = 80;
pub const KEY_POINTS_MAX: usize = 4;
pub const ACTION_ITEMS_MAX: usize = 20;
pub const OPEN_QUESTIONS_MAX: usize = 10;
pub const DEFERRED_ITEMS_MAX: usize = 10;
/// Maximum number of sources of one point or item.
pub const SOURCES_MAX: usize = 20;

/// The handle of the line at `position` in requests and answers.
fn handle(position: usize) -> String {
    format!("m{}", position + 1)
}

/// Compiles a constant pattern.
#[expect(clippy::expect_used, reason = "tests use every pattern")]
fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a valid pattern")
}
