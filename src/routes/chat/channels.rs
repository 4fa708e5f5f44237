//! Channels over HTTP.

use axum::{Json, http::StatusCode};
use futures::FutureExt;
use serde::Deserialize;
use utoipa_axum::router::OpenApiRouter;

use super::{OwnFrame, St, WhichObject, write_for};
use crate::{
    auth::{Caller, Member, Scope, WorkspaceCaller},
    chat::{
        access,
        channels::{
            self, ChannelAgent, ChannelAgentMode, ChannelUpdate, DirectPartner, ListedChannel,
            MyChannel,
        },
        follows::FollowLevel,
    },
    db::Conn,
    http::{
        ApiError, ErrorCode,
        extract::{Body, NoFields, Path, Query},
        page::{List, PageQuery},
        routing::routes,
    },
    ids::{AgentId, ChannelId, UserId},
    patch::{nullable, present},
    server::State,
};

pub(super) fn router() -> OpenApiRouter<State> {
    OpenApiRouter::new()
        .routes(routes!(list_channels, create_channel))
        .routes(routes!(open_direct))
        .routes(routes!(get_channel, update_channel))
        .routes(routes!(archive_channel))
        .routes(routes!(unarchive_channel))
        .routes(routes!(join_channel))
        .routes(routes!(leave_channel))
        .routes(routes!(read_channel))
        .routes(routes!(set_channel_level))
        .routes(routes!(list_channel_members, add_channel_member))
        .routes(routes!(remove_channel_member))
}

/// List the channels that the caller can see, oldest first
#[utoipa::path(get, path = "/v1/channels", tag = "channels",
    security(("session" = ["viewer"]), ("key" = ["chat:read"])),
    params(PageQuery<ChannelId>), responses((status = 200, body = List<ListedChannel>)))]
pub(in crate::routes) async fn list_channels(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    Query(query): Query<PageQuery<ChannelId>>,
) -> Result<Json<List<ListedChannel>>, ApiError> {
    let read = state.db.scan(member.share()).await?.run(move |c| {
        async move {
            let actor = member.enter(c).await?;
            actor.require(Scope::ChatRead)?;
            let (workspace, user) = (actor.workspace, actor.user);
            let page = query.page(20)?;
            let rows =
                channels::list_mine(c, workspace, user, page.range(), page.limit + 1).await?;
            let rows = channels::with_member_counts(c, workspace, user, rows).await?;
            Ok::<_, ApiError>(List::new(
                rows,
                page.limit,
                page.before.is_some(),
                |ch: &ListedChannel| ch.mine.channel.id.to_string(),
            ))
        }
        .boxed()
    });
    Ok(Json(read.await?))
}

#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct ChannelForm {
    /// Normalized: `Launch Plan` becomes `launch-plan`.
    name: String,
    topic: Option<String>,
    #[serde(default)]
    private: bool,
}

/// Create a channel
#[utoipa::path(post, path = "/v1/channels", tag = "channels",
    security(("session" = ["member"]), ("key" = ["chat:write"])),
    request_body(content = ChannelForm,
        example = json!({"name": "Launch plan", "topic": "What ships, and when", "private": false})),
    responses((status = 201, body = MyChannel)))]
async fn create_channel(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    Body(form): Body<ChannelForm>,
) -> Result<(StatusCode, Json<MyChannel>), ApiError> {
    let name = channels::parse_name(&form.name)?;
    let topic = channels::parse_topic(form.topic.as_deref())?;
    let made = member
        .write(&state.db, async move |c, actor| {
            channels::create(c, actor, &name, topic.clone(), form.private).await
        })
        .await?;
    Ok((StatusCode::CREATED, Json(made)))
}

#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct DirectForm {
    /// Members besides the caller. If the caller is the only person, the list can be empty, or can be omitted if `agent_id` is set.
    member_ids: Option<Vec<UserId>>,
    /// An agent that replies to every message.
    agent_id: Option<AgentId>,
}

/// Open the direct channel of these people and this agent; the same participants share one channel
///
/// With an agent, keys also need `agents:use`.
#[utoipa::path(post, path = "/v1/direct", tag = "channels",
    security(("session" = ["member"]), ("key" = ["chat:write"])),
    request_body(content = DirectForm,
        example = json!({"member_ids": ["user_01k5t3h8xze4bs4p8v2m9qwd7a"]})),
    responses((status = 201, body = MyChannel), (status = 200, body = MyChannel, description = "The channel already existed")))]
async fn open_direct(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    Body(form): Body<DirectForm>,
) -> Result<(StatusCode, Json<MyChannel>), ApiError> {
    if form.member_ids.is_none() && form.agent_id.is_none() {
        return Err(ApiError::unprocessable(
            ErrorCode::NobodyNamed,
            "specify people in member_ids or an agent in agent_id".to_owned(),
        ));
    }
    let (channel, is_new) = member
        .write(&state.db, async move |c, actor| {
            channels::open_direct(
                c,
                actor,
                form.member_ids.clone().unwrap_or_default(),
                form.agent_id.map(DirectPartner::Agent),
            )
            .await
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

/// Get a channel
#[utoipa::path(get, path = "/v1/channels/{id}", tag = "channels",
    security(("session" = ["viewer"]), ("key" = ["chat:read"])),
    params(("id" = ChannelId, Path)), responses((status = 200, body = MyChannel)))]
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
struct ChannelAgentForm {
    agent_id: AgentId,
    mode: ChannelAgentMode,
    /// Maximum number of replies per day (UTC) to messages that do not mention the agent.
    #[serde(default = "daily_replies")]
    #[schema(minimum = 1, maximum = 10_000)]
    daily_max: i64,
}

fn daily_replies() -> i64 {
    channels::DAILY_REPLIES
}

impl ChannelAgentForm {
    fn parse(&self) -> Result<ChannelAgent, ApiError> {
        Ok(ChannelAgent {
            agent_id: self.agent_id,
            mode: self.mode,
            daily_max: channels::parse_daily_max(self.daily_max)?,
        })
    }
}

#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct ChannelPatch {
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    name: Option<String>,
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<String>)]
    topic: Option<Option<String>>,
    /// Not allowed for direct channels.
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<ChannelAgentForm>)]
    agent: Option<Option<ChannelAgentForm>>,
    /// Vector stores whose passages agents read for each question here: IDs, `vs_HANDLE`, or IDs of channels; at most 10. Everyone who
    /// can read the channel must be able to read them.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    vector_store_ids: Option<Vec<String>>,
}

/// Change a channel's name, topic, agent, or collections
///
/// To set an agent, keys also need `agents:use`.
#[utoipa::path(patch, path = "/v1/channels/{id}", tag = "channels",
    security(("session" = ["member"]), ("key" = ["chat:write"])),
    params(("id" = ChannelId, Path)),
    request_body(content = ChannelPatch,
        example = json!({"topic": "What goes out on Monday"})),
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
    let agent = patch
        .agent
        .map(|agent| agent.map(|agent| agent.parse()).transpose())
        .transpose()?;
    let stores = patch.vector_store_ids;
    let channel = write_for(&state, WhichObject::Channel(id), async move |c| {
        let change = ChannelUpdate {
            name: name.as_deref(),
            topic: topic.as_ref().map(Option::as_deref),
            agent,
            stores: stores.as_deref(),
        };
        channels::update(c, &caller, id, change).await
    });
    Ok(Json(channel.await?))
}

/// Archive a channel
///
/// Archiving a channel that someone else created requires the admin role; keys need `workspace:admin`.
#[utoipa::path(post, path = "/v1/channels/{id}/archive", tag = "channels",
    security(("session" = ["member"]), ("key" = ["chat:write"])),
    params(("id" = ChannelId, Path)), responses((status = 200, body = MyChannel)))]
async fn archive_channel(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<ChannelId>,
    _: NoFields,
) -> Result<Json<MyChannel>, ApiError> {
    let set = async move |c: &mut Conn| channels::set_archived(c, &caller, id, true).await;
    Ok(Json(
        write_for(&state, WhichObject::Channel(id), set).await?,
    ))
}

/// Unarchive a channel
///
/// Unarchiving a channel that someone else created requires the admin role; keys need `workspace:admin`.
#[utoipa::path(post, path = "/v1/channels/{id}/unarchive", tag = "channels",
    security(("session" = ["member"]), ("key" = ["chat:write"])),
    params(("id" = ChannelId, Path)), responses((status = 200, body = MyChannel)))]
async fn unarchive_channel(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<ChannelId>,
    _: NoFields,
) -> Result<Json<MyChannel>, ApiError> {
    let set = async move |c: &mut Conn| channels::set_archived(c, &caller, id, false).await;
    Ok(Json(
        write_for(&state, WhichObject::Channel(id), set).await?,
    ))
}

/// Join a public channel
#[utoipa::path(post, path = "/v1/channels/{id}/join", tag = "channels",
    security(("session" = ["member"]), ("key" = ["chat:write"])),
    params(("id" = ChannelId, Path)), responses((status = 200, body = MyChannel)))]
async fn join_channel(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<ChannelId>,
    _: NoFields,
) -> Result<Json<MyChannel>, ApiError> {
    let join = async move |c: &mut Conn| channels::join_self(c, &caller, id).await;
    Ok(Json(
        write_for(&state, WhichObject::Channel(id), join).await?,
    ))
}

/// Leave a channel
#[utoipa::path(post, path = "/v1/channels/{id}/leave", tag = "channels",
    security(("session" = ["member"]), ("key" = ["chat:write"])),
    params(("id" = ChannelId, Path)), responses((status = 200, body = MyChannel)))]
async fn leave_channel(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<ChannelId>,
    _: NoFields,
) -> Result<Json<MyChannel>, ApiError> {
    let leave = async move |c: &mut Conn| channels::leave(c, &caller, id).await;
    Ok(Json(
        write_for(&state, WhichObject::Channel(id), leave).await?,
    ))
}

/// Mark everything in a channel as read
#[utoipa::path(post, path = "/v1/channels/{id}/read", tag = "channels",
    security(("session" = ["viewer"]), ("key" = ["chat:read"])),
    params(("id" = ChannelId, Path)), responses((status = 200, body = MyChannel)))]
async fn read_channel(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<ChannelId>,
    _: NoFields,
) -> Result<Json<MyChannel>, ApiError> {
    let user = caller.user;
    let read = async move |c: &mut Conn| channels::read_all(c, &caller, id).await;
    let channel = write_for(&state, WhichObject::Channel(id), read).await?;
    let frame = OwnFrame::ChannelRead {
        channel_id: id,
        thread_id: (),
        seq: channel.read_seq,
    };
    state
        .hub
        .tell_user(channel.channel.workspace_id, user, &frame);
    Ok(Json(channel))
}

#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct LevelForm {
    /// `all`: each new thread; `mentions`: mentions only; `none`: mentions by handle only.
    level: FollowLevel,
}

/// Set the notification level of a channel
#[utoipa::path(put, path = "/v1/channels/{id}/level", tag = "channels",
    security(("session" = ["viewer"]), ("key" = ["chat:write"])),
    params(("id" = ChannelId, Path)),
    request_body(content = LevelForm, example = json!({"level": "all"})),
    responses((status = 200, body = MyChannel)))]
async fn set_channel_level(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<ChannelId>,
    Body(form): Body<LevelForm>,
) -> Result<Json<MyChannel>, ApiError> {
    let user = caller.user;
    let set = async move |c: &mut Conn| channels::set_level(c, &caller, id, form.level).await;
    let channel = write_for(&state, WhichObject::Channel(id), set).await?;
    let frame = OwnFrame::LevelUpdated {
        channel_id: id,
        level: channel.level,
    };
    state
        .hub
        .tell_user(channel.channel.workspace_id, user, &frame);
    Ok(Json(channel))
}

/// List the members of a channel, in the order in which they joined
#[utoipa::path(get, path = "/v1/channels/{id}/members", tag = "channels",
    security(("session" = ["viewer"]), ("key" = ["chat:read"])),
    params(("id" = ChannelId, Path), PageQuery<UserId>),
    responses((status = 200, body = List<Member>)))]
async fn list_channel_members(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<ChannelId>,
    Query(query): Query<PageQuery<UserId>>,
) -> Result<Json<List<Member>>, ApiError> {
    let page = query.page(20)?;
    let mut c = state.db.read().await?;
    let access = access::channel(&mut c, &caller, id).await?.reading()?;
    let rows = channels::list_members(&mut c, &access, page.range(), page.limit + 1).await?;
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
#[utoipa::path(post, path = "/v1/channels/{id}/members", tag = "channels",
    security(("session" = ["member"]), ("key" = ["chat:write"])),
    params(("id" = ChannelId, Path)),
    request_body(content = ChannelMemberForm,
        example = json!({"user_id": "user_01k5t3h8xze4bs4p8v2m9qwd7a"})),
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

/// Remove someone from a channel
///
/// Removing someone else from a channel that you did not create requires the admin role; keys need `workspace:admin`.
#[utoipa::path(delete, path = "/v1/channels/{id}/members/{user_id}", tag = "channels",
    security(("session" = ["member"]), ("key" = ["chat:write"])),
    params(("id" = ChannelId, Path), ("user_id" = UserId, Path)),
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
