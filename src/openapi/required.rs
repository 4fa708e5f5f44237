//! Marks response fields that are always present as required. The server omits only fields with `skip_serializing_if`; other fields
//! without a value are null. `ToSchema`'s derive macro makes every `Option` optional, because it may be omitted in a request.
//!
//! A field that is omitted instead of null has `#[schema(nullable = false)]`; `next_cursor` is present only in some lists, and null
//! on their last page. The fuzzer (`tests/fuzz`) checks that responses have all required fields.

use std::collections::BTreeSet;

use serde_json::Value;
use utoipa::openapi::{
    RefOr, Schema,
    path::Paths,
    schema::{SchemaType, Type},
};

use super::{Schemas, operations, walk::for_each_part};

/// Schema of the frames that clients send, to which no operation refers.
const CLIENT_FRAME: &str = "ClientFrame";

/// Makes nullable fields required in all schemas except those that requests use.
pub(super) fn require(schemas: &mut Schemas, paths: &mut Paths) {
    let of_requests = of_requests(schemas, paths);
    for (name, schema) in schemas {
        if !of_requests.contains(name) {
            require_nullable(schema);
        }
    }
}

/// Names of the schemas that request bodies, parameters, and client frames use, directly or indirectly.
fn of_requests(schemas: &Schemas, paths: &mut Paths) -> BTreeSet<String> {
    let mut found = BTreeSet::from([CLIENT_FRAME.to_owned()]);
    for item in paths.paths.values_mut() {
        for (_, operation) in operations(item) {
            let parts = (&operation.request_body, &operation.parameters);
            let parts = serde_json::to_value(parts).unwrap_or_default();
            add_references(&parts, &mut found);
        }
    }
    let mut open: Vec<String> = found.iter().cloned().collect();
    while let Some(name) = open.pop() {
        let mut inner = BTreeSet::new();
        let schema = serde_json::to_value(schemas.get(&name)).unwrap_or_default();
        add_references(&schema, &mut inner);
        open.extend(inner.difference(&found).cloned());
        found.extend(inner);
    }
    found
}

fn add_references(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            if let Some(Value::String(at)) = fields.get("$ref") {
                found.extend(at.rsplit('/').next().map(str::to_owned));
            }
            fields
                .values()
                .for_each(|value| add_references(value, found));
        }
        Value::Array(items) => items.iter().for_each(|value| add_references(value, found)),
        _ => {}
    }
}

fn require_nullable(schema: &mut RefOr<Schema>) {
    let RefOr::T(schema) = schema else {
        return;
    };
    if let Schema::Object(object) = schema {
        for (name, property) in &object.properties {
            let is_always_there = is_nullable(property) && name != "next_cursor";
            if is_always_there && !object.required.contains(name) {
                object.required.push(name.clone());
            }
        }
    }
    for_each_part(schema, require_nullable);
}

fn is_nullable(schema: &RefOr<Schema>) -> bool {
    let has_null = |kind: &SchemaType| match kind {
        SchemaType::Type(kind) => *kind == Type::Null,
        SchemaType::Array(kinds) => kinds.contains(&Type::Null),
        SchemaType::AnyValue => false,
    };
    match schema {
        RefOr::T(Schema::Object(object)) => has_null(&object.schema_type),
        RefOr::T(Schema::Array(array)) => has_null(&array.schema_type),
        RefOr::T(Schema::OneOf(one)) => one.items.iter().any(is_nullable),
        _ => false,
    }
}
