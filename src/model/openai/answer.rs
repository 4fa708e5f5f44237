//! Parser of the event stream of a response: bytes in, deltas out.

use std::{collections::VecDeque, pin::Pin, time::Duration};

use bytes::{Buf, Bytes, BytesMut};
use futures::{Stream, StreamExt};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::super::visible::has_visible;
use super::{
    super::chat::{ChatRequest, Delta, ModelError, StopReason, ToolCallPiece, Usage},
    calls::{Calls, TooMany},
    overflow::Overflow,
    reasoning::{Filtered, ReasoningFilter},
    refusal::{ProviderErrorBody, Quotes},
    text_calls::TextCalls,
    vendor::Received,
};

/// Maximum wait for the usage after the end of the response.
const USAGE_TIMEOUT: Duration = Duration::from_secs(3);
/// Maximum response size, including call arguments; longer responses are cut off, as if at the model's output limit.
pub(super) const ANSWER_BYTES_MAX: usize = 256 * 1024;
/// Ends the text of a response that the server's filter has stopped.
const FILTERED: &str = "(The AI service stopped here.)";
/// Maximum plausible token count of a call, so that sums never overflow their columns.
pub(super) const TOKENS_MAX: i64 = 1_000_000_000;
/// Maximum size of a line, and of an event with several lines.
pub(super) const LINE_BYTES_MAX: usize = 1024 * 1024;

/// Splits an event stream into items, from chunks of any size.
#[derive(Default)]
pub(super) struct EventReader {
    buffer: BytesMut,
    /// Number of bytes at the start of `buffer` that are known to contain no line end.
    searched: usize,
    /// True if the last line ended with `\r`; a `\n` that follows belongs to that line.
    after_cr: bool,
    data: Option<String>,
}

#[derive(Debug, PartialEq)]
pub(super) enum StreamItem {
    Comment,
    Event(String),
}

/// A line or event is longer than `LINE_BYTES_MAX`.
#[derive(Debug, PartialEq)]
pub(super) struct TooLong;

impl EventReader {
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Next complete item; `None` if more bytes are needed.
    pub(super) fn next(&mut self) -> Result<Option<StreamItem>, TooLong> {
        while let Some(line) = self.next_line() {
            let item = self.take_line(&String::from_utf8_lossy(&line));
            if line.len() > LINE_BYTES_MAX
                || self
                    .data
                    .as_ref()
                    .is_some_and(|data| data.len() > LINE_BYTES_MAX)
            {
                return Err(TooLong);
            }
            if item.is_some() {
                return Ok(item);
            }
        }
        if self.buffer.len() > LINE_BYTES_MAX {
            Err(TooLong)
        } else {
            Ok(None)
        }
    }

    fn next_line(&mut self) -> Option<BytesMut> {
        if let Some(first) = self.buffer.first() {
            if self.after_cr && *first == b'\n' {
                self.buffer.advance(1);
            }
            self.after_cr = false;
        }
        let end = self.buffer[self.searched..]
            .iter()
            .position(|b| matches!(b, b'\n' | b'\r'));
        let Some(offset) = end else {
            self.searched = self.buffer.len();
            return None;
        };
        let line = self.buffer.split_to(self.searched + offset);
        self.after_cr = self.buffer.get_u8() == b'\r';
        self.searched = 0;
        Some(line)
    }

    fn take_line(&mut self, line: &str) -> Option<StreamItem> {
        let line = line.trim_start_matches('\u{feff}');
        if line.is_empty() {
            return self.data.take().map(StreamItem::Event);
        }
        if line.starts_with(':') {
            return Some(StreamItem::Comment);
        }
        // Some servers send one object per line. No field of an event starts with a brace.
        if line.starts_with('{') && self.data.is_none() {
            return Some(StreamItem::Event(line.to_owned()));
        }
        if let Some(value) = line.strip_prefix("data:") {
            let value = value.strip_prefix(' ').unwrap_or(value);
            match &mut self.data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                None => self.data = Some(value.to_owned()),
            }
        }
        None
    }

    /// Returns the last item of a stream that ended without a blank line.
    pub(super) fn finish(&mut self) -> Option<StreamItem> {
        let line = self.buffer.split();
        let item = self.take_line(&String::from_utf8_lossy(&line));
        self.data.take().map(StreamItem::Event).or(item)
    }
}

pub(super) type ByteStream = Pin<Box<dyn Stream<Item = reqwest::Result<Bytes>> + Send>>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Open,
    /// The text is complete; only usage can follow.
    Stopped,
    /// The stream has ended, except for items in `ready`.
    Ended,
}

/// Response that is being received: bytes in, deltas out.
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
pub(super) struct Answer {
    bytes: ByteStream,
    quotes: Quotes,
    reader: EventReader,
    ready: VecDeque<Result<Delta, ModelError>>,
    answer_bytes: usize,
    reasoning: ReasoningFilter,
    text_calls: TextCalls,
    /// True if `text_calls` has found calls.
    has_calls_in_text: bool,
    vendor: Received,
    calls: Calls,
    usage: Usage,
    /// Output limit of the request, for errors.
    output_tokens_max: u32,
    /// True if the text so far shows something.
    has_words: bool,
    /// True if an event other than `[DONE]` was received.
    has_events: bool,
    /// True if the server ended the stream; false if the connection was lost.
    is_ended: bool,
    /// True if the connection was lost or the stream ended before a finish reason was received.
    is_cut_off: bool,
    /// Sizes in an error that the server sent instead of the rest of the response.
    overflow: Option<Overflow>,
    phase: Phase,
    /// Maximum wait for the usage after the end of the response, regardless of other events.
    pub(super) usage_within: Duration,
    usage_until: Option<Instant>,
}

/// Facts about the request and the model that determine how a response is read.
#[derive(Debug, Clone, Default)]
pub(super) struct Expected {
    /// Names of the offered functions.
    pub(super) offered: Vec<String>,
    /// True if the model is known to close its reasoning without opening it.
    pub(super) closes_alone: bool,
    /// Output limit of the request.
    pub(super) output_tokens_max: u32,
}

impl Expected {
    pub(super) fn of(request: &ChatRequest, seen: Seen) -> Self {
        Self {
            offered: (request.tools.iter())
                .map(|tool| tool.name.clone())
                .collect(),
            closes_alone: seen.closes_alone,
            output_tokens_max: request.max_output_tokens.unwrap_or_default(),
        }
    }
}

/// Facts about a model that its responses reveal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Seen {
    pub(super) reasons: bool,
    /// True if the model closes its reasoning without opening it.
    pub(super) closes_alone: bool,
    /// True if the server leaves the model's calls in the text.
    pub(super) calls_in_text: bool,
}

impl Seen {
    /// Returns the facts of both.
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            reasons: self.reasons || other.reasons,
            closes_alone: self.closes_alone || other.closes_alone,
            calls_in_text: self.calls_in_text || other.calls_in_text,
        }
    }

    /// Checks whether this contains a fact that `known` does not.
    pub(super) fn is_news_to(self, known: Self) -> bool {
        known.and(self) != known
    }
}

/// State in which a failed response ended.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
pub(super) struct Ending {
    /// True if the server ended the stream; false if the connection was lost.
    pub(super) is_clean: bool,
    /// True if the connection was lost or the stream ended before a finish reason was received.
    pub(super) is_cut_off: bool,
    /// True if the response contained an event other than `[DONE]`.
    pub(super) has_events: bool,
    /// True if the response contained text or calls.
    pub(super) has_output: bool,
    /// Sizes in an error that the server sent instead of the rest of the response.
    pub(super) overflow: Option<Overflow>,
}

impl Answer {
    pub(super) fn new(bytes: ByteStream, quotes: Quotes, expected: Expected) -> Self {
        Self {
            bytes,
            quotes,
            reader: EventReader::default(),
            ready: VecDeque::new(),
            answer_bytes: 0,
            reasoning: ReasoningFilter::new(expected.closes_alone),
            text_calls: TextCalls::new(expected.offered),
            has_calls_in_text: false,
            vendor: Received::default(),
            calls: Calls::default(),
            usage: Usage::default(),
            output_tokens_max: expected.output_tokens_max,
            has_words: false,
            has_events: false,
            is_ended: false,
            is_cut_off: false,
            overflow: None,
            phase: Phase::Open,
            usage_within: USAGE_TIMEOUT,
            usage_until: None,
        }
    }

    /// Response with the calls in an error about calls that the server could not parse; `None` if they cannot be read either.
    pub(super) fn of_failed_calls(
        body: &str,
        quotes: &Quotes,
        expected: &Expected,
    ) -> Option<Self> {
        let bytes = futures::stream::empty().boxed();
        let mut answer = Self::new(bytes, quotes.clone(), expected.clone());
        answer.take(body);
        (!answer.calls.is_empty()).then_some(answer)
    }

    #[cfg(test)]
    pub(super) fn into_stream(self) -> super::super::chat::DeltaStream {
        futures::stream::unfold(self, |mut answer| async move {
            let delta = answer.next().await?;
            Some((delta, answer))
        })
        .boxed()
    }

    pub(super) async fn next(&mut self) -> Option<Result<Delta, ModelError>> {
        loop {
            if let Some(delta) = self.ready.pop_front() {
                return Some(delta);
            }
            if self.phase == Phase::Ended {
                return None;
            }
            match self.reader.next() {
                Ok(Some(item)) => {
                    self.take_item(item);
                    continue;
                }
                Ok(None) => {}
                Err(TooLong) => {
                    self.fail(ModelError::Broken(format!(
                        "a line is longer than {LINE_BYTES_MAX} bytes"
                    )));
                    continue;
                }
            }
            let read = match self.usage_until {
                None => self.bytes.next().await,
                Some(until) if until <= Instant::now() => None,
                Some(until) => tokio::time::timeout_at(until, self.bytes.next())
                    .await
                    .unwrap_or(None),
            };
            match read {
                Some(Ok(bytes)) => self.reader.feed(&bytes),
                Some(Err(error)) => {
                    let cause = self.quotes.cause(error);
                    self.break_off(cause);
                }
                None => {
                    if let Some(item) = self.reader.finish() {
                        self.take_item(item);
                    }
                    self.end();
                }
            }
        }
    }

    fn take_item(&mut self, item: StreamItem) {
        match item {
            StreamItem::Comment => self.alive(),
            StreamItem::Event(data) if data.trim() == "[DONE]" => self.done(),
            StreamItem::Event(data) => self.take(&data),
        }
    }

    fn alive(&mut self) {
        if self.phase == Phase::Open {
            self.ready.push_back(Ok(Delta::Alive));
        }
    }

    /// Handles an event, or the complete response of a server that does not stream.
    pub(super) fn take(&mut self, data: &str) {
        if data.trim().is_empty() {
            return self.alive();
        }
        self.has_events = true;
        let Ok(chunk) = serde_json::from_str::<Value>(data) else {
            return self.fail(ModelError::Broken("an event is not JSON".to_owned()));
        };
        let is_error = !chunk["error"].is_null()
            || [&chunk["type"], &chunk["object"]]
                .iter()
                .any(|kind| *kind == "error");
        if is_error {
            if let Some(calls) = self.text_calls.failed(&chunk["error"]) {
                for call in &calls {
                    self.call(call);
                }
                return self.stop(StopReason::Complete);
            }
            let complaint = ProviderErrorBody::of(&chunk);
            let error = complaint.error(None, None, &self.quotes);
            self.overflow = Some(complaint.overflow);
            return self.fail(error);
        }
        let choices = chunk["choices"]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default();
        let choice = choices
            .iter()
            .find(|choice| choice["index"].as_u64().unwrap_or(0) == 0);
        if let Some(choice) = choice.filter(|_| self.phase == Phase::Open) {
            let said = choice.get("delta").filter(|delta| !delta.is_null());
            let said = said.unwrap_or(&choice["message"]);
            self.take_message(said);
            if let Some(reason) = choice["finish_reason"].as_str().filter(|r| !r.is_empty()) {
                self.finish_reason(reason);
            }
        } else {
            self.alive();
        }
        if let Some(usage) = usage_of(&chunk["usage"])
            && self.phase != Phase::Ended
        {
            // Some servers send each count in a chunk of its own, or update them.
            let all = self.usage.larger(usage);
            if std::mem::replace(&mut self.usage, all) != all {
                self.ready.push_back(Ok(Delta::Usage(all)));
            }
        }
    }

    /// Handles a part of the message, or the complete one.
    fn take_message(&mut self, said: &Value) {
        self.vendor.take_message(said);
        let before = self.ready.len();
        let text = text_of(&said["content"]);
        let refusal = said["refusal"].as_str().unwrap_or_default();
        self.raw_text(&text);
        self.raw_text(refusal);
        for call in said["tool_calls"].as_array().into_iter().flatten() {
            self.call(call);
        }
        if said["function_call"].is_object() {
            self.call(&json!({"index": 0, "function": said["function_call"]}));
        }
        if self.ready.len() == before {
            self.alive();
        }
    }

    /// Handles text that can contain reasoning and calls.
    fn raw_text(&mut self, text: &str) {
        if !text.is_empty() {
            let filtered = self.reasoning.push(text);
            self.filtered(filtered);
        }
    }

    fn filtered(&mut self, all: Vec<Filtered>) {
        for filtered in all {
            match filtered {
                Filtered::Text(text) => {
                    let text = self.text_calls.push(&text);
                    self.text(&text);
                }
                // Text after a call does not begin with reasoning, so such a tag is ignored there.
                Filtered::Discard if self.calls.is_empty() && self.phase == Phase::Open => {
                    self.text_calls.discard();
                    self.has_words = false;
                    self.ready.push_back(Ok(Delta::Discard));
                }
                Filtered::Discard => {}
            }
        }
    }

    /// Passes on the text that was held back.
    fn finish_text(&mut self) {
        let filtered = self.reasoning.finish();
        self.filtered(filtered);
        match self.text_calls.finish() {
            Ok(calls) => {
                self.has_calls_in_text = true;
                for call in &calls {
                    self.call(call);
                }
            }
            Err(text) => self.text(&text),
        }
    }

    fn text(&mut self, text: &str) {
        if self.phase != Phase::Open {
            return;
        }
        let kept = self.kept(text);
        self.has_words |= has_visible(kept);
        if !kept.is_empty() {
            self.ready.push_back(Ok(Delta::Text(kept.to_owned())));
        }
        if kept.len() < text.len() {
            self.cut();
        }
    }

    /// Returns the part of `text` that still fits within the size limit.
    fn kept<'t>(&mut self, text: &'t str) -> &'t str {
        let room = ANSWER_BYTES_MAX - self.answer_bytes;
        let kept = &text[..text.floor_char_boundary(room)];
        self.answer_bytes += kept.len();
        kept
    }

    /// Ends a response that exceeds the size limit.
    fn cut(&mut self) {
        self.close(StopReason::Length);
        self.phase = Phase::Ended;
    }

    /// Handles a part of a call, or a complete one.
    fn call(&mut self, value: &Value) {
        if self.phase != Phase::Open {
            return;
        }
        if self.calls.is_empty() {
            let filtered = self.reasoning.finish();
            self.filtered(filtered);
        }
        let taken = self.calls.take(value);
        if let Some(index) = self.calls.latest() {
            self.vendor.take_call(index, value);
        }
        match taken {
            Ok(Some(piece)) => {
                let kept = self.kept(&piece.arguments).to_owned();
                let is_cut = kept.len() < piece.arguments.len();
                self.ready.push_back(Ok(Delta::ToolCall(ToolCallPiece {
                    arguments: kept,
                    ..piece
                })));
                if is_cut {
                    self.cut();
                }
            }
            Ok(None) => self.alive(),
            Err(TooMany) => self.cut(),
        }
    }

    fn finish_reason(&mut self, reason: &str) {
        match reason {
            "length" | "max_tokens" | "model_length" => self.stop(StopReason::Length),
            "content_filter" => {
                self.finish_text();
                let gap = if self.has_words { "\n\n" } else { "" };
                self.text(&format!("{gap}{FILTERED}"));
                self.stop(StopReason::Complete);
            }
            "error" => self.fail(ModelError::Broken(
                "the server reported an error".to_owned(),
            )),
            _ => self.stop(StopReason::Complete),
        }
    }

    fn stop(&mut self, reason: StopReason) {
        self.finish_text();
        self.close(reason);
    }

    fn close(&mut self, reason: StopReason) {
        if self.phase != Phase::Open {
            return;
        }
        if self.has_output() {
            let members = self.vendor.members().filter(|_| !self.calls.is_empty());
            self.ready.extend(members.map(Delta::Vendor).map(Ok));
            self.ready.push_back(Ok(Delta::Stop(reason)));
        } else {
            self.is_ended = true;
        }
        self.phase = Phase::Stopped;
        self.usage_until = Some(Instant::now() + self.usage_within);
    }

    /// Ends the stream with an error. After the finish reason, the response is complete, so the error is ignored, or replaced with
    /// `Empty` if there was no output.
    fn fail(&mut self, error: ModelError) {
        match self.phase {
            Phase::Open => {
                if !self.reasoning.is_holding() {
                    self.finish_text();
                }
                if self.phase == Phase::Open {
                    self.ready.push_back(Err(error));
                }
            }
            Phase::Stopped if !self.has_output() => {
                let error = self.without_output();
                self.ready.push_back(Err(error));
            }
            Phase::Stopped | Phase::Ended => {}
        }
        self.phase = Phase::Ended;
    }

    /// Error for a complete response without text and calls.
    fn without_output(&self) -> ModelError {
        if self.seen().reasons {
            ModelError::ThoughtOnly {
                output_tokens_max: self.output_tokens_max,
            }
        } else {
            ModelError::Empty
        }
    }

    /// Facts about the model that the response has revealed so far.
    pub(super) fn seen(&self) -> Seen {
        Seen {
            reasons: self.vendor.has_reasoning()
                || self.reasoning.has_reasoning()
                || self.usage.reasoning_tokens > 0,
            closes_alone: self.reasoning.closes_alone(),
            calls_in_text: self.has_calls_in_text,
        }
    }

    /// Handles `[DONE]`. Output before it is complete, even if the server sends no finish reason.
    fn done(&mut self) {
        if self.phase == Phase::Open {
            self.finish_text();
            if self.has_output() {
                self.close(StopReason::Complete);
            }
        }
        self.end();
    }

    /// Ends a stream that stopped early.
    fn break_off(&mut self, cause: String) {
        self.is_cut_off = self.phase == Phase::Open;
        self.fail(ModelError::Broken(cause));
    }

    /// State in which the response ended.
    pub(super) fn ending(&self) -> Ending {
        Ending {
            is_clean: self.is_ended,
            is_cut_off: self.is_cut_off,
            has_events: self.has_events,
            has_output: self.has_output(),
            overflow: self.overflow,
        }
    }

    /// Checks whether the response so far contains text or calls.
    fn has_output(&self) -> bool {
        self.has_words || !self.calls.is_empty()
    }

    /// Handles the end of the stream.
    pub(super) fn end(&mut self) {
        self.is_ended = true;
        if self.has_events {
            self.break_off("it ended without a finish reason".to_owned());
        } else {
            self.fail(ModelError::Empty);
        }
    }
}

/// Text of a content value: a string, or the text parts of an array.
fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let texts = parts.iter().filter(|part| part["type"] == "text");
            texts.filter_map(|part| part["text"].as_str()).collect()
        }
        _ => String::new(),
    }
}

/// Parses the usage; `None` if it is missing, all zeros, or implausible.
fn usage_of(usage: &Value) -> Option<Usage> {
    let tokens = |value: &Value| value.as_i64().filter(|n| (0..=TOKENS_MAX).contains(n));
    let count = |names: [&str; 2]| names.iter().find_map(|name| tokens(&usage[name]));
    let part = |names: [&str; 2], of: &str| {
        let found = names.iter().find_map(|name| tokens(&usage[name][of]));
        found.unwrap_or(0)
    };
    let usage = Usage {
        input_tokens: count(["prompt_tokens", "input_tokens"]).unwrap_or(0),
        output_tokens: count(["completion_tokens", "output_tokens"]).unwrap_or(0),
        cached_tokens: part(
            ["prompt_tokens_details", "input_tokens_details"],
            "cached_tokens",
        ),
        cache_write_tokens: part(
            ["prompt_tokens_details", "input_tokens_details"],
            "cache_write_tokens",
        ),
        reasoning_tokens: part(
            ["completion_tokens_details", "output_tokens_details"],
            "reasoning_tokens",
        ),
    };
    (usage != Usage::default()).then_some(usage)
}
