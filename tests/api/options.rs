//! Options: every field that a client can set has an effect, or the server says that it has none.
//!
//! The fields of agents, policies, channels, workflows, schedules, and requests to the `OpenAI` APIs are read from `openapi.json`. Those
//! of requests, and those that shape the prompt of an agent, are set here, one by one. Each of the others names the test that
//! shows its effect.

use std::{collections::BTreeSet, path::Path};

use serde_json::{Value, json};

use crate::{
    shapes::undated,
    support::{Reply, Team, id, instructions_of, list, team, team_with, text},
};

/// Schemas of `openapi.json`, and the first part of their fields' paths.
const FORMS: [(&str, &str); 7] = [
    ("agent", "NewAgent"),
    ("channel", "ChannelPatch"),
    ("completion", "CreateChatCompletion"),
    ("policy", "PolicyPatch"),
    ("response", "CreateResponse"),
    ("schedule", "ScheduleForm"),
    ("workflow", "WorkflowForm"),
];

/// Fields, and the tests that show their effect.
const ELSEWHERE: &str = include_str!("options.txt");
/// Mark of fields that are ignored in requests.
const IGNORED: &str = "ignored";

/// Adds the paths of all fields of a schema. `within` are the schemas that contain it, because steps contain steps.
fn add_fields<'a>(
    schemas: &'a Value,
    schema: &'a Value,
    path: &str,
    within: &[&'a str],
    found: &mut BTreeSet<String>,
) {
    if let Some(reference) = schema["$ref"].as_str() {
        let name = reference.rsplit('/').next().unwrap();
        if !within.contains(&name) {
            let within = [within, &[name]].concat();
            add_fields(schemas, &schemas[name], path, &within, found);
        }
        return;
    }
    for (name, part) in schema["properties"].as_object().into_iter().flatten() {
        let description = part["description"].as_str().unwrap_or_default();
        if !description.starts_with("Set by the server") {
            let path = format!("{path}.{name}");
            add_fields(schemas, part, &path, within, found);
            found.insert(path);
        }
    }
    let alternatives = ["oneOf", "anyOf", "allOf"].map(|key| schema[key].as_array());
    for part in alternatives.into_iter().flatten().flatten() {
        add_fields(schemas, part, path, within, found);
    }
    if schema["items"].is_object() {
        add_fields(schemas, &schema["items"], path, within, found);
    }
}

/// Paths of all fields that contain no others.
fn options(openapi: &Value) -> BTreeSet<String> {
    let schemas = &openapi["components"]["schemas"];
    let mut found = BTreeSet::new();
    for (path, schema) in FORMS {
        add_fields(schemas, &schemas[schema], path, &[schema], &mut found);
    }
    let contains_others = |path: &str| {
        let start = format!("{path}.");
        found.iter().any(|other| other.starts_with(&start))
    };
    let paths = found.iter().filter(|path| !contains_others(path.as_str()));
    paths.cloned().collect()
}

/// Checks that a test exists, which is named `FILE::TEST`.
fn exists(test: &str) -> bool {
    let (file, name) = test.rsplit_once("::").unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = if file.starts_with("src/") {
        root.to_owned()
    } else {
        root.join("tests/api")
    };
    let source = std::fs::read_to_string(root.join(format!("{file}.rs")));
    source.is_ok_and(|source| source.contains(&format!("fn {name}(")))
}

/// Options of requests to `/v1/responses`, each with what else the request contains.
fn response_options(t: &Made) -> Vec<(&'static str, Value, Value)> {
    let none = || json!({});
    let functions =
        || json!({"tools": [{"type": "function", "name": "f", "parameters": {"type": "object"}}]});
    vec![
        ("agent_id", json!(t.agent), none()),
        ("background", json!(true), none()),
        ("conversation", json!("conv_1"), none()),
        ("frequency_penalty", json!(0.5), none()),
        ("include", json!(["new.thing"]), none()),
        ("input", json!("Ho"), none()),
        ("instructions", json!("Be brief."), none()),
        ("max_output_tokens", json!(55), none()),
        ("max_tool_calls", json!(0), json!({"model": "agent:sage"})),
        ("metadata", json!({"job": "sums"}), none()),
        ("model", json!("agent:sage"), none()),
        ("parallel_tool_calls", json!(false), functions()),
        ("presence_penalty", json!(0.5), none()),
        ("previous_response_id", json!(t.response), none()),
        ("prompt", json!({"id": "p"}), none()),
        ("prompt_cache_key", json!("k"), none()),
        ("prompt_cache_retention", json!("24h"), none()),
        ("reasoning", json!({"effort": "low"}), none()),
        ("safety_identifier", json!("s"), none()),
        ("seed", json!(5), none()),
        ("service_tier", json!("flex"), none()),
        ("store", json!(false), none()),
        ("stream", json!(true), none()),
        ("stream_options", json!({"include_usage": true}), none()),
        ("temperature", json!(0.3), none()),
        ("text", json!({"format": {"type": "json_object"}}), none()),
        ("tool_choice", json!("required"), functions()),
        ("tools", functions()["tools"].clone(), none()),
        ("top_logprobs", json!(2), none()),
        ("top_p", json!(0.3), none()),
        ("truncation", json!("auto"), none()),
        ("user", json!("u"), none()),
    ]
}

/// Options of requests to `/v1/chat/completions`, each with what else the request contains.
fn completion_options(t: &Made) -> Vec<(&'static str, Value, Value)> {
    let none = || json!({});
    let f = json!({"name": "f", "parameters": {"type": "object"}});
    let functions = || json!({"tools": [{"type": "function", "function": f}]});
    vec![
        ("agent_id", json!(t.agent), none()),
        ("frequency_penalty", json!(0.5), none()),
        ("max_completion_tokens", json!(44), none()),
        ("max_tokens", json!(33), none()),
        (
            "messages",
            json!([{"role": "user", "content": "Ho"}]),
            none(),
        ),
        ("metadata", json!({"job": "sums"}), none()),
        ("model", json!("agent:sage"), none()),
        ("parallel_tool_calls", json!(false), functions()),
        ("presence_penalty", json!(0.5), none()),
        ("prompt_cache_key", json!("k"), none()),
        ("prompt_cache_retention", json!("24h"), none()),
        ("reasoning_effort", json!("low"), none()),
        ("response_format", json!({"type": "json_object"}), none()),
        ("safety_identifier", json!("s"), none()),
        ("seed", json!(5), none()),
        ("service_tier", json!("flex"), none()),
        ("stop", json!(["END"]), none()),
        ("stream", json!(true), none()),
        (
            "stream_options",
            json!({"include_usage": true}),
            json!({"stream": true}),
        ),
        ("temperature", json!(0.3), none()),
        ("tool_choice", json!("required"), functions()),
        ("tools", functions()["tools"].clone(), none()),
        ("top_p", json!(0.3), none()),
        ("user", json!("u"), none()),
    ]
}

/// Fields of an agent that change the request to its model.
fn agent_options(t: &Made) -> Vec<(&'static str, Value)> {
    vec![
        ("agency.constraints", json!(["No guesses"])),
        ("agency.expected_outputs", json!(["Links"])),
        ("agency.responsibilities", json!(["Read"])),
        ("agency.role_description", json!("Keeps the docs")),
        ("base_profile_id", json!(t.base)),
        ("display_name", json!("Wise One")),
        ("identity", json!("Calm and exact.")),
        (
            "instructions",
            json!(format!("{} Be brief.", instructions_of("owl"))),
        ),
        ("max_output_tokens", json!(77)),
        ("model", json!("tiny")),
        ("prompting.profile", json!("concise")),
        ("temperature", json!(0.3)),
        ("tools.type", json!([{"type": "file_search"}])),
        ("top_p", json!(0.3)),
    ]
}

/// Objects to which options refer.
#[derive(Default)]
struct Made {
    agent: String,
    base: String,
    response: String,
}

impl Made {
    async fn new(t: &Team) -> Self {
        let form = json!({"name": "sage", "instructions": instructions_of("sage"), "tools": [{"type": "file_search"}]});
        let agent = id(&t.ada.post("/v1/agents", form).await.is(201));
        let form = json!({"model": "tiny", "input": "Hi"});
        let response = id(&t.ada.post("/v1/responses", form).await.is(200));
        Self {
            agent,
            base: id(&t.ada.make_agent("base").await),
            response,
        }
    }
}

/// Returns the object with the fields of another one.
fn with(mut object: Value, fields: &Value) -> Value {
    for (field, value) in fields.as_object().unwrap() {
        object[field] = value.clone();
    }
    object
}

/// A response without IDs and times.
fn shown(reply: &Reply) -> String {
    let varying =
        r#"(resp|msg|fc|call|chatcmpl)[-_][0-9a-z]+|"(created|created_at|completed_at)":[0-9]+"#;
    let varying = regex::Regex::new(varying).unwrap();
    varying.replace_all(&reply.text, "_").into_owned()
}

/// Sends a request; returns the response, and the requests to the model that it caused.
async fn sent(t: &Team, path: &str, body: Value) -> (Reply, Value) {
    let before = t.model().requests().len();
    let reply = t.ada.post(path, body).await;
    let requests = t.model().requests();
    let bodies: Vec<Value> = requests[before..].iter().map(|r| r.body.clone()).collect();
    (reply, undated(&json!(bodies)))
}

/// Checks whether the header of ignored parts names a field.
fn is_named(reply: &Reply, field: &str) -> bool {
    let ignored = reply.header("openvibe-ignored").unwrap_or_default();
    ignored.split(", ").any(|path| {
        let rest = path.strip_prefix(field);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    })
}

async fn check_requests(
    t: &Team,
    path: &str,
    base: &Value,
    options: Vec<(&'static str, Value, Value)>,
) {
    for (field, value, others) in options {
        let without = with(base.clone(), &others);
        let first = sent(t, path, without.clone()).await;
        assert_eq!(first.0.status, 200, "{}", first.0.text);
        let mut body = without.clone();
        body[field] = value;
        let set = sent(t, path, body).await;
        let second = sent(t, path, without).await;
        assert_eq!(shown(&first.0), shown(&second.0), "without {field}");
        assert_eq!(first.1, second.1, "without {field}");
        let is_refused = set.0.status == 400 && set.0.json()["error"]["param"] == field;
        assert!(is_refused || set.0.status == 200, "{field}: {}", set.0.text);
        let differs = set.1 != first.1 || shown(&set.0) != shown(&first.0);
        assert!(
            is_refused || is_named(&set.0, field) || differs,
            "`{field}` of {path} has no effect, and nothing says so"
        );
    }
}

#[tokio::test]
async fn every_option_has_a_test_of_its_effect() {
    let t = team().await;
    let openapi = t.ada.get("/openapi.json").await.ok();
    let made = Made::default();
    let mut tested: Vec<String> = Vec::new();
    let of_requests = [
        ("response", response_options(&made)),
        ("completion", completion_options(&made)),
    ];
    for (form, options) in of_requests {
        tested.extend(options.iter().map(|(field, ..)| format!("{form}.{field}")));
    }
    let of_agents = agent_options(&made);
    tested.extend(of_agents.iter().map(|(field, _)| format!("agent.{field}")));
    for line in ELSEWHERE.lines().filter(|line| !line.starts_with('#')) {
        let (field, test) = line.split_once(' ').expect(line);
        assert!(test == IGNORED || exists(test), "{field}: no test {test}");
        tested.push(field.to_owned());
    }
    let set: BTreeSet<String> = tested.iter().cloned().collect();
    assert_eq!(set.len(), tested.len(), "a field is listed twice");
    assert_eq!(options(&openapi), set);
}

#[tokio::test]
async fn options_of_requests_change_something_or_are_named() {
    let t = team_with(&[("RATE_LIMITS", "off")]).await;
    let made = Made::new(&t).await;
    let base = json!({"model": "tiny", "input": "Hi"});
    check_requests(&t, "/v1/responses", &base, response_options(&made)).await;
    let base = json!({"model": "tiny", "messages": [{"role": "user", "content": "Hi"}]});
    let options = completion_options(&made);
    check_requests(&t, "/v1/chat/completions", &base, options).await;
}

#[tokio::test]
async fn options_of_agents_change_the_request_to_the_model() {
    let t = team_with(&[("RATE_LIMITS", "off")]).await;
    let made = Made::new(&t).await;
    let form =
        json!({"name": "owl", "instructions": instructions_of("owl"), "display_name": "Owl"});
    let owl = id(&t.ada.post("/v1/agents", form.clone()).await.is(201));
    let path = format!("/v1/agents/{owl}");
    let request = async |form: Value| {
        t.ada.put(&path, form).await.is(200);
        let thread = t.ada.thread(&t.general, "Friday or Monday?").await;
        let task = t.ada.ask(&thread, "@owl when?").await;
        t.ada.completed(&task).await;
        undated(&t.model().requests().pop().unwrap().body)
    };
    for (field, value) in agent_options(&made) {
        let without = request(form.clone()).await;
        let (first, rest) = field.split_once('.').unwrap_or((field, ""));
        let value = match rest {
            "" | "type" => value,
            rest => json!({rest: value}),
        };
        let mut fields = form.clone();
        fields[first] = value;
        let set = request(fields).await;
        assert_eq!(request(form.clone()).await, without, "without {field}");
        assert_ne!(set, without, "{field} has no effect");
        assert_eq!(text(&set, "/messages/0/role"), "system");
    }
}

#[tokio::test]
async fn options_of_agents_without_effect_are_named() {
    let t = team().await;
    let owl = id(&t.ada.make_agent("owl").await);
    let path = format!("/v1/agents/{owl}");
    let rules = json!({"role_description": "Calm.", "delegation_rules": ["Ask Coder"]});
    let code = json!({"type": "code_interpreter", "container": {"type": "auto"}});
    let wiki = json!({"type": "mcp", "server_label": "wiki", "server_url": "https://wiki.example", "server_description": "Ours"});
    for (field, fields) in [
        ("role", json!({"role": "reviewer"})),
        ("agency.delegation_rules", json!({"agency": rules})),
        (
            "trust.autonomous",
            json!({"trust": {"autonomous": ["read"]}}),
        ),
        ("tools.container", json!({"tools": [code]})),
        ("tools.server_description", json!({"tools": [wiki]})),
    ] {
        let agent = t.ada.patch(&path, fields).await.is(200);
        let named = list(&agent, "/not_in_force");
        assert!(named.contains(&json!(field)), "{field}: {named:?}");
    }
}
