//! Payloads of the fork events.

use serde::Serialize;
use utoipa::ToSchema;

use super::resolution::Resolution;
use crate::{
    db::{Conn, DbError},
    ids::{ForkId, MessageId, ThreadId, WorkspaceId},
    realtime::{Audience, EventData, EventType, NewEvent, log},
};

#[derive(Serialize, ToSchema)]
pub struct ResolutionEvent<'a> {
    resolution: &'a Resolution,
}

impl EventData for ResolutionEvent<'_> {
    const TYPES: &'static [EventType] = &[
        EventType::ResolutionDrafted,
        EventType::ResolutionUpdated,
        EventType::ResolutionPublished,
    ];
}

/// Appends `resolution.drafted`, `resolution.updated`, or `resolution.published`.
pub(super) async fn announce_resolution(
    c: &mut Conn,
    kind: EventType,
    resolution: &Resolution,
    audience: Audience,
) -> Result<(), DbError> {
    let place = EventPlace {
        workspace: resolution.workspace_id,
        thread: resolution.thread_id,
        fork: resolution.fork_id,
    };
    append(c, kind, place, &ResolutionEvent { resolution }, audience).await
}

/// Fork that an event is about.
pub(super) struct EventPlace {
    pub(super) workspace: WorkspaceId,
    pub(super) thread: ThreadId,
    pub(super) fork: ForkId,
}

/// Appends an event about a resolution of a fork.
pub(super) async fn append(
    c: &mut Conn,
    kind: EventType,
    place: EventPlace,
    data: &impl EventData,
    audience: Audience,
) -> Result<(), DbError> {
    // The event is indexed by the forked message, so that deleting a resolution message can remove its text from the event.
    let origin: MessageId = c
        .q("select message_id from forks where id = $1")
        .bind(place.fork)
        .value()
        .await?;
    let seq = log::reserve(c, place.workspace, 1).await?;
    let event = NewEvent::new(seq, kind, audience, data)?
        .in_conversation(place.thread, Some(place.fork))
        .about(Some(origin));
    log::append(c, place.workspace, event).await
}
