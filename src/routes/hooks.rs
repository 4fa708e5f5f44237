//! HTTP routes for bots and incoming webhooks.

use std::sync::Arc;

use axum::{
    Json, Router,
    extract::{FromRequest, Request},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
    routing::post,
};
use serde::Deserialize;
use serde_json::json;
use utoipa_axum::router::OpenApiRouter;

use super::{
    agents::tagged,
    chat::{WhichObject, write_for},
    hook_files::{self, SentFile, SentForm},
};
use crate::{
    auth::{Actor, AuthError, Caller, WorkspaceCaller},
    chat::{ChatError, messages::Text},
    db::{Conn, now},
    files::ATTACHMENTS_MAX,
    hooks::{
        self, BodyHead, Bot, BotForm, BotKeyForm, BotPatch, BotWithKeys, ButtonUse, Delivered,
        Hook, HookError, HookFault, HookForm, HookPatch, HookQuery, HookRequest, HookSecretForm,
        HookTemplate, Incoming, NewBotKey, NewHook, Proofs, ReceivedRequest, RequestOutcome,
        StandardProof,
    },
    http::{
        ApiError,
        bodies::{MEMBER_BYTES_MAX, read, take},
        extract::{Body, IfMatch, NoFields, Path, Query, RawBody},
        page::{LIMIT_MAX, Limit, List, PageQuery},
        routing::routes,
    },
    ids::{ApiKeyId, BotId, ChannelId, HookId, HookRequestId, UserId, WorkspaceId},
    secrets::{self, SecretError},
    server::{State, caller::Address},
    share::Pool,
    tasks::slow,
};

const FORM: &str = "application/x-www-form-urlencoded";
pub(super) const PLAIN: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

type St = axum::extract::State<State>;

/// Memory that each request to a webhook reserves at least, which also limits the number of concurrent requests of a workspace.
pub(super) const RESERVED_BYTES: u64 = 64 * 1024;

pub fn router() -> OpenApiRouter<State> {
    OpenApiRouter::new()
        .routes(routes!(list_bots, create_bot))
        .routes(routes!(get_bot, patch_bot, delete_bot))
        .routes(routes!(create_bot_key))
        .routes(routes!(delete_bot_key))
        .routes(routes!(add_bot_to_channel, remove_bot_from_channel))
        .routes(routes!(list_hooks, create_hook))
        .routes(routes!(patch_hook, delete_hook))
        .routes(routes!(rotate_hook))
        .routes(routes!(put_hook_secret))
        .routes(routes!(list_hook_requests))
        .routes(routes!(post_hook_request))
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

/// Returns the caller as a member of the workspace of an object.
fn member_in(
    caller: Caller,
    workspace: Option<WorkspaceId>,
    absent: HookError,
) -> Result<WorkspaceCaller, HookError> {
    let workspace = workspace.ok_or(absent)?;
    Ok(WorkspaceCaller { caller, workspace })
}

/// Returns the caller as a member of the workspace of a webhook.
async fn member_of(c: &mut Conn, caller: Caller, id: HookId) -> Result<WorkspaceCaller, HookError> {
    let workspace = hooks::workspace_of_hook(c, id).await?;
    member_in(caller, workspace, HookError::HookNotFound)
}

/// Enters the workspace of a webhook.
async fn enter<'a>(c: &mut Conn, member: &'a WorkspaceCaller) -> Result<Actor<'a>, HookError> {
    let actor = member.enter(c).await;
    actor.map_err(|e| hide_hook(e.into()))
}

fn hide_hook(error: HookError) -> HookError {
    hide(error, HookError::HookNotFound)
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

/// Create a bot, which acts with keys
///
/// A bot reads and writes only the channels that it is in.
#[utoipa::path(post, path = "/v1/bots", tag = "integrations",
    security(("session" = ["admin"]), ("key" = ["workspace:admin"])),
    request_body(content = BotForm, example = json!({"name": "Deploy", "about": "Posts deployments."})),
    responses((status = 201, body = Bot)))]
async fn create_bot(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    Body(form): Body<BotForm>,
) -> Result<Response, ApiError> {
    let bot = member
        .write(&state.db, async move |c, actor| {
            hooks::create_bot(c, actor, &form).await
        })
        .await?;
    Ok(tagged(StatusCode::CREATED, bot.version, &bot))
}

/// Returns the caller as a member of the workspace of a bot.
pub(super) async fn member_of_bot(
    state: &State,
    caller: Caller,
    id: BotId,
) -> Result<WorkspaceCaller, ApiError> {
    let workspace = hooks::workspace_of_bot(&mut state.db.read().await?, id).await?;
    Ok(member_in(caller, workspace, HookError::BotNotFound)?)
}

pub(super) fn hide_bot(error: HookError) -> HookError {
    hide(error, HookError::BotNotFound)
}

/// Get a bot; with its keys for admins
#[utoipa::path(get, path = "/v1/bots/{id}", tag = "integrations",
    security(("session" = ["viewer"]), ("key" = ["chat:read"])),
    params(("id" = BotId, Path)), responses((status = 200, body = BotWithKeys)))]
async fn get_bot(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<BotId>,
) -> Result<Response, ApiError> {
    let member = member_of_bot(&state, caller, id).await?;
    let mut c = state.db.read().await?;
    let actor = member.enter(&mut c).await.map_err(|e| hide_bot(e.into()))?;
    let found = hooks::get_with_keys(&mut c, &actor, id).await?;
    Ok(tagged(StatusCode::OK, found.bot.version, &found))
}

/// Delete a bot with its webhooks and keys; its messages stay
#[utoipa::path(delete, path = "/v1/bots/{id}", tag = "integrations",
    security(("session" = ["admin"]), ("key" = ["workspace:admin"])),
    params(("id" = BotId, Path), ("If-Match" = inline(Option<IfMatch>), Header)),
    responses((status = 204)))]
async fn delete_bot(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<BotId>,
    IfMatch(expected): IfMatch,
) -> Result<StatusCode, ApiError> {
    member_of_bot(&state, caller, id)
        .await?
        .write(&state.db, async move |c, actor| {
            hooks::delete_bot(c, actor, id, expected).await
        })
        .await
        .map_err(hide_bot)?;
    Ok(StatusCode::NO_CONTENT)
}

/// Create a key with which a program acts as a bot
///
/// A bot can have 5 keys.
#[utoipa::path(post, path = "/v1/bots/{id}/keys", tag = "integrations",
    security(("session" = ["admin"]), ("key" = ["workspace:admin"])),
    params(("id" = BotId, Path)),
    request_body(content = BotKeyForm, example = json!({"name": "CI server"})),
    responses((status = 201, body = NewBotKey)))]
async fn create_bot_key(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<BotId>,
    Body(form): Body<BotKeyForm>,
) -> Result<(StatusCode, Json<NewBotKey>), ApiError> {
    let (bot_key, key) = member_of_bot(&state, caller, id)
        .await?
        .write(&state.db, async move |c, actor| {
            hooks::create_key(c, actor, id, &form.name).await
        })
        .await
        .map_err(hide_bot)?;
    Ok((StatusCode::CREATED, Json(NewBotKey { bot_key, key })))
}

/// Delete a key of a bot
#[utoipa::path(delete, path = "/v1/bots/{id}/keys/{key_id}", tag = "integrations",
    security(("session" = ["admin"]), ("key" = ["workspace:admin"])),
    params(("id" = BotId, Path), ("key_id" = ApiKeyId, Path)), responses((status = 204)))]
async fn delete_bot_key(
    axum::extract::State(state): St,
    caller: Caller,
    Path((id, key)): Path<(BotId, ApiKeyId)>,
) -> Result<StatusCode, ApiError> {
    member_of_bot(&state, caller, id)
        .await?
        .write(&state.db, async move |c, actor| {
            hooks::delete_key(c, actor, id, key).await
        })
        .await
        .map_err(hide_bot)?;
    Ok(StatusCode::NO_CONTENT)
}

/// Add a bot to a channel, which it then reads and writes
#[utoipa::path(put, path = "/v1/channels/{id}/bots/{bot_id}", tag = "integrations",
    security(("session" = ["member"]), ("key" = ["chat:write"])),
    params(("id" = ChannelId, Path), ("bot_id" = BotId, Path)),
    responses((status = 200, body = Bot)))]
async fn add_bot_to_channel(
    axum::extract::State(state): St,
    caller: Caller,
    Path((id, bot)): Path<(ChannelId, BotId)>,
    Body(_): NoFields,
) -> Result<Json<Bot>, ApiError> {
    let add = async move |c: &mut Conn| hooks::add_to_channel(c, &caller, id, bot).await;
    Ok(Json(
        write_for(&state, WhichObject::Channel(id), add).await?,
    ))
}

/// Remove a bot from a channel
#[utoipa::path(delete, path = "/v1/channels/{id}/bots/{bot_id}", tag = "integrations",
    security(("session" = ["member"]), ("key" = ["chat:write"])),
    params(("id" = ChannelId, Path), ("bot_id" = BotId, Path)), responses((status = 204)))]
async fn remove_bot_from_channel(
    axum::extract::State(state): St,
    caller: Caller,
    Path((id, bot)): Path<(ChannelId, BotId)>,
) -> Result<StatusCode, ApiError> {
    let remove = async move |c: &mut Conn| hooks::remove_from_channel(c, &caller, id, bot).await;
    write_for(&state, WhichObject::Channel(id), remove).await?;
    Ok(StatusCode::NO_CONTENT)
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
    let changed = member_of_bot(&state, caller, id)
        .await?
        .write(&state.db, async move |c, actor| {
            hooks::patch_bot(c, actor, id, &patch, expected).await
        })
        .await
        .map_err(hide_bot)?;
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
            hooks::create(c, actor, HookId::new(), &form).await
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
    let member = member_of(&mut state.db.read().await?, caller, id).await?;
    let changed = member
        .write(&state.db, async move |c, actor| {
            hooks::patch(c, actor, id, &patch).await
        })
        .await
        .map_err(hide_hook)?;
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
    let member = member_of(&mut state.db.read().await?, caller, id).await?;
    member
        .write(&state.db, async move |c, actor| {
            hooks::delete(c, actor, id).await
        })
        .await
        .map_err(hide_hook)?;
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
    let member = member_of(&mut state.db.read().await?, caller, id).await?;
    let (hook, secret) = member
        .write(&state.db, async move |c, actor| {
            hooks::rotate(c, actor, id).await
        })
        .await
        .map_err(hide_hook)?;
    let url = address_of(&state, &secret);
    Ok(Json(NewHook { hook, url }))
}

/// Set the secret with which programs sign their requests
///
/// A request then needs a valid `X-Hub-Signature-256`, `X-Gitlab-Token`, `Sentry-Hook-Signature`, or `webhook-signature`. Null removes the
/// secret.
#[utoipa::path(put, path = "/v1/hooks/{id}/secret", tag = "integrations",
    security(("session" = ["member"]), ("key" = ["chat:write"])),
    params(("id" = HookId, Path)),
    request_body(content = HookSecretForm, example = json!({"value": "a long random text"})),
    responses((status = 204)))]
async fn put_hook_secret(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<HookId>,
    Body(form): Body<HookSecretForm>,
) -> Result<StatusCode, ApiError> {
    let mut c = state.db.read().await?;
    let member = member_of(&mut c, caller, id).await?;
    // Access is checked before the secret is sealed, because sealing can create the key file.
    let actor = enter(&mut c, &member).await?;
    hooks::get_own(&mut c, &actor, id).await?;
    drop(c);
    let sealed = match &form.value {
        None => None,
        Some(value) if (8..=200).contains(&value.chars().count()) => Some(
            state
                .keyring
                .seal(&id.to_string(), value)
                .map_err(AuthError::from)?,
        ),
        Some(_) => {
            let problem = "a secret has 8 to 200 characters".to_owned();
            return Err(HookError::Invalid(problem, "value").into());
        }
    };
    member
        .write(&state.db, async move |c, actor| {
            hooks::set_secret(c, actor, id, sealed.as_ref()).await
        })
        .await
        .map_err(hide_hook)?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct HookRequestsQuery {
    /// 1 to 100; 20 by default.
    #[param(inline)]
    limit: Option<Limit>,
    /// `next_cursor` from the previous page.
    #[param(value_type = Option<String>)]
    cursor: Option<HookRequestId>,
}

/// List the newest requests that a webhook received, newest first
///
/// The newest 50 are kept for a week. Bodies of deleted messages are deleted.
#[utoipa::path(get, path = "/v1/hooks/{id}/requests", tag = "integrations",
    security(("session" = ["member"]), ("key" = ["chat:write"])),
    params(("id" = HookId, Path), HookRequestsQuery),
    responses((status = 200, body = List<HookRequest>)))]
async fn list_hook_requests(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<HookId>,
    Query(query): Query<HookRequestsQuery>,
) -> Result<Json<List<HookRequest>>, ApiError> {
    let limit = Limit::or(query.limit, 20);
    let mut c = state.db.read().await?;
    let member = member_of(&mut c, caller, id).await?;
    let actor = enter(&mut c, &member).await?;
    let rows = hooks::list_requests(&mut c, &actor, id, query.cursor, limit + 1).await?;
    let list = List::new(rows, limit, false, |request| request.id.to_string());
    let next = list.last_id.clone().filter(|_| list.has_more);
    Ok(Json(list.continued_at(next)))
}

/// Post a received request again
///
/// It is read with the present template of the webhook, and becomes a message of its own.
#[utoipa::path(post, path = "/v1/hooks/{id}/requests/{request_id}/post", tag = "integrations",
    security(("session" = ["member"]), ("key" = ["chat:write"])),
    params(("id" = HookId, Path), ("request_id" = HookRequestId, Path)),
    responses((status = 201, body = HookRequest)))]
async fn post_hook_request(
    axum::extract::State(state): St,
    caller: Caller,
    Path((id, request)): Path<(HookId, HookRequestId)>,
    Body(_): NoFields,
) -> Result<Response, ApiError> {
    let mut c = state.db.read().await?;
    let member = member_of(&mut c, caller, id).await?;
    let actor = enter(&mut c, &member).await?;
    let hook = hooks::get_own(&mut c, &actor, id).await?;
    let mut attempt = hooks::get_sent(&mut c, &actor, id, request).await?;
    let buttons = hooks::button_use(&mut c, hook.bot_id).await?;
    drop(c);
    let user = member.caller.user;
    let sent = attempt.clone();
    let template = hook.template.map(|template| template.0);
    let parsed = slow::run(user, move |_| {
        parse(
            &sent.head,
            sent.body().as_bytes(),
            template.as_ref(),
            buttons,
        )
    });
    let parsed = parsed
        .await
        .map_err(|_| ApiError::from(crate::db::DbError::Closed))?;
    let (incoming, text) = parsed.map_err(|refusal| match refusal {
        Refusal::Fault(fault) => HookError::Refused(fault).into(),
        Refusal::Api(error) => error,
    })?;
    let text = name_people(&state, member.workspace, hook.bot_id, text).await?;
    attempt.product = incoming.product;
    attempt.notes = incoming.notes;
    let post = hooks::Post {
        hook: id,
        sender: hooks::PostedBy::Person,
        attempt,
        text,
        files: Vec::new(),
        metadata: incoming.metadata,
        thread_key: incoming.thread_key,
        thread_ts: incoming.thread_ts,
        // With the program's ID, the first message would be returned.
        client_id: None,
        channel: incoming.channel,
    };
    let posted = member
        .write(&state.db, async move |c, actor| {
            hooks::get_own(c, actor, id).await?;
            match hooks::post(c, actor.workspace, &post).await? {
                Delivered::Posted { request, .. } => {
                    hooks::get_request(c, actor, id, request).await
                }
                Delivered::Refused(fault) => Err(HookError::Refused(fault)),
            }
        })
        .await
        .map_err(hide_hook)?;
    Ok((StatusCode::CREATED, Json(posted)).into_response())
}

pub(super) type BodyPool = axum::Extension<Arc<Pool<WorkspaceId>>>;

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
pub(super) enum Refusal {
    Fault(HookFault),
    Api(ApiError),
}

impl<E: Into<ApiError>> From<E> for Refusal {
    fn from(error: E) -> Self {
        Self::Api(error.into())
    }
}

/// Errors are plain texts, as from Slack.
pub(super) fn answer(outcome: Result<Response, Refusal>) -> Response {
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

fn header_text(headers: &HeaderMap, name: &str) -> Option<String> {
    let value = headers.get(name)?.to_str().ok()?;
    Some(value.to_owned())
}

/// Header values that decide how a body is read.
fn head_of(headers: &HeaderMap, query: HookQuery) -> BodyHead {
    let events = hooks::event_headers().filter_map(|name| {
        let value = header_text(headers, name)?;
        Some((name.to_owned(), value.chars().take(100).collect()))
    });
    BodyHead {
        content_type: header_text(headers, "content-type").unwrap_or_default(),
        query,
        events: events.collect(),
    }
}

fn proofs_of(headers: &HeaderMap) -> Proofs {
    let standard = header_text(headers, "webhook-signature").map(|signatures| StandardProof {
        id: header_text(headers, "webhook-id").unwrap_or_default(),
        timestamp: header_text(headers, "webhook-timestamp").unwrap_or_default(),
        signatures,
    });
    Proofs {
        hub: header_text(headers, "x-hub-signature-256"),
        gitlab: header_text(headers, "x-gitlab-token"),
        sentry: header_text(headers, "sentry-hook-signature"),
        standard,
    }
}

fn parse(
    head: &BodyHead,
    body: &[u8],
    template: Option<&HookTemplate>,
    buttons: ButtonUse,
) -> Result<(Incoming, Text), Refusal> {
    let incoming = Incoming::read(head, body, template).map_err(Refusal::Fault)?;
    let incoming = incoming.with_buttons(buttons);
    let text = Text::parse(incoming.content.clone());
    let text = text.map_err(|error| match error {
        ChatError::Invalid(..) => Refusal::Fault(HookFault::NoText),
        other => Refusal::Api(other.into()),
    })?;
    Ok((incoming, text))
}

/// The text with handles instead of the IDs of people whom it names.
async fn name_people(
    state: &State,
    workspace: WorkspaceId,
    bot: BotId,
    text: Text,
) -> Result<Text, ApiError> {
    if !text.content.contains("@U") {
        return Ok(text);
    }
    let mut c = state.db.read().await?;
    let named = hooks::with_handles(&mut c, workspace, &text.content).await?;
    drop(c);
    let Some(named) = named else {
        return Ok(text);
    };
    let read = slow::run(UserId(bot.0), move |_| Text::parse(named));
    let read = read.await.map_err(|_| crate::db::DbError::Closed)?;
    // With long handles, it can be too long.
    Ok(read.unwrap_or(text))
}

async fn receive_body(
    state: &State,
    secret: String,
    Address(address): Address,
    pool: &Arc<Pool<WorkspaceId>>,
    request: Request,
) -> Result<Response, Refusal> {
    // Only programs that know a secret can make the server read a body.
    let mut c = state.db.read().await?;
    let Some(hook) = hooks::find(&mut c, &secret).await? else {
        drop(c);
        state.limits.anonymous(address)?;
        return Err(Refusal::Fault(HookFault::NoService));
    };
    let sealed = if hook.secret_set {
        secrets::find(&mut c, &hook.id.to_string()).await?
    } else {
        None
    };
    drop(c);
    state.limits.hook(hook.id)?;
    let query = axum::extract::Query::<HookQuery>::try_from_uri(request.uri());
    let query = query
        .map_err(|_| Refusal::Fault(HookFault::InvalidPayload))?
        .0;
    let wants_json = query.answer.as_deref() == Some("json");
    let headers = request.headers();
    let agent = header_text(headers, "user-agent");
    let mut head = head_of(headers, query);
    let proofs = proofs_of(headers);
    let room = take(pool, hook.workspace_id, RESERVED_BYTES)?;
    let within = std::time::Duration::from_secs(30);
    let (request, room) = read(request, room, MEMBER_BYTES_MAX, within).await?;
    let RawBody(signed) = RawBody::from_request(request, state).await?;
    let (mut bytes, mut files) = (signed.clone(), Vec::new());
    if let Ok(boundary) = multer::parse_boundary(&head.content_type) {
        let form = SentForm::read(boundary, bytes).await;
        let form = form.map_err(Refusal::Fault)?;
        FORM.clone_into(&mut head.content_type);
        (bytes, files) = (form.members.into(), form.files);
    }
    let mut attempt =
        ReceivedRequest::new(Some(address.to_string()), agent.as_deref(), head.clone());
    attempt.keep(&bytes);
    let whole = bytes.clone();
    let known = hook.secret_set.then(|| {
        let sealed = sealed.ok_or(SecretError::Unreadable)?;
        state.keyring.open(&hook.id.to_string(), &sealed)
    });
    let known = known.transpose().map_err(AuthError::from)?;
    let template = hook.template.map(|template| template.0);
    let buttons = ButtonUse::of(hook.gets_presses);
    let parsed = slow::run(UserId(hook.bot_id.0), move |_| {
        if known.is_some_and(|known| !proofs.fit(&known, &signed, now())) {
            return Err(Refusal::Fault(HookFault::InvalidToken));
        }
        parse(&head, &bytes, template.as_ref(), buttons)
    });
    let stopped = || ApiError::from(crate::db::DbError::Closed);
    let parsed = parsed.await.map_err(|_| Refusal::Api(stopped()))?;
    drop(room);
    let (workspace, id) = (hook.workspace_id, hook.id);
    let (incoming, text) = match parsed {
        Ok(parsed) => parsed,
        Err(Refusal::Fault(fault)) => {
            return Err(refuse(state, workspace, id, attempt, fault).await);
        }
        Err(other) => return Err(other),
    };
    let text = name_people(state, workspace, hook.bot_id, text).await?;
    attempt.product = incoming.product;
    attempt.notes = incoming.notes;
    if incoming.is_cut && files.len() < ATTACHMENTS_MAX {
        let is_json = whole.trim_ascii_start().starts_with(b"{");
        let name = if is_json {
            "message.json"
        } else {
            "message.txt"
        };
        files.push(SentFile {
            name: name.to_owned(),
            bytes: whole,
        });
    }
    let (published, files) = hook_files::publish(state, files).await?;
    let post = hooks::Post {
        hook: id,
        sender: hooks::PostedBy::Program { secret },
        attempt: attempt.clone(),
        text,
        files,
        metadata: incoming.metadata,
        thread_key: incoming.thread_key,
        thread_ts: incoming.thread_ts,
        client_id: incoming.client_id,
        channel: incoming.channel,
    };
    let write = async move |c: &mut Conn| hooks::post(c, workspace, &post).await;
    let (message, notes) = match state.db.write(workspace.0, write).await {
        Ok(Delivered::Posted {
            message,
            notes,
            uploads,
            ..
        }) => {
            for (n, stored) in published.into_iter().enumerate() {
                stored.settle(uploads.get(n).copied());
            }
            if !uploads.is_empty() {
                state.documents.wake();
            }
            (message, notes)
        }
        Ok(Delivered::Refused(fault)) => {
            for stored in published {
                stored.settle(None);
            }
            return Err(refuse(state, workspace, id, attempt, fault).await);
        }
        // An error, so that nothing is stored, not even the client ID.
        Err(HookError::Chat(ChatError::ChannelArchived)) => {
            let fault = HookFault::ChannelIsArchived;
            return Err(refuse(state, workspace, id, attempt, fault).await);
        }
        Err(error) => return Err(error.into()),
    };
    count("posted");
    if wants_json {
        let url = format!(
            "{}/{}/c/{}/t/{}#m-{}",
            state.public_url, hook.slug, message.channel_id, message.thread_id, message.id
        );
        let body = json!({
            "ok": true, "message_id": message.id, "thread_id": message.thread_id, "url": url, "ts": hooks::slack_ts(&message),
            "notes": notes,
        });
        return Ok(Json(body).into_response());
    }
    Ok(([(header::CONTENT_TYPE, PLAIN)], "ok").into_response())
}

/// Stores a request that posted nothing.
async fn refuse(
    state: &State,
    workspace: WorkspaceId,
    hook: HookId,
    attempt: ReceivedRequest,
    fault: HookFault,
) -> Refusal {
    count(fault.as_str());
    let store = async move |c: &mut Conn| {
        hooks::record(c, hook, &attempt, RequestOutcome::Refused(fault)).await
    };
    match state.db.write(workspace.0, store).await {
        Ok(_) => Refusal::Fault(fault),
        Err(error) => error.into(),
    }
}

fn count(result: &'static str) {
    metrics::counter!("openvibe_hook_requests_total", "result" => result).increment(1);
}
