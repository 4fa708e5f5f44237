//! Finds model servers on the default ports of this machine, and of the machine around a container.

use std::time::Duration;

use reqwest::Url;
use serde::Serialize;

use super::{clients::Providers, stored::Stored};
use crate::{db::DbError, ids::WorkspaceId, outbound::LocalAddresses};

/// Default ports of Ollama, LM Studio, vLLM and llama-cpp-python, llama.cpp and `LocalAI`, `LiteLLM`, and Jan.
const PORTS: [u16; 6] = [11434, 1234, 8000, 8080, 4000, 1337];
/// This machine, and the one around a container: docker-compose.yml defines the name, as Docker does on desktops.
const HOSTS: [&str; 2] = ["127.0.0.1", "host.docker.internal"];
/// Timeout of each lookup and of each request.
const LOOK_WITHIN: Duration = Duration::from_secs(1);
const LIST_BYTES_MAX: usize = 256 * 1024;
const MODELS_MAX: usize = 50;

/// A model server that was found on this machine.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct LocalServer {
    pub base_url: String,
    /// Names of the server's models, at most 50.
    pub models: Vec<String>,
}

impl Providers {
    /// Lists model servers that respond on the default ports of this machine. The list is empty if a server is already connected, or
    /// if the workspace may not use local addresses.
    ///
    /// # Errors
    /// If the settings cannot be read.
    pub async fn list_local(&self, workspace: WorkspaceId) -> Result<Vec<LocalServer>, DbError> {
        if self.environment.is_some() {
            return Ok(Vec::new());
        }
        let mut c = self.db.read().await?;
        let stored = Stored::find(&mut c, workspace).await?;
        let local = Stored::local_for(&mut c, workspace).await?;
        drop(c);
        if stored.and_then(Stored::connected).is_some() {
            return Ok(Vec::new());
        }
        for host in HOSTS {
            let looks = PORTS.map(|port| self.find_local(host, port, local));
            let found = futures::future::join_all(looks).await;
            let found: Vec<LocalServer> = found.into_iter().flatten().collect();
            if !found.is_empty() {
                return Ok(found);
            }
        }
        Ok(Vec::new())
    }

    async fn find_local(
        &self,
        host: &str,
        port: u16,
        local: LocalAddresses,
    ) -> Option<LocalServer> {
        let base_url = format!("http://{host}:{port}/v1");
        let url = Url::parse(&base_url).ok()?;
        let gate = self.gate(&url, local)?;
        let checked = tokio::time::timeout(LOOK_WITHIN, gate.check()).await;
        checked.ok()?.ok()?;
        let client = gate.client_builder().timeout(LOOK_WITHIN).build().ok()?;
        let mut response = client.get(format!("{base_url}/models")).send().await.ok()?;
        if !response.status().is_success() {
            return None;
        }
        let mut body = Vec::new();
        while let Some(piece) = response.chunk().await.ok()? {
            body.extend_from_slice(&piece);
            if body.len() > LIST_BYTES_MAX {
                return None;
            }
        }
        let list: serde_json::Value = serde_json::from_slice(&body).ok()?;
        let models = list["data"].as_array()?.iter();
        let models: Vec<String> = models
            .filter_map(|model| model["id"].as_str().map(str::to_owned))
            .take(MODELS_MAX)
            .collect();
        (!models.is_empty()).then_some(LocalServer { base_url, models })
    }
}
