//! Resources in responses: their address, and the attributes that the client wants.

use serde_json::{Map, Value};

use super::{fault::ScimFault, filter::attribute_name};

/// Maximum number of resources in a response.
pub(crate) const COUNT_MAX: i64 = 200;
/// Maximum number of attribute names in a request.
const NAMES_MAX: usize = 50;

/// Address of the service, without a slash at the end.
#[derive(Debug, Clone)]
pub(crate) struct Location(pub String);

impl Location {
    pub(crate) fn of(&self, collection: &str, id: &str) -> String {
        format!("{}/{collection}/{id}", self.0)
    }
}

/// Part of a list: the number of the first resource, from 1, and the number of resources.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Range {
    pub start: i64,
    pub count: i64,
}

impl Range {
    /// Values below the smallest count as the smallest.
    pub(crate) fn new(start: Option<i64>, count: Option<i64>) -> Self {
        Self {
            start: start.unwrap_or(1).max(1),
            count: count.unwrap_or(COUNT_MAX).clamp(0, COUNT_MAX),
        }
    }

    pub(super) fn offset(self) -> i64 {
        self.start - 1
    }

    /// The part of a list that is in memory.
    pub(super) fn cut<T>(self, all: Vec<T>) -> Vec<T> {
        let skipped = usize::try_from(self.offset()).unwrap_or(usize::MAX);
        let count = usize::try_from(self.count).unwrap_or(0);
        all.into_iter().skip(skipped).take(count).collect()
    }
}

pub(crate) fn list_response(total: usize, range: Range, resources: &[Value]) -> Value {
    serde_json::json!({
        "schemas": ["urn:ietf:params:scim:api:messages:2.0:ListResponse"],
        "totalResults": total,
        "startIndex": range.start,
        "itemsPerPage": resources.len(),
        "Resources": resources,
    })
}

/// Attributes that a client wants; names are in lowercase.
#[derive(Debug, Clone, Default)]
pub(crate) struct Selection {
    only: Option<Vec<String>>,
    without: Vec<String>,
}

fn names(text: &str) -> Result<Vec<String>, ScimFault> {
    let all: Vec<String> = text
        .split(',')
        .map(|name| attribute_name(name.trim()))
        .filter(|name| !name.is_empty())
        .collect();
    if all.len() > NAMES_MAX {
        return Err(ScimFault::value(format!(
            "a request can name at most {NAMES_MAX} attributes"
        )));
    }
    Ok(all)
}

impl Selection {
    /// # Errors
    /// `invalidValue` for too many names.
    pub(crate) fn parse(only: Option<&str>, without: Option<&str>) -> Result<Self, ScimFault> {
        Ok(Self {
            only: only.map(names).transpose()?,
            without: without.map(names).transpose()?.unwrap_or_default(),
        })
    }

    /// Checks whether the client wants an attribute.
    pub(super) fn wants(&self, name: &str) -> bool {
        let is_part = |wanted: &String| {
            wanted
                .strip_prefix(name)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        !self.without.iter().any(|other| other == name)
            && self
                .only
                .as_ref()
                .is_none_or(|only| only.iter().any(is_part))
    }

    /// Removes the attributes that the client does not want.
    pub(super) fn apply(&self, resource: Map<String, Value>) -> Value {
        let kept = resource.into_iter().filter_map(|(key, value)| {
            let lower = key.to_ascii_lowercase();
            if matches!(lower.as_str(), "schemas" | "id") {
                return Some((key, value));
            }
            self.wants(&lower).then(|| (key, self.cut(&lower, value)))
        });
        Value::Object(kept.collect())
    }

    /// Removes the sub-attributes that the client does not want.
    fn cut(&self, name: &str, value: Value) -> Value {
        let is_whole = self
            .only
            .as_ref()
            .is_none_or(|only| only.iter().any(|n| n == name));
        match value {
            Value::Array(list) => list.into_iter().map(|one| self.cut(name, one)).collect(),
            Value::Object(object) => {
                let kept = object.into_iter().filter(|(key, _)| {
                    let path = format!("{name}.{}", key.to_ascii_lowercase());
                    let wanted = |only: &Vec<String>| only.contains(&path);
                    (is_whole || self.only.as_ref().is_some_and(wanted))
                        && !self.without.contains(&path)
                });
                Value::Object(kept.collect())
            }
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_response_has_at_most_200_resources() {
        for (asked, count) in [(None, 200), (Some(201), 200), (Some(7), 7), (Some(-1), 0)] {
            assert_eq!(Range::new(None, asked).count, count, "{asked:?}");
        }
    }

    #[test]
    fn attributes_are_selected() {
        let resource = json!({"schemas": [], "id": "1", "userName": "a", "name": {"givenName": "A", "familyName": "B"},
            "emails": [{"value": "a", "type": "work"}]});
        let Value::Object(resource) = resource else {
            return;
        };
        let shown = |only, without| {
            let selection = Selection::parse(only, without).unwrap();
            selection.apply(resource.clone())
        };
        assert_eq!(shown(None, None), Value::Object(resource.clone()));
        assert_eq!(
            shown(Some("userName,name.givenName"), None),
            json!({"schemas": [], "id": "1", "userName": "a", "name": {"givenName": "A"}})
        );
        assert_eq!(
            shown(None, Some("NAME,emails.type,id")),
            json!({"schemas": [], "id": "1", "userName": "a", "emails": [{"value": "a"}]})
        );
    }
}
