//! Check `data`: the data directory and its disk.

use std::{
    fs::{self, File},
    io::{self, Write},
    os::unix::fs::MetadataExt,
    path::Path,
    time::{Duration, Instant},
};

use super::{
    finding::{CheckState, Finding},
    subject::{CheckedServer, Program},
};
use crate::{
    blocking::blocking,
    db::DatabaseUrl,
    disk::{Space, free_bytes},
    time::Timestamp,
    upkeep::{disk_trend, size_text},
};

/// Free space that a disk should have, in bytes and as a part in percent.
const FREE_BYTES_MIN: u64 = 1 << 30;
const FREE_PERCENT_MIN: u64 = 20;
/// Days until the disk is full, below which it should be enlarged.
const DAYS_LEFT_MIN: u64 = 7;
/// Time that 99 of 100 writes to disk should take at most.
const SYNC_MAX: Duration = Duration::from_millis(50);
const SYNCS: usize = 100;
/// Time limit of all these writes.
const SYNCS_WITHIN: Duration = Duration::from_secs(3);
/// Types of network file systems (statfs(2)): NFS, SMB, SMB 2, CIFS.
const NETWORK_FILE_SYSTEMS: [i64; 4] = [0x6969, 0x517B, 0xFE53_4D42, 0xFF53_4D42];

pub(super) async fn check(s: &CheckedServer) -> Finding {
    let dir = s.config.data_dir.clone();
    let has_database = matches!(s.config.database, DatabaseUrl::Sqlite(_));
    let is_stopped = matches!(s.program, Program::Stopped);
    let looked = blocking((), move || look(&dir, has_database, is_stopped));
    let looked = looked.await;
    let looked = looked.unwrap_or_else(|_| Finding::skipped("the data directory was not read"));
    match days_left(s).await {
        Some(days) if days < DAYS_LEFT_MIN && looked.state != CheckState::Failed => {
            Finding::warning(
                format!("the disk of the data directory will be full in {days} days"),
                "free some space, or use a larger disk",
            )
        }
        _ => looked,
    }
}

/// Days until the disk is full, if that is known.
async fn days_left(s: &CheckedServer) -> Option<u64> {
    let samples = disk_trend::read(&mut s.database().ok()?.read().await.ok()?).await;
    let free = free_bytes(&s.config.data_dir).ok()?;
    disk_trend::days_left(&samples.ok()?, free, Timestamp::now())
}

fn look(dir: &Path, has_database: bool, is_stopped: bool) -> Finding {
    let shown = dir.display();
    let found = match fs::metadata(dir) {
        Ok(found) => found,
        Err(e) if e.kind() == io::ErrorKind::NotFound && is_stopped => {
            return Finding::skipped(format!("there is no {shown} yet"));
        }
        Err(e) => {
            return Finding::failed(
                format!("{shown} cannot be read ({e})"),
                "set OPENVIBE_DATA_DIR to the server's directory, or run this as its user",
            );
        }
    };
    if !found.is_dir() {
        return Finding::failed(
            format!("{shown} is not a directory"),
            "set OPENVIBE_DATA_DIR to the server's directory",
        );
    }
    let mut problems = Vec::new();
    let user = rustix::process::geteuid().as_raw();
    if found.uid() != user {
        problems.push(Finding::failed(
            format!(
                "{shown} belongs to user {}, not to user {user}",
                found.uid()
            ),
            format!("chown -R {user} {shown}"),
        ));
    }
    if found.mode() & 0o077 != 0 {
        problems.push(Finding::warning(
            format!("others on this machine can enter {shown}"),
            format!("chmod go= {shown}"),
        ));
    }
    if has_database && is_on_network(dir) {
        problems.push(Finding::failed(
            format!("the SQLite database in {shown} is on a network file system, which damages it"),
            "move the data to a local disk, or use PostgreSQL",
        ));
    }
    let space = measured_space(dir);
    problems.extend(space.as_ref().ok().and_then(|space| low_space(dir, *space)));
    match sync_time(dir) {
        Ok(time) if time > SYNC_MAX => problems.push(Finding::warning(
            format!("the disk needs {} ms to store a change", time.as_millis()),
            "use a faster disk, such as an SSD: each message waits for it",
        )),
        Ok(_) => {}
        Err(e) => problems.push(Finding::failed(
            format!("files cannot be written in {shown} ({e})"),
            "free some space, and check that the disk is not read-only",
        )),
    }
    let free = space.map_or_else(
        |_| "unknown space".to_owned(),
        |space| size_text(space.free),
    );
    Finding::of(problems, format!("{shown} has {free} free"))
}

/// Space on the disk; in debug builds, tests can set the free space with `OPENVIBE_FREE_BYTES`.
fn measured_space(dir: &Path) -> io::Result<Space> {
    let space = Space::of(dir)?;
    #[cfg(test_hooks)]
    if let Some(free) = std::env::var("OPENVIBE_FREE_BYTES")
        .ok()
        .and_then(|bytes| bytes.parse().ok())
    {
        return Ok(Space { free, ..space });
    }
    Ok(space)
}

fn low_space(dir: &Path, space: Space) -> Option<Finding> {
    let shown = dir.display();
    let (free, total) = (size_text(space.free), size_text(space.total));
    if space.is_low() {
        return Some(Finding::failed(
            format!("the disk of {shown} has {free} free, so uploads are refused"),
            "free some space, or use a larger disk",
        ));
    }
    let is_small = space.free < FREE_BYTES_MIN || space.free < space.total / 100 * FREE_PERCENT_MIN;
    is_small.then(|| {
        Finding::warning(
            format!("the disk of {shown} has {free} of {total} free"),
            format!(
                "keep {FREE_PERCENT_MIN} % free: delete what is not needed, or use a larger disk"
            ),
        )
    })
}

fn is_on_network(dir: &Path) -> bool {
    rustix::fs::statfs(dir).is_ok_and(|found| {
        #[allow(
            clippy::allow_attributes,
            clippy::unnecessary_cast,
            clippy::cast_lossless,
            reason = "the type depends on the platform"
        )]
        let kind = found.f_type as i64 & 0xFFFF_FFFF;
        NETWORK_FILE_SYSTEMS.contains(&kind)
    })
}

/// 99th percentile of the times that small writes need until they are on disk. The file is deleted.
fn sync_time(dir: &Path) -> io::Result<Duration> {
    let path = dir.join(format!(".doctor-{}", std::process::id()));
    let begun = Instant::now();
    let mut times = Vec::new();
    let mut write = || {
        let mut file = File::create(&path)?;
        while times.len() < SYNCS && begun.elapsed() < SYNCS_WITHIN {
            let started = Instant::now();
            file.write_all(&[0; 4096])?;
            file.sync_data()?;
            times.push(started.elapsed());
        }
        Ok(())
    };
    let written = write();
    drop(fs::remove_file(&path));
    written.map(|()| {
        times.sort();
        let at = times.len() * 99 / 100;
        times
            .get(at.min(times.len().saturating_sub(1)))
            .copied()
            .unwrap_or_default()
    })
}
