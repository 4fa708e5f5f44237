//! Calls as the client sees them: function names as the client wrote them.

use std::collections::BTreeMap;

use crate::model::{CallHead, ChatMessage, FunctionTool, ToolChoice};

const NAME_BYTES_MAX: usize = 64;

/// Translates function names between the client and the model's server, which allows no dots.
#[derive(Debug, Clone, Default)]
pub(super) struct ClientCalls {
    /// Names that differ, from the server's to the client's.
    names: BTreeMap<String, String>,
}

impl ClientCalls {
    /// Renames functions whose names contain dots.
    pub(super) fn rename(functions: &mut [FunctionTool]) -> Self {
        let mut names = BTreeMap::new();
        for at in 0..functions.len() {
            if !functions[at].name.contains('.') {
                continue;
            }
            let plain = functions[at].name.replace('.', "_");
            let is_free = |name: &String| functions.iter().all(|function| function.name != *name);
            let numbered = (2..).map(|n| {
                let suffix = format!("_{n}");
                let stem = &plain[..plain.len().min(NAME_BYTES_MAX - suffix.len())];
                format!("{stem}{suffix}")
            });
            let sent = std::iter::once(plain.clone()).chain(numbered).find(is_free);
            let sent = sent.unwrap_or(plain.clone());
            let given = std::mem::replace(&mut functions[at].name, sent.clone());
            names.insert(sent, given);
        }
        Self { names }
    }

    fn sent(&self, given: &str) -> Option<String> {
        let known = self.names.iter().find(|(_, name)| *name == given);
        match known {
            Some((sent, _)) => Some(sent.clone()),
            None => given.contains('.').then(|| given.replace('.', "_")),
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

    /// Returns the start of a call with the client's name of the function.
    pub(super) fn hand_out(&self, head: CallHead) -> CallHead {
        let name = self.names.get(&head.name).cloned().unwrap_or(head.name);
        CallHead { name, ..head }
    }
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
        let calls = ClientCalls::rename(&mut functions);
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
}
