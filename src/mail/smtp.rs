//! Connections to the mail server.

use std::{net::IpAddr, time::Duration};

use lettre::{
    Address,
    address::Envelope,
    transport::smtp::{
        Error as SmtpError,
        authentication::DEFAULT_MECHANISMS,
        client::{AsyncSmtpConnection, Certificate, CertificateStore, TlsParameters},
        commands::{Data, Mail, Rcpt},
        extension::ClientId,
        response::Response,
    },
};
use tokio::time::timeout;

use super::settings::{MailEncryption, SmtpSettings};
use crate::trust;

/// Time limit of each step, after which the server counts as stalled.
const STEP_WITHIN: Duration = Duration::from_secs(30);
/// Maximum length of an answer that is stored and shown, in characters.
const ANSWER_CHARS_MAX: usize = 200;

/// Reason why an email was not sent, as a sentence or the server's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SendFault {
    /// The server refuses this recipient or email for good.
    Refused(String),
    /// A later attempt can succeed.
    Later(String),
    /// No email can be sent until the operator changes something, such as the password.
    Server(String),
}

impl SendFault {
    pub fn text(&self) -> &str {
        match self {
            Self::Refused(text) | Self::Later(text) | Self::Server(text) => text,
        }
    }
}

/// An open connection to the mail server, signed in.
pub struct MailConnection(AsyncSmtpConnection);

impl MailConnection {
    /// Connects with encryption and signs in. `hello` is the name of this server.
    pub async fn open(settings: &SmtpSettings, hello: &str) -> Result<Self, SendFault> {
        let client = match hello.trim_matches(['[', ']']).parse() {
            Ok(IpAddr::V4(ip)) => ClientId::Ipv4(ip),
            Ok(IpAddr::V6(ip)) => ClientId::Ipv6(ip),
            Err(_) => ClientId::Domain(hello.to_owned()),
        };
        let tls = tls_parameters(&settings.host)
            .map_err(|e| SendFault::Server(format!("TLS cannot be used: {}", described(&e))))?;
        let from_start = (settings.encryption == MailEncryption::Tls).then(|| tls.clone());
        let address = (settings.host.as_str(), settings.port);
        let connecting = AsyncSmtpConnection::connect_tokio1(
            address,
            Some(STEP_WITHIN),
            &client,
            from_start,
            None,
        );
        let mut connection = within(connecting).await?.map_err(|e| of_connection(&e))?;
        let must_encrypt = settings.encryption == MailEncryption::StartTls;
        if must_encrypt && !connection.can_starttls() {
            let text = format!(
                "{} does not offer STARTTLS: use smtps://, or another port",
                settings.host
            );
            return Err(SendFault::Server(text));
        }
        if connection.can_starttls() {
            within(connection.starttls(tls, &client))
                .await?
                .map_err(|e| of_connection(&e))?;
        }
        if let Some(credentials) = &settings.credentials {
            let signed_in = within(connection.auth(DEFAULT_MECHANISMS, credentials)).await?;
            signed_in.map_err(|e| {
                if e.is_permanent() || e.is_client() {
                    SendFault::Server(format!(
                        "{} refuses the login: {}",
                        settings.host,
                        described(&e)
                    ))
                } else {
                    of_step(&e)
                }
            })?;
        }
        Ok(Self(connection))
    }

    /// Sends an email. Returns the server's answer.
    pub async fn send(&mut self, envelope: &Envelope, message: &[u8]) -> Result<String, SendFault> {
        let sender = envelope.from().cloned();
        self.command(Mail::new(sender, Vec::new()))
            .await
            .map_err(|fault| match fault {
                SendFault::Refused(text) => {
                    SendFault::Server(format!("the sender is refused: {text}"))
                }
                other => other,
            })?;
        for recipient in envelope.to() {
            let recipient: Address = recipient.clone();
            self.command(Rcpt::new(recipient, Vec::new())).await?;
        }
        self.command(Data).await?;
        let answer = within(self.0.message(message)).await?;
        answer.map(|answer| shown(&answer)).map_err(|e| of_step(&e))
    }

    /// Ends the connection. The result does not matter anymore.
    pub async fn close(mut self) {
        drop(timeout(STEP_WITHIN, self.0.abort()).await);
    }

    async fn command(&mut self, command: impl std::fmt::Display) -> Result<Response, SendFault> {
        within(self.0.command(command))
            .await?
            .map_err(|e| of_step(&e))
    }
}

fn tls_parameters(host: &str) -> Result<TlsParameters, SmtpError> {
    let mut tls =
        TlsParameters::builder(host.to_owned()).certificate_store(CertificateStore::WebpkiRoots);
    let extra = trust::pem();
    if !extra.is_empty() {
        tls = tls.add_root_certificate(Certificate::from_pem(extra)?);
    }
    tls.build_rustls()
}

async fn within<T>(step: impl Future<Output = T>) -> Result<T, SendFault> {
    let done = timeout(STEP_WITHIN, step).await;
    done.map_err(|_| {
        SendFault::Later(format!(
            "there was no answer within {} s",
            STEP_WITHIN.as_secs()
        ))
    })
}

/// Fault while a connection is opened. The client reports a certificate that is not trusted as a lost connection.
fn of_connection(e: &SmtpError) -> SendFault {
    if trust::tls_error(e).is_some() || e.is_tls() || e.is_permanent() {
        SendFault::Server(described(e))
    } else {
        SendFault::Later(described(e))
    }
}

fn of_step(e: &SmtpError) -> SendFault {
    if e.is_permanent() {
        SendFault::Refused(described(e))
    } else {
        SendFault::Later(described(e))
    }
}

/// Describes an error with its causes.
fn described(e: &SmtpError) -> String {
    let mut source = std::error::Error::source(e);
    if let Some(code) = e.status() {
        let text = source.map(ToString::to_string).unwrap_or_default();
        return bounded(&format!("{code} {text}"));
    }
    let mut text = e.to_string();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    bounded(&text)
}

fn shown(answer: &Response) -> String {
    let lines: Vec<&str> = answer.message().collect();
    bounded(&format!("{} {}", answer.code(), lines.join(" ")))
}

/// One line of limited length without control characters: a server can answer anything.
fn bounded(text: &str) -> String {
    let words: Vec<&str> = text
        .split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|word| !word.is_empty())
        .collect();
    words.join(" ").chars().take(ANSWER_CHARS_MAX).collect()
}
