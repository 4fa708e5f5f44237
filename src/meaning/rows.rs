//! Rows of models, of their progress, and of vectors.

use std::time::Duration;

use uuid::Uuid;

use crate::{
    auth::Role,
    db::{Conn, Db, DbError, Json, dialect::search as store, now},
    ids::{UserId, WorkspaceId},
    outbound::Url,
    secrets, sql_with_texts,
    time::Timestamp,
};

/// Maximum number of vectors that a transaction deletes.
const DELETED_AT_ONCE: i64 = 1_000;
/// Time without new passages after which vectors without passages are deleted.
const ORPHANED_AFTER: Duration = Duration::from_hours(24);

/// A model whose vectors a workspace has, or gets.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub(super) struct ModelRow {
    pub(super) id: Uuid,
    pub(super) workspace_id: WorkspaceId,
    /// `None` for the model server of the workspace.
    pub(super) base_url: Option<String>,
    pub(super) model: String,
    pub(super) dimensions: Option<i64>,
    pub(super) is_environment: bool,
    pub(super) is_current: bool,
    pub(super) is_serving: bool,
    pub(super) version: i64,
    /// Number of the last passage up to which all passages have vectors.
    pub(super) done_no: i64,
    /// Number of times that `done_no` was lowered.
    pub(super) rewinds: i64,
    pub(super) failures: i64,
    pub(super) retry_at: Option<Timestamp>,
    pub(super) error: Option<String>,
}

macro_rules! model_sql {
    ($rest:literal) => {
        concat!(
            "select m.id, m.workspace_id, m.base_url, m.model, m.dimensions, m.is_environment, m.is_current, m.is_serving, m.version, \
             coalesce(p.done_no, 0) as done_no, coalesce(p.rewinds, 0) as rewinds, coalesce(p.failures, 0) as failures, p.retry_at, p.error \
             from embedding_models m left join embedding_progress p on p.model_id = m.id ",
            $rest
        )
    };
}

impl ModelRow {
    /// Owner of its key in `secrets`.
    pub(super) fn owner(&self) -> String {
        secret_owner(self.id)
    }

    /// Address of its server; `None` for the model server of the workspace.
    pub(super) fn url(&self) -> Option<Url> {
        Url::parse(self.base_url.as_deref()?).ok()
    }

    pub(super) async fn find(c: &mut Conn, id: Uuid) -> Result<Option<Self>, DbError> {
        c.q(model_sql!("where m.id = $1")).bind(id).opt().await
    }

    /// The model that gets the vectors of all passages: the one of the environment, or that of the settings.
    pub(super) async fn find_current(
        c: &mut Conn,
        workspace: WorkspaceId,
        is_environment: bool,
    ) -> Result<Option<Self>, DbError> {
        c.q(model_sql!(
            "where m.workspace_id = $1 and m.is_current = TRUE and m.is_environment = $2"
        ))
        .bind(workspace)
        .bind(is_environment)
        .opt()
        .await
    }

    /// The model that searches use.
    pub(super) async fn find_serving(
        c: &mut Conn,
        workspace: WorkspaceId,
    ) -> Result<Option<Self>, DbError> {
        c.q(model_sql!(
            "where m.workspace_id = $1 and m.is_serving = TRUE order by m.created_at desc limit 1"
        ))
        .bind(workspace)
        .opt()
        .await
    }

    /// All models of a workspace, the newest first.
    pub(super) async fn list(c: &mut Conn, workspace: WorkspaceId) -> Result<Vec<Self>, DbError> {
        c.q(model_sql!(
            "where m.workspace_id = $1 order by m.created_at desc, m.id limit 100"
        ))
        .bind(workspace)
        .all()
        .await
    }

    /// Current models with passages that have no vectors, or that do not serve yet. Those that were filled the longest time ago come first.
    pub(super) async fn list_due(
        c: &mut Conn,
        is_environment: bool,
        limit: i64,
    ) -> Result<Vec<Self>, DbError> {
        c.q(model_sql!(
            "where m.is_current = TRUE and m.is_environment = $1 and (p.retry_at is null or p.retry_at <= $2) \
             and (m.is_serving = FALSE or exists (select 1 from passages x where x.workspace_id = m.workspace_id \
             and x.no > coalesce(p.done_no, 0))) order by coalesce(p.updated_at, m.created_at), m.id limit $3"
        ))
        .bind(is_environment)
        .bind(now())
        .bind(limit)
        .all()
        .await
    }

    /// Makes this the current model of the settings or of the environment.
    pub(super) async fn make_current(&self, c: &mut Conn) -> Result<(), DbError> {
        c.q("update embedding_models set is_current = FALSE where workspace_id = $1 and is_environment = $2 and id <> $3")
            .bind(self.workspace_id)
            .bind(self.is_environment)
            .bind(self.id)
            .run()
            .await?;
        c.q("insert into embedding_models (id, workspace_id, base_url, model, dimensions, is_environment, is_current, is_serving, version, \
             created_at) values ($1, $2, $3, $4, $5, $6, TRUE, FALSE, $7, $8) \
             on conflict (id) do update set is_current = TRUE, version = excluded.version")
            .bind(self.id)
            .bind(self.workspace_id)
            .bind(self.base_url.clone())
            .bind(self.model.clone())
            .bind(self.dimensions)
            .bind(self.is_environment)
            .bind(self.version)
            .bind(now())
            .run()
            .await?;
        Ok(())
    }

    /// Lets this model serve, and no other one of the workspace.
    pub(super) async fn serve(&self, c: &mut Conn) -> Result<(), DbError> {
        c.q("update embedding_models set is_serving = FALSE where workspace_id = $1 and id <> $2 and is_serving = TRUE")
            .bind(self.workspace_id)
            .bind(self.id)
            .run()
            .await?;
        c.q("update embedding_models set is_serving = TRUE where id = $1")
            .bind(self.id)
            .run()
            .await?;
        Ok(())
    }

    pub(super) async fn set_dimensions(&self, c: &mut Conn, count: i64) -> Result<(), DbError> {
        c.q("update embedding_models set dimensions = $2 where id = $1 and dimensions is null")
            .bind(self.id)
            .bind(count)
            .run()
            .await?;
        Ok(())
    }

    /// Stores the progress: `done_no`, and the last failure.
    pub(super) async fn save_progress(&self, c: &mut Conn) -> Result<(), DbError> {
        c.q("insert into embedding_progress (model_id, done_no, rewinds, failures, retry_at, error, updated_at) \
             values ($1, $2, $3, $4, $5, $6, $7) on conflict (model_id) do update set done_no = excluded.done_no, \
             failures = excluded.failures, retry_at = excluded.retry_at, error = excluded.error, updated_at = excluded.updated_at")
            .bind(self.id)
            .bind(self.done_no)
            .bind(self.rewinds)
            .bind(self.failures)
            .bind(self.retry_at)
            .bind(self.error.clone())
            .bind(now())
            .run()
            .await?;
        Ok(())
    }

    /// Stores a vector, unless no passage has the text any longer.
    pub(super) async fn put_vector(
        &self,
        c: &mut Conn,
        hash: &str,
        vector: &[u8],
    ) -> Result<(), DbError> {
        c.q("insert into embeddings (model_id, text_hash, vector) select $1, $2, $3 \
             where exists (select 1 from passages where workspace_id = $4 and text_hash = $2) on conflict do nothing")
            .bind(self.id)
            .bind(hash.to_owned())
            .bind(vector.to_vec())
            .bind(self.workspace_id)
            .run()
            .await?;
        Ok(())
    }

    /// Checks whether all passages have vectors.
    pub(super) async fn is_full(&self, c: &mut Conn) -> Result<bool, DbError> {
        Ok(store::newest_passage(c, self.workspace_id.0).await? <= self.done_no)
    }

    /// Number of passages of a workspace.
    pub(super) async fn count_all(c: &mut Conn, workspace: WorkspaceId) -> Result<i64, DbError> {
        store::count_passages(c, workspace.0, i64::MAX).await
    }

    /// Number of passages without vectors.
    pub(super) async fn count_pending(&self, c: &mut Conn) -> Result<i64, DbError> {
        c.q("select count(*) from passages where workspace_id = $1 and no > $2")
            .bind(self.workspace_id)
            .bind(self.done_no)
            .value()
            .await
    }
}

pub(super) fn secret_owner(model: Uuid) -> String {
    format!("embedding_{}", model.simple())
}

/// Version of the settings of a workspace; 0 before the first change.
pub(super) async fn version_of(c: &mut Conn, workspace: WorkspaceId) -> Result<i64, DbError> {
    let stored: Option<(i64,)> = c
        .q("select version from embedding_settings where workspace_id = $1")
        .bind(workspace)
        .opt()
        .await?;
    Ok(stored.map_or(0, |(version,)| version))
}

/// Stores the next version of the settings. Returns false if the stored version is not `from`.
pub(super) async fn next_version(
    c: &mut Conn,
    workspace: WorkspaceId,
    from: i64,
) -> Result<bool, DbError> {
    crate::db::dialect::lock_workspace(c, workspace.0).await?;
    if version_of(c, workspace).await? != from {
        return Ok(false);
    }
    c.q(
        "insert into embedding_settings (workspace_id, version) values ($1, $2) \
         on conflict (workspace_id) do update set version = excluded.version",
    )
    .bind(workspace)
    .bind(from + 1)
    .run()
    .await?;
    Ok(true)
}

/// Lets the server of a model be asked again at once after failures.
pub(super) async fn clear_failures(c: &mut Conn, model: Uuid) -> Result<(), DbError> {
    c.q("update embedding_progress set failures = 0, retry_at = null, error = null where model_id = $1")
        .bind(model)
        .run()
        .await?;
    Ok(())
}

/// Removes the model of the settings, and the keys of their earlier models.
pub(super) async fn remove_settings(c: &mut Conn, workspace: WorkspaceId) -> Result<(), DbError> {
    let models: Vec<(Uuid,)> = c
        .q("update embedding_models set is_current = FALSE, is_serving = FALSE where workspace_id = $1 and is_environment = FALSE \
            returning id")
        .bind(workspace)
        .all()
        .await?;
    for (model,) in models {
        secrets::delete(c, &secret_owner(model)).await?;
    }
    Ok(())
}

/// Workspaces with passages, or with a former model of the environment, whose current model is not that of the environment.
pub(super) async fn list_without(
    c: &mut Conn,
    base_url: Option<&str>,
    model: &str,
) -> Result<Vec<(WorkspaceId,)>, DbError> {
    c.q("select w.id from workspaces w where (exists (select 1 from passages p where p.workspace_id = w.id) \
         or exists (select 1 from embedding_models e where e.workspace_id = w.id and e.is_environment = TRUE and e.is_current = TRUE)) \
         and not exists (select 1 from embedding_models m where m.workspace_id = w.id and m.is_environment = TRUE and m.is_current = TRUE \
         and m.model = $1 and (m.base_url = $2 or (m.base_url is null and $2 is null))) order by w.id limit 100")
        .bind(model.to_owned())
        .bind(base_url.map(str::to_owned))
        .all()
        .await
}

/// Number of passages of all workspaces that have a model but no vectors.
pub(super) async fn count_pending(c: &mut Conn, is_environment: bool) -> Result<i64, DbError> {
    c.q("select count(*) from embedding_models m left join embedding_progress g on g.model_id = m.id \
         join passages p on p.workspace_id = m.workspace_id and p.no > coalesce(g.done_no, 0) \
         where m.is_current = TRUE and m.is_environment = $1")
        .bind(is_environment)
        .value()
        .await
}

/// Number of passages of all workspaces.
pub(super) async fn count_passages(c: &mut Conn) -> Result<i64, DbError> {
    c.q("select count(*) from passages").value().await
}

/// The person for whom a workspace's passages get vectors: the admin who has been a member for the longest time.
pub(super) async fn find_admin(
    c: &mut Conn,
    workspace: WorkspaceId,
) -> Result<Option<UserId>, DbError> {
    let found: Option<(UserId,)> = c
        .q("select user_id from members where workspace_id = $1 and role = $2 order by joined_at, user_id limit 1")
        .bind(workspace)
        .bind(Role::Admin)
        .opt()
        .await?;
    Ok(found.map(|(user,)| user))
}

/// A model that is neither current nor serves.
pub(super) async fn find_unused(c: &mut Conn) -> Result<Option<(Uuid, WorkspaceId)>, DbError> {
    c.q("select id, workspace_id from embedding_models where is_current = FALSE and is_serving = FALSE order by created_at limit 1")
        .opt()
        .await
}

/// Deletes the next vectors of a model that is not used, and at last the model.
pub(super) async fn delete_unused(c: &mut Conn, model: Uuid) -> Result<(), DbError> {
    let is_used: bool = c
        .q("select exists (select 1 from embedding_models where id = $1 and (is_current = TRUE or is_serving = TRUE))")
        .bind(model)
        .value()
        .await?;
    if is_used {
        return Ok(());
    }
    // A setting that returns to the model must not count passages whose vectors are gone.
    c.q("delete from embedding_progress where model_id = $1")
        .bind(model)
        .run()
        .await?;
    let deleted = c
        .q(
            "delete from embeddings where model_id = $1 and text_hash in \
            (select text_hash from embeddings where model_id = $1 order by text_hash limit $2)",
        )
        .bind(model)
        .bind(DELETED_AT_ONCE)
        .run()
        .await?;
    if deleted == 0 {
        secrets::delete(c, &secret_owner(model)).await?;
        c.q("delete from embedding_models where id = $1")
            .bind(model)
            .run()
            .await?;
    }
    Ok(())
}

macro_rules! orphans_sql {
    ($columns:literal, $rest:literal) => {
        concat!(
            "select ",
            $columns,
            " from embeddings e join embedding_models m on m.id = e.model_id join embedding_progress g on g.model_id = m.id \
             where g.updated_at < $1 and not exists \
             (select 1 from passages p where p.workspace_id = m.workspace_id and p.text_hash = e.text_hash)",
            $rest
        )
    };
}

/// Deletes vectors whose passages did not return after a restore, because another version of the extractor has cut their files differently.
///
/// # Errors
/// Only database errors.
pub async fn delete_orphans(db: &Db) -> Result<bool, DbError> {
    db.delete_expired(
        now() - ORPHANED_AFTER,
        concat!("select exists (", orphans_sql!("1", ""), ")"),
        concat!(
            "delete from embeddings where (model_id, text_hash) in (",
            orphans_sql!(
                "e.model_id, e.text_hash",
                " order by e.model_id, e.text_hash limit $2"
            ),
            ")"
        ),
    )
    .await
}

/// Deletes the vectors of texts of removed passages, unless other passages have the same text. Passages that get the numbers of removed
/// ones get vectors, too.
///
/// # Errors
/// Only database errors.
pub async fn note_removed(
    c: &mut Conn,
    workspace: WorkspaceId,
    hashes: Vec<String>,
) -> Result<(), DbError> {
    let has_models: bool = c
        .q("select exists (select 1 from embedding_models where workspace_id = $1)")
        .bind(workspace)
        .value()
        .await?;
    if !has_models {
        return Ok(());
    }
    let sql = sql_with_texts!(
        c,
        "delete from embeddings where model_id in (select id from embedding_models where workspace_id = $1) \
         and not exists (select 1 from passages p where p.workspace_id = $1 and p.text_hash = embeddings.text_hash) and text_hash in",
        2,
        ""
    );
    c.q(sql).bind(workspace).bind(Json(hashes)).run().await?;
    let newest = store::newest_passage(c, workspace.0).await?;
    c.q(
        "update embedding_progress set done_no = $2, rewinds = rewinds + 1 where done_no > $2 \
         and model_id in (select id from embedding_models where workspace_id = $1)",
    )
    .bind(workspace)
    .bind(newest)
    .run()
    .await?;
    Ok(())
}
