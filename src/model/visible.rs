//! Characters that a reader can see.

use unicode_properties::{GeneralCategory, UnicodeGeneralCategory};

/// Checks for a character that leaves a mark on the screen.
fn is_visible(c: char) -> bool {
    let is_blank_letter = matches!(
        c,
        '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}' | '\u{2800}'
    );
    let is_joiner = matches!(c, '\u{34f}' | '\u{17b4}' | '\u{17b5}' | '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}');
    !(c.is_whitespace()
        || c.is_control()
        || c.general_category() == GeneralCategory::Format
        || is_blank_letter
        || is_joiner)
}

/// Checks whether a text shows anything.
pub fn has_visible(text: &str) -> bool {
    text.chars().any(is_visible)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_without_a_visible_character_shows_nothing() {
        for blank in [
            "",
            " \n\t",
            "\u{200b}",
            "\u{3164}",
            "\u{2800}",
            "\u{ad}",
            "\u{202e}",
            "\u{a0}\u{3000}",
            "\u{115f}\u{1160}\u{ffa0}",
            "\u{fe0f}",
            "\u{feff}\u{2060}",
            "\u{7}",
        ] {
            assert!(!has_visible(blank), "{blank:?}");
        }
        for shown in ["a", "\u{200b}.", "👍", "\u{301}", "ـ"] {
            assert!(has_visible(shown), "{shown:?}");
        }
    }
}
