//! File names.

use unicode_properties::{GeneralCategoryGroup, UnicodeGeneralCategory};

/// Maximum length of a name in UTF-16 code units.
const NAME_UNITS_MAX: usize = 200;
/// Maximum length of a name in UTF-8 bytes, which is the limit of common file systems.
const NAME_BYTES_MAX: usize = 255;
/// Maximum length of an extension that is kept when a name is shortened.
const ENDING_UNITS_MAX: usize = 20;
const NAMELESS: &str = "file";
/// Names of devices on Windows, where no file can be called like one, with any extension and in any case. `COM` and `LPT` are followed
/// by a digit.
const DEVICES: &[&str] = &["con", "prn", "aux", "nul", "conin$", "conout$"];
const PORTS: &[&str] = &["com", "lpt"];

/// Returns a name that is safe to display and save: without a path, invisible characters, or characters that change
/// the writing direction, not reserved by Windows, and short enough for file systems. An empty result becomes `file`.
pub fn clean_name(given: &str) -> String {
    let last = given.rsplit(['/', '\\']).next().unwrap_or_default();
    let shown: String = last
        .chars()
        .map(|c| if c.is_whitespace() { ' ' } else { c })
        .filter(|c| !c.is_control() && !is_hidden(*c))
        .collect();
    // A shortened name can consist of dots only.
    let short = shorten(without_bare_dots(&shown));
    let name = match without_bare_dots(&short) {
        "" => NAMELESS,
        name => name,
    };
    if is_device(name) {
        shorten(&format!("_{name}"))
    } else {
        name.to_owned()
    }
}

/// Drops spaces at both ends, and dots at the beginning that are not part of a name such as `.npmrc`.
fn without_bare_dots(name: &str) -> &str {
    let mut name = name.trim();
    loop {
        let bare = name.trim_start_matches('.');
        if bare.len() == name.len() || bare.starts_with(is_word_character) {
            return name;
        }
        name = bare.trim_start();
    }
}

fn is_word_character(c: char) -> bool {
    c.is_alphanumeric() || c.general_category_group() == GeneralCategoryGroup::Mark
}

/// Checks whether Windows reserves the name for a device.
fn is_device(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or_default();
    let stem = stem.trim_end().to_lowercase();
    DEVICES.contains(&stem.as_str())
        || PORTS.iter().any(|port| {
            let number = stem.strip_prefix(port).unwrap_or_default();
            let mut digits = number.chars();
            let is_digit = |c: char| c.is_ascii_digit() || matches!(c, '¹' | '²' | '³');
            digits.next().is_some_and(is_digit) && digits.next().is_none()
        })
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
            (".htaccess", ".htaccess"),
            (".dockerignore", ".dockerignore"),
            ("a/.npmrc", ".npmrc"),
            (".a.b", ".a.b"),
            ("..a", "..a"),
            (".été", ".été"),
            (".\u{301}x", ".\u{301}x"),
            (" . .a ", ".a"),
            (".-x", "-x"),
            ("...", "file"),
            (".", "file"),
            ("CON", "_CON"),
            ("NUL.txt", "_NUL.txt"),
            ("com1 .tar.gz", "_com1 .tar.gz"),
            ("LPT².md", "_LPT².md"),
            ("console.txt", "console.txt"),
            ("com10", "com10"),
            (".con", ".con"),
            ("in\u{202e}gpj.exe", "ingpj.exe"),
            ("line\nbreak\u{2028}.txt", "line break .txt"),
            ("Übersicht – 日本.png", "Übersicht – 日本.png"),
        ] {
            assert_eq!(clean_name(given), name, "{given:?}");
        }
    }

    #[test]
    fn a_name_that_becomes_bare_dots_or_a_device_when_it_is_shortened_is_safe() {
        assert_eq!(
            clean_name(&format!("{}{}", ".".repeat(250), "a".repeat(30))),
            "file"
        );
        assert_eq!(
            clean_name(&format!("CON{}x.txt", " ".repeat(250))),
            "_CON.txt"
        );
        let long = clean_name(&format!("NUL.{}", "x".repeat(196)));
        assert!(
            long.starts_with("_NUL.x") && long.len() == NAME_UNITS_MAX,
            "{long}"
        );
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
                corpus::mutated_text("uploads", "name", &["/", "\\", "..", ".", "CON", "lpt1.", "\0", "\u{202e}", "\u{200b}", "é", "日本", "😀", " ", "\n"]),
            ],
        ) {
            let name = clean_name(&given);
            prop_assert!(!name.is_empty());
            prop_assert!(name.encode_utf16().count() <= NAME_UNITS_MAX && name.len() <= NAME_BYTES_MAX);
            prop_assert!(!name.chars().any(|c| c.is_control() || is_hidden(c) || c == '/' || c == '\\'));
            let bare = name.trim_start_matches('.');
            prop_assert!(bare.len() == name.len() || bare.starts_with(is_word_character), "{:?}", name);
            prop_assert!(name.trim() == name && !is_device(&name), "{:?}", name);
            prop_assert_eq!(clean_name(&name), name.as_str());
        }
    }
}
