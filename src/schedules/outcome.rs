//! Scheduled tasks: their options, the checks before they run, and the changes to the schedule when they end.

use serde::{Deserialize, Serialize};

use super::{
    announce::announce_stored,
    items,
    list::find_row,
    row::{PausedReason, Row, ScheduleStatus, SlotReason},
};
use crate::{
    agents::profiles::{self, AgentStatus},
    auth::{Role, Scope},
    chat::access,
    db::{Conn, DbError},
    ids::ScheduleId,
    realtime::EventType,
    tasks::{Task, TaskKind},
};

/// Number of consecutive failures after which a schedule is paused.
const FAILURES_MAX: i64 = 5;

/// Options of a task of kind `schedule`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scheduled {
    pub schedule_id: ScheduleId,
    /// Name of the schedule when the task was queued.
    pub name: String,
    /// True if the prompt is the agent's HEARTBEAT.md.
    #[serde(default)]
    pub heartbeat: bool,
}

impl Scheduled {
    /// Returns `None` for a task of another kind, or if its requester was erased.
    pub fn of(task: &Task) -> Option<Self> {
        let options = task.input.0.options.clone();
        let options = options.filter(|_| task.kind == TaskKind::Schedule)?;
        serde_json::from_value(options).ok()
    }
}

/// Reason why the owner cannot run the target now; `None` if nothing prevents it. If the target was set with an API key that can no
/// longer invoke agents, for example because it was revoked, the owner counts as gone.
pub(super) async fn obstacle(c: &mut Conn, row: &Row) -> Result<Option<SlotReason>, DbError> {
    if !owner_can_run(c, row).await? {
        return Ok(Some(SlotReason::OwnerGone));
    }
    if let Some(key) = row.api_key_id
        && !access::key_can_invoke(c, key, row.workspace_id).await?
    {
        return Ok(Some(SlotReason::OwnerGone));
    }
    let Some(agent) = row.target().agent() else {
        return Ok(None);
    };
    if profiles::is_invocable_by(c, agent, row.owner_id).await? {
        return Ok(None);
    }
    let status: Option<(AgentStatus,)> = c
        .q("select status from agents where id = $1")
        .bind(agent)
        .opt()
        .await?;
    let is_off = status.is_some_and(|(status,)| status == AgentStatus::Inactive);
    Ok(Some(if is_off {
        SlotReason::AgentOff
    } else {
        SlotReason::OwnerGone
    }))
}

/// Checks whether the owner can invoke agents and, if the schedule has a channel, post there.
async fn owner_can_run(c: &mut Conn, row: &Row) -> Result<bool, DbError> {
    if let Some(channel) = row.channel_id
        && !access::can_post(c, row.owner_id, channel, row.thread_id).await?
    {
        return Ok(false);
    }
    let role: Option<(Role,)> = c
        .q("select role from members where workspace_id = $1 and user_id = $2")
        .bind(row.workspace_id)
        .bind(row.owner_id)
        .opt()
        .await?;
    Ok(role.is_some_and(|(role,)| {
        let scopes = role.scopes();
        role != Role::Guest && scopes.has(Scope::ChatWrite) && scopes.has(Scope::AgentsUse)
    }))
}

/// Checks whether the requester of a scheduled task can still invoke its agent, and post in the conversation of the reply.
pub async fn is_allowed(c: &mut Conn, task: &Task) -> Result<bool, DbError> {
    let can_invoke = match task.agent_id {
        Some(agent) => profiles::is_invocable_by(c, agent, task.requested_by).await?,
        None => false,
    };
    Ok(can_invoke && access::requester_can_post(c, task).await?)
}

/// Pauses a schedule if it is active, announces it, and opens the inbox items about it.
pub(super) async fn pause(
    c: &mut Conn,
    id: ScheduleId,
    reason: PausedReason,
) -> Result<(), DbError> {
    c.q("update schedules set status = $2, paused_reason = $3, next_run_at = null, version = version + 1 where id = $1 and status = 'active'")
        .bind(id)
        .bind(ScheduleStatus::Paused)
        .bind(reason)
        .run()
        .await?;
    announce_stored(c, id, EventType::ScheduleUpdated).await?;
    let Some(row) = find_row(c, id).await? else {
        return Ok(());
    };
    if row.status == ScheduleStatus::Paused {
        items::open_failed(c, &row, None).await?;
        if reason == PausedReason::OwnerGone {
            items::open_owner_gone(c, &row).await?;
        }
    }
    Ok(())
}

/// Resets the number of consecutive failures after a scheduled task has completed.
pub async fn note_completed(c: &mut Conn, task: &Task) -> Result<(), DbError> {
    match Scheduled::of(task) {
        Some(of) => note_end(c, of.schedule_id, false).await,
        None => Ok(()),
    }
}

/// Counts the failure of a scheduled task. Pauses the schedule if its owner is gone, or after too many consecutive failures.
pub async fn note_failed(c: &mut Conn, task: &Task) -> Result<(), DbError> {
    match Scheduled::of(task) {
        Some(of) => note_end(c, of.schedule_id, true).await,
        None => Ok(()),
    }
}

/// Updates the number of consecutive failures after a scheduled task or run has ended, like `note_completed` and `note_failed`.
pub async fn note_end(c: &mut Conn, schedule: ScheduleId, has_failed: bool) -> Result<(), DbError> {
    if !has_failed {
        c.q("update schedules set failures = 0 where id = $1 and failures > 0")
            .bind(schedule)
            .run()
            .await?;
        return match find_row(c, schedule).await? {
            Some(row) => items::close_failed(c, &row).await,
            None => Ok(()),
        };
    }
    let failures: Option<(i64,)> = c
        .q("update schedules set failures = failures + 1 where id = $1 and status = 'active' returning failures")
        .bind(schedule)
        .opt()
        .await?;
    let row = find_row(c, schedule).await?;
    let Some(((failures,), row)) = failures.zip(row) else {
        return Ok(());
    };
    items::open_failed(c, &row, None).await?;
    if obstacle(c, &row).await? == Some(SlotReason::OwnerGone) {
        return pause(c, schedule, PausedReason::OwnerGone).await;
    }
    if failures >= FAILURES_MAX {
        return pause(c, schedule, PausedReason::Failing).await;
    }
    Ok(())
}
