//! One reply of an agent, from a claimed task to its end.
//!
//! ```text
//! context ─► prompt ─► model ─► first text: the reply's row, `streaming` ─► deltas · checkpoints ─► one transaction ends
//!              ▲                                                   │                   reply and task
//!              ├── shorter, or after a wait: `retry::next_step`    │
//!              └── results ◄──────── `rounds` ◄──────────────── calls of tools
//! ```
//!
//! Every write checks the lease, so that a turn whose task was canceled or requeued does not change anything.

use std::{sync::Arc, time::Duration};

use futures::{FutureExt, future::BoxFuture};
use tokio_util::sync::CancellationToken;

use crate::{
    agents::{
        profiles::{self, Resolved},
        segments::{CompactionTrigger, PassOptions},
    },
    auth::quota,
    chat::{access, collaboration::Turn, messages, post, presets, remove},
    db::{Conn, DbError, now},
    failpoint,
    ids::{TaskId, WorkspaceId},
    memory::recall::{self, Recalled},
    model::ModelError,
    replies::{
        adaptation::{
            note::{Adapting, NotedQuestion, ReplyEnd},
            state::StateKey,
        },
        attached,
        budget::{self, Budget, TooLarge},
        citations::Cited,
        compaction::{
            profile::CompactionSettings,
            store::{self, Key},
            wait::Waited,
        },
        context::{self, Loaded},
        fitted::Fitted,
        manifest::{LeftOut, LeftOutReason, Manifest},
        offline::{self, Offline},
        prompt::{self, Context, DONE_LINE},
        retry::{Attempt, Failure, Offered, RetryCounts, Step, next_step, with_jitter},
    },
    schedules::{self, Scheduled},
    tasks::{
        FailCode, Lease, LeaseLost, Task, TaskError, TaskKind, TaskOutput, WaitReason, actions,
        attempts::{self, AttemptError, AttemptOutcome},
        briefs,
        budgets::OverBudget,
        costs::{self, CostReader},
        notice_text,
        queue::{self, End},
        wait_notice,
        worker::{Abort, Handler, Run},
    },
    tools::{builtin::done, guard, runner::Offer},
};

mod call;
mod handler;
mod reply;
mod rounds;
mod scheduled;

use call::{Answer, Failed};
pub use handler::ReplyHandler;
use reply::save_partial_reply;
use rounds::{RoundEnd, Rounds, RoundsSent, RunClock};
pub(super) use rounds::{definition_tokens, definitions_of, limit_definitions};

/// Maximum size of an answer to another agent in UTF-8 bytes.
const ANSWER_BYTES_MAX: usize = 32 * 1024;
/// Maximum length of a retry chain that is followed to remove its leftovers.
const RETRY_CHAIN_MAX: usize = 20;

/// A reply that may have to wait for a pass.
struct Compacting<'a> {
    task: &'a Task,
    lease: &'a Lease,
    agent: &'a Resolved,
    stop: &'a CancellationToken,
}

impl Handler for ReplyHandler {
    fn run(&self, task: Task, lease: Lease, stop: CancellationToken) -> Run<'_> {
        async move {
            let (workspace, id) = (lease.workspace, lease.task);
            let outcome = Box::pin(self.reply(task, lease, stop)).await;
            self.hub.close_stream(workspace, (id, lease.token));
            outcome
        }
        .boxed()
    }

    fn fail_lost(&self, lease: Lease) -> BoxFuture<'_, Result<(), LeaseLost>> {
        self.fail(lease, FailCode::WorkerLost, None).boxed()
    }
}

impl ReplyHandler {
    async fn reply(
        &self,
        mut task: Task,
        lease: Lease,
        stop: CancellationToken,
    ) -> Result<(), Abort> {
        let is_offline = self.provider.is_offline();
        let settings = self.compactor.settings;
        let read_task = task.clone();
        let mut c = self.db.snapshot().await?;
        let beginning = if is_offline {
            // Waits for the built-in responder.
            let read = Beginning::read(&mut c, read_task, lease, is_offline, settings).await;
            drop(c);
            read?
        } else {
            c.run(move |c| Beginning::read(c, read_task, lease, is_offline, settings).boxed())
                .await?
        };
        if !beginning.can_go_on {
            return Ok(self.fail(lease, FailCode::NotAllowed, None).await?);
        }
        if task.kind == TaskKind::Delegate && task.run_id.is_none() && is_offline {
            return Ok(self.fail(lease, FailCode::ModelUnavailable, None).await?);
        }
        let Beginning {
            agent,
            counts,
            loaded,
            offline,
            is_allowed,
            is_full,
            ..
        } = beginning;
        let mut counts: RetryCounts = serde_json::from_value(counts).unwrap_or_default();
        let Some(mut loaded) = loaded else {
            // The trigger message was just deleted, so there is nothing to reply to.
            let (id, audience) = (task.id, lease.audience);
            self.db
                .write(lease.workspace.0, async move |c: &mut Conn| {
                    queue::lock_lease(c, &lease).await?;
                    queue::cancel(c, id, audience).await?;
                    Ok::<_, LeaseLost>(())
                })
                .await?;
            return Ok(());
        };
        loaded.context.ask.files = attached::texts(&self.blobs, &loaded.readable).await;
        if !is_allowed {
            return Ok(self.fail(lease, FailCode::NotAllowed, None).await?);
        }
        if is_full {
            self.fail(lease, FailCode::QuotaExceeded, None).await?;
            return Ok(());
        }
        if is_offline && scheduled::is_heartbeat(&task) {
            // The built-in responder would repeat itself at each slot.
            return Ok(self.report_nothing(lease).await?);
        }
        let (ready, sources) = match offline {
            Some(Offline::React) => {
                let noted = noted(&loaded, &task, ReplyEnd::NoReply);
                return Ok(self.react(lease, &task, noted).await?);
            }
            Some(Offline::Reply { text, sources }) => (Some(text), sources),
            None => (None, Vec::new()),
        };
        let wanted = agent.profile.model.as_deref();
        let mut model = self.provider.choose_model(wanted).await;
        let compacting = Compacting {
            task: &task.clone(),
            lease: &lease,
            agent: &agent,
            stop: &stop,
        };
        if loaded.view.is_due {
            let keep = loaded.strategy.window();
            self.compact(
                &compacting,
                &mut loaded,
                (CompactionTrigger::Auto, keep),
                &model,
            )
            .await?;
        }
        if ready.is_some() {
            // The reply was written without the prompt.
            loaded.memories = Recalled::default();
            loaded.context.memories.clear();
            loaded.context.old_messages.clear();
        }
        // A reply that is ready needs no tools.
        let offered = |model: &str| ready.is_none().then(|| model.to_owned());
        let mut requests = self
            .requests(
                (&task, &lease),
                &agent,
                &loaded,
                counts.offered,
                offered(&model).as_deref(),
            )
            .await?;
        let clock = RunClock::after(counts.ran_ms);
        let mut rounds = Rounds::default();
        // Set when a collaborator has ended its turn.
        let mut done: Option<String> = None;
        if task.round > 0 {
            let end = self
                .resume_round(lease, &requests, (task.round, clock), &stop)
                .await?;
            if end == RoundEnd::Parked {
                return Ok(());
            }
            done = self.done_summary(&requests.task, task.round).await?;
            rounds = self.rounds(task.id).await?;
        }
        let (mut has_compacted, mut has_checked_size) = (false, false);
        loop {
            let window = self.provider.window(&model).await;
            if counts.summarised && !std::mem::replace(&mut has_compacted, true) {
                let room = window.estimate_for(window.tokens);
                let keep = prompt::kept_after_overflow(&loaded.context, room);
                let why = (CompactionTrigger::Overflow, keep);
                if let Some(failure) = self.compact(&compacting, &mut loaded, why, &model).await? {
                    let failed = Failed {
                        failure,
                        text: String::new(),
                    };
                    let code = failed.failure.code();
                    return Ok(self.fail(lease, code, Some(failed)).await?);
                }
            }
            let has_done = requests.offer.find(done::NAME).is_some();
            if let Some(turn) = &mut loaded.context.ask.turn {
                turn.has_done = has_done;
            }
            let (context, left_out) = shortened(&loaded, counts);
            let asked = match counts.announced {
                Some(agent) => Some(profiles::shown_name(&mut self.db.read().await?, agent).await?),
                None => None,
            };
            let sent = RoundsSent {
                offer: &requests.offer,
                window,
                requester: task.requested_by,
                ran: clock.ran(),
                task: task.id,
                announced: asked.as_deref(),
            };
            let output_tokens_max = agent.profile.output_tokens_max();
            let fitted = rounds.fit(&sent, |taken| {
                let budget = Budget {
                    window,
                    output_tokens_max,
                    taken,
                };
                Fitted::of(&loaded, context.clone(), left_out.clone(), budget)
            });
            let (fitted, extras, parts) = match fitted {
                Ok(fitted) => fitted,
                Err(too_large) => {
                    // Without definitions of functions, the instructions can fit.
                    if let Some(fewer) = fewer_functions(&requests.offer) {
                        counts.offered = fewer;
                        let (of, model) = ((&task, &lease), offered(&model));
                        requests = self
                            .requests(of, &agent, &loaded, fewer, model.as_deref())
                            .await?;
                        continue;
                    }
                    self.fail_with(lease, FailCode::ContextTooLarge, None, Some(too_large))
                        .await?;
                    return Ok(());
                }
            };
            let is_checked = !fitted.is_long() || ready.is_some() || done.is_some();
            if !is_checked
                && !std::mem::replace(&mut has_checked_size, true)
                && let Some(keep) = fitted.kept_by_size()
            {
                let why = (CompactionTrigger::Size, keep);
                self.compact(&compacting, &mut loaded, why, &model).await?;
                continue;
            }
            let mut manifest = fitted.manifest(&loaded, &model, task.attempt);
            manifest.rounds = parts;
            let limit = fitted.fit.output_limit;
            let outcome = if let Some(summary) = &done {
                Ok(self
                    .end_turn((&task, &lease, &agent), &rounds, summary)
                    .await?)
            } else {
                tokio::select! {
                    outcome = self.call(&task, &lease, &agent, (&manifest, &extras), limit, ready.as_deref()) => outcome?,
                    () = stop.cancelled() => return Err(Abort::Stopped),
                }
            };
            let announced = match &outcome {
                Ok(answer) if done.is_none() && counts.announced.is_none() => {
                    self.announced(&requests, (&rounds, clock.ran()), answer)
                        .await?
                }
                _ => None,
            };
            let failed = match outcome {
                Ok(answer) if !answer.calls.is_empty() || announced.is_some() => {
                    counts.announced = counts.announced.or(announced);
                    counts.ran_ms = clock.ran_ms();
                    // A call was made, so another wait for a budget is a new one.
                    counts.budget_since = None;
                    let (next, found) = self.store_round(lease, &requests, answer, counts).await?;
                    (task.attempt, task.round) = (next.attempt, next.round);
                    let end = self
                        .finish_round(lease, &requests, (next.round, clock), found, &stop)
                        .await?;
                    if end == RoundEnd::Parked {
                        return Ok(());
                    }
                    done = self.done_summary(&requests.task, next.round).await?;
                    rounds = self.rounds(task.id).await?;
                    continue;
                }
                Ok(answer) if task.kind == TaskKind::Delegate => {
                    self.complete_delegated(lease, manifest, &answer).await?;
                    return Ok(());
                }
                Ok(answer) if scheduled::has_nothing_to_report(&task, &answer.text) => {
                    return Ok(self.report_nothing(lease).await?);
                }
                Ok(mut answer) => {
                    let is_turn = loaded.context.ask.turn.is_some();
                    let is_done = done.is_some()
                        || (is_turn && !has_done && remove_done_line(&mut answer.text));
                    let options = Self::options(&agent, &loaded, &model);
                    let uses_tools = task.round > 0 || !agent.profile.reply_tools().is_empty();
                    let cited = if ready.is_some() || !uses_tools {
                        Cited::ready(&answer.text, sources)
                    } else {
                        Cited::check(&self.db, &self.blobs, &requests.task, &answer.text).await?
                    };
                    self.complete(
                        lease,
                        &task,
                        &agent,
                        manifest,
                        (cited, answer.truncated, is_done),
                        (&loaded, options),
                    )
                    .await?;
                    return Ok(());
                }
                Err(failed) => failed,
            };
            let attempt = match &failed.failure {
                Failure::Model(ModelError::ToolsRefused(_)) => Attempt {
                    fewer_functions: fewer_functions(&requests.offer),
                    ..Attempt::default()
                },
                failure => self.remedies(failure, &loaded, &fitted, &model).await,
            };
            let (step, new_counts) = next_step(&failed.failure, counts, &self.policy, attempt);
            counts = new_counts;
            // The provider's message is not logged because it may repeat the prompt; people can read it under "What
            // it saw".
            tracing::info!(attempt = task.attempt, code = %failed.failure.code(), step = ?step, "a model call failed");
            match step {
                Step::Wait {
                    delay,
                    reason,
                    keeps_slot,
                } => {
                    return self
                        .wait(lease, counts, failed, delay, reason, keeps_slot)
                        .await;
                }
                Step::ChangeModel | Step::OfferLess => {
                    if step == Step::ChangeModel {
                        let other = self.provider.choose_model(wanted).await;
                        if other == model {
                            self.fail(lease, FailCode::BadRequest, Some(failed)).await?;
                            return Ok(());
                        }
                        model = other;
                    }
                    task.attempt = self.next_attempt(lease, counts, failed).await?;
                    requests = self
                        .requests(
                            (&task, &lease),
                            &agent,
                            &loaded,
                            counts.offered,
                            offered(&model).as_deref(),
                        )
                        .await?;
                }
                Step::Refit | Step::Shrink | Step::Summarise => {
                    task.attempt = self.next_attempt(lease, counts, failed).await?;
                }
                Step::Fail {
                    code: FailCode::TreeLimit,
                } => {
                    self.end_tree(lease).await?;
                    return Ok(());
                }
                Step::Fail { code } => {
                    self.fail(lease, code, Some(failed)).await?;
                    return Ok(());
                }
            }
        }
    }

    fn options(agent: &Resolved, loaded: &Loaded, model: &str) -> PassOptions {
        let memory = agent.profile.memory.as_ref();
        PassOptions {
            trigger: CompactionTrigger::Auto,
            keep: i64::try_from(loaded.strategy.window()).unwrap_or(i64::MAX),
            before_seq: None,
            max_tokens: None,
            summary_model: memory.and_then(|memory| memory.summary_model.clone()),
            model: Some(model.to_owned()),
        }
    }

    /// Waits for a pass that takes all but the newest `keep` messages, and loads the context again. Returns why the
    /// messages could not be summarized.
    async fn compact(
        &self,
        compacting: &Compacting<'_>,
        loaded: &mut Loaded,
        (trigger, keep): (CompactionTrigger, usize),
        model: &str,
    ) -> Result<Option<Failure>, Abort> {
        let &Compacting {
            task,
            lease,
            agent,
            stop,
        } = compacting;
        let options = PassOptions {
            trigger,
            keep: i64::try_from(keep).unwrap_or(i64::MAX),
            before_seq: Some(loaded.trigger_seq),
            ..Self::options(agent, loaded, model)
        };
        let waited = self.compactor.before_reply(lease, options, stop).await?;
        let failure = match waited {
            Waited::Skipped => return Ok(None),
            Waited::Ready => None,
            Waited::Failed(e) => Some(Failure::from(e)),
        };
        let settings = self.compactor.settings;
        let (task, agent) = (task.clone(), agent.clone());
        let read =
            self.db.snapshot().await?.run(move |c| {
                async move { context::load(c, &task, &agent, settings).await }.boxed()
            });
        let again = read.await?;
        // If the trigger message was deleted meanwhile, the task was canceled.
        let files = std::mem::take(&mut loaded.context.ask.files);
        *loaded = again.ok_or(Abort::Stopped)?;
        loaded.context.ask.files = files;
        Ok(failure.map(|failure| Failure::Summary(Box::new(failure))))
    }

    /// Changes to the prompt that would make a difference after an overflow. Processes the entire history again.
    async fn remedies(
        &self,
        failure: &Failure,
        loaded: &Loaded,
        fitted: &Fitted,
        model: &str,
    ) -> Attempt {
        let Fitted {
            context,
            budget,
            fit,
            ..
        } = fitted;
        if !matches!(failure, Failure::Model(ModelError::ContextTooLarge)) {
            return Attempt::default();
        }
        let learned = Budget {
            window: self.provider.window(model).await,
            ..*budget
        };
        // If it does not fit at all, the next round reports that.
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
        }
    }

    /// Ends a failed attempt when another one follows immediately; returns its number.
    async fn next_attempt(
        &self,
        lease: Lease,
        counts: RetryCounts,
        failed: Failed,
    ) -> Result<i64, Abort> {
        let stored = serde_json::to_value(counts).unwrap_or_default();
        let error = AttemptError::from(&failed.failure);
        failpoint!("turn_again");
        let attempt = self
            .db
            .write(lease.workspace.0, async move |c: &mut Conn| {
                let held = queue::lock_lease(c, &lease).await?;
                save_partial_reply(c, &held, &failed.text).await?;
                attempts::end_attempt(
                    c,
                    lease.task,
                    AttemptOutcome::Retry,
                    Some(error.clone()),
                    0,
                    now(),
                )
                .await?;
                queue::next_attempt(c, &lease, stored.clone()).await
            })
            .await?;
        Ok(attempt)
    }

    /// Ends reply and task in one transaction, and removes the leftovers of the task that this one retries.
    async fn complete(
        &self,
        lease: Lease,
        task: &Task,
        agent: &Resolved,
        manifest: Manifest,
        (cited, truncated, done): (Cited, bool, bool),
        (loaded, options): (&Loaded, PassOptions),
    ) -> Result<(), Abort> {
        let memories = manifest.memory_ids();
        let summarized = manifest.summarized_ids();
        let model = manifest.model;
        failpoint!("turn_complete");
        let (retry_of, agent_id, agent_version) = (task.retry_of, agent.agent, agent.version);
        let end = if self.provider.is_offline() {
            ReplyEnd::Offline
        } else {
            ReplyEnd::Completed
        };
        let noted = noted(loaded, task, end);
        let (start, strategy) = (loaded.view.start, loaded.strategy);
        let preset = loaded.preset.stored.clone();
        let conversation = lease.target.conversation();
        let hub = Arc::clone(&self.hub);
        let compactor = self.compactor.clone();
        let key = Key {
            workspace: lease.workspace,
            thread: lease.target.thread,
            fork: lease.target.fork,
        };
        let is_posted = self
            .db
            .write(lease.workspace.0, async move |c: &mut Conn| {
                let task = queue::lock_lease(c, &lease).await?;
                if !scheduled::may_post(c, &task).await? {
                    return Ok(false);
                }
                let steps = match task.round {
                    0 => None,
                    _ => Some(actions::call_count(c, lease.task).await?),
                };
                let cited = cited.at_end(c).await?;
                let metadata = messages::MessageMetadata {
                    agent_id: Some(agent_id),
                    agent_version: Some(agent_version),
                    task_id: Some(lease.task),
                    schedule_id: Scheduled::of(&task).map(|scheduled| scheduled.schedule_id),
                    run_id: task.run_id,
                    truncated,
                    steps,
                    sources: cited.sources.clone(),
                    sources_removed: cited.removed,
                    ..messages::MessageMetadata::default()
                };
                let reply = match task.reply_message_id {
                    Some(reply) => {
                        let audience = lease.audience;
                        messages::finish_reply(c, reply, &cited.text, &metadata, audience).await?;
                        reply
                    }
                    None => {
                        scheduled::post_reply(c, (&task, &lease), &cited.text, metadata).await?
                    }
                };
                recall::count_uses(c, &memories).await?;
                recall::note_summarized(c, &summarized).await?;
                attempts::end_attempt(c, lease.task, AttemptOutcome::Completed, None, 0, now())
                    .await?;
                let output = TaskOutput {
                    message_id: Some(reply),
                    response_length: cited.length,
                    memories: memories.len(),
                    done,
                    delegated: task.round > 0 && queue::has_children(c, lease.task).await?,
                    ..TaskOutput::default()
                };
                queue::finish(
                    c,
                    &lease,
                    &End::Completed {
                        output,
                        model: model.clone(),
                    },
                )
                .await?;
                remove_superseded(c, retry_of, lease).await?;
                post::continue_chain(c, &task, lease.audience).await?;
                store::note_reply(c, key, agent_id, start).await?;
                if let Some(preset) = &preset {
                    let place = (key.workspace, lease.audience);
                    presets::store_used(c, place, conversation, agent_id, preset).await?;
                }
                if strategy.is_on() {
                    compactor
                        .after_reply(c, &task, &lease, strategy, &options)
                        .await?;
                }
                if let Some(noted) = &noted {
                    noted.store(c, &task, &lease).await?;
                }
                schedules::note_completed(c, &task).await?;
                if Turn::of(&task).is_some()
                    && guard::note_turn(c, &task, cited.text.content()).await?
                {
                    scheduled::fail_tree(c, &task, FailCode::Loop, &hub, lease.audience).await?;
                }
                Ok::<_, LeaseLost>(true)
            })
            .await?;
        failpoint!("turn_completed");
        if !is_posted {
            self.fail(lease, FailCode::NotAllowed, None).await?;
            return Ok(());
        }
        if retry_of.is_some()
            && let Err(e) = self.db.scrub().await
        {
            tracing::warn!(error = %e, "replaced text may remain in the write-ahead log until the next checkpoint");
        }
        Ok(())
    }

    /// Ends a task that posts nothing, and keeps its answer for the task that waits for it.
    async fn complete_delegated(
        &self,
        lease: Lease,
        manifest: Manifest,
        answer: &Answer,
    ) -> Result<(), LeaseLost> {
        let memories = manifest.memory_ids();
        let summarized = manifest.summarized_ids();
        let model = manifest.model;
        // The texts before its calls only stand in for a missing one.
        let text = match answer.own_text.trim() {
            "" => answer.text.trim(),
            own_text => own_text,
        };
        let kept = text[..text.floor_char_boundary(ANSWER_BYTES_MAX)].to_owned();
        let output = TaskOutput {
            response_length: i64::try_from(kept.encode_utf16().count()).unwrap_or(i64::MAX),
            memories: memories.len(),
            truncated: answer.truncated || kept.len() < text.len(),
            ..TaskOutput::default()
        };
        let hub = Arc::clone(&self.hub);
        failpoint!("turn_complete");
        self.db
            .write(lease.workspace.0, async move |c: &mut Conn| {
                let task = queue::lock_lease(c, &lease).await?;
                briefs::put_answer(c, &task, &kept).await?;
                recall::count_uses(c, &memories).await?;
                recall::note_summarized(c, &summarized).await?;
                attempts::end_attempt(c, lease.task, AttemptOutcome::Completed, None, 0, now())
                    .await?;
                let (output, model) = (output.clone(), model.clone());
                queue::finish(c, &lease, &End::Completed { output, model }).await?;
                if guard::note_answer(c, &task, &kept).await? {
                    scheduled::fail_tree(c, &task, FailCode::Loop, &hub, lease.audience).await?;
                }
                Ok::<_, LeaseLost>(())
            })
            .await?;
        failpoint!("turn_completed");
        Ok(())
    }

    /// Ends a tree that has reached a limit.
    async fn end_tree(&self, lease: Lease) -> Result<(), LeaseLost> {
        self.hub
            .close_stream(lease.workspace, (lease.task, lease.token));
        let hub = Arc::clone(&self.hub);
        failpoint!("turn_fail");
        self.db
            .write(lease.workspace.0, async move |c: &mut Conn| {
                let task = queue::lock_lease(c, &lease).await?;
                scheduled::fail_tree(c, &task, FailCode::TreeLimit, &hub, lease.audience).await?;
                Ok::<_, LeaseLost>(())
            })
            .await?;
        failpoint!("turn_failed");
        Ok(())
    }

    /// Ends the task with the agent's reaction to the trigger message instead of a reply.
    async fn react(
        &self,
        lease: Lease,
        task: &Task,
        noted: Option<NotedQuestion>,
    ) -> Result<(), LeaseLost> {
        let (trigger, agent, retry_of) =
            (task.trigger_message_id, lease.target.agent, task.retry_of);
        let model = self.provider.name().to_owned();
        self.db
            .write(lease.workspace.0, async move |c: &mut Conn| {
                let task = queue::lock_lease(c, &lease).await?;
                if let Some(trigger) = trigger {
                    messages::react_as_agent(c, trigger, agent, offline::THANKS, lease.audience)
                        .await?;
                }
                let output = TaskOutput::default();
                let model = model.clone();
                queue::finish(c, &lease, &End::Completed { output, model }).await?;
                remove_superseded(c, retry_of, lease).await?;
                post::continue_chain(c, &task, lease.audience).await?;
                if let Some(noted) = &noted {
                    noted.store(c, &task, &lease).await?;
                }
                Ok::<_, LeaseLost>(())
            })
            .await
    }

    async fn wait(
        &self,
        lease: Lease,
        counts: RetryCounts,
        failed: Failed,
        delay: Duration,
        reason: WaitReason,
        keeps_slot: bool,
    ) -> Result<(), Abort> {
        let stored = serde_json::to_value(counts).unwrap_or_default();
        let delay = with_jitter(delay);
        let retry_at = now() + delay;
        let waited_ms = i64::try_from(delay.as_millis()).unwrap_or(i64::MAX);
        let error = AttemptError::from(&failed.failure);
        failpoint!("turn_wait");
        self.db
            .write(lease.workspace.0, async move |c: &mut Conn| {
                let task = queue::lock_lease(c, &lease).await?;
                save_partial_reply(c, &task, &failed.text).await?;
                attempts::end_attempt(
                    c,
                    lease.task,
                    AttemptOutcome::Retry,
                    Some(error.clone()),
                    waited_ms,
                    now(),
                )
                .await?;
                queue::requeue(c, &lease, stored.clone(), retry_at, reason, keeps_slot).await?;
                Ok::<_, LeaseLost>(())
            })
            .await?;
        failpoint!("turn_waiting");
        Ok(())
    }

    /// Ends the task as failed: the partial reply is kept and marked as interrupted, and one notice states the
    /// reason.
    async fn fail(
        &self,
        lease: Lease,
        code: FailCode,
        failed: Option<Failed>,
    ) -> Result<(), LeaseLost> {
        self.fail_with(lease, code, failed, None).await
    }

    async fn fail_with(
        &self,
        lease: Lease,
        code: FailCode,
        failed: Option<Failed>,
        too_large: Option<TooLarge>,
    ) -> Result<(), LeaseLost> {
        let error = failed
            .as_ref()
            .map(|failed| AttemptError::from(&failed.failure));
        let wait = failed.as_ref().and_then(|failed| match failed.failure {
            Failure::Model(ModelError::RateLimited { retry_after }) => retry_after,
            _ => None,
        });
        let wait = wait.filter(|wait| !wait.is_zero());
        let over = failed
            .as_ref()
            .and_then(|failed| over_budget(&failed.failure).cloned());
        // Not in the transaction, because others would have to wait for it.
        let text = failed
            .map(|failed| failed.text)
            .filter(|text| !text.is_empty())
            .map(messages::ReplyText::of);
        let failed_at = now();
        self.hub
            .close_stream(lease.workspace, (lease.task, lease.token));
        let noted = self.noted_failure(&lease).await.unwrap_or_else(|e| {
            // The failure itself is more important.
            tracing::warn!(error = %e, "the question of a failed reply could not be scored");
            None
        });
        failpoint!("turn_fail");
        self.db
            .write(lease.workspace.0, async move |c: &mut Conn| {
                let task = queue::lock_lease(c, &lease).await?;
                if let Some(reply) = task.reply_message_id {
                    remove::interrupt_reply(c, reply, text.as_ref(), lease.audience).await?;
                }
                let name = profiles::shown_name(c, lease.target.agent).await?;
                let message = match (wait, too_large, &over) {
                    (_, _, Some(over)) => {
                        over_budget_notice(c, over, lease.workspace, &name).await?
                    }
                    (_, Some(too_large), None) => too_large.notice(&name),
                    (Some(wait), None, None) => wait_notice(&name, wait, failed_at),
                    (None, None, None) => notice_text(&name, code),
                };
                let message = post::end_chain(c, &task, message, lease.audience).await?;
                // A thread does not start with a failure: the schedule shows it. The caller of a delegated task gets it as result, and
                // the notice about a run names the step.
                let is_shown_elsewhere = task.starts_thread()
                    || task.kind == TaskKind::Delegate
                    || task.run_id.is_some();
                let notice = if is_shown_elsewhere {
                    None
                } else {
                    let (trigger, text) = (task.trigger_message_id, message.clone());
                    let audience = lease.audience;
                    Some(post::insert_notice(c, (&lease).into(), audience, trigger, text).await?)
                };
                let attempt = error.clone().unwrap_or_else(|| AttemptError {
                    code,
                    message: message.clone(),
                });
                attempts::end_attempt(
                    c,
                    lease.task,
                    AttemptOutcome::Failed,
                    Some(attempt),
                    0,
                    now(),
                )
                .await?;
                let end = End::Failed {
                    error: TaskError { code, message },
                    notice: notice.map(|notice| notice.id),
                };
                queue::finish(c, &lease, &end).await?;
                schedules::note_failed(c, &task).await?;
                if let Some(noted) = &noted {
                    noted.store(c, &task, &lease).await?;
                }
                Ok::<_, LeaseLost>(())
            })
            .await?;
        failpoint!("turn_failed");
        Ok(())
    }

    /// Notes the question of a reply that fails, perhaps before its context was loaded.
    async fn noted_failure(&self, lease: &Lease) -> Result<Option<NotedQuestion>, DbError> {
        let target = lease.target;
        let mut c = self.db.read().await?;
        let task = queue::find_task(&mut c, lease.task).await?;
        let agent = profiles::find_resolved(&mut c, target.agent, target.agent_version).await?;
        // Only questions of people are scored.
        let task = task.filter(|task| {
            task.kind == TaskKind::Reply && Turn::of(task).is_none() && task.run_id.is_none()
        });
        let Some((task, agent)) = task.zip(agent) else {
            return Ok(None);
        };
        let key = StateKey::of(&task, &target);
        let adapting = Adapting::find(&mut c, &key, target.channel, &agent.profile).await?;
        Ok(adapting.map(|adapting| adapting.note(&task.input.0.prompt, ReplyEnd::NoReply)))
    }
}

/// Removes the last line of a turn if it ends the work; returns false if it does not. A turn is never left without text.
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

/// State of the database that a reply begins with.
struct Beginning {
    agent: Resolved,
    counts: serde_json::Value,
    can_go_on: bool,
    loaded: Option<Loaded>,
    offline: Option<Offline>,
    is_allowed: bool,
    is_full: bool,
}

impl Beginning {
    async fn read(
        c: &mut Conn,
        task: Task,
        lease: Lease,
        is_offline: bool,
        settings: CompactionSettings,
    ) -> Result<Self, DbError> {
        let target = lease.target;
        let agent = profiles::get_resolved(c, target.agent, target.agent_version).await?;
        let mut beginning = Self {
            counts: queue::counts_of(c, task.id).await?,
            can_go_on: can_go_on(c, &task).await?,
            loaded: None,
            offline: None,
            is_allowed: true,
            is_full: false,
            agent,
        };
        if !beginning.can_go_on {
            return Ok(beginning);
        }
        let loaded = context::load(c, &task, &beginning.agent, settings).await?;
        beginning.offline = match &loaded {
            Some(loaded) if is_offline => Some(offline::prepare(c, &task, loaded).await?),
            _ => None,
        };
        beginning.loaded = loaded;
        beginning.is_allowed =
            task.kind != TaskKind::Schedule || schedules::is_allowed(c, &task).await?;
        beginning.is_full =
            task.reply_message_id.is_none() && quota::is_full(c, lease.workspace).await?;
        Ok(beginning)
    }
}

/// Checks the rights of a task that another one started, or that has started others, and of a link or a turn after its first round: its
/// requester must be able to invoke the agent, and to post in the conversation.
async fn can_go_on(c: &mut Conn, task: &Task) -> Result<bool, DbError> {
    let is_child = task.kind == TaskKind::Delegate || task.run_id.is_some();
    let is_in_line = Turn::of(task).is_some() || task.input.0.chain.is_some();
    let is_woken = is_child || (is_in_line && task.round > 0);
    if !is_woken && !queue::has_children(c, task.id).await? {
        return Ok(true);
    }
    let can_invoke = match task.agent_id {
        Some(agent) => profiles::is_invocable_by(c, agent, task.requested_by).await?,
        None => false,
    };
    let can_post = match task.run_id {
        Some(_) => access::requester_can_run(c, task).await?,
        None => access::requester_can_post(c, task).await?,
    };
    Ok(can_invoke && can_post)
}

/// Functions to offer after the server refused these; `None` if there were none.
fn fewer_functions(offer: &Offer) -> Option<Offered> {
    if offer.functions().any(|function| function.tool().is_some()) {
        Some(Offered::BuiltIn)
    } else {
        (!offer.is_empty()).then_some(Offered::None)
    }
}

/// The budget that does not allow a call, or the summary that the call needs.
fn over_budget(failure: &Failure) -> Option<&OverBudget> {
    match failure {
        Failure::OverBudget(over) => Some(over),
        Failure::Summary(cause) => over_budget(cause),
        Failure::Model(_)
        | Failure::Timeout
        | Failure::OverDelegation { .. }
        | Failure::TreeLimit => None,
    }
}

/// Everyone in the conversation reads it.
async fn over_budget_notice(
    c: &mut Conn,
    over: &OverBudget,
    workspace: WorkspaceId,
    agent: &str,
) -> Result<String, DbError> {
    let shows_costs = costs::are_visible(c, workspace, CostReader::Other).await?;
    Ok(over.notice(agent, shows_costs))
}

/// Notes the question of a reply, if the agent adapts to the requester.
fn noted(loaded: &Loaded, task: &Task, end: ReplyEnd) -> Option<NotedQuestion> {
    let adapting = loaded.adapting.as_ref()?;
    if loaded.context.ask.turn.is_some() {
        // The goal of a collaboration is not a question to one agent.
        return None;
    }
    Some(adapting.note(&task.input.0.prompt, end))
}

/// The context, shortened if overflows require it, and the messages left out.
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

/// Turns the leftovers of retried tasks (partial replies and notices) into tombstones.
async fn remove_superseded(
    c: &mut Conn,
    retry_of: Option<TaskId>,
    lease: Lease,
) -> Result<(), DbError> {
    let mut next = retry_of;
    for _ in 0..RETRY_CHAIN_MAX {
        let Some(id) = next else { break };
        let (reply, notice, before) = queue::left_behind(c, id).await?;
        for left in [reply, notice].into_iter().flatten() {
            if let Some(message) = messages::find_message(c, left).await?
                && message.deleted_at.is_none()
            {
                remove::tombstone(c, &message, lease.audience).await?;
            }
        }
        next = before;
    }
    Ok(())
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
