//! Normalizes tool calls in a response, because servers differ in how they number, name, and repeat them.

use serde_json::Value;
use uuid::Uuid;

use super::super::chat::{CallHead, ToolCallPiece};

/// Maximum number of calls in a response; additional calls cut the response off.
pub const CALLS_MAX: usize = 64;

/// The response has more than `CALLS_MAX` calls.
#[derive(Debug, PartialEq)]
pub(super) struct TooMany;

/// Calls in the response so far.
#[derive(Default)]
pub(super) struct Calls {
    begun: Vec<Begun>,
    /// Index of the call to which the last entry belonged.
    latest: Option<usize>,
}

struct Begun {
    /// Index assigned by the server.
    number: Option<u64>,
    /// ID assigned by the server, if any.
    id: Option<String>,
}

impl Calls {
    pub(super) fn is_empty(&self) -> bool {
        self.begun.is_empty()
    }

    /// Returns the index of the call to which the last entry belonged, if it belonged to any.
    pub(super) fn latest(&self) -> Option<usize> {
        self.latest
    }

    /// Handles an entry of `tool_calls`: the start of a call, more arguments, or a complete call. Returns `None` for an entry without
    /// content.
    ///
    /// Servers differ in these points:
    /// - Some do not number calls, or number all of them 0, and distinguish them by ID.
    /// - Some repeat the ID and the name in every part.
    /// - Some send no ID, so one is generated.
    /// - Some send the arguments as an object.
    pub(super) fn take(&mut self, value: &Value) -> Result<Option<ToolCallPiece>, TooMany> {
        // `PostgreSQL` cannot store NUL in text values.
        let text = |value: &Value| {
            let text = value.as_str()?.replace('\0', "");
            Some(text).filter(|text| !text.is_empty())
        };
        let number = value["index"].as_u64();
        let id = text(&value["id"]);
        let name = text(&value["function"]["name"]);
        let arguments = match &value["function"]["arguments"] {
            Value::String(text) => text.clone(),
            Value::Null => String::new(),
            other => other.to_string(),
        };
        let is_same = |begun: &Begun| {
            let ids_differ = id.is_some() && begun.id.is_some() && id != begun.id;
            !ids_differ && (number.is_none() || number == begun.number)
        };
        // Without an index, a repeated name starts the next call.
        let begins_next = name.is_some() && number.is_none() && id.is_none();
        let known = self.begun.iter().rposition(is_same);
        let known = known.filter(|_| !begins_next);
        self.latest = known;
        if let Some(index) = known {
            let piece = ToolCallPiece {
                index,
                begins: None,
                arguments,
            };
            return Ok(Some(piece).filter(|piece| !piece.arguments.is_empty()));
        }
        // Arguments of a call that was never started are ignored.
        let Some(name) = name else { return Ok(None) };
        if self.begun.len() == CALLS_MAX {
            return Err(TooMany);
        }
        let (given, index) = (id.clone(), self.begun.len());
        self.begun.push(Begun { number, id });
        self.latest = Some(index);
        Ok(Some(ToolCallPiece {
            index,
            begins: Some(CallHead {
                id: given.unwrap_or_else(|| format!("call_{}", Uuid::now_v7().simple())),
                name,
            }),
            arguments,
        }))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Assembles calls from parts, as `id name arguments`; generated IDs are shown as `-`.
    fn calls(pieces: &[Value]) -> Vec<String> {
        let (mut calls, mut found) = (Calls::default(), Vec::<String>::new());
        for piece in pieces {
            let Some(piece) = calls.take(piece).unwrap() else {
                continue;
            };
            if let Some(head) = piece.begins {
                assert_eq!(piece.index, found.len());
                let id = if head.id.starts_with("call_0") {
                    "-"
                } else {
                    &head.id
                };
                found.push(format!("{id} {} ", head.name));
            }
            found[piece.index].push_str(&piece.arguments);
        }
        found
    }

    #[test]
    fn chunks_with_indexes_are_assembled() {
        let pieces = [
            json!({"index": 0, "id": "a", "type": "function", "function": {"name": "add", "arguments": ""}}),
            json!({"index": 0, "function": {"arguments": "{\"x\":"}}),
            json!({"index": 1, "id": "b", "function": {"name": "sub", "arguments": "{}"}}),
            json!({"index": 0, "id": "", "function": {"name": null, "arguments": "1}"}}),
        ];
        assert_eq!(calls(&pieces), ["a add {\"x\":1}", "b sub {}"]);
    }

    #[test]
    fn calls_without_distinct_indexes_are_distinguished_by_id_and_name() {
        let whole = |index: Value, id: &str, name: &str| {
            let mut call = json!({"id": id, "function": {"name": name, "arguments": {"n": 1}}});
            if !index.is_null() {
                call["index"] = index;
            }
            call
        };
        for index in [Value::Null, json!(0)] {
            let pieces = [whole(index.clone(), "a", "add"), whole(index, "b", "add")];
            assert_eq!(calls(&pieces), ["a add {\"n\":1}", "b add {\"n\":1}"]);
        }
        let nameless = [
            json!({"function": {"name": "add", "arguments": "{}"}}),
            json!({"function": {"name": "sub", "arguments": "{"}}),
            json!({"function": {"arguments": "}"}}),
        ];
        assert_eq!(calls(&nameless), ["- add {}", "- sub {}"]);
    }

    #[test]
    fn chunks_that_start_no_call_are_ignored_and_too_many_calls_end_the_response() {
        let mut calls = Calls::default();
        let stray = json!({"index": 3, "function": {"arguments": "{}"}});
        assert_eq!(calls.take(&stray), Ok(None));
        for n in 0..CALLS_MAX {
            let call = json!({"index": n, "id": format!("c{n}"), "function": {"name": "f"}});
            assert!(calls.take(&call).unwrap().is_some());
        }
        let further = json!({"index": CALLS_MAX, "id": "z", "function": {"name": "f"}});
        assert_eq!(calls.take(&further), Err(TooMany));
    }
}
