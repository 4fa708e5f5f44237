//! Requests that webhooks received: the newest ones of each, for a week.

use std::time::Duration;

use serde::Serialize;

use super::{
    body::BodyHead,
    error::{HookError, HookFault},
    rendered::beginning,
    row::get_own,
};
use crate::{
    auth::Actor,
    db::{Conn, Db, DbError, Json, is_in_visible_channel, now},
    ids::{HookId, HookRequestId, MessageId},
    text_enum::constant,
    time::Timestamp,
};

/// Requests that are kept for each webhook.
const KEPT_MAX: i64 = 50;
const KEPT_FOR: Duration = Duration::from_hours(24 * 7);
/// Part of a body that is stored.
const BODY_BYTES_MAX: usize = 8 * 1024;
const AGENT_BYTES_MAX: usize = 200;

constant! { pub HookRequestObject = "hook_request" }

/// A request that a webhook received.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct HookRequest {
    pub id: HookRequestId,
    #[schema(inline)]
    pub object: HookRequestObject,
    pub created_at: Timestamp,
    /// Network address of the program; null if a person posted the request again.
    pub address: Option<String>,
    /// `User-Agent` of the program.
    pub agent: Option<String>,
    /// Product that was recognized, such as `GitHub`.
    pub product: Option<String>,
    /// HTTP status of the response.
    pub status: i64,
    /// Error in the response; null if the message was posted.
    pub error: Option<String>,
    /// Parts that are not shown as sent.
    pub notes: Vec<String>,
    /// The first 8 KiB of the body; null once the message is deleted.
    pub body: Option<String>,
    /// True if the request can be posted again.
    pub is_whole: bool,
    pub message_id: Option<MessageId>,
}

#[derive(sqlx::FromRow)]
struct Row {
    id: HookRequestId,
    created_at: Timestamp,
    address: Option<String>,
    agent: Option<String>,
    product: Option<String>,
    status: i64,
    error: Option<String>,
    notes: Json<Vec<String>>,
    body: Option<String>,
    is_whole: bool,
    message_id: Option<MessageId>,
}

impl From<Row> for HookRequest {
    fn from(row: Row) -> Self {
        Self {
            id: row.id,
            object: HookRequestObject,
            created_at: row.created_at,
            address: row.address,
            agent: row.agent,
            product: row.product,
            status: row.status,
            error: row.error,
            notes: row.notes.0,
            is_whole: row.is_whole && row.body.is_some(),
            body: row.body,
            message_id: row.message_id,
        }
    }
}

/// A request before it is stored.
#[derive(Debug, Clone, Default)]
pub struct ReceivedRequest {
    pub address: Option<String>,
    pub agent: Option<String>,
    pub head: BodyHead,
    /// Beginning of the body.
    body: String,
    is_whole: bool,
    pub product: Option<String>,
    pub notes: Vec<String>,
}

impl ReceivedRequest {
    pub fn new(address: Option<String>, agent: Option<&str>, head: BodyHead) -> Self {
        let agent = agent.map(|agent| beginning(agent, AGENT_BYTES_MAX).to_owned());
        Self {
            address,
            agent,
            head,
            ..Self::default()
        }
    }

    /// Notes that the message is in the webhook's own channel, not in the one that it names.
    pub fn note_channel(&mut self, wanted: &str, own: &str) {
        let wanted = beginning(wanted.trim_start_matches('#'), 100);
        self.notes
            .push(format!("Asked for #{wanted}, posted in #{own}"));
    }

    /// Notes that the message does not answer the thread that it names.
    pub fn note_thread(&mut self, wanted: &str) {
        let wanted = beginning(wanted, 100);
        self.notes.push(format!(
            "`{wanted}` is not in an open thread of the channel: the message starts one"
        ));
    }

    /// Keeps the beginning of the body.
    pub fn keep(&mut self, body: &[u8]) {
        let part = &body[..body.len().min(BODY_BYTES_MAX)];
        let text = String::from_utf8_lossy(part);
        let text = beginning(&text, BODY_BYTES_MAX);
        self.is_whole = text.as_bytes() == body;
        self.body = text.replace('\0', "");
    }
}

/// Outcome of a request.
#[derive(Debug, Clone, Copy)]
pub enum RequestOutcome {
    Posted(MessageId),
    Refused(HookFault),
}

/// Stores a request, and deletes the oldest ones of its webhook.
///
/// # Errors
/// Only database errors.
pub async fn record(
    c: &mut Conn,
    hook: HookId,
    attempt: &ReceivedRequest,
    answer: RequestOutcome,
) -> Result<HookRequestId, DbError> {
    let id = HookRequestId::new();
    let (message, fault) = match answer {
        RequestOutcome::Posted(message) => (Some(message), None),
        RequestOutcome::Refused(fault) => (None, Some(fault)),
    };
    // The webhook may have been deleted in the meantime.
    c.q("insert into hook_requests (id, hook_id, created_at, address, agent, product, status, error, notes, head, body, is_whole, message_id) \
         select $1, h.id, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13 from hooks h where h.id = $2")
        .bind(id)
        .bind(hook)
        .bind(now())
        .bind(attempt.address.clone())
        .bind(attempt.agent.clone())
        .bind(attempt.product.clone())
        .bind(fault.map_or(200, |fault| i64::from(fault.status().as_u16())))
        .bind(fault.map(|fault| fault.as_str().to_owned()))
        .bind(Json(attempt.notes.clone()))
        .bind(Json(attempt.head.clone()))
        .bind(attempt.body.clone())
        .bind(attempt.is_whole)
        .bind(message)
        .run()
        .await?;
    c.q("delete from hook_requests where hook_id = $1 and id in \
         (select id from hook_requests where hook_id = $1 order by id desc limit 100 offset $2)")
        .bind(hook)
        .bind(KEPT_MAX)
        .run()
        .await?;
    Ok(id)
}

macro_rules! request_sql {
    ($tail:expr) => {
        concat!(
            "select r.id, r.created_at, r.address, r.agent, r.product, r.status, r.error, r.notes, \
             case when r.message_id is null or exists (select 1 from messages m where m.id = r.message_id and ",
            is_in_visible_channel!("m.channel_id", "$2"),
            ") then r.body end as body, r.is_whole, r.message_id from hook_requests r ",
            $tail
        )
    };
}

/// Requests of a webhook before `before`, newest first. Bodies of messages in channels that the actor cannot read are not included.
///
/// # Errors
/// `HookNotFound`, or an error from `Actor::require`.
pub async fn list_requests(
    c: &mut Conn,
    actor: &Actor<'_>,
    hook: HookId,
    before: Option<HookRequestId>,
    limit: i64,
) -> Result<Vec<HookRequest>, HookError> {
    get_own(c, actor, hook).await?;
    let rows: Vec<Row> = c
        .q(request_sql!(
            "where r.hook_id = $1 and ($3 is null or r.id < $3) order by r.id desc limit $4"
        ))
        .bind(hook)
        .bind(actor.user)
        .bind(before)
        .bind(limit)
        .all()
        .await?;
    Ok(rows.into_iter().map(HookRequest::from).collect())
}

/// A request of a webhook that the actor manages.
///
/// # Errors
/// `HookNotFound`, `RequestNotFound`, or an error from `Actor::require`.
pub async fn get_request(
    c: &mut Conn,
    actor: &Actor<'_>,
    hook: HookId,
    id: HookRequestId,
) -> Result<HookRequest, HookError> {
    get_own(c, actor, hook).await?;
    let row: Option<Row> = c
        .q(request_sql!("where r.hook_id = $1 and r.id = $3"))
        .bind(hook)
        .bind(actor.user)
        .bind(id)
        .opt()
        .await?;
    Ok(row.ok_or(HookError::RequestNotFound)?.into())
}

/// A stored request as it was sent.
///
/// # Errors
/// `HookNotFound`, `RequestNotFound`, `RequestCut`, or an error from `Actor::require`.
pub async fn get_sent(
    c: &mut Conn,
    actor: &Actor<'_>,
    hook: HookId,
    id: HookRequestId,
) -> Result<ReceivedRequest, HookError> {
    let request = get_request(c, actor, hook, id).await?;
    let Some(body) = request.body.filter(|_| request.is_whole) else {
        return Err(HookError::RequestCut);
    };
    let (Json(head),): (Json<BodyHead>,) = c
        .q("select head from hook_requests where id = $1")
        .bind(id)
        .one()
        .await?;
    let mut attempt = ReceivedRequest::new(None, None, head);
    attempt.keep(body.as_bytes());
    Ok(attempt)
}

impl ReceivedRequest {
    pub fn body(&self) -> &str {
        &self.body
    }
}

/// Deletes requests that are older than a week.
///
/// # Errors
/// Only database errors.
pub async fn delete_old_requests(db: &Db) -> Result<(), DbError> {
    db.delete_expired(
        now() - KEPT_FOR,
        "select exists (select 1 from hook_requests where created_at < $1)",
        "delete from hook_requests where id in (select id from hook_requests where created_at < $1 order by created_at limit $2)",
    )
    .await?;
    Ok(())
}
