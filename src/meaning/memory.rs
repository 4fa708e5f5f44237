//! Signs in memory: loaded at their first use, kept up to date by each search, and dropped when they are idle.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use uuid::Uuid;

use super::{
    bits::{Bits, Place, passage_bytes},
    rows::ModelRow,
};
use crate::db::{Db, DbError};

const GAUGE: &str = "openvibe_embedding_memory_bytes";
/// Time after which signs that no search uses are dropped.
const IDLE_MAX: Duration = Duration::from_mins(10);
/// Number of vectors that are read at a time.
const ROWS_AT_ONCE: usize = 2_000;
/// Signs of removed passages remain until they are more than those of the others, and more than this number.
const REMOVED_MAX: usize = 4_096;

/// Signs of all models that this process searches.
pub(super) struct Memory {
    bytes_max: u64,
    models: Mutex<HashMap<Uuid, Entry>>,
}

struct Entry {
    loaded: Arc<tokio::sync::Mutex<Loaded>>,
    /// Memory in use, or reserved, in bytes.
    bytes: u64,
    used: Instant,
    /// True once it was reported that there is too little memory.
    is_reported: bool,
}

/// Signs of the passages of a model up to a number.
#[derive(Default)]
struct Loaded {
    bits: Bits,
    upto: i64,
    rewinds: i64,
}

#[derive(sqlx::FromRow)]
struct VectorRow {
    no: i64,
    set_id: Uuid,
    vector: Vec<u8>,
}

impl Memory {
    pub(super) fn new(bytes_max: u64) -> Self {
        Self {
            bytes_max,
            models: Mutex::default(),
        }
    }

    fn models(&self) -> MutexGuard<'_, HashMap<Uuid, Entry>> {
        self.models.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Signs of all passages that have vectors of a model; `None` if there is too little memory for them.
    pub(super) async fn load(&self, db: &Db, row: &ModelRow) -> Result<Option<Bits>, DbError> {
        let dimensions = row.dimensions.and_then(|count| usize::try_from(count).ok());
        let Some(dimensions) = dimensions else {
            return Ok(None);
        };
        let loaded = {
            let mut models = self.models();
            let entry = models.entry(row.id).or_insert_with(|| Entry {
                loaded: Arc::default(),
                bytes: 0,
                used: Instant::now(),
                is_reported: false,
            });
            entry.used = Instant::now();
            Arc::clone(&entry.loaded)
        };
        let mut loaded = loaded.lock().await;
        if loaded.rewinds != row.rewinds {
            *loaded = Loaded {
                rewinds: row.rewinds,
                ..Loaded::default()
            };
        }
        if loaded.upto >= row.done_no {
            return Ok(Some(loaded.bits.clone()));
        }
        let mut c = db.read().await?;
        let counts: (i64, i64) = c
            .q("select count(*), count(case when no > $2 then 1 end) from passages where workspace_id = $1 and no <= $3")
            .bind(row.workspace_id)
            .bind(loaded.upto)
            .bind(row.done_no)
            .one()
            .await?;
        drop(c);
        let [all, added] = [counts.0, counts.1].map(|count| usize::try_from(count).unwrap_or(0));
        let kept = all.saturating_sub(added);
        let is_stale = loaded.bits.len().saturating_sub(kept) > kept.max(REMOVED_MAX);
        if is_stale {
            *loaded = Loaded {
                rewinds: row.rewinds,
                ..Loaded::default()
            };
        }
        let passages = if is_stale {
            all
        } else {
            loaded.bits.len() + added
        };
        if !self.reserve(row, bytes_of(passages, dimensions)) {
            *loaded = Loaded::default();
            return Ok(None);
        }
        while loaded.upto < row.done_no {
            // Other reads take turns with those of many vectors.
            let mut c = db.read().await?;
            let rows: Vec<VectorRow> = c
                .q("select p.no, p.set_id, e.vector from passages p join embeddings e on e.model_id = $2 and e.text_hash = p.text_hash \
                    where p.workspace_id = $1 and p.no > $3 and p.no <= $4 order by p.no limit $5")
                .bind(row.workspace_id)
                .bind(row.id)
                .bind(loaded.upto)
                .bind(row.done_no)
                .bind(i64::try_from(ROWS_AT_ONCE).unwrap_or(1))
                .all()
                .await?;
            let last = rows.last().filter(|_| rows.len() == ROWS_AT_ONCE);
            let upto = last.map_or(row.done_no, |last| last.no);
            for found in rows {
                if found.vector.len() == dimensions {
                    let place = Place {
                        no: found.no,
                        set: found.set_id,
                    };
                    loaded.bits.add(place, &found.vector);
                }
            }
            loaded.upto = upto;
        }
        Ok(Some(loaded.bits.clone()))
    }

    /// Checks whether the signs of this number of passages fit beside those of other models.
    pub(super) fn fits(&self, row: &ModelRow, passages: i64) -> bool {
        let count = usize::try_from(passages).unwrap_or(0);
        let dimensions = row.dimensions.and_then(|count| usize::try_from(count).ok());
        dimensions.is_none_or(|dimensions| {
            let bytes = bytes_of(count, dimensions);
            others(&self.models(), row.id).saturating_add(bytes) <= self.bytes_max
        })
    }

    /// Reserves memory for all signs of a model. Returns false if they do not fit beside those of others.
    fn reserve(&self, row: &ModelRow, bytes: u64) -> bool {
        let mut models = self.models();
        let fits = others(&models, row.id).saturating_add(bytes) <= self.bytes_max;
        if let Some(entry) = models.get_mut(&row.id) {
            entry.bytes = if fits { bytes } else { 0 };
            let was_reported = std::mem::replace(&mut entry.is_reported, !fits);
            if !fits && !was_reported {
                tracing::warn!(
                    workspace.id = %row.workspace_id,
                    bytes,
                    "OPENVIBE_EMBEDDING_MEMORY is too small: files are searched by words alone"
                );
            }
        }
        report(&models);
        fits
    }

    /// Drops signs that no search has used for a while.
    pub(super) fn free_idle(&self) {
        let mut models = self.models();
        models.retain(|_, entry| entry.used.elapsed() < IDLE_MAX);
        report(&models);
    }
}

/// Memory for the signs of passages in bytes.
fn bytes_of(passages: usize, dimensions: usize) -> u64 {
    passages.saturating_mul(passage_bytes(dimensions)) as u64
}

/// Memory for all models but one.
fn others(models: &HashMap<Uuid, Entry>, model: Uuid) -> u64 {
    let others = models.iter().filter(|(id, _)| **id != model);
    others.map(|(_, entry)| entry.bytes).sum()
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a gauge is a floating-point number"
)]
fn report(models: &HashMap<Uuid, Entry>) {
    let bytes: u64 = models.values().map(|entry| entry.bytes).sum();
    metrics::gauge!(GAUGE).set(bytes as f64);
}
