//! Whether the server lives, is ready, and how it is doing.

use std::net::{IpAddr, SocketAddr};

use axum::{
    Json,
    extract::ConnectInfo,
    http::{HeaderMap, header},
    response::{IntoResponse, Response},
};
use serde::Serialize;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{ApiError, State};

type St = axum::extract::State<State>;

pub fn router() -> OpenApiRouter<State> {
    OpenApiRouter::new()
        .routes(routes!(healthz))
        .routes(routes!(readyz))
        .routes(routes!(metrics))
}

#[derive(Serialize, utoipa::ToSchema)]
struct Health {
    /// `ok`
    status: &'static str,
}

#[derive(Serialize, utoipa::ToSchema)]
struct Readiness {
    /// `ok`
    status: &'static str,
    /// `ok`: a read was answered.
    database: &'static str,
    /// `ok`: the tables are those that this program needs.
    migrations: &'static str,
    /// `local`: one process.
    bus: &'static str,
}

/// The process lives
#[utoipa::path(get, path = "/healthz", tag = "health", security(()), responses((status = 200, body = Health)))]
async fn healthz() -> Json<Health> {
    Json(Health { status: "ok" })
}

/// The server can work
#[utoipa::path(get, path = "/readyz", tag = "health", security(()), responses((status = 200, body = Readiness)))]
async fn readyz(axum::extract::State(state): St) -> Result<Json<Readiness>, ApiError> {
    if state.shutdown.is_cancelled() {
        return Err(ApiError::unavailable("the server is shutting down"));
    }
    let read = async {
        state
            .db
            .read()
            .await?
            .q("select value from meta where key = 'epoch'")
            .value::<String>()
            .await
    };
    match tokio::time::timeout(std::time::Duration::from_secs(5), read).await {
        Ok(Ok(_)) => Ok(Json(Readiness {
            status: "ok",
            database: "ok",
            migrations: "ok",
            bus: "local",
        })),
        _ => Err(ApiError::unavailable("the database does not answer")),
    }
}

/// # Errors
/// 401 without the token, where one is set; else 403 from another machine.
fn admit_to_metrics(state: &State, headers: &HeaderMap, peer: IpAddr) -> Result<(), ApiError> {
    let Some(token) = &state.config.metrics_token else {
        // Behind a proxy on this machine every request comes from loopback, so a forwarded one does not count.
        let forwarded =
            headers.contains_key("x-forwarded-for") || headers.contains_key("forwarded");
        if peer.is_loopback() && !forwarded {
            return Ok(());
        }
        return Err(ApiError::forbidden(
            "metrics_closed",
            "metrics are for this machine only; set OPENVIBE_METRICS_TOKEN and send it as bearer",
        ));
    };
    let given = headers
        .get(header::AUTHORIZATION)
        .and_then(|v| v.to_str().ok())
        .and_then(|text| text.strip_prefix("Bearer "))
        .unwrap_or_default();
    if crate::auth::hash_token(given) == crate::auth::hash_token(&token.0) {
        Ok(())
    } else {
        Err(crate::auth::AuthError::MetricsToken.into())
    }
}

/// Figures for Prometheus
#[utoipa::path(get, path = "/metrics", tag = "health", security(()), responses((status = 200, body = String, content_type = "text/plain")))]
async fn metrics(
    axum::extract::State(state): St,
    headers: HeaderMap,
    peer: ConnectInfo<SocketAddr>,
) -> Result<Response, ApiError> {
    admit_to_metrics(&state, &headers, peer.0.ip())?;
    let mut c = state.db.read().await?;
    let (queued, oldest): (i64, Option<crate::time::Timestamp>) = c
        .q("select count(*), min(queued_at) from tasks where status = 'queued'")
        .one()
        .await?;
    let age = oldest.map_or(0.0, |at| crate::db::now().since(at).as_secs_f64());
    #[expect(clippy::cast_precision_loss, reason = "a gauge needs no more")]
    ::metrics::gauge!("openvibe_tasks_queued").set(queued as f64);
    ::metrics::gauge!("openvibe_tasks_queued_oldest_seconds").set(age);
    let text = state.metrics.render();
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response())
}
