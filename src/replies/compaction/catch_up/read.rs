//! Returns the catch-up of a thread.

use std::time::Duration;

use crate::{
    auth::Caller,
    blocking::interruptible,
    chat::{
        ChatError, access,
        messages::{self, Mention},
    },
    db::{Conn, DbError},
    ids::{ThreadId, UserId},
    replies::compaction::pass::BUILT_IN,
};

use super::{
    CatchUp, CatchUpLeftOut, CatchUpLine, CatchUpSection,
    built_in::{BuiltIn, Material, Time},
    range::Range,
    store,
};

/// Maximum time for reading the messages; after that, only the newest ones count.
const READ_WITHIN: Duration = Duration::from_secs(2);

/// Returns the lines that a model wrote for the caller if they are current, otherwise lines that are made without a model. `since`
/// defaults to the caller's read marker. `permit` is held until the messages have been read, even if the request is dropped.
///
/// # Errors
/// `ThreadNotFound`, or an error from `reading`.
pub async fn catch_up(
    mut c: Conn,
    permit: impl Send + 'static,
    caller: &Caller,
    thread: ThreadId,
    since: Option<i64>,
) -> Result<CatchUp, ChatError> {
    access::thread(&mut c, caller, thread).await?.reading()?;
    let range = Range::load(&mut c, caller, thread, since).await?;
    if let Some(written) = store::find_current(&mut c, thread, caller.user, &range).await? {
        return Ok(written);
    }
    let (count, older) = (range.count(), range.older);
    let Some(ends) = range.ends() else {
        return Ok(CatchUp {
            by: BUILT_IN.to_owned(),
            ..CatchUp::default()
        });
    };
    let material = Material::load(&mut c, thread, range, ends).await?;
    drop(c);
    let work = interruptible(permit, move |interrupt| {
        material.lines(&Time::new(READ_WITHIN, interrupt))
    });
    let found = work.await.unwrap_or_else(|e| {
        tracing::error!(error = %e, "reading a thread for a catch-up panicked");
        BuiltIn::default()
    });
    let unread = i64::try_from(found.unread).unwrap_or(i64::MAX);
    Ok(CatchUp {
        from_seq: Some(ends.from),
        to_seq: Some(ends.to),
        count: count - unread,
        lines: found.lines,
        by: BUILT_IN.to_owned(),
        left_out: CatchUpLeftOut {
            lines: found.left,
            messages: older.saturating_add(unread),
        },
    })
}

/// Adds the author and the time of its message to each line that quotes one, and finds the lines that ask the caller.
///
/// # Errors
/// Only database errors.
pub async fn attribute(
    c: &mut Conn,
    lines: &mut [CatchUpLine],
    caller: UserId,
) -> Result<(), DbError> {
    let caller = caller.to_string();
    for line in lines {
        let message = match line.sources.first() {
            Some(source) => messages::find_message(c, *source).await?,
            None => None,
        };
        let Some(message) = message else { continue };
        let names_caller = |mention: &Mention| mention.id.as_ref() == Some(&caller);
        let is_asked = message.mentions.iter().any(names_caller);
        if is_asked && line.section != CatchUpSection::Decided {
            line.section = CatchUpSection::Asked;
        }
        if line.sources.len() == 1 {
            line.author = Some(message.author);
            line.at = Some(message.created_at);
        }
    }
    Ok(())
}
