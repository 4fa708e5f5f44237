//! Queues replays.

use crate::{
    agents::{
        AgentError,
        profiles::{Resolved, TrialProfile, resolve_trial},
    },
    auth::Actor,
    db::{Conn, DbError, dialect},
    ids::TaskId,
    tasks::{NewTask, Task, TaskKind, TaskTarget, queue},
};

use super::{Case, store};

/// Maximum and default number of replies.
pub const CASES_MAX: i64 = 20;

/// A replay to start.
#[derive(Debug, Clone)]
pub struct NewReplay {
    pub trial: TrialProfile,
    /// Maximum number of replies.
    pub count: i64,
}

/// Loads the cases and the profile of a replay without starting it. `c` must be a snapshot of the database.
///
/// # Errors
/// Any error from `resolve_trial`.
pub async fn plan(
    c: &mut Conn,
    actor: &Actor<'_>,
    reference: &str,
    new: &NewReplay,
) -> Result<(Resolved, Vec<Case>), AgentError> {
    let agent = resolve_trial(c, actor, reference, &new.trial).await?;
    let mut cases = Vec::new();
    for reply in queue::newest_replies(c, agent.agent, actor.user, new.count).await? {
        if let Ok(case) = Case::load(c, &reply, &agent, actor.user).await? {
            cases.push(case);
        }
    }
    Ok((agent, cases))
}

/// Finds the replies for a replay, newest first. This can read all tasks of the agent, which would take too long in a write
/// transaction.
///
/// # Errors
/// Any error from `resolve_trial`.
pub async fn choose(
    c: &mut Conn,
    actor: &Actor<'_>,
    reference: &str,
    new: &NewReplay,
) -> Result<Vec<TaskId>, AgentError> {
    let agent = resolve_trial(c, actor, reference, &new.trial).await?;
    let replies = queue::newest_replies(c, agent.agent, actor.user, new.count).await?;
    Ok(replies.into_iter().map(|reply| reply.id).collect())
}

/// Queues a replay: a root, and a child for each reply in `chosen` that still exists. Each child checks again whether the reply can
/// be read.
///
/// # Errors
/// `ReplayActive`, `NothingToReplay`, or any error from `resolve_trial`.
pub async fn start(
    c: &mut Conn,
    actor: &Actor<'_>,
    reference: &str,
    new: &NewReplay,
    chosen: &[TaskId],
) -> Result<Task, AgentError> {
    dialect::lock_workspace(c, actor.workspace.0).await?;
    let agent = resolve_trial(c, actor, reference, &new.trial).await?;
    let active = queue::active_replay(c, actor.workspace, agent.agent, actor.user).await?;
    if active.is_some() {
        return Err(AgentError::ReplayActive);
    }
    let mut placed: Vec<(TaskId, TaskTarget)> = Vec::with_capacity(chosen.len());
    for reply in chosen {
        let reply = queue::find_reply(c, *reply, agent.agent, actor.user).await?;
        placed.extend(reply.and_then(|reply| Some((reply.id, reply.target()?))));
    }
    // Every task needs a conversation, so the root uses the conversation of the first case.
    let (_, first) = *placed.first().ok_or(AgentError::NothingToReplay)?;
    let root = insert(c, actor, &agent, first, None).await?;
    store::insert(c, &root, &agent).await?;
    for (n, (reply, target)) in placed.into_iter().enumerate() {
        let place = ChildPlace {
            parent: root.id,
            key: format!("case.{}", n + 1),
        };
        let child = insert(c, actor, &agent, target, Some(place)).await?;
        store::insert_case(c, root.id, child.id, reply).await?;
    }
    Ok(root)
}

/// Position of a child in its tree.
struct ChildPlace {
    parent: TaskId,
    /// Key that is unique among the children of a root.
    key: String,
}

/// Queues the root or a child, and announces it to the requester.
async fn insert(
    c: &mut Conn,
    actor: &Actor<'_>,
    agent: &Resolved,
    target: TaskTarget,
    child: Option<ChildPlace>,
) -> Result<Task, DbError> {
    let new = NewTask {
        parent: child.as_ref().map(|child| child.parent),
        child_key: child.map(|child| child.key),
        api_key: actor.key,
        ..NewTask::new(
            actor.workspace,
            TaskKind::Replay,
            actor.user,
            TaskTarget {
                agent: agent.agent,
                agent_version: agent.version,
                ..target
            },
        )
    };
    let task = queue::insert(c, &new, None).await?;
    let task = task.ok_or(sqlx::Error::RowNotFound)?;
    let audience = queue::audience_of(c, target.channel).await?;
    queue::announce(c, &task, audience).await?;
    Ok(task)
}
