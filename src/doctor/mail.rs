//! Check `mail`: connection, encryption, and login of the mail server.

use std::time::Duration;

use super::{finding::Finding, subject::CheckedServer};
use crate::mail::{Sending, smtp::SendFault};

/// Time limit of the conversation with the mail server, which is shorter than that of a check. A server that waits for TLS
/// sends nothing.
const ANSWER_WITHIN: Duration = Duration::from_secs(8);

pub(super) async fn check(s: &CheckedServer) -> Finding {
    let (smtp, from) = (s.config.smtp.as_ref(), s.config.mail_from.as_ref());
    let Some(sending) = Sending::new(smtp, from, &s.public_url) else {
        return Finding::skipped("email is off: set OPENVIBE_SMTP_URL to turn it on");
    };
    if let Err(finding) = s.require_outgoing() {
        return finding;
    }
    let server = &sending.smtp;
    let checked = tokio::time::timeout(ANSWER_WITHIN, sending.check()).await;
    let silent = || format!("no answer within {} s", ANSWER_WITHIN.as_secs());
    match checked.unwrap_or_else(|_| Err(SendFault::Later(silent()))) {
        Ok(_) if sending.from.email.domain() == "localhost" => Finding::warning(
            format!(
                "{server} accepts the login, but the sender is {}",
                sending.from.email
            ),
            "set OPENVIBE_MAIL_FROM to an address of your domain",
        ),
        Ok(_) => Finding::ok(format!(
            "{server} accepts the login; the sender is {}",
            sending.from.email
        )),
        Err(SendFault::Later(text)) => Finding::failed(
            format!("{server} cannot be reached: {text}"),
            "start the mail server, open the port, or correct OPENVIBE_SMTP_URL: smtps:// for port 465, smtp:// for STARTTLS",
        ),
        Err(fault) => Finding::failed(
            format!("{server}: {}", fault.text()),
            "correct user, password, or port in OPENVIBE_SMTP_URL; OPENVIBE_CA_FILE names private certificate authorities",
        ),
    }
}
