//! Schedules and workflows that were paused, for the people who can resolve the cause.

use serde::Serialize;
use uuid::Uuid;

use super::row::PausedReason;
use crate::{
    auth::{Actor, Scope},
    db::{Conn, DbError, is_in_visible_channel},
    ids::{ScheduleId, UserId, WorkflowId},
};

/// Maximum number of paused schedules, and of paused workflows, that are listed for one person.
const PAUSED_MAX: i64 = 100;

/// A schedule or a workflow that was paused.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct PausedItem {
    /// ID of the schedule; null for a workflow.
    pub schedule_id: Option<ScheduleId>,
    /// ID of the workflow; null for a schedule.
    pub workflow_id: Option<WorkflowId>,
    pub name: String,
    #[schema(inline)]
    pub reason: PausedReason,
    pub owner_id: UserId,
    /// Human-readable description.
    pub text: String,
}

/// A paused schedule or workflow, with the name and membership of its owner. `is_by_key` is true if the target of a schedule was set
/// with an API key.
#[derive(sqlx::FromRow)]
struct PausedRow {
    id: Uuid,
    name: String,
    paused_reason: PausedReason,
    owner_id: UserId,
    owner_name: Option<String>,
    is_member: bool,
    is_by_key: bool,
}

impl PausedRow {
    fn cause(&self) -> String {
        let owner = self.owner_name.as_deref().unwrap_or("its owner");
        match (self.paused_reason, self.is_member) {
            (PausedReason::Failing, _) => "it failed five times in a row".to_owned(),
            (_, false) => format!("{owner} left the workspace"),
            (_, true) => {
                let key = if self.is_by_key {
                    ", or the API key that wrote the prompt,"
                } else {
                    ""
                };
                format!("{owner}{key} can no longer post in its channel or ask its agent")
            }
        }
    }

    fn of_schedule(self) -> PausedItem {
        PausedItem {
            schedule_id: Some(ScheduleId(self.id)),
            workflow_id: None,
            text: format!("Schedule \"{}\" is paused: {}.", self.name, self.cause()),
            name: self.name,
            reason: self.paused_reason,
            owner_id: self.owner_id,
        }
    }

    fn of_workflow(self) -> PausedItem {
        PausedItem {
            schedule_id: None,
            workflow_id: Some(WorkflowId(self.id)),
            text: format!("Workflow \"{}\" is paused: {}.", self.name, self.cause()),
            name: self.name,
            reason: self.paused_reason,
            owner_id: self.owner_id,
        }
    }
}

/// Paused schedules and workflows that need attention. Failing schedules are listed for their owner. Schedules and workflows whose
/// owner is gone are listed for the owner and for admins, but admins do not see schedules in channels that they cannot read.
pub async fn list_paused(c: &mut Conn, actor: &Actor<'_>) -> Result<Vec<PausedItem>, DbError> {
    let schedules: Vec<PausedRow> = c
        .q(concat!(
            "select s.id, s.name, s.paused_reason, s.owner_id, u.name as owner_name, m.user_id is not null as is_member, \
             s.api_key_id is not null as is_by_key from schedules s \
             left join users u on u.id = s.owner_id \
             left join members m on m.workspace_id = s.workspace_id and m.user_id = s.owner_id \
             where s.workspace_id = $1 and s.status = 'paused' and ((s.owner_id = $2 and s.paused_reason in ('failing', 'owner_gone')) \
             or ($3 and s.paused_reason = 'owner_gone' and (s.channel_id is null or ",
            is_in_visible_channel!("s.channel_id", "$2"),
            "))) order by s.id limit $4"
        ))
        .bind(actor.workspace)
        .bind(actor.user)
        .bind(actor.scopes.has(Scope::WorkspaceAdmin))
        .bind(PAUSED_MAX)
        .all()
        .await?;
    let workflows: Vec<PausedRow> = c
        .q(
            "select w.id, w.name, w.paused_reason, w.owner_id, u.name as owner_name, m.user_id is not null as is_member, \
             FALSE as is_by_key from workflows w \
             left join users u on u.id = w.owner_id \
             left join members m on m.workspace_id = w.workspace_id and m.user_id = w.owner_id \
             where w.workspace_id = $1 and w.status = 'paused' and w.paused_reason is not null and (w.owner_id = $2 or $3) \
             order by w.id limit $4",
        )
        .bind(actor.workspace)
        .bind(actor.user)
        .bind(actor.scopes.has(Scope::AgentsAdmin))
        .bind(PAUSED_MAX)
        .all()
        .await?;
    let schedules = schedules.into_iter().map(PausedRow::of_schedule);
    let workflows = workflows.into_iter().map(PausedRow::of_workflow);
    Ok(schedules.chain(workflows).collect())
}
