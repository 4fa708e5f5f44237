//! Deltas that wait for the next notification.

use std::{
    collections::{HashMap, hash_map::Entry},
    time::{Duration, Instant},
};

use crate::{
    ids::TaskId,
    realtime::{BusMessage, RemoteDelta},
};

/// Interval at which deltas are sent over NOTIFY.
const EVERY: Duration = Duration::from_millis(250);

/// Deltas that wait for the next notification, joined by task.
#[derive(Default)]
pub(super) struct HeldDeltas {
    by_task: HashMap<TaskId, RemoteDelta>,
    since: Option<Instant>,
}

impl HeldDeltas {
    /// Holds a delta back. Returns the delta that was held for the same task if the two cannot be joined.
    pub(super) fn hold(&mut self, delta: RemoteDelta) -> Option<RemoteDelta> {
        self.since.get_or_insert_with(Instant::now);
        match self.by_task.entry(delta.task) {
            Entry::Vacant(new) => {
                new.insert(delta);
                None
            }
            Entry::Occupied(mut held) => {
                let known = held.get_mut();
                let end = known.offset + known.text.encode_utf16().count();
                if known.attempt == delta.attempt && end == delta.offset {
                    known.text.push_str(&delta.text);
                    return None;
                }
                Some(std::mem::replace(known, delta))
            }
        }
    }

    pub(super) fn due(&self) -> Option<Instant> {
        self.since.map(|since| since + EVERY)
    }

    pub(super) fn take(&mut self) -> impl Iterator<Item = BusMessage> + use<> {
        self.since = None;
        let held = std::mem::take(&mut self.by_task);
        held.into_values().map(BusMessage::Delta)
    }
}
