//! Decides what to do after a failed model call: wait, shorten the prompt, or fail the task.
//!
//! This module is pure. The counts are stored with the task, so that a restart does not reset them; the worker executes the step.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{
    ids::AgentId,
    model::{CollectError, ModelError},
    tasks::{
        FailCode, WaitReason,
        attempts::AttemptError,
        budgets::{self, OverBudget},
        calls::CallError,
    },
    time::Timestamp,
};

/// Maximum wait during which a task keeps its place ahead of later tasks.
const KEEPS_PLACE_MAX: Duration = Duration::from_secs(15);
/// Maximum number of times that a prompt is fitted again after an error revealed more about the window.
const REFITS_MAX: u32 = 3;
/// Interval after which a task that waits for a budget is tried again, unless the end of another call wakes it earlier.
const BUDGET_EVERY: Duration = Duration::from_secs(15);
/// Remaining wait for a budget below which another try is not worthwhile.
const BUDGET_REST: Duration = Duration::from_secs(1);
/// Maximum fraction by which a delay is extended, so that tasks that failed at the same time are not retried at the same time.
const JITTER: f64 = 0.25;

/// Cause of a failed attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    Model(ModelError),
    /// No chunk arrived in time, or the attempt as a whole took too long.
    Timeout,
    /// The utility model failed to write the summary that the reply needs.
    Summary(Box<Failure>),
    /// A budget does not allow the call, so it was not made.
    OverBudget(OverBudget),
    /// The `usd_max` of a delegation does not allow the call, so it was not made.
    OverDelegation {
        /// The limit in billionths of a US dollar.
        nano_usd_max: i64,
        /// True if the call is prevented only by reservations of running calls.
        can_wait: bool,
        at: Timestamp,
    },
    /// The tree of the task has reached a limit, so the call was not made.
    TreeLimit,
}

impl From<CollectError> for Failure {
    fn from(e: CollectError) -> Self {
        match e {
            CollectError::Model(e) => Self::Model(e),
            CollectError::Timeout => Self::Timeout,
        }
    }
}

impl From<CallError> for Failure {
    fn from(e: CallError) -> Self {
        match e {
            CallError::Collect(e) => e.into(),
            CallError::OverBudget(over) => Self::OverBudget(over),
        }
    }
}

/// Retry history of a task, which is stored with the task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
pub struct RetryCounts {
    pub unavailable: u32,
    pub rate_limited: u32,
    /// Total time waited for rate limits, in milliseconds.
    pub waited_ms: u64,
    /// Number of times that the prompt was fitted into a window that an error revealed.
    pub refits: u32,
    /// True if the server lacked the model and another one was chosen.
    pub model_changed: bool,
    pub shrunk: bool,
    pub summarised: bool,
    /// Start of the current wait for a budget.
    pub budget_since: Option<Timestamp>,
    /// Number of lost workers. The queue counts them; the number is kept here only so that updates preserve it.
    pub lost: u32,
    /// Total run time of rounds, in milliseconds.
    pub ran_ms: u64,
    /// True if an answer contained only reasoning; the output limit is doubled since then.
    pub thought_only: bool,
    /// Functions that requests of the task still offer; fewer after the server has rejected some.
    pub offered: Offered,
    /// True if requests no longer contain pictures, because all attempts with them have failed.
    pub pictures_left_out: bool,
    /// Agent to which the reply announced a delegation without making one.
    pub announced: Option<AgentId>,
}

/// Functions that the requests of a task offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Offered {
    #[default]
    All,
    /// Only built-in functions, not functions of registered servers.
    BuiltIn,
    None,
}

/// Limits for retries and waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Delays before each retry of an unavailable model (`OPENVIBE_RETRY_DELAYS`); one retry for each delay.
    pub delays: Vec<Duration>,
    pub rate_limit_retries_max: u32,
    /// Limit for the total time that one task waits for rate limits.
    pub rate_limit_wait_max: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            delays: [1, 5, 15].map(Duration::from_secs).to_vec(),
            rate_limit_retries_max: 5,
            rate_limit_wait_max: Duration::from_mins(10),
        }
    }
}

/// Changes to the request that could help after a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
pub struct Attempt {
    /// True if the error revealed more about the window, so that the same context is now fitted differently.
    pub can_refit: bool,
    /// True if `prompt::shrunk` would change the prompt.
    pub can_shrink: bool,
    /// True if older messages can be compacted.
    pub can_summarise: bool,
    /// Smaller set of functions to offer, if the failed request offered any.
    pub fewer_functions: Option<Offered>,
    /// True if the failed request contained pictures.
    pub has_pictures: bool,
}

/// Adds up to a quarter to a delay.
pub fn with_jitter(delay: Duration) -> Duration {
    delay.saturating_add(delay.mul_f64(rand::random::<f64>() * JITTER))
}

impl Failure {
    /// Output limit of an answer that contained only reasoning; `None` for other failures.
    pub fn thought_tokens(&self) -> Option<u32> {
        match self {
            Self::Model(ModelError::ThoughtOnly { output_tokens_max }) => Some(*output_tokens_max),
            _ => None,
        }
    }

    /// Error code of a task that ends with this failure.
    pub fn code(&self) -> FailCode {
        match self {
            Self::Model(e) => match e {
                ModelError::RateLimited { .. } => FailCode::RateLimited,
                ModelError::Unavailable(_) | ModelError::Broken(_) => FailCode::ModelUnavailable,
                ModelError::ContextTooLarge => FailCode::ContextTooLarge,
                ModelError::BadRequest(_)
                | ModelError::ModelMissing(_)
                | ModelError::ToolsRefused { .. } => FailCode::BadRequest,
                ModelError::Auth(_) => FailCode::Auth,
                ModelError::Empty => FailCode::BadResponse,
                ModelError::ThoughtOnly { .. } => FailCode::ThoughtOnly,
            },
            Self::Timeout => FailCode::Timeout,
            Self::Summary(cause) => match **cause {
                Self::OverBudget(_) => FailCode::BudgetExceeded,
                _ => FailCode::ModelUnavailable,
            },
            Self::OverBudget(_) | Self::OverDelegation { .. } => FailCode::BudgetExceeded,
            Self::TreeLimit => FailCode::TreeLimit,
        }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Model(e) => e.fmt(f),
            Self::Timeout => f.write_str("no reply in time"),
            Self::Summary(cause) => {
                write!(f, "the older messages could not be summarized: {cause}")
            }
            Self::OverBudget(over) => over.fmt(f),
            Self::OverDelegation { .. } => {
                f.write_str("the delegations have used up their usd_max")
            }
            Self::TreeLimit => f.write_str("the tasks have used up their model calls or run time"),
        }
    }
}

impl From<&Failure> for AttemptError {
    fn from(failure: &Failure) -> Self {
        Self {
            code: failure.code(),
            message: failure.to_string(),
        }
    }
}

/// Next step of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Repeats the call after `delay`.
    Wait {
        delay: Duration,
        reason: WaitReason,
        keeps_slot: bool,
    },
    /// Repeats the call with the same context, fitted into the window that the error revealed.
    Refit,
    /// Repeats the call with the model that is chosen from the server's new list.
    ChangeModel,
    /// Repeats the call with the context that `prompt::shrunk` returns.
    Shrink,
    /// Compacts older messages, then repeats the call.
    Summarise,
    /// Repeats the call with fewer functions.
    OfferLess,
    /// Repeats the call without pictures.
    LeaveOutPictures,
    /// Repeats the call with twice the output limit.
    ThinkLonger,
    Fail {
        code: FailCode,
    },
}

/// Returns the step after `failure` and the counts to store with it.
pub fn next_step(
    failure: &Failure,
    counts: RetryCounts,
    policy: &RetryPolicy,
    attempt: Attempt,
) -> (Step, RetryCounts) {
    let counts = match failure {
        Failure::OverBudget(_) | Failure::OverDelegation { .. } => counts,
        // A call was made, so the next wait for a budget starts over.
        _ => RetryCounts {
            budget_since: None,
            ..counts
        },
    };
    let fail = |code| (Step::Fail { code }, counts);
    match failure {
        Failure::Model(ModelError::Unavailable(_) | ModelError::Broken(_)) => {
            unavailable(counts, policy, attempt)
        }
        Failure::Model(ModelError::RateLimited { retry_after }) => {
            rate_limited(counts, policy, *retry_after)
        }
        Failure::Model(ModelError::ContextTooLarge) => smaller(counts, attempt).unwrap_or((
            Step::Fail {
                code: FailCode::ContextTooLarge,
            },
            counts,
        )),
        Failure::Model(ModelError::Empty) => fail(FailCode::BadResponse),
        Failure::Model(ModelError::ThoughtOnly { .. }) if !counts.thought_only => (
            Step::ThinkLonger,
            RetryCounts {
                thought_only: true,
                ..counts
            },
        ),
        Failure::Model(ModelError::ThoughtOnly { .. }) => fail(FailCode::ThoughtOnly),
        Failure::Model(ModelError::ModelMissing(_)) if !counts.model_changed => (
            Step::ChangeModel,
            RetryCounts {
                model_changed: true,
                ..counts
            },
        ),
        // The call for the summary has already been retried.
        Failure::Summary(_) => fail(failure.code()),
        Failure::Model(ModelError::ToolsRefused { .. }) => match attempt.fewer_functions {
            Some(offered) => (Step::OfferLess, RetryCounts { offered, ..counts }),
            None => fail(FailCode::BadRequest),
        },
        Failure::Model(ModelError::BadRequest(_) | ModelError::ModelMissing(_)) => {
            fail(FailCode::BadRequest)
        }
        Failure::Model(ModelError::Auth(_)) => fail(FailCode::Auth),
        Failure::Timeout => fail(FailCode::Timeout),
        Failure::OverBudget(over) => over_budget(counts, over.can_wait, over.at),
        Failure::OverDelegation { can_wait, at, .. } => over_budget(counts, *can_wait, *at),
        Failure::TreeLimit => fail(FailCode::TreeLimit),
    }
}

/// Waits until running calls release their reservations, at most `budgets::WAIT_MAX`. If usage alone exceeds the budget, the task
/// fails immediately.
fn over_budget(counts: RetryCounts, can_wait: bool, at: Timestamp) -> (Step, RetryCounts) {
    let since = counts.budget_since.unwrap_or(at);
    let left = budgets::WAIT_MAX.saturating_sub(at.since(since));
    if !can_wait || left < BUDGET_REST {
        let code = FailCode::BudgetExceeded;
        return (Step::Fail { code }, counts);
    }
    let counts = RetryCounts {
        budget_since: Some(since),
        ..counts
    };
    // The delay with its jitter must not exceed the remaining wait.
    let delay = BUDGET_EVERY.min(left.mul_f64(1.0 / (1.0 + JITTER)));
    (wait(delay, WaitReason::Budget), counts)
}

fn wait(delay: Duration, reason: WaitReason) -> Step {
    Step::Wait {
        delay,
        reason,
        keeps_slot: delay <= KEEPS_PLACE_MAX,
    }
}

fn unavailable(counts: RetryCounts, policy: &RetryPolicy, attempt: Attempt) -> (Step, RetryCounts) {
    match policy.delays.get(counts.unavailable as usize) {
        Some(delay) => (
            wait(*delay, WaitReason::Unavailable),
            RetryCounts {
                unavailable: counts.unavailable + 1,
                ..counts
            },
        ),
        // The model may have failed because of the pictures.
        None if attempt.has_pictures && !counts.pictures_left_out => (
            Step::LeaveOutPictures,
            RetryCounts {
                pictures_left_out: true,
                ..counts
            },
        ),
        None => (
            Step::Fail {
                code: FailCode::ModelUnavailable,
            },
            counts,
        ),
    }
}

/// Waits as long as `Retry-After` requires. Without `Retry-After`, uses the delays for an unavailable model, and then repeats the
/// last one.
fn rate_limited(
    counts: RetryCounts,
    policy: &RetryPolicy,
    retry_after: Option<Duration>,
) -> (Step, RetryCounts) {
    let same_steps = policy
        .delays
        .get(counts.rate_limited as usize)
        .or(policy.delays.last());
    let delay = retry_after.or(same_steps.copied()).unwrap_or_default();
    let waited = Duration::from_millis(counts.waited_ms).saturating_add(delay);
    if counts.rate_limited >= policy.rate_limit_retries_max || waited > policy.rate_limit_wait_max {
        return (
            Step::Fail {
                code: FailCode::RateLimited,
            },
            counts,
        );
    }
    let waited_ms = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX);
    let counts = RetryCounts {
        rate_limited: counts.rate_limited + 1,
        waited_ms,
        ..counts
    };
    (wait(delay, WaitReason::RateLimited), counts)
}

/// Returns the step to the next smaller prompt. Returns `None` if all steps have been tried or would not change the prompt.
fn smaller(counts: RetryCounts, attempt: Attempt) -> Option<(Step, RetryCounts)> {
    if attempt.can_refit && counts.refits < REFITS_MAX {
        Some((
            Step::Refit,
            RetryCounts {
                refits: counts.refits + 1,
                ..counts
            },
        ))
    } else if attempt.can_shrink && !counts.shrunk && !counts.summarised {
        Some((
            Step::Shrink,
            RetryCounts {
                shrunk: true,
                ..counts
            },
        ))
    } else if attempt.can_summarise && !counts.summarised {
        Some((
            Step::Summarise,
            RetryCounts {
                summarised: true,
                ..counts
            },
        ))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tasks::budgets::{BudgetPeriod, BudgetScope, BudgetUnit};

    const SECOND: Duration = Duration::from_secs(1);
    const LONG: Attempt = Attempt {
        can_refit: false,
        can_shrink: true,
        can_summarise: true,
        fewer_functions: None,
        has_pictures: false,
    };
    const SHORT: Attempt = LONG;

    /// Describes the steps that are taken if the same failure is repeated until the task fails.
    fn steps(failure: &Failure, attempt: Attempt) -> Vec<String> {
        let policy = RetryPolicy::default();
        let mut counts = RetryCounts::default();
        let mut words = Vec::new();
        loop {
            let (step, next) = next_step(failure, counts, &policy, attempt);
            counts = next;
            words.push(match step {
                Step::Wait {
                    delay,
                    reason,
                    keeps_slot,
                } => {
                    let place = if keeps_slot { "keeping" } else { "giving up" };
                    format!("{} s {reason:?} {place} its place", delay.as_secs())
                }
                other => format!("{other:?}"),
            });
            if matches!(step, Step::Fail { .. }) {
                return words;
            }
            assert!(words.len() < 20, "no end: {words:?}");
        }
    }

    #[test]
    fn every_failure_kind_stops_after_the_documented_retries() {
        let model = Failure::Model;
        let limited = |retry_after| Failure::Model(ModelError::RateLimited { retry_after });
        let wait = |s: u64, why: &str| format!("{s} s {why} keeping its place");
        let unavailable = [1, 5, 15].map(|s| wait(s, "Unavailable"));
        let fail = |code: FailCode| format!("Fail {{ code: {code:?} }}");
        let text = || "x".to_owned();
        let cannot_shrink = Attempt {
            can_shrink: false,
            ..LONG
        };
        let cannot = Attempt {
            can_summarise: false,
            ..cannot_shrink
        };
        let smaller = ["Shrink".to_owned(), "Summarise".to_owned()];
        let rows: Vec<(Failure, Attempt, Vec<String>)> = vec![
            (
                model(ModelError::Unavailable(text())),
                SHORT,
                [&unavailable[..], &[fail(FailCode::ModelUnavailable)]].concat(),
            ),
            (
                model(ModelError::Broken(text())),
                SHORT,
                [&unavailable[..], &[fail(FailCode::ModelUnavailable)]].concat(),
            ),
            (
                limited(None),
                SHORT,
                [1, 5, 15, 15, 15]
                    .map(|s| wait(s, "RateLimited"))
                    .into_iter()
                    .chain([fail(FailCode::RateLimited)])
                    .collect(),
            ),
            (
                limited(Some(2 * SECOND)),
                SHORT,
                [
                    [2; 5].map(|s| wait(s, "RateLimited")).to_vec(),
                    vec![fail(FailCode::RateLimited)],
                ]
                .concat(),
            ),
            (
                limited(Some(250 * SECOND)),
                SHORT,
                vec![
                    "250 s RateLimited giving up its place".to_owned(),
                    "250 s RateLimited giving up its place".to_owned(),
                    fail(FailCode::RateLimited),
                ],
            ),
            (
                limited(Some(601 * SECOND)),
                SHORT,
                vec![fail(FailCode::RateLimited)],
            ),
            (
                limited(Some(Duration::MAX)),
                SHORT,
                vec![fail(FailCode::RateLimited)],
            ),
            (
                model(ModelError::ContextTooLarge),
                SHORT,
                [&smaller[..], &[fail(FailCode::ContextTooLarge)]].concat(),
            ),
            (
                model(ModelError::ContextTooLarge),
                cannot_shrink,
                vec!["Summarise".to_owned(), fail(FailCode::ContextTooLarge)],
            ),
            (
                model(ModelError::ContextTooLarge),
                cannot,
                vec![fail(FailCode::ContextTooLarge)],
            ),
            (
                model(ModelError::Empty),
                SHORT,
                vec![fail(FailCode::BadResponse)],
            ),
            (
                model(ModelError::Broken(text())),
                Attempt {
                    has_pictures: true,
                    ..SHORT
                },
                [
                    unavailable.to_vec(),
                    vec![
                        "LeaveOutPictures".to_owned(),
                        fail(FailCode::ModelUnavailable),
                    ],
                ]
                .concat(),
            ),
            (
                model(ModelError::ContextTooLarge),
                Attempt {
                    can_refit: true,
                    ..cannot
                },
                [
                    vec!["Refit".to_owned(); 3],
                    vec![fail(FailCode::ContextTooLarge)],
                ]
                .concat(),
            ),
            (
                model(ModelError::ModelMissing(text())),
                LONG,
                vec!["ChangeModel".to_owned(), fail(FailCode::BadRequest)],
            ),
            (
                Failure::Summary(Box::new(model(ModelError::Unavailable(text())))),
                LONG,
                vec![fail(FailCode::ModelUnavailable)],
            ),
            (
                Failure::Summary(Box::new(Failure::Timeout)),
                LONG,
                vec![fail(FailCode::ModelUnavailable)],
            ),
            (
                model(ModelError::BadRequest(text())),
                LONG,
                vec![fail(FailCode::BadRequest)],
            ),
            (
                model(ModelError::Auth(text())),
                LONG,
                vec![fail(FailCode::Auth)],
            ),
            (Failure::Timeout, LONG, vec![fail(FailCode::Timeout)]),
        ];
        for (failure, attempt, wanted) in rows {
            assert_eq!(steps(&failure, attempt), wanted, "{failure:?}");
        }
    }

    #[test]
    fn a_refusal_of_functions_is_followed_by_a_call_with_fewer_until_there_are_none() {
        let policy = RetryPolicy::default();
        let failure = Failure::Model(ModelError::ToolsRefused {
            detail: "x".to_owned(),
            function: None,
        });
        let step = |fewer_functions| {
            let attempt = Attempt {
                fewer_functions,
                ..Attempt::default()
            };
            let (step, counts) = next_step(&failure, RetryCounts::default(), &policy, attempt);
            (step, counts.offered)
        };
        for fewer in [Offered::BuiltIn, Offered::None] {
            assert_eq!(step(Some(fewer)), (Step::OfferLess, fewer));
        }
        let code = FailCode::BadRequest;
        assert_eq!(step(None), (Step::Fail { code }, Offered::All));
    }

    #[test]
    fn a_task_waits_a_minute_for_a_budget_that_is_only_reserved() {
        let policy = RetryPolicy::default();
        let start: Timestamp = serde_json::from_str("\"2026-11-22T10:00:00.000Z\"").unwrap();
        let over = |can_wait: bool, after: Duration| {
            Failure::OverBudget(OverBudget {
                scope: BudgetScope::Workspace,
                subject: uuid::Uuid::nil(),
                period: BudgetPeriod::Day,
                unit: BudgetUnit::Tokens,
                amount: 1,
                can_wait,
                at: start + after,
            })
        };
        let fail = Step::Fail {
            code: FailCode::BudgetExceeded,
        };
        let none = RetryCounts::default();
        let step = |failure: &Failure, counts| next_step(failure, counts, &policy, LONG);
        assert_eq!(step(&over(false, Duration::ZERO), none).0, fail);
        let (first, counts) = step(&over(true, Duration::ZERO), none);
        assert_eq!(
            first,
            Step::Wait {
                delay: BUDGET_EVERY,
                reason: WaitReason::Budget,
                keeps_slot: true
            }
        );
        let Step::Wait { delay, .. } = step(&over(true, 57 * SECOND), counts).0 else {
            panic!("3 s are left");
        };
        assert!(delay.mul_f64(1.0 + JITTER) <= 3 * SECOND + Duration::from_millis(1));
        assert_eq!(step(&over(true, 60 * SECOND), counts).0, fail);
        assert_eq!(step(&over(true, 90 * SECOND), none).0, first, "a new wait");
        let (_, after_call) = step(&Failure::Model(ModelError::Empty), counts);
        assert_eq!(after_call.budget_since, None);
    }

    #[test]
    fn jitter_adds_at_most_a_quarter_and_shortens_nothing() {
        let delays: Vec<Duration> = (0..1_000).map(|_| with_jitter(4 * SECOND)).collect();
        assert!(
            delays
                .iter()
                .all(|delay| (4 * SECOND..=5 * SECOND).contains(delay))
        );
        assert!(delays.iter().any(|delay| *delay != delays[0]));
        assert_eq!(with_jitter(Duration::ZERO), Duration::ZERO);
    }

    #[test]
    fn retry_counts_of_different_kinds_are_independent() {
        let policy = RetryPolicy::default();
        let spent = RetryCounts {
            rate_limited: 5,
            waited_ms: 600_000,
            lost: 2,
            ..RetryCounts::default()
        };
        let failure = Failure::Model(ModelError::Unavailable("x".to_owned()));
        let (step, counts) = next_step(&failure, spent, &policy, SHORT);
        assert_eq!(
            step,
            Step::Wait {
                delay: SECOND,
                reason: WaitReason::Unavailable,
                keeps_slot: true
            }
        );
        assert_eq!(
            counts,
            RetryCounts {
                unavailable: 1,
                ..spent
            }
        );
    }

    #[test]
    fn without_delays_failures_are_not_retried() {
        let policy = RetryPolicy {
            delays: vec![],
            ..RetryPolicy::default()
        };
        let failure = Failure::Model(ModelError::Unavailable("x".to_owned()));
        let (step, _) = next_step(&failure, RetryCounts::default(), &policy, SHORT);
        assert_eq!(
            step,
            Step::Fail {
                code: FailCode::ModelUnavailable
            }
        );
    }

    #[test]
    fn stored_counts_are_restored_and_new_kinds_start_at_zero() {
        let counts = RetryCounts {
            unavailable: 2,
            shrunk: true,
            ..RetryCounts::default()
        };
        let json = serde_json::to_string(&counts).unwrap();
        assert_eq!(serde_json::from_str::<RetryCounts>(&json).unwrap(), counts);
        assert_eq!(
            serde_json::from_str::<RetryCounts>("{}").unwrap(),
            RetryCounts::default()
        );
    }
}
