//! Events on other nodes while the bus fails, before their commit, and after access is revoked.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde_json::{Value, json};
use sqlx::{Connection, Executor, PgConnection};
use tokio::task::JoinSet;

use super::{DRAIN, Pair, seqs_through};
use crate::support::{
    Person, Relay, Socket, TestApp, id, is_shared_engine, list, number, text, within,
};

/// Time at which a node last read events that the bus had not delivered.
async fn last_gap(ada: &Person, node: &str) -> Option<String> {
    let nodes = ada.get("/v1/nodes").await.ok();
    let node = list(&nodes, "/data")
        .into_iter()
        .find(|n| n["name"] == node);
    node.unwrap()["last_gap_at"].as_str().map(str::to_owned)
}

/// Adds a node whose database is behind a relay. Returns both nodes, the relay, a socket of the second node's person, and a thread of
/// which the socket has received the root message.
pub(super) async fn beside_relayed(first: TestApp) -> (Pair, Relay, Socket, String) {
    let (relay, url) = Relay::before(first.place.postgres.as_ref().unwrap()).await;
    let second = first.beside("two", &[("DATABASE_URL", &url)]).await;
    let p = Pair::of(first, second, None).await;
    let mut bo = p.bo.socket().await;
    let thread = p.ada.thread(&p.general, "Root").await;
    seqs_through(&mut bo, "Root").await;
    (p, relay, bo, thread)
}

#[tokio::test]
async fn polling_brings_events_while_notifications_do_not_arrive() {
    if !is_shared_engine() {
        return;
    }
    let first = TestApp::with(&[DRAIN, ("NODE_NAME", "one")]).await;
    let (p, relay, mut bo, thread) = beside_relayed(first).await;
    let before = last_gap(&p.ada, "two").await;
    relay.stall_notifications();
    p.ada.say(&thread, "unannounced").await;
    assert_eq!(seqs_through(&mut bo, "unannounced").await.len(), 1);
    // Reconnecting would also deliver the message, but only after more than five seconds.
    within("the poll to be recorded", async {
        while last_gap(&p.ada, "two").await <= before {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn an_event_is_delivered_after_an_earlier_one_that_was_not_announced() {
    if !is_shared_engine() {
        return;
    }
    // The nodes practically never poll, so only the gap can make the second one read the log.
    let first = TestApp::on_bus_only(&[DRAIN, ("NODE_NAME", "one")]).await;
    let (p, relay, mut bo, thread) = beside_relayed(first).await;
    relay.stall_notifications();
    for n in 0..3 {
        let (here, there) = (format!("here {n}"), format!("there {n}"));
        p.ada.say(&thread, &there).await;
        p.bo.say(&thread, &here).await;
        let events = bo
            .events_through(&here, |f| f["data"]["message"]["content"] == here.as_str())
            .await;
        let contents: Vec<String> = events
            .iter()
            .map(|event| text(event, "/data/message/content"))
            .collect();
        assert_eq!(contents, [there, here]);
    }
}

#[tokio::test]
async fn a_node_whose_database_address_leads_nowhere_responds_with_503() {
    if !is_shared_engine() {
        return;
    }
    let first = TestApp::with(&[DRAIN, ("NODE_NAME", "one")]).await;
    let (relay, url) = Relay::before(first.place.postgres.as_ref().unwrap()).await;
    let second = first.beside("two", &[("DATABASE_URL", &url)]).await;
    let p = Pair::of(first, second, None).await;
    let thread = p.ada.thread(&p.general, "Root").await;
    // Cuts the connections, as a proxy without a primary does.
    relay.cut();
    let path = format!("/v1/threads/{thread}/messages");
    let requests = (0..8).map(async |n| {
        let write =
            p.bo.post(&path, json!({"content": "hi", "client_id": format!("{n}")}));
        let (read, write) = tokio::join!(p.bo.get("/v1/snapshot"), write);
        (read.refused(503), write.refused(503))
    });
    for codes in futures::future::join_all(requests).await {
        assert_eq!(codes, ("unavailable".to_owned(), "unavailable".to_owned()));
    }
    relay.mend();
    assert_eq!(p.ada.contents(&thread).await, ["Root"]);
}

/// Makes commits with events wait for a lock. Returns the connection that holds the lock.
async fn blocked_commits(p: &Pair) -> PgConnection {
    let url = p.first.place.postgres.as_ref().unwrap();
    let mut c = PgConnection::connect(url).await.unwrap();
    for sql in [
        "create function wait_for_test() returns trigger language plpgsql as \
         'begin perform pg_advisory_xact_lock_shared(4711); return null; end'",
        "create constraint trigger wait_for_test after insert on events deferrable initially deferred \
         for each row execute function wait_for_test()",
        "select pg_advisory_lock(4711)",
    ] {
        c.execute(sql).await.unwrap();
    }
    c
}

#[tokio::test]
async fn no_node_delivers_an_event_before_its_commit() {
    if !is_shared_engine() {
        return;
    }
    let p = Pair::over_notify().await;
    let thread = p.ada.thread(&p.general, "Root").await;
    let (mut ada, mut bo) = (p.ada.socket().await, p.bo.socket().await);
    let mut c = blocked_commits(&p).await;
    let post = p.ada.say(&thread, "not yet");
    let early = async {
        let waits = "select exists (select 1 from pg_locks where locktype = 'advisory' and objid = 4711 and not granted)";
        within("the commit to wait", async {
            while !sqlx::query_scalar::<_, bool>(waits)
                .fetch_one(&mut c)
                .await
                .unwrap()
            {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        })
        .await;
        let mut early = ada.settle().await;
        early.extend(bo.settle().await);
        c.close().await.unwrap();
        early
    };
    let (_, early) = tokio::join!(post, early);
    let is_early = |f: &Value| f["data"]["message"]["content"] == "not yet";
    assert!(!early.iter().any(is_early), "{early:?}");
    for socket in [&mut ada, &mut bo] {
        assert_eq!(seqs_through(socket, "not yet").await.len(), 1);
    }
}

/// Makes people post on both nodes until the returned value is dropped.
async fn load(p: &Pair, thread: &str) -> JoinSet<()> {
    let cy = p.first.join(&p.ada, "Cy", "member").await;
    let mut posting = JoinSet::new();
    for who in [p.ada.clone(), cy.at(&p.second.base)] {
        let path = format!("/v1/threads/{thread}/messages");
        posting.spawn(async move {
            for n in 0.. {
                // The rate limit may reject some posts.
                drop(
                    who.try_post(&path, json!({"content": format!("{} {n}", who.name)}))
                        .await,
                );
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
    }
    posting
}

/// Opens sockets on both nodes, and waits until they receive events.
async fn sockets_under_load(p: &Pair, who: &Person) -> [Socket; 2] {
    let mut sockets = [
        who.at(&p.first.base).socket().await,
        who.at(&p.second.base).socket().await,
    ];
    for socket in &mut sockets {
        for _ in 0..10 {
            socket.event().await;
        }
    }
    sockets
}

fn events(frames: Vec<Value>) -> impl Iterator<Item = Value> {
    let is_event = |f: &Value| f["seq"].is_i64() && f["data"].is_object();
    frames.into_iter().filter(is_event)
}

async fn a_removed_member_gets_no_later_event(p: Pair) {
    let thread = p.ada.thread(&p.general, "Root").await;
    let _posting = load(&p, &thread).await;
    let mut sockets = sockets_under_load(&p, &p.bo).await;
    let removed = p.ada.delete(&format!("/v1/members/{}", p.bo.id)).await;
    assert_eq!(removed.status, 204);
    let removal = p.ada.event_where("the removal", |e| {
        e["type"] == "member.removed" && e["data"]["member"]["user_id"] == p.bo.id.as_str()
    });
    let removal = number(&removal.await, "/seq");
    for socket in &mut sockets {
        assert_eq!(socket.closed().await, 4003);
        let later: Vec<Value> = events(socket.drained())
            .filter(|event| number(event, "/seq") > removal)
            .collect();
        assert!(later.is_empty(), "{later:?}");
    }
}

#[tokio::test]
async fn a_removed_member_gets_no_later_event_on_any_node_over_notify() {
    if is_shared_engine() {
        a_removed_member_gets_no_later_event(Pair::over_notify().await).await;
    }
}

#[tokio::test]
async fn a_removed_member_gets_no_later_event_on_any_node_over_nats() {
    if is_shared_engine() {
        a_removed_member_gets_no_later_event(Pair::over_nats().await).await;
    }
}

/// Maximum time for which sockets on other nodes still receive events after a revocation: more than the limit of 2 s without a bus,
/// because machines can be slow.
const REVOKED_WITHIN: Duration = Duration::from_secs(5);

async fn a_revoked_session_and_key_get_no_later_events(p: Pair) {
    let thread = p.ada.thread(&p.general, "Root").await;
    let _posting = load(&p, &thread).await;
    let session = p.bo.log_in().await;
    let (robot, key) = p.bo.make_key(&["chat:read"]).await;
    let mut of_session = sockets_under_load(&p, &session).await;
    let mut of_key = sockets_under_load(&p, &robot).await;
    session.post("/v1/auth/logout", json!({})).await.is(204);
    p.bo.delete(&format!("/v1/api-keys/{key}")).await.is(204);
    let at = Utc::now();
    for socket in of_session.iter_mut().chain(&mut of_key) {
        assert_eq!(socket.closed().await, 4001);
        for event in events(socket.drained()) {
            let sent_at: DateTime<Utc> = text(&event, "/ts").parse().unwrap();
            assert!(
                (sent_at - at).to_std().unwrap_or_default() < REVOKED_WITHIN,
                "{event}"
            );
        }
    }
    // Other people still receive all events.
    let mut bo = p.bo.socket().await;
    let posted = p.ada.say(&thread, "still there").await;
    bo.until("a later event", |f| {
        f["data"]["message"]["id"] == id(&posted["message"])
    })
    .await;
}

#[tokio::test]
async fn a_revoked_session_and_key_get_no_later_events_on_any_node_over_notify() {
    if is_shared_engine() {
        a_revoked_session_and_key_get_no_later_events(Pair::over_notify().await).await;
    }
}

#[tokio::test]
async fn a_revoked_session_and_key_get_no_later_events_on_any_node_over_nats() {
    if is_shared_engine() {
        a_revoked_session_and_key_get_no_later_events(Pair::over_nats().await).await;
    }
}
