//! Questions with their vectors, and the passages nearest to them.

use std::{collections::HashSet, sync::Arc, time::Duration};

use uuid::Uuid;

use super::{
    bits::{Bits, Place},
    clients::{Meaning, new_call},
    rows::ModelRow,
};
use crate::{
    blocking::blocking,
    db::{Conn, DbError, Json},
    ids::{UserId, WorkspaceId},
    model::EmbedRequest,
    sql_with_numbers,
};

/// Maximum length of a question in characters, which is that of a passage. The rest is left out.
const QUESTION_CHARS_MAX: usize = 1_200;

/// Result of asking for the vector of a question.
#[derive(Debug, Clone, Default)]
pub enum VectorAnswer {
    /// No model is named.
    #[default]
    Unused,
    /// A model is named, but words alone are searched this time: passages still get vectors, the server is slow or fails, or there is
    /// too little memory.
    Words,
    Vector(QuestionVector),
}

impl VectorAnswer {
    /// The vector, if there is one.
    pub fn vector(&self) -> Option<&QuestionVector> {
        match self {
            Self::Vector(vector) => Some(vector),
            Self::Unused | Self::Words => None,
        }
    }
}

/// The vector of a question, with the signs of all passages.
#[derive(Debug, Clone)]
pub struct QuestionVector {
    model: Uuid,
    values: Arc<[f32]>,
    bits: Bits,
}

#[derive(sqlx::FromRow)]
struct PickedRow {
    no: i64,
    set_id: Uuid,
    vector: Vec<u8>,
}

impl Meaning {
    /// Requests the vector of a question, for at most 300 ms. The call counts toward the budgets of the person, who must be a member.
    pub async fn ask(&self, workspace: WorkspaceId, user: UserId, question: &str) -> VectorAnswer {
        let question = question.trim();
        if self.is_quiet || question.is_empty() {
            return VectorAnswer::Unused;
        }
        let row = match self.find_serving(workspace).await {
            Ok(Serving::Unused) => return VectorAnswer::Unused,
            Ok(Serving::Nothing) => return VectorAnswer::Words,
            Ok(Serving::Model(row)) => *row,
            Err(e) => {
                tracing::warn!(error = %e, "files are searched by words alone");
                return VectorAnswer::Words;
            }
        };
        let found = async {
            let (values, bits) =
                tokio::join!(self.request_one(&row, user, question), self.bits(&row));
            Some((values?, bits?))
        };
        let found = tokio::time::timeout(self.wait, Box::pin(found)).await;
        let Some((values, bits)) = found.ok().flatten() else {
            return VectorAnswer::Words;
        };
        // The server may have another model by now.
        if i64::try_from(values.len()).ok() != row.dimensions {
            return VectorAnswer::Words;
        }
        VectorAnswer::Vector(QuestionVector {
            model: row.id,
            values: values.into(),
            bits,
        })
    }

    /// Checks whether a model is named for a workspace.
    ///
    /// # Errors
    /// Only database errors.
    pub async fn is_used(&self, workspace: WorkspaceId) -> Result<bool, DbError> {
        if self.is_quiet {
            return Ok(false);
        }
        let mut c = self.db.read().await?;
        Ok(self.find_current(&mut c, workspace).await?.is_some())
    }

    async fn find_serving(&self, workspace: WorkspaceId) -> Result<Serving, DbError> {
        let mut c = self.db.read().await?;
        if self.find_current(&mut c, workspace).await?.is_none() {
            return Ok(Serving::Unused);
        }
        let row = ModelRow::find_serving(&mut c, workspace).await?;
        Ok(row.map_or(Serving::Nothing, |row| Serving::Model(Box::new(row))))
    }

    async fn request_one(&self, row: &ModelRow, user: UserId, question: &str) -> Option<Vec<f32>> {
        let asked = async {
            let Some(provider) = self.provider_of(row).await? else {
                return Ok(None);
            };
            let request = EmbedRequest {
                model: row.model.clone(),
                texts: vec![question.chars().take(QUESTION_CHARS_MAX).collect()],
            };
            let call = new_call(row, user, &request);
            let Ok(call) = self.calls.begin(&provider, call, Duration::ZERO).await? else {
                return Ok(None);
            };
            // The end of the call is stored in the background.
            let embedded = call.embed(request).await;
            Ok::<_, DbError>(
                embedded
                    .ok()
                    .and_then(|embedded| embedded.vectors.into_iter().next()),
            )
        };
        asked.await.unwrap_or_else(|e| {
            tracing::warn!(error = %e, "the vector of a question cannot be requested");
            None
        })
    }

    /// The signs of all passages. Loading them continues in the background if the search does not wait for it.
    async fn bits(&self, row: &ModelRow) -> Option<Bits> {
        let (memory, db, row) = (Arc::clone(&self.memory), self.db.clone(), row.clone());
        let loading = self.calls.tracker.spawn(async move {
            memory.load(&db, &row).await.unwrap_or_else(|e| {
                tracing::warn!(error = %e, "vectors cannot be loaded");
                None
            })
        });
        loading.await.ok().flatten()
    }

    /// Frees the memory of workspaces that have not been searched for 10 minutes.
    pub fn free_idle(&self) {
        self.memory.free_idle();
    }
}

/// The model that searches use.
enum Serving {
    /// No model is named.
    Unused,
    /// The first model does not have all vectors yet.
    Nothing,
    Model(Box<ModelRow>),
}

impl QuestionVector {
    /// The passages of these sets that are nearest to the question, with their similarity from -1 to 1, best first.
    ///
    /// # Errors
    /// Only database errors.
    pub async fn nearest(
        &self,
        c: &mut Conn,
        workspace: Uuid,
        sets: HashSet<Uuid>,
    ) -> Result<Vec<(i64, f64)>, DbError> {
        let (bits, values) = (self.bits.clone(), Arc::clone(&self.values));
        let pick = move || bits.pick(&values, &sets);
        let picked = if c.is_on_own_thread() {
            pick()
        } else {
            blocking((), pick).await.unwrap_or_default()
        };
        // The number of a passage that was removed can belong to one of another file by now.
        let places: HashSet<(i64, Uuid)> = picked.iter().map(|of| (of.no, of.set)).collect();
        let numbers: Vec<i64> = picked.into_iter().map(|Place { no, .. }| no).collect();
        let sql = sql_with_numbers!(
            c,
            "select p.no, p.set_id, e.vector from passages p join embeddings e on e.model_id = $2 and e.text_hash = p.text_hash \
             where p.workspace_id = $1 and p.no in",
            3,
            "order by p.no"
        );
        let rows: Vec<PickedRow> = c
            .q(sql)
            .bind(workspace)
            .bind(self.model)
            .bind(Json(numbers))
            .all()
            .await?;
        let rows = rows.into_iter();
        let rows = rows.filter(|row| places.contains(&(row.no, row.set_id)));
        let mut ranked: Vec<(i64, f64)> = rows
            .map(|row| (row.no, similarity(&self.values, &row.vector)))
            .collect();
        ranked.sort_by(|a, b| b.1.total_cmp(&a.1).then(b.0.cmp(&a.0)));
        Ok(ranked)
    }
}

/// Cosine of a question and a vector of bytes; 0 if one of them has only zeros.
pub fn similarity(question: &[f32], vector: &[u8]) -> f64 {
    let (mut product, mut squares, mut byte_squares) = (0.0, 0.0, 0.0);
    for (value, byte) in question.iter().zip(vector) {
        let (value, byte) = (f64::from(*value), f64::from(byte.cast_signed()));
        product += value * byte;
        squares += value * value;
        byte_squares += byte * byte;
    }
    let length: f64 = f64::sqrt(squares) * f64::sqrt(byte_squares);
    if length > 0.0 { product / length } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meaning::vector::to_bytes;

    #[test]
    fn similarity_is_the_cosine() {
        let of = |a: &[f32], b: &[f32]| similarity(a, &to_bytes(b));
        let is_about = |value: f64, wanted: f64| (value - wanted).abs() < 0.01;
        assert!(is_about(of(&[1.0, 2.0, -3.0], &[10.0, 20.0, -30.0]), 1.0));
        assert!(is_about(of(&[1.0, 0.0], &[-4.0, 0.0]), -1.0));
        assert!(is_about(of(&[1.0, 0.0], &[3.0, 4.0]), 0.6));
        assert!(is_about(of(&[1.0, 0.0], &[0.0, 0.0]), 0.0));
        assert!(is_about(of(&[0.0, 0.0], &[1.0, 0.0]), 0.0));
    }

    #[test]
    fn bytes_keep_the_nearest_vectors() {
        // A fixed sequence of numbers from -1 to 1, in which each vector is near those with the same remainder.
        let mut state = 7_u32;
        let mut random = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            f32::from(u16::try_from(state >> 16).unwrap()) / 32_768.0 - 1.0
        };
        let centers: Vec<Vec<f32>> = (0..40)
            .map(|_| (0..256).map(|_| random()).collect())
            .collect();
        let vectors: Vec<Vec<f32>> = (0..2_000)
            .map(|n| {
                centers[n % 40]
                    .iter()
                    .map(|value| value + random())
                    .collect()
            })
            .collect();
        let exact = |a: &[f32], b: &[f32]| -> f32 {
            let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
            dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
        };
        let mut bits = Bits::default();
        let bytes: Vec<Vec<u8>> = vectors.iter().map(|vector| to_bytes(vector)).collect();
        for (no, vector) in (0..).zip(&bytes) {
            let set = Uuid::nil();
            bits.add(Place { no, set }, vector);
        }
        let allowed = HashSet::from([Uuid::nil()]);
        let mut kept = 0;
        for question in &centers {
            let scores: Vec<f32> = vectors
                .iter()
                .map(|vector| exact(question, vector))
                .collect();
            let mut best: Vec<usize> = (0..vectors.len()).collect();
            best.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]));
            let wanted: HashSet<i64> = best[..20]
                .iter()
                .map(|n| i64::try_from(*n).unwrap())
                .collect();
            let mut found: Vec<(i64, f64)> = bits
                .pick(question, &allowed)
                .into_iter()
                .map(|place| {
                    let vector = &bytes[usize::try_from(place.no).unwrap()];
                    (place.no, similarity(question, vector))
                })
                .collect();
            found.sort_by(|a, b| b.1.total_cmp(&a.1));
            let found = found.iter().take(20);
            kept += found.filter(|(no, _)| wanted.contains(no)).count();
        }
        assert!(kept * 100 >= 97 * 20 * centers.len(), "{kept}");
    }
}
