//! Converts Markdown to plain text for notifications, search, and excerpts.

use pulldown_cmark::{Event, Tag, TagEnd, TextMergeStream};

use super::{emoji::with_emoji, reading::Reading};
use crate::model::has_visible;

/// The text that a reader sees: blocks on separate lines, without tags or control characters, and with emoji in place of their names
/// outside of code. The result is longer than `markdown` only if character references or emoji names expand. If it would be blank,
/// because `markdown` contains only a link definition or a rule, returns the text as typed.
pub fn to_plain(markdown: &str) -> String {
    read(markdown).plain
}

/// Plain text of a message.
#[derive(Debug)]
pub struct Shown {
    pub plain: String,
    /// True if the message shows nothing: no visible character, code, image, or rule.
    pub is_blank: bool,
}

/// Like `to_plain`, but also checks whether the text shows anything.
pub fn read(markdown: &str) -> Shown {
    let reading = Reading::of(markdown);
    let mut plain = Plain {
        out: String::with_capacity(markdown.len()),
        html: String::new(),
        is_code_block: false,
        is_cell: false,
        follows_tag: false,
        has_marks: false,
    };
    // Adjacent texts are merged, because an underscore in an emoji name splits the text.
    for event in TextMergeStream::new(reading.events().map(|(event, _)| event)) {
        plain.push(event);
    }
    let is_blank = !plain.has_marks && !has_visible(&plain.out);
    let plain = match plain.out.trim() {
        "" => {
            let mut out = String::with_capacity(markdown.len());
            push_shown(&mut out, markdown);
            out.trim().to_owned()
        }
        text => text.to_owned(),
    };
    Shown { plain, is_blank }
}

#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
struct Plain {
    out: String,
    /// HTML blocks arrive line by line, but a tag can span several lines.
    html: String,
    is_code_block: bool,
    is_cell: bool,
    /// True after a tag that is white space: the white space after it is dropped.
    follows_tag: bool,
    /// True if something is shown that is not in the text, such as a rule.
    has_marks: bool,
}

impl Plain {
    fn push(&mut self, event: Event<'_>) {
        let follows_tag = std::mem::take(&mut self.follows_tag);
        self.has_marks |= is_mark(&event);
        match event {
            Event::Text(text) if !self.is_code_block => {
                let text = if follows_tag {
                    text.trim_start()
                } else {
                    &text
                };
                push_shown(&mut self.out, &with_emoji(text));
            }
            Event::Text(text) | Event::Code(text) => push_shown(&mut self.out, &text),
            Event::InlineHtml(tag) => {
                self.follows_tag = push_gap(&mut self.out, &tag, self.is_cell);
            }
            Event::Start(Tag::CodeBlock(_)) => {
                self.is_code_block = true;
                end_line(&mut self.out);
            }
            Event::Html(line) => self.html.push_str(&line),
            Event::SoftBreak | Event::HardBreak if follows_tag => self.follows_tag = true,
            Event::SoftBreak | Event::HardBreak => self.out.push('\n'),
            Event::Start(Tag::TableCell) => self.is_cell = true,
            Event::Start(tag) if begins_line(&tag) => end_line(&mut self.out),
            Event::End(TagEnd::TableCell) => {
                self.is_cell = false;
                self.out.push(' ');
            }
            Event::End(tag) if ends_line(tag) => {
                self.is_code_block &= tag != TagEnd::CodeBlock;
                if tag == TagEnd::HtmlBlock {
                    push_without_tags(&mut self.out, &std::mem::take(&mut self.html));
                }
                end_line(&mut self.out);
            }
            _ => {}
        }
    }
}

/// Checks whether an event shows something that is not in the plain text. Tags are shown as typed, except for line breaks.
fn is_mark(event: &Event<'_>) -> bool {
    let is_break = |tag: &str| {
        tag.strip_prefix("<")
            .is_some_and(|tag| tag_name(tag) == "br")
    };
    match event {
        Event::Rule
        | Event::Code(_)
        | Event::Start(Tag::Image { .. } | Tag::List(Some(_)))
        | Event::TaskListMarker(_) => true,
        Event::InlineHtml(html) | Event::Html(html) => {
            let html = html.trim();
            html.contains('<') && !is_break(html)
        }
        _ => false,
    }
}

/// Appends text without control characters, which are invisible but interpreted by terminals.
fn push_shown(out: &mut String, text: &str) {
    out.extend(text.chars().filter_map(|c| match c {
        '\n' | '\t' => Some(c),
        '\r' => None,
        c if c.is_control() => c.is_whitespace().then_some(' '),
        c => Some(c),
    }));
}

/// Checks whether a tag starts a new line. `TableCell` and similar tags do not, because an enclosing block ends the line.
fn begins_line(tag: &Tag<'_>) -> bool {
    matches!(
        tag,
        Tag::Paragraph | Tag::Heading { .. } | Tag::HtmlBlock | Tag::Item
    )
}

fn ends_line(tag: TagEnd) -> bool {
    matches!(
        tag,
        TagEnd::Paragraph
            | TagEnd::Heading(_)
            | TagEnd::CodeBlock
            | TagEnd::HtmlBlock
            | TagEnd::Item
            | TagEnd::TableHead
            | TagEnd::TableRow
    )
}

fn end_line(out: &mut String) {
    out.truncate(out.trim_end_matches([' ', '\n']).len());
    if !out.is_empty() {
        out.push('\n');
    }
}

/// White space in place of a tag.
enum Gap {
    Nothing,
    Space,
    Line,
}

/// Lowercase name of a tag that starts behind its `<`; empty for a comment or a declaration.
fn tag_name(tag: &str) -> String {
    let name = tag.strip_prefix('/').unwrap_or(tag);
    let length = name.bytes().take_while(u8::is_ascii_alphanumeric).count();
    name[..length].to_ascii_lowercase()
}

fn gap(tag: &str) -> Gap {
    match tag_name(tag).as_str() {
        "" | "a" | "b" | "i" | "u" | "s" | "em" | "strong" | "sub" | "sup" | "span" | "mark"
        | "small" | "code" | "kbd" | "del" | "ins" | "abbr" | "wbr" | "font" => Gap::Nothing,
        "br" | "p" | "div" | "li" | "tr" | "h1" | "h2" | "h3" | "h4" | "h5" | "h6" | "hr"
        | "details" | "summary" | "blockquote" => Gap::Line,
        _ => Gap::Space,
    }
}

/// Appends the white space in place of a tag, if any, and returns whether it is white space.
fn push_gap(out: &mut String, tag: &str, is_cell: bool) -> bool {
    match gap(tag.strip_prefix('<').unwrap_or(tag)) {
        Gap::Nothing => return false,
        Gap::Line if !is_cell => end_line(out),
        Gap::Line | Gap::Space => {
            if !out.is_empty() && !out.ends_with(char::is_whitespace) {
                out.push(' ');
            }
        }
    }
    true
}

/// Appends HTML without tags, comments, or declarations. A tag, comment, or declaration that is not closed is treated as text.
fn push_without_tags(out: &mut String, html: &str) {
    let mut rest = html;
    let mut quotes_count = true;
    let mut follows_tag = false;
    while let Some((before, from)) = rest.split_once('<') {
        push_shown(
            out,
            if follows_tag {
                before.trim_start()
            } else {
                before
            },
        );
        let (tag, behind) = match tag_end(from, quotes_count) {
            Some(end) => from.split_at(end),
            None if from.contains('>') => {
                // After an unclosed quote, quotes are ordinary characters: searching for the end of each one would
                // take quadratic time.
                quotes_count = false;
                from.split_once('>').unwrap_or_default()
            }
            None => {
                out.push('<');
                return push_shown(out, from);
            }
        };
        follows_tag = push_gap(out, tag, false) || (follows_tag && before.trim().is_empty());
        rest = behind;
    }
    push_shown(out, if follows_tag { rest.trim_start() } else { rest });
}

/// Offset of the end of a tag or comment, relative to the position after its `<`.
fn tag_end(from: &str, quotes_count: bool) -> Option<usize> {
    for (begin, end) in [("!--", "-->"), ("?", "?>"), ("![CDATA[", "]]>")] {
        if let Some(inner) = from.strip_prefix(begin) {
            let length = inner.find(end)? + end.len();
            return Some(begin.len() + length);
        }
    }
    let mut quote = None;
    for (at, byte) in from.bytes().enumerate() {
        match (quote, byte) {
            (None, b'>') => return Some(at + 1),
            (None, b'"' | b'\'') if quotes_count => quote = Some(byte),
            (Some(open), byte) if open == byte => quote = None,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use pulldown_cmark::Parser;

    use super::*;
    use crate::{chat::reading::MARKDOWN, corpus};

    /// Pieces of Markdown syntax.
    const WORDS: &[&str] = &[
        "*", "_", "`", "```\n", "~~~", "> ", "- ", "1. ", "#", "|", "\n|-|\n", "[", "](", ")",
        "![", "<", ">", "<b>", "<!--", "-->", "<div\n", "<?", "]]>", "&", "&#7;", "&nGt;", "\\",
        "\n\n", "\r\n", "    ", "\t", "\u{1b}", "é", "👍", "://", "\"", "'", "=",
    ];

    fn is_shown(c: char) -> bool {
        matches!(c, '\n' | '\t') || !c.is_control()
    }

    #[test]
    fn every_corpus_text_has_the_expected_plain_text() {
        for case in corpus::cases("markdown", "md") {
            case.expect(&to_plain(case.text()));
        }
    }

    #[test]
    fn every_text_of_the_table_has_its_plain_text() {
        for case in corpus::table("texts.json") {
            let text = case["text"].as_str().unwrap();
            assert_eq!(to_plain(text), case["plain"], "{text:?}");
        }
    }

    #[test]
    fn deeply_nested_markup_does_not_produce_text_longer_than_the_message() {
        for piece in [
            "[",
            "]",
            "![",
            "](",
            ">",
            "> ",
            "*",
            "**",
            "_",
            "`",
            "``",
            "<",
            "<a ",
            "<div\n",
            "<!--",
            "</",
            "<a \">\" ",
            "<?",
            "\\",
            "&",
            "- ",
            "1. ",
            "#",
            "|",
            "\n|-|\n",
            "~~",
            "~~~\n",
            "[^",
            "[a]: ",
            "* > ",
            "\t",
            "(",
            ")",
            "<a '\">",
            "<![CDATA[",
        ] {
            let bomb = piece.repeat(64 * 1024 / piece.len());
            let events = Parser::new_ext(&bomb, MARKDOWN).count();
            assert!(events <= 4 * bomb.len() + 4, "{piece:?}: {events} events");
            let plain = to_plain(&bomb);
            assert!(plain.len() <= bomb.len(), "{piece:?}");
            assert!(plain.chars().all(is_shown), "{piece:?}");
        }
    }

    #[test]
    fn plain_text_conversion_takes_linear_time() {
        corpus::assert_linear(|text| to_plain(text).len());
    }

    #[test]
    fn markup_is_removed_and_words_remain() {
        for (markdown, plain) in [
            ("**Ship** on _Monday_, ~~Friday~~", "Ship on Monday, Friday"),
            ("# Plan\n\nText with `code`", "Plan\nText with code"),
            (
                "- one\n- two\n  - three\n\n1. four",
                "one\ntwo\nthree\nfour",
            ),
            ("- [x] done\n- [ ] open", "done\nopen"),
            (
                "see [the plan](https://a.example/b) ![a cat](cat.png)",
                "see the plan a cat",
            ),
            (
                "<https://a.example> and https://b.example",
                "https://a.example and https://b.example",
            ),
            ("```rust\nfn main() {}\n```\nafter", "fn main() {}\nafter"),
            ("> quoted\n\nanswer", "quoted\nanswer"),
            ("| a | b |\n|---|---|\n| 1 | 2 |", "a b\n1 2"),
            ("one\ntwo  \nthree", "one\ntwo\nthree"),
            ("a &amp; b &lt;c&gt;", "a & b <c>"),
            ("<b>bold</b> word", "bold word"),
            ("1 < 2 > 0", "1 < 2 > 0"),
            ("\\*as typed\\*", "*as typed*"),
            ("@vibe hello 👍", "@vibe hello 👍"),
            ("", ""),
        ] {
            assert_eq!(to_plain(markdown), plain, "{markdown:?}");
        }
    }

    #[test]
    fn a_message_that_shows_nothing_is_blank() {
        for case in corpus::table("blank.json") {
            let text = case["text"].as_str().unwrap();
            assert_eq!(read(text).is_blank, case["blank"], "{text:?}");
        }
    }

    #[test]
    fn text_that_would_become_blank_is_kept_as_typed() {
        assert_eq!(
            to_plain("[note]: https://a.example"),
            "[note]: https://a.example"
        );
        assert_eq!(to_plain("---\n"), "---");
    }

    proptest! {
        #![proptest_config(corpus::config(400))]

        #[test]
        fn plain_text_is_only_slightly_longer_than_its_markdown(
            markdown in "([-*_`>#\\[\\]()!|~<@:&;\\\\ \\n0-9a-zé👍]|&nGt;|```){0,80}",
        ) {
            prop_assert!(to_plain(&markdown).len() <= markdown.len() * 2 + 16);
        }

        #[test]
        fn plain_text_has_no_control_characters_and_a_bounded_length(
            markdown in corpus::mutated_text("markdown", "md", WORDS),
        ) {
            let plain = to_plain(&markdown);
            prop_assert!(plain.chars().all(is_shown), "{:?}", plain);
            prop_assert!(plain.len() <= markdown.len() * 2 + 16);
            prop_assert_eq!(plain.trim(), &plain);
        }

        #[test]
        fn plain_words_are_unchanged(words in "[a-zA-Z0-9é👍日,!?]{1,12}( [a-zA-Zé👍日,!?]{1,12}){0,12}") {
            prop_assert_eq!(to_plain(&words), words.as_str());
            prop_assert_eq!(to_plain(&to_plain(&words)), words.as_str());
        }

        #[test]
        fn html_tags_are_removed_completely_in_every_position_and_spelling(
            before in "([a-p]{1,4} ){0,3}",
            tag in "<(b|div|/div|a|script|svg)(\n| )(onclick|title)=(\"zq[ >\n]{0,1}zq\"|'zq>?zq'|zq) ?/?>",
            after in "( ?[a-p]{1,4}){1,3}",
        ) {
            let plain = to_plain(&format!("{before}{tag}{after}"));
            // A closing tag with attributes is not a tag, except at the start of a block.
            let is_tag = !tag.starts_with("</") || before.is_empty();
            prop_assert!(!is_tag || !plain.contains("zq"), "{:?}", plain);
            for word in before.split_whitespace() {
                prop_assert!(plain.contains(word), "{:?}", plain);
            }
        }
    }
}
