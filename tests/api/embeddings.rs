//! Search by meaning: the model of a workspace, and the vectors of passages.

use std::fmt::Write;

use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    documents::{POLL, read},
    support::{
        Answer, Gate, ModelServer, Person, Reply, Team, id, is_shared_engine, list, number,
        team_with, text, within,
    },
    tools_loop::reader,
    vector_stores::made,
};

const KEY: &str = "sk-heron-77ab";
/// 32 bytes in base64.
const SECRET: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

fn path(who: &Person) -> String {
    format!("/v1/workspaces/{}/embeddings", who.workspace)
}

async fn unlimited(settings: &[(&str, &str)]) -> Team {
    let mut all = vec![
        ("SECRET_KEY", SECRET),
        ("RATE_LIMITS", "off"),
        ("SIGNUP", "open"),
    ];
    all.extend(settings);
    team_with(&all).await
}

fn form(server: &ModelServer) -> Value {
    json!({"base_url": server.url, "model": "minilm"})
}

async fn get(who: &Person) -> Value {
    who.get(&path(who)).await.ok()
}

async fn put(who: &Person, form: Value) -> Reply {
    who.put(&path(who), form).await
}

/// The settings, once they are as wanted.
async fn reached(who: &Person, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    let wait = async {
        loop {
            let shown = get(who).await;
            if wanted(&shown) {
                return shown;
            }
            tokio::time::sleep(POLL).await;
        }
    };
    within(what, wait).await
}

/// The settings, once this number of passages have vectors and none waits.
async fn filled(who: &Person, done: i64) -> Value {
    let what = format!("{done} vectors");
    reached(who, &what, |shown| {
        shown["status"] == "ready" && shown["done"] == done && shown["pending"] == 0
    })
    .await
}

async fn waiting(who: &Person) -> Value {
    reached(who, "passages to wait", |shown| {
        shown["status"] == "waiting"
    })
    .await
}

/// Status, code, and field of the error for a rejected form.
async fn refused(who: &Person, form: Value) -> (u16, String, String) {
    let reply = put(who, form).await;
    let error = reply.json()["error"].clone();
    (reply.status, text(&error, "/code"), text(&error, "/param"))
}

fn rejected(code: &str, field: &str) -> (u16, String, String) {
    (422, code.to_owned(), field.to_owned())
}

/// Posts a message with a file in #general. Returns the message's ID.
async fn post_file(t: &Team, who: &Person, name: &str, words: &str) -> String {
    let file = who.upload(name, words.as_bytes()).await;
    let form = json!({"content": "A file", "attachments": [id(&file)]});
    let path = format!("/v1/channels/{}/threads", t.general);
    id(&who.post(&path, form).await.ok()["message"])
}

#[tokio::test]
async fn passages_get_vectors_from_the_named_model() {
    let t = unlimited(&[]).await;
    assert_eq!(
        get(&t.ada).await,
        json!({"base_url": null, "model": null, "key_set": false, "source": "none", "status": "off", "error": null,
            "retry_at": null, "dimensions": null, "pending": 0, "done": 0, "version": 0})
    );
    let own = ModelServer::start().await;
    t.ada
        .upload("Trains.md", b"# Trains\n\nThe locomotive leaves at nine.")
        .await;
    let mut form = form(&own);
    form["api_key"] = json!(KEY);
    let reply = put(&t.ada, form).await;
    assert!(!reply.text.contains(KEY));
    assert_eq!(reply.header("etag").unwrap(), "\"1\"");
    let stored = reply.is(200);
    assert_eq!(
        (&stored["base_url"], &stored["model"], &stored["key_set"]),
        (&json!(own.url), &json!("minilm"), &json!(true))
    );
    assert_eq!(
        (&stored["source"], &stored["dimensions"]),
        (&json!("settings"), &json!(2))
    );
    filled(&t.ada, 1).await;
    let texts = own.embedded();
    assert_eq!(texts.len(), 1, "{texts:?}");
    assert!(texts[0].contains("The locomotive leaves"), "{texts:?}");
    let asked = own.asked("embedder", 2).await;
    for request in asked {
        assert_eq!(request.authorization.unwrap(), format!("Bearer {KEY}"));
        assert_eq!(request.body["model"], "minilm");
    }
    // A later file gets its vector, too, and equal texts share one.
    t.bo.upload("More.md", b"# Trains\n\nThe locomotive leaves at nine.")
        .await;
    t.bo.upload("Cats.md", b"The cat sleeps.").await;
    filled(&t.ada, 3).await;
    assert_eq!(own.embedded().len(), 2);
    assert_eq!(t.app.place.count("embeddings").await, 2);
    let calls = "select purpose || ' ' || outcome from model_calls order by id";
    assert_eq!(
        t.app.place.texts(calls).await,
        ["test completed", "embed completed", "embed completed"]
    );
    assert!(t.model().embedded().is_empty(), "the server of the agents");
    let log = t.ada.get("/v1/audit-log?order=newest&limit=1").await.ok();
    let entry = &log["data"][0];
    assert_eq!(entry["action"], "embeddings.changed");
    assert_eq!(entry["data"]["api_key"], "replaced");
    assert_eq!(entry["target"], t.ada.workspace.as_str());
}

#[tokio::test]
async fn only_admins_change_the_model_and_no_version_is_overwritten() {
    let t = unlimited(&[]).await;
    let own = ModelServer::start().await;
    assert_eq!(t.bo.get(&path(&t.ada)).await.refused(403), "role_too_low");
    put(&t.bo, form(&own)).await.refused(403);
    t.bo.delete(&path(&t.ada)).await.refused(403);
    let (robot, _) = t.ada.make_key(&["agents:admin"]).await;
    robot.get(&path(&t.ada)).await.refused(403);
    let zoe = t.app.founder("Zoe").await;
    zoe.get(&path(&t.ada)).await.refused(404);
    assert!(own.requests().is_empty(), "nothing was tested");

    let mut first = form(&own);
    first["api_key"] = json!(KEY);
    put(&t.ada, first).await.is(200);
    t.ada.upload("a.md", b"The cat sleeps.").await;
    filled(&t.ada, 1).await;
    let stale = [("if-match", "\"0\"")];
    let body = Some(form(&own).to_string().into_bytes());
    let reply = t.ada.send(Method::PUT, &path(&t.ada), &stale, body).await;
    assert_eq!(reply.json()["error"]["current"]["version"], 1);
    assert_eq!(reply.refused(409), "version_conflict");
    let reply = t
        .ada
        .send(Method::DELETE, &path(&t.ada), &stale, None)
        .await;
    assert_eq!(reply.refused(409), "version_conflict");

    t.ada.delete(&path(&t.ada)).await.is(204);
    let off = get(&t.ada).await;
    assert_eq!(
        (&off["status"], &off["source"], &off["version"]),
        (&json!("off"), &json!("none"), &json!(2))
    );
    assert_eq!(t.app.place.count("secrets").await, 0);
    let log = t.ada.get("/v1/audit-log?order=newest&limit=1").await.ok();
    assert_eq!(log["data"][0]["action"], "embeddings.removed");
    // Again, without an effect.
    t.ada.delete(&path(&t.ada)).await.is(204);
    assert_eq!(number(&get(&t.ada).await, "/version"), 2);
    let gone = async {
        while t.app.place.count("embeddings").await + t.app.place.count("embedding_models").await
            > 0
        {
            tokio::time::sleep(POLL).await;
        }
    };
    within("the vectors to be removed", gone).await;
}

#[tokio::test]
async fn the_model_of_the_environment_takes_precedence() {
    let mut t = unlimited(&[]).await;
    let own = ModelServer::start().await;
    put(&t.ada, form(&own)).await.is(200);
    t.ada.upload("a.md", b"The cat sleeps.").await;
    filled(&t.ada, 1).await;
    t.app.restart(&[("EMBEDDING_MODEL", "house")]).await;
    let ada = t.ada.at(&t.app.base);
    let shown = filled(&ada, 1).await;
    assert_eq!(
        (&shown["source"], &shown["model"], &shown["base_url"]),
        (&json!("environment"), &json!("house"), &json!(null))
    );
    assert_eq!(
        put(&ada, form(&own)).await.refused(409),
        "set_by_environment"
    );
    assert_eq!(
        ada.delete(&path(&ada)).await.refused(409),
        "set_by_environment"
    );
    // The model server has the model, with its key.
    assert_eq!(t.model().embedded(), ["The cat sleeps."]);
    let asked = t.model().asked("embedder", 1).await;
    assert_eq!(
        asked[0].authorization.as_deref(),
        Some("Bearer sk-test-key")
    );
    assert_eq!(asked[0].body["model"], "house");

    let url = own.url.replace("//", "//ada:secret-in-url@");
    t.app.restart(&[("EMBEDDING_BASE_URL", &url)]).await;
    let ada = ada.at(&t.app.base);
    let shown = filled(&ada, 1).await;
    assert_eq!(shown["base_url"], own.url);
    assert_eq!(own.embedded().len(), 2);
}

#[tokio::test]
async fn a_failed_test_stores_nothing() {
    let t = unlimited(&[]).await;
    let own = ModelServer::start().await;
    let refusal = format!(r#"{{"error":{{"message":"Incorrect API key: {KEY}"}}}}"#);
    let missing = r#"{"error":{"message":"the model `minilm` does not exist"}}"#;
    let short = r#"{"data": []}"#;
    for (answer, code, field) in [
        (Answer::status(401, &refusal), "auth_failed", "api_key"),
        (Answer::status(404, missing), "no_model", "model"),
        (Answer::status(503, "busy"), "unreachable", "base_url"),
        (
            Answer::stream().json().raw(short),
            "unreachable",
            "base_url",
        ),
        (
            Answer::stream().json().raw(&" ".repeat((512 << 10) + 1)),
            "unreachable",
            "base_url",
        ),
    ] {
        own.script("embedder", [answer]);
        let mut form = form(&own);
        form["api_key"] = json!(KEY);
        let reply = put(&t.ada, form).await;
        assert!(!reply.text.contains(KEY), "{}", reply.text);
        let error = reply.json()["error"].clone();
        assert_eq!(
            (reply.status, &error["code"], &error["param"]),
            (422, &json!(code), &json!(field)),
            "{error}"
        );
    }
    assert_eq!(get(&t.ada).await["source"], "none");
    assert_eq!(t.app.place.count("secrets").await, 0);
    assert_eq!(t.app.place.count("embedding_models").await, 0);
}

#[tokio::test]
async fn addresses_and_keys_are_checked_like_those_of_model_servers() {
    let t = unlimited(&[]).await;
    let own = ModelServer::start().await;
    let zoe = t.app.founder("Zoe").await;
    assert_eq!(
        refused(&zoe, form(&own)).await,
        rejected("address_not_allowed", "base_url")
    );
    let itself = json!({"base_url": format!("{}/v1", t.app.base), "model": "minilm"});
    assert_eq!(
        refused(&t.ada, itself).await,
        rejected("own_server", "base_url")
    );
    for (form, field) in [
        (
            json!({"base_url": "ftp://a.example", "model": "m"}),
            "base_url",
        ),
        (
            json!({"base_url": "https://a:b@a.example", "model": "m"}),
            "base_url",
        ),
        (json!({"base_url": own.url, "model": " "}), "model"),
        (
            json!({"base_url": own.url, "model": "m".repeat(201)}),
            "model",
        ),
        (json!({"model": "m", "api_key": KEY}), "api_key"),
    ] {
        assert_eq!(
            refused(&t.ada, form).await,
            rejected("invalid_value", field)
        );
    }
    assert!(own.requests().is_empty());

    // The key stays with its server.
    let mut with_key = form(&own);
    with_key["api_key"] = json!(KEY);
    put(&t.ada, with_key).await.is(200);
    let mut other_model = form(&own);
    other_model["model"] = json!("other");
    let kept = put(&t.ada, other_model).await.is(200);
    assert_eq!(kept["key_set"], true);
    let asked = own.asked("embedder", 2).await;
    let key = format!("Bearer {KEY}");
    assert_eq!(asked[1].authorization.as_ref(), Some(&key));
    let other = ModelServer::start().await;
    let moved = put(&t.ada, form(&other)).await.is(200);
    assert_eq!(moved["key_set"], false);
    assert_eq!(other.asked("embedder", 1).await[0].authorization, None);
}

#[tokio::test]
async fn passages_wait_after_a_failure_until_the_settings_are_saved_again() {
    let t = unlimited(&[]).await;
    let own = ModelServer::start().await;
    put(&t.ada, form(&own)).await.is(200);
    for answer in [
        Answer::status(429, "{}"),
        Answer::status(401, r#"{"error": "go away"}"#),
        Answer::stream()
            .json()
            .raw(r#"{"data": [{"embedding": [1e39, 1]}]}"#),
    ] {
        own.script("embedder", [answer]);
        let before = number(&get(&t.ada).await, "/done");
        let words = format!("Text number {before}.");
        t.ada.upload("a.md", words.as_bytes()).await;
        let shown = waiting(&t.ada).await;
        assert_eq!(
            (number(&shown, "/pending"), number(&shown, "/done")),
            (1, before)
        );
        assert!(shown["retry_at"].is_string());
        let error = text(&shown, "/error");
        assert!(!error.is_empty() && !error.contains("go away"), "{error}");
        // Words find the file meanwhile.
        let hits = t.ada.get("/v1/search?kind=file&q=text").await.ok();
        assert_eq!(
            i64::try_from(list(&hits, "/data").len()).unwrap(),
            before + 1
        );
        put(&t.ada, form(&own)).await.is(200);
        let shown = filled(&t.ada, before + 1).await;
        assert_eq!(
            (&shown["error"], &shown["retry_at"]),
            (&json!(null), &json!(null))
        );
    }
}

#[tokio::test]
async fn a_budget_holds_back_vectors() {
    let t = unlimited(&[]).await;
    let own = ModelServer::start().await;
    put(&t.ada, form(&own)).await.is(200);
    let budget = json!({"data": [{"scope": "workspace", "period": "month", "limit_tokens": 3}]});
    t.ada.put("/v1/budgets", budget).await.is(200);
    t.ada
        .upload("a.md", b"A sentence with more than three tokens.")
        .await;
    let shown = waiting(&t.ada).await;
    assert!(text(&shown, "/error").contains("budget"), "{shown}");
    assert!(own.embedded().is_empty());
}

#[tokio::test]
async fn vectors_of_another_size_replace_the_old_ones_once_they_are_complete() {
    let t = unlimited(&[]).await;
    let own = ModelServer::start().await;
    put(&t.ada, form(&own)).await.is(200);
    t.ada.upload("a.md", b"The cat sleeps.").await;
    filled(&t.ada, 1).await;
    own.embed_by(|_| vec![0.5, 0.25, -1.0]);
    t.ada.upload("b.md", b"The dog barks.").await;
    let shown = waiting(&t.ada).await;
    assert!(text(&shown, "/error").contains("3 values"), "{shown}");
    let serving = "select count(*) from embedding_models where is_serving and dimensions = 2";
    assert_eq!(t.app.place.numbers(&[serving.to_owned()]).await, [1]);
    let shown = put(&t.ada, form(&own)).await.is(200);
    assert_eq!(shown["dimensions"], 3);
    filled(&t.ada, 2).await;
    let left = async {
        while t.app.place.count("embedding_models").await > 1 {
            tokio::time::sleep(POLL).await;
        }
    };
    within("the old model to be removed", left).await;
    assert_eq!(t.app.place.count("embeddings").await, 2);
}

#[tokio::test]
async fn vectors_are_requested_in_batches_and_only_once() {
    let mut t = unlimited(&[]).await;
    let own = ModelServer::start().await;
    let mut words = String::new();
    for n in 0..100 {
        write!(words, "Paragraph {n} {}\n\n", "word ".repeat(210)).unwrap();
    }
    t.ada.upload("long.txt", words.as_bytes()).await;
    put(&t.ada, form(&own)).await.is(200);
    reached(&t.ada, "all vectors", |shown| {
        shown["status"] == "ready" && number(shown, "/done") >= 100
    })
    .await;
    let requests = own.asked("embedder", 3).await;
    let sizes = requests
        .iter()
        .map(|request| list(&request.body, "/input").len());
    assert!(sizes.max().unwrap() <= 64);
    let texts = own.embedded();
    let count = texts.len();
    let mut different = texts.clone();
    different.sort_unstable();
    different.dedup();
    assert_eq!(different.len(), count);

    t.app.restart(&[]).await;
    let ada = t.ada.at(&t.app.base);
    ada.upload("b.md", b"The dog barks.").await;
    filled(&ada, i64::try_from(count).unwrap() + 1).await;
    assert_eq!(own.embedded().len(), count + 1);
}

#[tokio::test]
async fn a_server_that_accepts_fewer_texts_gets_fewer() {
    let t = unlimited(&[]).await;
    let own = ModelServer::start().await;
    let mut words = String::new();
    for n in 0..80 {
        write!(words, "Paragraph {n} {}\n\n", "word ".repeat(210)).unwrap();
    }
    t.ada.upload("long.txt", words.as_bytes()).await;
    let all = reached(&t.ada, "all passages", |shown| {
        number(shown, "/pending") >= 80
    })
    .await;
    let vector = r#"{"data": [{"embedding": [1, 0]}]}"#;
    let too_many = r#"{"message": "batch size 64 > maximum allowed batch size 32"}"#;
    own.script(
        "embedder",
        [
            Answer::stream().json().raw(vector),
            Answer::status(413, too_many),
        ],
    );
    put(&t.ada, form(&own)).await.is(200);
    filled(&t.ada, number(&all, "/pending")).await;
    let requests = own.asked("embedder", 4).await;
    let sizes = requests
        .iter()
        .map(|request| list(&request.body, "/input").len());
    assert_eq!(sizes.take(3).collect::<Vec<usize>>(), [1, 64, 16]);
    // Those that were refused are sent again, and no others.
    let mut texts = own.embedded();
    let sent = texts.len();
    texts.sort_unstable();
    texts.dedup();
    assert_eq!(sent - texts.len(), 64);
    assert_eq!(
        t.app.place.count("embeddings").await,
        i64::try_from(texts.len()).unwrap()
    );
}

#[tokio::test]
async fn texts_that_are_too_long_for_the_model_are_shortened() {
    let t = unlimited(&[]).await;
    let own = ModelServer::start().await;
    put(&t.ada, form(&own)).await.is(200);
    own.script("embedder", [Answer::too_large()]);
    t.ada.upload("a.md", b"ABCDEFGH").await;
    filled(&t.ada, 1).await;
    assert_eq!(own.embedded(), ["ABCDEFGH", "ABCD"]);
}

/// Lets a server refuse requests with a text that contains this word.
fn refuse(server: &ModelServer, status: u16, word: &'static str) {
    server.answer_by("embedder", move |request| {
        let texts = list(&request.body, "/input");
        if texts
            .iter()
            .any(|text| text.as_str().unwrap().contains(word))
        {
            return Answer::status(status, r#"{"error": {"message": "invalid input"}}"#);
        }
        let vectors: Vec<Value> = texts.iter().map(|_| json!({"embedding": [1, 0]})).collect();
        let vectors = json!({"data": vectors});
        Answer::stream().json().raw(&vectors.to_string())
    });
}

#[tokio::test]
async fn a_text_that_the_server_refuses_does_not_hold_back_the_others() {
    for status in [400, 413, 422] {
        let mut t = unlimited(&[]).await;
        let own = ModelServer::start().await;
        refuse(&own, status, "☠");
        for (name, words) in [
            ("a.md", "The cat sleeps."),
            ("b.md", "☠ is on the label."),
            ("c.md", "The dog barks."),
        ] {
            let file = t.ada.upload(name, words.as_bytes()).await;
            read(&t.ada, &file).await;
        }
        put(&t.ada, form(&own)).await.is(200);
        let shown = filled(&t.ada, 3).await;
        assert_eq!(
            (&shown["error"], &shown["retry_at"]),
            (&json!(null), &json!(null))
        );
        assert_eq!(t.app.place.count("embeddings").await, 2);
        let hits = t.ada.get("/v1/search?kind=file&q=label").await.ok();
        assert_eq!(list(&hits, "/data").len(), 1, "words find it");
        // It is not sent again.
        let refused = || {
            let texts = own.embedded().into_iter();
            texts.filter(|text| text.contains('☠')).count()
        };
        let before = refused();
        t.app.restart(&[]).await;
        let ada = t.ada.at(&t.app.base);
        ada.upload("d.md", b"The bird sings.").await;
        filled(&ada, 4).await;
        assert_eq!(t.app.place.count("embeddings").await, 3);
        assert_eq!(refused(), before);
    }
}

#[tokio::test]
async fn passages_wait_for_a_server_that_refuses_all_texts() {
    let t = unlimited(&[]).await;
    let own = ModelServer::start().await;
    put(&t.ada, form(&own)).await.is(200);
    refuse(&own, 400, "");
    t.ada.upload("a.md", b"The cat sleeps.").await;
    let shown = waiting(&t.ada).await;
    assert_eq!(
        (number(&shown, "/pending"), number(&shown, "/done")),
        (1, 0)
    );
    refuse(&own, 400, "☠");
    put(&t.ada, form(&own)).await.is(200);
    filled(&t.ada, 1).await;
    assert_eq!(t.app.place.count("embeddings").await, 1);
}

#[tokio::test]
async fn vectors_leave_with_their_file() {
    let t = unlimited(&[("UPLOAD_ORPHAN_AFTER", "20s")]).await;
    let own = ModelServer::start().await;
    put(&t.ada, form(&own)).await.is(200);
    post_file(&t, &t.bo, "a.md", "The dog barks.").await;
    filled(&t.ada, 1).await;
    let message = post_file(&t, &t.ada, "b.md", "The cat sleeps.").await;
    filled(&t.ada, 2).await;
    t.ada.delete(&format!("/v1/messages/{message}")).await.ok();
    let gone = async {
        while t.app.place.count("embeddings").await > 1 {
            tokio::time::sleep(POLL).await;
        }
    };
    within("the vector to be removed", gone).await;
    // Its number is free, and the passage that gets it has no vector yet.
    post_file(&t, &t.ada, "c.md", "The bird sings.").await;
    filled(&t.ada, 2).await;
    assert_eq!(own.embedded().len(), 3);
    assert_eq!(t.app.place.count("embeddings").await, 2);
}

#[tokio::test]
async fn a_passage_that_gets_a_free_number_during_a_call_gets_a_vector() {
    let t = unlimited(&[("UPLOAD_ORPHAN_AFTER", "20s")]).await;
    let own = ModelServer::start().await;
    let indexed = async |count: i64| {
        let wait = async {
            while t.app.place.count("passages").await != count {
                tokio::time::sleep(POLL).await;
            }
        };
        within("the passages of the files", wait).await;
    };
    post_file(&t, &t.ada, "a.md", "The dog barks.").await;
    indexed(1).await;
    let message = post_file(&t, &t.ada, "b.md", "The cat sleeps.").await;
    indexed(2).await;
    let gate = Gate::new();
    let one = r#"{"data": [{"embedding": [1, 0]}]}"#;
    let two = r#"{"data": [{"embedding": [1, 0]}, {"embedding": [1, 0]}]}"#;
    own.script(
        "embedder",
        [
            Answer::stream().json().raw(one),
            Answer::stream().json().raw(two).held(&gate),
        ],
    );
    put(&t.ada, form(&own)).await.is(200);
    gate.reached().await;
    t.ada.delete(&format!("/v1/messages/{message}")).await.ok();
    indexed(1).await;
    post_file(&t, &t.ada, "c.md", "The bird sings.").await;
    indexed(2).await;
    gate.open();
    let asked = async {
        while !own.embedded().contains(&"The bird sings.".to_owned()) {
            tokio::time::sleep(POLL).await;
        }
    };
    within("the vector of the new passage", asked).await;
    filled(&t.ada, 2).await;
    assert_eq!(t.app.place.count("embeddings").await, 2);
}

#[tokio::test]
async fn vectors_without_passages_are_removed_after_a_day() {
    let mut t = unlimited(&[]).await;
    let own = ModelServer::start().await;
    put(&t.ada, form(&own)).await.is(200);
    t.ada.upload("a.md", b"The cat sleeps.").await;
    filled(&t.ada, 1).await;
    t.app.stop().await;
    let orphan = "insert into embeddings (model_id, text_hash, vector) select model_id, 'gone', vector from embeddings";
    t.app.place.run(&[orphan]).await;
    t.app.restart(&[]).await;
    let ada = t.ada.at(&t.app.base);
    ada.upload("b.md", b"The dog barks.").await;
    filled(&ada, 2).await;
    assert_eq!(t.app.place.count("embeddings").await, 3, "it may return");
    t.app.stop().await;
    let earlier = "update embedding_progress set updated_at = '2020-01-01 00:00:00+00:00'";
    t.app.place.run(&[earlier]).await;
    t.app.restart(&[]).await;
    let gone = async {
        while t.app.place.count("embeddings").await > 2 {
            tokio::time::sleep(POLL).await;
        }
    };
    within("the vector without a passage to be removed", gone).await;
    filled(&t.ada.at(&t.app.base), 2).await;
    assert_eq!(own.embedded().len(), 2);
}

#[tokio::test]
async fn files_that_an_earlier_version_indexed_get_vectors() {
    let mut t = unlimited(&[]).await;
    let own = ModelServer::start().await;
    put(&t.ada, form(&own)).await.is(200);
    t.ada.upload("a.md", b"The cat sleeps.").await;
    t.ada.upload("b.md", b"The dog barks.").await;
    filled(&t.ada, 2).await;
    t.app.stop().await;
    let as_earlier = [
        "delete from embeddings",
        "update passages set text_hash = ''",
    ];
    t.app.place.run(&as_earlier).await;
    t.app.restart(&[]).await;
    let returned = async {
        while t.app.place.count("embeddings").await < 2 {
            tokio::time::sleep(POLL).await;
        }
    };
    within("the vectors of both files", returned).await;
    let ada = t.ada.at(&t.app.base);
    filled(&ada, 2).await;
    assert_eq!(own.embedded().len(), 4);
    // Each passage is in the index once.
    for table in ["passages", "search_passages"] {
        assert_eq!(t.app.place.count(table).await, 2, "{table}");
    }
    let found = ada.get("/v1/search?kind=file&q=barks").await.ok();
    let names = list(&found, "/data").into_iter();
    let names = names.map(|hit| text(&hit, "/file/name"));
    assert_eq!(names.filter(|name| name == "b.md").count(), 1);
}

/// Vectors of three subjects: trains, cats, and everything else.
fn by_subject(text: &str) -> Vec<f32> {
    let text = text.to_lowercase();
    let is_about = |words: &[&str]| words.iter().any(|word| text.contains(word));
    let trains = is_about(&["train", "locomotive", "railway"]);
    let cats = is_about(&["cat", "feline"]);
    let sign = |is_set: bool| if is_set { 1.0 } else { -1.0 };
    vec![sign(trains), sign(cats), sign(!trains && !cats)]
}

/// A team whose workspace has a model that knows subjects.
async fn with_subjects(settings: &[(&str, &str)]) -> (Team, ModelServer) {
    let t = unlimited(settings).await;
    let own = ModelServer::start().await;
    own.embed_by(by_subject);
    put(&t.ada, form(&own)).await.is(200);
    (t, own)
}

/// The first page of a search of files by relevance.
async fn search(who: &Person, query: &str) -> Value {
    let path = format!("/v1/search?kind=file&order=relevance&{query}");
    who.get(&path).await.ok()
}

/// Names of the files of a page, with how they were found.
fn shown(page: &Value) -> Vec<String> {
    let hits = list(page, "/data").into_iter();
    let name = |hit: &Value| format!("{} {}", text(hit, "/file/name"), text(hit, "/found_by"));
    hits.map(|hit| name(&hit)).collect()
}

#[tokio::test]
async fn a_passage_without_the_words_is_found_by_meaning() {
    let (t, own) = with_subjects(&[]).await;
    t.ada
        .upload("Timetable.md", b"The locomotive leaves at nine.")
        .await;
    t.ada.upload("Pets.md", b"The feline sleeps.").await;
    t.ada.upload("Tax.md", b"The form is due in May.").await;
    filled(&t.ada, 3).await;
    let page = search(&t.ada, "q=railway").await;
    assert_eq!(page["ranking"], "both");
    let hits = shown(&page);
    assert_eq!((hits.len(), hits[0].as_str()), (3, "Timetable.md meaning"));
    assert_eq!(page["data"][0]["text"], "The locomotive leaves at nine.");
    let page = search(&t.ada, "match=any&q=feline+form").await;
    assert_eq!(
        shown(&page)[2..],
        ["Timetable.md meaning"],
        "words come first"
    );
    assert!(shown(&page).contains(&"Pets.md both".to_owned()), "{page}");
    // Other orders, phrases, and excluded words are searched by words.
    for query in [
        "kind=file&q=railway",
        "kind=file&order=relevance&q=%22railway%22",
        "kind=file&order=relevance&q=railway+-form",
    ] {
        let page = t.ada.get(&format!("/v1/search?{query}")).await.ok();
        assert!(shown(&page).is_empty(), "{query}: {page}");
        assert_eq!(page["ranking"], json!(null), "{query}");
    }
    let calls = "select count(*) from model_calls where purpose = 'embed' and outcome = 'completed' and user_id is not null";
    let made = async {
        while t.app.place.numbers(&[calls.to_owned()]).await[0] < 3 {
            tokio::time::sleep(POLL).await;
        }
    };
    within("the calls to be stored", made).await;
    // A new file is found as soon as it has its vector.
    t.bo.upload("More.md", b"A cat and a mouse.").await;
    filled(&t.ada, 4).await;
    assert_eq!(shown(&search(&t.bo, "q=tomcat").await), ["More.md meaning"]);
    assert!(own.embedded().contains(&"railway".to_owned()));
}

#[tokio::test]
async fn words_alone_are_searched_if_the_vector_of_the_question_does_not_come() {
    let (t, own) = with_subjects(&[]).await;
    t.ada
        .upload("Timetable.md", b"The locomotive leaves at nine.")
        .await;
    filled(&t.ada, 1).await;
    let gate = Gate::new();
    for answer in [
        Answer::stream().json().raw("{}").held(&gate),
        Answer::status(429, "{}"),
        Answer::status(500, "gone"),
        Answer::stream()
            .json()
            .raw(r#"{"data": [{"embedding": [1, 1]}]}"#),
        Answer::stream().json().raw("NaN"),
    ] {
        own.script("embedder", [answer]);
        let page = search(&t.ada, "q=locomotive").await;
        assert_eq!(page["ranking"], "words");
        assert_eq!(shown(&page), ["Timetable.md words"]);
    }
    gate.open();
    assert_eq!(search(&t.ada, "q=railway").await["ranking"], "both");
}

#[tokio::test]
async fn words_alone_are_searched_if_there_is_too_little_memory() {
    let (t, _own) = with_subjects(&[("EMBEDDING_MEMORY", "40")]).await;
    t.ada.upload("One.md", b"The locomotive.").await;
    filled(&t.ada, 1).await;
    assert_eq!(search(&t.ada, "q=railway").await["ranking"], "both");
    let two = post_file(&t, &t.ada, "Two.md", "The feline.").await;
    let no_memory = async || {
        reached(&t.ada, "too many vectors", |shown| {
            shown["status"] == "no_memory" && shown["done"] == 2
        })
        .await
    };
    no_memory().await;
    for _ in 0..2 {
        let page = search(&t.ada, "q=railway").await;
        assert_eq!((&page["ranking"], shown(&page).len()), (&json!("words"), 0));
    }
    no_memory().await;
    // Once they fit again, they are used again.
    t.ada.delete(&format!("/v1/messages/{two}")).await.ok();
    filled(&t.ada, 1).await;
    assert_eq!(search(&t.ada, "q=railway").await["ranking"], "both");
}

#[tokio::test]
async fn meaning_finds_only_passages_that_the_searcher_can_read() {
    let (t, _own) = with_subjects(&[]).await;
    let board = t.ada.private_channel("board", &[]).await;
    let post = async |channel: &str, name: &str, words: &str| {
        let file = t.ada.upload(name, words.as_bytes()).await;
        let form = json!({"content": "A file", "attachments": [id(&file)]});
        let path = format!("/v1/channels/{channel}/threads");
        id(&t.ada.post(&path, form).await.ok()["message"])
    };
    let open = post(&t.general, "Open.md", "The locomotive leaves at nine.").await;
    post(&board, "Secret.md", "The locomotive costs 9000.").await;
    t.ada.upload("Own.md", b"The locomotive is mine.").await;
    filled(&t.ada, 3).await;
    let names = async |who: &Person, query: &str| {
        let page = search(who, query).await;
        assert_eq!(page["ranking"], "both");
        let mut names = shown(&page);
        names.sort_unstable();
        names
    };
    assert_eq!(
        names(&t.ada, "q=railway").await,
        ["Open.md meaning", "Own.md meaning", "Secret.md meaning"]
    );
    assert_eq!(names(&t.bo, "q=railway").await, ["Open.md meaning"]);
    let zoe = t.app.founder("Zoe").await;
    let page = search(&zoe, "q=railway").await;
    assert_eq!((&page["ranking"], shown(&page).len()), (&json!(null), 0));
    let only_board = format!("q=railway&channel_id={board}");
    assert_eq!(names(&t.ada, &only_board).await, ["Secret.md meaning"]);
    let form = json!({"query": "railway"});
    let general = format!("/v1/vector_stores/{}/search", t.general);
    let found = t.ada.post(&general, form.clone()).await.is(200);
    let files = list(&found, "/data");
    assert_eq!(
        (files.len(), text(&files[0], "/filename")),
        (1, "Open.md".to_owned())
    );
    let private = format!("/v1/vector_stores/{board}/search");
    assert_eq!(t.bo.post(&private, form).await.status, 404);

    // Everyone who reads the answer of an agent can read its sources.
    reader(&t.ada, "sage", json!({})).await;
    let call = ("search_files", json!({"query": "railway"}));
    t.model().script(
        "sage",
        [Answer::calls("", &[call]), Answer::text("At nine.")],
    );
    let thread = t.ada.thread(&t.general, "Root").await;
    let task = t.ada.ask(&thread, "@sage when does it leave?").await;
    t.ada.completed(&task).await;
    let results = t.model().asked("sage", 2).await[1].results();
    assert!(
        results[0].contains("(found by meaning only):\n> The locomotive leaves at nine."),
        "{results:?}"
    );
    assert!(
        !results[0].contains("9000") && !results[0].contains("mine"),
        "{results:?}"
    );

    // A deleted message takes its file along at once.
    t.ada.delete(&format!("/v1/messages/{open}")).await.ok();
    assert_eq!(names(&t.bo, "q=railway").await, Vec::<String>::new());
}

#[tokio::test]
async fn prompts_have_passages_that_are_found_by_meaning() {
    let (t, own) = with_subjects(&[]).await;
    let board = t.ada.private_channel("board", &[]).await;
    let rules = json!({"handle": "rules"});
    let texts = ["The locomotive leaves at nine.", "The feline sleeps."];
    made(&t.ada, rules, &texts).await;
    let bonus = json!({"handle": "bonus", "channel_id": board});
    made(&t.ada, bonus, &["The locomotive costs 9000."]).await;
    filled(&t.ada, 3).await;
    let tool = json!({"type": "file_search", "vector_store_ids": ["vs_rules", "vs_bonus"]});
    reader(&t.ada, "sage", json!({"tools": [tool]})).await;
    reader(&t.ada, "poet", json!({})).await;
    let asked = |texts: &[String]| texts.iter().filter(|text| text.contains("railway")).count();
    t.model().script("sage", [Answer::text("At nine.")]);
    let thread = t.ada.thread(&t.general, "Root").await;
    let task = t.ada.ask(&thread, "@sage is there a railway today?").await;
    t.ada.completed(&task).await;
    let prompt = t.model().asked("sage", 1).await[0].body.to_string();
    let place = "(rules0.md) (found by meaning only)\\nThe locomotive leaves at nine.";
    assert!(prompt.contains(place), "{prompt}");
    assert!(!prompt.contains("9000"), "{prompt}");
    assert_eq!(asked(&own.embedded()), 1);
    // An agent without files does not ask for the vector of its question.
    t.model().script("poet", [Answer::text("Yes.")]);
    let thread = t.ada.thread(&t.general, "Root").await;
    let task = t.ada.ask(&thread, "@poet is there a railway?").await;
    t.ada.completed(&task).await;
    assert_eq!(asked(&own.embedded()), 1);
}

#[tokio::test]
async fn a_long_file_is_read_where_its_meaning_is_near_to_the_question() {
    let (t, _own) = with_subjects(&[]).await;
    let filler = "Taxes are due in May.\n\n".repeat(2_000);
    let words = format!("{filler}The locomotive leaves at nine.");
    let file = t.ada.upload("Long.txt", words.as_bytes()).await;
    read(&t.ada, &file).await;
    reached(&t.ada, "all vectors", |shown| {
        shown["status"] == "ready" && number(shown, "/done") > 30
    })
    .await;
    let thread = t.ada.thread(&t.general, "Root").await;
    let form = json!({"content": "@vibe is there a railway today?", "attachments": [id(&file)]});
    let path = format!("/v1/threads/{thread}/messages");
    let posted = t.ada.post(&path, form).await.is(201);
    t.ada.completed(&text(&posted, "/tasks/0/id")).await;
    let prompt = t.model().asked_once("vibe").await.all();
    assert!(prompt.contains("] (found by meaning only)"), "{prompt}");
    assert!(
        prompt.contains("The locomotive leaves at nine."),
        "{prompt}"
    );
}

#[tokio::test]
async fn programs_get_passages_that_are_found_by_meaning() {
    let (t, _own) = with_subjects(&[]).await;
    let texts = ["The locomotive leaves at nine."];
    made(&t.ada, json!({"handle": "rules"}), &texts).await;
    filled(&t.ada, 1).await;
    let (program, _) = t.bo.make_key(&["agents:use", "chat:read"]).await;
    let call = ("file_search", json!({"queries": ["railway"]}));
    let answers = [Answer::calls("", &[call]), Answer::text("At nine.")];
    t.model().script("sage", answers);
    let tool = json!({"type": "file_search", "vector_store_ids": ["vs_rules"]});
    let body = json!({"model": "tiny", "instructions": "You are Sage.", "input": "When does it leave?", "tools": [tool]});
    program.post("/v1/responses", body).await.is(200);
    let results = t.model().asked("sage", 2).await[1].results();
    assert!(
        results[0].contains("(found by meaning only):\n> The locomotive leaves at nine."),
        "{results:?}"
    );
}

#[tokio::test]
async fn each_node_searches_what_another_one_has_stored() {
    if !is_shared_engine() {
        return;
    }
    let (t, own) = with_subjects(&[("NODE_NAME", "one")]).await;
    let second = t.app.beside("two", &[]).await;
    t.app.knows_peers().await;
    second.knows_peers().await;
    let there = t.ada.at(&second.base);
    let post = async |who: &Person, name: &str, words: &str| post_file(&t, who, name, words).await;
    post(&t.ada, "One.md", "The locomotive leaves at nine.").await;
    filled(&there, 1).await;
    for who in [&t.ada, &there] {
        assert_eq!(shown(&search(who, "q=railway").await), ["One.md meaning"]);
    }
    // A passage that gets the number of a removed one.
    let two = post(&there, "Two.md", "The railway is closed.").await;
    filled(&t.ada, 2).await;
    for who in [&t.ada, &there] {
        assert_eq!(shown(&search(who, "q=locomotive").await).len(), 2);
    }
    t.ada.delete(&format!("/v1/messages/{two}")).await.ok();
    filled(&there, 1).await;
    post(&t.ada, "Three.md", "A feline sleeps.").await;
    filled(&there, 2).await;
    for who in [&t.ada, &there] {
        let hits = shown(&search(who, "q=tomcat").await);
        assert_eq!(hits, ["Three.md meaning", "One.md meaning"]);
    }
    // Another model, named on the other node.
    let other = ModelServer::start().await;
    other.embed_by(by_subject);
    put(&there, form(&other)).await.is(200);
    filled(&t.ada, 2).await;
    let before = own.embedded().len();
    for who in [&t.ada, &there] {
        assert_eq!(search(who, "q=railway").await["ranking"], "both");
    }
    assert_eq!(own.embedded().len(), before);
}

#[tokio::test]
async fn pages_continue_with_what_words_find() {
    let (t, _own) = with_subjects(&[]).await;
    for n in 0..6 {
        let words = format!("Note {n} about railway tax.");
        t.ada.upload(&format!("{n}.md"), words.as_bytes()).await;
    }
    t.ada.upload("Other.md", b"The locomotive leaves.").await;
    filled(&t.ada, 7).await;
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = search(&t.ada, &format!("q=railway&limit=4{cursor}")).await;
        seen.extend(shown(&page));
        let Some(next) = page["next_cursor"].as_str() else {
            break;
        };
        assert_eq!(page["has_more"], true);
        cursor = format!("&cursor={next}");
    }
    assert_eq!(seen.len(), 7, "{seen:?}");
    assert_eq!(seen[3], "Other.md meaning");
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), 7, "{seen:?}");
}

#[tokio::test]
async fn the_old_model_serves_until_another_one_has_all_vectors() {
    let (t, own) = with_subjects(&[]).await;
    t.ada
        .upload("Timetable.md", b"The locomotive leaves at nine.")
        .await;
    filled(&t.ada, 1).await;
    let other = ModelServer::start().await;
    other.embed_by(by_subject);
    let vector = r#"{"data": [{"embedding": [1, -1, -1]}]}"#;
    other.script(
        "embedder",
        [
            Answer::stream().json().raw(vector),
            Answer::status(503, "busy"),
        ],
    );
    put(&t.ada, form(&other)).await.is(200);
    waiting(&t.ada).await;
    let before = own.embedded().len();
    let page = search(&t.ada, "q=railway").await;
    assert_eq!(shown(&page), ["Timetable.md meaning"]);
    assert_eq!(own.embedded().len(), before + 1);
    put(&t.ada, form(&other)).await.is(200);
    filled(&t.ada, 1).await;
    assert_eq!(
        shown(&search(&t.ada, "q=railway").await),
        ["Timetable.md meaning"]
    );
    assert_eq!(
        own.embedded().len(),
        before + 1,
        "it is not asked any longer"
    );
    t.ada.delete(&path(&t.ada)).await.is(204);
    let page = search(&t.ada, "q=railway").await;
    assert_eq!((&page["ranking"], shown(&page).len()), (&json!(null), 0));
}
