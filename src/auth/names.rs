//! Names of people, workspaces, and agents, and the slugs derived from them.

use unicode_normalization::UnicodeNormalization;
use unicode_properties::{GeneralCategoryGroup, UnicodeGeneralCategory};

use super::{AuthError, letters, look_alikes};
use crate::model::has_visible;

pub(super) const NAME_UNITS_MAX: usize = 80;

/// Display name. It cannot imitate the labels that identify speakers in prompts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DisplayName(pub String);

impl DisplayName {
    /// Parses a new name.
    ///
    /// # Errors
    /// `Invalid` for the field `param`, with the rule that the name violates.
    pub fn parse(text: &str, param: &'static str) -> Result<Self, AuthError> {
        let name = Self::parse_stored(text, param)?;
        name.check_new(param)?;
        Ok(name)
    }

    /// Parses a name that replaces `current`, which stays valid although an earlier version may have stored it.
    ///
    /// # Errors
    /// Same as `parse`.
    pub fn parse_change(text: &str, current: &str, param: &'static str) -> Result<Self, AuthError> {
        if text.trim() == current {
            return Self::parse_stored(text, param);
        }
        Self::parse(text, param)
    }

    /// Checks that the name does not imitate others.
    ///
    /// # Errors
    /// Same as `parse`.
    pub fn check_new(&self, param: &'static str) -> Result<(), AuthError> {
        match look_alikes::problem(&self.0) {
            Some(problem) => Err(AuthError::Invalid(problem.to_owned(), param)),
            None => Ok(()),
        }
    }

    /// Parses a name that may have been stored by an earlier version; new names need `check_new`, too.
    ///
    /// # Errors
    /// Same as `parse`.
    pub fn parse_stored(text: &str, param: &'static str) -> Result<Self, AuthError> {
        let name = text.trim();
        let problem = if name.is_empty() {
            "the name is blank: enter at least one character"
        } else if name.encode_utf16().count() > NAME_UNITS_MAX {
            "the name is too long: use at most 80 characters"
        } else if name.chars().any(|c| {
            c.is_control()
                || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '[' | ']')
        }) {
            "a name cannot contain line breaks, control characters, `[`, or `]`"
        } else if name.to_lowercase().ends_with("(ai)") {
            "a name cannot end with `(AI)`, which marks agents"
        } else if !has_visible(name) {
            "the name is invisible: enter at least one visible character"
        } else {
            return Ok(Self(name.to_owned()));
        };
        Err(AuthError::Invalid(problem.to_owned(), param))
    }
}

/// Converts a text to a slug of `[a-z0-9_]` and single hyphens, at most `max` characters long. Letters of other scripts become Latin ones
/// if they have any, and are dropped otherwise. The slug may be empty.
pub fn slugify(text: &str, max: usize) -> String {
    let mut slug = String::new();
    for c in text.nfc().flat_map(char::to_lowercase) {
        if let Some(latin) = letters::latin(c) {
            slug.push_str(&latin);
            continue;
        }
        for part in std::iter::once(c).nfkd().flat_map(char::to_lowercase) {
            if part.is_ascii_alphanumeric() || (part == '_' && !slug.is_empty()) {
                slug.push(part);
            } else if let Some(latin) = letters::latin(part) {
                slug.push_str(&latin);
            } else if !is_mark(part) && !slug.is_empty() && !slug.ends_with('-') {
                slug.push('-');
            }
        }
        if slug.len() >= max {
            break;
        }
    }
    slug.truncate(max);
    slug.trim_end_matches(['-', '_']).to_owned()
}

/// Checks for a character that is dropped without a hyphen in its place.
fn is_mark(c: char) -> bool {
    c.is_alphabetic()
        || c.general_category_group() == GeneralCategoryGroup::Mark
        || matches!(c, '\'' | '’')
}

/// # Errors
/// `Invalid` if the text is not an email address.
pub(super) fn parse_email(text: &str) -> Result<String, AuthError> {
    let email = text.trim().to_lowercase();
    let well_formed = email.len() <= 254
        && !email.chars().any(|c| c.is_whitespace() || c.is_control())
        && email.split_once('@').is_some_and(|(local, domain)| {
            !local.is_empty()
                && !domain.contains('@')
                && domain.len() >= 2
                && !domain.starts_with('.')
                && !domain.ends_with('.')
        });
    if well_formed {
        Ok(email)
    } else {
        Err(AuthError::Invalid(
            "this is not an email address: use the form name@host".to_owned(),
            "email",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slug_is_short_and_plain() {
        assert_eq!(slugify("Zoë O’Neill", 64), "zoe-oneill");
        assert_eq!(slugify("  Ops & Infra  ", 64), "ops-infra");
        assert_eq!(slugify("日本", 64), "");
        assert_eq!(slugify("abcdef", 3), "abc");
        assert_eq!(slugify("Łukasz", 2), "lu");
        for (name, slug) in [
            ("Wałęsa", "walesa"),
            ("Bjørk", "bjork"),
            ("Groß", "gross"),
            ("Ħamrun", "hamrun"),
            ("Þorbjörg", "thorbjorg"),
            ("Œuvre", "oeuvre"),
            ("Ægir Smør", "aegir-smor"),
            ("Дмитрий Ёлкин", "dmitrii-elkin"),
            ("Μαρία", "maria"),
            ("さくら", "sakura"),
            ("カタカナ", "katakana"),
            ("がくせい", "gakusei"),
            ("김민준", "gimminjun"),
            ("თამარ", "tamar"),
            ("李小龍 Lee", "lee"),
            ("李小龍", ""),
            ("שרה", ""),
            ("ปรียา", ""),
        ] {
            assert_eq!(slugify(name, 64), slug, "{name}");
        }
    }

    #[test]
    fn a_name_cannot_look_like_a_label() {
        for bad in [
            "",
            "  ",
            "a\nb",
            "[Ada",
            "Vibe (AI)",
            "Vibe (ai) ",
            "\u{200b}",
            "x\u{2028}y",
        ] {
            assert!(DisplayName::parse(bad, "name").is_err(), "{bad:?}");
        }
        assert!(DisplayName::parse(&"x".repeat(81), "name").is_err());
        assert_eq!(DisplayName::parse(" Ada ", "name").unwrap().0, "Ada");
    }
}
