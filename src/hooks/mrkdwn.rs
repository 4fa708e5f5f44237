//! Translates Slack's mrkdwn to Markdown, in linear time.

use super::rendered::{escaped, fenced, link};

/// A piece of a line: finished Markdown, or a delimiter that may begin or end formatting.
enum Piece {
    Done(String),
    Delimiter { char: char, is_paired: bool },
}

/// Translates a text.
pub(super) fn to_markdown(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    let mut rest = text;
    while let Some(open) = rest.find("```") {
        let Some(length) = rest[open + 3..].find("```") else {
            break;
        };
        lines(&rest[..open], &mut out);
        let code = decoded(rest[open + 3..open + 3 + length].trim_matches('\n'));
        if !out.is_empty() && !out.ends_with('\n') {
            out.push('\n');
        }
        out.push_str(&fenced(&code, ""));
        rest = &rest[open + 3 + length + 3..];
        if !rest.is_empty() && !rest.starts_with('\n') {
            out.push('\n');
        }
    }
    lines(rest, &mut out);
    out
}

fn lines(text: &str, out: &mut String) {
    for (n, line) in text.split('\n').enumerate() {
        if n > 0 {
            out.push('\n');
        }
        // A quote is sent as an entity.
        let quoted = line.strip_prefix("&gt;").or_else(|| line.strip_prefix('>'));
        if let Some(quoted) = quoted {
            out.push_str("> ");
            inline(quoted.trim_start(), out);
        } else {
            inline(line, out);
        }
    }
}

/// Decodes the three entities of mrkdwn.
pub(super) fn decoded(text: &str) -> String {
    text.replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&amp;", "&")
}

fn is_word(c: Option<char>) -> bool {
    c.is_some_and(char::is_alphanumeric)
}

fn slot(c: char) -> usize {
    match c {
        '*' => 0,
        '_' => 1,
        _ => 2,
    }
}

fn inline(line: &str, out: &mut String) {
    let mut pieces: Vec<Piece> = Vec::new();
    // Position of the open delimiter of each kind.
    let mut open: [Option<usize>; 3] = [None; 3];
    let mut before: Option<char> = None;
    let mut at = 0;
    let mut has_code_end = true;
    let mut has_angle_end = true;
    while let Some(c) = line[at..].chars().next() {
        let rest = &line[at + c.len_utf8()..];
        let after = rest.chars().next();
        let mut taken = c.len_utf8();
        match c {
            '`' if has_code_end => match rest.find('`') {
                Some(length) if length > 0 => {
                    let code = decoded(&rest[..length]);
                    pieces.push(Piece::Done(format!("`{code}`")));
                    taken += length + 1;
                }
                found => {
                    has_code_end = found.is_some();
                    pieces.push(Piece::Done("\\`".to_owned()));
                }
            },
            '<' if has_angle_end => {
                if let Some(length) = rest.find('>') {
                    pieces.push(Piece::Done(reference(&rest[..length])));
                    taken += length + 1;
                } else {
                    has_angle_end = false;
                    pieces.push(Piece::Done("\\<".to_owned()));
                }
            }
            '*' | '_' | '~' => {
                let kind = slot(c);
                let can_close = before.is_some_and(|b| !b.is_whitespace()) && !is_word(after);
                let can_open = !is_word(before) && after.is_some_and(|a| !a.is_whitespace());
                let mut is_paired = false;
                if let Some(start) =
                    open[kind].filter(|start| can_close && pieces.len() > start + 1)
                {
                    if let Piece::Delimiter { is_paired, .. } = &mut pieces[start] {
                        *is_paired = true;
                    }
                    is_paired = true;
                    for other in &mut open {
                        *other = other.filter(|other| *other < start);
                    }
                } else if can_open && open[kind].is_none() {
                    open[kind] = Some(pieces.len());
                }
                pieces.push(Piece::Delimiter { char: c, is_paired });
            }
            '&' => {
                let entity = [("lt;", "\\<"), ("gt;", "\\>"), ("amp;", "&")]
                    .into_iter()
                    .find(|(name, _)| rest.starts_with(name));
                let (name, shown) = entity.unwrap_or(("", "&"));
                pieces.push(Piece::Done(shown.to_owned()));
                taken += name.len();
            }
            _ => {
                let end = line[at..]
                    .find(['`', '<', '*', '_', '~', '&'])
                    .filter(|end| *end > 0)
                    .unwrap_or_else(|| {
                        if matches!(c, '`' | '<') {
                            taken
                        } else {
                            line.len() - at
                        }
                    });
                let text = &line[at..at + end];
                let text = if at == 0 {
                    kept_start(text)
                } else {
                    inner(text)
                };
                pieces.push(Piece::Done(text));
                taken = end;
            }
        }
        at += taken;
        before = line[..at].chars().next_back();
    }
    for piece in pieces {
        match piece {
            Piece::Done(text) => out.push_str(&text),
            Piece::Delimiter { char, is_paired } => match (char, is_paired) {
                ('*', true) => out.push_str("**"),
                ('~', true) => out.push_str("~~"),
                ('_', true) => out.push('_'),
                (char, _) => {
                    out.push('\\');
                    out.push(char);
                }
            },
        }
    }
}

/// Escapes the beginning of a line; list items stay list items.
fn kept_start(text: &str) -> String {
    let trimmed = text.trim_start();
    let indent = &text[..text.len() - trimmed.len()];
    let indent = if indent.len() > 3 { "   " } else { indent };
    for (bullet, shown) in [("• ", "- "), ("- ", "- ")] {
        if let Some(item) = trimmed.strip_prefix(bullet) {
            return format!("{indent}{shown}{}", inner(item));
        }
    }
    format!("{indent}{}", escaped(trimmed))
}

/// Escapes text within a line.
fn inner(text: &str) -> String {
    let mut out = escaped(text);
    // Only the beginning of a line can start a block.
    if out.starts_with("\\#") || out.starts_with("\\-") || out.starts_with("\\+") {
        out.remove(0);
    }
    out
}

/// Translates what is between `<` and `>`: a link, a mention, or a date.
fn reference(inside: &str) -> String {
    let (target, label) = match inside.split_once('|') {
        Some((target, label)) => (target, decoded(label)),
        None => (inside, String::new()),
    };
    let target = decoded(target);
    let first = target.chars().next();
    let named = |sign: char, name: &str| {
        let name = if label.is_empty() { name } else { &label };
        format!("{sign}{}", escaped(name.trim_start_matches(sign)))
    };
    match first {
        Some('@') => named('@', &target[1..]),
        Some('#') => named('#', &target[1..]),
        Some('!') => {
            let command = &target[1..];
            match command.split('^').next().unwrap_or_default() {
                "here" | "channel" | "everyone" => format!("@{command}"),
                "date" | "subteam" => {
                    let shown = if label.is_empty() { command } else { &label };
                    escaped(shown)
                }
                _ => named('@', command),
            }
        }
        _ => match target.strip_prefix("mailto:") {
            Some(address) if label.is_empty() => escaped(address),
            Some(address) if label == address => escaped(address),
            _ => link(&label, &target),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::to_markdown;

    #[test]
    fn mrkdwn_becomes_markdown() {
        for (mrkdwn, markdown) in [
            (
                "*bold* and _italic_ and ~gone~",
                "**bold** and _italic_ and ~~gone~~",
            ),
            (
                "2*3*4 and snake_case_name",
                "2\\*3\\*4 and snake\\_case\\_name",
            ),
            ("*a _b_ c*", "**a _b_ c**"),
            ("* not bold *", "\\* not bold \\*"),
            ("`*code*` and `a &lt; b`", "`*code*` and `a < b`"),
            (
                "a ```x *y* &amp;&amp; z``` b",
                "a \n```\nx *y* && z\n```\n b",
            ),
            ("&lt;script&gt; &amp; more", "\\<script\\> & more"),
            ("&gt; quoted *text*", "> quoted **text**"),
            (
                "<https://example.org|the *site*>",
                "[the \\*site\\*](<https://example.org>)",
            ),
            (
                "<https://example.org?a=1&amp;b=2>",
                "<https://example.org?a=1&b=2>",
            ),
            ("<javascript:alert(1)|click>", "click (javascript:alert(1))"),
            ("<@U123|ada> in <#C1|general>", "@ada in #general"),
            (
                "<!here> <!channel> <!subteam^S1|@ops>",
                "@here @channel @ops",
            ),
            ("<!date^1392734382^{date}|Feb 18>", "Feb 18"),
            ("<mailto:a@b.org|a@b.org>", "a@b.org"),
            ("• one\n• two", "- one\n- two"),
            ("# no heading [no](link)", "\\# no heading \\[no\\](link)"),
            ("open < angle", "open \\< angle"),
            ("it's *fine*, really", "it's **fine**, really"),
            ("*one* *two*", "**one** **two**"),
            ("", ""),
        ] {
            assert_eq!(to_markdown(mrkdwn), markdown, "{mrkdwn}");
        }
    }

    #[test]
    fn hostile_mrkdwn_takes_linear_time() {
        let started = std::time::Instant::now();
        for piece in [
            "*a ", "_", "~x", "`", "<", "```", "&", "*_~", "<@", ">", "[", "\n*",
        ] {
            let text = piece.repeat(300_000 / piece.len());
            assert!(to_markdown(&text).len() < 4 * text.len() + 100, "{piece}");
        }
        assert!(started.elapsed().as_secs() < 20);
    }
}
