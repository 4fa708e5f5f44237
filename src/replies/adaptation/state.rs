//! Adaptation states of an agent for a person in a conversation, with the scores of the newest messages, and the SQL for them.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{
    agents::profiles::{AdaptationEvent, SentimentPreset},
    db::{Conn, Db, DbError, Json, now},
    ids::{AgentId, ForkId, ThreadId, UserId, WorkspaceId},
    tasks::{Task, TaskTarget},
    text_enum::{constant, text_enum},
    time::Timestamp,
};

use super::traits::{Mood, TaskComplexity, Traits, UserSkill};

/// Time without a message after which a state is deleted.
const EXPIRES_AFTER: Duration = Duration::from_hours(30 * 24);

text_enum! {
    /// Class of a message according to the agent's thresholds.
    pub enum SentimentClass {
        Negative = "negative",
        Neutral = "neutral",
        Positive = "positive",
    }
}

impl SentimentClass {
    /// Classifies a score. A score at a threshold is neutral.
    pub fn of(score: f64, frustration_threshold: f64, satisfaction_threshold: f64) -> Self {
        if score < frustration_threshold {
            Self::Negative
        } else if score > satisfaction_threshold {
            Self::Positive
        } else {
            Self::Neutral
        }
    }
}

/// Score of a message, without its text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct MessageScore {
    /// −1 (negative) to 1 (positive).
    pub score: f64,
    /// 0 to 1.
    pub intensity: f64,
    pub class: SentimentClass,
    /// Length of the message in UTF-16 code units.
    pub length: i64,
    /// Time of the message.
    pub at: Timestamp,
}

/// A score as it is stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredScore {
    #[serde(flatten)]
    pub shown: MessageScore,
    /// True if the person seemed confused.
    #[serde(default)]
    pub confused: bool,
}

/// The newest adaptation event in a conversation with a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct LastEvent {
    pub event: AdaptationEvent,
    pub at: Timestamp,
}

/// Prompt of a reflection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PromptName {
    Preset(SentimentPreset),
    /// ID of a metaprompt of the agent.
    Metaprompt(String),
    /// The built-in interval reflection.
    BuiltIn,
}

/// A person and an agent in a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StateKey {
    pub workspace: WorkspaceId,
    pub user: UserId,
    pub agent: AgentId,
    pub thread: ThreadId,
    pub fork: Option<ForkId>,
}

impl StateKey {
    /// Returns the key for the requester, the agent, and the conversation of a task.
    pub fn of(task: &Task, target: &TaskTarget) -> Self {
        Self {
            workspace: task.workspace_id,
            user: task.requested_by,
            agent: target.agent,
            thread: target.thread,
            fork: target.fork,
        }
    }

    pub fn conversation(&self) -> Uuid {
        self.fork.map_or(self.thread.0, |fork| fork.0)
    }
}

/// A row of `adaptation_states`.
#[derive(Debug, Clone, PartialEq, sqlx::FromRow)]
pub struct StoredState {
    /// ID of the state. A state that is created again after its deletion has a new ID.
    pub id: Uuid,
    pub agent_id: AgentId,
    pub thread_id: ThreadId,
    pub fork_id: Option<ForkId>,
    #[sqlx(flatten)]
    pub traits: Traits,
    pub last_event: Option<Json<LastEvent>>,
    /// Scores, oldest first.
    pub scores: Json<Vec<StoredScore>>,
    /// Number of the agent's replies.
    pub turns: i64,
    /// Turn of the newest reflection on an event.
    pub event_turn: Option<i64>,
    /// Turn of the newest reflection at an interval, by metaprompt.
    pub interval_turns: Json<BTreeMap<String, i64>>,
    pub last_message_at: Timestamp,
}

macro_rules! state_sql {
    ($tail:literal) => {
        concat!(
            "select id, agent_id, thread_id, nullif(conversation_id, thread_id) as fork_id, mood, user_skill, task_complexity, \
             last_event, scores, turns, event_turn, interval_turns, last_message_at from adaptation_states ",
            $tail
        )
    };
}

/// Returns the expiry cutoff: states whose last message was posted at or before it have expired.
fn expiry() -> Timestamp {
    now() - EXPIRES_AFTER
}

impl StoredState {
    /// Creates a neutral state.
    pub fn new(key: &StateKey, at: Timestamp) -> Self {
        Self {
            id: Uuid::now_v7(),
            agent_id: key.agent,
            thread_id: key.thread,
            fork_id: key.fork,
            traits: Traits::NEUTRAL,
            last_event: None,
            scores: Json(Vec::new()),
            turns: 0,
            event_turn: None,
            interval_turns: Json(BTreeMap::new()),
            last_message_at: at,
        }
    }

    /// Finds the state of a person; `None` if there is none or if it has expired.
    pub async fn find(c: &mut Conn, key: &StateKey) -> Result<Option<Self>, DbError> {
        c.q(state_sql!(
            "where conversation_id = $1 and agent_id = $2 and user_id = $3 and last_message_at > $4"
        ))
        .bind(key.conversation())
        .bind(key.agent)
        .bind(key.user)
        .bind(expiry())
        .opt()
        .await
    }

    /// Finds the state with this key, if it still has this ID.
    pub async fn find_same(
        c: &mut Conn,
        key: &StateKey,
        id: Uuid,
    ) -> Result<Option<Self>, DbError> {
        let found = Self::find(c, key).await?;
        Ok(found.filter(|state| state.id == id))
    }

    /// Finds the state of a person, or creates it. The workspace must be locked.
    pub async fn open(c: &mut Conn, key: &StateKey) -> Result<Self, DbError> {
        if let Some(state) = Self::find(c, key).await? {
            return Ok(state);
        }
        // An expired state is replaced.
        let conversation = key.conversation();
        delete(c, key.workspace, key.user, key.agent, conversation).await?;
        let state = Self::new(key, now());
        c.q("insert into adaptation_states (id, workspace_id, user_id, agent_id, thread_id, conversation_id, mood, user_skill, \
             task_complexity, last_event, scores, turns, event_turn, interval_turns, last_message_at, created_at) \
             values ($1, $2, $3, $4, $5, $6, $7, $8, $9, null, $10, 0, null, $11, $12, $12)")
            .bind(state.id)
            .bind(key.workspace)
            .bind(key.user)
            .bind(key.agent)
            .bind(key.thread)
            .bind(key.conversation())
            .bind(state.traits.mood)
            .bind(state.traits.user_skill)
            .bind(state.traits.task_complexity)
            .bind(state.scores.clone())
            .bind(state.interval_turns.clone())
            .bind(state.last_message_at)
            .run()
            .await?;
        Ok(state)
    }

    /// Stores the fields that can change. Does not recreate a deleted state.
    pub async fn store(&self, c: &mut Conn) -> Result<(), DbError> {
        c.q(
            "update adaptation_states set mood = $2, user_skill = $3, task_complexity = $4, last_event = $5, scores = $6, turns = $7, \
             event_turn = $8, interval_turns = $9, last_message_at = $10 where id = $1",
        )
        .bind(self.id)
        .bind(self.traits.mood)
        .bind(self.traits.user_skill)
        .bind(self.traits.task_complexity)
        .bind(self.last_event.clone())
        .bind(self.scores.clone())
        .bind(self.turns)
        .bind(self.event_turn)
        .bind(self.interval_turns.clone())
        .bind(self.last_message_at)
        .run()
        .await?;
        Ok(())
    }
}

/// Deletes the state of a person with an agent in a conversation. Returns true if there was one.
pub(super) async fn delete(
    c: &mut Conn,
    workspace: WorkspaceId,
    user: UserId,
    agent: AgentId,
    conversation: Uuid,
) -> Result<bool, DbError> {
    let deleted = c
        .q("delete from adaptation_states where conversation_id = $1 and agent_id = $2 and user_id = $3 and workspace_id = $4")
        .bind(conversation)
        .bind(agent)
        .bind(user)
        .bind(workspace)
        .run()
        .await?;
    Ok(deleted > 0)
}

/// Deletes all states of a person in a workspace, and returns their number.
pub(super) async fn delete_all(
    c: &mut Conn,
    workspace: WorkspaceId,
    user: UserId,
) -> Result<u64, DbError> {
    c.q("delete from adaptation_states where workspace_id = $1 and user_id = $2")
        .bind(workspace)
        .bind(user)
        .run()
        .await
}

/// Lists the states of a person in a workspace, newest first, starting after the state `before`.
pub(super) async fn list(
    c: &mut Conn,
    workspace: WorkspaceId,
    user: UserId,
    before: Option<Uuid>,
    limit: i64,
) -> Result<Vec<StoredState>, DbError> {
    c.q(state_sql!(
        "where workspace_id = $1 and user_id = $2 and last_message_at > $3 and id < $4 order by id desc limit $5"
    ))
    .bind(workspace)
    .bind(user)
    .bind(expiry())
    .bind(before.unwrap_or(Uuid::max()))
    .bind(limit)
    .all()
    .await
}

/// Deletes expired states, a few per transaction.
///
/// # Errors
/// Only database errors.
pub async fn delete_expired(db: &Db) -> Result<(), DbError> {
    let has_some = db
        .delete_expired(
            expiry(),
            "select exists (select 1 from adaptation_states where last_message_at <= $1)",
            "delete from adaptation_states where id in (select id from adaptation_states where last_message_at <= $1 \
             order by last_message_at limit $2)",
        )
        .await?;
    if has_some {
        db.scrub().await?;
    }
    Ok(())
}

constant! { pub AdaptationStateObject = "adaptation_state" }

/// Adaptation state of an agent for the caller in a conversation. Nobody else can read it.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
pub struct AdaptationState {
    #[schema(inline)]
    pub object: AdaptationStateObject,
    pub agent_id: AgentId,
    pub thread_id: ThreadId,
    pub fork_id: Option<ForkId>,
    pub mood: Mood,
    pub user_skill: UserSkill,
    pub task_complexity: TaskComplexity,
    pub last_event: Option<LastEvent>,
    /// Scores of the caller's newest messages to the agent, oldest first.
    pub scores: Vec<MessageScore>,
}

impl From<StoredState> for AdaptationState {
    fn from(state: StoredState) -> Self {
        let scores = state.scores.0.into_iter().map(|score| score.shown);
        Self {
            object: AdaptationStateObject,
            agent_id: state.agent_id,
            thread_id: state.thread_id,
            fork_id: state.fork_id,
            mood: state.traits.mood,
            user_skill: state.traits.user_skill,
            task_complexity: state.traits.task_complexity,
            last_event: state.last_event.map(|event| event.0),
            scores: scores.collect(),
        }
    }
}
