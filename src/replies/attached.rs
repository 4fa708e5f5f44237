//! Text files of the trigger message that are included in the prompt.

use futures::StreamExt;

use super::prompt::TextFile;
use crate::{
    db::{Conn, DbError},
    files::{self, Attachment, Blobs},
    storage::Blob,
};

/// Maximum total size in bytes of the text files in one prompt.
pub const TEXT_BYTES_MAX: i64 = 32 * 1024;

/// A text file that is small enough to be included.
#[derive(Debug, Clone)]
pub struct ReadableFile {
    /// Position among the attachments, starting at 0.
    position: usize,
    blob: Blob,
    size_bytes: u64,
}

/// Selects text files that fit into `TEXT_BYTES_MAX` together, in the order of the attachments. A file that does not fit is skipped.
pub async fn readable(
    c: &mut Conn,
    attachments: &[Attachment],
) -> Result<Vec<ReadableFile>, DbError> {
    let mut room = TEXT_BYTES_MAX;
    let mut all = Vec::new();
    for (position, file) in attachments.iter().enumerate() {
        if !file.is_text() || file.size_bytes > room {
            continue;
        }
        let Some(stored) = files::find(c, file.id).await? else {
            continue;
        };
        room -= file.size_bytes;
        all.push(ReadableFile {
            position,
            blob: stored.blob,
            size_bytes: u64::try_from(file.size_bytes).unwrap_or_default(),
        });
    }
    Ok(all)
}

/// Reads the files. Files that cannot be read are left out, and the prompt then lists them as unreadable.
pub async fn texts(blobs: &Blobs, readable: &[ReadableFile]) -> Vec<TextFile> {
    let mut all = Vec::with_capacity(readable.len());
    for file in readable {
        if let Some(text) = text(blobs, file).await {
            all.push(TextFile {
                position: file.position,
                text,
            });
        } else {
            tracing::warn!("an attached text file could not be read for a prompt");
        }
    }
    all
}

async fn text(blobs: &Blobs, file: &ReadableFile) -> Option<String> {
    let mut stream = blobs.read(&file.blob, 0, file.size_bytes).await.ok()?;
    let mut bytes = Vec::new();
    while let Some(piece) = stream.next().await {
        bytes.extend_from_slice(&piece.ok()?);
    }
    let text = String::from_utf8(bytes).ok()?;
    Some(text.trim_start_matches('\u{feff}').to_owned())
}
