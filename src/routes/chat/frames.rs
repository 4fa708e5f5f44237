//! Frames that are sent only to the sockets of one person.

use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    chat::follows::{Follow, FollowLevel},
    ids::{ChannelId, ForkId, ThreadId},
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
    /// The read marker of a fork.
    #[serde(rename = "fork_read.updated")]
    #[schema(title = "ForkRead")]
    ForkRead { fork_id: ForkId, seq: i64 },
    #[serde(rename = "fork_follow.updated")]
    #[schema(title = "ForkFollowUpdated")]
    ForkFollowUpdated { fork_id: ForkId, follow: Follow },
    /// The notification level of a channel.
    #[serde(rename = "level.updated")]
    #[schema(title = "LevelUpdated")]
    LevelUpdated {
        channel_id: ChannelId,
        level: FollowLevel,
    },
}
