//! Generated trees in public, private, and direct channels. Their agents look everywhere and repeat all that they find, and still no
//! prompt, brief, tree, or replay has a text that its readers must not see.
//!
//! A few trees are part of the suite; `make trees TREES=5000 SEED=7` makes more.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
};

use futures::future::join_all;
use rand::{Rng, SeedableRng, rngs::StdRng};
use serde_json::{Value, json};

use crate::{
    replays, runs,
    support::{Answer, Person, Request, Team, id, list, setting, team_with, text},
    tools_loop::reader,
};

/// Trees in the suite: each shape in each place.
const TREES: usize = 20;
/// Number of trees that run at the same time.
const AT_ONCE: usize = 10;
/// Agents; each asks only the ones that come later in this list.
const AGENTS: [&str; 3] = ["alpha", "beta", "gamma"];
/// Rounds of a task in which it calls functions.
const ROUNDS: usize = 3;
/// Precedes the number of a case in its trigger message.
pub const CASE: &str = "Case ";

/// Number of the case that a request belongs to. Its trigger message precedes whatever the model finds.
pub fn case_of(request: &Request) -> usize {
    let turns = request.turns().join("\n");
    let (_, rest) = turns.split_once(CASE).expect("a trigger");
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap()
}

/// A conversation in which trees start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    /// Public.
    Open,
    /// Private.
    Plans,
    /// Private, with other people.
    Secret,
    /// Direct, with the same people as `Secret`.
    Pair,
    /// Direct, with an agent.
    Alone,
}

impl Place {
    const ALL: [Self; 5] = [
        Self::Open,
        Self::Plans,
        Self::Secret,
        Self::Pair,
        Self::Alone,
    ];

    fn of(case: usize) -> Self {
        Self::ALL[case % Self::ALL.len()]
    }

    /// Names of the people who can read it.
    fn readers(self) -> &'static [&'static str] {
        match self {
            Self::Open => &["Ada", "Bo", "Cy", "Eve"],
            Self::Plans => &["Ada", "Bo"],
            Self::Secret | Self::Pair => &["Bo", "Cy"],
            Self::Alone => &["Bo"],
        }
    }

    fn is_read_by(self, person: &Person) -> bool {
        self.readers().contains(&person.name.as_str())
    }

    /// Places whose texts a task here can use: everyone who reads the answer can read them.
    fn usable(self) -> BTreeSet<Self> {
        match self {
            Self::Alone => BTreeSet::from(Self::ALL),
            place => BTreeSet::from([Self::Open, place]),
        }
    }

    /// A mark in every text from this conversation.
    fn mark(self) -> &'static str {
        match self {
            Self::Open => "zqopen",
            Self::Plans => "zqplans",
            Self::Secret => "zqsecret",
            Self::Pair => "zqpair",
            Self::Alone => "zqalone",
        }
    }

    fn sentence(self, n: usize) -> String {
        format!("The note {}{n} is ready.", self.mark())
    }
}

/// Places that a text quotes.
fn quoted(text: &str) -> BTreeSet<Place> {
    let mut places = BTreeSet::from(Place::ALL);
    places.retain(|place| text.contains(place.mark()));
    places
}

/// Answer of an agent: a search, a delegation, or everything that it has seen.
fn answer(rng: &mut StdRng, threads: &[String], request: &Request) -> Answer {
    let facts = quoted(&request.all()).into_iter();
    let facts: Vec<String> = facts.map(|place| place.sentence(0)).collect();
    let position = AGENTS.iter().position(|name| *name == request.speaker);
    let askable = &AGENTS[position.unwrap() + 1..];
    let is_last = request.rounds().len() >= ROUNDS || request.body["tool_choice"] == "none";
    let calls = match rng.random_range(0..7) {
        _ if is_last => Vec::new(),
        0 => vec![("search_messages", json!({"query": "note ready"}))],
        1 => {
            let thread = &threads[rng.random_range(0..threads.len())];
            vec![("read_thread", json!({"thread": thread}))]
        }
        2 => vec![("search_decisions", json!({"query": "note"}))],
        3 => {
            let channel = ["general", "plans", "secret"][rng.random_range(0..3)];
            let arguments = json!({"query": "note", "channel": channel});
            vec![("search_messages", arguments)]
        }
        4 | 5 => {
            let subject = ["budget", "cover", "index", "title"][rng.random_range(0..4)];
            let message = format!("{CASE}{}: check the {subject}.", case_of(request));
            let ask = |agent: &&str| json!({"agent": agent, "message": message, "facts": facts});
            askable
                .iter()
                .map(|agent| ("delegate", ask(agent)))
                .collect()
        }
        _ => Vec::new(),
    };
    if calls.is_empty() {
        Answer::text(&format!("So far: {}", facts.join(" ")))
    } else {
        Answer::calls("", &calls)
    }
}

/// A team in which every place has a thread, and each channel a decision.
struct Places {
    t: Team,
    cy: Person,
    eve: Person,
    channels: BTreeMap<Place, String>,
    /// ID of the first agent.
    alpha: String,
    /// Path of a workflow in which it works.
    flow: String,
    seed: u64,
}

/// A tree, and the paths at which people see it.
struct Tree {
    place: Place,
    root: String,
    paths: Vec<String>,
}

/// Creates the agents. Returns the ID of the first one.
async fn make_agents(t: &Team) -> String {
    let tools = json!({"tools": [{"type": "file_search"}, {"type": "delegate"}]});
    let mut made = Vec::new();
    for name in AGENTS {
        made.push(id(&reader(&t.ada, name, tools.clone()).await));
    }
    made.remove(0)
}

/// Posts in a place and, in channels, decides. Returns the thread.
async fn prepare_place(place: Place, by: &Person, channel: &str) -> String {
    let started = by.start(channel, &place.sentence(0)).await;
    let (thread, root) = (text(&started, "/thread/id"), text(&started, "/message/id"));
    if !matches!(place, Place::Pair | Place::Alone) {
        let form = json!({"title": "Notes", "agent_id": null});
        let fork = id(&by.start_fork(&thread, &root, form).await);
        let resolution = json!({"headline": place.sentence(1)});
        by.publish_as(&fork, resolution).await;
    }
    thread
}

impl Places {
    async fn new() -> Self {
        let t = team_with(&[("RATE_LIMITS", "off"), ("COMPACTION", "off")]).await;
        let cy = t.app.join(&t.ada, "Cy", "member").await;
        let eve = t.app.join(&t.ada, "Eve", "member").await;
        let alpha = make_agents(&t).await;
        let pair = json!({"member_ids": [cy.id]});
        let pair = t.bo.post("/v1/direct", pair).await.is(201);
        let alone = json!({"agent_id": alpha});
        let alone = t.bo.post("/v1/direct", alone).await.is(201);
        let channels = BTreeMap::from([
            (Place::Open, t.general.clone()),
            (Place::Plans, t.ada.private_channel("plans", &[&t.bo]).await),
            (Place::Secret, t.bo.private_channel("secret", &[&cy]).await),
            (Place::Pair, id(&pair)),
            (Place::Alone, id(&alone)),
        ]);
        let step = json!({"id": "look", "kind": "agent", "agent_id": alpha, "prompt": "{{input}}\n{{decisions}}"});
        let form = json!({"name": "look", "agents": [alpha], "steps": [step]});
        let flow = t.bo.post("/v1/workflows", form).await.is(201);
        let places = Self {
            cy,
            eve,
            channels,
            alpha,
            flow: format!("/v1/workflows/{}", id(&flow)),
            seed: setting("OPENVIBE_TEST_TREES_SEED").unwrap_or(17),
            t,
        };
        places.prepare().await;
        places
    }

    /// Posts everywhere, and gives the agents their rule.
    async fn prepare(&self) {
        let mut threads = Vec::new();
        for (place, channel) in &self.channels {
            let by = self.readers(*place)[0];
            threads.push(prepare_place(*place, by, channel).await);
        }
        // The agent has replied in its direct channel.
        self.t.settled().await;
        let threads = Arc::new(threads);
        let rng = Arc::new(Mutex::new(StdRng::seed_from_u64(self.seed)));
        for name in AGENTS {
            let (threads, rng) = (Arc::clone(&threads), Arc::clone(&rng));
            let rule = move |request: &Request| answer(&mut rng.lock().unwrap(), &threads, request);
            self.t.model().answer_by(name, rule);
        }
    }

    fn people(&self) -> [&Person; 4] {
        [&self.t.ada, &self.t.bo, &self.cy, &self.eve]
    }

    fn readers(&self, place: Place) -> Vec<&Person> {
        let mut people = self.people().to_vec();
        people.retain(|person| place.is_read_by(person));
        people
    }

    /// Starts the tree of a case: a reply, a chain, a reply in a fork, or a run.
    async fn start(&self, case: usize) -> Tree {
        let place = Place::of(case);
        let readers = self.readers(place);
        let by = readers[case / TREES % readers.len()];
        let channel = &self.channels[&place];
        let wish = format!("{CASE}{case}: {}", place.sentence(case + 2));
        let is_direct = matches!(place, Place::Pair | Place::Alone);
        let (root, run) = match case / Place::ALL.len() % 4 {
            1 => {
                let chain = format!("@alpha {wish} → @beta say it again");
                let started = by.start(channel, &chain).await;
                (text(&started, "/tasks/0/id"), None)
            }
            2 if !is_direct => {
                let started = by.start(channel, "What is new?").await;
                let (thread, root) = (text(&started, "/thread/id"), text(&started, "/message/id"));
                let form = json!({"title": "News", "agent_id": null});
                let fork = id(&by.start_fork(&thread, &root, form).await);
                (by.ask_in(&fork, &format!("@alpha {wish}")).await, None)
            }
            3 => {
                let form = json!({"input": wish, "channel_id": channel});
                let run = runs::start(by, &self.flow, form).await;
                let root = text(&runs::run(by, &run).await, "/root_task_id");
                (root, Some(format!("/v1/runs/{run}")))
            }
            _ => {
                let started = by.start(channel, &format!("@alpha {wish}")).await;
                (text(&started, "/tasks/0/id"), None)
            }
        };
        let tree = format!("/v1/tasks/{root}/tree");
        Tree {
            place,
            root,
            paths: run.into_iter().chain([tree]).collect(),
        }
    }

    fn check(&self, found: &str, allowed: &BTreeSet<Place>, what: &str) {
        let foreign: Vec<Place> = quoted(found).difference(allowed).copied().collect();
        assert!(
            foreign.is_empty(),
            "seed {}, {what}: {foreign:?} in {found}",
            self.seed
        );
    }

    /// Checks a text that a person gets.
    fn check_for(&self, person: &Person, found: &str, what: &str) {
        let mut readable = BTreeSet::from(Place::ALL);
        readable.retain(|place| place.is_read_by(person));
        self.check(found, &readable, &format!("{what} for {}", person.name));
    }

    fn check_prompts(&self) {
        let mut requests = self.t.model().requests();
        requests.retain(|request| AGENTS.contains(&request.speaker.as_str()));
        for request in requests {
            let place = Place::of(case_of(&request));
            self.check(&request.all(), &place.usable(), "prompt");
        }
    }

    /// Checks what each person sees of a tree that has ended. Returns the number of briefs with texts of a place.
    async fn check_tree(&self, tree: &Tree) -> usize {
        let mut briefs = 0;
        for person in self.people() {
            let can_read = tree.place.is_read_by(person);
            for path in &tree.paths {
                let reply = person.get(path).await;
                let expected = if can_read { 200 } else { 404 };
                assert_eq!(reply.status, expected, "{path} for {}", person.name);
                self.check_for(person, &reply.text, path);
            }
            if !can_read {
                continue;
            }
            let path = format!("/v1/tasks/{}/tree", tree.root);
            let tasks = list(&person.get(&path).await.ok(), "/tasks");
            let has_texts = |task: &&Value| !quoted(&task["input"]["brief"].to_string()).is_empty();
            briefs = tasks.iter().filter(has_texts).count();
            for task in tasks {
                let path = format!("/v1/tasks/{}/context", id(&task));
                self.check_for(person, &person.get(&path).await.text, &path);
            }
        }
        briefs
    }

    /// Replays the first agent for a person. Returns the number of cases.
    async fn check_replay(&self, person: &Person) -> usize {
        self.t.model().forget();
        let path = format!("/v1/agents/{}/replays", self.alpha);
        let started = person.post(&path, json!({"draft": {}})).await;
        if started.status == 422 {
            assert_eq!(started.refused(422), "nothing_to_replay");
            return 0;
        }
        let task = text(&started.is(202), "/task/id");
        self.t.settled().await;
        for request in self.t.model().requests() {
            self.check_for(person, &request.all(), "replayed prompt");
        }
        let replay = replays::read(person, &task).await;
        self.check_for(person, &replay.text, "replay");
        list(&replay.is(200), "/cases").len()
    }

    /// Checks lists and events.
    async fn check_lists(&self) {
        for person in self.people() {
            for path in ["/v1/tasks", "/v1/runs"] {
                let found = json!(person.every(path).await).to_string();
                self.check_for(person, &found, path);
            }
            let events = json!(person.events().await).to_string();
            self.check_for(person, &events, "events");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_text_of_a_generated_tree_reaches_people_who_must_not_read_it() {
    let places = Places::new().await;
    let trees = setting("OPENVIBE_TEST_TREES").unwrap_or(TREES);
    let cases: Vec<usize> = (0..trees).collect();
    let (mut briefs, mut replayed) = (0, 0);
    for (n, batch) in cases.chunks(AT_ONCE).enumerate() {
        places.t.model().forget();
        let started = join_all(batch.iter().map(|case| places.start(*case))).await;
        places.t.settled().await;
        places.check_prompts();
        for tree in &started {
            briefs += places.check_tree(tree).await;
        }
        replayed += places.check_replay(places.people()[n % 4]).await;
    }
    places.check_lists().await;
    assert!(briefs > 0, "no brief was checked");
    assert!(replayed > 0, "no replay was checked");
}
