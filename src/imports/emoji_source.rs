//! Custom emoji as they are in an archive.

use crate::chat::custom_emoji::PICTURE_BYTES_MAX;

/// Maximum number of emoji that are read from an archive.
const EMOJI_READ_MAX: usize = 10_000;
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
    fn new(name: &str, file: &str, creator: Option<String>) -> Option<Self> {
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

/// Custom emoji of an archive, at most `EMOJI_READ_MAX`.
#[derive(Debug, Clone, Default)]
pub(super) struct EmojiList {
    emoji: Vec<SourceEmoji>,
    has_more: bool,
}

impl EmojiList {
    /// Adds an emoji with a name, unless the list is full.
    pub(super) fn add(&mut self, name: &str, file: &str, creator: Option<String>) {
        let Some(emoji) = SourceEmoji::new(name, file, creator) else {
            return;
        };
        if self.emoji.len() < EMOJI_READ_MAX {
            self.emoji.push(emoji);
        } else {
            self.has_more = true;
        }
    }

    /// Returns the emoji, and the problems with another one if the archive has more emoji.
    pub(super) fn finish(self, mut problems: Vec<String>) -> (Vec<SourceEmoji>, Vec<String>) {
        if self.has_more {
            problems.push(format!(
                "the archive has more than {EMOJI_READ_MAX} custom emoji"
            ));
        }
        (self.emoji, problems)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn emoji_beyond_the_limit_are_a_problem() {
        let mut list = EmojiList::default();
        for n in 0..EMOJI_READ_MAX {
            list.add(&format!(":parrot{n}:"), "parrot.png", None);
        }
        list.add("::", "nameless.png", None);
        let (emoji, problems) = list.clone().finish(Vec::new());
        assert_eq!((emoji.len(), problems.len()), (EMOJI_READ_MAX, 0));
        list.add("one_more", "parrot.png", None);
        let (emoji, problems) = list.finish(vec!["line 7: not JSON".to_owned()]);
        assert_eq!(emoji.len(), EMOJI_READ_MAX);
        let expected = "the archive has more than 10000 custom emoji";
        assert_eq!(problems, ["line 7: not JSON", expected]);
    }
}
