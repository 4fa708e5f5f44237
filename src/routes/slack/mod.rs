//! Slack's Web API: `/api/METHOD` for programs that were written for Slack. The routes are not part of the API document, because their
//! formats are Slack's.

mod conversations;
mod ephemeral;
mod files;
mod messages;
mod people;
mod pins;
mod reactions;
mod sockets;
mod unfurl;

use std::{net::IpAddr, sync::Arc, time::Duration};

use axum::{
    Json, Router,
    extract::{FromRequest, Request},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use serde_json::{Value, json};

use crate::{
    auth::{Actor, AnswerSize, AuthError, Caller, Credential, RateClass, Scope},
    chat::{ChatError, access},
    db::{Conn, DbError},
    hooks,
    http::{
        ApiError,
        bodies::{ANONYMOUS_BYTES_MAX, MEMBER_BYTES_MAX, read, take},
        extract::RawBody,
    },
    ids::{ChannelId, WorkspaceId},
    server::{
        State,
        caller::{Address, caller_with_key},
    },
    share::Pool,
    slack::{self, Args, MethodKind, SlackFault, SlackMethod},
};

type St = axum::extract::State<State>;
type BodyPool = axum::Extension<Arc<Pool<WorkspaceId>>>;

/// Memory that each request reserves at least, which also limits the number of concurrent requests of a workspace.
const RESERVED_BYTES: u64 = 64 * 1024;
const BODY_WITHIN: Duration = Duration::from_secs(30);
/// Rights of keys with `chat:read`, in Slack's names.
const READ_SCOPES: &[&str] = &[
    "channels:history",
    "channels:read",
    "files:read",
    "groups:history",
    "groups:read",
    "im:history",
    "im:read",
    "reactions:read",
    "users:read",
];
/// Rights of keys with `chat:write`.
const WRITE_SCOPES: &[&str] = &["chat:write", "files:write", "im:write", "reactions:write"];
/// Right that only keys of people have.
const PERSON_WRITE_SCOPES: &[&str] = &["channels:write"];
const EMAIL_SCOPE: &str = "users:read.email";

pub fn receiver() -> Router<State> {
    Router::new()
        .route("/api/{method}", get(call).post(call))
        .route("/api/upload/{token}", post(files::receive))
}

/// Error of a call.
enum Refusal {
    Fault(SlackFault),
    Api(ApiError),
}

impl From<SlackFault> for Refusal {
    fn from(fault: SlackFault) -> Self {
        Self::Fault(fault)
    }
}

impl<E: Into<ApiError> + NotFault> From<E> for Refusal {
    fn from(error: E) -> Self {
        Self::Api(error.into())
    }
}

/// Errors of the functions that the `/v1` routes call, too.
trait NotFault {}
impl NotFault for ApiError {}
impl NotFault for ChatError {}
impl NotFault for DbError {}
impl NotFault for AuthError {}

type Answer = Result<Value, Refusal>;

/// A call of a method by a person or a bot, in the workspace of the key.
struct Call<'a> {
    state: &'a State,
    caller: Caller,
    workspace: WorkspaceId,
    method: SlackMethod,
    args: Args,
}

impl Call<'_> {
    /// Enters the workspace.
    async fn enter(&self, c: &mut Conn) -> Result<Actor<'_>, Refusal> {
        Ok(self.caller.enter(c, self.workspace).await?)
    }

    /// Scopes of the key, as Slack names them.
    async fn scope_names(&self) -> Result<String, Refusal> {
        let Credential::Key { scopes, .. } = &self.caller.credential else {
            return Ok(String::new());
        };
        let is_person = self.caller.bot().is_none();
        let (reads, writes) = (scopes.has(Scope::ChatRead), scopes.has(Scope::ChatWrite));
        let mut names: Vec<&str> = Vec::new();
        for (has, listed) in [
            (reads, READ_SCOPES),
            (writes, WRITE_SCOPES),
            (writes && is_person, PERSON_WRITE_SCOPES),
        ] {
            if has {
                names.extend(listed);
            }
        }
        // People always see addresses; for bots, it is a setting.
        let sees_emails = reads
            && (is_person
                || self.addresses(&mut self.state.db.read().await?).await?
                    == slack::Addresses::Shown);
        if sees_emails {
            names.push(EMAIL_SCOPE);
        }
        names.sort_unstable();
        Ok(names.join(","))
    }

    /// Refuses what bots cannot do.
    fn require_person(&self) -> Result<(), SlackFault> {
        match self.caller.bot() {
            Some(_) => Err(SlackFault::RestrictedAction),
            None => Ok(()),
        }
    }

    /// The channel of an argument, by ID or name, in which the caller can do what the method does.
    async fn channel(&self, c: &mut Conn, text: &str) -> Result<ChannelId, Refusal> {
        let id = match slack::parse_channel(text) {
            Some(id) => Some(id),
            None => slack::channel_named(c, self.workspace, text.trim_start_matches('#')).await?,
        };
        let id = id.ok_or(SlackFault::ChannelNotFound)?;
        let access = access::channel(c, &self.caller, id).await?;
        let required = access.actor.require(match self.method.kind() {
            MethodKind::Read => Scope::ChatRead,
            MethodKind::Write => Scope::ChatWrite,
        });
        if required.is_err() && self.caller.bot().is_some() {
            return Err(SlackFault::MissingScope.into());
        }
        required?;
        if access.actor.workspace != self.workspace {
            return Err(SlackFault::ChannelNotFound.into());
        }
        Ok(id)
    }

    /// The channel in the argument `channel`.
    async fn channel_arg(&self, c: &mut Conn) -> Result<ChannelId, Refusal> {
        let text = self.args.required("channel", SlackFault::ChannelNotFound)?;
        self.channel(c, &text).await
    }

    /// Runs a command in the workspace's write queue.
    async fn write<T, E, F>(&self, command: F) -> Result<T, Refusal>
    where
        T: Send + 'static,
        E: From<DbError> + Into<ApiError> + Send + 'static,
        F: AsyncFn(&mut Conn, &Caller) -> Result<T, E> + Send + 'static,
    {
        let caller = self.caller.clone();
        let written = self
            .state
            .db
            .write(self.workspace.0, async move |c: &mut Conn| {
                command(c, &caller).await
            });
        written.await.map_err(|error: E| Refusal::Api(error.into()))
    }
}

async fn call(
    axum::extract::State(state): St,
    axum::extract::Path(method): axum::extract::Path<String>,
    address: Address,
    axum::Extension(pool): BodyPool,
    request: Request,
) -> Response {
    let answered = Box::pin(answer(&state, &method, address, &pool, request)).await;
    let refusal = match answered {
        Ok(response) => return response,
        Err(refusal) => refusal,
    };
    let (fault, api) = match refusal {
        Refusal::Fault(fault) => (fault, None),
        Refusal::Api(error) => {
            let fault = SlackFault::of(&error);
            // Keeps `Retry-After`, and the error for the log.
            (fault, Some(error.into_response()))
        }
    };
    let retry_after = api.as_ref().and_then(|response| {
        let is_busy = response.status() == StatusCode::TOO_MANY_REQUESTS;
        let after = response.headers().get(header::RETRY_AFTER).cloned();
        is_busy.then(|| after.unwrap_or(HeaderValue::from_static("1")))
    });
    if let Some(after) = retry_after {
        let body = json!({"ok": false, "error": SlackFault::RateLimited});
        let headers = [(header::RETRY_AFTER, after)];
        return (StatusCode::TOO_MANY_REQUESTS, headers, Json(body)).into_response();
    }
    Json(json!({"ok": false, "error": fault})).into_response()
}

/// The key in `Authorization`. What Slack's libraries need before a key is ignored.
fn key_of(text: &str) -> Option<String> {
    let text = text.trim();
    let prefixes = ["xoxb-", "xoxp-", "xapp-"];
    let bare = prefixes.iter().find_map(|prefix| text.strip_prefix(prefix));
    let key = bare.unwrap_or(text);
    key.starts_with("ov_").then(|| key.to_owned())
}

fn key_in(headers: &HeaderMap) -> Option<Result<String, SlackFault>> {
    let value = headers.get(header::AUTHORIZATION)?;
    let text = value.to_str().unwrap_or_default();
    let is_known = |scheme: &str| {
        let mut schemes = ["bearer", "token"].into_iter();
        schemes.any(|known| scheme.eq_ignore_ascii_case(known))
    };
    let key = text.split_once(' ').filter(|(scheme, _)| is_known(scheme));
    Some(
        key.and_then(|(_, key)| key_of(key))
            .ok_or(SlackFault::InvalidAuth),
    )
}

async fn answer(
    state: &State,
    method: &str,
    Address(address): Address,
    pool: &Arc<Pool<WorkspaceId>>,
    request: Request,
) -> Result<Response, Refusal> {
    let in_header = key_in(request.headers()).transpose();
    let Ok(method) = method.parse::<SlackMethod>() else {
        let key = in_header.ok().flatten();
        return Err(refuse_method(state, method, key, address).await?.into());
    };
    let doing = match method.kind() {
        MethodKind::Read => RateClass::Reading,
        MethodKind::Write => RateClass::Writing,
    };
    let mut args = Args::of_query(request.uri().query().unwrap_or_default());
    let content_type = request.headers().get(header::CONTENT_TYPE);
    let content_type = content_type
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let content_type = content_type.to_owned();
    let sent = match in_header {
        Ok(Some(key)) => Some(key),
        Ok(None) => args.text("token").and_then(|token| key_of(&token)),
        Err(fault) => {
            state.limits.anonymous(address)?;
            return Err(fault.into());
        }
    };
    let identify = async |key: String| {
        let found = caller_with_key(state, key, doing).await;
        if matches!(found, Err(AuthError::NotAuthenticated)) {
            state.limits.anonymous(address)?;
        }
        found.map_err(Refusal::from)
    };
    let (caller, holder, bytes_max) = match sent {
        Some(key) => {
            let caller = identify(key).await?;
            let workspace = workspace_of(&caller)?;
            (Some(caller), workspace, MEMBER_BYTES_MAX)
        }
        // The key may be in the body, of which only a small one is read.
        None => (None, WorkspaceId(uuid::Uuid::nil()), ANONYMOUS_BYTES_MAX),
    };
    let room = take(pool, holder, RESERVED_BYTES)?;
    let (request, room) = read(request, room, bytes_max, BODY_WITHIN).await?;
    let RawBody(bytes) = RawBody::from_request(request, state).await?;
    let read = args.add_body(&content_type, &bytes);
    let caller = if let Some(caller) = caller {
        read?;
        caller
    } else {
        state.limits.anonymous_body(address, room.amount())?;
        read?;
        match args.text("token").map(|token| key_of(&token)) {
            Some(Some(key)) => identify(key).await?,
            Some(None) => {
                state.limits.anonymous(address)?;
                return Err(SlackFault::InvalidAuth.into());
            }
            None if method == SlackMethod::ApiTest => {
                return Ok(Json(json!({"ok": true, "args": {}})).into_response());
            }
            None => return Err(SlackFault::NotAuthed.into()),
        }
    };
    let workspace = workspace_of(&caller)?;
    let user = caller.user;
    let call = Call {
        state,
        caller,
        workspace,
        method,
        args,
    };
    let mut body = Box::pin(dispatch(&call)).await?;
    let scopes = call.scope_names().await?;
    body["ok"] = true.into();
    let response = ([("x-oauth-scopes", scopes)], Json(body)).into_response();
    let size = axum::body::HttpBody::size_hint(response.body()).lower();
    state.limits.answered(user, AnswerSize::Built(size));
    Ok(response)
}

/// The error for a method that is not offered. Those that the programs of bots ask for are counted.
async fn refuse_method(
    state: &State,
    method: &str,
    key: Option<String>,
    address: IpAddr,
) -> Result<SlackFault, Refusal> {
    let fault = if method.starts_with("views.") {
        SlackFault::NotSupported
    } else {
        SlackFault::UnknownMethod
    };
    let Some(key) = key else {
        return Ok(fault);
    };
    let found = caller_with_key(state, key, RateClass::Writing).await;
    if matches!(found, Err(AuthError::NotAuthenticated)) {
        state.limits.anonymous(address)?;
        return Ok(fault);
    }
    let caller = found?;
    if let (Some(bot), Ok(workspace)) = (caller.bot(), workspace_of(&caller)) {
        let name = method.to_owned();
        let count = async move |c: &mut Conn| hooks::count_missing_method(c, bot, &name).await;
        state.db.write(workspace.0, count).await?;
    }
    Ok(fault)
}

/// The workspace of a key.
fn workspace_of(caller: &Caller) -> Result<WorkspaceId, SlackFault> {
    match &caller.credential {
        Credential::Key { workspace, .. } => Ok(*workspace),
        Credential::Session(_) => Err(SlackFault::InvalidAuth),
    }
}

async fn dispatch(call: &Call<'_>) -> Answer {
    use SlackMethod as M;
    match call.method {
        M::ApiTest => Ok(json!({"args": {}})),
        M::AuthTest => people::auth_test(call).await,
        M::TeamInfo => people::team(call).await,
        M::BotsInfo => people::bot(call).await,
        M::AppsConnectionsOpen => sockets::open(call).await,
        M::EmojiList => reactions::list_emoji(call).await,
        M::ChatPostMessage => messages::post(call).await,
        M::ChatUpdate => messages::update(call).await,
        M::ChatDelete => messages::delete(call).await,
        M::ChatPostEphemeral => ephemeral::post(call).await,
        M::ChatUnfurl => unfurl::add(call).await,
        M::ChatGetPermalink => messages::permalink(call).await,
        M::ConversationsList => conversations::list(call, slack::Listing::Visible).await,
        M::UsersConversations => conversations::list(call, slack::Listing::Joined).await,
        M::ConversationsInfo => conversations::info(call).await,
        M::ConversationsHistory => conversations::history(call).await,
        M::ConversationsReplies => conversations::replies(call).await,
        M::ConversationsMembers => conversations::members(call).await,
        M::ConversationsOpen => conversations::open(call).await,
        M::ConversationsJoin => conversations::join(call).await,
        M::ConversationsLeave => conversations::leave(call).await,
        M::ConversationsSetTopic => conversations::set_topic(call).await,
        M::UsersList => people::list(call).await,
        M::UsersInfo => people::info(call).await,
        M::UsersLookupByEmail => people::with_email(call).await,
        M::UsersGetPresence => people::presence(call).await,
        M::UsergroupsList => Ok(json!({"usergroups": []})),
        M::ReactionsAdd => reactions::add(call).await,
        M::ReactionsRemove => reactions::remove(call).await,
        M::ReactionsGet => reactions::get(call).await,
        M::PinsAdd => pins::add(call).await,
        M::PinsRemove => pins::remove(call).await,
        M::PinsList => pins::list(call).await,
        M::FilesGetUploadUrl => files::announce(call).await,
        M::FilesCompleteUpload => files::complete(call).await,
        M::FilesInfo => files::info(call).await,
        M::FilesDelete => files::delete(call).await,
    }
}

/// A list's next cursor, as Slack's clients read it.
fn next_page(cursor: Option<String>) -> Value {
    json!({"next_cursor": cursor.unwrap_or_default()})
}
