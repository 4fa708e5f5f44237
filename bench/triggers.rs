//! Cost of workflows and schedules: posts in a workspace with workflows for another channel, slots of schedules, and idle servers
//! with schedules.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Context;
use openvibe::{
    db::{Conn, Db, DbError, now},
    ids::ScheduleId,
    time::Timestamp,
};
use serde_json::json;
use uuid::Uuid;

use crate::{
    client::{Http, Team, text},
    model::Model,
    process::{self, Server},
    report::{Table, float, median, ms, percentile, ratio, say},
};

/// Maximum number of workflows in a workspace.
const WORKFLOWS: usize = 100;
const ROUNDS: usize = 15;
/// Number of posts per round.
const POSTS: usize = 300;
const FEW: usize = 10;
const MANY: usize = 1_000;
/// Maximum number of schedules in a workspace, and per person.
const OF_WORKSPACE: usize = 100;
const OF_PERSON: usize = 20;
const PEOPLE: usize = OF_WORKSPACE / OF_PERSON;
/// Number of rounds in which all schedules are due: with few schedules, and with many.
const FEW_ROUNDS: u32 = 30;
const MANY_ROUNDS: u32 = 3;
/// Time over which slots of many schedules are spread.
const SPREAD: Duration = Duration::from_mins(1);
/// Time until the first slot, so that all slots are set before the job looks for due ones.
const LEAD: Duration = Duration::from_secs(2);
/// Offset added to the first slot in each round, so that it falls on different points of the job's interval.
const SHIFT: Duration = Duration::from_millis(137);
const POLL: Duration = Duration::from_millis(500);
const FIRED_WITHIN: Duration = Duration::from_mins(5);
const IDLE: Duration = Duration::from_mins(1);

/// A server with workflows that are triggered by messages in another channel.
struct Place {
    server: Server,
    team: Team,
    http: Http,
}

impl Place {
    async fn with(workflows: usize) -> anyhow::Result<Self> {
        let server = Server::start(&[]).await?;
        let team = Team::make(&server.process.address, 1).await?;
        let mut http = team.http(0).await?;
        let elsewhere = http
            .post("/v1/channels", &json!({"name": "elsewhere"}))
            .await?;
        let trigger = json!({"channel_id": text(&elsewhere, "/id")?, "from": "people", "new_threads_only": false, "words": []});
        let step = json!({"id": "post", "kind": "output", "content": "Seen."});
        for n in 0..workflows {
            let form = json!({"name": format!("flow-{n}"), "on_message": trigger, "steps": [step]});
            http.post("/v1/workflows", &form).await?;
        }
        Ok(Self { server, team, http })
    }

    /// Returns the CPU time per post in ms.
    async fn post(&mut self) -> anyhow::Result<f64> {
        let path = format!("/v1/threads/{}/messages", self.team.thread().await?);
        let form = json!({"content": "The importer reads the files of the night."});
        let before = self.server.process.cpu();
        for _ in 0..POSTS {
            self.http.post(&path, &form).await?;
        }
        Ok(ms(self.server.process.cpu().saturating_sub(before)) / float(POSTS))
    }
}

/// A server with schedules that are due only when a round begins.
struct Clock {
    server: Server,
    _model: Model,
    /// A second connection to the server's database.
    db: Db,
    schedules: Vec<ScheduleId>,
}

impl Clock {
    async fn with(schedules: usize) -> anyhow::Result<Self> {
        let model = Model::start().await?;
        let mut settings = model.settings();
        // Compaction passes would also call the model.
        settings.extend([("SIGNUP", "open"), ("COMPACTION", "off")]);
        let server = Server::start(&settings).await?;
        let mut made = Vec::new();
        for workspace in 0..schedules.div_ceil(OF_WORKSPACE).max(1) {
            let host = &server.process.address;
            let team = Team::numbered(host, workspace * PEOPLE, PEOPLE).await?;
            for person in 0..PEOPLE {
                let count = OF_PERSON.min(schedules - made.len());
                made.extend(make_schedules(&team, person, count).await?);
            }
        }
        let db = Db::open(&server.scratch.place()?, Arc::new(|_| {})).await?;
        Ok(Self {
            server,
            _model: model,
            db,
            schedules: made,
        })
    }

    /// Fires each schedule once; returns the lateness of the slots in ms.
    async fn fire(&self, round: u32, spread: Duration) -> anyhow::Result<Vec<f64>> {
        let count = u32::try_from(self.schedules.len())?;
        let first = now() + LEAD + SHIFT * round;
        let times = (0..count).map(|n| first + spread * n / count);
        let due: Vec<(ScheduleId, Timestamp)> = self.schedules.iter().copied().zip(times).collect();
        let set = async move |c: &mut Conn| {
            for (id, at) in &due {
                c.q("update schedules set next_run_at = $2 where id = $1")
                    .bind(*id)
                    .bind(*at)
                    .run()
                    .await?;
            }
            Ok::<_, DbError>(())
        };
        self.db.write(Uuid::nil(), set).await?;
        let ended = tokio::time::timeout(FIRED_WITHIN, self.until_ended(first)).await;
        ended.context("the slots did not fire in time")?
    }

    /// Waits until all slots of a round have fired and their tasks have ended; returns the lateness of the slots in ms.
    async fn until_ended(&self, first: Timestamp) -> anyhow::Result<Vec<f64>> {
        // Stored slots are rounded to milliseconds, so one can be slightly earlier than `first`.
        let from = first - Duration::from_millis(1);
        loop {
            tokio::time::sleep(POLL).await;
            let mut c = self.db.read().await?;
            let active: i64 = c
                .q("select count(*) from tasks where status in ('queued', 'running')")
                .value()
                .await?;
            let fired: Vec<(Timestamp, Timestamp)> = c
                .q("select s.slot_at, t.queued_at from schedule_slots s join tasks t on t.id = s.task_id where s.slot_at >= $1 order by t.id")
                .bind(from)
                .all()
                .await?;
            if active == 0 && fired.len() == self.schedules.len() {
                let late = fired.iter().map(|(at, queued)| ms(queued.since(*at)));
                return Ok(late.collect());
            }
        }
    }
}

/// Creates schedules for a member; their regular slots are some months away.
async fn make_schedules(
    team: &Team,
    person: usize,
    count: usize,
) -> anyhow::Result<Vec<ScheduleId>> {
    let mut http = team.http(person).await?;
    let day = chrono::Utc::now() + chrono::Days::new(100);
    let cron = day.format("0 6 1 %-m *").to_string();
    let form = json!({"name": "News", "cron": cron, "timezone": "UTC",
        "target": {"type": "agent", "prompt": "Is anything new?"}, "deliver": {"channel_id": team.general}});
    let mut made = Vec::new();
    for _ in 0..count {
        let schedule = http.post("/v1/schedules", &form).await?;
        made.push(text(&schedule, "/id")?.parse()?);
    }
    Ok(made)
}

pub(crate) async fn run() -> anyhow::Result<()> {
    posts().await?;
    let none = Clock::with(0).await?;
    let few = Clock::with(FEW).await?;
    let many = Clock::with(MANY).await?;
    lateness(&few, &many).await?;
    idle(&none, &many).await
}

async fn posts() -> anyhow::Result<()> {
    let mut none = Place::with(0).await?;
    let mut all = Place::with(WORKFLOWS).await?;
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let (a, b) = (none.post().await?, all.post().await?);
        if round > 0 {
            without.push(a);
            with.push(b);
        }
    }
    let mut table = Table::new(
        "CPU time of the server for a post, ms",
        &["", "median", "ratio"],
    );
    for (name, values) in [
        ("no workflows", &without),
        (
            "100 workflows that wait for messages of another channel",
            &with,
        ),
    ] {
        table.row([
            name.to_owned(),
            format!("{:.3}", median(values)),
            format!("{:.2}", ratio(values, &without)),
        ]);
    }
    table.print();
    say(&format!(
        "\n{}. Medians of {ROUNDS} alternating rounds with {POSTS} posts (target of the ratio: 1.1).",
        process::engine()
    ));
    Ok(())
}

async fn lateness(few: &Clock, many: &Clock) -> anyhow::Result<()> {
    let (mut of_few, mut spread, mut at_once) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..FEW_ROUNDS {
        of_few.extend(few.fire(round, Duration::ZERO).await?);
    }
    for round in 0..MANY_ROUNDS {
        spread.extend(many.fire(round, SPREAD).await?);
        at_once.extend(many.fire(round, Duration::ZERO).await?);
    }
    let mut table = Table::new(
        "Lateness of slots, ms",
        &["", "slots", "p50", "p99", "the latest"],
    );
    for (name, values) in [
        ("10 schedules at the same time", &of_few),
        ("1,000 schedules within a minute", &spread),
        ("1,000 schedules at the same time", &at_once),
    ] {
        let cells = [0.5, 0.99, 1.0].map(|p| format!("{:.0}", percentile(values, p)));
        let start = [name.to_owned(), values.len().to_string()];
        table.row(start.into_iter().chain(cells));
    }
    table.print();
    say("\nFrom the slot to its queued task (target for the p99 with 1,000 schedules: 1.5 s).");
    Ok(())
}

async fn idle(none: &Clock, many: &Clock) -> anyhow::Result<()> {
    let clocks = [none, many];
    let before = clocks.map(|clock| clock.server.process.cpu());
    let started = Instant::now();
    tokio::time::sleep(IDLE).await;
    let took = started.elapsed();
    let mut table = Table::new("Idle servers", &["", "CPU, % of a core"]);
    for ((clock, before), name) in clocks
        .into_iter()
        .zip(before)
        .zip(["no schedules", "1,000 schedules"])
    {
        let used = clock.server.process.cpu().saturating_sub(before);
        let percent = 100.0 * ms(used) / ms(took);
        table.row([name.to_owned(), format!("{percent:.2}")]);
    }
    table.print();
    say(&format!(
        "\nBoth at the same time, for {} s (target: 1 %).",
        IDLE.as_secs()
    ));
    Ok(())
}
