//! Initial state of a client: the snapshot and the event log.

use axum::Json;
use serde::Deserialize;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::St;
use crate::{
    auth::{Scope, WorkspaceCaller},
    chat::snapshot::{self, Limits, Snapshot},
    http::{ApiError, State, extract::Query, page::Limit},
    realtime::log,
};

pub(super) fn router() -> OpenApiRouter<State> {
    OpenApiRouter::new()
        .routes(routes!(get_snapshot))
        .routes(routes!(list_events))
}

/// Initial state of a client, at exactly one sequence number of the event log
#[utoipa::path(get, path = "/v1/snapshot", tag = "boot",
    security(("session" = ["viewer"]), ("key" = ["chat:read"])),
    responses((status = 200, body = Snapshot)))]
async fn get_snapshot(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
) -> Result<Json<Snapshot>, ApiError> {
    let mut c = state.db.scan(member.share()).await?;
    let actor = member.enter(&mut c).await?;
    let online = state.hub.online(actor.workspace);
    let limits = Limits {
        upload_bytes_max: state.config.upload_bytes_max,
    };
    let mut snapshot = snapshot::load(&mut c, &actor, state.epoch.clone(), online, limits).await?;
    drop(c);
    for agent in &mut snapshot.agents {
        agent.set_effective_model(state.provider.as_ref()).await;
    }
    Ok(Json(snapshot))
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct EventsQuery {
    /// Return events after this sequence number.
    #[param(value_type = Option<i64>, minimum = 0)]
    after: Option<String>,
    /// 1 to 100.
    #[param(inline)]
    limit: Option<Limit>,
}

/// A page of the event log.
#[derive(serde::Serialize, utoipa::ToSchema)]
struct Events {
    /// Always `list`.
    object: &'static str,
    /// The same frames as on the WebSocket.
    #[schema(value_type = Vec<Object>)]
    data: Vec<Box<serde_json::value::RawValue>>,
    has_more: bool,
    first_id: Option<String>,
    last_id: Option<String>,
    /// The newest sequence number of the workspace.
    seq: i64,
    epoch: String,
    /// `after` is older than the retained events or newer than the newest event: load the snapshot.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    resync: bool,
}

/// Durable events after a sequence number, oldest first
#[utoipa::path(get, path = "/v1/events", tag = "boot",
    security(("session" = ["viewer"]), ("key" = ["chat:read"])),
    params(EventsQuery), responses((status = 200, body = Events)))]
async fn list_events(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    Query(query): Query<EventsQuery>,
) -> Result<Json<Events>, ApiError> {
    let mut c = state.db.scan(member.share()).await?;
    let actor = member.enter(&mut c).await?;
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
                    "invalid_cursor",
                    format!("after must be the seq of an event, not `{text}`"),
                    "after",
                )
            })?,
    };
    let (head, pruned) = log::head(&mut c, actor.workspace).await?;
    let resync = after < pruned || after > head;
    let mut rows = if resync {
        Vec::new()
    } else {
        log::visible_after(
            &mut c,
            actor.workspace,
            (actor.user, actor.visibility()),
            (after, head),
            log::PageMax {
                events: limit + 1,
                bytes: i64::MAX,
            },
        )
        .await?
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
