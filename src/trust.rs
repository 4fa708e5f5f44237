//! Certificate authorities that outgoing connections trust in addition to those of the system (`OPENVIBE_CA_FILE`).

use std::{
    error::Error,
    io,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use rustls::pki_types::{CertificateDer, pem::PemObject};

use crate::proxy;

/// The operator's authorities.
#[derive(Debug)]
struct Authorities {
    file: PathBuf,
    pem: Vec<u8>,
    certificates: Vec<reqwest::Certificate>,
}

static EXTRA: OnceLock<Authorities> = OnceLock::new();

/// Reads the certificate authorities in a PEM file, which all connections made later trust.
///
/// # Errors
/// The problem, as a sentence without the name of the setting.
pub fn trust_file(path: &Path) -> Result<(), String> {
    let shown = path.display();
    let pem = std::fs::read(path).map_err(|e| format!("{shown}: {e}"))?;
    let certificates = reqwest::Certificate::from_pem_bundle(&pem);
    let certificates = certificates.ok().filter(|found| !found.is_empty());
    let certificates =
        certificates.ok_or_else(|| format!("{shown} has no certificates in PEM format"))?;
    // Only one server runs in a process; tests that start several use no file.
    EXTRA.get_or_init(|| Authorities {
        file: path.to_owned(),
        pem,
        certificates,
    });
    Ok(())
}

/// Path of the operator's file, for libraries that read it themselves.
pub fn file() -> Option<&'static Path> {
    EXTRA.get().map(|extra| extra.file.as_path())
}

/// Content of the operator's file; empty without one.
pub fn pem() -> &'static [u8] {
    EXTRA.get().map_or(&[], |extra| &extra.pem)
}

/// Checks whether the operator's file contains this certificate.
pub fn names(certificate: &CertificateDer<'_>) -> bool {
    let mut named = CertificateDer::pem_slice_iter(pem()).flatten();
    named.any(|named| named == *certificate)
}

/// Starts a client for HTTP, which uses the operator's proxy, if there is one. All clients of the server begin here.
pub fn client_builder() -> reqwest::ClientBuilder {
    // Fails only if it is installed already.
    drop(rustls::crypto::ring::default_provider().install_default());
    let builder = reqwest::Client::builder();
    let builder = match proxy::get() {
        Some(proxy) => builder.proxy(proxy.of_client()),
        None => builder,
    };
    match EXTRA.get() {
        Some(extra) => builder.tls_certs_merge(extra.certificates.iter().cloned()),
        None => builder,
    }
}

/// Lets a client trust no authorities of the system, which take several milliseconds to read. Only for a client that makes direct
/// connections without TLS.
pub fn without_tls(builder: reqwest::ClientBuilder) -> reqwest::ClientBuilder {
    builder.tls_certs_only(std::iter::empty())
}

/// The TLS error inside of another error, if there is one.
pub fn tls_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a rustls::Error> {
    if let Some(found) = error.downcast_ref() {
        return Some(found);
    }
    // The source of an I/O error is that of its inner error, which may itself be another I/O error.
    match error.downcast_ref().and_then(io::Error::get_ref) {
        Some(inner) => tls_error(inner),
        None => error.source().and_then(tls_error),
    }
}

/// Advice for a failed request: the certificate's issuer is unknown, or only one side uses TLS. `None` for other errors.
pub fn advice(error: &(dyn Error + 'static)) -> Option<&'static str> {
    if is_not_http(error) {
        return Some(
            "this address speaks https, or another protocol than HTTP: use https:// instead of http://",
        );
    }
    match tls_error(error)? {
        rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer) => Some(
            "its certificate is not signed by a known authority: an operator can name yours in OPENVIBE_CA_FILE",
        ),
        // `openssl req -x509` makes such certificates by default. They are refused even if the operator's file contains them.
        rustls::Error::InvalidCertificate(rustls::CertificateError::Other(cause))
            if cause.to_string() == "CaUsedAsEndEntity" =>
        {
            Some(
                "its certificate is not signed by a known authority, but is one: create it with basicConstraints CA:FALSE, then an \
                 operator can name it in OPENVIBE_CA_FILE",
            )
        }
        rustls::Error::InvalidMessage(_) => {
            Some("this address speaks http: use http:// instead of https://")
        }
        _ => None,
    }
}

/// Checks whether the answer is not HTTP, such as that of a server with TLS to a request without.
fn is_not_http(error: &(dyn Error + 'static)) -> bool {
    match error.downcast_ref::<hyper::Error>() {
        Some(found) => found.is_parse(),
        None => error.source().is_some_and(is_not_http),
    }
}

/// Reason why a client could not be created.
pub fn setup_failure(error: &(dyn Error + 'static)) -> String {
    match tls_error(error) {
        Some(rustls::Error::General(text)) if text.starts_with("No CA certificates") => {
            "no certificate authorities are installed: install the package ca-certificates, or name a file in OPENVIBE_CA_FILE"
                .to_owned()
        }
        _ => innermost(error).to_string(),
    }
}

fn innermost<'a>(error: &'a (dyn Error + 'static)) -> &'a (dyn Error + 'static) {
    error.source().map_or(error, innermost)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_certificates_is_refused_by_name() {
        let problem = trust_file(Path::new("Cargo.toml")).unwrap_err();
        assert_eq!(problem, "Cargo.toml has no certificates in PEM format");
        assert!(
            trust_file(Path::new("absent.pem"))
                .unwrap_err()
                .starts_with("absent.pem: ")
        );
    }

    /// Error of a client that connects to a listener which answers the first bytes with this function.
    async fn failure(
        serve: impl AsyncFnOnce(tokio::net::TcpStream) + Send + 'static,
    ) -> reqwest::Error {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!(
            "https://localhost:{}/",
            listener.local_addr().unwrap().port()
        );
        let client = client_builder().no_proxy().build().unwrap();
        let asked = client.get(url).send();
        let served = async { serve(listener.accept().await.unwrap().0).await };
        let (failed, ()) = tokio::join!(asked, served);
        failed.unwrap_err()
    }

    #[test]
    fn a_machine_without_authorities_is_explained() {
        let text = "No CA certificates were loaded from the system".to_owned();
        let wrapped = io::Error::other(rustls::Error::General(text));
        let said = setup_failure(&wrapped);
        assert!(
            said.starts_with("no certificate authorities are installed"),
            "{said}"
        );
        assert_eq!(setup_failure(&io::Error::other("odd")), "odd");
    }

    #[tokio::test]
    async fn a_server_with_tls_at_an_address_with_http_is_explained() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let client = client_builder().no_proxy().build().unwrap();
        let asked = client.get(url).send();
        let served = async {
            let (mut tcp, _) = listener.accept().await.unwrap();
            let mut asked = [0; 4];
            drop(tokio::io::AsyncReadExt::read_exact(&mut tcp, &mut asked).await);
            // A fatal alert of TLS 1.2: the record has a wrong version.
            let alert = [0x15, 3, 3, 0, 2, 2, 70];
            drop(tokio::io::AsyncWriteExt::write_all(&mut tcp, &alert).await);
            drop(tokio::io::AsyncWriteExt::shutdown(&mut tcp).await);
            drop(tokio::io::copy(&mut tcp, &mut tokio::io::sink()).await);
        };
        let (failed, ()) = tokio::join!(asked, served);
        let said = advice(&failed.unwrap_err());
        assert!(
            said.is_some_and(|said| said.starts_with("this address speaks https")),
            "{said:?}"
        );
    }

    #[tokio::test]
    async fn an_unknown_authority_and_plain_http_are_explained() {
        drop(rustls::crypto::ring::default_provider().install_default());
        let authority = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        for (is_ca, part) in [
            (rcgen::IsCa::NoCa, "an operator can name yours in"),
            (authority, "create it with basicConstraints CA:FALSE"),
        ] {
            let mut own = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
            own.is_ca = is_ca;
            let key = rcgen::KeyPair::generate().unwrap();
            let certificate = own.self_signed(&key).unwrap();
            let config = rustls::ServerConfig::builder()
                .with_no_client_auth()
                .with_single_cert(
                    vec![certificate.into()],
                    key.serialize_der().try_into().unwrap(),
                )
                .unwrap();
            let acceptor = tokio_rustls::TlsAcceptor::from(std::sync::Arc::new(config));
            let unknown = failure(async move |tcp| drop(acceptor.accept(tcp).await)).await;
            let said = advice(&unknown).unwrap_or_else(|| panic!("{unknown:?}"));
            assert!(
                said.starts_with("its certificate is not signed by a known authority")
                    && said.contains(part)
                    && said.contains("OPENVIBE_CA_FILE"),
                "{said}"
            );
        }
        let plain = failure(async |mut tcp| {
            let answer = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n";
            drop(tokio::io::AsyncWriteExt::write_all(&mut tcp, answer).await);
        })
        .await;
        assert_eq!(
            advice(&plain),
            Some("this address speaks http: use http:// instead of https://")
        );
        let closed = failure(async |tcp| drop(tcp)).await;
        assert_eq!(advice(&closed), None);
    }
}
