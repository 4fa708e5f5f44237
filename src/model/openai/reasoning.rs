//! Removes reasoning that a server sends as text: elements such as `<think>…</think>`, Mistral's `[THINK]…[/THINK]`, and the
//! channels of gpt-oss except `final`.
//!
//! Reasoning counts only at the start of the text, because models also write about these tags. Some chat templates already contain
//! the opening tag, so that the text contains only the closing one: then everything before it is reasoning, even if it was passed on.

/// Elements that contain reasoning, in lowercase.
const ELEMENTS: [&str; 4] = ["thinking", "think", "thought", "reasoning"];
const OPENING: &str = "[THINK]";
const CLOSING: &str = "[/THINK]";
const CHANNEL: &str = "<|channel|>";
const MESSAGE: &str = "<|message|>";
const START: &str = "<|start|>";
/// Marks that end the message of a channel.
const ENDS: [&str; 3] = ["<|end|>", "<|return|>", "<|call|>"];
/// The channel whose text is shown.
const FINAL: &str = "final";
/// Number of backticks that begin or end a code block.
const FENCE: usize = 3;
/// Maximum size of a tag or of the head of a channel.
const TAG_BYTES_MAX: usize = 256;
/// Maximum size of the text that is held back for a model that closes its reasoning without opening it.
const HELD_BYTES_MAX: usize = 16 * 1024;
/// Maximum number of quoted closing tags after which text is no longer searched.
const QUOTED_MAX: usize = 64;

/// Result of a filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Filtered {
    Text(String),
    /// All text so far was reasoning.
    Discard,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Only white space or reasoning so far.
    Start,
    /// Inside reasoning that ends with this element's closing tag.
    Element(&'static str),
    Bracket,
    /// Inside a channel that is not shown.
    Channel,
    /// Inside the channel that is shown.
    Final,
    Text,
}

/// Result of comparing the start of a text with a tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Match<T> {
    No,
    /// More text is needed.
    Partial,
    /// The tag has this length.
    Yes(usize, T),
}

/// Position in Markdown, to recognize code.
#[derive(Default)]
struct Markdown {
    is_fenced: bool,
    /// Backticks in the line so far.
    ticks: usize,
    /// Backticks at the start of the line.
    leading: usize,
    /// True if the line so far contains something else.
    has_words: bool,
    last: Option<char>,
}

impl Markdown {
    fn add(&mut self, text: &str) {
        for c in text.chars() {
            match c {
                '\n' => {
                    self.is_fenced ^= self.leading >= FENCE;
                    (self.ticks, self.leading, self.has_words) = (0, 0, false);
                }
                '`' => {
                    self.ticks += 1;
                    self.leading += usize::from(!self.has_words);
                }
                _ => self.has_words |= !c.is_whitespace(),
            }
            self.last = Some(c);
        }
    }

    /// Checks whether the next character is inside code.
    fn is_code(&self) -> bool {
        self.is_fenced || self.leading >= FENCE || self.ticks % 2 == 1
    }
}

/// Removes reasoning from a text that arrives in pieces of any size.
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
pub(super) struct ReasoningFilter {
    state: State,
    /// Text that has not been classified yet.
    rest: String,
    /// Text that is held back until it is certain that no closing tag follows.
    held: Option<String>,
    markdown: Markdown,
    /// True if text is still searched for a closing tag without an opening one.
    is_searching: bool,
    quoted: usize,
    has_text: bool,
    has_reasoning: bool,
    closes_alone: bool,
}

impl ReasoningFilter {
    /// With `closes_alone`, the model is known to close its reasoning without opening it.
    pub(super) fn new(closes_alone: bool) -> Self {
        Self {
            state: State::Start,
            rest: String::new(),
            held: closes_alone.then(String::new),
            markdown: Markdown::default(),
            is_searching: true,
            quoted: 0,
            has_text: false,
            has_reasoning: false,
            closes_alone: false,
        }
    }

    /// Checks whether reasoning was removed or is being removed.
    pub(super) fn has_reasoning(&self) -> bool {
        self.has_reasoning
    }

    /// Checks whether text is held back that can still turn out to be reasoning.
    pub(super) fn is_holding(&self) -> bool {
        self.held.is_some()
    }

    /// Checks whether the text contained a closing tag without an opening one.
    pub(super) fn closes_alone(&self) -> bool {
        self.closes_alone
    }

    /// Returns the parts of a piece that are not reasoning, with text that was held back before.
    pub(super) fn push(&mut self, piece: &str) -> Vec<Filtered> {
        self.rest.push_str(piece);
        let mut out = Vec::new();
        while self.step(&mut out, false) {}
        out
    }

    /// Returns the text that is still held back.
    pub(super) fn finish(&mut self) -> Vec<Filtered> {
        let mut out = Vec::new();
        while self.step(&mut out, true) {}
        if !matches!(
            self.state,
            State::Element(_) | State::Bracket | State::Channel
        ) {
            let rest = std::mem::take(&mut self.rest);
            self.emit(&rest, &mut out);
        }
        self.release(&mut out);
        out
    }

    /// Classifies a part of the text. Returns false if more text is needed.
    fn step(&mut self, out: &mut Vec<Filtered>, is_last: bool) -> bool {
        match self.state {
            State::Start => self.start(out, is_last),
            State::Element(name) => self.skip(|text| closing_element(text, name)),
            State::Bracket => self.skip(|text| literal(text, CLOSING)),
            State::Channel => self.skip(end_of_channel),
            State::Final => self.show_final(out),
            State::Text => self.search(out, is_last),
        }
    }

    fn start(&mut self, out: &mut Vec<Filtered>, is_last: bool) -> bool {
        let blank = self.rest.len() - self.rest.trim_start().len();
        let space: String = self.rest.drain(..blank).collect();
        if !self.has_reasoning {
            self.emit(&space, out);
        }
        if self.rest.is_empty() {
            return false;
        }
        match opening(&self.rest) {
            Match::Partial if !is_last => false,
            Match::Partial | Match::No => {
                self.state = State::Text;
                self.is_searching &= !self.has_reasoning;
                true
            }
            Match::Yes(length, state) => {
                self.rest.drain(..length);
                self.state = state;
                self.has_reasoning |= state != State::Final;
                self.is_searching = false;
                self.release(out);
                true
            }
        }
    }

    /// Drops text up to the end of the reasoning.
    fn skip(&mut self, end: impl Fn(&str) -> Match<()>) -> bool {
        let mut from = 0;
        while let Some(at) = self.rest[from..].find(['<', '[']) {
            let at = from + at;
            match end(&self.rest[at..]) {
                Match::Yes(length, ()) => {
                    self.rest.drain(..at + length);
                    self.state = State::Start;
                    return true;
                }
                Match::Partial => {
                    self.rest.drain(..at);
                    return false;
                }
                Match::No => from = at + 1,
            }
        }
        self.rest.clear();
        false
    }

    /// Passes on the text of the final channel.
    fn show_final(&mut self, out: &mut Vec<Filtered>) -> bool {
        if !self.has_text {
            let blank = self.rest.len() - self.rest.trim_start().len();
            self.rest.drain(..blank);
        }
        let mut from = 0;
        while let Some(at) = self.rest[from..].find('<') {
            let at = from + at;
            match end_of_channel(&self.rest[at..]) {
                Match::Yes(length, ()) => {
                    let text: String = self.rest.drain(..at).collect();
                    self.rest.drain(..length);
                    self.emit(&text, out);
                    self.has_reasoning = true;
                    self.state = State::Start;
                    return true;
                }
                Match::Partial => {
                    let text: String = self.rest.drain(..at).collect();
                    self.emit(&text, out);
                    return false;
                }
                Match::No => from = at + 1,
            }
        }
        let text = std::mem::take(&mut self.rest);
        self.emit(&text, out);
        false
    }

    /// Passes on text until a closing tag without an opening one.
    fn search(&mut self, out: &mut Vec<Filtered>, is_last: bool) -> bool {
        if !self.is_searching {
            self.release(out);
            let text = std::mem::take(&mut self.rest);
            self.emit(&text, out);
            return false;
        }
        let Some(at) = self.rest.find(['<', '[']) else {
            let text = std::mem::take(&mut self.rest);
            self.emit(&text, out);
            return false;
        };
        let text: String = self.rest.drain(..at).collect();
        self.emit(&text, out);
        match opening(&self.rest) {
            Match::Partial if !is_last => return false,
            Match::Yes(_, state) if state != State::Final => {
                self.is_searching = self.markdown.is_code();
                return self.pass(1, out);
            }
            _ => {}
        }
        match closing(&self.rest) {
            Match::Partial if !is_last => false,
            Match::Partial | Match::No => self.pass(1, out),
            Match::Yes(length, state) => {
                let next = self.rest[length..].chars().next();
                let quote = self.markdown.last.filter(|c| "\"'`“‘«".contains(*c));
                if quote.is_some() && next.is_none() && !is_last {
                    return false;
                }
                let is_quoted = quote.is_some() && next.is_some_and(|c| "\"'`”’»".contains(c));
                if is_quoted || self.markdown.is_code() {
                    self.quoted += 1;
                    self.is_searching = self.quoted < QUOTED_MAX;
                    return self.pass(length, out);
                }
                self.rest.drain(..length);
                self.discard(out);
                self.state = state;
                true
            }
        }
    }

    /// Passes on a tag that is not one.
    fn pass(&mut self, length: usize, out: &mut Vec<Filtered>) -> bool {
        let text: String = self.rest.drain(..length).collect();
        self.emit(&text, out);
        true
    }

    /// Removes all text so far.
    fn discard(&mut self, out: &mut Vec<Filtered>) {
        self.held = None;
        out.retain(|filtered| *filtered == Filtered::Discard);
        if self.has_text {
            out.push(Filtered::Discard);
        }
        (self.has_reasoning, self.closes_alone) = (true, true);
        self.is_searching = false;
    }

    fn emit(&mut self, text: &str, out: &mut Vec<Filtered>) {
        if text.is_empty() {
            return;
        }
        self.markdown.add(text);
        match &mut self.held {
            Some(held) => {
                held.push_str(text);
                if held.len() > HELD_BYTES_MAX {
                    self.release(out);
                }
            }
            None => self.add(text, out),
        }
    }

    fn add(&mut self, text: &str, out: &mut Vec<Filtered>) {
        self.has_text = true;
        match out.last_mut() {
            Some(Filtered::Text(last)) => last.push_str(text),
            _ => out.push(Filtered::Text(text.to_owned())),
        }
    }

    /// Passes on the text that was held back.
    fn release(&mut self, out: &mut Vec<Filtered>) {
        if let Some(held) = self.held.take().filter(|held| !held.is_empty()) {
            self.add(&held, out);
        }
    }
}

/// Compares the start of `text` with `tag`.
fn literal(text: &str, tag: &str) -> Match<()> {
    if text.starts_with(tag) {
        Match::Yes(tag.len(), ())
    } else if tag.starts_with(text) {
        Match::Partial
    } else {
        Match::No
    }
}

/// Compares the start of `text` with a tag that begins with `begin` and the name of an element. White space can follow the name.
fn element(text: &str, begin: &str, name: &'static str) -> Match<&'static str> {
    let tag = format!("{begin}{name}");
    let (head, rest) = text
        .split_at_checked(tag.len().min(text.len()))
        .unwrap_or(("", text));
    if head.is_empty() || !tag[..head.len()].eq_ignore_ascii_case(head) {
        return Match::No;
    }
    match rest.trim_start().chars().next() {
        Some('>') if head.len() == tag.len() => {
            let blank = rest.len() - rest.trim_start().len();
            Match::Yes(tag.len() + blank + 1, name)
        }
        None if text.len() <= TAG_BYTES_MAX => Match::Partial,
        _ => Match::No,
    }
}

/// Returns the first complete match, or a partial one.
fn any<T>(matches: impl IntoIterator<Item = Match<T>>) -> Match<T> {
    let mut found = Match::No;
    for each in matches {
        match each {
            Match::Yes(..) => return each,
            Match::Partial => found = Match::Partial,
            Match::No => {}
        }
    }
    found
}

impl<T> Match<T> {
    fn map<U>(self, f: impl FnOnce(T) -> U) -> Match<U> {
        match self {
            Self::No => Match::No,
            Self::Partial => Match::Partial,
            Self::Yes(length, value) => Match::Yes(length, f(value)),
        }
    }
}

/// Compares the start of `text` with the head of a channel: `<|start|>assistant<|channel|>analysis<|message|>`, of which the part
/// before the channel is optional.
fn channel(text: &str) -> Match<State> {
    let whole = any([literal(text, START), literal(text, CHANNEL)]);
    let Match::Yes(..) = whole else {
        return whole.map(|()| State::Channel);
    };
    let Some(at) = text.find(MESSAGE) else {
        let is_short = text.len() <= TAG_BYTES_MAX;
        return if is_short { Match::Partial } else { Match::No };
    };
    if at > TAG_BYTES_MAX {
        return Match::No;
    }
    let name = text[..at].split_once(CHANNEL).map(|(_, head)| {
        let mut words = head.split(|c: char| c.is_whitespace() || c == '<');
        words.find(|word| !word.is_empty()).unwrap_or_default()
    });
    let state = if name.is_none_or(|name| name == FINAL) {
        State::Final
    } else {
        State::Channel
    };
    Match::Yes(at + MESSAGE.len(), state)
}

fn opening(text: &str) -> Match<State> {
    let elements = ELEMENTS.map(|name| element(text, "<", name).map(State::Element));
    any(elements.into_iter().chain([
        literal(text, OPENING).map(|()| State::Bracket),
        channel(text),
    ]))
}

/// Compares the start of `text` with a tag that ends reasoning; returns the state after it.
fn closing(text: &str) -> Match<State> {
    let elements = ELEMENTS.map(|name| element(text, "</", name).map(|_| State::Start));
    let head = match channel(text) {
        Match::Yes(_, State::Channel) => Match::No,
        head => head,
    };
    any(elements
        .into_iter()
        .chain([literal(text, CLOSING).map(|()| State::Start), head]))
}

fn closing_element(text: &str, name: &'static str) -> Match<()> {
    element(text, "</", name).map(|_| ())
}

/// Compares the start of `text` with the end of a channel. The start of the next one is not part of the match.
fn end_of_channel(text: &str) -> Match<()> {
    let ends = ENDS.map(|end| literal(text, end));
    let next = [START, CHANNEL].map(|next| match literal(text, next) {
        Match::Yes(_, ()) => Match::Yes(0, ()),
        other => other,
    });
    any(ends.into_iter().chain(next))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Text that remains after filtering, sent in pieces of `size` characters.
    fn shown(text: &str, size: usize, closes_alone: bool) -> (String, bool) {
        let mut filter = ReasoningFilter::new(closes_alone);
        let chars: Vec<char> = text.chars().collect();
        let mut shown = String::new();
        let mut take = |all: Vec<Filtered>| {
            for filtered in all {
                match filtered {
                    Filtered::Text(text) => shown.push_str(&text),
                    Filtered::Discard => shown.clear(),
                }
            }
        };
        for piece in chars.chunks(size) {
            take(filter.push(&piece.iter().collect::<String>()));
        }
        take(filter.finish());
        (shown, filter.has_reasoning())
    }

    const REMOVED: &[(&str, &str)] = &[
        (
            "<think>Bo mixed up the dates.</think>\n\nMonday.",
            "Monday.",
        ),
        (" \n<THINK >a</Think\n>Monday.", " \nMonday."),
        (
            "<thinking>a</thinking><thought></thought>\n<reasoning>b</reasoning> Yes.",
            "Yes.",
        ),
        ("<think></think>\n\nMonday.", "Monday."),
        ("<think>a < b, [1], </thinking> no</think>Yes.", "Yes."),
        ("[THINK]a [/THIN[/THINK]Yes.", "Yes."),
        (
            "<|channel|>analysis<|message|>We need…<|end|><|start|>assistant<|channel|>final<|message|>Hi <b>there<|return|>",
            "Hi <b>there",
        ),
        (
            "<|channel|>analysis<|message|>a<|channel|>commentary to=functions.f <|constrain|>json<|message|>{}<|call|>",
            "",
        ),
        ("<|start|>assistant<|channel|>final<|message|>Hi", "Hi"),
        ("Bo mixed up the dates.\n</think>\n\nMonday.", "Monday."),
        ("It says \"x\"</think>Hello", "Hello"),
        ("a[/THINK]b", "b"),
        ("a</think><think>b</think>c", "c"),
        (
            "We reply.<|end|><|start|>assistant<|channel|>final<|message|>Hi",
            "Hi",
        ),
        ("<think>never closed", ""),
        ("Use `</think>` as text.</think>Then.", "Then."),
    ];

    const KEPT: &[&str] = &[
        "Plain text.",
        "  Indented.",
        "Models write <think>a</think> around thoughts.",
        "The tag `</think>` closes it.",
        "The tag \"</think>\" closes it.",
        "```\na</think>b\n```\nText.",
        "<thinker>a</thinker>",
        "<thin",
        "a < b [1] </ x",
        "[THINKER]",
        "<|im_start|>",
        "`<think>` opens it.",
        "",
    ];

    #[test]
    fn reasoning_is_removed_however_the_text_is_split() {
        for (text, wanted) in REMOVED {
            for size in [1, 2, 3, 5, 7, 1_000] {
                for alone in [false, true] {
                    let (shown, has_reasoning) = shown(text, size, alone);
                    assert_eq!(&shown, wanted, "{text:?} by {size}");
                    assert!(
                        has_reasoning || text.ends_with(">Hi") || text.ends_with("\nHi"),
                        "{text:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn text_about_reasoning_stays() {
        for text in KEPT {
            for size in [1, 2, 3, 1_000] {
                for alone in [false, true] {
                    let wanted = ((*text).to_owned(), false);
                    assert_eq!(shown(text, size, alone), wanted, "{text:?} by {size}");
                }
            }
        }
    }

    #[test]
    fn text_is_held_back_only_for_a_model_that_closes_its_reasoning_alone() {
        let long = "word ".repeat(HELD_BYTES_MAX / 5 + 1);
        let mut known = ReasoningFilter::new(true);
        assert_eq!(known.push("A thought."), []);
        assert_eq!(
            known.push("</think>Yes."),
            [Filtered::Text("Yes.".to_owned())]
        );
        let mut known = ReasoningFilter::new(true);
        assert_eq!(known.push(&long), [Filtered::Text(long.clone())]);
        let after = known.push("</think>Yes.");
        assert_eq!(
            after,
            [Filtered::Discard, Filtered::Text("Yes.".to_owned())]
        );
        let mut unknown = ReasoningFilter::new(false);
        let first = unknown.push("A thought.");
        assert_eq!(first, [Filtered::Text("A thought.".to_owned())]);
    }

    #[test]
    fn unclosed_reasoning_is_not_collected() {
        let mut filter = ReasoningFilter::new(false);
        filter.push("<think>");
        for _ in 0..1_000 {
            assert_eq!(filter.push("a thought < another "), []);
        }
        assert!(filter.rest.len() < TAG_BYTES_MAX);
    }
}
