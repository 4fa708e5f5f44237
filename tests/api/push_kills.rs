//! The server is killed while it notifies people: before and after it stores deliveries, and before and after it sends one. Nothing is
//! lost, and a message that is sent again has the same topic and tag, so that people see one.

use std::{sync::Arc, time::Duration};

use openvibe::db::{Conn, Db, now};
use serde_json::json;
use uuid::Uuid;

use crate::{
    faults::{Prepared, prepared},
    missed::FROM_THE_BEGINNING,
    support::{
        PushServer, SECRET_KEY, TestDatabase, TestProcess, at_points, id, pause, sign_up, text,
        within,
    },
};

impl Prepared {
    /// Waits until there are this many rows.
    async fn has(&self, rows: &str, count: i64) {
        let waiting = async {
            while self.place.count(rows).await != count {
                pause().await;
            }
        };
        within(rows, waiting).await;
    }
}

/// Changes the data of a stopped server as if time had passed: items have settled, and deliveries are due.
async fn let_time_pass(place: &TestDatabase) {
    let db = Db::open(&place.url(), Arc::new(|_| {})).await.unwrap();
    let act = async move |c: &mut Conn| {
        c.q("update inbox_items set changed_at = $1")
            .bind(now() - Duration::from_mins(1))
            .run()
            .await?;
        c.q("update deliveries set due_at = $1 where due_at is not null")
            .bind(now() - Duration::from_secs(1))
            .run()
            .await
    };
    db.write(Uuid::nil(), act).await.unwrap();
    db.close().await;
}

/// Bo is mentioned. The server dies at a failpoint, and starts again.
async fn mention(failpoint: &str) {
    let service = PushServer::start().await;
    let settings = [("PUSH_ALLOW", service.host()), ("SECRET_KEY", SECRET_KEY)];
    let p = prepared().await;
    let (server, ada) = p.start(&settings).await;
    let invite = ada.post("/v1/invites", json!({"role": "member"})).await;
    let token = text(&invite.is(201), "/token");
    let bo = sign_up(&server.base, "Bo", Some(&token)).await;
    service.subscribe(&bo, "phone").await;
    let general = id(&ada.channel("general").await);
    ada.start(&general, "@bo can you come?").await;
    p.has("meta where key = 'notify_cursor'", 1).await;
    server.kill().await;
    p.place.run(&[FROM_THE_BEGINNING]).await;
    let_time_pass(&p.place).await;

    let dying = [settings[0], settings[1], ("FAILPOINT", failpoint)];
    // It may die before it listens.
    if let Ok(server) = TestProcess::try_start(&p.place, &p.model, &dying).await {
        let status = server.exited().await;
        assert_eq!(status.code(), None, "not at {failpoint}: {status}");
    }
    let_time_pass(&p.place).await;

    let (server, _) = p.start(&settings).await;
    p.has("deliveries where state = 'sent'", 1).await;
    server.kill().await;
    assert_eq!(p.place.count("deliveries").await, 1, "{failpoint}");
    let received = service.received();
    let is_repeated = failpoint.starts_with("push_sent");
    assert_eq!(received.len(), 1 + usize::from(is_repeated), "{failpoint}");
    let topic = &received[0].headers["topic"];
    for push in &received {
        assert_eq!(&push.headers["topic"], topic, "{failpoint}");
        let payload = push.payload();
        assert_eq!(payload["tag"], topic.as_str(), "{failpoint}");
        assert_eq!(payload["body"], "@bo can you come?", "{failpoint}");
    }
}

at_points! {
    a_mention_notifies_once_whenever_the_server_dies, mention:
    notify_insert_1,
    notify_inserted_1,
    push_taken_1,
    push_sent_1,
}
