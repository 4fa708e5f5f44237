//! A `PostgreSQL` server that is unreachable, locked, or short of connections. Not applicable to `SQLite`.

use std::{sync::Arc, time::Duration};

use chrono::{DateTime, Utc};
use serde_json::json;
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, UnixStream},
    sync::watch,
    task::JoinSet,
};

use crate::{
    faults::{Prepared, prepared_at},
    support::{Cluster, Person, TestDatabase, command, refusal, within},
};

fn is_postgres() -> bool {
    std::env::var("OPENVIBE_TEST_DATABASE").as_deref() == Ok("postgres")
}

async fn start_cluster(connections_max: Option<u32>) -> Arc<Cluster> {
    let start = move || match connections_max {
        Some(max) => Cluster::with_connections(max),
        None => Cluster::start(),
    };
    Arc::new(openvibe::blocking::blocking((), start).await.unwrap())
}

/// Connections of the proxy on which every byte is lost.
#[derive(Clone, Copy, Default)]
struct Lost {
    /// Connections with a lower number lose every byte.
    before: usize,
    /// All connections lose every byte.
    all: bool,
}

/// A network between the server and `PostgreSQL` that can drop packets silently.
struct Proxy {
    url: String,
    lost: watch::Sender<Lost>,
    opened: watch::Receiver<usize>,
    _accepting: JoinSet<()>,
}

impl Proxy {
    async fn start(cluster: &Cluster) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let socket = cluster.socket();
        let (lost, watched) = watch::channel(Lost::default());
        let (count, opened) = watch::channel(0);
        let mut accepting = JoinSet::new();
        accepting.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (client, _) = listener.accept().await.unwrap();
                let number = *count.borrow();
                count.send_replace(number + 1);
                let (socket, lost) = (socket.clone(), watched.clone());
                connections.spawn(async move {
                    let Ok(server) = UnixStream::connect(socket).await else {
                        return;
                    };
                    let (from_client, to_client) = client.into_split();
                    let (from_server, to_server) = server.into_split();
                    // If one direction ends, the other stays open, as if packets stopped arriving.
                    tokio::join!(
                        pump(from_client, to_server, number, &lost),
                        pump(from_server, to_client, number, &lost),
                    );
                });
            }
        });
        Self {
            url: format!("postgres://openvibe@127.0.0.1:{port}/postgres?sslmode=disable"),
            lost,
            opened,
            _accepting: accepting,
        }
    }

    /// From now on, open connections lose every byte; new ones work.
    fn lose_open(&self) {
        let before = *self.opened.borrow();
        self.lost.send_replace(Lost { before, all: false });
    }

    fn lose_all(&self) {
        let before = *self.opened.borrow();
        self.lost.send_replace(Lost { before, all: true });
    }

    /// New connections work again.
    fn recover(&self) {
        self.lose_open();
    }
}

async fn pump(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    number: usize,
    lost: &watch::Receiver<Lost>,
) {
    let mut bytes = vec![0; 16 * 1024];
    while let Ok(n @ 1..) = from.read(&mut bytes).await {
        let state = *lost.borrow();
        if (state.all || number < state.before) || to.write_all(&bytes[..n]).await.is_err() {
            // Data that arrives from now on is lost.
            while let Ok(1..) = from.read(&mut bytes).await {}
            std::future::pending::<()>().await;
        }
    }
}

async fn behind_proxy() -> (Arc<Cluster>, Proxy, Prepared) {
    let cluster = start_cluster(None).await;
    let proxy = Proxy::start(&cluster).await;
    let prepared = prepared_at(TestDatabase::on(&proxy.url)).await;
    (cluster, proxy, prepared)
}

async fn post(who: &Person, p: &Prepared, client_id: &str) -> u16 {
    let path = format!("/v1/threads/{}/messages", p.thread);
    let form = json!({"content": client_id, "client_id": client_id});
    within("an answer", who.post(&path, form)).await.status
}

/// Polls `/readyz` until it responds with this status.
async fn ready(who: &Person, status: u16) {
    let asked = async {
        while who.get("/readyz").await.status != status {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    within("/readyz to change", asked).await;
}

#[tokio::test]
async fn dead_connections_are_replaced() {
    if !is_postgres() {
        return;
    }
    let (_cluster, proxy, p) = behind_proxy().await;
    let (_server, ada) = p.start(&[("RATE_LIMITS", "off")]).await;
    assert_eq!(post(&ada, &p, "before").await, 201);
    for round in 0..2 {
        proxy.lose_open();
        let mut requests = JoinSet::new();
        for _ in 0..8 {
            let ada = ada.clone();
            requests.spawn(async move { ada.get("/v1/channels").await.status });
        }
        assert_eq!(post(&ada, &p, &format!("after {round}")).await, 201);
        while let Some(status) = within("a read", requests.join_next()).await {
            assert_eq!(status.unwrap(), 200);
        }
        ready(&ada, 200).await;
    }
    assert_eq!(
        ada.contents(&p.thread).await,
        ["Root", "before", "after 0", "after 1"]
    );
}

/// Tables, and requests that wait for a lock on them: `sessions` in a single read, and `channels` in the middle of a snapshot.
const WAITING: [(&str, &str); 2] = [("sessions", "/v1/channels"), ("channels", "/v1/snapshot")];

/// Starts a read that waits for a lock on a table; returns it and the session that holds the lock.
async fn waiting_read(
    cluster: &Cluster,
    ada: &Person,
    (table, path): (&str, &'static str),
) -> (JoinSet<u16>, PgConnection) {
    let mut other = PgConnection::connect(&cluster.url).await.unwrap();
    let lock = format!("begin; lock table {table} in access exclusive mode");
    sqlx::raw_sql(AssertSqlSafe(lock))
        .execute(&mut other)
        .await
        .unwrap();
    let (mut reading, ada) = (JoinSet::new(), ada.clone());
    reading.spawn(async move { ada.get(path).await.status });
    within("a read that waits", async {
        let sql =
            "select exists (select 1 from pg_locks where not granted and mode = 'AccessShareLock')";
        while !sqlx::query_scalar::<_, bool>(sql)
            .fetch_one(&mut other)
            .await
            .unwrap()
        {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    (reading, other)
}

#[tokio::test]
async fn a_read_whose_connection_dies_is_repeated() {
    if !is_postgres() {
        return;
    }
    let (cluster, proxy, p) = behind_proxy().await;
    let (_server, ada) = p.start(&[("RATE_LIMITS", "off")]).await;
    for waiting in WAITING {
        let (mut reading, mut other) = waiting_read(&cluster, &ada, waiting).await;
        // The result of the read is lost.
        proxy.lose_open();
        other.execute("rollback").await.unwrap();
        ada.get("/v1/workspaces").await.is(200);
        let status = within("the read", reading.join_next()).await;
        assert_eq!(status.unwrap().unwrap(), 200, "{waiting:?}");
    }
}

/// Server sessions that wait for a lock: process ID and connection time.
async fn waiting_sessions(c: &mut PgConnection) -> Vec<(i32, DateTime<Utc>)> {
    sqlx::query_as(
        "select pid, backend_start from pg_stat_activity join pg_locks using (pid) where not granted",
    )
    .fetch_all(c)
    .await
    .unwrap()
}

#[tokio::test]
async fn a_read_is_repeated_on_a_connection_that_is_newer_than_the_loss() {
    if !is_postgres() {
        return;
    }
    let cluster = start_cluster(None).await;
    let p = prepared_at(TestDatabase::on(&cluster.url)).await;
    let (_server, ada) = p.start(&[("RATE_LIMITS", "off")]).await;
    for waiting in WAITING {
        let (mut reading, mut other) = waiting_read(&cluster, &ada, waiting).await;
        let mut watching = PgConnection::connect(&cluster.url).await.unwrap();
        let lost_at: DateTime<Utc> = sqlx::query_scalar("select clock_timestamp()")
            .fetch_one(&mut watching)
            .await
            .unwrap();
        for (pid, _) in waiting_sessions(&mut watching).await {
            let end = sqlx::query("select pg_terminate_backend($1)").bind(pid);
            end.execute(&mut watching).await.unwrap();
        }
        within("the repeated read", async {
            loop {
                let waiting = waiting_sessions(&mut watching).await;
                if waiting.iter().any(|(_, opened_at)| *opened_at > lost_at) {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await;
        other.execute("rollback").await.unwrap();
        let status = within("the read", reading.join_next()).await;
        assert_eq!(status.unwrap().unwrap(), 200, "{waiting:?}");
    }
}

#[tokio::test]
async fn a_read_outlives_a_crash_of_postgres() {
    if !is_postgres() {
        return;
    }
    let cluster = start_cluster(None).await;
    let p = prepared_at(TestDatabase::on(&cluster.url)).await;
    let (_server, ada) = p.start(&[("RATE_LIMITS", "off")]).await;
    for waiting in WAITING {
        let (mut reading, _other) = waiting_read(&cluster, &ada, waiting).await;
        let again = Arc::clone(&cluster);
        openvibe::blocking::blocking((), move || again.crash_and_restart())
            .await
            .unwrap();
        let status = within("the read", reading.join_next()).await;
        assert_eq!(status.unwrap().unwrap(), 200, "{waiting:?}");
    }
}

#[tokio::test]
async fn readyz_and_posts_report_an_unreachable_database() {
    if !is_postgres() {
        return;
    }
    let (_cluster, proxy, p) = behind_proxy().await;
    let (_server, ada) = p.start(&[]).await;
    assert_eq!(post(&ada, &p, "before").await, 201);
    ready(&ada, 200).await;
    proxy.lose_all();
    ready(&ada, 503).await;
    assert_eq!(post(&ada, &p, "meanwhile").await, 503);
    proxy.recover();
    ready(&ada, 200).await;
    assert_eq!(post(&ada, &p, "meanwhile").await, 201);
    assert_eq!(
        ada.contents(&p.thread).await,
        ["Root", "before", "meanwhile"]
    );
}

#[tokio::test]
async fn a_lock_of_another_session_results_in_503() {
    if !is_postgres() {
        return;
    }
    let cluster = start_cluster(None).await;
    let p = prepared_at(TestDatabase::on(&cluster.url)).await;
    let (_server, ada) = p.start(&[]).await;
    let mut other = PgConnection::connect(&cluster.url).await.unwrap();
    other
        .execute("begin; lock table messages in share mode")
        .await
        .unwrap();
    assert_eq!(post(&ada, &p, "meanwhile").await, 503);
    ada.get("/v1/channels").await.ok();
    other.execute("rollback").await.unwrap();
    assert_eq!(post(&ada, &p, "meanwhile").await, 201);
    assert_eq!(ada.contents(&p.thread).await, ["Root", "meanwhile"]);
}

#[tokio::test]
async fn writers_get_the_last_connections() {
    if !is_postgres() {
        return;
    }
    let cluster = start_cluster(Some(10)).await;
    let p = prepared_at(TestDatabase::on(&cluster.url)).await;
    let (_server, ada) = p.start(&[("RATE_LIMITS", "off")]).await;
    for round in 0..2 {
        let mut reading = JoinSet::new();
        for _ in 0..16 {
            let ada = ada.clone();
            reading.spawn(async move { ada.get("/v1/snapshot").await.status });
        }
        for n in 0..8 {
            assert_eq!(post(&ada, &p, &format!("{round}-{n}")).await, 201);
        }
        while let Some(status) = within("a read", reading.join_next()).await {
            assert!(matches!(status.unwrap(), 200 | 503));
        }
        ready(&ada, 200).await;
        let again = Arc::clone(&cluster);
        openvibe::blocking::blocking((), move || again.crash_and_restart())
            .await
            .unwrap();
        // Readers and writers now reconnect at the same time.
        ready(&ada, 200).await;
    }
}

/// Sessions of another role; the server's own role can see only some of their details.
async fn other_sessions(cluster: &Cluster, count: usize) -> Vec<PgConnection> {
    let mut sessions = Vec::new();
    for _ in 0..count {
        sessions.push(PgConnection::connect(&cluster.url).await.unwrap());
    }
    sessions
}

#[tokio::test]
async fn nine_connections_are_enough_and_fewer_are_reported() {
    if !is_postgres() {
        return;
    }
    // Three connections for superusers, three for other sessions, and nine for the server.
    let cluster = start_cluster(Some(3 + 3 + 9)).await;
    let mut others = other_sessions(&cluster, 3).await;
    for sql in [
        "create role vibe login nosuperuser",
        "create database vibe owner vibe",
    ] {
        others[0].execute(sql).await.unwrap();
    }
    let url = cluster
        .url
        .replace("//openvibe@localhost/postgres?", "//vibe@localhost/vibe?");
    let p = prepared_at(TestDatabase::on(&url)).await;
    let gone = async |observer: &mut PgConnection| {
        let sql = "select count(*) from pg_stat_activity where usename = 'vibe'";
        within("the sessions of a killed server to end", async {
            while sqlx::query_scalar::<_, i64>(sql)
                .fetch_one(&mut *observer)
                .await
                .unwrap()
                > 0
            {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await;
    };
    gone(&mut others[0]).await;
    let (server, ada) = p.start(&[("RATE_LIMITS", "off")]).await;
    assert_eq!(post(&ada, &p, "nine").await, 201);
    ada.get("/v1/snapshot").await.is(200);
    server.kill().await;
    gone(&mut others[0]).await;
    others.extend(other_sessions(&cluster, 1).await);
    let refused = command(&p.place, &p.model, &[]);
    let said = openvibe::blocking::blocking((), move || refusal(&refused))
        .await
        .unwrap();
    assert!(said.contains("at least 9"), "{said}");
}
