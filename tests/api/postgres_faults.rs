//! A `PostgreSQL` server that restarts while it is in use. Not applicable to `SQLite`.

use std::sync::Arc;

use serde_json::json;
use sqlx::{Connection, PgConnection};
use tokio::{sync::watch, task::JoinSet};

use crate::{
    faults::{Prepared, prepared_at},
    support::{Cluster, Person, Socket, TestDatabase, list, number, within},
};

const CLIENTS: usize = 12;
const MESSAGES: usize = 30;

fn is_postgres() -> bool {
    std::env::var("OPENVIBE_TEST_DATABASE").as_deref() == Ok("postgres")
}

async fn on_own_cluster() -> (Arc<Cluster>, Prepared) {
    let cluster = openvibe::blocking::blocking((), Cluster::start)
        .await
        .unwrap();
    let p = prepared_at(TestDatabase::on(&cluster.url)).await;
    (Arc::new(cluster), p)
}

async fn with(cluster: &Arc<Cluster>, act: impl FnOnce(&Cluster) + Send + 'static) {
    let cluster = Arc::clone(cluster);
    openvibe::blocking::blocking((), move || act(&cluster))
        .await
        .unwrap();
}

/// Resends one message until it is acknowledged. Returns the status.
async fn send(who: &Person, thread: &str, client_id: &str, content: &str) -> u16 {
    let path = format!("/v1/threads/{thread}/messages");
    for _ in 0..200 {
        let form = json!({"content": content, "client_id": client_id});
        let reply = who.try_post(&path, form).await.expect("an answer");
        match reply.status {
            200 | 201 => return reply.status,
            _ => assert_eq!(reply.refused(503), "unavailable"),
        }
    }
    panic!("{client_id} was never stored");
}

#[tokio::test]
async fn restarting_postgres_under_load_loses_and_duplicates_nothing() {
    if !is_postgres() {
        return;
    }
    let (cluster, p) = on_own_cluster().await;
    let settings = [("LEASE_MS", "3000"), ("RATE_LIMITS", "off")];
    let (server, ada) = p.start(&settings).await;
    let mut socket = ada.socket().await;
    let (done, mut count) = watch::channel(0_usize);
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        let (ada, thread, done) = (ada.clone(), p.thread.clone(), done.clone());
        clients.spawn(async move {
            let mut acknowledged = Vec::new();
            for n in 0..MESSAGES {
                let client_id = format!("{client}-{n}");
                let content = match n % 10 {
                    0 => format!("@vibe {client_id}"),
                    _ => client_id.clone(),
                };
                send(&ada, &thread, &client_id, &content).await;
                acknowledged.push(client_id);
                done.send_modify(|n| *n += 1);
            }
            acknowledged
        });
    }
    for part in 1..=3 {
        let enough = CLIENTS * MESSAGES * part / 4;
        count.wait_for(|n| *n >= enough).await.unwrap();
        with(&cluster, Cluster::crash_and_restart).await;
    }
    let mut acknowledged = Vec::new();
    while let Some(client) = clients.join_next().await {
        acknowledged.extend(client.unwrap());
    }
    assert_eq!(acknowledged.len(), CLIENTS * MESSAGES);
    p.check_at(&ada, &acknowledged, None).await;

    // The watching client receives every event, reconnecting if necessary.
    let head = number(&ada.get("/v1/snapshot").await.ok(), "/seq");
    let mut seen = Vec::new();
    while seen.last() < Some(&head) {
        match socket.try_next().await {
            Some(frame) if frame["data"].is_object() => seen.extend(frame["seq"].as_i64()),
            Some(_) => {}
            None => {
                let (cursor, epoch) = (socket.cursor, socket.epoch());
                socket = Socket::resume(&ada, cursor, &epoch).await;
            }
        }
    }
    assert!(
        seen.windows(2).all(|pair| pair[1] == pair[0] + 1),
        "{seen:?}"
    );
    server.terminate();
    assert!(server.exited().await.success());
    p.check(&acknowledged, None).await;
}

#[tokio::test]
async fn writes_are_rejected_while_postgres_is_down_and_resume_afterwards() {
    if !is_postgres() {
        return;
    }
    let (cluster, p) = on_own_cluster().await;
    let (_server, ada) = p.start(&[]).await;
    with(&cluster, Cluster::crash).await;
    let path = format!("/v1/threads/{}/messages", p.thread);
    let form = json!({"content": "hello", "client_id": "a"});
    let reply = ada.try_post(&path, form.clone()).await.unwrap();
    assert_eq!(reply.refused(503), "unavailable");
    let reply = ada.get("/v1/snapshot").await;
    assert_eq!(reply.refused(503), "unavailable");
    with(&cluster, Cluster::go_on).await;
    assert_eq!(send(&ada, &p.thread, "a", "hello").await, 201);
    assert_eq!(ada.post(&path, form).await.status, 200);
    assert_eq!(ada.contents(&p.thread).await, ["Root", "hello"]);
    let task = ada.ask(&p.thread, "@vibe hi").await;
    ada.completed(&task).await;
}

/// Checks whether a session holds the server lock.
async fn is_locked(c: &mut PgConnection) -> bool {
    sqlx::query_scalar("select exists (select 1 from pg_locks where locktype = 'advisory' and classid = 7310579 and granted)")
        .fetch_one(c)
        .await
        .unwrap()
}

#[tokio::test]
async fn after_a_restart_of_postgres_the_database_is_locked_again() {
    if !is_postgres() {
        return;
    }
    let (cluster, p) = on_own_cluster().await;
    let (_server, ada) = p.start(&[]).await;
    with(&cluster, Cluster::crash_and_restart).await;
    let mut c = PgConnection::connect(&cluster.url).await.unwrap();
    while !is_locked(&mut c).await {
        crate::support::pause().await;
    }
    let alone: bool = sqlx::query_scalar("select pg_try_advisory_lock(7310579, 1)")
        .fetch_one(&mut c)
        .await
        .unwrap();
    assert!(!alone, "a version that runs alone cannot take the database");
    assert_eq!(send(&ada, &p.thread, "a", "still here").await, 201);
}

#[tokio::test]
async fn a_server_exits_if_one_that_runs_alone_took_its_database() {
    if !is_postgres() {
        return;
    }
    let (cluster, p) = on_own_cluster().await;
    let (server, _ada) = p.start(&[]).await;
    // The server and this connection race for the lock, so this repeats until the connection gets it.
    let mut other = loop {
        with(&cluster, Cluster::crash_and_restart).await;
        let mut other = PgConnection::connect(&cluster.url).await.unwrap();
        let taken: bool = sqlx::query_scalar("select pg_try_advisory_lock(7310579, 1)")
            .fetch_one(&mut other)
            .await
            .unwrap();
        if taken {
            break other;
        }
    };
    assert_eq!(server.exited().await.code(), Some(1));
    assert!(is_locked(&mut other).await);
    other.close().await.unwrap();
    p.check(&[], None).await;
    let tasks = list(&p.start(&[]).await.1.get("/v1/tasks").await.ok(), "/data");
    assert!(tasks.is_empty());
}

#[tokio::test]
async fn metrics_are_available_while_the_database_is_down() {
    if !is_postgres() {
        return;
    }
    let (cluster, p) = on_own_cluster().await;
    let (server, ada) = p.start(&[]).await;
    let look = async |figure: &str| {
        let reply = ada.get("/metrics").await;
        assert_eq!(reply.status, 200);
        let line = reply.text.lines().find_map(|line| {
            let (series, value) = line.split_once(' ')?;
            (series == figure).then(|| value.to_owned())
        });
        line.unwrap_or_else(|| panic!("no {figure} in {}", reply.text))
    };
    assert_eq!(look("openvibe_db_up").await, "1");
    with(&cluster, Cluster::crash).await;
    assert_eq!(look("openvibe_db_up").await, "0");
    assert_eq!(look("openvibe_db_size_bytes").await, "NaN");
    assert_eq!(look("openvibe_db_write_queue").await, "0");
    with(&cluster, Cluster::go_on).await;
    within("the database to be back", async {
        while look("openvibe_db_up").await != "1" {}
    })
    .await;
    assert_ne!(look("openvibe_db_size_bytes").await, "NaN");
    server.kill().await;
}
