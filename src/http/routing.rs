//! Routes whose handlers have the same type.

use std::sync::Arc;

use axum::{
    extract::Request,
    handler::Handler,
    response::Response,
    routing::{MethodFilter, MethodRouter},
};
use futures::{FutureExt, future::BoxFuture};

/// Collects handlers of one path for `OpenApiRouter::routes`, as the macro of `utoipa_axum` does, but without their types: what axum does with
/// a handler is compiled once, and not for each of them, and the compiler proves only a few times that its future is `Send`. With their types,
/// that was a third of the time in which this crate is compiled.
macro_rules! routes {
    ($($handler:path),+ $(,)?) => {{
        let mut schemas = Vec::new();
        let mut paths = utoipa::openapi::path::Paths::new();
        let mut router = axum::routing::MethodRouter::new();
        $(
            let (path, operation, methods) = utoipa_axum::routes!(@resolve_types $handler : schemas);
            for method in &methods {
                let filter = utoipa_axum::PathItemExt::to_method_filter(method);
                router = $crate::http::routing::with_handler(router, filter, $handler);
            }
            paths.add_path_operation(&path, methods, operation);
        )+
        (schemas, paths, router)
    }};
}
pub(crate) use routes;

/// A handler without its type.
struct Erased<S>(Arc<dyn Fn(Request, S) -> BoxFuture<'static, Response> + Send + Sync>);

impl<S> Clone for Erased<S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<S: Send + Sync + 'static> Handler<(), S> for Erased<S> {
    type Future = BoxFuture<'static, Response>;

    fn call(self, request: Request, state: S) -> Self::Future {
        (self.0)(request, state)
    }
}

/// Adds a handler for these methods.
pub fn with_handler<H, T, S>(
    router: MethodRouter<S>,
    methods: MethodFilter,
    handler: H,
) -> MethodRouter<S>
where
    H: Handler<T, S> + Sync,
    S: Clone + Send + Sync + 'static,
{
    let call = move |request, state| handler.clone().call(request, state).boxed();
    router.on(methods, Erased(Arc::new(call)))
}
