//! Commands and buttons of bots: the people who can use them, and the answers of programs.

use std::time::Duration;

use futures::{SinkExt, StreamExt};
use openvibe::db::{Conn, now};
use serde_json::{Value, json};
use tokio_tungstenite::{connect_async, tungstenite::Message};

use crate::support::{
    ProgramAnswer, ProgramServer, SECRET_KEY, Team, id, sign_up_with_workspace, team_with, text,
    visitor, within,
};

/// A bot in #general with the command `/deploy`.
struct Commanded {
    t: Team,
    server: ProgramServer,
    bot: String,
}

async fn commanded() -> Commanded {
    let server = ProgramServer::start().await;
    let settings = [
        ("HOOK_ALLOW", server.host()),
        ("SECRET_KEY", SECRET_KEY),
        ("SIGNUP", "open"),
    ];
    let t = team_with(&settings).await;
    let form = json!({"name": "Deploy", "channel_ids": [t.general],
        "commands": [{"name": "deploy", "usage": "[service]"}]});
    let bot = t.ada.post("/v1/bots", form).await.is(201);
    assert_eq!(bot["commands"][0]["usage"], "[service]");
    Commanded {
        bot: id(&bot),
        t,
        server,
    }
}

impl Commanded {
    async fn subscribe(&self, form: Value) {
        let path = format!("/v1/bots/{}/subscription", self.bot);
        self.t.ada.put(&path, form).await.is(200);
    }

    fn form(&self) -> Value {
        json!({"channel_id": self.t.general, "text": "web now"})
    }
}

const DEPLOY: &str = "/v1/commands/deploy";

#[tokio::test]
async fn the_answer_to_a_command_is_for_the_person_or_for_everyone() {
    let r = commanded().await;
    let url = r.server.url("program");
    r.subscribe(json!({"url": url, "events": ["app_mention"]}))
        .await;
    r.server.answer(
        "program",
        [
            ProgramAnswer::Text("On **it**"),
            ProgramAnswer::Text(r#"{"response_type": "in_channel", "text": "Deployed for @bo"}"#),
            ProgramAnswer::Status(200),
            ProgramAnswer::Status(500),
        ],
    );
    let thread = r.t.bo.thread(&r.t.general, "The day").await;
    let answered = r.t.bo.post(DEPLOY, r.form()).await.is(200);
    assert_eq!(answered, json!({"message": null, "text": "On **it**"}));
    let sent = r.server.events("program", 1).await[0].json();
    assert_eq!(sent["type"], "command");
    assert_eq!(sent["data"]["command"], "deploy");
    assert_eq!(sent["data"]["text"], "web now");
    assert_eq!(sent["data"]["user_id"], json!(r.t.bo.id));
    let in_thread = json!({"thread_id": thread});
    let answered = r.t.bo.post(DEPLOY, in_thread.clone()).await.is(200);
    assert_eq!(answered["text"], Value::Null);
    assert_eq!(answered["message"]["author"]["id"], json!(r.bot));
    assert_eq!(
        r.t.bo.contents(&thread).await,
        ["The day", "Deployed for @bo"]
    );
    let silent = r.t.bo.post(DEPLOY, in_thread).await.is(200);
    assert_eq!(silent, json!({"message": null, "text": null}));
    let failed = r.t.bo.post(DEPLOY, r.form()).await;
    assert!(
        failed.text.contains("Deploy bot did not answer."),
        "{}",
        failed.text
    );
    assert_eq!(failed.refused(503), "bot_no_answer");
    assert_eq!(r.server.received("program").len(), 4, "never sent again");
}

#[tokio::test]
async fn commands_exist_only_in_the_channels_of_their_bot() {
    let r = commanded().await;
    let unsubscribed = r.t.bo.post(DEPLOY, r.form()).await;
    assert_eq!(unsubscribed.refused(503), "bot_no_answer");
    let hidden = r.t.bo.private_channel("hidden", &[]).await;
    let elsewhere = json!({"channel_id": hidden});
    let absent = r.t.bo.post(DEPLOY, elsewhere.clone()).await;
    assert_eq!(absent.refused(404), "not_found");
    let unseen = r.t.ada.post(DEPLOY, elsewhere).await;
    assert_eq!(unseen.refused(404), "channel_not_found");
    let unknown = r.t.bo.post("/v1/commands/other", r.form()).await;
    assert_eq!(unknown.refused(404), "not_found");
    let nowhere = r.t.bo.post(DEPLOY, json!({"text": "x"})).await;
    assert_eq!(nowhere.refused(422), "invalid_value");
    let other = json!({"name": "Other", "commands": [{"name": "deploy"}]});
    let taken = r.t.ada.post("/v1/bots", other).await;
    assert_eq!(taken.refused(409), "name_taken");
    let path = format!("/v1/bots/{}", r.bot);
    for commands in [
        json!([{"name": "Deploy"}]),
        json!([{"name": ""}]),
        json!([{"name": "a"}, {"name": "a"}]),
        json!([{"name": "a", "usage": "x".repeat(101)}]),
    ] {
        let refused = r.t.ada.patch(&path, json!({"commands": commands})).await;
        assert_eq!(refused.refused(422), "invalid_value", "{commands}");
    }
    let kept = r.t.bo.get(&path).await.ok();
    assert_eq!(kept["commands"][0]["name"], "deploy");
    r.t.ada.patch(&path, json!({"commands": []})).await.is(200);
    let removed = r.t.bo.post(DEPLOY, r.form()).await;
    assert_eq!(removed.refused(404), "not_found");
}

#[tokio::test]
async fn a_program_for_slack_gets_a_command_as_a_form() {
    let r = commanded().await;
    r.server.answer(
        "slack",
        [
            ProgramAnswer::Challenge,
            ProgramAnswer::Text(r#"{"text": "*Done*"}"#),
        ],
    );
    let url = r.server.url("slack");
    r.subscribe(json!({"url": url, "format": "slack", "events": ["app_mention"]}))
        .await;
    let answered = r.t.bo.post(DEPLOY, r.form()).await.is(200);
    assert_eq!(answered["text"], "**Done**");
    let sent = &r.server.events("slack", 2).await[1];
    assert_eq!(
        sent.headers["content-type"],
        "application/x-www-form-urlencoded"
    );
    let form = String::from_utf8(sent.body.clone()).unwrap();
    assert!(form.contains("command=%2Fdeploy"), "{form}");
    assert!(form.contains("text=web+now"), "{form}");
    assert!(sent.headers.contains_key("x-slack-signature"));
}

#[tokio::test]
async fn a_socket_gets_a_command_and_answers_with_its_acknowledgment() {
    let r = commanded().await;
    r.subscribe(json!({"transport": "socket", "format": "slack", "events": ["app_mention"]}))
        .await;
    let keys = format!("/v1/bots/{}/keys", r.bot);
    let key = r.t.ada.post(&keys, json!({"name": "App"})).await.is(201);
    let program = visitor(&r.t.app.base).with_key(&text(&key, "/key"));
    let opened = program.post("/api/apps.connections.open", json!({})).await;
    let address = text(&opened.is(200), "/url");
    let (mut ws, _) = within("a socket to open", connect_async(address))
        .await
        .unwrap();
    let answering = async {
        loop {
            let frame = within("a frame", ws.next()).await.unwrap().unwrap();
            let Message::Text(frame) = frame else {
                continue;
            };
            let envelope: Value = serde_json::from_str(&frame).unwrap();
            if envelope["type"] != "slash_commands" {
                continue;
            }
            assert_eq!(envelope["payload"]["command"], "/deploy");
            assert_eq!(envelope["payload"]["text"], "web now");
            let answer = json!({"envelope_id": envelope["envelope_id"], "payload": {"text": "Hi"}});
            ws.send(Message::text(answer.to_string())).await.unwrap();
            return;
        }
    };
    let (answered, ()) = tokio::join!(r.t.bo.post(DEPLOY, r.form()), answering);
    assert_eq!(answered.is(200)["text"], "Hi");
    assert_eq!(r.t.app.place.count("bot_calls").await, 0);
}

/// Sends an answer to the address of a command.
async fn answer_later(r: &Commanded, sent: usize, body: Value) -> (u16, String) {
    let events = r.server.events("program", sent).await;
    let url = text(&events[sent - 1].json(), "/data/response_url");
    let path = url[url.find("/hooks/response/").unwrap()..].to_owned();
    let reply = visitor(&r.t.app.base).post(&path, body).await;
    (reply.status, reply.text)
}

#[tokio::test]
async fn a_program_answers_later_up_to_five_times() {
    let r = commanded().await;
    let url = r.server.url("program");
    r.subscribe(json!({"url": url, "events": ["app_mention"]}))
        .await;
    let thread = r.t.bo.thread(&r.t.general, "The day").await;
    let mut window = r.t.bo.socket().await;
    r.t.bo
        .post(DEPLOY, json!({"thread_id": thread}))
        .await
        .is(200);
    let ok = (200, "ok".to_owned());
    let working = json!({"text": "Still **working**"});
    assert_eq!(answer_later(&r, 1, working).await, ok);
    let shown = window.of("ephemeral").await;
    assert_eq!(shown["content"], "Still **working**");
    assert_eq!(shown["thread_id"], thread.as_str());
    let done = json!({"response_type": "in_channel", "text": "Deployed for @bo"});
    assert_eq!(answer_later(&r, 1, done).await, ok);
    let said = r.t.bo.contents(&thread).await;
    assert_eq!(said, ["The day", "Deployed for @bo"]);
    let empty = answer_later(&r, 1, json!({})).await;
    assert_eq!(empty, (400, "no_text".to_owned()), "it does not count");
    let other = json!({"replace_original": true, "text": "Deployed twice"});
    assert_eq!(answer_later(&r, 1, other).await, ok);
    let said = r.t.bo.contents(&thread).await;
    assert_eq!(said, ["The day", "Deployed twice"]);
    let gone = json!({"delete_original": true});
    assert_eq!(answer_later(&r, 1, gone).await, ok);
    let messages = r.t.bo.messages(&thread).await;
    assert_ne!(messages[1]["deleted_at"], Value::Null);
    assert_eq!(answer_later(&r, 1, json!({"text": "Bye"})).await, ok);
    let refused = (404, "no_service".to_owned());
    assert_eq!(answer_later(&r, 1, json!({"text": "Bye"})).await, refused);
}

#[tokio::test]
async fn a_late_answer_needs_a_bot_in_the_channel_and_comes_within_half_an_hour() {
    let r = commanded().await;
    let url = r.server.url("program");
    r.subscribe(json!({"url": url, "events": ["app_mention"]}))
        .await;
    for _ in 0..2 {
        r.t.bo.post(DEPLOY, r.form()).await.is(200);
    }
    let refused = (404, "no_service".to_owned());
    let late = || json!({"response_type": "in_channel", "text": "Late"});
    let membership = format!("/v1/channels/{}/bots/{}", r.t.general, r.bot);
    r.t.ada.delete(&membership).await.is(204);
    assert_eq!(answer_later(&r, 1, late()).await, refused);
    r.t.ada.put(&membership, json!({})).await.is(200);
    let act = async |c: &mut Conn| {
        c.q("update bot_responses set created_at = $1")
            .bind(now() - Duration::from_mins(31))
            .run()
            .await
    };
    r.t.app.db().write(uuid::Uuid::nil(), act).await.unwrap();
    assert_eq!(answer_later(&r, 2, late()).await, refused);
    let unknown = visitor(&r.t.app.base)
        .post("/hooks/response/unknown", late())
        .await;
    assert_eq!((unknown.status, unknown.text), refused);
}

#[tokio::test]
async fn a_late_answer_changes_nothing_in_an_archived_channel_or_thread() {
    let r = commanded().await;
    let url = r.server.url("program");
    r.subscribe(json!({"url": url, "events": ["app_mention"]}))
        .await;
    let (thread, message) = asked(&r).await;
    let press = format!("/v1/messages/{message}/buttons/yes");
    r.t.bo.act(&press).await.is(200);
    let before = r.t.bo.message(&message).await;
    let refused = (410, "channel_is_archived".to_owned());
    let done = || json!({"replace_original": true, "text": "Deployed"});
    let thread = format!("/v1/threads/{thread}");
    let status = |status: &str| json!({"status": status});
    r.t.ada.patch(&thread, status("archived")).await.is(200);
    assert_eq!(answer_later(&r, 1, done()).await, refused);
    r.t.ada.patch(&thread, status("open")).await.is(200);
    let channel = format!("/v1/channels/{}", r.t.general);
    r.t.ada.act(&format!("{channel}/archive")).await.is(200);
    assert_eq!(answer_later(&r, 1, done()).await, refused);
    assert_eq!(r.t.bo.message(&message).await["content"], before["content"]);
    r.t.ada.act(&format!("{channel}/unarchive")).await.is(200);
    let stored = (200, "ok".to_owned());
    assert_eq!(answer_later(&r, 1, done()).await, stored);
}

/// Posts a message of the bot with two buttons; returns its thread and ID.
async fn asked(r: &Commanded) -> (String, String) {
    let form = json!({"bot_id": r.bot, "channel_id": r.t.general});
    let made = r.t.ada.post("/v1/hooks", form).await.is(201);
    let url = text(&made, "/url");
    let path = format!("{}?answer=json", &url[url.find("/hooks/").unwrap()..]);
    let sent = json!({"text": "Deploy?", "buttons": [
        {"text": "Docs", "url": "https://docs.example"},
        {"id": "yes", "text": "Yes", "value": "web 7", "style": "primary", "confirm": "Really?"},
        {"id": "yes", "text": "No"}]});
    let posted = visitor(&r.t.app.base).post(&path, sent).await.is(200);
    (text(&posted, "/thread_id"), text(&posted, "/message_id"))
}

#[tokio::test]
async fn a_press_of_a_button_reaches_the_program_which_replaces_the_message() {
    let r = commanded().await;
    let url = r.server.url("program");
    r.subscribe(json!({"url": url, "events": ["app_mention"]}))
        .await;
    let (thread, message) = asked(&r).await;
    let shown = r.t.bo.message(&message).await;
    assert_eq!(shown["content"], "Deploy?");
    assert_eq!(
        shown["metadata"]["buttons"],
        json!([
            {"id": "button-1", "text": "Docs", "url": "https://docs.example"},
            {"id": "yes", "text": "Yes", "value": "web 7", "style": "primary", "confirm": "Really?"},
            {"id": "button-3", "text": "No"},
        ])
    );
    // A link is opened, not pressed.
    let link = format!("/v1/messages/{message}/buttons/button-1");
    assert_eq!(r.t.bo.act(&link).await.refused(404), "not_found");
    r.server
        .answer("program", [ProgramAnswer::Text("On **it**")]);
    let press = format!("/v1/messages/{message}/buttons/yes");
    let answered = r.t.bo.act(&press).await.is(200);
    assert_eq!(answered, json!({"message": null, "text": "On **it**"}));
    let sent = r.server.events("program", 1).await[0].json();
    assert_eq!(sent["type"], "button");
    assert_eq!(sent["data"]["value"], "web 7");
    assert_eq!(sent["data"]["message_id"], message.as_str());
    assert_eq!(sent["data"]["user_id"], json!(r.t.bo.id));
    let again = r.t.bo.act(&press).await;
    assert_eq!(again.refused(429), "rate_limited");
    assert_eq!(r.server.received("program").len(), 1);
    let done = json!({"replace_original": true, "text": "Deployed by @bo"});
    assert_eq!(answer_later(&r, 1, done).await, (200, "ok".to_owned()));
    let changed = r.t.bo.message(&message).await;
    assert_eq!(changed["content"], "Deployed by @bo");
    assert_eq!(changed["metadata"]["buttons"], Value::Null);
    assert_eq!(r.t.bo.messages(&thread).await.len(), 1);
    let gone = r.t.bo.act(&press).await;
    assert_eq!(gone.refused(404), "not_found");
}

#[tokio::test]
async fn buttons_are_only_for_people_who_can_post_where_the_message_is() {
    let r = commanded().await;
    // Without a subscription, only links are buttons; of others, the labels are shown.
    let (_, plain) = asked(&r).await;
    let shown = r.t.bo.message(&plain).await;
    assert_eq!(shown["content"], "Deploy?\n\nYes · No");
    let docs = json!([{"id": "button-1", "text": "Docs", "url": "https://docs.example"}]);
    assert_eq!(shown["metadata"]["buttons"], docs);
    let url = r.server.url("program");
    r.subscribe(json!({"url": url, "events": ["app_mention"]}))
        .await;
    let (_, message) = asked(&r).await;
    let press = format!("/v1/messages/{message}/buttons/yes");
    let outsider = sign_up_with_workspace(&r.t.app.base, "Eve").await;
    assert_eq!(outsider.act(&press).await.refused(404), "message_not_found");
    let viewer = r.t.app.join(&r.t.ada, "Vic", "viewer").await;
    viewer.act(&press).await.refused(403);
    let own = r.t.bo.thread(&r.t.general, "Mine").await;
    let mine = id(&r.t.bo.messages(&own).await[0]);
    let absent = format!("/v1/messages/{mine}/buttons/yes");
    assert_eq!(r.t.bo.act(&absent).await.refused(404), "not_found");
    let bot = format!("/v1/bots/{}", r.bot);
    r.t.ada
        .patch(&bot, json!({"status": "paused"}))
        .await
        .is(200);
    assert_eq!(r.t.bo.act(&press).await.refused(503), "bot_no_answer");
    assert!(r.server.received("program").is_empty());
}

#[tokio::test]
async fn guests_run_commands_and_press_buttons_in_their_channels() {
    let r = commanded().await;
    let elsewhere = r.t.ada.post("/v1/channels", json!({"name": "plans"})).await;
    let elsewhere = json!({"channel_id": id(&elsewhere.is(201))});
    let gus = r.t.app.join_as_guest(&r.t.ada, "Gus", &["general"]).await;
    let url = r.server.url("program");
    r.subscribe(json!({"url": url, "events": ["app_mention"]}))
        .await;
    let (_, message) = asked(&r).await;
    r.server.answer(
        "program",
        [ProgramAnswer::Text("On it"), ProgramAnswer::Text("Done")],
    );
    let answered = gus.post(DEPLOY, r.form()).await.is(200);
    assert_eq!(answered["text"], "On it");
    let press = format!("/v1/messages/{message}/buttons/yes");
    let answered = gus.act(&press).await.is(200);
    assert_eq!(answered["text"], "Done");
    let hidden = gus.post(DEPLOY, elsewhere).await;
    assert_eq!(hidden.refused(404), "channel_not_found");
    assert_eq!(r.server.received("program").len(), 2);
}

#[tokio::test]
async fn a_bot_that_has_left_the_channel_gets_no_presses() {
    let r = commanded().await;
    let url = r.server.url("program");
    r.subscribe(json!({"url": url, "events": ["app_mention"]}))
        .await;
    let (_, message) = asked(&r).await;
    let hooks = r.t.ada.get("/v1/hooks").await.ok();
    let hook = format!("/v1/hooks/{}", id(&hooks["data"][0]));
    r.t.ada.delete(&hook).await.is(204);
    let place = format!("/v1/channels/{}/bots/{}", r.t.general, r.bot);
    r.t.ada.delete(&place).await.is(204);
    let press = format!("/v1/messages/{message}/buttons/yes");
    assert_eq!(r.t.bo.act(&press).await.refused(503), "bot_no_answer");
    assert!(r.server.received("program").is_empty());
}

#[tokio::test]
async fn a_program_for_slack_gets_a_press_as_block_actions() {
    let r = commanded().await;
    r.server.answer("program", [ProgramAnswer::Challenge]);
    let url = r.server.url("program");
    r.subscribe(json!({"url": url, "format": "slack", "events": ["app_mention"]}))
        .await;
    let (_, message) = asked(&r).await;
    let press = format!("/v1/messages/{message}/buttons/yes");
    let answered = r.t.bo.act(&press).await.is(200);
    assert_eq!(answered, json!({"message": null, "text": null}));
    let sent = &r.server.events("program", 2).await[1];
    let form: Vec<(String, String)> = form_urlencoded::parse(&sent.body).into_owned().collect();
    assert_eq!(form[0].0, "payload");
    let payload: Value = serde_json::from_str(&form[0].1).unwrap();
    assert_eq!(payload["type"], "block_actions");
    assert_eq!(payload["actions"][0]["action_id"], "yes");
    assert_eq!(payload["actions"][0]["value"], "web 7");
    let url = text(&payload, "/response_url");
    let path = url[url.find("/hooks/response/").unwrap()..].to_owned();
    let other = json!({"replace_original": "true", "text": "*Done*", "blocks": [
        {"type": "section", "text": {"type": "mrkdwn", "text": "*Done*"}},
        {"type": "actions", "elements": [{"type": "button", "action_id": "undo", "text": {"type": "plain_text", "text": "Undo"}}]}]});
    let replaced = visitor(&r.t.app.base).post(&path, other).await;
    assert_eq!((replaced.status, replaced.text.as_str()), (200, "ok"));
    let changed = r.t.bo.message(&message).await;
    assert_eq!(changed["content"], "**Done**");
    assert_eq!(
        changed["metadata"]["buttons"],
        json!([{"id": "undo", "text": "Undo"}])
    );
}
