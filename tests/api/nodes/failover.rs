//! A standby of `PostgreSQL` that takes the place of the primary while several nodes and their clients use it.

use std::{collections::BTreeSet, sync::Arc};

use serde_json::json;
use sqlx::{Connection, Executor, PgConnection};
use tokio::task::JoinSet;

use super::{DRAIN, Pair, seqs_through};
use crate::{
    shared_database::{blocking, pair, replicated},
    support::{
        Cluster, NatsServer, Person, Relay, SECRET_KEY, Socket, Target, TestApp, TestDatabase,
        is_shared_engine, list, number, text, within,
    },
};

/// Two nodes, each of which reaches the database and NATS through its own relays.
struct Failover {
    p: Pair,
    primary: Arc<Cluster>,
    standby: Arc<Cluster>,
    databases: [Relay; 2],
    /// The second node's relay in front of NATS.
    bus: Option<Relay>,
}

async fn run(cluster: &Cluster, sql: &[&'static str]) {
    let mut c = PgConnection::connect(&cluster.url).await.unwrap();
    for statement in sql {
        c.execute(*statement).await.unwrap();
    }
}

impl Failover {
    async fn start(failover: &str, nats: Option<NatsServer>) -> Self {
        let (primary, standby) = pair().await;
        if failover == "lossless" {
            let synchronous = "alter system set synchronous_standby_names = '*'";
            run(&primary, &[synchronous, "select pg_reload_conf()"]).await;
        }
        let (one, url_of_one) = Relay::before(&primary.url).await;
        let (two, url_of_two) = Relay::before(&primary.url).await;
        let mut settings = vec![
            DRAIN,
            ("NODE_NAME", "one"),
            ("DATABASE_URL", url_of_one.as_str()),
            ("DATABASE_FAILOVER", failover),
            ("RATE_LIMITS", "off"),
            ("SECRET_KEY", SECRET_KEY),
        ];
        let mut of_second = vec![("DATABASE_URL", url_of_two.as_str())];
        let bus = match &nats {
            Some(nats) => Some(Relay::to(Target::Tcp(format!("127.0.0.1:{}", nats.port))).await),
            None => None,
        };
        let direct = nats.as_ref().map(NatsServer::url);
        let relayed = bus.as_ref().map(|bus| format!("nats://{}", bus.address));
        settings.extend(direct.as_deref().map(|url| ("NATS_URL", url)));
        of_second.extend(relayed.as_deref().map(|url| ("NATS_URL", url)));
        let first = TestApp::on(TestDatabase::on(&primary.url), &settings).await;
        let second = first.beside("two", &of_second).await;
        Self {
            p: Pair::of(first, second, nats).await,
            primary,
            standby,
            databases: [one, two],
            bus,
        }
    }

    /// Crashes the primary and promotes the standby.
    async fn fail_over(&self) {
        let (old, new) = (Arc::clone(&self.primary), Arc::clone(&self.standby));
        blocking(move || {
            old.crash();
            new.promote();
        })
        .await;
        for relay in &self.databases {
            relay.point_to(Target::Unix(self.standby.socket()));
        }
    }
}

/// Posts until this many messages have been acknowledged, and resends those that have not. Returns their client IDs.
async fn post(who: Person, thread: String, count: usize) -> Vec<String> {
    let path = format!("/v1/threads/{thread}/messages");
    let mut acknowledged = Vec::new();
    for n in 0..count {
        let client_id = format!("{}-{n}", who.id);
        let form = json!({"content": client_id, "client_id": client_id});
        let stored = async {
            while !matches!(who.try_post(&path, form.clone()).await, Some(reply) if reply.status < 300)
            {
            }
        };
        within("a message to be stored", stored).await;
        acknowledged.push(client_id);
    }
    acknowledged
}

#[tokio::test]
async fn a_promoted_synchronous_standby_has_every_message_and_sockets_continue() {
    const MESSAGES: usize = 40;
    if !is_shared_engine() {
        return;
    }
    let f = Failover::start("lossless", None).await;
    let p = &f.p;
    let thread = p.ada.thread(&p.general, "Root").await;
    let mut sockets = [p.ada.socket().await, p.bo.socket().await];
    let mut posting = JoinSet::new();
    for who in [&p.ada, &p.bo] {
        posting.spawn(post(who.clone(), thread.clone(), MESSAGES));
    }
    // Fails over while messages are being posted.
    let seq = sockets[0].cursor + i64::try_from(MESSAGES).unwrap();
    sockets[0]
        .until("half of the messages", |f| f["seq"].as_i64() >= Some(seq))
        .await;
    f.fail_over().await;
    let acknowledged: BTreeSet<String> = posting.join_all().await.into_iter().flatten().collect();
    assert_eq!(acknowledged.len(), 2 * MESSAGES);
    let messages = p.ada.messages(&thread).await;
    let stored: Vec<String> = messages
        .iter()
        .filter_map(|m| m["client_id"].as_str().map(str::to_owned))
        .collect();
    assert_eq!(stored.len(), acknowledged.len(), "each of them once");
    assert_eq!(stored.into_iter().collect::<BTreeSet<_>>(), acknowledged);
    // No socket was closed, because the epoch is the same.
    p.bo.say(&thread, "the last one").await;
    for socket in &mut sockets {
        seqs_through(socket, "the last one").await;
    }
}

async fn a_promoted_lagging_standby_starts_a_new_epoch(nats: Option<NatsServer>) {
    let f = Failover::start("lossy", nats).await;
    let p = &f.p;
    let thread = p.ada.thread(&p.general, "Root").await;
    let (mut ada, mut bo) = (p.ada.socket().await, p.bo.socket().await);
    replicated(&f.primary).await;
    let detached = "alter system set primary_conninfo = ''";
    run(&f.standby, &[detached, "select pg_reload_conf()"]).await;
    let mut c = PgConnection::connect(&f.primary.url).await.unwrap();
    let is_connected = "select exists (select 1 from pg_stat_replication)";
    within("the standby to fall behind", async {
        while sqlx::query_scalar(is_connected)
            .fetch_one(&mut c)
            .await
            .unwrap()
        {
            crate::support::pause().await;
        }
    })
    .await;
    drop(c);
    // Delays the announcement until the new epoch has begun.
    if let Some(bus) = &f.bus {
        bus.stall();
    }
    let lost = p.ada.say(&thread, "lost").await;
    assert_eq!(lost["message"]["content"], "lost");
    let seq = *seqs_through(&mut bo, "lost").await.last().unwrap();
    f.fail_over().await;
    let old = bo.epoch();
    for socket in [&mut ada, &mut bo] {
        assert_eq!(socket.closed().await, 1001);
    }
    let since = json!({"since": seq, "epoch": old});
    let mut ada = Socket::open(&p.ada, since.clone()).await;
    let mut bo = Socket::open(&p.bo, since).await;
    for socket in [&ada, &bo] {
        assert_ne!(socket.epoch(), old);
        assert_eq!(socket.epoch(), ada.epoch());
        assert_eq!(socket.ready["resumed"], false);
        assert!(
            number(&socket.ready, "/seq") < seq,
            "its number is free again"
        );
    }
    if let Some(bus) = &f.bus {
        bus.mend();
    }
    p.ada.say(&thread, "kept").await;
    for socket in [&mut ada, &mut bo] {
        let frames = socket
            .through("the next event", |f| {
                f["data"]["message"]["content"] == "kept"
            })
            .await;
        assert_eq!(number(frames.last().unwrap(), "/seq"), seq);
        let is_lost = |f: &serde_json::Value| f["data"]["message"]["content"] == "lost";
        assert!(!frames.iter().any(is_lost), "{frames:?}");
    }
    for base in [&p.first.base, &p.second.base] {
        let who = p.bo.at(base);
        assert_eq!(who.contents(&thread).await, ["Root", "kept"]);
        let snapshot = who.get("/v1/snapshot").await.ok();
        assert_eq!(text(&snapshot, "/epoch"), ada.epoch());
        assert!(list(&who.get("/v1/search?q=lost").await.ok(), "/data").is_empty());
    }
}

#[tokio::test]
async fn a_promoted_lagging_standby_starts_a_new_epoch_over_notify() {
    if is_shared_engine() {
        Box::pin(a_promoted_lagging_standby_starts_a_new_epoch(None)).await;
    }
}

#[tokio::test]
async fn a_promoted_lagging_standby_starts_a_new_epoch_over_nats() {
    if is_shared_engine() {
        let nats = Some(NatsServer::start().await);
        Box::pin(a_promoted_lagging_standby_starts_a_new_epoch(nats)).await;
    }
}
