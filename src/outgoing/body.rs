//! Bodies of events, in the format of Standard Webhooks or of Slack's Events API.

use serde_json::{Map, Value, json};

use super::{links::links_in, queue::DueBotDelivery};
use crate::{
    auth::{Scope, Scopes},
    chat::{
        channels::ChannelKind,
        event::ChannelChange,
        mentions,
        messages::{Mention, MentionKind, Message, find_message, reaction_name},
    },
    db::{Conn, DbError, Json},
    hooks::{BotEventFormat, BotEventKind, BotTransport, SubscriptionStatus, slack_ts},
    ids::{BotDeliveryId, BotId, ChannelId, MessageId, UserId, WorkspaceId},
    outbound::Url,
    slack::{self, ThreadFacts},
    time::Timestamp,
};

/// A bot with a subscription.
#[derive(Debug, Clone, sqlx::FromRow)]
pub(super) struct Subscriber {
    pub(super) bot_id: BotId,
    pub(super) workspace_id: WorkspaceId,
    url: Option<String>,
    pub(super) format: BotEventFormat,
    pub(super) transport: BotTransport,
    pub(super) status: SubscriptionStatus,
    /// Until then, the previous secret signs, too.
    pub(super) previous_until: Option<Timestamp>,
    handle: String,
    scopes: Json<Scopes>,
    show_emails: bool,
    link_domains: Json<Vec<String>>,
}

impl Subscriber {
    /// Address of the program; `None` if it opens a socket.
    pub(super) fn address(&self) -> Option<Url> {
        Url::parse(self.url.as_deref()?).ok()
    }
}

pub(super) async fn find_subscriber(
    c: &mut Conn,
    id: BotId,
) -> Result<Option<Subscriber>, DbError> {
    c.q("select s.bot_id, s.workspace_id, s.url, s.format, s.transport, s.status, s.previous_until, b.handle, b.scopes, b.show_emails, b.link_domains \
         from bot_subscriptions s join bots b on b.id = s.bot_id where s.bot_id = $1")
        .bind(id)
        .opt()
        .await
}

#[derive(Debug, Clone, sqlx::FromRow)]
struct StoredEvent {
    frame: String,
    ts: Timestamp,
    channel_id: Option<ChannelId>,
}

/// The body of a delivery. Returns `None` if the bot can no longer see the event, or its message was deleted.
pub(super) async fn build(
    c: &mut Conn,
    public_url: &str,
    subscriber: &Subscriber,
    delivery: &DueBotDelivery,
) -> Result<Option<Value>, DbError> {
    if !subscriber.scopes.0.has(Scope::ChatRead) {
        return Ok(None);
    }
    let event: Option<StoredEvent> = c
        .q("select e.frame, e.ts, e.channel_id from events e where e.workspace_id = $1 and e.seq = $2 and not e.is_restricted \
            and (e.channel_id is null or exists (select 1 from bot_channels bc where bc.bot_id = $3 and bc.channel_id = e.channel_id))")
        .bind(subscriber.workspace_id)
        .bind(delivery.seq)
        .bind(subscriber.bot_id)
        .opt()
        .await?;
    let Some(event) = event else { return Ok(None) };
    let Ok(mut frame) = serde_json::from_str::<Map<String, Value>>(&event.frame) else {
        return Ok(None);
    };
    let Some(Value::Object(data)) = frame.remove("data") else {
        return Ok(None);
    };
    let id = data
        .get("message")
        .and_then(|message| message.get("id"))
        .or_else(|| data.get("message_id"));
    let id = id
        .and_then(Value::as_str)
        .and_then(|id| MessageId::parse(id).ok());
    let message = match id {
        Some(id) => find_message(c, id).await?,
        None => None,
    };
    let needs_message = matches!(
        delivery.event,
        BotEventKind::MessageCreated
            | BotEventKind::MessageUpdated
            | BotEventKind::AppMention
            | BotEventKind::LinkShared
            | BotEventKind::ReactionAdded
            | BotEventKind::ReactionRemoved
    );
    if needs_message
        && message
            .as_ref()
            .is_none_or(|message| message.deleted_at.is_some())
    {
        return Ok(None);
    }
    Ok(match subscriber.format {
        BotEventFormat::Standard => Some(standard(
            subscriber,
            delivery.event,
            event.ts,
            frame,
            data,
            message.as_ref(),
        )),
        BotEventFormat::Slack => {
            let parts = SlackParts {
                public_url,
                subscriber,
                event: &event,
                data: &data,
                message: message.as_ref(),
            };
            let inner = parts.inner(c, delivery.event).await?;
            inner.map(|inner| outer(subscriber, delivery.id, event.ts, inner))
        }
    })
}

fn standard(
    subscriber: &Subscriber,
    kind: BotEventKind,
    at: Timestamp,
    mut frame: Map<String, Value>,
    mut data: Map<String, Value>,
    message: Option<&Message>,
) -> Value {
    if !subscriber.show_emails
        && let Some(member) = data.get_mut("member").and_then(Value::as_object_mut)
    {
        member.remove("email");
    }
    for name in ["channel_id", "thread_id", "seq"] {
        let value = frame.remove(name).unwrap_or_default();
        data.entry(name).or_insert(value);
    }
    data.insert("workspace_id".to_owned(), json!(subscriber.workspace_id));
    if let (BotEventKind::LinkShared, Some(message)) = (kind, message) {
        let links = links_in(&message.content, &subscriber.link_domains.0);
        data.insert("links".to_owned(), json!(links));
    }
    json!({"type": kind, "timestamp": at, "data": data})
}

/// The envelope of Slack's Events API around an event.
fn outer(subscriber: &Subscriber, id: BotDeliveryId, at: Timestamp, inner: Value) -> Value {
    let team = slack::team_id(subscriber.workspace_id);
    let app = slack::app_id(subscriber.bot_id);
    let id = id.to_string();
    let suffix = id.rsplit('_').next().unwrap_or_default();
    let mut body = json!({
        "token": "", "team_id": team, "api_app_id": app, "type": "event_callback",
        "event_id": format!("Ev{}", suffix.to_uppercase()), "event_time": at.unix_s(),
        "authorizations": [{
            "enterprise_id": null, "team_id": team, "user_id": slack::user_id(subscriber.bot_id.0), "is_bot": true,
            "is_enterprise_install": false,
        }],
        "is_ext_shared_channel": false,
    });
    body["event"] = inner;
    body
}

/// Data from which an event in Slack's format is made.
struct SlackParts<'a> {
    public_url: &'a str,
    subscriber: &'a Subscriber,
    event: &'a StoredEvent,
    data: &'a Map<String, Value>,
    message: Option<&'a Message>,
}

impl SlackParts<'_> {
    fn text(&self, name: &str) -> &str {
        self.data.get(name).and_then(Value::as_str).unwrap_or("")
    }

    fn user(&self) -> Option<String> {
        let id = UserId::parse(self.text("user_id")).ok()?;
        Some(slack::user_id(id.0))
    }

    /// The message, with mentions of the bot as references.
    async fn shown(&self, c: &mut Conn, message: &Message) -> Result<Value, DbError> {
        let root: Option<(MessageId,)> = c
            .q("select root_message_id from threads where id = $1")
            .bind(message.thread_id)
            .opt()
            .await?;
        let mut facts = ThreadFacts::default();
        if let Some((root,)) = root.filter(|(root,)| *root != message.id) {
            let root = find_message(c, root).await?;
            facts.thread_ts = root.as_ref().map(slack_ts);
        }
        let mut message = message.clone();
        let handle = &self.subscriber.handle;
        for raw in mentions::parse(&message.content) {
            let is_known = message
                .mentions
                .iter()
                .any(|known| known.start == raw.start_utf16);
            if is_known || !raw.candidates.contains(handle) {
                continue;
            }
            let span = raw.span_of(handle);
            message.mentions.push(Mention {
                kind: MentionKind::User,
                id: Some(self.subscriber.bot_id.to_string()),
                handle: handle.clone(),
                start: span.start,
                length: span.length,
            });
        }
        Ok(slack::message(&message, &facts, self.public_url))
    }

    async fn inner(&self, c: &mut Conn, kind: BotEventKind) -> Result<Option<Value>, DbError> {
        let ts = slack::ts_at(self.event.ts);
        if kind == BotEventKind::MemberJoined {
            return Ok(Some(self.team_join(&ts)));
        }
        let Some(channel) = self.event.channel_id else {
            return Ok(None);
        };
        let row: Option<(ChannelKind, Option<String>, Timestamp, bool)> = c
            .q(concat!(
                "select ch.kind, ch.name, ch.created_at, ",
                slack::is_pair!(),
                " from channels ch where ch.id = $1"
            ))
            .bind(channel)
            .opt()
            .await?;
        let Some((channel_kind, name, created_at, is_pair)) = row else {
            return Ok(None);
        };
        let id = slack::channel_id(channel, channel_kind);
        let channel_type = match channel_kind {
            ChannelKind::Public => "channel",
            ChannelKind::Private => "group",
            ChannelKind::Direct if is_pair => "im",
            ChannelKind::Direct => "mpim",
        };
        let shown = match self.message {
            Some(message) => self.shown(c, message).await?,
            None => Value::Null,
        };
        let message_ts = self.message.map(slack_ts);
        Ok(Some(match kind {
            BotEventKind::MessageCreated | BotEventKind::AppMention => {
                let mut event = shown;
                event["channel"] = id.into();
                event["event_ts"] = event["ts"].clone();
                if kind == BotEventKind::AppMention {
                    event["type"] = "app_mention".into();
                } else {
                    event["channel_type"] = channel_type.into();
                }
                event
            }
            BotEventKind::MessageUpdated => json!({
                "type": "message", "subtype": "message_changed", "hidden": true, "channel": id, "channel_type": channel_type,
                "message": shown, "ts": ts, "event_ts": ts,
            }),
            BotEventKind::MessageDeleted => json!({
                "type": "message", "subtype": "message_deleted", "hidden": true, "channel": id, "channel_type": channel_type,
                "deleted_ts": message_ts, "ts": ts, "event_ts": ts,
            }),
            BotEventKind::ReactionAdded | BotEventKind::ReactionRemoved => {
                let emoji = self.text("emoji");
                let event = if kind == BotEventKind::ReactionAdded {
                    "reaction_added"
                } else {
                    "reaction_removed"
                };
                json!({
                    "type": event, "user": self.user(), "reaction": reaction_name(emoji),
                    "item": {"type": "message", "channel": id, "ts": message_ts}, "item_user": shown["user"], "event_ts": ts,
                })
            }
            BotEventKind::ChannelUpdated => match self.text("change").parse::<ChannelChange>() {
                Ok(ChannelChange::Renamed) => json!({
                    "type": "channel_rename", "channel": {"id": id, "name": name, "created": created_at.unix_s()}, "event_ts": ts,
                }),
                Ok(ChannelChange::Unarchived) => {
                    json!({"type": "channel_unarchive", "channel": id, "event_ts": ts})
                }
                // Slack has no event of its own for a topic, and none for an agent.
                Err(_) => return Ok(None),
            },
            BotEventKind::ChannelArchived => {
                json!({"type": "channel_archive", "channel": id, "event_ts": ts})
            }
            BotEventKind::ChannelMemberAdded | BotEventKind::ChannelMemberRemoved => {
                let event = if kind == BotEventKind::ChannelMemberAdded {
                    "member_joined_channel"
                } else {
                    "member_left_channel"
                };
                let team = slack::team_id(self.subscriber.workspace_id);
                let letter = if channel_kind == ChannelKind::Public {
                    "C"
                } else {
                    "G"
                };
                json!({"type": event, "user": self.user(), "channel": id, "channel_type": letter, "team": team, "event_ts": ts})
            }
            BotEventKind::LinkShared => {
                let content = self.message.map_or("", |message| message.content.as_str());
                json!({
                    "type": "link_shared", "channel": id, "is_bot_user_member": true, "user": shown["user"], "message_ts": message_ts,
                    "thread_ts": shown["thread_ts"], "links": links_in(content, &self.subscriber.link_domains.0),
                    "source": "conversations_history", "event_ts": ts,
                })
            }
            BotEventKind::MemberJoined => return Ok(None),
        }))
    }

    fn team_join(&self, ts: &str) -> Value {
        let member = self.data.get("member").unwrap_or(&Value::Null);
        let id = member["user_id"]
            .as_str()
            .and_then(|id| UserId::parse(id).ok());
        let team = slack::team_id(self.subscriber.workspace_id);
        let mut profile =
            json!({"real_name": member["name"], "display_name": member["handle"], "team": team});
        if self.subscriber.show_emails {
            profile["email"] = member["email"].clone();
        }
        json!({
            "type": "team_join", "event_ts": ts,
            "user": {
                "id": id.map(|id| slack::user_id(id.0)), "team_id": team, "name": member["handle"], "real_name": member["name"],
                "deleted": false, "is_bot": false, "profile": profile,
            },
        })
    }
}
