//! Accounts, workspaces, people and keys over HTTP: a file per noun.

mod accounts;
mod keys;
mod people;
mod workspaces;

use axum::http::HeaderMap;
use utoipa_axum::router::OpenApiRouter;

use super::{Actor, AuthError, Caller};
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

/// The person in the workspace of the object that a route names. Where there is no such object it is the request's own
/// workspace, so that who may not do it at all is told so first; a foreign workspace's `what` does not exist.
async fn actor_at(
    state: &State,
    headers: &HeaderMap,
    caller: &Caller,
    workspace: Option<(WorkspaceId,)>,
    what: &'static str,
) -> Result<Actor, ApiError> {
    let workspace = match workspace {
        Some((workspace,)) => workspace,
        None => workspace_of(state, headers, caller).await?,
    };
    let entered = caller.enter(&mut state.db.read().await?, workspace).await;
    Ok(entered.map_err(|_| AuthError::NotFound(what))?)
}
