//! CPU time per delivery to 1,000 sockets, on one node and on two.

use std::time::Duration;

use futures::future::try_join_all;
use serde_json::json;

use super::group::{Bus, Group, Used};
use crate::{
    client::{Crowd, Http, Team},
    fanout::{BURST, MESSAGE},
    report::{Table, float, median, ratio, say, spread, us},
    sends::CONTENT,
};

const SOCKETS: usize = 1000;
const MEMBERS: usize = 20;
const ROUNDS: usize = 5;
/// Posts per round: when posted one at a time, and when posted in bursts.
const POSTS: [usize; 2] = [160, 320];

/// Nodes that share the sockets and the posts.
struct Sharing {
    group: Group,
    posters: Vec<Http>,
    messages: String,
    crowd: Crowd,
}

impl Sharing {
    async fn start(nodes: usize, bus: Bus) -> anyhow::Result<Self> {
        let group = Group::start(nodes, bus, &[]).await?;
        let team = Team::make(group.host(0), MEMBERS).await?;
        let messages = format!("/v1/threads/{}/messages", team.thread().await?);
        let teams: Vec<Team> = (0..nodes).map(|n| team.at(group.host(n))).collect();
        let mut sockets = Vec::with_capacity(SOCKETS);
        for n in 0..SOCKETS {
            sockets.push(teams[n % nodes].socket(n).await?);
        }
        let posters = try_join_all((0..BURST).map(|n| teams[n % nodes].http(n))).await?;
        Ok(Self {
            group,
            posters,
            messages,
            crowd: Crowd::read(sockets, MESSAGE),
        })
    }

    /// Posts messages in groups of `at_once`, and waits for all deliveries after each group.
    async fn round(&mut self, posts: usize, at_once: usize) -> anyhow::Result<Used> {
        let body = json!({"content": CONTENT}).to_string();
        let before = self.group.used();
        for _ in 0..posts / at_once {
            self.crowd.counter.expect(at_once * self.crowd.size);
            let sent = self
                .posters
                .iter_mut()
                .take(at_once)
                .map(|http| http.send("POST", &self.messages, &body));
            for reply in try_join_all(sent).await? {
                reply.json()?;
            }
            self.crowd.counter.wait().await?;
            // Rotates the posters, so that single posts alternate between the nodes.
            self.posters.rotate_left(at_once % BURST);
        }
        Ok(self.group.used() - before)
    }
}

/// CPU time of one configuration, one value per round.
#[derive(Default)]
struct Costs {
    /// µs per delivery.
    total: Vec<f64>,
    /// CPU time per delivery of the nodes, the bus, and the database.
    shares: [Vec<f64>; 3],
}

impl Costs {
    fn add(&mut self, used: Used, posts: usize) {
        let deliveries = float(posts * SOCKETS);
        let per_delivery = |time: Duration| us(time) / deliveries;
        self.total.push(per_delivery(used.total()));
        let times = [used.nodes, used.bus, used.database];
        for (share, time) in self.shares.iter_mut().zip(times) {
            share.push(per_delivery(time));
        }
    }

    fn text(&self) -> String {
        let [nodes, bus, database] = self.shares.each_ref().map(|share| median(share));
        let total = spread(&self.total, 2);
        format!("{total} = {nodes:.2} + {bus:.2} + {database:.2}")
    }
}

pub(super) async fn run() -> anyhow::Result<()> {
    let mut one = Sharing::start(1, Bus::Notify).await?;
    let buses = [Bus::Nats, Bus::Notify];
    let mut pairs = try_join_all(buses.map(|bus| Sharing::start(2, bus))).await?;
    let mut table = Table::new(
        "Fan-out to 1,000 sockets: CPU-µs per delivery of nodes + bus + database",
        &["bus, mode", "one node", "500 on each of two", "2 C₁ / C₂"],
    );
    let modes = [("one at a time", 1), ("bursts of 20", BURST)];
    for ((mode, at_once), posts) in modes.into_iter().zip(POSTS) {
        let mut alone = Costs::default();
        let mut shared = [Costs::default(), Costs::default()];
        // The first round is a warm-up.
        for round in 0..=ROUNDS {
            let used = one.round(posts, at_once).await?;
            if round > 0 {
                alone.add(used, posts);
            }
            for (pair, costs) in pairs.iter_mut().zip(&mut shared) {
                let used = pair.round(posts, at_once).await?;
                if round > 0 {
                    costs.add(used, posts);
                }
            }
        }
        for (bus, costs) in buses.into_iter().zip(&shared) {
            table.row([
                format!("{}, {mode}", bus.name()),
                alone.text(),
                costs.text(),
                format!("{:.2}", 2.0 * ratio(&alone.total, &costs.total)),
            ]);
        }
    }
    table.print();
    say(&format!(
        "\nWith storing. Both nodes post. Medians of {ROUNDS} rounds (lowest to highest); 2.00 is a second node at no cost."
    ));
    Ok(())
}
