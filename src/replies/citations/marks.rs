//! Marks such as `[S1]` in a reply, and the sentences that they belong to.

use std::{ops::Range, sync::LazyLock};

use openvibe_extract::{keywords, sentence_ranges};
use pulldown_cmark::{Event, LinkType, Parser, Tag, TagEnd};
use regex::Regex;

use crate::chat::reading::MARKDOWN;

/// Maximum number of marks that are read; additional ones are removed.
const MARKS_MAX: usize = 500;

static MARKS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let mark = mark_pattern();
    let numbers = r"\[\d{1,3}(?:\s*[,;–-]\s*\d{1,3})*\]";
    Regex::new(&format!(r"(?i){mark}(?:\s*[,;]\s*{mark})*|{numbers}")).ok()
});
static MARK: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(&format!("(?i)^{}$", mark_pattern())).ok());
static HANDLES: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"(?i)\b([SFP])0*(\d{1,6})\b").ok());

/// Returns the pattern of a mark with handles.
fn mark_pattern() -> String {
    let handles = r"[SFP]\d{1,6}(?:\s*(?:[,;&–-]|and|und|et|y)\s*[SFP]\d{1,6})*";
    // Some models write a name after the handle.
    format!(r"[\[【]\s*{handles}(?:\s*[:|][^\[\]\n]{{0,80}})?\s*[\]】]")
}

/// Returns the distinct handles of a text that is a single mark, such as `[S1, S2]`. Empty for any other text.
pub fn handles_of(mark: &str) -> Vec<String> {
    let is_mark = MARK.as_ref().is_some_and(|pattern| pattern.is_match(mark));
    if is_mark {
        handles_in(mark, usize::MAX)
    } else {
        Vec::new()
    }
}

/// A mark in the text of a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mark {
    range: Range<usize>,
    /// Distinct handles in uppercase; empty for a number that the model wrote.
    handles: Vec<String>,
    /// Position of the sentence to which the mark belongs.
    sentence: usize,
}

/// The text of a reply, its marks, and the sentences to which the marks belong. The sentences do not contain the marks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Marked {
    text: String,
    marks: Vec<Mark>,
    sentences: Vec<String>,
}

/// A text with `[n]` in place of marks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Numbered<Place> {
    pub(super) text: String,
    /// Cited places; the place of `[n]` is at `n - 1`.
    pub(super) cited: Vec<Place>,
    /// Number of removed citations.
    pub(super) removed: usize,
}

/// A text in which numbers were written or removed.
#[derive(Debug, Default)]
struct Written {
    text: String,
    /// Number of removed numbers that the model wrote.
    removed: usize,
}

/// A line without its marks, and each mark's position in it.
struct Line {
    plain: String,
    at: Vec<usize>,
    sentences: Vec<Range<usize>>,
}

impl Line {
    fn of(text: &str, line: Range<usize>, marks: &[(Range<usize>, Vec<String>)]) -> Self {
        let (mut plain, mut at, mut from) = (String::new(), Vec::new(), line.start);
        for (range, _) in marks {
            // Asterisks are removed, because bold text can hide the end of a sentence.
            plain.push_str(&text[from..range.start].trim_end().replace("**", ""));
            at.push(plain.len());
            from = range.end;
        }
        plain.push_str(&text[from..line.end].replace("**", ""));
        let sentences = sentence_ranges(&plain);
        Self {
            plain,
            at,
            sentences,
        }
    }

    /// Returns the sentence that contains or precedes a mark, or the next sentence if the mark is at the start of a line. Includes
    /// the sentence before it if the sentence is as short as "Source:" or continues in lowercase after an abbreviation.
    fn sentence(&self, at: usize, last: &str) -> String {
        let text = |range: &Range<usize>| without_list_number(&self.plain[range.clone()]);
        let is_told = |range: &Range<usize>| text(range).contains(char::is_alphabetic);
        let before = self
            .sentences
            .iter()
            .rposition(|range| range.start < at && is_told(range));
        let after = || {
            self.sentences
                .iter()
                .position(|range| range.start >= at && is_told(range))
        };
        let Some(found) = before
            .or_else(after)
            .or(self.sentences.len().checked_sub(1))
        else {
            return last.to_owned();
        };
        let own = text(&self.sentences[found]);
        if !own.contains(char::is_alphanumeric) {
            return last.to_owned();
        }
        let earlier = found
            .checked_sub(1)
            .map_or(last, |at| text(&self.sentences[at]));
        let is_continued = own.starts_with(char::is_lowercase) && ends_short(earlier);
        let says_little = || keywords(own).len() < 2 && !own.contains(|c: char| c.is_ascii_digit());
        if !is_continued && !says_little() {
            return own.to_owned();
        }
        format!("{earlier} {own}").trim().to_owned()
    }
}

/// Checks whether `text` ends with an abbreviation, such as "9 a.m." or "approx.".
fn ends_short(text: &str) -> bool {
    let word = text.rsplit(char::is_whitespace).next().unwrap_or_default();
    let stem = word.trim_end_matches('.');
    word.ends_with('.') && (stem.contains('.') || stem.chars().count() <= 3)
}

/// Returns a line or sentence without the number of its list item or table row.
fn without_list_number(text: &str) -> &str {
    let start = text.trim_start_matches(|c: char| c.is_whitespace() || "#>*+-|".contains(c));
    let rest = start.trim_start_matches(|c: char| c.is_ascii_digit());
    let digits = start.len() - rest.len();
    let is_row = text.starts_with('|') && rest.trim_start().starts_with('|');
    let is_entry = rest.starts_with([')', '.']) && rest[1..].starts_with(char::is_whitespace);
    if (1..=3).contains(&digits) && (is_row || is_entry) {
        rest.trim_start().get(1..).unwrap_or_default().trim_start()
    } else {
        text
    }
}

/// Returns the ranges of code, links, and images in `text`, in order.
fn code_spans(text: &str) -> Vec<Range<usize>> {
    let parser = Parser::new_ext(text, MARKDOWN);
    let code = parser.into_offset_iter().filter_map(|(event, range)| {
        let is_code = match event {
            // A mark can look like the label of a reference link, so such links do not count.
            Event::Start(Tag::Link { link_type, .. } | Tag::Image { link_type, .. }) => {
                matches!(
                    link_type,
                    LinkType::Inline | LinkType::Autolink | LinkType::Email
                )
            }
            event => matches!(event, Event::Code(_) | Event::Start(Tag::CodeBlock(_))),
        };
        is_code.then_some(range)
    });
    let mut spans: Vec<Range<usize>> = Vec::new();
    for range in code {
        // Code can be inside a link.
        if spans.last().is_none_or(|span| span.end <= range.start) {
            spans.push(range);
        }
    }
    spans
}

impl Marked {
    /// Finds the marks in `text` that are outside of code, links, and images. Handles after the first `handles_max` are removed.
    pub(super) fn of(text: String, handles_max: usize) -> Self {
        let mut marked = Self::default();
        let Some(marks) = MARKS.as_ref().filter(|marks| marks.is_match(&text)) else {
            marked.text = text;
            return marked;
        };
        let spans = code_spans(&text);
        let is_code = |at: usize| {
            let after = spans.partition_point(|span| span.start <= at);
            spans[..after].last().is_some_and(|span| span.contains(&at))
        };
        let mut last = String::new();
        let mut start = 0;
        for row in text.split_inclusive('\n') {
            let line = start..start + row.trim_end().len();
            start += row.len();
            let found = marks.find_iter(&text[line.clone()]).map(|found| {
                let range = line.start + found.start()..line.start + found.end();
                (range, handles_in(found.as_str(), handles_max))
            });
            let found: Vec<(Range<usize>, Vec<String>)> =
                found.filter(|(range, _)| !is_code(range.start)).collect();
            let shown = Line::of(&text, line, &found);
            for ((range, handles), at) in found.into_iter().zip(&shown.at) {
                marked.add(range, handles, || shown.sentence(*at, &last));
            }
            let own = shown.sentence(usize::MAX, "");
            if !own.is_empty() {
                last = own;
            }
        }
        marked.limit_handles(handles_max);
        marked.text = text;
        marked
    }

    /// Adds a mark in a sentence. If there are already `MARKS_MAX` marks, its handles are removed, and it belongs to the last
    /// sentence.
    fn add(
        &mut self,
        range: Range<usize>,
        mut handles: Vec<String>,
        sentence: impl FnOnce() -> String,
    ) {
        if self.marks.len() >= MARKS_MAX {
            handles.fill(String::new());
        } else {
            let sentence = sentence();
            if self.sentences.last() != Some(&sentence) {
                self.sentences.push(sentence);
            }
        }
        self.marks.push(Mark {
            range,
            handles,
            sentence: self.sentences.len() - 1,
        });
    }

    /// Removes handles after the first `handles_max` distinct ones.
    fn limit_handles(&mut self, handles_max: usize) {
        let mut known: Vec<String> = Vec::new();
        for mark in &mut self.marks {
            for handle in &mut mark.handles {
                if !known.contains(handle) {
                    if known.len() == handles_max {
                        handle.clear();
                        continue;
                    }
                    known.push(handle.clone());
                }
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.marks.is_empty()
    }

    /// Returns the start of each mark, its handles, and the position of its sentence.
    pub(super) fn places(&self) -> impl Iterator<Item = (usize, &[String], usize)> {
        let marks = self.marks.iter();
        marks.map(|mark| (mark.range.start, mark.handles.as_slice(), mark.sentence))
    }

    /// Returns the distinct handles in order of appearance.
    pub(super) fn handles(&self) -> Vec<&str> {
        let mut handles: Vec<&str> = Vec::new();
        for handle in self.marks.iter().flat_map(|mark| &mark.handles) {
            if !handle.is_empty() && !handles.contains(&handle.as_str()) {
                handles.push(handle);
            }
        }
        handles
    }

    /// Returns the sentences that have marks, each with its distinct handles.
    pub(super) fn sentences(&self) -> Vec<(&str, Vec<&str>)> {
        let texts = self.sentences.iter().map(String::as_str);
        let mut sentences: Vec<(&str, Vec<&str>)> = texts.map(|text| (text, Vec::new())).collect();
        for mark in &self.marks {
            let handles = &mut sentences[mark.sentence].1;
            for handle in &mark.handles {
                if !handles.contains(&handle.as_str()) {
                    handles.push(handle);
                }
            }
        }
        sentences
    }

    /// Replaces marks with numbers, in order of appearance. `source` returns the place that a handle cites in a sentence; citations
    /// without a place are removed. A number that the model wrote is removed if it could be mistaken for a citation.
    pub(super) fn numbered<Place: PartialEq>(
        &self,
        source: impl Fn(usize, &str) -> Option<Place>,
    ) -> Numbered<Place> {
        let mut result = Numbered {
            text: String::new(),
            cited: Vec::new(),
            removed: 0,
        };
        let mut cited: Vec<Vec<usize>> = Vec::new();
        for mark in &self.marks {
            let mut numbers = Vec::new();
            for handle in &mark.handles {
                let Some(place) = source(mark.sentence, handle) else {
                    result.removed += 1;
                    continue;
                };
                let known = result.cited.iter().position(|known| *known == place);
                let n = known.unwrap_or_else(|| {
                    result.cited.push(place);
                    result.cited.len() - 1
                });
                if !numbers.contains(&(n + 1)) {
                    numbers.push(n + 1);
                }
            }
            cited.push(numbers);
        }
        let mut written = self.written(&cited, result.cited.len(), false);
        if has_numbered_link(&written.text) {
            written = self.written(&cited, result.cited.len(), true);
        }
        result.text = written.text;
        result.removed += written.removed;
        result
    }

    /// Returns the text with these numbers in place of the marks. Bracketed numbers up to `count` that the model wrote are removed.
    fn written(&self, cited: &[Vec<usize>], count: usize, is_escaped: bool) -> Written {
        let mut result = Written::default();
        let mut from = 0;
        for (mark, numbers) in self.marks.iter().zip(cited) {
            if mark.handles.is_empty() {
                let groups = self.text[mark.range.clone()].split(|c: char| !c.is_ascii_digit());
                let mut numbers = groups.filter_map(|group| group.parse::<usize>().ok());
                if !numbers.any(|n| (1..=count).contains(&n)) {
                    continue;
                }
                result.removed += 1;
            }
            let mut range = mark.range.clone();
            if numbers.is_empty() {
                range = without_traces(&self.text, range);
            }
            result
                .text
                .push_str(&self.text[from..range.start.max(from)]);
            let marks = numbers.iter().map(|n| {
                if is_escaped {
                    format!("\\[{n}\\]")
                } else {
                    format!("[{n}]")
                }
            });
            result.text.push_str(&marks.collect::<Vec<_>>().join(" "));
            from = range.end.max(from);
        }
        result.text.push_str(&self.text[from..]);
        result
    }

    /// Ignores marks with handles of files or passages, which can have another meaning in the text, as in `Press [F5]`.
    pub(super) fn without_files(mut self) -> Self {
        let is_file = |handle: &String| handle.starts_with(['F', 'P']);
        self.marks
            .retain(|mark| mark.handles.is_empty() || !mark.handles.iter().all(is_file));
        self
    }
}

/// Returns the handles of a mark in uppercase, without leading zeros.
fn handles_in(mark: &str, max: usize) -> Vec<String> {
    let mut handles: Vec<String> = Vec::new();
    for found in HANDLES
        .as_ref()
        .into_iter()
        .flat_map(|all| all.captures_iter(mark))
    {
        let handle = format!("{}{}", found[1].to_uppercase(), &found[2]);
        if handles.len() <= max && !handles.contains(&handle) {
            handles.push(handle);
        }
    }
    handles
}

/// Checks whether a number in brackets is a link or the label of one.
fn has_numbered_link(text: &str) -> bool {
    let is_number = |name: &str| !name.is_empty() && name.bytes().all(|b| b.is_ascii_digit());
    let parser = Parser::new_ext(text, MARKDOWN);
    if parser
        .reference_definitions()
        .iter()
        .any(|(name, _)| is_number(name))
    {
        return true;
    }
    let mut label: Option<String> = None;
    for event in parser {
        match event {
            Event::Start(Tag::Link { .. } | Tag::Image { .. }) => label = Some(String::new()),
            Event::Text(text) => label.iter_mut().for_each(|label| label.push_str(&text)),
            Event::End(TagEnd::Link | TagEnd::Image)
                if label.take().is_some_and(|label| is_number(label.trim())) =>
            {
                return true;
            }
            _ => {}
        }
    }
    false
}

/// Extends the range of a mark that will be removed, so that it includes the spaces before it and brackets that contain
/// nothing else.
fn without_traces(text: &str, range: Range<usize>) -> Range<usize> {
    let (mut start, mut end) = (range.start, range.end);
    for _ in 0..3 {
        for (open, close) in [("(", ")"), ("[", "]"), ("**", "**")] {
            let before = text[..start].trim_end_matches(' ');
            let after = text[end..].trim_start_matches(' ');
            if before.ends_with(open) && after.starts_with(close) {
                start = before.len() - open.len();
                end = text.len() - after.len() + close.len();
            }
        }
    }
    let before = text[..start].trim_end_matches([' ', '\t']);
    let is_line_start = before.is_empty() || before.ends_with('\n');
    let ends_word = text[end..]
        .chars()
        .next()
        .is_none_or(|c| !c.is_alphanumeric());
    if is_line_start {
        end = text.len() - text[end..].trim_start_matches(' ').len();
    } else if ends_word {
        start = before.len();
    }
    start..end
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::MessageId;

    fn marked(text: &str) -> Marked {
        Marked::of(text.to_owned(), 64)
    }

    /// Numbers all handles that start with `S`.
    fn numbered(text: &str) -> Numbered<MessageId> {
        let messages: Vec<MessageId> = (0..10).map(|_| MessageId::new()).collect();
        marked(text).numbered(|_, handle| {
            let number: usize = handle.strip_prefix('S')?.parse().ok()?;
            messages.get(number).copied()
        })
    }

    #[test]
    fn a_mark_belongs_to_the_sentence_that_it_is_in_or_follows() {
        for (text, wanted) in [
            ("Pears won. Plums lost [S1].", "Plums lost."),
            ("Pears won. Plums lost. [S1]", "Plums lost."),
            ("Pears won. [S1] Plums lost.", "Pears won."),
            ("[S1] Pears won. Plums lost.", "Pears won."),
            ("- [S1] Pears won.", "- Pears won."),
            ("1. [S1] Pears won.", "Pears won."),
            ("2. Pears won. [S1]", "Pears won."),
            ("Pears won.\n[S1]", "Pears won."),
            ("Pears won.\n\n[S1]\nPlums lost.", "Pears won."),
            (
                "Pears (the green ones [S1]) won.",
                "Pears (the green ones) won.",
            ),
            ("| pears | won [S1] |", "| pears | won |"),
            ("**42** [S1]", "42"),
            ("**Pears won.** Plums lost. [S1]", "Plums lost."),
            (
                "Pears won in June.\n(Source: [S1])",
                "Pears won in June. (Source:)",
            ),
            ("Pears won in June. Yes [S1].", "Pears won in June. Yes."),
            (
                "Pears won at 9 a.m. on the coast [S1].",
                "Pears won at 9 a.m. on the coast.",
            ),
            ("| 1 | Pears won | 40 [S1] |", "Pears won | 40 |"),
            ("2) pears won again [S1]", "pears won again"),
            ("[S1]", ""),
        ] {
            let marked = marked(text);
            assert_eq!(marked.sentences, [wanted], "{text}");
        }
    }

    #[test]
    fn handles_are_read_in_every_form() {
        let text = "a [S1, s2; F3] b [S1][S4] c 【s5】 d [S1]";
        assert_eq!(marked(text).handles(), ["S1", "S2", "F3", "S4", "S5"]);
        assert_eq!(Marked::of("a [S1] b [S2] [S1]".into(), 1).handles(), ["S1"]);
        for text in ["[S01, S1]", "[S1: Ada, #ops]", "[ s1 ]", "[S1], [S1]"] {
            assert_eq!(marked(text).handles(), ["S1"], "{text}");
        }
        for text in ["[S1-S3]", "[S1 and S3]", "[S1; S3]", "[S1 & S3]"] {
            assert_eq!(marked(text).handles(), ["S1", "S3"], "{text}");
        }
        let many: Vec<String> = (0..40_000).map(|n| format!("S{n}")).collect();
        assert_eq!(marked(&format!("[{}]", many.join(","))).handles().len(), 64);
    }

    #[test]
    fn code_links_and_indexes_have_no_marks() {
        for text in [
            "`a [S1]`",
            "```\na [S1]\n```",
            "a [S1](https://example.com)",
            "![S1](https://example.com/a.png)",
            "see [the list [S1]](https://example.com)",
            "[S] and [S3 bucket]",
            "no marks",
        ] {
            assert_eq!(marked(text).marks, [], "{text}");
            assert_eq!(numbered(text).text, text);
        }
    }

    #[test]
    fn marks_become_numbers_in_their_order() {
        let result = numbered("Pears [S4], plums [S2, S4] and figs ([S4]).");
        assert_eq!(result.text, "Pears [1], plums [2] [1] and figs ([1]).");
        assert_eq!((result.cited.len(), result.removed), (2, 0));
    }

    #[test]
    fn removed_marks_leave_no_traces() {
        for (text, wanted) in [
            ("Pears [F1].", "Pears."),
            ("Pears ([F1]) won.", "Pears won."),
            ("Pears ( [F1] ).", "Pears."),
            ("Pears [F1] won [F2, F3]", "Pears won"),
            ("[F1] Pears.", "Pears."),
            ("- [F1] Pears.\n[F1]\nPlums.", "- Pears.\n\nPlums."),
            ("Pears[F1][S1].", "Pears[1]."),
            ("Pears [F1] [F2]", "Pears"),
            ("Pears ([F1], [S1]).", "Pears ([1])."),
            ("Pears **[F1]** won [[F1]].", "Pears won."),
            ("[F1]", ""),
        ] {
            assert_eq!(numbered(text).text, wanted, "{text}");
        }
        assert_eq!(numbered("Pears [F1] won [F2, F3]").removed, 3);
    }

    #[test]
    fn numbers_of_the_model_are_not_citations() {
        assert_eq!(numbered("Pears [1].").text, "Pears [1].");
        assert_eq!(
            numbered("Pears [S1], items[2], rose[1], [1, 2].").text,
            "Pears [1], items[2], rose,."
        );
        let result = numbered("Pears [1], plums [S1].");
        assert_eq!(
            (result.text.as_str(), result.removed),
            ("Pears, plums [1].", 1)
        );
    }

    #[test]
    fn a_number_is_never_a_link() {
        for text in [
            "[S1]: https://example.com",
            "Pears [S1].\n\n[1]: https://example.com",
            "Pears [S1].\n\n[S1]: https://example.com",
            "Pears [S1] ([F9])(https://example.com)",
            "Pears [S1] [[2]](https://example.com)",
            "Pears [S1][F9]: https://example.com",
            "[S1][F9]: https://example.com",
        ] {
            let result = numbered(text);
            assert_eq!(result.cited.len(), 1, "{text}");
            assert!(!links_a_citation(&result.text), "{text}: {}", result.text);
        }
    }

    /// Checks whether `1` is a link.
    fn links_a_citation(text: &str) -> bool {
        let mut is_link = false;
        Parser::new_ext(text, MARKDOWN).any(|event| {
            match &event {
                Event::Start(Tag::Link { .. }) => is_link = true,
                Event::End(TagEnd::Link) => is_link = false,
                _ => {}
            }
            is_link && matches!(event, Event::Text(text) if &*text == "1")
        }) || Parser::new_ext(text, MARKDOWN)
            .reference_definitions()
            .get("1")
            .is_some()
    }

    #[test]
    fn long_hostile_texts_are_read() {
        for piece in [
            "[S1]",
            "[S1",
            "([S1])",
            "`[S1]",
            "[S1](",
            "[S1, ",
            "> - [S1]\n",
        ] {
            let text = piece.repeat(32 * 1024 / piece.len());
            assert!(numbered(&text).text.len() <= text.len(), "{piece}");
        }
    }
}
