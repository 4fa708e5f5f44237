//! Parts of a request that are ignored because they do not change the meaning of the answer.
//!
//! `Fields` is a view of an object that remembers which of its fields were read. Fields that were not read are ignored.

use std::cell::{Cell, RefCell};

use serde_json::{Map, Value};

type Object = Map<String, Value>;

/// Maximum length of the header in characters.
const HEADER_CHARS_MAX: usize = 2_000;
const SEPARATOR: &str = ", ";
/// Fields of this server's own output, which clients send back with a conversation.
const OUTPUT_FIELDS: [&str; 4] = ["id", "status", "annotations", "logprobs"];

/// Paths of ignored fields in the client's spelling, such as `messages[4].content[1]`.
#[derive(Debug, Default)]
pub(super) struct Ignored(RefCell<Vec<String>>);

impl Ignored {
    pub(super) fn add(&self, path: impl Into<String>) {
        self.0.borrow_mut().push(path.into());
    }

    /// Adds the top-level fields of a request that this server does not have.
    pub(super) fn add_unknown<'v>(
        &self,
        fields: impl IntoIterator<Item = (&'v String, &'v Value)>,
    ) {
        for (field, value) in fields {
            if !is_default(field, value) {
                self.add(field);
            }
        }
    }

    /// Returns a view of an object. The path is empty for the request itself.
    pub(super) fn fields<'a>(&'a self, object: &'a Object, path: impl Into<String>) -> Fields<'a> {
        Fields {
            object,
            path: path.into(),
            read: RefCell::default(),
            is_whole: Cell::new(false),
            ignored: self,
        }
    }

    /// Returns a view of a field that should be an object. Any other value is ignored as a whole.
    pub(super) fn optional<'a>(
        &'a self,
        value: Option<&'a Value>,
        path: &str,
    ) -> Option<Fields<'a>> {
        let value = value.filter(|value| !value.is_null())?;
        if let Value::Object(object) = value {
            return Some(self.fields(object, path));
        }
        self.add(path);
        None
    }

    pub(super) fn into_paths(self) -> Vec<String> {
        self.0.into_inner()
    }
}

/// An object of a request.
#[derive(Debug)]
pub(super) struct Fields<'a> {
    pub object: &'a Object,
    pub path: String,
    read: RefCell<Vec<&'a str>>,
    is_whole: Cell<bool>,
    pub ignored: &'a Ignored,
}

impl<'a> Fields<'a> {
    /// Reads a field. Returns `None` if it is absent or null.
    pub(super) fn get(&self, field: &str) -> Option<&'a Value> {
        let (name, value) = self.object.get_key_value(field)?;
        self.read.borrow_mut().push(name);
        Some(value).filter(|value| !value.is_null())
    }

    pub(super) fn text(&self, field: &str) -> Option<&'a str> {
        self.get(field).and_then(Value::as_str)
    }

    pub(super) fn path_of(&self, field: &str) -> String {
        if self.path.is_empty() {
            field.to_owned()
        } else {
            format!("{}.{field}", self.path)
        }
    }

    /// Marks all fields as read.
    pub(super) fn read_all(&self) {
        let names = self.object.keys().map(String::as_str);
        self.read.borrow_mut().extend(names);
    }

    /// Ignores the object as a whole, instead of its fields.
    pub(super) fn ignore(&self) {
        self.is_whole.set(true);
    }
}

impl Drop for Fields<'_> {
    fn drop(&mut self) {
        if self.is_whole.get() {
            self.ignored.add(&self.path);
            return;
        }
        let read = self.read.borrow();
        for (field, value) in self.object {
            let is_known =
                read.contains(&field.as_str()) || OUTPUT_FIELDS.contains(&field.as_str());
            if !is_known && !is_default(field, value) {
                self.ignored.add(self.path_of(field));
            }
        }
    }
}

/// Checks whether the value of a field without effect is equivalent to an absent field.
fn is_default(field: &str, value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => return true,
        Value::String(text) if text.is_empty() => return true,
        Value::Array(list) if list.is_empty() => return true,
        Value::Number(number) if number.as_f64() == Some(0.0) => return true,
        _ => {}
    }
    match field {
        "n" => value.as_u64() == Some(1),
        "logit_bias" => value.as_object().is_some_and(Map::is_empty),
        "function_call" => matches!(value.as_str(), Some("none" | "auto")),
        "modalities" => is_text_only(value),
        "service_tier" => matches!(value.as_str(), Some("auto" | "default")),
        "verbosity" => value == "medium",
        _ => false,
    }
}

fn is_text_only(modalities: &Value) -> bool {
    let mut kinds = modalities.as_array().into_iter().flatten();
    modalities.is_array() && kinds.all(|kind| kind == "text")
}

/// Checks whether ignoring a top-level field that this server does not support would make the answer wrong.
pub(super) fn changes_answer(field: &str, value: &Value) -> bool {
    let is_meaningful = matches!(
        field,
        "n" | "logprobs"
            | "top_logprobs"
            | "logit_bias"
            | "functions"
            | "function_call"
            | "modalities"
            | "audio"
            | "background"
            | "conversation"
            | "prompt"
    );
    is_meaningful && !is_default(field, value)
}

/// Returns the value of the header `OpenVibe-Ignored`, or `None` if nothing was ignored. Paths that do not fit are left out.
pub(super) fn header_of(paths: &[String]) -> Option<String> {
    let mut header = String::new();
    for path in paths {
        // Names are chosen by the client, and headers are ASCII.
        let shown = path.chars().map(|c| {
            if c == ' ' || c.is_ascii_graphic() {
                c
            } else {
                '?'
            }
        });
        let shown: String = shown.take(HEADER_CHARS_MAX).collect();
        let separator = if header.is_empty() { "" } else { SEPARATOR };
        if header.len() + separator.len() + shown.len() <= HEADER_CHARS_MAX {
            header.push_str(separator);
            header.push_str(&shown);
        }
    }
    (!header.is_empty()).then_some(header)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_that_were_not_read_are_ignored_unless_they_have_no_effect() {
        let ignored = Ignored::default();
        let value = json!({"a": 1, "b": {"c": 1}, "d": null, "e": false, "f": [], "g": 0, "id": "x", "verbosity": "medium"});
        {
            let fields = ignored.fields(value.as_object().unwrap(), "input[2]");
            assert_eq!(fields.get("a"), Some(&json!(1)));
            assert_eq!(fields.get("d"), None);
            let inner = ignored.optional(Some(&value["b"]), "input[2].b").unwrap();
            inner.ignore();
        }
        assert!(ignored.optional(Some(&json!("x")), "text").is_none());
        assert!(ignored.optional(Some(&Value::Null), "reasoning").is_none());
        assert_eq!(ignored.into_paths(), ["input[2].b", "input[2].b", "text"]);
    }

    #[test]
    fn the_header_has_whole_paths_in_ascii() {
        assert_eq!(header_of(&[]), None);
        let paths = ["top_k".to_owned(), "größe\r\n".to_owned()];
        assert_eq!(header_of(&paths).unwrap(), "top_k, gr??e??");
        let many: Vec<String> = (0..1_000).map(|n| format!("messages[{n}].name")).collect();
        let header = header_of(&many).unwrap();
        assert!(header.len() <= HEADER_CHARS_MAX);
        assert_eq!(header.rsplit('.').next(), Some("name"));
        assert_eq!(
            header_of(&["x".repeat(3_000)]).unwrap().len(),
            HEADER_CHARS_MAX
        );
    }
}
