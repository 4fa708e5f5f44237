//! Version numbers.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// Version of this program.
pub const CURRENT: &str = env!("CARGO_PKG_VERSION");

/// Version of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Version {
    pub major: u32,
    pub minor: u32,
    pub patch: u32,
}

impl Version {
    /// Version of this program.
    pub fn current() -> Self {
        CURRENT
            .parse()
            .expect("the version in Cargo.toml has three numbers")
    }

    /// Formats the version, without the patch number if it is 0.
    pub fn short(self) -> String {
        match self {
            Self {
                major,
                minor,
                patch: 0,
            } => format!("{major}.{minor}"),
            _ => self.to_string(),
        }
    }

    /// Checks whether no minor version lies between the two, so that servers of both can share a database while they are updated.
    pub fn is_next_to(self, other: Self) -> bool {
        self.major == other.major && self.minor.abs_diff(other.minor) <= 1
    }
}

impl FromStr for Version {
    type Err = String;

    /// Parses a version such as `0.9.2`, optionally with a suffix as in `0.9.2-rc.1`.
    fn from_str(text: &str) -> Result<Self, String> {
        let invalid = || format!("`{text}` is not a version of OpenVibe, such as 1.4.0");
        let release = text.split(['-', '+']).next().unwrap_or_default();
        let mut parts = release.split('.').map(str::parse);
        let mut part = || parts.next().and_then(Result::ok).ok_or_else(invalid);
        Ok(Self {
            major: part()?,
            minor: part()?,
            patch: part()?,
        })
    }
}

impl TryFrom<String> for Version {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Version> for String {
    fn from(version: Version) -> Self {
        version.to_string()
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> Version {
        text.parse().unwrap()
    }

    #[test]
    fn versions_are_ordered_by_number() {
        assert!(version("1.10.0") > version("1.9.12"));
        assert!(version("2.0.0") > version("1.99.99"));
        assert!(version("1.0.0-rc.1") > version("0.99.0"));
        assert_eq!(Version::current().to_string(), CURRENT);
        assert_eq!(version("0.9.0").short(), "0.9");
        assert_eq!(version("0.9.2").short(), "0.9.2");
    }

    #[test]
    fn other_texts_are_no_versions() {
        for text in ["", "1", "1.2", "v1.2.3", "1.2.x", "1.2.99999999999"] {
            assert!(text.parse::<Version>().is_err(), "{text}");
        }
    }

    #[test]
    fn only_neighbors_are_next_to_each_other() {
        assert!(version("1.4.0").is_next_to(version("1.3.9")));
        assert!(version("1.4.0").is_next_to(version("1.4.2")));
        assert!(!version("1.4.0").is_next_to(version("1.2.0")));
        assert!(!version("2.0.0").is_next_to(version("1.0.0")));
    }
}
