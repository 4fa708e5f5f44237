//! Import of untrusted agent manifests: the agent is either created completely, so that its export is equal, or rejected without any
//! change.

use proptest::prelude::*;

use super::runtime;
use crate::{
    corpus,
    support::{Person, TestApp, TestDatabase, id},
};

const WORDS: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    "\"",
    ":",
    ",",
    "null",
    "true",
    "-1",
    "1e9",
    "\"\"",
    "\\u0000",
    "\"name\":",
    "\"base\":\"main\",",
    "\"files\":{},",
    "\"MEMORY.md\"",
    "../",
    "\"tools\":[{\"type\":\"function\",\"name\":\"f\"}],",
    "\"metadata\":{},",
    "\"temperature\":0.1,",
];

/// Returns the row counts of the tables that an import changes.
async fn rows(place: &TestDatabase) -> Vec<(String, i64)> {
    let mut counts = place.row_counts().await;
    counts
        .retain(|(table, _)| table.starts_with("agent") || table == "events" || table == "handles");
    assert!(counts.len() >= 3, "{counts:?}");
    counts
}

/// Imports a manifest, checks that the effects follow the contract, and deletes the agent. Returns a summary of the result.
async fn holds(place: &TestDatabase, person: &Person, body: &[u8]) -> String {
    let before = rows(place).await;
    let reply = person.post_bytes("/v1/agents/import", body).await;
    if reply.status != 201 {
        let status = reply.status;
        assert!(
            matches!(status, 400 | 403 | 404 | 409 | 413 | 422),
            "{status}: {}",
            reply.text
        );
        assert_eq!(rows(place).await, before, "{}", reply.text);
        let param = reply.json()["error"]["param"].clone();
        let param = param.as_str().unwrap_or("-").to_owned();
        return format!("{status} {} {param}", reply.refused(status));
    }
    let agent = reply.json();
    let path = format!("/v1/agents/{}", id(&agent));
    let export = person.get(&format!("{path}/export")).await.ok();
    person
        .delete(&format!("{path}?permanent=true"))
        .await
        .is(200);
    // Importing the export creates the same agent.
    let mut renamed = export.clone();
    renamed["agent"]["name"] =
        format!("{:.40}-again", export["agent"]["name"].as_str().unwrap()).into();
    let again = person
        .post("/v1/agents/import", renamed.clone())
        .await
        .is(201);
    let path = format!("/v1/agents/{}", id(&again));
    assert_eq!(person.get(&format!("{path}/export")).await.ok(), renamed);
    person
        .delete(&format!("{path}?permanent=true"))
        .await
        .is(200);
    let fields: Vec<&str> = export["agent"]
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    let files: Vec<&str> = export["files"]
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    format!("made with {}; {}", fields.join(" "), files.join(" "))
}

async fn place() -> (TestApp, Person) {
    let app = TestApp::with(&[("RATE_LIMITS", "off")]).await;
    let ada = app.founder("Ada").await;
    (app, ada)
}

#[tokio::test]
async fn every_corpus_agent_is_created_completely_or_rejected() {
    let (app, ada) = place().await;
    for case in corpus::cases("manifests", "json") {
        let found = holds(&app.place, &ada, &case.bytes).await;
        case.expect(&found);
    }
}

#[test]
fn any_agent_is_created_completely_or_rejected() {
    let runtime = runtime();
    let (app, ada) = runtime.block_on(place());
    let bodies = corpus::mutated("manifests", "json", WORDS);
    proptest!(corpus::config(64), |(body in bodies)| {
        runtime.block_on(holds(&app.place, &ada, &body));
    });
}
