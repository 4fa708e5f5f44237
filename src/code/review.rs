//! Comments on lines of a session's changes: a message that quotes the lines.

use std::borrow::Cow;

use serde::Deserialize;

use super::{
    CodeError,
    sessions::{self, SessionAccess},
    texts::{self, TextOwner},
};
use crate::{
    auth::{Caller, Role},
    chat::mentions,
    db::Conn,
    ids::CodeSessionId,
    realtime::hub::Conversation,
    text_enum::text_enum,
};

const COMMENTS_MAX: usize = 50;
const LINE_CHARS_MAX: usize = 500;

text_enum! {
    /// Side of a diff.
    pub enum ReviewSide {
        /// A removed or unchanged line of the old text.
        Old = "old",
        /// An added or unchanged line of the new text.
        New = "new",
    }
}

/// A comment on a line of a diff.
#[derive(Debug, Clone, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReviewComment {
    pub path: String,
    pub side: ReviewSide,
    /// Number of the line on this side, from 1.
    pub line: u32,
    pub text: String,
}

/// Comments on the changes of a session, whose lines the message quotes after its text.
#[derive(Debug, Clone, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReviewForm {
    pub session_id: CodeSessionId,
    /// `tree` of the session whose changes the caller has seen.
    pub tree: String,
    /// 1 to 50 comments.
    #[schema(min_items = 1, max_items = 50)]
    pub comments: Vec<ReviewComment>,
}

/// What someone comments on.
pub struct Reviewed {
    /// The compressed patch.
    pub patch: Vec<u8>,
    /// Handle of the agent that has made the changes; `None` if it was deleted.
    pub agent: Option<String>,
}

/// Finds the changes on which someone comments.
///
/// # Errors
/// `SessionNotFound` unless the session belongs to the conversation, `DiffChanged` for another tree, or `Invalid`.
pub async fn find_reviewed(
    c: &mut Conn,
    caller: &Caller,
    conversation: Conversation,
    form: &ReviewForm,
) -> Result<Reviewed, CodeError> {
    let SessionAccess { row, place } = sessions::enter(c, caller, form.session_id).await?;
    let place = place.reading()?;
    if row.conversation() != conversation || place.channel_access.actor.role == Role::Guest {
        return Err(CodeError::SessionNotFound);
    }
    let count = form.comments.len();
    let is_blank = |comment: &ReviewComment| comment.text.trim().is_empty();
    if count == 0 || count > COMMENTS_MAX || form.comments.iter().any(is_blank) {
        let text = "a review has 1 to 50 comments with a text";
        return Err(CodeError::Invalid(text.to_owned(), "review"));
    }
    if row.tree.as_ref() != Some(&form.tree) {
        return Err(CodeError::DiffChanged);
    }
    let patch = texts::find(c, row.id, TextOwner::Patch(row.id)).await?;
    let agent: Option<(String,)> = c
        .q("select name from agents where id = $1")
        .bind(row.agent_id)
        .opt()
        .await?;
    Ok(Reviewed {
        patch: patch.ok_or(CodeError::DiffChanged)?,
        agent: agent.map(|(name,)| name),
    })
}

/// Numbers of a hunk: first line and count on both sides.
fn hunk(line: &str) -> Option<[(u32, u32); 2]> {
    let mut words = line.strip_prefix("@@ ")?.split(' ');
    let mut side = |sign: char| {
        let range = words.next()?.strip_prefix(sign)?;
        let (first, count) = range.split_once(',').unwrap_or((range, "1"));
        Some((first.parse().ok()?, count.parse().ok()?))
    };
    Some([side('-')?, side('+')?])
}

/// A path as git writes it: in quotes and with escapes if it has unusual characters, such as `"a/\303\251"`.
fn unquoted(text: &str) -> Cow<'_, str> {
    let quoted = text.strip_prefix('"');
    let Some(quoted) = quoted.and_then(|text| text.strip_suffix('"')) else {
        return Cow::Borrowed(text);
    };
    let mut path = Vec::with_capacity(quoted.len());
    let mut rest = quoted.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            path.push(byte);
            continue;
        }
        path.push(match rest.next() {
            Some(b'a') => 7,
            Some(b'b') => 8,
            Some(b't') => b'\t',
            Some(b'n') => b'\n',
            Some(b'v') => 11,
            Some(b'f') => 12,
            Some(b'r') => b'\r',
            Some(digit @ b'0'..=b'7') => {
                let others = rest.by_ref().take(2);
                others.fold(digit & 7, |value, digit| (value << 3) | (digit & 7))
            }
            Some(other) => other,
            None => b'\\',
        });
    }
    Cow::Owned(String::from_utf8_lossy(&path).into_owned())
}

/// The path in a line such as `--- a/x`; `None` for a file that does not exist. A path with a space ends with a tab.
fn path_of(text: &str) -> Option<String> {
    let path = unquoted(text.strip_suffix('\t').unwrap_or(text));
    let (side, path) = path.split_once('/')?;
    (!side.is_empty()).then(|| path.to_owned())
}

/// Finds a line in a patch; `None` if it is not in it.
fn find_line<'a>(patch: &'a str, comment: &ReviewComment) -> Option<&'a str> {
    let mut paths = [None, None];
    let mut at = [(0, 0), (0, 0)];
    for line in patch.lines() {
        if at[0].1 == 0 && at[1].1 == 0 {
            if line.starts_with("diff --git ") {
                paths = [None, None];
            } else if let Some(path) = line.strip_prefix("--- ") {
                paths[0] = path_of(path);
            } else if let Some(path) = line.strip_prefix("+++ ") {
                paths[1] = path_of(path);
            } else if let Some(begun) = hunk(line) {
                at = begun;
            }
            continue;
        }
        let (on_old, on_new) = match line.as_bytes().first() {
            Some(b'-') => (true, false),
            Some(b'+') => (false, true),
            Some(b'\\') => continue,
            _ => (true, true),
        };
        let (number, is_on) = match comment.side {
            ReviewSide::Old => (at[0].0, on_old),
            ReviewSide::New => (at[1].0, on_new),
        };
        let mut known = paths.iter().flatten();
        if is_on && number == comment.line && known.any(|path| *path == comment.path) {
            return Some(line.get(1..).unwrap_or_default());
        }
        for (side, is_on) in at.iter_mut().zip([on_old, on_new]) {
            if is_on {
                *side = (side.0.saturating_add(1), side.1.saturating_sub(1));
            }
        }
    }
    None
}

/// A fence that is longer than every run of backticks in a text.
fn fence(text: &str) -> String {
    let longest = text
        .split(|c| c != '`')
        .map(str::len)
        .max()
        .unwrap_or_default();
    "`".repeat(longest.max(2) + 1)
}

/// The text with a mention of the agent, which then answers the comments.
pub fn with_mention(content: &str, agent: &str) -> String {
    let found = mentions::parse(content);
    let mut handles = found.iter().flat_map(|mention| &mention.candidates);
    if handles.any(|handle| handle == agent) {
        content.to_owned()
    } else {
        format!("@{agent} {content}")
    }
}

/// The text of a message with the lines and the comments on them.
///
/// # Errors
/// `DiffChanged` if a line is not in the patch.
pub fn with_comments(
    content: &str,
    patch: &str,
    comments: &[ReviewComment],
) -> Result<String, CodeError> {
    let mut text = content.trim_end().to_owned();
    for comment in comments {
        let line = find_line(patch, comment).ok_or(CodeError::DiffChanged)?;
        let line: String = line.chars().take(LINE_CHARS_MAX).collect();
        let path = comment.path.replace(['`', '\n', '\r'], "'");
        let (number, fence) = (comment.line, fence(&line));
        let side = match comment.side {
            ReviewSide::Old => "removed line",
            ReviewSide::New => "line",
        };
        let words = comment.text.trim();
        let part = format!("`{path}`, {side} {number}:\n{fence}\n{line}\n{fence}\n{words}");
        let gap = if text.is_empty() { "" } else { "\n\n" };
        text.push_str(gap);
        text.push_str(&part);
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_review_mentions_its_agent_once() {
        for (content, expected) in [
            ("", "@coder "),
            ("See below", "@coder See below"),
            ("`@coder` and @coder-2", "@coder `@coder` and @coder-2"),
            ("Please, @Coder, look", "Please, @Coder, look"),
        ] {
            assert_eq!(with_mention(content, "coder"), expected);
        }
    }

    const PATCH: &str = "diff --git a/src/a.rs b/src/b.rs\nrename from src/a.rs\n--- a/src/a.rs\n+++ b/src/b.rs\n@@ -3,3 +3,3 @@ fn a()\n \
        let x = 1;\n-let y = 2;\n+let `y` = 3;\n --- end\n\\ No newline at end of file\ndiff --git a/c b/c\n--- /dev/null\n+++ b/c\n@@ -0,0 +1 @@\n+@vibe\n";

    fn on(path: &str, side: ReviewSide, line: u32) -> ReviewComment {
        ReviewComment {
            path: path.to_owned(),
            side,
            line,
            text: " Why? ".to_owned(),
        }
    }

    #[test]
    fn a_line_is_found_by_path_side_and_number() {
        let find = |path: &str, side, line| find_line(PATCH, &on(path, side, line));
        assert_eq!(find("src/b.rs", ReviewSide::New, 4), Some("let `y` = 3;"));
        assert_eq!(find("src/b.rs", ReviewSide::Old, 4), Some("let y = 2;"));
        assert_eq!(find("src/a.rs", ReviewSide::Old, 3), Some("let x = 1;"));
        assert_eq!(find("src/b.rs", ReviewSide::New, 5), Some("--- end"));
        assert_eq!(find("c", ReviewSide::New, 1), Some("@vibe"));
        for (path, side, line) in [
            ("src/b.rs", ReviewSide::New, 6),
            ("src/b.rs", ReviewSide::New, 0),
            ("c", ReviewSide::Old, 1),
            ("d", ReviewSide::New, 1),
            ("", ReviewSide::New, 4),
            ("dev/null", ReviewSide::New, 1),
        ] {
            assert_eq!(find(path, side, line), None, "{path} {line}");
        }
    }

    #[test]
    fn paths_are_read_as_git_quotes_them() {
        // As `git diff` writes them, with `core.quotePath`.
        let patch = "diff --git \"a/d/\\303\\274 \\\"x\\\".rs\" \"b/d/\\303\\274 \\\"x\\\".rs\"\n--- \"a/d/\\303\\274 \\\"x\\\".rs\"\n\
            +++ \"b/d/\\303\\274 \\\"x\\\".rs\"\n@@ -1 +1 @@\n-one\n+two\ndiff --git a/a b.txt b/a b.txt\n--- a/a b.txt\t\n+++ b/a b.txt\t\n\
            @@ -1 +1 @@\n-three\n+four\n";
        let find = |path: &str| find_line(patch, &on(path, ReviewSide::New, 1));
        assert_eq!(find("d/ü \"x\".rs"), Some("two"));
        assert_eq!(find("a b.txt"), Some("four"));
        assert_eq!(find("d/\\303\\274 \\\"x\\\".rs"), None);
        for (text, path) in [
            (r#""a/\\\t\n\a\b\v\f\r""#, "a/\\\t\n\u{7}\u{8}\u{b}\u{c}\r"),
            (r#""\777\""#, "\u{fffd}\\"),
            (r#"""#, "\""),
            ("plain", "plain"),
        ] {
            assert_eq!(unquoted(text), path, "{text}");
        }
    }

    #[test]
    fn lines_are_quoted_as_code() {
        let comments = [
            on("src/b.rs", ReviewSide::New, 4),
            on("c", ReviewSide::New, 1),
        ];
        let text = with_comments("@coder look\n", PATCH, &comments).unwrap();
        assert_eq!(
            text,
            "@coder look\n\n`src/b.rs`, line 4:\n```\nlet `y` = 3;\n```\nWhy?\n\n`c`, line 1:\n```\n@vibe\n```\nWhy?"
        );
        assert_eq!(fence("a ``` b"), "````");
        let missing = with_comments("", PATCH, &[on("d", ReviewSide::New, 1)]);
        assert!(matches!(missing, Err(CodeError::DiffChanged)));
    }
}
