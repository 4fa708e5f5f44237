//! Arguments of a call: from the query, a form, or JSON. Nested values can be JSON text.

use serde_json::{Map, Value};

use super::fault::SlackFault;

const ARGS_MAX: usize = 200;

#[derive(Debug, Clone, Default)]
pub struct Args(Map<String, Value>);

impl Args {
    pub fn of_query(query: &str) -> Self {
        Self(pairs(query.as_bytes()))
    }

    /// Adds the arguments of a body.
    ///
    /// # Errors
    /// `InvalidJson`, `InvalidArguments` for another media type.
    pub fn add_body(&mut self, content_type: &str, bytes: &[u8]) -> Result<(), SlackFault> {
        if bytes.iter().all(u8::is_ascii_whitespace) {
            return Ok(());
        }
        if bytes.contains(&0) {
            return Err(SlackFault::InvalidArguments);
        }
        let kind = content_type.split(';').next().unwrap_or_default().trim();
        match kind.to_ascii_lowercase().as_str() {
            "application/json" => match serde_json::from_slice(bytes) {
                Ok(Value::Object(members)) if members.len() <= ARGS_MAX => self.0.extend(members),
                _ => return Err(SlackFault::InvalidJson),
            },
            "application/x-www-form-urlencoded" | "" => self.0.extend(pairs(bytes)),
            _ => return Err(SlackFault::InvalidArguments),
        }
        Ok(())
    }

    /// A scalar as text; `None` if it is absent, null, or empty.
    pub fn text(&self, name: &str) -> Option<String> {
        let text = match self.0.get(name)? {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            Value::Bool(flag) => flag.to_string(),
            _ => return None,
        };
        Some(text).filter(|text| !text.is_empty() && !text.contains('\0'))
    }

    /// # Errors
    /// `fault` if the argument is absent.
    pub fn required(&self, name: &str, fault: SlackFault) -> Result<String, SlackFault> {
        self.text(name).ok_or(fault)
    }

    /// An array or object, also as JSON text.
    ///
    /// # Errors
    /// `InvalidBlocks` for a text that is not JSON.
    pub fn nested(&self, name: &str) -> Result<Option<Value>, SlackFault> {
        match self.0.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) if text.trim().is_empty() => Ok(None),
            Some(Value::String(text)) => {
                let parsed = serde_json::from_str(text);
                parsed.map(Some).map_err(|_| SlackFault::InvalidBlocks)
            }
            Some(value) => Ok(Some(value.clone())),
        }
    }

    /// Replaces a scalar; `None` removes it.
    pub fn set_text(&mut self, name: &str, text: Option<String>) {
        self.0.remove(name);
        if let Some(text) = text {
            self.0.insert(name.to_owned(), Value::String(text));
        }
    }

    /// An argument as it was sent.
    pub fn raw(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    pub fn is_set(&self, name: &str) -> bool {
        matches!(self.text(name).as_deref(), Some("true" | "1"))
    }

    /// The argument `limit`, from 1 to `max`. Slack's clients send 0 for the default.
    ///
    /// # Errors
    /// `InvalidArguments`.
    pub fn limit(&self, default: i64, max: i64) -> Result<i64, SlackFault> {
        match self.text("limit").as_deref() {
            None | Some("0") => Ok(default),
            Some(text) => {
                let limit = text.parse::<i64>().ok().filter(|limit| *limit > 0);
                limit
                    .map(|limit| limit.min(max))
                    .ok_or(SlackFault::InvalidArguments)
            }
        }
    }
}

fn pairs(bytes: &[u8]) -> Map<String, Value> {
    form_urlencoded::parse(bytes)
        .take(ARGS_MAX)
        .map(|(name, value)| (name.into_owned(), Value::String(value.into_owned())))
        .collect()
}
