//! Archives of all formats.

use std::{
    io::{Read, Seek},
    ops::ControlFlow,
};

use super::{
    archive::{Archive, ArchiveFault},
    mattermost::MattermostArchive,
    record::{SourceIndex, SourceNames, SourceUnit},
    row::ImportFormat,
    slack::SlackArchive,
};

/// Number of names that an error shows.
const NAMES_SHOWN: usize = 5;

/// Files of an archive.
pub(super) trait SourceFiles {
    /// Checks whether the archive has the bytes of a file.
    fn has_file(&self, key: &str) -> bool;

    /// The bytes of a file; `None` if the archive does not have them.
    fn file(&mut self, key: &str, bytes_max: u64) -> Option<Result<Vec<u8>, ArchiveFault>>;
}

/// Receives units with the files of the archive, until it breaks.
pub(super) type EachUnit<'a> =
    &'a mut dyn FnMut(SourceUnit, &mut dyn SourceFiles) -> ControlFlow<()>;

/// An archive of a known format.
pub(super) enum SourceArchive<R> {
    Slack(SlackArchive<R>),
    Mattermost(MattermostArchive<R>),
}

impl<R: Read + Seek> SourceArchive<R> {
    /// Opens an archive in a format, or detects the format. `open` returns a new reader of the archive.
    ///
    /// # Errors
    /// `Unknown` with what the archive has, or any error from `Archive::open`.
    pub(super) fn open(
        open: impl Fn() -> R,
        format: Option<ImportFormat>,
        archive_bytes_max: u64,
    ) -> Result<Self, ArchiveFault> {
        let archive = Archive::open(open(), archive_bytes_max)?;
        let format = format.or_else(|| {
            if SlackArchive::is_in(&archive) {
                Some(ImportFormat::Slack)
            } else if MattermostArchive::is_in(&archive) {
                Some(ImportFormat::Mattermost)
            } else {
                None
            }
        });
        match format {
            Some(ImportFormat::Slack) => SlackArchive::open(archive).map(Self::Slack),
            Some(ImportFormat::Mattermost) => {
                let files = Archive::open(open(), archive_bytes_max)?;
                MattermostArchive::open(archive, files).map(Self::Mattermost)
            }
            None => Err(unknown(&archive)),
        }
    }

    pub(super) fn format(&self) -> ImportFormat {
        match self {
            Self::Slack(_) => ImportFormat::Slack,
            Self::Mattermost(_) => ImportFormat::Mattermost,
        }
    }

    /// Reads the lists of people and channels.
    pub(super) fn index(&mut self) -> SourceIndex {
        match self {
            Self::Slack(archive) => archive.index(),
            Self::Mattermost(archive) => archive.index(),
        }
    }

    /// Calls `each` with the units from number `from` on.
    pub(super) fn units(&mut self, names: &SourceNames, from: i64, each: EachUnit<'_>) {
        match self {
            Self::Slack(archive) => archive.units(names, from, each),
            Self::Mattermost(archive) => archive.units(names, from, each),
        }
    }
}

/// Error for an archive without a known format.
pub(super) fn unknown<R>(archive: &Archive<R>) -> ArchiveFault {
    let found: Vec<&str> = archive
        .names
        .iter()
        .take(NAMES_SHOWN)
        .map(String::as_str)
        .collect();
    ArchiveFault::Unknown(format!(
        "This is not an export: it has no channels.json and users.json, and no import.jsonl, but {}. In Slack: Settings, Import/Export Data, Export. In Mattermost: mmctl export create.",
        if found.is_empty() {
            "nothing".to_owned()
        } else {
            found.join(", ")
        }
    ))
}
