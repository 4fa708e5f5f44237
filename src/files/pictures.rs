//! Pictures as models see them: upright, small, and without metadata. A process that can do nothing else scales them, as it reads
//! documents.
//!
//! Scaled pictures are kept only in memory: they are made again from the stored bytes, and nothing of them outlives a deleted file.

use std::{
    collections::VecDeque,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;
use futures::StreamExt;
use openvibe_documents::{PICTURE, PICTURE_BYTES_MAX, PICTURE_SIDE_MAX, PictureHeader};
use sha2::{Digest, Sha256};
use tokio::{io::AsyncReadExt, sync::Semaphore, time::timeout};
use uuid::Uuid;

use super::{
    Blobs, Bytestream, FileError,
    documents::{feed, start},
};
use crate::storage::Blob;

/// Content types of pictures that models can be shown.
pub const PICTURE_TYPES: [&str; 4] = ["image/png", "image/jpeg", "image/webp", "image/gif"];
/// Maximum size of a picture that is scaled, in bytes.
const INPUT_BYTES_MAX: i64 = 64 << 20;
/// Maximum size of the header line and the scaled picture.
const OUTPUT_BYTES_MAX: u64 = PICTURE_BYTES_MAX as u64 + 1024;
/// Time limit of the process.
const ENDS_WITHIN: Duration = Duration::from_secs(30);
/// Time limit for all pictures of a result.
const RESULT_WITHIN: Duration = Duration::from_secs(15);
/// Maximum number of processes of this node; fewer on machines with less than eight cores.
const PROCESSES_MAX: usize = 4;
/// Maximum total size of the scaled pictures that are kept in memory.
const KEPT_BYTES_MAX: usize = 32 << 20;

/// A scaled picture.
#[derive(Clone, PartialEq, Eq)]
pub struct Picture {
    /// Size in pixels.
    pub width: u32,
    pub height: u32,
    /// Size of the picture in bytes.
    pub size_bytes: usize,
    /// `data:` URL with the picture.
    pub url: Arc<str>,
}

impl std::fmt::Debug for Picture {
    /// Shows everything but the bytes.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Picture({} × {}, {} bytes)",
            self.width, self.height, self.size_bytes
        )
    }
}

impl Picture {
    /// The bytes of the picture; `None` if its URL does not contain them.
    pub fn bytes(&self) -> Option<Vec<u8>> {
        let (_, encoded) = self.url.split_once(',')?;
        BASE64_STANDARD.decode(encoded).ok()
    }
}

/// Scales pictures.
#[derive(Clone)]
pub struct PictureReader {
    blobs: Blobs,
    program: PathBuf,
    slots: Arc<Semaphore>,
    kept: Arc<Mutex<Kept>>,
}

/// The pictures that were used most recently, newest last, by the hash of their files.
#[derive(Default)]
struct Kept {
    pictures: VecDeque<(String, Picture)>,
    bytes: usize,
}

impl Kept {
    fn get(&mut self, hash: &str) -> Option<Picture> {
        let at = self.pictures.iter().position(|(known, _)| known == hash)?;
        let found = self.pictures.remove(at)?;
        let picture = found.1.clone();
        self.pictures.push_back(found);
        Some(picture)
    }

    fn add(&mut self, hash: String, picture: Picture) {
        if self.get(&hash).is_some() {
            return;
        }
        self.bytes += picture.url.len();
        self.pictures.push_back((hash, picture));
        while self.bytes > KEPT_BYTES_MAX {
            let Some((_, oldest)) = self.pictures.pop_front() else {
                return;
            };
            self.bytes -= oldest.url.len();
        }
    }
}

impl PictureReader {
    /// `program` is this program's own file, which is also the one that scales pictures.
    pub fn new(blobs: Blobs, program: PathBuf) -> Self {
        let cores = thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self {
            blobs,
            program,
            slots: Arc::new(Semaphore::new((cores / 2).clamp(1, PROCESSES_MAX))),
            kept: Arc::default(),
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Scales a stored picture; `None` if it is too large or cannot be decoded. The caller has checked that its reader can read the file.
    ///
    /// # Errors
    /// Same as `Blobs::read`; `Io` if the process could not be started.
    pub async fn read(&self, blob: &Blob, size_bytes: i64) -> Result<Option<Picture>, FileError> {
        if size_bytes > INPUT_BYTES_MAX {
            return Ok(None);
        }
        let known = self.kept().get(&blob.hash);
        if known.is_some() {
            return Ok(known);
        }
        let len = u64::try_from(size_bytes).unwrap_or_default();
        let bytes = self.blobs.read(blob, 0, len).await?;
        self.scale(blob.hash.clone(), bytes).await
    }

    /// Scales a picture that a client has sent; `None` if it cannot be decoded.
    ///
    /// # Errors
    /// `Io` if the process could not be started.
    pub async fn read_bytes(&self, bytes: Bytes) -> Result<Option<Picture>, FileError> {
        let hash = hex::encode(Sha256::digest(&bytes));
        let known = self.kept().get(&hash);
        if known.is_some() {
            return Ok(known);
        }
        let stream = futures::stream::iter([Ok(bytes)]).boxed();
        self.scale(hash, stream).await
    }

    /// Scales the pictures of a result, and keeps them for a while. The result is not stored until then, so those that take too long are
    /// left out.
    pub async fn keep_result(&self, result: Uuid, pictures: Vec<Vec<u8>>) {
        let keep = async {
            let mut n = 0;
            for bytes in pictures {
                match self.read_bytes(bytes.into()).await {
                    Ok(Some(picture)) => {
                        self.kept().add(result_key(result, n), picture);
                        n += 1;
                    }
                    Ok(None) => {}
                    Err(e) => tracing::warn!(error = %e, "a picture of a result is left out"),
                }
            }
        };
        drop(timeout(RESULT_WITHIN, keep).await);
    }

    /// Pictures of a result that are still kept.
    pub fn of_result(&self, result: Uuid) -> Vec<Picture> {
        let mut kept = self.kept();
        (0..)
            .map_while(|n| kept.get(&result_key(result, n)))
            .collect()
    }

    async fn scale(&self, hash: String, bytes: Bytestream) -> Result<Option<Picture>, FileError> {
        // Closed only with the server.
        let Ok(_slot) = self.slots.acquire().await else {
            return Ok(None);
        };
        // Another reply may have waited for the same picture.
        let known = self.kept().get(&hash);
        if known.is_some() {
            return Ok(known);
        }
        // If it is too slow, the process is killed when it is dropped.
        let Ok(scaled) = timeout(ENDS_WITHIN, scaled(&self.program, bytes)).await else {
            return Ok(None);
        };
        let scaled = scaled?;
        if let Some(picture) = &scaled {
            self.kept().add(hash, picture.clone());
        }
        Ok(scaled)
    }
}

/// Key of a picture of a result, among the hashes of files.
fn result_key(result: Uuid, n: usize) -> String {
    format!("{result}:{n}")
}

/// Runs the process for one picture; `None` if it ended without a picture.
async fn scaled(program: &Path, bytes: Bytestream) -> io::Result<Option<Picture>> {
    let mut child = start(program, PICTURE)?;
    let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(io::ErrorKind::BrokenPipe.into());
    };
    let mut output = Vec::new();
    let mut limited = stdout.take(OUTPUT_BYTES_MAX);
    let (fed, read) = tokio::join!(feed(stdin, bytes), limited.read_to_end(&mut output));
    fed?;
    read?;
    // A process with more output would wait for its reader forever.
    drop(limited);
    let status = child.wait().await?;
    Ok(parsed(&output).filter(|_| status.success()))
}

/// Parses the output of the process.
fn parsed(output: &[u8]) -> Option<Picture> {
    let end = output.iter().position(|byte| *byte == b'\n')?;
    let (line, rest) = output.split_at(end);
    let picture = &rest[1..];
    let header: PictureHeader = serde_json::from_slice(line).ok()?;
    let is_within = |side: u32| (1..=PICTURE_SIDE_MAX).contains(&side);
    if !is_within(header.width) || !is_within(header.height) || picture.is_empty() {
        return None;
    }
    let content_type = header.format.content_type();
    let encoded = BASE64_STANDARD.encode(picture);
    Some(Picture {
        width: header.width,
        height: header.height,
        size_bytes: picture.len(),
        url: format!("data:{content_type};base64,{encoded}").into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture(bytes: usize) -> Picture {
        Picture {
            width: 1,
            height: 1,
            size_bytes: bytes,
            url: "x".repeat(bytes).into(),
        }
    }

    #[test]
    fn the_pictures_that_were_used_last_are_kept_within_the_limit() {
        let mut kept = Kept::default();
        for hash in ["a", "b", "c"] {
            kept.add(hash.to_owned(), picture(KEPT_BYTES_MAX / 3));
        }
        assert!(kept.get("a").is_some());
        kept.add("d".to_owned(), picture(KEPT_BYTES_MAX / 3));
        assert!(kept.get("b").is_none());
        assert!(kept.get("a").is_some() && kept.get("c").is_some());
        assert!(kept.bytes <= KEPT_BYTES_MAX);
    }

    #[test]
    fn only_a_whole_answer_of_the_process_is_a_picture() {
        let line = r#"{"format":"png","width":3,"height":2}"#;
        let found = parsed(format!("{line}\nabc").as_bytes()).unwrap();
        assert_eq!(&*found.url, "data:image/png;base64,YWJj");
        assert_eq!((found.width, found.height, found.size_bytes), (3, 2, 3));
        let empty = format!("{line}\n");
        for other in ["", line, empty.as_str(), "{}\nabc"] {
            assert_eq!(parsed(other.as_bytes()), None, "{other}");
        }
        let large = r#"{"format":"png","width":9999,"height":2}"#;
        assert_eq!(parsed(format!("{large}\nabc").as_bytes()), None);
    }
}
