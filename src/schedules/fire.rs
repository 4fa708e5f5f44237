//! The job `schedules` fires due slots. One transaction handles several schedules of a workspace; for each, it stores the slot, its
//! task, and the next slot. If one of them fails, each is retried in its own transaction.
//!
//! All times are compared with the database clock. The key of a slot ensures that it exists only once, even if two nodes run the job
//! at the same time.

use std::time::Duration;

use chrono::TimeDelta;
use futures::{StreamExt, stream};
use uuid::Uuid;

use super::{
    announce::announce_stored,
    error::ScheduleError,
    items,
    list::{find_row, find_visible},
    outcome::{Scheduled, obstacle, pause},
    row::{MissedPolicy, PausedReason, Row, ScheduleStatus, ScheduleTarget, SlotReason, SlotState},
    slots::{Slots, moment},
};
use crate::{
    agents::{files::heartbeat, profiles},
    auth::{Scope, WorkspaceCaller},
    chat::{ChatError, bindings, post},
    db::{
        Conn, Db, DbError,
        dialect::{clock, lock_workspace},
        now,
    },
    failpoint,
    ids::{AgentId, RunId, ScheduleId, TaskId, WorkflowId, WorkspaceId},
    realtime::{EventType, hub::Conversation},
    tasks::{NewScheduled, Task, asleep::is_asleep, queue},
    time::Timestamp,
    tools::taint,
    workflows::{
        WorkflowError, find_workflow,
        run::{CauseType, NewRun, RunCause, check_start, start_run},
    },
};

const JOB: &str = "schedules";
/// Maximum number of schedules fired by one pass (`DUE_MAX`) and by one transaction (`FIRED_TOGETHER`).
const DUE_MAX: usize = 500;
const FIRED_TOGETHER: usize = 25;
/// Maximum number of concurrent transactions.
const WRITES_AT_ONCE: usize = 4;
/// Time after which another node takes over from one that died during a pass.
const LEASE: Duration = Duration::from_secs(5);
/// Minimum time between the starts of two passes.
const PAUSE: Duration = Duration::from_millis(500);
/// Maximum delay at which a slot fires regardless of its schedule's policy for missed slots.
const ON_TIME: TimeDelta = TimeDelta::minutes(1);
/// Maximum age of a missed slot that still fires.
const RUN_ONCE_WITHIN: TimeDelta = TimeDelta::hours(1);
/// Number of missed slots at which counting stops.
const MISSED_MAX: usize = 10_000;

/// A schedule that is due.
#[derive(Debug, Clone, Copy, sqlx::FromRow)]
struct DueSchedule {
    id: ScheduleId,
    workspace_id: WorkspaceId,
}

/// Due slots of a schedule, of which only the newest can fire.
#[derive(Debug, PartialEq, Eq)]
struct Came {
    fires: Option<Timestamp>,
    /// Number of the other due slots.
    missed: usize,
}

impl Came {
    /// `first` is the first slot that has not been handled yet, and `missed` is the policy for missed slots.
    fn of(slots: &Slots, first: Timestamp, now: Timestamp, missed: MissedPolicy) -> Self {
        let (start, end) = (moment(first), moment(now));
        let later = slots.after(start).take_while(|slot| *slot <= end);
        let count = 1 + later.take(MISSED_MAX - 1).count();
        let from = start.max(end - RUN_ONCE_WITHIN);
        let newest = slots.after(from).take_while(|slot| *slot <= end).last();
        let newest = newest.or((from == start).then_some(start));
        let fires = newest.filter(|slot| match missed {
            MissedPolicy::RunOnce => end - *slot < RUN_ONCE_WITHIN,
            MissedPolicy::Skip => end - *slot <= ON_TIME,
        });
        Self {
            missed: count - usize::from(fires.is_some()),
            fires: fires.and_then(Timestamp::within_years),
        }
    }
}

/// Fires the schedules that are due, at most 500. Returns true if there may be more.
///
/// # Errors
/// Only database errors. A schedule that cannot be fired is retried in the next pass.
pub async fn fire_due(db: &Db) -> Result<bool, DbError> {
    let mut c = db.read().await?;
    if is_asleep(&mut c).await? {
        return Ok(false);
    }
    let at = clock(&mut c).await?;
    let due: Vec<DueSchedule> = c
        .q("select id, workspace_id from schedules where status = 'active' and next_run_at <= $1 order by next_run_at, id limit $2")
        .bind(at)
        .bind(i64::try_from(DUE_MAX).unwrap_or(i64::MAX))
        .all()
        .await?;
    drop(c);
    // An idle node does not write anything.
    if due.is_empty() || !claim(db, at).await? {
        return Ok(false);
    }
    let has_more = due.len() == DUE_MAX;
    stream::iter(batches(due))
        .for_each_concurrent(WRITES_AT_ONCE, |batch| fire_batch(db, batch))
        .await;
    release(db, if has_more { at } else { at + PAUSE }).await?;
    Ok(has_more)
}

/// Schedules of a workspace that are fired in one transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Batch {
    workspace: WorkspaceId,
    schedules: Vec<ScheduleId>,
}

/// Groups schedules by workspace, in the order of their slots.
fn batches(due: Vec<DueSchedule>) -> Vec<Batch> {
    let mut batches: Vec<Batch> = Vec::new();
    for due in due {
        let open = batches.iter_mut().rev();
        let mut open = open.filter(|batch| batch.workspace == due.workspace_id);
        match open
            .next()
            .filter(|batch| batch.schedules.len() < FIRED_TOGETHER)
        {
            Some(batch) => batch.schedules.push(due.id),
            None => batches.push(Batch {
                workspace: due.workspace_id,
                schedules: vec![due.id],
            }),
        }
    }
    batches
}

/// Fires the schedules of a batch in one transaction. If that fails, fires each in its own transaction, so that a failing schedule
/// does not affect the others.
async fn fire_batch(db: &Db, batch: Batch) {
    let Err(error) = write_batch(db, batch.clone()).await else {
        return;
    };
    let Batch {
        workspace,
        schedules,
    } = batch;
    if let [schedule] = schedules[..] {
        tracing::warn!(schedule.id = %schedule, error = %error, "a schedule could not be fired; retrying");
        return;
    }
    for schedule in schedules {
        let alone = Batch {
            workspace,
            schedules: vec![schedule],
        };
        if let Err(error) = write_batch(db, alone).await {
            tracing::warn!(schedule.id = %schedule, error = %error, "a schedule could not be fired; retrying");
        }
    }
}

async fn write_batch(db: &Db, batch: Batch) -> Result<(), ScheduleError> {
    failpoint!("slot_store");
    let workspace = batch.workspace.0;
    let write = async move |c: &mut Conn| {
        lock_workspace(c, workspace).await?;
        let at = clock(c).await?;
        for schedule in &batch.schedules {
            fire(c, *schedule, at).await?;
        }
        Ok(())
    };
    let written = db.write(workspace, write).await;
    failpoint!("slot_stored");
    written
}

/// Claims the job. Returns false if another node is running it, or has just run it.
async fn claim(db: &Db, at: Timestamp) -> Result<bool, DbError> {
    let claimed: u64 = db
        .write(Uuid::nil(), async move |c: &mut Conn| {
            c.q(
                "insert into jobs (name, due_at, lease_until) values ($1, $2, $3) \
                 on conflict (name) do update set lease_until = excluded.lease_until \
                 where jobs.due_at <= $2 and (jobs.lease_until is null or jobs.lease_until <= $2)",
            )
            .bind(JOB)
            .bind(at)
            .bind(at + LEASE)
            .run()
            .await
        })
        .await?;
    Ok(claimed == 1)
}

async fn release(db: &Db, due_at: Timestamp) -> Result<(), DbError> {
    db.write(Uuid::nil(), async move |c: &mut Conn| {
        c.q("update jobs set lease_until = null, due_at = $2 where name = $1")
            .bind(JOB)
            .bind(due_at)
            .run()
            .await?;
        Ok(())
    })
    .await
}

/// Stores the due slots of a schedule, the task of the slot that fires, and the time of the next slot. Does nothing if the schedule
/// is no longer due.
async fn fire(c: &mut Conn, id: ScheduleId, at: Timestamp) -> Result<(), ScheduleError> {
    let row = find_row(c, id).await?;
    let Some(row) = row.filter(|row| row.status == ScheduleStatus::Active) else {
        return Ok(());
    };
    let Some(first) = row.next_run_at.filter(|first| *first <= at) else {
        return Ok(());
    };
    let Ok(slots) = Slots::parse(&row.cron, &row.timezone) else {
        // Another version of the program stored the schedule with a time zone that this version does not know.
        return Ok(pause(c, row.id, PausedReason::Failing).await?);
    };
    let came = Came::of(&slots, first, at, row.missed);
    if came.missed > 0 {
        let count = i64::try_from(came.missed).unwrap_or(i64::MAX);
        insert_slot(c, row.id, first, SlotState::Missed, None, None, count).await?;
    }
    let mut reason = None;
    if let Some(slot) = came.fires {
        reason = reason_to_skip(c, &row).await?;
        let task = TaskId::new();
        let state = match reason {
            Some(_) => SlotState::Skipped,
            None => SlotState::Fired,
        };
        let fired = reason.is_none().then_some(task);
        let is_new = insert_slot(c, row.id, slot, state, reason, fired, 1).await?;
        if is_new && fired.is_some() {
            start(c, &row, task).await?;
        }
    }
    c.q("update schedules set next_run_at = $2 where id = $1")
        .bind(row.id)
        .bind(slots.next_after(at))
        .run()
        .await?;
    if reason == Some(SlotReason::OwnerGone) {
        return Ok(pause(c, row.id, PausedReason::OwnerGone).await?);
    }
    announce_stored(c, row.id, EventType::ScheduleUpdated).await?;
    if came.missed > 0 && came.fires.is_none() {
        items::open_failed(c, &row, None).await?;
    }
    Ok(())
}

/// Inserts a slot; returns false if it already exists.
async fn insert_slot(
    c: &mut Conn,
    schedule: ScheduleId,
    at: Timestamp,
    state: SlotState,
    reason: Option<SlotReason>,
    task: Option<TaskId>,
    count: i64,
) -> Result<bool, DbError> {
    let inserted = c
        .q("insert into schedule_slots (schedule_id, slot_at, state, reason, task_id, slot_count) values ($1, $2, $3, $4, $5, $6) \
            on conflict do nothing")
        .bind(schedule)
        .bind(at)
        .bind(state)
        .bind(reason)
        .bind(task)
        .bind(count)
        .run()
        .await?;
    Ok(inserted == 1)
}

async fn reason_to_skip(c: &mut Conn, row: &Row) -> Result<Option<SlotReason>, DbError> {
    if let Some(reason) = obstacle(c, row).await? {
        return Ok(Some(reason));
    }
    if is_running(c, row).await? {
        return Ok(Some(SlotReason::StillRunning));
    }
    match row.target() {
        ScheduleTarget::Workflow { workflow_id, .. } => {
            reason_not_to_run(c, row, workflow_id).await
        }
        _ => Ok(is_empty(c, row).await?.then_some(SlotReason::Empty)),
    }
}

/// Reason why a run of a workflow cannot start now; `None` if it can.
async fn reason_not_to_run(
    c: &mut Conn,
    row: &Row,
    workflow: WorkflowId,
) -> Result<Option<SlotReason>, DbError> {
    let Some(workflow) = find_workflow(c, row.workspace_id, workflow).await? else {
        return Ok(Some(SlotReason::WorkflowOff));
    };
    match check_start(c, &workflow, row.channel_id).await {
        Ok(()) => Ok(None),
        Err(WorkflowError::Db(e)) => Err(e),
        Err(WorkflowError::TooManyRuns) => Ok(Some(SlotReason::TooManyRuns)),
        Err(_) => Ok(Some(SlotReason::WorkflowOff)),
    }
}

async fn is_running(c: &mut Conn, row: &Row) -> Result<bool, DbError> {
    let Some(last) = row.last_task_id else {
        return Ok(false);
    };
    let task = queue::find_task(c, last).await?;
    Ok(task.is_some_and(|task| task.is_active()))
}

/// Checks whether the schedule is a heartbeat whose agent has no HEARTBEAT.md, or a blank one.
async fn is_empty(c: &mut Conn, row: &Row) -> Result<bool, DbError> {
    match row.target() {
        ScheduleTarget::Heartbeat { agent_id } => Ok(heartbeat(c, agent_id).await?.is_none()),
        _ => Ok(false),
    }
}

/// Queues the task for a slot, or for a manual start by the owner. For a workflow, this is the root task of a run.
async fn start(c: &mut Conn, row: &Row, id: TaskId) -> Result<Task, ScheduleError> {
    let task = match row.target() {
        ScheduleTarget::Agent { agent_id, prompt } => {
            start_agent(c, row, id, agent_id, Some(prompt.as_str())).await?
        }
        ScheduleTarget::Heartbeat { agent_id } => start_agent(c, row, id, agent_id, None).await?,
        ScheduleTarget::Workflow { workflow_id, input } => {
            start_workflow(c, row, id, workflow_id, &input).await?
        }
    };
    if row.api_key_id.is_some() {
        taint::add_key(c, id, row.owner_id).await?;
    }
    c.q("update schedules set last_task_id = $2 where id = $1")
        .bind(row.id)
        .bind(id)
        .run()
        .await?;
    Ok(task)
}

/// Queues a run of a workflow for the owner.
async fn start_workflow(
    c: &mut Conn,
    row: &Row,
    id: TaskId,
    workflow: WorkflowId,
    input: &str,
) -> Result<Task, ScheduleError> {
    let workflow = find_workflow(c, row.workspace_id, workflow).await?;
    let workflow = workflow.ok_or(WorkflowError::NotFound)?;
    let slots = Slots::parse(&row.cron, &row.timezone)?;
    let new = NewRun {
        cause: RunCause {
            kind: CauseType::Schedule,
            id: Some(row.id.to_string()),
        },
        requester: row.owner_id,
        api_key: row.api_key_id,
        channel: row.channel_id,
        thread: row.thread_id,
        message: None,
        input: input.to_owned(),
        day: slots.day(clock(c).await?),
    };
    start_run(c, &workflow, RunId(id.0), &new).await?;
    let task = queue::find_task(c, id).await?;
    task.ok_or(ScheduleError::NotFound)
}

/// Queues a task for an agent; it is a heartbeat if there is no prompt. The task runs in the background, because nobody waits for it.
/// Its reply is posted as a whole, so the task does not have to take a turn in the conversation.
async fn start_agent(
    c: &mut Conn,
    row: &Row,
    id: TaskId,
    agent: AgentId,
    prompt: Option<&str>,
) -> Result<Task, ScheduleError> {
    let channel = row.channel_id.ok_or(ScheduleError::NotAllowed)?;
    profiles::refresh_first(c, row.workspace_id, agent).await?;
    let bound = match row.thread_id {
        Some(thread) => bindings::find_binding(c, Conversation::Thread(thread)).await?,
        None => None,
    };
    let pinned = bound.filter(|bound| bound.agent == agent);
    let version = match pinned {
        Some(bound) => Some(bound.version),
        None => profiles::newest_version(c, agent).await?,
    };
    let options = Scheduled {
        schedule_id: row.id,
        name: row.name.clone(),
        heartbeat: prompt.is_none(),
    };
    let new = NewScheduled {
        id,
        workspace: row.workspace_id,
        agent,
        agent_version: version.ok_or(ScheduleError::NotAllowed)?,
        channel,
        thread: row.thread_id,
        requested_by: row.owner_id,
        api_key: row.api_key_id,
        prompt: prompt.unwrap_or_default().to_owned(),
        options: serde_json::to_value(options).unwrap_or_default(),
    };
    let audience = queue::audience_of(c, channel).await?;
    Ok(queue::insert_scheduled(c, &new, audience).await?)
}

/// A task that was started manually by this request, or by an earlier one with the same ID.
#[derive(Debug)]
pub struct StartedRun {
    pub task: Task,
    /// False for a resend, for which nothing was changed.
    pub is_new: bool,
}

/// Starts a scheduled task immediately, even if the schedule's owner has paused it. For an empty heartbeat, the returned task has
/// already completed.
///
/// # Errors
/// `NotFound`, `NotYours`, `PausedByAdmin`, `NotAllowed`, `StillRunning`, `ChatError::ClientIdReused`, or an error from `start_run`
/// or `Actor::require`.
pub async fn run_now(
    c: &mut Conn,
    member: &WorkspaceCaller,
    id: ScheduleId,
    client_id: Option<&str>,
) -> Result<StartedRun, ScheduleError> {
    let actor = &member.enter(c).await?;
    lock_workspace(c, actor.workspace.0).await?;
    let row = find_visible(c, actor, id).await?;
    actor.require(Scope::AgentsUse)?;
    actor.require(Scope::ChatWrite)?;
    if row.owner_id != actor.user {
        return Err(ScheduleError::NotYours);
    }
    let new = TaskId::new();
    let place = format!("{id}/run");
    let known = post::claim_client_id(c, actor, client_id, &place, new.0).await?;
    if let Some(known) = known {
        let task = queue::find_task(c, TaskId(known)).await?;
        return Ok(StartedRun {
            task: task.ok_or(ChatError::TaskNotFound)?,
            is_new: false,
        });
    }
    if row.paused_reason == Some(PausedReason::ByAdmin) {
        return Err(ScheduleError::PausedByAdmin);
    }
    if obstacle(c, &row).await?.is_some() {
        return Err(ScheduleError::NotAllowed);
    }
    if is_running(c, &row).await? {
        return Err(ScheduleError::StillRunning);
    }
    let row = Row {
        api_key_id: row.api_key_id.or(actor.key),
        ..row
    };
    let mut task = start(c, &row, new).await?;
    if is_empty(c, &row).await? {
        let audience = queue::audience_in(c, row.channel_id).await?;
        task = queue::complete_queued(c, task.id, audience).await?;
    }
    Ok(StartedRun { task, is_new: true })
}

/// Deletes slots that are older than `retention`.
///
/// # Errors
/// Only database errors.
pub async fn delete_old_slots(db: &Db, retention: Duration) -> Result<(), DbError> {
    db.delete_expired(
        now() - retention,
        "select exists (select 1 from schedule_slots where slot_at < $1)",
        "delete from schedule_slots where (schedule_id, slot_at) in \
         (select schedule_id, slot_at from schedule_slots where slot_at < $1 order by slot_at limit $2)",
    )
    .await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        serde_json::from_value(format!("2026-11-23T{text}Z").into()).unwrap()
    }

    #[test]
    fn schedules_of_a_workspace_are_fired_together() {
        let (one, other) = (WorkspaceId::new(), WorkspaceId::new());
        let due: Vec<DueSchedule> = (0..60)
            .map(|n| DueSchedule {
                id: ScheduleId::new(),
                workspace_id: if n % 2 == 0 { one } else { other },
            })
            .collect();
        let found = batches(due.clone());
        let sizes: Vec<usize> = found.iter().map(|batch| batch.schedules.len()).collect();
        assert_eq!(sizes, [25, 25, 5, 5]);
        for workspace in [one, other] {
            let of_workspace = |batch: &&Batch| batch.workspace == workspace;
            let fired = found.iter().filter(of_workspace);
            let fired: Vec<ScheduleId> = fired.flat_map(|b| b.schedules.clone()).collect();
            let expected = due.iter().filter(|due| due.workspace_id == workspace);
            assert!(fired.into_iter().eq(expected.map(|due| due.id)));
        }
    }

    #[test]
    fn after_downtime_the_newest_slot_fires_once_if_it_is_fresh() {
        let slots = Slots::parse("*/30 * * * *", "UTC").unwrap();
        let first = at("06:00:00");
        for (now, missed, fires, count) in [
            ("06:00:00", MissedPolicy::Skip, Some("06:00:00"), 0),
            ("06:01:00", MissedPolicy::Skip, Some("06:00:00"), 0),
            ("06:01:01", MissedPolicy::Skip, None, 1),
            ("06:01:01", MissedPolicy::RunOnce, Some("06:00:00"), 0),
            ("06:30:05", MissedPolicy::Skip, Some("06:30:00"), 1),
            ("09:45:00", MissedPolicy::RunOnce, Some("09:30:00"), 7),
            ("09:45:00", MissedPolicy::Skip, None, 8),
        ] {
            let expected = Came {
                fires: fires.map(at),
                missed: count,
            };
            let found = Came::of(&slots, first, at(now), missed);
            assert_eq!(found, expected, "{now} {missed}");
        }
        let daily = Slots::parse("0 6 * * *", "UTC").unwrap();
        for (now, fires) in [("06:59:59", Some(first)), ("07:00:00", None)] {
            let found = Came::of(&daily, first, at(now), MissedPolicy::RunOnce);
            assert_eq!(found.fires, fires, "{now}");
        }
    }
}
