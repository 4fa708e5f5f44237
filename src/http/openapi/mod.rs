//! The API as a document, made from the handlers themselves.

mod access;
mod closed;
mod examples;
mod parameters;
mod words;

use std::collections::BTreeMap;

use utoipa::openapi::{
    Content, ContentBuilder, HeaderBuilder, InfoBuilder, ObjectBuilder, OpenApi, OpenApiBuilder,
    Ref, RefOr, Response, ResponseBuilder, Type,
    extensions::Extensions,
    path::Operation,
    security::{
        ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme,
    },
    tag::TagBuilder,
};

use self::examples::Examples;
use super::error::{ErrorBody, ErrorDetail, OpenAiErrorBody, OpenAiErrorDetail, is_openai};

/// The whole document.
pub fn document() -> OpenApi {
    let (_, api) = super::router::routes().split_for_parts();
    finish(api)
}

pub(super) fn empty() -> OpenApi {
    let description = "Team chat in which AI agents are teammates. Errors are `{\"error\":{type,code,message,param?}}`; lists are \
                       `{\"object\":\"list\",data,has_more,first_id,last_id}`. Routes of a collection act in the workspace of the key, of the \
                       header `X-Workspace-Id`, or the only one that one is in. A method that an address does not have is answered 405. Each \
                       operation says in `x-access` the lowest role that may call it, and the scopes that a key needs for it (null: no \
                       key at all).";
    OpenApiBuilder::new()
        .info(
            InfoBuilder::new()
                .title("OpenVibe")
                .version(env!("CARGO_PKG_VERSION"))
                .description(Some(description))
                .build(),
        )
        .build()
}

/// Adds what all routes share: how to sign in, and the errors that each can answer.
pub(super) fn finish(mut api: OpenApi) -> OpenApi {
    let mut components = api.components.take().unwrap_or_default();
    components.add_security_scheme(
        "session",
        SecurityScheme::ApiKey(ApiKey::Cookie(ApiKeyValue::with_description(
            crate::auth::SESSION_COOKIE,
            "A browser session; requests that change something need an Origin of our own",
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
    for (name, schema) in [
        ("ErrorBody", <ErrorBody as utoipa::PartialSchema>::schema()),
        (
            "ErrorDetail",
            <ErrorDetail as utoipa::PartialSchema>::schema(),
        ),
        (
            "OpenAiErrorBody",
            <OpenAiErrorBody as utoipa::PartialSchema>::schema(),
        ),
        (
            "OpenAiErrorDetail",
            <OpenAiErrorDetail as utoipa::PartialSchema>::schema(),
        ),
    ] {
        components.schemas.insert(name.to_owned(), schema);
    }
    words::add(&mut components.schemas);
    closed::flatten(&mut components.schemas);
    api.components = Some(components);
    api.security = Some(vec![
        SecurityRequirement::new::<_, [&str; 0], &str>("session", []),
        SecurityRequirement::new::<_, [&str; 0], &str>("key", []),
    ]);
    // A parameter that takes several parts of a path is written `{*name}` by the router only.
    let paths = std::mem::take(&mut api.paths.paths);
    api.paths.paths = paths
        .into_iter()
        .map(|(path, item)| (path.replace("{*", "{"), item))
        .collect();
    let schemas = api
        .components
        .as_ref()
        .map(|c| serde_json::to_value(&c.schemas));
    let examples = Examples::new(schemas.and_then(Result::ok).unwrap_or_default());
    let mut shared = BTreeMap::new();
    for (path, item) in &mut api.paths.paths {
        let operations = [
            ("GET", &mut item.get),
            ("PUT", &mut item.put),
            ("POST", &mut item.post),
            ("PATCH", &mut item.patch),
            ("DELETE", &mut item.delete),
        ];
        for (method, operation) in operations {
            if let Some(operation) = operation {
                describe(operation);
                add_errors(path, operation, method != "GET", &mut shared);
                add_access(method, path, operation);
                parameters::add(path, operation);
                add_examples(path, operation, &examples);
            }
        }
    }
    if let Some(components) = &mut api.components {
        components.responses.extend(shared);
    }
    api.tags = Some(
        TAGS.iter()
            .map(|(name, text)| {
                TagBuilder::new()
                    .name(*name)
                    .description(Some(*text))
                    .build()
            })
            .collect(),
    );
    api
}

/// In the order in which somebody new reads them.
const TAGS: &[(&str, &str)] = &[
    ("accounts", "People and their sessions."),
    ("workspaces", "Where a team talks, and what holds for it."),
    ("people", "Members, invites, and what admins did."),
    (
        "keys",
        "Access for programs. A key acts as the member who made it, within its scopes.",
    ),
    (
        "boot",
        "What a client loads when it starts, and what happens from then on.",
    ),
    (
        "channels",
        "Public, private and direct channels, and who is in them.",
    ),
    ("threads", "Whatever is said in a channel starts a thread."),
    ("messages", "What people and agents say."),
    ("files", "What is attached to messages."),
    ("search", "Finding what was said."),
    (
        "forks",
        "Deep dives: thinking something through beside the thread, and their results.",
    ),
    (
        "outcomes",
        "What came of dives: decisions and action items.",
    ),
    (
        "tasks",
        "What agents were asked, what they saw, and how it went.",
    ),
    ("agents", "Profiles of agents, their versions and files."),
    ("admin", "What agents cost, and whether the model answers."),
    (
        "responses",
        "For clients of the OpenAI Responses API; errors have its shape.",
    ),
    ("health", "Whether the server lives, and its figures."),
];

/// Who may call it: for programs (`x-access`, `security`) and for people.
fn add_access(method: &str, path: &str, operation: &mut Operation) {
    let access = access::of(method, path);
    let who = match access.role {
        "anyone" => "anyone".to_owned(),
        "viewer" => "every role".to_owned(),
        "member" => "members and admins".to_owned(),
        other => format!("{other}s"),
    };
    let mut text = format!("**Who may:** {who}");
    match &access.scopes {
        _ if access.role == "anyone" => {}
        None => text.push_str("; the person only, no key"),
        Some(scopes) if scopes.is_empty() => text.push_str("; any key"),
        Some(scopes) => {
            let names: Vec<String> = scopes.iter().map(|scope| format!("`{scope}`")).collect();
            text.push_str("; a key with ");
            text.push_str(&names.join(" and "));
        }
    }
    text.push('.');
    if !access.note.is_empty() {
        text.push(' ');
        text.push_str(access.note);
    }
    operation.description = Some(match operation.description.take() {
        Some(said) if !said.is_empty() => format!("{said}\n\n{text}"),
        _ => text,
    });
    if access.role != "anyone" && access.scopes.is_none() {
        operation.security = Some(vec![SecurityRequirement::new::<_, [&str; 0], &str>(
            "session",
            [],
        )]);
    }
    let said = serde_json::json!({"role": access.role, "scopes": access.scopes});
    let extensions = Extensions::builder().add("x-access", said).build();
    match &mut operation.extensions {
        Some(present) => present.merge(extensions),
        none => *none = Some(extensions),
    }
}

fn add_examples(path: &str, operation: &mut Operation, examples: &Examples) {
    let made = |content: &Content| {
        let schema = serde_json::to_value(content.schema.as_ref()?).ok()?;
        Some(examples.of(&schema))
    };
    let own = operation
        .operation_id
        .as_deref()
        .and_then(examples::request);
    if let Some(RefOr::T(body)) = &mut operation.request_body {
        for (kind, content) in &mut body.content {
            let Some(content) = lacking(kind, content) else {
                continue;
            };
            content.example = own.clone().or_else(|| made(content));
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
                examples::error(status, is_openai(path))
            };
        }
    }
}

/// JSON for which there is no example yet.
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

/// Every answer has a description, as the specification asks.
fn describe(operation: &mut Operation) {
    for (status, response) in &mut operation.responses.responses {
        if let RefOr::T(response) = response
            && response.description.is_empty()
        {
            let text = match status.as_str() {
                "201" => "Made",
                "204" => "Done",
                _ => "The answer",
            };
            text.clone_into(&mut response.description);
        }
    }
}

/// Adds the errors that an operation shares with others, each written down once (`#/components/responses`).
fn add_errors(
    path: &str,
    operation: &mut Operation,
    changes: bool,
    shared: &mut BTreeMap<String, RefOr<Response>>,
) {
    let is_public = operation
        .security
        .as_ref()
        .is_some_and(|list| !list.is_empty());
    let has_body = operation.request_body.is_some();
    let openai = is_openai(path);
    let own = &mut operation.responses.responses;
    if path == "/metrics" {
        for (status, what) in [
            ("401", "Without the token, where one is set"),
            ("403", "Not from this machine"),
        ] {
            let response = RefOr::T(error_response(status, what, false));
            own.insert(status.to_owned(), response);
        }
    }
    let mut add = |status: &str, what: &str| {
        let name = format!("{}Error{status}", if openai { "OpenAi" } else { "" });
        shared
            .entry(name.clone())
            .or_insert_with(|| RefOr::T(error_response(status, what, openai)));
        own.entry(status.to_owned())
            .or_insert_with(|| RefOr::Ref(Ref::from_response_name(name)));
    };
    add("503", "The server starts, stops, or has no database");
    if !path.starts_with("/v1") {
        return;
    }
    add("400", "The request is malformed, or no workspace is named");
    if !is_public {
        add("401", "Not signed in");
    }
    add(
        "403",
        "Role or key do not allow it, or the request comes from another site",
    );
    add("404", "It does not exist, or one may not see it");
    if changes {
        add("409", "It conflicts with what is there");
        add("422", "A value breaks a rule");
    }
    if has_body {
        add("413", "The body is too large");
    }
    add("429", "Too many requests: wait as Retry-After says");
    add("500", "Something went wrong here");
}

fn error_response(status: &str, what: &str, openai: bool) -> Response {
    let schema = if openai {
        "OpenAiErrorBody"
    } else {
        "ErrorBody"
    };
    let content = ContentBuilder::new()
        .schema(Some(RefOr::<utoipa::openapi::Schema>::Ref(
            Ref::from_schema_name(schema),
        )))
        .example(examples::error(status, openai))
        .build();
    let response = ResponseBuilder::new()
        .description(what)
        .content("application/json", content);
    if status != "429" {
        return response.build();
    }
    let seconds = ObjectBuilder::new()
        .schema_type(Type::Integer)
        .minimum(Some(1));
    let seconds = HeaderBuilder::new()
        .schema(Some(seconds))
        .description(Some("Whole seconds to wait"));
    response.header("Retry-After", seconds.build()).build()
}

/// `GET /openapi.json`
pub async fn serve(headers: axum::http::HeaderMap) -> axum::response::Response {
    use std::sync::LazyLock;

    use axum::{http::header, response::IntoResponse};

    use super::{encoding, unsent::InProgram};

    static TEXT: LazyLock<String> =
        LazyLock::new(|| document().to_json().unwrap_or_else(|_| "{}".to_owned()));
    static GZIP: LazyLock<Option<Vec<u8>>> = LazyLock::new(|| encoding::gzip(TEXT.as_bytes()).ok());
    let described = [
        (header::CONTENT_TYPE, "application/json"),
        (header::VARY, "accept-encoding"),
    ];
    let accepted = encoding::accepts(&headers, "gzip");
    let mut response = match GZIP.as_deref().filter(|_| accepted) {
        Some(gzip) => {
            let encoded = [(header::CONTENT_ENCODING, "gzip")];
            (described, encoded, gzip).into_response()
        }
        None => (described, TEXT.as_str()).into_response(),
    };
    response.extensions_mut().insert(InProgram);
    response
}
