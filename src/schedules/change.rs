//! Creating, changing, pausing, and deleting schedules.

use super::{
    announce::{announce, announce_stored},
    error::ScheduleError,
    form::{
        ScheduleForm, SchedulePatch, ScheduleTargetForm, StatusForm, no_place, parse_deliver,
        parse_name,
    },
    items,
    list::{find_row, find_visible},
    outcome::obstacle,
    row::{
        Delivery, MissedPolicy, PausedReason, Row, Schedule, ScheduleStatus, ScheduleTarget,
        StoredTarget, WORKSPACE_MAX,
    },
    slots::{Slots, moment},
};
use crate::{
    agents::profiles,
    auth::{self, Actor, AuditAction, Scope, WorkspaceCaller},
    chat::{ChatError, access, post},
    db::{
        Conn, DbError,
        dialect::{clock, lock_workspace},
        now,
    },
    ids::{ChannelId, ScheduleId, ThreadId, UserId, WorkspaceId},
    realtime::EventType,
    workflows::{WorkflowError, find_workflow},
};

/// Maximum number of schedules per person in a workspace.
const PERSON_MAX: i64 = 20;

/// Checks that the caller can post in the channel or thread of a delivery. Returns both IDs; both are `None` if there is no delivery.
async fn place(
    c: &mut Conn,
    member: &WorkspaceCaller,
    deliver: Option<Delivery>,
) -> Result<(Option<ChannelId>, Option<ThreadId>), ChatError> {
    match deliver {
        None => Ok((None, None)),
        Some(Delivery::Channel { channel_id }) => {
            let access = access::channel(c, &member.caller, channel_id).await?;
            if access.actor.workspace != member.workspace {
                return Err(ChatError::ChannelNotFound);
            }
            access.writing()?;
            Ok((Some(channel_id), None))
        }
        Some(Delivery::Thread { thread_id }) => {
            let access = access::thread(c, &member.caller, thread_id).await?;
            if access.channel_access.actor.workspace != member.workspace {
                return Err(ChatError::ThreadNotFound);
            }
            let access = access.writing()?;
            Ok((Some(access.channel_access.channel), Some(thread_id)))
        }
    }
}

/// Resolves the target of a schedule. The actor must be able to invoke its agent; a workflow must be in the workspace.
pub(super) async fn target(
    c: &mut Conn,
    actor: &Actor<'_>,
    form: ScheduleTargetForm,
) -> Result<ScheduleTarget, ScheduleError> {
    let (wanted, prompt) = match form {
        ScheduleTargetForm::Agent { agent_id, prompt } => (agent_id, Some(prompt)),
        ScheduleTargetForm::Heartbeat { agent_id } => (Some(agent_id), None),
        ScheduleTargetForm::Workflow { workflow_id, input } => {
            let found = find_workflow(c, actor.workspace, workflow_id).await?;
            found.ok_or(WorkflowError::NotFound)?;
            return Ok(ScheduleTarget::Workflow { workflow_id, input });
        }
    };
    let agent = match wanted {
        Some(id) => profiles::find_invocable(c, actor, id).await?,
        None => profiles::find_usable(c, actor, "main").await?,
    };
    let shown = wanted.map_or_else(|| "main".to_owned(), |id| id.to_string());
    let agent = agent.ok_or(ChatError::NoSuchAgent(shown))?;
    let agent_id = agent.id;
    Ok(match prompt {
        Some(prompt) => ScheduleTarget::Agent { agent_id, prompt },
        None => ScheduleTarget::Heartbeat { agent_id },
    })
}

/// Checks that a channel is set if the target posts messages.
pub(super) async fn check_place(
    c: &mut Conn,
    actor: &Actor<'_>,
    target: &ScheduleTarget,
    channel: Option<ChannelId>,
) -> Result<(), ScheduleError> {
    let posts = match target {
        ScheduleTarget::Workflow { workflow_id, .. } => {
            let workflow = find_workflow(c, actor.workspace, *workflow_id).await?;
            workflow.is_some_and(|workflow| workflow.content.posts())
        }
        ScheduleTarget::Agent { .. } | ScheduleTarget::Heartbeat { .. } => true,
    };
    if posts && channel.is_none() {
        return Err(no_place());
    }
    Ok(())
}

pub(super) async fn check_limits(c: &mut Conn, actor: &Actor<'_>) -> Result<(), ScheduleError> {
    let (all, own): (i64, i64) = c
        .q("select count(*), count(case when owner_id = $2 then 1 end) from schedules where workspace_id = $1")
        .bind(actor.workspace)
        .bind(actor.user)
        .one()
        .await?;
    if own >= PERSON_MAX {
        return Err(ScheduleError::TooManyOwn(PERSON_MAX));
    }
    if all >= WORKSPACE_MAX {
        return Err(ScheduleError::TooMany(WORKSPACE_MAX));
    }
    Ok(())
}

/// A schedule that was created by this request, or by an earlier one with the same ID.
#[derive(Debug)]
pub struct CreatedSchedule {
    pub schedule: Schedule,
    /// False for a resend, for which nothing was changed.
    pub is_new: bool,
}

/// # Errors
/// `Invalid`, `Malformed`, `Cron`, `UnknownZone`, `TooFrequent`, `NeverRuns`, `TooMany`, `TooManyOwn`, an error about the location,
/// the agent, or the workflow, `ChatError::ClientIdReused`, or an error from `Actor::require`; `NotFound` for a resend after the
/// schedule was deleted.
pub async fn create(
    c: &mut Conn,
    member: &WorkspaceCaller,
    form: &ScheduleForm,
) -> Result<CreatedSchedule, ScheduleError> {
    let actor = &member.enter(c).await?;
    actor.require(Scope::AgentsUse)?;
    actor.require(Scope::ChatWrite)?;
    lock_workspace(c, actor.workspace.0).await?;
    let id = ScheduleId::new();
    let client_id = post::parse_client_id(form.client_id.clone())?;
    let known = post::claim_client_id(c, actor, client_id.as_deref(), "schedules", id.0).await?;
    if let Some(known) = known {
        return Ok(CreatedSchedule {
            schedule: find_visible(c, actor, ScheduleId(known)).await?.into(),
            is_new: false,
        });
    }
    let name = parse_name(&form.name)?;
    let slots = Slots::parse(&form.cron, &form.timezone)?;
    let target = ScheduleTargetForm::parse(&form.target)?;
    let deliver = parse_deliver(form.deliver)?;
    let (channel, thread) = place(c, member, deliver).await?;
    let target = self::target(c, actor, target).await?;
    check_place(c, actor, &target, channel).await?;
    let at = clock(c).await?;
    slots.check(moment(at), target.apart_minutes())?;
    check_limits(c, actor).await?;
    let target = StoredTarget::from(target);
    c.q("insert into schedules (id, workspace_id, name, cron, timezone, target_type, target_id, prompt, channel_id, thread_id, missed, \
         status, owner_id, api_key_id, next_run_at, failures, version, created_at, updated_at) \
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, 0, 1, $16, $16)")
        .bind(id)
        .bind(actor.workspace)
        .bind(name)
        .bind(form.cron.clone())
        .bind(form.timezone.clone())
        .bind(target.target_type)
        .bind(target.target_id)
        .bind(target.prompt)
        .bind(channel)
        .bind(thread)
        .bind(form.missed.unwrap_or(MissedPolicy::RunOnce))
        .bind(ScheduleStatus::Active)
        .bind(actor.user)
        .bind(actor.key)
        .bind(slots.next_after(at))
        .bind(now())
        .run()
        .await?;
    let stored = announce_stored(c, id, EventType::ScheduleCreated).await?;
    Ok(CreatedSchedule {
        schedule: stored.ok_or(ScheduleError::NotFound)?,
        is_new: true,
    })
}

/// Locks the workspace, and finds a schedule that the caller can change: their own, or any that they can see if they are an admin.
async fn locked(
    c: &mut Conn,
    actor: &Actor<'_>,
    id: ScheduleId,
    expected: Option<i64>,
) -> Result<Row, ScheduleError> {
    lock_workspace(c, actor.workspace.0).await?;
    let row = find_visible(c, actor, id).await?;
    actor.require(Scope::ChatWrite)?;
    let may_change = row.owner_id == actor.user || actor.scopes.has(Scope::WorkspaceAdmin);
    if !may_change {
        return Err(ScheduleError::NotYours);
    }
    if expected.is_some_and(|version| version != row.version) {
        return Err(ScheduleError::Stale(Box::new(row.into())));
    }
    Ok(row)
}

/// Changes a schedule. If its times change, the next slot is calculated again.
///
/// # Errors
/// `NotFound`, `NotYours`, `PausedByAdmin`, `NotAllowed`, `Stale`, or any error from `create`.
pub async fn patch(
    c: &mut Conn,
    member: &WorkspaceCaller,
    id: ScheduleId,
    patch: &SchedulePatch,
    expected: Option<i64>,
) -> Result<Schedule, ScheduleError> {
    let actor = &member.enter(c).await?;
    let before = locked(c, actor, id, expected).await?;
    let mut row = before.clone();
    if !patch.is_status_only() {
        if before.owner_id != actor.user {
            return Err(ScheduleError::NotYours);
        }
        actor.require(Scope::AgentsUse)?;
        edit(c, member, actor, &mut row, patch).await?;
    }
    if let Some(status) = patch.status {
        set_status(c, actor, &mut row, status).await?;
    }
    let slots = Slots::parse(&row.cron, &row.timezone)?;
    let at = clock(c).await?;
    let times = |row: &Row| (row.cron.clone(), row.timezone.clone(), row.status);
    if times(&row) != times(&before) {
        row.next_run_at = match row.status {
            ScheduleStatus::Active => slots.next_after(at),
            ScheduleStatus::Paused => None,
        };
    }
    if !patch.is_status_only() {
        slots.check(moment(at), row.target().apart_minutes())?;
    }
    audit(c, actor, AuditAction::ScheduleUpdated, &before).await?;
    let is_resumed =
        (before.status, row.status) == (ScheduleStatus::Paused, ScheduleStatus::Active);
    let has_moved = row.channel_id != before.channel_id;
    let is_paused_by_admin = row.paused_reason == Some(PausedReason::ByAdmin)
        && before.paused_reason != Some(PausedReason::ByAdmin);
    let target = row.stored_target;
    c.q("update schedules set name = $2, cron = $3, timezone = $4, target_type = $5, target_id = $6, prompt = $7, channel_id = $8, \
         thread_id = $9, missed = $10, status = $11, paused_reason = $12, api_key_id = $13, next_run_at = $14, \
         failures = case when $15 then 0 else failures end, version = version + 1, updated_at = $16 where id = $1")
        .bind(id)
        .bind(row.name)
        .bind(row.cron)
        .bind(row.timezone)
        .bind(target.target_type)
        .bind(target.target_id)
        .bind(target.prompt)
        .bind(row.channel_id)
        .bind(row.thread_id)
        .bind(row.missed)
        .bind(row.status)
        .bind(row.paused_reason)
        .bind(row.api_key_id)
        .bind(row.next_run_at)
        .bind(is_resumed)
        .bind(now())
        .run()
        .await?;
    let kind = if has_moved {
        // Readers of the old channel may not be able to read the new one.
        announce(c, EventType::ScheduleDeleted, before).await?;
        EventType::ScheduleCreated
    } else {
        EventType::ScheduleUpdated
    };
    let stored = announce_stored(c, id, kind).await?;
    if let Some(row) = find_row(c, id).await? {
        if is_resumed {
            items::close_all(c, &row).await?;
        }
        if is_paused_by_admin {
            items::open_failed(c, &row, Some(actor.user)).await?;
        }
    }
    stored.ok_or(ScheduleError::NotFound)
}

/// Applies the owner's changes, except for the status.
async fn edit(
    c: &mut Conn,
    member: &WorkspaceCaller,
    actor: &Actor<'_>,
    row: &mut Row,
    patch: &SchedulePatch,
) -> Result<(), ScheduleError> {
    if let Some(name) = &patch.name {
        row.name = parse_name(name)?;
    }
    if let Some(cron) = &patch.cron {
        row.cron.clone_from(cron);
    }
    if let Some(timezone) = &patch.timezone {
        row.timezone.clone_from(timezone);
    }
    if let Some(form) = &patch.target {
        let target = target(c, actor, ScheduleTargetForm::parse(form)?).await?;
        row.stored_target = target.into();
        row.api_key_id = actor.key;
    }
    if let Some(form) = patch.deliver {
        let deliver = parse_deliver(form)?;
        (row.channel_id, row.thread_id) = place(c, member, deliver).await?;
    }
    row.missed = patch.missed.unwrap_or(row.missed);
    check_place(c, actor, &row.target(), row.channel_id).await
}

/// Pauses or resumes a schedule. The reason for a pause is kept until the pause ends, unless an admin also pauses the schedule.
async fn set_status(
    c: &mut Conn,
    actor: &Actor<'_>,
    row: &mut Row,
    status: StatusForm,
) -> Result<(), ScheduleError> {
    let is_owner = row.owner_id == actor.user;
    match (row.status, status) {
        (_, StatusForm::Paused) if !is_owner => {
            row.status = ScheduleStatus::Paused;
            row.paused_reason = Some(PausedReason::ByAdmin);
        }
        (ScheduleStatus::Active, StatusForm::Paused) => {
            row.status = ScheduleStatus::Paused;
            row.paused_reason = Some(PausedReason::ByOwner);
        }
        (ScheduleStatus::Active, StatusForm::Active)
        | (ScheduleStatus::Paused, StatusForm::Paused) => {}
        (ScheduleStatus::Paused, StatusForm::Active) => {
            if row.paused_reason == Some(PausedReason::ByAdmin) {
                if !actor.scopes.has(Scope::WorkspaceAdmin) {
                    return Err(ScheduleError::PausedByAdmin);
                }
            } else if !is_owner {
                return Err(ScheduleError::NotYours);
            }
            if obstacle(c, row).await?.is_some() {
                return Err(ScheduleError::NotAllowed);
            }
            (row.status, row.paused_reason) = (ScheduleStatus::Active, None);
        }
    }
    Ok(())
}

/// Deletes a schedule with its slots. A running task continues.
///
/// # Errors
/// `NotFound`, `NotYours`, `Stale`, or an error from `Actor::require`.
pub async fn delete(
    c: &mut Conn,
    member: &WorkspaceCaller,
    id: ScheduleId,
    expected: Option<i64>,
) -> Result<(), ScheduleError> {
    let actor = &member.enter(c).await?;
    let row = locked(c, actor, id, expected).await?;
    audit(c, actor, AuditAction::ScheduleDeleted, &row).await?;
    Ok(remove(c, row).await?)
}

/// Records an admin's action on another person's schedule.
async fn audit(
    c: &mut Conn,
    actor: &Actor<'_>,
    action: AuditAction,
    row: &Row,
) -> Result<(), DbError> {
    if row.owner_id == actor.user {
        return Ok(());
    }
    let data = serde_json::json!({"owner_id": row.owner_id});
    auth::record_audit(c, actor, action, row.id.to_string(), data).await
}

pub(super) async fn remove(c: &mut Conn, row: Row) -> Result<(), DbError> {
    let id = row.id;
    items::close_all(c, &row).await?;
    announce(c, EventType::ScheduleDeleted, row).await?;
    // The slots are deleted by a cascade.
    c.q("delete from schedules where id = $1")
        .bind(id)
        .run()
        .await?;
    Ok(())
}

/// Deletes the schedules that post in a thread, which is being deleted.
pub async fn delete_in_thread(c: &mut Conn, thread: ThreadId) -> Result<(), DbError> {
    let found: Vec<(ScheduleId,)> = c
        .q("select id from schedules where thread_id = $1 order by id")
        .bind(thread)
        .all()
        .await?;
    for (id,) in found {
        if let Some(row) = find_row(c, id).await? {
            remove(c, row).await?;
        }
    }
    Ok(())
}

/// Deletes the schedules of a person who is being erased; there are at most 20.
pub async fn erase_owner(
    c: &mut Conn,
    workspace: WorkspaceId,
    owner: UserId,
) -> Result<(), DbError> {
    let own: Vec<(ScheduleId,)> = c
        .q("select id from schedules where workspace_id = $1 and owner_id = $2 order by id")
        .bind(workspace)
        .bind(owner)
        .all()
        .await?;
    for (id,) in own {
        if let Some(row) = find_row(c, id).await? {
            remove(c, row).await?;
        }
    }
    Ok(())
}
