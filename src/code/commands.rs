//! Commands for runners: rows until a runner has acknowledged them.

use std::collections::BTreeMap;

use openvibe_runner::{Command, Numbered};

use crate::{
    auth::{hash_token, new_token},
    db::{Conn, DbError},
    ids::{ActionId, CodeSessionId, RunnerId, TaskId, ThreadId},
    tasks::queue::Commanded,
};

/// Maximum number of commands that are read at once.
const AT_ONCE: i64 = 64;

fn encoded(command: &Command) -> Result<String, DbError> {
    serde_json::to_string(command).map_err(|e| DbError::Sql(sqlx::Error::Encode(e.into())))
}

/// Adds a command for the runner of a session, and returns its number.
pub(super) async fn insert(
    c: &mut Conn,
    session: CodeSessionId,
    task: Option<TaskId>,
    command: &Command,
) -> Result<i64, DbError> {
    let text = encoded(command)?;
    let (n,): (i64,) = c
        .q("update code_sessions set last_command = last_command + 1 where id = $1 returning last_command")
        .bind(session)
        .one()
        .await?;
    c.q("insert into runner_commands (session_id, n, task_id, command) values ($1, $2, $3, $4)")
        .bind(session)
        .bind(n)
        .bind(task)
        .bind(text)
        .run()
        .await?;
    c.notify(Box::new(Commanded));
    Ok(n)
}

/// Replaces the commands of an ended task that the runner does not have, because they contain texts. Their numbers stay.
pub(super) async fn blank(c: &mut Conn, task: TaskId) -> Result<(), DbError> {
    let cancel = encoded(&Command::Cancel {
        task: task.to_string(),
    })?;
    c.q("update runner_commands set command = $2 where task_id = $1")
        .bind(task)
        .bind(cancel)
        .run()
        .await?;
    Ok(())
}

/// Replaces all commands of a session that the runner does not have by another one. Their numbers stay.
pub(super) async fn replace(
    c: &mut Conn,
    session: CodeSessionId,
    command: &Command,
) -> Result<(), DbError> {
    c.q("update runner_commands set command = $2 where session_id = $1")
        .bind(session)
        .bind(encoded(command)?)
        .run()
        .await?;
    Ok(())
}

/// Replaces a push that the runner does not have, because it contains texts. Its number stays. Returns false if the runner has it.
pub(super) async fn forget_push(
    c: &mut Conn,
    session: CodeSessionId,
    action: ActionId,
) -> Result<bool, DbError> {
    let replaced = c
        .q("update runner_commands set command = $2 where session_id = $1 and command like $3")
        .bind(session)
        .bind(encoded(&Command::Forget { task: None })?)
        // These are the first fields.
        .bind(format!(r#"{{"type":"push","action":"{action}"%"#))
        .run()
        .await?;
    Ok(replaced > 0)
}

/// Checks whether runners have to receive commands for the sessions of a thread.
///
/// # Errors
/// Only database errors.
pub async fn has_commands_in(c: &mut Conn, thread: ThreadId) -> Result<bool, DbError> {
    c.q("select exists (select 1 from runner_commands m join code_sessions s on s.id = m.session_id where s.thread_id = $1)")
        .bind(thread)
        .value()
        .await
}

/// A command that a runner has not acknowledged.
#[derive(Debug, Clone, sqlx::FromRow)]
pub(super) struct Pending {
    pub(super) session_id: CodeSessionId,
    pub(super) n: i64,
    pub(super) task_id: Option<TaskId>,
    command: String,
}

impl Pending {
    /// The command as a frame; `None` if a newer version has stored it.
    fn frame(&self) -> Option<Numbered<Command>> {
        Some(Numbered {
            session: self.session_id.to_string(),
            n: u64::try_from(self.n).ok()?,
            body: serde_json::from_str(&self.command).ok()?,
        })
    }
}

/// A frame for a runner.
#[derive(Debug, Clone)]
pub struct CommandFrame {
    pub session: CodeSessionId,
    pub n: i64,
    /// JSON text. It can contain the key of a turn.
    pub text: String,
}

/// Commands of a runner that were not sent on this connection, in order; `sent` has the last number by session, and `held` the number from
/// which commands of a session wait. The caller must store the keys of `prompt` commands with `issue_key`.
pub(super) async fn list(
    c: &mut Conn,
    runner: RunnerId,
    sent: &BTreeMap<CodeSessionId, i64>,
    held: &BTreeMap<CodeSessionId, i64>,
) -> Result<Vec<Pending>, DbError> {
    // In this order on SQLite, because most sessions have no commands.
    let newest: Vec<(CodeSessionId, i64)> = c
        .q("select m.session_id, max(m.n) as n from runner_commands m cross join code_sessions s cross join repositories r \
            where s.id = m.session_id and r.id = s.repository_id and r.runner_id = $1 group by m.session_id order by m.session_id")
        .bind(runner)
        .all()
        .await?;
    let most = usize::try_from(AT_ONCE).unwrap_or(usize::MAX);
    let mut pending: Vec<Pending> = Vec::new();
    for (session, n) in newest {
        let known = sent.get(&session).copied().unwrap_or_default();
        let end = held.get(&session).copied().unwrap_or(i64::MAX);
        if n <= known || end <= known + 1 {
            continue;
        }
        let rows: Vec<Pending> = c
            .q("select session_id, n, task_id, command from runner_commands where session_id = $1 and n > $2 and n < $3 order by n limit $4")
            .bind(session)
            .bind(known)
            .bind(end)
            .bind(AT_ONCE)
            .all()
            .await?;
        pending.extend(rows);
        if pending.len() >= most {
            pending.truncate(most);
            break;
        }
    }
    Ok(pending)
}

/// Turns stored commands into frames. Each prompt gets a new key, whose hash replaces that of an earlier one: the runner did not store the
/// frame with the earlier one.
pub(super) async fn frames(
    c: &mut Conn,
    pending: &[Pending],
) -> Result<Vec<CommandFrame>, DbError> {
    let mut frames = Vec::with_capacity(pending.len());
    for row in pending {
        let mut frame = row.frame().unwrap_or(Numbered {
            session: row.session_id.to_string(),
            n: u64::try_from(row.n).unwrap_or_default(),
            body: Command::Unknown,
        });
        if let (Command::Prompt { key, .. }, Some(task)) = (&mut frame.body, row.task_id) {
            *key = format!("ovt_{}", new_token());
            c.q("update task_keys set key_hash = $2 where task_id = $1")
                .bind(task)
                .bind(hash_token(key))
                .run()
                .await?;
        }
        frames.push(CommandFrame {
            session: row.session_id,
            n: row.n,
            text: serde_json::to_string(&frame)
                .map_err(|e| DbError::Sql(sqlx::Error::Encode(e.into())))?,
        });
    }
    Ok(frames)
}

/// Checks whether commands contain a prompt, whose key has to be stored before it is sent.
pub(super) fn have_prompt(pending: &[Pending]) -> bool {
    pending
        .iter()
        .any(|row| row.command.contains(r#""type":"prompt""#))
}

/// Deletes the commands of a session that the runner has, up to number `n`.
pub(super) async fn delete(c: &mut Conn, session: CodeSessionId, n: i64) -> Result<(), DbError> {
    c.q("delete from runner_commands where session_id = $1 and n <= $2")
        .bind(session)
        .bind(n)
        .run()
        .await?;
    Ok(())
}
