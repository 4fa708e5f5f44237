//! Trees, which consist of a root task and all tasks that were started for it, and chains, whose tasks run one after the other.

use crate::{
    db::{Conn, DbError, dialect, now},
    ids::{AgentId, ApiKeyId, MessageId, TaskId},
    tasks::{TREE_CALLS_MAX, TREE_RUN_MAX, Task, budgets},
    time::Timestamp,
};

/// Condition for tasks of the tree with the root `$1`.
macro_rules! is_in_tree {
    () => {
        "(id = $1 or (root_task_id = $1 and parent_task_id is not null))"
    };
}

/// Option of a retried root: the score at which the loop guard stops its tree.
pub const GUARD_OPTION: &str = "guard";

/// Maximum number of listed tasks of a tree.
const LISTED_MAX: i64 = 200;

/// Locks the tree of a new task until the commit. Returns false if the tree was stopped.
pub(super) async fn lock_running(c: &mut Conn, parent: TaskId) -> Result<bool, DbError> {
    let running: Option<(TaskId,)> = c
        .q(
            "insert into task_trees (root_task_id) select root_task_id from tasks where id = $1 \
             on conflict (root_task_id) do update set root_task_id = excluded.root_task_id \
             where task_trees.stopped_at is null returning root_task_id",
        )
        .bind(parent)
        .opt()
        .await?;
    Ok(running.is_some())
}

/// Stops a tree, so that no more tasks start in it. The caller must cancel its active tasks in this transaction.
pub async fn stop_tree(c: &mut Conn, root: TaskId) -> Result<(), DbError> {
    c.q(
        "insert into task_trees (root_task_id, stopped_at) values ($1, $2) on conflict (root_task_id) do update \
         set stopped_at = coalesce(task_trees.stopped_at, excluded.stopped_at)",
    )
    .bind(root)
    .bind(now())
    .run()
    .await?;
    Ok(())
}

/// Tasks of a tree, oldest first.
pub async fn list_tree(c: &mut Conn, root: TaskId) -> Result<Vec<Task>, DbError> {
    c.q(task_sql!(
        "select",
        concat!("from tasks where ", is_in_tree!(), " order by id limit $2")
    ))
    .bind(root)
    .bind(LISTED_MAX)
    .all()
    .await
}

/// Queued and running tasks of a tree, newest first, so that each task can be stopped before the one whose cancellation would also
/// cancel it.
pub async fn active_in_tree(c: &mut Conn, root: TaskId) -> Result<Vec<Task>, DbError> {
    c.q(task_sql!(
        "select",
        concat!(
            "from tasks where ",
            is_in_tree!(),
            " and status in ('queued', 'running') order by id desc limit $2"
        )
    ))
    .bind(root)
    .bind(LISTED_MAX)
    .all()
    .await
}

/// Children that a task is waiting for or has waited for, oldest first.
pub async fn list_children(c: &mut Conn, parent: TaskId) -> Result<Vec<Task>, DbError> {
    c.q(task_sql!(
        "select",
        "from tasks where parent_task_id = $1 and child_key is not null and after_task_id is null order by id limit $2"
    ))
    .bind(parent)
    .bind(LISTED_MAX)
    .all()
    .await
}

/// Loop guard score of a tree; 0 for a single task.
pub async fn score_of(c: &mut Conn, root: TaskId) -> Result<i64, DbError> {
    c.q("select coalesce((select score from task_trees where root_task_id = $1), 0)")
        .bind(root)
        .value()
        .await
}

/// Stores the loop guard score of a tree.
pub async fn set_score(c: &mut Conn, root: TaskId, score: i64) -> Result<(), DbError> {
    c.q("insert into task_trees (root_task_id, score) values ($1, $2) on conflict (root_task_id) do update set score = excluded.score")
        .bind(root)
        .bind(score)
        .run()
        .await?;
    Ok(())
}

/// Deletes the texts that the loop guard compares within a tree, once no task of the tree is active.
pub(super) async fn forget_compared(c: &mut Conn, root: TaskId) -> Result<(), DbError> {
    macro_rules! if_ended {
        ($delete:literal) => {
            concat!(
                $delete,
                " where root_task_id = $1 and not exists (select 1 from tasks where ",
                is_in_tree!(),
                " and status in ('queued', 'running'))"
            )
        };
    }
    for sql in [
        if_ended!("delete from tree_delegations"),
        if_ended!("delete from tree_turns"),
    ] {
        c.q(sql).bind(root).run().await?;
    }
    Ok(())
}

/// Number of model calls, and run time, of a tree, not counting its personal tasks.
#[derive(Debug, Clone, Copy)]
pub struct TreeUse {
    pub calls: i64,
    pub run_ms: i64,
}

/// Returns the number of recorded model calls of a tree, and its run time so far. A lost task counts as running until its lease
/// expired.
pub async fn use_of(c: &mut Conn, root: TaskId) -> Result<TreeUse, DbError> {
    let (calls, ended_ms): (i64, i64) = c
        .q(concat!(
            "with tree as (select id, run_ms from tasks where ",
            is_in_tree!(),
            " and ",
            is_not_personal!(),
            ") select (select count(*) from model_calls where task_id in (select id from tree)), \
             (select cast(coalesce(sum(run_ms), 0) as bigint) from tree)"
        ))
        .bind(root)
        .one()
        .await?;
    let running: Vec<(i64, Timestamp)> = c
        .q(concat!(
            "select run_since, lease_until from tasks where ",
            is_in_tree!(),
            " and ",
            is_not_personal!(),
            " and run_since is not null and lease_until is not null"
        ))
        .bind(root)
        .all()
        .await?;
    let at = dialect::clock(c).await?;
    let running_ms = running
        .into_iter()
        .map(|(since, lease_until)| at.min(lease_until).unix_ms() - since);
    Ok(TreeUse {
        calls,
        run_ms: ended_ms + running_ms.sum::<i64>(),
    })
}

impl TreeUse {
    /// Checks whether the tree has reached its limit of model calls or run time.
    pub fn is_used_up(self) -> bool {
        let run_ms_max = i64::try_from(TREE_RUN_MAX.as_millis()).unwrap_or(i64::MAX);
        self.calls >= TREE_CALLS_MAX || self.run_ms >= run_ms_max
    }
}

/// Checks whether a tree has reached a limit. A task that has not started other tasks has no limit.
pub async fn is_used_up(c: &mut Conn, root: TaskId) -> Result<bool, DbError> {
    let is_tree: bool = c
        .q("select exists (select 1 from task_trees where root_task_id = $1)")
        .bind(root)
        .value()
        .await?;
    Ok(is_tree && use_of(c, root).await?.is_used_up())
}

/// Number of tasks of a tree, not counting those that only help a reply.
pub async fn count_work(c: &mut Conn, root: TaskId) -> Result<i64, DbError> {
    c.q(concat!(
        "select count(*) from tasks where ",
        is_in_tree!(),
        " and kind not in ('compact', 'reflect', 'utility')"
    ))
    .bind(root)
    .value()
    .await
}

/// Checks whether a task has started tasks that it is waiting for or has waited for.
pub async fn has_children(c: &mut Conn, task: TaskId) -> Result<bool, DbError> {
    c.q("select exists (select 1 from tasks where parent_task_id = $1 and child_key is not null and after_task_id is null)")
        .bind(task)
        .value()
        .await
}

/// Number of tasks that a task started in the given round.
pub async fn count_children(c: &mut Conn, parent: TaskId, round: i64) -> Result<i64, DbError> {
    c.q("select count(*) from tasks where parent_task_id = $1 and child_key like $2")
        .bind(parent)
        .bind(format!("{round}.%"))
        .value()
        .await
}

/// Finds the child of `parent` that has this key.
pub async fn find_child(
    c: &mut Conn,
    parent: TaskId,
    child_key: &str,
) -> Result<Option<Task>, DbError> {
    c.q(task_sql!(
        "select",
        "from tasks where parent_task_id = $1 and child_key = $2"
    ))
    .bind(parent)
    .bind(child_key.to_owned())
    .opt()
    .await
}

/// Begins a statement with the table `path`, which contains the task `$1`, the tasks that delegated to it directly and
/// indirectly, and the collaboration above them, but no run.
macro_rules! with_path {
    ($tail:expr) => {
        concat!(
            "with recursive path (id, parent_task_id, agent_id, kind, input) as \
             (select id, parent_task_id, agent_id, kind, input from tasks where id = $1 union all \
             select t.id, t.parent_task_id, t.agent_id, t.kind, t.input from tasks t \
             join path p on t.id = p.parent_task_id and (p.kind = 'delegate' or t.kind = 'collaborate') and t.kind <> 'workflow') ",
            $tail
        )
    };
}

/// Agents of a task and of the tasks that delegated to it, directly or indirectly.
pub async fn agents_on_path(c: &mut Conn, task: TaskId) -> Result<Vec<AgentId>, DbError> {
    let agents: Vec<(AgentId,)> = c
        .q(with_path!(
            "select agent_id from path where agent_id is not null and kind <> 'collaborate' order by id limit 100"
        ))
        .bind(task)
        .all()
        .await?;
    Ok(agents.into_iter().map(|(agent,)| agent).collect())
}

/// The topmost active task that waits for this one, or the task itself if no other task waits for it.
pub async fn waiting_root(c: &mut Conn, task: TaskId) -> Result<Option<Task>, DbError> {
    let top: Option<(TaskId,)> = c
        .q(with_path!(
            "select t.id from path p join tasks t on t.id = p.id where t.status in ('queued', 'running') order by t.id limit 1"
        ))
        .bind(task)
        .opt()
        .await?;
    match top {
        Some((top,)) => super::find_task(c, top).await,
        None => Ok(None),
    }
}

/// Result of checking a call against the `usd_max` of the delegations that led to its task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DelegationRoom {
    Enough,
    /// The call fits once running calls have released their reservations.
    Later,
    UsedUp,
}

#[derive(sqlx::FromRow)]
struct UsdLimit {
    parent_task_id: TaskId,
    usd_max: f64,
}

/// Checks whether a call that reserves this amount fits within the limits of the delegations that led to a task. The limit of each
/// delegation covers all tasks below the delegating task.
pub async fn delegation_room(
    c: &mut Conn,
    task: TaskId,
    reserved_nano_usd: i64,
) -> Result<DelegationRoom, DbError> {
    let limits: Vec<UsdLimit> = c
        .q(with_path!(
            "select parent_task_id, cast(input -> 'options' ->> 'usd_max' as double precision) as usd_max from path \
             where kind = 'delegate' and input -> 'options' ->> 'usd_max' is not null order by id limit 100"
        ))
        .bind(task)
        .all()
        .await?;
    let mut room = DelegationRoom::Enough;
    for limit in limits {
        let (spent, running): (f64, i64) = c
            .q("with recursive below (id) as (select id from tasks where parent_task_id = $1 union all \
                select t.id from tasks t join below b on t.parent_task_id = b.id) \
                select cast(coalesce(sum(case when outcome = 'running' then 0 else cost_usd end), 0) as double precision), \
                cast(coalesce(sum(case when outcome = 'running' then reserved_nano_usd else 0 end), 0) as bigint) \
                from model_calls where task_id in (select id from below)")
            .bind(limit.parent_task_id)
            .one()
            .await?;
        let left = budgets::nano_usd(limit.usd_max) - budgets::nano_usd(spent) - reserved_nano_usd;
        if left < 0 {
            return Ok(DelegationRoom::UsedUp);
        }
        if left < running {
            room = DelegationRoom::Later;
        }
    }
    Ok(room)
}

/// The link after a task in its chain.
pub async fn next_link(c: &mut Conn, task: TaskId) -> Result<Option<Task>, DbError> {
    c.q(task_sql!(
        "select",
        "from tasks where after_task_id = $1 limit 1"
    ))
    .bind(task)
    .opt()
    .await
}

/// All links of the chains that a message started, including retries.
pub async fn links_of_message(c: &mut Conn, message: MessageId) -> Result<Vec<Task>, DbError> {
    let tasks: Vec<Task> = c
        .q(task_sql!(
            "select",
            "from tasks where trigger_message_id = $1 order by id"
        ))
        .bind(message)
        .all()
        .await?;
    let links = tasks
        .into_iter()
        .filter(|task| task.input.0.chain.is_some());
    Ok(links.collect())
}

/// The links after a task in its chain, in order.
pub async fn later_links(c: &mut Conn, task: TaskId) -> Result<Vec<Task>, DbError> {
    let mut later = Vec::new();
    let mut next = next_link(c, task).await?;
    while let Some(link) = next {
        next = next_link(c, link.id).await?;
        later.push(link);
    }
    Ok(later)
}

/// API key with which a task or, if there is none, the root of its tree was started.
pub async fn key_of(c: &mut Conn, task: TaskId) -> Result<Option<ApiKeyId>, DbError> {
    c.q("select coalesce(t.api_key_id, r.api_key_id) from tasks t join tasks r on r.id = t.root_task_id where t.id = $1")
        .bind(task)
        .value()
        .await
}

/// Sequence number before which a task reads messages; for a link of a chain, that of the event that woke it. `None` if there is no
/// such limit, or if the link has not been woken.
pub async fn before_seq(c: &mut Conn, task: TaskId) -> Result<Option<i64>, DbError> {
    c.q("select before_seq from tasks where id = $1")
        .bind(task)
        .value()
        .await
}
