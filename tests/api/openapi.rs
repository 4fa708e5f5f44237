//! The document of the API.

use std::path::Path;

use serde_json::Value;

use crate::support::{ModelServer, Place, TestApp, command, visitor};

#[tokio::test]
async fn the_document_in_the_repository_is_that_of_the_program() {
    let (place, model) = (Place::new().await, ModelServer::start().await);
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
async fn the_document_is_served_and_names_every_route_with_its_errors() {
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

#[tokio::test]
async fn a_route_that_is_not_finished_is_absent() {
    let app = TestApp::start().await;
    let document: Value = visitor(&app.base).get("/openapi.json").await.is(200);
    for path in document["paths"].as_object().unwrap().keys() {
        for later in ["follow", "compactions"] {
            assert!(!path.contains(later), "{path}");
        }
    }
}
