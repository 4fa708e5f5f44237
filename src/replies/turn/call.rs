//! One model call: its context, its request, and its response stream.

use futures::StreamExt;
use tokio::time::Instant;

use crate::{
    agents::profiles::Resolved,
    chat::plain,
    db::{Conn, DbError, now},
    failpoint,
    ids::UserId,
    model::{
        ChatMessage, ChatRequest, Delta, DeltaStream, FunctionTool, ModelError, PictureUse, Place,
        StopReason, ToolCall, ToolCallPiece, ToolChoice, VendorMembers,
    },
    replies::{
        delegation::options::DelegateOptions,
        manifest::{self, Manifest},
        retry::Failure,
        taint,
    },
    tasks::{
        Lease, LeaseLost, Task, TaskKind,
        attempts::{AttemptOutcome, AttemptRecord},
        budgets::nano_usd,
        calls::{CallRow, CallTask, NewCall, OpenCall, Purpose},
        queue::{self, DelegationRoom},
        worker::Abort,
    },
    tools::hash::ARGUMENTS_BYTES_MAX,
};

use super::{handler::ReplyHandler, reply::Reply};

/// Maximum number of tool calls kept from one response. The limit per round still rejects most of them.
const CALLS_KEPT_MAX: usize = 40;

/// A complete reply, or the text and tool calls of a round.
pub(super) struct Answer {
    /// Text of all rounds.
    pub(super) text: String,
    /// Text of this call.
    pub(super) own_text: String,
    pub(super) truncated: bool,
    pub(super) calls: Vec<ToolCall>,
    /// Members that the server wants back with the calls.
    pub(super) vendor: VendorMembers,
    /// Model that wrote the text and the calls.
    pub(super) model: String,
    /// The model call, if its end will be stored together with the round.
    pub(super) open: Option<OpenCall>,
}

/// Parts of a model call in addition to its prompt.
pub(super) struct Extras {
    pub(super) tools: Vec<FunctionTool>,
    pub(super) choice: ToolChoice,
    /// Earlier rounds, after the trigger message.
    pub(super) turns: Vec<ChatMessage>,
    /// Texts of the earlier rounds.
    pub(super) text: String,
    /// Estimated number of tokens of the tool definitions and turns.
    pub(super) tokens: u64,
}

impl Extras {
    /// Checks whether tool calls in the response are accepted.
    fn takes_calls(&self) -> bool {
        !self.tools.is_empty() && self.choice != ToolChoice::None
    }
}

/// Tool calls of a response.
#[derive(Default)]
struct Called {
    calls: Vec<ToolCall>,
    /// Members that the server wants back with the calls.
    vendor: VendorMembers,
}

impl Called {
    /// Adds a piece of a tool call. Arguments are collected until they are too large to be accepted.
    fn add(&mut self, piece: ToolCallPiece) {
        if let Some(head) = piece.begins
            && self.calls.len() < CALLS_KEPT_MAX
        {
            self.calls.push(ToolCall {
                id: head.id,
                name: head.name,
                arguments: String::new(),
            });
        }
        if let Some(call) = self.calls.get_mut(piece.index)
            && call.arguments.len() <= ARGUMENTS_BYTES_MAX
        {
            call.arguments.push_str(&piece.arguments);
        }
    }
}

/// A model call whose prompt fits into the window.
#[derive(Clone, Copy)]
pub(super) struct PreparedCall<'a> {
    pub(super) manifest: &'a Manifest,
    pub(super) extras: &'a Extras,
    pub(super) output_limit: u32,
    pub(super) pictures: PictureUse,
    /// Text of the reply, if the built-in responder wrote it.
    pub(super) ready: Option<&'a str>,
}

impl PreparedCall<'_> {
    fn request(&self, agent: &Resolved, place: Place) -> ChatRequest {
        let Self {
            manifest, extras, ..
        } = self;
        ChatRequest {
            place,
            model: manifest.model.clone(),
            system: manifest.prompt.system.text(),
            turns: (manifest.prompt.turns().into_iter())
                .chain(extras.turns.iter().cloned())
                .collect(),
            tools: extras.tools.clone(),
            // The provider must not repeat the call without tools, because earlier rounds are then sent as plain text.
            tools_required: true,
            tool_choice: extras.choice.clone(),
            max_output_tokens: Some(self.output_limit),
            temperature: agent.profile.temperature,
            top_p: agent.profile.top_p,
            pictures: self.pictures,
            ready: self.ready.map(str::to_owned),
            ..ChatRequest::default()
        }
    }

    /// Describes the call for budgets and usage.
    fn counted(&self, task: &Task) -> NewCall {
        let Self {
            manifest, extras, ..
        } = self;
        NewCall {
            workspace: task.workspace_id,
            task: Some(CallTask {
                id: task.id,
                root: task.id,
                attempt: task.attempt,
                round: task.round + 1,
            }),
            purpose: Purpose::Reply,
            user: task.requested_by,
            agent: task.agent_id,
            model: manifest.model.clone(),
            prompt_tokens: manifest
                .window
                .corrected(manifest.prompt.tokens() + extras.tokens),
            output_tokens_max: self.output_limit,
        }
    }
}

/// A failed call, with the text received before the failure.
pub(super) struct Failed {
    pub(super) failure: Failure,
    pub(super) requester: UserId,
    pub(super) text: String,
}

/// Reserves the budgets of a call and inserts its row, unless a limit of the task's tree or delegation forbids the call.
async fn reserve(c: &mut Conn, task: &Task, row: &CallRow) -> Result<Result<(), Failure>, DbError> {
    if queue::is_used_up(c, task.root_task_id).await? {
        return Ok(Err(Failure::TreeLimit));
    }
    if task.kind == TaskKind::Delegate {
        let room = queue::delegation_room(c, task.id, row.reserved_nano_usd()).await?;
        if room != DelegationRoom::Enough {
            let usd_max = DelegateOptions::of(task).usd_max;
            return Ok(Err(Failure::OverDelegation {
                nano_usd_max: usd_max.map_or(0, nano_usd),
                can_wait: room == DelegationRoom::Later,
                at: now(),
            }));
        }
    }
    Ok(row.insert(c).await?.map_err(Failure::OverBudget))
}

/// Returns the result of a stream.
fn outcome_of(
    received: Result<Option<StopReason>, Failure>,
    reply: Reply<'_>,
    called: Called,
    call: &PreparedCall<'_>,
) -> Result<Answer, Failed> {
    let Called { calls, vendor } = called;
    let earlier = &call.extras.text;
    let own_text = reply.own_text().to_owned();
    let requester = reply.requester();
    let text = reply.text;
    // If this round has no text, the text of earlier rounds is the reply.
    let whole = if text.is_empty() {
        earlier.clone()
    } else {
        text.clone()
    };
    match received {
        Ok(None) => Err(Failed {
            failure: Failure::Model(ModelError::Broken("the stream ended early".to_owned())),
            requester,
            text,
        }),
        Ok(Some(_)) if plain::read(&whole).is_blank && calls.is_empty() => Err(Failed {
            failure: Failure::Model(ModelError::Empty),
            requester,
            text,
        }),
        Ok(Some(reason)) => Ok(Answer {
            text: whole,
            own_text,
            truncated: reason == StopReason::Length,
            calls,
            vendor,
            model: call.manifest.model.clone(),
            open: None,
        }),
        Err(failure) => Err(Failed {
            failure,
            requester,
            text,
        }),
    }
}

impl ReplyHandler {
    /// Reserves the budget and stores the manifest, then calls the model once and streams the reply. If the response contains tool
    /// calls, the model call stays open until its end is stored with the round.
    pub(super) async fn call(
        &self,
        task: &Task,
        lease: &Lease,
        agent: &Resolved,
        call: &PreparedCall<'_>,
    ) -> Result<Result<Answer, Failed>, Abort> {
        let nothing = |failure| Failed {
            failure,
            requester: task.requested_by,
            text: String::new(),
        };
        // Waiting for a free slot does not count toward the model's timeout.
        let place = tokio::time::timeout(self.attempt_max, self.provider.place()).await;
        let Ok(place) = place else {
            return Ok(Err(nothing(Failure::Timeout)));
        };
        let request = call.request(agent, place);
        let record = AttemptRecord {
            attempt: task.attempt,
            started_at: now(),
            ended_at: None,
            outcome: AttemptOutcome::Running,
            error: None,
            waited_ms: 0,
        };
        failpoint!("turn_call");
        let open = self.calls.prepare(&self.provider, call.counted(task));
        let (stored, held, row) = (call.manifest.clone(), *lease, open.row());
        let reserved = self
            .db
            .write(lease.workspace.0, async move |c: &mut Conn| {
                let task = queue::lock_lease(c, &held).await?;
                let reserved = reserve(c, &task, &row).await?;
                if reserved.is_ok() {
                    manifest::save(c, held.workspace, held.task, &stored, &record).await?;
                    taint::record(c, &task, &stored).await?;
                }
                Ok::<_, LeaseLost>(reserved)
            })
            .await?;
        if let Err(failure) = reserved {
            open.discard();
            return Ok(Err(nothing(failure)));
        }
        let mut outcome = self
            .stream(task, lease, agent, call, &open, request)
            .await?;
        if let Ok(answer) = &mut outcome
            && !answer.calls.is_empty()
        {
            answer.open = Some(open);
            return Ok(outcome);
        }
        if outcome.is_err() {
            open.fail();
        }
        open.end().await?;
        Ok(outcome)
    }

    /// Sends the request of a stored call, and streams the reply.
    async fn stream(
        &self,
        task: &Task,
        lease: &Lease,
        agent: &Resolved,
        call: &PreparedCall<'_>,
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
            requester: task.requested_by,
            text: String::new(),
        };
        let stream = match connected {
            Ok(Ok(stream)) => stream,
            Ok(Err(e)) => return Ok(Err(nothing(Failure::Model(e)))),
            Err(_) => return Ok(Err(nothing(Failure::Timeout))),
        };

        let extras = call.extras;
        let others = call.manifest.prompt.agents();
        let before = extras.text.clone();
        let mut reply = Reply::new(self, task, *lease, agent, &others, before);
        let mut called = Called::default();
        let received = self
            .receive(&mut reply, stream, &mut called, started, extras)
            .await?;
        // After earlier tool calls, the texts of earlier rounds can be the whole reply, so an empty response is not an error.
        let received = match received {
            Err(Failure::Model(ModelError::Empty | ModelError::ThoughtOnly { .. }))
                if !extras.text.trim().is_empty() =>
            {
                Ok(Some(StopReason::Complete))
            }
            other => other,
        };
        if received.is_ok() {
            reply.end().await?;
            // Tool calls can take a long time, so the text before them is flushed first.
            if !called.calls.is_empty() {
                reply.flush();
            }
        }
        Ok(outcome_of(received, reply, called, call))
    }

    /// Adds the pieces of the stream to the reply until the stream ends. Returns the stop reason that the model sent.
    async fn receive(
        &self,
        reply: &mut Reply<'_>,
        mut stream: DeltaStream,
        called: &mut Called,
        started: Instant,
        extras: &Extras,
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
                Ok(Some(Ok(Delta::ToolCall(piece)))) if extras.takes_calls() => {
                    failpoint!("model_call");
                    patience = Instant::now() + self.task_timeout;
                    if Instant::now() >= deadline {
                        return Ok(Err(Failure::Timeout));
                    }
                    called.add(piece);
                }
                Ok(Some(Ok(Delta::Discard))) => reply.discard().await?,
                Ok(Some(Ok(Delta::Vendor(members)))) => called.vendor = members,
                // A model that is only reasoning may send such deltas without a pause, so the deadline is checked here too. Calls are
                // ignored if no tools were offered.
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
