//! Prints lines to the terminal.

use std::io::Write;

use serde_json::json;

use crate::{config::LogFormat, db::now};

pub(super) fn say(line: &str) {
    // Errors are ignored: standard output may be closed, and the server works without it.
    drop(writeln!(std::io::stdout(), "{line}"));
}

/// Prints a line of the server's start in the format of the log.
pub(super) fn say_as(format: LogFormat, line: &str) {
    match format {
        LogFormat::Text => say(line),
        LogFormat::Json => say(&json!({
            "timestamp": now(), "level": "INFO", "target": "openvibe", "message": line,
        })
        .to_string()),
    }
}

pub(super) fn say_error(line: &str) {
    drop(writeln!(std::io::stderr(), "{line}"));
}
