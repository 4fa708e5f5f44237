//! Second factors: authenticator apps, recovery codes, and passkeys.

use std::time::Duration;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use futures::future::join_all;
use openvibe::{auth::operator, db::Conn};
use ring::{
    hmac,
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair},
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::{
    sign_in::let_pass,
    support::{
        PASSWORD, Person, Reply, SECRET_KEY, Team, TestApp, id, list, number, team_with, text,
        visitor,
    },
};

const ELEVEN_MINUTES: Duration = Duration::from_mins(11);
const PASSKEY_SIGN_UP: &str = "/v1/auth/signup/passkey";

/// A team on a server that can store secrets, with each database.
async fn team() -> Team {
    team_with(&[("SECRET_KEY", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=")]).await
}

/// Code of an authenticator app, as many steps of 30 seconds from now.
pub fn code(secret: &str, steps: i64) -> String {
    let (mut bits, mut held, mut bytes) = (0_u32, 0, Vec::new());
    for c in secret.bytes() {
        let value = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
            .iter()
            .position(|known| *known == c)
            .unwrap();
        bits = (bits << 5) | u32::try_from(value).unwrap();
        held += 5;
        if held >= 8 {
            held -= 8;
            bytes.push(u8::try_from(bits >> held & 255).unwrap());
        }
    }
    let step = openvibe::db::now().unix_s() / 30 + steps;
    let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, &bytes);
    let tag = hmac::sign(&key, &step.to_be_bytes());
    let tag = tag.as_ref();
    let from = usize::from(tag[19] & 15);
    let word = u32::from_be_bytes(tag[from..from + 4].try_into().unwrap()) & 0x7fff_ffff;
    format!("{:06}", word % 1_000_000)
}

/// Forgets which codes were used, as if the next time step had begun.
async fn next_step(app: &TestApp) {
    app.db()
        .write(Uuid::nil(), async |c: &mut Conn| {
            c.q("update totp_apps set last_step = 0").run().await
        })
        .await
        .unwrap();
}

/// Sets up an authenticator app; returns its secret and the recovery codes.
pub async fn set_up_app(who: &Person) -> (String, Vec<String>) {
    let begun = who.act("/v1/auth/totp").await.is(200);
    let secret = text(&begun, "/secret");
    let form = json!({"code": code(&secret, 0)});
    let done = who.post("/v1/auth/totp/confirm", form).await.is(200);
    let codes = list(&done, "/recovery_codes");
    let codes = codes.iter().map(|code| code.as_str().unwrap().to_owned());
    (secret, codes.collect())
}

async fn login(app: &TestApp, who: &Person) -> Reply {
    let form = json!({"email": who.email, "password": PASSWORD});
    visitor(&app.base).post("/v1/auth/login", form).await
}

/// Signs in with the password; returns the flow that waits for a second factor, and the methods.
pub async fn begin(app: &TestApp, who: &Person) -> (String, Value) {
    let reply = login(app, who).await;
    assert!(reply.header("set-cookie").is_none());
    let error = reply.json()["error"].clone();
    assert_eq!(reply.refused(401), "second_factor_required");
    (text(&error, "/flow"), error["methods"].clone())
}

async fn finish(app: &TestApp, flow: &str, field: &str, value: impl Into<Value>) -> Reply {
    let form = json!({"flow": flow, field: value.into()});
    visitor(&app.base)
        .post("/v1/auth/second-factor", form)
        .await
}

/// An authenticator in software.
pub struct Authenticator {
    key: EcdsaKeyPair,
    rp_id: String,
    origin: String,
    credential: Vec<u8>,
    counter: u32,
    flags: u8,
    user: String,
}

fn b64(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

impl Authenticator {
    pub fn new(base: &str) -> Self {
        let pkcs8 =
            EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &SystemRandom::new());
        let key = EcdsaKeyPair::from_pkcs8(
            &ECDSA_P256_SHA256_ASN1_SIGNING,
            pkcs8.unwrap().as_ref(),
            &SystemRandom::new(),
        );
        let host = base.split("://").nth(1).unwrap();
        Self {
            key: key.unwrap(),
            rp_id: host.split(':').next().unwrap().to_owned(),
            origin: base.to_owned(),
            credential: Uuid::now_v7().as_bytes().to_vec(),
            counter: 1,
            flags: 0x05,
            user: String::new(),
        }
    }

    fn data(&self, flags: u8) -> Vec<u8> {
        let mut data = Sha256::digest(self.rp_id.as_bytes()).to_vec();
        data.push(flags);
        data.extend(self.counter.to_be_bytes());
        data
    }

    fn client_data(&self, kind: &str, challenge: &str) -> Vec<u8> {
        let data = json!({"type": kind, "challenge": challenge, "origin": self.origin, "crossOrigin": false});
        data.to_string().into_bytes()
    }

    /// `PublicKeyCredential.toJSON()` of a new passkey.
    pub fn create(&mut self, options: &Value) -> Value {
        self.user = text(options, "/user/id");
        let mut data = self.data(self.flags | 0x40);
        data.extend([0; 16]);
        data.extend(u16::try_from(self.credential.len()).unwrap().to_be_bytes());
        data.extend(&self.credential);
        // SubjectPublicKeyInfo of a P-256 key.
        let mut key = hex::decode("3059301306072a8648ce3d020106082a8648ce3d030107034200").unwrap();
        key.extend(self.key.public_key().as_ref());
        let client_data = self.client_data("webauthn.create", &text(options, "/challenge"));
        json!({"id": b64(&self.credential), "rawId": b64(&self.credential), "type": "public-key",
            "clientExtensionResults": {}, "authenticatorAttachment": "platform",
            "response": {"clientDataJSON": b64(&client_data), "authenticatorData": b64(&data), "transports": ["internal"],
                "publicKey": b64(&key), "publicKeyAlgorithm": -7, "attestationObject": ""}})
    }

    /// `PublicKeyCredential.toJSON()` of a signature.
    pub fn sign(&mut self, challenge: &str) -> Value {
        self.counter += 1;
        self.sign_again(challenge, "webauthn.get")
    }

    fn sign_again(&self, challenge: &str, kind: &str) -> Value {
        let data = self.data(self.flags);
        let client_data = self.client_data(kind, challenge);
        let mut signed = data.clone();
        signed.extend_from_slice(&Sha256::digest(&client_data));
        let signature = self.key.sign(&SystemRandom::new(), &signed).unwrap();
        json!({"id": b64(&self.credential), "rawId": b64(&self.credential), "type": "public-key",
            "response": {"clientDataJSON": b64(&client_data), "authenticatorData": b64(&data),
                "signature": b64(signature.as_ref()), "userHandle": self.user}})
    }
}

pub async fn add_passkey(who: &Person, key: &mut Authenticator) -> Reply {
    let options = who.act("/v1/auth/passkeys/options").await.is(200);
    let form = json!({"name": "Laptop", "credential": key.create(&options)});
    who.post("/v1/auth/passkeys", form).await
}

pub async fn challenge(app: &TestApp) -> String {
    let options = visitor(&app.base).act("/v1/auth/passkey/options").await;
    text(&options.is(200), "/challenge")
}

async fn use_passkey(app: &TestApp, credential: Value) -> Reply {
    let form = json!({"credential": credential});
    visitor(&app.base).post("/v1/auth/passkey", form).await
}

#[tokio::test]
async fn an_app_makes_the_password_alone_insufficient() {
    let t = team().await;
    login(&t.app, &t.bo).await.is(200);
    let begun = t.bo.act("/v1/auth/totp").await.is(200);
    let secret = text(&begun, "/secret");
    assert_eq!(secret.len(), 32);
    let url = text(&begun, "/url");
    assert!(
        url.starts_with("otpauth://totp/127%2E0%2E0%2E1:bo%40example%2Eorg?secret="),
        "{url}"
    );
    // Not yet confirmed.
    login(&t.app, &t.bo).await.is(200);
    let wrong = json!({"code": "000000"});
    let wrong = t.bo.post("/v1/auth/totp/confirm", wrong).await;
    assert_eq!(wrong.refused(403), "wrong_code");
    let (secret, codes) = set_up_app(&t.bo).await;
    assert_eq!(codes.len(), 10);
    for text in [&secret, &codes[0], &codes[0].replace('-', "")] {
        assert_eq!(t.app.place.places_of(text).await, Vec::<String>::new());
    }
    let factors = t.bo.get("/v1/auth/factors").await.ok();
    assert_eq!(
        factors,
        json!({"app": true, "passkeys": 0, "recovery_codes": 10})
    );
    assert_eq!(t.bo.act("/v1/auth/totp").await.refused(409), "app_exists");

    let (flow, methods) = begin(&t.app, &t.bo).await;
    assert_eq!(methods, json!(["code", "recovery_code"]));
    assert_eq!(t.app.place.places_of(&flow).await, Vec::<String>::new());
    let one = code(&secret, 1);
    let reply = finish(&t.app, &flow, "code", one.as_str()).await;
    let mut again = t.bo.signed_out();
    again.cookie = Some(reply.cookie());
    assert_eq!(reply.is(200)["user"]["id"], t.bo.id);
    again.get("/v1/auth/me").await.is(200);
    let reused = finish(&t.app, &flow, "code", one.as_str()).await;
    assert_eq!(reused.refused(401), "flow_expired");
    let (flow, _) = begin(&t.app, &t.bo).await;
    let reused = finish(&t.app, &flow, "code", one).await;
    assert_eq!(reused.refused(401), "wrong_code");
    // A wrong password does not reveal the second factor.
    let form = json!({"email": t.bo.email, "password": "wrong horse"});
    let wrong = visitor(&t.app.base).post("/v1/auth/login", form).await;
    assert_eq!(wrong.refused(401), "wrong_credentials");
    // Others are not affected.
    login(&t.app, &t.ada).await.is(200);
}

#[tokio::test]
async fn a_code_signs_in_once_even_in_two_sign_ins_at_once() {
    let t = team().await;
    let (secret, _) = set_up_app(&t.bo).await;
    next_step(&t.app).await;
    let mut flows = Vec::new();
    for _ in 0..4 {
        flows.push(begin(&t.app, &t.bo).await.0);
    }
    let one = code(&secret, 0);
    // Each flow twice.
    let tries = flows.iter().chain(&flows);
    let replies = join_all(tries.map(|flow| finish(&t.app, flow, "code", one.clone()))).await;
    let signed_in = replies.iter().filter(|reply| reply.status == 200).count();
    assert_eq!(signed_in, 1);
}

#[tokio::test]
async fn five_wrong_codes_end_a_sign_in_and_ten_pause_the_account() {
    let t = team().await;
    let (secret, _) = set_up_app(&t.bo).await;
    next_step(&t.app).await;
    let (flow, _) = begin(&t.app, &t.bo).await;
    let (other, _) = begin(&t.app, &t.bo).await;
    for _ in 0..5 {
        finish(&t.app, &flow, "code", "000000").await.refused(401);
    }
    let ended = finish(&t.app, &flow, "code", code(&secret, 0)).await;
    assert_eq!(ended.refused(401), "flow_expired");
    for _ in 0..4 {
        let wrong = finish(&t.app, &other, "recovery_code", "aaaa-aaaa-aaaa-aaaa").await;
        assert_eq!(wrong.refused(401), "wrong_code");
    }
    let (third, _) = begin(&t.app, &t.bo).await;
    finish(&t.app, &third, "code", "000000").await.refused(401);
    let paused = finish(&t.app, &third, "code", code(&secret, 0)).await;
    assert_eq!(paused.refused(429), "too_many_attempts");
    // Only someone with the password can use up attempts, and an unknown flow uses up none.
    let unknown = finish(&t.app, "unknown", "code", "000000").await;
    assert_eq!(unknown.refused(401), "flow_expired");
    let both = json!({"flow": third, "code": "1", "recovery_code": "2"});
    let both = visitor(&t.app.base)
        .post("/v1/auth/second-factor", both)
        .await;
    assert_eq!(both.refused(422), "invalid_value");
}

#[tokio::test]
async fn a_recovery_code_works_once_and_new_codes_replace_old_ones() {
    let t = team().await;
    let (_, codes) = set_up_app(&t.bo).await;
    let (flow, _) = begin(&t.app, &t.bo).await;
    let typed = codes[0].replace('-', " ").to_uppercase();
    finish(&t.app, &flow, "recovery_code", typed).await.is(200);
    let factors = t.bo.get("/v1/auth/factors").await.ok();
    assert_eq!(number(&factors, "/recovery_codes"), 9);
    let (flow, _) = begin(&t.app, &t.bo).await;
    let used = finish(&t.app, &flow, "recovery_code", codes[0].as_str()).await;
    assert_eq!(used.refused(401), "wrong_code");
    let renewed = t.bo.act("/v1/auth/recovery-codes").await.is(200);
    let old = finish(&t.app, &flow, "recovery_code", codes[1].as_str()).await;
    assert_eq!(old.refused(401), "wrong_code");
    let new = list(&renewed, "/recovery_codes");
    finish(&t.app, &flow, "recovery_code", new[0].clone())
        .await
        .is(200);
    // Another person's code is of no use.
    let (_, of_ada) = set_up_app(&t.ada).await;
    let (flow, _) = begin(&t.app, &t.bo).await;
    let foreign = finish(&t.app, &flow, "recovery_code", of_ada[0].as_str()).await;
    assert_eq!(foreign.refused(401), "wrong_code");
    let none = t.app.join(&t.ada, "Cy", "member").await;
    let none = none.act("/v1/auth/recovery-codes").await;
    assert_eq!(none.refused(409), "no_second_factor");
}

#[tokio::test]
async fn a_pending_sign_in_ends_with_its_time_its_factor_and_its_password() {
    let t = team().await;
    let (secret, _) = set_up_app(&t.bo).await;
    next_step(&t.app).await;
    let (flow, _) = begin(&t.app, &t.bo).await;
    let_pass(&t.app, ELEVEN_MINUTES).await;
    let late = finish(&t.app, &flow, "code", code(&secret, 0)).await;
    assert_eq!(late.refused(401), "flow_expired");
    // The session of the setup is older than 10 minutes.
    let old = t.bo.delete("/v1/auth/totp").await;
    assert_eq!(old.refused(403), "confirmation_required");
    let form = json!({"code": code(&secret, 0)});
    t.bo.post("/v1/auth/confirm", form.clone()).await.is(204);
    let again = t.bo.post("/v1/auth/confirm", form).await;
    assert_eq!(again.refused(403), "wrong_code");
    let (flow, _) = begin(&t.app, &t.bo).await;
    t.bo.delete("/v1/auth/totp").await.is(204);
    let removed = finish(&t.app, &flow, "code", code(&secret, 1)).await;
    assert_eq!(removed.refused(401), "wrong_code");
    let factors = t.bo.get("/v1/auth/factors").await.ok();
    assert_eq!(
        factors,
        json!({"app": false, "passkeys": 0, "recovery_codes": 0})
    );
    login(&t.app, &t.bo).await.is(200);
    let (secret, _) = set_up_app(&t.bo).await;
    next_step(&t.app).await;
    let (flow, _) = begin(&t.app, &t.bo).await;
    let form = json!({"current_password": PASSWORD, "new_password": "another horse"});
    t.bo.post("/v1/auth/password", form).await.is(204);
    let changed = finish(&t.app, &flow, "code", code(&secret, 0)).await;
    assert_eq!(changed.refused(401), "flow_expired");
}

#[tokio::test]
async fn a_passkey_signs_in_without_a_password_and_is_a_second_factor() {
    let t = team().await;
    let mut key = Authenticator::new(&t.app.base);
    let added = add_passkey(&t.bo, &mut key).await.is(201);
    assert_eq!(list(&added, "/recovery_codes").len(), 10);
    let credential = key.sign(&challenge(&t.app).await);
    let reply = use_passkey(&t.app, credential.clone()).await;
    assert_eq!(reply.is(200)["user"]["id"], t.bo.id);
    // The challenge is used up.
    let replayed = use_passkey(&t.app, credential).await;
    assert_eq!(replayed.refused(401), "flow_expired");
    let (flow, methods) = begin(&t.app, &t.bo).await;
    assert_eq!(methods, json!(["passkey", "recovery_code"]));
    let credential = key.sign(&challenge(&t.app).await);
    finish(&t.app, &flow, "credential", credential)
        .await
        .is(200);
    let_pass(&t.app, ELEVEN_MINUTES).await;
    let credential = key.sign(&challenge(&t.app).await);
    t.bo.post("/v1/auth/confirm", json!({"credential": credential}))
        .await
        .is(204);
    let passkeys = list(&t.bo.get("/v1/auth/passkeys").await.ok(), "/data");
    assert_eq!(passkeys.len(), 1);
    assert!(passkeys[0]["used_at"].is_string());
    let path = format!("/v1/auth/passkeys/{}", id(&passkeys[0]));
    let foreign = t.ada.patch(&path, json!({"name": "Mine"})).await;
    assert_eq!(foreign.refused(404), "not_found");
    t.ada
        .post("/v1/auth/confirm", json!({"password": PASSWORD}))
        .await
        .is(204);
    t.ada.delete(&path).await.refused(404);
    let renamed = t.bo.patch(&path, json!({"name": "Phone"})).await.is(200);
    assert_eq!(renamed["name"], "Phone");
    t.bo.delete(&path).await.is(204);
    let credential = key.sign(&challenge(&t.app).await);
    let gone = use_passkey(&t.app, credential).await;
    assert_eq!(gone.refused(401), "passkey_rejected");
    login(&t.app, &t.bo).await.is(200);
}

#[tokio::test]
async fn a_person_has_ten_passkeys() {
    let t = team().await;
    for _ in 0..10 {
        let mut key = Authenticator::new(&t.app.base);
        add_passkey(&t.bo, &mut key).await.is(201);
    }
    let mut key = Authenticator::new(&t.app.base);
    let one_more = add_passkey(&t.bo, &mut key).await;
    assert_eq!(one_more.refused(422), "quota_exceeded");
}

/// Creates the passkey of a new account; returns the form that creates the account.
pub async fn passkey_form(app: &TestApp, key: &mut Authenticator, invited: &Value) -> Value {
    let path = format!("{PASSKEY_SIGN_UP}/options");
    let options = visitor(&app.base).post(&path, invited.clone()).await;
    let mut form = invited.clone();
    form["credential"] = key.create(&options.is(200));
    form
}

fn invited(invite: &Value, email: &str) -> Value {
    json!({"email": email, "name": "Cy", "invite": invite["token"]})
}

#[tokio::test]
async fn an_invited_person_begins_with_a_passkey_instead_of_a_password() {
    let t = team().await;
    let invite = t.ada.post("/v1/invites", json!({})).await.is(201);
    let mut key = Authenticator::new(&t.app.base);
    let form = passkey_form(&t.app, &mut key, &invited(&invite, "Cy@example.org")).await;
    let reply = visitor(&t.app.base)
        .post(PASSKEY_SIGN_UP, form.clone())
        .await;
    let mut cy = visitor(&t.app.base);
    cy.cookie = Some(reply.cookie());
    let made = reply.is(201);
    assert_eq!(made["user"]["email"], "cy@example.org");
    assert_eq!(made["workspaces"][0]["role"], "member");
    assert_eq!(list(&made, "/recovery_codes").len(), 10);
    let factors = cy.get("/v1/auth/factors").await.ok();
    assert_eq!(
        factors,
        json!({"app": false, "passkeys": 1, "recovery_codes": 10})
    );
    // The challenge is used up.
    let mut again = form;
    again["email"] = json!("di@example.org");
    let again = visitor(&t.app.base).post(PASSKEY_SIGN_UP, again).await;
    assert_eq!(again.refused(422), "invalid_value");

    let credential = key.sign(&challenge(&t.app).await);
    let signed_in = use_passkey(&t.app, credential).await.is(200);
    assert_eq!(signed_in["user"]["id"], made["user"]["id"]);
    let guess = json!({"email": "cy@example.org", "password": PASSWORD});
    let guess = visitor(&t.app.base).post("/v1/auth/login", guess).await;
    assert_eq!(guess.refused(401), "wrong_credentials");
    let passkeys = list(&cy.get("/v1/auth/passkeys").await.ok(), "/data");
    let last = format!("/v1/auth/passkeys/{}", id(&passkeys[0]));
    assert_eq!(cy.delete(&last).await.refused(409), "last_method");
}

#[tokio::test]
async fn a_passkey_begins_only_an_account_that_an_invite_lets_in() {
    let t = team().await;
    let people = t.app.place.count("users").await;
    let options = format!("{PASSKEY_SIGN_UP}/options");
    let who = visitor(&t.app.base);
    let unknown = invited(&json!({"token": "unknown"}), "cy@example.org");
    who.post(&options, unknown).await.refused(404);
    let named = json!({"email": "di@example.org"});
    let named = t.ada.post("/v1/invites", named).await.is(201);
    who.post(&options, invited(&named, "cy@example.org"))
        .await
        .refused(403);

    let invite = t.ada.post("/v1/invites", json!({})).await.is(201);
    let mut key = Authenticator::new(&t.app.base);
    // The challenge of someone who adds a passkey.
    let of_bo = t.bo.act("/v1/auth/passkeys/options").await.is(200);
    let mut form = invited(&invite, "cy@example.org");
    form["credential"] = key.create(&of_bo);
    let foreign = who.post(PASSKEY_SIGN_UP, form).await;
    assert_eq!(foreign.refused(422), "invalid_value");
    // And the other way around.
    let form = passkey_form(&t.app, &mut key, &invited(&invite, "cy@example.org")).await;
    let added = json!({"name": "Laptop", "credential": form["credential"]});
    let added = t.bo.post("/v1/auth/passkeys", added).await;
    assert_eq!(added.refused(422), "invalid_value");
    // Another's address, and an invite that was withdrawn meanwhile.
    let mut taken = form.clone();
    taken["email"] = json!(t.bo.email);
    let taken = who.post(PASSKEY_SIGN_UP, taken).await;
    assert_eq!(taken.refused(409), "email_taken");
    t.ada
        .delete(&format!("/v1/invites/{}", id(&invite)))
        .await
        .is(204);
    who.post(PASSKEY_SIGN_UP, form).await.refused(404);
    assert_eq!(t.app.place.count("users").await, people);
    assert_eq!(t.app.place.count("passkeys").await, 0);
}

#[tokio::test]
async fn another_persons_passkey_does_not_complete_a_sign_in() {
    let t = team().await;
    let (mut of_bo, mut of_ada) = (
        Authenticator::new(&t.app.base),
        Authenticator::new(&t.app.base),
    );
    add_passkey(&t.bo, &mut of_bo).await.is(201);
    add_passkey(&t.ada, &mut of_ada).await.is(201);
    let (flow, _) = begin(&t.app, &t.bo).await;
    let credential = of_ada.sign(&challenge(&t.app).await);
    let foreign = finish(&t.app, &flow, "credential", credential).await;
    assert_eq!(foreign.refused(401), "wrong_code");
    // A user handle of somebody else does not change whose passkey it is.
    of_ada.user.clone_from(&of_bo.user);
    let credential = of_ada.sign(&challenge(&t.app).await);
    let lied = use_passkey(&t.app, credential).await;
    assert_eq!(lied.refused(401), "passkey_rejected");
    let credential = of_ada.sign(&challenge(&t.app).await);
    let refused =
        t.bo.post("/v1/auth/confirm", json!({"credential": credential}));
    assert_eq!(refused.await.refused(403), "wrong_code");
}

#[tokio::test]
async fn a_passkey_that_lies_is_rejected() {
    let t = team().await;
    let mut key = Authenticator::new(&t.app.base);
    add_passkey(&t.bo, &mut key).await.is(201);
    let rejected = async |key: &mut Authenticator, what: &str| {
        let credential = key.sign(&challenge(&t.app).await);
        let reply = use_passkey(&t.app, credential).await;
        assert_eq!(reply.refused(401), "passkey_rejected", "{what}");
    };
    let (origin, rp_id, flags) = (key.origin.clone(), key.rp_id.clone(), key.flags);
    key.origin = "https://evil.example".to_owned();
    rejected(&mut key, "origin").await;
    key.origin = origin;
    key.rp_id = "evil.example".to_owned();
    rejected(&mut key, "RP ID").await;
    key.rp_id = rp_id;
    key.flags = 0x01;
    rejected(&mut key, "user not verified").await;
    key.flags = 0x04;
    rejected(&mut key, "user not present").await;
    key.flags = flags;
    let user = std::mem::take(&mut key.user);
    rejected(&mut key, "no user handle").await;
    key.user = user;
    let wrong_kind = key.sign_again(&challenge(&t.app).await, "webauthn.create");
    let reply = use_passkey(&t.app, wrong_kind).await;
    assert_eq!(reply.refused(401), "passkey_rejected", "type");
    let mut other = Authenticator::new(&t.app.base);
    other.credential.clone_from(&key.credential);
    other.user.clone_from(&key.user);
    other.counter = 100;
    rejected(&mut other, "another key").await;
    let mut cut = key.sign(&challenge(&t.app).await);
    cut["response"]["authenticatorData"] = "AAAA".into();
    use_passkey(&t.app, cut).await.refused(401);
    for nonsense in [
        json!({}),
        json!(null),
        json!("x"),
        json!({"id": "%", "rawId": "%"}),
    ] {
        let form = json!({"credential": nonsense});
        let reply = visitor(&t.app.base).post("/v1/auth/passkey", form).await;
        assert!([400, 401, 422].contains(&reply.status), "{}", reply.text);
    }
    // A challenge of our own invention, or for another purpose.
    let invented = key.sign("invented");
    assert_eq!(
        use_passkey(&t.app, invented).await.refused(401),
        "flow_expired"
    );
    let creation = t.bo.act("/v1/auth/passkeys/options").await.is(200);
    let creation = key.sign(&text(&creation, "/challenge"));
    assert_eq!(
        use_passkey(&t.app, creation).await.refused(401),
        "flow_expired"
    );
    let unused = challenge(&t.app).await;
    let_pass(&t.app, Duration::from_mins(6)).await;
    let late = key.sign(&unused);
    assert_eq!(use_passkey(&t.app, late).await.refused(401), "flow_expired");
    // A copy does not know the newest counter.
    key.counter = 1;
    let copied = key.sign_again(&challenge(&t.app).await, "webauthn.get");
    assert_eq!(
        use_passkey(&t.app, copied).await.refused(401),
        "passkey_copied"
    );
    key.counter = 200;
    let right = key.sign(&challenge(&t.app).await);
    use_passkey(&t.app, right).await.is(200);
}

#[tokio::test]
async fn a_new_passkey_must_fit_its_challenge_its_account_and_this_site() {
    let t = team().await;
    let mut key = Authenticator::new(&t.app.base);
    let options = t.bo.act("/v1/auth/passkeys/options").await.is(200);
    assert_eq!(text(&options, "/rp/id"), key.rp_id);
    assert_eq!(
        options["authenticatorSelection"]["userVerification"],
        "required"
    );
    let form = json!({"name": "Laptop", "credential": key.create(&options)});
    // A challenge of another person.
    let stolen = t.ada.post("/v1/auth/passkeys", form.clone()).await;
    assert_eq!(stolen.refused(422), "invalid_value");
    t.bo.post("/v1/auth/passkeys", form.clone()).await.is(201);
    let replayed = t.bo.post("/v1/auth/passkeys", form).await;
    assert_eq!(replayed.refused(422), "invalid_value");
    // The credential belongs to Bo.
    let twice = add_passkey(&t.ada, &mut key).await;
    assert_eq!(twice.refused(422), "invalid_value");
    let mut foreign = Authenticator::new("https://evil.example");
    let refused = add_passkey(&t.ada, &mut foreign).await;
    assert_eq!(refused.refused(422), "invalid_value");
    let mut odd = Authenticator::new(&t.app.base);
    for (field, value) in [
        ("publicKeyAlgorithm", json!(-8)),
        ("publicKeyAlgorithm", json!(-36)),
        ("publicKey", json!("AAAA")),
        ("authenticatorData", json!("AAAA")),
    ] {
        let options = t.ada.act("/v1/auth/passkeys/options").await.is(200);
        let mut credential = odd.create(&options);
        credential["response"][field] = value;
        let form = json!({"name": "Odd", "credential": credential});
        let refused = t.ada.post("/v1/auth/passkeys", form).await;
        assert_eq!(refused.refused(422), "invalid_value", "{field}");
    }
    for _ in 1..10 {
        add_passkey(&t.bo, &mut Authenticator::new(&t.app.base))
            .await
            .is(201);
    }
    let eleventh = add_passkey(&t.bo, &mut Authenticator::new(&t.app.base)).await;
    assert_eq!(eleventh.refused(422), "quota_exceeded");
}

#[tokio::test]
async fn a_passkey_without_a_name_gets_one() {
    let t = team().await;
    let mut key = Authenticator::new(&t.app.base);
    let options = t.bo.act("/v1/auth/passkeys/options").await.is(200);
    let form = json!({"credential": key.create(&options)});
    let added = t.bo.post("/v1/auth/passkeys", form).await.is(201);
    assert_eq!(added["name"], "Passkey");
}

#[tokio::test]
async fn the_last_way_to_sign_in_cannot_be_removed() {
    let t = team().await;
    let mut keys = [
        Authenticator::new(&t.app.base),
        Authenticator::new(&t.app.base),
    ];
    for key in &mut keys {
        add_passkey(&t.bo, key).await.is(201);
    }
    let mut of_ada = Authenticator::new(&t.app.base);
    let only = add_passkey(&t.ada, &mut of_ada).await.is(201);
    let admins_only = json!({"password_sign_in": "server_admins"});
    t.ada.patch("/v1/server", admins_only).await.is(200);
    let methods = visitor(&t.app.base).get("/v1/auth/methods").await.ok();
    assert_eq!(
        methods,
        json!({"password": false, "passkey": false, "providers": []})
    );
    let passkeys = list(&t.bo.get("/v1/auth/passkeys").await.ok(), "/data");
    let paths: Vec<String> = passkeys
        .iter()
        .map(|passkey| format!("/v1/auth/passkeys/{}", id(passkey)))
        .collect();
    let removed = join_all(paths.iter().map(|path| t.bo.delete(path))).await;
    let (removed, refused): (Vec<_>, Vec<_>) =
        removed.into_iter().partition(|reply| reply.status == 204);
    assert_eq!(removed.len(), 1);
    for reply in refused {
        assert_eq!(reply.refused(409), "last_method");
    }
    // Admins of the server have a password.
    t.ada
        .delete(&format!("/v1/auth/passkeys/{}", id(&only)))
        .await
        .is(204);
}

#[tokio::test]
async fn without_the_servers_key_only_codes_of_apps_fail_until_a_reset() {
    let mut t = team().await;
    let (secret, codes) = set_up_app(&t.bo).await;
    let mut key = Authenticator::new(&t.app.base);
    add_passkey(&t.bo, &mut key).await.is(201);

    t.app.restart(&[("SECRET_KEY", SECRET_KEY)]).await;
    // The address of the server has changed with its port.
    key.origin.clone_from(&t.app.base);
    let bo = t.bo.at(&t.app.base);
    let (flow, methods) = begin(&t.app, &bo).await;
    assert_eq!(methods, json!(["code", "passkey", "recovery_code"]));
    let lost = finish(&t.app, &flow, "code", code(&secret, 1)).await;
    assert_eq!(lost.refused(401), "wrong_code");
    finish(&t.app, &flow, "recovery_code", codes[0].as_str())
        .await
        .is(200);
    let credential = key.sign(&challenge(&t.app).await);
    use_passkey(&t.app, credential).await.is(200);

    operator::reset_second_factor(t.app.db(), &bo.email)
        .await
        .unwrap();
    let mut again = bo.signed_out();
    let reply = login(&t.app, &bo).await;
    again.cookie = Some(reply.cookie());
    reply.is(200);
    let (secret, codes) = set_up_app(&again).await;
    assert_eq!(codes.len(), 10);
    let (flow, _) = begin(&t.app, &bo).await;
    let works = finish(&t.app, &flow, "code", code(&secret, 1)).await;
    works.is(200);
}

#[tokio::test]
async fn changes_of_factors_need_a_confirmed_session_and_are_recorded() {
    let t = team().await;
    let mut key = Authenticator::new(&t.app.base);
    let added = add_passkey(&t.bo, &mut key).await.is(201);
    let (robot, _) = t.bo.make_key(&["chat:read"]).await;
    robot.act("/v1/auth/totp").await.refused(403);
    robot.get("/v1/auth/passkeys").await.refused(403);
    let_pass(&t.app, ELEVEN_MINUTES).await;
    let passkey = format!("/v1/auth/passkeys/{}", id(&added));
    for refused in [
        t.bo.act("/v1/auth/totp").await,
        t.bo.act("/v1/auth/recovery-codes").await,
        t.bo.act("/v1/auth/passkeys/options").await,
        t.bo.delete(&passkey).await,
    ] {
        assert_eq!(refused.refused(403), "confirmation_required");
    }
    operator::reset_second_factor(t.app.db(), &t.bo.email)
        .await
        .unwrap();
    login(&t.app, &t.bo).await.is(200);
    let credential = key.sign(&challenge(&t.app).await);
    use_passkey(&t.app, credential).await.refused(401);
    let audit = t.ada.get("/v1/audit-log?order=newest").await.ok();
    let actions: Vec<(String, String)> = list(&audit, "/data")
        .iter()
        .map(|entry| (text(entry, "/action"), text(entry, "/actor_kind")))
        .filter(|(action, _)| action.starts_with("factor."))
        .collect();
    let pair = |action: &str, kind: &str| (action.to_owned(), kind.to_owned());
    assert_eq!(
        actions,
        [
            pair("factor.reset", "operator"),
            pair("factor.added", "user")
        ]
    );
    let events = t.bo.get("/v1/auth/events?limit=100").await.ok();
    let kinds: Vec<String> = list(&events, "/data")
        .iter()
        .map(|event| text(event, "/kind"))
        .collect();
    for kind in ["factor_added", "factor_removed"] {
        assert!(kinds.contains(&kind.to_owned()), "{kind}: {kinds:?}");
    }
}

#[tokio::test]
async fn factors_are_exported_without_secrets_and_erased_with_the_account() {
    let t = team().await;
    let (secret, _) = set_up_app(&t.bo).await;
    let mut key = Authenticator::new(&t.app.base);
    add_passkey(&t.bo, &mut key).await.is(201);
    let path = format!("/v1/members/{}/export", t.bo.id);
    let export = t.bo.get(&path).await.ok();
    let factors = list(&export, "/second_factors");
    let mut kinds: Vec<String> = factors.iter().map(|factor| text(factor, "/kind")).collect();
    kinds.sort();
    assert_eq!(kinds, ["app", "passkey"]);
    let by_admin = t.ada.get(&path).await.ok();
    assert!(by_admin["second_factors"].is_null(), "{by_admin}");
    for hidden in [&secret, &b64(&key.credential)] {
        assert!(!export.to_string().contains(hidden.as_str()));
    }
    t.ada.erase_as(&t.bo, &t.bo.handle).await;
    for table in ["totp_apps", "recovery_codes", "passkeys", "secrets"] {
        assert_eq!(t.app.place.count(table).await, 0, "{table}");
    }
}
