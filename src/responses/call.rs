//! The lifecycle of one call: calling the model, sending progress to the client, and storing the result.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_openai::types::responses::{OutputStatus, ResponseStreamEvent};
use futures::StreamExt;
use tokio::{sync::mpsc, time::Instant};
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::Instrument;

use super::{
    CallPermit, Plan, ResponseError, ResponsesService,
    conversation::{
        Conversation, ROUNDS_SHARE, fixed_tokens, leave_out_results, prompt_tokens_max, turn_tokens,
    },
    draft::{Draft, Held},
    ignored,
    kept_rounds::{self, ServerRounds},
    marks::Handles,
    media::cannot_see,
    object::{
        Fault, FaultCode, IncompleteDetails, MaxOutputTokens, Response, ResponseUsage, Status,
    },
    plan::Wish,
    server_functions::ServerFunctions,
    store::{self, NewRow},
};
use crate::{
    agents::profiles::MAX_OUTPUT_TOKENS_DEFAULT,
    code,
    db::{Conn, DbError, now},
    failpoint,
    ids::TaskId,
    model::{
        ChatMessage, ChatRequest, Delta, ModelError, PictureUse, Place, Refused, Role, StopReason,
        ToolCall, ToolCallPiece, ToolChoice, ToolResult, Usage, VendorMembers, estimate_tokens,
    },
    replies::retry::with_jitter,
    responses::form::Truncation,
    tasks::{
        TaskError, TaskKind, TaskOutput, TaskStatus, TokenUsage, budgets,
        calls::{CallTask, NewCall, OpenCall, Purpose},
        queue,
    },
    time::Timestamp,
};

/// Capacity of the progress queue. If a slow client lets the queue fill up, the model stream waits too.
const PROGRESS_MAX: usize = 64;
/// Maximum total wait for an unavailable model within one call; clients have their own timeouts.
const RETRY_WAIT_MAX: Duration = Duration::from_secs(6);
/// Maximum number of marks of passages in a response that are checked; additional ones are removed.
const PASSAGE_MARKS_MAX: usize = 200;
/// Maximum time that calls continue after shutdown starts.
const DRAIN: Duration = Duration::from_secs(4);

/// Delivery of the response to the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// In one piece, when it is complete.
    Whole,
    /// As a stream of events.
    Stream,
}

/// Progress of a call.
#[derive(Debug)]
pub enum Progress {
    /// The model accepted the request; sent at most once.
    Connected,
    /// An event of the response; sent only if the client requested a stream.
    Event(Box<ResponseStreamEvent>),
    /// The end of the call; always sent last.
    Ended(Box<Ended>),
}

/// The end of a call, after it has been recorded.
#[derive(Debug)]
pub struct Ended {
    /// The response; partial if the call failed.
    pub response: Response,
    pub error: Option<ResponseError>,
}

/// Paths of ignored parts of a request.
#[derive(Debug, Clone, Default)]
pub struct IgnoredPaths(Arc<Mutex<Vec<String>>>);

impl IgnoredPaths {
    fn lock(&self) -> MutexGuard<'_, Vec<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the value of the header `OpenVibe-Ignored`, or `None` if nothing was ignored so far.
    pub fn header(&self) -> Option<String> {
        ignored::header_of(&self.lock())
    }
}

/// A running call. Dropping it cancels the model's reply.
pub struct Call {
    /// The initial response object.
    pub begun: Response,
    /// Ignored parts of the request. Settings that the model's server rejects are added when it accepts the request without them.
    pub ignored: IgnoredPaths,
    /// Parts of the agent that the call does not use.
    pub agent_limits: Vec<&'static str>,
    progress: mpsc::Receiver<Progress>,
    _open: DropGuard,
}

impl Call {
    /// Returns the next progress of the call, or `None` after the end.
    pub async fn next(&mut self) -> Option<Progress> {
        self.progress.recv().await
    }
}

impl Response {
    /// Returns the response object for a failed call.
    #[must_use]
    pub fn failed(self, error: &ResponseError) -> Self {
        Self {
            status: Status::Failed,
            error: Some(Fault {
                code: match error {
                    ResponseError::Model(ModelError::RateLimited { .. }) => {
                        FaultCode::RateLimitExceeded
                    }
                    busy if busy.is_busy() => FaultCode::RateLimitExceeded,
                    ResponseError::ContextTooLarge { .. }
                    | ResponseError::Model(ModelError::ContextTooLarge) => {
                        FaultCode::ContextLengthExceeded
                    }
                    ResponseError::ModelNotFound(_) => FaultCode::ModelNotFound,
                    ResponseError::Refused(..) | ResponseError::Unsupported(..) => {
                        FaultCode::InvalidPrompt
                    }
                    ResponseError::OverBudget(_) => FaultCode::InsufficientQuota,
                    _ => FaultCode::ServerError,
                },
                message: error.public_text(),
            }),
            ..self
        }
    }
}

/// End of the model's reply.
struct Answered {
    reason: StopReason,
    usage: Option<Usage>,
    /// The last round.
    round: Round,
    /// Results of those calls of the last round that ran on the server.
    results: Vec<ToolResult>,
}

/// Text and calls of one reply of the model.
#[derive(Default)]
struct Round {
    text: String,
    calls: Vec<RoundCall>,
    /// Members that the model's server wants back with the calls.
    vendor: VendorMembers,
}

/// A call of a reply.
enum RoundCall {
    /// The client runs it. Contains its position among the client's calls of the response.
    Client(usize),
    Server(ToolCall),
}

impl Round {
    fn server_calls(&self) -> Vec<ToolCall> {
        let calls = self.calls.iter().filter_map(|call| match call {
            RoundCall::Server(call) => Some(call.clone()),
            RoundCall::Client(_) => None,
        });
        calls.collect()
    }

    fn has_client_calls(&self) -> bool {
        let is_clients = |call: &RoundCall| matches!(call, RoundCall::Client(_));
        self.calls.iter().any(is_clients)
    }

    /// Returns the members that belong to the client's calls.
    fn client_members(&self) -> VendorMembers {
        let calls = self.calls.iter().zip(&self.vendor.calls);
        let calls = calls.filter(|(call, _)| matches!(call, RoundCall::Client(_)));
        VendorMembers {
            message: self.vendor.message.clone(),
            calls: calls.map(|(_, members)| members.clone()).collect(),
        }
    }
}

/// Adds the counts of two replies.
fn sum(one: Option<Usage>, other: Option<Usage>) -> Option<Usage> {
    let (Some(one), Some(other)) = (one, other) else {
        return one.or(other);
    };
    Some(Usage {
        input_tokens: one.input_tokens + other.input_tokens,
        output_tokens: one.output_tokens + other.output_tokens,
        cached_tokens: one.cached_tokens + other.cached_tokens,
        cache_write_tokens: one.cache_write_tokens + other.cache_write_tokens,
        reasoning_tokens: one.reasoning_tokens + other.reasoning_tokens,
    })
}

/// Removes the results of searches: the texts, names, and attributes of files are not kept with a response, because files can be deleted
/// or hidden.
fn forget_results(response: &mut serde_json::Value) {
    let items = response["output"].as_array_mut();
    for item in items.into_iter().flatten() {
        if let Some(item) = item.as_object_mut()
            && item
                .get("type")
                .is_some_and(|kind| kind == "file_search_call")
        {
            item.remove("results");
        }
    }
}

/// A call in progress.
struct Job {
    service: Arc<ResponsesService>,
    plan: Plan,
    delivery: Delivery,
    progress: mpsc::Sender<Progress>,
    draft: Draft,
    /// ID of the task that is recorded at the end.
    task: TaskId,
    attempt: i64,
    permit: Option<CallPermit>,
    /// The model call that is running.
    open: Option<OpenCall>,
    /// True if an answer contained only reasoning, so that a default output limit is doubled.
    has_only_thought: bool,
    /// Functions that the model's server has rejected.
    refused: Vec<Refused>,
    /// Number of the current round, starting at 1.
    round: i64,
    /// Number of turns of earlier rounds at the end of the request.
    round_turns: usize,
    /// Usage of the earlier rounds.
    spent: Option<TokenUsage>,
    /// Number of marks of passages that were checked.
    passage_marks: usize,
    is_connected: bool,
    ignored: IgnoredPaths,
    started_at: Timestamp,
}

impl ResponsesService {
    /// Starts a call, which first waits for a permit.
    pub fn begin(self: &Arc<Self>, plan: Plan, delivery: Delivery) -> Call {
        let (progress, receiver) = mpsc::channel(PROGRESS_MAX);
        let open = CancellationToken::new();
        let begun = plan.response.clone();
        let agent_limits = plan.agent_limits.clone();
        let ignored = IgnoredPaths(Arc::new(Mutex::new(plan.ignored.clone())));
        let mut draft = Draft::new(plan.response.id);
        if let Some(functions) = &plan.functions {
            draft.set_handles(functions.handles().clone());
        }
        let job = Job {
            service: Arc::clone(self),
            draft,
            plan,
            delivery,
            progress,
            task: TaskId::new(),
            attempt: 0,
            permit: None,
            open: None,
            has_only_thought: false,
            refused: Vec::new(),
            round: 1,
            round_turns: 0,
            spent: None,
            passage_marks: 0,
            is_connected: false,
            ignored: ignored.clone(),
            started_at: now(),
        };
        let gone = open.clone();
        let span = tracing::info_span!(
            "response",
            response.id = %job.plan.response.id,
            workspace.id = %job.plan.workspace,
            agent.id = job.plan.agent.map(|(agent, _)| tracing::field::display(agent)),
        );
        self.tracker.spawn(job.work(gone).instrument(span));
        Call {
            begun,
            ignored,
            agent_limits,
            progress: receiver,
            _open: open.drop_guard(),
        }
    }
}

impl Job {
    async fn work(mut self, gone: CancellationToken) {
        let shutdown = self.service.shutdown.clone();
        let stopping = async {
            shutdown.cancelled().await;
            tokio::time::sleep(DRAIN).await;
        };
        let answered = tokio::select! {
            biased;
            () = gone.cancelled() => Err(ResponseError::Gone),
            () = stopping => Err(ResponseError::Stopping),
            answered = self.answer() => answered,
        };
        let has_failed = matches!(&answered, Err(error) if !matches!(error, ResponseError::Gone));
        let answered = match (self.end_call(has_failed).await, answered) {
            (Ok(usage), Ok(answered)) => Ok((answered, usage.plus(self.spent.take()))),
            (_, Err(error)) | (Err(error), _) => Err(error),
        };
        let (response, error) = match answered {
            Ok((answered, usage)) => self.complete(&answered, usage).await,
            Err(error) => self.give_up(error).await,
        };
        let ended = Ended { response, error };
        // Fails if the client has disconnected.
        drop(self.tell(Progress::Ended(Box::new(ended))).await);
    }

    /// Sends progress to the client. A client that reads nothing for `task_timeout` counts as disconnected.
    async fn tell(&self, progress: Progress) -> Result<(), ResponseError> {
        let sent =
            tokio::time::timeout(self.service.task_timeout, self.progress.send(progress)).await;
        match sent {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(ResponseError::Gone),
        }
    }

    async fn tell_all(&self, events: Vec<ResponseStreamEvent>) -> Result<(), ResponseError> {
        if self.delivery == Delivery::Stream {
            for event in events {
                self.tell(Progress::Event(Box::new(event))).await?;
            }
        }
        Ok(())
    }

    /// Calls the model until it replies without calls of functions that run on the server.
    async fn answer(&mut self) -> Result<Answered, ResponseError> {
        let (workspace, user) = (self.plan.workspace, self.plan.caller.user);
        let permit = self.service.slots.take(workspace, user, self.plan.tenancy);
        self.permit = Some(permit.await?);
        let mut counted = None;
        loop {
            let mut answered = self.answer_round().await?;
            answered.usage = sum(counted, answered.usage);
            let calls = answered.round.server_calls();
            if calls.is_empty() {
                return Ok(answered);
            }
            let functions = self.plan.functions.as_ref();
            if functions.is_none_or(ServerFunctions::are_used_up) {
                // The model was told not to call functions.
                if self.draft.is_empty() {
                    return Err(ResponseError::Model(ModelError::Empty));
                }
                return Ok(answered);
            }
            // The model's server is not busy while functions run.
            let usage = self.end_call(false).await?;
            self.spent = Some(usage.plus(self.spent.take()));
            if answered.round.has_client_calls() {
                answered.results = self.run_functions(&calls).await?;
                return Ok(answered);
            }
            counted = answered.usage;
            self.begin_round(answered.round, calls).await?;
        }
    }

    async fn run_functions(
        &mut self,
        calls: &[ToolCall],
    ) -> Result<Vec<ToolResult>, ResponseError> {
        let Some(functions) = &mut self.plan.functions else {
            return Ok(Vec::new());
        };
        let results = functions.run(calls).await?;
        let searched = functions.take_searched();
        if !searched.is_empty() {
            // A search ends the message before it.
            let mut events = self.annotate().await;
            for search in searched {
                events.extend(self.draft.add_search(search));
            }
            self.tell_all(events).await?;
        }
        Ok(results)
    }

    /// Checks the marks of passages before more text is written.
    async fn check_passages(&mut self, held: Held) -> Vec<ResponseStreamEvent> {
        let mut events = Vec::new();
        while let Some((text, mark)) = self.draft.pending() {
            let mut cited = Vec::new();
            if self.passage_marks < PASSAGE_MARKS_MAX
                && let Some(functions) = &self.plan.functions
            {
                self.passage_marks += 1;
                let found = self.service.cited_passages(functions.task(), text, mark);
                match found.await {
                    Ok(found) => cited = found,
                    Err(e) => {
                        tracing::warn!(error = %e, "the citations of a response could not be checked");
                    }
                }
            }
            events.extend(self.draft.cite(cited, held));
        }
        events
    }

    /// Writes the text that is held back.
    async fn release_held(&mut self) -> Vec<ResponseStreamEvent> {
        let mut events = self.draft.release_held();
        events.extend(self.check_passages(Held::Nothing).await);
        events
    }

    /// Runs the functions of a round, and adds the round to the request.
    async fn begin_round(
        &mut self,
        round: Round,
        calls: Vec<ToolCall>,
    ) -> Result<(), ResponseError> {
        let results = self.run_functions(&calls).await?;
        let (mut handles, mut is_last) = (Handles::default(), true);
        if let Some(functions) = &self.plan.functions {
            handles.clone_from(functions.handles());
            is_last = functions.are_used_up();
        }
        let mut events = self.release_held().await;
        events.extend(self.draft.begin_round(handles));
        self.tell_all(events).await?;
        let request = &mut self.plan.request;
        request.turns.push(ChatMessage {
            calls,
            vendor: round.vendor,
            ..ChatMessage::new(Role::Assistant, round.text)
        });
        request.turns.push(ChatMessage {
            results,
            ..ChatMessage::new(Role::User, "")
        });
        // The model has made a call, which fulfills any other choice.
        request.tool_choice = if is_last {
            ToolChoice::None
        } else {
            ToolChoice::Auto
        };
        self.round += 1;
        self.attempt = 0;
        self.round_turns += 2;
        self.fit_rounds().await;
        Ok(())
    }

    /// Leaves out the oldest results of earlier rounds if they do not fit into their share of the window.
    async fn fit_rounds(&mut self) {
        let window = self.service.provider.window(&self.plan.request.model).await;
        let request = &mut self.plan.request;
        let from = request.turns.len().saturating_sub(self.round_turns);
        let tokens_max = window.estimate_for(window.tokens / ROUNDS_SHARE);
        leave_out_results(&mut request.turns[from..], tokens_max);
        let fixed = fixed_tokens(request) + estimate_tokens(&self.plan.briefing);
        let turns = request.turns.iter().map(turn_tokens).sum::<u64>();
        self.plan.prompt_tokens = window.corrected(fixed + turns);
        if window.known_tokens().is_some() {
            request.max_output_tokens = request
                .max_output_tokens
                .map(|limit| window.output_limit(limit, self.plan.prompt_tokens));
        }
    }

    /// Calls the model until it replies. Failed calls are retried after short waits, as long as nothing has been sent to the client.
    async fn answer_round(&mut self) -> Result<Answered, ResponseError> {
        let mut delays = self.service.retry_delays.clone().into_iter();
        let mut waited = Duration::ZERO;
        let (mut shortened, mut changed_model) = (false, false);
        loop {
            self.attempt += 1;
            let error = match self.call().await {
                Ok(answered) => {
                    let refused = std::mem::take(&mut self.refused);
                    if !refused.is_empty() {
                        let model = &self.plan.request.model;
                        self.service.provider.note_refused(model, &refused).await;
                    }
                    return Ok(answered);
                }
                Err(error) => error,
            };
            self.end_call(true).await?;
            // The provider's message is not logged because it may repeat the prompt.
            tracing::info!(
                attempt = self.attempt,
                code = %error.task_code(),
                "a model call failed"
            );
            let ResponseError::Model(failed) = error else {
                return Err(error);
            };
            let may_retry = self.draft.is_round_empty();
            match failed {
                ModelError::Unavailable(_) | ModelError::Broken(_) if may_retry => {
                    let delay = delays
                        .next()
                        .filter(|delay| waited + *delay <= RETRY_WAIT_MAX);
                    let Some(delay) = delay else {
                        return Err(ResponseError::Model(failed));
                    };
                    tokio::time::sleep(with_jitter(delay)).await;
                    waited += delay;
                }
                ModelError::ContextTooLarge if may_retry => {
                    if shortened
                        || self.plan.response.truncation != Truncation::Auto
                        || !self.shorten().await
                    {
                        return Err(self.too_large().await);
                    }
                    shortened = true;
                }
                ModelError::ContextTooLarge => return Err(self.too_large().await),
                ModelError::ModelMissing(detail) => {
                    if changed_model || !may_retry || !self.change_model().await {
                        return Err(self.missing(&detail).await);
                    }
                    changed_model = true;
                }
                // A limit that the client or the agent sets is not exceeded.
                ModelError::ThoughtOnly { .. }
                    if may_retry
                        && !self.has_only_thought
                        && self.plan.request.max_output_tokens.is_none() =>
                {
                    self.has_only_thought = true;
                }
                ModelError::ThoughtOnly { .. } => {
                    return Ok(Answered {
                        reason: StopReason::Length,
                        usage: None,
                        round: Round::default(),
                        results: Vec::new(),
                    });
                }
                ModelError::ToolsRefused { detail, function } => {
                    if !may_retry || !self.leave_out(function.as_deref(), &detail) {
                        return Err(self.refused(&detail));
                    }
                }
                ModelError::BadRequest(detail) => return Err(self.refused(&detail)),
                other => return Err(ResponseError::Model(other)),
            }
        }
    }

    /// Leaves out the agent's function that the model's server has rejected, or all of them. Returns false if none is left, so that
    /// the server has rejected the client's.
    fn leave_out(&mut self, named: Option<&str>, reason: &str) -> bool {
        let Some(functions) = &mut self.plan.functions else {
            return false;
        };
        let refused = functions.leave_out(named, reason);
        let request = &mut self.plan.request;
        let is_refused = |name: &str| refused.iter().any(|of| of.definition.name == name);
        request.tools.retain(|tool| !is_refused(&tool.name));
        request.tools_required = self.plan.needs_tools || functions.definitions().next().is_some();
        let shown = &mut self.plan.response.tools;
        shown.truncate(self.plan.client_tools);
        shown.extend(functions.tools());
        let has_fewer = !refused.is_empty();
        self.refused.extend(refused);
        has_fewer
    }

    async fn too_large(&self) -> ResponseError {
        let model = &self.plan.request.model;
        ResponseError::ContextTooLarge {
            window: self.service.provider.window(model).await.known_tokens(),
        }
    }

    /// Chooses a model from the server's new list, unless the client named the model. Returns true if the model has changed.
    async fn change_model(&mut self) -> bool {
        let Wish::Agent(wanted) = &self.plan.wish else {
            return false;
        };
        let provider = &self.service.provider;
        let model = provider.choose_model(wanted.as_deref()).await;
        let is_other = model != self.plan.request.model;
        self.plan.response.model.clone_from(&model);
        self.plan.request.model = model;
        is_other
    }

    /// Returns the error for a server that lacks the model or claims to lack it.
    async fn missing(&self, detail: &str) -> ResponseError {
        let model = &self.plan.request.model;
        let is_named = matches!(self.plan.wish, Wish::Client);
        // A server that still lists the model rejected the request for another reason.
        if is_named && !self.service.provider.lists_model(model).await {
            return ResponseError::ModelNotFound(model.clone());
        }
        self.refused(detail)
    }

    fn refused(&self, detail: &str) -> ResponseError {
        let request = &self.plan.request;
        let needs_pictures = request.pictures == PictureUse::Required;
        if needs_pictures && !self.service.provider.takes_pictures(&request.model) {
            return cannot_see("input", &request.model);
        }
        let lower = detail.to_lowercase();
        let mentions = |words: &[&str]| words.iter().any(|word| lower.contains(word));
        let param = if !request.tools.is_empty() && mentions(&["tool"]) {
            "tools"
        } else if request.required_format.is_some()
            && mentions(&["response_format", "response format", "json", "schema"])
        {
            "text.format"
        } else if !request.stop.is_empty() && mentions(&["stop"]) {
            "stop"
        } else {
            ""
        };
        let text = format!(
            "the model `{}` refused the request: {detail}",
            request.model
        );
        ResponseError::Refused(text, param)
    }

    /// Drops the older half of the conversation, or more if the error revealed a smaller window. Returns true if anything was
    /// dropped.
    async fn shorten(&mut self) -> bool {
        let request = &self.plan.request;
        let window = self.service.provider.window(&request.model).await;
        let fixed = fixed_tokens(request) + estimate_tokens(&self.plan.briefing);
        let room = prompt_tokens_max(window.tokens, request.max_output_tokens);
        let room = window.estimate_for(room).saturating_sub(fixed);
        let mut conversation = Conversation {
            system: Vec::new(),
            turns: std::mem::take(&mut self.plan.request.turns),
        };
        let before = (conversation.turns.len(), conversation.tokens());
        conversation.shorten(room.min(before.1 / 2));
        let after = conversation.tokens();
        self.plan.request.turns = conversation.turns;
        // Rounds consist of two turns, and the first turn is the user's.
        let others = self.plan.request.turns.len().saturating_sub(1);
        self.round_turns = self.round_turns.min(others / 2 * 2);
        self.plan.prompt_tokens = window.corrected(fixed + after);
        self.plan.request.max_output_tokens = self
            .plan
            .request
            .max_output_tokens
            .map(|limit| window.output_limit(limit, self.plan.prompt_tokens));
        after < before.1
    }

    /// Calls the model once and streams its reply.
    async fn call(&mut self) -> Result<Answered, ResponseError> {
        let service = Arc::clone(&self.service);
        let silent = |_| ResponseError::Timeout;
        let (open, place, output_tokens_max) = self.reserve().await?;
        let mut request = ChatRequest {
            place,
            max_output_tokens: Some(output_tokens_max),
            ..self.plan.request.clone()
        };
        if let Some(first) = request.turns.first_mut()
            && !self.plan.briefing.is_empty()
        {
            first.prepend(&format!("{}\n\n", self.plan.briefing));
        }
        self.draft.forget_held();
        // Waiting for a slot or a budget does not count toward the model's timeout.
        let started = Instant::now();
        let deadline = started + service.attempt_max;
        let patience = deadline.min(started + service.task_timeout);
        let open = self.open.insert(open);
        let connecting = open.stream(request);
        let connected = tokio::time::timeout_at(patience, connecting).await;
        let mut stream = connected.map_err(silent)?.map_err(ResponseError::Model)?;
        if !std::mem::replace(&mut self.is_connected, true) {
            self.note_unsent();
            self.tell(Progress::Connected).await?;
        }
        let (mut stopped, mut usage, mut round) = (None, None, Round::default());
        let mut patience = patience;
        while let Some(delta) = tokio::time::timeout_at(patience, stream.next())
            .await
            .map_err(silent)?
        {
            let events = match delta.map_err(ResponseError::Model)? {
                Delta::Text(piece) => {
                    round.text.push_str(&piece);
                    let mut events = self.draft.say(&piece);
                    events.extend(self.check_passages(Held::PossibleMark).await);
                    events
                }
                Delta::ToolCall(piece) => {
                    let mut events = if piece.begins.is_some() {
                        self.release_held().await
                    } else {
                        Vec::new()
                    };
                    events.extend(self.take_call(&mut round, piece));
                    events
                }
                Delta::Usage(counted) => {
                    usage = Some(counted);
                    continue;
                }
                Delta::Stop(reason) => {
                    stopped = Some(reason);
                    continue;
                }
                Delta::Discard => {
                    round.text.clear();
                    self.draft.discard();
                    continue;
                }
                Delta::Vendor(members) => {
                    round.vendor = members;
                    continue;
                }
                Delta::Alive => continue,
            };
            failpoint!("response_piece");
            self.tell_all(events).await?;
            patience = deadline.min(Instant::now() + service.task_timeout);
        }
        let reason = stopped.ok_or_else(|| {
            ResponseError::Model(ModelError::Broken("the stream ended early".to_owned()))
        })?;
        if self.draft.is_empty() && round.calls.is_empty() {
            return Err(ResponseError::Model(ModelError::Empty));
        }
        Ok(Answered {
            reason,
            usage,
            round,
            results: Vec::new(),
        })
    }

    /// Checks whether the server handles calls of a function: one of the agent, or one that does not exist.
    fn is_servers(&self, called: &str) -> bool {
        let Some(functions) = &self.plan.functions else {
            return false;
        };
        let mut offered = self.plan.request.tools.iter();
        functions.name_of(called).is_some() || !offered.any(|tool| tool.name == called)
    }

    /// Adds a piece of a call to the round, and to the output if the client runs the call.
    fn take_call(&mut self, round: &mut Round, piece: ToolCallPiece) -> Vec<ResponseStreamEvent> {
        let ToolCallPiece {
            index,
            begins,
            arguments,
        } = piece;
        let mut handed_out = None;
        if let Some(head) = begins {
            let called = head.name.clone();
            let is_servers = self.is_servers(&called);
            let head = self.plan.client_calls.hand_out(head);
            if is_servers {
                round.calls.push(RoundCall::Server(ToolCall {
                    id: head.id,
                    name: called,
                    arguments: String::new(),
                }));
            } else {
                let at = self.draft.calls().count();
                round.calls.push(RoundCall::Client(at));
                handed_out = Some(head);
            }
        }
        match round.calls.get_mut(index) {
            Some(RoundCall::Server(call)) => {
                call.arguments.push_str(&arguments);
                Vec::new()
            }
            Some(RoundCall::Client(at)) => self.draft.call(ToolCallPiece {
                index: *at,
                begins: handed_out,
                arguments,
            }),
            None => Vec::new(),
        }
    }

    /// Adds the settings of the request that were not sent, because the model does not support them, to the ignored parts.
    fn note_unsent(&self) {
        let unsent = self.service.provider.unsent(&self.plan.request);
        let settings = self.plan.settings.iter();
        let paths = settings.filter(|(field, _)| unsent.contains(field));
        self.ignored
            .lock()
            .extend(paths.map(|(_, path)| (*path).to_owned()));
    }

    /// Waits for a slot at the model server and for room in the budgets, and stores the call. Also returns the output limit.
    async fn reserve(&self) -> Result<(OpenCall, Place, u32), ResponseError> {
        let service = &self.service;
        let until = Instant::now() + budgets::WAIT_MAX;
        loop {
            let place = tokio::time::timeout(service.attempt_max, service.provider.place())
                .await
                .map_err(|_| ResponseError::Timeout)?;
            let new = self.new_call().await;
            let output_tokens_max = new.output_tokens_max;
            let begun = service.calls.begin(&service.provider, new, Duration::ZERO);
            match begun.await? {
                Ok(open) => return Ok((open, place, output_tokens_max)),
                Err(over) if over.can_wait && Instant::now() < until => {
                    // Other calls can use the slot in the meantime.
                    drop(place);
                    tokio::time::sleep(budgets::RESERVED_EVERY).await;
                }
                Err(over) => {
                    if let Some(turn) = self.plan.caller.turn {
                        let workspace = self.plan.workspace;
                        code::end_over_budget(&service.db, workspace, turn, over.clone()).await?;
                    }
                    return Err(ResponseError::OverBudget(over));
                }
            }
        }
    }

    async fn new_call(&self) -> NewCall {
        NewCall {
            workspace: self.plan.workspace,
            task: Some(CallTask {
                id: self.task,
                root: self.task,
                attempt: self.attempt,
                round: self.round,
            }),
            purpose: Purpose::Response,
            user: self.plan.caller.user,
            agent: self
                .plan
                .agent
                .map(|(agent, _)| agent)
                .or(self.plan.turn_agent),
            model: self.plan.request.model.clone(),
            prompt_tokens: self.plan.prompt_tokens,
            output_tokens_max: self.output_tokens_max().await,
        }
    }

    /// Returns the output limit of the request or the agent, or the default for agents if neither sets a limit. Without a limit, no
    /// budget could be reserved.
    async fn output_tokens_max(&self) -> u32 {
        let request = &self.plan.request;
        if let Some(limit) = request.max_output_tokens {
            return limit;
        }
        let window = self.service.provider.window(&request.model).await;
        let limit = MAX_OUTPUT_TOKENS_DEFAULT.saturating_add(window.reasoning_tokens);
        let limit = if self.has_only_thought {
            limit.saturating_mul(2)
        } else {
            limit
        };
        match window.known_tokens() {
            Some(_) => window.output_limit(limit, self.plan.prompt_tokens),
            None => limit,
        }
    }

    /// Ends the running model call and returns its usage, which is zero if no call is running.
    async fn end_call(&mut self, has_failed: bool) -> Result<TokenUsage, ResponseError> {
        let Some(open) = self.open.take() else {
            return Ok(TokenUsage::none(&self.plan.request.model));
        };
        if has_failed {
            open.fail();
        }
        Ok(open.end().await?)
    }

    /// Completes the output items, and stores the response and its task before the client learns that the call has ended, so that the
    /// response can be continued immediately.
    async fn complete(
        &mut self,
        answered: &Answered,
        usage: TokenUsage,
    ) -> (Response, Option<ResponseError>) {
        let is_cut = answered.reason == StopReason::Length;
        let (status, items) = if is_cut {
            (Status::Incomplete, OutputStatus::Incomplete)
        } else {
            (Status::Completed, OutputStatus::Completed)
        };
        let mut events = self.annotate().await;
        events.extend(self.draft.end(items));
        let response = Response {
            status,
            completed_at: (!is_cut).then(|| now().unix_s()),
            incomplete_details: is_cut.then_some(IncompleteDetails {
                reason: MaxOutputTokens,
            }),
            output: self.draft.items().to_vec(),
            usage: Some(ResponseUsage::new(&usage, answered.usage)),
            vendor: answered.round.client_members(),
            ..self.plan.response.clone()
        };
        // If the client has disconnected by now, the call still counts as completed.
        drop(self.tell_all(events).await);
        failpoint!("response_answered");
        let output = TaskOutput {
            response_id: Some(response.id),
            response_length: i64::try_from(self.draft.text().encode_utf16().count())
                .unwrap_or(i64::MAX),
            ..TaskOutput::default()
        };
        let task = queue::Call {
            output: Some(output),
            ..self.task(TaskStatus::Completed)
        };
        let row = self.plan.kept.and_then(|kept| {
            let mut stored = serde_json::to_value(&response).ok()?;
            forget_results(&mut stored);
            Some(NewRow {
                id: response.id,
                previous: response.previous_response_id,
                counted_bytes: store::counted_bytes(&self.plan.input, Some(&stored)),
                input: self.plan.input.clone(),
                response: stored,
                kept,
            })
        });
        match self.record(task, row, self.received(answered)).await {
            Ok(()) => (response, None),
            Err(error) => (response.failed(&error), Some(error)),
        }
    }

    /// Records a failed call.
    async fn give_up(&mut self, error: ResponseError) -> (Response, Option<ResponseError>) {
        let is_gone = matches!(error, ResponseError::Gone);
        let task = queue::Call {
            error: (!is_gone).then(|| TaskError {
                code: error.task_code(),
                message: error.public_text(),
            }),
            ..self.task(if is_gone {
                TaskStatus::Cancelled
            } else {
                TaskStatus::Failed
            })
        };
        // A call that never started is not recorded.
        if !error.is_busy()
            && let Err(e) = self.record(task, None, None).await
        {
            tracing::error!(error = %e, "the usage of a call could not be recorded");
        }
        self.draft.end(OutputStatus::Incomplete);
        let response = Response {
            output: self.draft.items().to_vec(),
            ..self.plan.response.clone()
        };
        (response.failed(&error), Some(error))
    }

    fn task(&self, status: TaskStatus) -> queue::Call {
        queue::Call {
            id: self.task,
            workspace: self.plan.workspace,
            kind: TaskKind::Response,
            status,
            agent: self.plan.agent,
            requested_by: self.plan.caller.user,
            turn: self.plan.caller.turn,
            attempt: self.attempt.max(1),
            output: None,
            error: None,
            started_at: self.started_at,
        }
    }

    /// Turns the citations of the last message into annotations.
    async fn annotate(&mut self) -> Vec<ResponseStreamEvent> {
        let mut events = self.release_held().await;
        let (released, text, marks) = self.draft.take_marks();
        events.extend(released);
        let Some(functions) = self.plan.functions.as_ref().filter(|_| !marks.is_empty()) else {
            return events;
        };
        match self
            .service
            .annotations(functions.task(), text, marks)
            .await
        {
            Ok(annotations) => events.extend(self.draft.add_annotations(annotations)),
            Err(e) => {
                tracing::warn!(error = %e, "the citations of a response could not be checked");
            }
        }
        events
    }

    /// Returns what the next request needs besides the response, if the client has to run functions.
    fn received(&self, answered: &Answered) -> Option<kept_rounds::Received> {
        let mut client_calls = self.draft.calls();
        let first = client_calls.next()?;
        let (round, turns) = (&answered.round, &self.plan.request.turns);
        let calls = round.calls.iter().filter_map(|call| match call {
            RoundCall::Server(call) => Some(call.clone()),
            RoundCall::Client(at) => self.draft.calls().nth(*at).map(|call| ToolCall {
                id: call.call_id.clone(),
                name: call.name.clone(),
                arguments: call.arguments.clone(),
            }),
        });
        let functions = self.plan.functions.as_ref();
        Some(kept_rounds::Received {
            workspace: self.plan.workspace,
            user: self.plan.caller.user,
            call_id: first.call_id.clone(),
            model: self.plan.request.model.clone(),
            members: round.vendor.clone(),
            rounds: ServerRounds {
                before: turns[turns.len() - self.round_turns.min(turns.len())..].to_vec(),
                calls: calls.collect(),
                results: answered.results.clone(),
                handled: functions.map_or_else(Vec::new, |f| f.handles().list().to_vec()),
            },
        })
    }

    async fn record(
        &self,
        task: queue::Call,
        row: Option<NewRow>,
        received: Option<kept_rounds::Received>,
    ) -> Result<(), ResponseError> {
        let caller = self.plan.caller.clone();
        let kept = self
            .service
            .db
            .write(self.plan.workspace.0, async move |c: &mut Conn| {
                let recorded = store::record(c, &caller, &task, row.as_ref()).await?;
                if let (Ok(()), Some(received)) = (&recorded, &received) {
                    kept_rounds::store(c, received).await?;
                }
                Ok::<_, DbError>(recorded)
            })
            .await?;
        Ok(kept?)
    }
}
