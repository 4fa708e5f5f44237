//! Authors of the texts that shape a reply: the parts of an agent and its bases, its files, and its entries.

use std::collections::HashMap;

use sha2::{Digest, Sha256};

use super::prompt::{Part, Source};
use crate::{
    agents::{
        files::{AuthoredFile, MEMORY},
        profiles::{AuthoredPart, Resolved, TextAuthor, authored_parts, kept_parts},
    },
    db::{Conn, DbError, dialect::hexadecimal_ids},
    ids::{AgentId, MemoryId, UserId},
    sql_with_ids,
    tools::taint::AuthoredText,
};

/// Texts that shape a reply, with their authors.
#[derive(Debug, Clone, Default)]
pub struct AuthoredTexts {
    /// Texts that are always sent.
    pub sent: Vec<AuthoredText>,
    /// MEMORY.md, which may not fit into the prompt.
    pub notes: Option<AuthoredText>,
    /// Memory entries of the agent, which may not fit into the prompt.
    pub entries: HashMap<MemoryId, AuthoredText>,
}

impl AuthoredTexts {
    /// The texts that a prompt contains.
    pub fn in_prompt<'a>(&'a self, parts: &'a [Part]) -> impl Iterator<Item = &'a AuthoredText> {
        let of_parts = parts.iter().filter_map(|part| match part.source {
            Source::Notes => self.notes.as_ref(),
            Source::Memory { memory_id, .. } => self.entries.get(&memory_id),
            _ => None,
        });
        self.sent.iter().chain(of_parts)
    }
}

/// The parts of an agent and its bases that people wrote.
pub async fn parts(
    c: &mut Conn,
    agent: AgentId,
    version: i64,
) -> Result<Vec<AuthoredText>, DbError> {
    Ok(written(authored_parts(c, agent, version).await?))
}

/// The parts of a draft that people wrote, except for those that the draft changes.
pub async fn kept(c: &mut Conn, draft: &Resolved) -> Result<Vec<AuthoredText>, DbError> {
    let parts = kept_parts(c, draft.agent, draft.version, &draft.profile).await?;
    Ok(written(parts))
}

fn written(parts: Vec<AuthoredPart>) -> Vec<AuthoredText> {
    let written = parts.into_iter().filter_map(|part| {
        let author = match part.author {
            TextAuthor::Server => return None,
            TextAuthor::Person(author) => Some(author),
            TextAuthor::Unknown => None,
        };
        Some(AuthoredText {
            agent_id: Some(part.agent_id),
            owner: part.agent_name,
            part: part.noun,
            author,
            text_hash: part.text_hash,
        })
    });
    written.collect()
}

/// A file of an agent.
pub fn file(agent: &Resolved, part: &'static str, file: &AuthoredFile) -> AuthoredText {
    text(agent, part, Some(file.updated_by), &file.text)
}

/// MEMORY.md of an agent.
pub fn notes(agent: &Resolved, notes: &AuthoredFile) -> AuthoredText {
    file(agent, MEMORY, notes)
}

fn text(agent: &Resolved, part: &'static str, author: Option<UserId>, text: &str) -> AuthoredText {
    AuthoredText {
        agent_id: Some(agent.agent),
        owner: agent.shown_name.clone(),
        part,
        author,
        text_hash: Sha256::digest(text).into(),
    }
}

/// The entries among `ids` that belong to the agent. A paragraph of a file has the author of the file.
pub async fn entries(
    c: &mut Conn,
    agent: &Resolved,
    ids: impl IntoIterator<Item = MemoryId>,
) -> Result<HashMap<MemoryId, AuthoredText>, DbError> {
    let ids: Vec<MemoryId> = ids.into_iter().collect();
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let sql = sql_with_ids!(
        c,
        "select m.id, m.text, case when m.origin = 'file' then f.updated_by else m.created_by end from memories m \
         left join agent_files f on f.owner_id = m.agent_id and f.path = m.path \
         where m.scope = 'agent' and m.agent_id = $1 and m.id in",
        2,
        "order by m.id"
    );
    let rows: Vec<(MemoryId, String, Option<UserId>)> = c
        .q(sql)
        .bind(agent.agent)
        .bind(hexadecimal_ids(ids.iter().map(|id| id.0)))
        .all()
        .await?;
    Ok(rows
        .into_iter()
        .map(|(id, words, author)| (id, text(agent, "memories", author, &words)))
        .collect())
}
