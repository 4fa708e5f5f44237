//! Bots and webhooks as the API shows them, and their forms.

use serde::{Deserialize, Serialize};

use super::{
    events::{BotSubscription, SubscriptionPause},
    missing::MissingMethod,
    template::HookTemplate,
};
use crate::{
    auth::{Scope, Scopes},
    chat::post::MentionLimit,
    db::Json,
    ids::{ApiKeyId, BotId, ChannelId, FileId, HookId, UserId},
    patch::{nullable, present},
    text_enum::text_enum,
    time::Timestamp,
};

text_enum! {
    pub enum BotObject {
        Bot = "bot",
    }
}

#[expect(
    clippy::derivable_impls,
    reason = "`text_enum` marks no variant as the default"
)]
impl Default for BotObject {
    fn default() -> Self {
        Self::Bot
    }
}

text_enum! {
    pub enum HookObject {
        Hook = "hook",
    }
}

#[expect(
    clippy::derivable_impls,
    reason = "`text_enum` marks no variant as the default"
)]
impl Default for HookObject {
    fn default() -> Self {
        Self::Hook
    }
}

text_enum! {
    pub enum BotStatus {
        Active = "active",
        /// An admin paused the bot: it neither posts nor gets events. With `paused_reason`, the server paused its events only.
        Paused = "paused",
    }
}

/// An author of messages that programs post.
#[derive(Debug, Clone, Serialize, sqlx::FromRow, utoipa::ToSchema)]
pub struct Bot {
    pub id: BotId,
    #[sqlx(default)]
    pub object: BotObject,
    pub handle: String,
    pub name: String,
    pub avatar_url: Option<String>,
    /// Purpose of the bot; at most 500 characters.
    pub about: Option<String>,
    /// Channels that the bot is in and the caller can read. The bot's keys read and write only these.
    #[sqlx(skip)]
    pub channel_ids: Vec<ChannelId>,
    /// Rights of the bot's keys: `chat:read`, `chat:write`, or both. Webhooks need none.
    #[schema(value_type = Vec<Scope>)]
    pub scopes: Json<Scopes>,
    /// True if the bot's keys see the email addresses of people in Slack's Web API.
    pub show_emails: bool,
    /// Domains, with their subdomains, for whose links the bot can add previews to messages.
    #[schema(value_type = Vec<String>)]
    pub link_domains: Json<Vec<String>>,
    /// Events that the bot gets; null if it gets none, and unless the caller is an admin.
    #[sqlx(skip)]
    pub subscription: Option<BotSubscription>,
    /// Commands that people run in the bot's channels.
    #[sqlx(skip)]
    pub commands: Vec<BotCommand>,
    pub status: BotStatus,
    /// Reason why the server paused the bot's events.
    pub paused_reason: Option<SubscriptionPause>,
    pub created_by: UserId,
    pub created_at: Timestamp,
    pub last_used_at: Option<Timestamp>,
    pub version: i64,
}

/// A command of a bot: `/name`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BotCommand {
    /// 1 to 32 lowercase letters, digits, `-`, and `_`; no other bot of the workspace can have it.
    #[schema(min_length = 1, max_length = 32, example = "deploy")]
    pub name: String,
    /// At most 200 characters.
    #[serde(default)]
    pub description: String,
    /// Arguments of the command, such as `[service]`; at most 100 characters.
    #[serde(default)]
    pub usage: String,
}

/// A bot with its keys.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct BotWithKeys {
    #[serde(flatten)]
    pub bot: Bot,
    /// Keys of the bot, oldest first; empty unless the caller is an admin.
    pub keys: Vec<BotKey>,
    /// Methods of Slack's API that the bot's program asked for and that are not offered, most frequent first; at most 20. Empty unless the
    /// caller is an admin.
    pub missing_methods: Vec<MissingMethod>,
}

/// Access of a program as a bot.
#[derive(Debug, Clone, Serialize, sqlx::FromRow, utoipa::ToSchema)]
pub struct BotKey {
    pub id: ApiKeyId,
    pub name: String,
    pub created_by: UserId,
    pub created_at: Timestamp,
    pub last_used_at: Option<Timestamp>,
}

/// A new key with its secret, which is shown only once.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct NewBotKey {
    #[serde(flatten)]
    pub bot_key: BotKey,
    /// The secret: `ov_…`.
    pub key: String,
}

/// Name of a new key.
#[derive(Debug, Clone, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BotKeyForm {
    pub name: String,
}

/// Fields of a new bot.
#[derive(Debug, Clone, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BotForm {
    pub name: String,
    /// At most 500 characters.
    pub about: Option<String>,
    /// At most 20 channels that you can read.
    #[serde(default)]
    #[schema(max_items = 20)]
    pub channel_ids: Vec<ChannelId>,
    /// `chat:read` and `chat:write` by default.
    #[schema(value_type = Option<Vec<Scope>>)]
    pub scopes: Option<Scopes>,
    #[serde(default)]
    pub show_emails: bool,
    /// At most 20 domains in lowercase.
    #[serde(default)]
    #[schema(max_items = 20)]
    pub link_domains: Vec<String>,
    /// At most 20.
    #[serde(default)]
    #[schema(max_items = 20)]
    pub commands: Vec<BotCommand>,
}

/// An address to which a program sends messages for a channel.
#[derive(Debug, Clone, Serialize, sqlx::FromRow, utoipa::ToSchema)]
pub struct Hook {
    pub id: HookId,
    #[sqlx(default)]
    pub object: HookObject,
    pub bot_id: BotId,
    pub channel_id: ChannelId,
    /// Other channels that a message in Slack's format can name in `channel`.
    #[schema(value_type = Vec<ChannelId>)]
    pub other_channel_ids: Json<Vec<ChannelId>>,
    pub may_notify: MentionLimit,
    /// Template of messages for all JSON that the webhook receives; null if products are recognized.
    #[schema(value_type = Option<HookTemplate>)]
    pub template: Option<Json<HookTemplate>>,
    /// True if requests need a signature.
    pub secret_set: bool,
    pub created_by: UserId,
    pub created_at: Timestamp,
    pub last_used_at: Option<Timestamp>,
}

/// A webhook with its address, which is shown only once.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct NewHook {
    #[serde(flatten)]
    pub hook: Hook,
    /// Address for programs. Whoever knows it can post in the channel.
    pub url: String,
}

/// Fields of a new webhook.
#[derive(Debug, Clone, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HookForm {
    /// Name of the new bot; required without `bot_id`, and not used with it.
    pub name: Option<String>,
    pub channel_id: ChannelId,
    /// An existing bot, which you must have created unless you are an admin.
    pub bot_id: Option<BotId>,
    /// Mentions that notify someone; `people` by default.
    pub may_notify: Option<MentionLimit>,
    /// At most 20 channels in which you can post.
    #[serde(default)]
    #[schema(max_items = 20)]
    pub other_channel_ids: Vec<ChannelId>,
    pub template: Option<HookTemplate>,
}

/// Secret that a webhook shares with a program.
#[derive(Clone, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HookSecretForm {
    /// 8 to 200 characters. Null removes it, and requests need no signature.
    #[schema(min_length = 8, max_length = 200)]
    pub value: Option<String>,
}

/// Changes of a webhook.
#[derive(Debug, Clone, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HookPatch {
    /// Another channel, in which you can post.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub channel_id: Option<ChannelId>,
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub may_notify: Option<MentionLimit>,
    /// At most 20 channels in which you can post.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false, max_items = 20)]
    pub other_channel_ids: Option<Vec<ChannelId>>,
    /// Null removes it.
    #[serde(default, deserialize_with = "nullable")]
    pub template: Option<Option<HookTemplate>>,
}

/// Changes of a bot.
#[derive(Debug, Clone, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BotPatch {
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub name: Option<String>,
    /// Your upload that is not attached to a message: a PNG, JPEG, or WebP of at most 1 MiB and 1,024 × 1,024 pixels. Null removes the picture.
    #[serde(default, deserialize_with = "nullable")]
    pub avatar_file_id: Option<Option<FileId>>,
    /// An empty text removes it.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub about: Option<String>,
    /// Replaces the channels that you can read; at most 20 new ones.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub channel_ids: Option<Vec<ChannelId>>,
    /// Apply to all keys at once.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<Vec<Scope>>, nullable = false)]
    pub scopes: Option<Scopes>,
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub show_emails: Option<bool>,
    /// At most 20 domains in lowercase.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false, max_items = 20)]
    pub link_domains: Option<Vec<String>>,
    /// At most 20; replaces all.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false, max_items = 20)]
    pub commands: Option<Vec<BotCommand>>,
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub status: Option<BotStatus>,
}
