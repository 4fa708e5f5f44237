//! Arguments and results of actions. They are stored as context texts, so that they are removed when a source is deleted, after the
//! retention time, and by an erasure.

use std::collections::HashMap;

use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::{
    db::{
        Conn, DbError,
        dialect::{
            context::{self as rows, CitationRow, TextRow},
            hexadecimal_ids,
        },
        now,
    },
    ids::{ActionId, TaskId, WorkspaceId},
    sql_with_ids,
    text_enum::text_enum,
};

text_enum! {
    /// Kind of a source that derived texts cite.
    pub enum SourceType {
        Message = "message",
        User = "user",
        UserFile = "user_file",
        Memory = "memory",
        Compaction = "compaction",
        Action = "action",
        File = "file",
    }
}
/// Source type with which the texts of runs are hashed.
pub const RUN_SOURCE: &str = "run";

/// Hash of a text of an action or another object, computed in the same way as for the parts of a prompt.
fn hash_of(source_type: &str, source: Uuid, text: &str) -> String {
    let mut hash = Sha256::new();
    hash.update(source_type);
    hash.update(source);
    hash.update(text);
    hex::encode(hash.finalize())
}

/// Stores a text of an action, and returns its ID.
pub async fn put(
    c: &mut Conn,
    workspace: WorkspaceId,
    action: ActionId,
    text: &str,
) -> Result<Uuid, DbError> {
    put_of(c, workspace, SourceType::Action.as_str(), action.0, text).await
}

/// Stores a text of an object, and returns its ID.
pub async fn put_of(
    c: &mut Conn,
    workspace: WorkspaceId,
    source_type: &str,
    source: Uuid,
    text: &str,
) -> Result<Uuid, DbError> {
    let text = text.replace('\0', "");
    let (hash, at) = (hash_of(source_type, source, &text), now());
    let row = TextRow {
        id: Uuid::now_v7(),
        hash: Some(hash.clone()),
        text,
    };
    let id = row.id;
    rows::insert_texts(c, workspace.0, vec![row], at, at).await?;
    let stored = rows::find_texts(c, workspace.0, vec![hash]).await?;
    Ok(stored.first().map_or(id, |(_, id)| *id))
}

/// Cites everything that the task's last prompt contained as sources of a text, because a model can copy any part of it.
pub async fn cite_prompt(c: &mut Conn, task: TaskId, text: Uuid) -> Result<(), DbError> {
    rows::cite_prompt(c, task.0, text).await
}

/// Checks whether a text of the task's last prompt was removed.
pub async fn has_lost_parts(c: &mut Conn, task: TaskId) -> Result<bool, DbError> {
    c.q("select exists (select 1 from context_parts p join context_texts x on x.id = p.text_id where p.task_id = $1 and x.hash is null)")
        .bind(task)
        .value()
        .await
}

/// Cites sources of a text by kind and ID.
pub async fn cite(
    c: &mut Conn,
    text: Uuid,
    sources: impl IntoIterator<Item = (&'static str, Uuid)>,
) -> Result<(), DbError> {
    let rows: Vec<CitationRow> = sources
        .into_iter()
        .map(|(source_type, source_id)| CitationRow {
            source_type,
            source_id,
            owner_id: text,
        })
        .collect();
    if rows.is_empty() {
        return Ok(());
    }
    rows::insert_citations(c, rows).await
}

/// Makes `text` cite the same sources as the text `from`.
pub async fn cite_as(c: &mut Conn, from: Uuid, text: Uuid) -> Result<(), DbError> {
    c.q(
        "insert into citations (source_type, source_id, owner_type, owner_id) \
         select k.source_type, k.source_id, 'context_text', $2 from citations k \
         where k.owner_type = 'context_text' and k.owner_id = $1 on conflict do nothing",
    )
    .bind(from)
    .bind(text)
    .run()
    .await?;
    Ok(())
}

/// Texts of a task's action; `None` if they were removed.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct ActionTexts {
    pub id: ActionId,
    pub arguments: Option<String>,
    pub result: Option<String>,
}

/// Texts of a task's actions, in the order of the calls.
pub async fn of_task(c: &mut Conn, task: TaskId) -> Result<Vec<ActionTexts>, DbError> {
    c.q(
        "select a.id, x.text as arguments, y.text as result from actions a \
         left join context_texts x on x.id = a.arguments_id and x.hash is not null \
         left join context_texts y on y.id = a.result_id and y.hash is not null \
         where a.task_id = $1 order by a.round, a.call limit 1000",
    )
    .bind(task)
    .all()
    .await
}

/// Stored texts by ID, except for those that have been removed.
pub async fn list(c: &mut Conn, ids: Vec<Uuid>) -> Result<HashMap<Uuid, String>, DbError> {
    let sql = sql_with_ids!(
        c,
        "select id, text from context_texts where hash is not null and id in",
        1,
        "order by id"
    );
    let rows: Vec<(Uuid, String)> = c.q(sql).bind(hexadecimal_ids(ids)).all().await?;
    Ok(rows.into_iter().collect())
}

/// A stored text; `None` if it has been removed.
pub async fn find(c: &mut Conn, id: Uuid) -> Result<Option<String>, DbError> {
    let row: Option<(String,)> = c
        .q("select text from context_texts where id = $1 and hash is not null")
        .bind(id)
        .opt()
        .await?;
    Ok(row.map(|row| row.0))
}
