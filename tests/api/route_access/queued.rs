//! Permissions are checked when a queued write runs, so they do not include access that an earlier command in the queue revokes.

use std::time::Duration;

use openvibe::db::{Conn, DbError, Engine, now};
use tokio::{
    sync::oneshot,
    task::{AbortHandle, JoinSet},
};
use uuid::Uuid;

use super::{
    cell_of, in_parts,
    recipes::recipe,
    send,
    table::{COLUMNS, Cell, Row, TestCaller},
    world::AccessFixture,
};
use crate::support::within;

/// Change to the caller's access while the writer is busy.
#[derive(Debug, Clone, Copy)]
enum Withdrawal {
    Demotion,
    Removal,
    SessionEnd,
    KeyRevocation(&'static str),
}

impl Withdrawal {
    /// The caller that loses access, and the caller with the remaining permissions.
    fn callers(self) -> (TestCaller, TestCaller) {
        match self {
            Self::Demotion => (TestCaller::Admin, TestCaller::Viewer),
            Self::Removal => (TestCaller::Admin, TestCaller::Foreign),
            Self::SessionEnd => (TestCaller::Admin, TestCaller::Nobody),
            Self::KeyRevocation(scope) => (TestCaller::Key(scope), TestCaller::Nobody),
        }
    }

    async fn apply(self, c: &mut Conn, user: Uuid) -> Result<(), DbError> {
        let sql = match self {
            Self::Demotion => "update members set role = 'viewer' where user_id = $1",
            Self::Removal => "delete from members where user_id = $1",
            Self::SessionEnd => "delete from sessions where user_id = $1",
            Self::KeyRevocation(_) => "delete from api_keys where user_id = $1",
        };
        // Deleting the row of `members` does not delete these rows.
        if matches!(self, Self::Removal) {
            c.q("delete from channel_members where user_id = $1")
                .bind(user)
                .run()
                .await?;
        }
        c.q(sql).bind(user).run().await?;
        Ok(())
    }
}

/// A running command that has not committed its changes.
struct Busy {
    release: oneshot::Sender<()>,
    done: JoinSet<Result<(), DbError>>,
}

/// `PostgreSQL` ends a writer's transaction that runs no statement for 3 seconds.
const STATEMENT_EVERY: Duration = Duration::from_millis(500);

/// Revokes access in a transaction that commits after `release`; until then, readers see the previous state.
async fn withdraw(w: &AccessFixture, withdrawal: Withdrawal, user: Uuid, key: Uuid) -> Busy {
    let (release, released) = oneshot::channel::<()>();
    let (begin, begun) = oneshot::channel::<()>();
    // The writer may run a command again.
    let once = std::sync::Mutex::new(Some((begin, released)));
    let db = w.app.db().clone();
    let mut done = JoinSet::new();
    done.spawn(async move {
        db.write(key, async move |c: &mut Conn| {
            withdrawal.apply(c, user).await?;
            let first = once.lock().unwrap().take();
            if let Some((begin, mut released)) = first {
                begin.send(()).ok();
                while tokio::time::timeout(STATEMENT_EVERY, &mut released)
                    .await
                    .is_err()
                {
                    c.q("select 1").run().await?;
                }
            }
            Ok(())
        })
        .await
    });
    within("the writer to be busy", begun).await.unwrap();
    Busy { release, done }
}

impl Busy {
    async fn release(mut self) {
        self.release.send(()).ok();
        let done = within("the writer to be free", self.done.join_next()).await;
        done.unwrap().unwrap().unwrap();
    }
}

/// Waits until a command is queued, or until `sent` has ended without queuing one.
async fn queued(w: &AccessFixture, sent: &AbortHandle) {
    within("a command to be queued", async {
        while w.app.db().queued_writes() == 0 && !sent.is_finished() {
            crate::support::pause().await;
        }
    })
    .await;
}

/// Marks all keys as used, because recording a key's first use would queue another command.
async fn note_use_of_keys(w: &AccessFixture) {
    let note = async |c: &mut Conn| {
        c.q("update api_keys set last_used_at = $1")
            .bind(now())
            .run()
            .await
    };
    w.app.db().write(Uuid::nil(), note).await.unwrap();
}

/// Key of the writer that runs the route's commands: account commands share one writer, and all others use the workspace's.
fn writer_of(w: &AccessFixture, row: &Row) -> Uuid {
    if row.path().starts_with("/v1/auth/") {
        Uuid::nil()
    } else {
        uuid(&w.ada.workspace)
    }
}

fn uuid(id: &str) -> Uuid {
    let id: openvibe::ids::UserId = id
        .split_once('_')
        .map(|(_, rest)| format!("user_{rest}"))
        .unwrap()
        .parse()
        .unwrap();
    id.0
}

/// Queues a write behind a command that revokes the caller's access. Returns a description of an unexpected response.
async fn check(w: &AccessFixture, row: &Row, withdrawal: Withdrawal) -> Option<String> {
    let (who, left) = withdrawal.callers();
    let cell = |who: TestCaller| {
        let columns = COLUMNS.iter().zip(&row.cells);
        columns
            .filter(|(c, _)| **c == who)
            .map(|(_, cell)| *cell)
            .next()
    };
    // The new workspace has its own writer, which does not wait for that of accounts.
    let is_elsewhere =
        row.route == "POST /v1/workspaces" && w.app.db().engine() == Engine::Postgres;
    // A call to a model, a provider, or a push service is recorded even if the caller loses access; only storing the response needs
    // permission.
    let is_call = [
        "POST /v1/responses",
        "POST /v1/chat/completions",
        "POST /v1/personas/{id}/compress",
        "POST /v1/agents/draft",
        "POST /v1/files/{id}/suggest-alt",
        "POST /v1/identity-providers/{id}/try",
        "POST /v1/push/devices/{id}/test",
    ]
    .contains(&row.route.as_str());
    if is_elsewhere
        || is_call
        || cell(who) != Some(Cell::Ok)
        || !matches!(cell(left), Some(Cell::Refused(_)))
    {
        return None;
    }
    let double = w.double(who).await;
    let by = if row.is_own() { &double.person } else { &w.olu };
    let mut call = recipe(w, row, who, by).await;
    let caller = call.sender.take().unwrap_or(double.asks);
    w.settle().await;
    note_use_of_keys(w).await;
    let busy = withdraw(w, withdrawal, uuid(&caller.id), writer_of(w, row)).await;
    let mut calls = JoinSet::new();
    let sent = calls.spawn(async move { send(&call, &caller).await });
    queued(w, &sent).await;
    // If no command was queued, nothing was written, as in a model test or a preview.
    let has_written = !sent.is_finished();
    busy.release().await;
    let answer = within("an answer", calls.join_next()).await;
    let (status, text) = answer.unwrap().unwrap();
    if has_written && !matches!(cell_of(status), Cell::Refused(_)) {
        return Some(format!(
            "{} after {withdrawal:?}: {status} {text}",
            row.name()
        ));
    }
    None
}

async fn check_queued(rows: &[Row]) {
    let w = AccessFixture::new().await;
    let mut wrong = Vec::new();
    for row in rows {
        let exports = row.route == "GET /v1/members/{user_id}/export";
        if !(row.changes() || exports) {
            continue;
        }
        let key = COLUMNS
            .iter()
            .zip(&row.cells)
            .find_map(|(who, cell)| match (who, cell) {
                (TestCaller::Key(scope), Cell::Ok) => Some(Withdrawal::KeyRevocation(scope)),
                _ => None,
            });
        let withdrawals = [
            Some(Withdrawal::Demotion),
            Some(Withdrawal::Removal),
            Some(Withdrawal::SessionEnd),
            key,
        ];
        for withdrawal in withdrawals.into_iter().flatten() {
            // The queued command may have been that of a background job, while the call writes nothing. A wrong decision repeats.
            if check(&w, row, withdrawal).await.is_some() {
                wrong.extend(check(&w, row, withdrawal).await);
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "decided before its turn:\n{}",
        wrong.join("\n")
    );
}

in_parts!(lost_access_applies_to_queued_writes, check_queued:
    part_1 = 0, part_2 = 1, part_3 = 2, part_4 = 3, part_5 = 4, part_6 = 5, part_7 = 6, part_8 = 7,
);
