//! Several servers on one database.

use std::time::Duration;

use super::{ModelServer, TestApp};

/// Checks whether the suite runs on an engine that several nodes can share.
pub fn is_shared_engine() -> bool {
    std::env::var("OPENVIBE_TEST_DATABASE").as_deref() == Ok("postgres")
}

impl TestApp {
    /// Starts another node on the same database, with the same model server and its own data directory.
    pub async fn beside(&self, name: &str, others: &[(&str, &str)]) -> Self {
        let mut settings = self.settings.clone();
        let data = self.place.dir.join(format!("data-{name}"));
        std::fs::create_dir_all(&data).unwrap();
        settings.insert("DATA_DIR".to_owned(), data.to_str().unwrap().to_owned());
        settings.insert("NODE_NAME".to_owned(), name.to_owned());
        for (key, value) in others {
            settings.insert((*key).to_owned(), (*value).to_owned());
        }
        let mut node = Self::unstarted(
            std::sync::Arc::clone(&self.place),
            ModelServer::start().await,
            settings,
        );
        node.poll = self.poll;
        node.run().await;
        node
    }

    /// Waits until this node knows another one.
    pub async fn knows_peers(&self) {
        super::within("the nodes to find each other", async {
            while !self.has_peers() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        })
        .await;
    }

    /// Waits until this node knows that another one can take over its clients.
    pub async fn knows_ready_peer(&self) {
        super::within("another node to be ready", async {
            while !self.has_ready_peer() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        })
        .await;
    }
}
