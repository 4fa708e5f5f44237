//! Removes a user's data from JSON.

use serde_json::{Map, Value};

use crate::ids::UserId;

/// Name that replaces the user's name.
pub(super) const NOBODY: &str = "Deleted account";

/// Removes the user's names, addresses, and texts from a log frame. IDs are kept: clients that replay the frame need them, and they
/// no longer refer to any data.
pub(super) fn frame(value: &mut Value, user: &str) {
    match value {
        Value::Object(object) => {
            object_of_frame(object, user);
            object.values_mut().for_each(|inner| frame(inner, user));
        }
        Value::Array(list) => list.iter_mut().for_each(|inner| frame(inner, user)),
        _ => {}
    }
}

fn object_of_frame(object: &mut Map<String, Value>, user: &str) {
    let names = |field: &str, object: &Map<String, Value>| {
        object.get(field).and_then(Value::as_str) == Some(user)
    };
    if names("id", object) || names("user_id", object) {
        replace(object, "name", NOBODY.into());
        replace(object, "email", "".into());
        replace(object, "handle", "".into());
        replace(object, "avatar_url", Value::Null);
    }
    if names("owner_id", object) {
        replace(object, "owner_name", NOBODY.into());
        if object.contains_key("cron") {
            replace(object, "name", "".into());
            if let Some(target) = object.get_mut("target").and_then(Value::as_object_mut) {
                replace(target, "prompt", "".into());
                replace(target, "input", "".into());
            }
        }
    }
    if names("created_by", object) {
        if object.contains_key("root_message_id") {
            replace(object, "title", Value::Null);
        }
        if object.contains_key("message_count") {
            replace(object, "description", Value::Null);
        }
        if object.contains_key("size_bytes") {
            replace(object, "name", "".into());
        }
    }
    if names("requested_by", object)
        && matches!(
            object.get("kind").and_then(Value::as_str),
            Some("resolve" | "schedule" | "delegate")
        )
        && let Some(input) = object.get_mut("input").and_then(Value::as_object_mut)
    {
        replace(input, "prompt", "".into());
        if let Some(options) = input.get_mut("options").and_then(Value::as_object_mut) {
            replace(options, "name", "".into());
        }
    }
}

fn replace(object: &mut Map<String, Value>, field: &str, with: Value) {
    if let Some(value) = object.get_mut(field) {
        *value = with;
    }
}

/// Replaces the user's ID with the alias everywhere.
pub(super) fn rename(value: &mut Value, user: UserId, alias: UserId) {
    let (from, to) = (user.to_string(), alias.to_string());
    each_text(value, &|text| {
        if text.contains(&from) {
            *text = text.replace(&from, &to);
        }
    });
}

/// Clears every string that equals one of `words`.
pub(super) fn forget(value: &mut Value, words: &[String]) {
    each_text(value, &|text| {
        if words.iter().any(|word| word == text) {
            text.clear();
        }
    });
}

fn each_text(value: &mut Value, change: &impl Fn(&mut String)) {
    match value {
        Value::String(text) => change(text),
        Value::Array(list) => list.iter_mut().for_each(|inner| each_text(inner, change)),
        Value::Object(object) => object
            .values_mut()
            .for_each(|inner| each_text(inner, change)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_frame_loses_the_name_and_keeps_its_subject() {
        let (ada, bo) = (UserId::new().to_string(), UserId::new().to_string());
        let mut value = json!({"type": "thread.updated", "data": {
            "thread": {"created_by": ada, "title": "Ada's plan", "root_message_id": "msg_1", "participants": [
                {"type": "human", "id": ada, "name": "Ada"}, {"type": "human", "id": bo, "name": "Bo"}]},
            "member": {"user_id": ada, "name": "Ada", "email": "ada@example.org", "handle": "ada", "role": "admin"},
            "item": {"owner_id": ada, "owner_name": "Ada", "text": "Bring cake"},
            "task": {"kind": "resolve", "requested_by": ada, "input": {"prompt": "mind the gap"}},
        }});
        frame(&mut value, &ada);
        let text = value.to_string();
        for gone in ["\"Ada\"", "Ada's plan", "ada@", "\"ada\"", "mind the gap"] {
            assert!(!text.contains(gone), "{gone} in {text}");
        }
        for kept in [ada.as_str(), "\"Bo\"", "Bring cake", "\"admin\"", NOBODY] {
            assert!(text.contains(kept), "{kept} in {text}");
        }
    }

    #[test]
    fn ids_are_replaced_and_words_removed() {
        let (ada, alias) = (UserId::new(), UserId::new());
        let mut value = json!({"allowed": [ada, "role:admin"], "by": format!("{ada}"), "name": "Ada", "other": "Adam"});
        rename(&mut value, ada, alias);
        forget(&mut value, &["Ada".to_owned()]);
        let expected =
            json!({"allowed": [alias, "role:admin"], "by": alias, "name": "", "other": "Adam"});
        assert_eq!(value, expected);
    }
}
