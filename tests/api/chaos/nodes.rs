//! Several nodes on one `PostgreSQL` database, and the faults injected into them, their connections, and the services that they
//! share. At most one fault is active at a time. Not applicable to `SQLite`.

use std::{
    path::PathBuf,
    process::ExitStatus,
    sync::Arc,
    time::{Duration, Instant},
};

use rand::{Rng, SeedableRng, rngs::StdRng, seq::SliceRandom};
use reqwest::Method;
use serde_json::json;
use sqlx::{Connection, Executor, PgConnection};

use super::{
    Deployment, Round, Stage, check, say,
    server::{SETTINGS, pausing_worker, script},
};
use crate::{
    property::Client,
    support::{
        Cluster, ModelServer, NatsServer, Person, Relay, SECRET_KEY, Socket, Target, TestDatabase,
        TestProcess, id, is_shared_engine, setting, text, visitor, within,
    },
};

/// Faults, with times in milliseconds. Faults of a single node affect a random one.
#[derive(Debug, Clone, Copy)]
pub(super) enum Trouble {
    /// Killed with `kill -9`.
    Kill,
    /// Crashes at the commit with this number after the start: before the commit, or after it but before any event is sent.
    Die(&'static str, u64),
    /// Shuts down gracefully.
    Terminate,
    /// Paused until its tasks run elsewhere; in a long round, until the other nodes consider it lost.
    Stop(u64),
    /// The NATS server is stopped.
    StopNats(u64),
    /// A node has no connection to NATS.
    CutNats(u64),
    /// A node receives no notifications from `PostgreSQL`, although its connection seems to be open.
    StallNotifications(u64),
    /// A node has no connection to the database.
    CutDatabase(u64),
    /// A node's connections to the database are stalled, but seem to be open.
    StallDatabase(u64),
    /// The database crashes and restarts.
    CrashDatabase,
    /// The database crashes, and a synchronous standby takes its place.
    Promote,
}

/// Maximum time until another node writes while one is frozen: three times the limit in the specification, because machines can be
/// slow.
const OTHERS_WRITE_WITHIN: Duration = Duration::from_secs(15);
/// Maximum delay of events while a bus fails: about three times the polling interval and the limit in the specification.
const LATE_MAX: Duration = Duration::from_secs(5);
/// Time for which a node without its database keeps its sockets.
const SOCKETS_KEPT: Duration = Duration::from_secs(30);

struct Node {
    name: String,
    data: PathBuf,
    database: Relay,
    nats: Option<Relay>,
    /// `None` only while the process is being replaced.
    process: Option<TestProcess>,
    /// The node's newest address.
    base: String,
}

/// Counts and times measured in a round.
#[derive(Default)]
struct Tally {
    kills: usize,
    others: usize,
    /// Longest time until another node wrote while one was frozen.
    frozen: Duration,
    /// Longest delay of an event while a bus failed.
    late: Duration,
}

pub(super) struct Nodes {
    nodes: Vec<Node>,
    place: TestDatabase,
    model: ModelServer,
    database: Arc<Cluster>,
    nats: Option<NatsServer>,
    rng: StdRng,
    is_long: bool,
    probes: usize,
    tally: Tally,
}

impl Nodes {
    async fn start(count: usize, nats: Option<NatsServer>, round: &Round) -> Self {
        let database = openvibe::blocking::blocking((), Cluster::start)
            .await
            .unwrap();
        let place = TestDatabase::on(&database.url);
        let mut nodes = Vec::new();
        for n in 0..count {
            let name = format!("node-{n}");
            let data = place.dir.join(&name);
            std::fs::create_dir_all(&data).unwrap();
            let relay = match &nats {
                Some(nats) => {
                    let target = Target::Tcp(format!("127.0.0.1:{}", nats.port));
                    Some(Relay::to(target).await)
                }
                None => None,
            };
            nodes.push(Node {
                name,
                data,
                database: Relay::to(Target::Unix(database.socket())).await,
                nats: relay,
                process: None,
                base: String::new(),
            });
        }
        let mut all = Self {
            nodes,
            place,
            model: ModelServer::start().await,
            database: Arc::new(database),
            nats,
            rng: StdRng::seed_from_u64(round.seed),
            is_long: round.seconds.is_some_and(|seconds| seconds > 0),
            probes: 0,
            tally: Tally::default(),
        };
        for n in 0..count {
            all.launch(n).await;
        }
        all
    }

    /// Starts a node. In most cases, one of its workers pauses for longer than its lease.
    async fn launch(&mut self, n: usize) {
        let failpoint = pausing_worker(&mut self.rng);
        let launched = self.try_launch(n, &failpoint).await;
        launched.unwrap_or_else(|status| panic!("a node does not start: {status}"));
        self.is_ready(n).await;
    }

    async fn try_launch(&mut self, n: usize, failpoint: &str) -> Result<(), ExitStatus> {
        let node = &mut self.nodes[n];
        let database = format!("postgres://openvibe@{}/postgres", node.database.address);
        let nats = node.nats.as_ref();
        let nats = nats.map_or(String::new(), |nats| format!("nats://{}", nats.address));
        let mut settings = SETTINGS.to_vec();
        settings.extend([
            ("FAILPOINT", failpoint),
            ("NODE_NAME", &node.name),
            ("DATA_DIR", node.data.to_str().unwrap()),
            ("DATABASE_URL", &database),
            ("DATABASE_FAILOVER", "lossless"),
            ("NATS_URL", &nats),
            ("SECRET_KEY", SECRET_KEY),
            ("DRAIN", "200ms"),
            // After its worker is killed, a reply can wait up to 20 s for its compaction, which is too long for a short round.
            ("COMPACTION", if self.is_long { "on" } else { "off" }),
        ]);
        let process = TestProcess::try_start(&self.place, &self.model, &settings).await?;
        node.base.clone_from(&process.base);
        node.process = Some(process);
        Ok(())
    }

    /// Waits until a node can serve clients.
    async fn is_ready(&self, n: usize) {
        let node = visitor(&self.nodes[n].base);
        let ready = async {
            while status(&node, "/readyz").await != Some(200) {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        within("a node to be ready", ready).await;
    }

    async fn kill(&mut self, n: usize) {
        self.nodes[n].process.take().unwrap().kill().await;
    }

    async fn terminate(&mut self, n: usize) {
        let process = self.nodes[n].process.take().unwrap();
        process.terminate();
        let status = process.exited().await;
        assert!(
            status.success(),
            "a node did not exit successfully: {status}"
        );
    }

    async fn with_database<T: Send + 'static>(
        &self,
        act: impl FnOnce(&Cluster) -> T + Send + 'static,
    ) -> T {
        let database = Arc::clone(&self.database);
        let done = openvibe::blocking::blocking((), move || act(&database)).await;
        done.unwrap()
    }

    /// Any other node.
    fn beside(&mut self, n: usize) -> usize {
        (n + self.rng.random_range(1..self.nodes.len())) % self.nodes.len()
    }

    /// Time until another node stores a message.
    async fn write_beside(&mut self, n: usize, stage: &Stage) -> Duration {
        let other = self.beside(n);
        let observer = stage.observer.at(&self.nodes[other].base);
        self.probes += 1;
        let client_id = format!("probe-{}", self.probes);
        let form = json!({"content": client_id, "client_id": client_id});
        let path = format!("/v1/threads/{}/messages", stage.threads[0].0);
        let began = Instant::now();
        let stored = async {
            while !matches!(observer.try_post(&path, form.clone()).await, Some(reply) if reply.status < 300)
            {
            }
        };
        within("another node to write", stored).await;
        began.elapsed()
    }

    /// Checks that clients do not notice a fault of a node's bus: every request succeeds immediately, and events of
    /// other nodes arrive almost as usual.
    async fn is_unnoticed(&mut self, n: usize, ms: u64, stage: &Stage) {
        let (began, again) = (Instant::now(), *stage.again.borrow());
        let there = stage.observer.at(&self.nodes[n].base);
        let mut socket = Socket::open(&there, json!({})).await;
        while began.elapsed() < Duration::from_millis(ms) {
            let other = self.beside(n);
            let observer = stage.observer.at(&self.nodes[other].base);
            self.probes += 1;
            let content = format!("probe {}", self.probes);
            observer.say(&stage.threads[0].0, &content).await;
            let said = Instant::now();
            socket
                .until("an event of another node", |frame| {
                    frame["data"]["message"]["content"] == content.as_str()
                })
                .await;
            self.tally.late = self.tally.late.max(said.elapsed());
            // The server would disconnect a client that sends nothing.
            socket.settle().await;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        assert_eq!(*stage.again.borrow(), again, "clients noticed a fault");
        assert!(self.tally.late < LATE_MAX, "{:?} late", self.tally.late);
    }

    /// Checks that a node without its database is not ready, keeps its sockets open for a while, and has its tasks completed by other
    /// nodes.
    async fn lives_without_database(&mut self, n: usize, ms: u64, stage: &Stage) {
        let other = self.beside(n);
        let observer = stage.observer.at(&self.nodes[other].base);
        let here = stage.observer.at(&self.nodes[n].base);
        let snapshot = here.get("/v1/snapshot").await.ok();
        let mut client = Client::new(&here, &snapshot);
        client.messages = check::messages(&here, &stage.general).await.0;
        client.try_resume().await.unwrap();
        // Waits until the socket is live, because one that is still catching up closes as soon as a read fails.
        let ping = json!({"type": "ping", "id": "p"});
        let live = client.request(ping.clone(), |f| f["id"] == "p").await;
        assert!(live.is_some());
        let began = Instant::now();
        self.nodes[n].database.cut();
        let running = observer.every("/v1/tasks?status=running").await;
        let unready = async {
            while status(&here, "/readyz").await != Some(503) {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        within("the node to be unready", unready).await;
        while client
            .request(ping.clone(), |f| f["id"] == "p")
            .await
            .is_some()
        {
            assert!(
                began.elapsed() < Duration::from_millis(ms),
                "a socket is kept"
            );
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        let kept = began.elapsed();
        assert!(kept + Duration::from_secs(6) > SOCKETS_KEPT, "{kept:?}");
        for task in running {
            observer.ended(&id(&task)).await;
        }
        tokio::time::sleep(Duration::from_millis(ms).saturating_sub(began.elapsed())).await;
    }

    /// Replaces the database with a standby that has every commit; checks that the epoch does not change, so that clients can resume.
    async fn promote(&mut self, stage: &Stage) {
        let epoch = epoch(&stage.observer.at(&self.nodes[0].base)).await;
        let standby = Arc::new(self.with_database(Cluster::standby).await);
        let mut c = PgConnection::connect(&self.database.url).await.unwrap();
        for sql in [
            "alter system set synchronous_standby_names = '*'",
            "select pg_reload_conf()",
        ] {
            c.execute(sql).await.unwrap();
        }
        // Renewing a lease records the standby, but the renewal's commit does not wait for it, so this waits until the standby has
        // the record.
        let mut c = PgConnection::connect(&standby.url).await.unwrap();
        let recorded =
            "select exists (select 1 from meta where key = 'synchronous_standbys' and value <> '')";
        within("the nodes to record the standby", async {
            while !sqlx::query_scalar::<_, bool>(recorded)
                .fetch_one(&mut c)
                .await
                .unwrap()
            {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        })
        .await;
        drop(c);
        self.with_database(Cluster::crash).await;
        self.database = standby;
        for node in &self.nodes {
            node.database.point_to(Target::Unix(self.database.socket()));
        }
        self.with_database(Cluster::promote).await;
        for n in 0..self.nodes.len() {
            self.is_ready(n).await;
        }
        let kept = self::epoch(&stage.observer.at(&self.nodes[0].base)).await;
        assert_eq!(kept, epoch, "nothing was lost");
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.place.dir.join("stderr.log")).unwrap()
    }
}

async fn status(who: &Person, path: &str) -> Option<u16> {
    let reply = who.try_send(Method::GET, path, &[], None).await;
    reply.map(|reply| reply.status)
}

async fn epoch(who: &Person) -> String {
    text(&who.get("/v1/snapshot").await.ok(), "/epoch")
}

impl Deployment for Nodes {
    type Trouble = Trouble;

    fn bases(&self) -> Vec<String> {
        self.nodes.iter().map(|node| node.base.clone()).collect()
    }

    fn shuffled(&mut self) -> Vec<Trouble> {
        let ms = |short, long| if self.is_long { long } else { short };
        let kills = if self.is_long { 25 } else { 3 };
        let mut all = vec![Trouble::Kill; kills];
        all.extend([
            Trouble::Stop(ms(2_000, 20_000)),
            Trouble::StallNotifications(ms(1_500, 20_000)),
            Trouble::CutDatabase(ms(2_000, 45_000)),
        ]);
        let commit = self.rng.random_range(1..20);
        let point = ["before_commit", "after_commit"];
        let point = point[self.rng.random_range(0..2)];
        all.push(Trouble::Die(point, commit));
        if self.nats.is_some() {
            all.extend([
                Trouble::StopNats(ms(2_000, 60_000)),
                Trouble::CutNats(ms(1_500, 15_000)),
            ]);
        }
        if self.is_long {
            all.extend([
                Trouble::Terminate,
                Trouble::StallDatabase(15_000),
                Trouble::CrashDatabase,
                Trouble::Promote,
            ]);
        }
        all.shuffle(&mut self.rng);
        all
    }

    fn pause(&mut self) -> usize {
        script(&self.model, &mut self.rng)
    }

    async fn befall(&mut self, trouble: Trouble, stage: &Stage) {
        for node in &mut self.nodes {
            let ended = node.process.as_mut().unwrap().has_ended();
            assert_eq!(ended, None, "{} exited by itself", node.name);
        }
        if matches!(
            trouble,
            Trouble::StopNats(_) | Trouble::CutNats(_) | Trouble::StallNotifications(_)
        ) {
            // Waits until no client is affected by an earlier fault any more.
            stage.everyone_acts().await;
        }
        let n = self.rng.random_range(0..self.nodes.len());
        match trouble {
            Trouble::Kill => self.kill(n).await,
            Trouble::Die(point, nth) => {
                self.kill(n).await;
                // The process may crash before it listens for connections.
                if self.try_launch(n, &format!("{point}:{nth}")).await.is_ok() {
                    stage.bases.send_replace(self.bases());
                    let status = self.nodes[n].process.take().unwrap().exited().await;
                    assert_eq!(status.code(), None, "{}", self.log());
                }
            }
            Trouble::Terminate => self.terminate(n).await,
            Trouble::Stop(ms) => {
                let began = Instant::now();
                self.nodes[n].process.as_ref().unwrap().signal("STOP");
                let frozen = self.write_beside(n, stage).await;
                assert!(frozen < OTHERS_WRITE_WITHIN, "{frozen:?}");
                self.tally.frozen = self.tally.frozen.max(frozen);
                tokio::time::sleep(Duration::from_millis(ms).saturating_sub(began.elapsed())).await;
                self.nodes[n].process.as_ref().unwrap().signal("CONT");
            }
            Trouble::StopNats(ms) => {
                self.nats.as_mut().unwrap().stop();
                self.is_unnoticed(n, ms, stage).await;
                self.nats.as_mut().unwrap().go_on().await;
            }
            Trouble::CutNats(ms) => {
                self.nodes[n].nats.as_ref().unwrap().cut();
                self.is_unnoticed(n, ms, stage).await;
                self.nodes[n].nats.as_ref().unwrap().mend();
            }
            Trouble::StallNotifications(ms) => {
                self.nodes[n].database.stall_notifications();
                self.is_unnoticed(n, ms, stage).await;
                self.nodes[n].database.mend();
            }
            Trouble::CutDatabase(ms) => {
                if Duration::from_millis(ms) > SOCKETS_KEPT {
                    self.lives_without_database(n, ms, stage).await;
                } else {
                    self.nodes[n].database.cut();
                    tokio::time::sleep(Duration::from_millis(ms)).await;
                }
                self.nodes[n].database.mend();
            }
            Trouble::StallDatabase(ms) => {
                self.nodes[n].database.stall();
                tokio::time::sleep(Duration::from_millis(ms)).await;
                self.nodes[n].database.mend();
            }
            Trouble::CrashDatabase => self.with_database(Cluster::crash_and_restart).await,
            Trouble::Promote => self.promote(stage).await,
        }
        if matches!(trouble, Trouble::Kill | Trouble::Die(..)) {
            self.tally.kills += 1;
        } else {
            self.tally.others += 1;
        }
        if self.nodes[n].process.is_none() {
            self.launch(n).await;
        }
        stage.bases.send_replace(self.bases());
        self.is_ready(n).await;
    }

    async fn recover(&mut self, _stage: &Stage) {
        self.model.forget();
        for n in 0..self.nodes.len() {
            self.is_ready(n).await;
        }
        let Tally {
            kills,
            others,
            frozen,
            late,
        } = self.tally;
        say(&format!(
            "{kills} kills, {others} other faults; others wrote within {frozen:.1?} beside a frozen node, and events were at most \
             {late:.1?} late"
        ));
    }

    async fn end(mut self) {
        for n in 0..self.nodes.len() {
            self.terminate(n).await;
        }
        let log = self.log();
        assert!(!log.contains("panicked"), "{log}");
    }
}

async fn run(name: &str, count: usize, nats: Option<NatsServer>) {
    let round = Round::new();
    let count = setting("OPENVIBE_TEST_CHAOS_NODES").unwrap_or(count).max(2);
    let nodes = Nodes::start(count, nats, &round).await;
    let name = format!("{count} nodes over {name}");
    round.run(nodes, &name, &format!("NODES={count}")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_writes_survive_chaos_on_nodes_over_notify() {
    if is_shared_engine() {
        run("NOTIFY", 2, None).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_writes_survive_chaos_on_nodes_over_nats() {
    if is_shared_engine() {
        run("NATS", 3, Some(NatsServer::start().await)).await;
    }
}
