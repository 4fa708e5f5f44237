//! Text without structure, code, and tables of separated values: parts of 200 lines.

use crate::sink::{Draft, Sink, Step};

const LINES_PER_PART: usize = 200;

pub(crate) fn read(text: &str, sink: &mut Sink<'_>) -> Step {
    parts(text, None, sink)
}

/// Values separated by commas or tabs, whose first line is the header.
pub(crate) fn read_table(text: &str, sink: &mut Sink<'_>) -> Step {
    parts(text, text.lines().next(), sink)
}

fn parts(text: &str, header: Option<&str>, sink: &mut Sink<'_>) -> Step {
    let mut rest = text;
    let mut first = 1;
    while !rest.is_empty() {
        let mut len = 0;
        let mut count = 0;
        while count < LINES_PER_PART && len < rest.len() {
            len += rest[len..].find('\n').map_or(rest.len() - len, |at| at + 1);
            count += 1;
        }
        let (part, after) = rest.split_at(len);
        rest = after;
        let last = first + count - 1;
        sink.part(Draft {
            label: if first == last {
                format!("line {first}")
            } else {
                format!("lines {first}–{last}")
            },
            header: header.map(str::to_owned),
            text: part.to_owned(),
            ..Draft::default()
        })?;
        first = last + 1;
    }
    Ok(())
}
