//! Arrows: `→` or `->` between agents that reply one after the other.
//!
//! Like `mentions`, this module is pure: it does not know which mentions refer to agents.

use std::ops::Range;

use super::mentions::{self, RawMention, Seen, Span, seen_by_reader};

const SIGNS: &[&str] = &["→", "->"];

/// An arrow that follows white space and precedes an `@…`, optionally with white space in between. It is outside code, quotes, and
/// links.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Arrow {
    bytes: Range<usize>,
    /// Offset just after the arrow, in UTF-16 code units.
    end_utf16: usize,
    /// Offset of the `@` after the arrow, in UTF-16 code units.
    mention_utf16: usize,
}

/// Part of a message that is addressed to one agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Link {
    /// Index of the mention of the link's agent.
    pub mention: usize,
    /// Text of the link without that mention.
    pub text: String,
}

/// Returns the arrows of a text in order. Runs in time linear in the length of `content`.
pub(super) fn parse(content: &str, mentions: &[RawMention]) -> Vec<Arrow> {
    if mentions.is_empty() || !SIGNS.iter().any(|sign| content.contains(sign)) {
        return Vec::new();
    }
    let seen = seen_by_reader(content);
    let mut mentions = mentions.iter().peekable();
    let mut arrows = Vec::new();
    let mut units = 0;
    for (at, c) in content.char_indices() {
        let is_mention = mentions.next_if(|mention| mention.start_utf16 == units);
        if is_mention.is_some()
            && let Some(bytes) = arrow_before(content, at, &seen)
        {
            arrows.push(Arrow {
                end_utf16: units - content[bytes.end..at].encode_utf16().count(),
                mention_utf16: units,
                bytes,
            });
        }
        units += c.len_utf16();
    }
    arrows
}

fn arrow_before(content: &str, at: usize, seen: &[Seen]) -> Option<Range<usize>> {
    let before = content[..at].trim_end();
    let sign = SIGNS.iter().find(|sign| before.ends_with(**sign))?;
    let start = before.len() - sign.len();
    let follows_space = content[..start].ends_with(char::is_whitespace);
    (follows_space && seen[start] == Seen::Text).then_some(start..before.len())
}

/// Splits a message into the links of its chain. `agents` are the mentions of agents in order. Returns an empty list unless
/// an agent is mentioned before the first arrow and another one after an arrow.
pub(super) fn links(content: &str, arrows: &[Arrow], agents: &[Span]) -> Vec<Link> {
    let mention_of = |arrow: &Arrow| {
        let found = agents.binary_search_by_key(&arrow.mention_utf16, |agent| agent.start);
        found.ok()
    };
    let arrows: Vec<(&Arrow, usize)> = arrows
        .iter()
        .filter_map(|arrow| Some((arrow, mention_of(arrow)?)))
        .collect();
    let Some((_, second)) = arrows.first() else {
        return Vec::new();
    };
    if *second == 0 {
        return Vec::new();
    }
    let starts = arrows.iter().map(|(arrow, mention)| {
        let start = (arrow.bytes.end, arrow.end_utf16);
        (start, *mention)
    });
    let ends = arrows.iter().map(|(arrow, _)| arrow.bytes.start);
    std::iter::once(((0, 0), 0))
        .chain(starts)
        .zip(ends.chain([content.len()]))
        .map(|(((start, start_utf16), mention), end)| {
            let own = Span {
                start: agents[mention].start - start_utf16,
                length: agents[mention].length,
            };
            Link {
                mention,
                text: mentions::without(&content[start..end], &[own]),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde::Deserialize;

    use super::*;

    /// Agent handles in the test corpus.
    const AGENTS: &[&str] = &["coder", "reviewer", "tester"];

    #[derive(Deserialize)]
    struct Case {
        text: String,
        /// Handle and text of each link.
        links: Vec<(String, String)>,
    }

    fn found(content: &str) -> Vec<(String, String)> {
        let mentions = mentions::parse(content);
        let arrows = parse(content, &mentions);
        let named = |raw: &RawMention| {
            let is_agent = |name: &&String| AGENTS.contains(&name.as_str());
            let name = raw.candidates.iter().find(is_agent)?.clone();
            Some((raw.span_of(&name), name))
        };
        let (spans, names): (Vec<Span>, Vec<String>) = mentions.iter().filter_map(named).unzip();
        let links = links(content, &arrows, &spans);
        links
            .into_iter()
            .map(|link| (names[link.mention].clone(), link.text))
            .collect()
    }

    #[test]
    fn every_text_of_the_corpus_has_the_expected_links() {
        let corpus = include_str!("../../tests/corpus/arrows.json");
        let cases: Vec<Case> = serde_json::from_str(corpus).expect("the corpus is valid");
        for case in cases {
            assert_eq!(found(&case.text), case.links, "{:?}", case.text);
        }
    }

    proptest! {
        #[test]
        fn links_of_any_text_are_addressed_in_order(
            words in prop::collection::vec(
                prop::sample::select(vec![
                    "@coder", "@ada", "→", "->", " ", "\n", "\n\n", "`", "> ", "[", "](x)", "é", "👍", "-", "word",
                ]),
                0..24,
            )
        ) {
            let content = words.concat();
            let mentions = mentions::parse(&content);
            let arrows = parse(&content, &mentions);
            prop_assert!(arrows.iter().all(|arrow| SIGNS.contains(&&content[arrow.bytes.clone()])));
            let count = found(&content).len();
            prop_assert!(count == 0 || (2..=arrows.len() + 1).contains(&count));
        }
    }
}
