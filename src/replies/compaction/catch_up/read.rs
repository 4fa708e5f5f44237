//! Returns the catch-up of a thread.

use crate::{
    auth::Caller,
    chat::{ChatError, access},
    db::Conn,
    ids::ThreadId,
    replies::compaction::pass::BUILT_IN,
};

use super::{CatchUp, CatchUpLeftOut, built_in::Material, range::Range, store};

/// Returns the lines that a model wrote for the caller if they are current, otherwise lines that are made without a model. `since`
/// defaults to the caller's read marker.
///
/// # Errors
/// `ThreadNotFound`, or an error from `reading`.
pub async fn catch_up(
    mut c: Conn,
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
    let work = tokio::task::spawn_blocking(move || material.lines());
    let (lines, left) = work.await.unwrap_or_else(|e| {
        tracing::error!(error = %e, "reading a thread for a catch-up panicked");
        (Vec::new(), 0)
    });
    Ok(CatchUp {
        from_seq: Some(ends.from),
        to_seq: Some(ends.to),
        count,
        lines,
        by: BUILT_IN.to_owned(),
        left_out: CatchUpLeftOut {
            lines: left,
            messages: older,
        },
    })
}
