//! The first frame of a client, with the workspace and the client's position in the log.

use std::time::Duration;

use axum::{
    extract::ws::{Message as Frame, Utf8Bytes, WebSocket},
    http::HeaderMap,
};
use serde::Deserialize;
use tokio::time::Instant;

use crate::{
    auth::{ActorSnapshot, AuthError, Caller},
    http::{ApiError, ErrorCode, extract::parse_json},
    ids::{ChannelId, WorkspaceId},
    realtime::{Delivery, DeltaFormat, EventScope, encode_frame, hub::SUBSCRIPTIONS_MAX},
    server::{State, caller::workspace_of},
    text_enum::text_enum,
};

use super::connection::{
    GOING_AWAY, MALFORMED_MAX, NO_HELLO, NOT_AUTHENTICATED, NOT_IN_WORKSPACE, POLICY_VIOLATION,
    broken,
};
use super::control::ControlFrame;

const HELLO_WITHIN: Duration = Duration::from_secs(10);

text_enum! {
    enum HelloType {
        Hello = "hello",
    }
}

/// First frame that a client sends. To resume, the client sets `epoch` and `since` to the values from its previous connection.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Hello {
    #[schema(inline, value_type = HelloType)]
    r#type: String,
    /// Version of the protocol: 1.
    protocol: u32,
    workspace_id: Option<WorkspaceId>,
    pub(super) epoch: Option<String>,
    pub(super) since: Option<i64>,
    /// Channels whose traffic the client receives; `all` by default.
    scope: Option<EventScope>,
    /// With `scope: joined`, channels that are open from the start, as if the client had sent
    /// `subscribe`.
    #[serde(default)]
    #[schema(max_items = 100)]
    pub(super) channels: Vec<ChannelId>,
    /// Format of `task.delta`; `full` by default.
    deltas: Option<DeltaFormat>,
}

impl Hello {
    pub(super) fn delivery(&self) -> Delivery {
        let default = Delivery::default();
        Delivery {
            scope: self.scope.unwrap_or(default.scope),
            deltas: self.deltas.unwrap_or(default.deltas),
        }
    }

    /// # Errors
    /// Returns an error if the frame is not a valid hello for this protocol.
    fn check(&self) -> Result<(), ApiError> {
        if !matches!(self.r#type.parse(), Ok(HelloType::Hello)) {
            return Err(ApiError::invalid(
                ErrorCode::HelloExpected,
                "the first frame must be a hello".to_owned(),
                "type",
            ));
        }
        if self.protocol != 1 {
            return Err(ApiError::invalid(
                ErrorCode::UnknownProtocol,
                "this server supports only protocol 1".to_owned(),
                "protocol",
            ));
        }
        if self.since.is_some_and(|since| since < 0) {
            return Err(ApiError::invalid(
                ErrorCode::InvalidCursor,
                "since must be the seq of an event".to_owned(),
                "since",
            ));
        }
        if self.channels.len() > SUBSCRIPTIONS_MAX {
            return Err(ApiError::invalid(
                ErrorCode::TooManySubscriptions,
                format!("a hello can list at most {SUBSCRIPTIONS_MAX} channels"),
                "channels",
            ));
        }
        Ok(())
    }
}

/// Waits for the hello and checks access to the workspace. Returns the close code on failure.
pub(super) async fn read_hello(
    ws: &mut WebSocket,
    state: &State,
    headers: &HeaderMap,
    caller: &Caller,
) -> Result<(Hello, ActorSnapshot), u16> {
    let deadline = Instant::now() + HELLO_WITHIN;
    let mut malformed = 0;
    loop {
        let frame = tokio::select! {
            frame = tokio::time::timeout_at(deadline, ws.recv()) => frame.map_err(|_| NO_HELLO)?,
            () = state.shutdown.cancelled() => return Err(GOING_AWAY),
        };
        let text = match frame {
            Some(Ok(Frame::Text(text))) => text,
            Some(Ok(Frame::Ping(_) | Frame::Pong(_))) => continue,
            Some(Ok(Frame::Close(_))) | None => return Err(0),
            Some(Ok(Frame::Binary(_))) => Utf8Bytes::from_static(""),
            Some(Err(e)) => return Err(broken(&e)),
        };
        let hello =
            parse_json::<Hello>(text.as_bytes()).and_then(|hello| hello.check().map(|()| hello));
        let hello = match hello {
            Ok(hello) => hello,
            Err(e) => {
                malformed += 1;
                refuse_frame(ws, &e, malformed, deadline).await?;
                continue;
            }
        };
        let workspace = match hello.workspace_id {
            Some(id) => Ok(id),
            None => workspace_of(state, headers, caller).await,
        };
        let workspace = match workspace {
            Ok(id) => id,
            Err(e) if e.is_bad_request() => {
                malformed += 1;
                refuse_frame(ws, &e, malformed, deadline).await?;
                continue;
            }
            Err(_) => return Err(NOT_IN_WORKSPACE),
        };
        let mut c = state.db.read().await.map_err(|_| GOING_AWAY)?;
        let actor = caller.enter(&mut c, workspace).await.map_err(|e| match e {
            AuthError::NotAuthenticated => NOT_AUTHENTICATED,
            _ => NOT_IN_WORKSPACE,
        })?;
        actor
            .require(crate::auth::Scope::ChatRead)
            .map_err(|_| NOT_IN_WORKSPACE)?;
        return Ok((hello, actor.snapshot()));
    }
}

/// Sends an error for a frame before the hello. Returns the close code after too many errors, or if
/// the error cannot be sent by `deadline`.
async fn refuse_frame(
    ws: &mut WebSocket,
    error: &ApiError,
    malformed: u32,
    deadline: Instant,
) -> Result<(), u16> {
    let frame = ControlFrame::error(serde_json::Value::Null, error);
    let sent = tokio::time::timeout_at(deadline, ws.send(Frame::Text(encode_frame(&frame)))).await;
    if malformed >= MALFORMED_MAX || !matches!(sent, Ok(Ok(()))) {
        return Err(POLICY_VIOLATION);
    }
    Ok(())
}
