//! The certificate that the listener uses, and its state for admins.

use std::{
    fmt,
    sync::{Arc, PoisonError, RwLock},
};

use futures::future::BoxFuture;
use rustls::{
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};

use super::certificate::Certificate;
use crate::{http::tls::Certificates, text_enum::text_enum, time::Timestamp};

text_enum! {
    /// Origin of the server's certificate.
    pub enum CertificateSource {
        Acme = "acme",
        Files = "files",
        /// A proxy in front of the server has it.
        Proxy = "proxy",
        None = "none",
    }
}

text_enum! {
    /// Reason why a certificate could not be obtained or read.
    pub enum CertificateFault {
        Dns = "dns",
        Connect = "connect",
        WrongAnswer = "wrong_answer",
        RateLimited = "rate_limited",
        Caa = "caa",
        CaUnavailable = "ca_unavailable",
        /// The files of the operator cannot be used.
        Files = "files",
    }
}

/// A failure to obtain or to read a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    pub reason: CertificateFault,
    /// A sentence for the operator.
    pub text: String,
}

#[derive(Debug, Default)]
struct Current {
    certificate: Option<Arc<Certificate>>,
    failure: Option<Failure>,
    next_attempt_at: Option<Timestamp>,
}

/// Answers TLS-ALPN-01 challenges.
pub type Answers =
    Arc<dyn Fn(String) -> BoxFuture<'static, Option<Arc<CertifiedKey>>> + Send + Sync>;

/// The certificate in use. Replacing it closes no connection.
pub struct CertificateStore {
    pub source: CertificateSource,
    current: RwLock<Current>,
    answers: Option<Answers>,
}

impl fmt::Debug for CertificateStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CertificateStore").finish_non_exhaustive()
    }
}

impl CertificateStore {
    pub fn new(source: CertificateSource, answers: Option<Answers>) -> Arc<Self> {
        Arc::new(Self {
            source,
            current: RwLock::default(),
            answers,
        })
    }

    pub fn certificate(&self) -> Option<Arc<Certificate>> {
        self.read(|current| current.certificate.clone())
    }

    /// Checks whether clients can verify the certificate in use.
    pub fn verifies(&self) -> bool {
        let now = Timestamp::now();
        self.read(|current| {
            let own = current.certificate.as_ref();
            own.is_some_and(|own| own.is_issued && (own.issued_at..own.expires_at).contains(&now))
        })
    }

    pub fn failure(&self) -> Option<Failure> {
        self.read(|current| current.failure.clone())
    }

    pub fn next_attempt_at(&self) -> Option<Timestamp> {
        self.read(|current| current.next_attempt_at)
    }

    fn read<T>(&self, look: impl FnOnce(&Current) -> T) -> T {
        look(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn change(&self, change: impl FnOnce(&mut Current)) {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        change(&mut current);
    }

    /// Uses another certificate for new connections.
    pub(super) fn replace(&self, certificate: Certificate) {
        #[expect(
            clippy::cast_precision_loss,
            reason = "seconds since 1970 are exact in a double"
        )]
        let expires = certificate.expires_at.unix_s() as f64;
        metrics::gauge!("openvibe_certificate_expires_timestamp_seconds").set(expires);
        self.change(|current| {
            *current = Current {
                certificate: Some(Arc::new(certificate)),
                ..Current::default()
            };
        });
    }

    /// Records a failure; the certificate in use remains.
    pub(super) fn fail(&self, failure: Option<Failure>, next_attempt_at: Option<Timestamp>) {
        self.change(|current| {
            current.failure = failure;
            current.next_attempt_at = next_attempt_at;
        });
    }
}

impl ResolvesServerCert for CertificateStore {
    /// A client that names no server gets the certificate; one that names another server is refused.
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let certificate = self.certificate()?;
        let is_ours = hello
            .server_name()
            .is_none_or(|name| certificate.covers(name));
        is_ours.then(|| Arc::clone(&certificate.key))
    }
}

impl Certificates for CertificateStore {
    fn answer(&self, name: String) -> BoxFuture<'static, Option<Arc<CertifiedKey>>> {
        match &self.answers {
            Some(answers) => answers(name),
            None => Box::pin(std::future::ready(None)),
        }
    }
}
