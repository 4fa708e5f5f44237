//! A response while it is being streamed: turns chunks from the model into output items and events.
//!
//! Events are numbered when they are sent, so their `sequence_number` is 0 here.

use super::{
    citations::CitedPassage,
    file_search::Searched,
    items::{OUTPUT_FROM, item_id, split_name},
    marks::{Handles, MarkFilter, Segment},
};
use crate::{
    ids::ResponseId,
    model::{CallHead, ToolCallPiece},
    replies::citations::removed::RemovedMark,
    tools::output::Handled,
};
use async_openai::types::responses::{
    Annotation, AssistantRole, FileSearchToolCall, FileSearchToolCallStatus, FunctionToolCall,
    OutputContent, OutputItem, OutputMessage, OutputMessageContent, OutputStatus,
    OutputTextContent, ResponseContentPartAddedEvent, ResponseContentPartDoneEvent,
    ResponseFileSearchCallCompletedEvent, ResponseFileSearchCallInProgressEvent,
    ResponseFileSearchCallSearchingEvent, ResponseFunctionCallArgumentsDeltaEvent,
    ResponseFunctionCallArgumentsDoneEvent, ResponseOutputItemAddedEvent,
    ResponseOutputItemDoneEvent, ResponseOutputTextAnnotationAddedEvent,
    ResponseStreamEvent as Event, ResponseTextDeltaEvent, ResponseTextDoneEvent,
};

/// Separates the texts of rounds.
const ROUNDS_JOINED: &str = "\n\n";

/// Text that is held back after a mark, because it could be the beginning of another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Held {
    PossibleMark,
    Nothing,
}

/// Output at the start of a round.
#[derive(Debug, Clone, Copy, Default)]
struct RoundStart {
    items: usize,
    /// Size of the current message's text in bytes, and numbers of its marks and annotations.
    text: usize,
    marks: usize,
    annotations: usize,
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
    /// A mark of passages after the current text, which is checked before more text is written.
    pending: Option<RemovedMark>,
    /// Passages that `[n]` stands for; that of `[n]` is at `n - 1`.
    cited: Vec<CitedPassage>,
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
            pending: None,
            cited: Vec::new(),
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

    /// Writes the text that the filter does not hold back, up to a mark of passages, and records the other marks.
    fn release(&mut self, is_end: bool) -> Vec<Event> {
        let mut events = Vec::new();
        let mut filter = std::mem::take(&mut self.filter);
        while self.pending.is_none()
            && let Some(segment) = filter.next(self.message_text(), &self.handles, is_end)
        {
            match segment {
                Segment::Text(text) => events.extend(self.write(&text)),
                Segment::Mark(named) => self.add_mark(named),
            }
        }
        self.filter = filter;
        events
    }

    fn add_mark(&mut self, named: Vec<(String, Handled)>) {
        let is_passage = |(_, of): &(String, Handled)| matches!(of, Handled::Passage(_));
        let (passages, others): (Vec<_>, Vec<_>) = named.into_iter().partition(is_passage);
        let at = self.message_text().len();
        if !others.is_empty() {
            self.marks.push(RemovedMark { at, named: others });
        }
        self.pending = (!passages.is_empty()).then_some(RemovedMark {
            at,
            named: passages,
        });
    }

    /// Writes the text that was held back, up to a mark of passages.
    pub(super) fn release_held(&mut self) -> Vec<Event> {
        self.release(true)
    }

    /// Returns the mark of passages that must be checked now, and the text before it.
    pub(super) fn pending(&self) -> Option<(String, RemovedMark)> {
        let mark = self.pending.clone()?;
        Some((self.message_text().to_owned(), mark))
    }

    /// Writes `[n]` for the passages that support the sentence, in place of the mark, and continues with the text after it, of
    /// which `held` is held back.
    pub(super) fn cite(&mut self, passages: Vec<CitedPassage>, held: Held) -> Vec<Event> {
        self.pending = None;
        let mut events = Vec::new();
        for passage in passages {
            let known = self.cited.iter().position(|known| *known == passage);
            let n = known.map_or_else(|| self.cited.len() + 1, |at| at + 1);
            let text = self.message_text();
            // The filter drops the spaces after a mark at the start of a line.
            let (before, after) = if text.is_empty() || text.ends_with('\n') {
                ("", " ")
            } else if text.ends_with(char::is_whitespace) {
                ("", "")
            } else {
                (" ", "")
            };
            events.extend(self.write(&format!("{before}[{n}]")));
            events.extend(self.add_citation(n, &passage));
            if !after.is_empty() {
                events.extend(self.write(after));
            }
            if known.is_none() {
                self.cited.push(passage);
            }
        }
        events.extend(self.release(held == Held::Nothing));
        events
    }

    /// Adds the annotation for the number at the end of the current message.
    fn add_citation(&mut self, n: usize, passage: &CitedPassage) -> Option<Event> {
        let number = format!("[{n}]").len();
        let index = self.message_text().chars().count().saturating_sub(number);
        let annotation = passage.annotation(index)?;
        self.add_annotations(vec![annotation]).pop()
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
                    part.annotations.truncate(self.round.annotations);
                    self.is_paused = true;
                }
                _ => message.content.clear(),
            }
        }
    }

    /// Drops what an attempt without output has left, such as text that is held back.
    pub(super) fn forget_held(&mut self) {
        self.filter.clear();
        self.pending = None;
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
            annotations: self.annotation_count(),
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

    fn annotation_count(&self) -> usize {
        match self.items.last() {
            Some(OutputItem::Message(message)) if self.is_speaking => match message.content.first()
            {
                Some(OutputMessageContent::OutputText(part)) => part.annotations.len(),
                _ => 0,
            },
            _ => 0,
        }
    }

    /// Adds a search that has ended. It ends the current message.
    pub(super) fn add_search(&mut self, searched: Searched) -> Vec<Event> {
        let mut events = self.end_message(OutputStatus::Completed);
        let (item_id, output_index) = (self.next_id("fs"), index(self.items.len()));
        let call = FileSearchToolCall {
            id: item_id.clone(),
            queries: searched.queries,
            status: FileSearchToolCallStatus::InProgress,
            results: None,
        };
        events.push(self.add(OutputItem::FileSearchCall(call)));
        let (sequence_number, id) = (0, || item_id.clone());
        events.extend([
            Event::ResponseFileSearchCallInProgress(ResponseFileSearchCallInProgressEvent {
                sequence_number,
                output_index,
                item_id: id(),
            }),
            Event::ResponseFileSearchCallSearching(ResponseFileSearchCallSearchingEvent {
                sequence_number,
                output_index,
                item_id: id(),
            }),
            Event::ResponseFileSearchCallCompleted(ResponseFileSearchCallCompletedEvent {
                sequence_number,
                output_index,
                item_id: id(),
            }),
        ]);
        if let Some(OutputItem::FileSearchCall(call)) = self.items.last_mut() {
            call.status = FileSearchToolCallStatus::Completed;
            call.results = searched.results;
        }
        events.push(self.done(self.items.len() - 1));
        events
    }

    /// Adds annotations to the current message.
    pub(super) fn add_annotations(&mut self, annotations: Vec<Annotation>) -> Vec<Event> {
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
                annotation_index: index(part.annotations.len() + n),
                item_id: message.id.clone(),
                annotation: Some(annotation.clone()),
            })
        });
        let events = added.collect();
        part.annotations.extend(annotations);
        events
    }

    /// Adds a chunk of a function call. The start of a call ends the current message.
    pub(super) fn call(&mut self, piece: ToolCallPiece) -> Vec<Event> {
        let mut events = Vec::new();
        if let Some(head) = piece.begins {
            events.extend(self.release(true));
            self.marks.clear();
            self.round.marks = 0;
            self.round.annotations = 0;
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
        // Marks of passages that were not checked are removed.
        while self.pending.is_some() {
            events.extend(self.cite(Vec::new(), Held::Nothing));
        }
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
    use crate::{
        ids::{FileId, MessageId},
        tools::output::PassagePlace,
    };

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
    fn a_mark_of_passages_becomes_a_number_when_it_was_checked() {
        let mut draft = Draft::new(ResponseId::new());
        let file = FileId::new();
        let mut handles = Handles::default();
        handles.assign(Handled::Passage(PassagePlace {
            file,
            part: 1,
            from: 0,
            to: 9,
        }));
        draft.set_handles(handles);
        draft.say("On Monday [P1]. At nine");
        let (text, mark) = draft.pending().unwrap();
        assert_eq!((text.as_str(), mark.named.len()), ("On Monday", 1));
        let events = draft.cite(vec![CitedPassage::for_tests(file)], Held::PossibleMark);
        assert!(kinds(&events).contains(&"output_text.annotation.added".to_owned()));
        draft.say(" [P1].");
        assert!(draft.pending().is_some());
        draft.cite(Vec::new(), Held::PossibleMark);
        draft.say(" Bye [P1]");
        let events = draft.end(OutputStatus::Completed);
        assert!(!json!(events).to_string().contains("[P"));
        let part = &json!(draft.items())[0]["content"][0];
        assert_eq!(part["text"], "On Monday [1]. At nine. Bye");
        let citation = json!({"type": "file_citation", "index": 10, "file_id": file, "filename": "handbook.md"});
        assert_eq!(part["annotations"], json!([citation]));
    }

    #[test]
    fn a_search_is_an_item_of_its_own() {
        let mut draft = Draft::new(ResponseId::new());
        draft.say("Let me look.");
        let events = draft.add_search(Searched {
            queries: vec!["fair".to_owned()],
            results: None,
        });
        let last: Vec<String> = kinds(&events)[3..].to_vec();
        assert_eq!(
            last,
            [
                "output_item.added",
                "file_search_call.in_progress",
                "file_search_call.searching",
                "file_search_call.completed",
                "output_item.done",
            ]
        );
        draft.begin_round(Handles::default());
        draft.say("On Monday.");
        draft.end(OutputStatus::Completed);
        let items = json!(draft.items());
        let kinds: Vec<&Value> = (0..3).map(|at| &items[at]["type"]).collect();
        assert_eq!(kinds, ["message", "file_search_call", "message"]);
        assert_eq!(items[1]["queries"], json!(["fair"]));
        assert_eq!(items[2]["content"][0]["text"], "On Monday.");
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
            kinds(&draft.add_annotations(vec![annotation])),
            ["output_text.annotation.added"]
        );
        draft.end(OutputStatus::Completed);
        assert_eq!(
            json!(draft.items())[0]["content"][0]["annotations"],
            json!([citation])
        );
    }
}
