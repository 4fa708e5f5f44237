//! Initial state of a client.

use axum::Json;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::St;
use crate::{
    auth::WorkspaceCaller,
    chat::snapshot::{self, Limits, Snapshot},
    http::ApiError,
    nodes,
    server::State,
};

pub(super) fn router() -> OpenApiRouter<State> {
    OpenApiRouter::new().routes(routes!(get_snapshot))
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
    let mut online = state.hub.online(actor.workspace);
    let node = &state.nodes.node;
    if node.is_shared() {
        online.extend(nodes::list_online(&mut c, node.id, actor.workspace).await?);
        online.sort_unstable();
        online.dedup();
    }
    let limits = Limits {
        upload_bytes_max: state.config.upload_bytes_max,
    };
    let mut snapshot = snapshot::load(&mut c, &actor, state.epoch(), online, limits).await?;
    drop(c);
    let provider = state.providers.of(member.workspace).await?;
    for agent in &mut snapshot.agents {
        agent.set_effective_model(provider.as_ref()).await;
    }
    Ok(Json(snapshot))
}
