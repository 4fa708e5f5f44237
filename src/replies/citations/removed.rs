//! Citations of a text from which the marks were removed while it was streamed.

use std::{collections::HashMap, ops::Range};

use openvibe_extract::sentence_ranges;

use super::{Found, HANDLES_MAX, Home, marks::Marked, source_at};
use crate::{
    chat::{messages::MessageSource, search::task::TaskMessage},
    db::{Db, DbError},
    files::Blobs,
    tasks::slow,
    tools::{output::Handled, runner::ToolTask},
};

/// A mark that was removed from a text, with the objects that it names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemovedMark {
    /// Position in the text, in bytes.
    pub at: usize,
    /// Handles and their objects.
    pub named: Vec<(String, Handled)>,
}

/// A sentence, and a message or passage that supports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Citation {
    /// Range of the sentence in the text, in bytes.
    pub range: Range<usize>,
    pub source: MessageSource,
    /// Author, channel, and date of a message, such as `Ada in #ops, 2026-11-27`; empty for a file in a vector store.
    pub title: String,
    /// Name of the file with the cited passage.
    pub file_name: Option<String>,
}

/// Finds the sentences of a text whose marks are supported, by the rules for the marks of a reply.
///
/// # Errors
/// Only database errors.
pub async fn find_citations(
    db: &Db,
    blobs: &Blobs,
    task: &ToolTask,
    text: String,
    marks: Vec<RemovedMark>,
) -> Result<Vec<Citation>, DbError> {
    if marks.is_empty() {
        return Ok(Vec::new());
    }
    let mut named: Vec<(String, Handled)> = Vec::new();
    for (handle, of) in marks.iter().flat_map(|mark| &mark.named) {
        if named.len() < HANDLES_MAX && !named.iter().any(|(known, _)| known == handle) {
            named.push((handle.clone(), *of));
        }
    }
    let mut c = db.read().await?;
    let found = Found::load(&mut c, task, named).await?;
    drop(c);
    let files = found.read_files(db, blobs).await?;
    // Checking a long text is slow, so it runs in a blocking thread.
    let compared = slow::run(task.requester, move |_| {
        let restored = Restored::of(&text, &marks);
        let marked = Marked::of(restored.text, HANDLES_MAX);
        let supported = found.support(&marked, &files);
        let places = found.places();
        let mut citations: Vec<Citation> = Vec::new();
        for (start, handles, sentence) in marked.places() {
            let Some(at) = restored.positions.get(&start) else {
                continue;
            };
            for handle in handles {
                let cited = supported.get(sentence).and_then(|of| of.get(handle));
                let Some((cited, source)) =
                    cited.and_then(|cited| Some((cited, source_at(&places, &files, *cited)?)))
                else {
                    continue;
                };
                let file = source.file_id.and_then(|id| found.files.get(&id));
                let title = match cited.home {
                    Home::Message(id) => found.messages.get(&id).map(title).unwrap_or_default(),
                    Home::Store(..) => String::new(),
                };
                let file_name = file.map(|file| file.about.name.clone());
                let citation = Citation {
                    range: sentence_before(&text, *at),
                    source,
                    title,
                    file_name,
                };
                if !citations.contains(&citation) {
                    citations.push(citation);
                }
            }
        }
        citations
    });
    Ok(compared.await.unwrap_or_else(|e| {
        tracing::error!(error = %e, "the citations of a response could not be checked");
        Vec::new()
    }))
}

/// A text with its marks.
struct Restored {
    text: String,
    /// Positions of the marks in the text without marks, by their positions in this one.
    positions: HashMap<usize, usize>,
}

impl Restored {
    fn of(text: &str, marks: &[RemovedMark]) -> Self {
        let mut restored = Self {
            text: String::with_capacity(text.len()),
            positions: HashMap::new(),
        };
        let mut from = 0;
        for mark in marks {
            let at = text.floor_char_boundary(mark.at.max(from));
            restored.text.push_str(&text[from..at]);
            from = at;
            restored.text.push(' ');
            restored.positions.insert(restored.text.len(), at);
            let handles: Vec<&str> = mark
                .named
                .iter()
                .map(|(handle, _)| handle.as_str())
                .collect();
            restored.text.push('[');
            restored.text.push_str(&handles.join(", "));
            restored.text.push(']');
        }
        restored.text.push_str(&text[from..]);
        restored
    }
}

/// Returns the range of the sentence that contains or precedes a position, or of the first sentence of its line.
fn sentence_before(text: &str, at: usize) -> Range<usize> {
    let start = text[..at].rfind('\n').map_or(0, |end| end + 1);
    let end = text[at..].find('\n').map_or(text.len(), |end| at + end);
    let sentences = sentence_ranges(&text[start..end]);
    let before = sentences.iter().rfind(|range| start + range.start < at);
    let found = before.or_else(|| sentences.first());
    found.map_or(start..end, |range| start + range.start..start + range.end)
}

fn title(message: &TaskMessage) -> String {
    let author = message.author_name.as_deref().unwrap_or("a former member");
    let channel = message.channel_name.as_deref();
    let place = channel.map_or_else(|| "a direct message".to_owned(), |name| format!("#{name}"));
    format!("{author} in {place}, {}", message.created_at.day())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::MessageId;

    #[test]
    fn marks_are_restored_at_their_positions() {
        let named = vec![("S1".to_owned(), Handled::Message(MessageId::new()))];
        let text = "On Monday. Über alles.";
        let marks = [9, text.len()].map(|at| RemovedMark {
            at,
            named: named.clone(),
        });
        let restored = Restored::of(text, &marks);
        assert_eq!(restored.text, "On Monday [S1]. Über alles. [S1]");
        assert_eq!(restored.positions[&10], 9);
        assert_eq!(restored.positions.len(), 2);
    }

    #[test]
    fn a_position_belongs_to_the_sentence_before_it() {
        let text = "First line.\nOn Monday. At nine.";
        for (at, expected) in [
            (text.len(), "At nine."),
            (22, "On Monday."),
            (12, "On Monday."),
        ] {
            assert_eq!(text[sentence_before(text, at)].trim(), expected, "{at}");
        }
    }
}
