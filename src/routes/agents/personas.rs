//! HTTP routes for personas.

use axum::{Json, http::StatusCode, response::Response};
use serde::{Deserialize, Serialize};
use utoipa_axum::router::OpenApiRouter;

use super::{St, list_of_versions, no_answer, tagged, utility_of, version_before};
use crate::{
    agents::{
        AgentError,
        personas::{
            self, Filter, Persona, PersonaForm, PersonaObject, PersonaPatch, PersonaVersion,
            PipelineStatus,
        },
    },
    auth::{Actor, AuthError, Caller, Scope, WorkspaceCaller},
    db::Conn,
    http::{
        ApiError,
        extract::{Body, IfMatch, NoFields, Path, Query},
        page::{Limit, List, PageQuery},
        routing::routes,
    },
    ids::PersonaId,
    replies::persona,
    responses::ResponseError,
    server::{State, caller::FreeDiskSpace},
    tasks::queue::tenancy,
};

pub(super) fn router() -> OpenApiRouter<State> {
    OpenApiRouter::new()
        .routes(routes!(list_personas, create_persona))
        .routes(routes!(
            get_persona,
            put_persona,
            patch_persona,
            delete_persona
        ))
        .routes(routes!(duplicate_persona))
        .routes(routes!(list_persona_versions))
        .routes(routes!(roll_back_persona))
        .routes(routes!(compress_persona))
}

/// Returns the caller as a member of the persona's workspace.
async fn member_of(
    c: &mut Conn,
    caller: Caller,
    id: PersonaId,
) -> Result<WorkspaceCaller, AgentError> {
    let workspace = personas::workspace_of(c, id).await?;
    let workspace = workspace.ok_or(AgentError::PersonaNotFound)?;
    Ok(WorkspaceCaller { caller, workspace })
}

/// Reports a persona of another workspace as absent.
fn hide(error: AgentError) -> AgentError {
    match error {
        AgentError::Auth(AuthError::WorkspaceNotFound) => AgentError::PersonaNotFound,
        other => other,
    }
}

async fn enter<'a>(c: &mut Conn, member: &'a WorkspaceCaller) -> Result<Actor<'a>, AgentError> {
    member.enter(c).await.map_err(|e| hide(e.into()))
}

/// # Errors
/// `PersonaNotFound`.
async fn get(c: &mut Conn, actor: &Actor<'_>, id: PersonaId) -> Result<Persona, AgentError> {
    let found = personas::get_persona(c, actor.workspace, id).await?;
    found.ok_or(AgentError::PersonaNotFound)
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct PersonasQuery {
    /// 1 to 100; 20 by default.
    #[param(inline)]
    limit: Option<Limit>,
    /// Only personas created after the one with this ID.
    after: Option<PersonaId>,
    /// Only personas created before the one with this ID.
    before: Option<PersonaId>,
    /// Only the persona with exactly this name.
    name: Option<String>,
    /// Only personas with this status.
    #[param(inline)]
    status: Option<PipelineStatus>,
}

/// List the personas of the workspace, oldest first
#[utoipa::path(get, path = "/v1/personas", tag = "agents",
    security(("session" = ["viewer"]), ("key" = ["agents:read"])),
    params(PersonasQuery), responses((status = 200, body = List<Persona>)))]
async fn list_personas(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    Query(query): Query<PersonasQuery>,
) -> Result<Json<List<Persona>>, ApiError> {
    let mut c = state.db.scan(member.share()).await?;
    let actor = member.enter(&mut c).await?;
    actor.require(Scope::AgentsRead)?;
    let page = PageQuery {
        limit: query.limit,
        after: query.after,
        before: query.before,
    }
    .page(20)?;
    if let Some(id) = page.after.or(page.before) {
        get(&mut c, &actor, id).await?;
    }
    let filter = Filter {
        name: query.name,
        status: query.status,
    };
    let rows = personas::list_personas(
        &mut c,
        actor.workspace,
        &filter,
        page.range(),
        page.limit + 1,
    )
    .await?;
    Ok(Json(List::new(
        rows,
        page.limit,
        page.before.is_some(),
        |persona: &Persona| persona.id.to_string(),
    )))
}

/// Create a persona as a draft
#[utoipa::path(post, path = "/v1/personas", tag = "agents",
    security(("session" = ["member"]), ("key" = ["agents:write"])),
    request_body(content = PersonaForm,
        example = json!({"name": "Calm engineer", "principles": {"text": "Facts before opinions.", "items": ["Names the risk first"]}, "compressed": "You are a calm engineer. You name the risk first."})),
    responses((status = 201, body = Persona)))]
async fn create_persona(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    _: FreeDiskSpace,
    Body(form): Body<PersonaForm>,
) -> Result<Response, ApiError> {
    let made = member
        .write(&state.db, async move |c, actor| {
            personas::create_persona(c, actor, form.clone()).await
        })
        .await?;
    Ok(tagged(StatusCode::CREATED, made.version, &made))
}

/// Get a persona
#[utoipa::path(get, path = "/v1/personas/{id}", tag = "agents",
    security(("session" = ["viewer"]), ("key" = ["agents:read"])),
    params(("id" = PersonaId, Path)), responses((status = 200, body = Persona)))]
async fn get_persona(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<PersonaId>,
) -> Result<Response, ApiError> {
    let mut c = state.db.read().await?;
    let member = member_of(&mut c, caller, id).await?;
    let actor = enter(&mut c, &member).await?;
    actor.require(Scope::AgentsRead)?;
    let persona = get(&mut c, &actor, id).await?;
    Ok(tagged(StatusCode::OK, persona.version, &persona))
}

/// Replace a persona except for its status; omitted fields become blank
///
/// Changing a text sets the status of an approved persona to `refined`; agents keep the approved text until the next approval.
#[utoipa::path(put, path = "/v1/personas/{id}", tag = "agents",
    security(("session" = ["member"]), ("key" = ["agents:write"])),
    params(("id" = PersonaId, Path), ("If-Match" = inline(Option<IfMatch>), Header)),
    request_body(content = PersonaForm,
        example = json!({"name": "Calm engineer", "compressed": "You are a calm engineer. You name the risk first, and then the way out."})),
    responses((status = 200, body = Persona)))]
async fn put_persona(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<PersonaId>,
    _: FreeDiskSpace,
    IfMatch(expected): IfMatch,
    Body(form): Body<PersonaForm>,
) -> Result<Response, ApiError> {
    let member = member_of(&mut state.db.read().await?, caller, id).await?;
    let changed = member
        .write(&state.db, async move |c, actor| {
            personas::put_persona(c, actor, id, form.clone(), expected).await
        })
        .await
        .map_err(hide)?;
    Ok(tagged(StatusCode::OK, changed.version, &changed))
}

/// Change a persona or its status; each change creates a version
///
/// Approval creates a new version of every agent that uses the persona, directly or through its base.
#[utoipa::path(patch, path = "/v1/personas/{id}", tag = "agents",
    security(("session" = ["member"]), ("key" = ["agents:write"])),
    params(("id" = PersonaId, Path), ("If-Match" = inline(Option<IfMatch>), Header)),
    request_body(content = PersonaPatch,
        example = json!({"compressed": "You are a calm engineer.", "pipeline_status": "approved"})),
    responses((status = 200, body = Persona)))]
async fn patch_persona(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<PersonaId>,
    _: FreeDiskSpace,
    IfMatch(expected): IfMatch,
    Body(patch): Body<PersonaPatch>,
) -> Result<Response, ApiError> {
    let member = member_of(&mut state.db.read().await?, caller, id).await?;
    let changed = member
        .write(&state.db, async move |c, actor| {
            personas::patch_persona(c, actor, id, patch.clone(), expected).await
        })
        .await
        .map_err(hide)?;
    Ok(tagged(StatusCode::OK, changed.version, &changed))
}

/// Response of `DELETE /v1/personas/{id}`.
#[derive(Serialize, utoipa::ToSchema)]
struct DeletedPersona {
    id: PersonaId,
    #[schema(inline)]
    object: PersonaObject,
    /// Always true.
    deleted: bool,
}

/// Delete a persona that no agent uses, with its versions
#[utoipa::path(delete, path = "/v1/personas/{id}", tag = "agents",
    security(("session" = ["member"]), ("key" = ["agents:write"])),
    params(("id" = PersonaId, Path), ("If-Match" = inline(Option<IfMatch>), Header)),
    responses((status = 200, body = DeletedPersona)))]
async fn delete_persona(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<PersonaId>,
    IfMatch(expected): IfMatch,
) -> Result<Json<DeletedPersona>, ApiError> {
    let member = member_of(&mut state.db.read().await?, caller, id).await?;
    while member
        .clone()
        .write(&state.db, async move |c, actor| {
            personas::delete_old_versions(c, actor, id, expected).await
        })
        .await
        .map_err(hide)?
    {}
    member
        .write(&state.db, async move |c, actor| {
            personas::delete_persona(c, actor, id, expected).await
        })
        .await
        .map_err(hide)?;
    Ok(Json(DeletedPersona {
        id,
        object: PersonaObject,
        deleted: true,
    }))
}

/// Fields of `POST /v1/personas/{id}/duplicate`.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct PersonaCopyForm {
    /// 1 to 80 characters, unique in the workspace.
    name: String,
}

/// Copy a persona to a new draft
#[utoipa::path(post, path = "/v1/personas/{id}/duplicate", tag = "agents",
    security(("session" = ["member"]), ("key" = ["agents:write"])),
    params(("id" = PersonaId, Path)),
    request_body(content = PersonaCopyForm,
        example = json!({"name": "Calm reviewer"})),
    responses((status = 201, body = Persona)))]
async fn duplicate_persona(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<PersonaId>,
    _: FreeDiskSpace,
    Body(form): Body<PersonaCopyForm>,
) -> Result<Response, ApiError> {
    let member = member_of(&mut state.db.read().await?, caller, id).await?;
    let made = member
        .write(&state.db, async move |c, actor| {
            personas::duplicate_persona(c, actor, id, &form.name).await
        })
        .await
        .map_err(hide)?;
    Ok(tagged(StatusCode::CREATED, made.version, &made))
}

#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct PersonaVersionsQuery {
    /// 1 to 100; 20 by default.
    #[param(inline)]
    limit: Option<Limit>,
    /// `next_cursor` from the previous page.
    cursor: Option<String>,
}

/// List the versions of a persona, newest first
#[utoipa::path(get, path = "/v1/personas/{id}/versions", tag = "agents",
    security(("session" = ["viewer"]), ("key" = ["agents:read"])),
    params(("id" = PersonaId, Path), PersonaVersionsQuery),
    responses((status = 200, body = List<PersonaVersion>)))]
async fn list_persona_versions(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<PersonaId>,
    Query(query): Query<PersonaVersionsQuery>,
) -> Result<Json<List<PersonaVersion>>, ApiError> {
    let limit = Limit::or(query.limit, 20);
    let before = version_before(query.cursor)?;
    let mut c = state.db.read().await?;
    let member = member_of(&mut c, caller, id).await?;
    enter(&mut c, &member).await?;
    drop(c);
    let mut c = state.db.scan(member.share()).await?;
    enter(&mut c, &member).await?.require(Scope::AgentsRead)?;
    let rows = personas::list_versions(&mut c, id, before, limit + 1).await?;
    Ok(Json(list_of_versions(rows, limit, |v| v.version)))
}

#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct PersonaRollbackForm {
    target_version: i64,
}

/// Restore an earlier version as a new one with the status `refined`
#[utoipa::path(post, path = "/v1/personas/{id}/rollback", tag = "agents",
    security(("session" = ["member"]), ("key" = ["agents:write"])),
    params(("id" = PersonaId, Path), ("If-Match" = inline(Option<IfMatch>), Header)),
    request_body(content = PersonaRollbackForm,
        example = json!({"target_version": 1})),
    responses((status = 200, body = Persona)))]
async fn roll_back_persona(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<PersonaId>,
    _: FreeDiskSpace,
    IfMatch(expected): IfMatch,
    Body(form): Body<PersonaRollbackForm>,
) -> Result<Response, ApiError> {
    let member = member_of(&mut state.db.read().await?, caller, id).await?;
    let target = form.target_version;
    let changed = member
        .write(&state.db, async move |c, actor| {
            personas::rollback_persona(c, actor, id, target, expected).await
        })
        .await
        .map_err(hide)?;
    Ok(tagged(StatusCode::OK, changed.version, &changed))
}

/// Drafted text of a persona.
#[derive(Serialize, utoipa::ToSchema)]
struct CompressedPersona {
    compressed: String,
    /// Estimated number of tokens.
    tokens: u64,
    model: String,
}

/// Draft the text of a persona from its steps; nothing is stored
#[utoipa::path(post, path = "/v1/personas/{id}/compress", tag = "agents",
    security(("session" = ["member"]), ("key" = ["agents:write"])),
    params(("id" = PersonaId, Path)), responses((status = 200, body = CompressedPersona)))]
async fn compress_persona(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<PersonaId>,
    _: NoFields,
) -> Result<Json<CompressedPersona>, ApiError> {
    let mut c = state.db.read().await?;
    let member = member_of(&mut c, caller, id).await?;
    let actor = enter(&mut c, &member).await?;
    actor.require(Scope::AgentsWrite)?;
    let (persona, user) = (get(&mut c, &actor, id).await?, actor.user);
    let tenancy = tenancy(&mut c).await?;
    drop(c);
    let utility = utility_of(&state, member.workspace, "write the text yourself").await?;
    // The request waits for the model, so it counts as one of the concurrent calls of `/v1/responses`.
    let slots = &state.responses_of_all.slots;
    let _permit = slots.take(member.workspace, user, tenancy).await?;
    let drafted = persona::compress(&utility, member.workspace, user, &persona).await?;
    let drafted = drafted.map_err(ResponseError::OverBudget)?.ok_or_else(|| {
        no_answer("the model did not write a usable text: try again, or write it yourself")
    })?;
    Ok(Json(CompressedPersona {
        compressed: drafted.text,
        tokens: drafted.tokens,
        model: drafted.model,
    }))
}
