//! Every metric there is. A test keeps docs/operations.md and what `/metrics` gives in agreement with it.

use metrics::Unit;

pub enum Kind {
    Counter,
    Gauge,
    /// With the upper bounds of its buckets.
    Histogram(&'static [f64]),
}

impl Kind {
    /// As Prometheus names it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram(_) => "histogram",
        }
    }
}

pub struct Metric {
    pub name: &'static str,
    pub labels: &'static [&'static str],
    pub kind: Kind,
    pub unit: Unit,
    /// What it says, for people.
    pub help: &'static str,
    /// Values of the labels with which it is there from the start, at 0.
    pub begins_with: &'static [&'static [&'static str]],
}

/// Work within the process: tens of microseconds to a second.
const SHORT: &[f64] = &[
    0.0001, 0.000_25, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
];
/// A request or a commit: a millisecond to the time after which it is given up.
const REQUEST: &[f64] = &[
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
];
/// Models: a tenth of a second to the longest attempt.
const CALL: &[f64] = &[
    0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 60.0, 120.0, 300.0, 900.0,
];
/// Up to the most commands of a batch.
const BATCH: &[f64] = &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 48.0, 64.0];

const ONCE: &[&[&str]] = &[&[]];

const fn metric(
    name: &'static str,
    labels: &'static [&'static str],
    kind: Kind,
    unit: Unit,
    help: &'static str,
) -> Metric {
    Metric {
        name,
        labels,
        kind,
        unit,
        help,
        begins_with: &[],
    }
}

impl Metric {
    const fn there_from_start(mut self, labels: &'static [&'static [&'static str]]) -> Self {
        self.begins_with = labels;
        self
    }
}

pub const METRICS: &[Metric] = &[
    metric(
        "openvibe_http_requests_total",
        &["method", "route", "status"],
        Kind::Counter,
        Unit::Count,
        "requests answered, by the pattern of their route (`unmatched`: the client's files, and what is not there); \
         status 499: who asked went away first",
    ),
    metric(
        "openvibe_http_request_seconds",
        &["method", "route"],
        Kind::Histogram(REQUEST),
        Unit::Seconds,
        "until the answer begins; what streams or stays open afterwards does not count",
    ),
    metric(
        "openvibe_rate_limited_total",
        &["limit"],
        Kind::Counter,
        Unit::Count,
        "requests, log-ins and sockets refused because there were too many; `connections`: closed beyond an address's share; `bodies`, `unsent`: 503 for a share of memory; `slow_readers`: connections whose client took too long to read",
    ),
    metric(
        "openvibe_sockets",
        &[],
        Kind::Gauge,
        Unit::Count,
        "sockets that are open in a workspace",
    )
    .there_from_start(ONCE),
    metric(
        "openvibe_sockets_closed_total",
        &["reason"],
        Kind::Counter,
        Unit::Count,
        "sockets that ended: `left`, `going_away` (shutdown, silence, told to resume), `too_slow`, `not_authenticated`, \
         `not_in_workspace`, `policy`, `too_large`, `no_hello`",
    )
    .there_from_start(&[
        &["left"],
        &["going_away"],
        &["too_slow"],
        &["not_authenticated"],
        &["not_in_workspace"],
        &["policy"],
        &["too_large"],
        &["no_hello"],
    ]),
    metric(
        "openvibe_fanout_seconds",
        &[],
        Kind::Histogram(SHORT),
        Unit::Seconds,
        "from an event's commit until it is in the queue of every socket that may see it",
    )
    .there_from_start(ONCE),
    metric(
        "openvibe_db_up",
        &[],
        Kind::Gauge,
        Unit::Count,
        "1 when the database answered this look within 2 s; at 0 the figures of tasks and of its size are NaN",
    ),
    metric(
        "openvibe_db_write_queue",
        &[],
        Kind::Gauge,
        Unit::Count,
        "write commands that wait for their batch; at 2,048 for each writer, further ones wait outside and then get 503",
    ),
    metric(
        "openvibe_db_batch_size",
        &[],
        Kind::Histogram(BATCH),
        Unit::Count,
        "write commands that shared a commit",
    )
    .there_from_start(ONCE),
    metric(
        "openvibe_db_commit_seconds",
        &[],
        Kind::Histogram(REQUEST),
        Unit::Seconds,
        "from the first command of a batch to its commit",
    )
    .there_from_start(ONCE),
    metric(
        "openvibe_db_size_bytes",
        &[],
        Kind::Gauge,
        Unit::Bytes,
        "the SQLite file with its write-ahead log, or the PostgreSQL database",
    ),
    metric(
        "openvibe_upload_stored_bytes",
        &[],
        Kind::Gauge,
        Unit::Bytes,
        "bytes of uploads that are stored; counted anew each hour",
    )
    .there_from_start(ONCE),
    metric(
        "openvibe_tasks_queued",
        &["kind"],
        Kind::Gauge,
        Unit::Count,
        "tasks that wait, also for their next try",
    ),
    metric(
        "openvibe_tasks_queued_oldest_seconds",
        &["kind"],
        Kind::Gauge,
        Unit::Seconds,
        "how long ago the oldest of them was asked for; 0 when none waits",
    ),
    metric(
        "openvibe_tasks_running",
        &["kind"],
        Kind::Gauge,
        Unit::Count,
        "tasks that a worker holds",
    ),
    metric(
        "openvibe_task_run_seconds",
        &["kind"],
        Kind::Histogram(CALL),
        Unit::Seconds,
        "one run of a task by a worker, however it ended",
    )
    .there_from_start(&[&["reply"], &["resolve"]]),
    metric(
        "openvibe_tasks_ended_total",
        &["kind", "status"],
        Kind::Counter,
        Unit::Count,
        "tasks that ended, once each: `reply`, `resolve`, `compact` (a summary), `response` (a call of `/v1/responses`); \
         `completed`, `failed`, `cancelled`",
    )
    .there_from_start(&[
        &["reply", "completed"],
        &["reply", "failed"],
        &["reply", "cancelled"],
        &["resolve", "completed"],
        &["resolve", "failed"],
        &["resolve", "cancelled"],
        &["compact", "completed"],
        &["compact", "failed"],
        &["response", "completed"],
        &["response", "failed"],
        &["response", "cancelled"],
    ]),
    metric(
        "openvibe_task_leases_lost_total",
        &[],
        Kind::Counter,
        Unit::Count,
        "tasks taken away from a worker that was not heard of for a lease",
    )
    .there_from_start(ONCE),
    metric(
        "openvibe_model_calls_total",
        &["model", "outcome"],
        Kind::Counter,
        Unit::Count,
        "calls of a model (the first 50 names, then `other`): `ok`, `cancelled` (no longer wanted), `timeout`, `rate_limited`, \
         `unavailable`, `context_too_large`, `bad_request`, `auth`, `broken`, `empty`",
    ),
    metric(
        "openvibe_model_first_text_seconds",
        &["model"],
        Kind::Histogram(CALL),
        Unit::Seconds,
        "from a call to the first piece of its answer",
    ),
    metric(
        "openvibe_model_call_seconds",
        &["model"],
        Kind::Histogram(CALL),
        Unit::Seconds,
        "whole calls that ended `ok`",
    ),
    metric(
        "openvibe_model_tokens_total",
        &["kind"],
        Kind::Counter,
        Unit::Count,
        "tokens of ended tasks, `input` and `output`; estimated where the model server does not say",
    )
    .there_from_start(&[&["input"], &["output"]]),
    metric(
        "openvibe_build_info",
        &["version"],
        Kind::Gauge,
        Unit::Count,
        "always 1: which version runs",
    ),
    metric(
        "process_open_fds",
        &[],
        Kind::Gauge,
        Unit::Count,
        "open files and connections of the process",
    ),
    metric(
        "process_max_fds",
        &[],
        Kind::Gauge,
        Unit::Count,
        "how many it may have (`LimitNOFILE`)",
    ),
    metric(
        "process_resident_memory_bytes",
        &[],
        Kind::Gauge,
        Unit::Bytes,
        "memory that the process holds",
    ),
    metric(
        "process_start_time_seconds",
        &[],
        Kind::Gauge,
        Unit::Seconds,
        "when it started, in seconds since 1970",
    ),
];
