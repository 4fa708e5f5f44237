//! Notices of admins about budgets whose usage has reached the warning threshold.

use uuid::Uuid;

use super::budget::BudgetPeriod;
use crate::{
    db::{Conn, DbError, now},
    ids::WorkspaceId,
    inbox::{
        InboxSubject, InboxSubjectKind,
        notice::{self, Notice},
    },
};

/// Opens the notices about these budgets.
pub(super) async fn open(
    c: &mut Conn,
    workspace: WorkspaceId,
    budgets: &[Uuid],
) -> Result<(), DbError> {
    for budget in budgets {
        let notice = Notice {
            workspace,
            subject: InboxSubject::new(InboxSubjectKind::Budget, *budget),
            actor: None,
            channel: None,
        };
        notice::open_for_admins(c, &notice).await?;
    }
    Ok(())
}

/// Closes the notices about budgets that were replaced, or whose usage is below the threshold in the current period.
pub(super) async fn close_settled(c: &mut Conn, workspace: WorkspaceId) -> Result<(), DbError> {
    let at = now();
    let settled: Vec<(Uuid,)> = c
        .q("select distinct i.subject_id from inbox_items i where i.workspace_id = $1 and i.subject_type = 'budget' and i.state <> 'done' \
            and not exists (select 1 from budgets b join budget_counters k on k.budget_id = b.id where b.id = i.subject_id \
              and k.period in ($2, $3) and k.spent >= b.amount * b.warn_at) order by i.subject_id limit 1000")
        .bind(workspace)
        .bind(BudgetPeriod::Day.key(at))
        .bind(BudgetPeriod::Month.key(at))
        .all()
        .await?;
    for (budget,) in settled {
        notice::close_notice(c, workspace, budget, None).await?;
    }
    Ok(())
}
