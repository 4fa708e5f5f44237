//! Context and memory of agents: deletions in a long conversation, size of the prompt records, retrieval, and the prefix that
//! consecutive requests have in common.

mod deletions;
mod prefix;
mod record;
mod retrieval;

use serde_json::{Value, json};

use crate::client::{Http, text};

const AGENT: &str = "scribe";
/// Text in the system prompt of the agent's replies, but not in requests for summaries.
const INSTRUCTIONS: &str = "You keep the minutes of the harbor.";

/// Names of all parts of this benchmark.
const PARTS: &[&str] = &["prefix", "record", "retrieval", "deletions"];

/// Measures the parts with `filter` in their name.
pub(crate) async fn run(filter: &str) -> anyhow::Result<()> {
    let parts = PARTS.iter().filter(|name| name.contains(filter));
    for &part in parts {
        match part {
            "prefix" => prefix::run().await?,
            "record" => record::run().await?,
            "retrieval" => retrieval::run().await?,
            _ => deletions::run().await?,
        }
    }
    Ok(())
}

/// Creates the agent; returns its ID.
async fn make_agent(http: &mut Http) -> anyhow::Result<String> {
    let form = json!({"name": AGENT, "instructions": INSTRUCTIONS});
    let agent: Value = http.post("/v1/agents", &form).await?;
    text(&agent, "/id")
}
