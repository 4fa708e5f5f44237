//! Reads tasks.

use uuid::Uuid;

use crate::tasks::Task;
use crate::{
    db::{Conn, DbError, is_in_visible_channel},
    ids::{AgentId, ChannelId, ForkId, MessageId, TaskId, ThreadId, UserId, WorkspaceId},
    tasks::{TaskKind, TaskStatus},
    time::Timestamp,
};

pub async fn find_task(c: &mut Conn, id: TaskId) -> Result<Option<Task>, DbError> {
    c.q(task_sql!("select", "from tasks where id = $1"))
        .bind(id)
        .opt()
        .await
}

/// Tasks triggered by a message, in the order of its mentions.
pub async fn tasks_of_message(c: &mut Conn, message: MessageId) -> Result<Vec<Task>, DbError> {
    c.q(task_sql!(
        "select",
        "from tasks where trigger_message_id = $1 and retry_of is null and kind <> 'delegate' and run_id is null order by id limit 16"
    ))
    .bind(message)
    .all()
    .await
}

/// Filter of a list of tasks.
#[derive(Debug, Default)]
pub struct Filter {
    pub status: Option<TaskStatus>,
    pub thread: Option<ThreadId>,
    pub agent: Option<AgentId>,
}

/// The person for whom tasks are listed.
#[derive(Debug, Clone, Copy)]
pub struct Reader {
    pub user: UserId,
    /// True for admins, who see all tasks without a conversation.
    pub is_admin: bool,
}

/// A range of tasks in ascending or descending order.
#[derive(Debug, Clone, Copy)]
pub enum Range {
    /// The first tasks after `after`, ascending.
    Oldest { after: Option<TaskId> },
    /// The last tasks before `before`, descending.
    Newest { before: Option<TaskId> },
}

macro_rules! listed_sql {
    ($index:literal, $order:literal) => {
        task_sql!(
            "select",
            concat!(
                "from tasks where workspace_id = $1 and id > $2 and id < $3 \
                 and ($4 is null or status = $4) and (requested_by = $7 or ",
                is_not_personal!(),
                ") and ",
                $index,
                " and (",
                is_in_visible_channel!("tasks.channel_id", "$7"),
                " or (channel_id is null and (requested_by = $7 or $9))) order by ",
                $order,
                " limit $8"
            )
        )
    };
}

/// Conditions that match the indexes by thread, by agent, and by workspace.
macro_rules! listed_by {
    ($filter:expr, $order:literal) => {
        match ($filter.thread, $filter.agent) {
            (Some(_), _) => listed_sql!("thread_id = $5 and (agent_id = $6 or $6 is null)", $order),
            (None, Some(_)) => listed_sql!("$5 is null and agent_id = $6", $order),
            (None, None) => listed_sql!("$5 is null and $6 is null", $order),
        }
    };
}

/// Tasks in conversations that the reader can see, except for personal tasks of other people. Also the reader's own tasks without a
/// conversation or, for admins, all tasks without one.
pub async fn list(
    c: &mut Conn,
    workspace: WorkspaceId,
    reader: Reader,
    filter: &Filter,
    range: Range,
    limit: i64,
) -> Result<Vec<Task>, DbError> {
    let (sql, after, before) = match range {
        Range::Oldest { after } => (listed_by!(filter, "id"), after, None),
        Range::Newest { before } => (listed_by!(filter, "id desc"), None, before),
    };
    c.q(sql)
        .bind(workspace)
        .bind(after.unwrap_or(TaskId(Uuid::nil())))
        .bind(before.unwrap_or(TaskId(Uuid::max())))
        .bind(filter.status)
        .bind(filter.thread)
        .bind(filter.agent)
        .bind(reader.user)
        .bind(limit)
        .bind(reader.is_admin)
        .all()
        .await
}

/// Queued and running tasks that `user` can see, oldest first, at most 500. Their costs are not included, because they are known
/// only after the tasks have ended.
pub async fn active(
    c: &mut Conn,
    workspace: WorkspaceId,
    user: UserId,
) -> Result<Vec<Task>, DbError> {
    let tasks: Vec<Task> = c
        .q(task_sql!(
            "select",
            concat!(
                "from tasks where workspace_id = $1 and status in ('queued', 'running') and (requested_by = $2 or ",
                is_not_personal!(),
                ") and ",
                is_in_visible_channel!("tasks.channel_id", "$2"),
                " order by id limit 500"
            )
        ))
        .bind(workspace)
        .bind(user)
        .all()
        .await?;
    Ok(tasks.into_iter().map(Task::without_cost).collect())
}

/// Active tasks in threads of a channel whose `last_seq` is between `low` and `high`. Personal tasks are excluded, and costs are
/// omitted.
pub async fn active_in_threads(
    c: &mut Conn,
    channel: ChannelId,
    low: i64,
    high: i64,
) -> Result<Vec<Task>, DbError> {
    let tasks: Vec<Task> = c
        .q(task_sql!(
            "select",
            concat!(
                "from tasks where status in ('queued', 'running') and channel_id = $1 and ",
                is_not_personal!(),
                " and thread_id in (select id from threads where channel_id = $1 and last_seq between $2 and $3) order by id limit 500"
            )
        ))
        .bind(channel)
        .bind(low)
        .bind(high)
        .all()
        .await?;
    Ok(tasks.into_iter().map(Task::without_cost).collect())
}

/// Active tasks triggered by a message.
pub async fn active_of_trigger(c: &mut Conn, trigger: MessageId) -> Result<Vec<Task>, DbError> {
    c.q(task_sql!("select", "from tasks where trigger_message_id = $1 and status in ('queued', 'running') order by id limit 32"))
        .bind(trigger)
        .all()
        .await
}

/// The active task that is writing this reply; `conversation` is the thread or fork of the message.
pub async fn active_of_reply(
    c: &mut Conn,
    conversation: Uuid,
    reply: MessageId,
) -> Result<Option<Task>, DbError> {
    c.q(task_sql!("select", "from tasks where conversation_id = $1 and reply_message_id = $2 and status in ('queued', 'running') limit 1"))
        .bind(conversation)
        .bind(reply)
        .opt()
        .await
}

/// Messages of a task, and the task that it retries.
#[derive(Debug, sqlx::FromRow)]
pub struct LeftBehind {
    pub reply_message_id: Option<MessageId>,
    pub notice_message_id: Option<MessageId>,
    pub retry_of: Option<TaskId>,
}

pub async fn left_behind(c: &mut Conn, task: TaskId) -> Result<LeftBehind, DbError> {
    c.q("select reply_message_id, notice_message_id, retry_of from tasks where id = $1")
        .bind(task)
        .one()
        .await
}

/// Active tasks of a fork.
pub async fn active_in_fork(c: &mut Conn, fork: ForkId) -> Result<Vec<Task>, DbError> {
    c.q(task_sql!(
        "select",
        "from tasks where conversation_id = $1 and status in ('queued', 'running') order by id limit 500"
    ))
    .bind(fork)
    .all()
    .await
}

/// The active task that compacts a conversation.
pub async fn active_compact(c: &mut Conn, conversation: Uuid) -> Result<Option<Task>, DbError> {
    c.q(task_sql!(
        "select",
        "from tasks where conversation_id = $1 and kind = 'compact' and status in ('queued', 'running') limit 1"
    ))
    .bind(conversation)
    .opt()
    .await
}

/// The active task that writes a catch-up of a thread for a person.
pub async fn active_catch_up(
    c: &mut Conn,
    thread: ThreadId,
    requester: UserId,
) -> Result<Option<Task>, DbError> {
    c.q(task_sql!(
        "select",
        "from tasks where conversation_id = $1 and requested_by = $2 and kind = 'catch_up' \
         and status in ('queued', 'running') order by id limit 1"
    ))
    .bind(thread)
    .bind(requester)
    .opt()
    .await
}

/// The active replay of an agent for a person.
pub async fn active_replay(
    c: &mut Conn,
    workspace: WorkspaceId,
    agent: AgentId,
    requester: UserId,
) -> Result<Option<Task>, DbError> {
    c.q(task_sql!(
        "select",
        "from tasks where id in (select p.task_id from replays p where p.workspace_id = $1 and p.user_id = $2 and p.agent_id = $3) \
         and status in ('queued', 'running') order by id limit 1"
    ))
    .bind(workspace)
    .bind(requester)
    .bind(agent)
    .opt()
    .await
}

/// Condition for completed replies of the agent `$1`, outside of runs, that the person `$2` can read. Neither the reply nor its
/// trigger message has been deleted.
macro_rules! is_readable_reply {
    () => {
        concat!(
            "agent_id = $1 and kind = 'reply' and run_id is null and status = 'completed' and ",
            is_in_visible_channel!("tasks.channel_id", "$2"),
            " and exists (select 1 from messages m where m.id = tasks.reply_message_id and m.deleted_at is null) \
             and exists (select 1 from messages m where m.id = tasks.trigger_message_id and m.deleted_at is null)"
        )
    };
}

/// The newest completed replies of an agent that a person can read, newest first, except for replies that were deleted or whose
/// trigger message was deleted. The statement may have to scan all tasks of the agent.
pub async fn newest_replies(
    c: &mut Conn,
    agent: AgentId,
    reader: UserId,
    limit: i64,
) -> Result<Vec<Task>, DbError> {
    c.q(task_sql!(
        "select",
        concat!(
            "from tasks where ",
            is_readable_reply!(),
            " order by id desc limit $3"
        )
    ))
    .bind(agent)
    .bind(reader)
    .bind(limit)
    .all()
    .await
}

/// Returns a task if `newest_replies` would return it without a limit.
pub async fn find_reply(
    c: &mut Conn,
    id: TaskId,
    agent: AgentId,
    reader: UserId,
) -> Result<Option<Task>, DbError> {
    c.q(task_sql!(
        "select",
        concat!("from tasks where id = $3 and ", is_readable_reply!())
    ))
    .bind(agent)
    .bind(reader)
    .bind(id)
    .opt()
    .await
}

/// The active reflections of an agent on a person in a conversation.
pub async fn active_reflections(
    c: &mut Conn,
    conversation: Uuid,
    agent: AgentId,
    requester: UserId,
) -> Result<Vec<Task>, DbError> {
    c.q(task_sql!(
        "select",
        "from tasks where conversation_id = $1 and agent_id = $2 and requested_by = $3 and kind = 'reflect' \
         and status in ('queued', 'running') order by id limit 100"
    ))
    .bind(conversation)
    .bind(agent)
    .bind(requester)
    .all()
    .await
}

/// The latest completed reply in a conversation of a thread.
pub async fn latest_reply(
    c: &mut Conn,
    thread: ThreadId,
    conversation: Uuid,
) -> Result<Option<Task>, DbError> {
    c.q(task_sql!(
        "select",
        "from tasks where thread_id = $1 and conversation_id = $2 and kind = 'reply' and status = 'completed' order by id desc limit 1"
    ))
    .bind(thread)
    .bind(conversation)
    .opt()
    .await
}

/// Number of queued and running tasks of one kind.
#[derive(Debug, sqlx::FromRow)]
pub struct Active {
    pub kind: TaskKind,
    pub queued: i64,
    pub running: i64,
    pub oldest_queued_at: Option<Timestamp>,
}

/// Counts queued and running tasks of all workspaces by kind. Reads only active tasks, using their
/// index.
pub async fn count_active(c: &mut Conn) -> Result<Vec<Active>, DbError> {
    c.q(
        "select kind, count(case when status = 'queued' and not parked then 1 end) as queued, \
         count(case when status = 'running' then 1 end) as running, \
         min(case when status = 'queued' and not parked then queued_at end) as oldest_queued_at \
         from tasks where status in ('queued', 'running') group by kind order by kind",
    )
    .all()
    .await
}

#[cfg(test)]
mod tests {
    use crate::tasks::TaskKind;

    #[test]
    fn the_sql_condition_names_the_personal_kinds() {
        let personal = TaskKind::ALL.iter().filter(|kind| kind.is_personal());
        let quoted: Vec<String> = personal.map(|kind| format!("'{kind}'")).collect();
        let condition = format!("kind not in ({})", quoted.join(", "));
        assert_eq!(is_not_personal!(), condition);
    }
}
