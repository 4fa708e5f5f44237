//! Visits the parts of a schema.

use utoipa::openapi::{
    RefOr, Schema,
    schema::{AdditionalProperties, ArrayItems},
};

/// Calls `visit` for each schema that is directly inside `schema`.
pub(super) fn for_each_part(schema: &mut Schema, mut visit: impl FnMut(&mut RefOr<Schema>)) {
    match schema {
        Schema::Object(object) => {
            object.properties.values_mut().for_each(&mut visit);
            let others = object.additional_properties.as_deref_mut();
            if let Some(AdditionalProperties::RefOr(value)) = others {
                visit(value);
            }
        }
        Schema::Array(array) => {
            if let ArrayItems::RefOrSchema(items) = &mut array.items {
                visit(items);
            }
        }
        Schema::OneOf(one) => one.items.iter_mut().for_each(visit),
        Schema::AllOf(all) => all.items.iter_mut().for_each(visit),
        Schema::AnyOf(any) => any.items.iter_mut().for_each(visit),
        _ => {}
    }
}
