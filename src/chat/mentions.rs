//! Mentions: finds `@handle` in a text and removes mentions from it.
//!
//! This module is pure: it does not know which handles exist, so a mention with `--` in it or `-` at its end has several candidates.
//! The rules of `CommonMark` apply to code, quotes, links, and escapes; for example, a line directly below a quote continues the quote.
//! `＠`, the full-width sign of East Asian input methods, is `@`.

use std::ops::Range;

use pulldown_cmark::{Event, Tag, TagEnd};

use super::reading::Reading;

/// Maximum length of a handle in characters.
pub const HANDLE_CHARS_MAX: usize = 64;
/// Handles that stand for the members of a channel.
pub const GROUPS: [&str; 3] = ["everyone", HERE, "channel"];

/// A range of a text, in UTF-16 code units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    pub start: usize,
    pub length: usize,
}

/// Handle of the group of people in a channel who have an open window.
pub const HERE: &str = "here";

/// An `@…`, which is a mention if one of its candidates is an existing handle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawMention {
    /// Offset of the `@`, in UTF-16 code units.
    pub start_utf16: usize,
    /// Lowercase handles, longest first; never empty. `@vibe-` can mean `vibe-` or `vibe`.
    pub candidates: Vec<String>,
}

impl RawMention {
    /// Returns the span of the `@` and the handle. `candidate` is the candidate that is an existing handle.
    pub fn span_of(&self, candidate: &str) -> Span {
        Span {
            start: self.start_utf16,
            length: 1 + candidate.len(),
        }
    }
}

/// Visibility of a byte of the source text to readers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seen {
    /// Markdown syntax.
    Mark,
    Text,
    /// Text of a link.
    Linked,
    /// Code, formulas, quotes, tags, and the brackets and the address of a link.
    Apart,
}

/// The characters that start a mention.
const SIGNS: [char; 2] = ['@', '＠'];

/// Returns every `@handle` in order, except inside a word, a package name, a path, an assignment, an email address, a URL, code, or a
/// block quote, and except after `\`. Runs in time linear in the length of `content`.
pub fn parse(content: &str) -> Vec<RawMention> {
    if !content.contains(SIGNS) {
        return Vec::new();
    }
    let seen = seen_by_reader(content);
    let urls = urls(content, &seen);
    let mut urls = urls.iter().peekable();
    let mut found = Vec::new();
    let (mut at_utf16, mut counted) = (0, 0);
    let mut last_end = None;
    for (at, sign) in content.match_indices(SIGNS) {
        while urls.next_if(|url| url.end <= at).is_some() {}
        let in_url = urls.peek().is_some_and(|url| url.start <= at);
        let is_apart = in_url || !is_readable(seen[at]);
        if is_apart || is_inside_word(content, &seen, at) || is_in_path(content, at, last_end) {
            continue;
        }
        let start = at + sign.len();
        let end = start + handle_length(content, &seen, start);
        if continues_word(&content[end..]) {
            continue;
        }
        let candidates = candidates(&content[start..end]);
        if !candidates.is_empty() {
            last_end = Some(end);
            at_utf16 += content[counted..at].encode_utf16().count();
            counted = at;
            found.push(RawMention {
                start_utf16: at_utf16,
                candidates,
            });
        }
    }
    found
}

fn is_readable(seen: Seen) -> bool {
    matches!(seen, Seen::Text | Seen::Linked)
}

/// Returns the visibility of each byte to a reader.
pub(super) fn seen_by_reader(content: &str) -> Vec<Seen> {
    let mut seen = vec![Seen::Mark; content.len()];
    let mut quotes = 0_usize;
    let mut code_blocks = 0_usize;
    let mut links = 0_usize;
    let reading = Reading::of(content);
    for (event, range) in reading.events() {
        let what = match event {
            Event::Start(Tag::BlockQuote(_)) => {
                quotes += 1;
                continue;
            }
            Event::End(TagEnd::BlockQuote(_)) => {
                quotes = quotes.saturating_sub(1);
                continue;
            }
            Event::Start(Tag::CodeBlock(_)) => {
                code_blocks += 1;
                Seen::Apart
            }
            Event::End(TagEnd::CodeBlock) => {
                code_blocks = code_blocks.saturating_sub(1);
                continue;
            }
            Event::Start(Tag::Link { .. } | Tag::Image { .. }) => {
                links += 1;
                Seen::Apart
            }
            Event::End(TagEnd::Link | TagEnd::Image) => {
                links = links.saturating_sub(1);
                continue;
            }
            Event::Code(_) | Event::InlineHtml(_) => Seen::Apart,
            Event::Text(_) if code_blocks > 0 || quotes > 0 => Seen::Apart,
            Event::Html(_) if quotes > 0 => Seen::Apart,
            Event::Text(_) if links > 0 => Seen::Linked,
            Event::Text(_) | Event::Html(_) => Seen::Text,
            _ => continue,
        };
        seen[range].fill(what);
    }
    for formula in reading.math() {
        seen[formula.clone()].fill(Seen::Apart);
    }
    seen
}

/// URLs in visible text. They begin with a scheme, with `www.`, or with a host name that is followed by a path. They end at white
/// space, at characters that are not allowed in URLs, at quotes and full-width punctuation, and at the edges of code and links
/// (`tests/corpus/links.json`).
fn urls(content: &str, seen: &[Seen]) -> Vec<Range<usize>> {
    let mut urls = Vec::new();
    let mut start = 0;
    let ends = content
        .char_indices()
        .filter(|(at, c)| seen[*at] == Seen::Apart || ends_url(*c));
    for (end, length) in ends
        .map(|(at, c)| (at, c.len_utf8()))
        .chain(std::iter::once((content.len(), 0)))
    {
        if let Some(offset) = url_start(&content[start..end]) {
            let length = content[start..end].trim_end_matches('…').len();
            urls.push(start + offset..start + length.max(offset));
        }
        start = end + length;
    }
    urls
}

/// Checks whether a URL in a text ends before this character.
pub fn ends_url(c: char) -> bool {
    c.is_whitespace()
        || matches!(c, '<' | '>' | '"' | '`' | '*' | '|' | '“' | '”' | '‘' | '’' | '«' | '»'
            | '\u{3000}'..='\u{303f}' | '\u{ff00}'..='\u{ffef}')
}

/// Offset of the URL in `run`, which contains no white space; `None` if there is no URL.
fn url_start(run: &str) -> Option<usize> {
    let bytes = run.as_bytes();
    let scheme = run.match_indices("://").find_map(|(at, _)| {
        let length = bytes[..at]
            .iter()
            .rev()
            .take(32)
            .take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'))
            .count();
        (length > 0).then(|| at - length)
    });
    let lead = run.len()
        - run
            .trim_start_matches(|c| {
                matches!(c, '(' | '[' | '{' | '\'' | '_' | '~' | '\u{3000}'..='\u{9fff}' | '\u{ac00}'..='\u{d7ff}')
            })
            .len();
    let rest = &run[lead..];
    let is_www = rest
        .get(..4)
        .is_some_and(|begin| begin.eq_ignore_ascii_case("www."));
    let host_length = rest
        .bytes()
        .take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b':'))
        .count();
    let host = &rest[..host_length];
    let name = host.split(':').next().unwrap_or_default();
    let is_host = name.eq_ignore_ascii_case("localhost")
        || name
            .rsplit_once('.')
            .is_some_and(|(domain, top)| !domain.is_empty() && top.len() >= 2);
    let has_path = rest[host_length..].starts_with('/');
    if is_www || (is_host && has_path) {
        Some(lead)
    } else {
        scheme
    }
}

/// Checks whether `[A-Za-z0-9_]` or a `\` precedes the sign. An underscore that is a mark of emphasis is not part of a word.
fn is_inside_word(content: &str, seen: &[Seen], at: usize) -> bool {
    let before = at.checked_sub(1);
    before.is_some_and(|before| match content.as_bytes()[before] {
        b'_' => seen[before] != Seen::Mark,
        b => b.is_ascii_alphanumeric() || b == b'\\',
    })
}

/// Checks whether the sign continues a path, such as `src/@vibe`. `last_end` is the end of the mention before it, because
/// `@coder/@vibe` mentions both.
fn is_in_path(content: &str, at: usize, last_end: Option<usize>) -> bool {
    let Some(word) = content[..at].strip_suffix('/') else {
        return false;
    };
    let is_word = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_');
    last_end != Some(word.len()) && word.ends_with(is_word)
}

fn handle_length(content: &str, seen: &[Seen], start: usize) -> usize {
    let bytes = content.as_bytes()[start..].iter().zip(&seen[start..]);
    bytes
        .take_while(|(b, seen)| match b {
            b'_' => **seen != Seen::Mark,
            b => b.is_ascii_alphanumeric() || **b == b'-',
        })
        .count()
}

/// Checks whether the text after a handle makes it a part of something else: a package name (`@a/b`), an address (`@a.b`, `@a@b`), an
/// assignment (`@a=b`), a port (`@a:1`), or a longer word. `@vibé` does not mention `vib`, but `@vibe你好` mentions `vibe`, because such
/// scripts are written without spaces.
fn continues_word(rest: &str) -> bool {
    let mut rest = rest.chars();
    let (Some(first), second) = (rest.next(), rest.next()) else {
        return false;
    };
    match first {
        '/' => !second.is_some_and(|c| SIGNS.contains(&c)),
        '.' | '@' | '＠' => second.is_some_and(|c| c.is_ascii_alphanumeric()),
        '=' => true,
        ':' => second.is_some_and(|c| c.is_ascii_digit()),
        '\u{aa}'..='\u{52f}' | '\u{1e00}'..='\u{1fff}' => {
            first.is_alphanumeric() || matches!(first, '\u{300}'..='\u{36f}')
        }
        _ => false,
    }
}

/// Possible handles, longest first. Hyphens at the end can be punctuation, and so can what follows two of them; a `_` belongs to the
/// word.
fn candidates(handle: &str) -> Vec<String> {
    if !handle.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        return Vec::new();
    }
    let mut ends: Vec<usize> = handle.match_indices("--").map(|(at, _)| at).collect();
    ends.extend(handle.trim_end_matches('-').len()..=handle.len());
    ends.retain(|end| *end <= HANDLE_CHARS_MAX);
    ends.sort_unstable_by(|a, b| b.cmp(a));
    ends.dedup();
    ends.into_iter()
        .map(|end| handle[..end].to_ascii_lowercase())
        .collect()
}

/// Removes mentions and the white space around them; the rest is the prompt of a task. Spans
/// outside the text are skipped. Runs in time linear in the length of `content`, after sorting the
/// spans.
pub fn without(content: &str, spans: &[Span]) -> String {
    let mut out = String::with_capacity(content.len());
    let mut done = 0;
    let bytes = content.as_bytes();
    for cut in byte_ranges(content, spans) {
        if cut.start < done {
            continue;
        }
        // Emphasis that contains only the mention is removed too: `**@vibe** hi`.
        let (mut start, mut end) = (cut.start, cut.end);
        while start > done
            && matches!(bytes[start - 1], b'*' | b'_' | b'~')
            && bytes.get(end) == Some(&bytes[start - 1])
        {
            start -= 1;
            end += 1;
        }
        out.push_str(&content[done..start]);
        done = end;
        let rest = &content[done..];
        let before = out.trim_end_matches([' ', '\t']);
        if before.is_empty() || before.ends_with('\n') {
            let comma = rest
                .strip_prefix([',', ':'])
                .filter(|r| r.starts_with(char::is_whitespace));
            done = content.len() - comma.unwrap_or(rest).trim_start_matches([' ', '\t']).len();
        } else if rest.starts_with([',', '.', ';', ':', '!', '?', '\n']) || rest.trim().is_empty() {
            out.truncate(before.len());
        } else if before.len() < out.len() {
            done = content.len() - rest.trim_start_matches([' ', '\t']).len();
        }
    }
    out.push_str(&content[done..]);
    out.trim().to_owned()
}

/// Byte ranges of the spans, sorted by start; spans outside the text are skipped.
fn byte_ranges(content: &str, spans: &[Span]) -> Vec<Range<usize>> {
    let mut marks: Vec<usize> = spans
        .iter()
        .flat_map(|span| [Some(span.start), span.start.checked_add(span.length)])
        .flatten()
        .collect();
    marks.sort_unstable();
    marks.dedup();
    // Byte offsets of the marks that are on a character boundary.
    let mut places: Vec<(usize, usize)> = Vec::with_capacity(marks.len());
    let mut marks = marks.into_iter().peekable();
    let mut units = 0;
    let characters = content.char_indices().map(|(at, c)| (at, c.len_utf16()));
    for (at, length) in characters.chain([(content.len(), 1)]) {
        while let Some(mark) = marks.next_if(|mark| *mark <= units) {
            if mark == units {
                places.push((mark, at));
            }
        }
        units += length;
    }
    let place = |mark: usize| {
        let found = places.binary_search_by_key(&mark, |(units, _)| *units);
        found.ok().map(|n| places[n].1)
    };
    let mut ranges: Vec<Range<usize>> = spans
        .iter()
        .filter_map(|span| Some(place(span.start)?..place(span.start.checked_add(span.length)?)?))
        .collect();
    ranges.sort_by_key(|range| range.start);
    ranges
}

#[cfg(test)]
mod tests {

    use proptest::prelude::*;
    use pulldown_cmark::Parser;

    use super::*;
    use crate::{chat::reading::MARKDOWN, corpus};

    /// Handles that exist in the tests.
    const KNOWN: &[&str] = &[
        "vibe", "coder", "bo", "ada", "here", "channel", "everyone", "main",
    ];
    const WORDS: &[&str] = &[
        "@", "@vibe", " @coder ", "@Bo", "`", "```\n", "> ", "\n", "\n\n", "    ", "[", "](", ")",
        "<", ">", "://", "www.", ".", "\\", "_", "-", "*", "é", "👍", "，", "<b>", "<!--", "- ",
        "|",
    ];

    /// Mentions of existing handles, in order.
    fn known(content: &str) -> Vec<(Span, String)> {
        let is_known =
            |name: &&String| KNOWN.contains(&name.as_str()) || name.len() == HANDLE_CHARS_MAX;
        let named = |raw: RawMention| {
            let name = raw.candidates.iter().find(is_known)?;
            Some((raw.span_of(name), name.clone()))
        };
        parse(content).into_iter().filter_map(named).collect()
    }

    /// Ranges that are not visible text: code and inline HTML.
    fn apart(content: &str) -> Vec<Range<usize>> {
        let mut apart = Vec::new();
        let mut is_code = false;
        for (event, range) in Parser::new_ext(content, MARKDOWN).into_offset_iter() {
            match event {
                Event::Start(Tag::CodeBlock(_)) => is_code = true,
                Event::End(TagEnd::CodeBlock) => is_code = false,
                Event::Text(_) if is_code => apart.push(range),
                Event::Code(_) | Event::InlineHtml(_) => apart.push(range),
                _ => {}
            }
        }
        apart
    }

    #[test]
    fn every_corpus_text_has_the_expected_mentions() {
        for case in corpus::cases("mentions", "md") {
            let lines = known(case.text())
                .into_iter()
                .map(|(span, name)| format!("{} {} {name}\n", span.start, span.length));
            case.expect(&lines.collect::<String>());
        }
    }

    #[test]
    fn addresses_end_before_the_punctuation_of_their_script() {
        for case in corpus::table("links.json") {
            let text = case["text"].as_str().unwrap();
            let urls = urls(text, &seen_by_reader(text));
            // Punctuation at the end of an address matters only on the screen.
            let found: Vec<&str> = urls
                .into_iter()
                .map(|url| text[url].trim_end_matches([',', '.']))
                .collect();
            assert_eq!(serde_json::json!(found), case["links"], "{text:?}");
        }
    }

    fn handles(content: &str) -> Vec<String> {
        parse(content)
            .into_iter()
            .map(|mention| mention.candidates.join("|"))
            .collect()
    }

    #[test]
    fn a_handle_after_an_at_sign_is_a_mention() {
        for (content, wanted) in [
            ("@vibe", vec!["vibe"]),
            ("hello @Vibe!", vec!["vibe"]),
            ("@vibe,@coder", vec!["vibe", "coder"]),
            ("@vibe's turn", vec!["vibe"]),
            ("(@vibe) \"@coder\"", vec!["vibe", "coder"]),
            ("**@vibe** *@coder* ~~@bo~~", vec!["vibe", "coder", "bo"]),
            ("你好@vibe你好", vec!["vibe"]),
            ("@vibe. @coder: ok", vec!["vibe", "coder"]),
            ("@vibe- @coder_", vec!["vibe-|vibe", "coder_"]),
            ("/@vibe", vec!["vibe"]),
            ("/@vibe decide", vec!["vibe"]),
            ("_@vibe_ x_@vibe", vec!["vibe"]),
            ("@a--", vec!["a--|a-|a"]),
            ("@a--b", vec!["a--b|a"]),
            ("@vibe/@coder", vec!["vibe", "coder"]),
            ("- @vibe\n- @coder", vec!["vibe", "coder"]),
            ("# @vibe", vec!["vibe"]),
            (
                "| a | @vibe |\n|---|---|\n| @coder | b |",
                vec!["vibe", "coder"],
            ),
            (
                "[@vibe](https://example.org/@no) @coder",
                vec!["vibe", "coder"],
            ),
            ("see https://example.org/a @vibe", vec!["vibe"]),
            ("https://example.org，@vibe", vec!["vibe"]),
            ("> quote\n\n@vibe answer", vec!["vibe"]),
            ("```\ncode\n```\n@vibe", vec!["vibe"]),
            ("`@no` @vibe", vec!["vibe"]),
            ("`@vibe and no end", vec!["vibe"]),
            ("[Bo]: @vibe what speaks for Monday?", vec!["vibe"]),
            ("@@vibe", vec!["vibe"]),
            ("👍@vibe", vec!["vibe"]),
            ("line\r\n@vibe", vec!["vibe"]),
            ("<b>@vibe</b>", vec!["vibe"]),
        ] {
            assert_eq!(handles(content), wanted, "{content:?}");
        }
    }

    #[test]
    fn an_at_sign_elsewhere_is_plain_text() {
        for content in [
            "ada@vibe.example",
            "ada_@vibe",
            "ada.@vibe.example",
            "@vibe@example.org",
            "<ada@vibe.example>",
            "https://example.org/@vibe",
            "(https://example.org/@vibe)",
            "HTTPS://EXAMPLE.ORG/_a_/@vibe",
            "www.example.org/@vibe",
            "example.org/@vibe",
            "localhost:3000/@vibe",
            "<https://example.org/@vibe>",
            "[x](https://example.org/@vibe)",
            "[x](/@vibe \"for @vibe\")",
            "[x]: https://example.org/@vibe",
            "`@vibe`",
            "``a ` @vibe``",
            "    @vibe",
            "```\n@vibe\n```",
            "~~~\n@vibe",
            "- item\n\n  ```\n  @vibe",
            "> @vibe",
            "> quote\n@vibe goes on with the quote",
            "> - @vibe",
            "\\@vibe",
            "\\\\@vibe",
            "@",
            "@-vibe",
            "@_vibe",
            "@vibé",
            "@ vibe",
            "<a href=\"@vibe\">x</a>",
        ] {
            assert_eq!(handles(content), Vec::<String>::new(), "{content:?}");
        }
        let long = "a".repeat(65);
        assert_eq!(parse(&format!("@{long}")), []);
        assert_eq!(handles(&format!("@{}", &long[1..])), [&long[1..]]);
        assert_eq!(
            handles(&format!("@{}--", &long[2..])),
            [format!("{0}-|{0}", &long[2..])]
        );
    }

    #[test]
    fn offsets_count_utf16_code_units() {
        let content = "👍é @Vibe_ and 👍 @coder";
        let mentions = parse(content);
        assert_eq!(
            mentions[0].span_of("vibe"),
            Span {
                start: 4,
                length: 5
            }
        );
        assert_eq!(
            mentions[0].span_of("vibe_"),
            Span {
                start: 4,
                length: 6
            }
        );
        assert_eq!(
            mentions[1].span_of("coder"),
            Span {
                start: 18,
                length: 6
            }
        );
    }

    #[test]
    fn the_prompt_is_the_text_without_the_mention() {
        for (content, wanted) in [
            ("@vibe what is 2+2?", "what is 2+2?"),
            ("hey @vibe can you", "hey can you"),
            ("can you, @vibe?", "can you,?"),
            ("thanks @vibe, go on", "thanks, go on"),
            ("@vibe, go on", "go on"),
            ("@vibe: go on", "go on"),
            ("hello\n@vibe go\n    on", "hello\ngo\n    on"),
            ("go @vibe\non", "go\non"),
            ("go on @vibe", "go on"),
            ("(@vibe) go", "() go"),
            ("ask@ @vibe", "ask@"),
            ("@vibe @vibe go", "go"),
            ("go  @vibe  on @vibe", "go  on"),
            ("@vibe", ""),
            ("**@vibe** hi", "hi"),
            ("ask *@vibe* and ***@vibe***", "ask and"),
        ] {
            let spans: Vec<Span> = parse(content).iter().map(|m| m.span_of("vibe")).collect();
            assert_eq!(without(content, &spans), wanted, "{content:?}");
        }
    }

    #[test]
    fn spans_that_do_not_fit_are_ignored() {
        let odd =
            [(1, 3), (0, 1), (9, 1), (usize::MAX, 2)].map(|(start, length)| Span { start, length });
        assert_eq!(without("👍 a", &odd), "👍 a");
    }

    #[test]
    fn mentions_are_found_in_linear_time() {
        corpus::assert_linear(|text| {
            let mentions = parse(text);
            let spans: Vec<Span> = mentions.iter().map(|m| m.span_of("a")).collect();
            without(text, &spans).len()
        });
    }

    #[test]
    fn the_longest_message_is_parsed_whatever_it_contains() {
        for piece in [
            "@", "`", ">", "[", "](", "*", "_", "<", "\\", "@a", "@a ", "```\n", "> ", "a://",
            "www.", "[a]: ", "a.@", "@a-", "@a@a.", "- ", "![", "<!--", "**a", "~~", "|",
            "\n|-|\n", "&", "\t", "a/@a", "*a_ ", "`a``", "1. ", "> @a\n", "[a](<b", "<?", "<!A ",
        ] {
            let content = piece.repeat(32 * 1024 / piece.len());
            let mentions = parse(&content);
            let spans: Vec<Span> = mentions.iter().map(|m| m.span_of("a")).collect();
            assert!(
                spans
                    .iter()
                    .all(|span| content[span.start..].starts_with('@')),
                "{piece:?}"
            );
            assert!(without(&content, &spans).len() <= content.len());
            assert!(super::super::plain::to_plain(&content).len() <= 2 * content.len());
        }
    }

    proptest! {
        #![proptest_config(corpus::config(400))]

        #[test]
        fn a_mention_is_in_the_visible_text_and_starts_with_an_at_sign(
            content in prop_oneof![
                corpus::mutated_text("mentions", "md", WORDS),
                corpus::mutated_text("markdown", "md", WORDS),
            ],
        ) {
            let units: Vec<u16> = content.encode_utf16().collect();
            let apart = apart(&content);
            let mut last = 0;
            for mention in parse(&content) {
                prop_assert!(mention.start_utf16 >= last);
                for candidate in &mention.candidates {
                    let span = mention.span_of(candidate);
                    let slice = String::from_utf16(&units[span.start..span.start + span.length]).unwrap();
                    let slice = slice.replace('＠', "@");
                    prop_assert_eq!(slice.to_lowercase(), format!("@{candidate}"));
                    last = span.start + 1;
                    let range = byte_ranges(&content, &[span]).remove(0);
                    prop_assert!(
                        apart.iter().all(|other| range.end <= other.start || other.end <= range.start),
                        "{:?} in {:?}", candidate, content
                    );
                }
            }
        }

        #[test]
        fn a_mention_on_its_own_is_found(
            content in corpus::mutated_text("mentions", "md", WORDS),
        ) {
            for (span, name) in known(&content) {
                let again = known(&format!("@{name}"));
                prop_assert_eq!(again, vec![(Span { start: 0, length: span.length }, name)]);
            }
        }

        #[test]
        fn a_text_without_its_mentions_is_the_text_between_them(
            content in corpus::mutated_text("mentions", "md", WORDS),
            odd in prop::collection::vec((0..200_usize, 0..20_usize), 0..4),
        ) {
            let spans: Vec<Span> = known(&content).into_iter().map(|(span, _)| span).collect();
            let rest = without(&content, &spans);
            prop_assert!(rest.len() <= content.len());
            let (mut kept, mut done) = (String::new(), 0);
            for range in byte_ranges(&content, &spans) {
                kept.push_str(&content[done..range.start]);
                done = range.end;
            }
            kept.push_str(&content[done..]);
            let letters = |text: &str| text.chars().filter(|c| c.is_alphanumeric()).collect::<String>();
            prop_assert_eq!(letters(&rest), letters(&kept));
            // Arbitrary spans remove only whole characters and do not panic.
            let odd: Vec<Span> = odd.into_iter().map(|(start, length)| Span { start, length }).collect();
            prop_assert!(without(&content, &odd).len() <= content.len());
        }
    }
}
