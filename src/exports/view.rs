//! Data that an export contains, and the rights with which it is read.

use crate::{
    db::Share,
    ids::{UserId, WorkspaceId},
    text_enum::text_enum,
};

text_enum! {
    /// Channels whose messages are exported.
    pub enum ExportScope {
        /// Public channels.
        Public = "public",
        /// Public channels, and private and direct ones that the person is in.
        Mine = "mine",
    }
}

text_enum! {
    /// Format of an export.
    pub enum ExportFormat {
        /// The format that docs/export-format.md describes.
        OpenVibe = "openvibe",
        /// The layout of Slack's exports.
        Slack = "slack",
    }
}

/// Rights with which data is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sight {
    Public,
    /// Those of this person.
    Person(UserId),
    /// Those of the operator, who can read everything.
    Everything,
}

/// Treatment of the bytes of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileBytes {
    Included,
    LeftOut,
}

/// Data that an export contains.
#[derive(Debug, Clone, Copy)]
pub struct View {
    pub workspace: WorkspaceId,
    pub sight: Sight,
    pub files: FileBytes,
    pub format: ExportFormat,
    /// Person whose share of the slow lane is used; nil for the operator.
    pub requester: UserId,
}

impl View {
    /// The person who must be in a channel that is not public.
    pub(super) fn reader(&self) -> Option<UserId> {
        match self.sight {
            Sight::Person(user) => Some(user),
            Sight::Public | Sight::Everything => None,
        }
    }

    pub(super) fn is_everything(&self) -> bool {
        self.sight == Sight::Everything
    }

    pub(super) fn share(&self) -> Share {
        Share {
            person: self.requester.0,
            workspace: self.workspace.0,
        }
    }
}

/// Condition for rows of `channels` (with this alias) that are exported: `$4` is the reader, and `$5` whether everything is exported.
macro_rules! is_exported {
    ($alias:literal) => {
        concat!(
            "($5 or ",
            $crate::db::is_visible_channel!($alias, "$4"),
            ")"
        )
    };
}
pub(super) use is_exported;
