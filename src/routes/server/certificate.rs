//! The server's certificate.

use axum::{Json, http::StatusCode};
use serde::Serialize;
use serde_json::json;
use utoipa_axum::router::OpenApiRouter;

use crate::{
    auth::{AuditAction, Scope, WorkspaceCaller, record_audit},
    db::Conn,
    http::{ApiError, ErrorCode, error::ErrorBody, extract::NoFields, routing::routes},
    routes::require_operator,
    server::{State, caller::Outgoing},
    text_enum::text_enum,
    time::Timestamp,
    tls::{
        renewal::{self, RENEWALS_PER_HOUR_MAX},
        store::{CertificateFault, CertificateSource, CertificateStore},
    },
};

type St = axum::extract::State<State>;

pub(super) fn router() -> OpenApiRouter<State> {
    OpenApiRouter::new().routes(routes!(renew_certificate))
}

text_enum! {
    /// State of the server's certificate.
    enum CertificateState {
        Ok = "ok",
        /// The first one is being ordered.
        Pending = "pending",
        /// A new one could not be obtained or read; the current one, if there is one, remains in use.
        Failing = "failing",
        Expired = "expired",
    }
}

/// Reason why the certificate could not be obtained or read.
#[derive(Serialize, utoipa::ToSchema)]
struct CertificateProblem {
    #[schema(inline)]
    reason: CertificateFault,
    /// A sentence for the operator.
    text: String,
}

/// Certificate of the server.
#[derive(Serialize, utoipa::ToSchema)]
pub(super) struct ServerCertificate {
    #[schema(inline)]
    source: CertificateSource,
    /// Names of the current certificate; without one, the names that are ordered.
    names: Vec<String>,
    issuer: Option<String>,
    expires_at: Option<Timestamp>,
    /// Time from which the server orders the next one; null if it does not order its certificate.
    renew_at: Option<Timestamp>,
    /// Null if the server has no certificate of its own.
    #[schema(inline)]
    state: Option<CertificateState>,
    error: Option<CertificateProblem>,
    /// Time of the next order after a failure.
    next_attempt_at: Option<Timestamp>,
}

impl ServerCertificate {
    pub(super) fn of(state: &State) -> Self {
        let Some(store) = &state.certificate else {
            return Self {
                source: if state.is_https() {
                    CertificateSource::Proxy
                } else {
                    CertificateSource::None
                },
                names: Vec::new(),
                issuer: None,
                expires_at: None,
                renew_at: None,
                state: None,
                error: None,
                next_attempt_at: None,
            };
        };
        let (current, failure) = (store.certificate(), store.failure());
        let current = current.as_deref();
        let is_ordered = store.source == CertificateSource::Acme;
        let wanted = || state.config.tls.as_ref().map(|tls| tls.names.clone());
        let is_expired = current.is_some_and(|found| found.expires_at <= Timestamp::now());
        Self {
            source: store.source,
            names: current
                .map_or_else(|| wanted().unwrap_or_default(), |found| found.names.clone()),
            issuer: current.map(|found| found.issuer.clone()),
            expires_at: current.map(|found| found.expires_at),
            renew_at: current
                .filter(|_| is_ordered)
                .map(crate::tls::certificate::Certificate::renew_at),
            state: Some(match (&current, &failure) {
                (Some(_), _) if is_expired => CertificateState::Expired,
                (_, Some(_)) => CertificateState::Failing,
                (None, None) => CertificateState::Pending,
                (Some(_), None) => CertificateState::Ok,
            }),
            error: failure.map(|failure| CertificateProblem {
                reason: failure.reason,
                text: failure.text,
            }),
            next_attempt_at: store.next_attempt_at(),
        }
    }
}

/// Work that has begun; `GET /v1/server` has its result.
#[derive(Serialize, utoipa::ToSchema)]
struct RenewalBegun {
    running: bool,
}

/// Order a new certificate now
///
/// Only admins of the oldest workspace can use this route. Everyone else gets 404.
#[utoipa::path(post, path = "/v1/server/certificate", tag = "admin",
    security(("session" = ["admin"]), ("key" = ["workspace:admin"])),
    responses((status = 202, body = RenewalBegun, description = "The order has begun"),
        (status = 422, description = "The server does not order its certificate", body = ErrorBody)))]
async fn renew_certificate(
    axum::extract::State(state): St,
    caller: WorkspaceCaller,
    _: Outgoing,
    _: NoFields,
) -> Result<(StatusCode, Json<RenewalBegun>), ApiError> {
    let mut c = state.db.read().await?;
    require_operator(&mut c, &caller).await?;
    drop(c);
    let ordered = state.config.tls.as_ref().filter(|tls| tls.is_ordered());
    let (Some(tls), Some(store)) = (ordered, &state.certificate) else {
        return Err(ApiError::unprocessable(
            ErrorCode::CertificateNotOrdered,
            "this server does not order its certificate: name its host in OPENVIBE_DOMAIN"
                .to_owned(),
        ));
    };
    refuse_early_order(store)?;
    let names = tls.names.clone();
    caller
        .write(&state.db, async move |c: &mut Conn, actor| {
            actor.require(Scope::WorkspaceAdmin)?;
            if let Some(wait) = renewal::order(c, &names).await? {
                return Err(too_many_orders(
                    format!(
                        "admins can order {RENEWALS_PER_HOUR_MAX} certificates an hour: try again later"
                    ),
                    wait,
                ));
            }
            let action = AuditAction::ServerCertificateOrdered;
            let data = json!({ "names": names });
            record_audit(c, actor, action, String::new(), data).await?;
            Ok(())
        })
        .await?;
    Ok((StatusCode::ACCEPTED, Json(RenewalBegun { running: true })))
}

/// # Errors
/// 429 if the authority refuses orders until a later time.
fn refuse_early_order(store: &CertificateStore) -> Result<(), ApiError> {
    let failure = store.failure();
    let now = Timestamp::now();
    match (failure, store.next_attempt_at()) {
        (Some(failure), Some(next))
            if failure.reason == CertificateFault::RateLimited && next > now =>
        {
            Err(too_many_orders(failure.text, next.since(now)))
        }
        _ => Ok(()),
    }
}

fn too_many_orders(text: String, wait: std::time::Duration) -> ApiError {
    let seconds = wait.as_secs().max(1);
    ApiError::new(StatusCode::TOO_MANY_REQUESTS, ErrorCode::RateLimited, text).retry_after(seconds)
}
