//! Schedules of an archive. They are paused: nothing runs because of an import.

use super::{
    announce::announce_stored,
    change::{check_limits, check_place, remove, target},
    error::ScheduleError,
    form::{ScheduleForm, ScheduleTargetForm, parse_deliver, parse_name},
    list::find_row,
    row::{Delivery, MissedPolicy, PausedReason, ScheduleStatus, StoredTarget},
    slots::{Slots, moment},
};
use crate::{
    auth::{Actor, Role, Scope},
    chat::access,
    db::{Conn, DbError, dialect::clock, now},
    ids::{ChannelId, ScheduleId, ThreadId},
    realtime::EventType,
};

/// Channel and thread of a delivery in which the owner can post.
async fn place(
    c: &mut Conn,
    owner: &Actor<'_>,
    deliver: Option<Delivery>,
) -> Result<(Option<ChannelId>, Option<ThreadId>), ScheduleError> {
    let (channel, thread) = match deliver {
        None => return Ok((None, None)),
        Some(Delivery::Channel { channel_id }) => (Some(channel_id), None),
        Some(Delivery::Thread { thread_id }) => {
            let row: Option<(ChannelId,)> = c
                .q("select channel_id from threads where id = $1")
                .bind(thread_id)
                .opt()
                .await?;
            (row.map(|row| row.0), Some(thread_id))
        }
    };
    let channel = channel.ok_or(ScheduleError::NotAllowed)?;
    let is_here: bool = c
        .q("select exists (select 1 from channels where id = $1 and workspace_id = $2)")
        .bind(channel)
        .bind(owner.workspace)
        .value()
        .await?;
    if !is_here || !access::can_post(c, owner.user, channel, thread).await? {
        return Err(ScheduleError::NotAllowed);
    }
    Ok((Some(channel), thread))
}

/// Creates a paused schedule for a person, with their rights. The workspace must be locked.
///
/// # Errors
/// `Invalid`, `Malformed`, `Cron`, `UnknownZone`, `TooFrequent`, `NeverRuns`, `TooMany`, `TooManyOwn`, `NotAllowed`, an error about the
/// agent or the workflow, or an error from `Actor::require`. Nothing was stored then.
pub async fn create_imported(
    c: &mut Conn,
    owner: &Actor<'_>,
    id: ScheduleId,
    form: &ScheduleForm,
) -> Result<(), ScheduleError> {
    owner.require(Scope::AgentsUse)?;
    owner.require(Scope::ChatWrite)?;
    if owner.role == Role::Guest {
        return Err(ScheduleError::NotAllowed);
    }
    let name = parse_name(&form.name)?;
    let slots = Slots::parse(&form.cron, &form.timezone)?;
    let target = target(c, owner, ScheduleTargetForm::parse(&form.target)?).await?;
    let (channel, thread) = place(c, owner, parse_deliver(form.deliver)?).await?;
    check_place(c, owner, &target, channel).await?;
    slots.check(moment(clock(c).await?), target.apart_minutes())?;
    check_limits(c, owner).await?;
    let target = StoredTarget::from(target);
    c.q("insert into schedules (id, workspace_id, name, cron, timezone, target_type, target_id, prompt, channel_id, thread_id, missed, \
         status, paused_reason, owner_id, failures, version, created_at, updated_at) \
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, 0, 1, $15, $15)")
        .bind(id)
        .bind(owner.workspace)
        .bind(name)
        .bind(form.cron.clone())
        .bind(form.timezone.clone())
        .bind(target.target_type)
        .bind(target.target_id)
        .bind(target.prompt)
        .bind(channel)
        .bind(thread)
        .bind(form.missed.unwrap_or(MissedPolicy::RunOnce))
        .bind(ScheduleStatus::Paused)
        .bind(PausedReason::ByOwner)
        .bind(owner.user)
        .bind(now())
        .run()
        .await?;
    announce_stored(c, id, EventType::ScheduleCreated).await?;
    Ok(())
}

/// Deletes a schedule that an import created and nobody changed since. Returns false if it stays. The workspace must be locked.
///
/// # Errors
/// Only database errors.
pub async fn delete_imported(c: &mut Conn, id: ScheduleId) -> Result<bool, DbError> {
    let Some(row) = find_row(c, id).await? else {
        return Ok(true);
    };
    if row.version > 1 || row.status != ScheduleStatus::Paused {
        return Ok(false);
    }
    remove(c, row).await?;
    Ok(true)
}
