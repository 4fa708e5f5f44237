//! Rows of a context record. Each kind is inserted by a single statement, regardless of the number of rows.
//!
//! The rows are bound as one JSON array. UUIDs in it are hexadecimal text without hyphens.

use serde::Serialize;
use uuid::Uuid;

use crate::{
    db::{Conn, DbError, Engine, Json},
    time::Timestamp,
};

/// A row of `context_texts`.
#[derive(Debug, Clone, Serialize)]
pub struct TextRow {
    #[serde(serialize_with = "hexadecimal")]
    pub id: Uuid,
    /// `None` for a removed text.
    pub hash: Option<String>,
    /// Text without NUL characters, which `PostgreSQL` cannot store.
    pub text: String,
}

/// A row of `context_parts`.
#[derive(Debug, Clone, Serialize)]
pub struct PartRow {
    pub position: usize,
    pub name: &'static str,
    pub source_type: Option<&'static str>,
    #[serde(serialize_with = "optional_hexadecimal")]
    pub source_id: Option<Uuid>,
    pub role: &'static str,
    pub tokens: u64,
    #[serde(serialize_with = "hexadecimal")]
    pub text_id: Uuid,
    #[serde(serialize_with = "optional_hexadecimal")]
    pub only_user_id: Option<Uuid>,
}

/// A row of `citations` with owner type `context_text`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct CitationRow {
    pub source_type: &'static str,
    #[serde(serialize_with = "hexadecimal")]
    pub source_id: Uuid,
    #[serde(serialize_with = "hexadecimal")]
    pub owner_id: Uuid,
}

fn hexadecimal<S: serde::Serializer>(id: &Uuid, s: S) -> Result<S::Ok, S::Error> {
    s.collect_str(&id.simple())
}

#[expect(clippy::ref_option, reason = "the signature is serde's")]
fn optional_hexadecimal<S: serde::Serializer>(id: &Option<Uuid>, s: S) -> Result<S::Ok, S::Error> {
    match id {
        Some(id) => s.collect_str(&id.simple()),
        None => s.serialize_none(),
    }
}

/// Inserts texts. For a text that is already stored, only updates `last_used_at`, and only if it is before `unused_since`. Hashes are
/// unique within `rows`.
pub async fn insert_texts(
    c: &mut Conn,
    workspace: Uuid,
    rows: Vec<TextRow>,
    used_at: Timestamp,
    unused_since: Timestamp,
) -> Result<(), DbError> {
    macro_rules! insert_sql {
        ($id:literal, $hash:literal, $text:literal, $from:literal) => {
            concat!(
                "insert into context_texts (id, workspace_id, hash, text, last_used_at) select ",
                $id,
                ", $1, ",
                $hash,
                ", ",
                $text,
                ", $3 from ",
                $from,
                " where true on conflict (workspace_id, hash) do update set last_used_at = excluded.last_used_at \
                 where context_texts.last_used_at < $4"
            )
        };
    }
    let q = match c.engine() {
        Engine::Sqlite => c.q(insert_sql!(
            "unhex(e.value ->> 'id')",
            "e.value ->> 'hash'",
            "e.value ->> 'text'",
            "json_each($2) e"
        )),
        Engine::Postgres => c.q(insert_sql!(
            "cast(e ->> 'id' as uuid)",
            "e ->> 'hash'",
            "e ->> 'text'",
            "jsonb_array_elements($2) e"
        )),
    };
    q.bind(workspace)
        .bind(Json(rows))
        .bind(used_at)
        .bind(unused_since)
        .run()
        .await?;
    Ok(())
}

/// Builds a statement about the citations `k` of the texts in the last prompt of task `$1`. `PostgreSQL` gets the texts as an
/// array, because without statistics, it would plan a join that reads every citation for each text.
macro_rules! prompt_citations_sql {
    ($c:expr, $begin:literal, $end:literal) => {
        match $c.engine() {
            Engine::Sqlite => concat!(
                $begin,
                " from citations k where k.owner_type = 'context_text' and k.owner_id in \
                  (select text_id from context_parts where task_id = $1) ",
                $end
            ),
            Engine::Postgres => concat!(
                $begin,
                " from citations k where k.owner_type = 'context_text' and k.owner_id = any \
                  (array(select text_id from context_parts where task_id = $1)) ",
                $end
            ),
        }
    };
}

/// Types and IDs of the sources of the task's last prompt.
pub async fn prompt_sources(c: &mut Conn, task: Uuid) -> Result<Vec<(String, Uuid)>, DbError> {
    let sql = prompt_citations_sql!(c, "select distinct k.source_type, k.source_id", "");
    c.q(sql).bind(task).all().await
}

/// Makes a text cite the sources of the task's last prompt.
pub async fn cite_prompt(c: &mut Conn, task: Uuid, text: Uuid) -> Result<(), DbError> {
    let sql = prompt_citations_sql!(
        c,
        "insert into citations (source_type, source_id, owner_type, owner_id) \
         select distinct k.source_type, k.source_id, 'context_text', $2",
        "on conflict do nothing"
    );
    c.q(sql).bind(task).bind(text).run().await?;
    Ok(())
}

/// Hashes and IDs of the texts with these hashes.
pub async fn find_texts(
    c: &mut Conn,
    workspace: Uuid,
    hashes: Vec<String>,
) -> Result<Vec<(String, Uuid)>, DbError> {
    let q = match c.engine() {
        Engine::Sqlite => c.q(
            "select hash, id from context_texts where workspace_id = $1 and hash in (select value from json_each($2))",
        ),
        Engine::Postgres => c.q(
            "select hash, id from context_texts where workspace_id = $1 and hash in (select jsonb_array_elements_text($2))",
        ),
    };
    q.bind(workspace).bind(Json(hashes)).all().await
}

pub async fn insert_parts(c: &mut Conn, task: Uuid, rows: Vec<PartRow>) -> Result<(), DbError> {
    let q = match c.engine() {
        Engine::Sqlite => c.q(
            "insert into context_parts (task_id, position, name, source_type, source_id, role, tokens, text_id, only_user_id) \
             select $1, e.value ->> 'position', e.value ->> 'name', e.value ->> 'source_type', unhex(e.value ->> 'source_id'), \
             e.value ->> 'role', e.value ->> 'tokens', unhex(e.value ->> 'text_id'), unhex(e.value ->> 'only_user_id') from json_each($2) e",
        ),
        Engine::Postgres => c.q(
            "insert into context_parts (task_id, position, name, source_type, source_id, role, tokens, text_id, only_user_id) \
             select $1, cast(e ->> 'position' as bigint), e ->> 'name', e ->> 'source_type', cast(e ->> 'source_id' as uuid), \
             e ->> 'role', cast(e ->> 'tokens' as bigint), cast(e ->> 'text_id' as uuid), \
             cast(e ->> 'only_user_id' as uuid) from jsonb_array_elements($2) e",
        ),
    };
    q.bind(task).bind(Json(rows)).run().await?;
    Ok(())
}

pub async fn insert_citations(c: &mut Conn, rows: Vec<CitationRow>) -> Result<(), DbError> {
    let q = match c.engine() {
        Engine::Sqlite => c.q(
            "insert into citations (source_type, source_id, owner_type, owner_id) \
             select e.value ->> 'source_type', unhex(e.value ->> 'source_id'), 'context_text', unhex(e.value ->> 'owner_id') \
             from json_each($1) e where true on conflict do nothing",
        ),
        Engine::Postgres => c.q(
            "insert into citations (source_type, source_id, owner_type, owner_id) \
             select e ->> 'source_type', cast(e ->> 'source_id' as uuid), 'context_text', cast(e ->> 'owner_id' as uuid) \
             from jsonb_array_elements($1) e where true on conflict do nothing",
        ),
    };
    q.bind(Json(rows)).run().await?;
    Ok(())
}
