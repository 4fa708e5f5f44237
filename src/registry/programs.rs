//! Programs of agents on runners (`scratch = true` in `runner.toml`), for a server without a code runner.
//!
//! A program is a row from the call until its end. The runner's connection, on any node, marks the row before it sends the program, and a
//! marked program is never sent again. Runners end programs with their connection, so the call fails if that was lost. The row is deleted
//! with the call, which ends a program that still runs. A program that has failed has left nothing, so its outcome is always known.

use std::{sync::Arc, time::Duration};

use openvibe_runner::{Program, ProgramEnd};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use crate::{
    db::{Conn, Db, DbError, dialect::lock_workspace, now},
    ids::{ActionId, RunnerId, TaskId, WorkspaceId},
    tasks::{
        TaskStatus,
        queue::{Commanded, Queue},
    },
    time::Timestamp,
    tool_fault::{ToolErrorCode, ToolFault},
};

/// Time without a frame after which a runner counts as away.
pub const RUNNER_SEEN_WITHIN: Duration = Duration::from_secs(30);
/// Maximum number of programs of a runner that run or wait.
const PROGRAMS_MAX: i64 = 32;
/// Time after which a program that no connection has sent fails.
const SEND_WITHIN: Duration = Duration::from_secs(5);
/// Part of a call's time that its program does not get: it can wait for others, and the runner removes its directory.
const MARGIN: Duration = Duration::from_secs(15);
/// Time after which a row expires; longer than a call.
const ROW_MAX: Duration = Duration::from_mins(2);
/// Interval between checks, in case signals were lost.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Runs programs on the runners of workspaces.
#[derive(Clone)]
pub struct RunnerPrograms {
    pub db: Db,
    pub queue: Arc<Queue>,
    pub tracker: TaskTracker,
}

/// A call that runs a program.
#[derive(Debug, Clone)]
pub struct ProgramCall {
    pub action: ActionId,
    pub task: TaskId,
    pub workspace: WorkspaceId,
    /// Its duration is shortened to the time that the call has.
    pub program: Program,
    pub deadline: Instant,
}

/// Deletes the row of a call, also if the call is dropped.
struct RowGuard {
    db: Db,
    tracker: TaskTracker,
    workspace: WorkspaceId,
    action: ActionId,
    /// False if the row belongs to an earlier call, or if there is none.
    is_own: bool,
}

impl Drop for RowGuard {
    fn drop(&mut self) {
        if !self.is_own {
            return;
        }
        // Without a runtime, the process ends, and the row expires.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        let (workspace, action) = (self.workspace, self.action);
        let db = self.db.clone();
        let deleting = async move {
            let deleted = db.write(workspace.0, async move |c: &mut Conn| {
                c.q("delete from runner_programs where action_id = $1")
                    .bind(action)
                    .run()
                    .await?;
                c.notify(Box::new(Commanded));
                Ok::<_, DbError>(())
            });
            if let Err(e) = deleted.await {
                tracing::warn!(error = %e, "a program on a runner is left until its row expires");
            }
        };
        self.tracker.spawn_on(deleting, &runtime);
    }
}

#[derive(sqlx::FromRow)]
struct Row {
    ending: Option<String>,
    /// Connection that sends the program.
    sent_by: Option<Uuid>,
    /// Connection that serves the runner now.
    served_by: Option<Uuid>,
    seen_at: Option<Timestamp>,
    /// Status of the call's task; `None` for calls without one.
    status: Option<TaskStatus>,
}

fn out_of_reach(text: &str) -> ToolFault {
    ToolFault::new(ToolErrorCode::ToolUnreachable, text)
}

impl Row {
    /// The result of a call that has waited so long; `None` while the program waits or runs.
    fn result(&self, waited: Duration) -> Option<Result<ProgramEnd, ToolFault>> {
        if let Some(ending) = &self.ending {
            let end = serde_json::from_str(ending);
            return Some(end.map_err(|_| ToolFault::of(ToolErrorCode::ToolFailed)));
        }
        let has_ended = |status: TaskStatus| {
            matches!(
                status,
                TaskStatus::Completed | TaskStatus::Failed | TaskStatus::Cancelled
            )
        };
        if self.status.is_some_and(has_ended) {
            return Some(Err(ToolFault::of(ToolErrorCode::Cancelled)));
        }
        let is_seen = self
            .seen_at
            .is_some_and(|at| at > now() - RUNNER_SEEN_WITHIN);
        match self.sent_by {
            Some(_) if self.sent_by != self.served_by || !is_seen => {
                let text = "the connection to the runner was lost, so the program was ended";
                Some(Err(out_of_reach(text)))
            }
            None if waited > SEND_WITHIN => {
                Some(Err(out_of_reach("the runner is away: try again later")))
            }
            _ => None,
        }
    }
}

impl RunnerPrograms {
    /// Runs a program once, on the runner of the workspace that has the fewest.
    ///
    /// # Errors
    /// - `ToolUnreachable` if no runner takes programs, or if its connection was lost.
    /// - `RateLimited` if it has too many.
    /// - `Cancelled` if the task has ended.
    /// - `ToolTimeout`.
    /// - `ToolFailed` if the database failed.
    pub async fn run(&self, mut call: ProgramCall) -> Result<ProgramEnd, ToolFault> {
        let failed = |e: DbError| {
            tracing::warn!(error = %e, "a program could not be run on a runner");
            ToolFault::of(ToolErrorCode::ToolFailed)
        };
        let ProgramCall {
            action,
            workspace,
            deadline,
            ..
        } = call;
        let left = deadline.saturating_duration_since(Instant::now() + MARGIN);
        call.program.seconds = call.program.seconds.min(left.as_secs());
        if call.program.seconds == 0 {
            return Err(ToolFault::of(ToolErrorCode::ToolTimeout));
        }
        let mut signals = self.queue.commands();
        let mut guard = RowGuard {
            db: self.db.clone(),
            tracker: self.tracker.clone(),
            workspace,
            action,
            is_own: true,
        };
        if let Some(fault) = self.insert(call).await.map_err(failed)? {
            guard.is_own = false;
            return Err(fault);
        }
        let begun = Instant::now();
        loop {
            let mut c = self.db.read().await.map_err(failed)?;
            let row = find(&mut c, action).await.map_err(failed)?;
            drop(c);
            let Some(row) = row else {
                return Err(out_of_reach("the runner was deleted"));
            };
            if let Some(result) = row.result(begun.elapsed()) {
                return result;
            }
            tokio::select! {
                _ = signals.changed() => {}
                () = sleep(LOOK_EVERY) => {}
                () = sleep_until(deadline) => return Err(ToolFault::of(ToolErrorCode::ToolTimeout)),
            }
        }
    }

    /// Stores a program for a runner. Returns the fault if there is none for it.
    async fn insert(&self, call: ProgramCall) -> Result<Option<ToolFault>, DbError> {
        let ProgramCall {
            action,
            task,
            workspace,
            program,
            ..
        } = call;
        let program = encoded(&program)?;
        let insert = async move |c: &mut Conn| {
            lock_workspace(c, workspace.0).await?;
            let found: Option<(RunnerId, i64)> = c
                .q("select r.id, (select count(*) from runner_programs p where p.runner_id = r.id and p.ending is null and p.expires_at > $3) \
                    as program_count from runners r where r.workspace_id = $1 and r.scratch = TRUE and r.connection_id is not null \
                    and r.seen_at > $2 order by program_count, r.id limit 1")
                .bind(workspace)
                .bind(now() - RUNNER_SEEN_WITHIN)
                .bind(now())
                .opt()
                .await?;
            let Some((runner, count)) = found else {
                return Ok(Some(out_of_reach("no runner is connected that runs code")));
            };
            if count >= PROGRAMS_MAX {
                let text = "the runner is busy: try again later";
                return Ok(Some(ToolFault::new(ToolErrorCode::RateLimited, text)));
            }
            let inserted = c
                .q("insert into runner_programs (action_id, runner_id, task_id, program, expires_at) values ($1, $2, $3, $4, $5) \
                    on conflict (action_id) do nothing")
                .bind(action)
                .bind(runner)
                .bind(task)
                .bind(program.clone())
                .bind(now() + ROW_MAX)
                .run()
                .await?;
            c.notify(Box::new(Commanded));
            // It was called before.
            Ok::<_, DbError>((inserted == 0).then(|| ToolFault::of(ToolErrorCode::ToolFailed)))
        };
        self.db.write(workspace.0, insert).await
    }
}

fn encoded(value: &impl serde::Serialize) -> Result<String, DbError> {
    serde_json::to_string(value).map_err(|e| DbError::Sql(sqlx::Error::Encode(e.into())))
}

async fn find(c: &mut Conn, action: ActionId) -> Result<Option<Row>, DbError> {
    c.q("select p.ending, p.connection_id as sent_by, r.connection_id as served_by, r.seen_at, t.status from runner_programs p \
         join runners r on r.id = p.runner_id left join tasks t on t.id = p.task_id where p.action_id = $1")
        .bind(action)
        .opt()
        .await
}

/// Checks whether a runner of the workspace is connected that takes programs.
///
/// # Errors
/// Only database errors.
pub async fn has_program_runner(c: &mut Conn, workspace: WorkspaceId) -> Result<bool, DbError> {
    c.q("select exists (select 1 from runners where workspace_id = $1 and scratch = TRUE and connection_id is not null and seen_at > $2)")
        .bind(workspace)
        .bind(now() - RUNNER_SEEN_WITHIN)
        .value()
        .await
}

/// Programs of a runner, as its connection sees them.
#[derive(Debug)]
pub struct TakenPrograms {
    /// Programs whose calls wait for the end.
    pub open: Vec<ActionId>,
    /// Those of them that this connection must send now.
    pub new: Vec<(ActionId, Program)>,
}

/// Marks programs that no connection has sent, so that only this one sends them, and returns them.
///
/// # Errors
/// Only database errors.
pub async fn take_programs(
    db: &Db,
    workspace: WorkspaceId,
    runner: RunnerId,
    connection: Uuid,
) -> Result<TakenPrograms, DbError> {
    let rows: Vec<(ActionId, Option<Uuid>)> = db
        .read()
        .await?
        .q("select action_id, connection_id from runner_programs where runner_id = $1 and ending is null and expires_at > $2 \
            order by action_id limit $3")
        .bind(runner)
        .bind(now())
        .bind(2 * PROGRAMS_MAX)
        .all()
        .await?;
    let has_new = rows.iter().any(|(_, sent_by)| sent_by.is_none());
    let open = rows.into_iter().map(|(action, _)| action).collect();
    if !has_new {
        let new = Vec::new();
        return Ok(TakenPrograms { open, new });
    }
    let mark = async move |c: &mut Conn| {
        c.q("update runner_programs set connection_id = $2 where runner_id = $1 and connection_id is null and ending is null \
             and expires_at > $3 and exists (select 1 from runners r where r.id = $1 and r.connection_id = $2) returning action_id, program")
            .bind(runner)
            .bind(connection)
            .bind(now())
            .all::<(ActionId, String)>()
            .await
    };
    let marked = db.write(workspace.0, mark).await?;
    // A program that a newer version has stored is left to its call.
    let read = |(action, program): (ActionId, String)| {
        Some((action, serde_json::from_str(&program).ok()?))
    };
    let new = marked.into_iter().filter_map(read).collect();
    Ok(TakenPrograms { open, new })
}

/// Stores the end of a program that this connection has sent.
///
/// # Errors
/// Only database errors.
pub async fn end_program(
    c: &mut Conn,
    connection: Uuid,
    action: ActionId,
    end: &ProgramEnd,
) -> Result<(), DbError> {
    c.q("update runner_programs set ending = $3 where action_id = $1 and connection_id = $2 and ending is null")
        .bind(action)
        .bind(connection)
        .bind(encoded(end)?)
        .run()
        .await?;
    c.notify(Box::new(Commanded));
    Ok(())
}

/// Deletes rows that calls have left.
///
/// # Errors
/// Only database errors.
pub async fn delete_expired_programs(db: &Db) -> Result<(), DbError> {
    db.delete_expired(
        now(),
        "select exists (select 1 from runner_programs where expires_at < $1)",
        "delete from runner_programs where action_id in \
         (select action_id from runner_programs where expires_at < $1 order by action_id limit $2)",
    )
    .await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row() -> Row {
        let connection = Some(Uuid::now_v7());
        Row {
            ending: None,
            sent_by: connection,
            served_by: connection,
            seen_at: Some(now()),
            status: Some(TaskStatus::Running),
        }
    }

    fn code_of(row: &Row, seconds: u64) -> Option<ToolErrorCode> {
        let result = row.result(Duration::from_secs(seconds));
        result.map(|result| result.unwrap_err().code)
    }

    #[test]
    fn a_program_that_was_sent_waits_until_its_connection_is_lost() {
        assert_eq!(code_of(&row(), 9), None);
        let lost = Some(ToolErrorCode::ToolUnreachable);
        for served_by in [None, Some(Uuid::now_v7())] {
            assert_eq!(code_of(&Row { served_by, ..row() }, 1), lost);
        }
        let seen_at = Some(now() - RUNNER_SEEN_WITHIN);
        assert_eq!(code_of(&Row { seen_at, ..row() }, 1), lost);
    }

    #[test]
    fn a_program_that_was_not_sent_fails_soon() {
        let sent_by = None;
        assert_eq!(code_of(&Row { sent_by, ..row() }, 1), None);
        let away = Some(ToolErrorCode::ToolUnreachable);
        assert_eq!(code_of(&Row { sent_by, ..row() }, 9), away);
    }

    #[test]
    fn a_stopped_task_ends_its_program_unless_it_has_ended() {
        let status = Some(TaskStatus::Cancelled);
        let stopped = Row { status, ..row() };
        assert_eq!(code_of(&stopped, 1), Some(ToolErrorCode::Cancelled));
        let output = "4".to_owned();
        let ending = serde_json::to_string(&ProgramEnd::Ended { output }).ok();
        let ended = Row { ending, ..stopped };
        assert!(ended.result(Duration::ZERO).unwrap().is_ok());
        let status = None;
        assert_eq!(code_of(&Row { status, ..row() }, 1), None);
    }
}
