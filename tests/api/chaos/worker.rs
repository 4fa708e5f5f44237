//! A client that retries until the server responds, and remembers everything that was acknowledged.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

use memchr::memmem;
use rand::{Rng, RngCore, SeedableRng, rngs::StdRng};
use reqwest::Method;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::Stage;
use crate::{
    property::Client,
    support::{MULTIPART, PASSWORD, Person, Reply, id, list, multipart, number, text},
};

/// Delay before a request without a response is sent again.
const AGAIN_AFTER: Duration = Duration::from_millis(50);
/// Timeout after which a client of several nodes resends a request to another node, or drops its socket.
const MOVED_AFTER: Duration = Duration::from_secs(5);
/// Longer than any fault, or several in a row, can delay a response.
const ANSWERED_WITHIN: Duration = Duration::from_mins(2);
/// Maximum pause between two actions.
const THINK_MS_MAX: u64 = 40;

/// Acknowledged state, and possible effects of failed attempts.
#[derive(Default)]
pub(super) struct Acknowledged {
    /// Message IDs by client ID.
    pub posts: BTreeMap<String, String>,
    /// Possible current texts of the client's own messages; `None` if deleted.
    pub texts: BTreeMap<String, Vec<Option<String>>>,
    /// Fork IDs by description.
    pub forks: BTreeMap<String, String>,
    /// IDs of resolution messages.
    pub cards: BTreeSet<String>,
    /// Tasks, with the status of those that are known to have ended.
    pub tasks: BTreeMap<String, Option<String>>,
    /// The client's own reactions by message and emoji; `None` if unknown.
    pub reactions: BTreeMap<(String, String), Option<bool>>,
    /// URLs and hashes of uploads, by message.
    pub files: BTreeMap<String, (String, String)>,
    /// Read positions of threads.
    pub reads: BTreeMap<String, i64>,
    /// Sessions that were revoked.
    pub left: Vec<Person>,
}

/// A response, and whether an earlier attempt may have taken effect.
struct Answered {
    reply: Reply,
    unsure: bool,
}

pub(super) struct Worker {
    stage: Arc<Stage>,
    rng: StdRng,
    n: usize,
    /// Prefix of all words that this client posts.
    pub name: String,
    pub client: Client,
    pub acknowledged: Acknowledged,
    count: usize,
    /// The client's own threads and their root messages.
    threads: Vec<(String, String)>,
    messages: Vec<String>,
    forks: Vec<String>,
    tasks: Vec<String>,
}

pub(super) fn hash(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

/// The word that identifies a client's text in a search.
pub(super) fn word(text: &str) -> &str {
    let mut words = text.split(' ');
    words.find(|word| !word.starts_with('@')).unwrap()
}

fn pick<T: Clone>(all: &[T], n: usize) -> Option<T> {
    (!all.is_empty()).then(|| all[n % all.len()].clone())
}

/// Checks whether a request can be repeated: it has no further effect if a second node handles it, even much later.
fn is_repeatable(method: &Method, body: Option<&[u8]>) -> bool {
    let has_client_id = |body: &[u8]| memmem::find(body, b"\"client_id\"").is_some();
    *method == Method::GET || body.is_some_and(has_client_id)
}

/// Returns the final response to a request. While the server cannot handle it, the request is resent unchanged, to another node if
/// there are several.
async fn answered(
    stage: &Stage,
    who: &mut Person,
    method: Method,
    path: &str,
    headers: &[(&str, &str)],
    body: Option<Vec<u8>>,
) -> Answered {
    let (began, mut unsure) = (Instant::now(), false);
    let moves = stage.bases.borrow().len() > 1 && is_repeatable(&method, body.as_deref());
    let patience = if moves { MOVED_AFTER } else { Duration::MAX };
    loop {
        if !stage.has(&who.base) {
            move_on(stage, who);
        }
        let sent = who.try_send(method.clone(), path, headers, body.clone());
        match tokio::time::timeout(patience, sent).await.ok().flatten() {
            Some(reply) if reply.status != 503 => {
                // Clients never send malformed or forbidden requests.
                assert!(
                    matches!(reply.status, 200..=204 | 401 | 404 | 409 | 412 | 422),
                    "{method} {path}: {} {}",
                    reply.status,
                    reply.text
                );
                if unsure {
                    stage.waits.send_modify(|waits| waits.push(began.elapsed()));
                }
                return Answered { reply, unsure };
            }
            _ => unsure = true,
        }
        assert!(
            began.elapsed() < ANSWERED_WITHIN,
            "{method} {path} gets no response"
        );
        stage.again.send_modify(|again| *again += 1);
        move_on(stage, who);
        tokio::time::sleep(AGAIN_AFTER).await;
    }
}

/// Continues on the next node, if there is one.
fn move_on(stage: &Stage, who: &mut Person) {
    let base = stage.base_after(&who.base);
    if base != who.base {
        *who = who.at(&base);
    }
}

impl Worker {
    /// Creates the `n`th client of this seed, with these messages as its initial state.
    pub fn new(
        stage: &Arc<Stage>,
        person: &Person,
        snapshot: &Value,
        messages: &BTreeMap<(String, i64), Value>,
        (seed, n): (u64, usize),
    ) -> Self {
        let mut client = Client::new(person, snapshot);
        client.messages.clone_from(messages);
        Self {
            stage: Arc::clone(stage),
            rng: StdRng::seed_from_u64(seed.wrapping_mul(1000).wrapping_add(n as u64)),
            name: format!("s{seed}c{n}"),
            n,
            client,
            acknowledged: Acknowledged::default(),
            count: 0,
            threads: stage.threads.clone(),
            messages: Vec::new(),
            forks: Vec::new(),
            tasks: Vec::new(),
        }
    }

    pub async fn run(mut self) -> Self {
        let over = self.stage.over.subscribe();
        while !*over.borrow() {
            let think_ms = self.rng.random_range(0..THINK_MS_MAX);
            tokio::time::sleep(Duration::from_millis(think_ms)).await;
            self.act().await;
            self.stage.done.send_modify(|done| done[self.n] += 1);
        }
        self
    }

    /// Performs an action on the socket and returns its result; drops the socket if its node does not respond.
    async fn on_socket<T>(&mut self, act: impl AsyncFnOnce(&mut Client) -> Option<T>) -> Option<T> {
        let acted = tokio::time::timeout(MOVED_AFTER, act(&mut self.client)).await;
        if acted.is_err() {
            self.client.let_go();
        }
        acted.ok().flatten()
    }

    /// Resumes on the current node. If this fails, the next attempt uses another node.
    async fn resume(&mut self) -> bool {
        let resumed = self.on_socket(async |client| client.try_resume().await.ok());
        let is_live = resumed.await.is_some();
        if !is_live {
            move_on(&self.stage, &mut self.client.person);
        }
        is_live
    }

    async fn call(&mut self, method: Method, path: &str, body: Option<Value>) -> Answered {
        let body = body.map(|body| body.to_string().into_bytes());
        answered(
            &self.stage,
            &mut self.client.person,
            method,
            path,
            &[],
            body,
        )
        .await
    }

    async fn post(&mut self, path: &str, body: Value) -> Reply {
        self.call(Method::POST, path, Some(body)).await.reply
    }

    /// A new text and its client ID.
    fn words(&mut self) -> (String, String) {
        self.count += 1;
        let client_id = format!("{}n{}", self.name, self.count);
        let mention = match self.rng.random_range(0..20) {
            0..3 => "@vibe ",
            3 => "@here ",
            _ => "",
        };
        let length = self.rng.random_range(0..40_usize).pow(2) / 20;
        let more = " 👋 and so on".repeat(length);
        (format!("{mention}{client_id}{more}"), client_id)
    }

    /// Performs a random action. The choices do not depend on responses, so a seed reproduces them.
    async fn act(&mut self) {
        let kind = self.rng.random_range(0..100);
        let n = self.rng.random_range(0..1000);
        let flag = self.rng.random_bool(0.5);
        let (words, client_id) = self.words();
        let (thread, root) = self.threads[n % self.threads.len()].clone();
        match kind {
            0..26 => {
                let place = if n % 4 == 0 {
                    &thread
                } else {
                    &self.stage.threads[n % super::THREADS].0
                };
                let place = ("thread_id", place.clone());
                self.say(place, flag, &words, &client_id).await;
            }
            26..28 => {
                let place = ("channel_id", self.stage.general.clone());
                self.say(place, flag, &words, &client_id).await;
            }
            28..36 => self.edit(n, words).await,
            36..40 => self.delete(n).await,
            40..48 => self.react(root, n, flag).await,
            48..53 => self.dive(&thread, &root, flag, client_id).await,
            53..71 => self.in_dive(n, flag, &words, &client_id).await,
            71..75 => self.cancel_or_retry(n, flag).await,
            75..78 => self.read_up_to(thread, n).await,
            78..81 => self.share(&thread, n, &words, &client_id).await,
            81..84 => self.look_at_a_file(n).await,
            84..87 => self.search(n).await,
            87..88 => self.log_in_anew().await,
            88..92 => {
                self.client.let_go();
                if flag {
                    move_on(&self.stage, &mut self.client.person);
                }
            }
            _ => {
                // The server may be unavailable.
                if self.resume().await {
                    let subscribe = json!({"type": "subscribe", "id": "s", "thread_id": thread});
                    let read = async |client: &mut Client| {
                        client.request(subscribe, |f| f["id"] == "s").await?;
                        client.read(n % 20).await;
                        Some(())
                    };
                    self.on_socket(read).await;
                }
            }
        }
    }

    /// Posts a message, in some cases over the socket first; HTTP and the socket return the same result.
    async fn say(
        &mut self,
        (kind, place): (&str, String),
        by_socket: bool,
        words: &str,
        client_id: &str,
    ) {
        let form = json!({"content": words, "client_id": client_id});
        let mut posted = None;
        if by_socket {
            let mut frame = form.clone();
            (frame["type"], frame["id"]) = ("message.send".into(), client_id.into());
            frame[kind] = place.as_str().into();
            let answer = self
                .on_socket(async |client| client.request(frame, |f| f["id"] == client_id).await)
                .await;
            posted = answer.filter(|f| f["type"] == "ack");
        }
        // Posting the same message again does not change anything.
        let path = match kind {
            "thread_id" => format!("/v1/threads/{place}/messages"),
            "fork_id" => format!("/v1/forks/{place}/messages"),
            _ => format!("/v1/channels/{place}/threads"),
        };
        if posted.is_none() || self.count.is_multiple_of(5) {
            let reply = self.post(&path, form).await;
            if let Some(posted) = &posted {
                assert_eq!(reply.status, 200, "{}", reply.text);
                assert_eq!(
                    posted["data"]["message"]["id"],
                    reply.json()["message"]["id"]
                );
            }
            if matches!(reply.status, 200 | 201) {
                posted = Some(json!({"data": reply.json()}));
            }
        }
        let Some(posted) = posted else {
            return;
        };
        let message = text(&posted, "/data/message/id");
        if kind == "channel_id" {
            let thread = text(&posted, "/data/message/thread_id");
            self.threads.push((thread, message.clone()));
        }
        for task in list(&posted, "/data/tasks") {
            self.tasks.push(id(&task));
            self.acknowledged.tasks.entry(id(&task)).or_default();
        }
        self.messages.push(message.clone());
        let said = vec![Some(words.to_owned())];
        self.acknowledged.texts.insert(message.clone(), said);
        self.acknowledged
            .posts
            .insert(client_id.to_owned(), message);
    }

    async fn edit(&mut self, n: usize, words: String) {
        let Some(message) = pick(&self.messages, n) else {
            return;
        };
        let path = format!("/v1/messages/{message}");
        let form = json!({"content": words});
        let answered = self.call(Method::PATCH, &path, Some(form)).await;
        let said = self.acknowledged.texts.get_mut(&message).unwrap();
        match answered.reply.status {
            200 => *said = vec![Some(words)],
            // The response may have been lost, so both texts are possible. A deleted message stays deleted.
            _ if answered.unsure && *said != [None] => said.push(Some(words)),
            _ => {}
        }
    }

    async fn delete(&mut self, n: usize) {
        let Some(message) = pick(&self.messages, n) else {
            return;
        };
        let path = format!("/v1/messages/{message}");
        let answered = self.call(Method::DELETE, &path, None).await;
        assert_eq!(answered.reply.status, 200, "{}", answered.reply.text);
        self.acknowledged.texts.insert(message, vec![None]);
    }

    async fn react(&mut self, message: String, n: usize, add: bool) {
        let emoji = ["👍", "🎉", "👀"][n % 3];
        let method = if add { Method::PUT } else { Method::DELETE };
        let path = format!("/v1/messages/{message}/reactions/{emoji}");
        let answered = self.call(method, &path, None).await;
        let place = (message, emoji.to_owned());
        match answered.reply.status {
            200 => self.acknowledged.reactions.insert(place, Some(add)),
            _ if answered.unsure => self.acknowledged.reactions.insert(place, None),
            _ => None,
        };
    }

    /// Starts a fork with or without an agent.
    async fn dive(&mut self, thread: &str, root: &str, partner: bool, client_id: String) {
        let mut form =
            json!({"message_id": root, "client_id": client_id, "description": client_id});
        if !partner {
            form["agent_id"] = Value::Null;
        }
        let reply = self
            .post(&format!("/v1/threads/{thread}/forks"), form)
            .await;
        if matches!(reply.status, 200 | 201) {
            let fork = text(&reply.json(), "/fork/id");
            self.forks.push(fork.clone());
            self.acknowledged.forks.insert(client_id, fork);
        }
    }

    /// Performs an action in a fork. Many actions are rejected because the fork is closed, full, or empty, or because its draft is
    /// being edited.
    async fn in_dive(&mut self, n: usize, flag: bool, words: &str, client_id: &str) {
        let Some(fork) = pick(&self.forks, n / 10) else {
            return;
        };
        let path = format!("/v1/forks/{fork}");
        match n % 10 {
            0..4 => {
                self.say(("fork_id", fork), flag, words, client_id).await;
            }
            4 => {
                let wish = json!({"publish": flag, "replace_draft": true});
                let reply = self.post(&format!("{path}/resolve"), wish).await;
                if reply.status == 202 {
                    let task = text(&reply.json(), "/task/id");
                    self.acknowledged.tasks.entry(task.clone()).or_default();
                    self.tasks.push(task);
                }
            }
            5 => self.edit_draft(&path, client_id).await,
            6 => {
                let form = json!({"resolution": {"headline": client_id}});
                let reply = self.post(&format!("{path}/publish"), form).await;
                if reply.status == 200 {
                    let card = text(&reply.json(), "/message/id");
                    self.acknowledged.cards.insert(card);
                }
            }
            7 => {
                self.post(&format!("{path}/reopen"), json!({})).await;
            }
            8 if flag => {
                self.post(&format!("{path}/abandon"), json!({})).await;
            }
            _ => {
                let form = json!({"title": client_id});
                self.call(Method::PATCH, &path, Some(form)).await;
            }
        }
    }

    async fn edit_draft(&mut self, path: &str, client_id: &str) {
        let path = format!("{path}/resolution");
        let read = self.call(Method::GET, &path, None).await.reply;
        let revision = match read.status {
            200 => number(&read.json(), "/revision"),
            _ => 0,
        };
        let form = json!({"headline": client_id, "action_items": [{"text": client_id}]});
        let body = Some(form.to_string().into_bytes());
        let revision = format!("\"{revision}\"");
        let headers = [("if-match", revision.as_str())];
        let person = &mut self.client.person;
        answered(&self.stage, person, Method::PATCH, &path, &headers, body).await;
    }

    async fn cancel_or_retry(&mut self, n: usize, cancel: bool) {
        let Some(task) = pick(&self.tasks, n) else {
            return;
        };
        let what = if cancel { "cancel" } else { "retry" };
        let path = format!("/v1/tasks/{task}/{what}");
        let reply = self.post(&path, json!({})).await;
        if reply.status == 201 {
            let retry = id(&reply.json());
            self.acknowledged.tasks.insert(retry.clone(), None);
            self.tasks.push(retry);
        } else if cancel {
            assert_eq!(reply.status, 200, "{}", reply.text);
            let status = text(&reply.json(), "/status");
            let known = self.acknowledged.tasks.entry(task).or_default();
            // Final states do not change.
            assert_eq!(known.get_or_insert(status.clone()), &status);
        }
    }

    async fn read_up_to(&mut self, thread: String, n: usize) {
        let path = format!("/v1/threads/{thread}/read");
        let reply = self.call(Method::PUT, &path, Some(json!({"seq": n}))).await;
        let seq = number(&reply.reply.is(200), "/seq");
        self.acknowledged.reads.insert(thread, seq);
    }

    /// Uploads a file and posts a message with it.
    async fn share(&mut self, thread: &str, n: usize, words: &str, client_id: &str) {
        let mut bytes = vec![0; n * 32];
        StdRng::seed_from_u64(n as u64 + self.count as u64).fill_bytes(&mut bytes);
        let bytes = format!("{client_id} {}", hex::encode(bytes)).into_bytes();
        let disposition = format!("name=\"file\"; filename=\"{client_id}.txt\"");
        let upload_id = format!("{client_id}f");
        let form = multipart(&[
            ("name=\"client_id\"", upload_id.as_bytes()),
            (&disposition, &bytes),
        ]);
        let headers = [("content-type", MULTIPART)];
        let person = &mut self.client.person;
        let path = "/v1/files";
        let uploaded = answered(
            &self.stage,
            person,
            Method::POST,
            path,
            &headers,
            Some(form),
        )
        .await;
        assert!(matches!(uploaded.reply.status, 200 | 201));
        let file = uploaded.reply.json();
        let form = json!({"content": words, "client_id": client_id, "attachments": [id(&file)]});
        let path = format!("/v1/threads/{thread}/messages");
        let reply = self.post(&path, form).await;
        assert!(matches!(reply.status, 200 | 201), "{}", reply.text);
        let message = text(&reply.json(), "/message/id");
        self.messages.push(message.clone());
        let said = vec![Some(words.to_owned())];
        self.acknowledged.texts.insert(message.clone(), said);
        let stored = (text(&file, "/url"), hash(&bytes));
        self.acknowledged.files.insert(message.clone(), stored);
        self.acknowledged
            .posts
            .insert(client_id.to_owned(), message);
    }

    async fn look_at_a_file(&mut self, n: usize) {
        let files: Vec<_> = self.acknowledged.files.clone().into_iter().collect();
        let Some((message, (url, hash_then))) = pick(&files, n) else {
            return;
        };
        let reply = self.call(Method::GET, &url, None).await.reply;
        if self.acknowledged.texts[&message] == [None] {
            assert_eq!(reply.status, 404, "{}", reply.text);
        } else {
            let said = &self.acknowledged.texts[&message];
            assert_eq!(reply.status, 200, "{message} {said:?} {}", reply.text);
            assert_eq!(hash(reply.text.as_bytes()), hash_then);
        }
    }

    /// Checks that acknowledged messages are searchable immediately.
    async fn search(&mut self, n: usize) {
        let Some(message) = pick(&self.messages, n) else {
            return;
        };
        if let [Some(said)] = self.acknowledged.texts[&message].as_slice() {
            let said = said.clone();
            let path = format!("/v1/search?limit=100&q={}", word(&said));
            let found = self.call(Method::GET, &path, None).await.reply.is(200);
            let hits = list(&found, "/data");
            assert!(
                hits.iter().any(|hit| id(hit) == message),
                "{message}: {said}"
            );
        }
    }

    /// Logs in from another browser and revokes the old session.
    async fn log_in_anew(&mut self) {
        let mut other = self.client.person.signed_out();
        let form = json!({"email": other.email, "password": PASSWORD});
        let body = Some(form.to_string().into_bytes());
        let path = "/v1/auth/login";
        let reply = answered(&self.stage, &mut other, Method::POST, path, &[], body).await;
        let reply = reply.reply;
        assert_eq!(reply.status, 200, "{}", reply.text);
        let mut old = self.client.person.clone();
        self.client.person.cookie = Some(reply.cookie());
        let path = "/v1/auth/logout";
        let ended = answered(&self.stage, &mut old, Method::POST, path, &[], None).await;
        match ended.reply.status {
            204 => {}
            401 if ended.unsure => {}
            other => panic!("{other}: {}", ended.reply.text),
        }
        self.acknowledged.left.push(old);
    }
}
