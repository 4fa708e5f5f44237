//! Descriptions of parameters, taken from their types, and the header that selects the workspace.

use utoipa::openapi::{
    Ref, RefOr, Required, Schema,
    path::{Operation, Parameter, ParameterBuilder, ParameterIn},
};

use super::Schemas;

/// Gives a parameter the description of its type, unless the handler describes it.
fn describe(parameter: &mut Parameter, schemas: &Schemas) {
    if parameter.description.as_ref().is_none_or(String::is_empty)
        && let Some(schema) = &parameter.schema
    {
        parameter.description = description(schema, schemas);
    }
}

fn description(schema: &RefOr<Schema>, schemas: &Schemas) -> Option<String> {
    match schema {
        RefOr::Ref(at) => description(schemas.get(at.ref_location.rsplit('/').next()?)?, schemas),
        RefOr::T(Schema::Object(object)) => object.description.clone(),
        RefOr::T(Schema::OneOf(one)) => {
            one.items.iter().find_map(|item| description(item, schemas))
        }
        RefOr::T(_) => None,
    }
}

/// Checks whether a route has no object ID in its path and therefore acts in the workspace that the header or key selects.
fn is_collection(path: &str, operation: &Operation) -> bool {
    path.starts_with("/v1/")
        && !super::is_public(operation)
        && !path.starts_with("/v1/auth")
        && path != "/v1/workspaces"
        && path != "/v1/ws"
        && (!path.contains("{id}") || path == "/v1/models/{id}")
}

/// Describes all parameters, and adds `X-Workspace-Id` to collection routes.
pub(super) fn add(path: &str, operation: &mut Operation, schemas: &Schemas) {
    let in_workspace = is_collection(path, operation);
    let parameters = operation.parameters.get_or_insert_default();
    for parameter in parameters.iter_mut() {
        if let RefOr::T(parameter) = parameter {
            describe(parameter, schemas);
        }
    }
    if in_workspace {
        let text = "The workspace; required for people who are members of several.";
        parameters.push(RefOr::T(
            ParameterBuilder::new()
                .name("X-Workspace-Id")
                .parameter_in(ParameterIn::Header)
                .required(Required::False)
                .description(Some(text))
                .schema(Some(Ref::from_schema_name("WorkspaceId")))
                .build(),
        ));
    }
    if parameters.is_empty() {
        operation.parameters = None;
    }
}
