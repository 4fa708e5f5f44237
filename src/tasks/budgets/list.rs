//! The list of budgets of a workspace.

use std::collections::HashMap;

use uuid::Uuid;

use super::{
    amount::{Amounts, nano_usd},
    announce::{announce, wake},
    budget::{BudgetPeriod, BudgetRow, BudgetScope, NewBudget, UsageBudget},
    notices,
};
use crate::{
    db::{Conn, Db, DbError, dialect, now},
    ids::{AgentId, UserId, WorkspaceId},
    model::builtin,
    time::Timestamp,
};

/// Age at which counters are deleted; longer than any period.
const PAST_AFTER: std::time::Duration = std::time::Duration::from_hours(24 * 62);
/// Maximum number of rows that are read to fill counters.
const USAGE_MAX: i64 = 100_000;

macro_rules! list_sql {
    ($counters:literal, $budgets:literal) => {
        concat!(
            "select b.id, b.scope, b.subject_id, b.period, b.unit, b.amount, b.warn_at, k.subject_id as counted_id, \
             coalesce(k.spent, 0) as spent, coalesce(k.reserved, 0) as reserved from budgets b \
             left join (select n.budget_id, n.subject_id, n.spent, n.reserved, \
             row_number() over (partition by n.budget_id order by n.spent + n.reserved desc, n.subject_id) as place \
             from budget_counters n join budgets o on o.id = n.budget_id where o.workspace_id = $1 and n.period in ($2, $3)",
            $counters,
            ") k on k.budget_id = b.id and k.place = 1 where b.workspace_id = $1",
            $budgets,
            " order by b.position limit 1000"
        )
    };
}

/// All budgets of a workspace, in the order in which they were set.
pub async fn list(c: &mut Conn, workspace: WorkspaceId) -> Result<Vec<UsageBudget>, DbError> {
    let rows = rows(c, workspace).await?;
    Ok(rows.into_iter().map(BudgetRow::into_budget).collect())
}

/// The budgets whose usage has reached the warning threshold.
pub async fn list_warned(
    c: &mut Conn,
    workspace: WorkspaceId,
) -> Result<Vec<UsageBudget>, DbError> {
    let rows = rows(c, workspace).await?.into_iter();
    let warned = rows.filter(BudgetRow::is_warned);
    Ok(warned.map(BudgetRow::into_budget).collect())
}

async fn rows(c: &mut Conn, workspace: WorkspaceId) -> Result<Vec<BudgetRow>, DbError> {
    let at = now();
    c.q(list_sql!("", ""))
        .bind(workspace)
        .bind(BudgetPeriod::Day.key(at))
        .bind(BudgetPeriod::Month.key(at))
        .all()
        .await
}

/// Per-person budgets that apply to this person, with this person's usage.
pub async fn list_own(
    c: &mut Conn,
    workspace: WorkspaceId,
    user: UserId,
) -> Result<Vec<UsageBudget>, DbError> {
    let at = now();
    let rows: Vec<BudgetRow> = c
        .q(list_sql!(
            " and n.subject_id = $4",
            " and b.scope = 'person' and (b.subject_id is null or b.subject_id = $4)"
        ))
        .bind(workspace)
        .bind(BudgetPeriod::Day.key(at))
        .bind(BudgetPeriod::Month.key(at))
        .bind(user)
        .all()
        .await?;
    Ok(rows.into_iter().map(BudgetRow::into_budget).collect())
}

/// Replaces all budgets of a workspace, fills their counters, and notifies admins. The caller must have locked the
/// workspace.
pub async fn replace(
    c: &mut Conn,
    workspace: WorkspaceId,
    budgets: &[NewBudget],
) -> Result<Vec<UsageBudget>, DbError> {
    // This also deletes the counters.
    c.q("delete from budgets where workspace_id = $1")
        .bind(workspace)
        .run()
        .await?;
    let usage = UsageSoFar::read(c, workspace, budgets).await?;
    for (position, budget) in (0_i64..).zip(budgets) {
        let id = Uuid::now_v7();
        c.q("insert into budgets (id, workspace_id, position, scope, subject_id, period, unit, amount, warn_at) \
             values ($1, $2, $3, $4, $5, $6, $7, $8, $9)")
            .bind(id)
            .bind(workspace)
            .bind(position)
            .bind(budget.scope)
            .bind(budget.subject)
            .bind(budget.period)
            .bind(budget.unit)
            .bind(budget.amount)
            .bind(budget.warn_at)
            .run()
            .await?;
        let period = budget.period.key(usage.at);
        for (subject, counter) in usage.counters(workspace, budget) {
            c.q("insert into budget_counters (budget_id, subject_id, period, spent, reserved) values ($1, $2, $3, $4, $5)")
                .bind(id)
                .bind(subject)
                .bind(period.clone())
                .bind(counter.spent)
                .bind(counter.reserved)
                .run()
                .await?;
        }
    }
    c.q(
        "insert into budget_lists (workspace_id, version) values ($1, 1) \
         on conflict (workspace_id) do update set version = budget_lists.version + 1",
    )
    .bind(workspace)
    .run()
    .await?;
    let stored = list(c, workspace).await?;
    announce(c, workspace).await?;
    notices::close_settled(c, workspace).await?;
    let warned = rows(c, workspace).await?.into_iter();
    let warned = warned.filter(BudgetRow::is_warned).map(|row| row.id);
    notices::open(c, workspace, &warned.collect::<Vec<_>>()).await?;
    wake(c, workspace).await?;
    Ok(stored)
}

/// Usage of one combination of person and agent, from calls that have ended.
#[derive(Debug, Clone, sqlx::FromRow)]
struct UsageRow {
    user_id: UserId,
    agent_id: Option<AgentId>,
    tokens: i64,
    cost_usd: Option<f64>,
}

#[derive(Debug, Clone, sqlx::FromRow)]
struct RunningRow {
    user_id: UserId,
    agent_id: Option<AgentId>,
    started_at: Timestamp,
    reserved: i64,
    reserved_nano_usd: Option<i64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Counter {
    spent: i64,
    reserved: i64,
}

/// Usage in the current periods, from which new counters are filled.
struct UsageSoFar {
    at: Timestamp,
    day: Vec<UsageRow>,
    month: Vec<UsageRow>,
    running: Vec<RunningRow>,
}

impl UsageSoFar {
    async fn read(
        c: &mut Conn,
        workspace: WorkspaceId,
        budgets: &[NewBudget],
    ) -> Result<Self, DbError> {
        let at = now();
        let mut usage = Self {
            at,
            day: Vec::new(),
            month: Vec::new(),
            running: Vec::new(),
        };
        if budgets
            .iter()
            .any(|budget| budget.period == BudgetPeriod::Month)
        {
            usage.month = c
                .q("select user_id, agent_id, cast(sum(input_tokens + output_tokens) as bigint) as tokens, sum(cost_usd) as cost_usd \
                    from usage where workspace_id = $1 and month = $2 and model <> $4 group by user_id, agent_id order by user_id, agent_id limit $3")
                .bind(workspace)
                .bind(BudgetPeriod::Month.key(at))
                .bind(USAGE_MAX)
                .bind(builtin::NAME)
                .all()
                .await?;
        }
        if budgets
            .iter()
            .any(|budget| budget.period == BudgetPeriod::Day)
        {
            usage.day = c
                .q("select user_id, agent_id, cast(sum(input + output) as bigint) as tokens, sum(cost_usd) as cost_usd \
                    from model_calls where workspace_id = $1 and started_at >= $2 and outcome <> 'running' and model <> $4 \
                    group by user_id, agent_id order by user_id, agent_id limit $3")
                .bind(workspace)
                .bind(at.day_start())
                .bind(USAGE_MAX)
                .bind(builtin::NAME)
                .all()
                .await?;
        }
        if !budgets.is_empty() {
            usage.running = c
                .q("select user_id, agent_id, started_at, reserved, reserved_nano_usd from model_calls \
                    where workspace_id = $1 and outcome = 'running' order by id limit $2")
                .bind(workspace)
                .bind(USAGE_MAX)
                .all()
                .await?;
        }
        Ok(usage)
    }

    /// The counters of a budget, except for people and agents without usage.
    fn counters(&self, workspace: WorkspaceId, budget: &NewBudget) -> HashMap<Uuid, Counter> {
        let subject_of = |user: UserId, agent: Option<AgentId>| {
            let subject = match budget.scope {
                BudgetScope::Workspace => workspace.0,
                BudgetScope::Person => user.0,
                // In `usage`, calls without an agent have the ID of the workspace.
                BudgetScope::Agent => agent?.0,
            };
            let is_covered = match budget.subject {
                Some(wanted) => wanted == subject,
                None => budget.scope != BudgetScope::Agent || subject != workspace.0,
            };
            is_covered.then_some(subject)
        };
        let mut counters: HashMap<Uuid, Counter> = HashMap::new();
        let ended = match budget.period {
            BudgetPeriod::Day => &self.day,
            BudgetPeriod::Month => &self.month,
        };
        for row in ended {
            let used = Amounts {
                tokens: row.tokens,
                nano_usd: row.cost_usd.map(nano_usd),
            };
            if let Some(subject) = subject_of(row.user_id, row.agent_id) {
                let counter = counters.entry(subject).or_default();
                counter.spent += used.in_unit(budget.unit).unwrap_or(0);
            }
        }
        let period = budget.period.key(self.at);
        for row in &self.running {
            let reserved = Amounts {
                tokens: row.reserved,
                nano_usd: row.reserved_nano_usd,
            };
            if budget.period.key(row.started_at) == period
                && let Some(subject) = subject_of(row.user_id, row.agent_id)
            {
                let counter = counters.entry(subject).or_default();
                counter.reserved += reserved.in_unit(budget.unit).unwrap_or(0);
            }
        }
        counters
    }
}

/// Reassigns the budgets and counters of a person to the alias that replaces the person.
pub async fn reassign(
    c: &mut Conn,
    workspace: WorkspaceId,
    from: UserId,
    to: UserId,
) -> Result<(), DbError> {
    dialect::lock_workspace(c, workspace.0).await?;
    // A call that ended during the erasure may already have been counted for the alias.
    c.q("delete from budget_counters where subject_id = $2 and budget_id in (select id from budgets where workspace_id = $1)")
        .bind(workspace)
        .bind(to)
        .run()
        .await?;
    for sql in [
        "update budgets set subject_id = $3 where workspace_id = $1 and subject_id = $2",
        "update budget_counters set subject_id = $3 where subject_id = $2 and budget_id in (select id from budgets where workspace_id = $1)",
    ] {
        c.q(sql).bind(workspace).bind(from).bind(to).run().await?;
    }
    Ok(())
}

/// Deletes counters of periods that ended long ago.
///
/// # Errors
/// Only database errors.
pub async fn remove_past(db: &Db) -> Result<(), DbError> {
    db.delete_expired(
        BudgetPeriod::Day.key(now() - PAST_AFTER),
        "select exists (select 1 from budget_counters where period < $1)",
        "delete from budget_counters where (budget_id, subject_id, period) in \
         (select budget_id, subject_id, period from budget_counters where period < $1 order by period limit $2)",
    )
    .await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tasks::budgets::amount::BudgetUnit;

    #[test]
    fn counters_are_filled_by_person_agent_and_workspace() {
        let (workspace, ada, bo) = (WorkspaceId::new(), UserId::new(), UserId::new());
        let vibe = AgentId::new();
        let used = |user_id, agent_id, tokens| UsageRow {
            user_id,
            agent_id: Some(agent_id),
            tokens,
            cost_usd: Some(0.5),
        };
        let nobody = AgentId(workspace.0);
        let at = now();
        let running = RunningRow {
            user_id: bo,
            agent_id: Some(vibe),
            started_at: at,
            reserved: 7,
            reserved_nano_usd: None,
        };
        let usage = UsageSoFar {
            at,
            day: Vec::new(),
            month: vec![
                used(ada, vibe, 10),
                used(ada, nobody, 20),
                used(bo, vibe, 40),
            ],
            running: vec![running],
        };
        let budget = |scope, subject, unit| NewBudget {
            scope,
            subject,
            period: BudgetPeriod::Month,
            unit,
            amount: 1,
            warn_at: 0.8,
        };
        let counter = |spent, reserved| Counter { spent, reserved };
        let tokens = BudgetUnit::Tokens;
        let people = usage.counters(workspace, &budget(BudgetScope::Person, None, tokens));
        assert_eq!(
            people,
            HashMap::from([(ada.0, counter(30, 0)), (bo.0, counter(40, 7))])
        );
        let of_bo = budget(BudgetScope::Person, Some(bo.0), tokens);
        assert_eq!(
            usage.counters(workspace, &of_bo),
            HashMap::from([(bo.0, counter(40, 7))])
        );
        let agents = usage.counters(workspace, &budget(BudgetScope::Agent, None, tokens));
        assert_eq!(agents, HashMap::from([(vibe.0, counter(50, 7))]));
        let all = budget(BudgetScope::Workspace, None, BudgetUnit::Usd);
        assert_eq!(
            usage.counters(workspace, &all),
            HashMap::from([(workspace.0, counter(1_500_000_000, 0))])
        );
    }
}
