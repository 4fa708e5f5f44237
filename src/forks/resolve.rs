//! Queues draft requests: at most one task per fork. The task runs in `resolver`.

use serde::{Deserialize, Serialize};

use super::{ForkError, resolution::find_draft};
use crate::{
    agents::profiles,
    auth::{Caller, Scope},
    chat::{
        ChatError, access, bindings,
        forks::{self, Fork},
        post,
    },
    db::{Conn, DbError},
    ids::{AgentId, ForkId, TaskId, WorkspaceId},
    realtime::{Audience, log},
    tasks::{NewTask, Task, TaskKind, TaskTarget, queue},
};

const GUIDANCE_UNITS_MAX: usize = 2000;

/// Parameters of a request to resolve a fork.
#[derive(Debug, Clone, Default)]
pub struct ResolveOptions {
    /// True to publish the draft immediately, with the agent as its author.
    pub publish: bool,
    pub guidance: Option<String>,
    /// True to replace the draft even if people edited it.
    pub replace_draft: bool,
}

/// Options stored with a resolve task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Options {
    #[serde(default)]
    pub publish: bool,
    #[serde(default)]
    pub replace_draft: bool,
    /// Revision of the draft at the time of the request, or 0 if there was none. Later edits by people are never overwritten.
    #[serde(default)]
    pub draft_revision: i64,
}

impl Options {
    pub(super) fn of(task: &Task) -> Self {
        task.input
            .0
            .options
            .clone()
            .and_then(|options| serde_json::from_value(options).ok())
            .unwrap_or_default()
    }
}

/// Trims and checks the guidance.
///
/// # Errors
/// `Invalid` if the guidance is too long.
pub fn parse_guidance(text: Option<String>) -> Result<Option<String>, ForkError> {
    let text = text.map(|t| t.trim().to_owned()).filter(|t| !t.is_empty());
    if text
        .as_ref()
        .is_some_and(|t| t.encode_utf16().count() > GUIDANCE_UNITS_MAX)
    {
        return Err(ForkError::Invalid(
            format!("guidance can have at most {GUIDANCE_UNITS_MAX} characters"),
            "guidance".to_owned(),
        ));
    }
    Ok(text)
}

/// Queues a resolve task, or returns the one that is already active.
///
/// # Errors
/// `ForkEmpty`, `DraftEdited`, or `ChatError`: `ForkNotFound`, `ForkClosed`, or any error from `writing`.
pub async fn resolve(
    c: &mut Conn,
    caller: &Caller,
    id: ForkId,
    wish: &ResolveOptions,
) -> Result<(Fork, Task), ForkError> {
    let access = access::fork(c, caller, id).await?.writing()?;
    let actor = &access.channel_access.actor;
    actor.require(Scope::AgentsUse)?;
    crate::db::dialect::lock_workspace(c, actor.workspace.0).await?;
    let fork = forks::get_fork(c, id).await?;
    let active = queue::active_in_fork(c, id).await?;
    if let Some(task) = active
        .into_iter()
        .find(|task| task.kind == TaskKind::Resolve)
    {
        return Ok((fork, task));
    }
    if is_empty(c, id).await? {
        return Err(ForkError::ForkEmpty);
    }
    let draft = find_draft(c, id).await?;
    let is_edited = draft
        .as_ref()
        .is_some_and(|draft| !draft.edited_by.is_empty());
    if is_edited && !wish.replace_draft {
        return Err(ForkError::DraftEdited);
    }
    let (agent, agent_version) = writer(c, &access, actor.workspace).await?;
    let options = Options {
        publish: wish.publish,
        replace_draft: wish.replace_draft,
        draft_revision: draft.map_or(0, |draft| draft.revision),
    };
    let new = NewTask {
        prompt: wish.guidance.clone().unwrap_or_default(),
        options: serde_json::to_value(options).ok(),
        ..NewTask::new(
            actor.workspace,
            TaskKind::Resolve,
            actor.user,
            TaskTarget {
                agent,
                agent_version,
                channel: access.channel_access.channel,
                thread: access.thread,
                fork: Some(id),
            },
        )
    };
    let full = if queue::free_slots(c, actor.workspace).await? <= 0 {
        Some(post::queue_full(c, agent, &[]).await?)
    } else {
        None
    };
    let seq = log::reserve(c, actor.workspace, 1).await?;
    let task = post::enqueue(c, seq, &new, full, access.channel_access.audience())
        .await?
        .ok_or(ForkError::Chat(ChatError::AlreadyRetried))?;
    Ok((forks::get_fork(c, id).await?, task))
}

/// Task in which this version of an agent writes a draft, as a child of `parent`.
pub(super) async fn child_draft(
    c: &mut Conn,
    parent: &Task,
    fork: &Fork,
    agent: AgentId,
    agent_version: i64,
    publish: bool,
) -> Result<NewTask, DbError> {
    let draft = find_draft(c, fork.id).await?;
    let options = Options {
        publish,
        replace_draft: false,
        draft_revision: draft.map_or(0, |draft| draft.revision),
    };
    Ok(NewTask {
        parent: Some(parent.id),
        child_key: Some("resolve".to_owned()),
        options: serde_json::to_value(options).ok(),
        ..NewTask::new(
            parent.workspace_id,
            TaskKind::Resolve,
            parent.requested_by,
            TaskTarget {
                agent,
                agent_version,
                channel: fork.channel_id,
                thread: fork.thread_id,
                fork: Some(fork.id),
            },
        )
    })
}

/// Queues a draft by this agent for a run. The run waits for the resolution, not for this task. Returns `None` if a draft is already
/// being written, or if people have edited the draft.
pub async fn draft_for_run(
    c: &mut Conn,
    run: &Task,
    fork: &Fork,
    agent: AgentId,
    agent_version: i64,
    publish: bool,
    audience: Audience,
) -> Result<Option<TaskId>, DbError> {
    let active = queue::active_in_fork(c, fork.id).await?;
    let draft = find_draft(c, fork.id).await?;
    let is_edited = draft.is_some_and(|draft| !draft.edited_by.is_empty());
    if is_edited || active.iter().any(|task| task.kind == TaskKind::Resolve) {
        return Ok(None);
    }
    let new = NewTask {
        child_key: None,
        ..child_draft(c, run, fork, agent, agent_version, publish).await?
    };
    let Some(task) = queue::insert(c, &new, None).await? else {
        return Ok(None);
    };
    queue::announce(c, &task, audience).await?;
    Ok(Some(task.id))
}

async fn is_empty(c: &mut Conn, fork: ForkId) -> Result<bool, DbError> {
    let said: Vec<(i64,)> = c
        .q("select seq from messages where conversation_id = $1 and deleted_at is null and kind <> 'notice' limit 1")
        .bind(fork)
        .all()
        .await?;
    Ok(said.is_empty())
}

/// The fork's agent at its pinned version, or the default agent if the fork has no agent, its agent is no longer active, or the
/// requester cannot invoke it.
async fn writer(
    c: &mut Conn,
    access: &access::ThreadAccess<'_>,
    workspace: WorkspaceId,
) -> Result<(AgentId, i64), ForkError> {
    let bound = bindings::find_binding(c, access.conversation()).await?;
    if let Some(bound) = bound
        .filter(|bound| bound.is_active() && bound.can_be_invoked_by(&access.channel_access.actor))
    {
        return Ok((bound.agent, bound.version));
    }
    let default = profiles::find_default(c, workspace).await?;
    let default = default.ok_or_else(|| ChatError::NoSuchAgent("default".to_owned()))?;
    Ok((default.id, default.version))
}
