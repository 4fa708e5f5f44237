//! Metrics and logs for administrators (docs/operations.md).
//!
//! `table` lists all metrics. `requests` records HTTP metrics, `calls` records model metrics, and `process` records operating-system
//! metrics; `logs` defines the log format. Rare events are counted where they occur with the macros of `metrics`; frequent ones (each
//! message or frame) have a handle here that is looked up once.

mod calls;
pub mod logs;
pub mod process;
pub mod requests;
mod table;

use std::{
    sync::{LazyLock, OnceLock},
    time::Duration,
};

pub use calls::{Measured, Meter};
use metrics::{
    Histogram, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram,
};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
pub use table::{Kind, METRICS, Metric};

/// Number of commands that shared a commit.
pub static BATCH_SIZE: LazyLock<Histogram> = LazyLock::new(|| {
    ready();
    histogram!("openvibe_db_batch_size")
});

/// Time from the first command of a batch to its commit.
pub static COMMIT_SECONDS: LazyLock<Histogram> = LazyLock::new(|| {
    ready();
    histogram!("openvibe_db_commit_seconds")
});

/// Time from the commit of an event until it is in every socket's queue.
pub static FANOUT_SECONDS: LazyLock<Histogram> = LazyLock::new(|| {
    ready();
    histogram!("openvibe_fanout_seconds")
});

/// Duration in milliseconds, for log lines.
pub fn ms(took: Duration) -> u64 {
    u64::try_from(took.as_millis()).unwrap_or(u64::MAX)
}

/// Commit from which a release was built.
pub const COMMIT: Option<&str> = option_env!("OPENVIBE_COMMIT");

/// Name and version of this program.
pub fn program() -> String {
    let version = env!("CARGO_PKG_VERSION");
    match COMMIT {
        Some(commit) => format!("OpenVibe {version} ({commit})"),
        None => format!("OpenVibe {version}"),
    }
}

/// Recorder of this process's metrics. Several servers in one process share it. The first caller installs it while the others wait.
///
/// # Errors
/// Returns an error if another recorder is already installed in this process.
pub fn recorder() -> Result<PrometheusHandle, String> {
    static HANDLE: OnceLock<Result<PrometheusHandle, String>> = OnceLock::new();
    HANDLE.get_or_init(install).clone()
}

/// Installs the recorder before a handle is created, because an earlier handle would never record anything.
fn ready() {
    // The error can be ignored, because `recorder` returns it to callers that need the metrics.
    drop(recorder());
}

fn install() -> Result<PrometheusHandle, String> {
    let mut builder = PrometheusBuilder::new();
    for metric in METRICS {
        if let Kind::Histogram(buckets) = metric.kind {
            let name = Matcher::Full(metric.name.to_owned());
            builder = builder
                .set_buckets_for_metric(name, buckets)
                .map_err(|e| e.to_string())?;
        }
    }
    let handle = builder.install_recorder().map_err(|e| e.to_string())?;
    for metric in METRICS {
        match metric.kind {
            Kind::Counter => describe_counter!(metric.name, metric.unit, metric.help),
            Kind::Gauge => describe_gauge!(metric.name, metric.unit, metric.help),
            Kind::Histogram(_) => describe_histogram!(metric.name, metric.unit, metric.help),
        }
        // Initial values make the first increase of a counter visible.
        for labels in metric.begins_with {
            let labels: Vec<(&str, &str)> = metric
                .labels
                .iter()
                .copied()
                .zip(labels.iter().copied())
                .collect();
            match metric.kind {
                Kind::Counter => counter!(metric.name, &labels).absolute(0),
                Kind::Histogram(_) => drop(histogram!(metric.name, &labels)),
                Kind::Gauge => gauge!(metric.name, &labels).set(0.0),
            }
        }
    }
    gauge!("openvibe_build_info", "version" => env!("CARGO_PKG_VERSION")).set(1.0);
    Ok(handle)
}
