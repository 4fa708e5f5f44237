//! Visibility of the costs of calls.

use super::Task;
use crate::{
    db::{Conn, DbError},
    ids::WorkspaceId,
    text_enum::text_enum,
};

text_enum! {
    /// People who can see the costs of replies.
    pub enum CostVisibility {
        Everyone = "everyone",
        Admins = "admins",
        /// Nobody sees the costs of replies. Admins still see those of the workspace.
        Off = "off",
    }
}

/// The person who reads costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CostReader {
    Admin,
    /// Anyone who does not read as an admin.
    Other,
}

impl CostReader {
    pub fn new(is_admin: bool) -> Self {
        if is_admin { Self::Admin } else { Self::Other }
    }
}

impl CostVisibility {
    pub fn permits(self, reader: CostReader) -> bool {
        match self {
            Self::Everyone => true,
            Self::Admins => reader == CostReader::Admin,
            Self::Off => false,
        }
    }
}

/// Returns a workspace's rule for the visibility of costs.
pub async fn find(c: &mut Conn, workspace: WorkspaceId) -> Result<CostVisibility, DbError> {
    let row: Option<(CostVisibility,)> = c
        .q("select show_costs from workspace_policies where workspace_id = $1")
        .bind(workspace)
        .opt()
        .await?;
    Ok(row.map_or(CostVisibility::Everyone, |row| row.0))
}

/// Checks whether a reader sees costs in a workspace.
pub async fn are_visible(
    c: &mut Conn,
    workspace: WorkspaceId,
    reader: CostReader,
) -> Result<bool, DbError> {
    Ok(find(c, workspace).await?.permits(reader))
}

impl Task {
    /// The task without its costs.
    #[must_use]
    pub fn without_cost(mut self) -> Self {
        if let Some(usage) = &mut self.token_usage {
            usage.0.cost_usd = None;
        }
        self
    }

    pub fn has_cost(&self) -> bool {
        let usage = self.token_usage.as_ref();
        usage.is_some_and(|usage| usage.0.cost_usd.is_some())
    }

    /// The task as a reader sees it.
    ///
    /// # Errors
    /// Only database errors.
    pub async fn seen_by(self, c: &mut Conn, reader: CostReader) -> Result<Self, DbError> {
        if self.has_cost() && !are_visible(c, self.workspace_id, reader).await? {
            return Ok(self.without_cost());
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_shown_as_the_policy_states() {
        use CostReader::{Admin, Other};
        let seen = |rule: CostVisibility| [Admin, Other].map(|reader| rule.permits(reader));
        assert_eq!(seen(CostVisibility::Everyone), [true, true]);
        assert_eq!(seen(CostVisibility::Admins), [true, false]);
        assert_eq!(seen(CostVisibility::Off), [false, false]);
    }
}
