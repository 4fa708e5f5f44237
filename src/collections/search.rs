//! Search in a collection.

use std::collections::HashMap;

use super::{
    CollectionError,
    contents::Attributes,
    filters::AttributeFilter,
    stores::{StoreRef, find},
};
use crate::{
    auth::Actor,
    chat::search::passages::find::{FoundText, PassageFilter, PassageReader, find_any},
    db::{Conn, DbError},
    ids::{FileId, VectorStoreId},
};

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

/// Searches a vector store that the person can read.
///
/// # Errors
/// `NotFound`, `Invalid`.
pub async fn search(
    c: &mut Conn,
    actor: &Actor<'_>,
    named: &StoreRef,
    search: &StoreSearch<'_>,
) -> Result<(VectorStoreId, Vec<StoreHit>), CollectionError> {
    let filter = search.filters.map(AttributeFilter::parse).transpose()?;
    let store = find(c, actor, named).await?.id;
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
    Ok((store, hits.take(search.limit).collect()))
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
