//! Arguments of the server's own functions.

use std::ops::RangeInclusive;

use chrono::NaiveDate;
use serde_json::{Map, Value};

use crate::{
    time::Timestamp,
    tool_fault::{ToolErrorCode, ToolFault},
};

/// Arguments of a call, with checked names.
pub struct Arguments<'a>(&'a Map<String, Value>);

/// Limits of a list of sentences.
#[derive(Debug, Clone, Copy)]
pub struct ListLimits {
    pub entries_max: usize,
    /// Maximum length of an entry in characters.
    pub chars_max: usize,
}

fn bad(text: String) -> ToolFault {
    ToolFault::new(ToolErrorCode::BadArguments, text)
}

/// Checks whether a value contains a NUL character, which `PostgreSQL` does not accept in texts.
fn holds_nul(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains('\0'),
        Value::Array(all) => all.iter().any(holds_nul),
        Value::Object(all) => all
            .iter()
            .any(|(name, value)| name.contains('\0') || holds_nul(value)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

impl<'a> Arguments<'a> {
    /// # Errors
    /// `bad_arguments` for a name that is not in `names`, and for a value with a NUL character.
    pub fn of(arguments: &'a Map<String, Value>, names: &[&str]) -> Result<Self, ToolFault> {
        if let Some((name, _)) = arguments.iter().find(|(_, value)| holds_nul(value)) {
            let name = name.replace('\0', "");
            return Err(bad(format!("`{name}` contains a NUL character")));
        }
        match arguments
            .keys()
            .find(|name| !names.contains(&name.as_str()))
        {
            Some(name) => Err(bad(format!(
                "`{name}` is unknown: use {}",
                names.join(", ")
            ))),
            None => Ok(Self(arguments)),
        }
    }

    fn get(&self, name: &str) -> Option<&'a Value> {
        // Some models send null or "" for arguments that they omit.
        self.0
            .get(name)
            .filter(|value| !value.is_null() && value.as_str() != Some(""))
    }

    pub fn text(&self, name: &str) -> Result<Option<&'a str>, ToolFault> {
        self.get(name)
            .map(|value| {
                let text = value.as_str().map(str::trim);
                text.ok_or_else(|| bad(format!("`{name}` is not a string")))
            })
            .transpose()
    }

    pub fn required(&self, name: &str) -> Result<&'a str, ToolFault> {
        self.text(name)?
            .ok_or_else(|| bad(format!("`{name}` is missing")))
    }

    /// A list of at most `max` strings. A single string with commas is also accepted, because some models send one.
    pub fn texts(&self, name: &str, max: usize) -> Result<Vec<&'a str>, ToolFault> {
        let texts: Vec<&str> = match self.get(name) {
            None => Vec::new(),
            Some(Value::String(texts)) => texts.split(',').collect(),
            Some(Value::Array(texts)) => {
                let texts: Option<Vec<&str>> = texts.iter().map(Value::as_str).collect();
                texts.ok_or_else(|| bad(format!("`{name}` is not a list of strings")))?
            }
            Some(_) => return Err(bad(format!("`{name}` is not a list of strings"))),
        };
        if texts.len() > max {
            return Err(bad(format!("`{name}` has more than {max} entries")));
        }
        Ok(texts.into_iter().map(str::trim).collect())
    }

    /// A list of sentences. A single string is also accepted, because some models send one.
    pub fn sentences(&self, name: &str, limits: ListLimits) -> Result<Vec<&'a str>, ToolFault> {
        let sentences: Option<Vec<&str>> = match self.get(name) {
            None => Some(Vec::new()),
            Some(Value::String(sentence)) => Some(vec![sentence]),
            Some(Value::Array(sentences)) => sentences.iter().map(Value::as_str).collect(),
            Some(_) => None,
        };
        let sentences =
            sentences.ok_or_else(|| bad(format!("`{name}` is not a list of strings")))?;
        let ListLimits {
            entries_max,
            chars_max,
        } = limits;
        if sentences.len() > entries_max {
            return Err(bad(format!("`{name}` has more than {entries_max} entries")));
        }
        if sentences
            .iter()
            .any(|text| text.chars().count() > chars_max)
        {
            return Err(bad(format!(
                "an entry of `{name}` has more than {chars_max} characters"
            )));
        }
        let sentences = sentences.into_iter().map(str::trim);
        Ok(sentences.filter(|text| !text.is_empty()).collect())
    }

    pub fn flag(&self, name: &str) -> Result<Option<bool>, ToolFault> {
        self.get(name)
            .map(|value| {
                let text = value.as_str().and_then(|text| text.parse().ok());
                let flag = value.as_bool().or(text);
                flag.ok_or_else(|| bad(format!("`{name}` is not true or false")))
            })
            .transpose()
    }

    /// A number in a range.
    pub fn number(&self, name: &str, range: RangeInclusive<i64>) -> Result<Option<i64>, ToolFault> {
        self.get(name)
            .map(|value| {
                let text = value.as_str().and_then(|text| text.parse().ok());
                let number = value.as_i64().or(text);
                number.filter(|n| range.contains(n)).ok_or_else(|| {
                    let (min, max) = (range.start(), range.end());
                    bad(format!("`{name}` is not a number from {min} to {max}"))
                })
            })
            .transpose()
    }

    /// A date, as the start of the day in UTC.
    pub fn day(&self, name: &str) -> Result<Option<Timestamp>, ToolFault> {
        self.text(name)?
            .map(|text| {
                let day = text.parse::<NaiveDate>().ok();
                let start = day.and_then(|day| day.and_hms_opt(0, 0, 0));
                start
                    .and_then(|start| Timestamp::within_years(start.and_utc()))
                    .ok_or_else(|| bad(format!("`{name}` is not a date such as 2026-05-03")))
            })
            .transpose()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn map(value: &Value) -> Map<String, Value> {
        value.as_object().cloned().unwrap()
    }

    #[test]
    fn arguments_of_other_types_are_named() {
        let given = map(
            &json!({"a": 1, "n": 99, "b": "maybe", "d": "soon", "e": null, "f": "2026-05-03",
                "l": ["S1", " S2"], "c": "S1, S2"}),
        );
        let names = ["a", "n", "b", "d", "e", "f", "l", "c"];
        let arguments = Arguments::of(&given, &names).unwrap_or_else(|e| panic!("{e:?}"));
        let detail = |fault: ToolFault| fault.message;
        assert_eq!(
            detail(arguments.text("a").unwrap_err()),
            "`a` is not a string"
        );
        let number = arguments.number("n", 1..=20).unwrap_err();
        assert_eq!(detail(number), "`n` is not a number from 1 to 20");
        assert!(arguments.flag("b").is_err() && arguments.day("d").is_err());
        assert_eq!(arguments.text("e"), Ok(None));
        assert!(arguments.texts("a", 4).is_err() && arguments.texts("e", 4) == Ok(Vec::new()));
        assert_eq!(arguments.texts("l", 2), Ok(vec!["S1", "S2"]));
        assert_eq!(arguments.texts("c", 2), Ok(vec!["S1", "S2"]));
        assert!(arguments.texts("l", 1).is_err());
        assert!(arguments.day("f").is_ok_and(|day| day.is_some()));
        assert_eq!(
            detail(arguments.required("e").unwrap_err()),
            "`e` is missing"
        );
        let other = map(&json!({"x": 1}));
        assert!(Arguments::of(&other, &["a"]).is_err());
    }

    #[test]
    fn nul_characters_are_refused() {
        for value in [json!("a\0b"), json!(["a", "\0"]), json!({"b": {"\0": 1}})] {
            let given = map(&json!({"a": value}));
            let fault = Arguments::of(&given, &["a"]).err();
            let text = fault.map(|fault| fault.message);
            assert_eq!(text.as_deref(), Some("`a` contains a NUL character"));
        }
    }
}
