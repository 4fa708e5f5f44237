//! Lists of agents: paged by key, filtered by index.

use std::collections::BTreeMap;

use uuid::Uuid;

use super::{
    AccessControl, AgentStatus, AgentSummary, Brief, agent::AgentObject, form::METADATA_KEYS_MAX,
    parts, shown_role, store::pair,
};
use crate::agents::AgentError;
use crate::{
    auth::Actor,
    cursor::PageRange,
    db::{Conn, Json, Query},
    ids::AgentId,
    time::Timestamp,
};

/// Filter for a list of agents.
#[derive(Debug, Default)]
pub struct Filter {
    pub status: Option<AgentStatus>,
    pub name: Option<String>,
    /// Metadata pairs, all of which an agent must have.
    pub metadata: BTreeMap<String, String>,
}

#[derive(sqlx::FromRow)]
struct Row {
    id: AgentId,
    name: String,
    status: AgentStatus,
    is_system: bool,
    mentionable: bool,
    version: i64,
    summary: Json<Brief>,
    access: Option<Json<AccessControl>>,
    created_at: Timestamp,
    updated_at: Timestamp,
    default_agent_id: Option<AgentId>,
}

impl Row {
    fn is_visible(&self, actor: &Actor<'_>) -> bool {
        parts::may_see(self.access.as_ref().map(|access| &access.0), actor)
    }

    fn fits(&self, filter: &Filter) -> bool {
        let metadata = &self.summary.0.metadata;
        filter.status.as_ref().is_none_or(|s| *s == self.status)
            && filter
                .metadata
                .iter()
                .all(|(key, value)| metadata.get(key) == Some(value))
    }
}

impl From<Row> for AgentSummary {
    fn from(row: Row) -> Self {
        let brief = row.summary.0;
        let is_default = row.default_agent_id == Some(row.id);
        Self {
            id: row.id,
            object: AgentObject,
            name: row.name,
            display_name: brief.display_name,
            description: brief.description,
            avatar: brief.avatar,
            capabilities: brief.capabilities,
            role: shown_role(is_default, brief.role),
            effective_model: None,
            wanted_model: brief.resolved_model.or_else(|| brief.model.clone()),
            model: brief.model,
            mentionable: row.mentionable,
            adapts: brief.adapts,
            is_default,
            is_system: row.is_system,
            status: row.status,
            version: row.version,
            base_profile_id: brief.base_profile_id,
            access_control: brief.access_control,
            created_at: row.created_at,
            updated_at: row.updated_at,
        }
    }
}

macro_rules! summary_sql {
    ($from:literal, $tail:literal) => {
        concat!(
            "select a.id, a.name, a.status, a.is_system, a.mentionable, a.version, a.summary, a.access, a.created_at, \
             a.updated_at, w.default_agent_id from ",
            $from,
            " join workspaces w on w.id = a.workspace_id ",
            $tail
        )
    };
}

/// Selects agents that have two metadata pairs. The second pair is optional; the lookup uses the first one.
macro_rules! pairs_sql {
    ($order:literal) => {
        concat!(
            summary_sql!(
                "agent_metadata m join agents a on a.id = m.agent_id",
                "where m.workspace_id = $1 and m.agent_id > $2 and m.agent_id < $3 and m.pair = $5 \
                 and (CAST($6 AS TEXT) is null or exists (select 1 from agent_metadata n \
                   where n.workspace_id = m.workspace_id and n.pair = $6 and n.agent_id = m.agent_id)) "
            ),
            $order
        )
    };
}

/// Number of agents at which counting stops when the rarest metadata pair is determined.
const PAIR_COUNT_MAX: i64 = 200;

/// The two rarest metadata pairs of a filter, rarest first; `None` without metadata.
async fn rarest_pairs(
    c: &mut Conn,
    actor: &Actor<'_>,
    filter: &Filter,
) -> Result<Option<(String, Option<String>)>, AgentError> {
    let mut pairs = Vec::new();
    for (key, value) in &filter.metadata {
        let pair = pair(key, value);
        let mut n = 0;
        if filter.metadata.len() > 1 {
            n = c
                .q("select count(*) from (select m.agent_id from agent_metadata m where m.workspace_id = $1 and m.pair = $2 limit $3) few")
                .bind(actor.workspace)
                .bind(pair.clone())
                .bind(PAIR_COUNT_MAX)
                .value()
                .await?;
        }
        pairs.push((n, pair));
    }
    pairs.sort_by_key(|(n, _): &(i64, String)| *n);
    let mut pairs = pairs.into_iter().map(|(_, pair)| pair);
    Ok(pairs.next().map(|rarest| (rarest, pairs.next())))
}

/// Lists agents that the actor can see, in order of creation, either after or before a given agent.
///
/// # Errors
/// `NotFound` if that agent is not in this workspace.
pub async fn list_agents(
    c: &mut Conn,
    actor: &Actor<'_>,
    filter: &Filter,
    PageRange { after, before }: PageRange<AgentId>,
    limit: i64,
) -> Result<Vec<AgentSummary>, AgentError> {
    if let Some(id) = after.or(before) {
        super::get_visible(c, actor, id).await?;
    }
    let mut part = Part {
        low: after.unwrap_or(AgentId(Uuid::nil())),
        high: before.unwrap_or(AgentId(Uuid::max())),
        is_descending: before.is_some(),
    };
    let wanted = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut found: Vec<AgentSummary> = Vec::new();
    if filter.metadata.len() > METADATA_KEYS_MAX {
        // No agent can have so many pairs.
        return Ok(found);
    }
    let pairs = rarest_pairs(c, actor, filter).await?;
    // One iteration is enough unless agents are hidden from the actor or the filter has several metadata pairs.
    loop {
        let rows = page(c, actor, filter, pairs.as_ref(), part, limit).await?;
        let Some(last) = rows.last().map(|row| row.id) else {
            break;
        };
        let full = rows.len() == wanted;
        found.extend(
            rows.into_iter()
                .filter(|row| row.is_visible(actor) && row.fits(filter))
                .map(AgentSummary::from),
        );
        if !full || found.len() >= wanted {
            break;
        }
        *(if part.is_descending {
            &mut part.high
        } else {
            &mut part.low
        }) = last;
    }
    found.truncate(wanted);
    if before.is_some() {
        found.reverse();
    }
    Ok(found)
}

/// The agent with this name, even if archived, if the actor can see it.
pub async fn find_by_name(
    c: &mut Conn,
    actor: &Actor<'_>,
    name: &str,
) -> Result<Option<AgentId>, AgentError> {
    let filter = Filter {
        name: Some(name.to_owned()),
        ..Filter::default()
    };
    let found = list_agents(c, actor, &filter, PageRange::ALL, 1).await?;
    Ok(found.first().map(|agent| agent.id))
}

/// Agents between two IDs.
#[derive(Clone, Copy)]
struct Part {
    low: AgentId,
    high: AgentId,
    is_descending: bool,
}

/// Reads one page of rows, using the most selective index for the filter.
async fn page(
    c: &mut Conn,
    actor: &Actor<'_>,
    filter: &Filter,
    pairs: Option<&(String, Option<String>)>,
    part: Part,
    limit: i64,
) -> Result<Vec<Row>, AgentError> {
    let (sql, values) = if let Some(name) = &filter.name {
        let sql = summary_sql!(
            "agents a",
            "where a.workspace_id = $1 and a.id > $2 and a.id < $3 and a.name = $5 order by a.id limit $4"
        );
        (sql, vec![Some(name.clone())])
    } else if let Some((rarest, next)) = pairs {
        let sql = if part.is_descending {
            pairs_sql!("order by m.agent_id desc limit $4")
        } else {
            pairs_sql!("order by m.agent_id limit $4")
        };
        (sql, vec![Some(rarest.clone()), next.clone()])
    } else if let Some(status) = &filter.status {
        let sql = if part.is_descending {
            summary_sql!(
                "agents a",
                "where a.workspace_id = $1 and a.id > $2 and a.id < $3 and a.status = $5 order by a.id desc limit $4"
            )
        } else {
            summary_sql!(
                "agents a",
                "where a.workspace_id = $1 and a.id > $2 and a.id < $3 and a.status = $5 order by a.id limit $4"
            )
        };
        (sql, vec![Some(status.to_string())])
    } else if part.is_descending {
        let sql = summary_sql!(
            "agents a",
            "where a.workspace_id = $1 and a.id > $2 and a.id < $3 order by a.id desc limit $4"
        );
        (sql, Vec::new())
    } else {
        let sql = summary_sql!(
            "agents a",
            "where a.workspace_id = $1 and a.id > $2 and a.id < $3 order by a.id limit $4"
        );
        (sql, Vec::new())
    };
    let keyed = c
        .q(sql)
        .bind(actor.workspace)
        .bind(part.low)
        .bind(part.high)
        .bind(limit);
    let q = values.into_iter().fold(keyed, Query::bind);
    Ok(q.all().await?)
}
