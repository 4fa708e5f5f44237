//! Fetches files that an archive only links to, from the hosts of its source.

use std::{sync::Arc, time::Duration};

use futures::StreamExt;
use reqwest::header::{CONTENT_TYPE, RETRY_AFTER};
use tokio_util::sync::CancellationToken;

use super::{
    message::{NewImportedFile, publish},
    options::ImportFormat,
    record::SourceFile,
};
use crate::{
    files::Blobs,
    outbound::{Exemption, Gate, LocalAddresses, OwnServer, Rules, Url, is_in_domain},
};

/// Number of files that are fetched at once.
pub(super) const FETCHED_AT_ONCE: usize = 4;
/// Number of attempts for a file.
const TRIES: usize = 3;
const CONNECT_WITHIN: Duration = Duration::from_secs(10);
/// Maximum time until the next bytes.
const READ_WITHIN: Duration = Duration::from_secs(30);
/// Time until the next attempt, if the source does not state one.
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_mins(1);

/// Hosts of a source; subdomains belong to it too.
fn hosts_of(format: ImportFormat) -> &'static [&'static str] {
    match format {
        ImportFormat::Slack => &["slack.com", "slack-files.com", "slack-edge.com"],
        // Its files are in the archive.
        ImportFormat::Mattermost
        | ImportFormat::Zulip
        | ImportFormat::Discord
        | ImportFormat::Chats
        | ImportFormat::OpenVibe => &[],
    }
}

/// Reason why a file was not fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FetchFault {
    /// The address does not belong to the source, or is not permitted.
    Foreign,
    TooLarge,
    /// The source has no such file, or sent a page instead of it.
    Refused,
    Unreachable,
    /// The server stops.
    Stopped,
}

impl FetchFault {
    pub(super) fn reason(self) -> &'static str {
        match self {
            Self::Foreign => {
                "not in the archive, and not at an address of the source: it is a link"
            }
            Self::TooLarge => "larger than the upload limit: it is a link",
            Self::Refused => "the source did not send it: it is a link",
            Self::Unreachable | Self::Stopped => "the source could not be reached: it is a link",
        }
    }
}

/// Failure of an attempt.
enum Failure {
    Final(FetchFault),
    /// The source may answer after this time.
    Later(Duration),
}

/// The hosts from which files are fetched.
#[derive(Clone)]
pub struct SourceHosts(Arc<Rules>);

impl SourceHosts {
    /// `exempt` hosts belong to each source, and can be local and use http.
    pub fn new(exempt: Vec<Exemption>, own: OwnServer) -> Self {
        Self(Arc::new(Rules {
            exempt,
            own,
            ports: None,
        }))
    }

    fn is_of_source(&self, format: ImportFormat, url: &Url) -> bool {
        let host = url.host_str().unwrap_or_default().trim_end_matches('.');
        let mut hosts = hosts_of(format).iter();
        let is_own = url.scheme() == "https" && hosts.any(|domain| is_in_domain(host, domain));
        is_own || self.0.exempt.iter().any(|exempt| exempt.names(url))
    }

    /// Fetches a file and stores its bytes.
    pub(super) async fn fetch(
        &self,
        format: ImportFormat,
        file: &SourceFile,
        blobs: &Blobs,
        bytes_max: u64,
        shutdown: &CancellationToken,
    ) -> Result<NewImportedFile, FetchFault> {
        let url = file
            .fetch_url
            .as_deref()
            .and_then(|url| Url::parse(url).ok());
        let url = url.filter(|url| self.is_of_source(format, url));
        let url = url.ok_or(FetchFault::Foreign)?;
        let mut failed = FetchFault::Unreachable;
        for n in 0..TRIES {
            let attempt = self.attempt(&url, file, blobs, bytes_max);
            let pause = match shutdown.run_until_cancelled(attempt).await {
                None => return Err(FetchFault::Stopped),
                Some(Ok(fetched)) => return Ok(fetched),
                Some(Err(Failure::Final(fault))) => return Err(fault),
                Some(Err(Failure::Later(pause))) => pause,
            };
            if n + 1 < TRIES {
                let pause = tokio::time::sleep(pause);
                if shutdown.run_until_cancelled(pause).await.is_none() {
                    failed = FetchFault::Stopped;
                    break;
                }
            }
        }
        Err(failed)
    }

    async fn attempt(
        &self,
        url: &Url,
        file: &SourceFile,
        blobs: &Blobs,
        bytes_max: u64,
    ) -> Result<NewImportedFile, Failure> {
        let foreign = || Failure::Final(FetchFault::Foreign);
        let gate = Gate::new(&self.0, LocalAddresses::Forbidden, url).ok_or_else(foreign)?;
        gate.check_literal().map_err(|_| foreign())?;
        let client = gate
            .client_builder()
            .connect_timeout(CONNECT_WITHIN)
            .read_timeout(READ_WITHIN)
            .build()
            .map_err(|_| foreign())?;
        let sent = client.get(url.clone()).send().await;
        let response = sent.map_err(|_| Failure::Later(PAUSE))?;
        let status = response.status().as_u16();
        if status == 429 || status >= 500 {
            let wait = response.headers().get(RETRY_AFTER);
            let wait = wait.and_then(|wait| wait.to_str().ok()?.trim().parse().ok());
            let wait = wait.map_or(PAUSE, Duration::from_secs).min(PAUSE_MAX);
            return Err(Failure::Later(wait));
        }
        let kind = response.headers().get(CONTENT_TYPE);
        let is_page = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/html"));
        // Slack sends a page for signing in instead of a file, with status 200.
        let wants_page = file.name.to_lowercase().ends_with(".html");
        if status != 200 || (is_page && !wants_page) {
            return Err(Failure::Final(FetchFault::Refused));
        }
        let mut bytes = response.bytes_stream();
        let mut len = 0_u64;
        let mut incoming = blobs.begin(None).await.map_err(|_| Failure::Later(PAUSE))?;
        while let Some(part) = bytes.next().await {
            let part = part.map_err(|_| Failure::Later(PAUSE))?;
            len += part.len() as u64;
            if len > bytes_max {
                return Err(Failure::Final(FetchFault::TooLarge));
            }
            let written = incoming.write(&part).await;
            written.map_err(|_| Failure::Later(PAUSE))?;
        }
        if len == 0 {
            return Err(Failure::Final(FetchFault::Refused));
        }
        let stored = publish(blobs, incoming, &file.name).await;
        stored.map_err(|_| Failure::Later(PAUSE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_hosts_of_the_source_are_asked() {
        let own = OwnServer::new("127.0.0.1:8080".parse().unwrap(), "https://chat.example");
        let exempt = Exemption::parse_list("127.0.0.1:9000").unwrap();
        let hosts = SourceHosts::new(exempt, own);
        for (url, expected) in [
            ("https://files.slack.com/a", true),
            ("https://slack.com/a", true),
            ("http://files.slack.com/a", false),
            ("https://badslack.com/a", false),
            ("https://files.slack.com.evil.example/a", false),
            ("https://files.slack.com@evil.example/a", false),
            ("http://127.0.0.1:9000/a", true),
            ("http://127.0.0.1:9001/a", false),
        ] {
            let url = Url::parse(url).unwrap();
            assert_eq!(
                hosts.is_of_source(ImportFormat::Slack, &url),
                expected,
                "{url}"
            );
        }
    }
}
