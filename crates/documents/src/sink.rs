//! Output of an extraction: cleans texts, enforces limits, and remembers what was not read.

use std::io::Write;

use crate::{DocumentKind, End, Part, Reason, State};

pub const PARTS_MAX: u32 = 5_000;
/// Maximum size of all texts of a document.
pub const TEXT_BYTES_MAX: usize = 20 << 20;
const UNREAD_PARTS_MAX: usize = 100;
const LABEL_CHARS_MAX: usize = 200;
const HEADER_BYTES_MAX: usize = 1_000;
/// A part is dropped if more than one of this many characters has no meaning.
const UNMAPPED_ONE_OF: usize = 5;

/// End of an extraction before the end of the document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    Because(Reason),
    /// The parent no longer reads.
    Closed,
}

impl From<Reason> for Stop {
    fn from(reason: Reason) -> Self {
        Self::Because(reason)
    }
}

pub(crate) type Step = Result<(), Stop>;

/// Text of a part before it is numbered.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    pub(crate) label: String,
    pub(crate) heading: Option<String>,
    pub(crate) header: Option<String>,
    pub(crate) text: String,
}

pub(crate) struct Sink<'w> {
    out: &'w mut dyn Write,
    parts: u32,
    bytes: usize,
    has_text: bool,
    unread: Vec<u32>,
    reason: Option<Reason>,
    pub(crate) kind: DocumentKind,
}

impl<'w> Sink<'w> {
    pub(crate) fn new(out: &'w mut dyn Write) -> Self {
        Self {
            out,
            parts: 0,
            bytes: 0,
            has_text: false,
            unread: Vec::new(),
            reason: None,
            kind: DocumentKind::Other,
        }
    }

    /// Writes the next part.
    pub(crate) fn part(&mut self, draft: Draft) -> Step {
        if self.parts >= PARTS_MAX {
            return Err(Reason::TooLarge.into());
        }
        let mut text = clean(&draft.text);
        if is_unmapped(&text) {
            return self.unread(&draft.label, Reason::NoTextMap);
        }
        let room = TEXT_BYTES_MAX - self.bytes;
        let is_cut = text.len() > room;
        if is_cut {
            text.truncate(text.floor_char_boundary(room));
        }
        self.bytes += text.len();
        self.has_text |= text.contains(|c: char| !c.is_whitespace());
        self.write(&Part {
            part: self.parts + 1,
            label: one_line(&draft.label),
            heading: draft.heading.map(|heading| one_line(&heading)),
            header: draft.header.map(|header| {
                let mut header = clean(&header);
                header.truncate(header.floor_char_boundary(HEADER_BYTES_MAX));
                header
            }),
            text,
        })?;
        if is_cut {
            return Err(Reason::TooLarge.into());
        }
        Ok(())
    }

    /// Counts the next part, which cannot be read.
    pub(crate) fn unread(&mut self, label: &str, reason: Reason) -> Step {
        if self.parts >= PARTS_MAX {
            return Err(Reason::TooLarge.into());
        }
        self.reason.get_or_insert(reason);
        if self.unread.len() < UNREAD_PARTS_MAX {
            self.unread.push(self.parts + 1);
        }
        self.write(&Part {
            part: self.parts + 1,
            label: one_line(label),
            heading: None,
            header: None,
            text: String::new(),
        })
    }

    /// Remembers that something between the parts could not be read.
    pub(crate) fn missed(&mut self, reason: Reason) {
        self.reason.get_or_insert(reason);
    }

    fn write(&mut self, part: &Part) -> Step {
        self.parts = part.part;
        let mut line = serde_json::to_vec(part).map_err(|_| Stop::Closed)?;
        line.push(b'\n');
        // Each part leaves the process at once, so that it stays if the process is killed.
        self.out.write_all(&line).map_err(|_| Stop::Closed)?;
        self.out.flush().map_err(|_| Stop::Closed)
    }

    /// Writes the result.
    pub(crate) fn end(mut self, ended: Step) {
        if let Err(Stop::Because(reason)) = ended {
            // The limit that ended the extraction is more important than a page that could not be read.
            self.reason = Some(reason);
        }
        let state = match (self.reason, self.has_text) {
            (None, _) => State::Ready,
            (Some(_), true) => State::Partial,
            (Some(_), false) => State::Failed,
        };
        let unread_parts = std::mem::take(&mut self.unread);
        let reason = self.reason;
        self.last(&End {
            state,
            reason,
            unread_parts,
            kind: self.kind,
        });
    }

    /// Writes that the file has no text that is read.
    pub(crate) fn end_without_text(mut self) {
        self.last(&End {
            state: State::None,
            reason: None,
            unread_parts: Vec::new(),
            kind: self.kind,
        });
    }

    fn last(&mut self, end: &End) {
        if let Ok(mut line) = serde_json::to_vec(end) {
            line.push(b'\n');
            let _ = self.out.write_all(&line).and_then(|()| self.out.flush());
        }
    }
}

/// A text with line feeds only, and without other control characters.
fn clean(text: &str) -> String {
    let mut out = String::with_capacity(text.len().min(TEXT_BYTES_MAX));
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\r' if rest.peek() == Some(&'\n') => {}
            '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}' => out.push('\n'),
            '\n' | '\t' => out.push(c),
            c if c.is_control() || matches!(c, '\u{feff}' | '\u{ad}') => {}
            c => out.push(c),
        }
    }
    out.truncate(out.trim_end().len());
    out
}

/// A short text in one line.
pub(crate) fn one_line(text: &str) -> String {
    let words = text.split(|c: char| c.is_whitespace() || c.is_control());
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    words.join(" ").chars().take(LABEL_CHARS_MAX).collect()
}

fn is_unmapped(text: &str) -> bool {
    let (mut all, mut unmapped) = (0, 0);
    for c in text.chars().filter(|c| !c.is_whitespace()) {
        all += 1;
        let is_private =
            matches!(c, '\u{e000}'..='\u{f8ff}' | '\u{f0000}'..='\u{ffffd}' | '\u{100000}'..);
        unmapped += usize::from(is_private || c == '\u{fffd}');
    }
    unmapped * UNMAPPED_ONE_OF > all
}
