//! Rows of model settings.

use reqwest::Url;

use super::connection::{ModelStatus, ProviderKind};
use crate::{
    db::{Conn, DbError},
    ids::WorkspaceId,
    outbound::LocalAddresses,
    time::Timestamp,
};

/// Model settings of one workspace.
#[derive(Debug, Clone, sqlx::FromRow)]
pub(super) struct Stored {
    pub(super) provider: Option<ProviderKind>,
    pub(super) base_url: Option<String>,
    pub(super) model: Option<String>,
    pub(super) utility_model: Option<String>,
    pub(super) status: ModelStatus,
    pub(super) checked_at: Timestamp,
    pub(super) version: i64,
    pub(super) has_older: bool,
}

impl Stored {
    pub(super) async fn find(
        c: &mut Conn,
        workspace: WorkspaceId,
    ) -> Result<Option<Self>, DbError> {
        c.q(
            "select provider, base_url, model, utility_model, status, checked_at, version, \
             exists (select 1 from workspaces o where o.id < s.workspace_id) as has_older \
             from model_settings s where workspace_id = $1",
        )
        .bind(workspace)
        .opt()
        .await
    }

    /// Returns whether a workspace can use local addresses. Only the oldest workspace can, because it belongs to the operator.
    pub(super) async fn local_for(
        c: &mut Conn,
        workspace: WorkspaceId,
    ) -> Result<LocalAddresses, DbError> {
        let has_older: bool = c
            .q("select exists (select 1 from workspaces where id < $1)")
            .bind(workspace)
            .value()
            .await?;
        Ok(local(has_older))
    }

    pub(super) fn local(&self) -> LocalAddresses {
        local(self.has_older)
    }

    /// Returns the row with the server's URL, or `None` if no server is connected.
    pub(super) fn connected(self) -> Option<(Self, Url)> {
        let base_url = Url::parse(self.base_url.as_deref()?).ok()?;
        Some((self, base_url))
    }
}

fn local(has_older: bool) -> LocalAddresses {
    if has_older {
        LocalAddresses::Forbidden
    } else {
        LocalAddresses::Permitted
    }
}

impl Stored {
    /// Stores the row as the next version. Returns false if the stored version has changed.
    pub(super) async fn replace(
        &self,
        c: &mut Conn,
        workspace: WorkspaceId,
    ) -> Result<bool, DbError> {
        crate::db::dialect::lock_workspace(c, workspace.0).await?;
        let present: Option<(i64,)> = c
            .q("select version from model_settings where workspace_id = $1")
            .bind(workspace)
            .opt()
            .await?;
        if present.map_or(0, |(version,)| version) != self.version - 1 {
            return Ok(false);
        }
        c.q("insert into model_settings (workspace_id, provider, base_url, model, utility_model, status, checked_at, version) \
             values ($1, $2, $3, $4, $5, $6, $7, $8) \
             on conflict (workspace_id) do update set provider = excluded.provider, base_url = excluded.base_url, \
             model = excluded.model, utility_model = excluded.utility_model, status = excluded.status, \
             checked_at = excluded.checked_at, version = excluded.version")
            .bind(workspace)
            .bind(self.provider)
            .bind(self.base_url.clone())
            .bind(self.model.clone())
            .bind(self.utility_model.clone())
            .bind(self.status)
            .bind(self.checked_at)
            .bind(self.version)
            .run()
            .await?;
        Ok(true)
    }
}
