//! Drafts a resolution with a model: calls, repair, and fallback.
//!
//! ```text
//! briefs ── concurrent calls ──► one answer ─► parse, or ask again ► check ─► faults? ── one repair ──► trim
//!                            └─► several: parse ► check ► merge: one more call ──▲
//! ```

use std::sync::Arc;

use openvibe_extract::{Material, Outline, Reading};

use super::{
    calls::{Calls, Failed},
    draft::{self, AgentLines, Brief, Checked, DraftRequest, Raw, UnparsableDraft},
    resolver::{DraftOrigin, Drafted, Read, Resolver, extracted},
};
use crate::{
    agents::{profiles::Resolved, system},
    db::{Conn, now},
    model::Collected,
    replies::{
        requester::{Requester, find_requester},
        retry::{Attempt, Failure, RetryCounts, Step, next_step, with_jitter},
    },
    tasks::{
        FailCode, Lease, LeaseLost, Task, WaitReason,
        attempts::{self, AttemptError, AttemptOutcome},
        queue,
        worker::Abort,
    },
};

/// Maximum size of one request in tokens, regardless of the context window, because models overlook text in the middle
/// of larger requests.
const BRIEF_TOKENS_MAX: u64 = 32_000;

/// Earlier messages of the thread can use at most 1/`BACKGROUND_SHARE` of a request.
const BACKGROUND_SHARE: u64 = 4;

/// Request to a model, without the earlier messages of the thread.
fn request<'a>(task: &'a Task, read: &'a Read) -> DraftRequest<'a> {
    let guidance = task.input.0.prompt.trim();
    DraftRequest {
        material: &read.dive.material,
        background: &[],
        description: read.dive.fork.description.as_deref(),
        guidance: Some(guidance).filter(|text| !text.is_empty()),
    }
}

impl Resolver {
    /// Drafts the resolution with the model if there is one and its answer is usable; otherwise returns the extracted draft.
    pub(super) async fn draft(
        &self,
        task: &Task,
        lease: Lease,
        agent: &Resolved,
        mut counts: RetryCounts,
        read: &Arc<Read>,
    ) -> Result<Drafted, Abort> {
        let model = self
            .provider
            .choose_model(agent.profile.model.as_deref())
            .await;
        let required = system::required(&mut self.db.read().await?, task.workspace_id)
            .await?
            .text();
        let mut calls = Calls {
            resolver: self,
            required,
            read: Arc::clone(read),
            requested_by: self.requester(task).await?,
            model,
            lease,
            attempt: task.attempt,
        };
        let asked = request(task, read);
        if self.provider.is_offline() {
            calls.note(&[draft::brief(&asked)]).await?;
            return Ok(extracted(read, None));
        }
        let origin = DraftOrigin {
            by: Some(lease.target.agent),
            fallback: None,
        };
        loop {
            let tokens_max = self.brief_tokens_max(&calls.model, counts).await;
            let background = read.dive.background(tokens_max / BACKGROUND_SHARE);
            let asked = DraftRequest {
                background: &background,
                ..asked
            };
            let failure = match calls.draft(&asked, tokens_max).await {
                Ok(outline) => {
                    return Ok(Drafted {
                        outline,
                        model: calls.model,
                        origin,
                    });
                }
                Err(Failed::Abort(e)) => return Err(e),
                Err(Failed::UnparsableDraft(e)) => {
                    tracing::info!(reason = %e, "unusable model draft; using the extracted draft");
                    calls
                        .end_attempt(AttemptOutcome::Failed, bad_response(&e.to_string()))
                        .await?;
                    return Ok(extracted(read, Some(FailCode::BadResponse)));
                }
                Err(Failed::Call(failure)) => failure,
            };
            let can_refit = self.brief_tokens_max(&calls.model, counts).await < tokens_max;
            if !self
                .recover(agent, &mut calls, &mut counts, &failure, can_refit)
                .await?
            {
                return Ok(extracted(read, Some(failure.code())));
            }
        }
    }

    /// Prepares the next call after a failed one. Returns `false` if there is no next call; the extracted draft is then used.
    ///
    /// # Errors
    /// `Stopped` if the task was requeued for a later call.
    async fn recover(
        &self,
        agent: &Resolved,
        calls: &mut Calls<'_>,
        counts: &mut RetryCounts,
        failure: &Failure,
        can_refit: bool,
    ) -> Result<bool, Abort> {
        let attempt = Attempt {
            can_refit,
            can_shrink: true,
            can_summarise: true,
            fewer_functions: None,
            has_pictures: false,
        };
        let (step, new_counts) = next_step(failure, *counts, &self.policy, attempt);
        *counts = new_counts;
        tracing::info!(attempt = calls.attempt, code = %failure.code(), step = ?step, "model call for a draft failed");
        let error = AttemptError::from(failure);
        match step {
            // Only short waits are accepted: people wait for the draft, so an extracted draft is better than a long wait.
            Step::Wait {
                delay,
                reason,
                keeps_slot: true,
            } => {
                self.requeue(calls.lease, *counts, error, delay, reason)
                    .await?;
                return Err(Abort::Stopped);
            }
            Step::ChangeModel => {
                let wanted = agent.profile.model.as_deref();
                let other = self.provider.choose_model(wanted).await;
                if other == calls.model {
                    calls.end_attempt(AttemptOutcome::Failed, error).await?;
                    return Ok(false);
                }
                calls.model = other;
                calls.next_attempt(*counts, error).await?;
            }
            Step::Refit | Step::Shrink | Step::Summarise => {
                calls.next_attempt(*counts, error).await?;
            }
            // The request has already been sent with twice the output limit.
            Step::Wait { .. }
            | Step::OfferLess
            | Step::ThinkLonger
            | Step::LeaveOutPictures
            | Step::Fail { .. } => {
                calls.end_attempt(AttemptOutcome::Failed, error).await?;
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Maximum request size: half of the context window, but at most `BRIEF_TOKENS_MAX`. The limit is lower after a request that was
    /// too large.
    async fn brief_tokens_max(&self, model: &str, counts: RetryCounts) -> u64 {
        let part = match (counts.shrunk, counts.summarised) {
            (_, true) => 8,
            (true, false) => 4,
            (false, false) => 2,
        };
        let window = self.provider.window(model).await;
        let tokens_max = (window.tokens / part).min(BRIEF_TOKENS_MAX * 2 / part);
        window.estimate_for(tokens_max)
    }

    async fn requester(&self, task: &Task) -> Result<Requester, Abort> {
        let mut c = self.db.read().await?;
        Ok(find_requester(&mut c, task.workspace_id, task.requested_by).await?)
    }

    async fn requeue(
        &self,
        lease: Lease,
        counts: RetryCounts,
        error: AttemptError,
        delay: std::time::Duration,
        reason: WaitReason,
    ) -> Result<(), Abort> {
        let stored = serde_json::to_value(counts).unwrap_or_default();
        let delay = with_jitter(delay);
        let waited_ms = i64::try_from(delay.as_millis()).unwrap_or(i64::MAX);
        self.db
            .write(lease.workspace.0, async move |c: &mut Conn| {
                queue::lock_lease(c, &lease).await?;
                let error = Some(error.clone());
                attempts::end_attempt(
                    c,
                    lease.task,
                    AttemptOutcome::Retry,
                    error,
                    waited_ms,
                    now(),
                )
                .await?;
                queue::requeue(c, &lease, stored.clone(), delay, reason, true).await?;
                Ok::<_, LeaseLost>(())
            })
            .await?;
        Ok(())
    }
}

fn bad_response(message: &str) -> AttemptError {
    AttemptError {
        code: FailCode::BadResponse,
        message: message.to_owned(),
    }
}

impl Calls<'_> {
    async fn draft(
        &mut self,
        asked: &DraftRequest<'_>,
        tokens_max: u64,
    ) -> Result<Outline, Failed> {
        let briefs = draft::briefs(asked, tokens_max);
        let answers = self.ask(&briefs).await?;
        let (brief, answer) = if let ([brief], [answer]) = (briefs.as_slice(), answers.as_slice()) {
            (brief.clone(), answer.clone())
        } else {
            let parts = self.parts(briefs, answers).await?;
            let merge = draft::merge_brief(asked, &parts, tokens_max);
            self.step_done().await?;
            let answer = self.ask(std::slice::from_ref(&merge)).await?.remove(0);
            (merge, answer)
        };
        let (answer, raw) = self.parsed(&brief, answer).await?;
        let checked = self.checked(raw).await?;
        let checked = if checked.faults.is_empty() {
            checked
        } else {
            self.repaired(&brief, &answer.text, checked).await?
        };
        let trimmed = self.apart(move |read| draft::trim(checked, &read.dive.material));
        Ok(trimmed.await??)
    }

    /// Parses an answer. If it cannot be parsed, repeats the request once, unless its end is missing, because that request has already
    /// been repeated.
    async fn parsed(
        &mut self,
        brief: &Brief,
        answer: Collected,
    ) -> Result<(Collected, Raw), Failed> {
        match draft::parse_answer(&answer, &self.ids()) {
            Ok(raw) => return Ok((answer, raw)),
            Err(e @ UnparsableDraft::Incomplete) => return Err(e.into()),
            Err(_) => {}
        }
        self.step_done().await?;
        let answer = self.ask(std::slice::from_ref(brief)).await?.remove(0);
        let raw = draft::parse_answer(&answer, &self.ids())?;
        Ok((answer, raw))
    }

    /// Requests a repair and returns the better of the two answers, or the original if the repair fails.
    async fn repaired(
        &mut self,
        brief: &Brief,
        answer: &str,
        checked: Checked,
    ) -> Result<Checked, Failed> {
        self.step_done().await?;
        let repair = draft::repair_brief(brief, answer, &checked.faults);
        let repaired = match self.ask(&[repair]).await {
            Ok(mut answers) => draft::parse_answer(&answers.remove(0), &self.ids()),
            Err(Failed::Call(failure)) => {
                tracing::info!(
                    code = %failure.code(),
                    "draft repair failed; dropping the faulty parts"
                );
                return Ok(checked);
            }
            Err(e) => return Err(e),
        };
        Ok(match repaired {
            Ok(raw) => checked.or_better(self.checked(raw).await?),
            Err(_) => checked,
        })
    }

    async fn checked(&self, raw: Raw) -> Result<Checked, Failed> {
        self.apart(move |read| {
            draft::check(&raw, &read.dive.material, &read.reading, agent_lines(read))
        })
        .await
    }

    /// The outlines of all chunks.
    async fn parts(
        &self,
        briefs: Vec<Brief>,
        answers: Vec<Collected>,
    ) -> Result<Vec<Outline>, Failed> {
        let ids = self.ids();
        self.apart(move |read| {
            let parts = briefs.iter().zip(&answers);
            parts
                .map(|(brief, answer)| part(read, &ids, brief, answer))
                .collect()
        })
        .await
    }
}

/// In a collaboration, agents were asked to find the result, so their lines count as work.
fn agent_lines(read: &Read) -> AgentLines {
    match read.dive.fork.collaboration {
        Some(_) => AgentLines::Work,
        None => AgentLines::Ideas,
    }
}

/// The outline of a chunk, extracted if the model's answer is unusable.
fn part(read: &Read, ids: &[String], brief: &Brief, answer: &Collected) -> Outline {
    let material = &read.dive.material;
    if let Ok(raw) = draft::parse_answer(answer, ids) {
        return draft::check(&raw, material, &read.reading, agent_lines(read)).outline;
    }
    let lines = brief.pieces.iter().filter_map(|piece| piece.line);
    let lines: Vec<usize> = lines.filter(|at| *at < material.lines.len()).collect();
    let chunk = Material {
        people: material.people.clone(),
        lines: lines
            .iter()
            .filter_map(|at| material.lines.get(*at).cloned())
            .collect(),
    };
    let mut outline = Reading::new(&chunk).outline();
    let points = outline
        .key_points
        .iter_mut()
        .chain(&mut outline.open_questions)
        .chain(&mut outline.deferred_items)
        .map(|point| &mut point.sources);
    let items = outline
        .action_items
        .iter_mut()
        .map(|item| &mut item.sources);
    for sources in points.chain(items) {
        *sources = sources
            .iter()
            .filter_map(|at| lines.get(*at).copied())
            .collect();
    }
    outline
}
