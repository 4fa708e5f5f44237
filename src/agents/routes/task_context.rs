//! What a task's model was sent, over HTTP.

use axum::Json;
use serde::Serialize;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::St;
use crate::{
    agents::{
        manifest::{self, AskedBy, AttemptRecord, LeftOut, Manifest},
        profiles,
        prompt::{Author, Part, Source, estimate_tokens},
    },
    auth::{Caller, Scope},
    chat,
    http::{ApiError, State, extract::Path},
    ids::{MessageId, TaskId},
};

/// Characters of a message that "What it saw" quotes.
const EXCERPT_CHARS: usize = 140;

pub(super) fn router() -> OpenApiRouter<State> {
    OpenApiRouter::new().routes(routes!(get_task_context))
}

#[derive(Serialize, utoipa::ToSchema)]
struct SystemSeen {
    /// Empty when it is `hidden`.
    text: String,
    /// It is that of an agent that one may not see.
    hidden: bool,
    /// Estimated.
    tokens: u64,
}

#[derive(Serialize, utoipa::ToSchema)]
struct TurnSeen {
    /// `user` or `assistant`.
    role: String,
    content: String,
}

#[derive(Serialize, utoipa::ToSchema)]
struct SeenAuthor {
    /// `human` or `agent`.
    #[serde(rename = "type")]
    kind: &'static str,
    id: String,
    name: String,
}

#[derive(Serialize, utoipa::ToSchema)]
struct MessageSeen {
    message_id: MessageId,
    author: SeenAuthor,
    /// `user` or `assistant`.
    role: String,
    /// Estimated.
    tokens: u64,
    /// How it begins, as it was sent.
    excerpt: String,
    /// Deleted since; its text is no longer kept.
    deleted: bool,
}

#[derive(Serialize, utoipa::ToSchema)]
struct Segment {
    /// `system`, `messages`, `trigger` or `summary`.
    name: &'static str,
    tokens: u64,
}

/// In tokens.
#[derive(Serialize, utoipa::ToSchema)]
struct Budget {
    context_window: u64,
    /// Kept free for the answer.
    reserve: u64,
    used: u64,
    segments: Vec<Segment>,
}

/// Exactly what a task's model was sent.
#[derive(Serialize, utoipa::ToSchema)]
struct TaskContext {
    task_id: TaskId,
    attempt: i64,
    /// The model that was called.
    model: String,
    asked_by: AskedBy,
    system: SystemSeen,
    /// The conversation as it was sent.
    turns: Vec<TurnSeen>,
    /// The messages in it, in order; the one that asked is last.
    messages: Vec<MessageSeen>,
    left_out: Vec<LeftOut>,
    budget: Budget,
    attempts: Vec<AttemptRecord>,
}

fn role_text(role: crate::model::Role) -> String {
    match role {
        crate::model::Role::User => "user",
        crate::model::Role::Assistant => "assistant",
    }
    .to_owned()
}

fn seen(part: &Part) -> Option<MessageSeen> {
    let (message_id, author) = match &part.source {
        Source::Message { message_id, author } | Source::Trigger { message_id, author } => {
            (*message_id, author)
        }
        _ => return None,
    };
    let author = match author {
        Author::Human { id, name } => SeenAuthor {
            kind: "human",
            id: id.to_string(),
            name: name.clone(),
        },
        Author::Agent { id, name } => SeenAuthor {
            kind: "agent",
            id: id.to_string(),
            name: name.clone(),
        },
    };
    Some(MessageSeen {
        message_id,
        author,
        role: role_text(part.role),
        tokens: part.tokens,
        excerpt: part.text.chars().take(EXCERPT_CHARS).collect(),
        deleted: part.text == manifest::DELETED,
    })
}

fn show(task: TaskId, manifest: Manifest, attempts: Vec<AttemptRecord>) -> TaskContext {
    let prompt = &manifest.prompt;
    let system_tokens = estimate_tokens(&prompt.system);
    let (mut messages, mut trigger, mut summary) = (0, 0, 0);
    for part in &prompt.parts {
        match part.source {
            Source::Trigger { .. } | Source::Requester => trigger += part.tokens,
            Source::Summary => summary += part.tokens,
            Source::Message { .. } | Source::Dive { .. } | Source::LeftOut => {
                messages += part.tokens;
            }
        }
    }
    let segments = [
        ("system", system_tokens),
        ("summary", summary),
        ("messages", messages),
        ("trigger", trigger),
    ]
    .into_iter()
    .filter(|(_, tokens)| *tokens > 0)
    .map(|(name, tokens)| Segment { name, tokens })
    .collect();
    TaskContext {
        task_id: task,
        attempt: manifest.attempt,
        turns: prompt
            .turns()
            .into_iter()
            .map(|t| TurnSeen {
                role: role_text(t.role),
                content: t.content,
            })
            .collect(),
        messages: prompt.parts.iter().filter_map(seen).collect(),
        budget: Budget {
            context_window: manifest.context_window,
            reserve: manifest.reserve,
            used: prompt.tokens(),
            segments,
        },
        system: SystemSeen {
            text: manifest.prompt.system,
            hidden: false,
            tokens: system_tokens,
        },
        model: manifest.model,
        asked_by: manifest.asked_by,
        left_out: manifest.left_out,
        attempts,
    }
}

/// What the model was sent for a task, and how its calls went
#[utoipa::path(get, path = "/v1/tasks/{id}/context", tag = "tasks", params(("id" = TaskId, Path)), responses((status = 200, body = TaskContext)))]
async fn get_task_context(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<TaskId>,
) -> Result<Json<TaskContext>, ApiError> {
    let mut c = state.db.read().await?;
    let task = chat::routes::visible_task(&mut c, &caller, id).await?;
    let actor = caller.enter(&mut c, task.workspace_id).await?;
    let found = manifest::find(&mut c, id).await?;
    let (manifest, attempts) = found.ok_or_else(|| {
        ApiError::not_found(
            "context_not_found",
            "the model has not been called for this task yet",
        )
    })?;
    let mut shown = show(id, manifest, attempts);
    let is_hidden = match task.agent_id {
        Some(agent) => profiles::is_hidden(&mut c, &actor, agent).await?,
        None => false,
    };
    // The text holds the agent's instructions.
    if is_hidden || !actor.scopes.has(Scope::AgentsRead) {
        shown.system.text.clear();
        shown.system.hidden = true;
    }
    Ok(Json(shown))
}
