//! A client of the HTTP API: a person with a browser, or a program with an API key.

use std::sync::LazyLock;

use reqwest::{Method, header::HeaderMap};
use serde_json::{Value, json};

use super::{Socket, id, list, number, text, within};

static HTTP: LazyLock<()> = LazyLock::new(|| {
    // Fails if the server in this process has already installed the provider.
    drop(rustls::crypto::ring::default_provider().install_default());
});

/// Builder of an HTTP client. It does not load root certificates, because that takes longer than most requests.
fn builder() -> reqwest::ClientBuilder {
    LazyLock::force(&HTTP);
    reqwest::Client::builder().no_proxy().tls_certs_only([])
}

pub(super) fn client() -> reqwest::Client {
    builder().build().unwrap()
}

/// Content type of `multipart` bodies.
pub const MULTIPART: &str = "multipart/form-data; boundary=boundary-4711";

/// Builds a form from the disposition and bytes of each part. Every part claims an incorrect content type.
pub fn multipart(parts: &[(&str, &[u8])]) -> Vec<u8> {
    let mut body = Vec::new();
    for (disposition, bytes) in parts {
        let head = format!(
            "--boundary-4711\r\ncontent-disposition: form-data; {disposition}\r\ncontent-type: image/svg+xml\r\n\r\n"
        );
        body.extend(head.as_bytes());
        body.extend(*bytes);
        body.extend(b"\r\n");
    }
    body.extend(b"--boundary-4711--\r\n");
    body
}

/// A response of the server.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: HeaderMap,
    pub text: String,
    what: String,
}

impl Reply {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text)
            .unwrap_or_else(|_| panic!("{} answered no JSON: {:?}", self.what, self.text))
    }

    /// Returns the JSON body; panics if the status is different.
    #[track_caller]
    pub fn is(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}: {}", self.what, self.text);
        if self.text.is_empty() {
            Value::Null
        } else {
            self.json()
        }
    }

    /// The JSON body; panics if the status is not 2xx.
    #[track_caller]
    pub fn ok(self) -> Value {
        assert!(
            (200..300).contains(&self.status),
            "{}: {} {}",
            self.what,
            self.status,
            self.text
        );
        if self.text.is_empty() {
            Value::Null
        } else {
            self.json()
        }
    }

    /// The error code; panics unless the response has this status and the standard error format.
    #[track_caller]
    pub fn refused(self, status: u16) -> String {
        assert_eq!(self.status, status, "{}: {}", self.what, self.text);
        let error = &self.json()["error"];
        let kind = match status {
            400 | 405 => "invalid_request",
            401 => "unauthenticated",
            403 => "permission_denied",
            404 => "not_found",
            409 => "conflict",
            413 => "payload_too_large",
            422 => "unprocessable_entity",
            428 => "precondition_required",
            429 => "rate_limited",
            503 => "unavailable",
            _ => panic!("{status} is no refusal"),
        };
        assert_eq!(error["type"], kind, "{}: {}", self.what, self.text);
        assert!(!text(error, "/message").is_empty());
        if status == 429 {
            let seconds = self.header("retry-after").expect("a time to wait");
            assert!(seconds.parse::<u64>().unwrap() >= 1, "{seconds}");
            assert_eq!(error["retry_after_s"].to_string(), seconds);
        }
        text(error, "/code")
    }

    /// Asserts that the status is 200 and that the body is this text.
    #[track_caller]
    pub fn ok_text(self, expected: &str) {
        assert_eq!(
            (self.status, self.text.as_str()),
            (200, expected),
            "{}",
            self.what
        );
    }

    pub fn header(&self, name: &str) -> Option<String> {
        self.headers
            .get(name)
            .map(|value| value.to_str().unwrap().to_owned())
    }

    /// Session cookie that a sign-up or log-in set, as `name=value`.
    pub fn cookie(&self) -> String {
        let cookie = self.header("set-cookie").expect("a cookie");
        cookie.split(';').next().unwrap().to_owned()
    }
}

/// A client with its credentials.
#[derive(Clone, Debug)]
pub struct Person {
    http: reqwest::Client,
    pub base: String,
    pub cookie: Option<String>,
    pub key: Option<String>,
    /// Value of the `Origin` header, if it is sent.
    pub origin: Option<String>,
    /// Value of the `X-Workspace-Id` header, if it is sent.
    pub workspace_header: Option<String>,
    /// User ID, `user_…`.
    pub id: String,
    pub name: String,
    pub email: String,
    pub handle: String,
    /// Workspace ID, `ws_…`.
    pub workspace: String,
}

/// A client without an account.
pub fn visitor(base: &str) -> Person {
    Person {
        http: client(),
        base: base.to_owned(),
        cookie: None,
        key: None,
        origin: Some(base.to_owned()),
        workspace_header: None,
        id: String::new(),
        name: String::new(),
        email: String::new(),
        handle: String::new(),
        workspace: String::new(),
    }
}

pub const PASSWORD: &str = "correct horse";

/// Creates an account; `invite` is the token of an invite link.
pub async fn sign_up(base: &str, name: &str, invite: Option<&str>) -> Person {
    match invite {
        Some(invite) => sign_up_with(base, name, json!({"invite": invite})).await,
        None => sign_up_with(base, name, json!({})).await,
    }
}

/// Creates an account with additional fields.
pub async fn sign_up_with(base: &str, name: &str, mut form: Value) -> Person {
    let email = format!("{}@example.org", name.to_lowercase().replace(' ', "."));
    form["email"] = email.as_str().into();
    form["password"] = PASSWORD.into();
    form["name"] = name.into();
    let mut person = visitor(base);
    let reply = person.post("/v1/auth/signup", form).await;
    let cookie = (reply.status == 201).then(|| reply.cookie());
    let account = reply.is(201);
    person.cookie = cookie;
    person.id = text(&account, "/user/id");
    person.name = name.to_owned();
    person.email = email;
    if let Some(workspace) = account["workspaces"].get(0) {
        person.enter(&id(workspace)).await;
    }
    person
}

/// Creates an account and the workspace Acme, and enters it.
pub async fn sign_up_with_workspace(base: &str, name: &str) -> Person {
    let mut person = sign_up(base, name, None).await;
    let made = person
        .post("/v1/workspaces", json!({"name": "Acme"}))
        .await
        .is(201);
    person.enter(&id(&made)).await;
    person
}

async fn received(what: &str, request: reqwest::RequestBuilder) -> reqwest::Result<Reply> {
    let response = within(what, request.send()).await?;
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    let text = within(what, response.text()).await?;
    Ok(Reply {
        status,
        headers,
        text,
        what: what.to_owned(),
    })
}

impl Person {
    /// Selects the workspace for later requests.
    pub async fn enter(&mut self, workspace: &str) {
        workspace.clone_into(&mut self.workspace);
        let here = self.in_workspace(workspace);
        let mut path = "/v1/members?limit=100".to_owned();
        let member = loop {
            let page = here.get(&path).await.ok();
            let mut members = list(&page, "/data").into_iter();
            let found = members.find(|member| member["user_id"] == self.id.as_str());
            if found.is_some() || page["has_more"] == false {
                break found;
            }
            path = format!("/v1/members?limit=100&after={}", text(&page, "/last_id"));
        };
        self.handle = text(&member.expect("a member"), "/handle");
    }

    /// The same person, with this workspace in the header.
    pub fn in_workspace(&self, workspace: &str) -> Self {
        Self {
            workspace_header: Some(workspace.to_owned()),
            workspace: workspace.to_owned(),
            ..self.clone()
        }
    }

    /// The same person on a server with another address: after a restart, or another node.
    pub fn at(&self, base: &str) -> Self {
        Self {
            base: base.to_owned(),
            origin: Some(base.to_owned()),
            http: client(),
            ..self.clone()
        }
    }

    /// The same person with another local address (in 127.0.0.0/8), and with a new connection for each request.
    pub fn at_address(&self, address: std::net::IpAddr) -> Self {
        let http = builder()
            .local_address(address)
            .pool_max_idle_per_host(0)
            .build();
        Self {
            http: http.unwrap(),
            ..self.clone()
        }
    }

    /// The same person without credentials.
    pub fn signed_out(&self) -> Self {
        Self {
            cookie: None,
            key: None,
            ..self.clone()
        }
    }

    /// The same person's program, with this API key.
    pub fn with_key(&self, key: &str) -> Self {
        Self {
            cookie: None,
            origin: None,
            key: Some(key.to_owned()),
            ..self.clone()
        }
    }

    /// Creates an API key of this person with these scopes. Returns the client and the key's ID.
    pub async fn make_key(&self, scopes: &[&str]) -> (Self, String) {
        let made = self
            .post("/v1/api-keys", json!({"name": "robot", "scopes": scopes}))
            .await
            .is(201);
        (self.with_key(&text(&made, "/key")), id(&made))
    }

    /// Logs in with the same account from another browser.
    pub async fn log_in(&self) -> Self {
        let form = json!({"email": self.email, "password": PASSWORD});
        let reply = visitor(&self.base).post("/v1/auth/login", form).await;
        let cookie = reply.cookie();
        reply.is(200);
        Self {
            cookie: Some(cookie),
            ..self.clone()
        }
    }

    /// Headers that authenticate the client.
    pub fn credentials(&self) -> Vec<(&'static str, String)> {
        let mut headers = Vec::new();
        headers.extend(self.cookie.clone().map(|cookie| ("cookie", cookie)));
        headers.extend(
            self.key
                .as_ref()
                .map(|key| ("authorization", format!("Bearer {key}"))),
        );
        headers.extend(self.origin.clone().map(|origin| ("origin", origin)));
        headers.extend(
            self.workspace_header
                .clone()
                .map(|ws| ("x-workspace-id", ws)),
        );
        headers
    }

    fn request(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<Vec<u8>>,
    ) -> reqwest::RequestBuilder {
        let mut request = self.http.request(method, format!("{}{path}", self.base));
        for (name, value) in self.credentials() {
            request = request.header(name, value);
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(body) = body {
            if !headers.iter().any(|(name, _)| *name == "content-type") {
                request = request.header("content-type", "application/json");
            }
            request = request.body(body);
        }
        request
    }

    /// Sends a request and returns the response, whose body the caller reads in pieces.
    pub async fn stream(&self, path: &str) -> reqwest::Response {
        let sent = self.request(Method::GET, path, &[], None).send();
        within(path, sent).await.unwrap()
    }

    pub async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<Vec<u8>>,
    ) -> Reply {
        let what = format!("{method} {path}");
        let reply = received(&what, self.request(method, path, headers, body)).await;
        let reply = reply.unwrap_or_else(|e| panic!("{what}: {e:?}"));
        assert!(
            reply.status < 500 || matches!(reply.status, 501 | 503),
            "{what} failed: {} {}",
            reply.status,
            reply.text
        );
        reply
    }

    /// Sends a request; `None` if there is no response, such as after a crash of the server.
    pub async fn try_send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<Vec<u8>>,
    ) -> Option<Reply> {
        let what = format!("{method} {path}");
        let request = self.request(method, path, headers, body);
        received(&what, request).await.ok()
    }

    /// Sends a `POST`; `None` if there is no response.
    pub async fn try_send_typed(
        &self,
        path: &str,
        content_type: &str,
        body: Vec<u8>,
    ) -> Option<Reply> {
        let headers = [("content-type", content_type)];
        self.try_send(Method::POST, path, &headers, Some(body))
            .await
    }

    /// Sends a `POST` with a JSON object; `None` if there is no response.
    pub async fn try_post(&self, path: &str, body: Value) -> Option<Reply> {
        let body = Some(body.to_string().into_bytes());
        self.try_send(Method::POST, path, &[], body).await
    }

    /// Sends a `DELETE`; `None` if there is no response.
    pub async fn try_delete(&self, path: &str) -> Option<Reply> {
        self.try_send(Method::DELETE, path, &[], None).await
    }

    pub async fn get(&self, path: &str) -> Reply {
        self.send(Method::GET, path, &[], None).await
    }

    pub async fn post(&self, path: &str, body: Value) -> Reply {
        self.send(Method::POST, path, &[], Some(body.to_string().into_bytes()))
            .await
    }

    /// Sends a `POST` with a body that may not be valid JSON.
    pub async fn post_bytes(&self, path: &str, body: impl Into<Vec<u8>>) -> Reply {
        self.send(Method::POST, path, &[], Some(body.into())).await
    }

    /// Sends a `POST` without a body.
    pub async fn act(&self, path: &str) -> Reply {
        self.send(Method::POST, path, &[], None).await
    }

    pub async fn patch(&self, path: &str, body: Value) -> Reply {
        self.send(
            Method::PATCH,
            path,
            &[],
            Some(body.to_string().into_bytes()),
        )
        .await
    }

    pub async fn patch_if(&self, path: &str, version: &str, body: Value) -> Reply {
        let body = Some(body.to_string().into_bytes());
        self.send(Method::PATCH, path, &[("if-match", version)], body)
            .await
    }

    pub async fn put(&self, path: &str, body: Value) -> Reply {
        self.send(Method::PUT, path, &[], Some(body.to_string().into_bytes()))
            .await
    }

    pub async fn delete(&self, path: &str) -> Reply {
        self.send(Method::DELETE, path, &[], None).await
    }

    /// Uploads a file and returns it.
    pub async fn upload(&self, name: &str, bytes: &[u8]) -> Value {
        let disposition = format!("name=\"file\"; filename=\"{name}\"");
        let form = multipart(&[(&disposition, bytes)]);
        let headers = [("content-type", MULTIPART)];
        self.send(Method::POST, "/v1/files", &headers, Some(form))
            .await
            .is(201)
    }

    /// The channel with this name.
    pub async fn channel(&self, name: &str) -> Value {
        let all = self.get("/v1/channels?limit=100").await.ok();
        let found = list(&all, "/data")
            .into_iter()
            .find(|channel| channel["name"] == name);
        found.unwrap_or_else(|| panic!("no channel {name} in {all}"))
    }

    /// The agent with this name.
    pub async fn agent(&self, name: &str) -> Value {
        let all = self.get(&format!("/v1/agents?name={name}")).await.ok();
        all["data"]
            .get(0)
            .cloned()
            .unwrap_or_else(|| panic!("no agent {name}"))
    }

    /// Creates an agent that the model server recognizes by its name, and that everyone can change.
    pub async fn make_agent(&self, name: &str) -> Value {
        let form = json!({"name": name, "display_name": name, "instructions": super::instructions_of(name),
            "model": "claude-sonnet-4-5", "editors": []});
        self.post("/v1/agents", form).await.is(201)
    }

    /// Creates a private channel with these people; returns its ID.
    pub async fn private_channel(&self, name: &str, others: &[&Self]) -> String {
        let channel = id(&self
            .post("/v1/channels", json!({"name": name, "private": true}))
            .await
            .is(201));
        for other in others {
            let path = format!("/v1/channels/{channel}/members");
            self.post(&path, json!({"user_id": other.id})).await.is(201);
        }
        channel
    }

    /// Starts a thread. Returns `{thread,message,tasks}`.
    pub async fn start(&self, channel: &str, content: &str) -> Value {
        self.post(
            &format!("/v1/channels/{channel}/threads"),
            json!({"content": content}),
        )
        .await
        .is(201)
    }

    /// Starts a thread and returns its ID.
    pub async fn thread(&self, channel: &str, content: &str) -> String {
        text(&self.start(channel, content).await, "/thread/id")
    }

    /// Posts to a thread. Returns `{message,tasks}`.
    pub async fn say(&self, thread: &str, content: &str) -> Value {
        self.post(
            &format!("/v1/threads/{thread}/messages"),
            json!({"content": content}),
        )
        .await
        .is(201)
    }

    /// Posts to a thread. Returns the message ID.
    pub async fn tell(&self, thread: &str, content: &str) -> String {
        text(&self.say(thread, content).await, "/message/id")
    }

    /// Posts a message to which one agent replies to a thread. Returns the task ID.
    pub async fn ask(&self, thread: &str, content: &str) -> String {
        let posted = self.say(thread, content).await;
        assert_eq!(list(&posted, "/tasks").len(), 1, "{posted}");
        text(&posted, "/tasks/0/id")
    }

    /// The newest messages of a thread, oldest first.
    pub async fn messages(&self, thread: &str) -> Vec<Value> {
        list(
            &self
                .get(&format!("/v1/threads/{thread}/messages?limit=100"))
                .await
                .ok(),
            "/data",
        )
    }

    /// Contents of the newest messages of a thread, oldest first.
    pub async fn contents(&self, thread: &str) -> Vec<String> {
        self.messages(thread)
            .await
            .iter()
            .map(|message| text(message, "/content"))
            .collect()
    }

    pub async fn message(&self, message: &str) -> Value {
        self.get(&format!("/v1/messages/{message}")).await.ok()
    }

    pub async fn task(&self, task: &str) -> Value {
        self.get(&format!("/v1/tasks/{task}")).await.ok()
    }

    pub async fn task_context(&self, task: &str) -> Value {
        self.get(&format!("/v1/tasks/{task}/context")).await.ok()
    }

    /// All objects of a list, from the first page to the last.
    pub async fn every(&self, path: &str) -> Vec<Value> {
        let sign = if path.contains('?') { '&' } else { '?' };
        let (mut all, mut next) = (Vec::new(), String::new());
        loop {
            let page = self.get(&format!("{path}{sign}limit=100{next}")).await.ok();
            all.extend(list(&page, "/data"));
            next = if let Some(cursor) = page["next_cursor"].as_str() {
                format!("&cursor={cursor}")
            } else if page["has_more"] == true {
                format!("&after={}", text(&page, "/last_id"))
            } else {
                return all;
            };
        }
    }

    /// All events of the log that this person can see.
    pub async fn events(&self) -> Vec<Value> {
        let mut all = Vec::new();
        let mut after = 0;
        loop {
            let page = self
                .get(&format!("/v1/events?after={after}&limit=100"))
                .await
                .ok();
            let events = list(&page, "/data");
            let Some(last) = events.last() else {
                return all;
            };
            after = number(last, "/seq");
            all.extend(events);
        }
    }

    /// Waits for the first event in the log for which `wanted` returns `true`; returns it.
    pub async fn event_where(&self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let mut socket = Socket::open(self, json!({"since": 0})).await;
        socket.until(what, wanted).await
    }

    /// Waits until a task has ended and returns it. Reads the whole log, unlike `Socket::ended` on a socket from before the task.
    pub async fn ended(&self, task: &str) -> Value {
        let mut socket = Socket::open(self, json!({"since": 0})).await;
        socket.ended(task).await
    }

    /// Waits until a task has completed and returns it.
    pub async fn completed(&self, task: &str) -> Value {
        let ended = self.ended(task).await;
        assert_eq!(ended["status"], "completed", "{ended}");
        ended
    }

    /// Erases a person's data and waits until it is gone. Returns the progress.
    pub async fn erase(&self, who: &Person) -> Value {
        self.erase_as(who, &who.handle).await
    }

    /// Like `erase`, for a person whose handle has changed.
    pub async fn erase_as(&self, who: &Person, handle: &str) -> Value {
        let path = format!("/v1/members/{}/erase", who.id);
        self.post(&path, json!({"handle": handle})).await.is(202);
        self.erasure_of(who).await
    }

    /// Waits until the erasure of a person has ended, and returns its progress.
    pub async fn erasure_of(&self, who: &Person) -> Value {
        let path = format!("/v1/members/{}/erase", who.id);
        within("the erasure to end", async {
            loop {
                let progress = self.get(&path).await.ok();
                if progress["state"] == "done" {
                    return progress;
                }
                crate::support::pause().await;
            }
        })
        .await
    }

    /// Waits until a task has failed. Returns it and its error code.
    pub async fn failed(&self, task: &str) -> (Value, String) {
        let ended = self.ended(task).await;
        assert_eq!(ended["status"], "failed", "{ended}");
        let code = text(&ended, "/error/code");
        (ended, code)
    }

    /// Opens a live socket that receives events from now on.
    pub async fn socket(&self) -> Socket {
        Socket::open(self, json!({})).await
    }
}
