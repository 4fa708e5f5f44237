//! Trees: a root task and everything that was started for it. Chains: tasks that run one after the other.

use crate::{
    db::{Conn, DbError, now},
    ids::{MessageId, TaskId},
    tasks::Task,
    time::Timestamp,
};

/// Condition on a task of the tree with the root `$1`.
macro_rules! is_in_tree {
    () => {
        "(id = $1 or (root_task_id = $1 and parent_task_id is not null))"
    };
}

/// Option of a retried root: the score at which its tree stops.
pub const GUARD_OPTION: &str = "guard";

/// Maximum number of tasks of a tree that are listed.
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

/// Stops a tree: nothing starts in it any more. The caller cancels its active tasks in this transaction.
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

/// Queued and running tasks of a tree, newest first, so that each can be stopped before the one that it would be canceled with.
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

/// Children that a task waits for, or has waited for, oldest first.
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

/// Score of a tree; 0 for a task alone.
pub async fn score_of(c: &mut Conn, root: TaskId) -> Result<i64, DbError> {
    c.q("select coalesce((select score from task_trees where root_task_id = $1), 0)")
        .bind(root)
        .value()
        .await
}

/// Stores the score of a tree that has a row.
pub async fn set_score(c: &mut Conn, root: TaskId, score: i64) -> Result<(), DbError> {
    c.q("update task_trees set score = $2 where root_task_id = $1")
        .bind(root)
        .bind(score)
        .run()
        .await?;
    Ok(())
}

/// Model calls and run time of a tree, without its personal tasks.
#[derive(Debug, Clone, Copy)]
pub struct TreeUse {
    pub calls: i64,
    pub run_ms: i64,
}

/// Adds up model calls, as long as their records are kept, and the run time so far; that of a lost task until its lease expired.
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
    let at = now();
    let running_ms = running
        .into_iter()
        .map(|(since, lease_until)| at.min(lease_until).unix_ms() - since);
    Ok(TreeUse {
        calls,
        run_ms: ended_ms + running_ms.sum::<i64>(),
    })
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

/// All links of the chains that a message started, with those of retries.
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

/// Number of the event that woke a link: it reads the messages before it. `None` for other tasks, and before the link is woken.
pub async fn before_seq(c: &mut Conn, task: TaskId) -> Result<Option<i64>, DbError> {
    c.q("select before_seq from tasks where id = $1")
        .bind(task)
        .value()
        .await
}
