//! The job that sends deliveries, on one node at a time.

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures::{StreamExt, future::BoxFuture, stream::FuturesUnordered};
use uuid::Uuid;

use super::{
    client::{self, PushRequest, service_of},
    crypto::{self, BrowserKeys},
    device::{self, DeviceTarget},
    error::PushError,
    payload::Payload,
    pusher::Pusher,
    queue::{self, DeliveryKind, DeliveryState, DueDelivery, Settlement},
    settings,
    vapid::Identity,
};
use crate::{
    chat::inbox::notified,
    db::{Conn, Db, DbError, now},
    failpoint,
    ids::{DeviceId, UserId},
    outbound::Url,
    poll::poll_while,
    poster::{Answer, origin_of},
    time::Timestamp,
};

/// Maximum number of concurrent requests, in total and to one push service.
const AT_ONCE: usize = 128;
const AT_ONCE_PER_ORIGIN: usize = 64;
/// Number of free places with which more deliveries are taken.
const REFILLED_AT: usize = 32;
/// Interval between checks for more deliveries while others are being sent.
const LOOK_EVERY: Duration = Duration::from_secs(1);
const RETRY_AFTER_DEFAULT: Duration = Duration::from_mins(1);
/// Pause of a device whose push service refused this server.
const REFUSED_FOR: Duration = Duration::from_hours(24);

/// Reaction to an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reaction {
    Sent,
    Refused,
    Gone,
    Shorten,
    Wait,
    Retry,
    Fail,
}

impl Reaction {
    fn to(answer: &Answer) -> Self {
        match answer.status {
            None | Some(500..) => Self::Retry,
            Some(200..300) => Self::Sent,
            Some(400 | 401 | 403) => Self::Refused,
            Some(404 | 410) => Self::Gone,
            Some(413) => Self::Shorten,
            Some(429) => Self::Wait,
            Some(_) => Self::Fail,
        }
    }

    fn label(self) -> &'static str {
        match self {
            Self::Sent => "sent",
            Self::Refused => "refused",
            Self::Gone => "gone",
            Self::Shorten | Self::Fail => "failed",
            Self::Wait => "throttled",
            Self::Retry => "later",
        }
    }
}

fn count(answer: &'static str) {
    metrics::counter!("openvibe_push_deliveries_total", "answer" => answer).increment(1);
}

/// A message for a device, or the reason why there is none.
enum Prepared {
    Message(Box<(DeviceTarget, Payload)>),
    Skipped(&'static str),
    /// Quiet hours or a pause have begun.
    Held(Timestamp),
}

/// Result of a test.
#[derive(Debug, serde::Serialize, utoipa::ToSchema)]
pub struct PushTestResult {
    /// Status of the push service's answer; null without one.
    pub status: Option<u16>,
    /// The answer, or the reason why there is none; at most 200 characters.
    pub answer: String,
    /// Time that the request took, in milliseconds.
    pub ms: u64,
    /// Advice; null if there is none.
    pub hint: Option<String>,
}

/// Reduces the number of requests to a push service by one.
fn leave(of_origin: &mut HashMap<String, usize>, origin: &str) {
    if let Some(count) = of_origin.get_mut(origin) {
        *count -= 1;
    }
}

impl Pusher {
    /// Sends deliveries until none is due, or `may_continue` returns false.
    ///
    /// # Errors
    /// Database errors, or `Secret` if the server has no key for secrets.
    pub async fn send_due(
        &self,
        db: &Db,
        may_continue: impl Fn() -> bool + Send,
    ) -> Result<(), PushError> {
        if queue::list_due_origins(&mut db.read().await?)
            .await?
            .is_empty()
        {
            return Ok(());
        }
        let identity = self.identity(db).await?;
        let mut running: FuturesUnordered<BoxFuture<'_, String>> = FuturesUnordered::new();
        let mut of_origin: HashMap<String, usize> = HashMap::new();
        loop {
            if AT_ONCE - running.len() >= REFILLED_AT && may_continue() {
                let mut ended = Vec::new();
                let taking = self.take(db, &of_origin, AT_ONCE - running.len());
                let taken = poll_while(&mut running, &mut ended, taking).await?;
                for origin in &ended {
                    leave(&mut of_origin, origin);
                }
                for delivery in taken {
                    *of_origin.entry(delivery.origin.clone()).or_default() += 1;
                    let (identity, db) = (Arc::clone(&identity), db.clone());
                    running.push(Box::pin(async move {
                        let origin = delivery.origin.clone();
                        if let Err(e) = self.deliver(&db, &identity, delivery).await {
                            tracing::warn!(error = %e, "a push message could not be sent; it is sent again");
                        }
                        origin
                    }));
                }
            }
            tokio::select! {
                ended = running.next() => match ended {
                    Some(origin) => leave(&mut of_origin, &origin),
                    None => return Ok(()),
                },
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
        }
    }

    /// Takes deliveries that are due, of push services with free places.
    async fn take(
        &self,
        db: &Db,
        of_origin: &HashMap<String, usize>,
        mut free: usize,
    ) -> Result<Vec<DueDelivery>, DbError> {
        let origins = queue::list_due_origins(&mut db.read().await?).await?;
        let mut taken = Vec::new();
        for origin in origins {
            let used = of_origin.get(&origin).copied().unwrap_or_default();
            let max = AT_ONCE_PER_ORIGIN.saturating_sub(used).min(free);
            if free == 0 {
                break;
            }
            if max == 0 || self.origins.is_paused(&origin) {
                continue;
            }
            let max = i64::try_from(max).unwrap_or(1);
            let some = db
                .write(Uuid::nil(), async move |c: &mut Conn| {
                    queue::take_due(c, &origin, max).await
                })
                .await?;
            free -= some.len().min(free);
            taken.extend(some);
        }
        Ok(taken)
    }

    async fn deliver(
        &self,
        db: &Db,
        identity: &Identity,
        delivery: DueDelivery,
    ) -> Result<(), DbError> {
        failpoint!("push_taken");
        let prepared = self.prepare(db, identity, &delivery).await?;
        let (target, payload) = match prepared {
            Prepared::Message(message) => *message,
            Prepared::Skipped(cause) => {
                count("skipped");
                return skip(db, &delivery, cause, None).await;
            }
            Prepared::Held(until) => {
                count("skipped");
                return skip(db, &delivery, "quiet hours", Some(until)).await;
            }
        };
        let mut answer = self.send(identity, &target, &payload).await;
        if Reaction::to(&answer) == Reaction::Shorten {
            answer = self.send(identity, &target, &payload.bare()).await;
        }
        failpoint!("push_sent");
        let reaction = Reaction::to(&answer);
        count(reaction.label());
        self.note(&delivery.origin, reaction, &answer);
        let fingerprint = identity.fingerprint.clone();
        db.write(Uuid::nil(), async move |c: &mut Conn| {
            settle(c, &delivery, reaction, &answer).await?;
            react(c, delivery.target_id, reaction, &fingerprint).await
        })
        .await
    }

    /// Remembers how a push service answered.
    fn note(&self, origin: &str, reaction: Reaction, answer: &Answer) {
        match reaction {
            Reaction::Retry => self.origins.failed(origin),
            Reaction::Wait => self.origins.pause(origin, pause_of(answer)),
            _ => self.origins.succeeded(origin),
        }
    }

    /// Checks again whether a person is to be notified, and writes the message.
    async fn prepare(
        &self,
        db: &Db,
        identity: &Identity,
        delivery: &DueDelivery,
    ) -> Result<Prepared, DbError> {
        let user = delivery.user_id;
        if delivery.is_old() {
            return Ok(Prepared::Skipped("too old"));
        }
        if self
            .active_of(db, std::iter::once(user))
            .await?
            .contains(&user)
        {
            return Ok(Prepared::Skipped("active"));
        }
        let mut c = db.read().await?;
        let Some(target) = device::find_target(&mut c, user, delivery.target_id).await? else {
            return Ok(Prepared::Skipped("the device was removed"));
        };
        if target.refuses(&identity.fingerprint) {
            return Ok(Prepared::Skipped("the push service refused this server"));
        }
        let settings = settings::read(&mut c, user).await?;
        if !settings.push {
            return Ok(Prepared::Skipped("turned off"));
        }
        if let Some(until) = settings.blocked_until(now()) {
            return Ok(Prepared::Held(until));
        }
        if queue::is_superseded(&mut c, delivery).await? {
            return Ok(Prepared::Skipped("a newer one says the same"));
        }
        let payload = if let (DeliveryKind::Item, Some(workspace)) =
            (delivery.kind, delivery.workspace_id)
        {
            let found = notified::find_notifying(&mut c, workspace, user, delivery.item_id).await?;
            found.map(|found| Payload::of_item(&found, settings.preview))
        } else {
            let since = delivery.since.unwrap_or(delivery.created_at);
            let held = notified::count_notifying(&mut c, user, since).await?;
            (held > 0).then(|| Payload::of_summary(user.0, held))
        };
        Ok(match payload {
            Some(payload) => Prepared::Message(Box::new((target, payload))),
            None => Prepared::Skipped("read, muted, or no longer visible"),
        })
    }

    async fn send(&self, identity: &Identity, target: &DeviceTarget, payload: &Payload) -> Answer {
        let unusable = |text: &str| Answer {
            status: Some(410),
            text: text.to_owned(),
            retry_after: None,
        };
        let (Ok(url), Some(keys)) = (Url::parse(&target.endpoint), target.keys()) else {
            return unusable("the subscription is not valid");
        };
        let Some((authorization, body)) = self.seal(identity, &url, &keys, payload) else {
            return unusable("the message could not be encrypted");
        };
        let request = PushRequest {
            url,
            authorization: &authorization,
            topic: &payload.tag,
            urgency: payload.urgency,
            body,
        };
        client::send(&self.poster, request).await
    }

    /// Authorization and encrypted body of a message.
    fn seal(
        &self,
        identity: &Identity,
        url: &Url,
        keys: &BrowserKeys,
        payload: &Payload,
    ) -> Option<(String, Vec<u8>)> {
        let token = self.origins.token(identity, &origin_of(url))?;
        let authorization = format!("vapid t={token}, k={}", identity.public_key);
        let body = crypto::encrypt(keys, &payload.encode()).ok()?;
        Some((authorization, body))
    }

    /// Sends a test to a device of the account, and reacts to the answer as to that of other messages.
    ///
    /// # Errors
    /// `DeviceNotFound`, `Secret`, or database errors.
    pub async fn test(
        &self,
        db: &Db,
        user: UserId,
        id: DeviceId,
    ) -> Result<PushTestResult, PushError> {
        let target = device::find_target(&mut db.read().await?, user, id).await?;
        let target = target.ok_or(PushError::DeviceNotFound)?;
        let identity = self.identity(db).await?;
        let started = std::time::Instant::now();
        let answer = self.send(&identity, &target, &Payload::test(id.0)).await;
        let ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let reaction = Reaction::to(&answer);
        let fingerprint = identity.fingerprint.clone();
        db.write(Uuid::nil(), async move |c: &mut Conn| {
            react(c, id, reaction, &fingerprint).await
        })
        .await?;
        let url = Url::parse(&target.endpoint).ok();
        let service = url.as_ref().map_or("The push service", service_of);
        Ok(PushTestResult {
            hint: self.hint(reaction, service, &answer),
            status: answer.status,
            answer: answer.text,
            ms,
        })
    }

    fn hint(&self, reaction: Reaction, service: &str, answer: &Answer) -> Option<String> {
        Some(match reaction {
            Reaction::Sent => return None,
            Reaction::Refused if !self.has_accepted_subject() => format!(
                "{}: an operator has to set OPENVIBE_PUSH_SUBJECT to mailto:YOU@YOUR-DOMAIN",
                refusal(service, answer)
            ),
            Reaction::Refused => {
                format!(
                    "{}: check the clock of the server",
                    refusal(service, answer)
                )
            }
            Reaction::Gone => {
                "This browser is no longer subscribed: open OpenVibe there again.".to_owned()
            }
            Reaction::Retry if answer.status.is_none() => {
                format!(
                    "The server could not reach {service}: check its connection to the Internet."
                )
            }
            Reaction::Retry | Reaction::Wait => format!("{service} is busy: try again later."),
            Reaction::Shorten | Reaction::Fail => format!("{service} did not accept the message."),
        })
    }
}

async fn skip(
    db: &Db,
    delivery: &DueDelivery,
    cause: &'static str,
    held_until: Option<Timestamp>,
) -> Result<(), DbError> {
    let (id, user) = (delivery.id, delivery.user_id);
    let since = delivery.since.unwrap_or(delivery.created_at);
    db.write(Uuid::nil(), async move |c: &mut Conn| {
        if let Some(until) = held_until {
            settings::hold(c, user, since, until).await?;
        }
        let settlement = Settlement {
            state: DeliveryState::Skipped,
            status: None,
            answer: cause.to_owned(),
        };
        queue::settle(c, id, &settlement, None, 0).await
    })
    .await
}

/// Time for which a push service is not asked again.
fn pause_of(answer: &Answer) -> Duration {
    answer.retry_after.unwrap_or(RETRY_AFTER_DEFAULT)
}

/// Text for an answer with which a push service refuses this server.
fn refusal(service: &str, answer: &Answer) -> String {
    let answer = format!("{} {}", answer.status.unwrap_or_default(), answer.text);
    format!("{service} refused this ({})", answer.trim_end())
}

/// Stores the answer to a delivery.
async fn settle(
    c: &mut Conn,
    delivery: &DueDelivery,
    reaction: Reaction,
    answer: &Answer,
) -> Result<(), DbError> {
    let retry = delivery.next_attempt();
    let (state, due_at, attempts) = match reaction {
        Reaction::Sent => (DeliveryState::Sent, None, 1),
        Reaction::Refused => (DeliveryState::Refused, None, 1),
        Reaction::Gone => (DeliveryState::Gone, None, 1),
        Reaction::Wait => (DeliveryState::Queued, Some(now() + pause_of(answer)), 0),
        Reaction::Retry if retry.is_some() => (DeliveryState::Queued, retry, 1),
        Reaction::Retry | Reaction::Shorten | Reaction::Fail => (DeliveryState::Failed, None, 1),
    };
    let text = match (reaction, Url::parse(&delivery.origin)) {
        (Reaction::Refused, Ok(url)) => refusal(service_of(&url), answer),
        _ => answer.text.clone(),
    };
    let settlement = Settlement {
        state,
        status: answer.status,
        answer: text,
    };
    queue::settle(c, delivery.id, &settlement, due_at, attempts).await
}

/// Deletes or pauses a device after an answer.
async fn react(
    c: &mut Conn,
    id: DeviceId,
    reaction: Reaction,
    fingerprint: &str,
) -> Result<(), DbError> {
    match reaction {
        Reaction::Gone => device::delete_gone(c, id).await,
        Reaction::Refused => device::pause(c, id, now() + REFUSED_FOR, fingerprint).await,
        _ => Ok(()),
    }
}
