//! The messages that a catch-up reads.

use crate::{
    auth::Caller,
    chat::reads,
    db::{Conn, DbError},
    ids::ThreadId,
    realtime::hub::Conversation,
    replies::history::{self, Row, SeqRange},
};

/// Maximum number of messages that are read; older ones are only counted.
const MESSAGES_MAX: usize = 500;
/// Number at which the count of older messages stops.
const COUNTED_MAX: i64 = 10_000;

/// Messages of a thread that follow a sequence number.
pub(super) struct Range {
    /// Messages, oldest first.
    pub rows: Vec<Row>,
    /// Number of older messages after that sequence number, which are not in `rows`.
    pub older: i64,
}

impl Range {
    /// Loads the messages after `since`, which defaults to the person's read marker.
    pub(super) async fn load(
        c: &mut Conn,
        caller: &Caller,
        thread: ThreadId,
        since: Option<i64>,
    ) -> Result<Self, DbError> {
        let since = if let Some(since) = since {
            since
        } else {
            // If a person has not joined the channel, nothing counts as read.
            let read = reads::read_until(c, caller.user, thread).await?;
            read.unwrap_or_default()
        };
        let conversation = Conversation::Thread(thread);
        let mut rows = history::after(c, conversation, since, MESSAGES_MAX).await?;
        rows.reverse();
        let older = match rows.first() {
            Some(first) if rows.len() == MESSAGES_MAX => {
                history::count_between(c, conversation, since, first.seq, COUNTED_MAX).await?
            }
            _ => 0,
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
