//! Irregular forms, whose stems differ from that of the basic form, such as `bought` for `buy`.

use std::{collections::HashMap, sync::LazyLock};

use openvibe_extract::Language;

/// One line per word: its basic form, then its irregular forms, all folded. Forms that are more often a different word are left
/// out.
const FILES: [(Language, &str); 4] = [
    (
        Language::English,
        include_str!("../../../seeds/search/en.txt"),
    ),
    (
        Language::German,
        include_str!("../../../seeds/search/de.txt"),
    ),
    (
        Language::French,
        include_str!("../../../seeds/search/fr.txt"),
    ),
    (
        Language::Spanish,
        include_str!("../../../seeds/search/es.txt"),
    ),
];

/// Lines by language and form.
static LINES: LazyLock<HashMap<(Language, &str), Vec<&str>>> = LazyLock::new(|| {
    let mut lines = HashMap::new();
    for (language, file) in FILES {
        for line in file.lines() {
            let forms: Vec<&str> = line.split_whitespace().collect();
            for form in &forms {
                lines.insert((language, *form), forms.clone());
            }
        }
    }
    lines
});

/// The basic form of a folded word, or the word itself if it is not an irregular form.
pub(super) fn base(language: Language, word: &str) -> &str {
    let line = LINES.get(&(language, word));
    line.and_then(|forms| forms.first())
        .copied()
        .unwrap_or(word)
}

/// The other forms of a folded word, in any language.
pub(super) fn other_forms(word: &str) -> impl Iterator<Item = &'static str> {
    let lines = FILES
        .iter()
        .filter_map(|(language, _)| LINES.get(&(*language, word)));
    lines.flatten().copied().filter(move |form| *form != word)
}

#[cfg(test)]
mod tests {
    use super::super::words::folded;
    use super::*;

    #[test]
    fn forms_are_folded_and_have_one_basic_form() {
        for (language, file) in FILES {
            let mut count = 0;
            for form in file.split_whitespace() {
                assert_eq!(folded(form), form);
                count += 1;
            }
            let known = LINES.keys().filter(|(of, _)| *of == language);
            assert_eq!(known.count(), count, "{language:?}: a form is on two lines");
        }
    }

    #[test]
    fn a_word_has_its_basic_form_and_the_others() {
        assert_eq!(base(Language::English, "bought"), "buy");
        assert_eq!(base(Language::English, "buying"), "buying");
        assert_eq!(base(Language::German, "genommen"), "nehmen");
        assert_eq!(base(Language::English, "genommen"), "genommen");
        let others: Vec<&str> = other_forms("took").collect();
        assert_eq!(others, ["take", "taken"]);
    }
}
