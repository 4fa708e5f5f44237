//! HTTP routes for liveness, readiness, and metrics.

use crate::tasks::TaskKind;
use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use axum::{
    Json, Router,
    extract::ConnectInfo,
    http::{HeaderMap, header},
    response::{IntoResponse, Response},
    routing::get,
};
use serde::Serialize;
use tokio::{net::TcpListener, sync::Semaphore};
use utoipa_axum::router::OpenApiRouter;

use crate::{
    blocking::blocking,
    db::DbError,
    disk::free_bytes,
    http::{
        address::is_forwarded,
        error::{ApiError, ErrorBody, ErrorCode},
        routing::routes,
        serve::{Bounds, serve},
    },
    ids::NodeId,
    nodes::{self, Links, Mode},
    realtime::NodeState,
    server::{State, hosts::is_loopback_url, origin::is_loopback_host},
    tasks::queue,
    telemetry,
    text_enum::{constant, text_enum},
};

/// Maximum time that `/metrics` waits for the database.
const DATABASE_WITHIN: Duration = Duration::from_secs(2);
/// Maximum number of connections to `OPENVIBE_METRICS_LISTEN`.
const METRICS_CONNECTIONS_MAX: usize = 16;
/// Maximum time that `/readyz` waits for a read.
const READY_WITHIN: Duration = Duration::from_secs(5);

type St = axum::extract::State<State>;

pub fn router() -> OpenApiRouter<State> {
    OpenApiRouter::new()
        .routes(routes!(healthz))
        .routes(routes!(readyz))
        .routes(routes!(metrics))
}

constant! { Healthy = "ok" }

#[derive(Serialize, utoipa::ToSchema)]
struct Health {
    status: Healthy,
}

#[derive(Serialize, utoipa::ToSchema)]
struct Readiness {
    status: Healthy,
    /// A read succeeded, and every writer has stored a row within the last 2 s.
    database: Healthy,
    /// The schema has the version that this server needs.
    migrations: Healthy,
    /// State of the bus between nodes; `degraded` while nodes poll the database because the bus is unavailable.
    bus: ReadyBus,
    node: ReadyNode,
}

text_enum! {
    /// Bus of a ready node.
    enum ReadyBus {
        Local = "local",
        Notify = "notify",
        Nats = "nats",
        Degraded = "degraded",
    }
}

#[derive(Serialize, utoipa::ToSchema)]
struct ReadyNode {
    id: NodeId,
    #[schema(inline)]
    state: NodeState,
}

fn bus_of(links: &Links) -> ReadyBus {
    match links.node.mode {
        Mode::Local => ReadyBus::Local,
        Mode::Notify | Mode::Nats if links.bus.is_degraded() => ReadyBus::Degraded,
        Mode::Notify => ReadyBus::Notify,
        Mode::Nats => ReadyBus::Nats,
    }
}

/// Check that the process is running
#[utoipa::path(get, path = "/healthz", tag = "health",
    security(()),
    responses((status = 200, body = Health)))]
async fn healthz() -> Json<Health> {
    Json(Health { status: Healthy })
}

/// Check that the server is ready for requests
#[utoipa::path(get, path = "/readyz", tag = "health",
    security(()),
    responses((status = 200, body = Readiness)))]
async fn readyz(axum::extract::State(state): St) -> Result<Json<Readiness>, ApiError> {
    if state.shutdown.is_cancelled() {
        return Err(ApiError::unavailable("the server is shutting down"));
    }
    let node = &state.nodes.node;
    match node.state() {
        NodeState::Starting => {
            return Err(ApiError::unavailable(
                "the server is starting: try again soon",
            ));
        }
        NodeState::Draining => {
            return Err(ApiError::unavailable("the server is shutting down"));
        }
        NodeState::Ready | NodeState::Lost => {}
    }
    if node.has_another_key() {
        return Err(ApiError::unavailable(
            "OPENVIBE_SECRET_KEY differs from that of a node that started earlier: set the same key on all nodes",
        ));
    }
    if node.is_cut_off() {
        return Err(ApiError::unavailable("the database does not respond"));
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
    let read = tokio::time::timeout(READY_WITHIN, read);
    match tokio::join!(read, state.db.check_writers()) {
        (Ok(Ok(_)), Ok(())) => Ok(Json(Readiness {
            status: Healthy,
            database: Healthy,
            migrations: Healthy,
            bus: bus_of(&state.nodes),
            node: ReadyNode {
                id: node.id,
                state: node.state(),
            },
        })),
        _ => Err(ApiError::unavailable("the database does not respond")),
    }
}

/// # Errors
/// 401 without the token, if one is set; otherwise 403 for requests from another machine.
fn admit_to_metrics(state: &State, headers: &HeaderMap, peer: IpAddr) -> Result<(), ApiError> {
    let Some(token) = &state.config.metrics_token else {
        // Requests forwarded by a proxy on this machine, and requests from web pages in a browser on this machine, also come from a
        // loopback address.
        let is_local = peer.is_loopback() && !is_forwarded(headers) && is_loopback_host(headers);
        // Behind a proxy that adds no header, all requests look local.
        if is_local && is_loopback_url(&state.public_url) {
            return Ok(());
        }
        return Err(ApiError::forbidden(
            ErrorCode::MetricsClosed,
            "metrics are available only from this machine, and only without a public URL: set OPENVIBE_METRICS_TOKEN and send it as a bearer \
             token, or set OPENVIBE_METRICS_LISTEN",
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

/// Responses that are rendered at the same time.
static RENDERING: Semaphore = Semaphore::const_new(1);

/// Get metrics for Prometheus
///
/// Requires the metrics token if one is set; without one, only requests from the same machine are accepted, and only while the public
/// URL is that of this machine.
#[utoipa::path(get, path = "/metrics", tag = "health",
    security(()),
    responses((status = 200, body = String, content_type = "text/plain"),
        (status = 401, description = "Token missing or wrong", body = ErrorBody),
        (status = 403, description = "Not from the same machine", body = ErrorBody)))]
async fn metrics(
    axum::extract::State(state): St,
    headers: HeaderMap,
    peer: ConnectInfo<SocketAddr>,
) -> Result<Response, ApiError> {
    admit_to_metrics(&state, &headers, peer.0.ip())?;
    render_metrics(&state).await
}

/// Serves the metrics to everyone who can connect to `OPENVIBE_METRICS_LISTEN`, until shutdown.
pub async fn serve_metrics(state: State, listener: TcpListener) {
    let render = async |axum::extract::State(state): St| render_metrics(&state).await;
    let router = Router::new()
        .route("/metrics", get(render))
        .with_state(state.clone());
    let bounds = Bounds::new(METRICS_CONNECTIONS_MAX);
    serve(listener, router, &bounds, state.shutdown.clone()).await;
}

async fn render_metrics(state: &State) -> Result<Response, ApiError> {
    #[expect(clippy::cast_precision_loss, reason = "precise enough for a gauge")]
    ::metrics::gauge!("openvibe_db_write_queue").set(state.db.queued_writes() as f64);
    #[expect(clippy::cast_precision_loss, reason = "precise enough for a gauge")]
    let free = free_bytes(&state.config.data_dir).map_or(f64::NAN, |free| free as f64);
    ::metrics::gauge!("openvibe_disk_free_bytes").set(free);
    // If the database does not respond, a timeout keeps the remaining metrics available, which matter most then.
    let looked = tokio::time::timeout(DATABASE_WITHIN, look_at_database(state)).await;
    let is_up = matches!(looked, Ok(Ok(())));
    ::metrics::gauge!("openvibe_db_up").set(f64::from(u8::from(is_up)));
    if !is_up {
        forget_database();
    }
    // Fails only if the semaphore is closed, which never happens.
    let turn = RENDERING.acquire().await.ok();
    let recorded = state.metrics.clone();
    let text = blocking(turn, move || {
        telemetry::process::look();
        recorded.render()
    });
    let text = text.await.map_err(|_| ApiError::internal())?;
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response())
}

const TASKS: [&str; 3] = [
    "openvibe_tasks_queued",
    "openvibe_tasks_queued_oldest_seconds",
    "openvibe_tasks_running",
];
const SIZE: &str = "openvibe_db_size_bytes";
const NODES: &str = "openvibe_nodes";

/// Kinds of tasks that can be queued.
fn queued_kinds() -> impl Iterator<Item = TaskKind> {
    let kinds = TaskKind::ALL.iter().copied();
    kinds.filter(|kind| *kind != TaskKind::Response)
}

/// Sets the gauges to NaN, so that stale values are not mistaken for current ones.
fn forget_database() {
    for name in TASKS {
        for kind in queued_kinds() {
            ::metrics::gauge!(name, "kind" => kind.as_str()).set(f64::NAN);
        }
    }
    ::metrics::gauge!(SIZE).set(f64::NAN);
}

#[expect(clippy::cast_precision_loss, reason = "precise enough for gauges")]
async fn look_at_database(state: &State) -> Result<(), DbError> {
    let now = crate::db::now();
    let waiting = queue::count_active(&mut state.db.read().await?).await?;
    let size_bytes = state.db.size_bytes().await?;
    for kind in queued_kinds() {
        let found = waiting.iter().find(|active| active.kind == kind);
        let (queued, running) = found.map_or((0, 0), |active| (active.queued, active.running));
        let oldest = found.and_then(|active| active.oldest_queued_at);
        let age = oldest.map_or(0.0, |at| now.since(at).as_secs_f64());
        for (name, value) in TASKS.into_iter().zip([queued as f64, age, running as f64]) {
            ::metrics::gauge!(name, "kind" => kind.as_str()).set(value);
        }
    }
    ::metrics::gauge!(SIZE).set(size_bytes as f64);
    let listed = nodes::list(&state.nodes).await?;
    for known in NodeState::ALL {
        let count = listed.iter().filter(|node| node.state == *known).count();
        ::metrics::gauge!(NODES, "state" => known.as_str()).set(count as f64);
    }
    Ok(())
}
