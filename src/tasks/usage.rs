//! Usage by month, person, agent, and model: tasks are counted when they end, and tokens when model calls end.

use uuid::Uuid;

use super::{Task, TokenUsage};
use crate::{
    db::{Conn, DbError, Json, now},
    ids::{AgentId, ForkId, TaskId, ThreadId, UserId, WorkspaceId},
    tasks::{TaskKind, TaskStatus, queue::is_not_personal},
    text_enum::text_enum,
    time::Timestamp,
};

/// Maximum number of tasks of a conversation that are added up.
const TASKS_MAX: i64 = 10_000;
/// Maximum number of rows in a response. The total includes all rows.
const ROWS_MAX: i64 = 1000;

/// A task that has ended.
pub struct Ended {
    pub workspace: WorkspaceId,
    pub kind: TaskKind,
    pub requested_by: UserId,
    pub agent: Option<AgentId>,
    pub status: TaskStatus,
    /// Model of the task's calls; empty if no model was called.
    pub model: String,
}

impl Ended {
    pub fn new(task: &Task, model: String) -> Self {
        Self {
            workspace: task.workspace_id,
            kind: task.kind,
            requested_by: task.requested_by,
            agent: task.agent_id,
            status: task.status,
            model,
        }
    }

    /// Key that identifies the usage row within a month.
    fn row(&self) -> (WorkspaceId, UserId, Option<AgentId>, &str) {
        (self.workspace, self.requested_by, self.agent, &self.model)
    }
}

/// Usage row to which tasks are added, with the number of tasks and of failed tasks.
type TaskCount<'a> = (&'a Ended, i64, i64);

/// Counts tasks that have just ended. Personal tasks are not counted, because their number would reveal to admins what
/// only the person can see.
pub async fn count(c: &mut Conn, ended: &[Ended]) -> Result<(), DbError> {
    for ended in ended {
        c.notify(Box::new(Counted::Task(ended.kind, ended.status)));
    }
    let mut counts: Vec<TaskCount<'_>> = Vec::new();
    for ended in ended.iter().filter(|ended| !ended.kind.is_personal()) {
        let failed = i64::from(ended.status == TaskStatus::Failed);
        match counts.iter_mut().find(|(of, ..)| of.row() == ended.row()) {
            Some((_, tasks, all_failed)) => {
                *tasks += 1;
                *all_failed += failed;
            }
            None => counts.push((ended, 1, failed)),
        }
    }
    for (ended, tasks, failed) in counts {
        c.q(
            "insert into usage (workspace_id, month, user_id, agent_id, model, tasks, failed, input_tokens, output_tokens, cost_usd) \
             values ($1, $2, $3, $4, $5, $6, $7, 0, 0, null) \
             on conflict (workspace_id, month, user_id, agent_id, model) do update set \
             tasks = usage.tasks + excluded.tasks, failed = usage.failed + excluded.failed",
        )
        .bind(ended.workspace)
        .bind(Month::present().text())
        .bind(ended.requested_by)
        .bind(ended.agent.map_or(ended.workspace.0, |agent| agent.0))
        .bind(ended.model.clone())
        .bind(tasks)
        .bind(failed)
        .run()
        .await?;
    }
    Ok(())
}

/// Usage of a model call that has just ended.
pub struct Spent<'a> {
    pub workspace: WorkspaceId,
    pub user: UserId,
    pub agent: Option<AgentId>,
    /// Month in which the call began.
    pub month: Month,
    pub usage: &'a TokenUsage,
}

/// Adds the tokens of a model call.
pub async fn raise(c: &mut Conn, spent: &Spent<'_>) -> Result<(), DbError> {
    let usage = spent.usage;
    if usage.input_tokens == 0 && usage.output_tokens == 0 {
        return Ok(());
    }
    c.q(
        "insert into usage (workspace_id, month, user_id, agent_id, model, tasks, failed, input_tokens, output_tokens, cost_usd) \
         values ($1, $2, $3, $4, $5, 0, 0, $6, $7, $8) \
         on conflict (workspace_id, month, user_id, agent_id, model) do update set \
         input_tokens = usage.input_tokens + excluded.input_tokens, output_tokens = usage.output_tokens + excluded.output_tokens, \
         cost_usd = coalesce(usage.cost_usd + excluded.cost_usd, usage.cost_usd, excluded.cost_usd)",
    )
    .bind(spent.workspace)
    .bind(spent.month.text())
    .bind(spent.user)
    .bind(spent.agent.map_or(spent.workspace.0, |agent| agent.0))
    .bind(usage.model.clone())
    .bind(usage.input_tokens)
    .bind(usage.output_tokens)
    .bind(usage.cost_usd)
    .run()
    .await?;
    c.notify(Box::new(Counted::Tokens {
        input: usage.input_tokens.unsigned_abs(),
        output: usage.output_tokens.unsigned_abs(),
    }));
    Ok(())
}

/// Commit signal: a task or a model call has ended. Because it is sent only after the commit, each one is measured exactly once.
pub enum Counted {
    Task(TaskKind, TaskStatus),
    Tokens { input: u64, output: u64 },
}

impl Counted {
    /// Adds the ended task or call to the metrics of this process.
    pub fn measure(&self) {
        match self {
            Self::Task(kind, status) => {
                let labels = [("kind", kind.as_str()), ("status", status.as_str())];
                metrics::counter!("openvibe_tasks_ended_total", &labels).increment(1);
            }
            Self::Tokens { input, output } => {
                metrics::counter!("openvibe_model_tokens_total", "kind" => "input")
                    .increment(*input);
                metrics::counter!("openvibe_model_tokens_total", "kind" => "output")
                    .increment(*output);
            }
        }
    }
}

/// A calendar month in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Month {
    year: u16,
    month: u8,
}

impl Month {
    pub fn present() -> Self {
        Self::of(now())
    }

    /// The month that contains this time.
    pub fn of(at: Timestamp) -> Self {
        Self::parse(&at.to_text()[..7]).unwrap_or(Self {
            year: 1970,
            month: 1,
        })
    }

    /// Parses `YYYY-MM`.
    pub fn parse(text: &str) -> Option<Self> {
        let (year, month) = text.split_once('-')?;
        let digits = |text: &str, n: usize| {
            text.len() == n && text.bytes().all(|byte| byte.is_ascii_digit())
        };
        if !digits(year, 4) || !digits(month, 2) {
            return None;
        }
        let (year, month) = (year.parse().ok()?, month.parse().ok()?);
        (1..=12).contains(&month).then_some(Self { year, month })
    }

    pub fn text(self) -> String {
        format!("{:04}-{:02}", self.year, self.month)
    }
}

impl<'de> serde::Deserialize<'de> for Month {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(d)?;
        Self::parse(&text).ok_or_else(|| {
            serde::de::Error::custom(format!("`{text}` is not a month: use YYYY-MM"))
        })
    }
}

impl utoipa::PartialSchema for Month {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        utoipa::openapi::schema::ObjectBuilder::new()
            .schema_type(utoipa::openapi::schema::Type::String)
            .pattern(Some("^[0-9]{4}-(0[1-9]|1[0-2])$"))
            .into()
    }
}

impl utoipa::ToSchema for Month {}

text_enum! {
    /// Grouping of usage.
    pub enum GroupBy {
        Person = "person",
        Agent = "agent",
        Month = "month",
        Model = "model",
    }
}

/// Filter of usage.
#[derive(Debug, Clone, Copy)]
pub struct Filter {
    pub from: Month,
    pub to: Month,
    pub user: Option<UserId>,
}

/// Totals of one group.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, sqlx::FromRow, serde::Serialize, utoipa::ToSchema,
)]
pub struct Sums {
    /// Number of tasks that have ended.
    pub tasks: i64,
    /// Number of failed tasks, which are included in `tasks`.
    pub failed: i64,
    pub input_tokens: i64,
    pub output_tokens: i64,
    /// Costs in US dollars of calls with a known price; null if there are none.
    pub cost_usd: Option<f64>,
}

#[derive(sqlx::FromRow)]
struct IdRow {
    id: Uuid,
    #[sqlx(flatten)]
    sums: Sums,
}

#[derive(sqlx::FromRow)]
struct TextRow {
    text: String,
    #[sqlx(flatten)]
    sums: Sums,
}

/// The person, agent, or text that identifies a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Key {
    Person(UserId),
    /// `None` if only a model was called.
    Agent(Option<AgentId>),
    /// A month, or the name of a model; empty if no model was called.
    Text(String),
}

macro_rules! sums_sql {
    ($key:literal, $order:literal) => {
        concat!(
            "select ",
            $key,
            " cast(sum(tasks) as bigint) as tasks, cast(sum(failed) as bigint) as failed, \
             cast(sum(input_tokens) as bigint) as input_tokens, cast(sum(output_tokens) as bigint) as output_tokens, \
             sum(cost_usd) as cost_usd from usage \
             where workspace_id = $1 and month between $2 and $3 and (user_id = $4 or $4 is null) ",
            $order
        )
    };
}

/// Selects the usage of tasks that match a condition. `$1` is the reader, `$2` the maximum number of rows.
macro_rules! of_tasks_sql {
    ($with:literal, $where:literal) => {
        concat!(
            $with,
            "select requested_by, agent_id, status, token_usage, queued_at from tasks where (requested_by = $1 or ",
            is_not_personal!(),
            ") and ",
            $where,
            " order by id limit $2"
        )
    };
}

/// Sums by key. Months are in chronological order, other keys in descending order of usage.
pub async fn list(
    c: &mut Conn,
    workspace: WorkspaceId,
    filter: &Filter,
    by: GroupBy,
) -> Result<Vec<(Key, Sums)>, DbError> {
    let q = match by {
        GroupBy::Person => c.q(sums_sql!(
            "user_id as id,",
            "group by user_id order by sum(input_tokens + output_tokens) desc, sum(tasks) desc, user_id limit $5"
        )),
        GroupBy::Agent => c.q(sums_sql!(
            "agent_id as id,",
            "group by agent_id order by sum(input_tokens + output_tokens) desc, sum(tasks) desc, agent_id limit $5"
        )),
        GroupBy::Month => c.q(sums_sql!(
            "month as text,",
            "group by month order by month limit $5"
        )),
        GroupBy::Model => c.q(sums_sql!(
            "model as text,",
            "group by model order by sum(input_tokens + output_tokens) desc, sum(tasks) desc, model limit $5"
        )),
    };
    let q = q
        .bind(workspace)
        .bind(filter.from.text())
        .bind(filter.to.text())
        .bind(filter.user)
        .bind(ROWS_MAX);
    Ok(match by {
        GroupBy::Person => {
            let rows: Vec<IdRow> = q.all().await?;
            rows.into_iter()
                .map(|row| (Key::Person(UserId(row.id)), row.sums))
                .collect()
        }
        GroupBy::Agent => {
            let rows: Vec<IdRow> = q.all().await?;
            let agent = |id: Uuid| (id != workspace.0).then_some(AgentId(id));
            rows.into_iter()
                .map(|row| (Key::Agent(agent(row.id)), row.sums))
                .collect()
        }
        GroupBy::Month | GroupBy::Model => {
            let rows: Vec<TextRow> = q.all().await?;
            rows.into_iter()
                .map(|row| (Key::Text(row.text), row.sums))
                .collect()
        }
    })
}

/// Total of all usage that matches the filter.
pub async fn total(c: &mut Conn, workspace: WorkspaceId, filter: &Filter) -> Result<Sums, DbError> {
    c.q("select cast(coalesce(sum(tasks), 0) as bigint) as tasks, cast(coalesce(sum(failed), 0) as bigint) as failed, \
         cast(coalesce(sum(input_tokens), 0) as bigint) as input_tokens, cast(coalesce(sum(output_tokens), 0) as bigint) as output_tokens, \
         sum(cost_usd) as cost_usd from usage \
         where workspace_id = $1 and month between $2 and $3 and (user_id = $4 or $4 is null)")
        .bind(workspace)
        .bind(filter.from.text())
        .bind(filter.to.text())
        .bind(filter.user)
        .one()
        .await
}

/// Set of tasks whose usage is added up.
#[derive(Debug, Clone, Copy)]
pub enum TaskSet {
    /// A task, and the tasks that it started.
    Tree(TaskId),
    /// A thread with its forks.
    Thread(ThreadId),
    Fork {
        thread: ThreadId,
        fork: ForkId,
    },
}

/// Usage of a task.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct TaskUsage {
    requested_by: UserId,
    agent_id: Option<AgentId>,
    status: TaskStatus,
    token_usage: Option<Json<TokenUsage>>,
    queued_at: Timestamp,
}

/// Usage of tasks, oldest first, except for personal tasks of other people.
pub async fn of_tasks(
    c: &mut Conn,
    reader: UserId,
    set: TaskSet,
) -> Result<Vec<TaskUsage>, DbError> {
    let q = match set {
        TaskSet::Tree(task) => c
            .q(of_tasks_sql!(
                "with recursive tree (id) as (select id from tasks where id = $3 union all \
                 select t.id from tasks t join tree d on t.parent_task_id = d.id) ",
                "id in (select id from tree)"
            ))
            .bind(reader)
            .bind(TASKS_MAX)
            .bind(task),
        TaskSet::Thread(thread) => c
            .q(of_tasks_sql!("", "thread_id = $3"))
            .bind(reader)
            .bind(TASKS_MAX)
            .bind(thread),
        TaskSet::Fork { thread, fork } => c
            .q(of_tasks_sql!("", "thread_id = $3 and conversation_id = $4"))
            .bind(reader)
            .bind(TASKS_MAX)
            .bind(thread)
            .bind(fork),
    };
    q.all().await
}

/// Sums of tasks by key, in the order of `list`, and their total.
pub fn sum_tasks(tasks: &[TaskUsage], filter: &Filter, by: GroupBy) -> (Vec<(Key, Sums)>, Sums) {
    let mut rows: Vec<(Key, Sums)> = Vec::new();
    let mut total = Sums::default();
    for task in tasks {
        let month = Month::of(task.queued_at);
        let is_wanted = filter.user.is_none_or(|user| user == task.requested_by);
        if !is_wanted || !(filter.from..=filter.to).contains(&month) {
            continue;
        }
        let usage = task.token_usage.as_ref().map(|usage| &usage.0);
        let key = match by {
            GroupBy::Person => Key::Person(task.requested_by),
            GroupBy::Agent => Key::Agent(task.agent_id),
            GroupBy::Month => Key::Text(month.text()),
            GroupBy::Model => {
                Key::Text(usage.map_or_else(String::new, |usage| usage.model.clone()))
            }
        };
        let at = rows.iter().position(|(known, _)| *known == key);
        let at = at.unwrap_or_else(|| {
            rows.push((key, Sums::default()));
            rows.len() - 1
        });
        for sums in [&mut rows[at].1, &mut total] {
            sums.add(task.status, usage);
        }
    }
    let used = |sums: &Sums| (sums.input_tokens + sums.output_tokens, sums.tasks);
    if by != GroupBy::Month {
        rows.sort_by_key(|(_, sums)| std::cmp::Reverse(used(sums)));
    }
    (rows, total)
}

impl TaskUsage {
    /// Month of the first task; the current month if there are no tasks.
    pub fn first_month(tasks: &[Self]) -> Month {
        let first = tasks.first();
        first.map_or_else(Month::present, |task| Month::of(task.queued_at))
    }
}

impl Sums {
    fn add(&mut self, status: TaskStatus, usage: Option<&TokenUsage>) {
        let has_ended = !matches!(status, TaskStatus::Queued | TaskStatus::Running);
        self.tasks += i64::from(has_ended);
        self.failed += i64::from(status == TaskStatus::Failed);
        if let Some(usage) = usage {
            self.input_tokens += usage.input_tokens;
            self.output_tokens += usage.output_tokens;
            if let Some(cost) = usage.cost_usd {
                *self.cost_usd.get_or_insert(0.0) += cost;
            }
        }
    }

    /// The sums without costs.
    #[must_use]
    pub fn without_cost(self) -> Self {
        Self {
            cost_usd: None,
            ..self
        }
    }
}

/// Checks whether the person has usage in the workspace.
pub async fn knows(c: &mut Conn, workspace: WorkspaceId, user: UserId) -> Result<bool, DbError> {
    let row: Option<(UserId,)> = c
        .q("select user_id from usage where workspace_id = $1 and user_id = $2 limit 1")
        .bind(workspace)
        .bind(user)
        .opt()
        .await?;
    Ok(row.is_some())
}

/// Reassigns the usage of a person to the alias that replaces the person.
pub async fn reassign(
    c: &mut Conn,
    workspace: WorkspaceId,
    from: UserId,
    to: UserId,
) -> Result<(), DbError> {
    c.q("update usage set user_id = $3 where workspace_id = $1 and user_id = $2")
        .bind(workspace)
        .bind(from)
        .bind(to)
        .run()
        .await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_are_added_up_by_key_with_the_highest_usage_first() {
        let (ada, bo) = (UserId::new(), UserId::new());
        let used = |requested_by, status, tokens, cost_usd| TaskUsage {
            requested_by,
            agent_id: None,
            status,
            token_usage: Some(Json(TokenUsage {
                input_tokens: tokens,
                output_tokens: 1,
                cost_usd,
                ..TokenUsage::none("tiny")
            })),
            queued_at: now(),
        };
        let tasks = [
            used(ada, TaskStatus::Completed, 10, Some(0.5)),
            used(bo, TaskStatus::Failed, 100, None),
            used(ada, TaskStatus::Running, 5, None),
        ];
        let month = Month::present();
        let filter = Filter {
            from: TaskUsage::first_month(&tasks),
            to: month,
            user: None,
        };
        let (rows, total) = sum_tasks(&tasks, &filter, GroupBy::Person);
        let of_ada = Sums {
            tasks: 1,
            failed: 0,
            input_tokens: 15,
            output_tokens: 2,
            cost_usd: Some(0.5),
        };
        let of_bo = Sums {
            tasks: 1,
            failed: 1,
            input_tokens: 100,
            output_tokens: 1,
            cost_usd: None,
        };
        assert_eq!(rows, [(Key::Person(bo), of_bo), (Key::Person(ada), of_ada)]);
        assert_eq!((total.tasks, total.input_tokens), (2, 115));
        assert_eq!(total.cost_usd, Some(0.5));
        let own = Filter {
            user: Some(bo),
            ..filter
        };
        assert_eq!(sum_tasks(&tasks, &own, GroupBy::Month).1, of_bo);
    }

    #[test]
    fn a_month_is_a_year_and_a_month_number() {
        assert_eq!(Month::parse("2026-11").unwrap().text(), "2026-11");
        assert!(Month::parse("2026-02").unwrap() < Month::parse("2026-11").unwrap());
        for bad in [
            "2026-13",
            "2026-00",
            "2026-1",
            "26-11",
            "2026",
            "2026-11-01",
            "+026-11",
            "",
        ] {
            assert_eq!(Month::parse(bad), None, "{bad}");
        }
    }
}
