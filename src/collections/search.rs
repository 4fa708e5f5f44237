//! Search in a collection.

use std::{collections::HashMap, time::Duration};

use super::{
    CollectionError,
    contents::Attributes,
    filters::AttributeFilter,
    stores::{SearchedFiles, StoreRef, expiry, find, find_for},
};
use crate::{
    auth::Actor,
    chat::search::passages::find::{
        FileReader, FoundText, PassageFilter, PassageQuestion, find_any, find_any_among,
    },
    db::{Conn, DbError, now},
    ids::{FileId, VectorStoreId},
    time::Timestamp,
};

/// Interval at which the use of a vector store is noted, so that not every search writes.
const NOTED_EVERY: Duration = Duration::from_hours(1);

/// A search: a question, and conditions.
#[derive(Debug)]
pub struct StoreSearch<'a> {
    pub question: PassageQuestion<'a>,
    pub filters: Option<&'a serde_json::Value>,
    pub limit: usize,
    /// Minimum share of the score of the best hit.
    pub score_min: f64,
}

/// A passage with the attributes of its file.
#[derive(Debug, Clone)]
pub struct StoreHit {
    pub passage: FoundText,
    pub attributes: Attributes,
}

/// Hits of a search in a vector store, best first.
#[derive(Debug)]
pub struct StoreHits {
    /// Set if this use of the store is to be noted.
    pub to_note: Option<StoreUse>,
    pub hits: Vec<StoreHit>,
}

/// Use of a vector store.
#[derive(Debug, Clone, Copy)]
pub struct StoreUse {
    store: VectorStoreId,
    /// The last use that was noted.
    before: Timestamp,
}

/// Searches a vector store that the person can read, or the files of a channel.
///
/// # Errors
/// `NotFound`, `Expired`, `Invalid`.
pub async fn search(
    c: &mut Conn,
    actor: &Actor<'_>,
    named: &StoreRef,
    search: &StoreSearch<'_>,
) -> Result<StoreHits, CollectionError> {
    let filter = search.filters.map(AttributeFilter::parse).transpose()?;
    let (of, last_use) = if let StoreRef::Channel(_) = named {
        let found = find_for(c, actor.into(), named).await?;
        (found.ok_or(CollectionError::NotFound)?.filter(), None)
    } else {
        let row = find(c, actor, named).await?;
        if let Some(days) = row.expired_after() {
            return Err(CollectionError::Expired(days));
        }
        let last_use = StoreUse {
            store: row.id,
            before: row.last_active_at,
        };
        (SearchedFiles::OfStore(row.id).filter(), Some(last_use))
    };
    let hits = find_hits(c, actor.into(), of, filter.as_ref(), search).await?;
    Ok(StoreHits {
        to_note: last_use.filter(|last| now().since(last.before) >= NOTED_EVERY),
        hits,
    })
}

/// Checks the filters of a search.
///
/// # Errors
/// `Invalid`.
pub fn check_filters(filters: &serde_json::Value) -> Result<(), CollectionError> {
    AttributeFilter::parse(filters).map(drop)
}

/// Searches a vector store or the files of a channel for a reader, without noting the use.
///
/// # Errors
/// `NotFound`, also for a vector store that has expired; `Invalid`.
pub async fn search_for(
    c: &mut Conn,
    reader: FileReader,
    named: &StoreRef,
    search: &StoreSearch<'_>,
) -> Result<Vec<StoreHit>, CollectionError> {
    let filter = search.filters.map(AttributeFilter::parse).transpose()?;
    let files = find_for(c, reader, named).await?;
    let of = files.ok_or(CollectionError::NotFound)?.filter();
    Ok(find_hits(c, reader, of, filter.as_ref(), search).await?)
}

/// Finds the passages of a vector store or channel that the filter permits, best first.
async fn find_hits(
    c: &mut Conn,
    reader: FileReader,
    of: PassageFilter,
    filter: Option<&AttributeFilter>,
    search: &StoreSearch<'_>,
) -> Result<Vec<StoreHit>, DbError> {
    let mut attributes = match of.store {
        Some(store) => attributes(c, store).await?,
        None => HashMap::new(),
    };
    let none = Attributes::new();
    let found = match filter {
        None => find_any(c, reader, of, search.question, search.limit).await?,
        // The files of a channel have no attributes.
        Some(filter) if of.store.is_none() && filter.permits(&none) => {
            find_any(c, reader, of, search.question, search.limit).await?
        }
        Some(filter) => {
            attributes.retain(|_, attributes| filter.permits(attributes));
            let files: Vec<FileId> = attributes.keys().copied().collect();
            if files.is_empty() {
                return Ok(Vec::new());
            }
            find_any_among(c, reader, of, &files, search.question, search.limit).await?
        }
    };
    let hits = found.into_iter();
    let hits = hits.filter(|passage| passage.score >= search.score_min);
    let hits = hits.map(|passage| StoreHit {
        attributes: attributes.get(&passage.file).cloned().unwrap_or_default(),
        passage,
    });
    Ok(hits.collect())
}

/// Notes that a vector store was used, from which its expiry counts.
///
/// # Errors
/// Only database errors.
pub async fn note_use(c: &mut Conn, last: StoreUse) -> Result<(), DbError> {
    c.q("update vector_stores set last_active_at = $2 where id = $1 and last_active_at = $3")
        .bind(last.store)
        .bind(now())
        .bind(last.before)
        .run()
        .await?;
    Ok(())
}

/// Uses to note after passages of a file were given to an agent: of the vector stores with the file that have not expired.
///
/// # Errors
/// Only database errors.
pub async fn list_uses(c: &mut Conn, file: FileId) -> Result<Vec<StoreUse>, DbError> {
    let stores: Vec<(VectorStoreId, Timestamp, Option<i64>)> = c
        .q("select v.id, v.last_active_at, v.expires_after_days from vector_store_files vf join vector_stores v on v.id = vf.store_id \
            where vf.file_id = $1 and v.deleted_at is null order by v.id limit 200")
        .bind(file)
        .all()
        .await?;
    let at = now();
    let stores = stores.into_iter();
    let due = stores.filter(|(_, before, days)| {
        at.since(*before) >= NOTED_EVERY && expiry(*before, *days).is_none_or(|end| end > at)
    });
    Ok(due
        .map(|(store, before, _)| StoreUse { store, before })
        .collect())
}

async fn attributes(
    c: &mut Conn,
    store: VectorStoreId,
) -> Result<HashMap<FileId, Attributes>, DbError> {
    let rows: Vec<(FileId, String)> = c
        .q("select file_id, attributes from vector_store_files where store_id = $1")
        .bind(store)
        .all()
        .await?;
    let parsed = rows.into_iter();
    let parsed = parsed.map(|(id, text)| (id, serde_json::from_str(&text).unwrap_or_default()));
    Ok(parsed.collect())
}
