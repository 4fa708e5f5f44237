//! Request bodies of the registry, and their validation.

use serde::Deserialize;

use super::{
    error::ToolError,
    tool::{AuthKind, FunctionConfig, RegisteredToolKind, RemoteConfig, ToolConfig},
};
use crate::{
    auth::DisplayName,
    ids::ChannelId,
    mcp::{self, Effect, Risk},
    outbound::{HeaderName, Url},
    patch::{nullable, present},
};

const NAME_CHARS_MAX: usize = 24;
const URL_UNITS_MAX: usize = 2048;
const HEADER_CHARS_MAX: usize = 64;
const STDIO_CHARS_MAX: usize = 64;
/// Maximum length of a description, in UTF-16 code units.
pub const DESCRIPTION_UNITS_MAX: usize = 4096;
/// Maximum size of the JSON schema of a function's arguments.
pub const PARAMETERS_BYTES_MAX: usize = 32 * 1024;
const CHANNELS_MAX: usize = 100;
const SECRET_BYTES_MAX: usize = 8 * 1024;

/// Fields of `POST`.
#[derive(Debug, Clone, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ToolForm {
    pub kind: RegisteredToolKind,
    /// `[a-z0-9][a-z0-9_-]{0,23}`, unique in the workspace; it cannot be changed.
    pub name: String,
    /// Display title, 1 to 80 characters; defaults to the name.
    pub title: Option<String>,
    /// True if the tool is turned on; true by default.
    pub enabled: Option<bool>,
    pub config: ToolConfig,
    /// Channels in which the tool can be used, at most 100; all by default.
    pub channel_ids: Option<Vec<ChannelId>>,
    /// True if reads need no approval even if the task is tainted; false by default.
    #[serde(default)]
    pub trusted_reads: bool,
}

/// Fields of `PATCH` requests; omitted fields are unchanged.
#[derive(Debug, Clone, Default, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ToolPatch {
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub enabled: Option<bool>,
    /// 1 to 80 characters.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub title: Option<String>,
    /// Channels in which the tool can be used; null for all.
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<Vec<ChannelId>>)]
    pub channel_ids: Option<Option<Vec<ChannelId>>>,
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub trusted_reads: Option<bool>,
    /// Replaces the settings. If the host changes, the secret is deleted.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub config: Option<ToolConfig>,
}

/// The secret of a tool.
#[derive(Clone, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SecretForm {
    /// The secret: a single line of ASCII text, at most 8 KiB.
    pub value: String,
}

/// Acceptance of a function.
#[derive(Debug, Clone, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AcceptanceForm {
    /// Hash of the definition that the admin has read.
    pub definition_hash: String,
    pub effect: Effect,
    /// Required approval; at least `approve` for a destructive function.
    pub risk: Risk,
    /// Display title, 1 to 80 characters; defaults to the server's title.
    pub title: Option<String>,
}

fn invalid(problem: &str, param: &'static str) -> ToolError {
    ToolError::Invalid(problem.to_owned(), param)
}

/// Returns true if a tool can have this name.
pub fn is_tool_name(name: &str) -> bool {
    let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '-');
    (1..=NAME_CHARS_MAX).contains(&name.len())
        && name.chars().all(is_part)
        && !name.starts_with(['_', '-'])
}

/// Checks that a tool can have this name.
///
/// # Errors
/// `Invalid`.
pub(super) fn check_name(name: &str) -> Result<(), ToolError> {
    if is_tool_name(name) {
        return Ok(());
    }
    let problem = format!(
        "the name must have 1 to {NAME_CHARS_MAX} lowercase letters, digits, `_`, or `-`, and begin with a letter or digit"
    );
    Err(invalid(&problem, "name"))
}

/// Parses a display title that replaces `current`.
///
/// # Errors
/// `Auth` with the violated rule.
pub(super) fn parse_title(title: &str, current: &str) -> Result<String, ToolError> {
    Ok(DisplayName::parse_change(title, current, "title")?.0)
}

/// Checks the number of channels.
///
/// # Errors
/// `Invalid`.
pub(super) fn check_channels(channels: Option<&[ChannelId]>) -> Result<(), ToolError> {
    match channels {
        Some([]) => Err(invalid(
            "the list of channels is empty: add at least one, or use null for all",
            "channel_ids",
        )),
        Some(channels) if channels.len() > CHANNELS_MAX => {
            let problem = format!("at most {CHANNELS_MAX} channels are allowed");
            Err(invalid(&problem, "channel_ids"))
        }
        _ => Ok(()),
    }
}

/// Checks everything about the settings that does not depend on the network, and normalizes the URL.
///
/// # Errors
/// `Invalid`.
pub(super) fn parse_config(
    kind: RegisteredToolKind,
    config: ToolConfig,
) -> Result<ToolConfig, ToolError> {
    if config.kind() != kind {
        let problem = match kind {
            RegisteredToolKind::Mcp => "a server needs `url` or `stdio`",
            RegisteredToolKind::Function => {
                "a function can only have `description`, `parameters`, and `strict`"
            }
        };
        return Err(invalid(problem, "config"));
    }
    match config {
        ToolConfig::Remote(remote) => parse_remote(remote).map(ToolConfig::Remote),
        ToolConfig::Process(process) => {
            if !(1..=STDIO_CHARS_MAX).contains(&process.stdio.chars().count()) {
                let problem =
                    format!("the name of the process must have 1 to {STDIO_CHARS_MAX} characters");
                return Err(invalid(&problem, "config.stdio"));
            }
            Ok(ToolConfig::Process(process))
        }
        ToolConfig::Function(function) => {
            check_function(&function)?;
            Ok(ToolConfig::Function(function))
        }
    }
}

fn parse_remote(mut remote: RemoteConfig) -> Result<RemoteConfig, ToolError> {
    let url = parse_url(&remote.url)?;
    remote.url = url.to_string();
    remote.header = match (remote.auth, remote.header) {
        (AuthKind::Header, Some(header)) => Some(parse_header(&header)?.to_string()),
        (AuthKind::Header, None) => {
            return Err(invalid(
                "the name of the header is missing",
                "config.header",
            ));
        }
        (AuthKind::None | AuthKind::Bearer, Some(_)) => {
            let problem = "a header is used only with `auth: header`";
            return Err(invalid(problem, "config.header"));
        }
        (AuthKind::None | AuthKind::Bearer, None) => None,
    };
    Ok(remote)
}

/// Parses the URL of a server.
///
/// # Errors
/// `Invalid` for schemes other than http and https, and for a user name or password, which would be visible.
pub(super) fn parse_url(text: &str) -> Result<Url, ToolError> {
    let param = "config.url";
    if text.encode_utf16().count() > URL_UNITS_MAX {
        let problem = format!("the address has more than {URL_UNITS_MAX} characters");
        return Err(invalid(&problem, param));
    }
    let url = Url::parse(text.trim()).ok();
    let url = url.filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    let mut url =
        url.ok_or_else(|| invalid("the address must begin with https:// or http://", param))?;
    if !url.username().is_empty() || url.password().is_some() {
        let problem = "the address must not contain a user name or password: store a secret";
        return Err(invalid(problem, param));
    }
    url.set_fragment(None);
    Ok(url)
}

/// Parses the name of the header for the secret.
///
/// # Errors
/// `Invalid`.
pub(super) fn parse_header(text: &str) -> Result<HeaderName, ToolError> {
    let header = HeaderName::try_from(text.trim()).ok();
    header
        .filter(|name| name.as_str().len() <= HEADER_CHARS_MAX && mcp::can_be_credential(name))
        .ok_or_else(|| {
            let problem = format!(
                "the header must have 1 to {HEADER_CHARS_MAX} letters, digits, or `-`, and must not be a standard header: use, for example, X-Api-Key"
            );
            invalid(&problem, "config.header")
        })
}

fn check_function(function: &FunctionConfig) -> Result<(), ToolError> {
    let description = function.description.as_deref().unwrap_or_default();
    if description.encode_utf16().count() > DESCRIPTION_UNITS_MAX {
        let problem =
            format!("the description can have at most {DESCRIPTION_UNITS_MAX} characters");
        return Err(invalid(&problem, "config.description"));
    }
    let parameters = serde_json::to_vec(&function.parameters).map_or(0, |json| json.len());
    if parameters > PARAMETERS_BYTES_MAX {
        let kib = PARAMETERS_BYTES_MAX / 1024;
        let problem = format!("the parameters can have at most {kib} KiB");
        return Err(invalid(&problem, "config.parameters"));
    }
    Ok(())
}

/// Returns the trimmed secret.
///
/// # Errors
/// `Invalid`.
pub(super) fn parse_secret(form: &SecretForm) -> Result<String, ToolError> {
    let secret = form.value.trim();
    let is_line = secret.chars().all(|c| c.is_ascii_graphic() || c == ' ');
    if secret.is_empty() || secret.len() > SECRET_BYTES_MAX || !is_line {
        let kib = SECRET_BYTES_MAX / 1024;
        let problem =
            format!("the secret must be ASCII text in one line and have at most {kib} KiB");
        return Err(invalid(&problem, "value"));
    }
    Ok(secret.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn remote(config: serde_json::Value) -> Result<ToolConfig, ToolError> {
        let config = serde_json::from_value(config).unwrap();
        parse_config(RegisteredToolKind::Mcp, config)
    }

    #[test]
    fn names_are_short_labels() {
        for name in ["a", "jira", "4u", "my-server_2", &"x".repeat(24)] {
            assert!(check_name(name).is_ok(), "{name}");
        }
        for name in ["", "-a", "_a", "Jira", "jira!", "größe", &"x".repeat(25)] {
            assert!(check_name(name).is_err(), "{name}");
        }
    }

    #[test]
    fn settings_fit_their_kind() {
        let url = "https://mcp.example.com/mcp";
        assert!(remote(json!({"url": url})).is_ok());
        assert!(remote(json!({"url": url, "auth": "header", "header": "X-Api-Key"})).is_ok());
        for (config, param) in [
            (json!({"url": "ftp://mcp.example.com"}), "config.url"),
            (json!({"url": "mcp.example.com"}), "config.url"),
            (
                json!({"url": "https://user:pass@mcp.example.com"}),
                "config.url",
            ),
            (json!({"url": url, "auth": "header"}), "config.header"),
            (json!({"url": url, "header": "X-Api-Key"}), "config.header"),
            (
                json!({"url": url, "auth": "header", "header": "Host"}),
                "config.header",
            ),
            (
                json!({"url": url, "auth": "header", "header": "a b"}),
                "config.header",
            ),
            (json!({"stdio": ""}), "config.stdio"),
            (json!({"description": "A function"}), "config"),
        ] {
            match remote(config.clone()) {
                Err(ToolError::Invalid(_, field)) => assert_eq!(field, param, "{config}"),
                other => panic!("{config}: {other:?}"),
            }
        }
        let function = json!({"parameters": {"x": "y".repeat(PARAMETERS_BYTES_MAX)}});
        let function = serde_json::from_value(function).unwrap();
        assert!(parse_config(RegisteredToolKind::Function, function).is_err());
    }

    #[test]
    fn a_secret_is_one_line() {
        let parse = |value: &str| {
            parse_secret(&SecretForm {
                value: value.to_owned(),
            })
        };
        assert_eq!(parse(" sk-flamingo\n").unwrap(), "sk-flamingo");
        for value in [
            "",
            "  ",
            "a\nb",
            "schlüssel",
            &"x".repeat(SECRET_BYTES_MAX + 1),
        ] {
            assert!(parse(value).is_err());
        }
    }
}
