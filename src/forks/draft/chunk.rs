//! Splits a conversation that exceeds the model's context window into chunks, and merges their
//! results.

use openvibe_extract::{Material, Outline, Owner};

use super::{
    brief::{Brief, DraftRequest, Piece, brief, line},
    fault::FieldPath,
    field::{DraftField, fields_of},
    handle,
};
use crate::replies::lines::{clean_name, escape_lines, without_middle};

/// Minimum number of tokens for messages in a chunk, even if the context window is tiny.
const ROOM_TOKENS_MIN: u64 = 300;
/// Estimated size of the line with the part number.
const PART_TOKENS: u64 = 60;
/// Tokens reserved per message for its label and for escapes.
const LABEL_TOKENS: u64 = 40;
/// Maximum number of chunks of a conversation. If there would be more, messages are shortened in the middle.
const CHUNKS_MAX: usize = 24;
/// Minimum length to which messages are shortened.
const LINE_CHARS_MIN: usize = 400;
const PARTIAL_CHARS_MIN: usize = 300;
/// Maximum number of characters of a line in a partial result. A safeguard against endless lines;
/// normal texts are shorter.
const PARTIAL_LINE_CHARS_MAX: usize = 2_000;
/// Names of the parts of a partial result, most important first.
const PARTS: [(FieldPath, &str); 5] = [
    (FieldPath::Conclusion, "Conclusion"),
    (FieldPath::ActionItem(0), "Action item"),
    (FieldPath::KeyPoint(0), "Key point"),
    (FieldPath::OpenQuestion(0), "Open question"),
    (FieldPath::Deferred(0), "Deferred"),
];

/// The requests for the whole conversation, each with at most about `tokens_max` tokens. If there
/// are several, `merge_brief` merges their answers. All of them use the same handles.
pub fn briefs(asked: &DraftRequest<'_>, tokens_max: u64) -> Vec<Brief> {
    let whole = brief(asked);
    if whole.tokens() <= tokens_max {
        return vec![whole];
    }
    let room = room(asked, tokens_max);
    let first = first_line(asked.material, room);
    let first_tokens = first.as_ref().map_or(0, Piece::tokens);
    let each_tokens = room.saturating_sub(first_tokens).max(ROOM_TOKENS_MIN / 2);
    let chunks = chunks(asked.material, each_tokens);
    let count = chunks.len();
    let briefs = chunks.into_iter().enumerate().map(|(nth, lines)| {
        let part = Piece::ours(&format!(
            "[Part {} of {count}]: The conversation is too long to be read at once. Write down the \
             result of this part; the parts are combined afterwards.",
            nth + 1
        ));
        let pieces = first.iter().cloned().chain([part]);
        Brief::new(asked, pieces.chain(lines))
    });
    briefs.collect()
}

/// The request that merges the resolutions of the chunks, in the order of the chunks. If together they exceed `tokens_max`, each one
/// is cut off at its end.
pub fn merge_brief(asked: &DraftRequest<'_>, partials: &[Outline], tokens_max: u64) -> Brief {
    let room = room(asked, tokens_max);
    let count = partials.len();
    let each_max = chars(room * 3 / 4).checked_div(count).unwrap_or_default();
    let partials = partials.iter().enumerate().map(|(nth, partial)| {
        let text = shown(asked.material, partial);
        let chars = text.chars().take(each_max.max(PARTIAL_CHARS_MIN));
        let text = chars.collect::<String>();
        let text = escape_lines(text.trim_end());
        Piece::ours(&format!("[Result of part {} of {count}]:\n{text}", nth + 1))
    });
    let task = Piece::ours(
        "[Task]: The conversation was too long to be read at once. Above are the results of its \
         parts, in order. Combine them into one result by the same rules: what a later part settles, \
         corrects, or answers replaces what an earlier part says. Take the sources from them.",
    );
    let first = first_line(asked.material, room);
    Brief::new(asked, first.into_iter().chain(partials).chain([task]))
}

/// Tokens left for messages after the fixed parts of every request.
fn room(asked: &DraftRequest<'_>, tokens_max: u64) -> u64 {
    let fixed = Brief::new(asked, []).tokens();
    let room = tokens_max.saturating_sub(fixed + PART_TOKENS);
    room.max(ROOM_TOKENS_MIN)
}

/// The forked message, which is part of every request.
fn first_line(material: &Material, room: u64) -> Option<Piece> {
    (!material.lines.is_empty()).then(|| line(material, 0, chars(room / 4)))
}

/// The lines after the first one, in as few chunks as possible. The lines are shortened if there would be too many chunks.
fn chunks(material: &Material, tokens_max: u64) -> Vec<Vec<Piece>> {
    let mut chars_max = chars(tokens_max.saturating_sub(LABEL_TOKENS)).max(LINE_CHARS_MIN);
    loop {
        let lines = 1..material.lines.len();
        let chunks = packed(lines.map(|at| line(material, at, chars_max)), tokens_max);
        if chunks.len() <= CHUNKS_MAX || chars_max <= LINE_CHARS_MIN {
            return chunks;
        }
        chars_max = (chars_max / 2).max(LINE_CHARS_MIN);
    }
}

/// Puts as many lines as possible, but at least one, into each chunk. Returns at least one chunk, which is empty if there are no
/// lines.
fn packed(lines: impl Iterator<Item = Piece>, tokens_max: u64) -> Vec<Vec<Piece>> {
    let (mut full, mut last, mut used) = (Vec::new(), Vec::new(), 0);
    for line in lines {
        if !last.is_empty() && used + line.tokens() > tokens_max {
            full.push(std::mem::take(&mut last));
            used = 0;
        }
        used += line.tokens();
        last.push(line);
    }
    full.push(last);
    full
}

fn chars(tokens: u64) -> usize {
    usize::try_from(tokens.saturating_mul(4)).unwrap_or(usize::MAX)
}

/// A partial result as text.
fn shown(material: &Material, partial: &Outline) -> String {
    let fields = fields_of(partial.clone());
    let lines = PARTS.iter().flat_map(|(list, name)| {
        let fields = fields.iter().filter(|field| field.path.is_beside(*list));
        fields.map(move |field| {
            let details = details(material, field);
            let line = format!("{name}: {}{details}", field.text);
            without_middle(&line, PARTIAL_LINE_CHARS_MAX)
        })
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// The owner, the due date, and the sources of an entry, omitting those that it does not have.
fn details(material: &Material, field: &DraftField) -> String {
    let owner = field.owner.as_ref().and_then(|owner| match owner {
        Owner::Person(at) => material.people.get(*at).map(|person| &person.handle),
        Owner::Named(name) => Some(name),
    });
    let handles: Vec<String> = field.sources.iter().map(|at| handle(*at)).collect();
    let details = [
        owner.map(|name| format!(", owner {}", clean_name(name))),
        field.due.map(|due| format!(", due {due}")),
        (!handles.is_empty()).then(|| format!(" (sources {})", handles.join(", "))),
    ];
    details.into_iter().flatten().collect()
}
