//! Text fields with a fixed set of values: strings in the code, enums in the document. The fuzzer (`tests/fuzz`) checks
//! that responses have no other values.

use std::collections::BTreeMap;

use serde_json::Value;
use utoipa::openapi::{
    Ref, RefOr, Schema,
    schema::{ArrayItems, Object, SchemaType, Type},
};

/// `#/components/schemas`
type Schemas = BTreeMap<String, RefOr<Schema>>;

const WHO: &[&str] = &["human", "agent"];
const ROLES: &[&str] = &["admin", "member", "viewer"];
const SAID_BY: &[&str] = &["user", "assistant"];

/// Schema, field, values. Nullable fields stay nullable.
const WORDS: &[(&str, &str, &[&str])] = &[
    ("AskedBy", "role", ROLES),
    ("Channel", "kind", &["public", "private", "direct"]),
    ("CreateResponse", "truncation", &["auto", "disabled"]),
    (
        "ErrorDetail",
        "type",
        &[
            "invalid_request",
            "unauthenticated",
            "permission_denied",
            "not_found",
            "conflict",
            "payload_too_large",
            "unprocessable_entity",
            "precondition_required",
            "rate_limited",
            "internal",
            "unavailable",
        ],
    ),
    ("FileSummary", "source", &["profile", "agent", "workspace"]),
    ("Fork", "context", &["message", "thread"]),
    ("Fork", "status", &["active", "resolved", "abandoned"]),
    ("Invite", "role", ROLES),
    ("InvitePreview", "role", ROLES),
    ("Mention", "type", &["agent", "user", "group"]),
    ("Message", "kind", &["text", "notice", "resolution"]),
    (
        "Message",
        "state",
        &["complete", "streaming", "interrupted"],
    ),
    ("MessageAuthor", "type", &["human", "agent", "system"]),
    ("MessageSeen", "role", SAID_BY),
    (
        "OpenAiErrorDetail",
        "type",
        &[
            "invalid_request_error",
            "authentication_error",
            "permission_error",
            "not_found_error",
            "conflict_error",
            "rate_limit_error",
            "server_error",
        ],
    ),
    ("Participant", "type", WHO),
    ("Publisher", "type", WHO),
    (
        "Resolution",
        "status",
        &["draft", "published", "superseded"],
    ),
    ("Response", "truncation", &["auto", "disabled"]),
    ("Setup", "signup", &["first", "open", "invite"]),
    (
        "SystemPart",
        "name",
        &[
            "required",
            "base",
            "instructions",
            "identity",
            "files",
            "agency",
        ],
    ),
    ("Thread", "status", &["open", "archived"]),
    ("TurnSeen", "role", SAID_BY),
];

/// Adds the values of these fields, and references to the item schemas of lists.
///
/// # Panics
/// If a line of `WORDS` matches no field; a test builds the whole document.
pub(super) fn add(schemas: &mut Schemas) {
    for (schema, field, words) in WORDS {
        let found = schemas.get_mut(*schema).and_then(|s| field_of(s, field));
        let object = found.unwrap_or_else(|| panic!("{schema} has no text {field}"));
        let words = words.iter().map(|word| Value::from(*word));
        let null = is_nullable(object).then_some(Value::Null);
        object.enum_values = Some(words.chain(null).collect());
    }
    for schema in schemas.values_mut() {
        always(schema);
    }
    let names: Vec<String> = schemas.keys().cloned().collect();
    for name in names {
        let Some(of) = name.strip_prefix("List_").map(str::to_owned) else {
            continue;
        };
        if schemas.contains_key(&of)
            && let Some(RefOr::T(Schema::Object(list))) = schemas.get_mut(&name)
            && let Some(RefOr::T(Schema::Array(data))) = list.properties.get_mut("data")
        {
            data.items = ArrayItems::RefOrSchema(Box::new(Ref::from_schema_name(of).into()));
        }
    }
}

/// Finds a text field by name in an object or in a part of an `allOf`.
fn field_of<'a>(schema: &'a mut RefOr<Schema>, field: &str) -> Option<&'a mut Object> {
    match schema {
        RefOr::T(Schema::Object(object)) => match object.properties.get_mut(field)? {
            RefOr::T(Schema::Object(text)) => Some(text),
            _ => None,
        },
        RefOr::T(Schema::AllOf(all)) => all.items.iter_mut().find_map(|part| field_of(part, field)),
        _ => None,
    }
}

fn is_nullable(object: &Object) -> bool {
    matches!(&object.schema_type, SchemaType::Array(types) if types.contains(&Type::Null))
}

/// Sets the enum of fields with a constant value, whose description has the form `` Always `list`. ``
fn always(schema: &mut RefOr<Schema>) {
    match schema {
        RefOr::T(Schema::Object(object)) => {
            let said = object.description.as_deref().unwrap_or_default();
            let word = said
                .strip_prefix("Always `")
                .and_then(|t| t.strip_suffix("`."));
            if let Some(word) = word
                && object.schema_type == SchemaType::Type(Type::String)
            {
                object.enum_values = Some(vec![word.into()]);
            }
            object.properties.values_mut().for_each(always);
        }
        RefOr::T(Schema::AllOf(all)) => all.items.iter_mut().for_each(always),
        RefOr::T(Schema::OneOf(one)) => one.items.iter_mut().for_each(always),
        _ => {}
    }
}
