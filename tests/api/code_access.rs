//! Generated channels, members, guests, and people who may start work: who sees repositories, sessions, patches, and logs, and who starts,
//! answers, and pushes.
//!
//! A few steps are part of the suite; `make repositories STEPS=5000 SEED=7` makes more.

use std::collections::BTreeSet;

use rand::{Rng, SeedableRng, rngs::StdRng};
use serde_json::{Value, json};

use crate::{
    code::allow,
    code_turns::{COMMIT, done},
    support::{
        Person, Reply, ScriptedRunner, Team, id, list, new_runner, pause, setting, team_with, text,
        unknown_id, within,
    },
};

/// Steps in the suite.
const STEPS: usize = 40;
/// Number of steps between two checks.
const CHECKED_EVERY: usize = 5;
/// Number of the newest sessions whose texts are read in a check.
const CHECKED: usize = 6;
const ROOMS: usize = 4;
/// Number of public rooms, which come first.
const PUBLIC: usize = 2;

/// Positions of people: an admin who is in all rooms, two members, a viewer, and a guest.
const ADA: usize = 0;
const VI: usize = 3;
const GUS: usize = 4;
const PEOPLE: usize = 5;

struct Room {
    id: String,
    is_private: bool,
    /// True if the repository is allowed here.
    is_allowed: bool,
    /// Those who have joined, except for Ada.
    members: BTreeSet<usize>,
}

enum MayStart {
    Members,
    Admins,
    Only(BTreeSet<usize>),
}

/// A turn that has ended.
struct Worked {
    room: usize,
    by: usize,
    session: String,
    task: String,
    /// Mark in its patch and in its log.
    mark: String,
    /// Path of its push, if nobody has decided on it.
    push: Option<String>,
}

struct CodeSequence {
    t: Team,
    people: Vec<Person>,
    rooms: Vec<Room>,
    may_start: MayStart,
    runner: ScriptedRunner,
    worked: Vec<Worked>,
    rng: StdRng,
    seed: u64,
    /// Number of replies without the repository.
    chats: usize,
    pushed: usize,
}

impl CodeSequence {
    async fn new() -> Self {
        let t = team_with(&[("RATE_LIMITS", "off"), ("COMPACTION", "off")]).await;
        let mut rooms = Vec::new();
        for n in 0..ROOMS {
            let is_private = n >= PUBLIC;
            let form = json!({"name": format!("room-{n}"), "private": is_private});
            rooms.push(Room {
                id: id(&t.ada.post("/v1/channels", form).await.is(201)),
                is_private,
                is_allowed: false,
                members: BTreeSet::new(),
            });
        }
        rooms[0].members.insert(GUS);
        let people = vec![
            t.ada.clone(),
            t.bo.clone(),
            t.app.join(&t.ada, "Cy", "member").await,
            t.app.join(&t.ada, "Vi", "viewer").await,
            t.app.join_as_guest(&t.ada, "Gus", &["room-0"]).await,
        ];
        let (_, key) = new_runner(&t.ada, "build-1").await;
        let runner = ScriptedRunner::connect(&t.app.base, &key, &["api"]).await;
        let seed = setting("OPENVIBE_TEST_CODE_SEED").unwrap_or(1);
        let mut sequence = Self {
            t,
            people,
            rooms,
            may_start: MayStart::Members,
            runner,
            worked: Vec::new(),
            rng: StdRng::seed_from_u64(seed),
            seed,
            chats: 0,
            pushed: 0,
        };
        sequence.allow_rooms().await;
        sequence
    }

    fn below(&mut self, n: usize) -> usize {
        self.rng.random_range(0..n)
    }

    /// Some of the first `n` numbers.
    fn some(&mut self, n: usize) -> BTreeSet<usize> {
        (0..n).filter(|_| self.rng.random_bool(0.5)).collect()
    }

    fn can_read(&self, person: usize, room: usize) -> bool {
        let room = &self.rooms[room];
        match person {
            ADA => true,
            GUS => room.members.contains(&GUS),
            _ => !room.is_private || room.members.contains(&person),
        }
    }

    /// True if a person is one of the starters, and may write.
    fn may_start(&self, person: usize) -> bool {
        match &self.may_start {
            MayStart::Members => person != VI && person != GUS,
            MayStart::Admins => person == ADA,
            MayStart::Only(people) => people.contains(&person) && person != VI && person != GUS,
        }
    }

    /// Checks the response to a person's request about a room.
    fn check(&self, reply: &Reply, expected: u16, person: usize, room: usize, what: &str) {
        let is_expected = match person {
            // Most routes refuse guests, and rooms of others do not exist for them.
            GUS if !what.starts_with("a message") => matches!(reply.status, 403 | 404),
            _ => reply.status == expected,
        };
        assert!(
            is_expected,
            "seed {}: {what} by {} in room {room}: {} instead of {expected}: {}",
            self.seed, self.people[person].name, reply.status, reply.text
        );
    }

    /// Allows the repository in other rooms.
    async fn allow_rooms(&mut self) {
        let chosen = self.some(ROOMS);
        for (n, room) in self.rooms.iter_mut().enumerate() {
            room.is_allowed = chosen.contains(&n);
        }
        let allowed = self.rooms.iter().filter(|room| room.is_allowed);
        let allowed: Vec<&str> = allowed.map(|room| room.id.as_str()).collect();
        allow(&self.t.ada, "api", &allowed).await;
    }

    async fn choose_starters(&mut self) {
        self.may_start = match self.below(3) {
            0 => MayStart::Members,
            1 => MayStart::Admins,
            _ => MayStart::Only(self.some(GUS)),
        };
        let starters = match &self.may_start {
            MayStart::Members => json!("members"),
            MayStart::Admins => json!("admins"),
            MayStart::Only(people) => {
                let people = people.iter().map(|n| self.people[*n].id.as_str());
                json!(people.collect::<Vec<_>>())
            }
        };
        let all = self.t.ada.get("/v1/repositories").await.ok();
        let path = format!("/v1/repositories/{}", id(&all["data"][0]));
        let patch = json!({"starters": starters});
        self.t.ada.patch(&path, patch).await.ok();
    }

    /// Adds a person to a private room, or removes them; a person can also leave.
    async fn move_person(&mut self) {
        let (person, room) = (1 + self.below(VI), PUBLIC + self.below(ROOMS - PUBLIC));
        let leaves = self.below(2) == 0;
        let channel = format!("/v1/channels/{}", self.rooms[room].id);
        let who = &self.people[person];
        if self.rooms[room].members.insert(person) {
            let form = json!({"user_id": who.id});
            let path = format!("{channel}/members");
            self.t.ada.post(&path, form).await.is(201);
            return;
        }
        self.rooms[room].members.remove(&person);
        if leaves && person != VI {
            let left = who.act(&format!("{channel}/leave")).await;
            assert!((200..300).contains(&left.status), "{}", left.text);
        } else {
            let path = format!("{channel}/members/{}", who.id);
            self.t.ada.delete(&path).await.is(204);
        }
    }

    /// Lets an admin choose other rooms for the guest.
    async fn move_guest(&mut self) {
        let mut open = self.some(ROOMS);
        if open.is_empty() {
            open.insert(0);
        }
        let rooms: Vec<&str> = open.iter().map(|n| self.rooms[*n].id.as_str()).collect();
        let form = json!({"role": "guest", "channel_ids": rooms});
        let path = format!("/v1/members/{}", self.people[GUS].id);
        self.t.ada.patch(&path, form).await.ok();
        for (n, room) in self.rooms.iter_mut().enumerate() {
            if open.contains(&n) {
                room.members.insert(GUS);
            } else {
                room.members.remove(&GUS);
            }
        }
    }

    /// Somebody mentions the agent in a new thread of any room.
    async fn ask(&mut self) {
        let (by, room) = (self.below(PEOPLE), self.below(ROOMS));
        let thread = self.t.ada.thread(&self.rooms[room].id, "Root").await;
        let path = format!("/v1/threads/{thread}/messages");
        let form = json!({"content": "@coder fix the login"});
        let reply = self.people[by].post(&path, form).await;
        let expected = match by {
            _ if !self.can_read(by, room) => 404,
            VI => 403,
            _ => 201,
        };
        self.check(&reply, expected, by, room, "a message");
        if expected != 201 {
            return;
        }
        let task = text(&reply.json(), "/tasks/0/id");
        let is_allowed = self.rooms[room].is_allowed;
        if is_allowed && self.may_start(by) {
            self.work(by, room, task).await;
            return;
        }
        // The whole event log would be too long.
        within("a reply", async {
            while self.t.ada.task(&task).await["status"] != "completed" {
                pause().await;
            }
        })
        .await;
        let reply = self.t.ada.messages(&thread).await.pop().unwrap();
        let code = &reply["metadata"]["code"];
        let expected = if is_allowed {
            json!({"without": "api"})
        } else {
            Value::Null
        };
        assert_eq!(*code, expected, "seed {}: {reply}", self.seed);
        self.chats += 1;
    }

    /// A turn with a question and changes.
    async fn work(&mut self, by: usize, room: usize, task: String) {
        let prompt = self.runner.command("prompt").await;
        assert_eq!(prompt["task"], json!(task), "seed {}", self.seed);
        let session = text(&prompt, "/session");
        let question = json!({
            "type": "ask", "task": task, "ask": "a1", "kind": "question", "title": "Which test?",
            "options": [{"id": "all", "name": "All"}], "schema": null,
        });
        for event in [json!({"type": "opened", "commit": COMMIT}), question] {
            self.runner.event(&session, event).await;
        }
        let actions = format!("/v1/actions?task_id={task}");
        let actions = self.t.ada.get(&actions).await.ok();
        let path = format!("/v1/actions/{}/answer", text(&actions, "/data/0/id"));
        self.decide(by, room, &path, &json!({"value": "all"})).await;
        self.runner.command("answer").await;
        let mark = format!("mark-{}.", self.worked.len());
        for name in ["patch", "log"] {
            let path = format!("{session}/{name}?task_id={task}");
            assert_eq!(self.runner.put(&path, mark.clone()).await, 204);
        }
        let words = json!({"type": "text", "task": task, "text": mark});
        self.runner.event(&session, words).await;
        self.runner.event(&session, done(&task, 1)).await;
        assert_eq!(self.t.ada.task(&task).await["status"], "completed");
        let path = format!("/v1/code-sessions/{session}");
        let shown = self.t.ada.get(&path).await.ok();
        let push = format!("/v1/actions/{}", text(&shown, "/action_id"));
        self.worked.push(Worked {
            room,
            by,
            session,
            task,
            mark,
            push: Some(push),
        });
    }

    /// Sends a decision of everyone, the requester last, who is the only one that may decide.
    async fn decide(&self, by: usize, room: usize, path: &str, form: &Value) {
        for person in (0..PEOPLE).filter(|person| *person != by) {
            let expected = if self.can_read(person, room) {
                403
            } else {
                404
            };
            let reply = self.people[person].post(path, form.clone()).await;
            self.check(&reply, expected, person, room, path);
        }
        let expected = if self.can_read(by, room) { 200 } else { 404 };
        let reply = self.people[by].post(path, form.clone()).await;
        self.check(&reply, expected, by, room, path);
    }

    /// Everyone tries to approve a push, which its room's repository and its requester can have left meanwhile.
    async fn push(&mut self) {
        let open = self.worked.iter().rposition(|one| one.push.is_some());
        let Some(n) = open else { return };
        let path = self.worked[n].push.clone().unwrap();
        let (by, room) = (self.worked[n].by, self.worked[n].room);
        let action = self.t.ada.get(&path).await.ok();
        if action["state"] != "waiting" {
            self.worked[n].push = None;
            return;
        }
        let form = json!({"arguments_hash": action["arguments_hash"]});
        self.decide(by, room, &format!("{path}/approve"), &form)
            .await;
        if !self.can_read(by, room) {
            assert_eq!(self.t.ada.get(&path).await.ok()["state"], "waiting");
            return;
        }
        self.worked[n].push = None;
        if !self.rooms[room].is_allowed {
            assert_eq!(self.t.ada.get(&path).await.ok()["state"], "failed");
            return;
        }
        let push = self.runner.command("push").await;
        let session = self.worked[n].session.clone();
        assert_eq!(push["session"], json!(session), "seed {}", self.seed);
        // What is said in a private room is not in the commit.
        let is_told = push["title"] == self.worked[n].mark.as_str();
        assert_eq!(is_told, !self.rooms[room].is_private, "{push}");
        let pushed = json!({"type": "pushed", "action": push["action"], "commit": COMMIT, "url": null, "note": null});
        self.runner.event(&session, pushed).await;
        self.pushed += 1;
    }

    async fn step(&mut self) {
        match self.below(10) {
            0 => self.allow_rooms().await,
            1 => self.choose_starters().await,
            2..=3 => self.move_person().await,
            4 => self.move_guest().await,
            5 => self.push().await,
            _ => self.ask().await,
        }
    }

    /// Checks the lists that a person gets.
    async fn check_lists(&self, person: usize) {
        let who = &self.people[person];
        let what = format!("seed {}: {}", self.seed, who.name);
        if person == GUS {
            for path in ["/v1/repositories", "/v1/code-sessions"] {
                assert_eq!(who.get(path).await.status, 403, "{what}");
            }
            return;
        }
        let rooms = self.rooms.iter().enumerate();
        let readable = rooms.filter(|(n, room)| room.is_allowed && self.can_read(person, *n));
        let readable: BTreeSet<&str> = readable.map(|(_, room)| room.id.as_str()).collect();
        let found = list(&who.get("/v1/repositories").await.ok(), "/data");
        let is_shown = person == ADA || !readable.is_empty();
        assert_eq!(found.len(), usize::from(is_shown), "{what}: {found:?}");
        if let Some(repository) = found.first() {
            let ids = list(repository, "/channel_ids");
            let ids: BTreeSet<&str> = ids.iter().filter_map(Value::as_str).collect();
            assert_eq!(ids, readable, "{what}");
        }
        let sessions = who.every("/v1/code-sessions").await;
        let sessions: BTreeSet<String> = sessions.iter().map(id).collect();
        let own = self.worked.iter();
        let own = own.filter(|one| self.can_read(person, one.room));
        let own: BTreeSet<String> = own.map(|one| one.session.clone()).collect();
        assert_eq!(sessions, own, "{what}");
    }

    /// Checks what a person gets of a session, and whether they can change its text.
    async fn check_session(&self, person: usize, one: &Worked) {
        let who = &self.people[person];
        let path = format!("/v1/code-sessions/{}", one.session);
        let (patch, log) = (
            format!("{path}/patch"),
            format!("{path}/log?task_id={}", one.task),
        );
        let can_read = self.can_read(person, one.room);
        let expected = if can_read { 200 } else { 404 };
        let reply = who.get(&path).await;
        self.check(&reply, expected, person, one.room, &path);
        for path in [patch, log] {
            let reply = who.get(&path).await;
            self.check(&reply, expected, person, one.room, &path);
            let is_shown = reply.text.contains(&one.mark);
            assert_eq!(is_shown, can_read && person != GUS, "{}", reply.text);
        }
        // An invalid text changes nothing.
        let reply = who.patch(&path, json!({"title": " "})).await;
        let expected = match expected {
            200 if self.may_start(person) => 422,
            200 => 403,
            other => other,
        };
        self.check(&reply, expected, person, one.room, "a text");
    }

    async fn check_all(&mut self) {
        // A runner that sends nothing for a while counts as away.
        let ack = json!({"type": "ack", "session": unknown_id("code"), "n": 0});
        self.runner.send(&ack).await;
        for person in 0..PEOPLE {
            self.check_lists(person).await;
            for one in self.worked.iter().rev().take(CHECKED) {
                self.check_session(person, one).await;
            }
        }
    }

    /// Checks that events name only sessions in rooms that their readers can read.
    async fn check_events(&self) {
        for (person, who) in self.people.iter().enumerate() {
            for event in who.events().await {
                let Some(session) = event["data"]["code_session_id"].as_str() else {
                    continue;
                };
                let one = self.worked.iter().find(|one| one.session == session);
                let room = one.expect("a session").room;
                assert!(self.can_read(person, room), "{}: {event}", who.name);
            }
        }
    }
}

#[tokio::test]
async fn people_see_and_do_in_repositories_only_what_their_rooms_permit() {
    let mut sequence = CodeSequence::new().await;
    let steps = setting("OPENVIBE_TEST_CODE_STEPS").unwrap_or(STEPS);
    for step in 1..=steps {
        sequence.step().await;
        if step % CHECKED_EVERY == 0 || step == steps {
            sequence.check_all().await;
        }
    }
    sequence.check_events().await;
    let (turns, chats, pushed) = (sequence.worked.len(), sequence.chats, sequence.pushed);
    let counts = format!("{turns} turns, {chats} chats, {pushed} pushes");
    assert!(turns > 0 && chats > 0 && pushed <= turns, "{counts}");
}
