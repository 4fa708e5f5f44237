//! Messages from other nodes.

use std::time::Duration;

use super::wire;
use crate::{
    db::now,
    nodes::{links::Links, mode::Mode},
    realtime::{BusMessage, Received},
};

/// Handles a packet that was received over the bus. Packets from this node are ignored.
pub(super) fn handle(links: &Links, text: &str, over: Mode) {
    let Some(parsed) = wire::parse(text) else {
        metrics::counter!("openvibe_bus_messages_total", "direction" => "in", "type" => "unknown")
            .increment(1);
        return;
    };
    if parsed.node == links.node.id {
        return;
    }
    links.bus.note_heard(parsed.node, over);
    if parsed.unknown > 0 {
        metrics::counter!("openvibe_bus_messages_total", "direction" => "in", "type" => "unknown")
            .increment(parsed.unknown);
    }
    let generation = links.hub.generation();
    if parsed.epoch != links.epoch() {
        // The poll must read the new epoch first.
        links.bus.called.notify_one();
        return;
    }
    for message in parsed.messages {
        metrics::counter!("openvibe_bus_messages_total", "direction" => "in", "type" => message.label()).increment(1);
        match &message {
            BusMessage::Wake => links.queue.wake.notify_one(),
            BusMessage::Stop { task, .. } => {
                links.queue.stop(*task);
                links.queue.signal_commands();
            }
            BusMessage::Steer { task } => {
                links.queue.steer(*task);
                links.queue.signal_commands();
            }
            BusMessage::Command => links.queue.signal_commands(),
            BusMessage::Revoke => links.bus.called.notify_one(),
            BusMessage::Node { sent_at_ms, .. } => {
                if !links.bus.is_peer(parsed.node) {
                    links.bus.called.notify_one();
                }
                let late_ms = now().unix_ms() - sent_at_ms;
                if let Ok(late_ms) = u64::try_from(late_ms) {
                    links
                        .node
                        .figures
                        .note_bus_delay(Duration::from_millis(late_ms));
                }
            }
            _ => {}
        }
        let received = Received {
            node: parsed.node,
            message,
        };
        links.hub.receive(&received, generation);
    }
}
