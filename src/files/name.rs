//! File names.

/// Maximum length of a name in UTF-16 code units.
const NAME_UNITS_MAX: usize = 200;
/// Maximum length of a name in UTF-8 bytes, which is the limit of common file systems.
const NAME_BYTES_MAX: usize = 255;
/// Maximum length of an extension that is kept when a name is shortened.
const ENDING_UNITS_MAX: usize = 20;
const NAMELESS: &str = "file";

/// Returns a name that is safe to display and save: without a path, invisible characters, or characters that change
/// the writing direction, and short enough for file systems. An empty result becomes `file`.
pub fn clean_name(given: &str) -> String {
    let last = given.rsplit(['/', '\\']).next().unwrap_or_default();
    let shown: String = last
        .chars()
        .map(|c| if c.is_whitespace() { ' ' } else { c })
        .filter(|c| !c.is_control() && !is_hidden(*c))
        .collect();
    let shown = shown.trim_start_matches(['.', ' ']).trim_end();
    let name = if shown.is_empty() { NAMELESS } else { shown };
    shorten(name)
}

/// Checks whether a character is invisible or changes the display order of others.
fn is_hidden(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{61c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

/// Shortens the name if it is too long, but keeps its extension.
fn shorten(name: &str) -> String {
    let units = |text: &str| text.encode_utf16().count();
    if units(name) <= NAME_UNITS_MAX && name.len() <= NAME_BYTES_MAX {
        return name.to_owned();
    }
    let ending = match name.rfind('.') {
        Some(at) if units(&name[at..]) <= ENDING_UNITS_MAX => &name[at..],
        _ => "",
    };
    let units_max = NAME_UNITS_MAX - units(ending);
    let bytes_max = NAME_BYTES_MAX - ending.len();
    let mut used = (0, 0);
    let stem: String = name[..name.len() - ending.len()]
        .chars()
        .take_while(|c| {
            used = (used.0 + c.len_utf16(), used.1 + c.len_utf8());
            used.0 <= units_max && used.1 <= bytes_max
        })
        .collect();
    format!("{}{ending}", stem.trim_end())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::corpus;

    #[test]
    fn every_corpus_file_name_becomes_safe_to_display_and_save() {
        for case in corpus::cases("uploads", "name") {
            case.expect(&clean_name(&String::from_utf8_lossy(&case.bytes)));
        }
    }

    #[test]
    fn a_file_name_has_no_path_and_no_invisible_characters() {
        for (given, name) in [
            ("plan.pdf", "plan.pdf"),
            ("/etc/passwd", "passwd"),
            ("..\\..\\boot.ini", "boot.ini"),
            ("C:\\fake\\Plan B.PDF", "Plan B.PDF"),
            ("../..", "file"),
            ("", "file"),
            (" \u{200b}\n", "file"),
            (".htaccess", "htaccess"),
            ("in\u{202e}gpj.exe", "ingpj.exe"),
            ("line\nbreak\u{2028}.txt", "line break .txt"),
            ("Übersicht – 日本.png", "Übersicht – 日本.png"),
        ] {
            assert_eq!(clean_name(given), name, "{given:?}");
        }
    }

    #[test]
    fn a_long_name_keeps_its_extension() {
        let long = clean_name(&format!("{}.tar.gz", "😀".repeat(300)));
        assert!(long.ends_with("😀.gz"), "{long}");
        assert!(long.encode_utf16().count() <= NAME_UNITS_MAX);
    }

    proptest! {
        #![proptest_config(corpus::config(256))]

        #[test]
        fn any_file_name_becomes_safe_to_display_and_save(
            given in prop_oneof![
                any::<String>(),
                corpus::mutated_text("uploads", "name", &["/", "\\", "..", ".", "\0", "\u{202e}", "\u{200b}", "é", "日本", "😀", " ", "\n"]),
            ],
        ) {
            let name = clean_name(&given);
            prop_assert!(!name.is_empty());
            prop_assert!(name.encode_utf16().count() <= NAME_UNITS_MAX && name.len() <= NAME_BYTES_MAX);
            prop_assert!(!name.chars().any(|c| c.is_control() || is_hidden(c) || c == '/' || c == '\\'));
            prop_assert!(!name.starts_with('.') && name.trim() == name, "{:?}", name);
            prop_assert_eq!(clean_name(&name), name.as_str());
        }
    }
}
