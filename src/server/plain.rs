//! The listener on port 80: answers challenges, and sends browsers to HTTPS.

use std::{net::SocketAddr, sync::Arc};

use axum::{
    Router,
    extract::{ConnectInfo, Request},
    http::{StatusCode, header},
    response::{Html, IntoResponse, Response},
};
use tower::ServiceExt;

use crate::{
    db::Db,
    time::Timestamp,
    tls::{acme, store::CertificateStore},
};

const CHALLENGE_PATH: &str = "/.well-known/acme-challenge/";
/// Paths that this machine can read without HTTPS, for probes.
const PROBES: [&str; 3] = ["/healthz", "/readyz", "/metrics"];

/// Paths and answers of the listener on port 80.
pub struct PlainHttp {
    pub db: Db,
    pub store: Arc<CertificateStore>,
    /// Public URL without a trailing slash.
    pub public_url: String,
    /// The routes of the server.
    pub routes: Router,
}

impl PlainHttp {
    pub fn into_router(self) -> Router {
        let this = Arc::new(self);
        Router::new().fallback(move |request: Request| {
            let this = Arc::clone(&this);
            async move { this.answer(request).await }
        })
    }

    async fn answer(&self, request: Request) -> Response {
        let path = request.uri().path();
        if let Some(token) = path.strip_prefix(CHALLENGE_PATH) {
            return match acme::answer_to_token(&self.db, token).await {
                Ok(Some(answer)) => answer.into_response(),
                Ok(None) => StatusCode::NOT_FOUND.into_response(),
                Err(e) => {
                    tracing::warn!(error = %e, "a challenge could not be answered");
                    StatusCode::SERVICE_UNAVAILABLE.into_response()
                }
            };
        }
        if PROBES.contains(&path) && is_from_this_machine(&request) {
            let Ok(response) = self.routes.clone().oneshot(request).await;
            return response;
        }
        if self.store.certificate().is_none() {
            return self.waiting_page();
        }
        let rest = request.uri().path_and_query();
        let rest = rest.map_or("/", |rest| rest.as_str());
        // Never the host that the client named: it could be anybody's.
        let location = format!("{}{rest}", self.public_url);
        (
            StatusCode::PERMANENT_REDIRECT,
            [(header::LOCATION, location)],
        )
            .into_response()
    }

    fn waiting_page(&self) -> Response {
        let cause = self.store.failure().map(|failure| failure.text);
        let cause = cause.unwrap_or_else(|| "The first order is under way.".to_owned());
        let next = self.store.next_attempt_at();
        let next = next.map(|at| {
            let at = at.to_minute_text(Timestamp::now());
            format!("<p>Next attempt: {at}.</p>")
        });
        let page = format!(
            "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
             <title>OpenVibe</title><h1>OpenVibe is waiting for its certificate</h1><p>{}</p>{}</html>",
            escape(&cause),
            next.unwrap_or_default()
        );
        let headers = [
            (header::CACHE_CONTROL, "no-store"),
            (header::CONTENT_SECURITY_POLICY, "default-src 'none'"),
        ];
        (StatusCode::SERVICE_UNAVAILABLE, headers, Html(page)).into_response()
    }
}

fn is_from_this_machine(request: &Request) -> bool {
    let peer = request.extensions().get::<ConnectInfo<SocketAddr>>();
    peer.is_some_and(|peer| peer.0.ip().to_canonical().is_loopback())
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
