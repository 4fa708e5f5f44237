//! Lists of entries.

use uuid::Uuid;

use crate::{
    agents::{AgentError, profiles},
    auth::{Actor, Caller},
    chat::access,
    db::{Conn, Json, is_in_visible_channel, is_visible_channel, now},
    ids::{AgentId, MemoryId, ThreadId, UserId},
    memory::{
        MemoryError,
        content::words_of,
        entry::{Entry, MemoryKind, MemoryScope, MemoryStatus},
        find::{EntryVisibility, Row, entry_sql, with_sources},
    },
    sql_with_ids,
};

/// Maximum length of a query in characters.
const QUERY_CHARS_MAX: usize = 500;
/// Maximum number of words of a query.
const QUERY_WORDS_MAX: usize = 16;

/// Filters of a list.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    pub scope: Option<MemoryScope>,
    pub kind: Option<MemoryKind>,
    pub agent: Option<AgentId>,
    /// Only personal entries of this person.
    pub user: Option<UserId>,
    pub about: Option<UserId>,
    pub thread: Option<ThreadId>,
    /// Status of the entries; `None` selects active and stale ones.
    pub status: Option<MemoryStatus>,
    /// Words, in any form, that an entry must contain.
    pub query: Option<String>,
}

impl Filter {
    /// Words of the query; `None` without a query.
    ///
    /// # Errors
    /// `InvalidQuery` if the query is too long.
    fn words(&self) -> Result<Option<Vec<String>>, MemoryError> {
        let query = self.query.as_deref().map(str::trim);
        let Some(query) = query.filter(|text| !text.is_empty()) else {
            return Ok(None);
        };
        if query.chars().count() > QUERY_CHARS_MAX {
            let rule = format!("q can have at most {QUERY_CHARS_MAX} characters");
            return Err(MemoryError::InvalidQuery(rule, "q"));
        }
        let words = words_of(query).into_iter().map(|(word, _)| word);
        Ok(Some(words.take(QUERY_WORDS_MAX).collect()))
    }
}

/// Parses the cursor of a list: the ID of the last entry of the previous page.
///
/// # Errors
/// `InvalidQuery`.
pub fn parse_cursor(text: Option<&str>) -> Result<Option<MemoryId>, MemoryError> {
    let Some(text) = text.filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    text.parse().map(Some).map_err(|_| {
        let rule = "the cursor does not belong to a list of memories: use `next_cursor` of the previous page";
        MemoryError::InvalidQuery(rule.to_owned(), "cursor")
    })
}

/// Checks that the actor can see the thread and the agent by which a list is filtered.
///
/// # Errors
/// `ThreadNotFound`, or `NotFound` for the agent.
pub async fn check_objects(
    c: &mut Conn,
    caller: &Caller,
    actor: &Actor<'_>,
    thread: Option<ThreadId>,
    agent: Option<AgentId>,
) -> Result<(), MemoryError> {
    if let Some(thread) = thread {
        let access = access::thread(c, caller, thread).await?;
        access.within(actor.workspace)?;
    }
    if let Some(agent) = agent
        && !profiles::is_visible(c, actor, agent).await?
    {
        return Err(AgentError::NotFound.into());
    }
    Ok(())
}

/// Entries that the actor can see, newest first, and the cursor of the next page.
///
/// # Errors
/// `InvalidQuery` for a query that is too long.
pub async fn list(
    c: &mut Conn,
    actor: &Actor<'_>,
    filter: &Filter,
    before: Option<MemoryId>,
    limit: i64,
) -> Result<(Vec<Entry>, Option<String>), MemoryError> {
    let words = filter.words()?;
    // A query that consists only of function words finds nothing.
    let wanted = words.as_ref().map_or(0, |words| {
        i64::try_from(words.len()).unwrap_or(i64::MAX).max(1)
    });
    let (visibility, at) = (EntryVisibility::of(c, actor).await?, now());
    macro_rules! list_sql {
        ($words:literal) => {
            concat!(
                "and e.id < $8 and (e.scope = $9 or $9 is null) and (e.kind = $10 or $10 is null) and (e.agent_id = $11 or $11 is null) \
                 and (e.user_id = $12 or $12 is null) and (e.about_user_id = $13 or $13 is null) and (e.thread_id = $14 or $14 is null) \
                 and (e.status = $15 or ($15 is null and e.status in ('active', 'stale'))) \
                 and ($17 = 0 or (select count(*) from memory_words w where w.memory_id = e.id and w.word in (",
                $words,
                ")) = $17) order by e.id desc limit $18"
            )
        };
    }
    let sql = match c.engine() {
        crate::db::Engine::Sqlite => {
            entry_sql!(c, list_sql!("select value from json_each($16)"))
        }
        crate::db::Engine::Postgres => {
            entry_sql!(c, list_sql!("select jsonb_array_elements_text($16)"))
        }
    };
    let mut rows: Vec<Row> = c
        .q(sql)
        .planned_anew()
        .bind(visibility.workspace)
        .bind(visibility.user)
        .bind(visibility.chats)
        .bind(visibility.agents)
        .bind(visibility.hidden_agents)
        .bind(at)
        .bind(visibility.policy.unused_since(at))
        .bind(before.unwrap_or(MemoryId(Uuid::max())))
        .bind(filter.scope)
        .bind(filter.kind)
        .bind(filter.agent)
        .bind(filter.user)
        .bind(filter.about)
        .bind(filter.thread)
        .bind(filter.status)
        .bind(Json(words.unwrap_or_default()))
        .bind(wanted)
        .bind(limit + 1)
        .all()
        .await?;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let has_more = rows.len() > limit;
    rows.truncate(limit);
    let next = rows
        .last()
        .filter(|_| has_more)
        .map(|row| row.id.to_string());
    Ok((with_sources(c, rows, visibility.policy).await?, next))
}
