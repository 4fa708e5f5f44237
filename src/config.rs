//! Configuration: `openvibe.toml`, overridden by environment variables, overridden by flags.

use crate::text_enum::{UnknownText, text_enum};
use std::{collections::BTreeMap, fmt, path::PathBuf, time::Duration};

use crate::{
    db::{DatabaseUrl, Failover, Options},
    mcp::{LocalServers, ProcessConfig},
    model::ModelSettings,
    networks::{ApiOrigins, TrustedProxies},
    outbound::{Exemption, Url},
    secrets::SecretKey,
    share::Share,
    storage::{AwsVariables, BlobSettings, BucketUrl},
};

text_enum! {
    /// Sign-up policy.
    pub enum Signup {
        /// Anyone until the first account exists, then only invited people.
        First = "first",
        Open = "open",
        Invite = "invite",
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    Text,
    Json,
}

/// A setting whose value is never logged.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[hidden]")
    }
}

/// Addresses and credentials of NATS.
#[derive(Debug, Clone)]
pub struct NatsConfig {
    /// `nats://` and `tls://` URLs, separated by commas; they can contain a password.
    pub urls: Secret,
    /// Path of a `.creds` file.
    pub credentials: Option<PathBuf>,
    /// Keys for messages between nodes, at least one: the first one encrypts, and all of them decrypt.
    pub keys: Vec<SecretKey>,
}

#[derive(Debug, Clone)]
pub struct Config {
    /// Address to listen on, `HOST:PORT`; port 0 picks a free port.
    pub listen: String,
    /// Public URL without a trailing slash; `None` derives the URL from the bound address.
    pub public_url: Option<String>,
    pub trusted_proxies: TrustedProxies,
    pub data_dir: PathBuf,
    pub database: DatabaseUrl,
    /// Name of this node on the Nodes page and in logs; `None` derives it from the bound address.
    pub node_name: Option<String>,
    pub nats: Option<NatsConfig>,
    /// Time over which a stopping node closes its sockets.
    pub drain: Duration,
    /// Maximum number of `PostgreSQL` connections for reads.
    pub database_connections: u32,
    pub database_failover: Failover,
    pub model: ModelSettings,
    /// Cost of password hashes. Not a setting, but lower in tests, which create thousands of accounts.
    pub password_cost: argon2::Params,
    /// Non-public addresses that workspaces can use for model servers.
    pub model_allow: Vec<Exemption>,
    /// Keys for stored secrets: the first one encrypts, and all of them decrypt.
    pub secret_keys: Vec<SecretKey>,
    /// Tool servers that are allowed even if they are local or use HTTP.
    pub mcp_allow: Vec<Exemption>,
    /// Tool servers that run as processes.
    pub mcp: LocalServers,
    /// Slugs and IDs of the workspaces that can use the servers in `mcp`. No other workspace can take one of these slugs.
    pub mcp_workspaces: Vec<String>,
    /// URL of the MCP server that runs agents' code.
    pub sandbox_url: Option<Url>,
    /// Web pages that agents can read even if they are local, use HTTP, or use a non-standard port.
    pub web_allow: Vec<Exemption>,
    /// Other sites whose pages can use the API with a key.
    pub api_origins: ApiOrigins,
    /// Maximum number of concurrent model calls in this process.
    pub workers: usize,
    /// Part of the concurrent calls of `/v1/responses` that one user can hold.
    pub api_share: Share,
    pub retry_delays: Vec<Duration>,
    /// Time to wait for the first or next chunk of a reply.
    pub task_timeout: Duration,
    /// Time limit for one attempt.
    pub attempt_max: Duration,
    pub event_retention: Duration,
    /// Retention of texts sent to models, counted from their last use.
    pub context_retention: Duration,
    /// False if older messages are never compacted, regardless of agents and policies.
    pub compaction: bool,
    /// Minimum time between two automatic passes of a conversation.
    pub compaction_interval: Duration,
    /// Maximum size of an upload.
    pub upload_bytes_max: u64,
    /// Retention of unattached uploads.
    pub upload_orphan_after: Duration,
    /// Bucket for uploads larger than 64 KiB.
    pub blobs_url: Option<BucketUrl>,
    /// Credentials and options of S3.
    pub aws: AwsVariables,
    pub signup: Signup,
    pub rate_limits: bool,
    /// True if agents can have memory.
    pub memory: bool,
    /// Maximum number of open HTTP connections in this process.
    pub connections_max: usize,
    /// Maximum number of open sockets in this process.
    pub sockets_max: usize,
    pub sockets_per_user: usize,
    /// Maximum number of waiting tasks per workspace; further tasks fail immediately.
    pub tasks_queued_max: i64,
    pub workspaces_per_user: i64,
    /// Maximum total size of messages, uploads, and agents per workspace, in bytes.
    pub workspace_bytes_max: u64,
    pub agents_max: i64,
    /// File with the initial agents of new workspaces, which replace the built-in ones.
    pub seeds_file: Option<PathBuf>,
    pub metrics_token: Option<Secret>,
    pub log: String,
    pub log_format: LogFormat,
}

#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("{name}: {problem}")]
    Value { name: String, problem: String },
    #[error("openvibe.toml: {0}")]
    File(String),
    #[error("OPENVIBE_NATS_URL needs PostgreSQL: set OPENVIBE_DATABASE_URL to postgres://…")]
    NatsNeedsPostgres,
    #[error(
        "OPENVIBE_NATS_URL needs OPENVIBE_SECRET_KEY, which encrypts the messages between nodes: set the same key on all nodes \
         (generate one with `openssl rand -base64 32`)"
    )]
    NatsNeedsSecretKey,
}

/// Hard upper limit of `OPENVIBE_UPLOAD_BYTES_MAX`.
const UPLOAD_BYTES_LIMIT: u64 = 1 << 30;
/// Hard upper limit of the storage quota of a workspace.
const WORKSPACE_BYTES_LIMIT: u64 = 1 << 50;

/// Names of all settings without the prefix `OPENVIBE_`.
const NAMES: &[&str] = &[
    "LISTEN",
    "PUBLIC_URL",
    "TRUSTED_PROXIES",
    "DATA_DIR",
    "DATABASE_URL",
    "NODE_NAME",
    "NATS_URL",
    "NATS_CREDENTIALS",
    "DRAIN",
    "DATABASE_CONNECTIONS",
    "DATABASE_FAILOVER",
    "MODEL_BASE_URL",
    "MODEL_API_KEY",
    "MODEL",
    "UTILITY_MODEL",
    "CONTEXT_WINDOW",
    "MODELS_FILE",
    "MODEL_ALLOW",
    "MCP_ALLOW",
    "WEB_ALLOW",
    "API_ORIGINS",
    "SANDBOX_URL",
    "SECRET_KEY",
    "WORKERS",
    "API_SHARE",
    "RETRY_DELAYS",
    "TASK_TIMEOUT",
    "ATTEMPT_MAX",
    "EVENT_RETENTION",
    "CONTEXT_RETENTION",
    "COMPACTION",
    "COMPACTION_INTERVAL",
    "UPLOAD_BYTES_MAX",
    "UPLOAD_ORPHAN_AFTER",
    "BLOBS_URL",
    "SIGNUP",
    "RATE_LIMITS",
    "MEMORY",
    "CONNECTIONS_MAX",
    "SOCKETS_MAX",
    "SOCKETS_PER_USER",
    "TASKS_QUEUED_MAX",
    "WORKSPACES_PER_USER",
    "WORKSPACE_BYTES_MAX",
    "AGENTS_MAX",
    "SEEDS_FILE",
    "METRICS_TOKEN",
    "LOG",
    "LOG_FORMAT",
];

/// Name of the setting that contains the tables `[mcp.NAME]` as JSON. They can only be set in the file, because people who can set an
/// environment variable or have access to a workspace must not be able to start a process.
const PROCESSES: &str = "MCP";

/// Parses a duration such as `250ms`, `1s`, `15m`, `2h`, or `7d`; a number without a unit is in seconds.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let n: u64 = number
        .parse()
        .map_err(|_| format!("`{text}` is not a duration such as 15s, 10m, or 7d"))?;
    let ms_per_unit = match unit {
        "ms" => 1,
        "" | "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => {
            return Err(format!(
                "`{text}` is not a duration: the units are ms, s, m, h, d"
            ));
        }
    };
    n.checked_mul(ms_per_unit)
        .map(Duration::from_millis)
        .ok_or_else(|| format!("`{text}` is too long: use a shorter duration such as 7d"))
}

/// Parses a size such as `1000000`, `25MiB`, or `1GiB`; a number without a unit is in bytes.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let bytes_per_unit: u64 = match unit.trim() {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => {
            return Err(format!(
                "`{text}` is not a size: the units are KiB, MiB, GiB"
            ));
        }
    };
    number
        .parse::<u64>()
        .ok()
        .and_then(|n| n.checked_mul(bytes_per_unit))
        .ok_or_else(|| format!("`{text}` is not a size such as 25MiB"))
}

struct Source(BTreeMap<String, String>);

impl Source {
    fn get(&self, name: &str) -> Option<&str> {
        self.0
            .get(name)
            .map(String::as_str)
            .filter(|v| !v.trim().is_empty())
    }

    fn parsed<T>(
        &self,
        name: &str,
        default: T,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Result<T, ConfigError> {
        self.get(name).map_or(Ok(default), |text| {
            parse(text).map_err(|problem| ConfigError::Value {
                name: format!("OPENVIBE_{name}"),
                problem,
            })
        })
    }

    fn text(&self, name: &str) -> Option<String> {
        self.get(name).map(str::to_owned)
    }

    fn path(&self, name: &str) -> Option<PathBuf> {
        self.get(name).map(PathBuf::from)
    }

    /// Reads a list, which is empty by default.
    fn list<T: Default>(
        &self,
        name: &str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Result<T, ConfigError> {
        self.parsed(name, T::default(), parse)
    }

    /// Reads a number from 1 to `max`.
    fn number<T: TryFrom<u32>>(&self, name: &str, default: T, max: u32) -> Result<T, ConfigError> {
        self.parsed(name, default, |text| number_to(text, max))
    }

    fn duration(&self, name: &str, default: Duration) -> Result<Duration, ConfigError> {
        self.parsed(name, default, parse_duration)
    }

    /// Reads a switch, which is on by default.
    fn is_on(&self, name: &str) -> Result<bool, ConfigError> {
        self.parsed(name, true, |text| {
            one_of(text, &[("on", true), ("off", false)])
        })
    }

    fn nats(
        &self,
        database: &DatabaseUrl,
        keys: &[SecretKey],
    ) -> Result<Option<NatsConfig>, ConfigError> {
        let Some(urls) = self.text("NATS_URL") else {
            return Ok(None);
        };
        if matches!(database, DatabaseUrl::Sqlite(_)) {
            return Err(ConfigError::NatsNeedsPostgres);
        }
        if keys.is_empty() {
            return Err(ConfigError::NatsNeedsSecretKey);
        }
        Ok(Some(NatsConfig {
            urls: Secret(urls),
            credentials: self.path("NATS_CREDENTIALS"),
            keys: keys.to_vec(),
        }))
    }

    fn model(&self) -> Result<ModelSettings, ConfigError> {
        Ok(ModelSettings {
            base_url: self.text("MODEL_BASE_URL"),
            api_key: self.text("MODEL_API_KEY"),
            anthropic_api_key: self.text("ANTHROPIC_API_KEY"),
            openai_api_key: self.text("OPENAI_API_KEY"),
            model: self.text("MODEL"),
            utility_model: self.text("UTILITY_MODEL"),
            models_file: self.path("MODELS_FILE"),
            context_window: self.parsed("CONTEXT_WINDOW", None, parse_window)?,
        })
    }

    fn aws(&self) -> AwsVariables {
        let variables = self.0.iter().filter(|(name, _)| is_of_aws(name));
        variables
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    }
}

fn one_of<T: Copy>(text: &str, choices: &[(&str, T)]) -> Result<T, String> {
    choices
        .iter()
        .find(|(name, _)| *name == text.trim())
        .map(|(_, value)| *value)
        .ok_or_else(|| {
            let names: Vec<_> = choices.iter().map(|(name, _)| *name).collect();
            format!("`{text}` is not one of {}", names.join(", "))
        })
}

/// Maximum value of settings that limit a number.
const LIMIT_MAX: u32 = 1_000_000;

/// Parses a number from 1 to `max`.
fn number_to<T: TryFrom<u32>>(text: &str, max: u32) -> Result<T, String> {
    text.trim()
        .parse::<u32>()
        .ok()
        .filter(|n| (1..=max).contains(n))
        .and_then(|n| T::try_from(n).ok())
        .ok_or_else(|| format!("`{text}` is not a number from 1 to {max}"))
}

fn from_file() -> Result<BTreeMap<String, String>, ConfigError> {
    let text = match std::fs::read_to_string("openvibe.toml") {
        Ok(text) => text,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(e) => return Err(ConfigError::File(e.to_string())),
    };
    parse_file(&text)
}

fn parse_file(text: &str) -> Result<BTreeMap<String, String>, ConfigError> {
    let table: toml::Table = text
        .parse()
        .map_err(|e: toml::de::Error| ConfigError::File(e.to_string()))?;
    let mut found = BTreeMap::new();
    for (key, value) in table {
        let name = key.to_uppercase();
        if name == PROCESSES {
            let json = serde_json::to_string(&value);
            let json = json.map_err(|e| ConfigError::File(format!("`{key}`: {e}")))?;
            found.insert(name, json);
            continue;
        }
        if !NAMES.contains(&name.as_str())
            && !["ANTHROPIC_API_KEY", "OPENAI_API_KEY"].contains(&name.as_str())
        {
            return Err(ConfigError::File(format!(
                "`{key}` is not a setting: check the spelling, or see docs/operations.md"
            )));
        }
        let text = match value {
            toml::Value::String(s) => s,
            toml::Value::Array(list) => list
                .iter()
                .map(|v| v.as_str().map_or_else(|| v.to_string(), str::to_owned))
                .collect::<Vec<_>>()
                .join(","),
            other => other.to_string(),
        };
        found.insert(name, text);
    }
    Ok(found)
}

impl Config {
    /// Reads the configuration file and the environment; `listen` is the flag.
    ///
    /// # Errors
    /// The error names the invalid setting and its valid values.
    pub fn load(listen: Option<String>) -> Result<Self, ConfigError> {
        let mut values = from_file()?;
        for name in NAMES {
            if let Ok(value) = std::env::var(format!("OPENVIBE_{name}")) {
                values.insert((*name).to_owned(), value);
            }
        }
        for name in ["ANTHROPIC_API_KEY", "OPENAI_API_KEY"] {
            if let Ok(value) = std::env::var(name) {
                values.insert(name.to_owned(), value);
            }
        }
        if let Some(listen) = listen {
            values.insert("LISTEN".to_owned(), listen);
        }
        values.extend(std::env::vars_os().filter_map(|(name, value)| {
            let name = name.into_string().ok().filter(|name| is_of_aws(name))?;
            Some((name, value.into_string().ok()?))
        }));
        Self::from_values(values)
    }

    /// Settings for the stores of uploads.
    pub fn blob_settings(&self) -> BlobSettings {
        BlobSettings {
            data_dir: self.data_dir.clone(),
            bucket: self.blobs_url.clone(),
            aws: self.aws.clone(),
        }
    }

    /// Builds the configuration from the given values; the names do not include the prefix.
    ///
    /// # Errors
    /// Same as `load`.
    pub fn from_values(values: BTreeMap<String, String>) -> Result<Self, ConfigError> {
        let s = Source(values);
        let data_dir = s.path("DATA_DIR").unwrap_or_else(|| "openvibe-data".into());
        let file = DatabaseUrl::Sqlite(data_dir.join("openvibe.db"));
        let database = s.parsed("DATABASE_URL", file, DatabaseUrl::parse)?;
        let secret_keys = s.list("SECRET_KEY", SecretKey::parse_list)?;
        let processes = s.list(PROCESSES, LocalServers::parse)?;
        let homes = data_dir.join("mcp");
        Ok(Self {
            listen: s.text("LISTEN").unwrap_or_else(|| "127.0.0.1:8080".into()),
            public_url: s.parsed("PUBLIC_URL", None, parse_public_url)?,
            trusted_proxies: s.list("TRUSTED_PROXIES", TrustedProxies::parse)?,
            data_dir,
            nats: s.nats(&database, &secret_keys)?,
            database,
            node_name: s.parsed("NODE_NAME", None, parse_node_name)?,
            drain: s.parsed("DRAIN", Duration::from_secs(10), parse_drain)?,
            database_connections: s.number(
                "DATABASE_CONNECTIONS",
                Options::default().connections,
                1000,
            )?,
            database_failover: s.parsed("DATABASE_FAILOVER", Failover::Lossy, |t| {
                t.trim().parse().map_err(|e: UnknownText| e.to_string())
            })?,
            model: s.model()?,
            password_cost: argon2::Params::DEFAULT,
            model_allow: s.list("MODEL_ALLOW", Exemption::parse_list)?,
            secret_keys,
            mcp_allow: s.list("MCP_ALLOW", Exemption::parse_list)?,
            mcp: processes.with_homes_in(&homes),
            mcp_workspaces: s.list(PROCESSES, parse_workspaces)?,
            sandbox_url: s.parsed("SANDBOX_URL", None, parse_server_url)?,
            web_allow: s.list("WEB_ALLOW", Exemption::parse_list)?,
            api_origins: s.list("API_ORIGINS", ApiOrigins::parse_list)?,
            workers: s.number("WORKERS", 16, 1024)?,
            api_share: s.parsed("API_SHARE", Share::QUARTER, Share::parse)?,
            retry_delays: s.parsed("RETRY_DELAYS", retry_delays(), parse_durations)?,
            task_timeout: s.parsed("TASK_TIMEOUT", Duration::from_mins(2), parse_limit)?,
            attempt_max: s.parsed("ATTEMPT_MAX", Duration::from_mins(15), parse_limit)?,
            event_retention: s.duration("EVENT_RETENTION", Duration::from_hours(168))?,
            context_retention: s.parsed(
                "CONTEXT_RETENTION",
                Duration::from_hours(90 * 24),
                parse_retention,
            )?,
            compaction: s.is_on("COMPACTION")?,
            compaction_interval: s.duration("COMPACTION_INTERVAL", Duration::from_mins(1))?,
            upload_bytes_max: s.parsed("UPLOAD_BYTES_MAX", 25 << 20, |t| {
                parse_size(t, UPLOAD_BYTES_LIMIT, "1GiB")
            })?,
            upload_orphan_after: s.duration("UPLOAD_ORPHAN_AFTER", Duration::from_hours(24))?,
            blobs_url: s.parsed("BLOBS_URL", None, |t| BucketUrl::parse(t).map(Some))?,
            aws: s.aws(),
            signup: s.parsed("SIGNUP", Signup::First, parse_signup)?,
            rate_limits: s.is_on("RATE_LIMITS")?,
            memory: s.is_on("MEMORY")?,
            connections_max: s.number("CONNECTIONS_MAX", 10_000, LIMIT_MAX)?,
            sockets_max: s.number("SOCKETS_MAX", 20_000, LIMIT_MAX)?,
            sockets_per_user: s.number("SOCKETS_PER_USER", 200, LIMIT_MAX)?,
            tasks_queued_max: s.number("TASKS_QUEUED_MAX", 200, LIMIT_MAX)?,
            workspaces_per_user: s.number("WORKSPACES_PER_USER", 100, LIMIT_MAX)?,
            workspace_bytes_max: s.parsed("WORKSPACE_BYTES_MAX", 10 << 30, |t| {
                parse_size(t, WORKSPACE_BYTES_LIMIT, "1048576GiB")
            })?,
            agents_max: s.number("AGENTS_MAX", 20_000, LIMIT_MAX)?,
            seeds_file: s.path("SEEDS_FILE"),
            metrics_token: s.text("METRICS_TOKEN").map(Secret),
            log: s.text("LOG").unwrap_or_else(|| "info".into()),
            log_format: s.parsed("LOG_FORMAT", LogFormat::Text, parse_log_format)?,
        })
    }
}

impl Config {
    /// Options of the database.
    pub fn database_options(&self) -> Options {
        Options {
            connections: self.database_connections,
            failover: self.database_failover,
        }
    }
}

/// Returns true for S3 variables, which can be set only in the environment.
fn is_of_aws(name: &str) -> bool {
    name.starts_with("AWS_")
}

fn parse_public_url(text: &str) -> Result<Option<String>, String> {
    let url = Url::parse(text).ok();
    if url.is_some_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host()) {
        Ok(Some(text.trim_end_matches('/').to_owned()))
    } else {
        Err(format!(
            "`{text}` is not a URL such as https://chat.example.org"
        ))
    }
}

fn parse_server_url(text: &str) -> Result<Option<Url>, String> {
    let url = Url::parse(text.trim()).ok();
    let url = url.filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    let invalid = || format!("`{text}` is not a URL such as http://127.0.0.1:9000/mcp");
    url.ok_or_else(invalid).map(Some)
}

fn parse_window(text: &str) -> Result<Option<u64>, String> {
    let tokens = text
        .parse()
        .ok()
        .filter(|n| (512..=100_000_000).contains(n));
    let invalid = || format!("`{text}` is not a number of tokens from 512 to 100000000");
    tokens.ok_or_else(invalid).map(Some)
}

fn parse_limit(text: &str) -> Result<Duration, String> {
    let limit = parse_duration(text)?;
    if limit.is_zero() {
        return Err(format!(
            "`{text}` leaves no time for a reply: use a duration such as 10m"
        ));
    }
    Ok(limit)
}

fn parse_retention(text: &str) -> Result<Duration, String> {
    let retention = parse_duration(text)?;
    if retention < Duration::from_hours(24) {
        return Err(format!("`{text}` is less than a day"));
    }
    Ok(retention)
}

/// Parses a size from 1 byte to `bytes_max`, which the error states as `limit`.
fn parse_size(text: &str, bytes_max: u64, limit: &str) -> Result<u64, String> {
    let bytes = parse_bytes(text)?;
    if (1..=bytes_max).contains(&bytes) {
        return Ok(bytes);
    }
    Err(format!("`{text}` is not a size from 1 to {limit}"))
}

/// Returns the workspaces that are listed in the tables `[mcp.NAME]`.
fn parse_workspaces(json: &str) -> Result<Vec<String>, String> {
    let table: BTreeMap<String, ProcessConfig> =
        serde_json::from_str(json).map_err(|e| e.to_string())?;
    let named = table.into_values().flat_map(|process| process.workspaces);
    Ok(named.collect())
}

/// Maximum length of a node's name, in characters.
const NODE_NAME_MAX: usize = 80;

fn parse_node_name(text: &str) -> Result<Option<String>, String> {
    let name = text.trim();
    if name.chars().count() > NODE_NAME_MAX || name.chars().any(char::is_control) {
        return Err(format!(
            "a name has at most {NODE_NAME_MAX} printable characters"
        ));
    }
    Ok(Some(name.to_owned()))
}

/// Maximum value of the setting `drain`; more would exceed the time that service managers wait for a process.
const DRAIN_MAX: Duration = Duration::from_secs(15);

fn parse_drain(text: &str) -> Result<Duration, String> {
    let drain = parse_duration(text)?;
    if drain > DRAIN_MAX {
        return Err(format!("`{text}` is longer than 15s"));
    }
    Ok(drain)
}

fn retry_delays() -> Vec<Duration> {
    [1, 5, 15].map(Duration::from_secs).to_vec()
}

fn parse_durations(text: &str) -> Result<Vec<Duration>, String> {
    text.split(',').map(parse_duration).collect()
}

fn parse_log_format(text: &str) -> Result<LogFormat, String> {
    one_of(
        text,
        &[("text", LogFormat::Text), ("json", LogFormat::Json)],
    )
}

fn parse_signup(text: &str) -> Result<Signup, String> {
    one_of(
        text,
        &[
            ("first", Signup::First),
            ("open", Signup::Open),
            ("invite", Signup::Invite),
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(pairs: &[(&str, &str)]) -> Result<Config, ConfigError> {
        Config::from_values(
            pairs
                .iter()
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
                .collect(),
        )
    }

    #[test]
    fn processes_of_tool_servers_are_only_in_the_file() {
        let file = r#"
            mcp_allow = ["10.0.0.0/8", "mcp.internal:9000"]
            [mcp.files]
            command = ["/usr/bin/files", "--root", "/srv"]
            env = { LANG = "C" }
            workspaces = ["northwind"]
        "#;
        let config = Config::from_values(parse_file(file).unwrap()).unwrap();
        assert_eq!(config.mcp_allow.len(), 2);
        let process = config.mcp.find("files", "northwind").unwrap();
        assert_eq!(process.command, ["/usr/bin/files", "--root", "/srv"]);
        assert_eq!(config.mcp.find("files", "other"), None);
        assert_eq!(config.mcp_workspaces, ["northwind"]);
        assert!(!NAMES.contains(&PROCESSES), "no variable starts a process");
        for invalid in ["mcp = 1", "[mcp.files]\ncommand = []", "mpc = 1"] {
            let read = parse_file(invalid).and_then(Config::from_values);
            assert!(read.is_err(), "{invalid}");
        }
    }

    #[test]
    fn all_settings_are_optional() {
        let config = with(&[]).unwrap();
        assert_eq!(config.listen, "127.0.0.1:8080");
        assert_eq!(config.retry_delays.len(), 3);
        assert!(
            matches!(config.database, DatabaseUrl::Sqlite(p) if p.ends_with("openvibe-data/openvibe.db"))
        );
    }

    #[test]
    fn every_setting_of_the_sample_exists() {
        let sample = include_str!("../.env.sample");
        let names = sample.lines().filter_map(|line| {
            let (name, _) = line.strip_prefix("#OPENVIBE_")?.split_once('=')?;
            Some(name)
        });
        let unknown: Vec<_> = names.filter(|name| !NAMES.contains(name)).collect();
        assert!(unknown.is_empty(), "{unknown:?}");
        let values = parse_file("context_window = 4096").unwrap();
        let config = Config::from_values(values).unwrap();
        assert_eq!(config.model.context_window, Some(4096));
    }

    #[test]
    fn nats_needs_postgresql() {
        let error = with(&[("NATS_URL", "nats://127.0.0.1:4222")]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "OPENVIBE_NATS_URL needs PostgreSQL: set OPENVIBE_DATABASE_URL to postgres://…"
        );
    }

    #[test]
    fn nats_needs_a_secret_key() {
        let settings = [
            ("DATABASE_URL", "postgres://localhost/openvibe"),
            ("NATS_URL", "nats://127.0.0.1:4222"),
        ];
        let error = with(&settings).unwrap_err().to_string();
        let names = "OPENVIBE_NATS_URL needs OPENVIBE_SECRET_KEY";
        assert!(error.starts_with(names), "{error}");
        let key = "A".repeat(43) + "=";
        let config = with(&[&settings[..], &[("SECRET_KEY", &key)]].concat()).unwrap();
        assert_eq!(config.nats.unwrap().keys.len(), 1);
    }

    #[test]
    fn the_bucket_of_uploads_is_a_url() {
        let config = with(&[("BLOBS_URL", "s3://acme/openvibe/")]).unwrap();
        assert_eq!(config.blobs_url.unwrap().to_string(), "s3://acme/openvibe");
        assert_eq!(with(&[]).unwrap().blobs_url, None);
        assert!(parse_file("blobs_url = \"s3://acme/openvibe\"").is_ok());
        assert!(parse_file("aws_region = \"eu-central-1\"").is_err());
    }

    #[test]
    fn durations_have_units() {
        let config = with(&[("RETRY_DELAYS", "10ms, 2s,1m"), ("EVENT_RETENTION", "2d")]).unwrap();
        assert_eq!(
            config.retry_delays,
            [10, 2000, 60_000].map(Duration::from_millis)
        );
        assert_eq!(config.event_retention, Duration::from_hours(48));
    }

    #[test]
    fn an_invalid_value_is_reported_with_the_expected_format() {
        for (name, value) in [
            ("SIGNUP", "everyone"),
            ("WORKERS", "0"),
            ("API_SHARE", "0"),
            ("API_SHARE", "2"),
            ("TASK_TIMEOUT", "soon"),
            ("CONTEXT_RETENTION", "1h"),
            ("CONNECTIONS_MAX", "0"),
            ("SOCKETS_MAX", "0"),
            ("WORKSPACES_PER_USER", "many"),
            ("PUBLIC_URL", "chat.example"),
            ("PUBLIC_URL", "https://"),
            ("ATTEMPT_MAX", "0s"),
            ("TASK_TIMEOUT", "0"),
            ("DATABASE_URL", "mysql://x"),
            ("DATABASE_CONNECTIONS", "0"),
            ("DATABASE_FAILOVER", "never"),
            ("UPLOAD_BYTES_MAX", "2GiB"),
            ("UPLOAD_BYTES_MAX", "many"),
            ("BLOBS_URL", "https://bucket.s3.amazonaws.com/files"),
            ("BLOBS_URL", "s3://"),
            ("MCP_ALLOW", "https://mcp.example.com"),
            ("WEB_ALLOW", "10.0.0.0/40"),
            ("API_ORIGINS", "app.example.org"),
            ("API_ORIGINS", "https://app.example.org/page"),
            ("API_ORIGINS", "*"),
            ("SANDBOX_URL", "127.0.0.1:9000"),
            ("MCP", "{\"files\": {\"command\": []}}"),
            ("DRAIN", "16s"),
            ("NODE_NAME", "a\nb"),
        ] {
            let error = with(&[(name, value)]).unwrap_err().to_string();
            assert!(error.starts_with(&format!("OPENVIBE_{name}: ")), "{error}");
        }
    }
}
