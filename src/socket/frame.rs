//! Parser for text frames from clients.

use serde::Deserialize;
use serde_json::Value;

use crate::{
    auth::RateClass,
    http::{ApiError, ErrorCode, extract::parse_json},
    ids::{ChannelId, FileId, ForkId, MessageId, TaskId, ThreadId},
    realtime::hub::Conversation,
};

/// A request, which has an `id` and receives one response, or a `typing` or `active` frame, which has neither.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(tag = "type", deny_unknown_fields)]
#[schema(as = ClientRequest)]
pub(super) enum Request {
    #[serde(rename = "message.send")]
    #[schema(title = "SendRequest")]
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
        /// The caller's queued or running reply in the conversation, which reads the message now.
        #[serde(default)]
        steer: Option<TaskId>,
    },
    #[serde(rename = "subscribe")]
    #[schema(title = "SubscribeRequest")]
    Subscribe {
        #[serde(default)]
        channel_id: Option<ChannelId>,
        #[serde(default)]
        thread_id: Option<ThreadId>,
        #[serde(default)]
        fork_id: Option<ForkId>,
    },
    #[serde(rename = "unsubscribe")]
    #[schema(title = "UnsubscribeRequest")]
    Unsubscribe {
        #[serde(default)]
        channel_id: Option<ChannelId>,
        #[serde(default)]
        thread_id: Option<ThreadId>,
        #[serde(default)]
        fork_id: Option<ForkId>,
    },
    #[serde(rename = "read")]
    #[schema(title = "ReadRequest")]
    Read { thread_id: ThreadId, seq: i64 },
    #[serde(rename = "ping")]
    #[schema(title = "PingRequest")]
    Ping {},
    /// The person had input in a visible window; at most every 30 s.
    #[serde(rename = "active")]
    #[schema(title = "ActiveRequest")]
    Active {},
    #[serde(rename = "typing")]
    #[schema(title = "TypingRequest")]
    Typing {
        #[serde(default)]
        thread_id: Option<ThreadId>,
        #[serde(default)]
        fork_id: Option<ForkId>,
    },
}

/// Returns the conversation of a frame; the frame must specify exactly one.
pub(super) fn conversation(
    thread: Option<ThreadId>,
    fork: Option<ForkId>,
) -> Result<Conversation, ApiError> {
    match (thread, fork) {
        (Some(thread), None) => Ok(Conversation::Thread(thread)),
        (None, Some(fork)) => Ok(Conversation::Fork(fork)),
        _ => Err(ApiError::invalid(
            ErrorCode::OnePlace,
            "specify either thread_id or fork_id".to_owned(),
            "thread_id",
        )),
    }
}

/// A subscription to the deltas and typing frames of a conversation or, with `scope: joined`, to the traffic
/// of a channel.
#[derive(Debug, Clone, Copy)]
pub(super) enum Subscription {
    Conversation(Conversation),
    Channel(ChannelId),
}

/// Returns the subscription of a frame; the frame must specify exactly one of the IDs.
pub(super) fn subscription(
    channel: Option<ChannelId>,
    thread: Option<ThreadId>,
    fork: Option<ForkId>,
) -> Result<Subscription, ApiError> {
    match (channel, thread, fork) {
        (Some(channel), None, None) => Ok(Subscription::Channel(channel)),
        (None, thread, fork) => conversation(thread, fork).map(Subscription::Conversation),
        _ => Err(ApiError::invalid(
            ErrorCode::OnePlace,
            "specify one of thread_id, fork_id, and channel_id".to_owned(),
            "channel_id",
        )),
    }
}

/// A parsed frame.
#[derive(Debug)]
pub(super) enum Frame {
    /// Not a JSON object.
    NoJson(ApiError),
    /// Not a valid request. The response is an error, and several such frames in a row close the socket.
    Misfit { id: Value, error: ApiError },
    /// A typing frame, which has no response.
    Typing(Conversation),
    /// The person had input; it has no response.
    Active,
    /// A request, which gets one response with the same `id`, a string or a number.
    Request {
        id: Value,
        doing: RateClass,
        request: Result<Request, ApiError>,
    },
}

impl Frame {
    /// Rate limit class; `None` for frames that are not counted.
    pub(super) fn doing(&self) -> Option<RateClass> {
        match self {
            Self::NoJson(_) => None,
            Self::Misfit { .. } | Self::Typing(_) | Self::Active => Some(RateClass::Reading),
            Self::Request { doing, .. } => Some(*doing),
        }
    }
}

/// Parses a frame without side effects.
pub(super) fn read(text: &str) -> Frame {
    let no_json = |text: String| Frame::NoJson(ApiError::invalid(ErrorCode::InvalidJson, text, ""));
    let mut value = match serde_json::from_str::<Value>(text) {
        Ok(value @ Value::Object(_)) => value,
        Ok(_) => return no_json("a frame must be one JSON object".to_owned()),
        Err(e) => return no_json(format!("the frame is not JSON: {e}")),
    };
    let id = value.as_object_mut().and_then(|object| object.remove("id"));
    let id = id.filter(|id| id.is_string() || id.is_number());
    let kind = value
        .get("type")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let misfit = |code, text: String, param| Frame::Misfit {
        id: Value::Null,
        error: ApiError::invalid(code, text, param),
    };
    let is_known = matches!(
        kind,
        "message.send" | "subscribe" | "unsubscribe" | "read" | "ping" | "typing" | "active"
    );
    if !is_known {
        let kind: String = kind.chars().take(40).collect();
        let text = format!("`{kind}` is not a frame type that clients can send");
        return misfit(ErrorCode::UnknownType, text, "type").with_id(id);
    }
    let doing = match kind {
        "message.send" | "read" => RateClass::Writing,
        _ => RateClass::Reading,
    };
    let request = parse_json::<Request>(value.to_string().as_bytes());
    if kind == "typing" {
        let conversation = request.and_then(|request| match request {
            Request::Typing { thread_id, fork_id } => conversation(thread_id, fork_id),
            _ => Err(ApiError::internal()),
        });
        return match conversation {
            Ok(conversation) => Frame::Typing(conversation),
            Err(error) => Frame::Misfit {
                id: Value::Null,
                error,
            }
            .with_id(id),
        };
    }
    if kind == "active" {
        return match request {
            Ok(_) => Frame::Active,
            Err(error) => Frame::Misfit {
                id: Value::Null,
                error,
            }
            .with_id(id),
        };
    }
    match id {
        Some(id) => Frame::Request { id, doing, request },
        None => misfit(
            ErrorCode::IdMissing,
            "a request requires an `id`".to_owned(),
            "id",
        ),
    }
}

impl Frame {
    fn with_id(self, given: Option<Value>) -> Self {
        match self {
            Self::Misfit { id, error } => Self::Misfit {
                id: given.unwrap_or(id),
                error,
            },
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::corpus;

    const WORDS: &[&str] = &[
        "{",
        "}",
        "[",
        "]",
        "\"",
        ":",
        ",",
        "null",
        "\\u0000",
        "\\ud800",
        "\"id\":\"1\"",
        "\"id\":null",
        "\"type\":\"ping\"",
        "\"type\":\"typing\"",
        "\"message.send\"",
        "\"thread_id\":",
        "\"fork_id\":null",
        "\"seq\":-1",
        "1e999",
        "\"extra\":1",
    ];

    fn told(frame: &Frame) -> String {
        let error = |e: &ApiError| {
            let body = e.body();
            let param = body["param"].as_str().unwrap_or("-");
            format!("{} {param}", body["code"].as_str().unwrap_or_default())
        };
        match frame {
            Frame::NoJson(e) => format!("null error {}", error(e)),
            Frame::Misfit { id, error: e } => format!("{id} error {}", error(e)),
            Frame::Typing(_) => "no answer: typing".to_owned(),
            Frame::Active => "no answer: active".to_owned(),
            Frame::Request {
                id,
                request: Ok(request),
                ..
            } => {
                let request = format!("{request:?}");
                format!("{id} {}", request.chars().take(300).collect::<String>())
            }
            Frame::Request {
                id,
                request: Err(e),
                ..
            } => format!("{id} refused {}", error(e)),
        }
    }

    #[test]
    fn every_corpus_frame_is_a_request_or_rejected_with_a_reason() {
        for case in corpus::cases("frames", "json") {
            case.expect(&told(&read(case.text())));
        }
    }

    proptest! {
        #![proptest_config(corpus::config(400))]

        #[test]
        fn any_text_is_a_valid_request_or_a_client_error(
            text in corpus::mutated_text("frames", "json", WORDS),
        ) {
            let frame = read(&text);
            let error = match &frame {
                Frame::NoJson(e) => Some(e),
                Frame::Typing(_) | Frame::Active => None,
                Frame::Misfit { id, error } => {
                    prop_assert!(id.is_null() || id.is_string() || id.is_number());
                    Some(error)
                }
                Frame::Request { id, request, .. } => {
                    prop_assert!(id.is_string() || id.is_number());
                    request.as_ref().err()
                }
            };
            if let Some(error) = error {
                let body = error.body();
                let kind = body["type"].as_str();
                prop_assert!(matches!(kind, Some("invalid_request" | "unprocessable_entity")), "{}", body);
                prop_assert!(body["message"].as_str().is_some_and(|text| !text.is_empty()));
            }
            // Surrounding white space does not matter.
            prop_assert_eq!(told(&read(&format!(" {text}\n"))), told(&frame));
        }
    }
}
