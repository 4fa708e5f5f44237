//! What a client asks for over its socket.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::realtime::hub::Spot;
use crate::{
    auth::Doing,
    chat::{
        ChatError, access,
        messages::Text,
        post::{self, NewThread, PostedMessage, PostedThread},
        reads,
    },
    http::{ApiError, extract::parse_json},
    ids::{ChannelId, FileId, ForkId, MessageId, ThreadId},
};

use super::{CatchUp, Connection, GOING_AWAY, MALFORMED_MAX, POLICY_VIOLATION};

#[derive(Deserialize)]
#[serde(tag = "type", deny_unknown_fields)]
enum Request {
    #[serde(rename = "message.send")]
    Send {
        #[serde(default)]
        channel_id: Option<ChannelId>,
        #[serde(default)]
        thread_id: Option<ThreadId>,
        #[serde(default)]
        fork_id: Option<ForkId>,
        content: String,
        #[serde(default)]
        attachments: Vec<FileId>,
        #[serde(default)]
        parent_id: Option<MessageId>,
        client_id: String,
    },
    #[serde(rename = "subscribe")]
    Subscribe {
        #[serde(default)]
        thread_id: Option<ThreadId>,
        #[serde(default)]
        fork_id: Option<ForkId>,
    },
    #[serde(rename = "unsubscribe")]
    Unsubscribe {
        #[serde(default)]
        thread_id: Option<ThreadId>,
        #[serde(default)]
        fork_id: Option<ForkId>,
    },
    #[serde(rename = "read")]
    Read { thread_id: ThreadId, seq: i64 },
    #[serde(rename = "ping")]
    Ping {},
    #[serde(rename = "typing")]
    Typing {
        #[serde(default)]
        thread_id: Option<ThreadId>,
        #[serde(default)]
        fork_id: Option<ForkId>,
    },
}

/// The one place that a frame names.
fn spot(thread: Option<ThreadId>, fork: Option<ForkId>) -> Result<Spot, ApiError> {
    match (thread, fork) {
        (Some(thread), None) => Ok(Spot::Thread(thread)),
        (None, Some(fork)) => Ok(Spot::Fork(fork)),
        _ => Err(ApiError::invalid(
            "one_place",
            "name one place: thread_id or fork_id".to_owned(),
            "thread_id",
        )),
    }
}

impl Connection {
    pub(super) async fn on_malformed(&mut self, error: &ApiError) -> Result<(), u16> {
        self.on_misfit(&Value::Null, error).await
    }

    /// Answers a frame that is no request, and closes after too many in a row.
    async fn on_misfit(&mut self, id: &Value, error: &ApiError) -> Result<(), u16> {
        self.malformed += 1;
        let frame = json!({"type": "error", "id": id, "error": error.body()}).to_string();
        self.answer(frame).await?;
        if self.malformed >= MALFORMED_MAX {
            Err(POLICY_VIOLATION)
        } else {
            Ok(())
        }
    }

    async fn answer(&mut self, frame: String) -> Result<(), u16> {
        match self.send(frame.into()).await {
            Ok(()) => Ok(()),
            Err(CatchUp::Gone(code)) => Err(code),
            Err(CatchUp::Db(_)) => Err(GOING_AWAY),
        }
    }

    pub(super) async fn on_text(&mut self, text: &str) -> Result<(), u16> {
        let mut value = match serde_json::from_str::<Value>(text) {
            Ok(value @ Value::Object(_)) => value,
            Ok(_) => {
                return self
                    .on_malformed(&ApiError::invalid(
                        "invalid_json",
                        "a frame is one JSON object".to_owned(),
                        "",
                    ))
                    .await;
            }
            Err(e) => {
                return self
                    .on_malformed(&ApiError::invalid(
                        "invalid_json",
                        format!("the frame is not JSON: {e}"),
                        "",
                    ))
                    .await;
            }
        };
        let id = value.as_object_mut().and_then(|object| object.remove("id"));
        let kind = value
            .get("type")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned();
        let doing = match kind.as_str() {
            "message.send" | "read" => Doing::Writing,
            _ => Doing::Reading,
        };
        let id = id.filter(|id| id.is_string() || id.is_number());
        if let Err(e) = self.state.limits.act(&self.caller, doing) {
            if kind == "typing" {
                return Ok(());
            }
            let error = ApiError::from(e).body();
            let frame = json!({"type": "error", "id": id, "error": error});
            return self.answer(frame.to_string()).await;
        }
        let request = parse_json::<Request>(value.to_string().as_bytes());
        if kind == "typing" {
            // No answer, whatever comes of it.
            if let Ok(Request::Typing { thread_id, fork_id }) = request
                && let Ok(place) = spot(thread_id, fork_id)
            {
                self.malformed = 0;
                self.typing(place).await;
                return Ok(());
            }
        }
        let known = matches!(
            kind.as_str(),
            "message.send" | "subscribe" | "unsubscribe" | "read" | "ping"
        );
        if !known {
            let kind: String = kind.chars().take(40).collect();
            let text = format!("`{kind}` is no type of frame that a client sends");
            let error = ApiError::invalid("unknown_type", text, "type");
            return self.on_misfit(&id.unwrap_or_default(), &error).await;
        }
        let Some(id) = id else {
            let error =
                ApiError::invalid("id_missing", "a request carries an `id`".to_owned(), "id");
            return self.on_malformed(&error).await;
        };
        self.malformed = 0;
        let outcome = match request {
            Ok(request) => self.perform(request).await,
            Err(e) => Err(e),
        };
        let frame = match outcome {
            Ok(data) => json!({"type": "ack", "id": id, "data": data}),
            Err(e) => json!({"type": "error", "id": id, "error": e.body()}),
        };
        self.answer(frame.to_string()).await
    }

    /// Tells the watchers of a place where this person may write.
    async fn typing(&mut self, spot: Spot) {
        if !self.actor.scopes.has(crate::auth::Scope::ChatWrite) {
            return;
        }
        // A subscription says that they may see it; without one the database does.
        let watching = self
            .state
            .hub
            .is_watching(self.actor.workspace, &self.socket, spot);
        if watching || self.channel_of(spot).await.is_ok() {
            self.state
                .hub
                .typing(self.actor.workspace, spot, self.actor.user);
        }
    }

    /// The channel of a place of this socket's workspace.
    async fn channel_of(&mut self, spot: Spot) -> Result<ChannelId, ApiError> {
        let mut c = self.state.db.read().await?;
        let place = access::spot(&mut c, &self.caller, spot)
            .await?
            .reading()?
            .place;
        if place.actor.workspace == self.actor.workspace {
            return Ok(place.channel);
        }
        Err(match spot {
            Spot::Thread(_) => ChatError::ThreadNotFound.into(),
            Spot::Fork(_) => ChatError::ForkNotFound.into(),
        })
    }

    async fn subscribe(&mut self, spot: Spot) -> Result<(), ApiError> {
        let (state, workspace) = (self.state.clone(), self.actor.workspace);
        let channel = self.channel_of(spot).await?;
        if !state.hub.watch(workspace, channel, &self.socket, spot) {
            return Err(ApiError::unprocessable(
                "too_many_subscriptions",
                format!(
                    "a socket watches at most {} places: unsubscribe from some",
                    crate::realtime::hub::SUBSCRIPTIONS_MAX
                ),
            ));
        }
        // Who lost the channel between the look and the watching must not stay.
        if let Err(e) = self.channel_of(spot).await {
            state.hub.unwatch(workspace, &self.socket, spot);
            return Err(e);
        }
        Ok(())
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
            } => {
                let text = Text::with_files(content, attachments)?;
                let client_id = post::parse_client_id(Some(client_id))?;
                let place = match (thread_id, fork_id) {
                    (Some(thread), None) => Some(Spot::Thread(thread)),
                    (None, fork) => fork.map(Spot::Fork),
                    _ => None,
                };
                match (channel_id, place) {
                    (Some(channel), None) if parent_id.is_none() && thread_id.is_none() => {
                        let new = NewThread {
                            title: None,
                            agent: None,
                            from: None,
                            client_id,
                        };
                        let posted =
                            crate::chat::routes::start(state, caller, channel, text, new).await?;
                        let Some(thread) = posted.thread else {
                            return Err(ApiError::internal());
                        };
                        Ok(to_value(&PostedThread {
                            thread,
                            message: posted.message,
                            tasks: posted.tasks,
                        }))
                    }
                    (None, Some(place)) => {
                        let posted = crate::chat::routes::say(
                            state, caller, place, text, parent_id, client_id,
                        )
                        .await?;
                        Ok(to_value(&PostedMessage {
                            message: posted.message,
                            tasks: posted.tasks,
                        }))
                    }
                    _ => Err(ApiError::invalid(
                        "one_place",
                        "name one place: thread_id or fork_id (with parent_id, if you like) or channel_id"
                            .to_owned(),
                        "thread_id",
                    )),
                }
            }
            Request::Subscribe { thread_id, fork_id } => {
                self.subscribe(spot(thread_id, fork_id)?).await?;
                Ok(json!({}))
            }
            Request::Unsubscribe { thread_id, fork_id } => {
                let place = spot(thread_id, fork_id)?;
                state.hub.unwatch(self.actor.workspace, &self.socket, place);
                Ok(json!({}))
            }
            Request::Read { thread_id, seq } => {
                let mark = crate::chat::routes::mark_read(state, caller, thread_id, seq).await?;
                Ok(to_value::<reads::ReadMark>(&mark))
            }
            Request::Ping {} | Request::Typing { .. } => Ok(json!({})),
        }
    }
}

fn to_value<T: serde::Serialize>(data: &T) -> Value {
    serde_json::to_value(data).unwrap_or_default()
}
