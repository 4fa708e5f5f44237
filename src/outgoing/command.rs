//! Commands and presses of buttons: requests to a bot's program that a person waits for. They are sent at once and never again.

use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::time::{Instant, sleep, timeout};
use uuid::Uuid;

use super::{
    body::{self, Subscriber},
    queue::{self, BotSocketId},
    sender::{CONTENT_JSON, EventSender, Unsigned},
    sockets::{BotSocket, SocketCall},
};
use crate::{
    auth::AuthError,
    chat::{
        channels::ChannelKind,
        messages::{Message, MessageButton, MessageMetadata},
    },
    db::{Conn, Db, DbError, now},
    hooks::{
        BotEventFormat, BotTransport, ButtonUse, HookError, Incoming, SubscriptionStatus, slack_ts,
    },
    ids::{BotDeliveryId, BotId, ChannelId, ThreadId, UserId},
    outbound::Url,
    slack::{self, ThreadFacts},
};

/// Time in which a program answers.
const ANSWERED_WITHIN: Duration = Duration::from_secs(3);
/// Interval between looks for the answer of a program on another node's socket.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Time after which the row of a call is deleted, if its process died.
const KEPT: Duration = Duration::from_mins(1);
const FORM: &str = "application/x-www-form-urlencoded";

/// A command that a person ran.
#[derive(Debug, Clone)]
pub struct CommandCall {
    pub bot: BotId,
    pub bot_name: String,
    /// Without the slash.
    pub command: String,
    pub text: String,
    pub channel: ChannelId,
    pub thread: Option<ThreadId>,
    pub user: UserId,
    pub user_name: String,
    /// Address at which the program can answer later.
    pub response_url: String,
}

/// Answer of a program to a command.
#[derive(Debug, Clone)]
pub struct CommandReply {
    format: BotEventFormat,
    text: String,
}

/// Effect of a late answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LateEffect {
    Add,
    /// It replaces the text of the message with the button, or of the message that an earlier answer posted.
    Replace,
    Delete,
}

/// People who see an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyAudience {
    /// The person who ran the command.
    Person,
    Conversation,
}

/// An answer that is shown.
#[derive(Debug, Clone)]
pub struct CommandAnswer {
    /// Markdown.
    pub content: String,
    pub metadata: MessageMetadata,
    pub audience: ReplyAudience,
}

impl CommandReply {
    /// An answer that the program sends later.
    pub fn late(format: BotEventFormat, text: String) -> Self {
        Self { format, text }
    }

    /// Effect of a late answer on the message to which it belongs.
    pub fn effect(&self) -> LateEffect {
        let value: Value = serde_json::from_str(&self.text).unwrap_or_default();
        let has = |name: &str| match value.get(name) {
            Some(Value::Bool(set)) => *set,
            Some(Value::String(text)) => text == "true",
            _ => false,
        };
        if has("delete_original") {
            LateEffect::Delete
        } else if has("replace_original") {
            LateEffect::Replace
        } else {
            LateEffect::Add
        }
    }

    /// Reads the answer: JSON with `text` and `response_type`, or a text. Returns `None` if there is nothing to show.
    pub fn read(&self) -> Option<CommandAnswer> {
        let text = self.text.trim();
        let value = match serde_json::from_str(text) {
            Ok(Value::Object(members)) => members,
            Ok(Value::Null) => return None,
            _ => Map::from_iter([("text".to_owned(), json!(text))]),
        };
        let is_public = value.get("response_type").and_then(Value::as_str) == Some("in_channel");
        let audience = if is_public {
            ReplyAudience::Conversation
        } else {
            ReplyAudience::Person
        };
        let (content, metadata) = match self.format {
            BotEventFormat::Slack => {
                let incoming = Incoming::slack(&Value::Object(value)).ok()?;
                let is_stored = is_public || self.effect() == LateEffect::Replace;
                let incoming = incoming.with_buttons(if is_stored {
                    ButtonUse::Pressed
                } else {
                    ButtonUse::Text
                });
                (incoming.content, incoming.metadata)
            }
            BotEventFormat::Standard => {
                let text = value.get("text").and_then(Value::as_str)?;
                (text.to_owned(), MessageMetadata::default())
            }
        };
        let content = content.trim().to_owned();
        (!content.is_empty()).then_some(CommandAnswer {
            content,
            metadata,
            audience,
        })
    }
}

/// A channel as Slack names it.
struct SlackChannel {
    id: String,
    name: String,
}

impl SlackChannel {
    /// # Errors
    /// Only database errors.
    async fn find(c: &mut Conn, id: ChannelId) -> Result<Self, DbError> {
        let (kind, name): (ChannelKind, Option<String>) = c
            .q("select kind, name from channels where id = $1")
            .bind(id)
            .one()
            .await?;
        Ok(Self {
            id: slack::channel_id(id, kind),
            name: name.unwrap_or_else(|| "directmessage".to_owned()),
        })
    }
}

/// Members of a command in Slack's format.
fn slack_members(
    subscriber: &Subscriber,
    call: &CommandCall,
    channel: &SlackChannel,
) -> Vec<(&'static str, String)> {
    vec![
        ("token", String::new()),
        ("team_id", slack::team_id(subscriber.workspace_id)),
        ("channel_id", channel.id.clone()),
        ("channel_name", channel.name.clone()),
        ("user_id", slack::user_id(call.user.0)),
        ("user_name", call.user_name.clone()),
        ("command", format!("/{}", call.command)),
        ("text", call.text.clone()),
        ("response_url", call.response_url.clone()),
        ("api_app_id", slack::app_id(call.bot)),
        ("is_enterprise_install", "false".to_owned()),
    ]
}

/// The body of a command in JSON.
fn json_body(subscriber: &Subscriber, call: &CommandCall, channel: &SlackChannel) -> Value {
    match subscriber.format {
        BotEventFormat::Standard => json!({
            "type": "command", "timestamp": now(),
            "data": {
                "command": call.command, "text": call.text, "channel_id": call.channel, "thread_id": call.thread,
                "user_id": call.user, "workspace_id": subscriber.workspace_id, "response_url": call.response_url,
            },
        }),
        BotEventFormat::Slack => {
            let members = slack_members(subscriber, call, channel).into_iter();
            members
                .map(|(name, value)| (name.to_owned(), Value::String(value)))
                .collect::<Map<String, Value>>()
                .into()
        }
    }
}

/// A form with these members.
fn form_of(members: impl IntoIterator<Item = (&'static str, String)>) -> Option<String> {
    let mut form = Url::parse("http://form.invalid/").ok()?;
    form.query_pairs_mut().extend_pairs(members);
    form.query().map(str::to_owned)
}

/// A request that a person waits for.
#[derive(Debug, Clone, Copy)]
enum Call<'a> {
    Command(&'a CommandCall),
    Press(&'a ButtonPress),
}

impl Call<'_> {
    fn bot(&self) -> (BotId, &str) {
        match self {
            Self::Command(call) => (call.bot, &call.bot_name),
            Self::Press(press) => (press.bot, &press.message.author.name),
        }
    }

    fn channel(&self) -> ChannelId {
        match self {
            Self::Command(call) => call.channel,
            Self::Press(press) => press.message.channel_id,
        }
    }

    /// The body in JSON.
    fn json(&self, subscriber: &Subscriber, channel: &SlackChannel, public_url: &str) -> Value {
        match (self, subscriber.format) {
            (Self::Command(call), _) => json_body(subscriber, call, channel),
            (Self::Press(press), BotEventFormat::Standard) => press.standard(subscriber),
            (Self::Press(press), BotEventFormat::Slack) => {
                press.slack(subscriber, channel, public_url)
            }
        }
    }

    /// The body in Slack's format as a form.
    fn form(
        &self,
        subscriber: &Subscriber,
        channel: &SlackChannel,
        public_url: &str,
    ) -> Option<String> {
        match self {
            Self::Command(call) => form_of(slack_members(subscriber, call, channel)),
            Self::Press(press) => {
                let payload = press.slack(subscriber, channel, public_url).to_string();
                form_of([("payload", payload)])
            }
        }
    }
}

/// A press of a button.
#[derive(Debug, Clone)]
pub struct ButtonPress {
    pub bot: BotId,
    pub message: Message,
    pub button: MessageButton,
    pub user: UserId,
    pub user_name: String,
    /// Address at which the program can answer later.
    pub response_url: String,
}

impl ButtonPress {
    fn standard(&self, subscriber: &Subscriber) -> Value {
        json!({
            "type": "button", "timestamp": now(),
            "data": {
                "button_id": self.button.id, "value": self.button.value, "message_id": self.message.id,
                "channel_id": self.message.channel_id, "thread_id": self.message.thread_id, "user_id": self.user,
                "workspace_id": subscriber.workspace_id, "response_url": self.response_url,
            },
        })
    }

    fn slack(&self, subscriber: &Subscriber, channel: &SlackChannel, public_url: &str) -> Value {
        let facts = ThreadFacts::default();
        let (message, button) = (&self.message, &self.button);
        let team = slack::team_id(subscriber.workspace_id);
        let ts = slack_ts(message);
        json!({
            "type": "block_actions", "token": "", "trigger_id": "", "enterprise": null, "is_enterprise_install": false,
            "api_app_id": slack::app_id(self.bot),
            "team": {"id": team, "domain": ""},
            "user": {"id": slack::user_id(self.user.0), "username": self.user_name, "name": self.user_name, "team_id": team},
            "channel": {"id": channel.id, "name": channel.name},
            "container": {"type": "message", "message_ts": ts, "channel_id": channel.id, "is_ephemeral": false},
            "message": slack::message(message, &facts, public_url),
            "response_url": self.response_url,
            "actions": [{
                "type": "button", "action_id": button.id, "block_id": "actions", "action_ts": ts,
                "text": {"type": "plain_text", "text": button.text}, "value": button.value, "style": button.style,
            }],
        })
    }
}

impl EventSender {
    /// Sends a command to the bot's program, and waits for its answer.
    ///
    /// # Errors
    /// `NoAnswer`, or database errors.
    pub async fn command(&self, db: &Db, call: &CommandCall) -> Result<CommandReply, HookError> {
        self.call(db, Call::Command(call)).await
    }

    /// Sends a press of a button to the bot's program, and waits for its answer.
    ///
    /// # Errors
    /// `NoAnswer`, or database errors.
    pub async fn press(&self, db: &Db, press: &ButtonPress) -> Result<CommandReply, HookError> {
        self.call(db, Call::Press(press)).await
    }

    async fn call(&self, db: &Db, call: Call<'_>) -> Result<CommandReply, HookError> {
        let (bot, name) = call.bot();
        let no_answer = || HookError::NoAnswer(name.to_owned());
        let mut c = db.read().await?;
        let subscriber = body::find_subscriber(&mut c, bot).await?;
        let subscriber = subscriber
            .filter(|subscriber| subscriber.status == SubscriptionStatus::Active)
            .ok_or_else(no_answer)?;
        let channel = SlackChannel::find(&mut c, call.channel()).await?;
        let answered = match subscriber.transport {
            BotTransport::Http => {
                let known = self.secrets_of(&mut c, &subscriber).await;
                drop(c);
                let known = known.map_err(AuthError::from)?;
                self.call_address(&subscriber, &channel, call, &known).await
            }
            BotTransport::Socket => {
                drop(c);
                self.call_socket(db, &subscriber, &channel, call).await?
            }
        };
        Ok(CommandReply {
            format: subscriber.format,
            text: answered.ok_or_else(no_answer)?,
        })
    }

    async fn call_address(
        &self,
        subscriber: &Subscriber,
        channel: &SlackChannel,
        call: Call<'_>,
        known: &[String],
    ) -> Option<String> {
        let url = subscriber.address()?;
        let (body, content_type) = match subscriber.format {
            BotEventFormat::Standard => {
                let body = call.json(subscriber, channel, &self.public_url);
                (body.to_string(), CONTENT_JSON)
            }
            BotEventFormat::Slack => (call.form(subscriber, channel, &self.public_url)?, FORM),
        };
        let id = BotDeliveryId::new().to_string();
        let request = Unsigned {
            format: subscriber.format,
            url,
            id: &id,
            body,
            content_type,
            failures: 0,
        };
        let sent = timeout(ANSWERED_WITHIN, self.send(request, known)).await;
        let answer = sent.ok()?;
        answer.is_success().then_some(answer.text)
    }

    /// Stores a call for the sockets of the program, and waits until one of them has stored the answer.
    async fn call_socket(
        &self,
        db: &Db,
        subscriber: &Subscriber,
        channel: &SlackChannel,
        call: Call<'_>,
    ) -> Result<Option<String>, DbError> {
        let (id, bot) = (BotDeliveryId::new(), subscriber.bot_id);
        let body = call.json(subscriber, channel, &self.public_url);
        db.write(Uuid::nil(), async move |c: &mut Conn| {
            queue::insert_call(c, id, bot, &body).await
        })
        .await?;
        self.announce();
        let until = Instant::now() + ANSWERED_WITHIN;
        let mut answer = None;
        while answer.is_none() && Instant::now() < until {
            sleep(LOOK_EVERY).await;
            answer = queue::answer_of_call(&mut db.read().await?, id).await?;
        }
        db.write(Uuid::nil(), async move |c: &mut Conn| {
            queue::delete_call(c, id).await
        })
        .await?;
        Ok(answer)
    }

    /// Takes commands for a socket, each of which goes to one socket.
    ///
    /// # Errors
    /// Only database errors.
    pub async fn take_calls(
        &self,
        db: &Db,
        socket: &BotSocket,
    ) -> Result<Vec<SocketCall>, DbError> {
        let (id, bot): (BotSocketId, BotId) = (socket.id, socket.bot);
        let since = now() - ANSWERED_WITHIN;
        if !queue::has_calls(&mut db.read().await?, bot, since).await? {
            return Ok(Vec::new());
        }
        let taken = db
            .write(Uuid::nil(), async move |c: &mut Conn| {
                queue::take_calls(c, id, since).await
            })
            .await?;
        let calls = taken.into_iter();
        Ok(calls
            .map(|(id, body)| SocketCall { id, body: body.0 })
            .collect())
    }

    /// Stores the answer of a program to a command.
    ///
    /// # Errors
    /// Only database errors.
    pub async fn answer_call(
        &self,
        db: &Db,
        bot: BotId,
        id: BotDeliveryId,
        answer: String,
    ) -> Result<(), DbError> {
        db.write(Uuid::nil(), async move |c: &mut Conn| {
            queue::answer_call(c, bot, id, &answer).await
        })
        .await
    }
}

/// Deletes calls whose processes died.
///
/// # Errors
/// Only database errors.
pub async fn delete_old_calls(db: &Db) -> Result<(), DbError> {
    db.delete_expired(
        now() - KEPT,
        "select exists (select 1 from bot_calls where created_at < $1)",
        "delete from bot_calls where id in (select id from bot_calls where created_at < $1 order by created_at, id limit $2)",
    )
    .await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_json_or_text() {
        let read = |format, text: &str| {
            let reply = CommandReply {
                format,
                text: text.to_owned(),
            };
            reply.read().map(|answer| (answer.content, answer.audience))
        };
        let (standard, slack) = (BotEventFormat::Standard, BotEventFormat::Slack);
        let person = |text: &str| Some((text.to_owned(), ReplyAudience::Person));
        for empty in ["", "  ", "null", "{}", r#"{"text": ""}"#] {
            assert_eq!(read(standard, empty), None, "{empty}");
            assert_eq!(read(slack, empty), None, "{empty}");
        }
        assert_eq!(read(standard, "**Done**"), person("**Done**"));
        assert_eq!(read(slack, r#"{"text": "*Done*"}"#), person("**Done**"));
        let public = r#"{"response_type": "in_channel", "text": "Done"}"#;
        let expected = Some(("Done".to_owned(), ReplyAudience::Conversation));
        assert_eq!(read(standard, public), expected);
        assert_eq!(read(slack, public), expected);
    }
}
