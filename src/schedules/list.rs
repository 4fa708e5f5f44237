//! Reads schedules and their slots for the people who can see them: readers of the channel, the owner, and, for schedules without a
//! channel, admins.

use std::time::Duration;

use serde::Serialize;

use super::{
    error::ScheduleError,
    row::{Row, Schedule, SlotReason, SlotState, WORKSPACE_MAX, schedule_sql},
};
use crate::{
    auth::{Actor, Scope},
    db::{Conn, DbError, is_in_visible_channel, now},
    ids::{ScheduleId, TaskId, WorkspaceId},
    time::Timestamp,
};

/// A past slot.
#[derive(Debug, Serialize, sqlx::FromRow, utoipa::ToSchema)]
pub struct ScheduleSlot {
    /// Time of the slot. If `state` is `missed`, the time of the first missed slot.
    pub slot_at: Timestamp,
    #[schema(inline)]
    pub state: SlotState,
    pub reason: Option<SlotReason>,
    pub task_id: Option<TaskId>,
    /// Number of slots, at most 10,000. It is greater than 1 only if `state` is `missed`.
    pub count: i64,
}

/// Name of a schedule; `None` if it was deleted.
///
/// # Errors
/// Only database errors.
pub async fn find_name(c: &mut Conn, id: ScheduleId) -> Result<Option<String>, DbError> {
    let row: Option<(String,)> = c
        .q("select name from schedules where id = $1")
        .bind(id)
        .opt()
        .await?;
    Ok(row.map(|(name,)| name))
}

/// Workspace of a schedule; `None` if the schedule does not exist.
pub async fn workspace_of(c: &mut Conn, id: ScheduleId) -> Result<Option<WorkspaceId>, DbError> {
    let row: Option<(WorkspaceId,)> = c
        .q("select workspace_id from schedules where id = $1")
        .bind(id)
        .opt()
        .await?;
    Ok(row.map(|row| row.0))
}

pub(super) async fn find_row(c: &mut Conn, id: ScheduleId) -> Result<Option<Row>, DbError> {
    c.q(schedule_sql!("where s.id = $1")).bind(id).opt().await
}

/// Condition for schedules `s` that the person `$user` can see; `$admin` is true if that person is an admin.
macro_rules! is_visible_schedule {
    ($user:literal, $admin:literal) => {
        concat!(
            "(s.owner_id = ",
            $user,
            " or (s.channel_id is null and ",
            $admin,
            ") or ",
            is_in_visible_channel!("s.channel_id", $user),
            ")"
        )
    };
}

/// # Errors
/// `NotFound` if the actor does not own the schedule and cannot read its channel. Schedules without a channel are also visible to
/// admins.
pub(super) async fn find_visible(
    c: &mut Conn,
    actor: &Actor<'_>,
    id: ScheduleId,
) -> Result<Row, ScheduleError> {
    let row: Option<Row> = c
        .q(schedule_sql!(concat!(
            "where s.id = $1 and s.workspace_id = $3 and ",
            is_visible_schedule!("$2", "$4")
        )))
        .bind(id)
        .bind(actor.user)
        .bind(actor.workspace)
        .bind(actor.scopes.has(Scope::WorkspaceAdmin))
        .opt()
        .await?;
    row.ok_or(ScheduleError::NotFound)
}

/// # Errors
/// `NotFound`, or an error from `Actor::require`.
pub async fn get(
    c: &mut Conn,
    actor: &Actor<'_>,
    id: ScheduleId,
) -> Result<Schedule, ScheduleError> {
    let row = find_visible(c, actor, id).await?;
    actor.require(Scope::ChatRead)?;
    Ok(row.into())
}

/// All schedules that a person can see, oldest first.
///
/// # Errors
/// An error from `Actor::require`.
pub async fn list(c: &mut Conn, actor: &Actor<'_>) -> Result<Vec<Schedule>, ScheduleError> {
    actor.require(Scope::ChatRead)?;
    let rows: Vec<Row> = c
        .q(schedule_sql!(concat!(
            "where s.workspace_id = $1 and ",
            is_visible_schedule!("$2", "$4"),
            " order by s.id limit $3"
        )))
        .bind(actor.workspace)
        .bind(actor.user)
        .bind(WORKSPACE_MAX)
        .bind(actor.scopes.has(Scope::WorkspaceAdmin))
        .all()
        .await?;
    Ok(rows.into_iter().map(Schedule::from).collect())
}

/// Slots of a schedule before a time, newest first.
///
/// # Errors
/// `NotFound`, or an error from `Actor::require`.
pub async fn list_slots(
    c: &mut Conn,
    actor: &Actor<'_>,
    id: ScheduleId,
    before: Option<Timestamp>,
    limit: i64,
) -> Result<Vec<ScheduleSlot>, ScheduleError> {
    get(c, actor, id).await?;
    // Slots are stored when they are due, so there are none in the future.
    let before = before.unwrap_or_else(|| now() + Duration::from_hours(24));
    Ok(c.q(
        "select slot_at, state, reason, task_id, slot_count as count from schedule_slots \
         where schedule_id = $1 and slot_at < $2 order by slot_at desc limit $3",
    )
    .bind(id)
    .bind(before)
    .bind(limit)
    .all()
    .await?)
}
