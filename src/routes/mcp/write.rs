//! Tools that write.

use axum::Json;
use rmcp::model::JsonObject;
use serde::Deserialize;

use super::{
    arguments::{parsed, take_id},
    read::find_channel,
};
use crate::{
    auth::{Scope, WorkspaceCaller},
    chat::{
        ChatError,
        messages::Text,
        post::{self, NewThread, PostedMessage},
        threads::ThreadMemory,
    },
    http::{
        ApiError, ErrorCode,
        extract::{Body, Path},
    },
    ids::{ChannelId, ForkId, ThreadId},
    realtime::hub::Conversation,
    routes::{
        chat,
        forks::{self, NewForkSeen, Resolving},
    },
    server::State,
};

/// Arguments that the routes take from their paths.
pub(super) const THREAD_ID: &str = "thread_id";
pub(super) const FORK_ID: &str = "fork_id";

/// A message to post. Exactly one of `thread_id`, `channel_id`, and `fork_id` is required.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewMessage {
    /// The thread to post in.
    thread_id: Option<ThreadId>,
    /// ID of the channel in which the message starts a thread, or its name.
    channel_id: Option<String>,
    /// The fork to post in.
    fork_id: Option<ForkId>,
    /// Markdown, at most 32 KiB.
    content: String,
    /// ID chosen by the client. A call that repeats an ID returns the first message.
    client_id: Option<String>,
}

/// # Errors
/// Same as for `POST /v1/threads/{id}/messages` and `POST /v1/channels/{id}/threads`, and `OnePlace`.
pub(super) async fn post_message(
    state: &State,
    member: &WorkspaceCaller,
    form: NewMessage,
) -> Result<PostedMessage, ApiError> {
    let text = Text::with_files(form.content, Vec::new())?;
    let client_id = post::parse_client_id(form.client_id)?;
    let caller = member.caller.clone();
    let conversation = match (form.thread_id, form.channel_id, form.fork_id) {
        (Some(thread), None, None) => Conversation::Thread(thread),
        (None, None, Some(fork)) => Conversation::Fork(fork),
        (None, Some(named), None) => {
            let channel = channel_of(state, member, &named).await?;
            let new = NewThread {
                title: None,
                agent: None,
                from: None,
                memory: ThreadMemory::On,
                client_id,
            };
            let posted = chat::start(state, caller, channel, text, new).await?;
            return Ok(PostedMessage {
                message: posted.message,
                tasks: posted.tasks,
            });
        }
        _ => {
            return Err(ApiError::invalid(
                ErrorCode::OnePlace,
                "specify exactly one of thread_id, channel_id, and fork_id".to_owned(),
                THREAD_ID,
            ));
        }
    };
    let posted = chat::say(state, caller, conversation, text, None, client_id, None).await?;
    Ok(PostedMessage {
        message: posted.message,
        tasks: posted.tasks,
    })
}

/// Returns the channel with this ID or name.
///
/// # Errors
/// `ChannelNotFound` for a name that no channel has that the caller can see, or an error from `Actor::require`. An ID is not looked up.
async fn channel_of(
    state: &State,
    member: &WorkspaceCaller,
    named: &str,
) -> Result<ChannelId, ApiError> {
    if let Ok(channel) = ChannelId::parse(named) {
        return Ok(channel);
    }
    let mut c = state.db.read().await?;
    let actor = member.enter(&mut c).await?;
    actor.require(Scope::ChatWrite)?;
    let found = find_channel(&mut c, &actor, Some(named)).await;
    found
        .map_err(|e| e.param("channel_id"))?
        .ok_or_else(|| ChatError::ChannelNotFound.into())
}

/// # Errors
/// Same as for `POST /v1/threads/{id}/forks`.
pub(super) async fn start_fork(
    state: &State,
    member: &WorkspaceCaller,
    mut arguments: JsonObject,
) -> Result<NewForkSeen, ApiError> {
    let thread = take_id::<ThreadId>(&mut arguments, THREAD_ID)?;
    let (state, caller) = (state.clone(), member.caller.clone());
    let form = Body(parsed(arguments)?);
    let started = forks::start_fork(axum::extract::State(state), caller, Path(thread), form);
    let (_, Json(fork)) = started.await?;
    Ok(fork)
}

/// # Errors
/// Same as for `POST /v1/forks/{id}/resolve`.
pub(super) async fn resolve_fork(
    state: &State,
    member: &WorkspaceCaller,
    mut arguments: JsonObject,
) -> Result<Resolving, ApiError> {
    let fork = take_id::<ForkId>(&mut arguments, FORK_ID)?;
    let (state, caller) = (state.clone(), member.caller.clone());
    let form = Body(parsed(arguments)?);
    let resolving = forks::resolve_fork(axum::extract::State(state), caller, Path(fork), form);
    let (_, Json(resolving)) = resolving.await?;
    Ok(resolving)
}
