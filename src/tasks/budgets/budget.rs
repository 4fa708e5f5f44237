//! Budgets, as admins see them, and the rejection of a call that exceeds one.

use std::time::Duration;

use serde::Serialize;
use uuid::Uuid;

use super::amount::{self, Amount, BudgetUnit};
use crate::{
    ids::{AgentId, UserId},
    realtime::{EventData, EventType},
    text_enum::text_enum,
    time::Timestamp,
};

/// Assumed remaining duration of the calls that hold reservations.
const RUNNING_FOR: Duration = Duration::from_secs(5);

text_enum! {
    /// Calls that a budget covers.
    pub enum BudgetScope {
        /// All calls of the workspace.
        Workspace = "workspace",
        /// Calls that a person requested.
        Person = "person",
        /// Calls of an agent.
        Agent = "agent",
    }
}

text_enum! {
    /// Period after which a budget is reset, in UTC.
    pub enum BudgetPeriod {
        Day = "day",
        Month = "month",
    }
}

impl BudgetPeriod {
    /// Key of the period that contains this time: `YYYY-MM-DD` or `YYYY-MM`.
    pub(super) fn key(self, at: Timestamp) -> String {
        let length = match self {
            Self::Day => 10,
            Self::Month => 7,
        };
        at.to_text()[..length].to_owned()
    }

    /// Formats the period for display: `November 22` or `November`.
    fn shown(self, at: Timestamp) -> String {
        match self {
            Self::Day => at.to_day_text(),
            Self::Month => at.to_month_text(),
        }
    }
}

/// A budget to store.
#[derive(Debug, Clone, PartialEq)]
pub struct NewBudget {
    pub scope: BudgetScope,
    /// ID of the person or the agent; `None` if the limit applies to each person or agent separately, or to the workspace.
    pub subject: Option<Uuid>,
    pub period: BudgetPeriod,
    pub unit: BudgetUnit,
    /// Limit in tokens or in billionths of a US dollar.
    pub amount: i64,
    pub warn_at: f64,
}

/// Limit on the tokens or costs of model calls in a day or a month.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
pub struct UsageBudget {
    pub scope: BudgetScope,
    /// ID of the person or the agent; null if the limit applies to each person or agent separately, or to the workspace.
    pub subject_id: Option<String>,
    pub period: BudgetPeriod,
    /// Limit in US dollars, or null. Calls of models without a known price do not count.
    pub limit_usd: Option<f64>,
    /// Limit on input and output tokens together, or null.
    pub limit_tokens: Option<i64>,
    /// Fraction of the limit at which admins are warned.
    pub warn_at: f64,
    /// Usage in the current period, in the unit of the limit. In a budget for each person or agent, the usage of `top_subject_id`.
    pub spent: Amount,
    /// Amount reserved by running calls of the same person or agent.
    pub reserved: Amount,
    /// In a budget for each person or agent, the ID of the one with the highest usage, including reservations; null if there is no
    /// usage.
    pub top_subject_id: Option<String>,
}

/// A budget from the database, with one of its counters.
#[derive(Debug, Clone, sqlx::FromRow)]
pub(super) struct BudgetRow {
    pub id: Uuid,
    pub scope: BudgetScope,
    pub subject_id: Option<Uuid>,
    pub period: BudgetPeriod,
    pub unit: BudgetUnit,
    pub amount: i64,
    pub warn_at: f64,
    /// The person or agent that the counter belongs to; `None` if there is no counter.
    pub counted_id: Option<Uuid>,
    pub spent: i64,
    pub reserved: i64,
}

impl BudgetRow {
    pub(super) fn into_budget(self) -> UsageBudget {
        let named = |id: Uuid| match self.scope {
            BudgetScope::Workspace => None,
            BudgetScope::Person => Some(UserId(id).to_string()),
            BudgetScope::Agent => Some(AgentId(id).to_string()),
        };
        let limit = Amount::new(self.unit, self.amount);
        UsageBudget {
            scope: self.scope,
            subject_id: self.subject_id.and_then(named),
            period: self.period,
            limit_usd: match limit {
                Amount::Usd(usd) => Some(usd),
                Amount::Tokens(_) => None,
            },
            limit_tokens: match limit {
                Amount::Tokens(tokens) => Some(tokens),
                Amount::Usd(_) => None,
            },
            warn_at: self.warn_at,
            spent: Amount::new(self.unit, self.spent),
            reserved: Amount::new(self.unit, self.reserved),
            top_subject_id: match self.subject_id {
                Some(_) => None,
                None => self.counted_id.and_then(named),
            },
        }
    }

    /// Checks whether the usage has reached the warning threshold.
    pub(super) fn is_warned(&self) -> bool {
        self.spent >= self.warning()
    }

    /// Checks whether adding `used` made the usage reach the warning threshold or the limit.
    pub(super) fn has_crossed(&self, used: i64) -> bool {
        let before = self.spent.saturating_sub(used);
        let crossed = |threshold: i64| before < threshold && threshold <= self.spent;
        crossed(self.warning()) || crossed(self.amount)
    }

    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "a warning need not be exact, and is at most the amount"
    )]
    fn warning(&self) -> i64 {
        (self.amount as f64 * self.warn_at).ceil() as i64
    }
}

/// An admin changed the budgets, or the usage of a budget reached its warning threshold or its limit.
#[derive(Serialize, utoipa::ToSchema)]
pub struct BudgetEvent {
    /// Version of the list of budgets.
    pub version: i64,
}

impl EventData for BudgetEvent {
    const TYPES: &'static [EventType] = &[EventType::BudgetUpdated];
}

/// The budget that a call would have exceeded. The call was not made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OverBudget {
    pub scope: BudgetScope,
    /// ID of the person, the agent, or the workspace.
    pub subject: Uuid,
    pub period: BudgetPeriod,
    pub unit: BudgetUnit,
    /// Limit in tokens or in billionths of a US dollar.
    pub amount: i64,
    /// True if only reservations of running calls prevent the call.
    pub can_wait: bool,
    /// Time of the rejection.
    pub at: Timestamp,
}

impl OverBudget {
    /// Delay after which the budget may allow the call, because running calls have ended or a new period has begun.
    pub fn retry_after(&self) -> Duration {
        if self.can_wait {
            return RUNNING_FOR;
        }
        (self.at.day_start() + Duration::from_hours(24)).since(self.at)
    }

    /// Notice in the conversation; `agent` is the name of the agent. The notice does not name a person, so that an erasure does not
    /// have to find it.
    pub fn notice(&self, agent: &str, shows_costs: bool) -> String {
        let whose = match self.scope {
            BudgetScope::Workspace => "the workspace has used its",
            BudgetScope::Person => "the requester has used their",
            BudgetScope::Agent => "the agent has used its",
        };
        let limit = if shows_costs || self.unit == BudgetUnit::Tokens {
            amount::shown(self.unit, self.amount)
        } else {
            "budget".to_owned()
        };
        let period = self.period.shown(self.at);
        format!(
            "{agent} could not answer: {whose} {limit} for {period}. An admin can raise it in Settings › Costs."
        )
    }
}

/// Text for the requester.
impl std::fmt::Display for OverBudget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let whose = match self.scope {
            BudgetScope::Workspace => "the workspace has used its",
            BudgetScope::Person => "you have used your",
            BudgetScope::Agent => "the agent has used its",
        };
        let period = self.period.shown(self.at);
        write!(
            f,
            "{whose} budget for {period}: ask an admin to raise it in Settings › Costs"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        serde_json::from_value(text.into()).unwrap()
    }

    #[test]
    fn a_notice_names_whose_budget_is_used_up_and_where_to_raise_it() {
        let over = OverBudget {
            scope: BudgetScope::Workspace,
            subject: Uuid::nil(),
            period: BudgetPeriod::Month,
            unit: BudgetUnit::Usd,
            amount: 50_000_000_000,
            can_wait: false,
            at: at("2026-11-22T10:00:00.000Z"),
        };
        let raise = "An admin can raise it in Settings › Costs.";
        assert_eq!(
            over.notice("Vibe", true),
            format!(
                "Vibe could not answer: the workspace has used its $50.00 for November. {raise}"
            )
        );
        assert_eq!(
            over.notice("Vibe", false),
            format!(
                "Vibe could not answer: the workspace has used its budget for November. {raise}"
            )
        );
        let own = OverBudget {
            scope: BudgetScope::Person,
            period: BudgetPeriod::Day,
            unit: BudgetUnit::Tokens,
            amount: 12_000,
            ..over
        };
        assert_eq!(
            own.notice("Vibe", false),
            format!(
                "Vibe could not answer: the requester has used their 12,000 tokens for November 22. {raise}"
            )
        );
        assert_eq!(own.retry_after(), Duration::from_hours(14));
        assert_eq!(
            own.to_string(),
            "you have used your budget for November 22: ask an admin to raise it in Settings › Costs"
        );
    }

    #[test]
    fn a_budget_warns_once_when_its_warning_and_its_limit_are_reached() {
        let after = |spent| BudgetRow {
            id: Uuid::nil(),
            scope: BudgetScope::Workspace,
            subject_id: None,
            period: BudgetPeriod::Month,
            unit: BudgetUnit::Tokens,
            amount: 100,
            warn_at: 0.8,
            counted_id: None,
            spent,
            reserved: 0,
        };
        assert!(!after(79).is_warned() && after(80).is_warned());
        assert!(!after(79).has_crossed(79));
        assert!(after(80).has_crossed(1));
        assert!(!after(99).has_crossed(19));
        assert!(after(100).has_crossed(1));
        assert!(after(150).has_crossed(150));
        assert!(!after(150).has_crossed(50));
    }

    #[test]
    fn the_key_of_a_period_is_its_date_in_utc() {
        let moment = at("2026-11-22T23:59:59.999Z");
        assert_eq!(BudgetPeriod::Day.key(moment), "2026-11-22");
        assert_eq!(BudgetPeriod::Month.key(moment), "2026-11");
    }
}
