//! Prints lines to the terminal.

use std::io::Write;

pub(super) fn say(line: &str) {
    // Errors are ignored: standard output may be closed, and the server works without it.
    drop(writeln!(std::io::stdout(), "{line}"));
}

pub(super) fn say_error(line: &str) {
    drop(writeln!(std::io::stderr(), "{line}"));
}
