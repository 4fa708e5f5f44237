//! `openvibe acp`: a small coding agent that speaks the Agent Client Protocol and uses the workspace's model.
//!
//! It has no credentials and no network but the door. Its history is a file in its home directory, so a killed turn continues.

use std::{
    io::Read,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use serde_json::{Value, json};
use tokio::process::Command;

use crate::{
    Owner,
    acp::{Message, Peer},
    failure::{Failure, finish},
    frames::cut,
};

/// Function calls in a turn.
const CALLS_MAX: usize = 100;
const RESULT_BYTES_MAX: usize = 32 << 10;
/// Size of the history from which the oldest results are left out.
const HISTORY_BYTES_MAX: usize = 300 << 10;
const FILE_BYTES_MAX: u64 = 4 << 20;
const MODEL_MAX: Duration = Duration::from_mins(10);
const COMMAND_SECONDS: u64 = 120;
const COMMAND_SECONDS_MAX: u64 = 1200;
const TRIES_MAX: u32 = 4;

const INSTRUCTIONS: &str = "You work on a git repository, in its directory, for a team. Read before you change, keep \
    changes small, follow the style of the code, and run its tests. Do not commit or push: your changes are shown to \
    the team as a diff. When you are done, summarize what you changed in one line, then explain it briefly.";

/// Runs the agent on the standard streams until they close.
pub async fn run() -> ExitCode {
    // Only for the client below, which uses no TLS.
    drop(rustls::crypto::ring::default_provider().install_default());
    let door = std::env::var("OPENVIBE_DOOR");
    let door = door.unwrap_or_else(|_| "http://127.0.0.1:3128".to_owned());
    let Ok(client) =
        reqwest::Client::builder().tls_certs_only(std::iter::empty()).timeout(MODEL_MAX).build()
    else {
        return ExitCode::FAILURE;
    };
    let owner = Owner::new();
    let mut peer = Peer::new(tokio::io::stdin(), tokio::io::stdout(), &owner);
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let work = std::env::current_dir().unwrap_or_default();
    let mut agent = Agent { door, client, home, work, id: String::new(), history: Vec::new() };
    while let Some(message) = peer.messages.recv().await {
        let Message::Request { id, method, params } = message else { continue };
        if agent.answer(&mut peer, &id, &method, &params).await.is_err() {
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

struct Agent {
    door: String,
    client: reqwest::Client,
    home: PathBuf,
    work: PathBuf,
    /// Session.
    id: String,
    /// Messages for the model.
    history: Vec<Value>,
}

/// The turn was canceled, or the client is gone.
struct Canceled;

impl From<Failure> for Canceled {
    fn from(_: Failure) -> Self {
        Self
    }
}

/// Reason why a turn ended.
enum Stop {
    Reason(&'static str),
    Error(String),
}

impl Agent {
    async fn answer(
        &mut self,
        peer: &mut Peer,
        id: &Value,
        method: &str,
        params: &Value,
    ) -> Result<(), Failure> {
        match method {
            "initialize" => {
                let result = json!({
                    "protocolVersion": 1,
                    "agentCapabilities": {"sessionCapabilities": {"resume": {}}},
                    "agentInfo": {"name": "openvibe", "title": "OpenVibe", "version": env!("CARGO_PKG_VERSION")},
                    "authMethods": [],
                });
                peer.respond(id, &result).await
            }
            "session/new" => {
                let nanos =
                    std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_nanos());
                self.id = format!("s{nanos:x}");
                self.history = vec![json!({"role": "system", "content": self.instructions()})];
                peer.respond(id, &json!({"sessionId": self.id})).await
            }
            "session/resume" => {
                let name = params["sessionId"].as_str().unwrap_or_default();
                name.clone_into(&mut self.id);
                match self.load() {
                    Some(history) => {
                        self.history = history;
                        peer.respond(id, &json!({})).await
                    }
                    None => peer.reject(id, "this session").await,
                }
            }
            "session/prompt" => {
                let blocks = params["prompt"].as_array().into_iter().flatten();
                let text: Vec<&str> = blocks.filter_map(|block| block["text"].as_str()).collect();
                self.history.push(json!({"role": "user", "content": text.join("\n")}));
                let stop = self.turn(peer).await.unwrap_or(Stop::Reason("cancelled"));
                self.complete_calls();
                self.save();
                match stop {
                    Stop::Reason(reason) => peer.respond(id, &json!({"stopReason": reason})).await,
                    Stop::Error(message) => peer.fail(id, &message).await,
                }
            }
            _ => peer.reject(id, method).await,
        }
    }

    fn instructions(&self) -> String {
        match read(&self.work.join("AGENTS.md")) {
            Ok(text) => format!(
                "{INSTRUCTIONS}\n\nAGENTS.md of this repository:\n{}",
                cut(&text, RESULT_BYTES_MAX)
            ),
            Err(_) => INSTRUCTIONS.to_owned(),
        }
    }

    fn path(&self) -> Option<PathBuf> {
        let is_name = self.id.chars().all(|c| c.is_ascii_alphanumeric()) && !self.id.is_empty();
        is_name.then(|| self.home.join(".openvibe").join(format!("{}.json", self.id)))
    }

    fn load(&self) -> Option<Vec<Value>> {
        serde_json::from_slice(&std::fs::read(self.path()?).ok()?).ok()
    }

    fn save(&self) {
        // Without a file, the next turn starts with the whole conversation.
        let _ = self.path().map(|path| {
            std::fs::create_dir_all(self.home.join(".openvibe"))?;
            let temporary = path.with_extension("new");
            std::fs::write(&temporary, serde_json::to_vec(&self.history)?)?;
            std::fs::rename(temporary, path)
        });
    }

    async fn update(&self, peer: &mut Peer, update: &Value) -> Result<(), Failure> {
        peer.notify("session/update", &json!({"sessionId": self.id, "update": update})).await
    }

    async fn turn(&mut self, peer: &mut Peer) -> Result<Stop, Canceled> {
        self.complete_calls();
        let mut calls_left = CALLS_MAX;
        loop {
            self.shorten();
            self.save();
            let body = json!({"messages": self.history, "tools": functions()});
            let choice = match until_canceled(peer, self.ask_model(&body)).await? {
                Ok(choice) => choice,
                Err(message) => return Ok(Stop::Error(message)),
            };
            let message = choice["message"].clone();
            if let Some(text) = message["content"].as_str().filter(|text| !text.is_empty()) {
                let update = json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}});
                self.update(peer, &update).await?;
            }
            let calls: Vec<Value> = message["tool_calls"].as_array().cloned().unwrap_or_default();
            self.history.push(message);
            match choice["finish_reason"].as_str() {
                Some("length") => return Ok(Stop::Reason("max_tokens")),
                Some("content_filter") => return Ok(Stop::Reason("refusal")),
                _ if calls.is_empty() => return Ok(Stop::Reason("end_turn")),
                _ => {}
            }
            for call in calls {
                if calls_left == 0 {
                    return Ok(Stop::Reason("max_turn_requests"));
                }
                calls_left -= 1;
                let result = self.call(peer, &call).await?;
                let result = cut(&result, RESULT_BYTES_MAX);
                self.history
                    .push(json!({"role": "tool", "tool_call_id": call["id"], "content": result}));
            }
        }
    }

    /// Adds results of calls that were interrupted: models reject a history without them.
    fn complete_calls(&mut self) {
        let is_call = |message: &Value| {
            message["tool_calls"].as_array().is_some_and(|calls| !calls.is_empty())
        };
        let Some(last) = self.history.iter().rposition(is_call) else { return };
        let ids: Vec<Value> = self.history[last]["tool_calls"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|call| call["id"].clone())
            .collect();
        let mut at = last + 1;
        for id in ids {
            if self.history.get(at).is_some_and(|message| message["tool_call_id"] == id) {
                at += 1;
                continue;
            }
            self.history
                .insert(at, json!({"role": "tool", "tool_call_id": id, "content": "interrupted"}));
            at += 1;
        }
    }

    fn shorten(&mut self) {
        let size = |message: &Value| message.to_string().len();
        let mut total: usize = self.history.iter().map(size).sum();
        for message in &mut self.history {
            if total <= HISTORY_BYTES_MAX {
                break;
            }
            if message["role"] == "tool" {
                let before = size(message);
                message["content"] = json!("(left out)");
                total -= before.saturating_sub(size(message));
            }
        }
    }

    async fn ask_model(&self, body: &Value) -> Result<Value, String> {
        let url = format!("{}/openvibe/v1/chat/completions", self.door);
        let mut pause = Duration::from_secs(2);
        let mut tries = 1;
        loop {
            let cause = match self.client.post(&url).json(body).send().await {
                Ok(answer) => {
                    let status = answer.status();
                    let value: Value = answer.json().await.unwrap_or_default();
                    if status.is_success() && value["choices"][0]["message"].is_object() {
                        return Ok(value["choices"][0].clone());
                    }
                    let text = value["error"]["message"].as_str().unwrap_or("no reason given");
                    let cause =
                        format!("the model request failed with {status}: {}", cut(text, 500));
                    if !status.is_server_error() && status != 429 {
                        return Err(cause);
                    }
                    cause
                }
                Err(error) => format!("the model cannot be reached: {error}"),
            };
            if tries == TRIES_MAX {
                return Err(cause);
            }
            tries += 1;
            tokio::time::sleep(pause).await;
            pause *= 2;
        }
    }

    /// Executes a call, and reports it as a step.
    async fn call(&self, peer: &mut Peer, call: &Value) -> Result<String, Canceled> {
        let name = call["function"]["name"].as_str().unwrap_or_default();
        let arguments = call["function"]["arguments"].as_str().unwrap_or("{}");
        let arguments: Value = serde_json::from_str(arguments).unwrap_or_default();
        let text = |name: &str| arguments[name].as_str().unwrap_or_default();
        let (kind, title) = match name {
            "read_file" => ("read", format!("Read {}", text("path"))),
            "search" => ("search", format!("Search {}", text("pattern"))),
            "edit" => ("edit", format!("Edit {}", text("path"))),
            "run" => ("execute", format!("`{}`", text("command"))),
            "plan" => {
                let steps = arguments["steps"].as_array().into_iter().flatten();
                let entries: Vec<Value> = steps.map(plan_entry).collect();
                self.update(peer, &json!({"sessionUpdate": "plan", "entries": entries})).await?;
                return Ok("ok".to_owned());
            }
            "ask" => return ask(peer, &self.id, text("question"), &arguments["options"]).await,
            _ => return Ok(format!("error: there is no function {name}")),
        };
        let id = call["id"].as_str().unwrap_or("call");
        let step = json!({"sessionUpdate": "tool_call", "toolCallId": id, "title": cut(&title, 300), "kind": kind, "status": "in_progress"});
        self.update(peer, &step).await?;
        let is_allowed =
            !matches!(name, "edit" | "run") || self.is_allowed(peer, id, &title, kind).await?;
        let result = if is_allowed {
            until_canceled(peer, self.execute(name, &arguments)).await?
        } else {
            Err("denied".to_owned())
        };
        let (status, text) = match result {
            Ok(text) => ("completed", text),
            Err(error) => ("failed", format!("error: {error}")),
        };
        let content = json!([{"type": "content", "content": {"type": "text", "text": cut(&text, RESULT_BYTES_MAX)}}]);
        let end = json!({"sessionUpdate": "tool_call_update", "toolCallId": id, "status": status, "content": content});
        self.update(peer, &end).await?;
        Ok(text)
    }

    async fn is_allowed(
        &self,
        peer: &mut Peer,
        id: &str,
        title: &str,
        kind: &str,
    ) -> Result<bool, Canceled> {
        let params = json!({
            "sessionId": self.id,
            "toolCall": {"toolCallId": id, "title": cut(title, 2000), "kind": kind},
            "options": [
                {"optionId": "allow", "name": "Allow once", "kind": "allow_once"},
                {"optionId": "reject", "name": "Deny", "kind": "reject_once"},
            ],
        });
        let result = request(peer, "session/request_permission", &params).await?;
        Ok(result.is_ok_and(|result| result["outcome"]["optionId"] == "allow"))
    }

    async fn execute(&self, name: &str, arguments: &Value) -> Result<String, String> {
        let text = |name: &str| arguments[name].as_str();
        let path = text("path").unwrap_or(".");
        let path = match path.strip_prefix("~/") {
            Some(rest) => self.home.join(rest),
            None => self.work.join(path),
        };
        match name {
            "read_file" => {
                let file = read(&path)?;
                let from = arguments["from"].as_u64().unwrap_or(1).max(1);
                let count = arguments["lines"].as_u64().unwrap_or(500);
                let (skipped, count) = (usize::try_from(from - 1), usize::try_from(count));
                let lines = file.lines().enumerate().skip(skipped.unwrap_or(usize::MAX));
                let lines = lines.take(count.unwrap_or(usize::MAX));
                let lines: Vec<String> =
                    lines.map(|(n, line)| format!("{}\t{line}\n", n + 1)).collect();
                Ok(lines.concat())
            }
            "search" => {
                let pattern = text("pattern").ok_or("pattern is missing")?;
                let mut command = Command::new("grep");
                command.args([
                    "-rnIE",
                    "--exclude-dir=.git",
                    "--exclude-dir=node_modules",
                    "-e",
                    pattern,
                    "--",
                ]);
                command.arg(text("path").unwrap_or(".")).current_dir(&self.work);
                let ended = output(command, 60, RESULT_BYTES_MAX as u64).await?;
                match ended.code {
                    Some(0) => Ok(String::from_utf8_lossy(&ended.stdout).into_owned()),
                    Some(1) => Ok("no results".to_owned()),
                    _ => Err(ended.cause()),
                }
            }
            "edit" => {
                let new = text("new").ok_or("new is missing")?;
                let Some(old) = text("old").filter(|old| !old.is_empty()) else {
                    if path.exists() {
                        return Err("the file exists: give the old text".to_owned());
                    }
                    let parent = path.parent().unwrap_or(Path::new("."));
                    std::fs::create_dir_all(parent).map_err(|error| error.to_string())?;
                    std::fs::write(&path, new).map_err(|error| error.to_string())?;
                    return Ok("created".to_owned());
                };
                let file = read(&path)?;
                match file.matches(old).count() {
                    0 => return Err("the old text is not in the file".to_owned()),
                    1 => {}
                    n => {
                        return Err(format!(
                            "the old text is in the file {n} times: give more of it"
                        ));
                    }
                }
                std::fs::write(&path, file.replacen(old, new, 1))
                    .map_err(|error| error.to_string())?;
                Ok("edited".to_owned())
            }
            _ => {
                let script = text("command").ok_or("command is missing")?;
                let seconds = arguments["timeout_s"].as_u64().unwrap_or(COMMAND_SECONDS);
                let seconds = seconds.clamp(1, COMMAND_SECONDS_MAX);
                let mut command = Command::new("timeout");
                command.args(["-k", "1", &seconds.to_string(), "sh", "-c"]);
                command.arg(format!("exec 2>&1\n{script}")).current_dir(&self.work);
                let ended = output(command, seconds + 5, FILE_BYTES_MAX).await?;
                let text = middle_out(&String::from_utf8_lossy(&ended.stdout));
                match ended.code {
                    Some(0) => Ok(text),
                    Some(124) => Ok(format!("{text}\n(stopped after {seconds} s)")),
                    Some(code) => Ok(format!("{text}\n(exit status {code})")),
                    None => Ok(format!("{text}\n(killed)")),
                }
            }
        }
    }
}

async fn output(
    command: Command,
    seconds: u64,
    bytes_max: u64,
) -> Result<crate::failure::Finished, String> {
    let ended = finish(command, Duration::from_secs(seconds), bytes_max).await;
    ended.map_err(|error| error.to_string())
}

fn read(path: &Path) -> Result<String, String> {
    let metadata = std::fs::metadata(path).map_err(|error| error.to_string())?;
    if !metadata.is_file() || metadata.len() > FILE_BYTES_MAX {
        return Err("not a file of up to 4 MiB".to_owned());
    }
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(|error| error.to_string())?;
    file.take(FILE_BYTES_MAX).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    String::from_utf8(bytes).map_err(|_| "not a text".to_owned())
}

/// The start and the end of a long output.
fn middle_out(text: &str) -> String {
    let quarter = RESULT_BYTES_MAX / 4;
    if text.len() <= RESULT_BYTES_MAX - 100 {
        return text.to_owned();
    }
    let end = text.ceil_char_boundary(text.len() - 2 * quarter);
    format!("{}\n(…)\n{}", cut(text, quarter), &text[end..])
}

fn plan_entry(step: &Value) -> Value {
    let content = step.as_str().or(step["content"].as_str()).unwrap_or_default();
    let status = step["status"].as_str().unwrap_or("pending");
    json!({"content": content, "priority": "medium", "status": status})
}

async fn ask(
    peer: &mut Peer,
    id: &str,
    question: &str,
    options: &Value,
) -> Result<String, Canceled> {
    let mut answer = json!({"type": "string", "title": "Answer"});
    if options.as_array().is_some_and(|options| !options.is_empty()) {
        answer["enum"] = options.clone();
    }
    let schema =
        json!({"type": "object", "properties": {"answer": answer}, "required": ["answer"]});
    let params =
        json!({"sessionId": id, "mode": "form", "message": question, "requestedSchema": schema});
    let result = request(peer, "elicitation/create", &params).await?.unwrap_or_default();
    let answer = result["content"]["answer"].as_str();
    Ok(answer.map_or("no answer: decide yourself".to_owned(), str::to_owned))
}

/// Sends a request to the client, and waits for a person.
async fn request(
    peer: &mut Peer,
    method: &str,
    params: &Value,
) -> Result<Result<Value, String>, Canceled> {
    let own = peer.request(method, params).await?;
    while let Some(message) = peer.messages.recv().await {
        match message {
            Message::Response { id, result } if id == own => return Ok(result),
            Message::Notification { method, .. } if method == "session/cancel" => break,
            Message::Request { id, method, .. } => peer.reject(&id, &method).await?,
            _ => {}
        }
    }
    Err(Canceled)
}

async fn until_canceled<T>(peer: &mut Peer, work: impl Future<Output = T>) -> Result<T, Canceled> {
    let mut work = std::pin::pin!(work);
    loop {
        let message = tokio::select! {
            done = &mut work => return Ok(done),
            message = peer.messages.recv() => message,
        };
        match message {
            None => return Err(Canceled),
            Some(Message::Notification { method, .. }) if method == "session/cancel" => {
                return Err(Canceled);
            }
            Some(Message::Request { id, method, .. }) => peer.reject(&id, &method).await?,
            Some(_) => {}
        }
    }
}

fn functions() -> Value {
    let function = |name: &str, description: &str, properties: Value, required: &[&str]| {
        let parameters = json!({"type": "object", "properties": properties, "required": required});
        json!({"type": "function", "function": {"name": name, "description": description, "parameters": parameters}})
    };
    let text = |description: &str| json!({"type": "string", "description": description});
    let number = |description: &str| json!({"type": "integer", "description": description});
    json!([
        function(
            "read_file",
            "Returns numbered lines of a text file",
            json!({"path": text("Path in the repository"), "from": number("First line, from 1"), "lines": number("Number of lines (500)")}),
            &["path"],
        ),
        function(
            "search",
            "Returns lines that match an extended regular expression, with file and line",
            json!({"pattern": text("Regular expression"), "path": text("File or directory")}),
            &["pattern"],
        ),
        function(
            "edit",
            "Replaces a text that occurs exactly once in a file, or creates a file",
            json!({"path": text("Path in the repository"), "old": text("Text to replace; leave it out for a new file"), "new": text("New text")}),
            &["path", "new"],
        ),
        function(
            "run",
            "Runs a shell command in the repository and returns its output",
            json!({"command": text("Command"), "timeout_s": number("Seconds (120, at most 1200)")}),
            &["command"],
        ),
        function(
            "plan",
            "Shows your plan to people; call it again to update it",
            json!({"steps": {"type": "array", "items": {"type": "object", "properties": {
                "content": text("Step"),
                "status": {"type": "string", "enum": ["pending", "in_progress", "completed"]},
            }, "required": ["content", "status"]}}}),
            &["steps"],
        ),
        function(
            "ask",
            "Asks the person a question that only they can answer, and returns the answer",
            json!({"question": text("Question"), "options": {"type": "array", "items": {"type": "string"}}}),
            &["question"],
        ),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent(directory: &Path) -> Agent {
        let client = reqwest::Client::builder();
        drop(rustls::crypto::ring::default_provider().install_default());
        Agent {
            door: "http://127.0.0.1:9".to_owned(),
            client: client.build().unwrap(),
            home: directory.join("home"),
            work: directory.to_owned(),
            id: "s1".to_owned(),
            history: Vec::new(),
        }
    }

    #[tokio::test]
    async fn files_are_read_searched_and_edited() {
        let directory = tempfile::tempdir().unwrap();
        let agent = agent(directory.path());
        let execute = async |name: &str, arguments: Value| agent.execute(name, &arguments).await;
        let created = execute("edit", json!({"path": "src/a.txt", "new": "one\ntwo\ntwo\n"})).await;
        assert_eq!(created.unwrap(), "created");
        assert!(execute("edit", json!({"path": "src/a.txt", "new": ""})).await.is_err());
        assert!(
            execute("edit", json!({"path": "src/a.txt", "old": "two", "new": "2"})).await.is_err()
        );
        execute("edit", json!({"path": "src/a.txt", "old": "one", "new": "1"})).await.unwrap();
        let lines = execute("read_file", json!({"path": "src/a.txt", "from": 1, "lines": 2})).await;
        assert_eq!(lines.unwrap(), "1\t1\n2\ttwo\n");
        let found = execute("search", json!({"pattern": "tw.$"})).await.unwrap();
        assert!(found.contains("a.txt:2:two"), "{found}");
        let ran =
            execute("run", json!({"command": "echo out; echo err >&2; exit 3"})).await.unwrap();
        assert_eq!(ran, "out\nerr\n\n(exit status 3)");
        let slow = execute("run", json!({"command": "sleep 60", "timeout_s": 1})).await.unwrap();
        assert!(slow.contains("stopped after 1 s"), "{slow}");
    }

    #[test]
    fn an_interrupted_history_is_completed_and_a_long_one_is_shortened() {
        let directory = tempfile::tempdir().unwrap();
        let mut agent = agent(directory.path());
        let calls = json!([{"id": "a"}, {"id": "b"}]);
        agent.history = vec![
            json!({"role": "assistant", "tool_calls": calls}),
            json!({"role": "tool", "tool_call_id": "a", "content": "x".repeat(HISTORY_BYTES_MAX)}),
            json!({"role": "user", "content": "Continue."}),
        ];
        agent.complete_calls();
        assert_eq!(agent.history[2]["content"], "interrupted");
        assert_eq!(agent.history.len(), 4);
        agent.complete_calls();
        assert_eq!(agent.history.len(), 4);
        agent.shorten();
        assert_eq!(agent.history[1]["content"], "(left out)");
        agent.save();
        assert_eq!(agent.load().unwrap(), agent.history);
    }
}
