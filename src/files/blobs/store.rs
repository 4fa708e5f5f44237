//! The stores of this server's blobs.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use tokio::sync::{OnceCell, Semaphore};
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use super::chunks;
use crate::{
    db::{Conn, Db, DbError, Engine},
    files::FileError,
    storage::{
        BUCKET_META_KEY, Blob, BlobSettings, BlobStore, Bucket, BucketUrl, NotWritable, directory,
    },
};

/// Directory of incomplete files of the server.
const INCOMPLETE: &str = "tmp";
/// Directory of incomplete files of `openvibe blobs move`.
const MOVING: &str = "moving";
const STORED_BYTES: &str = "openvibe_upload_stored_bytes";

#[expect(
    clippy::cast_precision_loss,
    reason = "the precision suffices for a gauge"
)]
fn as_f64(bytes: u64) -> f64 {
    bytes as f64
}

pub(super) fn count_stored(size_bytes: u64) {
    metrics::gauge!(STORED_BYTES).increment(as_f64(size_bytes));
}

pub(super) fn count_removed(size_bytes: u64) {
    metrics::gauge!(STORED_BYTES).decrement(as_f64(size_bytes));
}

pub(super) fn set_stored(size_bytes: u64) {
    metrics::gauge!(STORED_BYTES).set(as_f64(size_bytes));
}

/// Maximum number of concurrent file operations, which are short. Limited because they continue after their request has been dropped.
static OPERATIONS: Semaphore = Semaphore::const_new(32);

/// Runs file operations that block.
pub(super) async fn blocking<T: Send + 'static>(
    act: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    // Fails only if the semaphore is closed, which never happens.
    let permit = OPERATIONS.acquire().await.ok();
    crate::blocking::blocking(permit, act)
        .await
        .map_err(io::Error::other)?
}

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(transparent)]
    NotWritable(#[from] NotWritable),
    #[error(
        "the uploads are still in {0}, and OPENVIBE_BLOBS_URL is {1}: unset it, run `openvibe blobs move`, and set it again"
    )]
    OtherBucket(String, BucketUrl),
    #[error("could not prepare the directory for uploads: {0}")]
    Io(#[from] io::Error),
    #[error(transparent)]
    Db(#[from] DbError),
}

/// Storage for blobs.
#[derive(Clone)]
pub struct Blobs {
    pub(super) db: Db,
    pub(super) directory: Arc<Path>,
    /// Directory of incomplete files of this process.
    incomplete: Arc<Path>,
    /// The configured bucket, if any.
    pub(super) bucket: Option<Bucket>,
    /// The bucket that still contains blobs although the setting has been removed.
    former_bucket: Arc<OnceCell<Bucket>>,
    settings: Arc<BlobSettings>,
    pub(super) tracker: TaskTracker,
}

impl Blobs {
    /// Prepares the storage of a server, whose data directory no other server uses, and removes leftovers of incomplete
    /// uploads.
    ///
    /// # Errors
    /// If the directory cannot be created or the bucket is not writable.
    pub async fn open(
        db: &Db,
        settings: BlobSettings,
        tracker: TaskTracker,
    ) -> Result<Self, OpenError> {
        let blobs = Self::prepare(db, settings, INCOMPLETE, tracker).await?;
        if blobs.uses_files() {
            for entry in std::fs::read_dir(&blobs.incomplete)? {
                std::fs::remove_file(entry?.path())?;
            }
        }
        Ok(blobs)
    }

    /// Like `open`, for a process that runs beside the server.
    ///
    /// # Errors
    /// As for `open`.
    pub async fn open_beside(
        db: &Db,
        settings: BlobSettings,
        tracker: TaskTracker,
    ) -> Result<Self, OpenError> {
        Self::prepare(db, settings, MOVING, tracker).await
    }

    async fn prepare(
        db: &Db,
        settings: BlobSettings,
        incomplete: &str,
        tracker: TaskTracker,
    ) -> Result<Self, OpenError> {
        let bucket = settings.open_bucket().await?;
        if let Some(bucket) = &bucket {
            note_bucket(db, bucket.url()).await?;
        }
        let directory = settings.data_dir.join("blobs");
        let blobs = Self {
            db: db.clone(),
            incomplete: directory.join(incomplete).into(),
            directory: directory.into(),
            bucket,
            former_bucket: Arc::default(),
            settings: Arc::new(settings),
            tracker,
        };
        if blobs.uses_files() {
            std::fs::create_dir_all(&blobs.incomplete)?;
            directory::sync(&blobs.settings.data_dir)?;
        }
        Ok(blobs)
    }

    /// Returns true if uploads are written to files, at least until they are complete.
    fn uses_files(&self) -> bool {
        self.db.engine() == Engine::Sqlite || self.bucket.is_some()
    }

    /// The bucket of blobs whose rows refer to S3.
    pub(super) async fn bucket(&self) -> Result<Bucket, FileError> {
        if let Some(bucket) = &self.bucket {
            return Ok(bucket.clone());
        }
        let open = || async {
            let url = known_bucket(&mut self.db.read().await?).await?;
            Ok::<_, FileError>(self.settings.known_bucket(url.as_deref())?)
        };
        Ok(self.former_bucket.get_or_try_init(open).await?.clone())
    }

    /// Path of the incomplete file of an upload.
    pub(super) fn incomplete_path(&self, upload: Uuid) -> PathBuf {
        self.incomplete.join(upload.simple().to_string())
    }

    /// Directory of the incomplete files of processes that move blobs. The cleanup removes these files once they are old enough.
    pub(super) fn moving_directory(&self) -> PathBuf {
        self.directory.join(MOVING)
    }

    /// Deletes bytes without a row.
    pub(super) async fn remove_bytes(&self, blob: Blob) -> Result<(), FileError> {
        match blob.store {
            BlobStore::Db => {
                chunks::remove(&self.db, blob.upload_id).await?;
            }
            BlobStore::File => {
                let directory = Arc::clone(&self.directory);
                blocking(move || directory::remove(&directory, &blob)).await?;
            }
            BlobStore::S3 => self.bucket().await?.delete(&blob.key()).await?,
        }
        Ok(())
    }
}

/// Finds the row for bytes with this hash; `None` if there is none.
pub(super) async fn locate(c: &mut Conn, hash: &str) -> Result<Option<Blob>, DbError> {
    c.q("select hash, upload_id, store from blobs where hash = $1")
        .bind(hash.to_owned())
        .opt()
        .await
}

async fn known_bucket(c: &mut Conn) -> Result<Option<String>, DbError> {
    let found: Option<(String,)> = c
        .q("select value from meta where key = $1")
        .bind(BUCKET_META_KEY.to_owned())
        .opt()
        .await?;
    Ok(found.map(|(url,)| url))
}

/// Stores the URL of the bucket, unless another bucket contains objects.
async fn note_bucket(db: &Db, url: &BucketUrl) -> Result<(), OpenError> {
    let text = url.to_string();
    let known = known_bucket(&mut db.read().await?).await?;
    if known.as_ref() == Some(&text) {
        return Ok(());
    }
    let new = text.clone();
    let known = db
        .write(Uuid::nil(), async move |c: &mut Conn| {
            c.q("insert into meta (key, value) values ($1, $2) on conflict (key) do update set value = excluded.value \
                 where not exists (select 1 from blobs where store = 's3')")
                .bind(BUCKET_META_KEY.to_owned())
                .bind(new.clone())
                .run()
                .await?;
            known_bucket(c).await
        })
        .await?;
    match known {
        Some(other) if other != text => Err(OpenError::OtherBucket(other, url.clone())),
        _ => Ok(()),
    }
}
