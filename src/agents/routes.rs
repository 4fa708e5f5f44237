//! Agents, and what their tasks saw, over HTTP.

use std::collections::BTreeMap;

use axum::{
    Json,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Serialize;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    manifest::{self, AskedBy, AttemptRecord, LeftOut, Manifest},
    profiles::{self, Agent, AgentPatch, AgentSummary, FirstVersion, NewAgent},
    prompt::{Author, Part, Source, estimate_tokens},
};
use crate::{
    auth::{Actor, Caller, Scope},
    chat,
    db::Conn,
    http::{
        ApiError, State,
        extract::{Body, IfMatch, Path, Query},
        page::{List, PageQuery},
    },
    ids::{AgentId, MessageId, TaskId},
};

type St = axum::extract::State<State>;

/// Characters of a message that "What it saw" quotes.
const EXCERPT_CHARS: usize = 140;

pub fn router() -> OpenApiRouter<State> {
    OpenApiRouter::new()
        .routes(routes!(list_agents, create_agent))
        .routes(routes!(get_agent, patch_agent))
        .routes(routes!(get_task_context))
}

/// The query of a list of agents; `metadata.KEY=VALUE`, any number of times, filters too.
#[derive(Debug, Default, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
struct AgentsQuery {
    /// 1 to 100; 20 by default.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 100)]
    limit: Option<String>,
    after: Option<String>,
    before: Option<String>,
    /// `active`, `inactive` or `archived`.
    status: Option<String>,
    /// The exact name.
    name: Option<String>,
    #[param(ignore)]
    metadata: BTreeMap<String, String>,
}

impl AgentsQuery {
    /// # Errors
    /// 400 for a parameter that does not exist.
    fn parse(pairs: Vec<(String, String)>) -> Result<Self, ApiError> {
        let mut query = Self::default();
        for (name, value) in pairs {
            let field = match name.as_str() {
                "limit" => &mut query.limit,
                "after" => &mut query.after,
                "before" => &mut query.before,
                "status" => &mut query.status,
                "name" => &mut query.name,
                other => {
                    let Some(key) = other
                        .strip_prefix("metadata.")
                        .filter(|key| !key.is_empty())
                    else {
                        let text = format!(
                            "`{other}` is no parameter of this list: use limit, after, before, status, name or metadata.KEY"
                        );
                        return Err(ApiError::invalid("invalid_query", text, other));
                    };
                    query.metadata.insert(key.to_owned(), value);
                    continue;
                }
            };
            *field = Some(value).filter(|value| !value.is_empty());
        }
        Ok(query)
    }
}

/// Agents of the workspace, oldest first
#[utoipa::path(get, path = "/v1/agents", tag = "agents", params(AgentsQuery), responses((status = 200, body = List<AgentSummary>)))]
async fn list_agents(
    axum::extract::State(state): St,
    actor: Actor,
    Query(pairs): Query<Vec<(String, String)>>,
) -> Result<Json<List<AgentSummary>>, ApiError> {
    actor.require(Scope::AgentsRead)?;
    let query = AgentsQuery::parse(pairs)?;
    let page = PageQuery {
        limit: query.limit,
        after: query.after,
        before: query.before,
    }
    .parse::<AgentId>(20)?;
    if let Some(status) = &query.status
        && !["active", "inactive", "archived"].contains(&status.as_str())
    {
        let text = format!("`{status}` is no status: use active, inactive or archived");
        return Err(ApiError::invalid("invalid_status", text, "status"));
    }
    let filter = profiles::Filter {
        status: query.status,
        name: query.name,
        metadata: query.metadata,
    };
    let mut c = state.db.read().await?;
    let rows = profiles::list_agents(
        &mut c,
        actor.workspace,
        &filter,
        (page.after, page.before),
        page.limit + 1,
    )
    .await?;
    Ok(Json(List::new(
        rows,
        page.limit,
        page.before.is_some(),
        |agent: &AgentSummary| agent.id.to_string(),
    )))
}

/// The whole agent, with its version as `ETag`.
fn answer(status: StatusCode, agent: &Agent) -> Response {
    let etag = format!("\"{}\"", agent.summary.version);
    (status, [(header::ETAG, etag)], Json(agent)).into_response()
}

/// Make an agent
#[utoipa::path(post, path = "/v1/agents", tag = "agents", request_body = NewAgent, responses((status = 201, body = Agent)))]
async fn create_agent(
    axum::extract::State(state): St,
    actor: Actor,
    Body(form): Body<NewAgent>,
) -> Result<Response, ApiError> {
    actor.require(Scope::AgentsWrite)?;
    let (name, mentionable, profile) = form.into_profile()?;
    let first = FirstVersion {
        name,
        status: "active",
        mentionable,
        profile,
        created_by: Some(actor.user),
    };
    let key = actor.workspace.0;
    let agent = state
        .db
        .write(key, async move |c: &mut Conn| {
            profiles::create_agent(c, &actor, &first).await
        })
        .await?;
    Ok(answer(StatusCode::CREATED, &agent))
}

/// The workspace of an agent that is named by id: the agent's; of `main`: the request's.
async fn actor_for(
    state: &State,
    headers: &axum::http::HeaderMap,
    caller: &Caller,
    reference: &str,
) -> Result<Actor, ApiError> {
    let mut c = state.db.read().await?;
    if reference != "main" {
        let id: AgentId = reference.parse()?;
        let row: Option<(crate::ids::WorkspaceId,)> = c
            .q("select workspace_id from agents where id = $1")
            .bind(id)
            .opt()
            .await?;
        let workspace = row.ok_or(super::AgentError::NotFound)?.0;
        return Ok(caller
            .enter(&mut c, workspace)
            .await
            .map_err(|_| super::AgentError::NotFound)?);
    }
    drop(c);
    let workspace = crate::http::extract::workspace_of(state, headers, caller).await?;
    Ok(caller.enter(&mut state.db.read().await?, workspace).await?)
}

/// An agent; `main` is the workspace's default
#[utoipa::path(get, path = "/v1/agents/{id}", tag = "agents", params(("id" = String, Path)), responses((status = 200, body = Agent)))]
async fn get_agent(
    axum::extract::State(state): St,
    headers: axum::http::HeaderMap,
    caller: Caller,
    Path(reference): Path<String>,
) -> Result<Response, ApiError> {
    let actor = actor_for(&state, &headers, &caller, &reference).await?;
    actor.require(Scope::AgentsRead)?;
    let mut c = state.db.read().await?;
    Ok(answer(
        StatusCode::OK,
        &profiles::get_by_reference(&mut c, actor.workspace, &reference).await?,
    ))
}

/// Change an agent; each change is a version
#[utoipa::path(patch, path = "/v1/agents/{id}", tag = "agents", params(("id" = String, Path), ("If-Match" = Option<String>, Header)),
    request_body = AgentPatch, responses((status = 200, body = Agent)))]
async fn patch_agent(
    axum::extract::State(state): St,
    headers: axum::http::HeaderMap,
    caller: Caller,
    Path(reference): Path<String>,
    IfMatch(expected): IfMatch,
    Body(patch): Body<AgentPatch>,
) -> Result<Response, ApiError> {
    let actor = actor_for(&state, &headers, &caller, &reference).await?;
    let key = actor.workspace.0;
    let agent = state
        .db
        .write(key, async move |c: &mut Conn| {
            profiles::patch_agent(c, &actor, &reference, &patch, expected).await
        })
        .await?;
    Ok(answer(StatusCode::OK, &agent))
}

#[derive(Serialize, utoipa::ToSchema)]
struct SystemSeen {
    text: String,
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
    chat::routes::visible_task(&mut c, &caller, id).await?;
    let found = manifest::find(&mut c, id).await?;
    let (manifest, attempts) = found.ok_or_else(|| {
        ApiError::not_found(
            "context_not_found",
            "the model has not been called for this task yet",
        )
    })?;
    Ok(Json(show(id, manifest, attempts)))
}
