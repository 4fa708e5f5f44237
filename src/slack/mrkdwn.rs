//! Translates Markdown to Slack's mrkdwn.

use std::{collections::HashMap, fmt::Write};

use crate::chat::messages::{Mention, MentionKind};

use super::ids::user_id;

/// Nesting of formatting that is translated.
const DEPTH_MAX: usize = 6;
/// Delimiters of the number of a mention, which stands for it while the text around it is translated.
const OPEN: char = '\u{e000}';
const CLOSE: char = '\u{e001}';

/// Translates a message. Mentions become references.
pub fn to_mrkdwn(content: &str, mentions: &[Mention]) -> String {
    let (marked, references) = mark(content, mentions);
    let mut out = String::with_capacity(marked.len() + 16);
    let mut fence: Option<&str> = None;
    for (n, line) in marked.split('\n').enumerate() {
        if n > 0 {
            out.push('\n');
        }
        let trimmed = line.trim_start();
        let ticks = trimmed.len() - trimmed.trim_start_matches('`').len();
        match fence {
            Some(open) if trimmed.trim_end() == open => {
                fence = None;
                out.push_str("```");
            }
            Some(_) => escape(line, &mut out),
            None if ticks >= 3 => {
                fence = Some(&trimmed[..ticks]);
                out.push_str("```");
            }
            None => self::line(line, &mut out),
        }
    }
    if fence.is_some() {
        out.push_str("\n```");
    }
    let mut parts = out.split(OPEN);
    let mut shown = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (number, rest) = part.split_once(CLOSE).unwrap_or(("", part));
        let reference = number.parse::<usize>().ok().and_then(|n| references.get(n));
        shown.push_str(reference.map_or("", String::as_str));
        shown.push_str(rest);
    }
    shown
}

/// Replaces mentions by their numbers.
fn mark(content: &str, mentions: &[Mention]) -> (String, Vec<String>) {
    let mut out = String::with_capacity(content.len());
    let mut references = Vec::new();
    let by_start: HashMap<usize, &Mention> = mentions
        .iter()
        .map(|mention| (mention.start, mention))
        .collect();
    let (mut unit, mut skipped_until) = (0, 0);
    for c in content.chars() {
        let found = by_start.get(&unit).copied();
        if let Some(reference) = found.and_then(reference).filter(|_| unit >= skipped_until) {
            skipped_until = unit + found.map_or(0, |mention| mention.length);
            write!(out, "{OPEN}{}{CLOSE}", references.len()).ok();
            references.push(reference);
        }
        if unit >= skipped_until && c != OPEN && c != CLOSE {
            out.push(c);
        }
        unit += c.len_utf16();
    }
    (out, references)
}

fn reference(mention: &Mention) -> Option<String> {
    match mention.kind {
        MentionKind::Group => Some(format!("<!{}>", mention.handle.trim_start_matches('@'))),
        MentionKind::Agent | MentionKind::User => {
            let id = super::ids::parse_user(mention.id.as_deref()?)?;
            Some(format!("<@{}>", user_id(id)))
        }
    }
}

fn escape(text: &str, out: &mut String) {
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            _ => out.push(c),
        }
    }
}

fn line(line: &str, out: &mut String) {
    let trimmed = line.trim_start();
    let indent = &line[..line.len() - trimmed.len()];
    let hashes = trimmed.len() - trimmed.trim_start_matches('#').len();
    if (1..=6).contains(&hashes)
        && let Some(title) = trimmed[hashes..].strip_prefix(' ')
    {
        out.push('*');
        inline(title.trim().trim_matches('*'), 1, out);
        out.push('*');
        return;
    }
    out.push_str(indent);
    for bullet in ["- ", "* ", "+ "] {
        if let Some(item) = trimmed.strip_prefix(bullet) {
            out.push_str("• ");
            inline(item, 0, out);
            return;
        }
    }
    if let Some(quoted) = trimmed.strip_prefix('>') {
        out.push_str("&gt; ");
        inline(quoted.trim_start(), 0, out);
        return;
    }
    inline(trimmed, 0, out);
}

/// Delimiters of Markdown and what they become.
const DELIMITERS: &[(&str, &str)] = &[
    ("**", "*"),
    ("__", "*"),
    ("~~", "~"),
    ("*", "_"),
    ("_", "_"),
];

fn inline(text: &str, depth: usize, out: &mut String) {
    // Delimiters without an end in the rest of the text, which are not looked for again.
    let mut endless = [false; 5];
    let mut has_link_end = true;
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        let rest = &text[at..];
        let next = &rest[c.len_utf8()..];
        match c {
            '\\' if next.starts_with(|c: char| c.is_ascii_punctuation()) => {
                escape(&next[..1], out);
                at += 2;
                continue;
            }
            '`' => {
                if let Some(length) = next.find('`').filter(|length| *length > 0) {
                    out.push('`');
                    escape(&next[..length], out);
                    out.push('`');
                    at += length + 2;
                    continue;
                }
            }
            '<' => {
                let target = next.split_once('>').map(|(target, _)| target);
                if let Some(target) = target.filter(|target| is_url(target)) {
                    out.push('<');
                    escape(target, out);
                    out.push('>');
                    at += target.len() + 2;
                    continue;
                }
            }
            '[' if has_link_end && depth < DEPTH_MAX => match link(rest) {
                Some(found) => {
                    out.push('<');
                    escape(found.url, out);
                    out.push('|');
                    let mut label = String::new();
                    inline(found.label, DEPTH_MAX, &mut label);
                    out.push_str(&label.replace('|', "¦"));
                    out.push('>');
                    at += found.length;
                    continue;
                }
                None => has_link_end = next.contains("]("),
            },
            '*' | '_' | '~' if depth < DEPTH_MAX => {
                let before = text[..at].chars().next_back();
                if let Some(found) = emphasis(rest, before, &mut endless) {
                    out.push_str(found.shown);
                    inline(found.inside, depth + 1, out);
                    out.push_str(found.shown);
                    at += found.length;
                    continue;
                }
            }
            _ => {}
        }
        escape(&rest[..c.len_utf8()], out);
        at += c.len_utf8();
    }
}

fn is_url(text: &str) -> bool {
    let has_scheme = ["http://", "https://", "mailto:"];
    has_scheme.iter().any(|scheme| text.starts_with(scheme))
        && !text.contains(|c: char| c.is_whitespace() || c == '|')
}

struct Link<'a> {
    label: &'a str,
    url: &'a str,
    length: usize,
}

/// The link at the beginning of a text.
fn link(text: &str) -> Option<Link<'_>> {
    const LABEL_MAX: usize = 1000;
    let (label, rest) = text[1..].split_once("](")?;
    if label.len() > LABEL_MAX || label.contains('[') {
        return None;
    }
    let (url, end) = if let Some(inner) = rest.strip_prefix('<') {
        let (url, after) = inner.split_once('>')?;
        after.strip_prefix(')')?;
        (url, url.len() + 3)
    } else {
        let (url, _) = rest.split_once(')')?;
        (url, url.len() + 1)
    };
    is_url(url).then_some(Link {
        label,
        url,
        length: 1 + label.len() + 2 + end,
    })
}

struct Emphasis<'a> {
    shown: &'static str,
    inside: &'a str,
    length: usize,
}

/// The formatted text at the beginning of a text.
fn emphasis<'a>(
    text: &'a str,
    before: Option<char>,
    endless: &mut [bool; 5],
) -> Option<Emphasis<'a>> {
    for (n, (delimiter, shown)) in DELIMITERS.iter().enumerate() {
        let Some(rest) = text.strip_prefix(delimiter) else {
            continue;
        };
        let opens = rest.starts_with(|c: char| !c.is_whitespace());
        let is_inside_word = before.is_some_and(char::is_alphanumeric);
        if endless[n] || !opens || is_inside_word {
            return None;
        }
        let end = rest
            .match_indices(delimiter)
            .map(|(end, _)| end)
            .find(|end| {
                let inside = &rest[..*end];
                !inside.is_empty()
                    && !inside.ends_with(char::is_whitespace)
                    && (delimiter.len() > 1 || !rest[end + 1..].starts_with(delimiter))
                    && (delimiter.len() > 1 || !inside.ends_with(delimiter))
            });
        let Some(end) = end else {
            endless[n] = true;
            return None;
        };
        return Some(Emphasis {
            shown,
            inside: &rest[..end],
            length: delimiter.len() * 2 + end,
        });
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markdown_becomes_mrkdwn() {
        for (markdown, mrkdwn) in [
            (
                "**bold** _italic_ ~~gone~~ *also*",
                "*bold* _italic_ ~gone~ _also_",
            ),
            ("2\\*3\\*4 and snake\\_case", "2*3*4 and snake_case"),
            (
                "[the site](<https://example.org>)",
                "<https://example.org|the site>",
            ),
            (
                "[a](https://b.org/?x=1&y=2) <https://c.org>",
                "<https://b.org/?x=1&amp;y=2|a> <https://c.org>",
            ),
            (
                "# Title\n- one\n- two\n> quoted",
                "*Title*\n• one\n• two\n&gt; quoted",
            ),
            ("a < b & c > d", "a &lt; b &amp; c &gt; d"),
            (
                "`a < b`\n```rust\nx < **y**\n```",
                "`a &lt; b`\n```\nx &lt; **y**\n```",
            ),
            ("**a _b_ c**", "*a _b_ c*"),
            ("[x](javascript:alert(1))", "[x](javascript:alert(1))"),
            ("** not bold **", "** not bold **"),
            ("", ""),
        ] {
            assert_eq!(to_mrkdwn(markdown, &[]), mrkdwn, "{markdown}");
        }
    }

    #[test]
    fn mentions_become_references() {
        let id = uuid::Uuid::now_v7();
        let mentions = [
            Mention {
                kind: MentionKind::User,
                id: Some(crate::ids::UserId(id).to_string()),
                handle: "ada".to_owned(),
                start: 5,
                length: 4,
            },
            Mention {
                kind: MentionKind::Group,
                id: None,
                handle: "here".to_owned(),
                start: 14,
                length: 5,
            },
        ];
        let expected = format!("🎉 *<@{}>* & <!here>", user_id(id)).replace("& ", "&amp; ");
        assert_eq!(to_mrkdwn("🎉 **@ada** & @here", &mentions), expected);
    }

    #[test]
    fn hostile_markdown_takes_linear_time() {
        let started = std::time::Instant::now();
        for piece in [
            "*a ", "**a ", "_", "~~x", "`", "[", "[a](", "<", "```\n", "\\", "> ", "*_~",
        ] {
            let text = piece.repeat(32_000 / piece.len());
            assert!(
                to_mrkdwn(&text, &[]).len() < 8 * text.len() + 100,
                "{piece}"
            );
        }
        assert!(started.elapsed().as_secs() < 20);
    }
}
