//! Events about schedules.

use serde::Serialize;

use super::{
    list::find_row,
    row::{Row, Schedule},
};
use crate::{
    db::{Conn, DbError},
    ids::ScheduleId,
    realtime::{
        EventData, EventType, NewEvent,
        log::{self, Recipients},
    },
    tasks::queue,
};

#[derive(Serialize, utoipa::ToSchema)]
pub struct ScheduleEvent<'a> {
    pub schedule: &'a Schedule,
}

impl EventData for ScheduleEvent<'_> {
    const TYPES: &'static [EventType] = &[
        EventType::ScheduleCreated,
        EventType::ScheduleUpdated,
        EventType::ScheduleDeleted,
    ];
}

/// Appends an event for the readers of the schedule's channel, or, if it has no channel, for its owner and admins. Returns the
/// schedule.
pub(super) async fn announce(c: &mut Conn, kind: EventType, row: Row) -> Result<Schedule, DbError> {
    let (workspace, thread) = (row.workspace_id, row.thread_id);
    let only = row.channel_id.is_none().then(|| Recipients {
        users: vec![row.owner_id],
        managers: true,
    });
    let audience = queue::audience_in(c, row.channel_id).await?;
    let schedule = Schedule::from(row);
    let data = ScheduleEvent {
        schedule: &schedule,
    };
    let seq = log::reserve(c, workspace, 1).await?;
    let mut event = NewEvent::new(seq, kind, audience, &data)?.only_to(only);
    if let Some(thread) = thread {
        event = event.in_conversation(thread, None);
    }
    log::append(c, workspace, event).await?;
    Ok(schedule)
}

/// Announces the stored state of a schedule; does nothing if it was deleted.
pub(super) async fn announce_stored(
    c: &mut Conn,
    id: ScheduleId,
    kind: EventType,
) -> Result<Option<Schedule>, DbError> {
    match find_row(c, id).await? {
        Some(row) => announce(c, kind, row).await.map(Some),
        None => Ok(None),
    }
}
