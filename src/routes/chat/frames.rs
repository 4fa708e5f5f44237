//! Frames that are sent only to the sockets of one person.

use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    chat::follows::Follow,
    ids::{ChannelId, ThreadId},
};

/// Changes by the person, possibly in another window.
#[derive(Serialize, ToSchema)]
#[serde(tag = "type")]
pub enum OwnFrame {
    /// The read marker of a thread.
    #[serde(rename = "read.updated")]
    #[schema(title = "ThreadRead")]
    ThreadRead { thread_id: ThreadId, seq: i64 },
    /// The whole channel was marked as read.
    #[serde(rename = "read.updated")]
    #[schema(title = "ChannelRead")]
    ChannelRead {
        channel_id: ChannelId,
        /// Always null.
        #[schema(value_type = Option<ThreadId>)]
        thread_id: (),
        seq: i64,
    },
    #[serde(rename = "follow.updated")]
    #[schema(title = "FollowUpdated")]
    FollowUpdated { thread_id: ThreadId, follow: Follow },
}
