//! HTTP routes for agents: profiles, versions, files, skills, policies, reply styles, adaptation, usage, budgets, models, workflows, and the context of their tasks.

use axum::{
    Json,
    extract::{FromRequestParts, RawPathParams},
    http::{StatusCode, header, request::Parts},
    response::{IntoResponse, Response},
};
use serde::Serialize;
use utoipa_axum::router::OpenApiRouter;

use crate::{
    agents::{AgentError, profiles::Agent},
    auth::{Actor, AuthError, Caller, WorkspaceCaller},
    db::{Conn, Db},
    http::{ApiError, ErrorCode, page::List},
    ids::{AgentId, WorkspaceId},
    registry,
    replies::utility::Utility,
    server::{State, caller::workspace_of},
};

mod adaptation;
mod budgets;
mod drafts;
mod embeddings;
mod files;
mod model_connection;
mod model_test;
mod personas;
mod policies;
mod profiles;
mod prompt_profiles;
mod replays;
mod rpc;
mod runs;
mod skills;
mod sources;
mod task_context;
mod usage;
mod versions;
mod workflows;
mod workspace_context;

type St = axum::extract::State<State>;

pub fn router() -> OpenApiRouter<State> {
    OpenApiRouter::new()
        .merge(profiles::router())
        .merge(versions::router())
        .merge(files::router())
        .merge(adaptation::router())
        .merge(personas::router())
        .merge(skills::router())
        .merge(drafts::router())
        .merge(policies::router())
        .merge(prompt_profiles::router())
        .merge(task_context::router())
        .merge(workspace_context::router())
        .merge(replays::router())
        .merge(rpc::router())
        .merge(usage::router())
        .merge(budgets::router())
        .merge(model_connection::router())
        .merge(embeddings::router())
        .merge(model_test::router())
        .merge(workflows::router())
        .merge(runs::router())
}

/// Returns an object with its version as the `ETag`.
pub(super) fn tagged(status: StatusCode, version: i64, body: &impl Serialize) -> Response {
    let etag = format!("\"{version}\"");
    (status, [(header::ETAG, etag)], Json(body)).into_response()
}

/// Parses the cursor of a version list into a version number.
///
/// # Errors
/// 400 if the cursor is not a version number.
fn version_before(cursor: Option<String>) -> Result<Option<i64>, ApiError> {
    cursor
        .filter(|cursor| !cursor.is_empty())
        .map(|cursor| {
            let version = cursor.parse::<i64>().ok();
            let is_ours = |n: &i64| *n > 0 && n.to_string() == cursor;
            version.filter(is_ours).ok_or_else(|| {
                let text = "the cursor does not belong to a list of versions: use `next_cursor` of the previous page".to_owned();
                ApiError::invalid(ErrorCode::InvalidCursor, text, "cursor")
            })
        })
        .transpose()
}

/// Builds a page of versions from up to `limit + 1` rows.
fn list_of_versions<T>(rows: Vec<T>, limit: i64, version: impl Fn(&T) -> i64) -> List<T> {
    let mut list = List::new(rows, limit, false, |row| version(row).to_string());
    let next = list.last_id.take().filter(|_| list.has_more);
    // Version numbers are not IDs that a client can use for paging.
    list.first_id = None;
    list.continued_at(next)
}

/// Returns access to the workspace's small model, for a request that waits for the answer. `otherwise` is the alternative that the
/// error message suggests.
///
/// # Errors
/// `no_model` if the workspace has no language model.
async fn utility_of(
    state: &State,
    workspace: WorkspaceId,
    otherwise: &str,
) -> Result<Utility, ApiError> {
    let provider = state.providers.of(workspace).await?;
    if provider.is_offline() {
        let text = format!("this workspace has no language model: {otherwise}");
        return Err(ApiError::unprocessable(ErrorCode::NoModel, text));
    }
    Ok(Utility {
        db: state.db.clone(),
        provider,
        calls: state.calls.clone(),
        delays: state.config.retry_delays.clone(),
    })
}

/// Returns the error 503, for a model that did not respond or whose response is unusable.
fn no_answer(text: &str) -> ApiError {
    let (status, code) = (StatusCode::SERVICE_UNAVAILABLE, ErrorCode::ModelUnavailable);
    ApiError::new(status, code, text.to_owned())
}

async fn has_program_runner(state: &State, workspace: WorkspaceId) -> bool {
    let found = match state.db.read().await {
        Ok(mut c) => registry::has_program_runner(&mut c, workspace).await,
        Err(e) => Err(e),
    };
    found.unwrap_or_else(|e| {
        // A change to the agent can be stored already, so the request must not fail here.
        tracing::warn!(error = %e, "an agent is returned as if no runner ran its code");
        false
    })
}

/// Adds the model that the agent actually uses, and whether the agent can run code.
async fn add_runtime(state: &State, agent: &mut Agent) {
    if agent.needs_code_runner()
        && (state.registry.runner.is_some() || has_program_runner(state, agent.workspace_id).await)
    {
        agent.permit_code();
    }
    match state.providers.of(agent.workspace_id).await {
        Ok(provider) => {
            if let Some(model) = provider.override_model() {
                agent.override_model(model);
            }
            agent.summary.set_effective_model(provider.as_ref()).await;
        }
        // The change is already stored, so the request must not fail here.
        Err(e) => {
            tracing::warn!(error = %e, "an agent is returned without its effective model");
        }
    }
}

/// Returns the complete agent with its version as the `ETag`.
async fn answer(state: &State, status: StatusCode, mut agent: Agent) -> Response {
    add_runtime(state, &mut agent).await;
    tagged(status, agent.summary.version, &agent)
}

/// The agent that a route addresses by `{id}` (its ID, or `main`), and the caller in the agent's workspace. `enter` and `write` check
/// whether the caller can see the agent.
#[derive(Clone)]
struct AgentRef {
    member: WorkspaceCaller,
    reference: String,
}

impl utoipa::PartialSchema for AgentRef {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        utoipa::openapi::schema::ObjectBuilder::new()
            .schema_type(utoipa::openapi::schema::Type::String)
            .description(Some(
                "ID of an agent, or `main` for the default agent of the workspace",
            ))
            .into()
    }
}

/// Reports an agent of another workspace as absent.
fn hide(error: AgentError) -> AgentError {
    match error {
        AgentError::Auth(AuthError::WorkspaceNotFound) => AgentError::NotFound,
        other => other,
    }
}

/// # Errors
/// `NotFound` for the ID of an agent that does not exist or that the actor cannot see.
async fn check_visible(c: &mut Conn, actor: &Actor<'_>, reference: &str) -> Result<(), AgentError> {
    let Ok(id) = reference.parse() else {
        return Ok(());
    };
    if crate::agents::profiles::is_visible(c, actor, id).await? {
        Ok(())
    } else {
        Err(AgentError::NotFound)
    }
}

impl AgentRef {
    /// # Errors
    /// `NotFound` for an agent that belongs to another workspace or that the caller cannot see, even if the caller also lacks a
    /// scope.
    async fn enter(&self, c: &mut Conn) -> Result<Actor<'_>, AgentError> {
        let entered = self.member.enter(c).await;
        let actor = entered.map_err(|e| hide(e.into()))?;
        check_visible(c, &actor, &self.reference).await?;
        Ok(actor)
    }

    /// Like `WorkspaceCaller::write`, but the command also receives the reference to the agent.
    ///
    /// # Errors
    /// Same as `enter`, or an error from the command.
    async fn write<T, F>(self, db: &Db, command: F) -> Result<T, AgentError>
    where
        T: Send + 'static,
        F: AsyncFn(&mut Conn, &Actor<'_>, &str) -> Result<T, AgentError> + Send + 'static,
    {
        let Self { member, reference } = self;
        let command = async move |c: &mut Conn, actor: &Actor<'_>| {
            check_visible(c, actor, &reference).await?;
            command(c, actor, &reference).await
        };
        member.write(db, command).await.map_err(hide)
    }
}

impl FromRequestParts<State> for AgentRef {
    type Rejection = ApiError;

    /// # Errors
    /// `NotFound` for an agent that does not exist; 400 for an invalid ID.
    async fn from_request_parts(parts: &mut Parts, state: &State) -> Result<Self, ApiError> {
        let caller = Caller::from_request_parts(parts, state).await?;
        let reference = RawPathParams::from_request_parts(parts, state)
            .await
            .ok()
            .and_then(|path| {
                let named = |(name, value): (&str, &str)| (name == "id").then(|| value.to_owned());
                path.iter().find_map(named)
            })
            .unwrap_or_default();
        let workspace = if reference == "main" {
            workspace_of(state, &parts.headers, &caller).await?
        } else {
            let id: AgentId = reference.parse()?;
            let mut c = state.db.read().await?;
            let row: Option<(WorkspaceId,)> = c
                .q("select workspace_id from agents where id = $1")
                .bind(id)
                .opt()
                .await?;
            row.ok_or(AgentError::NotFound)?.0
        };
        let member = WorkspaceCaller { caller, workspace };
        Ok(Self { member, reference })
    }
}
