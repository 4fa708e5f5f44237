//! A response while it is being streamed: turns chunks from the model into output items and events.
//!
//! Events are numbered when they are sent, so their `sequence_number` is 0 here.

use super::{
    items::{OUTPUT_FROM, item_id, split_name},
    marks::{Handles, MarkFilter, Segment},
};
use crate::{
    ids::ResponseId,
    model::{CallHead, ToolCallPiece},
    replies::citations::removed::RemovedMark,
};
use async_openai::types::responses::{
    Annotation, AssistantRole, FunctionToolCall, OutputContent, OutputItem, OutputMessage,
    OutputMessageContent, OutputStatus, OutputTextContent, ResponseContentPartAddedEvent,
    ResponseContentPartDoneEvent, ResponseFunctionCallArgumentsDeltaEvent,
    ResponseFunctionCallArgumentsDoneEvent, ResponseOutputItemAddedEvent,
    ResponseOutputItemDoneEvent, ResponseOutputTextAnnotationAddedEvent,
    ResponseStreamEvent as Event, ResponseTextDeltaEvent, ResponseTextDoneEvent,
};

/// Separates the texts of rounds.
const ROUNDS_JOINED: &str = "\n\n";

/// Output at the start of a round.
#[derive(Debug, Clone, Copy, Default)]
struct RoundStart {
    items: usize,
    /// Size of the current message's text in bytes, and number of its marks.
    text: usize,
    marks: usize,
}

/// The output so far.
#[derive(Debug)]
pub(super) struct Draft {
    response: ResponseId,
    items: Vec<OutputItem>,
    /// True if the last item is a message that is still being written.
    is_speaking: bool,
    /// True if the next text is separated from the message, because the model has called functions in between.
    is_paused: bool,
    /// Output at the start of the current round.
    round: RoundStart,
    /// Objects that the model can cite.
    handles: Handles,
    filter: MarkFilter,
    /// Marks that were removed from the current message.
    marks: Vec<RemovedMark>,
    /// Positions of the model's calls in the list of items.
    calls: Vec<usize>,
}

impl Draft {
    pub(super) fn new(response: ResponseId) -> Self {
        Self {
            response,
            items: Vec::new(),
            is_speaking: false,
            is_paused: false,
            round: RoundStart::default(),
            handles: Handles::default(),
            filter: MarkFilter::default(),
            marks: Vec::new(),
            calls: Vec::new(),
        }
    }

    /// Returns the ID of the next item.
    fn next_id(&self, prefix: &str) -> String {
        item_id(prefix, self.response, OUTPUT_FROM + self.items.len())
    }

    /// Returns true if no output has been generated yet.
    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Returns true if the current round has added no output yet.
    pub(super) fn is_round_empty(&self) -> bool {
        self.items.len() == self.round.items && self.message_text().len() == self.round.text
    }

    /// Returns the text of the current message.
    fn message_text(&self) -> &str {
        match self.items.last() {
            Some(OutputItem::Message(message)) if self.is_speaking => text_of(message),
            _ => "",
        }
    }

    /// Adds a chunk of text. Whitespace before the first word is dropped.
    pub(super) fn say(&mut self, piece: &str) -> Vec<Event> {
        // NUL characters are removed: PostgreSQL cannot store them, and they are meaningless in
        // text.
        let clean = piece.replace('\0', "");
        if self.handles.list().is_empty() {
            return self.write(&clean);
        }
        self.filter.push(&clean);
        self.release(false)
    }

    /// Writes the text that the filter does not hold back, and records the marks.
    fn release(&mut self, is_end: bool) -> Vec<Event> {
        let mut events = Vec::new();
        let mut filter = std::mem::take(&mut self.filter);
        while let Some(segment) = filter.next(self.message_text(), &self.handles, is_end) {
            match segment {
                Segment::Text(text) => events.extend(self.write(&text)),
                Segment::Mark(named) => self.marks.push(RemovedMark {
                    at: self.message_text().len(),
                    named,
                }),
            }
        }
        self.filter = filter;
        events
    }

    fn write(&mut self, text: &str) -> Vec<Event> {
        let mut events = Vec::new();
        let fresh = if self.is_speaking && !self.is_paused {
            text
        } else {
            text.trim_start()
        };
        if fresh.is_empty() {
            return events;
        }
        let is_separated = std::mem::take(&mut self.is_paused) && self.is_speaking;
        let separated = is_separated.then(|| format!("{ROUNDS_JOINED}{fresh}"));
        let fresh = separated.as_deref().unwrap_or(fresh);
        if !self.is_speaking {
            let message = message(self.next_id("msg"));
            let part = ResponseContentPartAddedEvent {
                sequence_number: 0,
                item_id: message.id.clone(),
                output_index: index(self.items.len()),
                content_index: 0,
                part: OutputContent::OutputText(text_part()),
            };
            events.push(self.add(OutputItem::Message(message)));
            events.push(Event::ResponseContentPartAdded(part));
            self.is_speaking = true;
        }
        let output_index = index(self.items.len() - 1);
        if let Some(OutputItem::Message(message)) = self.items.last_mut() {
            if message.content.is_empty() {
                let part = OutputMessageContent::OutputText(text_part());
                message.content.push(part);
            }
            if let Some(OutputMessageContent::OutputText(part)) = message.content.first_mut() {
                part.text.push_str(fresh);
            }
            events.push(Event::ResponseOutputTextDelta(ResponseTextDeltaEvent {
                item_id: message.id.clone(),
                output_index,
                delta: fresh.to_owned(),
                logprobs: Some(Vec::new()),
                ..ResponseTextDeltaEvent::default()
            }));
        }
        events
    }

    /// Removes the text of the current message that belongs to this round, because it was reasoning.
    pub(super) fn discard(&mut self) {
        self.forget_held();
        if !self.is_speaking {
            return;
        }
        let is_of_round = self.items.len() > self.round.items;
        let kept = if is_of_round { 0 } else { self.round.text };
        if let Some(OutputItem::Message(message)) = self.items.last_mut() {
            match message.content.first_mut() {
                Some(OutputMessageContent::OutputText(part)) if kept > 0 => {
                    part.text.truncate(kept);
                    self.is_paused = true;
                }
                _ => message.content.clear(),
            }
        }
    }

    /// Drops what an attempt without output has left, such as text that is held back.
    pub(super) fn forget_held(&mut self) {
        self.filter.clear();
        self.marks.truncate(self.round.marks);
    }

    /// Starts the next round, in which the model can cite these objects. Its text is separated from the text so far.
    pub(super) fn begin_round(&mut self, handles: Handles) -> Vec<Event> {
        let events = self.release(true);
        self.handles = handles;
        self.is_paused = true;
        self.round = RoundStart {
            items: self.items.len(),
            text: self.message_text().len(),
            marks: self.marks.len(),
        };
        events
    }

    /// Sets the objects that the model can cite.
    pub(super) fn set_handles(&mut self, handles: Handles) {
        self.handles = handles;
    }

    /// Writes the text that was held back. Returns the text of the current message, and the marks that were removed from it.
    pub(super) fn take_marks(&mut self) -> (Vec<Event>, String, Vec<RemovedMark>) {
        let events = self.release(true);
        let text = self.message_text().to_owned();
        (events, text, std::mem::take(&mut self.marks))
    }

    /// Adds annotations to the current message.
    pub(super) fn annotate(&mut self, annotations: Vec<Annotation>) -> Vec<Event> {
        let at = self.items.len().saturating_sub(1);
        let Some(OutputItem::Message(message)) = self.items.last_mut().filter(|_| self.is_speaking)
        else {
            return Vec::new();
        };
        let Some(OutputMessageContent::OutputText(part)) = message.content.first_mut() else {
            return Vec::new();
        };
        let added = annotations.iter().enumerate().map(|(n, annotation)| {
            Event::ResponseOutputTextAnnotationAdded(ResponseOutputTextAnnotationAddedEvent {
                sequence_number: 0,
                output_index: index(at),
                content_index: 0,
                annotation_index: index(n),
                item_id: message.id.clone(),
                annotation: Some(annotation.clone()),
            })
        });
        let events = added.collect();
        part.annotations = annotations;
        events
    }

    /// Adds a chunk of a function call. The start of a call ends the current message.
    pub(super) fn call(&mut self, piece: ToolCallPiece) -> Vec<Event> {
        let mut events = Vec::new();
        if let Some(head) = piece.begins {
            events.extend(self.release(true));
            self.marks.clear();
            self.round.marks = 0;
            events.extend(self.end_message(OutputStatus::Completed));
            self.calls.push(self.items.len());
            events.push(self.add(OutputItem::FunctionCall(function_call(
                self.next_id("fc"),
                head,
            ))));
        }
        let fresh = piece.arguments.replace('\0', "");
        if let Some(at) = self.calls.get(piece.index).copied()
            && let Some(OutputItem::FunctionCall(call)) = self.items.get_mut(at)
            && !fresh.is_empty()
        {
            call.arguments.push_str(&fresh);
            let delta = ResponseFunctionCallArgumentsDeltaEvent {
                sequence_number: 0,
                item_id: call.id.clone().unwrap_or_default(),
                output_index: index(at),
                delta: fresh,
            };
            events.push(Event::ResponseFunctionCallArgumentsDelta(delta));
        }
        events
    }

    /// Ends the response. All open items get this status.
    pub(super) fn end(&mut self, status: OutputStatus) -> Vec<Event> {
        let mut events = self.release(true);
        events.extend(self.end_message(status));
        for at in std::mem::take(&mut self.calls) {
            let Some(OutputItem::FunctionCall(call)) = self.items.get_mut(at) else {
                continue;
            };
            call.status = Some(status);
            let done = ResponseFunctionCallArgumentsDoneEvent {
                name: Some(call.name.clone()),
                sequence_number: 0,
                item_id: call.id.clone().unwrap_or_default(),
                output_index: index(at),
                arguments: call.arguments.clone(),
            };
            events.push(Event::ResponseFunctionCallArgumentsDone(done));
            events.push(self.done(at));
        }
        events
    }

    fn end_message(&mut self, status: OutputStatus) -> Vec<Event> {
        let mut events = Vec::new();
        if !std::mem::take(&mut self.is_speaking) {
            return events;
        }
        let at = self.items.len() - 1;
        if let Some(OutputItem::Message(message)) = self.items.last_mut() {
            message.status = status;
            for part in &message.content {
                let OutputMessageContent::OutputText(part) = part else {
                    continue;
                };
                events.push(Event::ResponseOutputTextDone(ResponseTextDoneEvent {
                    item_id: message.id.clone(),
                    output_index: index(at),
                    text: part.text.clone(),
                    logprobs: Some(Vec::new()),
                    ..ResponseTextDoneEvent::default()
                }));
                let done = ResponseContentPartDoneEvent {
                    sequence_number: 0,
                    item_id: message.id.clone(),
                    output_index: index(at),
                    content_index: 0,
                    part: OutputContent::OutputText(part.clone()),
                };
                events.push(Event::ResponseContentPartDone(done));
            }
        }
        events.push(self.done(at));
        events
    }

    fn add(&mut self, item: OutputItem) -> Event {
        self.items.push(item.clone());
        Event::ResponseOutputItemAdded(ResponseOutputItemAddedEvent {
            sequence_number: 0,
            output_index: index(self.items.len() - 1),
            item,
        })
    }

    fn done(&self, at: usize) -> Event {
        Event::ResponseOutputItemDone(ResponseOutputItemDoneEvent {
            sequence_number: 0,
            output_index: index(at),
            item: self.items[at].clone(),
        })
    }

    /// Returns the function calls.
    pub(super) fn calls(&self) -> impl Iterator<Item = &FunctionToolCall> {
        self.items.iter().filter_map(|item| match item {
            OutputItem::FunctionCall(call) => Some(call),
            _ => None,
        })
    }

    /// Returns all text that the model has written.
    pub(super) fn text(&self) -> String {
        let mut all = String::new();
        for item in &self.items {
            match item {
                OutputItem::Message(message) => {
                    for part in &message.content {
                        if let OutputMessageContent::OutputText(part) = part {
                            all.push_str(&part.text);
                        }
                    }
                }
                OutputItem::FunctionCall(call) => {
                    all.push_str(&call.name);
                    all.push_str(&call.arguments);
                }
                _ => {}
            }
        }
        all
    }

    pub(super) fn items(&self) -> &[OutputItem] {
        &self.items
    }
}

fn message(id: String) -> OutputMessage {
    OutputMessage {
        id,
        role: AssistantRole::Assistant,
        status: OutputStatus::InProgress,
        content: Vec::new(),
        phase: None,
    }
}

fn text_of(message: &OutputMessage) -> &str {
    match message.content.first() {
        Some(OutputMessageContent::OutputText(part)) => &part.text,
        _ => "",
    }
}

/// Returns a text part without text. Its annotations and probabilities remain empty.
fn text_part() -> OutputTextContent {
    OutputTextContent {
        logprobs: Some(Vec::new()),
        ..OutputTextContent::default()
    }
}

fn function_call(id: String, head: CallHead) -> FunctionToolCall {
    let (namespace, name) = split_name(&head.name);
    FunctionToolCall {
        id: Some(id),
        call_id: head.id,
        namespace: namespace.map(str::to_owned),
        name: name.to_owned(),
        status: Some(OutputStatus::InProgress),
        ..FunctionToolCall::default()
    }
}

fn index(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::{Value, json};
    use utoipa::PartialSchema;

    use super::{super::object, *};
    use crate::{ids::MessageId, tools::output::Handled};

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

    fn kinds(events: &[Event]) -> Vec<String> {
        let kind = |event| json!(event)["type"].as_str().unwrap().to_owned();
        events
            .iter()
            .map(|event| kind(event).trim_start_matches("response.").to_owned())
            .collect()
    }

    fn fields(object: &Value) -> BTreeSet<&str> {
        object
            .as_object()
            .unwrap()
            .keys()
            .map(String::as_str)
            .collect()
    }

    fn required(schema: &Value) -> BTreeSet<&str> {
        let names = schema["required"].as_array().unwrap();
        names.iter().filter_map(Value::as_str).collect()
    }

    #[test]
    fn items_have_exactly_the_documented_fields() {
        let mut draft = Draft::new(ResponseId::new());
        draft.say("Wait.");
        draft.call(piece(0, Some("a"), "{}"));
        draft.end(OutputStatus::Completed);
        let items = json!(draft.items());
        let documented = json!(object::OutputItem::schema());
        for (at, kind) in ["message", "function_call"].iter().enumerate() {
            assert_eq!(items[at]["type"], *kind);
            let schema = &documented["oneOf"][at];
            assert_eq!(schema["properties"]["type"]["enum"], json!([kind]));
            assert_eq!(fields(&items[at]), required(schema));
        }
        let part = json!(object::OutputText::schema());
        assert_eq!(fields(&items[0]["content"][0]), required(&part));
    }

    #[test]
    fn a_text_has_a_start_deltas_and_an_end() {
        let mut draft = Draft::new(ResponseId::new());
        assert!(draft.say(" \n").is_empty());
        let mut events = draft.say("\nHel\0");
        events.extend(draft.say("lo "));
        events.extend(draft.end(OutputStatus::Completed));
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
        let events = json!(events);
        assert_eq!(events[4]["text"], "Hello ");
        assert_eq!(events[6]["item"]["status"], "completed");
        assert_eq!(draft.text(), "Hello ");
    }

    #[test]
    fn interleaved_chunks_of_calls_are_assembled() {
        let mut draft = Draft::new(ResponseId::new());
        let mut events = draft.say("Wait.");
        events.extend(draft.call(piece(0, Some("a"), "")));
        events.extend(draft.call(piece(1, Some("b"), "{")));
        events.extend(draft.call(piece(0, None, "{}")));
        events.extend(draft.call(piece(1, None, "}")));
        events.extend(draft.end(OutputStatus::Completed));
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
        let mut draft = Draft::new(ResponseId::new());
        draft.say("Half");
        draft.end(OutputStatus::Incomplete);
        let items = serde_json::to_value(draft.items()).unwrap();
        assert_eq!(items[0]["status"], "incomplete");
    }

    #[test]
    fn rounds_are_separated_and_marks_are_removed() {
        let mut draft = Draft::new(ResponseId::new());
        draft.say("Let me look. ");
        let mut handles = Handles::default();
        handles.assign(Handled::Message(MessageId::new()));
        draft.begin_round(handles);
        assert!(draft.is_round_empty());
        draft.say("Thinking aloud [S1].");
        draft.discard();
        assert!(draft.is_round_empty());
        draft.say(" On Monday ");
        assert!(!draft.is_round_empty());
        draft.say("[S");
        draft.say("1].");
        let (_, text, marks) = draft.take_marks();
        assert_eq!(text, "Let me look. \n\nOn Monday.");
        assert_eq!(marks.len(), 1);
        assert_eq!(&text[..marks[0].at], "Let me look. \n\nOn Monday");
        let citation = json!({"type": "url_citation", "start_index": 15, "end_index": 25, "title": "t", "url": "u"});
        let annotation = serde_json::from_value(citation.clone()).unwrap();
        assert_eq!(
            kinds(&draft.annotate(vec![annotation])),
            ["output_text.annotation.added"]
        );
        draft.end(OutputStatus::Completed);
        assert_eq!(
            json!(draft.items())[0]["content"][0]["annotations"],
            json!([citation])
        );
    }
}
