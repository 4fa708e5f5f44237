//! The text of a message as all of its readers read it: plain text, search, mentions, and links.
//!
//! The dialect is `CommonMark` with the rules that a chat needs. The parser does not know them, so the text is prepared for it, and
//! `web/src/lib/reading.ts` prepares it the same way for the client's parser:
//!
//! - A *hidden* character is a mark that is text. It is replaced with a private character, which the parser treats as a letter.
//! - A *separator* between a mark of emphasis and punctuation makes the parser treat the punctuation as a letter.
//!
//! Both are undone in each event, and ranges refer to the original text, so readers do not notice them.

use std::{borrow::Cow, collections::HashMap, ops::Range};

use pulldown_cmark::{CowStr, Event, OffsetIter, Options, Parser};
use unicode_script::{Script, UnicodeScript};

/// `CommonMark` with tables, strikethrough, and task lists, as shown by the web client.
pub const MARKDOWN: Options = Options::ENABLE_TABLES
    .union(Options::ENABLE_STRIKETHROUGH)
    .union(Options::ENABLE_TASKLISTS);

/// Start of the private characters: this one is the separator, and the one for an ASCII character is as far behind it as its code.
const PRIVATE: u32 = 0x0010_FE00;
const SEPARATOR: char = '\u{10FE00}';

/// List numbers above this one, such as years, begin a list only after another item.
const LIST_NUMBER_MAX: u32 = 999;
const SHRUG: &str = "\\_(ツ)_/¯";

/// A replacement in the prepared text.
#[derive(Debug, Clone, Copy)]
struct Edit {
    prepared: usize,
    prepared_bytes: usize,
    original: usize,
    original_bytes: usize,
}

/// A text that is prepared for the parser.
#[derive(Debug)]
pub struct Reading<'a> {
    prepared: Cow<'a, str>,
    edits: Vec<Edit>,
    /// Formulas, which contain no Markdown.
    math: Vec<Range<usize>>,
}

impl<'a> Reading<'a> {
    /// Prepares a text. Runs in time linear in its length.
    pub fn of(content: &'a str) -> Self {
        Scanner::new(content).scan()
    }

    /// The parser's events with ranges of the original text.
    pub fn events(&self) -> Events<'_> {
        Events {
            inner: Parser::new_ext(&self.prepared, MARKDOWN).into_offset_iter(),
            edits: &self.edits,
        }
    }

    /// Ranges of formulas, in order.
    pub(super) fn math(&self) -> &[Range<usize>] {
        &self.math
    }
}

/// Iterator of `Reading::events`.
pub struct Events<'a> {
    inner: OffsetIter<'a>,
    edits: &'a [Edit],
}

impl Events<'_> {
    fn original(&self, at: usize) -> usize {
        let before = self.edits.partition_point(|edit| edit.prepared <= at);
        let Some(edit) = self.edits[..before].last() else {
            return at;
        };
        match at.checked_sub(edit.prepared + edit.prepared_bytes) {
            Some(behind) => edit.original + edit.original_bytes + behind,
            None => edit.original,
        }
    }
}

impl<'a> Iterator for Events<'a> {
    type Item = (Event<'a>, Range<usize>);

    fn next(&mut self) -> Option<Self::Item> {
        let (event, range) = self.inner.next()?;
        if self.edits.is_empty() {
            return Some((event, range));
        }
        let event = match event {
            Event::Text(text) => Event::Text(restored(text)),
            Event::Code(text) => Event::Code(restored(text)),
            Event::Html(text) => Event::Html(restored(text)),
            Event::InlineHtml(text) => Event::InlineHtml(restored(text)),
            other => other,
        };
        Some((event, self.original(range.start)..self.original(range.end)))
    }
}

/// Code of the hidden ASCII character; 0 for the separator.
fn private_code(c: char) -> Option<u8> {
    let code = u32::from(c).checked_sub(PRIVATE)?;
    u8::try_from(code).ok().filter(u8::is_ascii)
}

fn restored(text: CowStr<'_>) -> CowStr<'_> {
    if !text.chars().any(|c| private_code(c).is_some()) {
        return text;
    }
    let shown = |c| match private_code(c) {
        Some(0) => None,
        Some(code) => Some(char::from(code)),
        None => Some(c),
    };
    text.chars().filter_map(shown).collect::<String>().into()
}

/// Checks for characters of scripts that are written without spaces, and their punctuation.
fn is_cjk(c: char) -> bool {
    matches!(
        c.script(),
        Script::Han | Script::Hangul | Script::Bopomofo | Script::Hiragana | Script::Katakana
    ) || matches!(c, '\u{3000}'..='\u{30ff}' | '\u{3200}'..='\u{33ff}' | '\u{fe10}'..='\u{fe1f}'
        | '\u{fe30}'..='\u{fe6f}' | '\u{ff00}'..='\u{ffef}')
}

fn is_variation_selector(c: char) -> bool {
    matches!(c, '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}')
}

/// Kinds of formulas.
#[derive(Clone, Copy)]
enum Math {
    /// `\(…\)` in a line.
    Round,
    /// `\[…\]` in a paragraph.
    Square,
    /// `$$…$$` in a paragraph.
    Dollars,
}

impl Math {
    fn end(self) -> &'static [u8] {
        match self {
            Self::Round => b"\\)",
            Self::Square => b"\\]",
            Self::Dollars => b"$$",
        }
    }
}

/// An open fence: its character and length.
type Fence = (u8, usize);

struct Scanner<'a> {
    content: &'a str,
    bytes: &'a [u8],
    out: String,
    /// The original text up to here is in `out`.
    done: usize,
    edits: Vec<Edit>,
    math: Vec<Range<usize>>,
    line_end: usize,
    paragraph_end: usize,
    fence: Option<Fence>,
    is_quote: bool,
    is_list: bool,
    follows_blank: bool,
    /// For each kind of formula, the position up to which no formula ends.
    no_end: [usize; 3],
    /// Start of the last run of backticks by length, in the paragraph that ends at `.0`.
    backticks: (usize, HashMap<usize, usize>),
}

impl<'a> Scanner<'a> {
    fn new(content: &'a str) -> Self {
        Self {
            content,
            bytes: content.as_bytes(),
            out: String::new(),
            done: 0,
            edits: Vec::new(),
            math: Vec::new(),
            line_end: 0,
            paragraph_end: 0,
            fence: None,
            is_quote: false,
            is_list: false,
            follows_blank: false,
            no_end: [0; 3],
            backticks: (0, HashMap::new()),
        }
    }

    fn scan(mut self) -> Reading<'a> {
        let mut at = 0;
        while let Some(byte) = self.bytes.get(at) {
            if at >= self.line_end {
                self.line_end = end_of_line(self.bytes, at);
                if self.skips_line(at) {
                    at = self.line_end;
                    continue;
                }
            }
            at = match byte {
                b'\\' => self.backslash(at),
                b'`' => self.code(at),
                b'$' if self.bytes.get(at + 1) == Some(&b'$') => {
                    self.formula(at, Math::Dollars).unwrap_or(at + 2)
                }
                b'*' | b'~' => self.run(at),
                b'_' => self.underscores(at),
                // First byte of the private characters.
                0xf4 => self.private(at),
                _ => at + 1,
            };
        }
        if self.edits.is_empty() {
            return Reading {
                prepared: Cow::Borrowed(self.content),
                edits: self.edits,
                math: self.math,
            };
        }
        self.out.push_str(&self.content[self.done..]);
        Reading {
            prepared: Cow::Owned(self.out),
            edits: self.edits,
            math: self.math,
        }
    }

    fn replace(&mut self, original: Range<usize>, with: char) {
        if original.start < self.done {
            return;
        }
        self.out.push_str(&self.content[self.done..original.start]);
        self.edits.push(Edit {
            prepared: self.out.len(),
            prepared_bytes: with.len_utf8(),
            original: original.start,
            original_bytes: original.len(),
        });
        self.out.push(with);
        self.done = original.end;
    }

    /// Makes an ASCII character text.
    fn hide(&mut self, at: usize) {
        let code = PRIVATE + u32::from(self.bytes[at]);
        self.replace(at..at + 1, char::from_u32(code).unwrap_or(SEPARATOR));
    }

    /// A private character in the original text would be taken for a hidden one.
    fn private(&mut self, at: usize) -> usize {
        let c = self.content[at..].chars().next().unwrap_or_default();
        let end = at + c.len_utf8();
        if private_code(c).is_some() {
            self.replace(at..end, char::REPLACEMENT_CHARACTER);
        }
        end
    }

    /// Reads the beginning of a line; returns true if the line is part of a fenced code block.
    fn skips_line(&mut self, at: usize) -> bool {
        let line = self.content[at..self.line_end].trim_end_matches(['\r', '\n']);
        if let Some((mark, length)) = self.fence {
            let rest = line.trim_start_matches([' ', '\t', '>']);
            let run = run_length(rest.as_bytes(), mark);
            if run >= length && rest[run..].trim().is_empty() {
                self.fence = None;
            }
            return true;
        }
        self.is_quote = line.trim_start().starts_with('>');
        let rest = without_containers(line);
        self.fence = fence(rest);
        if self.fence.is_some() {
            return true;
        }
        self.list_number(at + line.len() - rest.len(), line, rest);
        false
    }

    /// Hides the period of a number that is too high for the first item of a list.
    fn list_number(&mut self, at: usize, line: &str, rest: &str) {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let is_item = (1..=9).contains(&digits)
            && rest[digits..].starts_with(['.', ')'])
            && rest[digits + 1..]
                .chars()
                .next()
                .is_none_or(|c| c == ' ' || c == '\t');
        if is_item {
            let number: u32 = rest[..digits].parse().unwrap_or(u32::MAX);
            if self.is_list || number <= LIST_NUMBER_MAX {
                self.is_list = true;
            } else {
                self.hide(at + digits);
            }
        } else if line.trim().is_empty() {
            self.follows_blank = true;
            return;
        } else if self.follows_blank && !line.starts_with([' ', '\t']) {
            self.is_list = false;
        }
        self.follows_blank = false;
    }

    fn backslash(&mut self, at: usize) -> usize {
        let formula = match self.bytes.get(at + 1) {
            Some(b'(') => self.formula(at, Math::Round),
            Some(b'[') => self.formula(at, Math::Square),
            _ => None,
        };
        if let Some(end) = formula {
            return end;
        }
        if self.content[at..].starts_with(SHRUG) && self.content[..at].ends_with('¯') {
            self.hide(at);
            self.hide(at + 1);
            let end = at + SHRUG.len();
            self.hide(end - "_/¯".len());
            return end;
        }
        let escapes = self.bytes.get(at + 1).is_some_and(u8::is_ascii_punctuation);
        at + 1 + usize::from(escapes)
    }

    /// End of the paragraph that contains `at`.
    fn end_of_paragraph(&mut self, at: usize) -> usize {
        if at >= self.paragraph_end {
            let mut end = end_of_line(self.bytes, at);
            while end < self.bytes.len() {
                let next = end_of_line(self.bytes, end);
                let is_blank = |b: &u8| matches!(b, b' ' | b'\t' | b'\r' | b'\n' | b'>');
                if self.bytes[end..next].iter().all(is_blank) {
                    break;
                }
                end = next;
            }
            self.paragraph_end = end;
        }
        self.paragraph_end
    }

    /// Skips a code span; its content needs no preparation, because the private characters in code are replaced, too.
    fn code(&mut self, at: usize) -> usize {
        let length = run_length(&self.bytes[at..], b'`');
        let paragraph_end = self.end_of_paragraph(at);
        if self.backticks.0 != paragraph_end {
            let mut last = HashMap::new();
            let mut start = at;
            while start < paragraph_end {
                let run = run_length(&self.bytes[start..paragraph_end], b'`');
                if run > 0 {
                    last.insert(run, start);
                }
                start += run.max(1);
            }
            self.backticks = (paragraph_end, last);
        }
        let mut next = at + length;
        if self
            .backticks
            .1
            .get(&length)
            .is_none_or(|last| *last < next)
        {
            return next;
        }
        while next < paragraph_end {
            let run = run_length(&self.bytes[next..paragraph_end], b'`');
            next += run.max(1);
            if run == length {
                break;
            }
        }
        self.reach(next);
        next
    }

    /// Continues behind a part that may span several lines. Searching for the end of the same line again would take quadratic time.
    fn reach(&mut self, end: usize) {
        if end > self.line_end {
            self.line_end = end_of_line(self.bytes, end - 1);
        }
    }

    /// Hides the marks in a formula that starts at `at`; returns its end.
    fn formula(&mut self, at: usize, kind: Math) -> Option<usize> {
        let from = at + 2;
        if from < self.no_end[kind as usize] {
            return None;
        }
        let limit = match kind {
            Math::Round => self.line_end,
            Math::Square | Math::Dollars => self.end_of_paragraph(at),
        };
        let mut next = from;
        let end = loop {
            let rest = self.bytes.get(next..limit).unwrap_or_default();
            if rest.starts_with(kind.end()) && next > from {
                break next + 2;
            }
            match rest.first() {
                None => {
                    self.no_end[kind as usize] = limit;
                    return None;
                }
                Some(b'\\') => next += 2,
                Some(_) => next += 1,
            }
        };
        // Brackets of an escaped link.
        if matches!(
            (kind, self.bytes.get(end)),
            (Math::Square, Some(b'(' | b'['))
        ) {
            self.no_end[kind as usize] = next;
            return None;
        }
        let mut is_margin = false;
        for n in at..end {
            let byte = self.bytes[n];
            is_margin = match byte {
                b'\n' => true,
                b' ' | b'\t' => is_margin,
                b'>' => is_margin && self.is_quote,
                _ => false,
            };
            if byte.is_ascii_punctuation() && !is_margin {
                self.hide(n);
            }
        }
        self.math.push(at..end);
        self.reach(end);
        Some(end)
    }

    /// A run of `*` or `~`.
    fn run(&mut self, at: usize) -> usize {
        let mark = self.bytes[at];
        let length = run_length(&self.bytes[at..], mark);
        let end = at + length;
        let is_digit = |at: Option<usize>| {
            at.and_then(|at| self.bytes.get(at))
                .is_some_and(u8::is_ascii_digit)
        };
        match (mark, length) {
            (b'~', 1) => self.hide(at),
            (b'*', 1) if is_digit(at.checked_sub(1)) && is_digit(Some(end)) => self.hide(at),
            (b'*', _) | (_, 2) => self.separate_cjk(at, end),
            _ => {}
        }
        end
    }

    /// Lets a run of marks next to a CJK character open and close emphasis.
    fn separate_cjk(&mut self, start: usize, end: usize) {
        let mut before = self.content[..start].chars().rev();
        let (Some(left), Some(right)) = (before.next(), self.content[end..].chars().next()) else {
            return;
        };
        let base = if is_variation_selector(left) {
            before.next().unwrap_or(left)
        } else {
            left
        };
        if left.is_whitespace() || right.is_whitespace() || !(is_cjk(base) || is_cjk(right)) {
            return;
        }
        if !left.is_alphanumeric() {
            self.replace(start..start, SEPARATOR);
        }
        if !right.is_alphanumeric() {
            self.replace(end..end, SEPARATOR);
        }
    }

    /// Hides the underscores of names such as `__init__.py`.
    fn underscores(&mut self, at: usize) -> usize {
        let run = run_length(&self.bytes[at..], b'_');
        let rest = &self.bytes[at + run..];
        let word = rest
            .iter()
            .take_while(|b| b.is_ascii_alphanumeric())
            .count();
        let begins_word = at == 0 || self.content[..at].ends_with(char::is_whitespace);
        let is_name = begins_word
            && run == 2
            && word > 0
            && rest[word..].starts_with(b"__.")
            && rest.get(word + 3).is_some_and(u8::is_ascii_alphabetic);
        if is_name {
            let close = at + run + word;
            for n in [at, at + 1, close, close + 1] {
                self.hide(n);
            }
            return close + 2;
        }
        at + run
    }
}

fn end_of_line(bytes: &[u8], at: usize) -> usize {
    let newline = bytes[at..].iter().position(|b| *b == b'\n');
    newline.map_or(bytes.len(), |n| at + n + 1)
}

fn run_length(bytes: &[u8], mark: u8) -> usize {
    bytes.iter().take_while(|b| **b == mark).count()
}

/// The line without indentation, marks of quotes, and bullets.
fn without_containers(line: &str) -> &str {
    let mut rest = line.trim_start_matches([' ', '\t', '>']);
    while let Some(item) = rest
        .strip_prefix(['-', '+', '*'])
        .filter(|item| item.starts_with([' ', '\t']))
    {
        rest = item.trim_start_matches([' ', '\t', '>']);
    }
    rest
}

/// The fence that a line opens.
fn fence(rest: &str) -> Option<Fence> {
    let mark = *rest.as_bytes().first()?;
    let length = run_length(rest.as_bytes(), mark);
    let opens = match mark {
        b'`' => !rest[length..].contains('`'),
        b'~' => true,
        _ => false,
    };
    (opens && length >= 3).then_some((mark, length))
}
