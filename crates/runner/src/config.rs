//! Configuration: `runner.toml`, the presets of engines, and what one command line gives.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

use reqwest::{
    Url,
    header::{HeaderName, HeaderValue},
};
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};

use crate::running::Running;

/// An invalid configuration; the message names the setting and the remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(String);

fn invalid<T>(message: impl Into<String>) -> Result<T, ConfigError> {
    Err(ConfigError(message.into()))
}

/// Environment variable with the runner's key.
pub const KEY_VARIABLE: &str = "OPENVIBE_RUNNER_KEY";
/// Name of the engine that is part of this program.
pub const BUILTIN: &str = "builtin";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SandboxKind {
    #[default]
    Bubblewrap,
    /// The machine is the sandbox: agents run as the runner's user, and nothing is pushed.
    None,
}

/// Limits of one session's processes.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    pub memory_mb: u64,
    /// Number of processors.
    pub cpu: usize,
    /// Size of the copy, the home directory, and `/tmp` together.
    pub disk_mb: u64,
    pub processes: u64,
    /// Duration of a turn, without the time that questions wait for answers.
    #[serde(deserialize_with = "duration")]
    pub turn: Duration,
    /// Duration of the setup command, and of the check.
    #[serde(deserialize_with = "duration")]
    pub setup: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory_mb: 4096,
            cpu: 2,
            disk_mb: 8192,
            processes: 512,
            turn: Duration::from_mins(30),
            setup: Duration::from_mins(10),
        }
    }
}

/// Parses `90s`, `30m`, or `2h`.
fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    let seconds = text.split_at_checked(text.len().saturating_sub(1)).and_then(|(count, unit)| {
        let unit = match unit {
            "s" => 1,
            "m" => 60,
            "h" => 3600,
            _ => return None,
        };
        count.parse::<u32>().ok().filter(|count| *count > 0).map(|count| u64::from(count) * unit)
    });
    let seconds = seconds.filter(|seconds| *seconds <= 24 * 3600);
    let seconds = seconds.ok_or_else(|| {
        D::Error::custom(format!("`{text}` is not a duration such as 90s, 30m, or 2h (up to 24h)"))
    })?;
    Ok(Duration::from_secs(seconds))
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Repository {
    /// Address or path for `git`.
    pub url: String,
    /// Branch on which sessions start; the remote's default branch if it is not set.
    pub base: Option<String>,
    /// Shell command that prepares a new copy.
    pub setup: String,
    /// Shell command that checks the copy after each turn.
    pub check: String,
    /// Hosts that the setup may reach, port 443.
    pub allow: Vec<String>,
    /// True if turns may reach them, too.
    pub network: bool,
    /// Shell command that opens a pull request, with `BRANCH`, `TITLE`, and `BODY_FILE`.
    pub open: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Engine {
    pub command: Vec<String>,
    /// Address of the provider, which the door offers as `/NAME/`.
    pub to: Option<String>,
    /// Header with the provider's key, such as `x-api-key: $KEY`.
    pub header: Option<String>,
    pub env: BTreeMap<String, String>,
    /// The agent's own ID of the mode in which its sessions run; the agent chooses it if it is not set.
    pub mode: Option<String>,
}

impl Repository {
    /// Path of a repository on this machine; `None` for one that is reached over a network.
    pub(crate) fn local_path(&self) -> Option<&Path> {
        let path = Path::new(self.url.strip_prefix("file://").unwrap_or(&self.url));
        path.exists().then_some(path)
    }
}

impl Engine {
    /// The settings of a preset; `None` for other names. Agents ask before they change anything: without a sandbox, people answer.
    fn preset(name: &str, sandbox: SandboxKind) -> Option<Self> {
        let engine = |command: &[&str], to: &str, header: &str, env: &[(&str, &str)]| Self {
            command: command.iter().map(ToString::to_string).collect(),
            to: Some(to.to_owned()).filter(|to| !to.is_empty()),
            header: Some(header.to_owned()).filter(|header| !header.is_empty()),
            env: env
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            mode: None,
        };
        let in_mode = |mode: &str, engine: Self| Self { mode: Some(mode.to_owned()), ..engine };
        Some(match name {
            BUILTIN => engine(&["$PROGRAM", "acp"], "", "", &[("OPENVIBE_DOOR", "$DOOR")]),
            // Its mode `auto` asks a model instead of the client.
            "claude" => in_mode(
                "default",
                engine(
                    &["claude-agent-acp"],
                    "https://api.anthropic.com",
                    "x-api-key: $ANTHROPIC_API_KEY",
                    &[
                        ("ANTHROPIC_BASE_URL", "$DOOR/claude"),
                        ("ANTHROPIC_AUTH_TOKEN", "none"),
                        ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
                    ],
                ),
            ),
            // Its own sandbox needs namespaces inside of namespaces. With its own provider, it requires a login.
            "codex" => in_mode(
                match sandbox {
                    SandboxKind::Bubblewrap => "agent-full-access",
                    SandboxKind::None => "read-only",
                },
                engine(
                    &["codex-acp"],
                    "https://api.openai.com/v1",
                    "authorization: Bearer $OPENAI_API_KEY",
                    &[
                        ("MODEL_PROVIDER", "openvibe"),
                        (
                            "CODEX_CONFIG",
                            r#"{"model_provider":"openvibe","model_providers":{"openvibe":{"name":"OpenAI","base_url":"$DOOR/codex","wire_api":"responses"}},"analytics":{"enabled":false},"check_for_update_on_startup":false}"#,
                        ),
                    ],
                ),
            ),
            "gemini" => in_mode(
                "default",
                engine(
                    &["gemini", "--acp"],
                    "https://generativelanguage.googleapis.com",
                    "x-goog-api-key: $GEMINI_API_KEY",
                    &[("GOOGLE_GEMINI_BASE_URL", "$DOOR/gemini"), ("GEMINI_API_KEY", "none")],
                ),
            ),
            // The workspace's model.
            "opencode" => engine(
                &["opencode", "acp"],
                "",
                "",
                &[
                    ("OPENCODE_DISABLE_AUTOUPDATE", "1"),
                    ("OPENCODE_DISABLE_LSP_DOWNLOAD", "1"),
                    ("OPENCODE_DISABLE_MODELS_FETCH", "1"),
                    (
                        "OPENCODE_CONFIG_CONTENT",
                        r#"{"model":"openvibe/workspace","provider":{"openvibe":{"npm":"@ai-sdk/openai-compatible","options":{"baseURL":"$DOOR/openvibe/v1","apiKey":"none"},"models":{"workspace":{}}}},"permission":{"bash":"ask","edit":"ask","webfetch":"ask"}}"#,
                    ),
                ],
            ),
            _ => return None,
        })
    }

    /// Variables of the agent's process. If it cannot reach any host, npm does not try: `OpenCode` installs a package at each start, and waits
    /// for it.
    pub(crate) fn env(&self, reaches_hosts: bool) -> BTreeMap<String, String> {
        let mut env = self.env.clone();
        if !reaches_hosts {
            env.entry("npm_config_offline".to_owned()).or_insert_with(|| "true".to_owned());
        }
        env
    }

    fn complete(&mut self, preset: Self) {
        if self.command.is_empty() {
            self.command = preset.command;
        }
        self.to = self.to.take().or(preset.to);
        self.header = self.header.take().or(preset.header);
        self.mode = self.mode.take().or(preset.mode);
        for (name, value) in preset.env {
            self.env.entry(name).or_insert(value);
        }
    }

    /// The header with the values of its variables.
    ///
    /// # Errors
    /// A variable is not set, or the header is not `NAME: VALUE`.
    pub fn header(&self) -> Result<Option<(HeaderName, HeaderValue)>, ConfigError> {
        let Some(header) = &self.header else { return Ok(None) };
        let Some((name, value)) = header.split_once(':') else {
            return invalid(format!("`{header}` is not a header such as x-api-key: $KEY"));
        };
        let mut text = String::new();
        let mut rest = value.trim();
        while let Some((before, after)) = rest.split_once('$') {
            let end = after.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            let (variable, after) = after.split_at(end.unwrap_or(after.len()));
            let Some(value) = std::env::var(variable).ok().filter(|value| !value.is_empty()) else {
                return invalid(format!("{variable} is not set: set it for the runner"));
            };
            text.push_str(before);
            text.push_str(&value);
            rest = after;
        }
        text.push_str(rest);
        let name = HeaderName::try_from(name.trim());
        match (name, HeaderValue::try_from(text)) {
            (Ok(name), Ok(mut value)) => {
                value.set_sensitive(true);
                Ok(Some((name, value)))
            }
            _ => invalid(format!("`{header}` is not a valid header")),
        }
    }
}

/// Settings of a runner.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    pub server: String,
    #[serde(default)]
    key_file: Option<PathBuf>,
    /// Key of the runner, `ovr_…`.
    #[serde(skip)]
    pub key: String,
    /// Number of turns at the same time.
    #[serde(default = "two")]
    pub turns: usize,
    #[serde(default)]
    pub sandbox: SandboxKind,
    /// True if agents can run programs in empty directories.
    #[serde(default)]
    pub scratch: bool,
    #[serde(default)]
    pub limits: Limits,
    /// Further directories that agents can read.
    #[serde(default)]
    pub paths: Vec<PathBuf>,
    #[serde(default = "data_dir")]
    pub data_dir: PathBuf,
    #[serde(default, rename = "repository")]
    pub repositories: BTreeMap<String, Repository>,
    #[serde(default, rename = "engine")]
    pub engines: BTreeMap<String, Engine>,
    /// Processes that run now.
    #[serde(skip)]
    pub(crate) running: Running,
    /// This program, which is started inside of the sandbox as `PROGRAM runner inside` and `PROGRAM acp`.
    #[serde(skip)]
    pub program: PathBuf,
}

fn two() -> usize {
    2
}

fn data_dir() -> PathBuf {
    PathBuf::from("openvibe-runner")
}

impl Config {
    /// Reads `runner.toml`. Without `key`, the key is in `key_file`.
    ///
    /// # Errors
    /// The file cannot be read, or a setting is invalid.
    pub fn load(path: &Path, key: Option<&str>) -> Result<Self, ConfigError> {
        let Ok(text) = std::fs::read_to_string(path) else {
            return invalid(format!(
                "cannot read {}: name the file with --config, or use --server and --repository",
                path.display()
            ));
        };
        let mut config: Self = toml::from_str(&text)
            .map_err(|error| ConfigError(format!("{}: {error}", path.display())))?;
        config.key = match (key, &config.key_file) {
            (Some(key), _) => key.to_owned(),
            (None, Some(file)) => std::fs::read_to_string(file)
                .map_err(|error| ConfigError(format!("key_file {}: {error}", file.display())))?,
            (None, None) => String::new(),
        };
        config.finish()
    }

    /// The configuration of a command line: `repositories` are `NAME=PATH_OR_URL`.
    ///
    /// # Errors
    /// A value is invalid.
    pub fn of_arguments(
        server: &str,
        key: &str,
        repositories: &[String],
    ) -> Result<Self, ConfigError> {
        let mut config: Self =
            toml::from_str("server = ''").map_err(|e| ConfigError(e.to_string()))?;
        server.clone_into(&mut config.server);
        key.clone_into(&mut config.key);
        for repository in repositories {
            let Some((name, url)) = repository.split_once('=') else {
                return invalid(format!("`{repository}` is not NAME=PATH_OR_URL"));
            };
            let repository = Repository { url: url.to_owned(), ..Repository::default() };
            config.repositories.insert(name.to_owned(), repository);
        }
        config.finish()
    }

    /// Checks the settings, makes paths absolute, and completes engines from their presets.
    fn finish(mut self) -> Result<Self, ConfigError> {
        let absolute = |path: &Path| {
            std::path::absolute(path).map_err(|e| ConfigError(format!("{}: {e}", path.display())))
        };
        self.key = self.key.trim().to_owned();
        if self.key.is_empty() {
            return invalid(format!(
                "the runner has no key: set {KEY_VARIABLE} or key_file; Settings › Tools creates one"
            ));
        }
        match Url::parse(&self.server) {
            Ok(url) if matches!(url.scheme(), "http" | "https") && url.has_host() => {}
            _ => return invalid(format!("server `{}` is not an http(s) address", self.server)),
        }
        self.server.truncate(self.server.trim_end_matches('/').len());
        if self.turns == 0 || self.turns > 64 {
            return invalid("turns must be from 1 to 64");
        }
        let Limits { memory_mb, cpu, disk_mb, processes, .. } = self.limits;
        if [memory_mb, cpu as u64, disk_mb, processes].iter().any(|n| *n == 0 || *n > 1 << 30) {
            return invalid("limits must be positive numbers below 2^30");
        }
        for path in &self.paths {
            if !path.is_absolute() || !path.exists() {
                return invalid(format!("paths: {} is not an absolute path", path.display()));
            }
        }
        self.data_dir = absolute(&self.data_dir)?;
        if self.scratch && self.sandbox == SandboxKind::None {
            return invalid(
                "scratch = true needs a sandbox: remove it, or set sandbox = \"bubblewrap\"",
            );
        }
        if self.repositories.is_empty() && !self.scratch {
            return invalid(
                "no repository is listed: add [repository.NAME] with its url, or --repository",
            );
        }
        for (name, repository) in &mut self.repositories {
            check_name(name)?;
            if repository.url.is_empty() || repository.url.starts_with('-') {
                return invalid(format!("repository {name}: url is not an address or a path"));
            }
            if Path::new(&repository.url).exists() {
                repository.url = absolute(Path::new(&repository.url))?.display().to_string();
            }
            let is_branch = |base: &String| {
                !base.starts_with('-')
                    && !base.contains(|c: char| c.is_whitespace() || ":^~?*[\\".contains(c))
            };
            if !repository.base.as_ref().is_none_or(is_branch) {
                return invalid(format!("repository {name}: base is not a branch"));
            }
            let is_host = |c: char| c.is_ascii_alphanumeric() || ".-".contains(c);
            if let Some(host) = repository.allow.iter().find(|host| !host.chars().all(is_host)) {
                return invalid(format!("repository {name}: allow: `{host}` is not a host name"));
            }
        }
        self.engines.entry(BUILTIN.to_owned()).or_default();
        for (name, engine) in &mut self.engines {
            check_name(name)?;
            if let Some(preset) = Engine::preset(name, self.sandbox) {
                engine.complete(preset);
            }
            if engine.command.is_empty() || name == "openvibe" {
                return invalid(format!("engine {name} has no command"));
            }
            let is_url = |to: &String| Url::parse(to).is_ok_and(|url| url.has_host());
            if !engine.to.as_ref().is_none_or(is_url) {
                return invalid(format!("engine {name}: to is not an address"));
            }
            engine.header().map_err(|error| ConfigError(format!("engine {name}: {error}")))?;
        }
        self.program = std::env::current_exe().map_err(|error| ConfigError(error.to_string()))?;
        Ok(self)
    }

    /// Address of the server's route.
    pub(crate) fn route(&self, path: &str) -> String {
        format!("{}{path}", self.server)
    }
}

fn check_name(name: &str) -> Result<(), ConfigError> {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_.".contains(c);
    if name.is_empty() || name.len() > 64 || !name.chars().all(fits) || name.starts_with('.') {
        return invalid(format!("`{name}` is not a name: use up to 64 of a-z, 0-9, -, _, and ."));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Config, ConfigError> {
        let directory = tempfile::tempdir().unwrap();
        let key = directory.path().join("key");
        std::fs::write(&key, "ovr_test\n").unwrap();
        let file = directory.path().join("runner.toml");
        let head = format!("key_file = '{}'\n", key.display());
        std::fs::write(&file, head + text).unwrap();
        Config::load(&file, None)
    }

    fn message(text: &str) -> String {
        parse(text).err().unwrap().to_string()
    }

    const SERVER: &str = "server = 'https://chat.example/'\n";
    const API: &str = "[repository.api]\nurl = 'git@git.example:team/api.git'\n";

    #[test]
    fn a_short_file_gets_the_defaults() {
        let config = parse(&format!("{SERVER}{API}")).unwrap();
        assert_eq!(config.server, "https://chat.example");
        assert_eq!(config.key, "ovr_test");
        assert_eq!((config.turns, config.limits.memory_mb), (2, 4096));
        assert_eq!(config.sandbox, SandboxKind::Bubblewrap);
        assert_eq!(config.engines[BUILTIN].command, ["$PROGRAM", "acp"]);
        assert!(config.data_dir.is_absolute());
    }

    #[test]
    fn all_settings_of_the_file_are_read() {
        let config = parse(&format!(
            "{SERVER}turns = 3\nsandbox = 'none'\nscratch = false\nlimits = {{memory_mb = 1, cpu = 1, disk_mb = 1, processes = 9, turn = '90s', setup = '2h'}}\npaths = ['/usr']\ndata_dir = '/srv/r'\n{API}base = 'main'\nsetup = 'a'\ncheck = 'b'\nallow = ['packages.example.org']\nnetwork = true\nopen = 'c'\n[engine.own]\ncommand = ['agent', '--acp']\nto = 'https://models.example'\nmode = 'ask'\nenv = {{A = '$DOOR/own'}}"
        ))
        .unwrap();
        assert_eq!(config.limits.turn, Duration::from_secs(90));
        assert_eq!(config.limits.setup, Duration::from_hours(2));
        assert!(config.repositories["api"].network);
        assert_eq!(config.engines["own"].env["A"], "$DOOR/own");
        assert_eq!(config.engines["own"].mode.as_deref(), Some("ask"));
    }

    #[test]
    fn a_preset_is_completed_and_can_be_changed() {
        let text = format!("{SERVER}{API}[engine.opencode]\ncommand = ['/opt/opencode', 'acp']");
        let engine = parse(&text).unwrap().engines.remove("opencode").unwrap();
        assert_eq!(engine.command, ["/opt/opencode", "acp"]);
        assert!(engine.env["OPENCODE_CONFIG_CONTENT"].contains("$DOOR/openvibe/v1"));
        assert_eq!((engine.to, engine.mode), (None, None));
    }

    #[test]
    fn presets_name_the_mode_in_which_agents_ask() {
        let mode = |sandbox: SandboxKind, name: &str| Engine::preset(name, sandbox).unwrap().mode;
        let both =
            |name: &str| [SandboxKind::Bubblewrap, SandboxKind::None].map(|kind| mode(kind, name));
        assert_eq!(both("claude"), [Some("default".to_owned()), Some("default".to_owned())]);
        let codex = ["agent-full-access", "read-only"].map(|mode| Some(mode.to_owned()));
        assert_eq!(both("codex"), codex);
        for name in ["codex", "opencode"] {
            let env = Engine::preset(name, SandboxKind::None).unwrap().env;
            let config = env.get("CODEX_CONFIG").or(env.get("OPENCODE_CONFIG_CONTENT")).unwrap();
            serde_json::from_str::<serde_json::Value>(config).unwrap();
        }
    }

    #[test]
    fn npm_does_not_wait_for_hosts_that_are_not_reachable() {
        let mut engine = Engine::default();
        assert_eq!(engine.env(false)["npm_config_offline"], "true");
        assert!(engine.env(true).is_empty());
        engine.env.insert("npm_config_offline".to_owned(), "false".to_owned());
        assert_eq!(engine.env(false)["npm_config_offline"], "false");
    }

    #[test]
    fn errors_name_the_setting() {
        assert!(message(SERVER).contains("[repository.NAME]"));
        assert!(message(&format!("server = 'chat'\n{API}")).contains("server `chat`"));
        assert!(message(&format!("{SERVER}turn = 1\n{API}")).contains("turn"));
        assert!(
            message(&format!("{SERVER}{API}[engine.own]")).contains("engine own has no command")
        );
        assert!(
            message(&format!("{SERVER}limits = {{turn = '5'}}\n{API}"))
                .contains("`5` is not a duration")
        );
        assert!(
            message(&format!("{SERVER}[repository.api]\nurl = '--upload-pack=x'")).contains("url")
        );
        assert!(message(&format!("{SERVER}[repository.'../x']\nurl = '/x'")).contains("`../x`"));
        let header = "[engine.own]\ncommand = ['a']\nheader = 'x-key: $OPENVIBE_TEST_NOT_SET'";
        assert!(
            message(&format!("{SERVER}{API}{header}")).contains("OPENVIBE_TEST_NOT_SET is not set")
        );
    }

    #[test]
    fn programs_need_a_sandbox_but_no_repository() {
        assert!(parse(&format!("{SERVER}scratch = true")).unwrap().scratch);
        assert!(!parse(&format!("{SERVER}{API}")).unwrap().scratch);
        let without = message(&format!("{SERVER}scratch = true\nsandbox = 'none'\n{API}"));
        assert!(without.contains("scratch = true needs a sandbox"), "{without}");
    }

    #[test]
    fn a_command_line_is_enough_for_the_first_minute() {
        let repositories = ["api=https://git.example/api.git".to_owned()];
        let config = Config::of_arguments("http://127.0.0.1:1", "ovr_x", &repositories).unwrap();
        assert_eq!(config.repositories["api"].url, "https://git.example/api.git");
        assert!(Config::of_arguments("http://127.0.0.1:1", "", &repositories).is_err());
        assert!(Config::of_arguments("http://127.0.0.1:1", "k", &["api".to_owned()]).is_err());
    }
}
