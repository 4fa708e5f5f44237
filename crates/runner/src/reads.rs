//! Folders of repositories that the server imports: read from the mirror, and sent over HTTP.

use std::{sync::Arc, time::Duration};

use reqwest::header;
use tokio::time::{Instant, sleep};

use crate::{
    failure::Failure,
    frames::{cut, is_id},
    shared::Shared,
};

/// Time in which an answer is sent again. Nobody waits for longer.
const SEND_WITHIN: Duration = Duration::from_mins(1);
const PATH_BYTES_MAX: usize = 256;
const CAUSE_BYTES_MAX: usize = 300;

/// Reads a folder of a repository's base commit, and sends it.
pub(crate) fn start(shared: &Arc<Shared>, id: String, repository: String, path: String) {
    // The ID is a part of the path of the answer.
    if !is_id(&id.replace('-', "")) {
        return;
    }
    // The server gives up on a request without an answer.
    let Ok(answering) = shared.answers.clone().try_acquire_owned() else { return };
    let reading = shared.clone();
    shared.owner.spawn(async move {
        let _answering = answering;
        let work = async {
            let folder = folder(&reading, &repository, &path).await;
            send(&reading, &id, folder).await;
        };
        reading.stop.run_until_cancelled(work).await;
    });
}

async fn folder(shared: &Shared, repository: &str, path: &str) -> Result<Vec<u8>, Failure> {
    let Ok(_permit) = shared.reads.try_acquire() else {
        return Err(Failure::sandbox("the runner reads other folders: try again in a moment"));
    };
    let Some(mirror) = shared.mirrors.get(repository) else {
        let cause = format!("{} is not in the runner's configuration", cut(repository, 100));
        return Err(Failure::sandbox(cause));
    };
    if path.len() > PATH_BYTES_MAX || path.contains('\0') {
        return Err(Failure::sandbox("the path is not valid"));
    }
    let commit = mirror.fetch().await?;
    mirror.archive(&commit, path).await
}

async fn send(shared: &Shared, id: &str, folder: Result<Vec<u8>, Failure>) {
    let (kind, body) = match folder {
        Ok(archive) => ("application/zip", archive),
        Err(failure) => {
            ("text/plain", cut(&failure.message, CAUSE_BYTES_MAX).to_owned().into_bytes())
        }
    };
    let body = bytes::Bytes::from(body);
    let route = shared.config.route(&format!("/v1/runner/reads/{id}"));
    let until = Instant::now() + SEND_WITHIN;
    while Instant::now() < until {
        let request = shared.client.put(&route).bearer_auth(&shared.config.key);
        let request = request.header(header::CONTENT_TYPE, kind).timeout(SEND_WITHIN);
        match request.body(body.clone()).send().await {
            Ok(answer) if !answer.status().is_server_error() && answer.status() != 429 => return,
            _ => sleep(Duration::from_secs(1)).await,
        }
    }
}
