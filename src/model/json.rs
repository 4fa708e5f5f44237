//! Lenient parser for JSON as models write it.

use serde_json::{Map, Value};

/// Maximum number of positions at which the parser tries to read an object.
const TRIES_MAX: usize = 48;
const DEPTH_MAX: usize = 24;

/// Objects in a text.
#[derive(Debug, Clone, PartialEq, Default)]
struct Found {
    objects: Vec<Value>,
    is_cut_off: bool,
}

/// Returns the complete top-level objects in `text`, in order. Objects that `serde_json` rejects are parsed leniently: trailing commas,
/// comments, line breaks and quotes inside strings, and unquoted names are accepted. An object without an end is left out, including
/// the objects inside it, because its last string may be half of what the model wanted to write.
pub fn objects(text: &str) -> Vec<Value> {
    find(text).objects
}

/// Checks whether `text` ends inside an object.
pub(super) fn ends_inside_object(text: &str) -> bool {
    find(text).is_cut_off
}

fn find(text: &str) -> Found {
    let mut found = Found::default();
    let mut at = 0;
    for _ in 0..TRIES_MAX {
        let Some(next) = text[at..].find('{') else {
            break;
        };
        at += next;
        let rest = &text[at..];
        let mut strict = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
        if let Some(Ok(value)) = strict.next() {
            found.objects.push(value);
            at += strict.byte_offset();
            continue;
        }
        let mut reader = Reader { text: rest, at: 0 };
        match reader.value(0) {
            Ok(value) => {
                found.objects.push(value);
                at += reader.at;
            }
            Err(Fault::Invalid) => at += 1,
            Err(Fault::CutOff) => {
                found.is_cut_off = true;
                break;
            }
        }
    }
    found
}

/// Reason why a position in a text does not begin an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Invalid,
    /// The text ends inside the object.
    CutOff,
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        Some(c)
    }

    /// Skips white space and comments.
    fn skip(&mut self) {
        loop {
            let rest = &self.text[self.at..];
            let trimmed = rest.trim_start();
            self.at += rest.len() - trimmed.len();
            let length = if trimmed.starts_with("//") {
                trimmed.find('\n').unwrap_or(trimmed.len())
            } else if trimmed.starts_with("/*") {
                trimmed.find("*/").map_or(trimmed.len(), |end| end + 2)
            } else {
                return;
            };
            self.at += length;
        }
    }

    fn skip_commas(&mut self) {
        self.skip();
        while matches!(self.peek(), Some(',' | ';')) {
            self.at += 1;
            self.skip();
        }
    }

    fn value(&mut self, depth: usize) -> Result<Value, Fault> {
        self.skip();
        match self.peek().ok_or(Fault::CutOff)? {
            '{' | '[' if depth >= DEPTH_MAX => Err(Fault::Invalid),
            '{' => self.object(depth),
            '[' => self.array(depth),
            quote if closing(quote).is_some() => self.string().map(Value::String),
            _ => self.bare(),
        }
    }

    fn object(&mut self, depth: usize) -> Result<Value, Fault> {
        self.next();
        let mut fields = Map::new();
        loop {
            self.skip_commas();
            let key = match self.peek().ok_or(Fault::CutOff)? {
                '}' => {
                    self.at += 1;
                    return Ok(Value::Object(fields));
                }
                quote if closing(quote).is_some() => self.string()?,
                _ => self.name()?,
            };
            self.skip();
            match self.peek().ok_or(Fault::CutOff)? {
                ':' | '=' => self.at += 1,
                _ => return Err(Fault::Invalid),
            }
            let value = self.value(depth + 1)?;
            fields.insert(key, value);
        }
    }

    fn array(&mut self, depth: usize) -> Result<Value, Fault> {
        self.next();
        let mut values = Vec::new();
        loop {
            self.skip_commas();
            match self.peek().ok_or(Fault::CutOff)? {
                '}' => return Ok(Value::Array(values)),
                ']' => {
                    self.at += 1;
                    return Ok(Value::Array(values));
                }
                _ => values.push(self.value(depth + 1)?),
            }
        }
    }

    /// A quote ends a string only if the following characters can follow a string.
    fn string(&mut self) -> Result<String, Fault> {
        let end = self.next().and_then(closing).unwrap_or('"');
        let mut text = String::new();
        while let Some(c) = self.next() {
            if c == end && self.is_end_of_string() {
                return Ok(text);
            }
            if c == '\\' {
                self.escape(&mut text);
            } else {
                text.push(c);
            }
        }
        Err(Fault::CutOff)
    }

    fn is_end_of_string(&self) -> bool {
        let rest = self.text[self.at..].trim_start();
        rest.is_empty() || rest.starts_with([',', ':', '}', ']', ';', '/', '='])
    }

    fn escape(&mut self, text: &mut String) {
        match self.next() {
            Some('n' | 'r') => text.push('\n'),
            Some('t') => text.push('\t'),
            Some('b' | 'f') => text.push(' '),
            Some('u') => text.push(self.unicode()),
            Some(c) => text.push(c),
            None => {}
        }
    }

    /// Parses `\uXXXX`, including surrogate pairs; invalid code points become a replacement character.
    fn unicode(&mut self) -> char {
        let Some(first) = self.four_digits() else {
            return char::REPLACEMENT_CHARACTER;
        };
        if !(0xd800..0xdc00).contains(&first) {
            return char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER);
        }
        let before = self.at;
        if self.text[self.at..].starts_with("\\u") {
            self.at += 2;
            if let Some(second) = self.four_digits().filter(|n| (0xdc00..0xe000).contains(n)) {
                let joined = 0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00);
                return char::from_u32(joined).unwrap_or(char::REPLACEMENT_CHARACTER);
            }
            self.at = before;
        }
        char::REPLACEMENT_CHARACTER
    }

    fn four_digits(&mut self) -> Option<u32> {
        let digits = self.text.get(self.at..self.at + 4)?;
        let number = u32::from_str_radix(digits, 16).ok()?;
        self.at += 4;
        Some(number)
    }

    fn name(&mut self) -> Result<String, Fault> {
        let rest = &self.text[self.at..];
        let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '+');
        let length = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        self.at += length;
        if length > 0 {
            Ok(rest[..length].to_owned())
        } else {
            Err(Fault::Invalid)
        }
    }

    fn bare(&mut self) -> Result<Value, Fault> {
        let name = self.name()?;
        Ok(match name.as_str() {
            "null" | "None" | "undefined" | "nil" => Value::Null,
            "true" | "True" => Value::Bool(true),
            "false" | "False" => Value::Bool(false),
            other => serde_json::from_str(other).unwrap_or(Value::String(name)),
        })
    }
}

fn closing(quote: char) -> Option<char> {
    match quote {
        '"' | '\'' => Some(quote),
        '“' | '”' => Some('”'),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_are_found_in_surrounding_text() {
        assert_eq!(
            objects("Here: {\"a\": 1} and {\"b\": 2}."),
            [json!({"a": 1}), json!({"b": 2})]
        );
        assert_eq!(
            objects("{not this} {\"a\": {\"b\": 1}}"),
            [json!({"a": {"b": 1}})]
        );
        assert!(objects("no object } here {").is_empty());
        assert!(objects("").is_empty());
    }

    #[test]
    fn common_json_mistakes_of_models_are_repaired() {
        for (text, wanted) in [
            ("{\"a\": [1, 2,], }", json!({"a": [1, 2]})),
            ("{'a': 'it''s'}", json!({"a": "it''s"})),
            ("{a: None, b: True}", json!({"a": null, "b": true})),
            ("{\"a\": \"two\nlines\"}", json!({"a": "two\nlines"})),
            (
                "{\"a\": \"he said \"yes\" to it\",}",
                json!({"a": "he said \"yes\" to it"}),
            ),
            (
                "{\"a\": 1 // why\n, /* b */ \"c\": 2}",
                json!({"a": 1, "c": 2}),
            ),
            ("{\"a\": [\"x\"}", json!({"a": ["x"]})),
            ("{“a”: “b”}", json!({"a": "b"})),
            (
                "{\"a\": \"\\u00e9\\ud83d\\udc4d\\q\",}",
                json!({"a": "é👍q"}),
            ),
            ("{\"a\": \"\\ud83d\",}", json!({"a": "\u{fffd}"})),
            ("{\"a\": m3}", json!({"a": "m3"})),
        ] {
            assert_eq!(objects(text), [wanted], "{text}");
        }
    }

    #[test]
    fn an_object_without_an_end_is_left_out_with_all_that_is_inside() {
        let whole = r#"{"gist": "A launch.", "items": [{"text": "Ship", "sources": ["m1"]}, {"text": "he said \"yes\""}], "n": 12}"#;
        assert!(!ends_inside_object(whole));
        assert_eq!(objects(whole).len(), 1);
        for end in (1..whole.len()).filter(|end| whole.is_char_boundary(*end)) {
            let cut = &whole[..end];
            assert!(objects(cut).is_empty(), "{cut}");
            assert!(ends_inside_object(cut), "{cut}");
            assert!(
                ends_inside_object(&format!("Sure:\n```json\n{cut}")),
                "{cut}"
            );
        }
        let second = "{\"a\": 1} and {\"b\": \"hal";
        assert_eq!(objects(second), [json!({"a": 1})]);
        assert!(ends_inside_object(second));
        for whole in [
            "",
            "They talk.",
            "Use {curly braces}.",
            "{'a': 1,}",
            "{\"a\": [1}",
        ] {
            assert!(!ends_inside_object(whole), "{whole}");
        }
    }

    #[test]
    fn deep_nesting_and_long_input_are_safe() {
        for text in [
            "{\"a\":".repeat(10_000),
            "[".repeat(10_000),
            "{\"a\":[".repeat(50_000),
            "{".repeat(250_000),
        ] {
            objects(&text);
        }
    }
}
