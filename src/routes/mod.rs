//! HTTP routes, one module for each capability.

pub mod agents;
pub mod auth;
pub mod bot_responses;
pub mod chat;
pub mod chat_completions;
pub mod code;
pub mod collections;
pub mod commands;
pub mod exports;
pub mod files;
pub mod forks;
pub mod health;
mod hook_files;
pub mod hooks;
pub mod imports;
pub mod mcp;
pub mod memory;
pub mod nodes;
pub mod personal;
pub mod push;
pub mod registry;
pub mod responses;
pub mod schedules;
pub mod scim;
pub mod server;
pub mod slack;
pub mod subscriptions;
pub mod tools;
pub mod vector_stores;

use crate::{
    auth::{AuthError, Role, Scope, WorkspaceCaller, workspaces},
    db::Conn,
    http::ApiError,
};

/// Checks whether the caller is an admin of the oldest workspace, which belongs to the operator.
///
/// # Errors
/// The same as for a route that does not exist.
async fn require_operator(c: &mut Conn, caller: &WorkspaceCaller) -> Result<(), ApiError> {
    let actor = caller.enter(c).await.map_err(|e| match e {
        AuthError::NotForGuests => ApiError::no_route(),
        other => other.into(),
    })?;
    let oldest = workspaces::find_oldest(c).await?;
    let is_operator = actor.role == Role::Admin
        && actor.scopes.has(Scope::WorkspaceAdmin)
        && oldest == Some(actor.workspace);
    if is_operator {
        Ok(())
    } else {
        Err(ApiError::no_route())
    }
}
