//! Queries that check the access of many people at once.

use sqlx::types::Json;
use uuid::Uuid;

use crate::{
    db::{
        conn::{Conn, FromAnyRow},
        engine::Engine,
        error::DbError,
    },
    time::Timestamp,
};

/// A person in a workspace, with the ID of the session or API key that is being used.
#[derive(Debug, Clone, Copy)]
pub struct Access {
    pub workspace: Uuid,
    pub user: Uuid,
    pub credential: Uuid,
}

/// Condition for sessions and keys that exist, have not expired, and were marked as used since `$3`.
macro_rules! is_in_use {
    ($credential:literal) => {
        concat!(
            "(exists (select 1 from sessions s where s.id = ",
            $credential,
            " and s.expires_at > $2 and s.last_seen_at >= $3) or exists (select 1 from api_keys k where k.id = ",
            $credential,
            " and (k.expires_at is null or k.expires_at > $2) and k.last_used_at >= $3))"
        )
    };
}

/// Finds the valid entries of `accesses`: the person must be a member, and the session or key must be valid at `at` and marked as
/// used since `since`, in a workspace that demands nothing of sessions. Returns their positions in the list, the people's roles, and whether members can write agents, in no
/// particular order.
pub async fn list_valid<T: FromAnyRow>(
    c: &mut Conn,
    accesses: impl Iterator<Item = Access>,
    at: Timestamp,
    since: Timestamp,
) -> Result<Vec<T>, DbError> {
    let text = |id: Uuid| id.simple().to_string();
    let accesses: Vec<[String; 3]> = accesses
        .map(|a| [text(a.workspace), text(a.user), text(a.credential)])
        .collect();
    let q = match c.engine() {
        Engine::Sqlite => c.q(concat!(
            "select a.key, m.role, coalesce(p.members_write_agents, TRUE) from json_each($1) a \
             cross join members m on m.workspace_id = unhex(a.value ->> 0) and m.user_id = unhex(a.value ->> 1) \
             left join workspace_policies p on p.workspace_id = m.workspace_id \
             where not exists (select 1 from workspace_sign_ins wsi where wsi.workspace_id = m.workspace_id) and ",
            is_in_use!("unhex(a.value ->> 2)")
        )),
        Engine::Postgres => c.q(concat!(
            "select a.key - 1, m.role, coalesce(p.members_write_agents, TRUE) \
             from jsonb_array_elements($1) with ordinality a (value, key) \
             join members m on m.workspace_id = cast(a.value ->> 0 as uuid) and m.user_id = cast(a.value ->> 1 as uuid) \
             left join workspace_policies p on p.workspace_id = m.workspace_id \
             where not exists (select 1 from workspace_sign_ins wsi where wsi.workspace_id = m.workspace_id) and ",
            is_in_use!("cast(a.value ->> 2 as uuid)")
        )),
    };
    q.bind(Json(accesses)).bind(at).bind(since).all().await
}
