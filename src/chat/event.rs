//! Payloads of the chat events.

use serde::Serialize;

use super::rows::{
    channel::Channel,
    message::{Message, Reaction},
    thread::Thread,
};
use crate::ids::{MessageId, UserId};

#[derive(Serialize)]
pub(super) struct MessageData<'a> {
    pub message: &'a Message,
}

#[derive(Serialize)]
pub(super) struct ThreadData<'a> {
    pub thread: &'a Thread,
}

#[derive(Serialize)]
pub(super) struct ChannelData<'a> {
    pub channel: &'a Channel,
}

#[derive(Serialize)]
pub(super) struct ChannelMemberData<'a> {
    pub channel: &'a Channel,
    pub user_id: UserId,
}

#[derive(Serialize)]
pub(super) struct ReactionData<'a> {
    pub message_id: MessageId,
    pub emoji: &'a str,
    pub user_id: UserId,
    pub reactions: &'a [Reaction],
}
