//! Sources of settings: a TOML file, a file of variables for a service, and the environment of the process.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
};

/// Prefix of the names of settings in the environment.
pub const PREFIX: &str = "OPENVIBE_";
/// Settings files that are used if `OPENVIBE_CONFIG` is not set: the first one that exists.
const FILES: [&str; 2] = ["openvibe.toml", "/etc/openvibe/openvibe.toml"];

/// Variables of commands, builds, and tests, which are not settings. Names omit the prefix.
const OTHERS: &[&str] = &["CONFIG", "API_KEY", "RUNNER_KEY", "WEB_DIST"];
#[cfg(test_hooks)]
const TEST_HOOKS: &[&str] = &[
    "FAILPOINT",
    "DISK_RESERVED_BYTES",
    "LEASE_MS",
    "RATES_STOPPED",
    "CLOCK_AHEAD_MS",
    "FREE_BYTES",
    "TEST_STATEMENTS",
    "TEST_NAME",
    "TEST_DATABASE",
    "RELEASE_KEYS",
    "INSTALL_ROOT",
];
#[cfg(not(test_hooks))]
const TEST_HOOKS: &[&str] = &[];

/// Names that other programs use for the listen address.
const LISTEN_NAMES: [&str; 6] = ["PORT", "HOST", "ADDRESS", "ADDR", "BIND", "HTTP_PORT"];

/// Variables by name.
pub type Variables = BTreeMap<String, String>;

/// Variables of the process. Variables that are not Unicode are left out.
pub fn of_process() -> Variables {
    let variables = std::env::vars_os().filter_map(|(name, value)| {
        let name = name.into_string().ok()?;
        Some((name, value.into_string().ok()?))
    });
    variables.collect()
}

/// Reads the file of `--env-file`.
///
/// # Errors
/// A sentence with the path.
pub fn read_env_file(path: &Path) -> Result<Variables, String> {
    let text = std::fs::read_to_string(path)
        .map_err(|e| format!("cannot read {}: {e}", path.display()))?;
    parse_env_file(&text).map_err(|e| format!("{}: {e}", path.display()))
}

/// Parses the form of systemd's `EnvironmentFile=`: `NAME=VALUE` lines, comments that begin with `#` or `;`, values in quotes, and
/// lines that a backslash continues.
fn parse_env_file(text: &str) -> Result<Variables, String> {
    let mut found = Variables::new();
    let mut lines = text.lines().enumerate();
    while let Some((n, line)) = lines.next() {
        let mut line = line.trim().to_owned();
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        while line.ends_with('\\') {
            line.pop();
            line.push_str(lines.next().map_or("", |(_, more)| more.trim_end()));
        }
        let entry = line.split_once('=');
        let Some((name, value)) = entry.filter(|(name, _)| is_name(name.trim())) else {
            return Err(format!("line {} is not NAME=VALUE", n + 1));
        };
        let value = unquoted(value.trim())
            .ok_or_else(|| format!("line {} has a quote that does not end", n + 1))?;
        found.insert(name.trim().to_owned(), value);
    }
    Ok(found)
}

fn is_name(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with(|c: char| c.is_ascii_digit())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// Removes quotes and escapes; `None` if a quote does not end.
fn unquoted(text: &str) -> Option<String> {
    let mut value = String::new();
    let mut quote = None;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (None, '"' | '\'') => quote = Some(c),
            (Some(open), c) if c == open => quote = None,
            (Some('"'), '\\') => match chars.next() {
                Some(escaped @ ('"' | '\\' | '`' | '$')) => value.push(escaped),
                other => {
                    value.push('\\');
                    value.extend(other);
                }
            },
            (None, '\\') => value.extend(chars.next()),
            (_, c) => value.push(c),
        }
    }
    quote.is_none().then_some(value)
}

/// Text of the settings file, and its path; `None` if there is none.
///
/// # Errors
/// A sentence with the path.
pub fn settings_file(variables: &Variables) -> Result<Option<(PathBuf, String)>, String> {
    let named = variables
        .get("OPENVIBE_CONFIG")
        .filter(|path| !path.trim().is_empty());
    if let Some(path) = named {
        let text = std::fs::read_to_string(path)
            .map_err(|e| format!("OPENVIBE_CONFIG: cannot read {path}: {e}"))?;
        return Ok(Some((path.into(), text)));
    }
    for path in FILES {
        match std::fs::read_to_string(path) {
            Ok(text) => return Ok(Some((path.into(), text))),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            // This user cannot enter the current directory, such as the home of root.
            Err(_) if Path::new(path).is_relative() && Path::new(path).try_exists().is_err() => {}
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
                return Err(format!(
                    "cannot read {path}: {e}: run the command as root, or name another file in OPENVIBE_CONFIG"
                ));
            }
            Err(e) => return Err(format!("cannot read {path}: {e}")),
        }
    }
    Ok(None)
}

/// Warnings about variables with our prefix that are not settings. `settings` are the known names without the prefix.
pub fn warn_of_unknown(variables: &Variables, settings: &[&str]) -> Vec<String> {
    let unknown = variables.iter().filter_map(|(name, value)| {
        let short = name.strip_prefix(PREFIX)?;
        let is_known = [settings, OTHERS, TEST_HOOKS]
            .iter()
            .any(|known| known.contains(&short));
        let is_of_backup = short.starts_with("BACKUP_AWS_");
        (!is_known && !is_of_backup && !is_of_kubernetes(short, value)).then_some(short)
    });
    unknown
        .map(|short| format!("{PREFIX}{short} is not a setting{}", hint(short, settings)))
        .collect()
}

/// Checks whether Kubernetes made a variable for a service whose name begins like ours.
fn is_of_kubernetes(short: &str, value: &str) -> bool {
    let is_address = ["tcp://", "udp://"]
        .iter()
        .any(|scheme| value.starts_with(scheme));
    let is_of_port = short.split("PORT_").skip(1).any(|rest| {
        let protocol = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        protocol.len() < rest.len()
            && (protocol.starts_with("_TCP") || protocol.starts_with("_UDP"))
    });
    is_address || is_of_port || short.contains("SERVICE_HOST") || short.contains("SERVICE_PORT")
}

/// Completes a message about an unknown setting with the probable name.
pub fn hint(unknown: &str, settings: &[&str]) -> String {
    if LISTEN_NAMES.contains(&unknown) {
        return ": use OPENVIBE_LISTEN".to_owned();
    }
    let nearest = settings
        .iter()
        .map(|known| (distance(unknown, known), known))
        .min();
    match nearest {
        Some((distance, known)) if distance <= 3 && distance * 3 <= known.len() => {
            format!(": did you mean {PREFIX}{known}?")
        }
        _ => ": check the spelling, or see docs/operations.md".to_owned(),
    }
}

/// Number of characters to insert, delete, or replace to turn one name into the other (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = i;
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
        let mut left = i + 1;
        for (cell, y) in row.iter_mut().skip(1).zip(b.bytes()) {
            let replaced = diagonal + usize::from(x != y);
            diagonal = *cell;
            *cell = replaced.min(diagonal + 1).min(left + 1);
            left = *cell;
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: &[&str] = &["LISTEN", "PUBLIC_URL", "MODEL", "WORKERS"];

    fn warned(name: &str, value: &str) -> Vec<String> {
        let variables = [(name.to_owned(), value.to_owned())].into();
        warn_of_unknown(&variables, SETTINGS)
    }

    #[test]
    fn an_unknown_setting_is_named_with_the_nearest_one() {
        for (name, warning) in [
            (
                "OPENVIBE_PUBLIC_ULR",
                "OPENVIBE_PUBLIC_ULR is not a setting: did you mean OPENVIBE_PUBLIC_URL?",
            ),
            (
                "OPENVIBE_WORKER",
                "OPENVIBE_WORKER is not a setting: did you mean OPENVIBE_WORKERS?",
            ),
            (
                "OPENVIBE_PORT",
                "OPENVIBE_PORT is not a setting: use OPENVIBE_LISTEN",
            ),
            (
                "OPENVIBE_COLOR_SCHEME",
                "OPENVIBE_COLOR_SCHEME is not a setting: check the spelling, or see docs/operations.md",
            ),
        ] {
            assert_eq!(warned(name, "99"), [warning]);
        }
    }

    #[test]
    fn settings_and_variables_of_kubernetes_are_not_unknown() {
        for (name, value) in [
            ("OPENVIBE_LISTEN", "0.0.0.0:8080"),
            ("OPENVIBE_CONFIG", "/etc/openvibe.toml"),
            ("OPENVIBE_RUNNER_KEY", "ovr_1"),
            ("OPENVIBE_PORT", "tcp://10.0.0.1:8080"),
            ("OPENVIBE_PORT_8080_TCP", "tcp://10.0.0.1:8080"),
            ("OPENVIBE_PORT_8080_TCP_ADDR", "10.0.0.1"),
            ("OPENVIBE_SERVICE_HOST", "10.0.0.1"),
            ("OPENVIBE_SERVICE_PORT_HTTP", "8080"),
            ("OPENVIBE_DB_SERVICE_HOST", "10.0.0.2"),
            ("PATH", "/bin"),
        ] {
            assert!(warned(name, value).is_empty(), "{name}");
        }
    }

    #[test]
    fn a_file_of_variables_has_the_form_of_systemd() {
        let text = "# comment with a key=value\n; another\n\nOPENVIBE_LISTEN=127.0.0.1:8080\n  A = plain text # kept \n\
                    B=\"two words\"\nC='it''s \\n'\nD=\"a \\\"quote\\\" \\\\\"\nE=one\\\ntwo\nF=\n";
        let found = parse_env_file(text).unwrap();
        for (name, value) in [
            ("OPENVIBE_LISTEN", "127.0.0.1:8080"),
            ("A", "plain text # kept"),
            ("B", "two words"),
            ("C", "its \\n"),
            ("D", "a \"quote\" \\"),
            ("E", "onetwo"),
            ("F", ""),
        ] {
            assert_eq!(found.get(name).map(String::as_str), Some(value), "{name}");
        }
        assert_eq!(found.len(), 7);
        for (text, error) in [
            ("A=1\nexport B", "line 2 is not NAME=VALUE"),
            ("1A=1", "line 1 is not NAME=VALUE"),
            ("A=\"1", "line 1 has a quote that does not end"),
        ] {
            assert_eq!(parse_env_file(text).unwrap_err(), error);
        }
    }
}
