//! Search in a collection.

use std::{collections::HashMap, time::Duration};

use super::{
    CollectionError,
    contents::Attributes,
    filters::AttributeFilter,
    stores::{SearchedFiles, StoreRef, find, find_for},
};
use crate::{
    auth::Actor,
    chat::search::passages::find::{FoundText, find_any},
    db::{Conn, DbError, now},
    ids::{FileId, VectorStoreId},
    time::Timestamp,
};

/// Interval at which the use of a vector store is noted, so that not every search writes.
const NOTED_EVERY: Duration = Duration::from_hours(1);
/// Maximum number of passages of which those that the filters permit are selected.
const FOUND_MAX: usize = 200;

/// A search: words, and conditions.
#[derive(Debug)]
pub struct StoreSearch<'a> {
    pub query: &'a str,
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
/// `NotFound`, `Invalid`.
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
        let last_use = StoreUse {
            store: row.id,
            before: row.last_active_at,
        };
        (SearchedFiles::OfStore(row.id).filter(), Some(last_use))
    };
    let count = if filter.is_some() {
        FOUND_MAX
    } else {
        search.limit
    };
    let found = find_any(c, actor.into(), of, search.query, count).await?;
    let attributes = match of.store {
        Some(store) => attributes(c, store).await?,
        None => HashMap::new(),
    };
    let hits = found.into_iter().filter_map(|passage| {
        let attributes = attributes.get(&passage.file).cloned().unwrap_or_default();
        let is_permitted = filter
            .as_ref()
            .is_none_or(|filter| filter.permits(&attributes));
        (is_permitted && passage.score >= search.score_min).then_some(StoreHit {
            passage,
            attributes,
        })
    });
    Ok(StoreHits {
        to_note: last_use.filter(|last| now().since(last.before) >= NOTED_EVERY),
        hits: hits.take(search.limit).collect(),
    })
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
