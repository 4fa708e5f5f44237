//! HTTPS without a proxy: the server's certificate and its renewal.

pub mod acme;
pub mod certificate;
pub mod files;
pub mod renewal;
pub mod store;

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use self::{acme::Acme, files::Files, store::CertificateStore};
use crate::tls_settings::{TlsSettings, TlsSource};

/// What keeps the certificate up to date.
pub enum CertificateKeeper {
    Files(Files),
    Acme(Box<Acme>),
}

impl CertificateKeeper {
    /// Reads the operator's files, or loads the stored certificate.
    ///
    /// # Errors
    /// The problem as a sentence for the operator.
    pub async fn open(settings: &TlsSettings, parts: acme::Parts) -> anyhow::Result<Self> {
        Ok(match &settings.source {
            TlsSource::Files(pair) => Self::Files(Files::open(pair.clone())?),
            TlsSource::Acme(acme) => {
                let acme = Acme::open(parts, settings.names.clone(), acme.clone()).await?;
                Self::Acme(Box::new(acme))
            }
        })
    }

    pub fn store(&self) -> Arc<CertificateStore> {
        match self {
            Self::Files(files) => Arc::clone(&files.store),
            Self::Acme(acme) => Arc::clone(&acme.store),
        }
    }

    /// Works until `shutdown`.
    pub async fn keep(self, shutdown: CancellationToken) {
        match self {
            Self::Files(files) => files.follow(shutdown).await,
            Self::Acme(acme) => acme.keep(shutdown).await,
        }
    }
}
