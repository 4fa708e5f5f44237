//! Answers of push services, for admins.

use std::collections::BTreeMap;

use serde::Serialize;

use super::client::service_of;
use crate::{
    auth::Role,
    db::{Conn, DbError, now},
    ids::UserId,
    outbound::Url,
};

/// Age of the oldest answers.
const COUNTED_FOR: std::time::Duration = std::time::Duration::from_hours(24);
/// Maximum number of deliveries, newest first, whose answers are counted.
const COUNTED_MAX: i64 = 10_000;

/// Answers of a push service with the same status.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct PushAnswers {
    /// Name of the push service, such as `Apple`.
    pub service: String,
    pub status: i32,
    pub count: i64,
}

/// Answers in the last 24 hours to messages about items in the workspaces of which the person is an admin.
///
/// # Errors
/// Only database errors.
pub async fn list(c: &mut Conn, user: UserId) -> Result<Vec<PushAnswers>, DbError> {
    let is_admin: bool = c
        .q("select exists (select 1 from members where user_id = $1 and role = $2)")
        .bind(user)
        .bind(Role::Admin)
        .value()
        .await?;
    if !is_admin {
        return Ok(Vec::new());
    }
    let counted: Vec<(String, i32, i64)> = c
        .q("select d.origin, d.status, count(*) as answers from (select origin, status, workspace_id from deliveries \
              where created_at >= $3 and kind <> 'mail' and status is not null order by created_at desc limit $4) d \
            join members m on m.workspace_id = d.workspace_id and m.user_id = $1 and m.role = $2 \
            group by d.origin, d.status order by d.origin, d.status")
        .bind(user)
        .bind(Role::Admin)
        .bind(now() - COUNTED_FOR)
        .bind(COUNTED_MAX)
        .all()
        .await?;
    let mut counts: BTreeMap<(String, i32), i64> = BTreeMap::new();
    for (origin, status, count) in counted {
        let url = Url::parse(&origin);
        let service = url.map_or(origin, |url| service_of(&url).to_owned());
        *counts.entry((service, status)).or_default() += count;
    }
    let answers = counts
        .into_iter()
        .map(|((service, status), count)| PushAnswers {
            service,
            status,
            count,
        });
    Ok(answers.collect())
}
