//! Forks, their resolutions, decisions, and action items over HTTP.

mod fork;
mod outcomes;
mod results;

use utoipa_axum::router::OpenApiRouter;

pub(super) use fork::{ForkForm, NewForkSeen, start_fork};
pub(super) use outcomes::{DecisionsQuery, list_decisions};
pub(super) use results::{ResolveForm, Resolving, resolve_fork};

use crate::server::State;

type St = axum::extract::State<State>;

pub fn router() -> OpenApiRouter<State> {
    OpenApiRouter::new()
        .merge(fork::router())
        .merge(results::router())
        .merge(outcomes::router())
}
