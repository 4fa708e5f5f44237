//! Events for bots: settings of subscriptions, and deliveries, as the API shows them.

use serde::{Deserialize, Serialize};

use crate::{
    db::Json,
    ids::{BotDeliveryId, ChannelId},
    text_enum::text_enum,
    time::Timestamp,
};

text_enum! {
    /// Transport of events to the program.
    pub enum BotTransport {
        /// The server sends each event to an address.
        Http = "http",
        /// The program opens a socket (Slack's Socket Mode).
        Socket = "socket",
    }
}

text_enum! {
    /// Format of the events.
    pub enum BotEventFormat {
        /// Standard Webhooks.
        Standard = "standard",
        /// Slack's Events API.
        Slack = "slack",
    }
}

text_enum! {
    /// Event that a bot can subscribe to.
    pub enum BotEventKind {
        /// A message of a person, the complete reply of an agent, or, with `bots`, a message of another bot.
        MessageCreated = "message.created",
        /// A person or an agent changed the text of their message.
        MessageUpdated = "message.updated",
        MessageDeleted = "message.deleted",
        /// A person reacted to a message.
        ReactionAdded = "reaction.added",
        ReactionRemoved = "reaction.removed",
        ChannelUpdated = "channel.updated",
        ChannelArchived = "channel.archived",
        ChannelMemberAdded = "channel.member_added",
        ChannelMemberRemoved = "channel.member_removed",
        MemberJoined = "member.joined",
        /// A new message contains the bot's handle; sent in addition to `message.created`.
        AppMention = "app_mention",
        /// A person's new message contains links to the bot's `link_domains`.
        LinkShared = "link_shared",
    }
}

text_enum! {
    pub enum SubscriptionStatus {
        Active = "active",
        /// Events wait until an admin sets the bot's status to `active`.
        Paused = "paused",
    }
}

text_enum! {
    /// Reason why the server paused a subscription.
    pub enum SubscriptionPause {
        /// The program answered 410.
        Gone = "gone",
        /// Nothing was accepted for three days.
        NoAnswer = "no_answer",
    }
}

/// Events that a bot gets.
#[derive(Debug, Clone, Serialize, sqlx::FromRow, utoipa::ToSchema)]
pub struct BotSubscription {
    pub transport: BotTransport,
    /// Address of the program; null for a socket.
    pub url: Option<String>,
    pub format: BotEventFormat,
    #[schema(value_type = Vec<BotEventKind>)]
    pub events: Json<Vec<BotEventKind>>,
    /// Only events of these channels; null for all channels that the bot is in.
    #[schema(value_type = Option<Vec<ChannelId>>)]
    pub channel_ids: Option<Json<Vec<ChannelId>>>,
    /// True if the bot gets new messages of other bots.
    #[sqlx(rename = "with_bots")]
    pub bots: bool,
    /// Number of the last event that was read for the bot; events that it does not get can follow it.
    #[sqlx(rename = "cursor_seq")]
    pub cursor: i64,
    pub status: SubscriptionStatus,
    pub paused_reason: Option<SubscriptionPause>,
    /// Number of events that were deleted from the log before the bot got them.
    pub missed: i64,
    pub created_at: Timestamp,
}

/// A subscription, with its secret if that is new.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct BotSubscriptionWithSecret {
    #[serde(flatten)]
    pub subscription: BotSubscription,
    /// Secret with which requests are signed, `whsec_…`, which is shown only once; null if the subscription existed.
    pub secret: Option<String>,
}

/// Settings of a subscription.
#[derive(Debug, Clone, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BotSubscriptionForm {
    /// `http` by default.
    pub transport: Option<BotTransport>,
    /// Address for `http`, of at most 2,000 bytes.
    pub url: Option<String>,
    /// `standard` by default.
    pub format: Option<BotEventFormat>,
    /// All events by default.
    pub events: Option<Vec<BotEventKind>>,
    /// At most 100 channels; null for all channels that the bot is in.
    #[schema(max_items = 100)]
    pub channel_ids: Option<Vec<ChannelId>>,
    /// True to get new messages of other bots.
    #[serde(default)]
    pub bots: bool,
}

text_enum! {
    /// State of an event for a bot.
    pub enum BotDeliveryState {
        Queued = "queued",
        Sending = "sending",
        Sent = "sent",
        /// The event is no longer visible to the bot, or its message was deleted.
        Skipped = "skipped",
        /// All attempts failed.
        Dead = "dead",
    }
}

/// An event that is sent to a bot.
#[derive(Debug, Clone, Serialize, sqlx::FromRow, utoipa::ToSchema)]
pub struct BotDelivery {
    /// The same for all attempts; `webhook-id` of the requests.
    pub id: BotDeliveryId,
    pub event: BotEventKind,
    /// Number of the event in the log.
    pub seq: i64,
    pub state: BotDeliveryState,
    /// Number of failed attempts.
    #[sqlx(rename = "attempt")]
    pub attempts: i64,
    /// Time of the next attempt; null if there will be none.
    pub due_at: Option<Timestamp>,
    /// Status of the last answer; null without one.
    pub status: Option<i64>,
    /// Beginning of the last answer, or the reason why there is none.
    pub answer: Option<String>,
    pub created_at: Timestamp,
}
