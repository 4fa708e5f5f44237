//! `openvibe post`: posts a message from scripts, through a webhook or with an API key of a running server.

use std::{
    io::Read,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context, bail, ensure};
use clap::Args;
use reqwest::{
    StatusCode,
    header::{CONTENT_TYPE, RETRY_AFTER},
};
use serde_json::{Value, json};
use uuid::Uuid;

use super::output::say;
use crate::{hooks::fenced, slack::parse_channel, trust};

/// Time for which an unreachable server is tried again.
const RETRY_FOR: Duration = Duration::from_secs(30);
const RETRY_AFTER_MAX: Duration = Duration::from_secs(10);
/// Maximum size of a message; the server rejects longer ones.
const STDIN_BYTES_MAX: u64 = 1024 * 1024;
const FILES_MAX: usize = 10;

#[derive(Args)]
pub(super) struct PostCommand {
    /// Address of a webhook; without it, `--url`, `--api-key`, and `--channel` are needed
    #[arg(long, env = "OPENVIBE_HOOK", hide_env_values = true)]
    hook: Option<String>,
    /// Address of the server
    #[arg(long, env = "OPENVIBE_URL")]
    url: Option<String>,
    /// API key of a person or a bot, with `chat:write` and `chat:read`
    #[arg(long, env = "OPENVIBE_API_KEY", hide_env_values = true)]
    api_key: Option<String>,
    /// Name or ID of the channel, with an API key
    #[arg(long)]
    channel: Option<String>,
    /// Messages with the same key are posted in one thread; with an API key, the ID of a thread
    #[arg(long, value_name = "KEY")]
    thread: Option<String>,
    /// First line, in bold
    #[arg(long)]
    title: Option<String>,
    /// Show the text as code in this language
    #[arg(long, value_name = "LANG")]
    code: Option<String>,
    /// File to attach; up to 10, and with a webhook, 1 MiB in all
    #[arg(long = "file", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Text of the message [default: standard input]
    text: Option<String>,
}

/// The server does not answer.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Unreachable(pub(super) String);

/// Exit status if the server does not answer: `EX_TEMPFAIL` of `sysexits.h`.
pub(super) const UNREACHABLE: u8 = 75;

/// The arguments and variables do not say what to post, or where.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Misused(&'static str);

/// Exit status for wrong arguments, also that of the parser.
pub(super) const MISUSED: u8 = 2;

struct RetryingClient {
    client: reqwest::Client,
    started: Instant,
}

/// Time until the next attempt; `None` if another attempt cannot succeed.
fn retry_after(response: &reqwest::Response) -> Option<Duration> {
    let is_temporary = matches!(
        response.status(),
        StatusCode::TOO_MANY_REQUESTS
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT
    );
    let stated = response.headers().get(RETRY_AFTER);
    let stated = stated.and_then(|value| value.to_str().ok()?.parse().ok());
    let wait = stated.map_or(Duration::from_secs(1), Duration::from_secs);
    is_temporary.then(|| wait.min(RETRY_AFTER_MAX))
}

impl RetryingClient {
    fn new() -> anyhow::Result<Self> {
        // Fails only if a provider was already installed in this process.
        drop(rustls::crypto::ring::default_provider().install_default());
        Ok(Self {
            client: trust::client_builder().timeout(RETRY_FOR).build()?,
            started: Instant::now(),
        })
    }

    /// Sends a request until the server answers it.
    async fn send(&self, request: reqwest::RequestBuilder) -> anyhow::Result<Value> {
        loop {
            let attempt = request
                .try_clone()
                .context("the request cannot be sent twice")?;
            let (problem, wait) = match attempt.send().await {
                Ok(response) => match retry_after(&response) {
                    Some(wait) => (format!("the server answers {}", response.status()), wait),
                    None => return read_answer(response).await,
                },
                Err(e) if e.is_builder() => return Err(e.without_url().into()),
                // The address of a webhook is a secret.
                Err(e) => (e.without_url().to_string(), Duration::from_secs(1)),
            };
            if self.started.elapsed() + wait > RETRY_FOR {
                return Err(Unreachable(format!("{problem}; is the server running?")).into());
            }
            tokio::time::sleep(wait).await;
        }
    }
}

async fn read_answer(response: reqwest::Response) -> anyhow::Result<Value> {
    let status = response.status();
    let text = response.text().await.map_err(reqwest::Error::without_url)?;
    let body: Value = serde_json::from_str(&text).unwrap_or_default();
    if status.is_success() {
        return Ok(body);
    }
    let message = body.pointer("/error/message").and_then(Value::as_str);
    let cause = message
        .unwrap_or_else(|| text.trim())
        .chars()
        .take(300)
        .collect::<String>();
    bail!(
        "the server rejected the message ({}): {cause}",
        status.as_u16()
    )
}

fn read_text(command: &PostCommand) -> anyhow::Result<String> {
    let text = match &command.text {
        Some(text) => text.clone(),
        None if !command.files.is_empty() => String::new(),
        None => {
            let mut bytes = Vec::new();
            std::io::stdin()
                .take(STDIN_BYTES_MAX + 1)
                .read_to_end(&mut bytes)?;
            ensure!(
                bytes.len() as u64 <= STDIN_BYTES_MAX,
                Misused("the text is larger than 1 MiB")
            );
            String::from_utf8_lossy(&bytes).into_owned()
        }
    };
    let is_empty = text.trim().is_empty() && command.files.is_empty();
    ensure!(
        !is_empty,
        Misused("the text is empty: pass it as an argument or on standard input")
    );
    ensure!(
        command.files.len() <= FILES_MAX,
        Misused("too many files for one message")
    );
    Ok(match &command.code {
        Some(language) => fenced(&text, language),
        None => text,
    })
}

/// Posts the message and prints its link.
///
/// # Errors
/// `Unreachable`, or a description of what the server rejected.
pub(super) async fn run(command: PostCommand) -> anyhow::Result<()> {
    let text = read_text(&command)?;
    let sender = RetryingClient::new()?;
    let link = match (&command.hook, &command.url, &command.api_key) {
        (Some(hook), _, _) if command.channel.is_none() => {
            to_hook(&sender, hook, &command, &text).await?
        }
        (_, Some(url), Some(key)) => {
            let server = ApiServer {
                sender,
                base: url.trim_end_matches('/'),
                key,
            };
            server.post(&command, &text).await?
        }
        (Some(_), _, _) => bail!(Misused(
            "a webhook posts in its own channel: leave out --channel, or set OPENVIBE_URL and OPENVIBE_API_KEY"
        )),
        _ => bail!(Misused(
            "set OPENVIBE_HOOK to a webhook's address, or OPENVIBE_URL and OPENVIBE_API_KEY"
        )),
    };
    say(&link);
    Ok(())
}

/// Body of a request with fields and files.
struct FormBody {
    boundary: String,
    bytes: Vec<u8>,
}

impl FormBody {
    fn new() -> Self {
        Self {
            boundary: Uuid::now_v7().simple().to_string(),
            bytes: Vec::new(),
        }
    }

    fn part(&mut self, disposition: &str, value: &[u8]) {
        let head = format!(
            "--{}\r\nContent-Disposition: form-data; {disposition}\r\n\r\n",
            self.boundary
        );
        self.bytes.extend(head.into_bytes());
        self.bytes.extend(value);
        self.bytes.extend(b"\r\n");
    }

    fn field(&mut self, name: &str, value: &str) {
        self.part(&format!("name=\"{name}\""), value.as_bytes());
    }

    fn file(&mut self, path: &Path) -> anyhow::Result<()> {
        let bytes =
            std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        let name = path
            .file_name()
            .map(|name| name.to_string_lossy().replace(['"', '\r', '\n'], "_"));
        let name = name.unwrap_or_default();
        self.part(&format!("name=\"file\"; filename=\"{name}\""), &bytes);
        Ok(())
    }

    fn attach(mut self, request: reqwest::RequestBuilder) -> reqwest::RequestBuilder {
        let end = format!("--{}--\r\n", self.boundary);
        self.bytes.extend(end.into_bytes());
        let kind = format!("multipart/form-data; boundary={}", self.boundary);
        request.header(CONTENT_TYPE, kind).body(self.bytes)
    }
}

async fn to_hook(
    sender: &RetryingClient,
    hook: &str,
    command: &PostCommand,
    text: &str,
) -> anyhow::Result<String> {
    let Ok(mut url) = hook.parse::<reqwest::Url>() else {
        bail!(Misused("OPENVIBE_HOOK is not an address"));
    };
    url.query_pairs_mut().append_pair("answer", "json");
    let (request, id) = (sender.client.post(url), Uuid::now_v7().to_string());
    let request = if command.files.is_empty() {
        let (title, thread) = (&command.title, &command.thread);
        request.json(&json!({"text": text, "title": title, "thread_key": thread, "client_id": id}))
    } else {
        let mut form = FormBody::new();
        let (title, thread) = (command.title.as_deref(), command.thread.as_deref());
        let fields = [
            ("text", Some(text)),
            ("title", title),
            ("thread_key", thread),
            ("client_id", Some(id.as_str())),
        ];
        for (name, value) in fields {
            if let Some(value) = value.filter(|value| !value.is_empty()) {
                form.field(name, value);
            }
        }
        for file in &command.files {
            form.file(file)?;
        }
        form.attach(request)
    };
    let answer = sender.send(request).await?;
    for note in answer["notes"].as_array().into_iter().flatten() {
        super::output::say_error(&format!("openvibe: {}", note.as_str().unwrap_or_default()));
    }
    Ok(answer["url"].as_str().unwrap_or_default().to_owned())
}

/// A text in an answer; empty if it is absent.
fn text_at<'a>(answer: &'a Value, pointer: &str) -> &'a str {
    let found = answer.pointer(pointer).and_then(Value::as_str);
    found.unwrap_or_default()
}

/// A server and an API key.
struct ApiServer<'a> {
    sender: RetryingClient,
    base: &'a str,
    key: &'a str,
}

impl ApiServer<'_> {
    async fn create(&self, path: &str, body: &Value) -> anyhow::Result<Value> {
        let request = self.sender.client.post(format!("{}{path}", self.base));
        self.sender
            .send(request.bearer_auth(self.key).json(body))
            .await
    }

    /// The ID of a channel. Slack's Web API finds names, also for the keys of bots.
    async fn channel_id(&self, wanted: &str) -> anyhow::Result<String> {
        if wanted.starts_with("chan_") {
            return Ok(wanted.to_owned());
        }
        let name = wanted.trim_start_matches('#');
        let named = json!({"channel": format!("#{name}")});
        let answer = self.create("/api/conversations.info", &named).await?;
        let error = text_at(&answer, "/error");
        ensure!(
            error != "channel_not_found",
            "there is no channel #{name} that this key can read"
        );
        let id = parse_channel(text_at(&answer, "/channel/id"));
        let id = id.with_context(|| format!("the server rejected the key: {error}"))?;
        Ok(id.to_string())
    }

    async fn upload(&self, path: &Path) -> anyhow::Result<Value> {
        let mut form = FormBody::new();
        form.field("client_id", &Uuid::now_v7().to_string());
        form.file(path)?;
        let request = self.sender.client.post(format!("{}/v1/files", self.base));
        let request = form.attach(request.bearer_auth(self.key));
        Ok(self.sender.send(request).await?["id"].clone())
    }

    async fn post(&self, command: &PostCommand, text: &str) -> anyhow::Result<String> {
        let path = match (&command.thread, &command.channel) {
            (Some(thread), _) => format!("/v1/threads/{thread}/messages"),
            (None, Some(channel)) => {
                format!("/v1/channels/{}/threads", self.channel_id(channel).await?)
            }
            (None, None) => bail!(Misused("pass --channel with the name of the channel")),
        };
        let team = self.create("/api/team.info", &json!({})).await?;
        let slug = text_at(&team, "/team/domain");
        let mut files = Vec::new();
        for file in &command.files {
            files.push(self.upload(file).await?);
        }
        let content = match &command.title {
            Some(title) => format!("**{title}**\n\n{text}"),
            None => text.to_owned(),
        };
        let body = json!({"content": content, "attachments": files, "client_id": Uuid::now_v7().to_string()});
        let posted = self.create(&path, &body).await?;
        let of = |name: &str| text_at(&posted["message"], name);
        let (channel, thread, id) = (of("/channel_id"), of("/thread_id"), of("/id"));
        Ok(format!(
            "{}/{slug}/c/{channel}/t/{thread}#m-{id}",
            self.base
        ))
    }
}
