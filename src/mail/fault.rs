use crate::secrets::SecretError;

/// Reason why an email cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum MailFault {
    #[error("Email is off. Set OPENVIBE_SMTP_URL to turn it on.")]
    Off,
    #[error("the email address cannot be used")]
    Address,
    #[error(transparent)]
    Secret(#[from] SecretError),
}
