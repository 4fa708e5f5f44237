//! Providers that fail for long: notices for the admins of the server, and facts for the doctor.

use std::time::Duration;

use futures::future::join_all;

use super::{
    SignInFault,
    client::ProviderClient,
    notices,
    provider::{self, ProviderState, SeenState},
};
use crate::{
    auth::{AuthError, workspaces},
    db::{Conn, Db, DbError, dialect, now},
    ids::IdentityProviderId,
    inbox::notice,
    time::Timestamp,
};

/// Time for which a provider fails before the admins of the server get a notice.
pub const NOTICED_AFTER: Duration = Duration::from_hours(1);

/// Opens notices about providers that have failed for an hour, and closes those that are settled. A provider that did not answer is
/// asked once more before, because nobody may have tried to sign in since.
///
/// # Errors
/// Only database errors.
pub async fn follow(db: &Db, client: &ProviderClient) -> Result<(), AuthError> {
    close_settled(db).await?;
    let began_before = now() - NOTICED_AFTER;
    let failing = provider::list_enabled(&mut db.read().await?).await?;
    let failing = failing
        .into_iter()
        .filter(|provider| provider.failing_since.is_some_and(|at| at <= began_before));
    let asked = failing.map(|provider| async move {
        let may_answer = provider.state == ProviderState::Unreachable;
        let answers = may_answer && Box::pin(client.look(&provider.issuer)).await.is_ok();
        (provider.id, answers)
    });
    for (id, answers) in join_all(asked).await {
        if answers {
            db.write(uuid::Uuid::nil(), async move |c: &mut Conn| {
                provider::set_state(c, id, &SeenState::OK).await
            })
            .await?;
        } else {
            db.write(uuid::Uuid::nil(), async move |c: &mut Conn| {
                announce(c, id, began_before).await
            })
            .await?;
        }
    }
    close_settled(db).await
}

/// Opens a notice about a provider, once for each time that it fails.
async fn announce(
    c: &mut Conn,
    id: IdentityProviderId,
    began_before: Timestamp,
) -> Result<(), AuthError> {
    let Some(oldest) = workspaces::find_oldest(c).await? else {
        return Ok(());
    };
    dialect::lock_workspace(c, oldest.0).await?;
    let announced = c
        .q("update identity_providers set failure_noticed_at = $3 where id = $1 and enabled = TRUE and failing_since <= $2 \
            and failure_noticed_at is null")
        .bind(id)
        .bind(began_before)
        .bind(now())
        .run()
        .await?;
    if announced > 0 {
        notices::provider_fails(c, oldest, id).await?;
    }
    Ok(())
}

/// Closes the notices about providers that work again, or are turned off.
async fn close_settled(db: &Db) -> Result<(), AuthError> {
    let settled: Vec<(IdentityProviderId,)> = db
        .read()
        .await?
        .q("select id from identity_providers where failure_noticed_at is not null and (failing_since is null or enabled = FALSE) \
            order by id limit $1")
        .bind(provider::PROVIDERS_MAX)
        .all()
        .await?;
    for (id,) in settled {
        db.write(uuid::Uuid::nil(), async move |c: &mut Conn| {
            close(c, id).await
        })
        .await?;
    }
    Ok(())
}

async fn close(c: &mut Conn, id: IdentityProviderId) -> Result<(), AuthError> {
    let Some(oldest) = workspaces::find_oldest(c).await? else {
        return Ok(());
    };
    dialect::lock_workspace(c, oldest.0).await?;
    let settled = c
        .q("update identity_providers set failure_noticed_at = null where id = $1 and failure_noticed_at is not null \
            and (failing_since is null or enabled = FALSE)")
        .bind(id)
        .run()
        .await?;
    if settled > 0 {
        notice::close_notice(c, oldest, id.0, None).await?;
    }
    Ok(())
}

/// A provider that is turned on, as the doctor finds it.
#[derive(Debug)]
pub(crate) struct CheckedProvider {
    pub name: String,
    pub issuer: String,
    /// Newest failure of a sign-in, if none succeeded since, and the time for which they fail.
    pub failure: Option<(String, Duration)>,
    /// Reason why the provider's document and keys cannot be read now.
    pub fault: Option<SignInFault>,
}

/// Asks all providers that are turned on, at the same time, each for at most `within`.
///
/// # Errors
/// Only database errors.
pub(crate) async fn check(
    db: &Db,
    client: &ProviderClient,
    within: Duration,
) -> Result<Vec<CheckedProvider>, DbError> {
    let enabled = provider::list_enabled(&mut db.read().await?).await?;
    let at = now();
    let asked = enabled.into_iter().map(|provider| async move {
        let asked = Box::pin(client.look(&provider.issuer));
        let fault = match tokio::time::timeout(within, asked).await {
            Ok(answer) => answer.err(),
            Err(_) => Some(SignInFault::Unreachable(format!(
                "no answer within {} s",
                within.as_secs()
            ))),
        };
        let since = provider.failing_since;
        CheckedProvider {
            failure: provider.error.zip(since.map(|began| at.since(began))),
            name: provider.name,
            issuer: provider.issuer,
            fault,
        }
    });
    Ok(join_all(asked).await)
}
