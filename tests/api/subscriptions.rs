//! Events for bots: selection, signatures, retries, pauses, and loops.

use std::time::Duration;

use futures::future::join_all;
use openvibe::{
    db::{Conn, now},
    hooks::{Proofs, StandardProof},
};
use ring::hmac::{self, HMAC_SHA256, Key};
use serde_json::{Value, json};

use crate::support::{
    DEADLINE, Person, ProgramAnswer, ProgramServer, ReceivedEvent, SECRET_KEY, Team, id, list,
    number, team_with, text, visitor, within,
};

/// A team whose bots have programs.
struct Programs {
    t: Team,
    server: ProgramServer,
}

/// A bot in #general, with a key.
struct Robot {
    id: String,
    program: Person,
}

async fn programs() -> Programs {
    programs_beside(&[], &[]).await
}

/// A team whose bots can also have programs on these other servers.
async fn programs_beside(others: &[ProgramServer], settings: &[(&str, &str)]) -> Programs {
    let server = ProgramServer::start().await;
    let hosts = others.iter().chain([&server]).map(ProgramServer::host);
    let allowed = hosts.collect::<Vec<_>>().join(",");
    let mut all = vec![("HOOK_ALLOW", allowed.as_str()), ("SECRET_KEY", SECRET_KEY)];
    all.extend_from_slice(settings);
    let t = team_with(&all).await;
    Programs { t, server }
}

impl Programs {
    async fn robot(&self, name: &str) -> Robot {
        let form = json!({"name": name, "channel_ids": [self.t.general]});
        let bot = id(&self.t.ada.post("/v1/bots", form).await.is(201));
        let path = format!("/v1/bots/{bot}/keys");
        let key = self.t.ada.post(&path, json!({"name": "Key"})).await.is(201);
        Robot {
            program: visitor(&self.t.app.base).with_key(&text(&key, "/key")),
            id: bot,
        }
    }

    fn path(bot: &Robot) -> String {
        format!("/v1/bots/{}/subscription", bot.id)
    }

    /// Subscribes a bot, whose program has the name `name`, to messages. Returns the secret.
    async fn subscribe(&self, bot: &Robot, name: &str, fields: Value) -> String {
        let mut form = json!({"url": self.server.url(name),
            "events": ["message.created", "message.updated", "message.deleted"]});
        form.as_object_mut()
            .unwrap()
            .extend(fields.as_object().unwrap().clone());
        let made = self.t.ada.put(&Self::path(bot), form).await.is(200);
        text(&made, "/secret")
    }

    async fn until(&self, what: &str, is_true: impl AsyncFn(&Self) -> bool) {
        let waiting = async {
            while !is_true(self).await {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(DEADLINE, waiting).await.expect(what);
    }

    async fn count(&self, what: &str) -> i64 {
        self.t.app.place.count(what).await
    }

    /// Waits until this number of deliveries has ended with a success, which is stored after the program has answered.
    async fn until_sent(&self, n: i64) {
        self.until("deliveries to end", async |p: &Self| {
            p.count("bot_deliveries where state = 'sent'").await == n
        })
        .await;
    }

    /// Makes all deliveries that wait due.
    async fn hurry(&self) {
        let act = async move |c: &mut Conn| {
            c.q("update bot_deliveries set due_at = $1 where due_at is not null and state = 'queued'")
                .bind(now() - Duration::from_secs(1))
                .run()
                .await
        };
        self.t.app.db().write(uuid::Uuid::nil(), act).await.unwrap();
    }

    /// Events of a bot, newest first.
    async fn deliveries(&self, bot: &Robot) -> Vec<Value> {
        let path = format!("{}/deliveries", Self::path(bot));
        list(&self.t.ada.get(&path).await.ok(), "/data")
    }

    async fn subscription(&self, bot: &Robot) -> Value {
        let path = format!("/v1/bots/{}", bot.id);
        self.t.ada.get(&path).await.ok()["subscription"].clone()
    }
}

fn fits(event: &ReceivedEvent, secret: &str) -> bool {
    let header = |name: &str| event.headers[name].clone();
    let proofs = Proofs {
        standard: Some(StandardProof {
            id: header("webhook-id"),
            timestamp: header("webhook-timestamp"),
            signatures: header("webhook-signature"),
        }),
        ..Proofs::default()
    };
    proofs.fit(secret, &event.body, now())
}

/// Types and contents of message events, in alphabetical order.
fn contents(events: &[ReceivedEvent]) -> Vec<String> {
    let mut all: Vec<String> = events
        .iter()
        .map(|event| {
            let event = event.json();
            let content = event["data"]["message"]["content"]
                .as_str()
                .unwrap_or_default();
            format!("{} {content}", text(&event, "/type"))
        })
        .collect();
    all.sort();
    all
}

#[tokio::test]
async fn a_bot_gets_signed_events_of_its_channels_except_its_own() {
    let p = programs().await;
    let bot = p.robot("Deploy").await;
    let secret = p.subscribe(&bot, "deploy", json!({})).await;
    let hidden = p.t.ada.private_channel("hidden", &[]).await;
    p.t.ada.thread(&hidden, "Unseen").await;
    let path = format!("/v1/channels/{}/threads", p.t.general);
    bot.program
        .post(&path, json!({"content": "Own"}))
        .await
        .is(201);
    let other = p.robot("Other").await;
    other
        .program
        .post(&path, json!({"content": "Of another bot"}))
        .await
        .is(201);
    let posted = p.t.bo.start(&p.t.general, "Hello").await;
    let message = format!("/v1/messages/{}", text(&posted, "/message/id"));
    // A reaction of a bot and a preview change the message, but are no edits.
    let reaction = format!("{message}/reactions/%F0%9F%91%8D");
    other.program.put(&reaction, json!({})).await.is(200);
    p.t.bo
        .patch(&message, json!({"content": "Hello all"}))
        .await
        .is(200);
    let events = p.server.events("deploy", 2).await;
    assert_eq!(
        contents(&events),
        ["message.created Hello", "message.updated Hello all"]
    );
    for event in &events {
        assert!(fits(event, &secret), "{event:?}");
        assert!(!fits(event, "whsec_AAAA"));
    }
    let created = events.iter().map(ReceivedEvent::json);
    let created = created.filter(|event| event["type"] == "message.created");
    let created: Vec<Value> = created.collect();
    assert_eq!(created[0]["data"]["channel_id"], json!(p.t.general));
    assert_eq!(
        created[0]["data"]["thread_id"],
        posted["message"]["thread_id"]
    );
    assert_eq!(p.count("bot_deliveries").await, 2);
    let bots = p.t.bo.get(&format!("/v1/bots/{}", bot.id)).await.ok();
    assert_eq!(
        bots["subscription"],
        Value::Null,
        "only admins see addresses"
    );
}

#[tokio::test]
async fn a_reaction_of_a_bot_is_no_edit_of_a_message_with_a_deep_dive() {
    let p = programs().await;
    let (bot, other) = (p.robot("Deploy").await, p.robot("Other").await);
    p.subscribe(&bot, "deploy", json!({})).await;
    let posted = p.t.bo.start(&p.t.general, "Hello").await;
    let message = text(&posted, "/message/id");
    let path = format!("/v1/messages/{message}");
    let edited = json!({"content": "Hello all"});
    p.t.bo.patch(&path, edited).await.is(200);
    // The last event about the message is that of the deep dive.
    let title = json!({"title": "The day", "agent_id": null});
    let thread = text(&posted, "/thread/id");
    p.t.bo.start_fork(&thread, &message, title).await;
    let reaction = format!("{path}/reactions/%F0%9F%91%8D");
    other.program.put(&reaction, json!({})).await.is(200);
    p.t.bo.start(&p.t.general, "The end").await;
    let events = p.server.events("deploy", 3).await;
    assert_eq!(
        contents(&events),
        [
            "message.created Hello",
            "message.created The end",
            "message.updated Hello all"
        ]
    );
    p.until_sent(3).await;
    assert_eq!(p.count("bot_deliveries").await, 3);
}

#[tokio::test]
async fn a_bot_gets_an_agents_reply_once_when_it_is_complete() {
    let p = programs().await;
    let bot = p.robot("Log").await;
    p.subscribe(&bot, "log", json!({})).await;
    let thread = p.t.bo.thread(&p.t.general, "A question").await;
    let task = p.t.bo.ask(&thread, "@vibe what now?").await;
    p.t.bo.completed(&task).await;
    let events = p.server.events("log", 3).await;
    let of_agent: Vec<Value> = events
        .iter()
        .map(ReceivedEvent::json)
        .filter(|event| event["data"]["message"]["author"]["type"] == "agent")
        .collect();
    assert_eq!(of_agent.len(), 1);
    assert_eq!(of_agent[0]["type"], "message.created");
    assert_eq!(of_agent[0]["data"]["message"]["state"], "complete");
    p.t.settled().await;
    assert_eq!(p.count("bot_deliveries").await, 3);
}

#[tokio::test]
async fn what_a_paused_bot_missed_is_sent_without_deleted_texts() {
    let p = programs().await;
    let bot = p.robot("Deploy").await;
    p.subscribe(&bot, "deploy", json!({})).await;
    let path = format!("/v1/bots/{}", bot.id);
    p.t.ada
        .patch(&path, json!({"status": "paused"}))
        .await
        .is(200);
    let secret = p.t.bo.start(&p.t.general, "A secret").await;
    let message = text(&secret, "/message/id");
    p.t.bo
        .delete(&format!("/v1/messages/{message}"))
        .await
        .is(200);
    p.t.bo.start(&p.t.general, "Later").await;
    p.t.ada
        .patch(&path, json!({"status": "active"}))
        .await
        .is(200);
    let events = p.server.events("deploy", 2).await;
    assert_eq!(
        contents(&events),
        ["message.created Later", "message.deleted "]
    );
    p.until("the deleted message", async |p: &Programs| {
        p.count("bot_deliveries where state = 'skipped'").await == 1
    })
    .await;
    // Nor does a bot get what it can no longer see.
    p.server.answer("deploy", [ProgramAnswer::Status(500)]);
    p.t.bo.start(&p.t.general, "Too late").await;
    p.until("a failed attempt", async |p: &Programs| {
        p.count("bot_deliveries where attempt = 1").await == 1
    })
    .await;
    let membership = format!("/v1/channels/{}/bots/{}", p.t.general, bot.id);
    p.t.ada.delete(&membership).await.is(204);
    p.hurry().await;
    p.until("the end of the delivery", async |p: &Programs| {
        p.count("bot_deliveries where state = 'skipped'").await == 2
    })
    .await;
    assert_eq!(p.server.received("deploy").len(), 3);
}

#[tokio::test]
async fn a_failed_event_is_sent_again_with_the_same_id() {
    let p = programs().await;
    let bot = p.robot("Deploy").await;
    let secret = p.subscribe(&bot, "deploy", json!({})).await;
    p.server.answer(
        "deploy",
        [
            ProgramAnswer::Status(302),
            ProgramAnswer::RetryAfter(503, 1800),
        ],
    );
    p.t.bo.start(&p.t.general, "Hello").await;
    p.server.events("deploy", 1).await;
    p.until("a failed attempt", async |p: &Programs| {
        p.count("bot_deliveries where attempt = 1 and state = 'queued'")
            .await
            == 1
    })
    .await;
    p.hurry().await;
    p.until("another failed attempt", async |p: &Programs| {
        p.count("bot_deliveries where attempt = 2 and state = 'queued'")
            .await
            == 1
    })
    .await;
    let waiting = p.deliveries(&bot).await;
    let due: chrono::DateTime<chrono::Utc> = text(&waiting[0], "/due_at").parse().unwrap();
    let minutes = (due - chrono::Utc::now()).num_minutes();
    assert!((28..=30).contains(&minutes), "`Retry-After`: {minutes}");
    assert_eq!(number(&waiting[0], "/status"), 503);
    // With a new secret, both sign for a day.
    let path = format!("{}/secret", Programs::path(&bot));
    let new = text(&p.t.ada.act(&path).await.is(200), "/secret");
    p.hurry().await;
    let events = p.server.events("deploy", 3).await;
    let ids: Vec<&String> = events
        .iter()
        .map(|event| &event.headers["webhook-id"])
        .collect();
    assert!(ids.iter().all(|one| *one == ids[0]), "{ids:?}");
    assert_eq!(*ids[0], id(&waiting[0]));
    assert!(fits(&events[2], &new) && fits(&events[2], &secret));
    assert!(!fits(&events[0], &new));
    p.until_sent(1).await;
    // What was sent can be sent again: one event, or all since a time.
    let again = format!("{}/deliveries/{}/replay", Programs::path(&bot), ids[0]);
    p.t.ada.act(&again).await.is(200);
    let events = p.server.events("deploy", 4).await;
    assert_eq!(events[3].headers["webhook-id"], id(&waiting[0]));
    p.until_sent(1).await;
    let replay = format!("{}/replay", Programs::path(&bot));
    let since = json!({"since": "2020-01-01T00:00:00.000Z"});
    p.t.ada.post(&replay, since).await.is(200);
    let events = p.server.events("deploy", 5).await;
    assert_ne!(events[4].headers["webhook-id"], id(&waiting[0]));
    assert_eq!(contents(&events[4..]), ["message.created Hello"]);
    p.until_sent(1).await;
    // What still waits is not sent twice.
    p.server.answer("deploy", [ProgramAnswer::Status(500)]);
    p.t.bo.start(&p.t.general, "Waiting").await;
    p.until("a failed attempt", async |p: &Programs| {
        p.count("bot_deliveries where attempt = 1 and state = 'queued'")
            .await
            == 1
    })
    .await;
    let waiting = id(&p.deliveries(&bot).await[0]);
    let since = json!({"since": "2020-01-01T00:00:00.000Z"});
    let moved = p.t.ada.post(&replay, since).await.is(200);
    let newest = number(&p.deliveries(&bot).await[0], "/seq");
    assert!(number(&moved, "/cursor") < newest, "{moved}");
    let events = p.server.events("deploy", 7).await;
    assert_eq!(contents(&events[6..]), ["message.created Hello"]);
    p.hurry().await;
    let events = p.server.events("deploy", 8).await;
    assert_eq!(events[7].headers["webhook-id"], waiting);
    assert_eq!(p.count("bot_deliveries").await, 2);
    // There is nothing since a time in the future.
    let since = json!({"since": "2100-01-01T00:00:00.000Z"});
    p.t.ada.post(&replay, since).await.is(200);
    p.t.bo.start(&p.t.general, "The end").await;
    let events = p.server.events("deploy", 9).await;
    assert_eq!(contents(&events[8..]), ["message.created The end"]);
}

#[tokio::test]
async fn an_event_that_waits_for_its_next_attempt_is_sent_at_once() {
    let p = programs().await;
    let bot = p.robot("Deploy").await;
    p.subscribe(&bot, "deploy", json!({})).await;
    p.server
        .answer("deploy", [ProgramAnswer::RetryAfter(503, 1800)]);
    p.t.bo.start(&p.t.general, "Hello").await;
    p.until("a failed attempt", async |p: &Programs| {
        p.count("bot_deliveries where attempt = 1 and state = 'queued'")
            .await
            == 1
    })
    .await;
    let waiting = id(&p.deliveries(&bot).await[0]);
    let again = format!("{}/deliveries/{waiting}/replay", Programs::path(&bot));
    p.t.ada.act(&again).await.is(200);
    p.server.events("deploy", 2).await;
    p.until_sent(1).await;
}

#[tokio::test]
async fn a_subscription_without_success_is_paused_and_resumed_by_an_admin() {
    let p = programs().await;
    let bot = p.robot("Deploy").await;
    p.subscribe(&bot, "deploy", json!({})).await;
    p.server.answer("deploy", [ProgramAnswer::Status(410)]);
    p.t.bo.start(&p.t.general, "One").await;
    p.until("the pause", async |p: &Programs| {
        p.count("bot_subscriptions where status = 'paused'").await == 1
    })
    .await;
    assert_eq!(p.subscription(&bot).await["paused_reason"], "gone");
    let path = format!("/v1/bots/{}", bot.id);
    let shown = |bot: &Value| (text(bot, "/status"), bot["paused_reason"].clone());
    let gone = ("paused".to_owned(), json!("gone"));
    let listed = p.t.ada.get("/v1/bots").await.ok();
    assert_eq!(shown(&listed["data"][0]), gone);
    assert_eq!(listed["data"][0]["subscription"]["status"], "paused");
    // Only its events are paused, also after another change: it posts.
    let described = p.t.ada.patch(&path, json!({"about": "Deploys."})).await;
    assert_eq!(shown(&described.is(200)), gone);
    let place = format!("/v1/channels/{}/threads", p.t.general);
    let form = json!({"content": "Deployed"});
    bot.program.post(&place, form).await.is(201);
    let notices = list(&p.t.ada.get("/v1/inbox").await.ok(), "/data");
    let notice = notices.iter().find(|item| item["reason"] == "notice");
    assert!(
        notice.is_some_and(|notice| notice.to_string().contains("Paused")),
        "{notices:?}"
    );
    p.t.bo.start(&p.t.general, "Two").await;
    // An admin pauses the whole bot.
    let paused = p.t.ada.patch(&path, json!({"status": "paused"})).await;
    let whole = ("paused".to_owned(), Value::Null);
    assert_eq!(shown(&paused.is(200)), whole);
    let resumed = p.t.ada.patch(&path, json!({"status": "active"})).await;
    assert_eq!(shown(&resumed.is(200)), ("active".to_owned(), Value::Null));
    let events = p.server.events("deploy", 3).await;
    assert_eq!(
        contents(&events[1..]),
        ["message.created One", "message.created Two"]
    );
    // Three days without a success.
    p.until("no delivery", async |p: &Programs| {
        p.count("bot_deliveries where due_at is not null").await == 0
    })
    .await;
    let act = async move |c: &mut Conn| {
        c.q("update bot_subscriptions set failing_since = $1")
            .bind(now() - Duration::from_hours(73))
            .run()
            .await
    };
    p.t.app.db().write(uuid::Uuid::nil(), act).await.unwrap();
    p.server.answer("deploy", [ProgramAnswer::Status(500)]);
    p.t.bo.start(&p.t.general, "Three").await;
    p.until("the pause", async |p: &Programs| {
        p.count("bot_subscriptions where paused_reason = 'no_answer'")
            .await
            == 1
    })
    .await;
}

#[tokio::test]
async fn bots_that_answer_each_other_end_after_twenty_messages() {
    let p = programs().await;
    let (one, two) = (p.robot("One").await, p.robot("Two").await);
    p.subscribe(
        &two,
        "two",
        json!({"bots": true, "events": ["message.created"]}),
    )
    .await;
    let path = format!("/v1/channels/{}/threads", p.t.general);
    let first = one.program.post(&path, json!({"content": "0"})).await;
    let thread = text(&first.is(201), "/thread/id");
    let path = format!("/v1/threads/{thread}/messages");
    for n in 1..25 {
        let content = n.to_string();
        let form = json!({"content": content});
        one.program.post(&path, form).await.is(201);
    }
    p.t.bo.tell(&thread, "Stop it").await;
    one.program
        .post(&path, json!({"content": "Sorry"}))
        .await
        .is(201);
    // Whoever gets the 19th message writes the 20th, which nobody gets.
    let events = p.server.events("two", 21).await;
    let mut expected: Vec<String> = (0..19).map(|n| format!("message.created {n}")).collect();
    expected.extend([
        "message.created Sorry".to_owned(),
        "message.created Stop it".to_owned(),
    ]);
    expected.sort();
    assert_eq!(contents(&events), expected);
    assert_eq!(p.count("bot_deliveries").await, 21);
}

#[tokio::test]
async fn bots_that_answer_each_other_in_new_threads_end_after_twenty() {
    let p = programs().await;
    let (one, two) = (p.robot("One").await, p.robot("Two").await);
    for (bot, name) in [(&one, "one"), (&two, "two")] {
        let fields = json!({"bots": true, "events": ["message.created"]});
        p.subscribe(bot, name, fields).await;
    }
    let path = format!("/v1/channels/{}/threads", p.t.general);
    for n in 0..25 {
        let form = json!({"content": n.to_string()});
        one.program.post(&path, form).await.is(201);
    }
    p.t.bo.start(&p.t.general, "Stop it").await;
    let form = json!({"content": "Sorry"});
    one.program.post(&path, form).await.is(201);
    let events = p.server.events("two", 21).await;
    let mut expected: Vec<String> = (0..19).map(|n| format!("message.created {n}")).collect();
    expected.extend([
        "message.created Sorry".to_owned(),
        "message.created Stop it".to_owned(),
    ]);
    expected.sort();
    assert_eq!(contents(&events), expected);
    p.server.events("one", 1).await;
    assert_eq!(p.count("bot_deliveries").await, 22);
}

#[tokio::test]
async fn a_program_for_slack_confirms_its_address_and_gets_its_events() {
    let p = programs().await;
    let bot = p.robot("Deploy").await;
    let form = json!({"url": p.server.url("slack"), "format": "slack"});
    p.server.answer("slack", [ProgramAnswer::Status(200)]);
    let refused = p.t.ada.put(&Programs::path(&bot), form.clone()).await;
    assert_eq!(refused.refused(422), "not_verified");
    assert_eq!(p.subscription(&bot).await, Value::Null);
    p.server.answer("slack", [ProgramAnswer::Challenge]);
    let made = p.t.ada.put(&Programs::path(&bot), form).await.is(200);
    let secret = text(&made, "/secret");
    p.t.bo.start(&p.t.general, "**Now**, @deploy!").await;
    let events = p.server.events("slack", 4).await;
    let mut types: Vec<String> = Vec::new();
    for event in &events[2..] {
        let at = &event.headers["x-slack-request-timestamp"];
        let signed = [format!("v0:{at}:").as_bytes(), &event.body].concat();
        let tag = hmac::sign(&Key::new(HMAC_SHA256, secret.as_bytes()), &signed);
        let expected = format!("v0={}", hex::encode(tag));
        assert_eq!(event.headers["x-slack-signature"], expected);
        let event = event.json();
        assert_eq!(event["type"], "event_callback");
        let shown = text(&event, "/event/text");
        assert!(
            shown.starts_with("*Now*, <@U") && shown.ends_with(">!"),
            "{shown}"
        );
        types.push(text(&event, "/event/type"));
    }
    types.sort();
    assert_eq!(types, ["app_mention", "message"]);
}

#[tokio::test]
async fn a_program_for_slack_gets_the_changes_of_its_channels() {
    let p = programs().await;
    let bot = p.robot("Deploy").await;
    let events = json!([
        "channel.updated",
        "channel.archived",
        "channel.member_added"
    ]);
    let form = json!({"url": p.server.url("slack"), "format": "slack", "events": events});
    p.server.answer("slack", [ProgramAnswer::Challenge]);
    p.t.ada.put(&Programs::path(&bot), form).await.is(200);
    let room = json!({"name": "plans", "private": true});
    let room = id(&p.t.ada.post("/v1/channels", room).await.is(201));
    let path = format!("/v1/channels/{room}");
    let at = format!("{path}/bots/{}", bot.id);
    p.t.ada.put(&at, json!({})).await.is(200);
    let topic = json!({"name": "plans", "topic": "Not an event of its own"});
    p.t.ada.patch(&path, topic).await.is(200);
    let renamed = json!({"name": "launch"});
    p.t.ada.patch(&path, renamed).await.is(200);
    let added = json!({"user_id": p.t.bo.id});
    p.t.ada.post(&format!("{path}/members"), added).await.ok();
    for change in ["archive", "unarchive"] {
        let change = format!("{path}/{change}");
        p.t.ada.post(&change, json!({})).await.is(200);
    }
    let events = p.server.events("slack", 5).await;
    let mut shown: Vec<Value> = events[1..].iter().map(ReceivedEvent::json).collect();
    let mut of = |kind: &str| {
        let at = shown
            .iter()
            .position(|event| event["event"]["type"] == kind);
        shown.remove(at.unwrap_or_else(|| panic!("no {kind}")))["event"].take()
    };
    let channel = of("channel_archive")["channel"].take();
    assert!(channel.as_str().is_some_and(|id| id.starts_with('C')));
    let rename = of("channel_rename");
    assert_eq!(
        (&rename["channel"]["id"], &rename["channel"]["name"]),
        (&channel, &json!("launch"))
    );
    assert_eq!(of("channel_unarchive")["channel"], channel);
    assert_eq!(of("member_joined_channel")["channel_type"], "G");
}

#[tokio::test]
async fn an_answer_in_the_direct_channel_of_a_bot_reaches_its_program() {
    let p = programs().await;
    let bot = p.robot("Deploy").await;
    let form =
        json!({"url": p.server.url("slack"), "format": "slack", "events": ["message.created"]});
    p.server.answer("slack", [ProgramAnswer::Challenge]);
    p.t.ada.put(&Programs::path(&bot), form).await.is(200);
    let sent = json!({"channel": p.t.bo.id, "text": "Deploy now?"});
    let posted = bot.program.post("/api/chat.postMessage", sent).await;
    let channel = text(&posted.is(200), "/channel");
    let channels = p.t.bo.get("/v1/channels").await.ok();
    let mut all = list(&channels, "/data").into_iter();
    let direct = all.find(|channel| channel["bot_id"] == json!(bot.id));
    p.t.bo.start(&id(&direct.unwrap()), "Yes").await;
    let event = p.server.events("slack", 2).await[1].json();
    let event = &event["event"];
    assert_eq!(
        (&event["type"], &event["channel_type"], &event["channel"]),
        (&json!("message"), &json!("im"), &json!(channel))
    );
    assert_eq!(event["text"], "Yes");
    // With two people, it is a group.
    let users = format!("{},{}", p.t.bo.id, p.t.ada.id);
    let opened = json!({"users": users});
    let opened = bot.program.post("/api/conversations.open", opened).await;
    assert_eq!(opened.is(200)["channel"]["is_mpim"], true);
    let channels = p.t.bo.get("/v1/channels").await.ok();
    let mut all = list(&channels, "/data").into_iter();
    let group = all.find(|channel| {
        channel["member_ids"]
            .as_array()
            .is_some_and(|all| all.len() == 2)
    });
    p.t.bo.start(&id(&group.unwrap()), "All of you").await;
    let event = p.server.events("slack", 3).await[2].json();
    assert_eq!(event["event"]["channel_type"], "mpim");
}

#[tokio::test]
async fn a_secret_is_shown_only_if_it_was_stored() {
    let p = programs().await;
    let bot = p.robot("Deploy").await;
    let path = Programs::path(&bot);
    let confirmed = [ProgramAnswer::Challenge, ProgramAnswer::Challenge];
    p.server.answer("slack", confirmed);
    let form = json!({"url": p.server.url("slack"), "format": "slack"});
    let put = async || p.t.ada.put(&path, form.clone()).await.is(200);
    let (one, two) = tokio::join!(put(), put());
    let answers = [one, two];
    let shown = answers.iter().filter(|put| put["secret"].is_string());
    assert_eq!(shown.count(), 1, "{answers:?}");
}

#[tokio::test]
async fn addresses_and_settings_are_checked() {
    let p = programs().await;
    let bot = p.robot("Deploy").await;
    let path = Programs::path(&bot);
    for url in [
        "http://127.0.0.1:1/",
        "https://10.0.0.1/",
        "http://169.254.169.254/latest",
        "ftp://example.com/",
        "https://user:password@example.com/",
        "events",
    ] {
        let refused = p.t.ada.put(&path, json!({"url": url})).await;
        assert_eq!(refused.refused(422), "invalid_value", "{url}");
    }
    let url = p.server.url("deploy");
    for form in [
        json!({}),
        json!({"transport": "socket", "url": url}),
        json!({"url": url, "events": []}),
        json!({"url": url, "channel_ids": []}),
    ] {
        let refused = p.t.ada.put(&path, form.clone()).await;
        assert_eq!(refused.refused(422), "invalid_value", "{form}");
    }
    assert_eq!(p.count("bot_subscriptions").await, 0);
    assert_eq!(p.count("secrets").await, 0);
    let form = json!({"url": url});
    p.t.bo.put(&path, form.clone()).await.refused(403);
    let secret = p.t.ada.put(&path, form.clone()).await.is(200);
    assert!(text(&secret, "/secret").starts_with("whsec_"));
    let again = p.t.ada.put(&path, form).await.is(200);
    assert_eq!(again["secret"], Value::Null, "it is shown once");
    let tested = p.t.ada.act(&format!("{path}/test")).await.is(200);
    assert_eq!(tested["status"], 200);
    assert_eq!(p.server.events("deploy", 1).await[0].json()["type"], "test");
    p.t.ada.delete(&path).await.is(204);
    assert_eq!(p.count("secrets").await, 0);
    p.t.ada.delete(&path).await.refused(404);
}

#[tokio::test]
async fn links_reactions_and_members_are_events_without_addresses() {
    let p = programs().await;
    let bot = p.robot("Deploy").await;
    let path = format!("/v1/bots/{}", bot.id);
    let domains = json!({"link_domains": ["example.org"]});
    p.t.ada.patch(&path, domains).await.is(200);
    let events = json!(["link_shared", "reaction.added", "member.joined"]);
    p.subscribe(&bot, "deploy", json!({"events": events})).await;
    let posted =
        p.t.bo
            .start(&p.t.general, "See https://docs.example.org/x.")
            .await;
    let message = text(&posted, "/message/id");
    let reaction = format!("/v1/messages/{message}/reactions/%F0%9F%91%8D");
    p.t.bo.put(&reaction, json!({})).await.is(200);
    p.t.app.join(&p.t.ada, "Cy", "member").await;
    let events = p.server.events("deploy", 3).await;
    let of = |kind: &str| {
        let mut all = events.iter().map(ReceivedEvent::json);
        all.find(|event| event["type"] == kind)
            .unwrap_or_else(|| panic!("no {kind}"))
    };
    assert_eq!(
        of("link_shared")["data"]["links"],
        json!([{"domain": "example.org", "url": "https://docs.example.org/x"}])
    );
    assert_eq!(of("reaction.added")["data"]["user_id"], json!(p.t.bo.id));
    let joined = of("member.joined");
    assert_eq!(joined["data"]["member"]["name"], "Cy");
    assert_eq!(joined["data"]["member"]["email"], Value::Null);
    let shown = json!({"show_emails": true});
    p.t.ada.patch(&path, shown).await.is(200);
    p.t.app.join(&p.t.ada, "Dee", "member").await;
    let events = p.server.events("deploy", 4).await;
    let email = &events[3].json()["data"]["member"]["email"];
    assert!(email.is_string(), "{email}");
}

#[tokio::test]
async fn slow_programs_of_a_workspace_leave_room_for_those_of_others() {
    let slow = join_all((0..8).map(|_| ProgramServer::start())).await;
    let p = programs_beside(&slow, &[("SIGNUP", "open")]).await;
    let zoe = p.t.app.founder("Zoe").await;
    let general = id(&zoe.channel("general").await);
    let form = json!({"name": "Other", "channel_ids": [general]});
    let bot = id(&zoe.post("/v1/bots", form).await.is(201));
    let path = format!("/v1/bots/{bot}/subscription");
    let form = json!({"url": p.server.url("other"), "events": ["message.created"]});
    zoe.put(&path, form).await.is(200);
    for (n, one) in slow.iter().enumerate() {
        one.answer("slow", (0..8).map(|_| ProgramAnswer::Stall));
        let bot = p.robot(&format!("Slow {n}")).await;
        let form = json!({"url": one.url("slow"), "events": ["message.created"]});
        p.t.ada.put(&Programs::path(&bot), form).await.is(200);
    }
    for n in 0..8 {
        p.t.bo.start(&p.t.general, &n.to_string()).await;
    }
    let received = || -> usize { slow.iter().map(|one| one.received("slow").len()).sum() };
    p.until("the slow requests", async |p: &Programs| {
        received() >= 48 && p.count("bot_deliveries").await == 64
    })
    .await;
    zoe.start(&general, "Hello").await;
    p.server.events("other", 1).await;
    let received = received();
    // A request that has no answer after 10 seconds has failed, and leaves its place to one that waits.
    let failed = p.count("bot_deliveries where attempt > 0").await;
    let failed = usize::try_from(failed).unwrap();
    assert!(
        (48..=48 + failed).contains(&received),
        "{received}, {failed} failed"
    );
}

/// Reads wait for a connection for 10 seconds. A request for a delivery that is not polled would keep its connection for as long.
const READ_WITHIN: Duration = Duration::from_secs(8);

#[tokio::test]
async fn many_deliveries_at_once_leave_connections_for_reads() {
    const MESSAGES: usize = 10;
    let others = join_all((0..3).map(|_| ProgramServer::start())).await;
    let p = programs_beside(&others, &[("RATE_LIMITS", "off")]).await;
    let servers: Vec<&ProgramServer> = others.iter().chain([&p.server]).collect();
    for (n, server) in servers.iter().enumerate() {
        let bot = p.robot(&format!("Bot {n}")).await;
        let form = json!({"url": server.url("many"), "events": ["message.created"]});
        p.t.ada.put(&Programs::path(&bot), form).await.is(200);
    }
    let place = &p.t.app.place;
    place.run(&["update bots set status = 'paused'"]).await;
    for n in 0..MESSAGES {
        p.t.bo.start(&p.t.general, &n.to_string()).await;
    }
    // All connections but two are in use, so more deliveries are prepared at once than have one.
    let mut held = Vec::new();
    let short = Duration::from_millis(500);
    while let Ok(Ok(c)) = tokio::time::timeout(short, p.t.app.db().read()).await {
        held.push(c);
    }
    held.truncate(held.len().saturating_sub(2));
    place.run(&["update bots set status = 'active'"]).await;
    let is_received = |server: &&ProgramServer| server.received("many").len() >= MESSAGES;
    let reading = async {
        while !servers.iter().all(is_received) {
            let read = tokio::time::timeout(READ_WITHIN, p.t.bo.get("/v1/auth/me")).await;
            read.expect("an answer while events are sent").is(200);
        }
    };
    within("all events", reading).await;
}

#[tokio::test]
async fn a_subscription_can_be_limited_to_channels() {
    let p = programs().await;
    let other = p.t.ada.post("/v1/channels", json!({"name": "other"})).await;
    let other = id(&other.is(201));
    let bot = p.robot("Deploy").await;
    let membership = format!("/v1/channels/{other}/bots/{}", bot.id);
    p.t.ada.put(&membership, json!({})).await.is(200);
    p.subscribe(&bot, "deploy", json!({"channel_ids": [other]}))
        .await;
    p.t.ada.start(&p.t.general, "Elsewhere").await;
    p.t.ada.start(&other, "Here").await;
    let events = p.server.events("deploy", 1).await;
    assert_eq!(contents(&events), ["message.created Here"]);
    assert_eq!(p.count("bot_deliveries").await, 1);
}

#[tokio::test]
async fn an_admin_neither_sees_nor_removes_a_hidden_channel_of_a_subscription() {
    let p = programs().await;
    let cy = p.t.app.join(&p.t.ada, "Cy", "admin").await;
    let hidden = p.t.ada.private_channel("hidden", &[]).await;
    let bot = p.robot("Deploy").await;
    let membership = format!("/v1/channels/{hidden}/bots/{}", bot.id);
    p.t.ada.put(&membership, json!({})).await.is(200);
    p.subscribe(&bot, "deploy", json!({"channel_ids": [hidden]}))
        .await;
    let path = Programs::path(&bot);
    let shown = cy.get(&format!("/v1/bots/{}", bot.id)).await.ok();
    assert_eq!(shown["subscription"]["channel_ids"], json!([]));
    // The client sends back the channels that it was shown.
    let form = json!({"url": p.server.url("deploy"), "channel_ids": []});
    let changed = cy.put(&path, form).await.is(200);
    assert_eq!(changed["channel_ids"], json!([]));
    let replayed = json!({"since": "2026-01-01T00:00:00.000Z"});
    let replayed = cy.post(&format!("{path}/replay"), replayed).await.is(200);
    assert_eq!(replayed["channel_ids"], json!([]));
    let form = json!({"url": p.server.url("deploy"), "channel_ids": [p.t.general]});
    let changed = cy.put(&path, form).await.is(200);
    assert_eq!(changed["channel_ids"], json!([p.t.general]));
    let both = p.subscription(&bot).await;
    assert_eq!(both["channel_ids"], json!([p.t.general, hidden]));
}

#[tokio::test]
async fn events_that_the_log_no_longer_has_are_counted() {
    let p = programs().await;
    let bot = p.robot("Deploy").await;
    p.subscribe(&bot, "deploy", json!({})).await;
    let path = format!("/v1/bots/{}", bot.id);
    let paused = json!({"status": "paused"});
    p.t.ada.patch(&path, paused).await.is(200);
    p.t.bo.start(&p.t.general, "Lost").await;
    let prune = async move |c: &mut Conn| {
        c.q("delete from events").run().await?;
        c.q("update workspaces set pruned_seq = seq").run().await
    };
    let db = p.t.app.db();
    db.write(uuid::Uuid::nil(), prune).await.unwrap();
    p.t.bo.start(&p.t.general, "Kept").await;
    let active = json!({"status": "active"});
    p.t.ada.patch(&path, active).await.is(200);
    let events = p.server.events("deploy", 1).await;
    assert_eq!(contents(&events), ["message.created Kept"]);
    assert!(number(&p.subscription(&bot).await, "/missed") > 0);
}

#[tokio::test]
async fn a_bot_without_the_right_to_read_gets_no_events() {
    let p = programs().await;
    let (bot, other) = (p.robot("Deploy").await, p.robot("Other").await);
    p.subscribe(&bot, "deploy", json!({})).await;
    p.subscribe(&other, "other", json!({})).await;
    let path = format!("/v1/bots/{}", bot.id);
    let write = json!({"scopes": ["chat:write"]});
    p.t.ada.patch(&path, write).await.is(200);
    p.t.bo.start(&p.t.general, "Hello").await;
    p.server.events("other", 1).await;
    assert_eq!(p.count("bot_deliveries").await, 1);
    let both = json!({"scopes": ["chat:read", "chat:write"]});
    p.t.ada.patch(&path, both).await.is(200);
    let events = p.server.events("deploy", 1).await;
    assert_eq!(contents(&events), ["message.created Hello"]);
}

#[tokio::test]
async fn deep_dives_are_no_events_of_bots() {
    let p = programs().await;
    let bot = p.robot("Deploy").await;
    let dive = p.t.dive().await;
    p.subscribe(&bot, "deploy", json!({})).await;
    p.t.bo.say_in(&dive.fork, "Between us").await;
    p.t.bo.tell(&dive.thread, "To everyone").await;
    let events = p.server.events("deploy", 1).await;
    assert_eq!(contents(&events), ["message.created To everyone"]);
    assert_eq!(p.count("bot_deliveries").await, 1);
}
