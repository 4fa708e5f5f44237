//! Events about vector stores.

use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    db::{Conn, DbError},
    ids::{ChannelId, VectorStoreId, WorkspaceId},
    realtime::{Audience, EventData, EventType, log::append_one},
};

/// A vector store whose settings or files have changed.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
pub struct StoreEvent {
    pub vector_store_id: VectorStoreId,
}

impl EventData for StoreEvent {
    const TYPES: &'static [EventType] =
        &[EventType::VectorStoreUpdated, EventType::VectorStoreDeleted];
}

/// Readers of a vector store.
#[derive(sqlx::FromRow)]
struct Readers {
    workspace_id: WorkspaceId,
    channel_id: Option<ChannelId>,
    is_public: bool,
}

/// Appends an event for the readers of a vector store, which may have been deleted in this transaction.
pub(super) async fn announce(
    c: &mut Conn,
    store: VectorStoreId,
    kind: EventType,
) -> Result<(), DbError> {
    let readers: Option<Readers> = c
        .q("select v.workspace_id, v.channel_id, coalesce(ch.kind = 'public', FALSE) as is_public from vector_stores v \
            left join channels ch on ch.id = v.channel_id where v.id = $1")
        .bind(store)
        .opt()
        .await?;
    let Some(readers) = readers else {
        return Ok(());
    };
    let audience = match readers.channel_id {
        Some(channel) if readers.is_public => Audience::Public(channel),
        Some(channel) => Audience::Members(channel),
        None => Audience::Workspace,
    };
    let data = StoreEvent {
        vector_store_id: store,
    };
    append_one(c, readers.workspace_id, kind, audience, &data).await?;
    Ok(())
}
