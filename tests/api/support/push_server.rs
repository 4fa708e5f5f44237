//! A push service: receives messages, answers as scripted, and decrypts them with the example keys of RFC 8291.

use std::{
    collections::{HashMap, VecDeque},
    io::Write,
    process::{Command, Stdio},
    sync::{Arc, Mutex},
};

use axum::{
    Router,
    body::Bytes,
    extract::{Path, State},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
    routing::post,
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};
use serde_json::{Value, json};
use tokio::{net::TcpListener, sync::watch, task::JoinSet};

use super::{Person, within};

const POINT: &str =
    "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4";
const AUTH: &str = "BTBZMqHH6r4Tts7J_aSIgg";

/// Decrypts one message with the private key of the example, in another implementation than the server's.
const DECRYPT: &str = r"
const c = require('crypto');
const input = require('fs').readFileSync(0);
const body = Buffer.from(input.toString(), 'base64url');
const b = (text) => Buffer.from(text, 'base64url');
const salt = body.subarray(0, 16), size = body.readUInt32BE(16), length = body[20];
if (size !== 4096 || length !== 65) throw new Error('header');
const server = body.subarray(21, 86), record = body.subarray(86);
const ecdh = c.createECDH('prime256v1');
ecdh.setPrivateKey(b('q1dXpw3UpT5VOmu_cf_v6ih07Aems3njxI-JWgLcM94'));
const derive = (secret, salt, info, n) => Buffer.from(c.hkdfSync('sha256', secret, salt, info, n));
const info = Buffer.concat([Buffer.from('WebPush: info\0'), ecdh.getPublicKey(), server]);
const secret = derive(ecdh.computeSecret(server), b('BTBZMqHH6r4Tts7J_aSIgg'), info, 32);
const key = derive(secret, salt, Buffer.from('Content-Encoding: aes128gcm\0'), 16);
const nonce = derive(secret, salt, Buffer.from('Content-Encoding: nonce\0'), 12);
const open = c.createDecipheriv('aes-128-gcm', key, nonce);
open.setAuthTag(record.subarray(-16));
const plain = Buffer.concat([open.update(record.subarray(0, -16)), open.final()]);
if (plain[plain.length - 1] !== 2) throw new Error('delimiter');
process.stdout.write(plain.subarray(0, -1));
";

/// Answer of the service to a message.
#[derive(Debug, Clone)]
pub enum PushAnswer {
    Status(u16, &'static str),
    RetryAfter(u16, u64),
    /// It never answers.
    Stall,
}

#[derive(Debug, Clone)]
pub struct ReceivedPush {
    /// Name of the device in its address.
    pub device: String,
    pub headers: HashMap<String, String>,
    body: Vec<u8>,
}

impl ReceivedPush {
    /// The decrypted message.
    pub fn payload(&self) -> Value {
        let mut node = Command::new("node")
            .args(["-e", DECRYPT])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let body = URL_SAFE_NO_PAD.encode(&self.body);
        let mut stdin = node.stdin.take().unwrap();
        stdin.write_all(body.as_bytes()).unwrap();
        drop(stdin);
        let output = node.wait_with_output().unwrap();
        assert!(output.status.success(), "the message cannot be decrypted");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Claims of the token, after a check of its signature with the server's public key.
    pub fn claims(&self, public_key: &str) -> Value {
        let header = self.headers["authorization"]
            .strip_prefix("vapid t=")
            .unwrap();
        let (token, key) = header.split_once(", k=").unwrap();
        assert_eq!(key, public_key);
        let (signed, signature) = token.rsplit_once('.').unwrap();
        let bytes = |text: &str| URL_SAFE_NO_PAD.decode(text).unwrap();
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, bytes(key))
            .verify(signed.as_bytes(), &bytes(signature))
            .unwrap();
        serde_json::from_slice(&bytes(signed.split_once('.').unwrap().1)).unwrap()
    }
}

#[derive(Default)]
struct Shared {
    answers: Mutex<HashMap<String, VecDeque<PushAnswer>>>,
    received: watch::Sender<Vec<ReceivedPush>>,
}

pub struct PushServer {
    pub base: String,
    shared: Arc<Shared>,
    _serving: JoinSet<()>,
}

async fn receive(
    State(shared): State<Arc<Shared>>,
    Path(device): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let answer = {
        let mut answers = shared.answers.lock().unwrap();
        answers.get_mut(&device).and_then(VecDeque::pop_front)
    };
    let text = |value: &axum::http::HeaderValue| value.to_str().unwrap().to_owned();
    let headers = headers
        .iter()
        .map(|(name, value)| (name.to_string(), text(value)));
    let push = ReceivedPush {
        device,
        headers: headers.collect(),
        body: body.to_vec(),
    };
    shared.received.send_modify(|received| received.push(push));
    match answer {
        None => StatusCode::CREATED.into_response(),
        Some(PushAnswer::Status(status, body)) => {
            (StatusCode::from_u16(status).unwrap(), body).into_response()
        }
        Some(PushAnswer::RetryAfter(status, seconds)) => (
            StatusCode::from_u16(status).unwrap(),
            [("retry-after", seconds.to_string())],
        )
            .into_response(),
        Some(PushAnswer::Stall) => std::future::pending().await,
    }
}

impl PushServer {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let shared = Arc::new(Shared::default());
        let routes = Router::new()
            .route("/{device}", post(receive))
            .with_state(Arc::clone(&shared));
        let mut serving = JoinSet::new();
        serving.spawn(async move { axum::serve(listener, routes).await.unwrap() });
        Self {
            base,
            shared,
            _serving: serving,
        }
    }

    /// Host and port, for `OPENVIBE_PUSH_ALLOW`.
    pub fn host(&self) -> &str {
        self.base.strip_prefix("http://").unwrap()
    }

    /// Answers the next messages to a device with these, and later ones with 201.
    pub fn answer(&self, device: &str, answers: impl IntoIterator<Item = PushAnswer>) {
        let mut all = self.shared.answers.lock().unwrap();
        all.entry(device.to_owned()).or_default().extend(answers);
    }

    pub fn form(&self, device: &str) -> Value {
        json!({"endpoint": format!("{}/{device}", self.base), "keys": {"p256dh": POINT, "auth": AUTH}, "label": device})
    }

    /// Subscribes a device of a person; returns its ID.
    pub async fn subscribe(&self, person: &Person, device: &str) -> String {
        let made = person.post("/v1/push/devices", self.form(device)).await;
        super::id(&made.is(201))
    }

    pub fn received(&self) -> Vec<ReceivedPush> {
        self.shared.received.borrow().clone()
    }

    /// Waits for the `n`th message, counted from 1.
    pub async fn nth(&self, n: usize) -> ReceivedPush {
        let mut received = self.shared.received.subscribe();
        let all = within("a push message", received.wait_for(|all| all.len() >= n))
            .await
            .unwrap();
        all[n - 1].clone()
    }
}
