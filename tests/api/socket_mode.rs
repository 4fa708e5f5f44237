//! Slack's Socket Mode: programs of bots get events on sockets that they open.

use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{SinkExt, StreamExt};
use openvibe::db::{Conn, DbError, now};
use serde_json::{Value, json};
use tokio::{net::TcpStream, sync::Notify};
use tokio_tungstenite::{
    MaybeTlsStream, WebSocketStream, connect_async,
    tungstenite::{Error, Message},
};

use crate::support::{DEADLINE, Person, SECRET_KEY, Team, id, team_with, text, visitor, within};

struct Robot {
    t: Team,
    id: String,
    key: String,
    program: Person,
}

/// A bot in #general with a subscription for sockets.
async fn robot() -> Robot {
    let t = team_with(&[("SECRET_KEY", SECRET_KEY)]).await;
    let form = json!({"name": "Deploy", "channel_ids": [t.general]});
    let bot = id(&t.ada.post("/v1/bots", form).await.is(201));
    let keys = format!("/v1/bots/{bot}/keys");
    let key = t.ada.post(&keys, json!({"name": "App"})).await.is(201);
    let form = json!({"transport": "socket", "format": "slack", "events": ["message.created"]});
    let path = format!("/v1/bots/{bot}/subscription");
    t.ada.put(&path, form).await.is(200);
    Robot {
        program: visitor(&t.app.base).with_key(&text(&key, "/key")),
        key: id(&key),
        id: bot,
        t,
    }
}

impl Robot {
    async fn address(&self) -> String {
        let opened = self.program.post("/api/apps.connections.open", json!({}));
        text(&opened.await.is(200), "/url")
    }

    async fn open(&self) -> Program {
        let mut program = Program::connect(&self.address().await).await.unwrap();
        assert_eq!(program.next().await["type"], "hello");
        program
    }

    async fn until(&self, what: &str, table: &str, n: i64) {
        let waiting = async {
            while self.t.app.place.count(table).await != n {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(DEADLINE, waiting).await.expect(what);
    }
}

struct Program {
    ws: WebSocketStream<MaybeTlsStream<TcpStream>>,
}

impl Program {
    async fn connect(address: &str) -> Result<Self, Error> {
        let (ws, _) = within("a socket to open", connect_async(address)).await?;
        Ok(Self { ws })
    }

    /// The next text frame.
    async fn next(&mut self) -> Value {
        loop {
            let frame = within("a frame", self.ws.next()).await.unwrap().unwrap();
            if let Message::Text(text) = frame {
                return serde_json::from_str(&text).unwrap();
            }
        }
    }

    async fn acknowledge(&mut self, envelope: &Value) {
        let frame = json!({"envelope_id": envelope["envelope_id"]}).to_string();
        self.ws.send(Message::text(frame)).await.unwrap();
    }
}

#[tokio::test]
async fn an_event_goes_to_a_socket_until_it_is_acknowledged() {
    let r = robot().await;
    let mut program = r.open().await;
    r.t.bo.start(&r.t.general, "Hello **all**").await;
    let first = program.next().await;
    assert_eq!(first["type"], "events_api");
    assert_eq!(first["retry_attempt"], 0);
    assert_eq!(first["payload"]["event"]["type"], "message");
    assert_eq!(first["payload"]["event"]["text"], "Hello *all*");
    // Without an acknowledgment, it is sent again.
    let hurry = async move |c: &mut Conn| {
        c.q("update bot_deliveries set due_at = $1")
            .bind(now() - Duration::from_secs(1))
            .run()
            .await
    };
    let db = r.t.app.db();
    db.write(uuid::Uuid::nil(), hurry).await.unwrap();
    let second = program.next().await;
    assert_eq!(second["envelope_id"], first["envelope_id"]);
    assert_eq!(second["retry_attempt"], 1);
    program.acknowledge(&second).await;
    r.until("the end", "bot_deliveries where state = 'sent'", 1)
        .await;
    assert_eq!(r.t.app.place.count("bot_deliveries").await, 1);
}

#[tokio::test]
async fn each_event_goes_to_one_of_several_sockets() {
    let r = robot().await;
    let (mut one, mut two) = (r.open().await, r.open().await);
    let posting = async {
        for n in 0..10 {
            r.t.bo.start(&r.t.general, &format!("Message {n}")).await;
        }
    };
    // At the same time, because an event that is not acknowledged within five seconds is sent again.
    let receiving = async {
        let mut texts = Vec::new();
        while texts.len() < 10 {
            tokio::select! {
                envelope = one.next() => {
                    one.acknowledge(&envelope).await;
                    texts.push(text(&envelope, "/payload/event/text"));
                }
                envelope = two.next() => {
                    two.acknowledge(&envelope).await;
                    texts.push(text(&envelope, "/payload/event/text"));
                }
            }
        }
        texts
    };
    let ((), texts) = tokio::join!(posting, receiving);
    let different: BTreeSet<&String> = texts.iter().collect();
    assert_eq!(different.len(), 10, "{texts:?}");
    r.until("the end", "bot_deliveries where state = 'sent'", 10)
        .await;
}

#[tokio::test]
async fn what_happened_without_a_socket_is_sent_to_the_next_one() {
    let mut r = robot().await;
    r.t.bo.start(&r.t.general, "Before").await;
    let mut program = r.open().await;
    let envelope = program.next().await;
    assert_eq!(envelope["payload"]["event"]["text"], "Before");
    program.acknowledge(&envelope).await;
    r.until("the end", "bot_deliveries where state = 'sent'", 1)
        .await;
    r.t.app.stop().await;
    let frame = program.next().await;
    assert_eq!(
        (&frame["type"], &frame["reason"]),
        (&json!("disconnect"), &json!("refresh_requested"))
    );
}

#[tokio::test]
async fn tickets_are_for_subscribed_bots_and_valid_once() {
    let r = robot().await;
    let address = r.address().await;
    let _open = Program::connect(&address).await.unwrap();
    match Program::connect(&address).await {
        Err(Error::Http(response)) => assert_eq!(response.status().as_u16(), 401),
        Err(e) => panic!("{e}"),
        Ok(_) => panic!("the ticket was valid twice"),
    }
    // With nine tickets, there are ten.
    for _ in 0..9 {
        r.address().await;
    }
    let refused = async |by: &Person, error: &str| {
        let answer = by.post("/api/apps.connections.open", json!({})).await;
        assert_eq!(answer.is(200)["error"], json!(error));
    };
    refused(&r.program, "too_many_websockets").await;
    // A ticket counts as long as it is valid.
    let age = async move |c: &mut Conn| {
        c.q("update bot_sockets set seen_at = $1 where is_open = FALSE")
            .bind(now() - Duration::from_secs(40))
            .run()
            .await
    };
    let db = r.t.app.db();
    db.write(uuid::Uuid::nil(), age).await.unwrap();
    refused(&r.program, "too_many_websockets").await;
    let (person, _) = r.t.ada.make_key(&["chat:read", "chat:write"]).await;
    refused(&person, "not_allowed_token_type").await;
    let path = format!("/v1/bots/{}/subscription", r.id);
    r.t.ada.delete(&path).await.is(204);
    refused(&r.program, "not_allowed_token_type").await;
}

#[tokio::test]
async fn a_guessed_ticket_needs_no_write() {
    let r = robot().await;
    let guess = format!("{}x", r.address().await);
    // Whoever waits for the writer waits for this command.
    let release = Arc::new(Notify::new());
    let released = Arc::clone(&release);
    let hold = async move |_: &mut Conn| {
        released.notified().await;
        Ok::<_, DbError>(())
    };
    let db = r.t.app.db();
    let guessing = async {
        match Program::connect(&guess).await {
            Err(Error::Http(response)) => assert_eq!(response.status().as_u16(), 401),
            Err(e) => panic!("{e}"),
            Ok(_) => panic!("the ticket was valid"),
        }
        release.notify_one();
    };
    let (held, ()) = tokio::join!(db.write(uuid::Uuid::nil(), hold), guessing);
    held.unwrap();
}

#[tokio::test]
async fn a_socket_ends_with_its_key() {
    let r = robot().await;
    let mut program = r.open().await;
    let key = format!("/v1/bots/{}/keys/{}", r.id, r.key);
    r.t.ada.delete(&key).await.is(204);
    let ended = Instant::now();
    r.t.bo.start(&r.t.general, "Unseen").await;
    let frame = program.next().await;
    assert_eq!(
        (&frame["type"], &frame["reason"]),
        (&json!("disconnect"), &json!("link_disabled"))
    );
    // The next ping would come later.
    assert!(ended.elapsed() < Duration::from_secs(5));
    r.until("the event", "bot_deliveries where state = 'queued'", 1)
        .await;
}
