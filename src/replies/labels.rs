//! Removes labels that a model repeats at the beginning of its reply.

use super::lines::{AI_SUFFIX, clean_name};

/// Maximum number of characters in a label, including the name, handle, and suffix.
const LABEL_CHARS_MAX: usize = 160;

/// Removes agent labels that a model echoes at the start of its reply (`[Vibe (AI)]: `, `[Coder]: `), however the reply is split into
/// chunks. Holds back only text that may still turn into such a label.
#[derive(Debug, Clone)]
pub(super) struct LabelStripper {
    /// Names of the conversation's agents in lowercase.
    agents: Vec<String>,
    state: Stripping,
}

#[derive(Debug, Clone)]
enum Stripping {
    /// Text held back because it may still turn out to be a label: the leading whitespace, and the text after it. The two are stored
    /// separately so that a reply that starts with endless whitespace is not rescanned for each chunk.
    Held {
        blank: String,
        text: String,
        /// True after a label has been removed; the whitespace after the label is then removed as well.
        follows_label: bool,
    },
    Through,
}

impl Stripping {
    fn held(follows_label: bool) -> Self {
        Self::Held {
            blank: String::new(),
            text: String::new(),
            follows_label,
        }
    }
}

enum Label {
    /// Length of a complete label in bytes.
    Found(usize),
    Possible,
    None,
}

impl LabelStripper {
    /// `agents` are the names of the replying agent and of the other agents in its prompt.
    pub(super) fn new<'a>(agents: impl IntoIterator<Item = &'a str>) -> Self {
        Self {
            agents: agents
                .into_iter()
                .map(|name| clean_name(name).to_lowercase())
                .collect(),
            state: Stripping::held(false),
        }
    }

    /// Adds a chunk, and returns the text that can be shown now, which may be empty.
    pub(super) fn push(&mut self, piece: &str) -> String {
        let Stripping::Held {
            blank,
            text,
            follows_label,
        } = &mut self.state
        else {
            return piece.to_owned();
        };
        let shown = if text.is_empty() {
            let shown = piece.trim_start();
            if !*follows_label {
                blank.push_str(&piece[..piece.len() - shown.len()]);
            }
            shown
        } else {
            piece
        };
        text.push_str(shown);
        if text.is_empty() {
            return String::new();
        }
        match label(text, &self.agents) {
            Label::Possible => String::new(),
            Label::None => {
                let all = std::mem::take(blank) + text;
                self.state = Stripping::Through;
                all
            }
            Label::Found(end) => {
                let rest = text[end..].to_owned();
                self.state = Stripping::held(true);
                self.push(&rest)
            }
        }
    }

    /// Returns the text held back at the end of the reply.
    pub(super) fn finish(self) -> String {
        match self.state {
            Stripping::Held { blank, text, .. } => blank + &text,
            Stripping::Through => String::new(),
        }
    }
}

/// Checks whether `text` begins with an agent's label, or may do so once more text arrives.
fn label(text: &str, agents: &[String]) -> Label {
    let Some(inner) = text.strip_prefix('[') else {
        return Label::None;
    };
    let Some(end) = inner.find([']', '[', '\n']) else {
        return if inner.chars().count() > LABEL_CHARS_MAX {
            Label::None
        } else {
            Label::Possible
        };
    };
    if !inner[end..].starts_with(']') || !is_agent(&inner[..end], agents) {
        return Label::None;
    }
    match inner[end + 1..].chars().next() {
        None => Label::Possible,
        Some(':') => Label::Found(end + 3),
        Some(_) => Label::None,
    }
}

/// Returns true for any name with the suffix ` (AI)`, and for the name of an agent in `agents`. A handle may follow the name.
fn is_agent(inner: &str, agents: &[String]) -> bool {
    let inner = inner.to_lowercase();
    let suffix = AI_SUFFIX.to_lowercase();
    if inner.len() > suffix.len() && inner.ends_with(&suffix) {
        return true;
    }
    let name = inner.split_once(" @").map_or(&*inner, |(name, _)| name);
    agents.iter().any(|agent| agent == name)
}

/// Removes echoed labels from a complete reply.
#[cfg(test)]
fn strip_echoed_labels(text: &str, agents: &[&str]) -> String {
    let mut stripper = LabelStripper::new(agents.iter().copied());
    let mut out = stripper.push(text);
    out.push_str(&stripper.finish());
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_echoed_label_is_removed_however_it_is_split_into_chunks() {
        for (reply, wanted) in [
            ("[Vibe (AI)]: Hello", "Hello"),
            ("[Vibe]:Hello", "Hello"),
            ("\n [vibe (ai)]: \n\nHello [Vibe]: x", "Hello [Vibe]: x"),
            ("[Vibe", "[Vibe"),
            ("[Vibes are good]: yes", "[Vibes are good]: yes"),
            ("[Coder (AI)]: Hello", "Hello"),
            ("[Coder]: Hello", "Hello"),
            ("[Sage (AI)]: Hello", "Hello"),
            ("[Coder @coder (AI)]: [Vibe]:\n Hello", "Hello"),
            ("[Ada]: Hello", "[Ada]: Hello"),
            ("[a](https://example.org): b", "[a](https://example.org): b"),
            ("[[Vibe]]: b", "[[Vibe]]: b"),
            ("Vibe: Hello", "Vibe: Hello"),
            (" Hello", " Hello"),
            ("[Vibe]: ", ""),
            ("", ""),
        ] {
            assert_eq!(
                strip_echoed_labels(reply, &["Vibe", "Coder"]),
                wanted,
                "{reply:?}"
            );
            let mut stripper = LabelStripper::new(["Vibe", "Coder"]);
            let mut out = String::new();
            for c in reply.chars() {
                out.push_str(&stripper.push(c.encode_utf8(&mut [0; 4])));
            }
            out.push_str(&stripper.finish());
            assert_eq!(out, wanted, "{reply:?} in single characters");
        }
    }

    #[test]
    fn long_leading_whitespace_of_a_reply_is_scanned_only_once() {
        let mut stripper = LabelStripper::new(["Vibe"]);
        for _ in 0..100_000 {
            assert_eq!(stripper.push("\n"), "");
        }
        assert_eq!(stripper.push("[Vibe]: "), "");
        assert_eq!(stripper.push("Done."), "Done.");
    }

    #[test]
    fn only_a_possible_label_prefix_is_buffered() {
        let mut stripper = LabelStripper::new(["Vibe"]);
        assert_eq!(stripper.push("[Vi"), "");
        assert_eq!(stripper.push("rtue"), "");
        assert_eq!(stripper.push("]"), "[Virtue]");
        assert_eq!(stripper.push(" [Vibe]: "), " [Vibe]: ");
        let mut stripper = LabelStripper::new(["Vibe"]);
        let long = format!("[{}", "x".repeat(LABEL_CHARS_MAX + 1));
        assert_eq!(stripper.push(&long), long);
    }

    fn nasty() -> impl Strategy<Value = String> {
        let pieces = prop::sample::select(vec![
            "[",
            "]",
            ":",
            " ",
            "\n",
            "Vibe",
            "(AI)",
            "[Vibe (AI)]: ",
            "[Vibe]:",
            "é",
            "@vibe",
        ]);
        prop::collection::vec(pieces, 0..12).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn label_stripping_does_not_depend_on_chunk_boundaries(reply in nasty(), cut in 0..40_usize) {
            let cut = reply.char_indices().map(|(at, _)| at).nth(cut).unwrap_or(reply.len());
            let mut stripper = LabelStripper::new(["Vibe"]);
            let mut out = stripper.push(&reply[..cut]);
            out.push_str(&stripper.push(&reply[cut..]));
            out.push_str(&stripper.finish());
            prop_assert_eq!(out, strip_echoed_labels(&reply, &["Vibe"]));
        }
    }
}
