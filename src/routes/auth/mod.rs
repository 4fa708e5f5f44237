//! HTTP routes for accounts, workspaces, people, and keys.

mod accounts;
mod factors;
mod keys;
mod mail;
mod oidc;
mod own_picture;
mod passkey_sign_up;
mod people;
mod session;
mod sign_in;
mod workspaces;

pub use oidc::receiver;
pub(super) use oidc::{ProviderUrl, Start, Starter};

use axum::http::{HeaderMap, header};
use utoipa_axum::router::OpenApiRouter;

use crate::{
    auth::{Caller, WorkspaceCaller, events::Device},
    http::ApiError,
    ids::WorkspaceId,
    server::{
        State,
        caller::{Address, workspace_of},
    },
};

type St = axum::extract::State<State>;

pub fn router() -> OpenApiRouter<State> {
    OpenApiRouter::new()
        .merge(accounts::router())
        .merge(own_picture::router())
        .merge(sign_in::router())
        .merge(factors::router())
        .merge(passkey_sign_up::router())
        .merge(workspaces::router())
        .merge(people::router())
        .merge(keys::router())
        .merge(mail::router())
        .merge(oidc::router())
}

/// Browser and address of a request.
fn device_of(headers: &HeaderMap, address: &Address) -> Device {
    let user_agent = headers.get(header::USER_AGENT);
    Device {
        user_agent: user_agent.and_then(|v| v.to_str().ok()).map(str::to_owned),
        address: Some(address.0.to_string()),
    }
}

/// Combines the caller with the workspace of the requested object. If the object does not exist, uses the request's workspace, so
/// that missing permissions are reported before a missing object.
async fn caller_at(
    state: &State,
    headers: &HeaderMap,
    caller: Caller,
    workspace: Option<WorkspaceId>,
) -> Result<WorkspaceCaller, ApiError> {
    let workspace = match workspace {
        Some(workspace) => workspace,
        None => workspace_of(state, headers, &caller).await?,
    };
    Ok(WorkspaceCaller { caller, workspace })
}
