//! Requests to push services.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use reqwest::header::{AUTHORIZATION, CONTENT_ENCODING, RETRY_AFTER};

use crate::{
    outbound::{Denied, Gate, LocalAddresses, Rules, Url},
    text_enum::text_enum,
};

const CONNECT_WITHIN: Duration = Duration::from_secs(5);
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// Time for which a push service keeps a message for a device that is not reachable, in seconds.
const TTL_S: &str = "86400";
/// Maximum length of an answer; the rest is not read.
const ANSWER_BYTES_MAX: usize = 4096;
/// Maximum length of an answer in texts for people.
const SHOWN_MAX: usize = 200;
/// Maximum number of origins with open connections.
const CLIENTS_MAX: usize = 64;
const RETRY_AFTER_DEFAULT: Duration = Duration::from_mins(1);
const RETRY_AFTER_MAX: Duration = Duration::from_hours(1);

text_enum! {
    /// Importance of a message, by which a phone decides whether to wake up.
    pub(super) enum Urgency {
        High = "high",
        Normal = "normal",
    }
}

/// An encrypted message.
pub(super) struct PushRequest<'a> {
    pub(super) url: &'a Url,
    pub(super) authorization: &'a str,
    pub(super) topic: &'a str,
    pub(super) urgency: Urgency,
    pub(super) body: Vec<u8>,
}

/// Answer of a push service.
#[derive(Debug, Clone)]
pub(super) struct Answer {
    /// `None` if there was no complete answer.
    pub(super) status: Option<u16>,
    /// The beginning of the answer, or the reason why there is none; at most 200 characters.
    pub(super) text: String,
    pub(super) retry_after: Duration,
}

impl Answer {
    fn lost(text: &str) -> Self {
        Self {
            status: None,
            text: text.to_owned(),
            retry_after: RETRY_AFTER_DEFAULT,
        }
    }
}

pub(super) struct PushClient {
    rules: Arc<Rules>,
    clients: Mutex<HashMap<String, reqwest::Client>>,
}

/// Scheme, host, and port of a URL.
pub(super) fn origin_of(url: &Url) -> String {
    url.origin().ascii_serialization()
}

/// Name of the company that runs a push service.
pub(super) fn service_of(url: &Url) -> &str {
    let host = url.host_str().unwrap_or_default();
    if host.ends_with("push.apple.com") {
        "Apple"
    } else if host.ends_with("googleapis.com") {
        "Google"
    } else if host.ends_with("mozilla.com") {
        "Mozilla"
    } else if host.ends_with("windows.com") {
        "Microsoft"
    } else {
        host
    }
}

/// An answer in JSON, as Apple sends them.
#[derive(serde::Deserialize)]
struct Reasoned {
    reason: String,
}

/// The reason that an answer gives, or the whole answer, as a line without control characters.
fn shown(answer: &str) -> String {
    let reasoned: Option<Reasoned> = serde_json::from_str(answer).ok();
    let text = reasoned.as_ref().map_or(answer, |it| it.reason.as_str());
    let words: Vec<&str> = text.split_whitespace().collect();
    let line = words.join(" ");
    let visible = line.chars().filter(|c| !c.is_control());
    visible.take(SHOWN_MAX).collect()
}

impl PushClient {
    pub(super) fn new(rules: Rules) -> Self {
        Self {
            rules: Arc::new(rules),
            clients: Mutex::default(),
        }
    }

    fn gate(&self, url: &Url) -> Result<Gate, Denied> {
        let gate = Gate::new(&self.rules, LocalAddresses::Forbidden, url);
        gate.ok_or_else(|| Denied::NotFound(String::new()))
    }

    /// Checks whether the server may send to this address.
    ///
    /// # Errors
    /// `Denied`.
    pub(super) async fn check(&self, url: &Url) -> Result<(), Denied> {
        self.gate(url)?.check().await
    }

    /// Client for an origin. Its connections resolve names to permitted addresses only.
    fn client(&self, url: &Url) -> Result<reqwest::Client, String> {
        let denied = |_: Denied| "the address is not permitted".to_owned();
        let gate = self.gate(url).map_err(denied)?;
        gate.check_literal().map_err(denied)?;
        let origin = origin_of(url);
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(&origin) {
            return Ok(client.clone());
        }
        let client = gate
            .client_builder()
            .connect_timeout(CONNECT_WITHIN)
            .timeout(ANSWER_WITHIN)
            .build()
            .map_err(|e| e.to_string())?;
        if clients.len() >= CLIENTS_MAX {
            clients.clear();
        }
        clients.insert(origin, client.clone());
        Ok(client)
    }

    /// Sends a message, and returns the answer or the reason why there is none.
    pub(super) async fn send(&self, request: PushRequest<'_>) -> Answer {
        let client = match self.client(request.url) {
            Ok(client) => client,
            Err(e) => return Answer::lost(&e),
        };
        let sent = client
            .post(request.url.clone())
            .header(AUTHORIZATION, request.authorization)
            .header(CONTENT_ENCODING, "aes128gcm")
            .header("TTL", TTL_S)
            .header("Urgency", request.urgency.as_str())
            .header("Topic", request.topic)
            .body(request.body)
            .send()
            .await;
        let mut response = match sent {
            Ok(response) => response,
            Err(e) if e.is_timeout() => return Answer::lost("no answer within 10 s"),
            Err(e) if e.is_connect() => return Answer::lost("no connection"),
            Err(_) => return Answer::lost("the connection was lost"),
        };
        let status = response.status().as_u16();
        let wait = response.headers().get(RETRY_AFTER);
        let wait = wait.and_then(|wait| wait.to_str().ok()?.trim().parse().ok());
        let mut text = Vec::new();
        while text.len() < ANSWER_BYTES_MAX {
            match response.chunk().await {
                Ok(Some(chunk)) => text.extend_from_slice(&chunk),
                Ok(None) => break,
                Err(_) => return Answer::lost("the connection was lost"),
            }
        }
        text.truncate(ANSWER_BYTES_MAX);
        Answer {
            status: Some(status),
            text: shown(&String::from_utf8_lossy(&text)),
            retry_after: wait.map_or(RETRY_AFTER_DEFAULT, |s| {
                Duration::from_secs(s).min(RETRY_AFTER_MAX)
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::shown;

    #[test]
    fn an_answer_is_its_reason_or_a_line() {
        for (answer, text) in [
            (r#"{"reason":"BadJwtToken"}"#, "BadJwtToken"),
            (r#"{"code": 403}"#, r#"{"code": 403}"#),
            ("permission\r\n denied\u{7}", "permission denied"),
            ("", ""),
        ] {
            assert_eq!(shown(answer), text);
        }
        assert_eq!(shown(&"x".repeat(300)).len(), 200);
    }
}
