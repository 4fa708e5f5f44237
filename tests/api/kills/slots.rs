//! Three processes fire the same slots and crash at random points; one has a clock that is a second ahead.
//!
//! A server locks its database, so these processes run only the job: each of them runs this test program with a single test.

use std::{
    collections::HashSet,
    io::Read,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::Duration,
};

use chrono::DateTime;
use openvibe::{
    db::{Conn, DatabaseUrl, Db, DbError, now},
    ids::ScheduleId,
    schedules,
    time::Timestamp,
};
use rand::{Rng, rngs::StdRng};
use serde_json::json;
use tokio::sync::oneshot::{self, error::TryRecvError};
use uuid::Uuid;

use super::{POLL, kills, note, seeded};
use crate::{
    schedules::{created, in_channel},
    support::{TestDatabase, team_with, within},
};

/// Test that each process runs, and the environment variable with its database.
const PROCESS: &str = "kills::slots::a_process_fires_slots_until_its_test_ends";
const DATABASE: &str = "OPENVIBE_TEST_SLOTS_DATABASE";
const PROCESSES: usize = 3;
/// Index of the process whose clock is ahead.
const AHEAD: usize = 2;
const SCHEDULES_OF_PERSON: usize = 10;

fn url_of(place: &TestDatabase) -> String {
    let file = place.dir.join("data").join("openvibe.db");
    let file = format!("sqlite://{}", file.display());
    place.postgres.clone().unwrap_or(file)
}

async fn open(url: &str) -> Db {
    let place = DatabaseUrl::parse(url).unwrap();
    Db::open(&place, Arc::new(|_| {})).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a process of the test below"]
async fn a_process_fires_slots_until_its_test_ends() {
    let Ok(url) = std::env::var(DATABASE) else {
        return;
    };
    let (send, mut test) = oneshot::channel::<()>();
    std::thread::spawn(move || {
        // Blocks until the test that started this process ends.
        drop(std::io::stdin().read(&mut [0]));
        drop(send);
    });
    let db = open(&url).await;
    while matches!(test.try_recv(), Err(TryRecvError::Empty)) {
        // As in a server, a failed pass is followed by another one.
        drop(schedules::fire_due(&db).await);
        tokio::time::sleep(POLL).await;
    }
}

struct Process(Child);

impl Process {
    /// Starts a process that crashes at a failpoint; an empty one means never.
    fn start(url: &str, index: usize, failpoint: &str) -> Self {
        let ahead_ms = if index == AHEAD { "1000" } else { "0" };
        let child = Command::new(std::env::current_exe().unwrap())
            .args([PROCESS, "--exact", "--ignored"])
            .env(DATABASE, url)
            .env("OPENVIBE_CLOCK_AHEAD_MS", ahead_ms)
            .env("OPENVIBE_FAILPOINT", failpoint)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Self(child.unwrap())
    }

    fn has_died(&mut self) -> bool {
        let ended = self.0.try_wait().unwrap();
        if let Some(status) = ended {
            assert_eq!(status.code(), None, "not at a failpoint: {status}");
        }
        ended.is_some()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The process may have already ended.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Returns a random failpoint within a pass over all schedules.
fn failpoint(rng: &mut StdRng) -> String {
    let schedules = 3 * SCHEDULES_OF_PERSON;
    let (name, last) = match rng.random_range(0..5) {
        0 | 1 => ("write_statement", 8 * schedules),
        2 => ("slot_store", schedules),
        3 => ("slot_stored", schedules),
        _ => ("after_commit", schedules),
    };
    format!("{name}:{}", rng.random_range(1..=last))
}

/// Makes each schedule due at a different time within the next seconds, as if its previous task had ended. Returns the slots.
async fn make_due(db: &Db, schedules: &[ScheduleId]) -> Vec<(ScheduleId, Timestamp)> {
    let start = now().unix_ms() + 200;
    let times = (start..).step_by(40).map(|ms| {
        let at = DateTime::from_timestamp_millis(ms).unwrap();
        Timestamp::within_years(at).unwrap()
    });
    let slots: Vec<(ScheduleId, Timestamp)> = schedules.iter().copied().zip(times).collect();
    let due = slots.clone();
    let set = async move |c: &mut Conn| {
        c.q("update tasks set status = 'completed' where status = 'queued'")
            .run()
            .await?;
        for (id, at) in &due {
            c.q("update schedules set next_run_at = $2 where id = $1")
                .bind(*id)
                .bind(*at)
                .run()
                .await?;
        }
        Ok::<_, DbError>(())
    };
    db.write(Uuid::nil(), set).await.unwrap();
    slots
}

/// First column of the first row.
async fn number(db: &Db, sql: &'static str) -> usize {
    let found: i64 = db.read().await.unwrap().q(sql).value().await.unwrap();
    usize::try_from(found).unwrap()
}

async fn count_slots(db: &Db) -> usize {
    number(db, "select count(*) from schedule_slots").await
}

/// Checks that exactly these slots have fired, each with its own task.
async fn check(db: &Db, expected: &[(ScheduleId, Timestamp)]) {
    let found: Vec<(ScheduleId, Timestamp, String)> = db
        .read()
        .await
        .unwrap()
        .q("select schedule_id, slot_at, state from schedule_slots order by slot_at, schedule_id")
        .all()
        .await
        .unwrap();
    for (schedule, at, state) in &found {
        assert_eq!(state, "fired", "{schedule} at {}", at.to_text());
    }
    let key = |schedule: &ScheduleId, at: &Timestamp| (*schedule, at.unix_ms());
    let fired: HashSet<_> = found.iter().map(|(id, at, _)| key(id, at)).collect();
    let wanted: HashSet<_> = expected.iter().map(|(id, at)| key(id, at)).collect();
    assert_eq!(fired, wanted);
    assert_eq!(found.len(), wanted.len());
    let tasks = number(db, "select count(*) from tasks where kind = 'schedule'").await;
    assert_eq!(tasks, wanted.len(), "one task for each slot");
    let with_task =
        "select count(distinct s.task_id) from schedule_slots s join tasks t on t.id = s.task_id";
    assert_eq!(number(db, with_task).await, wanted.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_slot_fires_once_whichever_process_dies() {
    let mut t = team_with(&[("RATE_LIMITS", "off")]).await;
    let cy = t.app.join(&t.ada, "Cy", "member").await;
    let mut made: Vec<ScheduleId> = Vec::new();
    for owner in [&t.ada, &t.bo, &cy] {
        for _ in 0..SCHEDULES_OF_PERSON {
            let schedule = created(owner, in_channel(&t), json!({})).await;
            made.push(schedule.parse().unwrap());
        }
    }
    t.app.stop().await;
    let url = url_of(&t.app.place);
    let db = open(&url).await;
    let wanted = (kills() / 20).max(3);
    let mut rng = seeded();
    let mut processes: Vec<Process> = (0..PROCESSES)
        .map(|index| Process::start(&url, index, ""))
        .collect();
    let (mut slots, mut killed, mut round) = (Vec::new(), 0, 0);
    while killed < wanted {
        assert!(round < 10 * wanted, "the processes die too seldom");
        // A crashed process keeps the job's lease until it expires, so only one process crashes per round.
        let index = round % PROCESSES;
        let point = failpoint(&mut rng);
        note(&format!("process {index}: {point}"));
        processes[index] = Process::start(&url, index, &point);
        slots.extend(make_due(&db, &made).await);
        let fired = async {
            while count_slots(&db).await < slots.len() {
                tokio::time::sleep(POLL).await;
            }
        };
        within("the slots to fire", fired).await;
        killed += usize::from(processes[index].has_died());
        processes[index] = Process::start(&url, index, "");
        round += 1;
    }
    // Waits, so that a process that wrongly fires a slot again has time to do it.
    tokio::time::sleep(Duration::from_secs(1)).await;
    drop(processes);
    check(&db, &slots).await;
    db.close().await;
}
