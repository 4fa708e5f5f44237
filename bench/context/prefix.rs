//! Share of a request that the next request repeats as its prefix, in a thread with a question every ten messages: with summaries,
//! and with the newest 50 messages.

use std::time::{Duration, Instant};

use anyhow::Context;
use serde_json::{Value, json};

use super::{AGENT, make_agent};
use crate::{
    client::{Conversation, Http, Team, text},
    model::Model,
    process::Server,
    report::{Table, float, median, percentile, say},
    words::Words,
};

/// Agent that every new workspace has; its instructions are longer than those of `AGENT`.
const DEFAULT_AGENT: &str = "vibe";
const MESSAGES: usize = 700;
const MESSAGES_PER_QUESTION: usize = 10;
const POLL: Duration = Duration::from_millis(20);
const SUMMARIZED_WITHIN: Duration = Duration::from_secs(30);

/// Requests of the agent in one thread.
struct Requests(Vec<Request>);

struct Request {
    /// The request's messages as JSON.
    messages: String,
    /// Number of messages before the window that are summarized; `None` without a summary.
    summarized: Option<usize>,
}

/// Shares of requests that the next request repeats as its prefix.
#[derive(Default)]
struct Shares {
    all: Vec<f64>,
    /// Shares for pairs of requests whose windows begin with the same message.
    same_window: Vec<f64>,
}

impl Requests {
    async fn collect(agent: &str, compaction: &'static str) -> anyhow::Result<Self> {
        let model = Model::start().await?;
        let mut settings = model.settings();
        // Messages are posted much faster than people write, so passes must not wait for each other.
        settings.extend([("COMPACTION", compaction), ("COMPACTION_INTERVAL", "0s")]);
        let server = Server::start(&settings).await?;
        let team = Team::make(&server.process.address, 1).await?;
        let mut http = team.http(0).await?;
        make_agent(&mut http).await?;
        let id = agent_id(&mut http, agent).await?;
        let mut conversation = Conversation::start(&team).await?;
        // Text in the system prompt of the agent's replies, but not in requests for summaries.
        model.keep(&format!("(@{agent}), taking part"));
        let mut words = Words::new();
        for n in 1..=MESSAGES {
            let message = words.message();
            if n % MESSAGES_PER_QUESTION > 0 {
                conversation.post(&message).await?;
                continue;
            }
            conversation.reconnect(&team).await?;
            let task = conversation.ask(&format!("@{agent} {message}")).await?;
            conversation.completed(&task).await?;
            conversation.summarized(&id).await?;
        }
        let kept = model.take_kept();
        let questions = MESSAGES / MESSAGES_PER_QUESTION;
        anyhow::ensure!(
            kept.len() == questions,
            "{} requests for {questions} questions",
            kept.len()
        );
        let requests = kept.iter().map(|body| Request::parse(body));
        Ok(Self(requests.collect::<anyhow::Result<_>>()?))
    }

    fn shares(&self) -> Shares {
        let mut shares = Shares::default();
        for pair in self.0.windows(2) {
            let [earlier, later] = pair else { continue };
            let share = earlier.share_in(later);
            shares.all.push(share);
            if earlier.summarized.is_some() && earlier.summarized == later.summarized {
                shares.same_window.push(share);
            }
        }
        shares
    }
}

impl Request {
    fn parse(body: &[u8]) -> anyhow::Result<Self> {
        let body: Value = serde_json::from_slice(body)?;
        let messages = body["messages"].to_string();
        let summary = messages.split_once("Summary of ");
        let summarized = summary.map(|(_, rest)| {
            let count = rest.split(' ').next().unwrap_or_default();
            count.parse().with_context(|| format!("summary of {count}"))
        });
        Ok(Self {
            summarized: summarized.transpose()?,
            messages,
        })
    }

    /// Returns the share of this request that a later one repeats as its prefix.
    fn share_in(&self, later: &Self) -> f64 {
        let pairs = self.messages.bytes().zip(later.messages.bytes());
        let common = pairs.take_while(|(a, b)| a == b).count();
        float(common) / float(self.messages.len())
    }
}

impl Conversation {
    /// Waits until no compaction pass is queued or running.
    async fn summarized(&mut self, agent: &str) -> anyhow::Result<()> {
        let path = format!("/v1/threads/{}/context?agent_id={agent}", self.thread);
        let started = Instant::now();
        while started.elapsed() < SUMMARIZED_WITHIN {
            let context = self.http.get(&path).await?;
            let task = context.pointer("/compaction/task_id");
            if task.context("the context names no pass")? == &json!(null) {
                return Ok(());
            }
            tokio::time::sleep(POLL).await;
        }
        anyhow::bail!("a pass took too long")
    }
}

async fn agent_id(http: &mut Http, name: &str) -> anyhow::Result<String> {
    let agents = http.get("/v1/agents").await?;
    let mut agents = agents["data"].as_array().into_iter().flatten();
    let agent = agents.find(|agent| agent["name"] == name);
    text(agent.context("the agent does not exist")?, "/id")
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / float(values.len().max(1))
}

pub(super) async fn run() -> anyhow::Result<()> {
    let with_summaries = Requests::collect(DEFAULT_AGENT, "on").await?.shares();
    let newest = Requests::collect(DEFAULT_AGENT, "off").await?.shares();
    let brief = Requests::collect(AGENT, "on").await?.shares();
    let mut table = Table::new(
        "Share of a request with which the next one begins",
        &["", "pairs", "mean", "median", "lowest"],
    );
    let rows = [
        ("with summaries", &with_summaries.all),
        ("of these, same window", &with_summaries.same_window),
        ("newest 50 messages", &newest.all),
        ("with summaries, instructions of one line", &brief.all),
        ("of these, same window", &brief.same_window),
    ];
    for (name, shares) in rows {
        table.row([
            name.to_owned(),
            shares.len().to_string(),
            format!("{:.2}", mean(shares)),
            format!("{:.2}", median(shares)),
            format!("{:.2}", percentile(shares, 0.0)),
        ]);
    }
    table.print();
    say(&format!(
        "\n{MESSAGES} messages, a question every {MESSAGES_PER_QUESTION} (targets: a mean of 0.55 with summaries, 0.90 with the same window)."
    ));
    Ok(())
}
