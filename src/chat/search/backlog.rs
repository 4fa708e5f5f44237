//! Documents of very many words whose properties changed, such as reactions. A job replaces them one by one.
//!
//! The transactions of a workspace run one after the other, so the job only has to check that the text is still the one that it has
//! read. A deleted message has no text.

use std::time::{Duration, Instant};

use super::index::{self, SearchDocument, is_found};
use crate::{
    blocking::blocking,
    chat::rows::message::find_message,
    db::{Conn, Db, DbError},
    ids::MessageId,
};

/// Pause after each document, as a multiple of the time for its transaction, so that the job takes at most a fifth of the writer's time.
const PAUSE: u32 = 4;

async fn remove(c: &mut Conn, id: MessageId) -> Result<(), DbError> {
    c.q("delete from search_backlog where message_id = $1")
        .bind(id)
        .run()
        .await?;
    Ok(())
}

/// Replaces the document of the message that has waited longest. Returns the pause before the next one; `None` if no message waits.
///
/// # Errors
/// Only database errors.
pub async fn replace_next(db: &Db) -> Result<Option<Duration>, DbError> {
    let mut c = db.read().await?;
    let id: Option<(MessageId,)> = c
        .q("select message_id from search_backlog order by queued_at, message_id limit 1")
        .opt()
        .await?;
    let Some((id,)) = id else { return Ok(None) };
    let message = find_message(&mut c, id).await?;
    drop(c);
    let Some(message) = message else {
        // The row is deleted with its message.
        return Ok(Some(Duration::ZERO));
    };
    let (workspace, content) = (message.workspace_id, message.content.clone());
    let text = if is_found(&message) {
        let (content, plain) = (message.content, message.content_plain);
        blocking((), move || SearchDocument::of(&content, &plain))
            .await
            .inspect_err(
                |e| tracing::error!(error = %e, %id, "the document of a message cannot be made"),
            )
            .ok()
    } else {
        None
    };
    let begun = Instant::now();
    db.write(workspace.0, async move |c: &mut Conn| {
        let Some(message) = find_message(c, id).await? else {
            return Ok(());
        };
        if message.content != content {
            // The next call reads the new text.
            return Ok(());
        }
        remove(c, id).await?;
        match &text {
            Some(text) => index::reindex(c, &message, text).await,
            None => Ok::<_, DbError>(()),
        }
    })
    .await?;
    Ok(Some(begun.elapsed() * PAUSE))
}
