//! A connection to one server.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use reqwest::Url;
use rmcp::{
    ClientLifecycleMode, RoleClient, Service, ServiceError,
    model::{
        CallToolRequest, CallToolRequestParams, CancelledNotification, CancelledNotificationParam,
        ClientCapabilities, ClientConfig, ClientRequest, ClientResult, ErrorCode, ErrorData,
        GetExtensions, Implementation, ListToolsRequest, PaginatedRequestParams, ProtocolVersion,
        RequestId, ServerNotification, ServerRequest, ServerResult,
    },
    serve_client_with_lifecycle,
    service::{
        ClientInitializeError, NotificationContext, Peer, PeerRequestOptions, RequestContext,
        RunningService,
    },
    transport::{
        StreamableHttpClientTransport, common::client_side_sse::NeverRetry,
        streamable_http_client::StreamableHttpClientTransportConfig,
    },
};
use serde_json::{Map, Value};

use super::{
    definition::{AcceptedFunction, Definition, Listing, RejectedFunction},
    http::{Causes, Guarded, LOST, RequestFailure},
    limits::{Excess, MESSAGE_BYTES_MAX, MESSAGES_MAX, STREAM_BYTES_MAX},
    output::{CallOutput, redact, redacted},
    process::{self, OutputLimits, ProcessConfig, Running},
    received,
    server::{Endpoint, HttpAuth, ServerConfig, ServerFault},
};
use crate::{
    outbound::{Gate, LocalAddresses, Rules},
    tool_fault::{ToolErrorCode, ToolFault},
};

/// Maximum number of functions that are read from a server. `DEFINITIONS_BYTES_MAX` limits the total size of their definitions as
/// JSON.
const FUNCTIONS_MAX: usize = 256;
const DEFINITIONS_BYTES_MAX: usize = 4 << 20;
const PAGES_MAX: usize = 20;
/// Time limit of a call without progress.
const CALL_WITHIN: Duration = Duration::from_mins(1);
/// Time limit of a call with progress.
pub(super) const CALL_WITHIN_MAX: Duration = Duration::from_mins(10);
/// Maximum length of a server's error message in a result.
const MESSAGE_CHARS_MAX: usize = 2000;

/// Rejects all requests from a server except pings, and records that there was one.
struct Handler {
    causes: Causes,
}

impl Service<RoleClient> for Handler {
    async fn handle_request(
        &self,
        request: ServerRequest,
        _context: RequestContext<RoleClient>,
    ) -> Result<ClientResult, ErrorData> {
        if matches!(request, ServerRequest::PingRequest(_)) {
            return Ok(ClientResult::empty(()));
        }
        self.causes.note_asked();
        let text = "this client does not answer requests of servers";
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, text, None))
    }

    async fn handle_notification(
        &self,
        _notification: ServerNotification,
        _context: NotificationContext<RoleClient>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    fn get_info(&self) -> ClientConfig {
        let this = Implementation::new("openvibe", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(ClientCapabilities::default(), this)
            .with_protocol_version(ProtocolVersion::V_2025_11_25)
    }
}

/// A pending request. When nobody waits for its response anymore, the server is asked to cancel it.
struct Pending {
    peer: Peer<RoleClient>,
    id: Option<RequestId>,
}

impl Drop for Pending {
    fn drop(&mut self) {
        let (Some(id), Ok(runtime)) = (self.id.take(), tokio::runtime::Handle::try_current())
        else {
            return;
        };
        let peer = self.peer.clone();
        let params = CancelledNotificationParam::new(Some(id), None);
        runtime.spawn(async move {
            let notification = CancelledNotification::new(params);
            // Fails if the connection has ended, which also cancels the request.
            drop(peer.send_notification(notification.into()).await);
        });
    }
}

pub(super) struct Session {
    running: RunningService<RoleClient, Handler>,
    /// Failures and server requests that do not belong to a request of the client, such as those of a process.
    causes: Causes,
    title: String,
    secret: Option<String>,
    process: Option<Running>,
    /// True if the functions have been listed on this connection.
    is_listed: AtomicBool,
}

impl Session {
    /// Connects to a server.
    ///
    /// # Errors
    /// `ServerFault`, with the cause.
    pub(super) async fn connect(
        server: &ServerConfig,
        rules: &Arc<Rules>,
    ) -> Result<Self, ServerFault> {
        match &server.endpoint {
            Endpoint::Http { url, auth } => Self::over_http(server, url, auth, rules).await,
            Endpoint::Process { process } => {
                // Processes are asked for an earlier revision first, because many of those that do not know `server/discover` end or do
                // not respond.
                let mode = ClientLifecycleMode::Initialize;
                match Self::over_process(server, process, mode).await {
                    Err(NoSession::Rejected(_)) => {
                        let mode = ClientLifecycleMode::Discover {
                            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
                        };
                        let session = Self::over_process(server, process, mode).await;
                        session.map_err(NoSession::into_fault)
                    }
                    session => session.map_err(NoSession::into_fault),
                }
            }
        }
    }

    async fn over_process(
        server: &ServerConfig,
        process: &ProcessConfig,
        mode: ClientLifecycleMode,
    ) -> Result<Self, NoSession> {
        let limits = OutputLimits {
            line_bytes: MESSAGE_BYTES_MAX,
            lines: MESSAGES_MAX,
            bytes: STREAM_BYTES_MAX,
        };
        let (running, output, input) = process::start(process, limits).map_err(|problem| {
            tracing::warn!(problem, "the process of a tool server could not be started");
            NoSession::Failed(unreachable(server, &problem))
        })?;
        let causes = Causes::default();
        let handler = Handler {
            causes: causes.clone(),
        };
        match serve_client_with_lifecycle(handler, (output, input), mode).await {
            Ok(served) => Ok(Self::new(server, served, causes, Some(running))),
            Err(error) => Err(if let Some(excess) = running.excess() {
                NoSession::Failed(ServerFault::TooMuchData(server.title.clone(), excess))
            } else {
                let problem = format!("its process does not respond{}", running.last_lines().await);
                tracing::warn!(problem, "a tool server cannot be used");
                let fault = unreachable(server, &problem);
                match error {
                    ClientInitializeError::JsonRpcError(_) => NoSession::Rejected(fault),
                    _ => NoSession::Failed(fault),
                }
            }),
        }
    }

    async fn over_http(
        server: &ServerConfig,
        url: &Url,
        auth: &HttpAuth,
        rules: &Arc<Rules>,
    ) -> Result<Self, ServerFault> {
        let gate = Gate::new(rules, LocalAddresses::Forbidden, url)
            .ok_or_else(|| unreachable(server, "its address has no host"))?;
        let causes = Causes::default();
        let http = Guarded::new(gate, auth, causes.clone());
        let http = http.map_err(|problem| unreachable(server, &problem))?;
        let mut config = StreamableHttpClientTransportConfig::with_uri(url.as_str())
            .max_sse_event_size(MESSAGE_BYTES_MAX)
            .reinit_on_expired_session(true);
        config.retry_config = Arc::new(NeverRetry::default());
        let transport = StreamableHttpClientTransport::with_client(http, config);
        let handler = Handler {
            causes: causes.clone(),
        };
        match serve_client_with_lifecycle(handler, transport, lifecycle()).await {
            Ok(served) => Ok(Self::new(server, served, causes, None)),
            // The error can contain data that the server sent, such as the credential, so only the cause is reported.
            Err(_) => Err(match causes.take() {
                Some(failure) => failure.into_fault(server.title.clone()),
                None => unreachable(
                    server,
                    "it does not support a known version of the protocol",
                ),
            }),
        }
    }

    fn new(
        server: &ServerConfig,
        running: RunningService<RoleClient, Handler>,
        causes: Causes,
        process: Option<Running>,
    ) -> Self {
        Self {
            running,
            causes,
            title: server.title.clone(),
            secret: server.secret().map(str::to_owned),
            process,
            is_listed: AtomicBool::new(false),
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        // `is_closed` does not detect that the server ended the connection.
        self.running.is_closed() || self.running.is_transport_closed()
    }

    /// Sends a request once, and records its failures in `causes`.
    async fn request(
        &self,
        mut request: ClientRequest,
        options: PeerRequestOptions,
        causes: &Causes,
    ) -> Result<ServerResult, ServiceError> {
        request.extensions_mut().insert(causes.clone());
        if let Some(process) = &self.process {
            process.note_request();
        }
        let sent = self.running.send_cancellable_request(request, options);
        let sent = sent.await?;
        let mut pending = Pending {
            peer: self.running.peer().clone(),
            id: Some(sent.id.clone()),
        };
        let response = sent.await_response().await;
        pending.id = None;
        response
    }

    /// The functions that the server offers, and those that cannot be used, such as ones with a repeated name. The client cache of `rmcp`
    /// is not used, because servers could decide how long a list is kept there.
    ///
    /// # Errors
    /// `ServerFault`, with the cause.
    pub(super) async fn list(&self) -> Result<Listing, ServerFault> {
        let found = self.read_pages().await?;
        self.is_listed.store(true, Ordering::Relaxed);
        Ok(found)
    }

    async fn read_pages(&self) -> Result<Listing, ServerFault> {
        let causes = Causes::default();
        let mut found = Listing {
            title: self.server_title(),
            ..Listing::default()
        };
        let mut cursor = None;
        let mut bytes = 0;
        for _ in 0..PAGES_MAX {
            let params = PaginatedRequestParams::default().with_cursor(cursor);
            let request = ClientRequest::ListToolsRequest(ListToolsRequest::with_param(params));
            let options = PeerRequestOptions::no_options();
            let page = match self.request(request, options, &causes).await {
                Ok(ServerResult::ListToolsResult(page)) => page,
                Ok(_) => return Err(self.unreachable("its list of functions is invalid")),
                Err(e) => return Err(self.list_fault(&causes, &e).await),
            };
            for tool in &page.tools {
                let Ok(value) = serde_json::to_value(tool) else {
                    continue;
                };
                bytes += serde_json::to_vec(&value).map_or(0, |json| json.len());
                if found.functions.len() == FUNCTIONS_MAX || bytes > DEFINITIONS_BYTES_MAX {
                    let reason = format!("only {FUNCTIONS_MAX} functions of 4 MiB in all are read");
                    found.reject(self.rejected(&tool.name, reason));
                    return Ok(found);
                }
                match self.definition(&tool.name, value) {
                    Ok(of)
                        if found
                            .functions
                            .iter()
                            .any(|known| known.name() == of.name()) =>
                    {
                        let reason = "another function has the same name".to_owned();
                        found.reject(self.rejected(of.name(), reason));
                    }
                    Ok(of) => found.functions.push(of),
                    Err(function) => found.reject(function),
                }
            }
            for function in received::rejected_in(&page) {
                found.reject(self.rejected(&function.name, function.reason));
            }
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        Ok(found)
    }

    /// Title in the server's description of itself, without the credential.
    fn server_title(&self) -> Option<String> {
        let info = self.running.peer().peer_info()?;
        let title = info.server_info.as_ref()?.title.as_deref()?;
        Some(redacted(title, self.secret.as_deref()))
    }

    /// Checks a definition, and replaces the credential in it.
    fn definition(&self, name: &str, mut value: Value) -> Result<Definition, RejectedFunction> {
        if let Some(secret) = &self.secret {
            if name.contains(secret.as_str()) {
                return Err(self.rejected(name, "its name contains the secret".to_owned()));
            }
            redact(&mut value, secret);
        }
        Definition::of(&value)
    }

    fn rejected(&self, name: &str, reason: String) -> RejectedFunction {
        RejectedFunction::new(&redacted(name, self.secret.as_deref()), reason)
    }

    /// The reason why a request failed, if the transport knows it.
    fn failure(&self, causes: &Causes) -> Option<RequestFailure> {
        causes.take().or_else(|| {
            let excess = self.process.as_ref()?.excess()?;
            Some(RequestFailure::TooMuchData(excess))
        })
    }

    fn unreachable(&self, why: &str) -> ServerFault {
        ServerFault::Unreachable(self.title.clone(), why.to_owned())
    }

    /// Describes a lost connection. For a process, the description includes the end of its error output.
    async fn lost(&self) -> String {
        match &self.process {
            Some(process) => format!("{LOST}{}", process.last_lines().await),
            None => LOST.to_owned(),
        }
    }

    async fn list_fault(&self, causes: &Causes, error: &ServiceError) -> ServerFault {
        match self.failure(causes) {
            Some(failure) => failure.into_fault(self.title.clone()),
            None if matches!(error, ServiceError::McpError(_)) => {
                self.unreachable("it does not list its functions")
            }
            None => self.unreachable(&self.lost().await),
        }
    }

    /// Lists the functions before the first call of a function whose arguments are also sent as headers: `rmcp` sends these headers
    /// only after a list on the same connection.
    ///
    /// # Errors
    /// `DefinitionChanged` if the server now lists a different definition, or as for `list`.
    pub(super) async fn list_for_headers(
        &self,
        function: &AcceptedFunction,
    ) -> Result<(), ToolFault> {
        let is_listed = self.is_listed.load(Ordering::Relaxed);
        if is_listed || self.process.is_some() || !function.has_headers() {
            return Ok(());
        }
        let listed = self.list().await?;
        let is_same =
            |of: &Definition| of.name() == function.name && of.hash() == function.definition_hash;
        if listed.functions.iter().any(is_same) {
            return Ok(());
        }
        let text = format!(
            "{} changed the function {}: an admin has to accept the change in Settings › Tools",
            self.title, function.name
        );
        Err(ToolFault::new(ToolErrorCode::DefinitionChanged, text))
    }

    /// Calls a function once. Each progress of the call extends its time, up to a maximum.
    ///
    /// # Errors
    /// `ToolFailed` if the server reports an error; otherwise the reason why there is no result.
    pub(super) async fn call(
        &self,
        name: &str,
        arguments: Map<String, Value>,
    ) -> Result<CallOutput, ToolFault> {
        let causes = Causes::default();
        self.causes.take_asked();
        let params = CallToolRequestParams::new(name.to_owned()).with_arguments(arguments);
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let options = PeerRequestOptions::with_timeout(CALL_WITHIN)
            .reset_timeout_on_progress()
            .with_max_total_timeout(CALL_WITHIN_MAX);
        let answer = self.request(request, options, &causes).await;
        let has_asked = causes.take_asked() || (self.process.is_some() && self.causes.take_asked());
        let value = match answer {
            // The transport passes on results as they are.
            Ok(ServerResult::CustomResult(mut result)) => {
                match result.0.get_mut(received::RESULT) {
                    Some(value) => value.take(),
                    None => return Err(self.unexpected(&causes).await),
                }
            }
            Ok(ServerResult::EmptyResult(_) | ServerResult::TaskAckResult(_)) => Value::Null,
            Ok(ServerResult::InputRequiredResult(_) | ServerResult::CreateTaskResult(_)) => {
                return Err(self.input_not_supported());
            }
            Ok(_) => return Err(self.unexpected(&causes).await),
            Err(_) if has_asked => return Err(self.input_not_supported()),
            Err(ServiceError::Timeout { .. }) => {
                let fault = ToolFault::from(ServerFault::Timeout(self.title.clone()));
                return Err(fault.with_unknown_outcome());
            }
            Err(e) => {
                let failure = self.failure(&causes);
                if failure == Some(RequestFailure::TooMuchData(Excess::Message)) {
                    return Ok(CallOutput::too_large());
                }
                return Err(self.call_fault(failure, &e).await);
            }
        };
        let output = CallOutput::of(&value, self.secret.as_deref());
        if value["isError"] == true {
            let code = if has_asked {
                ToolErrorCode::InputNotSupported
            } else {
                ToolErrorCode::ToolFailed
            };
            return Err(ToolFault::new(code, output.text));
        }
        Ok(output)
    }

    fn input_not_supported(&self) -> ToolFault {
        let text = format!("{} asked for input, which is not supported", self.title);
        ToolFault::new(ToolErrorCode::InputNotSupported, text).with_unknown_outcome()
    }

    async fn unexpected(&self, causes: &Causes) -> ToolFault {
        let failure = self.failure(causes);
        self.call_fault(failure, &ServiceError::UnexpectedResponse)
            .await
    }

    async fn call_fault(&self, failure: Option<RequestFailure>, error: &ServiceError) -> ToolFault {
        let title = self.title.clone();
        match failure {
            Some(failure) if failure.was_sent() => {
                ToolFault::from(failure.into_fault(title)).with_unknown_outcome()
            }
            Some(failure) => failure.into_fault(title).into(),
            None => {
                let ServiceError::McpError(error) = error else {
                    let fault = ServerFault::Unreachable(title, self.lost().await);
                    let fault = ToolFault::from(fault);
                    return fault.with_unknown_outcome();
                };
                // The message is cut after the redaction, so that no part of a credential remains.
                let message = redacted(&error.message, self.secret.as_deref());
                let message: String = message.chars().take(MESSAGE_CHARS_MAX).collect();
                let text = format!("{title} reported an error: {message}");
                ToolFault::new(ToolErrorCode::ToolFailed, text)
            }
        }
    }
}

/// Reason why there is no connection to a process.
enum NoSession {
    /// The process responded to `initialize` with an error.
    Rejected(ServerFault),
    Failed(ServerFault),
}

impl NoSession {
    fn into_fault(self) -> ServerFault {
        match self {
            Self::Rejected(fault) | Self::Failed(fault) => fault,
        }
    }
}

fn unreachable(server: &ServerConfig, why: &str) -> ServerFault {
    ServerFault::Unreachable(server.title.clone(), why.to_owned())
}

/// Protocol revision of an HTTP server: the current one, or 2025-11-25 or whichever earlier one the server chooses if it does not know
/// `server/discover`.
fn lifecycle() -> ClientLifecycleMode {
    ClientLifecycleMode::Auto {
        preferred_versions: vec![ProtocolVersion::V_2026_07_28],
        legacy_version: Some(ProtocolVersion::V_2025_11_25),
    }
}
