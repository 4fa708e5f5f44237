//! One model call: its context, its request, and its response stream.

use futures::StreamExt;
use tokio::time::Instant;

use crate::{
    agents::profiles::Resolved,
    db::{Conn, now},
    failpoint,
    model::{ChatRequest, Delta, DeltaStream, ModelError, StopReason},
    replies::{
        manifest::{self, Manifest},
        retry::Failure,
    },
    tasks::{
        Lease, LeaseLost, Task,
        attempts::{AttemptOutcome, AttemptRecord},
        calls::{CallTask, NewCall, OpenCall, Purpose},
        queue,
        worker::Abort,
    },
};

use super::{handler::ReplyHandler, reply::Reply};

/// A complete reply.
pub(super) struct Answer {
    pub(super) text: String,
    pub(super) truncated: bool,
}

/// A failed call, with the text received until then.
pub(super) struct Failed {
    pub(super) failure: Failure,
    pub(super) text: String,
}

impl ReplyHandler {
    /// Reserves the budget and stores the manifest, then calls the model once and streams the reply.
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
            output_tokens_max: output_limit,
        };
        let open = self.calls.prepare(&self.provider, new);
        let (stored, held, row) = (manifest.clone(), *lease, open.row());
        let reserved = self
            .db
            .write(lease.workspace.0, async move |c: &mut Conn| {
                queue::lock_lease(c, &held).await?;
                let (workspace, task) = (held.workspace, held.task);
                let reserved = row.insert(c).await?;
                if reserved.is_ok() {
                    manifest::save(c, workspace, task, &stored, &record).await?;
                }
                Ok::<_, LeaseLost>(reserved)
            })
            .await?;
        if let Err(over) = reserved {
            open.discard();
            return Ok(Err(nothing(Failure::OverBudget(over))));
        }
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
        let stream = match connected {
            Ok(Ok(stream)) => stream,
            Ok(Err(e)) => return Ok(Err(nothing(Failure::Model(e)))),
            Err(_) => return Ok(Err(nothing(Failure::Timeout))),
        };

        let mut reply = Reply::new(self, task, *lease, agent, &manifest.prompt.agents());
        let received = self.receive(&mut reply, stream, started).await?;
        if received.is_ok() {
            reply.end().await?;
        }
        let text = reply.text;
        Ok(match received {
            Ok(None) => Err(Failed {
                failure: Failure::Model(ModelError::Broken("the stream ended early".to_owned())),
                text,
            }),
            Ok(Some(_)) if text.trim().is_empty() => Err(Failed {
                failure: Failure::Model(ModelError::Empty),
                text,
            }),
            Ok(Some(reason)) => Ok(Answer {
                text,
                truncated: reason == StopReason::Length,
            }),
            Err(failure) => Err(Failed { failure, text }),
        })
    }

    /// Adds the pieces of the stream to the reply until the stream ends. Returns the reason that the model sent for its end.
    async fn receive(
        &self,
        reply: &mut Reply<'_>,
        mut stream: DeltaStream,
        started: Instant,
    ) -> Result<Result<Option<StopReason>, Failure>, Abort> {
        let deadline = started + self.attempt_max;
        let mut patience = started + self.task_timeout;
        let mut stopped: Option<StopReason> = None;
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
                Err(_) => return Ok(Err(Failure::Timeout)),
                Ok(Some(Ok(Delta::Text(piece)))) => {
                    failpoint!("model_text");
                    patience = Instant::now() + self.task_timeout;
                    reply.push(&piece).await?;
                }
                // Replies in threads do not offer tools. A model that only reasons may send these deltas without a
                // pause, so the deadline is checked here.
                Ok(Some(Ok(Delta::Alive | Delta::ToolCall(_)))) => {
                    if Instant::now() >= patience.min(deadline) {
                        return Ok(Err(Failure::Timeout));
                    }
                }
                Ok(Some(Ok(Delta::Usage(_)))) => {
                    failpoint!("model_usage");
                }
                Ok(Some(Ok(Delta::Stop(reason)))) => {
                    failpoint!("model_stop");
                    stopped = Some(reason);
                }
                Ok(Some(Err(e))) => return Ok(Err(Failure::Model(e))),
                Ok(None) => break,
            }
        }
        Ok(Ok(stopped))
    }
}
