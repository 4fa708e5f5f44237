//! Constant fields and lists. The fuzzer (`tests/fuzz`) checks that responses have no other values.

use utoipa::openapi::{
    Ref, RefOr, Schema,
    schema::{ArrayItems, SchemaType, Type},
};

use super::Schemas;

/// Adds the values of constant fields, and references to the item schemas of lists.
pub(super) fn add(schemas: &mut Schemas) {
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
