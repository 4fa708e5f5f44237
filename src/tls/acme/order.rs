//! One order, from the account to the certificate.

use std::{net::IpAddr, time::Duration};

use instant_acme::{
    Account, AccountCredentials, AuthorizationStatus, ChallengeType, Error, ExternalAccountKey,
    Identifier, LetsEncrypt, NewAccount, NewOrder, Order, OrderStatus, Problem, RetryPolicy,
};
use uuid::Uuid;

use super::{
    failure::Attempt,
    http::AcmeClient,
    parts::Parts,
    rows::{self, Row},
};
use crate::{
    db::Conn,
    outbound::{LOOKUP_MAX, Url},
    secrets::{self, SecretError},
    time::Timestamp,
    tls::{certificate::Certificate, store::Failure},
    tls_settings::AcmeSettings,
};

/// Maximum time of an attempt.
const ATTEMPT_MAX: Duration = Duration::from_mins(3);
/// Maximum time until the authority has checked the challenges, and until it has issued the certificate.
const POLL_MAX: Duration = Duration::from_mins(1);

/// Maximum number of times that an attempt continues after rejected nonces.
const CONTINUED_MAX: usize = 8;

/// A certificate authority.
pub(super) struct Authority {
    settings: AcmeSettings,
    client: AcmeClient,
}

impl Authority {
    pub(super) fn new(settings: AcmeSettings) -> anyhow::Result<Self> {
        Ok(Self {
            settings,
            client: AcmeClient::new()?,
        })
    }

    fn url(&self) -> String {
        let url = self
            .settings
            .directory_url
            .as_ref()
            .map(ToString::to_string);
        url.unwrap_or_else(|| LetsEncrypt::Production.url().to_owned())
    }

    fn name(&self) -> String {
        let url = self.settings.directory_url.as_ref();
        let host = url.and_then(Url::host_str).unwrap_or("Let's Encrypt");
        if host.ends_with(".letsencrypt.org") {
            return "Let's Encrypt".to_owned();
        }
        host.to_owned()
    }
}

/// A new certificate chain and its key, in PEM format.
pub(super) struct Ordered {
    pub chain: String,
    pub key: String,
    pub parsed: Certificate,
}

pub(super) struct OrderFailed {
    pub failure: Failure,
    /// Time at which the authority wants to be asked again.
    pub retry_at: Option<Timestamp>,
    /// True if the order can be continued.
    pub keeps_order: bool,
}

enum Fault {
    Acme(Error),
    /// Failure of a challenge.
    Told(Failure),
    Store(SecretError),
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Acme(error)
    }
}

impl<E: Into<SecretError>> From<E> for Fault {
    fn from(error: E) -> Self {
        Self::Store(error.into())
    }
}

pub(super) struct Orderer {
    authority: Authority,
    parts: Parts,
    names: Vec<String>,
    /// `names`, separated by commas.
    key: String,
    account: Option<Account>,
}

impl Orderer {
    pub(super) fn new(authority: Authority, parts: Parts, names: Vec<String>, key: String) -> Self {
        Self {
            authority,
            parts,
            names,
            key,
            account: None,
        }
    }

    /// Orders a certificate, or continues the order that a crash interrupted.
    ///
    /// # Errors
    /// Only those of this server: the inner result has the authority's refusals.
    pub(super) async fn order(
        &mut self,
        row: &Row,
    ) -> Result<Result<Ordered, OrderFailed>, SecretError> {
        // The two challenges need different ports, so that one of them may work where the other does not.
        let challenge = if row.attempts % 2 == 0 {
            ChallengeType::TlsAlpn01
        } else {
            ChallengeType::Http01
        };
        let ordered = tokio::time::timeout(ATTEMPT_MAX, self.insist(row, &challenge)).await;
        let ordered = ordered.unwrap_or(Err(Fault::Acme(Error::Timeout(None))));
        let fault = match ordered {
            Ok(ordered) => return Ok(Ok(ordered)),
            Err(Fault::Store(e)) => return Err(e),
            Err(fault) => fault,
        };
        let retry_at = self.authority.client.take_retry_at();
        let mut attempt = self.describe(&self.names[0], challenge).await;
        attempt.retry_at = retry_at;
        let keeps_order = matches!(fault, Fault::Acme(Error::Timeout(_) | Error::Other(_)));
        let failure = match fault {
            Fault::Told(failure) => failure,
            Fault::Acme(e) => attempt.error(&e),
            Fault::Store(e) => return Err(e),
        };
        Ok(Err(OrderFailed {
            failure,
            retry_at,
            keeps_order,
        }))
    }

    /// Continues at once after rejected nonces, which the client repeats only twice for each request.
    async fn insist(&mut self, row: &Row, challenge: &ChallengeType) -> Result<Ordered, Fault> {
        let mut row = row.clone();
        for _ in 1..CONTINUED_MAX {
            match self.attempt(&row, challenge.clone()).await {
                Err(Fault::Acme(Error::Api(problem))) if is_bad_nonce(&problem) => {}
                done => return done,
            }
            let stored = rows::find(&mut self.parts.db.read().await?, &self.key).await?;
            row = stored.unwrap_or(row);
        }
        self.attempt(&row, challenge.clone()).await
    }

    async fn attempt(&mut self, row: &Row, challenge: ChallengeType) -> Result<Ordered, Fault> {
        let account = self.account().await?;
        let (mut order, key) = match self.resume(&account, row).await? {
            Some(resumed) => resumed,
            None => self.begin(&account).await?,
        };
        if order.state().status == OrderStatus::Pending {
            self.answer(&mut order, &challenge).await?;
            if order.poll_ready(&policy()).await? != OrderStatus::Ready {
                return Err(self.explain(&mut order, &challenge).await);
            }
        }
        if order.state().status == OrderStatus::Ready {
            order.finalize_csr(&self.request(&key)?).await?;
        }
        let chain = order.poll_certificate(&policy()).await?;
        crate::failpoint!("acme_issued");
        let key = key.serialize_pem();
        let parsed = Certificate::parse(chain.as_bytes(), key.as_bytes());
        let parsed = parsed.map_err(|_| Error::Str("its certificate cannot be read"))?;
        Ok(Ordered { chain, key, parsed })
    }

    /// The account at the authority, which is created at the first order.
    async fn account(&mut self) -> Result<Account, Fault> {
        if let Some(account) = &self.account {
            return Ok(account.clone());
        }
        let url = self.authority.url();
        let owner = rows::account_of(&url);
        let builder = Account::builder_with_http(Box::new(self.authority.client.clone()));
        let sealed = secrets::find(&mut self.parts.db.read().await?, &owner).await?;
        let opened = sealed.and_then(|sealed| self.parts.keyring.open(&owner, &sealed).ok());
        let stored = opened.and_then(|text| serde_json::from_str::<AccountCredentials>(&text).ok());
        let account = if let Some(stored) = stored {
            builder.from_credentials(stored).await?
        } else {
            let settings = &self.authority.settings;
            let contact = settings
                .email
                .as_ref()
                .map(|email| format!("mailto:{email}"));
            let contact: Vec<&str> = contact.iter().map(String::as_str).collect();
            let binding = settings.binding.as_ref();
            let binding = binding.map(|b| ExternalAccountKey::new(b.key_id.clone(), &b.key.0));
            let new = NewAccount {
                contact: &contact,
                terms_of_service_agreed: true,
                only_return_existing: false,
            };
            // An account that cannot be stored would be created again at each attempt.
            self.parts.keyring.seal(&owner, "")?;
            let (account, credentials) = builder.create(&new, url, binding.as_ref()).await?;
            let text = serde_json::to_string(&credentials).map_err(Error::from)?;
            let sealed = self.parts.keyring.seal(&owner, &text)?;
            let write = self.parts.db.write(Uuid::nil(), async move |c: &mut Conn| {
                secrets::put(c, &owner, &sealed).await
            });
            write.await?;
            account
        };
        self.account = Some(account.clone());
        Ok(account)
    }

    /// The order that a crash interrupted, if it can still be completed.
    async fn resume(
        &self,
        account: &Account,
        row: &Row,
    ) -> Result<Option<(Order, rcgen::KeyPair)>, Fault> {
        let Some(url) = row.order_url.clone() else {
            return Ok(None);
        };
        let owner = rows::order_key_of(&self.key);
        let sealed = secrets::find(&mut self.parts.db.read().await?, &owner).await?;
        let opened = sealed.and_then(|sealed| self.parts.keyring.open(&owner, &sealed).ok());
        let Some(key) = opened.and_then(|pem| rcgen::KeyPair::from_pem(&pem).ok()) else {
            return Ok(None);
        };
        match account.order(url).await {
            Ok(mut order) => {
                let is_over = order.state().status == OrderStatus::Invalid;
                Ok((!is_over).then_some((order, key)))
            }
            // The authority no longer knows the order.
            Err(Error::Api(_)) => Ok(None),
            Err(e) => Err(e.into()),
        }
    }

    async fn begin(&self, account: &Account) -> Result<(Order, rcgen::KeyPair), Fault> {
        let names: Vec<_> = self.names.iter().cloned().map(Identifier::Dns).collect();
        let order = account.new_order(&NewOrder::new(&names)).await?;
        let key = rcgen::KeyPair::generate().map_err(|e| Error::Other(Box::new(e)))?;
        let owner = rows::order_key_of(&self.key);
        let sealed = self.parts.keyring.seal(&owner, &key.serialize_pem())?;
        let (names, url) = (self.key.clone(), order.url().to_owned());
        let write = self.parts.db.write(Uuid::nil(), async move |c: &mut Conn| {
            rows::begin_order(c, &names, &url, &sealed).await
        });
        write.await?;
        crate::failpoint!("acme_ordered");
        Ok((order, key))
    }

    /// Stores the answers to all challenges, and then tells the authority to check them.
    async fn answer(&self, order: &mut Order, challenge: &ChallengeType) -> Result<(), Fault> {
        let mut authorizations = order.authorizations();
        while let Some(authorization) = authorizations.next().await {
            let mut authorization = authorization?;
            if authorization.status != AuthorizationStatus::Pending {
                continue;
            }
            let name = match &authorization.identifier().identifier {
                Identifier::Dns(name) => name.clone(),
                _ => continue,
            };
            let offers = |kind: &ChallengeType| {
                authorization
                    .challenges
                    .iter()
                    .any(|offered| offered.r#type == *kind)
            };
            let kinds = [
                challenge.clone(),
                ChallengeType::TlsAlpn01,
                ChallengeType::Http01,
            ];
            let kind = kinds.into_iter().find(offers);
            let kind = kind.ok_or(Error::Unsupported("challenges over ports 443 and 80"))?;
            let Some(mut handle) = authorization.challenge(kind) else {
                continue;
            };
            let (token, answer) = (handle.token.clone(), handle.key_authorization());
            let answer = answer.as_str().to_owned();
            let write = self.parts.db.write(Uuid::nil(), async move |c: &mut Conn| {
                rows::put_challenge(c, &name, &token, &answer).await
            });
            write.await?;
            handle.set_ready().await?;
        }
        Ok(())
    }

    /// Returns why a challenge failed.
    async fn explain(&self, order: &mut Order, challenge: &ChallengeType) -> Fault {
        let mut authorizations = order.authorizations();
        while let Some(Ok(mut authorization)) = authorizations.next().await {
            if authorization.refresh().await.is_err() {
                continue;
            }
            let problem = authorization
                .challenges
                .iter()
                .find_map(|c| c.error.clone());
            if let Some(problem) = problem {
                let name = authorization.identifier().to_string();
                let attempt = self.describe(&name, challenge.clone()).await;
                return Fault::Told(attempt.problem(&problem));
            }
        }
        Fault::Acme(Error::Str("the authority gave no reason"))
    }

    async fn describe(&self, name: &str, challenge: ChallengeType) -> Attempt {
        Attempt {
            authority: self.authority.name(),
            name: name.to_owned(),
            challenge,
            address: first_address(name).await,
            retry_at: None,
        }
    }

    /// Request for the signature of the certificate.
    fn request(&self, key: &rcgen::KeyPair) -> Result<Vec<u8>, Error> {
        let other = |e: rcgen::Error| Error::Other(Box::new(e));
        let mut wanted = rcgen::CertificateParams::new(self.names.clone()).map_err(other)?;
        wanted.distinguished_name = rcgen::DistinguishedName::new();
        let request = wanted.serialize_request(key).map_err(other)?;
        Ok(request.der().to_vec())
    }
}

fn is_bad_nonce(problem: &Problem) -> bool {
    let kind = problem.r#type.as_deref();
    kind.is_some_and(|kind| kind.ends_with(":badNonce"))
}

fn policy() -> RetryPolicy {
    RetryPolicy::default().timeout(POLL_MAX)
}

async fn first_address(name: &str) -> Option<IpAddr> {
    let found = tokio::time::timeout(LOOKUP_MAX, tokio::net::lookup_host((name, 443))).await;
    let mut found = found.ok()?.ok()?;
    found.next().map(|address| address.ip())
}
