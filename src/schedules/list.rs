//! Schedules and their slots as people see them: readers of the channel, and the owner.

use std::time::Duration;

use serde::Serialize;

use super::{
    error::ScheduleError,
    row::{PausedReason, Row, Schedule, SlotReason, SlotState, WORKSPACE_MAX, schedule_sql},
};
use crate::{
    auth::{Actor, Scope},
    db::{Conn, DbError, is_in_visible_channel, now},
    ids::{ScheduleId, TaskId, UserId, WorkspaceId},
    time::Timestamp,
};

/// Maximum number of paused schedules that are listed for one person.
const PAUSED_MAX: i64 = 100;

/// A slot that came.
#[derive(Debug, Serialize, sqlx::FromRow, utoipa::ToSchema)]
pub struct ScheduleSlot {
    /// For `missed`, the first of them.
    pub slot_at: Timestamp,
    #[schema(inline)]
    pub state: SlotState,
    pub reason: Option<SlotReason>,
    pub task_id: Option<TaskId>,
    /// Number of slots; more than 1 only for `missed`, at most 10,000.
    pub count: i64,
}

/// A schedule that was paused, for the person who can do something about it.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct PausedSchedule {
    pub schedule_id: ScheduleId,
    pub name: String,
    #[schema(inline)]
    pub reason: PausedReason,
    pub owner_id: UserId,
    /// Description for people.
    pub text: String,
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

/// # Errors
/// `NotFound` if the actor can neither read the channel nor owns the schedule.
pub(super) async fn find_visible(
    c: &mut Conn,
    actor: &Actor<'_>,
    id: ScheduleId,
) -> Result<Row, ScheduleError> {
    let row: Option<Row> = c
        .q(schedule_sql!(concat!(
            "where s.id = $1 and s.workspace_id = $3 and (s.owner_id = $2 or ",
            is_in_visible_channel!("s.channel_id", "$2"),
            ")"
        )))
        .bind(id)
        .bind(actor.user)
        .bind(actor.workspace)
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
            "where s.workspace_id = $1 and (s.owner_id = $2 or ",
            is_in_visible_channel!("s.channel_id", "$2"),
            ") order by s.id limit $3"
        )))
        .bind(actor.workspace)
        .bind(actor.user)
        .bind(WORKSPACE_MAX)
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
    // Slots are stored when they come.
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

/// Row of a paused schedule: the name and membership of its owner, and whether a key wrote the prompt.
#[derive(sqlx::FromRow)]
struct PausedRow {
    id: ScheduleId,
    name: String,
    paused_reason: PausedReason,
    owner_id: UserId,
    owner_name: Option<String>,
    is_member: bool,
    is_by_key: bool,
}

/// Paused schedules that somebody must deal with: failing ones for their owner, and for admins those whose owner is gone, in channels
/// that they can read.
pub async fn list_paused(c: &mut Conn, actor: &Actor<'_>) -> Result<Vec<PausedSchedule>, DbError> {
    let rows: Vec<PausedRow> = c
        .q(concat!(
            "select s.id, s.name, s.paused_reason, s.owner_id, u.name as owner_name, m.user_id is not null as is_member, \
             s.api_key_id is not null as is_by_key from schedules s \
             left join users u on u.id = s.owner_id \
             left join members m on m.workspace_id = s.workspace_id and m.user_id = s.owner_id \
             where s.workspace_id = $1 and s.status = 'paused' and ((s.owner_id = $2 and s.paused_reason in ('failing', 'owner_gone')) \
             or ($3 and s.paused_reason = 'owner_gone' and ",
            is_in_visible_channel!("s.channel_id", "$2"),
            ")) order by s.id limit $4"
        ))
        .bind(actor.workspace)
        .bind(actor.user)
        .bind(actor.scopes.has(Scope::WorkspaceAdmin))
        .bind(PAUSED_MAX)
        .all()
        .await?;
    Ok(rows.into_iter().map(PausedSchedule::from).collect())
}

impl From<PausedRow> for PausedSchedule {
    fn from(row: PausedRow) -> Self {
        let owner = row.owner_name.as_deref().unwrap_or("its owner");
        let cause = match (row.paused_reason, row.is_member) {
            (PausedReason::Failing, _) => "it failed five times in a row".to_owned(),
            (_, false) => format!("{owner} left the workspace"),
            (_, true) => {
                let key = if row.is_by_key {
                    ", or the API key that wrote the prompt,"
                } else {
                    ""
                };
                format!("{owner}{key} can no longer post there, or ask the agent")
            }
        };
        Self {
            schedule_id: row.id,
            text: format!("Schedule \"{}\" is paused: {cause}.", row.name),
            name: row.name,
            reason: row.paused_reason,
            owner_id: row.owner_id,
        }
    }
}
