//! HTTP routes for bots and incoming webhooks.

use std::sync::Arc;

use axum::{
    Json, Router,
    extract::{FromRequest, Request},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
    routing::post,
};
use serde_json::json;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::agents::tagged;
use crate::{
    auth::{AuthError, Caller, WorkspaceCaller},
    chat::{ChatError, messages::Text},
    db::Conn,
    hooks::{
        self, Bot, BotPatch, Delivered, Hook, HookError, HookFault, HookForm, HookPatch, HookQuery,
        Incoming, NewHook,
    },
    http::{
        ApiError,
        bodies::{MEMBER_BYTES_MAX, read, take},
        extract::{Body, IfMatch, NoFields, Path, Query, RawBody},
        page::{LIMIT_MAX, List, PageQuery},
    },
    ids::{BotId, HookId, UserId, WorkspaceId},
    server::{State, caller::Address},
    share::Pool,
    tasks::slow,
};

const PLAIN: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

type St = axum::extract::State<State>;

/// Memory that each request to a webhook reserves at least, which also limits the number of concurrent requests of a workspace.
const RESERVED_BYTES: u64 = 64 * 1024;

pub fn router() -> OpenApiRouter<State> {
    OpenApiRouter::new()
        .routes(routes!(list_bots))
        .routes(routes!(patch_bot))
        .routes(routes!(list_hooks, create_hook))
        .routes(routes!(patch_hook, delete_hook))
        .routes(routes!(rotate_hook))
}

/// Routes for programs. They are not part of the API document, because their addresses are secrets and their bodies have the formats of
/// other products.
pub fn receiver() -> Router<State> {
    Router::new().route("/hooks/{secret}", post(receive)).route(
        "/services/{first}/{second}/{secret}",
        post(receive_as_slack),
    )
}

fn address_of(state: &State, secret: &str) -> String {
    format!("{}/hooks/{secret}", state.public_url)
}

/// Returns the caller as a member of the workspace of the object.
fn member_in(
    caller: Caller,
    workspace: Option<WorkspaceId>,
    absent: HookError,
) -> Result<WorkspaceCaller, HookError> {
    let workspace = workspace.ok_or(absent)?;
    Ok(WorkspaceCaller { caller, workspace })
}

/// Reports an object of another workspace as absent.
fn hide(error: HookError, absent: HookError) -> HookError {
    match error {
        HookError::Auth(AuthError::WorkspaceNotFound) => absent,
        other => other,
    }
}

/// List the bots of the workspace, oldest first
#[utoipa::path(get, path = "/v1/bots", tag = "integrations",
    security(("session" = ["viewer"]), ("key" = ["chat:read"])),
    params(PageQuery<BotId>), responses((status = 200, body = List<Bot>)))]
async fn list_bots(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    Query(query): Query<PageQuery<BotId>>,
) -> Result<Json<List<Bot>>, ApiError> {
    let page = query.page(LIMIT_MAX)?;
    let mut c = state.db.read().await?;
    let actor = member.enter(&mut c).await?;
    let rows = hooks::list_bots(&mut c, &actor).await?;
    Ok(Json(page.cut(rows, |bot| bot.id)?))
}

/// Rename, describe, pause, or resume a bot
///
/// The webhooks of a paused bot reject messages.
#[utoipa::path(patch, path = "/v1/bots/{id}", tag = "integrations",
    security(("session" = ["admin"]), ("key" = ["workspace:admin"])),
    params(("id" = BotId, Path), ("If-Match" = inline(Option<IfMatch>), Header)),
    request_body(content = BotPatch, example = json!({"about": "Posts alerts of the servers."})),
    responses((status = 200, body = Bot)))]
async fn patch_bot(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<BotId>,
    IfMatch(expected): IfMatch,
    Body(patch): Body<BotPatch>,
) -> Result<Response, ApiError> {
    let workspace = hooks::workspace_of_bot(&mut state.db.read().await?, id).await?;
    let member = member_in(caller, workspace, HookError::BotNotFound)?;
    let changed = member
        .write(&state.db, async move |c, actor| {
            hooks::patch_bot(c, actor, id, &patch, expected).await
        })
        .await
        .map_err(|e: HookError| hide(e, HookError::BotNotFound))?;
    Ok(tagged(StatusCode::OK, changed.version, &changed))
}

/// List the webhooks that you created, oldest first
///
/// Admins see all webhooks of the channels that they can read.
#[utoipa::path(get, path = "/v1/hooks", tag = "integrations",
    security(("session" = ["member"]), ("key" = ["chat:write"])),
    params(PageQuery<HookId>), responses((status = 200, body = List<Hook>)))]
async fn list_hooks(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    Query(query): Query<PageQuery<HookId>>,
) -> Result<Json<List<Hook>>, ApiError> {
    let page = query.page(LIMIT_MAX)?;
    let mut c = state.db.read().await?;
    let actor = member.enter(&mut c).await?;
    let rows = hooks::list_hooks(&mut c, &actor).await?;
    Ok(Json(page.cut(rows, |hook| hook.id)?))
}

/// Create a webhook, with a new bot or an existing one
///
/// The webhook continues to work when its creator leaves the workspace.
#[utoipa::path(post, path = "/v1/hooks", tag = "integrations",
    security(("session" = ["member"]), ("key" = ["chat:write"])),
    request_body(content = HookForm,
        example = json!({"name": "Alertmanager", "channel_id": "chan_01h455vb4pex5vsknk084sn02q"})),
    responses((status = 201, body = NewHook)))]
async fn create_hook(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    Body(form): Body<HookForm>,
) -> Result<Response, ApiError> {
    let (hook, secret) = member
        .write(&state.db, async move |c, actor| {
            hooks::create(c, actor, &form).await
        })
        .await?;
    let url = address_of(&state, &secret);
    Ok((StatusCode::CREATED, Json(NewHook { hook, url })).into_response())
}

/// Move a webhook to another channel, or limit its mentions
#[utoipa::path(patch, path = "/v1/hooks/{id}", tag = "integrations",
    security(("session" = ["member"]), ("key" = ["chat:write"])),
    params(("id" = HookId, Path)),
    request_body(content = HookPatch, example = json!({"may_notify": "nobody"})),
    responses((status = 200, body = Hook)))]
async fn patch_hook(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<HookId>,
    Body(patch): Body<HookPatch>,
) -> Result<Json<Hook>, ApiError> {
    let workspace = hooks::workspace_of_hook(&mut state.db.read().await?, id).await?;
    let member = member_in(caller, workspace, HookError::HookNotFound)?;
    let changed = member
        .write(&state.db, async move |c, actor| {
            hooks::patch(c, actor, id, &patch).await
        })
        .await
        .map_err(|e: HookError| hide(e, HookError::HookNotFound))?;
    Ok(Json(changed))
}

/// Delete a webhook; its messages stay
#[utoipa::path(delete, path = "/v1/hooks/{id}", tag = "integrations",
    security(("session" = ["member"]), ("key" = ["chat:write"])),
    params(("id" = HookId, Path)), responses((status = 204)))]
async fn delete_hook(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<HookId>,
) -> Result<StatusCode, ApiError> {
    let workspace = hooks::workspace_of_hook(&mut state.db.read().await?, id).await?;
    let member = member_in(caller, workspace, HookError::HookNotFound)?;
    member
        .write(&state.db, async move |c, actor| {
            hooks::delete(c, actor, id).await
        })
        .await
        .map_err(|e: HookError| hide(e, HookError::HookNotFound))?;
    Ok(StatusCode::NO_CONTENT)
}

/// Give a webhook a new address
///
/// The old address stops working.
#[utoipa::path(post, path = "/v1/hooks/{id}/rotate", tag = "integrations",
    security(("session" = ["member"]), ("key" = ["chat:write"])),
    params(("id" = HookId, Path)), responses((status = 200, body = NewHook)))]
async fn rotate_hook(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<HookId>,
    Body(_): NoFields,
) -> Result<Json<NewHook>, ApiError> {
    let workspace = hooks::workspace_of_hook(&mut state.db.read().await?, id).await?;
    let member = member_in(caller, workspace, HookError::HookNotFound)?;
    let (hook, secret) = member
        .write(&state.db, async move |c, actor| {
            hooks::rotate(c, actor, id).await
        })
        .await
        .map_err(|e: HookError| hide(e, HookError::HookNotFound))?;
    let url = address_of(&state, &secret);
    Ok(Json(NewHook { hook, url }))
}

type BodyPool = axum::Extension<Arc<Pool<WorkspaceId>>>;

async fn receive(
    axum::extract::State(state): St,
    axum::extract::Path(secret): axum::extract::Path<String>,
    address: Address,
    axum::Extension(pool): BodyPool,
    request: Request,
) -> Response {
    answer(receive_body(&state, secret, address, &pool, request).await)
}

async fn receive_as_slack(
    axum::extract::State(state): St,
    axum::extract::Path((_, _, secret)): axum::extract::Path<(String, String, String)>,
    address: Address,
    axum::Extension(pool): BodyPool,
    request: Request,
) -> Response {
    answer(receive_body(&state, secret, address, &pool, request).await)
}

/// Error of a request to a webhook.
enum Refusal {
    Fault(HookFault),
    Api(ApiError),
}

impl<E: Into<ApiError>> From<E> for Refusal {
    fn from(error: E) -> Self {
        Self::Api(error.into())
    }
}

/// Errors are plain texts, as from Slack.
fn answer(outcome: Result<Response, Refusal>) -> Response {
    match outcome {
        Ok(response) => response,
        Err(Refusal::Fault(fault)) => (fault.status(), fault.as_str()).into_response(),
        Err(Refusal::Api(error)) => {
            let code = error.code();
            // Keeps `Retry-After`, and the error for the log.
            let mut response = error.into_response();
            let text = match response.status() {
                StatusCode::PAYLOAD_TOO_LARGE => HookFault::PayloadTooLarge.as_str(),
                StatusCode::TOO_MANY_REQUESTS => HookFault::RateLimited.as_str(),
                _ => code.as_str(),
            };
            *response.body_mut() = axum::body::Body::from(text);
            let headers = response.headers_mut();
            headers.remove(header::CONTENT_LENGTH);
            headers.insert(header::CONTENT_TYPE, PLAIN);
            response
        }
    }
}

fn content_type(headers: &HeaderMap) -> String {
    let value = headers.get(header::CONTENT_TYPE);
    let text = value.and_then(|value: &HeaderValue| value.to_str().ok());
    text.unwrap_or_default().to_owned()
}

async fn receive_body(
    state: &State,
    secret: String,
    Address(address): Address,
    pool: &Arc<Pool<WorkspaceId>>,
    request: Request,
) -> Result<Response, Refusal> {
    // Only programs that know a secret can make the server read a body.
    let found = hooks::find(&mut state.db.read().await?, &secret).await?;
    let Some(hook) = found else {
        state.limits.anonymous(address)?;
        return Err(Refusal::Fault(HookFault::NoService));
    };
    state.limits.hook(hook.id)?;
    let query = axum::extract::Query::<HookQuery>::try_from_uri(request.uri());
    let query = query
        .map_err(|_| Refusal::Fault(HookFault::InvalidPayload))?
        .0;
    let wants_json = query.answer.as_deref() == Some("json");
    let kind = content_type(request.headers());
    let room = take(pool, hook.workspace_id, RESERVED_BYTES)?;
    let within = std::time::Duration::from_secs(30);
    let (request, room) = read(request, room, MEMBER_BYTES_MAX, within).await?;
    let RawBody(bytes) = RawBody::from_request(request, state).await?;
    let parsed = slow::run(UserId(hook.bot_id.0), move |_| {
        let incoming = Incoming::read(&kind, &bytes, &query).map_err(Refusal::Fault)?;
        let text = Text::parse(incoming.content.clone());
        let text = text.map_err(|error| match error {
            ChatError::Invalid(..) => Refusal::Fault(HookFault::NoText),
            other => Refusal::Api(other.into()),
        })?;
        Ok::<_, Refusal>((incoming, text))
    });
    let stopped = || ApiError::from(crate::db::DbError::Closed);
    let (incoming, text) = parsed.await.map_err(|_| Refusal::Api(stopped()))??;
    drop(room);
    let post = hooks::Post {
        secret,
        text,
        metadata: incoming.metadata,
        thread_key: incoming.thread_key,
        client_id: incoming.client_id,
    };
    let workspace = hook.workspace_id;
    let write = async move |c: &mut Conn| hooks::post(c, workspace, &post).await;
    let message = match state.db.write(workspace.0, write).await {
        Ok(Delivered::Posted(message)) => message,
        Ok(Delivered::Refused(fault)) => return Err(Refusal::Fault(fault)),
        // An error, so that nothing is stored, not even the client ID.
        Err(HookError::Chat(ChatError::ChannelArchived)) => {
            return Err(Refusal::Fault(HookFault::ChannelIsArchived));
        }
        Err(error) => return Err(error.into()),
    };
    if wants_json {
        let url = format!(
            "{}/{}/c/{}/t/{}#m-{}",
            state.public_url, hook.slug, message.channel_id, message.thread_id, message.id
        );
        let body = json!({
            "ok": true, "message_id": message.id, "thread_id": message.thread_id, "url": url, "ts": hooks::slack_ts(&message),
            "notes": incoming.notes,
        });
        return Ok(Json(body).into_response());
    }
    Ok(([(header::CONTENT_TYPE, PLAIN)], "ok").into_response())
}
