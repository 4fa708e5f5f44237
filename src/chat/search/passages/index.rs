//! The job that puts the passages of files into the index, and removes those of deleted files.

use std::ops::Range;

use uuid::Uuid;

use super::cut;
use crate::{
    blocking::blocking,
    chat::search::{
        index::stem_term,
        stems::stems,
        words::{composed, folded},
    },
    db::{Conn, Db, DbError, dialect::search as store},
    files::documents::{self, DocumentPart},
    ids::{FileId, WorkspaceId},
    meaning::{self, passage_text, text_hash},
};

/// Maximum number of passages that a transaction writes or removes, which limits how long other writers wait.
const AT_ONCE: usize = 200;
/// Number of parts that are read at a time.
const PARTS_AT_ONCE: i64 = 50;
/// Maximum number of passages of a workspace; further parts of files are not found.
pub const PASSAGES_MAX: i64 = 1_000_000;

/// Term for the file of a passage; `id` is the ID that clients see.
pub(super) fn file_term(id: FileId) -> String {
    let id = id.to_string();
    format!("=i{}", id.rsplit_once('_').map_or(&*id, |(_, end)| end))
}

/// A file whose passages are not in the index yet.
#[derive(Debug, Clone, sqlx::FromRow)]
struct OpenSet {
    id: Uuid,
    workspace_id: WorkspaceId,
    file_id: FileId,
    parts_done: i64,
    hash: String,
    name: String,
}

/// A passage that is about to be indexed.
struct NewPassage {
    part: i64,
    range: Range<usize>,
    /// Hash of the text that gets a vector.
    text_hash: String,
    document: String,
}

/// Puts the next passages into the index. Returns false if there are none.
///
/// # Errors
/// Only database errors.
pub async fn index_next(db: &Db) -> Result<bool, DbError> {
    let mut c = db.read().await?;
    let set: Option<OpenSet> = c
        .q("select s.id, s.workspace_id, s.file_id, s.parts_done, f.hash, f.name from passage_sets s join files f on f.id = s.file_id \
            where s.is_complete = FALSE order by s.created_at limit 1")
        .opt()
        .await?;
    let Some(set) = set else {
        drop(c);
        return queue_without_hashes(db).await;
    };
    let parts = documents::list_parts(&mut c, &set.hash, set.parts_done, PARTS_AT_ONCE).await?;
    let is_interrupted: bool = c
        .q("select exists (select 1 from passages where set_id = $1 and part > $2)")
        .bind(set.id)
        .bind(set.parts_done)
        .value()
        .await?;
    drop(c);
    // Before passages are counted, so that those of the file itself do not count.
    if is_interrupted {
        clear_after(db, &set).await?;
    }
    if is_full(&mut db.read().await?, set.workspace_id).await? {
        tracing::warn!(file = %set.file_id, "the workspace has too many passages: the file is not searched as a whole");
        finish(db, &set, None).await?;
        return Ok(true);
    }
    let (file, name) = (set.file_id, set.name.clone());
    // A part can have very many passages, so its passages are written in several transactions before it counts as done.
    let Some(last) = parts.last().map(|part| part.n) else {
        finish(db, &set, None).await?;
        return Ok(true);
    };
    let made = blocking((), move || {
        let parts = parts.iter();
        parts
            .flat_map(|part| passages_of(part, file, &name))
            .collect::<Vec<NewPassage>>()
    });
    let Ok(made) = made.await else {
        tracing::error!(file = %set.file_id, "the passages of a file cannot be made");
        finish(db, &set, None).await?;
        return Ok(true);
    };
    let mut rest = made;
    while !rest.is_empty() {
        let after = rest.split_off(rest.len().min(AT_ONCE));
        let batch = std::mem::replace(&mut rest, after);
        if !put(db, &set, batch).await? {
            return Ok(true);
        }
    }
    finish(db, &set, Some(last)).await?;
    Ok(true)
}

/// Queues the next file whose passages have no hashes, because an earlier version put them into the index: they leave it, and return under
/// other numbers. Returns false if there is none.
async fn queue_without_hashes(db: &Db) -> Result<bool, DbError> {
    let set: Option<(Uuid, WorkspaceId)> = db
        .read()
        .await?
        .q(
            "select s.id, s.workspace_id from passages p join passage_sets s on s.id = p.set_id \
            where p.text_hash = '' and s.file_id is not null and s.is_complete = TRUE limit 1",
        )
        .opt()
        .await?;
    let Some((id, workspace)) = set else {
        return Ok(false);
    };
    db.write(workspace.0, async move |c: &mut Conn| {
        c.q("update passage_sets set parts_done = 0, is_complete = FALSE where id = $1 and is_complete = TRUE")
            .bind(id)
            .run()
            .await?;
        Ok::<_, DbError>(())
    })
    .await?;
    Ok(true)
}

/// Checks whether a workspace has as many passages as it can. The numbers of those that left the index are not used again, so only
/// large numbers are counted.
///
/// # Errors
/// Only database errors.
pub async fn is_full(c: &mut Conn, workspace: WorkspaceId) -> Result<bool, DbError> {
    Ok(store::newest_passage(c, workspace.0).await? >= PASSAGES_MAX
        && store::count_passages(c, workspace.0, PASSAGES_MAX).await? >= PASSAGES_MAX)
}

fn passages_of(part: &DocumentPart, file: FileId, name: &str) -> Vec<NewPassage> {
    let ranges = cut::passages(&part.text).into_iter();
    let made = ranges.map(|range| {
        let text = &part.text[range.clone()];
        let header = part
            .header
            .as_deref()
            .filter(|header| !text.contains(header));
        let heading = part.heading.as_deref().unwrap_or_default();
        let about = composed(&format!(
            "{} {heading} {}",
            part.name(name),
            header.unwrap_or_default()
        ))
        .into_owned();
        let text = composed(text).into_owned();
        let mut document = format!(
            "{} = {} = {}",
            folded(&about),
            folded(&text),
            file_term(file)
        );
        for stem in stems(&format!("{about}\n{text}")) {
            document.push(' ');
            document.push_str(&stem_term(&stem));
        }
        NewPassage {
            part: part.n,
            text_hash: text_hash(&passage_text(part, range.clone())),
            range,
            document,
        }
    });
    made.collect()
}

/// Removes passages of parts that an interrupted round did not finish.
async fn clear_after(db: &Db, set: &OpenSet) -> Result<(), DbError> {
    loop {
        let of = set.clone();
        let removed = db
            .write(set.workspace_id.0, async move |c: &mut Conn| {
                let left: Vec<(i64, String)> = c
                    .q("select no, text_hash from passages where set_id = $1 and part > $2 order by no limit $3")
                    .bind(of.id)
                    .bind(of.parts_done)
                    .bind(i64::try_from(AT_ONCE).unwrap_or(1))
                    .all()
                    .await?;
                let removed = left.len();
                remove(c, of.workspace_id, left).await?;
                Ok::<_, DbError>(removed)
            })
            .await?;
        if removed == 0 {
            return Ok(());
        }
    }
}

/// Removes passages, given by their numbers and the hashes of their texts, with their words and vectors.
async fn remove(
    c: &mut Conn,
    workspace: WorkspaceId,
    passages: Vec<(i64, String)>,
) -> Result<(), DbError> {
    if passages.is_empty() {
        return Ok(());
    }
    let mut hashes = Vec::with_capacity(passages.len());
    for (no, hash) in passages {
        store::remove_passage(c, workspace.0, no).await?;
        c.q("delete from passages where workspace_id = $1 and no = $2")
            .bind(workspace)
            .bind(no)
            .run()
            .await?;
        hashes.push(hash);
    }
    meaning::note_removed(c, workspace, hashes).await
}

/// Checks in a transaction that the file still exists.
async fn is_current(c: &mut Conn, set: &OpenSet) -> Result<bool, DbError> {
    let known: Option<(i64,)> = c
        .q("select parts_done from passage_sets where id = $1 and file_id is not null and parts_done = $2 and is_complete = FALSE")
        .bind(set.id)
        .bind(set.parts_done)
        .opt()
        .await?;
    Ok(known.is_some())
}

async fn put(db: &Db, set: &OpenSet, batch: Vec<NewPassage>) -> Result<bool, DbError> {
    let of = set.clone();
    db.write(set.workspace_id.0, async move |c: &mut Conn| {
        if !is_current(c, &of).await? {
            return Ok(false);
        }
        let mut no = store::newest_passage(c, of.workspace_id.0).await?;
        for passage in &batch {
            no += 1;
            c.q("insert into passages (workspace_id, no, set_id, part, from_byte, to_byte, text_hash) values ($1, $2, $3, $4, $5, $6, $7)")
                .bind(of.workspace_id)
                .bind(no)
                .bind(of.id)
                .bind(passage.part)
                .bind(i64::try_from(passage.range.start).unwrap_or(0))
                .bind(i64::try_from(passage.range.end).unwrap_or(0))
                .bind(passage.text_hash.clone())
                .run()
                .await?;
            store::put_passage(c, of.workspace_id.0, no, &passage.document).await?;
        }
        Ok::<_, DbError>(true)
    })
    .await
}

/// Notes the last part in the index; `None` if there are no more parts.
async fn finish(db: &Db, set: &OpenSet, last: Option<i64>) -> Result<(), DbError> {
    let of = set.clone();
    db.write(set.workspace_id.0, async move |c: &mut Conn| {
        if !is_current(c, &of).await? {
            return Ok(());
        }
        c.q("update passage_sets set parts_done = $2, is_complete = $3 where id = $1")
            .bind(of.id)
            .bind(last.unwrap_or(of.parts_done))
            .bind(last.is_none())
            .run()
            .await?;
        Ok::<_, DbError>(())
    })
    .await
}

/// Removes the next passages of deleted files. Returns false if there are none.
///
/// # Errors
/// Only database errors.
pub async fn remove_next(db: &Db) -> Result<bool, DbError> {
    let set: Option<(Uuid, WorkspaceId)> = db
        .read()
        .await?
        .q("select id, workspace_id from passage_sets where file_id is null order by created_at limit 1")
        .opt()
        .await?;
    let Some((id, workspace)) = set else {
        return Ok(false);
    };
    db.write(workspace.0, async move |c: &mut Conn| {
        let passages: Vec<(i64, String)> = c
            .q("select no, text_hash from passages where set_id = $1 order by no limit $2")
            .bind(id)
            .bind(i64::try_from(AT_ONCE).unwrap_or(1))
            .all()
            .await?;
        let count = passages.len();
        remove(c, workspace, passages).await?;
        if count < AT_ONCE {
            c.q("delete from passage_sets where id = $1 and file_id is null")
                .bind(id)
                .run()
                .await?;
        }
        Ok::<_, DbError>(())
    })
    .await?;
    Ok(true)
}
