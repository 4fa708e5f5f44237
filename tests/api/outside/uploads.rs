//! Uploads: either stored unchanged, or rejected without leaving anything behind.

use std::{
    collections::BTreeSet,
    path::Path,
    sync::atomic::{AtomicUsize, Ordering},
};

use proptest::prelude::*;
use reqwest::Method;
use sha2::{Digest, Sha256};

use super::runtime;
use crate::{
    corpus,
    support::{MULTIPART, Person, Reply, TestApp, TestDatabase, text, within},
};

const WORDS: &[&str] = &[
    "--boundary-4711",
    "--boundary-4711\r\n",
    "--boundary-4711--\r\n",
    "\r\n",
    "\r\n\r\n",
    "content-disposition: form-data; name=\"file\"",
    "name=\"client_id\"",
    "filename=\"../x\"",
    "filename*=UTF-8''%2e%00",
    "\0",
    ":",
    "\"",
];

async fn send(person: &Person, body: &[u8]) -> Reply {
    let headers = [("content-type", MULTIPART)];
    person
        .send(Method::POST, "/v1/files", &headers, Some(body.to_vec()))
        .await
}

/// Sends a form, and checks the stored file against it. Returns a summary of the result.
async fn holds(person: &Person, body: &[u8]) -> String {
    let reply = send(person, body).await;
    if !matches!(reply.status, 200 | 201) {
        let status = reply.status;
        assert!(matches!(status, 400 | 413 | 422), "{}", reply.text);
        return format!("{status} {}", reply.refused(status));
    }
    let status = reply.status;
    let file = reply.json();
    let served = person.get(&text(&file, "/url")).await;
    // For a resend, the response describes the first upload.
    if status == 201 {
        let sent = String::from_utf8_lossy(body);
        assert!(sent.contains(&served.text), "{file}: {:?}", served.text);
    }
    if !served.text.contains('\u{fffd}') {
        assert_eq!(file["size_bytes"], served.text.len(), "{file}");
    }
    format!("{status} {} {}", file["name"], file["content_type"])
}

fn files_below(dir: &Path, into: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files_below(&path, into);
        } else {
            into.push(path);
        }
    }
}

/// Checks that exactly the blobs that rows refer to are stored, and are complete. Only resent uploads (with a `client_id` that was
/// used before) may remain until the next cleanup.
async fn nothing_is_left_over(place: &TestDatabase, resends: usize) {
    let named = place.texts("select hash from blobs").await;
    let named: BTreeSet<String> = named.into_iter().collect();
    if place.postgres.is_some() {
        let whole = "select count(distinct ch.upload_id)::text from blob_chunks ch";
        let wait = async {
            // Chunks may be deleted after the response.
            while place.texts(whole).await != [named.len().to_string()] {
                crate::support::pause().await;
            }
        };
        return within("the rest of uploads to go", wait).await;
    }
    let mut found = Vec::new();
    files_below(&place.dir.join("data/blobs"), &mut found);
    let names: BTreeSet<String> = found
        .iter()
        .map(|path| {
            let hash = hex::encode(Sha256::digest(std::fs::read(path).unwrap()));
            let name = path.file_name().unwrap().to_str().unwrap();
            assert_eq!(name.split_once('.').unwrap().0, hash);
            hash
        })
        .collect();
    assert!(names.is_superset(&named), "{names:?} {named:?}");
    assert!(names.len() <= named.len() + resends, "{names:?} {named:?}");
}

#[tokio::test]
async fn every_corpus_form_is_stored_unchanged_or_rejected() {
    let app = TestApp::with(&[("RATE_LIMITS", "off")]).await;
    let ada = app.founder("Ada").await;
    for case in corpus::cases("uploads", "body") {
        let found = holds(&ada, &case.bytes).await;
        case.expect(&found);
    }
    nothing_is_left_over(&app.place, 0).await;
    // Sends a form with content types that are not valid for a form.
    for kind in [
        "application/json",
        "multipart/form-data",
        "multipart/form-data; boundary=",
        "multipart/mixed; boundary=x",
        "text/plain",
    ] {
        let body = Some(b"--boundary-4711--\r\n".to_vec());
        let reply = ada
            .send(Method::POST, "/v1/files", &[("content-type", kind)], body)
            .await;
        assert_eq!(reply.status, 400, "{kind}: {}", reply.text);
    }
}

#[test]
fn any_form_is_stored_unchanged_or_rejected() {
    let runtime = runtime();
    let (app, ada) = runtime.block_on(async {
        let app = TestApp::with(&[("RATE_LIMITS", "off")]).await;
        let ada = app.founder("Ada").await;
        (app, ada)
    });
    let forms = corpus::mutated("uploads", "body", WORDS);
    let resends = AtomicUsize::new(0);
    proptest!(corpus::config(96), |(body in forms)| {
        let found = runtime.block_on(holds(&ada, &body));
        resends.fetch_add(usize::from(found.starts_with("200")), Ordering::Relaxed);
    });
    let resends = resends.into_inner();
    runtime.block_on(nothing_is_left_over(&app.place, resends));
}
