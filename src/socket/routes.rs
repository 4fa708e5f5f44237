//! Endpoints for the live events of a workspace: a WebSocket, and a list of the same events in pages.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use axum::{
    Json,
    extract::{State as St, WebSocketUpgrade, ws::rejection::WebSocketUpgradeRejection},
    http::HeaderMap,
    response::Response,
};
use futures::FutureExt;
use serde::Deserialize;
use serde_json::value::RawValue;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;

use super::{
    Opening, refuse,
    schema::{ClientFrame, ServerEvent, ServerFrame},
    upgrade,
};
use crate::{
    auth::{Caller, Scope, WorkspaceCaller},
    db::Conn,
    http::{
        ApiError, ErrorCode,
        extract::Query,
        meter::BytesTaken,
        page::{Limit, ListObject},
        requests::RequestId,
        routing::routes,
    },
    realtime::{Followed, log},
    server::State,
};

/// Schemas of the frames, which no operation references.
#[derive(utoipa::OpenApi)]
#[openapi(components(schemas(ClientFrame, ServerFrame)))]
struct Frames;

pub fn router() -> OpenApiRouter<State> {
    OpenApiRouter::with_openapi(Frames::openapi())
        .routes(routes!(open_socket))
        .routes(routes!(list_events))
}

/// Minimum time between two warnings about requests for a socket that cannot become one.
const WARNED_EVERY: Duration = Duration::from_hours(1);

/// Time of the last one.
static WARNED_AT: Mutex<Option<Instant>> = Mutex::new(None);

/// Warns of a proxy that forwards requests for sockets as others.
fn warn_of_proxy() {
    let mut warned_at = WARNED_AT.lock().unwrap_or_else(PoisonError::into_inner);
    if warned_at.is_none_or(|at| at.elapsed() >= WARNED_EVERY) {
        *warned_at = Some(Instant::now());
        tracing::warn!(
            "a request for /v1/ws came without Upgrade: the proxy in front must forward WebSockets"
        );
    }
}

/// Open a WebSocket for live events
#[utoipa::path(get, path = "/v1/ws", tag = "boot",
    security(("session" = ["viewer"]), ("key" = ["chat:read"])),
    responses((status = 101, description = "The connection was upgraded to a WebSocket")))]
async fn open_socket(
    St(state): St<State>,
    headers: HeaderMap,
    axum::Extension(request): axum::Extension<RequestId>,
    axum::Extension(taken): axum::Extension<BytesTaken>,
    caller: Result<Caller, ApiError>,
    ws: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, ApiError> {
    let ws = ws.map_err(|e| {
        warn_of_proxy();
        ApiError::invalid(
            ErrorCode::UpgradeRequired,
            format!("this path only accepts WebSocket connections: {e}"),
            "",
        )
    })?;
    // Browsers hide the HTTP status of a failed upgrade, so a missing session is reported with a close code.
    match caller {
        Ok(caller) => {
            let permit = state.limits.open_socket(Some(caller.user))?;
            let opening = Opening {
                headers,
                request,
                taken,
            };
            Ok(upgrade(ws, state, opening, caller, permit))
        }
        Err(e) if e.is_unauthenticated() => {
            let permit = state.limits.open_socket(None)?;
            Ok(refuse(ws, state, permit))
        }
        Err(e) => Err(e),
    }
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct EventsQuery {
    /// Returns only events after this sequence number.
    #[param(value_type = Option<i64>, minimum = 0)]
    after: Option<String>,
    /// Page size, 1 to 100.
    #[param(inline)]
    limit: Option<Limit>,
}

/// A page of the event log.
#[derive(serde::Serialize, utoipa::ToSchema)]
struct Events {
    #[schema(inline)]
    object: ListObject,
    /// Events in the same format as on the WebSocket.
    #[schema(value_type = Vec<ServerEvent>)]
    data: Vec<Box<RawValue>>,
    has_more: bool,
    first_id: Option<String>,
    last_id: Option<String>,
    /// The newest sequence number of the workspace.
    seq: i64,
    epoch: String,
    /// True if `after` is older than the retained events or newer than the newest event; the client has to
    /// load the snapshot.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    resync: bool,
}

/// List the durable events after a sequence number, oldest first
#[utoipa::path(get, path = "/v1/events", tag = "boot",
    security(("session" = ["viewer"]), ("key" = ["chat:read"])),
    params(EventsQuery), responses((status = 200, body = Events)))]
async fn list_events(
    St(state): St<State>,
    member: WorkspaceCaller,
    Query(query): Query<EventsQuery>,
) -> Result<Json<Events>, ApiError> {
    let epoch = state.epoch();
    let read = state
        .db
        .scan(member.share())
        .await?
        .run(move |c| async move { read_events(c, &member, &query, epoch).await }.boxed());
    Ok(Json(read.await?))
}

async fn read_events(
    c: &mut Conn,
    member: &WorkspaceCaller,
    query: &EventsQuery,
    epoch: String,
) -> Result<Events, ApiError> {
    let actor = member.enter(c).await?;
    actor.require(Scope::ChatRead)?;
    let limit = Limit::or(query.limit, 100);
    let after = match query.after.as_deref().filter(|t| !t.is_empty()) {
        None => 0,
        Some(text) => text
            .parse::<i64>()
            .ok()
            .filter(|n| *n >= 0)
            .ok_or_else(|| {
                ApiError::invalid(
                    ErrorCode::InvalidCursor,
                    format!("after must be the seq of an event, not `{text}`"),
                    "after",
                )
            })?,
    };
    let (head, pruned) = log::head(c, actor.workspace).await?;
    let resync = after < pruned || after > head;
    let mut rows = if resync {
        Vec::new()
    } else {
        log::visible_after(
            c,
            actor.workspace,
            log::LogReader {
                user: actor.user,
                visibility: actor.visibility(),
                followed: Followed::All,
            },
            after,
            head,
            log::PageMax {
                events: limit + 1,
                bytes: i64::MAX,
            },
        )
        .await?
    };
    let more = i64::try_from(rows.len()).unwrap_or(i64::MAX) > limit;
    rows.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    Ok(Events {
        object: ListObject,
        has_more: more,
        first_id: rows.first().map(|(seq, _)| seq.to_string()),
        last_id: rows.last().map(|(seq, _)| seq.to_string()),
        data: rows
            .into_iter()
            .filter_map(|(_, frame)| RawValue::from_string(frame).ok())
            .collect(),
        seq: head,
        epoch,
        resync,
    })
}
