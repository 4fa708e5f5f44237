//! Reply styles of conversations, as they are stored and shown.

use std::collections::HashMap;

use serde::Serialize;
use uuid::Uuid;

use crate::{
    agents::prompt_profiles::ChosenBy,
    db::{Conn, DbError, dialect::hexadecimal_ids},
    ids::AgentId,
    sql_with_ids,
};

/// Maximum number of agents with a preset that are listed per conversation.
const LISTED_MAX: i64 = 20;

/// Preset of an agent in a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct ConversationPreset {
    pub agent_id: AgentId,
    /// ID of a preset.
    pub preset: String,
    pub chosen_by: ChosenBy,
}

#[derive(sqlx::FromRow)]
struct Row {
    conversation_id: Uuid,
    agent_id: AgentId,
    preset: String,
    chosen_by: ChosenBy,
}

/// Returns the presets of conversations (threads or forks), keyed by the ID of the conversation.
pub(in crate::chat) async fn list_presets(
    c: &mut Conn,
    conversations: Vec<Uuid>,
) -> Result<HashMap<Uuid, Vec<ConversationPreset>>, DbError> {
    let mut presets: HashMap<Uuid, Vec<ConversationPreset>> = HashMap::new();
    if conversations.is_empty() {
        return Ok(presets);
    }
    let sql = sql_with_ids!(
        c,
        "select conversation_id, agent_id, preset, chosen_by from (select conversation_id, agent_id, preset, chosen_by, \
         row_number() over (partition by conversation_id order by agent_id) as n from conversation_agents \
         where preset is not null and chosen_by is not null and conversation_id in",
        1,
        ") x where x.n <= $2 order by conversation_id, agent_id"
    );
    let rows: Vec<Row> = c
        .q(sql)
        .bind(hexadecimal_ids(conversations))
        .bind(LISTED_MAX)
        .all()
        .await?;
    for row in rows {
        let of = presets.entry(row.conversation_id).or_default();
        of.push(ConversationPreset {
            agent_id: row.agent_id,
            preset: row.preset,
            chosen_by: row.chosen_by,
        });
    }
    Ok(presets)
}
