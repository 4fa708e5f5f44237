//! Finds tool calls that a server leaves in the text, because it does not parse the output format of its model:
//! `<tool_call>{"name": …, "arguments": …}</tool_call>` at the end of the text.

use serde_json::{Value, json};

const OPENING: &str = "<tool_call>";
const CLOSING: &str = "</tool_call>";

/// Holds back the end of a text that could be calls of offered functions.
#[derive(Default)]
pub(super) struct TextCalls {
    /// Names of the functions of the request.
    offered: Vec<String>,
    /// Text that can be, or can begin, a call.
    held: String,
}

impl TextCalls {
    pub(super) fn new(offered: Vec<String>) -> Self {
        Self {
            offered,
            held: String::new(),
        }
    }

    /// Removes the text that was held back.
    pub(super) fn discard(&mut self) {
        self.held.clear();
    }

    /// Returns the text that cannot belong to a call.
    pub(super) fn push(&mut self, text: &str) -> String {
        if self.offered.is_empty() {
            return text.to_owned();
        }
        self.held.push_str(text);
        let begin = self.held.find(OPENING).unwrap_or_else(|| {
            // The end of the text can be the start of the tag.
            let partial = (1..OPENING.len())
                .rev()
                .find(|n| self.held.ends_with(&OPENING[..*n]));
            self.held.len() - partial.unwrap_or(0)
        });
        self.held.drain(..begin).collect()
    }

    /// Returns the calls in an error about an answer that the server could not parse.
    pub(super) fn failed(&self, error: &Value) -> Option<Vec<Value>> {
        let text = error["failed_generation"].as_str()?;
        calls_in_failed(text, &self.offered).filter(|calls| !calls.is_empty())
    }

    /// Returns the calls at the end of the text, as entries of `tool_calls`, or the text if there are none.
    pub(super) fn finish(&mut self) -> Result<Vec<Value>, String> {
        let held = std::mem::take(&mut self.held);
        match calls_in(&held, &self.offered) {
            Some(calls) if !calls.is_empty() => Ok(calls),
            _ => Err(held),
        }
    }
}

/// Parses a text that consists of calls of `offered` functions; `None` if it contains anything else.
fn calls_in(text: &str, offered: &[String]) -> Option<Vec<Value>> {
    let mut calls = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let (body, after) = rest.strip_prefix(OPENING)?.split_once(CLOSING)?;
        calls.push(call_of(&serde_json::from_str(body.trim()).ok()?, offered)?);
        rest = after.trim_start();
    }
    Some(calls)
}

/// Parses the text of an answer that a server could not parse: the format above, JSON, or `<function=NAME>{…}</function>`.
fn calls_in_failed(text: &str, offered: &[String]) -> Option<Vec<Value>> {
    let text = text.trim();
    if let Ok(value) = serde_json::from_str::<Value>(text) {
        let all = match value {
            Value::Array(all) => all,
            one => vec![one],
        };
        return all.iter().map(|call| call_of(call, offered)).collect();
    }
    let mut calls = Vec::new();
    let mut rest = text;
    while let Some(tagged) = rest.strip_prefix("<function=") {
        let (body, after) = tagged.split_once("</function>")?;
        let at = body.find(['>', '{'])?;
        let arguments = body[at..].trim_start_matches('>').trim();
        let arguments: Value = serde_json::from_str(arguments).ok()?;
        let call = json!({"name": body[..at].trim(), "arguments": arguments});
        calls.push(call_of(&call, offered)?);
        rest = after.trim_start();
    }
    if rest.is_empty() {
        return Some(calls);
    }
    calls_in(text, offered)
}

fn call_of(call: &Value, offered: &[String]) -> Option<Value> {
    let call = call
        .get("function")
        .filter(|f| f.is_object())
        .unwrap_or(call);
    let name = call["name"].as_str()?;
    let arguments = call.get("arguments").or(call.get("parameters"))?;
    let is_offered = offered.iter().any(|offered| offered == name);
    is_offered.then(|| json!({"function": {"name": name, "arguments": arguments}}))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offered() -> Vec<String> {
        vec!["add".to_owned()]
    }

    /// Text that was passed on, and the number of calls.
    fn read(text: &str, size: usize) -> (String, usize) {
        let mut calls = TextCalls::new(offered());
        let chars: Vec<char> = text.chars().collect();
        let pieces = chars
            .chunks(size)
            .map(|piece| piece.iter().collect::<String>());
        let mut shown: String = pieces.map(|piece| calls.push(&piece)).collect();
        match calls.finish() {
            Ok(found) => (shown, found.len()),
            Err(rest) => {
                shown.push_str(&rest);
                (shown, 0)
            }
        }
    }

    #[test]
    fn calls_at_the_end_of_a_text_are_found_and_everything_else_is_text() {
        let call = "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"x\": 1}}\n</tool_call>";
        for size in [1, 3, 1_000] {
            let one = format!("Adding.\n{call}");
            assert_eq!(read(&one, size), ("Adding.\n".to_owned(), 1));
            assert_eq!(read(&format!("{call}\n{call}\n"), size), (String::new(), 2));
            for text in [
                format!("{call} is a call."),
                call.replace("add", "sub"),
                "<tool_call>{".to_owned(),
                "a <tool".to_owned(),
            ] {
                assert_eq!(read(&text, size), (text.clone(), 0));
            }
        }
    }

    #[test]
    fn an_answer_that_the_server_could_not_parse_is_read() {
        for (text, calls) in [
            (r#"{"name": "add", "arguments": {"x": 1}}"#, Some(1)),
            (
                r#"[{"name": "add", "parameters": {}}, {"name": "add", "arguments": "{}"}]"#,
                Some(2),
            ),
            (r#"<function=add>{"x": 1}</function>"#, Some(1)),
            (r#"<function=add{"x": 1}</function>"#, Some(1)),
            (r#"<function=sub>{"x": 1}</function>"#, None),
            ("I would add.", None),
        ] {
            let found = calls_in_failed(text, &offered());
            assert_eq!(found.map(|calls| calls.len()), calls, "{text}");
        }
    }
}
