//! Starts, cancels, and resumes runs for people, and deletes old ones.

use std::{collections::HashMap, time::Duration};

use super::{
    RunsError,
    planner::{Position, RunEnd, plan},
};
use crate::{
    auth::{self, Actor, AuditAction, AuthError, Caller, Scope},
    chat::{ChatError, access, post, remove},
    db::{Conn, Db, DbError, dialect::lock_workspace, now},
    ids::{ChannelId, RunId, TaskId, ThreadId, WorkflowId},
    realtime::{EventType, Hub},
    tasks::{Task, TaskStatus, queue},
    tools::taint,
    workflows::{
        self, WorkflowError,
        definition::{OnError, Step},
        run::{
            self, CauseType, INPUT_BYTES_MAX, NewRun, RunCause, RunReader, RunStatus, RunStep,
            StepState, WorkflowRun,
        },
    },
};

/// A person's request to start a run.
#[derive(Debug, Clone)]
pub struct RunWish {
    pub input: String,
    pub thread: Option<ThreadId>,
    pub channel: Option<ChannelId>,
    pub client_id: Option<String>,
}

/// A run that was started by this request, or by an earlier one with the same ID.
#[derive(Debug)]
pub struct ManualRun {
    pub run: WorkflowRun,
    pub task: Task,
    /// False for a resend, which does not change anything.
    pub is_new: bool,
}

fn invalid(text: &str, param: &str) -> RunsError {
    WorkflowError::Invalid(text.to_owned(), param.to_owned()).into()
}

/// Starts a run, with its root task, for the caller. A resend returns the first run.
///
/// # Errors
/// `NotFound`, `Paused`, `TooManyRuns`, `Invalid`, `ClientIdReused`, `ThreadNotFound`, `ChannelNotFound`, or any error from
/// `writing`.
pub async fn start_by_person(
    c: &mut Conn,
    caller: &Caller,
    actor: &Actor<'_>,
    id: WorkflowId,
    wish: &RunWish,
) -> Result<ManualRun, RunsError> {
    actor.require(Scope::AgentsUse)?;
    actor.require(Scope::ChatWrite)?;
    lock_workspace(c, actor.workspace.0).await?;
    let workflow = workflows::find_workflow(c, actor.workspace, id).await?;
    let workflow = workflow.ok_or(WorkflowError::NotFound)?;
    let run = RunId::new();
    let scope = format!("{id}/runs");
    let client_id = wish.client_id.as_deref();
    if let Some(known) = post::claim_client_id(c, actor, client_id, &scope, run.0).await? {
        let (run, task) = stored(c, RunId(known)).await?;
        return Ok(ManualRun {
            run,
            task,
            is_new: false,
        });
    }
    if wish.input.len() > INPUT_BYTES_MAX {
        let rule = format!("the input can have at most {INPUT_BYTES_MAX} bytes");
        return Err(invalid(&rule, "input"));
    }
    let channel = place(c, caller, actor, wish).await?;
    let new = NewRun {
        cause: RunCause {
            kind: CauseType::Manual,
            id: None,
        },
        requester: actor.user,
        api_key: actor.key,
        channel,
        thread: wish.thread,
        message: None,
        input: wish.input.clone(),
        day: now().day(),
    };
    run::start_run(c, &workflow, run, &new).await?;
    if actor.key.is_some() {
        taint::add_key(c, TaskId(run.0), actor.user).await?;
    }
    let (run, task) = stored(c, run).await?;
    Ok(ManualRun {
        run,
        task,
        is_new: true,
    })
}

/// Checks that the caller can post in the channel of a new run, and returns the channel.
async fn place(
    c: &mut Conn,
    caller: &Caller,
    actor: &Actor<'_>,
    wish: &RunWish,
) -> Result<Option<ChannelId>, RunsError> {
    match (wish.thread, wish.channel) {
        (Some(_), Some(_)) => Err(invalid(
            "specify either a thread or a channel, not both",
            "channel_id",
        )),
        (Some(thread), None) => {
            let access = access::thread(c, caller, thread).await?;
            if access.channel_access.actor.workspace != actor.workspace {
                return Err(ChatError::ThreadNotFound.into());
            }
            Ok(Some(access.writing()?.channel_access.channel))
        }
        (None, Some(channel)) => {
            let access = access::channel(c, caller, channel).await?;
            if access.actor.workspace != actor.workspace {
                return Err(ChatError::ChannelNotFound.into());
            }
            Ok(Some(access.writing()?.channel))
        }
        (None, None) => Ok(None),
    }
}

async fn stored(c: &mut Conn, id: RunId) -> Result<(WorkflowRun, Task), RunsError> {
    let run = run::find_run(c, id).await?;
    let task = queue::find_task(c, TaskId(id.0)).await?;
    Ok(run.zip(task).ok_or(WorkflowError::RunNotFound)?)
}

/// Locks the workspace of a run, and returns the run. The caller needs these scopes, and must be the run's requester, the workflow's
/// owner, or an admin.
///
/// An action on another person's run is recorded in the audit log.
async fn locked(
    c: &mut Conn,
    caller: &Caller,
    id: RunId,
    action: AuditAction,
    scopes: &[Scope],
) -> Result<WorkflowRun, RunsError> {
    let workspace = run::workspace_of_run(c, id).await?;
    let workspace = workspace.ok_or(WorkflowError::RunNotFound)?;
    let actor = caller.enter(c, workspace).await.map_err(|e| match e {
        AuthError::WorkspaceNotFound => WorkflowError::RunNotFound,
        other => other.into(),
    })?;
    lock_workspace(c, workspace.0).await?;
    let run = run::find_visible_run(c, id, reader_of(&actor)).await?;
    let run = run.ok_or(WorkflowError::RunNotFound)?;
    for scope in scopes {
        actor.require(*scope)?;
    }
    let is_own = [run.requested_by, run.owner_id].contains(&actor.user);
    if !is_own && !actor.scopes.has(Scope::AgentsAdmin) {
        return Err(WorkflowError::NotYourRun.into());
    }
    if run.requested_by != actor.user {
        let data = serde_json::json!({"workflow_id": run.workflow_id});
        auth::record_audit(c, &actor, action, id.to_string(), data).await?;
    }
    Ok(run)
}

/// Returns the actor as a reader of runs.
pub fn reader_of(actor: &Actor<'_>) -> RunReader {
    RunReader {
        user: actor.user,
        is_admin: actor.scopes.has(Scope::AgentsAdmin),
    }
}

/// Cancels a run and its tasks. A run that has ended is not changed.
///
/// # Errors
/// `RunNotFound`, `NotYourRun`, or any error from `Actor::require`.
pub async fn cancel_run(
    c: &mut Conn,
    caller: &Caller,
    id: RunId,
    hub: &Hub,
) -> Result<(), RunsError> {
    let run = locked(
        c,
        caller,
        id,
        AuditAction::RunCancelled,
        &[Scope::ChatWrite],
    )
    .await?;
    let audience = queue::audience_in(c, run.channel_id).await?;
    let root = queue::find_task(c, run.root()).await?;
    if let Some(root) = root.filter(Task::is_active) {
        remove::stop(c, &root, hub, audience).await?;
    }
    Ok(())
}

/// Runs the failed step and the following ones again. Completed steps keep their outputs. An API key that resumes the run counts
/// as the one that started it.
///
/// # Errors
/// `RunNotFound`, `NotYourRun`, `NotFailed`, or any error from `check_active` or `Actor::require`.
pub async fn resume_run(c: &mut Conn, caller: &Caller, id: RunId) -> Result<(), RunsError> {
    let scopes = [Scope::ChatWrite, Scope::AgentsUse];
    let run = locked(c, caller, id, AuditAction::RunResumed, &scopes).await?;
    if run.status != RunStatus::Failed {
        return Err(WorkflowError::NotFailed.into());
    }
    let workflow = workflows::find_workflow(c, run.workspace_id, run.workflow_id).await?;
    run::check_active(c, &workflow.ok_or(WorkflowError::NotFound)?).await?;
    reset(c, &run).await?;
    let audience = queue::audience_in(c, run.channel_id).await?;
    queue::reopen(c, id, caller.key(), audience).await?;
    Ok(run::announce_run(c, EventType::RunUpdated, id).await?)
}

/// Makes the failed step pending again. A `parallel` step continues to run instead, and the steps of its branches that did not
/// complete become pending.
async fn reset(c: &mut Conn, run: &WorkflowRun) -> Result<(), DbError> {
    let content = workflows::find_content(c, run.workflow_id, run.workflow_version).await?;
    let Some(content) = content else {
        return Ok(());
    };
    let steps = run::steps_of(c, run.id).await?;
    let positions: HashMap<String, Position> = steps
        .iter()
        .map(|step| (step.id.clone(), Position::of(step)))
        .collect();
    let failed = match plan(&content.steps, &positions).end {
        Some(RunEnd::Failed(id)) => content.steps.iter().find(|step| step.id == id),
        _ => None,
    };
    for step in &steps {
        let is_failed = failed.is_some_and(|failed| failed.id == step.id);
        let inside = failed.into_iter().flat_map(Step::branches);
        let is_inside = inside.flatten().any(|inner| {
            // A step whose failure does not stop the run counts as completed.
            inner.id == step.id
                && (inner.on_error == OnError::Stop || step.state == StepState::Cancelled)
        });
        let is_open = matches!(step.state, StepState::Running | StepState::Waiting)
            && has_stopped(c, step).await?;
        let did_not_end = matches!(step.state, StepState::Failed | StepState::Cancelled);
        let is_parallel = failed.is_some_and(|failed| !failed.branches().is_empty());
        let mut again = step.clone();
        if is_failed && is_parallel {
            again.state = StepState::Running;
        } else if is_failed || is_open || (is_inside && did_not_end) {
            again.state = StepState::Pending;
            again.attempt += 1;
            (again.task_id, again.fork_id, again.action_id) = (None, None, None);
        } else {
            continue;
        }
        (again.error, again.due_at, again.ended_at) = (None, None, None);
        run::store_step(c, run.id, &again).await?;
    }
    Ok(())
}

/// Checks whether the task for which a step waited has failed or been canceled, or the step waited for an approval. Forks are not
/// stopped with the run.
async fn has_stopped(c: &mut Conn, step: &RunStep) -> Result<bool, DbError> {
    if step.fork_id.is_some() {
        return Ok(false);
    }
    let task = match step.task_id {
        Some(task) => queue::find_task(c, task).await?,
        None => None,
    };
    let has_ended = |task: Task| matches!(task.status, TaskStatus::Failed | TaskStatus::Cancelled);
    let is_stopped = task.is_some_and(has_ended);
    Ok(is_stopped || step.action_id.is_some())
}

/// Deletes runs that ended longer than `retention` ago. Their tasks and messages are kept.
///
/// # Errors
/// Only database errors.
pub async fn remove_expired(db: &Db, retention: Duration) -> Result<(), DbError> {
    db.delete_expired(
        now() - retention,
        "select exists (select 1 from runs r join tasks t on t.id = r.id where t.completed_at < $1)",
        "delete from runs where id in (select r.id from runs r join tasks t on t.id = r.id where t.completed_at < $1 order by r.id limit $2)",
    )
    .await?;
    Ok(())
}
