//! Starts collaborations: agents take turns working on a goal in a fork. `collaborator` queues the
//! turns.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use super::ForkError;
use crate::{
    agents::profiles,
    auth::{Actor, Scope},
    chat::{
        collaboration::{
            Collaboration, CollaborationState, end_collaboration, update_collaboration,
        },
        forks::Fork,
        messages::{self, Message, Text},
        post,
    },
    db::Conn,
    ids::{AgentId, ApiKeyId, TaskId, UserId},
    realtime::{Audience, log},
    tasks::{
        COLLABORATION_TURNS, COLLABORATORS, NewTask, Task, TaskKind, TaskStatus, TaskTarget, queue,
    },
};

const GOAL_UNITS_MAX: usize = 4000;

/// Agents and end condition of a collaboration; stored as the options of its task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Agents in the order of their turns.
    pub agents: Vec<AgentId>,
    pub turns_max: i64,
    /// True if the draft is published without review.
    pub auto_publish: bool,
}

impl Plan {
    /// The plan of a task; `None` if the task is not a collaboration.
    pub(super) fn of(task: &Task) -> Option<Self> {
        let options = task.input.0.options.clone();
        let options = options.filter(|_| task.kind == TaskKind::Collaborate)?;
        serde_json::from_value(options).ok()
    }

    pub(super) fn state(&self, turns: i64) -> Collaboration {
        Collaboration {
            agents: self.agents.clone(),
            turns,
            turns_max: self.turns_max,
            state: CollaborationState::Running,
        }
    }
}

/// A goal for several agents.
#[derive(Debug, Clone)]
pub struct Goal {
    pub text: Text,
    pub plan: Plan,
    /// True if the workspace has no model.
    pub is_offline: bool,
}

fn invalid(text: String, param: &str) -> ForkError {
    ForkError::Invalid(text, param.to_owned())
}

impl Goal {
    /// Checks the fields of a request; by default, there are 8 turns, and people review the draft.
    ///
    /// # Errors
    /// `Invalid`, or `ChatError::Invalid` for a blank goal.
    pub fn parse(
        agents: Vec<AgentId>,
        goal: Option<String>,
        turns_max: Option<i64>,
        auto_publish: Option<bool>,
    ) -> Result<Self, ForkError> {
        let distinct: HashSet<AgentId> = agents.iter().copied().collect();
        if distinct.len() != agents.len() || !COLLABORATORS.contains(&agents.len()) {
            let (min, max) = COLLABORATORS.into_inner();
            let rule = format!("choose {min} to {max} different agents");
            return Err(invalid(rule, "collaborators"));
        }
        let (turns_min, most_turns) = COLLABORATION_TURNS.into_inner();
        let turns_max = turns_max.unwrap_or(most_turns);
        if !COLLABORATION_TURNS.contains(&turns_max) {
            let rule = format!("turns_max must be from {turns_min} to {most_turns}");
            return Err(invalid(rule, "turns_max"));
        }
        let goal = goal.unwrap_or_default();
        if goal.trim().is_empty() || goal.encode_utf16().count() > GOAL_UNITS_MAX {
            return Err(invalid(
                format!("the goal must have 1 to {GOAL_UNITS_MAX} characters"),
                "goal",
            ));
        }
        Ok(Self {
            text: Text::parse(goal)?,
            plan: Plan {
                agents,
                turns_max,
                auto_publish: auto_publish.unwrap_or(false),
            },
            is_offline: false,
        })
    }
}

/// Checks that a person can invoke these agents.
///
/// # Errors
/// `NoSuchCollaborator`, or any error from `Actor::require`.
pub(super) async fn check_agents(
    c: &mut Conn,
    actor: &Actor<'_>,
    agents: &[AgentId],
) -> Result<(), ForkError> {
    actor.require(Scope::AgentsUse)?;
    for agent in agents {
        profiles::refresh_first(c, actor.workspace, *agent).await?;
        if profiles::find_invocable(c, actor, *agent).await?.is_none() {
            return Err(ForkError::NoSuchCollaborator(*agent));
        }
    }
    Ok(())
}

/// A collaboration to start in a fork in which its goal has been posted.
#[derive(Debug)]
pub struct NewCollaboration<'a> {
    pub fork: &'a Fork,
    pub goal: &'a Message,
    pub plan: &'a Plan,
    /// Person for whom the agents work.
    pub requester: UserId,
    /// API key that posted the goal.
    pub api_key: Option<ApiKeyId>,
    /// Task that waits for the collaboration, and the key of the collaboration among that task's children.
    pub parent: Option<(TaskId, String)>,
}

/// Queues a collaboration. Returns `None` if its parent's tree was stopped, or the child already exists.
///
/// # Errors
/// `NoSuchCollaborator` if the first agent was permanently deleted.
pub async fn start_collaboration(
    c: &mut Conn,
    new: &NewCollaboration<'_>,
    audience: Audience,
) -> Result<Option<Task>, ForkError> {
    let first = new.plan.agents.first().copied();
    let first = first.ok_or_else(|| {
        invalid(
            "choose the agents that work together".to_owned(),
            "collaborators",
        )
    })?;
    let version = profiles::newest_version(c, first).await?;
    let (parent, child_key) = new.parent.clone().unzip();
    let fork = new.fork;
    let task = NewTask {
        trigger: Some(new.goal.id),
        parent,
        child_key,
        api_key: new.api_key,
        prompt: new.goal.content.clone(),
        options: serde_json::to_value(new.plan).ok(),
        ..NewTask::new(
            fork.workspace_id,
            TaskKind::Collaborate,
            new.requester,
            TaskTarget {
                agent: first,
                agent_version: version.ok_or(ForkError::NoSuchCollaborator(first))?,
                channel: fork.channel_id,
                thread: fork.thread_id,
                fork: Some(fork.id),
            },
        )
    };
    let full = if queue::free_slots(c, fork.workspace_id).await? <= 0 {
        Some(post::queue_full(c, first, &[]).await?)
    } else {
        None
    };
    let seq = log::reserve(c, fork.workspace_id, 1).await?;
    let Some(task) = post::enqueue(c, seq, &task, full, audience).await? else {
        return Ok(None);
    };
    update_collaboration(c, fork.id, &new.plan.state(0), audience).await?;
    if task.status == TaskStatus::Failed {
        end_collaboration(c, fork.id, CollaborationState::Failed, audience).await?;
    }
    Ok(Some(task))
}

/// The goal and the task with which a fork was started, if it was started with collaborators.
pub(super) async fn find_started(
    c: &mut Conn,
    fork: &Fork,
) -> Result<Option<(Message, Task)>, ForkError> {
    if fork.collaboration.is_none() {
        return Ok(None);
    }
    // Uses the index by thread, which also contains ended tasks.
    let first: Option<(TaskId,)> = c
        .q("select id from tasks where thread_id = $1 and conversation_id = $2 and kind = 'collaborate' order by id limit 1")
        .bind(fork.thread_id)
        .bind(fork.id)
        .opt()
        .await?;
    let Some((first,)) = first else {
        return Ok(None);
    };
    let task = queue::find_task(c, first).await?;
    let goal = match task.as_ref().and_then(|task| task.trigger_message_id) {
        Some(goal) => messages::find_message(c, goal).await?,
        None => None,
    };
    Ok(goal.zip(task))
}
