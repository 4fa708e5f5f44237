//! HTTP routes for memory.

use axum::{
    Json,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use utoipa_axum::router::OpenApiRouter;

use crate::{
    auth::{Actor, AuthError, Caller, Scope, WorkspaceCaller},
    chat::post,
    db::Conn,
    http::{
        ApiError, ErrorCode,
        extract::{Body, IfMatch, NoFields, Path, Query},
        page::{Limit, List},
        routing::routes,
    },
    ids::{AgentId, MemoryId, MessageId, ThreadId, UserId},
    memory::{
        MemoryError,
        change::{self, EntryPatch},
        content::Content,
        create::{self, NewEntry},
        entry::{Entry, MemoryKind, MemoryObject, MemoryScope, MemoryStatus, Visibility},
        find,
        forget::{self, Owner, Remaining, Subject},
        list::{self, Filter},
        publish,
        settings::{self, MemorySettings, MemorySettingsPatch},
        user_file::{UserFile, UserFileForm},
        user_file_change,
    },
    patch::present,
    server::{State, caller::FreeDiskSpace},
    text_enum::text_enum,
};

const ENTRIES_PAGE: i64 = 20;

type St = axum::extract::State<State>;

pub fn router() -> OpenApiRouter<State> {
    OpenApiRouter::new()
        .routes(routes!(list_memories, create_memory, forget_memories))
        .routes(routes!(get_memory, change_memory, forget_memory))
        .routes(routes!(publish_memory))
        .routes(routes!(get_memory_settings, change_memory_settings))
        .routes(routes!(get_user_file, put_user_file, delete_user_file))
}

text_enum! {
    /// The value `me`: the caller.
    enum Me {
        Me = "me",
    }
}

/// Returns an entry with its version as the `ETag`.
fn tagged(status: StatusCode, entry: &Entry) -> Response {
    let etag = format!("\"{}\"", entry.version);
    (status, [(header::ETAG, etag)], Json(entry)).into_response()
}

/// Requires the key scope for reading entries of this memory scope. If no memory scope is specified, any key scope that allows
/// reading entries is enough.
fn require_reading(actor: &Actor<'_>, scope: Option<MemoryScope>) -> Result<(), AuthError> {
    match scope {
        Some(MemoryScope::Agent) => actor.require(Scope::AgentsRead),
        None if actor.scopes.has(Scope::AgentsRead) => Ok(()),
        _ => actor.require(Scope::ChatRead),
    }
}

/// Returns the caller as a member of the entry's workspace.
async fn member_of(
    c: &mut Conn,
    caller: Caller,
    id: MemoryId,
) -> Result<WorkspaceCaller, MemoryError> {
    let workspace = find::workspace_of(c, id).await?;
    Ok(WorkspaceCaller { caller, workspace })
}

/// Reports an entry of another workspace as absent.
fn hide(error: MemoryError) -> MemoryError {
    match error {
        MemoryError::Auth(AuthError::WorkspaceNotFound) => MemoryError::NotFound,
        other => other,
    }
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct MemoriesQuery {
    #[param(inline)]
    scope: Option<MemoryScope>,
    #[param(inline)]
    kind: Option<MemoryKind>,
    agent_id: Option<AgentId>,
    /// `me`: what agents remember for the caller.
    #[param(inline)]
    user_id: Option<Me>,
    /// `me`: entries about the caller.
    #[param(inline)]
    about: Option<Me>,
    thread_id: Option<ThreadId>,
    /// Only entries with this status; `active` and `stale` entries if omitted.
    #[param(inline)]
    status: Option<MemoryStatus>,
    /// Only entries that contain these words, in any form.
    q: Option<String>,
    /// 1 to 100; 20 by default.
    #[param(inline)]
    limit: Option<Limit>,
    /// The `next_cursor` of the previous page.
    cursor: Option<String>,
}

/// List the memory entries that the caller can see, newest first
///
/// With an API key, `chat:read` lists all entries except those of the scope `agent`, which require `agents:read`.
#[utoipa::path(get, path = "/v1/memories", tag = "memory",
    security(("session" = ["viewer"]), ("key" = ["chat:read"])),
    params(MemoriesQuery), responses((status = 200, body = List<Entry>)))]
async fn list_memories(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    Query(query): Query<MemoriesQuery>,
) -> Result<Json<List<Entry>>, ApiError> {
    let limit = Limit::or(query.limit, ENTRIES_PAGE);
    let before = list::parse_cursor(query.cursor.as_deref())?;
    let mut c = state.db.scan(member.share()).await?;
    let actor = member.enter(&mut c).await?;
    require_reading(&actor, query.scope)?;
    list::check_objects(
        &mut c,
        &member.caller,
        &actor,
        query.thread_id,
        query.agent_id,
    )
    .await?;
    let filter = Filter {
        scope: query.scope,
        kind: query.kind,
        agent: query.agent_id,
        user: query.user_id.map(|_| actor.user),
        about: query.about.map(|_| actor.user),
        thread: query.thread_id,
        status: query.status,
        query: query.q,
    };
    let (entries, next_cursor) = list::list(&mut c, &actor, &filter, before, limit).await?;
    let list = List::new(entries, limit, false, |entry: &Entry| entry.id.to_string());
    Ok(Json(list.continued_at(next_cursor)))
}

#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct MemoryForm {
    /// 1 to 1,000 characters; must not contain passwords, keys, or card numbers.
    text: String,
    kind: MemoryKind,
    /// Defaults to `conversation` if `thread_id` is set, otherwise to `user`. `persona` and `agent` require `agent_id`. Entries of
    /// the scopes `user` and `persona` belong to the caller.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    scope: Option<MemoryScope>,
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    agent_id: Option<AgentId>,
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    thread_id: Option<ThreadId>,
    /// Messages that the caller can read. The entry becomes stale when one of them is edited, and is forgotten when the last one is
    /// deleted.
    #[serde(default)]
    #[schema(max_items = 20)]
    source_message_ids: Vec<MessageId>,
    /// Defaults to `channel` for a conversation, otherwise to `workspace` if everyone can read the sources.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    visibility: Option<Visibility>,
    /// ID chosen by the client. A request that repeats an ID returns the first entry with status 200.
    client_id: Option<String>,
}

/// Remember something
///
/// An identical text with the same owner and visibility is stored only once; repeating it returns 200. For the scope `agent`,
/// keys also need `agents:write`.
#[utoipa::path(post, path = "/v1/memories", tag = "memory",
    security(("session" = ["member"]), ("key" = ["chat:write"])),
    request_body(content = MemoryForm,
        example = json!({"text": "Prefers short answers with sources", "kind": "preference", "client_id": "5f0c2b1e"})),
    responses((status = 201, body = Entry), (status = 200, body = Entry, description = "Already known: the existing entry")))]
async fn create_memory(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    Body(form): Body<MemoryForm>,
) -> Result<Response, ApiError> {
    let new = NewEntry {
        content: Content::parse(&form.text, member.workspace, &state.keyring)?,
        kind: form.kind,
        scope: form.scope,
        agent: form.agent_id,
        thread: form.thread_id,
        sources: form.source_message_ids,
        visibility: form.visibility,
        client_id: post::parse_client_id(form.client_id)?,
    };
    let caller = member.caller.clone();
    let created = member
        .write(&state.db, async move |c, actor| {
            create::create(c, &caller, actor, &new).await
        })
        .await?;
    let status = if created.is_new {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    };
    Ok(tagged(status, &created.entry))
}

/// Get a memory entry
///
/// For the scope `agent`, keys need `agents:read` instead.
#[utoipa::path(get, path = "/v1/memories/{id}", tag = "memory",
    security(("session" = ["viewer"]), ("key" = ["chat:read"])),
    params(("id" = MemoryId, Path)), responses((status = 200, body = Entry)))]
async fn get_memory(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<MemoryId>,
) -> Result<Response, ApiError> {
    let mut c = state.db.read().await?;
    let member = member_of(&mut c, caller, id).await?;
    let actor = member.enter(&mut c).await.map_err(|e| hide(e.into()))?;
    require_reading(&actor, None)?;
    Ok(tagged(
        StatusCode::OK,
        &find::get(&mut c, &actor, id).await?,
    ))
}

#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct MemoryChange {
    /// New text; sets the origin to `hand` and confirms a stale entry.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    text: Option<String>,
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    kind: Option<MemoryKind>,
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    visibility: Option<Visibility>,
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    share_with_organization: Option<bool>,
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    flagged: Option<bool>,
    /// `active` (confirms a stale entry) or `archived`.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    status: Option<MemoryStatus>,
}

/// Change a memory entry
///
/// Allowed for anyone who can post in the conversation (scope `conversation`), for the person to whom the entry belongs (`user` and
/// `persona`), for callers with `agents:write` (`agent`), or for admins (`organization`).
#[utoipa::path(patch, path = "/v1/memories/{id}", tag = "memory",
    security(("session" = ["viewer"]), ("key" = ["chat:write"])),
    params(("id" = MemoryId, Path), ("If-Match" = inline(Option<IfMatch>), Header)),
    request_body(content = MemoryChange,
        example = json!({"text": "Prefers short answers", "share_with_organization": true})),
    responses((status = 200, body = Entry)))]
async fn change_memory(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<MemoryId>,
    IfMatch(expected): IfMatch,
    Body(form): Body<MemoryChange>,
) -> Result<Response, ApiError> {
    let member = member_of(&mut state.db.read().await?, caller.clone(), id).await?;
    let patch = EntryPatch {
        text: form.text,
        kind: form.kind,
        visibility: form.visibility,
        share_with_organization: form.share_with_organization,
        flagged: form.flagged,
        status: form.status,
    };
    let keyring = std::sync::Arc::clone(&state.keyring);
    let changed = member
        .write(&state.db, async move |c, actor| {
            change::change(c, &caller, actor, id, expected, &patch, &keyring).await
        })
        .await
        .map_err(hide)?;
    Ok(tagged(StatusCode::OK, &changed))
}

#[derive(Serialize, utoipa::ToSchema)]
struct Forgotten {
    id: MemoryId,
    #[schema(inline)]
    object: MemoryObject,
    /// Always true.
    deleted: bool,
    /// Rows that still contain the text, counted after the deletion.
    remaining: Remaining,
}

/// Forget a memory entry
///
/// Removes its text from memory, the index, and the records of prompts, together with copies that were published from it. Anyone who
/// can change the entry can forget it, and so can the person whom it is about.
#[utoipa::path(delete, path = "/v1/memories/{id}", tag = "memory",
    security(("session" = ["viewer"]), ("key" = ["chat:write"])),
    params(("id" = MemoryId, Path), ("If-Match" = inline(Option<IfMatch>), Header)), responses((status = 200, body = Forgotten)))]
async fn forget_memory(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<MemoryId>,
    IfMatch(expected): IfMatch,
) -> Result<Json<Forgotten>, ApiError> {
    let member = member_of(&mut state.db.read().await?, caller.clone(), id).await?;
    let remaining = member
        .write(&state.db, async move |c, actor| {
            forget::forget(c, &caller, actor, id, expected).await
        })
        .await
        .map_err(hide)?;
    scrub(&state).await;
    Ok(Json(Forgotten {
        id,
        object: MemoryObject,
        deleted: true,
        remaining,
    }))
}

async fn scrub(state: &State) {
    if let Err(e) = state.db.scrub().await {
        tracing::warn!(error = %e, "forgotten texts may remain in the write-ahead log until the next checkpoint");
    }
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ForgetQuery {
    /// `me`, or for admins any `user_…`: forgets all entries of the scopes `user` and `persona`.
    user_id: Option<String>,
    /// Forgets all entries of the thread and its forks.
    thread_id: Option<ThreadId>,
    /// Forgets all entries of the scope `agent`. The agent's files are kept.
    agent_id: Option<AgentId>,
}

/// Number of entries that were forgotten.
#[derive(Serialize, utoipa::ToSchema)]
struct ForgottenAll {
    deleted: i64,
}

/// Forget all memory entries of a person, a thread, or an agent
///
/// Requires exactly one parameter. For `agent_id`, keys need `agents:write` instead.
#[utoipa::path(delete, path = "/v1/memories", tag = "memory",
    security(("session" = ["viewer"]), ("key" = ["chat:write"])),
    params(ForgetQuery), responses((status = 200, body = ForgottenAll)))]
async fn forget_memories(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    Query(query): Query<ForgetQuery>,
) -> Result<Json<ForgottenAll>, ApiError> {
    let subject = match (query.user_id.as_deref(), query.thread_id, query.agent_id) {
        (Some("me"), None, None) => Subject::Person(Owner::Me),
        (Some(user), None, None) => {
            let user: UserId = user.parse().map_err(|e: crate::ids::IdError| {
                ApiError::invalid(ErrorCode::InvalidId, e.to_string(), "user_id")
            })?;
            Subject::Person(Owner::User(user))
        }
        (None, Some(thread), None) => Subject::Thread(thread),
        (None, None, Some(agent)) => Subject::Agent(agent),
        _ => {
            let rule = "specify exactly one of user_id, thread_id, and agent_id";
            return Err(ApiError::invalid(
                ErrorCode::InvalidQuery,
                rule.to_owned(),
                "query",
            ));
        }
    };
    let mut deleted = 0;
    loop {
        let (member, caller) = (member.clone(), member.caller.clone());
        let some = member
            .write(&state.db, async move |c, actor| {
                forget::forget_some(c, &caller, actor, subject).await
            })
            .await?;
        if some == 0 {
            break;
        }
        deleted += some;
    }
    if let Subject::Person(Owner::User(user)) = subject {
        member
            .write(&state.db, async move |c, actor| {
                forget::record(c, actor, user, deleted).await
            })
            .await?;
    }
    scrub(&state).await;
    Ok(Json(ForgottenAll { deleted }))
}

/// Publish an entry for the whole workspace
///
/// Copies a fact, person, project, or decision to the scope `organization`, if `share_with_organization` is set.
#[utoipa::path(post, path = "/v1/memories/{id}/publish", tag = "memory",
    security(("session" = ["admin"]), ("key" = ["chat:read", "workspace:admin"])),
    params(("id" = MemoryId, Path)), responses((status = 201, body = Entry)))]
async fn publish_memory(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<MemoryId>,
    _: NoFields,
) -> Result<Response, ApiError> {
    let member = member_of(&mut state.db.read().await?, caller, id).await?;
    let keyring = std::sync::Arc::clone(&state.keyring);
    let copy = member
        .write(&state.db, async move |c, actor| {
            publish::publish(c, actor, id, &keyring).await
        })
        .await
        .map_err(hide)?;
    Ok(tagged(StatusCode::CREATED, &copy))
}

/// Get the caller's memory switches
#[utoipa::path(get, path = "/v1/memory-settings", tag = "memory",
    security(("session" = ["viewer"]), ("key" = ["chat:read"])),
    responses((status = 200, body = MemorySettings)))]
async fn get_memory_settings(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
) -> Result<Json<MemorySettings>, ApiError> {
    let mut c = state.db.read().await?;
    let actor = member.enter(&mut c).await?;
    Ok(Json(settings::get(&mut c, &actor).await?))
}

/// Change the caller's memory switches
///
/// When a switch is turned off, agents immediately stop writing and using the memories that it controls; existing memories remain
/// until they are forgotten. `adapt` lets agents adapt to the caller, if the workspace allows it.
#[utoipa::path(patch, path = "/v1/memory-settings", tag = "memory",
    security(("session" = ["viewer"]), ("key" = ["chat:write"])),
    request_body(content = MemorySettingsPatch, example = json!({"enabled": false})),
    responses((status = 200, body = MemorySettings)))]
async fn change_memory_settings(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    Body(patch): Body<MemorySettingsPatch>,
) -> Result<Json<MemorySettings>, ApiError> {
    let settings = member
        .write(&state.db, async move |c, actor| {
            settings::change(c, actor, &patch).await
        })
        .await?;
    Ok(Json(settings))
}

/// Returns the file with its version as the `ETag`.
fn user_file_response(file: &UserFile) -> Response {
    let etag = format!("\"{}\"", file.version);
    ([(header::ETAG, etag)], Json(file)).into_response()
}

/// Get the caller's USER.md
///
/// Text in which the caller tells agents about themselves in this workspace; empty if it was never written or was deleted.
#[utoipa::path(get, path = "/v1/members/me/files/USER.md", tag = "memory",
    security(("session" = ["viewer"]), ("key" = ["chat:read"])),
    responses((status = 200, body = UserFile)))]
async fn get_user_file(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
) -> Result<Response, ApiError> {
    let mut c = state.db.read().await?;
    let actor = member.enter(&mut c).await?;
    let file = user_file_change::get(&mut c, &actor).await?;
    Ok(user_file_response(&file))
}

/// Write the caller's USER.md
///
/// Agents read it when they reply to the caller; with `direct`, only in direct messages with agents. Records of prompts show it
/// only to the caller.
#[utoipa::path(put, path = "/v1/members/me/files/USER.md", tag = "memory",
    security(("session" = ["viewer"]), ("key" = ["chat:write"])),
    params(("If-Match" = inline(Option<IfMatch>), Header)),
    request_body(content = UserFileForm,
        example = json!({"content": "I work from Lisbon, and prefer short answers.\n", "visibility": "workspace"})),
    responses((status = 200, body = UserFile)))]
async fn put_user_file(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    _: FreeDiskSpace,
    IfMatch(expected): IfMatch,
    Body(form): Body<UserFileForm>,
) -> Result<Response, ApiError> {
    let file = member
        .write(&state.db, async move |c, actor| {
            user_file_change::write(c, actor, &form, expected).await
        })
        .await?;
    Ok(user_file_response(&file))
}

/// Delete the caller's USER.md
#[utoipa::path(delete, path = "/v1/members/me/files/USER.md", tag = "memory",
    security(("session" = ["viewer"]), ("key" = ["chat:write"])),
    params(("If-Match" = inline(Option<IfMatch>), Header)), responses((status = 204)))]
async fn delete_user_file(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    IfMatch(expected): IfMatch,
) -> Result<StatusCode, ApiError> {
    member
        .write(&state.db, async move |c, actor| {
            user_file_change::delete(c, actor, expected).await
        })
        .await?;
    scrub(&state).await;
    Ok(StatusCode::NO_CONTENT)
}
