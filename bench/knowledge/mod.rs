//! Files that are read and searched: nearest passages by meaning, search in files, deletions of files, and posts while a file is read.

mod files;
mod nearest;
mod reading;

use std::time::{Duration, Instant};

use serde_json::json;

use crate::{
    client::{Http, text},
    report::ms,
};

/// Interval between checks whether files were read, and the time limit for them.
const POLL: Duration = Duration::from_millis(200);
const READ_WITHIN: Duration = Duration::from_mins(10);

/// Names of all parts of this benchmark.
const PARTS: &[&str] = &["nearest", "files", "reading"];

/// Measures the parts with `filter` in their name.
pub(crate) async fn run(filter: &str) -> anyhow::Result<()> {
    let parts = PARTS.iter().filter(|name| name.contains(filter));
    for &part in parts {
        match part {
            "nearest" => nearest::run(),
            "files" => files::run().await?,
            _ => reading::run().await?,
        }
    }
    Ok(())
}

/// Path of a new collection.
async fn make_store(http: &mut Http) -> anyhow::Result<String> {
    let store = http
        .post("/v1/vector_stores", &json!({"name": "Library"}))
        .await?;
    Ok(format!("/v1/vector_stores/{}", text(&store, "/id")?))
}

/// Puts a file into a collection; returns its ID.
async fn put(http: &mut Http, store: &str, name: &str, bytes: &str) -> anyhow::Result<String> {
    let path = format!("{store}/paths/{name}");
    let stored = http.send("PUT", &path, bytes).await?.json()?;
    text(&stored, "/id")
}

/// Checks whether `count` files of a collection were read and can be found.
async fn is_read(http: &mut Http, store: &str, count: usize) -> anyhow::Result<bool> {
    let found = http.get(store).await?;
    let counts = &found["file_counts"];
    anyhow::ensure!(counts["failed"] == 0, "a file could not be read");
    Ok(counts["completed"] == count)
}

/// Waits until `count` files of a collection were read and can be found.
async fn read(http: &mut Http, store: &str, count: usize) -> anyhow::Result<()> {
    let started = Instant::now();
    while started.elapsed() < READ_WITHIN {
        if is_read(http, store, count).await? {
            return Ok(());
        }
        tokio::time::sleep(POLL).await;
    }
    anyhow::bail!("the files took too long")
}

/// Time of a request without a body in ms.
async fn timed(http: &mut Http, method: &str, path: &str) -> anyhow::Result<f64> {
    let started = Instant::now();
    let reply = http.send(method, path, "").await?;
    let took = ms(started.elapsed());
    reply.json()?;
    Ok(took)
}
