//! The server and the faults injected into it.

use std::{process::ExitStatus, sync::Arc, time::Duration};

use openvibe_sqlite::SqliteConnectOptions;
use rand::{Rng, SeedableRng, rngs::StdRng, seq::SliceRandom};
use serde_json::json;
use sqlx::ConnectOptions;

use super::{Deployment, Stage, say};
use crate::support::{Answer, Cluster, Disk, ModelServer, TestDatabase, TestProcess, drafting};

/// Faults injected into the server; times in milliseconds.
#[derive(Debug, Clone, Copy)]
pub(super) enum Trouble {
    /// Killed with `kill -9`.
    Kill,
    /// Killed, and killed again as soon as it has restarted.
    KillTwice,
    /// Crashes at the commit with this number after the start: before the commit, or after it but before any event is sent.
    Die(&'static str, u64),
    /// Shuts down gracefully.
    Terminate,
    /// Paused, possibly until leases expire.
    Stop(u64),
    /// The server's disk is full.
    Fill(u64),
    /// Killed while its disk is full, and started before space is freed.
    FillAndKill(u64),
    /// The database crashes and restarts.
    CrashDatabase,
    /// The database crashes, the server is killed, and both restart.
    CrashBoth,
}

/// Short enough for a paused server to lose leases.
const LEASE_MS: &str = "800";

pub(super) const SETTINGS: [(&str, &str); 6] = [
    ("RATE_LIMITS", "off"),
    ("SIGNUP", "open"),
    ("LEASE_MS", LEASE_MS),
    ("TASK_TIMEOUT", "1s"),
    ("TASKS_QUEUED_MAX", "50"),
    // The test disk is smaller than the space that is normally reserved.
    ("DISK_RESERVED_BYTES", "0"),
];

/// Failpoints at which a worker pauses until another one has taken over its task.
const PLACES: [&str; 12] = [
    "worker_claimed",
    "worker_renew",
    "turn_call",
    "turn_open",
    "turn_opened",
    "turn_save",
    "turn_complete",
    "turn_fail",
    "turn_wait",
    "model_text",
    "model_stop",
    "resolve_stored",
];

pub(super) struct Server {
    place: TestDatabase,
    model: ModelServer,
    /// Disk with the data, if the engine uses files and mounts are permitted.
    disk: Option<Disk>,
    /// `PostgreSQL` server with the data, if the suite runs on it.
    pub cluster: Option<Arc<Cluster>>,
    rng: StdRng,
    /// `None` only while the process is being replaced.
    process: Option<TestProcess>,
}

impl Server {
    pub async fn start(seed: u64, seconds: Option<u64>) -> Self {
        let mut place = TestDatabase::new().await;
        let (mut disk, mut cluster) = (None, None);
        if place.postgres.is_some() {
            let started = openvibe::blocking::blocking((), Cluster::start)
                .await
                .unwrap();
            place = TestDatabase::on(&started.url);
            cluster = Some(Arc::new(started));
        } else {
            // Far more than a round writes.
            let mib = 64 + seconds.unwrap_or(0);
            match Disk::new(&place.dir.join("data"), mib) {
                Ok(made) => disk = Some(made),
                Err(e) => say(&format!("left out, the disk is not filled: {e}")),
            }
        }
        let mut server = Self {
            place,
            model: ModelServer::start().await,
            disk,
            cluster,
            rng: StdRng::seed_from_u64(seed),
            process: None,
        };
        server.launch().await;
        server
    }

    /// Starts the server. In most cases, one of its workers pauses at a random failpoint for longer than its lease.
    async fn launch(&mut self) {
        let failpoint = pausing_worker(&mut self.rng);
        let launched = self.try_launch(&failpoint).await;
        launched.unwrap_or_else(|status| panic!("the server does not start: {status}"));
    }

    async fn try_launch(&mut self, failpoint: &str) -> Result<(), ExitStatus> {
        let mut settings = SETTINGS.to_vec();
        settings.push(("FAILPOINT", failpoint));
        let (place, model) = (&self.place, &self.model);
        let started = match &self.disk {
            Some(disk) => TestProcess::try_start_within(place, model, &settings, disk).await,
            None => TestProcess::try_start(place, model, &settings).await,
        };
        self.process = Some(started?);
        Ok(())
    }

    async fn with_cluster(&self, act: impl FnOnce(&Cluster) + Send + 'static) {
        let cluster = Arc::clone(self.cluster.as_ref().unwrap());
        openvibe::blocking::blocking((), move || act(&cluster))
            .await
            .unwrap();
    }

    async fn terminate(&mut self) {
        let process = self.process.take().unwrap();
        process.terminate();
        let status = process.exited().await;
        assert!(
            status.success(),
            "the server did not exit successfully: {status}"
        );
    }

    async fn kill(&mut self) {
        self.process.take().unwrap().kill().await;
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.place.dir.join("stderr.log")).unwrap()
    }
}

impl Deployment for Server {
    type Trouble = Trouble;

    fn bases(&self) -> Vec<String> {
        vec![self.process.as_ref().unwrap().base.clone()]
    }

    fn shuffled(&mut self) -> Vec<Trouble> {
        let ms = |rng: &mut StdRng| rng.random_range(20..2500);
        let mut all = vec![
            Trouble::Kill,
            Trouble::Kill,
            Trouble::KillTwice,
            Trouble::Die("before_commit", self.rng.random_range(1..40)),
            Trouble::Die("after_commit", self.rng.random_range(1..40)),
            Trouble::Terminate,
            Trouble::Stop(ms(&mut self.rng) / 4),
            Trouble::Stop(lease_ms() + ms(&mut self.rng) / 2),
        ];
        if self.disk.is_some() {
            all.push(Trouble::Fill(ms(&mut self.rng) / 4));
            all.push(Trouble::Fill(ms(&mut self.rng)));
            all.push(Trouble::FillAndKill(ms(&mut self.rng) / 4));
        }
        if self.cluster.is_some() {
            all.push(Trouble::CrashDatabase);
            all.push(Trouble::CrashDatabase);
            all.push(Trouble::CrashBoth);
        }
        all.shuffle(&mut self.rng);
        all
    }

    fn pause(&mut self) -> usize {
        script(&self.model, &mut self.rng)
    }

    async fn befall(&mut self, trouble: Trouble, stage: &Stage) {
        let ended = self.process.as_mut().unwrap().has_ended();
        assert_eq!(ended, None, "the server exited by itself: {}", self.log());
        match trouble {
            Trouble::Kill => self.kill().await,
            Trouble::KillTwice => {
                self.kill().await;
                self.launch().await;
                self.kill().await;
            }
            Trouble::Die(place, nth) => {
                self.kill().await;
                // The process may crash before it listens for connections.
                if self.try_launch(&format!("{place}:{nth}")).await.is_ok() {
                    stage.bases.send_replace(self.bases());
                    let status = self.process.take().unwrap().exited().await;
                    assert_eq!(status.code(), None, "{}", self.log());
                }
            }
            Trouble::Terminate => self.terminate().await,
            Trouble::Stop(ms) => {
                let process = self.process.as_ref().unwrap();
                process.signal("STOP");
                tokio::time::sleep(Duration::from_millis(ms)).await;
                process.signal("CONT");
            }
            Trouble::Fill(ms) => {
                let disk = self.disk.as_ref().unwrap();
                disk.fill();
                tokio::time::sleep(Duration::from_millis(ms)).await;
                disk.free();
            }
            Trouble::FillAndKill(ms) => {
                self.disk.as_ref().unwrap().fill();
                tokio::time::sleep(Duration::from_millis(ms)).await;
                self.kill().await;
                // The remaining disk space may be enough to start; if not, the server exits with an error.
                if let Err(status) = self.try_launch("").await {
                    assert_eq!(status.code(), Some(1), "{}", self.log());
                }
                self.disk.as_ref().unwrap().free();
            }
            Trouble::CrashDatabase => self.with_cluster(Cluster::crash_and_restart).await,
            Trouble::CrashBoth => {
                self.with_cluster(Cluster::crash).await;
                self.kill().await;
                self.with_cluster(Cluster::go_on).await;
            }
        }
        if self.process.is_none() {
            self.launch().await;
        }
        stage.bases.send_replace(self.bases());
    }

    async fn recover(&mut self, stage: &Stage) {
        self.model.forget();
        self.befall(Trouble::Terminate, stage).await;
    }

    async fn end(mut self) {
        self.terminate().await;
        let log = self.log();
        assert!(!log.contains("panicked"), "{log}");
        if self.cluster.is_some() {
            return;
        }
        // Checks a copy, because SQLite would confuse the original with the file at the same path in the server's mount namespace.
        let copy = self.place.dir.join("left.db");
        let data = self.place.dir.join("data");
        let file = match &self.disk {
            Some(disk) => disk.path("openvibe.db"),
            None => data.join("openvibe.db"),
        };
        std::fs::copy(file, &copy).unwrap();
        let options = SqliteConnectOptions::new().filename(copy);
        let mut c = options.connect().await.unwrap();
        let faults: Vec<String> = sqlx::query_scalar("pragma integrity_check")
            .fetch_all(&mut c)
            .await
            .unwrap();
        assert_eq!(faults, ["ok"]);
        let strays = sqlx::query("pragma foreign_key_check")
            .fetch_all(&mut c)
            .await
            .unwrap();
        assert_eq!(strays.len(), 0, "rows with broken references");
    }
}

fn lease_ms() -> u64 {
    LEASE_MS.parse().unwrap()
}

/// Returns a failpoint at which, in most cases, one worker pauses for longer than its lease.
pub(super) fn pausing_worker(rng: &mut StdRng) -> String {
    let place = PLACES.get(rng.random_range(0..PLACES.len() + 4));
    let nth = rng.random_range(1..4);
    let pause_ms = 2 * lease_ms();
    place.map_or(String::new(), |p| format!("{p}:{nth}:pause={pause_ms}"))
}

/// Returns the number of actions until the next fault, and scripts random model responses for that time.
pub(super) fn script(model: &ModelServer, rng: &mut StdRng) -> usize {
    model.forget();
    for speaker in ["vibe", "resolver", "summary"] {
        model.script(speaker, moods(rng));
    }
    rng.random_range(2..10_usize).pow(2)
}

/// Next responses of the model: normal, slow, rejected, or incomplete.
fn moods(rng: &mut StdRng) -> Vec<Answer> {
    (0..rng.random_range(0..10))
        .map(|n| match rng.random_range(0..16) {
            0 => Answer::status(503, "{}"),
            1 => Answer::status(429, "{}").header("retry-after", "0"),
            2 => Answer::status(400, "{}"),
            3 => Answer::status(500, "Oops"),
            4 => Answer::pieces_open(&["Half of "]).cut(),
            5 => Answer::pieces_open(&["Half of "]).silence(),
            6 => Answer::stream().silence(),
            7 => Answer::stream().raw("data: {\"choices\":\n\n"),
            8 => Answer::stream().end(),
            9 => Answer::status(200, "<html>"),
            10 => Answer::too_large(),
            11 | 12 => (0..20)
                .fold(Answer::stream(), |answer, n| {
                    let pause = Duration::from_millis(100);
                    answer.piece(&format!("{n}, slowly. ")).pause(pause)
                })
                .end(),
            13 => drafting(&json!({"headline": format!("Draft {n}"), "conclusion": "It is so."})),
            _ => Answer::pieces(&["In ", "pieces ", "👋"]),
        })
        .collect()
}
