//! Numbers written with digits, compared regardless of separators and leading zeros.

use std::collections::BTreeSet;

/// Removes leading zeros, unless there are only zeros.
pub fn bare(digits: &str) -> String {
    let rest = digits.trim_start_matches('0');
    if rest.is_empty() { digits } else { rest }.to_owned()
}

/// Groups of digits: `12` and `000` of `12,000`.
pub fn groups(text: &str) -> impl Iterator<Item = String> + '_ {
    let groups = text.split(|c: char| !c.is_ascii_digit());
    groups.filter(|group| !group.is_empty()).map(bare)
}

/// Removes all characters before the first digit and after the last one. Returns `None` if the word has no digits, or if there is a
/// letter between them.
fn digits(word: &str) -> Option<&str> {
    let inside = word.trim_matches(|c: char| !c.is_ascii_digit());
    (!inside.is_empty() && !inside.contains(char::is_alphabetic)).then_some(inside)
}

/// Words that are numbers, without separators: `12000` for `12,000`, and `12` for `12k`.
pub fn whole(text: &str) -> Vec<String> {
    let words = text.split_whitespace().filter_map(digits);
    words.map(|word| word.chars().filter(char::is_ascii_digit).collect()).collect()
}

/// The number that a word represents: `12000` for `12,000`, and `1.5` for `1,5`. `None` for several numbers, such as
/// a date or a time.
fn one(word: &str) -> Option<String> {
    let inside = digits(word)?;
    let parts: Vec<&str> = inside.split(['.', ',', '\'', '’']).collect();
    if parts.iter().any(|part| part.is_empty() || part.bytes().any(|b| !b.is_ascii_digit())) {
        return None;
    }
    let has_thousands = parts[1..].iter().all(|part| part.len() == 3);
    Some(bare(&parts.join(if has_thousands { "" } else { "." })))
}

/// Numbers in a text, in every form in which another text may repeat them.
pub fn numbers(text: &str) -> BTreeSet<String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    // A space can separate thousands, as in `12 000`, so each pair of adjacent numbers also counts as one number.
    let pairs =
        words.windows(2).filter_map(|pair| one(pair[0])?.parse::<u64>().ok().zip(one(pair[1])));
    let pairs = pairs.map(|(first, second)| format!("{first}{second}"));
    let mut numbers: BTreeSet<String> = pairs.collect();
    numbers.extend(words.iter().filter_map(|word| one(word)));
    numbers.extend(groups(text));
    numbers
}

/// Words that contain numbers missing from `known`, a result of [`numbers`].
pub fn unknown_numbers<'t>(text: &'t str, known: &BTreeSet<String>) -> Vec<&'t str> {
    let is_known = |word: &str| match one(word) {
        Some(number) => known.contains(&number),
        None => groups(word).all(|group| known.contains(&group)),
    };
    text.split_whitespace().filter(|word| !is_known(word)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_compared_regardless_of_separators() {
        let known = numbers("12,000 seats on 2026-05-03 at 09:30, version v2.1, 15 %");
        for text in ["12000", "12,000", "12 000", "3 May 2026", "9:30", "v2.1", "15%", "no digits"]
        {
            assert!(unknown_numbers(text, &known).is_empty(), "{text}");
        }
        assert_eq!(unknown_numbers("13,000 seats on 4/5", &known), ["13,000", "4/5"]);
        for (said, source) in [
            ("1.5 million", "15 million"),
            ("15 million", "1.5 million"),
            ("12,000 people", "12 people at 10:00"),
            ("2.15", "2.1 and 15"),
        ] {
            assert_eq!(unknown_numbers(said, &numbers(source)).len(), 1, "{said}, {source}");
        }
        assert!(unknown_numbers("1,5 Mio.", &numbers("1.5 million")).is_empty());
    }
}
