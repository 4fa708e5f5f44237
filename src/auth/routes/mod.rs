//! Accounts, workspaces, people and keys over HTTP: a file per noun.

mod accounts;
mod keys;
mod people;
mod workspaces;

use axum::http::HeaderMap;
use utoipa_axum::router::OpenApiRouter;

use super::{Caller, WorkspaceCaller};
use crate::{
    http::{ApiError, State, extract::workspace_of},
    ids::WorkspaceId,
};

type St = axum::extract::State<State>;

pub fn router() -> OpenApiRouter<State> {
    OpenApiRouter::new()
        .merge(accounts::router())
        .merge(workspaces::router())
        .merge(people::router())
        .merge(keys::router())
}

/// The person at the workspace of the object that a route names. Without such an object it is the request's own
/// workspace, so that missing rights are reported first.
async fn caller_at(
    state: &State,
    headers: &HeaderMap,
    caller: Caller,
    workspace: Option<(WorkspaceId,)>,
) -> Result<WorkspaceCaller, ApiError> {
    let workspace = match workspace {
        Some((workspace,)) => workspace,
        None => workspace_of(state, headers, &caller).await?,
    };
    Ok(WorkspaceCaller { caller, workspace })
}
