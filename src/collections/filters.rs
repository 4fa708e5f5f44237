//! Filters of a search by the attributes of files.

use serde_json::Value;

use super::{CollectionError, contents::Attributes};

const DEPTH_MAX: usize = 8;

/// A condition for the attributes of a file.
#[derive(Debug, Clone)]
pub(super) enum AttributeFilter {
    Compare {
        key: String,
        comparison: Comparison,
        value: Value,
    },
    All(Vec<AttributeFilter>),
    Any(Vec<AttributeFilter>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    NotEqual,
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
    In,
    NotIn,
}

fn invalid(text: &str) -> CollectionError {
    CollectionError::Invalid(text.to_owned(), "filters")
}

impl AttributeFilter {
    /// # Errors
    /// `Invalid`.
    pub(super) fn parse(value: &Value) -> Result<Self, CollectionError> {
        Self::parse_within(value, DEPTH_MAX)
    }

    fn parse_within(value: &Value, depth: usize) -> Result<Self, CollectionError> {
        let kind = value["type"].as_str().unwrap_or_default();
        if matches!(kind, "and" | "or") {
            if depth == 0 {
                return Err(invalid("filters are nested too deeply"));
            }
            let inner = value["filters"].as_array();
            let inner = inner.ok_or_else(|| invalid("`filters` must be a list"))?;
            let inner: Result<Vec<Self>, CollectionError> = inner
                .iter()
                .map(|filter| Self::parse_within(filter, depth - 1))
                .collect();
            return Ok(if kind == "and" {
                Self::All(inner?)
            } else {
                Self::Any(inner?)
            });
        }
        let comparison = match kind {
            "eq" => Comparison::Equal,
            "ne" => Comparison::NotEqual,
            "gt" => Comparison::Greater,
            "gte" => Comparison::GreaterOrEqual,
            "lt" => Comparison::Less,
            "lte" => Comparison::LessOrEqual,
            "in" => Comparison::In,
            "nin" => Comparison::NotIn,
            _ => {
                return Err(invalid(
                    "the `type` of a filter must be eq, ne, gt, gte, lt, lte, in, nin, `and`, or `or`",
                ));
            }
        };
        let key = value["key"]
            .as_str()
            .ok_or_else(|| invalid("a filter needs a `key`"))?;
        let compared = &value["value"];
        let is_list = matches!(comparison, Comparison::In | Comparison::NotIn);
        if compared.is_array() != is_list || compared.is_object() || compared.is_null() {
            return Err(invalid(
                "the `value` of a filter must be a string, number, or boolean; for in and nin, a list",
            ));
        }
        Ok(Self::Compare {
            key: key.to_owned(),
            comparison,
            value: compared.clone(),
        })
    }

    pub(super) fn permits(&self, attributes: &Attributes) -> bool {
        match self {
            Self::All(inner) => inner.iter().all(|filter| filter.permits(attributes)),
            Self::Any(inner) => inner.iter().any(|filter| filter.permits(attributes)),
            Self::Compare {
                key,
                comparison,
                value,
            } => compare(attributes.get(key), *comparison, value),
        }
    }
}

/// Compares an attribute; a file without the attribute matches only `ne` and `nin`.
fn compare(own: Option<&Value>, comparison: Comparison, value: &Value) -> bool {
    use std::cmp::Ordering as O;
    let order = own.and_then(|own| order(own, value));
    let is_in = || {
        let list = value.as_array();
        list.is_some_and(|list| {
            list.iter()
                .any(|one| own.is_some_and(|own| is_equal(own, one)))
        })
    };
    match comparison {
        Comparison::Equal => own.is_some_and(|own| is_equal(own, value)),
        Comparison::NotEqual => !own.is_some_and(|own| is_equal(own, value)),
        Comparison::Greater => order == Some(O::Greater),
        Comparison::GreaterOrEqual => matches!(order, Some(O::Greater | O::Equal)),
        Comparison::Less => order == Some(O::Less),
        Comparison::LessOrEqual => matches!(order, Some(O::Less | O::Equal)),
        Comparison::In => is_in(),
        Comparison::NotIn => !is_in(),
    }
}

fn is_equal(a: &Value, b: &Value) -> bool {
    match (a.as_f64(), b.as_f64()) {
        (Some(a), Some(b)) => a.total_cmp(&b).is_eq(),
        _ => a == b,
    }
}

fn order(a: &Value, b: &Value) -> Option<std::cmp::Ordering> {
    if let (Some(a), Some(b)) = (a.as_f64(), b.as_f64()) {
        return a.partial_cmp(&b);
    }
    Some(a.as_str()?.cmp(b.as_str()?))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn attributes_are_compared_by_type() {
        let attributes: Attributes =
            serde_json::from_value(json!({"year": 2026, "team": "red", "draft": false})).unwrap();
        let permits = |filter: Value| {
            AttributeFilter::parse(&filter)
                .unwrap()
                .permits(&attributes)
        };
        let one = |kind: &str, key: &str, value: Value| {
            permits(json!({"type": kind, "key": key, "value": value}))
        };
        assert!(one("eq", "year", json!(2026.0)) && one("ne", "year", json!("2026")));
        assert!(one("gt", "year", json!(2025)) && one("gte", "year", json!(2026)));
        assert!(!one("lt", "year", json!(2026)) && one("lte", "team", json!("red")));
        assert!(one("in", "team", json!(["blue", "red"])) && !one("nin", "team", json!(["red"])));
        assert!(
            one("ne", "none", json!(1))
                && one("nin", "none", json!([1]))
                && !one("gt", "none", json!(1))
        );
        assert!(one("eq", "draft", json!(false)));
        let eq = |value: &str| json!({"type": "eq", "key": "team", "value": value});
        assert!(permits(
            json!({"type": "or", "filters": [eq("blue"), eq("red")]})
        ));
        assert!(!permits(
            json!({"type": "and", "filters": [eq("blue"), eq("red")]})
        ));
        for wrong in [
            json!({}),
            json!({"type": "eq", "key": "a", "value": null}),
            json!({"type": "in", "key": "a", "value": 1}),
        ] {
            assert!(AttributeFilter::parse(&wrong).is_err(), "{wrong}");
        }
    }
}
