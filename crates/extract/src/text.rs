//! Tokens. The same tokenizer reads messages and the phrases of the data files.

use unicode_normalization::UnicodeNormalization;

/// Quotations of up to this many words are treated as names, and longer ones as somebody else's words.
const QUOTED_NAME_WORDS_MAX: usize = 3;
const SMILEYS: [&str; 10] = [":-)", ";-)", ":)", ";)", ":(", ":-(", ":D", ":P", "<3", "^^"];
/// Prefixes that French and Spanish elide before a vowel; they are words of their own.
const ELIDED: &str = " j l d n m t s c qu jusqu lorsqu puisqu ";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Word,
    /// A token that starts with a digit, or with a sign and a digit.
    Number,
    /// `@handle`.
    Mention,
    Url,
    /// Inline code, or a word that contains a digit, an underscore, or an inner dot.
    Identifier,
    Emoji,
    Mark,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    pub kind: Kind,
    /// The word in lowercase, without accents or apostrophes.
    pub word: String,
    /// Byte range in the sentence.
    pub from: usize,
    pub to: usize,
    /// `true` if the token is inside a quotation that is too long to be a name.
    pub is_quoted: bool,
}

impl Token {
    pub(crate) fn is_text(&self) -> bool {
        !matches!(self.kind, Kind::Mark | Kind::Emoji)
    }
}

/// Converts a text to lowercase and removes accents.
pub(crate) fn fold(text: &str) -> String {
    let lower = text.to_lowercase();
    if lower.is_ascii() {
        return lower;
    }
    let mut folded = String::with_capacity(lower.len());
    for c in lower.chars() {
        match c {
            'ß' => folded.push_str("ss"),
            'œ' => folded.push_str("oe"),
            '’' | '‘' | '´' => folded.push('\''),
            c if (c as u32) < 0x250 => {
                folded.extend([c].into_iter().nfd().filter(|c| !is_combining(*c)));
            }
            c => folded.push(c),
        }
    }
    folded
}

fn is_combining(c: char) -> bool {
    ('\u{300}'..='\u{36f}').contains(&c)
}

fn is_emoji(c: char) -> bool {
    matches!(c as u32, 0x1f000..=0x1faff | 0x2600..=0x27bf | 0x2b00..=0x2bff | 0x2190..=0x21ff | 0x2300..=0x23ff)
}

fn is_emoji_part(c: char) -> bool {
    matches!(c as u32, 0x200d | 0xfe0e | 0xfe0f | 0x1f3fb..=0x1f3ff | 0x20e3)
}

/// Checks whether words of this script are written without spaces.
pub(crate) fn is_unspaced(c: char) -> bool {
    matches!(c as u32, 0x0e00..=0x0eff | 0x1000..=0x109f | 0x1780..=0x17ff | 0x3040..=0x30ff | 0x3400..=0x9fff | 0xf900..=0xfaff)
}

/// Splits a sentence into tokens.
pub fn tokens(text: &str) -> Vec<Token> {
    let mut found: Vec<Token> = Vec::new();
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        let rest = &text[at..];
        if c.is_whitespace() || is_emoji_part(c) {
            at += c.len_utf8();
            continue;
        }
        let (kind, length) = scan(rest, c);
        push(&mut found, kind, &text[at..at + length], at);
        at += length;
    }
    mark_quoted(&mut found);
    found
}

fn scan(rest: &str, c: char) -> (Kind, usize) {
    let width = c.len_utf8();
    let digit_follows = rest[width..].starts_with(|c: char| c.is_ascii_digit());
    if rest.starts_with("http://") || rest.starts_with("https://") || rest.starts_with("www.") {
        let end = rest
            .find(|c: char| c.is_whitespace() || matches!(c, ')' | '>' | '"' | ']' | '`'))
            .unwrap_or(rest.len());
        let link = rest[..end].trim_end_matches(['.', ',', ';', ':', '!', '?', '\'']);
        return (Kind::Url, link.len().max(width));
    }
    if c == '`' {
        let end = rest[1..].find('`').filter(|end| *end > 0);
        return end.map_or((Kind::Mark, 1), |end| (Kind::Identifier, end + 2));
    }
    if c == '@' || c == '#' {
        let length = word_length(&rest[1..]);
        return match (length, c) {
            (0, _) => (Kind::Mark, 1),
            (_, '@') => (Kind::Mention, length + 1),
            _ => (Kind::Identifier, length + 1),
        };
    }
    if c.is_ascii_digit() || (matches!(c, '+' | '$' | '€' | '£') && digit_follows) {
        return (Kind::Number, width + number_length(&rest[width..]));
    }
    if is_unspaced(c) {
        let end = rest.find(|c| !is_unspaced(c)).unwrap_or(rest.len());
        return (Kind::Word, end);
    }
    if c.is_alphanumeric() {
        let length = word_length(rest);
        let word = &rest[..length];
        let is_identifier =
            word.contains(['_', '.']) || word.contains(|c: char| c.is_ascii_digit());
        return (if is_identifier { Kind::Identifier } else { Kind::Word }, length);
    }
    if is_emoji(c) {
        return (Kind::Emoji, width);
    }
    if let Some(smiley) = SMILEYS.iter().find(|smiley| rest.starts_with(**smiley)) {
        return (Kind::Emoji, smiley.len());
    }
    if c == '.' {
        return (Kind::Mark, rest.len() - rest.trim_start_matches('.').len());
    }
    (Kind::Mark, width)
}

/// Length in bytes of the word at the start of `rest`, including inner hyphens, apostrophes, dots, and underscores.
fn word_length(rest: &str) -> usize {
    let mut end = 0;
    let mut chars = rest.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let next = chars.peek().map(|(_, c)| *c);
        let is_inner = matches!(c, '-' | '\'' | '’' | '.' | '_') && end > 0;
        let goes_on = next.is_some_and(|c| c.is_alphanumeric() && !is_unspaced(c));
        if c.is_alphanumeric() && !is_unspaced(c) || c == '_' || is_inner && goes_on {
            end = at + c.len_utf8();
        } else {
            break;
        }
    }
    end
}

fn number_length(rest: &str) -> usize {
    let mut end = 0;
    let mut chars = rest.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let next = chars.peek().map(|(_, c)| *c);
        let is_inner = matches!(c, '.' | ',' | ':' | '/' | '-' | '\'')
            && next.is_some_and(|c| c.is_ascii_digit());
        if c.is_alphanumeric() && !is_unspaced(c) || is_inner {
            end = at + c.len_utf8();
        } else {
            break;
        }
    }
    end
}

fn push(found: &mut Vec<Token>, kind: Kind, raw: &str, from: usize) {
    let folded = fold(raw);
    let mut token = |word: String, from: usize, to: usize| {
        found.push(Token { kind, word, from, to, is_quoted: false });
    };
    if kind != Kind::Word {
        let word = if kind == Kind::Mark && folded.starts_with("..") {
            "…".to_owned()
        } else {
            folded.trim_matches('`').to_owned()
        };
        return token(word, from, from + raw.len());
    }
    if let Some((prefix, rest)) = folded.split_once('\'')
        && ELIDED.contains(&format!(" {prefix} "))
        && rest.len() > 1
    {
        // Apostrophes have one to three bytes in the text.
        let cut = raw.find(['\'', '’', '‘', '´']).unwrap_or(0);
        let after = raw[cut..].chars().next().map_or(0, char::len_utf8);
        token(format!("{prefix}'"), from, from + cut + after);
        return token(rest.replace('\'', ""), from + cut + after, from + raw.len());
    }
    token(folded.replace('\'', ""), from, from + raw.len());
}

/// Marks the tokens that continue a quotation from an earlier sentence. Returns whether the quotation continues in the next sentence.
pub(crate) fn continue_quotation(tokens: &mut [Token], is_inside: bool) -> bool {
    let is_mark = |token: &Token| matches!(token.word.as_str(), "\"" | "“" | "”" | "„" | "«" | "»");
    let marks = tokens.iter().filter(|token| is_mark(token)).count();
    if is_inside {
        let end = tokens.iter().position(is_mark).unwrap_or(tokens.len());
        tokens[..end].iter_mut().for_each(|token| token.is_quoted = true);
        tokens[end..].iter_mut().for_each(|token| token.is_quoted = false);
    }
    is_inside != (marks % 2 == 1)
}

fn mark_quoted(tokens: &mut [Token]) {
    let mut open: Option<usize> = None;
    for at in 0..tokens.len() {
        let is_mark = tokens[at].kind == Kind::Mark;
        let word = tokens[at].word.as_str();
        if !is_mark || !matches!(word, "\"" | "“" | "”" | "„" | "«" | "»") {
            continue;
        }
        match open.take() {
            Some(from) => {
                let is_long = at - from - 1 > QUOTED_NAME_WORDS_MAX;
                tokens[from..=at].iter_mut().for_each(|token| token.is_quoted = is_long);
            }
            None => open = Some(at),
        }
    }
    // An unclosed quotation extends to the end of the sentence.
    if let Some(from) = open.filter(|from| tokens.len() - from > QUOTED_NAME_WORDS_MAX + 1) {
        tokens[from..].iter_mut().for_each(|token| token.is_quoted = true);
    }
}
