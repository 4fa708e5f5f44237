//! Frames to a single socket about its connection and its requests.

use crate::http::ApiError;

/// A frame to a single socket about its connection.
#[derive(serde::Serialize, utoipa::ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum ControlFrame {
    /// The response to `hello`. With `resync`, the client cannot resume and has to load the snapshot.
    #[schema(title = "Ready")]
    Ready {
        protocol: u32,
        session_id: String,
        epoch: String,
        /// The newest sequence number of the workspace; not a cursor.
        seq: i64,
        heartbeat_ms: u64,
        resumed: bool,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        resync: bool,
    },
    /// All events up to `seq` have been sent; new events follow.
    #[schema(title = "Live")]
    Live { seq: i64 },
    /// The response to a request. After `subscribe` with `deltas: compact`, `data.streams` names the replies in progress.
    #[schema(title = "Ack")]
    Ack {
        /// The `id` of the request, a string or a number.
        id: serde_json::Value,
        #[schema(value_type = Object)]
        data: serde_json::Value,
    },
    /// The response to a request that failed, or to a frame that is not a request.
    #[schema(title = "RequestError")]
    Error {
        /// The `id` of the request, or null.
        id: serde_json::Value,
        #[schema(value_type = crate::http::error::ErrorDetail)]
        error: serde_json::Value,
    },
}

impl ControlFrame {
    pub(super) fn error(id: serde_json::Value, error: &ApiError) -> Self {
        Self::Error {
            id,
            error: error.body(),
        }
    }
}
