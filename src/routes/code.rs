//! HTTP routes for runners, repositories, and sessions on them.

use std::{sync::Arc, time::Duration};

use axum::{
    Extension, Json, Router,
    extract::{FromRequest, Request},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::{get, put},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa_axum::router::OpenApiRouter;
use uuid::Uuid;

use super::agents::tagged;
use crate::{
    agents::{AgentError, skills::list_skill_files},
    auth::{AuthError, Caller, Scope, WorkspaceCaller},
    blocking::blocking,
    chat::{ChatError, access, messages::MessageReview},
    code::{
        self, CodeError, CodeSession, FolderAnswer, Repository, RepositoryPatch, ReviewForm,
        Reviewed, Runner, RunnerForm, RunnerIdentity, RunnerObject, RunnerWithKey, SessionFilter,
        SessionState, TextOwner,
    },
    cursor,
    db::{Conn, dialect::lock_workspace},
    http::{
        ApiError, ErrorCode,
        bodies::{read, take},
        extract::{Body, IfMatch, NoFields, Path, Query, RawBody},
        page::{LIMIT_MAX, Limit, List, PageQuery},
        routing::routes,
    },
    ids::{CodeSessionId, RepositoryId, RunnerId, SkillId, TaskId, ThreadId},
    patch::present,
    realtime::hub::Conversation,
    replies::skills::{self, TurnSkill},
    server::{
        State,
        caller::{Address, runner_of},
    },
    share::Pool,
    tasks::{Task, queue},
    tools::taint,
};

type St = axum::extract::State<State>;

pub fn router() -> OpenApiRouter<State> {
    OpenApiRouter::new()
        .routes(routes!(list_runners, create_runner))
        .routes(routes!(delete_runner))
        .routes(routes!(list_repositories))
        .routes(routes!(patch_repository))
        .routes(routes!(list_code_sessions))
        .routes(routes!(get_code_session, patch_code_session))
        .routes(routes!(close_code_session))
        .routes(routes!(get_code_patch))
        .routes(routes!(get_code_log))
}

/// Routes for runners. They are not part of the API document, because only our own program uses them, with a key of its own.
pub fn receiver() -> Router<State> {
    let texts = get(read_text).put(store_text);
    Router::new()
        .route("/v1/runner/sessions/{id}/{text}", texts)
        .route("/v1/runner/sessions/{id}/skills", get(list_turn_skills))
        .route(
            "/v1/runner/sessions/{id}/skills/{skill_id}",
            get(get_turn_skill),
        )
        .route("/v1/runner/reads/{id}", put(store_folder))
}

/// Reports an object of another workspace as absent.
fn hide(error: CodeError, absent: CodeError) -> CodeError {
    match error {
        CodeError::Auth(AuthError::WorkspaceNotFound) => absent,
        other => other,
    }
}

/// List the runners of the workspace, oldest first
#[utoipa::path(get, path = "/v1/runners", tag = "code",
    security(("session" = ["admin"]), ("key" = ["agents:admin"])),
    params(PageQuery<RunnerId>), responses((status = 200, body = List<Runner>)))]
async fn list_runners(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    Query(query): Query<PageQuery<RunnerId>>,
) -> Result<Json<List<Runner>>, ApiError> {
    let page = query.page(LIMIT_MAX)?;
    let mut c = state.db.read().await?;
    let actor = member.enter(&mut c).await?;
    let rows = code::list_runners(&mut c, &actor).await?;
    Ok(Json(page.cut(rows, |runner: &Runner| runner.id)?))
}

/// Create a runner, which connects with the key in the response
///
/// The key is shown only once. A workspace can have 20 runners.
#[utoipa::path(post, path = "/v1/runners", tag = "code",
    security(("session" = ["admin"]), ("key" = ["agents:admin"])),
    request_body(content = RunnerForm, example = json!({"name": "build-1"})),
    responses((status = 201, body = RunnerWithKey)))]
async fn create_runner(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    Body(form): Body<RunnerForm>,
) -> Result<Response, ApiError> {
    let made = member
        .write(&state.db, async move |c, actor| {
            code::create_runner(c, actor, &form).await
        })
        .await?;
    Ok((StatusCode::CREATED, Json(made)).into_response())
}

/// Response of `DELETE /v1/runners/{id}`.
#[derive(Serialize, utoipa::ToSchema)]
struct DeletedRunner {
    id: RunnerId,
    #[schema(inline)]
    object: RunnerObject,
    /// Always true.
    deleted: bool,
}

/// Delete a runner with its repositories and their sessions; its connection ends
#[utoipa::path(delete, path = "/v1/runners/{id}", tag = "code",
    security(("session" = ["admin"]), ("key" = ["agents:admin"])),
    params(("id" = RunnerId, Path)), responses((status = 200, body = DeletedRunner)))]
async fn delete_runner(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<RunnerId>,
) -> Result<Json<DeletedRunner>, ApiError> {
    let workspace = {
        let mut c = state.db.read().await?;
        code::workspace_of_runner(&mut c, id).await?
    };
    let workspace = workspace.ok_or(CodeError::RunnerNotFound)?;
    WorkspaceCaller { caller, workspace }
        .write(&state.db, async move |c, actor| {
            code::delete_runner(c, actor, id).await
        })
        .await
        .map_err(|e| hide(e, CodeError::RunnerNotFound))?;
    Ok(Json(DeletedRunner {
        id,
        object: RunnerObject,
        deleted: true,
    }))
}

/// List the repositories of the workspace, oldest first
///
/// People who manage agents see all of them; others see those that are allowed in a channel of theirs.
#[utoipa::path(get, path = "/v1/repositories", tag = "code",
    security(("session" = ["viewer"]), ("key" = ["chat:read"])),
    params(PageQuery<RepositoryId>), responses((status = 200, body = List<Repository>)))]
async fn list_repositories(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    Query(query): Query<PageQuery<RepositoryId>>,
) -> Result<Json<List<Repository>>, ApiError> {
    let page = query.page(LIMIT_MAX)?;
    let mut c = state.db.scan(member.share()).await?;
    let actor = member.enter(&mut c).await?;
    let rows = code::list_repositories(&mut c, &actor).await?;
    Ok(Json(page.cut(rows, |one: &Repository| one.id)?))
}

/// Allow a repository in channels, or change who can start work on it
///
/// Everyone in these channels will see its code.
#[utoipa::path(patch, path = "/v1/repositories/{id}", tag = "code",
    security(("session" = ["admin"]), ("key" = ["agents:admin"])),
    params(("id" = RepositoryId, Path), ("If-Match" = inline(Option<IfMatch>), Header)),
    request_body(content = RepositoryPatch, example = json!({"state": "allowed", "starters": "members"})),
    responses((status = 200, body = Repository)))]
async fn patch_repository(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<RepositoryId>,
    IfMatch(expected): IfMatch,
    Body(patch): Body<RepositoryPatch>,
) -> Result<Response, ApiError> {
    let workspace = {
        let mut c = state.db.read().await?;
        code::workspace_of_repository(&mut c, id).await?
    };
    let workspace = workspace.ok_or(CodeError::RepositoryNotFound)?;
    let changed = WorkspaceCaller { caller, workspace }
        .write(&state.db, async move |c, actor| {
            code::patch_repository(c, actor, id, &patch, expected).await
        })
        .await
        .map_err(|e| hide(e, CodeError::RepositoryNotFound))?;
    Ok(tagged(StatusCode::OK, changed.version, &changed))
}

const PAGE: i64 = 20;
/// Cursor kind of the list of sessions.
const CURSOR: &str = "code-sessions";

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct SessionsQuery {
    /// Only sessions in this thread and its forks.
    thread_id: Option<ThreadId>,
    /// Only sessions in this state.
    #[param(inline)]
    state: Option<SessionState>,
    /// 1 to 100; 20 by default.
    #[param(inline)]
    limit: Option<Limit>,
    /// The `next_cursor` of the previous page.
    cursor: Option<String>,
}

/// List the work of agents on repositories in conversations that the caller can see, newest first
#[utoipa::path(get, path = "/v1/code-sessions", tag = "code",
    security(("session" = ["viewer"]), ("key" = ["chat:read"])),
    params(SessionsQuery), responses((status = 200, body = List<CodeSession>)))]
async fn list_code_sessions(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    Query(query): Query<SessionsQuery>,
) -> Result<Json<List<CodeSession>>, ApiError> {
    let mut c = state.db.scan(member.share()).await?;
    let actor = member.enter(&mut c).await?;
    actor.require(Scope::ChatRead)?;
    let limit = Limit::or(query.limit, PAGE);
    let before = query.cursor.as_deref().filter(|text| !text.is_empty());
    let before = before
        .map(|text| {
            cursor::read_id(CURSOR, text)
                .map(CodeSessionId)
                .ok_or_else(|| {
                    let text = "the cursor does not belong to a list of sessions: use `next_cursor` of the previous page";
                    ApiError::invalid(ErrorCode::InvalidCursor, text.to_owned(), "cursor")
                })
        })
        .transpose()?;
    if let Some(thread) = query.thread_id {
        let found = access::thread(&mut c, &member.caller, thread).await?;
        found.within(actor.workspace)?;
    }
    let filter = SessionFilter {
        thread: query.thread_id,
        state: query.state,
    };
    let (workspace, user) = (actor.workspace, actor.user);
    let found = code::list_sessions(&mut c, workspace, user, filter, before, limit + 1).await?;
    let shown = usize::try_from(limit).unwrap_or(usize::MAX);
    let next = (found.len() > shown)
        .then(|| found.get(shown - 1).map(|session| session.id))
        .flatten();
    let list = List::new(found, limit, false, |one: &CodeSession| one.id.to_string());
    let next = next.map(|id| cursor::write_id(CURSOR, id.0));
    Ok(Json(list.continued_at(next)))
}

/// Get a session: an agent's work on a repository in a conversation
#[utoipa::path(get, path = "/v1/code-sessions/{id}", tag = "code",
    security(("session" = ["viewer"]), ("key" = ["chat:read"])),
    params(("id" = CodeSessionId, Path)), responses((status = 200, body = CodeSession)))]
async fn get_code_session(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<CodeSessionId>,
) -> Result<Response, ApiError> {
    let mut c = state.db.read().await?;
    let session = code::get_session(&mut c, &caller, id).await?;
    Ok(tagged(StatusCode::OK, session.version, &session))
}

/// Body of `PATCH /v1/code-sessions/{id}`; absent fields stay as they are.
#[derive(Clone, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct SessionPatch {
    /// One line of 1 to 200 characters.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    title: Option<String>,
    /// At most 32 KiB.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    body: Option<String>,
}

/// Change the title and the text of the next commit
///
/// Allowed for people who can start work on the repository. A push that waits for approval is withdrawn, and another one with the new text
/// takes its place, as it does if the last push failed, or nobody decided in time. The text can also stay as it is.
#[utoipa::path(patch, path = "/v1/code-sessions/{id}", tag = "code",
    security(("session" = ["member"]), ("key" = ["chat:write"])),
    params(("id" = CodeSessionId, Path), ("If-Match" = inline(Option<IfMatch>), Header)),
    request_body(content = SessionPatch, example = json!({"title": "Fix the login"})),
    responses((status = 200, body = CodeSession)))]
async fn patch_code_session(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<CodeSessionId>,
    IfMatch(expected): IfMatch,
    Body(patch): Body<SessionPatch>,
) -> Result<Response, ApiError> {
    let key = workspace_of_session(&state, id).await?;
    let changed = state.db.write(key, async move |c: &mut Conn| {
        let SessionPatch { title, body } = patch.clone();
        code::change_text(c, &caller, id, title, body, expected).await
    });
    let changed = changed.await?;
    Ok(tagged(StatusCode::OK, changed.version, &changed))
}

/// Close a session: its copy on the runner is deleted, and the changes stay visible
///
/// Allowed for people who can start work on the repository. A new message applies the changes to a new copy.
#[utoipa::path(post, path = "/v1/code-sessions/{id}/close", tag = "code",
    security(("session" = ["member"]), ("key" = ["chat:write"])),
    params(("id" = CodeSessionId, Path)), responses((status = 200, body = CodeSession)))]
async fn close_code_session(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<CodeSessionId>,
    _: NoFields,
) -> Result<Response, ApiError> {
    let key = workspace_of_session(&state, id).await?;
    let closed = state.db.write(key, async move |c: &mut Conn| {
        code::close_session(c, &caller, id).await
    });
    let closed = closed.await?;
    Ok(tagged(StatusCode::OK, closed.version, &closed))
}

/// Key of the write queue of a session's workspace.
async fn workspace_of_session(state: &State, id: CodeSessionId) -> Result<Uuid, ApiError> {
    let workspace = {
        let mut c = state.db.read().await?;
        code::workspace_of_session(&mut c, id).await?
    };
    Ok(workspace.ok_or(CodeError::SessionNotFound)?.0)
}

/// Responds with a stored text.
fn text_response(kind: &'static str, text: Vec<u8>) -> Response {
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}

/// Restores a compressed text on a thread that may block.
async fn restored(content: Vec<u8>, owner: TextOwner) -> Result<Vec<u8>, ApiError> {
    let restored = blocking((), move || code::restore(&content, owner)).await;
    match restored {
        Ok(Ok(text)) => Ok(text),
        Ok(Err(_)) | Err(_) => Err(ApiError::internal()),
    }
}

/// Returns the text of a message with comments on the changes of a session, and what its metadata say about them.
///
/// # Errors
/// Same as `find_reviewed` and `with_comments`.
pub async fn reviewed(
    state: &State,
    caller: &Caller,
    conversation: Conversation,
    content: &str,
    form: &ReviewForm,
) -> Result<(String, MessageReview), ApiError> {
    let Reviewed { patch, agent } = {
        let mut c = state.db.read().await?;
        code::find_reviewed(&mut c, caller, conversation, form).await?
    };
    let patch = restored(patch, TextOwner::Patch(form.session_id)).await?;
    let (content, comments) = (content.to_owned(), form.comments.clone());
    // Each comment reads the patch up to its line.
    let text = blocking((), move || {
        let content = match agent {
            Some(agent) => code::with_mention(&content, &agent),
            None => content,
        };
        code::with_comments(&content, &String::from_utf8_lossy(&patch), &comments)
    });
    let text = text.await.map_err(|_| ApiError::internal())??;
    let review = MessageReview {
        session_id: form.session_id,
        tree: form.tree.clone(),
        comments: i64::try_from(form.comments.len()).unwrap_or(i64::MAX),
    };
    Ok((text, review))
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct PatchQuery {
    /// Tree of the changes, or of those that were pushed last; by default that of the changes.
    tree: Option<String>,
}

/// Get the changes of a session as a patch, or those that were pushed last
///
/// The response has status 409 and the code `diff_changed` if there is no patch of this tree.
#[utoipa::path(get, path = "/v1/code-sessions/{id}/patch", tag = "code",
    security(("session" = ["viewer"]), ("key" = ["chat:read"])),
    params(("id" = CodeSessionId, Path), PatchQuery),
    responses((status = 200, body = String, content_type = "text/plain", description = "The patch, as git writes it; empty without changes")))]
async fn get_code_patch(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<CodeSessionId>,
    Query(query): Query<PatchQuery>,
) -> Result<Response, ApiError> {
    let mut c = state.db.read().await?;
    let session = code::get_session(&mut c, &caller, id).await?;
    let owner = TextOwner::Patch(id);
    let pushed = session.pushed.and_then(|pushed| pushed.tree);
    let content = match query.tree {
        None => code::find_text(&mut c, id, owner).await?,
        tree if tree == session.tree => code::find_text(&mut c, id, owner).await?,
        tree if tree == pushed => code::find_pushed(&mut c, id).await?,
        Some(_) => return Err(ApiError::from(CodeError::DiffChanged).param("tree")),
    };
    drop(c);
    let text = match content {
        Some(content) => restored(content, owner).await?,
        None => Vec::new(),
    };
    Ok(text_response("text/plain; charset=utf-8", text))
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct LogQuery {
    /// The task of the turn.
    task_id: TaskId,
}

/// Get the log of a turn: a JSON object per line
///
/// Before the turn has ended, the lines are its steps so far.
#[utoipa::path(get, path = "/v1/code-sessions/{id}/log", tag = "code",
    security(("session" = ["viewer"]), ("key" = ["chat:read"])),
    params(("id" = CodeSessionId, Path), LogQuery),
    responses((status = 200, body = String, content_type = "application/x-ndjson", description = "Lines with `kind`: `step` or `content`")))]
async fn get_code_log(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<CodeSessionId>,
    Query(query): Query<LogQuery>,
) -> Result<Response, ApiError> {
    let mut c = state.db.read().await?;
    let session = code::get_session(&mut c, &caller, id).await?;
    let task = queue::find_task(&mut c, query.task_id).await?;
    let is_of_session = task.is_some_and(|task| {
        task.thread_id == Some(session.thread_id)
            && task.fork_id == session.fork_id
            && task.agent_id == Some(session.agent_id)
    });
    if !is_of_session {
        return Err(ChatError::TaskNotFound.into());
    }
    let owner = TextOwner::Log(query.task_id);
    let content = code::find_text(&mut c, id, owner).await?;
    let text = if let Some(content) = content {
        drop(c);
        restored(content, owner).await?
    } else {
        let steps = code::list_steps(&mut c, query.task_id).await?;
        let mut text = Vec::new();
        for step in steps {
            let line = json!({
                "kind": "step", "step": step.n, "title": step.title, "tool": step.kind, "state": step.state, "ms": step.ms,
            });
            text.extend_from_slice(line.to_string().as_bytes());
            text.push(b'\n');
        }
        text
    };
    Ok(text_response("application/x-ndjson", text))
}

/// Name of a text in the routes for runners.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum TextName {
    Patch,
    Log,
}

#[derive(Debug, Deserialize)]
struct TextQuery {
    task_id: Option<TaskId>,
}

/// Time in which a runner must send a text.
const TEXT_WITHIN: Duration = Duration::from_mins(5);

/// `PUT /v1/runner/sessions/{id}/patch` or `…/log`: stores a text of a session of the runner.
async fn store_text(
    axum::extract::State(state): St,
    Address(address): Address,
    Extension(pool): Extension<Arc<Pool<RunnerId>>>,
    Path((id, name)): Path<(CodeSessionId, TextName)>,
    Query(query): Query<TextQuery>,
    request: Request,
) -> Result<StatusCode, ApiError> {
    let runner = runner_of(&state, request.headers(), address).await?;
    let owner = match (name, query.task_id) {
        (TextName::Patch, _) => TextOwner::Patch(id),
        (TextName::Log, Some(task)) => TextOwner::Log(task),
        (TextName::Log, None) => return Err(ChatError::TaskNotFound.into()),
    };
    let task = query.task_id.ok_or(ChatError::TaskNotFound)?;
    {
        let mut c = state.db.read().await?;
        code::check_text(&mut c, runner, id, task).await?;
    }
    let room = take(&pool, runner.id, 0)?;
    let (request, room) = read(request, room, owner.bytes_max(), TEXT_WITHIN).await?;
    let RawBody(bytes) = RawBody::from_request(request, &state).await?;
    let compressed = blocking(room, move || code::compress(&bytes)).await;
    let Ok(Ok(content)) = compressed else {
        return Err(ApiError::internal());
    };
    let stored = state
        .db
        .write(runner.workspace_id.0, async move |c: &mut Conn| {
            code::put_text(c, runner, id, task, owner, content.clone()).await
        });
    stored.await?;
    Ok(StatusCode::NO_CONTENT)
}

/// `GET /v1/runner/sessions/{id}/patch`: the patch that a new copy gets; 404 if there is none.
async fn read_text(
    axum::extract::State(state): St,
    Address(address): Address,
    Path((id, name)): Path<(CodeSessionId, TextName)>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let runner = runner_of(&state, &headers, address).await?;
    let owner = match name {
        TextName::Patch => TextOwner::Patch(id),
        TextName::Log => return Err(ApiError::no_route()),
    };
    let mut c = state.db.read().await?;
    code::check_session(&mut c, runner, id).await?;
    let content = code::find_text(&mut c, id, owner).await?;
    drop(c);
    let content = content.ok_or_else(ApiError::no_route)?;
    let text = restored(content, owner).await?;
    Ok(text_response("text/plain; charset=utf-8", text))
}

/// `PUT /v1/runner/reads/{id}`: stores a folder that the runner was asked for: a zip file, or as another type the reason why there is none.
async fn store_folder(
    axum::extract::State(state): St,
    Address(address): Address,
    Extension(pool): Extension<Arc<Pool<RunnerId>>>,
    Path(id): Path<Uuid>,
    request: Request,
) -> Result<StatusCode, ApiError> {
    let runner = runner_of(&state, request.headers(), address).await?;
    let kind = request.headers().get(header::CONTENT_TYPE);
    let is_archive = kind.is_some_and(|kind| kind == "application/zip");
    let room = take(&pool, runner.id, 0)?;
    let (request, _room) = read(request, room, code::ARCHIVE_BYTES_MAX, TEXT_WITHIN).await?;
    let RawBody(bytes) = RawBody::from_request(request, &state).await?;
    let answer = if is_archive {
        FolderAnswer::Archive(bytes.to_vec())
    } else {
        FolderAnswer::Problem(String::from_utf8_lossy(&bytes).into_owned())
    };
    let stored = state
        .db
        .write(runner.workspace_id.0, async move |c: &mut Conn| {
            code::answer_folder(c, runner, id, answer.clone()).await
        });
    stored.await?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Debug, Deserialize)]
struct TurnQuery {
    task_id: TaskId,
}

/// Skills that a turn of a runner can use now.
async fn turn_skills(
    c: &mut Conn,
    runner: RunnerIdentity,
    session: CodeSessionId,
    task: TaskId,
) -> Result<Vec<TurnSkill>, CodeError> {
    lock_workspace(c, runner.workspace_id.0).await?;
    code::check_turn(c, runner, session, task).await?;
    let task = queue::find_task(c, task).await?;
    let task = task.filter(Task::is_active);
    let task = task.ok_or(CodeError::SessionNotFound)?;
    Ok(skills::list_for_turn(c, &task).await?)
}

/// `GET /v1/runner/sessions/{id}/skills?task_id=`: the skills that a turn can use now, by name: `{skills: [{id, name, version}]}`. They taint
/// the turn, because the runner can have their files already.
async fn list_turn_skills(
    axum::extract::State(state): St,
    Address(address): Address,
    Path(id): Path<CodeSessionId>,
    Query(TurnQuery { task_id }): Query<TurnQuery>,
    headers: HeaderMap,
) -> Result<Json<Value>, ApiError> {
    let runner = runner_of(&state, &headers, address).await?;
    let listing = state
        .db
        .write(runner.workspace_id.0, async move |c: &mut Conn| {
            let found = turn_skills(c, runner, id, task_id).await?;
            let authored = found.iter().map(|one| one.authored.clone());
            taint::add_texts(c, task_id, &authored.collect::<Vec<_>>()).await?;
            Ok::<_, CodeError>(found)
        });
    let listed = listing.await?;
    let listed = listed.into_iter().map(|TurnSkill { skill, .. }| {
        json!({"id": skill.id, "name": skill.name, "version": skill.version})
    });
    Ok(Json(json!({"skills": listed.collect::<Vec<_>>()})))
}

/// `GET /v1/runner/sessions/{id}/skills/{skill_id}?task_id=`: the files of a skill that a turn can use now:
/// `{version, files: [{path, content}]}`; 404 otherwise. The skill taints the turn.
async fn get_turn_skill(
    axum::extract::State(state): St,
    Address(address): Address,
    Path((id, skill_id)): Path<(CodeSessionId, SkillId)>,
    Query(TurnQuery { task_id }): Query<TurnQuery>,
    headers: HeaderMap,
) -> Result<Json<Value>, ApiError> {
    let runner = runner_of(&state, &headers, address).await?;
    let reading = state
        .db
        .write(runner.workspace_id.0, async move |c: &mut Conn| {
            let found = turn_skills(c, runner, id, task_id).await?;
            let found = found.into_iter().find(|one| one.skill.id == skill_id);
            let Some(TurnSkill { skill, authored }) = found else {
                return Ok(None);
            };
            taint::add_texts(c, task_id, &[authored]).await?;
            let files = list_skill_files(c, skill_id).await?;
            Ok::<_, CodeError>(Some((skill.version, files)))
        });
    let found = reading.await?;
    let (version, files) = found.ok_or_else(|| ApiError::from(AgentError::SkillNotFound))?;
    Ok(Json(json!({"version": version, "files": files})))
}
