//! The sender of notifications, and what browsers learn of it.

use std::sync::Arc;

use serde::Serialize;
use tokio::sync::{Mutex, Notify};

use super::{
    answers::PushAnswers,
    device::{PushDevice, RecentDelivery, Subscription},
    error::PushError,
    origins::Origins,
    vapid::{Identity, Subject},
};
use crate::{
    config::NotifyPace,
    db::Db,
    outbound::{Denied, Rules},
    poster::Poster,
    realtime::Hub,
    secrets::{Keyring, SecretError},
    text_enum::text_enum,
};

text_enum! {
    /// Reason why the server cannot send notifications.
    pub enum PushUnavailable {
        /// An operator has to set `OPENVIBE_SECRET_KEY`.
        SecretKeyMissing = "secret_key_missing",
    }
}

/// Data for subscribing a browser, and the account's devices.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct PushStatus {
    pub available: bool,
    /// Null if the server can send notifications.
    pub reason: Option<PushUnavailable>,
    /// Key with which browsers subscribe, in base64url; null if the server cannot send notifications.
    pub public_key: Option<String>,
    /// False if Apple refuses the server, because an operator has to set `OPENVIBE_PUSH_SUBJECT`.
    pub subject_ok: bool,
    /// Oldest first.
    pub devices: Vec<PushDevice>,
    /// Newest first, at most 20.
    pub recent: Vec<RecentDelivery>,
    /// Answers of push services in the last 24 hours; empty except for admins.
    pub answers: Vec<PushAnswers>,
    /// Answer of your mail server, if emails are off because it refused one.
    pub mail_problem: Option<String>,
}

/// Sender of notifications.
pub struct Pusher {
    keyring: Arc<Keyring>,
    pub(super) hub: Arc<Hub>,
    subject: Subject,
    pub pace: NotifyPace,
    pub(super) poster: Poster,
    pub(super) origins: Origins,
    identity: Mutex<Option<Arc<Identity>>>,
    woken: Notify,
}

impl Pusher {
    pub fn new(
        keyring: Arc<Keyring>,
        hub: Arc<Hub>,
        subject: Subject,
        rules: Rules,
        pace: NotifyPace,
    ) -> Self {
        Self {
            keyring,
            hub,
            subject,
            pace,
            poster: Poster::new(rules),
            origins: Origins::default(),
            identity: Mutex::default(),
            woken: Notify::new(),
        }
    }

    /// True if Apple accepts the contact of the operator.
    pub fn has_accepted_subject(&self) -> bool {
        self.subject.is_accepted
    }

    /// Identity towards push services; its key is created at the first use.
    ///
    /// # Errors
    /// `Secret` if the server has no key for secrets.
    pub async fn identity(&self, db: &Db) -> Result<Arc<Identity>, PushError> {
        let mut known = self.identity.lock().await;
        if let Some(identity) = known.as_ref() {
            return Ok(Arc::clone(identity));
        }
        let identity = Arc::new(Identity::load(db, &self.keyring, &self.subject.text).await?);
        *known = Some(Arc::clone(&identity));
        Ok(identity)
    }

    /// The public key, or the reason why there is none.
    ///
    /// # Errors
    /// Database errors, or a key file that cannot be used.
    pub async fn public_key(&self, db: &Db) -> Result<Result<String, PushUnavailable>, PushError> {
        match self.identity(db).await {
            Ok(identity) => Ok(Ok(identity.public_key.clone())),
            Err(PushError::Secret(SecretError::KeyMissing)) => {
                Ok(Err(PushUnavailable::SecretKeyMissing))
            }
            Err(e) => Err(e),
        }
    }

    /// Checks whether the server may send to the address of a subscription.
    ///
    /// # Errors
    /// `BadEndpoint`.
    pub async fn check(&self, subscription: &Subscription) -> Result<(), PushError> {
        self.poster.check(&subscription.url).await.map_err(|denied| {
            PushError::BadEndpoint(match denied {
                Denied::NotEncrypted(host) => format!("{host} must be used with https"),
                Denied::NotFound(host) => format!("could not find the host {host}"),
                Denied::OwnServer(host) | Denied::NotPublic(host) | Denied::Port(host, _) => {
                    format!("{host} is not a public address: an operator can permit a push service with OPENVIBE_PUSH_ALLOW")
                }
            })
        })
    }

    /// Looks for deliveries that were just inserted.
    pub fn wake(&self) {
        self.woken.notify_one();
    }

    /// Waits until a delivery may be due.
    pub async fn wait(&self) {
        tokio::select! {
            () = self.woken.notified() => {}
            () = tokio::time::sleep(self.pace.check_every) => {}
        }
    }
}
