//! The job that sends events to the programs of bots, on one node at a time.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{StreamExt, future::BoxFuture, stream::FuturesUnordered};
use reqwest::{RequestBuilder, header::CONTENT_TYPE};
use serde::Serialize;
use serde_json::json;
use tokio::sync::{Notify, watch};
use uuid::Uuid;

use super::{
    body::{self, Subscriber},
    queue::{self, AttemptOutcome, Destination, DueBotDelivery},
    sign::{slack_signature, standard_signature},
};
use crate::{
    db::{Conn, Db, DbError, now},
    failpoint,
    hooks::{
        BotDeliveryState, BotEventFormat, HookError, SubscriptionPause, SubscriptionSettings,
        new_signing_secret, pause_subscription, previous_secret_owner, secret_owner,
    },
    ids::{BotDeliveryId, BotId, WorkspaceId},
    outbound::{Denied, Rules, Url},
    poll::poll_while,
    poster::{Answer, Poster},
    secrets::{self, Keyring, SecretError},
    time::Timestamp,
};

/// Maximum number of concurrent requests, in total and to one server.
const AT_ONCE: usize = 64;
const AT_ONCE_PER_ORIGIN: usize = 8;
/// Number of requests of a workspace for each free place. The more places slow programs of some workspaces hold, the fewer each of these
/// gets, so that there is always one for another workspace; a single one gets 48.
const AT_ONCE_PER_FREE: usize = 3;
/// Interval between checks for more deliveries while others are being sent.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Interval between checks for deliveries that are due again.
const CHECK_EVERY: Duration = Duration::from_secs(1);
/// Time without a success after which a subscription is paused.
const FAILING_MAX: Duration = Duration::from_hours(3 * 24);

/// Part of an answer that is read.
const ANSWER_BYTES_MAX: usize = 64 * 1024;
pub(super) const CONTENT_JSON: &str = "application/json";

pub(super) fn count(outcome: &'static str) {
    metrics::counter!("openvibe_hook_deliveries_total", "outcome" => outcome).increment(1);
}

/// Result of a test.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct EventTestResult {
    /// Status of the answer; null without one.
    pub status: Option<u16>,
    /// Beginning of the answer, or the reason why there is none; at most 200 characters.
    pub answer: String,
    /// Time that the request took, in milliseconds.
    pub ms: u64,
}

/// Sender of events.
pub struct EventSender {
    keyring: Arc<Keyring>,
    poster: Poster,
    pub(super) public_url: String,
    woken: Notify,
    /// Number of times that deliveries were inserted by this node.
    inserted: watch::Sender<u64>,
}

/// Numbers of requests in progress.
#[derive(Default)]
struct InProgress {
    of_origin: HashMap<String, usize>,
    of_workspace: HashMap<WorkspaceId, usize>,
}

impl InProgress {
    /// Number of requests that may begin now if this number of places is free.
    fn room(&self, to: &Destination, free: usize) -> usize {
        let of_origin = self.of_origin.get(&to.origin).copied();
        let of_workspace = self.of_workspace.get(&to.workspace_id).copied();
        // Each one takes a place and raises the number of its workspace.
        let left = (AT_ONCE_PER_FREE * free).saturating_sub(of_workspace.unwrap_or_default());
        let room = AT_ONCE_PER_ORIGIN.saturating_sub(of_origin.unwrap_or_default());
        room.min(left.div_ceil(AT_ONCE_PER_FREE + 1)).min(free)
    }

    fn begin(&mut self, to: &Destination) {
        *self.of_origin.entry(to.origin.clone()).or_default() += 1;
        *self.of_workspace.entry(to.workspace_id).or_default() += 1;
    }

    fn end(&mut self, to: &Destination) {
        if let Some(count) = self.of_origin.get_mut(&to.origin) {
            *count -= 1;
        }
        if let Some(count) = self.of_workspace.get_mut(&to.workspace_id) {
            *count -= 1;
        }
    }
}

/// Result of an attempt.
enum Attempt {
    Skipped,
    Answered(Answer),
}

/// An event before it is signed.
pub(super) struct Unsigned<'a> {
    pub(super) format: BotEventFormat,
    pub(super) url: Url,
    pub(super) id: &'a str,
    pub(super) body: String,
    pub(super) content_type: &'static str,
    /// Number of failed attempts.
    pub(super) failures: i64,
}

impl Unsigned<'_> {
    /// Headers that sign the request.
    fn signature(&self, secrets: &[String]) -> Vec<(&'static str, String)> {
        let body = self.body.as_bytes();
        let at_s = now().unix_s();
        match self.format {
            BotEventFormat::Standard => vec![
                ("webhook-id", self.id.to_owned()),
                ("webhook-timestamp", at_s.to_string()),
                (
                    "webhook-signature",
                    standard_signature(secrets, self.id, at_s, body),
                ),
            ],
            BotEventFormat::Slack => {
                let secret = secrets.first().map(String::as_str).unwrap_or_default();
                let mut headers = vec![
                    ("x-slack-request-timestamp", at_s.to_string()),
                    ("x-slack-signature", slack_signature(secret, at_s, body)),
                ];
                if self.failures > 0 {
                    headers.push(("x-slack-retry-num", self.failures.to_string()));
                    headers.push(("x-slack-retry-reason", "http_error".to_owned()));
                }
                headers
            }
        }
    }
}

impl EventSender {
    pub fn new(keyring: Arc<Keyring>, rules: Rules, public_url: &str) -> Self {
        Self {
            keyring,
            poster: Poster::new(rules),
            public_url: public_url.to_owned(),
            woken: Notify::new(),
            inserted: watch::Sender::new(0),
        }
    }

    /// Looks for deliveries that were just inserted.
    pub fn wake(&self) {
        self.woken.notify_one();
        self.announce();
    }

    /// Makes the sockets of this node look for events and commands.
    pub(super) fn announce(&self) {
        self.inserted.send_modify(|n| *n += 1);
    }

    /// Signs and sends a request.
    pub(super) async fn send(&self, request: Unsigned<'_>, secrets: &[String]) -> Answer {
        let headers = request.signature(secrets);
        let build = |mut sent: RequestBuilder| {
            for (name, value) in headers {
                sent = sent.header(name, value);
            }
            sent.header(CONTENT_TYPE, request.content_type)
                .body(request.body)
        };
        self.poster.post(request.url, build, ANSWER_BYTES_MAX).await
    }

    /// Changes whenever this node has inserted deliveries.
    pub fn inserted(&self) -> watch::Receiver<u64> {
        self.inserted.subscribe()
    }

    /// Waits until a delivery may be due.
    pub async fn wait(&self) {
        tokio::select! {
            () = self.woken.notified() => {}
            () = tokio::time::sleep(CHECK_EVERY) => {}
        }
    }

    /// Checks that the server may send to an address, and, for Slack's format, that the address confirms it.
    ///
    /// # Errors
    /// `Invalid` for an address that is not permitted, or `NotVerified`.
    pub async fn check(
        &self,
        settings: &SubscriptionSettings,
        secret: &str,
    ) -> Result<(), HookError> {
        let Some(url) = &settings.url else {
            return Ok(());
        };
        self.poster.check(url).await.map_err(|denied| {
            let problem = match denied {
                Denied::NotEncrypted(host) => format!("{host} must be used with https"),
                Denied::NotFound(host) => format!("could not find the host {host}"),
                Denied::OwnServer(host) | Denied::NotPublic(host) | Denied::Port(host, _) => {
                    format!("{host} is not a public address: an operator can permit it with OPENVIBE_HOOK_ALLOW")
                }
            };
            HookError::Invalid(problem, "url")
        })?;
        if settings.format != BotEventFormat::Slack {
            return Ok(());
        }
        let challenge = new_signing_secret();
        let answer = self.challenge(url, &[secret.to_owned()], &challenge).await;
        if answer.is_success() && answer.text.contains(&challenge) {
            return Ok(());
        }
        let problem = match answer.status {
            None => answer.shown(),
            Some(status) if answer.is_success() => {
                format!("the answer ({status}) does not contain the challenge")
            }
            Some(status) => format!("it answered {status}"),
        };
        Err(HookError::NotVerified(problem))
    }

    /// Sends `url_verification`.
    async fn challenge(&self, url: &Url, secrets: &[String], challenge: &str) -> Answer {
        let body = json!({"token": "", "type": "url_verification", "challenge": challenge});
        let request = Unsigned {
            format: BotEventFormat::Slack,
            url: url.clone(),
            id: "",
            body: body.to_string(),
            content_type: CONTENT_JSON,
            failures: 0,
        };
        self.send(request, secrets).await
    }

    /// Sends a test to a bot's address: in Slack's format `url_verification`, otherwise an event of the type `test`.
    ///
    /// # Errors
    /// `NoSubscription`, `Invalid` for a subscription without an address, or database errors.
    pub async fn test(&self, db: &Db, id: BotId) -> Result<EventTestResult, HookError> {
        let mut c = db.read().await?;
        let subscriber = body::find_subscriber(&mut c, id).await?;
        let subscriber = subscriber.ok_or(HookError::NoSubscription)?;
        let url = subscriber.address().ok_or_else(|| {
            let problem = "the program opens a socket: it has no address that could be tested";
            HookError::Invalid(problem.to_owned(), "transport")
        })?;
        let known = self.secrets_of(&mut c, &subscriber).await;
        drop(c);
        let known = known.map_err(crate::auth::AuthError::from)?;
        let begun = Instant::now();
        let answer = match subscriber.format {
            BotEventFormat::Slack => self.challenge(&url, &known, &new_signing_secret()).await,
            BotEventFormat::Standard => {
                let id = BotDeliveryId::new().to_string();
                let data = json!({"bot_id": subscriber.bot_id});
                let body = json!({"type": "test", "timestamp": now(), "data": data});
                let request = Unsigned {
                    format: subscriber.format,
                    url,
                    id: &id,
                    body: body.to_string(),
                    content_type: CONTENT_JSON,
                    failures: 0,
                };
                self.send(request, &known).await
            }
        };
        Ok(EventTestResult {
            status: answer.status,
            answer: answer.shown(),
            ms: u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX),
        })
    }

    /// The secrets that sign, newest first.
    pub(super) async fn secrets_of(
        &self,
        c: &mut Conn,
        subscriber: &Subscriber,
    ) -> Result<Vec<String>, SecretError> {
        let mut owners = vec![secret_owner(subscriber.bot_id)];
        if subscriber.previous_until.is_some_and(|until| now() < until) {
            owners.push(previous_secret_owner(subscriber.bot_id));
        }
        let mut found = Vec::new();
        for owner in owners {
            if let Some(sealed) = secrets::find(c, &owner).await? {
                found.push(self.keyring.open(&owner, &sealed)?);
            }
        }
        if found.is_empty() {
            return Err(SecretError::Unreadable);
        }
        Ok(found)
    }

    /// Sends deliveries until none is due, or `may_continue` returns false.
    ///
    /// # Errors
    /// Only database errors.
    pub async fn send_due(
        &self,
        db: &Db,
        may_continue: impl Fn() -> bool + Send,
    ) -> Result<(), DbError> {
        let mut running: FuturesUnordered<BoxFuture<'_, Destination>> = FuturesUnordered::new();
        let mut in_progress = InProgress::default();
        loop {
            if running.len() < AT_ONCE && may_continue() {
                let free = AT_ONCE - running.len();
                let mut ended = Vec::new();
                let taking = self.take(db, &mut in_progress, free);
                let taken = poll_while(&mut running, &mut ended, taking).await?;
                for to in &ended {
                    in_progress.end(to);
                }
                for (to, delivery) in taken {
                    let db = db.clone();
                    running.push(Box::pin(async move {
                        if let Err(e) = self.deliver(&db, &delivery).await {
                            tracing::warn!(error = %e, "an event could not be sent to a bot; it is sent again");
                        }
                        to
                    }));
                }
            }
            tokio::select! {
                ended = running.next() => match ended {
                    Some(to) => in_progress.end(&to),
                    None => return Ok(()),
                },
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
        }
    }

    /// Takes deliveries that are due, for servers and workspaces with free places.
    async fn take(
        &self,
        db: &Db,
        in_progress: &mut InProgress,
        mut free: usize,
    ) -> Result<Vec<(Destination, DueBotDelivery)>, DbError> {
        let due = queue::list_due_destinations(&mut db.read().await?).await?;
        let mut taken = Vec::new();
        for to in due {
            let max = in_progress.room(&to, free);
            if max == 0 {
                continue;
            }
            let limit = i64::try_from(max).unwrap_or(1);
            let of = to.clone();
            let some = db
                .write(Uuid::nil(), async move |c: &mut Conn| {
                    queue::take_due(c, &of, limit).await
                })
                .await?;
            free -= some.len().min(free);
            for one in some {
                in_progress.begin(&to);
                taken.push((to.clone(), one));
            }
        }
        Ok(taken)
    }

    async fn deliver(&self, db: &Db, delivery: &DueBotDelivery) -> Result<(), DbError> {
        failpoint!("outgoing_taken");
        let mut c = db.read().await?;
        let Some(subscriber) = body::find_subscriber(&mut c, delivery.bot_id).await? else {
            return Ok(());
        };
        let Some(url) = subscriber.address() else {
            // The program opens a socket now, which takes the delivery when it is due again.
            return Ok(());
        };
        let attempt = self.attempt(c, &subscriber, delivery, url).await?;
        failpoint!("outgoing_sent");
        settle(db, &subscriber, delivery, attempt).await
    }

    async fn attempt(
        &self,
        mut c: Conn,
        subscriber: &Subscriber,
        delivery: &DueBotDelivery,
        url: Url,
    ) -> Result<Attempt, DbError> {
        let built = body::build(&mut c, &self.public_url, subscriber, delivery).await?;
        let Some(built) = built else {
            return Ok(Attempt::Skipped);
        };
        let known = match self.secrets_of(&mut c, subscriber).await {
            Ok(known) => known,
            Err(SecretError::Db(e)) => return Err(e),
            Err(e) => return Ok(Attempt::Answered(Answer::lost(&e.to_string()))),
        };
        drop(c);
        let id = delivery.id.to_string();
        let request = Unsigned {
            format: subscriber.format,
            url,
            id: &id,
            body: built.to_string(),
            content_type: CONTENT_JSON,
            failures: delivery.attempt,
        };
        let answer = self.send(request, &known).await;
        Ok(Attempt::Answered(answer))
    }
}

/// Stores the outcome of an attempt, and pauses a subscription whose address is gone or has not answered for days.
async fn settle(
    db: &Db,
    subscriber: &Subscriber,
    delivery: &DueBotDelivery,
    attempt: Attempt,
) -> Result<(), DbError> {
    const GONE: u16 = 410;
    let (outcome, label) = match attempt {
        Attempt::Skipped => (AttemptOutcome::ended(BotDeliveryState::Skipped), "skipped"),
        Attempt::Answered(answer) => {
            let due_at = if answer.is_success() || answer.status == Some(GONE) {
                None
            } else {
                delivery.next_attempt(answer.retry_after.unwrap_or_default())
            };
            let (state, label) = match (answer.is_success(), due_at) {
                (true, _) => (BotDeliveryState::Sent, "sent"),
                (false, Some(_)) => (BotDeliveryState::Queued, "later"),
                (false, None) => (BotDeliveryState::Dead, "dead"),
            };
            let outcome = AttemptOutcome {
                state,
                due_at,
                status: answer.status,
                answer: Some(answer.shown()),
                failures: i64::from(!answer.is_success()),
            };
            (outcome, label)
        }
    };
    count(label);
    let (id, bot, workspace) = (delivery.id, subscriber.bot_id, subscriber.workspace_id);
    db.write(workspace.0, async move |c: &mut Conn| {
        queue::settle(c, id, &outcome).await?;
        match outcome.state {
            BotDeliveryState::Sent => note_success(c, bot).await,
            BotDeliveryState::Queued | BotDeliveryState::Dead => {
                let since = note_failure(c, bot).await?;
                let reason = if outcome.status == Some(GONE) {
                    Some(SubscriptionPause::Gone)
                } else {
                    let is_long = since.is_some_and(|since| since + FAILING_MAX <= now());
                    is_long.then_some(SubscriptionPause::NoAnswer)
                };
                match reason {
                    Some(reason) => pause_subscription(c, workspace, bot, reason).await,
                    None => Ok(()),
                }
            }
            BotDeliveryState::Skipped | BotDeliveryState::Sending => Ok(()),
        }
    })
    .await
}

async fn note_success(c: &mut Conn, bot: BotId) -> Result<(), DbError> {
    c.q("update bot_subscriptions set failing_since = null where bot_id = $1 and failing_since is not null")
        .bind(bot)
        .run()
        .await?;
    Ok(())
}

/// Notes that an attempt failed. Returns the time of the first failure since the last success.
async fn note_failure(c: &mut Conn, bot: BotId) -> Result<Option<Timestamp>, DbError> {
    c.q("update bot_subscriptions set failing_since = $2 where bot_id = $1 and failing_since is null")
        .bind(bot)
        .bind(now())
        .run()
        .await?;
    let row: Option<(Option<Timestamp>,)> = c
        .q("select failing_since from bot_subscriptions where bot_id = $1")
        .bind(bot)
        .opt()
        .await?;
    Ok(row.and_then(|row| row.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workspaces_leave_places_to_each_other() {
        let (mut in_progress, mut free) = (InProgress::default(), AT_ONCE);
        let mut fill = |workspace| {
            let mut filled = 0;
            for n in 0..AT_ONCE {
                let to = Destination {
                    workspace_id: workspace,
                    origin: format!("https://{n}.example.org"),
                };
                for _ in 0..in_progress.room(&to, free) {
                    in_progress.begin(&to);
                    free -= 1;
                    filled += 1;
                }
            }
            filled
        };
        let filled: Vec<usize> = (0..4).map(|_| fill(WorkspaceId::new())).collect();
        assert_eq!(filled, [48, 12, 3, 1]);
    }
}
