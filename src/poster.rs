//! POST requests to programs and services of others, with one client for each origin.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use reqwest::{RequestBuilder, header::RETRY_AFTER};

use crate::outbound::{Denied, Gate, LocalAddresses, Rules, Url};

const CONNECT_WITHIN: Duration = Duration::from_secs(5);
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// Maximum number of origins with open connections.
const CLIENTS_MAX: usize = 64;
const RETRY_AFTER_MAX: Duration = Duration::from_hours(1);
/// Part of an answer that people see.
const SHOWN_MAX: usize = 200;

/// Scheme, host, and port of a URL.
pub fn origin_of(url: &Url) -> String {
    url.origin().ascii_serialization()
}

/// Answer to a request.
#[derive(Debug, Clone)]
pub struct Answer {
    /// `None` if there was no complete answer.
    pub status: Option<u16>,
    /// The beginning of the answer, or the reason why there is none.
    pub text: String,
    /// Time that the answer asks to wait; at most an hour.
    pub retry_after: Option<Duration>,
}

impl Answer {
    pub fn lost(text: &str) -> Self {
        Self {
            status: None,
            text: text.to_owned(),
            retry_after: None,
        }
    }

    pub fn is_success(&self) -> bool {
        self.status
            .is_some_and(|status| (200..300).contains(&status))
    }

    /// The beginning of the text, as a line without control characters.
    pub fn shown(&self) -> String {
        let words: Vec<&str> = self.text.split_whitespace().collect();
        let line = words.join(" ");
        let visible = line.chars().filter(|c| !c.is_control());
        visible.take(SHOWN_MAX).collect()
    }
}

/// Sends requests to addresses that the rules permit.
pub struct Poster {
    rules: Arc<Rules>,
    clients: Mutex<HashMap<String, reqwest::Client>>,
}

impl Poster {
    pub fn new(rules: Rules) -> Self {
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
    pub async fn check(&self, url: &Url) -> Result<(), Denied> {
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

    /// Sends the request that `build` makes, and returns the answer up to a number of bytes, or the reason why there is none.
    pub async fn post(
        &self,
        url: Url,
        build: impl FnOnce(RequestBuilder) -> RequestBuilder,
        bytes_max: usize,
    ) -> Answer {
        let client = match self.client(&url) {
            Ok(client) => client,
            Err(e) => return Answer::lost(&e),
        };
        let mut response = match build(client.post(url)).send().await {
            Ok(response) => response,
            Err(e) if e.is_timeout() => return Answer::lost("no answer within 10 s"),
            Err(e) if e.is_connect() => return Answer::lost("no connection"),
            Err(_) => return Answer::lost("the connection was lost"),
        };
        let status = response.status().as_u16();
        let wait = response.headers().get(RETRY_AFTER);
        let wait = wait.and_then(|wait| wait.to_str().ok()?.trim().parse().ok());
        let mut text = Vec::new();
        while text.len() < bytes_max {
            match response.chunk().await {
                Ok(Some(chunk)) => text.extend_from_slice(&chunk),
                Ok(None) => break,
                Err(_) => return Answer::lost("the connection was lost"),
            }
        }
        text.truncate(bytes_max);
        Answer {
            status: Some(status),
            text: String::from_utf8_lossy(&text).into_owned(),
            retry_after: wait.map(|s| Duration::from_secs(s).min(RETRY_AFTER_MAX)),
        }
    }
}
