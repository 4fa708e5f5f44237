//! Marks such as `[S1]` in a reply, and the sentences that they belong to.

use std::{ops::Range, sync::LazyLock};

use openvibe_extract::sentence_ranges;
use pulldown_cmark::{Event, Parser, Tag};
use regex::Regex;

use crate::{chat::plain::MARKDOWN, ids::MessageId};

/// Maximum number of marks that are read; further ones are removed.
const MARKS_MAX: usize = 500;

/// Handles, as one mark or several, and numbers that a model wrote itself.
const MARK: &str = r"[\[【]\s*([SsFf]\d{1,6}(?:\s*[,;]\s*[SsFf]\d{1,6})*|\d{1,3})\s*[\]】]";
static MARKS: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(MARK).ok());

/// A mark in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mark {
    range: Range<usize>,
    /// In uppercase, without repetitions; empty for a number.
    handles: Vec<String>,
    /// Position of its sentence.
    sentence: usize,
}

/// A text, its marks, and their sentences without marks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Marked {
    text: String,
    marks: Vec<Mark>,
    sentences: Vec<String>,
    /// True if the text defines a link named by a number, so that `[1]` would be that link.
    has_numbered_links: bool,
}

/// A text with `[n]` in place of marks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Numbered {
    pub(super) text: String,
    /// The message of `[n]` is at `n - 1`.
    pub(super) messages: Vec<MessageId>,
    /// Number of removed citations.
    pub(super) removed: usize,
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
            plain.push_str(text[from..range.start].trim_end());
            at.push(plain.len());
            from = range.end;
        }
        plain.push_str(&text[from..line.end]);
        let sentences = sentence_ranges(&plain);
        Self {
            plain,
            at,
            sentences,
        }
    }

    /// The sentence of a mark: the one that it is in, or that it follows; at the start of a line, the next one. A number
    /// of a list is not a sentence.
    fn sentence(&self, at: usize) -> Option<&str> {
        let is_told = |range: &&Range<usize>| {
            let text = &self.plain[(*range).clone()];
            text.contains(char::is_alphabetic)
        };
        let mut before = self.sentences.iter().rev().filter(|range| range.start < at);
        let mut after = self.sentences.iter().filter(|range| range.start >= at);
        let found = before.find(is_told).or_else(|| after.find(is_told));
        found
            .or(self.sentences.last())
            .map(|range| &self.plain[range.clone()])
            .filter(|text| text.contains(char::is_alphanumeric))
    }
}

impl Marked {
    /// Finds the marks of a text outside of code, links, and images. Handles after the first `handles_max` are removed.
    pub(super) fn of(text: String, handles_max: usize) -> Self {
        let mut marked = Self::default();
        let Some(marks) = MARKS.as_ref().filter(|marks| marks.is_match(&text)) else {
            marked.text = text;
            return marked;
        };
        let parser = Parser::new_ext(&text, MARKDOWN);
        let definitions = parser.reference_definitions();
        let is_number = |name: &str| name.bytes().all(|b| b.is_ascii_digit());
        marked.has_numbered_links = definitions.iter().any(|(name, _)| is_number(name));
        let code = parser.into_offset_iter().filter_map(|(event, range)| {
            let is_code = matches!(
                event,
                Event::Code(_)
                    | Event::Start(Tag::CodeBlock(_) | Tag::Link { .. } | Tag::Image { .. })
            );
            is_code.then_some(range)
        });
        let mut spans: Vec<Range<usize>> = Vec::new();
        for range in code {
            // Code can be in links.
            if spans.last().is_none_or(|span| span.end <= range.start) {
                spans.push(range);
            }
        }
        let is_code = |at: usize| {
            let after = spans.partition_point(|span| span.start <= at);
            spans[..after].last().is_some_and(|span| span.contains(&at))
        };
        let mut last: Option<String> = None;
        let mut start = 0;
        for row in text.split_inclusive('\n') {
            let line = start..start + row.trim_end().len();
            start += row.len();
            let found = marks
                .captures_iter(&text[line.clone()])
                .filter_map(|found| {
                    let (all, inner) = (found.get(0)?, found.get(1)?.as_str().to_uppercase());
                    let range = line.start + all.start()..line.start + all.end();
                    let is_number = inner.starts_with(|c: char| c.is_ascii_digit());
                    // Like `items[1]`.
                    let is_index =
                        is_number && text[..range.start].ends_with(char::is_alphanumeric);
                    let mut handles: Vec<String> = Vec::new();
                    for handle in inner.split([',', ';']).filter(|_| !is_number) {
                        let handle = handle.trim().to_owned();
                        if !handles.contains(&handle) {
                            handles.push(handle);
                        }
                    }
                    (!is_code(range.start) && !is_index).then_some((range, handles))
                });
            let found: Vec<(Range<usize>, Vec<String>)> = found.collect();
            let shown = Line::of(&text, line, &found);
            for ((range, mut handles), at) in found.into_iter().zip(&shown.at) {
                if marked.marks.len() >= MARKS_MAX {
                    handles.fill(String::new());
                    let sentence = marked.sentences.len() - 1;
                    marked.marks.push(Mark {
                        range,
                        handles,
                        sentence,
                    });
                    continue;
                }
                let sentence = shown.sentence(*at).or(last.as_deref()).unwrap_or_default();
                if marked
                    .sentences
                    .last()
                    .is_none_or(|known| known != sentence)
                {
                    marked.sentences.push(sentence.to_owned());
                }
                marked.marks.push(Mark {
                    range,
                    handles,
                    sentence: marked.sentences.len() - 1,
                });
            }
            if let Some(sentence) = shown.sentence(usize::MAX) {
                last = Some(sentence.to_owned());
            }
        }
        let mut known: Vec<String> = Vec::new();
        for mark in &mut marked.marks {
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
        marked.text = text;
        marked
    }

    pub(super) fn is_empty(&self) -> bool {
        self.marks.is_empty()
    }

    /// Distinct handles in the order of the text.
    pub(super) fn handles(&self) -> Vec<&str> {
        let mut handles: Vec<&str> = Vec::new();
        for handle in self.marks.iter().flat_map(|mark| &mark.handles) {
            if !handle.is_empty() && !handles.contains(&handle.as_str()) {
                handles.push(handle);
            }
        }
        handles
    }

    /// Sentences with the distinct handles of their marks.
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

    /// Replaces marks by numbers in the order of the text. `source` is the message that a handle cites in a sentence;
    /// citations without one are removed. A number that the model wrote is removed if it could be taken for a citation.
    pub(super) fn numbered(&self, source: impl Fn(usize, &str) -> Option<MessageId>) -> Numbered {
        let mut result = Numbered::default();
        let mut cited: Vec<Vec<usize>> = Vec::new();
        for mark in &self.marks {
            let mut numbers = Vec::new();
            for handle in &mark.handles {
                let Some(message) = source(mark.sentence, handle) else {
                    result.removed += 1;
                    continue;
                };
                let known = result.messages.iter().position(|known| *known == message);
                let n = known.unwrap_or_else(|| {
                    result.messages.push(message);
                    result.messages.len() - 1
                });
                if !numbers.contains(&(n + 1)) {
                    numbers.push(n + 1);
                }
            }
            cited.push(numbers);
        }
        let mut from = 0;
        for (mark, numbers) in self.marks.iter().zip(cited) {
            if mark.handles.is_empty() && result.messages.is_empty() {
                continue;
            }
            result.removed += usize::from(mark.handles.is_empty());
            let mut range = mark.range.clone();
            if numbers.is_empty() {
                range = without_traces(&self.text, range);
            }
            result
                .text
                .push_str(&self.text[from..range.start.max(from)]);
            let marks = numbers.iter().map(|n| {
                if self.has_numbered_links || self.text[range.end..].starts_with([':', '(']) {
                    format!("\\[{n}\\]")
                } else {
                    format!("[{n}]")
                }
            });
            result.text.push_str(&marks.collect::<Vec<_>>().join(" "));
            from = range.end;
        }
        result.text.push_str(&self.text[from..]);
        result
    }
}

/// Extends the range of a removed mark: parentheses around nothing else, and the spaces before it.
fn without_traces(text: &str, range: Range<usize>) -> Range<usize> {
    let (mut start, mut end) = (range.start, range.end);
    let before = text[..start].trim_end_matches(' ');
    let after = text[end..].trim_start_matches(' ');
    if before.ends_with('(') && after.starts_with(')') {
        start = before.len() - 1;
        end = text.len() - after.len() + 1;
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

    fn marked(text: &str) -> Marked {
        Marked::of(text.to_owned(), 64)
    }

    /// Numbers all handles that start with `S`.
    fn numbered(text: &str) -> Numbered {
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
            ("**42** [S1]", "**42**"),
            ("[S1]", ""),
        ] {
            let marked = marked(text);
            assert_eq!(marked.sentences, [wanted], "{text}");
        }
    }

    #[test]
    fn handles_are_read_in_every_form() {
        let marked = marked("a [S1, s2; F3] b [S1][S4] c 【s5】 d [S1]");
        assert_eq!(marked.handles(), ["S1", "S2", "F3", "S4", "S5"]);
        assert_eq!(Marked::of("a [S1] b [S2] [S1]".into(), 1).handles(), ["S1"]);
    }

    #[test]
    fn code_links_and_indexes_have_no_marks() {
        for text in [
            "`a [S1]`",
            "```\na [S1]\n```",
            "a [S1](https://example.com)",
            "![S1](https://example.com/a.png)",
            "see [the list [S1]](https://example.com)",
            "items[1] of [S]",
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
        assert_eq!((result.messages.len(), result.removed), (2, 0));
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
            ("[F1]", ""),
        ] {
            assert_eq!(numbered(text).text, wanted, "{text}");
        }
        assert_eq!(numbered("Pears [F1] won [F2, F3]").removed, 3);
    }

    #[test]
    fn numbers_of_the_model_are_not_citations() {
        assert_eq!(numbered("Pears [1].").text, "Pears [1].");
        let result = numbered("Pears [1], plums [S1].");
        assert_eq!(
            (result.text.as_str(), result.removed),
            ("Pears, plums [1].", 1)
        );
    }

    #[test]
    fn a_number_is_never_a_link() {
        assert_eq!(
            numbered("[S1]: https://example.com").text,
            "\\[1\\]: https://example.com"
        );
        let text = "Pears [S1].\n\n[1]: https://example.com";
        assert!(
            numbered(text).text.starts_with("Pears \\[1\\]."),
            "{}",
            numbered(text).text
        );
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
