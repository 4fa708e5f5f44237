//! Rounds of a reply: tool calls between model calls. Their state is stored in rows, so that another worker can continue at any point
//! (docs/adr/0013-actions-are-rows.md).
//!
//! ```text
//! answer with calls ─► store_round ─► finish_round ─┬─► next model call
//!                                       │           └─► parked ─► woken ─► resume_round
//!                                       └ start ─► run ─► end, for each action: reads 4 at once, then writes in order
//! ```
//!
//! Reads that need no approval start in the transaction that stores their round. The last of them ends the round in the transaction
//! that stores its result.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{StreamExt, TryStreamExt, future::BoxFuture};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::{
    agents::{
        derived::{self, DELETED, SourceId},
        policy,
        profiles::Resolved,
    },
    db::{Conn, DbError, dialect::lock_workspace, now},
    failpoint,
    files::pictures::{Picture, PictureReader},
    ids::{ActionId, AgentId, ApiKeyId, TaskId, UserId},
    mcp::Effect,
    model::{
        ChatMessage, FunctionTool, Provider, Refused, RefusedFunction, Role, ToolCall, ToolChoice,
        ToolResult, TurnPicture, VendorMembers, Window, estimate_tokens, picture_tokens,
    },
    realtime::EventType,
    replies::{
        context::Loaded,
        delegation::{self, Prepared},
        lines::clean_name,
        manifest::{Block, RoundPart, TextOrigin},
        results::{FaultOrigin, data_heading, escaped, fault_text, output_text},
        retry::{Offered, RetryCounts},
        steers::{self, Steer},
    },
    tasks::{
        FailCode, Lease, LeaseLost, Task, WaitReason,
        actions::{self, Action, ActionSource, ActionState, Ending, GrantedBy, texts},
        attempts::{self, AttemptOutcome},
        calls::OpenCall,
        queue::{self, NextRound, RoundAnswer, Steering},
        steers::{self as task_steers, has_unread},
        worker::Abort,
    },
    tool_fault::{ToolErrorCode, ToolFault},
    tools::{
        builtin::done,
        function::{DELEGATE, ToolFunction},
        guard, handles, hash,
        output::{ToolOutput, failure_text},
        requests::{CALLS_IN_ROUND_MAX, CALLS_MAX, Requests, Start},
        runner::{CallError, NotOffered, Offer, ToolRun, ToolTask},
        taint,
    },
    workflows::run,
};

use super::{
    call::{Answer, Extras},
    handler::ReplyHandler,
    reply::{ROUNDS_JOINED, Reply, save_partial_reply},
    scheduled,
};

/// Maximum number of rounds of a task.
pub const ROUNDS_MAX: usize = 10;
/// Maximum total run time of a task's rounds; waiting for people does not count.
pub const RUN_MAX: Duration = Duration::from_mins(10);
/// Maximum number of reads that run at the same time.
pub const READS_AT_ONCE: usize = 4;
/// Maximum duration of a tool call.
pub const CALL_MAX: Duration = Duration::from_mins(1);
/// Grace period for a call after its deadline.
pub const CALL_GRACE: Duration = Duration::from_secs(5);
/// Grace period for a running write after its task was stopped.
const WRITE_GRACE: Duration = Duration::from_secs(5);
/// Tool definitions can use at most 1/`DEFINITIONS_SHARE` of the window.
const DEFINITIONS_SHARE: u64 = 4;
/// Earlier rounds can use at most 1/`ROUNDS_SHARE` of the window. As long as the prompt does not fit, this limit is divided by
/// `ROUNDS_SHARE` again.
const ROUNDS_SHARE: u64 = 3;
/// Maximum number of pictures of results in a request, and of a reply.
const RESULT_PICTURES_MAX: usize = 4;
/// End of the note for a picture in a result, and the text that replaces it if the picture is sent.
const NOT_SHOWN: &str = " KiB, not shown]";
const ATTACHED: &str = " KiB, attached]";
/// Reason for leaving out the functions of a model without tools.
const NO_FUNCTIONS: &str = "the model does not support functions";
/// Replaces arguments that a request leaves out.
const ARGUMENTS_LEFT_OUT: &str = r#"{"left_out": true}"#;

/// Replaces a collaborator's summary that was removed.
const NO_SUMMARY: &str = "Done.";

/// A tool call of an earlier round, with its result.
struct RoundCall {
    action: Action,
    /// Arguments as JSON; `None` if they were removed.
    arguments: Option<String>,
    /// `None` if the result was removed.
    result: Option<String>,
}

impl RoundCall {
    /// Returns the origin of the result. A note is not stored as a separate text, so its author is the source.
    fn origin(&self) -> TextOrigin {
        if self.action.result_id.is_some() {
            return TextOrigin::Stored;
        }
        let people = self.action.needs.iter().filter_map(|need| need.by);
        let people = people.filter(|_| self.action.note.is_some());
        TextOrigin::New(people.map(SourceId::User).collect())
    }
}

/// An earlier round.
struct StoredRound {
    number: i64,
    text: String,
    /// Model that made the calls, and the members that its server wants back.
    vendor: Option<(String, VendorMembers)>,
    calls: Vec<RoundCall>,
    /// True if the requester steered the reply after a text without calls. Such a round does not count toward the limit.
    is_steered: bool,
}

impl StoredRound {
    /// Returns the members that the server of this model wants back.
    fn members_for(&self, model: &str) -> Option<&VendorMembers> {
        let (of, members) = self.vendor.as_ref()?;
        (of == model).then_some(members)
    }
}

/// Total run time of a task's rounds; waiting for people does not count.
#[derive(Debug, Clone, Copy)]
pub(super) struct RunClock {
    before: Duration,
    since: Instant,
}

impl RunClock {
    /// Starts the clock at the total run time of earlier attempts.
    pub(super) fn after(ran_ms: u64) -> Self {
        Self {
            before: Duration::from_millis(ran_ms),
            since: Instant::now(),
        }
    }

    pub(super) fn ran(self) -> Duration {
        self.before + self.since.elapsed()
    }

    pub(super) fn ran_ms(self) -> u64 {
        u64::try_from(self.ran().as_millis()).unwrap_or(u64::MAX)
    }
}

/// Earlier rounds of a task, and the messages that steer it.
#[derive(Default)]
pub(super) struct Rounds {
    rounds: Vec<StoredRound>,
    steers: Vec<Steer>,
}

/// Numbers of the oldest results, arguments, texts, and vendor's members that a request leaves out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Omitted {
    results: usize,
    arguments: usize,
    texts: usize,
    vendor: usize,
}

impl Omitted {
    /// Leaves out the oldest results, then the oldest arguments, then the oldest texts, then the oldest vendor's members, until the rest
    /// has at most `tokens_max` tokens. `sizes` contains the tokens of each kind, oldest first.
    fn of(sizes: &[Vec<u64>; 4], tokens_max: u64) -> Self {
        let mut tokens: u64 = sizes.iter().flatten().sum();
        let mut count = |sizes: &[u64]| {
            let mut n = 0;
            while let Some(size) = sizes.get(n).filter(|_| tokens > tokens_max) {
                tokens -= size;
                n += 1;
            }
            n
        };
        let [results, arguments, texts, vendor] = sizes;
        Self {
            results: count(results),
            arguments: count(arguments),
            texts: count(texts),
            vendor: count(vendor),
        }
    }
}

/// Input for rendering the earlier rounds in a request.
pub(super) struct RoundsSent<'a> {
    pub(super) offer: &'a Offer,
    /// Model of the request.
    pub(super) model: &'a str,
    pub(super) window: Window,
    pub(super) requester: UserId,
    /// Total run time of the rounds.
    pub(super) ran: Duration,
    pub(super) task: TaskId,
    /// Name of the agent to which the reply announced a delegation.
    pub(super) announced: Option<&'a str>,
    /// Pictures of results; `None` if the model does not get pictures.
    pub(super) pictures: Option<&'a PictureReader>,
    /// Room in bytes that the pictures of messages leave.
    pub(super) picture_bytes_max: usize,
}

/// Functions that can be offered to a model.
pub(super) struct OfferedTo<'a> {
    /// `None` if no model is called.
    pub(super) model: Option<&'a str>,
    pub(super) kinds: Offered,
    /// Functions that the model's server has rejected in this run of the task.
    pub(super) refused: &'a [Refused],
}

/// A prompt that fits into a window together with the rounds of its reply.
pub(super) struct FittedCall<T> {
    pub(super) prompt: T,
    pub(super) extras: Extras,
    /// Records of the parts in `extras`.
    pub(super) parts: Vec<RoundPart>,
}

/// Context in which a round's actions run.
#[derive(Clone, Copy)]
pub(super) struct RoundRun<'a> {
    pub(super) lease: Lease,
    pub(super) requests: &'a Requests,
    pub(super) clock: RunClock,
    pub(super) stop: &'a CancellationToken,
    pub(super) steering: &'a Steering,
}

/// A round that was just stored, with its actions.
pub(super) struct NewRound {
    pub(super) next: NextRound,
    pub(super) actions: Vec<Action>,
}

/// Next step after the actions of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RoundEnd {
    NextCall,
    /// The task is parked until people decide or other tasks end.
    Parked,
}

/// Returns the text of a call's result for the model, or `None` if the text was removed.
fn result_of(action: &Action, stored: Option<String>) -> Option<String> {
    if action.result_id.is_some() {
        return stored;
    }
    let code = action.error.unwrap_or(ToolErrorCode::ToolFailed);
    let note = escaped(action.note.as_deref().unwrap_or_default());
    let is_requesters = (action.needs.iter().filter_map(|need| need.by))
        .all(|person| person == action.requested_by);
    Some(if note.is_empty() || is_requesters {
        failure_text(code, &note)
    } else {
        let heading = data_heading("the person who denied it");
        failure_text(code, &format!("{heading}{note}"))
    })
}

/// Changes the notes for the first pictures of a result. Notes for sound and files stay.
fn with_attached(result: &str, mut pictures: usize) -> String {
    let mut text = String::with_capacity(result.len());
    for (n, part) in result.split(NOT_SHOWN).enumerate() {
        if n > 0 {
            let before = text.trim_end_matches(|c: char| c.is_ascii_digit());
            let is_attached = pictures > 0 && before.ends_with("[image, ");
            pictures -= usize::from(is_attached);
            text.push_str(if is_attached { ATTACHED } else { NOT_SHOWN });
        }
        text.push_str(part);
    }
    text
}

/// Loads the rounds of a task with all their texts. `steers` contains the messages that steer the task.
async fn load(c: &mut Conn, task: TaskId, steers: Vec<Steer>) -> Result<Rounds, DbError> {
    let rounds = queue::rounds_of(c, task).await?;
    if rounds.is_empty() {
        return Ok(Rounds {
            steers,
            ..Rounds::default()
        });
    }
    let stored = texts::of_task(c, task).await?;
    let mut stored: HashMap<_, _> = stored.into_iter().map(|row| (row.id, row)).collect();
    let mut of_round: HashMap<i64, Vec<RoundCall>> = HashMap::new();
    for mut action in actions::of_task(c, task).await? {
        let row = stored.remove(&action.id);
        let (arguments, result) = row.map_or((None, None), |row| (row.arguments, row.result));
        // The message that the note repeats follows as a whole.
        let repeats = |steer: &Steer| steer.round == action.round && steer.note == action.note;
        if steers.iter().any(repeats) {
            action.note = None;
        }
        of_round.entry(action.round).or_default().push(RoundCall {
            arguments,
            result: result_of(&action, result),
            action,
        });
    }
    let rounds = rounds.into_iter().map(|round| {
        let calls = of_round.remove(&round.round).unwrap_or_default();
        StoredRound {
            number: round.round,
            vendor: round.model.clone().zip(round.members()),
            is_steered: calls.is_empty() && steers.iter().any(|steer| steer.round == round.round),
            text: round.text,
            calls,
        }
    });
    Ok(Rounds {
        rounds: rounds.collect(),
        steers,
    })
}

/// Renders a round as plain text, because servers reject calls and results in requests without tools.
fn plain_turns(text: &str, calls: &[ToolCall], results: &[ToolResult]) -> [ChatMessage; 2] {
    let called = (1..).zip(calls);
    let called = called.map(|(n, call)| format!("(call {n}: {} {})", call.name, call.arguments));
    let said = std::iter::once(text.to_owned()).filter(|text| !text.trim().is_empty());
    let said: Vec<String> = said.chain(called).collect();
    let returned = (1..).zip(results);
    let returned: Vec<String> = returned
        .map(|(n, result)| format!("(result of call {n})\n{}", result.content))
        .collect();
    [
        ChatMessage::new(Role::Assistant, said.join("\n")),
        ChatMessage::new(Role::User, returned.join("\n\n")),
    ]
}

/// Returns the definition of a function as text whose size counts toward the window.
fn definition_text(function: &ToolFunction) -> String {
    let definition = &function.definition;
    serde_json::json!({
        "name": definition.name,
        "description": definition.description,
        "parameters": definition.parameters,
    })
    .to_string()
}

/// Leaves out the functions that the server of `model` has rejected, and those whose definitions do not fit into their share of the
/// window.
pub async fn limit_definitions(offer: &mut Offer, provider: &dyn Provider, model: &str) {
    let definitions: Vec<FunctionTool> = offer
        .functions()
        .map(|function| function.definition.clone())
        .collect();
    let refused = if provider.takes_tools(model) {
        provider.refused_functions(model, &definitions)
    } else {
        let refused = definitions.into_iter().map(|definition| RefusedFunction {
            name: definition.name,
            reason: NO_FUNCTIONS.to_owned(),
        });
        refused.collect()
    };
    offer.leave_out(refused);
    let window = provider.window(model).await;
    offer.limit(window.tokens / DEFINITIONS_SHARE, |function| {
        window.corrected(estimate_tokens(&definition_text(function)))
    });
}

/// Returns the estimated size of an offer's definitions, in tokens.
pub(in crate::replies) fn definition_tokens(offer: &Offer) -> u64 {
    let sizes = offer.functions().map(definition_text);
    sizes.map(|text| estimate_tokens(&text)).sum()
}

/// Returns the definitions of an offer as a part of a request, or `None` if the offer is empty.
pub(in crate::replies) fn definitions_of(offer: &Offer) -> Option<RoundPart> {
    if offer.is_empty() {
        return None;
    }
    let definitions: Vec<String> = offer.functions().map(definition_text).collect();
    let text = definitions.join("\n");
    Some(RoundPart {
        block: Block::Tools,
        role: Role::User,
        tokens: estimate_tokens(&text),
        text,
        source: None,
        origin: TextOrigin::New(Vec::new()),
        only_user: None,
        is_gone: false,
    })
}

impl Rounds {
    /// Checks whether a limit has been reached, in which case the next model call must be the last one.
    fn are_used_up(&self, ran: Duration) -> bool {
        let calls: usize = self.rounds.iter().map(|round| round.calls.len()).sum();
        let counted = self.rounds.iter().filter(|round| !round.is_steered);
        counted.count() >= ROUNDS_MAX
            || i64::try_from(calls).is_ok_and(|calls| calls >= CALLS_MAX)
            || ran >= RUN_MAX
    }

    /// Returns the messages that follow a round.
    fn steers_after(&self, round: i64) -> impl Iterator<Item = &Steer> {
        let steers = self.steers.iter();
        steers.filter(move |steer| steer.round == round)
    }

    /// Returns the texts that the requester has typed to steer the reply.
    pub(super) fn typed(&self) -> impl Iterator<Item = &str> {
        self.steers
            .iter()
            .filter_map(|steer| steer.typed.as_deref())
    }

    /// Returns the API key of the first message that was posted with one to steer the reply.
    pub(super) fn api_key(&self) -> Option<ApiKeyId> {
        self.steers.iter().find_map(|steer| steer.api_key)
    }

    /// Returns the texts of all rounds, joined as in the reply.
    pub(super) fn text(&self) -> String {
        let texts = self.rounds.iter().map(|round| round.text.trim_end());
        let texts: Vec<&str> = texts.filter(|text| !text.is_empty()).collect();
        texts.join(ROUNDS_JOINED)
    }

    /// Determines what to leave out, so that the rest has at most `tokens_max` tokens.
    fn omitted(&self, model: &str, tokens_max: u64) -> Omitted {
        let size = |text: Option<&str>| text.map_or(0, estimate_tokens);
        let calls = || self.rounds.iter().flat_map(|round| &round.calls);
        let texts = (self.rounds.iter()).map(|round| estimate_tokens(&round.text));
        let sizes = [
            calls().map(|call| size(call.result.as_deref())).collect(),
            calls()
                .map(|call| size(call.arguments.as_deref()))
                .collect(),
            texts.collect(),
            (self.rounds.iter())
                .map(|round| round.members_for(model).map_or(0, VendorMembers::tokens))
                .collect(),
        ];
        Omitted::of(&sizes, tokens_max)
    }

    /// Chooses the newest pictures of the results, at most `RESULT_PICTURES_MAX`, by their calls.
    fn pictures(&self, sent: &RoundsSent<'_>) -> HashMap<ActionId, Vec<Picture>> {
        let mut chosen = HashMap::new();
        let Some(reader) = sent.pictures.filter(|_| !sent.offer.is_empty()) else {
            return chosen;
        };
        let (mut left, mut room) = (RESULT_PICTURES_MAX, sent.picture_bytes_max);
        for call in self
            .rounds
            .iter()
            .rev()
            .flat_map(|round| round.calls.iter().rev())
        {
            // The result is missing if a source of it was deleted.
            if call.result.is_none() {
                continue;
            }
            let mut pictures = reader.of_result(call.action.id.0);
            pictures.truncate(left);
            pictures.retain(|picture| {
                let fits = picture.size_bytes <= room;
                room -= if fits { picture.size_bytes } else { 0 };
                fits
            });
            left -= pictures.len();
            if !pictures.is_empty() {
                chosen.insert(call.action.id, pictures);
            }
        }
        chosen
    }

    /// Returns the newest pictures of the results, in order.
    pub(super) fn newest_pictures(&self, reader: &PictureReader) -> Vec<Picture> {
        let calls = self.rounds.iter().flat_map(|round| &round.calls);
        // The result is missing if a source of it was deleted.
        let calls = calls.filter(|call| call.result.is_some());
        let mut pictures: Vec<Picture> = calls
            .flat_map(|call| reader.of_result(call.action.id.0))
            .collect();
        pictures.drain(..pictures.len().saturating_sub(RESULT_PICTURES_MAX));
        pictures
    }

    /// Fits a prompt and these rounds into a window, leaving out as much of the rounds as needed. `fit` receives the corrected number
    /// of tokens of the rounds and the definitions.
    ///
    /// # Errors
    /// Any error from `fit` if the prompt does not fit even without the texts of the rounds.
    pub(super) fn fit<T, E>(
        &self,
        sent: &RoundsSent<'_>,
        fit: impl Fn(u64) -> Result<T, E>,
    ) -> Result<FittedCall<T>, E> {
        let window = sent.window;
        let mut tokens_max = window.estimate_for(window.tokens / ROUNDS_SHARE);
        loop {
            let (extras, parts) = self.extras(sent, tokens_max);
            match fit(window.corrected(extras.tokens)) {
                Ok(prompt) => {
                    return Ok(FittedCall {
                        prompt,
                        extras,
                        parts,
                    });
                }
                Err(_) if tokens_max > 0 && !self.rounds.is_empty() => tokens_max /= ROUNDS_SHARE,
                Err(e) => return Err(e),
            }
        }
    }

    /// Returns the parts of the next call that are sent in addition to its prompt, and their record.
    fn extras(&self, sent: &RoundsSent<'_>, tokens_max: u64) -> (Extras, Vec<RoundPart>) {
        let offer = sent.offer;
        let mut sending = SentRounds {
            sent,
            omitted: self.omitted(sent.model, tokens_max),
            pictures: self.pictures(sent),
            calls: 0,
            vendor_tokens: 0,
            picture_tokens: 0,
            turns: Vec::new(),
            parts: definitions_of(offer).into_iter().collect(),
        };
        sending.add_steers(self.steers_after(0));
        for (at, round) in self.rounds.iter().enumerate() {
            sending.add(at, round);
            sending.add_steers(self.steers_after(round.number));
        }
        let SentRounds {
            turns,
            parts,
            vendor_tokens,
            picture_tokens,
            ..
        } = sending;
        let extras = Extras {
            tools: offer
                .functions()
                .map(|function| function.definition.clone())
                .collect(),
            choice: if self.are_used_up(sent.ran) {
                ToolChoice::None
            } else {
                ToolChoice::Auto
            },
            turns,
            text: self.text(),
            tokens: vendor_tokens
                + picture_tokens
                + parts.iter().map(|part| part.tokens).sum::<u64>(),
        };
        (extras, parts)
    }
}

/// Earlier rounds as turns of a request, and their record.
struct SentRounds<'a> {
    sent: &'a RoundsSent<'a>,
    omitted: Omitted,
    /// Pictures of results that are sent.
    pictures: HashMap<ActionId, Vec<Picture>>,
    /// Number of calls added so far.
    calls: usize,
    /// Tokens of the vendor's members, which are sent, but never shown.
    vendor_tokens: u64,
    picture_tokens: u64,
    turns: Vec<ChatMessage>,
    parts: Vec<RoundPart>,
}

impl SentRounds<'_> {
    /// Adds a round; `at` is its position.
    fn add(&mut self, at: usize, round: &StoredRound) {
        let (text, origin) = if at < self.omitted.texts && !round.text.trim().is_empty() {
            ("(text left out)", TextOrigin::New(Vec::new()))
        } else {
            (round.text.as_str(), TextOrigin::Stored)
        };
        if !text.trim().is_empty() {
            let first = round.calls.first();
            let owner = first.map_or(ActionId(self.sent.task.0), |call| call.action.id);
            let source = Some(SourceId::Action(owner));
            self.record(Block::Round, Role::Assistant, text, source, origin);
        }
        if round.is_steered {
            if !text.trim().is_empty() {
                let said = ChatMessage::new(Role::Assistant, text.to_owned());
                self.turns.push(said);
            }
            return;
        }
        if round.calls.is_empty() {
            self.remind(text);
            return;
        }
        let (mut calls, mut results, mut pictures) = (Vec::new(), Vec::new(), Vec::new());
        for call in &round.calls {
            calls.push(self.add_call(call));
            let is_kept = self.calls >= self.omitted.results;
            let mut result = self.add_result(call);
            self.calls += 1;
            let shown = self.pictures.remove(&call.action.id);
            if let Some(shown) = shown.filter(|_| is_kept) {
                // The record keeps the stored text.
                result.content = with_attached(&result.content, shown.len());
                pictures.extend(shown);
            }
            results.push(result);
        }
        if self.sent.offer.is_empty() {
            self.turns.extend(plain_turns(text, &calls, &results));
            return;
        }
        let vendor = round.members_for(self.sent.model);
        let vendor = vendor.filter(|_| at >= self.omitted.vendor).cloned();
        let vendor = vendor.unwrap_or_default();
        self.vendor_tokens += vendor.tokens();
        self.turns.push(ChatMessage {
            calls,
            vendor,
            ..ChatMessage::new(Role::Assistant, text.to_owned())
        });
        let pictures = pictures.into_iter().map(|picture| TurnPicture {
            at: 0,
            url: picture.url,
            tokens: picture_tokens(picture.width, picture.height),
            // The results name them.
            unsent: String::new(),
            unsent_at: 0,
        });
        let pictures: Vec<TurnPicture> = pictures.collect();
        self.picture_tokens += pictures.iter().map(|picture| picture.tokens).sum::<u64>();
        self.turns.push(ChatMessage {
            pictures,
            results,
            ..ChatMessage::new(Role::User, String::new())
        });
    }

    /// Adds a reply that announced a delegation without making a call, and the reminder that follows.
    fn remind(&mut self, text: &str) {
        let reminder = self.sent.announced.map(reminder).unwrap_or_default();
        let origin = TextOrigin::New(Vec::new());
        self.record(Block::Requester, Role::User, &reminder, None, origin);
        self.turns
            .push(ChatMessage::new(Role::Assistant, text.to_owned()));
        self.turns.push(ChatMessage::new(Role::User, reminder));
    }

    /// Adds messages that steer the reply. A deleted message leaves a placeholder, because a text of the agent has to be followed by a
    /// turn of the user.
    fn add_steers<'b>(&mut self, steers: impl Iterator<Item = &'b Steer>) {
        for steer in steers {
            let source = SourceId::Message(steer.message);
            let origin = || TextOrigin::New(vec![source]);
            let texts = steer.texts.as_ref();
            for file in texts.iter().flat_map(|texts| &texts.files) {
                self.record(Block::Files, Role::User, file, Some(source), origin());
                self.turns.push(ChatMessage::new(Role::User, file.clone()));
            }
            let message = texts.map_or(DELETED, |texts| texts.message.as_str());
            self.record(Block::Trigger, Role::User, message, Some(source), origin());
            let said = ChatMessage::new(Role::User, message.to_owned());
            self.turns.push(said);
        }
    }

    fn add_call(&mut self, call: &RoundCall) -> ToolCall {
        let action = &call.action;
        let (arguments, origin) = match call.arguments.as_deref() {
            Some(_) if self.calls < self.omitted.arguments => {
                (Some(ARGUMENTS_LEFT_OUT), TextOrigin::New(Vec::new()))
            }
            arguments => (arguments, TextOrigin::Stored),
        };
        let shown = arguments.unwrap_or(DELETED);
        let source = Some(SourceId::Action(action.id));
        self.record(Block::Call, Role::Assistant, shown, source, origin);
        ToolCall {
            id: action.call_id.clone(),
            name: action.function.clone(),
            arguments: arguments.unwrap_or("{}").to_owned(),
        }
    }

    fn add_result(&mut self, call: &RoundCall) -> ToolResult {
        let action = &call.action;
        let (result, origin) = if self.calls < self.omitted.results {
            let note = format!("(result of call {} left out)", self.calls + 1);
            (note, TextOrigin::New(Vec::new()))
        } else {
            let result = call.result.clone();
            (result.unwrap_or_else(|| DELETED.to_owned()), call.origin())
        };
        let source = Some(SourceId::Action(action.id));
        self.record(Block::Result, Role::User, &result, source, origin);
        ToolResult {
            call_id: action.call_id.clone(),
            content: result,
        }
    }

    /// Adds a text to the record.
    fn record(
        &mut self,
        block: Block,
        role: Role,
        text: &str,
        source: Option<SourceId>,
        origin: TextOrigin,
    ) {
        let is_private = matches!(block, Block::Call | Block::Result);
        self.parts.push(RoundPart {
            block,
            role,
            tokens: estimate_tokens(text),
            text: text.to_owned(),
            source,
            origin,
            only_user: is_private.then_some(self.sent.requester),
            is_gone: text == DELETED,
        });
    }
}

/// Returns the turn that follows a reply that announced a delegation without making a call.
fn reminder(name: &str) -> String {
    let name = clean_name(name);
    format!(
        "You said that you would ask {name}, but you did not call delegate. Call it now, or answer yourself."
    )
}

/// Stores the text of a round for the records of later prompts, under the round's first action, or under the task if there is
/// none. The stored text is removed together with the reply or any source of the prompt; the text in the reply itself remains.
async fn store_round_text(
    c: &mut Conn,
    task: &Task,
    actions: &[Action],
    text: &str,
) -> Result<(), DbError> {
    if text.trim().is_empty() {
        return Ok(());
    }
    let owner = actions
        .first()
        .map_or(ActionId(task.id.0), |first| first.id);
    let id = texts::put(c, task.workspace_id, owner, text).await?;
    texts::cite_prompt(c, task.id, id).await?;
    let reply = task.reply_message_id.map(SourceId::Message);
    texts::cite(c, id, reply.map(|reply| (reply.kind(), reply.uuid()))).await
}

/// Result of a tool call that was run.
#[derive(Debug, Clone)]
enum Ran {
    Output(ToolOutput),
    /// The call failed. The sources are the origins of an error message that does not come from this server.
    Failed(ToolFault, Vec<ActionSource>),
    /// A write whose result is unknown, and the error that hides it, with its sources.
    Unknown(Option<ToolFault>, Vec<ActionSource>),
}

impl Ran {
    fn failed(code: ToolErrorCode) -> Self {
        Self::Failed(ToolFault::of(code), Vec::new())
    }

    fn ending(&self) -> Ending {
        match self {
            Self::Output(_) => Ending::done(),
            Self::Failed(fault, _) => Ending::failed(fault.code),
            Self::Unknown(fault, _) => Ending::unknown(fault.as_ref().map(|fault| fault.code)),
        }
    }
}

impl ReplyHandler {
    /// Returns the settings that determine how a task's calls are handled, and the functions offered to its model.
    pub(super) async fn requests(
        &self,
        task: &Task,
        lease: &Lease,
        agent: &Resolved,
        loaded: &Loaded,
        offered: &OfferedTo<'_>,
    ) -> Result<Requests, DbError> {
        let ask = &loaded.context.ask;
        let of = ToolTask {
            workspace: lease.workspace,
            task: lease.task,
            agent: lease.target.agent,
            agent_version: lease.target.agent_version,
            requester: task.requested_by,
            api_key: loaded.api_key,
            channel: lease.target.channel,
            thread: lease.target.thread,
            fork: lease.target.fork,
            trigger: ask.message_id,
            typed: loaded.typed.clone(),
            is_turn: ask.turn.is_some(),
            skills: agent.profile.skills.clone(),
        };
        // In a run without a channel, nobody could approve calls.
        let has_tools = (of.is_turn || agent.profile.has_functions()) && task.channel_id.is_some();
        let model = offered.model.filter(|_| has_tools);
        let toolbox = self.tools.for_run();
        let offer = match model {
            Some(model) => {
                let policy = policy::find(&mut self.db.read().await?, lease.workspace).await?;
                let mut offer = toolbox.offer(&of, &agent.profile, &policy).await?;
                offer.leave_out(offered.refused.iter().map(RefusedFunction::from));
                limit_definitions(&mut offer, self.provider.as_ref(), model).await;
                match offered.kinds {
                    Offered::All => {}
                    Offered::BuiltIn => offer.keep(|function| function.tool().is_none()),
                    Offered::None => offer.withhold(NotOffered::ByModel),
                }
                offer
            }
            None if has_tools => Offer::without(NotOffered::ByModel),
            None => Offer::default(),
        };
        Ok(Requests {
            toolbox,
            task: of,
            offer,
            trust: agent.profile.trust.clone(),
            audience: lease.audience,
        })
    }

    /// Loads the earlier rounds of a task, and the messages that steer it.
    pub(super) async fn rounds(&self, task: &Task) -> Result<Rounds, DbError> {
        let steers = steers::load(&self.db, &self.blobs, task).await?;
        load(&mut self.db.read().await?, task.id, steers).await
    }

    /// Makes new messages that steer a reply part of its further model calls, after this round. Returns whether there are any.
    pub(super) async fn take_steers(&self, lease: Lease, round: i64) -> Result<bool, Abort> {
        if !has_unread(&mut self.db.read().await?, lease.task).await? {
            return Ok(false);
        }
        failpoint!("steer_take");
        self.db
            .write(lease.workspace.0, async move |c: &mut Conn| {
                queue::lock_lease(c, &lease).await?;
                task_steers::take(c, lease.task, round).await?;
                Ok::<_, LeaseLost>(())
            })
            .await?;
        failpoint!("steer_taken");
        Ok(true)
    }

    /// Stores the text of a call that was stopped because the requester steers the reply, the end of the call, and that the next call
    /// contains the messages. A text is a round without calls. Returns the numbers of the newest round and of the next call.
    pub(super) async fn store_steered(
        &self,
        lease: Lease,
        answer: Answer,
        counts: RetryCounts,
    ) -> Result<NextRound, Abort> {
        let stored = serde_json::to_value(counts).unwrap_or_default();
        let Answer {
            text,
            own_text,
            open,
            model,
            vendor,
            ..
        } = answer;
        let round = RoundAnswer {
            text: own_text,
            calls: 0,
            model,
            vendor,
        };
        let ended = open.as_ref().map(OpenCall::ended);
        failpoint!("steer_store");
        let next = self
            .db
            .write(lease.workspace.0, async move |c: &mut Conn| {
                let task = queue::lock_lease(c, &lease).await?;
                if let Some(ended) = &ended {
                    ended.store(c).await?;
                }
                save_partial_reply(c, &task, &text).await?;
                attempts::end_attempt(c, lease.task, AttemptOutcome::Cancelled, None, 0, now())
                    .await?;
                let next = if round.text.trim().is_empty() {
                    NextRound {
                        round: task.round,
                        attempt: queue::next_attempt(c, &lease, stored.clone()).await?,
                    }
                } else {
                    let next = queue::begin_round(c, &lease, &round, stored.clone()).await?;
                    store_round_text(c, &task, &[], &round.text).await?;
                    next
                };
                task_steers::take(c, lease.task, next.round).await?;
                Ok::<_, LeaseLost>(next)
            })
            .await?;
        if let Some(open) = open {
            open.discard();
        }
        failpoint!("steer_stored");
        Ok(next)
    }

    /// Returns the summary of a collaborator that ended the work in this round. Returns `None` if the work continues and the model is
    /// called again.
    pub(super) async fn done_summary(
        &self,
        task: &ToolTask,
        round: i64,
    ) -> Result<Option<String>, DbError> {
        if !task.is_turn {
            return Ok(None);
        }
        let mut c = self.db.read().await?;
        let actions = actions::of_round(&mut c, task.task, round).await?;
        let is_done =
            |action: &&Action| action.function == done::NAME && action.state == ActionState::Done;
        let Some(call) = actions.iter().find(is_done) else {
            return Ok(None);
        };
        let arguments = texts::find(&mut c, call.arguments_id).await?;
        // The arguments are missing if a source of the summary was deleted.
        let summary = arguments.and_then(|arguments| done::summary_of(&arguments));
        Ok(Some(summary.unwrap_or_else(|| NO_SUMMARY.to_owned())))
    }

    /// Returns the reply of a collaborator that has ended the work: the texts of its rounds, or its summary if there are none.
    pub(super) async fn end_turn(
        &self,
        task: &Task,
        lease: &Lease,
        agent: &Resolved,
        rounds: &Rounds,
        summary: &str,
    ) -> Result<Answer, Abort> {
        let mut text = rounds.text();
        if text.trim().is_empty() {
            let mut reply = Reply::new(self, task, *lease, agent, &[], String::new());
            reply.push(summary).await?;
            reply.end().await?;
            text = reply.text;
        }
        Ok(Answer {
            text,
            own_text: String::new(),
            truncated: false,
            calls: Vec::new(),
            vendor: VendorMembers::default(),
            model: String::new(),
            open: None,
            is_steered: false,
        })
    }

    /// Stores a round, its calls, their decisions, and the end of the model call, and starts the first reads that need no
    /// approval.
    pub(super) async fn store_round(
        &self,
        lease: Lease,
        requests: &Requests,
        answer: Answer,
        counts: RetryCounts,
    ) -> Result<NewRound, Abort> {
        let stored = serde_json::to_value(counts).unwrap_or_default();
        let requests = requests.clone();
        let Answer {
            text,
            own_text,
            calls,
            open,
            vendor,
            model,
            ..
        } = answer;
        let round = RoundAnswer {
            text: own_text,
            calls: calls.len(),
            model,
            vendor,
        };
        let ended = open.as_ref().map(OpenCall::ended);
        let delegations = self.prepare_all(&requests, &calls).await?;
        let known =
            delegation::known_numbers(&self.db, requests.task.requester, lease.task, &delegations)
                .await?;
        let hub = Arc::clone(&self.hub);
        failpoint!("round_store");
        let next = self
            .db
            .write(lease.workspace.0, async move |c: &mut Conn| {
                let task = queue::lock_lease(c, &lease).await?;
                if let Some(ended) = &ended {
                    ended.store(c).await?;
                }
                save_partial_reply(c, &task, &text).await?;
                attempts::end_attempt(c, lease.task, AttemptOutcome::Completed, None, 0, now())
                    .await?;
                let next = queue::begin_round(c, &lease, &round, stored.clone()).await?;
                requests.store(c, next.round, &calls).await?;
                let mut found = actions::of_round(c, lease.task, next.round).await?;
                // The requester may not want these calls anymore; `close_round` withdraws them.
                let is_steered = has_unread(c, lease.task).await?;
                let mut noted = Vec::new();
                for action in &found {
                    if let Some(prepared) = delegations.get(&action.call) {
                        noted.extend(delegation::noted(c, &task, action, prepared).await?);
                        if !is_steered {
                            start_delegation(c, &lease, &requests, action, prepared).await?;
                        }
                    }
                }
                if !delegations.is_empty() {
                    found = actions::of_round(c, lease.task, next.round).await?;
                }
                store_round_text(c, &task, &found, &round.text).await?;
                if guard::note_round(c, &task, &noted, &known).await? {
                    scheduled::fail_tree(c, &task, FailCode::Loop, &hub, lease.audience).await?;
                    return Ok(None);
                }
                if !is_steered {
                    requests
                        .start_reads(c, &mut found, READS_AT_ONCE, lease.token)
                        .await?;
                }
                Ok::<_, LeaseLost>(Some(NewRound {
                    next,
                    actions: found,
                }))
            })
            .await?;
        if let Some(open) = open {
            open.discard();
        }
        failpoint!("round_stored");
        next.ok_or(Abort::Stopped)
    }

    /// Returns the agent to which a reply announced a delegation without making one. Returns `None` if there is no such agent or the
    /// model can no longer be reminded.
    pub(super) async fn announced(
        &self,
        requests: &Requests,
        rounds: &Rounds,
        ran: Duration,
        answer: &Answer,
    ) -> Result<Option<AgentId>, DbError> {
        let has_asked = || {
            let mut calls = rounds.rounds.iter().flat_map(|round| &round.calls);
            calls.any(|call| call.action.function == DELEGATE)
        };
        let can_ask = requests.offer.find(DELEGATE).is_some() && !rounds.are_used_up(ran);
        if !answer.calls.is_empty() || !can_ask || has_asked() {
            return Ok(None);
        }
        let tools = requests.offer.tools();
        delegation::announced_agent(&self.db, &requests.task, tools, &answer.own_text).await
    }

    /// Prepares the delegations among the calls of a round. The keys are the numbers of the calls.
    async fn prepare_all(
        &self,
        requests: &Requests,
        calls: &[ToolCall],
    ) -> Result<HashMap<i64, Prepared>, DbError> {
        let task = &requests.task;
        let mut delegations = HashMap::new();
        for (number, call) in (1..).zip(calls).take(CALLS_IN_ROUND_MAX) {
            let function = requests.offer.find_called(&call.name);
            if function.is_none_or(|function| function.name() != DELEGATE) {
                continue;
            }
            if let Ok((arguments, _)) = hash::parse_arguments(&call.arguments) {
                let prepared =
                    delegation::prepare(&self.db, task.requester, task.task, &arguments).await?;
                delegations.insert(number, prepared);
            }
        }
        Ok(delegations)
    }

    /// Continues a round that another worker left unfinished, or that waited for people or other tasks.
    pub(super) async fn resume_round(
        &self,
        run: RoundRun<'_>,
        round: i64,
    ) -> Result<RoundEnd, Abort> {
        let (lease, of) = (run.lease, run.requests.clone());
        let found = self
            .db
            .write(lease.workspace.0, async move |c: &mut Conn| {
                queue::lock_lease(c, &lease).await?;
                for action in actions::of_round(c, lease.task, round).await? {
                    if action.state == ActionState::Running && !action.is_delegated() {
                        of.take_over(c, &action, lease.token).await?;
                    }
                }
                let found = actions::of_round(c, lease.task, round).await?;
                Ok::<_, LeaseLost>(found)
            })
            .await?;
        self.finish_round(run, round, found).await
    }

    /// Runs all actions of a round that can run, until the next model call is due or the task is parked.
    pub(super) fn finish_round<'a>(
        &'a self,
        run: RoundRun<'a>,
        round: i64,
        mut found: Vec<Action>,
    ) -> BoxFuture<'a, Result<RoundEnd, Abort>> {
        Box::pin(async move {
            let RoundRun {
                lease, clock, stop, ..
            } = run;
            loop {
                let due = found.into_iter().filter(|action| is_due(action, &lease));
                let (reads, writes): (Vec<Action>, Vec<Action>) =
                    due.partition(|action| action.effect == Effect::Read);
                let mut running = Vec::with_capacity(reads.len());
                for action in &reads {
                    running.push(self.run_action(run, action));
                }
                if let Some(end) = a_few_at_once(running).await? {
                    return Ok(end);
                }
                for action in &writes {
                    if stop.is_cancelled() {
                        return Err(Abort::Stopped);
                    }
                    self.run_action(run, action).await?;
                }
                if stop.is_cancelled() {
                    return Err(Abort::Stopped);
                }
                failpoint!("round_park");
                let end = self
                    .db
                    .write(lease.workspace.0, async move |c: &mut Conn| {
                        queue::lock_lease(c, &lease).await?;
                        let end = close_round(c, &lease, round, clock).await?;
                        Ok::<_, LeaseLost>(end)
                    })
                    .await?;
                failpoint!("round_parked");
                if let Some(end) = end {
                    return Ok(end);
                }
                found = actions::of_round(&mut self.db.read().await?, lease.task, round).await?;
            }
        })
    }

    /// Starts an action, unless it was started with its round, and runs it. Returns the end of the round if this action ended it.
    fn run_action<'a>(
        &'a self,
        run: RoundRun<'a>,
        action: &'a Action,
    ) -> BoxFuture<'a, Result<Option<RoundEnd>, Abort>> {
        Box::pin(async move {
            if action.state == ActionState::Running {
                return self.run_started(run, action).await;
            }
            let (lease, of, held) = (run.lease, run.requests.clone(), action.clone());
            let delegation = if action.function == DELEGATE {
                self.prepare_approved(run.requests.task.requester, action)
                    .await?
            } else {
                None
            };
            failpoint!("action_start");
            let start = self
                .db
                .write(lease.workspace.0, async move |c: &mut Conn| {
                    queue::lock_lease(c, &lease).await?;
                    // The row may have changed since it was read.
                    let Some(action) = actions::find(c, held.id).await? else {
                        return Ok::<_, LeaseLost>(Start::Changed);
                    };
                    if has_unread(c, lease.task).await? {
                        // The requester may not want this call anymore.
                        actions::withdraw_open(c, lease.task, lease.audience, None).await?;
                        return Ok(Start::Changed);
                    }
                    match &delegation {
                        Some(prepared) => {
                            start_delegation(c, &lease, &of, &action, prepared).await?;
                            Ok(Start::Ended)
                        }
                        None => Ok(of.start(c, &action, lease.token).await?),
                    }
                })
                .await?;
            match start {
                Start::Started => self.run_started(run, action).await,
                Start::Ended | Start::Changed => Ok(None),
            }
        })
    }

    /// Prepares a delegation that people have approved. Returns `None` if its arguments were removed.
    async fn prepare_approved(
        &self,
        person: UserId,
        action: &Action,
    ) -> Result<Option<Prepared>, DbError> {
        let text = texts::find(&mut self.db.read().await?, action.arguments_id).await?;
        let arguments = text.and_then(|text| hash::parse_arguments(&text).ok());
        match arguments {
            Some((arguments, _)) => {
                let prepared =
                    delegation::prepare(&self.db, person, action.task_id, &arguments).await?;
                Ok(Some(prepared))
            }
            None => Ok(None),
        }
    }

    /// Runs an action that the holder of this lease has started, and stores its result. A write continues even if this future is
    /// dropped, for example because the lease is lost; otherwise, its result would never be recorded.
    async fn run_started(
        &self,
        run: RoundRun<'_>,
        action: &Action,
    ) -> Result<Option<RoundEnd>, Abort> {
        failpoint!("action_started");
        if action.effect == Effect::Read {
            return self.run_to_end(run, action).await;
        }
        let RoundRun { lease, clock, .. } = run;
        let (this, stop, steering) = (self.clone(), run.stop.clone(), run.steering.clone());
        let (requests, action) = (run.requests.clone(), action.clone());
        let to_end = async move {
            let run = RoundRun {
                lease,
                requests: &requests,
                clock,
                stop: &stop,
                steering: &steering,
            };
            this.run_to_end(run, &action).await
        };
        let running = self.tracker.spawn(to_end.in_current_span());
        // After a panic, the action stays in the state `running`, and the next worker handles it.
        running.await.unwrap_or(Err(Abort::Stopped))
    }

    /// Runs a started action, and stores its result.
    async fn run_to_end(
        &self,
        run: RoundRun<'_>,
        action: &Action,
    ) -> Result<Option<RoundEnd>, Abort> {
        let mut signals = run.steering.subscribe();
        let mut c = self.db.read().await?;
        let mut is_steered = has_unread(&mut c, run.lease.task).await?;
        let text = texts::find(&mut c, action.arguments_id).await?;
        // Redirects are unrestricted if the task has seen only its requester's own messages, or if a person has approved the
        // whole URL. Otherwise, only the host was checked, and it could redirect anywhere.
        let is_free = action.sources.0.is_empty() || action.granted_by == Some(GrantedBy::Person);
        let trusted = policy::find(&mut c, run.lease.workspace)
            .await?
            .trusted_domains;
        drop(c);
        let arguments = text.and_then(|text| hash::parse_arguments(&text).ok());
        let Some((arguments, _)) = arguments else {
            // A source was deleted after the action started and before anything was sent.
            let ran = Ran::failed(ToolErrorCode::NotFound);
            return self.end_action(run, action, ran).await;
        };
        let Requests {
            toolbox,
            task,
            offer,
            ..
        } = run.requests;
        let deadline = tokio::time::Instant::now() + CALL_MAX;
        let call = toolbox.run(
            task,
            offer,
            ToolRun {
                action: action.id,
                name: &action.function,
                arguments,
                deadline,
                redirects: (!is_free).then_some(trusted.as_slice()),
            },
        );
        // The connection ends at the deadline and reports whether the request was sent, so this timeout is longer.
        let mut call = std::pin::pin!(tokio::time::timeout_at(deadline + CALL_GRACE, call));
        let is_read = action.effect == Effect::Read;
        let ended = loop {
            if is_steered {
                if is_read {
                    let ran = Ran::failed(ToolErrorCode::Cancelled);
                    return self.end_action(run, action, ran).await;
                }
                break tokio::time::timeout(WRITE_GRACE, &mut call).await.ok();
            }
            tokio::select! {
                ended = &mut call => break Some(ended),
                () = run.stop.cancelled() => {
                    if is_read {
                        return Err(Abort::Stopped);
                    }
                    break tokio::time::timeout(WRITE_GRACE, &mut call).await.ok();
                }
                Ok(()) = signals.changed() => {
                    is_steered = has_unread(&mut self.db.read().await?, run.lease.task).await?;
                }
            }
        };
        let ran = match ended {
            Some(Ok(Ok(mut output))) => {
                let pictures = std::mem::take(&mut output.pictures);
                self.pictures.keep_result(action.id.0, pictures).await;
                Ran::Output(output)
            }
            // The request was sent, and the server may have processed it.
            Some(Ok(Err(CallError::Fault { fault, taints })))
                if fault.may_have_happened && !is_read =>
            {
                Ran::Unknown(Some(fault), taints)
            }
            Some(Ok(Err(CallError::Fault { fault, taints }))) => Ran::Failed(fault, taints),
            Some(Ok(Err(CallError::Db(e)))) if is_read => {
                tracing::warn!(error = %e, "a tool call failed");
                Ran::failed(ToolErrorCode::ToolFailed)
            }
            Some(Err(_)) if is_read => Ran::failed(ToolErrorCode::ToolTimeout),
            Some(Ok(Err(CallError::Db(_))) | Err(_)) | None => Ran::Unknown(None, Vec::new()),
        };
        self.end_action(run, action, ran).await
    }

    /// Stores the result of an action, unless another worker has ended the action. The last read of a round ends the round.
    async fn end_action(
        &self,
        run: RoundRun<'_>,
        action: &Action,
        ran: Ran,
    ) -> Result<Option<RoundEnd>, Abort> {
        let RoundRun {
            lease,
            requests,
            clock,
            ..
        } = run;
        let source = requests.offer.find(&action.function);
        let source = source.map_or_else(|| action.title.clone(), |f| f.source.clone());
        let (action, task) = (action.clone(), requests.task.clone());
        failpoint!("action_end");
        let end = self
            .db
            .write(lease.workspace.0, async move |c: &mut Conn| {
                if action.effect == Effect::Read {
                    queue::lock_lease(c, &lease).await?;
                } else {
                    // A write can end after its task was stopped, so no lease is required.
                    lock_workspace(c, lease.workspace.0).await?;
                }
                let token = Some(lease.token);
                if !actions::store_end(c, action.id, token, ran.ending()).await? {
                    return Ok::<_, LeaseLost>(None);
                }
                match &ran {
                    Ran::Output(output) => {
                        store_output(c, &task, &action, output, &source).await?;
                    }
                    Ran::Failed(fault, taints) | Ran::Unknown(Some(fault), taints)
                        if !fault.message.is_empty() =>
                    {
                        // The text comes from the server that was called, or from this server.
                        let origin = if taints.is_empty() {
                            FaultOrigin::Server
                        } else {
                            FaultOrigin::Source(&source)
                        };
                        let text = fault_text(fault, origin);
                        let text = texts::put(c, lease.workspace, action.id, &text).await?;
                        actions::set_result(c, action.id, text).await?;
                        taint::add(c, task.task, taints).await?;
                    }
                    Ran::Failed(..) | Ran::Unknown(..) => {}
                }
                let (id, audience) = (action.id, lease.audience);
                actions::announce(c, id, EventType::ActionUpdated, audience).await?;
                if action.effect != Effect::Read {
                    return Ok(None);
                }
                let end = close_round(c, &lease, action.round, clock).await?;
                Ok(end)
            })
            .await?;
        failpoint!("action_ended");
        Ok(end)
    }
}

/// Checks whether the holder of a lease has to run an action: it is either approved, or a read that this lease has started.
fn is_due(action: &Action, lease: &Lease) -> bool {
    match action.state {
        ActionState::Approved => true,
        ActionState::Running => {
            action.effect == Effect::Read && action.lease_token == Some(lease.token)
        }
        _ => false,
    }
}

/// Ends a round without due actions: the next model call can follow, or the task is parked. Returns `None` if an action is due,
/// for example one that a person has approved in the meantime. The caller must have checked the lease in this transaction.
async fn close_round(
    c: &mut Conn,
    lease: &Lease,
    round: i64,
    clock: RunClock,
) -> Result<Option<RoundEnd>, DbError> {
    if has_unread(c, lease.task).await? {
        // The calls were stored after the requester had steered the reply.
        actions::withdraw_open(c, lease.task, lease.audience, None).await?;
    }
    let found = actions::of_round(c, lease.task, round).await?;
    if found.iter().any(|action| is_due(action, lease)) {
        return Ok(None);
    }
    let Some(reason) = queue::obstacle(c, lease.task).await? else {
        delegation::collect(c, lease, &found).await?;
        return Ok(Some(RoundEnd::NextCall));
    };
    queue::park(c, lease, clock.ran_ms(), reason).await?;
    if reason == WaitReason::Approval {
        run::announce_run_of(c, lease.task).await?;
    }
    Ok(Some(RoundEnd::Parked))
}

/// Starts an approved delegation, which continues as a separate task. A delegation that waits for people is left unchanged.
async fn start_delegation(
    c: &mut Conn,
    lease: &Lease,
    requests: &Requests,
    action: &Action,
    prepared: &Prepared,
) -> Result<(), DbError> {
    match requests.start(c, action, lease.token).await? {
        Start::Started => delegation::begin(c, lease, requests, action, prepared).await,
        Start::Ended | Start::Changed => Ok(()),
    }
}

/// Runs reads, up to `READS_AT_ONCE` at a time. Returns the end of the round if the last read ended it.
async fn a_few_at_once(
    reads: Vec<impl Future<Output = Result<Option<RoundEnd>, Abort>>>,
) -> Result<Option<RoundEnd>, Abort> {
    let ends: Vec<Option<RoundEnd>> = futures::stream::iter(reads)
        .buffer_unordered(READS_AT_ONCE)
        .try_collect()
        .await?;
    Ok(ends.into_iter().flatten().next())
}

/// Stores the text of a result with its handles, citations, and taint.
async fn store_output(
    c: &mut Conn,
    task: &ToolTask,
    action: &Action,
    output: &ToolOutput,
    source: &str,
) -> Result<(), DbError> {
    let handles = handles::assign(c, task.task, &output.handled()).await?;
    let handle = |of| handles.get(&of).cloned().unwrap_or_default();
    let text = output_text(output, source, handle);
    let id = texts::put(c, task.workspace, action.id, &text).await?;
    actions::set_result(c, action.id, id).await?;
    if let Some(hits) = output.count {
        actions::set_hits(c, action.id, hits).await?;
    }
    let messages = output.messages.iter().copied().map(SourceId::Message);
    let cites: HashSet<SourceId> = messages.chain(output.cites.iter().copied()).collect();
    let cites = cites
        .into_iter()
        .map(|source| (source.kind(), source.uuid()));
    texts::cite(c, id, cites).await?;
    taint::add_messages(
        c,
        task.task,
        task.requester,
        output.messages.iter().copied(),
    )
    .await?;
    taint::add(c, task.task, &output.taints).await?;
    // Objects may have been deleted after they were read and before the result was stored.
    derived::remove_deleted_or_gone(c, output.messages.iter().copied()).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_left_out_before_arguments_and_these_before_texts_the_oldest_first() {
        let sizes = [vec![10, 10, 10], vec![5, 5, 5], vec![1, 1], vec![2]];
        for (tokens_max, results, arguments, texts, vendor) in [
            (49, 0, 0, 0, 0),
            (48, 1, 0, 0, 0),
            (29, 2, 0, 0, 0),
            (18, 3, 1, 0, 0),
            (4, 3, 3, 0, 0),
            (3, 3, 3, 1, 0),
            (2, 3, 3, 2, 0),
            (1, 3, 3, 2, 1),
        ] {
            let expected = Omitted {
                results,
                arguments,
                texts,
                vendor,
            };
            assert_eq!(Omitted::of(&sizes, tokens_max), expected, "{tokens_max}");
        }
    }

    #[test]
    fn only_notes_for_pictures_say_that_they_are_attached() {
        let result =
            "[audio, 3 KiB, not shown]\n\n[image, 12 KiB, not shown]\n\n[image, 1 KiB, not shown]";
        let one =
            "[audio, 3 KiB, not shown]\n\n[image, 12 KiB, attached]\n\n[image, 1 KiB, not shown]";
        assert_eq!(with_attached(result, 1), one);
        assert_eq!(with_attached("Monday", 1), "Monday");
    }

    #[test]
    fn a_round_as_plain_text_keeps_calls_and_results() {
        let call = ToolCall {
            id: "call_0".to_owned(),
            name: "search_messages".to_owned(),
            arguments: r#"{"query":"zebra"}"#.to_owned(),
        };
        let result = ToolResult {
            call_id: "call_0".to_owned(),
            content: "not_found".to_owned(),
        };
        let [said, returned] = plain_turns("Let me look.", &[call], &[result]);
        let expected = "Let me look.\n(call 1: search_messages {\"query\":\"zebra\"})";
        assert_eq!(
            (said.role, said.content.as_str()),
            (Role::Assistant, expected)
        );
        let expected = "(result of call 1)\nnot_found";
        assert_eq!(
            (returned.role, returned.content.as_str()),
            (Role::User, expected)
        );
        assert!(said.calls.is_empty() && returned.results.is_empty());
    }

    #[test]
    fn a_text_that_the_requester_steered_does_not_count_toward_the_limit() {
        let rounds = |count: usize, is_steered| Rounds {
            rounds: (0..count)
                .map(|_| StoredRound {
                    number: 1,
                    text: "The fair".to_owned(),
                    vendor: None,
                    calls: Vec::new(),
                    is_steered,
                })
                .collect(),
            steers: Vec::new(),
        };
        assert!(rounds(ROUNDS_MAX, false).are_used_up(Duration::ZERO));
        assert!(!rounds(2 * ROUNDS_MAX, true).are_used_up(Duration::ZERO));
    }
}
