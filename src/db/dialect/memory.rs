//! The index of memory entries: words, and the ranking of the entries that a conversation can use.

use serde::Serialize;
use uuid::Uuid;

use crate::{
    db::{
        Conn, DbError, Engine, FromAnyRow, Json, Query, has_guests, is_visible_channel,
        is_visible_from,
    },
    time::Timestamp,
};

/// A word of an entry, and how often it occurs.
#[derive(Debug, Clone, Serialize)]
pub struct WordCount {
    pub word: String,
    pub count: i64,
}

/// Inserts the words of an entry; `total` is the number of all words.
pub async fn insert_words(
    c: &mut Conn,
    workspace: Uuid,
    entry: Uuid,
    words: Vec<WordCount>,
    total: i64,
) -> Result<(), DbError> {
    let q = match c.engine() {
        Engine::Sqlite => c.q(
            "insert into memory_words (workspace_id, word, memory_id, count, words) \
             select $1, e.value ->> 'word', $2, e.value ->> 'count', $4 from json_each($3) e",
        ),
        Engine::Postgres => c.q(
            "insert into memory_words (workspace_id, word, memory_id, count, words) \
             select $1, e ->> 'word', $2, cast(e ->> 'count' as bigint), $4 from jsonb_array_elements($3) e",
        ),
    };
    q.bind(workspace)
        .bind(entry)
        .bind(Json(words))
        .bind(total)
        .run()
        .await?;
    Ok(())
}

/// Number of entries with each of these words, counted up to `limit`.
pub async fn count_entries(
    c: &mut Conn,
    workspace: Uuid,
    words: Vec<String>,
    limit: i64,
) -> Result<Vec<(String, i64)>, DbError> {
    let q = match c.engine() {
        Engine::Sqlite => c.q(
            "select q.value, (select count(*) from (select 1 from memory_words w where w.workspace_id = $1 and w.word = q.value limit $3)) \
             from json_each($2) q",
        ),
        Engine::Postgres => c.q(
            "select q, (select count(*) from (select 1 from memory_words w where w.workspace_id = $1 and w.word = q limit $3) x) \
             from jsonb_array_elements_text($2) q",
        ),
    };
    q.bind(workspace).bind(Json(words)).bind(limit).all().await
}

/// A word by which entries are ranked.
#[derive(Debug, Clone, Serialize)]
pub struct QueryWord {
    pub word: String,
    pub weight: f64,
    /// 1 if the word alone makes an entry a candidate.
    pub rare: i64,
    /// 1 if the requester wrote the word. Personal entries match only such words; otherwise, another person could
    /// discover words of the entries through the title of a thread.
    pub own: i64,
}

/// Conversation and reply for which entries are ranked.
#[derive(Debug, Clone, Copy)]
pub struct Use {
    pub workspace: Uuid,
    pub channel: Uuid,
    pub conversation: Uuid,
    pub requester: Uuid,
    pub agent: Uuid,
    /// True if only the requester can ever read the conversation.
    pub is_alone: bool,
    pub now: Timestamp,
    /// Expiry cutoff: automatic entries that were last used at or before this time have expired.
    pub unused_since: Timestamp,
    pub scopes: UseScopes,
}

/// Scopes whose entries can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "one for each scope")]
pub struct UseScopes {
    pub conversation: bool,
    pub user: bool,
    pub persona: bool,
    pub agent: bool,
    pub organization: bool,
}

impl Use {
    /// Binds the arguments of `is_usable!`, starting with `$3`.
    fn bind<'a>(&self, q: Query<'a>) -> Query<'a> {
        q.bind(self.channel)
            .bind(self.requester)
            .bind(self.agent)
            .bind(self.is_alone)
            .bind(self.now)
            .bind(self.scopes.conversation)
            .bind(self.scopes.user)
            .bind(self.scopes.persona)
            .bind(self.scopes.agent)
            .bind(self.scopes.organization)
            .bind(self.conversation)
            .bind(self.unused_since)
    }
}

/// Condition for entries `e` that can be used: all of their sources still exist, are in threads with memory, and can be read by
/// everyone who can read the channel `$3`. The other parameters are the requester `$4`, the agent `$5`, `is_alone` `$6`, the current
/// time `$7`, the scopes `$8` to `$12`, the conversation `$13`, and `unused_since` `$14`.
macro_rules! is_usable {
    () => {
        concat!(
            "e.workspace_id = $1 and e.status = 'active' and e.forgotten_at is null and (e.expires_at is null or e.expires_at > $7) \
             and (e.origin <> 'auto' or coalesce(e.last_used_at, e.created_at) > $14) \
             and case e.scope when 'conversation' then $8 and (e.conversation_id = $13 or e.kind not in ('person', 'preference')) \
             when 'user' then $9 and e.user_id = $4 when 'persona' then $10 and e.user_id = $4 and e.agent_id = $5 \
             when 'agent' then $11 and e.agent_id = $5 when 'organization' then $12 else FALSE end \
             and case e.visibility when 'workspace' then e.scope not in ('agent', 'organization') or not ",
            has_guests!("$1", "$3"),
            " when 'channel' then e.channel_id = $3 when 'direct' then $6 else FALSE end \
             and (e.thread_id is null or exists (select 1 from threads t join channels h on h.id = t.channel_id \
               where t.id = e.thread_id and t.memory = 'on' and ",
            is_read_here!(),
            ")) and not exists (select 1 from citations k left join messages m on m.id = k.source_id \
               left join threads t on t.id = m.thread_id left join channels h on h.id = m.channel_id \
               where k.owner_type = 'memory' and k.owner_id = e.id and k.source_type = 'message' \
               and (h.id is null or t.id is null or m.deleted_at is not null or t.memory <> 'on' or not ",
            is_read_here!(),
            "))"
        )
    };
}

/// Condition for channels `h` that everyone who can read the channel `$3` can read as well.
macro_rules! is_read_here {
    () => {
        concat!(
            "(",
            is_visible_from!("h", "$3"),
            " or ($6 and ",
            is_visible_channel!("h", "$4"),
            "))"
        )
    };
}

/// BM25 score of the word `w` of an entry for the query word `q`. Without the cast, `PostgreSQL` would use arbitrary-precision
/// arithmetic.
macro_rules! word_score {
    () => {
        "q.weight * w.count * 2.2 / (w.count + 1.2 * (0.25 + 0.75 * (w.words / cast(12 as double precision))))"
    };
}

/// Statement that ranks entries. It reads the query words `q` from JSON only once, and selects entries before it computes their
/// scores, because most entries contain only one common word.
macro_rules! rank_sql {
    ($words:literal) => {
        concat!(
            "with q as materialized (",
            $words,
            "), found as materialized (select w.memory_id from q cross join memory_words w where w.workspace_id = $1 and w.word = q.word \
              group by w.memory_id having count(*) > 1 or max(q.rare) = 1) \
             select e.id, e.scope, e.kind, e.text, e.hash, e.user_id, coalesce(e.about_user_id, e.created_by) as person_id, \
             u.name as person, e.flagged, e.created_at, \
             case when e.user_id is null then s.score else s.own_score end as score, \
             case when e.user_id is null then s.matched else s.own_matched end as matched from \
             (select w.memory_id, sum(",
            word_score!(),
            ") as score, count(*) as matched, sum(q.own * ",
            word_score!(),
            ") as own_score, cast(sum(q.own) as bigint) as own_matched, max(q.own * q.rare) as own_rare \
              from found cross join q cross join memory_words w where w.workspace_id = $1 and w.word = q.word and w.memory_id = found.memory_id \
              group by w.memory_id) s cross join memories e \
             left join users u on u.id = coalesce(e.about_user_id, e.created_by) where e.id = s.memory_id \
             and (e.user_id is null or s.own_matched > 1 or s.own_rare = 1) and ",
            is_usable!(),
            " order by score desc, e.id desc limit $15"
        )
    };
}

/// Entries with these words that the conversation can use, highest BM25 score first. The `cross join` makes `SQLite`
/// start with the words.
pub async fn rank_entries<T: FromAnyRow>(
    c: &mut Conn,
    place: &Use,
    words: Vec<QueryWord>,
    limit: i64,
) -> Result<Vec<T>, DbError> {
    let q = match c.engine() {
        Engine::Sqlite => c.q(rank_sql!(
            "select value ->> 'word' as word, value ->> 'weight' as weight, value ->> 'rare' as rare, value ->> 'own' as own \
             from json_each($2)"
        )),
        Engine::Postgres => c.q(rank_sql!(
            "select q ->> 'word' as word, cast(q ->> 'weight' as double precision) as weight, cast(q ->> 'rare' as bigint) as rare, \
             cast(q ->> 'own' as bigint) as own from jsonb_array_elements($2) q"
        )),
    };
    let q = q.bind(place.workspace).bind(Json(words));
    place.bind(q).bind(limit).all().await
}

/// Published entries with this `key` that everyone who can read the channel of `place` can read, most frequently used first.
pub async fn published_entries<T: FromAnyRow>(
    c: &mut Conn,
    place: &Use,
    key: String,
    limit: i64,
) -> Result<Vec<T>, DbError> {
    let q = c.q(concat!(
        "select e.id, e.text, e.created_at from memories e where e.key = $15 and e.scope = 'organization' and ",
        is_usable!(),
        " order by e.uses desc, e.created_at desc, e.id desc limit $2"
    ))
    .bind(place.workspace)
    .bind(limit);
    place.bind(q).bind(key).all().await
}
