//! A draft of a resolution by a model: what it is asked, what is made of its answer, and what of that may stand.
//!
//! ```text
//! Asked ── briefs ──> Brief … ── (model) ──> text ── parse ──> Raw ── check ──> Checked { outline, faults }
//!              └ several ── merge_brief ──> Brief                                  │ faults: repair_brief, once
//!                                                                                   └── trim ──> Outline
//! ```
//! Pure: no database, no ids, no clock. Positions stand for lines and people, as in `model::extract`; to the model a line is
//! its handle, `m1` for the first. What a model says is believed only as far as the conversation bears it out.

mod brief;
mod check;
mod chunk;
mod clean;
mod fault;
mod grounds;
mod json;
mod owner;
mod parse;
mod schema;
mod source;
#[cfg(test)]
mod tests;
mod trim;
mod words;

pub use self::{
    brief::{Asked, Brief, Piece, brief, repair_brief},
    check::{Checked, check},
    chunk::{briefs, merge_brief},
    fault::{Fault, Kind, Place},
    parse::{ANSWER_BYTES_MAX, Raw, RawItem, RawPoint, Rubbish, parse},
    schema::schema,
    source::RawSource,
    trim::{fit, trim},
};

/// Words that a whole draft stays below, owners and dates counted, so that the card stays below 200 with its headings
/// (CAPABILITIES A.59).
pub const WORDS_MAX: usize = 190;
/// Lengths are UTF-16 code units, as everywhere (PROTOCOL §3).
pub const HEADLINE_UNITS_MAX: usize = 120;
pub const CONCLUSION_UNITS_MAX: usize = 600;
pub const CONCLUSION_SENTENCES_MAX: usize = 2;
/// Of a point, an item, a question.
pub const TEXT_UNITS_MAX: usize = 500;
pub const OWNER_NAME_UNITS_MAX: usize = 80;
pub const KEY_POINTS_MIN: usize = 2;
pub const KEY_POINTS_MAX: usize = 4;
pub const ACTION_ITEMS_MAX: usize = 20;
pub const OPEN_QUESTIONS_MAX: usize = 10;
pub const DEFERRED_ITEMS_MAX: usize = 10;
/// Of one point or item.
pub const SOURCES_MAX: usize = 20;
/// Messages of people that a conversation has before fewer than `KEY_POINTS_MIN` key points are too few.
const TALK_LINES_MIN: usize = 4;

/// How a model knows the line at `position`.
fn handle(position: usize) -> String {
    format!("m{}", position + 1)
}
