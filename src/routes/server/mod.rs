//! HTTP routes for the server as a whole. Only admins of the oldest workspace, which belongs to the operator, can use them; everyone
//! else gets 404.

mod audited;
mod backups;
mod certificate;
mod checks;
mod info;
mod mail;
pub mod probe;
mod providers;

use utoipa_axum::router::OpenApiRouter;

use crate::server::State;

pub fn router() -> OpenApiRouter<State> {
    OpenApiRouter::new()
        .merge(info::router())
        .merge(mail::router())
        .merge(providers::router())
        .merge(certificate::router())
        .merge(backups::router())
        .merge(checks::router())
}
