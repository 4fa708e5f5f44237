//! Replies that are being streamed by tasks of this node or of other nodes.

use std::{cell::OnceCell, time::Instant};

use axum::extract::ws::Utf8Bytes;
use uuid::Uuid;

use super::socket::Socket;
use crate::{
    ids::{MessageId, TaskId, WorkspaceId},
    realtime::{
        bus_message::RemoteDelta,
        conversation::Conversation,
        frame::{CompactDelta, LiveFrame, StreamStart, encode_frame},
    },
};

/// A run of a task that writes a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TaskRun {
    pub task: TaskId,
    /// Token of the task's lease.
    pub token: Uuid,
}

/// Node that writes a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StreamSource {
    /// This node, in the run with this token. A run that was superseded by another attempt cannot change the stream.
    Here(Uuid),
    /// Another node, whose last delta arrived at this time.
    Elsewhere(Instant),
}

/// A reply that is being streamed.
pub(super) struct Stream {
    /// Number in compact deltas.
    pub(super) number: u64,
    pub(super) source: StreamSource,
    pub(super) conversation: Conversation,
    pub(super) message: MessageId,
    pub(super) attempt: i64,
    pub(super) text: String,
    /// End of the part of `text` that was sent.
    pub(super) sent: TextPosition,
}

/// Position in the text of a stream, in bytes and in UTF-16 code units.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct TextPosition {
    pub(super) bytes: usize,
    pub(super) units: usize,
}

/// A delta in the formats of its watchers, each encoded at most once.
pub(super) struct DeltaFrames<'a> {
    stream: &'a Stream,
    task: TaskId,
    from: TextPosition,
    full: OnceCell<Utf8Bytes>,
    compact: OnceCell<Utf8Bytes>,
}

impl DeltaFrames<'_> {
    pub(super) fn for_socket(&self, socket: &Socket) -> &Utf8Bytes {
        if socket.has_compact_deltas() {
            self.compact.get_or_init(|| self.encode_compact())
        } else {
            self.full.get_or_init(|| self.encode(None))
        }
    }

    fn encode(&self, number: Option<u64>) -> Utf8Bytes {
        LiveFrame::TaskDelta {
            stream: number,
            task_id: self.task,
            message_id: self.stream.message,
            attempt: self.stream.attempt,
            offset: self.from.units,
            text: self.stream.sent_after(self.from),
        }
        .encode()
    }

    /// Encodes the delta with the number of its stream; the first delta also announces the number.
    fn encode_compact(&self) -> Utf8Bytes {
        let (number, offset) = (self.stream.number, self.from.units);
        if offset == 0 {
            self.encode(Some(number))
        } else {
            let text = self.stream.sent_after(self.from);
            encode_frame(&CompactDelta(number, offset, text))
        }
    }
}

impl Stream {
    fn sent_after(&self, from: TextPosition) -> &str {
        &self.text[from.bytes..self.sent.bytes]
    }

    /// Creates a delta with the sent text after `from`.
    pub(super) fn delta(&self, task: TaskId, from: TextPosition) -> DeltaFrames<'_> {
        DeltaFrames {
            stream: self,
            task,
            from,
            full: OnceCell::new(),
            compact: OnceCell::new(),
        }
    }

    /// Like `delta`, for other nodes.
    pub(super) fn remote_delta(
        &self,
        workspace: WorkspaceId,
        task: TaskId,
        from: TextPosition,
    ) -> RemoteDelta {
        RemoteDelta {
            workspace,
            conversation: self.conversation,
            task,
            message: self.message,
            attempt: self.attempt,
            offset: from.units,
            text: self.sent_after(from).to_owned(),
        }
    }

    pub(super) fn start(&self, task: TaskId) -> StreamStart {
        StreamStart {
            stream: self.number,
            task_id: task,
            message_id: self.message,
            attempt: self.attempt,
        }
    }

    pub(super) fn mark_sent(&mut self) {
        self.sent.units += self.text[self.sent.bytes..].encode_utf16().count();
        self.sent.bytes = self.text.len();
    }

    /// Creates a stream from another node, without any text yet.
    pub(super) fn elsewhere(number: u64, delta: &RemoteDelta) -> Self {
        Self {
            number,
            source: StreamSource::Elsewhere(Instant::now()),
            conversation: delta.conversation,
            message: delta.message,
            attempt: delta.attempt,
            text: String::new(),
            sent: TextPosition::default(),
        }
    }

    pub(super) fn is_elsewhere(&self) -> bool {
        matches!(self.source, StreamSource::Elsewhere(_))
    }

    /// Appends the new part of a delta and returns its position, or `None` if the delta contains nothing new. Returns `Err` if text
    /// before it is missing.
    pub(super) fn append(&mut self, delta: &RemoteDelta) -> Result<Option<TextPosition>, Gap> {
        let known = self.sent.units.checked_sub(delta.offset).ok_or(Gap)?;
        let Some(from) = byte_at(&delta.text, known) else {
            return Ok(None);
        };
        let before = self.sent;
        self.text.push_str(&delta.text[from..]);
        self.mark_sent();
        self.source = StreamSource::Elsewhere(Instant::now());
        Ok(Some(before))
    }
}

/// Text before a delta is missing.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Gap;

/// Byte position after the first `units` UTF-16 code units; `None` if the text is not longer than that.
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
