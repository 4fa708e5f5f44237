//! `read_file`.

use futures::StreamExt;
use serde_json::{Map, Value};

use super::{options::Options, places};
use crate::{
    agents::derived::SourceId,
    chat::search::passages::find::FileReader,
    collections,
    db::{Conn, DbError, is_shared_channel, is_trusted_file},
    files::{
        self, Blobs, Stored,
        documents::{self, DocumentPart, DocumentReason, DocumentState},
    },
    ids::{ChannelId, FileId, MessageId, WorkspaceId},
    tasks::actions::{ActionSource, TaintKind},
    tool_fault::{ToolErrorCode, ToolFault},
    tools::{
        arguments::Arguments,
        handles,
        output::{Handled, ToolOutput, one_line},
        rights::Rights,
        runner::{CallError, ToolTask},
    },
};

/// Maximum number of bytes that are read at once; the remaining space in a result is for its heading.
const READ_BYTES_MAX: u64 = 31 * 1024;
/// Maximum number of bytes from an offset inside a UTF-8 character to the next character.
const CHARACTER_BYTES_MAX: usize = 3;

/// The ID of a file that was named by its ID or handle.
///
/// # Errors
/// `not_found`.
pub(super) async fn find_id(c: &mut Conn, of: &ToolTask, named: &str) -> Result<FileId, CallError> {
    if let Ok(id) = FileId::parse(named) {
        return Ok(id);
    }
    match handles::find(c, of.task, named).await? {
        Some(Handled::File(id)) => Ok(id),
        Some(Handled::Passage(place)) => Ok(place.file),
        _ => Err(places::missing("no such file")),
    }
}

/// A file that the task may read, and the position from which to read.
pub(super) struct Readable {
    stored: Stored,
    /// True if a vector store whose texts do not taint has the file.
    is_trusted: bool,
    offset: u64,
    part: Option<ReadablePart>,
}

/// A part of a document, read from an offset in its text.
struct ReadablePart {
    part: DocumentPart,
    /// Number of parts of the document.
    parts: i64,
}

/// # Errors
/// `bad_arguments`, `not_found`, `unreadable`.
pub(super) async fn find(
    c: &mut Conn,
    of: &ToolTask,
    rights: &Rights,
    options: &Options,
    arguments: &Map<String, Value>,
) -> Result<Readable, CallError> {
    let arguments = Arguments::of(arguments, &["file", "part", "offset"])?;
    let named = arguments.required("file")?;
    let id = find_id(c, of, named).await?;
    let offset = arguments.number("offset", 0..=i64::MAX)?.unwrap_or(0);
    let n = arguments.number("part", 1..=i64::MAX)?;
    let missing = || places::missing("no such file");
    let stored = files::find(c, id).await?.ok_or_else(missing)?;
    if stored.workspace_id != of.workspace {
        return Err(missing());
    }
    if !can_read(c, rights, options, &stored).await? {
        return Err(missing());
    }
    // A text file is read as it is, unless a part is named.
    let part = if stored.about.is_text() && n.is_none() {
        None
    } else {
        Some(find_part(c, &stored, n.unwrap_or(1)).await?)
    };
    let is_trusted: bool = c
        .q(concat!("select ", is_trusted_file!("$1")))
        .bind(id)
        .value()
        .await?;
    Ok(Readable {
        stored,
        is_trusted,
        offset: u64::try_from(offset).unwrap_or_default(),
        part,
    })
}

/// Checks whether the task may read a file: everyone who can read the file's message or a vector store with the file can read it.
async fn can_read(
    c: &mut Conn,
    rights: &Rights,
    options: &Options,
    file: &Stored,
) -> Result<bool, DbError> {
    if let Some(message) = file.message_id
        && can_read_message(c, rights, options, file.workspace_id, message).await?
    {
        return Ok(true);
    }
    let reader = FileReader {
        workspace: file.workspace_id,
        user: rights.requester,
        shared_in: rights.shared_in,
    };
    Ok(options.permits_all() && collections::can_read_file(c, reader, file.about.id).await?)
}

async fn can_read_message(
    c: &mut Conn,
    rights: &Rights,
    options: &Options,
    workspace: WorkspaceId,
    message: MessageId,
) -> Result<bool, DbError> {
    let channel: Option<(ChannelId,)> = c
        .q(concat!(
            "select m.channel_id from messages m where m.id = $1 and m.workspace_id = $2 and m.deleted_at is null and ",
            is_shared_channel!("m.channel_id", "$3", "$4")
        ))
        .bind(message)
        .bind(workspace)
        .bind(rights.requester)
        .bind(rights.shared_in)
        .opt()
        .await?;
    Ok(channel.is_some_and(|(channel,)| options.permit(channel)))
}

/// # Errors
/// `unreadable` with the reason, `not_found`.
async fn find_part(c: &mut Conn, file: &Stored, n: i64) -> Result<ReadablePart, CallError> {
    let name = one_line(&file.about.name);
    let unreadable = |text| ToolFault::new(ToolErrorCode::Unreadable, text);
    let Some(row) = documents::find_document(c, &file.blob.hash).await? else {
        return Err(unreadable(format!("{name} has no text")).into());
    };
    if row.state == DocumentState::Waiting {
        let text = format!("{name} has not been read yet: try again in some seconds");
        return Err(unreadable(text).into());
    }
    if !row.has_text() {
        let because = row.reason.map_or("it has no text", because);
        return Err(unreadable(format!("{name} could not be read: {because}")).into());
    }
    let parts = row.parts;
    let part = documents::find_part(c, &row.hash, n)
        .await?
        .ok_or_else(|| {
            ToolFault::new(
                ToolErrorCode::NotFound,
                format!("{name} has no part {n}: it has {parts}"),
            )
        })?;
    Ok(ReadablePart { part, parts })
}

fn because(reason: DocumentReason) -> &'static str {
    match reason {
        DocumentReason::Scanned => "its pages are pictures without text",
        DocumentReason::Encrypted => "it is locked with a password",
        DocumentReason::Damaged => "it is damaged",
        DocumentReason::TooLarge => "it is too large",
        DocumentReason::TooSlow => "it took too long",
        DocumentReason::NoTextMap => "its characters cannot be mapped to text",
        DocumentReason::OldFormat => "its format is too old",
    }
}

/// Part of a text file. Positions are in bytes.
#[derive(Debug)]
pub struct TextPart {
    pub text: String,
    pub from: u64,
    pub to: u64,
    /// Size of the file.
    pub size: u64,
}

impl TextPart {
    /// The offset of the next part; `None` at the end of the file, or if only an incomplete character is left.
    pub fn next_offset(&self) -> Option<u64> {
        (self.to < self.size && !self.text.is_empty()).then_some(self.to)
    }
}

fn check_text(file: &Stored) -> Result<(), ToolFault> {
    if file.about.is_text() {
        return Ok(());
    }
    let text = format!("{} is not a text file", one_line(&file.about.name));
    Err(ToolFault::new(ToolErrorCode::Unreadable, text))
}

/// Reads a part of a file, from the first whole character at or after the offset. The caller must have checked access to
/// the file.
///
/// # Errors
/// `unreadable` if the file is not text, its bytes are missing, or they are not UTF-8.
pub async fn read_part(blobs: &Blobs, file: &Stored, offset: u64) -> Result<TextPart, ToolFault> {
    check_text(file)?;
    let unreadable = || ToolFault::of(ToolErrorCode::Unreadable);
    let size = u64::try_from(file.about.size_bytes).unwrap_or_default();
    let len = READ_BYTES_MAX.min(size.saturating_sub(offset));
    let mut bytes = Vec::new();
    if len > 0 {
        let stream = blobs.read(&file.blob, offset, len).await;
        let mut stream = stream.map_err(|_| unreadable())?;
        while let Some(piece) = stream.next().await {
            bytes.extend_from_slice(&piece.map_err(|_| unreadable())?);
        }
    }
    let (skipped, text) = whole_characters(&bytes, offset > 0).ok_or_else(unreadable)?;
    let from = offset + skipped as u64;
    Ok(TextPart {
        to: from + text.len() as u64,
        text: text.to_owned(),
        from,
        size,
    })
}

/// # Errors
/// Same as `read_part`.
pub(super) async fn read(blobs: &Blobs, file: &Readable) -> Result<ToolOutput, CallError> {
    let about = &file.stored.about;
    if let Some(part) = &file.part {
        return Ok(read_document(file, part));
    }
    let part = read_part(blobs, &file.stored, file.offset).await?;
    let next = part.next_offset();
    let TextPart {
        text,
        from,
        to,
        size,
    } = part;
    let mut output = ToolOutput::default();
    output.own("File ");
    output.data(one_line(&about.name));
    output.own(format!(", bytes {from} to {to} of {size}:\n"));
    output.data(text.trim_start_matches('\u{feff}'));
    if let Some(next) = next {
        output.own(format!("\n[Read on with offset {next}.]"));
    }
    note_source(&mut output, file);
    Ok(output)
}

/// Adds a file to the sources of a result.
fn note_source(output: &mut ToolOutput, file: &Readable) {
    let about = &file.stored.about;
    output.messages.extend(file.stored.message_id);
    output
        .cites
        .extend([SourceId::User(about.created_by), SourceId::File(about.id)]);
    if !file.is_trusted {
        let source = ActionSource::new(TaintKind::File, about.id.0, about.name.clone());
        output.taints.push(source);
    }
}

/// Returns text of a part of a document from the offset.
fn read_document(file: &Readable, ReadablePart { part, parts }: &ReadablePart) -> ToolOutput {
    let about = &file.stored.about;
    let text = &part.text;
    let from = usize::try_from(file.offset).unwrap_or(usize::MAX);
    let from = text.floor_char_boundary(from);
    let to = text.floor_char_boundary(from + usize::try_from(READ_BYTES_MAX).unwrap_or(0));
    let name = one_line(&about.name);
    let mut output = ToolOutput::default();
    output.own("File ");
    output.data(&name);
    output.own(format!(", part {} of {parts}, ", part.n));
    output.data(one_line(part.name(&name)));
    if from > 0 || to < text.len() {
        output.own(format!(", bytes {from} to {to} of {}", text.len()));
    }
    output.own(":\n");
    output.data(&text[from..to]);
    if to < text.len() {
        output.own(format!("\n[Read on with part {}, offset {to}.]", part.n));
    } else if part.n < *parts {
        output.own(format!("\n[Read on with part {}.]", part.n + 1));
    }
    note_source(&mut output, file);
    output
}

/// The whole characters of a part of a text, and the number of bytes before them; `None` if the part is not UTF-8.
fn whole_characters(bytes: &[u8], can_begin_inside: bool) -> Option<(usize, &str)> {
    let is_inside = |byte: &&u8| (**byte & 0b1100_0000) == 0b1000_0000;
    let skipped = if can_begin_inside {
        bytes
            .iter()
            .take(CHARACTER_BYTES_MAX)
            .take_while(is_inside)
            .count()
    } else {
        0
    };
    let rest = &bytes[skipped..];
    match std::str::from_utf8(rest) {
        Ok(text) => Some((skipped, text)),
        // The last character continues after the part.
        Err(e) if e.error_len().is_none() => {
            let whole = std::str::from_utf8(&rest[..e.valid_up_to()]).ok()?;
            Some((skipped, whole))
        }
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_text_has_whole_characters() {
        let text = "aé€😀z".as_bytes();
        for from in 0..=text.len() {
            for to in from..=text.len() {
                let (skipped, part) = whole_characters(&text[from..to], from > 0).unwrap();
                let start = from + skipped;
                assert!("aé€😀z".is_char_boundary(start) || part.is_empty());
                assert!("aé€😀z"[..].as_bytes()[start..].starts_with(part.as_bytes()));
            }
        }
        assert_eq!(whole_characters(&[0xff, 0xfe, b'a'], false), None);
        assert_eq!(whole_characters(b"a\x80b", true), None);
    }
}
