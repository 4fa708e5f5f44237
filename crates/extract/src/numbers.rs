//! Numbers written with digits, compared regardless of separators and leading zeros.

use std::collections::HashSet;

/// Removes leading zeros.
pub fn bare(digits: &str) -> String {
    digits.trim_start_matches('0').to_owned()
}

/// Groups of digits: `12` and `000` of `12,000`.
pub fn groups(text: &str) -> impl Iterator<Item = String> + '_ {
    let groups = text.split(|c: char| !c.is_ascii_digit());
    groups.filter(|group| !group.is_empty()).map(bare)
}

/// Words that are numbers, without separators: `12000` of `12,000`, and `12` of `12k`.
pub fn whole(text: &str) -> Vec<String> {
    let digits = |word: &str| {
        let inside = word.trim_matches(|c: char| !c.is_ascii_digit());
        let is_plain = !inside.is_empty() && !inside.contains(char::is_alphabetic);
        is_plain.then(|| inside.chars().filter(char::is_ascii_digit).collect::<String>())
    };
    text.split_whitespace().filter_map(digits).collect()
}

/// Numbers of a text in every form in which another text can repeat them.
pub fn numbers(text: &str) -> HashSet<String> {
    let words = whole(text);
    // `12 000`.
    let pairs = words.windows(2).map(|pair| bare(&pair.concat()));
    pairs.chain(words.iter().map(|word| bare(word))).chain(groups(text)).collect()
}

/// Words of a text that are numbers which `known`, a result of [`numbers`], does not contain.
pub fn unknown_numbers<'t>(text: &'t str, known: &HashSet<String>) -> Vec<&'t str> {
    let is_known = |word: &str| {
        let mut written = whole(word).into_iter();
        written.any(|number| known.contains(&bare(&number)))
            || groups(word).all(|group| known.contains(&group))
    };
    text.split_whitespace().filter(|word| !is_known(word)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_compared_regardless_of_separators() {
        let known = numbers("12,000 seats on 2026-05-03 at 09:30, version v2.1, 15 %");
        for text in ["12000", "12,000", "12 000", "3 May 2026", "9:30", "v2.1", "15%", "no digits"] {
            assert!(unknown_numbers(text, &known).is_empty(), "{text}");
        }
        assert_eq!(unknown_numbers("13,000 seats on 4/5", &known), ["13,000", "4/5"]);
    }
}
