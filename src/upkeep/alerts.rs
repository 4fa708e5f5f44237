//! Notices for the server's admins about problems that cannot wait until they open Settings › Server.

use super::{choices::Choices, disk_trend, size_text, state::BackupState, updates::UpdateSearch};
use crate::{
    auth::{AuthError, workspaces},
    db::{Conn, DatabaseUrl, Db},
    disk::Space,
    inbox::server_alerts::{self, ServerAlert},
    release::Version,
    server::State,
    time::Timestamp,
};

/// Days until the disk is full, below which the admins get a notice.
const DAYS_LEFT_MIN: u64 = 7;

/// State of an alert: the problem of its part of the server, or none.
struct AlertState {
    alert: ServerAlert,
    problem: Option<String>,
}

impl AlertState {
    fn new(alert: ServerAlert, problem: Option<String>) -> Self {
        Self { alert, problem }
    }
}

/// Looks for problems, and opens or closes the notices about them.
///
/// # Errors
/// Only database errors.
pub async fn look(state: &State) -> Result<(), AuthError> {
    let mut c = state.db.read().await?;
    let stored = BackupState::read(&mut c).await?;
    let samples = disk_trend::read(&mut c).await?;
    let is_looking = Choices::read(&mut c).await?.look_for_updates;
    let search = UpdateSearch::read(&mut c).await?.filter(|_| is_looking);
    drop(c);
    let dir = &state.config.data_dir;
    let space = Space::of(dir).ok();
    let days =
        space.and_then(|space| disk_trend::days_left(&samples, space.free, Timestamp::now()));
    // With `PostgreSQL`, uploads are not on this disk.
    let has_uploads = matches!(state.config.database, DatabaseUrl::Sqlite(_));
    let failure = state.certificate.as_ref().and_then(|store| store.failure());
    let disk = disk_problem(space.filter(|_| has_uploads), days);
    let update = search.and_then(|search| update_problem(&search, Version::current()));
    let mut states = backup_states(&stored);
    states.extend([
        AlertState::new(
            ServerAlert::Certificate,
            failure.map(|failure| failure.text),
        ),
        AlertState::new(ServerAlert::Disk, disk),
        AlertState::new(ServerAlert::Update, update),
    ]);
    settle(&state.db, states).await
}

/// Opens or closes the notices about backups, after one was made or tested.
///
/// # Errors
/// Only database errors.
pub(super) async fn look_at_backups(db: &Db, stored: &BackupState) -> Result<(), AuthError> {
    settle(db, backup_states(stored)).await
}

async fn settle(db: &Db, states: Vec<AlertState>) -> Result<(), AuthError> {
    let Some(workspace) = workspaces::find_oldest(&mut db.read().await?).await? else {
        return Ok(());
    };
    db.write(workspace.0, async move |c: &mut Conn| {
        let at = Timestamp::now();
        for AlertState { alert, problem } in &states {
            server_alerts::settle(c, workspace, *alert, problem.as_deref(), at).await?;
        }
        Ok::<_, AuthError>(())
    })
    .await
}

fn backup_states(stored: &BackupState) -> Vec<AlertState> {
    let failed = stored.error.as_ref();
    let drill = stored.drill.as_ref();
    let fault = drill.and_then(|drill| drill.fault.as_ref());
    let failed = failed.map(|error| format!("The newest backup failed: {error}"));
    let fault = fault.map(|fault| format!("The newest backup cannot be restored: {fault}"));
    vec![
        AlertState::new(ServerAlert::Backup, failed),
        AlertState::new(ServerAlert::Drill, fault),
    ]
}

/// `space` is `None` if uploads are not on the disk.
fn disk_problem(space: Option<Space>, days_left: Option<u64>) -> Option<String> {
    if let Some(space) = space.filter(|space| space.is_nearly_low()) {
        return Some(format!(
            "{} free on the server's disk: uploads are paused below {}.",
            size_text(space.free),
            size_text(space.reserved())
        ));
    }
    let days = days_left.filter(|days| *days < DAYS_LEFT_MIN)?;
    Some(format!("The server's disk will be full in {days} days."))
}

fn update_problem(search: &UpdateSearch, running: Version) -> Option<String> {
    let latest = search.latest.filter(|latest| *latest > running)?;
    search
        .security
        .then(|| format!("OpenVibe {latest} closes a security hole: run `sudo openvibe update`."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_a_problem_before_uploads_are_paused() {
        let disk = |free: u64| Space {
            total: 100 << 30,
            free,
        };
        let said = disk_problem(Some(disk(3 << 29)), None).unwrap();
        assert_eq!(
            said,
            "1.5 GiB free on the server's disk: uploads are paused below 1.0 GiB."
        );
        assert_eq!(disk_problem(Some(disk(3 << 30)), Some(7)), None);
        let soon = disk_problem(Some(disk(3 << 30)), Some(6)).unwrap();
        assert_eq!(soon, "The server's disk will be full in 6 days.");
        assert_eq!(disk_problem(None, None), None);
    }

    #[test]
    fn only_a_newer_version_that_closes_a_hole_is_a_problem() {
        let running: Version = "1.3.0".parse().unwrap();
        for (latest, security, expected) in [
            ("1.4.0", true, true),
            ("1.4.0", false, false),
            ("1.3.0", true, false),
        ] {
            let search = serde_json::json!({
                "at": Timestamp::now(), "latest": latest, "security": security, "error": null,
            });
            let search: UpdateSearch = serde_json::from_value(search).unwrap();
            let found = update_problem(&search, running);
            assert_eq!(found.is_some(), expected, "{latest} {security}");
        }
    }
}
