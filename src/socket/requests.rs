//! Handles requests that a client sends over its socket.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::realtime::hub::{Conversation, SUBSCRIPTIONS_MAX};
use crate::{
    auth::{AuthError, Caller, RateClass},
    chat::{
        ChatError, access,
        messages::Text,
        post::{self, NewThread, PostedMessage, PostedThread},
        reads,
        threads::ThreadMemory,
    },
    http::error::{ApiError, ErrorCode},
    ids::{ChannelId, MessageId, TaskId},
    realtime::encode_frame,
    routes::chat as routes,
    server::State,
};

use super::{
    connection::{Connection, MALFORMED_MAX, POLICY_VIOLATION},
    control::ControlFrame,
    frame::{self, Frame, Request, Subscription, subscription},
};

impl Connection {
    pub(super) async fn on_malformed(&mut self, error: &ApiError) -> Result<(), u16> {
        self.on_misfit(&Value::Null, error).await
    }

    /// Responds with an error to a frame that is not a request, and closes the socket after too
    /// many in a row.
    async fn on_misfit(&mut self, id: &Value, error: &ApiError) -> Result<(), u16> {
        self.malformed += 1;
        self.answer(&ControlFrame::error(id.clone(), error)).await?;
        if self.malformed >= MALFORMED_MAX {
            Err(POLICY_VIOLATION)
        } else {
            Ok(())
        }
    }

    async fn answer(&mut self, frame: &ControlFrame) -> Result<(), u16> {
        self.send(encode_frame(frame)).await.map_err(|e| e.0)
    }

    /// Counts a frame toward the rate limits, like a request with a body of this size.
    ///
    /// # Errors
    /// `RateLimited`.
    fn count(&self, doing: RateClass, bytes: usize) -> Result<(), AuthError> {
        let limits = &self.state.limits;
        limits.act(&self.caller, doing)?;
        limits.body(self.caller.user, doing, bytes as u64)
    }

    pub(super) async fn on_text(&mut self, text: &str) -> Result<(), u16> {
        let frame = frame::read(text);
        if let Some(doing) = frame.doing()
            && let Err(e) = self.count(doing, text.len())
        {
            let id = match &frame {
                Frame::Typing(_) | Frame::Active => return Ok(()),
                Frame::Request { id, .. } | Frame::Misfit { id, .. } => id,
                Frame::NoJson(_) => &Value::Null,
            };
            let frame = ControlFrame::error(id.clone(), &ApiError::from(e));
            return self.answer(&frame).await;
        }
        let (id, request) = match frame {
            Frame::NoJson(error) => return self.on_malformed(&error).await,
            Frame::Misfit { id, error } => return self.on_misfit(&id, &error).await,
            Frame::Typing(conversation) => {
                self.malformed = 0;
                self.typing(conversation).await;
                return Ok(());
            }
            Frame::Active => {
                self.malformed = 0;
                self.state.hub.note_active(self.actor.user);
                return Ok(());
            }
            Frame::Request { id, request, .. } => (id, request),
        };
        self.malformed = 0;
        let outcome = match request {
            Ok(request) => self.perform(request).await,
            Err(e) => Err(e),
        };
        let frame = match outcome {
            Ok(data) => ControlFrame::Ack { id, data },
            Err(e) => ControlFrame::error(id, &e),
        };
        self.answer(&frame).await
    }

    /// Sends a typing frame to the watchers of a conversation in which this person can write.
    async fn typing(&mut self, conversation: Conversation) {
        if !self.actor.scopes.has(crate::auth::Scope::ChatWrite) {
            return;
        }
        // A subscription proves access; otherwise the database is checked.
        let watching = self
            .state
            .hub
            .is_watching(self.actor.workspace, &self.socket, conversation);
        let to = Subscription::Conversation(conversation);
        if watching || self.channel_of(to).await.is_ok() {
            self.state
                .hub
                .typing(self.actor.workspace, conversation, self.actor.user);
        }
    }

    /// Returns the channel that a subscription refers to, if it is in the socket's workspace.
    async fn channel_of(&mut self, to: Subscription) -> Result<ChannelId, ApiError> {
        let mut c = self.state.db.read().await?;
        let channel = match to {
            Subscription::Conversation(conversation) => {
                let access = access::find_conversation(&mut c, &self.caller, conversation).await?;
                access.reading()?.channel_access
            }
            Subscription::Channel(channel) => {
                let access = access::channel(&mut c, &self.caller, channel).await?;
                access.reading()?
            }
        };
        if channel.actor.workspace == self.actor.workspace {
            return Ok(channel.channel);
        }
        Err(match to {
            Subscription::Conversation(Conversation::Thread(_)) => ChatError::ThreadNotFound.into(),
            Subscription::Conversation(Conversation::Fork(_)) => ChatError::ForkNotFound.into(),
            Subscription::Channel(_) => ChatError::ChannelNotFound.into(),
        })
    }

    /// Subscribes the socket, and returns the data of the response.
    async fn subscribe(&mut self, to: Subscription) -> Result<Value, ApiError> {
        let (hub, workspace) = (Arc::clone(&self.state.hub), self.actor.workspace);
        let channel = self.channel_of(to).await?;
        let streams = match to {
            Subscription::Conversation(conversation) => {
                hub.watch(workspace, channel, &self.socket, conversation)
            }
            Subscription::Channel(_) => {
                let is_open = hub.open_channel(workspace, channel, &self.socket);
                is_open.then(Vec::new)
            }
        };
        let Some(streams) = streams else {
            return Err(ApiError::unprocessable(
                ErrorCode::TooManySubscriptions,
                format!(
                    "a socket can have at most {SUBSCRIPTIONS_MAX} subscriptions: unsubscribe from some"
                ),
            ));
        };
        // Access is checked again, because the person may have lost it before the subscription was
        // registered.
        if let Err(e) = self.channel_of(to).await {
            self.unsubscribe(to);
            return Err(e);
        }
        Ok(if self.socket.has_compact_deltas() {
            json!({"streams": streams})
        } else {
            json!({})
        })
    }

    fn unsubscribe(&self, from: Subscription) {
        let (hub, workspace) = (&self.state.hub, self.actor.workspace);
        match from {
            Subscription::Conversation(conversation) => {
                hub.unwatch(workspace, &self.socket, conversation);
            }
            Subscription::Channel(channel) => hub.close_channel(workspace, channel, &self.socket),
        }
    }

    async fn perform(&mut self, request: Request) -> Result<Value, ApiError> {
        let (state, caller) = (&self.state.clone(), self.caller.clone());
        match request {
            Request::Send {
                channel_id,
                thread_id,
                fork_id,
                content,
                attachments,
                parent_id,
                client_id,
                steer,
            } => {
                let text = Text::with_files(content, attachments)?;
                let client_id = post::parse_client_id(Some(client_id))?;
                match (channel_id, thread_id, fork_id) {
                    (Some(channel), None, None) if parent_id.is_none() && steer.is_none() => {
                        start(state, caller, channel, text, client_id).await
                    }
                    (None, Some(thread), None) => {
                        let thread = Conversation::Thread(thread);
                        say(state, caller, thread, text, parent_id, client_id, steer).await
                    }
                    (None, None, Some(fork)) => {
                        let fork = Conversation::Fork(fork);
                        say(state, caller, fork, text, parent_id, client_id, steer).await
                    }
                    _ => Err(ApiError::invalid(
                        ErrorCode::OnePlace,
                        "specify exactly one of thread_id, fork_id, and channel_id (parent_id and steer are not allowed with channel_id)"
                            .to_owned(),
                        "thread_id",
                    )),
                }
            }
            Request::Subscribe {
                channel_id,
                thread_id,
                fork_id,
            } => {
                let to = subscription(channel_id, thread_id, fork_id)?;
                self.subscribe(to).await
            }
            Request::Unsubscribe {
                channel_id,
                thread_id,
                fork_id,
            } => {
                self.unsubscribe(subscription(channel_id, thread_id, fork_id)?);
                Ok(json!({}))
            }
            Request::Read { thread_id, seq } => {
                let mark = routes::mark_read(state, caller, thread_id, seq).await?;
                Ok(to_value::<reads::ReadMark>(&mark))
            }
            Request::Ping {} | Request::Active {} | Request::Typing { .. } => Ok(json!({})),
        }
    }
}

/// Starts a thread, and returns it.
async fn start(
    state: &State,
    caller: Caller,
    channel: ChannelId,
    text: Text,
    client_id: Option<String>,
) -> Result<Value, ApiError> {
    let new = NewThread {
        title: None,
        agent: None,
        from: None,
        memory: ThreadMemory::On,
        client_id,
    };
    let posted = routes::start(state, caller, channel, text, new).await?;
    let Some(thread) = posted.thread else {
        return Err(ApiError::internal());
    };
    Ok(to_value(&PostedThread {
        thread,
        message: posted.message,
        tasks: posted.tasks,
    }))
}

/// Posts in a conversation, and returns the message.
async fn say(
    state: &State,
    caller: Caller,
    conversation: Conversation,
    text: Text,
    parent: Option<MessageId>,
    client_id: Option<String>,
    steers: Option<TaskId>,
) -> Result<Value, ApiError> {
    let posted = routes::say(state, caller, conversation, text, parent, client_id, steers).await?;
    Ok(to_value(&PostedMessage {
        message: posted.message,
        tasks: posted.tasks,
    }))
}

fn to_value<T: serde::Serialize>(data: &T) -> Value {
    serde_json::to_value(data).unwrap_or_default()
}
