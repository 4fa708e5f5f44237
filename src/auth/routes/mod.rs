//! Accounts, workspaces, people and keys over HTTP: a file per noun.

mod accounts;
mod keys;
mod people;
mod workspaces;

use utoipa_axum::router::OpenApiRouter;

use crate::http::State;

type St = axum::extract::State<State>;

pub fn router() -> OpenApiRouter<State> {
    OpenApiRouter::new()
        .merge(accounts::router())
        .merge(workspaces::router())
        .merge(people::router())
        .merge(keys::router())
}
