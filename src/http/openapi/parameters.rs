//! What parameters of paths, queries and headers mean and may be, where their handlers take them as text.

use utoipa::openapi::{
    ObjectBuilder, Ref, RefOr, Required, Schema, Type,
    path::{Operation, Parameter, ParameterBuilder, ParameterIn},
};

use super::examples;

/// Queries that take one word of a few.
const WORDS: &[(&str, &str, &[&str])] = &[
    ("/v1/agents", "status", &["active", "inactive", "archived"]),
    ("/v1/audit-log", "order", &["oldest", "newest"]),
    (
        "/v1/tasks",
        "status",
        &["queued", "running", "completed", "failed", "cancelled"],
    ),
    (
        "/v1/usage",
        "group_by",
        &["person", "agent", "month", "model"],
    ),
];

/// What the ids of a list are, by the last part of its path. A search takes times as well, and events are numbered.
fn listed(last: &str) -> Option<&'static str> {
    Some(match last {
        "action-items" => "ActionItemId",
        "agents" => "AgentId",
        "api-keys" => "ApiKeyId",
        "audit-log" => "AuditEntryId",
        "channels" => "ChannelId",
        "forks" => "ForkId",
        "invites" => "InviteId",
        "members" => "UserId",
        "messages" => "MessageId",
        "resolutions" => "ResolutionId",
        "sessions" => "SessionId",
        "tasks" => "TaskId",
        "workspaces" => "WorkspaceId",
        _ => return None,
    })
}

/// What the query's text has to be. Handlers read it as text, so that a mistake in it is answered like every other one.
fn values(path: &str, parameter: &Parameter) -> Option<RefOr<Schema>> {
    if parameter.parameter_in != ParameterIn::Query {
        return None;
    }
    let name = parameter.name.as_str();
    let text = |kind| ObjectBuilder::new().schema_type(kind);
    if let Some((.., words)) = WORDS.iter().find(|(p, n, _)| (*p, *n) == (path, name)) {
        let word = text(Type::String).enum_values(Some(words.iter().copied()));
        return Some(word.into());
    }
    let id = match name {
        "before" | "after" | "around" => listed(path.rsplit('/').next()?)?,
        "thread_id" => "ThreadId",
        "channel_id" => "ChannelId",
        "agent_id" => "AgentId",
        "actor_id" => "UserId",
        "done" => return Some(text(Type::Boolean).into()),
        "from" | "to" => {
            let month = text(Type::String).pattern(Some("^[0-9]{4}-(0[1-9]|1[0-2])$"));
            return Some(month.into());
        }
        _ => return None,
    };
    Some(Ref::from_schema_name(id).into())
}

/// What a parameter is, where its handler does not say so.
fn meaning(path: &str, parameter: &Parameter) -> String {
    let kind = path.trim_start_matches("/v1/").split('/').next();
    let text = match (parameter.name.as_str(), kind.unwrap_or_default()) {
        ("id", "channels") => "The channel.",
        ("id", "threads") => "The thread.",
        ("id", "messages") => "The message.",
        ("id", "forks") => "The deep dive.",
        ("id", "tasks") => "The task.",
        ("id", "agents") => "The agent: its id, or `main` for the workspace's default.",
        ("id", "workspaces") => "The workspace.",
        ("id", "invites") => "The invite: its id, or where one opens it the token of its link.",
        ("id", "api-keys") => "The key.",
        ("id", "action-items") => "The action item.",
        ("id", "sandbox-policies") => "The sandbox policy.",
        ("id", "responses") => "The answer: `resp_…`.",
        ("id", "models") => "A model's name, or `agent:NAME`.",
        ("id", "auth") => "The session.",
        ("id", "files") => "The file.",
        ("user_id", _) => "The person.",
        ("path", _) => "A relative name such as `SOUL.md` or `memory/2026-11-20.md`.",
        ("emoji", _) => "One emoji, percent-encoded.",
        ("method", _) => "One of those above.",
        ("version", _) => "The number of a version.",
        ("If-Match", _) => {
            "The version that one has seen, as its `ETag` said; another one is refused with 409."
        }
        ("limit", _) => "1 to 100.",
        ("after", _) => "Only what comes after the object with this id.",
        ("before", _) => "Only what comes before the object with this id.",
        ("cursor", _) => "The `next_cursor` of the page before.",
        ("thread_id", _) => "Only of this thread.",
        ("channel_id", _) => "Only of this channel.",
        ("agent_id", _) => "Only of this agent.",
        _ => "",
    };
    text.to_owned()
}

/// Whether a route names no object, so that it acts in the workspace of a header or key.
fn is_collection(path: &str, operation: &Operation) -> bool {
    let needs_nobody = operation.security.as_ref().is_some_and(|list| {
        serde_json::to_value(list).is_ok_and(|list| list == serde_json::json!([{}]))
    });
    path.starts_with("/v1/")
        && !needs_nobody
        && !path.starts_with("/v1/auth")
        && path != "/v1/workspaces"
        && path != "/v1/ws"
        && (!path.contains("{id}") || path == "/v1/models/{id}")
}

/// Says of every parameter what it is and what it may be, and adds the workspace where a route acts in one.
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
            if let Some(schema) = values(path, parameter) {
                parameter.schema = Some(schema);
            }
            let example = examples::parameter(&parameter.name);
            *parameter = ParameterBuilder::from(std::mem::take(parameter))
                .example(example)
                .build();
        }
    }
    if in_workspace {
        let text = "The workspace; needed by a person who is in several.";
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
