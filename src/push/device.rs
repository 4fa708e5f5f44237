//! Devices: push subscriptions of browsers, each of which belongs to a session.

use base64::{
    Engine as _,
    engine::{
        DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig, general_purpose::URL_SAFE_NO_PAD,
    },
};
use serde::{Deserialize, Serialize};

use super::{crypto::BrowserKeys, error::PushError, queue::DeliveryState};
use crate::{
    auth::AuthError,
    db::{Conn, DbError, now},
    ids::{DeviceId, SessionId, UserId},
    inbox::InboxReason,
    outbound::Url,
    poster::origin_of,
    time::Timestamp,
};

/// Maximum number of devices of an account.
pub const DEVICES_MAX: i64 = 10;
/// Maximum number of deliveries in the list of the last ones.
const RECENT_MAX: i64 = 20;
const ENDPOINT_BYTES_MAX: usize = 1024;
const LABEL_UNITS_MAX: usize = 80;

const BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::URL_SAFE,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

#[derive(Debug, Clone, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PushKeys {
    /// Public key of the browser, 65 bytes in base64url.
    pub p256dh: String,
    /// Secret of the browser, 16 bytes in base64url.
    pub auth: String,
}

/// A subscription, as browsers describe it.
#[derive(Debug, Clone, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PushDeviceForm {
    /// Address at the push service; at most 1,024 characters.
    pub endpoint: String,
    pub keys: PushKeys,
    /// Name in the list of devices, such as "Firefox on Linux"; at most 80 characters.
    pub label: String,
}

/// A browser that gets notifications.
#[derive(Debug, Clone, Serialize, sqlx::FromRow, utoipa::ToSchema)]
pub struct PushDevice {
    pub id: DeviceId,
    pub endpoint: String,
    pub label: String,
    pub created_at: Timestamp,
    /// True if it belongs to the session of the request.
    pub is_current: bool,
    /// End of the pause after the push service refused this server.
    pub refused_until: Option<Timestamp>,
}

/// A notification for a device in the last week.
#[derive(Debug, Serialize, sqlx::FromRow, utoipa::ToSchema)]
pub struct RecentDelivery {
    pub at: Timestamp,
    /// Reason of the item; null for a summary.
    pub reason: Option<InboxReason>,
    pub device_id: DeviceId,
    pub state: DeliveryState,
    /// Status of the push service's latest answer.
    pub status: Option<i32>,
    /// The push service's latest answer, or the reason why nothing was sent.
    pub answer: Option<String>,
}

/// A subscription whose parts are valid.
#[derive(Debug, Clone)]
pub struct Subscription {
    pub(super) url: Url,
    p256dh: String,
    auth: String,
    label: String,
}

impl PushDeviceForm {
    /// Checks everything but the address of the push service.
    ///
    /// # Errors
    /// `BadEndpoint`, `BadKey`, or `Invalid`.
    pub fn parse(self) -> Result<Subscription, PushError> {
        let bad = || {
            PushError::BadEndpoint(
                "`endpoint` must be the address of a push subscription".to_owned(),
            )
        };
        if self.endpoint.len() > ENDPOINT_BYTES_MAX {
            return Err(bad());
        }
        let url = Url::parse(&self.endpoint).map_err(|_| bad())?;
        let is_plain =
            url.username().is_empty() && url.password().is_none() && url.fragment().is_none();
        if !matches!(url.scheme(), "https" | "http") || !is_plain {
            return Err(bad());
        }
        let bytes = |text: &str| BASE64.decode(text).unwrap_or_default();
        let (point, auth) = (bytes(&self.keys.p256dh), bytes(&self.keys.auth));
        if auth.len() != super::crypto::AUTH_BYTES {
            return Err(PushError::BadKey("keys.auth"));
        }
        BrowserKeys::new(&point, &auth).ok_or(PushError::BadKey("keys.p256dh"))?;
        let label = self.label.trim();
        if label.encode_utf16().count() > LABEL_UNITS_MAX || label.contains(char::is_control) {
            let text =
                format!("`label` can have at most {LABEL_UNITS_MAX} characters, on one line");
            return Err(PushError::Invalid(text, "label"));
        }
        Ok(Subscription {
            url,
            p256dh: URL_SAFE_NO_PAD.encode(point),
            auth: URL_SAFE_NO_PAD.encode(auth),
            label: label.to_owned(),
        })
    }
}

/// Address and keys for messages to a device.
#[derive(Debug, Clone, sqlx::FromRow)]
pub(super) struct DeviceTarget {
    pub(super) endpoint: String,
    p256dh: String,
    auth: String,
    refused_until: Option<Timestamp>,
    refused_identity: Option<String>,
}

impl DeviceTarget {
    pub(super) fn keys(&self) -> Option<BrowserKeys> {
        let bytes = |text: &str| BASE64.decode(text).ok();
        BrowserKeys::new(&bytes(&self.p256dh)?, &bytes(&self.auth)?)
    }

    /// Checks whether the push service refused this identity of the server a short time ago.
    pub(super) fn refuses(&self, fingerprint: &str) -> bool {
        self.refused_until.is_some_and(|until| until > now())
            && self.refused_identity.as_deref() == Some(fingerprint)
    }
}

/// A device after a subscription was stored.
pub struct StoredDevice {
    pub device: PushDevice,
    pub is_new: bool,
}

macro_rules! device_sql {
    ($tail:literal) => {
        concat!(
            "select d.id, d.endpoint, d.label, d.created_at, d.session_id = $2 as is_current, d.refused_until from push_devices d ",
            $tail
        )
    };
}

/// The devices of an account, oldest first.
///
/// # Errors
/// Only database errors.
pub async fn list(
    c: &mut Conn,
    user: UserId,
    session: SessionId,
) -> Result<Vec<PushDevice>, DbError> {
    c.q(device_sql!("where d.user_id = $1 order by d.id limit $3"))
        .bind(user)
        .bind(session)
        .bind(DEVICES_MAX)
        .all()
        .await
}

/// The last deliveries for the account's devices, newest first.
///
/// # Errors
/// Only database errors.
pub async fn recent(c: &mut Conn, user: UserId) -> Result<Vec<RecentDelivery>, DbError> {
    c.q("select created_at as at, reason, target_id as device_id, state, status, answer from deliveries \
         where user_id = $1 and kind <> 'mail' order by created_at desc, id desc limit $2")
        .bind(user)
        .bind(RECENT_MAX)
        .all()
        .await
}

/// Stores a subscription for a session. A known one moves to this session, even from another account: only its browser knows the
/// address.
///
/// # Errors
/// `TooManyDevices`, or `NotAuthenticated` if the session has ended.
pub async fn put(
    c: &mut Conn,
    user: UserId,
    session: SessionId,
    subscription: &Subscription,
) -> Result<StoredDevice, PushError> {
    // Serializes changes of one account.
    c.q("update users set id = id where id = $1")
        .bind(user)
        .run()
        .await?;
    // Waits for a transaction that ends the session at the same time.
    let held = c
        .q("update sessions set id = id where id = $1")
        .bind(session)
        .run()
        .await?;
    if held == 0 {
        return Err(AuthError::NotAuthenticated.into());
    }
    let moved: Option<(DeviceId,)> = c
        .q("update push_devices set user_id = $2, session_id = $3, p256dh = $4, auth = $5, label = $6, refused_until = null \
            where endpoint = $1 and (user_id = $2 or (select count(*) from push_devices o where o.user_id = $2) < $7) returning id")
        .bind(subscription.url.to_string())
        .bind(user)
        .bind(session)
        .bind(subscription.p256dh.clone())
        .bind(subscription.auth.clone())
        .bind(subscription.label.clone())
        .bind(DEVICES_MAX)
        .opt()
        .await?;
    let is_new = moved.is_none();
    let id = match moved {
        Some((id,)) => id,
        None => insert(c, user, session, subscription).await?,
    };
    let device = c
        .q(device_sql!("where d.id = $1"))
        .bind(id)
        .bind(session)
        .one()
        .await?;
    Ok(StoredDevice { device, is_new })
}

async fn insert(
    c: &mut Conn,
    user: UserId,
    session: SessionId,
    subscription: &Subscription,
) -> Result<DeviceId, PushError> {
    let id = DeviceId::new();
    let n = c
        .q("insert into push_devices (id, user_id, session_id, endpoint, origin, p256dh, auth, label, created_at) \
            select $1, $2, $3, $4, $5, $6, $7, $8, $9 where (select count(*) from push_devices o where o.user_id = $2) < $10")
        .bind(id)
        .bind(user)
        .bind(session)
        .bind(subscription.url.to_string())
        .bind(origin_of(&subscription.url))
        .bind(subscription.p256dh.clone())
        .bind(subscription.auth.clone())
        .bind(subscription.label.clone())
        .bind(now())
        .bind(DEVICES_MAX)
        .run()
        .await?;
    if n == 0 {
        return Err(PushError::TooManyDevices(DEVICES_MAX));
    }
    Ok(id)
}

/// Deletes a device of the account.
///
/// # Errors
/// `DeviceNotFound`.
pub async fn delete(c: &mut Conn, user: UserId, id: DeviceId) -> Result<(), PushError> {
    let n = c
        .q("delete from push_devices where id = $1 and user_id = $2")
        .bind(id)
        .bind(user)
        .run()
        .await?;
    if n == 0 {
        return Err(PushError::DeviceNotFound);
    }
    Ok(())
}

/// Deletes a device that its push service no longer knows.
pub(super) async fn delete_gone(c: &mut Conn, id: DeviceId) -> Result<(), DbError> {
    c.q("delete from push_devices where id = $1")
        .bind(id)
        .run()
        .await?;
    Ok(())
}

/// Pauses a device whose push service refused this server, until the server has another identity.
pub(super) async fn pause(
    c: &mut Conn,
    id: DeviceId,
    until: Timestamp,
    fingerprint: &str,
) -> Result<(), DbError> {
    c.q("update push_devices set refused_until = $2, refused_identity = $3 where id = $1")
        .bind(id)
        .bind(until)
        .bind(fingerprint.to_owned())
        .run()
        .await?;
    Ok(())
}

/// The device, if it belongs to the account and its session has not ended.
pub(super) async fn find_target(
    c: &mut Conn,
    user: UserId,
    id: DeviceId,
) -> Result<Option<DeviceTarget>, DbError> {
    c.q("select d.endpoint, d.p256dh, d.auth, d.refused_until, d.refused_identity from push_devices d \
         join sessions s on s.id = d.session_id where d.id = $1 and d.user_id = $2 and s.user_id = $2 and s.expires_at > $3")
        .bind(id)
        .bind(user)
        .bind(now())
        .opt()
        .await
}
