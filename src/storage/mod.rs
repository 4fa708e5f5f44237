//! Stores of blobs outside the database: a directory and an S3 bucket. This module does not access database rows.
//!
//! Every upload has its own location, even if the same bytes are also stored elsewhere, and no location is used twice. Therefore the
//! process that removed the row for a location can delete the bytes there without a lock against other processes.

mod bucket;
pub mod directory;

pub use bucket::{AwsVariables, Bucket, BucketError, BucketUrl, NotWritable, StoredObject};

use std::path::PathBuf;

use uuid::Uuid;

use crate::text_enum::text_enum;

/// Size, in bytes, up to which blobs are never stored in the bucket.
pub const LOCAL_BYTES_MAX: u64 = 64 * 1024;
/// Key in `meta` for the URL of the bucket that contains the objects, which is still needed after the setting is removed.
pub const BUCKET_META_KEY: &str = "blobs_url";

text_enum! {
    /// Store of the bytes of a blob.
    pub enum BlobStore {
        /// Rows of `blob_chunks` on `PostgreSQL`.
        Db = "db",
        /// A file in the data directory, next to a `SQLite` database.
        File = "file",
        /// An object in the bucket of `OPENVIBE_BLOBS_URL`.
        S3 = "s3",
    }
}

/// Stored bytes: their SHA-256, and the upload that stored them.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct Blob {
    pub hash: String,
    pub upload_id: Uuid,
    pub store: BlobStore,
}

impl Blob {
    /// Key in the bucket, below its prefix.
    pub fn key(&self) -> String {
        format!("{}/{}", self.hash, self.upload_id)
    }

    /// Hash and upload of a key; `None` if it is not the key of a blob.
    pub fn parse_key(key: &str) -> Option<(&str, Uuid)> {
        let (hash, upload) = key.split_once('/')?;
        Some((hash, Uuid::parse_str(upload).ok()?)).filter(|_| is_hash(hash))
    }
}

/// Checks whether a string is a SHA-256 hash in lowercase hexadecimal digits.
pub fn is_hash(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

/// Settings for the stores of blobs.
#[derive(Debug, Clone, Default)]
pub struct BlobSettings {
    pub data_dir: PathBuf,
    /// Bucket for blobs larger than `LOCAL_BYTES_MAX`.
    pub bucket: Option<BucketUrl>,
    pub aws: AwsVariables,
}

impl BlobSettings {
    /// Opens the bucket for new blobs, if one is configured.
    ///
    /// # Errors
    /// Returns an error if the bucket is not writable.
    pub async fn open_bucket(&self) -> Result<Option<Bucket>, NotWritable> {
        let Some(url) = &self.bucket else {
            return Ok(None);
        };
        let failed = |e| NotWritable(url.clone(), e);
        let bucket = Bucket::new(url.clone(), &self.aws).map_err(failed)?;
        bucket.check_writable().await.map_err(failed)?;
        Ok(Some(bucket))
    }

    /// Returns the bucket that contains the stored blobs, for a server whose setting has been removed. `known` is the bucket's URL,
    /// which was stored while the setting was still present.
    ///
    /// # Errors
    /// Returns an error if the URL is not known, or a variable is invalid.
    pub fn known_bucket(&self, known: Option<&str>) -> Result<Bucket, BucketError> {
        let url = known.and_then(|url| BucketUrl::parse(url).ok());
        let unset = || {
            BucketError::Failed(
                "uploads are in S3, and OPENVIBE_BLOBS_URL is not set: set it to their bucket"
                    .to_owned(),
            )
        };
        Bucket::new(url.ok_or_else(unset)?, &self.aws)
    }
}
