//! Checked files of a release.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, bail, ensure};
use sha2::{Digest, Sha256};

use super::{latest::Latest, signature::is_signed, version::Version};
use crate::trust;

/// Keys that sign releases.
const PUBLIC_KEYS: &str = include_str!("../../deploy/release/release.pub");

/// Maximum size of a description, list, or signature, in bytes.
const TEXT_BYTES_MAX: u64 = 1 << 20;
/// Maximum size of a program or package, in bytes.
const FILE_BYTES_MAX: u64 = 512 << 20;
const CONNECT_WITHIN: Duration = Duration::from_secs(10);
/// Maximum pause between two parts of a download.
const READ_WITHIN: Duration = Duration::from_secs(30);
/// Hosts of releases usually redirect to their store of files.
const REDIRECTS_MAX: usize = 5;

/// `PUBLIC_KEYS`; in debug builds, tests can set them with `OPENVIBE_RELEASE_KEYS`.
#[cfg(test_hooks)]
fn public_keys() -> String {
    std::env::var("OPENVIBE_RELEASE_KEYS").unwrap_or_else(|_| PUBLIC_KEYS.to_owned())
}

#[cfg(not(test_hooks))]
fn public_keys() -> String {
    PUBLIC_KEYS.to_owned()
}

/// A directory with the files of a release.
#[derive(Debug, Clone)]
pub enum Source {
    Directory(PathBuf),
    /// Without a trailing slash.
    Url(String, reqwest::Client),
}

impl Source {
    /// Parses a URL or the path of a directory.
    ///
    /// # Errors
    /// If no client for HTTPS can be created.
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        if !text.starts_with("https://") && !text.starts_with("http://") {
            return Ok(Self::Directory(text.into()));
        }
        let client = trust::client_builder()
            .user_agent(concat!("openvibe/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT_WITHIN)
            .read_timeout(READ_WITHIN)
            .redirect(reqwest::redirect::Policy::limited(REDIRECTS_MAX))
            .build()?;
        Ok(Self::Url(text.trim_end_matches('/').to_owned(), client))
    }

    /// The directory of one version below this one.
    #[must_use]
    pub fn of_version(&self, version: Version) -> Self {
        match self {
            Self::Directory(path) => Self::Directory(path.join(version.to_string())),
            Self::Url(url, client) => Self::Url(format!("{url}/{version}"), client.clone()),
        }
    }

    /// Passes each part of a file to `take`.
    async fn read(
        &self,
        name: &str,
        bytes_max: u64,
        mut take: impl FnMut(&[u8]) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let too_large = || format!("{name} is larger than {bytes_max} bytes");
        match self {
            Self::Directory(path) => {
                let path = path.join(name);
                let bytes =
                    fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
                ensure!(bytes.len() as u64 <= bytes_max, too_large());
                take(&bytes)
            }
            Self::Url(url, client) => {
                let url = format!("{url}/{name}");
                let response = client.get(&url).send().await;
                let mut response = response
                    .and_then(reqwest::Response::error_for_status)
                    .with_context(|| format!("cannot download {url}"))?;
                let mut size = 0;
                while let Some(part) = response
                    .chunk()
                    .await
                    .with_context(|| format!("cannot download {url}"))?
                {
                    size += part.len() as u64;
                    ensure!(size <= bytes_max, too_large());
                    take(&part)?;
                }
                Ok(())
            }
        }
    }

    async fn read_text(&self, name: &str) -> anyhow::Result<String> {
        let mut bytes = Vec::new();
        let take = |part: &[u8]| {
            bytes.extend_from_slice(part);
            Ok(())
        };
        self.read(name, TEXT_BYTES_MAX, take).await?;
        String::from_utf8(bytes).with_context(|| format!("{name} is not a text"))
    }
}

/// A release with a valid signature.
#[derive(Debug)]
pub struct Release {
    source: Source,
    /// Lines of `SHA256SUMS`.
    sums: String,
    pub latest: Latest,
}

impl Release {
    /// Reads the description of a release and checks its signature.
    ///
    /// # Errors
    /// If a file is missing or was changed, or if no known key signed the release.
    pub async fn open(source: Source) -> anyhow::Result<Self> {
        let sums = source.read_text("SHA256SUMS").await?;
        let keys = public_keys();
        ensure!(
            keys.lines().any(|line| line.starts_with("ssh-")),
            "this program knows no key that signs releases: it was built without one, so install updates as you installed it"
        );
        let signature = source.read_text("SHA256SUMS.sig").await;
        let signature = signature.context("the release is not signed")?;
        ensure!(
            is_signed(sums.as_bytes(), &signature, &keys),
            "the signature of the release is wrong: nothing was changed; report this to the address from which the release came"
        );
        let text = source.read_text("latest.json").await?;
        check(&sums, "latest.json", &hex::encode(Sha256::digest(&text)))?;
        let latest = serde_json::from_str(&text)
            .context("latest.json is not the description of a release")?;
        Ok(Self {
            source,
            sums,
            latest,
        })
    }

    /// Downloads a file of the release, and checks it.
    ///
    /// # Errors
    /// If the file is missing or was changed. In that case, `to` does not exist.
    pub async fn fetch(&self, name: &str, to: &Path) -> anyhow::Result<()> {
        let done = self.fetch_unchecked(name, to).await;
        let done = done.and_then(|hash| check(&self.sums, name, &hash));
        if done.is_err() {
            drop(fs::remove_file(to));
        }
        done
    }

    /// Returns the hash of the file.
    async fn fetch_unchecked(&self, name: &str, to: &Path) -> anyhow::Result<String> {
        let cannot_write = || format!("cannot write {}", to.display());
        let mut file = fs::File::create(to).with_context(cannot_write)?;
        let mut hash = Sha256::new();
        let take = |part: &[u8]| {
            hash.update(part);
            file.write_all(part).with_context(cannot_write)
        };
        self.source.read(name, FILE_BYTES_MAX, take).await?;
        file.sync_all().with_context(cannot_write)?;
        Ok(hex::encode(hash.finalize()))
    }
}

/// # Errors
/// If the list has another hash for the file, or none.
fn check(sums: &str, name: &str, hash: &str) -> anyhow::Result<()> {
    let mut lines = sums.lines().filter_map(|line| line.split_once("  "));
    let Some((listed, _)) = lines.find(|(_, listed)| *listed == name) else {
        bail!("the release has no {name}");
    };
    ensure!(
        listed == hash,
        "{name} is not the file that was released: its SHA-256 differs"
    );
    Ok(())
}
