//! Canonical JSON (RFC 8785) of arguments, and hashes of the calls that people approve.

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::ids::{TaskId, ToolId};

/// Maximum size of arguments in UTF-8 bytes.
pub const ARGUMENTS_BYTES_MAX: usize = 32 * 1024;
/// Largest integer that every JSON parser reads exactly.
const INTEGER_MAX: u64 = (1 << 53) - 1;

/// Reason why arguments cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadArguments {
    #[error("the arguments are larger than {} KiB", ARGUMENTS_BYTES_MAX / 1024)]
    TooLarge,
    #[error("the arguments are not a JSON object")]
    NotAnObject,
    #[error("an integer is beyond 9007199254740991")]
    Integer,
}

/// SHA-256 in lowercase hexadecimal.
pub fn sha256(text: &str) -> String {
    hex::encode(Sha256::digest(text))
}

/// Canonical JSON (RFC 8785). The value must not contain integers beyond 2^53 - 1; see `has_exact_integers`.
pub fn canonical_text(value: &Value) -> String {
    // Fails only for numbers that JSON cannot represent.
    serde_jcs::to_string(value).unwrap_or_default()
}

/// Parses the arguments of a call, and returns them with their canonical text.
///
/// # Errors
/// `BadArguments`.
pub fn parse_arguments(text: &str) -> Result<(Map<String, Value>, String), BadArguments> {
    if text.len() > ARGUMENTS_BYTES_MAX {
        return Err(BadArguments::TooLarge);
    }
    let arguments = match read_value(text)? {
        // Some models encode the object twice.
        Value::String(text) => read_value(&text)?,
        value => value,
    };
    let arguments = match arguments {
        Value::Object(arguments) => arguments,
        Value::Null => Map::new(),
        _ => return Err(BadArguments::NotAnObject),
    };
    let canonical = canonical_arguments(&arguments)?;
    Ok((arguments, canonical))
}

/// Returns the canonical text of arguments.
///
/// # Errors
/// `BadArguments::Integer`.
pub fn canonical_arguments(arguments: &Map<String, Value>) -> Result<String, BadArguments> {
    let value = Value::Object(arguments.clone());
    if has_exact_integers(&value) {
        Ok(canonical_text(&value))
    } else {
        Err(BadArguments::Integer)
    }
}

/// Parses a JSON value. Some models send an empty text for a function without arguments, and some put the arguments into a code
/// block.
fn read_value(text: &str) -> Result<Value, BadArguments> {
    let text = text.trim();
    let fenced = text
        .strip_prefix("```")
        .and_then(|text| text.strip_suffix("```"));
    let text = match fenced {
        Some(code) => code.strip_prefix("json").unwrap_or(code).trim(),
        None => text,
    };
    if text.is_empty() {
        return Ok(Value::Null);
    }
    serde_json::from_str(text).map_err(|_| BadArguments::NotAnObject)
}

fn has_exact_integers(value: &Value) -> bool {
    match value {
        Value::Number(number) => {
            if let Some(n) = number.as_u64() {
                return n <= INTEGER_MAX;
            }
            if let Some(n) = number.as_i64() {
                return n.unsigned_abs() <= INTEGER_MAX;
            }
            let n = number.as_f64().unwrap_or(f64::INFINITY);
            n.is_finite() && (n.fract() != 0.0 || n.abs() < 9_007_199_254_740_992.0)
        }
        Value::Array(all) => all.iter().all(has_exact_integers),
        Value::Object(all) => all.values().all(has_exact_integers),
        Value::Null | Value::Bool(_) | Value::String(_) => true,
    }
}

/// The data of a call to which an approval is bound, in addition to the arguments.
#[derive(Debug, Clone, Copy)]
pub struct HashedCall<'a> {
    pub task: TaskId,
    pub round: i64,
    pub call: i64,
    pub tool: Option<ToolId>,
    pub function: &'a str,
    pub definition_hash: &'a str,
}

/// Hash to which an approval is bound. `arguments` is the canonical text, or the model's text if that is not JSON.
pub fn arguments_hash(call: &HashedCall<'_>, arguments: &str) -> String {
    sha256(&canonical_text(&json!({
        "task": call.task,
        "round": call.round,
        "call": call.call,
        "tool": call.tool,
        "function": call.function,
        "definition_hash": call.definition_hash,
        "arguments": value_of(arguments),
    })))
}

/// Hash that is the same for identical calls, including those of a retried task.
pub fn call_hash(tool: Option<ToolId>, function: &str, arguments: &str) -> String {
    sha256(&canonical_text(&json!({
        "tool": tool,
        "function": function,
        "arguments": value_of(arguments),
    })))
}

fn value_of(arguments: &str) -> Value {
    serde_json::from_str(arguments).unwrap_or_else(|_| Value::from(arguments))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_objects_in_canonical_form() {
        for (text, canonical) in [
            ("", "{}"),
            (" \n", "{}"),
            ("null", "{}"),
            ("```json\n{\"a\": 1}\n```", r#"{"a":1}"#),
            (r#""{\"a\": 1}""#, r#"{"a":1}"#),
            (r#""""#, "{}"),
            ("{ }", "{}"),
            (
                r#"{"b": 1, "a": [1.50, "\u00e9"]}"#,
                "{\"a\":[1.5,\"é\"],\"b\":1}",
            ),
            (r#"{"n": 9007199254740991}"#, r#"{"n":9007199254740991}"#),
            (r#"{"n": -9007199254740991}"#, r#"{"n":-9007199254740991}"#),
        ] {
            let (_, found) = parse_arguments(text).unwrap();
            assert_eq!(found, canonical, "{text}");
        }
    }

    #[test]
    fn other_arguments_are_refused() {
        let large = format!(r#"{{"a":"{}"}}"#, "x".repeat(ARGUMENTS_BYTES_MAX));
        for (text, expected) in [
            ("[]", BadArguments::NotAnObject),
            ("\"a\"", BadArguments::NotAnObject),
            ("{", BadArguments::NotAnObject),
            ("{} {}", BadArguments::NotAnObject),
            (r#"{"n": 9007199254740992}"#, BadArguments::Integer),
            (
                r#"{"n": [{"m": -9007199254740992}]}"#,
                BadArguments::Integer,
            ),
            (r#"{"n": 18446744073709551615}"#, BadArguments::Integer),
            (r#"{"n": 1e300}"#, BadArguments::Integer),
            (large.as_str(), BadArguments::TooLarge),
        ] {
            assert_eq!(parse_arguments(text).unwrap_err(), expected, "{text}");
        }
    }

    #[test]
    fn an_approval_is_bound_to_everything_that_its_card_shows() {
        let call = HashedCall {
            task: TaskId::new(),
            round: 1,
            call: 1,
            tool: None,
            function: "remember",
            definition_hash: "d",
        };
        let hash = |call: &HashedCall<'_>, arguments: &str| arguments_hash(call, arguments);
        let known = hash(&call, r#"{"a":1}"#);
        assert_eq!(known.len(), 64);
        assert_eq!(known, hash(&call, r#"{ "a" : 1 }"#));
        let others = [
            hash(
                &HashedCall {
                    task: TaskId::new(),
                    ..call
                },
                r#"{"a":1}"#,
            ),
            hash(&HashedCall { round: 2, ..call }, r#"{"a":1}"#),
            hash(&HashedCall { call: 2, ..call }, r#"{"a":1}"#),
            hash(
                &HashedCall {
                    tool: Some(ToolId::new()),
                    ..call
                },
                r#"{"a":1}"#,
            ),
            hash(
                &HashedCall {
                    function: "search",
                    ..call
                },
                r#"{"a":1}"#,
            ),
            hash(
                &HashedCall {
                    definition_hash: "e",
                    ..call
                },
                r#"{"a":1}"#,
            ),
            hash(&call, r#"{"a":2}"#),
        ];
        assert!(others.iter().all(|other| *other != known));
    }
}
