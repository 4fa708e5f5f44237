//! Check `model`: the model server's list of models.

use std::sync::Arc;

use reqwest::{RequestBuilder, StatusCode};
use serde_json::Value;

use super::{finding::Finding, http, subject::CheckedServer};
use crate::{
    config::Config,
    model::{self, Connection, NoStore},
    providers::{ModelConnection, ModelSource, ModelStatus},
};

/// The model server that the settings name.
pub(super) fn server(config: &Config) -> Option<Connection> {
    let (_, connection) = model::from_settings(config.model.clone(), Arc::new(NoStore)).ok()?;
    connection
}

pub(super) async fn check(s: &CheckedServer) -> Finding {
    if let Err(finding) = s.require_running().and_then(|()| s.require_outgoing()) {
        return finding;
    }
    match (server(&s.config), &s.model) {
        (Some(server), _) => look(&server).await,
        (None, Some(connection)) => of_settings(connection),
        (None, None) => {
            Finding::skipped("the settings name no model server: Settings › Model tests the others")
        }
    }
}

/// The result of the latest test of a model server that an admin has connected.
fn of_settings(connection: &ModelConnection) -> Finding {
    let shown = connection.base_url.as_deref().unwrap_or("the model server");
    match (connection.source, connection.status) {
        (ModelSource::None, _) => {
            Finding::ok("no model server is connected, so the built-in responder replies")
        }
        (_, ModelStatus::Ok) => Finding::ok(format!("{shown} answered its latest test")),
        (_, status) => Finding::failed(
            format!("{shown} failed its latest test ({status})"),
            "test it again in Settings › Model",
        ),
    }
}

pub(super) async fn look(server: &Connection) -> Finding {
    let mut url = server.base_url.clone();
    let shown = url.host_str().unwrap_or_default().to_owned();
    if let Ok(mut segments) = url.path_segments_mut() {
        segments.pop_if_empty().push("models");
    }
    let client = match http::outgoing_client() {
        Ok(client) => client,
        Err(e) => return http::no_client(&e),
    };
    let request = match &server.api_key {
        Some(key) => with_key(client.get(url), key, &shown),
        None => client.get(url),
    };
    let response = match request.send().await {
        Ok(response) => response,
        Err(e) => {
            let server = format!("the model server {shown}");
            return http::failed(&server, &e, "start it, or correct OPENVIBE_MODEL_BASE_URL");
        }
    };
    match response.status() {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Finding::failed(
            format!("the model server {shown} does not accept the API key"),
            "correct OPENVIBE_MODEL_API_KEY, ANTHROPIC_API_KEY, or OPENAI_API_KEY",
        ),
        StatusCode::NOT_FOUND => Finding::warning(
            format!("the model server {shown} has no list of models at this address"),
            "check OPENVIBE_MODEL_BASE_URL, which usually ends with /v1",
        ),
        status if status.is_success() => listed(&shown, server, response).await,
        status => Finding::failed(
            format!(
                "the model server {shown} answers with status {}",
                status.as_u16()
            ),
            "see its log",
        ),
    }
}

/// Adds the API key. Anthropic's list of models, unlike its chat completions, accepts the key only in a header of its own.
fn with_key(request: RequestBuilder, key: &str, host: &str) -> RequestBuilder {
    if host == "api.anthropic.com" {
        request
            .header("x-api-key", key)
            .header("anthropic-version", "2023-06-01")
    } else {
        request.bearer_auth(key)
    }
}

async fn listed(shown: &str, server: &Connection, response: reqwest::Response) -> Finding {
    let list: Value = response.json().await.unwrap_or_default();
    let Some(models) = list.get("data").and_then(Value::as_array) else {
        return Finding::warning(
            format!("the model server {shown} has no list of models at this address"),
            "check OPENVIBE_MODEL_BASE_URL, which usually ends with /v1",
        );
    };
    let has = |name: &str| {
        models
            .iter()
            .any(|model| model.get("id").and_then(Value::as_str) == Some(name))
    };
    match server.model.as_deref().filter(|name| !has(name)) {
        Some(name) if !models.is_empty() => Finding::warning(
            format!("the model server {shown} does not list {name}"),
            "set OPENVIBE_MODEL to a model of its list",
        ),
        _ => Finding::ok(format!("{shown} lists {} models", models.len())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trust;

    #[test]
    fn anthropic_gets_the_key_in_its_own_header() {
        for (host, header, value) in [
            ("api.anthropic.com", "x-api-key", "sk-1"),
            ("api.example.com", "authorization", "Bearer sk-1"),
        ] {
            let client = trust::without_tls(trust::client_builder()).build();
            let client = client.unwrap();
            let request = client.get(format!("https://{host}/v1/models"));
            let request = with_key(request, "sk-1", host).build().unwrap();
            let headers = request.headers();
            assert_eq!(headers[header], value);
            let is_alone =
                headers.contains_key("x-api-key") != headers.contains_key("authorization");
            assert!(is_alone, "{host}");
        }
    }
}
