//! HTTP routes for agent files and for files that a workspace defines for all of its agents.

use axum::{Json, http::StatusCode, response::Response};
use serde::Deserialize;
use utoipa_axum::router::OpenApiRouter;

use super::{AgentRef, St, tagged};
use crate::{
    agents::files::{self, File, FilePath, FileSummary},
    auth::{Caller, Scope, WorkspaceCaller},
    http::{
        ApiError,
        extract::{Body, IfMatch, Path, Query},
        page::List,
        routing::routes,
    },
    ids::WorkspaceId,
    memory::files::{self as memory_files, Paragraphs},
    server::{State, caller::FreeDiskSpace},
};

pub(super) fn router() -> OpenApiRouter<State> {
    OpenApiRouter::new()
        .routes(routes!(list_files))
        .routes(routes!(get_file, put_file, delete_file))
        .routes(routes!(list_shared_files))
        .routes(routes!(
            get_shared_file,
            put_shared_file,
            delete_shared_file
        ))
}

#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct FileForm {
    /// At most 256 KiB.
    content: String,
}

fn whole(files: Vec<FileSummary>) -> Json<List<FileSummary>> {
    let limit = i64::try_from(files.len()).unwrap_or(i64::MAX);
    Json(List::new(files, limit, false, |file: &FileSummary| {
        file.path.clone()
    }))
}

fn answer(file: &File) -> Response {
    tagged(StatusCode::OK, file.summary.version, file)
}

/// List the files of an agent by path
#[utoipa::path(get, path = "/v1/agents/{id}/files", tag = "agents",
    security(("session" = ["viewer"]), ("key" = ["agents:read"])),
    params(("id" = inline(AgentRef), Path)), responses((status = 200, body = List<FileSummary>)))]
async fn list_files(
    axum::extract::State(state): St,
    named: AgentRef,
) -> Result<Json<List<FileSummary>>, ApiError> {
    let mut c = state.db.scan(named.member.share()).await?;
    let actor = named.enter(&mut c).await?;
    Ok(whole(files::list(&mut c, &actor, &named.reference).await?))
}

#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct FileQuery {
    /// An earlier version of the file. For a part of the profile, this is a version of the agent.
    version: Option<i64>,
}

/// Get a file of an agent
#[utoipa::path(get, path = "/v1/agents/{id}/files/{*path}", tag = "agents",
    security(("session" = ["viewer"]), ("key" = ["agents:read"])),
    params(("id" = inline(AgentRef), Path), ("path" = inline(FilePath), Path), FileQuery),
    responses((status = 200, body = File)))]
async fn get_file(
    axum::extract::State(state): St,
    named: AgentRef,
    Path((_, path)): Path<(String, String)>,
    Query(query): Query<FileQuery>,
) -> Result<Response, ApiError> {
    let path = FilePath::parse(&path)?;
    let mut c = state.db.read().await?;
    let actor = named.enter(&mut c).await?;
    if let Some(version) = query.version {
        let old = files::read_version(&mut c, &actor, &named.reference, &path, version).await?;
        return Ok(answer(&old));
    }
    Ok(answer(
        &files::read(&mut c, &actor, &named.reference, &path).await?,
    ))
}

/// Write a file of an agent; SOUL.md, IDENTITY.md, AGENTS.md, and TOOLS.md are part of its profile
///
/// For files of the profile, `If-Match` is the version of the agent; for all others, it is the version of the file. In
/// `memory/YYYY-MM-DD.md`, the date must exist.
#[utoipa::path(put, path = "/v1/agents/{id}/files/{*path}", tag = "agents",
    security(("session" = ["member"]), ("key" = ["agents:write"])),
    params(("id" = inline(AgentRef), Path), ("path" = inline(FilePath), Path), ("If-Match" = inline(Option<IfMatch>), Header)),
    request_body(content = FileForm,
        example = json!({"content": "# Notes\n\nThe fair is on Wednesday.\n"})),
    responses((status = 200, body = File)))]
async fn put_file(
    axum::extract::State(state): St,
    named: AgentRef,
    _: FreeDiskSpace,
    Path((_, path)): Path<(String, String)>,
    IfMatch(expected): IfMatch,
    Body(form): Body<FileForm>,
) -> Result<Response, ApiError> {
    let path = FilePath::parse(&path)?;
    let workspace = named.member.workspace;
    let paragraphs = Paragraphs::of(path.as_str(), &form.content, workspace, &state.keyring);
    let file = named
        .write(&state.db, async move |c, actor, reference| {
            let paragraphs = paragraphs.as_ref();
            memory_files::write(
                c,
                actor,
                reference,
                &path,
                &form.content,
                paragraphs,
                expected,
            )
            .await
        })
        .await?;
    Ok(answer(&file))
}

/// Delete a file of an agent
#[utoipa::path(delete, path = "/v1/agents/{id}/files/{*path}", tag = "agents",
    security(("session" = ["member"]), ("key" = ["agents:write"])),
    params(("id" = inline(AgentRef), Path), ("path" = inline(FilePath), Path), ("If-Match" = inline(Option<IfMatch>), Header)), responses((status = 204)))]
async fn delete_file(
    axum::extract::State(state): St,
    named: AgentRef,
    Path((_, path)): Path<(String, String)>,
    IfMatch(expected): IfMatch,
) -> Result<StatusCode, ApiError> {
    let path = FilePath::parse(&path)?;
    named
        .write(&state.db, async move |c, actor, reference| {
            memory_files::delete(c, actor, reference, &path, expected).await
        })
        .await?;
    Ok(StatusCode::NO_CONTENT)
}

/// List the files that the workspace defines for all of its agents
#[utoipa::path(get, path = "/v1/workspaces/{id}/files", tag = "agents",
    security(("session" = ["viewer"]), ("key" = ["agents:read"])),
    params(("id" = WorkspaceId, Path)), responses((status = 200, body = List<FileSummary>)))]
async fn list_shared_files(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<WorkspaceId>,
) -> Result<Json<List<FileSummary>>, ApiError> {
    let member = WorkspaceCaller {
        caller,
        workspace: id,
    };
    let mut c = state.db.scan(member.share()).await?;
    let actor = member.enter(&mut c).await?;
    Ok(whole(files::list_shared(&mut c, &actor).await?))
}

/// Get a file that the workspace defines for agents that do not have their own
#[utoipa::path(get, path = "/v1/workspaces/{id}/files/{*path}", tag = "agents",
    security(("session" = ["viewer"]), ("key" = ["agents:read"])),
    params(("id" = WorkspaceId, Path), ("path" = inline(FilePath), Path)),
    responses((status = 200, body = File)))]
async fn get_shared_file(
    axum::extract::State(state): St,
    caller: Caller,
    Path((id, path)): Path<(WorkspaceId, String)>,
) -> Result<Response, ApiError> {
    let mut c = state.db.read().await?;
    let actor = caller.enter(&mut c, id).await?;
    actor.require(Scope::AgentsRead)?;
    let path = FilePath::parse(&path)?;
    Ok(answer(
        &files::read_shared(&mut c, actor.workspace, &path).await?,
    ))
}

/// Write AGENTS.md or TOOLS.md for all agents of the workspace
#[utoipa::path(put, path = "/v1/workspaces/{id}/files/{*path}", tag = "agents",
    security(("session" = ["admin"]), ("key" = ["workspace:admin"])),
    params(("id" = WorkspaceId, Path), ("path" = inline(FilePath), Path), ("If-Match" = inline(Option<IfMatch>), Header)),
    request_body(content = FileForm,
        example = json!({"content": "# Agents\n\nAnswer in the language of the question.\n"})),
    responses((status = 200, body = File)))]
async fn put_shared_file(
    axum::extract::State(state): St,
    caller: Caller,
    _: FreeDiskSpace,
    Path((id, path)): Path<(WorkspaceId, String)>,
    IfMatch(expected): IfMatch,
    Body(form): Body<FileForm>,
) -> Result<Response, ApiError> {
    let member = WorkspaceCaller {
        caller,
        workspace: id,
    };
    let path = FilePath::parse(&path)?;
    let file = member
        .write(&state.db, async move |c, actor| {
            files::write_shared(c, actor, &path, &form.content, expected).await
        })
        .await?;
    Ok(answer(&file))
}

/// Delete a file that the workspace defines for all of its agents
#[utoipa::path(delete, path = "/v1/workspaces/{id}/files/{*path}", tag = "agents",
    security(("session" = ["admin"]), ("key" = ["workspace:admin"])),
    params(("id" = WorkspaceId, Path), ("path" = inline(FilePath), Path), ("If-Match" = inline(Option<IfMatch>), Header)), responses((status = 204)))]
async fn delete_shared_file(
    axum::extract::State(state): St,
    caller: Caller,
    Path((id, path)): Path<(WorkspaceId, String)>,
    IfMatch(expected): IfMatch,
) -> Result<StatusCode, ApiError> {
    let member = WorkspaceCaller {
        caller,
        workspace: id,
    };
    let path = FilePath::parse(&path)?;
    member
        .write(&state.db, async move |c, actor| {
            files::delete_shared(c, actor, &path, expected).await
        })
        .await?;
    Ok(StatusCode::NO_CONTENT)
}
