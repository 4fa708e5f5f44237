//! SQL statements of the queue. Every status change appends `task.status_changed` in the same transaction.
//!
//! `find` reads tasks. `claim` assigns tasks to workers and recovers them from lost workers. `run` contains the writes by the worker
//! of a task, and `rounds` the writes for its tool calls. `parked` handles tasks that wait for people or for other tasks, `outside` those that
//! machines outside of the server work on, and `tree` handles all tasks of a root.

macro_rules! task_sql {
    ($head:expr, $tail:expr) => {
        concat!(
            $head,
            " id, workspace_id, kind, status, agent_id, agent_version, channel_id, thread_id, \
             nullif(conversation_id, thread_id) as fork_id, trigger_message_id, \
             reply_message_id, requested_by, retry_of, parent_task_id, root_task_id, after_task_id, run_id, step_id, depth, attempt, round, retry_at, wait_reason, input, output, token_usage, error, \
             queued_at, started_at, completed_at ",
            $tail
        )
    };
}

/// Condition for tasks that everyone in their conversation can see; the opposite of `TaskKind::is_personal`.
macro_rules! is_not_personal {
    () => {
        "kind not in ('reflect', 'utility', 'title', 'catch_up', 'replay')"
    };
}
pub(crate) use is_not_personal;

/// Assignments of an `update` that add the elapsed running time to a task's `run_ms`. `$at` is the parameter with the current time,
/// in Unix milliseconds.
macro_rules! ends_run {
    ($at:literal) => {
        concat!(
            "run_ms = run_ms + case when run_since is null then 0 else ",
            $at,
            " - run_since end, run_since = null"
        )
    };
}

/// Condition for active tasks for which `$parent` waits: its children, except for later links of a chain.
macro_rules! is_awaited_by {
    ($parent:expr) => {
        concat!(
            "parent_task_id = ",
            $parent,
            " and child_key is not null and after_task_id is null and status in ('queued', 'running')"
        )
    };
}

mod announce;
mod claim;
mod find;
mod insert;
mod lease;
mod of_run;
mod outside;
mod parked;
mod rounds;
mod run;
mod tree;
mod waking;

pub use announce::{add_usage, announce, announce_as, audience_in, audience_of, set_usage};
pub use claim::{
    Claimer, Due, Lost, Tenancy, claim, due, expire_leases, lost, next_due_in, owned, recover,
    take, tenancy,
};
pub use find::{
    Active, Filter, Range, Reader, active, active_catch_up, active_compact, active_in_fork,
    active_in_threads, active_of_reply, active_of_trigger, active_reflections, active_replay,
    count_active, find_reply, find_task, latest_reply, left_behind, list, newest_replies,
    tasks_of_message,
};
pub use insert::{
    NewLink, NewScheduled, NewTask, free_slots, insert, insert_scheduled, set_queued_max,
};
pub use lease::{
    Commanded, LOST_MAX, Lease, LeaseLost, Queue, Steering, Stopped, Wake, lease_length,
};
pub use of_run::{NewRunTask, insert_of_run, reopen};
pub use outside::{begin_outside, find_outside_lease, lose_outside, park_outside};
pub use parked::{count_parked, list_left, park};
pub use rounds::{NextRound, Round, RoundAnswer, begin_round, rounds_of};
pub use run::{
    Call, End, blank_input, blank_prompt, cancel, cancel_all, cancel_later, complete_queued,
    counts_of, fail, finish, lock_lease, next_attempt, postpone, record_call, renew, requeue,
    requeue_on_shutdown, set_input, set_notice, set_reply, set_thread,
};
pub use tree::{
    DelegationRoom, GUARD_OPTION, TreeUse, active_in_tree, agents_on_path, before_seq,
    count_children, count_work, delegation_room, find_child, has_children, is_used_up, key_of,
    later_links, links_of_message, list_children, list_tree, next_link, score_of, set_score,
    stop_tree, use_of, waiting_root,
};
pub use waking::{obstacle, wake, wake_link};
