//! Deliveries: rows that assign an item to a device. They are kept for a week.

use std::time::Duration;

use uuid::Uuid;

use crate::{
    db::{Conn, Db, DbError, now},
    ids::{DeviceId, InboxItemId, UserId, WorkspaceId},
    inbox::InboxReason,
    text_enum::text_enum,
    time::Timestamp,
};

/// Time after which a delivery that is being sent is sent again, because its process died.
const SENT_WITHIN: Duration = Duration::from_secs(30);
/// Delays before the next attempts.
const DELAYS: [Duration; 3] = [
    Duration::from_secs(30),
    Duration::from_mins(2),
    Duration::from_mins(10),
];
/// Time after which a delivery is given up, whatever the push service asks for.
const GIVEN_UP_AFTER: Duration = Duration::from_hours(24);
/// Time for which the outcome of a delivery is known.
const KEPT: Duration = Duration::from_hours(7 * 24);
/// Maximum number of push services that are looked at in one round.
const ORIGINS_MAX: i64 = 1000;

text_enum! {
    pub enum DeliveryKind {
        Item = "item",
        /// The number of items that quiet hours or a pause held back.
        Summary = "summary",
        /// An item that is in the next email, unless the person sees it before.
        Mail = "mail",
    }
}

text_enum! {
    /// Outcome of a delivery.
    pub enum DeliveryState {
        Queued = "queued",
        Sending = "sending",
        Sent = "sent",
        /// The person no longer has to be notified, or the device is paused.
        Skipped = "skipped",
        /// The push service refused this server.
        Refused = "refused",
        /// The subscription has ended.
        Gone = "gone",
        Failed = "failed",
    }
}

/// A delivery to insert.
#[derive(Debug, Clone)]
pub(super) struct NewDelivery {
    pub(super) item: Uuid,
    pub(super) changed_seq: i64,
    pub(super) user: UserId,
    pub(super) workspace: Option<WorkspaceId>,
    /// Device, or for an email the person.
    pub(super) target: Uuid,
    pub(super) kind: DeliveryKind,
    pub(super) reason: Option<InboxReason>,
    pub(super) origin: String,
    /// Time at which the item opened, or the first one of a summary.
    pub(super) since: Option<Timestamp>,
    pub(super) due_at: Timestamp,
}

/// `origin` of deliveries by email, which no push service has.
pub(super) const MAIL_ORIGIN: &str = "mail";

/// Inserts a delivery, unless this change of the item has one for the device.
pub(super) async fn insert(c: &mut Conn, new: &NewDelivery) -> Result<(), DbError> {
    c.q("insert into deliveries (id, item_id, changed_seq, user_id, workspace_id, target_id, kind, reason, origin, state, attempt, \
         due_at, since, created_at) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, 0, $11, $12, $13) \
         on conflict (item_id, changed_seq, target_id) do nothing")
        .bind(Uuid::now_v7())
        .bind(new.item)
        .bind(new.changed_seq)
        .bind(new.user)
        .bind(new.workspace)
        .bind(new.target)
        .bind(new.kind)
        .bind(new.reason)
        .bind(new.origin.clone())
        .bind(DeliveryState::Queued)
        .bind(new.due_at)
        .bind(new.since)
        .bind(now())
        .run()
        .await?;
    Ok(())
}

/// A delivery that is being sent.
#[derive(Debug, Clone, sqlx::FromRow)]
pub(super) struct DueDelivery {
    pub(super) id: Uuid,
    pub(super) item_id: InboxItemId,
    changed_seq: i64,
    pub(super) user_id: UserId,
    pub(super) workspace_id: Option<WorkspaceId>,
    pub(super) target_id: DeviceId,
    pub(super) kind: DeliveryKind,
    pub(super) origin: String,
    attempt: i32,
    pub(super) since: Option<Timestamp>,
    pub(super) created_at: Timestamp,
}

/// Push services with deliveries that are due, longest first.
pub(super) async fn list_due_origins(c: &mut Conn) -> Result<Vec<String>, DbError> {
    let rows: Vec<(String,)> = c
        .q("select origin from deliveries where due_at <= $1 and origin <> $3 group by origin order by min(due_at) limit $2")
        .bind(now())
        .bind(ORIGINS_MAX)
        .bind(MAIL_ORIGIN.to_owned())
        .all()
        .await?;
    Ok(rows.into_iter().map(|(origin,)| origin).collect())
}

/// Takes deliveries for a push service. They are due again if this process dies before it stores the outcome.
pub(super) async fn take_due(
    c: &mut Conn,
    origin: &str,
    max: i64,
) -> Result<Vec<DueDelivery>, DbError> {
    let at = now();
    c.q("update deliveries set state = 'sending', due_at = $4 where id in (select id from deliveries where origin = $1 \
         and due_at <= $2 order by due_at limit $3) and due_at <= $2 \
         returning id, item_id, changed_seq, user_id, workspace_id, target_id, kind, origin, attempt, since, created_at")
        .bind(origin.to_owned())
        .bind(at)
        .bind(max)
        .bind(at + SENT_WITHIN)
        .all()
        .await
}

/// Checks whether the device gets a later change of the item, whose notification replaces this one.
pub(super) async fn is_superseded(c: &mut Conn, delivery: &DueDelivery) -> Result<bool, DbError> {
    c.q("select exists (select 1 from deliveries where item_id = $1 and target_id = $2 and changed_seq > $3)")
        .bind(delivery.item_id)
        .bind(delivery.target_id)
        .bind(delivery.changed_seq)
        .value()
        .await
}

/// Outcome of an attempt.
#[derive(Debug, Clone)]
pub(super) struct Settlement {
    pub(super) state: DeliveryState,
    pub(super) status: Option<u16>,
    pub(super) answer: String,
}

/// Stores the end of a delivery.
pub(super) async fn settle(
    c: &mut Conn,
    delivery: Uuid,
    settlement: &Settlement,
    due_at: Option<Timestamp>,
    attempts: i32,
) -> Result<(), DbError> {
    c.q("update deliveries set state = $2, status = $3, answer = $4, due_at = $5, attempt = attempt + $6 where id = $1")
        .bind(delivery)
        .bind(settlement.state)
        .bind(settlement.status.map(i32::from))
        .bind(settlement.answer.clone())
        .bind(due_at)
        .bind(attempts)
        .run()
        .await?;
    Ok(())
}

/// Ends a delivery by email. Returns 0 if it has ended.
pub(super) async fn end_mail(c: &mut Conn, delivery: Uuid) -> Result<u64, DbError> {
    c.q("update deliveries set state = $2, due_at = null where id = $1 and due_at is not null")
        .bind(delivery)
        .bind(DeliveryState::Sent)
        .run()
        .await
}

/// Notes that an email shows an item as it is after a change, so that no other email says the same.
pub(super) async fn cover_by_mail(
    c: &mut Conn,
    user: UserId,
    item: InboxItemId,
    changed_seq: i64,
) -> Result<(), DbError> {
    c.q("update deliveries set state = $4, due_at = null where item_id = $1 and target_id = $2 and changed_seq <= $3 \
         and due_at is not null")
        .bind(item)
        .bind(user)
        .bind(changed_seq)
        .bind(DeliveryState::Sent)
        .run()
        .await?;
    c.q("insert into deliveries (id, item_id, changed_seq, user_id, target_id, kind, origin, state, attempt, created_at) \
         values ($1, $2, $3, $4, $4, $5, $6, $7, 0, $8) on conflict (item_id, changed_seq, target_id) do nothing")
        .bind(Uuid::now_v7())
        .bind(item)
        .bind(changed_seq)
        .bind(user)
        .bind(DeliveryKind::Mail)
        .bind(MAIL_ORIGIN.to_owned())
        .bind(DeliveryState::Sent)
        .bind(now())
        .run()
        .await?;
    Ok(())
}

impl DueDelivery {
    /// Time of the next attempt after a failed one; `None` if it was the last.
    pub(super) fn next_attempt(&self) -> Option<Timestamp> {
        let tries = usize::try_from(self.attempt).unwrap_or(usize::MAX);
        DELAYS.get(tries).map(|delay| now() + *delay)
    }

    /// Checks whether the delivery is too old to be sent.
    pub(super) fn is_old(&self) -> bool {
        self.created_at + GIVEN_UP_AFTER <= now()
    }
}

/// Deletes deliveries from more than a week ago.
///
/// # Errors
/// Only database errors.
pub async fn delete_old(db: &Db) -> Result<(), DbError> {
    db.delete_expired(
        now() - KEPT,
        "select exists (select 1 from deliveries where created_at < $1)",
        "delete from deliveries where id in (select id from deliveries where created_at < $1 order by created_at, id limit $2)",
    )
    .await?;
    Ok(())
}
