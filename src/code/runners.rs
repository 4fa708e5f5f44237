//! Runners and their keys.

use serde::{Deserialize, Serialize};

use super::{
    CodeError,
    runner::{RunnerEngine, is_online},
};
use crate::{
    auth::{self, Actor, AuditAction, DisplayName, Scope, hash_token, new_token},
    db::{Conn, DbError, Json, dialect::lock_workspace, now},
    ids::{RunnerId, UserId},
    text_enum::constant,
    time::Timestamp,
};

/// Maximum number of runners of a workspace.
const RUNNERS_MAX: i64 = 20;

constant! { pub RunnerObject = "runner" }

/// Body of `POST /v1/runners`.
#[derive(Debug, Clone, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RunnerForm {
    /// Name for people, such as that of the machine: 1 to 80 characters.
    pub name: String,
}

/// A program that connects to this server and runs coding agents.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct Runner {
    pub id: RunnerId,
    #[schema(inline)]
    pub object: RunnerObject,
    pub name: String,
    /// True if the runner is connected.
    pub online: bool,
    /// Version of the program; null until it has connected for the first time.
    pub version: Option<String>,
    /// `bubblewrap`, or `none` if the runner's machine is the sandbox; null until it has connected for the first time.
    pub sandbox: Option<String>,
    pub engines: Vec<RunnerEngine>,
    /// True if the runner takes programs of agents that need no repository.
    pub scratch: bool,
    /// Time of the last sign of life.
    pub seen_at: Option<Timestamp>,
    pub created_by: UserId,
    pub created_at: Timestamp,
}

/// A new runner with its key, which is shown only once.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct RunnerWithKey {
    #[serde(flatten)]
    pub runner: Runner,
    /// Key with which the runner connects: `ovr_…`.
    pub key: String,
}

#[derive(sqlx::FromRow)]
struct Row {
    id: RunnerId,
    name: String,
    version: Option<String>,
    sandbox: Option<String>,
    engines: Json<Vec<RunnerEngine>>,
    scratch: bool,
    is_connected: bool,
    seen_at: Option<Timestamp>,
    created_by: UserId,
    created_at: Timestamp,
}

impl From<Row> for Runner {
    fn from(row: Row) -> Self {
        Self {
            id: row.id,
            object: RunnerObject,
            name: row.name,
            online: is_online(row.is_connected, row.seen_at),
            version: row.version,
            sandbox: row.sandbox,
            engines: row.engines.0,
            scratch: row.scratch,
            seen_at: row.seen_at,
            created_by: row.created_by,
            created_at: row.created_at,
        }
    }
}

/// Lists the runners of the workspace, oldest first.
///
/// # Errors
/// Same as `Actor::require`.
pub async fn list_runners(c: &mut Conn, actor: &Actor<'_>) -> Result<Vec<Runner>, CodeError> {
    actor.require(Scope::AgentsAdmin)?;
    let rows: Vec<Row> = c
        .q("select r.id, r.name, r.version, r.sandbox, r.engines, r.scratch, r.connection_id is not null as is_connected, r.seen_at, r.created_by, \
            r.created_at from runners r where r.workspace_id = $1 order by r.id")
        .bind(actor.workspace)
        .all()
        .await?;
    Ok(rows.into_iter().map(Runner::from).collect())
}

/// Creates a runner, and returns it with its key.
///
/// # Errors
/// `Invalid` for the name, `TooManyRunners`, or an error from `Actor::require`.
pub async fn create_runner(
    c: &mut Conn,
    actor: &Actor<'_>,
    form: &RunnerForm,
) -> Result<RunnerWithKey, CodeError> {
    actor.require(Scope::AgentsAdmin)?;
    let name = DisplayName::parse(&form.name, "name")?.0;
    lock_workspace(c, actor.workspace.0).await?;
    let count: i64 = c
        .q("select count(*) from runners where workspace_id = $1")
        .bind(actor.workspace)
        .value()
        .await?;
    if count >= RUNNERS_MAX {
        return Err(CodeError::TooManyRunners(RUNNERS_MAX));
    }
    let key = format!("ovr_{}", new_token());
    let runner = Runner {
        id: RunnerId::new(),
        object: RunnerObject,
        name,
        online: false,
        version: None,
        sandbox: None,
        engines: Vec::new(),
        scratch: false,
        seen_at: None,
        created_by: actor.user,
        created_at: now(),
    };
    c.q(
        "insert into runners (id, workspace_id, name, key_hash, engines, created_by, created_at) \
         values ($1, $2, $3, $4, $5, $6, $7)",
    )
    .bind(runner.id)
    .bind(actor.workspace)
    .bind(runner.name.clone())
    .bind(hash_token(&key))
    .bind(Json(runner.engines.clone()))
    .bind(actor.user)
    .bind(runner.created_at)
    .run()
    .await?;
    audit(
        c,
        actor,
        AuditAction::RunnerCreated,
        runner.id,
        &runner.name,
    )
    .await?;
    Ok(RunnerWithKey { runner, key })
}

pub(super) async fn audit(
    c: &mut Conn,
    actor: &Actor<'_>,
    action: AuditAction,
    id: RunnerId,
    name: &str,
) -> Result<(), DbError> {
    let data = serde_json::json!({"name": name});
    auth::record_audit(c, actor, action, id.to_string(), data).await
}
