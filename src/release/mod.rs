//! Published versions of the program: their list of files, its signature, and how they are downloaded. `make release` makes them;
//! `openvibe update` and `install.sh` read them.
//!
//! A release is a directory, local or behind a URL. `SHA256SUMS` has the hash of every file in it, and `SHA256SUMS.sig` is the signature
//! of that list, so that nothing of a release is used before both were checked.

mod files;
mod latest;
mod signature;
mod version;

pub use files::{Release, Source};
pub use latest::Latest;
pub use version::{CURRENT, Version};

use std::path::Path;

use crate::text_enum::text_enum;

/// Paths of the program in images: that of `make release`, and that of the `Dockerfile`.
const IMAGE_PATHS: [&str; 2] = ["/openvibe", "/usr/local/bin/openvibe"];

/// Address of releases that was compiled in.
const ADDRESS: Option<&str> = option_env!("OPENVIBE_RELEASES");

/// URL or directory of releases: the setting, or else the compiled-in address.
pub fn address(setting: Option<&str>) -> Option<&str> {
    setting.or(ADDRESS)
}

text_enum! {
    /// Origin of the running program.
    pub enum InstallKind {
        Binary = "binary",
        Deb = "deb",
        Image = "image",
        Source = "source",
    }
}

impl InstallKind {
    pub fn of_this_program() -> Self {
        let path = std::env::current_exe().unwrap_or_default();
        let is_contained =
            Path::new("/.dockerenv").exists() || std::env::var_os("container").is_some();
        if path.starts_with("/usr/bin") {
            Self::Deb
        } else if path.components().any(|part| part.as_os_str() == "target") {
            Self::Source
        } else if is_contained && IMAGE_PATHS.map(Path::new).contains(&path.as_path()) {
            Self::Image
        } else {
            Self::Binary
        }
    }
}
