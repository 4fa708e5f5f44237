//! Forks, their resolutions, decisions, and action items over HTTP.

mod fork;
mod outcomes;
mod results;

use utoipa_axum::router::OpenApiRouter;

use crate::server::State;

type St = axum::extract::State<State>;

pub fn router() -> OpenApiRouter<State> {
    OpenApiRouter::new()
        .merge(fork::router())
        .merge(results::router())
        .merge(outcomes::router())
}
