//! JSON-RPC errors about the request as a whole. `rmcp` answers such requests with plain text, and with 415 if the body is not JSON.

use axum::{
    Json,
    body::to_bytes,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use rmcp::model::{ClientJsonRpcMessage, ErrorCode};
use serde_json::{Value, json};

const JSON: &str = "application/json";
/// Maximum size of an error of `rmcp`, which is a sentence.
const ERROR_BYTES_MAX: usize = 4096;

/// Creates a response with a JSON-RPC error. The ID is null if that of the request is unknown.
fn error(status: StatusCode, code: ErrorCode, message: &str, id: &Value) -> Response {
    let error = json!({"code": code.0, "message": message});
    let body = json!({"jsonrpc": "2.0", "id": id, "error": error});
    (status, Json(body)).into_response()
}

fn is_json(headers: &HeaderMap) -> bool {
    let value = headers.get(header::CONTENT_TYPE);
    let text = value.and_then(|value| value.to_str().ok());
    let essence = text.and_then(|text| text.split(';').next());
    essence.is_some_and(|essence| essence.trim().eq_ignore_ascii_case(JSON))
}

/// Checks that the body of a request is a JSON-RPC message of the protocol, and returns an error response if it is not. A body of another
/// content type is not read.
pub(super) fn check(headers: &HeaderMap, body: &[u8]) -> Option<Response> {
    if !is_json(headers) {
        return None;
    }
    let message: Value = match serde_json::from_slice(body) {
        Ok(message) => message,
        Err(e) => {
            let text = format!("Parse error: {e}");
            let status = StatusCode::BAD_REQUEST;
            return Some(error(status, ErrorCode::PARSE_ERROR, &text, &Value::Null));
        }
    };
    if serde_json::from_slice::<ClientJsonRpcMessage>(body).is_ok() {
        return None;
    }
    let id = message.get("id");
    let id = id.filter(|id| id.is_string() || id.is_i64()).cloned();
    let text = "Invalid request: the body is not a JSON-RPC message of the Model Context Protocol";
    Some(error(
        StatusCode::BAD_REQUEST,
        ErrorCode::INVALID_REQUEST,
        text,
        &id.unwrap_or_default(),
    ))
}

/// Replaces the plain text of an error response with a JSON-RPC error.
pub(super) async fn with_json_error(response: Response) -> Response {
    let status = response.status();
    if status.is_success() || is_json(response.headers()) {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let text = to_bytes(body, ERROR_BYTES_MAX).await.unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let (code, text) = if status.is_server_error() {
        (ErrorCode::INTERNAL_ERROR, "Internal error")
    } else {
        (ErrorCode::INVALID_REQUEST, text.as_ref())
    };
    let replaced = error(status, code, text, &Value::Null);
    parts.headers.remove(header::CONTENT_LENGTH);
    parts.headers.extend(replaced.headers().clone());
    Response::from_parts(parts, replaced.into_body())
}
