//! Agents that work together, compared with a plain reply: waits between links, delegated tasks, and steps of runs; the time to stop
//! work; and CPU time.

use std::{sync::Arc, time::Instant};

use anyhow::Context;
use openvibe::{
    db::{DatabaseUrl, Db},
    ids::TaskId,
    tasks::queue,
};
use serde_json::{Value, json};

use crate::{
    client::{Conversation, Http, Team, text},
    model::{Model, Plan},
    process::{self, Server},
    report::{Table, float, median, ms, percentile, ratio, say},
};

const ROUNDS: usize = 10;
/// Number of questions measured per thread.
const QUESTIONS: usize = 30;
const STEPS: usize = 4;
const STOPS: usize = 30;
/// Number of tasks of each kind whose CPU time is measured in a round.
const TASKS: usize = 60;
const LINKS: usize = 5;
/// Parts of a text; a root task delegates a check of each part as one task. They differ, because the loop guard counts equal
/// delegations as repetitions.
const PARTS: [&str; 5] = ["title", "dates", "names", "sources", "tone"];
/// Number of branches of the run that is stopped, and number of tasks that each of them delegates.
const BRANCHES: usize = 5;
const LEAVES: usize = 3;
/// Maximum number of tasks of a tree that run concurrently.
const RUNNING_MAX: usize = 5;
const WRITER: &str = "scribe";
const CHECKER: &str = "checker";
const LEAD: &str = "lead";

/// Measured waits, one value per question.
#[derive(Default)]
struct Waits {
    /// Time from the mention to the model request in ms.
    mentions: Vec<f64>,
    /// Time from the end of the first link's text to the request of the second link in ms.
    links: Vec<f64>,
    /// Time from the end of a delegated task's text to the next request of its caller in ms.
    children: Vec<f64>,
    replies: Vec<TaskId>,
    /// Root tasks of runs.
    runs: Vec<TaskId>,
    /// Time from the end of a step until the task of the next step is queued, in ms.
    steps: Vec<f64>,
    /// Time from the post to the claim of the task in ms.
    claims: Vec<f64>,
}

impl Waits {
    fn add(&mut self, other: Self) {
        self.mentions.extend(other.mentions);
        self.links.extend(other.links);
        self.children.extend(other.children);
        self.replies.extend(other.replies);
        self.runs.extend(other.runs);
    }

    /// Reads the times of tasks from the database, because the API rounds them to milliseconds.
    async fn read_tasks(&mut self, place: &DatabaseUrl) -> anyhow::Result<()> {
        let db = Db::open(place, Arc::new(|_| {})).await?;
        let mut c = db.read().await?;
        for root in &self.runs {
            let mut tasks = queue::list_tree(&mut c, *root).await?;
            tasks.retain(|task| task.step_id.is_some());
            tasks.sort_by_key(|task| task.queued_at);
            anyhow::ensure!(tasks.len() == STEPS, "a run has {} steps", tasks.len());
            for pair in tasks.windows(2) {
                let ended = pair[0].completed_at.context("a step did not end")?;
                self.steps.push(ms(pair[1].queued_at.since(ended)));
            }
        }
        for task in &self.replies {
            let task = queue::find_task(&mut c, *task).await?;
            let task = task.context("a task does not exist")?;
            let claimed = task.started_at.context("a task was not claimed")?;
            self.claims.push(ms(claimed.since(task.queued_at)));
        }
        drop(c);
        db.close().await;
        Ok(())
    }
}

/// Measurements in ms, with one value per round.
#[derive(Default)]
struct Stops {
    /// Times to stop a single reply.
    one: Vec<f64>,
    /// Times to stop a tree.
    all: Vec<f64>,
}

/// CPU time per task in ms, one value per round.
#[derive(Default)]
struct Cpu {
    replies: Vec<f64>,
    links: Vec<f64>,
    delegations: Vec<f64>,
}

struct Workspace {
    server: Server,
    team: Team,
    model: Model,
    /// Path of a workflow whose agents run one after another.
    line: String,
    /// Path of a workflow whose agents run in branches and delegate.
    tree: String,
}

/// Waits until a task has completed, regardless of its children.
async fn completed(conversation: &mut Conversation, task: &str) -> anyhow::Result<()> {
    loop {
        let frame: Value = serde_json::from_str(&conversation.next_of(task).await?)?;
        let changed = &frame["data"]["task"];
        if changed["id"] == task && changed["status"] == "completed" {
            return Ok(());
        }
    }
}

/// Stops a task or its tree; returns the time in ms.
async fn stop(http: &mut Http, task: &str, scope: &str) -> anyhow::Result<f64> {
    let path = format!("/v1/tasks/{task}/cancel");
    let started = Instant::now();
    http.post(&path, &json!({"scope": scope})).await?;
    Ok(ms(started.elapsed()))
}

fn delegating(parts: &[&str]) -> Plan {
    let call = |part: &&str| json!({"agent": CHECKER, "message": format!("Check the {part}.")});
    Plan {
        calls: Some(("delegate", parts.iter().map(call).collect())),
        ..Plan::short()
    }
}

/// Creates an agent; returns its ID.
async fn agent(http: &mut Http, name: &str, tools: Value) -> anyhow::Result<String> {
    let form = json!({"name": name, "instructions": "You work on texts.", "tools": tools});
    text(&http.post("/v1/agents", &form).await?, "/id")
}

/// Creates a workflow; returns its path.
async fn workflow(http: &mut Http, form: &Value) -> anyhow::Result<String> {
    let made = http.post("/v1/workflows", form).await?;
    Ok(format!("/v1/workflows/{}", text(&made, "/id")?))
}

impl Workspace {
    async fn make() -> anyhow::Result<Self> {
        let model = Model::start().await?;
        let mut settings = model.settings();
        // Compaction passes would also call the model.
        settings.push(("COMPACTION", "off"));
        let server = Server::start(&settings).await?;
        let team = Team::make(&server.process.address, 1).await?;
        let mut http = team.http(0).await?;
        for name in [WRITER, CHECKER] {
            agent(&mut http, name, json!([])).await?;
        }
        let delegate = json!([{"type": "delegate"}]);
        agent(&mut http, LEAD, delegate.clone()).await?;
        let step = |n| json!({"id": format!("s{n}"), "kind": "agent", "prompt": "Write it."});
        let steps: Vec<Value> = (0..STEPS).map(step).collect();
        let line = workflow(&mut http, &json!({"name": "line", "steps": steps})).await?;
        // Each branch has its own agent, because the loop guard counts equal delegations of one agent as repetitions.
        let (mut agents, mut branches) = (Vec::new(), Vec::new());
        for n in 0..BRANCHES {
            let id = agent(&mut http, &format!("editor-{n}"), delegate.clone()).await?;
            let prompt = "Have it checked.";
            branches.push(
                json!([{"id": format!("b{n}"), "kind": "agent", "agent_id": id, "prompt": prompt}]),
            );
            agents.push(id);
        }
        let step = json!({"id": "all", "kind": "parallel", "branches": branches});
        let form = json!({"name": "tree", "agents": agents, "steps": [step]});
        let tree = workflow(&mut http, &form).await?;
        Ok(Self {
            server,
            team,
            model,
            line,
            tree,
        })
    }

    async fn waits(&mut self) -> anyhow::Result<Waits> {
        let mut found = Waits::default();
        let mut conversation = Conversation::start(&self.team).await?;
        for _ in 0..QUESTIONS {
            let (task, took) = self.mention(&mut conversation).await?;
            found.replies.push(task);
            found.mentions.push(took);
            found.links.push(self.chain(&mut conversation).await?);
            found
                .children
                .push(self.delegation(&mut conversation).await?);
            found.runs.push(self.run(&mut conversation).await?);
            anyhow::ensure!(
                self.model.unused() == 0,
                "the model received more requests than expected"
            );
        }
        Ok(found)
    }

    /// Asks an agent; returns its task, and the time from the mention to the model request in ms.
    async fn mention(&mut self, conversation: &mut Conversation) -> anyhow::Result<(TaskId, f64)> {
        self.model.answer(Plan::short());
        let started = Instant::now();
        let task = conversation.ask(&format!("@{WRITER} write it")).await?;
        let asked = self.model.asked().await?;
        self.model.answered().await?;
        completed(conversation, &task).await?;
        let took = ms(asked.saturating_duration_since(started));
        Ok((task.parse()?, took))
    }

    /// Posts a chain of two links; returns the time between them in ms.
    async fn chain(&mut self, conversation: &mut Conversation) -> anyhow::Result<f64> {
        let posted = conversation.post(&chain_of(2)).await?;
        self.model.asked().await?;
        let ended = self.model.answered().await?;
        let asked = self.model.asked().await?;
        self.model.answered().await?;
        completed(conversation, &text(&posted, "/tasks/1/id")?).await?;
        Ok(ms(asked.saturating_duration_since(ended)))
    }

    /// Asks an agent that delegates once; returns the time from the end of the delegated task to the next request in ms.
    async fn delegation(&mut self, conversation: &mut Conversation) -> anyhow::Result<f64> {
        self.model.answer(delegating(&PARTS[..1]));
        let task = conversation
            .ask(&format!("@{LEAD} have it checked"))
            .await?;
        for _ in [LEAD, CHECKER] {
            self.model.asked().await?;
        }
        let ended = self.model.answered().await?;
        let asked = self.model.asked().await?;
        self.model.answered().await?;
        completed(conversation, &task).await?;
        self.model.answer(Plan::short());
        Ok(ms(asked.saturating_duration_since(ended)))
    }

    /// Runs the workflow with sequential steps; returns the root task.
    async fn run(&mut self, conversation: &mut Conversation) -> anyhow::Result<TaskId> {
        let root = start(&self.team, &mut conversation.http, &self.line).await?;
        for _ in 0..STEPS {
            self.model.asked().await?;
            self.model.answered().await?;
        }
        completed(conversation, &root).await?;
        Ok(root.parse()?)
    }

    /// Stops a reply and a tree; returns the times in ms.
    async fn stops(&mut self) -> anyhow::Result<(f64, f64)> {
        let mut conversation = Conversation::start(&self.team).await?;
        self.model.answer(Plan {
            is_endless: true,
            ..Plan::short()
        });
        let task = conversation.ask(&format!("@{WRITER} write it")).await?;
        self.model.asked().await?;
        let http = &mut conversation.http;
        let one = stop(http, &task, "task").await?;
        self.model.answer(Plan {
            is_endless: true,
            ..delegating(&PARTS[..LEAVES])
        });
        let root = start(&self.team, http, &self.tree).await?;
        for _ in 0..BRANCHES + RUNNING_MAX {
            self.model.asked().await?;
        }
        let path = format!("/v1/tasks/{root}/tree");
        let tree = http.get(&path).await?;
        let tasks = tree["tasks"].as_array().map_or(0, Vec::len);
        let expected = 1 + BRANCHES + BRANCHES * LEAVES;
        anyhow::ensure!(tasks == expected, "the tree has {tasks} tasks: {tree}");
        let all = stop(http, &root, "tree").await?;
        let tree = http.get(&path).await?;
        anyhow::ensure!(tree["status"] == "cancelled", "not stopped: {tree}");
        self.model.forget();
        Ok((one, all))
    }

    /// CPU time per task in ms: for plain replies, for chains, and for delegations.
    async fn cpu(&mut self) -> anyhow::Result<[f64; 3]> {
        self.model.answer(Plan::short());
        let used = self.server.process.cpu();
        let mut conversation = Conversation::start(&self.team).await?;
        for _ in 0..TASKS {
            let task = conversation.ask(&format!("@{WRITER} write it")).await?;
            completed(&mut conversation, &task).await?;
        }
        let replies = self.server.process.cpu().saturating_sub(used);

        let used = self.server.process.cpu();
        let mut conversation = Conversation::start(&self.team).await?;
        for _ in 0..TASKS / LINKS {
            let posted = conversation.post(&chain_of(LINKS)).await?;
            let last = text(&posted, &format!("/tasks/{}/id", LINKS - 1))?;
            completed(&mut conversation, &last).await?;
        }
        let links = self.server.process.cpu().saturating_sub(used);

        self.model.answer(delegating(&PARTS));
        let used = self.server.process.cpu();
        let mut conversation = Conversation::start(&self.team).await?;
        for _ in 0..TASKS / (PARTS.len() + 1) {
            let task = conversation
                .ask(&format!("@{LEAD} have it checked"))
                .await?;
            completed(&mut conversation, &task).await?;
        }
        let delegations = self.server.process.cpu().saturating_sub(used);
        self.model.forget();
        Ok([replies, links, delegations].map(|used| ms(used) / float(TASKS)))
    }
}

/// Returns a message that mentions a chain of agents.
fn chain_of(links: usize) -> String {
    let agents = [WRITER, CHECKER].into_iter().cycle().take(links);
    let links: Vec<String> = agents.map(|agent| format!("@{agent} go on")).collect();
    links.join(" → ")
}

/// Starts a run in #general; returns its root task.
async fn start(team: &Team, http: &mut Http, flow: &str) -> anyhow::Result<String> {
    let form = json!({"channel_id": team.general});
    let started = http.post(&format!("{flow}/runs"), &form).await?;
    text(&started, "/task/id")
}

pub(crate) async fn run() -> anyhow::Result<()> {
    let mut workspace = Workspace::make().await?;
    let (mut waits, mut stops, mut cpu) = (Waits::default(), Stops::default(), Cpu::default());
    for round in 0..=ROUNDS {
        let measured = workspace.waits().await?;
        if round > 0 {
            waits.add(measured);
        }
    }
    for round in 0..=STOPS {
        let (one, all) = workspace.stops().await?;
        if round > 0 {
            stops.one.push(one);
            stops.all.push(all);
        }
    }
    for round in 0..=ROUNDS {
        let [replies, links, delegations] = workspace.cpu().await?;
        if round > 0 {
            cpu.replies.push(replies);
            cpu.links.push(links);
            cpu.delegations.push(delegations);
        }
    }
    let scratch = workspace.server.into_database()?;
    waits.read_tasks(&scratch.place()?).await?;
    print_waits(&waits);
    print_stops(&stops);
    print_cpu(&cpu);
    Ok(())
}

fn print_waits(waits: &Waits) {
    let mut table = Table::new(
        "Agents that work together, ms",
        &["", "p50", "p99", "beside: p50", "p99", "ratio of the p99"],
    );
    for (name, values, beside) in [
        (
            "end of a link → the model has the next request, beside mention → request",
            &waits.links,
            &waits.mentions,
        ),
        (
            "end of a delegated task → the model has the next request, beside mention → request",
            &waits.children,
            &waits.mentions,
        ),
        (
            "end of a step → the next task is queued, beside post → claim of a reply",
            &waits.steps,
            &waits.claims,
        ),
    ] {
        let mut cells = vec![name.to_owned()];
        for values in [values, beside] {
            cells.extend([0.5, 0.99].map(|p| format!("{:.2}", percentile(values, p))));
        }
        let of = percentile(values, 0.99) / percentile(beside, 0.99);
        cells.push(format!("{of:.2}"));
        table.row(cells);
    }
    table.print();
    say(&format!(
        "\n{}. {} questions of each kind, one after the other (targets of the ratio: 1.5 for requests, 2 for steps).",
        process::engine(),
        waits.mentions.len()
    ));
}

fn print_stops(stops: &Stops) {
    let mut table = Table::new("Stop, ms", &["", "p50", "p99", "ratio of the medians"]);
    let of_tree = format!("{} tasks", BRANCHES + BRANCHES * LEAVES);
    for (name, values) in [
        ("a reply".to_owned(), &stops.one),
        (format!("a tree with {of_tree}"), &stops.all),
    ] {
        table.row([
            name,
            format!("{:.2}", median(values)),
            format!("{:.2}", percentile(values, 0.99)),
            format!("{:.2}", median(values) / median(&stops.one)),
        ]);
    }
    table.print();
    say(&format!(
        "\nRequest to response, {} times. Of the tree, {RUNNING_MAX} tasks run, and the others wait (targets: 1 s, and 3 times a reply).",
        stops.all.len()
    ));
}

fn print_cpu(cpu: &Cpu) {
    let mut table = Table::new(
        "CPU time of the server for a task, ms",
        &["", "median", "ratio"],
    );
    let of_chain = format!("a link of {LINKS}");
    let of_tree = format!("a task of a root with {} delegations", PARTS.len());
    for (name, values) in [
        ("a plain reply", &cpu.replies),
        (of_chain.as_str(), &cpu.links),
        (of_tree.as_str(), &cpu.delegations),
    ] {
        table.row([
            name.to_owned(),
            format!("{:.2}", median(values)),
            format!("{:.2}", ratio(values, &cpu.replies)),
        ]);
    }
    table.print();
    say(&format!(
        "\nMedians of {ROUNDS} alternating rounds with {TASKS} tasks of each kind, posts included (target of the ratio: 1.2)."
    ));
}
