//! Search for a new version, if an admin permits it: a JSON value in `meta`.

use std::time::Duration;

use anyhow::Context;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::choices::Choices;
use crate::{
    db::{Conn, DbError},
    release::{self, Release, Source, Version},
    server::State,
    time::Timestamp,
};

const LOOK_EVERY: Duration = Duration::from_hours(24);
/// Maximum time of a search.
const LOOK_WITHIN: Duration = Duration::from_mins(1);

/// Result of the latest search.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct UpdateSearch {
    at: Timestamp,
    /// Newest version; `None` if the search failed.
    pub latest: Option<Version>,
    /// True if the newest version closes a security hole.
    pub security: bool,
    /// Cause of a failure.
    pub error: Option<String>,
}

impl UpdateSearch {
    /// # Errors
    /// Only database errors.
    pub async fn read(c: &mut Conn) -> Result<Option<Self>, DbError> {
        let row = c
            .q("select value from meta where key = 'update_search'")
            .opt::<(String,)>()
            .await?;
        Ok(row.and_then(|(value,)| serde_json::from_str(&value).ok()))
    }
}

/// Looks for a new version if an admin permits it and the last search was a day ago.
///
/// # Errors
/// Only database errors.
pub async fn look(state: &State) -> Result<(), DbError> {
    let mut c = state.db.read().await?;
    let is_permitted = Choices::read(&mut c).await?.look_for_updates && !state.config.is_quiet;
    let last = UpdateSearch::read(&mut c).await?;
    drop(c);
    let now = Timestamp::now();
    if !is_permitted || last.is_some_and(|last| last.at + LOOK_EVERY > now) {
        return Ok(());
    }
    let found = tokio::time::timeout(LOOK_WITHIN, newest(state)).await;
    let found = found.unwrap_or_else(|_| Err(anyhow::anyhow!("there was no answer in time")));
    let search = match found {
        Ok(release) => UpdateSearch {
            at: now,
            latest: Some(release.latest.version),
            security: release.latest.security,
            error: None,
        },
        Err(e) => UpdateSearch {
            at: now,
            latest: None,
            security: false,
            error: Some(format!("{e:#}")),
        },
    };
    let search = serde_json::to_string(&search).map_err(|e| DbError::Start(e.to_string()))?;
    state
        .db
        .write(Uuid::nil(), async move |c: &mut Conn| {
            c.q("insert into meta (key, value) values ('update_search', $1) on conflict (key) do update set value = excluded.value")
                .bind(search.clone())
                .run()
                .await?;
            Ok(())
        })
        .await
}

async fn newest(state: &State) -> anyhow::Result<Release> {
    let address = release::address(state.config.releases.as_deref());
    let address = address.context("there is no address of releases: set OPENVIBE_RELEASES")?;
    Release::open(Source::parse(address)?).await
}
