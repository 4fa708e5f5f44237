//! First steps in a workspace, which the client lists until the person hides them.

use std::time::Duration;

use serde::Serialize;

use crate::{
    auth::{Actor, Role},
    db::{Conn, DbError, now},
    text_enum::text_enum,
    time::Timestamp,
};

/// Time for which a new member sees the steps.
const SHOWN_FOR: Duration = Duration::from_hours(30 * 24);

text_enum! {
    /// First step in a workspace.
    pub enum FirstStep {
        /// For admins.
        ConnectModel = "connect_model",
        /// For admins.
        Invite = "invite",
        StartThread = "start_thread",
        StartFork = "start_fork",
        /// Get notifications on a device.
        Notifications = "notifications",
        /// For admins of the server.
        CheckServer = "check_server",
        /// For admins of the server.
        SetUpEmail = "set_up_email",
        /// For admins of the server: look for new versions once a day.
        LookForUpdates = "look_for_updates",
    }
}

/// A first step.
#[derive(Debug, Clone, Copy, Serialize, utoipa::ToSchema)]
pub struct ChecklistStep {
    #[schema(inline)]
    pub name: FirstStep,
    pub done: bool,
}

/// Steps whose state is in the data of the workspace; routes add the others. `None` for guests and viewers, 30 days after the person has
/// joined, and once they have hidden the steps.
///
/// # Errors
/// Only database errors.
pub(super) async fn load(
    c: &mut Conn,
    actor: &Actor<'_>,
    joined_at: Timestamp,
) -> Result<Option<Vec<ChecklistStep>>, DbError> {
    if matches!(actor.role, Role::Guest | Role::Viewer) || joined_at + SHOWN_FOR <= now() {
        return Ok(None);
    }
    let is_wanted: bool = c
        .q("select checklist from users where id = $1")
        .bind(actor.user)
        .value()
        .await?;
    if !is_wanted {
        return Ok(None);
    }
    // Only the newest threads are searched, so that this takes the same time in a large workspace.
    let (has_thread, has_fork, has_device, has_others): (bool, bool, bool, bool) = c
        .q("select exists (select 1 from (select created_by from threads where workspace_id = $2 order by id desc limit 500) t \
              where t.created_by = $1) as has_thread, \
            exists (select 1 from (select id from threads where workspace_id = $2 order by id desc limit 500) t \
              join forks f on f.thread_id = t.id where f.created_by = $1) as has_fork, \
            exists (select 1 from push_devices where user_id = $1) as has_device, \
            exists (select 1 from members where workspace_id = $2 and user_id <> $1) \
              or exists (select 1 from invites where workspace_id = $2) as has_others")
        .bind(actor.user)
        .bind(actor.workspace)
        .one()
        .await?;
    let invite = (actor.role == Role::Admin).then_some((FirstStep::Invite, has_others));
    let others = [
        (FirstStep::StartThread, has_thread),
        (FirstStep::StartFork, has_fork),
        (FirstStep::Notifications, has_device),
    ];
    let steps = invite.into_iter().chain(others);
    Ok(Some(
        steps
            .map(|(name, done)| ChecklistStep { name, done })
            .collect(),
    ))
}
