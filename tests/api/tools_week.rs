//! Approval cards in a generated week: a team of eight with three agents, on the real server with the scripted model.
//!
//! On five days, the people make the 100 requests of `MIX`, 20 per day in an order that depends on the seed. About half of them are
//! made in a new thread, the others in one in which several people have written. Everybody also chats each day. The mix was written
//! down before the first run and follows from the purpose of the functions: of 100 requests, 78 mostly look something up in the
//! workspace, 14 look outside, and 8 write to another system. To estimate the figure for another mix, multiply the cards per request
//! of each kind, which follow from the printed figures, by the number of its requests.
//!
//! The workspace has the default policy (trust level 2) and settings that an admin makes once: the domain of the team's handbook and
//! reads of the issue tracker are trusted; a new issue needs the requester's approval; a comment needs one only if the task has read
//! texts of others. About every tenth card, depending on the seed, is denied. About half of the others are allowed for an hour, if
//! the card offers it. The hour is always over before the next request.
//!
//! Cards are actions that needed a person's approval. Calls are all actions, including those that failed or were denied. `cargo test
//! --test api tools_week -- --nocapture` prints the figures.

use std::collections::BTreeMap;

use axum::Router;
use rand::{Rng, SeedableRng, rngs::StdRng, seq::SliceRandom};
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinSet};

use crate::{
    support::{Answer, McpServer, Person, Team, id, list, team_with},
    tools_loop::{actions, reader},
    tools_outward::{NEAR, jira},
};

const SEED: u64 = 1;
const REQUESTS_A_DAY: usize = 20;
const OTHERS: [&str; 6] = ["Cy", "Dan", "Eve", "Fay", "Gil", "Hal"];
const TOPICS: [&str; 10] = [
    "invoice", "release", "harbor", "login", "pricing", "backup", "survey", "contract", "printer",
    "training",
];

/// Kind of a request. The variants' comments list the calls that the agent makes, round by round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// Makes one search.
    Question,
    /// Searches, then reads the thread of a hit.
    FollowUp,
    /// Makes two searches, then reads two threads.
    Research,
    /// Reads a thread.
    CatchUp,
    /// Lists decisions.
    Decisions,
    /// Lists action items.
    ActionItems,
    /// Remembers a fact.
    Remember,
    /// Reads a page whose address is in the question.
    TypedPage,
    /// Searches, then reads a page of the handbook.
    HandbookPage,
    /// Searches, then reads a page of another site.
    UnknownPage,
    /// Queries the issue tracker.
    LookUp,
    /// Searches, then creates an issue.
    Issue,
    /// Queries the issue tracker, then writes a comment, and then another one.
    Comments,
}

/// Number of requests of each kind.
const MIX: [(Kind, usize); 13] = [
    (Kind::Question, 18),
    (Kind::FollowUp, 12),
    (Kind::Research, 10),
    (Kind::CatchUp, 14),
    (Kind::Decisions, 10),
    (Kind::ActionItems, 8),
    (Kind::Remember, 6),
    (Kind::TypedPage, 4),
    (Kind::HandbookPage, 4),
    (Kind::UnknownPage, 2),
    (Kind::LookUp, 4),
    (Kind::Issue, 5),
    (Kind::Comments, 3),
];

impl Kind {
    fn agent(self) -> &'static str {
        match self {
            Self::Question
            | Self::FollowUp
            | Self::Research
            | Self::TypedPage
            | Self::HandbookPage
            | Self::UnknownPage => "sage",
            Self::CatchUp | Self::Decisions | Self::ActionItems | Self::Remember => "scout",
            Self::LookUp | Self::Issue | Self::Comments => "clerk",
        }
    }
}

#[derive(Debug, Default)]
struct Counts {
    requests: usize,
    calls: usize,
    cards: usize,
}

type Calls = Vec<(&'static str, Value)>;

struct Week {
    t: Team,
    people: Vec<Person>,
    /// One thread per topic, in which several people have written.
    threads: Vec<String>,
    /// Origin of the handbook, which the workspace trusts.
    handbook: String,
    /// Origin of a site that the workspace does not know.
    web: String,
    rng: StdRng,
    _tracker: McpServer,
    _serving: JoinSet<()>,
}

fn search(topic: &str) -> (&'static str, Value) {
    ("search_messages", json!({"query": topic}))
}

fn fetch(url: &str) -> (&'static str, Value) {
    ("web_fetch", json!({"url": url}))
}

impl Week {
    async fn begin() -> Self {
        let near = [
            NEAR[0],
            NEAR[1],
            ("WEB_ALLOW", "127.0.0.1,localhost"),
            ("RATE_LIMITS", "off"),
            // Compaction passes would also call the model.
            ("COMPACTION", "off"),
        ];
        let t = team_with(&near).await;
        let mut people = vec![t.ada.clone(), t.bo.clone()];
        for name in OTHERS {
            people.push(t.app.join(&t.ada, name, "member").await);
        }
        let tracker = McpServer::start().await;
        let (tool, of_agent) = jira(&t.ada, &tracker).await;
        let trusted = json!({"trusted_reads": true});
        let path = format!("/v1/tools/{}", id(&tool));
        t.ada.patch(&path, trusted).await.is(200);
        let policy = format!("/v1/workspaces/{}/policy", t.ada.workspace);
        let trusted = json!({"trusted_domains": ["localhost"]});
        t.ada.patch(&policy, trusted).await.is(200);
        let file_search = json!({"type": "file_search"});
        for (name, tools) in [
            ("sage", json!([file_search, {"type": "web_fetch"}])),
            ("scout", json!([file_search])),
            ("clerk", json!([file_search, of_agent])),
        ] {
            reader(&t.ada, name, json!({"tools": tools})).await;
        }
        let mut threads = Vec::new();
        for (n, topic) in TOPICS.into_iter().enumerate() {
            let by = |offset: usize| &people[(n + offset) % people.len()];
            let thread = by(0)
                .thread(&t.general, &format!("Who looks after the {topic}?"))
                .await;
            by(1)
                .say(&thread, &format!("I did the last {topic}."))
                .await;
            by(3).say(&thread, &format!("The {topic} is mine.")).await;
            threads.push(thread);
        }
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let pages = Router::new().fallback(|| async { "The fair is on May 3." });
        let mut serving = JoinSet::new();
        serving.spawn(async move { axum::serve(listener, pages).await.unwrap() });
        Self {
            t,
            people,
            threads,
            handbook: format!("http://localhost:{port}"),
            web: format!("http://127.0.0.1:{port}"),
            rng: StdRng::seed_from_u64(SEED),
            _tracker: tracker,
            _serving: serving,
        }
    }

    /// Posts a message by each person.
    async fn chat(&mut self) {
        for person in &self.people {
            let topic = self.rng.random_range(0..TOPICS.len());
            let text = format!("News about the {}: it takes a day more.", TOPICS[topic]);
            person.say(&self.threads[topic], &text).await;
        }
    }

    /// Text of a request, and the rounds of calls with which the agent responds.
    fn script(&self, kind: Kind, topic: usize, n: usize) -> (String, Vec<Calls>) {
        let other = (topic + 1) % TOPICS.len();
        let read = |topic: usize| ("read_thread", json!({"thread": self.threads[topic]}));
        let find = ("jira__find", json!({"text": TOPICS[topic]}));
        let note = |part: usize| ("jira__note", json!({"text": format!("Note {n}.{part}")}));
        let fact = format!("The {} review starts on May {}", TOPICS[topic], n % 28 + 1);
        let remember = json!({"text": fact, "kind": "fact", "sources": []});
        let page = format!("{}/page/{n}", self.web);
        let handbook = format!("{}/page/{n}", self.handbook);
        let found = || search(TOPICS[topic]);
        let rounds = match kind {
            Kind::Question => vec![vec![found()]],
            Kind::FollowUp => vec![vec![found()], vec![read(topic)]],
            Kind::Research => vec![
                vec![found(), search(TOPICS[other])],
                vec![read(topic), read(other)],
            ],
            Kind::CatchUp => vec![vec![read(topic)]],
            Kind::Decisions => vec![vec![("search_decisions", json!({"query": TOPICS[topic]}))]],
            Kind::ActionItems => vec![vec![("list_action_items", json!({}))]],
            Kind::Remember => vec![vec![("remember", remember)]],
            Kind::TypedPage => vec![vec![fetch(&page)]],
            Kind::HandbookPage => vec![vec![found()], vec![fetch(&handbook)]],
            Kind::UnknownPage => vec![vec![found()], vec![fetch(&page)]],
            Kind::LookUp => vec![vec![find]],
            Kind::Issue => {
                let title = format!("Issue {n}");
                vec![
                    vec![found()],
                    vec![("jira__create", json!({"title": title}))],
                ]
            }
            Kind::Comments => vec![vec![find], vec![note(1)], vec![note(2)]],
        };
        let content = match kind {
            Kind::Remember => format!("remember this: {fact}."),
            Kind::TypedPage => format!("what does {page} say about us?"),
            _ => format!("please help me with the {}", TOPICS[topic]),
        };
        (content, rounds)
    }

    /// Makes a request as a random person, who also decides about its cards.
    async fn request(&mut self, kind: Kind, n: usize) -> Counts {
        let person = self.people[self.rng.random_range(0..self.people.len())].clone();
        let topic = self.rng.random_range(0..TOPICS.len());
        let thread = if self.rng.random_bool(0.5) {
            let root = format!("I have to see to the {}", TOPICS[topic]);
            person.thread(&self.t.general, &root).await
        } else {
            self.threads[topic].clone()
        };
        let (content, rounds) = self.script(kind, topic, n);
        let mut answers: Vec<Answer> = rounds
            .iter()
            .map(|calls| Answer::calls("", calls))
            .collect();
        answers.push(Answer::text("Here you are."));
        self.t.model().script(kind.agent(), answers);
        let mut socket = person.socket().await;
        let task = person
            .ask(&thread, &format!("@{} {content}", kind.agent()))
            .await;
        loop {
            let is_of_task = |event: &Value| {
                let seen = &event["data"]["task"];
                let status = seen["status"].as_str().unwrap_or_default();
                seen["id"] == task.as_str()
                    && (matches!(status, "completed" | "failed" | "cancelled")
                        || seen["wait_reason"] == "approval")
            };
            let event = socket.until("a request to end or wait", is_of_task).await;
            let seen = &event["data"]["task"];
            if seen["wait_reason"] != "approval" {
                assert_eq!(seen["status"], "completed", "{kind:?}: {seen}");
                break;
            }
            let path = format!("/v1/actions?task_id={task}&state=waiting");
            for action in list(&person.get(&path).await.ok(), "/data") {
                self.decide(&person, &action).await;
            }
        }
        let found = actions(&person, &json!({"id": task})).await;
        assert_eq!(found.len(), rounds.iter().map(Vec::len).sum::<usize>());
        let waiting = person.get("/v1/waiting").await.ok();
        for grant in list(&waiting, "/grants") {
            let path = format!("/v1/grants/{}", id(&grant));
            person.delete(&path).await.ok();
        }
        let is_card = |action: &&Value| !list(action, "/needs").is_empty();
        Counts {
            requests: 1,
            calls: found.len(),
            cards: found.iter().filter(is_card).count(),
        }
    }

    async fn decide(&mut self, person: &Person, action: &Value) {
        let draw = self.rng.random_range(0..10);
        let mut form = json!({"arguments_hash": action["arguments_hash"]});
        let verb = if draw == 0 { "deny" } else { "approve" };
        if draw % 2 == 1 && action["grantable"] == true {
            form["for"] = "hour".into();
        }
        let path = format!("/v1/actions/{}/{verb}", id(action));
        person.post(&path, form).await.is(200);
    }
}

#[expect(clippy::print_stderr, reason = "the figures of docs/performance.md")]
fn note(line: &str) {
    eprintln!("week: {line}");
}

#[tokio::test]
async fn in_a_week_people_are_asked_at_most_once_for_ten_calls() {
    let mut week = Week::begin().await;
    let mut requests: Vec<Kind> = Vec::new();
    for (kind, count) in MIX {
        requests.extend(std::iter::repeat_n(kind, count));
    }
    assert_eq!(requests.len(), 100);
    requests.shuffle(&mut week.rng);
    let mut found: BTreeMap<Kind, Counts> = BTreeMap::new();
    for (n, kind) in requests.into_iter().enumerate() {
        if n % REQUESTS_A_DAY == 0 {
            week.chat().await;
        }
        let one = week.request(kind, n).await;
        let all = found.entry(kind).or_default();
        all.requests += one.requests;
        all.calls += one.calls;
        all.cards += one.cards;
    }
    for (kind, of) in &found {
        note(&format!(
            "{kind:?}: {} requests, {} calls, {} cards",
            of.requests, of.calls, of.cards
        ));
        let asked = match kind {
            Kind::UnknownPage | Kind::Issue => of.requests..=of.requests,
            Kind::Comments => of.requests..=2 * of.requests,
            _ => 0..=0,
        };
        assert!(asked.contains(&of.cards), "{kind:?}: {of:?}");
    }
    let calls: usize = found.values().map(|of| of.calls).sum();
    let cards: usize = found.values().map(|of| of.cards).sum();
    note(&format!("{cards} cards for {calls} calls"));
    let sql = "select count(*) from actions".to_owned();
    let stored = week.t.app.place.numbers(&[sql]).await;
    assert_eq!(stored, [i64::try_from(calls).unwrap()]);
    assert!(cards * 10 <= calls, "{cards} cards for {calls} calls");
}
