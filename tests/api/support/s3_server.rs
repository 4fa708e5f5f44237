//! An S3 server (tests/s3), shared by all tests of the process.

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

/// A prefix in the bucket of the server.
pub struct S3 {
    pub url: String,
    server: Value,
    endpoint: String,
}

async fn server() -> &'static Value {
    static STARTED: OnceCell<Value> = OnceCell::const_new();
    let start = STARTED.get_or_init(async || {
        let (send, receive) = oneshot::channel();
        // The server ends with the thread that started it, which ends with the process.
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
            // The server ends when its input is closed, and waiting for it would close the input.
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
    /// Returns a new prefix in the bucket of the test server, without objects.
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

    /// The same prefix behind a relay.
    pub async fn behind_relay(&mut self) -> Relay {
        let server = self.endpoint.trim_start_matches("http://").to_owned();
        let relay = Relay::to(Target::Tcp(server)).await;
        self.endpoint = format!("http://{}", relay.address);
        relay
    }

    /// Variables with which a server can use the bucket, besides `BLOBS_URL`.
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

    /// Settings of a server that stores its uploads here.
    pub fn settings(&self) -> Vec<(&str, &str)> {
        let mut settings = vec![("BLOBS_URL", self.url.as_str())];
        settings.extend(self.credentials());
        settings
    }

    /// Access from the test, not through the relay.
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
