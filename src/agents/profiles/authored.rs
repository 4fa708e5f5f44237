//! Texts of an agent version that shape its replies, with those of its bases: their authors and their changes.

use sha2::{Digest, Sha256};

use super::{
    Base, Profile,
    authors::AgentPart,
    find::find_resolved,
    part_versions::{PartVersions, TextAuthor, differing, find_written, part_changes},
};
use crate::{
    agents::personas::find_approver,
    db::{Conn, DbError, Json},
    ids::{AgentId, UserId},
    time::Timestamp,
};

/// A text that shapes an agent's replies, and its author.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthoredPart {
    /// The agent that has the text: the agent itself, or one of its bases.
    pub agent_id: AgentId,
    /// Display name of that agent.
    pub agent_name: String,
    /// Name of the part in a sentence, such as `instructions` or `persona`.
    pub noun: &'static str,
    pub author: TextAuthor,
    /// SHA-256 of the text.
    pub text_hash: [u8; 32],
}

/// Noun of a persona's approved text.
pub const PERSONA: &str = "persona";

/// An agent's version and those of its bases that were merged in, most distant base first; empty if the version no longer exists.
pub async fn levels(c: &mut Conn, agent: AgentId, version: i64) -> Result<Vec<Base>, DbError> {
    let row: Option<(String, Option<Json<Vec<Base>>>)> = c
        .q("select a.name, v.bases from agent_versions v join agents a on a.id = v.agent_id where v.agent_id = $1 and v.version = $2")
        .bind(agent)
        .bind(version)
        .opt()
        .await?;
    let Some((name, bases)) = row else {
        return Ok(Vec::new());
    };
    let mut levels = bases.map(|bases| bases.0).unwrap_or_default();
    levels.push(Base {
        id: agent,
        name,
        version,
    });
    Ok(levels)
}

/// Texts of a version of an agent that are sent to the model, with those of the bases that were merged in, most distant first. Empty
/// if the version no longer exists.
pub async fn authored_parts(
    c: &mut Conn,
    agent: AgentId,
    version: i64,
) -> Result<Vec<AuthoredPart>, DbError> {
    let Some(resolved) = find_resolved(c, agent, version).await? else {
        return Ok(Vec::new());
    };
    let merged = resolved.profile;
    let mut parts = Vec::new();
    for level in levels(c, agent, version).await? {
        parts.extend(parts_of(c, &level, &merged, level.id == agent).await?);
    }
    if let (Some(persona), Some(text)) = (merged.persona_id, &merged.persona_text) {
        let approver = find_approver(c, persona, text).await?;
        parts.push(AuthoredPart {
            agent_id: agent,
            agent_name: merged.shown_name(&resolved.name).to_owned(),
            noun: PERSONA,
            author: approver.map_or(TextAuthor::Unknown, TextAuthor::Person),
            text_hash: Sha256::digest(text).into(),
        });
    }
    Ok(parts)
}

/// Texts that are sent with a draft of a version's merged profile, except for the agent's own parts that the draft changes.
pub async fn kept_parts(
    c: &mut Conn,
    agent: AgentId,
    version: i64,
    draft: &Profile,
) -> Result<Vec<AuthoredPart>, DbError> {
    let mut parts = authored_parts(c, agent, version).await?;
    if let Some(stored) = find_resolved(c, agent, version).await? {
        let changed: Vec<&str> = differing(&stored.profile, draft)
            .map(AgentPart::noun)
            .collect();
        parts.retain(|part| part.agent_id != agent || !changed.contains(&part.noun));
    }
    Ok(parts)
}

/// Author of the description and the capabilities of an agent's version, which lists show.
pub async fn summary_author(
    c: &mut Conn,
    agent: AgentId,
    version: i64,
) -> Result<TextAuthor, DbError> {
    let changes = part_changes(c, agent, version).await?;
    let change = changes.get(&AgentPart::Summary);
    Ok(change.map_or(TextAuthor::Unknown, |change| change.author))
}

/// Parts of one level of a chain that reached the merged profile.
async fn parts_of(
    c: &mut Conn,
    level: &Base,
    merged: &Profile,
    is_own: bool,
) -> Result<Vec<AuthoredPart>, DbError> {
    let Some((_, Json(profile))) = find_written(c, level.id, level.version).await? else {
        let text = merged.instructions.as_bytes();
        let lost = authored(
            level,
            &level.name,
            AgentPart::Instructions,
            TextAuthor::Unknown,
            text,
        );
        return Ok(vec![lost]);
    };
    let changes = part_changes(c, level.id, level.version).await?;
    let is_sent = |part: AgentPart| match part {
        AgentPart::Instructions => true,
        AgentPart::Identity => is_own || profile.identity == merged.identity,
        AgentPart::Agency => is_own || profile.agency == merged.agency,
        AgentPart::Tools => profile.tools.iter().any(|tool| merged.tools.contains(tool)),
        AgentPart::AgentsMd | AgentPart::ToolsMd => is_own,
        AgentPart::Summary => false,
    };
    let name = profile.shown_name(&level.name);
    let sent = changes
        .into_iter()
        .filter(|(part, _)| !part.is_empty(&profile) && is_sent(*part));
    Ok(sent
        .map(|(part, change)| {
            authored(
                level,
                name,
                part,
                change.author,
                part.text(&profile).as_bytes(),
            )
        })
        .collect())
}

fn authored(
    level: &Base,
    name: &str,
    part: AgentPart,
    author: TextAuthor,
    text: &[u8],
) -> AuthoredPart {
    AuthoredPart {
        agent_id: level.id,
        agent_name: name.to_owned(),
        noun: part.noun(),
        author,
        text_hash: Sha256::digest(text).into(),
    }
}

/// Parts that a person changed in a version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartsChanged {
    pub by: UserId,
    pub parts: Vec<AgentPart>,
    pub changed_at: Timestamp,
}

/// Maximum number of versions in which `changes_since` looks for changes.
const VERSIONS_MAX: i64 = 20;

/// Changes of an agent's parts by people after one version and up to another, newest first. Accepting an agent changes none.
pub async fn changes_since(
    c: &mut Conn,
    agent: AgentId,
    after: i64,
    to: i64,
) -> Result<Vec<PartsChanged>, DbError> {
    let rows: Vec<(i64, UserId, Timestamp, Json<PartVersions>)> = c
        .q("select version, changed_by, changed_at, part_versions from agent_versions \
            where agent_id = $1 and version > $2 and version <= $3 and changed_by is not null order by version desc limit $4")
        .bind(agent)
        .bind(after)
        .bind(to)
        .bind(VERSIONS_MAX)
        .all()
        .await?;
    let mut changes = Vec::new();
    for (version, by, changed_at, Json(numbers)) in rows {
        let told = AgentPart::TOLD.iter().copied();
        let mut parts: Vec<AgentPart> = told.filter(|part| numbers.of(*part) == version).collect();
        if parts.len() == AgentPart::TOLD.len() {
            // Either all parts changed, or a person accepted them.
            let before = find_written(c, agent, version - 1).await?;
            let now = find_written(c, agent, version).await?;
            if let (Some((_, before)), Some((_, now))) = (before, now) {
                parts = differing(&before.0, &now.0)
                    .filter(|part| AgentPart::TOLD.contains(part))
                    .collect();
            }
        }
        if !parts.is_empty() {
            changes.push(PartsChanged {
                by,
                parts,
                changed_at,
            });
        }
    }
    Ok(changes)
}
