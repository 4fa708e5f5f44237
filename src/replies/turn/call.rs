//! One model call: its context, its request, and its response stream.

use futures::StreamExt;
use tokio::time::Instant;

use crate::{
    agents::profiles::Resolved,
    db::{Conn, now},
    failpoint,
    ids::{MessageId, TaskId},
    model::{ChatRequest, CollectError, Delta, Limits, ModelError, StopReason},
    replies::{
        context::Loaded,
        manifest::{self, LeftOut, Manifest},
        prompt::{self, Context, SUMMARY_TOKENS_MAX, SummaryPlan},
        retry::{Failure, RetryCounts},
    },
    tasks::{
        Lease, LeaseLost, Task, TaskError, TaskKind,
        attempts::{AttemptOutcome, AttemptRecord},
        calls::{self, CallTask, NewCall, OpenCall, Purpose},
        queue::{self, Done},
        worker::Abort,
    },
};

use super::{handler::ReplyHandler, reply::Reply};

/// A summary should have at most `SUMMARY_TOKENS_MAX` tokens; only the beginning of a much longer one is kept.
const SUMMARY_BYTES_MAX: usize = 64 * 1024;

/// A complete reply.
pub(super) struct Answer {
    pub(super) text: String,
    pub(super) truncated: bool,
}

/// A context, the messages left out of it, and the messages replaced by its summary.
pub(super) type Fitted = (Context, Vec<LeftOut>, Vec<MessageId>);

/// A failed call, with the text received until then.
pub(super) struct Failed {
    pub(super) failure: Failure,
    pub(super) text: String,
}

impl ReplyHandler {
    /// Returns the utility model and its request for a summary that makes room for `model`; `None` if it would not
    /// change anything.
    pub(super) async fn summary_plan(
        &self,
        context: &Context,
        model: &str,
    ) -> Option<(String, SummaryPlan)> {
        let utility = self.provider.utility_model(model).await;
        let window = self.provider.window(model).await;
        let utility_window = self.provider.window(&utility).await;
        let plan = prompt::plan_summary(
            context,
            window.estimate_for(window.tokens),
            utility_window.estimate_for(utility_window.tokens),
        );
        plan.map(|plan| (utility, plan))
    }

    /// Shortens the context as far as the retry counts require, and returns it with the messages left out and
    /// summarized, or the failure of the summary.
    pub(super) async fn shortened(
        &self,
        task: &Task,
        lease: &Lease,
        loaded: &Loaded,
        counts: RetryCounts,
        model: &str,
    ) -> Result<Result<Fitted, Failure>, Abort> {
        let mut left_out = loaded.left_out.clone();
        if counts.summarised
            && let Some((utility, plan)) = self.summary_plan(&loaded.context, model).await
        {
            let request = ChatRequest {
                model: utility.clone(),
                system: plan.system.clone(),
                turns: plan.turns.clone(),
                max_output_tokens: Some(SUMMARY_TOKENS_MAX),
                ..ChatRequest::default()
            };
            let started_at = now();
            let limits = Limits {
                bytes_max: SUMMARY_BYTES_MAX,
                silence_max: self.task_timeout,
                time_max: self.task_timeout,
            };
            let id = TaskId::new();
            let call = NewCall {
                workspace: task.workspace_id,
                task: Some(CallTask {
                    id,
                    root: task.id,
                    attempt: 1,
                }),
                purpose: Purpose::Compact,
                user: task.requested_by,
                agent: task.agent_id,
                model: utility,
                prompt_tokens: request.prompt_tokens(),
            };
            let call = self.calls.begin(&self.provider, call).await?;
            let (error, summary) = match calls::collect(call, request, limits).await? {
                Ok(answer) => (None, Some(answer.text)),
                Err(e) => (Some(e), None),
            };
            let failure = error.clone();
            let done = Done {
                id,
                kind: TaskKind::Compact,
                error: error.map(|error| TaskError {
                    code: "model_unavailable".to_owned(),
                    message: error.to_string(),
                }),
                started_at,
            };
            let (parent, lease) = (task.clone(), *lease);
            self.db
                .write(lease.workspace.0, async move |c: &mut Conn| {
                    queue::lock_lease(c, &lease).await?;
                    Ok::<_, LeaseLost>(queue::record(c, &parent, &lease, &done).await?)
                })
                .await?;
            let summary = match (summary, failure) {
                (Some(summary), _) => summary,
                (None, Some(CollectError::Model(e))) => {
                    return Ok(Err(Failure::Summary(Box::new(Failure::Model(e)))));
                }
                (None, _) => return Ok(Err(Failure::Summary(Box::new(Failure::Timeout)))),
            };
            let ids = plan.message_ids.clone();
            left_out.push(LeftOut::of("summarised", &ids));
            return Ok(Ok((plan.apply(&loaded.context, summary), left_out, ids)));
        }
        if (counts.shrunk || counts.summarised)
            && let Some((context, ids)) = prompt::shrunk(&loaded.context)
        {
            left_out.push(LeftOut::of("context_too_large", &ids));
            return Ok(Ok((context, left_out, Vec::new())));
        }
        Ok(Ok((loaded.context.clone(), left_out, Vec::new())))
    }

    /// Stores the manifest, then calls the model once and streams the reply.
    pub(super) async fn call(
        &self,
        task: &Task,
        lease: &Lease,
        agent: &Resolved,
        manifest: &Manifest,
        output_limit: u32,
        ready: Option<&str>,
    ) -> Result<Result<Answer, Failed>, Abort> {
        let nothing = |failure| Failed {
            failure,
            text: String::new(),
        };
        // Waiting for a place is not the model's silence.
        let place = tokio::time::timeout(self.attempt_max, self.provider.place()).await;
        let Ok(place) = place else {
            return Ok(Err(nothing(Failure::Timeout)));
        };
        let request = ChatRequest {
            place,
            model: manifest.model.clone(),
            system: manifest.prompt.system.text(),
            turns: manifest.prompt.turns(),
            max_output_tokens: Some(output_limit),
            temperature: agent.profile.temperature,
            top_p: agent.profile.top_p,
            ready: ready.map(str::to_owned),
            ..ChatRequest::default()
        };
        let record = AttemptRecord {
            attempt: task.attempt,
            started_at: now(),
            ended_at: None,
            outcome: AttemptOutcome::Running,
            error: None,
            waited_ms: 0,
        };
        failpoint!("turn_call");
        let new = NewCall {
            workspace: task.workspace_id,
            task: Some(CallTask {
                id: task.id,
                root: task.id,
                attempt: task.attempt,
            }),
            purpose: Purpose::Reply,
            user: task.requested_by,
            agent: task.agent_id,
            model: manifest.model.clone(),
            prompt_tokens: manifest.window.corrected(manifest.prompt.tokens()),
        };
        let open = self.calls.prepare(&self.provider, new);
        let (stored, held, row) = (manifest.clone(), *lease, open.row());
        self.db
            .write(lease.workspace.0, async move |c: &mut Conn| {
                queue::lock_lease(c, &held).await?;
                let (workspace, task) = (held.workspace, held.task);
                manifest::save(c, workspace, task, &stored, &record).await?;
                Ok::<_, LeaseLost>(row.insert(c).await?)
            })
            .await?;
        let outcome = self
            .stream(task, lease, agent, manifest, &open, request)
            .await?;
        if outcome.is_err() {
            open.fail();
        }
        open.end().await?;
        Ok(outcome)
    }

    /// Sends the request of a stored call and streams the reply.
    async fn stream(
        &self,
        task: &Task,
        lease: &Lease,
        agent: &Resolved,
        manifest: &Manifest,
        open: &OpenCall,
        request: ChatRequest,
    ) -> Result<Result<Answer, Failed>, Abort> {
        let started = Instant::now();
        let deadline = started + self.attempt_max;
        let connected = tokio::time::timeout_at(
            deadline.min(started + self.task_timeout),
            open.stream(request),
        )
        .await;
        let nothing = |failure| Failed {
            failure,
            text: String::new(),
        };
        let mut stream = match connected {
            Ok(Ok(stream)) => stream,
            Ok(Err(e)) => return Ok(Err(nothing(Failure::Model(e)))),
            Err(_) => return Ok(Err(nothing(Failure::Timeout))),
        };

        let mut reply = Reply::new(self, task, *lease, agent, &manifest.prompt.agents());
        let mut stopped: Option<StopReason> = None;
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
                    reply.push(&piece).await?;
                }
                // Replies in threads do not offer tools. A model that only reasons may send these deltas without a
                // pause, so the deadline is checked here.
                Ok(Some(Ok(Delta::Alive | Delta::ToolCall(_)))) => {
                    if Instant::now() >= patience.min(deadline) {
                        return Ok(Err(Failed {
                            failure: Failure::Timeout,
                            text: reply.text,
                        }));
                    }
                }
                Ok(Some(Ok(Delta::Usage(_)))) => {
                    failpoint!("model_usage");
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
        Ok(match stopped {
            None => Err(Failed {
                failure: Failure::Model(ModelError::Broken("the stream ended early".to_owned())),
                text,
            }),
            Some(_) if text.trim().is_empty() => Err(Failed {
                failure: Failure::Model(ModelError::Empty),
                text,
            }),
            Some(reason) => Ok(Answer {
                text,
                truncated: reason == StopReason::Length,
            }),
        })
    }
}
