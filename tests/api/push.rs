//! Notifications on devices: who gets them, what they show, and how the server reacts to push services.

use std::time::Duration;

use openvibe::{
    db::{Conn, DbError, now},
    time::Timestamp,
};
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{
    DEADLINE, Person, PushAnswer, PushServer, SECRET_KEY, Team, id, list, team_with, text,
};

const ALL_DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

/// Ada and Bo, whose phone is subscribed.
pub struct Phones {
    pub t: Team,
    pub service: PushServer,
    phone: String,
}

pub async fn phones() -> Phones {
    let service = PushServer::start().await;
    let t = team_with(&[
        ("PUSH_ALLOW", service.host()),
        ("PUSH_SUBJECT", "mailto:ada@example.org"),
        ("SECRET_KEY", SECRET_KEY),
        ("RATE_LIMITS", "off"),
    ])
    .await;
    let phone = service.subscribe(&t.bo, "phone").await;
    let p = Phones { t, service, phone };
    // The first round of the job sets its position.
    p.until("a position", async |p: &Phones| {
        p.t.app
            .place
            .count("meta where key = 'notify_cursor'")
            .await
            == 1
    })
    .await;
    p
}

impl Phones {
    async fn until(&self, what: &str, is_true: impl AsyncFn(&Self) -> bool) {
        let waiting = async {
            while !is_true(self).await {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(DEADLINE, waiting).await.expect(what);
    }

    /// Waits until the newest delivery has a state, and returns it.
    async fn newest(&self, state: &str) -> Value {
        self.until(state, async |p: &Phones| {
            p.recent().await[0]["state"] == state
        })
        .await;
        self.recent().await[0].clone()
    }

    async fn recent(&self) -> Value {
        let status = self.t.bo.get("/v1/push").await.ok();
        status["recent"].clone()
    }

    /// Lets Ada mention Bo in a new thread of #general.
    async fn mention(&self, words: &str) -> Value {
        self.t
            .ada
            .start(&self.t.general, &format!("@bo {words}"))
            .await
    }

    /// Waits until the job has handled the newest item.
    async fn round(&self) {
        self.until("a round of the job", async |p: &Phones| {
            let read = async |c: &mut Conn| {
                let cursor: (String,) = c
                    .q("select value from meta where key = 'notify_cursor'")
                    .one()
                    .await?;
                let newest: (Timestamp,) = c
                    .q("select changed_at from inbox_items order by changed_at desc limit 1")
                    .one()
                    .await?;
                Ok::<_, DbError>((cursor.0, newest.0))
            };
            let (cursor, newest) = p.t.app.db().write(uuid::Uuid::nil(), read).await.unwrap();
            let cursor: Value = serde_json::from_str(&cursor).unwrap();
            cursor["changed_at"].as_i64().unwrap() >= newest.datetime().timestamp_micros()
        })
        .await;
    }

    async fn sql(&self, sql: &'static str) {
        let act = async move |c: &mut Conn| c.q(sql).run().await;
        self.t.app.db().write(uuid::Uuid::nil(), act).await.unwrap();
    }

    /// Checks that no device can have this address.
    async fn refuses(&self, endpoint: &str) {
        let mut form = self.service.form("x");
        form["endpoint"] = json!(endpoint);
        let refused = self.t.bo.post("/v1/push/devices", form).await;
        assert_eq!(refused.refused(422), "bad_endpoint", "{endpoint}");
    }

    /// Makes all deliveries that wait due.
    pub async fn hurry(&self) {
        let act = async move |c: &mut Conn| {
            c.q("update deliveries set due_at = $1 where due_at is not null")
                .bind(now() - Duration::from_secs(1))
                .run()
                .await
        };
        self.t.app.db().write(uuid::Uuid::nil(), act).await.unwrap();
    }

    pub async fn set(&self, fields: Value) {
        let mut form = self.t.bo.get("/v1/notification-settings").await.ok();
        let form = form.as_object_mut().unwrap();
        form.remove("version");
        form.extend(fields.as_object().unwrap().clone());
        let form = Value::Object(form.clone());
        self.t
            .bo
            .put("/v1/notification-settings", form)
            .await
            .is(200);
    }
}

#[tokio::test]
async fn a_mention_reaches_the_phone_of_its_person_encrypted() {
    let p = phones().await;
    let own = p.service.subscribe(&p.t.ada, "own").await;
    let made = p.mention("can you come?").await;
    let push = p.service.nth(1).await;
    assert_eq!(push.device, "phone");
    let payload = push.payload();
    let (thread, message) = (text(&made, "/thread/id"), text(&made, "/message/id"));
    let slug = text(&p.t.ada.get("/v1/snapshot").await.ok(), "/workspace/slug");
    let item = p.t.bo.get("/v1/inbox").await.ok()["data"][0]["id"].clone();
    let tag = push.headers["topic"].clone();
    assert_eq!(
        payload,
        json!({"v": 1, "item": item, "tag": tag, "title": "Ada in #general", "body": "@bo can you come?",
            "url": format!("/{slug}/c/{}/t/{thread}#m-{message}", p.t.general), "badge": 1})
    );
    assert!(
        tag.len() == 32 && tag.chars().all(|c| c.is_ascii_hexdigit()),
        "{tag}"
    );
    assert_eq!(push.headers["ttl"], "86400");
    assert_eq!(push.headers["urgency"], "high");
    assert_eq!(push.headers["content-encoding"], "aes128gcm");
    let status = p.t.bo.get("/v1/push").await.ok();
    let claims = push.claims(&text(&status, "/public_key"));
    assert_eq!(claims["aud"], json!(p.service.base));
    assert_eq!(claims["sub"], "mailto:ada@example.org");
    let lasts = claims["exp"].as_i64().unwrap() - now().unix_s();
    assert!((11 * 3600..=12 * 3600).contains(&lasts), "{lasts}");
    let sent = p.newest("sent").await;
    assert_eq!(
        json!([sent["reason"], sent["device_id"], sent["status"]]),
        json!(["mention", p.phone, 201])
    );
    // A second message of the conversation replaces the first notification; nobody is notified of their own.
    p.t.ada.say(&thread, "@bo please").await;
    let again = p.service.nth(2).await;
    assert_eq!(again.headers["topic"], tag);
    assert_eq!(again.payload()["badge"], 2);
    assert_ne!(own, p.phone);
    assert!(
        p.service
            .received()
            .iter()
            .all(|push| push.device == "phone")
    );
}

#[tokio::test]
async fn members_of_a_channel_are_notified_by_their_level() {
    let p = phones().await;
    let cem = p.t.app.join(&p.t.ada, "Cem", "member").await;
    p.service.subscribe(&cem, "cem").await;
    let mute = json!({"level": "none"});
    cem.put(&format!("/v1/channels/{}/level", p.t.general), mute)
        .await
        .ok();
    p.t.ada.start(&p.t.general, "@channel lunch").await;
    let push = p.service.nth(1).await;
    assert_eq!(push.device, "phone");
    assert_eq!(push.payload()["title"], "Ada in #general");
    assert_eq!(push.headers["urgency"], "normal");
    // A new thread is an item only for those who want all of them.
    let all = json!({"level": "all"});
    cem.put(&format!("/v1/channels/{}/level", p.t.general), all)
        .await
        .ok();
    p.t.ada.start(&p.t.general, "News").await;
    let push = p.service.nth(2).await;
    assert_eq!(
        (push.device.as_str(), push.payload()["body"].as_str()),
        ("cem", Some("News"))
    );
}

#[tokio::test]
async fn here_notifies_only_people_with_an_open_window() {
    let p = phones().await;
    let cem = p.t.app.join(&p.t.ada, "Cem", "member").await;
    p.service.subscribe(&cem, "cem").await;
    let _window = cem.socket().await;
    p.t.ada.start(&p.t.general, "@here lunch").await;
    assert_eq!(p.service.nth(1).await.device, "cem");
    p.t.ada.start(&p.t.general, "@here, and @channel").await;
    let mut others = [p.service.nth(2).await.device, p.service.nth(3).await.device];
    others.sort_unstable();
    assert_eq!(others, ["cem", "phone"]);
    assert_eq!(p.service.received().len(), 3);
}

#[tokio::test]
async fn followers_by_hand_are_notified_of_replies() {
    let p = phones().await;
    let cem = p.t.app.join(&p.t.ada, "Cem", "member").await;
    p.service.subscribe(&cem, "cem").await;
    let thread = p.t.ada.thread(&p.t.general, "Launch").await;
    let follow = json!({"level": "all"});
    p.t.bo
        .put(&format!("/v1/threads/{thread}/follow"), follow)
        .await
        .ok();
    // The first message is from before the follow. Cem only takes part, which follows the thread without notifications.
    cem.say(&thread, "I am here").await;
    let push = p.service.nth(1).await;
    assert_eq!(push.device, "phone");
    assert_eq!(push.payload()["body"], "I am here");
    p.t.ada.say(&thread, "On Monday").await;
    let push = p.service.nth(2).await;
    assert_eq!(
        (push.device.as_str(), push.payload()["title"].as_str()),
        ("phone", Some("Ada in #general"))
    );
    p.newest("sent").await;
    // Own messages notify nobody.
    p.t.bo.say(&thread, "Fine").await;
    p.t.ada.start(&p.t.general, "@cem hello").await;
    assert_eq!(p.service.nth(3).await.device, "cem");
    assert_eq!(p.recent().await[0]["reason"], "reply");
}

#[tokio::test]
async fn previews_hide_the_text_the_place_or_everything() {
    let p = phones().await;
    for (preview, title) in [("sender", "Ada mentioned you"), ("none", "New message")] {
        p.set(json!({"preview": preview})).await;
        let n = p.service.received().len();
        p.mention("about the secret plan").await;
        let payload = p.service.nth(n + 1).await.payload();
        assert_eq!(payload["title"], title);
        assert_eq!(payload["body"], "");
        assert!(!payload.to_string().contains("secret"), "{payload}");
    }
    p.set(json!({"push": false})).await;
    p.mention("nothing").await;
    p.round().await;
    p.set(json!({"push": true, "preview": "full"})).await;
    p.mention("something").await;
    let body = p.service.nth(3).await.payload()["body"].clone();
    assert_eq!(body, "@bo something");
}

#[tokio::test]
async fn people_who_are_active_or_have_read_are_not_notified() {
    let p = phones().await;
    let mut socket = p.t.bo.socket().await;
    socket.send(&json!({"type": "active"})).await;
    // The answer to the next frame follows the frame without one.
    socket.send(&json!({"type": "ping", "id": 1})).await;
    socket.until("the answer", |frame| frame["id"] == 1).await;
    p.mention("while active").await;
    let cem = p.t.app.join(&p.t.ada, "Cem", "member").await;
    p.service.subscribe(&cem, "cem").await;
    p.t.ada.start(&p.t.general, "@cem hi").await;
    assert_eq!(p.service.nth(1).await.device, "cem");
    assert_eq!(p.recent().await, json!([]));
    // Rights, levels, and markers are checked again before each attempt.
    p.service.answer("cem", [PushAnswer::Status(500, "")]);
    let made = p.t.ada.start(&p.t.general, "@cem again").await;
    p.service.nth(2).await;
    let thread = text(&made, "/thread/id");
    let seq = made["message"]["seq"].clone();
    let path = format!("/v1/threads/{thread}/read");
    cem.put(&path, json!({"seq": seq})).await.ok();
    p.until("the answer to be stored", async |p: &Phones| {
        let refused = "deliveries where status = 500";
        p.t.app.place.count(refused).await == 1
    })
    .await;
    p.hurry().await;
    p.until("a skipped delivery", async |p: &Phones| {
        p.t.app
            .place
            .count("deliveries where state = 'skipped'")
            .await
            == 1
    })
    .await;
    assert_eq!(p.service.received().len(), 2);
}

#[tokio::test]
async fn people_who_left_the_workspace_get_nothing_of_it() {
    let p = phones().await;
    p.service.answer("phone", [PushAnswer::Status(500, "")]);
    p.mention("secret").await;
    p.service.nth(1).await;
    p.newest("queued").await;
    p.t.ada
        .delete(&format!("/v1/members/{}", p.t.bo.id))
        .await
        .is(204);
    p.hurry().await;
    p.until("the end of the delivery", async |p: &Phones| {
        p.t.app
            .place
            .count("deliveries where due_at is not null")
            .await
            == 0
    })
    .await;
    assert_eq!(p.service.received().len(), 1);
}

#[tokio::test]
async fn quiet_hours_and_pauses_end_with_one_summary() {
    let p = phones().await;
    let pause = now() + Duration::from_hours(1);
    p.set(json!({"paused_until": pause.to_text()})).await;
    p.mention("one").await;
    p.mention("two").await;
    p.until("held items", async |p: &Phones| {
        p.t.app
            .place
            .count("notification_settings where held_since is not null")
            .await
            == 1
    })
    .await;
    // Quiet hours of the whole week follow the pause.
    let quiet = json!({"from": "00:00", "to": "00:00", "days": ALL_DAYS});
    p.set(json!({"paused_until": null, "quiet": quiet})).await;
    p.mention("three").await;
    p.round().await;
    p.set(json!({"quiet": null})).await;
    let summary = p.service.nth(1).await.payload();
    assert_eq!(summary["title"], "3 new in your inbox");
    assert_eq!(json!([summary["item"], summary["body"]]), json!([null, ""]));
    p.mention("four").await;
    assert_eq!(p.service.nth(2).await.payload()["body"], "@bo four");
    let recent = p.recent().await;
    assert_eq!(list(&recent, "").len(), 2, "{recent}");
    assert_eq!(recent[1]["reason"], Value::Null);
}

#[tokio::test]
async fn the_server_reacts_to_each_answer_of_a_push_service() {
    let p = phones().await;
    // Too large: once more without a text.
    p.service.answer("phone", [PushAnswer::Status(413, "")]);
    p.mention("long").await;
    assert_eq!(p.service.nth(1).await.payload()["body"], "@bo long");
    assert_eq!(p.service.nth(2).await.payload()["title"], "New message");
    p.newest("sent").await;
    // Redirects are not followed.
    p.service.answer("phone", [PushAnswer::Status(301, "")]);
    p.mention("elsewhere").await;
    assert_eq!(p.newest("failed").await["status"], 301);
    // Errors of the service: four attempts.
    let errors = [500, 502, 503, 500].map(|status| PushAnswer::Status(status, "oops"));
    p.service.answer("phone", errors);
    p.mention("busy").await;
    for n in 4..=7 {
        p.service.nth(n).await;
        let state = if n == 7 { "failed" } else { "queued" };
        assert_eq!(p.newest(state).await["answer"], "oops");
        p.hurry().await;
    }
    // Busy: the service names the pause.
    p.service.answer("phone", [PushAnswer::RetryAfter(429, 1)]);
    p.mention("fine again").await;
    p.service.nth(8).await;
    assert_eq!(p.service.nth(9).await.payload()["body"], "@bo fine again");
    p.newest("sent").await;
    // Refused: the device stays, and pauses.
    p.service.answer(
        "phone",
        [PushAnswer::Status(403, "{\"reason\": \"BadJwtToken\"}")],
    );
    p.mention("refused").await;
    let refused = text(&p.newest("refused").await, "/answer");
    assert!(
        refused.ends_with(" refused this (403 BadJwtToken)"),
        "{refused}"
    );
    p.mention("while paused").await;
    p.newest("skipped").await;
    let devices = p.t.bo.get("/v1/push").await.ok()["devices"].clone();
    assert!(devices[0]["refused_until"].is_string(), "{devices}");
    p.sql("update push_devices set refused_identity = 'another key'")
        .await;
    // Gone: the device is deleted.
    p.service.answer("phone", [PushAnswer::Status(410, "")]);
    p.mention("gone").await;
    assert_eq!(p.newest("gone").await["device_id"], json!(p.phone));
    assert_eq!(p.t.bo.get("/v1/push").await.ok()["devices"], json!([]));
    assert_eq!(p.service.received().len(), 11);
    // Admins see how often each answer was given.
    let status = p.t.ada.get("/v1/push").await.ok();
    let counted = list(&status, "/answers");
    let counted: Vec<Value> = counted
        .iter()
        .map(|one| json!([one["status"], one["count"]]))
        .collect();
    assert_eq!(
        json!(counted),
        json!([[201, 2], [301, 1], [403, 1], [410, 1], [500, 1]])
    );
    assert_eq!(p.t.bo.get("/v1/push").await.ok()["answers"], json!([]));
}

#[tokio::test]
async fn five_failures_in_a_row_pause_the_push_service() {
    let p = phones().await;
    p.service
        .answer("phone", (0..10).map(|_| PushAnswer::Status(503, "")));
    for n in 1..=5 {
        p.mention(&format!("{n}")).await;
        p.service.nth(n).await;
        p.newest("queued").await;
    }
    p.hurry().await;
    // Another service is not affected.
    let other = PushServer::start().await;
    let cem = p.t.app.join(&p.t.ada, "Cem", "member").await;
    let refused = cem.post("/v1/push/devices", other.form("cem")).await;
    assert_eq!(refused.refused(422), "bad_endpoint");
    assert_eq!(p.service.received().len(), 5);
    assert_eq!(
        p.t.app
            .place
            .count("deliveries where due_at is not null")
            .await,
        5
    );
}

#[tokio::test]
async fn a_delivery_whose_process_died_is_sent_again_with_the_same_topic() {
    let p = phones().await;
    p.mention("once").await;
    let first = p.service.nth(1).await;
    p.newest("sent").await;
    p.sql("update deliveries set state = 'sending'").await;
    let due = async move |c: &mut Conn| {
        c.q("update deliveries set due_at = $1")
            .bind(now())
            .run()
            .await
    };
    p.t.app.db().write(uuid::Uuid::nil(), due).await.unwrap();
    let second = p.service.nth(2).await;
    assert_eq!(first.headers["topic"], second.headers["topic"]);
    assert_eq!(first.payload()["tag"], second.payload()["tag"]);
    p.newest("sent").await;
    p.mention("twice").await;
    p.service.nth(3).await;
    p.newest("sent").await;
    // A round of the job that was not stored inserts nothing twice, and what is missing. Both items are committed before it, because
    // the job here does not wait for transactions that began before the end of a round.
    let begin_again = async move |c: &mut Conn| {
        c.q("delete from deliveries where id = (select id from deliveries order by created_at desc, id desc limit 1)")
            .run()
            .await?;
        c.q("update meta set value = '{\"changed_at\":0,\"recipient\":\"00000000-0000-0000-0000-000000000000\",\
            \"item\":\"00000000-0000-0000-0000-000000000000\",\"message\":\"00000000-0000-0000-0000-000000000000\"}' where key = 'notify_cursor'")
            .run()
            .await
    };
    let again = p.t.app.db().write(uuid::Uuid::nil(), begin_again).await;
    assert_eq!(again.unwrap(), 1);
    assert_eq!(p.service.nth(4).await.payload()["body"], "@bo twice");
    p.newest("sent").await;
    assert_eq!(p.t.app.place.count("deliveries").await, 2);
    assert_eq!(p.service.received().len(), 4);
}

#[tokio::test]
async fn a_device_belongs_to_its_session_and_ends_with_it() {
    let p = phones().await;
    let status = p.t.bo.get("/v1/push").await.ok();
    assert_eq!(
        json!([status["available"], status["reason"], status["subject_ok"]]),
        json!([true, null, true])
    );
    assert_eq!(status["devices"][0]["is_current"], true);
    // The browser is used by somebody else.
    let moved =
        p.t.ada
            .post("/v1/push/devices", p.service.form("phone"))
            .await
            .is(200);
    assert_eq!(id(&moved), p.phone);
    assert_eq!(p.t.bo.get("/v1/push").await.ok()["devices"], json!([]));
    let remove = format!("/v1/push/devices/{}", p.phone);
    assert_eq!(
        p.t.bo.delete(&remove).await.refused(404),
        "device_not_found"
    );
    assert_eq!(
        p.t.bo.act(&format!("{remove}/test")).await.refused(404),
        "device_not_found"
    );
    p.t.ada.delete(&remove).await.is(204);
    for n in 0..10 {
        p.service.subscribe(&p.t.bo, &format!("d{n}")).await;
    }
    let more =
        p.t.bo
            .post("/v1/push/devices", p.service.form("more"))
            .await;
    assert_eq!(more.refused(409), "too_many_devices");
    p.t.bo
        .post("/v1/push/devices", p.service.form("d3"))
        .await
        .is(200);
    p.t.bo.act("/v1/auth/logout").await.is(204);
    assert_eq!(p.t.app.place.count("push_devices").await, 0);
}

#[tokio::test]
async fn subscriptions_must_be_valid_and_at_public_addresses() {
    let p = phones().await;
    for endpoint in [
        "http://127.0.0.1:9/x",
        "https://127.0.0.1:9/x",
        "https://169.254.169.254/latest",
        "https://[::1]/x",
        "https://10.0.0.1/x",
        "http://1.1.1.1/x",
        "ftp://1.1.1.1/x",
        "https://user:secret@1.1.1.1/x",
        "https://absent.invalid/x",
        "x",
        "",
        p.t.app.base.as_str(),
    ] {
        p.refuses(endpoint).await;
    }
    for host in [
        "localhost",
        "127.1",
        "2130706433",
        "0x7f.1",
        "0177.0.0.1",
        "0.0.0.0",
        "172.31.0.1",
        "192.168.0.1",
        "100.64.0.1",
        "198.18.0.1",
        "224.0.0.1",
        "255.255.255.255",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::ffff:a9fe:a9fe]",
        "[::127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]",
        "[2001:db8::1]",
        "[fe80::1]",
        "[fc00::1]",
        "[fd00:ec2::254]",
        "[ff02::1]",
    ] {
        p.refuses(&format!("https://{host}/x")).await;
    }
    let mut form = p.service.form(&"x".repeat(1100));
    form["label"] = json!("x");
    let refused = p.t.bo.post("/v1/push/devices", form).await;
    assert_eq!(refused.refused(422), "bad_endpoint");
    for (key, value) in [
        ("auth", "AAAA"),
        ("auth", "not base64"),
        ("p256dh", "BTBZMqHH6r4Tts7J_aSIgg"),
        (
            "p256dh",
            "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw5",
        ),
        ("p256dh", ""),
    ] {
        let mut form = p.service.form("y");
        form["keys"][key] = json!(value);
        let refused = p.t.bo.post("/v1/push/devices", form).await;
        assert_eq!(refused.refused(422), "bad_key", "{key} {value}");
    }
    let mut form = p.service.form("z");
    form["label"] = json!("x".repeat(81));
    let refused = p.t.bo.post("/v1/push/devices", form).await;
    assert_eq!(refused.refused(422), "invalid_value");
    let (program, _) = p.t.bo.make_key(&["chat:read", "chat:write"]).await;
    for reply in [
        program.get("/v1/push").await,
        program
            .post("/v1/push/devices", p.service.form("key"))
            .await,
        program.get("/v1/notification-settings").await,
    ] {
        assert_eq!(reply.refused(403), "session_required");
    }
    assert_eq!(p.t.app.place.count("push_devices").await, 1);
}

#[tokio::test]
async fn a_test_says_what_the_push_service_answered() {
    let p = phones().await;
    let path = format!("/v1/push/devices/{}/test", p.phone);
    let result = p.t.bo.act(&path).await.is(200);
    assert_eq!(
        json!([result["status"], result["hint"]]),
        json!([201, null])
    );
    assert_eq!(
        p.service.nth(1).await.payload()["title"],
        "Notifications work"
    );
    p.service.answer(
        "phone",
        [
            PushAnswer::Status(403, "BadJwtToken"),
            PushAnswer::Stall,
            PushAnswer::Status(404, ""),
        ],
    );
    let result = p.t.bo.act(&path).await.is(200);
    assert_eq!(
        json!([result["status"], result["answer"]]),
        json!([403, "BadJwtToken"])
    );
    assert!(
        text(&result, "/hint").contains("(403 BadJwtToken)"),
        "{result}"
    );
    let result = p.t.bo.act(&path).await.is(200);
    assert_eq!(
        json!([result["status"], result["answer"]]),
        json!([null, "no answer within 10 s"])
    );
    let result = p.t.bo.act(&path).await.is(200);
    assert_eq!(result["status"], 404);
    assert_eq!(p.t.bo.act(&path).await.refused(404), "device_not_found");
}

async fn put_if(person: &Person, version: &str, body: &Value) -> u16 {
    let headers = [("if-match", version)];
    let body = Some(body.to_string().into_bytes());
    let path = "/v1/notification-settings";
    person.send(Method::PUT, path, &headers, body).await.status
}

#[tokio::test]
async fn settings_have_defaults_and_versions() {
    let t = team_with(&[]).await;
    let path = "/v1/notification-settings";
    let default = json!({"push": true, "preview": "full", "quiet": null, "paused_until": null, "timezone": "UTC", "mail": "off", "version": 0});
    assert_eq!(t.bo.get(path).await.ok(), default);
    let quiet = json!({"from": "22:00", "to": "07:00", "days": ["mon", "sun"]});
    let form = json!({"push": true, "preview": "sender", "quiet": quiet, "paused_until": null, "timezone": "Europe/Berlin"});
    assert_eq!(put_if(&t.bo, "0", &form).await, 200);
    assert_eq!(put_if(&t.bo, "0", &form).await, 409);
    let stored = t.bo.get(path).await.ok();
    assert_eq!(
        json!([stored["quiet"], stored["version"]]),
        json!([quiet, 1])
    );
    assert_eq!(t.ada.get(path).await.ok(), default);
    let year = now() + Duration::from_hours(24 * 367);
    for (field, value) in [
        ("timezone", json!("Mars/Olympus")),
        (
            "quiet",
            json!({"from": "24:00", "to": "07:00", "days": ["mon"]}),
        ),
        (
            "quiet",
            json!({"from": "7:00", "to": "08:00", "days": ["mon"]}),
        ),
        ("quiet", json!({"from": "07:00", "to": "08:00", "days": []})),
        ("paused_until", json!(year.to_text())),
    ] {
        let mut form = form.clone();
        form[field] = value;
        assert_eq!(
            t.bo.put(path, form).await.refused(422),
            "invalid_value",
            "{field}"
        );
    }
    assert_eq!(t.bo.put(path, stored).await.is(200)["version"], 2);
    let reset = t.bo.put(path, json!({"push": false})).await.is(200);
    assert_eq!(
        [&reset["push"], &reset["preview"], &reset["quiet"]],
        [&json!(false), &json!("full"), &Value::Null]
    );
    assert_eq!(t.bo.get(path).await.ok()["version"], 3);
}

#[tokio::test]
async fn exports_and_erasures_cover_devices_and_settings() {
    let p = phones().await;
    p.set(json!({"preview": "none"})).await;
    p.mention("hello").await;
    p.newest("sent").await;
    let path = format!("/v1/members/{}/export", p.t.bo.id);
    let export = p.t.bo.get(&path).await.ok();
    assert_eq!(export["push_devices"][0]["label"], "phone", "{export}");
    assert_eq!(export["notification_settings"][0]["preview"], "none");
    let of_admin = p.t.ada.get(&path).await.ok();
    assert_eq!(of_admin["push_devices"], Value::Null);
}

#[tokio::test]
async fn another_secret_key_makes_another_key_for_push_services() {
    let mut p = phones().await;
    let key_of = async |p: &Phones| {
        let bo = p.t.bo.at(&p.t.app.base);
        let status = bo.get("/v1/push").await.ok();
        assert_eq!(status["available"], true, "{status}");
        text(&status, "/public_key")
    };
    let first = key_of(&p).await;
    p.t.app.restart(&[]).await;
    assert_eq!(key_of(&p).await, first);
    let other = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=";
    p.t.app.restart(&[("SECRET_KEY", other)]).await;
    let second = key_of(&p).await;
    assert_ne!(second, first);
    p.t.app.restart(&[]).await;
    assert_eq!(key_of(&p).await, second);
}

#[tokio::test]
async fn deliveries_are_forgotten_after_a_week() {
    let p = phones().await;
    p.mention("old").await;
    p.newest("sent").await;
    let age = async |c: &mut Conn| {
        c.q("update deliveries set created_at = $1")
            .bind(now() - Duration::from_hours(7 * 24 + 1))
            .run()
            .await
    };
    p.t.app.db().write(uuid::Uuid::nil(), age).await.unwrap();
    p.mention("new").await;
    p.service.nth(2).await;
    p.newest("sent").await;
    openvibe::push::queue::delete_old(p.t.app.db())
        .await
        .unwrap();
    assert_eq!(p.t.app.place.count("deliveries").await, 1);
}
