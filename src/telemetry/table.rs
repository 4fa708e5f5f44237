//! All metrics. A test keeps docs/operations.md and the output of `/metrics` in sync with this table.

use metrics::Unit;

pub enum Kind {
    Counter,
    Gauge,
    /// Histogram, with the upper bounds of its buckets.
    Histogram(&'static [f64]),
}

impl Kind {
    /// Prometheus name of the kind.
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
    /// Human-readable description.
    pub help: &'static str,
    /// Label values that are exported from the start with the value 0.
    pub begins_with: &'static [&'static [&'static str]],
}

/// Buckets for work within the process: tens of microseconds to a second.
const SHORT: &[f64] = &[
    0.0001, 0.000_25, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
];
/// Buckets for requests and commits: from a millisecond to their timeout.
const REQUEST: &[f64] = &[
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
];
/// Buckets for model calls: from a tenth of a second to the longest attempt.
const CALL: &[f64] = &[
    0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 60.0, 120.0, 300.0, 900.0,
];
/// Buckets for batches: up to the maximum number of commands.
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
        "requests by route pattern (`unmatched`: static files and unknown paths); \
         status 499: the client disconnected first",
    ),
    metric(
        "openvibe_http_request_seconds",
        &["method", "route"],
        Kind::Histogram(REQUEST),
        Unit::Seconds,
        "time until the response starts; streaming and open connections afterwards are not included",
    ),
    metric(
        "openvibe_rate_limited_total",
        &["limit"],
        Kind::Counter,
        Unit::Count,
        "requests, sign-ins, and sockets rejected by a limit; `connections`: closed because an address exceeded its share; `bodies`, `unsent`: 503 because a share of memory was exceeded; `upload_bytes`: 503 because too many bytes were being uploaded; `slow_readers`: connections whose client read too slowly",
    ),
    metric(
        "openvibe_sign_ins_total",
        &["method", "result"],
        Kind::Counter,
        Unit::Count,
        "sign-ins, by `password`, `second_factor`, `passkey`, and `provider`; `result` is `ok` or the code of the refusal",
    )
    .there_from_start(&[
        &["password", "ok"],
        &["passkey", "ok"],
        &["provider", "ok"],
    ]),
    metric(
        "openvibe_oidc_requests_total",
        &["step", "result"],
        Kind::Counter,
        Unit::Count,
        "requests to identity providers: `discovery`, `keys`, `token`, and `userinfo`",
    )
    .there_from_start(&[&["discovery", "ok"], &["token", "ok"]]),
    metric(
        "openvibe_scim_requests_total",
        &["result"],
        Kind::Counter,
        Unit::Count,
        "requests of identity providers that send accounts and groups; `result` is `ok`, `unauthorized`, `not_found`, `conflict`, `rejected`, `rate_limited`, or `failed`",
    )
    .there_from_start(&[&["ok"]]),
    metric(
        "openvibe_mails_total",
        &["result"],
        Kind::Counter,
        Unit::Count,
        "attempts to send an email; `later`: tried again; `server`: the mail server refuses login or encryption",
    )
    .there_from_start(&[&["sent"], &["refused"], &["later"], &["server"]]),
    metric(
        "openvibe_extract_total",
        &["kind", "state"],
        Kind::Counter,
        Unit::Count,
        "files whose text was read, by kind (`text`: DOCX and ODT; `lines`: code and plain text) and result",
    )
    .there_from_start(&[
        &["pdf", "ready"],
        &["pdf", "partial"],
        &["pdf", "failed"],
        &["other", "none"],
        &["other", "off"],
    ]),
    metric(
        "openvibe_extract_seconds",
        &[],
        Kind::Histogram(CALL),
        Unit::Seconds,
        "time of reading the text of a file",
    )
    .there_from_start(ONCE),
    metric(
        "openvibe_passages",
        &[],
        Kind::Gauge,
        Unit::Count,
        "passages of files that can be searched, on the node that runs the jobs",
    )
    .there_from_start(ONCE),
    metric(
        "openvibe_embeddings_pending",
        &[],
        Kind::Gauge,
        Unit::Count,
        "passages of files that wait for their vectors, on the node that runs the jobs",
    )
    .there_from_start(ONCE),
    metric(
        "openvibe_embedding_memory_bytes",
        &[],
        Kind::Gauge,
        Unit::Bytes,
        "memory for search by meaning",
    )
    .there_from_start(ONCE),
    metric(
        "openvibe_hook_requests_total",
        &["result"],
        Kind::Counter,
        Unit::Count,
        "requests to webhooks; `posted`, or the text of the error",
    )
    .there_from_start(&[&["posted"]]),
    metric(
        "openvibe_hook_deliveries_total",
        &["outcome"],
        Kind::Counter,
        Unit::Count,
        "attempts to send an event to a bot; `later`: tried again; `dead`: the last attempt failed; `skipped`: no longer visible to the bot",
    )
    .there_from_start(&[&["sent"], &["later"], &["dead"], &["skipped"]]),
    metric(
        "openvibe_hook_deliveries_waiting",
        &[],
        Kind::Gauge,
        Unit::Count,
        "events that wait for bots, on the node that runs the jobs",
    )
    .there_from_start(ONCE),
    metric(
        "openvibe_bot_sockets",
        &[],
        Kind::Gauge,
        Unit::Count,
        "open sockets of bots' programs",
    )
    .there_from_start(ONCE),
    metric(
        "openvibe_runners",
        &["state"],
        Kind::Gauge,
        Unit::Count,
        "connections of runners of coding agents",
    )
    .there_from_start(&[&["online"]]),
    metric(
        "openvibe_code_turns_total",
        &["state", "engine"],
        Kind::Counter,
        Unit::Count,
        "turns of agents in repositories: `begun`, then `completed`, `failed`, or `cancelled`",
    )
    .there_from_start(&[
        &["begun", "builtin"],
        &["completed", "builtin"],
        &["failed", "builtin"],
        &["cancelled", "builtin"],
    ]),
    metric(
        "openvibe_code_pushes_total",
        &["result"],
        Kind::Counter,
        Unit::Count,
        "pushes that runners have done or that failed",
    )
    .there_from_start(&[&["pushed"], &["failed"]]),
    metric(
        "openvibe_import_records_total",
        &["result"],
        Kind::Counter,
        Unit::Count,
        "messages of archives: `imported`, `existing`, `merged`, or `left_out`",
    )
    .there_from_start(&[&["imported"], &["existing"], &["merged"], &["left_out"]]),
    metric(
        "openvibe_import_seconds",
        &[],
        Kind::Histogram(CALL),
        Unit::Seconds,
        "time of an import",
    ),
    metric(
        "openvibe_push_deliveries_total",
        &["answer"],
        Kind::Counter,
        Unit::Count,
        "attempts to send a notification to a device; `later`: tried again; `refused`: the push service refuses this server; `skipped`: read, muted, active, or quiet hours",
    )
    .there_from_start(&[
        &["sent"],
        &["refused"],
        &["gone"],
        &["throttled"],
        &["later"],
        &["failed"],
        &["skipped"],
    ]),
    metric(
        "openvibe_tls_handshakes_total",
        &["result"],
        Kind::Counter,
        Unit::Count,
        "TLS handshakes; `challenge`: a certificate authority read its answer; `late`: not complete within 10 s",
    )
    .there_from_start(&[&["done"], &["challenge"], &["failed"], &["late"]]),
    metric(
        "openvibe_acme_orders_total",
        &["result"],
        Kind::Counter,
        Unit::Count,
        "orders of certificates: `issued`, `failed`",
    )
    .there_from_start(&[&["issued"], &["failed"]]),
    metric(
        "openvibe_certificate_expires_timestamp_seconds",
        &[],
        Kind::Gauge,
        Unit::Seconds,
        "expiry of the certificate in use, in seconds since 1970; 0 if there is none",
    )
    .there_from_start(ONCE),
    metric(
        "openvibe_sockets",
        &[],
        Kind::Gauge,
        Unit::Count,
        "open sockets",
    )
    .there_from_start(ONCE),
    metric(
        "openvibe_nodes",
        &["state"],
        Kind::Gauge,
        Unit::Count,
        "servers that share the database: `ready`, `starting`, `draining`, `lost` (for a day)",
    ),
    metric(
        "openvibe_bus_up",
        &["bus"],
        Kind::Gauge,
        Unit::Count,
        "1 while events of all nodes arrive immediately: in this process (`local`), over `notify`, or over `nats`",
    ),
    metric(
        "openvibe_bus_messages_total",
        &["direction", "type"],
        Kind::Counter,
        Unit::Count,
        "messages to (`out`) and from (`in`) other nodes",
    )
    .there_from_start(&[&["out", "log"], &["in", "log"]]),
    metric(
        "openvibe_bus_dropped_total",
        &[],
        Kind::Counter,
        Unit::Count,
        "messages to other nodes that were not sent; nothing is lost, but it arrives up to 1.5 s later",
    )
    .there_from_start(ONCE),
    metric(
        "openvibe_bus_rejected_total",
        &["reason"],
        Kind::Counter,
        Unit::Count,
        "messages over NATS that were not read: `unsigned`, `forged`, `replayed`, or of an `unknown_node`",
    )
    .there_from_start(&[&["unsigned"], &["forged"], &["replayed"], &["unknown_node"]]),
    metric(
        "openvibe_bus_delay_seconds",
        &[],
        Kind::Histogram(SHORT),
        Unit::Seconds,
        "delay of heartbeats from other nodes",
    )
    .there_from_start(ONCE),
    metric(
        "openvibe_log_gaps_total",
        &["cause"],
        Kind::Counter,
        Unit::Count,
        "events that had to be read from the log because the bus did not deliver them: `poll`, `slow_consumer`",
    )
    .there_from_start(&[&["poll"], &["slow_consumer"]]),
    metric(
        "openvibe_log_repair_seconds",
        &[],
        Kind::Histogram(SHORT),
        Unit::Seconds,
        "reads of events of other nodes from the log",
    )
    .there_from_start(ONCE),
    metric(
        "openvibe_clock_skew_seconds",
        &[],
        Kind::Gauge,
        Unit::Seconds,
        "difference between the clock of this machine and that of the database",
    )
    .there_from_start(ONCE),
    metric(
        "openvibe_epoch_changes_total",
        &[],
        Kind::Counter,
        Unit::Count,
        "times that all clients had to load everything again",
    )
    .there_from_start(ONCE),
    metric(
        "openvibe_sockets_closed_total",
        &["reason"],
        Kind::Counter,
        Unit::Count,
        "closed sockets: `left`, `going_away` (shutdown, silence, or asked to resume), `too_slow`, `not_authenticated`, \
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
        "time from the commit of an event until it is in the queue of every authorized socket",
    )
    .there_from_start(ONCE),
    metric(
        "openvibe_db_up",
        &[],
        Kind::Gauge,
        Unit::Count,
        "1 if the database responded within 2 s; if 0, the metrics of tasks and database size are NaN",
    ),
    metric(
        "openvibe_db_write_queue",
        &[],
        Kind::Gauge,
        Unit::Count,
        "write commands waiting for their batch; beyond 2,048 per writer, and 512 of a workspace, further commands wait outside the queue and then fail with 503",
    ),
    metric(
        "openvibe_db_batch_size",
        &[],
        Kind::Histogram(BATCH),
        Unit::Count,
        "write commands per commit",
    )
    .there_from_start(ONCE),
    metric(
        "openvibe_db_commit_seconds",
        &[],
        Kind::Histogram(REQUEST),
        Unit::Seconds,
        "time from the first command of a batch to its commit",
    )
    .there_from_start(ONCE),
    metric(
        "openvibe_db_retries_total",
        &["sqlstate"],
        Kind::Counter,
        Unit::Count,
        "writes that run again because PostgreSQL failed, by its error code; 08006 if the connection was lost",
    )
    .there_from_start(&[&["08006"], &["40001"], &["40P01"], &["55P03"], &["57014"], &["57P01"]]),
    metric(
        "openvibe_db_size_bytes",
        &[],
        Kind::Gauge,
        Unit::Bytes,
        "size of the SQLite file with its write-ahead log, or of the PostgreSQL database",
    ),
    metric(
        "openvibe_disk_free_bytes",
        &[],
        Kind::Gauge,
        Unit::Bytes,
        "free space of the disk with the data directory",
    ),
    metric(
        "openvibe_backup_last_success_timestamp_seconds",
        &[],
        Kind::Gauge,
        Unit::Seconds,
        "time of the newest backup on the schedule, in seconds since 1970; NaN if there is none",
    ),
    metric(
        "openvibe_backup_drill_ok",
        &[],
        Kind::Gauge,
        Unit::Count,
        "1 if the newest test of a backup restored it without a fault, 0 if not; NaN if there was none",
    ),
    metric(
        "openvibe_upload_stored_bytes",
        &[],
        Kind::Gauge,
        Unit::Bytes,
        "bytes of stored uploads; recalculated hourly",
    )
    .there_from_start(ONCE),
    metric(
        "openvibe_tasks_queued",
        &["kind"],
        Kind::Gauge,
        Unit::Count,
        "waiting tasks, including those waiting for a retry",
    ),
    metric(
        "openvibe_tasks_queued_oldest_seconds",
        &["kind"],
        Kind::Gauge,
        Unit::Seconds,
        "age of the oldest waiting task; 0 if there is none",
    ),
    metric(
        "openvibe_tasks_running",
        &["kind"],
        Kind::Gauge,
        Unit::Count,
        "tasks claimed by a worker",
    ),
    metric(
        "openvibe_task_run_seconds",
        &["kind"],
        Kind::Histogram(CALL),
        Unit::Seconds,
        "duration of a task run by a worker, whatever its result",
    )
    .there_from_start(&[&["reply"], &["resolve"]]),
    metric(
        "openvibe_tasks_ended_total",
        &["kind", "status"],
        Kind::Counter,
        Unit::Count,
        "finished tasks: `reply`, `resolve`, `compact` (summaries of older messages), `reflect` and `utility` (adaptation to a person), \
         `schedule` (a slot of a schedule), `workflow` (a run), `response` (a call of `/v1/responses` or `/v1/chat/completions`); \
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
        "tasks reclaimed from a worker whose lease expired",
    )
    .there_from_start(ONCE),
    metric(
        "openvibe_model_calls_total",
        &["model", "outcome"],
        Kind::Counter,
        Unit::Count,
        "model calls (the first 50 names, then `other`): `ok`, `cancelled` (no longer needed), `timeout`, `rate_limited`, \
         `unavailable`, `context_too_large`, `bad_request`, `auth`, `broken`, `empty`, \
         `thought_only`",
    ),
    metric(
        "openvibe_model_first_text_seconds",
        &["model"],
        Kind::Histogram(CALL),
        Unit::Seconds,
        "time from a call to the first chunk of its reply",
    ),
    metric(
        "openvibe_model_call_seconds",
        &["model"],
        Kind::Histogram(CALL),
        Unit::Seconds,
        "duration of calls that ended with `ok`",
    ),
    metric(
        "openvibe_model_tokens_total",
        &["kind"],
        Kind::Counter,
        Unit::Count,
        "tokens of finished tasks, `input` and `output`; estimated if the model server does not report them",
    )
    .there_from_start(&[&["input"], &["output"]]),
    metric(
        "openvibe_build_info",
        &["version"],
        Kind::Gauge,
        Unit::Count,
        "always 1; the running version is a label",
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
        "limit for open files and connections (`LimitNOFILE`)",
    ),
    metric(
        "process_resident_memory_bytes",
        &[],
        Kind::Gauge,
        Unit::Bytes,
        "resident memory of the process",
    ),
    metric(
        "process_start_time_seconds",
        &[],
        Kind::Gauge,
        Unit::Seconds,
        "start time of the process, in seconds since 1970",
    ),
];
