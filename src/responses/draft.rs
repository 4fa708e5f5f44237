//! A response during streaming: turns chunks from the model into output items and events.

use serde_json::{Value, json};

use super::object::{OutputItem, OutputText, Status};
use crate::model::ToolCallPiece;

/// One event of a stream, without its `sequence_number`.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// Event type, such as `response.output_text.delta`; also included in the data as `type`.
    pub kind: &'static str,
    pub data: Value,
}

impl Event {
    pub(super) fn new(kind: &'static str, mut data: Value) -> Self {
        data["type"] = kind.into();
        Self { kind, data }
    }
}

/// The output so far.
#[derive(Debug, Default)]
pub(super) struct Draft {
    items: Vec<OutputItem>,
    /// The last item is the message that is currently being written.
    is_speaking: bool,
    /// Positions of the model's calls among the items.
    calls: Vec<usize>,
}

impl Draft {
    /// True if no events have been generated yet.
    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Adds a chunk of text. Whitespace before the first word is dropped.
    pub(super) fn say(&mut self, piece: &str) -> Vec<Event> {
        // PostgreSQL cannot store NUL characters, and they are meaningless in text.
        let clean = piece.replace('\0', "");
        let mut events = Vec::new();
        let fresh = if self.is_speaking {
            clean.as_str()
        } else {
            clean.trim_start()
        };
        if fresh.is_empty() {
            return events;
        }
        if !self.is_speaking {
            let item = OutputItem::message();
            let at = self.items.len();
            let part = json!({"item_id": item.id(), "output_index": at, "content_index": 0, "part": OutputText::new(String::new())});
            events.push(Event::new(
                "response.output_item.added",
                json!({"output_index": at, "item": item}),
            ));
            events.push(Event::new("response.content_part.added", part));
            self.items.push(item);
            self.is_speaking = true;
        }
        let at = self.items.len() - 1;
        if let Some(OutputItem::Message { id, content, .. }) = self.items.last_mut() {
            match content.first_mut() {
                Some(part) => part.text.push_str(fresh),
                None => content.push(OutputText::new(fresh.to_owned())),
            }
            events.push(Event::new(
                "response.output_text.delta",
                json!({"item_id": id, "output_index": at, "content_index": 0, "delta": fresh, "logprobs": []}),
            ));
        }
        events
    }

    /// Adds a chunk of a call. The start of a call ends the current message.
    pub(super) fn call(&mut self, piece: ToolCallPiece) -> Vec<Event> {
        let mut events = Vec::new();
        if let Some(head) = piece.begins {
            events.extend(self.end_message(Status::Completed));
            let item = OutputItem::call(head.id, head.name);
            let at = self.items.len();
            events.push(Event::new(
                "response.output_item.added",
                json!({"output_index": at, "item": item}),
            ));
            self.items.push(item);
            self.calls.push(at);
        }
        let fresh = piece.arguments.replace('\0', "");
        if let Some(at) = self.calls.get(piece.index).copied()
            && let Some(OutputItem::FunctionCall { id, arguments, .. }) = self.items.get_mut(at)
            && !fresh.is_empty()
        {
            arguments.push_str(&fresh);
            events.push(Event::new(
                "response.function_call_arguments.delta",
                json!({"item_id": id, "output_index": at, "delta": fresh}),
            ));
        }
        events
    }

    /// Ends the response: all open items get this status.
    pub(super) fn end(&mut self, status: Status) -> Vec<Event> {
        let mut events = self.end_message(status);
        for at in std::mem::take(&mut self.calls) {
            let Some(item) = self.items.get_mut(at) else {
                continue;
            };
            if let OutputItem::FunctionCall {
                id,
                name,
                arguments,
                status: ended,
                ..
            } = item
            {
                *ended = status;
                events.push(Event::new(
                    "response.function_call_arguments.done",
                    json!({"item_id": id, "output_index": at, "name": name, "arguments": arguments}),
                ));
            }
            events.push(Event::new(
                "response.output_item.done",
                json!({"output_index": at, "item": item}),
            ));
        }
        events
    }

    fn end_message(&mut self, status: Status) -> Vec<Event> {
        if !std::mem::take(&mut self.is_speaking) {
            return Vec::new();
        }
        let at = self.items.len() - 1;
        let Some(item) = self.items.last_mut() else {
            return Vec::new();
        };
        let mut events = Vec::new();
        if let OutputItem::Message {
            id,
            status: ended,
            content,
            ..
        } = item
        {
            *ended = status;
            for part in content.iter() {
                events.push(Event::new(
                    "response.output_text.done",
                    json!({"item_id": id, "output_index": at, "content_index": 0, "text": part.text, "logprobs": []}),
                ));
                events.push(Event::new(
                    "response.content_part.done",
                    json!({"item_id": id, "output_index": at, "content_index": 0, "part": part}),
                ));
            }
        }
        events.push(Event::new(
            "response.output_item.done",
            json!({"output_index": at, "item": item}),
        ));
        events
    }

    /// All text written by the model, for estimates.
    pub(super) fn text(&self) -> String {
        let mut all = String::new();
        for item in &self.items {
            match item {
                OutputItem::Message { content, .. } => {
                    for part in content {
                        all.push_str(&part.text);
                    }
                }
                OutputItem::FunctionCall {
                    name, arguments, ..
                } => {
                    all.push_str(name);
                    all.push_str(arguments);
                }
            }
        }
        all
    }

    pub(super) fn items(&self) -> &[OutputItem] {
        &self.items
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::CallHead;

    fn piece(index: usize, name: Option<&str>, arguments: &str) -> ToolCallPiece {
        ToolCallPiece {
            index,
            begins: name.map(|name| CallHead {
                id: format!("call_{name}"),
                name: name.to_owned(),
            }),
            arguments: arguments.to_owned(),
        }
    }

    fn kinds(events: &[Event]) -> Vec<&'static str> {
        events
            .iter()
            .map(|event| event.kind.trim_start_matches("response."))
            .collect()
    }

    #[test]
    fn a_text_has_a_start_deltas_and_an_end() {
        let mut draft = Draft::default();
        assert!(draft.say(" \n").is_empty());
        let mut events = draft.say("\nHel\0");
        events.extend(draft.say("lo "));
        events.extend(draft.end(Status::Completed));
        assert_eq!(
            kinds(&events),
            [
                "output_item.added",
                "content_part.added",
                "output_text.delta",
                "output_text.delta",
                "output_text.done",
                "content_part.done",
                "output_item.done",
            ]
        );
        assert_eq!(events[4].data["text"], "Hello ");
        assert_eq!(events[6].data["item"]["status"], "completed");
        assert_eq!(draft.text(), "Hello ");
    }

    #[test]
    fn interleaved_chunks_of_calls_are_assembled() {
        let mut draft = Draft::default();
        let mut events = draft.say("Wait.");
        events.extend(draft.call(piece(0, Some("a"), "")));
        events.extend(draft.call(piece(1, Some("b"), "{")));
        events.extend(draft.call(piece(0, None, "{}")));
        events.extend(draft.call(piece(1, None, "}")));
        events.extend(draft.end(Status::Completed));
        assert_eq!(
            kinds(&events)[3..],
            [
                "output_text.done",
                "content_part.done",
                "output_item.done",
                "output_item.added",
                "output_item.added",
                "function_call_arguments.delta",
                "function_call_arguments.delta",
                "function_call_arguments.delta",
                "function_call_arguments.done",
                "output_item.done",
                "function_call_arguments.done",
                "output_item.done",
            ]
        );
        let items = serde_json::to_value(draft.items()).unwrap();
        for (at, name) in [(1, "a"), (2, "b")] {
            assert_eq!(items[at]["name"], name);
            assert_eq!(items[at]["arguments"], "{}");
            assert_eq!(items[at]["call_id"], format!("call_{name}"));
        }
    }

    #[test]
    fn a_truncated_response_is_incomplete() {
        let mut draft = Draft::default();
        draft.say("Half");
        draft.end(Status::Incomplete);
        let items = serde_json::to_value(draft.items()).unwrap();
        assert_eq!(items[0]["status"], "incomplete");
    }
}
