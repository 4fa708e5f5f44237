//! `openvibe agents import|export`: agents as files in a directory, transferred over HTTP to or from a running
//! server.
//!
//! SOUL.md contains the agent's instructions and IDENTITY.md its identity; MEMORY.md, `memory/*.md`, AGENTS.md, TOOLS.md, and
//! all other text files are its files. `agent.json` contains the other fields of the profile, so that importing an export
//! recreates the same agent. The import in the browser takes the same files (`web/src/state/agents-import.ts`).

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use anyhow::{Context, bail, ensure};
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use super::output::say;
use crate::{
    agents::{
        files::FilePath,
        profiles::{handle_from, name_in},
        transfer::FileEffect,
    },
    trust,
};

/// File about a person, which does not belong to an agent.
const USER_FILE: &str = "USER.md";
/// File with the other fields of a profile.
const PROFILE: &str = "agent.json";
const SOUL: &str = "SOUL.md";
const IDENTITY: &str = "IDENTITY.md";
/// Maximum number of levels below the directory.
const DEPTH_MAX: usize = 8;
const FILES_MAX: usize = 1000;

#[derive(Subcommand)]
pub(super) enum AgentsCommand {
    /// Create an agent from files
    Import(Import),
    /// Write an agent to files
    Export(Export),
}

#[derive(Args)]
struct Server {
    /// Address of the running server
    #[arg(long, default_value = "http://127.0.0.1:8080")]
    server: String,
    /// API key of the workspace, `ov_…`, with `agents:write` to import or `agents:read` to export
    #[arg(long, env = "OPENVIBE_API_KEY", hide_env_values = true)]
    api_key: String,
}

#[derive(Args)]
pub(super) struct Import {
    /// Directory with SOUL.md and optionally the other files
    #[arg(long, conflicts_with_all = ["soul", "identity", "memory"])]
    dir: Option<PathBuf>,
    /// File with the agent's instructions
    #[arg(long, required_unless_present = "dir")]
    soul: Option<PathBuf>,
    /// File with the agent's identity
    #[arg(long)]
    identity: Option<PathBuf>,
    /// File with the agent's memory
    #[arg(long)]
    memory: Option<PathBuf>,
    /// Name in the workspace [default: the exported name, the one in IDENTITY.md, or the directory name]
    #[arg(long)]
    name: Option<String>,
    /// Model of the agent [default: the server's]
    #[arg(long)]
    model: Option<String>,
    #[command(flatten)]
    server: Server,
}

#[derive(Args)]
pub(super) struct Export {
    /// Name or ID of the agent, or `main` for the default one
    #[arg(long)]
    name: String,
    /// Directory to write; created if it does not exist
    #[arg(long)]
    dir: PathBuf,
    #[command(flatten)]
    server: Server,
}

pub(super) async fn run(command: AgentsCommand) -> anyhow::Result<()> {
    // Fails only if a provider was already installed in this process.
    drop(rustls::crypto::ring::default_provider().install_default());
    match command {
        AgentsCommand::Import(import) => import_agent(import).await,
        AgentsCommand::Export(export) => export_agent(export).await,
    }
}

impl Server {
    async fn send(&self, request: reqwest::RequestBuilder) -> anyhow::Result<Value> {
        let has_scheme = ["http://", "https://"]
            .iter()
            .any(|scheme| self.server.starts_with(scheme));
        ensure!(
            has_scheme,
            "--server {}: the address needs http:// or https://",
            self.server
        );
        let response = request
            .bearer_auth(&self.api_key)
            .send()
            .await
            .with_context(|| format!("{} does not respond; is the server running?", self.server))?;
        let status = response.status();
        let text = response.text().await?;
        let body: Value = serde_json::from_str(&text).unwrap_or_default();
        if status.is_success() {
            return Ok(body);
        }
        match body.pointer("/error/message").and_then(Value::as_str) {
            Some(message) => bail!(
                "the server rejected the request ({}): {message}",
                status.as_u16()
            ),
            None => bail!(
                "{} returned {status}; is this the address of an OpenVibe server?",
                self.server
            ),
        }
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.server.trim_end_matches('/'))
    }

    async fn get(&self, path: &str) -> anyhow::Result<Value> {
        self.send(client()?.get(self.url(path))).await
    }

    async fn post(&self, path: &str, body: &Value) -> anyhow::Result<Value> {
        self.send(client()?.post(self.url(path)).json(body)).await
    }
}

fn client() -> anyhow::Result<reqwest::Client> {
    Ok(trust::client_builder()
        .timeout(std::time::Duration::from_mins(1))
        .build()?)
}

/// Reads a file; `None` if it is not a text.
fn read_text(path: &Path) -> anyhow::Result<Option<String>> {
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(String::from_utf8(bytes)
        .ok()
        .filter(|text| !text.contains('\0')))
}

fn read(path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Reads the files of a directory, keyed by relative path. Skips names that start with a dot. Reports files that an agent cannot have,
/// and those that it has without using them.
fn read_dir(dir: &Path) -> anyhow::Result<BTreeMap<String, String>> {
    let mut files = read_all(dir)?;
    files.retain(|path, text| {
        let left_out = match (text, FilePath::check(path)) {
            _ if path.eq_ignore_ascii_case(USER_FILE) => {
                say("USER.md describes a person: add it in Settings › Memory");
                return false;
            }
            (_, Err(e)) => e.to_string(),
            (None, Ok(())) => "it is not a text".to_owned(),
            (Some(_), Ok(())) => {
                let effect = FileEffect::of(path);
                if path != PROFILE && !effect.is_used() {
                    say(&format!("{path}: {}", effect.effect));
                }
                return true;
            }
        };
        say(&format!("{path} is left out: {left_out}"));
        false
    });
    let texts = files.into_iter();
    Ok(texts
        .filter_map(|(path, text)| Some((path, text?)))
        .collect())
}

/// Reads all files of a directory; `None` for those that are not texts.
fn read_all(dir: &Path) -> anyhow::Result<BTreeMap<String, Option<String>>> {
    let mut files = BTreeMap::new();
    let mut open = vec![(dir.to_owned(), String::new(), 1)];
    while let Some((path, prefix, depth)) = open.pop() {
        let entries = std::fs::read_dir(&path)
            .with_context(|| format!("cannot read the directory {}", path.display()))?;
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name();
            let name = name.to_str().with_context(|| {
                format!("the name of {} is not valid UTF-8", entry.path().display())
            })?;
            if name.starts_with('.') {
                continue;
            }
            let inner = format!("{prefix}{name}");
            // Symbolic links to files are followed, but links to directories are not, so that there are no cycles.
            if entry.file_type()?.is_dir() {
                ensure!(
                    depth < DEPTH_MAX,
                    "{} is nested too deeply; the limit is {DEPTH_MAX} levels",
                    entry.path().display()
                );
                open.push((entry.path(), format!("{inner}/"), depth + 1));
            } else {
                files.insert(inner, read_text(&entry.path())?);
            }
            ensure!(
                files.len() <= FILES_MAX,
                "{} contains more than {FILES_MAX} files",
                dir.display()
            );
        }
    }
    Ok(files)
}

async fn import_agent(import: Import) -> anyhow::Result<()> {
    let mut agent = Map::new();
    let mut files = BTreeMap::new();
    if let Some(dir) = &import.dir {
        files = read_dir(dir)?;
        if let Some(text) = files.remove(PROFILE) {
            agent = serde_json::from_str(&text)
                .with_context(|| format!("{} is not a JSON object", dir.join(PROFILE).display()))?;
            // A download from the browser has the fields one level deeper.
            if agent
                .get("object")
                .is_some_and(|object| object == "agent_export")
                && let Some(Value::Object(fields)) = agent.remove("agent")
            {
                agent = fields;
            }
        }
        ensure!(
            files.contains_key(SOUL),
            "{} does not contain {SOUL} with the agent's instructions",
            dir.display()
        );
        for (path, field) in [(SOUL, "instructions"), (IDENTITY, "identity")] {
            if files.contains_key(path) {
                agent.remove(field);
            }
        }
    }
    for (path, file) in [
        (SOUL, &import.soul),
        (IDENTITY, &import.identity),
        ("MEMORY.md", &import.memory),
    ] {
        if let Some(file) = file {
            files.insert(path.to_owned(), read(file)?);
        }
    }
    let named_after = |path: &Path| {
        let path = path.canonicalize().ok()?;
        handle_from(path.file_name()?.to_str()?)
    };
    let name = import
        .name
        .or_else(|| Some(agent.get("name")?.as_str()?.to_owned()))
        .or_else(|| handle_from(&name_in(files.get(IDENTITY)?)?))
        .or_else(|| named_after(import.dir.as_deref()?))
        .context("the agent needs a name: set --name")?;
    agent.insert("name".to_owned(), name.into());
    if let Some(model) = import.model {
        agent.insert("model".to_owned(), model.into());
    }
    let body = json!({"agent": agent, "files": files});
    let made = import.server.post("/v1/agents/import", &body).await?;
    let text = |object: &Value, field: &str| object[field].as_str().unwrap_or_default().to_owned();
    say(&format!(
        "created @{} ({})",
        text(&made, "name"),
        text(&made, "id")
    ));
    let effects = made["effects"].as_array().into_iter().flatten();
    // Unused files were reported before the import.
    for file in effects.filter(|file| FileEffect::of(&text(file, "path")).is_used()) {
        say(&format!("{}: {}", text(file, "path"), text(file, "effect")));
    }
    let unused = unused_options(&made);
    if !unused.is_empty() {
        say(&format!("no effect yet: {}", unused.join(", ")));
    }
    Ok(())
}

/// Options of an agent that have no effect yet, as reported by the server.
fn unused_options(agent: &Value) -> Vec<String> {
    let fields = agent["not_in_force"].as_array().into_iter().flatten();
    let mut unused: Vec<String> = fields
        .filter_map(|field| Some(field.as_str()?.to_owned()))
        .collect();
    for tool in agent["tools"].as_array().into_iter().flatten() {
        let option = format!("tools: {}", tool["type"].as_str().unwrap_or_default());
        if tool["available"] == json!(false) && !unused.contains(&option) {
            unused.push(option);
        }
    }
    unused
}

async fn export_agent(export: Export) -> anyhow::Result<()> {
    let server = &export.server;
    let id = if export.name == "main" || export.name.starts_with("agent_") {
        export.name.clone()
    } else {
        let list = server
            .get(&format!("/v1/agents?name={}", export.name))
            .await?;
        list.pointer("/data/0/id")
            .and_then(Value::as_str)
            .with_context(|| format!("the agent `{}` does not exist", export.name))?
            .to_owned()
    };
    let answer = server.get(&format!("/v1/agents/{id}/export")).await?;
    let mut agent = answer["agent"].as_object().cloned().unwrap_or_default();
    let mut files = BTreeMap::new();
    for (path, content) in answer["files"].as_object().into_iter().flatten() {
        files.insert(
            path.clone(),
            content.as_str().unwrap_or_default().to_owned(),
        );
    }
    for (path, field) in [(SOUL, "instructions"), (IDENTITY, "identity")] {
        if let Some(text) = agent.remove(field).as_ref().and_then(Value::as_str) {
            files.insert(path.to_owned(), text.to_owned());
        }
    }
    let profile = serde_json::to_string_pretty(&Value::Object(agent))?;
    files.insert(PROFILE.to_owned(), format!("{profile}\n"));
    for (path, content) in &files {
        // The server stores only relative paths, but this check does not rely on that.
        let is_safe = Path::new(path)
            .components()
            .all(|part| matches!(part, std::path::Component::Normal(_)));
        ensure!(
            is_safe,
            "the server sent a file with the unsafe path `{path}`"
        );
        let target = export.dir.join(path);
        if let Some(parent) = target.parent() {
            std::fs::create_dir_all(parent)
                .with_context(|| format!("cannot create {}", parent.display()))?;
        }
        std::fs::write(&target, content)
            .with_context(|| format!("cannot write {}", target.display()))?;
    }
    say(&format!(
        "wrote {} files to {}",
        files.len(),
        export.dir.display()
    ));
    Ok(())
}
