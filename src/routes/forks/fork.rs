//! HTTP routes that start, read, and change forks.

use axum::{Json, http::StatusCode};
use futures::FutureExt;
use serde::{Deserialize, Serialize};
use utoipa_axum::router::OpenApiRouter;

use super::St;
use crate::{
    auth::Caller,
    chat::{
        ChatError, access,
        bindings::BindingPatch,
        follows::{Follow, FollowLevel},
        forks::{self, Fork, ForkContext},
        messages::Message,
        my_forks::{self, MyFork},
        post,
        reads::{self, ForkReadMark},
    },
    db::Conn,
    forks::{
        ForkError,
        collaborate::Goal,
        start::{self, ForkPatch, NewFork, parse_description},
    },
    http::{
        ApiError,
        extract::{Body, NoFields, Path, Query},
        page::{List, PageQuery},
        routing::routes,
    },
    ids::{AgentId, ForkId, MessageId, ThreadId, WorkspaceId},
    patch::{nullable, present},
    realtime::hub::Conversation,
    routes::chat::{
        FollowForm, OwnFrame, ReadForm, ScannedObject, WhichObject, scan_for, set_level, write_for,
    },
    server::State,
    tasks::Task,
};

const FORKS_PAGE: i64 = 20;

pub(super) fn router() -> OpenApiRouter<State> {
    OpenApiRouter::new()
        .routes(routes!(list_forks, start_fork))
        .routes(routes!(get_fork, update_fork))
        .routes(routes!(abandon_fork))
        .routes(routes!(reopen_fork))
        .routes(routes!(read_fork))
        .routes(routes!(follow_fork, unfollow_fork))
}

/// Response of an action on a fork.
#[derive(Serialize, utoipa::ToSchema)]
struct OneFork {
    fork: Fork,
}

/// A new fork, with the goal and the task of a collaboration.
#[derive(Serialize, utoipa::ToSchema)]
pub(in crate::routes) struct NewForkSeen {
    fork: Fork,
    /// Message with the goal; present if `collaborators` were given.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    message: Option<Message>,
    /// First task of the collaboration; present if `collaborators` were given.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    task: Option<Task>,
}

/// List the forks of a thread, oldest first
#[utoipa::path(get, path = "/v1/threads/{id}/forks", tag = "forks",
    security(("session" = ["viewer"]), ("key" = ["chat:read"])),
    params(("id" = ThreadId, Path), PageQuery<ForkId>),
    responses((status = 200, body = List<MyFork>)))]
async fn list_forks(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<ThreadId>,
    Query(query): Query<PageQuery<ForkId>>,
) -> Result<Json<List<MyFork>>, ApiError> {
    let page = query.page(FORKS_PAGE)?;
    let thread = ScannedObject::Conversation(Conversation::Thread(id));
    let read = scan_for(&state, &caller, thread).await?.run(move |c| {
        async move {
            access::thread(c, &caller, id).await?.reading()?;
            if let Some(cursor) = page.after.or(page.before) {
                let found = forks::get_fork(c, cursor).await?;
                if found.thread_id != id {
                    return Err(ChatError::ForkNotFound.into());
                }
            }
            let rows = forks::list(c, id, page.range(), page.limit + 1).await?;
            let rows = my_forks::with_marks(c, caller.user, rows).await?;
            Ok::<_, ApiError>(List::new(
                rows,
                page.limit,
                page.before.is_some(),
                |mine: &MyFork| mine.fork.id.to_string(),
            ))
        }
        .boxed()
    });
    Ok(Json(read.await?))
}

#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::routes) struct ForkForm {
    /// A message of the thread's main line.
    message_id: MessageId,
    /// If omitted, the title is taken from the first line of the forked message.
    title: Option<String>,
    /// Topic of the fork, at most 2,000 characters; included in the prompt of the fork's agent.
    description: Option<String>,
    /// Agent that replies to every message; null for none. If omitted, the thread's agent, or the default agent, replies.
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<AgentId>)]
    agent_id: Option<Option<AgentId>>,
    /// Part of the thread that the fork's agent can see; defaults to `message`.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    context: Option<ForkContext>,
    /// Instead of `agent_id`: 2 to 4 agents that work on `goal` in turns, in this order.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    collaborators: Option<Vec<AgentId>>,
    /// With `collaborators`: their goal in 1 to 4,000 characters; posted as the caller's message.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    goal: Option<String>,
    /// With `collaborators`: maximum number of turns, 2 to 8 (default).
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    turns_max: Option<i64>,
    /// With `collaborators`: publish the resolution without review; defaults to false.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    auto_publish: Option<bool>,
    /// ID chosen by the client. A request that repeats an ID returns the first fork with status 200.
    client_id: Option<String>,
}

impl ForkForm {
    /// Takes the goal of a collaboration from the form, if there is one.
    ///
    /// # Errors
    /// `Invalid`.
    fn take_goal(&mut self) -> Result<Option<Goal>, ForkError> {
        let invalid =
            |text: &str, param: &str| Err(ForkError::Invalid(text.to_owned(), param.to_owned()));
        let Some(agents) = self.collaborators.take() else {
            let has_parts =
                self.goal.is_some() || self.turns_max.is_some() || self.auto_publish.is_some();
            return if has_parts {
                invalid("choose the agents that work together", "collaborators")
            } else {
                Ok(None)
            };
        };
        if self.agent_id.is_some() {
            return invalid("use either agent_id or collaborators", "agent_id");
        }
        let goal = self.goal.take();
        Ok(Some(Goal::parse(
            agents,
            goal,
            self.turns_max,
            self.auto_publish,
        )?))
    }
}

/// Checks whether the thread's workspace lacks a model.
async fn is_offline(state: &State, thread: ThreadId) -> Result<bool, ApiError> {
    let workspace: Option<(WorkspaceId,)> = state
        .db
        .read()
        .await?
        .q("select workspace_id from threads where id = $1")
        .bind(thread)
        .opt()
        .await?;
    Ok(match workspace {
        Some((workspace,)) => state.providers.of(workspace).await?.is_offline(),
        None => false,
    })
}

/// Fork a thread at a message; at most 7 forks of a thread can be active
///
/// With an agent or `collaborators`, keys also need `agents:use`. Collaborators work on the goal. After that, the draft of the
/// resolution waits for the caller's review, unless `auto_publish` is true.
#[utoipa::path(post, path = "/v1/threads/{id}/forks", tag = "forks",
    security(("session" = ["member"]), ("key" = ["chat:write"])),
    params(("id" = ThreadId, Path)),
    request_body(content = ForkForm,
        example = json!({"message_id": "msg_01k5t3h8xze4bs4p8v2m9qwd7a", "title": "What speaks for Monday", "context": "thread", "client_id": "5f0c2b20"})),
    responses((status = 201, body = NewForkSeen), (status = 200, body = NewForkSeen, description = "Resend: the first response")))]
pub(in crate::routes) async fn start_fork(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<ThreadId>,
    Body(mut form): Body<ForkForm>,
) -> Result<(StatusCode, Json<NewForkSeen>), ApiError> {
    let mut goal = form.take_goal()?;
    let is_offline = form.agent_id.is_none() && is_offline(&state, id).await?;
    if let Some(goal) = &mut goal {
        goal.is_offline = is_offline;
    }
    // Without a model, no agent can reply, so the fork gets none.
    let agent = if is_offline {
        Some(None)
    } else {
        form.agent_id
    };
    let new = NewFork {
        message: form.message_id,
        title: post::parse_title(form.title.as_deref())?,
        description: parse_description(form.description.as_deref())?,
        agent,
        context: form.context.unwrap_or(ForkContext::Message),
        goal,
        client_id: post::parse_client_id(form.client_id)?,
    };
    let start = async move |c: &mut Conn| start::start_fork(c, &caller, id, &new).await;
    let started = write_for(&state, WhichObject::Thread(id), start).await?;
    let status = if started.is_new {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    };
    let (message, task) = started.collaboration.unzip();
    let fork = started.fork;
    Ok((
        status,
        Json(NewForkSeen {
            fork,
            message,
            task,
        }),
    ))
}

/// Get a fork
#[utoipa::path(get, path = "/v1/forks/{id}", tag = "forks",
    security(("session" = ["viewer"]), ("key" = ["chat:read"])),
    params(("id" = ForkId, Path)), responses((status = 200, body = MyFork)))]
async fn get_fork(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<ForkId>,
) -> Result<Json<MyFork>, ApiError> {
    let mut c = state.db.snapshot().await?;
    access::fork(&mut c, &caller, id).await?.reading()?;
    let fork = forks::get_fork(&mut c, id).await?;
    let mut found = my_forks::with_marks(&mut c, caller.user, vec![fork]).await?;
    let mine = found.pop().ok_or(ChatError::ForkNotFound)?;
    Ok(Json(mine))
}

#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct ForkChange {
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    title: Option<String>,
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<String>)]
    description: Option<Option<String>>,
    /// The fork's agent; null for none.
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<AgentId>)]
    agent_id: Option<Option<AgentId>>,
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    auto_reply: Option<bool>,
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    context: Option<ForkContext>,
}

/// Change the title, description, agent, or context of an active fork
///
/// To bind an agent, keys also need `agents:use`.
#[utoipa::path(patch, path = "/v1/forks/{id}", tag = "forks",
    security(("session" = ["member"]), ("key" = ["chat:write"])),
    params(("id" = ForkId, Path)),
    request_body(content = ForkChange,
        example = json!({"title": "Monday, then"})),
    responses((status = 200, body = Fork)))]
async fn update_fork(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<ForkId>,
    Body(change): Body<ForkChange>,
) -> Result<Json<Fork>, ApiError> {
    let title = match change.title {
        Some(title) => Some(post::parse_title(Some(&title))?.ok_or_else(|| {
            ForkError::Invalid(
                "the title is blank: enter one".to_owned(),
                "title".to_owned(),
            )
        })?),
        None => None,
    };
    let patch = ForkPatch {
        title,
        description: match change.description {
            None => None,
            Some(text) => Some(parse_description(text.as_deref())?),
        },
        binding: BindingPatch {
            agent: change.agent_id,
            auto_reply: change.auto_reply,
        },
        context: change.context,
    };
    let update = async move |c: &mut Conn| start::change(c, &caller, id, &patch).await;
    Ok(Json(
        write_for(&state, WhichObject::Fork(id), update).await?,
    ))
}

/// Abandon a fork: close it without a resolution
#[utoipa::path(post, path = "/v1/forks/{id}/abandon", tag = "forks",
    security(("session" = ["member"]), ("key" = ["chat:write"])),
    params(("id" = ForkId, Path)), responses((status = 200, body = OneFork)))]
async fn abandon_fork(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<ForkId>,
    _: NoFields,
) -> Result<Json<OneFork>, ApiError> {
    let hub = std::sync::Arc::clone(&state.hub);
    let abandon = async move |c: &mut Conn| start::abandon(c, &caller, id, &hub).await;
    let fork = write_for(&state, WhichObject::Fork(id), abandon).await?;
    Ok(Json(OneFork { fork }))
}

/// Reopen a resolved or abandoned fork; its resolution stays until a new one replaces it
#[utoipa::path(post, path = "/v1/forks/{id}/reopen", tag = "forks",
    security(("session" = ["member"]), ("key" = ["chat:write"])),
    params(("id" = ForkId, Path)), responses((status = 200, body = OneFork)))]
async fn reopen_fork(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<ForkId>,
    _: NoFields,
) -> Result<Json<OneFork>, ApiError> {
    let reopen = async move |c: &mut Conn| start::reopen(c, &caller, id).await;
    let fork = write_for(&state, WhichObject::Fork(id), reopen).await?;
    Ok(Json(OneFork { fork }))
}

/// Set the read marker of a fork
#[utoipa::path(put, path = "/v1/forks/{id}/read", tag = "forks",
    security(("session" = ["viewer"]), ("key" = ["chat:read"])),
    params(("id" = ForkId, Path)),
    request_body(content = ReadForm, example = json!({"seq": 124})),
    responses((status = 200, body = ForkReadMark)))]
async fn read_fork(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<ForkId>,
    Body(form): Body<ReadForm>,
) -> Result<Json<ForkReadMark>, ApiError> {
    let user = caller.user;
    let mark = async move |c: &mut Conn| reads::mark_fork(c, &caller, id, form.seq).await;
    let (mark, workspace) = write_for(&state, WhichObject::Fork(id), mark).await?;
    let frame = OwnFrame::ForkRead {
        fork_id: id,
        seq: mark.seq,
    };
    state.hub.tell_user(workspace, user, &frame);
    Ok(Json(mark))
}

/// Follow or mute a fork
#[utoipa::path(put, path = "/v1/forks/{id}/follow", tag = "forks",
    security(("session" = ["viewer"]), ("key" = ["chat:write"])),
    params(("id" = ForkId, Path)), request_body = FollowForm,
    responses((status = 200, body = Follow)))]
async fn follow_fork(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<ForkId>,
    Body(form): Body<FollowForm>,
) -> Result<Json<Follow>, ApiError> {
    set_level(&state, caller, Conversation::Fork(id), form.level()).await
}

/// Reset the follow level of a fork to mentions only
#[utoipa::path(delete, path = "/v1/forks/{id}/follow", tag = "forks",
    security(("session" = ["viewer"]), ("key" = ["chat:write"])),
    params(("id" = ForkId, Path)),
    responses((status = 200, body = Follow)))]
async fn unfollow_fork(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<ForkId>,
) -> Result<Json<Follow>, ApiError> {
    let conversation = Conversation::Fork(id);
    set_level(&state, caller, conversation, FollowLevel::Mentions).await
}
