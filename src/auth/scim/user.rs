//! Users: the attributes that the server keeps, read in any case, and without those that it does not know.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::fault::ScimFault;

/// Maximum length of a text.
pub(super) const TEXT_CHARS_MAX: usize = 255;
/// Maximum number of email addresses of a user.
const EMAILS_MAX: usize = 20;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PersonName {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub formatted: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub family_name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub given_name: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Email {
    pub value: String,
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub primary: Option<bool>,
}

/// A user, as a provider sends it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UserDoc {
    pub user_name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<PersonName>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub emails: Vec<Email>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active: Option<bool>,
}

/// Finds an attribute in any case.
pub(super) fn field<'a>(object: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    let exact = object.get(name);
    let found = exact.or_else(|| {
        let mut all = object.iter();
        all.find_map(|(key, value)| key.eq_ignore_ascii_case(name).then_some(value))
    });
    found.filter(|value| !value.is_null())
}

/// Reads a text.
///
/// # Errors
/// `invalidValue` if it is not a text, is too long, or has control characters.
pub(super) fn text_of(value: &Value, name: &str) -> Result<String, ScimFault> {
    let Value::String(text) = value else {
        return Err(ScimFault::value(format!("`{name}` must be a text")));
    };
    if text.chars().count() > TEXT_CHARS_MAX || text.chars().any(char::is_control) {
        return Err(ScimFault::value(format!(
            "`{name}` must have at most {TEXT_CHARS_MAX} characters, and no control characters"
        )));
    }
    Ok(text.clone())
}

/// Reads a text that can be absent; an empty one counts as absent.
pub(super) fn optional_text(
    object: &Map<String, Value>,
    name: &str,
) -> Result<Option<String>, ScimFault> {
    let text = field(object, name).map(|value| text_of(value, name));
    Ok(text.transpose()?.filter(|text| !text.is_empty()))
}

/// Reads true or false, which Entra also sends as a text.
pub(super) fn flag_of(value: &Value, name: &str) -> Result<bool, ScimFault> {
    match value {
        Value::Bool(flag) => Ok(*flag),
        Value::String(text) if text.eq_ignore_ascii_case("true") => Ok(true),
        Value::String(text) if text.eq_ignore_ascii_case("false") => Ok(false),
        _ => Err(ScimFault::value(format!("`{name}` must be true or false"))),
    }
}

impl PersonName {
    fn read(value: &Value) -> Result<Option<Self>, ScimFault> {
        let Value::Object(object) = value else {
            return Err(ScimFault::value("`name` must be an object"));
        };
        let name = Self {
            formatted: optional_text(object, "formatted")?,
            family_name: optional_text(object, "familyName")?,
            given_name: optional_text(object, "givenName")?,
        };
        Ok((name != Self::default()).then_some(name))
    }
}

impl Email {
    fn read(value: &Value) -> Result<Option<Self>, ScimFault> {
        let object = match value {
            Value::Object(object) => object,
            Value::String(_) => {
                return Ok(Some(Self {
                    value: text_of(value, "emails.value")?,
                    kind: None,
                    primary: None,
                }));
            }
            _ => return Err(ScimFault::value("`emails` must be a list of objects")),
        };
        let primary = field(object, "primary").map(|value| flag_of(value, "emails.primary"));
        let (kind, primary) = (optional_text(object, "type")?, primary.transpose()?);
        let value = optional_text(object, "value")?;
        Ok(value.map(|value| Self {
            value,
            kind,
            primary,
        }))
    }
}

impl UserDoc {
    /// Reads a user from a request, or after operations on it.
    ///
    /// # Errors
    /// `invalidSyntax`, `invalidValue`.
    pub(crate) fn read(value: &Value) -> Result<Self, ScimFault> {
        let Value::Object(object) = value else {
            return Err(ScimFault::syntax("send a user as an object"));
        };
        let user_name = optional_text(object, "userName")?;
        let user_name = user_name.ok_or_else(|| ScimFault::value("`userName` is missing"))?;
        let emails = match field(object, "emails") {
            None => Vec::new(),
            Some(Value::Array(list)) if list.len() > EMAILS_MAX => {
                return Err(ScimFault::value(format!(
                    "a user has at most {EMAILS_MAX} emails"
                )));
            }
            Some(Value::Array(list)) => {
                let read: Vec<_> = list.iter().map(Email::read).collect::<Result<_, _>>()?;
                read.into_iter().flatten().collect()
            }
            Some(one) => Email::read(one)?.into_iter().collect(),
        };
        let name = field(object, "name").map(PersonName::read).transpose()?;
        let active = field(object, "active").map(|value| flag_of(value, "active"));
        Ok(Self {
            user_name,
            external_id: optional_text(object, "externalId")?,
            name: name.flatten(),
            display_name: optional_text(object, "displayName")?,
            emails,
            active: active.transpose()?,
        })
    }

    /// Only `active: false` takes access away.
    pub(crate) fn is_active(&self) -> bool {
        self.active != Some(false)
    }

    /// Name for people.
    pub(super) fn shown_name(&self) -> Option<String> {
        let name = self.name.clone().unwrap_or_default();
        let joined = [name.given_name, name.family_name];
        let joined: Vec<String> = joined.into_iter().flatten().collect();
        let joined = (!joined.is_empty()).then(|| joined.join(" "));
        self.display_name.clone().or(name.formatted).or(joined)
    }

    /// Addresses by which filters find the user.
    pub(super) fn email_keys(&self) -> BTreeSet<String> {
        let emails = self.emails.iter();
        emails.map(|email| email.value.to_lowercase()).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn users_are_read_in_any_case() {
        let user = UserDoc::read(&json!({
            "schemas": ["x"], "USERNAME": "ada@example.org", "externalid": "7", "active": "False", "title": "Countess",
            "name": {"givenName": "Ada", "familyname": "Lovelace"}, "displayName": "",
            "emails": [{"value": "ada@example.org", "type": "work", "primary": "True"}, {"type": "home"}],
        }))
        .unwrap();
        assert_eq!(user.external_id.as_deref(), Some("7"));
        assert!(!user.is_active());
        assert_eq!(user.shown_name().as_deref(), Some("Ada Lovelace"));
        assert_eq!(user.emails.len(), 1);
        let keys: Vec<String> = user.email_keys().into_iter().collect();
        assert_eq!(keys, ["ada@example.org"]);
        for wrong in [
            json!([]),
            json!({}),
            json!({"userName": 7}),
            json!({"userName": "a", "active": "perhaps"}),
            json!({"userName": "a\u{0}"}),
            json!({"userName": "a", "emails": [7]}),
            json!({"userName": "a", "externalId": "x".repeat(256)}),
        ] {
            assert!(UserDoc::read(&wrong).is_err(), "{wrong}");
        }
    }
}
