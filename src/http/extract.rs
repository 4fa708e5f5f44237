//! Extractors whose rejections are `ApiError`s.

use std::collections::HashSet;

use axum::{
    body::Bytes,
    extract::{FromRequest, FromRequestParts, Request},
    http::{header, request::Parts},
};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::error::{ApiError, ErrorCode, field_of};

/// The bytes of a body.
pub struct RawBody(pub Bytes);

impl<S: Send + Sync> FromRequest<S> for RawBody {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let bytes = Bytes::from_request(request, state).await;
        bytes.map(Self).map_err(|e| {
            if e.status() == axum::http::StatusCode::PAYLOAD_TOO_LARGE {
                ApiError::body_too_large(super::bodies::MEMBER_BYTES_MAX)
            } else {
                ApiError::invalid(
                    ErrorCode::InvalidBody,
                    "could not read the request body".to_owned(),
                    "",
                )
            }
        })
    }
}

/// A JSON body; an empty body counts as `{}`.
pub struct Body<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let RawBody(bytes) = RawBody::from_request(request, state).await?;
        let text: &[u8] = if bytes.iter().all(u8::is_ascii_whitespace) {
            b"{}"
        } else {
            &bytes
        };
        parse_json(text).map(Self)
    }
}

/// The body of an action without fields: `{}` or empty.
pub type NoFields = Body<Empty>;

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Empty {}

/// Parses a JSON body.
///
/// # Errors
/// 400 for invalid JSON or a different structure, 422 for an ID of another kind.
pub fn parse_json<T: DeserializeOwned>(text: &[u8]) -> Result<T, ApiError> {
    if holds_nul(text) {
        return Err(ApiError::invalid(
            ErrorCode::InvalidField,
            "the text contains a NUL character: remove it".to_owned(),
            "",
        ));
    }
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let value = serde_path_to_error::deserialize(&mut deserializer).map_err(|e| {
        let path = e.path().to_string();
        let inner = e.into_inner();
        let message = inner.to_string();
        // serde_json also reports a syntax error for a number in place of an enum's name.
        if inner.is_data() || serde_json::from_slice::<Value>(text).is_ok() {
            ApiError::malformed_field(message, &path)
        } else {
            ApiError::invalid(
                ErrorCode::InvalidJson,
                format!("the body is not JSON: {message}"),
                field_of(&message, &path),
            )
        }
    })?;
    deserializer.end().map_err(|e| {
        ApiError::invalid(
            ErrorCode::InvalidJson,
            format!("the body is not JSON: {e}"),
            "",
        )
    })?;
    // Arrays are rejected, because serde would read their elements as the fields of a struct.
    if text.trim_ascii_start().first() == Some(&b'[') {
        return Err(ApiError::malformed_field(
            "the body is an array: send an object".to_owned(),
            "",
        ));
    }
    Ok(value)
}

/// Checks whether a string in the JSON contains a NUL character, which `PostgreSQL` cannot store.
fn holds_nul(json: &[u8]) -> bool {
    fn inside(value: &serde_json::Value) -> bool {
        match value {
            serde_json::Value::String(text) => text.contains('\0'),
            serde_json::Value::Array(list) => list.iter().any(inside),
            serde_json::Value::Object(map) => map
                .iter()
                .any(|(key, value)| key.contains('\0') || inside(value)),
            _ => false,
        }
    }
    // Only an escape can produce a NUL character, because JSON does not allow a raw one.
    memchr::memmem::find(json, b"\\u0000").is_some()
        && serde_json::from_slice(json).is_ok_and(|value| inside(&value))
}

/// Path parameters.
pub struct Path<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Path<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        axum::extract::Path::<T>::from_request_parts(parts, state)
            .await
            .map(|path| Self(path.0))
            .map_err(|e| ApiError::invalid(ErrorCode::InvalidId, e.body_text(), "path"))
    }
}

/// Query parameters.
pub struct Query<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let query = parts.uri.query().unwrap_or_default();
        // serde detects repeated parameters only in structs without flattened fields.
        let mut seen = HashSet::new();
        let mut given = form_urlencoded::Serializer::new(String::new());
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            if !value.is_empty() || !counts_as_absent(&name) {
                given.append_pair(&name, &value);
            }
            if !seen.insert(name.clone()) {
                return Err(ApiError::invalid(
                    ErrorCode::InvalidQuery,
                    format!("the parameter `{name}` is repeated: send it once"),
                    name,
                ));
            }
        }
        let given = given.finish();
        let values = serde_urlencoded::Deserializer::new(form_urlencoded::parse(given.as_bytes()));
        serde_path_to_error::deserialize(values)
            .map(Self)
            .map_err(|e| invalid_parameter(&e.path().to_string(), e.inner()))
    }
}

/// Error code for an invalid value of a query parameter.
fn code_of_parameter(name: &str) -> ErrorCode {
    match name {
        "limit" => ErrorCode::InvalidLimit,
        "order" => ErrorCode::InvalidOrder,
        "status" => ErrorCode::InvalidStatus,
        "cursor" => ErrorCode::InvalidCursor,
        "from" | "to" => ErrorCode::InvalidMonth,
        "after" | "before" | "around" => ErrorCode::InvalidId,
        name if name.ends_with("_id") => ErrorCode::InvalidId,
        _ => ErrorCode::InvalidQuery,
    }
}

/// Checks whether this parameter counts as absent if its value is empty. Limits and IDs need a value.
fn counts_as_absent(name: &str) -> bool {
    !matches!(
        code_of_parameter(name),
        ErrorCode::InvalidLimit | ErrorCode::InvalidId
    )
}

/// Creates an error with status 400 for a query parameter that is unknown (`name` is `?` or `.`) or cannot be parsed.
fn invalid_parameter(name: &str, cause: &serde_urlencoded::de::Error) -> ApiError {
    let is_unknown = name.chars().all(|c| matches!(c, '?' | '.'));
    let (code, param) = if is_unknown {
        (ErrorCode::InvalidQuery, "query")
    } else {
        (code_of_parameter(name), name)
    };
    let message = match code {
        ErrorCode::InvalidQuery | ErrorCode::InvalidOrder | ErrorCode::InvalidStatus
            if !is_unknown =>
        {
            format!("{name}: {cause}")
        }
        _ => cause.to_string(),
    };
    ApiError::invalid(code, message, param)
}

/// The version in `If-Match`: `"N"` or `N`.
pub struct IfMatch(pub Option<i64>);

impl utoipa::PartialSchema for IfMatch {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        utoipa::openapi::schema::ObjectBuilder::new()
            .schema_type(utoipa::openapi::schema::Type::String)
            .description(Some(
                "The version that you have read, from its `ETag`; a stale version gets 409",
            ))
            .examples(["\"3\""])
            .into()
    }
}

impl utoipa::ToSchema for IfMatch {}

impl<S: Send + Sync> FromRequestParts<S> for IfMatch {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let Some(value) = parts.headers.get(header::IF_MATCH) else {
            return Ok(Self(None));
        };
        let text = value.to_str().unwrap_or_default().trim();
        let number = text
            .strip_prefix('"')
            .and_then(|t| t.strip_suffix('"'))
            .unwrap_or(text);
        match number.parse::<i64>() {
            Ok(n) if n >= 0 => Ok(Self(Some(n))),
            _ => Err(ApiError::invalid(
                ErrorCode::InvalidIfMatch,
                format!("If-Match must be a version such as \"3\", not `{text}`"),
                "If-Match",
            )),
        }
    }
}
