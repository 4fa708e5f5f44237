//! Converts HTML to text while it is read, without a tree: the tokens of a page change a small state and append to the text.
//!
//! Block elements break lines, and scripts, styles, templates, drawings, and the title are left out, and so are hidden elements of
//! documents. Links are written as `[text](address)`, lists with `*` or numbers, headings with `#`, quotations with `>`, and table cells with
//! `|` between them.

use std::{
    cell::RefCell,
    time::{Duration, Instant},
};

use html5ever::{
    TokenizerResult,
    tendril::StrTendril,
    tokenizer::{
        BufferQueue, Tag, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts,
        states::RawKind,
    },
};

/// Maximum size of the text in bytes; the rest of the page is left out. Most pages have less text than HTML.
const TEXT_BYTES_MAX: usize = 4 << 20;
/// Time limit for a page. A conversion cannot be interrupted from outside, so it checks the limit itself. The limit is needed for a tag
/// with very many attributes, because the tokenizer compares all of them with each other.
const CONVERT_WITHIN: Duration = Duration::from_secs(3);
/// Like `CONVERT_WITHIN`, for a document in a process of its own.
const CONVERT_DOCUMENT_WITHIN: Duration = Duration::from_secs(30);
/// Control character before a heading; other control characters are left out.
pub(crate) const HEADING_MARK: char = '\u{1}';
/// Length of HTML that is read between checks of the limits.
const PIECE_BYTES: usize = 4096;
/// Maximum number of lists and quotations whose lines are indented.
const INDENTS_MAX: usize = 4;
/// Maximum number of open lists whose items are numbered.
const LISTS_MAX: usize = 64;
/// Maximum number of empty table cells that are written in a row.
const EMPTY_CELLS_MAX: usize = 16;
/// Maximum length of a link's address in bytes; the text of other links is written without address.
const ADDRESS_BYTES_MAX: usize = 2048;

/// Text of a page; `None` if the time limit is exceeded.
pub fn to_text(html: &str) -> Option<String> {
    text_until(html, Instant::now() + CONVERT_WITHIN)
}

fn text_until(html: &str, until: Instant) -> Option<String> {
    let writer = Writer {
        bytes_max: TEXT_BYTES_MAX,
        ..Writer::default()
    };
    convert(html, until, writer)
}

/// Text of a document whose headings outside of lists and quotations start with `HEADING_MARK`, which occurs nowhere else; `None` if
/// the document takes too long.
pub(crate) fn to_marked_text(html: &str) -> Option<String> {
    let writer = Writer {
        bytes_max: crate::sink::TEXT_BYTES_MAX + 1,
        marks_headings: true,
        ..Writer::default()
    };
    convert(html, Instant::now() + CONVERT_DOCUMENT_WITHIN, writer)
}

fn convert(html: &str, until: Instant, writer: Writer) -> Option<String> {
    let converter = Converter(RefCell::new(writer));
    let tokenizer = Tokenizer::new(converter, TokenizerOpts::default());
    let input = BufferQueue::default();
    let mut rest = html;
    while !rest.is_empty() && !tokenizer.sink.is_full() {
        let (piece, after) = rest.split_at(rest.floor_char_boundary(PIECE_BYTES));
        rest = after;
        input.push_back(StrTendril::from(piece));
        while !matches!(tokenizer.feed(&input), TokenizerResult::Done) {}
        if Instant::now() > until {
            return None;
        }
    }
    if rest.is_empty() {
        tokenizer.end();
    }
    Some(tokenizer.sink.0.into_inner().finish())
}

struct Converter(RefCell<Writer>);

impl Converter {
    fn is_full(&self) -> bool {
        let writer = self.0.borrow();
        writer.out.len() >= writer.bytes_max
    }
}

impl TokenSink for Converter {
    type Handle = ();

    fn process_token(&self, token: Token, _: u64) -> TokenSinkResult<()> {
        let mut writer = self.0.borrow_mut();
        match token {
            Token::TagToken(tag) => writer.tag(&tag),
            Token::CharacterTokens(text) => {
                writer.text(&text);
                TokenSinkResult::Continue
            }
            _ => TokenSinkResult::Continue,
        }
    }
}

/// An open list.
struct List {
    /// Number of the next item; `None` if items are not numbered.
    next: Option<u64>,
}

/// Break before the next text.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Break {
    Line = 1,
    Paragraph = 2,
}

/// A drawing, of which only a title at its beginning is written.
struct Drawing {
    /// Open `svg` elements.
    depth: usize,
    /// Open elements with HTML inside of the drawing.
    foreign: usize,
    /// True until the first element of the drawing.
    is_at_start: bool,
    is_in_title: bool,
}

/// An element that is not shown.
struct HiddenElement {
    name: String,
    kind: Option<ItemKind>,
    /// Open elements in it that can contain its end tag: those of its name, or parents of its kind.
    open: usize,
}

impl HiddenElement {
    /// Checks whether the element ends before a tag, also without its own end tag.
    fn ends_before(&self, name: &str, is_start: bool) -> bool {
        let Some(kind) = &self.kind else {
            // A paragraph ends before the next block.
            return self.name == "p" && break_of(name).is_some() && (is_start || name != "p");
        };
        let is_beside =
            item_kind(name).is_some_and(|of| of.parents == kind.parents && of.level <= kind.level);
        self.open == 0 && (is_beside || !is_start && kind.parents.contains(&name))
    }

    /// Checks whether its end tag can be in an element of this name.
    fn is_counted(&self, name: &str) -> bool {
        match &self.kind {
            Some(kind) => kind.parents.contains(&name),
            None => name == self.name,
        }
    }
}

/// The text so far, and what was read but is written only before more text.
#[derive(Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is one state of the text so far, independent of the others"
)]
struct Writer {
    out: String,
    bytes_max: usize,
    marks_headings: bool,
    /// Line breaks and white space before the next text.
    lines: usize,
    has_space: bool,
    /// Beginning of a list item or heading that has no text yet.
    bullet: Option<String>,
    heading: usize,
    /// Cell borders before the next text, and whether the row already has a cell, and text.
    borders: usize,
    has_cell: bool,
    has_row_text: bool,
    is_raised: bool,
    /// Address of the open link, and whether its text has begun.
    link: Option<String>,
    is_link_begun: bool,
    /// Innermost lists; `list_depth` counts all.
    lists: Vec<List>,
    list_depth: usize,
    quotes: usize,
    pre: usize,
    is_pre_start: bool,
    /// Open elements whose text is left out.
    raw: Option<&'static str>,
    templates: usize,
    drawing: Option<Drawing>,
    hidden: Option<HiddenElement>,
}

/// Tokenizer state for the text of an element that contains no elements.
fn raw_kind(name: &str) -> Option<(&'static str, RawKind)> {
    Some(match name {
        "script" => ("script", RawKind::ScriptData),
        "style" => ("style", RawKind::Rawtext),
        "iframe" => ("iframe", RawKind::Rawtext),
        "noembed" => ("noembed", RawKind::Rawtext),
        "noframes" => ("noframes", RawKind::Rawtext),
        "title" => ("title", RawKind::Rcdata),
        _ => return None,
    })
}

/// Break before and after a block element; `None` for other elements.
fn break_of(name: &str) -> Option<Break> {
    Some(match name {
        "address" | "article" | "aside" | "body" | "caption" | "center" | "dd" | "details"
        | "dialog" | "div" | "dt" | "fieldset" | "figcaption" | "figure" | "footer" | "form"
        | "header" | "hgroup" | "html" | "legend" | "li" | "main" | "nav" | "option"
        | "optgroup" | "search" | "section" | "summary" | "tbody" | "tfoot" | "thead" | "tr" => {
            Break::Line
        }
        "blockquote" | "dl" | "h1" | "h2" | "h3" | "h4" | "h5" | "h6" | "hr" | "listing"
        | "menu" | "ol" | "p" | "pre" | "table" | "ul" | "xmp" => Break::Paragraph,
        _ => return None,
    })
}

/// Checks whether an element has no end tag.
fn is_void(name: &str) -> bool {
    matches!(
        name,
        "area"
            | "base"
            | "br"
            | "col"
            | "embed"
            | "hr"
            | "img"
            | "input"
            | "link"
            | "meta"
            | "source"
            | "track"
            | "wbr"
    )
}

/// Place of an element whose end tag is often left out: the elements that end it, and its level in them.
struct ItemKind {
    parents: &'static [&'static str],
    level: u8,
}

/// Kind of an element whose end tag is often left out; `None` for other elements.
fn item_kind(name: &str) -> Option<ItemKind> {
    let (parents, level): (&[&str], u8) = match name {
        "li" => (&["ul", "ol", "menu"], 0),
        "dt" | "dd" => (&["dl"], 0),
        "rt" | "rp" => (&["ruby"], 0),
        "optgroup" => (&["select", "datalist"], 0),
        "option" => (&["select", "datalist"], 1),
        "thead" | "tbody" | "tfoot" => (&["table"], 0),
        "tr" => (&["table"], 1),
        // Rows follow captions and columns, too.
        "caption" | "colgroup" | "td" | "th" => (&["table"], 2),
        _ => return None,
    };
    Some(ItemKind { parents, level })
}

/// Checks whether a start tag hides its element, by `hidden` or by its own style.
fn hides_element(tag: &Tag) -> bool {
    let style = attribute(tag, "style").unwrap_or_default();
    let style: String = style.chars().filter(|c| !c.is_whitespace()).collect();
    let style = style.to_ascii_lowercase();
    let is_hiding =
        |rule: &str| rule.starts_with("display:none") || rule.starts_with("visibility:hidden");
    attribute(tag, "hidden").is_some() || style.split(';').any(is_hiding)
}

/// Level of a heading.
fn heading_level(name: &str) -> Option<usize> {
    match name.as_bytes() {
        [b'h', digit @ b'1'..=b'6'] => Some(usize::from(digit - b'0')),
        _ => None,
    }
}

fn attribute<'a>(tag: &'a Tag, name: &str) -> Option<&'a str> {
    let mut found = tag.attrs.iter();
    let attribute = found.find(|attribute| &*attribute.name.local == name)?;
    Some(&attribute.value)
}

/// Address of a link that a reader can follow. Addresses in the page itself are left out.
fn address(tag: &Tag) -> Option<String> {
    let href = attribute(tag, "href")?.trim();
    let scheme = href.split_once(':').map(|(scheme, _)| scheme);
    let is_page = !scheme.is_some_and(|scheme| {
        ["data", "javascript"]
            .iter()
            .any(|other| scheme.eq_ignore_ascii_case(other))
    });
    let is_kept = is_page && !href.is_empty() && !href.starts_with('#');
    (is_kept && href.len() <= ADDRESS_BYTES_MAX)
        .then(|| href.chars().filter(|c| !c.is_control()).collect())
}

impl Writer {
    fn is_hidden(&self) -> bool {
        self.raw.is_some()
            || self.templates > 0
            || self.hidden.is_some()
            || self
                .drawing
                .as_ref()
                .is_some_and(|drawing| !drawing.is_in_title)
    }

    fn tag(&mut self, tag: &Tag) -> TokenSinkResult<()> {
        let name = &*tag.name;
        let is_start = tag.kind == TagKind::StartTag;
        if let Some(raw) = self.raw {
            if !is_start && name == raw {
                self.raw = None;
            }
            return TokenSinkResult::Continue;
        }
        if self.drawing.is_some() && self.draws(tag) {
            return TokenSinkResult::Continue;
        }
        if name == "template" {
            self.templates = if is_start {
                self.templates + 1
            } else {
                self.templates.saturating_sub(1)
            };
            return TokenSinkResult::Continue;
        }
        if is_start && let Some((raw, kind)) = raw_kind(name) {
            self.raw = Some(raw);
            return TokenSinkResult::RawData(kind);
        }
        if self.templates == 0 && !self.hides(tag) {
            if is_start {
                self.start(tag);
            } else {
                self.end(name);
            }
        }
        match name {
            "textarea" if is_start => TokenSinkResult::RawData(RawKind::Rcdata),
            "xmp" if is_start => TokenSinkResult::RawData(RawKind::Rawtext),
            "plaintext" if is_start => TokenSinkResult::Plaintext,
            _ => TokenSinkResult::Continue,
        }
    }

    /// Handles a tag of, or in, an element that is not shown. Returns false for any other tag.
    fn hides(&mut self, tag: &Tag) -> bool {
        let name = &*tag.name;
        let is_start = tag.kind == TagKind::StartTag;
        if self
            .hidden
            .as_ref()
            .is_some_and(|hidden| hidden.ends_before(name, is_start))
        {
            self.hidden = None;
        }
        let Some(hidden) = &mut self.hidden else {
            // The text of a page that is shown only by its scripts is read.
            let is_hidden = self.marks_headings
                && is_start
                && !matches!(name, "html" | "head" | "body")
                && hides_element(tag);
            if is_hidden && !is_void(name) && !tag.self_closing {
                self.hidden = Some(HiddenElement {
                    name: name.to_owned(),
                    kind: item_kind(name),
                    open: 0,
                });
            }
            return is_hidden;
        };
        if hidden.is_counted(name) {
            if is_start {
                hidden.open += usize::from(!tag.self_closing);
            } else if hidden.open > 0 {
                hidden.open -= 1;
            } else {
                self.hidden = None;
            }
        }
        true
    }

    /// Handles a tag in a drawing. Returns false if the drawing was not closed, and the tag belongs to the page.
    fn draws(&mut self, tag: &Tag) -> bool {
        let Some(drawing) = &mut self.drawing else {
            return false;
        };
        let is_start = tag.kind == TagKind::StartTag;
        let is_first = std::mem::take(&mut drawing.is_at_start);
        match &*tag.name {
            "svg" if is_start && !tag.self_closing => drawing.depth += 1,
            "svg" if !is_start && drawing.depth > 1 => drawing.depth -= 1,
            "svg" if !is_start => self.drawing = None,
            "title" if is_start && is_first => drawing.is_in_title = true,
            "title" => drawing.is_in_title = false,
            "foreignobject" | "desc" if tag.self_closing => {}
            "foreignobject" | "desc" if is_start => drawing.foreign += 1,
            "foreignobject" | "desc" => drawing.foreign = drawing.foreign.saturating_sub(1),
            name if drawing.foreign == 0 && is_start => {
                let is_html = break_of(name).is_some()
                    || matches!(
                        name,
                        "b" | "br" | "code" | "em" | "i" | "img" | "span" | "strong"
                    );
                if is_html {
                    self.drawing = None;
                }
                return !is_html;
            }
            _ => {}
        }
        true
    }

    fn start(&mut self, tag: &Tag) {
        let name = &*tag.name;
        if let Some(level) = heading_level(name) {
            self.break_by(Break::Paragraph);
            self.heading = level;
            return;
        }
        match name {
            "svg" if !tag.self_closing => {
                self.drawing = Some(Drawing {
                    depth: 1,
                    foreign: 0,
                    is_at_start: true,
                    is_in_title: false,
                });
            }
            "a" => {
                self.close_link();
                self.link = address(tag);
            }
            "br" => self.break_line(),
            "hr" => {
                self.break_by(Break::Paragraph);
                self.word("---");
                self.break_by(Break::Paragraph);
            }
            "img" => {
                let alt = attribute(tag, "alt").unwrap_or_default().trim();
                if !alt.is_empty() && attribute(tag, "src").is_some_and(|src| !src.is_empty()) {
                    self.word("[");
                    self.text(alt);
                    self.has_space = false;
                    self.word("]");
                }
            }
            "ol" | "ul" | "menu" => self.open_list(tag),
            "li" => self.open_item(),
            "tr" => {
                if self.has_row_text && self.has_cell {
                    self.lines = 0;
                }
                self.borders = 0;
                self.break_by(Break::Line);
                (self.borders, self.has_cell, self.has_row_text) = (0, false, false);
            }
            "td" | "th" => self.open_cell(),
            "sup" => self.is_raised = true,
            "blockquote" => {
                self.break_by(Break::Paragraph);
                self.quotes += 1;
            }
            "pre" | "listing" | "xmp" => {
                self.break_by(Break::Paragraph);
                self.pre += 1;
                self.is_pre_start = true;
            }
            _ => {
                if let Some(kind) = break_of(name) {
                    self.break_by(kind);
                }
            }
        }
    }

    fn end(&mut self, name: &str) {
        if heading_level(name).is_some() {
            self.heading = 0;
        }
        match name {
            "a" => self.close_link(),
            "br" => self.break_line(),
            "p" => self.break_by(Break::Paragraph),
            "sup" => self.is_raised = false,
            "ol" | "ul" | "menu" => self.close_list(),
            "li" => {
                self.bullet = None;
                self.break_by(Break::Line);
            }
            "table" => {
                (self.borders, self.has_cell) = (0, false);
                self.break_by(Break::Paragraph);
            }
            "blockquote" => {
                self.quotes = self.quotes.saturating_sub(1);
                self.break_by(Break::Paragraph);
            }
            "pre" | "listing" | "xmp" => {
                self.pre = self.pre.saturating_sub(1);
                self.lines = 0;
                self.break_by(Break::Paragraph);
            }
            _ => {
                if let Some(kind) = break_of(name) {
                    self.break_by(kind);
                }
            }
        }
    }

    /// Breaks the line before the next text. The beginning of an item or cell already has its line.
    fn break_by(&mut self, kind: Break) {
        if self.bullet.is_none() && self.borders == 0 {
            self.lines = self.lines.max(kind as usize);
        }
    }

    fn break_line(&mut self) {
        self.lines = (self.lines + 1).min(Break::Paragraph as usize);
    }

    fn open_list(&mut self, tag: &Tag) {
        self.break_by(if self.list_depth == 0 {
            Break::Paragraph
        } else {
            Break::Line
        });
        self.bullet = None;
        self.list_depth += 1;
        if self.list_depth <= LISTS_MAX {
            let is_numbered = &*tag.name == "ol";
            let first = attribute(tag, "start").and_then(|first| first.trim().parse().ok());
            self.lists.push(List {
                next: is_numbered.then(|| first.unwrap_or(1)),
            });
        }
    }

    fn close_list(&mut self) {
        self.bullet = None;
        self.list_depth = self.list_depth.saturating_sub(1);
        self.lists.truncate(self.list_depth);
        self.break_by(if self.list_depth == 0 {
            Break::Paragraph
        } else {
            Break::Line
        });
    }

    fn open_item(&mut self) {
        self.bullet = None;
        self.break_by(Break::Line);
        let next = self.lists.last_mut().and_then(|list| list.next.as_mut());
        self.bullet = Some(match next {
            Some(number) => {
                let text = format!("{number}. ");
                *number = number.saturating_add(1);
                text
            }
            None => "* ".to_owned(),
        });
    }

    fn open_cell(&mut self) {
        if self.has_cell {
            self.borders += 1;
            if self.has_row_text {
                self.lines = 0;
            }
        }
        self.has_cell = true;
    }

    fn close_link(&mut self) {
        let Some(address) = self.link.take() else {
            return;
        };
        if std::mem::take(&mut self.is_link_begun) {
            self.out.push_str("](");
            self.out.push_str(&address);
            self.out.push(')');
        }
    }

    fn text(&mut self, text: &str) {
        if self.is_hidden() {
            return;
        }
        for c in text.chars() {
            if self.out.len() >= self.bytes_max {
                return;
            }
            if self.pre > 0 {
                self.pre_char(c);
            } else if c.is_ascii_whitespace() || c == '\u{a0}' {
                self.has_space = true;
            } else if !c.is_control() {
                self.flush();
                self.out.push(c);
            }
        }
    }

    fn pre_char(&mut self, c: char) {
        let is_start = std::mem::take(&mut self.is_pre_start);
        match c {
            '\n' if is_start => {}
            '\n' => self.lines += 1,
            '\t' => {
                self.flush();
                self.out.push(c);
            }
            c if c.is_control() => {}
            c => {
                self.flush();
                self.out.push(c);
            }
        }
    }

    /// Writes a short text that is not from the page.
    fn word(&mut self, text: &str) {
        if !self.is_hidden() {
            self.flush();
            self.out.push_str(text);
        }
    }

    /// Writes everything that comes before the next text.
    fn flush(&mut self) {
        let is_raised = std::mem::take(&mut self.is_raised);
        if self.lines > 0 || self.out.is_empty() {
            self.start_line();
        } else if self.borders == 0 && self.has_space {
            self.out.push(' ');
        } else if is_raised && self.out.ends_with(char::is_alphanumeric) {
            self.out.push('^');
        }
        for _ in 0..std::mem::take(&mut self.borders).min(EMPTY_CELLS_MAX) {
            self.out.push_str(" | ");
        }
        if let Some(bullet) = self.bullet.take() {
            self.out.push_str(&bullet);
        }
        let is_at_start = self.out.is_empty() || self.out.ends_with('\n');
        if self.heading > 0 && self.marks_headings && is_at_start {
            self.out.push(HEADING_MARK);
        }
        for _ in 0..self.heading {
            self.out.push('#');
        }
        if std::mem::take(&mut self.heading) > 0 {
            self.out.push(' ');
        }
        if self.link.is_some() && !self.is_link_begun {
            self.is_link_begun = true;
            self.out.push('[');
        }
        self.has_space = false;
        self.has_row_text = true;
    }

    fn start_line(&mut self) {
        let lines = std::mem::take(&mut self.lines);
        if !self.out.is_empty() {
            self.out.extend(std::iter::repeat_n('\n', lines));
        }
        for _ in 0..self.quotes.min(INDENTS_MAX) {
            self.out.push_str("> ");
        }
        let indents = if self.bullet.is_some() {
            self.list_depth.saturating_sub(1)
        } else {
            self.list_depth
        };
        for _ in 0..indents.min(INDENTS_MAX) {
            self.out.push_str("  ");
        }
    }

    fn finish(mut self) -> String {
        self.close_link();
        self.out
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs, path::Path};

    use super::*;

    /// Maximum size of a page that is read.
    const PAGE_BYTES: usize = 2 << 20;

    fn text_of(html: &str) -> String {
        // On a busy machine, a conversion takes much longer than the limit.
        let until = Instant::now() + 100 * CONVERT_WITHIN;
        text_until(html, until).unwrap()
    }

    /// A page of the maximum size, or of `count` repetitions if it is smaller.
    fn repeated(start: &str, part: &str, count: usize) -> String {
        let count = count.min((PAGE_BYTES - start.len()) / part.len());
        format!("{start}{}", part.repeat(count))
    }

    fn words(text: &str) -> BTreeSet<String> {
        let words = text.split(|c: char| !c.is_alphanumeric());
        let words = words.filter(|word| !word.is_empty());
        words.map(str::to_lowercase).collect()
    }

    /// The expected words are those of the converter with a tree that was used before, without the numbers of links and the
    /// addresses in the page itself.
    #[test]
    fn pages_in_the_form_of_common_sites_keep_their_words() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/pages");
        let mut count = 0;
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|kind| kind == "html") {
                let expected = fs::read_to_string(path.with_extension("words")).unwrap();
                let text = text_of(&fs::read_to_string(&path).unwrap());
                assert_eq!(words(&text), words(&expected), "{}\n{text}", path.display());
                count += 1;
            }
        }
        assert_eq!(count, 20);
    }

    #[test]
    fn blocks_lists_tables_and_code_stay_readable() {
        for (html, expected) in [
            (
                "<title>T</title><h1>Fair</h1><p>Two <b>quiet</b>\n days.<p>Then <i>rain</i>.",
                "# Fair\n\nTwo quiet days.\n\nThen rain.",
            ),
            (
                "<ol start=3><li>one<li><p>two</p><ul><li>deep</li></ul></ol>end",
                "3. one\n4. two\n\n  * deep\n\nend",
            ),
            (
                "<table><tr><th>Day<th>High<tr><td>Mon<td><p>07:12</p></td><tr><td></td><td>x</table>",
                "Day | High\nMon | 07:12\n | x",
            ),
            (
                "<p>See:</p><pre>\nif a &lt; b {\n    <b>go</b>()\n\n}\n</pre>done",
                "See:\n\nif a < b {\n    go()\n\n}\n\ndone",
            ),
            (
                "<blockquote><p>Calm<br>seas</p></blockquote>said he",
                "> Calm\n> seas\n\nsaid he",
            ),
            (
                "a<a href=' /next?a=1&amp;b=2 '> <img src=x alt=Next> page</a>, <a href=x> </a><a href='#top'>top</a>",
                "a [[Next] page](/next?a=1&b=2), top",
            ),
            (
                "<a href=one>1<a href=two><div>2</div>",
                "[1](one)\n[2](two)",
            ),
            (
                "m<sup>2</sup> A&nbsp;&amp;&#x20AC;<svg><title>Up</title><path/><text>drawn</text></svg>z",
                "m^2 A &€Upz",
            ),
            (
                "<script>if (a < b) '<p>no'</script><style>p{}</style><template><p>no<template></template></template>yes\0\u{1b}[2J",
                "yes[2J",
            ),
            (
                "<svg><g><p>after a drawing that is not closed",
                "after a drawing that is not closed",
            ),
            (
                "<textarea><b>as typed</textarea><hr>x",
                "<b>as typed\n\n---\n\nx",
            ),
        ] {
            assert_eq!(text_of(html), expected, "{html}");
        }
    }

    #[test]
    fn pages_of_very_many_elements_are_converted() {
        for (start, part, expected) in [
            ("", "<p>a", "a\n\na\n\na"),
            ("<ul>", "<li>a", "* a\n* a\n* a"),
            (
                "<table><tr>",
                "<td>aaaaaaaaaaaaaaaa",
                "aaaaaaaaaaaaaaaa | aaaaaaaaaaaaaaaa |",
            ),
            ("", "<a href=x>a", "[a](x)[a](x)"),
            ("<p>", "<b id=1><i>a", "aaaa"),
        ] {
            let text = text_of(&repeated(start, part, 99_000));
            assert!(text.starts_with(expected), "{part}");
            assert_eq!(text.matches('a').count() % 99_000, 0, "{part}");
        }
    }

    #[test]
    fn no_page_becomes_much_longer_than_it_is() {
        let nested = "<blockquote><ol>".repeat(20);
        let attributes = (0..2000)
            .map(|n| format!("a{n} "))
            .collect::<Vec<_>>()
            .concat();
        for (start, part) in [
            (nested.as_str(), "<li>a"),
            (nested.as_str(), "<br>a"),
            (&format!("{nested}<pre>"), "\na"),
            ("", "<div>"),
            ("", "<ul><li>"),
            ("<table>", "<tr><td><td>a"),
            ("<table><tr>a", "<td>"),
            ("", "<svg><g>"),
            ("", "<template>"),
            ("<script>", "x<!--<script>"),
            ("<p title='", "y"),
            ("<!--", "y"),
            ("", "&CounterClockwiseContourIntegral;"),
            ("", "<"),
            (&format!("<p {attributes}>"), "<x>"),
        ] {
            let html = repeated(start, part, usize::MAX);
            let text = text_of(&html);
            assert!(text.len() < TEXT_BYTES_MAX + 4096, "{part}: {}", text.len());
        }
    }

    #[test]
    fn a_tag_with_very_many_attributes_is_given_up() {
        let many = (0..2_000)
            .map(|n| format!("a{n:x} "))
            .collect::<Vec<_>>()
            .concat();
        assert_eq!(text_until(&format!("<p {many}>x"), Instant::now()), None);
    }
}
