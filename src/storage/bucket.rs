//! An S3 bucket. Every operation has a deadline, and a limited number of transfers run at a time, each with at most
//! one part in memory.

use std::{
    collections::BTreeMap, error::Error, fmt, io, ops::Range, path::Path, sync::Arc, time::Duration,
};

use bytes::{Bytes, BytesMut};
use chrono::{DateTime, Utc};
use futures::{StreamExt, stream::BoxStream};
use object_store::{
    BackoffConfig, Certificate, ClientOptions, MultipartUpload, ObjectStore, ObjectStoreExt,
    PutPayload, RetryConfig,
    aws::{AmazonS3, AmazonS3Builder},
    path::Path as Key,
};
use tokio::{fs::File, io::AsyncReadExt, sync::Semaphore};

use crate::{outbound::Url, proxy, trust};

/// Size of the parts of a large upload: the minimum that S3 allows.
const PART_BYTES: u64 = 5 * 1024 * 1024;
/// Host of the default S3 server.
const AMAZON: &str = "s3.amazonaws.com";
/// Maximum number of concurrent transfers in this process.
const TRANSFERS_MAX: usize = 32;
const RETRIES_MAX: usize = 3;
const CONNECT_WITHIN: Duration = Duration::from_secs(3);
/// Maximum length of a cause in an error message.
const CAUSE_CHARS_MAX: usize = 300;
/// Object that is written at startup to check that the bucket is writable.
const PROBE: &str = "write-test";

/// URL of a bucket: `s3://BUCKET/PREFIX`; the prefix can be empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BucketUrl {
    bucket: String,
    prefix: Key,
}

impl BucketUrl {
    /// # Errors
    /// Returns an error if the text is not a URL of this form.
    pub fn parse(text: &str) -> Result<Self, String> {
        let invalid = || format!("`{text}` is not a URL such as s3://bucket/prefix");
        let rest = text.trim().strip_prefix("s3://").ok_or_else(invalid)?;
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let is_name =
            |b: u8| matches!(b, b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' | b'_');
        if bucket.is_empty() || !bucket.bytes().all(is_name) {
            return Err(invalid());
        }
        let prefix = Key::parse(prefix.trim_end_matches('/')).map_err(|_| invalid())?;
        if prefix.as_ref().contains(['?', '#']) {
            return Err(invalid());
        }
        Ok(Self {
            bucket: bucket.to_owned(),
            prefix,
        })
    }
}

impl fmt::Display for BucketUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s3://{}", self.bucket)?;
        match self.prefix.as_ref() {
            "" => Ok(()),
            prefix => write!(f, "/{prefix}"),
        }
    }
}

/// Environment variables whose names start with `AWS_`: credentials, region, endpoint, and options.
#[derive(Clone, Default)]
pub struct AwsVariables(BTreeMap<String, String>);

impl AwsVariables {
    /// Host of the S3 server.
    fn host(&self) -> String {
        let named = ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"];
        let mut urls = named.iter().filter_map(|name| {
            let (_, url) = self
                .0
                .iter()
                .find(|(known, _)| known.eq_ignore_ascii_case(name))?;
            Url::parse(url).ok()?.host_str().map(str::to_owned)
        });
        urls.next().unwrap_or_else(|| AMAZON.to_owned())
    }
}

impl FromIterator<(String, String)> for AwsVariables {
    fn from_iter<T: IntoIterator<Item = (String, String)>>(variables: T) -> Self {
        Self(variables.into_iter().collect())
    }
}

impl fmt::Debug for AwsVariables {
    /// Omits the values, which include secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

#[derive(Debug, thiserror::Error)]
pub enum BucketError {
    #[error("S3 did not respond within {} s", .0.as_secs())]
    TimedOut(Duration),
    #[error("{0}")]
    Failed(String),
    #[error("could not read the upload: {0}")]
    Io(#[from] io::Error),
}

/// Error if the write test in a bucket fails.
#[derive(Debug, thiserror::Error)]
#[error("cannot write to {0}: {1}: check the bucket and the AWS_* variables")]
pub struct NotWritable(pub BucketUrl, pub BucketError);

impl From<object_store::Error> for BucketError {
    fn from(e: object_store::Error) -> Self {
        Self::Failed(cause(&e))
    }
}

/// Returns the reason in the S3 response, or the original error if the response contains none.
fn cause(e: &object_store::Error) -> String {
    let full = e.to_string();
    let element = |name: &str| {
        let (_, rest) = full.split_once(&format!("<{name}>"))?;
        let (text, _) = rest.split_once(&format!("</{name}>"))?;
        Some(text.to_owned())
    };
    let text = match (element("Code"), element("Message")) {
        (Some(code), Some(message)) => format!("{code}: {message}"),
        (Some(code), None) => code,
        _ => {
            let mut inner: &dyn Error = e;
            while let Some(source) = inner.source() {
                inner = source;
            }
            inner.to_string()
        }
    };
    let words: Vec<&str> = text.split_whitespace().collect();
    let line: String = words.join(" ").chars().take(CAUSE_CHARS_MAX).collect();
    line.trim_end_matches([':', '.', ' ']).to_owned()
}

/// Time limits of a bucket.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    /// Time limit for one request.
    request_within: Duration,
    /// Time limit for an operation: one request with its retries, and the wait for a transfer slot.
    operation_within: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            request_within: Duration::from_secs(20),
            operation_within: Duration::from_secs(30),
        }
    }
}

/// An object below the prefix.
#[derive(Debug, Clone)]
pub struct StoredObject {
    /// Key without the prefix.
    pub key: String,
    pub size_bytes: u64,
    pub modified: DateTime<Utc>,
}

/// A bucket with a prefix.
#[derive(Clone)]
pub struct Bucket {
    url: Arc<BucketUrl>,
    store: Arc<AmazonS3>,
    turns: Arc<Semaphore>,
    bounds: Bounds,
}

impl Bucket {
    /// Prepares the client without connecting.
    ///
    /// # Errors
    /// Returns an error if a variable is invalid.
    pub fn new(url: BucketUrl, variables: &AwsVariables) -> Result<Self, BucketError> {
        Self::bounded(url, variables, Bounds::default())
    }

    fn bounded(
        url: BucketUrl,
        variables: &AwsVariables,
        bounds: Bounds,
    ) -> Result<Self, BucketError> {
        // Fails only if a provider was already installed in this process.
        drop(rustls::crypto::ring::default_provider().install_default());
        let options = ClientOptions::new()
            .with_connect_timeout(CONNECT_WITHIN)
            .with_timeout(bounds.request_within);
        let roots = Certificate::from_pem_bundle(trust::pem()).unwrap_or_default();
        let options = roots
            .into_iter()
            .fold(options, ClientOptions::with_root_certificate);
        let options = match proxy::get().filter(|proxy| proxy.serves(&variables.host())) {
            Some(proxy) => options.with_proxy_url(proxy.url()),
            None => options,
        };
        let retry = RetryConfig {
            backoff: BackoffConfig {
                init_backoff: Duration::from_millis(100),
                max_backoff: Duration::from_secs(2),
                base: 2.,
            },
            max_retries: RETRIES_MAX,
            retry_timeout: bounds.operation_within,
        };
        let builder = AmazonS3Builder::new()
            .with_client_options(options)
            .with_retry(retry)
            // Objects are deleted one by one, because not all servers support bulk deletion.
            .with_disable_bulk_delete(true);
        let builder = variables.0.iter().fold(builder, |builder, (name, value)| {
            // As in `AmazonS3Builder::from_env`, unknown variables are ignored, because they belong to other
            // programs.
            match name.to_ascii_lowercase().parse() {
                Ok(key) => builder.with_config(key, value),
                Err(_) => builder,
            }
        });
        let store = builder.with_bucket_name(&url.bucket).build()?;
        Ok(Self {
            url: Arc::new(url),
            store: Arc::new(store),
            turns: Arc::new(Semaphore::new(TRANSFERS_MAX)),
            bounds,
        })
    }

    pub fn url(&self) -> &BucketUrl {
        &self.url
    }

    fn path(&self, key: &str) -> Key {
        let prefix = self.url.prefix.parts();
        prefix.chain(Key::from(key).parts()).collect()
    }

    async fn within<T>(
        &self,
        act: impl Future<Output = Result<T, BucketError>>,
    ) -> Result<T, BucketError> {
        let limit = self.bounds.operation_within;
        let ended = tokio::time::timeout(limit, act).await;
        ended.unwrap_or(Err(BucketError::TimedOut(limit)))
    }

    /// Like `within`, but waits for a transfer slot first. The wait counts toward the time limit.
    async fn in_turn<T>(
        &self,
        act: impl Future<Output = Result<T, BucketError>>,
    ) -> Result<T, BucketError> {
        self.within(async {
            let _turn = self.turns.acquire().await.map_err(io::Error::other)?;
            act.await
        })
        .await
    }

    /// Checks that the bucket is writable by storing and deleting an object.
    ///
    /// # Errors
    /// Returns an error if the object cannot be stored.
    pub async fn check_writable(&self) -> Result<(), BucketError> {
        let probe = self.path(PROBE);
        let stored = async { Ok(self.store.put(&probe, PutPayload::new()).await?) };
        self.within(stored).await?;
        if let Err(e) = self.delete(PROBE).await {
            tracing::warn!(error = %e, "objects in {} cannot be deleted", self.url);
        }
        Ok(())
    }

    /// Stores a file of the given size. An incomplete upload leaves no object.
    ///
    /// # Errors
    /// Returns an error if the bucket does not store the file within the limits, or if the file cannot be read.
    pub async fn put_file(
        &self,
        key: &str,
        path: &Path,
        size_bytes: u64,
    ) -> Result<(), BucketError> {
        let key = self.path(key);
        let mut file = File::open(path).await?;
        if size_bytes <= PART_BYTES {
            let put = async {
                let bytes = read_part(&mut file, size_bytes).await?;
                self.store.put(&key, bytes.into()).await?;
                Ok(())
            };
            return self.in_turn(put).await;
        }
        let begin = async { Ok(self.store.put_multipart(&key).await?) };
        let mut upload = self.within(begin).await?;
        let stored = self.put_parts(upload.as_mut(), &mut file).await;
        if stored.is_err() {
            let abort = async { Ok(upload.abort().await?) };
            if let Err(e) = self.within(abort).await {
                tracing::warn!(error = %e, "parts of an upload remain in {}", self.url);
            }
        }
        stored
    }

    async fn put_parts(
        &self,
        upload: &mut dyn MultipartUpload,
        file: &mut File,
    ) -> Result<(), BucketError> {
        loop {
            let part = async {
                let bytes = read_part(file, PART_BYTES).await?;
                if bytes.is_empty() {
                    return Ok(false);
                }
                upload.put_part(bytes.into()).await?;
                Ok(true)
            };
            if !self.in_turn(part).await? {
                break;
            }
        }
        let complete = async {
            upload.complete().await?;
            Ok(())
        };
        self.within(complete).await
    }

    /// Reads a range of an object. Returns `None` if the object does not exist.
    ///
    /// # Errors
    /// Returns an error if the bucket does not return the range within the limits.
    pub async fn get(&self, key: &str, range: Range<u64>) -> Result<Option<Bytes>, BucketError> {
        let key = self.path(key);
        let get = async {
            match self.store.get_range(&key, range).await {
                Ok(bytes) => Ok(Some(bytes)),
                Err(e @ object_store::Error::NotFound { .. }) => {
                    let cause = cause(&e);
                    // A missing bucket is a configuration error, not a missing object.
                    if cause.starts_with("NoSuchBucket") {
                        return Err(BucketError::Failed(cause));
                    }
                    Ok(None)
                }
                Err(e) => Err(e.into()),
            }
        };
        self.in_turn(get).await
    }

    /// Deletes an object, if it exists.
    ///
    /// # Errors
    /// Returns an error if the bucket does not delete the object within the limits.
    pub async fn delete(&self, key: &str) -> Result<(), BucketError> {
        let key = self.path(key);
        let delete = async {
            match self.store.delete(&key).await {
                Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
                Err(e) => Err(e.into()),
            }
        };
        self.within(delete).await
    }

    /// All objects below the prefix, ordered by key. Pages are read as needed.
    pub fn list(&self) -> BoxStream<'static, Result<StoredObject, BucketError>> {
        let this = self.clone();
        let prefix = self.url.prefix.clone();
        let objects = self.store.list(Some(&prefix));
        let next = move |mut objects: BoxStream<'static, object_store::Result<_>>| {
            let (this, prefix) = (this.clone(), prefix.clone());
            async move {
                let next = async { Ok(objects.next().await.transpose()?) };
                let found: Option<object_store::ObjectMeta> = this.within(next).await?;
                Ok(found.map(|found| {
                    let below = found.location.prefix_match(&prefix);
                    let parts: Option<Vec<_>> =
                        below.map(|parts| parts.map(|part| part.as_ref().to_owned()).collect());
                    let object = StoredObject {
                        key: parts.unwrap_or_default().join("/"),
                        size_bytes: found.size,
                        modified: found.last_modified,
                    };
                    (object, objects)
                }))
            }
        };
        futures::stream::try_unfold(objects, next).boxed()
    }
}

/// Reads the next part of a file; the last part can be shorter. `bytes_expected` is the initial size of the buffer.
async fn read_part(file: &mut File, bytes_expected: u64) -> io::Result<Bytes> {
    let mut bytes = BytesMut::with_capacity(usize::try_from(bytes_expected).unwrap_or_default());
    let mut part = file.take(PART_BYTES);
    while part.read_buf(&mut bytes).await? > 0 {}
    Ok(bytes.freeze())
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    const URL: &str = "s3://bucket/team/files";

    fn variables(endpoint: &str) -> AwsVariables {
        let pairs = [
            ("AWS_ACCESS_KEY_ID", "key"),
            ("AWS_SECRET_ACCESS_KEY", "hidden-secret"),
            ("AWS_ENDPOINT_URL", endpoint),
            ("AWS_ALLOW_HTTP", "true"),
            ("AWS_UNKNOWN_TO_US", "x"),
        ];
        let owned = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
        owned.into_iter().collect()
    }

    fn bucket(endpoint: &str) -> Bucket {
        let bounds = Bounds {
            request_within: Duration::from_millis(50),
            operation_within: Duration::from_millis(100),
        };
        Bucket::bounded(BucketUrl::parse(URL).unwrap(), &variables(endpoint), bounds).unwrap()
    }

    #[test]
    fn a_bucket_url_has_a_bucket_and_perhaps_a_prefix() {
        for (text, shown) in [
            ("s3://b", "s3://b"),
            ("s3://b/", "s3://b"),
            (" s3://my.bucket/a/b/ ", "s3://my.bucket/a/b"),
        ] {
            assert_eq!(BucketUrl::parse(text).unwrap().to_string(), shown);
        }
        for text in [
            "",
            "s3://",
            "https://b/p",
            "s3:///p",
            "s3://b/a//b",
            "s3://a b/p",
            "s3://b/?x",
        ] {
            let error = BucketUrl::parse(text).unwrap_err();
            assert!(error.ends_with("such as s3://bucket/prefix"), "{error}");
        }
    }

    #[test]
    fn values_of_aws_variables_are_not_logged() {
        let shown = format!("{:?}", variables("http://127.0.0.1:1"));
        assert!(shown.contains("AWS_SECRET_ACCESS_KEY"), "{shown}");
        assert!(!shown.contains("hidden-secret"), "{shown}");
    }

    #[test]
    fn keys_are_below_the_prefix() {
        let path = bucket("http://127.0.0.1:1").path("hash/upload");
        assert_eq!(path.as_ref(), "team/files/hash/upload");
    }

    #[tokio::test]
    async fn an_operation_ends_at_its_deadline_if_the_server_does_not_respond() {
        // The server accepts connections but does not respond to requests.
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let bucket = bucket(&format!("http://{}", listener.local_addr().unwrap()));
        let started = std::time::Instant::now();
        let file = std::env::temp_dir().join(format!("openvibe-part-{}", uuid::Uuid::now_v7()));
        std::fs::write(&file, b"words").unwrap();
        assert!(bucket.get("a", 0..1).await.is_err());
        assert!(bucket.delete("a").await.is_err());
        assert!(bucket.put_file("a", &file, 5).await.is_err());
        assert!(bucket.put_file("a", &file, PART_BYTES + 1).await.is_err());
        assert!(bucket.list().next().await.unwrap().is_err());
        assert!(bucket.check_writable().await.is_err());
        // The default limits would take minutes.
        assert!(started.elapsed() < Duration::from_secs(20));
        std::fs::remove_file(file).unwrap();
    }

    #[tokio::test]
    async fn an_unreachable_server_is_reported_by_its_cause() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let mut bucket = bucket(&format!("http://{address}"));
        bucket.bounds.operation_within = Duration::from_secs(10);
        let error = bucket.check_writable().await.unwrap_err().to_string();
        assert!(error.contains("Connection refused"), "{error}");
    }
}
