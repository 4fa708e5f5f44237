//! Addresses of NATS servers, and the login in them. The NATS client logs the addresses that it connects to, and does not sign in with
//! what they contain, so user, password, and token are passed to it separately.

use std::net::IpAddr;

use crate::trust;
use async_nats::{ConnectOptions, ServerAddr};
use percent_encoding::percent_decode_str;

#[derive(Debug, thiserror::Error)]
pub enum NatsError {
    #[error("NATS rejected the credentials in OPENVIBE_NATS_URL: correct them")]
    Rejected,
    #[error("OPENVIBE_NATS_URL: {0}")]
    Url(String),
    #[error("OPENVIBE_NATS_CREDENTIALS: {0}")]
    Credentials(String),
}

/// Credentials in the addresses.
#[derive(Clone, PartialEq, Eq)]
enum Login {
    Password { user: String, password: String },
    Token(String),
}

/// The servers of a cluster.
pub(super) struct Addresses {
    /// Addresses without credentials.
    pub(super) servers: Vec<ServerAddr>,
    login: Option<Login>,
}

impl Addresses {
    /// Parses the value of `OPENVIBE_NATS_URL`.
    pub(super) fn parse(urls: &str) -> Result<Self, NatsError> {
        let (mut servers, mut login) = (Vec::new(), None);
        for url in urls.split(',').map(str::trim) {
            let (server, own) = parse_one(url)?;
            servers.push(server);
            match (&login, own) {
                (Some(known), Some(own)) if *known != own => {
                    return Err(NatsError::Url(
                        "the addresses have different users or passwords: the servers of a cluster share them".to_owned(),
                    ));
                }
                (None, Some(own)) => login = Some(own),
                _ => {}
            }
        }
        Ok(Self { servers, login })
    }

    /// Adds the login to the options of a connection.
    pub(super) fn sign_in(&self, options: ConnectOptions) -> ConnectOptions {
        let options = match trust::file() {
            Some(file) => options.add_root_certificates(file.to_owned()),
            None => options,
        };
        match self.login.clone() {
            Some(Login::Password { user, password }) => options.user_and_password(user, password),
            Some(Login::Token(token)) => options.token(token),
            None => options,
        }
    }

    /// Host and port of a server on another machine if there is no login.
    pub(super) fn open_host(&self) -> Option<String> {
        let remote = self.servers.iter().find(|server| !is_loopback(server));
        remote
            .filter(|_| self.login.is_none())
            .map(|server| format!("{}:{}", server.host(), server.port()))
    }
}

fn is_loopback(server: &ServerAddr) -> bool {
    let address = server.host().parse::<IpAddr>();
    address.map_or_else(|_| server.host() == "localhost", |ip| ip.is_loopback())
}

fn parse_one(url: &str) -> Result<(ServerAddr, Option<Login>), NatsError> {
    let is_known = url.starts_with("nats://") || url.starts_with("tls://");
    let parsed = url.parse::<ServerAddr>().ok().filter(|_| is_known);
    // The error omits the URL, which can contain a password.
    let invalid =
        || NatsError::Url("each address must be nats://HOST:PORT or tls://HOST:PORT".to_owned());
    let mut url = parsed.ok_or_else(invalid)?.into_inner();
    let decoded = |text: &str| {
        let text = percent_decode_str(text).decode_utf8();
        text.map(String::from).map_err(|_| invalid())
    };
    let login = match (url.username(), url.password()) {
        ("", None) => None,
        (token, None) => Some(Login::Token(decoded(token)?)),
        (user, Some(password)) => Some(Login::Password {
            user: decoded(user)?,
            password: decoded(password)?,
        }),
    };
    url.set_username("")
        .and_then(|()| url.set_password(None))
        .map_err(|()| invalid())?;
    let server = ServerAddr::from_url(url).map_err(|_| invalid())?;
    Ok((server, login))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn login(urls: &str) -> Option<Login> {
        Addresses::parse(urls).unwrap().login
    }

    #[test]
    fn the_login_is_separate_from_the_addresses() {
        let urls = "nats://ov:p%40ss%2Fword@nats-1:4222, tls://ov:p%40ss%2Fword@nats-2";
        let parsed = Addresses::parse(urls).unwrap();
        let servers: Vec<&str> = parsed.servers.iter().map(ServerAddr::as_url_str).collect();
        assert_eq!(servers, ["nats://nats-1:4222", "tls://nats-2"]);
        let Some(Login::Password { user, password }) = parsed.login else {
            panic!("no login was found");
        };
        assert_eq!((user.as_str(), password.as_str()), ("ov", "p@ss/word"));
        assert!(login("nats://a:4222,nats://s3cr3t@b:4222") == Some(Login::Token("s3cr3t".into())));
        assert!(login("nats://a:4222").is_none());
    }

    #[test]
    fn an_error_in_an_address_does_not_contain_its_password() {
        for wrong in [
            "http://ov:hidden@nats:4222",
            "nats://ov:hidden@nats:port",
            "nats://ov:hidden@a,nats://ov:hidden2@b",
        ] {
            let error = Addresses::parse(wrong).map(|_| ()).unwrap_err().to_string();
            assert!(!error.contains("hidden"), "{error}");
        }
    }

    #[test]
    fn a_server_on_another_machine_without_a_login_is_open() {
        let open = |urls: &str| Addresses::parse(urls).unwrap().open_host();
        assert_eq!(open("nats://nats").as_deref(), Some("nats:4222"));
        let second = "nats://127.0.0.1:4222,nats://10.0.0.7:4223";
        assert_eq!(open(second).as_deref(), Some("10.0.0.7:4223"));
        for closed in [
            "nats://localhost:4222",
            "nats://[::1]:4222,nats://127.0.0.1",
            "nats://ov:secret@nats:4222",
            "nats://s3cr3t@nats:4222",
        ] {
            assert_eq!(open(closed), None, "{closed}");
        }
    }
}
