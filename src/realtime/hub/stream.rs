//! Replies that are being streamed, by tasks of this node or of others.

use std::time::Instant;

use axum::extract::ws::Utf8Bytes;
use uuid::Uuid;

use crate::{
    ids::{MessageId, TaskId},
    realtime::{bus_message::RemoteDelta, conversation::Conversation, frame::LiveFrame},
};

/// Node that writes a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StreamSource {
    /// By the run with this token. A run that was superseded by another attempt changes nothing.
    Here(Uuid),
    /// On another node, heard of at this time.
    Elsewhere(Instant),
}

/// A reply that is being streamed.
pub(super) struct Stream {
    pub(super) source: StreamSource,
    pub(super) conversation: Conversation,
    pub(super) message: MessageId,
    pub(super) attempt: i64,
    pub(super) text: String,
    /// Length of the sent part of `text`, in bytes and in UTF-16 code units.
    pub(super) sent_bytes: usize,
    pub(super) sent_units: usize,
}

impl Stream {
    pub(super) fn frame(&self, task: TaskId, offset: usize, text: &str) -> Utf8Bytes {
        LiveFrame::TaskDelta {
            task_id: task,
            message_id: self.message,
            attempt: self.attempt,
            offset,
            text,
        }
        .encode()
    }

    /// A stream from another node, before its first text.
    pub(super) fn elsewhere(delta: &RemoteDelta) -> Self {
        Self {
            source: StreamSource::Elsewhere(Instant::now()),
            conversation: delta.conversation,
            message: delta.message,
            attempt: delta.attempt,
            text: String::new(),
            sent_bytes: 0,
            sent_units: 0,
        }
    }

    pub(super) fn is_elsewhere(&self) -> bool {
        matches!(self.source, StreamSource::Elsewhere(_))
    }

    /// Appends the part of a delta that is not known yet, and returns its frame. Returns `Err` if text before it is missing.
    pub(super) fn append(&mut self, delta: &RemoteDelta) -> Result<Option<Utf8Bytes>, Gap> {
        let known = self.sent_units.checked_sub(delta.offset).ok_or(Gap)?;
        let Some(from) = byte_at(&delta.text, known) else {
            return Ok(None);
        };
        let fresh = &delta.text[from..];
        let frame = self.frame(delta.task, self.sent_units, fresh);
        self.text.push_str(fresh);
        self.sent_bytes = self.text.len();
        self.sent_units += fresh.encode_utf16().count();
        self.source = StreamSource::Elsewhere(Instant::now());
        Ok(Some(frame))
    }
}

/// Text before a delta is missing.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Gap;

/// Position in bytes after `units` UTF-16 code units; `None` if the text is not longer.
fn byte_at(text: &str, units: usize) -> Option<usize> {
    let mut counted = 0;
    for (at, c) in text.char_indices() {
        if counted >= units {
            return Some(at);
        }
        counted += c.len_utf16();
    }
    None
}
