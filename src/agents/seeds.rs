//! Initial agents of a new workspace: `seeds/agents.yaml`, or the operator's file (`OPENVIBE_SEEDS_FILE`), which is
//! stored in `meta` at startup. Existing workspaces are not affected.

use std::{collections::HashSet, path::Path, sync::LazyLock};

use serde::Deserialize;

use super::{
    AgentError,
    profiles::{FirstVersion, NewAgent, Parts, Profile, Subject, insert_agent},
};
use crate::{
    agents::profiles::{AgentRole, AgentStatus},
    auth::{AuthError, DisplayName, Role, look_alikes::Skeletons},
    db::{Conn, DbError},
    ids::{AgentId, WorkspaceId},
};

const SEEDS_KEY: &str = "seeds";
const SEEDS_MAX: usize = 100;
const FILE_BYTES_MAX: usize = 4 << 20;

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

/// Built-in agents, each with `true` if it is active. The first one is the default agent.
static SEEDS: LazyLock<Vec<(bool, Parts)>> = LazyLock::new(|| {
    parse(include_str!("../../seeds/agents.yaml")).unwrap_or_else(|e| {
        tracing::error!(
            error = e,
            "seeds/agents.yaml cannot be used; workspaces start without agents"
        );
        Vec::new()
    })
});

/// Parses a seed file; the error describes the problem and its line.
fn parse(text: &str) -> Result<Vec<(bool, Parts)>, String> {
    let file: File = serde_yaml_ng::from_str(text).map_err(|e| e.to_string())?;
    let (mut names, mut shown_names) = (HashSet::new(), Vec::new());
    let mut seeds = Vec::with_capacity(file.agents.len());
    for (n, seed) in file.agents.into_iter().enumerate() {
        let at_line = |problem: String| format!("line {}: {problem}", line_of_agent(text, n));
        let new: NewAgent =
            serde_json::from_value(seed.agent).map_err(|e| at_line(e.to_string()))?;
        let parts = new.into_parts().map_err(|e| at_line(e.to_string()))?;
        let is_active = match seed.status.parse() {
            Ok(AgentStatus::Active) => true,
            Ok(AgentStatus::Inactive) => false,
            _ => {
                return Err(at_line(format!(
                    "status is `{}`: use active or inactive",
                    seed.status
                )));
            }
        };
        if n == 0 && !is_active {
            return Err(at_line(
                "the first agent is the default: make it active".to_owned(),
            ));
        }
        if n > 0 && parts.role == Some(AgentRole::Primary) {
            return Err(at_line(
                "the first agent is the default, so no other can have the role primary: choose another role".to_owned(),
            ));
        }
        if !names.insert(parts.name.clone()) {
            return Err(at_line(format!("the name `{}` is used twice", parts.name)));
        }
        let shown = parts.profile.shown_name(&parts.name);
        DisplayName::parse(shown, "display_name").map_err(|e| at_line(e.to_string()))?;
        let skeletons = Skeletons::of(shown);
        if shown_names
            .iter()
            .any(|known: &Skeletons| known.is_like(&skeletons))
        {
            return Err(at_line(format!("an agent above looks like `{shown}`")));
        }
        shown_names.push(skeletons);
        let profile = &parts.profile;
        if profile.base_profile_id.is_some()
            || profile.access_control.is_some()
            || profile.editors.is_some()
        {
            return Err(at_line(
                "a seed cannot have a base, an access list, or editors".to_owned(),
            ));
        }
        seeds.push((is_active, parts));
    }
    if seeds.is_empty() || seeds.len() > SEEDS_MAX {
        return Err(format!(
            "line 1: the file must list 1 to {SEEDS_MAX} agents"
        ));
    }
    Ok(seeds)
}

/// Line of the `n`th entry of the list; both are counted from 1.
fn line_of_agent(text: &str, n: usize) -> usize {
    let is_entry = |line: &str| line.trim_start().starts_with("- ");
    let indent = |line: &str| line.len() - line.trim_start().len();
    let mut entries = text.lines().enumerate().filter(|(_, line)| is_entry(line));
    let Some((first, depth)) = entries.next().map(|(at, line)| (at, indent(line))) else {
        return 1;
    };
    let mut same = entries.filter(|(_, line)| indent(line) == depth);
    match n.checked_sub(1) {
        None => first + 1,
        Some(more) => same.nth(more).map_or(first, |(at, _)| at) + 1,
    }
}

/// Reads the operator's seed file.
///
/// # Errors
/// A message that describes the problem and its line.
pub fn read_file(path: &Path) -> Result<String, String> {
    let text = std::fs::read_to_string(path).map_err(|e| e.to_string())?;
    if text.len() > FILE_BYTES_MAX {
        return Err(format!(
            "the file is larger than the limit of {FILE_BYTES_MAX} bytes"
        ));
    }
    parse(&text)?;
    Ok(text)
}

/// Sets the initial agents of new workspaces; `None` restores the built-in list.
pub async fn set_seeds(c: &mut Conn, text: Option<&str>) -> Result<(), DbError> {
    let Some(text) = text else {
        c.q("delete from meta where key = $1")
            .bind(SEEDS_KEY)
            .run()
            .await?;
        return Ok(());
    };
    c.q("insert into meta (key, value) values ($1, $2) on conflict (key) do update set value = excluded.value")
        .bind(SEEDS_KEY)
        .bind(text.to_owned())
        .run()
        .await?;
    Ok(())
}

async fn seeds(c: &mut Conn) -> Result<Vec<(bool, Parts)>, DbError> {
    let row: Option<(String,)> = c
        .q("select value from meta where key = $1")
        .bind(SEEDS_KEY)
        .opt()
        .await?;
    let own = row.and_then(|(text,)| {
        parse(&text)
            .inspect_err(|e| {
                tracing::error!(
                    error = e,
                    "OPENVIBE_SEEDS_FILE cannot be used; new workspaces get the built-in agents"
                );
            })
            .ok()
    });
    Ok(own.unwrap_or_else(|| SEEDS.clone()))
}

/// Checks that no agent of new workspaces looks like this person.
///
/// # Errors
/// `Invalid` for the field `name`.
pub async fn check_person(c: &mut Conn, name: &str) -> Result<(), AuthError> {
    let own = Skeletons::of(&DisplayName::parse(name, "name")?.0);
    let seeds = seeds(c).await?;
    let mut shown = seeds
        .iter()
        .map(|(_, parts)| parts.profile.shown_name(&parts.name));
    if shown.any(|agent| Skeletons::of(agent).is_like(&own)) {
        let problem = "the name looks like that of an agent of this server: choose another name";
        return Err(AuthError::Invalid(problem.to_owned(), "name"));
    }
    Ok(())
}

/// Adds the seed agents to a new workspace and returns the default one.
pub async fn seed(c: &mut Conn, workspace: WorkspaceId) -> Result<Option<AgentId>, AgentError> {
    let mut default = None;
    for (active, parts) in &seeds(c).await? {
        let first = FirstVersion {
            name: parts.name.clone(),
            status: if *active {
                AgentStatus::Active
            } else {
                AgentStatus::Inactive
            },
            mentionable: true,
            profile: Profile {
                editors: Some(vec![Subject::Role(Role::Admin)]),
                ..parts.profile.clone()
            },
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
    use crate::agents::profiles::{Tool, ToolKind};

    #[test]
    fn an_invalid_file_is_rejected_with_the_line_number() {
        let file = "agents:\n  - name: sage\n    status: active\n    instructions: Help.\n    tools:\n      - type: delegate\n  - name: moss\n    status: asleep\n    instructions: Help.\n";
        assert_eq!(
            parse(file).err().as_deref(),
            Some("line 7: status is `asleep`: use active or inactive")
        );
        let two = "agents:\n  - name: sage\n    status: active\n    role: primary\n    instructions: Help.\n  - name: moss\n    status: active\n    role: primary\n    instructions: Help.\n";
        let second = parse(two).unwrap_err();
        assert!(
            second.starts_with("line 6: the first agent is the default"),
            "{second}"
        );
        let broken = parse("agents:\n  - name: [").unwrap_err();
        assert!(broken.contains("line 3"), "{broken}");
        assert!(parse("agents: []").is_err());
    }

    #[test]
    fn the_seed_file_contains_vibe_first_then_coder_and_two_inactive_agents() {
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

    #[test]
    fn all_seeded_agents_search_and_only_vibe_asks_others() {
        let seeds = parse(include_str!("../../seeds/agents.yaml")).unwrap();
        for (_, seed) in &seeds {
            let kinds: Vec<ToolKind> = seed.profile.tools.iter().map(Tool::kind).collect();
            assert!(kinds.contains(&ToolKind::FileSearch), "{}", seed.name);
            let delegates = kinds.contains(&ToolKind::Delegate);
            assert_eq!(delegates, seed.name == "vibe", "{}", seed.name);
            let text = seed.profile.instructions.split_whitespace();
            let text = text.collect::<Vec<_>>().join(" ");
            let reach =
                "Of other conversations you see only what you are given and what your tools find.";
            assert!(text.contains(reach), "{}", seed.name);
        }
    }
}
