//! Events for the program of a bot.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use super::{POLL, Stage, Work, get, kills, post};
use crate::{
    faults::prepared,
    support::{Person, ProgramServer, SECRET_KEY, id, list, text},
};

/// Messages of each work.
const MESSAGES: usize = 10;

/// Messages in #general, of which a program gets each one.
struct Telling<'a> {
    program: &'a ProgramServer,
    channel: String,
}

impl Telling<'_> {
    /// IDs of the deliveries of each message of this work.
    fn received(&self, name: &str) -> BTreeMap<String, BTreeSet<String>> {
        let mut ids: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for event in self.program.received("program") {
            let content = text(&event.json(), "/data/message/content");
            if content.starts_with(&format!("{name}: ")) {
                let delivery = event.headers["webhook-id"].clone();
                ids.entry(content).or_default().insert(delivery);
            }
        }
        ids
    }

    /// Creates the bot and its subscription, unless they exist; `None` if the server has crashed.
    async fn subscribe(&self, ada: &Person) -> Option<()> {
        let bots = get(ada, "/v1/bots").await?;
        let bot = if let Some(bot) = list(&bots, "/data").first() {
            id(bot)
        } else {
            let form = json!({"name": "Told", "channel_ids": [self.channel]});
            id(&post(ada, "/v1/bots", form).await?)
        };
        let known = get(ada, &format!("/v1/bots/{bot}")).await?;
        if known["subscription"].is_null() {
            let form = json!({"url": self.program.url("program"), "events": ["message.created"]});
            let path = format!("/v1/bots/{bot}/subscription");
            let body = Some(form.to_string().into_bytes());
            ada.try_send(reqwest::Method::PUT, &path, &[], body)
                .await?
                .ok();
        }
        Some(())
    }
}

impl Work for Telling<'_> {
    async fn proceed(&self, ada: &Person, name: &str) -> Option<()> {
        self.subscribe(ada).await?;
        let path = format!("/v1/channels/{}/threads", self.channel);
        for n in 0..MESSAGES {
            let text = format!("{name}: {n}");
            let form = json!({"content": text, "client_id": format!("{name}-{n}")});
            post(ada, &path, form).await?;
        }
        while self.received(name).len() < MESSAGES {
            // Notices a crash.
            get(ada, "/v1/bots").await?;
            tokio::time::sleep(POLL).await;
        }
        Some(())
    }

    async fn check(&self, _: &Person, name: &str) {
        let received = self.received(name);
        assert_eq!(received.len(), MESSAGES, "{name}: {received:?}");
        for (message, ids) in received {
            assert_eq!(ids.len(), 1, "{name}: {message} has several IDs: {ids:?}");
        }
    }
}

#[tokio::test]
async fn kills_lose_no_event_of_a_bot() {
    let p = prepared().await;
    let program = ProgramServer::start().await;
    let (server, ada) = p.start(&[]).await;
    let channel = id(&ada.channel("general").await);
    server.kill().await;
    let settings = [
        ("RATE_LIMITS", "off"),
        ("HOOK_ALLOW", program.host()),
        ("SECRET_KEY", SECRET_KEY),
    ];
    let stage = Stage {
        p: &p,
        settings: &settings,
    };
    let telling = Telling {
        program: &program,
        channel,
    };
    stage.kill_during(&telling, (kills() / 5).max(2)).await;
}
