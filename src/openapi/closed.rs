//! Flattens closed objects inside an `allOf`. serde reads a tagged or flattened type part by part, and each part may
//! reject unknown fields. In JSON Schema, a closed part (`additionalProperties: false`) rejects the fields of the other
//! parts, so that no value satisfies the `allOf`. This module replaces such an `allOf` with the schema that the server
//! accepts: one closed object, or one per variant.

use utoipa::openapi::{
    RefOr, Schema,
    schema::{AdditionalProperties, AllOf, Object, OneOfBuilder},
};

use super::{Schemas, walk::for_each_part};

/// Flattens every `allOf` that contains a closed object, and removes schemas that are no longer referenced.
pub(super) fn flatten(schemas: &mut Schemas) {
    let given = schemas.clone();
    let mut pieces = Vec::new();
    for schema in schemas.values_mut() {
        flatten_one(schema, &given, &mut pieces);
    }
    for piece in pieces {
        let at = format!("\"#/components/schemas/{piece}\"");
        if !serde_json::to_string(schemas).is_ok_and(|text| text.contains(&at)) {
            schemas.remove(&piece);
        }
    }
}

fn flatten_one(schema: &mut RefOr<Schema>, given: &Schemas, pieces: &mut Vec<String>) {
    let RefOr::T(inner) = schema else {
        return;
    };
    if let Schema::AllOf(all) = inner
        && let Some(mut shapes) = shapes_of_all(all, given)
        && shapes.iter().any(is_closed)
    {
        pieces.extend(all.items.iter().filter_map(name).map(str::to_owned));
        let description = all.description.take();
        *inner = if shapes.len() == 1 {
            let mut shape = shapes.remove(0);
            shape.description = description.or(shape.description);
            Schema::Object(shape)
        } else {
            let items = shapes.into_iter().map(Schema::Object);
            let one = items.fold(OneOfBuilder::new(), OneOfBuilder::item);
            Schema::OneOf(one.description(description).build())
        };
    }
    let is_choice = matches!(inner, Schema::OneOf(_));
    for_each_part(inner, |part| {
        let title = variant(part).filter(|_| is_choice);
        flatten_one(part, given, pieces);
        if let RefOr::T(Schema::Object(object)) = part {
            object.title = object.title.take().or(title);
        }
    });
}

fn name(schema: &RefOr<Schema>) -> Option<&str> {
    match schema {
        RefOr::Ref(at) => at.ref_location.rsplit('/').next(),
        RefOr::T(_) => None,
    }
}

/// Name of a variant, which is the name of the schema next to its tag.
fn variant(schema: &RefOr<Schema>) -> Option<String> {
    match schema {
        RefOr::T(Schema::AllOf(all)) => all.items.iter().find_map(name).map(str::to_owned),
        _ => None,
    }
}

fn is_closed(object: &Object) -> bool {
    matches!(
        object.additional_properties.as_deref(),
        Some(AdditionalProperties::FreeForm(false))
    )
}

/// Returns the objects that match the schema, one per variant, each with all of its fields. Returns `None` if the schema also matches
/// other types.
fn shapes(schema: &RefOr<Schema>, given: &Schemas) -> Option<Vec<Object>> {
    let schema = match schema {
        RefOr::Ref(_) => return shapes(given.get(name(schema)?)?, given),
        RefOr::T(schema) => schema,
    };
    match schema {
        Schema::Object(object) => Some(vec![object.clone()]),
        Schema::AllOf(all) => shapes_of_all(all, given),
        Schema::OneOf(one) => {
            let mut each = Vec::new();
            for item in &one.items {
                for mut shape in shapes(item, given)? {
                    shape.title = shape.title.or_else(|| variant(item));
                    each.push(shape);
                }
            }
            Some(each)
        }
        _ => None,
    }
}

fn shapes_of_all(all: &AllOf, given: &Schemas) -> Option<Vec<Object>> {
    let mut whole = vec![Object::new()];
    for item in &all.items {
        let parts = shapes(item, given)?;
        let joined = whole
            .iter()
            .flat_map(|left| parts.iter().map(move |right| join(left, right)));
        whole = joined.collect();
    }
    Some(whole)
}

/// Merges two objects; the fields of `right` take precedence.
fn join(left: &Object, right: &Object) -> Object {
    let mut both = left.clone();
    both.properties.extend(right.properties.clone());
    for name in &right.required {
        if !both.required.contains(name) {
            both.required.push(name.clone());
        }
    }
    both.title = both.title.or(right.title.clone());
    both.description = both.description.or(right.description.clone());
    if is_closed(right) {
        both.additional_properties
            .clone_from(&right.additional_properties);
    }
    both
}
