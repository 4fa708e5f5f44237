//! Cursors are accepted only in exactly the form in which they were returned, and never give access to other users' data.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{in_query, runtime};
use crate::{
    corpus,
    support::{Person, TestApp, id, list, text},
};

/// Creates a workspace with more than one page of each kind of object. Returns its founder, and the paths of its lists that are paged
/// by `cursor`.
async fn filled(app: &TestApp, name: &str) -> (Person, Vec<String>) {
    let ada = app.founder(name).await;
    let general = id(&ada.channel("general").await);
    for n in 0..7 {
        let started = ada.start(&general, &format!("apple {n} of {name}")).await;
        let (thread, root) = (text(&started, "/thread/id"), text(&started, "/message/id"));
        if n % 2 == 0 {
            let fork = ada
                .start_fork(&thread, &root, json!({"agent_id": null}))
                .await;
            ada.say_in(&id(&fork), "Done.").await;
            let content = json!({"headline": format!("pear {n} of {name}")});
            ada.publish_as(&id(&fork), content).await;
        }
    }
    let agent = id(&ada.make_agent("scout").await);
    for n in 0..4 {
        let change = json!({"description": format!("Version {n}")});
        ada.patch(&format!("/v1/agents/{agent}"), change)
            .await
            .is(200);
    }
    let lists = vec![
        format!("/v1/channels/{general}/threads?"),
        "/v1/search?q=apple&".to_owned(),
        "/v1/search?q=apple&order=relevance&".to_owned(),
        "/v1/decisions?".to_owned(),
        format!("/v1/agents/{agent}/versions?"),
    ];
    (ada, lists)
}

/// Reads a list page by page; returns its rows and cursors.
async fn walk(person: &Person, path: &str, limit: usize) -> (Vec<Value>, Vec<String>) {
    let (mut rows, mut cursors) = (Vec::new(), Vec::new());
    let mut further = String::new();
    loop {
        let page = person
            .get(&format!("{path}limit={limit}{further}"))
            .await
            .ok();
        let data = list(&page, "/data");
        assert!(data.len() <= limit && cursors.len() < 100, "{path}");
        rows.extend(data);
        let Some(cursor) = page["next_cursor"].as_str() else {
            assert_eq!(page["has_more"], false, "{path}");
            return (rows, cursors);
        };
        further = format!("&cursor={}", in_query(cursor.as_bytes()));
        cursors.push(cursor.to_owned());
    }
}

#[tokio::test]
async fn every_list_continues_exactly_after_its_page() {
    let app = TestApp::with(&[("SIGNUP", "open"), ("RATE_LIMITS", "off")]).await;
    let (ada, lists) = filled(&app, "Ada").await;
    let (zoe, zoes) = filled(&app, "Zoe").await;
    for (path, zoes) in lists.iter().zip(&zoes) {
        let (whole, _) = walk(&ada, path, 100).await;
        assert!(whole.len() >= 4, "{path}: {whole:?}");
        let (own, _) = walk(&zoe, zoes, 100).await;
        for limit in 1..4 {
            let (rows, cursors) = walk(&ada, path, limit).await;
            assert_eq!(rows, whole, "{path} by {limit}");
            // With another user's cursor, a list contains only the caller's own rows, if any.
            for cursor in cursors {
                let page = zoe
                    .get(&format!("{zoes}cursor={}", in_query(cursor.as_bytes())))
                    .await;
                let rows = list(&page.ok(), "/data");
                assert!(rows.iter().all(|row| own.contains(row)), "{zoes}");
                let foreign = format!("{path}cursor={}", in_query(cursor.as_bytes()));
                let reply = zoe.get(&foreign).await;
                let is_own = |rows: Vec<Value>| rows.iter().all(|row| own.contains(row));
                assert!(
                    reply.status == 404 || is_own(list(&reply.ok(), "/data")),
                    "{path}"
                );
            }
        }
    }
    // A cursor is valid only for its kind of list.
    for (n, path) in lists.iter().enumerate() {
        let (_, cursors) = walk(&ada, path, 2).await;
        for (other, path) in lists.iter().enumerate().filter(|(other, _)| *other != n) {
            let reply = ada.get(&format!("{path}cursor={}", cursors[0])).await;
            assert_eq!(reply.refused(400), "invalid_cursor", "{other}");
        }
    }
}

#[test]
fn a_modified_cursor_is_rejected_or_returns_a_page_of_the_same_list() {
    let runtime = runtime();
    let (app, ada, lists) = runtime.block_on(async {
        let app = TestApp::with(&[("RATE_LIMITS", "off")]).await;
        let (ada, paths) = filled(&app, "Ada").await;
        let mut lists = Vec::new();
        for path in paths {
            let (whole, _) = walk(&ada, &path, 100).await;
            lists.push((path, whole));
        }
        (app, ada, lists)
    });
    let try_all = async |cursor: &[u8]| {
        for (path, whole) in &lists {
            let reply = ada
                .get(&format!("{path}limit=3&cursor={}", in_query(cursor)))
                .await;
            if reply.status == 200 {
                let rows = list(&reply.ok(), "/data");
                let at = whole.iter().position(|row| Some(row) == rows.first());
                let from = at.unwrap_or(whole.len());
                assert_eq!(
                    rows,
                    whole[from..whole.len().min(from + rows.len())],
                    "{path}"
                );
            } else {
                let code = reply.refused(400);
                let is_text = std::str::from_utf8(cursor).is_ok();
                assert!(
                    code == "invalid_cursor" || !is_text || cursor.contains(&0),
                    "{path}: {code}"
                );
            }
        }
    };
    runtime.block_on(async {
        for case in corpus::cases("cursors", "cursor") {
            try_all(&case.bytes).await;
        }
    });
    proptest!(corpus::config(48), |(cursor in corpus::mutated("cursors", "cursor", &["A", "=", "-", "Og", "NDI"]))| {
        runtime.block_on(try_all(&cursor));
    });
    drop(app);
}
