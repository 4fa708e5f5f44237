//! Briefs and answers of delegated tasks and of tasks of runs. They are stored as context texts, so that they are removed when a
//! source is deleted, after the retention time, and by an erasure.

use uuid::Uuid;

use super::{
    Task, TaskBrief, TaskKind,
    actions::texts::{self, RUN_SOURCE, cite_prompt},
};
use crate::{
    db::{Conn, DbError},
    ids::{ActionId, TaskId},
};

/// A brief, and the ID of its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredBrief {
    pub text_id: Uuid,
    pub brief: TaskBrief,
}

/// Stores the brief of a task that a call of its parent started. The brief cites everything that the parent's last prompt
/// contained, and `sources`, given by kind and ID.
pub async fn put_brief(
    c: &mut Conn,
    child: &Task,
    parent: TaskId,
    action: ActionId,
    brief: &TaskBrief,
    sources: impl IntoIterator<Item = (&'static str, Uuid)>,
) -> Result<(), DbError> {
    let text = serde_json::to_string(brief).unwrap_or_default();
    let id = texts::put(c, child.workspace_id, action, &text).await?;
    cite_prompt(c, parent, id).await?;
    texts::cite(c, id, sources).await?;
    set_brief(c, child.id, id).await
}

/// Makes a stored text the brief of a task.
pub async fn set_brief(c: &mut Conn, task: TaskId, text: Uuid) -> Result<(), DbError> {
    c.q("update tasks set brief_id = $2 where id = $1")
        .bind(task)
        .bind(text)
        .run()
        .await?;
    Ok(())
}

/// The brief of a task; `None` if it has none, or if it was removed.
pub async fn find_brief(c: &mut Conn, task: TaskId) -> Result<Option<StoredBrief>, DbError> {
    let row: Option<(Uuid, String)> = c
        .q("select x.id, x.text from tasks t join context_texts x on x.id = t.brief_id and x.hash is not null where t.id = $1")
        .bind(task)
        .opt()
        .await?;
    Ok(row.and_then(|(text_id, text)| {
        let brief = serde_json::from_str(&text).ok()?;
        Some(StoredBrief { text_id, brief })
    }))
}

/// Stores the answer of a task. It cites everything that the task's last prompt contained and, for a run, the brief. The answer is
/// not stored if a text that it may repeat was removed after the prompt was sent.
pub async fn put_answer(c: &mut Conn, task: &Task, answer: &str) -> Result<(), DbError> {
    if texts::has_lost_parts(c, task.id).await? {
        return Ok(());
    }
    let workspace = task.workspace_id;
    let id = match task.run_id {
        Some(run) => texts::put_of(c, workspace, RUN_SOURCE, run.0, answer).await?,
        None => match find_call(c, task.id).await? {
            Some(call) => texts::put(c, workspace, call, answer).await?,
            None => return Ok(()),
        },
    };
    cite_prompt(c, task.id, id).await?;
    if task.run_id.is_some()
        && let Some(brief) = find_brief(c, task.id).await?
    {
        // A condition has no recorded prompt, so its brief is the source.
        texts::cite_as(c, brief.text_id, id).await?;
    }
    c.q("update tasks set answer_id = $2 where id = $1")
        .bind(task.id)
        .bind(id)
        .run()
        .await?;
    Ok(())
}

/// The call that started a delegated task.
async fn find_call(c: &mut Conn, task: TaskId) -> Result<Option<ActionId>, DbError> {
    let call: Option<(ActionId,)> = c
        .q(
            "select a.id from tasks t join actions a on a.task_id = t.parent_task_id \
            and t.child_key = cast(a.round as text) || '.' || cast(a.call as text) where t.id = $1",
        )
        .bind(task)
        .opt()
        .await?;
    Ok(call.map(|(call,)| call))
}

/// Text and ID of a task's answer; `None` if there is none or it was removed.
pub async fn find_answer(c: &mut Conn, task: TaskId) -> Result<Option<(Uuid, String)>, DbError> {
    c.q("select x.id, x.text from tasks t join context_texts x on x.id = t.answer_id and x.hash is not null where t.id = $1")
        .bind(task)
        .opt()
        .await
}

/// Adds the briefs and answers to delegated tasks and to tasks of runs. The caller must have checked that the reader may see them.
pub async fn show(c: &mut Conn, tasks: &mut [Task]) -> Result<(), DbError> {
    let has_brief = |task: &&mut Task| task.kind == TaskKind::Delegate || task.step_id.is_some();
    for task in tasks.iter_mut().filter(has_brief) {
        let found = find_brief(c, task.id).await?;
        task.input.0.brief = found.map(|found| found.brief);
        if let Some(output) = &mut task.output {
            let found = find_answer(c, task.id).await?;
            output.0.answer = found.map(|(_, answer)| answer);
        }
    }
    Ok(())
}
