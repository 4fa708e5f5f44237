//! Token counts stated in error messages about prompts that are too large.

use std::sync::LazyLock;

use regex::{Regex, RegexSet};

/// Minimum size of a context window; smaller numbers mean something else.
const WINDOW_MIN: u64 = 128;

/// Sizes that an error message states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Overflow {
    /// Context window of the model.
    pub(super) window: Option<u64>,
    /// Size of the prompt in tokens, not counting the output limit.
    pub(super) prompt: Option<u64>,
}

/// Patterns for errors of common servers; the first match is used.
struct Patterns {
    set: RegexSet,
    each: Vec<Regex>,
}

impl Patterns {
    #[expect(
        clippy::expect_used,
        reason = "the patterns are constant, and a test uses them"
    )]
    fn new(patterns: &[&str]) -> Self {
        let sources: Vec<String> = patterns
            .iter()
            .map(|pattern| pattern.replace("NUMBER", r"(\d[\d,_]*)"))
            .collect();
        let compile = |source: &String| Regex::new(source).expect("a valid pattern");
        Self {
            set: RegexSet::new(&sources).expect("valid patterns"),
            each: sources.iter().map(compile).collect(),
        }
    }

    fn find(&self, text: &str) -> Option<u64> {
        self.set.matches(text).iter().find_map(|at| {
            let digits: String = self.each[at]
                .captures(text)?
                .get(1)?
                .as_str()
                .chars()
                .filter(char::is_ascii_digit)
                .collect();
            digits.parse().ok()
        })
    }
}

static WINDOW: LazyLock<Patterns> = LazyLock::new(|| {
    Patterns::new(&[
        r"maximum (?:context|model|sequence|input) length (?:is|of) (?:only )?NUMBER",
        r"> NUMBER maximum",
        r"n_ctx\W{1,6}NUMBER",
        r"maximum number of (?:input )?tokens allowed \(?NUMBER",
        r"context (?:window|size|length) (?:of|is|=|:)?\s*(?:only )?\(?NUMBER",
        r"context (?:window|size|length) limit (?:of|is) NUMBER",
    ])
});

static PROMPT: LazyLock<Patterns> = LazyLock::new(|| {
    Patterns::new(&[
        r"\(NUMBER in (?:your prompt|the messages|the prompt)",
        r"requested tokens \(NUMBER\)",
        r"too long: NUMBER tokens",
        r"n_prompt_tokens\W{1,6}NUMBER",
        r"(?:prompt|input) \(length NUMBER\)",
        r"input token count \(?NUMBER",
        r"request \(NUMBER tokens\)",
    ])
});

impl Overflow {
    /// Parses the whole response, because some servers state the sizes in separate fields.
    pub(super) fn of(body: &str) -> Self {
        let text = body.to_lowercase();
        Self {
            window: WINDOW.find(&text).filter(|n| *n >= WINDOW_MIN),
            prompt: PROMPT.find(&text).filter(|n| *n > 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sizes_in_messages_of_common_servers_are_found() {
        for (text, window, prompt) in [
            (
                "This model's maximum context length is 2048 tokens, however you requested 2311 tokens (2295 in your prompt; 16 for the completion).",
                Some(2048),
                Some(2295),
            ),
            (
                "This model's maximum context length is 4096 tokens. However, you requested 4500 tokens (404 in the messages, 4096 in the completion).",
                Some(4096),
                Some(404),
            ),
            (
                "Requested tokens (2311) exceed context window of 2048",
                Some(2048),
                Some(2311),
            ),
            (
                "prompt is too long: 210000 tokens > 200000 maximum",
                Some(200_000),
                Some(210_000),
            ),
            (
                r#"{"error":{"message":"the request exceeds the available context size, try increasing it","type":"exceed_context_size_error","n_prompt_tokens":5000,"n_ctx":4096}}"#,
                Some(4096),
                Some(5000),
            ),
            (
                "request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it",
                Some(4096),
                Some(5000),
            ),
            (
                "The decoder prompt (length 5000) is longer than the maximum model length of 4096.",
                Some(4096),
                Some(5000),
            ),
            (
                "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
                Some(1_048_576),
                Some(1_200_000),
            ),
            ("the context length is only 8,192 tokens", Some(8192), None),
            ("maximum context length", None, None),
            ("context window of 3", None, None),
            ("", None, None),
        ] {
            assert_eq!(Overflow::of(text), Overflow { window, prompt }, "{text}");
        }
    }
}
