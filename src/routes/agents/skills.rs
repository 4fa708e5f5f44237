//! HTTP routes for skills.

use std::time::Duration;

use axum::{
    Json,
    body::Bytes,
    http::{HeaderMap, StatusCode, header},
    response::Response,
};
use serde::{Deserialize, Serialize};
use tokio::time::timeout;
use utoipa_axum::router::OpenApiRouter;
use uuid::Uuid;

use super::{St, tagged};
use crate::{
    agents::{
        AgentError,
        skills::{self, Skill, SkillChange, SkillForm, SkillObject},
    },
    auth::{Actor, AuthError, Caller, Scope, WorkspaceCaller},
    code::{self, CodeError, FolderAnswer},
    db::Conn,
    http::{
        ApiError,
        error::ErrorBody,
        extract::{Body, IfMatch, Path, Query, RawBody, parse_json},
        page::{Limit, List, PageQuery},
        routing::routes,
    },
    ids::{RepositoryId, SkillId},
    server::{State, caller::FreeDiskSpace},
};

const ZIP: &str = "application/zip";
const LIST_DEFAULT: i64 = 100;

pub(super) fn router() -> OpenApiRouter<State> {
    OpenApiRouter::new()
        .routes(routes!(list_skills, create_skill))
        .routes(routes!(import_skill))
        .routes(routes!(get_skill, put_skill, delete_skill))
}

/// Returns the caller as a member of the skill's workspace.
async fn member_of(
    c: &mut Conn,
    caller: Caller,
    id: SkillId,
) -> Result<WorkspaceCaller, AgentError> {
    let workspace = skills::workspace_of(c, id).await?;
    let workspace = workspace.ok_or(AgentError::SkillNotFound)?;
    Ok(WorkspaceCaller { caller, workspace })
}

/// Reports a skill of another workspace as absent.
fn hide(error: AgentError) -> AgentError {
    match error {
        AgentError::Auth(AuthError::WorkspaceNotFound) => AgentError::SkillNotFound,
        other => other,
    }
}

async fn enter<'a>(c: &mut Conn, member: &'a WorkspaceCaller) -> Result<Actor<'a>, AgentError> {
    member.enter(c).await.map_err(|e| hide(e.into()))
}

/// Reads a body: a form, or a zip file, which changes only the files. An archive is unpacked only for callers who may change skills.
async fn change_of(
    state: &State,
    member: &WorkspaceCaller,
    headers: &HeaderMap,
    body: Bytes,
) -> Result<SkillChange, ApiError> {
    let kind = headers.get(header::CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if !kind.starts_with(ZIP) {
        let body: &[u8] = if body.is_empty() { b"{}" } else { &body };
        let form: SkillForm = parse_json(body)?;
        return Ok(form.into_change()?);
    }
    let mut c = state.db.read().await?;
    enter(&mut c, member).await?.require(Scope::AgentsWrite)?;
    drop(c);
    Ok(SkillChange {
        text: Some(skills::unpack(body).await?),
        channel_ids: None,
    })
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct SkillsQuery {
    /// 1 to 100; 100 by default.
    #[param(inline)]
    limit: Option<Limit>,
    /// Only skills after the one with this ID.
    after: Option<SkillId>,
    /// Only skills before the one with this ID.
    before: Option<SkillId>,
}

/// List the skills that the caller can read, by name, without the texts of their files
#[utoipa::path(get, path = "/v1/skills", tag = "agents",
    security(("session" = ["viewer"]), ("key" = ["agents:read"])),
    params(SkillsQuery), responses((status = 200, body = List<Skill>)))]
async fn list_skills(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    Query(query): Query<SkillsQuery>,
) -> Result<Json<List<Skill>>, ApiError> {
    let mut c = state.db.scan(member.share()).await?;
    let actor = member.enter(&mut c).await?;
    actor.require(Scope::AgentsRead)?;
    let page = PageQuery {
        limit: query.limit,
        after: query.after,
        before: query.before,
    }
    .page(LIST_DEFAULT)?;
    let rows = skills::list_skills(&mut c, &actor).await?;
    Ok(Json(page.cut(rows, |skill: &Skill| skill.id)?))
}

/// Create a skill: a folder of texts that agents read when they need them
///
/// `SKILL.md` begins with front matter, which has the `name` and the `description`. The body can also be a zip file with one folder,
/// whose name is that of the skill.
#[utoipa::path(post, path = "/v1/skills", tag = "agents",
    security(("session" = ["member"]), ("key" = ["agents:write"])),
    request_body(content((SkillForm = "application/json",
        example = json!({"files": [{"path": "SKILL.md", "content": "---\nname: release-notes\ndescription: Write release notes from a list of changes\n---\nStart with what users notice.\n"}]})),
        (Vec<u8> = "application/zip"))),
    responses((status = 201, body = Skill)))]
async fn create_skill(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    _: FreeDiskSpace,
    headers: HeaderMap,
    RawBody(body): RawBody,
) -> Result<Response, ApiError> {
    let change = change_of(&state, &member, &headers, body).await?;
    let made = member
        .write(&state.db, async move |c, actor| {
            skills::create_skill(c, actor, change.clone()).await
        })
        .await?;
    Ok(tagged(StatusCode::CREATED, made.version, &made))
}

/// Body of `POST /v1/skills/import`.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct SkillImport {
    /// A repository that the caller can see and that an admin has allowed.
    repository_id: RepositoryId,
    /// Folder with `SKILL.md`, whose name is that of the skill, at most 256 bytes.
    path: String,
}

/// Interval between looks for the answer of a runner, which another node can receive.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Waits for a folder from a runner.
async fn folder_of(state: &State, request: Uuid) -> Result<FolderAnswer, ApiError> {
    let look = async {
        loop {
            let found = code::find_folder(&mut state.db.read().await?, request).await?;
            if let Some(answer) = found {
                return Ok::<_, ApiError>(answer);
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    tokio::select! {
        answer = timeout(code::FOLDER_WITHIN, look) => answer.unwrap_or_else(|_| Err(CodeError::FolderLate.into())),
        () = state.shutdown.cancelled() => Err(CodeError::FolderLate.into()),
    }
}

/// Create a skill from a folder of a repository, at its base commit
///
/// The repository's runner fetches it and sends the folder within a minute; links and submodules are not allowed. Later commits do not
/// change the skill. If the repository is allowed only in private channels, these are the skill's channels.
#[utoipa::path(post, path = "/v1/skills/import", tag = "agents",
    security(("session" = ["member"]), ("key" = ["agents:write"])),
    request_body(content = SkillImport,
        example = json!({"repository_id": "repo_01h455vb4pex5vsknk084sn02q", "path": "skills/release-notes"})),
    responses((status = 201, body = Skill),
        (status = 503, description = "The runner is not connected, or did not answer", body = ErrorBody)))]
async fn import_skill(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    _: FreeDiskSpace,
    Body(form): Body<SkillImport>,
) -> Result<Response, ApiError> {
    let path = skills::folder_path(&form.path)?.to_owned();
    let (repository, workspace) = (form.repository_id, member.workspace);
    let request = member
        .clone()
        .write(&state.db, async move |c, actor| {
            code::request_folder(c, actor, repository, &path).await
        })
        .await?;
    let answer = folder_of(&state, request).await;
    state
        .db
        .write(workspace.0, async move |c: &mut Conn| {
            code::end_folder_request(c, request).await
        })
        .await?;
    let text = match answer? {
        FolderAnswer::Archive(archive) => skills::unpack(archive).await?,
        FolderAnswer::Problem(text) => {
            return Err(ApiError::from(AgentError::BadSkill(text)).param("path"));
        }
    };
    let made = member
        .write(&state.db, async move |c, actor| {
            let channels = code::channels_of_readers(c, actor, repository).await?;
            let change = SkillChange {
                text: Some(text.clone()),
                channel_ids: Some(channels),
            };
            Ok::<_, ApiError>(skills::create_skill(c, actor, change).await?)
        })
        .await?;
    Ok(tagged(StatusCode::CREATED, made.version, &made))
}

/// Get a skill with the texts of its files
#[utoipa::path(get, path = "/v1/skills/{id}", tag = "agents",
    security(("session" = ["viewer"]), ("key" = ["agents:read"])),
    params(("id" = SkillId, Path)), responses((status = 200, body = Skill)))]
async fn get_skill(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<SkillId>,
) -> Result<Response, ApiError> {
    let mut c = state.db.read().await?;
    let member = member_of(&mut c, caller, id).await?;
    let actor = enter(&mut c, &member).await?;
    actor.require(Scope::AgentsRead)?;
    let skill = skills::get_skill(&mut c, &actor, id).await?;
    let skill = skill.ok_or(AgentError::SkillNotFound)?;
    Ok(tagged(StatusCode::OK, skill.version, &skill))
}

/// Replace the files of a skill, its channels, or both
///
/// A zip file, as in `POST`, replaces the files. The name follows the front matter; the ID stays.
#[utoipa::path(put, path = "/v1/skills/{id}", tag = "agents",
    security(("session" = ["member"]), ("key" = ["agents:write"])),
    params(("id" = SkillId, Path), ("If-Match" = inline(Option<IfMatch>), Header)),
    request_body(content((SkillForm = "application/json", example = json!({"channel_ids": null})),
        (Vec<u8> = "application/zip"))),
    responses((status = 200, body = Skill)))]
async fn put_skill(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<SkillId>,
    _: FreeDiskSpace,
    IfMatch(expected): IfMatch,
    headers: HeaderMap,
    RawBody(body): RawBody,
) -> Result<Response, ApiError> {
    let member = member_of(&mut state.db.read().await?, caller, id).await?;
    let change = change_of(&state, &member, &headers, body).await?;
    let changed = member
        .write(&state.db, async move |c, actor| {
            skills::update_skill(c, actor, id, change.clone(), expected).await
        })
        .await
        .map_err(hide)?;
    Ok(tagged(StatusCode::OK, changed.version, &changed))
}

/// Response of `DELETE /v1/skills/{id}`.
#[derive(Serialize, utoipa::ToSchema)]
struct DeletedSkill {
    id: SkillId,
    #[schema(inline)]
    object: SkillObject,
    /// Always true.
    deleted: bool,
}

/// Delete a skill; agents that name it show it as missing
#[utoipa::path(delete, path = "/v1/skills/{id}", tag = "agents",
    security(("session" = ["member"]), ("key" = ["agents:write"])),
    params(("id" = SkillId, Path), ("If-Match" = inline(Option<IfMatch>), Header)),
    responses((status = 200, body = DeletedSkill)))]
async fn delete_skill(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<SkillId>,
    IfMatch(expected): IfMatch,
) -> Result<Json<DeletedSkill>, ApiError> {
    let member = member_of(&mut state.db.read().await?, caller, id).await?;
    member
        .write(&state.db, async move |c, actor| {
            skills::delete_skill(c, actor, id, expected).await
        })
        .await
        .map_err(hide)?;
    Ok(Json(DeletedSkill {
        id,
        object: SkillObject,
        deleted: true,
    }))
}
