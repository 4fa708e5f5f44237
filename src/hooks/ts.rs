//! Slack's `ts` of messages: the time and the number of a message in its channel.

use uuid::Uuid;

use crate::{
    chat::messages::Message,
    db::{Conn, DbError},
    ids::{ChannelId, MessageId, ThreadId},
};

/// Maximum number of messages that are posted in one millisecond and compared.
const SAME_TIME_MAX: i64 = 1000;

/// Slack's ID of a message: seconds and milliseconds of its creation, and three digits of its sequence number.
pub fn slack_ts(message: &Message) -> String {
    slack_ts_of(message.id, message.seq)
}

/// The same for a message with this ID and sequence number. Imported messages have negative numbers.
pub fn slack_ts_of(id: MessageId, seq: i64) -> String {
    let ms = id.0.as_u128() >> 80;
    let number = seq.rem_euclid(1000);
    format!("{}.{:03}{number:03}", ms / 1000, ms % 1000)
}

/// Slack's ID of a message within its channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlackTs {
    ms: u64,
    /// Last three digits of the sequence number.
    number: i64,
}

/// Messages of one time: those with IDs from `first` to before `end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TsRange {
    pub first: MessageId,
    pub end: MessageId,
}

fn first_at(ms: u64) -> MessageId {
    MessageId(Uuid::from_u128(u128::from(ms) << 80))
}

impl SlackTs {
    /// Parses a `ts`. A missing part of the fraction is 0, as in `1700000000` and `1700000000.5`.
    pub fn parse(text: &str) -> Option<Self> {
        let (seconds, fraction) = text.split_once('.').unwrap_or((text, ""));
        let is_digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
        if seconds.is_empty()
            || seconds.len() > 11
            || fraction.len() > 6
            || !is_digits(seconds)
            || !is_digits(fraction)
        {
            return None;
        }
        let seconds: u64 = seconds.parse().ok()?;
        let micros: u64 = format!("{fraction:0<6}").parse().ok()?;
        Some(Self {
            ms: seconds * 1000 + micros / 1000,
            number: i64::try_from(micros % 1000).ok()?,
        })
    }

    pub fn range(self) -> TsRange {
        TsRange {
            first: first_at(self.ms),
            end: first_at(self.ms + 1),
        }
    }

    /// Checks whether a message with this sequence number, of this time, is meant.
    pub fn is_of(self, seq: i64) -> bool {
        seq.rem_euclid(1000) == self.number
    }

    /// Position of the message in time.
    pub fn key(self) -> (u64, i64) {
        (self.ms, self.number)
    }

    pub fn of(message: &Message) -> Option<Self> {
        Self::parse(&slack_ts(message))
    }
}

/// The main-line message with a `ts` in a channel, and its thread.
///
/// # Errors
/// Only database errors.
pub async fn find_by_ts(
    c: &mut Conn,
    channel: ChannelId,
    ts: SlackTs,
) -> Result<Option<(MessageId, ThreadId)>, DbError> {
    let range = ts.range();
    let rows: Vec<(MessageId, ThreadId, i64)> = c
        .q("select id, thread_id, seq from messages where id >= $1 and id < $2 and channel_id = $3 \
            and conversation_id = thread_id order by id limit $4")
        .bind(range.first)
        .bind(range.end)
        .bind(channel)
        .bind(SAME_TIME_MAX)
        .all()
        .await?;
    let found = rows.into_iter().find(|row| ts.is_of(row.2));
    Ok(found.map(|row| (row.0, row.1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_names_a_message() {
        let ts = SlackTs::parse("1700000000.123456").unwrap();
        assert_eq!(ts.key(), (1_700_000_000_123, 456));
        assert_eq!(
            SlackTs::parse("1700000000.5").unwrap().key(),
            (1_700_000_000_500, 0)
        );
        assert_eq!(SlackTs::parse("0").unwrap().key(), (0, 0));
        // The number of an imported message is negative.
        assert!(SlackTs::parse("1700000000.123424").unwrap().is_of(-576));
        for wrong in [
            "",
            ".1",
            "x",
            "1.1234567",
            "-1",
            "999999999999.1",
            "1.2.3",
            "C",
            "é",
        ] {
            assert_eq!(SlackTs::parse(wrong), None, "{wrong}");
        }
    }
}
