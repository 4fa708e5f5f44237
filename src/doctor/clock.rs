//! Check `clock`.

use std::time::Duration;

use super::{finding::Finding, http, model, subject::CheckedServer};
use crate::{outbound::Url, time::Timestamp, tls_settings::TlsSource};

/// Difference from which sign-ins, certificates, and schedules suffer.
const SKEW_MAX: Duration = Duration::from_secs(30);
/// Directory of Let's Encrypt.
const LETS_ENCRYPT: &str = "https://acme-v02.api.letsencrypt.org/directory";

pub(super) async fn check(s: &CheckedServer) -> Finding {
    if let Err(finding) = s.require_running().and_then(|()| s.require_outgoing()) {
        return finding;
    }
    let asked = others(s).into_iter().map(|url| async move {
        let skew = skew_to(&url).await?;
        Some((url.host_str().unwrap_or_default().to_owned(), skew))
    });
    let known = futures::future::join_all(asked).await;
    let worst = known
        .into_iter()
        .flatten()
        .max_by_key(|(_, skew)| skew.apart);
    let Some((host, skew)) = worst else {
        return Finding::skipped("no other server states the time");
    };
    if skew.apart <= SKEW_MAX {
        return Finding::ok(format!("the same time as {host}"));
    }
    let direction = if skew.is_ahead { "ahead of" } else { "behind" };
    Finding::failed(
        format!(
            "this machine's clock is {} s {direction} that of {host}",
            skew.apart.as_secs()
        ),
        "synchronize the clock, for example with `timedatectl set-ntp true`",
    )
}

/// Servers that state the time in their responses.
fn others(s: &CheckedServer) -> Vec<Url> {
    let mut urls: Vec<Url> = s.url().into_iter().collect();
    urls.extend(model::server(&s.config).map(|server| server.base_url));
    if let Some(TlsSource::Acme(acme)) = s.config.tls.as_ref().map(|tls| &tls.source) {
        let default = || Url::parse(LETS_ENCRYPT).ok();
        urls.extend(acme.directory_url.clone().or_else(default));
    }
    urls
}

/// Difference between two clocks.
struct Skew {
    apart: Duration,
    /// True if the clock of this machine is ahead.
    is_ahead: bool,
}

async fn skew_to(url: &Url) -> Option<Skew> {
    let response = http::lenient_client().ok()?.head(url.clone()).send().await;
    let headers = response.ok()?.headers().clone();
    let date = headers.get(reqwest::header::DATE)?.to_str().ok()?;
    let date = httpdate::parse_http_date(date).ok()?;
    let theirs = Timestamp::within_years(date.into())?;
    let ours = Timestamp::now();
    Some(Skew {
        apart: ours.since(theirs).max(theirs.since(ours)),
        is_ahead: ours > theirs,
    })
}
