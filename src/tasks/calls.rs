//! Model calls: one row per call, which is stored before the request is sent, and completed with its outcome and usage.
//!
//! ```text
//! begin: reservation, row `running` ─► stream ─► end: row, budgets, usage of the month and of the task, in one transaction
//!                                        └─ dropped or task stopped: `cancelled` ─┘      └─ process died: closed as `lost` by the reaper or at startup
//! ```
//!
//! Tokens that the provider does not report are estimated from the prompt and the received text. A request that the provider
//! rejected has no usage.

use std::{
    collections::HashMap,
    pin::Pin,
    sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use dashmap::DashMap;
use futures::Stream;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use super::{
    FailCode, TokenUsage,
    budgets::{self, Amounts, Charge, OverBudget, Price},
    queue::set_usage,
    usage::{self, Month},
};
use crate::{
    db::{
        Conn, Db, DbError,
        dialect::{self, hexadecimal_ids},
        now,
    },
    failpoint,
    ids::{AgentId, TaskId, UserId, WorkspaceId},
    model::{
        ChatRequest, CollectError, Collected, Delta, DeltaStream, EmbedRequest, Embedded, Limits,
        ModelError, Provider, StopReason, Usage, builtin, collect_watched, estimate_tokens,
    },
    sql_with_ids,
    text_enum::text_enum,
    time::Timestamp,
};

/// Maximum number of rows that are closed or deleted per transaction.
const ROWS_AT_ONCE: i64 = 500;
/// Size of the text whose tokens are estimated at once, so that the estimate of each short piece is not rounded up.
const ESTIMATED_BYTES: usize = 4096;
/// Calls without a stored end are closed when they are older than the maximum duration of a call plus this time.
const ABANDONED_AFTER: Duration = Duration::from_mins(5);

text_enum! {
    /// Reason for a model call.
    pub enum Purpose {
        /// Reply to a message.
        Reply = "reply",
        /// Summary of older messages.
        Compact = "compact",
        /// Reflection of an agent on a person.
        Reflect = "reflect",
        /// Draft of a resolution.
        Resolve = "resolve",
        /// Call to `/v1/responses` or `/v1/chat/completions`.
        Response = "response",
        /// Reply that is written again to test a draft of the agent.
        Replay = "replay",
        /// Other work of a small model, such as the text of a persona.
        Utility = "utility",
        /// Vectors of passages or of a question, for search by meaning.
        Embed = "embed",
        /// Test of a connection.
        Test = "test",
    }
}

text_enum! {
    pub enum CallOutcome {
        Running = "running",
        Completed = "completed",
        Failed = "failed",
        Cancelled = "cancelled",
        /// The process that made the call died, or the end of the call could not be stored.
        Lost = "lost",
    }
}

/// The task for which a call is made.
#[derive(Debug, Clone, Copy)]
pub struct CallTask {
    pub id: TaskId,
    /// The root of the task's tree; the task itself if it has no parent.
    pub root: TaskId,
    pub attempt: i64,
    /// Number of the round, starting at 1; rounds after the first follow tool calls.
    pub round: i64,
}

/// A call that is about to be made.
#[derive(Debug, Clone)]
pub struct NewCall {
    pub workspace: WorkspaceId,
    /// `None` for a connection test, the text of a persona, an agent draft, and vectors.
    pub task: Option<CallTask>,
    pub purpose: Purpose,
    pub user: UserId,
    pub agent: Option<AgentId>,
    pub model: String,
    /// Estimated size of the prompt.
    pub prompt_tokens: u64,
    /// Output limit of the request, in tokens.
    pub output_tokens_max: u32,
}

/// Failure of a call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    #[error(transparent)]
    Collect(#[from] CollectError),
    /// A budget does not allow the call, so no request was sent.
    #[error("{0}")]
    OverBudget(OverBudget),
}

impl CallError {
    pub fn code(&self) -> FailCode {
        match self {
            Self::Collect(_) => FailCode::ModelUnavailable,
            Self::OverBudget(_) => FailCode::BudgetExceeded,
        }
    }
}

/// Stores model calls.
#[derive(Clone)]
pub struct CallLog {
    pub db: Db,
    /// Runs the writes for calls that were dropped.
    pub tracker: TaskTracker,
}

impl CallLog {
    /// Reserves the budget for a call, stores the call, and returns it. Must be called before the request is sent. If only
    /// reservations of running calls prevent the call, retries for up to `wait_max`.
    ///
    /// # Errors
    /// `Ok(Err(_))` if a budget does not allow the call, `Err` if the row cannot be stored. In both cases, the request must not be
    /// sent.
    pub async fn begin(
        &self,
        provider: &Arc<dyn Provider>,
        call: NewCall,
        wait_max: Duration,
    ) -> Result<Result<OpenCall, OverBudget>, DbError> {
        let until = Instant::now() + wait_max;
        loop {
            let open = self.prepare(provider, call.clone());
            let row = open.row();
            let reserved = self
                .db
                .write(call.workspace.0, async move |c: &mut Conn| {
                    row.insert(c).await
                })
                .await?;
            let Err(over) = reserved else {
                return Ok(Ok(open));
            };
            open.discard();
            if !over.can_wait || Instant::now() + budgets::RESERVED_EVERY > until {
                return Ok(Err(over));
            }
            tokio::time::sleep(budgets::RESERVED_EVERY).await;
        }
    }

    /// Like `begin`, but leaves it to the caller to insert `OpenCall::row` in a transaction.
    pub fn prepare(&self, provider: &Arc<dyn Provider>, call: NewCall) -> OpenCall {
        let price = Price::of(provider.as_ref(), &call.model);
        let progress = Progress {
            id: Uuid::now_v7(),
            call,
            provider: Arc::clone(provider),
            received: Arc::default(),
        };
        OPEN.insert(progress.id, progress.clone());
        OpenCall {
            log: self.clone(),
            progress,
            price,
            has_ended: false,
        }
    }
}

/// The row of a call that has not ended.
#[derive(Debug, Clone)]
pub struct CallRow {
    id: Uuid,
    call: NewCall,
    price: Option<Price>,
    /// True if budgets apply to the call.
    is_covered: bool,
}

impl CallRow {
    /// The amount that the call reserves.
    fn reserved(&self) -> Amounts {
        let call = &self.call;
        Amounts::reserved(call.prompt_tokens, call.output_tokens_max, self.price)
    }

    /// Billionths of a US dollar that the call reserves; 0 if the model has no known price.
    pub fn reserved_nano_usd(&self) -> i64 {
        self.reserved().nano_usd.unwrap_or_default()
    }

    /// Reserves the budget for the call and inserts its row. Does neither if a budget does not allow the call.
    pub async fn insert(&self, c: &mut Conn) -> Result<Result<(), OverBudget>, DbError> {
        let call = &self.call;
        let at = now();
        let reserved = if self.is_covered {
            self.reserved()
        } else {
            Amounts::default()
        };
        if self.is_covered {
            dialect::lock_workspace(c, call.workspace.0).await?;
            if let Err(over) = budgets::reserve(c, &call.charge(at), reserved).await? {
                return Ok(Err(over));
            }
        }
        c.q("insert into model_calls (id, workspace_id, task_id, root_task_id, attempt, purpose, user_id, agent_id, model, \
             input, output, estimated, outcome, started_at, reserved, reserved_nano_usd, input_usd, output_usd, round) \
             values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, 0, TRUE, $11, $12, $13, $14, $15, $16, $17)")
            .bind(self.id)
            .bind(call.workspace)
            .bind(call.task.map(|task| task.id))
            .bind(call.task.map(|task| task.root))
            .bind(call.task.map_or(1, |task| task.attempt))
            .bind(call.purpose)
            .bind(call.user)
            .bind(call.agent)
            .bind(call.model.clone())
            .bind(i64::try_from(call.prompt_tokens).unwrap_or(i64::MAX))
            .bind(CallOutcome::Running)
            .bind(at)
            .bind(reserved.tokens)
            .bind(reserved.nano_usd)
            .bind(self.price.map(|price| price.input_usd))
            .bind(self.price.map(|price| price.output_usd))
            .bind(call.task.map_or(1, |task| task.round))
            .run()
            .await?;
        Ok(Ok(()))
    }
}

impl NewCall {
    /// Returns the data that determines which budgets the call counts toward. The person is the requester of the root task.
    fn charge(&self, at: Timestamp) -> Charge {
        Charge {
            workspace: self.workspace,
            user: self.user,
            agent: self.agent,
            at,
        }
    }
}

/// Progress of a request.
#[derive(Default, PartialEq, Eq)]
enum Request {
    #[default]
    Waiting,
    Sent,
    Accepted,
    /// The provider rejected the request, so there is no usage.
    Refused,
}

/// The part of a response that was received.
#[derive(Default)]
struct Received {
    request: Request,
    /// Text whose tokens have not been estimated yet.
    text: String,
    output_tokens: u64,
    usage: Option<Usage>,
    stopped: Option<StopReason>,
    has_failed: bool,
    is_over: bool,
}

impl Received {
    fn note(&mut self, delta: &Delta) {
        match delta {
            Delta::Text(piece) => self.push(piece),
            Delta::ToolCall(piece) => {
                if let Some(head) = &piece.begins {
                    self.push(&head.name);
                }
                self.push(&piece.arguments);
            }
            Delta::Usage(usage) => self.usage = Some(*usage),
            Delta::Stop(reason) => self.stopped = Some(*reason),
            Delta::Alive | Delta::Discard | Delta::Vendor(_) => {}
        }
    }

    fn push(&mut self, piece: &str) {
        self.text.push_str(piece);
        if self.text.len() >= ESTIMATED_BYTES {
            self.output_tokens += estimate_tokens(&self.text);
            self.text.clear();
        }
    }

    fn note_vectors(&mut self, embedded: &Embedded) {
        self.request = Request::Accepted;
        self.stopped = Some(StopReason::Complete);
        self.usage = embedded.input_tokens.map(|input_tokens| Usage {
            input_tokens,
            ..Usage::default()
        });
    }

    /// Checks whether the provider may have done work for the request.
    fn is_sent(&self) -> bool {
        matches!(self.request, Request::Sent | Request::Accepted)
    }

    fn output_tokens(&self) -> u64 {
        self.output_tokens + estimate_tokens(&self.text)
    }

    fn outcome(&self) -> CallOutcome {
        match self {
            Self {
                request: Request::Refused,
                ..
            }
            | Self {
                has_failed: true, ..
            } => CallOutcome::Failed,
            Self {
                stopped: Some(_), ..
            } => CallOutcome::Completed,
            Self { is_over: true, .. } => CallOutcome::Failed,
            _ => CallOutcome::Cancelled,
        }
    }
}

fn lock(received: &Mutex<Received>) -> MutexGuard<'_, Received> {
    received.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Calls that this process makes, by ID. The transaction that stops a task stores their usage.
static OPEN: LazyLock<DashMap<Uuid, Progress>> = LazyLock::new(DashMap::new);

/// A call and the part of its response that was received.
#[derive(Clone)]
struct Progress {
    id: Uuid,
    call: NewCall,
    provider: Arc<dyn Provider>,
    received: Arc<Mutex<Received>>,
}

impl Progress {
    /// Returns the end of the call, with the outcome and usage so far.
    fn ended(&self) -> EndedCall {
        let received = lock(&self.received);
        let count = |tokens: u64| i64::try_from(tokens).unwrap_or(i64::MAX);
        let counted = match received.usage {
            Some(usage) => usage,
            None if received.is_sent() => Usage {
                input_tokens: count(self.call.prompt_tokens),
                output_tokens: count(received.output_tokens()),
                ..Usage::default()
            },
            None => Usage::default(),
        };
        let model = &self.call.model;
        EndedCall {
            id: self.id,
            call: self.call.clone(),
            outcome: received.outcome(),
            usage: TokenUsage {
                input_tokens: counted.input_tokens,
                output_tokens: counted.output_tokens,
                model: model.clone(),
                cost_usd: self.provider.cost_usd(model, counted),
                estimated: received.usage.is_none(),
            },
        }
    }
}

/// Closes the rows of the running calls of tasks that are about to be stopped, with the usage so far, so that the last events of these
/// tasks have it. Calls of other processes, and calls whose request has not been sent, are left to their workers.
pub async fn end_running(c: &mut Conn, tasks: &[TaskId]) -> Result<(), DbError> {
    let sql = sql_with_ids!(
        c,
        "select id from model_calls where outcome = 'running' and task_id in",
        1,
        "order by id"
    );
    let running: Vec<(Uuid,)> = c
        .q(sql)
        .bind(hexadecimal_ids(tasks.iter().map(|id| id.0)))
        .all()
        .await?;
    for (id,) in running {
        let open = OPEN.get(&id).map(|open| open.clone());
        if let Some(open) = open.filter(|open| lock(&open.received).is_sent()) {
            open.ended().store(c).await?;
        }
    }
    Ok(())
}

/// A call whose row is stored. Dropping it closes the row in the background.
pub struct OpenCall {
    log: CallLog,
    progress: Progress,
    price: Option<Price>,
    has_ended: bool,
}

impl OpenCall {
    pub fn row(&self) -> CallRow {
        CallRow {
            id: self.progress.id,
            call: self.progress.call.clone(),
            price: self.price,
            is_covered: self.is_covered(),
        }
    }

    /// Checks whether budgets limit the call. The test of a connection is counted but never rejected, because an admin needs its
    /// result to change the model server.
    fn is_covered(&self) -> bool {
        self.progress.call.purpose != Purpose::Test && !self.progress.provider.is_offline()
    }

    /// Drops a call without storing its end, either because its row was not stored, or because the caller has stored its end.
    pub fn discard(mut self) {
        self.has_ended = true;
    }

    /// Sends the request.
    ///
    /// # Errors
    /// Same as `Provider::stream`.
    pub async fn stream(&self, request: ChatRequest) -> Result<DeltaStream, ModelError> {
        self.sent();
        let opened = self.progress.provider.stream(request).await;
        opened
            .map(|stream| self.watch(stream))
            .inspect_err(|e| self.refused(e))
    }

    /// Requests the vectors of texts.
    ///
    /// # Errors
    /// Same as `Provider::embed`.
    pub async fn embed(&self, request: EmbedRequest) -> Result<Embedded, ModelError> {
        self.sent();
        let embedded = self.progress.provider.embed(request).await;
        match &embedded {
            Ok(embedded) => lock(&self.progress.received).note_vectors(embedded),
            Err(e) => self.refused(e),
        }
        embedded
    }

    fn sent(&self) {
        let mut received = lock(&self.progress.received);
        if received.request != Request::Accepted {
            received.request = Request::Sent;
        }
    }

    fn watch(&self, inner: DeltaStream) -> DeltaStream {
        lock(&self.progress.received).request = Request::Accepted;
        Box::pin(Watched {
            inner,
            received: Arc::clone(&self.progress.received),
        })
    }

    fn refused(&self, error: &ModelError) {
        let mut received = lock(&self.progress.received);
        received.has_failed = true;
        if received.request != Request::Accepted && is_refusal(error) {
            received.request = Request::Refused;
        }
    }

    /// Marks the call as failed, for callers that give up on it, for example after a timeout.
    pub fn fail(&self) {
        lock(&self.progress.received).has_failed = true;
    }

    /// Closes the row, and returns the usage of this call.
    ///
    /// # Errors
    /// Returns an error if the end cannot be stored. The row is then closed later.
    pub async fn end(mut self) -> Result<TokenUsage, DbError> {
        self.has_ended = true;
        let end = self.ended();
        let usage = end.usage.clone();
        self.log
            .db
            .write(self.progress.call.workspace.0, async move |c: &mut Conn| {
                end.store(c).await
            })
            .await?;
        failpoint!("model_call_ended");
        Ok(usage)
    }

    /// Returns the end of the call, with the outcome and usage so far. Does not store it.
    pub fn ended(&self) -> EndedCall {
        self.progress.ended()
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        OPEN.remove(&self.progress.id);
        if self.has_ended {
            return;
        }
        let (end, db) = (self.ended(), self.log.db.clone());
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        let store = async move {
            let stored = db
                .write(end.call.workspace.0, async move |c: &mut Conn| {
                    end.store(c).await
                })
                .await;
            if let Err(e) = stored {
                tracing::warn!(error = %e, "the end of a model call could not be stored; its usage will be estimated");
            }
        };
        self.log.tracker.spawn_on(store, &runtime);
    }
}

/// Checks whether an error means that the provider did no work for the request.
fn is_refusal(error: &ModelError) -> bool {
    match error {
        ModelError::Broken(_) | ModelError::Empty | ModelError::ThoughtOnly { .. } => false,
        ModelError::RateLimited { .. }
        | ModelError::ModelMissing(_)
        | ModelError::Unavailable(_)
        | ModelError::ContextTooLarge
        | ModelError::BadRequest(_)
        | ModelError::ToolsRefused { .. }
        | ModelError::Auth(_) => true,
    }
}

struct Watched {
    inner: DeltaStream,
    received: Arc<Mutex<Received>>,
}

impl Stream for Watched {
    type Item = Result<Delta, ModelError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let polled = self.inner.as_mut().poll_next(cx);
        let mut received = lock(&self.received);
        match &polled {
            Poll::Ready(Some(Ok(delta))) => received.note(delta),
            Poll::Ready(Some(Err(_))) => received.has_failed = true,
            Poll::Ready(None) => received.is_over = true,
            Poll::Pending => {}
        }
        drop(received);
        polled
    }
}

/// Collects the response to `request` within `limits`, and ends the call.
///
/// # Errors
/// `Ok(Err(_))` under the same conditions as `model::collect`; `Err` if the end cannot be stored.
pub async fn collect(
    call: OpenCall,
    request: ChatRequest,
    limits: Limits,
) -> Result<Result<Collected, CollectError>, DbError> {
    call.sent();
    let provider = Arc::clone(&call.progress.provider);
    let watch = |stream| call.watch(stream);
    let collected = collect_watched(provider.as_ref(), request, limits, watch).await;
    match &collected {
        Ok(_) => {}
        Err(CollectError::Model(e)) => call.refused(e),
        Err(CollectError::Timeout) => call.fail(),
    }
    call.end().await?;
    Ok(collected)
}

/// Outcome and usage of an ended call.
#[derive(Debug, Clone)]
pub struct EndedCall {
    id: Uuid,
    call: NewCall,
    outcome: CallOutcome,
    usage: TokenUsage,
}

impl EndedCall {
    /// Closes the row, settles its budgets, and increases the usage of the month and of the task, unless the call was already
    /// closed.
    pub async fn store(&self, c: &mut Conn) -> Result<(), DbError> {
        let (call, usage) = (&self.call, &self.usage);
        // The workspace is locked before the row of the call, in the same order as in a reservation.
        dialect::lock_workspace(c, call.workspace.0).await?;
        // The person may have been erased since the call began.
        let ended: Option<(UserId, Timestamp, i64, Option<i64>)> = c
            .q("update model_calls set input = $2, output = $3, cost_usd = $4, estimated = $5, outcome = $6, ended_at = $7 \
                where id = $1 and outcome = 'running' returning user_id, started_at, reserved, reserved_nano_usd")
            .bind(self.id)
            .bind(usage.input_tokens)
            .bind(usage.output_tokens)
            .bind(usage.cost_usd)
            .bind(usage.estimated)
            .bind(self.outcome)
            .bind(now())
            .opt()
            .await?;
        let Some((user, started_at, tokens, nano_usd)) = ended else {
            return Ok(());
        };
        let charge = Charge {
            user,
            ..call.charge(started_at)
        };
        // The built-in responder is not a model.
        if call.model != builtin::NAME {
            let used = usage.input_tokens.saturating_add(usage.output_tokens);
            let used = Amounts::new(used, usage.cost_usd);
            budgets::settle(c, &charge, Amounts { tokens, nano_usd }, used).await?;
        }
        let spent = usage::Spent {
            workspace: call.workspace,
            user,
            agent: call.agent,
            month: Month::of(started_at),
            usage,
        };
        usage::raise(c, &spent).await?;
        if let Some(task) = call.task {
            let total = token_usage_of(c, task.id).await?;
            set_usage(c, task.id, total).await?;
        }
        Ok(())
    }
}

#[derive(sqlx::FromRow)]
struct CallUsage {
    input: i64,
    output: i64,
    model: String,
    cost_usd: Option<f64>,
    estimated: bool,
}

/// Total usage of a task's ended calls; `None` without usage. `model` is the model of the newest call. Everyone in the conversation
/// can see the usage, so it does not include the tokens and the cost of the adaptation sentences, which would reveal that the prompt
/// contained such sentences.
pub async fn token_usage_of(c: &mut Conn, task: TaskId) -> Result<Option<TokenUsage>, DbError> {
    let calls: Vec<CallUsage> = c
        .q("select case when purpose = $2 and input > h.tokens then input - h.tokens else input end as input, output, model, \
            case when purpose = $2 and input > h.tokens then cost_usd - h.tokens * coalesce(input_usd, 0.0) / 1000000.0 else cost_usd \
            end as cost_usd, estimated from model_calls, (select cast(coalesce(sum(tokens), 0) as bigint) as tokens from context_parts \
            where task_id = $1 and name = 'adaptation') h \
            where task_id = $1 and outcome <> 'running' and input + output > 0 order by id limit 10000")
        .bind(task)
        .bind(Purpose::Reply)
        .all()
        .await?;
    let mut total: Option<TokenUsage> = None;
    for call in calls {
        let one = TokenUsage {
            input_tokens: call.input,
            output_tokens: call.output,
            model: call.model,
            cost_usd: call.cost_usd,
            estimated: call.estimated,
        };
        total = Some(match total {
            None => one,
            Some(total) => TokenUsage {
                input_tokens: total.input_tokens + one.input_tokens,
                output_tokens: total.output_tokens + one.output_tokens,
                model: one.model,
                cost_usd: total.cost_usd.zip(one.cost_usd).map(|(a, b)| a + b),
                estimated: total.estimated || one.estimated,
            },
        });
    }
    Ok(total)
}

/// Model of the task's running call; `None` if no call is running.
pub async fn running_model(c: &mut Conn, task: TaskId) -> Result<Option<String>, DbError> {
    let row: Option<(String,)> = c
        .q("select model from model_calls where task_id = $1 and outcome = 'running' order by id desc limit 1")
        .bind(task)
        .opt()
        .await?;
    Ok(row.map(|row| row.0))
}

/// Models of running calls, by task.
pub async fn running_models(
    c: &mut Conn,
    tasks: &[TaskId],
) -> Result<HashMap<TaskId, String>, DbError> {
    if tasks.is_empty() {
        return Ok(HashMap::new());
    }
    let sql = sql_with_ids!(
        c,
        "select task_id, model from model_calls where outcome = 'running' and task_id in",
        1,
        "order by id"
    );
    let rows: Vec<(TaskId, String)> = c
        .q(sql)
        .bind(hexadecimal_ids(tasks.iter().map(|id| id.0)))
        .all()
        .await?;
    // Later rows, which are newer, replace earlier ones.
    Ok(rows.into_iter().collect())
}

#[derive(Debug, Clone, sqlx::FromRow)]
struct LostCall {
    id: Uuid,
    workspace_id: WorkspaceId,
    task_id: Option<TaskId>,
    root_task_id: Option<TaskId>,
    attempt: i64,
    round: i64,
    purpose: Purpose,
    user_id: UserId,
    agent_id: Option<AgentId>,
    model: String,
    input: i64,
    input_usd: Option<f64>,
    output_usd: Option<f64>,
}

macro_rules! lost_sql {
    ($where:literal) => {
        concat!(
            "select id, workspace_id, task_id, root_task_id, attempt, round, purpose, user_id, agent_id, model, input, input_usd, output_usd \
             from model_calls where outcome = 'running' and ",
            $where
        )
    };
}

impl LostCall {
    /// Ends the call with usage that is estimated from its prompt and the saved text of its reply.
    async fn close(self, c: &mut Conn) -> Result<(), DbError> {
        let saved: Option<(String,)> = match (self.task_id, self.purpose) {
            (Some(task), Purpose::Reply) => {
                c.q("select m.content from tasks t join messages m on m.id = t.reply_message_id where t.id = $1")
                    .bind(task)
                    .opt()
                    .await?
            }
            _ => None,
        };
        let output = saved.map_or(0, |(text,)| estimate_tokens(&text));
        let task = self.task_id.map(|id| CallTask {
            id,
            root: self.root_task_id.unwrap_or(id),
            attempt: self.attempt,
            round: self.round,
        });
        let output = i64::try_from(output).unwrap_or(i64::MAX);
        let price = self.input_usd.zip(self.output_usd);
        let cost_usd = price.map(|(input_usd, output_usd)| {
            let price = Price {
                input_usd,
                output_usd,
            };
            price.cost_usd(self.input, output)
        });
        let end = EndedCall {
            id: self.id,
            call: NewCall {
                workspace: self.workspace_id,
                task,
                purpose: self.purpose,
                user: self.user_id,
                agent: self.agent_id,
                model: self.model.clone(),
                prompt_tokens: self.input.unsigned_abs(),
                // Unused: the reservation is read from the row.
                output_tokens_max: 0,
            },
            outcome: CallOutcome::Lost,
            usage: TokenUsage {
                input_tokens: self.input,
                output_tokens: output,
                model: self.model,
                cost_usd,
                estimated: true,
            },
        };
        end.store(c).await
    }
}

/// Closes the open calls of a task and of the tasks that it started, with the outcome `Lost`, after the task's worker was lost.
pub async fn close_lost(c: &mut Conn, root: TaskId) -> Result<(), DbError> {
    let lost: Vec<LostCall> = c
        .q(lost_sql!("root_task_id = $1 order by id limit $2"))
        .bind(root)
        .bind(ROWS_AT_ONCE)
        .all()
        .await?;
    for call in lost {
        call.close(c).await?;
    }
    Ok(())
}

/// Closes all open calls at startup, for a database that only this process uses.
///
/// # Errors
/// Only database errors; calls that are left open are closed later.
pub async fn close_all(db: &Db) -> Result<(), DbError> {
    close_begun_before(db, now()).await
}

/// Closes calls that must have ended, because they began longer ago than the maximum duration of a call.
///
/// # Errors
/// Only database errors.
pub async fn close_abandoned(db: &Db, call_max: Duration) -> Result<(), DbError> {
    close_begun_before(db, now() - (call_max + ABANDONED_AFTER)).await
}

async fn close_begun_before(db: &Db, before: Timestamp) -> Result<(), DbError> {
    loop {
        let lost: Vec<LostCall> = db
            .read()
            .await?
            .q(lost_sql!(
                "started_at <= $1 order by workspace_id, id limit $2"
            ))
            .bind(before)
            .bind(ROWS_AT_ONCE)
            .all()
            .await?;
        if lost.is_empty() {
            return Ok(());
        }
        let mut lost = lost.into_iter().peekable();
        while let Some(first) = lost.next() {
            let workspace = first.workspace_id;
            let mut calls = vec![first];
            while let Some(next) = lost.next_if(|call| call.workspace_id == workspace) {
                calls.push(next);
            }
            let calls = Arc::new(calls);
            db.write(workspace.0, async move |c: &mut Conn| {
                for call in calls.iter() {
                    call.clone().close(c).await?;
                }
                Ok::<_, DbError>(())
            })
            .await?;
        }
    }
}

/// Deletes rows of calls that began before the retention time. The usage that they added is kept.
///
/// # Errors
/// Only database errors.
pub async fn remove_expired(db: &Db, retention: Duration) -> Result<(), DbError> {
    db.delete_expired(
        now() - retention,
        "select exists (select 1 from model_calls where started_at < $1 and outcome <> 'running')",
        "delete from model_calls where id in (select id from model_calls \
         where started_at < $1 and outcome <> 'running' order by started_at limit $2)",
    )
    .await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_in_short_pieces_is_estimated_as_a_whole() {
        let mut received = Received::default();
        for _ in 0..10_000 {
            received.note(&Delta::Text("ab".to_owned()));
        }
        assert_eq!(received.output_tokens(), 5_000);
        assert!(received.text.len() < ESTIMATED_BYTES);
    }

    #[test]
    fn a_call_that_neither_stopped_nor_failed_was_canceled() {
        let mut received = Received {
            request: Request::Sent,
            ..Received::default()
        };
        assert_eq!(received.outcome(), CallOutcome::Cancelled);
        received.is_over = true;
        assert_eq!(received.outcome(), CallOutcome::Failed);
        received.note(&Delta::Stop(StopReason::Complete));
        assert_eq!(received.outcome(), CallOutcome::Completed);
        received.has_failed = true;
        assert_eq!(received.outcome(), CallOutcome::Failed);
    }
}
