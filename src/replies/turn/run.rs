//! A reply after its context has been loaded: model calls, rounds of tool calls, and failures, until its task ends or waits.

use futures::FutureExt;
use tokio_util::sync::CancellationToken;

use crate::{
    agents::{
        profiles::{self, Profile, Resolved, Tool},
        segments::{CompactionTrigger, PassOptions},
        skills::READ_SKILL,
    },
    chat::messages::MessageSource,
    db::DbError,
    memory::recall::Recalled,
    model::{ModelError, PictureUse, Refused, Window},
    replies::{
        budget::{self, Budget, TooLarge},
        citations::Cited,
        compaction::wait::Waited,
        context::{self, Loaded},
        fitted::Fitted,
        manifest::{LeftOut, LeftOutReason, Manifest},
        pictures::{self, PICTURES_BYTES_MAX},
        prompt::{self, Context, DONE_LINE},
        retry::{Attempt, Failure, Offered, RetryCounts, Step, next_step},
        sources::{Because, SourceName},
    },
    tasks::{
        FailCode, Lease, LeaseLost, Task, TaskKind, actions, queue::Steering, steers, worker::Abort,
    },
    tools::{
        builtin::done,
        function::{DELEGATE, ToolFunction},
        requests::Requests,
        runner::Offer,
    },
};

use super::{
    blind,
    call::{Answer, Extras, Failed, PreparedCall},
    complete::CompleteReply,
    handler::ReplyHandler,
    rounds::{FittedCall, OfferedTo, RoundEnd, RoundRun, Rounds, RoundsSent, RunClock},
    scheduled,
};

/// Reply that the built-in responder wrote without a prompt.
pub(super) struct ReadyReply {
    pub(super) text: String,
    pub(super) sources: Vec<MessageSource>,
}

/// A reply with its context, before its first model call.
pub(super) struct LoadedReply<'a> {
    pub(super) handler: &'a ReplyHandler,
    pub(super) task: Task,
    pub(super) lease: Lease,
    pub(super) stop: &'a CancellationToken,
    pub(super) steering: Steering,
    pub(super) agent: Resolved,
    pub(super) loaded: Loaded,
    pub(super) counts: RetryCounts,
    pub(super) ready: Option<ReadyReply>,
    /// Model of the next call.
    pub(super) model: String,
    /// Functions that the model's server has rejected in this run of the task.
    pub(super) refused: Vec<Refused>,
}

/// A reply whose model calls are in progress.
struct RunningReply<'a> {
    reply: LoadedReply<'a>,
    requests: Requests,
    rounds: Rounds,
    clock: RunClock,
    /// Summary of a collaborator that has ended the work.
    done: Option<String>,
    /// True if a pass has been made after an overflow.
    has_compacted: bool,
    /// True if the size of the prompt has been checked against the strategy.
    has_checked_size: bool,
}

/// The next step after a model call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Call,
    /// The task has ended, waits, or has been parked.
    Stop,
}

impl LoadedReply<'_> {
    /// Writes the reply, and ends the task or requeues it.
    pub(super) async fn write(mut self) -> Result<(), Abort> {
        if self.loaded.view.is_due {
            let keep = self.loaded.strategy.window();
            self.compact(CompactionTrigger::Auto, keep).await?;
        }
        if self.ready.is_some() {
            // The ready reply was written without these memories and messages.
            self.loaded.memories = Recalled::default();
            self.loaded.context.memories.clear();
            self.loaded.context.old_messages.clear();
            self.loaded.context.knowledge.clear();
        }
        match RunningReply::resume(self).await? {
            Some(running) => Box::pin(running.run()).await,
            None => Ok(()),
        }
    }

    /// Returns the functions for the next model call. A ready reply needs none.
    async fn requests(&self) -> Result<Requests, DbError> {
        let offered = OfferedTo {
            model: self.ready.is_none().then_some(self.model.as_str()),
            kinds: self.counts.offered,
            refused: &self.refused,
        };
        let (task, lease) = (&self.task, &self.lease);
        self.handler
            .requests(task, lease, &self.agent, &self.loaded, &offered)
            .await
    }

    /// Scales the pictures for the model of the next call. A ready reply needs none.
    pub(super) async fn read_pictures(&mut self) {
        if self.ready.is_some() {
            return;
        }
        let can_see = self.handler.provider.takes_pictures(&self.model);
        let (reader, files) = (&self.handler.pictures, &self.loaded.pictures);
        let read = pictures::read_pictures(reader, files, can_see).await;
        self.loaded.context.pictures = read;
    }

    /// Returns the options for a pass.
    fn pass_options(&self) -> PassOptions {
        let memory = self.agent.profile.memory.as_ref();
        PassOptions {
            trigger: CompactionTrigger::Auto,
            keep: i64::try_from(self.loaded.strategy.window()).unwrap_or(i64::MAX),
            before_seq: None,
            max_tokens: None,
            summary_model: memory.and_then(|memory| memory.summary_model.clone()),
            model: Some(self.model.clone()),
        }
    }

    /// Waits for a pass over all but the most recent `keep` messages, and loads the context again. Returns the reason if the messages
    /// could not be summarized.
    async fn compact(
        &mut self,
        trigger: CompactionTrigger,
        keep: usize,
    ) -> Result<Option<Failure>, Abort> {
        let options = PassOptions {
            trigger,
            keep: i64::try_from(keep).unwrap_or(i64::MAX),
            before_seq: Some(self.loaded.trigger_seq),
            ..self.pass_options()
        };
        let compactor = &self.handler.compactor;
        let waited = compactor
            .before_reply(&self.lease, options, self.stop)
            .await?;
        let failure = match waited {
            Waited::Skipped => return Ok(None),
            Waited::Ready => None,
            Waited::Failed(e) => Some(Failure::from(e)),
        };
        let settings = compactor.settings;
        let (task, agent) = (self.task.clone(), self.agent.clone());
        let asked = self.handler.ask(&task, self.lease.target).await?;
        let read = self.handler.db.snapshot().await?.run(move |c| {
            async move { context::load(c, &task, &agent, settings, asked).await }.boxed()
        });
        let again = read.await?;
        // If the trigger message has been deleted in the meantime, the task has been canceled.
        let files = std::mem::take(&mut self.loaded.context.ask.files);
        let pictures = std::mem::take(&mut self.loaded.context.pictures);
        self.loaded = again.ok_or(Abort::Stopped)?;
        self.loaded.context.ask.files = files;
        self.loaded.context.pictures = pictures;
        Ok(failure.map(|failure| Failure::Summary(Box::new(failure))))
    }

    /// Determines which changes to the prompt could help after an overflow. This is expensive, because the entire history is fitted
    /// again.
    async fn remedies(&self, failure: &Failure, fitted: &Fitted) -> Attempt {
        let Fitted {
            context,
            budget,
            fit,
            ..
        } = fitted;
        if !matches!(failure, Failure::Model(ModelError::ContextTooLarge)) {
            return Attempt::default();
        }
        let loaded = &self.loaded;
        let learned = Budget {
            window: self.handler.provider.window(&self.model).await,
            ..*budget
        };
        // If the context does not fit at all, the next iteration reports this.
        let can_refit = learned != *budget
            && budget::fit(context, &learned).ok().is_none_or(|again| {
                (&again.prompt, again.output_limit) != (&fit.prompt, fit.output_limit)
            });
        Attempt {
            can_refit,
            can_shrink: prompt::shrunk(context).is_some(),
            can_summarise: loaded.strategy.is_on()
                && loaded.context.history.len()
                    > prompt::kept_after_overflow(&loaded.context, learned.window.tokens),
            fewer_functions: None,
            has_pictures: false,
        }
    }
}

impl<'a> RunningReply<'a> {
    /// Continues the last round of an earlier attempt, if there is one. Returns `None` if the task was parked again.
    async fn resume(reply: LoadedReply<'a>) -> Result<Option<Self>, Abort> {
        let mut this = Self {
            requests: reply.requests().await?,
            rounds: Rounds::default(),
            clock: RunClock::after(reply.counts.ran_ms),
            done: None,
            has_compacted: false,
            has_checked_size: false,
            reply,
        };
        let handler = this.reply.handler;
        let round = this.reply.task.round;
        let task = this.reply.task.id;
        let is_steered = steers::has_any(&mut handler.db.read().await?, task).await?;
        if round > 0 {
            if is_steered {
                // Approved calls run with the rights of the messages that the reply has read.
                this.read_rounds().await?;
            }
            let end = handler.resume_round(this.round_run(), round).await?;
            if end == RoundEnd::Parked {
                return Ok(None);
            }
        }
        if round > 0 || is_steered {
            this.load_rounds().await?;
        }
        Ok(Some(this))
    }

    /// Calls the model until the task ends or waits.
    async fn run(mut self) -> Result<(), Abort> {
        loop {
            self.take_steers().await?;
            let window = self.reply.handler.provider.window(&self.reply.model).await;
            if let Some(failed) = self.compact_after_overflow(window).await? {
                let code = failed.failure.code();
                return Ok(self.fail(code, Some(failed)).await?);
            }
            let call = match self.next_call(window).await? {
                Ok(call) => call,
                Err(too_large) => {
                    if self.offer_fewer().await? {
                        continue;
                    }
                    let LoadedReply { handler, lease, .. } = self.reply;
                    let code = FailCode::ContextTooLarge;
                    return Ok(handler
                        .fail_with(lease, code, None, Some(too_large))
                        .await?);
                }
            };
            let FittedCall {
                prompt: fitted,
                extras,
                parts,
            } = call;
            if self.compact_by_size(&fitted).await? {
                continue;
            }
            let LoadedReply {
                handler,
                loaded,
                model,
                task,
                ..
            } = &self.reply;
            let mut manifest = fitted.manifest(loaded, model, task.attempt);
            manifest.rounds = parts;
            let not_offered = self.requests.offer.not_offered().map(Because::from);
            manifest.add_reason(SourceName::Tools, not_offered);
            manifest.functions_left_out = self.requests.offer.left_out().to_vec();
            manifest.calls_in_text = handler.provider.leaves_calls_in_text(model);
            let outcome = self.answer(&manifest, &extras, &fitted).await?;
            let next = match outcome {
                Ok(answer) => Box::pin(self.take_answer(manifest, answer)).await?,
                Err(failed) => Box::pin(self.take_failure(failed, &fitted, &extras)).await?,
            };
            if next == Next::Stop {
                return Ok(());
            }
        }
    }

    fn round_run(&self) -> RoundRun<'_> {
        RoundRun {
            lease: self.reply.lease,
            requests: &self.requests,
            clock: self.clock,
            stop: self.reply.stop,
            steering: &self.reply.steering,
        }
    }

    async fn fail(&self, code: FailCode, failed: Option<Failed>) -> Result<(), LeaseLost> {
        let LoadedReply { handler, lease, .. } = self.reply;
        handler.fail(lease, code, failed).await
    }

    /// Loads the rounds after one of them has ended or messages that steer the reply have arrived.
    async fn load_rounds(&mut self) -> Result<(), Abort> {
        let LoadedReply { handler, task, .. } = &self.reply;
        self.done = handler
            .done_summary(&self.requests.task, task.round)
            .await?;
        self.read_rounds().await?;
        Ok(self.limit_delegations().await?)
    }

    /// Loads the rounds and the messages that steer the reply.
    async fn read_rounds(&mut self) -> Result<(), Abort> {
        let LoadedReply {
            handler,
            task,
            stop,
            ..
        } = &self.reply;
        self.rounds = tokio::select! {
            rounds = handler.rounds(task) => rounds?,
            () = stop.cancelled() => return Err(Abort::Stopped),
        };
        self.note_steers();
        Ok(())
    }

    /// Makes new messages that steer the reply part of the next call. A reply that needs no call does not read them.
    async fn take_steers(&mut self) -> Result<(), Abort> {
        let LoadedReply {
            handler,
            task,
            lease,
            ready,
            ..
        } = &self.reply;
        let has_call = ready.is_none() && self.done.is_none();
        if has_call && handler.take_steers(*lease, task.round).await? {
            self.load_rounds().await?;
        }
        Ok(())
    }

    /// Adds the texts that the requester has typed to steer the reply to the text that outward reads can take addresses from. After a
    /// message that was posted with an API key, the reply has only the rights of a reply that the key asked for.
    fn note_steers(&mut self) {
        let own = self.reply.loaded.api_key;
        self.requests.task.api_key = own.or_else(|| self.rounds.api_key());
        let typed = std::iter::once(self.reply.loaded.typed.as_str()).chain(self.rounds.typed());
        let typed: Vec<&str> = typed.filter(|text| !text.is_empty()).collect();
        self.requests.task.typed = typed.join("\n");
    }

    /// Stops offering `delegate` after the maximum number of rounds with delegations.
    async fn limit_delegations(&mut self) -> Result<(), DbError> {
        let LoadedReply {
            handler,
            task,
            agent,
            ..
        } = &self.reply;
        if self.requests.offer.find(DELEGATE).is_none() {
            return Ok(());
        }
        let tools = agent.profile.reply_tools();
        let rounds_max = tools.iter().find_map(|tool| match tool {
            Tool::Delegate(tool) => Some(tool.rounds_max()),
            _ => None,
        });
        let mut c = handler.db.read().await?;
        let rounds = actions::delegating_rounds(&mut c, task.id, i64::MAX, DELEGATE).await?;
        if rounds_max.is_some_and(|max| rounds >= max) {
            self.requests
                .offer
                .keep(|function| function.name() != DELEGATE);
        }
        Ok(())
    }

    /// Makes a single pass after an overflow. Returns the reason if the messages could not be summarized.
    async fn compact_after_overflow(&mut self, window: Window) -> Result<Option<Failed>, Abort> {
        let reply = &mut self.reply;
        if !reply.counts.summarised || std::mem::replace(&mut self.has_compacted, true) {
            return Ok(None);
        }
        let room = window.estimate_for(window.tokens);
        let keep = prompt::kept_after_overflow(&reply.loaded.context, room);
        let failure = reply.compact(CompactionTrigger::Overflow, keep).await?;
        let requester = reply.task.requested_by;
        Ok(failure.map(|failure| Failed {
            failure,
            requester,
            text: String::new(),
        }))
    }

    /// Checks once whether the prompt is too long for the strategy. Returns true if a pass was made.
    async fn compact_by_size(&mut self, fitted: &Fitted) -> Result<bool, Abort> {
        let is_checked = !fitted.is_long() || self.reply.ready.is_some() || self.done.is_some();
        if is_checked || std::mem::replace(&mut self.has_checked_size, true) {
            return Ok(false);
        }
        let Some(keep) = fitted.kept_by_size() else {
            return Ok(false);
        };
        self.reply.compact(CompactionTrigger::Size, keep).await?;
        Ok(true)
    }

    /// Checks whether a collaborator can end the work by calling `done`.
    fn has_done(&self) -> bool {
        self.requests.offer.find(done::NAME).is_some()
    }

    /// Fits the context and the earlier rounds into the window.
    async fn next_call(
        &mut self,
        window: Window,
    ) -> Result<Result<FittedCall<Fitted>, TooLarge>, DbError> {
        let has_done = self.has_done();
        if let Some(turn) = &mut self.reply.loaded.context.ask.turn {
            turn.has_done = has_done;
        }
        let LoadedReply {
            handler,
            task,
            agent,
            loaded,
            counts,
            ..
        } = &self.reply;
        let (mut context, left_out) = shortened(loaded, *counts);
        if self.requests.offer.find(READ_SKILL).is_some() {
            context.system.mention_read_skill();
        }
        let asked = match counts.announced {
            Some(agent) => Some(profiles::shown_name(&mut handler.db.read().await?, agent).await?),
            None => None,
        };
        let can_see =
            !counts.pictures_left_out && handler.provider.takes_pictures(&self.reply.model);
        let of_messages = loaded.context.pictures.iter();
        let of_messages: usize = of_messages
            .filter_map(|picture| picture.picture.as_ref())
            .map(|picture| picture.size_bytes)
            .sum();
        let sent = RoundsSent {
            offer: &self.requests.offer,
            model: &self.reply.model,
            window,
            requester: task.requested_by,
            ran: self.clock.ran(),
            task: task.id,
            announced: asked.as_deref(),
            pictures: can_see.then_some(&handler.pictures),
            picture_bytes_max: PICTURES_BYTES_MAX.saturating_sub(of_messages),
        };
        let output_tokens_max = output_tokens_max(&agent.profile, window, *counts);
        Ok(self.rounds.fit(&sent, |taken| {
            let budget = Budget {
                window,
                output_tokens_max,
                taken,
            };
            Fitted::of(loaded, context.clone(), left_out.clone(), budget)
        }))
    }

    /// Offers fewer functions if the prompt does not fit, because the instructions may fit without the definitions. Returns false
    /// if no functions were offered.
    async fn offer_fewer(&mut self) -> Result<bool, DbError> {
        let Some(fewer) = fewer_functions(&self.requests.offer) else {
            return Ok(false);
        };
        self.reply.counts.offered = fewer;
        self.renew_requests().await?;
        Ok(true)
    }

    /// Determines the functions to offer after the model or the set of functions has changed.
    async fn renew_requests(&mut self) -> Result<(), DbError> {
        self.requests = self.reply.requests().await?;
        self.note_steers();
        self.limit_delegations().await
    }

    /// Calls the model. If a collaborator has ended the work, returns its reply without a call.
    async fn answer(
        &self,
        manifest: &Manifest,
        extras: &Extras,
        fitted: &Fitted,
    ) -> Result<Result<Answer, Failed>, Abort> {
        let LoadedReply {
            handler,
            task,
            lease,
            agent,
            ready,
            stop,
            counts,
            steering,
            ..
        } = &self.reply;
        if let Some(summary) = &self.done {
            let ended = handler.end_turn(task, lease, agent, &self.rounds, summary);
            return Ok(Ok(ended.await?));
        }
        let call = PreparedCall {
            manifest,
            extras,
            output_limit: fitted.fit.output_limit,
            pictures: if counts.pictures_left_out {
                PictureUse::LeftOut
            } else {
                PictureUse::IfPossible
            },
            ready: ready.as_ref().map(|ready| ready.text.as_str()),
            steering,
        };
        tokio::select! {
            outcome = handler.call(task, lease, agent, &call) => outcome,
            () = stop.cancelled() => Err(Abort::Stopped),
        }
    }

    /// Runs the calls in an answer. Without calls, ends the task with the text of the answer.
    async fn take_answer(&mut self, manifest: Manifest, answer: Answer) -> Result<Next, Abort> {
        if answer.is_steered {
            return self.keep_steered(answer).await;
        }
        self.note_refused().await;
        let LoadedReply {
            handler,
            task,
            lease,
            counts,
            ..
        } = &mut self.reply;
        let (handler, lease) = (*handler, *lease);
        let announced = if self.done.is_none() && counts.announced.is_none() {
            let ran = self.clock.ran();
            handler
                .announced(&self.requests, &self.rounds, ran, &answer)
                .await?
        } else {
            None
        };
        if !answer.calls.is_empty() || announced.is_some() {
            counts.announced = counts.announced.or(announced);
            return self.run_round(answer).await;
        }
        if task.kind == TaskKind::Delegate {
            handler.complete_delegated(lease, manifest, &answer).await?;
        } else if scheduled::has_nothing_to_report(task, &answer.text) {
            handler.report_nothing(lease).await?;
        } else {
            self.complete(manifest, answer).await?;
        }
        Ok(Next::Stop)
    }

    /// Remembers which functions the model's server has rejected, because it has accepted the request without them.
    async fn note_refused(&mut self) {
        let refused = std::mem::take(&mut self.reply.refused);
        if !refused.is_empty() {
            let provider = &self.reply.handler.provider;
            provider.note_refused(&self.reply.model, &refused).await;
        }
    }

    /// Leaves out the function that an error names, or all that a smaller set does not contain. Returns that set, or `None` if no
    /// functions were offered.
    fn leave_out(&mut self, failure: &Failure) -> Option<Offered> {
        let Failure::Model(ModelError::ToolsRefused { detail, function }) = failure else {
            return None;
        };
        let offer = &self.requests.offer;
        let named = function.as_deref().and_then(|name| offer.find(name));
        let offered = match named {
            Some(_) => self.reply.counts.offered,
            None => fewer_functions(offer)?,
        };
        let is_refused = |function: &&ToolFunction| match (named, offered) {
            (Some(named), _) => function.name() == named.name(),
            (None, Offered::BuiltIn) => function.tool().is_some(),
            (None, _) => true,
        };
        let refused = offer.functions().filter(is_refused);
        let refused = refused.map(|function| Refused {
            definition: function.definition.clone(),
            reason: detail.clone(),
        });
        self.reply.refused.extend(refused);
        Some(offered)
    }

    /// Keeps the text of a call that was stopped because the requester steers the reply. The next call contains the text and the
    /// messages.
    async fn keep_steered(&mut self, answer: Answer) -> Result<Next, Abort> {
        if answer.open.is_none() {
            // No call was made.
            return Ok(Next::Call);
        }
        let LoadedReply {
            handler,
            task,
            lease,
            counts,
            ..
        } = &mut self.reply;
        counts.ran_ms = self.clock.ran_ms();
        counts.budget_since = None;
        let next = handler.store_steered(*lease, answer, *counts).await?;
        (task.attempt, task.round) = (next.attempt, next.round);
        self.load_rounds().await?;
        Ok(Next::Call)
    }

    /// Stores a round and runs its calls.
    async fn run_round(&mut self, answer: Answer) -> Result<Next, Abort> {
        let LoadedReply {
            handler,
            task,
            lease,
            counts,
            ..
        } = &mut self.reply;
        let handler = *handler;
        counts.ran_ms = self.clock.ran_ms();
        // A call was made, so the next wait for a budget starts over.
        counts.budget_since = None;
        let stored = handler
            .store_round(*lease, &self.requests, answer, *counts)
            .await?;
        (task.attempt, task.round) = (stored.next.attempt, stored.next.round);
        let end = handler
            .finish_round(self.round_run(), stored.next.round, stored.actions)
            .await?;
        if end == RoundEnd::Parked {
            return Ok(Next::Stop);
        }
        self.load_rounds().await?;
        Ok(Next::Call)
    }

    /// Ends the task with a reply.
    async fn complete(&mut self, manifest: Manifest, mut answer: Answer) -> Result<(), Abort> {
        let is_turn = self.reply.loaded.context.ask.turn.is_some();
        let is_done = self.done.is_some()
            || (is_turn && !self.has_done() && remove_done_line(&mut answer.text));
        let ready = self.reply.ready.take();
        let LoadedReply {
            handler,
            task,
            lease,
            agent,
            loaded,
            ..
        } = &self.reply;
        let can_cite =
            task.round > 0 || agent.profile.has_functions() || !loaded.context.knowledge.is_empty();
        let cited = match ready {
            Some(ready) => Cited::ready(task.requested_by, &answer.text, ready.sources).await?,
            None if !can_cite => Cited::ready(task.requested_by, &answer.text, Vec::new()).await?,
            None => {
                let task = &self.requests.task;
                Cited::check(&handler.db, &handler.blobs, task, &answer.text).await?
            }
        };
        let is_blind = manifest.prompt.names_pictures()
            && !handler.provider.is_offline()
            && !handler.provider.takes_pictures(&manifest.model);
        let reply = CompleteReply {
            picture_notice: is_blind.then(|| blind::notice_text(&manifest.model)),
            pictures: self.rounds.newest_pictures(&handler.pictures),
            agent,
            loaded,
            manifest,
            cited,
            truncated: answer.truncated,
            is_done,
            options: self.reply.pass_options(),
        };
        handler.complete(*lease, task, reply).await
    }

    /// Handles a failed call: waits, tries again, or fails the task.
    async fn take_failure(
        &mut self,
        failed: Failed,
        fitted: &Fitted,
        extras: &Extras,
    ) -> Result<Next, Abort> {
        let attempt = match &failed.failure {
            failure @ Failure::Model(ModelError::ToolsRefused { .. }) => Attempt {
                fewer_functions: self.leave_out(failure),
                ..Attempt::default()
            },
            failure => self.reply.remedies(failure, fitted).await,
        };
        let attempt = Attempt {
            has_pictures: fitted.fit.prompt.has_pictures() || extras.has_pictures(),
            ..attempt
        };
        let LoadedReply { handler, lease, .. } = self.reply;
        let (step, counts) =
            next_step(&failed.failure, self.reply.counts, &handler.policy, attempt);
        self.reply.counts = counts;
        // The provider's message is not logged because it may repeat the prompt; people can read it under "What it saw".
        tracing::info!(attempt = self.reply.task.attempt, code = %failed.failure.code(), step = ?step, "a model call failed");
        match step {
            Step::Wait {
                delay,
                reason,
                keeps_slot,
            } => {
                handler
                    .wait(lease, counts, failed, delay, reason, keeps_slot)
                    .await?;
                return Ok(Next::Stop);
            }
            Step::Fail {
                code: FailCode::TreeLimit,
            } => {
                handler.end_tree(lease).await?;
                return Ok(Next::Stop);
            }
            Step::Fail { code } => {
                self.fail(code, Some(failed)).await?;
                return Ok(Next::Stop);
            }
            Step::ChangeModel => {
                let wanted = self.reply.agent.profile.model.as_deref();
                let other = handler.provider.choose_model(wanted).await;
                if other == self.reply.model {
                    self.fail(FailCode::BadRequest, Some(failed)).await?;
                    return Ok(Next::Stop);
                }
                self.reply.model = other;
                self.reply.refused.clear();
                self.reply.read_pictures().await;
            }
            Step::OfferLess
            | Step::Refit
            | Step::Shrink
            | Step::Summarise
            | Step::ThinkLonger
            | Step::LeaveOutPictures => {}
        }
        self.reply.task.attempt = handler.next_attempt(lease, counts, failed).await?;
        if matches!(step, Step::ChangeModel | Step::OfferLess) {
            self.renew_requests().await?;
        }
        Ok(Next::Call)
    }
}

/// Returns the output limit of the next call. A model that reasons gets more, unless the profile sets the limit.
fn output_tokens_max(profile: &Profile, window: Window, counts: RetryCounts) -> u32 {
    let limit = profile.output_tokens_max_for(window.reasoning_tokens);
    if counts.thought_only {
        limit.saturating_mul(2)
    } else {
        limit
    }
}

/// Removes `DONE_LINE` from the end of a turn. Returns false if the turn does not end with that line. A turn is never left without
/// text.
fn remove_done_line(text: &mut String) -> bool {
    let Some((before, last)) = text.trim_end().rsplit_once('\n') else {
        return text.trim() == DONE_LINE;
    };
    if last.trim() != DONE_LINE {
        return false;
    }
    let kept = before.trim_end().len();
    if kept > 0 {
        text.truncate(kept);
    }
    true
}

/// Returns the functions to offer after the server rejected these, or `None` if no functions were offered.
fn fewer_functions(offer: &Offer) -> Option<Offered> {
    if offer.functions().any(|function| function.tool().is_some()) {
        Some(Offered::BuiltIn)
    } else {
        (!offer.is_empty()).then_some(Offered::None)
    }
}

/// Returns the context, shortened if an overflow has occurred, and the messages that were left out.
fn shortened(loaded: &Loaded, counts: RetryCounts) -> (Context, Vec<LeftOut>) {
    let mut left_out = loaded.left_out.clone();
    let shorter = match (
        counts.shrunk || counts.summarised,
        prompt::shrunk(&loaded.context),
    ) {
        (true, Some((context, ids))) => {
            left_out.push(LeftOut::of(LeftOutReason::ContextTooLarge, &ids));
            context
        }
        _ => loaded.context.clone(),
    };
    (shorter, left_out)
}

#[cfg(test)]
mod tests {
    use super::remove_done_line;

    #[test]
    fn only_a_last_line_with_the_word_alone_ends_the_work_and_is_removed() {
        for (text, left, is_done) in [
            ("It works.\n\nDONE", "It works.", true),
            ("It works.\nDONE \n", "It works.", true),
            ("DONE", "DONE", true),
            ("\nDONE", "\nDONE", true),
            ("It is DONE", "It is DONE", false),
            ("DONE\nor not?", "DONE\nor not?", false),
            ("It works.\nDone", "It works.\nDone", false),
            ("", "", false),
        ] {
            let mut rest = text.to_owned();
            assert_eq!(remove_done_line(&mut rest), is_done, "{text:?}");
            assert_eq!(rest, left, "{text:?}");
        }
    }
}
