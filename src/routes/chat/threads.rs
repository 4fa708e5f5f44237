//! Threads over HTTP.

use axum::{Json, http::StatusCode};
use futures::FutureExt;
use serde::Deserialize;
use tracing::Instrument;
use utoipa_axum::router::OpenApiRouter;

use super::{
    OwnFrame, ScannedObject, St, WhichObject,
    follow::{FollowForm, ReadForm, set_level},
    scan_for, status_of, write_for,
};
use crate::{
    auth::Caller,
    chat::{
        access,
        bindings::BindingPatch,
        follows::{Follow, FollowLevel},
        messages::Text,
        post::{self, NewThread, Posted, PostedThread, RunAgain},
        reads::{self, ReadMark},
        thread_change::{self, ThreadPatch},
        threads::{self, MyThread, OpenedThread, ThreadFilter, ThreadMemory, ThreadStatus},
    },
    db::Conn,
    http::{
        ApiError,
        extract::{Body, Path, Query},
        page::{Limit, List},
        routing::routes,
    },
    ids::{AgentId, ChannelId, FileId, MessageId, ThreadId, WorkspaceId},
    patch::{nullable, present},
    personal::{self, Eraser},
    realtime::hub::Conversation,
    server::State,
};

const THREADS_PAGE: i64 = 20;

pub(super) fn router() -> OpenApiRouter<State> {
    OpenApiRouter::new()
        .routes(routes!(list_threads, start_thread))
        .routes(routes!(get_thread, update_thread, delete_thread))
        .routes(routes!(run_again))
        .routes(routes!(read_thread))
        .routes(routes!(follow_thread, unfollow_thread))
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::routes) struct ThreadsQuery {
    /// 1 to 100; 20 by default.
    #[param(inline)]
    pub(in crate::routes) limit: Option<Limit>,
    /// The `next_cursor` of the previous page.
    pub(in crate::routes) cursor: Option<String>,
    /// Returns only threads that have unread messages, replies of agents, or results of deep dives.
    #[param(inline)]
    pub(in crate::routes) filter: Option<ThreadFilter>,
}

/// List the threads of a channel, latest activity first
#[utoipa::path(get, path = "/v1/channels/{id}/threads", tag = "threads",
    security(("session" = ["viewer"]), ("key" = ["chat:read"])),
    params(("id" = ChannelId, Path), ThreadsQuery),
    responses((status = 200, body = List<MyThread>)))]
pub(in crate::routes) async fn list_threads(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<ChannelId>,
    Query(query): Query<ThreadsQuery>,
) -> Result<Json<List<MyThread>>, ApiError> {
    let limit = Limit::or(query.limit, THREADS_PAGE);
    threads::check_cursor(query.cursor.as_deref())?;
    let c = scan_for(&state, &caller, ScannedObject::Channel(id)).await?;
    let read = c.run(move |c| {
        async move {
            access::channel(c, &caller, id).await?.reading()?;
            let cursor = query.cursor.as_deref();
            Ok::<_, ApiError>(threads::list(c, caller.user, id, query.filter, cursor, limit).await?)
        }
        .boxed()
    });
    let (rows, next_cursor) = read.await?;
    let list = List::new(rows, limit, false, |thread: &MyThread| {
        thread.thread.id.to_string()
    });
    Ok(Json(list.continued_at(next_cursor)))
}

#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct ThreadForm {
    /// Markdown, at most 32 KiB. Can be empty if there are `attachments`.
    content: String,
    /// The caller's own uploads that are not attached to a message yet, at most 10.
    #[serde(default)]
    #[schema(max_items = 10)]
    attachments: Vec<FileId>,
    title: Option<String>,
    /// Agent that replies to messages that mention no agent; null for none. If omitted, the thread uses the agent of `from_thread_id`
    /// or of the direct channel.
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<AgentId>)]
    agent_id: Option<Option<AgentId>>,
    /// Thread from which this one is opened: the new thread starts with the newest version of the
    /// same agent.
    from_thread_id: Option<ThreadId>,
    /// `on` if omitted.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false, inline)]
    memory: Option<ThreadMemory>,
    /// ID chosen by the client. A request that repeats an ID returns the first thread with status 200.
    client_id: Option<String>,
    /// False if a mention of all members of the channel opens no inbox item; true by default.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    notify: Option<bool>,
}

/// Starts a thread; shared with the WebSocket.
pub async fn start(
    state: &State,
    caller: Caller,
    id: ChannelId,
    text: Text,
    new: NewThread,
) -> Result<Posted, ApiError> {
    write_for(state, WhichObject::Channel(id), async move |c| {
        post::start_thread(c, &caller, id, &text, &new).await
    })
    .await
}

/// Start a thread
///
/// With an agent, keys also need `agents:use`.
#[utoipa::path(post, path = "/v1/channels/{id}/threads", tag = "threads",
    security(("session" = ["member"]), ("key" = ["chat:write"])),
    params(("id" = ChannelId, Path)),
    request_body(content = ThreadForm,
        example = json!({"content": "@vibe Friday or Monday?", "client_id": "5f0c2b1e"})),
    responses((status = 201, body = PostedThread), (status = 200, body = PostedThread, description = "Resend: the first response")))]
async fn start_thread(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<ChannelId>,
    Body(form): Body<ThreadForm>,
) -> Result<(StatusCode, Json<PostedThread>), ApiError> {
    let mut text = Text::with_files(form.content, form.attachments)?;
    text.notifies_group = form.notify.unwrap_or(true);
    let new = NewThread {
        title: post::parse_title(form.title.as_deref())?,
        agent: form.agent_id,
        from: form.from_thread_id,
        memory: form.memory.unwrap_or(ThreadMemory::On),
        client_id: post::parse_client_id(form.client_id)?,
    };
    posted_thread(start(&state, caller, id, text, new).await?)
}

/// Response to a post that started a thread.
fn posted_thread(posted: Posted) -> Result<(StatusCode, Json<PostedThread>), ApiError> {
    let status = status_of(&posted);
    let Some(thread) = posted.thread else {
        return Err(ApiError::internal());
    };
    Ok((
        status,
        Json(PostedThread {
            thread,
            message: posted.message,
            tasks: posted.tasks,
        }),
    ))
}

/// Get a thread
#[utoipa::path(get, path = "/v1/threads/{id}", tag = "threads",
    security(("session" = ["viewer"]), ("key" = ["chat:read"])),
    params(("id" = ThreadId, Path)), responses((status = 200, body = OpenedThread)))]
async fn get_thread(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<ThreadId>,
) -> Result<Json<OpenedThread>, ApiError> {
    let c = state.db.snapshot().await?;
    let read = c.run(move |c| async move { threads::open_mine(c, &caller, id).await }.boxed());
    Ok(Json(read.await?))
}

#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct ThreadChange {
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<String>)]
    title: Option<Option<String>>,
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<AgentId>)]
    agent_id: Option<Option<AgentId>>,
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    auto_reply: Option<bool>,
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    status: Option<ThreadStatus>,
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false, inline)]
    memory: Option<ThreadMemory>,
}

/// Change the title, agent, status, or memory of a thread
///
/// To bind an agent, keys also need `agents:use`.
#[utoipa::path(patch, path = "/v1/threads/{id}", tag = "threads",
    security(("session" = ["member"]), ("key" = ["chat:write"])),
    params(("id" = ThreadId, Path)),
    request_body(content = ThreadChange,
        example = json!({"title": "Friday or Monday?", "status": "open"})),
    responses((status = 200, body = MyThread)))]
async fn update_thread(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<ThreadId>,
    Body(change): Body<ThreadChange>,
) -> Result<Json<MyThread>, ApiError> {
    let patch = ThreadPatch {
        title: match change.title {
            None => None,
            Some(title) => Some(post::parse_title(title.as_deref())?),
        },
        binding: BindingPatch {
            agent: change.agent_id,
            auto_reply: change.auto_reply,
        },
        status: change.status,
        memory: change.memory,
    };
    let update = async move |c: &mut Conn| thread_change::update(c, &caller, id, &patch).await;
    Ok(Json(
        write_for(&state, WhichObject::Thread(id), update).await?,
    ))
}

/// Delete a chat with an agent
///
/// A person deletes their own chats, admins the examples of the workspace; other threads cannot be deleted. The thread is hidden at once;
/// its messages, and everything that was made from them, are removed in the background. This cannot be undone.
#[utoipa::path(delete, path = "/v1/threads/{id}", tag = "threads",
    security(("session" = ["member"]), ("key" = ["chat:write"])),
    params(("id" = ThreadId, Path)),
    responses((status = 204)))]
async fn delete_thread(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<ThreadId>,
) -> Result<StatusCode, ApiError> {
    let hub = std::sync::Arc::clone(&state.hub);
    let delete = async move |c: &mut Conn| personal::delete_thread(c, &caller, id, &hub).await;
    let workspace = write_for(&state, WhichObject::Thread(id), delete).await?;
    state
        .tracker
        .spawn(remove_threads(state.clone(), workspace).in_current_span());
    Ok(StatusCode::NO_CONTENT)
}

/// Removes the deleted threads of a workspace, unless another call in this process is waiting to do so.
pub async fn remove_threads(state: State, workspace: WorkspaceId) {
    let Some(waiting) = state.personal.start_erasure(workspace.0) else {
        return;
    };
    let _turn = state.personal.erase(workspace).await;
    // A thread that is deleted from here on needs another call.
    drop(waiting);
    if let Err(e) = Eraser::from(&state).remove_threads(workspace).await {
        tracing::warn!(error = %e, "could not remove deleted threads; retrying later");
    }
}

#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct VariantForm {
    /// A message of the caller's in the chat; in a variant, its first message.
    message_id: MessageId,
    /// Markdown, at most 32 KiB, in place of the message's text; the same text if omitted. Can be empty if the message has attachments.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    content: Option<String>,
    /// Agent of the variant; the agent of the chat if omitted.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    agent_id: Option<AgentId>,
    /// ID chosen by the client. A request that repeats an ID returns the first variant with status 200.
    client_id: Option<String>,
}

/// Run a message of a chat with an agent again, in a variant of the chat
///
/// The variant begins with the messages of the chat before this one, which are not copied, and asks again with the message's files. A chat
/// has one level of variants: in a variant, only the first message can be run again. With an agent, keys also need `agents:use`.
#[utoipa::path(post, path = "/v1/threads/{id}/variants", tag = "threads",
    security(("session" = ["member"]), ("key" = ["chat:write"])),
    params(("id" = ThreadId, Path)),
    request_body(content = VariantForm,
        example = json!({"message_id": "msg_01k5t3h8xze4bs4p8v2m9qwd7a", "content": "Friday or Monday?", "client_id": "5f0c2b1f"})),
    responses((status = 201, body = PostedThread), (status = 200, body = PostedThread, description = "Resend: the first response")))]
async fn run_again(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<ThreadId>,
    Body(form): Body<VariantForm>,
) -> Result<(StatusCode, Json<PostedThread>), ApiError> {
    let again = RunAgain {
        message: form.message_id,
        agent: form.agent_id,
        client_id: post::parse_client_id(form.client_id)?,
    };
    let content = if let Some(content) = form.content {
        content
    } else {
        let mut c = state.db.read().await?;
        let found = post::find_in_chat(&mut c, &caller, id, again.message).await?;
        found.content
    };
    let text = Text::edited(content)?;
    let posted = write_for(
        &state,
        WhichObject::Thread(id),
        async move |c: &mut Conn| post::run_again(c, &caller, id, &text, &again).await,
    )
    .await?;
    posted_thread(posted)
}

/// Marks a thread as read and notifies the user's other sockets; shared with the WebSocket.
pub async fn mark_read(
    state: &State,
    caller: Caller,
    id: ThreadId,
    seq: i64,
) -> Result<ReadMark, ApiError> {
    let user = caller.user;
    let (mark, workspace) = write_for(state, WhichObject::Thread(id), async move |c| {
        reads::mark_thread(c, &caller, id, seq).await
    })
    .await?;
    let frame = OwnFrame::ThreadRead {
        thread_id: id,
        seq: mark.seq,
    };
    state.hub.tell_user(workspace, user, &frame);
    Ok(mark)
}

/// Set the read marker of a thread
#[utoipa::path(put, path = "/v1/threads/{id}/read", tag = "threads",
    security(("session" = ["viewer"]), ("key" = ["chat:read"])),
    params(("id" = ThreadId, Path)),
    request_body(content = ReadForm,
        example = json!({"seq": 124})),
    responses((status = 200, body = ReadMark)))]
async fn read_thread(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<ThreadId>,
    Body(form): Body<ReadForm>,
) -> Result<Json<ReadMark>, ApiError> {
    Ok(Json(mark_read(&state, caller, id, form.seq).await?))
}

/// Follow or mute a thread
#[utoipa::path(put, path = "/v1/threads/{id}/follow", tag = "threads",
    security(("session" = ["viewer"]), ("key" = ["chat:write"])),
    params(("id" = ThreadId, Path)), request_body = FollowForm,
    responses((status = 200, body = Follow)))]
async fn follow_thread(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<ThreadId>,
    Body(form): Body<FollowForm>,
) -> Result<Json<Follow>, ApiError> {
    set_level(&state, caller, Conversation::Thread(id), form.level()).await
}

/// Reset the follow level of a thread to mentions only
#[utoipa::path(delete, path = "/v1/threads/{id}/follow", tag = "threads",
    security(("session" = ["viewer"]), ("key" = ["chat:write"])),
    params(("id" = ThreadId, Path)),
    responses((status = 200, body = Follow)))]
async fn unfollow_thread(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<ThreadId>,
) -> Result<Json<Follow>, ApiError> {
    let conversation = Conversation::Thread(id);
    set_level(&state, caller, conversation, FollowLevel::Mentions).await
}
