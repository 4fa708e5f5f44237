//! Generated trees and the loop guard: agents that delegate in a ring are stopped after a few model calls, and useful work is not.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use futures::future::join_all;
use openvibe::{
    db::{Conn, Json},
    ids::{TaskId, WorkspaceId},
};
use rand::{Rng, SeedableRng, rngs::StdRng, seq::SliceRandom};
use serde_json::{Value, json};

use crate::{
    delegation::{delegate, delegating},
    support::{
        Answer, Gate, Person, Request, Socket, Team, id, list, number, setting, team_with, text,
    },
};

const SEED: u64 = 17;
/// Number of rings, and of trees with useful work, in the suite; `make trees` generates 100 of each.
const TREES: usize = 25;
/// Number of trees that run at the same time.
const AT_ONCE: usize = 10;
/// Maximum number of model calls of a ring.
const CALLS_MAX: i64 = 12;
const AGENTS: [&str; 5] = ["alpha", "beta", "gamma", "delta", "epsilon"];
/// Maximum number of agents in a collaboration.
const COLLABORATORS_MAX: usize = 4;
/// Prefix of a tree's number in its trigger message.
const CASE: &str = "Case ";
/// Score limit that no tree reaches.
const NO_GUARD: i64 = 1_000;

fn trees() -> usize {
    setting("OPENVIBE_TEST_GUARDED_TREES").unwrap_or(TREES)
}

/// Way in which the agents of a ring repeat themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Each agent asks the next one, and the last one asks the first. When all of them have finished, the first one starts again.
    Returning,
    /// Like `Returning`, but the second-to-last agent starts again.
    Nested,
    /// One agent asks all others at once, and each of them asks it in return.
    Hub,
    /// The last agent always gives the same answer.
    Echo,
    /// The agents repeat the same text in each turn of a collaboration.
    Turns,
}

#[derive(Debug, Clone, Copy)]
struct Ring {
    kind: Kind,
    size: usize,
    is_in_fork: bool,
}

impl Ring {
    /// Returns the ring for a tree number. Together, the numbers cover all kinds and sizes, in threads and in forks.
    fn of(case: usize) -> Self {
        let kinds = [
            Kind::Returning,
            Kind::Nested,
            Kind::Hub,
            Kind::Echo,
            Kind::Turns,
        ];
        let kind = kinds[case % kinds.len()];
        let size = 2 + case / kinds.len() % 4;
        Self {
            kind,
            size: match kind {
                Kind::Turns => size.min(COLLABORATORS_MAX),
                _ => size,
            },
            is_in_fork: kind == Kind::Turns || case / 20 % 2 == 1,
        }
    }

    /// The agents that an agent asks, and the number of rounds in which it asks them.
    fn asks(self, agent: usize) -> (Vec<usize>, usize) {
        let last = self.size - 1;
        let rounds_if = |is_endless| if is_endless { usize::MAX } else { 1 };
        match self.kind {
            Kind::Returning => (vec![(agent + 1) % self.size], rounds_if(agent == 0)),
            Kind::Nested => (vec![(agent + 1) % self.size], rounds_if(agent + 1 == last)),
            Kind::Hub if agent == 0 => ((1..self.size).collect(), usize::MAX),
            Kind::Hub => (vec![0], 1),
            Kind::Echo if agent < last => (vec![agent + 1], rounds_if(agent == 0)),
            Kind::Echo | Kind::Turns => (Vec::new(), 0),
        }
    }
}

/// Number of the tree that a request belongs to. Every request ends with the trigger message.
fn case_of(request: &Request) -> usize {
    let all = request.all();
    let (_, rest) = all.rsplit_once(CASE).expect("the trigger message");
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap()
}

fn position(agent: &str) -> usize {
    AGENTS.iter().position(|name| *name == agent).unwrap()
}

/// The words of a text in random order, followed by a new number.
fn varied(rng: &mut StdRng, text: &str) -> String {
    let mut words: Vec<&str> = text.split(' ').collect();
    words.shuffle(rng);
    let attempt = rng.random_range(10_000..100_000);
    format!("{} attempt {attempt}", words.join(" "))
}

/// Answer of an agent in a ring.
fn in_ring(rng: &mut StdRng, request: &Request) -> Answer {
    let ring = Ring::of(case_of(request));
    let (asked, rounds) = ring.asks(position(&request.speaker));
    if asked.is_empty() || request.rounds().len() >= rounds || is_last_call(request) {
        let text = "The plan needs more work before it can be signed";
        return Answer::text(&varied(rng, text));
    }
    let calls = asked.iter().map(|agent| {
        let message = varied(rng, "Look at the plan and settle what is still open");
        delegate(AGENTS[*agent], &message)
    });
    Answer::calls("", &calls.collect::<Vec<_>>())
}

/// Checks whether the request no longer allows function calls.
fn is_last_call(request: &Request) -> bool {
    request.body["tool_choice"] == "none"
}

/// Creates a team whose agents answer by a rule; returns it and the agents' IDs.
async fn team_by(
    tool: Value,
    rule: impl Fn(&Request) -> Answer + Send + Sync + 'static,
) -> (Team, Vec<String>) {
    let t = team_with(&[("RATE_LIMITS", "off"), ("COMPACTION", "off")]).await;
    let rule = Arc::new(rule);
    let mut agents = Vec::new();
    for name in AGENTS {
        agents.push(id(&delegating(&t.ada, name, tool.clone()).await));
        let rule = Arc::clone(&rule);
        t.model().answer_by(name, move |request| rule(request));
    }
    (t, agents)
}

/// A tree that was started, and the path of its conversation's messages.
struct Started {
    root: String,
    messages: String,
}

/// Starts the tree of a ring.
async fn start(t: &Team, agents: &[String], case: usize) -> Started {
    let ring = Ring::of(case);
    let wish = format!("{CASE}{case}: settle the plan");
    if !ring.is_in_fork {
        return in_thread(t, &wish).await;
    }
    let started = t.bo.start(&t.general, "What is the plan?").await;
    let (thread, root) = (text(&started, "/thread/id"), text(&started, "/message/id"));
    if ring.kind == Kind::Turns {
        let form = json!({"collaborators": &agents[..ring.size], "goal": wish});
        let begun = t.bo.try_fork(&thread, &root, form).await.is(201);
        return Started {
            root: text(&begun, "/task/id"),
            messages: format!("/v1/forks/{}/messages", text(&begun, "/fork/id")),
        };
    }
    let form = json!({"title": "The plan", "agent_id": null});
    let fork = id(&t.bo.start_fork(&thread, &root, form).await);
    Started {
        root: t.bo.ask_in(&fork, &format!("@{} {wish}", AGENTS[0])).await,
        messages: format!("/v1/forks/{fork}/messages"),
    }
}

/// Asks the first agent in a new thread; returns the tree.
async fn in_thread(t: &Team, wish: &str) -> Started {
    let content = format!("@{} {wish}", AGENTS[0]);
    let started = t.bo.start(&t.general, &content).await;
    Started {
        root: text(&started, "/tasks/0/id"),
        messages: format!("/v1/threads/{}/messages", text(&started, "/thread/id")),
    }
}

/// Position in the event log: `seq` and epoch.
async fn position_in_log(by: &Person) -> (i64, String) {
    let socket = by.socket().await;
    (socket.cursor, socket.epoch())
}

/// Waits until all trees that started after a position in the event log have ended. Returns their root tasks by ID.
async fn ended(
    by: &Person,
    (cursor, epoch): (i64, String),
    started: &[Started],
) -> HashMap<String, Value> {
    let mut socket = Socket::resume(by, cursor, &epoch).await;
    let mut ended = HashMap::new();
    while ended.len() < started.len() {
        let event = socket.of("task.status_changed").await;
        let task = &event["data"]["task"];
        let has_ended = !matches!(task["status"].as_str(), Some("queued" | "running"));
        if has_ended && started.iter().any(|tree| task["id"] == tree.root.as_str()) {
            ended.insert(id(task), task.clone());
        }
    }
    ended
}

async fn tree(by: &Person, root: &str) -> Value {
    by.get(&format!("/v1/tasks/{root}/tree")).await.ok()
}

/// A team whose agents delegate in rings.
async fn ring_team() -> (Team, Vec<String>) {
    let rng = Mutex::new(StdRng::seed_from_u64(SEED));
    team_by(json!({}), move |request| {
        in_ring(&mut rng.lock().unwrap(), request)
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agents_that_go_round_in_a_ring_are_stopped_within_twelve_calls() {
    let (t, agents) = ring_team().await;
    let cases: Vec<usize> = (0..trees()).collect();
    for batch in cases.chunks(AT_ONCE) {
        let since = position_in_log(&t.bo).await;
        let started = join_all(batch.iter().map(|case| start(&t, &agents, *case))).await;
        let roots = ended(&t.bo, since, &started).await;
        for (case, started) in batch.iter().zip(&started) {
            let ring = Ring::of(*case);
            let root = &roots[&started.root];
            assert_eq!(root["error"]["code"], "loop", "{case}, {ring:?}: {root}");
            let tree = tree(&t.bo, &started.root).await;
            let calls = number(&tree, "/spent/calls");
            assert!(calls <= CALLS_MAX, "{case}, {ring:?}: {calls} calls");
            assert_eq!(tree["status"], "failed", "{case}, {ring:?}: {tree}");
            let messages = t.bo.get(&started.messages).await.ok();
            let messages = list(&messages, "/data");
            let notices = messages
                .iter()
                .filter(|message| message["kind"] == "notice");
            assert_eq!(notices.count(), 1, "{case}, {ring:?}: {messages:?}");
        }
    }
}

/// Raises the guard's limit for a running tree, so that it is never stopped.
async fn turn_off_guard(t: &Team, root: &str) {
    let root: TaskId = root.parse().unwrap();
    let workspace: WorkspaceId = t.ada.workspace.parse().unwrap();
    let raise = async move |c: &mut Conn| {
        let read = c.q("select input from tasks where id = $1").bind(root);
        let Json(mut input) = read.value::<Json<Value>>().await?;
        input["options"]["guard"] = NO_GUARD.into();
        c.q("update tasks set input = $2 where id = $1")
            .bind(root)
            .bind(Json(input))
            .run()
            .await
    };
    t.app.db().write(workspace.0, raise).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_guard_a_ring_goes_on() {
    let gate: Arc<Mutex<Option<Gate>>> = Arc::default();
    let rng = Mutex::new(StdRng::seed_from_u64(SEED));
    let held = Arc::clone(&gate);
    let (t, agents) = team_by(json!({}), move |request| {
        let answer = in_ring(&mut rng.lock().unwrap(), request);
        match held.lock().unwrap().take() {
            Some(gate) => answer.held(&gate),
            None => answer,
        }
    })
    .await;
    // Covers rings of three agents, one of each kind.
    for case in 5..10 {
        let mut calls = Vec::new();
        for is_guarded in [true, false] {
            let first = Gate::new();
            *gate.lock().unwrap() = Some(first.clone());
            let since = position_in_log(&t.bo).await;
            let started = [start(&t, &agents, case).await];
            first.reached().await;
            if !is_guarded {
                turn_off_guard(&t, &started[0].root).await;
            }
            first.open();
            let roots = ended(&t.bo, since, &started).await;
            let root = &roots[&started[0].root];
            let is_loop = root["error"]["code"] == "loop";
            assert_eq!(is_loop, is_guarded, "{:?}: {root}", Ring::of(case));
            let tree = tree(&t.bo, &started[0].root).await;
            calls.push(number(&tree, "/spent/calls"));
        }
        assert!(calls[0] < calls[1], "{:?}: {calls:?}", Ring::of(case));
    }
}

/// Way in which agents share useful work of about fifteen steps: rounds with delegations, and answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    /// For each item, the first agent asks all others at once.
    FanOut,
    /// One agent writes and another one reviews, item by item.
    Reviews,
    /// The second agent asks the third one to review each item.
    Nested,
    /// The second agent asks the first by mistake, then does each item itself.
    Refused,
}

impl Work {
    const ALL: [Self; 4] = [Self::FanOut, Self::Reviews, Self::Nested, Self::Refused];

    fn of(case: usize) -> Self {
        Self::ALL[case % Self::ALL.len()]
    }

    fn items(self) -> usize {
        match self {
            Self::FanOut => 3,
            Self::Reviews | Self::Nested => 4,
            Self::Refused => 5,
        }
    }

    /// Number of delegated tasks.
    fn children(self) -> usize {
        match self {
            Self::FanOut => 12,
            Self::Reviews | Self::Nested => 8,
            Self::Refused => 5,
        }
    }
}

/// Numbers of a tree's items.
fn items_of(case: usize) -> Vec<u32> {
    let mut rng = StdRng::seed_from_u64(SEED + case as u64);
    let mut items = Vec::new();
    while items.len() < Work::of(case).items() {
        let item = rng.random_range(1_000..10_000);
        if !items.contains(&item) {
            items.push(item);
        }
    }
    items
}

/// Returns the number that follows a word in a brief.
fn number_after(word: &str, request: &Request) -> String {
    let all = request.all();
    let (_, rest) = all.split_once(word).expect("a brief");
    rest.chars().take_while(char::is_ascii_digit).collect()
}

/// Delegations of the first agent in a round.
fn shared_out(work: Work, items: &[u32], round: usize) -> Vec<(&'static str, Value)> {
    match (work, items.get(round)) {
        (Work::FanOut, Some(item)) => {
            let ask = |agent: &&str| delegate(agent, &format!("Check chapter {item}"));
            AGENTS[1..].iter().map(ask).collect()
        }
        (Work::Nested | Work::Refused, Some(item)) => {
            vec![delegate("beta", &format!("Prepare item {item}"))]
        }
        (Work::Reviews, _) => {
            let item = items.get(round / 2);
            let calls = item.map(|item| match round % 2 {
                0 => delegate("beta", &format!("Write section {item}")),
                _ => delegate("gamma", &format!("Review section {item}")),
            });
            calls.into_iter().collect()
        }
        (_, None) => Vec::new(),
    }
}

/// Returns the answer of an agent that does useful work; its wording is always the same.
fn in_honest_work(request: &Request) -> Answer {
    let (case, round) = (case_of(request), request.rounds().len());
    let work = Work::of(case);
    let calls = match (request.speaker.as_str(), work) {
        ("alpha", _) => shared_out(work, &items_of(case), round),
        ("beta", Work::Nested) if round == 0 => {
            let item = number_after("Prepare item ", request);
            vec![delegate("gamma", &format!("Review item {item}"))]
        }
        ("beta", Work::Refused) if round == 0 => {
            let item = number_after("Prepare item ", request);
            vec![delegate("alpha", &format!("Prepare item {item} yourself"))]
        }
        _ => Vec::new(),
    };
    if calls.is_empty() {
        Answer::text("It is done, and nothing is missing.")
    } else {
        Answer::calls("", &calls)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn honest_work_of_fifteen_steps_is_never_stopped() {
    let (t, _) = team_by(json!({"rounds_max": 10}), in_honest_work).await;
    let cases: Vec<usize> = (0..trees()).collect();
    for batch in cases.chunks(AT_ONCE) {
        let since = position_in_log(&t.bo).await;
        let wishes: Vec<String> = batch
            .iter()
            .map(|case| {
                let items: Vec<String> = items_of(*case).iter().map(u32::to_string).collect();
                format!("{CASE}{case}: do {}", items.join(", "))
            })
            .collect();
        let started = join_all(wishes.iter().map(|wish| in_thread(&t, wish))).await;
        let roots = ended(&t.bo, since, &started).await;
        for (case, started) in batch.iter().zip(&started) {
            let work = Work::of(*case);
            let root = &roots[&started.root];
            assert_eq!(root["status"], "completed", "{case}, {work:?}: {root}");
            let tree = tree(&t.bo, &started.root).await;
            let mut tasks = list(&tree, "/tasks");
            tasks.retain(|task| task["kind"] == "delegate");
            assert_eq!(tasks.len(), work.children(), "{case}, {work:?}: {tasks:?}");
            let is_done = |task: &Value| task["status"] == "completed";
            assert!(tasks.iter().all(is_done), "{case}, {work:?}: {tasks:?}");
        }
    }
}
