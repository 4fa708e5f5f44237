//! Marks such as `[S1]` with which a model cites results of functions. They are removed from the text while it is streamed; the
//! citations become annotations.

use crate::{replies::citations::handles_of, tools::output::Handled};

/// Maximum size of a mark in bytes. Text after a bracket is held back up to this size.
const MARK_BYTES_MAX: usize = 200;
/// Maximum number of marks that are read; additional ones are removed.
const MARKS_MAX: usize = 500;

/// Objects with a handle, in the order of their numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Handles(Vec<Handled>);

impl Handles {
    pub(super) fn of(handled: Vec<Handled>) -> Self {
        Self(handled)
    }

    pub(super) fn list(&self) -> &[Handled] {
        &self.0
    }

    fn has_passages(&self) -> bool {
        let mut all = self.0.iter();
        all.any(|of| matches!(of, Handled::Passage(_)))
    }

    /// Returns the handle of an object, which gets one if it has none.
    pub(super) fn assign(&mut self, of: Handled) -> String {
        let known = self.0.iter().position(|known| *known == of);
        let at = known.unwrap_or_else(|| {
            self.0.push(of);
            self.0.len() - 1
        });
        format!("{}{}", of.letter(), at + 1)
    }

    /// Finds the object to which a handle refers. Brackets around it are ignored.
    pub(super) fn find(&self, handle: &str) -> Option<Handled> {
        let handle = handle.trim_matches(['[', ']', ' ']);
        let (kind, number) = handle.split_at_checked(1)?;
        let at = number.parse::<usize>().ok()?.checked_sub(1)?;
        let of = *self.0.get(at)?;
        let letter = kind.chars().next()?.to_ascii_uppercase();
        (letter == of.letter()).then_some(of)
    }
}

/// Part of a text.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Segment {
    Text(String),
    /// A mark, with the objects that it names; none if they are unknown or not read.
    Mark(Vec<(String, Handled)>),
}

/// Separates a text from its marks. The beginning of a possible mark is held back, with the spaces before it.
#[derive(Debug, Default)]
pub(super) struct MarkFilter {
    held: String,
    /// True after a mark at the start of a line, whose following spaces are removed.
    skips_spaces: bool,
    /// Number of marks so far, including those in code.
    count: usize,
}

/// Result of reading a bracket.
enum Bracket {
    /// More text is needed.
    Open,
    Other,
    /// A mark that ends at this position.
    Mark(usize, Vec<(String, Handled)>),
}

impl MarkFilter {
    pub(super) fn push(&mut self, piece: &str) {
        self.held.push_str(piece);
    }

    /// Drops what is held back.
    pub(super) fn clear(&mut self) {
        self.held.clear();
        self.skips_spaces = false;
    }

    /// Returns the next segment, or `None` until there is more text. `text` is the text before it. With `is_end`, nothing is held back.
    pub(super) fn next(&mut self, text: &str, handles: &Handles, is_end: bool) -> Option<Segment> {
        if self.skips_spaces {
            let spaces = self.held.len() - self.held.trim_start_matches([' ', '\t']).len();
            self.held.drain(..spaces);
            self.skips_spaces = self.held.is_empty();
        }
        let open = self.held.find(['[', '【']).unwrap_or(self.held.len());
        let before = self.held[..open].trim_end_matches([' ', '\t']).len();
        if before > 0 {
            return self.take(before);
        }
        if open == self.held.len() {
            return self.take(if is_end { open } else { 0 });
        }
        match self.bracket(open, text, handles, is_end) {
            Bracket::Open => None,
            Bracket::Other => {
                let bracket = self.held[open..].chars().next().map_or(0, char::len_utf8);
                self.take(open + bracket)
            }
            Bracket::Mark(end, named) => {
                self.held.drain(..end);
                self.skips_spaces = text.is_empty() || text.ends_with('\n');
                Some(Segment::Mark(named))
            }
        }
    }

    fn take(&mut self, end: usize) -> Option<Segment> {
        (end > 0).then(|| Segment::Text(self.held.drain(..end).collect()))
    }

    fn bracket(&mut self, open: usize, text: &str, handles: &Handles, is_end: bool) -> Bracket {
        let rest = &self.held[open..];
        let inner = rest.char_indices().skip(1);
        let mut ends = inner.filter(|(_, c)| matches!(c, ']' | '】' | '\n' | '[' | '【'));
        let end = match ends.next() {
            Some((at, c @ (']' | '】'))) => at + c.len_utf8(),
            None if rest.len() <= MARK_BYTES_MAX && !is_end => return Bracket::Open,
            _ => return Bracket::Other,
        };
        if end > MARK_BYTES_MAX {
            return Bracket::Other;
        }
        let names = handles_of(&rest[..end]);
        // Handles of passages that a model made up are not left in the text.
        let is_known = |name: &String| {
            handles.find(name).is_some() || handles.has_passages() && name.starts_with('P')
        };
        if names.is_empty() || !names.iter().all(is_known) {
            return Bracket::Other;
        }
        let named = names.into_iter();
        let named: Vec<(String, Handled)> = named
            .filter_map(|handle| handles.find(&handle).map(|of| (handle, of)))
            .collect();
        match rest[end..].chars().next() {
            // The text of a link.
            Some('(') => return Bracket::Other,
            None if !is_end => return Bracket::Open,
            _ => {}
        }
        if self.count == MARKS_MAX {
            return Bracket::Mark(open + end, Vec::new());
        }
        self.count += 1;
        if ends_in_code(text) {
            return Bracket::Other;
        }
        Bracket::Mark(open + end, named)
    }
}

/// Checks whether a text ends in a code block or within code in a line.
fn ends_in_code(text: &str) -> bool {
    let is_fence = |line: &&str| line.trim_start().starts_with("```");
    let fences = text.lines().filter(is_fence).count();
    let line = text.rsplit('\n').next().unwrap_or_default();
    fences % 2 == 1 || line.matches('`').count() % 2 == 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        ids::{FileId, MessageId},
        tools::output::PassagePlace,
    };

    fn handles() -> Handles {
        Handles::of(vec![
            Handled::Message(MessageId::new()),
            Handled::File(FileId::new()),
        ])
    }

    /// Filters a text in these pieces. Returns the text without marks, and the position and handles of each mark.
    fn filtered(pieces: &[&str]) -> (String, Vec<(usize, String)>) {
        let (mut filter, handles) = (MarkFilter::default(), handles());
        let (mut text, mut marks) = (String::new(), Vec::new());
        for (at, piece) in pieces.iter().enumerate() {
            filter.push(piece);
            while let Some(segment) = filter.next(&text, &handles, at + 1 == pieces.len()) {
                match segment {
                    Segment::Text(more) => text.push_str(&more),
                    Segment::Mark(named) => {
                        let names: Vec<String> = named.into_iter().map(|(name, _)| name).collect();
                        marks.push((text.len(), names.join(" ")));
                    }
                }
            }
        }
        (text, marks)
    }

    #[test]
    fn marks_are_removed_however_the_text_is_split() {
        let whole =
            "On Monday [S1, F2]. At nine 【s1】!\n[F2] See `a[S1]` and [S1](x), or [F5], [x] [S1]";
        let expected = "On Monday. At nine!\nSee `a[S1]` and [S1](x), or [F5], [x]";
        let marks = [(9, "S1 F2"), (18, "S1"), (20, "F2"), (expected.len(), "S1")];
        let marks = marks.map(|(at, names)| (at, names.to_owned()));
        for size in [1, 2, 5, whole.len()] {
            let chars: Vec<char> = whole.chars().collect();
            let pieces: Vec<String> = chars.chunks(size).map(|c| c.iter().collect()).collect();
            let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
            let (text, found) = filtered(&pieces);
            assert_eq!(text, expected, "{size}");
            assert_eq!(found, marks, "{size}");
        }
    }

    #[test]
    fn text_after_a_bracket_is_not_held_back_forever() {
        let long = format!("[{}", "x".repeat(MARK_BYTES_MAX));
        assert_eq!(filtered(&[&long, " y", ""]).0, format!("{long} y"));
        let mut filter = MarkFilter::default();
        filter.push(&long);
        assert!(filter.next("", &handles(), false).is_some());
    }

    #[test]
    fn made_up_passages_and_marks_beyond_the_limit_are_removed() {
        let place = PassagePlace {
            file: FileId::new(),
            part: 1,
            from: 0,
            to: 9,
        };
        let handles = Handles::of(vec![Handled::Passage(place)]);
        let filtered = |whole: &str| {
            let (mut filter, mut text, mut marks) = (MarkFilter::default(), String::new(), 0);
            filter.push(whole);
            while let Some(segment) = filter.next(&text, &handles, true) {
                match segment {
                    Segment::Text(more) => text.push_str(&more),
                    Segment::Mark(named) => marks += named.len(),
                }
            }
            (text, marks)
        };
        assert_eq!(
            filtered("On Monday [P1]. At nine [P7]."),
            ("On Monday. At nine.".to_owned(), 1)
        );
        let (text, marks) = filtered(&"So [P1]. ".repeat(MARKS_MAX + 20));
        assert!(!text.contains("[P"));
        assert_eq!(marks, MARKS_MAX);
    }

    #[test]
    fn a_handle_refers_to_an_object_of_its_kind() {
        let mut handles = handles();
        let first = handles.list()[0];
        assert_eq!(handles.find("[s1]"), Some(first));
        for unknown in ["S2", "F1", "S0", "S3", "S", "", "ß1"] {
            assert_eq!(handles.find(unknown), None, "{unknown}");
        }
        assert_eq!(handles.assign(first), "S1");
        assert_eq!(handles.assign(Handled::File(FileId::new())), "F3");
    }
}
