//! Valid paths of agent files.

use super::{HEARTBEAT, IDENTITY, MEMORY, SHARED, SOUL, log_date};
use crate::agents::AgentError;

const PATH_BYTES_MAX: usize = 200;
const PARTS_MAX: usize = 8;

/// A relative path such as `AGENTS.md` or `memory/2026-11-20.md`, with segments of `[A-Za-z0-9._-]`.
#[derive(Debug, Clone, PartialEq, Eq, utoipa::ToSchema)]
#[schema(value_type = String, example = "AGENTS.md")]
pub struct FilePath(String);

impl FilePath {
    /// # Errors
    /// `InvalidPath`, or `FileRefused` for USER.md.
    pub fn parse(text: &str) -> Result<Self, AgentError> {
        let part_fits = |part: &str| {
            !part.is_empty()
                && part != "."
                && part != ".."
                && part
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
        };
        let parts: Vec<&str> = text.split('/').collect();
        if text.len() > PATH_BYTES_MAX
            || parts.len() > PARTS_MAX
            || !parts.into_iter().all(part_fits)
        {
            let shown = text.chars().take(80).collect();
            return Err(AgentError::InvalidPath(shown));
        }
        if text.eq_ignore_ascii_case("USER.md") {
            return Err(AgentError::FileRefused(
                text.to_owned(),
                "this file belongs to a user, not to an agent",
            ));
        }
        // On a case-insensitive file system, one of two names that differ only in case would be lost.
        let known = [SOUL, IDENTITY, MEMORY, HEARTBEAT, SHARED[0], SHARED[1]];
        if known
            .iter()
            .any(|name| text.eq_ignore_ascii_case(name) && text != *name)
        {
            return Err(AgentError::FileRefused(
                text.to_owned(),
                "the standard files must be written exactly as SOUL.md, IDENTITY.md, MEMORY.md, HEARTBEAT.md, AGENTS.md, and TOOLS.md",
            ));
        }
        Ok(Self(text.to_owned()))
    }

    /// Checks whether an agent can have a file with this path; returns the reason if not.
    ///
    /// # Errors
    /// `InvalidPath`, `FileRefused`, or `InvalidLogDate`.
    pub fn check(text: &str) -> Result<(), AgentError> {
        Self::parse(text)?.check_date()
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(super) fn is_shared(&self) -> bool {
        SHARED.contains(&self.0.as_str())
    }

    /// Checks the date of a log. Files that were stored under another path in `memory` can still be read and deleted.
    ///
    /// # Errors
    /// `InvalidLogDate`.
    pub(super) fn check_date(&self) -> Result<(), AgentError> {
        if self.0.starts_with("memory/") && log_date(&self.0).is_none() {
            return Err(AgentError::InvalidLogDate(self.0.clone()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::FilePath;

    #[test]
    fn only_relative_paths_of_plain_segments_are_accepted() {
        for good in ["MEMORY.md", "memory/2026-11-20.md", "a/b/c-d_e.txt", "..."] {
            assert!(FilePath::parse(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "/etc/passwd",
            "../SOUL.md",
            "memory/..",
            "a//b",
            "a/",
            "./a",
            "a\\b",
            "a b",
            "ü.md",
            "a/b/c/d/e/f/g/h/i",
            "C:/x",
            "%2e%2e/x",
            "USER.md",
            "soul.md",
            "heartbeat.md",
            "user.MD",
        ] {
            assert!(FilePath::parse(bad).is_err(), "{bad}");
        }
        assert!(FilePath::parse(&"x".repeat(201)).is_err());
    }

    #[test]
    fn a_log_is_named_by_a_real_date() {
        let check = |path: &str| FilePath::parse(path).unwrap().check_date().is_ok();
        for good in ["memory/2026-11-20.md", "memory/2028-02-29.md", "notes/x.md"] {
            assert!(check(good), "{good}");
        }
        for bad in [
            "memory/2026-02-29.md",
            "memory/2026-13-01.md",
            "memory/2026-1-20.md",
            "memory/2026-11-20",
            "memory/x/2026-11-20.md",
            "memory/plans.md",
        ] {
            assert!(!check(bad), "{bad}");
        }
    }
}
