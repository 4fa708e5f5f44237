//! Stems of the content words of texts, for searches in which any word may match.

use std::collections::{BTreeSet, HashSet};

use openvibe_extract::{Language, is_function_word, is_function_word_of, language_of};
use rust_stemmers::{Algorithm, Stemmer};

use super::{
    irregular,
    words::{Word, composed, words},
};

/// Maximum number of words of a query that are used.
pub(super) const QUERY_WORDS_MAX: usize = 16;

/// A content word, and its possible stems: exactly one if the language of the text is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stemmed {
    pub(super) word: String,
    pub(super) stems: BTreeSet<String>,
}

const ALGORITHMS: [(Language, Algorithm); 4] = [
    (Language::English, Algorithm::English),
    (Language::German, Algorithm::German),
    (Language::French, Algorithm::French),
    (Language::Spanish, Algorithm::Spanish),
];

/// The content words of a text, each once. In scripts without spaces between words, each pair of neighboring characters is a word.
fn content_words(text: &str) -> impl Iterator<Item = Stemmed> {
    let text = composed(text);
    let language = language_of(&text);
    let is_possible = |(one, _): &(Language, Algorithm)| language.is_none_or(|known| known == *one);
    let algorithms = ALGORITHMS.into_iter().filter(is_possible);
    let stemmers: Vec<(Language, Stemmer)> = algorithms
        .map(|(language, algorithm)| (language, Stemmer::create(algorithm)))
        .collect();
    // A function word of one language can be a content word of another, such as `son`, `war`, or `hat`.
    let is_function = move |word: &str| match language {
        Some(language) => is_function_word_of(language, word),
        None => is_function_word(word),
    };
    let found = words(&text);
    let mut pairs_seen = HashSet::new();
    let pairs: Vec<String> = found
        .windows(2)
        .filter(|pair| pair.iter().all(|word| word.is_alone) && pair[0].end == pair[1].start)
        .map(|pair| pair.iter().map(|word| word.text.as_str()).collect())
        .filter(|pair: &String| !pairs_seen.contains(pair) && pairs_seen.insert(pair.clone()))
        .collect();
    let is_content = move |word: &Word| {
        let is_long = word.text.chars().nth(1).is_some();
        !word.is_alone
            && (is_long || word.text.starts_with(|c: char| c.is_ascii_digit()))
            && !is_function(&word.text)
    };
    // Stemming takes most of the time, and most words of a long text are repeated.
    let mut seen = HashSet::new();
    let is_new = move |word: &Word| !seen.contains(&word.text) && seen.insert(word.text.clone());
    let distinct = found.into_iter().filter(is_new).filter(is_content);
    let whole = distinct.map(move |word| {
        let stems = stemmers.iter().map(|(language, stemmer)| {
            let base = irregular::base(*language, &word.text);
            stemmer.stem(base).into_owned()
        });
        Stemmed {
            stems: stems.collect(),
            word: word.text,
        }
    });
    let paired = pairs.into_iter().map(|word| Stemmed {
        stems: BTreeSet::from([word.clone()]),
        word,
    });
    whole.chain(paired)
}

/// All stems of a text.
pub(super) fn stems(text: &str) -> BTreeSet<String> {
    content_words(text).flat_map(|word| word.stems).collect()
}

/// The first `QUERY_WORDS_MAX` distinct content words of a query.
pub(super) fn query_words(text: &str) -> Vec<Stemmed> {
    let mut query: Vec<Stemmed> = Vec::new();
    for word in content_words(text) {
        if query.len() == QUERY_WORDS_MAX {
            break;
        }
        if query.iter().all(|known| known.stems != word.stems) {
            query.push(word);
        }
    }
    query
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meets(text: &str, query: &str) -> bool {
        let stems = stems(text);
        let words = query_words(query);
        words.len() == 1 && words[0].stems.iter().any(|stem| stems.contains(stem))
    }

    #[test]
    fn forms_of_a_word_meet_whether_or_not_the_language_is_clear() {
        for (text, query) in [
            ("We were deploying it on Friday", "deployments of the"),
            ("Deploying", "deployed"),
            ("Wir haben die Lieferungen bestellt", "Lieferung"),
            ("Nous avons les livraisons", "livraison"),
            ("Los servidores son de la casa", "servidor"),
            ("会議は東京です", "東京"),
            ("Ship v2 to 7 people", "7"),
            ("She bought a boat for the children", "buy"),
            ("She wants to buy a boat", "bought"),
            ("Wir haben den Bus genommen", "nehmen"),
        ] {
            assert!(meets(text, query), "{text}: {query}");
        }
        assert!(!meets("We were deploying it", "employed"));
    }

    #[test]
    fn function_words_are_left_out() {
        assert!(stems("What was it that you have been to?").is_empty());
        assert!(query_words("").is_empty());
        let many: Vec<String> = (0..40).map(|n| format!("word{n}x")).collect();
        assert_eq!(query_words(&many.join(" ")).len(), QUERY_WORDS_MAX);
        assert_eq!(query_words("the plan and plans we planned").len(), 1);
        // French and Spanish function words are content words in English.
        assert_eq!(query_words("what did her son do in the war").len(), 2);
    }
}
