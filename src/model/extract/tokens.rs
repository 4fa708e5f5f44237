//! Splits Markdown into sentences and sentences into words.

use std::{collections::HashMap, sync::Arc};

use super::cues::{Entry, LEXICON};

/// Abbreviations that end with a period.
const SHORT_WORDS: &str = "e.g i.e etc vs dr mr mrs ms z.b d.h bzw ca p.ej approx sr sra st prof";
/// Longer sentences are cut, which bounds the time per sentence.
const SENTENCE_CHARS_MAX: usize = 1_000;

/// A distinct word of the conversation.
#[derive(Debug)]
pub(crate) struct Word {
    /// Lowercase, with every apostrophe normalized to `'`.
    pub(crate) text: String,
    pub(crate) known: Option<&'static Entry>,
    /// Stem shared by all forms of a word; `None` for words without a meaning of their own.
    pub(crate) stem: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Word,
    Number,
    Mention,
    Link,
    Mark,
}

#[derive(Debug, Clone)]
pub(crate) struct Token {
    pub(crate) word: Arc<Word>,
    pub(crate) kind: Kind,
    /// Byte range in the text of the sentence.
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// Quoted text or code, which is not the author's own statement.
    pub(crate) is_quoted: bool,
}

impl Token {
    pub(crate) fn is(&self, text: &str) -> bool {
        self.word.text == text
    }

    /// Lexicon entry, unless the token is quoted.
    pub(crate) fn known(&self) -> Option<&'static Entry> {
        (!self.is_quoted && self.kind != Kind::Mention)
            .then_some(self.word.known)
            .flatten()
    }
}

/// All distinct words of a conversation.
#[derive(Debug, Default)]
pub(crate) struct Vocabulary {
    words: HashMap<String, Arc<Word>>,
    stems: HashMap<String, u32>,
}

impl Vocabulary {
    fn word(&mut self, text: &str, kind: Kind) -> Arc<Word> {
        if let Some(word) = self.words.get(text) {
            return Arc::clone(word);
        }
        let known = LEXICON.get(text);
        let has_subject = matches!(kind, Kind::Word | Kind::Number)
            && known.is_none_or(|entry| !entry.is_stop)
            && (text.len() > 1 || text.as_bytes()[0].is_ascii_digit());
        let stem = has_subject.then(|| {
            let next = u32::try_from(self.stems.len()).unwrap_or(u32::MAX);
            *self.stems.entry(stem(text)).or_insert(next)
        });
        let word = Arc::new(Word {
            text: text.to_owned(),
            known,
            stem,
        });
        self.words.insert(text.to_owned(), Arc::clone(&word));
        word
    }

    /// The words of one sentence.
    pub(crate) fn tokens(&mut self, text: &str) -> Vec<Token> {
        let chars: Vec<(usize, char)> = text.char_indices().collect();
        let at = |i: usize| chars.get(i).map_or('\0', |(_, c)| *c);
        let mut tokens = Vec::new();
        let mut lower = String::new();
        let mut quote: Option<char> = None;
        let mut i = 0;
        while i < chars.len() {
            let c = at(i);
            let is_hyphen =
                c == '-' && i > 0 && at(i - 1).is_alphanumeric() && at(i + 1).is_alphanumeric();
            if c.is_whitespace() || is_joiner(c) || is_hyphen {
                i += 1;
                continue;
            }
            if let Some(end) = quote.filter(|end| *end == c) {
                quote = None;
                i += 1;
                let _ = end;
                continue;
            }
            if quote.is_none()
                && let Some(end) = closing(c)
                && (c != '\'' || i == 0 || at(i - 1).is_whitespace())
                && chars[i + 1..].iter().any(|(_, c)| *c == end)
            {
                quote = Some(end);
                i += 1;
                continue;
            }
            let (end, kind) = extent(&chars, i);
            let from = chars[i].0;
            let to = chars.get(end).map_or(text.len(), |(at, _)| *at);
            lower.clear();
            lower.extend(
                text[from..to]
                    .chars()
                    .map(|c| if is_apostrophe(c) { '\'' } else { c })
                    .flat_map(char::to_lowercase),
            );
            let mut push = |text: &str, kind: Kind, from: usize, to: usize| {
                tokens.push(Token {
                    word: self.word(text, kind),
                    kind,
                    from,
                    to,
                    is_quoted: quote.is_some(),
                });
            };
            let elided = (kind == Kind::Word).then(|| elision(&lower)).flatten();
            match elided {
                Some(cut) if text[from..to].len() == lower.len() || cut < to - from => {
                    let shown = text[from..to]
                        .char_indices()
                        .find(|(_, c)| is_apostrophe(*c))
                        .map_or(cut, |(at, c)| at + c.len_utf8());
                    push(&lower[..cut], kind, from, from + shown);
                    push(&lower[cut..], kind, from + shown, to);
                }
                _ => push(&lower, kind, from, to),
            }
            i = end;
        }
        tokens
    }
}

fn is_apostrophe(c: char) -> bool {
    matches!(c, '\'' | '’' | '‘' | '`' | '´')
}

/// Characters that occur only as parts of an emoji.
fn is_joiner(c: char) -> bool {
    matches!(c, '\u{fe0f}' | '\u{200d}' | '\u{200b}') || ('\u{1f3fb}'..='\u{1f3ff}').contains(&c)
}

fn closing(c: char) -> Option<char> {
    match c {
        '"' => Some('"'),
        '“' => Some('”'),
        '„' => Some('“'),
        '«' => Some('»'),
        '\u{1}' => Some('\u{1}'),
        '\'' => Some('\''),
        '‘' => Some('’'),
        _ => None,
    }
}

/// `j'`, `qu'`: end of the first of two joined words.
fn elision(lower: &str) -> Option<usize> {
    let (before, after) = lower.split_once('\'')?;
    let is_elided = matches!(
        before,
        "l" | "d"
            | "j"
            | "m"
            | "n"
            | "s"
            | "t"
            | "c"
            | "qu"
            | "jusqu"
            | "lorsqu"
            | "puisqu"
            | "quelqu"
    );
    (is_elided && !after.is_empty()).then_some(before.len() + 1)
}

/// End and kind of the token that starts at `i`.
fn extent(chars: &[(usize, char)], i: usize) -> (usize, Kind) {
    let at = |i: usize| chars.get(i).map_or('\0', |(_, c)| *c);
    let c = at(i);
    if c == '@' && (at(i + 1).is_alphanumeric()) {
        let is_handle = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_');
        let mut end = i + 1;
        while is_handle(at(end)) {
            end += 1;
        }
        return (end, Kind::Mention);
    }
    let starts = |text: &str| text.chars().enumerate().all(|(n, c)| at(i + n) == c);
    if starts("http://") || starts("https://") || starts("www.") {
        let mut end = i;
        while end < chars.len() && !at(end).is_whitespace() && !matches!(at(end), ')' | '>') {
            end += 1;
        }
        return (end, Kind::Link);
    }
    if matches!(c, '+' | '-') && at(i + 1) == '1' && !at(i + 2).is_alphanumeric() {
        return (i + 2, Kind::Mark);
    }
    let is_version = matches!(c, 'v' | 'V') && at(i + 1).is_ascii_digit();
    if c.is_ascii_digit() || is_version {
        let mut end = i + 1;
        loop {
            let next = at(end);
            let joins = matches!(next, '.' | ',' | ':' | '/' | '-') && at(end + 1).is_ascii_digit();
            if next.is_alphanumeric() || joins {
                end += 1;
            } else {
                return (end, Kind::Number);
            }
        }
    }
    if c.is_alphanumeric() {
        if is_unspaced(c) {
            return (i + 1, Kind::Word);
        }
        let mut end = i + 1;
        loop {
            let next = at(end);
            let joins = is_apostrophe(next) && next != '`' && at(end + 1).is_alphabetic();
            if (next.is_alphanumeric() && !is_unspaced(next)) || joins || is_combining(next) {
                end += 1;
            } else {
                return (end, Kind::Word);
            }
        }
    }
    (i + 1, Kind::Mark)
}

fn is_combining(c: char) -> bool {
    ('\u{300}'..='\u{36f}').contains(&c)
}

/// Chinese characters and kana, which are written without spaces.
pub(crate) fn is_unspaced(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}')
}

/// Removes common endings, so that `shipped`, `shipping`, and `ships` match.
pub(crate) fn stem(word: &str) -> String {
    const ENDINGS: [&str; 8] = ["ing", "ed", "es", "en", "er", "'s", "s", "e"];
    if word.chars().count() < 4 || word.ends_with("ss") {
        return word.to_owned();
    }
    let cut = ENDINGS.iter().find_map(|ending| word.strip_suffix(ending));
    let Some(base) = cut.filter(|base| base.chars().count() >= 3) else {
        return word.to_owned();
    };
    let mut chars: Vec<char> = base.chars().collect();
    if let [.., a, b] = chars[..]
        && a == b
        && !"aeiouls".contains(a)
    {
        chars.pop();
    }
    chars.into_iter().collect()
}

/// Splits prose into sentences without code, quotes, list markers, and heading markers.
/// Inline code is enclosed in `\u{1}`, which is treated as a quotation mark.
pub(crate) fn sentences(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut fence = "";
    for line in text.lines() {
        let line = line.trim();
        let mark = ["```", "~~~"]
            .into_iter()
            .find(|mark| line.starts_with(mark));
        if let Some(mark) = mark {
            if fence.is_empty() {
                fence = mark;
            } else if fence == mark {
                fence = "";
            }
            continue;
        }
        if !fence.is_empty() || line.starts_with('>') || line.starts_with('|') {
            continue;
        }
        let line = line.trim_start_matches(['#', '*', '•', ' ']);
        // A checked item is done.
        if line.starts_with("- [x] ") || line.starts_with("- [X] ") {
            continue;
        }
        let line = ["- [ ] ", "- ", "+ "]
            .iter()
            .find_map(|bullet| line.strip_prefix(bullet))
            .unwrap_or(line);
        let line = plain(line);
        let mut start = 0;
        let mut chars = line.char_indices().peekable();
        while let Some((at, c)) = chars.next() {
            let end = at + c.len_utf8();
            let is_wide = matches!(c, '。' | '！' | '？');
            let is_end = matches!(c, '.' | '!' | '?' | '…')
                && chars.peek().is_none_or(|(_, next)| next.is_whitespace())
                && !(c == '.' && is_abbreviation(&line[start..at], &line[end..]));
            if is_wide || is_end {
                push_sentence(&mut found, &line[start..end]);
                start = end;
            }
        }
        push_sentence(&mut found, &line[start..]);
    }
    found
}

/// Removes the markers of bold and italic text; keeps only the text of a link.
fn plain(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find(['*', '`', '[', '~']) {
        text.push_str(&rest[..at]);
        rest = &rest[at..];
        if let Some(inner) = rest.strip_prefix('[')
            && let Some((label, after)) = inner.split_once("](")
            && !label.contains('[')
            && let Some((_, after)) = after.split_once(')')
        {
            text.push_str(label);
            rest = after;
            continue;
        }
        let mark = &rest[..1];
        match mark {
            "`" => text.push('\u{1}'),
            "*" => {}
            "~" if rest.starts_with("~~") => {
                // Struck-through text is ignored.
                if let Some((_, after)) = rest[2..].split_once("~~") {
                    rest = after;
                    continue;
                }
            }
            _ => text.push_str(mark),
        }
        rest = &rest[1..];
    }
    text.push_str(rest);
    text
}

fn push_sentence(found: &mut Vec<String>, sentence: &str) {
    let sentence = sentence.trim().trim_matches('_');
    let has_sense = |c: char| {
        c.is_alphanumeric() || matches!(c, '\u{2600}'..='\u{27bf}' | '\u{1f300}'..='\u{1faff}')
    };
    if !sentence.contains(has_sense) {
        return;
    }
    let mut rest = sentence;
    while let Some((at, _)) = rest.char_indices().nth(SENTENCE_CHARS_MAX) {
        let cut = rest[..at].rfind(' ').filter(|cut| *cut > 0).unwrap_or(at);
        found.push(rest[..cut].to_owned());
        rest = rest[cut..].trim_start();
    }
    found.push(rest.to_owned());
}

/// `e.g`, `z.B`, `Dr`, a single letter, or the number of a list item or day before the period.
fn is_abbreviation(before: &str, after: &str) -> bool {
    let word = before
        .rsplit(|c: char| c.is_whitespace() || c == '(')
        .next()
        .unwrap_or_default();
    let is_number = !word.is_empty() && word.bytes().all(|b| b.is_ascii_digit());
    let is_first = word == before.trim() && is_number;
    let is_day_month = word.len() <= 5
        && word.split_once('.').is_some_and(|(day, month)| {
            [day, month]
                .iter()
                .all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()))
        })
        && !after.trim().is_empty();
    let next: String = after
        .trim_start()
        .chars()
        .take_while(|c| c.is_alphabetic())
        .flat_map(char::to_lowercase)
        .collect();
    let is_month = LEXICON
        .get(next.as_str())
        .is_some_and(|entry| !entry.month.is_empty());
    let begins_low = after.trim_start().starts_with(char::is_lowercase);
    let is_ordinal = is_number && word.len() <= 2 && (is_month || begins_low);
    let is_letter = word.chars().count() == 1 && word.chars().all(char::is_alphabetic);
    let short = word.to_lowercase();
    let is_number_sign = matches!(short.as_str(), "no" | "nr")
        && after.trim_start().starts_with(|c: char| c.is_ascii_digit());
    is_first
        || is_ordinal
        || is_day_month
        || is_letter
        || is_number_sign
        || SHORT_WORDS.split(' ').any(|known| known == short)
}
