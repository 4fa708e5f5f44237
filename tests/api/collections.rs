//! Files of vector stores by path: versions, comparisons with a directory, and web pages.

use std::{
    process::{Command, Output},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use axum::{
    Router,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use openvibe::{
    db::{Conn, DbError},
    ids::WorkspaceId,
    time::Timestamp,
};
use reqwest::Method;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::{net::TcpListener, task::JoinSet};

use crate::{
    documents::POLL,
    support::{
        ModelServer, Person, Reply, Team, TestDatabase, TestProcess, at_points, id, list, number,
        sign_up, team, team_with, text, within,
    },
};

async fn store(person: &Person, form: Value) -> String {
    id(&person.post("/v1/vector_stores", form).await.is(200))
}

async fn put(person: &Person, store: &str, path: &str, bytes: &[u8]) -> Reply {
    let path = format!("/v1/vector_stores/{store}/paths/{path}");
    person
        .send(Method::PUT, &path, &[], Some(bytes.to_vec()))
        .await
}

async fn files(person: &Person, store: &str) -> Vec<Value> {
    let path = format!("/v1/vector_stores/{store}/files?limit=100&order=asc");
    list(&person.get(&path).await.ok(), "/data")
}

/// Waits until the only file at a path is this one, and its text is in the index.
async fn settled(person: &Person, store: &str, path: &str, file: &str) {
    let wait = async {
        loop {
            let all = files(person, store).await;
            let found = all.iter().find(|file| file["path"] == path);
            if found.is_some_and(|found| found["id"] == file && found["status"] == "completed") {
                return;
            }
            tokio::time::sleep(POLL).await;
        }
    };
    within("the file at a path", wait).await;
}

/// Texts of the passages that a search finds.
async fn found(person: &Person, store: &str, query: &str) -> Vec<String> {
    let path = format!("/v1/vector_stores/{store}/search");
    let hits = person.post(&path, json!({"query": query})).await.is(200);
    let hits = list(&hits, "/data");
    hits.iter()
        .map(|hit| text(hit, "/content/0/text"))
        .collect()
}

fn entry(path: &str, bytes: &[u8]) -> Value {
    json!({"path": path, "sha256": hex::encode(Sha256::digest(bytes)), "size": bytes.len()})
}

async fn sync(person: &Person, store: &str, files: Vec<Value>, delete: bool) -> Reply {
    let path = format!("/v1/vector_stores/{store}/sync");
    let form = json!({"files": files, "delete": delete});
    person.post(&path, form).await
}

/// Runs a statement without values.
async fn run(t: &Team, sql: &'static str) {
    let workspace: WorkspaceId = t.ada.workspace.parse().unwrap();
    let done: Result<(), DbError> = t
        .app
        .db()
        .write(workspace.0, async move |c: &mut Conn| {
            c.q(sql).bind(Timestamp::EPOCH).run().await?;
            Ok(())
        })
        .await;
    done.unwrap();
}

#[tokio::test]
async fn a_file_is_replaced_at_its_path_without_a_gap() {
    let t = team().await;
    let rules = store(&t.ada, json!({"handle": "rules"})).await;
    let old = put(
        &t.ada,
        "vs_rules",
        "travel/trains.md",
        b"Okapi trains are preferred",
    )
    .await;
    let old = old.is(201);
    assert_eq!(
        (&old["path"], &old["filename"]),
        (&json!("travel/trains.md"), &json!("trains.md"))
    );
    settled(&t.ada, &rules, "travel/trains.md", &id(&old)).await;
    let same = put(
        &t.bo,
        &rules,
        "travel/trains.md",
        b"Okapi trains are preferred",
    )
    .await;
    assert_eq!(same.is(200)["id"], old["id"]);
    let new = put(
        &t.bo,
        &rules,
        "travel/trains.md",
        b"Quokka trains are preferred",
    )
    .await;
    let new = new.is(201);
    // The old text is found until the new one is.
    let wait = async {
        loop {
            let texts = found(&t.ada, &rules, "trains preferred").await;
            assert_eq!(texts.len(), 1, "{texts:?}");
            if texts[0].contains("Quokka") {
                return;
            }
            tokio::time::sleep(POLL).await;
        }
    };
    within("the new text", wait).await;
    assert_eq!(files(&t.ada, &rules).await.len(), 1);
    // The old file stays readable for those who follow a citation, and is not found.
    let path = format!("/v1/files/{}", id(&old));
    assert!(t.bo.get(&path).await.text.contains("Okapi"));
    let path = format!("/v1/vector_stores/{rules}/files/{}", id(&old));
    let replaced = t.bo.get(&path).await.ok();
    assert!(number(&replaced, "/replaced_at") > 0);
    assert_eq!(replaced["replaced_by"], new["id"]);
    let shown = t.bo.get(&format!("/v1/files/{}/text", id(&old))).await.ok();
    assert_eq!(shown["replaced_by"], new["id"]);
    assert!(shown["replaced_at"].is_string());
    let shown = t.bo.get(&format!("/v1/files/{}/text", id(&new))).await.ok();
    assert_eq!(
        (&shown["replaced_by"], &shown["replaced_at"]),
        (&Value::Null, &Value::Null)
    );
    assert!(found(&t.ada, &rules, "okapi").await.is_empty());
    let hits = t.ada.get("/v1/search?kind=file&q=okapi").await.ok();
    assert_eq!(list(&hits, "/data").len(), 0);
    // Its bytes come back as a new file.
    let again = put(
        &t.ada,
        &rules,
        "travel/trains.md",
        b"Okapi trains are preferred",
    )
    .await;
    settled(&t.ada, &rules, "travel/trains.md", &id(&again.is(201))).await;
    assert_eq!(found(&t.ada, &rules, "okapi").await.len(), 1);
    assert!(id(&new) != id(&old));
}

#[tokio::test]
async fn a_file_in_two_vector_stores_is_found_until_it_has_left_both() {
    let t = team().await;
    let (rules, drafts) = (
        store(&t.ada, json!({})).await,
        store(&t.ada, json!({})).await,
    );
    let add = async |store: &str, file: &str| {
        let path = format!("/v1/vector_stores/{store}/files");
        let form = json!({"file_id": file, "path": "a.md"});
        t.ada.post(&path, form).await.is(200);
    };
    let first = put(&t.ada, &drafts, "a.md", b"Yak rules").await.is(201);
    settled(&t.ada, &drafts, "a.md", &id(&first)).await;
    let shared = id(&t.ada.upload("a.md", b"Okapi rules").await);
    add(&rules, &shared).await;
    settled(&t.ada, &rules, "a.md", &shared).await;
    // Replaced in one store, it still takes its place in the other.
    let next = put(&t.ada, &rules, "a.md", b"Quokka rules").await.is(201);
    add(&drafts, &shared).await;
    settled(&t.ada, &rules, "a.md", &id(&next)).await;
    settled(&t.ada, &drafts, "a.md", &shared).await;
    assert_eq!(found(&t.ada, &drafts, "okapi").await.len(), 1);
    assert!(found(&t.ada, &rules, "okapi").await.is_empty());
    // Its uploader does not find it once it is only a replaced one.
    let path = format!("/v1/vector_stores/{drafts}/files/{shared}");
    t.ada.delete(&path).await.is(200);
    let hits = t.ada.get("/v1/search?kind=file&q=okapi").await.ok();
    assert_eq!(list(&hits, "/data").len(), 0);
    let kept = t.ada.get(&format!("/v1/files/{shared}")).await;
    assert!(kept.text.contains("Okapi"));
}

#[tokio::test]
async fn a_file_that_cannot_be_read_does_not_replace_another() {
    let t = team().await;
    let rules = store(&t.ada, json!({})).await;
    let old = put(&t.ada, &rules, "a.md", b"Okapi rules").await.is(201);
    settled(&t.ada, &rules, "a.md", &id(&old)).await;
    let new = put(&t.ada, &rules, "a.md", b"{\\rtf1 x}").await.is(201);
    let wait = async {
        loop {
            let all = files(&t.ada, &rules).await;
            assert_eq!(all.len(), 1);
            assert_eq!(all[0]["id"], old["id"]);
            if all[0]["replacement"]["status"] == "failed" {
                return all[0].clone();
            }
            tokio::time::sleep(POLL).await;
        }
    };
    let row = within("the failure", wait).await;
    assert_eq!(row["replacement"]["file_id"], new["id"]);
    assert_eq!(row["replacement"]["last_error"]["code"], "unsupported_file");
    assert_eq!(found(&t.ada, &rules, "okapi").await.len(), 1);
    // The next version takes the place of the failed one.
    let next = put(&t.ada, &rules, "a.md", b"Quokka rules").await.is(201);
    settled(&t.ada, &rules, "a.md", &id(&next)).await;
    let gone = t.ada.get(&format!("/v1/files/{}", id(&new))).await;
    assert_eq!(gone.refused(404), "file_not_found");
    assert_eq!(files(&t.ada, &rules).await[0]["replacement"], Value::Null);
}

#[tokio::test]
async fn a_file_that_cannot_be_read_is_missing_once_the_one_before_it_was_deleted() {
    let t = team().await;
    let rules = store(&t.ada, json!({})).await;
    let old = put(&t.ada, &rules, "a.md", b"Okapi rules").await.is(201);
    settled(&t.ada, &rules, "a.md", &id(&old)).await;
    let bytes = b"{\\rtf1 x}";
    put(&t.ada, &rules, "a.md", bytes).await.is(201);
    let compare = async || {
        let compared = sync(&t.ada, &rules, vec![entry("a.md", bytes)], false).await;
        list(&compared.is(200), "/missing").len()
    };
    assert_eq!(compare().await, 0);
    let path = format!("/v1/files/{}", id(&old));
    t.ada.delete(&path).await.is(204);
    assert!(files(&t.ada, &rules).await.is_empty());
    assert_eq!(compare().await, 1);
    put(&t.ada, &rules, "a.md", bytes).await.is(201);
    assert_eq!(files(&t.ada, &rules).await.len(), 1);
    assert_eq!(compare().await, 0);
}

#[tokio::test]
async fn uploads_of_one_path_at_the_same_time_leave_one_file() {
    let t = team().await;
    let rules = store(&t.ada, json!({})).await;
    for round in 0..2 {
        let texts: Vec<String> = (0..6).map(|n| format!("Okapi {round} {n}")).collect();
        let puts = texts.iter().enumerate().map(|(n, text)| {
            let person = if n % 2 == 0 { &t.ada } else { &t.bo };
            put(person, &rules, "a.md", text.as_bytes())
        });
        for reply in futures::future::join_all(puts).await {
            assert_eq!(reply.status, 201);
        }
        let wait = async {
            loop {
                let all = files(&t.ada, &rules).await;
                assert_eq!(all.len(), 1);
                if all[0]["status"] == "completed" && all[0]["replacement"].is_null() {
                    return;
                }
                tokio::time::sleep(POLL).await;
            }
        };
        within("one file", wait).await;
        let texts = found(&t.ada, &rules, "okapi").await;
        assert_eq!(texts.len(), 1, "{texts:?}");
        assert!(texts[0].starts_with(&format!("Okapi {round}")), "{texts:?}");
    }
}

#[tokio::test]
async fn a_replaced_file_is_deleted_after_90_days_and_a_removed_one_at_once() {
    let t = team().await;
    let rules = store(&t.ada, json!({})).await;
    let old = put(&t.ada, &rules, "a.md", b"Okapi rules").await.is(201);
    settled(&t.ada, &rules, "a.md", &id(&old)).await;
    let new = put(&t.ada, &rules, "a.md", b"Quokka rules").await.is(201);
    settled(&t.ada, &rules, "a.md", &id(&new)).await;
    let path = format!("/v1/files/{}", id(&old));
    openvibe::collections::delete_old(t.app.db()).await.unwrap();
    assert_eq!(t.ada.get(&path).await.status, 200);
    run(
        &t,
        "update vector_store_versions set replaced_at = $1 where replaced_at is not null",
    )
    .await;
    openvibe::collections::delete_old(t.app.db()).await.unwrap();
    assert_eq!(t.ada.get(&path).await.status, 404);
    assert_eq!(found(&t.ada, &rules, "quokka").await.len(), 1);
    // A file without a purpose is nowhere else.
    let removed = format!("/v1/vector_stores/{rules}/files/{}", id(&new));
    t.bo.delete(&removed).await.is(200);
    assert_eq!(
        t.ada.get(&format!("/v1/files/{}", id(&new))).await.status,
        404
    );
    let texts = t.app.place.every_text().await;
    let left = texts
        .iter()
        .find(|(column, text)| column.starts_with("files") && text.contains("a.md"));
    assert_eq!(left, None);
}

#[tokio::test]
async fn passages_that_left_the_index_do_not_count_for_the_limit() {
    let t = team().await;
    let rules = store(&t.ada, json!({})).await;
    let old = put(&t.ada, &rules, "old.md", b"Okapi rules").await.is(201);
    settled(&t.ada, &rules, "old.md", &id(&old)).await;
    run(
        &t,
        "update passages set no = no + 1000000 where cast($1 as timestamptz) is not null",
    )
    .await;
    let new = put(&t.ada, &rules, "new.md", b"Quokka rules").await.is(201);
    settled(&t.ada, &rules, "new.md", &id(&new)).await;
    assert_eq!(found(&t.ada, &rules, "quokka").await.len(), 1);
}

#[tokio::test]
async fn a_deleted_vector_store_is_gone_at_once_and_its_files_soon() {
    let t = team().await;
    let rules = store(&t.ada, json!({"handle": "rules"})).await;
    let file = put(&t.ada, &rules, "a.md", b"Okapi rules").await.is(201);
    settled(&t.ada, &rules, "a.md", &id(&file)).await;
    let mut bo = t.bo.socket().await;
    let path = format!("/v1/vector_stores/{rules}");
    t.ada.delete(&path).await.is(200);
    let event = bo.of("vector_store.deleted").await;
    assert_eq!(event["data"], json!({"vector_store_id": rules}));
    assert_eq!(
        t.ada.get(&path).await.refused(404),
        "vector_store_not_found"
    );
    // The handle is free.
    store(&t.ada, json!({"handle": "rules"})).await;
    let path = format!("/v1/files/{}", id(&file));
    let wait = async {
        while t.ada.get(&path).await.status != 404
            || t.app.place.count("passages").await > 0
            || t.app.place.count("vector_stores").await > 1
        {
            tokio::time::sleep(POLL).await;
        }
    };
    within("the removal of the store and its files", wait).await;
}

#[tokio::test]
async fn readers_learn_of_changes_of_a_vector_store() {
    let t = team().await;
    let board = t.ada.private_channel("board", &[]).await;
    let (mut ada, mut bo) = (t.ada.socket().await, t.bo.socket().await);
    let hidden = store(&t.ada, json!({"channel_id": board})).await;
    let open = store(&t.ada, json!({})).await;
    // The first event that Bo gets is about the store that he can read.
    let event = bo.of("vector_store.updated").await;
    assert_eq!(event["data"], json!({"vector_store_id": open}));
    let event = ada.of("vector_store.updated").await;
    assert_eq!(event["data"], json!({"vector_store_id": hidden}));
}

#[tokio::test]
async fn readers_learn_that_a_file_of_a_vector_store_was_deleted() {
    let t = team().await;
    let rules = store(&t.ada, json!({})).await;
    let file = put(&t.ada, &rules, "a.md", b"Okapi rules").await.is(201);
    settled(&t.ada, &rules, "a.md", &id(&file)).await;
    let mut bo = t.bo.socket().await;
    let path = format!("/v1/files/{}", id(&file));
    t.ada.delete(&path).await.is(204);
    let event = bo.of("vector_store.updated").await;
    assert_eq!(event["data"], json!({"vector_store_id": rules}));
}

#[tokio::test]
async fn a_directory_is_compared_and_others_are_removed_only_when_nothing_is_missing() {
    let t = team().await;
    let rules = store(&t.ada, json!({"editors": "admins"})).await;
    for (path, bytes) in [
        ("a.md", "A zebra"),
        ("b/c.md", "An okapi"),
        ("old.md", "A yak"),
    ] {
        let file = put(&t.ada, &rules, path, bytes.as_bytes()).await.is(201);
        settled(&t.ada, &rules, path, &id(&file)).await;
    }
    let wanted = || {
        vec![
            entry("a.md", b"A zebra"),
            entry("b/c.md", b"A quokka"),
            entry("d.md", b"A newt"),
        ]
    };
    // Readers can compare.
    let compared = sync(&t.bo, &rules, wanted(), false).await.is(200);
    let expected = json!({"missing": ["b/c.md", "d.md"], "unchanged": 1, "removed": []});
    assert_eq!(compared, expected);
    assert_eq!(
        sync(&t.bo, &rules, wanted(), true).await.refused(403),
        "not_editor"
    );
    assert_eq!(
        sync(&t.ada, &rules, wanted(), true).await.refused(409),
        "sync_incomplete"
    );
    put(&t.ada, &rules, "b/c.md", b"A quokka").await.is(201);
    put(&t.ada, &rules, "d.md", b"A newt").await.is(201);
    // Files that wait for their texts count.
    let done = sync(&t.ada, &rules, wanted(), true).await.is(200);
    let expected = json!({"missing": [], "unchanged": 3, "removed": ["old.md"]});
    assert_eq!(done, expected);
    let again = sync(&t.ada, &rules, wanted(), true).await.is(200);
    assert_eq!(list(&again, "/removed").len(), 0);
    let all = files(&t.ada, &rules).await;
    let mut paths: Vec<String> = all.iter().map(|file| text(file, "/path")).collect();
    paths.sort();
    assert_eq!(paths, ["a.md", "b/c.md", "d.md"]);
}

#[tokio::test]
async fn ten_thousand_files_are_compared_in_one_request_and_no_more() {
    let t = team().await;
    let rules = store(&t.ada, json!({})).await;
    let many = |count: usize| -> Vec<Value> {
        let files = (0..count).map(|n| entry(&format!("directory/with/a/name/{n}.md"), b"x"));
        files.collect()
    };
    let compared = sync(&t.ada, &rules, many(10_000), false).await.is(200);
    assert_eq!(list(&compared, "/missing").len(), 10_000);
    let refused = sync(&t.ada, &rules, many(10_001), false).await;
    assert_eq!(refused.refused(422), "invalid_value");
    let one = entry("a.md", b"x");
    for files in [
        vec![one.clone(), one.clone()],
        vec![entry("../a.md", b"x")],
        vec![entry("/a.md", b"x")],
        vec![json!({"path": "a.md", "sha256": "00", "size": 1})],
        vec![json!({"path": "a.md", "sha256": "0".repeat(64), "size": -1})],
    ] {
        let refused = sync(&t.ada, &rules, files.clone(), false).await;
        assert_eq!(refused.refused(422), "invalid_value", "{files:?}");
    }
}

#[tokio::test]
async fn paths_are_names_with_slashes_between_them() {
    let t = team().await;
    let rules = store(&t.ada, json!({})).await;
    let decomposed = put(&t.ada, &rules, "u%CC%88ber.md", b"A zebra")
        .await
        .is(201);
    assert_eq!(decomposed["path"], "\u{fc}ber.md");
    let composed = put(&t.ada, &rules, "%C3%BCber.md", b"A zebra").await;
    assert_eq!(composed.is(200)["id"], decomposed["id"]);
    for path in [
        "a%2F..%2Fb".to_owned(),
        "%2Fa".to_owned(),
        "a%2F%2Fb".to_owned(),
        "a%0Ab".to_owned(),
        "x".repeat(513),
    ] {
        let refused = put(&t.ada, &rules, &path, b"x").await;
        assert_eq!(refused.refused(422), "invalid_value", "{path}");
    }
    let form = [("content-type", "multipart/form-data; boundary=b")];
    let path = format!("/v1/vector_stores/{rules}/paths/a.md");
    let refused = t
        .ada
        .send(Method::PUT, &path, &form, Some(b"--b--".to_vec()))
        .await;
    assert_eq!(refused.refused(400), "invalid_body");
    let board = t.ada.private_channel("board", &[]).await;
    let hidden = store(&t.ada, json!({"channel_id": board})).await;
    let refused = put(&t.bo, &hidden, "a.md", b"x").await;
    assert_eq!(refused.refused(404), "vector_store_not_found");
    let locked = store(&t.ada, json!({"editors": "admins"})).await;
    let refused = put(&t.bo, &locked, "a.md", b"x").await;
    assert_eq!(refused.refused(403), "not_editor");
}

#[tokio::test]
async fn an_upload_in_a_vector_store_outlives_the_cleanup_of_loose_ones() {
    let t = team_with(&[("UPLOAD_ORPHAN_AFTER", "1s")]).await;
    let rules = store(&t.ada, json!({})).await;
    let kept = t.ada.upload("kept.md", b"A zebra").await;
    let form = json!({"file_id": id(&kept), "path": "a/kept.md"});
    let added = format!("/v1/vector_stores/{rules}/files");
    assert_eq!(t.ada.post(&added, form).await.is(200)["path"], "a/kept.md");
    let loose = t.ada.upload("loose.md", b"A yak").await;
    let path = format!("/v1/files/{}", id(&loose));
    let wait = async {
        while t.ada.get(&path).await.status != 404 {
            tokio::time::sleep(POLL).await;
        }
    };
    within("the cleanup", wait).await;
    let path = format!("/v1/files/{}", id(&kept));
    assert_eq!(t.ada.get(&path).await.status, 200);
}

/// A page with a version, which fails on demand, and the numbers of answers with and without it.
#[derive(Clone, Default)]
struct Site {
    fails: Arc<AtomicUsize>,
    sent: Arc<AtomicUsize>,
    unchanged: Arc<AtomicUsize>,
}

impl Site {
    fn answer(&self, headers: &HeaderMap) -> Response {
        if self.fails.load(Ordering::SeqCst) > 0 {
            return StatusCode::NOT_FOUND.into_response();
        }
        if headers
            .get(header::IF_NONE_MATCH)
            .is_some_and(|tag| tag == "\"v1\"")
        {
            self.unchanged.fetch_add(1, Ordering::SeqCst);
            return StatusCode::NOT_MODIFIED.into_response();
        }
        self.sent.fetch_add(1, Ordering::SeqCst);
        let tagged = [
            (header::ETAG, "\"v1\""),
            (header::CONTENT_TYPE, "text/html"),
        ];
        (tagged, "<h1>Fair</h1><p>The okapi fair is in May.</p>").into_response()
    }

    async fn serve(&self) -> (String, JoinSet<()>) {
        let site = self.clone();
        let page = move |headers: HeaderMap| std::future::ready(site.answer(&headers));
        let flood = || async { vec![b'x'; 3 << 20] };
        let away = || async { [(header::LOCATION, "http://169.254.169.254/latest")] };
        let away = move || async move { (StatusCode::FOUND, away().await) };
        let router = Router::new()
            .route("/fair", get(page))
            .route("/flood", get(flood))
            .route("/away", get(away));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        let mut serving = JoinSet::new();
        serving.spawn(async move { axum::serve(listener, router).await.unwrap() });
        (origin, serving)
    }
}

async fn pages(person: &Person, store: &str) -> Vec<Value> {
    let path = format!("/v1/vector_stores/{store}/urls");
    list(&person.get(&path).await.ok(), "/data")
}

/// Waits until the only page is as expected.
async fn page(person: &Person, store: &str, is_expected: impl Fn(&Value) -> bool) -> Value {
    let wait = async {
        loop {
            let all = pages(person, store).await;
            assert_eq!(all.len(), 1);
            if is_expected(&all[0]) {
                return all[0].clone();
            }
            tokio::time::sleep(POLL).await;
        }
    };
    within("the page", wait).await
}

/// Makes all pages due, and adds one that does not exist, which wakes the job.
async fn look_again(t: &Team, store: &str, origin: &str) {
    run(
        t,
        "update vector_store_urls set due_at = $1, claimed_until = null",
    )
    .await;
    let other = self::store(&t.ada, json!({})).await;
    let form = json!({"url": format!("{origin}/none"), "every_s": 3600});
    let path = format!("/v1/vector_stores/{other}/urls");
    t.ada.post(&path, form).await.is(201);
    page(&t.ada, &other, |page| page["failure"] == "404").await;
    let is_done = |page: &Value| number(page, "/next_at") > 0;
    page(&t.ada, store, is_done).await;
}

#[tokio::test]
async fn a_web_page_is_kept_and_a_failure_keeps_its_text() {
    let t = team_with(&[("WEB_ALLOW", "127.0.0.1")]).await;
    let site = Site::default();
    let (origin, _serving) = site.serve().await;
    let rules = store(&t.ada, json!({})).await;
    let path = format!("/v1/vector_stores/{rules}/urls");
    let form = json!({"url": format!("{origin}/fair"), "every_s": 3600, "path": "fair"});
    let added = t.bo.post(&path, form).await.is(201);
    assert_eq!(added["refreshed_at"], Value::Null);
    let read = page(&t.ada, &rules, |page| !page["refreshed_at"].is_null()).await;
    assert_eq!(read["failure"], Value::Null);
    let wait = async {
        while found(&t.ada, &rules, "okapi").await.is_empty() {
            tokio::time::sleep(POLL).await;
        }
    };
    within("the text of the page", wait).await;
    let texts = found(&t.ada, &rules, "okapi").await;
    assert_eq!(texts, ["Fair\n\nThe okapi fair is in May."]);
    let file = files(&t.ada, &rules).await[0].clone();
    assert_eq!(file["path"], "fair");
    look_again(&t, &rules, &origin).await;
    assert_eq!(site.sent.load(Ordering::SeqCst), 1);
    assert_eq!(site.unchanged.load(Ordering::SeqCst), 1);
    site.fails.store(1, Ordering::SeqCst);
    look_again(&t, &rules, &origin).await;
    let failed = page(&t.ada, &rules, |page| !page["failure"].is_null()).await;
    assert_eq!(failed["failure"], "404");
    assert!(number(&failed, "/refreshed_at") >= number(&read, "/refreshed_at"));
    assert_eq!(files(&t.ada, &rules).await[0]["id"], file["id"]);
    assert_eq!(found(&t.ada, &rules, "okapi").await.len(), 1);
    // A comparison with a directory leaves pages alone; the removal of the file removes the page.
    let done = sync(&t.ada, &rules, Vec::new(), true).await.is(200);
    assert_eq!(list(&done, "/removed").len(), 0);
    let path = format!("/v1/vector_stores/{rules}/paths/fair");
    assert_eq!(t.ada.delete(&path).await.status, 204);
    assert!(pages(&t.ada, &rules).await.is_empty());
    assert!(files(&t.ada, &rules).await.is_empty());
    assert_eq!(t.ada.delete(&path).await.refused(404), "file_not_found");
}

#[tokio::test]
async fn a_page_whose_file_was_deleted_is_read_again_although_it_is_unchanged() {
    let t = team_with(&[("WEB_ALLOW", "127.0.0.1")]).await;
    let site = Site::default();
    let (origin, _serving) = site.serve().await;
    let rules = store(&t.ada, json!({})).await;
    let path = format!("/v1/vector_stores/{rules}/urls");
    let form = json!({"url": format!("{origin}/fair"), "every_s": 3600, "path": "fair"});
    t.ada.post(&path, form).await.is(201);
    page(&t.ada, &rules, |page| !page["refreshed_at"].is_null()).await;
    let file = id(&files(&t.ada, &rules).await[0]);
    t.ada.delete(&format!("/v1/files/{file}")).await.is(204);
    assert!(files(&t.ada, &rules).await.is_empty());
    look_again(&t, &rules, &origin).await;
    assert_eq!(files(&t.ada, &rules).await.len(), 1);
    assert_eq!(site.unchanged.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn pages_of_people_who_left_and_floods_and_private_redirects_are_failures() {
    let settings = [("WEB_ALLOW", "127.0.0.1"), ("UPLOAD_BYTES_MAX", "1MiB")];
    let t = team_with(&settings).await;
    let (origin, _serving) = Site::default().serve().await;
    for (name, words) in [
        ("flood", "larger than the limit"),
        ("away", "169.254.169.254"),
    ] {
        let rules = store(&t.ada, json!({})).await;
        let path = format!("/v1/vector_stores/{rules}/urls");
        let form = json!({"url": format!("{origin}/{name}"), "every_s": 3600});
        t.ada.post(&path, form).await.is(201);
        let failed = page(&t.ada, &rules, |page| !page["failure"].is_null()).await;
        assert!(text(&failed, "/failure").contains(words), "{failed}");
        assert!(files(&t.ada, &rules).await.is_empty());
    }
    let rules = store(&t.ada, json!({})).await;
    let path = format!("/v1/vector_stores/{rules}/urls");
    let form = json!({"url": format!("{origin}/fair"), "every_s": 3600});
    t.bo.post(&path, form).await.is(201);
    page(&t.ada, &rules, |page| !page["refreshed_at"].is_null()).await;
    let left = format!("/v1/members/{}", t.bo.id);
    assert_eq!(t.ada.delete(&left).await.status, 204);
    run(&t, "update vector_store_urls set etag = null, due_at = $1").await;
    look_again(&t, &rules, &origin).await;
    let failed = page(&t.ada, &rules, |page| !page["failure"].is_null()).await;
    assert_eq!(failed["failure"], "the person who added the page has left");
    assert_eq!(files(&t.ada, &rules).await.len(), 1);
}

#[tokio::test]
async fn forbidden_pages_and_intervals_are_rejected() {
    let t = team().await;
    let rules = store(&t.ada, json!({})).await;
    let path = format!("/v1/vector_stores/{rules}/urls");
    for (url, every_s) in [
        ("http://127.0.0.1/", 3600),
        ("https://localhost/", 3600),
        ("https://169.254.169.254/", 3600),
        ("file:///etc/passwd", 3600),
        ("https://user@[2d00::1]/", 3600),
        ("https://[2d00::1]/", 3599),
        ("https://[2d00::1]/", 2_592_001),
    ] {
        let form = json!({"url": url, "every_s": every_s});
        let refused = t.ada.post(&path, form).await;
        assert_eq!(refused.refused(422), "invalid_value", "{url} {every_s}");
    }
    let trusted = json!({"editors": "admins", "trusted_reads": true});
    let trusted = store(&t.ada, trusted).await;
    let form = json!({"url": "https://[2d00::1]/", "every_s": 3600});
    let refused = t
        .ada
        .post(&format!("/v1/vector_stores/{trusted}/urls"), form.clone())
        .await;
    assert_eq!(refused.refused(422), "invalid_value");
    t.ada.post(&path, form).await.is(201);
    let trusts = json!({"editors": "admins", "trusted_reads": true});
    let refused = t
        .ada
        .patch(&format!("/v1/vector_stores/{rules}"), trusts)
        .await;
    assert_eq!(refused.refused(422), "invalid_value");
}

at_points! { an_upload_to_a_path_survives_a_crash, survives: collection_file_stored_1 }

async fn survives(point: &str) {
    let (place, model) = (TestDatabase::migrated().await, ModelServer::start().await);
    let server = TestProcess::start(&place, &model, &[("FAILPOINT", point)]).await;
    let mut ada = sign_up(&server.base, "Ada", None).await;
    let workspace = ada
        .post("/v1/workspaces", json!({"name": "Acme"}))
        .await
        .is(201);
    ada.enter(&id(&workspace)).await;
    let rules = store(&ada, json!({})).await;
    let path = format!("/v1/vector_stores/{rules}/paths/a.md");
    let body = Some(b"A zebra".to_vec());
    // The server may end before it responds.
    let _ = ada.try_send(Method::PUT, &path, &[], body).await;
    server.exited().await;
    let server = TestProcess::start(&place, &model, &[]).await;
    let ada = ada.at(&server.base);
    let compared = sync(&ada, &rules, vec![entry("a.md", b"A zebra")], false).await;
    assert_eq!(list(&compared.is(200), "/missing"), [json!("a.md")]);
    let file = put(&ada, &rules, "a.md", b"A zebra").await.is(201);
    settled(&ada, &rules, "a.md", &id(&file)).await;
    let same = put(&ada, &rules, "a.md", b"A zebra").await;
    assert_eq!(same.is(200)["id"], file["id"]);
}

/// Runs `openvibe files sync`.
async fn command(key: &Person, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_openvibe"));
    command
        .env_clear()
        .current_dir(std::env::temp_dir())
        .env("OPENVIBE_URL", &key.base)
        .env("OPENVIBE_API_KEY", key.key.as_deref().unwrap())
        .args(["files", "sync"])
        .args(arguments);
    let running = move || command.output().unwrap();
    openvibe::blocking::blocking((), running).await.unwrap()
}

#[tokio::test]
async fn a_directory_is_sent_and_removes_files_only_on_request() {
    let t = team().await;
    let rules = store(&t.ada, json!({"handle": "rules"})).await;
    put(&t.ada, &rules, "old.md", b"A yak").await.is(201);
    let (key, _) = t.ada.make_key(&["chat:read", "chat:write"]).await;
    let top = std::env::temp_dir().join(format!("openvibe-sync-{}", uuid::Uuid::now_v7()));
    std::fs::create_dir_all(top.join("sub")).unwrap();
    for (path, words) in [
        ("a b.md", "A zebra"),
        ("sub/ü.md", "An okapi"),
        (".dot", "x"),
    ] {
        std::fs::write(top.join(path), words).unwrap();
    }
    let directory = top.to_str().unwrap();
    let ended = command(&key, &[directory, "--to", "vs_rules"]).await;
    let printed = String::from_utf8_lossy(&ended.stdout).into_owned();
    assert!(ended.status.success(), "{ended:?}");
    assert!(
        printed.ends_with("2 sent, 0 unchanged, 0 removed\n"),
        "{printed}"
    );
    let ended = command(&key, &[directory, "--to", &rules, "--delete"]).await;
    let printed = String::from_utf8_lossy(&ended.stdout).into_owned();
    assert!(ended.status.success(), "{ended:?}");
    assert_eq!(printed, "removed old.md\n0 sent, 2 unchanged, 1 removed\n");
    let all = files(&t.ada, &rules).await;
    let mut paths: Vec<String> = all.iter().map(|file| text(file, "/path")).collect();
    paths.sort();
    assert_eq!(paths, ["a b.md", "sub/\u{fc}.md"]);
    for (arguments, words) in [
        ([directory, "--to", "vs_nowhere"], "answers 404"),
        (["/nowhere", "--to", "vs_rules"], "cannot read /nowhere"),
    ] {
        let ended = command(&key, &arguments).await;
        let problem = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(ended.status.code(), Some(1), "{problem}");
        assert!(problem.contains(words), "{problem}");
    }
    std::fs::remove_dir_all(&top).unwrap();
    std::fs::create_dir(&top).unwrap();
    let ended = command(&key, &[directory, "--to", "vs_rules", "--delete"]).await;
    assert_eq!(ended.status.code(), Some(1));
    assert_eq!(files(&t.ada, &rules).await.len(), 2);
    std::fs::remove_dir_all(top).unwrap();
}

#[tokio::test]
async fn files_of_an_erased_person_stay_in_vector_stores_unless_an_admin_removes_them() {
    for removes in [false, true] {
        let t = team().await;
        let rules = store(&t.ada, json!({})).await;
        let file = put(&t.bo, &rules, "bo.md", b"A zebra").await.is(201);
        settled(&t.ada, &rules, "bo.md", &id(&file)).await;
        put(&t.ada, &rules, "ada.md", b"A yak").await.is(201);
        let path = format!("/v1/members/{}/erase", t.bo.id);
        let form = json!({"handle": "bo", "collection_files": removes});
        t.ada.post(&path, form).await.is(202);
        let wait = async {
            while t.ada.get(&path).await.ok()["state"] != "done" {
                tokio::time::sleep(POLL).await;
            }
        };
        within("the erasure", wait).await;
        let all = files(&t.ada, &rules).await;
        let paths: Vec<String> = all.iter().map(|file| text(file, "/path")).collect();
        let expected: &[&str] = if removes {
            &["ada.md"]
        } else {
            &["bo.md", "ada.md"]
        };
        assert_eq!(paths, expected);
        let found = t.ada.get(&format!("/v1/files/{}", id(&file))).await;
        assert_eq!(found.status, if removes { 404 } else { 200 });
    }
}
