//! Visibility of briefs and answers.

use crate::{
    db::{Conn, DbError},
    ids::{TaskId, UserId},
};

/// A person who reads a task tree.
#[derive(Debug, Clone, Copy)]
pub struct BriefReader {
    pub user: UserId,
    pub is_admin: bool,
}

/// Checks whether a reader of a tree can see its briefs and answers. Everyone can until a task of the tree calls an outward function.
/// After that, only its requester, admins, and people who have approved or denied its actions or are named as their approvers can.
pub async fn are_visible(c: &mut Conn, root: TaskId, reader: BriefReader) -> Result<bool, DbError> {
    if reader.is_admin {
        return Ok(true);
    }
    c.q(
        "with tree (id, requested_by) as (select id, requested_by from tasks where id = $1 or (root_task_id = $1 and parent_task_id is not null)) \
         select exists (select 1 from tree where requested_by = $2) or exists (select 1 from actions a join tree t on t.id = a.task_id \
         join action_needs n on n.action_id = a.id where $2 in (n.user_id, n.decided_by)) or not exists (select 1 from actions a join tree t on t.id = a.task_id \
         where a.started_at is not null and (a.tool_id is not null or a.function in ('web_fetch', 'run_code')))",
    )
    .bind(root)
    .bind(reader.user)
    .value()
    .await
}
