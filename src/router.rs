//! The router: all routes and the middleware around them.

use std::sync::{Arc, LazyLock};

use axum::{
    Router,
    extract::{DefaultBodyLimit, Request},
    http::{HeaderName, HeaderValue, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::get,
};
use tower::util::option_layer;
use tower_http::{catch_panic::CatchPanicLayer, set_header::SetResponseHeaderLayer};
use utoipa_axum::router::OpenApiRouter;

use crate::{
    files::UploadBytes,
    http::{ApiError, ErrorCode, assets, encoding, error, requests, serve::Bounds},
    openapi, routes,
    server::{
        State,
        caller::{Address, token_of},
        intake::{self, Intake, is_api, is_for_anonymous},
        is_for_runner, origin,
    },
    share::Pool,
    socket,
};

const API_CSP: &str = "default-src 'none'; frame-ancestors 'none'";

/// Browsers use only HTTPS for this host for 30 days after each response. Subdomains may belong to other services. Sent unless the
/// server's own certificate does not verify.
const TRANSPORT_SECURITY: &str = "max-age=2592000";

/// Returns every route in the `OpenAPI` document.
fn all() -> OpenApiRouter<State> {
    OpenApiRouter::with_openapi(openapi::empty())
        .merge(routes::health::router())
        .merge(routes::auth::router())
        .merge(routes::chat::router())
        .merge(routes::files::router())
        .merge(routes::vector_stores::router())
        .merge(routes::collections::router())
        .merge(routes::forks::router())
        .merge(routes::agents::router())
        .merge(routes::memory::router())
        .merge(routes::tools::router())
        .merge(routes::code::router())
        .merge(routes::schedules::router())
        .merge(routes::hooks::router())
        .merge(routes::subscriptions::router())
        .merge(routes::commands::router())
        .merge(routes::imports::router())
        .merge(routes::exports::router())
        .merge(routes::push::router())
        .merge(routes::responses::router())
        .merge(routes::chat_completions::router())
        .merge(routes::registry::router())
        .merge(routes::mcp::router())
        .merge(routes::personal::router())
        .merge(routes::nodes::router())
        .merge(routes::server::router())
        .merge(socket::router())
}

/// The routes and their `OpenAPI` document, which `openapi::finish` completes.
static ALL: LazyLock<(Router<State>, utoipa::openapi::OpenApi)> =
    LazyLock::new(|| all().split_for_parts());

/// Builds the complete document.
pub fn document() -> utoipa::openapi::OpenApi {
    openapi::finish(ALL.1.clone())
}

/// `GET /openapi.json`: the document, compressed if the client accepts it.
async fn serve_document(headers: axum::http::HeaderMap) -> axum::response::Response {
    use crate::http::unsent::InProgram;

    static TEXT: LazyLock<String> =
        LazyLock::new(|| document().to_json().unwrap_or_else(|_| "{}".to_owned()));
    static GZIP: LazyLock<Option<Vec<u8>>> = LazyLock::new(|| encoding::gzip(TEXT.as_bytes()).ok());
    let described = [
        (header::CONTENT_TYPE, "application/json"),
        (header::VARY, "accept-encoding"),
    ];
    let accepted = encoding::accepts(&headers, "gzip");
    let mut response = match GZIP.as_deref().filter(|_| accepted) {
        Some(gzip) => {
            let encoded = [(header::CONTENT_ENCODING, "gzip")];
            (described, encoded, gzip).into_response()
        }
        None => (described, TEXT.as_str()).into_response(),
    };
    response.extensions_mut().insert(InProgram);
    response
}

/// Builds the router. Each call of `layer` boxes every route once more, and each request copies these boxes, so layers are passed in
/// tuples, whose first layer is the outermost. Tuples are short where the compiler infers the parameters of functions.
pub fn build(state: State, bounds: &Bounds) -> Router {
    let set_header = |name: &'static str, value: &'static str| {
        SetResponseHeaderLayer::if_not_present(
            HeaderName::from_static(name),
            HeaderValue::from_static(value),
        )
    };
    let intake = Intake::new(state.clone(), Pool::new(bounds.unsent), bounds.bodies);
    let upload_bytes = UploadBytes::new(bounds.bodies.upload_bytes, state.config.upload_bytes_max);
    // Browsers accept these headers only over HTTPS and log a warning otherwise.
    let is_https = state.is_https();
    let opener_policy = is_https.then(|| set_header("cross-origin-opener-policy", "same-origin"));
    let certificate = state.certificate.clone();
    let transport_security = is_https.then(|| {
        SetResponseHeaderLayer::if_not_present(
            header::STRICT_TRANSPORT_SECURITY,
            move |_: &Response| {
                let verifies = certificate.as_ref().is_none_or(|own| own.verifies());
                verifies.then_some(HeaderValue::from_static(TRANSPORT_SECURITY))
            },
        )
    });
    ALL.0
        .clone()
        .route("/openapi.json", get(serve_document))
        .merge(routes::server::probe::router())
        .merge(routes::hooks::receiver())
        .merge(routes::bot_responses::receiver())
        .merge(routes::slack::receiver())
        .merge(socket::bot::receiver())
        .merge(socket::runner::receiver())
        .merge(routes::code::receiver())
        .merge(routes::auth::receiver())
        .merge(routes::scim::receiver())
        .fallback(assets::serve)
        .method_not_allowed_fallback(async || ApiError::wrong_method())
        .layer((
            middleware::from_fn(refuse_nul),
            middleware::from_fn_with_state(state.db.engine(), requests::repeat_lost_read),
        ))
        .layer((
            DefaultBodyLimit::disable(),
            // Patches of runners are as large as bodies with pictures.
            axum::Extension(Pool::<crate::ids::RunnerId>::new(bounds.bodies.media_bytes)),
            axum::Extension(Pool::<crate::ids::IdentityProviderId>::new(
                bounds.bodies.scim_bytes,
            )),
            axum::Extension(Pool::<crate::ids::WorkspaceId>::new(
                bounds.bodies.hook_bytes,
            )),
            axum::Extension(upload_bytes),
            axum::Extension(bounds.bodies.upload_pace),
        ))
        .layer((
            middleware::from_fn_with_state(Arc::clone(&intake), intake::limit_concurrency),
            middleware::from_fn(encoding::compress),
        ))
        .layer((
            middleware::from_fn_with_state(state.clone(), origin::guard),
            middleware::from_fn_with_state(Arc::clone(&intake), intake::receive),
        ))
        .layer((
            middleware::from_fn_with_state(intake, intake::reserve),
            middleware::from_fn_with_state(state.clone(), count_address),
        ))
        .layer((
            middleware::from_fn(error::to_openai_errors),
            CatchPanicLayer::custom(|_: Box<dyn std::any::Any + Send>| {
                ApiError::panicked().into_response()
            }),
        ))
        .layer((
            set_header("cache-control", "no-store"),
            option_layer(transport_security),
            option_layer(opener_policy),
            // Pages set their own policy. This policy makes API responses inert if a browser is tricked into showing
            // them.
            set_header("content-security-policy", API_CSP),
            set_header("referrer-policy", "same-origin"),
            set_header("x-content-type-options", "nosniff"),
        ))
        .layer((
            middleware::from_fn(requests::accompany),
            middleware::from_fn_with_state(state.clone(), origin::share_with_sites),
        ))
        .with_state(state)
}

/// Applies the rate limit per client address before any other work.
async fn count_address(
    axum::extract::State(state): axum::extract::State<State>,
    Address(address): Address,
    request: Request,
    next: Next,
) -> Response {
    let path = request.uri().path();
    let is_anonymous = is_api(path)
        && !is_for_runner(path)
        && (is_for_anonymous(path) || token_of(request.headers()).is_none());
    let counted = state.limits.request(address).and_then(|()| {
        if is_anonymous {
            state.limits.anonymous(address)
        } else {
            Ok(())
        }
    });
    match counted {
        Ok(()) => next.run(request).await,
        Err(e) => ApiError::from(e).into_response(),
    }
}

/// Rejects URLs with a NUL character, which `PostgreSQL` cannot store.
async fn refuse_nul(request: Request, next: Next) -> Response {
    if request.uri().to_string().contains("%00") {
        return ApiError::invalid(
            ErrorCode::InvalidAddress,
            "the URL contains a NUL character: remove it".to_owned(),
            "",
        )
        .into_response();
    }
    next.run(request).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::workspaces::parse_slug;

    /// Paths of the committed document. A test of the API keeps it equal to the code; here, the document of the code would bring
    /// every handler into the program of these tests, which doubles the time to compile it.
    fn paths() -> serde_json::Map<String, serde_json::Value> {
        let api = include_str!("../openapi.json");
        let mut api: serde_json::Value = serde_json::from_str(api).unwrap();
        serde_json::from_value(api["paths"].take()).unwrap()
    }

    #[test]
    fn every_path_without_a_session_is_rate_limited_for_anonymous_clients() {
        let mut seen = 0;
        for (path, operations) in paths() {
            for (method, operation) in operations.as_object().unwrap() {
                let is_open = operation["security"] == serde_json::json!([{}]);
                if is_open && path.starts_with("/v1/") {
                    seen += 1;
                    assert!(is_for_anonymous(&path), "{method} {path}");
                }
            }
        }
        assert!(seen >= 4, "{seen}");
    }

    #[test]
    fn no_workspace_can_have_the_path_of_a_route() {
        for path in paths().keys() {
            let first = path.split('/').nth(1).unwrap();
            assert!(parse_slug(first).is_err(), "{path}");
        }
    }
}
