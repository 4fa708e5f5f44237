//! Markdown without its marks: for notifications, search and excerpts.
//!
//! Also says which Markdown a message is written in, so that every reader of it agrees.

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

/// `CommonMark` with tables, strike-through and task lists, as the web client shows it.
pub const MARKDOWN: Options = Options::ENABLE_TABLES
    .union(Options::ENABLE_STRIKETHROUGH)
    .union(Options::ENABLE_TASKLISTS);

/// The text that a reader sees, blocks on lines of their own. Never longer than `markdown`, except by
/// what character references stand for. A text that would come out blank (a lone link definition,
/// a rule) is given back as typed.
pub fn to_plain(markdown: &str) -> String {
    let mut out = String::with_capacity(markdown.len());
    for event in Parser::new_ext(markdown, MARKDOWN) {
        match event {
            Event::Text(text) | Event::Code(text) => out.push_str(&text),
            Event::Html(html) | Event::InlineHtml(html) => push_without_tags(&mut out, &html),
            Event::SoftBreak | Event::HardBreak => out.push('\n'),
            Event::Start(tag) if begins_line(&tag) => end_line(&mut out),
            Event::End(TagEnd::TableCell) => out.push(' '),
            Event::End(tag) if ends_line(tag) => end_line(&mut out),
            _ => {}
        }
    }
    match out.trim() {
        "" => markdown.trim().to_owned(),
        text => text.to_owned(),
    }
}

/// `TableCell`, `Item` and the like nest inside a block that ends the line.
fn begins_line(tag: &Tag<'_>) -> bool {
    matches!(
        tag,
        Tag::Paragraph | Tag::Heading { .. } | Tag::CodeBlock(_) | Tag::HtmlBlock | Tag::Item
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

fn push_without_tags(out: &mut String, html: &str) {
    let mut in_tag = false;
    for c in html.chars() {
        match c {
            '<' => in_tag = true,
            '>' if in_tag => in_tag = false,
            c if !in_tag => out.push(c),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn marks_go_and_words_stay() {
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
    fn what_would_come_out_blank_stays_as_typed() {
        assert_eq!(
            to_plain("[note]: https://a.example"),
            "[note]: https://a.example"
        );
        assert_eq!(to_plain("---\n"), "---");
    }

    proptest! {
        #[test]
        fn plain_text_is_hardly_longer_than_its_markdown(
            markdown in "([-*_`>#\\[\\]()!|~<@:&;\\\\ \\n0-9a-zé👍]|&nGt;|```){0,80}",
        ) {
            prop_assert!(to_plain(&markdown).len() <= markdown.len() * 2 + 16);
        }
    }
}
