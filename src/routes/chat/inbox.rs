//! The inbox over HTTP.

use axum::{Json, http::StatusCode};
use futures::FutureExt;
use serde::Deserialize;
use utoipa_axum::router::OpenApiRouter;

use super::{St, WhichObject, write_for};
use crate::{
    auth::{Caller, WorkspaceCaller},
    chat::{
        ChatError, access,
        inbox::{
            asked::{self, AskedMessages},
            following::{self, FollowedKind, FollowingFilter, FollowingPage},
            item::InboxItem,
            list::{self, InboxChanges, InboxFilter, InboxPage},
            state::{self, CHANGED_MAX, ChangedItems, NewState},
        },
    },
    db::Conn,
    http::{
        ApiError, ErrorCode,
        extract::{Body, Path, Query},
        page::Limit,
        routing::routes,
    },
    ids::{ChannelId, InboxItemId, MessageId},
    inbox::{InboxReason, InboxState},
    server::State,
    time::Timestamp,
};

const PAGE: i64 = 50;
const FOLLOWING_PAGE: i64 = 30;

pub(super) fn router() -> OpenApiRouter<State> {
    OpenApiRouter::new()
        .routes(routes!(list_inbox))
        .routes(routes!(list_inbox_changes))
        .routes(routes!(list_asked))
        .routes(routes!(list_following))
        .routes(routes!(set_inbox_state))
        .routes(routes!(save_message, unsave_message))
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct InboxQuery {
    /// `open` by default.
    #[param(inline)]
    state: Option<InboxState>,
    /// Only items with this reason.
    #[param(inline)]
    reason: Option<InboxReason>,
    /// Only items in this channel.
    channel_id: Option<ChannelId>,
    /// 1 to 100; 50 by default.
    #[param(inline)]
    limit: Option<Limit>,
    /// The `next_cursor` of the previous page.
    cursor: Option<String>,
}

/// List the caller's inbox items, newest first
#[utoipa::path(get, path = "/v1/inbox", tag = "inbox",
    security(("session" = ["viewer"]), ("key" = ["chat:read"])),
    params(InboxQuery), responses((status = 200, body = InboxPage)))]
async fn list_inbox(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    Query(query): Query<InboxQuery>,
) -> Result<Json<InboxPage>, ApiError> {
    let limit = Limit::or(query.limit, PAGE);
    let filter = InboxFilter {
        state: query.state,
        reason: query.reason,
        channel: query.channel_id,
        cursor: query.cursor,
    };
    let read = state.db.scan(member.share()).await?.run(move |c| {
        async move {
            let actor = member.enter(c).await?;
            if let Some(channel) = filter.channel {
                let found = access::channel(c, &member.caller, channel).await?;
                if found.actor.workspace != actor.workspace {
                    return Err(ChatError::ChannelNotFound.into());
                }
            }
            Ok::<_, ApiError>(list::page(c, &actor, &filter, limit).await?)
        }
        .boxed()
    });
    Ok(Json(read.await?))
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ChangesQuery {
    /// The `seq` of an earlier response.
    #[param(minimum = 0)]
    since: i64,
}

/// List the caller's inbox items that changed at or after an event
#[utoipa::path(get, path = "/v1/inbox/changes", tag = "inbox",
    security(("session" = ["viewer"]), ("key" = ["chat:read"])),
    params(ChangesQuery), responses((status = 200, body = InboxChanges)))]
async fn list_inbox_changes(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    Query(query): Query<ChangesQuery>,
) -> Result<Json<InboxChanges>, ApiError> {
    let read = state.db.scan(member.share()).await?.run(move |c| {
        async move {
            let actor = member.enter(c).await?;
            Ok::<_, ApiError>(list::changes(c, &actor, query.since).await?)
        }
        .boxed()
    });
    Ok(Json(read.await?))
}

/// List the caller's questions that somebody has not answered, newest first
#[utoipa::path(get, path = "/v1/inbox/asked", tag = "inbox",
    security(("session" = ["viewer"]), ("key" = ["chat:read"])),
    responses((status = 200, body = AskedMessages)))]
async fn list_asked(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
) -> Result<Json<AskedMessages>, ApiError> {
    let read = state.db.scan(member.share()).await?.run(move |c| {
        async move {
            let actor = member.enter(c).await?;
            Ok::<_, ApiError>(asked::asked(c, &actor).await?)
        }
        .boxed()
    });
    Ok(Json(read.await?))
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct FollowingQuery {
    /// Only conversations of this kind.
    #[param(inline)]
    kind: Option<FollowedKind>,
    /// True for conversations with unread messages only.
    unread: Option<bool>,
    /// Text in the title, or in the first message of a thread without a title.
    q: Option<String>,
    /// 1 to 100; 30 by default.
    #[param(inline)]
    limit: Option<Limit>,
    /// The `next_cursor` of the previous page.
    cursor: Option<String>,
}

/// List the threads and forks that the caller follows, and their chats, latest activity first
#[utoipa::path(get, path = "/v1/following", tag = "inbox",
    security(("session" = ["viewer"]), ("key" = ["chat:read"])),
    params(FollowingQuery), responses((status = 200, body = FollowingPage)))]
async fn list_following(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    Query(query): Query<FollowingQuery>,
) -> Result<Json<FollowingPage>, ApiError> {
    let limit = Limit::or(query.limit, FOLLOWING_PAGE);
    let filter = FollowingFilter {
        kind: query.kind,
        unread: query.unread.unwrap_or(false),
        text: query.q,
        cursor: query.cursor,
    };
    let read = state.db.scan(member.share()).await?.run(move |c| {
        async move {
            let actor = member.enter(c).await?;
            let page = following::page(c, &member.caller, &actor, &filter, limit).await?;
            Ok::<_, ApiError>(page)
        }
        .boxed()
    });
    Ok(Json(read.await?))
}

#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct InboxStateForm {
    /// Items of the caller, 1 to 200.
    #[schema(min_items = 1, max_items = 200)]
    ids: Vec<InboxItemId>,
    state: InboxState,
    /// Time at which the items open again, from a minute to a year from now. Required for `later`, except for saved messages.
    #[serde(default)]
    until: Option<Timestamp>,
}

/// Set the state of inbox items
///
/// Repeating a request changes nothing. An approval cannot be marked as done: decide it.
#[utoipa::path(put, path = "/v1/inbox/state", tag = "inbox",
    security(("session" = ["viewer"]), ("key" = ["chat:write"])),
    request_body(content = InboxStateForm,
        example = json!({"ids": ["inbox_01h455vb4pex5vsknk084sn02q"], "state": "done"})),
    responses((status = 200, body = ChangedItems)))]
async fn set_inbox_state(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    Body(form): Body<InboxStateForm>,
) -> Result<Json<ChangedItems>, ApiError> {
    if form.ids.is_empty() || form.ids.len() > CHANGED_MAX {
        let text = format!("`ids` must have 1 to {CHANGED_MAX} items");
        return Err(ApiError::unprocessable(ErrorCode::InvalidValue, text).param("ids"));
    }
    let to = NewState {
        state: form.state,
        until: form.until,
    };
    let changed = member
        .write(&state.db, async move |c, actor| {
            state::set(c, actor, &form.ids, to).await
        })
        .await?;
    Ok(Json(changed))
}

#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct SaveForm {
    /// Time of a reminder, from a minute to a year from now; null for none.
    #[serde(default)]
    until: Option<Timestamp>,
}

/// Save a message, with an optional reminder
#[utoipa::path(put, path = "/v1/messages/{id}/saved", tag = "inbox",
    security(("session" = ["viewer"]), ("key" = ["chat:read", "chat:write"])),
    params(("id" = MessageId, Path)), request_body = SaveForm,
    responses((status = 200, body = InboxItem)))]
async fn save_message(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<MessageId>,
    Body(form): Body<SaveForm>,
) -> Result<Json<InboxItem>, ApiError> {
    let save = async move |c: &mut Conn| state::save(c, &caller, id, form.until).await;
    Ok(Json(
        write_for(&state, WhichObject::Message(id), save).await?,
    ))
}

/// Remove a message from the saved ones
#[utoipa::path(delete, path = "/v1/messages/{id}/saved", tag = "inbox",
    security(("session" = ["viewer"]), ("key" = ["chat:read", "chat:write"])),
    params(("id" = MessageId, Path)), responses((status = 204)))]
async fn unsave_message(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<MessageId>,
) -> Result<StatusCode, ApiError> {
    let unsave = async move |c: &mut Conn| state::unsave(c, &caller, id).await;
    write_for(&state, WhichObject::Message(id), unsave).await?;
    Ok(StatusCode::NO_CONTENT)
}
