//! Names of backups, when the next one is due, and which old ones are kept.

use std::{collections::BTreeSet, time::Duration};

use chrono::{DateTime, Datelike, NaiveDateTime, TimeDelta, Utc};

use crate::config::{BackupKeep, BackupTime};

/// Times after which a failed backup is tried again, one after the other.
const RETRIES: [Duration; 2] = [Duration::from_hours(1), Duration::from_hours(3)];
/// Time after the start at which a backup is made that is more than a day late.
const CATCH_UP_AFTER: TimeDelta = TimeDelta::minutes(5);
const DAY: TimeDelta = TimeDelta::days(1);
/// Format of the time in a name.
const TIME: &str = "%Y%m%dT%H%MZ";
const SUFFIX: &str = ".ovb";
/// Suffix of a backup that is being written.
pub const PARTIAL: &str = ".partial";

/// Name of a backup: `openvibe-CLUSTER-20260503T0330Z-1.3.0.ovb`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct BackupName {
    pub at: DateTime<Utc>,
    pub version: String,
    cluster: String,
}

impl BackupName {
    pub fn new(cluster: &str, at: DateTime<Utc>) -> Self {
        Self {
            at,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            cluster: cluster.to_owned(),
        }
    }

    /// Parses the name of a complete backup of this cluster; `None` for all other files, which are never touched.
    pub fn parse(text: &str, cluster: &str) -> Option<Self> {
        let rest = text.strip_prefix("openvibe-")?.strip_prefix(cluster)?;
        let (at, version) = rest
            .strip_prefix('-')?
            .strip_suffix(SUFFIX)?
            .split_once('-')?;
        let is_version = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'+');
        let name = Self {
            at: NaiveDateTime::parse_from_str(at, TIME).ok()?.and_utc(),
            version: version.to_owned(),
            cluster: cluster.to_owned(),
        };
        (version.bytes().all(is_version) && name.text() == text).then_some(name)
    }

    pub fn text(&self) -> String {
        format!(
            "{}{}-{}{SUFFIX}",
            prefix(&self.cluster),
            self.at.format(TIME),
            self.version
        )
    }
}

/// Beginning of the names of this cluster's backups.
pub fn prefix(cluster: &str) -> String {
    format!("openvibe-{cluster}-")
}

/// What has happened so far.
#[derive(Debug, Clone, Copy, Default)]
pub struct History {
    /// Start of the newest attempt.
    pub tried_at: Option<DateTime<Utc>>,
    /// Number of attempts that failed since the newest success.
    pub failures: u32,
}

/// Time of the next backup. `started` is the start of this process.
pub fn next_at(
    at: BackupTime,
    history: History,
    started: DateTime<Utc>,
    now: DateTime<Utc>,
) -> DateTime<Utc> {
    // If the clock was set back, the newest attempt counts as being made now.
    let tried = history.tried_at.map(|tried| tried.min(now));
    let retry = usize::try_from(history.failures)
        .ok()
        .and_then(|n| RETRIES.get(n.checked_sub(1)?));
    if let (Some(tried), Some(after)) = (tried, retry) {
        return tried + TimeDelta::from_std(*after).unwrap_or(DAY);
    }
    let slot = slot_after(at, tried.unwrap_or(started));
    if slot + DAY < now {
        return (started + CATCH_UP_AFTER).max(slot);
    }
    slot
}

/// The first time after `moment` at which the clock shows `at`.
fn slot_after(at: BackupTime, moment: DateTime<Utc>) -> DateTime<Utc> {
    let today = moment.date_naive().and_time(at.0).and_utc();
    if today > moment { today } else { today + DAY }
}

/// Returns the backups to delete: all but the newest of each of the newest days, weeks, and months. The newest one is always kept.
pub fn expired(mut all: Vec<BackupName>, keep: BackupKeep) -> Vec<BackupName> {
    all.sort_by(|a, b| b.cmp(a));
    let (mut days, mut weeks, mut months) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    let mut is_kept = |name: &BackupName| {
        let (day, week) = (name.at.date_naive(), name.at.iso_week());
        let by_day = days.len() < keep.days && days.insert(day);
        let by_week = weeks.len() < keep.weeks && weeks.insert((week.year(), week.week()));
        let month = (day.year(), day.month());
        let by_month = months.len() < keep.months && months.insert(month);
        by_day || by_week || by_month
    };
    let mut expired = Vec::new();
    for (nth, name) in all.into_iter().enumerate() {
        if !is_kept(&name) && nth > 0 {
            expired.push(name);
        }
    }
    expired
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLUSTER: &str = "0123456789abcdef0123456789abcdef";
    const KEEP: BackupKeep = BackupKeep {
        days: 7,
        weeks: 4,
        months: 6,
    };

    fn time(text: &str) -> DateTime<Utc> {
        text.parse().unwrap()
    }

    fn half_past_three() -> BackupTime {
        BackupTime::parse("03:30").unwrap()
    }

    #[test]
    fn only_complete_backups_of_this_cluster_have_a_name() {
        let name = BackupName::new(CLUSTER, time("2026-05-03T03:30:00Z"));
        let text = name.text();
        let version = env!("CARGO_PKG_VERSION");
        assert_eq!(
            text,
            format!("openvibe-{CLUSTER}-20260503T0330Z-{version}.ovb")
        );
        assert_eq!(BackupName::parse(&text, CLUSTER), Some(name));
        for other in [
            text.replace("0123", "3210"),
            format!("{text}{PARTIAL}"),
            format!("copy-of-{text}"),
            text.replace("0330Z", "0370Z"),
            text.replace(version, "../x"),
            "before-1.3.0.ovb".to_owned(),
            "photos.zip".to_owned(),
            String::new(),
        ] {
            assert_eq!(BackupName::parse(&other, CLUSTER), None, "{other}");
        }
    }

    #[test]
    fn a_backup_is_due_at_its_time_and_after_failures() {
        let started = time("2026-05-03T10:00:00Z");
        let after = |tried: &str, failures| History {
            tried_at: (!tried.is_empty()).then(|| time(tried)),
            failures,
        };
        for (history, now, due) in [
            // A new server waits for its first night.
            (after("", 0), "2026-05-03T10:01:00Z", "2026-05-04T03:30:00Z"),
            (
                after("2026-05-03T03:30:00Z", 0),
                "2026-05-03T10:01:00Z",
                "2026-05-04T03:30:00Z",
            ),
            // One missed night: at the next start, at once.
            (
                after("2026-05-02T03:30:00Z", 0),
                "2026-05-03T10:01:00Z",
                "2026-05-03T03:30:00Z",
            ),
            // More than a day late: soon after the start.
            (
                after("2026-05-01T03:30:00Z", 0),
                "2026-05-03T10:01:00Z",
                "2026-05-03T10:05:00Z",
            ),
            (
                after("2026-05-03T03:30:00Z", 1),
                "2026-05-03T03:31:00Z",
                "2026-05-03T04:30:00Z",
            ),
            (
                after("2026-05-03T04:30:00Z", 2),
                "2026-05-03T04:31:00Z",
                "2026-05-03T07:30:00Z",
            ),
            (
                after("2026-05-03T07:30:00Z", 3),
                "2026-05-03T07:31:00Z",
                "2026-05-04T03:30:00Z",
            ),
            // The clock was set back by a year.
            (
                after("2027-05-03T03:30:00Z", 0),
                "2026-05-03T12:00:00Z",
                "2026-05-04T03:30:00Z",
            ),
        ] {
            let found = next_at(half_past_three(), history, started, time(now));
            assert_eq!(found, time(due), "{history:?} at {now}");
        }
    }

    #[test]
    fn over_400_days_each_day_has_one_backup_and_few_are_kept() {
        let mut now = time("2026-01-01T00:00:00Z");
        let (started, end) = (now, now + TimeDelta::days(400));
        let (mut kept, mut made) = (Vec::<BackupName>::new(), 0);
        let mut history = History::default();
        while now < end {
            now = next_at(half_past_three(), history, started, now).max(now);
            made += 1;
            history.tried_at = Some(now);
            kept.push(BackupName::new(CLUSTER, now));
            let gone = expired(kept.clone(), KEEP);
            kept.retain(|name| !gone.contains(name));
            assert_eq!(kept.last().unwrap().at, now, "the newest one is kept");
            now += TimeDelta::seconds(1);
        }
        assert_eq!(made, 401);
        assert!((7..=17).contains(&kept.len()), "{}", kept.len());
        let oldest = kept.iter().map(|name| name.at).min().unwrap();
        // Five whole months, and the last day of the one before.
        assert!(end - oldest > TimeDelta::days(120), "{oldest}");
    }

    #[test]
    fn the_newest_backup_is_never_deleted() {
        let only = BackupName::new(CLUSTER, time("2020-01-01T00:00:00Z"));
        let nothing = BackupKeep {
            days: 0,
            weeks: 0,
            months: 0,
        };
        assert_eq!(expired(vec![only.clone()], nothing), []);
        let newer = BackupName::new(CLUSTER, time("2020-01-02T00:00:00Z"));
        assert_eq!(expired(vec![newer, only.clone()], nothing), [only]);
    }
}
