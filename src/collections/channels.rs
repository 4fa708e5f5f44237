//! Channels as collections that cannot be changed: the files in their messages.

use std::collections::BTreeMap;

use super::{
    contents::Counts,
    stores::{CollectionId, StoreEditors, StoreStatus, VectorStore, VectorStoreObject},
};
use crate::{
    chat::search::passages::find::FileReader,
    db::{Conn, DbError, is_shared_channel},
    ids::{ChannelId, UserId},
    time::Timestamp,
};

/// A channel that the reader can read.
#[derive(sqlx::FromRow)]
pub(super) struct ReadableChannel {
    id: ChannelId,
    name: Option<String>,
    topic: Option<String>,
    created_by: Option<UserId>,
    created_at: Timestamp,
}

pub(super) async fn find_channel(
    c: &mut Conn,
    reader: FileReader,
    channel: ChannelId,
) -> Result<Option<ReadableChannel>, DbError> {
    c.q(concat!(
        "select sc.id, sc.name, sc.topic, sc.created_by, sc.created_at from channels sc where sc.id = $1 and sc.workspace_id = $2 and ",
        is_shared_channel!("sc.id", "$3", "$4")
    ))
    .bind(channel)
    .bind(reader.workspace)
    .bind(reader.user)
    .bind(reader.shared_in)
    .opt()
    .await
}

impl ReadableChannel {
    pub(super) fn object(self, counts: Counts) -> VectorStore {
        let status = if counts.files.in_progress > 0 {
            StoreStatus::InProgress
        } else {
            StoreStatus::Completed
        };
        VectorStore {
            id: CollectionId::Channel(self.id),
            object: VectorStoreObject,
            handle: None,
            name: self.name.unwrap_or_default(),
            description: self.topic.unwrap_or_default(),
            channel_id: Some(self.id),
            editors: StoreEditors::Members,
            trusted_reads: false,
            file_counts: counts.files,
            status,
            usage_bytes: counts.bytes,
            metadata: BTreeMap::new(),
            expires_after: None,
            expires_at: None,
            last_active_at: self.created_at.unix_s(),
            created_by: self.created_by,
            created_at: self.created_at.unix_s(),
            version: 1,
        }
    }
}
