//! The `OpenAPI` document.

use std::path::Path;

use serde_json::Value;

use crate::support::{ModelServer, TestApp, TestDatabase, command, visitor};

#[tokio::test]
async fn the_committed_document_matches_the_program() {
    let (place, model) = (TestDatabase::migrated().await, ModelServer::start().await);
    let output = command(&place, &model, &[])
        .arg("openapi")
        .output()
        .unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("openapi.json");
    let kept = std::fs::read_to_string(kept).expect("openapi.json: run make api");
    assert!(
        printed.trim_end() == kept.trim_end(),
        "openapi.json is not that of the program: run make api"
    );
}

#[tokio::test]
async fn the_document_is_served_and_lists_every_route_with_its_errors() {
    let app = TestApp::start().await;
    let document: Value = visitor(&app.base).get("/openapi.json").await.is(200);
    assert!(document["openapi"].as_str().unwrap().starts_with("3."));
    let paths = document["paths"].as_object().unwrap();
    for path in [
        "/healthz",
        "/v1/auth/signup",
        "/v1/workspaces/{id}",
        "/v1/snapshot",
        "/v1/channels/{id}/threads",
        "/v1/threads/{id}/messages",
        "/v1/messages/{id}/reactions/{emoji}",
        "/v1/threads/{id}/forks",
        "/v1/forks/{id}",
        "/v1/forks/{id}/messages",
        "/v1/forks/{id}/resolve",
        "/v1/forks/{id}/resolution",
        "/v1/forks/{id}/publish",
        "/v1/forks/{id}/abandon",
        "/v1/forks/{id}/reopen",
        "/v1/forks/{id}/resolutions",
        "/v1/decisions",
        "/v1/action-items",
        "/v1/action-items/{id}",
        "/v1/search",
        "/v1/tasks/{id}/context",
        "/v1/agents/{id}",
        "/v1/agents/{id}/versions/{version}",
        "/v1/agents/{id}/rollback",
        "/v1/agents/{id}/files/{path}",
        "/v1/rpc/{method}",
        "/v1/responses",
        "/v1/responses/{id}",
        "/v1/responses/{id}/input_items",
        "/v1/chat/completions",
        "/v1/models",
        "/v1/models/{id}",
        "/v1/files",
        "/v1/files/{id}",
        "/v1/files/{id}/metadata",
        "/v1/events",
        "/v1/ws",
    ] {
        assert!(paths.contains_key(path), "{path}");
    }
    for (path, item) in paths.iter().filter(|(path, _)| path.starts_with("/v1/")) {
        for (method, operation) in item.as_object().unwrap() {
            let responses = operation["responses"].as_object().unwrap();
            assert!(responses.contains_key("400"), "{method} {path}");
            assert!(
                responses
                    .keys()
                    .any(|status| status.starts_with('2') || status == "101"),
                "{method} {path}"
            );
            assert!(operation["summary"].is_string(), "{method} {path}");
        }
    }
}

/// Method with path, and object, of every operation.
fn operations(document: &Value) -> Vec<(String, Value)> {
    let paths = document["paths"].as_object().unwrap();
    let mut all = Vec::new();
    for (path, item) in paths {
        for (method, operation) in item.as_object().unwrap() {
            all.push((
                format!("{} {path}", method.to_uppercase()),
                operation.clone(),
            ));
        }
    }
    all
}

#[tokio::test]
async fn every_operation_is_fully_documented() {
    let app = TestApp::start().await;
    let document: Value = visitor(&app.base).get("/openapi.json").await.is(200);
    let tags: Vec<&Value> = document["tags"]
        .as_array()
        .unwrap()
        .iter()
        .map(|t| &t["name"])
        .collect();
    let mut missing = Vec::new();
    let mut ids = std::collections::BTreeSet::new();
    for (name, operation) in operations(&document) {
        let mut lacks = |what: &str| missing.push(format!("{name} lacks {what}"));
        let said = |value: &Value| value.as_str().is_some_and(|text| !text.trim().is_empty());
        if !said(&operation["summary"]) {
            lacks("a summary: the first line of its handler's doc comment");
        }
        if !said(&operation["description"]) {
            lacks("a description");
        }
        if !ids.insert(operation["operationId"].to_string()) {
            lacks("an operation id of its own");
        }
        if operation["tags"]
            .as_array()
            .is_none_or(|own| own.len() != 1 || !tags.contains(&&own[0]))
        {
            lacks("one tag that TAGS in src/openapi/mod.rs describes");
        }
        for parameter in operation["parameters"].as_array().into_iter().flatten() {
            if !said(&parameter["description"]) || !parameter["schema"].is_object() {
                lacks(&format!("what its parameter {} means", parameter["name"]));
            }
        }
        let body = &operation["requestBody"]["content"]["application/json"];
        if body.is_object() && body.get("example").is_none() && body.get("examples").is_none() {
            lacks("an example of its body: `example` of `request_body` at its handler");
        }
        // Roles and scopes are already checked when the document is built.
        let is_public = operation["security"] == serde_json::json!([{}]);
        let responses = operation["responses"].as_object().unwrap();
        for (status, response) in responses {
            let shared = response["$ref"]
                .as_str()
                .map(|at| at.trim_start_matches('#'));
            let response = shared.map_or(response, |at| document.pointer(at).unwrap());
            if status == "429" && response["headers"]["Retry-After"].is_null() {
                lacks("Retry-After of 429");
            }
            if !said(&response["description"]) {
                lacks(&format!("a description of {status}"));
            }
            let content = &response["content"]["application/json"];
            if content.is_object() && content.get("example").is_none() {
                lacks(&format!("an example of {status}"));
            }
            if status.starts_with('4') || status.starts_with('5') {
                let schema = content["schema"]["$ref"].as_str().unwrap_or_default();
                if !schema.ends_with("ErrorBody") {
                    lacks(&format!("the shape of errors for {status}"));
                }
            }
        }
        let mut expected = vec!["503"];
        if name.contains(" /v1/") {
            expected.extend(["400", "403", "404", "429", "500"]);
            expected.extend((!is_public).then_some("401"));
            expected.extend(body.is_object().then_some("413"));
        }
        for status in expected {
            if !responses.contains_key(status) {
                lacks(status);
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

/// Checks whether a schema rejects unknown fields, following references and variants.
fn closed(schema: &Value, document: &Value) -> bool {
    if let Some(at) = schema["$ref"].as_str() {
        return closed(
            document.pointer(at.trim_start_matches('#')).unwrap(),
            document,
        );
    }
    schema["additionalProperties"] == false
        || ["oneOf", "anyOf", "allOf"]
            .iter()
            .flat_map(|list| schema[list].as_array().into_iter().flatten())
            .any(|part| closed(part, document))
}

/// Calls `look` with every value of the document and its JSON pointer.
fn every_value(value: &Value, place: &str, look: &mut impl FnMut(&Value, &str)) {
    look(value, place);
    match value {
        Value::Object(fields) => fields
            .iter()
            .for_each(|(name, field)| every_value(field, &format!("{place}/{name}"), look)),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .for_each(|(n, item)| every_value(item, &format!("{place}/{n}"), look)),
        _ => {}
    }
}

#[tokio::test]
async fn no_part_of_a_composed_schema_rejects_the_fields_of_the_others() {
    let app = TestApp::start().await;
    let document: Value = visitor(&app.base).get("/openapi.json").await.is(200);
    let mut wrong = Vec::new();
    every_value(&document, "", &mut |value, place| {
        let parts = value["allOf"].as_array().into_iter().flatten();
        if parts.clone().any(|part| closed(part, &document)) {
            wrong.push(place.to_owned());
        }
    });
    assert!(wrong.is_empty(), "no value satisfies {wrong:?}");
}

#[tokio::test]
async fn agent_tools_are_documented_as_they_are_parsed() {
    let app = TestApp::start().await;
    let ada = app.founder("Ada").await;
    let document: Value = visitor(&app.base).get("/openapi.json").await.is(200);
    let schemas = &document["components"]["schemas"];
    let variants = schemas["Tool"]["oneOf"].as_array().unwrap();
    assert_eq!(variants.len(), 6);
    for (n, variant) in variants.iter().enumerate() {
        let title = variant["title"].as_str().unwrap();
        assert!(title.ends_with("Tool"), "{title}");
        assert_eq!(variant["additionalProperties"], false, "{title}");
        // The required fields are sufficient, and undocumented fields are rejected.
        let mut tool = serde_json::Map::new();
        for name in variant["required"].as_array().unwrap() {
            let name = name.as_str().unwrap();
            let said = &variant["properties"][name]["enum"][0];
            let value = if said.is_null() {
                "lookup".into()
            } else {
                said.clone()
            };
            tool.insert(name.to_owned(), value);
        }
        if title == "FunctionTool" {
            // `name` or `registry_id` is required, but the schema cannot express this.
            tool.insert("name".to_owned(), "lookup".into());
        }
        if title == "McpTool" {
            // `server_label` or `registry_id` is required, but the schema cannot express this.
            tool.insert("server_label".to_owned(), "lookup".into());
        }
        let form = |tool: &serde_json::Map<String, Value>| serde_json::json!({"name": format!("tool-{n}"), "instructions": "You help.", "tools": [tool]});
        let mut unknown = tool.clone();
        unknown.insert("colour".to_owned(), "red".into());
        ada.post("/v1/agents", form(&unknown)).await.is(400);
        let made = ada.post("/v1/agents", form(&tool)).await.is(201);
        // The returned object can be sent back, including `available`.
        let shown = made["tools"][0].as_object().unwrap();
        assert!(shown["available"].is_boolean(), "{title}");
        let path = format!("/v1/agents/{}", made["id"].as_str().unwrap());
        ada.put(&path, form(shown)).await.is(200);
    }
    for form in ["NewAgent", "AgentPatch"] {
        assert_eq!(schemas[form]["additionalProperties"], false, "{form}");
    }
}
