//! Access to values of untrusted JSON: what is missing or has another type is empty.

use serde_json::Value;

pub(super) fn string<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

pub(super) fn flag(value: &Value, name: &str) -> bool {
    value.get(name).and_then(Value::as_bool).unwrap_or(false)
}

pub(super) fn number(value: &Value, name: &str) -> i64 {
    value.get(name).and_then(Value::as_i64).unwrap_or(0)
}

pub(super) fn array<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    let found = value.get(name).and_then(Value::as_array);
    found.map(Vec::as_slice).unwrap_or_default()
}

pub(super) fn strings(value: &Value, name: &str) -> Vec<String> {
    let all = array(value, name).iter().filter_map(Value::as_str);
    all.map(str::to_owned).collect()
}

/// The first of these texts that is not blank.
pub(super) fn first<'a>(texts: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    texts
        .into_iter()
        .map(str::trim)
        .find(|text| !text.is_empty())
}
