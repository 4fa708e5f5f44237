//! Splits a conversation that exceeds the model's context window into chunks, and merges their
//! results.

use std::ops::Range;

use openvibe_extract::{Material, Outline, Owner, Point};

use super::{
    brief::{Brief, DraftRequest, Piece, brief, closing, line, opening},
    handle,
};
use crate::{
    model::estimate_tokens,
    replies::lines::{clean_name, escape_lines, without_middle},
};

/// Minimum number of tokens for messages in a chunk, even if the context window is tiny.
const ROOM_TOKENS_MIN: u64 = 300;
/// Maximum number of chunks of a conversation; beyond it, messages are shortened in the middle.
const CHUNKS_MAX: usize = 24;
/// Minimum length to which messages are shortened.
const LINE_CHARS_MIN: usize = 400;
const PARTIAL_CHARS_MIN: usize = 300;

/// Limits for splitting a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Plan {
    /// The lines after the first one, in order; the first line is part of every chunk.
    chunks: Vec<Range<usize>>,
    first_chars_max: usize,
    line_chars_max: usize,
}

/// The requests for the whole conversation, each with at most about `tokens_max` tokens: one, or
/// several whose answers `merge_brief` merges. Handles are the same in all of them.
pub fn briefs(asked: &DraftRequest<'_>, tokens_max: u64) -> Vec<Brief> {
    let whole = brief(asked);
    if whole.tokens() <= tokens_max {
        return vec![whole];
    }
    let plan = plan(asked, tokens_max);
    let count = plan.chunks.len();
    let chunks = plan.chunks.iter().enumerate();
    chunks
        .map(|(nth, lines)| chunk_brief(asked, &plan, lines.clone(), (nth + 1, count)))
        .collect()
}

/// The request that merges the resolutions of the chunks, in their order. If they exceed
/// `tokens_max` together, each one is cut off at its end.
pub fn merge_brief(asked: &DraftRequest<'_>, partials: &[Outline], tokens_max: u64) -> Brief {
    let material = asked.material;
    let room = room(asked, tokens_max);
    let mut pieces = opening(asked);
    if !material.lines.is_empty() {
        pieces.push(line(material, 0, chars(room / 4)));
    }
    let each_max = chars(room * 3 / 4)
        .checked_div(partials.len())
        .unwrap_or_default()
        .max(PARTIAL_CHARS_MIN);
    let count = partials.len();
    pieces.extend(partials.iter().enumerate().map(|(nth, partial)| {
        let text: String = shown(material, partial).chars().take(each_max).collect();
        let nth = nth + 1;
        Piece::ours(format!(
            "[Result of part {nth} of {count}]:\n{}",
            escape_lines(text.trim_end())
        ))
    }));
    pieces.push(Piece::ours(
        "[Task]: The conversation was too long to be read at once. Above are the results of its \
         parts, in order. Combine them into one result by the same rules: what a later part settles, \
         corrects, or answers replaces what an earlier part says. Take the sources from them.",
    ));
    pieces.extend(closing(asked));
    Brief::of(pieces)
}

fn chunk_brief(
    asked: &DraftRequest<'_>,
    plan: &Plan,
    lines: Range<usize>,
    (nth, count): (usize, usize),
) -> Brief {
    let material = asked.material;
    let mut pieces = opening(asked);
    if !material.lines.is_empty() {
        pieces.push(line(material, 0, plan.first_chars_max));
    }
    pieces.push(Piece::ours(format!(
        "[Part {nth} of {count}]: The conversation is too long to be read at once. Write down the \
         result of this part; the parts are combined afterwards."
    )));
    pieces.extend(lines.map(|at| line(material, at, plan.line_chars_max)));
    pieces.extend(closing(asked));
    Brief::of(pieces)
}

/// Tokens left for messages after the fixed parts of every request.
fn room(asked: &DraftRequest<'_>, tokens_max: u64) -> u64 {
    let fixed = Brief::of([opening(asked), closing(asked)].concat()).tokens();
    // The line with the part number.
    let part = 60;
    tokens_max.saturating_sub(fixed + part).max(ROOM_TOKENS_MIN)
}

fn plan(asked: &DraftRequest<'_>, tokens_max: u64) -> Plan {
    let material = asked.material;
    let room = room(asked, tokens_max);
    let first_chars_max = chars(room / 4);
    let first = material.lines.first();
    let first_tokens = first.map_or(0, |_| tokens(&line(material, 0, first_chars_max)));
    let each_tokens = room.saturating_sub(first_tokens).max(ROOM_TOKENS_MIN / 2);
    // Reserve for the label and for escapes.
    let mut line_chars_max = chars(each_tokens.saturating_sub(40)).max(LINE_CHARS_MIN);
    loop {
        let chunks = cut(material, each_tokens, line_chars_max);
        if chunks.len() <= CHUNKS_MAX || line_chars_max <= LINE_CHARS_MIN {
            return Plan {
                chunks,
                first_chars_max,
                line_chars_max,
            };
        }
        line_chars_max = (line_chars_max / 2).max(LINE_CHARS_MIN);
    }
}

/// Puts as many lines as possible into each chunk; at least one line, and at least one chunk.
fn cut(material: &Material, tokens_max: u64, line_chars_max: usize) -> Vec<Range<usize>> {
    let mut chunks = Vec::new();
    let first = 1.min(material.lines.len());
    let (mut start, mut used) = (first, 0);
    for at in first..material.lines.len() {
        let size = tokens(&line(material, at, line_chars_max));
        if at > start && used + size > tokens_max {
            chunks.push(start..at);
            (start, used) = (at, 0);
        }
        used += size;
    }
    chunks.push(start..material.lines.len());
    chunks
}

fn tokens(piece: &Piece) -> u64 {
    estimate_tokens(&piece.text) + 1
}

fn chars(tokens: u64) -> usize {
    usize::try_from(tokens.saturating_mul(4)).unwrap_or(usize::MAX)
}

/// A partial result as text, most important parts first.
fn shown(material: &Material, partial: &Outline) -> String {
    let mut lines = vec![format!("Conclusion: {}", partial.conclusion)];
    lines.extend(partial.action_items.iter().map(|item| {
        let owner = match &item.owner {
            Some(Owner::Person(at)) => material.people.get(*at).map(|p| clean_name(&p.handle)),
            Some(Owner::Named(name)) => Some(clean_name(name)),
            None => None,
        };
        let owner = owner.map_or(String::new(), |owner| format!(", owner {owner}"));
        let due = item.due.map_or(String::new(), |due| format!(", due {due}"));
        format!(
            "Action item: {}{owner}{due}{}",
            item.text,
            sources(&item.sources)
        )
    }));
    let points = |name: &'static str, points: &[Point]| {
        let shown = |point: &Point| format!("{name}: {}{}", point.text, sources(&point.sources));
        points.iter().map(shown).collect::<Vec<_>>()
    };
    lines.extend(points("Key point", &partial.key_points));
    lines.extend(points("Open question", &partial.open_questions));
    lines.extend(points("Deferred", &partial.deferred_items));
    // A safeguard against endless lines; normal texts are shorter.
    let lines: Vec<String> = lines
        .iter()
        .map(|line| without_middle(line, 2_000))
        .collect();
    lines.join("\n")
}

fn sources(lines: &[usize]) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let handles: Vec<String> = lines.iter().map(|at| handle(*at)).collect();
    format!(" (sources {})", handles.join(", "))
}
