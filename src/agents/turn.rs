//! One reply of an agent, from a claimed task to its end.
//!
//! ```text
//! context ─► prompt ─► model ─► first text: the reply's row, `streaming` ─► deltas · checkpoints ─► one transaction ends
//!              ▲                                                                       reply, usage and task
//!              └── shorter, or after a wait: `retry::next_step`
//! ```
//!
//! Every write names the lease, so that a turn whose task was cancelled or given away changes nothing.

use std::{sync::Arc, time::Duration};

use futures::{FutureExt, StreamExt, future::BoxFuture};
use tokio::time::Instant;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    context::{self, Loaded},
    manifest::{self, AttemptError, AttemptRecord, LeftOut, Manifest},
    profiles::{self, Resolved},
    prompt::{self, Context, LabelStripper, SUMMARY_TOKENS_MAX, estimate_tokens},
    retry::{
        Attempt, FailCode, Failure, RetryCounts, RetryPolicy, Step, WaitReason, next_step,
        notice_text,
    },
};
use crate::{
    chat::{messages, plain, post, remove},
    db::{Conn, Db, DbError, now},
    failpoint,
    ids::{MessageId, TaskId},
    model::{ChatRequest, Delta, ModelError, Provider, StopReason, Usage},
    realtime::{Hub, hub::Spot, log},
    tasks::{
        Lease, LeaseLost, Task, TaskError, TaskOutput, TokenUsage,
        queue::{self, Done, End},
        worker::Handler,
    },
};

/// At most one delta a task in this time (PROTOCOL §4).
const DELTA_EVERY: Duration = Duration::from_millis(50);
/// The row of a reply that is being written is brought up to date after so long, or so much.
const CHECKPOINT_EVERY: Duration = Duration::from_secs(2);
const CHECKPOINT_BYTES: usize = 4096;
/// How far a chain of retries is followed to clear away what they left.
const RETRY_CHAIN_MAX: usize = 20;

#[derive(Clone)]
pub struct Turns {
    pub db: Db,
    pub hub: Arc<Hub>,
    pub provider: Arc<dyn Provider>,
    pub policy: RetryPolicy,
    /// Without a first or next piece of the answer.
    pub task_timeout: Duration,
    /// For one attempt.
    pub attempt_max: Duration,
    pub tracker: TaskTracker,
}

/// Why a turn ends without an end of its task.
enum Abort {
    /// Stopped, or the lease is lost: someone else decides what becomes of the task.
    Stopped,
    /// The database failed; the lease runs out and the task is tried again.
    Db(DbError),
}

impl From<DbError> for Abort {
    fn from(e: DbError) -> Self {
        Self::Db(e)
    }
}

impl From<LeaseLost> for Abort {
    fn from(e: LeaseLost) -> Self {
        match e {
            LeaseLost::Gone => Self::Stopped,
            LeaseLost::Db(e) => Self::Db(e),
        }
    }
}

/// A whole answer.
struct Answer {
    text: String,
    truncated: bool,
    usage: Option<Usage>,
}

/// A context, what was left out of it, and the messages that a summary in it stands for.
type Fitted = (Context, Vec<LeftOut>, Vec<MessageId>);

/// A call that failed, with the text that had come by then.
struct Failed {
    failure: Failure,
    text: String,
}

impl Handler for Turns {
    fn run(&self, task: Task, lease: Lease, stop: CancellationToken) -> BoxFuture<'_, ()> {
        async move {
            let (workspace, id) = (lease.workspace, lease.task);
            let outcome = self.reply(task, lease, stop).await;
            self.hub.close_stream(workspace, id);
            match outcome {
                Ok(()) | Err(Abort::Stopped) => {}
                Err(Abort::Db(e)) => tracing::error!(task.id = %id, error = %e, "a turn broke off; it will be tried again"),
            }
        }
        .boxed()
    }

    fn give_up(&self, lease: Lease) -> BoxFuture<'_, Result<(), LeaseLost>> {
        self.fail(lease, FailCode::WorkerLost, None, None).boxed()
    }
}

impl Turns {
    async fn reply(
        &self,
        mut task: Task,
        lease: Lease,
        stop: CancellationToken,
    ) -> Result<(), Abort> {
        let mut c = self.db.snapshot().await?;
        let agent = profiles::get_resolved(&mut c, task.agent_id, task.agent_version).await?;
        let counts = queue::counts_of(&mut c, task.id).await?;
        let loaded = context::load(&mut c, &task, &agent).await?;
        drop(c);
        let mut counts: RetryCounts = serde_json::from_value(counts).unwrap_or_default();
        let Some(loaded) = loaded else {
            // The message that asked was deleted just now; nothing is left to answer.
            let (id, audience) = (task.id, lease.audience);
            self.db
                .write(lease.workspace.0, async move |c: &mut Conn| {
                    queue::cancel(c, id, audience).await
                })
                .await?;
            return Ok(());
        };
        let model = self
            .provider
            .choose_model(agent.profile.model.as_deref())
            .await;
        let window = self.provider.context_window(&model);
        loop {
            let fitted = self.fitted(&task, &lease, &loaded, counts, &model).await?;
            let Some((context, left_out, summarised)) = fitted else {
                let error = attempt_error(&Failure::Model(ModelError::ContextTooLarge));
                self.fail(lease, FailCode::ContextTooLarge, None, Some(error))
                    .await?;
                return Ok(());
            };
            let prompt = prompt::render(&context);
            let attempt = Attempt {
                prompt_tokens: prompt.tokens(),
                can_shrink: prompt::shrunk(&context).is_some(),
                can_summarise: prompt::plan_summary(&loaded.context, window, window).is_some(),
            };
            let manifest = Manifest {
                model: model.clone(),
                attempt: task.attempt,
                asked_by: loaded.asked_by.clone(),
                prompt,
                left_out,
                summarised,
                context_window: window,
                reserve: u64::from(agent.profile.max_output_tokens),
            };
            let outcome = tokio::select! {
                outcome = self.call(&task, &lease, &agent, &manifest) => outcome?,
                () = stop.cancelled() => return Err(Abort::Stopped),
            };
            let failed = match outcome {
                Ok(answer) => {
                    self.complete(lease, &task, &agent, manifest, answer)
                        .await?;
                    return Ok(());
                }
                Err(failed) => failed,
            };
            let (step, new_counts) = next_step(&failed.failure, counts, &self.policy, attempt);
            counts = new_counts;
            metrics::counter!("openvibe_model_errors_total").increment(1);
            tracing::info!(task.id = %task.id, attempt = task.attempt, failure = ?failed.failure, step = ?step, "a model call failed");
            match step {
                Step::Wait {
                    delay,
                    reason,
                    keeps_place,
                } => {
                    return self
                        .wait(lease, counts, failed, delay, reason, keeps_place)
                        .await;
                }
                Step::Again | Step::Shrink | Step::Summarise => {
                    let stored = serde_json::to_value(counts).unwrap_or_default();
                    let error = attempt_error(&failed.failure);
                    task.attempt = self
                        .db
                        .write(lease.workspace.0, async move |c: &mut Conn| {
                            let held = queue::hold(c, &lease).await?;
                            keep_text(c, &held, &failed.text).await?;
                            manifest::end_attempt(
                                c,
                                lease.task,
                                "retry",
                                Some(error.clone()),
                                0,
                                now(),
                            )
                            .await?;
                            queue::next_attempt(c, &lease, stored.clone()).await
                        })
                        .await?;
                }
                Step::Fail { code } => {
                    let error = attempt_error(&failed.failure);
                    self.fail(lease, code, Some(failed.text), Some(error))
                        .await?;
                    return Ok(());
                }
            }
        }
    }

    /// The context as far as it is to be shortened, what was left out, and what a summary stands for. `None` when it was to be
    /// summarised and that failed: asking the same again would change nothing.
    async fn fitted(
        &self,
        task: &Task,
        lease: &Lease,
        loaded: &Loaded,
        counts: RetryCounts,
        model: &str,
    ) -> Result<Option<Fitted>, Abort> {
        let window = self.provider.context_window(model);
        let mut left_out = loaded.left_out.clone();
        let note = |left_out: &mut Vec<LeftOut>, reason: &str, ids: &[MessageId]| {
            left_out.push(LeftOut {
                reason: reason.to_owned(),
                count: i64::try_from(ids.len()).unwrap_or(i64::MAX),
                message_ids: ids
                    .iter()
                    .rev()
                    .take(manifest::LEFT_OUT_IDS_MAX)
                    .copied()
                    .collect(),
            });
        };
        if counts.summarised
            && let Some(plan) = prompt::plan_summary(&loaded.context, window, window)
        {
            let utility = self.provider.utility_model(model).await;
            let request = ChatRequest {
                model: utility.clone(),
                system: plan.system.clone(),
                turns: plan.turns.clone(),
                max_output_tokens: SUMMARY_TOKENS_MAX,
                temperature: None,
                top_p: None,
            };
            let started_at = now();
            let asked = estimate_tokens(&plan.system)
                + plan
                    .turns
                    .iter()
                    .map(|t| estimate_tokens(&t.content))
                    .sum::<u64>();
            let summary =
                tokio::time::timeout(self.task_timeout, collect(self.provider.as_ref(), request))
                    .await;
            let (usage, error, summary) = match summary {
                Ok(Ok((text, usage))) => (
                    Some(self.usage(&utility, usage, asked, &text)),
                    None,
                    Some(text),
                ),
                Ok(Err(e)) => (None, Some(e.to_string()), None),
                Err(_) => (None, Some("the summary took too long".to_owned()), None),
            };
            let done = Done {
                kind: "compact",
                usage,
                error: error.map(|message| TaskError {
                    code: "model_unavailable".to_owned(),
                    message,
                }),
                started_at,
            };
            let (parent, lease) = (task.clone(), *lease);
            self.db
                .write(lease.workspace.0, async move |c: &mut Conn| {
                    queue::hold(c, &lease).await?;
                    Ok::<_, LeaseLost>(queue::record(c, &parent, lease.audience, &done).await?)
                })
                .await?;
            let Some(summary) = summary else {
                return Ok(None);
            };
            let ids = plan.message_ids.clone();
            note(&mut left_out, "summarised", &ids);
            return Ok(Some((plan.apply(&loaded.context, summary), left_out, ids)));
        }
        if (counts.shrunk || counts.summarised)
            && let Some((context, ids)) = prompt::shrunk(&loaded.context)
        {
            note(&mut left_out, "context_too_large", &ids);
            return Ok(Some((context, left_out, Vec::new())));
        }
        Ok(Some((loaded.context.clone(), left_out, Vec::new())))
    }

    /// Calls the model once and streams what comes. The manifest is stored while the request is on its way.
    async fn call(
        &self,
        task: &Task,
        lease: &Lease,
        agent: &Resolved,
        manifest: &Manifest,
    ) -> Result<Result<Answer, Failed>, Abort> {
        let request = ChatRequest {
            model: manifest.model.clone(),
            system: manifest.prompt.system.clone(),
            turns: manifest.prompt.turns(),
            max_output_tokens: agent.profile.max_output_tokens,
            temperature: agent.profile.temperature,
            top_p: agent.profile.top_p,
        };
        let record = AttemptRecord {
            attempt: task.attempt,
            started_at: now(),
            ended_at: None,
            outcome: "running".to_owned(),
            error: None,
            waited_ms: 0,
        };
        let (stored, held) = (manifest.clone(), *lease);
        let save = self.db.write(lease.workspace.0, async move |c: &mut Conn| {
            queue::hold(c, &held).await?;
            Ok::<_, LeaseLost>(manifest::save(c, held.task, &stored, &record).await?)
        });
        let started = Instant::now();
        let deadline = started + self.attempt_max;
        let connect = tokio::time::timeout_at(
            deadline.min(started + self.task_timeout),
            self.provider.stream(request),
        );
        let (saved, connected) = tokio::join!(save, connect);
        saved?;
        let nothing = |failure| Failed {
            failure,
            text: String::new(),
        };
        let mut stream = match connected {
            Ok(Ok(stream)) => stream,
            Ok(Err(e)) => return Ok(Err(nothing(Failure::Model(e)))),
            Err(_) => return Ok(Err(nothing(Failure::Timeout))),
        };

        let shown = agent.profile.shown_name(&agent.name);
        let mut reply = Reply::new(self, task, *lease, agent, shown);
        let mut stopped: Option<StopReason> = None;
        let mut usage = None;
        let mut patience = started + self.task_timeout;
        loop {
            let delta = tokio::select! {
                biased;
                () = tokio::time::sleep_until(reply.flush_at), if reply.has_unsent => {
                    reply.flush();
                    continue;
                }
                () = tokio::time::sleep_until(reply.save_at()), if reply.has_unsaved() => {
                    reply.save();
                    continue;
                }
                delta = tokio::time::timeout_at(patience.min(deadline), stream.next()) => delta,
            };
            match delta {
                Err(_) => {
                    return Ok(Err(Failed {
                        failure: Failure::Timeout,
                        text: reply.text,
                    }));
                }
                Ok(Some(Ok(Delta::Text(piece)))) => {
                    failpoint!("model_text");
                    patience = Instant::now() + self.task_timeout;
                    if reply.text.is_empty() {
                        metrics::histogram!("openvibe_model_first_text_seconds")
                            .record(started.elapsed());
                    }
                    reply.push(&piece).await?;
                }
                Ok(Some(Ok(Delta::Alive))) => {}
                Ok(Some(Ok(Delta::Usage(counted)))) => {
                    failpoint!("model_usage");
                    usage = Some(counted);
                }
                Ok(Some(Ok(Delta::Stop(reason)))) => {
                    failpoint!("model_stop");
                    stopped = Some(reason);
                }
                Ok(Some(Err(e))) => {
                    return Ok(Err(Failed {
                        failure: Failure::Model(e),
                        text: reply.text,
                    }));
                }
                Ok(None) => break,
            }
        }
        reply.end().await?;
        let text = reply.text;
        metrics::histogram!("openvibe_model_call_seconds").record(started.elapsed());
        Ok(match stopped {
            None => Err(Failed {
                failure: Failure::Model(ModelError::Broken("it ended in the middle".to_owned())),
                text,
            }),
            Some(_) if text.trim().is_empty() => Err(Failed {
                failure: Failure::Model(ModelError::Empty),
                text,
            }),
            Some(reason) => Ok(Answer {
                text,
                truncated: reason == StopReason::Length,
                usage,
            }),
        })
    }

    fn usage(
        &self,
        model: &str,
        counted: Option<Usage>,
        prompt_tokens: u64,
        text: &str,
    ) -> TokenUsage {
        let estimated = counted.is_none();
        let counted = counted.unwrap_or_else(|| Usage {
            input_tokens: i64::try_from(prompt_tokens).unwrap_or(i64::MAX),
            output_tokens: i64::try_from(estimate_tokens(text)).unwrap_or(i64::MAX),
        });
        TokenUsage {
            input_tokens: counted.input_tokens,
            output_tokens: counted.output_tokens,
            model: model.to_owned(),
            cost_usd: self.provider.cost_usd(model, counted),
            estimated,
        }
    }

    /// Ends reply, usage and task in one transaction; clears away what the task that this one tries again had left.
    async fn complete(
        &self,
        lease: Lease,
        task: &Task,
        agent: &Resolved,
        manifest: Manifest,
        answer: Answer,
    ) -> Result<(), Abort> {
        let usage = self.usage(
            &manifest.model,
            answer.usage,
            manifest.prompt.tokens(),
            &answer.text,
        );
        metrics::counter!("openvibe_model_tokens_total", "kind" => "input")
            .increment(usage.input_tokens.unsigned_abs());
        metrics::counter!("openvibe_model_tokens_total", "kind" => "output")
            .increment(usage.output_tokens.unsigned_abs());
        let text = answer.text.trim_end().to_owned();
        let content_plain = plain::to_plain(&text);
        let truncated = answer.truncated;
        let response_length = i64::try_from(text.encode_utf16().count()).unwrap_or(i64::MAX);
        let (retry_of, agent_id, agent_version) = (task.retry_of, agent.agent, agent.version);
        self.db
            .write(lease.workspace.0, async move |c: &mut Conn| {
                let task = queue::hold(c, &lease).await?;
                let Some(reply) = task.reply_message_id else {
                    return Err(LeaseLost::Gone);
                };
                let metadata = messages::MessageMetadata {
                    agent_id: Some(agent_id),
                    agent_version: Some(agent_version),
                    task_id: Some(lease.task),
                    truncated,
                    api_key_id: None,
                };
                messages::finish_reply(c, reply, &text, &content_plain, &metadata, lease.audience)
                    .await?;
                manifest::end_attempt(c, lease.task, "completed", None, 0, now()).await?;
                let output = TaskOutput {
                    message_id: reply,
                    response_length,
                };
                queue::finish(
                    c,
                    &lease,
                    &End::Completed {
                        output,
                        usage: usage.clone(),
                    },
                )
                .await?;
                clear_away(c, retry_of, lease).await?;
                Ok(())
            })
            .await?;
        if retry_of.is_some()
            && let Err(e) = self.db.scrub().await
        {
            tracing::warn!(error = %e, "a replaced text may stay in the write-ahead log until the next checkpoint");
        }
        Ok(())
    }

    async fn wait(
        &self,
        lease: Lease,
        counts: RetryCounts,
        failed: Failed,
        delay: Duration,
        reason: WaitReason,
        keeps_place: bool,
    ) -> Result<(), Abort> {
        let stored = serde_json::to_value(counts).unwrap_or_default();
        let retry_at = now() + delay;
        let waited_ms = i64::try_from(delay.as_millis()).unwrap_or(i64::MAX);
        let error = attempt_error(&failed.failure);
        let reason = match reason {
            WaitReason::RateLimited => "rate_limited",
            WaitReason::Unavailable => "unavailable",
        };
        self.db
            .write(lease.workspace.0, async move |c: &mut Conn| {
                let task = queue::hold(c, &lease).await?;
                keep_text(c, &task, &failed.text).await?;
                manifest::end_attempt(
                    c,
                    lease.task,
                    "retry",
                    Some(error.clone()),
                    waited_ms,
                    now(),
                )
                .await?;
                queue::put_back(c, &lease, stored.clone(), retry_at, reason, keeps_place).await?;
                Ok::<_, LeaseLost>(())
            })
            .await?;
        Ok(())
    }

    /// Ends the task as failed: what was written stays, marked as interrupted, and one notice says why.
    async fn fail(
        &self,
        lease: Lease,
        code: FailCode,
        text: Option<String>,
        error: Option<AttemptError>,
    ) -> Result<(), LeaseLost> {
        self.hub.close_stream(lease.workspace, lease.task);
        self.db
            .write(lease.workspace.0, async move |c: &mut Conn| {
                let task = queue::hold(c, &lease).await?;
                if let Some(reply) = task.reply_message_id {
                    remove::interrupt_reply(c, reply, text.as_deref(), lease.audience).await?;
                }
                let name = profiles::shown_name(c, task.agent_id).await?;
                let message = notice_text(&name, code);
                let notice = post::insert_notice(
                    c,
                    (&task).into(),
                    lease.audience,
                    task.trigger_message_id,
                    message.clone(),
                )
                .await?;
                let code = code_text(code);
                let attempt = error.clone().unwrap_or_else(|| AttemptError {
                    code: code.clone(),
                    message: message.clone(),
                });
                manifest::end_attempt(c, lease.task, "failed", Some(attempt), 0, now()).await?;
                let end = End::Failed {
                    error: TaskError { code, message },
                    notice: Some(notice.id),
                };
                queue::finish(c, &lease, &end).await?;
                Ok(())
            })
            .await
    }
}

/// Stores how far an attempt came, should no later one get as far.
async fn keep_text(c: &mut Conn, task: &Task, text: &str) -> Result<(), DbError> {
    match task.reply_message_id.filter(|_| !text.is_empty()) {
        Some(reply) => messages::checkpoint_reply(c, reply, text).await,
        None => Ok(()),
    }
}

fn code_text(code: FailCode) -> String {
    serde_json::to_value(code)
        .ok()
        .and_then(|v| v.as_str().map(str::to_owned))
        .unwrap_or_default()
}

fn attempt_error(failure: &Failure) -> AttemptError {
    let (code, message) = match failure {
        Failure::Model(e) => {
            let code = match e {
                ModelError::RateLimited { .. } => FailCode::RateLimited,
                ModelError::Unavailable(_) | ModelError::Broken(_) => FailCode::ModelUnavailable,
                ModelError::ContextTooLarge => FailCode::ContextTooLarge,
                ModelError::BadRequest(_) => FailCode::BadRequest,
                ModelError::Auth(_) => FailCode::Auth,
                ModelError::Empty => FailCode::BadResponse,
            };
            (code, e.to_string())
        }
        Failure::Timeout => (FailCode::Timeout, "no answer in time".to_owned()),
        Failure::WorkerLost => (FailCode::WorkerLost, "the worker was lost".to_owned()),
    };
    AttemptError {
        code: code_text(code),
        message,
    }
}

/// Turns what the tried-again tasks left (part of a reply, a notice) into tombstones.
async fn clear_away(c: &mut Conn, retry_of: Option<TaskId>, lease: Lease) -> Result<(), DbError> {
    let mut next = retry_of;
    for _ in 0..RETRY_CHAIN_MAX {
        let Some(id) = next else { break };
        let (reply, notice, before) = queue::left_behind(c, id).await?;
        for left in [reply, notice].into_iter().flatten() {
            if let Some(message) = messages::find_message(c, left).await?
                && message.deleted_at.is_none()
            {
                remove::bury(c, &message, lease.audience).await?;
            }
        }
        next = before;
    }
    Ok(())
}

/// The text of a call without streaming it anywhere.
async fn collect(
    provider: &dyn Provider,
    request: ChatRequest,
) -> Result<(String, Option<Usage>), ModelError> {
    let mut stream = provider.stream(request).await?;
    let (mut text, mut usage) = (String::new(), None);
    while let Some(delta) = stream.next().await {
        match delta? {
            Delta::Text(piece) => text.push_str(&piece),
            Delta::Usage(counted) => usage = Some(counted),
            Delta::Alive | Delta::Stop(_) => {}
        }
    }
    if text.trim().is_empty() {
        Err(ModelError::Empty)
    } else {
        Ok((text, usage))
    }
}

/// A reply while it is being written.
struct Reply<'a> {
    turns: &'a Turns,
    task: &'a Task,
    lease: Lease,
    agent: &'a Resolved,
    stripper: Option<LabelStripper>,
    text: String,
    opened: bool,
    has_unsent: bool,
    flush_at: Instant,
    saved_bytes: usize,
    saved_at: Instant,
}

impl<'a> Reply<'a> {
    fn new(
        turns: &'a Turns,
        task: &'a Task,
        lease: Lease,
        agent: &'a Resolved,
        shown: &str,
    ) -> Self {
        Self {
            turns,
            task,
            lease,
            agent,
            stripper: Some(LabelStripper::new(shown)),
            text: String::new(),
            opened: false,
            has_unsent: false,
            flush_at: Instant::now(),
            saved_bytes: 0,
            saved_at: Instant::now(),
        }
    }

    /// Takes a piece of the answer; the first text makes the reply's row.
    async fn push(&mut self, piece: &str) -> Result<(), Abort> {
        let shown = match &mut self.stripper {
            Some(stripper) => stripper.push(piece),
            None => piece.to_owned(),
        };
        self.take(&shown).await
    }

    /// Takes what the stripper still held back.
    async fn end(&mut self) -> Result<(), Abort> {
        let held = self
            .stripper
            .take()
            .map(LabelStripper::finish)
            .unwrap_or_default();
        self.take(&held).await
    }

    async fn take(&mut self, shown: &str) -> Result<(), Abort> {
        // PostgreSQL stores no NUL, and none means anything in a text.
        let clean = shown.replace('\0', "");
        let fresh = if self.text.is_empty() {
            clean.trim_start()
        } else {
            clean.as_str()
        };
        if fresh.is_empty() {
            return Ok(());
        }
        self.text.push_str(fresh);
        let (hub, workspace, id) = (&self.turns.hub, self.lease.workspace, self.lease.task);
        if self.opened {
            hub.push_stream(workspace, id, fresh);
            self.has_unsent = true;
        } else {
            let message = self.open().await?;
            let spot = self
                .task
                .fork_id
                .map_or(Spot::Thread(self.task.thread_id), Spot::Fork);
            hub.open_stream(workspace, id, spot, message, self.task.attempt);
            self.opened = true;
            hub.push_stream(workspace, id, fresh);
            self.flush();
        }
        if self.text.len() - self.saved_bytes >= CHECKPOINT_BYTES {
            self.save();
        }
        Ok(())
    }

    fn flush(&mut self) {
        self.turns
            .hub
            .flush_stream(self.lease.workspace, self.lease.task);
        self.has_unsent = false;
        self.flush_at = Instant::now() + DELTA_EVERY;
    }

    /// The row of the reply: a new one, or that of an earlier attempt.
    async fn open(&self) -> Result<MessageId, Abort> {
        let lease = self.lease;
        let (agent, version) = (self.agent.agent, self.agent.version);
        let message = self
            .turns
            .db
            .write(lease.workspace.0, async move |c: &mut Conn| {
                let task = queue::hold(c, &lease).await?;
                if let Some(reply) = task.reply_message_id {
                    return Ok::<_, LeaseLost>(reply);
                }
                let id = MessageId::new();
                let seq = log::reserve(c, task.workspace_id, 1).await?;
                let new = post::NewMessage {
                    id,
                    workspace: task.workspace_id,
                    channel: task.channel_id,
                    thread: task.thread_id,
                    fork: task.fork_id,
                    parent: task.trigger_message_id,
                    author_type: "agent",
                    author: Some(agent.0),
                    kind: "text",
                    state: "streaming",
                    content: String::new(),
                    plain: String::new(),
                    mentions: Vec::new(),
                    metadata: messages::MessageMetadata {
                        agent_id: Some(agent),
                        agent_version: Some(version),
                        task_id: Some(task.id),
                        truncated: false,
                        api_key_id: None,
                    },
                    client_id: None,
                };
                post::insert_message(c, seq, &new, lease.audience).await?;
                queue::set_reply(c, task.id, id).await?;
                Ok(id)
            })
            .await?;
        Ok(message)
    }

    fn has_unsaved(&self) -> bool {
        self.text.len() > self.saved_bytes
    }

    /// When what is unsaved has waited long enough.
    fn save_at(&self) -> Instant {
        self.saved_at + CHECKPOINT_EVERY
    }

    /// Brings the row up to date, without an event, so that little is lost when the process dies.
    fn save(&mut self) {
        self.saved_bytes = self.text.len();
        self.saved_at = Instant::now();
        let (db, lease, text) = (self.turns.db.clone(), self.lease, self.text.clone());
        self.turns.tracker.spawn(async move {
            let saved = db
                .write(lease.workspace.0, async move |c: &mut Conn| {
                    let task = queue::hold(c, &lease).await?;
                    if let Some(reply) = task.reply_message_id {
                        messages::checkpoint_reply(c, reply, &text).await?;
                    }
                    Ok::<_, LeaseLost>(())
                })
                .await;
            if let Err(LeaseLost::Db(e)) = saved {
                tracing::warn!(task.id = %lease.task, error = %e, "a checkpoint of a reply was not stored");
            }
        });
    }
}
