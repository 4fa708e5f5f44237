//! Searches by agents: time from the end of the call to the next model request, compared with `GET /v1/search` for the same words, in
//! a small workspace and in one with 10⁵ messages.

use std::{sync::Arc, time::Instant};

use anyhow::Context;
use openvibe::{
    chat::search::rebuild,
    db::{Conn, DatabaseUrl, Db, Engine as DatabaseEngine},
    ids::TaskId,
    tasks::actions::{self, ActionState},
};
use serde_json::json;
use uuid::Uuid;

use crate::{
    client::{Conversation, Http, Team, text},
    engine::Engine,
    model::{Model, Plan},
    process::{self, Server},
    report::{Table, ms, percentile, say},
    words::Words,
};

/// Number of messages in a workspace where a search is cheap, and in a large one.
const SIZES: [usize; 2] = [1_000, 100_000];
/// Number of channels, each with one thread, that contain the messages.
const TOPICS: usize = 10;
const ROUNDS: usize = 10;
/// Number of questions measured per thread.
const QUESTIONS: usize = 30;
/// Number of commits in the comparison.
const COMMITS: usize = 2;
const AGENT: &str = "reader";
const FUNCTION: &str = "search_messages";

/// Measurements with a number of messages, with one value per question.
#[derive(Default)]
struct Found {
    tasks: Vec<TaskId>,
    /// Time from the end of the call to the next model request in ms.
    rounds: Vec<f64>,
    /// Duration of the action in ms.
    actions: Vec<f64>,
    /// Time of `GET /v1/search` in ms.
    searches: Vec<f64>,
    /// Time of `COMMITS` bare durable writes in ms.
    writes: Vec<f64>,
}

/// Computes the value to report for a percentile.
type Figure = fn(&Found, f64) -> f64;

struct Workspace {
    team: Team,
    model: Model,
    words: Words,
    /// Threads, one per channel.
    threads: Vec<String>,
}

impl Workspace {
    async fn make(model: Model, host: &str) -> anyhow::Result<Self> {
        let team = Team::make(host, 2).await?;
        let mut http = team.http(0).await?;
        let tools = json!([{"type": "file_search"}]);
        let form = json!({"name": AGENT, "instructions": "You look things up.", "tools": tools});
        http.post("/v1/agents", &form).await?;
        let mut threads = Vec::new();
        for n in 0..TOPICS {
            let form = json!({"name": format!("topic-{n}")});
            let channel = http.post("/v1/channels", &form).await?;
            let path = format!("/v1/channels/{}/threads", text(&channel, "/id")?);
            let form = json!({"content": "Let us begin."});
            let started = http.post(&path, &form).await?;
            threads.push(text(&started, "/thread/id")?);
        }
        Ok(Self {
            team,
            model,
            words: Words::new(),
            threads,
        })
    }

    /// Adds `count` messages with search documents.
    async fn fill(&mut self, place: &DatabaseUrl, count: usize) -> anyhow::Result<()> {
        for thread in &self.threads {
            let texts: Vec<String> = (0..count / TOPICS).map(|_| self.words.message()).collect();
            let engine = Engine::open(place, Some(thread)).await?;
            engine.fill_with(texts).await?;
            engine.close().await?;
        }
        index_all(place).await
    }

    async fn measure(&mut self, engine: &Engine) -> anyhow::Result<Found> {
        let mut found = Found::default();
        for round in 0..=ROUNDS {
            let mut conversation = Conversation::start(&self.team).await?;
            for n in 0..QUESTIONS {
                let query = self.words.query();
                // Whichever runs second reads cached pages, so the order alternates.
                let (searched, (task, took)) = if n % 2 == 0 {
                    let searched = search(&mut conversation.http, &query).await?;
                    (searched, self.ask(&mut conversation, &query).await?)
                } else {
                    let asked = self.ask(&mut conversation, &query).await?;
                    (search(&mut conversation.http, &query).await?, asked)
                };
                let started = Instant::now();
                engine.post(COMMITS, 1).await?;
                let wrote = ms(started.elapsed());
                if round > 0 {
                    found.tasks.push(task);
                    found.rounds.push(took);
                    found.searches.push(searched);
                    found.writes.push(wrote);
                }
            }
        }
        Ok(found)
    }

    /// Asks the agent, which searches once; returns the task, and the time from the end of the call to the next model request
    /// in ms.
    async fn ask(
        &mut self,
        conversation: &mut Conversation,
        query: &str,
    ) -> anyhow::Result<(TaskId, f64)> {
        self.model.answer(Plan {
            calls: Some((FUNCTION, vec![json!({"query": query})])),
            ..Plan::short()
        });
        let task = conversation
            .ask(&format!("@{AGENT} do you know it?"))
            .await?;
        self.model.asked().await?;
        let asked = self.model.asked().await?;
        let called = self.model.called()?;
        conversation.completed(&task).await?;
        anyhow::ensure!(
            self.model.unused() == 0,
            "the model received more than two requests for a question"
        );
        Ok((task.parse()?, ms(asked.saturating_duration_since(called))))
    }
}

/// Time of a search over HTTP in ms.
pub(crate) async fn search(http: &mut Http, query: &str) -> anyhow::Result<f64> {
    let path = format!("/v1/search?q={}&match=any", query.replace(' ', "%20"));
    let started = Instant::now();
    let reply = http.send("GET", &path, "").await?;
    let took = ms(started.elapsed());
    reply.json()?;
    Ok(took)
}

/// Writes the search documents of all messages.
pub(crate) async fn index_all(place: &DatabaseUrl) -> anyhow::Result<()> {
    let db = Db::open(place, Arc::new(|_| {})).await?;
    db.write(Uuid::nil(), async |c: &mut Conn| {
        c.q("delete from meta where key = 'search'").run().await
    })
    .await?;
    rebuild::bring_up_to_date(&db, |_| {}).await?;
    if db.engine() == DatabaseEngine::Postgres {
        // Updates the statistics, as autovacuum does within a minute.
        //
        // Without this, autovacuum skips tables that do not change. With the statistics of an empty table, PostgreSQL chooses plans
        // that read the whole table, and it keeps these plans while the measured questions fill the task tables.
        db.write(Uuid::nil(), async |c: &mut Conn| {
            c.q("analyze messages, search_index").run().await
        })
        .await?;
    }
    db.scrub().await?;
    db.close().await;
    Ok(())
}

pub(crate) async fn run() -> anyhow::Result<()> {
    let other = Server::start(&[]).await?;
    let other_team = Team::make(&other.process.address, 1).await?;
    other_team.thread().await?;
    let bare = other.into_database()?;
    let engine = Engine::open(&bare.place()?, None).await?;

    let model = Model::start().await?;
    let mut settings = model.settings();
    // Compaction passes would also call the model.
    settings.push(("COMPACTION", "off"));
    let server = Server::start(&settings).await?;
    let mut workspace = Workspace::make(model, &server.process.address).await?;
    let place = server.scratch.place()?;
    let [few, many] = SIZES;
    workspace.fill(&place, few).await?;
    let with_few = workspace.measure(&engine).await?;
    workspace.fill(&place, many - few).await?;
    let with_many = workspace.measure(&engine).await?;
    drop(workspace);
    let scratch = server.into_database()?;
    let mut found = [with_few, with_many];
    read_actions(&scratch.place()?, &mut found).await?;
    print(&found);
    Ok(())
}

/// Reads the durations of the actions from the database, because the API rounds them to milliseconds.
async fn read_actions(place: &DatabaseUrl, found: &mut [Found]) -> anyhow::Result<()> {
    let db = Db::open(place, Arc::new(|_| {})).await?;
    let mut c = db.read().await?;
    for found in found {
        for task in &found.tasks {
            let actions = actions::of_task(&mut c, *task).await?;
            let action = actions.first().context("the task called no function")?;
            let (state, function) = (action.state, &action.function);
            anyhow::ensure!(
                state == ActionState::Done && function == FUNCTION,
                "{function} is {state}"
            );
            let started = action.started_at.context("the action did not start")?;
            let ended = action.ended_at.context("the action did not end")?;
            found.actions.push(ms(ended.since(started)));
        }
    }
    drop(c);
    db.close().await;
    Ok(())
}

fn print(found: &[Found; SIZES.len()]) {
    let mut table = Table::new(
        "Searches by an agent in 10³ and in 10⁵ messages, ms",
        &["", "10³: p50", "p95", "p99", "10⁵: p50", "p95", "p99"],
    );
    let rows: [(&str, Figure); 7] = [
        (
            "end of the call → the model has the next request",
            |f, p| percentile(&f.rounds, p),
        ),
        ("the action `search_messages`", |f, p| {
            percentile(&f.actions, p)
        }),
        ("`/v1/search`, same words", |f, p| {
            percentile(&f.searches, p)
        }),
        ("two bare durable writes", |f, p| percentile(&f.writes, p)),
        ("next request, over `/v1/search`", |f, p| {
            percentile(&f.rounds, p) - percentile(&f.searches, p)
        }),
        ("next request, over `/v1/search` and the writes", |f, p| {
            percentile(&f.rounds, p) - percentile(&f.searches, p) - percentile(&f.writes, p)
        }),
        ("the action, of `/v1/search`", |f, p| {
            percentile(&f.actions, p) / percentile(&f.searches, p)
        }),
    ];
    for (name, figure) in rows {
        let mut cells = vec![name.to_owned()];
        for found in found {
            cells.extend([0.5, 0.95, 0.99].map(|p| format!("{:.2}", figure(found, p))));
        }
        table.row(cells);
    }
    table.print();
    let [few, many] = found;
    say(&format!(
        "\n{}. {} and {} questions with one search each (targets: the next request at most 10 ms over `/v1/search` and the writes \
         in the p99; in 10⁵ messages, the action at most 300 ms and 3 times `/v1/search` in the p95).",
        process::engine(),
        few.rounds.len(),
        many.rounds.len()
    ));
}
