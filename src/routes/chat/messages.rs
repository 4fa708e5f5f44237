//! Messages and reactions over HTTP.

use axum::{
    Extension, Json,
    http::{HeaderMap, Method, StatusCode},
    response::{IntoResponse, Response},
};
use futures::FutureExt;
use serde::Deserialize;
use tracing::Instrument;
use utoipa_axum::router::OpenApiRouter;

use super::{St, WhichObject, status_of, write_for};
use crate::{
    auth::Caller,
    chat::{
        ChatError, access,
        messages::{self, Message, MessageState, React, Text, Window},
        pins,
        post::{self, Posted, PostedMessage},
        remove, unfurls,
    },
    code::ReviewForm,
    db::Conn,
    http::{
        ApiError, ErrorCode,
        encoding::{Compressor, EncodedJson, accepts},
        extract::{Body, NoFields, Path, Query},
        page::{Limit, List},
        routing::routes,
    },
    ids::{ChannelId, FileId, ForkId, MessageId, TaskId, ThreadId},
    patch::present,
    realtime::hub::Conversation,
    routes::code::reviewed,
    server::{
        State,
        pages::{CachedPage, PageKey},
    },
};

const MESSAGES_PAGE: i64 = 50;

pub(super) fn router() -> OpenApiRouter<State> {
    OpenApiRouter::new()
        .routes(routes!(list_messages, post_message))
        .routes(routes!(list_fork_messages, post_fork_message))
        .routes(routes!(get_message, edit_message, delete_message))
        .routes(routes!(add_reaction, remove_reaction))
        .routes(routes!(remove_unfurls))
        .routes(routes!(pin_message, unpin_message))
        .routes(routes!(list_pins))
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct MessagesQuery {
    /// 1 to 100; 50 by default.
    #[param(inline)]
    limit: Option<Limit>,
    /// Return messages after the one with this ID.
    after: Option<MessageId>,
    /// Return messages before the one with this ID.
    before: Option<MessageId>,
    /// Return the message with this ID and the messages around it.
    around: Option<MessageId>,
}

impl MessagesQuery {
    /// Checks whether the query requests the newest page.
    fn is_newest(&self) -> bool {
        self.after.is_none() && self.before.is_none() && self.around.is_none()
    }
}

/// List the messages of a thread's main line, oldest first; without a cursor, the newest page
#[utoipa::path(get, path = "/v1/threads/{id}/messages", tag = "messages",
    security(("session" = ["viewer"]), ("key" = ["chat:read"])),
    params(("id" = ThreadId, Path), MessagesQuery),
    responses((status = 200, body = List<Message>)))]
async fn list_messages(
    axum::extract::State(state): St,
    caller: Caller,
    method: Method,
    headers: HeaderMap,
    Extension(compressor): Extension<Compressor>,
    Path(id): Path<ThreadId>,
    Query(query): Query<MessagesQuery>,
) -> Result<Response, ApiError> {
    // The cache checks the access of people.
    if caller.bot().is_none()
        && query.is_newest()
        && Limit::or(query.limit, MESSAGES_PAGE) == MESSAGES_PAGE
    {
        let key = PageKey {
            thread: id,
            accepts_gzip: method != Method::HEAD && accepts(&headers, "gzip"),
        };
        return newest_page(&state, &caller, key, &compressor).await;
    }
    let list = list(&state, &caller, Conversation::Thread(id), &query).await?;
    Ok(list.into_response())
}

/// Returns the newest page of a thread from the cache if it is current, or reads it. A page with a streaming reply is not cached,
/// because the text of such a reply changes without an event.
async fn newest_page(
    state: &State,
    caller: &Caller,
    key: PageKey,
    compressor: &Compressor,
) -> Result<Response, ApiError> {
    if let Some(mut page) = state.pages.get(key) {
        let mut c = state.db.read().await?;
        let access =
            access::thread_with_page(&mut c, caller, key.thread, Some(&page.version)).await?;
        drop(c);
        access.thread_access.reading()?;
        if access.is_current {
            if page.version != access.version {
                page.version = access.version;
                state.pages.insert(key, page.clone());
            }
            return Ok(page.body.into_response());
        }
    }
    let reader = caller.clone();
    let read = state.db.snapshot().await?.run(move |c| {
        async move {
            let access = access::thread_with_page(c, &reader, key.thread, None).await?;
            access.thread_access.reading()?;
            let conversation = Conversation::Thread(key.thread);
            let rows = messages::list(c, conversation, Window::Newest, MESSAGES_PAGE).await?;
            Ok::<_, ApiError>((rows, access.version))
        }
        .boxed()
    });
    let (rows, version) = read.await?;
    let is_streaming = rows
        .iter()
        .any(|message| message.state == MessageState::Streaming);
    let list = List::new(rows, MESSAGES_PAGE, true, |m: &Message| m.id.to_string());
    let compressor = Some(compressor).filter(|_| key.accepts_gzip);
    let body = EncodedJson::new(&list, compressor).await;
    let body = body.map_err(|_| ApiError::internal())?;
    if !is_streaming {
        let page = CachedPage {
            version,
            body: body.clone(),
        };
        state.pages.insert(key, page);
    }
    Ok(body.into_response())
}

/// List the messages of a fork, oldest first; without a cursor, the newest page
#[utoipa::path(get, path = "/v1/forks/{id}/messages", tag = "forks",
    security(("session" = ["viewer"]), ("key" = ["chat:read"])),
    params(("id" = ForkId, Path), MessagesQuery),
    responses((status = 200, body = List<Message>)))]
async fn list_fork_messages(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<ForkId>,
    Query(query): Query<MessagesQuery>,
) -> Result<Json<List<Message>>, ApiError> {
    list(&state, &caller, Conversation::Fork(id), &query).await
}

async fn list(
    state: &State,
    caller: &Caller,
    conversation: Conversation,
    query: &MessagesQuery,
) -> Result<Json<List<Message>>, ApiError> {
    let limit = Limit::or(query.limit, MESSAGES_PAGE);
    let cursors = [
        (query.after, "after"),
        (query.before, "before"),
        (query.around, "around"),
    ];
    let given: Vec<(MessageId, &'static str)> = cursors
        .into_iter()
        .filter_map(|(id, name)| id.map(|id| (id, name)))
        .collect();
    if given.len() > 1 {
        return Err(ApiError::invalid(
            ErrorCode::InvalidCursor,
            "use only one of `after`, `before`, and `around`".to_owned(),
            given[1].1,
        ));
    }
    let reader = caller.clone();
    let read = state.db.snapshot().await?.run(move |c| {
        async move {
            access::find_conversation(c, &reader, conversation)
                .await?
                .reading()?;
            let window = match given.first() {
                None => Window::Newest,
                Some((message, name)) => {
                    let seq = messages::conversation_seq(c, conversation, *message).await?;
                    let seq = seq.ok_or(ChatError::MessageNotFound)?;
                    match *name {
                        "after" => Window::After(seq),
                        "before" => Window::Before(seq),
                        _ => Window::Around(seq),
                    }
                }
            };
            let rows = messages::list(c, conversation, window, limit).await?;
            let backwards = matches!(window, Window::Newest | Window::Before(_));
            let mut list = List::new(rows, limit, backwards, |m: &Message| m.id.to_string());
            if matches!(window, Window::Around(_))
                && let Some(first) = list.data.first()
            {
                // For a window around a message, `has_more` refers to older messages.
                list.has_more = !messages::list(c, conversation, Window::Before(first.seq), 1)
                    .await?
                    .is_empty();
            }
            Ok::<_, ApiError>(list)
        }
        .boxed()
    });
    Ok(Json(read.await?))
}

#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct MessageForm {
    /// Markdown, at most 32 KiB. Can be empty if there are `attachments`.
    content: String,
    /// The caller's own uploads that are not attached to a message yet, at most 10.
    #[serde(default)]
    #[schema(max_items = 10)]
    attachments: Vec<FileId>,
    /// A message of the same conversation to reply to.
    parent_id: Option<MessageId>,
    /// ID chosen by the client. A request that repeats an ID returns the first message with status 200.
    client_id: Option<String>,
    /// False if a mention of all members of the channel opens no inbox item; true by default.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    notify: Option<bool>,
    /// The caller's queued or running reply of an agent in this conversation, which reads the message now. The message starts no task,
    /// even if it mentions agents.
    steer: Option<TaskId>,
    /// Comments on lines of a session's changes, which the message quotes after its text, and which the session's agent answers. The response
    /// has status 409 and the code `diff_changed` if the changes are others now.
    review: Option<ReviewForm>,
}

/// Posts a message in a thread or a fork; shared with the WebSocket.
pub async fn say(
    state: &State,
    caller: Caller,
    conversation: Conversation,
    text: Text,
    parent: Option<MessageId>,
    client_id: Option<String>,
    steers: Option<TaskId>,
) -> Result<Posted, ApiError> {
    let post = async move |c: &mut Conn| {
        post::post_message(
            c,
            &caller,
            conversation,
            &text,
            parent,
            client_id.as_deref(),
            steers,
        )
        .await
    };
    write_for(state, conversation.into(), post).await
}

/// Post a message in a thread; agents that it mentions reply
#[utoipa::path(post, path = "/v1/threads/{id}/messages", tag = "messages",
    security(("session" = ["member"]), ("key" = ["chat:write"])),
    params(("id" = ThreadId, Path)),
    request_body(content = MessageForm,
        example = json!({"content": "Monday: two quiet days before the fair.", "client_id": "5f0c2b1f"})),
    responses((status = 201, body = PostedMessage), (status = 200, body = PostedMessage, description = "Resend: the first response")))]
async fn post_message(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<ThreadId>,
    Body(form): Body<MessageForm>,
) -> Result<(StatusCode, Json<PostedMessage>), ApiError> {
    post(&state, caller, Conversation::Thread(id), form).await
}

/// Post a message in a fork; the mentioned agents reply, or the fork's agent if there are none
#[utoipa::path(post, path = "/v1/forks/{id}/messages", tag = "forks",
    security(("session" = ["member"]), ("key" = ["chat:write"])),
    params(("id" = ForkId, Path)),
    request_body(content = MessageForm,
        example = json!({"content": "And who books the room?", "client_id": "5f0c2b21"})),
    responses((status = 201, body = PostedMessage), (status = 200, body = PostedMessage, description = "Resend: the first response")))]
async fn post_fork_message(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<ForkId>,
    Body(form): Body<MessageForm>,
) -> Result<(StatusCode, Json<PostedMessage>), ApiError> {
    post(&state, caller, Conversation::Fork(id), form).await
}

async fn post(
    state: &State,
    caller: Caller,
    conversation: Conversation,
    form: MessageForm,
) -> Result<(StatusCode, Json<PostedMessage>), ApiError> {
    let (content, review) = match &form.review {
        Some(review) => {
            let (content, review) =
                reviewed(state, &caller, conversation, &form.content, review).await?;
            (content, Some(review))
        }
        None => (form.content, None),
    };
    let mut text = Text::with_files(content, form.attachments)?;
    text.review = review;
    text.notifies_group = form.notify.unwrap_or(true);
    let client_id = post::parse_client_id(form.client_id)?;
    let (parent, steers) = (form.parent_id, form.steer);
    let posted = say(state, caller, conversation, text, parent, client_id, steers).await?;
    Ok((
        status_of(&posted),
        Json(PostedMessage {
            message: posted.message,
            tasks: posted.tasks,
        }),
    ))
}

/// Get a message
#[utoipa::path(get, path = "/v1/messages/{id}", tag = "messages",
    security(("session" = ["viewer"]), ("key" = ["chat:read"])),
    params(("id" = MessageId, Path)), responses((status = 200, body = Message)))]
async fn get_message(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<MessageId>,
) -> Result<Json<Message>, ApiError> {
    let mut c = state.db.read().await?;
    access::message(&mut c, &caller, id).await?.reading()?;
    Ok(Json(messages::get_message(&mut c, id).await?))
}

#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct MessagePatch {
    /// Markdown, at most 32 KiB. Can be empty if the message has files, which stay attached.
    content: String,
}

/// Edit your own message; an edit does not trigger agents
///
/// Only the author can edit a message.
#[utoipa::path(patch, path = "/v1/messages/{id}", tag = "messages",
    security(("session" = ["member"]), ("key" = ["chat:write"])),
    params(("id" = MessageId, Path)),
    request_body(content = MessagePatch,
        example = json!({"content": "Monday: two **quiet** days before the fair."})),
    responses((status = 200, body = Message)))]
async fn edit_message(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<MessageId>,
    Body(patch): Body<MessagePatch>,
) -> Result<Json<Message>, ApiError> {
    let text = Text::edited(patch.content)?;
    let edit = async move |c: &mut Conn| messages::edit(c, &caller, id, &text).await;
    Ok(Json(
        write_for(&state, WhichObject::Message(id), edit).await?,
    ))
}

/// Delete a message: its text is deleted everywhere, and a tombstone remains
///
/// Deleting someone else's message requires the admin role; keys need `workspace:admin`.
#[utoipa::path(delete, path = "/v1/messages/{id}", tag = "messages",
    security(("session" = ["member"]), ("key" = ["chat:write"])),
    params(("id" = MessageId, Path)), responses((status = 200, body = Message)))]
async fn delete_message(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<MessageId>,
) -> Result<Json<Message>, ApiError> {
    Ok(Json(delete(&state, caller, id).await?))
}

/// Remove the previews of links from your own message
///
/// Bots add previews to links of their domains.
#[utoipa::path(delete, path = "/v1/messages/{id}/unfurls", tag = "messages",
    security(("session" = ["member"]), ("key" = ["chat:write"])),
    params(("id" = MessageId, Path)), responses((status = 200, body = Message)))]
async fn remove_unfurls(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<MessageId>,
) -> Result<Json<Message>, ApiError> {
    let remove = async move |c: &mut Conn| unfurls::remove(c, &caller, id).await;
    Ok(Json(
        write_for(&state, WhichObject::Message(id), remove).await?,
    ))
}

/// Pin a message in its channel
///
/// `metadata.pinned_by` of the message then has your ID. A channel can have 100 pinned messages.
#[utoipa::path(put, path = "/v1/messages/{id}/pin", tag = "messages",
    security(("session" = ["member"]), ("key" = ["chat:write"])),
    params(("id" = MessageId, Path)), responses((status = 200, body = Message)))]
async fn pin_message(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<MessageId>,
    Body(_): NoFields,
) -> Result<Json<Message>, ApiError> {
    let pin = async move |c: &mut Conn| pins::pin(c, &caller, id).await;
    Ok(Json(
        write_for(&state, WhichObject::Message(id), pin).await?,
    ))
}

/// Unpin a message
#[utoipa::path(delete, path = "/v1/messages/{id}/pin", tag = "messages",
    security(("session" = ["member"]), ("key" = ["chat:write"])),
    params(("id" = MessageId, Path)), responses((status = 200, body = Message)))]
async fn unpin_message(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<MessageId>,
) -> Result<Json<Message>, ApiError> {
    let unpin = async move |c: &mut Conn| pins::unpin(c, &caller, id).await;
    Ok(Json(
        write_for(&state, WhichObject::Message(id), unpin).await?,
    ))
}

/// List the pinned messages of a channel, pinned last first
#[utoipa::path(get, path = "/v1/channels/{id}/pins", tag = "messages",
    security(("session" = ["viewer"]), ("key" = ["chat:read"])),
    params(("id" = ChannelId, Path)), responses((status = 200, body = List<Message>)))]
async fn list_pins(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<ChannelId>,
) -> Result<Json<List<Message>>, ApiError> {
    let mut c = state.db.read().await?;
    let pinned = pins::list_pins(&mut c, &caller, id).await?;
    Ok(Json(List::new(
        pinned,
        pins::PINS_MAX,
        false,
        |message: &Message| message.id.to_string(),
    )))
}

/// Deletes a message; shared with Slack's API.
pub async fn delete(state: &State, caller: Caller, id: MessageId) -> Result<Message, ApiError> {
    let (tracker, state) = (state.tracker.clone(), state.clone());
    // The deletion runs in its own task, so that it completes even if the client disconnects.
    let deleting = async move {
        let hub = std::sync::Arc::clone(&state.hub);
        let delete = async move |c: &mut Conn| remove::delete_message(c, &caller, id, &hub).await;
        let message = write_for(&state, WhichObject::Message(id), delete).await?;
        if let Err(e) = state.db.scrub().await {
            tracing::warn!(error = %e, "deleted text may remain in the write-ahead log until the next checkpoint");
        }
        Ok::<_, ApiError>(message)
    };
    let deleting = tracker.spawn(deleting.in_current_span());
    deleting.await.map_err(|_| ApiError::internal())?
}

/// React to a message
#[utoipa::path(put, path = "/v1/messages/{id}/reactions/{emoji}", tag = "messages",
    security(("session" = ["member"]), ("key" = ["chat:write"])),
    params(("id" = MessageId, Path), ("emoji" = String, Path, description = "One emoji, percent-encoded.", example = "👍")),
    responses((status = 200, body = Message)))]
async fn add_reaction(
    axum::extract::State(state): St,
    caller: Caller,
    Path((id, emoji)): Path<(MessageId, String)>,
) -> Result<Json<Message>, ApiError> {
    let emoji = messages::parse_emoji(&emoji)?;
    let react = async move |c: &mut Conn| messages::react(c, &caller, id, &emoji, React::Add).await;
    Ok(Json(
        write_for(&state, WhichObject::Message(id), react).await?,
    ))
}

/// Remove a reaction
#[utoipa::path(delete, path = "/v1/messages/{id}/reactions/{emoji}", tag = "messages",
    security(("session" = ["member"]), ("key" = ["chat:write"])),
    params(("id" = MessageId, Path), ("emoji" = String, Path, description = "One emoji, percent-encoded.", example = "👍")),
    responses((status = 200, body = Message)))]
async fn remove_reaction(
    axum::extract::State(state): St,
    caller: Caller,
    Path((id, emoji)): Path<(MessageId, String)>,
) -> Result<Json<Message>, ApiError> {
    let emoji = messages::parse_emoji(&emoji)?;
    let react =
        async move |c: &mut Conn| messages::react(c, &caller, id, &emoji, React::Remove).await;
    Ok(Json(
        write_for(&state, WhichObject::Message(id), react).await?,
    ))
}
