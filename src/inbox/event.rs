//! Changes of items, and how they reach the sockets of their person.

use serde::Serialize;
use utoipa::ToSchema;

use super::item::InboxState;
use crate::{
    db::{Conn, DbError},
    ids::{InboxItemId, UserId, WorkspaceId},
    realtime::{
        Audience, EventData, EventType, NewEvent,
        log::{self, Recipients},
    },
    time::Timestamp,
};

/// State of an item after a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
pub struct ItemStateChange {
    pub id: InboxItemId,
    pub state: InboxState,
    pub until: Option<Timestamp>,
}

#[derive(Serialize, ToSchema)]
pub struct InboxEvent<'a> {
    pub items: &'a [ItemStateChange],
}

impl EventData for InboxEvent<'_> {
    const TYPES: &'static [EventType] = &[EventType::InboxUpdated];
}

/// Appends `inbox.updated` for one person under a reserved sequence number.
pub async fn announce(
    c: &mut Conn,
    workspace: WorkspaceId,
    user: UserId,
    seq: i64,
    items: &[ItemStateChange],
) -> Result<(), DbError> {
    let data = InboxEvent { items };
    let event = NewEvent::new(seq, EventType::InboxUpdated, Audience::Workspace, &data)?.only_to(
        Some(Recipients {
            users: vec![user],
            managers: false,
        }),
    );
    log::append(c, workspace, event).await
}

/// Signal after the commit: a person has a new item.
#[derive(Debug, Clone, Copy)]
pub struct ItemOpened {
    pub workspace: WorkspaceId,
    pub user: UserId,
    pub seq: i64,
}
