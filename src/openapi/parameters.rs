//! Descriptions of path, query, and header parameters that their handlers do not describe.

use utoipa::openapi::{
    Ref, RefOr, Required,
    path::{Operation, Parameter, ParameterBuilder, ParameterIn},
};

use super::examples;

/// Description of a parameter that its handler does not describe.
fn meaning(path: &str, parameter: &Parameter) -> String {
    let kind = path.trim_start_matches("/v1/").split('/').next();
    let text = match (parameter.name.as_str(), kind.unwrap_or_default()) {
        ("id", "channels") => "The channel.",
        ("id", "threads") => "The thread.",
        ("id", "messages") => "The message.",
        ("id", "forks") => "The deep dive.",
        ("id", "tasks") => "The task.",
        ("id", "agents") => "The agent: its ID, or `main` for the default agent of the workspace.",
        ("id", "workspaces") => "The workspace.",
        ("id", "invites") => "The invite: its ID, or the token from its link to view or accept it.",
        ("id", "api-keys") => "The key.",
        ("id", "action-items") => "The action item.",
        ("id", "sandbox-policies") => "The sandbox policy.",
        ("id", "responses") => "The response: `resp_…`.",
        ("id", "models") => "The name of a model, or `agent:NAME`.",
        ("id", "auth") => "The session.",
        ("id", "files") => "The file.",
        ("user_id", _) => "The person.",
        ("path", _) => "A relative name such as `SOUL.md` or `memory/2026-11-20.md`.",
        ("emoji", _) => "One emoji, percent-encoded.",
        ("method", _) => "One of the methods listed above.",
        ("version", _) => "The version number.",
        ("If-Match", _) => {
            "The version that you have read, from its `ETag`; a stale version gets 409."
        }
        ("limit", _) => "1 to 100.",
        ("after", _) => "Only objects after the one with this ID.",
        ("before", _) => "Only objects before the one with this ID.",
        ("cursor", _) => "The `next_cursor` of the previous page.",
        ("thread_id", _) => "Only from this thread.",
        ("channel_id", _) => "Only from this channel.",
        ("agent_id", _) => "Only from this agent.",
        _ => "",
    };
    text.to_owned()
}

/// Checks whether a route has no object in its path, so that it acts in the workspace of the header or key.
fn is_collection(path: &str, operation: &Operation) -> bool {
    path.starts_with("/v1/")
        && !super::is_public(operation)
        && !path.starts_with("/v1/auth")
        && path != "/v1/workspaces"
        && path != "/v1/ws"
        && (!path.contains("{id}") || path == "/v1/models/{id}")
}

/// Adds descriptions, schemas, and examples of all parameters, and `X-Workspace-Id` to collection routes.
pub(super) fn add(path: &str, operation: &mut Operation) {
    let in_workspace = is_collection(path, operation);
    let parameters = operation.parameters.get_or_insert_default();
    for parameter in parameters.iter_mut() {
        if let RefOr::T(parameter) = parameter
            && parameter.description.as_ref().is_none_or(String::is_empty)
        {
            parameter.description = Some(meaning(path, parameter)).filter(|text| !text.is_empty());
        }
        if let RefOr::T(parameter) = parameter {
            let example = examples::parameter(&parameter.name);
            *parameter = ParameterBuilder::from(std::mem::take(parameter))
                .example(example)
                .build();
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
