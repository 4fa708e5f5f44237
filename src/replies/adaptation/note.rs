//! Processes the question after the reply to it has ended: stores its score, finds the adaptation event, and queues the reflection.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{
    agents::profiles::{AdaptationEvent, Profile, SentimentMethod, SentimentSettings},
    db::{Conn, DbError, Json, now},
    ids::{ChannelId, TaskId},
    realtime::Audience,
    tasks::{Lease, NewTask, Task, TaskKind, TaskTarget, queue},
    time::Timestamp,
};

use super::{
    lexicon::{self, Tone},
    recent, rules,
    state::{
        LastEvent, MessageScore, PromptName, SentimentClass, StateKey, StoredScore, StoredState,
    },
    switches::Allowed,
};

/// Minimum number of negative words for which a neutral message counts as confused.
const CONFUSED_WORDS_MIN: usize = 3;

/// Adaptation of an agent to the requester of a reply; exists only if the workspace, the agent, and the requester allow it.
#[derive(Debug, Clone)]
pub struct Adapting {
    allowed: Allowed,
    /// Sentences for the system prompt; can be empty.
    pub text: String,
}

impl Adapting {
    /// Returns `None` unless the workspace, the agent, and the requester allow adaptation.
    pub async fn find(
        c: &mut Conn,
        key: &StateKey,
        channel: ChannelId,
        profile: &Profile,
    ) -> Result<Option<Self>, DbError> {
        let Some(own) = Allowed::of(profile) else {
            return Ok(None);
        };
        let Some(allowed) = own.current(c, key, channel).await? else {
            return Ok(None);
        };
        let state = StoredState::find(c, key).await?;
        Ok(Some(Self {
            allowed,
            text: state.map_or_else(String::new, |state| state.traits.sentences()),
        }))
    }

    /// Measures the tone of a question, unless a model does so after the reply.
    pub fn note(&self, question: &str, end: ReplyEnd) -> NotedQuestion {
        let is_read_later = |settings: &SentimentSettings| {
            settings.method == SentimentMethod::Llm && end == ReplyEnd::Completed
        };
        let settings = self.allowed.sentiment.as_ref();
        let measured = settings
            .filter(|settings| !is_read_later(settings))
            .map(|_| MeasuredTone::by_lexicon(question));
        NotedQuestion {
            allowed: self.allowed.clone(),
            measured,
            end,
        }
    }
}

/// Way in which a reply ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyEnd {
    Completed,
    /// Completed without a language model, so no reflection follows.
    Offline,
    /// Failed, or completed without text.
    NoReply,
}

/// Tone and length of a message.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct MeasuredTone {
    pub(super) tone: Tone,
    /// Length in UTF-16 code units.
    pub(super) length: i64,
}

impl MeasuredTone {
    pub(super) fn by_lexicon(text: &str) -> Self {
        Self::of(text, lexicon::tone(text))
    }

    pub(super) fn of(text: &str, tone: Tone) -> Self {
        Self {
            tone,
            length: i64::try_from(text.encode_utf16().count()).unwrap_or(i64::MAX),
        }
    }
}

/// The question that an ending reply answers, with its tone.
#[derive(Debug, Clone)]
pub struct NotedQuestion {
    allowed: Allowed,
    /// `None` if the question is not scored, or if a model scores it later.
    measured: Option<MeasuredTone>,
    end: ReplyEnd,
}

/// Options of a `utility` task, in which a model rates the tone of the question that the parent task answered.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct ToneOptions {
    pub(super) state_id: Uuid,
    /// Turn number of the reply.
    pub(super) turn: i64,
}

/// Options of a `reflect` task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ReflectOptions {
    pub(super) state_id: Uuid,
    pub(super) prompt: PromptName,
}

/// Conversation of a task that is to be queued, and the task that causes it.
#[derive(Debug, Clone, Copy)]
pub(super) struct TaskOrigin {
    pub(super) target: TaskTarget,
    pub(super) audience: Audience,
    pub(super) parent: Option<TaskId>,
}

impl TaskOrigin {
    fn of(task: &Task, lease: &Lease) -> Self {
        Self {
            target: lease.target,
            audience: lease.audience,
            parent: Some(task.id),
        }
    }
}

impl NotedQuestion {
    /// Stores the score and queues the follow-up task, in the transaction that ends the reply, if adaptation is still allowed. The
    /// task must have ended.
    ///
    /// # Errors
    /// Only database errors.
    pub async fn store(&self, c: &mut Conn, task: &Task, lease: &Lease) -> Result<(), DbError> {
        let key = StateKey::of(task, &lease.target);
        let allowed = self.allowed.clone();
        let allowed = allowed.current(c, &key, lease.target.channel).await?;
        let asked_at = asked_at(c, task).await?;
        let Some((allowed, asked_at)) = allowed.zip(asked_at) else {
            return Ok(());
        };
        let mut state = StoredState::open(c, &key).await?;
        state.last_message_at = state.last_message_at.max(asked_at);
        if self.end != ReplyEnd::NoReply {
            state.turns += 1;
        }
        let origin = TaskOrigin::of(task, lease);
        let mut event = None;
        match (&allowed.sentiment, &self.measured) {
            (Some(settings), Some(measured)) => {
                event = score(c, &key, &mut state, settings, measured, asked_at).await?;
            }
            (Some(_), None) => {
                // A model rates the tone first; that task then finds the event and queues the reflection.
                state.store(c).await?;
                let options = ToneOptions {
                    state_id: state.id,
                    turn: state.turns,
                };
                insert_task(c, TaskKind::Utility, &key, &origin, &options).await?;
                return Ok(());
            }
            (None, _) => {}
        }
        if self.end == ReplyEnd::Completed {
            let turn = state.turns;
            queue_due(c, &key, &mut state, turn, event, &allowed, &origin).await?;
        }
        state.store(c).await
    }
}

/// Stores a tone that a model rated after the reply, and queues the reflection that is due. `reply` is the task of the reply.
pub(super) async fn store_tone(
    c: &mut Conn,
    reply: &Task,
    lease: &Lease,
    allowed: Allowed,
    options: ToneOptions,
    measured: &MeasuredTone,
) -> Result<(), DbError> {
    let key = StateKey::of(reply, &lease.target);
    let allowed = allowed.current(c, &key, lease.target.channel).await?;
    let asked_at = asked_at(c, reply).await?;
    let state = StoredState::find_same(c, &key, options.state_id).await?;
    let Some(((allowed, asked_at), mut state)) = allowed.zip(asked_at).zip(state) else {
        return Ok(());
    };
    let Some(settings) = &allowed.sentiment else {
        return Ok(());
    };
    let event = score(c, &key, &mut state, settings, measured, asked_at).await?;
    let origin = TaskOrigin::of(reply, lease);
    let turn = options.turn;
    queue_due(c, &key, &mut state, turn, event, &allowed, &origin).await?;
    state.store(c).await
}

/// Time of the question; `None` if the question was deleted.
pub(super) async fn asked_at(c: &mut Conn, task: &Task) -> Result<Option<Timestamp>, DbError> {
    let row: Option<(Timestamp,)> = c
        .q("select created_at from messages where id = $1 and deleted_at is null")
        .bind(task.trigger_message_id)
        .opt()
        .await?;
    Ok(row.map(|row| row.0))
}

/// Adds a score, and returns the adaptation event that it causes. Returns `None` if a newer message was scored first.
async fn score(
    c: &mut Conn,
    key: &StateKey,
    state: &mut StoredState,
    settings: &SentimentSettings,
    measured: &MeasuredTone,
    at: Timestamp,
) -> Result<Option<AdaptationEvent>, DbError> {
    if !add(state, settings, measured, at) {
        return Ok(None);
    }
    let failed = recent::count_failed(c, key).await?;
    let event = rules::event(&state.scores.0, failed, settings);
    if let Some(event) = event {
        state.last_event = Some(Json(LastEvent { event, at: now() }));
    }
    Ok(event)
}

/// Adds a score to the recent ones, in the order of the messages, and returns true if it is the newest. A message that is replied to
/// again is not scored again.
fn add(
    state: &mut StoredState,
    settings: &SentimentSettings,
    measured: &MeasuredTone,
    at: Timestamp,
) -> bool {
    let MeasuredTone { tone, length } = measured;
    let class = SentimentClass::of(
        tone.score,
        settings.frustration_threshold,
        settings.satisfaction_threshold,
    );
    let scores = &mut state.scores.0;
    // Stored times have only millisecond precision.
    let is_known = |score: &StoredScore| score.shown.at.to_text() == at.to_text();
    if !scores.iter().any(is_known) {
        let place = scores.partition_point(|score| score.shown.at.to_text() < at.to_text());
        let score = StoredScore {
            shown: MessageScore {
                score: tone.score,
                intensity: tone.intensity,
                class,
                length: *length,
                at,
            },
            confused: tone.is_confused
                || (class == SentimentClass::Neutral && tone.negative_words >= CONFUSED_WORDS_MIN),
        };
        scores.insert(place, score);
    }
    let surplus = scores.len().saturating_sub(settings.history_window);
    scores.drain(..surplus);
    scores.last().is_some_and(is_known)
}

/// Queues the reflection that is due after the reply in a turn.
async fn queue_due(
    c: &mut Conn,
    key: &StateKey,
    state: &mut StoredState,
    turn: i64,
    event: Option<AdaptationEvent>,
    allowed: &Allowed,
    origin: &TaskOrigin,
) -> Result<(), DbError> {
    let settings = allowed.sentiment.as_ref();
    let presets = settings.map_or(&[][..], |settings| settings.presets.as_slice());
    let Some(due) = rules::due(state, turn, event, presets, allowed.reflection.as_ref()) else {
        return Ok(());
    };
    match due.interval_id {
        Some(id) => {
            state.interval_turns.0.insert(id, turn);
        }
        None => state.event_turn = state.event_turn.max(Some(turn)),
    }
    let options = ReflectOptions {
        state_id: state.id,
        prompt: due.prompt,
    };
    insert_task(c, TaskKind::Reflect, key, origin, &options).await?;
    Ok(())
}

/// Queues a personal background task.
pub(super) async fn insert_task(
    c: &mut Conn,
    kind: TaskKind,
    key: &StateKey,
    origin: &TaskOrigin,
    options: &impl Serialize,
) -> Result<Option<Task>, DbError> {
    let target = origin.target;
    let new = NewTask {
        parent: origin.parent,
        options: serde_json::to_value(options).ok(),
        ..NewTask::new(key.workspace, kind, key.user, target)
    };
    let task = queue::insert(c, &new, None).await?;
    if let Some(task) = &task {
        queue::announce(c, task, origin.audience).await?;
    }
    Ok(task)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;
    use crate::{
        agents::profiles::Sentiment,
        ids::{AgentId, ThreadId, UserId, WorkspaceId},
    };

    fn state() -> StoredState {
        let key = StateKey {
            workspace: WorkspaceId::new(),
            user: UserId::new(),
            agent: AgentId::new(),
            thread: ThreadId::new(),
            fork: None,
        };
        StoredState::new(&key, Timestamp::EPOCH)
    }

    fn settings(fields: serde_json::Value) -> SentimentSettings {
        let sentiment: Sentiment = serde_json::from_value(fields).unwrap();
        sentiment.settings().unwrap()
    }

    fn measured(negative_words: usize) -> MeasuredTone {
        MeasuredTone {
            tone: Tone {
                score: 0.0,
                intensity: 0.0,
                negative_words,
                is_confused: false,
            },
            length: 5,
        }
    }

    #[test]
    fn only_the_newest_scores_are_kept_and_a_message_is_scored_once() {
        let settings = settings(json!({"enabled": true, "history_window": 3}));
        let mut state = state();
        let at = |n: u64| Timestamp::EPOCH + Duration::from_secs(n);
        // The reply to the second message ends last; then the first message is scored again after its score has been dropped.
        for (n, is_newest) in [
            (1, true),
            (3, true),
            (3, true),
            (4, true),
            (5, true),
            (2, false),
            (1, false),
        ] {
            let newest = add(&mut state, &settings, &measured(0), at(n));
            assert_eq!(newest, is_newest, "{n}");
        }
        let times: Vec<Timestamp> = state.scores.0.iter().map(|score| score.shown.at).collect();
        assert_eq!(times, [at(3), at(4), at(5)]);
        add(&mut state, &settings, &measured(0), at(7));
        add(&mut state, &settings, &measured(0), at(6));
        let times: Vec<Timestamp> = state.scores.0.iter().map(|score| score.shown.at).collect();
        assert_eq!(times, [at(5), at(6), at(7)]);
    }

    #[test]
    fn a_neutral_message_with_three_negative_words_counts_as_confused() {
        let settings = settings(json!({"enabled": true}));
        for (words, wanted) in [(2, false), (3, true)] {
            let mut state = state();
            add(&mut state, &settings, &measured(words), Timestamp::EPOCH);
            assert_eq!(state.scores.0[0].confused, wanted, "{words}");
        }
    }

    #[test]
    fn options_are_read_as_they_were_stored() {
        for prompt in [
            PromptName::BuiltIn,
            PromptName::Metaprompt("calm".to_owned()),
            PromptName::Preset(crate::agents::profiles::SentimentPreset::ErrorRecovery),
        ] {
            let options = ReflectOptions {
                state_id: Uuid::now_v7(),
                prompt,
            };
            let stored = serde_json::to_value(&options).unwrap();
            let read: ReflectOptions = serde_json::from_value(stored).unwrap();
            assert_eq!(read, options);
        }
    }
}
