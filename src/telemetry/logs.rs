//! Log output: human-readable text, or one flat JSON object per line for collectors.
//!
//! A line contains the fields of its event and of the enclosing spans: `request.id`, `user.id`, and `workspace.id` of a request,
//! `task.id` and `agent.id` of a task. Every request creates spans, but few of them appear in a log line, so their fields are stored
//! already formatted, and combined only when a line is written.

use std::{
    fmt::{self, Write as _},
    io::IsTerminal,
};

use serde_json::{Map, Value};
use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    EnvFilter, Layer,
    field::RecordFields,
    filter::{LevelFilter, filter_fn},
    fmt::{
        FmtContext, FormatEvent, FormatFields, FormattedFields,
        format::{DefaultFields, Writer},
        time::{FormatTime, SystemTime},
    },
    layer::SubscriberExt,
    registry::{LookupSpan, Scope},
    util::SubscriberInitExt,
};

/// Format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    Text,
    Json,
}

/// Starts logging to standard error; `filter` uses the filter syntax of `tracing`.
pub fn start(filter: &str, shape: Shape) {
    let parsed = parse(filter);
    let is_wrong = parsed.is_none();
    let layers = tracing_subscriber::registry()
        .with(filter_fn(may_be_logged))
        .with(parsed.unwrap_or_else(|| EnvFilter::new("info")));
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    // Fails only if logging was already started.
    drop(match shape {
        Shape::Text => layers
            .with(
                lines
                    .with_ansi(std::io::stderr().is_terminal())
                    .fmt_fields(Words(DefaultFields::new()))
                    .boxed(),
            )
            .try_init(),
        Shape::Json => layers
            .with(lines.fmt_fields(Pieces).event_format(Flat).boxed())
            .try_init(),
    });
    if is_wrong {
        tracing::warn!("OPENVIBE_LOG is not a valid filter: using `info`");
    }
}

/// Parses a filter; `None` if it is invalid, or if no part of it concerns this program.
pub fn parse(filter: &str) -> Option<EnvFilter> {
    EnvFilter::try_new(filter)
        .ok()
        .filter(|_| reaches_program(filter))
}

/// Checks whether a filter has a part that concerns this program. A word that is not a level is a target, so a misspelled level would
/// turn off the whole log.
fn reaches_program(filter: &str) -> bool {
    filter.split(',').any(|part| {
        let part = part.trim();
        let target = part.split(['=', '[']).next().unwrap_or_default().trim();
        let is_level = !part.contains('=') && target.parse::<LevelFilter>().is_ok();
        is_level || PROGRAM.starts_with(target) || target.starts_with(PROGRAM)
    })
}

/// Beginning of the targets of this program's lines.
const PROGRAM: &str = "openvibe";

/// Targets of dependencies that may log below `warn`, up to `debug`. Others print user data (tungstenite logs every frame) or their
/// configuration with passwords (`async_nats::connector`).
const VERBOSE: &[&str] = &["sqlx::query"];

/// Excludes logs that may contain user data or secrets. Nothing from rmcp is logged, because it repeats messages from tool servers,
/// which may contain a credential.
fn may_be_logged(about: &Metadata<'_>) -> bool {
    let target = about.target();
    let level_max = if target.starts_with(PROGRAM) {
        Level::TRACE
    } else if target.starts_with("rmcp") {
        return false;
    } else if VERBOSE.contains(&target) {
        Level::DEBUG
    } else {
        Level::WARN
    };
    *about.level() <= level_max
}

/// Fields for text output. A field that is recorded again in a span is written only once.
struct Words(DefaultFields);

impl<'w> FormatFields<'w> for Words {
    fn format_fields<R: RecordFields>(&self, writer: Writer<'w>, fields: R) -> fmt::Result {
        self.0.format_fields(writer, fields)
    }

    fn add_fields(
        &self,
        current: &'w mut FormattedFields<Self>,
        fields: &tracing::span::Record<'_>,
    ) -> fmt::Result {
        let mut more = String::new();
        self.0.format_fields(Writer::new(&mut more), fields)?;
        if !current.fields.contains(&more) {
            write!(current.fields, " {more}")?;
        }
        Ok(())
    }
}

/// Fields of a span or event as JSON without braces: `"a":1,"b":"c"`.
#[derive(Clone, Copy)]
struct Pieces;

impl<'w> FormatFields<'w> for Pieces {
    fn format_fields<R: RecordFields>(&self, writer: Writer<'w>, fields: R) -> fmt::Result {
        let mut pieces = PieceVisitor {
            writer,
            is_first: true,
            outcome: Ok(()),
        };
        fields.record(&mut pieces);
        pieces.outcome
    }

    fn add_fields(
        &self,
        current: &'w mut FormattedFields<Self>,
        fields: &tracing::span::Record<'_>,
    ) -> fmt::Result {
        let is_first = current.fields.is_empty();
        let mut pieces = PieceVisitor {
            writer: current.as_writer(),
            is_first,
            outcome: Ok(()),
        };
        fields.record(&mut pieces);
        pieces.outcome
    }
}

struct PieceVisitor<'w> {
    writer: Writer<'w>,
    is_first: bool,
    outcome: fmt::Result,
}

impl PieceVisitor<'_> {
    fn put(&mut self, field: &Field, value: impl fmt::Display) {
        let comma = if std::mem::take(&mut self.is_first) {
            ""
        } else {
            ","
        };
        self.outcome = self
            .outcome
            .and_then(|()| write!(self.writer, "{comma}\"{}\":{value}", field.name()));
    }
}

impl Visit for PieceVisitor<'_> {
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value);
    }
    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value);
    }
    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value);
    }
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, Value::from(value));
    }
    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, Value::from(value));
    }
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, Value::from(format!("{value:?}")));
    }
}

/// Formats lines as flat JSON objects: `timestamp`, `level`, `target`, `message`, then the fields of the event, and then
/// those of the spans.
struct Flat;

impl<S, N> FormatEvent<S, N> for Flat
where
    S: Subscriber + for<'l> LookupSpan<'l>,
    N: for<'w> FormatFields<'w> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut timestamp = String::new();
        SystemTime.format_time(&mut Writer::new(&mut timestamp))?;
        let mut fields = Map::new();
        for span in context.event_scope().into_iter().flat_map(Scope::from_root) {
            if let Some(pieces) = span.extensions().get::<FormattedFields<N>>() {
                take(&mut fields, &pieces.fields);
            }
        }
        let mut own = String::new();
        context.format_fields(Writer::new(&mut own), event)?;
        take(&mut fields, &own);
        // Events from the `log` crate contain their target in a field.
        let target = fields.remove("log.target");
        fields.retain(|name, _| !name.starts_with("log."));
        let target = target.unwrap_or_else(|| event.metadata().target().into());
        let message = fields.remove("message").unwrap_or_default();
        let level = event.metadata().level().as_str();
        write!(
            writer,
            "{{\"timestamp\":\"{timestamp}\",\"level\":\"{level}\",\"target\":{target},\"message\":{message}"
        )?;
        for (name, value) in fields {
            write!(writer, ",{}:{value}", Value::from(name))?;
        }
        writer.write_char('}')?;
        writer.write_char('\n')
    }
}

fn take(fields: &mut Map<String, Value>, pieces: &str) {
    if let Ok(Value::Object(found)) = serde_json::from_str(&format!("{{{pieces}}}")) {
        fields.extend(found);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use serde_json::json;

    use super::*;

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for Written {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn lines_of(act: impl FnOnce()) -> Vec<Value> {
        let written = Written::default();
        let into = written.clone();
        let lines = tracing_subscriber::fmt::layer()
            .with_writer(move || into.clone())
            .fmt_fields(Pieces)
            .event_format(Flat);
        let layers = tracing_subscriber::registry()
            .with(filter_fn(may_be_logged))
            .with(lines);
        tracing::subscriber::with_default(layers, act);
        let bytes = written.0.lock().unwrap().clone();
        let text = String::from_utf8(bytes).unwrap();
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    #[test]
    fn a_filter_without_a_part_for_the_program_is_invalid() {
        for filter in [
            "info",
            "WARN",
            "off",
            "openvibe=debug",
            "openvibe::tasks=debug,info",
            "sqlx::query=debug,openvibe::http",
            "[request]=debug",
            "3",
        ] {
            assert!(reaches_program(filter), "{filter}");
        }
        for filter in ["loud", "verbose", "sqlx=debug", "hyper=trace,rmcp"] {
            assert!(!reaches_program(filter), "{filter}");
        }
    }

    #[test]
    fn a_log_line_is_flat_and_includes_the_fields_of_its_spans() {
        let lines = lines_of(|| {
            let outer = tracing::info_span!(
                "request",
                request.id = "r1",
                user.id = tracing::field::Empty
            );
            let _in_outer = outer.enter();
            outer.record("user.id", tracing::field::display("u \"1\""));
            let inner = tracing::info_span!("task", task.id = %"t1", attempt = 2);
            let _in_inner = inner.enter();
            tracing::warn!(attempt = 3, ratio = 0.5, "two\nlines, \"quoted\"");
        });
        let line = &lines[0];
        assert_eq!(lines.len(), 1);
        assert_eq!(line["message"], "two\nlines, \"quoted\"");
        assert_eq!(line["level"], "WARN");
        assert_eq!(line["request.id"], "r1");
        assert_eq!(line["user.id"], "u \"1\"");
        assert_eq!(line["task.id"], "t1");
        assert_eq!((&line["attempt"], &line["ratio"]), (&json!(3), &json!(0.5)));
        assert!(line["timestamp"].as_str().unwrap().ends_with('Z'));
    }

    #[test]
    fn libraries_log_only_warnings_and_their_statements() {
        let lines = lines_of(|| {
            tracing::info!(target: "async_nats::connector", "a password");
            tracing::debug!(target: "object_store::aws", "a key");
            tracing::trace!(target: "sqlx::query", "parameters");
            tracing::error!(target: "rmcp::transport", "a header");
            tracing::debug!(target: "sqlx::query", "select 1");
            tracing::warn!(target: "async_nats::connector", "no connection");
            tracing::trace!(target: "openvibe_sqlite", "opened");
        });
        let messages: Vec<&Value> = lines.iter().map(|line| &line["message"]).collect();
        assert_eq!(messages, ["select 1", "no connection", "opened"]);
    }

    #[test]
    fn a_line_outside_of_spans_is_valid() {
        let lines = lines_of(|| tracing::info!("stopping"));
        assert_eq!(lines[0]["message"], "stopping");
    }
}
