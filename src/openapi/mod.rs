//! The `OpenAPI` document, generated from the handlers.

mod closed;
mod errors;
mod examples;
mod parameters;
mod required;
mod walk;

use std::collections::BTreeMap;

use utoipa::{
    OpenApi as _,
    openapi::{
        Components, Content, OpenApi, RefOr, Schema,
        path::{Operation, PathItem},
        security::{
            ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme,
        },
    },
};

use self::examples::Examples;
use crate::auth::{Role, RouteReach, Scope, guests};
use crate::http::error::{ErrorBody, OpenAiErrorBody, is_openai};

/// The document without routes. Tags are in the order in which newcomers should read them.
#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "OpenVibe",
        description = "Team chat in which AI agents are teammates. Errors are `{\"error\":{type,code,message,param?}}`; lists are \
                       `{\"object\":\"list\",data,has_more,first_id,last_id}`. Collection routes act in the workspace of the key, of the \
                       header `X-Workspace-Id`, or in the only workspace of the caller. Unsupported methods get status 405. In the \
                       `security` of each operation, `session` lists the lowest role that can call it and, if guests can, `guest`, and \
                       `key` the scopes that a key needs; without `key`, keys are not accepted."
    ),
    components(schemas(ErrorBody, OpenAiErrorBody)),
    security(("session" = []), ("key" = [])),
    tags(
        (name = "accounts", description = "People and their sessions."),
        (name = "workspaces", description = "Workspaces and their settings."),
        (name = "people", description = "Members, invites, and the audit log."),
        (name = "keys", description = "Access for programs. A key acts as the member who created it, within its scopes."),
        (name = "boot", description = "The state that a client loads at startup, and live events."),
        (name = "inbox", description = "What wants a person's attention: mentions, replies, results, approvals, and saved messages."),
        (name = "channels", description = "Public, private, and direct channels, and their members."),
        (name = "threads", description = "Each message posted to a channel starts a thread."),
        (name = "messages", description = "Messages from people and agents."),
        (name = "files", description = "Uploads and attachments."),
        (name = "search", description = "Full-text search."),
        (name = "forks", description = "Deep dives: side conversations of a thread, and their results."),
        (name = "outcomes", description = "Results of deep dives: decisions and action items."),
        (name = "tasks", description = "Work of agents: requests, context, and status."),
        (name = "actions", description = "Tool calls by agents, and the approvals that they need."),
        (name = "agents", description = "Agent profiles, their versions, and files."),
        (name = "code", description = "Runners, the repositories that they offer, and the work of agents on them."),
        (name = "workflows", description = "Lists of steps that agents and people work through."),
        (name = "schedules", description = "Agents and workflows that run at certain times."),
        (name = "integrations", description = "Incoming webhooks, through which programs post messages, and their bots."),
        (name = "memory", description = "What agents remember: sentences with their sources, which people can see, correct, and forget."),
        (name = "admin", description = "Usage of agents, and a connection test for the model."),
        (name = "responses", description = "For clients of the OpenAI API (Responses, Chat Completions, Models), with its error format."),
        (name = "mcp", description = "For clients of the Model Context Protocol."),
        (name = "health", description = "Liveness, readiness, and metrics."),
    )
)]
struct WithoutRoutes;

pub fn empty() -> OpenApi {
    let mut api = WithoutRoutes::openapi();
    // The derive copies these from the Cargo manifest.
    (api.info.license, api.info.contact) = (None, None);
    api
}

/// `#/components/schemas`
type Schemas = BTreeMap<String, RefOr<Schema>>;

/// Adds the parts that all routes share: security schemes, errors, access, parameters, and examples.
pub fn finish(mut api: OpenApi) -> OpenApi {
    let mut components = api.components.take().unwrap_or_default();
    add_security_schemes(&mut components);
    required::require(&mut components.schemas, &mut api.paths);
    closed::flatten(&mut components.schemas);
    api.components = Some(components);
    // Wildcard parameters are `{*name}` in the router, but `{name}` in the document.
    let paths = std::mem::take(&mut api.paths.paths);
    api.paths.paths = paths
        .into_iter()
        .map(|(path, item)| (path.replace("{*", "{"), item))
        .collect();
    let described = api
        .components
        .as_ref()
        .map(|c| c.schemas.clone())
        .unwrap_or_default();
    let examples = Examples::new(serde_json::to_value(&described).unwrap_or_default());
    let mut shared = BTreeMap::new();
    for (path, item) in &mut api.paths.paths {
        for (method, operation) in operations(item) {
            describe(operation);
            errors::add(path, operation, method != "GET", &mut shared);
            add_access(method, path, operation);
            parameters::add(path, operation, &described);
            add_examples(path, operation, &examples);
        }
    }
    if let Some(components) = &mut api.components {
        components.responses.extend(shared);
    }
    api
}

/// The operations of a path, with their methods.
fn operations(item: &mut PathItem) -> impl Iterator<Item = (&'static str, &mut Operation)> {
    let all = [
        ("GET", &mut item.get),
        ("PUT", &mut item.put),
        ("POST", &mut item.post),
        ("PATCH", &mut item.patch),
        ("DELETE", &mut item.delete),
    ];
    let given = all.into_iter();
    given.filter_map(|(method, operation)| Some((method, operation.as_mut()?)))
}

fn add_security_schemes(components: &mut Components) {
    components.add_security_scheme(
        "session",
        SecurityScheme::ApiKey(ApiKey::Cookie(ApiKeyValue::with_description(
            crate::auth::SESSION_COOKIE,
            "A browser session; requests that change data need the server's own Origin",
        ))),
    );
    components.add_security_scheme(
        "key",
        SecurityScheme::Http(
            HttpBuilder::new()
                .scheme(HttpAuthScheme::Bearer)
                .description(Some("An API key, `ov_…`"))
                .build(),
        ),
    );
}

/// Access that the `security` attribute of a handler states: the lowest role of a session, and the scopes, all of which a key needs.
/// `auth::guests` states whether the route accepts guests as well.
struct Access {
    role: Option<Role>,
    guests: RouteReach,
    scopes: Option<Vec<Scope>>,
}

impl Access {
    /// Reads the access from the `security` attribute.
    ///
    /// # Panics
    /// If the handler has no such attribute, or one with an unknown role or scope; a test builds the whole document.
    fn of(method: &str, path: &str, operation: &Operation) -> Self {
        let security = operation.security.as_ref().unwrap_or_else(|| {
            panic!("{method} {path} has no `security`: state who can call it at its handler")
        });
        let mut access = Self {
            role: None,
            guests: guests::reach_of(method, path),
            scopes: None,
        };
        for requirement in security {
            let unknown = |e: serde_json::Error| -> ! { panic!("{method} {path}: {e}") };
            let named = serde_json::to_value(requirement).unwrap_or_default();
            let roles: Option<Vec<Role>> =
                serde_json::from_value(named["session"].clone()).unwrap_or_else(|e| unknown(e));
            let scopes: Option<Vec<Scope>> =
                serde_json::from_value(named["key"].clone()).unwrap_or_else(|e| unknown(e));
            access.role = access.role.or(roles.and_then(|mut roles| roles.pop()));
            access.scopes = access.scopes.or(scopes);
        }
        access
    }

    /// Describes the access in words.
    fn describe(&self) -> String {
        let mut text = match self.role {
            None if self.scopes.is_some() => "**Access:** no sessions".to_owned(),
            None => return "**Access:** anyone.".to_owned(),
            Some(Role::Viewer | Role::Guest) if self.guests == RouteReach::Guests => {
                "**Access:** every role".to_owned()
            }
            Some(Role::Viewer | Role::Guest) => "**Access:** every role except guests".to_owned(),
            Some(Role::Member) if self.guests == RouteReach::Guests => {
                "**Access:** guests, members, and admins".to_owned()
            }
            Some(Role::Member) => "**Access:** members and admins".to_owned(),
            Some(Role::Admin) => "**Access:** admins".to_owned(),
        };
        match self.scopes.as_deref() {
            None => text.push_str("; with a session only, not a key"),
            Some([]) => text.push_str("; with any key"),
            Some(scopes) => {
                text.push_str("; keys need `");
                let scopes: Vec<_> = scopes.iter().map(|scope| scope.as_str()).collect();
                text.push_str(&scopes.join("` and `"));
                text.push('`');
            }
        }
        text.push('.');
        text
    }
}

/// Adds the required access to the description of an operation, and guests to its `security`.
fn add_access(method: &str, path: &str, operation: &mut Operation) {
    let access = Access::of(method, path, operation);
    if let (Some(role), RouteReach::Guests) = (access.role, access.guests) {
        let roles = [role, Role::Guest].map(Role::as_str);
        for requirement in operation.security.iter_mut().flatten() {
            let named = serde_json::to_value(&*requirement).unwrap_or_default();
            if named.get("session").is_some() {
                *requirement = SecurityRequirement::new("session", roles);
            }
        }
    }
    let text = access.describe();
    operation.description = Some(match operation.description.take() {
        Some(given) if !given.is_empty() => format!("{given}\n\n{text}"),
        _ => text,
    });
}

fn add_examples(path: &str, operation: &mut Operation, examples: &Examples) {
    let made = |content: &Content| {
        let schema = serde_json::to_value(content.schema.as_ref()?).ok()?;
        Some(examples.of(&schema))
    };
    if let Some(RefOr::T(body)) = &mut operation.request_body {
        for (kind, content) in &mut body.content {
            let Some(content) = lacking(kind, content) else {
                continue;
            };
            content.example = made(content);
        }
    }
    for (status, response) in &mut operation.responses.responses {
        let RefOr::T(response) = response else {
            continue;
        };
        for (kind, content) in &mut response.content {
            let Some(content) = lacking(kind, content) else {
                continue;
            };
            content.example = if status.starts_with('2') {
                made(content)
            } else {
                errors::example(status, is_openai(path))
            };
        }
    }
}

/// Returns the content if it is JSON without an example.
fn lacking<'a>(kind: &str, content: &'a mut RefOr<Content>) -> Option<&'a mut Content> {
    match content {
        RefOr::T(content)
            if kind == "application/json"
                && content.example.is_none()
                && content.examples.is_empty() =>
        {
            Some(content)
        }
        _ => None,
    }
}

/// Fills in response descriptions, which the specification requires.
fn describe(operation: &mut Operation) {
    for (status, response) in &mut operation.responses.responses {
        if let RefOr::T(response) = response
            && response.description.is_empty()
        {
            let text = match status.as_str() {
                "201" => "Created",
                "204" => "Done",
                _ => "Success",
            };
            text.clone_into(&mut response.description);
        }
    }
}

/// Checks whether the operation needs neither a session nor a key.
fn is_public(operation: &Operation) -> bool {
    operation.security == Some(vec![SecurityRequirement::default()])
}
