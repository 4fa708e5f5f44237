//! The server, and what befalls it.

use std::{process::ExitStatus, sync::Arc, time::Duration};

use rand::{Rng, SeedableRng, rngs::StdRng, seq::SliceRandom};
use serde_json::json;
use sqlx::{ConnectOptions, sqlite::SqliteConnectOptions};

use super::{Stage, say};
use crate::support::{Answer, Cluster, Disk, ModelServer, TestDatabase, TestProcess, drafting};

/// Faults injected into the server; times in milliseconds.
#[derive(Debug, Clone, Copy)]
pub(super) enum Trouble {
    /// `kill -9`
    Kill,
    /// Killed, and once more as soon as it is there again.
    KillTwice,
    /// It dies by itself, at that commit after its start: before it, or before anyone is told of it.
    Die(&'static str, u64),
    /// Ended in order.
    Terminate,
    /// It stands still, perhaps until leases have run out.
    Stop(u64),
    /// Its disk is full.
    Fill(u64),
    /// It is killed while its disk is full, and started before there is space again.
    FillAndKill(u64),
    /// Its database dies and comes back.
    CrashDatabase,
    /// Its database dies, it is killed, both come back.
    CrashBoth,
}

/// So short that a server which stands still loses some.
const LEASE_MS: &str = "800";

const SETTINGS: [(&str, &str); 6] = [
    ("RATE_LIMITS", "off"),
    ("SIGNUP", "open"),
    ("LEASE_MS", LEASE_MS),
    ("TASK_TIMEOUT", "1s"),
    ("TASKS_QUEUED_MAX", "50"),
    // Its disk is smaller than what a real one keeps free.
    ("DISK_RESERVED_BYTES", "0"),
];

/// Where workers stand still until others have taken their tasks.
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
    /// What the data is on, where the engine has files and mounts are permitted.
    disk: Option<Disk>,
    /// What the data is in, where the engine is one.
    pub cluster: Option<Arc<Cluster>>,
    rng: StdRng,
    /// `None` only while it is changed for another.
    process: Option<TestProcess>,
}

impl Server {
    pub async fn start(seed: u64, seconds: Option<u64>) -> Self {
        let mut place = TestDatabase::new().await;
        let (mut disk, mut cluster) = (None, None);
        if place.postgres.is_some() {
            let started = tokio::task::spawn_blocking(Cluster::start).await.unwrap();
            place = TestDatabase::on(&started.url).await;
            cluster = Some(Arc::new(started));
        } else {
            // Far more than is written in that time.
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

    pub fn base(&self) -> String {
        self.process.as_ref().unwrap().base.clone()
    }

    /// Each trouble that there can be here at least once, in any order.
    pub fn shuffled(&mut self) -> Vec<Trouble> {
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

    /// So many acts pass until the next trouble; meanwhile the model answers as it likes.
    pub fn pause(&mut self) -> usize {
        self.model.forget();
        for speaker in ["vibe", "resolver", "summary"] {
            let moods = moods(&mut self.rng);
            self.model.script(speaker, moods);
        }
        self.rng.random_range(2..10_usize).pow(2)
    }

    /// Starts it. In most cases one worker is to stand still for longer than its lease, somewhere.
    async fn launch(&mut self) {
        let place = PLACES.get(self.rng.random_range(0..PLACES.len() + 4));
        let nth = self.rng.random_range(1..4);
        let pause_ms = 2 * lease_ms();
        let place = place.map_or(String::new(), |p| format!("{p}:{nth}:pause={pause_ms}"));
        let launched = self.try_launch(&place).await;
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
        tokio::task::spawn_blocking(move || act(&cluster))
            .await
            .unwrap();
    }

    async fn terminate(&mut self) {
        let process = self.process.take().unwrap();
        process.terminate();
        let status = process.exited().await;
        assert!(status.success(), "the server did not end well: {status}");
    }

    async fn kill(&mut self) {
        self.process.take().unwrap().kill().await;
    }

    /// Does it, and leaves a server that runs.
    pub async fn befall(&mut self, trouble: Trouble, stage: &Stage) {
        let ended = self.process.as_mut().unwrap().has_ended();
        assert_eq!(ended, None, "the server ended by itself: {}", self.log());
        match trouble {
            Trouble::Kill => self.kill().await,
            Trouble::KillTwice => {
                self.kill().await;
                self.launch().await;
                self.kill().await;
            }
            Trouble::Die(place, nth) => {
                self.kill().await;
                // It may not come as far as to listen.
                if self.try_launch(&format!("{place}:{nth}")).await.is_ok() {
                    stage.base.send_replace(self.base());
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
                // What was left of the disk may do for a start; if not, it says so.
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
        stage.base.send_replace(self.base());
    }

    /// The end of all troubles.
    pub async fn recover(&mut self, stage: &Stage) {
        self.model.forget();
        self.befall(Trouble::Terminate, stage).await;
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.place.dir.join("stderr.log")).unwrap()
    }

    /// Ends the server and looks at what it leaves.
    pub async fn end(mut self) {
        self.terminate().await;
        let log = self.log();
        assert!(!log.contains("panicked"), "{log}");
        if self.cluster.is_some() {
            return;
        }
        // A copy, because SQLite takes the path of the other view for one of its own.
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
        assert_eq!(strays.len(), 0, "rows that refer to nothing");
    }
}

fn lease_ms() -> u64 {
    LEASE_MS.parse().unwrap()
}

/// How the model answers next: well, late, with refusals, or not to the end.
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
