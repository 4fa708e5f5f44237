//! Paths of PATCH operations: `attribute`, `attribute.sub`, `attribute[sub eq "value"].sub`.

use super::{
    fault::{ScimFault, ScimType},
    filter::{Filter, SUB_ATTRIBUTES, attribute_name},
};

const PATH_CHARS_MAX: usize = 500;
/// Attributes that are lists.
const LISTS: &[&str] = &["emails", "members"];

/// A parsed path; names are in lowercase.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Path {
    pub attribute: String,
    pub filter: Option<Filter>,
    pub sub: Option<String>,
}

impl Path {
    /// # Errors
    /// `invalidPath`, or `invalidFilter` for what stands in brackets.
    pub(super) fn parse(text: &str) -> Result<Self, ScimFault> {
        let bad = || {
            let problem = format!(
                "`{}` is not a path",
                text.chars().take(64).collect::<String>()
            );
            ScimFault::Bad(ScimType::InvalidPath, problem)
        };
        let text = text.trim();
        if text.is_empty() || text.chars().count() > PATH_CHARS_MAX {
            return Err(bad());
        }
        if let Some((attribute, rest)) = text.split_once('[') {
            let (inside, after) = rest.rsplit_once(']').ok_or_else(bad)?;
            let sub = match after.strip_prefix('.') {
                Some(sub) if is_name(sub) => Some(sub.to_ascii_lowercase()),
                None if after.is_empty() => None,
                _ => return Err(bad()),
            };
            let attribute = attribute_name(attribute);
            // Lists that the server does not keep have attributes of their own.
            let filter = if LISTS.contains(&attribute.as_str()) {
                Filter::parse(inside, SUB_ATTRIBUTES)?
            } else {
                Filter::default()
            };
            return Ok(Self {
                attribute,
                filter: Some(filter),
                sub,
            });
        }
        let name = attribute_name(text);
        if name.starts_with("urn:") {
            return Ok(Self {
                attribute: name,
                filter: None,
                sub: None,
            });
        }
        let (attribute, sub) = match name.split_once('.') {
            Some((attribute, sub)) => (attribute.to_owned(), Some(sub.to_owned())),
            None => (name, None),
        };
        if !is_name(&attribute) || sub.as_ref().is_some_and(|sub| !is_name(sub)) {
            return Err(bad());
        }
        Ok(Self {
            attribute,
            filter: None,
            sub,
        })
    }

    /// Checks whether an element of a list has the values of the filter.
    pub(super) fn selects(&self, element: &serde_json::Value) -> bool {
        self.filter
            .as_ref()
            .is_none_or(|filter| filter.selects(element))
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '$'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_parsed() {
        let parse = |text| Path::parse(text).unwrap();
        assert_eq!(parse("displayName").attribute, "displayname");
        assert_eq!(parse("name.givenName").sub.as_deref(), Some("givenname"));
        let work = parse(r#"emails[type eq "work"].value"#);
        assert_eq!(work.attribute, "emails");
        assert_eq!(work.sub.as_deref(), Some("value"));
        assert!(work.selects(&serde_json::json!({"type": "Work", "value": "a"})));
        assert!(!work.selects(&serde_json::json!({"type": "home"})));
        let urn = "urn:ietf:params:scim:schemas:core:2.0:User:name.familyName";
        assert_eq!(parse(urn).sub.as_deref(), Some("familyname"));
        for wrong in [
            "",
            "a b",
            "emails[",
            "emails[]",
            "emails[type eq \"a\"]value",
            ".a",
            "a.",
        ] {
            assert!(Path::parse(wrong).is_err(), "{wrong}");
        }
    }
}
