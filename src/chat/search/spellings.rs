//! Other spellings of what a query asks for, so that a text is found although it was written differently: contractions without their
//! apostrophe, versions without their `v`, and Arabic words without the article.

use crate::db::dialect::search::Phrase;

/// Endings after the apostrophe of English contractions and possessives.
const CONTRACTED: &[&str] = &["t", "s", "d", "m", "ll", "re", "ve"];
/// The Arabic article, alone and with the particles that are written together with it.
const ARTICLES: &[&str] = &["ال", "وال", "بال", "فال", "كال", "لل"];

/// Returns the phrase, followed by its other spellings.
pub(super) fn spellings(phrase: Phrase) -> Vec<Phrase> {
    let mut others = Vec::new();
    let exactly = |words: Vec<String>| Phrase {
        words,
        is_prefix: false,
    };
    match phrase.words.as_slice() {
        [word] => {
            others.extend(apart(word).map(exactly));
            others.extend(with_articles(word).map(|word| Phrase {
                words: vec![word],
                is_prefix: phrase.is_prefix,
            }));
        }
        [word, end] if CONTRACTED.contains(&end.as_str()) && is_latin(word) => {
            others.push(exactly(vec![format!("{word}{end}")]));
        }
        [first, rest @ ..] => others.extend(other_version(first).map(|first| Phrase {
            words: [vec![first], rest.to_vec()].concat(),
            is_prefix: phrase.is_prefix,
        })),
        [] => {}
    }
    others.insert(0, phrase);
    others
}

fn is_latin(word: &str) -> bool {
    word.chars().all(|c| c.is_ascii_lowercase())
}

/// The two words of a contraction: `don` and `t` for `dont`.
fn apart(word: &str) -> impl Iterator<Item = Vec<String>> {
    CONTRACTED.iter().filter_map(move |end| {
        let begin = word.strip_suffix(end).filter(|begin| !begin.is_empty())?;
        // Only the `t` of `not` is contracted.
        let is_contraction = is_latin(word) && (*end != "t" || begin.ends_with('n'));
        is_contraction.then(|| vec![begin.to_owned(), (*end).to_owned()])
    })
}

/// The first word of a version with `v` if it has none, or without it.
fn other_version(word: &str) -> Option<String> {
    let number = word.strip_prefix('v').unwrap_or(word);
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| {
        if number.len() == word.len() {
            format!("v{number}")
        } else {
            number.to_owned()
        }
    })
}

/// An Arabic word with the article in all its forms; the word itself may have it, too.
pub(super) fn with_articles(word: &str) -> impl Iterator<Item = String> {
    let is_arabic = |text: &str| {
        text.chars().nth(1).is_some() && text.chars().all(|c| matches!(c, '\u{620}'..='\u{64a}'))
    };
    let bare = word.strip_prefix("ال").filter(|bare| is_arabic(bare));
    let bare = bare.unwrap_or(word);
    let articles = if is_arabic(bare) { ARTICLES } else { &[] };
    articles
        .iter()
        .map(move |article| format!("{article}{bare}"))
        .filter(move |other| other != word)
}

#[cfg(test)]
mod tests {
    use super::{super::query, *};

    fn shown(question: &str) -> Vec<String> {
        let groups = query::parse(question).with;
        let phrase =
            |phrase: &Phrase| phrase.words.join(" ") + if phrase.is_prefix { "*" } else { "" };
        groups.concat().iter().map(phrase).collect()
    }

    #[test]
    fn words_have_other_spellings() {
        for (question, wanted) in [
            ("dont", vec!["dont*", "don t"]),
            ("don't", vec!["don t", "dont"]),
            ("don’t", vec!["don t", "dont"]),
            ("theyre", vec!["theyre*", "they re"]),
            ("it's", vec!["it s", "its"]),
            ("night", vec!["night*"]),
            ("s", vec!["s"]),
            ("2.10.3-rc.1", vec!["2 10 3 rc 1", "v2 10 3 rc 1"]),
            ("v2.10.3-rc.1", vec!["v2 10 3 rc 1", "2 10 3 rc 1"]),
            ("1.22", vec!["1 22*", "v1 22*"]),
            ("2", vec!["2"]),
            ("foo-bar", vec!["foo bar*"]),
            ("و", vec!["و"]),
        ] {
            assert_eq!(shown(question), wanted, "{question}");
        }
        let book = [
            "كتاب*",
            "الكتاب*",
            "والكتاب*",
            "بالكتاب*",
            "فالكتاب*",
            "كالكتاب*",
            "للكتاب*",
        ];
        assert_eq!(shown("كتاب"), book);
        let mut book: Vec<_> = shown("الكتاب");
        book.sort_unstable();
        let mut wanted = [
            "الكتاب*",
            "والكتاب*",
            "بالكتاب*",
            "فالكتاب*",
            "كالكتاب*",
            "للكتاب*",
        ];
        wanted.sort_unstable();
        assert_eq!(
            book, wanted,
            "a word with the article is not found without it"
        );
    }
}
