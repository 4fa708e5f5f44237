//! Streamed replies that are watched on the other node, compared with the node that runs them.

use std::{sync::Arc, time::Duration};

use futures::future::try_join_all;
use serde_json::json;
use tokio::task::JoinSet;

use super::group::{Bus, Group};
use crate::{
    client::Team,
    model::{Model, Plan},
    process::Scratch,
    report::{Table, float, median, percentile, ratio, say, us},
    streams::{STREAMS, Seen, TOKEN_EVERY, reseat, watch},
};

const ROUNDS: usize = 3;
const MEMBERS: usize = 10;
const TOKENS: usize = 50;
/// Additional delay of each stream, compared with the previous one.
const STAGGER: Duration = Duration::from_millis(10);

/// Measurements with all watchers on one node.
#[derive(Default)]
struct Watched {
    /// CPU time in µs per delta, and per token, one value per round.
    per_delta: Vec<f64>,
    per_token: Vec<f64>,
    seen: Seen,
}

/// Two nodes; the first one runs the replies.
struct Streaming {
    group: Group,
    model: Model,
    team: Team,
    threads: Vec<String>,
}

impl Streaming {
    async fn start(bus: Bus) -> anyhow::Result<Self> {
        let model = Model::start().await?;
        let mut settings = model.settings();
        // Compaction passes would also call the model.
        settings.push(("COMPACTION", "off"));
        // The other node has the minimum number of workers, so that it rarely claims a task.
        let mut of_other = settings.clone();
        of_other.push(("WORKERS", "1"));
        let group = Group::on(Scratch::new().await?, bus, &[&settings, &of_other]).await?;
        let team = Team::make(group.host(0), MEMBERS).await?;
        let threads = try_join_all((0..STREAMS).map(|_| team.thread())).await?;
        Ok(Self {
            group,
            model,
            team,
            threads,
        })
    }

    /// Runs all streams once, with watchers on the nth node. CPU time is counted from when the model server has all requests.
    async fn round(&mut self, node: usize) -> anyhow::Result<Watched> {
        self.model.forget();
        self.model.answer(Plan {
            together: STREAMS,
            stagger: STAGGER,
            pieces: TOKENS,
            every: TOKEN_EVERY,
            text: None,
            ..Plan::short()
        });
        let team = self.team.at(self.group.host(node));
        let sockets = reseat(&team, Vec::new(), &self.threads).await?;
        let mut watching = JoinSet::new();
        for (ws, thread) in sockets.into_iter().zip(&self.threads) {
            watching.spawn(watch(ws, Arc::from(thread.as_str())));
        }
        let mut http = self.team.http(0).await?;
        for thread in &self.threads {
            let path = format!("/v1/threads/{thread}/messages");
            http.post(&path, &json!({"content": "@vibe go on"})).await?;
        }
        for _ in 0..STREAMS {
            self.model.asked().await?;
        }
        let before = self.group.used();
        let mut seen = Seen::default();
        while let Some(watched) = watching.join_next().await {
            let (_, of_one) = watched??;
            seen.first.extend(of_one.first);
            seen.later.extend(of_one.later);
        }
        let used = us((self.group.used() - before).total());
        let deltas = seen.first.len() + seen.later.len();
        Ok(Watched {
            per_delta: vec![used / float(deltas)],
            per_token: vec![used / float(STREAMS * TOKENS)],
            seen,
        })
    }
}

impl Watched {
    fn add(&mut self, round: Self) {
        self.per_delta.extend(round.per_delta);
        self.per_token.extend(round.per_token);
        self.seen.first.extend(round.seen.first);
        self.seen.later.extend(round.seen.later);
    }
}

pub(super) async fn run() -> anyhow::Result<()> {
    let mut table = Table::new(
        "100 streams watched on the node that runs them, or on the other one",
        &[
            "",
            "CPU-µs per delta, with bus and database",
            "of same node",
            "CPU-µs per token",
            "of same node",
            "first delta p99, ms late",
            "later p50",
            "p99",
        ],
    );
    for bus in [Bus::Nats, Bus::Notify] {
        let mut streaming = Streaming::start(bus).await?;
        let mut on: [Watched; 2] = Default::default();
        // The first round is a warm-up.
        for round in 0..=ROUNDS {
            for (node, watched) in on.iter_mut().enumerate() {
                let found = streaming.round(node).await?;
                if round > 0 {
                    watched.add(found);
                }
            }
        }
        let [same, _] = &on;
        for (name, watched) in ["same node", "other node"].into_iter().zip(&on) {
            table.row([
                format!("{}, {name}", bus.name()),
                format!("{:.0}", median(&watched.per_delta)),
                format!("{:.2}", ratio(&watched.per_delta, &same.per_delta)),
                format!("{:.0}", median(&watched.per_token)),
                format!("{:.2}", ratio(&watched.per_token, &same.per_token)),
                format!("{:.1}", percentile(&watched.seen.first, 0.99)),
                format!("{:.1}", percentile(&watched.seen.later, 0.5)),
                format!("{:.1}", percentile(&watched.seen.later, 0.99)),
            ]);
        }
    }
    table.print();
    say(&format!(
        "\n{STREAMS} streams of {TOKENS} tokens, one every {} ms, each with its own watcher; {ROUNDS} rounds. A delta is as late as its oldest token. \
         A delta over NOTIFY has more tokens, so its cost is only comparable per token.",
        TOKEN_EVERY.as_millis()
    ));
    Ok(())
}
