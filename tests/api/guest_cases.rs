//! Generated sequences of posts and of channels of a guest: lists, search, events, and prompts contain no texts of channels that the guest is
//! not in.
//!
//! A few steps are part of the suite; `make guests STEPS=5000 SEED=7` makes more.

use rand::{Rng, SeedableRng, rngs::StdRng};
use serde_json::{Value, json};

use crate::{
    support::{Answer, Person, Team, id, list, setting, team_with, text},
    tools_loop::reader,
};

/// Steps in the suite.
const STEPS: usize = 60;
/// Number of steps between two checks.
const CHECKED_EVERY: usize = 6;
/// Words of the rooms; each text in a room contains its word.
const WORDS: [&str; 6] = ["kiwi", "mango", "papaya", "quince", "lychee", "durian"];
/// Number of public rooms, which come first.
const PUBLIC: usize = 4;
/// Maximum number of rooms of the guest.
const ROOMS_MAX: usize = 3;
/// Lists that a guest requests; a refusal must not contain texts of other channels either.
const LISTS: [&str; 24] = [
    "/v1/snapshot",
    "/v1/channels?limit=100",
    "/v1/members?limit=100",
    "/v1/inbox?limit=100",
    "/v1/inbox?state=later",
    "/v1/inbox?state=done",
    "/v1/inbox/changes?since=0",
    "/v1/inbox/asked",
    "/v1/inbox/catch-up",
    "/v1/following",
    "/v1/waiting",
    "/v1/tasks?limit=100",
    "/v1/actions?limit=100",
    "/v1/action-items",
    "/v1/decisions",
    "/v1/runs",
    "/v1/workflows",
    "/v1/schedules",
    "/v1/memories?user_id=me",
    "/v1/memories?scope=organization",
    "/v1/files",
    "/v1/search?q=plan",
    "/v1/search?kind=file&q=plan",
    "/v1/search?q=plan&match=any",
];

struct GuestRoom {
    id: String,
    word: &'static str,
    /// Threads, with their first messages.
    threads: Vec<(String, String)>,
}

struct GuestSequence {
    t: Team,
    gus: Person,
    rooms: Vec<GuestRoom>,
    /// Positions of the guest's rooms.
    open: Vec<usize>,
    rng: StdRng,
    seed: u64,
    /// Number of texts that were made.
    made: usize,
    /// Number of questions to the agent.
    asked: usize,
    /// Number of answers that were searched for words.
    cases: usize,
}

impl GuestSequence {
    async fn new() -> Self {
        let t = team_with(&[("RATE_LIMITS", "off")]).await;
        reader(&t.ada, "sage", json!({})).await;
        let mut rooms = Vec::new();
        for (n, word) in WORDS.into_iter().enumerate() {
            let form = json!({"name": format!("room-{word}"), "private": n >= PUBLIC});
            let room = id(&t.ada.post("/v1/channels", form).await.is(201));
            let path = format!("/v1/channels/{room}/members");
            t.ada.post(&path, json!({"user_id": t.bo.id})).await.is(201);
            rooms.push(GuestRoom {
                id: room,
                word,
                threads: Vec::new(),
            });
        }
        let gus = t.app.join_as_guest(&t.ada, "Gus", &["room-kiwi"]).await;
        let seed = setting("OPENVIBE_TEST_GUESTS_SEED").unwrap_or(1);
        let mut sequence = Self {
            t,
            gus,
            rooms,
            open: vec![0],
            rng: StdRng::seed_from_u64(seed),
            seed,
            made: 0,
            asked: 0,
            cases: 0,
        };
        for room in 0..WORDS.len() {
            sequence.start(room).await;
        }
        sequence
    }

    fn below(&mut self, n: usize) -> usize {
        self.rng.random_range(0..n)
    }

    /// A new text with the word of a room; some mention the guest or everyone.
    fn text_for(&mut self, room: usize) -> String {
        self.made += 1;
        let mention = ["", "@gus ", "@channel "][self.below(3)];
        format!("{mention}{} plan {}", self.rooms[room].word, self.made)
    }

    async fn start(&mut self, room: usize) {
        let content = self.text_for(room);
        let started = self.t.ada.start(&self.rooms[room].id, &content).await;
        let ids = (text(&started, "/thread/id"), text(&started, "/message/id"));
        self.rooms[room].threads.push(ids);
    }

    /// A thread of a room, with its first message.
    fn thread(&mut self, room: usize) -> (String, String) {
        let at = self.below(self.rooms[room].threads.len());
        self.rooms[room].threads[at].clone()
    }

    async fn publish(&mut self, room: usize) {
        let (thread, root) = self.thread(room);
        let headline = self.text_for(room).replace('@', "");
        let ada = &self.t.ada;
        let form = json!({"agent_id": null});
        let fork = id(&ada.start_fork(&thread, &root, form).await);
        ada.say_in(&fork, &headline).await;
        let items = json!([{"text": headline, "owner_id": self.t.bo.id}]);
        ada.publish_as(&fork, json!({"headline": headline, "action_items": items}))
            .await;
    }

    async fn attach(&mut self, room: usize) {
        let (thread, _) = self.thread(room);
        let content = self.text_for(room);
        let name = format!("{}-plan.txt", self.rooms[room].word);
        let file = id(&self.t.ada.upload(&name, content.as_bytes()).await);
        let form = json!({"content": content, "attachments": [file]});
        let path = format!("/v1/threads/{thread}/messages");
        self.t.ada.post(&path, form).await.is(201);
    }

    /// Lets an admin choose other rooms for the guest.
    async fn move_guest(&mut self) {
        let count = 1 + self.below(ROOMS_MAX);
        let mut open: Vec<usize> = (0..count).map(|_| self.below(WORDS.len())).collect();
        open.sort_unstable();
        open.dedup();
        let rooms: Vec<&str> = open.iter().map(|n| self.rooms[*n].id.as_str()).collect();
        let form = json!({"role": "guest", "channel_ids": rooms});
        let path = format!("/v1/members/{}", self.gus.id);
        self.t.ada.patch(&path, form).await.ok();
        self.open = open;
    }

    /// The guest asks an agent that searches, and nothing of other rooms reaches the model.
    async fn ask(&mut self) {
        let at = self.below(self.open.len());
        let room = self.open[at];
        let (thread, _) = self.thread(room);
        let search = ("search_messages", json!({"query": "plan"}));
        self.t.model().script(
            "sage",
            [Answer::calls("", &[search]), Answer::text("Found.")],
        );
        let task = self.gus.ask(&thread, "@sage what is planned?").await;
        self.t.ada.completed(&task).await;
        self.asked += 1;
        let requests = self.t.model().asked("sage", 2 * self.asked).await;
        for request in requests.iter().rev().take(2) {
            self.check("a prompt", &request.body.to_string());
        }
    }

    async fn step(&mut self) {
        let room = self.below(WORDS.len());
        match self.below(8) {
            0 => self.start(room).await,
            1 => {
                let (thread, _) = self.thread(room);
                let content = self.text_for(room);
                self.t.bo.say(&thread, &content).await;
            }
            2 => {
                let (_, root) = self.thread(room);
                let form = json!({"content": self.text_for(room)});
                let path = format!("/v1/messages/{root}");
                self.t.ada.patch(&path, form).await.ok();
            }
            3 => self.publish(room).await,
            4 => self.attach(room).await,
            5 => self.ask().await,
            _ => self.move_guest().await,
        }
    }

    /// Checks that a text has no word of a room that the guest is not in.
    fn check(&mut self, what: &str, shown: &str) {
        for (n, room) in self.rooms.iter().enumerate() {
            let is_open = self.open.contains(&n);
            assert!(
                is_open || !shown.contains(room.word),
                "seed {}: {} in {what}: {shown}",
                self.seed,
                room.word
            );
        }
        self.cases += 1;
    }

    async fn check_all(&mut self) {
        for path in LISTS {
            let reply = self.gus.get(path).await;
            assert!(reply.status < 500, "{path}: {}", reply.text);
            self.check(path, &reply.text);
        }
        // Those about the guest's own way into a room and out of it name the room.
        let mut events = self.gus.events().await;
        let own = [
            json!("channel.member_added"),
            json!("channel.member_removed"),
        ];
        events.retain(|event| {
            !own.contains(&event["type"]) || event["data"]["user_id"] != self.gus.id.as_str()
        });
        self.check("the events", &Value::from(events).to_string());
        for (n, word) in WORDS.into_iter().enumerate() {
            let found = self.gus.get(&format!("/v1/search?q={word}")).await.ok();
            if self.open.contains(&n) {
                continue;
            }
            assert!(list(&found, "/data").is_empty(), "{word}: {found}");
            let (thread, root) = self.thread(n);
            for path in [
                format!("/v1/channels/{}", self.rooms[n].id),
                format!("/v1/threads/{thread}"),
                format!("/v1/messages/{root}"),
            ] {
                self.gus.get(&path).await.refused(404);
            }
        }
    }
}

#[tokio::test]
async fn a_guest_gets_nothing_of_channels_that_they_are_not_in() {
    let mut sequence = GuestSequence::new().await;
    let steps = setting("OPENVIBE_TEST_GUESTS_STEPS").unwrap_or(STEPS);
    for step in 1..=steps {
        sequence.step().await;
        if step % CHECKED_EVERY == 0 || step == steps {
            sequence.check_all().await;
        }
    }
    // The guest sees the words of an open channel, so the checks above would notice those of a closed one.
    let room = &sequence.rooms[sequence.open[0]];
    let path = format!("/v1/channels/{}/threads", room.id);
    let threads = sequence.gus.get(&path).await.ok().to_string();
    assert!(threads.contains(room.word), "{threads}");
    assert!(sequence.cases > steps, "{} cases", sequence.cases);
}
