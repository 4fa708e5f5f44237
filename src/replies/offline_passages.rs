//! Passages of files that the built-in responder quotes, within the rights of everyone who can read the answer.

use openvibe_extract::keywords;

use crate::{
    chat::{
        messages::MessageSource,
        search::{
            highlight,
            passages::find::{FileReader, FoundText, PassageFilter, find_any},
            shared::{self, Readers},
            task,
        },
    },
    collections,
    db::{Conn, DbError},
    tools::output::one_line,
};

/// Number of best passages among which those that answer are selected.
const FOUND_MAX: usize = 8;
/// Maximum number of quoted passages.
const QUOTES_MAX: usize = 3;
/// Maximum length of a quotation in characters.
const QUOTE_CHARS_MAX: usize = 240;

/// A quoted passage.
#[derive(Debug, Clone)]
pub(super) struct QuotedPassage {
    /// Name of the file, of the part, and the quotation, such as `Handbook.pdf, page 12: “…”`.
    pub(super) line: String,
    /// The source without its number.
    pub(super) source: MessageSource,
}

/// Finds passages with at least half of the content words of a question, best first.
pub(super) async fn find(
    c: &mut Conn,
    readers: &Readers,
    question: &str,
) -> Result<Vec<QuotedPassage>, DbError> {
    let wanted = keywords(question);
    let Some(is_alone) = shared::is_alone(c, readers).await? else {
        return Ok(Vec::new());
    };
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let reader = FileReader {
        workspace: readers.workspace,
        user: readers.requester,
        shared_in: (!is_alone).then_some(readers.channel.0),
    };
    let found = find_any(
        c,
        reader,
        PassageFilter::default(),
        question.into(),
        FOUND_MAX,
    )
    .await?;
    let mut quoted = Vec::new();
    for passage in found {
        if quoted.len() == QUOTES_MAX {
            break;
        }
        let text = format!("{}\n{}\n{}", passage.name, passage.label, passage.text);
        let shared = wanted.intersection(&keywords(&text)).count();
        if shared * 2 < wanted.len() {
            continue;
        }
        if let Some(source) = source_of(c, reader, &passage).await? {
            let line = line(&passage, question);
            quoted.push(QuotedPassage { line, source });
        }
    }
    Ok(quoted)
}

fn line(passage: &FoundText, question: &str) -> String {
    let mut place = one_line(&passage.name);
    if passage.label != passage.name {
        place = format!("{place}, {}", one_line(&passage.label));
    }
    let quote = highlight::passage(&passage.text, question, QUOTE_CHARS_MAX);
    format!("{place}: “{}”", one_line(&quote))
}

/// The source of a passage: the message with the file, or a vector store; `None` for an upload that is in neither.
async fn source_of(
    c: &mut Conn,
    reader: FileReader,
    passage: &FoundText,
) -> Result<Option<MessageSource>, DbError> {
    let ids: Vec<_> = passage.message.into_iter().collect();
    let of = (reader.workspace, reader.user, reader.shared_in);
    let messages = task::find_readable(c, of, &ids).await?;
    let source = if let Some(message) = messages.first() {
        Some(message.source())
    } else {
        let stores = collections::stores_of(c, reader, passage.file).await?;
        let store = stores.first().copied();
        store.map(|store| MessageSource::in_store(store, passage.file))
    };
    Ok(source.map(|source| MessageSource {
        file_id: Some(passage.file),
        part: Some(passage.part),
        label: Some(passage.label.clone()),
        from: Some(passage.from),
        to: Some(passage.to),
        ..source
    }))
}
