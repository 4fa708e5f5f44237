//! An S3 server (tests/s3) that all tests of the process share.

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use futures::TryStreamExt;
use openvibe::storage::{Bucket, BucketUrl};
use serde_json::Value;
use tokio::sync::{OnceCell, oneshot};

use super::{
    relay::{Relay, Target},
    text, within,
};

/// A separate prefix in the S3 server's bucket.
pub struct S3 {
    pub url: String,
    server: Value,
    endpoint: String,
}

async fn server() -> &'static Value {
    static STARTED: OnceCell<Value> = OnceCell::const_new();
    let start = STARTED.get_or_init(async || {
        let (send, receive) = oneshot::channel();
        // The S3 server is killed when the thread that started it ends, which is when the process ends.
        std::thread::spawn(move || {
            let root = Path::new(env!("CARGO_MANIFEST_DIR"));
            let python = root.join("target/s3/python/bin/python");
            assert!(python.exists(), "run scripts/ensure-test-tools.sh");
            let mut child = Command::new("setpriv")
                .args(["--pdeathsig", "KILL"])
                .arg(python)
                .arg(root.join("tests/s3/server.py"))
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            // The S3 server exits when its standard input is closed. `wait` would close it, so this keeps it open.
            let stdin = child.stdin.take();
            let mut line = String::new();
            let stdout = child.stdout.take().unwrap();
            BufReader::new(stdout).read_line(&mut line).unwrap();
            send.send(line).unwrap();
            drop((child.wait(), stdin));
        });
        let line = within("the S3 server", receive).await.unwrap();
        serde_json::from_str(&line).unwrap()
    });
    start.await
}

impl S3 {
    /// Returns a new, empty prefix in the test server's bucket.
    pub async fn new() -> Self {
        static MADE: AtomicU64 = AtomicU64::new(0);
        let server = server().await.clone();
        let n = MADE.fetch_add(1, Ordering::Relaxed);
        Self {
            url: format!("s3://{}/tests/{n}", text(&server, "/bucket")),
            endpoint: text(&server, "/url"),
            server,
        }
    }

    /// Puts a relay in front of the S3 server for this prefix; returns the relay.
    pub async fn behind_relay(&mut self) -> Relay {
        let server = self.endpoint.trim_start_matches("http://").to_owned();
        let relay = Relay::to(Target::Tcp(server)).await;
        self.endpoint = format!("http://{}", relay.address);
        relay
    }

    /// Environment variables that a server needs to use the bucket, in addition to `BLOBS_URL`.
    pub fn credentials(&self) -> [(&str, &str); 5] {
        [
            ("AWS_ENDPOINT_URL", self.endpoint.as_str()),
            ("AWS_ALLOW_HTTP", "true"),
            ("AWS_REGION", self.server["region"].as_str().unwrap()),
            ("AWS_ACCESS_KEY_ID", self.server["key"].as_str().unwrap()),
            (
                "AWS_SECRET_ACCESS_KEY",
                self.server["secret"].as_str().unwrap(),
            ),
        ]
    }

    /// Settings of a server that stores its uploads under this prefix.
    pub fn settings(&self) -> Vec<(&str, &str)> {
        let mut settings = vec![("BLOBS_URL", self.url.as_str())];
        settings.extend(self.credentials());
        settings
    }

    /// Access to the bucket for the test, which does not go through the relay.
    pub fn bucket(&self) -> Bucket {
        let direct = text(&self.server, "/url");
        let mut variables: Vec<_> = self.credentials().to_vec();
        variables[0].1 = &direct;
        let variables = variables
            .into_iter()
            .map(|(n, v)| (n.to_owned(), v.to_owned()));
        Bucket::new(BucketUrl::parse(&self.url).unwrap(), &variables.collect()).unwrap()
    }

    /// Keys of all objects below the prefix.
    pub async fn keys(&self) -> Vec<String> {
        let objects = self.bucket().list().map_ok(|object| object.key);
        within("the list of objects", objects.try_collect())
            .await
            .unwrap()
    }

    /// Waits until there are this many objects.
    pub async fn until_stored(&self, count: usize) {
        let wait = async {
            while self.keys().await.len() != count {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        within("objects to be stored or deleted", wait).await;
    }
}
