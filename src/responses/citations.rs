//! Citations as annotations of a response.

use async_openai::types::responses::Annotation;

use super::{
    ResponsesService,
    object::{CitedMessage, FileCitation, FileCitationType, UrlCitation, UrlCitationType},
};
use crate::{
    auth::workspaces::get_workspace,
    db::DbError,
    ids::FileId,
    replies::citations::removed::{Citation, RemovedMark, find_citations},
    tools::runner::ToolTask,
};

/// A passage of a file that supports a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CitedPassage {
    file: FileId,
    name: String,
    part: i64,
    /// Position in the text of the part.
    from: i64,
}

impl CitedPassage {
    fn of(citation: Citation) -> Option<Self> {
        Some(Self {
            file: citation.source.file_id?,
            name: citation.file_name?,
            part: citation.source.part?,
            from: citation.source.from?,
        })
    }

    #[cfg(test)]
    pub(super) fn for_tests(file: FileId) -> Self {
        Self {
            file,
            name: "handbook.md".to_owned(),
            part: 1,
            from: 0,
        }
    }

    /// The annotation for the number at this position of a text, in characters.
    pub(super) fn annotation(&self, index: usize) -> Option<Annotation> {
        // The fields of the crate's type are private.
        let annotation = FileCitation {
            kind: FileCitationType,
            index,
            file_id: self.file,
            filename: self.name.clone(),
        };
        serde_json::from_value(serde_json::to_value(annotation).ok()?).ok()
    }
}

impl ResponsesService {
    /// Returns the passages that a mark after a text names and that support its sentence.
    ///
    /// # Errors
    /// Only database errors.
    pub(super) async fn cited_passages(
        &self,
        task: &ToolTask,
        text: String,
        mark: RemovedMark,
    ) -> Result<Vec<CitedPassage>, DbError> {
        let cited = find_citations(&self.db, &self.blobs, task, text, vec![mark]).await?;
        Ok(cited.into_iter().filter_map(CitedPassage::of).collect())
    }

    /// Returns the annotations for the marks that were removed from a text.
    ///
    /// # Errors
    /// Only database errors.
    pub(super) async fn annotations(
        &self,
        task: &ToolTask,
        text: String,
        marks: Vec<RemovedMark>,
    ) -> Result<Vec<Annotation>, DbError> {
        let cited = find_citations(&self.db, &self.blobs, task, text.clone(), marks).await?;
        if cited.is_empty() {
            return Ok(Vec::new());
        }
        let mut c = self.db.read().await?;
        let Ok(workspace) = get_workspace(&mut c, task.workspace).await else {
            return Ok(Vec::new());
        };
        let base = format!("{}/{}", self.public_url, workspace.slug);
        let annotations = cited.iter().filter_map(|citation| {
            // The fields of the crate's type are private.
            let citation = serde_json::to_value(annotation(&text, &base, citation)?).ok()?;
            serde_json::from_value(citation).ok()
        });
        Ok(annotations.collect())
    }
}

/// Creates the annotation for the citation of a message or its file. Its indexes count characters.
fn annotation(text: &str, base: &str, citation: &Citation) -> Option<UrlCitation> {
    let chars = |end: usize| text[..end].chars().count();
    Some(UrlCitation {
        kind: UrlCitationType,
        cited: CitedMessage {
            start_index: chars(citation.range.start),
            end_index: chars(citation.range.end),
            title: citation.title.clone(),
            url: url(base, citation)?,
        },
    })
}

fn url(base: &str, citation: &Citation) -> Option<String> {
    let source = &citation.source;
    let (message, thread, channel) = (source.message_id?, source.thread_id?, source.channel_id?);
    let thread = format!("{base}/c/{channel}/t/{thread}");
    Some(match source.fork_id {
        Some(fork) => format!("{thread}?panel=dive:{fork}#d-{message}"),
        None => format!("{thread}#m-{message}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        chat::messages::MessageSource,
        ids::{ChannelId, ForkId, MessageId, ThreadId},
    };

    #[test]
    fn an_annotation_counts_characters_and_links_to_the_message() {
        let text = "Über alles. Am Montag.";
        let (message, thread, channel) = (MessageId::new(), ThreadId::new(), ChannelId::new());
        let mut citation = Citation {
            range: 13..text.len(),
            source: MessageSource::of(message, thread, None, channel),
            title: "Ada in #ops, 2026-11-27".to_owned(),
            file_name: None,
        };
        let found = annotation(text, "https://chat.example/team", &citation).unwrap();
        let cited = &found.cited;
        assert_eq!((cited.start_index, cited.end_index), (12, 22));
        let thread = format!("https://chat.example/team/c/{channel}/t/{thread}");
        assert_eq!(cited.url, format!("{thread}#m-{message}"));
        let annotation = serde_json::to_value(&found).unwrap();
        assert!(serde_json::from_value::<Annotation>(annotation).is_ok());
        let fork = ForkId::new();
        citation.source.fork_id = Some(fork);
        let expected = format!("{thread}?panel=dive:{fork}#d-{message}");
        assert_eq!(url("https://chat.example/team", &citation), Some(expected));
    }
}
