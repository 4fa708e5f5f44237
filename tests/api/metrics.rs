//! Metrics of `/metrics`: the events that change them, and whether code, documentation, and server agree.
#![expect(clippy::float_cmp, reason = "counts are whole numbers")]

use std::collections::{BTreeMap, BTreeSet};

use openvibe::telemetry::{Kind, METRICS};
use reqwest::Method;
use serde_json::json;

use crate::{
    code::allow,
    code_turns::{COMMIT, done},
    faults::{Prepared, prepared},
    imports::{export, imported},
    support::{
        Answer, Gate, Hold, PASSWORD, Person, ScriptedRunner, Socket, TestProcess, id, new_runner,
        pause, team, text, visitor, within,
    },
};

const MODEL: &str = "claude-sonnet-4-5";

/// Response of `/metrics`.
struct Figures {
    /// Kind of each metric.
    kinds: BTreeMap<String, String>,
    /// Value of each metric with its labels, in alphabetical order.
    values: BTreeMap<String, f64>,
}

/// Sorts the labels of a series such as `name{b="2",a="1"}` alphabetically.
fn ordered(series: &str) -> String {
    let Some((name, labels)) = series.split_once('{') else {
        return series.to_owned();
    };
    let labels = labels.trim_end_matches('}');
    // Label values contain braces, but no commas or quotation marks.
    let labels: BTreeSet<&str> = labels.split(',').collect();
    let labels: Vec<&str> = labels.into_iter().collect();
    format!("{name}{{{}}}", labels.join(","))
}

impl Figures {
    async fn of(who: &Person) -> Self {
        let reply = who.get("/metrics").await;
        assert_eq!(reply.status, 200);
        let (mut kinds, mut values) = (BTreeMap::new(), BTreeMap::new());
        for line in reply.text.lines().filter(|line| !line.is_empty()) {
            if let Some(kind) = line.strip_prefix("# TYPE ") {
                let (name, kind) = kind.split_once(' ').unwrap();
                kinds.insert(name.to_owned(), kind.to_owned());
            } else if !line.starts_with('#') {
                let (series, value) = line.rsplit_once(' ').unwrap();
                values.insert(ordered(series), value.parse().unwrap());
            }
        }
        Self { kinds, values }
    }

    /// Value of a series; 0 if it does not exist yet.
    fn get(&self, series: &str) -> f64 {
        self.values
            .get(&ordered(series))
            .copied()
            .unwrap_or_default()
    }
}

/// Returns the metrics once a series has this value, because operations are counted shortly after their end is announced.
async fn once(who: &Person, series: &str, value: f64) -> Figures {
    let what = format!("{series} to be {value}");
    within(&what, async {
        loop {
            let figures = Figures::of(who).await;
            if figures.get(series) == value {
                return figures;
            }
            pause().await;
        }
    })
    .await
}

/// Asserts that each series has increased by the expected value between two samples.
#[track_caller]
fn rose(before: &Figures, after: &Figures, expected: &[(&str, f64)]) {
    for (series, by) in expected {
        let moved = after.get(series) - before.get(series);
        assert!(
            (moved - by).abs() < 1e-9,
            "{series} moved by {moved}, not {by}"
        );
    }
}

fn counted(model_or_kind: &str, outcome: &str) -> String {
    match outcome {
        "completed" | "failed" | "cancelled_task" => format!(
            "openvibe_tasks_ended_total{{kind=\"{model_or_kind}\",status=\"{}\"}}",
            outcome.trim_end_matches("_task")
        ),
        _ => {
            format!("openvibe_model_calls_total{{model=\"{model_or_kind}\",outcome=\"{outcome}\"}}")
        }
    }
}

fn tokens(kind: &str) -> String {
    format!("openvibe_model_tokens_total{{kind=\"{kind}\"}}")
}

#[test]
fn the_operations_guide_lists_every_metric_correctly() {
    let guide = include_str!("../../docs/operations.md");
    let (guide, alerts) = guide.split_once("### Alerts").unwrap();
    let rows: Vec<&str> = guide
        .lines()
        .filter(|line| line.starts_with("| `openvibe_") || line.starts_with("| `process_"))
        .collect();
    let expected: Vec<String> = METRICS
        .iter()
        .map(|metric| {
            let labels = if metric.labels.is_empty() {
                String::new()
            } else {
                format!("{{{}}}", metric.labels.join(","))
            };
            let (name, kind, help) = (metric.name, metric.kind.name(), metric.help);
            format!("| `{name}{labels}` | {kind} | {help} |")
        })
        .collect();
    assert_eq!(
        rows,
        expected,
        "the table of docs/operations.md should be:\n{}",
        expected.join("\n")
    );
    let rules = include_str!("../../deploy/alerts.yml");
    for word in [alerts, rules]
        .concat()
        .split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
    {
        let is_ours = word.starts_with("openvibe_") || word.starts_with("process_");
        let named = |end: &str| {
            let name = word.strip_suffix(end).unwrap_or(word);
            METRICS.iter().any(|metric| metric.name == name)
        };
        assert!(!is_ours || named("_bucket"), "no metric is named {word}");
    }
}

#[test]
fn metric_names_include_their_units() {
    for metric in METRICS {
        let name = metric.name;
        let is_counter = matches!(metric.kind, Kind::Counter);
        assert_eq!(name.ends_with("_total"), is_counter, "{name}");
        let unit = match metric.unit {
            metrics::Unit::Seconds => Some("_seconds"),
            metrics::Unit::Bytes => Some("_bytes"),
            _ => None,
        };
        assert!(unit.is_none_or(|unit| name.ends_with(unit)), "{name}");
        for labels in metric.begins_with {
            assert_eq!(labels.len(), metric.labels.len(), "{name}");
        }
        if let Kind::Histogram(buckets) = metric.kind {
            assert!(buckets.is_sorted(), "{name}");
        }
    }
}

/// Starts a separate server, so that other tests do not affect its metrics.
async fn started(settings: &[(&str, &str)]) -> (Prepared, TestProcess, Person) {
    let p = prepared().await;
    let (server, ada) = p.start(settings).await;
    (p, server, ada)
}

#[tokio::test]
async fn a_reply_is_counted_once_with_its_call_and_its_tokens() {
    let (p, _server, ada) = started(&[]).await;
    p.model.script("vibe", [Answer::pieces(&["One ", "two."])]);
    let before = Figures::of(&ada).await;
    let task = ada.ask(&p.thread, "@vibe hi").await;
    ada.completed(&task).await;
    let ended = counted("reply", "completed");
    let after = once(&ada, &ended, before.get(&ended) + 1.0).await;
    let route = r#"method="POST",route="/v1/threads/{id}/messages""#;
    rose(
        &before,
        &after,
        &[
            (&counted(MODEL, "ok"), 1.0),
            (&tokens("input"), 11.0),
            (&tokens("output"), 7.0),
            (
                &format!("openvibe_model_first_text_seconds_count{{model=\"{MODEL}\"}}"),
                1.0,
            ),
            (
                &format!("openvibe_model_call_seconds_count{{model=\"{MODEL}\"}}"),
                1.0,
            ),
            (
                &format!("openvibe_http_requests_total{{{route},status=\"201\"}}"),
                1.0,
            ),
            (
                &format!("openvibe_http_request_seconds_count{{{route}}}"),
                1.0,
            ),
            (
                &format!("openvibe_http_request_seconds_bucket{{{route},le=\"30\"}}"),
                1.0,
            ),
            ("openvibe_task_leases_lost_total", 0.0),
        ],
    );
    assert!(
        after.get("openvibe_fanout_seconds_count") > before.get("openvibe_fanout_seconds_count")
    );
    let commands = |figures: &Figures| figures.get("openvibe_db_batch_size_sum");
    let commits = |figures: &Figures| figures.get("openvibe_db_commit_seconds_count");
    assert!(commands(&after) >= commands(&before) + 3.0);
    assert!(commits(&after) > commits(&before));
    // While a batch is being stored, its size is already counted, but not its time.
    within("each commit to have one batch", async {
        loop {
            let figures = Figures::of(&ada).await;
            if commits(&figures) == figures.get("openvibe_db_batch_size_count") {
                return;
            }
        }
    })
    .await;
}

#[tokio::test]
async fn turns_on_runners_are_counted_by_their_end() {
    let (p, server, ada) = started(&[]).await;
    let (_, key) = new_runner(&ada, "build-1").await;
    let mut runner = ScriptedRunner::connect(&server.base, &key, &["api"]).await;
    allow(&ada, "api", &[&id(&ada.channel("general").await)]).await;
    let turns =
        |state: &str| format!("openvibe_code_turns_total{{state=\"{state}\",engine=\"builtin\"}}");
    for end in ["completed", "failed", "cancelled"] {
        let task = ada.ask(&p.thread, "@coder fix the login").await;
        let session = text(&runner.command("prompt").await, "/session");
        let opened = json!({"type": "opened", "commit": COMMIT});
        runner.event(&session, opened).await;
        match end {
            "completed" => {
                runner.event(&session, done(&task, 0)).await;
            }
            "failed" => {
                let failed = json!({"type": "failed", "task": task, "action": null, "code": "refused", "message": "No."});
                runner.event(&session, failed).await;
            }
            _ => {
                ada.act(&format!("/v1/tasks/{task}/cancel")).await.is(200);
                runner.command("cancel").await;
            }
        }
        once(&ada, &turns(end), 1.0).await;
    }
    assert_eq!(Figures::of(&ada).await.get(&turns("begun")), 3.0);
}

#[tokio::test]
async fn failed_calls_are_counted_by_reason() {
    let settings = [("RETRY_DELAYS", "1ms"), ("TASK_TIMEOUT", "500ms")];
    let (p, _server, ada) = started(&settings).await;
    let answers = [Answer::status(400, "{}"), Answer::stream().silence()];
    p.model.script("vibe", answers);
    let before = Figures::of(&ada).await;
    for code in ["bad_request", "timeout"] {
        let task = ada.ask(&p.thread, "@vibe hi").await;
        assert_eq!(ada.failed(&task).await.1, code);
    }
    once(&ada, &counted(MODEL, "timeout"), 1.0).await;
    let after = once(&ada, &counted("reply", "failed"), 2.0).await;
    rose(
        &before,
        &after,
        &[
            (&counted(MODEL, "bad_request"), 1.0),
            (&counted(MODEL, "timeout"), 1.0),
            (&counted(MODEL, "ok"), 0.0),
            (&counted("reply", "failed"), 2.0),
            (&tokens("output"), 0.0),
        ],
    );
}

#[tokio::test]
async fn a_canceled_call_counts_the_text_that_was_received() {
    let (p, _server, ada) = started(&[]).await;
    let gate = Gate::new();
    p.model
        .script("vibe", [Answer::pieces_open(&["Half"]).wait(&gate)]);
    let before = Figures::of(&ada).await;
    let mut socket = ada.socket().await;
    socket.subscribe(&p.thread).await;
    let task = ada.ask(&p.thread, "@vibe hi").await;
    // The model server sends the text before the server receives it.
    socket.of("task.delta").await;
    ada.act(&format!("/v1/tasks/{task}/cancel")).await.is(200);
    p.model.given_up(1).await;
    let cancelled = counted(MODEL, "cancelled");
    once(&ada, &cancelled, 1.0).await;
    once(&ada, &counted("reply", "cancelled_task"), 1.0).await;
    // An estimate.
    let after = once(&ada, &tokens("output"), 1.0).await;
    rose(
        &before,
        &after,
        &[
            (&cancelled, 1.0),
            (&counted(MODEL, "ok"), 0.0),
            (&counted("reply", "failed"), 0.0),
            (&tokens("output"), 1.0),
        ],
    );
}

#[tokio::test]
async fn a_superseded_worker_counts_only_its_model_call() {
    let p = prepared().await;
    p.model
        .script("vibe", [Answer::text("One."), Answer::text("Two.")]);
    let hold = Hold::new().await;
    let settings = [
        ("FAILPOINT", &*hold.at("turn_complete:1")),
        ("LEASE_MS", "2000"),
    ];
    let (_server, ada) = p.start(&settings).await;
    let task = ada.ask(&p.thread, "@vibe hi").await;
    let held = hold.reached().await;
    ada.completed(&task).await;
    drop(held);
    // Waits for both runs, because they are counted when their workers release the task.
    let runs = r#"openvibe_task_run_seconds_count{kind="reply"}"#;
    let figures = once(&ada, runs, 2.0).await;
    assert_eq!(figures.get("openvibe_task_leases_lost_total"), 1.0);
    assert_eq!(figures.get(&counted("reply", "completed")), 1.0);
    assert_eq!(
        (
            figures.get(&counted(MODEL, "ok")),
            figures.get(&tokens("output"))
        ),
        (2.0, 14.0),
        "both asked the model"
    );
}

#[tokio::test]
async fn waiting_and_running_tasks_are_reported_by_kind() {
    let (p, _server, ada) = started(&[("WORKERS", "1")]).await;
    let gate = Gate::new();
    p.model
        .script("vibe", [Answer::stream().wait(&gate).piece("Done.").end()]);
    let first = ada.ask(&p.thread, "@vibe one").await;
    gate.reached().await;
    let second = ada.ask(&p.thread, "@vibe two").await;
    let figures = Figures::of(&ada).await;
    let of = |what: &str| figures.get(&format!("openvibe_tasks_{what}{{kind=\"reply\"}}"));
    assert_eq!((of("running"), of("queued")), (1.0, 1.0));
    assert!(of("queued_oldest_seconds") > 0.0);
    assert_eq!(figures.get(r#"openvibe_tasks_queued{kind="resolve"}"#), 0.0);
    gate.open();
    ada.completed(&first).await;
    ada.completed(&second).await;
    let figures = Figures::of(&ada).await;
    for what in ["running", "queued", "queued_oldest_seconds"] {
        assert_eq!(
            figures.get(&format!("openvibe_tasks_{what}{{kind=\"reply\"}}")),
            0.0
        );
    }
}

#[tokio::test]
async fn requests_are_counted_by_route_and_never_by_path() {
    let (_p, _server, ada) = started(&[]).await;
    let before = Figures::of(&ada).await;
    let unknown = "/v1/threads/thread_01k5t00000e008000000000000";
    ada.get(unknown).await.refused(404);
    ada.get("/v1/nothing/of/the/kind").await.refused(404);
    ada.delete("/healthz").await.refused(405);
    let invented = Method::from_bytes(b"BREW").unwrap();
    ada.send(invented, "/healthz", &[], None).await.refused(405);
    let socket = ada.socket().await;
    let after = Figures::of(&ada).await;
    let of = |labels: &str| format!("openvibe_http_requests_total{{{labels}}}");
    rose(
        &before,
        &after,
        &[
            (
                &of(r#"method="GET",route="/v1/threads/{id}",status="404""#),
                1.0,
            ),
            (&of(r#"method="GET",route="unmatched",status="404""#), 1.0),
            (&of(r#"method="DELETE",route="/healthz",status="405""#), 1.0),
            (&of(r#"method="other",route="/healthz",status="405""#), 1.0),
            // The upgrade is counted immediately, regardless of how long the socket stays open.
            (&of(r#"method="GET",route="/v1/ws",status="101""#), 1.0),
            (
                r#"openvibe_http_request_seconds_count{method="GET",route="/v1/ws"}"#,
                1.0,
            ),
            (
                r#"openvibe_http_request_seconds_bucket{le="30",method="GET",route="/v1/ws"}"#,
                1.0,
            ),
        ],
    );
    drop(socket);
    let series: Vec<&String> = after.values.keys().collect();
    assert!(
        !series
            .iter()
            .any(|s| s.contains("thread_01k5t") || s.contains("nothing"))
    );
}

#[tokio::test]
async fn sign_ins_are_counted_by_way_and_result() {
    let (_p, _server, ada) = started(&[]).await;
    let before = Figures::of(&ada).await;
    for password in [PASSWORD, "wrong horse", PASSWORD] {
        let form = json!({"email": ada.email, "password": password});
        visitor(&ada.base).post("/v1/auth/login", form).await;
    }
    let flow = json!({"flow": "unknown", "code": "123456"});
    let nobody = visitor(&ada.base);
    let unknown = nobody.post("/v1/auth/second-factor", flow).await;
    unknown.refused(401);
    let series = |method: &str, result: &str| {
        format!("openvibe_sign_ins_total{{method=\"{method}\",result=\"{result}\"}}")
    };
    let expected = [
        (series("password", "ok"), 2.0),
        (series("password", "wrong_credentials"), 1.0),
        (series("second_factor", "flow_expired"), 1.0),
    ];
    let expected: Vec<(&str, f64)> = expected.iter().map(|(s, by)| (s.as_str(), *by)).collect();
    rose(&before, &Figures::of(&ada).await, &expected);
}

#[tokio::test]
async fn sockets_are_counted_while_open_and_by_close_reason() {
    let (_p, _server, ada) = started(&[("SOCKETS_PER_USER", "2")]).await;
    let (first, mut second) = (ada.socket().await, ada.socket().await);
    let figures = Figures::of(&ada).await;
    assert_eq!(figures.get("openvibe_sockets"), 2.0);
    assert!(Socket::try_open(&ada).await.is_err());
    drop(first);
    second.send_text("no JSON").await;
    for _ in 0..4 {
        second.send_text("no JSON").await;
    }
    assert_eq!(second.closed().await, 1008);
    drop(second);
    assert_eq!(Socket::silent(&ada.signed_out()).await.closed().await, 4001);
    once(&ada, "openvibe_sockets", 0.0).await;
    let closed = |reason: &str| format!("openvibe_sockets_closed_total{{reason=\"{reason}\"}}");
    let figures = once(&ada, &closed("left"), 1.0).await;
    assert_eq!(figures.get(&closed("policy")), 1.0);
    assert_eq!(figures.get(&closed("not_authenticated")), 1.0);
    assert_eq!(figures.get(&closed("too_slow")), 0.0);
    let refused = r#"openvibe_rate_limited_total{limit="user_sockets"}"#;
    assert_eq!(figures.get(refused), 1.0);
}

#[tokio::test]
async fn stored_data_sizes_are_reported() {
    let (_p, server, ada) = started(&[]).await;
    let stored = "openvibe_upload_stored_bytes";
    let file = ada.upload("a.txt", &[b'a'; 5000]).await;
    ada.upload("again.txt", &[b'a'; 5000]).await;
    let figures = Figures::of(&ada).await;
    assert_eq!(
        figures.get(stored),
        5000.0,
        "the same bytes are stored once"
    );
    ada.upload("b.txt", &[b'b'; 300]).await;
    assert_eq!(Figures::of(&ada).await.get(stored), 5300.0);
    ada.delete(&format!("/v1/files/{}", id(&file))).await.ok();
    let figures = Figures::of(&ada).await;
    assert!(figures.get("openvibe_db_size_bytes") > 100_000.0);
    assert_eq!(figures.get("openvibe_db_up"), 1.0);
    assert!(figures.get("process_resident_memory_bytes") > 1e6);
    let (open, max) = (
        figures.get("process_open_fds"),
        figures.get("process_max_fds"),
    );
    assert!(open > 3.0 && open < max, "{open} of {max}");
    let version = format!(
        "openvibe_build_info{{version=\"{}\"}}",
        env!("CARGO_PKG_VERSION")
    );
    assert_eq!(figures.get(&version), 1.0);
    drop(server);
}

#[tokio::test]
async fn the_reading_of_a_file_is_counted_and_timed() {
    let (_p, _server, ada) = started(&[]).await;
    ada.upload("a.txt", b"The zoo opens in May").await;
    let counted = "openvibe_extract_total{kind=\"lines\",state=\"ready\"}";
    let figures = once(&ada, counted, 1.0).await;
    assert_eq!(figures.get("openvibe_extract_seconds_count"), 1.0);
    once(&ada, "openvibe_passages", 1.0).await;
}

#[tokio::test]
async fn unreferenced_bytes_are_subtracted() {
    let (_p, _server, ada) = started(&[("UPLOAD_ORPHAN_AFTER", "1s")]).await;
    ada.upload("a.txt", &[b'a'; 5000]).await;
    once(&ada, "openvibe_upload_stored_bytes", 0.0).await;
}

#[tokio::test]
async fn models_beyond_the_first_fifty_share_their_metrics() {
    let (_p, _server, ada) = started(&[("RATE_LIMITS", "off")]).await;
    for n in 0..55 {
        let form = json!({"model": format!("invented-{n}")});
        assert_eq!(ada.post("/v1/model-test", form).await.is(200)["ok"], true);
    }
    let figures = Figures::of(&ada).await;
    assert_eq!(figures.get(&counted("invented-49", "ok")), 1.0);
    assert_eq!(figures.get(&counted("invented-50", "ok")), 0.0);
    assert_eq!(figures.get(&counted("other", "ok")), 5.0);
}

#[tokio::test]
async fn the_documented_metrics_are_exactly_those_exported() {
    let (p, _server, ada) = started(&[("SOCKETS_PER_USER", "1")]).await;
    let task = ada.ask(&p.thread, "@vibe hi").await;
    ada.completed(&task).await;
    imported(&ada, &export(&[])).await;
    // The socket that waited for the task may still occupy the only slot.
    let socket = within(
        "a place for a socket",
        Box::pin(async {
            loop {
                if let Ok(socket) = Socket::try_greet(&ada, json!({})).await {
                    break socket;
                }
            }
        }),
    )
    .await;
    assert!(Socket::try_open(&ada).await.is_err());
    let figures = once(&ada, &counted("reply", "completed"), 1.0).await;
    drop(socket);
    let kinds: BTreeMap<String, String> = METRICS
        .iter()
        .map(|metric| (metric.name.to_owned(), metric.kind.name().to_owned()))
        .collect();
    assert_eq!(figures.kinds, kinds);
    for metric in METRICS {
        // Matches all series of the metric, including those with a histogram's suffixes.
        let is_of_it = |series: &&String| {
            let name = series.split('{').next().unwrap();
            let ends = ["_bucket", "_sum", "_count"];
            name == metric.name
                || matches!(metric.kind, Kind::Histogram(_))
                    && ends
                        .iter()
                        .any(|end| name.strip_suffix(end) == Some(metric.name))
        };
        let mut expected: Vec<&str> = metric.labels.to_vec();
        expected.sort_unstable();
        let mut bounds = BTreeSet::new();
        for series in figures.values.keys().filter(is_of_it) {
            let labels = series.split_once('{').map_or("", |(_, labels)| labels);
            let mut names: Vec<&str> = labels
                .trim_end_matches('}')
                .split(',')
                .filter_map(|label| label.split_once("=\""))
                .inspect(|(name, value)| {
                    if *name == "le" {
                        bounds.insert(value.trim_end_matches('"').to_owned());
                    }
                })
                .map(|(name, _)| name)
                .filter(|name| *name != "le")
                .collect();
            names.sort_unstable();
            assert_eq!(names, expected, "{series}");
        }
        if let Kind::Histogram(buckets) = metric.kind {
            let mut wanted: BTreeSet<String> = buckets.iter().map(ToString::to_string).collect();
            wanted.insert("+Inf".to_owned());
            assert_eq!(bounds, wanted, "{}", metric.name);
        }
    }
}

#[tokio::test]
async fn metrics_are_available_only_to_permitted_clients() {
    let t = team().await;
    let forwarded = [("x-forwarded-for", "192.0.2.7")];
    let reply = t.ada.send(Method::GET, "/metrics", &forwarded, None).await;
    assert_eq!(
        reply.refused(403),
        "metrics_closed",
        "an admin through a proxy is no operator"
    );
    let (_p, server, _) = started(&[("METRICS_TOKEN", "figures-only")]).await;
    let with = async |value: &str| {
        let who = crate::support::visitor(&server.base);
        let headers = [("authorization", value)];
        who.send(Method::GET, "/metrics", &headers, None)
            .await
            .status
    };
    assert_eq!(with("Bearer figures-only").await, 200);
    assert_eq!(with("Bearer figures").await, 401);
    assert_eq!(with("").await, 401);
}
