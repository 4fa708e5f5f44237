//! State of a collaboration, and the position of a turn in it.

use serde::{Deserialize, Serialize};

use crate::{
    db::{Conn, DbError, Json},
    ids::{AgentId, ForkId},
    tasks::{Task, TaskKind},
    text_enum::text_enum,
};

text_enum! {
    /// State of a collaboration.
    pub enum CollaborationState {
        Running = "running",
        /// A draft was written or published.
        Done = "done",
        /// A person stopped the collaboration.
        Stopped = "stopped",
        /// The collaboration ended without a draft.
        Failed = "failed",
    }
}

/// Collaboration of agents that take turns working on a goal in a fork.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Collaboration {
    /// Agents in the order of their turns.
    pub agents: Vec<AgentId>,
    /// Number of turns that have been started.
    pub turns: i64,
    pub turns_max: i64,
    pub state: CollaborationState,
}

impl Collaboration {
    pub fn is_running(&self) -> bool {
        self.state == CollaborationState::Running
    }
}

/// Position of a task among the turns of a collaboration; stored in the task's options.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turn {
    /// Number of the turn, starting at 1.
    pub turn: i64,
    pub turns_max: i64,
}

impl Turn {
    /// Returns `None` if the task is not a turn.
    pub fn of(task: &Task) -> Option<Self> {
        let options = task.input.0.options.clone();
        let options = options.filter(|_| task.kind == TaskKind::Reply)?;
        serde_json::from_value(options).ok()
    }
}

pub async fn find_collaboration(
    c: &mut Conn,
    fork: ForkId,
) -> Result<Option<Collaboration>, DbError> {
    let row: Option<(Option<Json<Collaboration>>,)> = c
        .q("select collaboration from forks where id = $1")
        .bind(fork)
        .opt()
        .await?;
    Ok(row.and_then(|(found,)| found).map(|found| found.0))
}

pub(super) async fn set_collaboration(
    c: &mut Conn,
    fork: ForkId,
    collaboration: &Collaboration,
) -> Result<(), DbError> {
    c.q("update forks set collaboration = $2 where id = $1")
        .bind(fork)
        .bind(Json(collaboration.clone()))
        .run()
        .await?;
    Ok(())
}
