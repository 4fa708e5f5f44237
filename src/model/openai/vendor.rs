//! Collects the members of a message that its server wants back, from chunks.

use serde_json::{Map, Value};

use super::super::chat::{REASONING_MEMBERS, VendorMembers};

/// Maximum size of a message's members, as JSON.
const BYTES_MAX: usize = 64 * 1024;

/// Members received so far.
#[derive(Default)]
pub(super) struct Received {
    members: VendorMembers,
    /// Approximate sizes of what was received, including what was not kept.
    reasoning_bytes: usize,
    call_bytes: usize,
    has_reasoning: bool,
}

impl Received {
    /// Checks whether the server has sent reasoning.
    pub(super) fn has_reasoning(&self) -> bool {
        self.has_reasoning
    }

    /// Adds the reasoning of a chunk or of a whole message.
    pub(super) fn take_message(&mut self, message: &Value) {
        let is_thought = |part: &Value| part["type"] == "thinking" || part["type"] == "reasoning";
        let parts = message["content"].as_array();
        self.has_reasoning |= parts.is_some_and(|parts| parts.iter().any(is_thought));
        for name in REASONING_MEMBERS {
            let value = &message[name];
            if is_blank(value) {
                continue;
            }
            self.has_reasoning = true;
            self.reasoning_bytes += size(value);
            if self.reasoning_bytes <= BYTES_MAX {
                merge(&mut self.members.message, name, value);
            } else {
                // Reasoning without its end would not be what the server sent.
                self.members.message.clear();
            }
        }
    }

    /// Adds the unknown members of a part of the call at `index`.
    pub(super) fn take_call(&mut self, index: usize, call: &Value) {
        let unknown = call
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(name, value)| {
                !matches!(name.as_str(), "id" | "index" | "type" | "function") && !value.is_null()
            });
        for (name, value) in unknown {
            self.call_bytes += name.len() + size(value);
            if self.call_bytes > BYTES_MAX {
                self.members.calls.clear();
                return;
            }
            let calls = &mut self.members.calls;
            if calls.len() <= index {
                calls.resize_with(index + 1, Map::new);
            }
            calls[index].insert(name.clone(), value.clone());
        }
    }

    /// Returns the members, if their size is within the limit.
    pub(super) fn members(&mut self) -> Option<VendorMembers> {
        let mut members = std::mem::take(&mut self.members);
        if members.bytes() > BYTES_MAX {
            members.message.clear();
        }
        let is_whole = self.call_bytes <= BYTES_MAX && members.bytes() <= BYTES_MAX;
        (is_whole && !members.is_empty()).then_some(members)
    }
}

fn size(value: &Value) -> usize {
    value
        .as_str()
        .map_or_else(|| value.to_string().len(), str::len)
}

fn is_blank(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(all) => all.is_empty(),
        _ => false,
    }
}

/// Appends texts and lists, and replaces anything else.
fn merge(members: &mut Map<String, Value>, name: &str, value: &Value) {
    match (members.get_mut(name), value) {
        (Some(Value::String(text)), Value::String(more)) => text.push_str(more),
        (Some(Value::Array(all)), Value::Array(more)) => {
            for detail in more {
                if !all.last_mut().is_some_and(|last| continues(last, detail)) {
                    all.push(detail.clone());
                }
            }
        }
        _ => {
            members.insert(name.to_owned(), value.clone());
        }
    }
}

/// Appends a part of a reasoning detail to the detail that it continues. Returns false if it is another detail.
fn continues(last: &mut Value, part: &Value) -> bool {
    let is_same = last["type"] == part["type"] && last.get("index") == part.get("index");
    let text = ["text", "summary"]
        .into_iter()
        .find(|name| part[name].is_string());
    let Some((text, true)) = text.map(|text| (text, is_same && last.get("index").is_some())) else {
        return false;
    };
    let (Some(last), Some(part)) = (last.as_object_mut(), part.as_object()) else {
        return false;
    };
    for (name, value) in part.iter().filter(|(_, value)| !value.is_null()) {
        match (last.get_mut(name), value) {
            (Some(Value::String(begun)), Value::String(more)) if name == text => {
                begun.push_str(more);
            }
            _ => {
                last.insert(name.clone(), value.clone());
            }
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn chunks_of_reasoning_become_the_message_that_the_server_wants_back() {
        let mut received = Received::default();
        received.take_message(&json!({"reasoning_content": "a", "reasoning": null}));
        received.take_message(&json!({"reasoning_content": "b",
            "reasoning_details": [{"type": "reasoning.text", "index": 0, "text": "x"}]}));
        received.take_message(&json!({
            "reasoning_details": [{"type": "reasoning.text", "index": 0, "text": "y", "signature": "s"},
                {"type": "reasoning.encrypted", "index": 1, "data": "d"}]}));
        received.take_call(
            1,
            &json!({"id": "c", "index": 1, "type": "function", "function": {},
            "extra_content": {"google": {"thought_signature": "s"}}}),
        );
        let members = received.members().unwrap();
        assert_eq!(
            json!(members),
            json!({
                "message": {"reasoning_content": "ab", "reasoning_details": [
                    {"type": "reasoning.text", "index": 0, "text": "xy", "signature": "s"},
                    {"type": "reasoning.encrypted", "index": 1, "data": "d"}]},
                "calls": [{}, {"extra_content": {"google": {"thought_signature": "s"}}}],
            })
        );
    }

    #[test]
    fn reasoning_above_the_limit_is_left_out_but_signatures_of_calls_are_kept() {
        let mut received = Received::default();
        for _ in 0..3 {
            received.take_message(&json!({"reasoning_content": "x".repeat(BYTES_MAX / 2)}));
        }
        assert!(received.has_reasoning());
        received.take_call(0, &json!({"id": "c", "signature": "s"}));
        let members = received.members().unwrap();
        assert_eq!(json!(members), json!({"calls": [{"signature": "s"}]}));
        received.take_call(0, &json!({"signature": "x".repeat(BYTES_MAX)}));
        assert_eq!(received.members(), None);
    }

    #[test]
    fn members_of_calls_above_the_limit_are_not_collected() {
        let mut received = Received::default();
        received.take_message(&json!({"reasoning_content": "a"}));
        for n in 0..1_000 {
            received.take_call(0, &json!({format!("m{n}"): "x".repeat(1_000)}));
        }
        assert!(received.members.calls.is_empty());
        assert_eq!(received.members(), None);
    }
}
