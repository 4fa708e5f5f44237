//! Web pages that agents read: one GET over a guarded connection.
//!
//! Every address, including that of a redirect, is checked when its name is resolved (see `outbound`). Nothing
//! identifies the workspace to the web server: requests have no cookies, credentials, or referrer, and use no proxy.

mod download;
mod media;

use std::{sync::Arc, time::Duration};

use reqwest::{
    Response, StatusCode, Url,
    header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION},
};
use tokio::sync::Semaphore;

pub use download::{Download, PageVersion};

use crate::{
    blocking::blocking,
    outbound::{Denied, Exemption, Gate, LocalAddresses, OwnServer, Rules},
    tool_fault::{ToolErrorCode, ToolFault},
};

/// Maximum length of a URL in UTF-16 code units.
pub const URL_UNITS_MAX: usize = 2048;
/// Maximum size of the text that one call returns, in UTF-8 bytes; leaves room for a heading in a result of 32 KiB.
pub const TEXT_BYTES_MAX: usize = 31 * 1024;
/// Maximum size of a page; the rest is not read.
const PAGE_BYTES_MAX: usize = 2 << 20;
/// Time limit of a call, including redirects.
const FETCH_WITHIN: Duration = Duration::from_secs(10);
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
const REDIRECTS_MAX: usize = 3;
/// Formats that are read as text.
const ACCEPTED: &str =
    "text/html, text/plain, text/*;q=0.9, application/json;q=0.9, application/xml;q=0.9";
const PORTS: &[u16] = &[80, 443];
/// Maximum number of concurrent conversions of HTML.
const CONVERSIONS_MAX: usize = 1;

/// Part of a page as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// Address after redirects.
    pub url: String,
    pub text: String,
    /// Start of the part in the text of the page, in UTF-8 bytes.
    pub offset: usize,
    /// Start of the next part; `None` for the last part.
    pub next_offset: Option<usize>,
}

/// Reads web pages.
#[derive(Debug)]
pub struct Fetcher {
    rules: Arc<Rules>,
    conversions: Arc<Semaphore>,
}

/// Format of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Html,
    Text,
}

/// A page before its conversion to text.
struct Fetched {
    url: Url,
    format: Format,
    text: String,
}

impl Fetcher {
    /// `exempt` addresses can also be local, use http, and have any port.
    pub fn new(exempt: Vec<Exemption>, own: OwnServer) -> Self {
        Self {
            rules: Arc::new(Rules {
                exempt,
                own,
                ports: Some(PORTS),
            }),
            conversions: Arc::new(Semaphore::new(CONVERSIONS_MAX)),
        }
    }

    /// Reads a page and returns its text, starting at `offset` in UTF-8 bytes.
    ///
    /// # Errors
    /// `BadArguments` for an invalid URL, `NotAllowed` for a forbidden address, `ToolUnreachable`, `ToolTimeout`, `ToolFailed` for a
    /// status other than 2xx, `Unreadable` for a page without text.
    pub async fn fetch(&self, url: &str, offset: usize) -> Result<Page, ToolFault> {
        self.fetch_from(url, offset, |_| true).await
    }

    /// Like `fetch`, but `permits` also checks the host of the URL and of each redirect.
    ///
    /// # Errors
    /// Same as `fetch`.
    pub async fn fetch_from(
        &self,
        url: &str,
        offset: usize,
        permits: impl Fn(&str) -> bool + Send + Sync,
    ) -> Result<Page, ToolFault> {
        let url = parse_url(url)?;
        let host = shown(&url);
        let whole = async {
            let fetched = self.follow(url, permits).await?;
            let address = fetched.url.to_string();
            let text = self.text_of(fetched).await?;
            Ok::<_, ToolFault>(part(address, &text, offset))
        };
        let within = tokio::time::timeout(FETCH_WITHIN, whole).await;
        within.unwrap_or_else(|_| {
            let seconds = FETCH_WITHIN.as_secs();
            let text = format!("{host} did not respond completely within {seconds} s");
            Err(ToolFault::new(ToolErrorCode::ToolTimeout, text))
        })
    }

    async fn follow(
        &self,
        url: Url,
        permits: impl Fn(&str) -> bool + Send + Sync,
    ) -> Result<Fetched, ToolFault> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static(ACCEPTED));
        let (url, response) = self.respond(url, &headers, permits).await?;
        read(url, response).await
    }

    /// Follows redirects, and returns the response with its address.
    async fn respond(
        &self,
        mut url: Url,
        headers: &HeaderMap,
        permits: impl Fn(&str) -> bool + Send + Sync,
    ) -> Result<(Url, Response), ToolFault> {
        for _ in 0..=REDIRECTS_MAX {
            let response = self.get(&url, headers, &permits).await?;
            let status = response.status();
            let Some(next) = redirect_of(status, response.headers()) else {
                return Ok((url, response));
            };
            let next = url.join(&next).ok().and_then(|next| checked(next).ok());
            let next = next.ok_or_else(|| failed(&url, "redirects to an invalid address"))?;
            if next.scheme() == "http" && url.scheme() == "https" {
                let text = format!("{} redirects to an address without encryption", shown(&url));
                return Err(ToolFault::new(ToolErrorCode::NotAllowed, text));
            }
            if !permits(&shown(&next)) {
                let text = format!(
                    "{} redirects to {next}, which this call is not allowed to read",
                    shown(&url)
                );
                return Err(ToolFault::new(ToolErrorCode::NotAllowed, text));
            }
            url = next;
        }
        let text = format!("redirects more than {REDIRECTS_MAX} times");
        Err(failed(&url, &text))
    }

    async fn get(
        &self,
        url: &Url,
        headers: &HeaderMap,
        permits: &(impl Fn(&str) -> bool + Send + Sync),
    ) -> Result<Response, ToolFault> {
        let host = shown(url);
        if !permits(&host) {
            let text = format!("pages of {host} are not allowed for this agent");
            return Err(ToolFault::new(ToolErrorCode::NotAllowed, text));
        }
        let gate = Gate::new(&self.rules, LocalAddresses::Forbidden, url)
            .ok_or_else(|| invalid("the URL has no host"))?;
        // The resolver checks the address again when the client connects; this check returns a clear error and covers IP addresses.
        gate.check().await.map_err(|e| denied(&e))?;
        let client = gate
            .client_builder()
            .connect_timeout(CONNECT_WITHIN)
            .build();
        let client = client.map_err(|e| {
            tracing::error!(error = %e, "a client for web pages could not be created");
            failed(url, "cannot be read by this server")
        })?;
        let sent = client.get(url.clone()).headers(headers.clone()).send();
        sent.await.map_err(|_| unreachable(url))
    }

    async fn text_of(&self, fetched: Fetched) -> Result<String, ToolFault> {
        let Fetched { url, format, text } = fetched;
        if format == Format::Text {
            return Ok(clean(&text));
        }
        let unreadable = || unreadable(&url, "could not be converted to text");
        let permit = Arc::clone(&self.conversions).acquire_owned().await;
        let permit = permit.map_err(|_| unreadable())?;
        let converted = blocking(permit, move || openvibe_documents::html::to_text(&text)).await;
        converted.ok().flatten().ok_or_else(unreadable)
    }
}

fn invalid(text: &str) -> ToolFault {
    ToolFault::new(ToolErrorCode::BadArguments, text)
}

/// Host of a URL, without the trailing dot of a fully qualified name. The rest of the URL is omitted, because it could contain
/// anything.
fn shown(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    host.trim_end_matches('.').to_owned()
}

fn failed(url: &Url, what: &str) -> ToolFault {
    ToolFault::new(ToolErrorCode::ToolFailed, format!("{} {what}", shown(url)))
}

fn unreadable(url: &Url, what: &str) -> ToolFault {
    let text = format!("the page of {} {what}", shown(url));
    ToolFault::new(ToolErrorCode::Unreadable, text)
}

fn unreachable(url: &Url) -> ToolFault {
    let text = format!("could not connect to {}", shown(url));
    ToolFault::new(ToolErrorCode::ToolUnreachable, text)
}

fn denied(denied: &Denied) -> ToolFault {
    let (code, text) = match denied {
        Denied::OwnServer(host) => (
            ToolErrorCode::NotAllowed,
            format!("{host} is the address of this server"),
        ),
        Denied::NotPublic(host) => (
            ToolErrorCode::NotAllowed,
            format!("{host} is not a public address"),
        ),
        Denied::NotEncrypted(host) => (
            ToolErrorCode::NotAllowed,
            format!("{host} can only be read with https"),
        ),
        Denied::Port(host, port) => (
            ToolErrorCode::NotAllowed,
            format!("port {port} of {host} is not allowed: only 80 and 443 are"),
        ),
        Denied::NotFound(host) => (
            ToolErrorCode::ToolUnreachable,
            format!("could not find the host {host}"),
        ),
    };
    ToolFault::new(code, text)
}

/// # Errors
/// `BadArguments`.
fn parse_url(text: &str) -> Result<Url, ToolFault> {
    if text.encode_utf16().count() > URL_UNITS_MAX {
        let text = format!("the URL has more than {URL_UNITS_MAX} characters");
        return Err(invalid(&text));
    }
    let url = Url::parse(text.trim()).map_err(|_| invalid("this is not a URL"))?;
    checked(url)
}

/// # Errors
/// `BadArguments` for schemes other than http and https, and for URLs with a user name or password.
fn checked(mut url: Url) -> Result<Url, ToolFault> {
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err(invalid("only http and https URLs can be read"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(invalid("the URL must not contain a user name or password"));
    }
    url.set_fragment(None);
    Ok(url)
}

fn redirect_of(status: StatusCode, headers: &HeaderMap) -> Option<String> {
    let is_redirect = matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308);
    let target = headers.get(LOCATION).filter(|_| is_redirect)?;
    // Some servers send the location as raw UTF-8.
    Some(String::from_utf8_lossy(target.as_bytes()).into_owned())
}

/// Essence and charset of a content type, in lowercase.
fn media_type(headers: &HeaderMap) -> (String, String) {
    let text = headers.get(CONTENT_TYPE).and_then(|v| v.to_str().ok());
    let text = text.unwrap_or_default().to_ascii_lowercase();
    let mut parts = text.split(';').map(str::trim);
    let essence = parts.next().unwrap_or_default().to_owned();
    let charset = parts.find_map(|part| part.strip_prefix("charset="));
    let charset = charset.unwrap_or("utf-8").trim_matches('"').to_owned();
    (essence, charset)
}

fn format_of(essence: &str) -> Option<Format> {
    match essence {
        "text/html" | "application/xhtml+xml" => Some(Format::Html),
        "" | "application/json" | "application/xml" | "application/x-ndjson" => Some(Format::Text),
        _ if essence.starts_with("text/")
            || essence.ends_with("+json")
            || essence.ends_with("+xml") =>
        {
            Some(Format::Text)
        }
        _ => None,
    }
}

async fn read(url: Url, mut response: Response) -> Result<Fetched, ToolFault> {
    let status = response.status();
    if !status.is_success() {
        return Err(failed(
            &url,
            &format!("responded with HTTP {}", status.as_u16()),
        ));
    }
    let (essence, charset) = media_type(response.headers());
    let format = format_of(&essence).ok_or_else(|| {
        let text = format!("is not text, but {}", short(&essence));
        unreadable(&url, &text)
    })?;
    let mut body = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(|_| unreachable(&url))? {
        let room = PAGE_BYTES_MAX - body.len();
        body.extend_from_slice(&piece[..piece.len().min(room)]);
        if body.len() == PAGE_BYTES_MAX {
            break;
        }
    }
    let text = decode(&body, &charset);
    let text = text.ok_or_else(|| unreadable(&url, "has an unknown character encoding"))?;
    Ok(Fetched { url, format, text })
}

fn short(text: &str) -> String {
    text.chars().take(80).collect()
}

/// Decodes text; `None` if the encoding is not supported, or if the body is not text.
fn decode(body: &[u8], charset: &str) -> Option<String> {
    match charset {
        "utf-8" | "utf8" | "us-ascii" | "ascii" => {
            let text = String::from_utf8_lossy(body);
            // Too many invalid characters mean binary data with a wrong content type.
            let faults = text.chars().filter(|c| *c == '\u{fffd}').count();
            (faults * 10 <= text.chars().count()).then(|| text.into_owned())
        }
        // Like browsers, reads Latin-1 as windows-1252.
        "iso-8859-1" | "latin1" | "windows-1252" => {
            let (text, _) = encoding_rs::WINDOWS_1252.decode_without_bom_handling(body);
            Some(text.into_owned())
        }
        _ => None,
    }
}

/// Removes control characters except for line breaks and tabs.
fn clean(text: &str) -> String {
    let is_kept = |c: &char| !c.is_control() || matches!(c, '\n' | '\t');
    text.chars().filter(is_kept).collect()
}

/// The part of a text that starts at `offset`, moved to the start of a character.
fn part(url: String, text: &str, offset: usize) -> Page {
    let start = text.floor_char_boundary(offset);
    let end = text.floor_char_boundary(start.saturating_add(TEXT_BYTES_MAX));
    Page {
        url,
        text: text[start..end].to_owned(),
        offset: start,
        next_offset: (end < text.len()).then_some(end),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fetcher() -> Fetcher {
        let own = OwnServer::new("127.0.0.1:8080".parse().unwrap(), "https://chat.example");
        Fetcher::new(Vec::new(), own)
    }

    #[tokio::test]
    async fn forbidden_addresses_and_invalid_urls_are_rejected() {
        use ToolErrorCode::{BadArguments, NotAllowed};
        for (url, code) in [
            ("", BadArguments),
            ("example.com", BadArguments),
            ("file:///etc/passwd", BadArguments),
            ("https://user@example.com/", BadArguments),
            ("https://user:pass@example.com/", BadArguments),
            ("http://127.0.0.1/", NotAllowed),
            ("https://127.0.0.1/", NotAllowed),
            ("https://2130706433/", NotAllowed),
            ("https://0x7f.1/", NotAllowed),
            ("https://[::1]/", NotAllowed),
            ("https://[::ffff:10.0.0.1]/", NotAllowed),
            ("https://[64:ff9b::a9fe:a9fe]/", NotAllowed),
            ("https://169.254.169.254/latest/meta-data/", NotAllowed),
            ("http://1.1.1.1/", NotAllowed),
            ("https://1.1.1.1:8443/", NotAllowed),
            ("https://127.0.0.1:8080/v1/auth/me", NotAllowed),
            ("https://localhost/", NotAllowed),
        ] {
            let fault = fetcher().fetch(url, 0).await.unwrap_err();
            assert_eq!(fault.code, code, "{url}: {fault}");
            assert!(!fault.may_have_happened, "{url}");
        }
        let long = format!("https://example.com/{}", "x".repeat(URL_UNITS_MAX));
        let fault = fetcher().fetch(&long, 0).await.unwrap_err();
        assert_eq!(fault.code, BadArguments);
        let fetcher = fetcher();
        let denied = fetcher.fetch_from("https://1.1.1.1/", 0, |host| host != "1.1.1.1");
        assert_eq!(denied.await.unwrap_err().code, NotAllowed);
        let url = "https://ads.example.com./";
        let denied = fetcher.fetch_from(url, 0, |host| host != "ads.example.com");
        assert_eq!(denied.await.unwrap_err().code, NotAllowed, "{url}");
    }

    #[test]
    fn only_text_is_read() {
        for essence in ["text/html", "application/xhtml+xml"] {
            assert_eq!(format_of(essence), Some(Format::Html), "{essence}");
        }
        for essence in ["", "text/csv", "application/json", "application/rss+xml"] {
            assert_eq!(format_of(essence), Some(Format::Text), "{essence}");
        }
        for essence in ["image/png", "application/pdf", "application/octet-stream"] {
            assert_eq!(format_of(essence), None, "{essence}");
        }
        assert_eq!(decode(b"caf\xe9", "iso-8859-1").unwrap(), "café");
        assert_eq!(decode(b"don\x92t", "windows-1252").unwrap(), "don’t");
        assert_eq!(decode("café".as_bytes(), "utf-8").unwrap(), "café");
        assert_eq!(decode(&[0xff; 100], "utf-8"), None);
        assert_eq!(decode(b"text", "shift_jis"), None);
        assert_eq!(clean("a\0b\u{1b}[2Jc\td\n"), "ab[2Jc\td\n");
    }

    #[test]
    fn a_long_text_is_returned_in_parts() {
        let text = "é".repeat(TEXT_BYTES_MAX);
        let mut whole = String::new();
        let mut offset = 0;
        loop {
            let page = part("https://example.com/".to_owned(), &text, offset);
            assert!(page.text.len() <= TEXT_BYTES_MAX);
            whole.push_str(&page.text);
            match page.next_offset {
                Some(next) => offset = next,
                None => break,
            }
        }
        assert_eq!(whole, text);
        let inside = part(String::new(), &text, 1);
        assert_eq!(inside.offset, 0, "moved to the start of a character");
        let beyond = part(String::new(), "short", 100);
        assert_eq!((beyond.text.as_str(), beyond.next_offset), ("", None));
    }
}
