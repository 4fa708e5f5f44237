//! Cost of lists, filters, and mentions with many agents, and of inheritance when a task loads its agent.

use std::time::Instant;

use anyhow::Context;
use serde_json::json;
use tokio::task::JoinSet;

use crate::{
    ask::ask_for,
    client::{Http, Team, text},
    model::Model,
    process::Server,
    report::{Table, float, median, ms, ratio, say},
};

const FEW: usize = 100;
const MANY: usize = 10_000;
const MAKERS: usize = 32;
const ROUNDS: usize = 9;
const READS: usize = 60;
const ASKS: usize = 20;
/// Interval between agents with the rare metadata value; the agent after each of them is inactive.
const EVERY: usize = 100;

/// Server with a given number of agents, and a signed-in member.
struct DatabaseUrl {
    server: Server,
    team: Team,
    http: Http,
    model: Model,
    last: String,
}

impl DatabaseUrl {
    async fn with(agents: usize) -> anyhow::Result<Self> {
        let model = Model::start().await?;
        let server = Server::start(&model.settings()).await?;
        let team = Team::make(&server.process.address, 2).await?;
        let mut makers = JoinSet::new();
        for maker in 0..MAKERS {
            let mut http = team.http(0).await?;
            makers.spawn(async move {
                for n in (maker..agents).step_by(MAKERS) {
                    let kind = if n % EVERY == 0 { "rare" } else { "common" };
                    let status = if n % EVERY == 1 { "inactive" } else { "active" };
                    let form = json!({"name": format!("agent-{n}"), "instructions": "You are one of many. ".repeat(60),
                        "metadata": {"kind": kind, "number": n.to_string()}, "status": status});
                    http.post("/v1/agents", &form).await?;
                }
                Ok::<_, anyhow::Error>(())
            });
        }
        while let Some(made) = makers.join_next().await {
            made??;
        }
        let mut http = team.http(0).await?;
        let list = http
            .get(&format!("/v1/agents?name=agent-{}", agents - 1))
            .await?;
        let last = text(&list, "/data/0/id")?;
        Ok(Self {
            server,
            team,
            http,
            model,
            last,
        })
    }

    /// Duration of a read in ms.
    async fn read(&mut self, path: &str) -> anyhow::Result<f64> {
        let path = path.replace("LAST", &self.last);
        let started = Instant::now();
        for _ in 0..READS {
            self.http.send("GET", &path, "").await?.json()?;
        }
        Ok(ms(started.elapsed()) / float(READS))
    }

    /// Median time from a mention to the model request, in ms.
    async fn ask(&mut self, name: &str) -> anyhow::Result<f64> {
        let mut took = Vec::new();
        // Opens a new socket, because one that does not read during the list requests would be disconnected.
        let mut ws = self.team.socket(1).await?;
        // Creates a new thread, because messages of a long one are also summarized, with extra model requests.
        let thread = self.team.thread().await?;
        for _ in 0..ASKS {
            took.push(ask_for(&mut self.http, &thread, &mut self.model, &mut ws, name).await?);
        }
        Ok(median(&took))
    }
}

const LISTS: &[(&str, &str)] = &[
    ("first 20", "/v1/agents?limit=20"),
    ("20 before the last", "/v1/agents?limit=20&before=LAST"),
    ("by status", "/v1/agents?limit=20&status=inactive"),
    ("by name", "/v1/agents?name=agent-7"),
    (
        "by metadata, few match",
        "/v1/agents?limit=20&metadata.number=7",
    ),
    (
        "by metadata, most match",
        "/v1/agents?limit=20&metadata.kind=common",
    ),
    (
        "by two pairs",
        "/v1/agents?limit=20&metadata.kind=common&metadata.number=7",
    ),
];

pub(crate) async fn run() -> anyhow::Result<()> {
    let mut few = DatabaseUrl::with(FEW).await?;
    let mut many = DatabaseUrl::with(MANY).await?;
    let mut lists = vec![(Vec::new(), Vec::new()); LISTS.len()];
    let mut asks = (Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        for ((_, path), (a, b)) in LISTS.iter().zip(&mut lists) {
            let (x, y) = (few.read(path).await?, many.read(path).await?);
            if round > 0 {
                a.push(x);
                b.push(y);
            }
        }
        let (x, y) = (few.ask("vibe").await?, many.ask("vibe").await?);
        if round > 0 {
            asks.0.push(x);
            asks.1.push(y);
        }
    }
    let mut table = Table::new(
        "With 100 and with 10,000 agents, ms",
        &["", "10²", "10⁴", "ratio"],
    );
    let rows = LISTS.iter().map(|(name, _)| *name).zip(&lists);
    for (name, (a, b)) in rows.chain([("mention → model request", &asks)]) {
        table.row([
            name.to_owned(),
            format!("{:.3}", median(a)),
            format!("{:.3}", median(b)),
            format!("{:.2}", ratio(b, a)),
        ]);
    }
    table.print();
    drop(many);
    levels(&mut few).await
}

/// Compares an agent without a base to one that inherits through three levels.
async fn levels(place: &mut DatabaseUrl) -> anyhow::Result<()> {
    let mut base = None;
    for name in ["level-one", "level-two", "level-three"] {
        let form = json!({"name": name, "instructions": "You are on some level.", "base_profile_id": base});
        let made = place.http.post("/v1/agents", &form).await?;
        base = Some(
            made["id"]
                .as_str()
                .context("the response has no ID")?
                .to_owned(),
        );
    }
    let (mut one, mut three) = (Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let (x, y) = (
            place.ask("level-one").await?,
            place.ask("level-three").await?,
        );
        if round > 0 {
            one.push(x);
            three.push(y);
        }
    }
    say(&format!(
        "\nMention → model request, ms: one level {:.2}, three levels {:.2}, ratio {:.2}.",
        median(&one),
        median(&three),
        ratio(&three, &one)
    ));
    say(&format!(
        "Medians of {ROUNDS} alternating rounds; the server used {:.1} s of CPU in {}.",
        place.server.process.cpu().as_secs_f64(),
        place.team.workspace
    ));
    Ok(())
}
