//! Settings of the mail server: `OPENVIBE_SMTP_URL`, `OPENVIBE_MAIL_FROM`.

use std::{fmt, net::IpAddr};

use lettre::{message::Mailbox, transport::smtp::authentication::Credentials};
use percent_encoding::percent_decode_str;

use crate::outbound::Url;

/// Port of `smtps://` (RFC 8314).
const TLS_PORT: u16 = 465;
/// Port of `smtp://` (RFC 6409).
const SUBMISSION_PORT: u16 = 587;

/// Encryption of the connection to the mail server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MailEncryption {
    /// TLS from the first byte.
    Tls,
    /// STARTTLS, without which nothing is sent.
    StartTls,
    /// STARTTLS if the server offers it: only on this machine.
    StartTlsIfOffered,
}

/// The mail server, and the account on it.
#[derive(Clone)]
pub struct SmtpSettings {
    pub host: String,
    pub port: u16,
    pub encryption: MailEncryption,
    pub credentials: Option<Credentials>,
}

/// The address, without the account.
impl fmt::Display for SmtpSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

impl fmt::Debug for SmtpSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl SmtpSettings {
    /// Parses `smtps://USER:PASSWORD@HOST:PORT` or `smtp://…`.
    ///
    /// # Errors
    /// A description that does not contain the value.
    pub fn parse(text: &str) -> Result<Option<Self>, String> {
        const FORM: &str = "the value must be smtps://USER:PASSWORD@HOST:PORT, or smtp:// for STARTTLS, with special characters of the \
                            password as %XX";
        let url = Url::parse(text.trim()).map_err(|_| FORM.to_owned())?;
        let host = url.host_str().filter(|host| !host.is_empty());
        let host = host.ok_or_else(|| FORM.to_owned())?;
        let host = host.trim_matches(['[', ']']).to_owned();
        let is_bare =
            matches!(url.path(), "" | "/") && url.query().is_none() && url.fragment().is_none();
        let (port, encryption) = match url.scheme() {
            "smtps" if is_bare => (TLS_PORT, MailEncryption::Tls),
            "smtp" if is_bare && is_loopback(&host) => {
                (SUBMISSION_PORT, MailEncryption::StartTlsIfOffered)
            }
            "smtp" if is_bare => (SUBMISSION_PORT, MailEncryption::StartTls),
            _ => return Err(FORM.to_owned()),
        };
        let decoded = |text: &str| percent_decode_str(text).decode_utf8().map(String::from);
        let (Ok(user), Ok(password)) = (
            decoded(url.username()),
            decoded(url.password().unwrap_or_default()),
        ) else {
            return Err(FORM.to_owned());
        };
        Ok(Some(Self {
            host,
            port: url.port().unwrap_or(port),
            encryption,
            credentials: (!user.is_empty()).then(|| Credentials::new(user, password)),
        }))
    }
}

fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
}

/// Parses a sender such as `OpenVibe <chat@example.org>`.
///
/// # Errors
/// A description of the form.
pub fn parse_sender(text: &str) -> Result<Option<Mailbox>, String> {
    let sender = text.trim().parse().map(Some);
    sender.map_err(|_| "the value must be an email address, such as chat@example.org or OpenVibe <chat@example.org>".to_owned())
}

/// Sender of a server without `OPENVIBE_MAIL_FROM`: `openvibe@` the host of its public URL.
pub fn default_sender(public_url: &str) -> Option<Mailbox> {
    let url = Url::parse(public_url).ok()?;
    let host = url.host_str()?;
    let host = if host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok() {
        "localhost"
    } else {
        host
    };
    format!("OpenVibe <openvibe@{host}>").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_reached_without_encryption() {
        for (text, host, port, encryption) in [
            (
                "smtps://mail.example.org",
                "mail.example.org",
                465,
                MailEncryption::Tls,
            ),
            (
                "smtp://u:p%40@mail.example.org:2525/",
                "mail.example.org",
                2525,
                MailEncryption::StartTls,
            ),
            (
                "smtp://127.0.0.1:25",
                "127.0.0.1",
                25,
                MailEncryption::StartTlsIfOffered,
            ),
            (
                "smtp://localhost",
                "localhost",
                587,
                MailEncryption::StartTlsIfOffered,
            ),
        ] {
            let settings = SmtpSettings::parse(text).unwrap().unwrap();
            assert_eq!(
                (settings.host.as_str(), settings.port, settings.encryption),
                (host, port, encryption),
                "{text}"
            );
        }
        for text in [
            "mail.example.org",
            "http://mail.example.org",
            "smtp://mail.example.org/path",
            "smtp://",
            "smtps://h?x=1",
        ] {
            assert!(SmtpSettings::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_password_is_in_no_log() {
        let settings = SmtpSettings::parse("smtp://ada:hunter2@mail.example.org").unwrap();
        assert!(!format!("{settings:?}").contains("hunter2"));
    }

    #[test]
    fn the_default_sender_has_the_host_of_the_public_url() {
        for (url, address) in [
            ("https://chat.example.org", "openvibe@chat.example.org"),
            ("http://127.0.0.1:8080", "openvibe@localhost"),
        ] {
            assert_eq!(default_sender(url).unwrap().email.to_string(), address);
        }
    }
}
