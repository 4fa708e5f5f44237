//! Reservations of running calls, and the usage of ended calls.

use std::time::Duration;

use uuid::Uuid;

use super::{
    amount::Amounts,
    announce::{announce, wake},
    budget::{BudgetPeriod, BudgetRow, OverBudget},
    notices,
};
use crate::{
    db::{Conn, DbError, Query, now},
    ids::{AgentId, UserId, WorkspaceId},
    time::Timestamp,
};

/// Maximum time that a call waits for running calls to release their reservations.
pub const WAIT_MAX: Duration = Duration::from_mins(1);
/// Interval at which a waiting call tries to reserve its budget again.
pub const RESERVED_EVERY: Duration = Duration::from_millis(500);

/// The data that determines which budgets a call counts toward.
#[derive(Debug, Clone, Copy)]
pub struct Charge {
    pub workspace: WorkspaceId,
    /// Requester of the root task.
    pub user: UserId,
    pub agent: Option<AgentId>,
    /// Start time of the call.
    pub at: Timestamp,
}

/// Condition for budgets `b` that cover a call; `Charge::bind` binds `$1` to `$5`.
macro_rules! covers {
    () => {
        "b.workspace_id = $1 and (b.scope = 'workspace' or (b.scope = 'person' and (b.subject_id is null or b.subject_id = $2)) \
         or (b.scope = 'agent' and $3 is not null and (b.subject_id is null or b.subject_id = $3)))"
    };
}

/// ID of the workspace, person, or agent whose usage a budget `b` counts.
macro_rules! subject {
    () => {
        "case b.scope when 'person' then $2 when 'agent' then $3 else $1 end"
    };
}

macro_rules! period {
    () => {
        "case b.period when 'day' then $4 else $5 end"
    };
}

/// Condition for the row of `budget_counters` that is the counter of a budget `b` for a call.
macro_rules! is_counter {
    ($counter:literal) => {
        concat!(
            $counter,
            ".budget_id = b.id and ",
            $counter,
            ".subject_id = ",
            subject!(),
            " and ",
            $counter,
            ".period = ",
            period!()
        )
    };
}

/// Selects the amount in the unit of the budget to which a row of `budget_counters` belongs.
macro_rules! in_unit {
    ($tokens:literal, $nano_usd:literal) => {
        concat!(
            "case when (select u.unit from budgets u where u.id = budget_counters.budget_id) = 'tokens' then ",
            $tokens,
            " else ",
            $nano_usd,
            " end"
        )
    };
}

impl Charge {
    fn bind<'c>(&self, q: Query<'c>) -> Query<'c> {
        q.bind(self.workspace)
            .bind(self.user)
            .bind(self.agent)
            .bind(BudgetPeriod::Day.key(self.at))
            .bind(BudgetPeriod::Month.key(self.at))
    }

    /// Inserts the counters that are missing, such as the first ones of a month. Returns false if the workspace has no budgets.
    async fn prepare(&self, c: &mut Conn) -> Result<bool, DbError> {
        let has_budgets: bool = c
            .q("select exists (select 1 from budgets where workspace_id = $1)")
            .bind(self.workspace)
            .value()
            .await?;
        if has_budgets {
            let inserted = self
                .bind(c.q(concat!(
                "insert into budget_counters (budget_id, subject_id, period, spent, reserved) select b.id, ",
                subject!(),
                ", ",
                period!(),
                ", 0, 0 from budgets b where ",
                covers!(),
                " on conflict do nothing"
            )))
            .run()
            .await?;
            if inserted > 0 {
                // A period may have begun.
                notices::close_settled(c, self.workspace).await?;
            }
        }
        Ok(has_budgets)
    }

    /// The counters of the call, in the order of the budgets.
    async fn counters(&self, c: &mut Conn) -> Result<Vec<BudgetRow>, DbError> {
        self.bind(c.q(concat!(
            "select b.id, b.scope, b.subject_id, b.period, b.unit, b.amount, b.warn_at, k.subject_id as counted_id, k.spent, k.reserved \
             from budgets b join budget_counters k on ",
            is_counter!("k"),
            " where ",
            covers!(),
            " order by b.position limit 1000"
        )))
        .all()
        .await
    }

    fn refusal(&self, counter: &BudgetRow, can_wait: bool) -> OverBudget {
        OverBudget {
            scope: counter.scope,
            subject: counter.counted_id.unwrap_or(self.workspace.0),
            period: counter.period,
            unit: counter.unit,
            amount: counter.amount,
            can_wait,
            at: now(),
        }
    }
}

/// Reserves an amount in all counters of a call, or in none. Returns the budget that the call would exceed. The caller must have
/// locked the workspace, so that a concurrent change to the budgets does not miss the reservation.
pub async fn reserve(
    c: &mut Conn,
    charge: &Charge,
    amounts: Amounts,
) -> Result<Result<(), OverBudget>, DbError> {
    if !charge.prepare(c).await? {
        return Ok(Ok(()));
    }
    let reserved = charge
        .bind(c.q(concat!(
            "update budget_counters set reserved = reserved + ",
            in_unit!("$6", "$7"),
            " where exists (select 1 from budgets b where ",
            is_counter!("budget_counters"),
            " and ",
            covers!(),
            " and (b.unit = 'tokens' or $7 is not null)) \
             and not exists (select 1 from budgets b join budget_counters k on ",
            is_counter!("k"),
            " where ",
            covers!(),
            " and k.spent + k.reserved + case b.unit when 'tokens' then $6 else $7 end > b.amount)"
        )))
        .bind(amounts.tokens)
        .bind(amounts.nano_usd)
        .run()
        .await?;
    if reserved > 0 {
        return Ok(Ok(()));
    }
    let counters = charge.counters(c).await?;
    Ok(
        first_over(&counters, amounts).map_or(Ok(()), |(counter, can_wait)| {
            Err(charge.refusal(counter, can_wait))
        }),
    )
}

/// Finds the first counter that an amount would exceed, preferably one that it would exceed even without the reservations. Also
/// returns whether only the reservations prevent the call.
fn first_over(counters: &[BudgetRow], amounts: Amounts) -> Option<(&BudgetRow, bool)> {
    let exceeds = |counter: &BudgetRow, taken: i64| {
        let wanted = amounts.in_unit(counter.unit);
        wanted.is_some_and(|wanted| taken.saturating_add(wanted) > counter.amount)
    };
    let used_up = counters
        .iter()
        .find(|counter| exceeds(counter, counter.spent));
    match used_up {
        Some(counter) => Some((counter, false)),
        None => counters
            .iter()
            .find(|counter| exceeds(counter, counter.spent.saturating_add(counter.reserved)))
            .map(|counter| (counter, true)),
    }
}

/// Releases the reservation of an ended call, and adds its usage. The caller must have locked the workspace.
pub async fn settle(
    c: &mut Conn,
    charge: &Charge,
    reserved: Amounts,
    used: Amounts,
) -> Result<(), DbError> {
    if !charge.prepare(c).await? {
        return Ok(());
    }
    let settled = charge
        .bind(c.q(concat!(
            "update budget_counters set spent = spent + ",
            in_unit!("$8", "$9"),
            ", reserved = case when reserved > ",
            in_unit!("$6", "$7"),
            " then reserved - ",
            in_unit!("$6", "$7"),
            " else 0 end where exists (select 1 from budgets b where ",
            is_counter!("budget_counters"),
            " and ",
            covers!(),
            ")"
        )))
        .bind(reserved.tokens)
        .bind(reserved.nano_usd.unwrap_or(0))
        .bind(used.tokens)
        .bind(used.nano_usd.unwrap_or(0))
        .run()
        .await?;
    if settled == 0 {
        return Ok(());
    }
    let counters = charge.counters(c).await?;
    let crossed = counters
        .iter()
        .filter(|counter| counter.has_crossed(used.in_unit(counter.unit).unwrap_or(0)));
    let crossed: Vec<Uuid> = crossed.map(|counter| counter.id).collect();
    if !crossed.is_empty() {
        announce(c, charge.workspace).await?;
        notices::open(c, charge.workspace, &crossed).await?;
    }
    wake(c, charge.workspace).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tasks::budgets::{amount::BudgetUnit, budget::BudgetScope};

    fn counter(unit: BudgetUnit, amount: i64, spent: i64, reserved: i64) -> BudgetRow {
        BudgetRow {
            id: Uuid::nil(),
            scope: BudgetScope::Workspace,
            subject_id: None,
            period: BudgetPeriod::Month,
            unit,
            amount,
            warn_at: 0.8,
            counted_id: None,
            spent,
            reserved,
        }
    }

    #[test]
    fn only_reservations_are_worth_waiting_for() {
        let amounts = Amounts {
            tokens: 10,
            nano_usd: None,
        };
        let can_wait =
            |counters: &[BudgetRow]| first_over(counters, amounts).map(|(_, can_wait)| can_wait);
        let tokens = |spent, reserved| counter(BudgetUnit::Tokens, 100, spent, reserved);
        assert_eq!(can_wait(&[tokens(0, 90)]), None);
        assert_eq!(can_wait(&[tokens(90, 0)]), None);
        assert_eq!(can_wait(&[tokens(0, 91)]), Some(true));
        assert_eq!(can_wait(&[tokens(91, 0)]), Some(false));
        assert_eq!(can_wait(&[tokens(0, 91), tokens(91, 0)]), Some(false));
        assert_eq!(can_wait(&[]), None);
    }

    #[test]
    fn a_call_without_a_price_is_not_bound_by_dollars() {
        let counters = [counter(BudgetUnit::Usd, 1, 1, 0)];
        let unpriced = Amounts {
            tokens: 10,
            nano_usd: None,
        };
        assert!(first_over(&counters, unpriced).is_none());
        let priced = Amounts {
            nano_usd: Some(1),
            ..unpriced
        };
        assert!(first_over(&counters, priced).is_some());
    }
}
