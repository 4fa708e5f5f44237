//! Irregular forms, such as `hung` for `hang`, by their stems.

use std::{collections::HashMap, sync::LazyLock};

use openvibe_extract::{LANGUAGES, Language, content_words};

/// One line per word: its basic form, then its irregular forms.
const FILES: [&str; 4] = [
    include_str!("../../../seeds/search/en.txt"),
    include_str!("../../../seeds/search/de.txt"),
    include_str!("../../../seeds/search/fr.txt"),
    include_str!("../../../seeds/search/es.txt"),
];

static FORMS: LazyLock<HashMap<(Language, String), String>> = LazyLock::new(|| {
    let mut all = HashMap::new();
    for (language, file) in LANGUAGES.into_iter().zip(FILES) {
        for line in file.lines() {
            let stems: Vec<String> = content_words(line, language);
            let Some((first, others)) = stems.split_first() else { continue };
            for form in others {
                all.entry((language, form.clone())).or_insert_with(|| first.clone());
            }
        }
    }
    all
});

/// Stem of the basic form of an irregular word, given by its stem; `None` for regular words.
pub(crate) fn basic(language: Language, stem: &str) -> Option<String> {
    FORMS.get(&(language, stem.to_owned())).cloned()
}
