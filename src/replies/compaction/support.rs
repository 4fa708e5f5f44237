//! Finds the messages that state a sentence, using the checks of a pass.

use super::{check::Source, pass::lines_of};
use crate::{ids::MessageId, replies::history::Row};

/// Finds the messages that state each sentence. The list is empty for a sentence that no message supports. Processes all messages, so
/// it must run in a blocking thread.
pub(in crate::replies) fn sources_of(rows: &[Row], sentences: &[String]) -> Vec<Vec<MessageId>> {
    let (lines, people) = lines_of(rows);
    let source = Source::new(&lines, &people, &[]);
    let of = |sentence: &String| {
        let found = source.supporting(sentence, Vec::new());
        found.into_iter().map(|at| rows[at].id).collect()
    };
    sentences.iter().map(of).collect()
}
