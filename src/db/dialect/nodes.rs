//! SQL statements for nodes that share a database.

use sqlx::types::Json;
use uuid::Uuid;

use crate::db::{conn::Conn, engine::Engine, error::DbError};

/// A person with a socket in a workspace.
#[derive(Debug, Clone, Copy)]
pub struct PresentUser {
    pub workspace: Uuid,
    pub user: Uuid,
}

/// Workspace and user IDs, as pairs of hexadecimal strings to bind.
fn as_json(present: &[PresentUser]) -> Json<Vec<[String; 2]>> {
    let text = |id: Uuid| id.simple().to_string();
    let pairs = present.iter();
    let pairs = pairs.map(|present| [text(present.workspace), text(present.user)]);
    Json(pairs.collect())
}

/// Stores that these people have a socket on a node.
pub async fn insert_presence(
    c: &mut Conn,
    node: Uuid,
    present: &[PresentUser],
) -> Result<(), DbError> {
    if present.is_empty() {
        return Ok(());
    }
    let q = match c.engine() {
        Engine::Sqlite => c.q(
            "insert into presence (node_id, workspace_id, user_id) \
             select $1, unhex(value ->> 0), unhex(value ->> 1) from json_each($2) where true on conflict do nothing",
        ),
        Engine::Postgres => c.q(
            "insert into presence (node_id, workspace_id, user_id) \
             select $1, cast(value ->> 0 as uuid), cast(value ->> 1 as uuid) from jsonb_array_elements($2) on conflict do nothing",
        ),
    };
    q.bind(node).bind(as_json(present)).run().await?;
    Ok(())
}

/// Deletes the stored presence of people on a node.
pub async fn delete_presence(
    c: &mut Conn,
    node: Uuid,
    absent: &[PresentUser],
) -> Result<(), DbError> {
    if absent.is_empty() {
        return Ok(());
    }
    let q = match c.engine() {
        Engine::Sqlite => c.q(
            "delete from presence where node_id = $1 and (workspace_id, user_id) in \
             (select unhex(value ->> 0), unhex(value ->> 1) from json_each($2))",
        ),
        Engine::Postgres => c.q(
            "delete from presence where node_id = $1 and (workspace_id, user_id) in \
             (select cast(value ->> 0 as uuid), cast(value ->> 1 as uuid) from jsonb_array_elements($2))",
        ),
    };
    q.bind(node).bind(as_json(absent)).run().await?;
    Ok(())
}
