//! Announces that messages were added to channels or removed from them, at most every ten seconds per channel, and progress as often.

use std::{
    collections::{HashMap, HashSet},
    time::{Duration, Instant},
};

use crate::{
    chat::{ChatError, channels::announce_imported},
    db::Conn,
    ids::ChannelId,
};

/// Minimum time between events of a channel.
const EVERY: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
pub(super) struct Announcer {
    pending: HashSet<ChannelId>,
    announced: HashMap<ChannelId, Instant>,
    /// Time at which the progress was announced.
    progress: Option<Instant>,
}

impl Announcer {
    /// Notes that messages of these channels have changed.
    pub(super) fn touch(&mut self, channels: impl IntoIterator<Item = ChannelId>) {
        self.pending.extend(channels);
    }

    /// Channels to announce now; they count as announced.
    pub(super) fn due(&mut self) -> Vec<ChannelId> {
        let now = Instant::now();
        let is_due = |channel: &ChannelId| {
            let last = self.announced.get(channel);
            last.is_none_or(|last| now.duration_since(*last) >= EVERY)
        };
        let due: Vec<ChannelId> = self.pending.iter().copied().filter(is_due).collect();
        for channel in &due {
            self.pending.remove(channel);
            self.announced.insert(*channel, now);
        }
        due
    }

    /// Checks whether an announcement of the progress is due, and if so, counts it as made.
    pub(super) fn is_progress_due(&mut self) -> bool {
        let now = Instant::now();
        let is_due = self
            .progress
            .is_none_or(|last| now.duration_since(last) >= EVERY);
        if is_due {
            self.progress = Some(now);
        }
        is_due
    }

    /// Channels that are not announced yet.
    pub(super) fn all(&mut self) -> Vec<ChannelId> {
        self.pending.drain().collect()
    }

    /// Appends the events.
    ///
    /// # Errors
    /// Only database errors.
    pub(super) async fn announce(c: &mut Conn, channels: &[ChannelId]) -> Result<(), ChatError> {
        for channel in channels {
            match announce_imported(c, *channel).await {
                Err(ChatError::ChannelNotFound) => {}
                other => other?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_channel_is_announced_at_once_and_then_after_a_while() {
        let (mut announcer, channel) = (Announcer::default(), ChannelId::new());
        announcer.touch([channel]);
        assert_eq!(announcer.due(), [channel]);
        announcer.touch([channel]);
        assert_eq!(announcer.due(), []);
        assert_eq!(announcer.all(), [channel]);
        assert_eq!(announcer.all(), []);
        assert!(announcer.is_progress_due());
        assert!(!announcer.is_progress_due());
    }
}
