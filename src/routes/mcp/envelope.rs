//! JSON-RPC errors about the request as a whole. `rmcp` answers such requests with plain text, and with 415 if the body is not JSON.

use axum::{
    Json,
    body::to_bytes,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, ErrorCode, JsonRpcRequest, ProtocolVersion,
};
use serde_json::{Value, json};

use crate::http::ApiError;

const JSON: &str = "application/json";
/// Maximum size of an error of `rmcp`, which is a sentence.
const ERROR_BYTES_MAX: usize = 4096;
/// Maximum number of messages in a batch.
const BATCH_MAX: usize = 20;
/// Value of `Accept` that `rmcp` requires.
const ACCEPTED: &str = "application/json, text/event-stream";
const PROTOCOL_VERSION: &str = "mcp-protocol-version";
/// Methods with parameters that all revisions have. `initialize` is no method of the newest one.
const METHODS: [&str; 2] = ["tools/list", "tools/call"];

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

/// Body of a request.
pub(super) enum Envelope {
    /// A body of another content type, which is not read.
    Other,
    Message(Value),
    /// Messages that are sent together, as revision 2025-03-26 allows.
    Batch(Vec<Value>),
    /// Error response to a body that is neither.
    Invalid(Response),
}

/// Parses the body of a request.
pub(super) fn parse(headers: &HeaderMap, body: &[u8]) -> Envelope {
    if !is_json(headers) {
        return Envelope::Other;
    }
    match serde_json::from_slice(body) {
        Ok(Value::Array(batch)) if (1..=BATCH_MAX).contains(&batch.len()) => Envelope::Batch(batch),
        Ok(Value::Array(_)) => {
            let text = format!("Invalid request: a batch can have 1 to {BATCH_MAX} messages");
            Envelope::Invalid(invalid_request(&text, &Value::Null))
        }
        Ok(message) => Envelope::Message(message),
        Err(e) => {
            let text = format!("Parse error: {e}");
            let status = StatusCode::BAD_REQUEST;
            Envelope::Invalid(error(status, ErrorCode::PARSE_ERROR, &text, &Value::Null))
        }
    }
}

fn invalid_request(text: &str, id: &Value) -> Response {
    error(
        StatusCode::BAD_REQUEST,
        ErrorCode::INVALID_REQUEST,
        text,
        id,
    )
}

/// Checks that a value is a JSON-RPC message of the protocol, and returns an error response if it is not.
pub(super) fn check(message: &Value) -> Option<Response> {
    let parsed = serde_json::from_str::<ClientJsonRpcMessage>(&message.to_string());
    let id = message.get("id");
    let id = id.filter(|id| id.is_string() || id.is_i64()).cloned();
    let id = id.unwrap_or_default();
    match parsed {
        // `rmcp` takes a known method with invalid parameters for an unknown method.
        Ok(ClientJsonRpcMessage::Request(JsonRpcRequest {
            request: ClientRequest::CustomRequest(request),
            ..
        })) if METHODS.contains(&request.method.as_str()) => {
            let text = format!("Invalid params: check the parameters of {}", request.method);
            Some(error(StatusCode::OK, ErrorCode::INVALID_PARAMS, &text, &id))
        }
        Ok(_) => None,
        Err(_) => {
            let text =
                "Invalid request: the body is not a JSON-RPC message of the Model Context Protocol";
            Some(invalid_request(text, &id))
        }
    }
}

/// Changes headers so that `rmcp` accepts them. Responses are JSON for every `Accept`, and `initialize` chooses the revision, whatever
/// its headers contain.
pub(super) fn accept_any(headers: &mut HeaderMap, message: &Value) {
    headers.insert(header::ACCEPT, HeaderValue::from_static(ACCEPTED));
    // Since 2026-07-28, the method does not exist.
    let is_old = (headers.get(PROTOCOL_VERSION))
        .is_none_or(|version| version != ProtocolVersion::V_2026_07_28.as_str());
    if is_old && message["method"] == "initialize" {
        headers.remove(PROTOCOL_VERSION);
    }
}

/// Returns the response to a batch: the messages of these responses, or 202 if there are none.
///
/// # Errors
/// An internal error if a response cannot be read.
pub(super) async fn batch_response(
    responses: impl IntoIterator<Item = Response>,
) -> Result<Response, ApiError> {
    let mut messages = Vec::new();
    for response in responses {
        if response.status() == StatusCode::ACCEPTED {
            continue;
        }
        let body = to_bytes(response.into_body(), usize::MAX).await;
        let body = body.map_err(|_| ApiError::internal())?;
        messages.push(serde_json::from_slice::<Value>(&body).map_err(|_| ApiError::internal())?);
    }
    Ok(if messages.is_empty() {
        StatusCode::ACCEPTED.into_response()
    } else {
        Json(messages).into_response()
    })
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
