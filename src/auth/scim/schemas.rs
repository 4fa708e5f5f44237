//! Description of the service: its abilities, resource types, and schemas.

use serde_json::{Value, json};

use super::shown::{COUNT_MAX, Location, Range, list_response};

/// Writes that an attribute allows.
#[derive(Clone, Copy)]
enum Mutability {
    ReadWrite,
    ReadOnly,
    Immutable,
}

impl Mutability {
    const fn as_str(self) -> &'static str {
        match self {
            Self::ReadWrite => "readWrite",
            Self::ReadOnly => "readOnly",
            Self::Immutable => "immutable",
        }
    }
}

fn attribute(name: &str, kind: &str, mutability: Mutability, about: &str) -> Value {
    json!({"name": name, "type": kind, "multiValued": false, "description": about, "required": false, "caseExact": false,
        "mutability": mutability.as_str(), "returned": "default", "uniqueness": "none"})
}

fn with(mut attribute: Value, fields: &Value) -> Value {
    for (key, value) in fields.as_object().into_iter().flatten() {
        attribute[key] = value.clone();
    }
    attribute
}

fn user_attributes() -> Value {
    use Mutability::{ReadOnly, ReadWrite};
    json!([
        with(
            attribute(
                "userName",
                "string",
                ReadWrite,
                "Email address of the person."
            ),
            &json!({"required": true, "uniqueness": "server"}),
        ),
        with(
            attribute("name", "complex", ReadWrite, "Parts of the name."),
            &json!({"subAttributes": [
                attribute("formatted", "string", ReadWrite, "Full name."),
                attribute("familyName", "string", ReadWrite, "Family name."),
                attribute("givenName", "string", ReadWrite, "Given name."),
            ]}),
        ),
        attribute("displayName", "string", ReadWrite, "Name of a new account."),
        with(
            attribute(
                "emails",
                "complex",
                ReadWrite,
                "Email addresses. Only `userName` counts for the account."
            ),
            &json!({"multiValued": true, "subAttributes": [
                attribute("value", "string", ReadWrite, "Address."),
                attribute("type", "string", ReadWrite, "Kind of address, such as work."),
                attribute("primary", "boolean", ReadWrite, "True for the preferred address."),
            ]}),
        ),
        attribute(
            "active",
            "boolean",
            ReadWrite,
            "False suspends the person's memberships."
        ),
        with(
            attribute("groups", "complex", ReadOnly, "Groups of the person."),
            &json!({"multiValued": true, "subAttributes": [
                with(attribute("value", "string", ReadOnly, "ID of the group."), &json!({"caseExact": true})),
                with(
                    attribute("$ref", "reference", ReadOnly, "Address of the group."),
                    &json!({"caseExact": true, "referenceTypes": ["Group"]}),
                ),
                attribute("display", "string", ReadOnly, "Name of the group."),
                attribute("type", "string", ReadOnly, "Always direct."),
            ]}),
        ),
    ])
}

fn group_attributes() -> Value {
    use Mutability::{Immutable, ReadOnly, ReadWrite};
    json!([
        with(
            attribute(
                "displayName",
                "string",
                ReadWrite,
                "Name, as rules for roles name it."
            ),
            &json!({"required": true}),
        ),
        with(
            attribute("members", "complex", ReadWrite, "Users of the group."),
            &json!({"multiValued": true, "subAttributes": [
                with(attribute("value", "string", Immutable, "ID of the user."), &json!({"caseExact": true})),
                with(
                    attribute("$ref", "reference", Immutable, "Address of the user."),
                    &json!({"caseExact": true, "referenceTypes": ["User"]}),
                ),
                with(
                    attribute("type", "string", ReadOnly, "Always User."),
                    &json!({"canonicalValues": ["User"]}),
                ),
            ]}),
        ),
    ])
}

fn schemas(at: &Location) -> Vec<Value> {
    let schema = |name: &str, about: &str, attributes: Value| {
        let id = format!("urn:ietf:params:scim:schemas:core:2.0:{name}");
        json!({"schemas": ["urn:ietf:params:scim:schemas:core:2.0:Schema"], "id": id, "name": name, "description": about,
            "attributes": attributes, "meta": {"resourceType": "Schema", "location": at.of("Schemas", &id)}})
    };
    vec![
        schema("User", "Person with an account", user_attributes()),
        schema("Group", "Group of people", group_attributes()),
    ]
}

fn resource_types(at: &Location) -> Vec<Value> {
    let kind = |name: &str, about: &str| {
        json!({"schemas": ["urn:ietf:params:scim:schemas:core:2.0:ResourceType"], "id": name, "name": name,
            "endpoint": format!("/{name}s"), "description": about,
            "schema": format!("urn:ietf:params:scim:schemas:core:2.0:{name}"),
            "meta": {"resourceType": "ResourceType", "location": at.of("ResourceTypes", name)}})
    };
    vec![
        kind("User", "Person with an account"),
        kind("Group", "Group of people"),
    ]
}

fn config(at: &Location) -> Value {
    let off = json!({"supported": false});
    json!({
        "schemas": ["urn:ietf:params:scim:schemas:core:2.0:ServiceProviderConfig"],
        "patch": {"supported": true},
        "bulk": {"supported": false, "maxOperations": 0, "maxPayloadSize": 0},
        "filter": {"supported": true, "maxResults": COUNT_MAX},
        "changePassword": off, "sort": off, "etag": off,
        "authenticationSchemes": [{"type": "oauthbearertoken", "name": "Bearer token", "description": "A token of the provider", "primary": true}],
        "meta": {"resourceType": "ServiceProviderConfig", "location": format!("{}/ServiceProviderConfig", at.0)},
    })
}

/// A description by its path; `None` if there is no such one.
pub(crate) fn find(collection: &str, id: Option<&str>, at: &Location) -> Option<Value> {
    let all = match (collection, id) {
        ("ServiceProviderConfig", None) => return Some(config(at)),
        ("Schemas", _) => schemas(at),
        ("ResourceTypes", _) => resource_types(at),
        _ => return None,
    };
    let Some(id) = id else {
        return Some(list_response(all.len(), Range::new(None, None), &all));
    };
    all.into_iter().find(|one| one["id"].as_str() == Some(id))
}
