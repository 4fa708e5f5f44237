//! Failed attempts of a reply: the task continues after a wait, or ends with a notice.

use std::{sync::Arc, time::Duration};

use crate::{
    agents::profiles,
    chat::{collaboration::Turn, messages, post, remove},
    db::{Conn, DbError, now},
    failpoint,
    ids::MessageId,
    model::ModelError,
    replies::{
        adaptation::{
            note::{Adapting, NotedQuestion, ReplyEnd},
            state::StateKey,
        },
        budget::TooLarge,
        retry::{Failure, RetryCounts, with_jitter},
    },
    schedules,
    tasks::{
        FailCode, Lease, LeaseLost, Task, TaskError, TaskKind, WaitReason,
        attempts::{self, AttemptError, AttemptOutcome},
        budgets::OverBudget,
        costs::{self, CostReader},
        notice_text,
        queue::{self, End},
        thought_notice, wait_notice,
        worker::Abort,
    },
    time::Timestamp,
};

use super::{call::Failed, handler::ReplyHandler, reply::save_partial_reply, scheduled};

/// Cause of a task's failure, used to write the notice.
struct FailCause {
    code: FailCode,
    /// Error of the last attempt; `None` if the model was not called.
    error: Option<AttemptError>,
    /// Wait that the provider requested.
    wait: Option<Duration>,
    too_large: Option<TooLarge>,
    over: Option<OverBudget>,
    /// `usd_max` of the delegation, in billionths of a US dollar.
    nano_usd_max: Option<i64>,
    /// Output limit of an answer that contained only reasoning.
    thought_tokens: Option<u32>,
    failed_at: Timestamp,
}

impl FailCause {
    fn of(code: FailCode, failure: Option<&Failure>, too_large: Option<TooLarge>) -> Self {
        let wait = failure.and_then(|failure| match failure {
            Failure::Model(ModelError::RateLimited { retry_after }) => *retry_after,
            _ => None,
        });
        Self {
            code,
            error: failure.map(AttemptError::from),
            wait: wait.filter(|wait| !wait.is_zero()),
            too_large,
            over: failure.and_then(over_budget).cloned(),
            nano_usd_max: failure.and_then(|failure| match failure {
                Failure::OverDelegation { nano_usd_max, .. } => Some(*nano_usd_max),
                _ => None,
            }),
            thought_tokens: failure.and_then(Failure::thought_tokens),
            failed_at: now(),
        }
    }

    /// Returns the text of the notice.
    async fn message(&self, c: &mut Conn, lease: &Lease) -> Result<String, DbError> {
        let name = profiles::shown_name(c, lease.target.agent).await?;
        if let Some(limit) = self.nano_usd_max {
            let shows_costs = costs::are_visible(c, lease.workspace, CostReader::Other).await?;
            return Ok(over_delegation_notice(&name, limit, shows_costs));
        }
        Ok(match (self.wait, self.too_large, &self.over) {
            (_, _, Some(over)) => {
                // The notice is visible to everyone in the conversation.
                let shows_costs = costs::are_visible(c, lease.workspace, CostReader::Other).await?;
                over.notice(&name, shows_costs)
            }
            (_, Some(too_large), None) => too_large.notice(&name),
            (Some(wait), None, None) => wait_notice(&name, wait, self.failed_at),
            (None, None, None) if self.thought_tokens.is_some() => {
                thought_notice(&name, self.thought_tokens)
            }
            (None, None, None) => notice_text(&name, self.code),
        })
    }
}

/// Notice about work that another agent passed on and whose costs would exceed the limit for it.
fn over_delegation_notice(name: &str, nano_usd_max: i64, shows_costs: bool) -> String {
    let stopped =
        format!("{name} stopped: the work that was passed on would cost more than its limit");
    if !shows_costs {
        return format!("{stopped}.");
    }
    // Limits have at most four digits after the decimal point on screen.
    let ten_thousandths = nano_usd_max / 100_000;
    let (dollars, rest) = (ten_thousandths / 10_000, ten_thousandths % 10_000);
    let digits = format!("{rest:04}");
    let (cents, more) = digits.split_at(2);
    format!(
        "{stopped} of ${dollars}.{cents}{}.",
        more.trim_end_matches('0')
    )
}

/// Returns the budget that is exceeded by a call, or by the summary that the call needs.
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

/// Posts the notice in the conversation, unless the failure is shown elsewhere.
async fn insert_notice(
    c: &mut Conn,
    task: &Task,
    lease: &Lease,
    message: &str,
) -> Result<Option<MessageId>, DbError> {
    // A failed scheduled task does not start a thread, because the schedule shows the failure. The caller of a delegated task
    // receives the failure as a result, and the notice about a run names the failed step.
    let is_shown_elsewhere =
        task.starts_thread() || task.kind == TaskKind::Delegate || task.run_id.is_some();
    if is_shown_elsewhere {
        return Ok(None);
    }
    let (trigger, text) = (task.trigger_message_id, message.to_owned());
    let notice = post::insert_notice(c, lease.into(), lease.audience, trigger, text).await?;
    Ok(Some(notice.id))
}

impl ReplyHandler {
    /// Ends a failed attempt that is followed immediately by another one. Returns the number of the next attempt.
    pub(super) async fn next_attempt(
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

    /// Ends a tree that has reached a limit.
    pub(super) async fn end_tree(&self, lease: Lease) -> Result<(), LeaseLost> {
        self.hub.close_stream(lease.workspace, lease.run());
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

    pub(super) async fn wait(
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
                queue::requeue(c, &lease, stored.clone(), delay, reason, keeps_slot).await?;
                Ok::<_, LeaseLost>(())
            })
            .await?;
        failpoint!("turn_waiting");
        Ok(())
    }

    /// Ends the task as failed: the partial reply is kept and marked as interrupted, and one notice states the
    /// reason.
    pub(super) async fn fail(
        &self,
        lease: Lease,
        code: FailCode,
        failed: Option<Failed>,
    ) -> Result<(), LeaseLost> {
        self.fail_with(lease, code, failed, None).await
    }

    pub(super) async fn fail_with(
        &self,
        lease: Lease,
        code: FailCode,
        failed: Option<Failed>,
        too_large: Option<TooLarge>,
    ) -> Result<(), LeaseLost> {
        let cause = FailCause::of(code, failed.as_ref().map(|f| &f.failure), too_large);
        // The text is computed outside the transaction, because other writers would have to wait.
        let text = match failed.filter(|failed| !failed.text.is_empty()) {
            Some(failed) => {
                Some(messages::ReplyText::of_long(failed.requester, failed.text).await?)
            }
            None => None,
        };
        self.hub.close_stream(lease.workspace, lease.run());
        let noted = self.noted_failure(&lease).await.unwrap_or_else(|e| {
            // Recording the failure is more important than the score.
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
                let message = cause.message(c, &lease).await?;
                let message = post::end_chain(c, &task, message, lease.audience).await?;
                let notice = insert_notice(c, &task, &lease, &message).await?;
                let attempt = cause.error.clone().unwrap_or_else(|| AttemptError {
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
                    notice,
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

    /// Scores the question that a failed reply should have answered. Works even if the reply failed before its context was loaded.
    async fn noted_failure(&self, lease: &Lease) -> Result<Option<NotedQuestion>, DbError> {
        let target = lease.target;
        let mut c = self.db.read().await?;
        let task = queue::find_task(&mut c, lease.task).await?;
        let agent = profiles::find_resolved(&mut c, target.agent, target.agent_version).await?;
        // Only questions from people are scored.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_of_passed_on_work_is_named_unless_costs_are_hidden() {
        for (limit, wanted) in [
            (500_000_000, "$0.50."),
            (2_000_000_000, "$2.00."),
            (12_300_000, "$0.0123."),
        ] {
            let text = over_delegation_notice("Coder", limit, true);
            assert!(text.ends_with(wanted), "{text}");
        }
        assert_eq!(
            over_delegation_notice("Coder", 1, false),
            "Coder stopped: the work that was passed on would cost more than its limit."
        );
    }
}
