//! Files of the trigger message whose text is included in the prompt.

use std::time::Duration;

use futures::StreamExt;

use super::prompt::TextFile;
use crate::{
    chat::search::passages::{
        self, FoundBy,
        find::{FileReader, PassageFilter, PassageQuestion},
    },
    db::{Conn, Db, DbError},
    files::{
        self, Attachment, Blobs,
        documents::{self, DocumentPart, DocumentRow, DocumentState},
    },
    ids::MessageId,
    storage::Blob,
    tools::builtin::MEANING_ONLY,
};

/// Maximum total size in bytes of the files in one prompt.
pub const TEXT_BYTES_MAX: i64 = 32 * 1024;
/// Maximum size in bytes of the first part of a document that does not fit.
const FIRST_PART_BYTES_MAX: usize = 6 * 1024;
/// Maximum number of passages of a document that does not fit.
const PASSAGES_MAX: usize = 5;
/// Maximum number of parts of a document that is included as a whole.
const PARTS_MAX: i64 = 500;
/// Time for which a reply waits for files that have not been read yet.
pub const READ_WITHIN: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// A file whose text is included.
#[derive(Debug, Clone)]
pub struct ReadableFile {
    /// Position among the attachments, starting at 0.
    position: usize,
    text: Readable,
}

#[derive(Debug, Clone)]
enum Readable {
    /// A text file that is small enough.
    Bytes { blob: Blob, size_bytes: u64 },
    /// Text of a document: all of it, or its beginning and a note about the rest.
    Document { text: String, note: Option<String> },
}

/// Checks whether passages may be selected from files, because they may not fit as a whole.
pub fn may_be_cut(files: &[Attachment]) -> bool {
    let read = files
        .iter()
        .filter(|file| !file.content_type.starts_with("image/"));
    let mut size_bytes = 0;
    for file in read {
        if !file.is_text() {
            return true;
        }
        size_bytes += file.size_bytes;
    }
    size_bytes > TEXT_BYTES_MAX
}

/// Checks whether the whole text of a document fits into a prompt without other files.
pub fn fits(row: &DocumentRow) -> bool {
    row.chars <= TEXT_BYTES_MAX && row.parts <= PARTS_MAX
}

/// Selects files that fit into `TEXT_BYTES_MAX` together, in the order of the attachments. Of a document that does not fit, only the
/// first part is included. A text file that does not fit is treated like a document.
pub async fn readable(
    c: &mut Conn,
    of: &FileQuestion<'_>,
    attachments: &[Attachment],
) -> Result<Vec<ReadableFile>, DbError> {
    let mut room = TEXT_BYTES_MAX;
    let mut all = Vec::new();
    for (position, file) in attachments.iter().enumerate() {
        let Some(stored) = files::find(c, file.id).await? else {
            continue;
        };
        let text = if file.is_text() && file.size_bytes <= room {
            room -= file.size_bytes;
            Readable::Bytes {
                blob: stored.blob,
                size_bytes: u64::try_from(file.size_bytes).unwrap_or_default(),
            }
        } else {
            let row = documents::find_document(c, &stored.blob.hash).await?;
            let Some(row) = row.filter(DocumentRow::has_text) else {
                continue;
            };
            let Some((text, note)) = document_text(c, of, file, &row, room).await? else {
                continue;
            };
            room -= i64::try_from(text.len()).unwrap_or(room);
            Readable::Document { text, note }
        };
        all.push(ReadableFile { position, text });
    }
    Ok(all)
}

/// The question whose files are read, and its reader.
#[derive(Debug, Clone, Copy)]
pub struct FileQuestion<'a> {
    pub reader: FileReader,
    pub question: PassageQuestion<'a>,
}

/// The text of a document, or its first part, the passages that match the question, and a note; `None` if there is no room even for
/// these.
async fn document_text(
    c: &mut Conn,
    of: &FileQuestion<'_>,
    file: &Attachment,
    row: &DocumentRow,
    room: i64,
) -> Result<Option<(String, Option<String>)>, DbError> {
    let unit = unit_of(&file.content_type);
    if row.chars <= room && row.parts <= PARTS_MAX {
        let parts = documents::list_parts(c, &row.hash, 0, PARTS_MAX).await?;
        let parts: Vec<String> = parts.iter().filter_map(part_text).collect();
        let text = parts.join("\n\n");
        if i64::try_from(text.len()).is_ok_and(|len| len <= room) {
            return Ok(Some((text, unread_note(row, unit))));
        }
    }
    let Some(first) = documents::find_part(c, &row.hash, 1).await? else {
        return Ok(None);
    };
    let mut text = part_text(&first).unwrap_or_default();
    let room_bytes = usize::try_from(room).unwrap_or(0);
    let room = room_bytes.min(FIRST_PART_BYTES_MAX);
    let is_cut = text.len() > room;
    text.truncate(text.floor_char_boundary(room));
    if text.is_empty() {
        return Ok(None);
    }
    let filter = PassageFilter {
        file: Some(file.id),
        ..PassageFilter::default()
    };
    let found = passages::find::find_any(c, of.reader, filter, of.question, PASSAGES_MAX).await?;
    let mut count = 0;
    for passage in found
        .iter()
        .filter(|passage| passage.part != first.n || is_cut)
    {
        let note = match passage.found_by {
            FoundBy::Meaning => MEANING_ONLY,
            FoundBy::Words | FoundBy::Both => "",
        };
        let next = format!("\n\n[{}]{note}\n{}", passage.label, passage.text);
        if text.len() + next.len() > room_bytes {
            break;
        }
        text.push_str(&next);
        count += 1;
    }
    let beginning = if is_cut { "the beginning of " } else { "" };
    let passages = if count == 0 {
        String::new()
    } else {
        format!(" and {}", counted(count, "passage"))
    };
    let parts = counted(row.parts, unit);
    let note = format!("({beginning}{unit} 1{passages} of {parts}; search_files finds more)");
    Ok(Some((text, Some(note))))
}

/// Text of a part below its name; `None` if it has no text.
fn part_text(part: &DocumentPart) -> Option<String> {
    let text = part.text.trim_end();
    match (text.is_empty(), part.label.is_empty()) {
        (true, _) => None,
        (false, true) => Some(text.to_owned()),
        (false, false) => Some(format!("[{}]\n{text}", part.label)),
    }
}

/// Name of the parts of a document.
fn unit_of(content_type: &str) -> &'static str {
    let has = |word: &str| content_type.contains(word);
    if content_type == "application/pdf" {
        "page"
    } else if has("presentation") {
        "slide"
    } else if has("spreadsheet") || has("excel") {
        "sheet"
    } else {
        "part"
    }
}

fn counted(count: i64, unit: &str) -> String {
    let s = if count == 1 { "" } else { "s" };
    format!("{count} {unit}{s}")
}

/// A note that some parts could not be read.
fn unread_note(row: &DocumentRow, unit: &str) -> Option<String> {
    let unread = row.unread_parts();
    (row.state == DocumentState::Partial).then(|| match unread.as_slice() {
        [] => "(the rest of the file could not be read)".to_owned(),
        [one] => format!("({unit} {one} could not be read)"),
        numbers => {
            let numbers: Vec<String> = numbers.iter().map(i64::to_string).collect();
            format!("({unit}s {} could not be read)", numbers.join(", "))
        }
    })
}

/// Waits until the files of a message have been read, and their passages can be found if they are needed, or for a limited time. Text
/// files that fit into the prompt are sent as they are, so it does not wait for them.
pub async fn wait_for_texts(db: &Db, message: MessageId) -> Result<(), DbError> {
    let until = tokio::time::Instant::now() + READ_WITHIN;
    while documents::is_any_waiting(&mut db.read().await?, message, TEXT_BYTES_MAX).await?
        && tokio::time::Instant::now() < until
    {
        tokio::time::sleep(LOOK_EVERY).await;
    }
    Ok(())
}

/// Reads the files. Files that cannot be read are left out, and the prompt then lists them as unreadable.
pub async fn texts(blobs: &Blobs, readable: &[ReadableFile]) -> Vec<TextFile> {
    let mut all = Vec::with_capacity(readable.len());
    for file in readable {
        let read = match &file.text {
            Readable::Bytes { blob, size_bytes } => text(blobs, blob, *size_bytes)
                .await
                .map(|text| (text, None)),
            Readable::Document { text, note } => Some((text.clone(), note.clone())),
        };
        if let Some((text, note)) = read {
            all.push(TextFile {
                position: file.position,
                text,
                note,
            });
        } else {
            tracing::warn!("an attached text file could not be read for a prompt");
        }
    }
    all
}

async fn text(blobs: &Blobs, blob: &Blob, size_bytes: u64) -> Option<String> {
    let mut stream = blobs.read(blob, 0, size_bytes).await.ok()?;
    let mut bytes = Vec::new();
    while let Some(piece) = stream.next().await {
        bytes.extend_from_slice(&piece.ok()?);
    }
    let text = String::from_utf8(bytes).ok()?;
    Some(text.trim_start_matches('\u{feff}').to_owned())
}
