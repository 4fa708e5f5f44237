//! The agents that a new workspace begins with: `seeds/agents.yaml`. Afterwards the rows are the truth.

use std::sync::LazyLock;

use serde::Deserialize;

use super::{
    AgentError,
    profiles::{FirstVersion, NewAgent, Parts, insert_agent},
};
use crate::{
    db::Conn,
    ids::{AgentId, WorkspaceId},
};

#[derive(Deserialize)]
struct File {
    agents: Vec<Seed>,
}

#[derive(Deserialize)]
struct Seed {
    status: String,
    #[serde(flatten)]
    agent: serde_json::Value,
}

/// Whether each is active, and what it is; the first is the default.
static SEEDS: LazyLock<Vec<(bool, Parts)>> = LazyLock::new(|| {
    parse(include_str!("../../seeds/agents.yaml")).unwrap_or_else(|e| {
        tracing::error!(
            error = e,
            "seeds/agents.yaml cannot be used; workspaces begin without agents"
        );
        Vec::new()
    })
});

fn parse(text: &str) -> Result<Vec<(bool, Parts)>, String> {
    let file: File = serde_yaml_ng::from_str(text).map_err(|e| e.to_string())?;
    file.agents
        .into_iter()
        .map(|seed| {
            let new: NewAgent = serde_json::from_value(seed.agent).map_err(|e| e.to_string())?;
            let parts = new.into_parts().map_err(|e| e.to_string())?;
            Ok((seed.status == "active", parts))
        })
        .collect()
}

/// Adds the seed agents to a new workspace; the default among them.
pub async fn plant(c: &mut Conn, workspace: WorkspaceId) -> Result<Option<AgentId>, AgentError> {
    let mut default = None;
    for (active, parts) in SEEDS.iter() {
        let first = FirstVersion {
            name: parts.name.clone(),
            status: if *active { "active" } else { "inactive" },
            mentionable: true,
            profile: parts.profile.clone(),
            created_by: None,
            summary: "created".to_owned(),
        };
        let id = insert_agent(c, workspace, &first).await?;
        default = default.or(Some(id));
    }
    c.q("update workspaces set default_agent_id = $2 where id = $1")
        .bind(workspace)
        .bind(default)
        .run()
        .await?;
    Ok(default)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_file_holds_vibe_first_then_coder_and_two_that_sleep() {
        let seeds = parse(include_str!("../../seeds/agents.yaml")).unwrap();
        let summary: Vec<_> = seeds
            .iter()
            .map(|(active, seed)| {
                let tokens = seed.profile.output_tokens_max();
                (seed.name.as_str(), *active, tokens)
            })
            .collect();
        assert_eq!(summary[0], ("vibe", true, 4096));
        assert_eq!(summary[1], ("coder", true, 8192));
        assert_eq!(
            summary[2..].iter().map(|s| (s.0, s.1)).collect::<Vec<_>>(),
            [("researcher", false), ("writer", false)]
        );
        assert!(
            seeds
                .iter()
                .all(|(_, seed)| seed.profile.model.as_deref() == Some("claude-sonnet-4-5"))
        );
    }
}
