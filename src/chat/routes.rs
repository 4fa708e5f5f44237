//! Channels, threads, messages and tasks over HTTP.

use axum::{Json, http::StatusCode};
use serde::Deserialize;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    ChatError, access,
    channels::{self, MyChannel},
    messages::{self, Message, React, Text, Window},
    post::{self, NewThread, Posted, PostedMessage, PostedThread},
    reads::{self, ReadMark},
    remove,
    snapshot::{self, Snapshot},
    threads::{self, MyThread, ThreadPatch},
};
use crate::{
    auth::{Actor, Caller, Member, Scope},
    db::{Conn, Engine},
    http::{
        ApiError, State,
        extract::{Body, Path, Query, nullable},
        page::{List, PageQuery, parse_id, parse_limit},
    },
    ids::{AgentId, ChannelId, MessageId, TaskId, ThreadId, UserId},
    realtime::log,
    tasks::{Task, queue},
};

type St = axum::extract::State<State>;

const MESSAGES_PAGE: i64 = 50;
const THREADS_PAGE: i64 = 20;

pub fn router() -> OpenApiRouter<State> {
    OpenApiRouter::new()
        .routes(routes!(get_snapshot))
        .routes(routes!(list_events))
        .routes(routes!(list_channels, create_channel))
        .routes(routes!(open_direct))
        .routes(routes!(get_channel, update_channel))
        .routes(routes!(archive_channel))
        .routes(routes!(unarchive_channel))
        .routes(routes!(join_channel))
        .routes(routes!(leave_channel))
        .routes(routes!(read_channel))
        .routes(routes!(list_channel_members, add_channel_member))
        .routes(routes!(remove_channel_member))
        .routes(routes!(list_threads, start_thread))
        .routes(routes!(get_thread, update_thread))
        .routes(routes!(read_thread))
        .routes(routes!(list_messages, post_message))
        .routes(routes!(get_message, edit_message, delete_message))
        .routes(routes!(add_reaction, remove_reaction))
        .routes(routes!(list_tasks))
        .routes(routes!(get_task))
        .routes(routes!(cancel_task))
        .routes(routes!(retry_task))
}

/// The workspace whose writer an object's commands go to; nil when the object does not exist.
async fn workspace_key(c: &mut Conn, sql: WhichObject) -> Result<uuid::Uuid, ApiError> {
    let row: Option<(uuid::Uuid,)> = match sql {
        WhichObject::Channel(id) => {
            c.q("select workspace_id from channels where id = $1")
                .bind(id)
                .opt()
                .await?
        }
        WhichObject::Thread(id) => {
            c.q("select workspace_id from threads where id = $1")
                .bind(id)
                .opt()
                .await?
        }
        WhichObject::Message(id) => {
            c.q("select workspace_id from messages where id = $1")
                .bind(id)
                .opt()
                .await?
        }
        WhichObject::Task(id) => {
            c.q("select workspace_id from tasks where id = $1")
                .bind(id)
                .opt()
                .await?
        }
    };
    Ok(row.map(|row| row.0).unwrap_or_default())
}

#[derive(Clone, Copy)]
enum WhichObject {
    Channel(ChannelId),
    Thread(ThreadId),
    Message(MessageId),
    Task(TaskId),
}

/// Runs a command in the queue of the object's workspace.
async fn write_for<T, F>(state: &State, object: WhichObject, command: F) -> Result<T, ApiError>
where
    T: Send + 'static,
    F: AsyncFn(&mut Conn) -> Result<T, ChatError> + Send + 'static,
{
    let key = match state.db.engine() {
        Engine::Sqlite => uuid::Uuid::nil(),
        Engine::Postgres => workspace_key(&mut state.db.read().await?, object).await?,
    };
    Ok(state.db.write(key, command).await?)
}

/// Everything that a client begins with, at exactly one number of the log
#[utoipa::path(get, path = "/v1/snapshot", tag = "boot", responses((status = 200, body = Snapshot)))]
async fn get_snapshot(
    axum::extract::State(state): St,
    actor: Actor,
) -> Result<Json<Snapshot>, ApiError> {
    let online = state.hub.online(actor.workspace);
    let mut c = state.db.snapshot().await?;
    Ok(Json(
        snapshot::load(&mut c, &actor, state.epoch.clone(), online).await?,
    ))
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct EventsQuery {
    /// The number after which to read.
    #[param(value_type = Option<i64>, minimum = 0)]
    after: Option<String>,
    /// 1 to 100.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 100)]
    limit: Option<String>,
}

/// A page of the log.
#[derive(serde::Serialize, utoipa::ToSchema)]
struct Events {
    /// Always `list`.
    object: &'static str,
    /// The same frames as on the socket.
    #[schema(value_type = Vec<Object>)]
    data: Vec<Box<serde_json::value::RawValue>>,
    has_more: bool,
    first_id: Option<String>,
    last_id: Option<String>,
    /// The newest number of the workspace.
    seq: i64,
    epoch: String,
    /// `after` lies outside of what is kept, or ahead of the newest: load the snapshot.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    resync: bool,
}

/// Durable events after a number, oldest first
#[utoipa::path(get, path = "/v1/events", tag = "boot", params(EventsQuery), responses((status = 200, body = Events)))]
async fn list_events(
    axum::extract::State(state): St,
    actor: Actor,
    Query(query): Query<EventsQuery>,
) -> Result<Json<Events>, ApiError> {
    actor.require(Scope::ChatRead)?;
    let limit = parse_limit(query.limit.as_deref(), 100)?;
    let after = match query.after.as_deref().filter(|t| !t.is_empty()) {
        None => 0,
        Some(text) => text
            .parse::<i64>()
            .ok()
            .filter(|n| *n >= 0)
            .ok_or_else(|| {
                ApiError::invalid(
                    "invalid_cursor",
                    format!("after is an event's seq, not `{text}`"),
                    "after",
                )
            })?,
    };
    let mut c = state.db.snapshot().await?;
    let (head, pruned) = log::head(&mut c, actor.workspace).await?;
    let resync = after < pruned || after > head;
    let mut rows = if resync {
        Vec::new()
    } else {
        log::visible_after(&mut c, actor.workspace, actor.user, after, head, limit + 1).await?
    };
    let more = i64::try_from(rows.len()).unwrap_or(i64::MAX) > limit;
    rows.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    Ok(Json(Events {
        object: "list",
        has_more: more,
        first_id: rows.first().map(|(seq, _)| seq.to_string()),
        last_id: rows.last().map(|(seq, _)| seq.to_string()),
        data: rows
            .into_iter()
            .filter_map(|(_, frame)| serde_json::value::RawValue::from_string(frame).ok())
            .collect(),
        seq: head,
        epoch: state.epoch.clone(),
        resync,
    }))
}

/// Channels that one may see, oldest first
#[utoipa::path(get, path = "/v1/channels", tag = "channels", params(PageQuery), responses((status = 200, body = List<MyChannel>)))]
async fn list_channels(
    axum::extract::State(state): St,
    actor: Actor,
    Query(query): Query<PageQuery>,
) -> Result<Json<List<MyChannel>>, ApiError> {
    actor.require(Scope::ChatRead)?;
    let page = query.parse::<ChannelId>(20)?;
    let mut c = state.db.read().await?;
    let rows = channels::list_mine(
        &mut c,
        actor.workspace,
        actor.user,
        (page.after, page.before),
        page.limit + 1,
    )
    .await?;
    Ok(Json(List::new(
        rows,
        page.limit,
        page.before.is_some(),
        |ch: &MyChannel| ch.channel.id.to_string(),
    )))
}

#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct ChannelForm {
    /// Made plain: `Launch Plan` becomes `launch-plan`.
    name: String,
    topic: Option<String>,
    #[serde(default)]
    private: bool,
}

/// Make a channel
#[utoipa::path(post, path = "/v1/channels", tag = "channels", request_body = ChannelForm, responses((status = 201, body = MyChannel)))]
async fn create_channel(
    axum::extract::State(state): St,
    actor: Actor,
    Body(form): Body<ChannelForm>,
) -> Result<(StatusCode, Json<MyChannel>), ApiError> {
    let name = channels::parse_name(&form.name)?;
    let topic = channels::parse_topic(form.topic.as_deref())?;
    let made = state
        .db
        .write(actor.workspace.0, async move |c: &mut Conn| {
            channels::create(c, &actor, &name, topic.clone(), form.private).await
        })
        .await?;
    Ok((StatusCode::CREATED, Json(made)))
}

#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct DirectForm {
    #[serde(default)]
    member_ids: Vec<UserId>,
    /// An agent that answers everything there.
    agent_id: Option<AgentId>,
}

/// The direct channel of these people (and this agent); the same ones give the same one
#[utoipa::path(post, path = "/v1/direct", tag = "channels", request_body = DirectForm,
    responses((status = 201, body = MyChannel), (status = 200, body = MyChannel, description = "It existed")))]
async fn open_direct(
    axum::extract::State(state): St,
    actor: Actor,
    Body(form): Body<DirectForm>,
) -> Result<(StatusCode, Json<MyChannel>), ApiError> {
    let (channel, is_new) = state
        .db
        .write(actor.workspace.0, async move |c: &mut Conn| {
            channels::open_direct(c, &actor, form.member_ids.clone(), form.agent_id).await
        })
        .await?;
    Ok((
        if is_new {
            StatusCode::CREATED
        } else {
            StatusCode::OK
        },
        Json(channel),
    ))
}

/// A channel
#[utoipa::path(get, path = "/v1/channels/{id}", tag = "channels", params(("id" = ChannelId, Path)), responses((status = 200, body = MyChannel)))]
async fn get_channel(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<ChannelId>,
) -> Result<Json<MyChannel>, ApiError> {
    let mut c = state.db.read().await?;
    access::channel(&mut c, &caller, id).await?.reading()?;
    Ok(Json(channels::get_mine(&mut c, caller.user, id).await?))
}

#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct ChannelPatch {
    name: Option<String>,
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<String>)]
    topic: Option<Option<String>>,
}

/// Change a channel's name or topic
#[utoipa::path(patch, path = "/v1/channels/{id}", tag = "channels", params(("id" = ChannelId, Path)), request_body = ChannelPatch,
    responses((status = 200, body = MyChannel)))]
async fn update_channel(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<ChannelId>,
    Body(patch): Body<ChannelPatch>,
) -> Result<Json<MyChannel>, ApiError> {
    let name = patch
        .name
        .as_deref()
        .map(channels::parse_name)
        .transpose()?;
    let topic = match patch.topic {
        None => None,
        Some(topic) => Some(channels::parse_topic(topic.as_deref())?),
    };
    let channel = write_for(&state, WhichObject::Channel(id), async move |c| {
        channels::update(c, &caller, id, name.as_deref(), topic.clone()).await
    });
    Ok(Json(channel.await?))
}

/// Archive a channel
#[utoipa::path(post, path = "/v1/channels/{id}/archive", tag = "channels", params(("id" = ChannelId, Path)), responses((status = 200, body = MyChannel)))]
async fn archive_channel(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<ChannelId>,
) -> Result<Json<MyChannel>, ApiError> {
    let set = async move |c: &mut Conn| channels::set_archived(c, &caller, id, true).await;
    Ok(Json(
        write_for(&state, WhichObject::Channel(id), set).await?,
    ))
}

/// Open an archived channel again
#[utoipa::path(post, path = "/v1/channels/{id}/unarchive", tag = "channels", params(("id" = ChannelId, Path)), responses((status = 200, body = MyChannel)))]
async fn unarchive_channel(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<ChannelId>,
) -> Result<Json<MyChannel>, ApiError> {
    let set = async move |c: &mut Conn| channels::set_archived(c, &caller, id, false).await;
    Ok(Json(
        write_for(&state, WhichObject::Channel(id), set).await?,
    ))
}

/// Join a public channel
#[utoipa::path(post, path = "/v1/channels/{id}/join", tag = "channels", params(("id" = ChannelId, Path)), responses((status = 200, body = MyChannel)))]
async fn join_channel(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<ChannelId>,
) -> Result<Json<MyChannel>, ApiError> {
    let join = async move |c: &mut Conn| channels::join_self(c, &caller, id).await;
    Ok(Json(
        write_for(&state, WhichObject::Channel(id), join).await?,
    ))
}

/// Leave a channel
#[utoipa::path(post, path = "/v1/channels/{id}/leave", tag = "channels", params(("id" = ChannelId, Path)), responses((status = 200, body = MyChannel)))]
async fn leave_channel(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<ChannelId>,
) -> Result<Json<MyChannel>, ApiError> {
    let leave = async move |c: &mut Conn| channels::leave(c, &caller, id).await;
    Ok(Json(
        write_for(&state, WhichObject::Channel(id), leave).await?,
    ))
}

/// Mark everything in a channel read
#[utoipa::path(post, path = "/v1/channels/{id}/read", tag = "channels", params(("id" = ChannelId, Path)), responses((status = 200, body = MyChannel)))]
async fn read_channel(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<ChannelId>,
) -> Result<Json<MyChannel>, ApiError> {
    let user = caller.user;
    let read = async move |c: &mut Conn| channels::read_all(c, &caller, id).await;
    let channel = write_for(&state, WhichObject::Channel(id), read).await?;
    let frame = serde_json::json!({"type": "read.updated", "channel_id": id, "thread_id": null, "seq": channel.read_seq});
    state
        .hub
        .tell_user(channel.channel.workspace_id, user, &frame);
    Ok(Json(channel))
}

/// Members of a channel in the order in which they joined it
#[utoipa::path(get, path = "/v1/channels/{id}/members", tag = "channels", params(("id" = ChannelId, Path), PageQuery),
    responses((status = 200, body = List<Member>)))]
async fn list_channel_members(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<ChannelId>,
    Query(query): Query<PageQuery>,
) -> Result<Json<List<Member>>, ApiError> {
    let page = query.parse::<UserId>(20)?;
    let mut c = state.db.read().await?;
    let access = access::channel(&mut c, &caller, id).await?.reading()?;
    let rows =
        channels::list_members(&mut c, &access, (page.after, page.before), page.limit + 1).await?;
    Ok(Json(List::new(
        rows,
        page.limit,
        page.before.is_some(),
        |m: &Member| m.user_id.to_string(),
    )))
}

#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct ChannelMemberForm {
    user_id: UserId,
}

/// Add someone to a channel
#[utoipa::path(post, path = "/v1/channels/{id}/members", tag = "channels", params(("id" = ChannelId, Path)), request_body = ChannelMemberForm,
    responses((status = 201, body = Member)))]
async fn add_channel_member(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<ChannelId>,
    Body(form): Body<ChannelMemberForm>,
) -> Result<(StatusCode, Json<Member>), ApiError> {
    let add = async move |c: &mut Conn| channels::add_member(c, &caller, id, form.user_id).await;
    Ok((
        StatusCode::CREATED,
        Json(write_for(&state, WhichObject::Channel(id), add).await?),
    ))
}

/// Take someone out of a channel
#[utoipa::path(delete, path = "/v1/channels/{id}/members/{user_id}", tag = "channels", params(("id" = ChannelId, Path), ("user_id" = UserId, Path)),
    responses((status = 204)))]
async fn remove_channel_member(
    axum::extract::State(state): St,
    caller: Caller,
    Path((id, user)): Path<(ChannelId, UserId)>,
) -> Result<StatusCode, ApiError> {
    let remove = async move |c: &mut Conn| channels::remove_member(c, &caller, id, user).await;
    write_for(&state, WhichObject::Channel(id), remove).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ThreadsQuery {
    /// 1 to 100; 20 by default.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 100)]
    limit: Option<String>,
    /// The `next_cursor` of the page before.
    cursor: Option<String>,
}

/// Threads of a channel, latest activity first
#[utoipa::path(get, path = "/v1/channels/{id}/threads", tag = "threads", params(("id" = ChannelId, Path), ThreadsQuery),
    responses((status = 200, body = List<MyThread>)))]
async fn list_threads(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<ChannelId>,
    Query(query): Query<ThreadsQuery>,
) -> Result<Json<List<MyThread>>, ApiError> {
    let limit = parse_limit(query.limit.as_deref(), THREADS_PAGE)?;
    threads::check_cursor(query.cursor.as_deref())?;
    let mut c = state.db.snapshot().await?;
    access::channel(&mut c, &caller, id).await?.reading()?;
    let (rows, next_cursor) =
        threads::list(&mut c, caller.user, id, query.cursor.as_deref(), limit).await?;
    let mut list = List::new(rows, limit, false, |thread: &MyThread| {
        thread.thread.id.to_string()
    });
    list.has_more = next_cursor.is_some();
    list.next_cursor = next_cursor;
    Ok(Json(list))
}

#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct ThreadForm {
    /// Markdown, at most 32 KiB.
    content: String,
    title: Option<String>,
    /// An agent that answers what mentions none.
    agent_id: Option<AgentId>,
    /// The same again answers 200 with the first.
    client_id: Option<String>,
}

/// Starts a thread; shared with the socket.
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

fn status_of(posted: &Posted) -> StatusCode {
    if posted.created {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    }
}

/// Start a thread
#[utoipa::path(post, path = "/v1/channels/{id}/threads", tag = "threads", params(("id" = ChannelId, Path)), request_body = ThreadForm,
    responses((status = 201, body = PostedThread), (status = 200, body = PostedThread, description = "A resend: the first answer")))]
async fn start_thread(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<ChannelId>,
    Body(form): Body<ThreadForm>,
) -> Result<(StatusCode, Json<PostedThread>), ApiError> {
    let text = Text::parse(form.content)?;
    let new = NewThread {
        title: post::parse_title(form.title.as_deref())?,
        agent: form.agent_id,
        client_id: post::parse_client_id(form.client_id)?,
    };
    let posted = start(&state, caller, id, text, new).await?;
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

/// A thread
#[utoipa::path(get, path = "/v1/threads/{id}", tag = "threads", params(("id" = ThreadId, Path)), responses((status = 200, body = MyThread)))]
async fn get_thread(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<ThreadId>,
) -> Result<Json<MyThread>, ApiError> {
    Ok(Json(
        threads::get_mine(&mut state.db.snapshot().await?, &caller, id).await?,
    ))
}

#[derive(Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
enum ThreadStatus {
    Open,
    Archived,
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
    auto_reply: Option<bool>,
    status: Option<ThreadStatus>,
}

/// Change a thread's title, agent or status
#[utoipa::path(patch, path = "/v1/threads/{id}", tag = "threads", params(("id" = ThreadId, Path)), request_body = ThreadChange,
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
        agent: change.agent_id,
        auto_reply: change.auto_reply,
        status: change.status.map(|status| match status {
            ThreadStatus::Open => "open",
            ThreadStatus::Archived => "archived",
        }),
    };
    let update = async move |c: &mut Conn| threads::update(c, &caller, id, &patch).await;
    Ok(Json(
        write_for(&state, WhichObject::Thread(id), update).await?,
    ))
}

#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct ReadForm {
    /// The newest message's `seq` that was read; it may lie before the present mark.
    seq: i64,
}

/// Marks a thread read and tells the person's other sockets; shared with the socket.
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
    let frame = serde_json::json!({"type": "read.updated", "thread_id": id, "seq": mark.seq});
    state.hub.tell_user(workspace, user, &frame);
    Ok(mark)
}

/// Say how far one has read a thread
#[utoipa::path(put, path = "/v1/threads/{id}/read", tag = "threads", params(("id" = ThreadId, Path)), request_body = ReadForm,
    responses((status = 200, body = ReadMark)))]
async fn read_thread(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<ThreadId>,
    Body(form): Body<ReadForm>,
) -> Result<Json<ReadMark>, ApiError> {
    Ok(Json(mark_read(&state, caller, id, form.seq).await?))
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct MessagesQuery {
    /// 1 to 100; 50 by default.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 100)]
    limit: Option<String>,
    /// Messages after this one.
    after: Option<String>,
    /// Messages before this one.
    before: Option<String>,
    /// Messages around this one, itself included.
    around: Option<String>,
}

/// Messages of a thread, oldest first; without a cursor the newest page
#[utoipa::path(get, path = "/v1/threads/{id}/messages", tag = "messages", params(("id" = ThreadId, Path), MessagesQuery),
    responses((status = 200, body = List<Message>)))]
async fn list_messages(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<ThreadId>,
    Query(query): Query<MessagesQuery>,
) -> Result<Json<List<Message>>, ApiError> {
    let limit = parse_limit(query.limit.as_deref(), MESSAGES_PAGE)?;
    let cursors = [
        (
            parse_id::<MessageId>(query.after.as_deref(), "after")?,
            "after",
        ),
        (parse_id(query.before.as_deref(), "before")?, "before"),
        (parse_id(query.around.as_deref(), "around")?, "around"),
    ];
    let given: Vec<(MessageId, &str)> = cursors
        .into_iter()
        .filter_map(|(id, name)| id.map(|id| (id, name)))
        .collect();
    if given.len() > 1 {
        return Err(ApiError::invalid(
            "invalid_cursor",
            "give one of `after`, `before` and `around`".to_owned(),
            given[1].1,
        ));
    }
    let mut c = state.db.snapshot().await?;
    access::thread(&mut c, &caller, id).await?.reading()?;
    let window = match given.first() {
        None => Window::Newest,
        Some((message, name)) => {
            let seq = messages::seq_in_thread(&mut c, id, *message).await?;
            let seq = seq.ok_or(ChatError::MessageNotFound)?;
            match *name {
                "after" => Window::After(seq),
                "before" => Window::Before(seq),
                _ => Window::Around(seq),
            }
        }
    };
    let rows = messages::list(&mut c, id, window, limit).await?;
    let backwards = matches!(window, Window::Newest | Window::Before(_));
    let mut list = List::new(rows, limit, backwards, |m: &Message| m.id.to_string());
    if matches!(window, Window::Around(_))
        && let Some(first) = list.data.first()
    {
        // Of a window around a message: whether there is more before it.
        list.has_more = !messages::list(&mut c, id, Window::Before(first.seq), 1)
            .await?
            .is_empty();
    }
    Ok(Json(list))
}

#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct MessageForm {
    /// Markdown, at most 32 KiB.
    content: String,
    /// A message of this thread that this one answers.
    parent_id: Option<MessageId>,
    /// The same again answers 200 with the first.
    client_id: Option<String>,
}

/// Says something in a thread; shared with the socket.
pub async fn say(
    state: &State,
    caller: Caller,
    id: ThreadId,
    text: Text,
    parent: Option<MessageId>,
    client_id: Option<String>,
) -> Result<Posted, ApiError> {
    let post = async move |c: &mut Conn| {
        post::post_message(c, &caller, id, &text, parent, client_id.as_deref()).await
    };
    write_for(state, WhichObject::Thread(id), post).await
}

/// Say something in a thread; agents that it mentions are asked
#[utoipa::path(post, path = "/v1/threads/{id}/messages", tag = "messages", params(("id" = ThreadId, Path)), request_body = MessageForm,
    responses((status = 201, body = PostedMessage), (status = 200, body = PostedMessage, description = "A resend: the first answer")))]
async fn post_message(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<ThreadId>,
    Body(form): Body<MessageForm>,
) -> Result<(StatusCode, Json<PostedMessage>), ApiError> {
    let text = Text::parse(form.content)?;
    let client_id = post::parse_client_id(form.client_id)?;
    let posted = say(&state, caller, id, text, form.parent_id, client_id).await?;
    Ok((
        status_of(&posted),
        Json(PostedMessage {
            message: posted.message,
            tasks: posted.tasks,
        }),
    ))
}

/// A message
#[utoipa::path(get, path = "/v1/messages/{id}", tag = "messages", params(("id" = MessageId, Path)), responses((status = 200, body = Message)))]
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
    /// Markdown, at most 32 KiB.
    content: String,
}

/// Edit one's own message; it asks no agent again
#[utoipa::path(patch, path = "/v1/messages/{id}", tag = "messages", params(("id" = MessageId, Path)), request_body = MessagePatch,
    responses((status = 200, body = Message)))]
async fn edit_message(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<MessageId>,
    Body(patch): Body<MessagePatch>,
) -> Result<Json<Message>, ApiError> {
    let text = Text::parse(patch.content)?;
    let edit = async move |c: &mut Conn| messages::edit(c, &caller, id, &text).await;
    Ok(Json(
        write_for(&state, WhichObject::Message(id), edit).await?,
    ))
}

/// Delete a message: a tombstone stays, its text goes from everywhere
#[utoipa::path(delete, path = "/v1/messages/{id}", tag = "messages", params(("id" = MessageId, Path)), responses((status = 200, body = Message)))]
async fn delete_message(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<MessageId>,
) -> Result<Json<Message>, ApiError> {
    let tracker = state.tracker.clone();
    // On its own, so that it is done whole also when the client goes away in the middle.
    let deleting = tracker.spawn(async move {
        let hub = std::sync::Arc::clone(&state.hub);
        let delete = async move |c: &mut Conn| remove::delete_message(c, &caller, id, &hub).await;
        let message = write_for(&state, WhichObject::Message(id), delete).await?;
        if let Err(e) = state.db.scrub().await {
            tracing::warn!(error = %e, "a deleted text may stay in the write-ahead log until the next checkpoint");
        }
        Ok::<_, ApiError>(message)
    });
    Ok(Json(deleting.await.map_err(|_| ApiError::internal())??))
}

/// React to a message
#[utoipa::path(put, path = "/v1/messages/{id}/reactions/{emoji}", tag = "messages", params(("id" = MessageId, Path), ("emoji" = String, Path)),
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

/// Take a reaction back
#[utoipa::path(delete, path = "/v1/messages/{id}/reactions/{emoji}", tag = "messages", params(("id" = MessageId, Path), ("emoji" = String, Path)),
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

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct TasksQuery {
    /// 1 to 100; 20 by default.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 100)]
    limit: Option<String>,
    after: Option<String>,
    before: Option<String>,
    /// `queued`, `running`, `completed`, `failed` or `cancelled`.
    status: Option<String>,
    thread_id: Option<String>,
    agent_id: Option<String>,
}

/// Tasks in places that one may see, oldest first
#[utoipa::path(get, path = "/v1/tasks", tag = "tasks", params(TasksQuery), responses((status = 200, body = List<Task>)))]
async fn list_tasks(
    axum::extract::State(state): St,
    caller: Caller,
    actor: Actor,
    Query(query): Query<TasksQuery>,
) -> Result<Json<List<Task>>, ApiError> {
    actor.require(Scope::ChatRead)?;
    let page = PageQuery {
        limit: query.limit,
        after: query.after,
        before: query.before,
    }
    .parse::<TaskId>(20)?;
    let status = query.status.filter(|s| !s.is_empty());
    if let Some(status) = &status
        && !["queued", "running", "completed", "failed", "cancelled"].contains(&status.as_str())
    {
        let text =
            format!("`{status}` is no status: use queued, running, completed, failed or cancelled");
        return Err(ApiError::invalid("invalid_status", text, "status"));
    }
    let thread = parse_id::<ThreadId>(query.thread_id.as_deref(), "thread_id")?;
    let agent = parse_id::<AgentId>(query.agent_id.as_deref(), "agent_id")?;
    let mut c = state.db.read().await?;
    if let Some(thread) = thread {
        access::thread(&mut c, &caller, thread).await?;
    }
    if let Some(agent) = agent {
        crate::agents::profiles::get_agent(&mut c, actor.workspace, agent).await?;
    }
    let filter = queue::Filter {
        status,
        thread,
        agent,
    };
    let rows = queue::list(
        &mut c,
        actor.workspace,
        actor.user,
        &filter,
        (page.after, page.before),
        page.limit + 1,
    )
    .await?;
    Ok(Json(List::new(
        rows,
        page.limit,
        page.before.is_some(),
        |task: &Task| task.id.to_string(),
    )))
}

/// A task that the person may see.
///
/// # Errors
/// `TaskNotFound`, or what `reading` says.
pub async fn visible_task(c: &mut Conn, caller: &Caller, id: TaskId) -> Result<Task, ChatError> {
    let task = queue::find_task(c, id)
        .await?
        .ok_or(ChatError::TaskNotFound)?;
    access::thread(c, caller, task.thread_id)
        .await
        .map_err(|_| ChatError::TaskNotFound)?
        .reading()?;
    Ok(task)
}

/// A task
#[utoipa::path(get, path = "/v1/tasks/{id}", tag = "tasks", params(("id" = TaskId, Path)), responses((status = 200, body = Task)))]
async fn get_task(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<TaskId>,
) -> Result<Json<Task>, ApiError> {
    Ok(Json(
        visible_task(&mut state.db.read().await?, &caller, id).await?,
    ))
}

/// Stop a task; what it has written stays
#[utoipa::path(post, path = "/v1/tasks/{id}/cancel", tag = "tasks", params(("id" = TaskId, Path)),
    responses((status = 200, body = Task, description = "Cancelled, or as it ended before")))]
async fn cancel_task(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<TaskId>,
) -> Result<Json<Task>, ApiError> {
    let hub = std::sync::Arc::clone(&state.hub);
    let cancel = async move |c: &mut Conn| remove::cancel_task(c, &caller, id, &hub).await;
    Ok(Json(
        write_for(&state, WhichObject::Task(id), cancel).await?,
    ))
}

/// Try a failed or cancelled task again
#[utoipa::path(post, path = "/v1/tasks/{id}/retry", tag = "tasks", params(("id" = TaskId, Path)), responses((status = 201, body = Task)))]
async fn retry_task(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<TaskId>,
) -> Result<(StatusCode, Json<Task>), ApiError> {
    let retry = async move |c: &mut Conn| post::retry_task(c, &caller, id).await;
    Ok((
        StatusCode::CREATED,
        Json(write_for(&state, WhichObject::Task(id), retry).await?),
    ))
}
