//! HTTP routes for agent profiles.

use std::collections::BTreeMap;

use axum::{
    Extension, Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use utoipa_axum::router::OpenApiRouter;

use super::{
    AgentRef, St, add_runtime, answer,
    sources::SourceSeen,
    tagged,
    task_context::{self, Budget},
};
use crate::{
    agents::{
        AgentError, policy,
        preview::{self, Preview, PreviewForm},
        profiles::{
            self, Agent, AgentPatch, AgentStatus, AgentSummary, Archived, Base, CopyForm, NewAgent,
        },
        sandbox::{self, SandboxLimits},
        templates::{self, Template},
        transfer::{self, Export, Import, Imported},
    },
    auth::{Actor, Scope, WorkspaceCaller},
    chat::{bindings, remove},
    db::{Conn, DbError},
    http::{
        ApiError, ErrorCode,
        extract::{Body, IfMatch, NoFields, Query},
        page::{Limit, List, PageQuery},
        routing::routes,
        unsent::ReadOnly,
    },
    ids::{AgentId, TaskId},
    memory::files::{self as memory_files, Paragraphs},
    realtime::Hub,
    server::{State, caller::FreeDiskSpace},
    tasks::queue,
};

pub(super) fn router() -> OpenApiRouter<State> {
    OpenApiRouter::new()
        .routes(routes!(list_agents, create_agent))
        .routes(routes!(get_agent, put_agent, patch_agent, delete_agent))
        .routes(routes!(duplicate_agent))
        .routes(routes!(make_default))
        .routes(routes!(export_agent))
        .routes(routes!(import_agent))
        .routes(routes!(preview_agent))
        .routes(routes!(list_templates))
}

/// Query of an agent list. `metadata.KEY=VALUE` is also a filter, and can be repeated.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
struct AgentsQuery {
    /// 1 to 100; 20 by default.
    #[param(inline)]
    limit: Option<Limit>,
    /// Only agents created after the one with this ID.
    after: Option<AgentId>,
    /// Only agents created before the one with this ID.
    before: Option<AgentId>,
    /// Only agents with this status.
    #[param(inline)]
    status: Option<AgentStatus>,
    /// Only the agent with exactly this name.
    name: Option<String>,
    #[param(ignore)]
    #[serde(flatten)]
    others: BTreeMap<String, String>,
}

/// # Errors
/// 400 for an unknown parameter.
fn metadata_of(others: BTreeMap<String, String>) -> Result<BTreeMap<String, String>, ApiError> {
    let mut metadata = BTreeMap::new();
    for (name, value) in others {
        let key = name.strip_prefix("metadata.").filter(|key| !key.is_empty());
        let Some(key) = key else {
            let text = format!(
                "`{name}` is not a parameter of this list: use limit, after, before, status, name, or metadata.KEY"
            );
            return Err(ApiError::invalid(ErrorCode::InvalidQuery, text, name));
        };
        metadata.insert(key.to_owned(), value);
    }
    Ok(metadata)
}

/// List the agents of the workspace that you can see, oldest first
#[utoipa::path(get, path = "/v1/agents", tag = "agents",
    security(("session" = ["viewer"]), ("key" = ["agents:read"])),
    params(AgentsQuery), responses((status = 200, body = List<AgentSummary>)))]
async fn list_agents(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    Query(query): Query<AgentsQuery>,
) -> Result<Json<List<AgentSummary>>, ApiError> {
    let mut c = state.db.scan(member.share()).await?;
    let actor = member.enter(&mut c).await?;
    actor.require(Scope::AgentsRead)?;
    let page = PageQuery {
        limit: query.limit,
        after: query.after,
        before: query.before,
    }
    .page(20)?;
    let filter = profiles::Filter {
        status: query.status,
        name: query.name,
        metadata: metadata_of(query.others)?,
    };
    let mut rows =
        profiles::list_agents(&mut c, &actor, &filter, page.range(), page.limit + 1).await?;
    drop(c);
    let provider = state.providers.of(member.workspace).await?;
    for agent in &mut rows {
        agent.set_effective_model(provider.as_ref()).await;
    }
    Ok(Json(List::new(
        rows,
        page.limit,
        page.before.is_some(),
        |agent: &AgentSummary| agent.id.to_string(),
    )))
}

/// Create an agent
#[utoipa::path(post, path = "/v1/agents", tag = "agents",
    security(("session" = ["member"]), ("key" = ["agents:write"])),
    request_body(content = NewAgent,
        example = json!({"name": "planner", "display_name": "Planner", "instructions": "You help the team with its plans. Say what speaks for each way.", "capabilities": ["planning"], "temperature": 0.4})),
    responses((status = 201, body = Agent)))]
async fn create_agent(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    _: FreeDiskSpace,
    Body(form): Body<NewAgent>,
) -> Result<Response, ApiError> {
    let parts = form.into_parts()?;
    let agent = member
        .write(&state.db, async move |c, actor| {
            profiles::create_agent(c, actor, parts.clone(), "created").await
        })
        .await?;
    Ok(answer(&state, StatusCode::CREATED, agent).await)
}

#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct AgentQuery {
    /// `true` merges in the bases and returns the profile that the agent runs with.
    #[serde(default)]
    resolve: bool,
}

/// An agent with its bases merged in.
#[derive(Serialize, utoipa::ToSchema)]
struct ResolvedAgent {
    #[serde(flatten)]
    agent: Agent,
    /// The agents whose profiles were merged, from the most distant base to the agent itself.
    resolved_from: Vec<Base>,
    /// Limits that apply to code run by the agent; null if the agent has no sandbox policy.
    sandbox: Option<SandboxLimits>,
}

/// Get an agent; `main` is the workspace's default
#[utoipa::path(get, path = "/v1/agents/{id}", tag = "agents",
    security(("session" = ["viewer"]), ("key" = ["agents:read"])),
    params(("id" = inline(AgentRef), Path), AgentQuery), responses((status = 200, body = Agent)))]
async fn get_agent(
    axum::extract::State(state): St,
    named: AgentRef,
    Query(query): Query<AgentQuery>,
) -> Result<Response, ApiError> {
    let mut c = state.db.read().await?;
    let actor = named.enter(&mut c).await?;
    actor.require(Scope::AgentsRead)?;
    if !query.resolve {
        let agent = profiles::get_by_reference(&mut c, &actor, &named.reference).await?;
        drop(c);
        return Ok(answer(&state, StatusCode::OK, agent).await);
    }
    let (mut agent, resolved_from) =
        profiles::get_resolved_agent(&mut c, &actor, &named.reference).await?;
    let policy = policy::find(&mut c, actor.workspace).await?;
    let own = agent.sandbox_policy_id.as_deref();
    let sandbox =
        sandbox::effective(&mut c, actor.workspace, own, policy.sandbox_policy_id).await?;
    drop(c);
    add_runtime(&state, &mut agent).await;
    let version = agent.summary.version;
    let body = ResolvedAgent {
        agent,
        resolved_from,
        sandbox,
    };
    Ok(tagged(StatusCode::OK, version, &body))
}

/// Replace an agent; omitted fields are reset to their defaults
#[utoipa::path(put, path = "/v1/agents/{id}", tag = "agents",
    security(("session" = ["member"]), ("key" = ["agents:write"])),
    params(("id" = inline(AgentRef), Path), ("If-Match" = inline(Option<IfMatch>), Header)),
    request_body(content = NewAgent,
        example = json!({"name": "planner", "instructions": "You help the team with its plans, in three sentences at most."})),
    responses((status = 200, body = Agent)))]
async fn put_agent(
    axum::extract::State(state): St,
    named: AgentRef,
    _: FreeDiskSpace,
    IfMatch(expected): IfMatch,
    Body(form): Body<NewAgent>,
) -> Result<Response, ApiError> {
    let parts = form.into_parts()?;
    let agent = named
        .write(&state.db, async move |c, actor, reference| {
            profiles::put_agent(c, actor, reference, parts.clone(), expected).await
        })
        .await?;
    Ok(answer(&state, StatusCode::OK, agent).await)
}

/// Change an agent; each change creates a version
///
/// Changing the status of an agent, or the workspace's default agent, requires the admin role; keys need `agents:admin`.
#[utoipa::path(patch, path = "/v1/agents/{id}", tag = "agents",
    security(("session" = ["member"]), ("key" = ["agents:write"])),
    params(("id" = inline(AgentRef), Path), ("If-Match" = inline(Option<IfMatch>), Header)),
    request_body(content = AgentPatch,
        example = json!({"description": "Knows the plan", "metadata": {"team": "launch"}})),
    responses((status = 200, body = Agent)))]
async fn patch_agent(
    axum::extract::State(state): St,
    named: AgentRef,
    _: FreeDiskSpace,
    IfMatch(expected): IfMatch,
    Body(patch): Body<AgentPatch>,
) -> Result<Response, ApiError> {
    let agent = named
        .write(&state.db, async move |c, actor, reference| {
            profiles::patch_agent(c, actor, reference, &patch, expected).await
        })
        .await?;
    Ok(answer(&state, StatusCode::OK, agent).await)
}

#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct DeleteQuery {
    /// `true` permanently deletes the agent with its versions and files; requires `agents:admin`.
    #[serde(default)]
    permanent: bool,
}

/// Archive an agent, or permanently delete it
///
/// For permanent deletion, keys need `agents:admin`.
#[utoipa::path(delete, path = "/v1/agents/{id}", tag = "agents",
    security(("session" = ["admin"]), ("key" = ["agents:delete"])),
    params(("id" = inline(AgentRef), Path), DeleteQuery, ("If-Match" = inline(Option<IfMatch>), Header)), responses((status = 200, body = Archived)))]
async fn delete_agent(
    axum::extract::State(state): St,
    named: AgentRef,
    Query(query): Query<DeleteQuery>,
    IfMatch(expected): IfMatch,
) -> Result<Json<Archived>, ApiError> {
    if query.permanent {
        delete_history(&state, &named, expected).await?;
    }
    let hub = state.hub.clone();
    let archived = named
        .write(&state.db, async move |c, actor, reference| {
            if !query.permanent {
                return profiles::archive_agent(c, actor, reference, expected).await;
            }
            actor.require(Scope::AgentsAdmin)?;
            let agent = profiles::get_by_reference(c, actor, reference).await?;
            let archived = profiles::delete_agent(c, actor, reference, expected).await?;
            bindings::move_from(c, actor.workspace, agent.summary.id).await?;
            end_tasks(c, agent.summary.id, &hub).await?;
            Ok::<_, AgentError>(archived)
        })
        .await?;
    Ok(Json(archived))
}

/// Deletes most of a long history in short transactions, before the agent is permanently deleted.
async fn delete_history(
    state: &State,
    named: &AgentRef,
    expected: Option<i64>,
) -> Result<(), AgentError> {
    loop {
        let hub = state.hub.clone();
        let step = async move |c: &mut Conn, actor: &Actor<'_>, reference: &str| {
            let has_more = profiles::delete_history(c, actor, reference, expected).await?;
            if has_more {
                // Tasks of deleted versions could no longer run.
                let agent = profiles::get_by_reference(c, actor, reference).await?;
                end_tasks(c, agent.summary.id, &hub).await?;
            }
            Ok(has_more)
        };
        if !named.clone().write(&state.db, step).await? {
            return Ok(());
        }
    }
}

/// Ends an agent's tasks before the agent is permanently deleted, because they could no longer run.
async fn end_tasks(c: &mut Conn, agent: AgentId, hub: &Hub) -> Result<(), DbError> {
    let ids: Vec<(TaskId,)> = c
        .q("select id from tasks where agent_id = $1 and status in ('queued', 'running') order by id limit 10000")
        .bind(agent)
        .all()
        .await?;
    for (id,) in ids {
        if let Some(task) = queue::find_task(c, id).await?
            && let Some(channel) = task.channel_id
        {
            let audience = queue::audience_of(c, channel).await?;
            remove::stop(c, &task, hub, audience).await?;
        }
    }
    Ok(())
}

/// Copy an agent
#[utoipa::path(post, path = "/v1/agents/{id}/duplicate", tag = "agents",
    security(("session" = ["member"]), ("key" = ["agents:write"])),
    params(("id" = inline(AgentRef), Path)),
    request_body(content = CopyForm,
        example = json!({"name": "planner-two"})),
    responses((status = 201, body = Agent)))]
async fn duplicate_agent(
    axum::extract::State(state): St,
    named: AgentRef,
    _: FreeDiskSpace,
    Body(form): Body<CopyForm>,
) -> Result<Response, ApiError> {
    let agent = named
        .write(&state.db, async move |c, actor, reference| {
            profiles::duplicate_agent(c, actor, reference, &form).await
        })
        .await?;
    Ok(answer(&state, StatusCode::CREATED, agent).await)
}

/// Make an agent the workspace's default
#[utoipa::path(post, path = "/v1/agents/{id}/default", tag = "agents",
    security(("session" = ["admin"]), ("key" = ["agents:admin"])),
    params(("id" = inline(AgentRef), Path)), responses((status = 200, body = Agent)))]
async fn make_default(
    axum::extract::State(state): St,
    named: AgentRef,
    _: NoFields,
) -> Result<Response, ApiError> {
    let agent = named
        .write(&state.db, async move |c, actor, reference| {
            profiles::make_default(c, actor, reference).await
        })
        .await?;
    Ok(answer(&state, StatusCode::OK, agent).await)
}

/// Export an agent with its files
#[utoipa::path(get, path = "/v1/agents/{id}/export", tag = "agents",
    security(("session" = ["viewer"]), ("key" = ["agents:read"])),
    params(("id" = inline(AgentRef), Path)), responses((status = 200, body = Export)))]
async fn export_agent(
    axum::extract::State(state): St,
    named: AgentRef,
) -> Result<Json<Export>, ApiError> {
    let mut c = state.db.scan(named.member.share()).await?;
    let actor = named.enter(&mut c).await?;
    Ok(Json(
        transfer::export_agent(&mut c, &actor, &named.reference).await?,
    ))
}

/// Create an agent from an export or from files
#[utoipa::path(post, path = "/v1/agents/import", tag = "agents",
    security(("session" = ["member"]), ("key" = ["agents:write"])),
    request_body(content = Import,
        example = json!({"agent": {"name": "scribe", "instructions": "You write minutes."}, "files": {"MEMORY.md": "The fair is on Wednesday.\n"}})),
    responses((status = 201, body = Imported)))]
async fn import_agent(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    _: FreeDiskSpace,
    Body(import): Body<Import>,
) -> Result<Response, ApiError> {
    let paragraphs = Paragraphs::of_import(&import, member.workspace, &state.keyring);
    let mut imported = member
        .write(&state.db, async move |c, actor| {
            memory_files::import(c, actor, &import, &paragraphs).await
        })
        .await?;
    add_runtime(&state, &mut imported.agent).await;
    let version = imported.agent.summary.version;
    Ok(tagged(StatusCode::CREATED, version, &imported))
}

/// Preview the system prompt of a draft; nothing is stored
#[utoipa::path(post, path = "/v1/agents/preview", tag = "agents",
    security(("session" = ["viewer"]), ("key" = ["agents:read"])),
    request_body(content = PreviewForm,
        example = json!({"agent": {"name": "planner", "instructions": "You help the team with its plans."}})),
    responses((status = 200, body = PreviewSeen)))]
async fn preview_agent(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    Body(form): Body<PreviewForm>,
) -> Result<(Extension<ReadOnly>, Json<PreviewSeen>), ApiError> {
    let channel = form.channel_id;
    let mut c = state.db.scan(member.share()).await?;
    let actor = member.enter(&mut c).await?;
    let (mut preview, draft) = preview::preview(&mut c, &actor, form).await?;
    drop(c);
    let provider = state.providers.of(member.workspace).await?;
    preview.set_effective_model(provider.as_ref()).await;
    let (caller, workspace) = (&member.caller, member.workspace);
    let sources = task_context::sources_of_draft(&state, caller, workspace, &draft, channel);
    let (sources, budget) = sources.await?;
    let seen = PreviewSeen {
        preview,
        sources,
        budget,
    };
    Ok((Extension(ReadOnly), Json(seen)))
}

/// The preview of a draft, and everything that the draft would be told.
#[derive(Serialize, utoipa::ToSchema)]
struct PreviewSeen {
    #[serde(flatten)]
    preview: Preview,
    /// Everything that a prompt can contain, in the prompt's order, with the reason why something is missing.
    sources: Vec<SourceSeen>,
    /// `used` is larger than `context_window` if the draft does not fit.
    budget: Budget,
}

/// List agent templates; post the fields of a template to create the agent
#[utoipa::path(get, path = "/v1/agent-templates", tag = "agents",
    security(("session" = ["viewer"]), ("key" = ["agents:read"])),
    responses((status = 200, body = List<Template>)))]
async fn list_templates(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
) -> Result<Response, ApiError> {
    let mut c = state.db.read().await?;
    member.enter(&mut c).await?.require(Scope::AgentsRead)?;
    let all: Vec<&Template> = templates::all().iter().collect();
    let limit = i64::try_from(all.len()).unwrap_or(i64::MAX);
    let list = List::new(all, limit, false, |template| template.agent.name.clone());
    Ok(Json(list).into_response())
}
