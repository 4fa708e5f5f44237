//! Configuration: the settings file, overridden by `--env-file`, by environment variables, and by flags.

use crate::text_enum::{UnknownText, text_enum};
use std::{collections::BTreeMap, fmt, path::PathBuf, time::Duration};

use chrono::NaiveTime;
use lettre::message::Mailbox;

use crate::{
    db::{DatabaseUrl, Failover, Options},
    environment::{self, PREFIX, Variables},
    mail::{self, settings::SmtpSettings},
    mcp::{LocalServers, ProcessConfig},
    model::{EmbeddingServer, ModelSettings, without_route},
    networks::{ApiOrigins, TrustedProxies},
    outbound::{Exemption, Url},
    proxy::{self, Proxy},
    secrets::SecretKey,
    share::Share,
    storage::{AwsVariables, BlobSettings, BucketUrl},
    tls_settings::{self, AcmeSettings, Binding, KeyPair, TlsSettings, TlsSource},
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

/// Times of the job that notifies people of items.
#[derive(Debug, Clone, Copy)]
pub struct NotifyPace {
    /// Time for which an item has to be open, so that people who are reading are not notified.
    pub settled_after: Duration,
    pub check_every: Duration,
}

impl Default for NotifyPace {
    fn default() -> Self {
        Self {
            settled_after: Duration::from_secs(30),
            check_every: Duration::from_secs(5),
        }
    }
}

/// Parses `OPENVIBE_PUSH_SUBJECT`: `mailto:` and an address, or a URL with https.
///
/// # Errors
/// A description of the form.
fn parse_subject(text: &str) -> Result<Option<String>, String> {
    const FORM: &str =
        "the value must be mailto:YOU@YOUR-DOMAIN without a space, or an address with https";
    let text = text.trim();
    let is_valid = match text.strip_prefix("mailto:") {
        Some(address) => {
            let parts = address.split_once('@');
            parts.is_some_and(|(name, host)| !name.is_empty() && !host.is_empty())
                && !address.contains(char::is_whitespace)
        }
        None => Url::parse(text).is_ok_and(|url| url.scheme() == "https"),
    };
    if is_valid {
        Ok(Some(text.to_owned()))
    } else {
        Err(FORM.to_owned())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    Text,
    Json,
}

/// Place for backups on a schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BackupTo {
    Directory(PathBuf),
    Bucket(BucketUrl),
}

impl BackupTo {
    fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text.contains("://") {
            return BucketUrl::parse(text).map(Self::Bucket);
        }
        Ok(Self::Directory(text.into()))
    }
}

impl fmt::Display for BackupTo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(dir) => dir.display().fmt(f),
            Self::Bucket(url) => url.fmt(f),
        }
    }
}

/// Time of day in UTC at which a backup is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackupTime(pub NaiveTime);

impl Default for BackupTime {
    fn default() -> Self {
        Self(NaiveTime::from_hms_opt(3, 30, 0).unwrap_or_default())
    }
}

impl BackupTime {
    /// # Errors
    /// If the text is not a time such as `03:30`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let time = NaiveTime::parse_from_str(text.trim(), "%H:%M");
        let invalid = |_| format!("`{text}` is not a time of day such as 03:30, in UTC");
        time.map(Self).map_err(invalid)
    }
}

/// Numbers of days, weeks, and months of which the newest backup is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackupKeep {
    pub days: usize,
    pub weeks: usize,
    pub months: usize,
}

impl Default for BackupKeep {
    fn default() -> Self {
        Self {
            days: 7,
            weeks: 4,
            months: 6,
        }
    }
}

impl BackupKeep {
    fn parse(text: &str) -> Result<Self, String> {
        let mut keep = Self {
            days: 0,
            weeks: 0,
            months: 0,
        };
        for part in text.split(',').map(str::trim) {
            let unit = part.chars().next_back();
            let number = part.get(..part.len().saturating_sub(1));
            let number = number.and_then(|number| number.parse::<u16>().ok());
            let number = number.filter(|number| (1..=1000).contains(number));
            let invalid = || {
                format!(
                    "`{part}` is not a number of days, weeks, or months: use a list such as 7d,4w,6m"
                )
            };
            let number = usize::from(number.ok_or_else(invalid)?);
            match unit {
                Some('d') => keep.days = number,
                Some('w') => keep.weeks = number,
                Some('m') => keep.months = number,
                _ => return Err(invalid()),
            }
        }
        Ok(keep)
    }
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
#[expect(clippy::struct_excessive_bools, reason = "independent switches")]
pub struct Config {
    /// Address to listen on, `HOST:PORT`; port 0 picks a free port.
    pub listen: String,
    /// HTTPS without a proxy.
    pub tls: Option<TlsSettings>,
    /// PEM file with certificate authorities that outgoing connections trust in addition.
    pub ca_file: Option<PathBuf>,
    /// Proxy of outgoing connections to public names.
    pub proxy: Option<Proxy>,
    /// Mail server; without one, no email is sent.
    pub smtp: Option<SmtpSettings>,
    /// Sender of emails; `None` derives the address from the public URL.
    pub mail_from: Option<Mailbox>,
    /// Contact of the operator for push services; `None` sends the public URL.
    pub push_subject: Option<String>,
    /// Push services that are allowed even if they are local or use HTTP.
    pub push_allow: Vec<Exemption>,
    /// Addresses of bots' programs that are allowed even if they are local or use HTTP.
    pub hook_allow: Vec<Exemption>,
    /// Times of notifications. Not a setting, but shorter in tests.
    pub notify_pace: NotifyPace,
    /// Public URL without a trailing slash; `None` derives the URL from the bound address.
    pub public_url: Option<String>,
    /// Token for the first account; generated by default.
    pub setup_token: Option<Secret>,
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
    /// This program's own file, which also reads the text of uploads. Not a setting, but another file in tests.
    pub program: PathBuf,
    /// Non-public addresses that workspaces can use for model servers.
    pub model_allow: Vec<Exemption>,
    /// Server and model for search by meaning in all workspaces.
    pub embedding: Option<EmbeddingServer>,
    /// Time for which a search waits for the vector of its question. Not a setting, but longer in tests.
    pub embedding_wait: Duration,
    /// Maximum memory of this process for search by meaning, in bytes.
    pub embedding_memory_bytes_max: u64,
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
    /// Settings of the runner that the server starts; `None` starts none.
    pub runner: Option<PathBuf>,
    /// Web pages that agents can read even if they are local, use HTTP, or use a non-standard port.
    pub web_allow: Vec<Exemption>,
    /// Other sites whose pages can use the API with a key.
    pub api_origins: ApiOrigins,
    /// True if no agent acts and nothing is sent to other servers, for copies of a server.
    pub is_quiet: bool,
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
    /// Maximum size of an archive to import.
    pub import_bytes_max: u64,
    /// Directory of archives that can be imported without an upload.
    pub import_dir: Option<PathBuf>,
    /// Hosts from which files of each archive can be fetched, even if they are local or use HTTP.
    pub import_allow: Vec<Exemption>,
    /// Retention of unattached uploads.
    pub upload_orphan_after: Duration,
    /// Bucket for uploads larger than 64 KiB.
    pub blobs_url: Option<BucketUrl>,
    /// Place for backups on a schedule; `None` makes none.
    pub backup_to: Option<BackupTo>,
    /// Credentials and options of the bucket for backups.
    pub backup_aws: AwsVariables,
    pub backup_at: BackupTime,
    pub backup_keep: BackupKeep,
    /// False if a database is changed by a new version without a backup.
    pub has_update_backup: bool,
    /// Credentials and options of S3.
    pub aws: AwsVariables,
    pub signup: Signup,
    pub rate_limits: bool,
    /// No permit of a rate limit is refilled: a setting of debug builds, for tests that reach a limit on a machine of any speed.
    #[cfg(test_hooks)]
    pub rates_stopped: bool,
    /// True if agents can have memory.
    pub memory: bool,
    /// True if a new workspace gets an example thread.
    pub example: bool,
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
    /// Address, `HOST:PORT`, at which only metrics are served, to everyone.
    pub metrics_listen: Option<String>,
    /// URL or directory of releases, for `openvibe update`.
    pub releases: Option<String>,
    pub log: String,
    pub log_format: LogFormat,
    /// Settings that have no effect, as sentences for the log.
    pub warnings: Vec<String>,
    /// Files from which the settings were read.
    pub sources: Vec<PathBuf>,
}

/// Options of the command line that change settings.
#[derive(Debug, Default)]
pub struct Flags {
    pub listen: Option<String>,
    pub domain: Option<String>,
    pub env_file: Option<PathBuf>,
    pub no_backup: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("{name}: {problem}")]
    Value { name: String, problem: String },
    #[error("{0}")]
    File(String),
    #[error(
        "OPENVIBE_PUBLIC_URL has {0}: OpenVibe needs a host name of its own, such as https://chat.example.org"
    )]
    PublicUrlPart(String),
    #[error(
        "OPENVIBE_TLS_CERT and OPENVIBE_TLS_KEY belong together: set both, or OPENVIBE_DOMAIN alone"
    )]
    TlsNeedsBoth,
    #[error(
        "OPENVIBE_DOMAIN needs OPENVIBE_SECRET_KEY with PostgreSQL, because the database stores the certificate's key encrypted \
         (generate one with `openssl rand -base64 32`)"
    )]
    DomainNeedsSecretKey,
    #[error("OPENVIBE_NATS_URL needs PostgreSQL: set OPENVIBE_DATABASE_URL to postgres://…")]
    NatsNeedsPostgres,
    #[error(
        "OPENVIBE_NATS_URL needs OPENVIBE_SECRET_KEY, which encrypts the messages between nodes: set the same key on all nodes \
         (generate one with `openssl rand -base64 32`)"
    )]
    NatsNeedsSecretKey,
}

/// Minimum retention of events.
const EVENT_RETENTION_MIN: Duration = Duration::from_mins(1);
/// Hard upper limit of `OPENVIBE_EMBEDDING_MEMORY`.
const EMBEDDING_MEMORY_LIMIT: u64 = 1 << 40;
/// Hard upper limit of `OPENVIBE_IMPORT_BYTES_MAX`.
const IMPORT_BYTES_LIMIT: u64 = 1 << 40;
/// Hard upper limit of `OPENVIBE_UPLOAD_BYTES_MAX`.
const UPLOAD_BYTES_LIMIT: u64 = 1 << 30;
/// Hard upper limit of the storage quota of a workspace.
const WORKSPACE_BYTES_LIMIT: u64 = 1 << 50;

/// Names of all settings without the prefix `OPENVIBE_`.
const NAMES: &[&str] = &[
    "LISTEN",
    "HTTP_LISTEN",
    "DOMAIN",
    "TLS_CERT",
    "TLS_KEY",
    "ACME_URL",
    "ACME_EMAIL",
    "ACME_EAB",
    "CA_FILE",
    "PROXY",
    "NO_PROXY",
    "SMTP_URL",
    "MAIL_FROM",
    "PUSH_SUBJECT",
    "PUSH_ALLOW",
    "HOOK_ALLOW",
    "PUBLIC_URL",
    "SETUP_TOKEN",
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
    "EMBEDDING_BASE_URL",
    "EMBEDDING_API_KEY",
    "EMBEDDING_MODEL",
    "EMBEDDING_MEMORY",
    "MCP_ALLOW",
    "WEB_ALLOW",
    "API_ORIGINS",
    "SANDBOX_URL",
    "RUNNER",
    "SECRET_KEY",
    "QUIET",
    "WORKERS",
    "API_SHARE",
    "RETRY_DELAYS",
    "TASK_TIMEOUT",
    "ATTEMPT_MAX",
    "EVENT_RETENTION",
    "CONTEXT_RETENTION",
    "COMPACTION",
    "COMPACTION_INTERVAL",
    "IMPORT_BYTES_MAX",
    "IMPORT_DIR",
    "IMPORT_ALLOW",
    "UPLOAD_BYTES_MAX",
    "UPLOAD_ORPHAN_AFTER",
    "BLOBS_URL",
    "BACKUP_TO",
    "BACKUP_AT",
    "BACKUP_KEEP",
    "SIGNUP",
    "RATE_LIMITS",
    "MEMORY",
    "EXAMPLE",
    "CONNECTIONS_MAX",
    "SOCKETS_MAX",
    "SOCKETS_PER_USER",
    "TASKS_QUEUED_MAX",
    "WORKSPACES_PER_USER",
    "WORKSPACE_BYTES_MAX",
    "AGENTS_MAX",
    "SEEDS_FILE",
    "METRICS_TOKEN",
    "METRICS_LISTEN",
    "RELEASES",
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

/// Parses a size such as `1000000`, `25MiB`, or `1GiB`; a number without a unit is in bytes. All units are powers of 1,024, however
/// they are written (`50M`, `1TB`).
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = unit.trim().to_ascii_lowercase();
    let bytes_per_unit: u64 = match unit.as_str() {
        "" | "b" => 1,
        "k" | "kb" | "kib" => 1 << 10,
        "m" | "mb" | "mib" => 1 << 20,
        "g" | "gb" | "gib" => 1 << 30,
        "t" | "tb" | "tib" => 1 << 40,
        _ => {
            return Err(format!(
                "`{text}` is not a size: the units are KiB, MiB, GiB, TiB"
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
        self.parsed(name, true, parse_switch)
    }

    /// Settings that have no effect because another one is missing, as sentences.
    fn without_effect(&self) -> Vec<String> {
        let has_server = ["MODEL_BASE_URL", "ANTHROPIC_API_KEY", "OPENAI_API_KEY"]
            .iter()
            .any(|name| self.get(name).is_some());
        let has_files = self.get("TLS_CERT").is_some();
        let has_tls = has_files || self.get("DOMAIN").is_some();
        let is_ordered = has_tls && !has_files;
        let has_backups = self.get("BACKUP_TO").is_some();
        let server =
            "a model server: set OPENVIBE_MODEL_BASE_URL, ANTHROPIC_API_KEY, or OPENAI_API_KEY";
        let needs = [
            ("MODEL", has_server, server),
            ("UTILITY_MODEL", has_server, server),
            (
                "MODEL_API_KEY",
                self.get("MODEL_BASE_URL").is_some(),
                "OPENVIBE_MODEL_BASE_URL",
            ),
            (
                "NATS_CREDENTIALS",
                self.get("NATS_URL").is_some(),
                "OPENVIBE_NATS_URL",
            ),
            (
                "HTTP_LISTEN",
                has_tls,
                "OPENVIBE_DOMAIN or OPENVIBE_TLS_CERT",
            ),
            (
                "ACME_URL",
                is_ordered,
                "OPENVIBE_DOMAIN, or beside OPENVIBE_TLS_CERT",
            ),
            (
                "ACME_EMAIL",
                is_ordered,
                "OPENVIBE_DOMAIN, or beside OPENVIBE_TLS_CERT",
            ),
            (
                "ACME_EAB",
                is_ordered,
                "OPENVIBE_DOMAIN, or beside OPENVIBE_TLS_CERT",
            ),
            ("BACKUP_AT", has_backups, "OPENVIBE_BACKUP_TO"),
            (
                "EMBEDDING_BASE_URL",
                self.get("EMBEDDING_MODEL").is_some(),
                "OPENVIBE_EMBEDDING_MODEL",
            ),
            (
                "EMBEDDING_API_KEY",
                self.get("EMBEDDING_BASE_URL").is_some(),
                "OPENVIBE_EMBEDDING_BASE_URL",
            ),
            ("NO_PROXY", self.get("PROXY").is_some(), "OPENVIBE_PROXY"),
            ("BACKUP_KEEP", has_backups, "OPENVIBE_BACKUP_TO"),
        ];
        let idle = needs
            .into_iter()
            .filter(|(name, is_met, _)| !is_met && self.get(name).is_some());
        idle.map(|(name, _, needed)| format!("{PREFIX}{name} has no effect without {needed}"))
            .collect()
    }

    /// Reads the public URL, without a trailing slash.
    fn public_url(&self) -> Result<Option<String>, ConfigError> {
        let Some(url) = self.parsed("PUBLIC_URL", None, parse_public_url)? else {
            return Ok(None);
        };
        match surplus_part(&url) {
            Some(part) => Err(ConfigError::PublicUrlPart(part)),
            None => Ok(Some(url.as_str().trim_end_matches('/').to_owned())),
        }
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

    fn tls(&self) -> Result<Option<TlsSettings>, ConfigError> {
        let names = self.list("DOMAIN", tls_settings::parse_names)?;
        let source = match (self.path("TLS_CERT"), self.path("TLS_KEY")) {
            (Some(certificate), Some(key)) => TlsSource::Files(KeyPair { certificate, key }),
            (None, None) if names.is_empty() => return Ok(None),
            (None, None) => TlsSource::Acme(AcmeSettings {
                directory_url: self.parsed("ACME_URL", None, parse_directory_url)?,
                email: self.text("ACME_EMAIL"),
                binding: self.parsed("ACME_EAB", None, Binding::parse)?,
            }),
            _ => return Err(ConfigError::TlsNeedsBoth),
        };
        let http_listen = self.text("HTTP_LISTEN");
        Ok(Some(TlsSettings {
            names,
            source,
            http_listen: http_listen.unwrap_or_else(|| "[::]:80".to_owned()),
        }))
    }

    fn proxy(&self) -> Result<Option<Proxy>, ConfigError> {
        let direct = self.list("NO_PROXY", proxy::parse_domains)?;
        let url = self.parsed("PROXY", None, |text| proxy::parse_url(text).map(Some))?;
        Ok(url.map(|url| Proxy::new(url, direct)))
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

    /// Reads the server and model for search by meaning; `None` if no model is named.
    fn embedding(&self) -> Result<Option<EmbeddingServer>, ConfigError> {
        let base_url = self.parsed("EMBEDDING_BASE_URL", None, parse_server_url)?;
        Ok(self.text("EMBEDDING_MODEL").map(|model| EmbeddingServer {
            base_url: base_url.map(without_route),
            api_key: self.text("EMBEDDING_API_KEY").filter(|_| {
                // Without an address, the key of the model server is used.
                self.get("EMBEDDING_BASE_URL").is_some()
            }),
            model: model.trim().to_owned(),
        }))
    }

    /// Variables of the bucket for backups: those of `OPENVIBE_BACKUP_AWS_*`, or else of `AWS_*`.
    fn backup_aws(&self) -> AwsVariables {
        let own: Vec<(String, String)> = self
            .0
            .iter()
            .filter(|(name, _)| is_of_backup(name))
            .filter_map(|(name, value)| {
                Some((name.strip_prefix("BACKUP_")?.to_owned(), value.clone()))
            })
            .collect();
        if own.is_empty() {
            return self.aws();
        }
        own.into_iter().collect()
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
        .find(|(name, _)| name.eq_ignore_ascii_case(text.trim()))
        .map(|(_, value)| *value)
        .ok_or_else(|| {
            let names: Vec<_> = choices.iter().map(|(name, _)| *name).collect();
            format!("`{text}` is not one of {}", names.join(", "))
        })
}

fn parse_switch(text: &str) -> Result<bool, String> {
    let is_named = |names: &[&str]| {
        names
            .iter()
            .any(|name| name.eq_ignore_ascii_case(text.trim()))
    };
    if is_named(&["true", "yes", "1"]) {
        return Ok(true);
    }
    if is_named(&["false", "no", "0"]) {
        return Ok(false);
    }
    one_of(text, &[("on", true), ("off", false)])
}

/// Maximum value of the setting `workers`.
const WORKERS_MAX: u32 = 1024;
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

/// Settings of the file that `variables` name, or of the default one. The path of the file is added to `sources`.
fn from_file(variables: &Variables, sources: &mut Vec<PathBuf>) -> Result<Variables, ConfigError> {
    let Some((path, text)) = environment::settings_file(variables).map_err(ConfigError::File)?
    else {
        return Ok(Variables::new());
    };
    let problem = |e| ConfigError::File(format!("{}: {e}", path.display()));
    let settings = parse_file(&text).map_err(problem);
    sources.push(path);
    settings
}

fn parse_file(text: &str) -> Result<Variables, String> {
    let table: toml::Table = text.parse().map_err(|e: toml::de::Error| e.to_string())?;
    let mut found = BTreeMap::new();
    for (key, value) in table {
        let name = key.to_uppercase();
        if name == PROCESSES {
            let json = serde_json::to_string(&value);
            let json = json.map_err(|e| format!("`{key}`: {e}"))?;
            found.insert(name, json);
            continue;
        }
        if !NAMES.contains(&name.as_str())
            && !["ANTHROPIC_API_KEY", "OPENAI_API_KEY"].contains(&name.as_str())
        {
            return Err(format!(
                "`{key}` is not a setting{}",
                environment::hint(&name, NAMES)
            ));
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
    /// Reads the settings file, `--env-file`, and the environment.
    ///
    /// # Errors
    /// The error names the invalid setting and its valid values.
    pub fn load(flags: Flags) -> Result<Self, ConfigError> {
        let mut variables = match &flags.env_file {
            Some(path) => environment::read_env_file(path).map_err(ConfigError::File)?,
            None => Variables::new(),
        };
        variables.extend(environment::of_process());
        let mut sources: Vec<PathBuf> = flags.env_file.iter().cloned().collect();
        let mut values = from_file(&variables, &mut sources)?;
        let mut warnings = environment::warn_of_unknown(&variables, NAMES);
        values.extend(variables.into_iter().filter_map(|(name, value)| {
            let is_provider = ["ANTHROPIC_API_KEY", "OPENAI_API_KEY"].contains(&name.as_str());
            if is_provider || is_of_aws(&name) {
                return Some((name, value));
            }
            if let Some(short) = name.strip_prefix(PREFIX).filter(|name| is_of_backup(name)) {
                return Some((short.to_owned(), value));
            }
            let short = name
                .strip_prefix(PREFIX)
                .filter(|name| NAMES.contains(name))?;
            Some((short.to_owned(), value))
        }));
        let options = [("LISTEN", flags.listen), ("DOMAIN", flags.domain)];
        values.extend(
            options
                .into_iter()
                .filter_map(|(name, value)| Some((name.to_owned(), value?))),
        );
        let mut config = Self::from_values(values)?;
        warnings.append(&mut config.warnings);
        config.warnings = warnings;
        config.sources = sources;
        config.has_update_backup = !flags.no_backup;
        Ok(config)
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
        let tls = s.tls()?;
        let is_ordered = tls.as_ref().is_some_and(TlsSettings::is_ordered);
        if is_ordered && secret_keys.is_empty() && matches!(database, DatabaseUrl::Postgres(_)) {
            return Err(ConfigError::DomainNeedsSecretKey);
        }
        let listen = if tls.is_some() {
            "[::]:443"
        } else {
            "127.0.0.1:8080"
        };
        Ok(Self {
            listen: s.text("LISTEN").unwrap_or_else(|| listen.into()),
            tls,
            ca_file: s.path("CA_FILE"),
            proxy: s.proxy()?,
            smtp: s.parsed("SMTP_URL", None, SmtpSettings::parse)?,
            mail_from: s.parsed("MAIL_FROM", None, mail::settings::parse_sender)?,
            push_subject: s.parsed("PUSH_SUBJECT", None, parse_subject)?,
            push_allow: s.list("PUSH_ALLOW", Exemption::parse_list)?,
            hook_allow: s.list("HOOK_ALLOW", Exemption::parse_list)?,
            notify_pace: NotifyPace::default(),
            public_url: s.public_url()?,
            setup_token: s.parsed("SETUP_TOKEN", None, parse_setup_token)?,
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
                t.trim()
                    .to_lowercase()
                    .parse()
                    .map_err(|e: UnknownText| e.to_string())
            })?,
            model: s.model()?,
            password_cost: argon2::Params::DEFAULT,
            // Remains this version even if the file is replaced.
            program: PathBuf::from("/proc/self/exe"),
            model_allow: s.list("MODEL_ALLOW", Exemption::parse_list)?,
            embedding: s.embedding()?,
            embedding_wait: Duration::from_millis(300),
            embedding_memory_bytes_max: s.parsed("EMBEDDING_MEMORY", 256 << 20, |t| {
                parse_size(t, EMBEDDING_MEMORY_LIMIT, "1TiB")
            })?,
            secret_keys,
            mcp_allow: s.list("MCP_ALLOW", Exemption::parse_list)?,
            mcp: processes.with_homes_in(&homes),
            mcp_workspaces: s.list(PROCESSES, parse_workspaces)?,
            sandbox_url: s.parsed("SANDBOX_URL", None, parse_server_url)?,
            runner: s.path("RUNNER"),
            web_allow: s.list("WEB_ALLOW", Exemption::parse_list)?,
            api_origins: s.list("API_ORIGINS", ApiOrigins::parse_list)?,
            is_quiet: s.parsed("QUIET", false, parse_switch)?,
            workers: s.parsed("WORKERS", 16, parse_workers)?,
            api_share: s.parsed("API_SHARE", Share::QUARTER, Share::parse)?,
            retry_delays: s.parsed("RETRY_DELAYS", retry_delays(), parse_durations)?,
            task_timeout: s.parsed("TASK_TIMEOUT", Duration::from_mins(2), parse_limit)?,
            attempt_max: s.parsed("ATTEMPT_MAX", Duration::from_mins(15), parse_limit)?,
            event_retention: s.parsed(
                "EVENT_RETENTION",
                Duration::from_hours(168),
                parse_event_retention,
            )?,
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
            import_bytes_max: s.parsed("IMPORT_BYTES_MAX", 8 << 30, |t| {
                parse_size(t, IMPORT_BYTES_LIMIT, "1TiB")
            })?,
            import_dir: s.path("IMPORT_DIR"),
            import_allow: s.list("IMPORT_ALLOW", Exemption::parse_list)?,
            upload_orphan_after: s.duration("UPLOAD_ORPHAN_AFTER", Duration::from_hours(24))?,
            blobs_url: s.parsed("BLOBS_URL", None, |t| BucketUrl::parse(t).map(Some))?,
            backup_to: s.parsed("BACKUP_TO", None, |t| BackupTo::parse(t).map(Some))?,
            backup_aws: s.backup_aws(),
            backup_at: s.parsed("BACKUP_AT", BackupTime::default(), BackupTime::parse)?,
            backup_keep: s.parsed("BACKUP_KEEP", BackupKeep::default(), BackupKeep::parse)?,
            has_update_backup: true,
            aws: s.aws(),
            signup: s.parsed("SIGNUP", Signup::First, parse_signup)?,
            rate_limits: s.is_on("RATE_LIMITS")?,
            #[cfg(test_hooks)]
            rates_stopped: s.text("RATES_STOPPED").is_some(),
            memory: s.is_on("MEMORY")?,
            example: s.is_on("EXAMPLE")?,
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
            metrics_listen: s.text("METRICS_LISTEN"),
            releases: s.text("RELEASES"),
            log: s.text("LOG").unwrap_or_else(|| "info".into()),
            log_format: s.parsed("LOG_FORMAT", LogFormat::Text, parse_log_format)?,
            warnings: s.without_effect(),
            sources: Vec::new(),
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

/// Returns true for S3 variables of backups, without our prefix.
fn is_of_backup(name: &str) -> bool {
    name.starts_with("BACKUP_AWS_")
}

fn parse_public_url(text: &str) -> Result<Option<Url>, String> {
    let url = Url::parse(text.trim()).ok();
    let url = url.filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    let invalid = || format!("`{text}` is not a URL such as https://chat.example.org");
    url.ok_or_else(invalid).map(Some)
}

/// Describes the part of a public URL that `OpenVibe` cannot have, because pages, cookies, and links belong to the whole host.
fn surplus_part(url: &Url) -> Option<String> {
    if !url.path().trim_end_matches('/').is_empty() {
        return Some(format!("the path {}", url.path().trim_end_matches('/')));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Some("a user name".to_owned());
    }
    let query = url.query().map(|query| format!("the query ?{query}"));
    query.or_else(|| Some(format!("the fragment #{}", url.fragment()?)))
}

/// Minimum length of the token for the first account, as that of passwords: attempts to sign up are limited.
const SETUP_TOKEN_CHARS_MIN: usize = 8;

fn parse_setup_token(text: &str) -> Result<Option<Secret>, String> {
    let token = text.trim();
    let is_usable = token.len() >= SETUP_TOKEN_CHARS_MIN
        && token
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'));
    if is_usable {
        return Ok(Some(Secret(token.to_owned())));
    }
    Err(format!(
        "a setup token has at least {SETUP_TOKEN_CHARS_MIN} letters, digits, `-`, and `_`: generate one with `openssl rand -hex 16`"
    ))
}

fn parse_directory_url(text: &str) -> Result<Option<Url>, String> {
    let url = Url::parse(text.trim()).ok();
    let url = url.filter(|url| url.scheme() == "https" && url.has_host());
    let invalid = || format!("`{text}` is not a URL such as https://ca.example.org/directory");
    url.ok_or_else(invalid).map(Some)
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

/// Events must outlast the time that a client needs to connect again.
fn parse_event_retention(text: &str) -> Result<Duration, String> {
    let retention = parse_duration(text)?;
    if retention < EVENT_RETENTION_MIN {
        return Err(format!(
            "`{text}` is less than a minute: use a duration such as 7d"
        ));
    }
    Ok(retention)
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

fn parse_workers(text: &str) -> Result<usize, String> {
    number_to(text, WORKERS_MAX)
        .map_err(|e| format!("{e}; to keep agents from acting, set OPENVIBE_QUIET=on"))
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
    fn a_subject_is_an_address_or_a_page() {
        for text in ["mailto:ada@example.org", " https://example.org/contact "] {
            assert_eq!(parse_subject(text), Ok(Some(text.trim().to_owned())));
        }
        for text in [
            "ada@example.org",
            "mailto: ada@example.org",
            "mailto:ada",
            "mailto:@x",
            "http://example.org",
            "",
        ] {
            assert!(parse_subject(text).is_err(), "{text}");
        }
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
            let read = parse_file(invalid).map(Config::from_values);
            assert!(!matches!(read, Ok(Ok(_))), "{invalid}");
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
        // These are only read from the environment.
        let unknown: Vec<_> = names
            .filter(|name| !["CONFIG", "RUNNER_KEY"].contains(name) && !NAMES.contains(name))
            .collect();
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
    fn the_public_url_is_a_host_without_more() {
        for (text, url) in [
            ("https://chat.example.org/", "https://chat.example.org"),
            (" http://192.0.2.7:8080", "http://192.0.2.7:8080"),
            ("https://Chat.Example.org:443", "https://chat.example.org"),
        ] {
            let config = with(&[("PUBLIC_URL", text)]).unwrap();
            assert_eq!(config.public_url.as_deref(), Some(url));
        }
        for (text, part) in [
            ("https://host/chat/", "the path /chat"),
            ("https://host?x=1", "the query ?x=1"),
            ("https://host/#top", "the fragment #top"),
            ("https://ada@host", "a user name"),
            ("https://ada:secret@host/", "a user name"),
        ] {
            let error = with(&[("PUBLIC_URL", text)]).unwrap_err().to_string();
            let expected = format!(
                "OPENVIBE_PUBLIC_URL has {part}: OpenVibe needs a host name of its own, such as https://chat.example.org"
            );
            assert_eq!(error, expected);
        }
    }

    #[test]
    fn common_spellings_are_understood() {
        let config = with(&[
            ("UPLOAD_BYTES_MAX", "50M"),
            ("WORKSPACE_BYTES_MAX", "1TB"),
            ("SIGNUP", "Open"),
            ("LOG_FORMAT", "JSON"),
            ("MEMORY", "False"),
            ("RATE_LIMITS", "true"),
            ("DATABASE_FAILOVER", "Lossless"),
        ])
        .unwrap();
        assert_eq!(config.upload_bytes_max, 50 << 20);
        assert_eq!(config.workspace_bytes_max, 1 << 40);
        assert_eq!(config.signup, Signup::Open);
        assert_eq!(config.log_format, LogFormat::Json);
        assert!(!config.memory && config.rate_limits);
        assert_eq!(config.database_failover, Failover::Lossless);
    }

    #[test]
    fn settings_without_effect_are_named() {
        for (set, warning) in [
            (
                &[("MODEL", "qwen3:8b")][..],
                Some("OPENVIBE_MODEL has no effect without a model server"),
            ),
            (
                &[("UTILITY_MODEL", "qwen3:8b")],
                Some("OPENVIBE_UTILITY_MODEL has no effect"),
            ),
            (
                &[("MODEL_API_KEY", "sk-1"), ("OPENAI_API_KEY", "sk-2")],
                Some("OPENVIBE_MODEL_API_KEY has no effect without OPENVIBE_MODEL_BASE_URL"),
            ),
            (
                &[("NATS_CREDENTIALS", "nats.creds")],
                Some("without OPENVIBE_NATS_URL"),
            ),
            (&[("MODEL", "claude"), ("ANTHROPIC_API_KEY", "sk-3")], None),
            (
                &[("EMBEDDING_BASE_URL", "http://127.0.0.1:9/v1")],
                Some("OPENVIBE_EMBEDDING_BASE_URL has no effect without OPENVIBE_EMBEDDING_MODEL"),
            ),
            (
                &[("EMBEDDING_MODEL", "minilm"), ("EMBEDDING_API_KEY", "k")],
                Some("OPENVIBE_EMBEDDING_API_KEY has no effect"),
            ),
            (&[("EMBEDDING_MODEL", "minilm")], None),
            (&[], None),
        ] {
            let warnings = with(set).unwrap().warnings.join("\n");
            match warning {
                Some(warning) => assert!(warnings.contains(warning), "{set:?}: {warnings}"),
                None => assert_eq!(warnings, "", "{set:?}"),
            }
        }
    }

    #[test]
    fn backups_have_a_place_a_time_and_an_end() {
        let config = with(&[
            ("BACKUP_TO", "/var/backups/openvibe"),
            ("BACKUP_AT", "23:05"),
            ("BACKUP_KEEP", "14d, 2m"),
            ("AWS_REGION", "eu-central-1"),
        ])
        .unwrap();
        let to = config.backup_to.unwrap();
        assert_eq!(to.to_string(), "/var/backups/openvibe");
        assert_eq!(config.backup_at, BackupTime::parse("23:05").unwrap());
        let keep = BackupKeep {
            days: 14,
            weeks: 0,
            months: 2,
        };
        assert_eq!(config.backup_keep, keep);
        assert!(format!("{:?}", config.backup_aws).contains("AWS_REGION"));
        let config = with(&[
            ("BACKUP_TO", "s3://acme/backups"),
            ("AWS_REGION", "eu-central-1"),
            ("BACKUP_AWS_ACCESS_KEY_ID", "key"),
        ])
        .unwrap();
        assert_eq!(config.backup_to.unwrap().to_string(), "s3://acme/backups");
        let variables = format!("{:?}", config.backup_aws);
        assert_eq!(variables, "{\"AWS_ACCESS_KEY_ID\"}");
    }

    #[test]
    fn a_setup_token_can_be_as_short_as_a_password() {
        let config = with(&[("SETUP_TOKEN", " let-me-in ")]).unwrap();
        let token = config.setup_token.map(|Secret(token)| token);
        assert_eq!(token.as_deref(), Some("let-me-in"));
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
            ("EVENT_RETENTION", "0"),
            ("EVENT_RETENTION", "59s"),
            ("UPLOAD_BYTES_MAX", "50X"),
            ("MEMORY", "maybe"),
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
            ("BACKUP_TO", "https://bucket.s3.amazonaws.com/backups"),
            ("BACKUP_AT", "25:00"),
            ("BACKUP_AT", "half past three"),
            ("BACKUP_KEEP", "7"),
            ("BACKUP_KEEP", "7d,0w"),
            ("SETUP_TOKEN", "short"),
            ("SETUP_TOKEN", "with spaces between words"),
        ] {
            let error = with(&[(name, value)]).unwrap_err().to_string();
            assert!(error.starts_with(&format!("OPENVIBE_{name}: ")), "{error}");
        }
    }
}
