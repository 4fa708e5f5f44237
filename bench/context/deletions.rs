//! Deletions in a thread with 5,000 replies of an agent, compared with a thread without an agent, and posts during the deletions.

use std::time::{Duration, Instant};

use futures::future::try_join;
use serde_json::json;
use tokio::sync::mpsc;

use super::{AGENT, make_agent};
use crate::{
    client::{Conversation, Http, Team, text},
    model::Model,
    process::{self, Server},
    report::{Table, ms, percentile, say},
    sends::CONTENT,
};

const REPLIES: usize = 5_000;
const REPLIES_PER_SOCKET: usize = 100;
const ROUNDS: usize = 5;
/// Deletions per round in a thread, one after another.
const DELETIONS: usize = 40;
/// Posts per round; some of them start together with a deletion.
const POSTS: usize = 400;
const POSTS_PER_DELETION: usize = 10;
const BESIDE: usize = POSTS / POSTS_PER_DELETION;
/// Number of messages deleted per thread.
const DELETED: usize = (ROUNDS + 1) * (DELETIONS + BESIDE);
/// Time without a model request after which the compaction passes for deletions are considered finished.
const IDLE: Duration = Duration::from_secs(1);
const IDLE_WITHIN: Duration = Duration::from_mins(2);

/// Measurements in ms.
#[derive(Default)]
struct Found {
    deletions: Vec<f64>,
    posts: Vec<f64>,
}

/// Messages of a thread that are not deleted yet.
struct Thread {
    messages: std::vec::IntoIter<String>,
    found: Found,
}

impl Thread {
    /// Selects messages from all parts of a thread.
    fn new(messages: &[String]) -> Self {
        let step = messages.len() / DELETED;
        let messages = messages.iter().step_by(step.max(1)).cloned();
        Self {
            messages: messages.collect::<Vec<_>>().into_iter(),
            found: Found::default(),
        }
    }

    fn next(&mut self, count: usize) -> Vec<String> {
        self.messages.by_ref().take(count).collect()
    }
}

/// A statement from which memory entries are made.
fn statement(n: usize) -> String {
    format!("We agreed that crate {n} leaves the harbor on Friday.")
}

/// Deletes a message; returns the time in ms.
async fn delete(http: &mut Http, message: &str) -> anyhow::Result<f64> {
    let path = format!("/v1/messages/{message}");
    let started = Instant::now();
    http.send("DELETE", &path, "").await?.json()?;
    Ok(ms(started.elapsed()))
}

/// Posts messages, and starts a deletion together with every tenth one. Returns the times of the posts in ms.
async fn posts(
    (poster, thread): (&mut Http, &str),
    deleter: &mut Http,
    deleted: Vec<String>,
) -> anyhow::Result<Vec<f64>> {
    let path = format!("/v1/threads/{thread}/messages");
    let form = json!({"content": CONTENT}).to_string();
    let (begin, mut due) = mpsc::channel(BESIDE);
    let posting = async move {
        let mut deleted = deleted.into_iter();
        let mut times = Vec::new();
        for n in 0..POSTS {
            if n % POSTS_PER_DELETION == 0
                && let Some(message) = deleted.next()
            {
                begin.send(message).await?;
            }
            let started = Instant::now();
            poster.send("POST", &path, &form).await?.json()?;
            times.push(ms(started.elapsed()));
        }
        anyhow::Ok(times)
    };
    let deleting = async {
        while let Some(message) = due.recv().await {
            delete(deleter, &message).await?;
        }
        anyhow::Ok(())
    };
    Ok(try_join(posting, deleting).await?.0)
}

/// Waits until the model server has not received a request for `IDLE`.
async fn idle(model: &mut Model) -> anyhow::Result<()> {
    let started = Instant::now();
    while started.elapsed() < IDLE_WITHIN {
        model.forget();
        tokio::time::sleep(IDLE).await;
        if model.unused() == 0 {
            return Ok(());
        }
    }
    anyhow::bail!("the passes took too long")
}

pub(super) async fn run() -> anyhow::Result<()> {
    let mut model = Model::start().await?;
    let mut settings = model.settings();
    // Passes must not wait for each other, because messages that would take months are posted within minutes.
    settings.push(("COMPACTION_INTERVAL", "0s"));
    let server = Server::start(&settings).await?;
    let team = Team::make(&server.process.address, 2).await?;
    make_agent(&mut team.http(0).await?).await?;
    let (mut of_agent, mut of_people) = (Vec::new(), Vec::new());
    let mut conversation = Conversation::start(&team).await?;
    for n in 0..REPLIES {
        if n % REPLIES_PER_SOCKET == 0 {
            conversation.reconnect(&team).await?;
        }
        let content = format!("@{AGENT} {}", statement(n));
        let posted = conversation.post(&content).await?;
        of_agent.push(text(&posted, "/message/id")?);
        conversation
            .completed(&text(&posted, "/tasks/0/id")?)
            .await?;
    }
    drop(conversation);
    idle(&mut model).await?;
    let (mut deleter, mut poster) = (team.http(0).await?, team.http(1).await?);
    let people = format!("/v1/threads/{}/messages", team.thread().await?);
    for n in 0..REPLIES {
        let form = json!({"content": statement(n)});
        let posted = deleter.post(&people, &form).await?;
        of_people.push(text(&posted, "/message/id")?);
        poster.post(&people, &json!({"content": "Fine."})).await?;
    }

    let elsewhere = team.thread().await?;
    let mut threads = [Thread::new(&of_people), Thread::new(&of_agent)];
    let mut quiet = Vec::new();
    for round in 0..=ROUNDS {
        idle(&mut model).await?;
        let times = posts((&mut poster, &elsewhere), &mut deleter, Vec::new()).await?;
        if round > 0 {
            quiet.extend(times);
        }
        for thread in &mut threads {
            for message in thread.next(DELETIONS) {
                let took = delete(&mut deleter, &message).await?;
                if round > 0 {
                    thread.found.deletions.push(took);
                }
            }
            idle(&mut model).await?;
            let deleted = thread.next(BESIDE);
            let times = posts((&mut poster, &elsewhere), &mut deleter, deleted).await?;
            if round > 0 {
                thread.found.posts.extend(times);
            }
            idle(&mut model).await?;
        }
    }
    let [people, agent] = threads.map(|thread| thread.found);
    anyhow::ensure!(
        agent.deletions.len() == ROUNDS * DELETIONS,
        "{} deletions",
        agent.deletions.len()
    );
    print(&quiet, &people, &agent);
    Ok(())
}

fn print(quiet: &[f64], people: &Found, agent: &Found) {
    let mut table = Table::new(
        "Deletions in a thread with 5,000 replies of an agent, ms",
        &["", "p50", "p99", "p50, ratio", "p99, ratio"],
    );
    let rows = [
        ("deletion, thread of people", &people.deletions[..], None),
        (
            "deletion, 5,000 replies",
            &agent.deletions[..],
            Some(&people.deletions[..]),
        ),
        ("posts without deletions", quiet, None),
        (
            "posts beside deletions, thread of people",
            &people.posts[..],
            Some(quiet),
        ),
        (
            "posts beside deletions, 5,000 replies",
            &agent.posts[..],
            Some(quiet),
        ),
    ];
    for (name, times, baseline) in rows {
        let times = [0.5, 0.99].map(|p| percentile(times, p));
        let ratios = [0.5, 0.99].into_iter().zip(times).map(|(p, time)| {
            baseline.map_or_else(String::new, |baseline| {
                format!("{:.2}", time / percentile(baseline, p))
            })
        });
        let cells = times.map(|time| format!("{time:.2}"));
        table.row(std::iter::once(name.to_owned()).chain(cells).chain(ratios));
    }
    table.print();
    say(&format!(
        "\n{}. {} deletions in each thread, one after another, and {} posts to another thread, each tenth with a deletion at the same time \
         (targets: a deletion takes at most 2 times as long, and posts 1.5 times in the p99).",
        process::engine(),
        agent.deletions.len(),
        agent.posts.len()
    ));
}
