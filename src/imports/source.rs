//! Archives of all formats.

use std::io::{Read, Seek};

use super::{
    agents::SourceAgent,
    archive::{Archive, ArchiveFault, unknown},
    chats::ChatsArchive,
    discord::DiscordArchive,
    emoji_source::SourceEmoji,
    mattermost::MattermostArchive,
    openvibe::OpenVibeArchive,
    options::ImportFormat,
    record::{EachUnit, SourceIndex, SourceNames},
    slack::SlackArchive,
    tarball::is_gzip,
    work::SourceWork,
    zulip::ZulipArchive,
};

/// Maximum length of the name of a source.
const SOURCE_CHARS_MAX: usize = 100;

/// An archive of a known format.
pub(super) enum SourceArchive<R> {
    Slack(SlackArchive<R>),
    Mattermost(MattermostArchive<R>),
    Zulip(ZulipArchive<R>),
    Discord(DiscordArchive<R>),
    Chats(ChatsArchive<R>),
    OpenVibe(OpenVibeArchive<R>),
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
        if format == Some(ImportFormat::Chats) {
            return ChatsArchive::open(open, archive_bytes_max).map(Self::Chats);
        }
        let is_tarball = is_gzip(&mut open());
        if is_tarball && format.is_none_or(|format| format == ImportFormat::Zulip) {
            return Ok(Self::Zulip(ZulipArchive::new(open(), archive_bytes_max)));
        }
        let mut archive = Archive::open(open(), archive_bytes_max)?;
        let format = format.or_else(|| {
            if OpenVibeArchive::is_in(&archive) {
                Some(ImportFormat::OpenVibe)
            } else if SlackArchive::is_in(&archive) {
                Some(ImportFormat::Slack)
            } else if MattermostArchive::is_in(&archive) {
                Some(ImportFormat::Mattermost)
            } else if DiscordArchive::is_in(&mut archive) {
                Some(ImportFormat::Discord)
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
            Some(ImportFormat::Discord) => {
                let media = Archive::open(open(), archive_bytes_max)?;
                DiscordArchive::open(archive, media).map(Self::Discord)
            }
            Some(ImportFormat::Zulip) => {
                let text = "This is not an export of Zulip, which is a .tar.gz file.";
                Err(ArchiveFault::Unknown(text.to_owned()))
            }
            Some(ImportFormat::OpenVibe) => {
                let files = Archive::open(open(), archive_bytes_max)?;
                OpenVibeArchive::open(archive, files).map(Self::OpenVibe)
            }
            // Chats were opened above.
            Some(ImportFormat::Chats) | None => Err(unknown(&archive)),
        }
    }

    pub(super) fn format(&self) -> ImportFormat {
        match self {
            Self::Slack(_) => ImportFormat::Slack,
            Self::Mattermost(_) => ImportFormat::Mattermost,
            Self::Zulip(_) => ImportFormat::Zulip,
            Self::Discord(_) => ImportFormat::Discord,
            Self::Chats(_) => ImportFormat::Chats,
            Self::OpenVibe(_) => ImportFormat::OpenVibe,
        }
    }

    /// Checks that an archive can be read of which nothing has been read yet.
    ///
    /// # Errors
    /// The reason why it cannot be read.
    pub(super) fn check(&mut self) -> Result<(), ArchiveFault> {
        match self {
            Self::Zulip(archive) => archive.check(),
            _ => Ok(()),
        }
    }

    /// Reads the lists of people and channels.
    pub(super) fn index(&mut self) -> SourceIndex {
        let mut index = match self {
            Self::Slack(archive) => archive.index(),
            Self::Mattermost(archive) => archive.index(),
            Self::Zulip(archive) => archive.index(),
            Self::Discord(archive) => archive.index(),
            Self::Chats(archive) => archive.index(),
            Self::OpenVibe(archive) => archive.index(),
        };
        index.source = index.source.chars().take(SOURCE_CHARS_MAX).collect();
        index
    }

    /// The custom emoji, and the reasons why some cannot be read.
    pub(super) fn emoji(&mut self) -> (Vec<SourceEmoji>, Vec<String>) {
        match self {
            Self::Mattermost(archive) => archive.emoji(),
            Self::Zulip(archive) => archive.emoji(),
            Self::OpenVibe(archive) => archive.emoji(),
            // Their archives have none.
            Self::Slack(_) | Self::Discord(_) | Self::Chats(_) => (Vec::new(), Vec::new()),
        }
    }

    /// The bytes of the picture of an emoji; `None` if the archive does not have them.
    pub(super) fn picture(&mut self, key: &str) -> Option<Result<Vec<u8>, ArchiveFault>> {
        match self {
            Self::Mattermost(archive) => archive.picture(key),
            Self::Zulip(archive) => archive.picture(key),
            Self::OpenVibe(archive) => archive.picture(key),
            Self::Slack(_) | Self::Discord(_) | Self::Chats(_) => None,
        }
    }

    /// The agents, each after its base, and the reasons why some cannot be read.
    pub(super) fn agents(&mut self) -> (Vec<SourceAgent>, Vec<String>) {
        match self {
            Self::OpenVibe(archive) => archive.agents(),
            _ => (Vec::new(), Vec::new()),
        }
    }

    /// Webhooks, workflows, memories, and schedules, and the reasons why some cannot be read.
    pub(super) fn work(&mut self) -> (SourceWork, Vec<String>) {
        match self {
            Self::OpenVibe(archive) => archive.work(),
            _ => (SourceWork::default(), Vec::new()),
        }
    }

    /// Calls `each` with the units from number `from` on.
    pub(super) fn units(&mut self, names: &SourceNames, from: i64, each: EachUnit<'_>) {
        match self {
            Self::Slack(archive) => archive.units(names, from, each),
            Self::Mattermost(archive) => archive.units(names, from, each),
            Self::Zulip(archive) => archive.units(names, from, each),
            Self::Discord(archive) => archive.units(names, from, each),
            Self::Chats(archive) => archive.units(from, each),
            // Texts have the names already.
            Self::OpenVibe(archive) => archive.units(from, each),
        }
    }
}
