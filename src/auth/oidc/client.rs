//! Requests to providers, and what is remembered of their answers.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use reqwest::{RequestBuilder, StatusCode};
use serde_json::Value;
use tokio::sync::Semaphore;

use super::{
    SignInFault,
    discovery::{ClientProof, Discovery, address_of, parse_address},
    keys::{ProviderKey, parse_keys},
    token::{Claims, Expected, UnverifiedToken},
};
use crate::{
    ids::IdentityProviderId,
    outbound::{Gate, LocalAddresses, Rules},
    time::Timestamp,
    trust,
};

/// Time limit of a request, including the wait for other requests.
const REQUEST_WITHIN: Duration = Duration::from_secs(10);
/// Maximum size of an answer.
const ANSWER_BYTES_MAX: usize = 256 * 1024;
/// Maximum number of concurrent requests to a provider.
const REQUESTS_AT_ONCE: usize = 16;
/// Age at which documents are read again.
const FRESH_FOR: Duration = Duration::from_hours(24);
/// Minimum time between searches for an unknown key.
const SEARCH_EVERY: Duration = Duration::from_mins(1);
/// Maximum number of providers that are remembered, deleted ones among them.
const REMEMBERED_MAX: usize = 20;

/// Part of a provider that requests to it need.
#[derive(Debug, Clone)]
pub(crate) struct Connection {
    pub id: IdentityProviderId,
    pub issuer: String,
    pub client_id: String,
    pub secret: Option<String>,
}

/// A provider's documents, and the permits of its requests.
struct Remembered {
    issuer: String,
    permits: Semaphore,
    discovery: Mutex<Option<(Instant, Arc<Discovery>)>>,
    keys: Mutex<KnownKeys>,
}

#[derive(Default)]
struct KnownKeys {
    read_at: Option<Instant>,
    searched_at: Option<Instant>,
    keys: Arc<Vec<ProviderKey>>,
}

/// Client of all providers.
pub struct ProviderClient {
    rules: Arc<Rules>,
    remembered: Mutex<HashMap<IdentityProviderId, Arc<Remembered>>>,
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Tokens that a provider returned for a code.
pub(crate) struct Tokens {
    pub id_token: String,
    pub access_token: Option<String>,
}

/// Counts a request to a provider.
fn count<T>(step: &'static str, result: &Result<T, SignInFault>) {
    let result = match result {
        Ok(_) => "ok",
        Err(fault) => fault.code(),
    };
    metrics::counter!("openvibe_oidc_requests_total", "step" => step, "result" => result)
        .increment(1);
}

impl Remembered {
    fn new(issuer: &str) -> Self {
        Self {
            issuer: issuer.to_owned(),
            permits: Semaphore::new(REQUESTS_AT_ONCE),
            discovery: Mutex::default(),
            keys: Mutex::default(),
        }
    }
}

impl ProviderClient {
    /// `rules` are those for the operator's model servers.
    pub fn new(rules: Rules) -> Self {
        Self {
            rules: Arc::new(rules),
            remembered: Mutex::default(),
        }
    }

    fn remembered(&self, provider: &Connection) -> Arc<Remembered> {
        let mut all = locked(&self.remembered);
        let known = all
            .get(&provider.id)
            .filter(|known| known.issuer == provider.issuer);
        if let Some(known) = known {
            return Arc::clone(known);
        }
        if all.len() >= REMEMBERED_MAX {
            all.clear();
        }
        let new = Arc::new(Remembered::new(&provider.issuer));
        all.insert(provider.id, Arc::clone(&new));
        new
    }

    /// Sends a request and reads its answer as JSON.
    async fn send(
        &self,
        remembered: &Remembered,
        address: &str,
        begin: impl FnOnce(&reqwest::Client, crate::outbound::Url) -> RequestBuilder,
    ) -> Result<(StatusCode, Value), SignInFault> {
        let url = parse_address(address)
            .ok_or_else(|| SignInFault::Misconfigured("invalid_address".to_owned()))?;
        let unreachable = |cause: &str| SignInFault::Unreachable(cause.to_owned());
        let whole = async {
            let _permit = remembered.permits.acquire().await;
            let gate = Gate::new(&self.rules, LocalAddresses::Permitted, &url)
                .ok_or_else(|| unreachable("no host"))?;
            gate.check()
                .await
                .map_err(|denied| SignInFault::Unreachable(denied.to_string()))?;
            let client = gate
                .client_builder()
                .build()
                .map_err(|e| SignInFault::Unreachable(e.to_string()))?;
            let sent = begin(&client, url).send().await;
            let mut response = sent.map_err(|e| {
                let advice = trust::advice(&e).map(str::to_owned);
                SignInFault::Unreachable(advice.unwrap_or_else(|| e.without_url().to_string()))
            })?;
            let status = response.status();
            if status.is_server_error() || status.is_redirection() {
                return Err(unreachable(status.as_str()));
            }
            let mut body = Vec::new();
            loop {
                match response.chunk().await {
                    Ok(Some(piece)) if body.len() + piece.len() <= ANSWER_BYTES_MAX => {
                        body.extend_from_slice(&piece);
                    }
                    Ok(Some(_)) => {
                        return Err(SignInFault::Misconfigured("answer_too_large".to_owned()));
                    }
                    Ok(None) => break,
                    Err(_) => return Err(unreachable("the answer is incomplete")),
                }
            }
            let value = serde_json::from_slice(&body).unwrap_or(Value::Null);
            Ok((status, value))
        };
        let within = tokio::time::timeout(REQUEST_WITHIN, whole).await;
        within.unwrap_or_else(|_| Err(unreachable("no answer within 10 s")))
    }

    async fn get(&self, remembered: &Remembered, address: &str) -> Result<Value, SignInFault> {
        let (status, value) = self.send(remembered, address, reqwest::Client::get).await?;
        if status == StatusCode::OK {
            Ok(value)
        } else {
            Err(SignInFault::Unreachable(status.to_string()))
        }
    }

    /// Returns the document of a provider, which is remembered for a day, or longer if the provider does not answer.
    ///
    /// # Errors
    /// `Unreachable`; `Misconfigured`, also if the document names another issuer.
    pub(crate) async fn discover(
        &self,
        provider: &Connection,
    ) -> Result<Arc<Discovery>, SignInFault> {
        let remembered = self.remembered(provider);
        let known = locked(&remembered.discovery).clone();
        if let Some((at, document)) = &known
            && at.elapsed() < FRESH_FOR
        {
            return Ok(Arc::clone(document));
        }
        let read = self.read_discovery(&remembered).await;
        count("discovery", &read);
        match (read, known) {
            (Ok(document), _) => {
                let document = Arc::new(document);
                *locked(&remembered.discovery) = Some((Instant::now(), Arc::clone(&document)));
                Ok(document)
            }
            (Err(SignInFault::Unreachable(_)), Some((_, document))) => Ok(document),
            (Err(fault), _) => Err(fault),
        }
    }

    async fn read_discovery(&self, remembered: &Remembered) -> Result<Discovery, SignInFault> {
        let value = self
            .get(remembered, &address_of(&remembered.issuer))
            .await?;
        let document = Discovery::parse(value)?;
        if document.issuer != remembered.issuer {
            return Err(SignInFault::Misconfigured("issuer_mismatch".to_owned()));
        }
        Ok(document)
    }

    /// Reads what an issuer publishes now, and returns the number of its keys.
    ///
    /// # Errors
    /// `Unreachable`; `Misconfigured`, also without keys.
    pub(crate) async fn look(&self, issuer: &str) -> Result<usize, SignInFault> {
        let fresh = Remembered::new(issuer);
        let discovery = self.read_discovery(&fresh).await?;
        match parse_keys(&self.get(&fresh, &discovery.jwks_uri).await?)?.len() {
            0 => Err(SignInFault::Misconfigured("keys_missing".to_owned())),
            keys => Ok(keys),
        }
    }

    /// Exchanges a code for tokens.
    ///
    /// # Errors
    /// `Unreachable`, `Misconfigured` if the provider rejects this server, or `Refused`.
    pub(crate) async fn exchange(
        &self,
        provider: &Connection,
        code: &str,
        redirect_uri: &str,
        verifier: &str,
    ) -> Result<Tokens, SignInFault> {
        let discovery = self.discover(provider).await?;
        let remembered = self.remembered(provider);
        let mut form = vec![
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", redirect_uri),
            ("code_verifier", verifier),
        ];
        let proof = discovery.client_proof();
        let by_form = provider
            .secret
            .as_deref()
            .filter(|_| proof == ClientProof::Post);
        if let Some(secret) = by_form {
            form.push(("client_secret", secret));
        }
        let by_header = provider
            .secret
            .as_deref()
            .filter(|_| proof == ClientProof::Basic);
        if by_header.is_none() {
            form.push(("client_id", &provider.client_id));
        }
        let body = form_urlencoded::Serializer::new(String::new())
            .extend_pairs(form)
            .finish();
        let answered = self
            .send(&remembered, &discovery.token_endpoint, |client, url| {
                let request = client
                    .post(url)
                    .header("accept", "application/json")
                    .header("content-type", "application/x-www-form-urlencoded")
                    .body(body);
                match by_header {
                    // Both parts are encoded as in forms (RFC 6749, §2.3.1).
                    Some(secret) => {
                        request.basic_auth(encoded(&provider.client_id), Some(encoded(secret)))
                    }
                    None => request,
                }
            })
            .await;
        let tokens = answered.and_then(|(status, value)| tokens_of(status, &value));
        count("token", &tokens);
        tokens
    }

    /// Reads what the provider knows about the person.
    ///
    /// # Errors
    /// `Unreachable`, or `Misconfigured`.
    pub(crate) async fn user_info(
        &self,
        provider: &Connection,
        access_token: &str,
    ) -> Result<Claims, SignInFault> {
        let discovery = self.discover(provider).await?;
        let Some(address) = &discovery.userinfo_endpoint else {
            return Ok(Claims::new());
        };
        let answered = self
            .send(&self.remembered(provider), address, |client, url| {
                client.get(url).bearer_auth(access_token)
            })
            .await;
        let claims = answered.and_then(|(status, value)| match value {
            Value::Object(claims) if status == StatusCode::OK => Ok(claims),
            _ => Err(SignInFault::Misconfigured("invalid_user_info".to_owned())),
        });
        count("userinfo", &claims);
        claims
    }

    /// Verifies a token of the provider: its signature, issuer, audience, and times.
    ///
    /// # Errors
    /// `Refused`, `ClockSkew`, `Unreachable`, `Misconfigured`.
    pub(crate) async fn verify(
        &self,
        provider: &Connection,
        token: &str,
    ) -> Result<Claims, SignInFault> {
        let token = UnverifiedToken::parse(token)?;
        let keys = self.keys_for(provider, &token).await?;
        let claims = token.verify(&keys)?;
        let expected = Expected {
            issuer: &provider.issuer,
            client_id: &provider.client_id,
            now: Timestamp::now(),
        };
        expected.check(&claims)?;
        Ok(claims)
    }

    /// Keys of the provider. They are read again if the token's key is unknown, at most once a minute.
    async fn keys_for(
        &self,
        provider: &Connection,
        token: &UnverifiedToken<'_>,
    ) -> Result<Arc<Vec<ProviderKey>>, SignInFault> {
        let remembered = self.remembered(provider);
        {
            let mut known = locked(&remembered.keys);
            let is_fresh = known.read_at.is_some_and(|at| at.elapsed() < FRESH_FOR);
            let may_search = known
                .searched_at
                .is_none_or(|at| at.elapsed() >= SEARCH_EVERY);
            if is_fresh && (token.has_key(&known.keys) || !may_search) {
                return Ok(Arc::clone(&known.keys));
            }
            if is_fresh {
                known.searched_at = Some(Instant::now());
            }
        }
        let address = self.discover(provider).await?.jwks_uri.clone();
        let read = self.get(&remembered, &address).await;
        let read = read.and_then(|set| parse_keys(&set));
        count("keys", &read);
        let keys = Arc::new(read?);
        let mut known = locked(&remembered.keys);
        known.read_at = Some(Instant::now());
        known.keys = Arc::clone(&keys);
        Ok(keys)
    }
}

fn encoded(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

fn tokens_of(status: StatusCode, value: &Value) -> Result<Tokens, SignInFault> {
    if status != StatusCode::OK {
        let code = value["error"].as_str().unwrap_or("invalid_answer");
        return Err(match (status, SignInFault::refused(code)) {
            (_, SignInFault::Refused(code))
                if matches!(
                    code.as_str(),
                    "invalid_client" | "unauthorized_client" | "invalid_answer"
                ) || status == StatusCode::UNAUTHORIZED =>
            {
                SignInFault::Misconfigured(code)
            }
            (_, fault) => fault,
        });
    }
    let text = |name: &str| value[name].as_str().map(str::to_owned);
    let id_token = text("id_token");
    Ok(Tokens {
        id_token: id_token.ok_or_else(|| SignInFault::Refused("no_id_token".to_owned()))?,
        access_token: text("access_token"),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::outbound::OwnServer;

    #[tokio::test]
    async fn a_document_is_used_for_longer_than_a_day_while_the_provider_does_not_answer() {
        drop(rustls::crypto::ring::default_provider().install_default());
        let closed = std::net::TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let client = ProviderClient::new(Rules {
            exempt: Vec::new(),
            own: OwnServer::new("127.0.0.1:9".parse().unwrap(), "https://chat.example.org"),
            ports: None,
        });
        let issuer = format!("http://{closed}");
        let provider = Connection {
            id: IdentityProviderId::new(),
            issuer: issuer.clone(),
            client_id: "openvibe".to_owned(),
            secret: None,
        };
        let unread = client.discover(&provider).await;
        assert!(matches!(unread, Err(SignInFault::Unreachable(_))));
        let document = Discovery::parse(json!({"issuer": issuer, "authorization_endpoint": issuer,
            "token_endpoint": issuer, "jwks_uri": issuer}));
        let read_at = Instant::now().checked_sub(FRESH_FOR + SEARCH_EVERY);
        let known = Some((read_at.unwrap(), Arc::new(document.unwrap())));
        *locked(&client.remembered(&provider).discovery) = known;
        let document = client.discover(&provider).await.unwrap();
        assert_eq!(document.issuer, issuer);
    }
}
