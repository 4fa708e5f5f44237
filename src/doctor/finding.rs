//! Results of checks.

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};

use crate::text_enum::text_enum;

text_enum! {
    /// Subject of a check.
    pub enum CheckName {
        /// Unknown and contradicting settings, and secrets that others can read.
        Settings = "settings",
        /// Limit on open files.
        Limits = "limits",
        /// Data directory: owner, mode, free space, speed, kind of file system.
        Data = "data",
        Database = "database",
        /// Versions and settings of the servers that share the database.
        Nodes = "nodes",
        /// Clock of this machine, compared with others.
        Clock = "clock",
        /// Addresses of the server's names.
        Dns = "dns",
        /// Ports on which the server listens.
        Ports = "ports",
        /// The public URL leads to this server.
        Public = "public",
        /// Certificate of the public URL.
        Https = "https",
        /// Headers that a proxy has to send.
        Proxy = "proxy",
        /// Live connection through the public URL.
        Websocket = "websocket",
        /// Responses that are sent in parts.
        Stream = "stream",
        /// Size of uploads.
        Upload = "upload",
        /// The model server's list of models.
        Model = "model",
        /// Connection, encryption, and login of the mail server.
        Mail = "mail",
        /// Conditions under which devices get notifications.
        Push = "push",
        /// Addresses and keys that the identity providers publish, and failures of sign-ins with them.
        SignIn = "sign_in",
        /// Age and test of the newest backup, and its place.
        Backup = "backup",
    }
}

text_enum! {
    /// Result of a check.
    pub enum CheckState {
        Ok = "ok",
        Skipped = "skipped",
        Warning = "warning",
        Failed = "failed",
    }
}

/// A check and its result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Check {
    #[schema(inline)]
    pub name: CheckName,
    #[schema(inline)]
    pub state: CheckState,
    /// The fact.
    pub text: String,
    /// Remedy; null if nothing is wrong.
    pub hint: Option<String>,
    /// Duration of the check in milliseconds.
    pub ms: u64,
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<8}{}: {}", self.state, self.name, self.text)?;
        match &self.hint {
            Some(hint) => write!(f, ": {hint}"),
            None => Ok(()),
        }
    }
}

/// Result of a check before it has a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub state: CheckState,
    pub text: String,
    pub hint: Option<String>,
}

impl Finding {
    pub fn ok(text: impl Into<String>) -> Self {
        Self {
            state: CheckState::Ok,
            text: text.into(),
            hint: None,
        }
    }

    pub fn skipped(text: impl Into<String>) -> Self {
        Self {
            state: CheckState::Skipped,
            ..Self::ok(text)
        }
    }

    pub fn warning(text: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            state: CheckState::Warning,
            text: text.into(),
            hint: Some(hint.into()),
        }
    }

    pub fn failed(text: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            state: CheckState::Failed,
            ..Self::warning(text, hint)
        }
    }

    /// Combines several problems: the worst one comes first and determines the state. Without problems, the result is `ok`.
    pub(super) fn of(mut problems: Vec<Self>, ok: impl Into<String>) -> Self {
        problems.sort_by_key(|problem| std::cmp::Reverse(problem.state));
        let Some(worst) = problems.first() else {
            return Self::ok(ok);
        };
        let state = worst.state;
        let texts: Vec<&str> = problems
            .iter()
            .map(|problem| problem.text.as_str())
            .collect();
        let hints: Vec<&str> = problems
            .iter()
            .filter_map(|problem| problem.hint.as_deref())
            .collect();
        Self {
            state,
            text: texts.join("; "),
            hint: (!hints.is_empty()).then(|| hints.join("; ")),
        }
    }

    pub(super) fn named(self, name: CheckName, took: Duration) -> Check {
        Check {
            name,
            state: self.state,
            text: self.text,
            hint: self.hint,
            ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_of_several_problems_comes_first() {
        let found = Finding::of(
            vec![
                Finding::warning("a is odd", "change a"),
                Finding::failed("b is broken", "mend b"),
            ],
            "all is well",
        );
        let check = found.named(CheckName::Settings, Duration::from_millis(7));
        assert_eq!(
            check.to_string(),
            "failed  settings: b is broken; a is odd: mend b; change a"
        );
        let well = Finding::of(Vec::new(), "all is well").named(CheckName::Data, Duration::ZERO);
        assert_eq!(well.to_string(), "ok      data: all is well");
    }
}
