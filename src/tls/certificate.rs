//! A certificate with its key.

use std::sync::Arc;

use rustls::{
    crypto::CryptoProvider,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    sign::CertifiedKey,
};
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

use crate::{time::Timestamp, trust};

#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    #[error("the file with the certificate has no certificate in PEM format")]
    NoCertificate,
    #[error("the file with the key has no private key in PEM format without a password")]
    NoKey,
    #[error("the key does not belong to the certificate")]
    OtherKey,
    #[error("the certificate cannot be read")]
    Unreadable,
}

/// A certificate chain with its key, and what the first certificate says.
#[derive(Debug)]
pub struct Certificate {
    pub(super) key: Arc<CertifiedKey>,
    /// DNS names.
    pub names: Vec<String>,
    /// Organization or common name of the issuer.
    pub issuer: String,
    /// False if the certificate has signed itself and `OPENVIBE_CA_FILE` does not name it.
    pub(super) is_issued: bool,
    pub issued_at: Timestamp,
    pub expires_at: Timestamp,
}

impl Certificate {
    /// Parses a chain and its key, both in PEM format.
    ///
    /// # Errors
    /// `CertificateError`, as a sentence without the content.
    pub fn parse(chain: &[u8], key: &[u8]) -> Result<Self, CertificateError> {
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(chain).collect();
        let chain = chain.map_err(|_| CertificateError::NoCertificate)?;
        let first = chain
            .first()
            .ok_or(CertificateError::NoCertificate)?
            .clone();
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| CertificateError::NoKey)?;
        let provider = CryptoProvider::get_default().ok_or(CertificateError::NoKey)?;
        let key = CertifiedKey::from_der(chain, key, provider).map_err(|e| match e {
            rustls::Error::InconsistentKeys(_) => CertificateError::OtherKey,
            rustls::Error::InvalidCertificate(_) => CertificateError::Unreadable,
            _ => CertificateError::NoKey,
        })?;
        let (_, parsed) =
            X509Certificate::from_der(&first).map_err(|_| CertificateError::Unreadable)?;
        let lifetime = lifetime_of(&first).ok_or(CertificateError::Unreadable)?;
        Ok(Self {
            key: Arc::new(key),
            names: names_of(&parsed),
            issuer: issuer_of(&parsed),
            is_issued: parsed.issuer() != parsed.subject() || trust::names(&first),
            issued_at: lifetime.issued_at,
            expires_at: lifetime.expires_at,
        })
    }

    /// Time at which the certificate should be renewed: after two thirds of its lifetime.
    pub fn renew_at(&self) -> Timestamp {
        let lifetime = self.expires_at.since(self.issued_at);
        self.expires_at - lifetime / 3
    }

    /// Checks whether the certificate is for this name. A wildcard covers one label.
    pub(super) fn covers(&self, name: &str) -> bool {
        let name = name.trim_end_matches('.').to_ascii_lowercase();
        let parent = name.split_once('.').map(|(_, parent)| parent);
        self.names.iter().any(|own| {
            own.strip_prefix("*.")
                .map_or(*own == name, |own| Some(own) == parent)
        })
    }
}

/// Times between which a certificate is valid.
pub struct Lifetime {
    pub issued_at: Timestamp,
    pub expires_at: Timestamp,
}

/// Lifetime of a certificate in DER format; `None` if it cannot be read.
pub fn lifetime_of(der: &[u8]) -> Option<Lifetime> {
    let (_, parsed) = X509Certificate::from_der(der).ok()?;
    let validity = parsed.validity();
    Some(Lifetime {
        issued_at: time(validity.not_before.timestamp())?,
        expires_at: time(validity.not_after.timestamp())?,
    })
}

fn time(unix_s: i64) -> Option<Timestamp> {
    chrono::DateTime::from_timestamp(unix_s, 0).and_then(Timestamp::within_years)
}

fn names_of(certificate: &X509Certificate<'_>) -> Vec<String> {
    let extension = certificate.subject_alternative_name().ok().flatten();
    let names = extension.into_iter().flat_map(|e| &e.value.general_names);
    names
        .filter_map(|name| match name {
            GeneralName::DNSName(name) => Some(name.to_ascii_lowercase()),
            _ => None,
        })
        .collect()
}

fn issuer_of(certificate: &X509Certificate<'_>) -> String {
    let issuer = certificate.issuer();
    let mut named = issuer.iter_organization().chain(issuer.iter_common_name());
    let text = named.find_map(|part| part.as_str().ok());
    text.unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A self-signed certificate for these names, and its key, in PEM format.
    fn self_signed(names: &[&str]) -> (String, String) {
        drop(rustls::crypto::ring::default_provider().install_default());
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let made = rcgen::generate_simple_self_signed(names).unwrap();
        (made.cert.pem(), made.signing_key.serialize_pem())
    }

    #[test]
    fn a_certificate_names_its_hosts_and_covers_only_them() {
        let (chain, key) = self_signed(&["chat.example.org", "*.team.example"]);
        let certificate = Certificate::parse(chain.as_bytes(), key.as_bytes()).unwrap();
        assert_eq!(certificate.names, ["chat.example.org", "*.team.example"]);
        for name in ["chat.example.org", "CHAT.example.org.", "a.team.example"] {
            assert!(certificate.covers(name), "{name}");
        }
        for name in ["example.org", "a.b.team.example", "team.example", ""] {
            assert!(!certificate.covers(name), "{name}");
        }
        assert!(certificate.renew_at() < certificate.expires_at);
        assert!(certificate.renew_at() > certificate.issued_at);
    }

    #[test]
    fn a_certificate_that_has_signed_itself_is_not_issued() {
        let is_issued = |chain: &str, key: &str| {
            let parsed = Certificate::parse(chain.as_bytes(), key.as_bytes());
            parsed.unwrap().is_issued
        };
        let (chain, key) = self_signed(&["a.example"]);
        assert!(!is_issued(&chain, &key));
        let mut authority = rcgen::CertificateParams::new(Vec::new()).unwrap();
        authority
            .distinguished_name
            .push(rcgen::DnType::CommonName, "Works");
        let authority = rcgen::Issuer::new(authority, rcgen::KeyPair::generate().unwrap());
        let key = rcgen::KeyPair::generate().unwrap();
        let own = rcgen::CertificateParams::new(vec!["a.example".to_owned()]).unwrap();
        let own = own.signed_by(&key, &authority).unwrap();
        assert!(is_issued(&own.pem(), &key.serialize_pem()));
    }

    #[test]
    fn a_broken_pair_is_refused_with_its_reason() {
        let (chain, key) = self_signed(&["a.example"]);
        let (_, other) = self_signed(&["a.example"]);
        let refused = |chain: &str, key: &str| {
            let parsed = Certificate::parse(chain.as_bytes(), key.as_bytes());
            parsed.unwrap_err().to_string()
        };
        assert_eq!(
            refused(&chain, &other),
            "the key does not belong to the certificate"
        );
        assert!(refused("", &key).starts_with("the file with the certificate"));
        assert!(refused(&chain, &chain).starts_with("the file with the key"));
    }
}
