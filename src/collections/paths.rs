//! Paths of files in a collection, such as `rules/travel.md`.

use unicode_normalization::UnicodeNormalization;

use super::CollectionError;

/// Maximum length of a path in characters.
pub(super) const PATH_CHARS_MAX: usize = 512;

/// A path without a leading slash, in the composed form of Unicode.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StorePath(String);

impl StorePath {
    /// # Errors
    /// `Invalid` for an empty or long path, one with `.`, `..`, or an empty name, and one with control characters.
    pub fn parse(text: &str) -> Result<Self, CollectionError> {
        let path: String = text.nfc().take(PATH_CHARS_MAX + 1).collect();
        let is_name = |name: &str| !name.is_empty() && name != "." && name != "..";
        let is_valid = path.chars().count() <= PATH_CHARS_MAX
            && path.split('/').all(is_name)
            && !path.chars().any(|c| c.is_control() || c == '\\');
        if is_valid {
            Ok(Self(path))
        } else {
            let text = "a path must have 1 to 512 characters, and names other than `.` and `..` between its slashes";
            Err(CollectionError::Invalid(text.to_owned(), "path"))
        }
    }

    /// The path of a file without one: its name.
    pub(super) fn of_name(name: &str) -> Self {
        Self(name.nfc().take(PATH_CHARS_MAX).collect())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The part after the last slash.
    pub fn name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_have_names_between_slashes() {
        for path in ["a", "a/b.md", ".hidden", "a b/ü.md", "...", "a:b"] {
            assert_eq!(StorePath::parse(path).unwrap().as_str(), path);
        }
        for path in [
            "", "/", "/a", "a/", "a//b", ".", "..", "a/../b", "./a", "a\\b", "a\0", "a\nb",
        ] {
            assert!(StorePath::parse(path).is_err(), "{path:?}");
        }
    }

    #[test]
    fn a_path_has_one_form_and_at_most_512_characters() {
        let composed = StorePath::parse("\u{fc}.md").unwrap();
        assert_eq!(StorePath::parse("u\u{308}.md").unwrap(), composed);
        assert!(StorePath::parse(&"ü".repeat(PATH_CHARS_MAX)).is_ok());
        assert!(StorePath::parse(&"u\u{308}".repeat(PATH_CHARS_MAX)).is_ok());
        assert!(StorePath::parse(&"a".repeat(PATH_CHARS_MAX + 1)).is_err());
        assert_eq!(composed.name(), "\u{fc}.md");
        assert_eq!(StorePath::parse("a/b/c").unwrap().name(), "c");
    }
}
