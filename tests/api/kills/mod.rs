//! The server is killed while agents work together: before any statement that may change data, and around commits. Afterwards, each
//! message, fork, task, and action exists exactly once.
//!
//! A few kills are part of the suite; `make kills KILLS=1000 SEED=7` makes more. A seed reproduces the failpoints and their counts,
//! but not the order in which concurrent tasks reach them.

use std::{fmt, time::Duration};

use rand::{Rng, SeedableRng, rngs::StdRng};
use reqwest::Method;
use serde_json::Value;

use crate::{
    faults::Prepared,
    support::{Person, TestProcess, setting, within},
};

mod events;
mod exports;
mod imports;
mod run;
mod runner;
mod slots;
mod turns;
mod works;

/// Number of kills during runs in the suite. Each other kind of work gets a share of this number.
const KILLS: usize = 10;
/// Maximum number of kills during one piece of work, because a task fails when it loses its third worker.
const KILLS_OF_A_WORK: usize = 2;
const POLL: Duration = Duration::from_millis(50);

fn kills() -> usize {
    setting("OPENVIBE_TEST_KILLS").unwrap_or(KILLS)
}

fn seeded() -> StdRng {
    let seed = setting("OPENVIBE_TEST_KILLS_SEED").unwrap_or(1);
    note(&format!("seed {seed}"));
    StdRng::seed_from_u64(seed)
}

/// If the test fails, prints a line.
#[expect(clippy::print_stderr, reason = "kept until then")]
fn note(line: &str) {
    eprintln!("kills: {line}");
}

/// Failpoints that every transaction can reach.
const PLACES: [&str; 3] = ["write_statement", "before_commit", "after_commit"];

/// A failpoint, and how many times it is reached before the process ends.
#[derive(Debug, Clone, Copy)]
struct Point {
    /// Index in `PLACES`.
    place: usize,
    nth: u64,
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", PLACES[self.place], self.nth)
    }
}

/// Source of random failpoints in work of unknown length.
struct Points {
    rng: StdRng,
    /// Estimate of how often a server reaches each place until the work has ended.
    reached: [u64; PLACES.len()],
}

impl Points {
    fn new() -> Self {
        Self {
            rng: seeded(),
            reached: [150, 30, 30],
        }
    }

    /// Draws a random point; half of them are before statements.
    fn draw(&mut self) -> Point {
        let place = [0, 0, 1, 2][self.rng.random_range(0..4)];
        Point {
            place,
            nth: self.rng.random_range(1..=self.reached[place]),
        }
    }

    /// Corrects the estimate after the first attempt at a piece of work, so that points are spread over all of it.
    fn correct(&mut self, point: Point, has_died: bool) {
        let reached = &mut self.reached[point.place];
        if has_died && point.nth * 4 > *reached * 3 {
            *reached += *reached / 4 + 1;
        }
        if !has_died {
            *reached = (point.nth - 1).max(1);
        }
    }
}

/// Work that several agents do together.
trait Work {
    /// Requests the work if it does not exist yet, and plays the people's part until the work has ended; `None` if the server has
    /// crashed.
    async fn proceed(&self, ada: &Person, name: &str) -> Option<()>;

    /// Checks that everything that belongs to the work exists exactly once.
    async fn check(&self, ada: &Person, name: &str);
}

/// The server on which the work is done.
struct Stage<'a> {
    p: &'a Prepared,
    settings: &'a [(&'a str, &'a str)],
}

impl Stage<'_> {
    /// Continues the work until the server crashes at a point. Returns `false` if the work ended before that.
    async fn dies(&self, work: &impl Work, name: &str, point: Point) -> bool {
        note(&format!("{name}: {point}"));
        let failpoint = point.to_string();
        let mut settings = self.settings.to_vec();
        settings.push(("FAILPOINT", failpoint.as_str()));
        let started = TestProcess::try_start(&self.p.place, &self.p.model, &settings).await;
        let status = match started {
            Ok(server) => {
                let ada = self.p.ada.at(&server.base);
                let ended = within("a work to end", work.proceed(&ada, name)).await;
                if ended.is_some() {
                    server.kill().await;
                    return false;
                }
                server.exited().await
            }
            Err(status) => status,
        };
        assert_eq!(status.code(), None, "{name}: not at {point}: {status}");
        true
    }

    /// Continues the work until it has ended, and checks its result.
    async fn finish(&self, work: &impl Work, name: &str) {
        let (server, ada) = self.p.start(self.settings).await;
        let ended = within("a work to end", work.proceed(&ada, name)).await;
        assert!(ended.is_some(), "{name}: the server died by itself");
        work.check(&ada, name).await;
        server.kill().await;
    }

    /// Kills the server this many times during several pieces of work, and checks each of them. The first piece runs without kills.
    async fn kill_during(&self, work: &impl Work, kills: usize) {
        self.finish(work, "control").await;
        let mut points = Points::new();
        let mut killed = 0;
        let mut works = 0;
        while killed < kills {
            works += 1;
            assert!(works < 10 + 2 * kills, "the server dies too seldom");
            let name = format!("work-{works}");
            for n in 0..KILLS_OF_A_WORK {
                let point = points.draw();
                let has_died = self.dies(work, &name, point).await;
                if n == 0 {
                    points.correct(point, has_died);
                }
                killed += usize::from(has_died);
                if !has_died {
                    break;
                }
            }
            self.finish(work, &name).await;
        }
    }
}

/// Returns the object at a path; `None` if the server has crashed.
async fn get(by: &Person, path: &str) -> Option<Value> {
    let reply = by.try_send(Method::GET, path, &[], None).await?;
    Some(reply.ok())
}

/// Posts a form and returns the response; `None` if the server has crashed.
async fn post(by: &Person, path: &str, form: Value) -> Option<Value> {
    Some(by.try_post(path, form).await?.ok())
}

/// Waits until a task has ended; `None` if the server has crashed.
async fn ended(by: &Person, task: &str) -> Option<()> {
    let path = format!("/v1/tasks/{task}");
    loop {
        let now = get(by, &path).await?;
        if !matches!(now["status"].as_str()?, "queued" | "running") {
            return Some(());
        }
        tokio::time::sleep(POLL).await;
    }
}
