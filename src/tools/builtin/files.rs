//! `read_file`.

use futures::StreamExt;
use serde_json::{Map, Value};

use super::{options::Options, places};
use crate::{
    agents::derived::SourceId,
    db::{Conn, is_shared_channel},
    files::{self, Blobs, Stored},
    ids::{ChannelId, FileId, MessageId},
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

/// A file that the task may read, and the position from which to read.
pub(super) struct Readable {
    stored: Stored,
    message: MessageId,
    offset: u64,
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
    let arguments = Arguments::of(arguments, &["file", "offset"])?;
    let named = arguments.required("file")?;
    let id = match FileId::parse(named) {
        Ok(id) => Some(id),
        Err(_) => match handles::find(c, of.task, named).await? {
            Some(Handled::File(id)) => Some(id),
            _ => None,
        },
    };
    let offset = arguments.number("offset", 0..=i64::MAX)?.unwrap_or(0);
    let missing = || places::missing("no such file");
    let id = id.ok_or_else(missing)?;
    let stored = files::find(c, id).await?.ok_or_else(missing)?;
    let message = stored.message_id.ok_or_else(missing)?;
    // Everyone who can read the file's message can read the file.
    let channel: Option<(ChannelId,)> = c
        .q(concat!(
            "select m.channel_id from messages m where m.id = $1 and m.workspace_id = $2 and m.deleted_at is null and ",
            is_shared_channel!("m.channel_id", "$3", "$4")
        ))
        .bind(message)
        .bind(of.workspace)
        .bind(rights.requester)
        .bind(rights.shared_in)
        .opt()
        .await?;
    if !channel.is_some_and(|(channel,)| options.permit(channel)) {
        return Err(missing());
    }
    check_text(&stored)?;
    Ok(Readable {
        stored,
        message,
        offset: u64::try_from(offset).unwrap_or_default(),
    })
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
    output.messages.push(file.message);
    output.cites.push(SourceId::User(about.created_by));
    let source = ActionSource::new(TaintKind::File, about.id.0, about.name.clone());
    output.taints.push(source);
    Ok(output)
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
