//! Receives an upload: `multipart/form-data` with one part `file`, read in chunks.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use futures::{Stream, StreamExt};
use multer::{Field, Multipart};
use tokio::time::{Instant, Sleep};

use super::{
    Blobs, FileError, UploadPermit,
    blobs::{CompleteUpload, Incoming},
    clean_name,
};

/// Number of bytes that a client must send per interval, which sets the minimum upload speed. Time in which the
/// server stores data does not count.
const PACE_BYTES: u64 = 64 * 1024;
/// Maximum number of bytes of an upload in memory between network and disk, including the headers of its parts.
const HELD_BYTES_MAX: i64 = 2 * 1024 * 1024;
/// Maximum size of the `client_id` part; larger than any valid value.
const CLIENT_ID_BYTES_MAX: usize = 1024;

/// Size and speed limits of an upload.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    pub bytes_max: u64,
    /// Maximum time for each 64 KiB.
    pub pace_within: Duration,
}

/// A completely received upload.
pub struct Received {
    /// `None` if the workspace has no room for the file.
    pub whole: Option<CompleteUpload>,
    pub size_bytes: u64,
    pub name: String,
    pub client_id: Option<String>,
    pub purpose: Option<String>,
}

/// Forwards one chunk at a time, does not run far ahead of the consumer, and fails if the client is too slow.
struct BackpressureStream<S> {
    body: S,
    /// Number of bytes that can be accepted before the consumer must take some.
    room: Arc<AtomicI64>,
    rests: bool,
    pace_within: Duration,
    /// Bytes received in the current interval, and the time spent waiting for them.
    bytes: u64,
    waited: Duration,
    /// Start of the wait for the next bytes, and its timeout.
    waiting: Option<(Instant, Pin<Box<Sleep>>)>,
    is_too_slow: Arc<AtomicBool>,
}

impl<S> BackpressureStream<S> {
    fn new(body: S, pace_within: Duration) -> Self {
        Self {
            body,
            room: Arc::new(AtomicI64::new(HELD_BYTES_MAX)),
            rests: false,
            pace_within,
            bytes: 0,
            waited: Duration::ZERO,
            waiting: None,
            is_too_slow: Arc::new(AtomicBool::new(false)),
        }
    }

    fn note_arrival(&mut self, bytes: usize) {
        if let Some((since, _)) = self.waiting.take() {
            self.waited += since.elapsed();
        }
        self.bytes += bytes as u64;
        if self.bytes >= PACE_BYTES {
            (self.bytes, self.waited) = (0, Duration::ZERO);
        }
    }

    fn poll_too_slow(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let left = self.pace_within.saturating_sub(self.waited);
        let (_, until) = self
            .waiting
            .get_or_insert_with(|| (Instant::now(), Box::pin(tokio::time::sleep(left))));
        until.as_mut().poll(cx)
    }
}

impl<S, E> Stream for BackpressureStream<S>
where
    S: Stream<Item = Result<Bytes, E>> + Unpin,
{
    type Item = Result<Bytes, std::io::Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        // The parser reads until nothing is available; pausing makes it process each chunk first.
        if std::mem::take(&mut self.rests) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        match Pin::new(&mut self.body).poll_next(cx) {
            Poll::Ready(Some(Ok(bytes))) => {
                self.note_arrival(bytes.len());
                let len = i64::try_from(bytes.len()).unwrap_or(i64::MAX);
                if self.room.fetch_sub(len, Ordering::Relaxed) < len {
                    return Poll::Ready(Some(Err(std::io::Error::other(
                        "the headers of a part are too long",
                    ))));
                }
                self.rests = true;
                Poll::Ready(Some(Ok(bytes)))
            }
            Poll::Ready(Some(Err(_))) => Poll::Ready(Some(Err(std::io::Error::other(
                "the request body ended early",
            )))),
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => {
                ready!(self.poll_too_slow(cx));
                self.is_too_slow.store(true, Ordering::Relaxed);
                Poll::Ready(Some(Err(std::io::ErrorKind::TimedOut.into())))
            }
        }
    }
}

/// Reads an upload and stores its bytes, which `permit` covers. `content_type` is the request's header.
///
/// # Errors
/// `Multipart`, `TooLarge`, `TooSlow`, `InProgress`, `Io`, `Db`.
pub async fn receive<S, E>(
    blobs: &Blobs,
    permit: UploadPermit,
    content_type: Option<&str>,
    body: S,
    bounds: Bounds,
) -> Result<Received, FileError>
where
    S: Stream<Item = Result<Bytes, E>> + Send + Unpin,
    E: 'static,
{
    let boundary = multer::parse_boundary(content_type.unwrap_or_default()).map_err(|_| {
        FileError::Multipart(
            "the content type must be multipart/form-data with a boundary".to_owned(),
        )
    })?;
    let paced = BackpressureStream::new(body, bounds.pace_within);
    let (room, is_too_slow) = (Arc::clone(&paced.room), Arc::clone(&paced.is_too_slow));
    let parts = Multipart::new(paced, boundary);
    in_time(
        read_parts(blobs, permit, parts, &room, bounds.bytes_max).await,
        &is_too_slow,
    )
}

/// Like `receive`, for a body that is the file itself, or a form whose first part is the file. `name` is the name of the file.
///
/// # Errors
/// Same as `receive`.
pub async fn receive_named<S, E>(
    blobs: &Blobs,
    permit: UploadPermit,
    content_type: Option<&str>,
    name: &str,
    body: S,
    bounds: Bounds,
) -> Result<Received, FileError>
where
    S: Stream<Item = Result<Bytes, E>> + Send + Unpin,
    E: 'static,
{
    let mut paced = BackpressureStream::new(body, bounds.pace_within);
    let (room, is_too_slow) = (Arc::clone(&paced.room), Arc::clone(&paced.is_too_slow));
    let stored = if let Ok(boundary) = multer::parse_boundary(content_type.unwrap_or_default()) {
        let parts = Multipart::new(paced, boundary);
        read_first_part(blobs, permit, parts, &room, bounds.bytes_max).await
    } else {
        let incoming = blobs.begin(Some(permit)).await?;
        store(incoming, &mut paced, &room, bounds.bytes_max).await
    };
    let (whole, size_bytes) = in_time(stored, &is_too_slow)?;
    Ok(Received {
        whole,
        size_bytes,
        name: clean_name(name),
        client_id: None,
        purpose: None,
    })
}

/// Reads the first part of a form. The others are ignored.
async fn read_first_part(
    blobs: &Blobs,
    permit: UploadPermit,
    mut parts: Multipart<'_>,
    room: &AtomicI64,
    bytes_max: u64,
) -> Result<(Option<CompleteUpload>, u64), FileError> {
    let first = parts.next_field().await.map_err(|e| broken(&e))?;
    let mut part = first.ok_or_else(|| FileError::Multipart("the form is empty".to_owned()))?;
    let incoming = blobs.begin(Some(permit)).await?;
    let stored = store(incoming, &mut part, room, bytes_max).await?;
    drop(part);
    while parts.next_field().await.map_err(|e| broken(&e))?.is_some() {}
    Ok(stored)
}

/// Names the cause of a body that ended because its sender was too slow.
fn in_time<T>(received: Result<T, FileError>, is_too_slow: &AtomicBool) -> Result<T, FileError> {
    match received {
        Err(FileError::Multipart(_)) if is_too_slow.load(Ordering::Relaxed) => {
            Err(FileError::TooSlow)
        }
        received => received,
    }
}

fn broken(e: &impl ToString) -> FileError {
    FileError::Multipart(e.to_string())
}

async fn read_parts(
    blobs: &Blobs,
    permit: UploadPermit,
    mut parts: Multipart<'_>,
    room: &AtomicI64,
    bytes_max: u64,
) -> Result<Received, FileError> {
    let (mut permit, mut file) = (Some(permit), None);
    let (mut client_id, mut purpose) = (None, None);
    while let Some(mut part) = parts.next_field().await.map_err(|e| broken(&e))? {
        match part.name() {
            Some("file") if file.is_none() => {
                let given = file_name(&part);
                let incoming = blobs.begin(permit.take()).await?;
                let stored = store(incoming, &mut part, room, bytes_max).await?;
                file = Some((stored, clean_name(&given)));
            }
            Some("client_id") if client_id.is_none() => {
                client_id = Some(read_text(&mut part, room).await?);
            }
            Some("purpose") if purpose.is_none() => {
                purpose = Some(read_text(&mut part, room).await?);
            }
            name => {
                let name: String = name.unwrap_or_default().chars().take(40).collect();
                let text = format!(
                    "expected one part `file`, at most one `client_id`, and at most one `purpose`, but found another part `{name}`"
                );
                return Err(FileError::Multipart(text));
            }
        }
    }
    let ((whole, size_bytes), name) =
        file.ok_or_else(|| FileError::Multipart("the part `file` is missing".to_owned()))?;
    Ok(Received {
        whole,
        size_bytes,
        name,
        client_id,
        purpose,
    })
}

/// Stores a part or a body, and returns its size. If the workspace has no room for it, removes the bytes stored so far but reads it to its
/// end, because a `client_id` may follow: a resend gets the first file even if the workspace is full.
async fn store<S, E>(
    incoming: Incoming,
    part: &mut S,
    room: &AtomicI64,
    bytes_max: u64,
) -> Result<(Option<CompleteUpload>, u64), FileError>
where
    S: Stream<Item = Result<Bytes, E>> + Unpin,
    E: ToString,
{
    let (mut incoming, mut size_bytes) = (Some(incoming), 0);
    while let Some(bytes) = part.next().await {
        let bytes = bytes.map_err(|e| broken(&e))?;
        size_bytes += bytes.len() as u64;
        if size_bytes > bytes_max {
            return Err(FileError::TooLarge(bytes_max));
        }
        if let Some(open) = &mut incoming {
            match open.write(&bytes).await {
                Err(FileError::WorkspaceFull) => incoming = None,
                written => written?,
            }
        }
        taken(room, bytes.len());
    }
    let whole = match incoming {
        Some(incoming) => Some(incoming.finish().await?),
        None => None,
    };
    Ok((whole, size_bytes))
}

fn taken(room: &AtomicI64, len: usize) {
    room.fetch_add(i64::try_from(len).unwrap_or(0), Ordering::Relaxed);
}

async fn read_text(part: &mut Field<'_>, room: &AtomicI64) -> Result<String, FileError> {
    let mut all = Vec::new();
    while let Some(bytes) = part.chunk().await.map_err(|e| broken(&e))? {
        taken(room, bytes.len());
        all.extend_from_slice(&bytes);
        if all.len() > CLIENT_ID_BYTES_MAX {
            return Err(FileError::Multipart(
                "the client_id or purpose is too long".to_owned(),
            ));
        }
    }
    String::from_utf8(all)
        .map_err(|_| FileError::Multipart("the client_id or purpose is not valid UTF-8".to_owned()))
}

/// File name sent by the client: `filename*=UTF-8''…` (RFC 5987), or else the form used by browsers, with
/// percent-encoded quotation marks and line breaks. A name that is not UTF-8 is read as Latin-1.
fn file_name(part: &Field<'_>) -> String {
    let header = part.headers().get("content-disposition");
    let header = header.map_or_else(String::new, |value| text_of(value.as_bytes()));
    extended_name(&header).unwrap_or_else(|| {
        part.file_name()
            .or_else(|| quoted_name(&header))
            .unwrap_or_default()
            .replace("%22", "\"")
            .replace("%0D", " ")
            .replace("%0A", " ")
    })
}

fn text_of(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => bytes.iter().copied().map(char::from).collect(),
    }
}

/// The value of `filename="…"`, which `multer` returns only if it is UTF-8.
fn quoted_name(header: &str) -> Option<&str> {
    let (_, value) = header.split_once("filename=\"")?;
    value.split('"').next()
}

fn extended_name(header: &str) -> Option<String> {
    let at = header.to_ascii_lowercase().find("filename*=utf-8'")?;
    let (_, encoded) = header[at + "filename*=utf-8'".len()..].split_once('\'')?;
    let encoded = encoded.split(';').next().unwrap_or_default().trim();
    let mut bytes = Vec::new();
    let mut rest = encoded.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        let decoded = after
            .get(..2)
            .filter(|_| *first == b'%')
            .and_then(|pair| hex::decode(pair).ok());
        if let Some(decoded) = decoded {
            bytes.extend(decoded);
            rest = &after[2..];
        } else {
            bytes.push(*first);
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use futures::{StreamExt, stream};
    use tokio_util::task::TaskTracker;
    use uuid::Uuid;

    use super::*;
    use crate::{
        db::{DatabaseUrl, Db},
        files::UploadBytes,
        ids::{UserId, WorkspaceId},
        share::PoolBounds,
        storage::BlobSettings,
    };

    #[tokio::test]
    async fn a_stalled_upload_is_aborted_without_leftovers() {
        let dir = std::env::temp_dir().join(format!("openvibe-upload-{}", Uuid::now_v7()));
        std::fs::create_dir_all(&dir).unwrap();
        let place = DatabaseUrl::Sqlite(dir.join("x.db"));
        let db = Db::open(&place, Arc::new(|_| {})).await.unwrap();
        let settings = BlobSettings {
            data_dir: dir.clone(),
            ..BlobSettings::default()
        };
        let blobs = Blobs::open(&db, settings, TaskTracker::new())
            .await
            .unwrap();
        let bounds = Bounds {
            pace_within: Duration::from_millis(10),
            bytes_max: 1000,
        };
        let in_all = PoolBounds {
            total: 1000,
            share: 1000,
        };
        let upload_bytes = UploadBytes::new(in_all, bounds.bytes_max);
        let (user, workspace) = (UserId::new(), WorkspaceId::new());
        for sent in [
            "",
            "--b\r\ncontent-dispo",
            "--b\r\ncontent-disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\nhalf",
            "--b\r\ncontent-disposition: form-data; name=\"client_id\"\r\n\r\nhalf",
            "--b\r\ncontent-disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\nwhole\r\n--b\r\n",
        ] {
            let body = stream::iter([Ok::<_, std::io::Error>(Bytes::from(sent))]);
            let body = body.chain(stream::pending());
            let form = Some("multipart/form-data; boundary=b");
            let permit = upload_bytes.permit(&db, user, workspace);
            let outcome = receive(&blobs, permit, form, body, bounds).await;
            assert!(matches!(outcome, Err(FileError::TooSlow)), "{sent:?}");
            let left = std::fs::read_dir(dir.join("blobs/tmp")).unwrap().count();
            assert_eq!(left, 0, "{sent:?}");
        }
        drop((db, blobs));
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[tokio::test]
    async fn a_slow_upload_is_aborted_even_while_bytes_arrive() {
        let drip = stream::repeat_with(|| Ok::<_, std::io::Error>(Bytes::from_static(b"x")));
        let drip = drip.then(async |piece| {
            tokio::time::sleep(Duration::from_millis(1)).await;
            piece
        });
        let mut body = BackpressureStream::new(Box::pin(drip), Duration::from_millis(20));
        let error = loop {
            if let Err(error) = body.next().await.unwrap() {
                break error;
            }
        };
        assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
        assert!(body.is_too_slow.load(Ordering::Relaxed));
    }

    #[tokio::test]
    async fn time_spent_storing_does_not_count_toward_the_upload_deadline() {
        let body = stream::repeat_with(|| Ok::<_, std::io::Error>(Bytes::from_static(b"x")));
        let mut body = BackpressureStream::new(body, Duration::from_millis(1));
        for _ in 0..3 {
            body.next().await.unwrap().unwrap();
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(body.waited, Duration::ZERO);
    }

    #[test]
    fn each_part_of_the_upload_has_its_own_deadline() {
        let mut body = BackpressureStream::new((), crate::http::bodies::UPLOAD_PACE_WITHIN);
        body.waited = Duration::from_secs(29);
        body.note_arrival(64 * 1024 - 1);
        assert_eq!(body.waited, Duration::from_secs(29));
        body.note_arrival(1);
        assert_eq!((body.waited, body.bytes), (Duration::ZERO, 0));
    }

    #[test]
    fn an_extended_file_name_parameter_is_decoded() {
        let header = "form-data; name=\"file\"; filename=\"x\"; filename*=UTF-8'de'%C3%9Cbersicht%20100%.pdf; a=b";
        assert_eq!(extended_name(header).as_deref(), Some("Übersicht 100%.pdf"));
        assert_eq!(extended_name("form-data; filename=\"x\""), None);
        assert_eq!(extended_name("filename*=utf-8''%ff"), None);
    }

    #[test]
    fn a_name_that_is_not_utf8_is_read_as_latin_1() {
        let header = text_of(b"form-data; name=\"file\"; filename=\"Bj\xf8rk.txt\"");
        assert_eq!(quoted_name(&header), Some("Bjørk.txt"));
        assert_eq!(text_of("Bjørk".as_bytes()), "Bjørk");
        assert_eq!(quoted_name("form-data; filename*=x"), None);
    }
}
