//! Payloads of the chat events.

use serde::Serialize;
use utoipa::ToSchema;

use super::rows::{
    channel::Channel,
    message::{Message, Reaction},
    thread::Thread,
};
use crate::{
    ids::{ChannelId, MessageId, ThreadId, UserId},
    realtime::{EventData, EventType},
    text_enum::text_enum,
};

#[derive(Serialize, ToSchema)]
pub struct MessageEvent<'a> {
    pub message: &'a Message,
}

#[derive(Serialize, ToSchema)]
pub struct ThreadEvent<'a> {
    pub thread: &'a Thread,
}

#[derive(Serialize, ToSchema)]
pub struct ThreadDeletedEvent {
    pub thread_id: ThreadId,
    pub channel_id: ChannelId,
}

#[derive(Serialize, ToSchema)]
pub struct ChannelEvent<'a> {
    pub channel: &'a Channel,
    /// What happened to the channel, in `channel.updated`; omitted for other changes, such as a new topic.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub change: Option<ChannelChange>,
}

text_enum! {
    /// Change of a channel.
    pub enum ChannelChange {
        Renamed = "renamed",
        Unarchived = "unarchived",
    }
}

#[derive(Serialize, ToSchema)]
pub struct ChannelImportedEvent {
    pub channel_id: ChannelId,
}

#[derive(Serialize, ToSchema)]
pub struct ChannelMemberEvent<'a> {
    pub channel: &'a Channel,
    pub user_id: UserId,
}

#[derive(Serialize, ToSchema)]
pub struct ReactionEvent<'a> {
    pub message_id: MessageId,
    pub emoji: &'a str,
    pub user_id: UserId,
    pub reactions: &'a [Reaction],
}

impl EventData for MessageEvent<'_> {
    const TYPES: &'static [EventType] = &[
        EventType::MessageCreated,
        EventType::MessageUpdated,
        EventType::MessageDeleted,
    ];
}

impl EventData for ThreadEvent<'_> {
    const TYPES: &'static [EventType] = &[EventType::ThreadCreated, EventType::ThreadUpdated];
}

impl EventData for ThreadDeletedEvent {
    const TYPES: &'static [EventType] = &[EventType::ThreadDeleted];
}

impl EventData for ChannelEvent<'_> {
    const TYPES: &'static [EventType] = &[
        EventType::ChannelCreated,
        EventType::ChannelUpdated,
        EventType::ChannelArchived,
    ];
}

impl EventData for ChannelImportedEvent {
    const TYPES: &'static [EventType] = &[EventType::ChannelImported];
}

impl EventData for ChannelMemberEvent<'_> {
    const TYPES: &'static [EventType] = &[
        EventType::ChannelMemberAdded,
        EventType::ChannelMemberRemoved,
    ];
}

impl EventData for ReactionEvent<'_> {
    const TYPES: &'static [EventType] = &[EventType::ReactionAdded, EventType::ReactionRemoved];
}
