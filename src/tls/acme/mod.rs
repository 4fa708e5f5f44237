//! Certificates from an authority that speaks ACME (RFC 8555), such as Let's Encrypt.
//!
//! Any node can answer a challenge, because answers are rows. One node orders; all of them load a new certificate within seconds.

mod failure;
mod http;
mod order;
mod parts;
mod rows;

use std::{sync::Arc, time::Duration};

use rand::Rng;
use rustls::{
    crypto::ring::sign::any_supported_type, pki_types::PrivateKeyDer, sign::CertifiedKey,
};
use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use self::order::{Authority, Orderer};
pub use self::parts::Parts;
use super::{
    certificate::Certificate,
    store::{Answers, CertificateSource, CertificateStore, Failure},
};
use crate::{
    db::{Conn, Db, DbError},
    secrets::{self, Sealed, SecretError},
    text_enum::text_enum,
    time::Timestamp,
    tls_settings::AcmeSettings,
};

/// Interval between checks for a new certificate, and for one that is due.
const CHECK_EVERY: Duration = Duration::from_secs(5);
/// Pause after an error of this server, so that it does not create one order after the other.
const RETRY_AFTER: Duration = Duration::from_mins(1);
/// Renewals are spread over this part of the time that is left.
const JITTER_PART: u32 = 10;

text_enum! {
    /// Outcome of an order.
    enum OrderResult {
        Issued = "issued",
        Failed = "failed",
    }
}

/// The certificate for the names of this server.
pub struct Acme {
    parts: Parts,
    names: Vec<String>,
    /// `names`, separated by commas.
    key: String,
    orderer: Orderer,
    /// Newest version of the stored certificate that was read.
    loaded: i64,
    /// False if the version that was read cannot be used, so that another certificate is ordered.
    is_usable: bool,
    pub store: Arc<CertificateStore>,
}

impl Acme {
    /// Loads the stored certificate, if there is one.
    ///
    /// # Errors
    /// If the database does not respond, or no client for HTTPS can be created.
    pub async fn open(
        parts: Parts,
        names: Vec<String>,
        settings: AcmeSettings,
    ) -> anyhow::Result<Self> {
        let store = CertificateStore::new(CertificateSource::Acme, Some(answers(parts.clone())));
        let key = names.join(",");
        let authority = Authority::new(settings)?;
        let mut this = Self {
            orderer: Orderer::new(authority, parts.clone(), names.clone(), key.clone()),
            parts,
            names,
            key,
            loaded: 0,
            is_usable: true,
            store,
        };
        this.load().await?;
        Ok(this)
    }

    /// Loads new certificates and orders them when they are due, until `shutdown`.
    pub async fn keep(mut self, shutdown: CancellationToken) {
        loop {
            // An order is large, and rare.
            let round = shutdown.run_until_cancelled(Box::pin(self.check())).await;
            let pause = match round {
                None => return,
                Some(Ok(())) => CHECK_EVERY,
                Some(Err(e)) => {
                    tracing::warn!(error = %e, "the certificate could not be checked; retrying");
                    RETRY_AFTER
                }
            };
            let pause = tokio::time::sleep(pause);
            if shutdown.run_until_cancelled(pause).await.is_none() {
                return;
            }
        }
    }

    async fn check(&mut self) -> Result<(), SecretError> {
        let row = self.load().await?;
        if (self.parts.may_order)() && row.is_due(Timestamp::now()) {
            self.order(row).await?;
            self.load().await?;
        }
        Ok(())
    }

    /// Uses the stored certificate, if it is newer than the one in use. The returned row has no chain if it cannot be used.
    async fn load(&mut self) -> Result<rows::Row, SecretError> {
        let mut c = self.parts.db.read().await?;
        let mut row = rows::find(&mut c, &self.key).await?.unwrap_or_default();
        if row.version != self.loaded {
            let sealed = secrets::find(&mut c, &rows::key_of(&self.key)).await?;
            drop(c);
            self.is_usable = true;
            if let (Some(chain), Some(sealed)) = (&row.chain, sealed) {
                match self.parse(chain, &sealed) {
                    Ok(certificate) => self.store.replace(certificate),
                    Err(cause) => {
                        tracing::error!(
                            "the stored certificate cannot be used: {cause}; ordering another"
                        );
                        self.is_usable = false;
                    }
                }
            }
            self.store.fail(row.failure(), row.next_attempt_at);
            self.loaded = row.version;
        }
        if !self.is_usable {
            row.chain = None;
        }
        Ok(row)
    }

    fn parse(&self, chain: &str, key: &Sealed) -> Result<Certificate, String> {
        let key = self.parts.keyring.open(&rows::key_of(&self.key), key);
        let key = key
            .map_err(|_| "its key cannot be decrypted with this server's secret key".to_owned())?;
        Certificate::parse(chain.as_bytes(), key.as_bytes()).map_err(|e| e.to_string())
    }

    async fn order(&mut self, row: rows::Row) -> Result<(), SecretError> {
        tracing::info!(names = self.key, "ordering a certificate");
        let ordered = self.orderer.order(&row).await?;
        let result = match &ordered {
            Ok(_) => OrderResult::Issued,
            Err(_) => OrderResult::Failed,
        };
        metrics::counter!("openvibe_acme_orders_total", "result" => result.as_str()).increment(1);
        let (key, names) = (self.key.clone(), self.names.clone());
        match ordered {
            Ok(issued) => {
                let parsed = issued.parsed;
                let left = parsed.expires_at.since(parsed.renew_at());
                let jitter = left.mul_f64(rand::rng().random::<f64>()) / JITTER_PART;
                let issued = rows::Issued {
                    key: self.parts.keyring.seal(&rows::key_of(&key), &issued.key)?,
                    chain: issued.chain,
                    expires_at: parsed.expires_at,
                    renew_at: parsed.renew_at() + jitter,
                };
                tracing::info!(names = key, "a certificate was issued");
                self.parts
                    .db
                    .write(Uuid::nil(), async move |c: &mut Conn| {
                        rows::store(c, &key, &issued).await?;
                        rows::delete_challenges(c, &names).await
                    })
                    .await?;
            }
            Err(failed) => {
                let next = Timestamp::now() + failure::delay_after(row.attempts);
                let next = failed.retry_at.map_or(next, |at| at.max(next));
                tracing::warn!(next = %next.to_text(), "no certificate: {}", failed.failure.text);
                self.parts
                    .db
                    .write(Uuid::nil(), async move |c: &mut Conn| {
                        rows::fail(c, &key, &failed.failure, next, failed.keeps_order).await?;
                        rows::delete_challenges(c, &names).await
                    })
                    .await?;
            }
        }
        Ok(())
    }
}

/// Makes the next attempt due now. Returns false if nothing was ordered yet.
///
/// # Errors
/// Only database errors.
pub async fn renew_now(c: &mut Conn, names: &[String]) -> Result<bool, DbError> {
    rows::renew_now(c, &names.join(",")).await
}

/// Newest failure to order a certificate for these names, until one is issued.
///
/// # Errors
/// Only database errors.
pub async fn find_failure(c: &mut Conn, names: &[String]) -> Result<Option<Failure>, DbError> {
    let row = rows::find(c, &names.join(",")).await?;
    Ok(row.and_then(|row| row.failure()))
}

/// Answer to the HTTP-01 challenge with this token.
///
/// # Errors
/// Only database errors.
pub async fn answer_to_token(db: &Db, token: &str) -> Result<Option<String>, DbError> {
    rows::answer_to_token(&mut db.read().await?, token).await
}

/// Certificates that answer TLS-ALPN-01 challenges.
fn answers(parts: Parts) -> Answers {
    Arc::new(move |name| {
        let parts = parts.clone();
        Box::pin(async move {
            let mut c = parts.db.read().await.ok()?;
            let answer = rows::answer_for_name(&mut c, &name).await.ok()??;
            challenge_certificate(name, &answer)
        })
    })
}

/// A self-signed certificate that contains the hash of the answer (RFC 8737).
fn challenge_certificate(name: String, answer: &str) -> Option<Arc<CertifiedKey>> {
    let mut certificate = rcgen::CertificateParams::new([name]).ok()?;
    let digest = Sha256::digest(answer.as_bytes());
    certificate.custom_extensions = vec![rcgen::CustomExtension::new_acme_identifier(&digest)];
    let key = rcgen::KeyPair::generate().ok()?;
    let chain = vec![certificate.self_signed(&key).ok()?.into()];
    let key = any_supported_type(&PrivateKeyDer::Pkcs8(key.serialize_der().into())).ok()?;
    // Not `from_der`, which refuses the critical extension.
    Some(Arc::new(CertifiedKey::new(chain, key)))
}
