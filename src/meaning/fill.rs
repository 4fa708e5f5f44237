//! The job that requests the vectors of passages.

use std::{
    collections::HashSet,
    sync::{Arc, PoisonError},
    time::{Duration, Instant},
};

use uuid::Uuid;

use super::{
    clients::{Meaning, new_call},
    rows::{self, ModelRow},
    settings::TEST_TEXT,
    text::{passage_text, text_hash},
    vector,
};
use crate::{
    db::{Conn, DbError, now},
    files::documents::{self, DocumentPart},
    ids::{UserId, WorkspaceId},
    model::{CollectError, EmbedRequest, Embedded, ModelError, Provider, estimate_tokens},
    secrets::{self, Sealed},
    tasks::calls::CallError,
};

/// Maximum number of texts of a call, and of their estimated tokens. A server that accepts fewer texts gets fewer after its refusal.
const TEXTS_MAX: usize = 64;
const TOKENS_MAX: u64 = 32_000;
/// Maximum number of passages that are looked at for a call.
const PASSAGES_AT_ONCE: i64 = 500;
/// Maximum number of workspaces whose servers are asked at a time.
const WORKSPACES_AT_ONCE: usize = 4;
/// Time limit of the calls for a batch.
const CALLS_WITHIN: Duration = Duration::from_mins(1);
/// Time for which a server is asked in a turn, so that the others do not wait for a slow one.
const TURN: Duration = Duration::from_secs(20);
/// A text that is too long for the model is sent again with its first half, and at last with this part of its characters.
const PART_MIN: usize = 32;
/// Interval between counts of the passages that wait.
const COUNTED_EVERY: Duration = Duration::from_secs(10);
/// Waits after failures; the last one is repeated.
const WAITS: [Duration; 3] = [
    Duration::from_mins(1),
    Duration::from_mins(5),
    Duration::from_mins(25),
];

/// A passage that may need a vector.
#[derive(sqlx::FromRow)]
struct PassageRow {
    no: i64,
    text_hash: String,
    part: i64,
    from_byte: i64,
    to_byte: i64,
    /// Hash of the file's bytes; `None` once the file is deleted.
    hash: Option<String>,
    has_vector: bool,
}

/// Texts for one call.
#[derive(Default)]
struct Batch {
    /// Passages that are done after the call: their numbers, and the hashes of their texts.
    covered: Vec<(i64, String)>,
    texts: Vec<NewText>,
}

/// A text that has no vector yet.
struct NewText {
    hash: String,
    text: String,
    /// Number of covered passages before its own.
    before: usize,
}

impl Batch {
    /// Leaves all texts but the first ones to later calls.
    fn truncate(&mut self, count: usize) {
        if let Some(next) = self.texts.get(count) {
            self.covered.truncate(next.before);
        }
        self.texts.truncate(count);
    }
}

/// Vectors of a batch, or the error instead of them.
enum Filled {
    Vectors(Embedded),
    /// The server accepts other texts, but not the only one of the batch.
    Refused(String),
    /// The batch waits.
    Failed(String),
}

impl Meaning {
    /// Requests the next vectors of passages in a few workspaces, and removes those of models that are not used any longer. Returns false if
    /// there was nothing to do.
    ///
    /// # Errors
    /// Only database errors. Failures of servers are stored, and wait.
    pub async fn fill_next(&self) -> Result<bool, DbError> {
        if self.is_quiet {
            return Ok(false);
        }
        let has_begun = self.begin_configured().await?;
        let mut c = self.db.read().await?;
        let limit = i64::try_from(WORKSPACES_AT_ONCE).unwrap_or(1);
        let due = ModelRow::list_due(&mut c, self.environment.is_some(), limit).await?;
        let unused = rows::find_unused(&mut c).await?;
        drop(c);
        let due: Vec<ModelRow> = due
            .into_iter()
            .filter(|row| self.environment.as_ref().is_none_or(|of| of.is_of(row)))
            .collect();
        let has_more = has_begun || !due.is_empty() || unused.is_some();
        let mut fills = Vec::with_capacity(due.len());
        for row in &due {
            fills.push(self.fill_for_turn(row));
        }
        for done in futures::future::join_all(fills).await {
            done?;
        }
        self.count_pending().await?;
        if let Some((model, workspace)) = unused {
            self.db
                .write(workspace.0, async move |c: &mut Conn| {
                    rows::delete_unused(c, model).await
                })
                .await?;
        }
        Ok(has_more)
    }

    /// Counts the passages, and those that wait, at most every few seconds.
    #[expect(
        clippy::cast_precision_loss,
        reason = "a gauge is a floating-point number"
    )]
    async fn count_pending(&self) -> Result<(), DbError> {
        {
            let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
            if counted.is_some_and(|at| at.elapsed() < COUNTED_EVERY) {
                return Ok(());
            }
            *counted = Some(Instant::now());
        }
        let mut c = self.db.read().await?;
        let pending = rows::count_pending(&mut c, self.environment.is_some()).await?;
        metrics::gauge!("openvibe_embeddings_pending").set(pending as f64);
        let all = rows::count_passages(&mut c).await?;
        metrics::gauge!("openvibe_passages").set(all as f64);
        Ok(())
    }

    /// Inserts the model of the environment in workspaces with passages. Returns false if all of them have it.
    async fn begin_configured(&self) -> Result<bool, DbError> {
        let Some(environment) = &self.environment else {
            return Ok(false);
        };
        let base_url = environment.shown_url();
        let mut c = self.db.read().await?;
        let found = rows::list_without(&mut c, base_url.as_deref(), &environment.model).await?;
        drop(c);
        let has_found = !found.is_empty();
        for (workspace,) in found {
            let row = new_row(workspace, base_url.clone(), environment.model.clone(), true);
            self.db
                .write(workspace.0, async move |c: &mut Conn| {
                    // Earlier vectors of the same model are used again.
                    let known = ModelRow::list(c, workspace).await?;
                    let same = known.into_iter().find(|known| {
                        known.is_environment
                            && known.model == row.model
                            && known.base_url == row.base_url
                    });
                    same.unwrap_or_else(|| row.clone()).make_current(c).await
                })
                .await?;
        }
        Ok(has_found)
    }

    /// Requests vectors for a model until there are no more, or until its turn is over.
    async fn fill_for_turn(&self, row: &ModelRow) -> Result<(), DbError> {
        let began = Instant::now();
        let mut row = row.clone();
        loop {
            self.fill(&row).await?;
            let mut c = self.db.read().await?;
            let next = ModelRow::find(&mut c, row.id).await?;
            let next = next.filter(|next| next.is_current && next.retry_at.is_none());
            let Some(next) = next else {
                return Ok(());
            };
            let is_done = next.is_serving && next.is_full(&mut c).await?;
            if is_done || began.elapsed() > TURN {
                return Ok(());
            }
            row = next;
        }
    }

    /// Requests the next vectors for a model, or lets it serve if there are none.
    async fn fill(&self, row: &ModelRow) -> Result<(), DbError> {
        let mut batch = self.next_batch(row).await?;
        if batch.texts.is_empty() {
            return self.store(row, batch, None).await;
        }
        match self.request(row, &mut batch).await? {
            Filled::Vectors(embedded) => {
                let size = i64::try_from(embedded.dimensions()).unwrap_or(i64::MAX);
                if row.dimensions.is_some_and(|known| known != size) {
                    return self.begin_other_size(row, size).await;
                }
                self.store(row, batch, Some(embedded)).await
            }
            Filled::Refused(error) => {
                tracing::warn!(workspace.id = %row.workspace_id, error, "the server for embeddings refuses a passage, which gets no vector");
                self.store(row, batch, None).await
            }
            Filled::Failed(error) => self.wait(row, error).await,
        }
    }

    /// Texts of the next passages without vectors.
    async fn next_batch(&self, row: &ModelRow) -> Result<Batch, DbError> {
        let mut c = self.db.read().await?;
        let passages: Vec<PassageRow> = c
            .q("select p.no, p.text_hash, p.part, p.from_byte, p.to_byte, f.hash, \
                exists (select 1 from embeddings e where e.model_id = $2 and e.text_hash = p.text_hash) as has_vector \
                from passages p join passage_sets s on s.id = p.set_id left join files f on f.id = s.file_id \
                where p.workspace_id = $1 and p.no > $3 order by p.no limit $4")
            .bind(row.workspace_id)
            .bind(row.id)
            .bind(row.done_no)
            .bind(PASSAGES_AT_ONCE)
            .all()
            .await?;
        let mut batch = Batch::default();
        let mut known = HashSet::new();
        let mut tokens = 0;
        // The text of a part, which can have several MiB, is read once.
        let mut read: Option<((String, i64), Option<DocumentPart>)> = None;
        for passage in passages {
            let file = passage.hash.filter(|_| !passage.has_vector);
            if let Some(file) = file.filter(|_| !known.contains(&passage.text_hash)) {
                let of = (file, passage.part);
                if read.as_ref().is_none_or(|(place, _)| *place != of) {
                    drop(read.take());
                    let part = documents::find_part(&mut c, &of.0, of.1).await?;
                    read = Some((of, part));
                }
                let part = read.as_ref().and_then(|(_, part)| part.as_ref());
                let from = usize::try_from(passage.from_byte).unwrap_or(0);
                let to = usize::try_from(passage.to_byte).unwrap_or(0);
                let text = part.map_or_else(String::new, |part| passage_text(part, from..to));
                // A text that has changed, or whose passage has an empty hash, is about to be made into passages again.
                if !text.is_empty() && text_hash(&text) == passage.text_hash {
                    tokens += estimate_tokens(&text);
                    if batch.texts.len() == TEXTS_MAX
                        || (!batch.texts.is_empty() && tokens > TOKENS_MAX)
                    {
                        break;
                    }
                    known.insert(passage.text_hash.clone());
                    batch.texts.push(NewText {
                        hash: passage.text_hash.clone(),
                        text,
                        before: batch.covered.len(),
                    });
                }
            }
            batch.covered.push((passage.no, passage.text_hash));
        }
        Ok(batch)
    }

    /// Requests the vectors of a batch. If the server refuses it, some texts are left to later calls, down to a single one; a single text
    /// that is too long for the model is shortened.
    async fn request(&self, row: &ModelRow, batch: &mut Batch) -> Result<Filled, DbError> {
        let Some(provider) = self.provider_of(row).await? else {
            return Ok(Filled::Failed("no server is connected".to_owned()));
        };
        let mut c = self.db.read().await?;
        let admin = rows::find_admin(&mut c, row.workspace_id).await?;
        drop(c);
        let Some(user) = admin else {
            return Ok(Filled::Failed("the workspace has no admin".to_owned()));
        };
        let until = Instant::now() + CALLS_WITHIN;
        let mut part = 1;
        loop {
            let texts = batch.texts.iter();
            let texts = texts.map(|text| beginning(&text.text, part)).collect();
            let error = match self.embed(row, &provider, user, texts, until).await? {
                Ok(embedded) => return Ok(Filled::Vectors(embedded)),
                Err(CallError::Collect(CollectError::Model(error))) => error,
                Err(error) => return Ok(Filled::Failed(error.to_string())),
            };
            match error {
                ModelError::ContextTooLarge
                | ModelError::BadRequest(_)
                | ModelError::ModelMissing(_)
                    if batch.texts.len() > 1 =>
                {
                    batch.truncate(batch.texts.len().div_ceil(4));
                }
                ModelError::ContextTooLarge if part < PART_MIN => part *= 2,
                ModelError::ContextTooLarge
                | ModelError::BadRequest(_)
                | ModelError::ModelMissing(_) => {
                    // The reason is the text only if the server accepts another one.
                    let other = vec![TEST_TEXT.to_owned()];
                    let accepted = self.embed(row, &provider, user, other, until).await?;
                    return Ok(match accepted {
                        Ok(_) => Filled::Refused(error.to_string()),
                        Err(error) => Filled::Failed(error.to_string()),
                    });
                }
                error => return Ok(Filled::Failed(error.to_string())),
            }
        }
    }

    /// Requests the vectors of texts with one call, which ends at `until` at the latest.
    async fn embed(
        &self,
        row: &ModelRow,
        provider: &Arc<dyn Provider>,
        user: UserId,
        texts: Vec<String>,
        until: Instant,
    ) -> Result<Result<Embedded, CallError>, DbError> {
        let request = EmbedRequest {
            model: row.model.clone(),
            texts,
        };
        let call = new_call(row, user, &request);
        let call = match self.calls.begin(provider, call, Duration::ZERO).await? {
            Ok(call) => call,
            Err(over) => return Ok(Err(CallError::OverBudget(over))),
        };
        let embedded = tokio::time::timeout_at(until.into(), call.embed(request)).await;
        if embedded.is_err() {
            call.fail();
        }
        call.end().await?;
        Ok(match embedded {
            Ok(embedded) => embedded.map_err(|e| CollectError::Model(e).into()),
            Err(_) => Err(CollectError::Timeout.into()),
        })
    }

    /// Stores the vectors of a batch and the progress. At 100 %, the model begins to serve.
    async fn store(
        &self,
        row: &ModelRow,
        batch: Batch,
        embedded: Option<Embedded>,
    ) -> Result<(), DbError> {
        let row = row.clone();
        let Batch { covered, texts } = batch;
        let dimensions = embedded.as_ref().map(Embedded::dimensions);
        let dimensions = dimensions.and_then(|count| i64::try_from(count).ok());
        let vectors = embedded.into_iter().flat_map(|of| of.vectors);
        let hashes = texts.into_iter().map(|text| text.hash);
        let vectors: Vec<(String, Vec<u8>)> = hashes
            .zip(vectors.map(|of| vector::to_bytes(&of)))
            .collect();
        self.db
            .write(row.workspace_id.0, async move |c: &mut Conn| {
                let Some(now) = ModelRow::find(c, row.id)
                    .await?
                    .filter(|now| now.is_current)
                else {
                    return Ok(());
                };
                if let Some(dimensions) = dimensions {
                    if now.dimensions.is_some_and(|known| known != dimensions) {
                        return Ok(());
                    }
                    now.set_dimensions(c, dimensions).await?;
                }
                for (hash, vector) in &vectors {
                    now.put_vector(c, hash, vector).await?;
                }
                let last = covered.last().map_or(row.done_no, |(no, _)| *no);
                let present: Vec<(i64, String)> = c
                    .q("select no, text_hash from passages where workspace_id = $1 and no > $2 and no <= $3 order by no limit $4")
                    .bind(row.workspace_id)
                    .bind(row.done_no)
                    .bind(last)
                    .bind(PASSAGES_AT_ONCE)
                    .all()
                    .await?;
                // If passages were removed in the meantime, others may have got their numbers, so they are looked at again.
                let is_same = now.done_no == row.done_no && present == covered;
                let next = ModelRow {
                    done_no: if is_same { last } else { now.done_no },
                    failures: 0,
                    retry_at: None,
                    error: None,
                    ..now
                };
                next.save_progress(c).await?;
                if !next.is_serving && next.is_full(c).await? {
                    next.serve(c).await?;
                }
                Ok::<_, DbError>(())
            })
            .await
    }

    /// Lets the rest wait after a failure.
    async fn wait(&self, row: &ModelRow, error: String) -> Result<(), DbError> {
        let id = row.id;
        tracing::warn!(workspace.id = %row.workspace_id, error, "passages wait for the server for embeddings");
        self.db
            .write(row.workspace_id.0, async move |c: &mut Conn| {
                let Some(now_row) = ModelRow::find(c, id).await?.filter(|row| row.is_current)
                else {
                    return Ok(());
                };
                waiting(now_row, error.clone()).save_progress(c).await
            })
            .await
    }

    /// Begins again with vectors of another size, which a server sends if somebody has replaced its model. The old vectors serve until
    /// then. Waits first, because a server could change its mind at each call.
    async fn begin_other_size(&self, row: &ModelRow, size: i64) -> Result<(), DbError> {
        let other = ModelRow {
            dimensions: Some(size),
            version: row.version,
            failures: row.failures,
            ..new_row(
                row.workspace_id,
                row.base_url.clone(),
                row.model.clone(),
                row.is_environment,
            )
        };
        let sealed = self.resealed(row, &other).await?;
        let (old, error) = (
            row.id,
            format!("the model has new vectors, of {size} values"),
        );
        self.db
            .write(row.workspace_id.0, async move |c: &mut Conn| {
                if ModelRow::find(c, old)
                    .await?
                    .is_none_or(|old| !old.is_current)
                {
                    return Ok(());
                }
                other.make_current(c).await?;
                if let Some(sealed) = &sealed {
                    secrets::put(c, &other.owner(), sealed).await?;
                }
                waiting(other.clone(), error.clone()).save_progress(c).await
            })
            .await
    }

    /// The key of a model, sealed for another one.
    async fn resealed(&self, from: &ModelRow, to: &ModelRow) -> Result<Option<Sealed>, DbError> {
        let mut c = self.db.read().await?;
        let sealed = secrets::find(&mut c, &from.owner()).await?;
        drop(c);
        let key = sealed.and_then(|sealed| self.keyring.open(&from.owner(), &sealed).ok());
        Ok(key.and_then(|key| self.keyring.seal(&to.owner(), &key).ok()))
    }
}

/// A model that becomes current.
fn new_row(
    workspace: WorkspaceId,
    base_url: Option<String>,
    model: String,
    is_environment: bool,
) -> ModelRow {
    ModelRow {
        id: Uuid::now_v7(),
        workspace_id: workspace,
        base_url,
        model,
        dimensions: None,
        is_environment,
        is_current: true,
        is_serving: false,
        version: 0,
        done_no: 0,
        rewinds: 0,
        failures: 0,
        retry_at: None,
        error: None,
    }
}

/// The row after one more failure.
fn waiting(row: ModelRow, error: String) -> ModelRow {
    let failures = usize::try_from(row.failures).unwrap_or(0);
    let wait = WAITS[failures.min(WAITS.len() - 1)];
    ModelRow {
        failures: row.failures.saturating_add(1),
        retry_at: Some(now() + wait),
        error: Some(error),
        ..row
    }
}

/// The first half, quarter, and so on, of a text.
fn beginning(text: &str, part: usize) -> String {
    let chars = text.chars().count().div_ceil(part);
    text.chars().take(chars).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_become_longer_after_failures() {
        let mut row = new_row(WorkspaceId::new(), None, "m".to_owned(), false);
        let minutes: Vec<u64> = (0..4)
            .map(|_| {
                row = waiting(row.clone(), "gone".to_owned());
                let wait = row.retry_at.unwrap().since(now());
                wait.as_secs().div_ceil(60)
            })
            .collect();
        assert_eq!(minutes, [1, 5, 25, 25]);
        assert_eq!(row.error.as_deref(), Some("gone"));
    }

    #[test]
    fn a_shorter_batch_covers_the_passages_before_its_next_text() {
        let text = |before| NewText {
            hash: String::new(),
            text: String::new(),
            before,
        };
        let mut batch = Batch {
            covered: (1..=20).map(|no| (no, String::new())).collect(),
            texts: vec![text(3), text(7), text(12)],
        };
        batch.truncate(3);
        assert_eq!(batch.covered.len(), 20);
        batch.truncate(2);
        assert_eq!((batch.covered.len(), batch.texts.len()), (12, 2));
        batch.truncate(1);
        assert_eq!((batch.covered.len(), batch.texts.len()), (7, 1));
    }

    #[test]
    fn texts_are_shortened_at_characters() {
        assert_eq!(beginning("äöüß", 1), "äöüß");
        assert_eq!(beginning("äöüß", 2), "äö");
        assert_eq!(beginning("äöü", 4), "ä");
    }
}
