//! Channels as collections that cannot be changed: the files in their messages.

use std::collections::BTreeMap;

use uuid::Uuid;

use super::{
    CollectionError, contents,
    files::{self, StoreFile},
    stores::{
        self, CollectionId, StoreEditors, StoreRef, StoreStatus, VectorStore, VectorStoreObject,
    },
};
use crate::{
    auth::Actor,
    db::{Conn, is_shared_channel},
    ids::{ChannelId, FileId, UserId},
    time::Timestamp,
};

/// A channel that the person can read.
#[derive(sqlx::FromRow)]
struct ReadableChannel {
    name: Option<String>,
    topic: Option<String>,
    created_by: Option<UserId>,
    created_at: Timestamp,
}

/// # Errors
/// `NotFound`.
async fn find(
    c: &mut Conn,
    actor: &Actor<'_>,
    channel: ChannelId,
) -> Result<ReadableChannel, CollectionError> {
    let found: Option<ReadableChannel> = c
        .q(concat!(
            "select sc.name, sc.topic, sc.created_by, sc.created_at from channels sc where sc.id = $1 and sc.workspace_id = $2 and ",
            is_shared_channel!("sc.id", "$3", "$4")
        ))
        .bind(channel)
        .bind(actor.workspace)
        .bind(actor.user)
        .bind(None::<Uuid>)
        .opt()
        .await?;
    found.ok_or(CollectionError::NotFound)
}

/// A vector store, or a channel as one.
///
/// # Errors
/// `NotFound`.
pub async fn get(
    c: &mut Conn,
    actor: &Actor<'_>,
    named: &StoreRef,
) -> Result<VectorStore, CollectionError> {
    let StoreRef::Channel(id) = *named else {
        return stores::get(c, actor, named).await;
    };
    let channel = find(c, actor, id).await?;
    let counts = contents::count_channel(c, id).await?;
    let status = if counts.files.in_progress > 0 {
        StoreStatus::InProgress
    } else {
        StoreStatus::Completed
    };
    Ok(VectorStore {
        id: CollectionId::Channel(id),
        object: VectorStoreObject,
        handle: None,
        name: channel.name.unwrap_or_default(),
        description: channel.topic.unwrap_or_default(),
        channel_id: Some(id),
        editors: StoreEditors::Members,
        trusted_reads: false,
        file_counts: counts.files,
        status,
        usage_bytes: counts.bytes,
        metadata: BTreeMap::new(),
        expires_after: None,
        expires_at: None,
        last_active_at: channel.created_at.unix_s(),
        created_by: channel.created_by,
        created_at: channel.created_at.unix_s(),
        version: 1,
    })
}

/// Files of a vector store, or in the messages of a channel, oldest first.
///
/// # Errors
/// `NotFound`.
pub async fn list_files(
    c: &mut Conn,
    actor: &Actor<'_>,
    named: &StoreRef,
) -> Result<Vec<StoreFile>, CollectionError> {
    let StoreRef::Channel(id) = *named else {
        return files::list_files(c, actor, named).await;
    };
    find(c, actor, id).await?;
    Ok(files::list_in_channel(c, id).await?)
}

/// # Errors
/// `NotFound`, `FileNotFound`.
pub async fn find_file(
    c: &mut Conn,
    actor: &Actor<'_>,
    named: &StoreRef,
    file: FileId,
) -> Result<StoreFile, CollectionError> {
    let StoreRef::Channel(id) = *named else {
        return files::find_file(c, actor, named, file).await;
    };
    find(c, actor, id).await?;
    files::find_in_channel(c, id, file).await
}
