//! The operator's own certificate, in two files.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::{
    certificate::{Certificate, CertificateError},
    store::{CertificateFault, CertificateSource, CertificateStore, Failure},
};
use crate::{blocking::blocking, tls_settings::KeyPair};

/// Interval between checks whether the files have changed.
const READ_EVERY: Duration = Duration::from_mins(1);

#[derive(Debug, thiserror::Error)]
pub enum FileError {
    // The cause is not a source, which would be printed twice.
    #[error("{name}: {}: {cause}", path.display())]
    Read {
        name: &'static str,
        path: PathBuf,
        cause: io::Error,
    },
    #[error("OPENVIBE_TLS_CERT, OPENVIBE_TLS_KEY: {0}")]
    Content(#[from] CertificateError),
}

/// Content of the two files.
#[derive(PartialEq, Eq)]
struct Content {
    chain: Vec<u8>,
    key: Vec<u8>,
}

impl Content {
    fn read(pair: &KeyPair) -> Result<Self, FileError> {
        let read = |name, path: &Path| {
            fs::read(path).map_err(|cause| FileError::Read {
                name,
                path: path.to_owned(),
                cause,
            })
        };
        Ok(Self {
            chain: read("OPENVIBE_TLS_CERT", &pair.certificate)?,
            key: read("OPENVIBE_TLS_KEY", &pair.key)?,
        })
    }
}

fn read(pair: &KeyPair) -> Result<(Content, Certificate), FileError> {
    let read = Content::read(pair)?;
    let certificate = Certificate::parse(&read.chain, &read.key)?;
    Ok((read, certificate))
}

/// Checks whether the files have a certificate and its key.
///
/// # Errors
/// The problem as a sentence that names the setting.
pub fn check(pair: &KeyPair) -> Result<(), FileError> {
    read(pair).map(drop)
}

/// A certificate that is read again when its files change.
pub struct Files {
    pair: KeyPair,
    used: Content,
    pub store: Arc<CertificateStore>,
}

impl Files {
    /// Reads the files.
    ///
    /// # Errors
    /// The problem as a sentence that names the setting.
    pub fn open(pair: KeyPair) -> Result<Self, FileError> {
        let (used, certificate) = read(&pair)?;
        let store = CertificateStore::new(CertificateSource::Files, None);
        store.replace(certificate);
        Ok(Self { pair, used, store })
    }

    /// Reads the files again after SIGHUP, and every minute, until `shutdown`. A broken pair is reported, and the earlier one
    /// remains in use.
    pub async fn follow(mut self, shutdown: CancellationToken) {
        let mut hangup = signal(SignalKind::hangup())
            .inspect_err(|e| tracing::warn!(error = %e, "SIGHUP is not handled"))
            .ok();
        loop {
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(READ_EVERY) => {}
                () = async {
                    match &mut hangup {
                        Some(hangup) => { hangup.recv().await; }
                        None => std::future::pending().await,
                    }
                } => {}
            }
            let pair = self.pair.clone();
            if let Ok(read) = blocking((), move || Content::read(&pair)).await {
                self.take(read);
            }
        }
    }

    fn take(&mut self, read: Result<Content, FileError>) {
        let parsed = match read {
            Ok(read) if read == self.used => {
                self.store.fail(None, None);
                return;
            }
            Ok(read) => Certificate::parse(&read.chain, &read.key)
                .map(|certificate| (read, certificate))
                .map_err(FileError::from),
            Err(e) => Err(e),
        };
        match parsed {
            Ok((read, certificate)) => {
                tracing::info!(expires = %certificate.expires_at.to_text(), "using a new certificate");
                self.used = read;
                self.store.replace(certificate);
            }
            Err(e) => {
                let failure = Failure {
                    reason: CertificateFault::Files,
                    text: format!("{e}; the earlier certificate remains in use"),
                };
                if self.store.failure().as_ref() != Some(&failure) {
                    tracing::warn!("{}", failure.text);
                }
                self.store.fail(Some(failure), None);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn self_signed(name: &str) -> (String, String) {
        drop(rustls::crypto::ring::default_provider().install_default());
        let made = rcgen::generate_simple_self_signed(vec![name.to_owned()]).unwrap();
        (made.cert.pem(), made.signing_key.serialize_pem())
    }

    fn write(pair: &KeyPair, (chain, key): &(String, String)) {
        fs::write(&pair.certificate, chain).unwrap();
        fs::write(&pair.key, key).unwrap();
    }

    fn names(files: &Files) -> Vec<String> {
        files.store.certificate().unwrap().names.clone()
    }

    #[test]
    fn a_new_pair_replaces_the_old_one_and_a_broken_pair_does_not() {
        let dir = std::env::temp_dir().join(format!("openvibe-tls-{}", uuid::Uuid::now_v7()));
        fs::create_dir(&dir).unwrap();
        let pair = KeyPair {
            certificate: dir.join("chain.pem"),
            key: dir.join("key.pem"),
        };
        assert!(Files::open(pair.clone()).is_err());
        write(&pair, &self_signed("old.example"));
        let mut files = Files::open(pair.clone()).unwrap();
        // A renewal in progress: only one of the two files is new.
        let new = self_signed("new.example");
        fs::write(&pair.certificate, &new.0).unwrap();
        files.take(Content::read(&pair));
        assert_eq!(names(&files), ["old.example"]);
        assert_eq!(
            files.store.failure().unwrap().text,
            "OPENVIBE_TLS_CERT, OPENVIBE_TLS_KEY: the key does not belong to the certificate; the earlier certificate \
             remains in use"
        );
        write(&pair, &new);
        files.take(Content::read(&pair));
        assert_eq!(names(&files), ["new.example"]);
        assert_eq!(files.store.failure(), None);
        fs::remove_file(&pair.key).unwrap();
        files.take(Content::read(&pair));
        assert_eq!(names(&files), ["new.example"]);
        let text = files.store.failure().unwrap().text;
        assert!(text.starts_with("OPENVIBE_TLS_KEY: "), "{text}");
        fs::remove_dir_all(dir).unwrap();
    }
}
