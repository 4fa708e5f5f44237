//! Reads a replay.

use serde::Serialize;

use crate::{
    auth::{AuthError, Caller, Scope},
    chat::ChatError,
    db::{Conn, Json, is_in_visible_channel, now},
    ids::{TaskId, WorkspaceId},
    tasks::{TaskError, TaskInput, TaskStatus, TokenUsage},
};

use super::{CaseAnswer, SkipReason, WouldCall, store::KEPT};

/// A reply as it was posted.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct ReplayBefore {
    /// Null if the reply has since been deleted.
    pub text: Option<String>,
    pub model: Option<String>,
    /// Total number of tokens used by all model calls for the reply.
    pub tokens: i64,
    /// Run time of the reply's task in milliseconds; 0 if unknown.
    pub ms: i64,
}

/// A reply that was written with the draft.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct ReplayAfter {
    /// Text of the reply, or the text before a tool call. Null after an error, or if a message of the prompt has since been deleted.
    pub text: Option<String>,
    /// The first tool call, which was not run.
    pub would_call: Option<WouldCall>,
    pub model: Option<String>,
    /// Total number of tokens used by all model calls for the case.
    pub tokens: i64,
    /// Run time of the case in milliseconds.
    pub ms: i64,
    pub error: Option<TaskError>,
}

#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct ReplayCase {
    /// Task of the reply.
    pub task_id: TaskId,
    /// Status of the case.
    pub status: TaskStatus,
    /// The trigger message without the mention; null if it has since been deleted.
    pub asked: Option<String>,
    pub before: ReplayBefore,
    /// The new reply; null until the case has completed or failed.
    pub after: Option<ReplayAfter>,
    /// True if parts of the prompt were left out because they belong to other people.
    pub partial: bool,
}

/// A reply that was not written again.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct SkippedReply {
    /// Task of the reply.
    pub task_id: TaskId,
    #[schema(inline)]
    pub reason: SkipReason,
}

/// The most recent replies of an agent, compared with replies written with a draft.
#[derive(Debug, Clone, Default, Serialize, utoipa::ToSchema)]
pub struct Replay {
    /// Newest reply first.
    pub cases: Vec<ReplayCase>,
    pub skipped: Vec<SkippedReply>,
}

#[derive(sqlx::FromRow)]
struct Row {
    task_id: TaskId,
    status: TaskStatus,
    is_readable: bool,
    skip_reason: Option<SkipReason>,
    is_partial: bool,
    asked: Option<Json<TaskInput>>,
    is_asked: bool,
    before_text: Option<String>,
    before_usage: Option<Json<TokenUsage>>,
    before_ms: Option<i64>,
    answer: Option<String>,
    usage: Option<Json<TokenUsage>>,
    ms: i64,
    error: Option<Json<TaskError>>,
}

/// Returns the model name and the total number of tokens.
fn used(usage: Option<&Json<TokenUsage>>) -> (Option<String>, i64) {
    let Some(Json(usage)) = usage else {
        return (None, 0);
    };
    let tokens = usage.input_tokens.saturating_add(usage.output_tokens);
    (Some(usage.model.clone()), tokens)
}

impl Row {
    fn skipped(&self) -> Option<SkipReason> {
        if self.is_readable {
            self.skip_reason
        } else {
            Some(SkipReason::NotReadable)
        }
    }

    fn case(self) -> ReplayCase {
        let (model, tokens) = used(self.before_usage.as_ref());
        let before = ReplayBefore {
            text: self.before_text,
            model,
            tokens,
            ms: self.before_ms.unwrap_or_default(),
        };
        let has_ended = matches!(self.status, TaskStatus::Completed | TaskStatus::Failed);
        let answer: Option<CaseAnswer> = self
            .answer
            .and_then(|answer| serde_json::from_str(&answer).ok());
        let (text, would_call) = answer.map_or((None, None), |answer| {
            (Some(answer.text), answer.would_call)
        });
        let (model, tokens) = used(self.usage.as_ref());
        let after = ReplayAfter {
            text,
            would_call,
            model,
            tokens,
            ms: self.ms,
            error: self.error.map(|error| error.0),
        };
        ReplayCase {
            task_id: self.task_id,
            status: self.status,
            asked: self
                .asked
                .filter(|_| self.is_asked)
                .map(|input| input.0.prompt),
            before,
            after: has_ended.then_some(after),
            partial: self.is_partial,
        }
    }
}

/// Returns the workspace of one of the caller's replays.
///
/// # Errors
/// `TaskNotFound` for another person's replay or one that has expired, or any error from `Actor::require`.
pub async fn own_replay(
    c: &mut Conn,
    caller: &Caller,
    id: TaskId,
) -> Result<WorkspaceId, ChatError> {
    let found: Option<(WorkspaceId,)> = c
        .q("select workspace_id from replays where task_id = $1 and user_id = $2 and created_at > $3")
        .bind(id)
        .bind(caller.user)
        .bind(now() - KEPT)
        .opt()
        .await?;
    let (workspace,) = found.ok_or(ChatError::TaskNotFound)?;
    let actor = caller.enter(c, workspace).await.map_err(|e| match e {
        AuthError::WorkspaceNotFound => ChatError::TaskNotFound,
        other => other.into(),
    })?;
    actor.require(Scope::ChatRead)?;
    Ok(workspace)
}

/// Returns one of the caller's replays. Replies in conversations that the caller can no longer read are listed as skipped.
///
/// # Errors
/// Same as `own_replay`.
pub async fn get_replay(c: &mut Conn, caller: &Caller, id: TaskId) -> Result<Replay, ChatError> {
    own_replay(c, caller, id).await?;
    let rows: Vec<Row> = c
        .q(concat!(
            "select k.reply_task_id as task_id, t.status, k.skip_reason, k.is_partial, ",
            is_in_visible_channel!("t.channel_id", "$2"),
            " as is_readable, r.input as asked, q.id is not null as is_asked, m.content as before_text, r.token_usage as before_usage, \
             r.run_ms as before_ms, x.text as answer, t.token_usage as usage, t.run_ms as ms, t.error \
             from replay_cases k join tasks t on t.id = k.task_id left join tasks r on r.id = k.reply_task_id \
             left join messages q on q.id = r.trigger_message_id and q.deleted_at is null \
             left join messages m on m.id = r.reply_message_id and m.deleted_at is null \
             left join context_texts x on x.id = k.text_id and x.hash is not null \
             where k.replay_id = $1 order by k.reply_task_id desc"
        ))
        .bind(id)
        .bind(caller.user)
        .all()
        .await?;
    let mut replay = Replay::default();
    for row in rows {
        match row.skipped() {
            Some(reason) => replay.skipped.push(SkippedReply {
                task_id: row.task_id,
                reason,
            }),
            None => replay.cases.push(row.case()),
        }
    }
    Ok(replay)
}
