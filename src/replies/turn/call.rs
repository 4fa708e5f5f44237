//! One model call: its context, its request, and its response stream.

use futures::StreamExt;
use tokio::{sync::watch, time::Instant};

use crate::{
    agents::profiles::Resolved,
    chat::plain,
    db::{Conn, DbError, now},
    failpoint,
    ids::UserId,
    model::{
        ChatMessage, ChatRequest, Delta, DeltaStream, FunctionTool, ModelError, PictureUse, Place,
        Role, StopReason, ToolCall, ToolCallPiece, ToolChoice, VendorMembers,
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
        queue::{self, DelegationRoom, Steering},
        steers,
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
    /// True if the call was stopped, or not made, because the requester steers the reply. The text is then not the end of the reply.
    pub(super) is_steered: bool,
}

impl Answer {
    /// An answer without text of a call that was not made or sent nothing.
    fn steered(call: &PreparedCall<'_>) -> Self {
        Self {
            text: call.extras.text.clone(),
            own_text: String::new(),
            truncated: false,
            calls: Vec::new(),
            vendor: VendorMembers::default(),
            model: call.manifest.model.clone(),
            open: None,
            is_steered: true,
        }
    }
}

/// End of a response stream.
enum StreamEnd {
    /// The model ended its response; `None` if it sent no stop reason.
    Model(Option<StopReason>),
    /// The requester steers the reply.
    Steered,
}

/// Result of reserving a call.
enum Reserved {
    Granted,
    Rejected(Failure),
    /// Messages that steer the reply have arrived, so the prompt has to be built again.
    Steered,
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

    /// Checks whether results of earlier rounds are sent with pictures.
    pub(super) fn has_pictures(&self) -> bool {
        self.turns.iter().any(|turn| !turn.pictures.is_empty())
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
    pub(super) steering: &'a Steering,
}

impl PreparedCall<'_> {
    /// Checks whether messages can change the reply. The built-in responder has written it already.
    fn can_be_steered(&self) -> bool {
        self.ready.is_none()
    }

    fn request(&self, agent: &Resolved, place: Place) -> ChatRequest {
        let Self {
            manifest, extras, ..
        } = self;
        ChatRequest {
            place,
            model: manifest.model.clone(),
            system: manifest.prompt.system.text(),
            turns: with_joined_users(
                (manifest.prompt.turns().into_iter()).chain(extras.turns.iter().cloned()),
            ),
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

/// Joins the turns of a user that follow each other, because messages that steer a reply follow the trigger message or the results of
/// calls.
fn with_joined_users(turns: impl Iterator<Item = ChatMessage>) -> Vec<ChatMessage> {
    let mut joined: Vec<ChatMessage> = Vec::new();
    for turn in turns {
        match joined.last_mut() {
            Some(last)
                if last.role == Role::User
                    && turn.role == Role::User
                    && turn.results.is_empty() =>
            {
                if !last.content.is_empty() {
                    last.content.push_str("\n\n");
                }
                last.content.push_str(&turn.content);
            }
            _ => joined.push(turn),
        }
    }
    joined
}

/// A failed call, with the text received before the failure.
pub(super) struct Failed {
    pub(super) failure: Failure,
    pub(super) requester: UserId,
    pub(super) text: String,
}

/// A call whose request is about to be sent.
#[derive(Clone, Copy)]
struct OpenStream<'a> {
    task: &'a Task,
    lease: &'a Lease,
    agent: &'a Resolved,
    call: &'a PreparedCall<'a>,
    open: &'a OpenCall,
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
    received: Result<StreamEnd, Failure>,
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
        // Calls of a stopped response may be incomplete.
        Ok(StreamEnd::Steered) => Ok(Answer {
            text: whole,
            own_text,
            ..Answer::steered(call)
        }),
        Ok(StreamEnd::Model(None)) => Err(Failed {
            failure: Failure::Model(ModelError::Broken("the stream ended early".to_owned())),
            requester,
            text,
        }),
        Ok(StreamEnd::Model(Some(_))) if plain::read(&whole).is_blank && calls.is_empty() => {
            Err(Failed {
                failure: Failure::Model(ModelError::Empty),
                requester,
                text,
            })
        }
        Ok(StreamEnd::Model(Some(reason))) => Ok(Answer {
            text: whole,
            own_text,
            truncated: reason == StopReason::Length,
            calls,
            vendor,
            model: call.manifest.model.clone(),
            open: None,
            is_steered: false,
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
        let can_be_steered = call.can_be_steered();
        // Later signals are about messages that the transaction does not find.
        let mut signals = call.steering.subscribe();
        let reserved = self
            .db
            .write(lease.workspace.0, async move |c: &mut Conn| {
                let task = queue::lock_lease(c, &held).await?;
                if can_be_steered && steers::has_unread(c, held.task).await? {
                    return Ok(Reserved::Steered);
                }
                if let Err(failure) = reserve(c, &task, &row).await? {
                    return Ok(Reserved::Rejected(failure));
                }
                manifest::save(c, held.workspace, held.task, &stored, &record).await?;
                taint::record(c, &task, &stored).await?;
                Ok::<_, LeaseLost>(Reserved::Granted)
            })
            .await?;
        match reserved {
            Reserved::Granted => {}
            Reserved::Rejected(failure) => {
                open.discard();
                return Ok(Err(nothing(failure)));
            }
            Reserved::Steered => {
                open.discard();
                return Ok(Ok(Answer::steered(call)));
            }
        }
        let of = OpenStream {
            task,
            lease,
            agent,
            call,
            open: &open,
        };
        let mut outcome = self.stream(of, request, &mut signals).await?;
        if let Ok(answer) = &mut outcome
            && (!answer.calls.is_empty() || answer.is_steered)
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
        of: OpenStream<'_>,
        request: ChatRequest,
        signals: &mut watch::Receiver<()>,
    ) -> Result<Result<Answer, Failed>, Abort> {
        let OpenStream {
            task,
            lease,
            agent,
            call,
            open,
        } = of;
        let started = Instant::now();
        let deadline = started + self.attempt_max;
        let connecting = tokio::time::timeout_at(
            deadline.min(started + self.task_timeout),
            open.stream(request),
        );
        let mut connecting = std::pin::pin!(connecting);
        let connected = loop {
            tokio::select! {
                biased;
                Ok(()) = signals.changed(), if call.can_be_steered() => {
                    if self.is_steered(task).await? {
                        return Ok(Ok(Answer::steered(call)));
                    }
                }
                connected = &mut connecting => break connected,
            }
        };
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
            .receive(&mut reply, stream, &mut called, started, call, signals)
            .await?;
        // After earlier tool calls, the texts of earlier rounds can be the whole reply, so an empty response is not an error.
        let received = match received {
            Err(Failure::Model(ModelError::Empty | ModelError::ThoughtOnly { .. }))
                if !extras.text.trim().is_empty() =>
            {
                Ok(StreamEnd::Model(Some(StopReason::Complete)))
            }
            other => other,
        };
        if received.is_ok() {
            reply.end().await?;
            // Tool calls and the next model call can take a long time, so the text before them is flushed first.
            if !called.calls.is_empty() || matches!(received, Ok(StreamEnd::Steered)) {
                reply.flush();
            }
        }
        Ok(outcome_of(received, reply, called, call))
    }

    /// Checks whether messages that steer a reply have arrived.
    async fn is_steered(&self, task: &Task) -> Result<bool, DbError> {
        steers::has_unread(&mut self.db.read().await?, task.id).await
    }

    /// Adds the pieces of the stream to the reply until the stream ends or messages that steer the reply arrive.
    async fn receive(
        &self,
        reply: &mut Reply<'_>,
        mut stream: DeltaStream,
        called: &mut Called,
        started: Instant,
        call: &PreparedCall<'_>,
        signals: &mut watch::Receiver<()>,
    ) -> Result<Result<StreamEnd, Failure>, Abort> {
        let deadline = started + self.attempt_max;
        let mut patience = started + self.task_timeout;
        let mut stopped: Option<StopReason> = None;
        loop {
            let delta = tokio::select! {
                biased;
                Ok(()) = signals.changed(), if call.can_be_steered() => {
                    if self.is_steered(reply.task()).await? {
                        return Ok(Ok(StreamEnd::Steered));
                    }
                    continue;
                }
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
                Ok(Some(Ok(Delta::ToolCall(piece)))) if call.extras.takes_calls() => {
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
        Ok(Ok(StreamEnd::Model(stopped)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_turns_of_a_user_are_joined_also_after_results() {
        let said = |role, text: &str| ChatMessage::new(role, text.to_owned());
        let results = ChatMessage {
            results: vec![crate::model::ToolResult {
                call_id: "call_0".to_owned(),
                content: "Found.".to_owned(),
            }],
            ..said(Role::User, "")
        };
        let turns = [
            said(Role::User, "When?"),
            said(Role::User, "Only the day"),
            said(Role::Assistant, "The fair"),
            results,
            said(Role::User, "Shorter"),
            said(Role::User, "Please"),
        ];
        let joined = with_joined_users(turns.into_iter());
        let texts: Vec<&str> = joined.iter().map(|turn| turn.content.as_str()).collect();
        assert_eq!(
            texts,
            ["When?\n\nOnly the day", "The fair", "Shorter\n\nPlease"]
        );
        assert_eq!(joined[2].results.len(), 1);
    }
}
