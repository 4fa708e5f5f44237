//! Orders a room's events when other nodes also write to its workspace. Each event is delivered after its predecessor, regardless of
//! which node committed it and how it arrived.

use std::collections::BTreeMap;

use crate::realtime::log::{Envelope, Position};

/// Maximum number and size in bytes of events that wait for their predecessors; additional ones are read from the log.
const EARLY_MAX: usize = 256;
const EARLY_BYTES_MAX: usize = 1024 * 1024;

/// Position of an event relative to the delivered events.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Place {
    Known,
    Next,
    Early,
}

#[derive(Default)]
pub(super) struct Order {
    /// The newest delivered event; `None` until the position of a newly opened room has been read.
    delivered: Option<Position>,
    /// The newest event that is known to exist.
    reached: i64,
    /// Events that wait for their predecessors.
    early: BTreeMap<i64, Envelope>,
    early_bytes: usize,
}

impl Order {
    pub(super) fn delivered(&self) -> Option<Position> {
        self.delivered
    }

    pub(super) fn place_of(&self, seq: i64) -> Place {
        match self.delivered {
            Some(delivered) if seq <= delivered.seq => Place::Known,
            Some(delivered) if seq == delivered.seq + 1 => Place::Next,
            _ => Place::Early,
        }
    }

    /// Keeps an event until its predecessors have been delivered, if there is room.
    pub(super) fn keep(&mut self, event: &Envelope) {
        self.note(event.seq);
        let bytes = event.frame.len();
        if self.early.len() < EARLY_MAX
            && self.early_bytes + bytes <= EARLY_BYTES_MAX
            && self.early.insert(event.seq, event.clone()).is_none()
        {
            self.early_bytes += bytes;
        }
    }

    /// Records that an event exists. Returns true if the room has not delivered all events that are known to exist.
    pub(super) fn note(&mut self, seq: i64) -> bool {
        self.reached = self.reached.max(seq);
        self.has_gap()
    }

    /// Checks whether an event that is known to exist has not been delivered. A room without a position has no gap.
    pub(super) fn has_gap(&self) -> bool {
        self.delivered
            .is_some_and(|delivered| delivered.seq < self.reached)
    }

    pub(super) fn advance_to(&mut self, event: &Envelope) {
        self.delivered = Some(Position {
            seq: event.seq,
            ts: Some(event.ts),
        });
        self.note(event.seq);
    }

    /// Takes the event that follows the newest delivered one, and drops events that have already been delivered.
    pub(super) fn take_next(&mut self) -> Option<Envelope> {
        let delivered = self.delivered?.seq;
        while let Some(first) = self.early.first_entry() {
            if *first.key() > delivered + 1 {
                return None;
            }
            let event = first.remove();
            self.early_bytes -= event.frame.len();
            if event.seq == delivered + 1 {
                return Some(event);
            }
        }
        None
    }

    /// Sets the first position. Returns false if there is one already.
    pub(super) fn open_at(&mut self, head: Position) -> bool {
        if self.delivered.is_some() {
            return false;
        }
        self.delivered = Some(head);
        self.note(head.seq);
        true
    }
}
