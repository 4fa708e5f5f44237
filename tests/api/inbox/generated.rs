//! Generated sequences of causes, levels, and departures: nobody ever has an item that they cannot read.
//!
//! A few steps are part of the suite; `make inbox STEPS=5000 SEED=7` makes more.

use std::collections::BTreeSet;

use rand::{Rng, SeedableRng, rngs::StdRng};
use serde_json::{Value, json};

use super::{in_seconds, open_items};
use crate::support::{Person, Team, id, list, setting, team, text};

/// Steps in the suite.
const STEPS: usize = 150;
/// Number of steps between two checks.
const CHECKED_EVERY: usize = 5;
/// Maximum number of active forks in a channel.
const FORKS_MAX: usize = 5;
/// Number of lines of each group of a catch-up that are compared with their messages.
const LINES_CHECKED: usize = 3;
const LEVELS: [&str; 3] = ["all", "mentions", "none"];
const STATES: [&str; 3] = ["open", "later", "done"];

/// A channel, with what was made in it.
struct Room {
    id: String,
    is_direct: bool,
    /// Positions of its members among the people.
    members: BTreeSet<usize>,
    threads: Vec<StartedThread>,
    /// Active forks with a message.
    forks: Vec<String>,
}

struct StartedThread {
    id: String,
    root: String,
}

/// A reply in a thread.
struct SaidMessage {
    id: String,
    author: usize,
    room: usize,
}

/// People, channels, and everything that a sequence has made so far.
struct Sequence {
    t: Team,
    cy: Person,
    rooms: Vec<Room>,
    said: Vec<SaidMessage>,
    deleted: BTreeSet<String>,
    rng: StdRng,
    seed: u64,
}

/// The text as one line.
pub(super) fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

impl Sequence {
    async fn new() -> Self {
        let seed = setting("OPENVIBE_TEST_INBOX_SEED").unwrap_or(1);
        let t = team().await;
        let cy = t.app.join(&t.ada, "Cy", "member").await;
        let plans = t.ada.private_channel("plans", &[&t.bo, &cy]).await;
        let direct = json!({"member_ids": [t.bo.id]});
        let direct = id(&t.ada.post("/v1/direct", direct).await.ok());
        let room = |id: &str, is_direct: bool, members: &[usize]| Room {
            id: id.to_owned(),
            is_direct,
            members: members.iter().copied().collect(),
            threads: Vec::new(),
            forks: Vec::new(),
        };
        let rooms = vec![
            room(&t.general, false, &[0, 1, 2]),
            room(&plans, false, &[0, 1, 2]),
            room(&direct, true, &[0, 1]),
        ];
        let mut sequence = Self {
            t,
            cy,
            rooms,
            said: Vec::new(),
            deleted: BTreeSet::new(),
            rng: StdRng::seed_from_u64(seed),
            seed,
        };
        for room in 0..sequence.rooms.len() {
            sequence.start_thread(room, 0).await;
        }
        sequence
    }

    fn person(&self, n: usize) -> &Person {
        [&self.t.ada, &self.t.bo, &self.cy][n]
    }

    fn below(&mut self, n: usize) -> usize {
        self.rng.random_range(0..n)
    }

    /// A member of a channel.
    fn member(&mut self, room: usize) -> usize {
        let members: Vec<usize> = self.rooms[room].members.iter().copied().collect();
        members[self.below(members.len())]
    }

    async fn start_thread(&mut self, room: usize, who: usize) {
        let started = self
            .person(who)
            .start(&self.rooms[room].id, "A question")
            .await;
        self.rooms[room].threads.push(StartedThread {
            id: text(&started, "/thread/id"),
            root: text(&started, "/message/id"),
        });
    }

    async fn say(&mut self, room: usize, who: usize, content: &str) {
        let at = self.below(self.rooms[room].threads.len());
        let thread = self.rooms[room].threads[at].id.clone();
        let id = self.person(who).tell(&thread, content).await;
        let author = who;
        self.said.push(SaidMessage { id, author, room });
    }

    async fn start_fork(&mut self, room: usize, who: usize) {
        let at = self.below(self.rooms[room].threads.len());
        let StartedThread { id: thread, root } = &self.rooms[room].threads[at];
        let form = json!({"agent_id": null});
        let fork = id(&self.person(who).start_fork(thread, root, form).await);
        self.person(who).say_in(&fork, "@ada @bo @cy so?").await;
        self.rooms[room].forks.push(fork);
    }

    async fn publish(&mut self, room: usize, who: usize) {
        let Some(fork) = self.rooms[room].forks.pop() else {
            return;
        };
        let owner = self.member(room);
        let owner = self.person(owner).id.clone();
        let form =
            json!({"headline": "Monday", "action_items": [{"text": "Book", "owner_id": owner}]});
        self.person(who).publish_as(&fork, form).await;
    }

    async fn set_level(&mut self, room: usize, who: usize) {
        let level = LEVELS[self.below(LEVELS.len())];
        let at = self.below(self.rooms[room].threads.len() + 1);
        let path = match self.rooms[room].threads.get(at) {
            Some(thread) => format!("/v1/threads/{}/follow", thread.id),
            None if self.rooms[room].is_direct => return,
            None => format!("/v1/channels/{}/level", self.rooms[room].id),
        };
        let person = self.person(who);
        if path.ends_with("follow") && level == "mentions" {
            person.delete(&path).await.ok();
        } else {
            person.put(&path, json!({"level": level})).await.ok();
        }
    }

    /// Lets Bo or Cy leave a channel, or come back.
    async fn leave_or_join(&mut self, room: usize) {
        if self.rooms[room].is_direct {
            return;
        }
        let who = 1 + self.below(2);
        let channel = format!("/v1/channels/{}", self.rooms[room].id);
        if self.rooms[room].members.remove(&who) {
            let leave = format!("{channel}/leave");
            self.person(who).act(&leave).await.ok();
        } else {
            let form = json!({"user_id": self.person(who).id});
            let path = format!("{channel}/members");
            self.t.ada.post(&path, form).await.is(201);
            self.rooms[room].members.insert(who);
        }
    }

    async fn delete(&mut self) {
        let here: Vec<usize> = (0..self.said.len())
            .filter(|n| {
                let said = &self.said[*n];
                self.rooms[said.room].members.contains(&said.author)
            })
            .collect();
        if here.is_empty() {
            return;
        }
        let at = here[self.below(here.len())];
        let SaidMessage { id, author, .. } = self.said.swap_remove(at);
        let path = format!("/v1/messages/{id}");
        self.person(author).delete(&path).await.is(200);
        self.deleted.insert(id);
    }

    /// Changes the state of an item.
    async fn change_item(&mut self, who: usize) {
        let items = open_items(self.person(who)).await;
        if items.is_empty() {
            return;
        }
        let item = id(&items[self.below(items.len())]);
        let mut form = json!({"ids": [item], "state": STATES[self.below(STATES.len())]});
        if form["state"] == "later" {
            form["until"] = in_seconds(3600).into();
        }
        let person = self.person(who);
        person.put("/v1/inbox/state", form).await.is(200);
    }

    async fn step(&mut self) {
        let room = self.below(self.rooms.len());
        let who = self.member(room);
        match self.below(12) {
            0 => self.start_thread(room, who).await,
            1 => self.say(room, who, "Monday suits me").await,
            2 | 3 => self.say(room, who, "@ada @bo @cy can you?").await,
            4 if !self.rooms[room].is_direct => self.say(room, who, "@channel look").await,
            4 | 5 if self.rooms[room].forks.len() < FORKS_MAX => self.start_fork(room, who).await,
            4..=6 => self.publish(room, who).await,
            7 => self.set_level(room, who).await,
            8 | 9 => self.leave_or_join(room).await,
            10 => self.delete().await,
            _ => self.change_item(who).await,
        }
    }

    /// Checks that the newest lines of each group of a person's catch-up quote one message each, by its author.
    async fn check_catch_up(&self, who: usize) {
        let person = self.person(who);
        let summary = person.get("/v1/inbox/catch-up").await.ok();
        for group in list(&summary, "/groups") {
            for line in list(&group, "/lines").iter().take(LINES_CHECKED) {
                let sources = list(line, "/sources");
                assert_eq!(sources.len(), 1, "seed {}: {line}", self.seed);
                let message = person.message(sources[0].as_str().unwrap()).await;
                assert_eq!(message["author"]["id"], line["author"]["id"], "{line}");
                let whole = flat(&text(&message, "/content_plain"));
                let quoted = flat(&text(line, "/text"));
                assert!(whole.contains(quoted.trim_matches('…')), "{whole}: {line}");
            }
        }
    }

    /// Checks that each person can read every item of theirs.
    async fn check(&mut self, step: usize) {
        for who in 0..3 {
            let mut all: Vec<Value> = Vec::new();
            for state in STATES {
                all.extend(
                    self.person(who)
                        .every(&format!("/v1/inbox?state={state}"))
                        .await,
                );
            }
            let where_from = format!("seed {}, step {step}", self.seed);
            for item in &all {
                let room = self
                    .rooms
                    .iter()
                    .find(|room| item["channel_id"] == *room.id);
                let room = room.unwrap_or_else(|| panic!("{where_from}: {item}"));
                // Everyone can read the public channel, including people who have left it.
                let can_read = room.id == self.t.general || room.members.contains(&who);
                assert!(can_read, "{where_from}: {item}");
                let message = item["message_id"].as_str().unwrap_or_default();
                assert!(!self.deleted.contains(message), "{where_from}: {item}");
            }
            if all.is_empty() {
                continue;
            }
            // The server agrees.
            let item = &all[self.below(all.len())];
            let person = self.person(who);
            for (field, name) in [
                ("thread_id", "threads"),
                ("fork_id", "forks"),
                ("message_id", "messages"),
            ] {
                if let Some(id) = item[field].as_str() {
                    let found = person.get(&format!("/v1/{name}/{id}")).await;
                    assert_eq!(found.status, 200, "{where_from}: {item}");
                }
            }
            self.check_catch_up(who).await;
        }
    }
}

#[tokio::test]
async fn nobody_has_an_item_that_they_cannot_read() {
    let mut sequence = Sequence::new().await;
    let steps = setting("OPENVIBE_TEST_INBOX_STEPS").unwrap_or(STEPS);
    for step in 1..=steps {
        sequence.step().await;
        if step % CHECKED_EVERY == 0 || step == steps {
            sequence.check(step).await;
        }
    }
    assert!(!sequence.deleted.is_empty(), "nothing was deleted");
    assert!(
        sequence.t.app.place.count("inbox_items").await > 0,
        "nothing was opened"
    );
}
