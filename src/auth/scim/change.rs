//! PATCH operations, as RFC 7644 §3.5.2 and as Entra and Okta send them.

use serde_json::{Map, Value, json};

use super::{
    fault::{ScimFault, ScimType},
    filter::Literal,
    group::MEMBERS_MAX,
    path::Path,
    user::{UserDoc, field},
};

/// Read-only attributes. Operations without a path can contain them, because clients send whole resources.
const READ_ONLY: &[&str] = &["id", "meta", "groups", "schemas"];
const USER_ATTRIBUTES: &[(&str, &str)] = &[
    ("username", "userName"),
    ("externalid", "externalId"),
    ("name", "name"),
    ("displayname", "displayName"),
    ("emails", "emails"),
    ("active", "active"),
];
const NAME_ATTRIBUTES: &[(&str, &str)] = &[
    ("formatted", "formatted"),
    ("familyname", "familyName"),
    ("givenname", "givenName"),
];
const ELEMENTS_MAX: usize = 100;

fn canonical(known: &[(&str, &'static str)], lower: &str) -> Option<&'static str> {
    known
        .iter()
        .find(|(key, _)| *key == lower)
        .map(|(_, name)| *name)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Op {
    Add,
    Replace,
    Remove,
}

/// One operation.
#[derive(Debug, Clone)]
pub(super) struct Operation {
    pub op: Op,
    pub path: Option<Path>,
    pub value: Option<Value>,
}

/// Body of a PATCH request.
#[derive(Debug, Clone)]
pub(crate) struct PatchForm(pub(super) Vec<Operation>);

impl PatchForm {
    /// # Errors
    /// `invalidSyntax`, `invalidPath`, `invalidFilter`.
    pub(crate) fn read(body: &Value) -> Result<Self, ScimFault> {
        let Value::Object(object) = body else {
            return Err(ScimFault::syntax("send an object with `Operations`"));
        };
        let Some(Value::Array(list)) = field(object, "Operations") else {
            return Err(ScimFault::syntax("`Operations` must be a list"));
        };
        if list.len() > MEMBERS_MAX {
            return Err(ScimFault::syntax(format!(
                "a request has at most {MEMBERS_MAX} operations"
            )));
        }
        let read = |operation: &Value| {
            let form = || ScimFault::syntax("an operation has `op`, `path`, and `value`");
            let operation = operation.as_object().ok_or_else(form)?;
            let text = |name| match field(operation, name) {
                Some(Value::String(text)) => Ok(Some(text.as_str())),
                None => Ok(None),
                Some(_) => Err(form()),
            };
            let op = text("op")?.ok_or_else(form)?;
            let op = match op.to_ascii_lowercase().as_str() {
                "add" => Op::Add,
                "replace" => Op::Replace,
                "remove" => Op::Remove,
                _ => return Err(ScimFault::syntax("`op` is `add`, `replace`, or `remove`")),
            };
            Ok(Operation {
                op,
                path: text("path")?.map(Path::parse).transpose()?,
                value: field(operation, "value").cloned(),
            })
        };
        list.iter().map(read).collect::<Result<_, _>>().map(Self)
    }

    /// Applies the operations to a user.
    ///
    /// # Errors
    /// Those of RFC 7644; the user stays as it was.
    pub(super) fn apply(&self, user: &UserDoc) -> Result<UserDoc, ScimFault> {
        let Ok(Value::Object(mut object)) = serde_json::to_value(user) else {
            return Err(ScimFault::syntax("the user cannot be read"));
        };
        for operation in &self.0 {
            operation.apply(&mut object)?;
        }
        UserDoc::read(&Value::Object(object))
    }
}

impl Operation {
    /// Operations with a path: the value's attributes if there is none.
    pub(super) fn by_attribute(&self) -> Result<Vec<(Path, Option<Value>)>, ScimFault> {
        if let Some(path) = &self.path {
            if READ_ONLY.contains(&path.attribute.as_str()) {
                let problem = format!("`{}` is read-only", path.attribute);
                return Err(ScimFault::Bad(ScimType::Mutability, problem));
            }
            return Ok(vec![(path.clone(), self.value.clone())]);
        }
        if self.op == Op::Remove {
            let problem = "`remove` needs a `path`".to_owned();
            return Err(ScimFault::Bad(ScimType::NoTarget, problem));
        }
        let Some(Value::Object(object)) = &self.value else {
            return Err(ScimFault::syntax(
                "an operation without a `path` has an object as `value`",
            ));
        };
        let parse = |(key, value): (&String, &Value)| match Path::parse(key) {
            Ok(path) if READ_ONLY.contains(&path.attribute.as_str()) => None,
            Ok(path) => Some((path, Some(value.clone()))),
            // Unknown attributes are ignored, whatever their names.
            Err(_) => None,
        };
        Ok(object.iter().filter_map(parse).collect())
    }

    fn apply(&self, user: &mut Map<String, Value>) -> Result<(), ScimFault> {
        for (path, value) in self.by_attribute()? {
            let Some(name) = canonical(USER_ATTRIBUTES, &path.attribute) else {
                continue;
            };
            let value = value.filter(|value| !value.is_null());
            // Okta clears attributes with null.
            let is_removal = self.op == Op::Remove || (value.is_none() && self.op == Op::Replace);
            match name {
                "emails" => self.apply_to_emails(user, &path, value, is_removal)?,
                "name" => apply_to_name(user, &path, value, is_removal)?,
                _ if path.sub.is_some() || path.filter.is_some() => {
                    let problem = format!("`{name}` is a single value");
                    return Err(ScimFault::Bad(ScimType::InvalidPath, problem));
                }
                "userName" if is_removal => {
                    let problem = "`userName` is required".to_owned();
                    return Err(ScimFault::Bad(ScimType::Mutability, problem));
                }
                _ if is_removal => {
                    user.remove(name);
                }
                _ => {
                    user.insert(name.to_owned(), value.ok_or_else(no_value)?);
                }
            }
        }
        Ok(())
    }

    fn apply_to_emails(
        &self,
        user: &mut Map<String, Value>,
        path: &Path,
        value: Option<Value>,
        is_removal: bool,
    ) -> Result<(), ScimFault> {
        let mut list = match user.remove("emails") {
            Some(Value::Array(list)) => list,
            _ => Vec::new(),
        };
        match &path.sub {
            None if is_removal => list.retain(|element| !path.selects(element)),
            None => {
                let mut new = match value.ok_or_else(no_value)? {
                    Value::Array(new) => new,
                    one => vec![one],
                };
                for element in &mut new {
                    lower_keys(element);
                }
                if self.op == Op::Replace {
                    list.retain(|element| path.filter.is_some() && !path.selects(element));
                }
                if new.iter().any(is_primary) {
                    list.iter_mut().for_each(unset_primary);
                }
                for element in new {
                    let same = |known: &&mut Value| {
                        known.get("value") == element.get("value")
                            && known.get("type") == element.get("type")
                    };
                    match list.iter_mut().find(same) {
                        Some(known) => *known = element,
                        None => list.push(element),
                    }
                }
            }
            Some(sub) if is_removal => {
                for element in list.iter_mut().filter(|element| path.selects(element)) {
                    if let Value::Object(object) = element {
                        object.remove(sub);
                    }
                }
            }
            Some(sub) => {
                let value = value.ok_or_else(no_value)?;
                if !list.iter().any(|element| path.selects(element)) {
                    // Entra adds an address so.
                    list.push(element_of(path));
                }
                for element in &mut list {
                    if path.selects(element)
                        && let Value::Object(object) = element
                    {
                        object.insert(sub.clone(), value.clone());
                    }
                }
            }
        }
        if list.len() > ELEMENTS_MAX {
            return Err(ScimFault::value("there are too many emails"));
        }
        if !list.is_empty() {
            user.insert("emails".to_owned(), Value::Array(list));
        }
        Ok(())
    }
}

fn no_value() -> ScimFault {
    ScimFault::value("the operation has no `value`")
}

fn is_primary(element: &Value) -> bool {
    element.get("primary") == Some(&Value::Bool(true))
}

fn unset_primary(element: &mut Value) {
    if is_primary(element)
        && let Value::Object(object) = element
    {
        object.insert("primary".to_owned(), Value::Bool(false));
    }
}

fn lower_keys(element: &mut Value) {
    if let Value::Object(object) = element {
        let lower = std::mem::take(object).into_iter();
        *object = lower
            .map(|(key, value)| (key.to_ascii_lowercase(), value))
            .collect();
    }
}

/// New element that a filter selects.
fn element_of(path: &Path) -> Value {
    let mut element = json!({});
    for term in path.filter.iter().flat_map(|filter| &filter.0) {
        element[&term.attribute] = match &term.value {
            Literal::Text(text) => json!(text),
            Literal::Flag(flag) => json!(flag),
        };
    }
    element
}

fn apply_to_name(
    user: &mut Map<String, Value>,
    path: &Path,
    value: Option<Value>,
    is_removal: bool,
) -> Result<(), ScimFault> {
    if path.filter.is_some() {
        let problem = "`name` is a single value".to_owned();
        return Err(ScimFault::Bad(ScimType::InvalidPath, problem));
    }
    let mut name = match user.remove("name") {
        Some(Value::Object(name)) => name,
        _ => Map::new(),
    };
    match &path.sub {
        None if is_removal => name.clear(),
        None => {
            let Some(Value::Object(parts)) = value else {
                return Err(ScimFault::value("`name` must be an object"));
            };
            for (key, part) in parts {
                if let Some(known) = canonical(NAME_ATTRIBUTES, &key.to_ascii_lowercase()) {
                    name.insert(known.to_owned(), part);
                }
            }
        }
        Some(sub) => match canonical(NAME_ATTRIBUTES, sub) {
            None => {}
            Some(known) if is_removal => {
                name.remove(known);
            }
            Some(known) => {
                name.insert(known.to_owned(), value.ok_or_else(no_value)?);
            }
        },
    }
    if !name.is_empty() {
        user.insert("name".to_owned(), Value::Object(name));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_of_entra_and_okta_apply() {
        let user = UserDoc::read(&json!({"userName": "ada@example.org", "active": true,
            "emails": [{"value": "ada@example.org", "type": "work", "primary": true}]}));
        let user = user.unwrap();
        let ada = user.clone();
        let apply = move |operations: Value| {
            PatchForm::read(&json!({"Operations": operations}))?.apply(&ada)
        };
        for off in [
            json!([{"op": "Replace", "path": "active", "value": "False"}]),
            json!([{"op": "replace", "value": {"active": false}}]),
            json!([{"OP": "REPLACE", "PATH": "ACTIVE", "VALUE": "FALSE"}]),
            json!([{"op": "add", "path": "urn:ietf:params:scim:schemas:core:2.0:User:active", "value": false}]),
        ] {
            assert!(!apply(off).unwrap().is_active());
        }
        let named = apply(json!([{"op": "Add", "path": "name.givenName", "value": "Ada"},
            {"op": "Replace", "value": {"name.familyName": "King", "displayName": "Ada King", "id": "x",
                "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User:department": "Sums"}}]))
        .unwrap();
        assert_eq!(named.shown_name().as_deref(), Some("Ada King"));
        assert_eq!(named.name.unwrap().family_name.as_deref(), Some("King"));
        let moved = apply(
            json!([{"op": "Replace", "path": "emails[type eq \"work\"].value", "value": "king@example.org"}]),
        );
        assert_eq!(moved.unwrap().emails[0].value, "king@example.org");
        let home = apply(
            json!([{"op": "Add", "path": "emails[type eq \"home\"].value", "value": "a@home.example"}]),
        );
        assert_eq!(home.unwrap().emails[1].kind.as_deref(), Some("home"));
        let none = apply(json!([{"op": "remove", "path": "emails[type eq \"work\"]"}])).unwrap();
        assert!(none.emails.is_empty());
        let flagged = apply(
            json!([{"op": "Replace", "path": "emails[primary eq \"True\"].value", "value": "king@example.org"}]),
        );
        let emails = flagged.unwrap().emails;
        assert_eq!(
            (emails.len(), emails[0].value.as_str()),
            (1, "king@example.org")
        );
        for same in [
            json!([]),
            json!([{"op": "Add", "path": "addresses[country eq \"UK\"].locality", "value": "London"}]),
        ] {
            assert_eq!(apply(same).unwrap(), user);
        }
        for wrong in [
            json!([{"op": "move", "path": "active"}]),
            json!([{"op": "remove"}]),
            json!([{"op": "remove", "path": "userName"}]),
            json!([{"op": "replace", "path": "id", "value": "x"}]),
            json!([{"op": "replace", "path": "active", "value": "perhaps"}]),
            json!([{"op": "replace", "path": "active.sub", "value": true}]),
            json!([{"op": "add", "value": 7}]),
            json!({"op": "add"}),
        ] {
            assert!(apply(wrong.clone()).is_err(), "{wrong}");
        }
    }
}
