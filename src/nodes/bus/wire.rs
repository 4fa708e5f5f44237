//! Encoding of messages: JSON with the version, the sending node, and the epoch.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{
    ids::NodeId,
    realtime::{BusMessage, RemoteDelta},
};

const VERSION: u32 = 1;

/// One notification or NATS message.
#[derive(Serialize, Deserialize)]
struct Packet<'a> {
    v: u32,
    node: NodeId,
    #[serde(borrow)]
    epoch: std::borrow::Cow<'a, str>,
    #[serde(borrow)]
    messages: Vec<&'a RawValue>,
}

/// Messages received from another node.
pub(super) struct Parsed {
    pub(super) node: NodeId,
    pub(super) epoch: String,
    pub(super) messages: Vec<BusMessage>,
    /// Number of messages whose type this version does not support.
    pub(super) unknown: u64,
}

/// Packs messages into as few packets of at most `bytes_max` as possible. Text that is too long is split, and events that do not fit
/// are omitted. Other messages that do not fit are dropped.
pub(super) fn pack(
    node: NodeId,
    epoch: &str,
    messages: Vec<BusMessage>,
    bytes_max: usize,
) -> Vec<String> {
    let empty = encode(node, epoch, &[]);
    let room = bytes_max.saturating_sub(empty.len());
    let mut packets = Vec::new();
    let (mut waiting, mut size): (Vec<Box<RawValue>>, usize) = (Vec::new(), 0);
    for message in messages.into_iter().flat_map(|message| fit(message, room)) {
        // Size of the message with its comma.
        let bytes = message.get().len() + 1;
        if size + bytes > room && !waiting.is_empty() {
            packets.push(encode(node, epoch, &waiting));
            waiting.clear();
            size = 0;
        }
        size += bytes;
        waiting.push(message);
    }
    if !waiting.is_empty() {
        packets.push(encode(node, epoch, &waiting));
    }
    packets
}

fn encode(node: NodeId, epoch: &str, messages: &[Box<RawValue>]) -> String {
    let packet = Packet {
        v: VERSION,
        node,
        epoch: epoch.into(),
        messages: messages.iter().map(AsRef::as_ref).collect(),
    };
    // Cannot fail, because all fields are plain values.
    serde_json::to_string(&packet).unwrap_or_default()
}

fn raw(message: &BusMessage) -> Option<Box<RawValue>> {
    serde_json::value::to_raw_value(message).ok()
}

/// Returns a message in pieces that fit, or nothing if it has to be dropped.
fn fit(message: BusMessage, bytes_max: usize) -> Vec<Box<RawValue>> {
    let Some(whole) = raw(&message) else {
        return Vec::new();
    };
    if whole.get().len() < bytes_max {
        return vec![whole];
    }
    match message {
        BusMessage::Log {
            workspace,
            first,
            last,
            ..
        } => {
            let position = BusMessage::Log {
                workspace,
                first,
                last,
                events: Vec::new(),
            };
            raw(&position).into_iter().collect()
        }
        BusMessage::Delta(delta) => split(&delta, bytes_max),
        other => {
            metrics::counter!("openvibe_bus_dropped_total").increment(1);
            tracing::debug!(r#type = other.label(), "a message is too long for the bus");
            Vec::new()
        }
    }
}

/// Splits a delta into several, each of which fits even if every character is escaped.
fn split(delta: &RemoteDelta, bytes_max: usize) -> Vec<Box<RawValue>> {
    const ESCAPED_BYTES_MAX: usize = 6;
    const OTHER_FIELDS: usize = 512;
    let chars = (bytes_max.saturating_sub(OTHER_FIELDS) / ESCAPED_BYTES_MAX).max(1);
    let mut pieces = Vec::new();
    let mut offset = delta.offset;
    let mut rest = delta.text.as_str();
    while !rest.is_empty() {
        let end = rest
            .char_indices()
            .nth(chars)
            .map_or(rest.len(), |(at, _)| at);
        let (piece, after) = rest.split_at(end);
        let part = RemoteDelta {
            offset,
            text: piece.to_owned(),
            ..delta.clone()
        };
        pieces.extend(raw(&BusMessage::Delta(part)));
        offset += piece.encode_utf16().count();
        rest = after;
    }
    pieces
}

/// Parses a packet; `None` if it is not a packet of this version.
pub(super) fn parse(text: &str) -> Option<Parsed> {
    let packet: Packet<'_> = serde_json::from_str(text).ok()?;
    if packet.v != VERSION {
        return None;
    }
    let mut unknown = 0;
    let messages = packet.messages.iter().filter_map(|message| {
        let parsed = serde_json::from_str(message.get()).ok();
        unknown += u64::from(parsed.is_none());
        parsed
    });
    let messages = messages.collect();
    Some(Parsed {
        node: packet.node,
        epoch: packet.epoch.into_owned(),
        messages,
        unknown,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        ids::{MessageId, TaskId, ThreadId, WorkspaceId},
        realtime::hub::Conversation,
    };

    fn delta(text: &str) -> BusMessage {
        BusMessage::Delta(RemoteDelta {
            workspace: WorkspaceId::new(),
            conversation: Conversation::Thread(ThreadId::new()),
            task: TaskId::new(),
            message: MessageId::new(),
            attempt: 1,
            offset: 3,
            text: text.to_owned(),
        })
    }

    fn texts(packets: &[String]) -> (String, Vec<usize>) {
        let (mut all, mut offsets) = (String::new(), Vec::new());
        for packet in packets {
            for message in parse(packet).unwrap().messages {
                let BusMessage::Delta(delta) = message else {
                    panic!("only deltas were sent");
                };
                offsets.push(delta.offset);
                all.push_str(&delta.text);
            }
        }
        (all, offsets)
    }

    #[test]
    fn packets_stay_below_the_limit_and_long_texts_are_split_at_utf_16_offsets() {
        let text = "é\"👋\u{1}".repeat(5000);
        let packets = pack(NodeId::new(), "e", vec![delta("short"), delta(&text)], 7900);
        assert!(packets.len() > 3);
        assert!(packets.iter().all(|packet| packet.len() <= 7900));
        let (all, offsets) = texts(&packets);
        assert_eq!(all, format!("short{text}"));
        assert_eq!(offsets[1], 3);
        assert!(offsets[1..].is_sorted());
    }

    #[test]
    fn many_positions_share_a_packet() {
        let position = |last| BusMessage::Log {
            workspace: WorkspaceId::new(),
            first: 1,
            last,
            events: Vec::new(),
        };
        let packets = pack(NodeId::new(), "e", (0..40).map(position).collect(), 7900);
        assert_eq!(packets.len(), 1);
        assert_eq!(parse(&packets[0]).unwrap().messages.len(), 40);
    }

    #[test]
    fn unknown_types_are_counted_and_other_versions_are_ignored() {
        let node = NodeId::new();
        let text = format!(
            r#"{{"v":1,"node":"{node}","epoch":"e","messages":[{{"type":"new"}},{{"type":"wake"}}]}}"#
        );
        let parsed = parse(&text).unwrap();
        assert_eq!((parsed.messages.len(), parsed.unknown), (1, 1));
        assert!(parse(&text.replace("\"v\":1", "\"v\":2")).is_none());
    }
}
