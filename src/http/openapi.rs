//! The API as a document, made from the handlers themselves.

use utoipa::openapi::{
    ContentBuilder, InfoBuilder, OpenApi, OpenApiBuilder, Ref, RefOr, Response, ResponseBuilder,
    path::Operation,
    security::{
        ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme,
    },
};

use super::{
    State,
    error::{ErrorBody, ErrorDetail, OpenAiErrorBody, OpenAiErrorDetail, is_openai},
};

/// The whole document.
pub fn document() -> OpenApi {
    let (_, api) = super::router::routes().split_for_parts();
    finish(api)
}

pub(super) fn empty() -> OpenApi {
    let description = "Team chat in which AI agents are teammates. Errors are `{\"error\":{type,code,message,param?}}`; lists are \
                       `{\"object\":\"list\",data,has_more,first_id,last_id}`. Routes of a collection act in the workspace of the key, of the \
                       header `X-Workspace-Id`, or the only one that one is in.";
    OpenApiBuilder::new()
        .info(
            InfoBuilder::new()
                .title("OpenVibe")
                .version(env!("CARGO_PKG_VERSION"))
                .description(Some(description))
                .build(),
        )
        .build()
}

/// Adds what all routes share: how to sign in, and the errors that each can answer.
pub(super) fn finish(mut api: OpenApi) -> OpenApi {
    let mut components = api.components.take().unwrap_or_default();
    components.add_security_scheme(
        "session",
        SecurityScheme::ApiKey(ApiKey::Cookie(ApiKeyValue::with_description(
            crate::auth::SESSION_COOKIE,
            "A browser session; requests that change something need an Origin of our own",
        ))),
    );
    components.add_security_scheme(
        "key",
        SecurityScheme::Http(
            HttpBuilder::new()
                .scheme(HttpAuthScheme::Bearer)
                .description(Some("An API key, `ov_…`"))
                .build(),
        ),
    );
    for (name, schema) in [
        ("ErrorBody", <ErrorBody as utoipa::PartialSchema>::schema()),
        (
            "ErrorDetail",
            <ErrorDetail as utoipa::PartialSchema>::schema(),
        ),
        (
            "OpenAiErrorBody",
            <OpenAiErrorBody as utoipa::PartialSchema>::schema(),
        ),
        (
            "OpenAiErrorDetail",
            <OpenAiErrorDetail as utoipa::PartialSchema>::schema(),
        ),
    ] {
        components.schemas.insert(name.to_owned(), schema);
    }
    api.components = Some(components);
    api.security = Some(vec![
        SecurityRequirement::new::<_, [&str; 0], &str>("session", []),
        SecurityRequirement::new::<_, [&str; 0], &str>("key", []),
    ]);
    // A parameter that takes several parts of a path is written `{*name}` by the router only.
    let paths = std::mem::take(&mut api.paths.paths);
    api.paths.paths = paths
        .into_iter()
        .map(|(path, item)| (path.replace("{*", "{"), item))
        .collect();
    for (path, item) in &mut api.paths.paths {
        let operations = [
            (&mut item.get, false),
            (&mut item.put, true),
            (&mut item.post, true),
            (&mut item.patch, true),
            (&mut item.delete, true),
        ];
        for (operation, changes) in operations {
            if let Some(operation) = operation {
                describe(operation);
                add_errors(path, operation, changes);
            }
        }
    }
    api
}

/// Every answer has a description, as the specification asks.
fn describe(operation: &mut Operation) {
    for (status, response) in &mut operation.responses.responses {
        if let RefOr::T(response) = response
            && response.description.is_empty()
        {
            let text = match status.as_str() {
                "201" => "Made",
                "204" => "Done",
                _ => "The answer",
            };
            text.clone_into(&mut response.description);
        }
    }
}

fn add_errors(path: &str, operation: &mut Operation, changes: bool) {
    let is_public = operation
        .security
        .as_ref()
        .is_some_and(|list| !list.is_empty());
    let has_body = operation.request_body.is_some();
    let schema = if is_openai(path) {
        "OpenAiErrorBody"
    } else {
        "ErrorBody"
    };
    let mut add = |status: &str, what: &str| {
        operation
            .responses
            .responses
            .entry(status.to_owned())
            .or_insert_with(|| RefOr::T(error_response(what, schema)));
    };
    if path.starts_with("/v1") {
        add("400", "The request is malformed, or no workspace is named");
        if !is_public {
            add("401", "Not signed in");
        }
        add(
            "403",
            "Role or key do not allow it, or the request comes from another site",
        );
        add("404", "It does not exist, or one may not see it");
        if changes {
            add("409", "It conflicts with what is there");
            add("422", "A value breaks a rule");
        }
        if has_body {
            add("413", "The body is too large");
        }
        add("429", "Too many requests: wait as Retry-After says");
        add("500", "Something went wrong here");
    } else if path == "/metrics" {
        add("401", "Without the token, where one is set");
        add("403", "Not from this machine");
    }
    add("503", "The server starts, stops, or has no database");
}

fn error_response(what: &str, schema: &str) -> Response {
    ResponseBuilder::new()
        .description(what)
        .content(
            "application/json",
            ContentBuilder::new()
                .schema(Some(RefOr::<utoipa::openapi::Schema>::Ref(
                    Ref::from_schema_name(schema),
                )))
                .build(),
        )
        .build()
}

/// `GET /openapi.json`
pub async fn serve(_: axum::extract::State<State>) -> axum::response::Response {
    use axum::response::IntoResponse;
    static TEXT: std::sync::LazyLock<String> =
        std::sync::LazyLock::new(|| document().to_json().unwrap_or_else(|_| "{}".to_owned()));
    (
        [(axum::http::header::CONTENT_TYPE, "application/json")],
        TEXT.as_str(),
    )
        .into_response()
}
