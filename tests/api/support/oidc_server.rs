//! An identity provider with scripted claims, true or false.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{Request, State},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::any,
};
use base64::{
    Engine,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use ring::{
    hmac,
    rand::SystemRandom,
    signature::{
        ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair,
        Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256, RSA_PSS_SHA256, RsaKeyPair,
    },
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::{net::TcpListener, task::JoinSet};

/// A private RSA key of 2,048 bits, only for tests: PKCS #8 in Base64.
const RSA: &str = include_str!("../../fixtures/oidc_rsa.txt");
pub const CLIENT_ID: &str = "openvibe";
pub const CLIENT_SECRET: &str = "s3cret & more";

/// Way in which tokens are signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signer {
    Es256,
    Es384,
    EdDsa,
    Rs256,
    Ps256,
    /// Not at all.
    None,
    /// With the public key as a shared secret.
    Hs256,
    /// With a key that the provider does not publish, under the ID of one that it does.
    Foreign,
}

/// Answer to all requests to a path, instead of the right one.
#[derive(Debug, Clone)]
pub enum Canned {
    Json(u16, Value),
    /// A body of this many bytes.
    Flood(usize),
    /// No answer, but the connection stays open.
    Stall,
    Redirect(String),
}

/// Data of an issued code, for the request that redeems it.
struct Grant {
    challenge: String,
    redirect_uri: String,
    claims: Value,
}

struct Keys {
    p256: EcdsaKeyPair,
    foreign: EcdsaKeyPair,
    p384: EcdsaKeyPair,
    ed: Ed25519KeyPair,
    rsa: RsaKeyPair,
    /// Number in the IDs of the keys.
    generation: usize,
}

struct Shared {
    url: Mutex<String>,
    keys: Mutex<Keys>,
    signer: Mutex<Signer>,
    grants: Mutex<HashMap<String, Grant>>,
    canned: Mutex<HashMap<&'static str, Canned>>,
    /// Fields of the discovery document that differ.
    discovery: Mutex<Value>,
    user_info: Mutex<Value>,
    /// Paths of the received requests.
    requests: Mutex<Vec<String>>,
}

pub struct OidcServer {
    pub url: String,
    shared: Arc<Shared>,
    _serving: JoinSet<()>,
}

fn b64(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn ec(algorithm: &'static ring::signature::EcdsaSigningAlgorithm) -> EcdsaKeyPair {
    let random = SystemRandom::new();
    let pkcs8 = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
    EcdsaKeyPair::from_pkcs8(algorithm, pkcs8.as_ref(), &random).unwrap()
}

impl Keys {
    fn new(generation: usize) -> Self {
        let ed = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        Self {
            p256: ec(&ECDSA_P256_SHA256_FIXED_SIGNING),
            foreign: ec(&ECDSA_P256_SHA256_FIXED_SIGNING),
            p384: ec(&ECDSA_P384_SHA384_FIXED_SIGNING),
            ed: Ed25519KeyPair::from_pkcs8(ed.as_ref()).unwrap(),
            rsa: RsaKeyPair::from_pkcs8(&STANDARD.decode(RSA.replace('\n', "")).unwrap()).unwrap(),
            generation,
        }
    }

    fn id(&self, name: &str) -> String {
        format!("{name}-{}", self.generation)
    }

    fn document(&self) -> Value {
        let point = |name: &str, curve: &str, key: &EcdsaKeyPair| {
            let point = &key.public_key().as_ref()[1..];
            let (x, y) = point.split_at(point.len() / 2);
            json!({"kty": "EC", "crv": curve, "kid": self.id(name), "use": "sig", "x": b64(x), "y": b64(y)})
        };
        let rsa: ring::rsa::PublicKeyComponents<Vec<u8>> = self.rsa.public().into();
        json!({"keys": [
            point("p256", "P-256", &self.p256),
            point("p384", "P-384", &self.p384),
            {"kty": "OKP", "crv": "Ed25519", "kid": self.id("ed"), "x": b64(self.ed.public_key().as_ref())},
            {"kty": "RSA", "kid": self.id("rsa"), "n": b64(&rsa.n), "e": b64(&rsa.e)},
            {"kty": "new", "kid": "unknown kinds are ignored"},
            {"kty": "RSA", "use": "enc", "kid": self.id("enc"), "n": b64(&rsa.n), "e": b64(&rsa.e)},
        ]})
    }

    /// Signs claims; the header may name another key ID.
    fn sign(&self, signer: Signer, claims: &Value, kid: Option<&str>) -> String {
        let (alg, name) = match signer {
            Signer::Es256 | Signer::Foreign => ("ES256", "p256"),
            Signer::Es384 => ("ES384", "p384"),
            Signer::EdDsa => ("EdDSA", "ed"),
            Signer::Rs256 => ("RS256", "rsa"),
            Signer::Ps256 => ("PS256", "rsa"),
            Signer::None => ("none", "p256"),
            Signer::Hs256 => ("HS256", "rsa"),
        };
        let kid = kid.map_or_else(|| self.id(name), str::to_owned);
        let header = json!({"alg": alg, "kid": kid, "typ": "JWT"});
        let text = format!("{}.{}", b64(header.to_string()), b64(claims.to_string()));
        let random = SystemRandom::new();
        let ecdsa = |key: &EcdsaKeyPair| {
            key.sign(&random, text.as_bytes())
                .unwrap()
                .as_ref()
                .to_vec()
        };
        let rsa = |padding: &'static dyn ring::signature::RsaEncoding| {
            let mut signature = vec![0; self.rsa.public().modulus_len()];
            self.rsa
                .sign(padding, &random, text.as_bytes(), &mut signature)
                .unwrap();
            signature
        };
        let signature = match signer {
            Signer::Es256 => ecdsa(&self.p256),
            Signer::Foreign => ecdsa(&self.foreign),
            Signer::Es384 => ecdsa(&self.p384),
            Signer::EdDsa => self.ed.sign(text.as_bytes()).as_ref().to_vec(),
            Signer::Rs256 => rsa(&RSA_PKCS1_SHA256),
            Signer::Ps256 => rsa(&RSA_PSS_SHA256),
            Signer::None => Vec::new(),
            Signer::Hs256 => {
                let key = hmac::Key::new(hmac::HMAC_SHA256, self.rsa.public().as_ref());
                hmac::sign(&key, text.as_bytes()).as_ref().to_vec()
            }
        };
        format!("{text}.{}", b64(signature))
    }
}

fn answer(status: u16, value: &Value) -> Response {
    let status = StatusCode::from_u16(status).unwrap();
    let kind = [("content-type", "application/json")];
    (status, kind, value.to_string()).into_response()
}

async fn respond(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let path = request.uri().path().to_owned();
    let authorization = request
        .headers()
        .get("authorization")
        .map(|value| value.to_str().unwrap().to_owned());
    let body = axum::body::to_bytes(request.into_body(), 1 << 20).await;
    shared.requests.lock().unwrap().push(path.clone());
    let canned = shared.canned.lock().unwrap().get(path.as_str()).cloned();
    match canned {
        Some(Canned::Json(status, value)) => return answer(status, &value),
        Some(Canned::Flood(bytes)) => {
            let pieces =
                (0..bytes / 65536).map(|_| Ok::<_, std::io::Error>(Bytes::from(vec![b' '; 65536])));
            return Body::from_stream(futures::stream::iter(pieces)).into_response();
        }
        Some(Canned::Stall) => std::future::pending().await,
        Some(Canned::Redirect(location)) => {
            return (StatusCode::FOUND, [("location", location)]).into_response();
        }
        None => {}
    }
    let url = shared.url.lock().unwrap().clone();
    match path.as_str() {
        "/.well-known/openid-configuration" => {
            let mut document = json!({"issuer": url, "authorization_endpoint": format!("{url}/authorize"),
                "token_endpoint": format!("{url}/token"), "jwks_uri": format!("{url}/keys"),
                "userinfo_endpoint": format!("{url}/userinfo"), "authorization_response_iss_parameter_supported": true});
            merge(&mut document, &shared.discovery.lock().unwrap());
            answer(200, &document)
        }
        "/keys" => answer(200, &shared.keys.lock().unwrap().document()),
        "/userinfo" => answer(200, &shared.user_info.lock().unwrap()),
        "/token" => redeem(&shared, &body.unwrap_or_default(), authorization.as_deref()),
        _ => answer(404, &json!({})),
    }
}

/// Replaces fields; null removes one.
fn merge(into: &mut Value, fields: &Value) {
    for (key, value) in fields.as_object().into_iter().flatten() {
        if value.is_null() {
            into.as_object_mut().unwrap().remove(key);
        } else {
            into[key] = value.clone();
        }
    }
}

fn redeem(shared: &Shared, body: &[u8], authorization: Option<&str>) -> Response {
    let form: HashMap<String, String> = form_urlencoded::parse(body).into_owned().collect();
    let encode = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
    let credentials = format!("{}:{}", encode(CLIENT_ID), encode(CLIENT_SECRET));
    let basic = format!("Basic {}", STANDARD.encode(credentials));
    let is_known = authorization == Some(basic.as_str())
        || form
            .get("client_secret")
            .is_some_and(|secret| secret == CLIENT_SECRET);
    if !is_known {
        return answer(401, &json!({"error": "invalid_client"}));
    }
    let code = form.get("code").cloned().unwrap_or_default();
    let grant = shared.grants.lock().unwrap().remove(&code);
    let Some(grant) = grant else {
        return answer(400, &json!({"error": "invalid_grant"}));
    };
    let verifier = form.get("code_verifier").cloned().unwrap_or_default();
    if b64(Sha256::digest(verifier)) != grant.challenge
        || form.get("redirect_uri") != Some(&grant.redirect_uri)
    {
        return answer(400, &json!({"error": "invalid_grant"}));
    }
    let keys = shared.keys.lock().unwrap();
    let kid = grant.claims["kid"].as_str();
    let token = keys.sign(*shared.signer.lock().unwrap(), &grant.claims, kid);
    answer(
        200,
        &json!({"token_type": "Bearer", "access_token": "at", "id_token": token}),
    )
}

impl OidcServer {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let shared = Arc::new(Shared {
            url: Mutex::new(url.clone()),
            keys: Mutex::new(Keys::new(1)),
            signer: Mutex::new(Signer::Es256),
            grants: Mutex::default(),
            canned: Mutex::default(),
            discovery: Mutex::new(json!({})),
            user_info: Mutex::new(json!({})),
            requests: Mutex::default(),
        });
        let router = Router::new()
            .fallback(any(respond))
            .with_state(Arc::clone(&shared));
        let mut serving = JoinSet::new();
        serving.spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self {
            url,
            shared,
            _serving: serving,
        }
    }

    pub fn sign_with(&self, signer: Signer) {
        *self.shared.signer.lock().unwrap() = signer;
    }

    /// Replaces all keys.
    pub fn rotate(&self) {
        let mut keys = self.shared.keys.lock().unwrap();
        *keys = Keys::new(keys.generation + 1);
    }

    pub fn can(&self, path: &'static str, canned: Canned) {
        self.shared.canned.lock().unwrap().insert(path, canned);
    }

    /// Answers as it should again.
    pub fn mend(&self) {
        self.shared.canned.lock().unwrap().clear();
        self.sign_with(Signer::Es256);
    }

    /// Publishes these fields of the discovery document; null removes one.
    pub fn publish(&self, fields: Value) {
        *self.shared.discovery.lock().unwrap() = fields;
    }

    pub fn set_user_info(&self, claims: Value) {
        *self.shared.user_info.lock().unwrap() = claims;
    }

    /// Number of requests to a path so far.
    pub fn requests_to(&self, path: &str) -> usize {
        let requests = self.shared.requests.lock().unwrap();
        requests.iter().filter(|known| *known == path).count()
    }

    /// Lets a person sign in at the page to which the server sent the browser. Returns the code. `claims` replace those of the token.
    pub fn grant(&self, page: &str, claims: &Value) -> String {
        let page = reqwest::Url::parse(page).unwrap();
        let query: HashMap<String, String> = page.query_pairs().into_owned().collect();
        assert_eq!(query["response_type"], "code");
        assert_eq!(query["code_challenge_method"], "S256");
        let now = openvibe::db::now().unix_s();
        let mut all = json!({"iss": self.url, "aud": query["client_id"], "iat": now, "exp": now + 300, "auth_time": now,
            "nonce": query["nonce"]});
        merge(&mut all, claims);
        let code = format!("code-{}", uuid::Uuid::now_v7());
        let grant = Grant {
            challenge: query["code_challenge"].clone(),
            redirect_uri: query["redirect_uri"].clone(),
            claims: all,
        };
        self.shared
            .grants
            .lock()
            .unwrap()
            .insert(code.clone(), grant);
        code
    }

    /// A signed token with these claims.
    pub fn token(&self, claims: &Value) -> String {
        let now = openvibe::db::now().unix_s();
        let mut all = json!({"iss": self.url, "aud": CLIENT_ID, "iat": now, "exp": now + 120});
        merge(&mut all, claims);
        self.shared
            .keys
            .lock()
            .unwrap()
            .sign(Signer::Es256, &all, None)
    }
}
