//! Time from an approval to the request that the approved call sends, compared with the time from a mention to the model request;
//! measured without other parked tasks, and with 1,000.

use std::time::Instant;

use anyhow::Context;
use serde_json::{Value, json};

use crate::{
    client::{Conversation, Team, text},
    model::{Model, Plan},
    process::{self, Server},
    report::{Table, ms, percentile, say},
};

/// Workspaces that share the 1,000 parked tasks, because a workspace can have at most 200.
const WORKSPACES: usize = 8;
/// Threads with parked tasks in each workspace.
const THREADS: usize = 5;
const PARKED_IN_THREAD: usize = 25;
const ROUNDS: usize = 10;
/// Number of questions measured per thread.
const QUESTIONS: usize = 30;
const AGENT: &str = "fetcher";

/// Measurements with one value per question.
#[derive(Default)]
struct Found {
    /// Time from the mention to the model request in ms.
    mentions: Vec<f64>,
    /// Time from the approval to the request for the web page in ms.
    approvals: Vec<f64>,
}

/// Selects one measurement.
type Values = fn(&Found) -> &[f64];

/// A task that waits for an approval.
struct Parked {
    task: String,
    /// Path of the action that needs the approval.
    action: String,
    arguments_hash: Value,
    /// Time from the mention to the model request in ms.
    from_mention_ms: f64,
}

/// Server with workspaces whose agent needs an approval for each web page that it reads.
struct Setup {
    _server: Server,
    model: Model,
    /// The measured workspace.
    team: Team,
}

impl Setup {
    /// Starts a server with `threads` threads that contain parked tasks in each workspace.
    async fn with(threads: usize) -> anyhow::Result<Self> {
        let mut model = Model::start().await?;
        let page = model.page();
        model.answer(Plan {
            calls: Some(("web_fetch", vec![json!({"url": page})])),
            ..Plan::short()
        });
        let mut settings = model.settings();
        settings.extend([
            ("SIGNUP", "open"),
            ("WEB_ALLOW", "127.0.0.1"),
            // Compaction passes would also call the model.
            ("COMPACTION", "off"),
        ]);
        let server = Server::start(&settings).await?;
        let host = &server.process.address;
        let team = make_workspace(host, 0).await?;
        park_some(&team, threads, &mut model).await?;
        for founder in 1..WORKSPACES {
            let other = make_workspace(host, founder).await?;
            park_some(&other, threads, &mut model).await?;
        }
        Ok(Self {
            _server: server,
            model,
            team,
        })
    }

    /// Asks questions in a new thread and approves each call.
    async fn measure(&mut self) -> anyhow::Result<Found> {
        let mut found = Found::default();
        let mut conversation = Conversation::start(&self.team).await?;
        for _ in 0..QUESTIONS {
            let parked = park(&mut conversation, &mut self.model).await?;
            let took = approve(&mut conversation, &mut self.model, &parked).await?;
            found.mentions.push(parked.from_mention_ms);
            found.approvals.push(took);
        }
        Ok(found)
    }
}

async fn make_workspace(host: &str, founder: usize) -> anyhow::Result<Team> {
    let team = Team::numbered(host, founder, 1).await?;
    let form = json!({"name": AGENT, "instructions": "You read pages.", "tools": [{"type": "web_fetch"}],
        "trust": {"approve": ["web_fetch"]}});
    team.http(0).await?.post("/v1/agents", &form).await?;
    Ok(team)
}

async fn park_some(team: &Team, threads: usize, model: &mut Model) -> anyhow::Result<()> {
    for _ in 0..threads {
        let mut conversation = Conversation::start(team).await?;
        for _ in 0..PARKED_IN_THREAD {
            park(&mut conversation, model).await?;
        }
    }
    Ok(())
}

/// Asks the agent, and waits until its task is parked.
async fn park(conversation: &mut Conversation, model: &mut Model) -> anyhow::Result<Parked> {
    let started = Instant::now();
    let task = conversation
        .ask(&format!("@{AGENT} what is on the page?"))
        .await?;
    let asked = model.asked().await?;
    let action = waiting(conversation, &task).await?;
    let action = format!("/v1/actions/{action}");
    let mut shown = conversation.http.get(&action).await?;
    Ok(Parked {
        task,
        action,
        arguments_hash: shown["arguments_hash"].take(),
        from_mention_ms: ms(asked.saturating_duration_since(started)),
    })
}

/// Waits until a task is parked; returns its action.
async fn waiting(conversation: &mut Conversation, task: &str) -> anyhow::Result<String> {
    let mut action: Option<String> = None;
    loop {
        let frame = conversation.next_of(task).await?;
        if frame.contains(r#""wait_reason":"approval""#) {
            return action.context("the task waits without an action");
        }
        let event: Value = serde_json::from_str(&frame)?;
        if event["type"] == "action.requested" {
            action = Some(text(&event, "/data/action/id")?);
        }
    }
}

/// Approves the call of a parked task and waits until the task ends; returns the time to the request for the web page in ms.
async fn approve(
    conversation: &mut Conversation,
    model: &mut Model,
    parked: &Parked,
) -> anyhow::Result<f64> {
    let path = format!("{}/approve", parked.action);
    let form = json!({"arguments_hash": parked.arguments_hash});
    let started = Instant::now();
    conversation.http.post(&path, &form).await?;
    let fetched = model.fetched().await?;
    model.asked().await?;
    conversation.completed(&parked.task).await?;
    anyhow::ensure!(
        model.unused() == 0,
        "the model received more than two requests for a question"
    );
    Ok(ms(fetched.saturating_duration_since(started)))
}

pub(crate) async fn run() -> anyhow::Result<()> {
    let mut setups = [Setup::with(0).await?, Setup::with(THREADS).await?];
    let mut found: [Found; 2] = Default::default();
    for round in 0..=ROUNDS {
        for (setup, found) in setups.iter_mut().zip(&mut found) {
            let measured = setup.measure().await?;
            if round > 0 {
                found.mentions.extend(measured.mentions);
                found.approvals.extend(measured.approvals);
            }
        }
    }
    print(&found);
    Ok(())
}

/// 50th and 99th percentiles of both servers.
fn percentiles(found: &[Found; 2], values: Values) -> Vec<f64> {
    let both = found.iter();
    both.flat_map(|found| [0.5, 0.99].map(|p| percentile(values(found), p)))
        .collect()
}

fn print(found: &[Found; 2]) {
    let mut table = Table::new(
        "Approvals without other parked tasks, and with 1,000, ms",
        &["", "0: p50", "p99", "1,000: p50", "p99"],
    );
    let mentions = percentiles(found, |f| &f.mentions);
    let approvals = percentiles(found, |f| &f.approvals);
    let pairs = approvals.iter().zip(&mentions);
    let ratios = pairs.map(|(approval, mention)| approval / mention);
    let ratios: Vec<f64> = ratios.collect();
    for (name, figures) in [
        ("mention → the model has the request", &mentions),
        ("approval → the call leaves", &approvals),
        ("ratio", &ratios),
    ] {
        let figures = figures.iter().map(|figure| format!("{figure:.2}"));
        table.row(std::iter::once(name.to_owned()).chain(figures));
    }
    table.print();
    let parked = WORKSPACES * THREADS * PARKED_IN_THREAD;
    say(&format!(
        "\n{}. {} approvals each, in alternating rounds on two servers with {WORKSPACES} workspaces, one of them with {parked} parked \
         tasks (target 1.5 for the ratio of the p99).",
        process::engine(),
        found[0].approvals.len()
    ));
}
