//! Requests to the programs of bots.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use reqwest::header::{CONTENT_TYPE, RETRY_AFTER};

use crate::outbound::{Denied, Gate, LocalAddresses, Rules, Url};

const CONNECT_WITHIN: Duration = Duration::from_secs(5);
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// Part of an answer that is read.
const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// Part of an answer that people see.
const SHOWN_MAX: usize = 200;
/// Maximum number of origins with open connections.
const CLIENTS_MAX: usize = 64;
const RETRY_AFTER_MAX: Duration = Duration::from_hours(1);

pub(super) const CONTENT_JSON: &str = "application/json";

/// A signed event.
pub(super) struct SignedRequest {
    pub(super) url: Url,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) body: Vec<u8>,
    pub(super) content_type: &'static str,
}

/// Answer of a program.
#[derive(Debug, Clone)]
pub(super) struct ProgramAnswer {
    /// `None` if there was no complete answer.
    pub(super) status: Option<u16>,
    /// The answer, or the reason why there is none.
    pub(super) text: String,
    pub(super) retry_after: Duration,
}

impl ProgramAnswer {
    pub(super) fn lost(text: &str) -> Self {
        Self {
            status: None,
            text: text.to_owned(),
            retry_after: Duration::ZERO,
        }
    }

    pub(super) fn is_success(&self) -> bool {
        self.status
            .is_some_and(|status| (200..300).contains(&status))
    }

    /// Beginning of the answer, in one line.
    pub(super) fn shown(&self) -> String {
        let words: Vec<&str> = self.text.split_whitespace().collect();
        words
            .join(" ")
            .chars()
            .filter(|c| !c.is_control())
            .take(SHOWN_MAX)
            .collect()
    }
}

pub(super) struct ProgramClient {
    rules: Arc<Rules>,
    clients: Mutex<HashMap<String, reqwest::Client>>,
}

impl ProgramClient {
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
        let origin = url.origin().ascii_serialization();
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

    /// Sends an event, and returns the answer or the reason why there is none.
    pub(super) async fn send(&self, request: SignedRequest) -> ProgramAnswer {
        let client = match self.client(&request.url) {
            Ok(client) => client,
            Err(e) => return ProgramAnswer::lost(&e),
        };
        let mut sent = client
            .post(request.url)
            .header(CONTENT_TYPE, request.content_type);
        for (name, value) in request.headers {
            sent = sent.header(name, value);
        }
        let mut response = match sent.body(request.body).send().await {
            Ok(response) => response,
            Err(e) if e.is_timeout() => return ProgramAnswer::lost("no answer within 10 s"),
            Err(e) if e.is_connect() => return ProgramAnswer::lost("no connection"),
            Err(_) => return ProgramAnswer::lost("the connection was lost"),
        };
        let status = response.status().as_u16();
        let wait = response.headers().get(RETRY_AFTER);
        let wait = wait.and_then(|wait| wait.to_str().ok()?.trim().parse().ok());
        let mut text = Vec::new();
        while text.len() < ANSWER_BYTES_MAX {
            match response.chunk().await {
                Ok(Some(chunk)) => text.extend_from_slice(&chunk),
                Ok(None) => break,
                Err(_) => return ProgramAnswer::lost("the connection was lost"),
            }
        }
        text.truncate(ANSWER_BYTES_MAX);
        ProgramAnswer {
            status: Some(status),
            text: String::from_utf8_lossy(&text).into_owned(),
            retry_after: wait.map_or(Duration::ZERO, |s| {
                Duration::from_secs(s).min(RETRY_AFTER_MAX)
            }),
        }
    }
}
