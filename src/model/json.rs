//! Lenient parser for JSON as models write it.

use serde_json::{Map, Value};

/// Maximum number of positions at which the parser tries to read an object.
const TRIES_MAX: usize = 48;
const DEPTH_MAX: usize = 24;

/// Returns the top-level objects in `text`, in order. Objects that `serde_json` rejects are parsed leniently: trailing commas,
/// comments, line breaks and quotes inside strings, unquoted names, and a missing end are accepted.
pub fn objects(text: &str) -> Vec<Value> {
    let mut found = Vec::new();
    let mut at = 0;
    for _ in 0..TRIES_MAX {
        let Some(next) = text[at..].find('{') else {
            break;
        };
        at += next;
        let rest = &text[at..];
        let mut strict = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
        let read = match strict.next() {
            Some(Ok(value)) => Some((value, strict.byte_offset())),
            _ => Reader { text: rest, at: 0 }.whole(),
        };
        if let Some((value, length)) = read {
            found.push(value);
            at += length;
        } else {
            at += 1;
        }
    }
    found
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn whole(mut self) -> Option<(Value, usize)> {
        let value = self.value(0)?;
        Some((value, self.at))
    }

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

    fn value(&mut self, depth: usize) -> Option<Value> {
        self.skip();
        match self.peek() {
            // The text ends where a value is expected.
            None => Some(Value::Null),
            Some('{' | '[') if depth >= DEPTH_MAX => None,
            Some('{') => self.object(depth),
            Some('[') => self.array(depth),
            Some(quote) if closing(quote).is_some() => Some(Value::String(self.string())),
            Some(_) => self.bare(),
        }
    }

    fn object(&mut self, depth: usize) -> Option<Value> {
        self.next();
        let mut fields = Map::new();
        loop {
            self.skip_commas();
            match self.peek() {
                None => break,
                Some('}') => {
                    self.at += 1;
                    break;
                }
                Some(_) => {}
            }
            let key = match self.peek() {
                Some(quote) if closing(quote).is_some() => self.string(),
                _ => self.name()?,
            };
            self.skip();
            match self.peek() {
                None => break,
                Some(':' | '=') => self.at += 1,
                Some(_) => return None,
            }
            let value = self.value(depth + 1)?;
            fields.insert(key, value);
        }
        Some(Value::Object(fields))
    }

    fn array(&mut self, depth: usize) -> Option<Value> {
        self.next();
        let mut values = Vec::new();
        loop {
            self.skip_commas();
            match self.peek() {
                None | Some('}') => break,
                Some(']') => {
                    self.at += 1;
                    break;
                }
                Some(_) => values.push(self.value(depth + 1)?),
            }
        }
        Some(Value::Array(values))
    }

    /// A quote ends a string only if the following characters can follow a string.
    fn string(&mut self) -> String {
        let end = self.next().and_then(closing).unwrap_or('"');
        let mut text = String::new();
        while let Some(c) = self.next() {
            if c == end && self.is_end_of_string() {
                break;
            }
            if c == '\\' {
                self.escape(&mut text);
            } else {
                text.push(c);
            }
        }
        text
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

    fn name(&mut self) -> Option<String> {
        let rest = &self.text[self.at..];
        let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '+');
        let length = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        self.at += length;
        (length > 0).then(|| rest[..length].to_owned())
    }

    fn bare(&mut self) -> Option<Value> {
        let name = self.name()?;
        Some(match name.as_str() {
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
        assert!(objects("no object } here {").len() <= 1);
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
            ("{\"a\": [\"x\", \"y", json!({"a": ["x", "y"]})),
            ("{\"a\": {\"b\": \"cut", json!({"a": {"b": "cut"}})),
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
