//! `openvibe files sync`: brings a vector store of a running server up to date with a directory.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context, bail, ensure};
use clap::{Args, Subcommand};
use reqwest::{Client, Method, RequestBuilder, StatusCode, Url, header::RETRY_AFTER};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{
    output::{say, say_error},
    post::Unreachable,
};
use crate::{collections::StorePath, trust};

/// Time for which an unreachable server is tried again.
const RETRY_FOR: Duration = Duration::from_secs(30);
/// Longest wait between two attempts.
const PAUSE_MAX: Duration = Duration::from_mins(1);
/// Time limit of a request.
const ANSWER_WITHIN: Duration = Duration::from_mins(5);
/// Maximum number of files of a directory.
const FILES_MAX: usize = 10_000;

#[derive(Subcommand)]
pub(super) enum FilesCommand {
    /// Send the new and changed files of a directory to a vector store, without dot files and links; safe to repeat. Ends with status 1
    /// if a file could not be sent, and 75 if the server does not answer for 30 seconds
    Sync(SyncCommand),
}

#[derive(Args)]
pub(super) struct SyncCommand {
    /// Directory with the files
    directory: PathBuf,
    /// ID of the vector store, or `vs_HANDLE`
    #[arg(long, value_name = "VECTOR_STORE")]
    to: String,
    /// Also remove files that the directory does not have from the vector store
    #[arg(long)]
    delete: bool,
    /// Address of the server
    #[arg(long, env = "OPENVIBE_URL")]
    url: String,
    /// API key with `chat:write` and `chat:read`
    #[arg(long, env = "OPENVIBE_API_KEY", hide_env_values = true)]
    api_key: String,
}

/// A file of the directory.
struct LocalFile {
    place: PathBuf,
    sha256: String,
    size: u64,
}

/// # Errors
/// `Unreachable`, or a description of the failure.
pub(super) async fn run(command: FilesCommand) -> anyhow::Result<()> {
    let FilesCommand::Sync(command) = command;
    let mut files = find_files(&command.directory)?;
    ensure!(
        !command.delete || !files.is_empty(),
        "{} has no files: `--delete` would remove all files of the vector store",
        command.directory.display()
    );
    let server = Server::new(&command)?;
    let compared = server.compare(&files, false).await?;
    let mut failed = 0;
    let missing = paths(&compared["missing"]);
    for path in &missing {
        let Some(file) = files.get_mut(path) else {
            continue;
        };
        match server.send(path, file).await {
            Ok(()) => say(&format!("sent {path}")),
            Err(e) if e.is::<Unreachable>() => return Err(e),
            Err(e) => {
                say_error(&format!("openvibe: {path} was not sent: {e:#}"));
                failed += 1;
            }
        }
    }
    ensure!(
        failed == 0,
        "{failed} of {} files were not sent",
        missing.len()
    );
    let removed = if command.delete {
        paths(&server.compare(&files, true).await?["removed"])
    } else {
        Vec::new()
    };
    for path in &removed {
        say(&format!("removed {path}"));
    }
    let unchanged = compared["unchanged"].as_i64().unwrap_or(0);
    say(&format!(
        "{} sent, {unchanged} unchanged, {} removed",
        missing.len(),
        removed.len()
    ));
    Ok(())
}

fn paths(list: &Value) -> Vec<String> {
    let texts = list.as_array().into_iter().flatten();
    texts
        .filter_map(|text| text.as_str().map(str::to_owned))
        .collect()
}

/// Finds the regular files below a directory, except for those whose name, or a directory's, begins with a dot.
fn find_files(top: &Path) -> anyhow::Result<BTreeMap<String, LocalFile>> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![top.to_owned()];
    while let Some(directory) = waiting.pop() {
        let unreadable = || format!("cannot read {}", directory.display());
        for entry in std::fs::read_dir(&directory).with_context(unreadable)? {
            let entry = entry.with_context(unreadable)?;
            let place = entry.path();
            // The kind of a link is that of the link itself.
            let kind = entry.file_type().with_context(unreadable)?;
            if entry.file_name().as_encoded_bytes().starts_with(b".") {
                continue;
            }
            if kind.is_dir() {
                waiting.push(place);
            } else if kind.is_file() {
                let path = path_of(top, &place)?;
                let file = LocalFile::read(place)?;
                if let Some(other) = found.insert(path.clone(), file) {
                    bail!("{path} and {} have the same name", other.place.display());
                }
                ensure!(
                    found.len() <= FILES_MAX,
                    "{} has more than {FILES_MAX} files",
                    top.display()
                );
            }
        }
    }
    Ok(found)
}

/// Path of a file below the directory, as the server names it.
fn path_of(top: &Path, place: &Path) -> anyhow::Result<String> {
    let path = place.strip_prefix(top).unwrap_or(place);
    let text = path
        .to_str()
        .with_context(|| format!("the name of {} is not UTF-8", place.display()))?;
    match StorePath::parse(text) {
        Ok(path) => Ok(path.as_str().to_owned()),
        Err(e) => bail!("{} cannot be sent: {e}", place.display()),
    }
}

impl LocalFile {
    fn read(place: PathBuf) -> anyhow::Result<Self> {
        let hashed = File::open(&place).and_then(hash);
        let (sha256, size) = hashed.with_context(|| format!("cannot read {}", place.display()))?;
        Ok(Self {
            place,
            sha256,
            size,
        })
    }
}

/// SHA-256 and size of a file.
fn hash(mut file: impl Read) -> io::Result<(String, u64)> {
    let mut sha256 = Sha256::new();
    let mut size = 0;
    let mut piece = vec![0; 64 * 1024];
    loop {
        let len = file.read(&mut piece)?;
        if len == 0 {
            return Ok((hex::encode(sha256.finalize()), size));
        }
        sha256.update(&piece[..len]);
        size += len as u64;
    }
}

/// The server's answer to a request that it rejects.
fn rejection(status: StatusCode, text: &str) -> String {
    let body: Value = serde_json::from_str(text).unwrap_or_default();
    let message = body.pointer("/error/message").and_then(Value::as_str);
    let cause: String = message
        .unwrap_or_else(|| text.trim())
        .chars()
        .take(300)
        .collect();
    format!("the server answers {}: {cause}", status.as_u16())
}

struct Server {
    client: Client,
    store: Url,
    key: String,
}

impl Server {
    fn new(command: &SyncCommand) -> anyhow::Result<Self> {
        // Fails only if a provider was already installed in this process.
        drop(rustls::crypto::ring::default_provider().install_default());
        let store: Url = command
            .url
            .parse()
            .context("OPENVIBE_URL is not an address")?;
        Ok(Self {
            client: trust::client_builder().timeout(ANSWER_WITHIN).build()?,
            store: below(&store, ["v1", "vector_stores", command.to.as_str()])?,
            key: command.api_key.clone(),
        })
    }

    async fn compare(
        &self,
        files: &BTreeMap<String, LocalFile>,
        delete: bool,
    ) -> anyhow::Result<Value> {
        let files = files
            .iter()
            .map(|(path, file)| json!({"path": path, "sha256": file.sha256, "size": file.size}));
        let body = json!({"files": files.collect::<Vec<Value>>(), "delete": delete});
        let url = below(&self.store, ["sync"])?;
        self.answer(&self.client.request(Method::POST, url).json(&body))
            .await
    }

    /// Sends a file, and notes the bytes that were sent: it may have changed since it was found.
    async fn send(&self, path: &str, file: &mut LocalFile) -> anyhow::Result<()> {
        let bytes = std::fs::read(&file.place)?;
        (file.sha256, file.size) = hash(bytes.as_slice())?;
        let url = below(&self.store, std::iter::once("paths").chain(path.split('/')))?;
        let request = self.client.request(Method::PUT, url).body(bytes);
        self.answer(&request).await.map(|_| ())
    }

    /// Sends a request until the server answers it, and takes as long as its rate limit demands.
    async fn answer(&self, request: &RequestBuilder) -> anyhow::Result<Value> {
        let started = Instant::now();
        loop {
            let attempt = request
                .try_clone()
                .context("the request cannot be sent twice")?;
            let (problem, wait) = match attempt.bearer_auth(&self.key).send().await {
                Ok(response) => {
                    let status = response.status();
                    let stated = response.headers().get(RETRY_AFTER);
                    let stated = stated.and_then(|value| value.to_str().ok()?.parse().ok());
                    let wait = stated.map_or(Duration::from_secs(1), Duration::from_secs);
                    let text = response.text().await;
                    match status {
                        StatusCode::TOO_MANY_REQUESTS => {
                            tokio::time::sleep(wait.min(PAUSE_MAX)).await;
                            continue;
                        }
                        StatusCode::BAD_GATEWAY
                        | StatusCode::SERVICE_UNAVAILABLE
                        | StatusCode::GATEWAY_TIMEOUT => {
                            (format!("the server answers {status}"), wait.min(PAUSE_MAX))
                        }
                        _ if status.is_success() => {
                            let text = text.unwrap_or_default();
                            return Ok(serde_json::from_str(&text).unwrap_or_default());
                        }
                        _ => bail!(rejection(status, &text.unwrap_or_default())),
                    }
                }
                Err(e) if e.is_builder() => return Err(e.into()),
                Err(e) => (e.to_string(), Duration::from_secs(1)),
            };
            if started.elapsed() + wait > RETRY_FOR {
                return Err(Unreachable(format!("{problem}; is the server running?")).into());
            }
            tokio::time::sleep(wait).await;
        }
    }
}

/// The address with further parts of its path.
fn below<'a>(base: &Url, parts: impl IntoIterator<Item = &'a str>) -> anyhow::Result<Url> {
    let mut url = base.clone();
    match url.path_segments_mut() {
        Ok(mut path) => {
            path.pop_if_empty().extend(parts);
        }
        Err(()) => bail!("OPENVIBE_URL is not an address"),
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use uuid::Uuid;

    use super::*;

    #[test]
    fn only_regular_files_without_a_dot_are_sent() {
        let top = std::env::temp_dir().join(format!("openvibe-sync-{}", Uuid::now_v7()));
        for directory in ["a/b", ".git"] {
            std::fs::create_dir_all(top.join(directory)).unwrap();
        }
        for file in ["a/b/one.md", "two.md", ".hidden", ".git/config"] {
            std::fs::write(top.join(file), file).unwrap();
        }
        symlink(top.join("two.md"), top.join("link.md")).unwrap();
        symlink(&top, top.join("a/loop")).unwrap();
        let found = find_files(&top).unwrap();
        let paths: Vec<&str> = found.keys().map(String::as_str).collect();
        assert_eq!(paths, ["a/b/one.md", "two.md"]);
        assert_eq!(found["two.md"].size, 6);
        assert_eq!(
            found["two.md"].sha256,
            hex::encode(Sha256::digest("two.md"))
        );
        std::fs::write(top.join("a\\b"), "x").unwrap();
        assert!(find_files(&top).is_err());
        std::fs::remove_dir_all(top).unwrap();
    }

    #[test]
    fn paths_are_encoded_in_addresses() {
        let base: Url = "https://chat.example/".parse().unwrap();
        let url = below(&base, ["v1", "paths", "a b?", "50%", "ü"]).unwrap();
        assert_eq!(
            url.as_str(),
            "https://chat.example/v1/paths/a%20b%3F/50%25/%C3%BC"
        );
    }
}
