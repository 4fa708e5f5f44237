//! Reads blobs piece by piece from any store. No connection to the database or S3 is held between two pieces, so a
//! slow reader does not block others.

use std::{io, sync::Arc};

use bytes::{Bytes, BytesMut};
use futures::{StreamExt, TryStreamExt, stream::BoxStream};
use tokio::{
    fs::File,
    io::{AsyncReadExt, AsyncSeekExt},
};

use super::{
    chunks::{self, CHUNK_BYTES},
    store::{Blobs, blocking, locate},
};
use crate::{
    files::FileError,
    storage::{Blob, BlobStore, directory},
};

/// Maximum size of a piece of a file. A piece from another store is at most one chunk.
const FILE_PIECE_BYTES: usize = 64 * 1024;
/// Maximum number of stores that are tried for a blob that is moved while it is read.
const PLACES_MAX: usize = 4;

/// The bytes of a file as a stream.
pub type Bytestream = BoxStream<'static, io::Result<Bytes>>;

struct Reader {
    blobs: Blobs,
    blob: Blob,
    at: u64,
    end: u64,
    /// The file of the blob, if it is stored in one. The file can be read to its end even if it is deleted in the
    /// meantime.
    file: Option<File>,
}

impl Blobs {
    /// Streams `len` bytes of a blob starting at `from`. The first piece is read before this returns, so most failures
    /// are errors of this call and not of the stream. `blob` can be the former location of a blob that was moved.
    ///
    /// # Errors
    /// `NotFound` if the bytes no longer exist, `Io`, `Bucket`, `Db`.
    pub async fn read(&self, blob: &Blob, from: u64, len: u64) -> Result<Bytestream, FileError> {
        let mut reader = Reader {
            blobs: self.clone(),
            blob: blob.clone(),
            at: from,
            end: from + len,
            file: None,
        };
        let first = reader.next().await?;
        let rest = futures::stream::try_unfold(reader, |mut reader| async move {
            let piece = reader.next().await?;
            Ok::<_, FileError>(piece.map(|piece| (piece, reader)))
        });
        let first = futures::stream::iter(first.map(Ok));
        Ok(first.chain(rest.map_err(io::Error::other)).boxed())
    }
}

impl Reader {
    /// The next piece; `None` at the end.
    async fn next(&mut self) -> Result<Option<Bytes>, FileError> {
        if self.at >= self.end {
            return Ok(None);
        }
        for _ in 0..PLACES_MAX {
            if let Some(piece) = self.piece().await? {
                self.at += piece.len() as u64;
                return Ok(Some(piece));
            }
            let found = locate(&mut self.blobs.db.read().await?, &self.blob.hash).await?;
            let moved = found.filter(|found| *found != self.blob);
            self.blob = moved.ok_or(FileError::NotFound)?;
            self.file = None;
        }
        Err(FileError::NotFound)
    }

    /// The next piece; `None` if the bytes are no longer in this store.
    async fn piece(&mut self) -> Result<Option<Bytes>, FileError> {
        let chunk = CHUNK_BYTES as u64;
        let n = self.at / chunk;
        let piece = match self.blob.store {
            BlobStore::File => self.file_piece().await?,
            BlobStore::Db => {
                let bytes = chunks::find(&self.blobs.db, self.blob.upload_id, n).await?;
                let bytes = bytes.unwrap_or_default();
                let begin = usize::try_from(self.at % chunk)
                    .unwrap_or(0)
                    .min(bytes.len());
                let most = usize::try_from(self.end - self.at).unwrap_or(usize::MAX);
                bytes.slice(begin..bytes.len().min(begin.saturating_add(most)))
            }
            BlobStore::S3 => {
                let range = self.at..self.end.min((n + 1) * chunk);
                let bucket = self.blobs.bucket().await?;
                let bytes = bucket.get(&self.blob.key(), range).await?;
                bytes.unwrap_or_default()
            }
        };
        Ok(Some(piece).filter(|piece| !piece.is_empty()))
    }

    async fn file_piece(&mut self) -> Result<Bytes, FileError> {
        if self.file.is_none() {
            let (directory, blob) = (Arc::clone(&self.blobs.directory), self.blob.clone());
            let opened = blocking(move || directory::open(&directory, &blob)).await?;
            let Some(opened) = opened else {
                return Ok(Bytes::new());
            };
            let mut file = File::from_std(opened);
            file.seek(io::SeekFrom::Start(self.at)).await?;
            self.file = Some(file);
        }
        let Some(file) = &mut self.file else {
            return Ok(Bytes::new());
        };
        let most = usize::try_from(self.end - self.at).unwrap_or(usize::MAX);
        let mut bytes = BytesMut::with_capacity(most.min(FILE_PIECE_BYTES));
        file.take(most.min(FILE_PIECE_BYTES) as u64)
            .read_buf(&mut bytes)
            .await?;
        Ok(bytes.freeze())
    }
}
