//! Accounts, workspaces, people and keys over HTTP.

use axum::{
    Json,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use axum_extra::extract::cookie::{Cookie, SameSite};
use serde::{Deserialize, Serialize};
use utoipa_axum::{router::OpenApiRouter, routes};
use uuid::Uuid;

use super::{
    Actor, ApiKey, AuditEntry, AuthError, Caller, DisplayName, Invite, Member, MyWorkspace, Role,
    Scope, Scopes, Session, User, Workspace, audit, invites, keys, members, sessions, users,
    workspaces,
};
use crate::{
    chat::found::found_workspace,
    config::Signup,
    db::Conn,
    http::{
        ApiError, State,
        extract::{Address, Body, Path, Query},
        page::{List, PageQuery},
    },
    ids::{ApiKeyId, InviteId, SessionId, UserId, WorkspaceId},
    realtime::Close,
};

type St = axum::extract::State<State>;

pub fn router() -> OpenApiRouter<State> {
    OpenApiRouter::new()
        .routes(routes!(setup))
        .routes(routes!(signup))
        .routes(routes!(login))
        .routes(routes!(logout))
        .routes(routes!(me, update_me))
        .routes(routes!(password))
        .routes(routes!(list_sessions))
        .routes(routes!(end_session))
        .routes(routes!(list_workspaces, create_workspace))
        .routes(routes!(get_workspace, update_workspace))
        .routes(routes!(list_members))
        .routes(routes!(update_member, remove_member))
        .routes(routes!(list_invites, create_invite))
        .routes(routes!(get_invite, withdraw_invite))
        .routes(routes!(accept_invite))
        .routes(routes!(list_audit_log))
        .routes(routes!(list_keys, create_key))
        .routes(routes!(delete_key))
}

/// What a client has to know before anyone is signed in.
#[derive(Serialize, utoipa::ToSchema)]
struct Setup {
    /// No account exists yet.
    needs_setup: bool,
    /// `first`, `open` or `invite`.
    signup: &'static str,
    /// The first account has to show the token of the link that the server printed.
    setup_token_required: bool,
}

/// Whether this server has to be set up, and who may sign up
#[utoipa::path(get, path = "/v1/auth/setup", tag = "accounts", security(()), responses((status = 200, body = Setup)))]
async fn setup(axum::extract::State(state): St) -> Result<Json<Setup>, ApiError> {
    let needs_setup = !users::any_account(&mut state.db.read().await?).await?;
    Ok(Json(Setup {
        needs_setup,
        signup: state.config.signup.as_str(),
        setup_token_required: needs_setup
            && state.setup_token.is_some()
            && state.config.signup != Signup::Invite,
    }))
}

/// A signed-in person and where they are a member.
#[derive(Serialize, utoipa::ToSchema)]
struct Account {
    user: User,
    workspaces: Vec<MyWorkspace>,
}

async fn account(c: &mut Conn, user: UserId) -> Result<Account, AuthError> {
    Ok(Account {
        user: users::get_user(c, user).await?,
        workspaces: workspaces::list_mine(c, user).await?,
    })
}

fn cookie(state: &State, token: &str, max_age_s: u64) -> String {
    let mut cookie = Cookie::new(super::SESSION_COOKIE, token.to_owned());
    cookie.set_http_only(true);
    cookie.set_same_site(SameSite::Lax);
    cookie.set_path("/");
    cookie.set_secure(state.is_https());
    let mut text = cookie.to_string();
    text.push_str("; Max-Age=");
    text.push_str(&max_age_s.to_string());
    text
}

/// Starts a session and answers with its cookie.
async fn signed_in(
    state: &State,
    status: StatusCode,
    user: UserId,
    headers: &HeaderMap,
    address: &Address,
) -> Result<Response, ApiError> {
    let agent = headers
        .get(header::USER_AGENT)
        .and_then(|v| v.to_str().ok())
        .map(str::to_owned);
    let address = address.0.to_string();
    let token = state
        .db
        .write(Uuid::nil(), async move |c: &mut Conn| {
            sessions::start(c, user, agent.clone(), address.clone()).await
        })
        .await?;
    let account = account(&mut state.db.read().await?, user).await?;
    let cookie = cookie(state, &token, sessions::SESSION_LIFETIME.as_secs());
    Ok((status, [(header::SET_COOKIE, cookie)], Json(account)).into_response())
}

#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct SignupForm {
    email: String,
    /// At least 8 characters.
    password: String,
    name: String,
    /// The token of an invite link.
    invite: Option<String>,
    /// Of the link that the server printed, where it asks for one.
    setup_token: Option<String>,
}

/// Make an account
#[utoipa::path(post, path = "/v1/auth/signup", tag = "accounts", security(()), request_body = SignupForm,
    responses((status = 201, body = Account, description = "Signed in: the session is in the cookie")))]
async fn signup(
    axum::extract::State(state): St,
    headers: HeaderMap,
    address: Address,
    Body(form): Body<SignupForm>,
) -> Result<Response, ApiError> {
    let form = users::SignUp {
        email: form.email,
        name: form.name,
        password: form.password,
        invite: form.invite,
        setup_token: form.setup_token,
    };
    let new = users::sign_up(
        &state.db,
        &state.hasher,
        state.config.signup,
        state.setup_token.clone(),
        form,
    )
    .await?;
    signed_in(&state, StatusCode::CREATED, new.user.id, &headers, &address).await
}

#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct LoginForm {
    email: String,
    password: String,
}

/// Log in
#[utoipa::path(post, path = "/v1/auth/login", tag = "accounts", security(()), request_body = LoginForm,
    responses((status = 200, body = Account, description = "Signed in: the session is in the cookie")))]
async fn login(
    axum::extract::State(state): St,
    headers: HeaderMap,
    address: Address,
    Body(form): Body<LoginForm>,
) -> Result<Response, ApiError> {
    let email = form.email.trim().to_lowercase();
    state.login_limits.check(&email, address.0)?;
    let found = users::find_password(&mut state.db.read().await?, &email).await?;
    let (user, hash) = found.unzip();
    let right = state.hasher.verify(form.password, hash).await?;
    let Some(user) = user.filter(|_| right) else {
        state.login_limits.failed(&email, address.0);
        return Err(AuthError::WrongPassword.into());
    };
    signed_in(&state, StatusCode::OK, user, &headers, &address).await
}

/// End this session
#[utoipa::path(post, path = "/v1/auth/logout", tag = "accounts", responses((status = 204)))]
async fn logout(axum::extract::State(state): St, caller: Caller) -> Result<Response, ApiError> {
    let (user, id) = (caller.user, caller.require_session()?);
    state
        .db
        .write(Uuid::nil(), async move |c: &mut Conn| {
            sessions::end(c, user, id).await
        })
        .await?;
    state
        .hub
        .close_where(Close::NotAuthenticated, |socket| socket.session == Some(id));
    Ok((
        StatusCode::NO_CONTENT,
        [(header::SET_COOKIE, cookie(&state, "", 0))],
    )
        .into_response())
}

/// Who is signed in
#[utoipa::path(get, path = "/v1/auth/me", tag = "accounts", responses((status = 200, body = Account)))]
async fn me(axum::extract::State(state): St, caller: Caller) -> Result<Json<Account>, ApiError> {
    Ok(Json(
        account(&mut state.db.read().await?, caller.user).await?,
    ))
}

#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct MePatch {
    name: Option<String>,
}

/// Change one's own name
#[utoipa::path(patch, path = "/v1/auth/me", tag = "accounts", request_body = MePatch, responses((status = 200, body = Account)))]
async fn update_me(
    axum::extract::State(state): St,
    caller: Caller,
    Body(patch): Body<MePatch>,
) -> Result<Json<Account>, ApiError> {
    caller.require_session()?;
    let name = patch
        .name
        .map(|name| DisplayName::parse(&name, "name"))
        .transpose()?;
    let user = caller.user;
    if let Some(name) = name {
        users::rename(&state.db, user, name).await?;
    }
    Ok(Json(account(&mut state.db.read().await?, user).await?))
}

#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct PasswordForm {
    current_password: String,
    /// At least 8 characters.
    new_password: String,
}

/// Change one's password; every other session ends
#[utoipa::path(post, path = "/v1/auth/password", tag = "accounts", request_body = PasswordForm, responses((status = 204)))]
async fn password(
    axum::extract::State(state): St,
    caller: Caller,
    address: Address,
    Body(form): Body<PasswordForm>,
) -> Result<StatusCode, ApiError> {
    let (user, session) = (caller.user, caller.require_session()?);
    super::password::check_password(&form.new_password)?;
    let email = users::get_user(&mut state.db.read().await?, user)
        .await?
        .email;
    state.login_limits.check(&email, address.0)?;
    let found = users::find_password(&mut state.db.read().await?, &email).await?;
    if !state
        .hasher
        .verify(form.current_password, found.map(|(_, hash)| hash))
        .await?
    {
        state.login_limits.failed(&email, address.0);
        return Err(AuthError::WrongCurrentPassword.into());
    }
    let hash = state.hasher.hash(form.new_password).await?;
    state
        .db
        .write(Uuid::nil(), async move |c: &mut Conn| {
            users::set_password(c, user, &hash).await?;
            sessions::end_others(c, user, session).await
        })
        .await?;
    state.hub.close_where(Close::NotAuthenticated, |socket| {
        socket.user == user && socket.key.is_none()
    });
    Ok(StatusCode::NO_CONTENT)
}

/// A session as its person lists it.
#[derive(Serialize, utoipa::ToSchema)]
struct MySession {
    #[serde(flatten)]
    session: Session,
    /// The one that asks.
    current: bool,
}

/// One's own sessions, newest first
#[utoipa::path(get, path = "/v1/auth/sessions", tag = "accounts", responses((status = 200, body = List<MySession>)))]
async fn list_sessions(
    axum::extract::State(state): St,
    caller: Caller,
) -> Result<Json<List<MySession>>, ApiError> {
    let current = caller.require_session()?;
    let sessions = sessions::list(&mut state.db.read().await?, caller.user).await?;
    let rows = sessions
        .into_iter()
        .map(|session| MySession {
            current: session.id == current,
            session,
        })
        .collect();
    Ok(Json(List::new(rows, 100, false, |row: &MySession| {
        row.session.id.to_string()
    })))
}

/// End one of one's own sessions
#[utoipa::path(delete, path = "/v1/auth/sessions/{id}", tag = "accounts", params(("id" = SessionId, Path)), responses((status = 204)))]
async fn end_session(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<SessionId>,
) -> Result<StatusCode, ApiError> {
    caller.require_session()?;
    let user = caller.user;
    if !state
        .db
        .write(Uuid::nil(), async move |c: &mut Conn| {
            sessions::end(c, user, id).await
        })
        .await?
    {
        return Err(AuthError::NotFound("session").into());
    }
    state
        .hub
        .close_where(Close::NotAuthenticated, |socket| socket.session == Some(id));
    Ok(StatusCode::NO_CONTENT)
}

/// One's own workspaces
#[utoipa::path(get, path = "/v1/workspaces", tag = "workspaces", responses((status = 200, body = List<MyWorkspace>)))]
async fn list_workspaces(
    axum::extract::State(state): St,
    caller: Caller,
) -> Result<Json<List<MyWorkspace>>, ApiError> {
    let mut mine = workspaces::list_mine(&mut state.db.read().await?, caller.user).await?;
    mine.retain(|workspace| caller.may_enter(workspace.id));
    let n = i64::try_from(mine.len()).unwrap_or(i64::MAX);
    Ok(Json(List::new(
        mine,
        n,
        false,
        |workspace: &MyWorkspace| workspace.id.to_string(),
    )))
}

#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct WorkspaceForm {
    name: String,
    /// Made from the name when absent.
    slug: Option<String>,
}

/// Make a workspace, with #general, #random and its first agents; its maker is admin
#[utoipa::path(post, path = "/v1/workspaces", tag = "workspaces", request_body = WorkspaceForm, responses((status = 201, body = WorkspaceAnswer)))]
async fn create_workspace(
    axum::extract::State(state): St,
    caller: Caller,
    Body(form): Body<WorkspaceForm>,
) -> Result<(StatusCode, Json<WorkspaceAnswer>), ApiError> {
    caller.require_session()?;
    let name = DisplayName::parse(&form.name, "name")?;
    let slug = form
        .slug
        .as_deref()
        .map(workspaces::parse_slug)
        .transpose()?;
    if state.config.signup != Signup::Open
        && !workspaces::may_create(&mut state.db.read().await?, caller.user).await?
    {
        return Err(AuthError::WorkspaceCreationClosed.into());
    }
    let workspace = found_workspace(&state.db, caller.user, caller.name, name, slug).await?;
    Ok((
        StatusCode::CREATED,
        Json(WorkspaceAnswer {
            workspace,
            role: Role::Admin,
        }),
    ))
}

/// A workspace as one of its members sees it.
#[derive(Serialize, utoipa::ToSchema)]
struct WorkspaceAnswer {
    #[serde(flatten)]
    workspace: Workspace,
    role: Role,
}

/// A workspace
#[utoipa::path(get, path = "/v1/workspaces/{id}", tag = "workspaces", params(("id" = WorkspaceId, Path)), responses((status = 200, body = WorkspaceAnswer)))]
async fn get_workspace(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<WorkspaceId>,
) -> Result<Json<WorkspaceAnswer>, ApiError> {
    let mut c = state.db.read().await?;
    let actor = caller.enter(&mut c, id).await?;
    Ok(Json(WorkspaceAnswer {
        workspace: workspaces::get_workspace(&mut c, id).await?,
        role: actor.role,
    }))
}

#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct WorkspacePatch {
    name: Option<String>,
    slug: Option<String>,
}

/// Change name or slug
#[utoipa::path(patch, path = "/v1/workspaces/{id}", tag = "workspaces", params(("id" = WorkspaceId, Path)), request_body = WorkspacePatch,
    responses((status = 200, body = WorkspaceAnswer)))]
async fn update_workspace(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<WorkspaceId>,
    Body(patch): Body<WorkspacePatch>,
) -> Result<Json<WorkspaceAnswer>, ApiError> {
    let actor = caller.enter(&mut state.db.read().await?, id).await?;
    actor.require(Scope::WorkspaceAdmin)?;
    let name = patch
        .name
        .map(|name| DisplayName::parse(&name, "name"))
        .transpose()?;
    let slug = patch
        .slug
        .as_deref()
        .map(workspaces::parse_slug)
        .transpose()?;
    let role = actor.role;
    let workspace = state
        .db
        .write(id.0, async move |c: &mut Conn| {
            workspaces::update(c, &actor, name.as_ref(), slug.as_deref()).await
        })
        .await?;
    Ok(Json(WorkspaceAnswer { workspace, role }))
}

/// Members in the order in which they joined
#[utoipa::path(get, path = "/v1/members", tag = "people", params(PageQuery), responses((status = 200, body = List<Member>)))]
async fn list_members(
    axum::extract::State(state): St,
    actor: Actor,
    Query(query): Query<PageQuery>,
) -> Result<Json<List<Member>>, ApiError> {
    actor.require(Scope::ChatRead)?;
    let page = query.parse::<UserId>(20)?;
    let mut c = state.db.read().await?;
    let rows = members::list_members(
        &mut c,
        actor.workspace,
        page.after,
        page.before,
        page.limit + 1,
    )
    .await?;
    Ok(Json(List::new(
        rows,
        page.limit,
        page.before.is_some(),
        |m: &Member| m.user_id.to_string(),
    )))
}

#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct MemberPatch {
    role: Option<Role>,
    handle: Option<String>,
}

/// Change a member's role, or a handle
#[utoipa::path(patch, path = "/v1/members/{user_id}", tag = "people", params(("user_id" = UserId, Path)), request_body = MemberPatch,
    responses((status = 200, body = Member)))]
async fn update_member(
    axum::extract::State(state): St,
    actor: Actor,
    Path(user): Path<UserId>,
    Body(patch): Body<MemberPatch>,
) -> Result<Json<Member>, ApiError> {
    let role_changes = patch.role.is_some();
    let workspace = actor.workspace;
    let member = state
        .db
        .write(workspace.0, async move |c: &mut Conn| {
            members::update(c, &actor, user, patch.role, patch.handle.as_deref()).await
        })
        .await?;
    if role_changes {
        state
            .hub
            .close_where(Close::NotAuthenticated, |socket| socket.user == user);
    }
    Ok(Json(member))
}

/// Take a member out of the workspace, or leave it
#[utoipa::path(delete, path = "/v1/members/{user_id}", tag = "people", params(("user_id" = UserId, Path)), responses((status = 204)))]
async fn remove_member(
    axum::extract::State(state): St,
    actor: Actor,
    Path(user): Path<UserId>,
) -> Result<StatusCode, ApiError> {
    state
        .db
        .write(actor.workspace.0, async move |c: &mut Conn| {
            members::remove(c, &actor, user).await
        })
        .await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Invites in the order in which they were made
#[utoipa::path(get, path = "/v1/invites", tag = "people", params(PageQuery), responses((status = 200, body = List<Invite>)))]
async fn list_invites(
    axum::extract::State(state): St,
    actor: Actor,
    Query(query): Query<PageQuery>,
) -> Result<Json<List<Invite>>, ApiError> {
    let page = query.parse::<InviteId>(20)?;
    let rows = invites::list(
        &mut state.db.read().await?,
        &actor,
        page.after,
        page.before,
        page.limit + 1,
    )
    .await?;
    Ok(Json(List::new(
        rows,
        page.limit,
        page.before.is_some(),
        |invite: &Invite| invite.id.to_string(),
    )))
}

#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct InviteForm {
    /// Only this address may use it.
    email: Option<String>,
    /// `member` by default.
    role: Option<Role>,
    /// Unlimited by default.
    max_uses: Option<i64>,
    /// A week by default.
    expires_in_s: Option<i64>,
}

/// An invite with its link, which is shown this once.
#[derive(Serialize, utoipa::ToSchema)]
struct NewInviteAnswer {
    #[serde(flatten)]
    invite: Invite,
    token: String,
    url: String,
}

/// Make an invite link
#[utoipa::path(post, path = "/v1/invites", tag = "people", request_body = InviteForm, responses((status = 201, body = NewInviteAnswer)))]
async fn create_invite(
    axum::extract::State(state): St,
    actor: Actor,
    Body(form): Body<InviteForm>,
) -> Result<(StatusCode, Json<NewInviteAnswer>), ApiError> {
    let new = invites::NewInvite {
        email: form.email,
        role: form.role.unwrap_or(Role::Member),
        max_uses: form.max_uses,
        expires_in_s: form.expires_in_s,
    };
    let key = actor.workspace.0;
    let (invite, token) = state
        .db
        .write(key, async move |c: &mut Conn| {
            invites::create(c, &actor, &new).await
        })
        .await?;
    let url = format!("{}/invite/{token}", state.public_url);
    Ok((
        StatusCode::CREATED,
        Json(NewInviteAnswer { invite, token, url }),
    ))
}

/// What an invite leads to.
#[derive(Serialize, utoipa::ToSchema)]
struct InvitePreview {
    workspace: InviteWorkspace,
    role: String,
    email: Option<String>,
    expires_at: Option<crate::time::Timestamp>,
}

#[derive(Serialize, utoipa::ToSchema)]
struct InviteWorkspace {
    id: WorkspaceId,
    name: String,
    slug: String,
}

/// Where an invite leads; `id` is the token of the link
#[utoipa::path(get, path = "/v1/invites/{id}", tag = "people", security(()), params(("id" = String, Path)), responses((status = 200, body = InvitePreview)))]
async fn get_invite(
    axum::extract::State(state): St,
    Path(token): Path<String>,
) -> Result<Json<InvitePreview>, ApiError> {
    let mut c = state.db.read().await?;
    let invite = invites::find_open(&mut c, &token, None).await?;
    let workspace = workspaces::get_workspace(&mut c, invite.workspace_id).await?;
    Ok(Json(InvitePreview {
        workspace: InviteWorkspace {
            id: workspace.id,
            name: workspace.name,
            slug: workspace.slug,
        },
        role: invite.role,
        email: invite.email,
        expires_at: invite.expires_at,
    }))
}

/// Withdraw an invite
#[utoipa::path(delete, path = "/v1/invites/{id}", tag = "people", params(("id" = InviteId, Path)), responses((status = 204)))]
async fn withdraw_invite(
    axum::extract::State(state): St,
    caller: Caller,
    headers: HeaderMap,
    Path(id): Path<InviteId>,
) -> Result<StatusCode, ApiError> {
    let mut c = state.db.read().await?;
    let workspace: Option<(WorkspaceId,)> = c
        .q("select workspace_id from invites where id = $1")
        .bind(id)
        .opt()
        .await?;
    let workspace = match workspace {
        Some((workspace,)) => workspace,
        None => crate::http::extract::workspace_of(&state, &headers, &caller).await?,
    };
    let actor = caller
        .enter(&mut c, workspace)
        .await
        .map_err(|_| AuthError::NotFound("invite"))?;
    drop(c);
    state
        .db
        .write(workspace.0, async move |c: &mut Conn| {
            invites::withdraw(c, &actor, id).await
        })
        .await?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Serialize, utoipa::ToSchema)]
struct Accepted {
    workspace: Workspace,
    member: Member,
}

/// Join by an invite link
#[utoipa::path(post, path = "/v1/invites/{id}/accept", tag = "people", params(("id" = String, Path, description = "the link's token")),
    responses((status = 200, body = Accepted)))]
async fn accept_invite(
    axum::extract::State(state): St,
    caller: Caller,
    Path(token): Path<String>,
) -> Result<Json<Accepted>, ApiError> {
    caller.require_session()?;
    let mut c = state.db.read().await?;
    let email = users::get_user(&mut c, caller.user).await?.email;
    let workspace = invites::find_open(&mut c, &token, Some(&email))
        .await?
        .workspace_id;
    drop(c);
    let accepted = state
        .db
        .write(workspace.0, async move |c: &mut Conn| {
            let invite = invites::find_open(c, &token, Some(&email)).await?;
            let (id, member) = invites::accept(c, &invite, caller.user, &caller.name).await?;
            Ok::<_, AuthError>(Accepted {
                workspace: workspaces::get_workspace(c, id).await?,
                member,
            })
        })
        .await?;
    Ok(Json(accepted))
}

/// What admins did, newest first
#[utoipa::path(get, path = "/v1/audit-log", tag = "people", params(PageQuery), responses((status = 200, body = List<AuditEntry>)))]
async fn list_audit_log(
    axum::extract::State(state): St,
    actor: Actor,
    Query(query): Query<PageQuery>,
) -> Result<Json<List<AuditEntry>>, ApiError> {
    actor.require(Scope::WorkspaceAdmin)?;
    let limit = crate::http::page::parse_limit(query.limit.as_deref(), 20)?;
    if query.before.as_deref().is_some_and(|t| !t.is_empty()) {
        return Err(ApiError::invalid(
            "invalid_cursor",
            "the log is read newest first: go on with `after`".to_owned(),
            "before",
        ));
    }
    let after = crate::http::page::parse_id(query.after.as_deref(), "after")?;
    let rows = audit::list(
        &mut state.db.read().await?,
        actor.workspace,
        after,
        limit + 1,
    )
    .await?;
    Ok(Json(List::new(rows, limit, false, |entry: &AuditEntry| {
        entry.id.to_string()
    })))
}

/// One's own keys in this workspace
#[utoipa::path(get, path = "/v1/api-keys", tag = "keys", responses((status = 200, body = List<ApiKey>)))]
async fn list_keys(
    axum::extract::State(state): St,
    actor: Actor,
) -> Result<Json<List<ApiKey>>, ApiError> {
    let keys = keys::list(&mut state.db.read().await?, &actor).await?;
    Ok(Json(List::new(keys, 100, false, |key: &ApiKey| {
        key.id.to_string()
    })))
}

#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct KeyForm {
    name: String,
    scopes: Vec<Scope>,
    /// Without it the key does not expire.
    expires_in_s: Option<i64>,
}

/// A key with its secret, which is shown this once.
#[derive(Serialize, utoipa::ToSchema)]
struct NewKey {
    #[serde(flatten)]
    api_key: ApiKey,
    /// `ov_…`
    key: String,
}

/// Make an API key
#[utoipa::path(post, path = "/v1/api-keys", tag = "keys", request_body = KeyForm, responses((status = 201, body = NewKey)))]
async fn create_key(
    axum::extract::State(state): St,
    actor: Actor,
    Body(form): Body<KeyForm>,
) -> Result<(StatusCode, Json<NewKey>), ApiError> {
    if actor.key.is_some() {
        actor.require(Scope::WorkspaceAdmin)?;
    }
    let scopes = Scopes(form.scopes.into_iter().collect());
    let (api_key, key) = state
        .db
        .write(actor.workspace.0, async move |c: &mut Conn| {
            keys::create(c, &actor, &form.name, scopes.clone(), form.expires_in_s).await
        })
        .await?;
    Ok((StatusCode::CREATED, Json(NewKey { api_key, key })))
}

/// Delete an API key
#[utoipa::path(delete, path = "/v1/api-keys/{id}", tag = "keys", params(("id" = ApiKeyId, Path)), responses((status = 204)))]
async fn delete_key(
    axum::extract::State(state): St,
    caller: Caller,
    headers: HeaderMap,
    Path(id): Path<ApiKeyId>,
) -> Result<StatusCode, ApiError> {
    let mut c = state.db.read().await?;
    let workspace: Option<(WorkspaceId,)> = c
        .q("select workspace_id from api_keys where id = $1")
        .bind(id)
        .opt()
        .await?;
    let workspace = match workspace {
        Some((workspace,)) => workspace,
        None => crate::http::extract::workspace_of(&state, &headers, &caller).await?,
    };
    let actor = caller
        .enter(&mut c, workspace)
        .await
        .map_err(|_| AuthError::NotFound("key"))?;
    drop(c);
    state
        .db
        .write(workspace.0, async move |c: &mut Conn| {
            keys::delete(c, &actor, id).await
        })
        .await?;
    state
        .hub
        .close_where(Close::NotAuthenticated, |socket| socket.key == Some(id));
    Ok(StatusCode::NO_CONTENT)
}
