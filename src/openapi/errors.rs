//! Errors that operations share, each defined once in `#/components/responses`, with their examples.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use utoipa::{
    ToSchema,
    openapi::{
        ContentBuilder, HeaderBuilder, ObjectBuilder, Ref, RefOr, Response, ResponseBuilder, Type,
        path::Operation,
    },
};

use super::is_public;
use crate::auth::{AuthError, Scope};
use crate::http::error::{ApiError, ErrorBody, ErrorCode, OpenAiErrorBody, StatusCode, is_openai};

/// Adds the errors that the operation shares with others.
pub(super) fn add(
    path: &str,
    operation: &mut Operation,
    changes: bool,
    shared: &mut BTreeMap<String, RefOr<Response>>,
) {
    let (is_public, has_body) = (is_public(operation), operation.request_body.is_some());
    let openai = is_openai(path);
    let in_api = path.starts_with("/v1") || path == "/mcp";
    for (status, what, is_possible) in [
        (
            "503",
            "The server is starting, stopping, overloaded, or without a database",
            true,
        ),
        (
            "400",
            "The request is malformed, or the workspace is missing",
            in_api,
        ),
        ("401", "Not signed in", in_api && !is_public),
        (
            "403",
            "The role or key does not allow it, or the request comes from another site",
            in_api,
        ),
        ("404", "It does not exist, or you cannot see it", in_api),
        (
            "409",
            "It conflicts with the current state",
            in_api && changes,
        ),
        ("422", "A value is invalid", in_api && changes),
        ("413", "The body is too large", in_api && has_body),
        ("429", "Too many requests: wait for Retry-After", in_api),
        ("500", "Internal error", in_api),
    ] {
        if is_possible {
            let name = format!("{}Error{status}", if openai { "OpenAi" } else { "" });
            shared
                .entry(name.clone())
                .or_insert_with(|| RefOr::T(response(status, what, openai)));
            let own = operation.responses.responses.entry(status.to_owned());
            own.or_insert_with(|| RefOr::Ref(Ref::from_response_name(name)));
        }
    }
}

fn response(status: &str, what: &str, openai: bool) -> Response {
    let schema = if openai {
        OpenAiErrorBody::name()
    } else {
        ErrorBody::name()
    };
    let content = ContentBuilder::new()
        .schema(Some(Ref::from_schema_name(schema)))
        .example(example(status, openai))
        .build();
    let response = ResponseBuilder::new()
        .description(what)
        .content("application/json", content);
    if status != "429" {
        return response.build();
    }
    let seconds = ObjectBuilder::new()
        .schema_type(Type::Integer)
        .minimum(Some(1));
    let seconds = HeaderBuilder::new()
        .schema(Some(seconds))
        .description(Some("Seconds to wait"));
    response.header("Retry-After", seconds.build()).build()
}

/// Example body of an error with this status.
pub(super) fn example(status: &str, openai: bool) -> Option<Value> {
    let error: ApiError = match status {
        "400" => AuthError::WorkspaceRequired.into(),
        "401" => AuthError::NotAuthenticated.into(),
        "403" => AuthError::ScopeMissing(Scope::ChatWrite).into(),
        "404" => AuthError::WorkspaceNotFound.into(),
        "409" => AuthError::SlugTaken("northwind".to_owned()).into(),
        "413" => ApiError::body_too_large(1 << 20),
        "416" => ApiError::range_not_satisfiable(48_213),
        "422" => {
            let rule = "a title must be one line of at most 200 characters";
            AuthError::Invalid(rule.to_owned(), "title").into()
        }
        "428" => ApiError::new(
            StatusCode::PRECONDITION_REQUIRED,
            ErrorCode::PreconditionRequired,
            "changing a draft requires an If-Match header: send the ETag from when you read it"
                .to_owned(),
        ),
        "429" => AuthError::RateLimited(3).into(),
        "500" => ApiError::internal(),
        "503" => ApiError::unavailable("the server is shutting down: try again in a moment"),
        _ => return None,
    };
    if openai {
        serde_json::to_value(error.openai_body()).ok()
    } else {
        Some(json!({"error": error.body()}))
    }
}
