//! Calls of each route that can fail only because of missing permissions.

use openvibe::{
    auth::operator,
    db::{Conn, Json, now},
    ids::{ActionId, BotDeliveryId, BotId, IdentityId, IdentityProviderId, ScimTokenId, UserId},
};
use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{
    kinds_of,
    table::{Row, TestCaller, body_example, required_ids},
    world::{
        AccessFixture, compactable, compaction, dive, failed_run, hook, kept_response, newcomer,
        persona, received, resolved, sandbox, schedule, skill, skill_form, vector_store, workflow,
        workflow_form, yearly,
    },
};
use crate::{
    code::stored_code,
    emoji, exports,
    factors::{self, Authenticator},
    imports,
    support::{MULTIPART, PASSWORD, Person, id, list, multipart, pause, sign_up, text, within},
};

/// A request that is ready to be sent.
#[derive(Clone)]
pub struct Call {
    pub method: Method,
    pub path: String,
    pub body: Option<Value>,
    /// Multipart body, sent instead of JSON.
    pub form: Option<Vec<u8>>,
    pub headers: Vec<(&'static str, String)>,
    /// Sender, if it is not the caller.
    pub sender: Option<Person>,
    /// Opens a WebSocket instead of sending a request.
    pub opens_socket: bool,
}

impl Call {
    fn new(method: Method, path: impl Into<String>, body: Option<Value>) -> Self {
        Self {
            method,
            path: path.into(),
            body,
            form: None,
            headers: Vec::new(),
            sender: None,
            opens_socket: false,
        }
    }

    fn get(path: impl Into<String>) -> Self {
        Self::new(Method::GET, path, None)
    }

    fn act(path: impl Into<String>) -> Self {
        Self::new(Method::POST, path, None)
    }

    fn post(path: impl Into<String>, body: Value) -> Self {
        Self::new(Method::POST, path, Some(body))
    }

    fn put(path: impl Into<String>, body: Value) -> Self {
        Self::new(Method::PUT, path, Some(body))
    }

    fn patch(path: impl Into<String>, body: Value) -> Self {
        Self::new(Method::PATCH, path, Some(body))
    }

    fn delete(path: impl Into<String>) -> Self {
        Self::new(Method::DELETE, path, None)
    }

    fn by(mut self, sender: Person) -> Self {
        self.sender = Some(sender);
        self
    }

    fn if_match(mut self, version: i64) -> Self {
        self.headers.push(("if-match", version.to_string()));
        self
    }
}

/// Checks whether a route is one of a person's second factors.
fn is_of_factors(route: &str) -> bool {
    let of = [
        "/v1/auth/second-factor",
        "/v1/auth/passkey",
        "/v1/auth/totp",
        "/v1/auth/recovery-codes",
    ];
    !route.starts_with("GET ") && of.iter().any(|path| route.contains(path))
}

/// Returns the request of a row about second factors, in a future of its own, because those of all rows share one stack.
async fn factor_recipe(w: &AccessFixture, row: &Row, who: TestCaller) -> Call {
    let (n, path) = (w.next(), row.path());
    let at = |id: &str| path.replace("{id}", id);
    match (row.route.as_str(), row.variant.as_str()) {
        ("POST /v1/auth/second-factor", _) => {
            let person = sign_up(&w.app.base, &format!("Second {n}"), None).await;
            let (_, codes) = factors::set_up_app(&person).await;
            let (flow, _) = factors::begin(&w.app, &person).await;
            Call::post(path, json!({"flow": flow, "recovery_code": codes[0]}))
                .by(w.double(who).await.asks)
        }
        ("POST /v1/auth/passkey", _) => {
            let person = sign_up(&w.app.base, &format!("Second {n}"), None).await;
            let mut key = Authenticator::new(&w.app.base);
            factors::add_passkey(&person, &mut key).await.is(201);
            let credential = key.sign(&factors::challenge(&w.app).await);
            Call::post(path, json!({"credential": credential})).by(w.double(who).await.asks)
        }
        ("POST /v1/auth/totp" | "POST /v1/auth/passkeys/options", _) => {
            Call::act(path).by(w.double(who).await.asks)
        }
        ("POST /v1/auth/totp/confirm", _) => {
            let double = w.double(who).await;
            let code = match double.person.cookie {
                Some(_) => {
                    let begun = double.person.act("/v1/auth/totp").await.is(200);
                    factors::code(&text(&begun, "/secret"), 0)
                }
                None => "000000".to_owned(),
            };
            Call::post(path, json!({"code": code})).by(double.asks)
        }
        ("DELETE /v1/auth/totp", _) => {
            let double = w.double(who).await;
            if double.person.cookie.is_some() {
                factors::set_up_app(&double.person).await;
            }
            Call::delete(path).by(double.asks)
        }
        ("POST /v1/auth/recovery-codes", _) => {
            let double = w.double(who).await;
            if double.person.cookie.is_some() {
                factors::set_up_app(&double.person).await;
            }
            Call::act(path).by(double.asks)
        }
        ("POST /v1/auth/passkeys", _) => {
            let double = w.double(who).await;
            let credential = match double.person.cookie {
                Some(_) => {
                    let options = double.person.act("/v1/auth/passkeys/options").await;
                    Authenticator::new(&w.app.base).create(&options.is(200))
                }
                None => json!({}),
            };
            Call::post(path, json!({"name": "Laptop", "credential": credential})).by(double.asks)
        }
        ("PATCH /v1/auth/passkeys/{id}" | "DELETE /v1/auth/passkeys/{id}", variant) => {
            let double = w.double(who).await;
            let of = match (variant, &double.person.cookie) {
                ("own", Some(_)) => double.person.clone(),
                _ => sign_up(&w.app.base, &format!("Second {n}"), None).await,
            };
            let mut key = Authenticator::new(&w.app.base);
            let passkey = id(&factors::add_passkey(&of, &mut key).await.is(201));
            let call = if row.route.starts_with("PATCH") {
                Call::patch(at(&passkey), json!({"name": format!("Laptop {n}")}))
            } else {
                Call::delete(at(&passkey))
            };
            call.by(double.asks)
        }
        (route, _) => panic!("no recipe for {route}"),
    }
}

/// A push subscription at an address where nothing listens.
fn push_device(n: u64) -> Value {
    json!({"endpoint": format!("http://127.0.0.1:9/{n}"), "label": "Phone", "keys": {
        "p256dh": "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4",
        "auth": "BTBZMqHH6r4Tts7J_aSIgg"}})
}

/// Makes room for another import: waits until none is running, and deletes old ones that have not started, of which a workspace can have
/// 100. The newest belong to the same row, and the oldest to the fixture.
async fn imports_ended(w: &AccessFixture) {
    let imports = within("the import to end", async {
        loop {
            let imports = list(&w.ada.get("/v1/imports").await.ok(), "/data");
            if imports
                .iter()
                .all(|import| import["state"] != "running" && import["state"] != "undoing")
            {
                return imports;
            }
            pause().await;
        }
    })
    .await;
    let waiting: Vec<String> = imports
        .iter()
        .filter(|import| import["state"] == "receiving" || import["state"] == "ready")
        .map(id)
        .collect();
    if waiting.len() > 60 {
        for old in &waiting[30..waiting.len() - 1] {
            w.ada.delete(&format!("/v1/imports/{old}")).await;
        }
    }
}

/// Waits until no backup and no test of one runs, because only one run is possible at a time. Returns the state of the backups.
async fn idle_backups(ada: &Person) -> Value {
    within("the run to end", async {
        loop {
            let backups = ada.get("/v1/server").await.ok()["backups"].take();
            if backups["running"] == false {
                return backups;
            }
            pause().await;
        }
    })
    .await
}

/// A workspace can have only some running exports at a time.
async fn exports_ended(w: &AccessFixture) {
    let running = ["select count(*) from exports where state = 'running'".to_owned()];
    within("the exports to end", async {
        while w.app.place.numbers(&running).await[0] > 0 {
            pause().await;
        }
    })
    .await;
}

/// Checks whether the objects of a row's request depend on the caller, so that callers cannot share it. A request with a sender of its own
/// is never shared.
pub fn depends_on_caller(row: &Row) -> bool {
    let routes = [
        "POST /v1/invites/{id}/accept",
        "PUT /v1/channels/{id}/level",
        "POST /v1/channels/{id}/leave",
        "DELETE /v1/channels/{id}/members/{user_id}",
        "DELETE /v1/members/me/files/USER.md",
        "POST /v1/agents/{id}/reflect",
    ];
    row.is_own() || routes.contains(&row.route.as_str())
}

/// Returns a row's request, with objects created by `by`, which is the caller if the variant starts with `own`, and otherwise Olu. If it
/// depends on `who` in another way than by its sender, `depends_on_caller` must list it.
pub async fn recipe(w: &AccessFixture, row: &Row, who: TestCaller, by: &Person) -> Call {
    let n = w.next();
    let (path, general) = (row.path(), w.general.as_str());
    let workspace = &w.ada.workspace;
    // Inserts an ID into the path.
    let at = |id: &str| path.replace("{id}", id);
    match (row.route.as_str(), row.variant.as_str()) {
        ("GET /v1/ws", _) => Call {
            opens_socket: true,
            ..Call::get(path)
        },
        ("GET /v1/search", "in a file") => {
            let file = posted_file(by, general).await;
            Call::get(format!("/v1/search?kind=file&q=hello&file_id={file}"))
        }
        ("GET /v1/search", "in a vector store") => {
            let store = vector_store(&w.ada, Some(general)).await;
            Call::get(format!(
                "/v1/search?kind=file&q=hello&vector_store_id={store}"
            ))
        }
        ("GET /v1/search", _) => Call::get("/v1/search?q=hello"),
        ("GET /v1/inbox/changes", _) => Call::get("/v1/inbox/changes?since=0"),
        (route, "") if route.starts_with("GET ") && !path.contains('{') => Call::get(path),

        ("POST /v1/server/backups" | "POST /v1/server/drill", _) => {
            let backups = idle_backups(&w.ada).await;
            if backups["last"].is_null() && path.ends_with("drill") {
                w.ada.act("/v1/server/backups").await.is(202);
                idle_backups(&w.ada).await;
            }
            Call::act(path)
        }

        ("PATCH /v1/server", _) => Call::patch(path, json!({"key_copied": true})),
        (
            "POST /v1/server/certificate"
            | "POST /v1/server/checks"
            | "POST /v1/auth/passkey/options",
            _,
        ) => Call::act(path),

        ("POST /v1/identity-providers", _) => {
            w.app
                .db()
                .write(Uuid::nil(), async |c: &mut Conn| {
                    c.q("delete from identity_providers").run().await
                })
                .await
                .unwrap();
            let form =
                json!({"name": "Corp", "issuer": "http://127.0.0.1:9", "client_id": "openvibe"});
            Call::post(path, form)
        }
        ("POST /v1/auth/oidc/{id}/start" | "POST /v1/identity-providers/{id}/try", _) => {
            Call::post(at(&provider(w).await), json!({}))
        }
        ("POST /v1/auth/oidc/link", _) => Call::post(path, json!({"unknown": true})),
        (
            "GET /v1/identity-providers/{id}/people"
            | "POST /v1/identity-providers/{id}/links"
            | "GET /v1/identity-providers/{id}/scim-tokens"
            | "POST /v1/identity-providers/{id}/scim-tokens",
            _,
        ) => {
            let path = at(&provider(w).await);
            if row.route.starts_with("GET") {
                Call::get(path)
            } else {
                Call::act(path)
            }
        }
        ("DELETE /v1/identity-providers/{id}/scim-tokens/{token_id}", _) => {
            let (provider, token) = scim_token(w).await;
            Call::delete(format!(
                "/v1/identity-providers/{provider}/scim-tokens/{token}"
            ))
        }
        ("GET /v1/identity-providers/{id}", _) => Call::get(at(&provider(w).await)),
        ("DELETE /v1/identity-providers/{id}", _) => Call::delete(at(&provider(w).await)),
        ("PATCH /v1/identity-providers/{id}", _) => {
            Call::patch(at(&provider(w).await), json!({"name": format!("Corp {n}")}))
        }
        ("PUT /v1/identity-providers/{id}/secret", _) => {
            Call::put(at(&provider(w).await), json!({"value": "s3cret"}))
        }
        ("DELETE /v1/auth/identities/{id}", variant) => {
            let double = w.double(who).await;
            let of = if variant == "own" && !double.person.id.is_empty() {
                &double.person
            } else {
                &w.olu
            };
            Call::delete(at(&identity(w, of).await)).by(double.asks)
        }

        // Accounts. Calls that end a session or change a password are sent by a new user.
        ("POST /v1/auth/signup", _) => {
            let form = json!({"email": format!("new.{n}@example.org"), "password": PASSWORD, "name": "New"});
            Call::post(path, form).by(w.double(who).await.asks)
        }
        ("POST /v1/auth/signup/passkey" | "POST /v1/auth/signup/passkey/options", _) => {
            let invite = w.ada.post("/v1/invites", json!({})).await.is(201);
            let email = format!("new.{n}@example.org");
            let mut form = json!({"email": email, "name": "New", "invite": invite["token"]});
            if !path.ends_with("/options") {
                let mut key = Authenticator::new(&w.app.base);
                form = Box::pin(factors::passkey_form(&w.app, &mut key, &form)).await;
            }
            Call::post(path, form).by(w.double(who).await.asks)
        }
        ("POST /v1/auth/login", _) => {
            // Logging in ends the current session.
            let form = json!({"email": w.olu.email, "password": PASSWORD});
            Call::post(path, form).by(w.double(who).await.asks)
        }
        ("POST /v1/auth/confirm", _) => {
            Call::post(path, json!({"password": PASSWORD})).by(w.double(who).await.asks)
        }
        (route, _) if is_of_factors(route) => Box::pin(factor_recipe(w, row, who)).await,
        ("POST /v1/auth/sign-in-link", _) => {
            let token = operator::create_sign_in_link(w.app.db(), &w.olu.email).await;
            Call::post(path, json!({"token": token.unwrap()})).by(w.double(who).await.asks)
        }
        ("POST /v1/mail/unsubscribe", _) => Call::post(format!("{path}?token=unknown"), json!({})),
        ("DELETE /v1/auth/sessions" | "DELETE /v1/auth/me/avatar", _) => {
            Call::delete(path).by(w.double(who).await.asks)
        }
        ("POST /v1/auth/logout", _) => Call::act(path).by(w.double(who).await.asks),
        ("PATCH /v1/auth/me", _) => {
            Call::patch(path, json!({"name": format!("Renamed {n}")})).by(w.double(who).await.asks)
        }
        ("PUT /v1/auth/me/avatar", _) => {
            let double = w.double(who).await;
            let uploader = match who {
                TestCaller::Nobody => &w.ada,
                _ => &double.person,
            };
            // Viewers keep what they uploaded as members.
            if who == TestCaller::Viewer {
                w.set_role(uploader, "member").await;
            }
            let file = id(&uploader.upload("me", emoji::PNG).await);
            if who == TestCaller::Viewer {
                w.set_role(uploader, "viewer").await;
            }
            Call::put(path, json!({"file_id": file})).by(double.asks)
        }
        ("POST /v1/auth/password", _) => Call::post(
            path,
            json!({"current_password": PASSWORD, "new_password": "another horse"}),
        )
        .by(w.double(who).await.asks),
        ("POST /v1/push/devices", _) => {
            Call::post(path, push_device(n)).by(w.double(who).await.asks)
        }
        ("DELETE /v1/push/devices/{id}" | "POST /v1/push/devices/{id}/test", variant) => {
            let double = w.double(who).await;
            let of = match (variant, &double.person.cookie) {
                ("own", Some(_)) => double.person.clone(),
                _ => sign_up(&w.app.base, &format!("Phone {n}"), None).await,
            };
            let device = of.post("/v1/push/devices", push_device(n)).await.is(201);
            let method = if row.route.starts_with("POST") {
                Method::POST
            } else {
                Method::DELETE
            };
            Call::new(method, at(&id(&device)), None).by(double.asks)
        }
        ("DELETE /v1/auth/sessions/{id}", variant) => {
            let double = w.double(who).await;
            let of = if variant == "own" { &double.person } else { by };
            let sessions = if of.cookie.is_some() {
                of.get("/v1/auth/sessions").await.ok()
            } else {
                w.olu.get("/v1/auth/sessions").await.ok()
            };
            Call::delete(at(&id(&list(&sessions, "/data")[0]))).by(double.asks)
        }

        // Workspaces and people
        ("POST /v1/workspaces", _) => {
            Call::post(path, json!({"name": format!("Works {n}")})).by(w.double(who).await.asks)
        }
        ("PATCH /v1/workspaces/{id}", _) => {
            Call::patch(at(workspace), json!({"name": format!("Works {n}")}))
        }
        ("PATCH /v1/workspaces/{id}/policy", _) => {
            Call::patch(at(workspace), json!({"required_text": format!("Rule {n}")}))
        }
        ("PUT /v1/workspaces/{id}/model", _) => Call::put(
            at(workspace),
            json!({"provider": "other", "base_url": w.app.model.url, "model": "tiny"}),
        ),
        ("DELETE /v1/workspaces/{id}/model", _) => {
            let form = json!({"provider": "other", "base_url": w.app.model.url, "model": "tiny"});
            w.ada.put(&at(workspace), form).await.is(200);
            Call::delete(at(workspace))
        }
        ("PUT /v1/workspaces/{id}/embeddings", _) => Call::put(
            at(workspace),
            json!({"base_url": w.app.model.url, "model": "minilm"}),
        ),
        ("DELETE /v1/workspaces/{id}/embeddings", _) => {
            let form = json!({"base_url": w.app.model.url, "model": "minilm"});
            w.ada.put(&at(workspace), form).await.is(200);
            Call::delete(at(workspace))
        }
        ("GET /v1/workspaces/{id}/files/{path}", _) => {
            let file = at(workspace).replace("{path}", "AGENTS.md");
            w.ada.put(&file, json!({"content": "x"})).await.ok();
            Call::get(file)
        }
        ("PUT /v1/workspaces/{id}/files/{path}", _) => Call::put(
            at(workspace).replace("{path}", "TOOLS.md"),
            json!({"content": format!("Tool {n}")}),
        ),
        ("DELETE /v1/workspaces/{id}/files/{path}", _) => {
            let file = at(workspace).replace("{path}", "AGENTS.md");
            w.ada.put(&file, json!({"content": "x"})).await.ok();
            Call::delete(file)
        }
        ("PATCH /v1/members/{user_id}", "own handle") => {
            let double = w.double(who).await;
            let of = if double.person.id.is_empty() {
                &w.olu
            } else {
                &double.person
            };
            let path = path.replace("{user_id}", &of.id);
            Call::patch(path, json!({"handle": format!("own-{n}")})).by(double.asks)
        }
        ("PATCH /v1/members/{user_id}", "own role") => {
            let double = w.double(who).await;
            let of = if double.person.id.is_empty() {
                &w.olu
            } else {
                &double.person
            };
            let path = path.replace("{user_id}", &of.id);
            Call::patch(path, json!({"role": "member"})).by(double.asks)
        }
        ("PATCH /v1/members/{user_id}", _) => {
            let path = path.replace("{user_id}", &w.olu.id);
            Call::patch(path, json!({"handle": format!("olu-{n}")}))
        }
        ("POST /v1/members/{user_id}/merge", _) => {
            imports_ended(w).await;
            let name = format!("Past {n}");
            let placeholder = imports::placeholder(&w.app, &w.ada.workspace, &name).await;
            let path = path.replace("{user_id}", &placeholder);
            Call::post(path, json!({"into": w.olu.id}))
        }
        ("DELETE /v1/members/{user_id}", "own") => {
            let double = w.double(who).await;
            let of = if double.person.id.is_empty() {
                &w.olu
            } else {
                &double.person
            };
            Call::delete(path.replace("{user_id}", &of.id)).by(double.asks)
        }
        ("DELETE /v1/members/{user_id}", _) => {
            let other = w.double(TestCaller::Member).await.person;
            Call::delete(path.replace("{user_id}", &other.id))
        }
        ("GET /v1/members/{user_id}/export", "own") => {
            let of = w.person(who);
            let of = if of.id.is_empty() { &w.olu } else { &of };
            Call::get(path.replace("{user_id}", &of.id))
        }
        ("POST /v1/members/{user_id}/erase", _) => {
            let other = w.double(TestCaller::Member).await.person;
            let path = path.replace("{user_id}", &other.id);
            Call::post(path, json!({"handle": other.handle}))
        }
        ("GET /v1/members/{user_id}/erase", _) => {
            let other = w.double(TestCaller::Member).await.person;
            w.ada.erase(&other).await;
            Call::get(path.replace("{user_id}", &other.id))
        }
        ("GET /v1/usage", "own") => Call::get("/v1/usage?user_id=me"),
        ("GET /v1/budgets", "own") => Call::get("/v1/budgets?mine=true"),
        ("POST /v1/invites" | "POST /v1/model-test", _) => Call::post(path, json!({})),
        ("GET /v1/invites/{id}", _) => {
            let invite = w.ada.post("/v1/invites", json!({})).await.is(201);
            Call::get(at(&text(&invite, "/token")))
        }
        ("POST /v1/invites/{id}/accept", _) => {
            let invite = w.ada.post("/v1/invites", json!({})).await.is(201);
            let call = Call::act(at(&text(&invite, "/token")));
            match who {
                // Accepting the invite makes the user a member of this workspace, so the call needs a new user each time.
                TestCaller::Foreign => call.by(newcomer(w).await),
                _ => call,
            }
        }
        ("GET /v1/api-keys", "all") => Call::get("/v1/api-keys?all=true"),
        ("POST /v1/api-keys", "with workspace:admin") => Call::post(
            path,
            json!({"name": "robot", "scopes": ["workspace:admin"]}),
        )
        .by(w.double(who).await.asks),
        ("POST /v1/api-keys", "with agents:read") => {
            Call::post(path, json!({"name": "robot", "scopes": ["agents:read"]}))
                .by(w.double(who).await.asks)
        }
        ("DELETE /v1/api-keys/{id}", "own") => {
            let double = w.double(who).await;
            let of = if double.person.cookie.is_some() {
                &double.person
            } else {
                by
            };
            let scopes = ["chat:read"];
            let key = match who {
                // A key of the caller's own workspace does not exist in this workspace, and guests have none, so this uses one of Ada's.
                TestCaller::Foreign | TestCaller::Guest => w.ada.make_key(&scopes).await.1,
                _ => of.make_key(&scopes).await.1,
            };
            Call::delete(at(&key)).by(double.asks)
        }

        // Channels
        ("POST /v1/channels", _) => Call::post(path, json!({"name": format!("room {n}")})),
        ("POST /v1/direct", "with an agent") => {
            let agent = id(&w.ada.agent("vibe").await);
            Call::post(path, json!({"agent_id": agent}))
        }
        ("POST /v1/direct", _) => Call::post(path, json!({"member_ids": [w.olu.id]})),
        (
            "GET /v1/channels/{id}"
            | "GET /v1/channels/{id}/members"
            | "GET /v1/channels/{id}/pins"
            | "GET /v1/channels/{id}/threads"
            | "GET /v1/channels/{id}/catch-up",
            _,
        ) => Call::get(at(general)),
        ("POST /v1/channels/{id}/read", _) => Call::act(at(general)),
        ("PATCH /v1/channels/{id}", "with an agent") => {
            let agent = json!({"agent_id": id(&w.ada.agent("vibe").await), "mode": "mentions"});
            Call::patch(at(&room(by, n).await), json!({"agent": agent}))
        }
        ("PATCH /v1/channels/{id}", _) => {
            Call::patch(at(&room(by, n).await), json!({"topic": "Plans"}))
        }
        ("POST /v1/channels/{id}/unarchive", _) => {
            let room = room(by, n).await;
            by.act(&format!("/v1/channels/{room}/archive"))
                .await
                .is(200);
            Call::act(at(&room))
        }
        ("PUT /v1/channels/{id}/level", _) => {
            let (room, person) = (room(by, n).await, w.person(who));
            bring(host(w, by, who), &room, &person, who).await;
            Call::put(at(&room), json!({"level": "all"}))
        }
        ("POST /v1/channels/{id}/leave", _) => {
            let (room, person) = (room(by, n).await, w.person(who));
            bring(host(w, by, who), &room, &person, who).await;
            Call::act(at(&room))
        }
        ("POST /v1/channels/{id}/members", _) => {
            Call::post(at(&room(by, n).await), json!({"user_id": w.olu.id}))
        }
        ("DELETE /v1/channels/{id}/members/{user_id}", variant) => {
            let room = room(by, n).await;
            let person = w.person(who);
            bring(by, &room, &w.vera, TestCaller::Viewer).await;
            bring(host(w, by, who), &room, &person, who).await;
            let gone = match variant {
                "oneself" if who != TestCaller::Nobody => &person,
                _ if who == TestCaller::Viewer => &w.olu,
                _ => &w.vera,
            };
            Call::delete(at(&room).replace("{user_id}", &gone.id))
        }

        // Threads and messages
        ("POST /v1/channels/{id}/threads", "for an agent") => {
            let agent = id(&w.ada.agent("vibe").await);
            // The message does not mention an agent, but the thread's agent replies.
            Call::post(at(general), json!({"content": "Hello", "agent_id": agent}))
        }
        ("POST /v1/channels/{id}/threads", _) => Call::post(at(general), json!({"content": "Hi"})),
        ("PATCH /v1/threads/{id}", "to an agent") => {
            let agent = id(&w.ada.agent("vibe").await);
            let thread = by.thread(general, "Root").await;
            Call::patch(at(&thread), json!({"agent_id": agent}))
        }
        ("PATCH /v1/threads/{id}", _) => Call::patch(
            at(&by.thread(general, "Root").await),
            json!({"title": "Plan"}),
        ),
        ("DELETE /v1/threads/{id}", "own") => {
            Call::delete(at(&text(&chat(w, by).await, "/thread/id")))
        }
        ("POST /v1/threads/{id}/variants", _) => {
            let started = chat(w, by).await;
            Call::post(
                at(&text(&started, "/thread/id")),
                json!({"message_id": started["message"]["id"]}),
            )
        }
        ("DELETE /v1/threads/{id}", _) => Call::delete(at(&by.thread(general, "Root").await)),
        ("PUT /v1/threads/{id}/preset" | "PUT /v1/forks/{id}/preset", _) => {
            let place = if path.contains("/threads/") {
                by.thread(general, "Root").await
            } else {
                dive(by, general).await.2
            };
            let agent = id(&w.ada.agent("vibe").await);
            // Other calls replace the workspace's presets, but this preset is always one of them.
            Call::put(at(&place), json!({"agent_id": agent, "preset": "concise"}))
        }
        ("PUT /v1/threads/{id}/read", _) => {
            let started = by.start(general, "Root").await;
            let seq = started["message"]["seq"].clone();
            Call::put(at(&text(&started, "/thread/id")), json!({"seq": seq}))
        }
        ("PUT /v1/threads/{id}/follow", _) => Call::put(
            at(&by.thread(general, "Root").await),
            json!({"level": "none"}),
        ),
        ("PUT /v1/forks/{id}/read", _) => {
            Call::put(at(&dive(by, general).await.2), json!({"seq": 1}))
        }
        ("PUT /v1/forks/{id}/follow", _) => {
            Call::put(at(&dive(by, general).await.2), json!({"level": "none"}))
        }
        ("POST /v1/threads/{id}/messages", _) => Call::post(
            at(&by.thread(general, "Root").await),
            json!({"content": "Hi"}),
        ),
        ("PATCH /v1/messages/{id}", _) => Call::patch(
            at(&message(by, general).await),
            json!({"content": "Hi there"}),
        ),
        ("PUT /v1/messages/{id}/saved" | "PUT /v1/messages/{id}/pin", _) => {
            Call::put(at(&message(by, general).await), json!({}))
        }
        ("DELETE /v1/messages/{id}/saved", _) => {
            let path = at(&message(by, general).await);
            by.put(&path, json!({})).await;
            Call::delete(path)
        }
        ("DELETE /v1/messages/{id}/pin" | "DELETE /v1/messages/{id}/unfurls", _) => {
            Call::delete(at(&message(by, general).await))
        }
        ("PUT /v1/messages/{id}/reactions/{emoji}", _) => Call::new(
            Method::PUT,
            at(&message(by, general).await).replace("{emoji}", "%F0%9F%91%8D"),
            None,
        ),
        ("DELETE /v1/messages/{id}/reactions/{emoji}", _) => {
            let message = message(by, general).await;
            let path = at(&message).replace("{emoji}", "%F0%9F%91%8D");
            by.put(&path, json!({})).await.is(200);
            Call::delete(path)
        }

        // Actions. Calls by other people than the requester, and calls with keys, cannot decide about an action.
        ("POST /v1/actions/{id}/approve" | "POST /v1/actions/{id}/deny", _) => {
            let action = if decides(row, who) {
                w.waiting_action(by).await
            } else {
                w.standing_action().await
            };
            let requester = if decides(row, who) { by } else { &w.olu };
            let shown = requester.get(&format!("/v1/actions/{action}")).await.ok();
            let form = json!({"arguments_hash": shown["arguments_hash"]});
            Call::post(at(&action), form)
        }
        ("POST /v1/actions/{id}/settle", _) => {
            let action = if decides(row, who) {
                let action = w.waiting_action(by).await;
                become_unknown(w, &action).await;
                action
            } else {
                w.standing_action().await
            };
            Call::post(at(&action), json!({"outcome": "did_not_happen"}))
        }
        ("POST /v1/actions/{id}/answer", _) => {
            let action = if decides(row, who) {
                let action = w.waiting_action(by).await;
                become_question(w, &action).await;
                action
            } else {
                w.standing_action().await
            };
            Call::post(at(&action), json!({"value": {"name": "login"}}))
        }
        ("POST /v1/runners", _) => {
            // A workspace can have only 20.
            w.app
                .db()
                .write(Uuid::nil(), async |c: &mut Conn| {
                    c.q("delete from runners where name <> 'kept'").run().await
                })
                .await
                .unwrap();
            Call::post(path, json!({"name": format!("build {n}")}))
        }
        ("GET /v1/code-sessions/{id}/log", _) => {
            let code = stored_code(&w.app, by, general, "made").await;
            Call::get(format!("{}?task_id={}", at(&code.session), code.task))
        }
        ("DELETE /v1/grants/{id}", _) => {
            let grant = if decides(row, who) {
                w.new_grant(by).await
            } else {
                w.standing_grant().await
            };
            Call::delete(at(&grant))
        }

        ("POST /v1/bots", _) => Call::post(path, json!({"name": format!("Robot {n}")})),
        ("DELETE /v1/bots/{id}", _) => Call::delete(at(&made_bot(&w.ada, n).await)),
        ("POST /v1/bots/{id}/keys", _) => {
            Call::post(at(&made_bot(&w.ada, n).await), json!({"name": "CI"}))
        }
        ("DELETE /v1/bots/{id}/keys/{key_id}", _) => {
            let bot = made_bot(&w.ada, n).await;
            let keys = format!("/v1/bots/{bot}/keys");
            let key = w.ada.post(&keys, json!({"name": "CI"})).await.is(201);
            Call::delete(at(&bot).replace("{key_id}", &id(&key)))
        }
        ("POST /v1/commands/{name}", _) => {
            let bot = subscribed_bot(&w.ada, n).await;
            let name = format!("deploy-{n}");
            let commands = json!({"commands": [{"name": name}]});
            let of_bot = format!("/v1/bots/{bot}");
            w.ada.patch(&of_bot, commands).await.is(200);
            let membership = format!("/v1/channels/{general}/bots/{bot}");
            w.ada.put(&membership, json!({})).await.is(200);
            Call::post(
                format!("/v1/commands/{name}"),
                json!({"channel_id": general}),
            )
        }
        ("POST /v1/messages/{id}/buttons/{button_id}", _) => {
            let bot = subscribed_bot(&w.ada, n).await;
            let form = json!({"bot_id": bot, "channel_id": general});
            let made = w.ada.post("/v1/hooks", form).await.is(201);
            let url = text(&made, "/url");
            let hook = format!("{}?answer=json", &url[url.find("/hooks/").unwrap()..]);
            let sent =
                json!({"text": "Deploy?", "buttons": [{"id": "yes", "text": "Yes", "value": "1"}]});
            let posted = w.ada.post(&hook, sent).await.is(200);
            Call::act(at(&text(&posted, "/message_id")).replace("{button_id}", "yes"))
        }
        ("PUT /v1/bots/{id}/subscription", _) => Call::put(
            at(&made_bot(&w.ada, n).await),
            json!({"transport": "socket", "events": ["message.created"]}),
        ),
        ("DELETE /v1/bots/{id}/subscription", _) => {
            Call::delete(at(&subscribed_bot(&w.ada, n).await))
        }
        ("POST /v1/bots/{id}/subscription/secret" | "POST /v1/bots/{id}/subscription/test", _) => {
            Call::act(at(&subscribed_bot(&w.ada, n).await))
        }
        ("POST /v1/bots/{id}/subscription/replay", _) => Call::post(
            at(&subscribed_bot(&w.ada, n).await),
            json!({"since": "2026-11-29T08:00:00.000Z"}),
        ),
        ("GET /v1/bots/{id}/subscription/deliveries", _) => {
            Call::get(at(&subscribed_bot(&w.ada, n).await))
        }
        ("POST /v1/bots/{id}/subscription/deliveries/{delivery_id}/replay", _) => {
            let bot = subscribed_bot(&w.ada, n).await;
            let delivery = sent_event(w, &bot).await;
            Call::act(at(&bot).replace("{delivery_id}", &delivery))
        }
        ("PUT /v1/channels/{id}/bots/{bot_id}", _) => {
            let bot = made_bot(&w.ada, n).await;
            Call::put(at(general).replace("{bot_id}", &bot), json!({}))
        }
        ("DELETE /v1/channels/{id}/bots/{bot_id}", _) => {
            let bot = made_bot(&w.ada, n).await;
            let added = format!("/v1/channels/{general}/bots/{bot}");
            w.ada.put(&added, json!({})).await.is(200);
            Call::delete(at(general).replace("{bot_id}", &bot))
        }
        ("POST /v1/imports", _) => {
            imports_ended(w).await;
            Call::post(path, json!({}))
        }
        ("PUT /v1/imports/{id}/archive", _) => {
            imports_ended(w).await;
            let import = imports::created(&w.ada).await;
            Call {
                form: Some(b"0123456789".to_vec()),
                headers: vec![("content-range", "bytes 0-9/20".to_owned())],
                ..Call::new(Method::PUT, at(&import), None)
            }
        }
        ("POST /v1/imports/{id}/start", _) => {
            imports_ended(w).await;
            Call::act(at(&imports::ready(&w.ada, &imports::export(&[])).await))
        }
        ("GET /v1/imports/{id}/preview", _) => {
            imports_ended(w).await;
            Call::get(at(&imports::ready(&w.ada, &imports::export(&[])).await))
        }
        ("POST /v1/exports", _) => {
            exports_ended(w).await;
            Call::post(path, json!({"files": false}))
        }
        ("DELETE /v1/exports/{id}", _) => Call::delete(at(&exports::done(&w.ada).await)),
        ("GET /v1/exports/{id}/file", _) => Call::get(at(&exports::done(&w.ada).await)),
        ("POST /v1/hooks", _) => Call::post(
            path,
            json!({"name": format!("Robot {n}"), "channel_id": general}),
        ),
        ("PUT /v1/hooks/{id}/secret", _) => {
            let hook = hook(by, general).await.0;
            Call::put(at(&hook), json!({"value": "a long random text"}))
        }
        ("POST /v1/hooks/{id}/requests/{request_id}/post", _) => {
            let (hook, request) = received(by, general).await;
            Call::act(at(&hook).replace("{request_id}", &request))
        }
        ("POST /v1/schedules", _) => Call::post(path, yearly(general)),
        ("POST /v1/schedules/{id}/run", _) => Call::act(at(&schedule(by, general).await)),

        // Memory
        ("POST /v1/memories", "for an agent") => {
            let agent = made_agent(w, n).await;
            let form = json!({"text": format!("Fact {n}"), "kind": "fact", "scope": "agent", "agent_id": agent});
            Call::post(path, form)
        }
        ("POST /v1/memories", _) => {
            Call::post(path, json!({"text": format!("Fact {n}"), "kind": "fact"}))
        }
        ("DELETE /v1/memories", "of another") => {
            Call::delete(format!("{path}?user_id={}", w.olu.id))
        }
        ("DELETE /v1/memories", "of a thread") => {
            let thread = by.thread(general, "Root").await;
            Call::delete(format!("{path}?thread_id={thread}"))
        }
        ("DELETE /v1/memories", "of an agent") => {
            let agent = made_agent(w, n).await;
            Call::delete(format!("{path}?agent_id={agent}"))
        }
        ("DELETE /v1/memories", _) => Call::delete("/v1/memories?user_id=me"),
        ("GET /v1/memories", "of agents") => Call::get("/v1/memories?scope=agent"),
        (
            "GET /v1/memories/{id}" | "PATCH /v1/memories/{id}" | "DELETE /v1/memories/{id}",
            "own",
        ) => {
            let form = json!({"text": format!("Fact {n}"), "kind": "fact"});
            let made = id(&by.post("/v1/memories", form).await.is(201));
            match row.route.as_str() {
                "PATCH /v1/memories/{id}" => Call::patch(at(&made), json!({"kind": "note"})),
                "DELETE /v1/memories/{id}" => Call::delete(at(&made)),
                _ => Call::get(at(&made)),
            }
        }
        ("POST /v1/memories/{id}/publish", _) => {
            let made = remembered(by, general).await;
            let path = format!("/v1/memories/{made}");
            let shared = json!({"visibility": "workspace", "share_with_organization": true});
            by.patch(&path, shared).await.is(200);
            Call::act(at(&made))
        }

        ("PUT /v1/members/me/files/USER.md", _) => {
            Call::put(path, json!({"content": format!("Text {n}")}))
        }
        ("DELETE /v1/members/me/files/USER.md", _) => {
            if !matches!(
                who,
                TestCaller::Nobody | TestCaller::Foreign | TestCaller::Guest
            ) {
                let form = json!({"content": format!("Text {n}")});
                w.person(who).put(path, form).await.is(200);
            }
            Call::delete(path)
        }

        ("POST /v1/emoji", _) => {
            let file = id(&by.upload("emoji", emoji::PNG).await);
            Call::post(path, json!({"name": format!("emoji{n}"), "file_id": file}))
        }
        ("DELETE /v1/emoji", _) => {
            let name = format!("emoji{n}");
            emoji::add_emoji(by, &name, emoji::PNG).await;
            Call::delete(format!("{path}?name={name}"))
        }

        // Files
        ("POST /v1/files", _) => Call {
            form: Some(multipart(&[("name=\"file\"; filename=\"a.txt\"", b"x")])),
            headers: vec![("content-type", MULTIPART.to_owned())],
            ..Call::act(path)
        },
        ("PATCH /v1/files/{id}", unattached) if !unattached.is_empty() => {
            let file = id(&by.upload("a.txt", b"x").await);
            Call::patch(at(&file), json!({"alt": "a cat"}))
        }
        ("POST /v1/files/{id}/suggest-alt", unattached) if !unattached.is_empty() => {
            let file = id(&by.upload("a.png", &crate::pictures::red()).await);
            Call::post(at(&file), json!({}))
        }
        ("DELETE /v1/files/{id}", unattached) if !unattached.is_empty() => {
            Call::delete(at(&id(&by.upload("a.txt", b"x").await)))
        }
        ("POST /v1/vector_stores", _) => Call::post(path, json!({"name": format!("Store {n}")})),
        ("POST /v1/vector_stores/{id}/files", _) => {
            let store = vector_store(&w.ada, None).await;
            Call::post(
                at(&store),
                json!({"file_id": id(&by.upload("a.txt", b"x").await)}),
            )
        }
        ("POST /v1/vector_stores/{id}/file_batches", _) => {
            let store = vector_store(&w.ada, None).await;
            Call::post(
                at(&store),
                json!({"file_ids": [id(&by.upload("a.txt", b"x").await)]}),
            )
        }
        ("PUT /v1/vector_stores/{id}/paths/{path}", _) => {
            let store = vector_store(&w.ada, None).await;
            Call {
                form: Some(b"x".to_vec()),
                ..Call::new(
                    Method::PUT,
                    at(&store).replace("{path}", &format!("{n}.txt")),
                    None,
                )
            }
        }
        ("DELETE /v1/vector_stores/{id}/paths/{path}", _) => {
            let (store, _) = stored_file(&w.ada).await;
            Call::delete(at(&store).replace("{path}", "a.txt"))
        }
        ("POST /v1/vector_stores/{id}/urls", _) => {
            let store = vector_store(&w.ada, None).await;
            Call::post(
                at(&store),
                json!({"url": format!("https://[2d00::1]/{n}"), "every_s": 86_400, "path": "page"}),
            )
        }
        (route, _) if route.contains("/v1/vector_stores/{id}/files/{file_id}") => {
            let (store, file) = stored_file(&w.ada).await;
            let path = at(&store).replace("{file_id}", &file);
            Call::new(
                route.split(' ').next().unwrap().parse().unwrap(),
                path,
                body_example(route),
            )
        }
        (route, _) if route.contains("/file_batches/{batch_id}") => {
            let store = vector_store(&w.ada, None).await;
            let file = id(&w.ada.upload("a.txt", b"x").await);
            let batches = format!("/v1/vector_stores/{store}/file_batches");
            let batch = w
                .ada
                .post(&batches, json!({"file_ids": [file]}))
                .await
                .is(200);
            let path = at(&store).replace("{batch_id}", &id(&batch));
            Call::new(
                route.split(' ').next().unwrap().parse().unwrap(),
                path,
                None,
            )
        }
        (
            "GET /v1/files/{id}"
            | "GET /v1/files/{id}/metadata"
            | "GET /v1/files/{id}/text"
            | "GET /v1/files/{id}/content",
            unattached,
        ) if !unattached.is_empty() => Call::get(at(&id(&by.upload("a.txt", b"x").await))),

        // Forks
        ("POST /v1/threads/{id}/forks", variant) => {
            let started = by.start(general, "Root").await;
            let mut form = json!({"message_id": started["message"]["id"], "agent_id": null});
            if variant == "for an agent" {
                form["agent_id"] = w.ada.agent("vibe").await["id"].clone();
            }
            Call::post(at(&text(&started, "/thread/id")), form)
        }
        ("PATCH /v1/forks/{id}", _) => {
            Call::patch(at(&dive(by, general).await.2), json!({"title": "The day"}))
        }
        ("POST /v1/threads/{id}/catch-up", _) => {
            let thread = by.thread(general, "Where do we launch?").await;
            for n in 0..20 {
                by.say(&thread, &format!("Idea {n}")).await;
            }
            Call::post(format!("{}?since=0", at(&thread)), json!({}))
        }
        ("POST /v1/threads/{id}/compactions", _) => {
            Call::post(at(&compactable(by, general).await), json!({}))
        }
        ("POST /v1/forks/{id}/compactions", _) => {
            let fork = dive(by, general).await.2;
            for n in 0..10 {
                by.say_in(&fork, &format!("Idea {n}")).await;
            }
            Call::post(at(&fork), json!({}))
        }
        ("GET /v1/compactions/{id}", _) => Call::get(at(&compaction(by, general).await)),
        ("DELETE /v1/compactions/{id}", _) => Call::delete(at(&compaction(by, general).await)),
        (
            "POST /v1/compactions/{id}/expand"
            | "POST /v1/compactions/{id}/collapse"
            | "POST /v1/compactions/{id}/redo",
            _,
        ) => Call::act(at(&compaction(by, general).await)),
        ("POST /v1/forks/{id}/messages", _) => {
            Call::post(at(&dive(by, general).await.2), json!({"content": "Hi"}))
        }
        ("POST /v1/forks/{id}/reopen", _) => Call::act(at(&resolved(by, general).await.fork)),
        ("GET /v1/forks/{id}/resolution" | "GET /v1/forks/{id}/resolutions", _) => {
            Call::get(at(&resolved(by, general).await.fork))
        }
        ("PATCH /v1/forks/{id}/resolution", _) => {
            let fork = dive(by, general).await.2;
            Call::patch(at(&fork), json!({"headline": "Monday"})).if_match(0)
        }
        ("POST /v1/forks/{id}/publish", _) => {
            let fork = dive(by, general).await.2;
            Call::post(at(&fork), json!({"resolution": {"headline": "Monday"}}))
        }
        ("PATCH /v1/action-items/{id}", _) => {
            Call::patch(at(&resolved(by, general).await.item), json!({"done": true}))
        }

        // Tasks
        (
            "GET /v1/tasks/{id}" | "GET /v1/tasks/{id}/tree" | "POST /v1/tasks/{id}/cancel",
            "of the API" | "own of the API",
        ) => unplaced(row, w, by).await,
        ("GET /v1/tasks/{id}/replay", _) => Call::get(at(&replayed(w, n, by).await)),

        // Agents
        ("POST /v1/agents", _) => Call::post(path, agent(n)),
        ("POST /v1/agents/import" | "POST /v1/agents/preview", _) => {
            Call::post(path, json!({"agent": agent(n)}))
        }
        ("PUT /v1/agents/{id}", _) => Call::put(at(&made_agent(w, n).await), agent(n)),
        ("PATCH /v1/agents/{id}", "to the default") => {
            Call::patch(at(&made_agent(w, n).await), json!({"role": "primary"}))
        }
        ("PATCH /v1/agents/{id}", "its status") => {
            Call::patch(at(&made_agent(w, n).await), json!({"status": "inactive"}))
        }
        ("PATCH /v1/agents/{id}", _) => {
            Call::patch(at(&made_agent(w, n).await), json!({"description": "Plans"}))
        }
        ("DELETE /v1/agents/{id}", "for good") => {
            Call::delete(format!("{}?permanent=true", at(&made_agent(w, n).await)))
        }
        ("POST /v1/agents/{id}/accept", _) => {
            Call::post(at(&made_agent(w, n).await), json!({})).if_match(1)
        }
        ("POST /v1/agents/{id}/duplicate", _) => Call::post(
            at(&made_agent(w, n).await),
            json!({"name": format!("copy-{n}")}),
        ),
        (
            "GET /v1/agents/{id}/versions/{version}"
            | "GET /v1/agents/{id}/versions/{version}/diff",
            _,
        ) => Call::get(at(&made_agent(w, n).await).replace("{version}", "1")),
        ("POST /v1/agents/{id}/replays", _) => {
            Call::post(at(&replied(w, n).await), json!({"draft": {}}))
        }
        ("GET /v1/agents/{id}/state", _) => Call::get(state_of(w, n, path, by).await),
        ("DELETE /v1/agents/{id}/state", _) => Call::delete(state_of(w, n, path, by).await),
        ("POST /v1/agents/{id}/reflect", _) => reflection(w, n, path, who, by).await,
        ("GET /v1/agents/{id}/files/{path}", _) => {
            Call::get(at(&made_agent(w, n).await).replace("{path}", "SOUL.md"))
        }
        ("PUT /v1/agents/{id}/files/{path}", _) => Call::put(
            at(&made_agent(w, n).await).replace("{path}", "NOTES.md"),
            json!({"content": "x"}),
        ),
        ("DELETE /v1/agents/{id}/files/{path}", _) => {
            let file = at(&made_agent(w, n).await).replace("{path}", "NOTES.md");
            w.ada.put(&file, json!({"content": "x"})).await.ok();
            Call::delete(file)
        }
        ("POST /v1/rpc/{method}", method) => {
            let path = path.replace("{method}", method);
            let of = json!({"agent_id": made_agent(w, n).await});
            let body = match method {
                "agents.list" | "agent.identity.get" => json!({}),
                "agents.create" => json!({"id": format!("rpc-{n}")}),
                "agents.update" => with(of, json!({"label": format!("Renamed {n}")})),
                "agents.files.get" => with(of, json!({"path": "SOUL.md"})),
                "agents.files.set" => with(of, json!({"path": "NOTES.md", "content": "x"})),
                "agent.identity.update" => json!({"identity": format!("Calm {n}")}),
                "agent.identity.update_soul" => json!({"soul": format!("You are calm {n}.")}),
                "agents.get" | "agents.delete" | "agents.set_default" | "agents.files.list"
                | "agent.toggleActive" => of,
                other => panic!("recipes.rs knows no method {other}"),
            };
            Call::post(path, body)
        }
        ("POST /v1/sandbox-policies", _) => Call::post(path, sandbox(&format!("box {n}"))),
        ("PUT /v1/sandbox-policies/{id}", _) => {
            Call::put(at(&made_sandbox(w, n).await), sandbox(&format!("box {n}")))
        }
        ("POST /v1/personas", _) => Call::post(path, json!({"name": format!("persona {n}")})),
        ("PUT /v1/personas/{id}", _) => Call::put(
            at(&made_persona(w, n).await),
            json!({"name": format!("persona {n}")}),
        ),
        ("POST /v1/personas/{id}/duplicate", _) => Call::post(
            at(&made_persona(w, n).await),
            json!({"name": format!("persona {n}")}),
        ),

        ("POST /v1/skills", _) => {
            // A workspace can have only 100.
            let name = format!("skill-{n}");
            free_skill(w).await;
            Call::post(path, skill_form(&name))
        }
        ("POST /v1/skills/import", _) => {
            let code = stored_code(&w.app, by, general, "made").await;
            let form = json!({"repository_id": code.repository, "path": "skills/tides"});
            Call::post(path, form)
        }
        ("PUT /v1/skills/{id}", _) => Call::put(
            at(&made_skill(w, n).await),
            skill_form(&format!("other-{n}")),
        ),

        ("POST /v1/workflows", _) => Call::post(path, workflow_form(&format!("flow-{n}"))),
        ("PUT /v1/workflows/{id}", _) => Call::put(
            at(&made_workflow(by, n).await),
            workflow_form(&format!("flow-{n}")),
        ),

        ("POST /v1/workflows/{id}/runs", _) => Call::post(
            at(&made_workflow(by, n).await),
            json!({"channel_id": general}),
        ),

        ("POST /v1/tools", _) => {
            let name = format!("tool-{n}");
            Call::post(
                path,
                json!({"kind": "function", "name": name, "config": {}}),
            )
        }
        ("PUT /v1/tools/{id}/functions/{name}", _) => {
            let (path, body) = acceptance(&made_tool(w, n).await);
            Call::put(path, body)
        }
        ("DELETE /v1/tools/{id}/functions/{name}", _) => {
            let (path, body) = acceptance(&made_tool(w, n).await);
            w.ada.put(&path, body).await.is(200);
            Call::delete(path)
        }
        ("DELETE /v1/tools/{id}/secret", _) => {
            let path = at(&id(&made_tool(w, n).await));
            w.ada.put(&path, json!({"value": "hunter2"})).await.is(204);
            Call::delete(path)
        }

        // Responses API
        ("GET /v1/models/{id}", _) => Call::get(path.replace("{id}", "agent:vibe")),
        ("POST /v1/responses", _) => Call::post(path, json!({"input": "Hello", "store": false})),
        ("POST /v1/chat/completions", _) => {
            let messages = json!([{"role": "user", "content": "Hello"}]);
            Call::post(path, json!({"messages": messages}))
        }
        ("POST /mcp", _) => Call {
            headers: vec![("accept", "application/json, text/event-stream".to_owned())],
            ..documented(w, row, by).await
        },
        _ => documented(w, row, by).await,
    }
}

/// Builds the documented call: a new object for each ID in the path and for each required ID in the query, and the example of the
/// body.
async fn documented(w: &AccessFixture, row: &Row, by: &Person) -> Call {
    let (method, _) = row.route.split_once(' ').unwrap();
    let mut path = row.path().to_owned();
    for (part, kind) in kinds_of(row.path()) {
        path = path.replace(part, &object(w, kind, by).await);
    }
    assert!(
        !path.contains('{'),
        "{}: add a recipe to tests/api/route_access/recipes.rs",
        row.name()
    );
    for (n, (name, kind)) in required_ids(&row.route).iter().enumerate() {
        let mark = if n == 0 { '?' } else { '&' };
        path = format!("{path}{mark}{name}={}", object(w, kind, by).await);
    }
    Call::new(method.parse().unwrap(), path, body_example(&row.route))
}

/// Creates an object that every member can see, as `by` if members can create it; returns its ID.
async fn object(w: &AccessFixture, kind: &str, by: &Person) -> String {
    let (n, general) = (w.next(), w.general.as_str());
    match kind {
        "act" => w.standing_action().await,
        "agent" => made_agent(w, n).await,
        "channel" => room(by, n).await,
        "code" => stored_code(&w.app, by, general, "made").await.session,
        "file" => posted_file(by, general).await,
        "fork" => dive(by, general).await.2,
        "invite" => id(&w.ada.post("/v1/invites", json!({})).await.is(201)),
        "item" => resolved(by, general).await.item,
        "key" => by.make_key(&["chat:read"]).await.1,
        "memory" => remembered(by, general).await,
        "message" => message(by, general).await,
        "persona" => made_persona(w, n).await,
        "skill" => made_skill(w, n).await,
        "repository" => stored_code(&w.app, by, general, "made").await.repository,
        "response" => kept_response(by).await,
        "runner" => stored_code(&w.app, by, general, "made").await.runner,
        "sandbox" => made_sandbox(w, n).await,
        "schedule" => schedule(by, general).await,
        "store" => vector_store(&w.ada, None).await,
        "hook" => hook(by, general).await.0,
        "import" => {
            imports_ended(w).await;
            imports::created(&w.ada).await
        }
        "export" => {
            exports_ended(w).await;
            exports::requested(&w.ada, json!({})).await
        }
        "bot" => hook(&w.ada, general).await.1,
        "task" => w.failed_task(by).await,
        "thread" => by.thread(general, "Root").await,
        "tool" => id(&made_tool(w, n).await),
        "user" => w.olu.id.clone(),
        "flow" => made_workflow(by, n).await,
        "run" => made_run(w, by).await,
        "workspace" => w.ada.workspace.clone(),
        other => panic!("tests/api/route_access/recipes.rs cannot create a {other}"),
    }
}

/// Checks whether the caller is the requester with a browser session.
fn decides(row: &Row, who: TestCaller) -> bool {
    row.is_own()
        && matches!(
            who,
            TestCaller::Viewer | TestCaller::Member | TestCaller::Admin
        )
}

/// Makes an action look as if its worker was lost during a write. No built-in function writes, so this cannot happen otherwise.
async fn become_unknown(w: &AccessFixture, action: &str) {
    let action: ActionId = action.parse().unwrap();
    let lose = async move |c: &mut Conn| {
        c.q("update actions set state = 'unknown' where id = $1")
            .bind(action)
            .run()
            .await
    };
    w.app.db().write(action.0, lose).await.unwrap();
}

/// Makes a waiting action a question with a form.
async fn become_question(w: &AccessFixture, action: &str) {
    let action: ActionId = action.parse().unwrap();
    let form = json!({"schema": {"properties": {"name": {"type": "string"}}}}).to_string();
    let ask = async move |c: &mut Conn| {
        c.q("update actions set kind = 'question' where id = $1")
            .bind(action)
            .run()
            .await?;
        c.q("update context_texts set text = $2 where id = (select arguments_id from actions where id = $1)")
            .bind(action)
            .bind(form.clone())
            .run()
            .await
    };
    w.app.db().write(action.0, ask).await.unwrap();
}

fn with(mut object: Value, fields: Value) -> Value {
    let Value::Object(fields) = fields else {
        panic!("{fields} is no object");
    };
    object.as_object_mut().unwrap().extend(fields);
    object
}

fn agent(n: u64) -> Value {
    json!({"name": format!("agent-{n}"), "instructions": "You help.", "editors": []})
}

async fn made_agent(w: &AccessFixture, n: u64) -> String {
    id(&w.ada.post("/v1/agents", agent(n)).await.is(201))
}

/// An agent that has replied in a public channel.
async fn replied(w: &AccessFixture, n: u64) -> String {
    let made = made_agent(w, n).await;
    let mut socket = w.ada.socket().await;
    let started = w.ada.start(&w.general, &format!("@agent-{n} hi")).await;
    let ended = socket.ended(&text(&started, "/tasks/0/id")).await;
    assert_eq!(ended["status"], "completed", "{ended}");
    made
}

/// A replay that this person started.
async fn replayed(w: &AccessFixture, n: u64, by: &Person) -> String {
    let path = format!("/v1/agents/{}/replays", replied(w, n).await);
    let mut socket = by.socket().await;
    let queued = by.post(&path, json!({"draft": {}})).await.is(202);
    let task = text(&queued, "/task/id");
    let ended = socket.ended(&task).await;
    assert_eq!(ended["status"], "completed", "{ended}");
    task
}

/// Path of an adaptation state in a new thread.
async fn state_of(w: &AccessFixture, n: u64, path: &str, by: &Person) -> String {
    let agent = made_agent(w, n).await;
    let thread = by.thread(&w.general, "Root").await;
    format!("{}?thread_id={thread}", path.replace("{id}", &agent))
}

/// A reflection that the workspace, the agent, and the caller allow.
async fn reflection(w: &AccessFixture, n: u64, path: &str, who: TestCaller, by: &Person) -> Call {
    let policy = format!("/v1/workspaces/{}/policy", w.ada.workspace);
    w.ada
        .patch(&policy, json!({"adaptation_allowed": true}))
        .await
        .is(200);
    if !matches!(
        who,
        TestCaller::Nobody | TestCaller::Foreign | TestCaller::Guest
    ) {
        let on = json!({"adapt": true});
        w.person(who).patch("/v1/memory-settings", on).await.is(200);
    }
    let metaprompt =
        json!({"id": "check-in", "template": "{{evidence}}", "trigger": {"type": "manual"}});
    let form = with(
        agent(n),
        json!({"reflection": {"metaprompts": [metaprompt]}}),
    );
    let made = id(&w.ada.post("/v1/agents", form).await.is(201));
    let thread = by.thread(&w.general, "Root").await;
    let body = json!({"thread_id": thread, "metaprompt_id": "check-in"});
    Call::post(path.replace("{id}", &made), body)
}

async fn made_sandbox(w: &AccessFixture, n: u64) -> String {
    let form = sandbox(&format!("made {n}"));
    id(&w.ada.post("/v1/sandbox-policies", form).await.is(201))
}

/// Registers a tool server with one function. A workspace can have only 50 tools, so earlier ones are deleted.
async fn made_tool(w: &AccessFixture, n: u64) -> Value {
    let tools = w.ada.get("/v1/tools?limit=100").await.ok();
    let tools = list(&tools, "/data");
    if tools.len() > 40 {
        for old in &tools[..20] {
            let path = format!("/v1/tools/{}", id(old));
            w.ada.delete(&path).await.is(204);
        }
    }
    let form = json!({"kind": "mcp", "name": format!("made-{n}"), "config": {"url": w.tools.url}});
    let made = w.ada.post("/v1/tools", form).await.is(201);
    let refresh = format!("/v1/tools/{}/refresh", id(&made));
    w.ada.act(&refresh).await.is(200)
}

/// Path and body with which an admin accepts the tool's function.
fn acceptance(tool: &Value) -> (String, Value) {
    let body = json!({"definition_hash": tool["functions"][0]["definition_hash"], "effect": "read", "risk": "autonomous"});
    (format!("/v1/tools/{}/functions/create", id(tool)), body)
}

async fn made_persona(w: &AccessFixture, n: u64) -> String {
    persona(&w.ada, &format!("made {n}")).await
}

/// Deletes the oldest skills, because their number is limited.
async fn free_skill(w: &AccessFixture) {
    let all = list(&w.ada.get("/v1/skills").await.ok(), "/data");
    if all.len() > 50 {
        for skill in &all {
            let path = format!("/v1/skills/{}", id(skill));
            w.ada.delete(&path).await.is(200);
        }
    }
}

async fn made_skill(w: &AccessFixture, n: u64) -> String {
    free_skill(w).await;
    skill(&w.ada, &format!("made-{n}"), None).await
}

/// A run in a public channel that fails.
async fn made_run(w: &AccessFixture, by: &Person) -> String {
    let flow = made_workflow(by, w.next()).await;
    failed_run(by, &flow, &w.general).await
}

/// Creates a workflow. A workspace can have only 100 of them, so earlier ones are archived.
async fn made_workflow(by: &Person, n: u64) -> String {
    let path = "/v1/workflows?status=active&limit=100";
    let active = by.get(path).await.ok();
    let active = list(&active, "/data");
    if active.len() > 80 {
        let own = active
            .iter()
            .filter(|flow| flow["owner_id"] == by.id.as_str());
        for old in own.take(20) {
            let path = format!("/v1/workflows/{}", id(old));
            by.delete(&path).await.is(200);
        }
    }
    workflow(by, &format!("made-{n}")).await
}

/// Creates a public channel.
async fn room(by: &Person, n: u64) -> String {
    id(&by
        .post("/v1/channels", json!({"name": format!("room {n}")}))
        .await
        .is(201))
}

/// The person who adds the caller to a channel of `by`: for guests, only an admin can.
fn host<'a>(w: &'a AccessFixture, by: &'a Person, who: TestCaller) -> &'a Person {
    if who == TestCaller::Guest { &w.ada } else { by }
}

/// Adds a member of this workspace to a channel; does nothing for other callers.
async fn bring(by: &Person, room: &str, person: &Person, who: TestCaller) {
    if !matches!(who, TestCaller::Nobody | TestCaller::Foreign) {
        let path = format!("/v1/channels/{room}/members");
        by.post(&path, json!({"user_id": person.id})).await.is(201);
    }
}

/// A file that is attached to a message.
pub async fn posted_file(by: &Person, channel: &str) -> String {
    let file = id(&by.upload("a.txt", b"x").await);
    let form = json!({"content": "", "attachments": [file]});
    by.post(&format!("/v1/channels/{channel}/threads"), form)
        .await
        .is(201);
    file
}

/// A vector store with a file; returns the IDs of both.
async fn stored_file(by: &Person) -> (String, String) {
    let store = vector_store(by, None).await;
    let form = json!({"file_id": id(&by.upload("a.txt", b"x").await)});
    let files = format!("/v1/vector_stores/{store}/files");
    (store, id(&by.post(&files, form).await.is(200)))
}

/// A memory entry of a new thread.
pub async fn remembered(by: &Person, channel: &str) -> String {
    let thread = by.thread(channel, "Root").await;
    let form = json!({"text": format!("A fact of {thread}"), "kind": "fact", "thread_id": thread});
    id(&by.post("/v1/memories", form).await.is(201))
}

/// A person's chat with an agent. Returns the response of the start.
async fn chat(w: &AccessFixture, by: &Person) -> Value {
    let agent = id(&w.ada.agent("vibe").await);
    let direct = by.post("/v1/direct", json!({"agent_id": agent})).await;
    by.start(&id(&direct.ok()), "Root").await
}

async fn message(by: &Person, channel: &str) -> String {
    text(&by.start(channel, "Hi").await, "/message/id")
}

/// Call for the task that records a Responses API call; the task has no conversation.
async fn unplaced(row: &Row, w: &AccessFixture, by: &Person) -> Call {
    kept_response(by).await;
    let tasks = by.get("/v1/tasks?limit=100").await.ok();
    let own = list(&tasks, "/data").into_iter().rev();
    let task = own
        .filter(|task| task["thread_id"].is_null() && task["requested_by"] == by.id.as_str())
        .map(|task| id(&task))
        .next()
        .unwrap_or_else(|| panic!("no task of the API, {}", w.next()));
    let path = row.path().replace("{id}", &task);
    if row.changes() {
        Call::act(path)
    } else {
        Call::get(path)
    }
}

/// Inserts an identity provider that does not answer.
async fn provider(w: &AccessFixture) -> String {
    let id = IdentityProviderId::new();
    let insert = async move |c: &mut Conn| {
        c.q("insert into identity_providers (id, name, issuer, client_id, settings, enabled, state, created_at, version) \
             values ($1, 'Corp', 'http://127.0.0.1:9', 'openvibe', $2, TRUE, 'ok', $3, 1)")
            .bind(id)
            .bind(Json(json!({"domains": [], "email_trust": "claim", "groups_claim": "groups", "second_factor": "claim", "workspaces": []})))
            .bind(now())
            .run()
            .await
    };
    w.app.db().write(Uuid::nil(), insert).await.unwrap();
    id.to_string()
}

/// Creates a provider with a SCIM token.
async fn scim_token(w: &AccessFixture) -> (String, String) {
    let (provider, token) = (provider(w).await, ScimTokenId::new());
    let of: IdentityProviderId = provider.parse().unwrap();
    let insert = async move |c: &mut Conn| {
        c.q("insert into scim_tokens (id, provider_id, token_hash, created_at) values ($1, $2, $3, $4)")
            .bind(token)
            .bind(of)
            .bind(token.to_string())
            .bind(now())
            .run()
            .await
    };
    w.app.db().write(Uuid::nil(), insert).await.unwrap();
    (provider, token.to_string())
}

/// Connects a provider to an account.
async fn identity(w: &AccessFixture, of: &Person) -> String {
    let id = IdentityId::new();
    let provider: IdentityProviderId = provider(w).await.parse().unwrap();
    let user: UserId = of.id.parse().unwrap();
    let insert = async move |c: &mut Conn| {
        c.q("insert into identities (id, provider_id, subject, user_id, linked_at) values ($1, $2, 'sub', $3, $4)")
            .bind(id)
            .bind(provider)
            .bind(user)
            .bind(now())
            .run()
            .await
    };
    w.app.db().write(Uuid::nil(), insert).await.unwrap();
    id.to_string()
}

/// Creates a bot without a webhook; returns its ID.
async fn made_bot(by: &Person, n: u64) -> String {
    let form = json!({"name": format!("Robot {n} of its own")});
    id(&by.post("/v1/bots", form).await.is(201))
}

/// Creates a bot whose events go to an address where nobody listens; returns its ID. No call causes its events, so that no job stores a
/// delivery while the rows of a call are counted.
async fn subscribed_bot(by: &Person, n: u64) -> String {
    let bot = made_bot(by, n).await;
    let form = json!({"url": "http://127.0.0.1:1/events", "events": ["channel.archived"]});
    let path = format!("/v1/bots/{bot}/subscription");
    by.put(&path, form).await.is(200);
    bot
}

/// Stores an event that was sent to a bot; returns the ID of the delivery.
async fn sent_event(w: &AccessFixture, bot: &str) -> String {
    let (id, bot): (BotDeliveryId, BotId) = (BotDeliveryId::new(), bot.parse().unwrap());
    let insert = async move |c: &mut Conn| {
        c.q("insert into bot_deliveries (id, bot_id, seq, event, state, attempt, created_at) values ($1, $2, 1, 'message.created', 'sent', 0, $3)")
            .bind(id)
            .bind(bot)
            .bind(now())
            .run()
            .await
    };
    w.app.db().write(Uuid::nil(), insert).await.unwrap();
    id.to_string()
}
