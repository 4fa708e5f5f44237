//! Guarded HTTP transport: connects only to permitted addresses, follows only redirects that add or remove a slash at the end of the
//! path, and limits sizes, including that of plain JSON.
//!
//! It records the reason why a request failed, because `rmcp` wraps errors in ways that differ by the state of the
//! connection.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::{
    StreamExt, future,
    stream::{self, BoxStream},
};
use reqwest::{
    Response, StatusCode, Url,
    header::{
        ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION,
        WWW_AUTHENTICATE,
    },
};
use rmcp::{
    model::{ClientJsonRpcMessage, GetExtensions, ServerJsonRpcMessage, ServerResult},
    transport::streamable_http_client::{
        SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
    },
};
use serde_json::{Value, json};
use sse_stream::{Sse, SseStream};

use super::{
    limits::{Excess, MESSAGE_BYTES_MAX, MESSAGES_MAX, PINGS_MAX, STREAM_BYTES_MAX},
    output::redacted,
    received,
    server::{HttpAuth, ServerFault},
};
use crate::{
    outbound::{Denied, Gate},
    trust,
};

const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// Time limits of a request, and of the wait for more of its response. They are longer than those of a call, and end requests whose
/// caller no longer waits.
const REQUEST_WITHIN: Duration = Duration::from_secs(605);
const READ_WITHIN: Duration = Duration::from_secs(65);
/// Maximum length of a server's text in an error message.
const TEXT_CHARS_MAX: usize = 300;
/// Description of a connection that ended too early.
pub(super) const LOST: &str = "the connection was lost";
const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";
/// Requests that start a connection.
const STARTS: [&str; 2] = ["server/discover", "initialize"];
/// Request that calls a function.
const CALL: &str = "tools/call";

/// Reason why a request failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RequestFailure {
    /// The server requires a credential, and there is none.
    KeyMissing,
    /// The server rejected the credential.
    AuthFailed(String),
    /// The server wants people to sign in with OAuth.
    OAuthOnly,
    /// The server does not allow the request.
    Refused(String),
    /// The response exceeds a limit.
    TooMuchData(Excess),
    /// The address is not permitted.
    NotAllowed(String),
    /// The request was not sent.
    NotSent(String),
    /// The request was sent or may have been sent.
    Unreachable(String),
}

impl RequestFailure {
    /// Checks whether the server may have carried out the request.
    pub(super) fn was_sent(&self) -> bool {
        matches!(self, Self::Unreachable(_) | Self::TooMuchData(_))
    }

    pub(super) fn into_fault(self, title: String) -> ServerFault {
        match self {
            Self::KeyMissing => ServerFault::KeyMissing(title),
            Self::AuthFailed(text) => ServerFault::AuthFailed(title, text),
            Self::OAuthOnly => ServerFault::OAuthOnly(title),
            Self::Refused(text) => ServerFault::Refused(title, text),
            Self::TooMuchData(excess) => ServerFault::TooMuchData(title, excess),
            Self::NotAllowed(why) => ServerFault::NotAllowed(title, why),
            Self::NotSent(why) | Self::Unreachable(why) => ServerFault::Unreachable(title, why),
        }
    }
}

/// Failures of one request, which carries this value in its extensions, or of everything else on a connection. Concurrent requests do
/// not share this value, because the failure of a request that was not sent must not be reported for one that was.
#[derive(Debug, Clone, Default)]
pub(super) struct Causes {
    latest: Arc<Mutex<Option<RequestFailure>>>,
    /// True if the server has sent a request other than a ping.
    asked: Arc<AtomicBool>,
}

impl Causes {
    fn note(&self, cause: RequestFailure) {
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = Some(cause);
    }

    pub(super) fn note_asked(&self) {
        self.asked.store(true, Ordering::Relaxed);
    }

    /// Removes and returns the latest cause of a failure.
    pub(super) fn take(&self) -> Option<RequestFailure> {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        latest.take()
    }

    pub(super) fn take_asked(&self) -> bool {
        self.asked.swap(false, Ordering::Relaxed)
    }
}

#[derive(Debug, thiserror::Error)]
pub(super) enum HttpFault {
    #[error("the request failed")]
    Request,
    #[error("the credential was rejected")]
    Auth,
    #[error("the address is not permitted")]
    Denied,
    #[error("HTTP {0}")]
    Status(u16),
    #[error(transparent)]
    TooMuchData(Excess),
    #[error("the response is not a JSON-RPC message")]
    NotJsonRpc,
}

type Fault = StreamableHttpError<HttpFault>;

/// Client for one server.
#[derive(Clone)]
pub(super) struct Guarded {
    http: reqwest::Client,
    gate: Gate,
    causes: Causes,
    secret: Option<String>,
}

impl Guarded {
    /// Creates a client for one server.
    ///
    /// # Errors
    /// A description of the problem, without the credential.
    pub(super) fn new(gate: Gate, auth: &HttpAuth, causes: Causes) -> Result<Self, String> {
        let mut headers = HeaderMap::new();
        let credential = match auth {
            HttpAuth::None => None,
            HttpAuth::Bearer(secret) => Some((AUTHORIZATION, format!("Bearer {secret}"))),
            HttpAuth::Header(name, secret) => Some((name.clone(), secret.clone())),
        };
        if let Some((name, value)) = credential {
            let value = HeaderValue::try_from(value);
            let mut value = value.map_err(|_| "the secret is not a valid header value")?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        let http = gate
            .clone()
            .client_builder()
            .default_headers(headers)
            .connect_timeout(CONNECT_WITHIN)
            .timeout(REQUEST_WITHIN)
            .read_timeout(READ_WITHIN)
            // Retrying a request on another connection could repeat a call.
            .retry(reqwest::retry::never())
            .pool_max_idle_per_host(0)
            .build();
        let http = http.map_err(|e| {
            tracing::error!(error = %e, "a client for a tool server could not be created");
            "the client could not be created"
        })?;
        Ok(Self {
            http,
            gate,
            causes,
            secret: auth.secret().map(str::to_owned),
        })
    }

    /// A copy of this client that records failures for the request in `message`.
    fn noting(&self, message: &ClientJsonRpcMessage) -> Self {
        let causes = causes_of(message).unwrap_or(&self.causes).clone();
        Self {
            causes,
            ..self.clone()
        }
    }

    /// The JSON-RPC error in a failed response. A server that does not know `server/discover` may respond without one; an error is
    /// then created on its behalf.
    async fn error_of(
        &self,
        response: Response,
        has_session: bool,
        request: Option<&(String, Value)>,
    ) -> Result<ServerJsonRpcMessage, Fault> {
        let status = response.status();
        let target = redirect_of(&response);
        let body = &self.body(response).await?;
        if has_session && ends_session(status, body) {
            let cause = RequestFailure::NotSent("it ended the session".to_owned());
            self.causes.note(cause);
            return Err(StreamableHttpError::SessionExpired);
        }
        if let Some(error) = error_in(body, request.map(|(_, id)| id)) {
            return Ok(error);
        }
        if let Some((method, id)) = request
            && method == STARTS[0]
            && status.is_client_error()
            && status != StatusCode::TOO_MANY_REQUESTS
            && let Some(error) = unknown_method(id)
        {
            return Ok(error);
        }
        let code = status.as_u16();
        if status.is_redirection() {
            let text = match target {
                Some(target) => format!(
                    "it redirects to {}: enter that address instead",
                    self.shown(target.as_str())
                ),
                None => "it redirects to another address: enter that address instead".to_owned(),
            };
            return Err(self.unreachable(text, HttpFault::Status(code)));
        }
        if status == StatusCode::FORBIDDEN {
            let text =
                text_in(body).map_or_else(|| format!("HTTP {code}"), |text| self.shown(&text));
            return Err(self.fail(RequestFailure::Refused(text), HttpFault::Status(code)));
        }
        Err(self.unreachable(
            format!("it responded with HTTP {code}"),
            HttpFault::Status(code),
        ))
    }

    /// Returns a server's text for an error message: one line without the credential.
    fn shown(&self, text: &str) -> String {
        let text = redacted(text, self.secret.as_deref());
        let words: Vec<&str> = text.split_whitespace().collect();
        words.join(" ").chars().take(TEXT_CHARS_MAX).collect()
    }

    fn fail(&self, cause: RequestFailure, fault: HttpFault) -> Fault {
        self.causes.note(cause);
        StreamableHttpError::Client(fault)
    }

    fn too_much(&self, excess: Excess) -> Fault {
        self.fail(
            RequestFailure::TooMuchData(excess),
            HttpFault::TooMuchData(excess),
        )
    }

    fn unreachable(&self, text: impl Into<String>, fault: HttpFault) -> Fault {
        self.fail(RequestFailure::Unreachable(text.into()), fault)
    }

    /// Sends a request, and checks whether the status of the response means that the credential was rejected.
    async fn send(
        &self,
        request: reqwest::RequestBuilder,
        session: Option<Arc<str>>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<Response, Fault> {
        // Checks IP addresses, which are not resolved, and returns a clear error for names that are not permitted.
        self.gate.check().await.map_err(|denied| {
            let cause = match denied {
                Denied::NotFound(host) => {
                    RequestFailure::NotSent(format!("could not find the host {host}"))
                }
                Denied::OwnServer(host) => {
                    RequestFailure::NotAllowed(format!("{host} is the address of this server"))
                }
                Denied::NotPublic(host) => {
                    RequestFailure::NotAllowed(permit(&format!("{host} is not a public address")))
                }
                Denied::NotEncrypted(host) => {
                    RequestFailure::NotAllowed(permit(&format!("{host} must be used with https")))
                }
                Denied::Port(host, port) => {
                    RequestFailure::NotAllowed(format!("port {port} of {host} is not permitted"))
                }
            };
            self.fail(cause, HttpFault::Denied)
        })?;
        let mut request = request.header(ACCEPT, format!("{EVENTS}, {JSON}"));
        for (name, value) in headers {
            request = request.header(name, value);
        }
        if let Some(session) = session {
            request = request.header(SESSION_ID, session.as_ref());
        }
        let sent = request.send().await;
        let response = sent.map_err(|e| {
            let cause = if e.is_connect() {
                let cause = trust::advice(&e).unwrap_or("no connection could be made");
                RequestFailure::NotSent(cause.to_owned())
            } else {
                RequestFailure::Unreachable(LOST.to_owned())
            };
            self.fail(cause, HttpFault::Request)
        })?;
        if response.status() != StatusCode::UNAUTHORIZED {
            return Ok(response);
        }
        let cause = if self.secret.is_none() && describes_oauth(&response) {
            RequestFailure::OAuthOnly
        } else if self.secret.is_none() {
            RequestFailure::KeyMissing
        } else {
            let body = self.beginning(response).await;
            let text = body.ok().and_then(|(body, _)| text_in(&body));
            let text = text.map_or_else(|| "HTTP 401".to_owned(), |text| self.shown(&text));
            RequestFailure::AuthFailed(text)
        };
        Err(self.fail(cause, HttpFault::Auth))
    }

    /// Sends a message. A redirect to the same address with or without a slash at the end is followed once.
    async fn post(
        &self,
        uri: &str,
        message: &ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<Response, Fault> {
        let post = self.http.post(uri).json(message);
        let response = self.send(post, session.clone(), headers.clone()).await?;
        let keeps_method = matches!(
            response.status(),
            StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT
        );
        match redirect_of(&response) {
            Some(target) if keeps_method && differs_by_slash(response.url(), &target) => {
                let post = self.http.post(target).json(message);
                self.send(post, session, headers).await
            }
            _ => Ok(response),
        }
    }

    /// Reads a response. Fails if it exceeds the size limit.
    async fn body(&self, response: Response) -> Result<Vec<u8>, Fault> {
        match self.beginning(response).await? {
            (body, true) => Ok(body),
            (_, false) => Err(self.too_much(Excess::Message)),
        }
    }

    /// Reads a response up to the size limit, and returns true if this is all of it.
    async fn beginning(&self, mut response: Response) -> Result<(Vec<u8>, bool), Fault> {
        let mut body = Vec::new();
        loop {
            let piece = response.chunk().await;
            let piece = piece.map_err(|_| self.unreachable(LOST, HttpFault::Request))?;
            let Some(piece) = piece else {
                return Ok((body, true));
            };
            let room = MESSAGE_BYTES_MAX - body.len();
            body.extend_from_slice(&piece[..piece.len().min(room)]);
            if piece.len() > room {
                return Ok((body, false));
            }
        }
    }

    /// The first response or error in a stream of events, for requests that start a connection.
    async fn first_answer(
        &self,
        events: BoxStream<'static, Result<Sse, SseError>>,
    ) -> Result<ServerJsonRpcMessage, Fault> {
        let mut events = events.take(MESSAGES_MAX);
        let mut count = 0;
        while let Some(event) = events.next().await {
            count += 1;
            let event = event.map_err(|e| match excess_of(&e) {
                Some(excess) => self.too_much(excess),
                None => self.unreachable(LOST, HttpFault::Request),
            });
            let text = event?.data.unwrap_or_default();
            let message = message_in(text.as_bytes());
            if let Some(
                message @ (ServerJsonRpcMessage::Response(_) | ServerJsonRpcMessage::Error(_)),
            ) = message
            {
                return Ok(message);
            }
        }
        if count == MESSAGES_MAX {
            return Err(self.too_much(Excess::Messages));
        }
        Err(self.unreachable("it did not respond", HttpFault::NotJsonRpc))
    }
}

fn causes_of(message: &ClientJsonRpcMessage) -> Option<&Causes> {
    match message {
        ClientJsonRpcMessage::Request(request) => request.request.extensions().get(),
        _ => None,
    }
}

fn message_in(text: &[u8]) -> Option<ServerJsonRpcMessage> {
    serde_json::from_value(received::parse(text)?).ok()
}

/// Address to which a response redirects.
fn redirect_of(response: &Response) -> Option<Url> {
    let location = response.headers().get(LOCATION)?.to_str().ok()?;
    response.url().join(location).ok()
}

/// Checks whether two addresses differ only by a slash at the end of the path.
fn differs_by_slash(from: &Url, to: &Url) -> bool {
    let path = |url: &Url| url.path().trim_end_matches('/').to_owned();
    from.origin() == to.origin()
        && from.query() == to.query()
        && path(from) == path(to)
        && from.path().len().abs_diff(to.path().len()) == 1
}

/// Checks whether a response describes how to sign in with OAuth, as the protocol requires from servers that support only this.
fn describes_oauth(response: &Response) -> bool {
    let values = response.headers().get_all(WWW_AUTHENTICATE).iter();
    let mut texts = values.filter_map(|value| value.to_str().ok());
    texts.any(|text| text.to_ascii_lowercase().contains("resource_metadata"))
}

/// Checks whether a response with an error status means that the server does not know the session. The protocol requires 404, but
/// some servers respond with 400.
fn ends_session(status: StatusCode, body: &[u8]) -> bool {
    let names_session = || {
        let text = text_in(body).unwrap_or_default().to_lowercase();
        let problems = ["no valid session", "invalid session", "unknown session"];
        problems.iter().any(|problem| text.contains(problem))
            || (text.contains("session") && text.contains("not found"))
    };
    status == StatusCode::NOT_FOUND || (status == StatusCode::BAD_REQUEST && names_session())
}

/// Adds how an operator can permit an address.
fn permit(problem: &str) -> String {
    format!("{problem}. An operator can permit this address with OPENVIBE_MCP_ALLOW")
}

/// Text of the server in a response with an error status: plain text, or the usual members of JSON. Pages have none.
fn text_in(body: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(body).ok()?.trim();
    let Ok(value) = serde_json::from_str::<Value>(text) else {
        let is_plain = !text.is_empty() && !text.starts_with('<');
        return is_plain.then(|| text.to_owned());
    };
    let members = [
        "/error/message",
        "/error_description",
        "/error",
        "/message",
        "/detail",
    ];
    let mut texts = members.iter().filter_map(|member| value.pointer(member));
    texts.find_map(|text| text.as_str().map(str::to_owned))
}

/// Method and ID of a request; `None` for other messages.
fn request_of(message: &ClientJsonRpcMessage) -> Option<(String, Value)> {
    let value = serde_json::to_value(message).ok()?;
    let method = value["method"].as_str()?.to_owned();
    let id = value.get("id").filter(|id| !id.is_null())?.clone();
    Some((method, id))
}

/// A JSON-RPC error in the body of a response with an error status. Such a response answers its request even if the error has no ID
/// or, as some frameworks send, a different one.
fn error_in(body: &[u8], id: Option<&Value>) -> Option<ServerJsonRpcMessage> {
    let mut value: Value = serde_json::from_slice(body).ok()?;
    if !value["error"].is_object() {
        return None;
    }
    if let Some(id) = id {
        value["id"] = id.clone();
    }
    let message: ServerJsonRpcMessage = serde_json::from_value(value).ok()?;
    matches!(message, ServerJsonRpcMessage::Error(_)).then_some(message)
}

/// Answer to `server/discover` on behalf of a server that does not know this request and responds only with a status; the
/// client then uses the earlier protocol.
fn unknown_method(id: &Value) -> Option<ServerJsonRpcMessage> {
    let error = json!({"code": -32601, "message": "the server does not know this method"});
    serde_json::from_value(json!({"jsonrpc": "2.0", "id": id, "error": error})).ok()
}

/// Returns the received message, but replaces an invalid result of `server/discover` with an error, because some servers answer every
/// unknown method with an empty result.
fn normalized(
    message: ServerJsonRpcMessage,
    request: Option<&(String, Value)>,
) -> ServerJsonRpcMessage {
    let is_other = |response: &ServerJsonRpcMessage| match response {
        ServerJsonRpcMessage::Response(response) => {
            !matches!(response.result, ServerResult::DiscoverResult(_))
        }
        _ => false,
    };
    match request {
        Some((method, id)) if method == STARTS[0] && is_other(&message) => {
            unknown_method(id).unwrap_or(message)
        }
        _ => message,
    }
}

/// Ends a stream of bytes with an error once a single event, or all events together, become too large.
#[derive(Debug)]
struct EventLimit {
    event_max: usize,
    event: usize,
    whole: usize,
    /// True if the current line has no characters yet.
    is_line_empty: bool,
}

impl EventLimit {
    fn new(event_max: usize) -> Self {
        Self {
            event_max,
            event: 0,
            whole: 0,
            is_line_empty: true,
        }
    }

    /// Counts a piece of the stream, in which an event ends with an empty line.
    ///
    /// # Errors
    /// The limit that the stream exceeds.
    fn count(&mut self, piece: &[u8]) -> Result<(), Excess> {
        self.whole = self.whole.saturating_add(piece.len());
        for byte in piece {
            match byte {
                b'\n' if self.is_line_empty => self.event = 0,
                b'\n' => self.is_line_empty = true,
                b'\r' => {}
                _ => {
                    self.is_line_empty = false;
                    self.event += 1;
                    if self.event > self.event_max {
                        return Err(Excess::Message);
                    }
                }
            }
        }
        if self.whole > STREAM_BYTES_MAX {
            return Err(Excess::Response);
        }
        Ok(())
    }
}

/// Reason why a stream of events ends early.
#[derive(Debug, thiserror::Error)]
enum StreamFault {
    #[error("{LOST}")]
    Lost,
    #[error(transparent)]
    TooMuchData(Excess),
}

/// Returns the limit whose excess ended a stream of events, if there is one.
fn excess_of(error: &SseError) -> Option<Excess> {
    match error {
        SseError::Body(cause) => match cause.downcast_ref() {
            Some(StreamFault::TooMuchData(excess)) => Some(*excess),
            _ => None,
        },
        _ => None,
    }
}

/// The events of a response, with limited sizes.
fn events_of(response: Response, event_max: usize) -> BoxStream<'static, Result<Sse, SseError>> {
    let limited = response
        .bytes_stream()
        .scan(Some(EventLimit::new(event_max)), |limit, piece| {
            let admitted = limit.as_mut().map(|open| match piece {
                Ok(piece) => match open.count(&piece) {
                    Ok(()) => Ok(piece),
                    Err(excess) => Err(StreamFault::TooMuchData(excess)),
                },
                Err(_) => Err(StreamFault::Lost),
            });
            if matches!(admitted, Some(Err(_))) {
                *limit = None;
            }
            future::ready(admitted)
        });
    SseStream::from_bytes_stream(limited).boxed()
}

/// Events of a response, which end with an error if the server sends a request or too many events.
struct Watched {
    events: BoxStream<'static, Result<Sse, SseError>>,
    causes: Causes,
    count: usize,
    pings: usize,
    has_asked: bool,
    is_answered: bool,
    has_ended: bool,
}

impl Watched {
    async fn next(&mut self) -> Option<Result<Sse, SseError>> {
        if self.has_ended {
            return None;
        }
        if self.has_asked {
            let cause = RequestFailure::Unreachable("it sent a request".to_owned());
            return Some(self.cut(cause, StreamFault::Lost));
        }
        let mut next = self.events.next().await;
        match &mut next {
            Some(Ok(event)) => {
                if let Some(message) = event
                    .data
                    .as_ref()
                    .and_then(|text| received::parse(text.as_bytes()))
                {
                    self.note(&message);
                    event.data = Some(message.to_string());
                }
                self.count += 1;
                let excess = if self.count > MESSAGES_MAX {
                    Some(Excess::Messages)
                } else {
                    (self.pings > PINGS_MAX).then_some(Excess::Pings)
                };
                if let Some(excess) = excess {
                    let cause = RequestFailure::TooMuchData(excess);
                    return Some(self.cut(cause, StreamFault::TooMuchData(excess)));
                }
            }
            Some(Err(e)) => self.end(match excess_of(e) {
                Some(excess) => RequestFailure::TooMuchData(excess),
                None => RequestFailure::Unreachable(LOST.to_owned()),
            }),
            None => self.end(RequestFailure::Unreachable(LOST.to_owned())),
        }
        next
    }

    /// Records whether an event is a ping, another request from the server, or the response.
    fn note(&mut self, message: &Value) {
        let has = |member| message.get(member).is_some_and(|value| !value.is_null());
        if let (Some(method), true) = (message["method"].as_str(), has("id")) {
            if method == "ping" {
                self.pings += 1;
            } else {
                self.has_asked = true;
                self.causes.note_asked();
            }
        }
        self.is_answered |= has("result") || has("error");
    }

    fn cut(&mut self, cause: RequestFailure, fault: StreamFault) -> Result<Sse, SseError> {
        self.end(cause);
        Err(SseError::Body(Box::new(fault)))
    }

    fn end(&mut self, cause: RequestFailure) {
        self.has_ended = true;
        if !self.is_answered {
            self.causes.note(cause);
        }
    }
}

fn watched(
    events: BoxStream<'static, Result<Sse, SseError>>,
    causes: Causes,
) -> BoxStream<'static, Result<Sse, SseError>> {
    let watched = Watched {
        events,
        causes,
        count: 0,
        pings: 0,
        has_asked: false,
        is_answered: false,
        has_ended: false,
    };
    stream::unfold(watched, |mut watched| async move {
        let next = watched.next().await;
        next.map(|event| (event, watched))
    })
    .boxed()
}

impl StreamableHttpClient for Guarded {
    type Error = HttpFault;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, Fault> {
        self.post_message_with_max_sse_event_size(
            uri,
            message,
            session_id,
            auth_header,
            custom_headers,
            MESSAGE_BYTES_MAX,
        )
        .await
    }

    /// The credential is in the default headers of the client, not in `auth_header`.
    async fn post_message_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        _auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
        max_sse_event_size: usize,
    ) -> Result<StreamableHttpPostResponse, Fault> {
        let this = self.noting(&message);
        let request = request_of(&message);
        let starts = |(method, _): &(String, Value)| STARTS.contains(&method.as_str());
        let is_start = request.as_ref().is_some_and(starts);
        let has_session = session_id.is_some();
        let response = this
            .post(&uri, &message, session_id, custom_headers)
            .await?;
        let status = response.status();
        if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        let header = |name: HeaderName| {
            let value = response.headers().get(name);
            value.and_then(|v| v.to_str().ok()).map(str::to_owned)
        };
        let session = header(SESSION_ID);
        let content_type = header(CONTENT_TYPE).unwrap_or_default().to_lowercase();
        if !status.is_success() {
            let error = this.error_of(response, has_session, request.as_ref());
            return Ok(StreamableHttpPostResponse::Json(error.await?, session));
        }
        if content_type.starts_with(EVENTS) {
            let events = events_of(response, max_sse_event_size);
            if is_start {
                let answer = this.first_answer(events).await?;
                let answer = normalized(answer, request.as_ref());
                return Ok(StreamableHttpPostResponse::Json(answer, session));
            }
            let events = watched(events, this.causes.clone());
            return Ok(StreamableHttpPostResponse::Sse(events, session));
        }
        let (body, is_whole) = this.beginning(response).await?;
        if request.is_none() {
            // Notifications have no response, but some servers send one anyway.
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if !content_type.starts_with(JSON) {
            return Err(this.unreachable(
                "its response is neither JSON nor a stream of events",
                HttpFault::NotJsonRpc,
            ));
        }
        let message = if is_whole {
            message_in(&body)
        } else {
            // The result of a call is cut, as a long text is.
            let is_call = request.as_ref().is_some_and(|(method, _)| method == CALL);
            let beginning = received::parse_beginning(&body).filter(|_| is_call);
            let beginning = beginning.ok_or_else(|| this.too_much(Excess::Message))?;
            serde_json::from_value(beginning).ok()
        };
        match message {
            Some(message) => {
                let message = normalized(message, request.as_ref());
                Ok(StreamableHttpPostResponse::Json(message, session))
            }
            None => Err(this.unreachable(
                "its response is not a JSON-RPC message",
                HttpFault::NotJsonRpc,
            )),
        }
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        _auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), Fault> {
        let delete = self.http.delete(uri.as_ref());
        self.send(delete, Some(session_id), custom_headers)
            .await
            .map(|_| ())
    }

    /// Messages that do not belong to a request are not read, because the client offers no capabilities that a server could use.
    async fn get_stream(
        &self,
        _uri: Arc<str>,
        _session_id: Option<Arc<str>>,
        _last_event_id: Option<String>,
        _auth_header: Option<String>,
        _custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Fault> {
        Err(StreamableHttpError::ServerDoesNotSupportSse)
    }
}

/// Checks whether a header can carry a credential: it must not change how a request is parsed.
pub fn can_be_credential(name: &HeaderName) -> bool {
    let reserved = [
        "accept",
        "connection",
        "content-encoding",
        "content-length",
        "content-type",
        "cookie",
        "expect",
        "forwarded",
        "host",
        "keep-alive",
        "origin",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "user-agent",
    ];
    let text = name.as_str();
    !reserved.contains(&text) && !text.starts_with("mcp-") && *name != LAST_EVENT_ID
}

#[cfg(test)]
mod tests {
    use rmcp::model::{ClientRequest, ListToolsRequest, NumberOrString};

    use super::*;

    #[test]
    fn an_event_and_all_events_together_are_limited() {
        let mut limit = EventLimit::new(10);
        for _ in 0..100 {
            assert_eq!(limit.count(b"data: 1\n\ndata"), Ok(()));
            assert_eq!(limit.count(b": 2\r\n\r\n"), Ok(()));
        }
        assert_eq!(limit.count(b"data: 123456"), Err(Excess::Message));
        let mut limit = EventLimit::new(10);
        assert_eq!(limit.count(b"data\nda\n"), Ok(()));
        assert_eq!(
            limit.count(b"data: 1"),
            Err(Excess::Message),
            "lines of one event count together"
        );
        let mut limit = EventLimit::new(10);
        let line = vec![b'\n'; 1 << 20];
        for _ in 0..16 {
            assert_eq!(limit.count(&line), Ok(()));
        }
        assert_eq!(limit.count(&line), Err(Excess::Response));
    }

    #[test]
    fn failures_are_noted_for_their_request() {
        let requests = [(); 2].map(|()| {
            let causes = Causes::default();
            let mut request = ListToolsRequest::default();
            request.extensions.insert(causes.clone());
            let request = ClientRequest::ListToolsRequest(request);
            (
                causes,
                ClientJsonRpcMessage::request(request, NumberOrString::Number(1)),
            )
        });
        let [(sent, sent_message), (failed, failed_message)] = requests;
        let cause = RequestFailure::NotSent("no connection could be made".to_owned());
        causes_of(&failed_message.clone())
            .unwrap()
            .note(cause.clone());
        causes_of(&sent_message).unwrap().note_asked();
        assert_eq!((sent.take(), sent.take_asked()), (None, true));
        assert_eq!((failed.take(), failed.take_asked()), (Some(cause), false));
    }

    #[test]
    fn a_status_stands_for_an_unknown_method() {
        let message = unknown_method(&json!(0)).unwrap();
        assert!(matches!(message, ServerJsonRpcMessage::Error(_)));
        assert!(error_in(br#"{"jsonrpc":"2.0","id":0,"result":{}}"#, None).is_none());
        assert!(error_in(b"Not found", None).is_none());
        let error = br#"{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"Bad Request"}}"#;
        let found = error_in(error, Some(&json!(7))).unwrap();
        assert_eq!(serde_json::to_value(&found).unwrap()["id"], 7);
        let error =
            br#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request"}}"#;
        assert!(error_in(error, Some(&json!(7))).is_some());
    }

    #[test]
    fn another_result_of_a_discovery_stands_for_an_unknown_method() {
        let message = |result: Value| {
            let message = json!({"jsonrpc": "2.0", "id": 0, "result": result});
            serde_json::from_value::<ServerJsonRpcMessage>(message).unwrap()
        };
        let discovered = json!({"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {},
            "ttlMs": 0, "cacheScope": "private"});
        let discovery = (STARTS[0].to_owned(), json!(0));
        let list = ("tools/list".to_owned(), json!(0));
        for (result, request, is_kept) in [
            (discovered, Some(&discovery), true),
            (json!({}), Some(&discovery), false),
            (json!({"tools": []}), Some(&discovery), false),
            (json!({"tools": []}), Some(&list), true),
            (json!({}), None, true),
        ] {
            let shown = format!("{result} {request:?}");
            let found = normalized(message(result), request);
            let is_response = matches!(found, ServerJsonRpcMessage::Response(_));
            assert_eq!(is_response, is_kept, "{shown}");
        }
    }

    #[test]
    fn a_credential_cannot_replace_a_header_of_the_protocol() {
        for name in ["x-api-key", "authorization", "private-token"] {
            assert!(can_be_credential(&HeaderName::from_static(name)), "{name}");
        }
        for name in [
            "host",
            "content-length",
            "mcp-session-id",
            "cookie",
            "last-event-id",
        ] {
            assert!(!can_be_credential(&HeaderName::from_static(name)), "{name}");
        }
    }
}
