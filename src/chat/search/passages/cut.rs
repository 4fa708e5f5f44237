//! Cuts the text of a part into passages.

use std::ops::Range;

/// Maximum length of a passage in characters.
const PASSAGE_CHARS_MAX: usize = 1_200;

/// Ranges of the passages of a text: whole paragraphs if they are not too long, or else lines, sentences, and words.
pub fn passages(text: &str) -> Vec<Range<usize>> {
    let mut all = Vec::new();
    let mut start = 0;
    loop {
        let rest = &text[start..];
        start += rest.len() - rest.trim_start().len();
        let rest = &text[start..];
        if rest.is_empty() {
            return all;
        }
        let len = rest
            .char_indices()
            .nth(PASSAGE_CHARS_MAX)
            .map_or(rest.len(), |(at, _)| at);
        let len = if len == rest.len() {
            len
        } else {
            end_of(&rest[..len])
        };
        let end = start + text[start..start + len].trim_end().len();
        all.push(start..end);
        start += len;
    }
}

/// Length of the passage at the beginning of a text that is too long.
fn end_of(window: &str) -> usize {
    let after = |found: Option<usize>, len: usize, part: usize| {
        found
            .map(|at| at + len)
            .filter(|end| *end >= window.len() / part)
    };
    after(window.rfind("\n\n"), 2, 2)
        .or_else(|| after(window.rfind('\n'), 1, 4))
        .or_else(|| after(window.rfind(". "), 2, 2))
        .or_else(|| after(window.rfind(' '), 1, 4))
        .unwrap_or(window.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passages_end_at_paragraphs_lines_and_words() {
        let cut = |text: &str| -> Vec<usize> {
            let all = passages(text);
            all.iter()
                .map(|range| text[range.clone()].chars().count())
                .collect()
        };
        assert_eq!(cut(""), Vec::<usize>::new());
        assert_eq!(cut(" \n short \n"), [5]);
        let paragraphs = format!("{}\n\n{}", "a ".repeat(400), "b ".repeat(400));
        assert_eq!(cut(&paragraphs), [799, 799]);
        let rows = "cell | cell\n".repeat(200);
        assert_eq!(cut(&rows), [1199, 1199]);
        let words = "é".repeat(3_000);
        assert_eq!(cut(&words), [1_200, 1_200, 600]);
    }

    #[test]
    fn every_word_is_in_a_passage() {
        let words: Vec<String> = (0..2_000)
            .map(|n| format!("word{n}{}", if n % 37 == 0 { "\n" } else { "" }))
            .collect();
        let text = words.join(" ").replace('\n', "\n\n");
        let all = passages(&text)
            .into_iter()
            .flat_map(|range| text[range].split_whitespace());
        assert!(text.split_whitespace().eq(all));
    }
}
