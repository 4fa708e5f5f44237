//! Rules for new names, which must not imitate others.
//!
//! Two names look alike if their skeletons (Unicode Technical Standard 39) are equal, either as written or in lowercase.

use unicode_normalization::{UnicodeNormalization, char::canonical_combining_class};
use unicode_properties::{
    GeneralCategory, GeneralCategoryGroup, UnicodeEmoji, UnicodeGeneralCategory,
};
use unicode_script::{Script, UnicodeScript};
use unicode_security::skeleton;

const ZWNJ: char = '\u{200c}';
const ZWJ: char = '\u{200d}';
/// Canonical combining class of viramas, which join the letters around them.
const VIRAMA: u8 = 9;
/// Labels of roles and of agents, which a name must not end with.
const LABELS: [&str; 4] = ["(admin)", "(bot)", "(system)", "(ai)"];
const SYSTEM: &str = "system";

/// Skeletons of a name. Names look alike if one of them is equal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skeletons {
    /// Skeleton of the name as written: `BiII` is like `Bill`.
    pub exact: String,
    /// Skeleton of the name in lowercase: `VIBE` is like `vibe`.
    pub folded: String,
}

impl Skeletons {
    /// Whitespace is ignored, because some of it is too narrow to be noticed.
    pub fn of(name: &str) -> Self {
        let visible: String = name.chars().filter(|c| !c.is_whitespace()).collect();
        let lower: String = visible.nfkc().flat_map(char::to_lowercase).collect();
        Self {
            exact: skeleton(&visible).collect(),
            folded: skeleton(&lower).flat_map(char::to_lowercase).collect(),
        }
    }

    pub fn is_like(&self, other: &Self) -> bool {
        self.exact == other.exact || self.folded == other.folded
    }
}

/// Returns the rule that a new name violates.
pub(super) fn problem(name: &str) -> Option<&'static str> {
    let skeletons = Skeletons::of(name);
    let label = skeletons
        .folded
        .trim_end_matches(|c: char| !c.is_alphanumeric() && c != ')');
    if has_hidden_characters(name) {
        Some("the name contains hidden characters: remove them")
    } else if words(name).any(mixes_latin) {
        Some(
            "a word of the name mixes Latin letters with those of another script: use one script for each word",
        )
    } else if LABELS
        .iter()
        .any(|text| label.ends_with(&Skeletons::of(text).folded))
    {
        Some(
            "a name cannot end with `(admin)`, `(bot)`, `(system)`, or `(AI)`, which look like labels of this server",
        )
    } else if skeletons.is_like(&Skeletons::of(SYSTEM)) {
        Some("the name looks like `System`, which is reserved for this server: choose another name")
    } else {
        None
    }
}

/// Runs of letters, marks, digits, and joiners.
fn words(name: &str) -> impl Iterator<Item = &str> {
    use GeneralCategoryGroup::{Letter, Mark, Number};
    name.split(|c: char| {
        !matches!(c, ZWJ | ZWNJ) && !matches!(c.general_category_group(), Letter | Mark | Number)
    })
}

fn mixes_latin(word: &str) -> bool {
    let scripts = || {
        word.chars()
            .map(|c| c.script())
            .filter(|script| !matches!(script, Script::Common | Script::Inherited))
    };
    scripts().any(|script| script == Script::Latin)
        && scripts().any(|script| script != Script::Latin)
}

fn has_hidden_characters(name: &str) -> bool {
    let chars: Vec<char> = name.chars().collect();
    (0..chars.len()).any(|at| match chars[at] {
        ZWJ | ZWNJ => !is_needed_joiner(&chars, at),
        '\u{fe00}'..='\u{fe0f}'
        | '\u{e0100}'..='\u{e01ef}'
        | '\u{180b}'..='\u{180d}'
        | '\u{180f}' => at == 0 || !takes_variants(chars[at - 1]),
        // The combining grapheme joiner, and letters that are blank.
        '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{2800}' | '\u{3164}'
        | '\u{ffa0}' => true,
        c => c.general_category() == GeneralCategory::Format,
    })
}

/// Checks whether the variation selectors after this character can have an effect.
fn takes_variants(c: char) -> bool {
    let has_variants = matches!(
        c.script(),
        Script::Han
            | Script::Hiragana
            | Script::Katakana
            | Script::Mongolian
            | Script::Myanmar
            | Script::Phags_Pa
    );
    has_variants || c.is_emoji_char_or_emoji_component()
}

/// Checks whether a joiner is part of an emoji, or between letters of a script that uses joiners.
fn is_needed_joiner(chars: &[char], at: usize) -> bool {
    let is_pictograph = |c: char| c.is_emoji_char() && !c.is_ascii() && !c.is_alphanumeric();
    let is_modifier = |c: &char| matches!(c, '\u{fe0f}' | '\u{1f3fb}'..='\u{1f3ff}');
    let next = chars.get(at + 1).copied();
    let before = chars[..at].iter().rev();
    let emoji = before.clone().find(|c| !is_modifier(c)).copied();
    if chars[at] == ZWJ && emoji.is_some_and(is_pictograph) {
        return next.is_some_and(is_pictograph);
    }
    let letter = before.clone().find(|c| c.script() != Script::Inherited);
    let Some(script) = letter
        .map(UnicodeScript::script)
        .filter(|script| uses_joiners(*script))
    else {
        return false;
    };
    let follows_virama = before
        .clone()
        .next()
        .is_some_and(|c| canonical_combining_class(*c) == VIRAMA);
    let is_between = next.is_some_and(|next| next.script() == script);
    is_between || (follows_virama && chars[at] == ZWJ)
}

fn uses_joiners(script: Script) -> bool {
    use Script as S;
    matches!(
        script,
        S::Arabic
            | S::Syriac
            | S::Nko
            | S::Mongolian
            | S::Devanagari
            | S::Bengali
            | S::Gurmukhi
            | S::Gujarati
            | S::Oriya
            | S::Tamil
            | S::Telugu
            | S::Kannada
            | S::Malayalam
            | S::Sinhala
            | S::Khmer
            | S::Myanmar
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_all_scripts_are_valid() {
        for name in [
            "Ada Lindholm",
            "Łukasz",
            "O'Brien",
            "O’Brien",
            "Zoë",
            "Zoe\u{308}",
            "Nguyễn Thị Hạnh",
            "Æthelstan Þór",
            "Ștefan",
            "Дмитрий Иванов",
            "Ελένη",
            "عبد الرحمن",
            "می\u{200c}خواهم",
            "דָּוִד",
            "สมชาย ใจดี",
            "क्\u{200d}षितिज",
            "राम कुमार",
            "ശ്രീജിത്ത്",
            "അവന്\u{200d}",
            "ශ්\u{200d}රී",
            "さくら",
            "サクラ マスター",
            "山田 太郎",
            "葛\u{e0100}城 ミキ",
            "山田さくらサクラ",
            "김민준",
            "Anna 山田",
            "Team サクラ",
            "Ada (Ops)",
            "Ada (администратор)",
            "Ada 👩\u{200d}👩\u{200d}👧\u{200d}👦",
            "👩🏽\u{200d}💻 Ada",
            "❤\u{fe0f}\u{200d}🔥",
            "Ada 1\u{fe0f}\u{20e3}",
            "Systems",
            "Abbot",
            "Jean-Luc / Ops",
            "µ-Team",
            "Ana Μαρία",
            "R2-D2",
        ] {
            assert_eq!(problem(name), None, "{name:?}");
        }
    }

    #[test]
    fn imitations_and_hidden_characters_are_invalid() {
        for (name, rule) in [
            ("V\u{200b}ibe", "hidden"),
            ("V\u{200d}ibe", "hidden"),
            ("Vi\u{200c}be", "hidden"),
            ("V\u{ad}ibe", "hidden"),
            ("\u{feff}Vibe", "hidden"),
            ("Vi\u{fe0f}be", "hidden"),
            ("Vi\u{34f}be", "hidden"),
            ("Vibe\u{3164}", "hidden"),
            ("Vibe\u{e0041}", "hidden"),
            ("عبد\u{200d}", "hidden"),
            ("😀\u{200d}", "hidden"),
            ("Аda", "mixes"),
            ("Vibе Bot", "mixes"),
            ("Ada Lіndholm", "mixes"),
            ("ΑI Team", "mixes"),
            ("Tシャツ", "mixes"),
            ("Ada (admin)", "label"),
            ("Ada (ADMIN) ", "label"),
            ("Ada (аdmіn)", "mixes"),
            ("Ada （admin）", "label"),
            ("Ada ( Bot )", "label"),
            ("Ada (system) ✅", "label"),
            ("Vibe (АІ)", "label"),
            ("System", "System"),
            ("SYSTEM", "System"),
            ("Ѕуѕтем", "Ѕ"),
            ("S y s t e m", "System"),
            ("𝐒𝐲𝐬𝐭𝐞𝐦", "System"),
        ] {
            // Letters of one other script are compared by their skeletons only.
            if rule != "Ѕ" {
                let found = problem(name).unwrap_or_else(|| panic!("{name:?} is valid"));
                assert!(found.contains(rule), "{name:?}: {found}");
            }
        }
    }

    #[test]
    fn names_that_look_the_same_have_a_common_skeleton() {
        let is_like = |one: &str, other: &str| Skeletons::of(one).is_like(&Skeletons::of(other));
        for (one, other) in [
            ("Vibe", "vibe"),
            ("Vibe", "VIBE"),
            ("Bill", "BiII"),
            ("Bill", "Bi1l"),
            ("Bob", "B0b"),
            ("Coder", "Сoder"),
            ("Vibe", "Ⅴibe"),
            ("Vibe", "V\u{200b}i be"),
            ("Zoë", "Zoe\u{308}"),
            ("Modern", "Modem"),
            ("Оса", "Oca"),
        ] {
            assert!(is_like(one, other), "{one} {other}");
        }
        for (one, other) in [
            ("Ian", "Lan"),
            ("Zoë", "Zoe"),
            ("Vibe", "Vibes"),
            ("Ella", "Elia"),
            ("Ana", "Anna"),
        ] {
            assert!(!is_like(one, other), "{one} {other}");
        }
    }
}
