//! Token estimates that do not need a tokenizer.

/// Estimates the number of tokens in `text` from its characters, rounded up: 4 characters per token in the Latin script, 2 in other
/// alphabets, and 1 for symbols and in scripts without spaces.
pub fn estimate_tokens(text: &str) -> u64 {
    text.chars().map(quarters).sum::<u64>().div_ceil(4)
}

/// Size of a character in quarters of a token.
fn quarters(c: char) -> u64 {
    match u32::from(c) {
        // Latin letters with their combining marks, general punctuation, and currency signs.
        0..=0x36F | 0x1E00..=0x1EFF | 0x2000..=0x206F | 0x20A0..=0x20CF => 1,
        // Thai, Lao, Tibetan, Myanmar, Khmer.
        0xE00..=0xFFF | 0x1000..=0x109F | 0x1780..=0x17FF => 4,
        // Other alphabets, including marks that are not letters.
        0x370..=0x1FFF | 0x2C00..=0x2DFF | 0xA640..=0xA69F | 0xAC00..=0xD7FF | 0xFB00..=0xFDFF => 2,
        // Chinese and Japanese characters, symbols, and emoji.
        _ => 4,
    }
}

/// Formats a number with commas between groups of three digits, for display.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut shown = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_count_by_their_script() {
        for (text, tokens) in [
            ("", 0),
            ("a", 1),
            ("abcd", 1),
            ("abcde", 2),
            ("ééééé", 2),
            ("“well”", 2),
            ("Привет", 3),
            ("καλημέρα", 4),
            ("שלום", 2),
            ("नमस्ते", 3),
            ("안녕하세요", 3),
            ("你好世界", 4),
            ("こんにちは", 5),
            ("สวัสดี", 6),
            ("👍👍", 2),
        ] {
            assert_eq!(estimate_tokens(text), tokens, "{text}");
        }
    }

    #[test]
    fn numbers_are_grouped_by_three_digits() {
        let shown = [0, 12, 999, 1_000, 32_000, 1_047_576].map(grouped);
        assert_eq!(shown, ["0", "12", "999", "1,000", "32,000", "1,047,576"]);
    }
}
