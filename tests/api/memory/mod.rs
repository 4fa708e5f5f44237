//! Memory: entries, their use in replies, and forgetting.

mod access;
mod automatic;
mod entries;
mod files;
mod forgetting;
mod limits;
mod recall;
mod settings;
mod user_file;

use serde_json::{Value, json};

use crate::support::{Person, id};

/// Remembers a text as a fact, with these fields changed; returns the entry.
async fn remember(who: &Person, text: &str, fields: Value) -> Value {
    let mut form = json!({"text": text, "kind": "fact"});
    let Value::Object(fields) = fields else {
        panic!("{fields} is no object");
    };
    form.as_object_mut().unwrap().extend(fields);
    who.post("/v1/memories", form).await.ok()
}

fn path(entry: &Value) -> String {
    format!("/v1/memories/{}", id(entry))
}

/// Status and error code of a new entry that is rejected.
async fn refused(who: &Person, fields: Value) -> String {
    let mut form = json!({"text": "The harbor opens at nine", "kind": "fact"});
    form.as_object_mut()
        .unwrap()
        .extend(fields.as_object().unwrap().clone());
    let reply = who.post("/v1/memories", form).await;
    let status = reply.status;
    format!("{status} {}", reply.refused(status))
}
