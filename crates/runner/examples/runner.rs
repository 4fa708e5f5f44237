//! The program, for tests: `runner inside` and `acp` as `openvibe` has them, `run` with the path of a configuration, and `scripted`, an
//! agent that does what its prompt lists.

use std::{
    io::{BufRead, Write},
    path::Path,
    process::{Command, ExitCode},
};

use openvibe_runner::Config;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["runner", "inside", limits, "--", ..] => {
            openvibe_runner::run_inside(limits, &arguments[4..])
        }
        ["acp"] => in_runtime(openvibe_runner::run_agent()),
        ["run", file] => in_runtime(run(file)),
        ["scripted", ref capability @ ..] => {
            let loads = capability == ["load"];
            let (mode, input) = (String::new(), std::io::stdin().lock().lines());
            Scripted { id: 0, mode, loads, usage: Value::Null, input }.run();
            ExitCode::SUCCESS
        }
        _ => ExitCode::FAILURE,
    }
}

fn in_runtime(program: impl Future<Output = ExitCode>) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_or(ExitCode::FAILURE, |runtime| runtime.block_on(program))
}

/// Runs until it is killed.
async fn run(file: &str) -> ExitCode {
    let loaded = Config::load(Path::new(file), None);
    let (Ok(mut config), Ok(program)) = (loaded, std::env::current_exe()) else {
        return ExitCode::FAILURE;
    };
    config.program = program;
    // Without an order to stop, it returns only if it fails.
    let _failed = openvibe_runner::run(config, &CancellationToken::new()).await;
    ExitCode::FAILURE
}

struct Scripted<I> {
    id: u64,
    /// Mode of the session.
    mode: String,
    /// True if it replays sessions instead of resuming them.
    loads: bool,
    /// What it reports at the end of a prompt.
    usage: Value,
    input: I,
}

impl<I: Iterator<Item = std::io::Result<String>>> Scripted<I> {
    fn write(line: &str) {
        let mut out = std::io::stdout().lock();
        // The runner may have ended.
        let _ = writeln!(out, "{line}").and_then(|()| out.flush());
    }

    fn send(value: &Value) {
        Self::write(&value.to_string());
    }

    fn update(update: &Value) {
        Self::send(
            &json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": update}}),
        );
    }

    fn say(text: &str) {
        Self::update(
            &json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}),
        );
    }

    /// Sends this many texts and calls.
    fn flood(count: usize) {
        let text = "flood ".repeat(200);
        for n in 0..count {
            Self::say(&text);
            let content = json!([{"type": "content", "content": {"type": "text", "text": text}}]);
            Self::update(
                &json!({"sessionUpdate": "tool_call", "toolCallId": format!("flood{n}"), "title": text, "kind": text, "content": content}),
            );
        }
    }

    fn next(&mut self) -> Option<Value> {
        serde_json::from_str(&self.input.next()?.ok()?).ok()
    }

    /// Sends a request and returns the result.
    fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.id += 1;
        Self::send(&json!({"jsonrpc": "2.0", "id": self.id, "method": method, "params": params}));
        loop {
            match self.next() {
                None => std::process::abort(),
                Some(message) if message["id"] == self.id => return message["result"].clone(),
                Some(_) => {}
            }
        }
    }

    fn run(&mut self) {
        while let Some(message) = self.next() {
            let params = &message["params"];
            let result = match message["method"].as_str() {
                Some("initialize") if self.loads => {
                    json!({"protocolVersion": 1, "agentCapabilities": {"loadSession": true}})
                }
                Some("session/load") => {
                    Self::say("Replayed");
                    Self::send(&json!({"jsonrpc": "2.0", "id": message["id"], "result": {}}));
                    // Some agents are late.
                    Self::say("Replayed");
                    continue;
                }
                Some("initialize") => {
                    json!({"protocolVersion": 1, "agentCapabilities": {"sessionCapabilities": {"resume": {}}}})
                }
                Some("session/new") => json!({"sessionId": "s"}),
                Some("session/resume") => json!({}),
                Some("session/set_mode") if params["modeId"] == "missing" => {
                    let error = json!({"code": -32602, "message": "there is no such mode"});
                    Self::send(&json!({"jsonrpc": "2.0", "id": message["id"], "error": error}));
                    continue;
                }
                Some("session/set_mode") => {
                    params["modeId"].as_str().unwrap_or_default().clone_into(&mut self.mode);
                    json!({})
                }
                Some("session/prompt") => {
                    let text = params["prompt"][0]["text"].as_str().unwrap_or_default().to_owned();
                    let stop = self.prompt(&text);
                    json!({"stopReason": stop, "usage": self.usage.take()})
                }
                _ => continue,
            };
            Self::send(&json!({"jsonrpc": "2.0", "id": message["id"], "result": result}));
        }
    }

    /// Executes the lines of a prompt, and returns the stop reason.
    fn prompt(&mut self, text: &str) -> &'static str {
        if std::path::Path::new("die-always").exists() {
            std::process::abort();
        }
        for (number, line) in text.lines().enumerate() {
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            match word {
                "say" => Self::say(rest),
                "mode" => Self::say(&self.mode),
                "usage" => self.usage = serde_json::from_str(rest).unwrap_or_default(),
                "sh" => {
                    let id = format!("call{number}");
                    Self::update(
                        &json!({"sessionUpdate": "tool_call", "toolCallId": id, "title": rest, "kind": "execute"}),
                    );
                    let ended = Command::new("sh").args(["-c", rest]).output();
                    let output = ended.map(|ended| [ended.stdout, ended.stderr].concat());
                    let text = String::from_utf8_lossy(&output.unwrap_or_default()).into_owned();
                    let content =
                        json!([{"type": "content", "content": {"type": "text", "text": text}}]);
                    Self::update(
                        &json!({"sessionUpdate": "tool_call_update", "toolCallId": id, "status": "completed", "content": content}),
                    );
                }
                "ask" => {
                    let schema =
                        json!({"type": "object", "properties": {"answer": {"type": "string"}}});
                    let params =
                        json!({"mode": "form", "message": rest, "requestedSchema": schema});
                    let result = self.ask("elicitation/create", &params);
                    Self::say(&format!("{} {}", result["action"], result["content"]["answer"]));
                }
                "permit" => {
                    let options = json!([
                        {"optionId": "always", "name": "Always", "kind": "allow_always"},
                        {"optionId": "once", "name": "Once", "kind": "allow_once"},
                    ]);
                    let call = json!({"toolCallId": "p", "title": "Do it", "kind": rest});
                    let params = json!({"sessionId": "s", "toolCall": call, "options": options});
                    let result = self.ask("session/request_permission", &params);
                    Self::say(&result["outcome"]["optionId"].to_string());
                }
                "unknown" => {
                    self.id += 1;
                    Self::send(
                        &json!({"jsonrpc": "2.0", "id": self.id, "method": "fs/read_text_file", "params": {}}),
                    );
                    let reply = self.next().unwrap_or_default();
                    Self::say(&reply["error"]["code"].to_string());
                }
                "garbage" => Self::write(rest),
                "long" => Self::write(&"x".repeat(5 << 20)),
                "flood" => Self::flood(rest.parse().unwrap_or(usize::MAX)),
                "deaf" => loop {
                    // Nothing reads the responses.
                    self.id += 1;
                    Self::send(
                        &json!({"jsonrpc": "2.0", "id": self.id, "method": "fs/read_text_file", "params": {}}),
                    );
                },
                "stop" if rest == "refusal" => return "refusal",
                "stop" => return "max_tokens",
                "die" => std::process::abort(),
                "wait" => {
                    // Until it is canceled.
                    while let Some(message) = self.next() {
                        if message["method"] == "session/cancel" {
                            return "cancelled";
                        }
                    }
                }
                "hang" => std::thread::sleep(std::time::Duration::from_mins(10)),
                _ => Self::say(&format!("[{line}]")),
            }
        }
        "end_turn"
    }
}
