//! Choices about an import.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::{discord, record::SourceChannelKind};
use crate::{
    ids::{ChannelId, UserId},
    text_enum::text_enum,
};

pub(super) use crate::chat::imported::ImportFormat;

text_enum! {
    /// Grouping of messages of direct channels that are not in a thread.
    pub enum ImportGroup {
        Day = "day",
        Message = "message",
    }
}

/// Choice about a channel of the archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChannelChoice {
    New,
    LeaveOut,
    /// A public channel; only for archives without permissions, whose channels are private otherwise.
    Public,
    Existing(ChannelId),
}

impl ChannelChoice {
    /// Kind of a channel of the source with this choice. Only archives without permissions have private channels that can become public,
    /// also if the choice was made before the archive was read.
    pub(super) fn kind_of(
        choice: Option<Self>,
        kind: SourceChannelKind,
        product: &str,
    ) -> SourceChannelKind {
        let can_show = product == discord::PRODUCT && kind == SourceChannelKind::Private;
        match choice {
            Some(Self::Public) if can_show => SourceChannelKind::Public,
            _ => kind,
        }
    }
}

impl Serialize for ChannelChoice {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::New => s.serialize_str("new"),
            Self::LeaveOut => s.serialize_str("leave_out"),
            Self::Public => s.serialize_str("public"),
            Self::Existing(id) => id.serialize(s),
        }
    }
}

impl<'de> Deserialize<'de> for ChannelChoice {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(d)?;
        match text.as_ref() {
            "new" => Ok(Self::New),
            "leave_out" => Ok(Self::LeaveOut),
            "public" => Ok(Self::Public),
            id => ChannelId::parse(id)
                .map(Self::Existing)
                .map_err(serde::de::Error::custom),
        }
    }
}

/// Choices about an import.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ImportOptions {
    /// Members of the workspace, by key of the person in the archive.
    pub people: HashMap<String, UserId>,
    /// Email addresses of people whose address is not in the archive, by key of the person.
    #[serde(skip_serializing_if = "HashMap::is_empty")]
    pub addresses: HashMap<String, String>,
    /// `new`, `leave_out`, the ID of a public channel, or `public` for a channel of Discord, by key of the channel in the archive.
    #[schema(value_type = HashMap<String, String>)]
    pub channels: HashMap<String, ChannelChoice>,
    /// Grouping of messages of direct channels into threads; one thread per day by default.
    #[schema(inline)]
    pub group: Option<ImportGroup>,
    /// Fetches files that are not in the archive from the source.
    pub fetch: bool,
    /// The person's direct channel with an agent that chats go to; only for the format `chats`, which requires it.
    pub channel_id: Option<ChannelId>,
}

impl ImportOptions {
    /// Makes the stated addresses lowercase, as those of accounts are compared.
    pub(super) fn lower_addresses(&mut self) {
        for address in self.addresses.values_mut() {
            *address = address.to_lowercase();
        }
    }

    /// The address of a person: that of the archive, or else the stated one.
    pub(super) fn address_of(&self, key: &str, known: Option<String>) -> Option<String> {
        known.or_else(|| self.addresses.get(key).cloned())
    }
}
