//! The `notify` job: finds items that changed, and inserts a delivery for each device of the people whom they notify.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{
    pusher::Pusher,
    queue::{self, DeliveryKind, MAIL_ORIGIN, NewDelivery},
    settings::{self, NotificationSettings, SettingsRow},
};
use crate::{
    chat::{
        mentions::HERE,
        messages::{Mention, MentionKind},
    },
    db::{
        Conn, Db, DbError, Json,
        dialect::{self, hexadecimal_ids},
        now,
    },
    failpoint,
    ids::{DeviceId, UserId, WorkspaceId},
    inbox::InboxReason,
    sql_with_ids,
    time::Timestamp,
};

/// Maximum number of items, devices, or summaries that one transaction handles.
const AT_ONCE: i64 = 500;
/// Interval after which the position is stored although there was nothing to do.
const STORED_EVERY: std::time::Duration = std::time::Duration::from_mins(1);
/// Time after which an unread item is missed.
const MISSED_AFTER: std::time::Duration = std::time::Duration::from_mins(10);
/// Time for which a person counts as active after input.
pub const ACTIVE_FOR: std::time::Duration = std::time::Duration::from_mins(1);

/// Position of the job: the change that it handled last.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Cursor {
    #[serde(with = "microseconds")]
    changed_at: Timestamp,
    recipient: Uuid,
    item: Uuid,
    /// Messages with lower IDs were handled for people who follow their conversation.
    message: Uuid,
}

/// Lowest ID of objects that were created at or after a time.
fn first_id(at: Timestamp) -> Uuid {
    let ms = u128::try_from(at.unix_ms()).unwrap_or_default();
    Uuid::from_u128(ms << 80)
}

/// Times with the precision of the database.
mod microseconds {
    use chrono::DateTime;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    use crate::time::Timestamp;

    pub(super) fn serialize<S: Serializer>(at: &Timestamp, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_i64(at.datetime().timestamp_micros())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Timestamp, D::Error> {
        let at = DateTime::from_timestamp_micros(i64::deserialize(from)?);
        let at = at.and_then(Timestamp::within_years);
        at.ok_or_else(|| D::Error::custom("not a time"))
    }
}

impl Cursor {
    /// Position after all changes up to a time.
    fn after(at: Timestamp) -> Self {
        Self {
            changed_at: at,
            recipient: Uuid::max(),
            item: Uuid::max(),
            message: first_id(at),
        }
    }

    async fn read(c: &mut Conn) -> Result<Option<Self>, DbError> {
        let row: Option<(String,)> = c
            .q("select value from meta where key = 'notify_cursor'")
            .opt()
            .await?;
        Ok(row.and_then(|(value,)| serde_json::from_str(&value).ok()))
    }

    async fn store(self, c: &mut Conn) -> Result<(), DbError> {
        let value = serde_json::to_string(&self).map_err(|e| DbError::Start(e.to_string()))?;
        c.q("insert into meta (key, value) values ('notify_cursor', $1) on conflict (key) do update set value = excluded.value")
            .bind(value)
            .run()
            .await?;
        Ok(())
    }
}

/// An item that opened.
#[derive(Debug, Clone, sqlx::FromRow)]
struct ChangedItem {
    id: Uuid,
    recipient_id: Uuid,
    workspace_id: WorkspaceId,
    channel_id: Option<Uuid>,
    reason: InboxReason,
    changed_seq: i64,
    changed_at: Timestamp,
}

impl ChangedItem {
    fn position(&self, message: Uuid) -> Cursor {
        Cursor {
            message,
            changed_at: self.changed_at,
            recipient: self.recipient_id,
            item: self.id,
        }
    }

    fn is_of_channel(&self) -> bool {
        self.channel_id == Some(self.recipient_id)
    }
}

/// A device of a person whom an item may notify.
#[derive(Debug, Clone, sqlx::FromRow)]
struct Candidate {
    device_id: DeviceId,
    user_id: UserId,
    origin: String,
    #[sqlx(flatten)]
    settings: SettingsRow,
}

macro_rules! candidate_columns {
    () => {
        "select d.id as device_id, d.user_id, d.origin, s.push, s.preview, s.quiet, s.paused_until, s.timezone, s.mail, s.version \
         from push_devices d left join notification_settings s on s.user_id = d.user_id "
    };
}

/// An item that quiet hours or a pause hold back.
#[derive(Debug, Clone, Copy)]
struct Held {
    user: UserId,
    since: Timestamp,
    until: Timestamp,
}

/// Rows that one transaction inserts.
#[derive(Debug, Clone, Default)]
struct Batch {
    deliveries: Vec<NewDelivery>,
    held: Vec<Held>,
}

impl Batch {
    fn add(&mut self, item: &ChangedItem, candidate: Candidate) {
        let settings = NotificationSettings::from(candidate.settings);
        if !settings.push {
            return;
        }
        let user = candidate.user_id;
        if let Some(until) = settings.blocked_until(now()) {
            self.held.push(Held {
                user,
                since: item.changed_at,
                until,
            });
            return;
        }
        self.deliveries.push(NewDelivery {
            item: item.id,
            changed_seq: item.changed_seq,
            user,
            workspace: Some(item.workspace_id),
            target: candidate.device_id.0,
            kind: DeliveryKind::Item,
            reason: Some(item.reason),
            origin: candidate.origin,
            since: Some(item.changed_at),
            due_at: now(),
        });
    }

    /// Adds the item to the person's next email.
    fn add_mail(&mut self, item: &ChangedItem, user: UserId) {
        self.deliveries.push(NewDelivery {
            item: item.id,
            changed_seq: item.changed_seq,
            user,
            workspace: Some(item.workspace_id),
            target: user.0,
            kind: DeliveryKind::Mail,
            reason: Some(item.reason),
            origin: MAIL_ORIGIN.to_owned(),
            since: Some(item.changed_at),
            due_at: item.changed_at + MISSED_AFTER,
        });
    }

    async fn insert(&self, c: &mut Conn) -> Result<(), DbError> {
        for held in &self.held {
            settings::hold(c, held.user, held.since, held.until).await?;
        }
        for delivery in &self.deliveries {
            queue::insert(c, delivery).await?;
        }
        Ok(())
    }
}

impl Pusher {
    /// Inserts deliveries for the items that opened long enough ago, and summaries that are due. Returns true if there are new
    /// deliveries.
    ///
    /// # Errors
    /// Only database errors.
    pub async fn notify(&self, db: &Db) -> Result<bool, DbError> {
        let until = now() - self.pace.settled_after;
        let Some(mut cursor) = Cursor::read(&mut db.read().await?).await? else {
            // Nobody is notified of items from before the first start.
            let first = Cursor::after(until);
            db.write(Uuid::nil(), async move |c: &mut Conn| first.store(c).await)
                .await?;
            return Ok(false);
        };
        let begun = cursor;
        let mut has_new = false;
        loop {
            let items = list_changed(&mut db.read().await?, cursor, until).await?;
            let is_last = items.len() < usize::try_from(AT_ONCE).unwrap_or(usize::MAX);
            let next = match items.last() {
                Some(item) if !is_last => item.position(cursor.message),
                Some(_) => Cursor {
                    message: cursor.message,
                    ..Cursor::after(until)
                },
                None => break,
            };
            let (of_channels, own): (Vec<_>, Vec<_>) =
                items.into_iter().partition(ChangedItem::is_of_channel);
            for item in &of_channels {
                has_new |= self.notify_channel(db, item).await?;
            }
            let batch = self.batch_of(db, &own).await?;
            has_new |= !batch.deliveries.is_empty();
            failpoint!("notify_insert");
            db.write(Uuid::nil(), async move |c: &mut Conn| {
                batch.insert(c).await?;
                next.store(c).await
            })
            .await?;
            failpoint!("notify_inserted");
            cursor = next;
            if is_last {
                break;
            }
        }
        let followed = self.notify_followers(db, cursor.message, until).await?;
        has_new |= followed == Some(true);
        // An idle server writes rarely.
        if followed.is_some() || begun.changed_at + STORED_EVERY < until {
            let end = Cursor::after(until);
            db.write(Uuid::nil(), async move |c: &mut Conn| end.store(c).await)
                .await?;
        }
        has_new |= self.summarize(db).await?;
        if has_new {
            self.wake();
        }
        Ok(has_new)
    }

    /// Inserts deliveries for the members of a channel, a page of devices at a time.
    async fn notify_channel(&self, db: &Db, item: &ChangedItem) -> Result<bool, DbError> {
        let (mut after, mut has_new) = (Uuid::nil(), false);
        let online = self.online_for_here(db, item).await?;
        let is_reached = |user: &UserId| online.as_ref().is_none_or(|online| online.contains(user));
        loop {
            let found = list_members(&mut db.scan(own_share(item)).await?, item, after).await?;
            let Some(last) = found.last() else {
                return Ok(has_new);
            };
            after = last.device_id.0;
            let active = self
                .active_of(db, found.iter().map(|one| one.user_id))
                .await?;
            let mut batch = Batch::default();
            for candidate in found {
                if !active.contains(&candidate.user_id) && is_reached(&candidate.user_id) {
                    batch.add(item, candidate);
                }
            }
            has_new |= !batch.deliveries.is_empty();
            db.write(Uuid::nil(), async move |c: &mut Conn| batch.insert(c).await)
                .await?;
        }
    }

    /// People with an open window on any node, if the item is a message with `@here`, which notifies nobody else; `None` for other items.
    async fn online_for_here(
        &self,
        db: &Db,
        item: &ChangedItem,
    ) -> Result<Option<HashSet<UserId>>, DbError> {
        if item.reason != InboxReason::Group {
            return Ok(None);
        }
        let mut c = db.read().await?;
        if !names_only_here(&mut c, item).await? {
            return Ok(None);
        }
        let at = dialect::clock(&mut c).await?;
        let elsewhere: Vec<(UserId,)> = c
            .q("select p.user_id from presence p join nodes n on n.id = p.node_id where p.workspace_id = $1 and n.lease_until >= $2")
            .bind(item.workspace_id)
            .bind(at)
            .all()
            .await?;
        let mut online: HashSet<UserId> = self.hub.online(item.workspace_id).into_iter().collect();
        online.extend(elsewhere.into_iter().map(|(user,)| user));
        Ok(Some(online))
    }

    /// Inserts deliveries for people who chose to follow a conversation with new messages: such replies have no rows.
    /// Returns `None` if there are no such messages, and true if there are new deliveries.
    async fn notify_followers(
        &self,
        db: &Db,
        begin: Uuid,
        until: Timestamp,
    ) -> Result<Option<bool>, DbError> {
        let (end, mut after) = (first_id(until), (begin, Uuid::nil()));
        let mut has_new = None;
        loop {
            let found = list_followers(&mut db.read().await?, after.0, after.1, end).await?;
            let Some(last) = found.last() else {
                break;
            };
            after = (last.message_id, last.candidate.device_id.0);
            let people = found.iter().map(|one| one.candidate.user_id);
            let active = self.active_of(db, people).await?;
            let mut batch = Batch::default();
            for one in found {
                if !active.contains(&one.candidate.user_id) {
                    batch.add(&one.item(), one.candidate);
                }
            }
            has_new = Some(has_new == Some(true) || !batch.deliveries.is_empty());
            db.write(Uuid::nil(), async move |c: &mut Conn| batch.insert(c).await)
                .await?;
        }
        Ok(has_new)
    }

    /// Deliveries for items of single people.
    async fn batch_of(&self, db: &Db, items: &[ChangedItem]) -> Result<Batch, DbError> {
        let mut batch = Batch::default();
        if items.is_empty() {
            return Ok(batch);
        }
        let mut c = db.read().await?;
        let people: HashSet<Uuid> = items.iter().map(|item| item.recipient_id).collect();
        let sql = sql_with_ids!(
            c,
            concat!(candidate_columns!(), "where d.user_id in"),
            1,
            "order by d.id"
        );
        let found: Vec<Candidate> = c
            .q(sql)
            .bind(hexadecimal_ids(people.iter().copied()))
            .all()
            .await?;
        let sql = sql_with_ids!(
            c,
            "select user_id from notification_settings where mail = 'missed' and user_id in",
            1,
            ""
        );
        let mailed: Vec<(Uuid,)> = c.q(sql).bind(hexadecimal_ids(people)).all().await?;
        drop(c);
        let mailed: HashSet<Uuid> = mailed.into_iter().map(|(user,)| user).collect();
        let active = self
            .active_of(db, found.iter().map(|one| one.user_id))
            .await?;
        let mut of_person: HashMap<Uuid, Vec<Candidate>> = HashMap::new();
        for candidate in found {
            if !active.contains(&candidate.user_id) {
                of_person
                    .entry(candidate.user_id.0)
                    .or_default()
                    .push(candidate);
            }
        }
        for item in items {
            for candidate in of_person.get(&item.recipient_id).into_iter().flatten() {
                batch.add(item, candidate.clone());
            }
            if mailed.contains(&item.recipient_id) {
                batch.add_mail(item, UserId(item.recipient_id));
            }
        }
        Ok(batch)
    }

    /// People who had input in a visible window a short time ago, on any node.
    pub(super) async fn active_of(
        &self,
        db: &Db,
        people: impl Iterator<Item = UserId>,
    ) -> Result<HashSet<UserId>, DbError> {
        let people: HashSet<UserId> = people.collect();
        let mut active: HashSet<UserId> = people
            .iter()
            .filter(|user| self.hub.is_active(**user, ACTIVE_FOR))
            .copied()
            .collect();
        let mut c = db.read().await?;
        let sql = sql_with_ids!(
            c,
            "select user_id from presence where active_at > $2 and user_id in",
            1,
            ""
        );
        let elsewhere: Vec<(UserId,)> = c
            .q(sql)
            .bind(hexadecimal_ids(people.iter().map(|user| user.0)))
            .bind(now() - ACTIVE_FOR)
            .all()
            .await?;
        active.extend(elsewhere.into_iter().map(|(user,)| user));
        Ok(active)
    }

    /// Inserts the summaries of quiet hours and pauses that have ended.
    async fn summarize(&self, db: &Db) -> Result<bool, DbError> {
        let due: Vec<(UserId, Timestamp)> = db
            .read()
            .await?
            .q("select user_id, next_due_at from notification_settings where next_due_at <= $1 and next_due_at is not null \
                order by next_due_at limit $2")
            .bind(now())
            .bind(AT_ONCE)
            .all()
            .await?;
        let active = self
            .active_of(db, due.iter().map(|(user, _)| *user))
            .await?;
        let mut has_new = false;
        for (user, due_at) in due {
            let is_active = active.contains(&user);
            has_new |= db
                .write(Uuid::nil(), async move |c: &mut Conn| {
                    let presence = if is_active {
                        Presence::Active
                    } else {
                        Presence::Away
                    };
                    summarize_for(c, user, due_at, presence).await
                })
                .await?;
        }
        Ok(has_new)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Presence {
    Active,
    Away,
}

/// Ends the hold of a person's items, with a summary for each device unless they are active. Returns true if there is one.
async fn summarize_for(
    c: &mut Conn,
    user: UserId,
    due_at: Timestamp,
    presence: Presence,
) -> Result<bool, DbError> {
    let stored = settings::read(c, user).await?;
    if let Some(later) = stored.blocked_until(now()) {
        c.q("update notification_settings set next_due_at = $3 where user_id = $1 and next_due_at = $2")
            .bind(user)
            .bind(due_at)
            .bind(later)
            .run()
            .await?;
        return Ok(false);
    }
    let held: Option<(Option<Timestamp>,)> = c
        .q("select held_since from notification_settings where user_id = $1 and next_due_at = $2")
        .bind(user)
        .bind(due_at)
        .opt()
        .await?;
    let ended = c
        .q("update notification_settings set held_since = null, next_due_at = null where user_id = $1 and next_due_at = $2")
        .bind(user)
        .bind(due_at)
        .run()
        .await?;
    let Some((Some(since),)) = held.filter(|_| ended == 1 && stored.push) else {
        return Ok(false);
    };
    if presence == Presence::Active {
        return Ok(false);
    }
    let devices: Vec<(DeviceId, String)> = c
        .q("select id, origin from push_devices where user_id = $1 order by id")
        .bind(user)
        .all()
        .await?;
    let has_some = !devices.is_empty();
    for (device, origin) in devices {
        let new = NewDelivery {
            item: user.0,
            changed_seq: due_at.unix_ms(),
            user,
            workspace: None,
            target: device.0,
            kind: DeliveryKind::Summary,
            reason: None,
            origin,
            since: Some(since),
            due_at: now(),
        };
        queue::insert(c, &new).await?;
    }
    Ok(has_some)
}

fn own_share(item: &ChangedItem) -> crate::db::Share {
    crate::db::Share {
        person: Uuid::nil(),
        workspace: item.workspace_id.0,
    }
}

/// Open items that changed after a position and up to a time, and notify. Items of single people are unread.
async fn list_changed(
    c: &mut Conn,
    after: Cursor,
    until: Timestamp,
) -> Result<Vec<ChangedItem>, DbError> {
    c.q("select i.id, i.recipient_id, i.workspace_id, i.channel_id, i.reason, i.changed_seq, i.changed_at from inbox_items i \
         left join channel_members cm on cm.channel_id = i.channel_id and cm.user_id = i.recipient_id \
         left join reads r on r.conversation_id = i.conversation_id and r.user_id = i.recipient_id \
         where i.changed_at >= $1 and i.changed_at <= $4 and (i.changed_at > $1 or (i.recipient_id, i.id) > ($2, $3)) \
         and i.state = 'open' and not i.is_quiet and i.reason <> 'notice' \
         and (i.message_id is null or i.reason = 'saved' or i.recipient_id = i.channel_id \
           or i.seq > coalesce(r.seq, case when i.conversation_id = i.thread_id then cm.read_seq end, 0)) \
         order by i.changed_at, i.recipient_id, i.id limit $5")
        .bind(after.changed_at)
        .bind(after.recipient)
        .bind(after.item)
        .bind(until)
        .bind(AT_ONCE)
        .all()
        .await
}

/// Checks whether the message of an item mentions the people who are online, and not all members.
async fn names_only_here(c: &mut Conn, item: &ChangedItem) -> Result<bool, DbError> {
    let row: Option<(Json<Vec<Mention>>,)> = c
        .q("select m.mentions from inbox_items i join messages m on m.id = i.message_id where i.recipient_id = $1 and i.id = $2")
        .bind(item.recipient_id)
        .bind(item.id)
        .opt()
        .await?;
    let mentions = row.map(|(Json(mentions),)| mentions).unwrap_or_default();
    let groups = mentions
        .iter()
        .filter(|mention| mention.kind == MentionKind::Group);
    let groups: Vec<&str> = groups.map(|mention| mention.handle.as_str()).collect();
    Ok(!groups.is_empty() && groups.iter().all(|handle| *handle == HERE))
}

/// A new message, and a device of a person who chose to follow its conversation.
#[derive(Debug, Clone, sqlx::FromRow)]
struct FollowedMessage {
    message_id: Uuid,
    conversation_id: Uuid,
    workspace_id: WorkspaceId,
    seq: i64,
    created_at: Timestamp,
    #[sqlx(flatten)]
    candidate: Candidate,
}

impl FollowedMessage {
    /// The reply as an item, whose ID is that of the conversation.
    fn item(&self) -> ChangedItem {
        ChangedItem {
            id: self.conversation_id,
            recipient_id: self.candidate.user_id.0,
            workspace_id: self.workspace_id,
            channel_id: None,
            reason: InboxReason::Reply,
            changed_seq: self.seq,
            changed_at: self.created_at,
        }
    }
}

/// New messages after a message and device, and before an ID, with the devices of other people who chose to follow the conversation
/// before the message.
async fn list_followers(
    c: &mut Conn,
    after: Uuid,
    device: Uuid,
    end: Uuid,
) -> Result<Vec<FollowedMessage>, DbError> {
    c.q("select m.id as message_id, m.conversation_id, m.workspace_id, m.seq, m.created_at, d.id as device_id, d.user_id, d.origin, \
         s.push, s.preview, s.quiet, s.paused_until, s.timezone, s.mail, s.version from messages m \
         join follows f on f.conversation_id = m.conversation_id and f.cause = 'manual' and f.level = 'all' \
         join push_devices d on d.user_id = f.user_id left join notification_settings s on s.user_id = d.user_id \
         where m.id >= $1 and m.id < $3 and (m.id > $1 or d.id > $2) and m.author_type = 'human' and m.author_id <> f.user_id \
         and m.seq > f.changed_seq and m.kind <> 'notice' and m.deleted_at is null order by m.id, d.id limit $4")
        .bind(after)
        .bind(device)
        .bind(end)
        .bind(AT_ONCE)
        .all()
        .await
}

/// Devices of a channel's members who have not read its item, after a device.
async fn list_members(
    c: &mut Conn,
    item: &ChangedItem,
    after: Uuid,
) -> Result<Vec<Candidate>, DbError> {
    c.q(concat!(
        candidate_columns!(),
        "join inbox_items i on i.recipient_id = $1 and i.id = $2 \
         join channel_members cm on cm.channel_id = $1 and cm.user_id = d.user_id \
         left join reads r on r.conversation_id = i.conversation_id and r.user_id = d.user_id \
         left join follows f on f.conversation_id = i.conversation_id and f.user_id = d.user_id \
         where d.id > $3 and i.actor_id <> d.user_id and i.seq > cm.joined_seq \
         and i.seq > coalesce(r.seq, case when i.conversation_id = i.thread_id then cm.read_seq end, 0) \
         and (i.reason = 'group' and (case when f.cause = 'manual' then f.level else cm.level end) <> 'none' \
           or i.reason = 'thread' and (case when f.cause = 'manual' then f.level else cm.level end) = 'all') \
         order by d.id limit $4"
    ))
    .bind(item.recipient_id)
    .bind(item.id)
    .bind(after)
    .bind(AT_ONCE)
    .all()
    .await
}
