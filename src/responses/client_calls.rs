//! Calls as the client sees them: function names as the client wrote them, and IDs that are used once.

use std::collections::{BTreeMap, HashSet};

use rand::seq::IndexedRandom;
use uuid::Uuid;

use super::items::{Item, split_name};
use crate::model::{CallHead, ChatMessage, FunctionTool, ToolChoice};

const NAME_BYTES_MAX: usize = 64;
/// Length from which an ID of a model has a form that its server may require, such as 9 letters and digits.
const FORMED_ID_CHARS_MIN: usize = 9;

/// Translates function names between the client and the model's server, which allows neither dots nor namespaces, and replaces IDs that the model has
/// already used.
#[derive(Debug, Clone, Default)]
pub(super) struct ClientCalls {
    /// Names that differ, from the server's to the client's.
    names: BTreeMap<String, String>,
    /// IDs in the conversation and in the response so far.
    ids: HashSet<String>,
}

impl ClientCalls {
    /// Renames functions whose names contain dots or namespaces. `items` are those of the conversation.
    pub(super) fn new<'i>(
        functions: &mut [FunctionTool],
        items: impl Iterator<Item = &'i Item>,
    ) -> Self {
        let mut names = BTreeMap::new();
        for at in 0..functions.len() {
            let Some(plain) = plain_name(&functions[at].name) else {
                continue;
            };
            let is_free = |name: &String| functions.iter().all(|function| function.name != *name);
            let numbered = (2..).map(|n| {
                let suffix = format!("_{n}");
                let stem = &plain[..plain.len().min(NAME_BYTES_MAX - suffix.len())];
                format!("{stem}{suffix}")
            });
            let whole = Some(plain.clone()).filter(|name| name.len() <= NAME_BYTES_MAX);
            let sent = whole.into_iter().chain(numbered).find(is_free);
            let sent = sent.unwrap_or_else(|| plain.clone());
            let given = std::mem::replace(&mut functions[at].name, sent.clone());
            names.insert(sent, given);
        }
        let ids = items.filter_map(Item::call_id).map(str::to_owned).collect();
        Self { names, ids }
    }

    fn sent(&self, given: &str) -> Option<String> {
        let known = self.names.iter().find(|(_, name)| *name == given);
        match known {
            Some((sent, _)) => Some(sent.clone()),
            None => plain_name(given),
        }
    }

    /// Renames the functions in a conversation and in the tool choice.
    pub(super) fn apply(&self, turns: &mut [ChatMessage], choice: &mut ToolChoice) {
        let calls = turns.iter_mut().flat_map(|turn| &mut turn.calls);
        let chosen = match choice {
            ToolChoice::Function(name) => Some(name),
            _ => None,
        };
        for name in calls.map(|call| &mut call.name).chain(chosen) {
            if let Some(sent) = self.sent(name) {
                *name = sent;
            }
        }
    }

    /// Returns the start of a call with the client's name of the function and an unused ID.
    pub(super) fn hand_out(&mut self, head: CallHead) -> CallHead {
        let name = self.names.get(&head.name).cloned().unwrap_or(head.name);
        let mut id = head.id.clone();
        while !self.ids.insert(id.clone()) {
            id = other_id(&head.id);
        }
        CallHead { id, name }
    }
}

/// Returns the name without dots and namespace; `None` if it has neither.
fn plain_name(name: &str) -> Option<String> {
    let (namespace, own) = split_name(name);
    let plain = match namespace {
        Some(namespace) => format!("{namespace}__{own}"),
        None => own.to_owned(),
    };
    let plain = plain.replace('.', "_");
    (plain != name).then_some(plain)
}

/// Returns another ID of the same form: letters and digits are replaced by random ones of the kinds that the ID contains. Short IDs
/// have no form.
fn other_id(id: &str) -> String {
    type IsKind = fn(&char) -> bool;
    let kinds: [(IsKind, &str); 3] = [
        (char::is_ascii_digit, "0123456789"),
        (char::is_ascii_lowercase, "abcdefghijklmnopqrstuvwxyz"),
        (char::is_ascii_uppercase, "ABCDEFGHIJKLMNOPQRSTUVWXYZ"),
    ];
    let used = kinds
        .iter()
        .filter(|(is_kind, _)| id.chars().any(|c| is_kind(&c)));
    let alphabet: Vec<char> = used.flat_map(|(_, letters)| letters.chars()).collect();
    let replaced = id.chars().filter(char::is_ascii_alphanumeric).count();
    if replaced < FORMED_ID_CHARS_MIN {
        return format!("call_{}", Uuid::now_v7().simple());
    }
    let mut rng = rand::rng();
    let other = |c: char| match alphabet.choose(&mut rng) {
        Some(letter) if c.is_ascii_alphanumeric() => *letter,
        _ => c,
    };
    id.chars().map(other).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Role, ToolCall};

    fn function(name: &str) -> FunctionTool {
        FunctionTool {
            name: name.to_owned(),
            description: None,
            parameters: None,
            strict: None,
        }
    }

    #[test]
    fn names_with_dots_are_translated_without_collisions() {
        let long = format!("a.{}", "b".repeat(62));
        let other = long.replace('.', "_");
        let mut functions = ["a_b", "a.b", "c.d", &long, &other].map(function);
        let mut calls = ClientCalls::new(&mut functions, std::iter::empty());
        let sent: Vec<&str> = functions.iter().map(|f| f.name.as_str()).collect();
        let shortened = format!("a_{}_2", "b".repeat(60));
        assert_eq!(sent, ["a_b", "a_b_2", "c_d", &*shortened, &*other]);
        let begin = |name: &str| {
            let head = CallHead {
                id: "c".to_owned(),
                name: name.to_owned(),
            };
            calls.hand_out(head).name
        };
        assert_eq!(["a_b", "a_b_2", "c_d"].map(begin), ["a_b", "a.b", "c.d"]);
        let mut turn = ChatMessage::new(Role::Assistant, "");
        turn.calls = ["a.b", "gone.b"]
            .map(|name| ToolCall {
                id: "c".to_owned(),
                name: name.to_owned(),
                arguments: String::new(),
            })
            .to_vec();
        let mut choice = ToolChoice::Function("c.d".to_owned());
        let mut turns = [turn];
        calls.apply(&mut turns, &mut choice);
        assert_eq!(turns[0].calls[0].name, "a_b_2");
        assert_eq!(turns[0].calls[1].name, "gone_b");
        assert_eq!(choice, ToolChoice::Function("c_d".to_owned()));
    }

    #[test]
    fn names_with_namespaces_are_translated() {
        let long = format!("{}/{}", "n".repeat(60), "f".repeat(60));
        let mut functions = ["weather__now", "weather/now", "a.b/c", &long].map(function);
        let mut calls = ClientCalls::new(&mut functions, std::iter::empty());
        let sent: Vec<&str> = functions.iter().map(|f| f.name.as_str()).collect();
        let shortened = format!("{}__2", "n".repeat(60));
        let shortened = format!("{}_2", &shortened[..62]);
        assert_eq!(sent[..3], ["weather__now", "weather__now_2", "a_b__c"]);
        assert_eq!(sent[3], shortened);
        for (sent, given) in [("weather__now_2", "weather/now"), (&*shortened, &*long)] {
            let head = CallHead {
                id: sent.to_owned(),
                name: sent.to_owned(),
            };
            assert_eq!(calls.hand_out(head).name, given);
        }
    }

    #[test]
    fn an_id_that_is_already_used_is_replaced_in_its_form() {
        let used = ["list:0", "aB3dE6gH9", "123456789"].map(|id| Item::FunctionCall {
            call_id: id.to_owned(),
            name: "list".to_owned(),
            arguments: String::new(),
        });
        let mut calls = ClientCalls::new(&mut [], used.iter());
        let mut begin = |id: &str| {
            let head = CallHead {
                id: id.to_owned(),
                name: "list".to_owned(),
            };
            calls.hand_out(head).id
        };
        assert_eq!(begin("list:1"), "list:1");
        let again = begin("list:1");
        assert!(again.starts_with("call_") && again != begin("list:1"));
        assert!(begin("list:0").starts_with("call_"));
        let id = begin("aB3dE6gH9");
        assert!(id.len() == 9 && id != "aB3dE6gH9");
        assert!(id.chars().all(|c| c.is_ascii_alphanumeric()));
        let id = begin("123456789");
        assert!(id.len() == 9 && id.bytes().all(|b| b.is_ascii_digit()));
    }
}
