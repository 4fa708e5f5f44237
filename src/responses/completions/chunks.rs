//! Chunks of a streamed completion, from the events of the response.

use async_openai::types::responses::{OutputItem, ResponseStreamEvent as Event};
use serde_json::{Value, json};

use super::{
    super::object::Response,
    completion::{CompletionUsage, annotations, completion_id, finish_reason},
};

/// Creates the chunks of one completion.
pub struct Chunks {
    id: String,
    created: i64,
    model: String,
    has_usage: bool,
    /// Output index of each function call, in the order in which they began.
    calls: Vec<u32>,
}

impl Chunks {
    /// `begun` is the initial response. With `has_usage`, the last chunk contains the usage.
    pub fn new(begun: &Response, has_usage: bool) -> Self {
        Self {
            id: completion_id(begun),
            created: begun.created_at,
            model: begun.model.clone(),
            has_usage,
            calls: Vec::new(),
        }
    }

    fn chunk(&self, choices: &Value) -> Value {
        let mut chunk = json!({
            "id": self.id,
            "object": "chat.completion.chunk",
            "created": self.created,
            "model": self.model,
            "choices": choices,
        });
        if self.has_usage {
            chunk["usage"] = Value::Null;
        }
        chunk
    }

    fn delta(&self, delta: &Value) -> Value {
        let choice = json!({"index": 0, "delta": delta, "logprobs": null, "finish_reason": null});
        self.chunk(&json!([choice]))
    }

    /// Returns the first chunk, which contains the role.
    pub fn begin(&self) -> Value {
        self.delta(&json!({"role": "assistant"}))
    }

    /// Returns the chunk for an event, or `None` for events that have no counterpart.
    pub fn event(&mut self, event: &Event) -> Option<Value> {
        let delta = match event {
            Event::ResponseOutputTextDelta(event) => json!({"content": event.delta}),
            Event::ResponseOutputItemAdded(added) => {
                let OutputItem::FunctionCall(call) = &added.item else {
                    return None;
                };
                self.calls.push(added.output_index);
                json!({"tool_calls": [{"index": self.calls.len() - 1, "id": call.call_id, "type": "function",
                    "function": {"name": call.name, "arguments": ""}}]})
            }
            Event::ResponseFunctionCallArgumentsDelta(event) => {
                let at = |at: &u32| *at == event.output_index;
                let index = self.calls.iter().position(at)?;
                json!({"tool_calls": [{"index": index, "function": {"arguments": event.delta}}]})
            }
            _ => return None,
        };
        Some(self.delta(&delta))
    }

    /// Returns the last chunks: citations and members that the model's server wants back, the finish reason, and the usage if it was
    /// requested.
    pub fn end(&self, response: &Response) -> Vec<Value> {
        let reason = finish_reason(response);
        let members = &response.vendor;
        let mut delta = Value::Object(members.message.clone());
        let calls = members.calls.iter().enumerate();
        let calls = calls.filter(|(_, members)| !members.is_empty());
        let calls: Vec<Value> = calls
            .map(|(index, members)| {
                let mut call = Value::Object(members.clone());
                call["index"] = index.into();
                call
            })
            .collect();
        if !calls.is_empty() {
            delta["tool_calls"] = calls.into();
        }
        let annotations = annotations(response);
        if !annotations.is_empty() {
            delta["annotations"] = json!(annotations);
        }
        let has_members = delta.as_object().is_some_and(|delta| !delta.is_empty());
        let members = has_members.then(|| self.delta(&delta));
        let choice = json!({"index": 0, "delta": {}, "logprobs": null, "finish_reason": reason});
        let mut chunks: Vec<Value> = members.into_iter().collect();
        chunks.push(self.chunk(&json!([choice])));
        if self.has_usage {
            let mut last = self.chunk(&json!([]));
            last["usage"] = json!(response.usage.as_ref().map(CompletionUsage::from));
            chunks.push(last);
        }
        chunks
    }
}
