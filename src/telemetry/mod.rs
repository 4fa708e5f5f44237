//! What is measured and logged, for whoever runs the server (docs/operations.md).
//!
//! `table` names every metric there is; `requests` has those of HTTP, `calls` those of models, `process` those of the
//! operating system, `logs` the shape of a line. Where something happens seldom, it is counted there by the macros of
//! `metrics`; what happens for every message or frame has its handle here, looked up once.

mod calls;
pub mod logs;
pub mod process;
pub mod requests;
mod table;

use std::{
    sync::{LazyLock, OnceLock},
    time::Duration,
};

pub use calls::Measured;
use metrics::{
    Histogram, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram,
};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
pub use table::{Kind, METRICS, Metric};

/// Commands that shared a commit.
pub static BATCH_SIZE: LazyLock<Histogram> = LazyLock::new(|| {
    ready();
    histogram!("openvibe_db_batch_size")
});

/// From the first command of a batch to its commit.
pub static COMMIT_SECONDS: LazyLock<Histogram> = LazyLock::new(|| {
    ready();
    histogram!("openvibe_db_commit_seconds")
});

/// From an event's commit until every socket's queue has it.
pub static FANOUT_SECONDS: LazyLock<Histogram> = LazyLock::new(|| {
    ready();
    histogram!("openvibe_fanout_seconds")
});

/// Milliseconds for a line of the log.
pub fn ms(took: Duration) -> u64 {
    u64::try_from(took.as_millis()).unwrap_or(u64::MAX)
}

/// What reads the figures of this process. Several servers of one process share it; who comes first installs it while the others
/// wait.
///
/// # Errors
/// When something else of this process measures already.
pub fn recorder() -> Result<PrometheusHandle, String> {
    static HANDLE: OnceLock<Result<PrometheusHandle, String>> = OnceLock::new();
    HANDLE.get_or_init(install).clone()
}

/// A handle that is taken before the recorder is there would count nothing for ever.
fn ready() {
    // Who needs the figures asks for the recorder and hears of it.
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
        // What is there from the start is seen to rise when it does so for the first time.
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
