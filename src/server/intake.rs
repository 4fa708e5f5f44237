//! Admission of requests: the sender is identified before the body is read, and the memory of the response is
//! reserved before it is sent.
//!
//! Without a valid session or key, only the public routes accept a body. Other requests are rejected with the body
//! unread, and the connection closes after the response.

use std::{hash::Hash, net::IpAddr, sync::Arc, time::Duration};

use axum::{
    body::HttpBody,
    extract::{FromRequestParts, Request, State as FromState},
    http::{Method, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::{
    PROBE_PATH, State, UPLOADS_PATH,
    caller::{Unidentified, doing, token_of},
    is_collection_upload, is_for_runner, is_mcp, is_sync,
};
use crate::{
    auth::{AnswerSize, AuthError, Caller},
    http::{
        ApiError,
        address::{client_of, net_of},
        bodies::{
            ANONYMOUS_BYTES_MAX, BodyBounds, MEDIA_BYTES_MAX, MEMBER_BYTES_MAX, pass_body, read,
            take,
        },
        encoding::{BuiltBytes, CompressionTurns},
        unsent::{Holder, InProgram, ReadOnly, Reservation, SMALL_BYTES_MAX, Unsent, bytes_of},
    },
    ids::UserId,
    share::{Exhausted, Pool, Turns},
};

/// Time for which a read continues after its client has disconnected. Most reads end within it, so that their answers are counted. The
/// others are aborted.
const UNHEARD_WITHIN: Duration = Duration::from_secs(1);
/// Maximum size of the body of a comparison with a vector store; less than the share of a member.
const SYNC_BYTES_MAX: usize = 6 * MEMBER_BYTES_MAX;
/// Assumed size of the answer of an aborted read.
const ABORTED_BYTES: u64 = 1024 * 1024;

/// Limits how many requests each holder runs at a time. Other requests wait for a turn, for a limited time.
struct RequestTurns<K> {
    turns: Turns<K>,
    within: Duration,
}

impl<K: Hash + Eq> RequestTurns<K> {
    fn new(at_once: usize, bounds: &BodyBounds) -> Self {
        Self {
            turns: Turns::new(at_once, at_once + bounds.handled_max),
            within: bounds.handled_within,
        }
    }

    /// Waits for a turn, which is held until the permit is dropped.
    ///
    /// # Errors
    /// 503 if no turn becomes available in time.
    async fn take(&self, holder: K) -> Result<OwnedSemaphorePermit, ApiError> {
        let turn = self.turns.take_within(holder, self.within).await;
        turn.ok_or_else(ApiError::overloaded)
    }
}

/// Limits how many requests each person runs at a time, so that hundreds of large pages or slow changes do not delay everyone else's
/// next request. A request extension for handlers that take turns themselves.
#[derive(Clone)]
pub struct PersonTurns {
    reads: Arc<RequestTurns<UserId>>,
    writes: Arc<RequestTurns<UserId>>,
}

impl PersonTurns {
    fn new(bounds: &BodyBounds) -> Self {
        Self {
            reads: Arc::new(RequestTurns::new(bounds.handled_reads, bounds)),
            writes: Arc::new(RequestTurns::new(bounds.handled_writes, bounds)),
        }
    }

    /// Waits for a turn to read, held until the permit is dropped.
    ///
    /// # Errors
    /// 503 if no turn becomes available in time.
    pub async fn read(&self, user: UserId) -> Result<OwnedSemaphorePermit, ApiError> {
        self.reads.take(user).await
    }

    /// Waits for a turn to write, held until the permit is dropped.
    ///
    /// # Errors
    /// 503 if no turn becomes available in time.
    pub async fn write(&self, user: UserId) -> Result<OwnedSemaphorePermit, ApiError> {
        self.writes.take(user).await
    }
}

/// Uploads in progress, in total and per person. A request extension for handlers of uploads that identify the sender themselves.
#[derive(Clone)]
pub struct Uploads(pub Arc<Pool<UserId>>);

/// State that requests share while they are received and handled.
pub struct Intake {
    state: State,
    unsent: Unsent,
    bounds: BodyBounds,
    turns: Semaphore,
    person_turns: PersonTurns,
    compression: CompressionTurns,
    member_bytes: Arc<Pool<UserId>>,
    media_bytes: Arc<Pool<UserId>>,
    uploads: Arc<Pool<UserId>>,
    anonymous_bytes: Arc<Pool<IpAddr>>,
    networks: RequestTurns<IpAddr>,
    anonymous: RequestTurns<()>,
}

impl Intake {
    pub fn new(state: State, unsent: Unsent, bounds: BodyBounds) -> Arc<Self> {
        Arc::new(Self {
            state,
            unsent,
            turns: Semaphore::new(bounds.handled_max),
            person_turns: PersonTurns::new(&bounds),
            compression: CompressionTurns::default(),
            member_bytes: Pool::new(bounds.member_bytes),
            media_bytes: Pool::new(bounds.media_bytes),
            uploads: Pool::new(bounds.uploads),
            anonymous_bytes: Pool::new(bounds.anonymous_bytes),
            networks: RequestTurns::new(bounds.anonymous_per_network, &bounds),
            anonymous: RequestTurns::new(bounds.anonymous_max, &bounds),
            bounds,
        })
    }

    /// Client address of a request.
    pub fn client(&self, request: &Request) -> IpAddr {
        let trusted = &self.state.config.trusted_proxies;
        client_of(request.extensions(), request.headers(), trusted)
    }

    pub fn unsent(&self) -> &Unsent {
        &self.unsent
    }

    async fn turn(&self) -> Result<SemaphorePermit<'_>, ApiError> {
        let turn = tokio::time::timeout(self.bounds.handled_within, self.turns.acquire());
        match turn.await {
            Ok(Ok(turn)) => Ok(turn),
            _ => Err(ApiError::overloaded()),
        }
    }

    /// Handles a member's request in turn, and counts its answer. `held` is dropped when the request has been handled.
    ///
    /// # Errors
    /// 503 if no turn becomes available in time.
    async fn handle(
        &self,
        user: UserId,
        mut request: Request,
        held: impl Send + 'static,
        next: Next,
    ) -> Result<Response, ApiError> {
        let turns = &self.person_turns;
        let takes_turns = takes_turns(request.uri().path());
        let is_read = is_read(request.method());
        let turn = if takes_turns {
            request.extensions_mut().insert(turns.clone());
            None
        } else if is_read {
            Some(turns.read(user).await?)
        } else {
            Some(turns.write(user).await?)
        };
        let is_upgrade = request.headers().contains_key(header::UPGRADE);
        let state = self.state.clone();
        let handled = async move {
            let response = next.run(request).await;
            state.limits.answered(user, size_of(&response));
            drop((turn, held));
            response
        };
        if is_read && !takes_turns && !is_upgrade {
            self.heard_or_not(user, handled).await
        } else {
            Ok(handled.await)
        }
    }

    /// Runs a read in a task of its own, with everything that it holds, so that clients that disconnect early save nothing.
    async fn heard_or_not(
        &self,
        user: UserId,
        handled: impl Future<Output = Response> + Send + 'static,
    ) -> Result<Response, ApiError> {
        let (state, gone) = (self.state.clone(), CancellationToken::new());
        let _gone = gone.clone().drop_guard();
        let task = async move {
            let unheard = async {
                gone.cancelled().await;
                tokio::time::sleep(UNHEARD_WITHIN).await;
            };
            tokio::select! {
                biased;
                response = handled => Some(response),
                () = unheard => {
                    let size = AnswerSize::Built(ABORTED_BYTES);
                    state.limits.answered(user, size);
                    None
                }
            }
        };
        match self.state.tracker.spawn(task.in_current_span()).await {
            Ok(Some(response)) => Ok(response),
            Ok(None) => Err(ApiError::overloaded()),
            Err(ended) => match ended.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // The runtime is shutting down.
                Err(_) => Err(ApiError::overloaded()),
            },
        }
    }
}

/// Size of an answer for the rate limit.
fn size_of(response: &Response) -> AnswerSize {
    if response.extensions().get::<InProgram>().is_some() {
        return AnswerSize::Built(0);
    }
    if let Some(BuiltBytes(bytes)) = response.extensions().get() {
        return AnswerSize::Built(*bytes);
    }
    let headers = response.headers();
    let declared = headers.get(header::CONTENT_LENGTH);
    let declared = declared.and_then(|text| text.to_str().ok()?.parse().ok());
    let is_json = headers
        .get(header::CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"));
    match response.body().size_hint().exact() {
        // The answer to a HEAD request was built, but is not sent.
        Some(_) if is_json && declared.is_some() => AnswerSize::Built(declared.unwrap_or(0)),
        Some(exact) => AnswerSize::Built(exact),
        None => AnswerSize::Streamed(declared.unwrap_or(0)),
    }
}

/// Checks whether a route is public: it needs no session and ignores credentials.
pub fn is_for_anonymous(path: &str) -> bool {
    matches!(
        path,
        "/v1/auth/setup"
            | "/v1/auth/signup"
            | "/v1/auth/signup/passkey"
            | "/v1/auth/signup/passkey/options"
            | "/v1/auth/handle"
            | "/v1/auth/login"
            | "/v1/auth/reset"
            | "/v1/auth/reset/confirm"
            | "/v1/mail/confirm"
            | "/v1/mail/unsubscribe"
            | "/v1/auth/sign-in-link"
            | "/v1/auth/methods"
            | "/v1/auth/second-factor"
            | "/v1/auth/passkey"
            | "/v1/auth/passkey/options"
    ) || path.starts_with("/v1/invites/")
        || path.starts_with("/v1/auth/oidc/")
}

/// Checks whether a route belongs to the API; other routes accept no body.
pub fn is_api(path: &str) -> bool {
    path.starts_with("/v1/") || is_mcp(path)
}

/// Maximum size of a member's body. Requests to models can contain pictures and files, and a comparison with a vector store names up to
/// 10,000 files.
fn member_bytes_max(path: &str) -> usize {
    if calls_model(path) {
        MEDIA_BYTES_MAX
    } else if is_sync(path) {
        SYNC_BYTES_MAX
    } else {
        MEMBER_BYTES_MAX
    }
}

fn calls_model(path: &str) -> bool {
    matches!(path, "/v1/responses" | "/v1/chat/completions")
}

/// Checks whether a route's handlers take turns themselves. An MCP request can be a read or a write. A request that calls a model
/// releases its turn before the call, and waits for a slot at the model server instead.
fn takes_turns(path: &str) -> bool {
    is_mcp(path) || calls_model(path)
}

fn is_read(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}

/// Checks whether a request is an upload. Uploads are too large for memory, so their handler streams them.
fn is_upload(request: &Request) -> bool {
    let path = request.uri().path();
    let is_piece = path.starts_with("/v1/imports/") && path.ends_with("/archive");
    match *request.method() {
        Method::POST => path == "/v1/files" || path.starts_with(UPLOADS_PATH),
        Method::PUT => is_piece || is_collection_upload(path),
        _ => false,
    }
}

/// Limits the number of requests that are handled concurrently. Additional requests wait for a limited time.
pub async fn limit_concurrency(
    FromState(intake): FromState<Arc<Intake>>,
    request: Request,
    next: Next,
) -> Response {
    // The duration of an upload depends on its sender, so uploads have their own limit per person.
    if is_upload(&request) {
        return next.run(request).await;
    }
    match intake.turn().await {
        Ok(_turn) => next.run(request).await,
        Err(error) => error.into_response(),
    }
}

/// Identifies the sender of a request, then reads the body.
pub async fn receive(
    FromState(intake): FromState<Arc<Intake>>,
    request: Request,
    next: Next,
) -> Response {
    let address = intake.client(&request);
    let mut holder = Holder::address(address);
    let received = intake.receive(&mut holder, address, request, next).await;
    let mut response = received.unwrap_or_else(IntoResponse::into_response);
    response.extensions_mut().insert(holder);
    response
}

impl Intake {
    async fn receive(
        &self,
        holder: &mut Holder,
        address: IpAddr,
        mut request: Request,
        next: Next,
    ) -> Result<Response, ApiError> {
        if !is_api(request.uri().path()) {
            if is_upload(&request) {
                let uploads = Uploads(Arc::clone(&self.uploads));
                request.extensions_mut().insert(uploads);
            }
            return Ok(next.run(request).await);
        }
        let path = request.uri().path();
        if is_for_runner(path) {
            return Ok(next.run(request).await);
        }
        if path.starts_with(PROBE_PATH) && !request.body().is_end_stream() {
            // Discarded while it arrives, if the handler knows the nonce.
            let _turn = self.networks.take(net_of(address)).await?;
            return Ok(next.run(request).await);
        }
        let for_anonymous = is_for_anonymous(path);
        let (mut parts, body) = request.into_parts();
        let caller = if for_anonymous || token_of(&parts.headers).is_none() {
            Err(AuthError::NotAuthenticated.into())
        } else {
            let _turn = self.turn().await?;
            Caller::from_request_parts(&mut parts, &self.state).await
        };
        let doing = doing(&parts.method, parts.uri.path());
        let caller = match caller {
            Ok(caller) => Some(caller.user),
            Err(error) if !error.is_unauthenticated() => return Err(error),
            // Handlers that need a caller reject the request themselves; WebSockets use a close code.
            Err(_) if body.is_end_stream() || for_anonymous => {
                if !for_anonymous {
                    parts.extensions.insert(Unidentified);
                }
                None
            }
            Err(error) => return Err(error),
        };
        *holder = caller.map_or(*holder, Holder::Person);
        if self.unsent.has_used_up(holder) {
            return Err(ApiError::exhausted(Exhausted::Share, "unsent"));
        }
        parts.extensions.insert(self.compression.of(*holder));
        let request = Request::from_parts(parts, body);
        if request.body().is_end_stream() {
            return match caller {
                Some(user) => self.handle(user, request, (), next).await,
                None => Ok(next.run(request).await),
            };
        }
        match caller {
            Some(user) if is_upload(&request) => {
                let _upload = take(&self.uploads, user, 1)?;
                Ok(pass_body(request, next, self.bounds.member_within).await)
            }
            Some(user) => {
                let path = request.uri().path();
                let pool = if calls_model(path) {
                    &self.media_bytes
                } else {
                    &self.member_bytes
                };
                let room = take(pool, user, 0)?;
                let within = self.bounds.member_within;
                let bytes_max = member_bytes_max(path);
                let (request, room) = read(request, room, bytes_max, within).await?;
                // Pictures count as much as the largest other body: the share of memory limits them.
                let counted = room.amount().min(MEMBER_BYTES_MAX as u64);
                self.state.limits.body(user, doing, counted)?;
                self.handle(user, request, room, next).await
            }
            None => {
                let network = net_of(address);
                // The network's turn comes first, so that only a few of the requests that wait for the anonymous turn are from the
                // same network. The anonymous turn comes after the body has been read, so that slow senders do not hold it.
                let _network_turn = self.networks.take(network).await?;
                let room = take(&self.anonymous_bytes, network, 0)?;
                let within = self.bounds.anonymous_within;
                let (request, room) = read(request, room, ANONYMOUS_BYTES_MAX, within).await?;
                self.state.limits.anonymous_body(address, room.amount())?;
                let _turn = self.anonymous.take(()).await?;
                Ok(next.run(request).await)
            }
        }
    }
}

/// Reserves memory for the response. If not enough memory is left, a read with a large response gets an error instead; the response
/// to a write is always sent.
pub async fn reserve(
    axum::extract::State(intake): axum::extract::State<Arc<Intake>>,
    request: Request,
    next: Next,
) -> Response {
    let address = intake.client(&request);
    let is_get = is_read(request.method());
    let mut response = next.run(request).await;
    let reads = is_get || response.extensions().get::<ReadOnly>().is_some();
    let holder = response.extensions().get::<Holder>().copied();
    let holder = holder.unwrap_or(Holder::address(address));
    let bytes = bytes_of(&response);
    let permit = if reads && bytes > SMALL_BYTES_MAX {
        match intake.unsent().take(holder, bytes) {
            Ok(permit) => permit,
            Err(exhausted) => return ApiError::exhausted(exhausted, "unsent").into_response(),
        }
    } else {
        intake.unsent().force(holder, bytes)
    };
    let reservation: Reservation = Arc::new(permit);
    response.extensions_mut().insert(reservation);
    response
}
