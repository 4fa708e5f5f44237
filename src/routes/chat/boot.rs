//! HTTP route for the initial state of a client.

use axum::Json;
use futures::FutureExt;
use utoipa_axum::router::OpenApiRouter;

use super::St;
use crate::{
    auth::{Actor, Role, WorkspaceCaller, workspaces},
    chat::{
        checklist::{ChecklistStep, FirstStep},
        snapshot::{self, Limits, Snapshot},
    },
    db::{Conn, DbError},
    doctor::stored::StoredChecks,
    http::{ApiError, routing::routes},
    ids::{UserId, WorkspaceId},
    nodes,
    server::State,
    tasks::asleep::AgentsState,
    upkeep::choices::Choices,
};

pub(super) fn router() -> OpenApiRouter<State> {
    OpenApiRouter::new().routes(routes!(get_snapshot))
}

/// People of a workspace with an open window, on this node or another one.
///
/// # Errors
/// Only database errors.
pub async fn list_online(
    c: &mut Conn,
    state: &State,
    workspace: WorkspaceId,
) -> Result<Vec<UserId>, DbError> {
    let mut online = state.hub.online(workspace);
    let node = &state.nodes.node;
    if node.is_shared() {
        online.extend(nodes::list_online(c, node.id, workspace).await?);
        online.sort_unstable();
        online.dedup();
    }
    Ok(online)
}

/// First steps of the server's admins; empty for others.
async fn server_steps(
    c: &mut Conn,
    state: &State,
    actor: &Actor<'_>,
) -> Result<Vec<ChecklistStep>, ApiError> {
    let is_of_server =
        actor.role == Role::Admin && workspaces::find_oldest(c).await? == Some(actor.workspace);
    if !is_of_server {
        return Ok(Vec::new());
    }
    let is_checked = StoredChecks::read(c).await?.is_some();
    let is_looking = Choices::read(c).await?.look_for_updates;
    let has_email = state.config.smtp.is_some();
    let steps = [
        (FirstStep::CheckServer, is_checked),
        (FirstStep::SetUpEmail, has_email),
        (FirstStep::LookForUpdates, is_looking),
    ];
    Ok(steps
        .map(|(name, done)| ChecklistStep { name, done })
        .to_vec())
}

/// Get the initial state of a client, as of a single sequence number of the event log
#[utoipa::path(get, path = "/v1/snapshot", tag = "boot",
    security(("session" = ["viewer"]), ("key" = ["chat:read"])),
    responses((status = 200, body = Snapshot)))]
async fn get_snapshot(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
) -> Result<Json<Snapshot>, ApiError> {
    let workspace = member.workspace;
    let shared = state.clone();
    let read = state.db.scan(member.share()).await?.run(move |c| {
        async move {
            let actor = member.enter(c).await?;
            let online = list_online(c, &shared, actor.workspace).await?;
            let limits = Limits {
                upload_bytes_max: shared.config.upload_bytes_max,
            };
            let mut snapshot = snapshot::load(c, &actor, shared.epoch(), online, limits).await?;
            if let Some(steps) = &mut snapshot.checklist {
                steps.extend(server_steps(c, &shared, &actor).await?);
            }
            Ok::<_, ApiError>(snapshot)
        }
        .boxed()
    });
    let mut snapshot = read.await?;
    if state.config.is_quiet {
        snapshot.agents_state = AgentsState::Quiet;
    }
    let provider = state.providers.of(workspace).await?;
    let is_admin = snapshot.me.role == Role::Admin;
    if let Some(steps) = snapshot.checklist.as_mut().filter(|_| is_admin) {
        let connect = ChecklistStep {
            name: FirstStep::ConnectModel,
            done: !provider.is_offline(),
        };
        steps.insert(0, connect);
    }
    for agent in &mut snapshot.agents {
        agent.set_effective_model(provider.as_ref()).await;
    }
    Ok(Json(snapshot))
}
