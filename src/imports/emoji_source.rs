//! Custom emoji as they are in an archive.

use crate::chat::custom_emoji::PICTURE_BYTES_MAX;

/// Maximum number of emoji that are read from an archive.
pub(super) const EMOJI_READ_MAX: usize = 10_000;
/// Maximum size of a picture that is read. Larger ones are left out.
pub(super) const PICTURE_READ_MAX: u64 = PICTURE_BYTES_MAX.unsigned_abs() + 1;
const NAME_CHARS_MAX: usize = 100;

/// A custom emoji of an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SourceEmoji {
    /// Without colons, as in the archive.
    pub(super) name: String,
    /// Key of the picture.
    pub(super) file: String,
    /// Key of the person who added it.
    pub(super) creator: Option<String>,
}

impl SourceEmoji {
    /// An emoji with a name that is bounded; `None` without a name.
    pub(super) fn new(name: &str, file: &str, creator: Option<String>) -> Option<Self> {
        let name: String = name
            .trim_matches(':')
            .chars()
            .take(NAME_CHARS_MAX)
            .collect();
        (!name.is_empty()).then(|| Self {
            name,
            file: file.to_owned(),
            creator,
        })
    }
}
