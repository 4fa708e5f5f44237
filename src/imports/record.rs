//! Records of an archive, in one format for all sources.

use std::{
    collections::{BTreeMap, HashMap},
    ops::ControlFlow,
};

use super::{archive::ArchiveFault, key::RecordKind};
use crate::{ids::ThreadId, text_enum::text_enum};

/// Maximum number of people, and of channels, that are read from an archive.
pub(super) const LISTED_MAX: usize = 100_000;
/// Number of messages of a unit.
pub(super) const UNIT_MESSAGES: usize = 500;

/// Problem of an archive with more people or channels.
pub(super) fn too_many(what: &str) -> String {
    format!("the archive has more than {LISTED_MAX} {what}")
}

/// People or channels of an archive by key, at most `LISTED_MAX`.
#[derive(Debug, Clone)]
pub(super) struct Listed<K, V> {
    entries: BTreeMap<K, V>,
    has_more: bool,
}

impl<K, V> Default for Listed<K, V> {
    fn default() -> Self {
        Self {
            entries: BTreeMap::new(),
            has_more: false,
        }
    }
}

impl<K: Ord, V> Listed<K, V> {
    /// Adds a value, unless its key is known. Returns false if the list is full.
    pub(super) fn add(&mut self, key: K, value: V) -> bool {
        if self.entries.len() >= LISTED_MAX && !self.entries.contains_key(&key) {
            self.has_more = true;
            return false;
        }
        self.entries.entry(key).or_insert(value);
        true
    }

    pub(super) fn entries(&self) -> &BTreeMap<K, V> {
        &self.entries
    }

    pub(super) fn into_values(self) -> impl Iterator<Item = V> {
        self.entries.into_values()
    }

    /// The problem if the archive has more of them.
    pub(super) fn problem(&self, what: &str) -> Option<String> {
        self.has_more.then(|| too_many(what))
    }
}

/// A person or a program of the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SourcePerson {
    pub(super) key: String,
    pub(super) name: String,
    pub(super) email: Option<String>,
    pub(super) is_bot: bool,
}

text_enum! {
    /// Kind of a channel of the source.
    pub enum SourceChannelKind {
        Public = "public",
        Private = "private",
        Direct = "direct",
    }
}

/// A channel of the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SourceChannel {
    pub(super) key: String,
    pub(super) kind: SourceChannelKind,
    pub(super) name: String,
    pub(super) topic: Option<String>,
    pub(super) is_archived: bool,
    pub(super) created_ms: i64,
    pub(super) creator: Option<String>,
    /// Keys of people.
    pub(super) members: Vec<String>,
    /// Folder of the channel's messages.
    pub(super) folder: String,
}

impl SourceChannel {
    /// A direct conversation, which has no name of its own.
    pub(super) fn direct(key: String, members: Vec<String>) -> Self {
        Self {
            key: key.clone(),
            kind: SourceChannelKind::Direct,
            name: key.clone(),
            topic: None,
            is_archived: false,
            created_ms: 0,
            creator: None,
            members,
            folder: key,
        }
    }
}

/// Author of a message. `name` is that of a person who is not in the list of people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SourceAuthor {
    pub(super) key: String,
    pub(super) name: Option<String>,
    pub(super) is_bot: bool,
    /// Name under which a program posted this message.
    pub(super) shown_as: Option<String>,
}

/// A file of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SourceFile {
    pub(super) key: String,
    pub(super) name: String,
    /// Address without secrets, for a link.
    pub(super) url: Option<String>,
    /// Address from which the bytes can be fetched, which may contain a token.
    pub(super) fetch_url: Option<String>,
    /// Reason why the source has no bytes.
    pub(super) left_out: Option<&'static str>,
}

/// The files of a message, each once.
pub(super) fn distinct_files(files: impl Iterator<Item = SourceFile>) -> Vec<SourceFile> {
    let mut distinct: Vec<SourceFile> = Vec::new();
    for file in files {
        if distinct.iter().all(|known| known.key != file.key) {
            distinct.push(file);
        }
    }
    distinct
}

/// Checks whether an address can be the target of a link in Markdown.
pub(super) fn is_linkable(url: &str) -> bool {
    url.starts_with("https://") && !url.contains(['<', '>', ' ', '\\'])
}

/// A question in a chat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SourceQuestion {
    pub(super) key: String,
    pub(super) at_us: i64,
}

/// First message of a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SourceThread {
    pub(super) key: String,
    /// ID of the thread in an archive of this program.
    pub(super) id: Option<ThreadId>,
    /// The question of a chat that this version of the chat asks again.
    pub(super) variant_of: Option<SourceQuestion>,
    pub(super) at_us: i64,
    /// Title that someone has given to the thread.
    pub(super) title: Option<String>,
}

/// A reaction, by name of the emoji, and keys of people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SourceReaction {
    pub(super) name: String,
    pub(super) people: Vec<String>,
}

/// A message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SourceMessage {
    /// Unique in its channel, in the order of time.
    pub(super) key: String,
    pub(super) at_us: i64,
    pub(super) edited_us: Option<i64>,
    /// The first message of the thread; the message itself if it has replies.
    pub(super) thread: Option<SourceThread>,
    pub(super) author: Option<SourceAuthor>,
    /// Markdown.
    pub(super) text: String,
    pub(super) reactions: Vec<SourceReaction>,
    pub(super) files: Vec<SourceFile>,
    pub(super) is_pinned: bool,
    /// Key of the deep dive that the message is in.
    pub(super) fork: Option<String>,
    /// True if another record names the message, whose ID here must be found by its key then.
    pub(super) is_cited: bool,
}

/// An object of our own format that is stored from its JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SourceRecord {
    pub(super) kind: RecordKind,
    /// ID in the archive.
    pub(super) key: String,
    /// JSON. In memory, a parsed value can be many times as large.
    pub(super) text: String,
}

/// Content of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SourceItem {
    Message(Box<SourceMessage>),
    /// A deep dive, a result, or an action item.
    Record(SourceRecord),
    /// A copy of another message.
    Merged,
    LeftOut(&'static str),
}

impl SourceItem {
    /// Kind under which the entry is counted.
    pub(super) fn kind(&self) -> RecordKind {
        match self {
            Self::Record(record) => record.kind,
            Self::Message(_) | Self::Merged | Self::LeftOut(_) => RecordKind::Messages,
        }
    }
}

/// An entry of an archive, and where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PlacedItem {
    /// Folder of the channel.
    pub(super) folder: String,
    pub(super) at_us: i64,
    pub(super) place: String,
    pub(super) item: SourceItem,
}

/// People and channels of an archive.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct SourceIndex {
    /// Such as `slack:T024BE7LD`.
    pub(super) source: String,
    pub(super) people: Vec<SourcePerson>,
    pub(super) channels: Vec<SourceChannel>,
    pub(super) problems: Vec<String>,
}

/// Entries that are read at once, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct SourceUnit {
    /// Number of the unit in the archive, the same each time that it is read.
    pub(super) number: i64,
    pub(super) items: Vec<PlacedItem>,
    pub(super) problems: Vec<String>,
}

impl SourceUnit {
    /// Number of entries that were read, including those that cannot be read.
    pub(super) fn size(&self) -> usize {
        self.items.len() + self.problems.len()
    }
}

/// Names of people and channels in texts, by key.
#[derive(Debug, Clone, Default)]
pub(super) struct SourceNames(pub(super) HashMap<String, String>);

/// Files of an archive.
pub(super) trait SourceFiles {
    /// Size of a file; `None` if the archive does not have its bytes.
    fn file_bytes(&self, key: &str) -> Option<u64>;

    /// The bytes of a file; `None` if the archive does not have them.
    fn file(&mut self, key: &str, bytes_max: u64) -> Option<Result<Vec<u8>, ArchiveFault>>;
}

/// Receives units with the files of the archive, until it breaks.
pub(super) type EachUnit<'a> =
    &'a mut dyn FnMut(SourceUnit, &mut dyn SourceFiles) -> ControlFlow<()>;

/// Hands a unit over, and begins the next one.
pub(super) fn finish(
    unit: &mut SourceUnit,
    from: i64,
    files: &mut dyn SourceFiles,
    each: EachUnit<'_>,
) -> ControlFlow<()> {
    let next = SourceUnit {
        number: unit.number + 1,
        ..SourceUnit::default()
    };
    let done = std::mem::replace(unit, next);
    if done.number < from {
        return ControlFlow::Continue(());
    }
    each(done, files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_list_reports_others_but_not_those_that_it_has() {
        let mut list = Listed::default();
        for n in 0..LISTED_MAX {
            assert!(list.add(n, "first"));
        }
        assert!(list.add(7, "second"));
        assert_eq!(list.problem("people"), None);
        assert!(!list.add(LISTED_MAX, "first"));
        let expected = "the archive has more than 100000 people";
        assert_eq!(list.problem("people").as_deref(), Some(expected));
        assert_eq!(list.entries()[&7], "first");
        assert_eq!(list.into_values().count(), LISTED_MAX);
    }
}
