//! Model calls for one draft, which run concurrently, are recorded in the manifest for "What it saw", and count
//! as usage.

use std::{
    collections::BTreeSet,
    sync::{Arc, LazyLock},
    time::Duration,
};

use futures::{FutureExt, StreamExt, TryStreamExt, future::BoxFuture};

use super::{
    draft::{self, Brief, UnparsableDraft},
    resolver::{Read, Resolver},
};
use crate::{
    agents::{
        derived::SourceId,
        system::{System, SystemPartName},
    },
    db::{Conn, now},
    memory::recall::Recalled,
    model::{ChatRequest, Collected, JsonSchema, Limits, estimate_tokens},
    replies::{
        authored::AuthoredTexts,
        manifest::{self, Manifest},
        prompt::{Part, Prompt, Source},
        requester::Requester,
        retry::{Failure, RetryCounts},
        sources::Reasons,
    },
    tasks::{
        Lease, LeaseLost,
        attempts::{self, AttemptError, AttemptOutcome, AttemptRecord},
        budgets,
        calls::{self, CallTask, NewCall, Purpose},
        queue, slow,
        worker::Abort,
    },
};

/// Maximum output tokens of a draft, without hidden reasoning.
const OUTPUT_TOKENS_MAX: u32 = 1024;
/// Maximum number of concurrent calls for the chunks of one fork; limited because other tasks need the model too.
const CALLS_AT_ONCE: usize = 4;

static SCHEMA: LazyLock<Arc<serde_json::Value>> = LazyLock::new(|| Arc::new(draft::schema()));

/// The model calls of one task.
pub(super) struct Calls<'a> {
    pub(super) resolver: &'a Resolver,
    /// Required text of the workspace, which precedes every request.
    pub(super) required: String,
    pub(super) read: Arc<Read>,
    pub(super) model: String,
    pub(super) requested_by: Requester,
    pub(super) lease: Lease,
    pub(super) attempt: i64,
}

/// Reason why the model produced no draft.
pub(super) enum Failed {
    Call(Failure),
    UnparsableDraft(UnparsableDraft),
    Abort(Abort),
}

impl From<Abort> for Failed {
    fn from(e: Abort) -> Self {
        Self::Abort(e)
    }
}

impl From<UnparsableDraft> for Failed {
    fn from(e: UnparsableDraft) -> Self {
        Self::UnparsableDraft(e)
    }
}

impl Calls<'_> {
    /// Runs slow work on a large fork on a blocking thread.
    pub(super) async fn apart<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Read) -> T + Send + 'static,
    ) -> Result<T, Failed> {
        let read = Arc::clone(&self.read);
        let done = slow::run(self.requested_by.id, move |_| work(&read)).await;
        done.map_err(|e| {
            tracing::error!(error = %e, "checking the model's draft panicked");
            Failed::UnparsableDraft(UnparsableDraft::NoObject)
        })
    }

    pub(super) fn ids(&self) -> Vec<String> {
        let ids = self.read.dive.message_ids.iter();
        ids.map(ToString::to_string).collect()
    }

    /// Calls the model with each brief, a few at a time, and returns the answers in the same order. A request whose answer has no end,
    /// or contains only reasoning, is sent again, with twice the output limit.
    pub(super) async fn ask(&self, briefs: &[Brief]) -> Result<Vec<Collected>, Failed> {
        let briefs: Vec<Brief> = briefs
            .iter()
            .map(|brief| brief.after(&self.required))
            .collect();
        self.note(&briefs).await?;
        let window = self.resolver.provider.window(&self.model).await;
        let output_tokens_max = OUTPUT_TOKENS_MAX + window.reasoning_tokens;
        let limits = Limits {
            bytes_max: draft::ANSWER_BYTES_MAX,
            silence_max: self.resolver.task_timeout,
            time_max: self.resolver.attempt_max,
        };
        // Other chunks of the same fork may have reserved the rest of a budget. A single call waits in the task
        // queue instead.
        let wait_max = if briefs.len() > 1 {
            budgets::WAIT_MAX
        } else {
            Duration::ZERO
        };
        let mut running: Vec<BoxFuture<'_, Result<Collected, Failed>>> =
            Vec::with_capacity(briefs.len());
        for brief in &briefs {
            let prompt_tokens = window.corrected(brief.tokens());
            let call = async move {
                let within = |tokens_max| window.output_limit(tokens_max, prompt_tokens);
                let answer = self
                    .call(brief, within(output_tokens_max), limits, wait_max)
                    .await;
                let is_cut = match &answer {
                    Ok(answer) => answer.is_incomplete(),
                    Err(Failed::Call(failure)) => failure.thought_tokens().is_some(),
                    Err(_) => false,
                };
                if is_cut {
                    let twice = within(2 * output_tokens_max);
                    return self.call(brief, twice, limits, wait_max).await;
                }
                answer
            };
            running.push(call.boxed());
        }
        futures::stream::iter(running)
            .buffered(CALLS_AT_ONCE)
            .try_collect()
            .await
    }

    async fn call(
        &self,
        brief: &Brief,
        output_tokens_max: u32,
        limits: Limits,
        wait_max: Duration,
    ) -> Result<Collected, Failed> {
        let provider = &self.resolver.provider;
        let request = ChatRequest {
            model: self.model.clone(),
            system: brief.system.clone(),
            turns: brief.turns(),
            max_output_tokens: Some(output_tokens_max),
            json_schema: Some(JsonSchema {
                name: "resolution",
                schema: Arc::clone(&SCHEMA),
            }),
            ..ChatRequest::default()
        };
        let window = provider.window(&self.model).await;
        let new = NewCall {
            workspace: self.lease.workspace,
            task: Some(CallTask {
                id: self.lease.task,
                root: self.lease.task,
                attempt: self.attempt,
                round: 1,
            }),
            purpose: Purpose::Resolve,
            user: self.requested_by.id,
            agent: Some(self.lease.target.agent),
            model: self.model.clone(),
            prompt_tokens: window.corrected(brief.tokens()),
            output_tokens_max,
        };
        let begun = self.resolver.calls.begin(provider, new, wait_max).await;
        let call = begun
            .map_err(Abort::Db)?
            .map_err(|over| Failed::Call(Failure::OverBudget(over)))?;
        let answer = calls::collect(call, request, limits).await;
        let answer = answer.map_err(Abort::Db)?;
        answer.map_err(|e| Failed::Call(e.into()))
    }

    /// Stores the requests that are about to be sent, for "What it saw".
    pub(super) async fn note(&self, briefs: &[Brief]) -> Result<(), Abort> {
        let dive = &self.read.dive;
        let part = |piece: &draft::Piece| {
            let source = match piece.line.and_then(|line| dive.source(line)) {
                Some((message_id, author)) => Source::Message { message_id, author },
                // The request that merges the chunks contains their summaries instead of messages.
                None if briefs.len() == 1 && self.attempt > 1 => Source::Summary {
                    cites: dive
                        .message_ids
                        .iter()
                        .copied()
                        .map(SourceId::Message)
                        .collect(),
                    segments: BTreeSet::new(),
                },
                None => Source::Requester,
            };
            Part {
                source,
                role: piece.role,
                tokens: estimate_tokens(&piece.text),
                text: piece.text.clone(),
            }
        };
        let prompt = Prompt {
            system: System::of(
                SystemPartName::Instructions,
                briefs.first().map_or("", |brief| &brief.system),
            ),
            parts: briefs
                .iter()
                .flat_map(|brief| &brief.pieces)
                .map(part)
                .collect(),
        };
        let window = self.resolver.provider.window(&self.model).await;
        let manifest = Manifest {
            model: self.model.clone(),
            attempt: self.attempt,
            requested_by: self.requested_by.clone(),
            preset: None,
            prompt,
            left_out: Vec::new(),
            functions_left_out: Vec::new(),
            calls_in_text: false,
            memories: Recalled::default(),
            old_messages: Vec::new(),
            named: dive.people.iter().flatten().copied().collect(),
            window,
            reserve: u64::from(OUTPUT_TOKENS_MAX + window.reasoning_tokens).min(window.tokens / 2),
            rounds: Vec::new(),
            authored: AuthoredTexts::default(),
            reasons: Reasons::new(),
        };
        let record = AttemptRecord {
            attempt: self.attempt,
            started_at: now(),
            ended_at: None,
            outcome: AttemptOutcome::Running,
            error: None,
            waited_ms: 0,
        };
        let lease = self.lease;
        self.resolver
            .db
            .write(lease.workspace.0, async move |c: &mut Conn| {
                queue::lock_lease(c, &lease).await?;
                let (workspace, task) = (lease.workspace, lease.task);
                Ok::<_, LeaseLost>(manifest::save(c, workspace, task, &manifest, &record).await?)
            })
            .await?;
        Ok(())
    }

    /// Ends a successful call when another one follows.
    pub(super) async fn step_done(&mut self) -> Result<(), Abort> {
        self.advance(AttemptOutcome::Completed, None, None).await
    }

    /// Ends a failed call when another one follows immediately.
    pub(super) async fn next_attempt(
        &mut self,
        counts: RetryCounts,
        error: AttemptError,
    ) -> Result<(), Abort> {
        self.advance(AttemptOutcome::Retry, Some(error), Some(counts))
            .await
    }

    async fn advance(
        &mut self,
        outcome: AttemptOutcome,
        error: Option<AttemptError>,
        counts: Option<RetryCounts>,
    ) -> Result<(), Abort> {
        let lease = self.lease;
        self.attempt = self
            .resolver
            .db
            .write(lease.workspace.0, async move |c: &mut Conn| {
                queue::lock_lease(c, &lease).await?;
                attempts::end_attempt(c, lease.task, outcome, error.clone(), 0, now()).await?;
                let counts = match counts {
                    Some(counts) => serde_json::to_value(counts).unwrap_or_default(),
                    None => queue::counts_of(c, lease.task).await?,
                };
                queue::next_attempt(c, &lease, counts).await
            })
            .await?;
        Ok(())
    }

    pub(super) async fn end_attempt(
        &self,
        outcome: AttemptOutcome,
        error: AttemptError,
    ) -> Result<(), Abort> {
        let lease = self.lease;
        self.resolver
            .db
            .write(lease.workspace.0, async move |c: &mut Conn| {
                queue::lock_lease(c, &lease).await?;
                let error = Some(error.clone());
                Ok::<_, LeaseLost>(
                    attempts::end_attempt(c, lease.task, outcome, error, 0, now()).await?,
                )
            })
            .await?;
        Ok(())
    }
}
