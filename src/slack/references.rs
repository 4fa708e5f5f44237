//! Names for references to people and channels in a message that a program sends.

use std::collections::HashMap;

use serde_json::Value;

use super::{ids, rows};
use crate::{
    auth::{Actor, Caller},
    db::{Conn, DbError},
};

/// Maximum number of references of a message that are looked up.
const REFERENCES_MAX: usize = 100;
/// Members of a message whose texts can contain references.
const DEPTH_MAX: usize = 16;

/// Writes `<@U…>` as `<@U…|handle>`, and `<#C…>` as `<#C…|name>`, in all texts of a value. Unknown and hidden ones stay as they are.
///
/// # Errors
/// Only database errors.
pub async fn name_references(
    c: &mut Conn,
    caller: &Caller,
    actor: &Actor<'_>,
    value: &mut Value,
) -> Result<(), DbError> {
    let mut found = Vec::new();
    walk(value, 0, &mut |text| collect(text, &mut found));
    let mut names: HashMap<String, String> = HashMap::new();
    for reference in found {
        if names.contains_key(&reference) {
            continue;
        }
        let name = match reference.split_at_checked(1) {
            Some(("@", id)) => match ids::parse_user(id) {
                Some(id) => rows::handle_of(c, actor.workspace, id).await?,
                None => None,
            },
            Some(("#", id)) => match ids::parse_channel(id) {
                // Finds only channels that the caller can see.
                Some(id) => {
                    let row = rows::find_conversation(c, caller, id).await?;
                    row.and_then(|row| row.name)
                }
                None => None,
            },
            _ => None,
        };
        if let Some(name) = name {
            names.insert(reference, name);
        }
    }
    walk(value, 0, &mut |text| named(text, &names));
    Ok(())
}

fn walk(value: &mut Value, depth: usize, visit: &mut impl FnMut(&mut String)) {
    if depth > DEPTH_MAX {
        return;
    }
    match value {
        Value::String(text) => visit(text),
        Value::Array(items) => {
            for item in items {
                walk(item, depth + 1, visit);
            }
        }
        Value::Object(members) => {
            for (_, member) in members.iter_mut() {
                walk(member, depth + 1, visit);
            }
        }
        _ => {}
    }
}

/// The texts between `<` and `>` that are references without a name, and the text up to each.
fn bare(text: &str) -> impl Iterator<Item = &str> {
    text.split('<').skip(1).filter_map(|piece| {
        let (inside, _) = piece.split_once('>')?;
        let is_bare = inside.starts_with(['@', '#']) && inside.len() <= 40 && !inside.contains('|');
        is_bare.then_some(inside)
    })
}

fn collect(text: &str, found: &mut Vec<String>) {
    for inside in bare(text) {
        if found.len() < REFERENCES_MAX {
            found.push(inside.to_owned());
        }
    }
}

fn named(text: &mut String, names: &HashMap<String, String>) {
    if names.is_empty() || !text.contains('<') {
        return;
    }
    let mut out = String::with_capacity(text.len() + 32);
    for (n, piece) in text.split('<').enumerate() {
        if n > 0 {
            out.push('<');
        }
        match piece.split_once('>') {
            Some((inside, rest)) if n > 0 && names.contains_key(inside) => {
                out.push_str(inside);
                out.push('|');
                out.push_str(&names[inside]);
                out.push('>');
                out.push_str(rest);
            }
            _ => out.push_str(piece),
        }
    }
    *text = out;
}
