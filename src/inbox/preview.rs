//! Content of notifications.

use serde::{Deserialize, Serialize};

use crate::{patch::present, text_enum::text_enum};

text_enum! {
    /// Content of a notification on a locked screen. A later one shows less.
    pub enum NotificationPreview {
        /// The author, the channel, and the text.
        Full = "full",
        /// The author and the reason.
        Sender = "sender",
        /// Neither.
        None = "none",
    }
}

/// Most that notifications of a workspace show, whatever a person chose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(default)]
pub struct PreviewMax {
    /// On devices and in emails, for public channels.
    #[schema(required)]
    pub public: NotificationPreview,
    /// On devices, for everything else.
    #[schema(required)]
    pub private: NotificationPreview,
    /// In emails, for everything else.
    #[schema(required)]
    pub private_mail: NotificationPreview,
}

impl Default for PreviewMax {
    fn default() -> Self {
        Self {
            public: NotificationPreview::Full,
            private: NotificationPreview::Full,
            private_mail: NotificationPreview::Sender,
        }
    }
}

/// Fields of `PolicyPatch::preview_max`; omitted fields are unchanged.
#[derive(Debug, Clone, Copy, Default, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PreviewMaxPatch {
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub public: Option<NotificationPreview>,
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub private: Option<NotificationPreview>,
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub private_mail: Option<NotificationPreview>,
}

impl PreviewMaxPatch {
    pub fn merged(self, into: PreviewMax) -> PreviewMax {
        PreviewMax {
            public: self.public.unwrap_or(into.public),
            private: self.private.unwrap_or(into.private),
            private_mail: self.private_mail.unwrap_or(into.private_mail),
        }
    }
}
