//! The messages that a catch-up reads.

use crate::{
    auth::Caller,
    chat::{reads, threads::is_example},
    db::{Conn, DbError},
    ids::{BEFORE_ALL_SEQS, ThreadId},
    realtime::hub::Conversation,
    replies::history::{self, Row, SeqRange},
};

/// Maximum number of messages that are read, and maximum size of their texts together; older messages are only counted.
const MESSAGES_MAX: usize = 500;
const TEXT_BYTES_MAX: i64 = 1024 * 1024;
/// Number at which the count of older messages stops.
const COUNTED_MAX: i64 = 10_000;

/// Messages of a thread that follow a sequence number.
#[derive(Default)]
pub(super) struct Range {
    /// Messages, oldest first.
    pub rows: Vec<Row>,
    /// Number of older messages after that sequence number, which are not in `rows`.
    pub older: i64,
}

impl Range {
    /// Loads the messages after `since`, which defaults to the person's read marker. 0 and, in an example, the default are before all
    /// messages, also before those without an event.
    pub(super) async fn load(
        c: &mut Conn,
        caller: &Caller,
        thread: ThreadId,
        since: Option<i64>,
    ) -> Result<Self, DbError> {
        let since = match since {
            Some(0) => BEFORE_ALL_SEQS,
            Some(since) => since,
            None if is_example(c, thread).await? => BEFORE_ALL_SEQS,
            None => {
                // If a person has not joined the channel, nothing counts as read.
                let read = reads::read_until(c, caller.user, thread).await?;
                read.unwrap_or(BEFORE_ALL_SEQS)
            }
        };
        let conversation = Conversation::Thread(thread);
        let sizes = history::sizes_after(c, conversation, since, MESSAGES_MAX).await?;
        let mut bytes = 0;
        let fit = sizes.iter().take_while(|message| {
            bytes += message.bytes;
            bytes <= TEXT_BYTES_MAX
        });
        // The newest message is read regardless of its size.
        let count = fit.count().max(1).min(sizes.len());
        let newest = &sizes[..count];
        let (Some(last), Some(first)) = (newest.first(), newest.last()) else {
            return Ok(Self::default());
        };
        let ends = SeqRange {
            from: first.seq,
            to: last.seq,
        };
        let rows = history::between(c, conversation, ends, MESSAGES_MAX).await?;
        let older = if count < sizes.len() || count == MESSAGES_MAX {
            history::count_between(c, conversation, since, first.seq, COUNTED_MAX).await?
        } else {
            0
        };
        Ok(Self { rows, older })
    }

    pub(super) fn count(&self) -> i64 {
        i64::try_from(self.rows.len()).unwrap_or(i64::MAX)
    }

    /// Returns the sequence numbers of the first and the last message.
    pub(super) fn ends(&self) -> Option<SeqRange> {
        let (first, last) = self.rows.first().zip(self.rows.last())?;
        Some(SeqRange {
            from: first.seq,
            to: last.seq,
        })
    }
}
