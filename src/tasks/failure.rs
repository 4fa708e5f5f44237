//! Reasons why tasks fail, and the notices that people read about them.

use std::{ops::RangeInclusive, time::Duration};

use crate::{model::grouped, text_enum::text_enum, time::Timestamp};

/// Maximum wait that a notice mentions; longer values from a provider are treated as an ordinary rate limit.
const NAMED_WAIT_MAX: Duration = Duration::from_hours(7 * 24);

/// Scores at which the loop guard stops a tree: the default, and the maximum that a retry can set.
pub const GUARD_MIN: i64 = 4;
pub const GUARD_MAX: i64 = 8;

/// Maximum number of model calls, and maximum run time, of all tasks of a tree.
pub const TREE_CALLS_MAX: i64 = 120;
pub const TREE_RUN_MAX: Duration = Duration::from_hours(1);
/// Maximum number of tasks of a tree, not counting those that only help a reply, and maximum number of
/// parents above a task.
pub const TREE_TASKS_MAX: i64 = 64;
pub const TREE_DEPTH_MAX: i64 = 5;
/// Maximum number of delegations in a round.
pub const DELEGATIONS_IN_ROUND_MAX: i64 = 5;
/// Allowed numbers of agents, and of their turns, in a collaboration.
pub const COLLABORATORS: RangeInclusive<usize> = 2..=4;
pub const COLLABORATION_TURNS: RangeInclusive<i64> = 2..=8;

text_enum! {
    /// Reason why a task failed.
    pub enum FailCode {
        ModelUnavailable = "model_unavailable",
        RateLimited = "rate_limited",
        Timeout = "timeout",
        BadResponse = "bad_response",
        /// The answer contained only reasoning.
        ThoughtOnly = "thought_only",
        ContextTooLarge = "context_too_large",
        BadRequest = "bad_request",
        Auth = "auth",
        WorkerLost = "worker_lost",
        QueueFull = "queue_full",
        QuotaExceeded = "quota_exceeded",
        BudgetExceeded = "budget_exceeded",
        /// The requester can no longer invoke the agent, or post in the conversation.
        NotAllowed = "not_allowed",
        /// Agents of the tree were repeating themselves.
        Loop = "loop",
        /// The tree of the task has used up its model calls or its run time.
        TreeLimit = "tree_limit",
        /// A step of the run failed.
        StepFailed = "step_failed",
        /// The runner of the repository is not connected.
        RunnerOffline = "runner_offline",
        /// The runner could not prepare the repository, or the agent could not be started.
        SandboxFailed = "sandbox_failed",
        /// The coding agent refused to do this.
        Refused = "refused",
    }
}

/// Text that is added to the notice about a failed link of a chain. It names the agents of the later links, which were canceled.
pub fn not_asked_text(failed: &str, later: &[String]) -> String {
    let were = if later.len() == 1 { "was" } else { "were" };
    let later = later.join(", ");
    format!(
        "{failed} could not answer, so {later} {were} not asked. Retry continues with {failed}."
    )
}

/// Notice posted in the conversation of the trigger message. It states which agent failed to reply, and what to do.
pub fn notice_text(agent_display_name: &str, code: FailCode) -> String {
    let name = agent_display_name;
    match code {
        FailCode::ModelUnavailable => format!(
            "{name} could not answer: the AI service is unavailable at the moment. Please try again in a few minutes."
        ),
        FailCode::RateLimited => format!(
            "{name} could not answer: the AI service is receiving too many requests at the moment. Please try again in a few minutes."
        ),
        FailCode::Timeout => format!(
            "{name} timed out before the answer was complete. The question may be too large for one answer: please try again, or split the question."
        ),
        FailCode::BadResponse => format!(
            "{name} gave an unexpected answer that cannot be shown. Please rephrase the question and ask again."
        ),
        FailCode::ThoughtOnly => thought_notice(name, None),
        FailCode::ContextTooLarge => format!(
            "{name} could not answer: the messages here are too long for the model. Please ask in a new thread, or shorten the question."
        ),
        FailCode::BadRequest => format!(
            "{name} could not answer: the AI service refused the request. Please ask an admin to check the model settings."
        ),
        FailCode::Auth => format!(
            "{name} could not answer: the AI service did not accept this server's credentials. Please ask an admin to check the model settings."
        ),
        FailCode::WorkerLost => format!(
            "{name} was interrupted several times and did not finish. Please try again, and contact an admin if it happens again."
        ),
        FailCode::QueueFull => format!(
            "{name} cannot start: too many requests are waiting in this workspace. Please ask again in a few minutes."
        ),
        FailCode::QuotaExceeded => format!(
            "{name} cannot start: this workspace has reached its storage limit. Please delete messages or uploads, and ask again."
        ),
        FailCode::BudgetExceeded => format!(
            "{name} could not answer: a budget of this workspace is used up. Please ask an admin to raise it in Settings › Costs."
        ),
        FailCode::NotAllowed => format!(
            "{name} was not asked: the person who started this can no longer ask {name} here. Please ask another agent."
        ),
        FailCode::Loop => loop_notice(&[name.to_owned()], None),
        FailCode::StepFailed => format!(
            "{name} was stopped, because a step failed. Please resume the run, or start it again."
        ),
        FailCode::RunnerOffline => format!(
            "{name} could not start: no runner is connected. Please ask an admin to start it with `openvibe runner`."
        ),
        FailCode::SandboxFailed => format!(
            "{name} could not work on the repository. Please ask an admin to look at the runner."
        ),
        FailCode::Refused => format!("{name} refused to do this. Please ask for something else."),
        FailCode::TreeLimit => format!(
            "{name} was stopped: the work reached the limit of {TREE_CALLS_MAX} model calls or {} minutes. Please ask for less at once.",
            TREE_RUN_MAX.as_secs() / 60
        ),
    }
}

/// Notice about an answer that contained only reasoning, with its output limit.
pub fn thought_notice(agent_display_name: &str, tokens: Option<u32>) -> String {
    let limit = tokens.map_or_else(String::new, |tokens| {
        format!(" ({} tokens)", grouped(u64::from(tokens)))
    });
    format!(
        "{agent_display_name} used its whole answer{limit} for thinking. An admin can raise its answer length or choose another model."
    )
}

/// Notice about a tree that the loop guard has stopped after this number of model calls.
pub fn loop_notice(agents: &[String], calls: Option<i64>) -> String {
    let (were, themselves, they) = match agents.len() {
        1 => ("was", "itself", "it was"),
        _ => ("were", "themselves", "they were"),
    };
    let names = match agents.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => agents.concat(),
    };
    let after = calls.map_or_else(String::new, |calls| {
        let plural = if calls == 1 { "" } else { "s" };
        format!(" after {calls} model call{plural}")
    });
    format!("{names} {were} repeating {themselves}, so {they} stopped{after}.")
}

/// Notice about a provider that requested a longer wait than a task allows. It states the duration and the time at which the wait
/// ends.
pub fn wait_notice(agent_display_name: &str, wait: Duration, at: Timestamp) -> String {
    if wait > NAMED_WAIT_MAX {
        return notice_text(agent_display_name, FailCode::RateLimited);
    }
    let seconds = wait.as_secs().max(1);
    let (number, unit) = match seconds {
        ..60 => (seconds, "second"),
        60..7_200 => (seconds.div_ceil(60), "minute"),
        _ => (seconds.div_ceil(3_600), "hour"),
    };
    let plural = if number == 1 { "" } else { "s" };
    let until = (at + wait).to_minute_text(at);
    format!(
        "{agent_display_name} could not answer. The AI service asked to wait {number} {unit}{plural}. Try again after {until}."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notice_includes_the_wait_requested_by_the_provider() {
        let at = |text: &str| serde_json::from_value::<Timestamp>(text.into()).unwrap();
        let notice = |seconds, now| wait_notice("Vibe", Duration::from_secs(seconds), at(now));
        let expected = |wait: &str, until: &str| {
            format!(
                "Vibe could not answer. The AI service asked to wait {wait}. Try again after {until}."
            )
        };
        for (seconds, now, wait, until) in [
            (900, "2026-11-21T14:20:00.000Z", "15 minutes", "14:35 UTC"),
            (900, "2026-11-21T14:20:00.001Z", "15 minutes", "14:36 UTC"),
            (601, "2026-11-21T14:20:00.000Z", "11 minutes", "14:31 UTC"),
            (60, "2026-11-21T14:20:00.000Z", "1 minute", "14:21 UTC"),
            (2, "2026-11-21T14:20:00.000Z", "2 seconds", "14:21 UTC"),
            (1, "2026-11-21T14:20:59.000Z", "1 second", "14:21 UTC"),
            (
                10_800,
                "2026-11-21T22:30:00.000Z",
                "3 hours",
                "2026-11-22 01:30 UTC",
            ),
        ] {
            assert_eq!(notice(seconds, now), expected(wait, until), "{seconds}");
        }
        let endless = wait_notice("Vibe", Duration::MAX, at("2026-11-21T14:20:00.000Z"));
        assert_eq!(endless, notice_text("Vibe", FailCode::RateLimited));
    }

    #[test]
    fn a_notice_names_the_agents_that_were_not_asked() {
        let names = |names: &[&str]| {
            names
                .iter()
                .map(|name| (*name).to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(
            not_asked_text("Coder", &names(&["Reviewer"])),
            "Coder could not answer, so Reviewer was not asked. Retry continues with Coder."
        );
        assert_eq!(
            not_asked_text("Coder", &names(&["Reviewer", "Tester"])),
            "Coder could not answer, so Reviewer, Tester were not asked. Retry continues with Coder."
        );
    }

    #[test]
    fn a_notice_of_a_loop_names_its_agents_and_calls() {
        let notice = |names: &[&str], calls| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            loop_notice(&names, calls)
        };
        for (names, calls, expected) in [
            (
                &["Vibe", "Coder"][..],
                Some(6),
                "Vibe and Coder were repeating themselves, so they were stopped after 6 model calls.",
            ),
            (
                &["Vibe", "Coder", "Tester"],
                Some(1),
                "Vibe, Coder and Tester were repeating themselves, so they were stopped after 1 model call.",
            ),
            (
                &["Vibe"],
                None,
                "Vibe was repeating itself, so it was stopped.",
            ),
        ] {
            assert_eq!(notice(names, calls), expected);
        }
    }

    #[test]
    fn a_notice_names_the_agent_and_contains_no_error_code() {
        for code in FailCode::ALL.iter().copied() {
            let text = notice_text("Vibe", code);
            assert!(
                text.starts_with("Vibe ")
                    && (text.to_lowercase().contains("please ")
                        || matches!(code, FailCode::Loop | FailCode::ThoughtOnly)),
                "{text}"
            );
            assert!(!text.contains('_'), "{text}");
        }
    }
}
