//! `openvibe import`: uploads an archive to a running server, shows what it would become, and imports it.

use std::{
    collections::HashMap,
    io::{Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, bail, ensure};
use clap::Args;
use reqwest::{
    Method, StatusCode, Url,
    header::{CONTENT_RANGE, CONTENT_TYPE, RETRY_AFTER},
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::output::{say, say_error};
use crate::trust;

/// Size of a piece of the archive.
const PIECE_BYTES: u64 = 8 << 20;
/// Maximum number of pages of people that are read from Slack.
const SLACK_PAGES_MAX: u32 = 1000;
/// Number of attempts for a page, and the pause before another one if Slack states none, and at most.
const SLACK_TRIES: u32 = 5;
const SLACK_PAUSE: Duration = Duration::from_secs(10);
const SLACK_PAUSE_MAX: Duration = Duration::from_mins(2);
const PICTURE_BYTES_MAX: usize = 256 << 10;
/// Beginning of the address of a further name of an emoji.
const ALIAS: &str = "alias:";
/// Boundary of the parts of an upload: a picture does not contain it.
const BOUNDARY: &str = "openvibe-import-6f1d9a0c2e5b47d8";
const BUFFER_BYTES: usize = 1 << 20;
const WAIT: Duration = Duration::from_millis(500);
const TIMEOUT: Duration = Duration::from_mins(5);
/// Exit status if the report has problems.
pub(super) const HAS_PROBLEMS: u8 = 3;

#[derive(Args)]
pub(super) struct ImportCommand {
    /// Archive to import
    file: PathBuf,
    /// Address of the server
    #[arg(long, env = "OPENVIBE_URL")]
    url: String,
    /// API key with `workspace:admin`
    #[arg(long, env = "OPENVIBE_API_KEY", hide_env_values = true)]
    key: String,
    /// Short name or ID of the workspace, if the key must be one of it [default: that of the key]
    #[arg(long)]
    workspace: Option<String>,
    /// Format of the archive [default: detected]
    #[arg(long)]
    format: Option<String>,
    /// Show what would be imported, and import nothing
    #[arg(long)]
    dry_run: bool,
    /// CSV file whose lines name the key of a person in the archive, and the ID of a member
    #[arg(long, value_name = "CSV")]
    map: Option<PathBuf>,
    /// Group messages of direct channels into threads by `day` or by `message`
    #[arg(long)]
    group: Option<String>,
    /// Fetch files that are not in the archive from its source
    #[arg(long)]
    fetch: bool,
    /// Token of Slack with `users:read.email` and `emoji:read`: reads addresses of people, and custom emoji
    #[arg(long, env = "SLACK_TOKEN", hide_env_values = true)]
    slack_token: Option<String>,
    /// Address of Slack's API
    #[arg(long, hide = true, default_value = "https://slack.com/api")]
    slack_url: String,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

impl ImportCommand {
    /// Slack's API, for an import of one of its archives: the token can be in the environment for something else.
    fn slack<'a>(&'a self, server: &'a Server, import: &Value) -> Option<Slack<'a>> {
        let is_of_slack = string(import, "format") == "slack";
        let token = self.slack_token.as_deref().filter(|_| is_of_slack)?;
        Some(Slack {
            client: &server.client,
            base: &self.slack_url,
            token,
        })
    }
}

/// The import has ended, but its report has problems.
#[derive(Debug, thiserror::Error)]
#[error("the import ended with {}", counted(*.0, "problem"))]
pub(super) struct HasProblems(i64);

struct Server {
    client: reqwest::Client,
    base: String,
    key: String,
}

impl Server {
    async fn call(
        &self,
        method: Method,
        path: &str,
        with: impl FnOnce(reqwest::RequestBuilder) -> reqwest::RequestBuilder,
    ) -> anyhow::Result<Value> {
        let request = self.client.request(method, format!("{}{path}", self.base));
        let response = with(request.bearer_auth(&self.key)).send().await?;
        let status = response.status();
        let text = response.text().await?;
        let body: Value = serde_json::from_str(&text).unwrap_or_default();
        if status.is_success() {
            return Ok(body);
        }
        let message = body.pointer("/error/message").and_then(Value::as_str);
        bail!(
            "{} ({})",
            message.unwrap_or("the server refused the request"),
            status.as_u16()
        )
    }

    async fn get(&self, path: &str) -> anyhow::Result<Value> {
        self.call(Method::GET, path, |request| request).await
    }

    async fn send(&self, method: Method, path: &str, body: &Value) -> anyhow::Result<Value> {
        self.call(method, path, |request| request.json(body)).await
    }
}

/// Slack's API, for data that its exports lack.
struct Slack<'a> {
    client: &'a reqwest::Client,
    base: &'a str,
    token: &'a str,
}

impl Slack<'_> {
    /// Calls a method. Slack permits only some calls a minute, and states when it takes the next one.
    async fn ask(&self, method: &str, parameters: &[(&str, &str)]) -> anyhow::Result<Value> {
        let mut url = Url::parse(&format!("{}/{method}", self.base.trim_end_matches('/')))?;
        url.query_pairs_mut().extend_pairs(parameters);
        let mut tries = 1;
        let response = loop {
            let request = self.client.get(url.clone()).bearer_auth(self.token);
            let response = request.send().await?;
            if response.status() != StatusCode::TOO_MANY_REQUESTS || tries == SLACK_TRIES {
                break response.error_for_status()?;
            }
            tries += 1;
            let stated = response.headers().get(RETRY_AFTER);
            let stated = stated.and_then(|seconds| seconds.to_str().ok()?.trim().parse().ok());
            let pause = stated.map_or(SLACK_PAUSE, Duration::from_secs);
            tokio::time::sleep(pause.min(SLACK_PAUSE_MAX)).await;
        };
        let answer: Value = serde_json::from_str(&response.text().await?)?;
        let error = string(&answer, "error");
        ensure!(answer["ok"] == true, "Slack refused {method}: {error}");
        Ok(answer)
    }

    /// Addresses of people, by ID.
    async fn addresses(&self) -> anyhow::Result<HashMap<String, String>> {
        let (mut found, mut cursor) = (HashMap::new(), String::new());
        for _ in 0..SLACK_PAGES_MAX {
            let parameters = [("limit", "200"), ("cursor", cursor.as_str())];
            let page = self.ask("users.list", &parameters).await?;
            for person in page["members"].as_array().into_iter().flatten() {
                let email = person.pointer("/profile/email").and_then(Value::as_str);
                if let Some(email) = email {
                    found.insert(string(person, "id").to_owned(), email.to_owned());
                }
            }
            let next = page.pointer("/response_metadata/next_cursor");
            cursor.clear();
            cursor.push_str(next.and_then(Value::as_str).unwrap_or_default());
            if cursor.is_empty() {
                break;
            }
        }
        Ok(found)
    }

    /// The picture of an emoji; `None` if it is too large. The addresses are Slack's.
    async fn picture(&self, url: &str) -> anyhow::Result<Option<Vec<u8>>> {
        let is_safe = url.starts_with("https://") || url.starts_with(self.base);
        ensure!(is_safe, "{url} is not an address of Slack");
        let mut answer = self.client.get(url).send().await?.error_for_status()?;
        let mut bytes = Vec::new();
        while let Some(part) = answer.chunk().await? {
            bytes.extend_from_slice(&part);
            if bytes.len() > PICTURE_BYTES_MAX {
                return Ok(None);
            }
        }
        Ok(Some(bytes))
    }
}

/// Adds the addresses of people of the archive who have none there.
async fn add_addresses(server: &Server, path: &str, slack: &Slack<'_>) -> anyhow::Result<()> {
    let preview = server.get(&format!("{path}/preview")).await?;
    let people = preview["people"].as_array().into_iter().flatten();
    let mut found = slack.addresses().await?;
    let missing: HashMap<&str, String> = people
        .filter(|person| person["email"].is_null())
        .filter_map(|person| {
            let key = string(person, "key");
            Some((key, found.remove(key)?))
        })
        .collect();
    say(&format!("addresses from Slack: {}", missing.len()));
    if !missing.is_empty() {
        let choices = json!({"addresses": missing});
        server.send(Method::PATCH, path, &choices).await?;
    }
    Ok(())
}

/// Adds Slack's custom emoji that the workspace does not have. Returns the number of those that could not be added.
async fn add_emoji(server: &Server, slack: &Slack<'_>) -> anyhow::Result<i64> {
    let all = slack.ask("emoji.list", &[]).await?;
    let here = server.get("/v1/emoji").await?;
    let here = here["data"].as_array().into_iter().flatten();
    let mut files: HashMap<String, Value> = here
        .map(|emoji| (string(emoji, "name").to_owned(), emoji["file_id"].clone()))
        .collect();
    let all: Vec<(&str, &str)> = all["emoji"]
        .as_object()
        .into_iter()
        .flatten()
        .filter_map(|(name, url)| Some((name.as_str(), url.as_str()?)))
        .collect();
    // Further names follow the emoji that they name.
    let (aliases, pictures): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|(_, url)| url.starts_with(ALIAS));
    let (mut added, mut failed) = (0, 0);
    for (name, url) in pictures.into_iter().chain(aliases) {
        if files.contains_key(name) {
            continue;
        }
        let file = match url.strip_prefix(ALIAS) {
            Some(first) => match files.get(first) {
                Some(file) => Ok(file.clone()),
                // A name of a standard emoji, or of one that could not be added.
                None => continue,
            },
            None => upload_picture(server, slack, url).await,
        };
        let stored = match file {
            Ok(file) => {
                let form = json!({"name": name, "file_id": file});
                let made = server.send(Method::POST, "/v1/emoji", &form).await;
                made.map(|_| file)
            }
            Err(e) => Err(e),
        };
        match stored {
            Ok(file) => {
                added += 1;
                files.insert(name.to_owned(), file);
            }
            Err(e) => {
                failed += 1;
                say(&format!("  problem: emoji {name}: {e}"));
            }
        }
    }
    say(&format!("emoji: {added} added, {failed} left out"));
    Ok(failed)
}

/// Uploads the picture of an emoji, and returns the ID of the file.
async fn upload_picture(server: &Server, slack: &Slack<'_>, url: &str) -> anyhow::Result<Value> {
    let Some(picture) = slack.picture(url).await? else {
        bail!("the picture is larger than 256 KiB");
    };
    let head = format!(
        "--{BOUNDARY}\r\ncontent-disposition: form-data; name=\"file\"; filename=\"emoji\"\r\n\r\n"
    );
    let mut body = head.into_bytes();
    body.extend(picture);
    body.extend(format!("\r\n--{BOUNDARY}--\r\n").into_bytes());
    let kind = format!("multipart/form-data; boundary={BOUNDARY}");
    let uploaded = server.call(Method::POST, "/v1/files", |request| {
        request.header(CONTENT_TYPE, kind).body(body)
    });
    Ok(uploaded.await?["id"].clone())
}

fn number(value: &Value, pointer: &str) -> i64 {
    value.pointer(pointer).and_then(Value::as_i64).unwrap_or(0)
}

/// A number with its noun.
fn counted(n: i64, noun: &str) -> String {
    let ending = if n == 1 { "" } else { "s" };
    format!("{n} {noun}{ending}")
}

fn string<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}

/// Reads a table of keys and IDs.
fn read_map(path: &Path) -> anyhow::Result<HashMap<String, String>> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines
        .map(|line| {
            let (key, id) = line
                .split_once(',')
                .with_context(|| format!("{}: `{line}` is not KEY,ID", path.display()))?;
            Ok((key.trim().to_owned(), id.trim().to_owned()))
        })
        .collect()
}

fn open(path: &Path) -> anyhow::Result<std::fs::File> {
    std::fs::File::open(path).with_context(|| format!("cannot read {}", path.display()))
}

/// SHA-256 of a file.
fn digest_of(path: &Path) -> anyhow::Result<String> {
    let (mut file, mut hash) = (open(path)?, Sha256::new());
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let len = file.read(&mut buffer)?;
        if len == 0 {
            return Ok(hex::encode(hash.finalize()));
        }
        hash.update(&buffer[..len]);
    }
}

/// An import of the same archive that has not ended.
async fn find_begun(server: &Server, digest: &str) -> anyhow::Result<Option<Value>> {
    let all = server.get("/v1/imports").await?;
    let mut all = all["data"].as_array().into_iter().flatten();
    let begun = all.find(|import| {
        let is_open = !matches!(
            string(import, "state"),
            "done" | "failed" | "undoing" | "undone"
        );
        is_open && string(import, "digest") == digest
    });
    Ok(begun.cloned())
}

/// Uploads an archive from byte `at` on.
async fn upload(server: &Server, import: &str, path: &Path, mut at: u64) -> anyhow::Result<()> {
    let mut file = open(path)?;
    let total = file.metadata()?.len();
    ensure!(total > 0, "{} is empty", path.display());
    let archive = format!("{import}/archive");
    while at < total {
        let len = PIECE_BYTES.min(total - at);
        file.seek(SeekFrom::Start(at))?;
        let mut piece = vec![0; usize::try_from(len)?];
        file.read_exact(&mut piece)?;
        let range = format!("bytes {at}-{}/{total}", at + len - 1);
        let sent = server.call(Method::PUT, &archive, |request| {
            request.header(CONTENT_RANGE, range).body(piece)
        });
        at = u64::try_from(number(&sent.await?, "/received"))?;
    }
    Ok(())
}

/// Waits until an import has this state, and shows its progress.
async fn wait_for(server: &Server, import: &str, wanted: &str) -> anyhow::Result<()> {
    let mut shown = -1;
    loop {
        let import = server.get(import).await?;
        let state = string(&import, "state");
        if state == wanted {
            return Ok(());
        }
        if matches!(state, "failed" | "paused") {
            bail!("the import is {state}: {}", string(&import, "problem"));
        }
        if state == "running" {
            let (done, total) = (number(&import, "/done"), number(&import, "/total").max(1));
            let percent = done * 100 / total;
            if percent != shown {
                shown = percent;
                say_error(&format!("{percent} %"));
            }
        }
        tokio::time::sleep(WAIT).await;
    }
}

fn show(preview: &Value) {
    let of = |name: &str| number(preview, &format!("/counts/{name}"));
    let people = match of("people") {
        1 => "1 person".to_owned(),
        n => format!("{n} people"),
    };
    say(&format!(
        "{}: {people}, {} ({} private, {} direct), {}, {} left out",
        string(preview, "source"),
        counted(of("channels"), "channel"),
        of("private_channels"),
        of("direct_channels"),
        counted(of("messages"), "message"),
        of("left_out"),
    ));
    say(&format!(
        "  files: {} in the archive, {} as links, {} missing",
        of("files_here"),
        of("files_linked"),
        of("files_missing"),
    ));
    let mebibytes = |name: &str| number(preview, name) >> 20;
    say(&format!(
        "  storage: {} MiB needed, {} MiB free",
        mebibytes("/bytes_needed") + 1,
        mebibytes("/bytes_free"),
    ));
    say(&match of("minutes") {
        0 => "  time: less than a minute".to_owned(),
        n => format!("  time: about {}", counted(n, "minute")),
    });
    for channel in preview["channels"].as_array().into_iter().flatten() {
        if channel["kind"] != "direct" {
            say(&format!(
                "  {} ({}): {}, {}",
                string(channel, "name"),
                string(channel, "kind"),
                string(channel, "becomes"),
                counted(number(channel, "/messages"), "message"),
            ));
        }
    }
    show_problems(preview);
}

fn show_problems(of: &Value) {
    for problem in of["problems"].as_array().into_iter().flatten() {
        say(&format!(
            "  problem: {}",
            problem.as_str().unwrap_or_default()
        ));
    }
}

fn is_confirmed() -> anyhow::Result<bool> {
    let mut out = std::io::stderr();
    write!(out, "Import? [y/N] ")?;
    out.flush()?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// Origin of an import.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Begun {
    Now,
    Earlier,
}

/// Shows the preview of an uploaded archive, and starts the import if the user confirms. Otherwise, returns false.
async fn start(
    server: &Server,
    path: &str,
    command: &ImportCommand,
    begun: Begun,
) -> anyhow::Result<bool> {
    wait_for(server, path, "ready").await?;
    let mut choices = json!({});
    if begun == Begun::Earlier {
        choices["fetch"] = command.fetch.into();
    }
    if let Some(group) = command.group.as_ref().filter(|_| begun == Begun::Earlier) {
        choices["group"] = group.as_str().into();
    }
    if let Some(map) = &command.map {
        choices["people"] = json!(read_map(map)?);
    }
    if choices
        .as_object()
        .is_some_and(|choices| !choices.is_empty())
    {
        server.send(Method::PATCH, path, &choices).await?;
    }
    if let Some(slack) = command.slack(server, &server.get(path).await?) {
        add_addresses(server, path, &slack).await?;
    }
    show(&server.get(&format!("{path}/preview")).await?);
    if command.dry_run || !(command.yes || is_confirmed()?) {
        // An upload of an earlier command is kept.
        if begun == Begun::Now {
            server.call(Method::DELETE, path, |request| request).await?;
        }
        return Ok(false);
    }
    let start = format!("{path}/start");
    server.call(Method::POST, &start, |request| request).await?;
    Ok(true)
}

/// Checks that the archive goes to the workspace that was named: the key decides on it.
async fn check_workspace(server: &Server, wanted: &str) -> anyhow::Result<()> {
    let all = server.get("/v1/workspaces").await?;
    let mut all = all["data"].as_array().into_iter().flatten();
    let is_named = all.any(|one| string(one, "slug") == wanted || string(one, "id") == wanted);
    ensure!(is_named, "the key is not one of the workspace {wanted}");
    Ok(())
}

/// Imports an archive. An import of the same archive that was interrupted continues.
///
/// # Errors
/// `HasProblems`, or what the server refused.
pub(super) async fn run(command: ImportCommand) -> anyhow::Result<()> {
    let server = Server {
        client: trust::client_builder().timeout(TIMEOUT).build()?,
        base: command.url.trim_end_matches('/').to_owned(),
        key: command.key.clone(),
    };
    if let Some(wanted) = &command.workspace {
        check_workspace(&server, wanted).await?;
    }
    let digest = digest_of(&command.file)?;
    let (import, begun) = if let Some(import) = find_begun(&server, &digest).await? {
        say_error("An import of this archive was interrupted: continuing it.");
        (import, Begun::Earlier)
    } else {
        let form = json!({
            "format": command.format,
            "options": {"fetch": command.fetch, "group": command.group},
            "digest": digest,
        });
        let made = server.send(Method::POST, "/v1/imports", &form).await?;
        (made, Begun::Now)
    };
    let path = format!("/v1/imports/{}", string(&import, "id"));
    match string(&import, "state") {
        "running" | "paused" if command.dry_run => bail!("the import has started already"),
        "running" => {}
        "paused" => {
            let resume = format!("{path}/resume");
            server
                .call(Method::POST, &resume, |request| request)
                .await?;
        }
        state => {
            if state == "receiving" {
                let received = u64::try_from(number(&import, "/received"))?;
                upload(&server, &path, &command.file, received).await?;
            }
            if !start(&server, &path, &command, begun).await? {
                return Ok(());
            }
        }
    }
    wait_for(&server, &path, "done").await?;
    let report = server.get(&format!("{path}/report")).await?;
    for (kind, counts) in report["kinds"].as_object().into_iter().flatten() {
        say(&format!(
            "{kind}: {} read, {} imported, {} existing, {} merged, {} left out",
            number(counts, "/read"),
            number(counts, "/imported"),
            number(counts, "/existing"),
            number(counts, "/merged"),
            number(counts, "/left_out"),
        ));
    }
    show_problems(&report);
    let problems = report["problems"].as_array().map_or(0, Vec::len);
    let mut problems = i64::try_from(problems)?;
    if let Some(slack) = command.slack(&server, &server.get(&path).await?) {
        problems += add_emoji(&server, &slack).await?;
    }
    if problems > 0 {
        return Err(HasProblems(problems).into());
    }
    Ok(())
}
