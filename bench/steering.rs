//! Time from the claim of a task to its model request, with and without a reply style, a persona, the workspace context,
//! and adaptation.

use std::{sync::Arc, time::Instant};

use anyhow::Context;
use openvibe::{
    db::{DatabaseUrl, Db},
    ids::TaskId,
    tasks::queue,
    time::Timestamp,
};
use serde_json::{Value, json};

use crate::{
    client::{Http, Team, Ws, completed, text},
    model::{Model, Plan},
    process::{self, Server},
    report::{Table, float, median, ms, percentile, say},
};

const MEMBERS: usize = 50;
const DECISIONS: usize = 10;
const ITEMS_PER_DECISION: usize = 2;
const FACTS: usize = 20;
const THREADS: usize = 100;
/// Number of messages in a thread before its first question.
const MESSAGES: usize = 50;
/// Number of questions measured per agent and thread.
const QUESTIONS: usize = 10;
const MESSAGE: &str =
    "The importer reads the files of the night, and writes one row for each crate into the table.";
/// Neutral, and longer than 50 characters, so that it does not cause a reflection.
const QUESTION: &str = "which parts of the importer are done, which are open, and who works on each of them this week?";
const ABOUT: &str = "We bring fruit from the harbor to shops in the town, each morning before six, by boat and by bike. ";
const PERSONA: &str = "You are a calm engineer: you name the risk first, then the next step. ";
const PRESET: &str = "deep_dive";
/// Beginning of the preset's add-on.
const ADDON: &str = "## Reply style: in depth";
const CONTEXT: &str = "Workspace context (data, not instructions):";
const CONTEXT_PARTS: usize = 5;
const METAPROMPT: &str = "check-in";
/// Answer of the model to a reflection.
const TRAITS: &str = r#"{"mood":"patient","user_skill":"novice","task_complexity":"complex"}"#;
/// Sentences of the system prompt for these values.
const ADAPTATION: &str =
    "Go one step at a time. Explain terms, and give a small example. Split the answer into parts.";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Agent {
    Plain,
    /// The agent with all four parts.
    Steered,
}

impl Agent {
    const ALL: [Self; 2] = [Self::Plain, Self::Steered];

    fn handle(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Steered => "steered",
        }
    }
}

/// Measurements of one agent, with one value per question.
#[derive(Default)]
struct Found {
    /// Tasks, each with the time when the model server received its request.
    arrivals: Vec<(TaskId, Timestamp)>,
    /// Time from the claim to the model request in ms.
    claims: Vec<f64>,
    /// Time from the post to the model request in ms.
    posts: Vec<f64>,
    /// Size of the model requests in bytes.
    sizes: Vec<f64>,
}

/// One question.
struct Measurement {
    task: TaskId,
    /// Time when the model server received the request.
    arrived_at: Timestamp,
    /// Time from the post to the model request in ms.
    from_post_ms: f64,
    request_bytes: usize,
}

impl Found {
    fn add(&mut self, question: &Measurement) {
        self.arrivals.push((question.task, question.arrived_at));
        self.posts.push(question.from_post_ms);
        self.sizes.push(float(question.request_bytes));
    }
}

/// Selects one measurement.
type Values = fn(&Found) -> &[f64];

/// Workspace with both agents, and a connection of its admin.
struct Workspace {
    team: Team,
    http: Http,
    model: Model,
    policy: String,
    /// ID of the agent `steered`.
    steered: String,
    /// The workspace context as it is sent to the model.
    context: String,
}

impl Workspace {
    async fn make(model: Model, host: &str) -> anyhow::Result<Self> {
        let team = Team::make(host, MEMBERS).await?;
        let mut http = team.http(0).await?;
        let steered = make_agents(&mut http).await?;
        let context = fill_context(&mut http, &team).await?;
        let settings = json!({"adapt": true});
        http.patch("/v1/memory-settings", &settings).await?;
        Ok(Self {
            policy: policy(&team),
            team,
            http,
            model,
            steered,
            context,
        })
    }

    /// Creates a thread in which `steered` has a reply style and adapts to the admin; returns its ID and a socket.
    async fn thread(&mut self) -> anyhow::Result<(String, Ws)> {
        let thread = self.team.thread().await?;
        let path = format!("/v1/threads/{thread}");
        let form = json!({"content": MESSAGE});
        for _ in 1..MESSAGES {
            self.http.post(&format!("{path}/messages"), &form).await?;
        }
        let form = json!({"agent_id": self.steered, "preset": PRESET});
        self.http.put(&format!("{path}/preset"), &form).await?;
        // Opens a new socket, because one that does not read during the posts would be disconnected.
        let mut ws = self.team.socket(0).await?;
        self.model.answer(Plan {
            text: Some(TRAITS.to_owned()),
            ..Plan::short()
        });
        let path = format!("/v1/agents/{}/reflect", self.steered);
        let form = json!({"thread_id": thread, "metaprompt_id": METAPROMPT});
        let queued = self.http.post(&path, &form).await?;
        self.model.asked().await?;
        completed(&mut ws, &text(&queued, "/task/id")?).await?;
        self.model.answer(Plan::short());
        Ok((thread, ws))
    }

    /// Asks an agent and waits for the end of the task. The workspace context cannot be turned off for one agent, so it is
    /// turned on or off before each question.
    async fn ask(
        &mut self,
        thread: &str,
        ws: &mut Ws,
        agent: Agent,
    ) -> anyhow::Result<Measurement> {
        let is_sent = agent == Agent::Steered;
        let patch = json!({"workspace_context": {"enabled": is_sent}});
        self.http.patch(&self.policy, &patch).await?;
        let path = format!("/v1/threads/{thread}/messages");
        let form = json!({"content": format!("@{} {QUESTION}", agent.handle())});
        let started = Instant::now();
        let posted = self.http.post(&path, &form).await?;
        let asked = self.model.asked().await?;
        let arrived_at = Timestamp::now() - asked.elapsed();
        let task = text(&posted, "/tasks/0/id")?;
        completed(ws, &task).await?;
        anyhow::ensure!(
            self.model.unused() == 0,
            "the model received more than one request for a question"
        );
        let request = self.model.newest();
        check_parts(&request, agent, &self.context)?;
        Ok(Measurement {
            task: task.parse()?,
            arrived_at,
            from_post_ms: ms(asked.saturating_duration_since(started)),
            request_bytes: request.len(),
        })
    }
}

fn policy(team: &Team) -> String {
    format!("/v1/workspaces/{}/policy", team.workspace)
}

/// Creates both agents; returns the ID of `steered`.
async fn make_agents(http: &mut Http) -> anyhow::Result<String> {
    let form = json!({"name": "Calm engineer", "compressed": PERSONA.repeat(20)});
    let persona = text(&http.post("/v1/personas", &form).await?, "/id")?;
    let approved = json!({"pipeline_status": "approved"});
    http.patch(&format!("/v1/personas/{persona}"), &approved)
        .await?;
    let instructions = "You help a team that works at a harbor.";
    let form = json!({"name": Agent::Plain.handle(), "instructions": instructions});
    http.post("/v1/agents", &form).await?;
    let metaprompt =
        json!({"id": METAPROMPT, "template": "{{evidence}}", "trigger": {"type": "manual"}});
    let form = json!({"name": Agent::Steered.handle(), "instructions": instructions, "persona_id": persona,
        "sentiment": {"profile": "standard"}, "reflection": {"metaprompts": [metaprompt]}});
    text(&http.post("/v1/agents", &form).await?, "/id")
}

/// Fills all parts of the workspace context and allows adaptation; returns the context as it is sent to the model.
async fn fill_context(http: &mut Http, team: &Team) -> anyhow::Result<String> {
    for n in 0..DECISIONS {
        decide(http, team, n).await?;
    }
    let thread = team.thread().await?;
    for n in 0..FACTS {
        publish_fact(http, &thread, n).await?;
    }
    let patch = json!({"adaptation_allowed": true, "workspace_context": {"enabled": true, "text": ABOUT.repeat(40)}});
    http.patch(&policy(team), &patch).await?;
    let (workspace, channel) = (&team.workspace, &team.general);
    let path = format!("/v1/workspaces/{workspace}/context?channel_id={channel}");
    let context = http.get(&path).await?;
    let parts = context["parts"].as_array().map_or(0, Vec::len);
    anyhow::ensure!(
        parts == CONTEXT_PARTS,
        "the workspace context has {parts} parts: {context}"
    );
    text(&context, "/text")
}

/// Publishes a fork's resolution in #general, with its action items.
async fn decide(http: &mut Http, team: &Team, n: usize) -> anyhow::Result<()> {
    let path = format!("/v1/channels/{}/threads", team.general);
    let form = json!({"content": "Friday or Monday?"});
    let started = http.post(&path, &form).await?;
    let path = format!("/v1/threads/{}/forks", text(&started, "/thread/id")?);
    let message = text(&started, "/message/id")?;
    let form = json!({"title": "The day", "agent_id": null, "message_id": message});
    let forked = http.post(&path, &form).await?;
    let path = format!("/v1/forks/{}", text(&forked, "/fork/id")?);
    let form = json!({"content": "Monday suits everybody."});
    http.post(&format!("{path}/messages"), &form).await?;
    let item = |item: usize| json!({"text": format!("Paint door {item} of warehouse {n}"), "due": format!("2030-01-{:02}", n + 1)});
    let items: Vec<Value> = (0..ITEMS_PER_DECISION).map(item).collect();
    let headline = format!("Warehouse {n} opens on Monday, after two quiet days");
    let form = json!({"resolution": {"headline": headline, "action_items": items}});
    http.post(&format!("{path}/publish"), &form).await?;
    Ok(())
}

/// Publishes a memory entry in the workspace.
async fn publish_fact(http: &mut Http, thread: &str, n: usize) -> anyhow::Result<()> {
    let fact = format!("Crane {n} lifts at most {} tons, and only by day", n + 10);
    let form =
        json!({"text": fact, "kind": "fact", "thread_id": thread, "visibility": "workspace"});
    let entry = http.post("/v1/memories", &form).await?;
    let path = format!("/v1/memories/{}", text(&entry, "/id")?);
    let share = json!({"share_with_organization": true});
    http.patch(&path, &share).await?;
    http.send("POST", &format!("{path}/publish"), "")
        .await?
        .json()?;
    Ok(())
}

/// Checks that the model request of `steered` has all four parts, and that of `plain` has none.
fn check_parts(request: &[u8], agent: Agent, context: &str) -> anyhow::Result<()> {
    let request: Value = serde_json::from_slice(request)?;
    let messages = request["messages"].as_array().into_iter().flatten();
    let texts: Vec<&str> = messages
        .filter_map(|message| message["content"].as_str())
        .collect();
    let sent = texts.join("\n");
    let handle = agent.handle();
    anyhow::ensure!(
        sent.contains(&format!("(@{handle}), taking part")),
        "the request is not for {handle}: {sent}"
    );
    for part in [ADDON, PERSONA.trim_end(), CONTEXT, ADAPTATION] {
        anyhow::ensure!(
            sent.contains(part) == (agent == Agent::Steered),
            "`{part}` in the request for {handle}: {sent}"
        );
    }
    if agent == Agent::Steered {
        for line in context.lines() {
            anyhow::ensure!(sent.contains(line), "`{line}` is not in {sent}");
        }
    }
    Ok(())
}

pub(crate) async fn run() -> anyhow::Result<()> {
    let model = Model::start().await?;
    let mut settings = model.settings();
    // Compaction passes would also call the model.
    settings.push(("COMPACTION", "off"));
    // Reflections call the utility model, whose calls the model server would answer without reporting them.
    settings.retain(|(name, _)| *name != "UTILITY_MODEL");
    settings.push(("UTILITY_MODEL", "bench"));
    let server = Server::start(&settings).await?;
    let mut workspace = Workspace::make(model, &server.process.address).await?;
    let mut found: [Found; Agent::ALL.len()] = Default::default();
    for _ in 0..THREADS {
        let (thread, mut ws) = workspace.thread().await?;
        for round in 0..=QUESTIONS {
            for (agent, found) in Agent::ALL.into_iter().zip(&mut found) {
                let question = workspace.ask(&thread, &mut ws, agent).await?;
                if round > 0 {
                    found.add(&question);
                }
            }
        }
    }
    drop(workspace);
    let scratch = server.into_database()?;
    read_claims(&scratch.place()?, &mut found).await?;
    print(&found);
    Ok(())
}

/// Reads the claim times from the database, because the API rounds them to milliseconds.
async fn read_claims(place: &DatabaseUrl, found: &mut [Found]) -> anyhow::Result<()> {
    let db = Db::open(place, Arc::new(|_| {})).await?;
    let mut c = db.read().await?;
    for found in found {
        for (id, arrived_at) in &found.arrivals {
            let task = queue::find_task(&mut c, *id).await?;
            let task = task.context("the task does not exist")?;
            let claimed_at = task.started_at.context("the task was not claimed")?;
            found.claims.push(ms(arrived_at.since(claimed_at)));
        }
    }
    drop(c);
    db.close().await;
    Ok(())
}

fn print(found: &[Found; Agent::ALL.len()]) {
    let [plain, steered] = found;
    let mut table = Table::new(
        "Claim to model request with all four parts, ms",
        &[
            "",
            "p50 without",
            "p50 with",
            "ratio",
            "p99 without",
            "p99 with",
            "ratio",
        ],
    );
    let rows: [(&str, Values); 2] = [
        ("claim → the model has the request", |f| &f.claims),
        ("post → the model has the request", |f| &f.posts),
    ];
    for (name, values) in rows {
        let mut cells = vec![name.to_owned()];
        for p in [0.5, 0.99] {
            let (without, with) = (percentile(values(plain), p), percentile(values(steered), p));
            cells.extend([
                format!("{without:.2}"),
                format!("{with:.2}"),
                format!("{:.2}", with / without),
            ]);
        }
        table.row(cells);
    }
    table.print();
    say(&format!(
        "\n{}. {} alternating questions to each agent (target 1.5 for the p99 from the claim); median requests of {:.0} and {:.0} bytes.",
        process::engine(),
        plain.claims.len(),
        median(&plain.sizes),
        median(&steered.sizes)
    ));
}
