//! Maps errors to HTTP statuses and bodies `{"error":{type,code,message,param?}}`. Each feature converts its own errors in its
//! `error.rs`.

pub use super::error_code::ErrorCode;
pub use axum::http::StatusCode;
use axum::{
    Json,
    extract::Request,
    http::{HeaderValue, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};

use crate::{
    db::{DatabaseFault, DbError},
    disk::LowDiskSpace,
    share::Exhausted,
    text_enum::text_enum,
};

/// `Retry-After` in seconds of refusals with status 429 that do not know how long to wait.
const REFUSED_FOR_S: u64 = 5;
/// `Retry-After` in seconds while the server is unavailable.
const UNAVAILABLE_FOR_S: u64 = 2;
/// `Retry-After` in seconds while the disk has little free space.
const DISK_AFTER_S: u64 = 60;

text_enum! {
    /// Class of an error.
    pub enum ErrorKind {
        InvalidRequest = "invalid_request",
        Unauthenticated = "unauthenticated",
        PermissionDenied = "permission_denied",
        NotFound = "not_found",
        Conflict = "conflict",
        PayloadTooLarge = "payload_too_large",
        UnprocessableEntity = "unprocessable_entity",
        PreconditionRequired = "precondition_required",
        RateLimited = "rate_limited",
        Internal = "internal",
        Unavailable = "unavailable",
    }
}

text_enum! {
    /// Class of an error in `OpenAI`'s API.
    pub enum OpenAiErrorKind {
        InvalidRequest = "invalid_request_error",
        Authentication = "authentication_error",
        Permission = "permission_error",
        NotFound = "not_found_error",
        Conflict = "conflict_error",
        RateLimit = "rate_limit_error",
        Server = "server_error",
    }
}

/// Error response.
#[derive(Debug, Clone)]
pub struct ApiError {
    status: StatusCode,
    kind: ErrorKind,
    code: ErrorCode,
    message: String,
    param: Option<String>,
    retry_after_s: Option<u64>,
    /// Current object; set for a stale `If-Match`.
    current: Option<Box<Value>>,
    /// Next step; set if a sign-in needs another one.
    next_step: Option<Box<NextStep>>,
    /// True if the cause has already been logged, or does not need to be.
    is_logged: bool,
    /// True if the request lost its database connection.
    has_lost_connection: bool,
}

/// Step that a sign-in still needs.
#[derive(Debug, Clone)]
struct NextStep {
    flow: String,
    methods: Vec<&'static str>,
}

/// Body of every error.
#[derive(serde::Serialize, utoipa::ToSchema)]
pub struct ErrorBody {
    pub error: ErrorDetail,
}

#[derive(serde::Serialize, utoipa::ToSchema)]
pub struct ErrorDetail {
    #[serde(rename = "type")]
    pub kind: ErrorKind,
    /// Specific cause, as a machine-readable code.
    pub code: ErrorCode,
    /// Cause and remedy, in human-readable form.
    pub message: String,
    /// Field, parameter, or header that caused the error.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub param: Option<String>,
    /// Seconds to wait before a retry, as in the header `Retry-After`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub retry_after_s: Option<u64>,
    /// Current object, sent with status 409 for a stale `If-Match`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, value_type = Option<Object>)]
    pub current: Option<Value>,
    /// Secret of the sign-in, sent with status 401 `second_factor_required`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub flow: Option<String>,
    /// Ways to complete the sign-in, sent with status 401 `second_factor_required`: `code`, `passkey`, and `recovery_code`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub methods: Option<Vec<String>>,
}

impl ApiError {
    pub fn new(status: StatusCode, code: ErrorCode, message: String) -> Self {
        let kind = match status {
            StatusCode::BAD_REQUEST
            | StatusCode::METHOD_NOT_ALLOWED
            | StatusCode::RANGE_NOT_SATISFIABLE => ErrorKind::InvalidRequest,
            StatusCode::UNAUTHORIZED => ErrorKind::Unauthenticated,
            StatusCode::FORBIDDEN => ErrorKind::PermissionDenied,
            StatusCode::NOT_FOUND => ErrorKind::NotFound,
            StatusCode::CONFLICT => ErrorKind::Conflict,
            StatusCode::PAYLOAD_TOO_LARGE => ErrorKind::PayloadTooLarge,
            StatusCode::UNPROCESSABLE_ENTITY => ErrorKind::UnprocessableEntity,
            StatusCode::PRECONDITION_REQUIRED => ErrorKind::PreconditionRequired,
            StatusCode::TOO_MANY_REQUESTS => ErrorKind::RateLimited,
            StatusCode::SERVICE_UNAVAILABLE => ErrorKind::Unavailable,
            _ => ErrorKind::Internal,
        };
        Self {
            status,
            kind,
            code,
            message,
            param: None,
            retry_after_s: (status == StatusCode::TOO_MANY_REQUESTS).then_some(REFUSED_FOR_S),
            current: None,
            next_step: None,
            is_logged: false,
            has_lost_connection: false,
        }
    }

    /// Marks the cause as logged, or as not worth a log line.
    #[must_use]
    pub fn logged(mut self) -> Self {
        self.is_logged = true;
        self
    }

    /// Adds the current object, for a stale `If-Match`.
    #[must_use]
    pub fn with_current(mut self, current: &impl serde::Serialize) -> Self {
        self.current = serde_json::to_value(current).ok().map(Box::new);
        self
    }

    /// Adds the step that a sign-in still needs.
    #[must_use]
    pub fn with_next_step(mut self, flow: String, methods: Vec<&'static str>) -> Self {
        self.next_step = Some(Box::new(NextStep { flow, methods }));
        self
    }

    /// Checks whether the cause has already been logged, or does not need to be.
    pub fn is_logged(&self) -> bool {
        self.is_logged
    }

    /// Checks whether the request lost its database connection.
    pub(super) fn has_lost_connection(&self) -> bool {
        self.has_lost_connection
    }

    pub fn code(&self) -> ErrorCode {
        self.code
    }

    #[must_use]
    pub fn param(mut self, param: impl Into<String>) -> Self {
        self.param = Some(param.into()).filter(|p| !p.is_empty());
        self
    }

    /// Renames the field that caused the error.
    #[must_use]
    pub fn rename_param(self, rename: impl FnOnce(&str) -> String) -> Self {
        match self.param.as_deref().map(rename) {
            Some(param) => self.param(param),
            None => self,
        }
    }

    #[must_use]
    pub fn param_if_none(self, param: &'static str) -> Self {
        if self.param.is_none() {
            self.param(param)
        } else {
            self
        }
    }

    /// Creates an error with status 400.
    pub fn invalid(code: ErrorCode, message: String, param: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, message).param(param)
    }

    /// Creates an error with status 400 for a value of the wrong type, or 422 for an ID of another kind.
    pub fn malformed_field(text: String, path: &str) -> Self {
        let param = field_of(&text, path);
        if text.contains(crate::ids::OTHER_KIND) {
            Self::unprocessable(ErrorCode::WrongKindOfId, text).param(param)
        } else {
            Self::invalid(ErrorCode::InvalidField, text, param)
        }
    }

    /// Creates an error with status 422.
    pub fn unprocessable(code: ErrorCode, message: String) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, code, message)
    }

    pub fn not_found(code: ErrorCode, message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, code, message.into())
    }

    pub fn forbidden(code: ErrorCode, message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, code, message.into())
    }

    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            ErrorCode::Unavailable,
            message.into(),
        )
        .retry_after(UNAVAILABLE_FOR_S)
    }

    /// Creates an error with status 503: nothing was stored, because the disk is full.
    pub fn disk_full() -> Self {
        Self::unavailable(advice(DatabaseFault::DiskFull)).logged()
    }

    pub fn overloaded() -> Self {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            ErrorCode::Overloaded,
            "the server is overloaded: try again in a moment".to_owned(),
        )
        .retry_after(UNAVAILABLE_FOR_S)
        // Marked as logged, because a log line per request would add to the load.
        .logged()
    }

    /// Creates an error with status 400 for an unknown `Host`.
    pub fn unknown_host() -> Self {
        Self::invalid(
            ErrorCode::UnknownHost,
            "this server only accepts localhost, loopback addresses, and the host of OPENVIBE_PUBLIC_URL: use one of them, \
             or set OPENVIBE_PUBLIC_URL to the address that people use"
                .to_owned(),
            "Host",
        )
    }

    /// Creates an error with status 503: a memory pool is exhausted, or this person or address has used up its share of the pool.
    pub fn exhausted(exhausted: Exhausted, limit: &'static str) -> Self {
        let message = match exhausted {
            Exhausted::Total => Self::overloaded().message,
            Exhausted::Share => {
                "too many of your requests are in progress: read their responses, then try again"
                    .to_owned()
            }
        };
        Self::used_up(limit, message)
    }

    /// Creates an error with status 503: requests in progress use up a limited resource.
    pub fn used_up(limit: &'static str, message: String) -> Self {
        metrics::counter!("openvibe_rate_limited_total", "limit" => limit).increment(1);
        Self {
            message,
            ..Self::overloaded()
        }
    }

    #[must_use]
    pub fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after_s = Some(seconds);
        self
    }

    pub fn no_route() -> Self {
        Self::not_found(
            ErrorCode::RouteNotFound,
            "no route has this path: see /openapi.json",
        )
    }

    /// Error for a route of the `OpenAI` API without `/v1`.
    pub fn no_version() -> Self {
        Self::not_found(
            ErrorCode::RouteNotFound,
            "no route has this path: the base URL ends in /v1",
        )
    }

    pub fn wrong_method() -> Self {
        Self::new(
            StatusCode::METHOD_NOT_ALLOWED,
            ErrorCode::MethodNotAllowed,
            "this route does not support this method: see /openapi.json".to_owned(),
        )
    }

    pub fn body_too_large(bytes_max: usize) -> Self {
        let limit = if bytes_max.is_multiple_of(1 << 20) {
            format!("{} MiB", bytes_max >> 20)
        } else {
            format!("{} KiB", bytes_max >> 10)
        };
        Self::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            ErrorCode::BodyTooLarge,
            format!("the request body is larger than {limit}: send less"),
        )
    }

    /// Creates an error with status 400 for a body that arrives too slowly.
    pub fn body_too_slow() -> Self {
        Self::invalid(
            ErrorCode::BodyTooSlow,
            "the request body did not arrive in time: try again".to_owned(),
            "",
        )
    }

    pub fn range_not_satisfiable(size_bytes: u64) -> Self {
        Self::new(
            StatusCode::RANGE_NOT_SATISFIABLE,
            ErrorCode::RangeNotSatisfiable,
            format!("the file is {size_bytes} bytes: request a range within it"),
        )
    }

    pub fn cross_origin() -> Self {
        Self::forbidden(
            ErrorCode::CrossOrigin,
            "the request comes from another site: use this server's own pages, or an API key",
        )
    }

    pub fn internal() -> Self {
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            ErrorCode::Internal,
            "something went wrong on the server and was logged: try again".to_owned(),
        )
    }

    /// Creates an error with status 500 for a handler that panicked. The panic message was logged in the previous line, without the
    /// request ID.
    pub fn panicked() -> Self {
        tracing::error!("a request handler panicked");
        Self::internal().logged()
    }

    pub fn is_unauthenticated(&self) -> bool {
        self.status == StatusCode::UNAUTHORIZED
    }

    pub fn is_server_error(&self) -> bool {
        self.status.is_server_error()
    }

    pub fn is_bad_request(&self) -> bool {
        self.status == StatusCode::BAD_REQUEST
    }

    /// Value of `error` in the body.
    pub fn body(&self) -> Value {
        let mut error = json!({"type": self.kind, "code": self.code, "message": self.message});
        if let Some(param) = &self.param {
            error["param"] = param.as_str().into();
        }
        if let Some(seconds) = self.retry_after_s {
            error["retry_after_s"] = seconds.into();
        }
        if let Some(current) = &self.current {
            error["current"] = (**current).clone();
        }
        if let Some(step) = &self.next_step {
            error["flow"] = step.flow.as_str().into();
            error["methods"] = json!(step.methods);
        }
        error
    }
}

/// Error body of `/v1/responses`, `/v1/chat/completions`, and `/v1/models`, as in `OpenAI`'s API.
#[derive(serde::Serialize, utoipa::ToSchema)]
pub struct OpenAiErrorBody {
    pub error: OpenAiErrorDetail,
}

#[derive(serde::Serialize, utoipa::ToSchema)]
pub struct OpenAiErrorDetail {
    /// Cause and remedy, in human-readable form.
    pub message: String,
    #[serde(rename = "type")]
    pub kind: OpenAiErrorKind,
    /// Field that caused the error.
    pub param: Option<String>,
    /// Specific cause, as a machine-readable code.
    pub code: ErrorCode,
}

impl ApiError {
    /// The body of the error in the format of `OpenAI`'s API.
    pub fn openai_body(&self) -> OpenAiErrorBody {
        let kind = match self.status {
            StatusCode::UNAUTHORIZED => OpenAiErrorKind::Authentication,
            StatusCode::FORBIDDEN => OpenAiErrorKind::Permission,
            StatusCode::NOT_FOUND => OpenAiErrorKind::NotFound,
            StatusCode::CONFLICT => OpenAiErrorKind::Conflict,
            StatusCode::TOO_MANY_REQUESTS => OpenAiErrorKind::RateLimit,
            status if status.is_server_error() => OpenAiErrorKind::Server,
            _ => OpenAiErrorKind::InvalidRequest,
        };
        OpenAiErrorBody {
            error: OpenAiErrorDetail {
                message: self.message.clone(),
                kind,
                param: self.param.clone(),
                code: self.code,
            },
        }
    }

    /// Renders the error in the format of `OpenAI`'s API.
    fn into_openai(self) -> Response {
        let body = self.openai_body();
        self.with_body(&body)
    }

    fn with_body(self, body: &impl serde::Serialize) -> Response {
        let mut response = (self.status, Json(body)).into_response();
        if let Some(seconds) = self.retry_after_s {
            response
                .headers_mut()
                .insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            response
                .headers_mut()
                .insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response.extensions_mut().insert(self);
        response
    }
}

/// Checks whether the path belongs to the routes that are compatible with `OpenAI`'s API.
pub fn is_openai(path: &str) -> bool {
    ["/v1/responses", "/v1/chat/completions", "/v1/models"]
        .iter()
        .any(|begin| {
            path.strip_prefix(begin)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
}

/// Converts errors from any layer to the format of `OpenAI`'s API, on the routes that are compatible with
/// it.
pub async fn to_openai_errors(request: Request, next: Next) -> Response {
    let is_openai = is_openai(request.uri().path());
    let mut response = next.run(request).await;
    if is_openai && let Some(error) = response.extensions_mut().remove::<ApiError>() {
        return error.into_openai();
    }
    response
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let body = json!({"error": self.body()});
        self.with_body(&body)
    }
}

impl From<DbError> for ApiError {
    fn from(e: DbError) -> Self {
        match e {
            DbError::Closed => {
                Self::unavailable("the server is shutting down: try again in a moment").logged()
            }
            DbError::Busy | DbError::TooSlow => Self::overloaded(),
            e => {
                tracing::error!(error = %e, "a request failed");
                let refusal = e
                    .fault()
                    .map_or_else(Self::internal, |trouble| Self::unavailable(advice(trouble)));
                Self {
                    has_lost_connection: e.is_lost_connection(),
                    ..refusal.logged()
                }
            }
        }
    }
}

impl From<LowDiskSpace> for ApiError {
    fn from(e: LowDiskSpace) -> Self {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            ErrorCode::LowDiskSpace,
            e.to_string(),
        )
        .retry_after(DISK_AFTER_S)
        .logged()
    }
}

/// Returns the field that an error of `serde` is about; blank for the whole body. The error of a missing field has the path of the
/// object in which it is missing.
pub fn field_of(text: &str, path: &str) -> String {
    let path = if matches!(path, "." | "?") { "" } else { path };
    let missing = text.strip_prefix("missing field `");
    match missing.and_then(|rest| rest.split_once('`')) {
        Some((field, _)) if path.is_empty() => field.to_owned(),
        Some((field, _)) => format!("{path}.{field}"),
        None => path.to_owned(),
    }
}

/// Error message for a user whose request failed because of a database fault.
fn advice(trouble: DatabaseFault) -> &'static str {
    match trouble {
        DatabaseFault::DiskFull => {
            "the server's disk is full and nothing was stored; reading still works: try again when its operator has freed space"
        }
        DatabaseFault::DiskBroken => {
            "the server's disk failed and nothing was stored: its operator needs to check it"
        }
        DatabaseFault::ReadOnly => {
            "the server's database is read-only and nothing was stored: its operator needs to check it"
        }
        DatabaseFault::Damaged => {
            "the server's database is damaged: its operator needs to restore a backup"
        }
        DatabaseFault::Busy
        | DatabaseFault::Away
        | DatabaseFault::Newer(_)
        | DatabaseFault::Changed(_)
        | DatabaseFault::Outdated => "the database does not respond: try again in a moment",
        DatabaseFault::Unknown => {
            "the connection to the database was lost, so this may or may not be stored: send it again with the same client_id"
        }
    }
}

impl From<crate::ids::IdError> for ApiError {
    fn from(e: crate::ids::IdError) -> Self {
        Self::invalid(ErrorCode::InvalidId, e.to_string(), "")
    }
}

#[cfg(test)]
mod tests {
    use super::field_of;

    #[test]
    fn an_error_names_the_missing_field() {
        for (text, path, field) in [
            ("missing field `title` at line 1 column 2", ".", "title"),
            ("missing field `title`", "", "title"),
            ("missing field `url`", "config", "config.url"),
            ("unknown field `color`", "color", "color"),
            ("invalid type: sequence", ".", ""),
            ("invalid type: sequence", "?", ""),
        ] {
            assert_eq!(field_of(text, path), field, "{text}");
        }
    }
}
