//! Search in a collection.

use std::{collections::HashMap, time::Duration};

use super::{
    CollectionError,
    contents::Attributes,
    filters::AttributeFilter,
    stores::{StoreRef, find},
};
use crate::{
    auth::Actor,
    chat::search::passages::find::{FoundText, PassageFilter, PassageReader, find_any},
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
    pub store: VectorStoreId,
    /// Set if this use of the store is to be noted with `note_use`.
    pub unused_since: Option<Timestamp>,
    pub hits: Vec<StoreHit>,
}

/// Searches a vector store that the person can read.
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
    let row = find(c, actor, named).await?;
    let (store, used_at) = (row.id, row.last_active_at);
    let reader = PassageReader {
        workspace: actor.workspace,
        user: actor.user.0,
        shared_in: None,
    };
    let of = PassageFilter {
        store: Some(store),
        ..PassageFilter::default()
    };
    let found = find_any(c, reader, of, search.query, FOUND_MAX).await?;
    let attributes = attributes(c, store).await?;
    let hits = found.into_iter().filter_map(|passage| {
        let attributes = attributes.get(&passage.file)?.clone();
        let is_permitted = filter
            .as_ref()
            .is_none_or(|filter| filter.permits(&attributes));
        (is_permitted && passage.score >= search.score_min).then_some(StoreHit {
            passage,
            attributes,
        })
    });
    Ok(StoreHits {
        store,
        unused_since: Some(used_at).filter(|at| now().since(*at) >= NOTED_EVERY),
        hits: hits.take(search.limit).collect(),
    })
}

/// Notes that a vector store was used, from which its expiry counts. `before` is the last use that was noted.
///
/// # Errors
/// Only database errors.
pub async fn note_use(
    c: &mut Conn,
    store: VectorStoreId,
    before: Timestamp,
) -> Result<(), DbError> {
    c.q("update vector_stores set last_active_at = $2 where id = $1 and last_active_at = $3")
        .bind(store)
        .bind(now())
        .bind(before)
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
